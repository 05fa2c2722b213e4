/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks.c: seven small handlers of the kinds that agent hosts ask for: guards, a router, a tracker, an archive, a check
 * at the end of a session. Built as hooks.so; see it with `turnphase plan --load`.
 *
 *   no-prod                     tool.pre      denies calls whose file_path is below /srv/prod
 *   prod_config_guard           tool.pre      asks a person before an agent edits a file below config/prod/
 *   nonprod_availability_check  tool.create   denies db.write.* where DEPLOY_ENV is prod
 *   prompt_router               turn.intake   suggests a test and a document for a request about signup
 *   ability_usage_tracker       tool.post     a line in ability_usage.log for each call
 *   archive                     session.end   a line in archive.log: which session, why it ended, how
 *   session_stop_build_check    session.end   where files below services/ or apps/ changed: a line in build_check.log
 *
 * The logs are in the directory that HOOKS_DIR names when the library is registered, else in the working directory. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "turnphase/turnphase.h"

static char log_directory[3072] = ".";
static bool is_prod;

static bool begins_with(tp_text text, const char *prefix) {
  return text.size >= strlen(prefix) && memcmp(text.data, prefix, strlen(prefix)) == 0;
}

static tp_text argument(const tp_call *call, const char *name) {
  return tp_value_text(tp_value_get(tp_call_text(call, TP_FIELD_ARGUMENTS), name));
}

/* One write of one line: concurrent handlers do not mix. */
static tp_answer append_line(tp_call *call, const char *file, const char *line) {
  char log[4096];
  snprintf(log, sizeof log, "%s/%s", log_directory, file);
  int fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  bool written = fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line);
  if (fd >= 0) close(fd);
  return written ? TP_ANSWER_DONE : tp_call_fail(call, 1, "the log was not written");
}

/* ---- guards ---- */

/* Links and ".." are not looked through: what must hold against a hostile model belongs into the tool. */
static tp_answer no_prod(void *ctx, tp_call *call) {
  (void)ctx;
  if (begins_with(argument(call, "file_path"), "/srv/prod"))
    return tp_call_deny(call, "Production paths are off-limits in this session.");
  return tp_call_allow(call);
}

static tp_answer prod_config_guard(void *ctx, tp_call *call) {
  (void)ctx;
  if (tp_call_caller(call) == TP_CALLER_AI_SESSION && begins_with(argument(call, "file_path"), "config/prod/"))
    return tp_call_ask(call, "Editing prod config files is not allowed from ai_session.");
  return tp_call_allow(call);
}

static tp_answer nonprod_availability_check(void *ctx, tp_call *call) {
  (void)ctx;
  if (is_prod && begins_with(tp_call_text(call, TP_FIELD_ABILITY_REF), "db.write."))
    return tp_call_deny(call, "Operation is not enabled in prod environments. Switch to staging/dev.");
  return tp_call_allow(call);
}

/* ---- a router ---- */

static tp_answer prompt_router(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  if (text.size == 0 || !memmem(text.data, text.size, "signup", 6)) return TP_ANSWER_DONE;
  if (tp_call_emit_signal(call, "routing_hint", "ROUTE_SUGGESTION", TP_SEVERITY_INFO,
                          "ability signup_e2e_test, document integration/ROUTING.md", NULL) != TP_OK ||
      tp_call_emit_signal(call, "normalized_intent", "INTENT", TP_SEVERITY_INFO, "test the signup", NULL) != TP_OK)
    return tp_call_fail(call, 2, "a signal was refused");
  return TP_ANSWER_DONE;
}

/* ---- logs ---- */

static tp_answer ability_usage_tracker(void *ctx, tp_call *call) {
  (void)ctx;
  char line[512];
  tp_text tool = tp_call_text(call, TP_FIELD_TOOL), status = tp_call_text(call, TP_FIELD_STATUS);
  snprintf(line, sizeof line, "%.*s %.*s %lld ms\n", (int)tool.size, tool.data, (int)status.size, status.data,
           (long long)tp_call_int(call, TP_FIELD_DURATION_MS));
  return append_line(call, "ability_usage.log", line);
}

static tp_answer archive(void *ctx, tp_call *call) {
  (void)ctx;
  char line[1024];
  tp_text session = tp_call_text(call, TP_FIELD_SESSION_ID), reason = tp_call_text(call, TP_FIELD_REASON);
  tp_text outcome = tp_call_text(call, TP_FIELD_OUTCOME);
  snprintf(line, sizeof line, "%.*s ended: %.*s, last turn %.*s\n", (int)session.size, session.data, (int)reason.size,
           reason.data, outcome.size ? (int)outcome.size : 4, outcome.size ? outcome.data : "none");
  return append_line(call, "archive.log", line);
}

static tp_answer session_stop_build_check(void *ctx, tp_call *call) {
  (void)ctx;
  char line[256];
  tp_text session = tp_call_text(call, TP_FIELD_SESSION_ID);
  snprintf(line, sizeof line, "%.*s: %zu changed files, build them\n", (int)session.size, session.data,
           tp_value_count(tp_call_text(call, TP_FIELD_CHANGED_FILES)));
  return append_line(call, "build_check.log", line);
}

static int32_t source_changed(void *ctx, const tp_match_view *view) {
  (void)ctx;
  tp_text files = tp_match_text(view, TP_FIELD_CHANGED_FILES);
  for (tp_value_walk walk = {0}; files.size > 0 && tp_value_next(files, &walk);) {
    tp_text changed = tp_value_text(walk.value);
    if (begins_with(changed, "services/") || begins_with(changed, "apps/")) return TP_MATCH_YES;
  }
  return TP_MATCH_NO;
}

static int32_t edits_file(void *ctx, const tp_match_view *view) {
  (void)ctx;
  tp_text tool = tp_match_text(view, TP_FIELD_TOOL);
  return tool.size == 9 && begins_with(tool, "edit_file") ? TP_MATCH_YES : TP_MATCH_NO;
}

/* ---- registration ---- */

static const tp_field_id changed_files = TP_FIELD_CHANGED_FILES, tool_field = TP_FIELD_TOOL;
static const tp_match if_source_changed = {.struct_size = sizeof if_source_changed,
                                           .matches = source_changed,
                                           .description = "changed_files has services/** or apps/**",
                                           .fields = &changed_files,
                                           .field_count = 1};
static const tp_match if_edit_file = {.struct_size = sizeof if_edit_file,
                                      .matches = edits_file,
                                      .description = "tool is edit_file",
                                      .fields = &tool_field,
                                      .field_count = 1};

typedef struct hook_row {
  const char *id, *summary;
  tp_handler_fn run;
  tp_phase_id phase;
  tp_capability capabilities;
  tp_placement placement;
  tp_execution execution;
  tp_failure failure;
  const tp_match *match;
} hook_row;

static const hook_row rows[] = {
    {"no-prod", "denies calls below /srv/prod", no_prod, TP_PHASE_TOOL_PRE, TP_CAPABILITY_DECIDE, TP_PLACEMENT_INLINE,
     TP_EXECUTION_DEFAULT, TP_FAILURE_REQUIRED, NULL},
    {"prod_config_guard", "asks before config/prod/ is edited", prod_config_guard, TP_PHASE_TOOL_PRE,
     TP_CAPABILITY_DECIDE, TP_PLACEMENT_INLINE, TP_EXECUTION_DEFAULT, TP_FAILURE_REQUIRED, &if_edit_file},
    {"nonprod_availability_check", "denies db.write.* in prod", nonprod_availability_check, TP_PHASE_TOOL_CREATE,
     TP_CAPABILITY_DECIDE, TP_PLACEMENT_INLINE, TP_EXECUTION_DEFAULT, TP_FAILURE_REQUIRED, NULL},
    {"prompt_router", "suggests abilities and documents", prompt_router, TP_PHASE_TURN_INTAKE,
     TP_CAPABILITY_EMIT_SIGNAL, TP_PLACEMENT_INLINE, TP_EXECUTION_DEFAULT, TP_FAILURE_BEST_EFFORT, NULL},
    {"ability_usage_tracker", "logs each call", ability_usage_tracker, TP_PHASE_TOOL_POST, 0, TP_PLACEMENT_THREAD,
     TP_EXECUTION_FIRE_AND_RECORD, TP_FAILURE_BEST_EFFORT, NULL},
    {"archive", "logs how a session ended", archive, TP_PHASE_SESSION_END, 0, TP_PLACEMENT_THREAD, TP_EXECUTION_DEFAULT,
     TP_FAILURE_BEST_EFFORT, NULL},
    {"session_stop_build_check", "logs what is to be built", session_stop_build_check, TP_PHASE_SESSION_END, 0,
     TP_PLACEMENT_THREAD, TP_EXECUTION_FIRE_AND_RECORD, TP_FAILURE_BEST_EFFORT, &if_source_changed},
};

static tp_status add(tp_edit *edit, const hook_row *r, tp_fault *fault) {
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = r->id,
                              .summary = r->summary,
                              .run = r->run,
                              .phases = &r->phase,
                              .phase_count = 1,
                              .capabilities = r->capabilities,
                              .placement = r->placement};
  const tp_subscription subscription = {.struct_size = sizeof subscription,
                                        .id = r->id,
                                        .handler = r->id,
                                        .phase = r->phase,
                                        .execution = r->execution,
                                        .failure = r->failure,
                                        .match = r->match};
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  return status == TP_OK ? tp_edit_add_subscription(edit, &subscription, fault) : status;
}

static tp_status register_hooks(const tp_domain_context *with, tp_fault *fault) {
  const char *named = getenv("HOOKS_DIR"), *environment = getenv("DEPLOY_ENV");
  tp_status status = TP_OK;
  int size = snprintf(log_directory, sizeof log_directory, "%s", named && named[0] ? named : ".");
  if (size < 0 || (size_t)size >= sizeof log_directory) {
    if (fault) snprintf(fault->message, sizeof fault->message, "HOOKS_DIR is longer than any path");
    return TP_ERR_USAGE;
  }
  is_prod = environment && strcmp(environment, "prod") == 0;
  for (size_t i = 0; status == TP_OK && i < sizeof rows / sizeof *rows; i++) status = add(with->edit, &rows[i], fault);
  return status;
}

TP_API const tp_domain tp_domain_export = {.struct_size = sizeof(tp_domain),
                                           .header_version = TP_VERSION_NUMBER,
                                           .name = "hooks",
                                           .version = "1.0",
                                           .register_with = register_hooks};
