/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/sqlite/writer.h"

#include <stdio.h>
#include <string.h>

#include "support/clock.h"

enum { RETRY_MS = 200, GATHER_MS = 5 };

static void free_list(tp__queued *node) {
  while (node) {
    tp__queued *next = node->next;
    sqlite3_free(node);
    node = next;
  }
}

void tp__sqlite_log(tp_log_fn log, void *log_ctx, tp_log_level level, tp_status status, const char *message) {
  if (!log) return;
  const tp_log_record record = {
      .struct_size = sizeof record, .level = level, .status = status, .unix_ms = tp__wall_ms(), .message = message};
  log(log_ctx, &record);
}

void tp__writer_log(const tp__writer *w, tp_log_level level, tp_status status, const char *message) {
  tp__sqlite_log(w->log, w->log_ctx, level, status, message);
}

#ifdef TP_CHECKS
static void writer_check_locked(const tp__writer *w) {
  TP__LOCKED(&w->mutex);
  /* The end of an empty queue is its begin. */
  assert(w->first ? w->last != &w->first : w->last == &w->first);
  assert(!*w->last);
  /* Only records that were queued are written, and only attempts that began can fail. */
  assert(w->written <= w->queued && w->failed <= w->begun && w->failures <= w->begun);
  /* Waiting records have a size; without waiting records, the size is 0. */
  assert(w->bytes > 0 || !w->first);
  assert(w->written < w->queued || w->bytes == 0);
}
#endif

/* A queue that was full accepts records again when half of it is free. Otherwise it would accept a few small records
 * between many that it refuses. */
static bool fits_locked(const tp__writer *w, size_t bytes) {
  TP__LOCKED(&w->mutex);
  TP__CHECK(writer_check_locked(w));
  if (w->dropped_in_row > 0 && w->bytes > w->bytes_max / 2) return false;
  return w->bytes + bytes <= w->bytes_max;
}

tp_status tp__writer_add(tp__writer *w, tp__queued *node) {
  assert(node->bytes >= sizeof *node && node->count > 0);
  char message[TP_FAULT_MESSAGE_SIZE];
  tp__lock_acquire(&w->mutex);
  bool fits = fits_locked(w, node->bytes);
  bool first_dropped = !fits && w->dropped_in_row == 0;
  uint64_t ended = fits ? w->dropped_in_row : 0;
  size_t bytes_max = w->bytes_max;
  if (fits) {
    bool is_first = !w->first, half_full = w->bytes <= w->bytes_max / 2 && w->bytes + node->bytes > w->bytes_max / 2;
    node->next = NULL;
    *w->last = node;
    w->last = &node->next;
    w->bytes += node->bytes;
    w->queued += node->count;
    w->dropped_in_row = 0;
    if (is_first || half_full) tp__lock_condition_signal(&w->wanted);
  } else {
    w->dropped += node->count;
    w->dropped_in_row += node->count;
  }
  TP__CHECK(writer_check_locked(w));
  tp__lock_release(&w->mutex);
  if (first_dropped || ended > 0) {
    if (first_dropped)
      snprintf(message, sizeof message, "%s: the queue of %s is full (%zu bytes): those that come now %s", w->path,
               w->class->noun, bytes_max, w->class->refused);
    else
      snprintf(message, sizeof message, "%s: %s are taken again; %llu were not", w->path, w->class->noun,
               (unsigned long long)ended);
    tp__writer_log(w, first_dropped ? TP_LOG_ERROR : TP_LOG_WARNING, TP_ERR_FULL, message);
  }
  return fits ? TP_OK : TP_ERR_FULL;
}

void tp__writer_bound(tp__writer *w, size_t bytes_max) {
  tp__lock_acquire(&w->mutex);
  w->bytes_max = bytes_max;
  TP__CHECK(writer_check_locked(w));
  tp__lock_release(&w->mutex);
}

/* ---- the thread ---- */

/* Waits at most this long; not while a commit waits, nor at the end, nor when the queue holds more than bytes_max. */
static void wait_locked(tp__writer *w, int64_t ms, size_t bytes_max) {
  TP__LOCKED(&w->mutex);
  TP__CHECK(writer_check_locked(w));
  int64_t deadline_ns = tp__monotonic_ns() + ms * TP__NS_IN_MS;
  while (!w->hurry && !w->ending && w->bytes <= bytes_max &&
         tp__lock_condition_wait_until(&w->wanted, &w->mutex, deadline_ns))
    continue;
}

static void count_attempt_locked(tp__writer *w, uint64_t attempt, tp_status status, const tp_fault *fault,
                                 tp__queued *list) {
  TP__LOCKED(&w->mutex);
  size_t bytes = 0;
  uint64_t count = 0;
  for (; status == TP_OK && list; list = list->next) {
    bytes += list->bytes;
    count += list->count;
  }
  assert(bytes <= w->bytes && count <= w->queued - w->written);
  w->written += count;
  w->bytes -= bytes;
  TP__CHECK(writer_check_locked(w));
  if (status != TP_OK) {
    w->failed = attempt;
    w->failures++;
    w->status = status;
    w->fault = *fault;
  }
  w->is_failing = status != TP_OK;
  tp__lock_condition_broadcast(&w->changed);
}

/* Logs the first failure in a row, and the end of the row. */
static void log_change(const tp__writer *w, bool was_failing, tp_status status, const tp_fault *fault) {
  char message[TP_FAULT_MESSAGE_SIZE];
  if (status != TP_OK && !was_failing) tp__writer_log(w, TP_LOG_ERROR, status, fault->message);
  if (status != TP_OK || !was_failing) return;
  snprintf(message, sizeof message, "%s: %s are written again", w->path, w->class->noun);
  tp__writer_log(w, TP_LOG_INFO, TP_OK, message);
}

/* One transaction for all waiting records; list is the rest of an earlier attempt. @return the new rest. */
static tp__queued *attempt_locked(tp__writer *w, tp__queued *list) {
  TP__LOCKED(&w->mutex);
  TP__CHECK(writer_check_locked(w));
  bool was_failing = w->is_failing;
  uint64_t attempt = ++w->begun;
  tp_fault fault = {0};
  tp__queued **end = &list;
  while (*end) end = &(*end)->next;
  *end = w->first;
  w->first = NULL;
  w->last = &w->first;
  w->hurry = false;
  tp__lock_release(&w->mutex);
  tp_status status = w->class->write(w->ctx, list, &fault);
  log_change(w, was_failing, status, &fault);
  tp__lock_acquire(&w->mutex);
  count_attempt_locked(w, attempt, status, &fault, list);
  if (status != TP_OK) return list;
  tp__lock_release(&w->mutex);
  free_list(list);
  tp__lock_acquire(&w->mutex);
  return NULL;
}

static void *run_writer(void *ctx) {
  tp__writer *w = ctx;
  tp__queued *list = NULL;
  tp__lock_acquire(&w->mutex);
  for (;;) {
    while (!list && !w->first && !w->ending) tp__lock_condition_wait(&w->wanted, &w->mutex);
    if (!list && !w->first) break;
    if (!list) wait_locked(w, GATHER_MS, w->bytes_max / 2);
    bool last_attempt = w->ending;
    list = attempt_locked(w, list);
    if (list && last_attempt) break;
    if (list) {
      wait_locked(w, RETRY_MS, SIZE_MAX);
      continue;
    }
    if (!w->class->written) continue;
    tp__lock_release(&w->mutex);
    w->class->written(w->ctx);
    tp__lock_acquire(&w->mutex);
  }
  uint64_t lost = w->queued - w->written;
  w->dropped += lost;
  tp_status status = w->status;
  tp__lock_release(&w->mutex);
  free_list(list);
  if (lost == 0) return NULL;
  char message[TP_FAULT_MESSAGE_SIZE];
  snprintf(message, sizeof message, "%s: %llu %s were lost: they could not be written before the file was closed",
           w->path, (unsigned long long)lost, w->class->noun);
  tp__writer_log(w, TP_LOG_ERROR, status, message);
  return NULL;
}

tp_status tp__writer_commit(tp__writer *w, tp_fault *fault) {
  tp__lock_acquire(&w->mutex);
  uint64_t target = w->queued, begun = w->begun;
  tp_status status = TP_OK;
  while (w->written < target && w->failed <= begun) {
    w->hurry = true;
    tp__lock_condition_signal(&w->wanted);
    tp__lock_condition_wait(&w->changed, &w->mutex);
  }
  if (w->written < target) {
    status = w->status;
    if (fault) *fault = w->fault;
  }
  tp__lock_release(&w->mutex);
  return status;
}

/* ---- life ---- */

tp_status tp__writer_init(tp__writer *w, const tp__writer_class *class, void *ctx, const char *path, size_t bytes_max,
                          tp_log_fn log, void *log_ctx, tp_fault *fault) {
  assert(class->noun && class->refused && class->write && path);
  *w = (tp__writer){.class = class, .ctx = ctx, .path = path, .log = log, .log_ctx = log_ctx, .bytes_max = bytes_max};
  w->last = &w->first;
  tp__lock_init(&w->mutex, TP__LOCK_writer);
  tp__lock_condition_init(&w->wanted);
  tp__lock_condition_init(&w->changed);
  w->started = tp__thread_spawn(&w->thread, run_writer, w) == 0;
  if (w->started) return TP_OK;
  tp__lock_condition_fini(&w->changed);
  tp__lock_condition_fini(&w->wanted);
  tp__lock_fini(&w->mutex);
  return tp__refuse(fault, TP_ERR_NO_THREAD, path, "%s: no thread to write %s", path, class->noun);
}

void tp__writer_fini(tp__writer *w) {
  if (!w->started) return;
  tp__lock_acquire(&w->mutex);
  w->ending = true;
  tp__lock_condition_signal(&w->wanted);
  tp__lock_release(&w->mutex);
  pthread_join(w->thread, NULL);
  tp__lock_condition_fini(&w->changed);
  tp__lock_condition_fini(&w->wanted);
  tp__lock_fini(&w->mutex);
}
