/* SPDX-License-Identifier: Apache-2.0
 *
 * domains.c: the libraries over the core in this build: stores, models, and libraries that register tools and hooks. */
#include <string.h>

#include "bindings/node/src/core.h"
#include "turnphase/declared.h"
#include "turnphase/files.h"
#include "turnphase/mcp.h"
#include "turnphase/memory.h"
#include "turnphase/openai.h"
#include "turnphase/skills.h"
#include "turnphase/sqlite.h"
#include "bindings/node/fields.h"

static void *not_built(napi_env env, const char *name) {
  tp_fault fault = {.code = TP_ERR_USAGE};
  (void)snprintf(fault.message, sizeof fault.message, "this build of turnphase has no '%s'", name);
  return tpn_throw(env, TP_ERR_USAGE, &fault);
}

/* ---- SQLite ---- */

const void *tpn_database_read(napi_env env, napi_value options, tpn_arena *arena) {
#ifdef TPN_SQLITE
  tp_sqlite_store_options *read = tpn_alloc(env, arena, sizeof *read);
  return read && tpn_read(env, options, &tpb_tp_sqlite_store_options, read, arena) ? read : NULL;
#else
  (void)options, (void)arena;
  return not_built(env, "sqlite");
#endif
}

tp_status tpn_database_open(const void *options, tpn_database *database, tp_fault *fault) {
#ifdef TPN_SQLITE
  const tp_sqlite_store_options *read = options;
  tp_history *history = NULL;
  tp_status status = tp_sqlite_store_open(read, &database->store, fault);
  if (status == TP_OK) status = tp_sqlite_history_open(read->path, &history, fault);
  if (status != TP_OK) return status;
  status = tp_history_share(NULL, history, &database->history, fault);
  if (status != TP_OK) tp_history_free(history);
  return status;
#else
  (void)options, (void)database, (void)fault;
  return TP_ERR_USAGE;
#endif
}

/* ---- models ---- */

static tp_status make_model(napi_env env, const char *kind, const napi_value *arguments, tpn_arena *arena,
                            tp_model **model, tp_fault *fault) {
  if (strcmp(kind, "script") == 0) {
    const char *script = tpn_chars(env, arguments[2], arena);
    return script ? tp_script_model_decode(script, model, fault) : TP_OK;
  }
#ifdef TPN_OPENAI
  tp_openai_options read;
  if (strcmp(kind, "openai") == 0)
    return tpn_read(env, arguments[3], &tpb_tp_openai_options, &read, arena) ? tp_openai_model_new(&read, model, fault)
                                                                             : TP_OK;
#endif
  not_built(env, kind);
  return TP_OK;
}

/* modelNew(runtime, kind, script, options) -> handle */
static napi_value model_new(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  tpn_arena arena;
  tp_model *model = NULL;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  tpn_runtime *runtime = tpn_arguments(env, info, 4, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime) return NULL;
  tpn_arena_begin(&arena);
  const char *kind = tpn_chars(env, arguments[1], &arena);
  if (kind) status = make_model(env, kind, arguments, &arena, &model, &fault);
  tpn_arena_end(&arena);
  if (tpn_is_pending(env)) return NULL;
  return status == TP_OK ? tpn_handle_new(env, runtime, TPN_MODEL, model) : tpn_throw(env, status, &fault);
}

/* ---- what registers in an edit, or by itself ---- */

typedef union domain_options {
  tp_memory_options memory;
  tp_files_options files;
  tp_skills_options skills;
  tp_hooks_options hooks;
  tp_mcp_options mcp;
} domain_options;

typedef struct domain {
  const char *kind; /* NULL ends the list */
  const tpb_struct *table;
  tp_status (*add)(tp_edit *edit, const domain_options *options, tp_fault *fault); /* NULL: it registers by itself,
                                                                                      without an edit */
  tp_status (*add_alone)(tp_runtime *runtime, const domain_options *options, const char *trusted, tp_fault *fault);
} domain;

typedef struct adding {
  domain_options options;
  const domain *domain;
  const char *trusted; /* NULL: any content is trusted */
} adding;

#ifdef TPN_MEMORY
static tp_status add_memory(tp_edit *edit, const domain_options *options, tp_fault *fault) {
  return tp_memory_register(edit, &options->memory, fault);
}
#endif
#ifdef TPN_FILES
static tp_status add_files(tp_edit *edit, const domain_options *options, tp_fault *fault) {
  return tp_files_register(edit, &options->files, fault);
}
#endif
#ifdef TPN_SKILLS
static tp_status add_skills(tp_edit *edit, const domain_options *options, tp_fault *fault) {
  return tp_skills_register(edit, &options->skills, fault);
}
#endif
#ifdef TPN_DECLARED
static tp_status add_hooks(tp_runtime *runtime, const domain_options *options, const char *trusted, tp_fault *fault) {
  tp_hooks *hooks = NULL;
  tp_status status = tp_hooks_read(runtime, &options->hooks, &hooks, fault);
  if (status == TP_OK) status = tp_hooks_commit(hooks, "hooks", trusted ? trusted : tp_hooks_hash(hooks), NULL, fault);
  tp_hooks_free(hooks);
  return status;
}
#endif
#ifdef TPN_MCP
static tp_status add_mcp(tp_runtime *runtime, const domain_options *options, const char *trusted, tp_fault *fault) {
  (void)trusted;
  return tp_mcp_add(runtime, &options->mcp, fault);
}
#endif

static const domain domains[] = {
#ifdef TPN_MEMORY
    {"memory", &tpb_tp_memory_options, add_memory, NULL},
#endif
#ifdef TPN_FILES
    {"files", &tpb_tp_files_options, add_files, NULL},
#endif
#ifdef TPN_SKILLS
    {"skills", &tpb_tp_skills_options, add_skills, NULL},
#endif
#ifdef TPN_DECLARED
    {"hooks", &tpb_tp_hooks_options, NULL, add_hooks},
#endif
#ifdef TPN_MCP
    {"mcp", &tpb_tp_mcp_options, NULL, add_mcp},
#endif
    {NULL, NULL, NULL, NULL},
};

static void run_adding(tpn_job *job) {
  const adding *to = job->data;
  tp_runtime *runtime = job->runtime->runtime;
  tp_edit *edit = NULL;
  if (to->domain->add_alone) {
    job->status = to->domain->add_alone(runtime, &to->options, to->trusted, &job->fault);
    return;
  }
  job->status = tp_edit_begin(runtime, NULL, &edit, &job->fault);
  if (job->status == TP_OK) job->status = to->domain->add(edit, &to->options, &job->fault);
  if (job->status == TP_OK) job->status = tp_edit_commit(edit, NULL, &job->fault);
  if (job->status != TP_OK) tp_edit_discard(edit);
}

static bool read_adding(napi_env env, const napi_value *arguments, tpn_job *job) {
  adding *to = tpn_alloc(env, &job->arena, sizeof *to);
  const char *kind = to ? tpn_chars(env, arguments[1], &job->arena) : NULL;
  if (!kind) return false;
  const domain *found = domains;
  while (found->kind && strcmp(found->kind, kind) != 0) found++;
  if (!found->kind) return not_built(env, kind) != NULL;
  to->domain = found;
  if (!tpn_is_none(env, arguments[3])) {
    to->trusted = tpn_chars(env, arguments[3], &job->arena);
    if (!to->trusted) return false;
  }
  job->data = to;
  job->run = run_adding;
  return tpn_read(env, arguments[2], found->table, &to->options, &job->arena);
}

/* domainAdd(runtime, kind, options, trusted or undefined) -> promise */
static napi_value domain_add(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  tpn_runtime *runtime = tpn_arguments(env, info, 4, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  tpn_job *job = runtime ? tpn_job_new(env, runtime) : NULL;
  if (job && read_adding(env, arguments, job)) return tpn_job_start(env, job);
  if (job) tpn_job_free(job);
  return NULL;
}

const tpn_function tpn_domain_functions[] = {
    {"modelNew", model_new},
    {"domainAdd", domain_add},
    {NULL, NULL},
};
