/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/exit_status.h"
#include "cli/message.h"
#include "turnphase/memory.h"

static void log_message(void *ctx, const tp_log_record *record) {
  const cli_arguments *arguments = ctx;
  if (record->level > TP_LOG_WARNING && !arguments->verbose) return;
  cli_error("%s: %s", tp_log_level_name(record->level), record->message);
}

typedef tp_status register_fn(void *ctx, tp_runtime *runtime, tp_edit *edit, tp_fault *fault);

/* One edit: all that the registrar adds is committed together, or nothing is. */
static int add_domain(tp_runtime *runtime, const char *owner_name, register_fn *add, void *ctx, const char *what) {
  tp_owner owner = {.struct_size = sizeof owner, .name = owner_name};
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

static tp_status register_memory(void *ctx, tp_runtime *runtime, tp_edit *edit, tp_fault *fault) {
  (void)runtime;
  tp_memory_options options = {.struct_size = sizeof options, .path = ctx};
  return tp_memory_register(edit, &options, fault);
}

static tp_status register_loaded(void *ctx, tp_runtime *runtime, tp_edit *edit, tp_fault *fault) {
  tp_domain_register_fn add = *(tp_domain_register_fn *)ctx;
  tp_status status = add(runtime, edit, fault);
  if (status == TP_OK) return status;
  char said[sizeof fault->message];
  snprintf(said, sizeof said, "%s", fault->message[0] ? fault->message : tp_status_text(status));
  snprintf(fault->message, sizeof fault->message, "its tp_domain_register() failed: %.400s", said);
  return status;
}

/* The owner of a library is its file's name without "lib" and what follows the first point. */
static void write_owner(const char *path, char *ret_name, size_t size) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (strncmp(name, "lib", 3) == 0) name += 3;
  snprintf(ret_name, size, "%.*s", (int)strcspn(name, "."), name);
}

/* The library stays loaded till the process ends: a handler that was abandoned may still be in it. */
static int load(tp_runtime *runtime, const char *path) {
  char file[4096], owner[TP_ID_BYTES_MAX + 1];
  snprintf(file, sizeof file, "%s%s", strchr(path, '/') ? "" : "./", path); /* a file, never a name to search for */
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    cli_error("--load: %s", dlerror());
    return access(file, R_OK) != 0 ? CLI_IO : CLI_CONFIG; /* as any file that cannot be read */
  }
  tp_domain_register_fn add;
  void *symbol = dlsym(library, "tp_domain_register");
  if (!symbol) {
    cli_error("--load: %s does not export tp_domain_register, of the type tp_domain_register_fn in turnphase/runtime.h",
              path);
    return CLI_CONFIG;
  }
  memcpy(&add, &symbol, sizeof add); /* the way POSIX gives a function out of a pointer to an object */
  write_owner(path, owner, sizeof owner);
  return add_domain(runtime, owner, register_loaded, &add, path);
}

int cli_host_open(const cli_arguments *arguments, const char *memory_path, tp_runtime **ret_runtime) {
  tp_runtime_options options = {.struct_size = sizeof options,
                                .log = log_message,
                                .log_ctx = (void *)(uintptr_t)arguments,
                                .engine_workers = arguments->workers,
                                .timestamps = arguments->timestamps};
  tp_runtime *runtime;
  tp_fault fault = {0};
  tp_status made = tp_runtime_new(&options, &runtime, &fault);
  if (made != TP_OK) return cli_fault(NULL, made, &fault);
  int status = CLI_OK;
  if (!arguments->no_memory)
    status = add_domain(runtime, "memory", register_memory, (void *)(uintptr_t)memory_path,
                        memory_path ? memory_path : "memory");
  for (size_t i = 0; status == CLI_OK && i < arguments->loads.count; i++)
    status = load(runtime, arguments->loads.items[i]);
  if (status == CLI_OK) *ret_runtime = runtime;
  else tp_runtime_free(runtime);
  return status;
}
