/* SPDX-License-Identifier: Apache-2.0
 *
 * process.h: for hosts and domains that run programs: child processes with deadlines, on one thread.
 *
 * A process loop has one thread for all of its children, however many there are, and holds no other thread while a
 * child runs. Starting a child costs the same whatever the memory of the host. The library installs no handler for
 * SIGCHLD, waits for no child but its own, and leaves the host's signal dispositions as they are. When the
 * host ignores SIGCHLD, or waits for children that it has not started, their status is lost: TP_PROCESS_LOST.
 *
 * The end of a child is decided by its exit, its deadline, its output limits or a cancel, never by end-of-file: a
 * process that the child has started and that holds its output open delays nothing. Each child leads a process group of
 * its own, and the whole group is killed before the end is reported; a process that left the group is killed when it
 * still holds the output. A process that left the group and closed both outputs is a daemon, and is not ended.
 *
 * A host that dies leaves no group behind, whatever killed it: with its first child a loop starts a supervisor, a
 * /bin/sh that waits for the end of the host and kills the groups that run then. It is one more child of the host until
 * the loop is freed. There is no supervisor on a system without /bin/sh. While a process that the host has forked still
 * runs, the supervisor waits for it, too. Processes that left their group are not found any more.
 * Threads: any, unless a declaration says otherwise. */
#ifndef TURNPHASE_PROCESS_H
#define TURNPHASE_PROCESS_H

#include "turnphase/base.h"

TP_BEGIN_DECLS

/** Starts and waits for child processes. */
typedef struct tp_process_loop tp_process_loop;

/** Options of a process loop; zero means default. */
typedef struct tp_process_loop_options {
  size_t struct_size;
  tp_allocator allocator;
  /** The most children at once; 0: 1,024; at most 65,536. */
  uint32_t processes_max;
  /** Zero. */
  uint32_t reserved_;
} tp_process_loop_options;

/** Makes a loop. Its thread starts with the first child, so a host may fork before.
 *  @param options  borrowed; may be NULL.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_NO_MEMORY; TP_ERR_SYSTEM when the process has no
 *          descriptor left.
 *  Threads: any.
 *  Blocks: no.  From a hook: yes. */
TP_API tp_status tp_process_loop_new(const tp_process_loop_options *options, tp_process_loop **ret_loop,
                                     tp_fault *fault) TP_MUST_USE;

/** Kills all running children (TP_PROCESS_CANCELLED; on_end is called for each), ends the thread and frees. Accepts
 *  NULL. From an on_end of this loop it returns at once, and the thread frees the loop when it has ended the other
 *  children. No other thread may be in a call of this loop. In the child of a fork it does nothing.
 *  Threads: any.
 *  Blocks: until the children are dead, milliseconds.  From a hook: yes. */
TP_API void tp_process_loop_free(tp_process_loop *loop);

/** Kills all running children at once, as tp_process_loop_free() does, and waits for their end; after that the loop can
 *  start others. Accepts NULL. From an on_end of this loop it kills the others and returns. In the child of a fork it
 *  does nothing. While it waits, tp_process_start() returns TP_ERR_SHUTDOWN.
 *  Threads: any.
 *  Blocks: until the children are dead, milliseconds.  From a hook: yes. */
TP_API void tp_process_loop_end(tp_process_loop *loop);

/** How many children were started and have not ended. The answer may be out of date when it is read. Threads: any. */
TP_API size_t tp_process_loop_count(tp_process_loop *loop);

/** What decided the end of a child. */
typedef enum tp_process_end {
  TP_PROCESS_EXITED = 1,       /* it returned exit_code */
  TP_PROCESS_KILLED = 2,       /* ended by a signal that the library has not sent */
  TP_PROCESS_TIMED_OUT = 3,    /* its deadline passed */
  TP_PROCESS_OUTPUT_LIMIT = 4, /* it wrote more than output_max or errors_max */
  TP_PROCESS_CANCELLED = 5,    /* tp_process_cancel() or tp_process_loop_free() */
  TP_PROCESS_LOST = 6,         /* it ended, and its status is not known: see the head of this file */
  TP_PROCESS_END_FORCE_32 = 0x7fffffff
} tp_process_end;

/** "exited", "killed", "timed_out", "output_limit", "cancelled", "lost"; "unknown" for any other number. Static
 *  text. Threads: any. */
TP_API const char *tp_process_end_name(tp_process_end end);

/** Receives the output of a resident child on descriptor 1, in pieces, before on_end. It must not wait.
 *  Threads: that of the loop. */
typedef void (*tp_process_output_fn)(void *ctx, tp_text piece);

/** A program to run. Zero means default. Everything is copied. */
typedef struct tp_process_options {
  size_t struct_size;
  /** Ended by NULL; arguments[0] is the path of the program, which is not searched for. */
  const char *const *arguments;
  /** All of its environment: "NAME=value", ended by NULL; NULL: empty. */
  const char *const *environment;
  /** Where it runs; NULL: where the host does. */
  const char *directory;
  /** The input that it reads from descriptor 0, before end-of-file. */
  tp_text input;
  /** The time from the start to the deadline; 0: 30,000. */
  uint32_t limit_ms;
  /** The time from SIGTERM at the deadline to SIGKILL; 0: 20; at most 10,000. */
  uint32_t grace_ms;
  /** The most bytes of descriptor 1; 0: 1 MiB; at most 1 GiB. */
  uint32_t output_max;
  /** The most bytes of descriptor 2; 0: 1 MiB; at most 1 GiB. */
  uint32_t errors_max;
  /** When set, the child is resident: it gets input by tp_process_write() until tp_process_close_input(), and has no
   *  deadline if limit_ms is 0. The first errors_max bytes of descriptor 2 are kept. output_max must be 0, and ctx is
   *  that of on_end. NULL: the child is not resident. */
  tp_process_output_fn on_output;
} tp_process_options;

/** How a child ended. Made by the library; borrowed till on_end returns. */
typedef struct tp_process_result {
  size_t struct_size;
  tp_process_end end;
  int32_t exit_code;   /* with EXITED */
  int32_t signal;      /* with KILLED */
  uint32_t escaped;    /* how many processes had left the group and held the output; they were killed */
  int64_t duration_ms; /* from the start until the end was decided */
  tp_text output;      /* what was written to descriptor 1 until then, at most output_max bytes */
  tp_text errors;      /* the same of descriptor 2 */
} tp_process_result;

/** Receives the end of a child, exactly once, when its process group is dead. Called without a lock. It must not wait,
 *  since all other children of the loop wait for it. It may start and cancel children.
 *  Threads: that of the loop. */
typedef void (*tp_process_end_fn)(void *ctx, const tp_process_result *result);

/** Starts a child. It gets descriptors 0, 1 and 2 and no other, no blocked signal, and the default disposition of all
 *  signals. on_end may come before this returns; it does not come when this fails.
 *  At the deadline, at a limit of output and at a cancel the group gets SIGTERM (and SIGCONT, when it was stopped), and
 *  SIGKILL after grace_ms. The end of a child that the kernel does not let die is reported 20 ms after that.
 *  @param options  borrowed.
 *  @param ret_id   for tp_process_cancel(); may be NULL.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_FULL at processes_max; TP_ERR_SYSTEM when the
 *          program cannot be started, with errno in fault->system_error (ENOENT: not there, or its interpreter is not;
 *          EACCES: not executable; ENOEXEC: no program); TP_ERR_NO_MEMORY; TP_ERR_NO_THREAD; TP_ERR_SHUTDOWN from an
 *          on_end while the loop is being freed; TP_ERR_FORKED.
 *  Threads: any.
 *  Blocks: until the kernel has loaded the program.  From a hook: yes, in one of placement thread. */
TP_API tp_status tp_process_start(tp_process_loop *loop, const tp_process_options *options, tp_process_end_fn on_end,
                                  void *ctx, uint64_t *ret_id, tp_fault *fault) TP_MUST_USE;

enum tp_process_limits { TP_PROCESS_QUEUE_MAX = 16 << 20 /* bytes that wait for a resident child to read them */ };

/** Writes to descriptor 0 of a resident child, which is a socket; bytes that the child does not read at once wait.
 *  @param bytes  copied; pieces of several writers do not mix.
 *  @return TP_OK; TP_ERR_STALE: the child has ended, has closed its input, is not resident, or its input was closed;
 *          TP_ERR_FULL: more than TP_PROCESS_QUEUE_MAX bytes would wait; TP_ERR_NO_MEMORY; TP_ERR_FORKED.
 *  Threads: any.
 *  Blocks: no.  From a hook: yes. */
TP_API tp_status tp_process_write(tp_process_loop *loop, uint64_t id, tp_text bytes) TP_MUST_USE;
/** Closes descriptor 0 of a resident child after the bytes that wait. Does nothing when it has ended.
 *  Threads: any.
 *  Blocks: no.  From a hook: yes. */
TP_API void tp_process_close_input(tp_process_loop *loop, uint64_t id);

/** Ends a child as its deadline would: TP_PROCESS_CANCELLED. Does nothing when it has ended or its end was decided.
 *  Threads: any.
 *  Blocks: no.  From a hook: yes. */
TP_API void tp_process_cancel(tp_process_loop *loop, uint64_t id);

TP_END_DECLS
#endif
