/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.c: Runtime and its handles: the functions with which Python registers, submits, and takes work. */
#include <pthread.h>
#include <stdio.h>

#include "bindings/python/src/core.h"
#include "bindings/python/fields.h"

/* ---- forks ---- */

static unsigned forks; /* written in the child of a fork, before its other code runs */

static void count_fork(void) { forks++; }
unsigned tpy_forks(void) {
  static bool is_counted;
  if (!is_counted) is_counted = pthread_atfork(NULL, NULL, count_fork) == 0;
  return forks;
}

bool tpy_usable(const tpy_runtime *runtime) {
  tp_fault fault = {.code = TP_ERR_USAGE, .message = "the runtime was closed"};
  if (runtime->forks != tpy_forks()) tpy_raise(TP_ERR_FORKED, NULL);
  else if (!runtime->runtime) tpy_raise(TP_ERR_USAGE, &fault);
  else return true;
  return false;
}

static tp_runtime *usable(PyObject *self) {
  const tpy_runtime *runtime = (const tpy_runtime *)self;
  return tpy_usable(runtime) ? runtime->runtime : NULL;
}

void tpy_destroy(void *ctx) { (void)ctx; }

static void *key_of(unsigned long long key) { return (void *)(uintptr_t)key; }

/* Returns None, or NULL with the exception of the status. */
static PyObject *done(tp_status status, const tp_fault *fault) {
  if (status != TP_OK) return tpy_raise(status, fault);
  Py_RETURN_NONE;
}

/* ---- handles ---- */

PyObject *tpy_handle_new(PyObject *type, tpy_runtime *runtime, tpy_handle_kind kind, void *pointer) {
  tpy_handle *handle = PyObject_New(tpy_handle, (PyTypeObject *)type);
  if (!handle) return NULL;
  handle->kind = kind;
  handle->pointer = pointer;
  handle->runtime = runtime;
  Py_INCREF((PyObject *)runtime);
  return (PyObject *)handle;
}

static void handle_dealloc(PyObject *object) {
  tpy_handle *self = (tpy_handle *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->runtime->forks == tpy_forks()) {
    if (self->kind == TPY_SUBMISSION) tp_submission_unref(self->pointer);
    if (self->kind == TPY_MODEL) tp_model_free(self->pointer);
  }
  Py_DECREF((PyObject *)self->runtime);
  PyObject_Free(object);
  Py_DECREF(type);
}

void *tpy_handle_get(const tpy_runtime *runtime, PyObject *object, tpy_handle_kind kind) {
  static const char *const names[] = {"", "a session", "an agent", "a submission", "a model", "a turn"};
  const tpy_handle *handle = (const tpy_handle *)object;
  if (PyObject_HasAttrString(object, "handle_kind") && handle->kind == kind) {
    tp_fault closed = {.code = TP_ERR_USAGE,
                       .message = "it was closed, or belongs to another session or agent already"};
    tp_fault other = {.code = TP_ERR_USAGE, .message = "it belongs to another runtime"};
    if (!tpy_usable(handle->runtime)) return NULL;
    if (handle->runtime != runtime) tpy_raise(TP_ERR_USAGE, &other);
    else if (!handle->pointer) tpy_raise(TP_ERR_USAGE, &closed);
    return handle->runtime == runtime ? handle->pointer : NULL;
  }
  PyErr_Format(PyExc_TypeError, "%s is wanted, not %R", names[kind], object);
  return NULL;
}

static PyObject *handle_kind(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(((tpy_handle *)self)->kind);
}

static PyGetSetDef handle_members[] = {
    {"handle_kind", handle_kind, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_getset, handle_members},
    {0, NULL},
};
PyType_Spec tpy_handle_spec = {
    .name = "turnphase._core.Handle",
    .basicsize = sizeof(tpy_handle),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = handle_slots,
};

static PyObject *new_handle(PyObject *self, tpy_handle_kind kind, void *pointer) {
  const tpy_state *state = PyType_GetModuleState(Py_TYPE(self));
  return tpy_handle_new(state->handle_type, (tpy_runtime *)self, kind, pointer);
}

tp_end *tpy_end_new(tpy_runtime *runtime, unsigned long long key) {
  tp_end *end = NULL;
  tp_fault fault = {0};
  const tp_status status = tp_end_new(runtime->inbox, key_of(key), &end, &fault);
  if (status != TP_OK) tpy_raise(status, &fault);
  return end;
}

/* ---- making and freeing ---- */

/* A channel whose questions are read from their events (TP_EVENT_QUESTION). Threads: any. */
static void leave_question(void *ctx, const tp_question *question) { (void)ctx, (void)question; }

/* Runtime(options, database, asks) */
static PyObject *runtime_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  PyObject *options, *database;
  int asks;
  tp_runtime_options read;
  tp_store *store = NULL;
  tp_shared_history *history = NULL;
  tp_fault fault = {0};
  (void)keywords;
  if (!PyArg_ParseTuple(arguments, "OOp", &options, &database, &asks)) return NULL;
  tpy_runtime *self = (tpy_runtime *)PyType_GenericAlloc(type, 0);
  PyObject *keep = PyList_New(0);
  if (!self || !keep) goto failed;
  self->forks = tpy_forks();
  self->logs = tpb_logs_new();
  if (!self->logs) {
    PyErr_NoMemory();
    goto failed;
  }
  if (!tpy_read(options, &tpb_tp_runtime_options, &read, keep)) goto failed;
  if (database != Py_None && !tpy_stores_open(database, &store, &history)) goto failed;
  read.log = tpb_logs_write;
  read.log_ctx = self->logs;
  read.store = store;
  read.shared_history = history;
  if (asks) read.ask = leave_question;
  tp_status status = tp_runtime_new(&read, &self->runtime, &fault);
  if (status == TP_OK) {
    store = NULL;
    status = tp_inbox_new(self->runtime, NULL, &self->inbox, &fault);
  }
  if (status != TP_OK) {
    tpy_raise(status, &fault);
    goto failed;
  }
  tp_shared_history_unref(history);
  Py_DECREF(keep);
  return (PyObject *)self;
failed:
  tp_store_free(store);
  tp_shared_history_unref(history);
  Py_XDECREF(keep);
  Py_XDECREF((PyObject *)self);
  return NULL;
}

static void free_runtime(tpy_runtime *self) {
  tp_runtime *runtime = self->runtime;
  tp_inbox *inbox = self->inbox;
  self->runtime = NULL;
  self->inbox = NULL;
  if (self->forks != tpy_forks()) return; /* it belongs to the parent process */
  Py_BEGIN_ALLOW_THREADS tp_runtime_free(runtime);
  tp_inbox_free(inbox);
  Py_END_ALLOW_THREADS tpb_logs_free(self->logs);
  self->logs = NULL;
}

static void runtime_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  free_runtime((tpy_runtime *)object);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *runtime_free(PyObject *object, PyObject *unused) {
  tpy_runtime *self = (tpy_runtime *)object;
  (void)unused;
  if (self->calls) {
    PyErr_SetString(PyExc_RuntimeError, "another thread is in a call of the runtime");
    return NULL;
  }
  free_runtime(self);
  Py_RETURN_NONE;
}

static PyObject *runtime_fd(PyObject *self, PyObject *unused) {
  (void)unused;
  return usable(self) ? PyLong_FromLong(tp_inbox_fd(((tpy_runtime *)self)->inbox)) : NULL;
}

/* -1: the runtime has threads. */
static PyObject *runtime_pump_fd(PyObject *self, PyObject *unused) {
  tp_runtime *runtime = usable(self);
  (void)unused;
  return runtime ? PyLong_FromLong(tp_runtime_fd(runtime)) : NULL;
}

/* pump(items) -> when to pump again at the latest, in ms; -1: when the descriptor is readable */
static PyObject *runtime_pump(PyObject *self, PyObject *items) {
  tp_runtime *runtime = usable(self);
  const unsigned long max = runtime ? PyLong_AsUnsignedLong(items) : 0;
  int wait_ms = -1;
  tp_fault fault = {0};
  tp_status status;
  if (!runtime || PyErr_Occurred()) return NULL;
  ((tpy_runtime *)self)->calls++;
  Py_BEGIN_ALLOW_THREADS status = tp_runtime_pump(runtime, (uint32_t)max, &wait_ms, &fault);
  Py_END_ALLOW_THREADS((tpy_runtime *)self)->calls--;
  if (status == TP_ERR_BUSY) return PyLong_FromLong(-1); /* a thread that waits for the runtime pumps */
  return status == TP_OK ? PyLong_FromLong(wait_ms) : tpy_raise(status, &fault);
}

static PyObject *runtime_log_fd(PyObject *self, PyObject *unused) {
  (void)unused;
  return usable(self) ? PyLong_FromLong(tpb_logs_fd(((tpy_runtime *)self)->logs)) : NULL;
}

static PyObject *runtime_logs(PyObject *self, PyObject *unused) {
  (void)unused;
  return usable(self) ? tpy_logs_take(((tpy_runtime *)self)->logs) : NULL;
}

static PyObject *runtime_start(PyObject *self, PyObject *unused) {
  tp_runtime *runtime = usable(self);
  tp_fault fault = {0};
  tp_status status;
  (void)unused;
  if (!runtime) return NULL;
  ((tpy_runtime *)self)->calls++;
  Py_BEGIN_ALLOW_THREADS status = tp_runtime_start(runtime, &fault);
  Py_END_ALLOW_THREADS((tpy_runtime *)self)->calls--;
  return done(status, &fault);
}

static PyObject *runtime_drain(PyObject *self, PyObject *arguments) {
  tp_runtime *runtime = usable(self);
  unsigned limit_ms;
  unsigned long long key;
  tp_fault fault = {0};
  if (!runtime || !PyArg_ParseTuple(arguments, "IK", &limit_ms, &key)) return NULL;
  tp_end *end = tpy_end_new((tpy_runtime *)self, key);
  if (!end) return NULL;
  const tp_status status = tp_runtime_drain_submit(runtime, limit_ms, tp_end_of_drain, end, &fault);
  if (status != TP_OK) tp_end_free(end);
  return done(status, &fault);
}

/* ---- taking ---- */

/* Makes the exception of a status, as an object. */
static PyObject *raised(tp_status status, const tp_fault *fault) {
  PyObject *type, *error, *trace;
  tpy_raise(status, fault);
  PyErr_Fetch(&type, &error, &trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return error;
}

static PyObject *show_end(PyObject *self, const tp_work_end *end) {
  switch (end->kind) {
    case TP_END_TURN:
      return tpy_show(end->turn, &tpb_tp_turn_result);
    case TP_END_DRAIN:
      return tpy_show(end->drain, &tpb_tp_drain_report);
    case TP_END_AGENT: {
      if (end->agent->agent) return new_handle(self, TPY_AGENT, end->agent->agent);
      if (end->agent->status == TP_OK) Py_RETURN_NONE; /* an agent was removed */
      return raised(end->agent->status, end->agent->fault);
    }
    case TP_END_PHASE: {
      tp_fault fault = {.code = end->phase->outcome};
      if (end->phase->outcome == TP_OK) Py_RETURN_NONE;
      snprintf(fault.message, sizeof fault.message, "%.*s", (int)end->phase->reason.size, end->phase->reason.data);
      return raised(end->phase->outcome, &fault);
    }
    case TP_END_TOOLS:
      return tpy_show_list((const void *const *)end->results, end->result_count, &tpb_tp_tool_result);
    case TP_END_JOBS:
      return PyLong_FromLong(end->jobs->status);
    default:
      Py_RETURN_NONE;
  }
}

static PyObject *show_event(const tp_event *event) {
  PyObject *shown = tpy_show(event, &tpb_tp_event);
  PyObject *question = shown && event->question ? PyLong_FromUnsignedLongLong(event->question->token.bits) : NULL;
  if (question) PyDict_SetItemString(shown, "question_token", question);
  Py_XDECREF(question);
  for (uint32_t i = 0; shown && i < event->id_count; i++) {
    static const char *const names[] = {"tenant_id", "agent_id", "workspace_id", "session_id", "thread_id", "turn_id"};
    if (i >= sizeof names / sizeof *names || !event->ids[i].size) continue;
    PyObject *id = tpy_str(event->ids[i]);
    if (!id || PyDict_SetItemString(shown, names[i], id) != 0) Py_CLEAR(shown);
    Py_XDECREF(id);
  }
  return shown;
}

/* Makes (kind, key of the object, key of the turn, token or kind of the end, payload). */
static PyObject *work_row(PyObject *self, const tpy_state *state, const tp_work *work) {
  PyObject *payload = NULL;
  void *turn = NULL;
  unsigned long long number = work->token.bits;
  switch (work->kind) {
    case TP_WORK_HANDLER:
      turn = tp_call_data(work->call, TP_ID_TURN);
      payload = tpy_work_new(state->work_type, (tpy_runtime *)self, work);
      break;
    case TP_WORK_TOOL:
      turn = tp_tool_run_data(work->run, TP_ID_TURN);
      payload = tpy_work_new(state->work_type, (tpy_runtime *)self, work);
      break;
    case TP_WORK_MODEL:
      turn = tp_model_request_data(work->request, TP_ID_TURN);
      payload = tpy_work_new(state->work_type, (tpy_runtime *)self, work);
      break;
    case TP_WORK_EVENT:
      turn = tp_event_data(work->event, TP_ID_TURN);
      payload = show_event(work->event);
      break;
    case TP_WORK_END:
      number = work->end->kind;
      payload = show_end(self, work->end);
      break;
    default:
      payload = Py_NewRef(Py_None);
  }
  if (!payload) return NULL;
  return Py_BuildValue("iKKKN", (int)work->kind, (unsigned long long)(uintptr_t)work->ctx,
                       (unsigned long long)(uintptr_t)turn, number, payload);
}

static PyObject *runtime_take(PyObject *self, PyObject *arguments) {
  const tpy_state *state = PyType_GetModuleState(Py_TYPE(self));
  const tp_work *work = NULL;
  int max;
  PyObject *list = usable(self) && PyArg_ParseTuple(arguments, "i", &max) ? PyList_New(0) : NULL;
  for (int i = 0; list && i < max; i++) {
    const tp_status status = tp_inbox_next(((tpy_runtime *)self)->inbox, &work);
    if (status != TP_OK || !work) break;
    PyObject *row = work_row(self, state, work);
    const bool is_kept = row && PyList_Append(list, row) == 0;
    Py_XDECREF(row); /* a call that is not kept is abandoned with its Work */
    if (work->kind > TP_WORK_MODEL) (void)tp_work_release(work);
    if (!is_kept) {
      PyErr_WriteUnraisable(self); /* without memory this piece of work is lost, but not the following ones */
      if (!row && work->kind <= TP_WORK_MODEL) (void)tp_token_abandon(work->token, NULL);
    }
  }
  return list;
}

/* ---- registering ---- */

static PyObject *runtime_hook_add(PyObject *self, PyObject *arguments) {
  tp_runtime *runtime = usable(self);
  PyObject *options, *keep = PyList_New(0);
  unsigned long long key;
  tp_hook hook;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (runtime && keep && PyArg_ParseTuple(arguments, "OK", &options, &key) &&
      tpy_read(options, &tpb_tp_hook, &hook, keep)) {
    hook.inbox = ((tpy_runtime *)self)->inbox;
    hook.ctx = key_of(key);
    hook.destroy = tpy_destroy;
    status = tp_hook_add(runtime, &hook, &fault);
  }
  Py_XDECREF(keep);
  return PyErr_Occurred() ? NULL : done(status, &fault);
}

static PyObject *runtime_tool_add(PyObject *self, PyObject *arguments) {
  tp_runtime *runtime = usable(self);
  PyObject *options, *keep = PyList_New(0);
  unsigned long long key;
  tp_tool tool;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (runtime && keep && PyArg_ParseTuple(arguments, "OK", &options, &key) &&
      tpy_read(options, &tpb_tp_tool, &tool, keep)) {
    tool.inbox = ((tpy_runtime *)self)->inbox;
    tool.ctx = key_of(key);
    tool.destroy = tpy_destroy;
    status = tp_tool_add(runtime, &tool, &fault);
  }
  Py_XDECREF(keep);
  return PyErr_Occurred() ? NULL : done(status, &fault);
}

static PyObject *runtime_hook_remove(PyObject *self, PyObject *id) {
  tp_runtime *runtime = usable(self);
  const char *name = runtime ? PyUnicode_AsUTF8AndSize(id, NULL) : NULL;
  tp_fault fault = {0};
  return name ? done(tp_hook_remove(runtime, name, &fault), &fault) : NULL;
}

static PyObject *runtime_tool_remove(PyObject *self, PyObject *id) {
  tp_runtime *runtime = usable(self);
  const char *name = runtime ? PyUnicode_AsUTF8AndSize(id, NULL) : NULL;
  tp_fault fault = {0};
  return name ? done(tp_tool_remove(runtime, name, &fault), &fault) : NULL;
}

/* A model of an agent or a session: a handle, or a key, for which requests come to the inbox. */
typedef struct model_given {
  tp_model own;    /* the model of a key */
  tp_model *model; /* NULL: no model */
  tpy_handle *handle;
} model_given;

static bool give_model(PyObject *self, PyObject *object, PyObject *options, PyObject *keep, model_given *given) {
  *given = (model_given){.model = NULL};
  if (object == Py_None) return true;
  if (!PyLong_Check(object)) {
    given->model = tpy_handle_get((tpy_runtime *)self, object, TPY_MODEL);
    given->handle = (tpy_handle *)object;
    return given->model != NULL;
  }
  const unsigned long long key = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred() || !tpy_read(options, &tpb_tp_model, &given->own, keep)) return false;
  given->own.inbox = ((tpy_runtime *)self)->inbox;
  given->own.ctx = key_of(key);
  given->own.destroy = tpy_destroy;
  given->model = &given->own;
  return true;
}

/* agent_add(options, model, model options, key) */
static PyObject *runtime_agent_add(PyObject *self, PyObject *arguments) {
  tp_runtime *runtime = usable(self);
  PyObject *options, *model, *model_options, *keep = PyList_New(0);
  unsigned long long key;
  tp_agent_config config;
  model_given given;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (runtime && keep && PyArg_ParseTuple(arguments, "OOOK", &options, &model, &model_options, &key) &&
      tpy_read(options, &tpb_tp_agent_config, &config, keep) && give_model(self, model, model_options, keep, &given)) {
    tp_end *end = tpy_end_new((tpy_runtime *)self, key);
    config.model = given.model;
    if (end) status = tp_agent_add_submit(runtime, &config, tp_end_of_agent, end, &fault);
    if (end && status != TP_OK) tp_end_free(end);
    /* The model is taken when the end comes with TP_OK; the package keeps the handle until then, and disowns it. */
  }
  Py_XDECREF(keep);
  return PyErr_Occurred() ? NULL : done(status, &fault);
}

/* Clears a handle whose object the library has taken. */
static PyObject *runtime_disown(PyObject *self, PyObject *handle) {
  if (tpy_handle_get((tpy_runtime *)self, handle, TPY_MODEL)) ((tpy_handle *)handle)->pointer = NULL;
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

static PyObject *runtime_agent_remove(PyObject *self, PyObject *arguments) {
  PyObject *handle;
  unsigned long long key;
  tp_fault fault = {0};
  if (!usable(self) || !PyArg_ParseTuple(arguments, "OK", &handle, &key)) return NULL;
  tp_agent *agent = tpy_handle_get((tpy_runtime *)self, handle, TPY_AGENT);
  tp_end *end = agent ? tpy_end_new((tpy_runtime *)self, key) : NULL;
  if (!end) return NULL;
  const tp_status status = tp_agent_remove_submit(agent, tp_end_of_agent, end, &fault);
  if (status == TP_OK) ((tpy_handle *)handle)->pointer = NULL;
  else tp_end_free(end);
  return done(status, &fault);
}

/* session_open(options, agent, model, model options) */
static PyObject *runtime_session_open(PyObject *self, PyObject *arguments) {
  tp_runtime *runtime = usable(self);
  PyObject *options, *agent, *model, *model_options, *keep = PyList_New(0);
  tp_session_options read;
  tp_session *session = NULL;
  model_given given;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (runtime && keep && PyArg_ParseTuple(arguments, "OOOO", &options, &agent, &model, &model_options) &&
      tpy_read(options, &tpb_tp_session_options, &read, keep) && give_model(self, model, model_options, keep, &given)) {
    if (agent != Py_None) read.agent = tpy_handle_get((tpy_runtime *)self, agent, TPY_AGENT);
    read.model = given.model;
    if (!PyErr_Occurred()) status = tp_session_open(runtime, &read, &session, &fault);
    if (session && given.handle) given.handle->pointer = NULL; /* the library has taken the model */
  }
  Py_XDECREF(keep);
  if (PyErr_Occurred()) return NULL;
  return status == TP_OK ? new_handle(self, TPY_SESSION, session) : tpy_raise(status, &fault);
}

/* session_close(session, end or None, key) */
static PyObject *runtime_session_close(PyObject *self, PyObject *arguments) {
  PyObject *handle, *options, *keep = PyList_New(0);
  unsigned long long key;
  tp_session_end last;
  tp_session *session = NULL;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (usable(self) && keep && PyArg_ParseTuple(arguments, "OOK", &handle, &options, &key)) {
    session = tpy_handle_get((tpy_runtime *)self, handle, TPY_SESSION);
    if (session && tpy_read(options, &tpb_tp_session_end, &last, keep)) {
      tp_end *end = tpy_end_new((tpy_runtime *)self, key);
      if (end) status = tp_session_close_with(session, &last, tp_end_of_session, end, &fault);
      if (end && status == TP_OK) ((tpy_handle *)handle)->pointer = NULL;
      if (end && status != TP_OK) tp_end_free(end);
    }
  }
  Py_XDECREF(keep);
  return PyErr_Occurred() ? NULL : done(status, &fault);
}

/* turn_submit(session, request, key) */
static PyObject *runtime_turn_submit(PyObject *self, PyObject *arguments) {
  PyObject *handle, *options, *keep, *submitted = NULL;
  unsigned long long key;
  tp_turn_request request;
  tp_submission *submission = NULL;
  tp_fault fault = {0};
  if (!usable(self) || !PyArg_ParseTuple(arguments, "OOK", &handle, &options, &key)) return NULL;
  tp_session *session = tpy_handle_get((tpy_runtime *)self, handle, TPY_SESSION);
  if (!session) return NULL;
  keep = PyList_New(0);
  if (keep && tpy_read(options, &tpb_tp_turn_request, &request, keep)) {
    tp_end *end = tpy_end_new((tpy_runtime *)self, key);
    request.data = key_of(key);
    const tp_status status =
        end ? tp_turn_submit(session, &request, tp_end_of_turn, end, &submission, &fault) : TP_ERR_NO_MEMORY;
    if (status == TP_OK) submitted = new_handle(self, TPY_SUBMISSION, submission);
    else if (end) {
      tp_end_free(end);
      tpy_raise(status, &fault);
    }
  }
  Py_XDECREF(keep);
  return submitted;
}

static PyObject *runtime_cancel(PyObject *self, PyObject *handle) {
  tp_submission *submission = usable(self) ? tpy_handle_get((tpy_runtime *)self, handle, TPY_SUBMISSION) : NULL;
  if (!submission) return NULL;
  tp_submission_cancel(submission);
  Py_RETURN_NONE;
}

/* Reads the calls of a list; `keep` keeps their memory. NULL with an exception. */
static const tp_tool_call **read_calls(PyObject *list, PyObject *keep, size_t *ret_count) {
  const Py_ssize_t count = PyList_Size(list);
  PyObject *memory = count < 0 ? NULL : PyBytes_FromStringAndSize(NULL, (count + 1) * (Py_ssize_t)sizeof(void *));
  const tp_tool_call **calls = memory && PyList_Append(keep, memory) == 0 ? (void *)PyBytes_AsString(memory) : NULL;
  Py_XDECREF(memory);
  for (Py_ssize_t i = 0; calls && i < count; i++) {
    PyObject *call = PyBytes_FromStringAndSize(NULL, sizeof(tp_tool_call));
    const bool is_read = call && PyList_Append(keep, call) == 0 &&
                         tpy_read(PyList_GetItem(list, i), &tpb_tp_tool_call, PyBytes_AsString(call), keep);
    Py_XDECREF(call);
    if (!is_read) return NULL;
    calls[i] = (void *)PyBytes_AsString(call);
  }
  *ret_count = (size_t)count;
  return calls;
}

/* turn_begin(session, request, key): a turn that the host drives. It submits the phase that contributes the tools; its
 * end comes with the key. */
static PyObject *runtime_turn_begin(PyObject *self, PyObject *arguments) {
  PyObject *handle, *options, *keep, *begun = NULL;
  unsigned long long key;
  tp_turn_request request;
  tp_turn *turn = NULL;
  tp_fault fault = {0};
  if (!usable(self) || !PyArg_ParseTuple(arguments, "OOK", &handle, &options, &key)) return NULL;
  tp_session *session = tpy_handle_get((tpy_runtime *)self, handle, TPY_SESSION);
  keep = session ? PyList_New(0) : NULL;
  const bool is_read = keep && tpy_read(options, &tpb_tp_turn_request, &request, keep);
  tp_end *end = is_read ? tpy_end_new((tpy_runtime *)self, key) : NULL;
  if (end) {
    request.data = key_of(key);
    tp_status status = tp_turn_begin(session, &request, &turn, &fault);
    if (status == TP_OK)
      status = tp_phase_submit(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, tp_end_of_phase, end, &fault);
    if (status == TP_OK) begun = new_handle(self, TPY_TURN, turn);
    else {
      tp_turn_end(turn);
      tp_end_free(end);
      tpy_raise(status, &fault);
    }
  }
  Py_XDECREF(keep);
  return begun;
}

/* tools_submit(turn, calls, key): must follow the end of the turn's earlier operation. */
static PyObject *runtime_tools_submit(PyObject *self, PyObject *arguments) {
  PyObject *handle, *list;
  unsigned long long key;
  size_t count = 0;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!usable(self) || !PyArg_ParseTuple(arguments, "OOK", &handle, &list, &key)) return NULL;
  tp_turn *turn = tpy_handle_get((tpy_runtime *)self, handle, TPY_TURN);
  PyObject *keep = turn ? PyList_New(0) : NULL;
  const tp_tool_call **calls = keep ? read_calls(list, keep, &count) : NULL;
  tp_end *end = calls ? tpy_end_new((tpy_runtime *)self, key) : NULL;
  if (end) status = tp_tools_submit(turn, calls, count, tp_end_of_tools, end, &fault);
  if (end && status != TP_OK) tp_end_free(end);
  Py_XDECREF(keep);
  return end ? done(status, &fault) : NULL;
}

static PyObject *runtime_turn_cancel(PyObject *self, PyObject *handle) {
  tp_turn *turn = usable(self) ? tpy_handle_get((tpy_runtime *)self, handle, TPY_TURN) : NULL;
  if (!turn) return NULL;
  tp_turn_cancel(turn);
  Py_RETURN_NONE;
}

/* Must follow the END of its calls. */
static PyObject *runtime_turn_end(PyObject *self, PyObject *handle) {
  tp_turn *turn = usable(self) ? tpy_handle_get((tpy_runtime *)self, handle, TPY_TURN) : NULL;
  if (!turn) return NULL;
  ((tpy_handle *)handle)->pointer = NULL;
  tp_turn_end(turn);
  Py_RETURN_NONE;
}

static PyObject *runtime_add_message(PyObject *self, PyObject *arguments) {
  PyObject *handle, *options, *keep = PyList_New(0);
  tp_added_message message;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (usable(self) && keep && PyArg_ParseTuple(arguments, "OO", &handle, &options)) {
    tp_submission *submission = tpy_handle_get((tpy_runtime *)self, handle, TPY_SUBMISSION);
    if (submission && tpy_read(options, &tpb_tp_added_message, &message, keep))
      status = tp_submission_add_message(submission, &message, &fault);
  }
  Py_XDECREF(keep);
  return PyErr_Occurred() ? NULL : done(status, &fault);
}

/* listen(session or None, options, key) -> id */
static PyObject *runtime_listen(PyObject *self, PyObject *arguments) {
  tp_runtime *runtime = usable(self);
  PyObject *handle, *options, *keep = PyList_New(0);
  unsigned long long key;
  tp_listener listener;
  uint64_t id = 0;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (runtime && keep && PyArg_ParseTuple(arguments, "OOK", &handle, &options, &key) &&
      tpy_read(options, &tpb_tp_listener, &listener, keep)) {
    tp_session *session = handle == Py_None ? NULL : tpy_handle_get((tpy_runtime *)self, handle, TPY_SESSION);
    listener.inbox = ((tpy_runtime *)self)->inbox;
    listener.ctx = key_of(key);
    if (!PyErr_Occurred())
      status = session ? tp_session_listen(session, &listener, &id, &fault)
                       : tp_runtime_listen(runtime, &listener, &id, &fault);
  }
  Py_XDECREF(keep);
  if (PyErr_Occurred()) return NULL;
  return status == TP_OK ? PyLong_FromUnsignedLongLong(id) : tpy_raise(status, &fault);
}

static PyObject *runtime_unlisten(PyObject *self, PyObject *arguments) {
  PyObject *handle;
  unsigned long long id;
  tp_fault fault = {0};
  if (!usable(self) || !PyArg_ParseTuple(arguments, "OK", &handle, &id)) return NULL;
  tp_session *session = tpy_handle_get((tpy_runtime *)self, handle, TPY_SESSION);
  return session ? done(tp_session_unlisten(session, id, &fault), &fault) : NULL;
}

static PyObject *runtime_answer_question(PyObject *self, PyObject *arguments) {
  unsigned long long bits;
  PyObject *options, *keep = PyList_New(0);
  tp_decision decision;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (usable(self) && keep && PyArg_ParseTuple(arguments, "KO", &bits, &options) &&
      tpy_read(options, &tpb_tp_decision, &decision, keep))
    status = tp_question_answer((tp_token){bits}, &decision, &fault);
  Py_XDECREF(keep);
  if (PyErr_Occurred()) return NULL;
  return status == TP_ERR_STALE ? PyBool_FromLong(0) : status == TP_OK ? PyBool_FromLong(1) : tpy_raise(status, &fault);
}

static PyObject *runtime_jobs_wait(PyObject *self, PyObject *arguments) {
  tp_runtime *runtime = usable(self);
  unsigned limit_ms;
  unsigned long long key;
  tp_fault fault = {0};
  if (!runtime || !PyArg_ParseTuple(arguments, "IK", &limit_ms, &key)) return NULL;
  tp_end *end = tpy_end_new((tpy_runtime *)self, key);
  if (!end) return NULL;
  const tp_status status = tp_jobs_wait_submit(runtime, NULL, limit_ms, tp_end_of_jobs, end, &fault);
  if (status != TP_OK) tp_end_free(end);
  return done(status, &fault);
}

static PyMethodDef runtime_methods[] = {
    {"fd", runtime_fd, METH_NOARGS, NULL},
    {"pump_fd", runtime_pump_fd, METH_NOARGS, NULL},
    {"pump", runtime_pump, METH_O, NULL},
    {"log_fd", runtime_log_fd, METH_NOARGS, NULL},
    {"logs", runtime_logs, METH_NOARGS, NULL},
    {"start", runtime_start, METH_NOARGS, NULL},
    {"drain", runtime_drain, METH_VARARGS, NULL},
    {"free", runtime_free, METH_NOARGS, NULL},
    {"take", runtime_take, METH_VARARGS, NULL},
    {"hook_add", runtime_hook_add, METH_VARARGS, NULL},
    {"hook_remove", runtime_hook_remove, METH_O, NULL},
    {"tool_add", runtime_tool_add, METH_VARARGS, NULL},
    {"tool_remove", runtime_tool_remove, METH_O, NULL},
    {"agent_add", runtime_agent_add, METH_VARARGS, NULL},
    {"agent_remove", runtime_agent_remove, METH_VARARGS, NULL},
    {"disown", runtime_disown, METH_O, NULL},
    {"session_open", runtime_session_open, METH_VARARGS, NULL},
    {"session_close", runtime_session_close, METH_VARARGS, NULL},
    {"turn_submit", runtime_turn_submit, METH_VARARGS, NULL},
    {"cancel", runtime_cancel, METH_O, NULL},
    {"turn_begin", runtime_turn_begin, METH_VARARGS, NULL},
    {"tools_submit", runtime_tools_submit, METH_VARARGS, NULL},
    {"turn_cancel", runtime_turn_cancel, METH_O, NULL},
    {"turn_end", runtime_turn_end, METH_O, NULL},
    {"add_message", runtime_add_message, METH_VARARGS, NULL},
    {"listen", runtime_listen, METH_VARARGS, NULL},
    {"unlisten", runtime_unlisten, METH_VARARGS, NULL},
    {"answer_question", runtime_answer_question, METH_VARARGS, NULL},
    {"jobs_wait", runtime_jobs_wait, METH_VARARGS, NULL},
    {"model_new", tpy_model_new, METH_VARARGS, NULL},
    {"domain_add", tpy_domain_add, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot runtime_slots[] = {
    {Py_tp_new, runtime_new},
    {Py_tp_dealloc, runtime_dealloc},
    {Py_tp_methods, runtime_methods},
    {0, NULL},
};
PyType_Spec tpy_runtime_spec = {
    .name = "turnphase._core.Runtime",
    .basicsize = sizeof(tpy_runtime),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = runtime_slots,
};
