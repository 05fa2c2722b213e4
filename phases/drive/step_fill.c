/* SPDX-License-Identifier: Apache-2.0
 *
 * step_fill.c: fills the payload of each phase of a driven turn that has a subscription. */
#include "phases/drive/held_answer.h"
#include "phases/drive/limits.h"
#include "phases/model/parts.h"
#include "phases/tools/tool_run.h"
#include "runtime/exec/blocks.h"
#include "runtime/value/value.h"

enum { PREVIEW_BYTES = 4096, WHOLE_BYTES = 256 << 10 };
enum { RESULTS_BYTES_MAX = 16 << 20 }; /* All results of a response together, as tool.batch shows them. */

/* A text that is redacted later, such as a memory, must not end within a secret. */
static tp_text beginning(const tp__drive *d, tp_text text, size_t bytes) {
  bool is_redacted = tp__runtime_redactor(d->session->runtime)->redact != NULL;
  return (tp_text){text.data, is_redacted ? tp__utf8_cut_word(text, bytes) : tp__utf8_cut(text, bytes)};
}

/* The whole text is given only when the preview does not show all of it: most messages are short, and each job has a
 * copy. */
static void show_text(tp__drive *d, uint32_t preview, uint32_t whole, tp_text text) {
  tp__drive_text(d, preview, beginning(d, text, PREVIEW_BYTES));
  if (text.size > PREVIEW_BYTES) tp__drive_text(d, whole, beginning(d, text, WHOLE_BYTES));
}

static void begin_fill(const tp__drive *d, tp_writer *writer) {
  tp__value_writer_init(writer, &tp__runtime_blocks(d->turn->core.runtime)->as_allocator);
}

/* Moves the writer's value into the turn's memory. @param ok whether everything was written. */
static bool finish_fill(tp__drive *d, tp_writer *writer, bool ok, tp_text *ret_value) {
  tp_text value;
  ok = ok && tp_writer_finish(writer, &value) == TP_OK && tp__arena_text(&d->arena, value, ret_value);
  tp__value_writer_fini(writer);
  return ok;
}

/* ---- what the user said ---- */

/* As the phases before left it. */
bool tp__fill_input(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_TEXT, d->user_text);
  if (d->request.files.size > 0) tp__drive_value(d, TP_FIELD_FILES, d->request.files);
  return true;
}

static bool put_model(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_MODEL, tp__drive_shown_model(d));
  return true;
}

bool tp__fill_session_start(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_SESSION_ID, tp_text_of(d->session->id));
  tp__drive_text(d, TP_FIELD_SOURCE, tp_text_of(d->session->past->list.count > 0 ? "resume" : "startup"));
  return put_model(d);
}

bool tp__fill_input_and_model(tp__drive *d) { return tp__fill_input(d) && put_model(d); }

/* The day is given because recall may depend on it: "yesterday". */
bool tp__fill_context(tp__drive *d) {
  tp__drive_int(d, TP_FIELD_SAID_AT, d->request.said_unix_ms);
  return tp__fill_input_and_model(d);
}

/* ---- tools ---- */

/* Writes the names of the turn's tools as an array of texts, in the drive's arena. */
static bool tool_names(tp__drive *d, tp_text *ret_value) {
  tp_writer w, *writer = &w;
  begin_fill(d, writer);
  const tp__toolset *tools = d->turn->toolset;
  size_t count = 0;
  for (size_t i = 0; tools && i < tools->count; i++) count += !tools->entries[i].out_of_scope;
  tp_write_array(writer, count);
  for (size_t i = 0; tools && i < tools->count; i++)
    if (!tools->entries[i].out_of_scope) tp_write_string(writer, tools->entries[i].tool->name);
  return finish_fill(d, writer, true, ret_value);
}

bool tp__fill_tool_names(tp__drive *d) {
  tp_text names;
  if (!tool_names(d, &names)) return tp__drive_no_memory(d);
  tp__drive_value(d, TP_FIELD_TOOL_NAMES, names);
  return true;
}

bool tp__fill_tools(tp__drive *d) {
  if (!tp__fill_tool_names(d)) return false;
  tp__drive_int(d, TP_FIELD_CAN_CALL_TOOLS, !tp__drive_model(d)->no_tools);
  return true;
}

/* ---- the request ---- */

static void write_past(const tp__messages *messages, tp_writer *writer) {
  for (size_t i = 0; i < messages->count; i++) {
    tp_write_map(writer, 2);
    tp_write_string(writer, "role");
    tp_write_string(writer, tp__role_name(messages->items[i]->role));
    tp_write_string(writer, "text");
    tp_write_text(writer, messages->items[i]->text);
  }
}

/* Writes the coming request, for handlers to read. Only its system text can be replaced. */
static bool write_request_field(tp__drive *d, tp_text *ret_value) {
  const tp__messages *past = &tp__drive_past(d)->list;
  tp_text names;
  tp_writer w, *writer = &w;
  if (!tool_names(d, &names)) return false;
  begin_fill(d, writer);
  bool parameters = d->request.parameters.size > 0, files = d->request.files.size > 0;
  tp_write_map(writer, (size_t)3 + parameters + files);
  tp_write_string(writer, "messages");
  tp_write_array(writer, past->count + d->messages.count);
  write_past(past, writer);
  write_past(&d->messages, writer);
  tp_write_string(writer, "tools");
  tp_write_value(writer, names);
  tp_write_string(writer, "model");
  tp_write_text(writer, tp__drive_shown_model(d));
  if (parameters) {
    tp_write_string(writer, "parameters");
    tp_write_value(writer, d->request.parameters);
  }
  if (files) {
    tp_write_string(writer, "files");
    tp_write_value(writer, d->request.files);
  }
  return finish_fill(d, writer, true, ret_value);
}

bool tp__fill_compiled(tp__drive *d) {
  tp_text request;
  if (!write_request_field(d, &request)) return tp__drive_no_memory(d);
  tp__drive_text(d, TP_FIELD_SYSTEM, d->system);
  tp__drive_value(d, TP_FIELD_REQUEST, request);
  return true;
}

static size_t message_bytes(const tp__drive *d) {
  size_t bytes = d->system.size + tp__past_bytes(tp__drive_past(d));
  for (size_t i = 0; i < d->messages.count; i++) bytes += d->messages.items[i]->text.size;
  return bytes;
}

bool tp__before_model(tp__drive *d) {
  if (!tp__limits_request(d)) return false;
  tp__drive_choose_model(d);
  d->model_attempt++;
  return true;
}

bool tp__fill_model_pre(tp__drive *d) {
  tp__drive_int(d, TP_FIELD_ATTEMPT, d->model_attempt);
  tp__drive_int(d, TP_FIELD_MESSAGE_COUNT, (int64_t)(tp__drive_past(d)->list.count + d->messages.count));
  tp__drive_int(d, TP_FIELD_REQUEST_BYTES, (int64_t)message_bytes(d));
  return put_model(d);
}

/* ---- the response and its calls ---- */

/* Writes a call of the response; after the dispatch, with its result. @param text of the result.
 * @param bytes_max  the most bytes of its value; a longer one is left out. */
static void write_call(tp_writer *writer, const tp_tool_call *call, const tp_tool_result *result, tp_text text,
                       size_t bytes_max) {
  bool waited = result && result->waited_ns > 0;
  bool has_value = result && result->value.size > 0 && result->value.size <= bytes_max;
  bool has_parts = result && result->parts.size > 0;
  tp_write_map(writer, 3 + (result ? 2 : 0) + (waited ? 2 : 0) + has_value + has_parts);
  tp_write_string(writer, "id");
  tp_write_text(writer, call->id);
  tp_write_string(writer, "tool");
  tp_write_text(writer, call->name);
  tp_write_string(writer, call->malformed ? "malformed" : "arguments");
  if (call->malformed) tp_write_bool(writer, true);
  else tp_write_value(writer, call->arguments);
  if (!result) return;
  tp_write_string(writer, "kind");
  tp_write_string(writer, tp_tool_result_name(result->kind));
  tp_write_string(writer, "result");
  tp_write_text(writer, text);
  if (has_value) tp_write_string(writer, "value");
  if (has_value) tp_write_value(writer, result->value);
  if (has_parts) tp_write_string(writer, "parts");
  if (has_parts) tp__parts_write_summaries(writer, result->parts);
  if (!waited) return;
  tp_write_string(writer, "waited_ms");
  tp_write_int(writer, result->waited_ns / TP__NS_PER_MS);
  tp_write_string(writer, "waited_key");
  tp_write_text(writer, result->waited_key);
}

/* A tool's result may be longer than a value may be. */
static bool write_tool_result(tp__drive *d, tp_writer *writer, size_t index) {
  tp_text text = d->results[index].text;
  size_t bytes_max = RESULTS_BYTES_MAX / d->call_count;
  if (text.size > bytes_max && !tp__tool_text(&d->arena, text, bytes_max, &text)) return false;
  write_call(writer, d->calls[index], &d->results[index], text, bytes_max);
  return true;
}

static bool write_calls(tp__drive *d, tp_text *ret_value) {
  tp_writer w, *writer = &w;
  begin_fill(d, writer);
  tp_write_array(writer, d->call_count);
  bool ok = true;
  for (size_t i = 0; ok && i < d->call_count; i++) {
    if (d->results) ok = write_tool_result(d, writer, i);
    else write_call(writer, d->calls[i], NULL, (tp_text){NULL, 0}, 0);
  }
  return finish_fill(d, writer, ok, ret_value);
}

/* Before the dispatch: without results. */
bool tp__fill_calls(tp__drive *d) {
  tp_text calls;
  if (!write_calls(d, &calls)) return tp__drive_no_memory(d);
  tp__drive_value(d, TP_FIELD_CALLS, calls);
  return true;
}

bool tp__fill_response(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_RESPONSE_TEXT, d->response_text);
  tp__drive_text(d, TP_FIELD_STOP_REASON, d->stop_reason);
  tp_text thinking = tp__held_thinking(d);
  if (thinking.size > 0) tp__drive_text(d, TP_FIELD_THINKING, thinking);
  if (d->request.parameters.size > 0) tp__drive_value(d, TP_FIELD_PARAMETERS, d->request.parameters);
  tp__drive_int(d, TP_FIELD_INPUT_TOKENS, d->last_input_tokens);
  tp__drive_int(d, TP_FIELD_OUTPUT_TOKENS, d->last_output_tokens);
  return put_model(d) && tp__fill_calls(d);
}

bool tp__fill_model_post(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_STOP_REASON, d->stop_reason);
  tp__drive_int(d, TP_FIELD_INPUT_TOKENS, d->last_input_tokens);
  tp__drive_int(d, TP_FIELD_OUTPUT_TOKENS, d->last_output_tokens);
  tp__drive_int(d, TP_FIELD_COST_MICROS, d->last_cost_micros);
  tp__drive_int(d, TP_FIELD_CALL_COUNT, (int64_t)d->call_count);
  return true;
}

bool tp__fill_turn_stop(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_RESPONSE_TEXT, d->response_text);
  tp__drive_text(d, TP_FIELD_STOP_REASON, d->stop_reason);
  tp__drive_int(d, TP_FIELD_STOP_DENIALS, d->stop_denials);
  return true;
}

/* ---- the end ---- */

bool tp__fill_error(tp__drive *d) {
  tp__drive_int(d, TP_FIELD_CODE, d->code);
  tp__drive_text(d, TP_FIELD_MESSAGE, d->reason);
  return true;
}

/* Writes how each call of the turn ended, in call order. */
static bool tool_events(tp__drive *d, tp_text *ret_value) {
  tp_writer w, *writer = &w;
  begin_fill(d, writer);
  tp_write_array(writer, d->tool_event_count);
  for (size_t i = 0; i < d->messages.count && d->tool_event_count > 0; i++) {
    const tp_message *message = d->messages.items[i];
    if (message->role != TP_ROLE_TOOL) continue;
    tp_write_map(writer, 2);
    tp_write_string(writer, "tool");
    tp_write_text(writer, message->name);
    tp_write_string(writer, "is_error");
    tp_write_bool(writer, message->is_error);
  }
  return finish_fill(d, writer, true, ret_value);
}

/* If the process dies after this point, turn.post_turn of the turn may run again. Its jobs then get the same keys. */
static void name_jobs(tp__drive *d) {
  tp__turn *turn = &d->turn->core;
  if (!d->has_own_id) return;
  turn->jobs_process = d->is_owed ? d->owed_process : tp__runtime_run_id(turn->runtime);
  turn->jobs_turn = d->is_owed ? d->owed_number : turn->number;
}

bool tp__fill_post_turn(tp__drive *d) {
  tp_text events;
  name_jobs(d);
  tp__drive_text(d, TP_FIELD_OUTCOME, tp_text_of(tp_turn_outcome_name(d->outcome)));
  show_text(d, TP_FIELD_USER_PREVIEW, TP_FIELD_USER_TEXT, d->user_text);
  show_text(d, TP_FIELD_ASSISTANT_PREVIEW, TP_FIELD_ASSISTANT_TEXT, d->response_text);
  if (tool_events(d, &events)) tp__drive_value(d, TP_FIELD_TOOL_EVENTS, events);
  tp__drive_int(d, TP_FIELD_SAID_AT, d->request.said_unix_ms);
  tp__drive_int(d, TP_FIELD_ITERATIONS, d->iterations);
  tp__drive_int(d, TP_FIELD_CALL_COUNT, d->tool_calls);
  tp__drive_int(d, TP_FIELD_INPUT_TOKENS, d->input_tokens);
  tp__drive_int(d, TP_FIELD_OUTPUT_TOKENS, d->output_tokens);
  tp__drive_int(d, TP_FIELD_COST_MICROS, d->cost_micros);
  return true;
}
