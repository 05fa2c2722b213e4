/* SPDX-License-Identifier: Apache-2.0
 *
 * work.c: Work: a call of a hook, a tool or a model that was taken from an inbox. It can be read until it is answered,
 * once. A call that is never answered is abandoned when Python collects the object, so that its turn does not wait
 * until the limit. */
#include "bindings/python/src/core.h"
#include "bindings/python/fields.h"

typedef struct tpy_work {
  PyObject_HEAD const tp_work *work; /* NULL: it was answered */
  tp_token token;
  tpy_runtime *runtime;
} tpy_work;

PyObject *tpy_work_new(PyObject *type, tpy_runtime *runtime, const tp_work *work) {
  tpy_work *self = PyObject_New(tpy_work, (PyTypeObject *)type);
  if (!self) return NULL;
  self->work = work;
  self->token = work->token;
  self->runtime = runtime;
  Py_INCREF((PyObject *)runtime);
  return (PyObject *)self;
}

static void work_dealloc(PyObject *object) {
  tpy_work *self = (tpy_work *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->work && self->runtime->forks == tpy_forks()) (void)tp_token_abandon(self->token, NULL);
  Py_DECREF((PyObject *)self->runtime);
  PyObject_Free(object);
  Py_DECREF(type);
}

/* Returns the work; NULL with an exception: it was answered, its runtime was closed, or it is of another kind. */
static const tp_work *work_of(PyObject *object, tp_work_kind kind) {
  const tpy_work *self = (const tpy_work *)object;
  if (!self->work) PyErr_SetString(PyExc_RuntimeError, "the call was answered: it must be read before that");
  else if (tpy_usable(self->runtime)) {
    if (!kind || self->work->kind == kind) return self->work;
    PyErr_SetString(PyExc_TypeError, "this kind of call does not have that");
  }
  return NULL;
}

/* ---- of every kind ---- */

static PyObject *work_token(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((tpy_work *)self)->token.bits);
}

static PyObject *work_open(PyObject *object, void *unused) {
  (void)unused;
  tpy_work *self = (tpy_work *)object;
  return PyBool_FromLong(self->work && self->runtime->forks == tpy_forks() && tp_token_open(self->token));
}

static PyObject *work_id(PyObject *self, PyObject *kind) {
  const tp_work *work = work_of(self, 0);
  const long id = work ? PyLong_AsLong(kind) : -1;
  tp_text text = {0};
  if (!work || PyErr_Occurred()) return NULL;
  if (work->kind == TP_WORK_HANDLER) text = tp_call_id(work->call, (tp_id_kind)id);
  else if (work->kind == TP_WORK_TOOL) text = tp_tool_run_id(work->run, (tp_id_kind)id);
  else if (id >= 0 && id < (long)work->request->id_count) text = work->request->ids[id];
  return tpy_str(text);
}

static PyObject *work_time_left(PyObject *self, void *unused) {
  (void)unused;
  const tp_work *work = work_of(self, 0);
  if (!work) return NULL;
  if (work->kind == TP_WORK_HANDLER) return PyLong_FromLongLong(tp_call_time_left_ms(work->call));
  if (work->kind == TP_WORK_TOOL) return PyLong_FromLongLong(tp_tool_run_time_left_ms(work->run));
  return PyLong_FromLongLong(work->request->time_left_ms);
}

static PyObject *work_mode(PyObject *self, void *unused) {
  (void)unused;
  const tp_work *work = work_of(self, 0);
  if (!work) return NULL;
  if (work->kind == TP_WORK_HANDLER) return tpy_str(tp_call_mode(work->call));
  return work->kind == TP_WORK_TOOL ? tpy_str(tp_tool_run_mode(work->run)) : tpy_str((tp_text){0});
}

static PyObject *work_agent_config(PyObject *self, void *unused) {
  (void)unused;
  const tp_work *work = work_of(self, 0);
  tp_text config = {0};
  if (!work) return NULL;
  if (work->kind == TP_WORK_HANDLER) config = tp_call_agent_config(work->call);
  if (work->kind == TP_WORK_TOOL) config = tp_tool_run_agent_config(work->run);
  return config.size ? tpy_object(config) : PyDict_New();
}

/* Ends a work: nothing of it is read after this. A late answer is discarded, which is no error (False). */
static PyObject *answered(PyObject *object, tp_status status, const tp_fault *fault) {
  if (status != TP_OK && status != TP_ERR_STALE) return tpy_raise(status, fault);
  ((tpy_work *)object)->work = NULL;
  return PyBool_FromLong(status == TP_OK);
}

static PyObject *work_submit_turn(PyObject *self, PyObject *arguments) {
  const tp_work *work = work_of(self, 0);
  PyObject *session, *options, *keep, *handle = NULL;
  unsigned long long key;
  tp_turn_request request;
  tp_submission *submission = NULL;
  tp_fault fault = {0};
  if (!work || !PyArg_ParseTuple(arguments, "OOK", &session, &options, &key)) return NULL;
  tpy_runtime *runtime = ((tpy_work *)self)->runtime;
  tp_session *of = tpy_handle_get(runtime, session, TPY_SESSION);
  if (!of) return NULL;
  keep = PyList_New(0);
  if (keep && tpy_read(options, &tpb_tp_turn_request, &request, keep)) {
    tp_end *end = tpy_end_new(runtime, key);
    tp_status status = TP_ERR_USAGE;
    request.data = (void *)(uintptr_t)key;
    if (end && work->kind == TP_WORK_HANDLER)
      status = tp_call_submit_turn(work->call, of, &request, tp_end_of_turn, end, &submission, &fault);
    else if (end && work->kind == TP_WORK_TOOL)
      status = tp_tool_submit_turn(work->run, of, &request, tp_end_of_turn, end, &submission, &fault);
    if (status == TP_OK) handle = tpy_handle_new((PyObject *)Py_TYPE(session), runtime, TPY_SUBMISSION, submission);
    else if (end) {
      tp_end_free(end);
      tpy_raise(status, &fault);
    }
  }
  Py_XDECREF(keep);
  return handle;
}

/* ---- of a hook ---- */

static PyObject *work_phase(PyObject *self, void *unused) {
  (void)unused;
  const tp_work *work = work_of(self, TP_WORK_HANDLER);
  return work ? tpy_name(&tpb_tp_phase_id, (int32_t)tp_call_phase(work->call)) : NULL;
}

static PyObject *work_subscription(PyObject *self, void *unused) {
  (void)unused;
  const tp_work *work = work_of(self, TP_WORK_HANDLER);
  return work ? tpy_str(tp_text_of(tp_call_subscription(work->call))) : NULL;
}

static PyObject *work_attempt(PyObject *self, void *unused) {
  (void)unused;
  const tp_work *work = work_of(self, TP_WORK_HANDLER);
  return work ? PyLong_FromUnsignedLong(tp_call_attempt(work->call)) : NULL;
}

static tp_field_id field_of(const char *name) {
  const tp_field_id field = tp_field_find(name);
  if (field == TP_FIELD_NONE) PyErr_Format(PyExc_KeyError, "there is no field '%s' in any phase", name);
  return field;
}

static PyObject *work_get(PyObject *self, PyObject *key) {
  const tp_work *work = work_of(self, TP_WORK_HANDLER);
  const char *name = work ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
  const tp_field_id field = name ? field_of(name) : TP_FIELD_NONE;
  if (field == TP_FIELD_NONE) return NULL;
  if (!tp_call_has(work->call, field)) Py_RETURN_NONE;
  if (tp_field_kind(field) == TP_FIELD_KIND_INT) return PyLong_FromLongLong(tp_call_int(work->call, field));
  const tp_text text = tp_call_text(work->call, field);
  bool is_text = tp_field_kind(field) != TP_FIELD_KIND_VALUE;
  if (field == TP_FIELD_ARGUMENTS) /* text, if the provider could not decode the arguments */
    is_text = tp_value_kind_of(text) != TP_VALUE_MAP || tp_value_check(text, NULL) != TP_OK;
  return is_text ? tpy_str(text) : tpy_object(text);
}

static PyObject *work_payload(PyObject *self, PyObject *unused) {
  (void)unused;
  const tp_work *work = work_of(self, TP_WORK_HANDLER);
  if (!work) return NULL;
  const tp_text payload = tp_call_payload(work->call);
  return payload.size ? tpy_object(payload) : PyDict_New();
}

static PyObject *work_policy(PyObject *self, PyObject *arguments) {
  const tp_work *work = work_of(self, TP_WORK_HANDLER);
  const char *domain, *key;
  if (!work || !PyArg_ParseTuple(arguments, "ss", &domain, &key)) return NULL;
  return tpy_str(tp_call_policy(work->call, domain, key));
}

/* Reads one field of a replacement; the list keeps its texts and values. */
static bool read_field(PyObject *key, PyObject *value, PyObject *keep, tp_field *field) {
  const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
  field->id = name ? field_of(name) : TP_FIELD_NONE;
  if (field->id == TP_FIELD_NONE) return false;
  field->kind = tp_field_kind(field->id);
  if (field->kind == TP_FIELD_KIND_INT) {
    field->number = PyLong_AsLongLong(value);
    return !PyErr_Occurred();
  }
  if (field->kind == TP_FIELD_KIND_TEXT) return PyList_Append(keep, value) == 0 && tpy_text(value, &field->text);
  return tpy_value(value, keep, &field->text);
}

static PyObject *work_replace(PyObject *self, PyObject *dict) {
  const tp_work *work = work_of(self, TP_WORK_HANDLER);
  PyObject *key, *value, *keep = work ? PyList_New(0) : NULL;
  Py_ssize_t at = 0;
  bool is_read = keep && PyDict_Check(dict);
  tp_fault fault = {0};
  tp_status status = TP_OK;
  while (is_read && status == TP_OK && PyDict_Next(dict, &at, &key, &value)) {
    tp_field field = {0};
    is_read = read_field(key, value, keep, &field);
    if (is_read) status = tp_call_replace(work->call, &field, 1, &fault);
  }
  Py_XDECREF(keep);
  if (status != TP_OK) return tpy_raise(status, &fault);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

static PyObject *work_emit(PyObject *self, PyObject *dict) {
  const tp_work *work = work_of(self, TP_WORK_HANDLER);
  PyObject *keep = work ? PyList_New(0) : NULL;
  tp_contribution contribution;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (keep && tpy_read(dict, &tpb_tp_contribution, &contribution, keep))
    status = tp_call_emit(work->call, &contribution, &fault);
  Py_XDECREF(keep);
  if (status != TP_OK) return tpy_raise(status, &fault);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

typedef struct gathered {
  PyObject *list; /* NULL with an exception */
} gathered;

static bool gather_message(void *ctx, const tp_message *message) {
  gathered *to = ctx;
  PyObject *shown = tpy_show(message, &tpb_tp_message);
  if (!shown || PyList_Append(to->list, shown) != 0) Py_CLEAR(to->list);
  Py_XDECREF(shown);
  return to->list != NULL;
}

static PyObject *work_messages(PyObject *self, PyObject *unused) {
  (void)unused;
  const tp_work *work = work_of(self, TP_WORK_HANDLER);
  gathered to = {work ? PyList_New(0) : NULL};
  if (to.list) tp_call_messages(work->call, gather_message, &to);
  return to.list;
}

/* Completes a hook: the name of its answer ("done", "allow", "deny", "ask", "failed"), reason, retryable, why. */
static PyObject *work_complete(PyObject *self, PyObject *arguments) {
  const char *name, *reason = NULL, *why = "none";
  int retryable = 0;
  tp_fault fault = {0};
  if (!work_of(self, TP_WORK_HANDLER) || !PyArg_ParseTuple(arguments, "s|zps", &name, &reason, &retryable, &why))
    return NULL;
  tp_outcome outcome = {.struct_size = sizeof outcome, .reason = reason, .retryable = retryable != 0};
  outcome.kind = tpy_number(&tpb_tp_answer, name);
  if (!PyErr_Occurred()) outcome.why = (uint32_t)tpy_number(&tpb_tp_reason, why);
  if (PyErr_Occurred()) return NULL;
  return answered(self, tp_token_complete(((tpy_work *)self)->token, &outcome, &fault), &fault);
}

/* ---- of a tool ---- */

static PyObject *work_arguments(PyObject *self, void *unused) {
  (void)unused;
  const tp_work *work = work_of(self, TP_WORK_TOOL);
  if (!work) return NULL;
  const tp_text value = tp_tool_run_arguments(work->run);
  return value.size ? tpy_object(value) : PyDict_New();
}

static PyObject *work_name(PyObject *self, void *unused) {
  (void)unused;
  const tp_work *work = work_of(self, TP_WORK_TOOL);
  return work ? tpy_str(tp_tool_run_name(work->run)) : NULL;
}

static PyObject *work_call_id(PyObject *self, void *unused) {
  (void)unused;
  const tp_work *work = work_of(self, TP_WORK_TOOL);
  return work ? tpy_str(tp_tool_run_call_id(work->run)) : NULL;
}

static PyObject *work_answer(PyObject *self, PyObject *dict) {
  const tp_work *work = work_of(self, TP_WORK_TOOL);
  PyObject *keep = work ? PyList_New(0) : NULL, *result = NULL;
  tp_tool_answer answer;
  tp_fault fault = {0};
  if (keep && tpy_read(dict, &tpb_tp_tool_answer, &answer, keep))
    result = answered(self, tp_tool_complete_with(((tpy_work *)self)->token, &answer, &fault), &fault);
  Py_XDECREF(keep);
  return result;
}

/* ---- of a model ---- */

static PyObject *work_request(PyObject *self, PyObject *unused) {
  (void)unused;
  const tp_work *work = work_of(self, TP_WORK_MODEL);
  return work ? tpy_show(work->request, &tpb_tp_model_request) : NULL;
}

typedef tp_status (*piece_fn)(tp_token token, tp_text piece, tp_fault *fault);

static PyObject *emit_piece(PyObject *self, PyObject *piece, piece_fn emit) {
  tp_text text;
  tp_fault fault = {0};
  if (!work_of(self, TP_WORK_MODEL) || !tpy_text(piece, &text)) return NULL;
  const tp_status status = emit(((tpy_work *)self)->token, text, &fault);
  if (status != TP_OK && status != TP_ERR_STALE) return tpy_raise(status, &fault);
  return PyBool_FromLong(status == TP_OK);
}

static PyObject *work_delta(PyObject *self, PyObject *piece) { return emit_piece(self, piece, tp_model_delta); }
static PyObject *work_thinking(PyObject *self, PyObject *piece) { return emit_piece(self, piece, tp_model_thinking); }

static PyObject *work_respond(PyObject *self, PyObject *dict) {
  const tp_work *work = work_of(self, TP_WORK_MODEL);
  PyObject *keep = work ? PyList_New(0) : NULL, *result = NULL;
  tp_model_response response;
  tp_fault fault = {0};
  if (keep && tpy_read(dict, &tpb_tp_model_response, &response, keep))
    result = answered(self, tp_model_complete(((tpy_work *)self)->token, &response, &fault), &fault);
  Py_XDECREF(keep);
  return result;
}

static PyObject *work_fail(PyObject *self, PyObject *arguments) {
  const char *message;
  int code, retryable;
  tp_fault fault = {0};
  if (!work_of(self, TP_WORK_MODEL) || !PyArg_ParseTuple(arguments, "isp", &code, &message, &retryable)) return NULL;
  const tp_token token = ((tpy_work *)self)->token;
  return answered(self, tp_model_fail(token, (tp_status)code, message, retryable != 0, &fault), &fault);
}

static PyMethodDef work_methods[] = {
    {"id", work_id, METH_O, NULL},
    {"get", work_get, METH_O, NULL},
    {"payload", work_payload, METH_NOARGS, NULL},
    {"policy", work_policy, METH_VARARGS, NULL},
    {"replace", work_replace, METH_O, NULL},
    {"emit", work_emit, METH_O, NULL},
    {"messages", work_messages, METH_NOARGS, NULL},
    {"complete", work_complete, METH_VARARGS, NULL},
    {"answer", work_answer, METH_O, NULL},
    {"request", work_request, METH_NOARGS, NULL},
    {"delta", work_delta, METH_O, NULL},
    {"thinking", work_thinking, METH_O, NULL},
    {"respond", work_respond, METH_O, NULL},
    {"fail", work_fail, METH_VARARGS, NULL},
    {"submit_turn", work_submit_turn, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef work_members[] = {
    {"token", work_token, NULL, NULL, NULL},
    {"open", work_open, NULL, NULL, NULL},
    {"time_left_ms", work_time_left, NULL, NULL, NULL},
    {"mode", work_mode, NULL, NULL, NULL},
    {"agent_config", work_agent_config, NULL, NULL, NULL},
    {"phase", work_phase, NULL, NULL, NULL},
    {"subscription", work_subscription, NULL, NULL, NULL},
    {"attempt", work_attempt, NULL, NULL, NULL},
    {"arguments", work_arguments, NULL, NULL, NULL},
    {"name", work_name, NULL, NULL, NULL},
    {"call_id", work_call_id, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot work_slots[] = {
    {Py_tp_dealloc, work_dealloc},
    {Py_tp_methods, work_methods},
    {Py_tp_getset, work_members},
    {0, NULL},
};
PyType_Spec tpy_work_spec = {
    .name = "turnphase._core.Work",
    .basicsize = sizeof(tpy_work),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = work_slots,
};
