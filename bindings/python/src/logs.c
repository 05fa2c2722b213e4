/* SPDX-License-Identifier: Apache-2.0
 *
 * logs.c: log records as dicts. */
#include <stdlib.h>

#include "bindings/python/src/core.h"

PyObject *tpy_logs_take(tpb_logs *logs) {
  PyObject *list = PyList_New(0);
  tpb_log_row *row = malloc(sizeof *row);
  bool is_more = list && row;
  unsigned long lost = 0;
  if (!row) PyErr_NoMemory();
  while (is_more) {
    is_more = tpb_logs_next(logs, row, &lost);
    PyObject *item = NULL;
    if (is_more)
      item = Py_BuildValue("{si,si,si,sL,ss,ss,ss,ss}", "level", row->level, "status", row->status, "phase", row->phase,
                           "unix_ms", (long long)row->unix_ms, "message", row->message, "subscription",
                           row->subscription, "turn_id", row->turn, "session_id", row->session);
    else if (lost)
      item = Py_BuildValue("{si,ss}", "level", TP_LOG_WARNING, "message", "log records were lost: too many at once");
    if (item && PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
    if (PyErr_Occurred()) is_more = false;
  }
  free(row);
  if (PyErr_Occurred()) Py_CLEAR(list);
  return list;
}
