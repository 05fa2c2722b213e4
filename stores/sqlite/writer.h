/* SPDX-License-Identifier: Apache-2.0
 *
 * writer: a queue that is bounded in bytes, and a thread that writes all waiting items in one transaction. The thread
 * waits a moment before it writes, unless a commit waits. So producers seldom wake it, and entries also gather during
 * the sync. Items that could not be written stay in the queue, and are tried again five times a second. So when a disk
 * has free space again, no restart is needed. Meanwhile the queue fills; items that do not fit are refused and counted.
 * The log shows the beginning and the end of such a state. Lock: the queue's; nothing is called under it. */
#ifndef TP__SQLITE_WRITER_H
#define TP__SQLITE_WRITER_H

#include "stores/sqlite/database.h"
#include "support/lock.h"
#include "turnphase/runtime.h"

/** The head of a waiting item, at the start of a block of sqlite3_malloc64(). */
typedef struct tp__queued {
  struct tp__queued *next;
  size_t bytes;
  uint64_t count; /* how many records it stands for */
} tp__queued;

typedef struct tp__writer_class {
  const char *noun;    /* of what waits: "records" */
  const char *refused; /* for messages, what happens to items that do not fit: "are dropped" */
  /** Writes the whole list in one transaction, or nothing of it. */
  tp_status (*write)(void *ctx, tp__queued *list, tp_fault *fault);
  /** Called after a transaction, on the thread. May be NULL. */
  void (*written)(void *ctx);
} tp__writer_class;

typedef struct tp__writer {
  /* never changes after init */
  const tp__writer_class *class;
  void *ctx;
  const char *path;
  tp_log_fn log; /* may be NULL */
  void *log_ctx;
  pthread_t thread;
  bool started;
  tp__lock mutex;
  tp__lock_condition wanted;  /* something waits, a commit is requested, or the writer ends */
  tp__lock_condition changed; /* an attempt to write ended */
  /* ---- under mutex */
  tp__queued *first, **last;
  uint64_t queued, written; /* how many records were ever */
  uint64_t begun, failed;   /* attempts to write: how many began; the number of the last one that failed */
  uint64_t failures;
  uint64_t dropped;        /* records */
  uint64_t dropped_in_row; /* since the queue was last below its bound */
  size_t bytes, bytes_max;
  bool hurry, ending, is_failing;
  tp_status status; /* of the last attempt that failed */
  tp_fault fault;
} tp__writer;

/** Logs a line. @param log  may be NULL. */
void tp__sqlite_log(tp_log_fn log, void *log_ctx, tp_log_level level, tp_status status, const char *message);

/** Starts the thread. class, path and ctx must stay until fini.
 *  @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_NO_THREAD. */
tp_status tp__writer_init(tp__writer *writer, const tp__writer_class *class, void *ctx, const char *path,
                          size_t bytes_max, tp_log_fn log, void *log_ctx, tp_fault *fault);
/** Writes the waiting items, with one attempt, and ends the thread. Accepts a writer that was not started. */
void tp__writer_fini(tp__writer *writer);
/** Bounds the queue anew. */
void tp__writer_bound(tp__writer *writer, size_t bytes_max);
/** @param node  taken on success.
 *  @return TP_OK; TP_ERR_FULL when the queue is full: then the item is counted as dropped. Any thread; the caller must
 *    hold no lock, because this may log. */
tp_status tp__writer_add(tp__writer *writer, tp__queued *node);
/** Waits until all items that were added before are committed, or until an attempt that began after the call has
 *  failed. Any thread. */
tp_status tp__writer_commit(tp__writer *writer, tp_fault *fault);
/** Notifies the host. Any thread. */
void tp__writer_log(const tp__writer *writer, tp_log_level level, tp_status status, const char *message);

#endif
