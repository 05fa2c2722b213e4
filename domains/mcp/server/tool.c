/* SPDX-License-Identifier: Apache-2.0
 *
 * tool: runs a call of a tool as a task of the runtime: submits it, asks the client when a gate asks, and writes the
 * result. */
#include <stdio.h>
#include <string.h>

#include "domains/mcp/server/call.h"
#include "support/text.h"

enum { SHOWN_BYTES = 2000, TURN_ID_BYTES = 48 };

/* ---- the end ---- */

/* A client would refuse a result that lacks the value of the tool's outputSchema. It gets an error instead, which says
 * that the tool has run (docs/decisions/output-schemas.md). */
static void end_task(tp_mcp_call *call, bool is_error, tp_text text, tp_text value, tp_text parts) {
  static const char lacks[] =
      "The tool was run, but its structured result, which its outputSchema promises, was left out or never given. ";
  tp_writer *writer = NULL;
  tp_text result = {0};
  tp__bytes words = {0};
  tp_mcp_server *server = call->server;
  tp__lock_acquire(&server->lock);
  tp_mcp_version version = call->exchange ? call->exchange->version : TP__MCP_VERSION_NEWEST;
  tp__lock_release(&server->lock);
  if (call->has_output && tp__mcp_content_lacks_value(version, is_error, value)) {
    is_error = true;
    tp__bytes_put_string(&words, lacks);
    tp__bytes_put_text(&words, text);
    text = words.failed ? tp_text_of(lacks) : tp__bytes_text(&words);
  }
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    tp_write_map(writer, tp__mcp_content_write(NULL, version, is_error, text, value, parts));
    tp__mcp_content_write(writer, version, is_error, text, value, parts);
  }
  if (!writer || tp_writer_finish(writer, &result) != TP_OK)
    tp_mcp_call_fail(call, TP__MCP_INTERNAL_ERROR, "no memory for the result", (tp_text){0});
  tp__mcp_call_finish(call, result);
  tp_writer_free(writer);
  tp__bytes_fini(&words);
}

/* Releases the session before the call ends, since the servers may be freed after that. */
static void release_session(tp_mcp_call *call) {
  void *hold = call->session_hold;
  call->session_hold = NULL;
  if (hold) tp__mcp_web_release(call->server, hold);
}

/* Reports the end of the task. An unknown tool and a call that could not begin are errors of the protocol; every other
 * error is a result that the model reads. */
static void task_ended(void *ctx, const tp_task_result *result) {
  tp_mcp_call *call = ctx;
  if (result->status != TP_OK)
    tp_mcp_call_fail(call, TP__MCP_INTERNAL_ERROR, result->fault ? result->fault->message : "the call could not begin",
                     (tp_text){0});
  else if (result->kind == TP_TOOL_UNKNOWN_TOOL)
    tp_mcp_call_fail(call, TP__MCP_INVALID_PARAMS, "there is no such tool", (tp_text){0});
  tp__lock_acquire(&call->server->lock);
  call->was_cancelled = result->kind == TP_TOOL_CANCELLED;
  tp__lock_release(&call->server->lock);
  release_session(call);
  end_task(call, result->kind != TP_TOOL_OK, result->text, result->value, result->parts);
}

static void set_submission(tp_mcp_call *call, tp_submission *submission) {
  tp__lock_acquire(&call->server->lock);
  call->submission = submission;
  bool cancelled = call->cancelled;
  tp__lock_release(&call->server->lock);
  if (cancelled) tp_submission_cancel(submission);
}

/* ---- a gate that asks ---- */

static void answer_question(tp_mcp_call *call, bool allow, const char *reason) {
  tp__lock_acquire(&call->server->lock);
  tp_token token = call->question;
  tp_decision decision = {.struct_size = sizeof decision,
                          .verdict = allow ? TP_VERDICT_ALLOW : TP_VERDICT_DENY,
                          .arguments_hash = tp_text_of(call->question_hash),
                          .reason = tp_text_of(reason),
                          .person = tp_text_of(call->principal)};
  tp__lock_release(&call->server->lock);
  (void)!tp_question_answer(token, &decision, NULL); /* TP_ERR_STALE: the channel answered first, or the question is
                                                        over */
}

bool tp__mcp_call_is_allowed(tp_text answer) {
  bool is_accepted = tp__is_word(tp_value_text(tp_value_get(answer, "action")), "accept");
  return is_accepted && tp_value_bool(tp_value_get(tp_value_get(answer, "content"), "allow"), false);
}

static void client_decided(void *ctx, tp_text answers) {
  tp_mcp_call *call = ctx;
  bool allow = tp__mcp_call_is_allowed(tp_value_at(answers, 0));
  answer_question(call, allow, allow ? "" : answers.size ? "the user did not allow it" : "the user did not answer");
}

static bool write_form(tp_writer *writer, const tp_question *question) {
  static const char schema[] =
      "{\"type\":\"object\",\"properties\":{\"allow\":{\"type\":\"boolean\",\"title\":\"Allow this call\","
      "\"default\":false}},\"required\":[\"allow\"]}";
  tp_writer *json = NULL;
  tp_text arguments = {0};
  tp__bytes message = {0};
  if (tp_writer_new(NULL, &json) != TP_OK) return false;
  if (question->call->arguments.size > 0 && tp_json_encode(question->call->arguments, json, &arguments, NULL) != TP_OK)
    arguments = (tp_text){0};
  tp__bytes_printf(&message, "Allow %.*s", (int)question->call->name.size, question->call->name.data);
  if (arguments.size > 0)
    tp__bytes_printf(&message, " with %.*s%s", tp__cut(arguments, SHOWN_BYTES), arguments.data,
                     arguments.size > SHOWN_BYTES ? " … (cut)" : "");
  if (question->reason.size > 0)
    tp__bytes_printf(&message, "?\n%.*s", tp__cut(question->reason, SHOWN_BYTES), question->reason.data);
  else tp__bytes_put_string(&message, "?");
  tp_write_map(writer, 2);
  tp_write_string(writer, "message");
  tp_write_text(writer, tp__bytes_text(&message));
  tp_write_string(writer, "requestedSchema");
  bool is_written = !message.failed && tp_json_decode(tp_text_of(schema), writer, NULL) == TP_OK;
  tp__bytes_fini(&message);
  tp_writer_free(json);
  return is_written;
}

/* Hashes the question as a person sees it and the call that would run: equal questions of other processes have the same
 * name. */
static void name_question(const tp_question *question, tp_text form, char ret_about[TP__MCP_ABOUT_BYTES]) {
  char hex[TP__MCP_HASH_BYTES];
  tp__sha256 hash;
  tp__sha256_init(&hash);
  tp__mcp_hash_add(&hash, question->call->name);
  tp__mcp_hash_add(&hash, question->arguments_hash);
  tp__mcp_hash_add(&hash, question->reason);
  tp__mcp_hash_add(&hash, form);
  tp__sha256_finish(&hash, hex);
  snprintf(ret_about, TP__MCP_ABOUT_BYTES, "%.32s", hex);
}

static bool ask_client(tp_mcp_call *call, const tp_question *question) {
  tp_writer *writer = NULL;
  char about[TP__MCP_ABOUT_BYTES];
  tp_mcp_input one = {.struct_size = sizeof one, .key = TP__MCP_APPROVAL_KEY, .method = "elicitation/create"};
  bool asked = tp_writer_new(NULL, &writer) == TP_OK && write_form(writer, question) &&
               tp_writer_finish(writer, &one.params) == TP_OK;
  const tp_mcp_input *ones[] = {&one};
  if (asked) name_question(question, one.params, about);
  if (asked) asked = tp__mcp_call_ask(call, ones, 1, false, about, client_decided, call, NULL) == TP_OK;
  tp_writer_free(writer);
  return asked;
}

/* Called on the thread that owns the turn. */
static void task_asks(void *ctx, const tp_task_result *result) {
  tp_mcp_call *call = ctx;
  const tp_question *question = result->question;
  tp_mcp_server *server = call->server;
  tp__lock_acquire(&server->lock);
  call->question = question->token;
  snprintf(call->question_key, sizeof call->question_key, "%.*s", (int)question->key.size, question->key.data);
  snprintf(call->question_hash, sizeof call->question_hash, "%.*s", (int)question->arguments_hash.size,
           question->arguments_hash.data);
  bool has_client = call->exchange || call->task_id[0];
  bool can = has_client && (call->can & TP__MCP_CAN_FORM) && !server->options.channel_only;
  tp__lock_release(&server->lock);
  if (can && ask_client(call, question)) return;
  if (!server->options.has_channel) {
    answer_question(call, false,
                    server->options.channel_only
                        ? "a person must allow it, and none can be asked: the server has no channel for questions"
                        : "a person must allow it, and none can be asked: the client shows no forms, and the server "
                          "has no other channel");
    return;
  }
  tp__lock_acquire(&server->lock);
  tp__mcp_call_wait_locked(call, call->can & TP__MCP_CAN_TASKS ? 0 : server->options.ask_wait_ms); /* a client that
                                                                                                      takes tasks gets
                                                                                                      one at once */
  tp__lock_release(&server->lock);
}

/* ---- the beginning ---- */

/* Makes the id of the turn of a call about which a person may be asked. The same call of the same client gets the same
 * id, also in a later process, so that the channel finds the answer to what was asked before. */
static const char *name_turn(const tp_mcp_call *call, char id[TURN_ID_BYTES]) {
  char hex[TP__MCP_HASH_BYTES];
  tp__sha256 hash;
  tp__sha256_init(&hash);
  tp__mcp_hash_add_principal(&hash, call);
  tp__mcp_hash_add(&hash, tp_text_of(call->hash));
  tp__sha256_finish(&hash, hex);
  snprintf(id, TURN_ID_BYTES, "mcp-%.32s", hex);
  return id;
}

static tp_status submit_task(tp_mcp_call *call, const tp_task_spec *spec, tp_submission **ret_submission,
                             tp_fault *fault) {
  tp_task_spec ours = *spec;
  tp_mcp_server *server = call->server;
  tp_status status = TP_OK;
  if (server->options.mounted)
    status = tp__mcp_web_session(server, call->principal, &ours.session, &call->session_hold, fault);
  if (status != TP_OK) return status;
  status = tp_task_submit(server->runtime, TP_TASK_CALL, &ours, task_ended, call, ret_submission, fault);
  if (status != TP_OK) release_session(call);
  return status;
}

static void submit(tp_mcp_call *call, const char *tool, tp_text arguments) {
  char id[TURN_ID_BYTES];
  tp_turn_request request = {.struct_size = sizeof request, .data = call, .triggered_by = "mcp"};
  if (call->server->options.has_channel) request.id = name_turn(call, id);
  tp_task_spec spec = {.struct_size = sizeof spec,
                       .tool = tool,
                       .arguments = arguments,
                       .request = &request,
                       .on_asked = task_asks,
                       .on_asked_ctx = call};
  tp_submission *submission = NULL;
  tp_fault fault = {0};
  tp__mcp_call_ref(call); /* a reference of this function */
  tp__lock_acquire(&call->server->lock);
  tp__mcp_call_wait_for_task_locked(call);
  tp__lock_release(&call->server->lock);
  tp_status status = submit_task(call, &spec, &submission, &fault);
  if (status == TP_OK) {
    set_submission(call, submission);
  } else {
    tp_mcp_call_fail(call, status == TP_ERR_USAGE ? TP__MCP_INVALID_PARAMS : TP__MCP_INTERNAL_ERROR, fault.message,
                     (tp_text){0});
    tp__mcp_call_finish(call, (tp_text){0});
  }
  tp__mcp_call_unref(call);
}

void tp__mcp_call_tool(tp__mcp_exchange *exchange) {
  tp_text name = tp_value_text(tp_value_get(exchange->params, "name"));
  tp_text arguments = tp_value_get(exchange->params, "arguments");
  tp__bytes tool = {0};
  if (tp_value_kind_of(arguments) == TP_VALUE_NULL) arguments.size = 0;
  tp_mcp_call *call = tp__mcp_call_begin(exchange, name, arguments, true);
  if (!call) return;
  tp__mcp_call_ref(call); /* a reference for the task */
  bool is_found = tp__mcp_tool_find(call->server, name, &tool, NULL, &call->has_output);
  if (is_found && tool.size > 0) {
    submit(call, tp__bytes_string(&tool), arguments);
  } else {
    if (is_found) tp_mcp_call_fail(call, TP__MCP_INVALID_PARAMS, "there is no such tool", (tp_text){0});
    else tp_mcp_call_fail(call, TP__MCP_INTERNAL_ERROR, "no memory for the call", (tp_text){0});
    tp__mcp_call_finish(call, (tp_text){0});
  }
  tp__bytes_fini(&tool);
}
