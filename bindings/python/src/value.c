/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c: converts between objects of Python and values, and makes the exception of a fault. */
#include "bindings/python/src/core.h"

enum { DEPTH_MAX = 32 };

static bool write_object(PyObject *object, tp_writer *writer, int depth);

bool tpy_text(PyObject *str, tp_text *ret_text) {
  Py_ssize_t size = 0;
  const char *data = PyUnicode_AsUTF8AndSize(str, &size);
  if (!data) return false;
  *ret_text = (tp_text){data, (size_t)size};
  return true;
}

static bool write_map(PyObject *dict, tp_writer *writer, int depth) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  tp_write_map(writer, (size_t)PyDict_Size(dict));
  while (PyDict_Next(dict, &at, &key, &value)) {
    tp_text text;
    if (!PyUnicode_Check(key)) {
      PyErr_Format(PyExc_TypeError, "a key of a value must be str, not %R", key);
      return false;
    }
    if (!tpy_text(key, &text)) return false;
    tp_write_text(writer, text);
    if (!write_object(value, writer, depth)) return false;
  }
  return true;
}

static bool write_array(PyObject *sequence, tp_writer *writer, int depth) {
  const Py_ssize_t count = PySequence_Size(sequence);
  tp_write_array(writer, (size_t)count);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item = PySequence_GetItem(sequence, i);
    const bool is_written = item && write_object(item, writer, depth);
    Py_XDECREF(item);
    if (!is_written) return false;
  }
  return true;
}

static bool write_int(PyObject *object, tp_writer *writer) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow) PyErr_Format(PyExc_OverflowError, "a value holds integers of 64 bits, not %R", object);
  if (PyErr_Occurred()) return false;
  tp_write_int(writer, number);
  return true;
}

static bool write_object(PyObject *object, tp_writer *writer, int depth) {
  tp_text text;
  if (depth > DEPTH_MAX) {
    PyErr_Format(PyExc_ValueError, "a value has at most %d containers inside each other", DEPTH_MAX);
    return false;
  }
  if (object == Py_None) return tp_write_null(writer), true;
  if (PyBool_Check(object)) return tp_write_bool(writer, object == Py_True), true;
  if (PyLong_Check(object)) return write_int(object, writer);
  if (PyFloat_Check(object)) return tp_write_double(writer, PyFloat_AsDouble(object)), true;
  if (PyUnicode_Check(object)) {
    if (!tpy_text(object, &text)) return false;
    return tp_write_text(writer, text), true;
  }
  if (PyBytes_Check(object)) {
    text = (tp_text){PyBytes_AsString(object), (size_t)PyBytes_Size(object)};
    return tp_write_bytes(writer, text), true;
  }
  if (PyDict_Check(object)) return write_map(object, writer, depth + 1);
  if (PyList_Check(object) || PyTuple_Check(object)) return write_array(object, writer, depth + 1);
  PyErr_Format(PyExc_TypeError, "a value is None, bool, int, float, str, bytes, list, tuple or dict, not %R",
               (PyObject *)Py_TYPE(object));
  return false;
}

bool tpy_write(PyObject *object, tp_writer *writer) { return write_object(object, writer, 0); }

bool tpy_value(PyObject *object, PyObject *keep, tp_text *ret_value) {
  tp_writer *writer = NULL;
  tp_fault fault = {0};
  tp_text value = {0};
  tp_status status = tp_writer_new(NULL, &writer);
  PyObject *copy = NULL;
  if (status != TP_OK) return PyErr_NoMemory() != NULL;
  if (tpy_write(object, writer)) {
    status = tp_writer_finish(writer, &value);
    if (status == TP_OK) status = tp_value_check(value, &fault);
    if (status == TP_OK) copy = PyBytes_FromStringAndSize(value.data, (Py_ssize_t)value.size);
    else tpy_raise(status, &fault);
  }
  tp_writer_free(writer);
  if (!copy) return false;
  const bool is_kept = PyList_Append(keep, copy) == 0;
  if (is_kept) *ret_value = (tp_text){PyBytes_AsString(copy), (size_t)PyBytes_Size(copy)};
  Py_DECREF(copy);
  return is_kept;
}

PyObject *tpy_str(tp_text text) {
  return PyUnicode_DecodeUTF8(text.data ? text.data : "", (Py_ssize_t)text.size, "replace");
}

static PyObject *container_object(tp_text value, bool is_map) {
  tp_value_walk walk = {0};
  PyObject *made = is_map ? PyDict_New() : PyList_New(0);
  while (made && tp_value_next(value, &walk)) {
    PyObject *item = tpy_object(walk.value), *key = is_map ? tpy_str(walk.key) : NULL;
    int failed = !item || (is_map && !key);
    if (!failed) failed = is_map ? PyDict_SetItem(made, key, item) : PyList_Append(made, item);
    Py_XDECREF(item);
    Py_XDECREF(key);
    if (failed) Py_CLEAR(made);
  }
  return made;
}

/* The recursion is bounded, since the library has bounded the depth of a value. */
PyObject *tpy_object(tp_text value) {
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_NULL:
      Py_RETURN_NONE;
    case TP_VALUE_BOOL:
      return PyBool_FromLong(tp_value_bool(value, false));
    case TP_VALUE_INT:
      return PyLong_FromLongLong(tp_value_int(value, 0));
    case TP_VALUE_DOUBLE:
      return PyFloat_FromDouble(tp_value_double(value, 0));
    case TP_VALUE_TEXT:
      return tpy_str(tp_value_text(value));
    case TP_VALUE_BYTES: {
      const tp_text bytes = tp_value_text(value);
      return PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.size);
    }
    case TP_VALUE_ARRAY:
    case TP_VALUE_MAP:
      return container_object(value, tp_value_kind_of(value) == TP_VALUE_MAP);
    default:
      return tpy_str(value);
  }
}

PyObject *tpy_raise(tp_status status, const tp_fault *fault) {
  PyObject *errors = PyImport_ImportModule("turnphase._errors"), *error = NULL;
  const bool is_filled = fault && fault->code == status;
  if (errors)
    error = PyObject_CallMethod(
        errors, "of", "isssssIIi", (int)status, tp_status_name(status), tp_status_category(status),
        is_filled && fault->message[0] ? fault->message : tp_status_text(status), is_filled ? fault->subject : "", "",
        is_filled ? fault->line : 0, is_filled ? fault->column : 0, is_filled ? (int)fault->system_error : 0);
  if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_XDECREF(errors);
  return NULL;
}
