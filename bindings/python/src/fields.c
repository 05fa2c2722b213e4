/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c: converts between structs and dicts, by the tables of bindings/fields.py. */
#include <string.h>

#include "bindings/python/src/core.h"

/* Returns the str of a name, which is interned and kept, as Python interns the keys in its own code. Borrowed; NULL
 * with an exception. */
static PyObject *name_of(void **names, size_t index, const char *name) {
  if (!names[index]) names[index] = PyUnicode_InternFromString(name);
  return names[index];
}

static const tpb_field *find_field(const tpb_struct *table, PyObject *key) {
  for (const tpb_field *field = table->fields; field->name; field++)
    if (table->names[field - table->fields] == key) return field;
  const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
  for (const tpb_field *field = table->fields; name && field->name; field++)
    if (strcmp(field->name, name) == 0)
      return name_of(table->names, (size_t)(field - table->fields), name) ? field : NULL;
  if (name) PyErr_Format(PyExc_TypeError, "%s has no option '%s'", table->name + 3, name);
  return NULL;
}

int32_t tpy_number(const tpb_enum *table, const char *name) {
  const tpb_enum_value *value = table->values;
  while (value->name && strcmp(value->name, name) != 0) value++;
  if (value->name) return value->number;
  PyObject *names = PyUnicode_FromString(""), *longer;
  for (value = table->values; names && value->name; value++) {
    longer = PyUnicode_FromFormat("%U%s%s", names, value == table->values ? "" : ", ", value->name);
    Py_DECREF(names);
    names = longer;
  }
  if (names) PyErr_Format(PyExc_ValueError, "%s is not '%s': one of %U", table->name + 3, name, names);
  Py_XDECREF(names);
  return -1;
}

PyObject *tpy_name(const tpb_enum *table, int32_t number) {
  const tpb_enum_value *value = table->values;
  while (value->name && value->number != number) value++;
  if (!value->name) return PyLong_FromLong(number);
  PyObject *name = name_of(table->names, (size_t)(value - table->values), value->name);
  return name ? Py_NewRef(name) : NULL;
}

/* ---- reading ---- */

/* Allocates memory for a struct, which lives as long as the list. */
static void *keep_memory(size_t size, PyObject *keep) {
  PyObject *memory = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(size ? size : 1));
  if (!memory) return NULL;
  char *data = PyBytes_AsString(memory);
  const int failed = PyList_Append(keep, memory);
  Py_DECREF(memory);
  return failed ? NULL : memset(data, 0, size ? size : 1);
}

static bool read_number(PyObject *object, const tpb_field *field, char *member) {
  const bool is_signed = field->kind != TPB_UINT;
  const long long number = is_signed ? PyLong_AsLongLong(object) : 0;
  const unsigned long long size = is_signed ? 0 : PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred()) return false;
  const int bits = 8 * (int)field->size;
  const bool fits = field->size == 8 || (is_signed ? number >= -(1LL << (bits - 1)) && number < (1LL << (bits - 1))
                                                   : size < (1ULL << bits));
  if (!fits) {
    PyErr_Format(PyExc_OverflowError, "%s has %d bits: %R does not fit", field->name, bits, object);
    return false;
  }
  memcpy(member, is_signed ? (const void *)&number : (const void *)&size, field->size); /* numbers are little-endian */
  return true;
}

static bool read_enum(PyObject *object, const tpb_field *field, char *member) {
  if (!PyUnicode_Check(object)) return read_number(object, field, member);
  const char *name = PyUnicode_AsUTF8AndSize(object, NULL);
  const int32_t number = name ? tpy_number(field->table, name) : -1;
  if (PyErr_Occurred()) return false;
  memcpy(member, &number, sizeof number);
  return true;
}

/* Reads a string. A NUL inside is refused, since it would hide what follows it. */
static const char *read_string(PyObject *object) {
  Py_ssize_t size = 0;
  const char *data = PyUnicode_AsUTF8AndSize(object, &size);
  if (data && strlen(data) != (size_t)size) {
    PyErr_SetString(PyExc_ValueError, "a NUL is in the text");
    return NULL;
  }
  return data;
}

static bool read_list(PyObject *list, const tpb_field *field, char *target, PyObject *keep) {
  const tpb_struct *table = field->table;
  const Py_ssize_t count = PyList_Check(list) || PyTuple_Check(list) ? PySequence_Size(list) : -1;
  if (count < 0) {
    PyErr_Format(PyExc_TypeError, "a list or a tuple, not %R", (PyObject *)Py_TYPE(list));
    return false;
  }
  const void **items = keep_memory(((size_t)count + 1) * sizeof *items, keep);
  for (Py_ssize_t i = 0; items && i < count; i++) {
    PyObject *item = PySequence_GetItem(list, i);
    void *memory = item && table ? keep_memory(table->size, keep) : NULL;
    if (!item || PyList_Append(keep, item) != 0) items = NULL;
    else if (!table) items[i] = read_string(item);
    else if (memory && tpy_read(item, table, memory, keep)) items[i] = memory;
    Py_XDECREF(item);
    if (PyErr_Occurred()) return false;
  }
  if (!items) return false;
  memcpy(target + field->offset, &items, sizeof items);
  if (field->count_offset < 0) return true;
  const size_t number = (size_t)count; /* every counted list of STRUCTS has a count of 64 bits */
  memcpy(target + field->count_offset, &number, sizeof number);
  return true;
}

static bool read_member(PyObject *object, const tpb_field *field, char *target, PyObject *keep) {
  char *member = target + field->offset;
  const void *data = NULL;
  switch (field->kind) {
    case TPB_STRING:
      data = read_string(object);
      if (!data) return false;
      memcpy(member, &data, sizeof data);
      return true;
    case TPB_UINT:
    case TPB_INT:
      return read_number(object, field, member);
    case TPB_BOOL:
      *(bool *)member = PyObject_IsTrue(object) == 1;
      return !PyErr_Occurred();
    case TPB_ENUM:
      return read_enum(object, field, member);
    case TPB_TEXT:
      return tpy_text(object, (tp_text *)member);
    case TPB_BYTES: {
      char *bytes = NULL;
      Py_ssize_t size = 0;
      if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) return false;
      *(tp_text *)member = (tp_text){bytes, (size_t)size};
      return true;
    }
    case TPB_VALUE:
    case TPB_LATER:
      return tpy_value(object, keep, (tp_text *)member);
    case TPB_STRUCT: {
      const tpb_struct *table = field->table;
      void *memory = keep_memory(table->size, keep);
      if (!memory || !tpy_read(object, table, memory, keep)) return false;
      memcpy(member, &memory, sizeof memory);
      return true;
    }
    case TPB_STRINGS:
    case TPB_STRUCTS:
      return read_list(object, field, target, keep);
  }
  return false;
}

/* Adds the name of the member to an exception, which keeps its type. */
static void name_member(const tpb_struct *table, const char *name) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : "";
  PyErr_Clear();
  PyErr_Format(type, "%s.%s: %s", table->name + 3, name, words ? words : "");
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

/* Whether a value is text: in a call whose arguments could not be decoded. */
static bool is_raw(PyObject *dict, const tpb_struct *table, const tpb_field *field) {
  if (field->kind != TPB_VALUE || field->count_offset < 0) return false;
  const tpb_field *flag = table->fields;
  while (flag->offset != (size_t)field->count_offset) flag++;
  PyObject *value = PyDict_GetItemString(dict, flag->name);
  return value && PyObject_IsTrue(value) == 1;
}

bool tpy_read(PyObject *dict, const tpb_struct *table, void *target, PyObject *keep) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  memset(target, 0, table->size);
  memcpy(target, &table->size, sizeof table->size); /* sets struct_size */
  if (!dict || dict == Py_None) return true;
  if (!PyDict_Check(dict)) {
    PyErr_Format(PyExc_TypeError, "%s is a dict, not %R", table->name + 3, (PyObject *)Py_TYPE(dict));
    return false;
  }
  while (PyDict_Next(dict, &at, &key, &value)) {
    const tpb_field *field = find_field(table, key);
    if (!field) return false;
    if (value == Py_None) continue;
    if (PyList_Append(keep, value) != 0) return false;
    if (!(is_raw(dict, table, field) ? tpy_text(value, (tp_text *)((char *)target + field->offset))
                                     : read_member(value, field, target, keep))) {
      name_member(table, field->name);
      return false;
    }
  }
  return true;
}

/* ---- showing ---- */

PyObject *tpy_show_list(const void *const *items, size_t count, const tpb_struct *table) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *item = tpy_show(items[i], table);
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

/* NULL without an exception means that the member is zero, and is left out. */
static PyObject *show_member(const char *source, const tpb_field *field) {
  const char *member = source + field->offset;
  const void *data = NULL;
  int64_t number = 0;
  tp_text text;
  switch (field->kind) {
    case TPB_STRING:
      memcpy(&data, member, sizeof data);
      return data ? PyUnicode_DecodeUTF8(data, (Py_ssize_t)strlen(data), "replace") : NULL;
    case TPB_UINT:
      memcpy(&number, member, field->size);
      return number ? PyLong_FromUnsignedLongLong((uint64_t)number) : NULL;
    case TPB_INT:
      memcpy(&number, member, field->size);
      if (field->size == 4) number = (int32_t)number;
      return number ? PyLong_FromLongLong(number) : NULL;
    case TPB_BOOL:
      return *(const bool *)member ? PyBool_FromLong(1) : NULL;
    case TPB_ENUM:
      memcpy(&number, member, field->size);
      return number ? tpy_name(field->table, (int32_t)number) : NULL;
    case TPB_TEXT:
    case TPB_BYTES:
    case TPB_VALUE:
    case TPB_LATER:
      memcpy(&text, member, sizeof text);
      if (!text.size) return NULL;
      if (field->kind == TPB_BYTES || field->kind == TPB_LATER)
        return PyBytes_FromStringAndSize(text.data, (Py_ssize_t)text.size);
      if (field->kind == TPB_TEXT || (field->count_offset >= 0 && source[field->count_offset])) return tpy_str(text);
      return tpy_object(text);
    case TPB_STRUCT:
      memcpy(&data, member, sizeof data);
      return data ? tpy_show(data, field->table) : NULL;
    case TPB_STRUCTS: {
      size_t count = 0;
      memcpy(&data, member, sizeof data);
      memcpy(&count, source + field->count_offset, sizeof count);
      return data && count ? tpy_show_list(data, count, field->table) : NULL;
    }
    default:
      return NULL;
  }
}

PyObject *tpy_show(const void *source, const tpb_struct *table) {
  PyObject *dict = PyDict_New();
  size_t size;
  memcpy(&size, source, sizeof size); /* struct_size: an older library has fewer members */
  for (const tpb_field *field = table->fields; dict && field->name; field++) {
    if (field->offset + field->size > size) continue;
    PyObject *shown = show_member(source, field);
    PyObject *name = shown ? name_of(table->names, (size_t)(field - table->fields), field->name) : NULL;
    if (shown ? !name || PyDict_SetItem(dict, name, shown) != 0 : PyErr_Occurred() != NULL) Py_CLEAR(dict);
    Py_XDECREF(shown);
  }
  return dict;
}
