/* SPDX-License-Identifier: Apache-2.0
 *
 * domains.c: the libraries over the core in this build: stores, models, and libraries that register tools and hooks. */
#include <string.h>

#include "bindings/python/src/core.h"
#include "turnphase/declared.h"
#include "turnphase/files.h"
#include "turnphase/mcp.h"
#include "turnphase/memory.h"
#include "turnphase/openai.h"
#include "turnphase/skills.h"
#include "turnphase/sqlite.h"
#include "bindings/python/fields.h"

static void *not_built(const char *name) {
  PyErr_Format(PyExc_NotImplementedError, "this build of turnphase has no '%s'", name);
  return NULL;
}

/* ---- SQLite ---- */

bool tpy_stores_open(PyObject *options, tp_store **ret_store, tp_shared_history **ret_history) {
#ifdef TPY_SQLITE
  PyObject *keep = PyList_New(0);
  tp_sqlite_store_options read;
  tp_history *history = NULL;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  const bool is_read = keep && tpy_read(options, &tpb_tp_sqlite_store_options, &read, keep);
  if (is_read) {
    Py_BEGIN_ALLOW_THREADS status = tp_sqlite_store_open(&read, ret_store, &fault);
    if (status == TP_OK) status = tp_sqlite_history_open(read.path, &history, &fault);
    if (status == TP_OK) {
      status = tp_history_share(NULL, history, ret_history, &fault);
      if (status != TP_OK) tp_history_free(history);
    }
    Py_END_ALLOW_THREADS
  }
  Py_XDECREF(keep);
  if (status != TP_OK) tpy_raise(status, &fault);
  return is_read && status == TP_OK;
#else
  (void)options, (void)ret_store, (void)ret_history;
  return not_built("sqlite") != NULL;
#endif
}

/* ---- models ---- */

static tp_status make_model(const char *kind, const char *script, PyObject *options, PyObject *keep, tp_model **model,
                            tp_fault *fault) {
  if (strcmp(kind, "script") == 0) return tp_script_model_decode(script, model, fault);
#ifdef TPY_OPENAI
  tp_openai_options read;
  if (strcmp(kind, "openai") == 0)
    return tpy_read(options, &tpb_tp_openai_options, &read, keep) ? tp_openai_model_new(&read, model, fault) : TP_OK;
#else
  (void)options, (void)keep;
#endif
  not_built(kind);
  return TP_OK;
}

/* model_new(kind, script, options) -> Handle */
PyObject *tpy_model_new(PyObject *self, PyObject *arguments) {
  const tpy_state *state = PyType_GetModuleState(Py_TYPE(self));
  const char *kind, *script;
  PyObject *options, *keep;
  tp_model *model = NULL;
  tp_fault fault = {0};
  if (!tpy_usable((tpy_runtime *)self) || !PyArg_ParseTuple(arguments, "szO", &kind, &script, &options)) return NULL;
  keep = PyList_New(0);
  const tp_status status = keep ? make_model(kind, script, options, keep, &model, &fault) : TP_OK;
  Py_XDECREF(keep);
  if (status != TP_OK) return tpy_raise(status, &fault);
  return PyErr_Occurred() ? NULL : tpy_handle_new(state->handle_type, (tpy_runtime *)self, TPY_MODEL, model);
}

/* ---- what registers in an edit, or by itself ---- */

static tp_status add_to_edit(tp_edit *edit, const char *kind, PyObject *options, PyObject *keep, tp_fault *fault) {
#ifdef TPY_MEMORY
  tp_memory_options memory;
  if (strcmp(kind, "memory") == 0)
    return tpy_read(options, &tpb_tp_memory_options, &memory, keep) ? tp_memory_register(edit, &memory, fault) : TP_OK;
#endif
#ifdef TPY_FILES
  tp_files_options files;
  if (strcmp(kind, "files") == 0)
    return tpy_read(options, &tpb_tp_files_options, &files, keep) ? tp_files_register(edit, &files, fault) : TP_OK;
#endif
#ifdef TPY_SKILLS
  tp_skills_options skills;
  if (strcmp(kind, "skills") == 0)
    return tpy_read(options, &tpb_tp_skills_options, &skills, keep) ? tp_skills_register(edit, &skills, fault) : TP_OK;
#endif
  (void)edit, (void)options, (void)keep, (void)fault;
  not_built(kind);
  return TP_OK;
}

static tp_status commit_edit(tp_runtime *runtime, const char *kind, PyObject *options, PyObject *keep,
                             tp_fault *fault) {
  tp_edit *edit = NULL;
  tp_status status = tp_edit_begin(runtime, NULL, &edit, fault);
  if (status == TP_OK) status = add_to_edit(edit, kind, options, keep, fault);
  if (status == TP_OK && !PyErr_Occurred()) {
    status = tp_edit_commit(edit, NULL, fault);
    if (status == TP_OK) return status;
  }
  tp_edit_discard(edit);
  return status;
}

#ifdef TPY_DECLARED
static tp_status add_hooks(tp_runtime *runtime, PyObject *options, PyObject *keep, const char *trusted,
                           tp_fault *fault) {
  tp_hooks_options read;
  tp_hooks *hooks = NULL;
  tp_status status;
  if (!tpy_read(options, &tpb_tp_hooks_options, &read, keep)) return TP_OK;
  Py_BEGIN_ALLOW_THREADS status = tp_hooks_read(runtime, &read, &hooks, fault);
  if (status == TP_OK) status = tp_hooks_commit(hooks, "hooks", trusted ? trusted : tp_hooks_hash(hooks), NULL, fault);
  tp_hooks_free(hooks);
  Py_END_ALLOW_THREADS return status;
}
#endif

#ifdef TPY_MCP
static tp_status add_mcp(tp_runtime *runtime, PyObject *options, PyObject *keep, tp_fault *fault) {
  tp_mcp_options read;
  tp_status status;
  if (!tpy_read(options, &tpb_tp_mcp_options, &read, keep)) return TP_OK;
  Py_BEGIN_ALLOW_THREADS status = tp_mcp_add(runtime, &read, fault);
  Py_END_ALLOW_THREADS return status;
}
#endif

/* domain_add(kind, options, trusted) */
PyObject *tpy_domain_add(PyObject *object, PyObject *arguments) {
  tpy_runtime *self = (tpy_runtime *)object;
  const char *kind, *trusted;
  PyObject *options, *keep;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!tpy_usable(self) || !PyArg_ParseTuple(arguments, "sOz", &kind, &options, &trusted)) return NULL;
  keep = PyList_New(0);
  if (!keep) return NULL;
  self->calls++;
  if (strcmp(kind, "hooks") == 0) {
#ifdef TPY_DECLARED
    status = add_hooks(self->runtime, options, keep, trusted, &fault);
#else
    not_built(kind);
#endif
  } else if (strcmp(kind, "mcp") == 0) {
#ifdef TPY_MCP
    status = add_mcp(self->runtime, options, keep, &fault);
#else
    not_built(kind);
#endif
  } else {
    status = commit_edit(self->runtime, kind, options, keep, &fault);
  }
  self->calls--;
  Py_DECREF(keep);
  if (status != TP_OK) return tpy_raise(status, &fault);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}
