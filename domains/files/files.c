/* SPDX-License-Identifier: Apache-2.0
 *
 * Registration: the handler that contributes the tools, and the guard that asks before a write. */
#include "turnphase/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fault.h"
#include "support/references.h"
#include "domains/files/root.h"
#include "domains/files/tools.h"

enum { READ_BYTES = 65536, READ_BYTES_MAX = 1 << 20 };

/* The state that the handlers share. Each handler holds a reference, and so does tp_files_register() while it runs. */
typedef struct domain {
  tp__files files;
  tp_files_writes writes;
  tp__references refs;
} domain;

/* ---- the handlers ---- */

static tp_answer emit_tools(void *ctx, tp_call *call) {
  const domain *d = ctx;
  size_t count = d->writes == TP_FILES_WRITES_NEVER ? TP__FILES_LOOKING_TOOLS : TP__FILES_TOOL_COUNT;
  return tp_call_emit_tool_bundle(call, "files", d->files.tool_list, count, NULL) == TP_OK ? TP_ANSWER_DONE
                                                                                           : TP_ANSWER_FAILED;
}

static tp_answer ask_to_write(void *ctx, tp_call *call) {
  (void)ctx;
  char reason[TP__FILES_PATH_MAX + 32], path[TP__FILES_PATH_MAX];
  if (!tp__files_path(tp_value_text(tp_value_get(tp_call_text(call, TP_FIELD_ARGUMENTS), "path")), path))
    return tp_call_deny(call, "the path is too long, or holds a NUL");
  snprintf(reason, sizeof reason, "it writes the file %s", path);
  return tp_call_ask(call, reason);
}

static int32_t is_write(void *ctx, const tp_match_view *view) {
  (void)ctx;
  return tp__is_word(tp_match_text(view, TP_FIELD_TOOL), "files_write") ? TP_MATCH_YES : TP_MATCH_NO;
}

/* ---- registration ---- */

static void unref_files(void *ctx) {
  domain *d = ctx;
  if (!tp__references_unref(&d->refs)) return;
  tp__files_tools_fini(&d->files);
  if (d->files.root >= 0) close(d->files.root);
  free(d);
}

static tp_status add_files_handler(tp_edit *edit, domain *d, const tp_handler *row, tp_fault *fault) {
  tp_handler handler = *row;
  handler.struct_size = sizeof handler;
  handler.ctx = d;
  handler.destroy = unref_files;
  handler.phase_count = 1;
  handler.contract_version = 1;
  handler.placement = TP_PLACEMENT_INLINE;
  handler.idempotent = true;
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status == TP_OK) tp__references_ref(&d->refs); /* a handler that was not taken is not destroyed */
  return status;
}

static tp_status add_tools(tp_edit *edit, domain *d, tp_fault *fault) {
  static const uint32_t phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION;
  const tp_subscription subscription = {
      .struct_size = sizeof subscription, .id = "files.tool_bundle", .handler = "files.tool_bundle", .phase = phase};
  tp_status status =
      add_files_handler(edit, d,
                        &(tp_handler){.id = "files.tool_bundle",
                                      .summary = "contributes the tools that list, read, search and write files",
                                      .run = emit_tools,
                                      .phases = &phase,
                                      .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE},
                        fault);
  return status == TP_OK ? tp_edit_add_subscription(edit, &subscription, fault) : status;
}

static tp_status add_guard(tp_edit *edit, domain *d, tp_fault *fault) {
  static const uint32_t phase = TP_PHASE_TOOL_PRE;
  static const tp_field_id field = TP_FIELD_TOOL;
  static const tp_match match = {.struct_size = sizeof match,
                                 .matches = is_write,
                                 .description = "tool is files_write",
                                 .fields = &field,
                                 .field_count = 1};
  const tp_subscription subscription = {.struct_size = sizeof subscription,
                                        .id = "files.write_guard",
                                        .handler = "files.write_guard",
                                        .phase = phase,
                                        .failure = TP_FAILURE_REQUIRED,
                                        .match = &match};
  tp_status status = add_files_handler(edit, d,
                                       &(tp_handler){.id = "files.write_guard",
                                                     .summary = "asks before a file is written",
                                                     .run = ask_to_write,
                                                     .phases = &phase,
                                                     .capabilities = TP_CAPABILITY_DECIDE},
                                       fault);
  return status == TP_OK ? tp_edit_add_subscription(edit, &subscription, fault) : status;
}

static tp_status read_files_options(const tp_files_options *theirs, tp_files_options *ours, tp_fault *fault) {
  tp_status status = tp__struct_read(ours, sizeof *ours, theirs, "tp_files_options", fault);
  if (status != TP_OK) return status;
  if (!ours->root || !ours->root[0])
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_files_options.root is empty: name the directory of the files");
  if ((unsigned)ours->writes > TP_FILES_WRITES_NEVER)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_files_options.writes is %u, and there is no such value: it is ask, allow "
                      "or never (0 to 2)",
                      (unsigned)ours->writes);
  if (ours->read_bytes_max > READ_BYTES_MAX)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_files_options.read_bytes_max is %u; it is at most %d",
                      (unsigned)ours->read_bytes_max, READ_BYTES_MAX);
  if (!ours->read_bytes_max) ours->read_bytes_max = READ_BYTES;
  return TP_OK;
}

static tp_status open_root(const char *path, int *ret_root, tp_fault *fault) {
  int root = tp__files_open_root(path);
  *ret_root = root;
  if (root >= 0) return TP_OK;
  if (root == -ENOSYS)
    return tp__refuse(
        fault, TP_ERR_SYSTEM, path,
        "the kernel has no openat2 (Linux 5.6), or a seccomp filter refuses it: without it the tools could be led "
        "out of the directory");
  return tp__refuse(fault, TP_ERR_IO, path, "%s: %s", path, strerror(-root));
}

static tp_status domain_new(const tp_files_options *options, domain **ret_domain, tp_fault *fault) {
  int root;
  tp_status status = open_root(options->root, &root, fault);
  if (status != TP_OK) return status;
  domain *d = calloc(1, sizeof *d);
  if (!d) {
    close(root);
    return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the tools of files");
  }
  tp__references_init(&d->refs);
  d->writes = options->writes;
  d->files.root = root;
  d->files.read_bytes_max = options->read_bytes_max;
  status = tp__files_tools_init(&d->files);
  if (status == TP_OK) *ret_domain = d;
  else unref_files(d);
  return status == TP_OK ? TP_OK : tp__refuse(fault, status, NULL, "no memory for the tools of files");
}

tp_status tp_files_register(tp_edit *edit, const tp_files_options *options, tp_fault *fault) {
  tp_files_options ours;
  domain *d = NULL;
  tp_status status = read_files_options(options, &ours, fault);
  if (status == TP_OK) status = domain_new(&ours, &d, fault);
  if (status != TP_OK) return status;
  status = add_tools(edit, d, fault);
  if (status == TP_OK && ours.writes == TP_FILES_WRITES_ASK) status = add_guard(edit, d, fault);
  unref_files(d);
  return status;
}
