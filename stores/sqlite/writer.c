/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that writes records. It takes all that wait and writes them in one transaction; before that, unless a
 * commit is waited for, and while it is synced, the next ones gather: a turn that hands one over seldom wakes it. What
 * it could not write stays in the queue's bytes and is tried again, so that a disk that has room again needs no
 * restart; meanwhile the queue fills, and what does not fit is dropped and counted. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "stores/sqlite/sqlite_store.h"
#include "stores/sqlite/statement.h"

enum { RETRY_MS = 200, GATHER_MS = 5 };

static void free_list(tp__waiting *node) {
  while (node) {
    tp__waiting *next = node->next;
    sqlite3_free(node);
    node = next;
  }
}

static void emit_log(const tp__sqlite_store *s, tp_log_level level, tp_status status, const char *message) {
  struct timespec now;
  if (!s->options.log) return;
  clock_gettime(CLOCK_REALTIME, &now);
  tp_log_record record = {.struct_size = sizeof record,
                          .level = level,
                          .status = status,
                          .unix_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
                          .message = message};
  s->options.log(s->options.log_ctx, &record);
}

void tp__writer_log_key(tp__sqlite_store *s, tp_status status, const tp_fault *fault) {
  if (!s->writer.has_no_key) emit_log(s, TP_LOG_WARNING, status, fault->message);
  s->writer.has_no_key = true;
}

/* A queue that was full takes records again when half of it is free: not a small record that just fits, between others
 * that do not. */
static bool fits_locked(const tp__writer *w, size_t bytes) {
  if (w->dropped_in_row > 0 && w->bytes > w->bytes_max / 2) return false;
  return w->bytes + bytes <= w->bytes_max;
}

tp_status tp__writer_add(tp__sqlite_store *s, tp__waiting *node) {
  tp__writer *w = &s->writer;
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
    w->queued++;
    w->dropped_in_row = 0;
    if (is_first || half_full) pthread_cond_signal(&w->wanted);
  } else {
    w->dropped++;
    w->dropped_in_row++;
  }
  pthread_mutex_unlock(&w->mutex);
  if (!fits) sqlite3_free(node);
  if (first_dropped || ended > 0) {
    if (first_dropped)
      snprintf(message, sizeof message, "%s: the queue of records is full (%zu bytes): records are dropped", s->path,
               bytes_max);
    else
      snprintf(message, sizeof message, "%s: records are taken again; %llu were dropped", s->path,
               (unsigned long long)ended);
    emit_log(s, first_dropped ? TP_LOG_ERROR : TP_LOG_WARNING, TP_ERR_FULL, message);
  }
  return fits ? TP_OK : TP_ERR_FULL;
}

void tp__writer_bound(tp__sqlite_store *s, size_t bytes_max) {
  pthread_mutex_lock(&s->writer.mutex);
  s->writer.bytes_max = bytes_max;
  pthread_mutex_unlock(&s->writer.mutex);
}

/* ---- the thread ---- */

static tp_status write_list(tp__sqlite_store *s, const tp__waiting *list, tp_fault *fault) {
  pthread_mutex_lock(&s->mutex);
  int rc = tp__sqlite_begin(s->db);
  if (rc == SQLITE_OK) rc = tp__sqlite_write_locked(s, list);
  tp_status status = rc == SQLITE_OK ? TP_OK : tp__store_fail(s, s->db, "write records", rc, fault);
  int end = tp__store_end_locked(s, rc);
  if (status == TP_OK && end != SQLITE_OK) status = tp__store_fail(s, s->db, "commit records", end, fault);
  pthread_mutex_unlock(&s->mutex);
  return status;
}

/* At most so long; not while a commit is waited for, nor at the end, nor when the queue is fuller than that. */
static void wait_locked(tp__writer *w, int64_t ms, size_t bytes_max) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += ms * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while (!w->hurry && !w->ending && w->bytes <= bytes_max &&
         pthread_cond_timedwait(&w->wanted, &w->mutex, &until) != ETIMEDOUT)
    continue;
}

static void count_attempt_locked(tp__writer *w, uint64_t attempt, tp_status status, const tp_fault *fault,
                                 tp__waiting *list) {
  size_t bytes = 0;
  uint64_t count = 0;
  for (; status == TP_OK && list; list = list->next) {
    bytes += list->bytes;
    count++;
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
static void log_change(const tp__sqlite_store *s, bool was_failing, tp_status status, const tp_fault *fault) {
  char message[TP_FAULT_MESSAGE_SIZE];
  if (status != TP_OK && !was_failing) emit_log(s, TP_LOG_ERROR, status, fault->message);
  if (status != TP_OK || !was_failing) return;
  snprintf(message, sizeof message, "%s: records are written again", s->path);
  emit_log(s, TP_LOG_INFO, TP_OK, message);
}

/* One transaction with all that waits; list is what an attempt before left. @return what is left now. */
static tp__waiting *attempt_locked(tp__sqlite_store *s, tp__waiting *list) {
  tp__writer *w = &s->writer;
  bool was_failing = w->is_failing;
  uint64_t attempt = ++w->begun;
  tp_fault fault = {0};
  tp__waiting **end = &list;
  while (*end) end = &(*end)->next;
  *end = w->first;
  w->first = NULL;
  w->last = &w->first;
  w->hurry = false;
  pthread_mutex_unlock(&w->mutex);
  tp_status status = write_list(s, list, &fault);
  log_change(s, was_failing, status, &fault);
  pthread_mutex_lock(&w->mutex);
  count_attempt_locked(w, attempt, status, &fault, list);
  if (status != TP_OK) return list;
  pthread_mutex_unlock(&w->mutex);
  free_list(list);
  pthread_mutex_lock(&w->mutex);
  return NULL;
}

/* The first failure of a row of them is logged. A bound that is smaller than what must be kept is, too. */
static void retain(tp__sqlite_store *s) {
  tp__writer *w = &s->writer;
  tp_fault fault = {0};
  bool none_left = false;
  char message[TP_FAULT_MESSAGE_SIZE];
  tp_status status = tp__sqlite_retain(s, &none_left, &fault);
  if (status != TP_OK && !w->retention_failed) emit_log(s, TP_LOG_WARNING, status, fault.message);
  w->retention_failed = status != TP_OK;
  if (none_left && !w->too_large) {
    snprintf(message, sizeof message,
             "%s: the history and the jobs alone are larger than bytes_max (%llu): no records are kept", s->path,
             (unsigned long long)s->options.bytes_max);
    emit_log(s, TP_LOG_WARNING, TP_ERR_FULL, message);
  }
  w->too_large = none_left;
}

static void *write_all(void *ctx) {
  tp__sqlite_store *s = ctx;
  tp__writer *w = &s->writer;
  tp__waiting *list = NULL;
  pthread_mutex_lock(&w->mutex);
  for (;;) {
    while (!list && !w->first && !w->ending) pthread_cond_wait(&w->wanted, &w->mutex);
    if (!list && !w->first) break;
    if (!list) wait_locked(w, GATHER_MS, w->bytes_max / 2);
    bool last_attempt = w->ending;
    list = attempt_locked(s, list);
    if (list && last_attempt) break;
    if (list) {
      wait_locked(w, RETRY_MS, SIZE_MAX);
      continue;
    }
    pthread_mutex_unlock(&w->mutex);
    retain(s);
    pthread_mutex_lock(&w->mutex);
  }
  uint64_t lost = w->queued - w->written;
  w->dropped += lost;
  tp_status status = w->status;
  pthread_mutex_unlock(&w->mutex);
  free_list(list);
  if (lost == 0) return NULL;
  char message[TP_FAULT_MESSAGE_SIZE];
  snprintf(message, sizeof message, "%s: %llu records were lost: they could not be written before the store was closed",
           s->path, (unsigned long long)lost);
  emit_log(s, TP_LOG_ERROR, status, message);
  return NULL;
}

tp_status tp__sqlite_commit(void *self, tp_fault *fault) {
  tp__sqlite_store *s = self;
  tp__writer *w = &s->writer;
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

/* Signals are the host's: none is delivered to our thread. */
static int start_thread(tp__sqlite_store *s) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&s->writer.thread, NULL, write_all, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

static int init_conditions(tp__writer *w) {
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes) != 0) return -1;
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  int error = pthread_cond_init(&w->wanted, &attributes);
  if (!error && (error = pthread_cond_init(&w->changed, &attributes)) != 0) pthread_cond_destroy(&w->wanted);
  pthread_condattr_destroy(&attributes);
  return error;
}

tp_status tp__writer_init(tp__sqlite_store *s, tp_fault *fault) {
  tp__writer *w = &s->writer;
  w->last = &w->first;
  w->bytes_max = s->options.queue_bytes_max;
  if (pthread_mutex_init(&w->mutex, NULL) != 0) return tp__store_fail(s, NULL, "open", SQLITE_NOMEM, fault);
  if (init_conditions(w) != 0) {
    pthread_mutex_destroy(&w->mutex);
    return tp__store_fail(s, NULL, "open", SQLITE_NOMEM, fault);
  }
  w->started = start_thread(s) == 0;
  if (w->started) return TP_OK;
  pthread_cond_destroy(&w->changed);
  pthread_cond_destroy(&w->wanted);
  pthread_mutex_destroy(&w->mutex);
  return tp__sqlite_refuse(fault, TP_ERR_NO_THREAD, s->path, "%s: no thread to write records", s->path);
}

void tp__writer_fini(tp__sqlite_store *s) {
  tp__writer *w = &s->writer;
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
