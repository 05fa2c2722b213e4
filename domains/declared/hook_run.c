/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_run.c: the handler of a declared hook. A program is started and the attempt deferred, so that no thread waits
 * for it; the thread of the process loop completes the token. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domains/declared/glob.h"
#include "domains/declared/hook_worker.h"

enum { ERRORS_MAX = 64 << 10, OUTPUT_MAX = 1 << 20, BEHIND_DEADLINE_MS = 200, DEFAULT_LIMIT_MS = 30000 };

/* ---- match ---- */

static bool any_matches(const tp__patterns *patterns, tp_text text) {
  for (size_t i = 0; i < patterns->count; i++) {
    if (tp__glob_matches(tp_text_of(patterns->items[i]), text)) return true;
  }
  return patterns->count == 0;
}

static bool any_path_matches(const tp__patterns *patterns, tp_text paths) {
  for (tp_value_walk walk = {0}; tp_value_next(paths, &walk);) {
    if (any_matches(patterns, tp_value_text(walk.value))) return true;
  }
  return patterns->count == 0;
}

int32_t tp__hook_matches(void *ctx, const tp_match_view *view) {
  const tp__hook *hook = ctx;
  tp_text ability = tp_match_text(view, TP_FIELD_TOOL);
  if (ability.size == 0) ability = tp_match_text(view, TP_FIELD_ABILITY_REF);
  bool matches = any_matches(&hook->scopes, ability) && any_matches(&hook->agents, tp_match_id(view, TP_ID_AGENT)) &&
                 any_matches(&hook->modes, tp_match_mode(view)) &&
                 any_path_matches(&hook->changed_paths, tp_match_text(view, TP_FIELD_CHANGED_FILES)) &&
                 (hook->duration_ms_min < 0 || tp_match_int(view, TP_FIELD_DURATION_MS) >= hook->duration_ms_min) &&
                 (!hook->protocol || tp__protocol_matches(hook, view));
  return matches ? TP_MATCH_YES : TP_MATCH_NO;
}

/* ---- the context: one line of JSON ---- */

void tp__line_add(void *ctx, const char *bytes, size_t size) {
  struct tp__line *line = ctx;
  void *grown = line->bytes;
  if (line->failed || !tp__grow(&tp__malloc_allocator, &grown, &line->capacity, line->size + size, 1)) {
    line->failed = true;
    return;
  }
  line->bytes = grown;
  if (size > 0) memcpy(line->bytes + line->size, bytes, size);
  line->size += size;
}

static const char *const id_names[TP_ID_COUNT] = {"tenant_id", "agent_id",  "workspace_id", "session_id",
                                                  "thread_id", "turn_id",   "task_id",      "run_id"};

static void write_pair(tp_writer *writer, const char *key, tp_text text) {
  tp_write_string(writer, key);
  tp_write_text(writer, text);
}

/* The names under which the seeds' events have what is in the payload. */
struct alias {
  uint32_t phase, field;
  const char *name;
};
static const struct alias aliases[] = {
    {TP_PHASE_TURN_INTAKE, TP_FIELD_TEXT, "user_raw_input"},
    {TP_PHASE_TURN_INTAKE, TP_FIELD_FILES, "current_files"},
    {TP_PHASE_TOOL_CREATE, TP_FIELD_INPUT_SUMMARY, "input_summary"},
    {TP_PHASE_TOOL_CREATE, TP_FIELD_ENVIRONMENT, "environment"},
    {TP_PHASE_TOOL_PRE, TP_FIELD_TOOL, "ability_id"},
    {TP_PHASE_TOOL_PRE, TP_FIELD_TASK_KEY, "task_key"},
    {TP_PHASE_TOOL_POST, TP_FIELD_TOOL, "ability_id"},
    {TP_PHASE_TOOL_POST, TP_FIELD_TASK_KEY, "task_key"},
    {TP_PHASE_TOOL_POST, TP_FIELD_STATUS, "status"},
    {TP_PHASE_TOOL_POST, TP_FIELD_DURATION_MS, "duration_ms"},
    {TP_PHASE_TOOL_POST, TP_FIELD_INPUT_SUMMARY, "input_summary"},
    {TP_PHASE_TOOL_POST, TP_FIELD_OUTPUT_SUMMARY, "output_summary"},
    {TP_PHASE_TOOL_POST, TP_FIELD_ERROR_MESSAGE, "error_message"},
    {TP_PHASE_SESSION_END, TP_FIELD_CHANGED_FILES, "changed_files"},
    {TP_PHASE_SESSION_END, TP_FIELD_ABILITIES_USED, "abilities_used"},
    {TP_PHASE_SESSION_END, TP_FIELD_TASKS_SUMMARY, "tasks_summary"},
};

static tp_text alias_value(const struct alias *alias, uint32_t phase, tp_text payload) {
  if (alias->phase != phase) return (tp_text){0};
  return tp_value_get(payload, tp_field_name(alias->field));
}

static size_t count_aliases(uint32_t phase, tp_text payload) {
  size_t count = 0;
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
    if (alias_value(&aliases[i], phase, payload).size > 0) count++;
  }
  return count;
}

static void write_aliases(tp_writer *writer, uint32_t phase, tp_text payload) {
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
    tp_text value = alias_value(&aliases[i], phase, payload);
    if (value.size == 0) continue;
    tp_write_string(writer, aliases[i].name);
    tp_write_value(writer, value);
  }
}

void tp__hook_write_context(const tp__hook *hook, const tp_call *call, tp_writer *writer) {
  tp_text payload = tp_call_payload(call);
  uint32_t phase = tp_call_phase(call);
  size_t ids = 0;
  for (uint32_t id = 0; id < TP_ID_COUNT; id++) ids += tp_call_id(call, id).size > 0;
  tp_write_map(writer, 7 + ids + count_aliases(phase, payload));
  write_pair(writer, "event_type", tp_text_of(hook->event));
  write_pair(writer, "hook_id", tp_text_of(hook->id));
  write_pair(writer, "phase", tp_text_of(hook->row->name));
  for (uint32_t id = 0; id < TP_ID_COUNT; id++) {
    if (tp_call_id(call, id).size > 0) write_pair(writer, id_names[id], tp_call_id(call, id));
  }
  tp_write_string(writer, "caller");
  tp_write_map(writer, 1);
  write_pair(writer, "source", tp_text_of(tp_caller_name(tp_call_caller(call))));
  write_pair(writer, "mode", tp_call_mode(call));
  tp_write_string(writer, "attempt");
  tp_write_int(writer, tp_call_attempt(call));
  write_aliases(writer, phase, payload);
  tp_write_string(writer, "payload");
  if (payload.size > 0) tp_write_value(writer, payload);
  else tp_write_map(writer, 0);
}

/* @return TP_OK and a line with its newline, to be freed. */
static tp_status context_line(const tp__hook *hook, const tp_call *call, struct tp__line *ret_line) {
  tp_writer *writer;
  tp_status status = tp_writer_new(NULL, &writer);
  if (status != TP_OK) return status;
  if (!hook->protocol) tp__hook_write_context(hook, call, writer);
  else if (!tp__protocol_write(hook, call, writer)) status = TP_ERR_NO_MEMORY;
  tp_text value;
  struct tp__line line = {0};
  if (status == TP_OK) status = tp_writer_finish(writer, &value);
  if (status == TP_OK) status = tp_json_encode(value, tp__line_add, &line, NULL);
  if (status == TP_OK) tp__line_add(&line, "\n", 1);
  tp_writer_free(writer);
  if (status == TP_OK && line.failed) status = TP_ERR_NO_MEMORY;
  if (status == TP_OK) *ret_line = line;
  else free(line.bytes);
  return status;
}

/* ---- programs ---- */

/* One program of one attempt. It has up to three references: the starter's; the deferral's, until the token is
 * completed or the runtime is freed; and that of the running program, which may outlive both. */
struct job {
  const tp__hook *hook;
  tp_token token;
  tp__asked asked; /* its texts lie behind the job */
  struct tp__line input; /* for on_program; empty without one */
  pthread_mutex_t mutex;
  /* under mutex */
  uint64_t process; /* 0: not started yet */
  bool is_cancelled;
  int references;
};

static void job_unref(struct job *job) {
  pthread_mutex_lock(&job->mutex);
  int left = --job->references;
  pthread_mutex_unlock(&job->mutex);
  if (left > 0) return;
  tp_hooks *hooks = job->hook->hooks;
  pthread_mutex_destroy(&job->mutex);
  free(job->input.bytes);
  free(job);
  tp__hooks_unref(hooks);
}

static void job_ref(struct job *job) {
  pthread_mutex_lock(&job->mutex);
  job->references++;
  pthread_mutex_unlock(&job->mutex);
}

static void job_destroy(void *ctx) { job_unref(ctx); }

static void job_cancel(void *ctx) {
  struct job *job = ctx;
  pthread_mutex_lock(&job->mutex);
  job->is_cancelled = true;
  uint64_t process = job->process;
  pthread_mutex_unlock(&job->mutex);
  if (process != 0) tp_process_cancel(job->hook->hooks->loop, process);
}

static void tell(const struct job *job, const tp_process_result *result, const tp_outcome *outcome) {
  tp_hook_program program = {.struct_size = sizeof program,
                             .hook = job->hook->id,
                             .arguments = job->hook->arguments,
                             .input = {job->input.bytes, job->input.size},
                             .output = result->output,
                             .errors = result->errors,
                             .outcome = outcome,
                             .end = result->end,
                             .exit_code = result->exit_code,
                             .signal = result->signal,
                             .duration_ms = result->duration_ms};
  tp__hooks_tell(job->hook->hooks, &program);
}

static void program_ended(void *ctx, const tp_process_result *result) {
  struct job *job = ctx;
  tp__hooks_note_loop(job->hook->hooks);
  tp__judged *judged = malloc(sizeof *judged);
  if (!judged) {
    tp_outcome outcome = {.struct_size = sizeof outcome, .kind = TP_ANSWER_FAILED, .reason = "no memory to judge it"};
    (void)!tp_token_complete(job->token, &outcome);
    job_unref(job);
    return;
  }
  tp__hook_judge(job->hook, &job->asked, result, judged);
  tell(job, result, &judged->outcome);
  (void)!tp_token_complete(job->token, &judged->outcome); /* stale: the attempt was given up meanwhile */
  tp__judged_fini(judged);
  free(judged);
  job_unref(job);
}

bool tp__hook_same_file(const struct stat *one, const struct stat *other) {
  return one->st_ino == other->st_ino && one->st_dev == other->st_dev && one->st_size == other->st_size &&
         one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec &&
         one->st_ctim.tv_sec == other->st_ctim.tv_sec && one->st_ctim.tv_nsec == other->st_ctim.tv_nsec;
}

const char tp__hook_changed[] = "the program is not what was trusted: read the directory again and trust it";

bool tp__hook_is_as_it_was(const tp__hook *hook) {
  for (size_t i = 0; i < hook->name_count; i++) {
    const tp__hook_program *program = &hook->programs[i];
    struct stat now;
    if (!program->exists || stat(hook->names[i], &now) != 0) continue; /* starting it will say so */
    if (!tp__hook_same_file(&now, &program->stat)) return false;
  }
  return true;
}

static void complete_unstarted(const struct job *job, const char *reason, int32_t system_error) {
  tp_outcome outcome = {.struct_size = sizeof outcome,
                        .kind = TP_ANSWER_FAILED,
                        .why = TP_REASON_CANNOT_START,
                        .code = (uint32_t)system_error,
                        .reason = reason};
  (void)!tp_token_complete(job->token, &outcome);
}

/* The attempt's own deadline is the engine's, which cancels; the process's lies behind it, for a runtime that is gone.
 */
static uint32_t process_limit_ms(const tp_call *call) {
  int64_t left_ms = tp_call_time_left_ms(call);
  if (left_ms > TP__HOOK_LIMIT_MS_MAX) left_ms = DEFAULT_LIMIT_MS;
  return (uint32_t)left_ms + BEHIND_DEADLINE_MS;
}

static void start_program(struct job *job, const tp_call *call, const struct tp__line *line) {
  const tp__hook *hook = job->hook;
  if (!tp__hook_is_as_it_was(hook)) {
    complete_unstarted(job, tp__hook_changed, 0);
    return;
  }
  tp_process_options options = {.struct_size = sizeof options,
                                .arguments = hook->started,
                                .environment = hook->environment[0] ? hook->environment : hook->hooks->environment,
                                .directory = hook->hooks->root,
                                .input = {line->bytes, line->size},
                                .limit_ms = process_limit_ms(call),
                                .output_max = OUTPUT_MAX,
                                .errors_max = ERRORS_MAX};
  uint64_t process = 0;
  tp_fault fault = {0};
  job_ref(job);
  tp_status status = tp_process_start(hook->hooks->loop, &options, program_ended, job, &process, &fault);
  if (status != TP_OK) {
    complete_unstarted(job, fault.message, fault.system_error);
    job_unref(job);
    return;
  }
  pthread_mutex_lock(&job->mutex);
  job->process = process;
  bool is_cancelled = job->is_cancelled;
  pthread_mutex_unlock(&job->mutex);
  if (is_cancelled) tp_process_cancel(hook->hooks->loop, process);
}

/* What the answer of a hook that rewrites is read with, when the call is gone. Arguments that could not be decoded are
 * left out. */
static tp__asked asked_of(const tp__hook *hook, const tp_call *call) {
  tp__asked asked = {.is_required = tp_call_failure(call) == TP_FAILURE_REQUIRED};
  if (!hook->rewrites) return asked;
  asked.tool = tp_call_text(call, TP_FIELD_TOOL);
  tp_text arguments = tp_call_text(call, TP_FIELD_ARGUMENTS);
  if (tp_value_kind_of(arguments) == TP_VALUE_MAP && tp_value_check(arguments, NULL) == TP_OK)
    asked.arguments = arguments;
  return asked;
}

static tp_text put_behind(char **at, tp_text text) {
  tp_text copy = {*at, text.size};
  if (text.size > 0) memcpy(*at, text.data, text.size);
  *at += text.size;
  return copy;
}

static struct job *job_new(const tp__hook *hook, const tp_call *call) {
  tp__asked asked = asked_of(hook, call);
  struct job *job = calloc(1, sizeof *job + asked.tool.size + asked.arguments.size);
  if (!job) return NULL;
  char *behind = (char *)(job + 1);
  asked.tool = put_behind(&behind, asked.tool);
  asked.arguments = put_behind(&behind, asked.arguments);
  if (pthread_mutex_init(&job->mutex, NULL) != 0) {
    free(job);
    return NULL;
  }
  job->hook = hook;
  job->references = 2;
  job->asked = asked;
  tp__hooks_ref(hook->hooks);
  return job;
}

static tp_answer run_script(const tp__hook *hook, tp_call *call) {
  struct tp__line line;
  tp_status status = context_line(hook, call, &line);
  if (status != TP_OK) return tp_call_fail(call, (uint32_t)status, "the context could not be written as JSON");
  struct job *job = job_new(hook, call);
  if (!job) {
    free(line.bytes);
    return tp_call_fail(call, TP_ERR_NO_MEMORY, "no memory for the program");
  }
  tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = job_cancel, .destroy = job_destroy, .ctx = job};
  tp_answer answer = tp_call_defer(call, &deferral, &job->token);
  bool kept = tp__hooks_watched(hook->hooks);
  if (kept) job->input = line;
  if (job->token.bits != 0) start_program(job, call, &line);
  else job_unref(job);
  job_unref(job);
  if (!kept) free(line.bytes);
  return answer;
}

/* ---- files ---- */

static bool write_all(int fd, const struct tp__line *line) {
  size_t written = 0;
  while (written < line->size) {
    ssize_t size = write(fd, line->bytes + written, line->size - written);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    written += (size_t)size;
  }
  return true;
}

/* One write at the end of the file, so that lines of several programs do not mix. */
static bool append_line(const char *path, const struct tp__line *line) {
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool is_written = write_all(fd, line);
  return close(fd) == 0 && is_written;
}

/* Readers see the old file or the new one. */
static bool replace_file(const char *path, const struct tp__line *line) {
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
  struct tp__line line;
  tp_status status = context_line(hook, call, &line);
  if (status != TP_OK) return tp_call_fail(call, (uint32_t)status, "the context could not be written as JSON");
  bool is_written = hook->kind == TP__HOOK_LOG ? append_line(hook->path, &line) : replace_file(hook->path, &line);
  int error = errno;
  free(line.bytes);
  if (is_written) return TP_ANSWER_DONE;
  char reason[256], text[128];
  snprintf(reason, sizeof reason, "the file cannot be written: %s", strerror_r(error, text, sizeof text));
  return tp_call_fail(call, (uint32_t)error, reason);
}

tp_answer tp__hook_run(void *self, tp_call *call) {
  const tp__hook *hook = self;
  if (hook->kind == TP__HOOK_APPROVE) return tp_call_ask(call, hook->question);
  if (hook->kind == TP__HOOK_WORKER) return tp__worker_run(hook->worker, call);
  return hook->started ? run_script(hook, call) : run_file(hook, call);
}

void tp__hook_destroy(void *self) {
  const tp__hook *hook = self;
  if (hook->worker) tp__worker_stop(hook->worker);
  tp__hooks_unref(hook->hooks);
}
