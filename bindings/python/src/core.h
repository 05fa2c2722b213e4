/* SPDX-License-Identifier: Apache-2.0
 *
 * core.h: the module turnphase._core: the functions of the library that Python needs, and nothing that Python can do
 * itself. It converts between structs and dicts (fields.c, by the tables of bindings/fields.py) and between values and
 * objects (value.c), and takes work from an inbox (work.c). The package turnphase on top of it is written in Python.
 *
 * No pointer to a Python object is ever in the library: ctx and data of everything that is registered are keys of a
 * dict of the package, and no function of Python is called by a thread of the library. So the interpreter may end at
 * any time, and no thread of the library ever waits for the GIL.
 *
 * Threads: that of the GIL, unless a function says otherwise. */
#ifndef TURNPHASE_BINDINGS_PYTHON_CORE_H
#define TURNPHASE_BINDINGS_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000 /* one wheel serves Python 3.11 and all later ones */
#include <Python.h>

#include "bindings/logs.h"
#include "bindings/tables.h"
#include "turnphase/turnphase.h"

/* ---- structs and dicts ---- */

/** Clears a struct, sets its struct_size, and fills it from a dict, in which None counts as a missing key.
 *  @param dict  NULL or None: nothing.
 *  @param keep  a list: gets the objects whose memory the struct points to.
 *  @return false with an exception that names the member. */
bool tpy_read(PyObject *dict, const tpb_struct *table, void *target, PyObject *keep);
/** Makes a dict of the members that are not zero; values of enums are their names. NULL with an exception. */
PyObject *tpy_show(const void *source, const tpb_struct *table);
/** Makes a list of such dicts. NULL with an exception. */
PyObject *tpy_show_list(const void *const *items, size_t count, const tpb_struct *table);
/** The name of a number, or the number itself if the table has no name. */
PyObject *tpy_name(const tpb_enum *table, int32_t number);
/** The number of a name of an enum, or -1 with an exception that lists the names. */
int32_t tpy_number(const tpb_enum *table, const char *name);

/* ---- values, texts, faults ---- */

/** Writes an object as one value: None, bool, int, float, str, bytes, list, tuple and dict with keys of str.
 *  @return false with an exception that names what cannot be written, also when the library refuses it. */
bool tpy_write(PyObject *object, tp_writer *writer);
/** Writes the value of an object; a bytes object in the list keeps it. False with an exception. */
bool tpy_value(PyObject *object, PyObject *keep, tp_text *ret_value);
/** Makes the object of a value; broken bytes become a str. NULL with an exception. */
PyObject *tpy_object(tp_text value);
PyObject *tpy_str(tp_text text);
/** Views a str as text, as long as the object lives. False with an exception. */
bool tpy_text(PyObject *str, tp_text *ret_text);
/** Raises the exception of a fault, by turnphase._errors. @return NULL. */
PyObject *tpy_raise(tp_status status, const tp_fault *fault);

/* ---- objects ---- */

typedef struct tpy_runtime {
  PyObject_HEAD tp_runtime *runtime; /* NULL: it was freed */
  tp_inbox *inbox;                   /* NULL: it was freed */
  tpb_logs *logs;
  unsigned forks; /* tpy_forks() when it was made */
  unsigned calls; /* how many calls have released the GIL */
} tpy_runtime;

/** Whether its runtime may be used here. False with an exception: it was closed, or belongs to the parent of a fork. */
bool tpy_usable(const tpy_runtime *runtime);
/** How many forks lie between this process and the one that loaded the module. */
unsigned tpy_forks(void);

/** The kind of object that a Handle refers to. */
typedef enum tpy_handle_kind { TPY_SESSION = 1, TPY_AGENT, TPY_SUBMISSION, TPY_MODEL, TPY_TURN } tpy_handle_kind;

/** A Python object for an object of the library. It keeps its runtime alive, whose end ends sessions and agents. */
typedef struct tpy_handle {
  PyObject_HEAD tpy_handle_kind kind;
  void *pointer; /* NULL: closed, taken or removed */
  tpy_runtime *runtime;
} tpy_handle;
/** Makes a handle. Takes the pointer, also on failure. */
PyObject *tpy_handle_new(PyObject *type, tpy_runtime *runtime, tpy_handle_kind kind, void *pointer);
/** Returns the pointer of a handle, if it has this kind and runtime; else NULL with an exception. */
void *tpy_handle_get(const tpy_runtime *runtime, PyObject *object, tpy_handle_kind kind);
/** Makes an end whose work has this key as ctx; NULL with an exception. */
tp_end *tpy_end_new(tpy_runtime *runtime, unsigned long long key);
/** A destroy function that does nothing: with it the library reports the end of what is registered. Threads: any. */
void tpy_destroy(void *ctx);

/** Methods of a runtime that register a library over the core, or make a model of one (domains.c). */
PyObject *tpy_domain_add(PyObject *self, PyObject *arguments);
PyObject *tpy_model_new(PyObject *self, PyObject *arguments);
/** Opens the SQLite store and history of options for tp_runtime_new(). False with an exception. */
bool tpy_stores_open(PyObject *path, tp_store **ret_store, tp_shared_history **ret_history);

/** Makes an object for a HANDLER, TOOL or MODEL that was taken; it is valid until it is answered. */
PyObject *tpy_work_new(PyObject *type, tpy_runtime *runtime, const tp_work *work);

/** Takes the waiting log records, as a list of dicts. */
PyObject *tpy_logs_take(tpb_logs *logs);

extern PyType_Spec tpy_runtime_spec, tpy_handle_spec, tpy_work_spec;
/** The types of the module. */
typedef struct tpy_state {
  PyObject *runtime_type, *handle_type, *work_type;
} tpy_state;

#endif
