/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/host.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/limits.h"
#include "cli/common/data.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/run/model.h"
#include "cli/hooks/hooks.h"
#include "cli/mcp/mcp.h"
#include "runtime/base/check.h"
#include "turnphase/files.h"
#include "turnphase/memory.h"
#include "turnphase/skills.h"
#include "turnphase/tasks.h"

void cli_log(void *ctx, const tp_log_record *record) {
  const cli_arguments *arguments = ctx;
  if (record->level > TP_LOG_WARNING && !arguments->verbose) return;
  cli_error("%s: %s", tp_log_level_name(record->level), record->message);
}

typedef tp_status register_fn(void *ctx, tp_runtime *runtime, tp_edit *edit, tp_fault *fault);

/* Uses one edit: everything that the registrar adds is committed together, or nothing is. */
static int add_domain(tp_runtime *runtime, const char *owner_name, register_fn *add, void *ctx, const char *what) {
  tp_owner owner = {.struct_size = sizeof owner, .name = owner_name, .trust = TP_TRUST_HOST};
  tp_fault fault = {0};
  tp_edit *edit;
  tp_status status = tp_edit_begin(runtime, &owner, &edit, &fault);
  if (status != TP_OK) return cli_fault(what, status, &fault);
  tp_commit_report report = {.struct_size = sizeof report};
  status = add(ctx, runtime, edit, &fault);
  if (status == TP_OK) status = tp_edit_commit(edit, &report, &fault);
  if (status != TP_OK) {
    tp_edit_discard(edit);
    return cli_fault(what, status, &fault);
  }
  if (report.warnings > 0) {
    cli_error("warning: %s: the limits along the longest path of %s add up to more than its budget", what,
              tp_phase_get(runtime, report.warning_phase)->name);
  }
  return CLI_OK;
}

typedef struct memory_of {
  const char *path;
  cli_models facts;            /* none or one; freed by the function that fills them, unless they are taken */
  tp_memory_embedder embedder; /* name NULL: none */
} memory_of;

static tp_status register_memory(void *ctx, tp_runtime *runtime, tp_edit *edit, tp_fault *fault) {
  (void)runtime;
  memory_of *m = ctx;
  tp_memory_options options = {
      .struct_size = sizeof options, .path = m->path, .model = m->facts.count ? m->facts.items[0] : NULL};
  if (m->embedder.name) options.embedder = &m->embedder;
  tp_status status = tp_memory_register(edit, &options, fault);
  if (status != TP_OK) return status;
  m->facts.count = 0; /* the edit's now */
  m->embedder.name = NULL;
  return status;
}

static int add_memory(tp_runtime *runtime, const cli_arguments *arguments, const char *path) {
  memory_of m = {.path = path};
  int status = cli_models_open(&arguments->facts, &m.facts);
  if (status == CLI_OK) status = cli_embedder_open(arguments, &m.embedder);
  if (status == CLI_OK) status = add_domain(runtime, "memory", register_memory, &m, path ? path : "memory");
  if (m.embedder.name) m.embedder.destroy(m.embedder.ctx);
  cli_models_free(&m.facts);
  return status;
}

static tp_status register_files(void *ctx, tp_runtime *runtime, tp_edit *edit, tp_fault *fault) {
  (void)runtime;
  const cli_arguments *arguments = ctx;
  tp_files_options options = {
      .struct_size = sizeof options, .root = arguments->files, .writes = arguments->files_writes};
  return tp_files_register(edit, &options, fault);
}

static tp_status register_skills(void *ctx, tp_runtime *runtime, tp_edit *edit, tp_fault *fault) {
  (void)runtime;
  tp_skills_options options = {.struct_size = sizeof options, .directory = ctx};
  return tp_skills_register(edit, &options, fault);
}

static tp_status register_tasks(void *ctx, tp_runtime *runtime, tp_edit *edit, tp_fault *fault) {
  (void)runtime;
  const cli_arguments *arguments = ctx;
  tp_tasks_options options = {.struct_size = sizeof options, .names = (tp_tasks_names)(arguments->tasks - 1)};
  return tp_tasks_register(edit, &options, fault);
}

static tp_status register_loaded(void *ctx, tp_runtime *runtime, tp_edit *edit, tp_fault *fault) {
  return tp_domain_add(runtime, edit, ctx, fault);
}

/* The owner of a library is its file name without "lib" and without the part from the first point on. */
static void write_owner(const char *path, char *ret_name, size_t size) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (strncmp(name, "lib", 3) == 0) name += 3;
  snprintf(ret_name, size, "%.*s", (int)strcspn(name, "."), name);
}

/* The library stays loaded until the process ends, because an abandoned handler may still run in it. */
static int load(tp_runtime *runtime, const char *path) {
  char file[4096], owner[TP_ID_BYTES_MAX + 1];
  snprintf(file, sizeof file, "%s%s", strchr(path, '/') ? "" : "./", path); /* a file, never a name to search for */
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    cli_error("--load: %s", dlerror());
    return access(file, R_OK) != 0 ? CLI_IO : CLI_CONFIG; /* as any file that cannot be read */
  }
  void *domain = dlsym(library, TP_DOMAIN_SYMBOL);
  if (!domain && dlsym(library, "tp_domain_register")) {
    cli_error(
        "--load: %s exports tp_domain_register, which does not say with which headers it was built, and is not "
        "called: export " TP_DOMAIN_SYMBOL ", a tp_domain of turnphase/runtime.h",
        path);
    return CLI_CONFIG;
  }
  if (!domain) {
    cli_error("--load: %s does not export " TP_DOMAIN_SYMBOL ", a tp_domain of turnphase/runtime.h", path);
    return CLI_CONFIG;
  }
  write_owner(path, owner, sizeof owner);
  return add_domain(runtime, owner, register_loaded, domain, path);
}

/* Belongs to the process, like the model of hooks, because a runtime uses it until its end. */
static tp_redactor *redactor;

void cli_redactor_free(void) {
  tp_redactor_free(redactor);
  redactor = NULL;
}

void cli_redactor_try(const char *directory) {
  if (redactor) return;
  if (tp_redactor_new(&redactor, NULL) != TP_OK) redactor = NULL;
  else if (tp_redactor_read(redactor, directory, NULL) != TP_OK) cli_redactor_free();
}

/* Patterns of secrets are among the hooks, and the runtime needs them before it reads the hooks. */
static int open_redactor(const cli_arguments *arguments) {
  const cli_words *directories = arguments->hooks.count > 0 ? &arguments->hooks : &arguments->redacts;
  tp_fault fault = {0};
  if (redactor) return CLI_OK;
  for (size_t i = 0; i < directories->count; i++) {
    int status = cli_data_check_hooks(directories->items[i]);
    if (status != CLI_OK) return status;
  }
  tp_status status = tp_redactor_new(&redactor, &fault);
  for (size_t i = 0; status == TP_OK && i < directories->count; i++)
    status = tp_redactor_read(redactor, directories->items[i], &fault);
  return status == TP_OK ? CLI_OK : cli_fault(NULL, status, &fault);
}

/* Data in a directory is async, unless the command line says otherwise. */
static tp_durability durability_of(const cli_arguments *arguments, const tp_store *store) {
  assert(store || arguments->durability <= TP_DURABILITY_MEMORY);
  if (arguments->durability != TP_DURABILITY_DEFAULT) return arguments->durability;
  return store && store->durable ? TP_DURABILITY_ASYNC : TP_DURABILITY_DEFAULT;
}

int cli_host_open(const cli_arguments *arguments, const char *memory_path, tp_store *store, tp_runtime **ret_runtime) {
  return cli_host_open_asking(arguments, memory_path, store, NULL, ret_runtime);
}

int cli_host_open_asking(const cli_arguments *arguments, const char *memory_path, tp_store *store, cli_ask *ask,
                         tp_runtime **ret_runtime) {
  return cli_host_open_with(arguments, memory_path, store, ask ? cli_ask_put : NULL, ask, ask, ret_runtime);
}

int cli_host_open_with(const cli_arguments *arguments, const char *memory_path, tp_store *store, tp_question_fn ask,
                       void *ask_ctx, cli_ask *person, tp_runtime **ret_runtime) {
  tp_budget of_tenant, of_day;
  tp_runtime_options options = {.struct_size = sizeof options,
                                .tenant_day_budget = cli_budget_fill(&arguments->budgets.tenant, &of_tenant),
                                .day_budget = cli_budget_fill(&arguments->budgets.day, &of_day),
                                .log = cli_log,
                                .log_ctx = (void *)(uintptr_t)arguments,
                                .engine_workers = arguments->workers,
                                .ask = ask,
                                .ask_ctx = ask_ctx,
                                .store = store,
                                .durability = durability_of(arguments, store),
                                .timestamps = arguments->timestamps,
                                .handler_threads = 4 * arguments->jobs, /* a quarter is for jobs */
                                .detached_threads = arguments->jobs,
                                .job_lease_ms = arguments->lease_s * 1000,
                                .no_breakers = arguments->every_call};
  tp_runtime *runtime;
  tp_fault fault = {0};
  if (arguments->files_writes_given && !arguments->files) {
    cli_error("--files-writes is for the tools of --files DIR");
    tp_store_free(store);
    return CLI_USAGE;
  }
  int opened = arguments->files ? cli_data_check_option("--files", arguments->files) : CLI_OK;
  if (opened == CLI_OK && arguments->skills) opened = cli_data_check_option("--skills", arguments->skills);
  if (opened == CLI_OK) opened = open_redactor(arguments);
  if (opened != CLI_OK) {
    tp_store_free(store);
    return opened;
  }
  if (tp_redactor_count(redactor) > 0) {
    options.redact = tp_redactor_redact;
    options.redact_ctx = redactor;
  }
  tp_status made = tp_runtime_new(&options, &runtime, &fault);
  if (made != TP_OK) {
    tp_store_free(store);
    return cli_fault(NULL, made, &fault);
  }
  int status = cli_hook_model_open(arguments);
  if (status == CLI_OK && !arguments->no_memory) status = add_memory(runtime, arguments, memory_path);
  if (status == CLI_OK && arguments->files)
    status = add_domain(runtime, "files", register_files, (void *)(uintptr_t)arguments, arguments->files);
  if (status == CLI_OK && arguments->skills)
    status = add_domain(runtime, "skills", register_skills, (void *)(uintptr_t)arguments->skills, arguments->skills);
  if (status == CLI_OK && arguments->tasks != CLI_TASKS_NONE)
    status = add_domain(runtime, "tasks", register_tasks, (void *)(uintptr_t)arguments, "tasks");
  if (status == CLI_OK) status = cli_mcp_add(runtime, arguments, person);
  for (size_t i = 0; status == CLI_OK && i < arguments->loads.count; i++)
    status = load(runtime, arguments->loads.items[i]);
  if (status == CLI_OK && arguments->hooks.count > 0) status = cli_hooks_load(runtime, arguments);
  if (status == CLI_OK) *ret_runtime = runtime;
  else tp_runtime_free(runtime);
  return status;
}

void cli_host_close(tp_runtime *runtime) {
  enum { MOMENT_MS = 1000, LOOK_MS = 2 };
  for (int waited_ms = 0; waited_ms < MOMENT_MS && runtime && tp_runtime_leaks(runtime, NULL, NULL) > 0;
       waited_ms += LOOK_MS)
    (void)poll(NULL, 0, LOOK_MS);
  tp_runtime_free(runtime);
}
