/* SPDX-License-Identifier: Apache-2.0
 *
 * core.h: the module turnphase._core: what Python needs of the library, and nothing that Python can do itself. It
 * makes dicts of structs and structs of dicts (fields.c, by the tables of bindings/fields.py), values of objects
 * (value.c), and takes work from an inbox (work.c). The package turnphase is written in Python over it.
 *
 * No pointer to a Python object is ever in the library: ctx and data of all that is registered are keys of a dict of
 * the package, and no function of Python is called by a thread of the library. So the interpreter may end at any time,
 * and no thread of the library ever waits for the GIL.
 *
 * Threads: that of the GIL, unless a function says otherwise. */
#ifndef TURNPHASE_BINDINGS_PYTHON_CORE_H
#define TURNPHASE_BINDINGS_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000 /* one wheel for Python 3.11 and every later one */
#include <Python.h>

#include "bindings/logs.h"
#include "bindings/tables.h"
#include "turnphase/turnphase.h"

/* ---- structs and dicts ---- */

/** Clears a struct, sets its struct_size, and fills it from a dict, in which None is as if the key were not there.
 *  @param dict  NULL or None: nothing.
 *  @param keep  a list: gets the objects whose memory the struct points to.
 *  @return false with an exception that names the member. */
bool tpy_read(PyObject *dict, const tpb_struct *table, void *target, PyObject *keep);
/** A dict of the members that are not zero; values of enums are their names. NULL with an exception. */
PyObject *tpy_show(const void *source, const tpb_struct *table);
/** A list of such dicts. NULL with an exception. */
PyObject *tpy_show_list(const void *const *items, size_t count, const tpb_struct *table);
/** The name of a number, or the number where the table has none. */
PyObject *tpy_name(const tpb_enum *table, int32_t number);
/** The number of a name of an enum, or -1 with an exception that lists the names. */
int32_t tpy_number(const tpb_enum *table, const char *name);

/* ---- values, texts, faults ---- */

/** Writes an object as one value: None, bool, int, float, str, bytes, list, tuple and dict with keys of str.
 *  @return false with an exception that says what cannot be written, and where the library refuses it. */
bool tpy_write(PyObject *object, tp_writer *writer);
/** The value of an object, kept by a bytes object in the list. False with an exception. */
bool tpy_value(PyObject *object, PyObject *keep, tp_text *ret_value);
/** The object of a value; of broken bytes a str of them. NULL with an exception. */
PyObject *tpy_object(tp_text value);
PyObject *tpy_str(tp_text text);
/** The view of a str, as long as the object lives. False with an exception. */
bool tpy_text(PyObject *str, tp_text *ret_text);
/** Raises the exception of a fault, by turnphase._errors. @return NULL. */
PyObject *tpy_raise(tp_status status, const tp_fault *fault);

/* ---- objects ---- */

typedef struct tpy_runtime {
  PyObject_HEAD tp_runtime *runtime; /* NULL: freed */
  tp_inbox *inbox;                   /* NULL: freed */
  tpb_logs *logs;
  unsigned forks; /* when it was made */
  unsigned calls; /* that have released the GIL */
} tpy_runtime;

/** Whether its runtime may be used here. False with an exception: it was closed, or belongs to the parent of a fork. */
bool tpy_usable(const tpy_runtime *runtime);
/** How often this process is the child of a fork. */
unsigned tpy_forks(void);

/** What a Handle is of. */
typedef enum tpy_handle_kind { TPY_SESSION = 1, TPY_AGENT, TPY_SUBMISSION, TPY_MODEL, TPY_TURN } tpy_handle_kind;

/** A handle of the library's in Python. It holds its runtime, whose end ends sessions and agents. */
typedef struct tpy_handle {
  PyObject_HEAD tpy_handle_kind kind;
  void *pointer; /* NULL: closed, taken or removed */
  tpy_runtime *runtime;
} tpy_handle;
/** Takes the pointer, also where it fails. */
PyObject *tpy_handle_new(PyObject *type, tpy_runtime *runtime, tpy_handle_kind kind, void *pointer);
/** The pointer of a handle of this kind and runtime, or NULL with an exception. */
void *tpy_handle_get(const tpy_runtime *runtime, PyObject *object, tpy_handle_kind kind);
/** An end whose work has this key as ctx, or NULL with an exception. */
tp_end *tpy_end_new(tpy_runtime *runtime, unsigned long long key);
/** A destroy function that does nothing: with it the library reports the end of what is registered. Threads: any. */
void tpy_destroy(void *ctx);

/** Methods of a runtime that register a library over the core, or make a model of one (domains.c). */
PyObject *tpy_domain_add(PyObject *self, PyObject *arguments);
PyObject *tpy_model_new(PyObject *self, PyObject *arguments);
/** Opens the SQLite store and history of options for tp_runtime_new(). False with an exception. */
bool tpy_stores_open(PyObject *path, tp_store **ret_store, tp_shared_history **ret_history);

/** A HANDLER, TOOL or MODEL that was taken, until it is answered. */
PyObject *tpy_work_new(PyObject *type, tpy_runtime *runtime, const tp_work *work);

/** A list of dicts: the records that were written since. */
PyObject *tpy_logs_take(tpb_logs *logs);

extern PyType_Spec tpy_runtime_spec, tpy_handle_spec, tpy_work_spec;
/** Types of the module. */
typedef struct tpy_state {
  PyObject *runtime_type, *handle_type, *work_type;
} tpy_state;

#endif
