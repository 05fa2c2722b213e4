/* SPDX-License-Identifier: Apache-2.0
 *
 * module.c: the module turnphase._core. */
#include <string.h>

#include "bindings/python/src/core.h"

static PyObject *module_version(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  return PyUnicode_FromString(tp_version());
}

/* Returns a value after a conversion to the library and back, for tests of the binding. */
static PyObject *module_round_trip(PyObject *self, PyObject *object) {
  PyObject *keep = PyList_New(0), *shown = NULL;
  tp_text value;
  (void)self;
  if (keep && tpy_value(object, keep, &value)) shown = tpy_object(value);
  Py_XDECREF(keep);
  return shown;
}

/* value(bytes) -> the object of a value that was shown as bytes (TPB_LATER) */
static PyObject *module_value(PyObject *self, PyObject *bytes) {
  char *data = NULL;
  Py_ssize_t size = 0;
  (void)self;
  if (PyBytes_AsStringAndSize(bytes, &data, &size) != 0) return NULL;
  const tp_text value = {data, (size_t)size};
  tp_fault fault = {0};
  const tp_status status = tp_value_check(value, &fault);
  return status == TP_OK ? tpy_object(value) : tpy_raise(status, &fault);
}

/* The names of events by their numbers, from 1. */
static PyObject *module_event_names(PyObject *self, PyObject *unused) {
  PyObject *names = PyList_New(0);
  (void)self, (void)unused;
  for (int kind = 1; names && strcmp(tp_event_name((tp_event_kind)kind), "unknown") != 0; kind++) {
    PyObject *name = PyUnicode_FromString(tp_event_name((tp_event_kind)kind));
    if (!name || PyList_Append(names, name) != 0) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

static PyMethodDef module_methods[] = {
    {"version", module_version, METH_NOARGS, NULL},
    {"event_names", module_event_names, METH_NOARGS, NULL},
    {"round_trip", module_round_trip, METH_O, NULL},
    {"value", module_value, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
  tpy_state *state = PyModule_GetState(module);
  (void)tpy_forks();
  state->runtime_type = PyType_FromModuleAndSpec(module, &tpy_runtime_spec, NULL);
  state->handle_type = PyType_FromModuleAndSpec(module, &tpy_handle_spec, NULL);
  state->work_type = PyType_FromModuleAndSpec(module, &tpy_work_spec, NULL);
  if (!state->runtime_type || !state->handle_type || !state->work_type) return -1;
  return PyModule_AddObjectRef(module, "Runtime", state->runtime_type) == 0 &&
                 PyModule_AddObjectRef(module, "Handle", state->handle_type) == 0 &&
                 PyModule_AddObjectRef(module, "Work", state->work_type) == 0
             ? 0
             : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  const tpy_state *state = PyModule_GetState(module);
  Py_VISIT(state->runtime_type);
  Py_VISIT(state->handle_type);
  Py_VISIT(state->work_type);
  return 0;
}

static int module_clear(PyObject *module) {
  tpy_state *state = PyModule_GetState(module);
  Py_CLEAR(state->runtime_type);
  Py_CLEAR(state->handle_type);
  Py_CLEAR(state->work_type);
  return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};
static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,   .m_name = "turnphase._core",   .m_size = sizeof(tpy_state), .m_methods = module_methods,
    .m_slots = module_slots, .m_traverse = module_traverse, .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module_def); }
