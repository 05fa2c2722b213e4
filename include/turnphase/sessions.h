/* SPDX-License-Identifier: Apache-2.0
 *
 * sessions.h: sessions that a file (sqlite.h) or a database (postgres.h) has: which ones, their numbers and rows, and
 * what is erased or exported of them. */
#ifndef TURNPHASE_SESSIONS_H
#define TURNPHASE_SESSIONS_H

#include "turnphase/base.h"

TP_BEGIN_DECLS

/** Which sessions. Zero-filled: all. */
typedef struct tp_kept_query {
  size_t struct_size;
  /** NULL: any. "" is what no tenant, or no session, has: rows of turns without one. */
  const char *tenant, *session;
  /** Only sessions of which nothing is as new; 0: any. One whose time is not known is not among them. */
  int64_t before_unix_ms;
  /** At most so many; 0: all. */
  size_t limit;
} tp_kept_query;

/** One session, with its numbers. Made by the library; borrowed till the callback returns. */
typedef struct tp_kept_session {
  size_t struct_size;
  uint64_t messages;                      /* of the history */
  uint64_t turns, entries, calls, audits; /* records; calls of tools that are not idempotent */
  uint64_t jobs, questions, tasks;
  int64_t first_unix_ms, last_unix_ms; /* its oldest and newest activity; 0: not known */
  /** Of a file: a live process that runs a turn or a job of it; 0: none is known. */
  int64_t process_id;
  tp_text tenant, session;
  /** The rest of that process's lease, while its turn has the session; 0: no turn has it. */
  int64_t lease_ms;
  /** Of a database: the address of a process that runs a turn or a job of it, and whose lease has not ended; empty:
   *  none. */
  tp_text holder;
} tp_kept_session;
/** False stops. Threads: the calling one. */
typedef bool (*tp_kept_session_fn)(void *ctx, const tp_kept_session *session);

/** Receives a row of a session as a value: a map of its columns, in which texts that are no UTF-8 are bytes.
 *  @param kind  "message", "tool_call", "turn", "step", "running", "running_step", "entry", "run", "attempt",
 *               "content", "audit", "call", "job", "question", "task".
 *  False stops. Threads: the calling one. */
typedef bool (*tp_kept_row_fn)(void *ctx, const char *kind, tp_text row);

/** A session that begins with what another one has. */
typedef struct tp_kept_fork {
  size_t struct_size;
  /** NULL: none; of both sessions. */
  const char *tenant;
  /** Required, both. */
  const char *session, *new_session;
  /** The last turn that the new session has; NULL: all. */
  const char *turn;
} tp_kept_fork;

/** A request to erase sessions, or to export them. The first three as in tp_kept_query. */
typedef struct tp_kept_choice {
  size_t struct_size;
  const char *tenant, *session;
  int64_t before_unix_ms;
  /** Of a file, 1: also while other processes use it. Their memory and their queues may still have what is erased, and
   *  write it again. A database is always erased so: 0 and 1 are the same. */
  uint32_t with_others;
  /** 1: nothing is erased; ret_erased has what would be. */
  uint32_t only_counts;
  /* With one of the next three only turns are erased that fit all that are given, of the sessions that fit, which may
   * go on. A turn goes as a whole, since an answer repeats what was said, and with it its jobs that have not ended; a
   * job and a task also go by themselves where they fit. NULL and 0: not given. */
  /** Turns that have this text, of 4 bytes or more, byte for byte: in what is said, arguments, results, files, reasons
   *  or ids, but not in names of handlers or of the tenant. */
  const char *matching;
  /** Turns of a person: of the workspace or thread of that id, by the records of the turn, or what a user says in them
   *  begins with "ID: ". */
  const char *person;
  /** Turns of which nothing is as new. */
  int64_t turns_before_unix_ms;
} tp_kept_choice;
enum tp_kept_limits { TP_KEPT_MATCHING_BYTES_MIN = 4 /* of tp_kept_choice.matching */ };

/** What an erasure did. The caller sets struct_size; it is filled that far, and struct_size says how far. */
typedef struct tp_kept_erased {
  size_t struct_size;
  uint64_t sessions, rows;  /* erased */
  uint64_t sessions_in_use; /* that stay, since a live process runs a turn or a job of them */
  int64_t process_id;       /* of a file: of that process */
  /** Of a file, 1: no copy of a deleted row is left in it or its log. Of a database always 0: the server has copies
   *  until it vacuums. */
  uint32_t is_complete;
  uint32_t reserved_;     /* zero */
  uint64_t turns;         /* where turns were chosen: how many */
  uint64_t turns_unknown; /* with person: turns and tasks that stay, since no record says whose they are */
} tp_kept_erased;

/** Receives a row of an export: kind and row as of tp_kept_row_fn, and whose it is.
 *  False stops. Threads: the calling one. */
typedef bool (*tp_kept_export_fn)(void *ctx, const tp_kept_session *session, const char *kind, tp_text row);

TP_END_DECLS
#endif
