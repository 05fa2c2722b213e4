/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_run.c: the handler of a declared hook. A hook that runs a program is deferred (hook_job.h). */
#include "domains/declared/hook_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domains/declared/hook_context.h"
#include "domains/declared/hook_input.h"
#include "domains/declared/hook_job.h"
#include "domains/declared/hook_model.h"
#include "domains/declared/hook_prompt.h"
#include "domains/declared/hook_worker.h"

/* ---- match ---- */

static bool is_listed(const tp__patterns *patterns, tp_text text) {
  for (size_t i = 0; i < patterns->count; i++)
    if (tp_pattern_fits(tp_text_of(patterns->items[i]), text)) return true;
  return false;
}

/* The call whose arguments are matched by their names in another host. */
struct call_names {
  const tp__hook *hook;
  tp_text tool;
};

static tp_text name_there(void *ctx, tp_text ours) {
  const struct call_names *names = ctx;
  return tp__protocol_argument(names->hook, names->tool, ours);
}

/* If the provider could not decode the arguments, no condition holds. */
static bool arguments_hold(const tp__hook *hook, const tp_match_view *view) {
  if (hook->rule_tools && !tp__protocol_is_tool(hook, tp_match_text(view, TP_FIELD_TOOL), hook->rule_tools))
    return false;
  if (!hook->conditions) return true;
  tp_text arguments = tp_match_text(view, TP_FIELD_ARGUMENTS);
  if (!tp__input_is_object(arguments)) arguments.size = 0;
  struct call_names names = {hook, tp_match_text(view, TP_FIELD_TOOL)};
  return tp__conditions_hold(hook->conditions, arguments, hook->protocol ? name_there : NULL, &names);
}

bool tp__hook_has_matches(const tp__hook *hook) {
  return hook->protocol || hook->environments.count > 0 || hook->conditions || hook->rule_tools;
}

int32_t tp__hook_matches(void *ctx, const tp_match_view *view) {
  const tp__hook *hook = ctx;
  bool is_there = hook->environments.count == 0 || is_listed(&hook->environments, tp_match_environment(view));
  bool matches = is_there && (!hook->protocol || tp__protocol_matches(hook, view)) && arguments_hold(hook, view);
  return matches ? TP_MATCH_YES : TP_MATCH_NO;
}

/* ---- programs ---- */

static void script_ended(tp__job *job, const tp_process_result *result) {
  tp__judged *judged = malloc(sizeof *judged);
  if (!judged) {
    tp_outcome outcome = {.struct_size = sizeof outcome, .kind = TP_ANSWER_FAILED, .reason = "no memory to judge it"};
    (void)!tp_token_complete(job->token, &outcome, NULL);
    return;
  }
  tp__hook_judge(job->hook, &job->asked, result, judged);
  tp__job_notify(job, result, &judged->outcome);
  (void)!tp_token_complete(job->token, &judged->outcome, NULL); /* stale: the attempt was given up meanwhile */
  tp__judged_fini(judged);
  free(judged);
}

static void script_unstarted(const tp__job *job, const char *reason, int32_t system_error) {
  tp_outcome outcome = {.struct_size = sizeof outcome,
                        .kind = TP_ANSWER_FAILED,
                        .why = TP_REASON_CANNOT_START,
                        .code = (uint32_t)system_error,
                        .reason = reason};
  (void)!tp_token_complete(job->token, &outcome, NULL);
}

/* The data with which the answer of a hook that rewrites is read after the call is gone. Arguments that could not be
 * decoded are left out. */
static tp__asked asked_of(const tp__hook *hook, const tp_call *call) {
  tp__asked asked = {.is_required = tp_call_failure(call) == TP_FAILURE_REQUIRED};
  bool is_model = hook->protocol && tp__hook_model_is_event(hook->protocol_event->id);
  if (is_model) tp__hook_model_ask(hook, call, &asked);
  if (is_model || !hook->rewrites) return asked;
  asked.tool = tp_call_text(call, TP_FIELD_TOOL);
  tp_text arguments = tp_call_text(call, TP_FIELD_ARGUMENTS);
  if (tp__input_is_object(arguments)) asked.arguments = arguments;
  return asked;
}

static tp_answer run_script(const tp__hook *hook, tp_call *call) {
  static const tp__job_kind script = {.ended = script_ended, .unstarted = script_unstarted};
  tp__bytes line;
  tp_status status = tp__hook_context_line(hook, call, &line);
  if (status != TP_OK) return tp_call_fail(call, (uint32_t)status, "the context could not be written as JSON");
  tp__asked asked = asked_of(hook, call);
  tp__job *job = tp__job_new(&script, hook, &asked);
  if (!job) {
    tp__bytes_fini(&line);
    return tp_call_fail(call, TP_ERR_NO_MEMORY, "no memory for the program");
  }
  tp_deferral deferral = tp__job_deferral(job);
  tp_answer answer = tp_call_defer(call, &deferral, &job->token);
  tp__job_start(job, line, tp_call_time_left_ms(call));
  return answer;
}

/* ---- files ---- */

static bool write_line(int fd, const tp__bytes *line) {
  size_t written = 0;
  while (written < line->size) {
    ssize_t size = write(fd, line->data + written, line->size - written);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    written += (size_t)size;
  }
  return true;
}

/* Appends with one write, so that lines of several programs do not mix. */
static bool append_line(const char *path, const tp__bytes *line) {
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool is_written = write_line(fd, line);
  return close(fd) == 0 && is_written;
}

/* Readers see the old file or the new one. */
static bool replace_file(const char *path, const tp__bytes *line) {
  char name[4200];
  int size = snprintf(name, sizeof name, "%s.XXXXXX", path);
  if (size < 0 || (size_t)size >= sizeof name) return false;
  int fd = mkostemp(name, O_CLOEXEC);
  if (fd < 0) return false;
  bool is_written = write_line(fd, line);
  is_written = close(fd) == 0 && is_written && rename(name, path) == 0;
  if (!is_written) unlink(name);
  return is_written;
}

static tp_answer run_file(const tp__hook *hook, tp_call *call) {
  tp__bytes line;
  tp_status status = tp__hook_context_line(hook, call, &line);
  if (status != TP_OK) return tp_call_fail(call, (uint32_t)status, "the context could not be written as JSON");
  bool is_written = hook->kind == TP__HOOK_LOG ? append_line(hook->path, &line) : replace_file(hook->path, &line);
  int error = errno;
  tp__bytes_fini(&line);
  if (is_written) return TP_ANSWER_DONE;
  char reason[256];
  snprintf(reason, sizeof reason, "the file cannot be written: %s", strerror(error));
  return tp_call_fail(call, (uint32_t)error, reason);
}

static tp_answer run_permissions(const tp__hook *hook, tp_call *call) {
  const tp__permissions *lists = hook->permissions;
  tp_text tool = tp_call_text(call, TP_FIELD_TOOL);
  char reason[256];
  const char *what = is_listed(&lists->never, tool)       ? "never"
                     : is_listed(&lists->ask, tool)       ? "ask"
                     : is_listed(&lists->automatic, tool) ? "auto"
                                                          : lists->otherwise;
  if (strcmp(what, "auto") == 0) return tp_call_allow(call);
  bool asks = strcmp(what, "ask") == 0;
  snprintf(reason, sizeof reason, "%s %s the tool %.*s", hook->id, asks ? "asks before" : "never lets run",
           tp__cut_word(tool, 128), tool.size > 0 ? tool.data : "");
  return asks ? tp_call_ask(call, reason) : tp_call_deny(call, reason);
}

tp_answer tp__hook_run(void *ctx, tp_call *call) {
  const tp__hook *hook = ctx;
  if (hook->kind == TP__HOOK_APPROVE) return tp_call_ask(call, hook->question);
  if (hook->kind == TP__HOOK_DENY) return tp_call_deny(call, hook->question);
  if (hook->kind == TP__HOOK_ALLOW) return tp_call_allow(call);
  if (hook->kind == TP__HOOK_PERMISSIONS) return run_permissions(hook, call);
  if (hook->kind == TP__HOOK_PROMPT) return tp__prompt_run(hook, call);
  if (hook->kind == TP__HOOK_WORKER) return tp__worker_run(hook->worker, call);
  return hook->started ? run_script(hook, call) : run_file(hook, call);
}

void tp__hook_destroy(void *ctx) {
  const tp__hook *hook = ctx;
  if (hook->worker) tp__worker_stop(hook->worker);
  tp__hooks_unref_handler(hook->hooks);
}
