/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_tool.c: the handler that contributes a declared tool, the tool's function, and the keys of its calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook_input.h"
#include "domains/declared/hook_job.h"
#include "domains/declared/tool_answer.h"
#include "domains/declared/hook_tool.h"

/* ---- keys ---- */

static bool is_path_name(const char *name, size_t size) {
  return size > 0 && !(size == 1 && name[0] == '.') && !(size == 2 && name[0] == '.' && name[1] == '.');
}

/* Names separated by `/`, with or without a leading one; may be empty. */
static bool is_path(tp_text path) {
  const char *end = path.data + path.size, *name = path.data;
  if (path.size > 0 && *name == '/') name++;
  while (name < end) {
    const char *slash = memchr(name, '/', (size_t)(end - name));
    if (!is_path_name(name, (size_t)((slash ? slash : end) - name))) return false;
    if (!slash) return true;
    name = slash + 1;
  }
  return path.size == 0; /* else it ends with a `/` */
}

bool tp__tool_key_read(tp_hooks *hooks, const char *text, tp__tool_key *ret_key) {
  size_t size = strcspn(text, "{}");
  bool has_argument = text[size] == '{';
  tp__tool_key key = {.access = ret_key->access};
  if (has_argument) {
    size_t name_size = strcspn(text + size + 1, "{}");
    const char *behind = text + size + 1 + name_size;
    if (name_size == 0 || strcmp(behind, "}") != 0 || (size > 0 && text[size - 1] != '/')) return false;
    key.argument = tp__hooks_copy(hooks, (tp_text){text + size + 1, name_size});
    if (!key.argument) return false;
    if (size > 0) size--; /* the `/` */
  } else if (text[size] || size == 0) {
    return false;
  }
  key.path = (tp_text){text, size};
  bool is_root = !has_argument && strcmp(text, "/") == 0;
  if (size > TP__TOOL_KEY_BYTES_MAX || (!is_root && !is_path(key.path))) return false;
  *ret_key = key;
  return true;
}

/* A path that is being made: the key's own path, followed by further names. */
struct path {
  char bytes[TP__TOOL_KEY_BYTES_MAX];
  size_t size, fixed_size;
};

/* @return false: the path leaves the key's own path, or is too long. */
static bool add_path_name(struct path *path, const char *name, size_t size) {
  if (size == 0 || (size == 1 && name[0] == '.')) return true;
  if (!is_path_name(name, size)) {
    if (path->size == path->fixed_size) return false;
    while (path->bytes[--path->size] != '/') continue;
    return true;
  }
  if (path->size + 1 + size > sizeof path->bytes) return false;
  path->bytes[path->size++] = '/';
  memcpy(path->bytes + path->size, name, size);
  path->size += size;
  return true;
}

static bool add_names(struct path *path, tp_text names) {
  if (names.size == 0 || memchr(names.data, '\0', names.size)) return false;
  const char *at = names.data, *end = at + names.size;
  while (at < end) {
    const char *slash = memchr(at, '/', (size_t)(end - at)), *stop = slash ? slash : end;
    if (!add_path_name(path, at, (size_t)(stop - at))) return false;
    at = slash ? slash + 1 : end;
  }
  return true;
}

/* An argument that names nothing below the key's own path (such as a missing one) means the whole path. So two calls
 * never run at once because an argument could not be understood. */
static tp_status add_key(const tp__tool_key *key, tp_text arguments, tp_tool_keys *keys) {
  if (!key->argument) return tp_tool_keys_add(keys, key->access, key->path, NULL);
  struct path path = {.size = key->path.size, .fixed_size = key->path.size};
  if (key->path.size > 0) memcpy(path.bytes, key->path.data, key->path.size);
  tp_text value = tp_value_get(arguments, key->argument), names = tp_value_text(value);
  char number[32];
  if (tp_value_kind_of(value) == TP_VALUE_INT) {
    int size = snprintf(number, sizeof number, "%lld", (long long)tp_value_int(value, 0));
    names = (tp_text){number, (size_t)size};
  }
  if (!add_names(&path, names)) path.size = path.fixed_size;
  if (path.size == 0) path.bytes[path.size++] = '/';
  return tp_tool_keys_add(keys, key->access, (tp_text){path.bytes, path.size}, NULL);
}

static tp_status add_keys(void *ctx, tp_text arguments, tp_tool_keys *keys) {
  const tp__hook_tool *tool = ((const tp__hook *)ctx)->tool;
  tp_status status = TP_OK;
  for (size_t i = 0; i < tool->key_count && status == TP_OK; i++) status = add_key(&tool->keys[i], arguments, keys);
  return status;
}

/* ---- the program of a call ---- */

enum { OUTPUT_MAX = 8 << 20 }; /* 4 MiB of parts are 5.4 MiB of base64 */

/* The output of a program for a model, without white space at its end. */
static tp_text trim_blank_end(tp_text said) {
  while (said.size > 0 && strchr(" \t\r\n", said.data[said.size - 1]) && said.data[said.size - 1]) said.size--;
  return said;
}

static void put_end(tp__bytes *text, const tp_process_result *result) {
  switch (result->end) {
    case TP_PROCESS_EXITED:
      tp__bytes_printf(text, "the program exited with code %d", result->exit_code);
      break;
    case TP_PROCESS_KILLED:
      tp__bytes_printf(text, "the program was killed by signal %d", result->signal);
      break;
    case TP_PROCESS_OUTPUT_LIMIT:
      tp__bytes_printf(text, "the program wrote more than %d MiB of output, or 64 KiB of errors", OUTPUT_MAX >> 20);
      break;
    default:
      tp__bytes_printf(text, "the program gave no answer: %s", tp_process_end_name(result->end));
  }
}

/* Adds how the program failed, with its standard error. UTF-8. */
static void put_failure(tp__bytes *text, const tp_process_result *result) {
  tp_text errors = trim_blank_end(result->errors);
  put_end(text, result);
  if (errors.size == 0) return;
  tp__bytes_put_string(text, ": ");
  tp__bytes_put_utf8(text, errors);
}

/* Adds the output of a program that failed. */
static void put_output(tp__bytes *text, const tp_process_result *result) {
  tp_text output = trim_blank_end(result->output);
  bool has_errors = trim_blank_end(result->errors).size > 0;
  if (output.size == 0) return;
  tp__bytes_put_string(text, has_errors ? "\nits output:\n" : ": ");
  tp__bytes_put_text(text, output);
}

static void notify(const tp__job *job, const tp_process_result *result, bool is_error, tp_text said) {
  char reason[4096];
  tp__show(reason, sizeof reason, said);
  tp_outcome outcome = {.struct_size = sizeof outcome,
                        .kind = is_error ? TP_ANSWER_FAILED : TP_ANSWER_DONE,
                        .reason = is_error ? reason : NULL};
  tp__job_notify(job, result, &outcome);
}

/* The core replaces bytes of the output that are not UTF-8, and reports it. */
static void answer_with_text(const tp__job *job, const tp_process_result *result, bool is_error, tp__bytes *failure) {
  tp_text said = result->output;
  if (is_error) {
    put_output(failure, result);
    said = failure->failed ? tp_text_of("no memory for what the program said") : tp__bytes_text(failure);
  } else if (said.size > 0 && said.data[said.size - 1] == '\n') {
    said.size--;
  }
  notify(job, result, is_error, said);
  (void)!tp_tool_complete(job->token, is_error, said, NULL); /* stale: the call was given up meanwhile */
}

static void call_ended(tp__job *job, const tp_process_result *result) {
  tp__bytes failure = {0};
  tp__tool_answer answer;
  bool is_error = result->end != TP_PROCESS_EXITED || result->exit_code != 0;
  if (is_error) put_failure(&failure, result);
  if (!failure.failed && tp__tool_answer_read(&answer, result->output, tp__bytes_text(&failure))) {
    notify(job, result, answer.answer.is_error, answer.answer.text);
    (void)!tp_tool_complete_with(job->token, &answer.answer, NULL); /* stale, as above */
    tp__tool_answer_fini(&answer);
  } else {
    answer_with_text(job, result, is_error, &failure);
  }
  tp__bytes_fini(&failure);
}

static void call_unstarted(const tp__job *job, const char *reason, int32_t system_error) {
  char text[512];
  (void)system_error; /* the reason names it */
  snprintf(text, sizeof text, "the program of the tool was not started: %s", reason);
  (void)!tp_tool_complete(job->token, true, tp_text_of(text), NULL);
}

/* @return a line with its newline; `failed` is set without memory. */
static tp__bytes arguments_line(tp_text arguments) {
  tp__bytes line = {0};
  tp_writer *writer = NULL;
  if (tp_writer_new(NULL, &writer) != TP_OK || tp__line_add_json(&line, arguments, writer) != TP_OK) line.failed = true;
  tp_writer_free(writer);
  return line;
}

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  static const tp__job_kind call = {.ended = call_ended, .unstarted = call_unstarted, .output_max = OUTPUT_MAX};
  tp__bytes line = arguments_line(tp_tool_run_arguments(run));
  tp__job *job = line.failed ? NULL : tp__job_new(&call, ctx, NULL);
  if (!job) {
    tp__bytes_fini(&line);
    return tp_tool_error(run, tp_text_of("no memory for the program of the tool"));
  }
  tp_deferral deferral = tp__job_deferral(job);
  int64_t left_ms = tp_tool_run_time_left_ms(run);
  tp_answer answer = tp_tool_defer(run, &deferral, &job->token);
  tp__job_start(job, line, left_ms);
  return answer;
}

/* ---- the handler ---- */

void tp__hook_tool_finish(tp__hook *hook) {
  assert(hook->kind == TP__HOOK_TOOL && hook->tool);
  tp_tool *tool = &hook->tool->tool;
  tool->struct_size = sizeof *tool;
  tool->name = hook->id;
  tool->run = run_tool;
  tool->ctx = hook;
  tool->placement = TP_PLACEMENT_THREAD; /* starting a program waits for the kernel */
  tool->limit_ms = hook->limit_ms;
  tool->keys = hook->tool->key_count > 0 ? add_keys : NULL;
  hook->tool->list[0] = tool;
}

tp_contribution tp__hook_tool_bundle(const tp__hook *hook) {
  assert(hook->kind == TP__HOOK_TOOL && hook->tool);
  return (tp_contribution){.struct_size = sizeof(tp_contribution),
                           .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                           .key = tp_text_of(hook->id),
                           .tools = hook->tool->list,
                           .tool_count = 1};
}

static tp_answer emit_tool(void *ctx, tp_call *call) {
  tp_contribution bundle = tp__hook_tool_bundle(ctx);
  tp_status status = tp_call_emit(call, &bundle, NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, (uint32_t)status, "the tool could not be contributed");
}

void tp__hook_tool_handler(tp_handler *handler) {
  handler->run = emit_tool;
  handler->kind = TP_HANDLER_NATIVE; /* the calls of the tool run the program; the handler itself does not */
  handler->placement = TP_PLACEMENT_INLINE;
  handler->capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE;
}
