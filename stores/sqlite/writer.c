/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/sqlite/writer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RETRY_MS = 200, GATHER_MS = 5 };

static void free_list(tp__queued *node) {
  while (node) {
    tp__queued *next = node->next;
    sqlite3_free(node);
    node = next;
  }
}

int64_t tp__sqlite_ms_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct timespec tp__sqlite_after_ms(int64_t ms) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t ns = until.tv_nsec + ms * 1000000;
  until.tv_sec += (time_t)(ns / 1000000000);
  until.tv_nsec = (long)(ns % 1000000000);
  return until;
}

void tp__sqlite_log(tp_log_fn log, void *log_ctx, tp_log_level level, tp_status status, const char *message) {
  if (!log) return;
  const tp_log_record record = {.struct_size = sizeof record,
                                .level = level,
                                .status = status,
                                .unix_ms = tp__sqlite_ms_of(CLOCK_REALTIME),
                                .message = message};
  log(log_ctx, &record);
}

void tp__writer_log(const tp__writer *w, tp_log_level level, tp_status status, const char *message) {
  tp__sqlite_log(w->log, w->log_ctx, level, status, message);
}

/* A queue that was full takes records again when half of it is free: not a small record that just fits, between others
 * that do not. */
static bool fits_locked(const tp__writer *w, size_t bytes) {
  if (w->dropped_in_row > 0 && w->bytes > w->bytes_max / 2) return false;
  return w->bytes + bytes <= w->bytes_max;
}

tp_status tp__writer_add(tp__writer *w, tp__queued *node) {
  char message[TP_FAULT_MESSAGE_SIZE];
  pthread_mutex_lock(&w->mutex);
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
    if (is_first || half_full) pthread_cond_signal(&w->wanted);
  } else {
    w->dropped += node->count;
    w->dropped_in_row += node->count;
  }
  pthread_mutex_unlock(&w->mutex);
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
  pthread_mutex_lock(&w->mutex);
  w->bytes_max = bytes_max;
  pthread_mutex_unlock(&w->mutex);
}

/* ---- the thread ---- */

/* At most so long; not while a commit is waited for, nor at the end, nor when the queue is fuller than that. */
static void wait_locked(tp__writer *w, int64_t ms, size_t bytes_max) {
  struct timespec until = tp__sqlite_after_ms(ms);
  while (!w->hurry && !w->ending && w->bytes <= bytes_max &&
         pthread_cond_timedwait(&w->wanted, &w->mutex, &until) != ETIMEDOUT)
    continue;
}

static void count_attempt_locked(tp__writer *w, uint64_t attempt, tp_status status, const tp_fault *fault,
                                 tp__queued *list) {
  size_t bytes = 0;
  uint64_t count = 0;
  for (; status == TP_OK && list; list = list->next) {
    bytes += list->bytes;
    count += list->count;
  }
  w->written += count;
  w->bytes -= bytes;
  if (status != TP_OK) {
    w->failed = attempt;
    w->failures++;
    w->status = status;
    w->fault = *fault;
  }
  w->is_failing = status != TP_OK;
  pthread_cond_broadcast(&w->changed);
}

/* The first failure of a row of them, and its end. */
static void log_change(const tp__writer *w, bool was_failing, tp_status status, const tp_fault *fault) {
  char message[TP_FAULT_MESSAGE_SIZE];
  if (status != TP_OK && !was_failing) tp__writer_log(w, TP_LOG_ERROR, status, fault->message);
  if (status != TP_OK || !was_failing) return;
  snprintf(message, sizeof message, "%s: %s are written again", w->path, w->class->noun);
  tp__writer_log(w, TP_LOG_INFO, TP_OK, message);
}

/* One transaction with all that waits; list is what an attempt before left. @return what is left now. */
static tp__queued *attempt_locked(tp__writer *w, tp__queued *list) {
  bool was_failing = w->is_failing;
  uint64_t attempt = ++w->begun;
  tp_fault fault = {0};
  tp__queued **end = &list;
  while (*end) end = &(*end)->next;
  *end = w->first;
  w->first = NULL;
  w->last = &w->first;
  w->hurry = false;
  pthread_mutex_unlock(&w->mutex);
  tp_status status = w->class->write(w->ctx, list, &fault);
  log_change(w, was_failing, status, &fault);
  pthread_mutex_lock(&w->mutex);
  count_attempt_locked(w, attempt, status, &fault, list);
  if (status != TP_OK) return list;
  pthread_mutex_unlock(&w->mutex);
  free_list(list);
  pthread_mutex_lock(&w->mutex);
  return NULL;
}

static void *write_all(void *ctx) {
  tp__writer *w = ctx;
  tp__queued *list = NULL;
  pthread_mutex_lock(&w->mutex);
  for (;;) {
    while (!list && !w->first && !w->ending) pthread_cond_wait(&w->wanted, &w->mutex);
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
    pthread_mutex_unlock(&w->mutex);
    w->class->written(w->ctx);
    pthread_mutex_lock(&w->mutex);
  }
  uint64_t lost = w->queued - w->written;
  w->dropped += lost;
  tp_status status = w->status;
  pthread_mutex_unlock(&w->mutex);
  free_list(list);
  if (lost == 0) return NULL;
  char message[TP_FAULT_MESSAGE_SIZE];
  snprintf(message, sizeof message, "%s: %llu %s were lost: they could not be written before the file was closed",
           w->path, (unsigned long long)lost, w->class->noun);
  tp__writer_log(w, TP_LOG_ERROR, status, message);
  return NULL;
}

tp_status tp__writer_commit(tp__writer *w, tp_fault *fault) {
  pthread_mutex_lock(&w->mutex);
  uint64_t target = w->queued, begun = w->begun;
  tp_status status = TP_OK;
  while (w->written < target && w->failed <= begun) {
    w->hurry = true;
    pthread_cond_signal(&w->wanted);
    pthread_cond_wait(&w->changed, &w->mutex);
  }
  if (w->written < target) {
    status = w->status;
    if (fault) *fault = w->fault;
  }
  pthread_mutex_unlock(&w->mutex);
  return status;
}

/* ---- life ---- */

int tp__sqlite_start_thread(pthread_t *ret_thread, void *(*run)(void *), void *ctx) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(ret_thread, NULL, run, ctx);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

int tp__sqlite_cond_init(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  int error = pthread_condattr_init(&attributes);
  if (error) return error;
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  error = pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
  return error;
}

static int init_conditions(tp__writer *w) {
  int error = tp__sqlite_cond_init(&w->wanted);
  if (!error && (error = tp__sqlite_cond_init(&w->changed)) != 0) pthread_cond_destroy(&w->wanted);
  return error;
}

tp_status tp__writer_init(tp__writer *w, const tp__writer_class *class, void *ctx, const char *path, size_t bytes_max,
                          tp_log_fn log, void *log_ctx, tp_fault *fault) {
  *w = (tp__writer){.class = class, .ctx = ctx, .path = path, .log = log, .log_ctx = log_ctx, .bytes_max = bytes_max};
  w->last = &w->first;
  if (pthread_mutex_init(&w->mutex, NULL) != 0) return tp__sqlite_fail(NULL, path, "open", SQLITE_NOMEM, fault);
  if (init_conditions(w) != 0) {
    pthread_mutex_destroy(&w->mutex);
    return tp__sqlite_fail(NULL, path, "open", SQLITE_NOMEM, fault);
  }
  w->started = tp__sqlite_start_thread(&w->thread, write_all, w) == 0;
  if (w->started) return TP_OK;
  pthread_cond_destroy(&w->changed);
  pthread_cond_destroy(&w->wanted);
  pthread_mutex_destroy(&w->mutex);
  return tp__sqlite_refuse(fault, TP_ERR_NO_THREAD, path, "%s: no thread to write %s", path, class->noun);
}

void tp__writer_fini(tp__writer *w) {
  if (!w->started) return;
  pthread_mutex_lock(&w->mutex);
  w->ending = true;
  pthread_cond_signal(&w->wanted);
  pthread_mutex_unlock(&w->mutex);
  pthread_join(w->thread, NULL);
  pthread_cond_destroy(&w->changed);
  pthread_cond_destroy(&w->wanted);
  pthread_mutex_destroy(&w->mutex);
}
