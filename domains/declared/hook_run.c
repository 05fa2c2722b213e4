/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_run.c: the handler of a declared hook. What runs a program is deferred (hook_job.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* Of the call whose arguments are looked at by their names in another host. */
struct call_names {
  const tp__hook *hook;
  tp_text tool;
};

static tp_text name_there(void *ctx, tp_text ours) {
  const struct call_names *names = ctx;
  return tp__protocol_argument(names->hook, names->tool, ours);
}

/* Arguments that the provider could not decode are text, and no condition holds of them. */
static bool arguments_hold(const tp__hook *hook, const tp_match_view *view) {
  if (hook->rule_tools && !tp__protocol_is_tool(hook, tp_match_text(view, TP_FIELD_TOOL), hook->rule_tools))
    return false;
  if (!hook->conditions) return true;
  tp_text arguments = tp_match_text(view, TP_FIELD_ARGUMENTS);
  if (tp_value_kind_of(arguments) != TP_VALUE_MAP || tp_value_check(arguments, NULL) != TP_OK) arguments.size = 0;
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

/* ---- the context: one line of JSON ---- */

tp_status tp__line_add_json(tp__bytes *line, tp_text value, tp_writer *writer) {
  tp_text json;
  tp_status status = tp_json_encode(value, writer, &json, NULL);
  if (status != TP_OK) return status;
  tp__bytes_put(line, json.data, json.size);
  tp__bytes_put(line, "\n", 1);
  return TP_OK;
}

static const char *const id_names[TP_ID_COUNT] = {"tenant_id", "agent_id", "workspace_id", "session_id",
                                                  "thread_id", "turn_id",  "task_id",      "run_id"};

void tp__input_write(const tp__hook *hook, const tp_call *call, tp_writer *writer, void (*add)(tp__input *in)) {
  tp__input in = {.hook = hook, .call = call};
  tp__input_put(&in, writer, add);
}

void tp__input_put(tp__input *in, tp_writer *writer, void (*add)(tp__input *in)) {
  add(in);
  tp_write_map(writer, in->count);
  in->writer = writer;
  add(in);
}

bool tp__input_begin(tp__input *in, const char *key) {
  in->count++;
  if (in->writer) tp_write_string(in->writer, key);
  return in->writer != NULL;
}

void tp__input_text(tp__input *in, const char *key, tp_text text) {
  if (tp__input_begin(in, key)) tp_write_text(in->writer, text);
}

void tp__input_string(tp__input *in, const char *key, const char *text) { tp__input_text(in, key, tp_text_of(text)); }

void tp__input_int(tp__input *in, const char *key, int64_t number) {
  if (tp__input_begin(in, key)) tp_write_int(in->writer, number);
}

void tp__input_bool(tp__input *in, const char *key, bool value) {
  if (tp__input_begin(in, key)) tp_write_bool(in->writer, value);
}

/* The names under which the events of the hooks have what is in the payload. */
static const struct alias {
  uint32_t phase, field;
  const char *name;
  bool is_time; /* shown as ISO 8601 */
} aliases[] = {
    {TP_PHASE_TURN_INTAKE, TP_FIELD_TEXT, "user_raw_input", false},
    {TP_PHASE_TURN_INTAKE, TP_FIELD_FILES, "current_files", false},
    {TP_PHASE_TOOL_CREATE, TP_FIELD_ABILITY_REF, "ability_id", false},
    {TP_PHASE_TOOL_CREATE, TP_FIELD_INPUT_SUMMARY, "input_summary", false},
    {TP_PHASE_TOOL_PRE, TP_FIELD_TOOL, "ability_id", false},
    {TP_PHASE_TOOL_PRE, TP_FIELD_TASK_KEY, "task_key", false},
    {TP_PHASE_TOOL_PRE, TP_FIELD_INPUT_SUMMARY, "args_summary", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_TOOL, "ability_id", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_TASK_KEY, "task_key", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_STATUS, "status", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_DURATION_MS, "duration_ms", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_INPUT_SUMMARY, "input_summary", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_OUTPUT_SUMMARY, "output_summary", false},
    {TP_PHASE_TOOL_POST, TP_FIELD_ERROR_MESSAGE, "error_message", false},
    {TP_PHASE_SESSION_END, TP_FIELD_CHANGED_FILES, "changed_files", false},
    {TP_PHASE_SESSION_END, TP_FIELD_ABILITIES_USED, "abilities_used", false},
    {TP_PHASE_SESSION_END, TP_FIELD_TASKS_SUMMARY, "tasks_summary", false},
    {TP_PHASE_SESSION_END, TP_FIELD_STARTED_AT, "started_at", true},
    {TP_PHASE_SESSION_END, TP_FIELD_ENDED_AT, "ended_at", true},
};

/* 2026-11-26T11:33:02.250Z */
static void add_time(tp__input *in, const char *name, int64_t unix_ms) {
  char seconds[32], text[48] = "";
  time_t time = (time_t)(unix_ms / 1000);
  struct tm parts;
  if (gmtime_r(&time, &parts) && strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts) > 0)
    snprintf(text, sizeof text, "%s.%03dZ", seconds, (int)(unix_ms % 1000));
  tp__input_string(in, name, text);
}

/* An optional text that the phase has left empty is no member. */
static bool is_left_out(tp_text value) {
  return value.size == 0 || (tp_value_kind_of(value) == TP_VALUE_TEXT && tp_value_text(value).size == 0);
}

static void add_aliases(tp__input *in, tp_text payload) {
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
    const struct alias *alias = &aliases[i];
    if (alias->phase != tp_call_phase(in->call)) continue;
    tp_text value = tp_value_get(payload, tp_field_name(alias->field));
    if (alias->field != TP_FIELD_TEXT && is_left_out(value)) continue;
    if (alias->is_time) add_time(in, alias->name, tp_value_int(value, 0));
    else if (tp__input_begin(in, alias->name)) tp_write_value(in->writer, value);
  }
}

static void add_said(tp__input *in, const char *key, tp_text text) {
  if (text.size > 0) tp__input_text(in, key, text);
}

static void add_caller(tp__input *in) {
  tp__input_string(in, "source", tp_caller_name(tp_call_caller(in->call)));
  add_said(in, "session_id", tp_call_id(in->call, TP_ID_SESSION));
  add_said(in, "job_id", tp_call_caller_job(in->call));
  add_said(in, "triggered_by", tp_call_triggered_by(in->call));
}

static void add_ability(tp__input *in) {
  tp__input_text(in, "kind", tp_call_text(in->call, TP_FIELD_ABILITY_KIND));
  tp__input_text(in, "value", tp_call_text(in->call, TP_FIELD_ABILITY_REF));
}

/* Parts of a result without their content, which programs have no use for: an image has megabytes. */
static void write_parts(tp_text parts, tp_writer *writer) {
  tp_write_array(writer, tp_value_count(parts));
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) {
    tp_part part = {.struct_size = sizeof part};
    if (tp_part_read(walk.value, &part, NULL) != TP_OK || tp_part_write_summary(&part, writer, NULL) != TP_OK)
      tp_write_null(writer);
  }
}

static void write_payload(tp_text payload, tp_writer *writer) {
  tp_write_map(writer, tp_value_count(payload));
  for (tp_value_walk walk = {0}; tp_value_next(payload, &walk);) {
    tp_write_text(writer, walk.key);
    if (tp__is_word(walk.key, "result_parts")) write_parts(walk.value, writer);
    else tp_write_value(writer, walk.value);
  }
}

static void add_context(tp__input *in) {
  const tp_call *call = in->call;
  tp_text payload = tp_call_payload(call);
  tp__input_string(in, "event_type", in->hook->event);
  tp__input_string(in, "hook_id", in->hook->id);
  tp__input_string(in, "phase", in->hook->row->name);
  for (uint32_t id = 0; id < TP_ID_COUNT; id++) add_said(in, id_names[id], tp_call_id(call, id));
  if (tp__input_begin(in, "caller")) tp__input_write(in->hook, call, in->writer, add_caller);
  add_said(in, "environment", tp_call_environment(call));
  tp__input_text(in, "mode", tp_call_mode(call));
  tp__input_int(in, "attempt", tp_call_attempt(call));
  if (tp_call_phase(call) == TP_PHASE_TOOL_CREATE && tp__input_begin(in, "ability_ref"))
    tp__input_write(in->hook, call, in->writer, add_ability);
  add_aliases(in, payload);
  if (!tp__input_begin(in, "payload")) return;
  write_payload(payload, in->writer);
}

void tp__hook_write_context(const tp__hook *hook, const tp_call *call, tp_writer *writer) {
  tp__input_write(hook, call, writer, add_context);
}

tp_status tp__hook_context_line(const tp__hook *hook, tp_call *call, tp__bytes *ret_line) {
  tp_writer *writer;
  tp_status status = tp_writer_new(NULL, &writer);
  if (status != TP_OK) return status;
  if (hook->protocol) tp__protocol_write(hook, call, writer);
  else tp__hook_write_context(hook, call, writer);
  tp_text value;
  tp__bytes line = {0};
  status = tp_writer_finish(writer, &value);
  if (status == TP_OK) status = tp__line_add_json(&line, value, writer);
  tp_writer_free(writer);
  if (status == TP_OK && line.failed) status = TP_ERR_NO_MEMORY;
  if (status == TP_OK) *ret_line = line;
  else tp__bytes_fini(&line);
  return status;
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

/* What the answer of a hook that rewrites is read with, when the call is gone. Arguments that could not be decoded are
 * left out. */
static tp__asked asked_of(const tp__hook *hook, const tp_call *call) {
  tp__asked asked = {.is_required = tp_call_failure(call) == TP_FAILURE_REQUIRED};
  bool is_model = hook->protocol && tp__hook_model_is_event(hook->protocol_event->id);
  if (is_model) tp__hook_model_ask(hook, call, &asked);
  if (is_model || !hook->rewrites) return asked;
  asked.tool = tp_call_text(call, TP_FIELD_TOOL);
  tp_text arguments = tp_call_text(call, TP_FIELD_ARGUMENTS);
  if (tp_value_kind_of(arguments) == TP_VALUE_MAP && tp_value_check(arguments, NULL) == TP_OK)
    asked.arguments = arguments;
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

static bool write_all(int fd, const tp__bytes *line) {
  size_t written = 0;
  while (written < line->size) {
    ssize_t size = write(fd, line->data + written, line->size - written);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    written += (size_t)size;
  }
  return true;
}

/* One write at the end of the file, so that lines of several programs do not mix. */
static bool append_line(const char *path, const tp__bytes *line) {
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool is_written = write_all(fd, line);
  return close(fd) == 0 && is_written;
}

/* Readers see the old file or the new one. */
static bool replace_file(const char *path, const tp__bytes *line) {
  char name[4200];
  int size = snprintf(name, sizeof name, "%s.XXXXXX", path);
  if (size < 0 || (size_t)size >= sizeof name) return false;
  int fd = mkostemp(name, O_CLOEXEC);
  if (fd < 0) return false;
  bool is_written = write_all(fd, line);
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
