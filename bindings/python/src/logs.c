/* SPDX-License-Identifier: Apache-2.0
 *
 * logs.c: what the library logs, from any of its threads to the loop's. A thread of the library must not wait for the
 * GIL, so the records wait in a ring, and an eventfd makes the loop look. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bindings/python/src/core.h"

enum { ROWS = 256, TEXT_BYTES = 1024, NAME_BYTES = 129 };

typedef struct row {
  int level, status, phase;
  int64_t unix_ms;
  char message[TEXT_BYTES], subscription[NAME_BYTES], turn[NAME_BYTES], session[NAME_BYTES];
} row;

struct tpy_logs {
  pthread_mutex_t mutex;
  int fd; /* never changes; -1: none */
  /* under mutex */
  size_t first, count;
  unsigned long lost;
  row rows[ROWS];
  tpy_logs *next; /* under unused_mutex: among those without a runtime */
};

/* An attempt that was abandoned may log after tp_runtime_free(): a queue is used again, and never freed. */
static pthread_mutex_t unused_mutex = PTHREAD_MUTEX_INITIALIZER;
static tpy_logs *unused;

tpy_logs *tpy_logs_new(void) {
  pthread_mutex_lock(&unused_mutex);
  tpy_logs *logs = unused;
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

void tpy_logs_free(tpy_logs *logs) {
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

int tpy_logs_fd(const tpy_logs *logs) { return logs->fd; }

static void copy_text(char *target, size_t size, tp_text text) {
  const size_t bytes = text.size < size ? text.size : size - 1;
  if (bytes) memcpy(target, text.data, bytes);
  target[bytes] = '\0';
}

void tpy_logs_write(void *ctx, const tp_log_record *record) {
  tpy_logs *logs = ctx;
  const uint64_t one = 1;
  pthread_mutex_lock(&logs->mutex);
  if (logs->fd >= 0 && logs->count < ROWS) {
    row *to = &logs->rows[(logs->first + logs->count++) % ROWS];
    to->level = (int)record->level;
    to->status = (int)record->status;
    to->phase = (int)record->phase;
    to->unix_ms = record->unix_ms;
    copy_text(to->message, sizeof to->message, tp_text_of(record->message));
    copy_text(to->subscription, sizeof to->subscription, tp_text_of(record->subscription));
    copy_text(to->turn, sizeof to->turn, record->turn_id);
    copy_text(to->session, sizeof to->session, record->session_id);
    if (write(logs->fd, &one, sizeof one) < 0) logs->lost += 0; /* it is readable already */
  } else {
    logs->lost++;
  }
  pthread_mutex_unlock(&logs->mutex);
}

PyObject *tpy_logs_take(tpy_logs *logs) {
  PyObject *list = PyList_New(0);
  uint64_t number;
  row *copy = malloc(sizeof *copy);
  bool is_more = list && copy;
  if (!copy) PyErr_NoMemory();
  while (is_more) {
    pthread_mutex_lock(&logs->mutex);
    const unsigned long lost = logs->lost;
    is_more = logs->count > 0;
    if (is_more) {
      *copy = logs->rows[logs->first];
      logs->first = (logs->first + 1) % ROWS;
      logs->count--;
    } else {
      logs->lost = 0;
      if (logs->fd >= 0 && read(logs->fd, &number, sizeof number) < 0) number = 0; /* it was not readable */
    }
    pthread_mutex_unlock(&logs->mutex);
    PyObject *item = NULL;
    if (is_more)
      item = Py_BuildValue("{si,si,si,sL,ss,ss,ss,ss}", "level", copy->level, "status", copy->status, "phase",
                           copy->phase, "unix_ms", (long long)copy->unix_ms, "message", copy->message, "subscription",
                           copy->subscription, "turn_id", copy->turn, "session_id", copy->session);
    else if (lost)
      item = Py_BuildValue("{si,ss}", "level", TP_LOG_WARNING, "message", "log records were lost: too many at once");
    if (item && PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
    if (PyErr_Occurred()) is_more = false;
  }
  free(copy);
  if (PyErr_Occurred()) Py_CLEAR(list);
  return list;
}
