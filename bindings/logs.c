/* SPDX-License-Identifier: Apache-2.0
 *
 * logs.c: a ring of records under a mutex, and an eventfd. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bindings/logs.h"

enum { ROWS = 256 };

struct tpb_logs {
  pthread_mutex_t mutex;
  int fd; /* never changes; -1: none */
  /* under mutex */
  size_t first, count;
  unsigned long lost;
  tpb_log_row rows[ROWS];
  tpb_logs *next; /* under unused_mutex: the list of queues without a runtime */
};

/* The queues without a runtime. An abandoned attempt may log after tp_runtime_free(), so a queue is reused, and never
 * freed. */
static pthread_mutex_t unused_mutex = PTHREAD_MUTEX_INITIALIZER;
static tpb_logs *unused;

tpb_logs *tpb_logs_new(void) {
  pthread_mutex_lock(&unused_mutex);
  tpb_logs *logs = unused;
  if (logs) unused = logs->next;
  pthread_mutex_unlock(&unused_mutex);
  if (!logs) {
    logs = calloc(1, sizeof *logs);
    if (!logs) return NULL;
    pthread_mutex_init(&logs->mutex, NULL);
  }
  pthread_mutex_lock(&logs->mutex);
  logs->count = 0;
  logs->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  pthread_mutex_unlock(&logs->mutex);
  return logs;
}

void tpb_logs_free(tpb_logs *logs) {
  if (!logs) return;
  pthread_mutex_lock(&logs->mutex);
  if (logs->fd >= 0) close(logs->fd);
  logs->fd = -1;
  pthread_mutex_unlock(&logs->mutex);
  pthread_mutex_lock(&unused_mutex);
  logs->next = unused;
  unused = logs;
  pthread_mutex_unlock(&unused_mutex);
}

int tpb_logs_fd(const tpb_logs *logs) { return logs->fd; }

static void copy_text(char *target, size_t size, tp_text text) {
  const size_t bytes = text.size < size ? text.size : size - 1;
  if (bytes) memcpy(target, text.data, bytes);
  target[bytes] = '\0';
}

void tpb_logs_write(void *ctx, const tp_log_record *record) {
  tpb_logs *logs = ctx;
  const uint64_t one = 1;
  pthread_mutex_lock(&logs->mutex);
  if (logs->fd >= 0 && logs->count < ROWS) {
    tpb_log_row *to = &logs->rows[(logs->first + logs->count++) % ROWS];
    to->level = (int)record->level;
    to->status = (int)record->status;
    to->phase = (int)record->phase;
    to->unix_ms = record->unix_ms;
    copy_text(to->message, sizeof to->message, tp_text_of(record->message));
    copy_text(to->subscription, sizeof to->subscription, tp_text_of(record->subscription));
    copy_text(to->turn, sizeof to->turn, record->turn_id);
    copy_text(to->session, sizeof to->session, record->session_id);
    if (write(logs->fd, &one, sizeof one) < 0)
      logs->lost += 0; /* a write fails only when the descriptor is readable
                                                                   already */
  } else {
    logs->lost++;
  }
  pthread_mutex_unlock(&logs->mutex);
}

bool tpb_logs_next(tpb_logs *logs, tpb_log_row *ret_row, unsigned long *ret_lost) {
  uint64_t number;
  pthread_mutex_lock(&logs->mutex);
  const bool is_more = logs->count > 0;
  *ret_lost = is_more ? 0 : logs->lost;
  if (is_more) {
    *ret_row = logs->rows[logs->first];
    logs->first = (logs->first + 1) % ROWS;
    logs->count--;
  } else {
    logs->lost = 0;
    if (logs->fd >= 0 && read(logs->fd, &number, sizeof number) < 0)
      number = 0; /* a read fails when the descriptor was
                                                                                    not readable */
  }
  pthread_mutex_unlock(&logs->mutex);
  return is_more;
}
