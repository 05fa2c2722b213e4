/* SPDX-License-Identifier: Apache-2.0
 *
 * responses: writes the answers of /v1/responses. The clients' libraries build an answer from events, and throw an
 * error when one is missing: created, in_progress, then for each item output_item.added, its part with begin, pieces
 * and end, and output_item.done, at last completed with all output and the usage. */
#include <stdio.h>
#include <string.h>

#include "server/server.h"

/* The kinds of tp__exchange.item_kind. */
enum { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE };

/* ---- JSON ---- */

static void put_calls_of(tp__bytes *out, const tp__client_call *call, const char *id, const char *status,
                         bool has_arguments) {
  tp__bytes_printf(out, "{%s,\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":\"%s\",\"name\":", id, status,
                   call->id);
  tp__put_json(out, tp__bytes_text(&call->name));
  tp__bytes_put_string(out, ",\"arguments\":");
  tp__put_json(out, has_arguments ? tp__bytes_text(&call->arguments) : (tp_text){0});
  tp__bytes_put_string(out, "}");
}

static void put_text_part(tp__bytes *out, tp_text text) {
  tp__bytes_put_string(out, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":");
  tp__put_json(out, text);
  tp__bytes_put_string(out, "}");
}

static void put_summary_part(tp__bytes *out, tp_text text) {
  tp__bytes_put_string(out, "{\"type\":\"summary_text\",\"text\":");
  tp__put_json(out, text);
  tp__bytes_put_string(out, "}");
}

/* @param is_done  the complete item with its text; else the item as it begins. */
static void put_item(const tp__exchange *e, tp__bytes *out, int kind, tp_text text, bool is_done) {
  tp__bytes_put_string(out, "{");
  const char *prefix = kind == ITEM_MESSAGE ? "msg" : "rs";
  tp__bytes_printf(out, "\"id\":\"%s_%s_%u\"", prefix, e->id + strlen("resp_"), e->item);
  if (kind == ITEM_MESSAGE)
    tp__bytes_printf(out, ",\"type\":\"message\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[",
                     is_done ? "completed" : "in_progress");
  else tp__bytes_put_string(out, ",\"type\":\"reasoning\",\"summary\":[");
  if (is_done && kind == ITEM_MESSAGE) put_text_part(out, text);
  else if (is_done) put_summary_part(out, text);
  tp__bytes_put_string(out, "]}");
}

static const char *status_of(const tp__answer *answer) {
  if (!answer) return "in_progress";
  bool is_cut = answer->finish == TP_FINISH_LENGTH || answer->finish == TP_FINISH_FILTER;
  return is_cut ? "incomplete" : "completed";
}

static void put_usage(tp__bytes *out, const tp__answer *answer) {
  tp__bytes_printf(out,
                   "{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":%lld,"
                   "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":%lld}",
                   (long long)answer->input_tokens, (long long)answer->output_tokens,
                   (long long)(answer->input_tokens + answer->output_tokens));
}

/* @param answer  NULL: the answer is not complete.   @param refusal  NULL: it has not failed. */
static void put_response(const tp__exchange *e, tp__bytes *out, const tp__answer *answer, const tp__refusal *refusal) {
  tp__bytes_printf(out,
                   "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"error\":", e->id,
                   (long long)e->created, refusal ? "failed" : status_of(answer));
  if (refusal) {
    tp__bytes_printf(out, "{\"code\":\"%s\",\"message\":", refusal->code);
    tp__put_json(out, tp_text_of(refusal->message));
    tp__bytes_put_string(out, "}");
  } else {
    tp__bytes_put_string(out, "null");
  }
  const char *why = !answer                              ? NULL
                    : answer->finish == TP_FINISH_LENGTH ? "max_output_tokens"
                    : answer->finish == TP_FINISH_FILTER ? "content_filter"
                                                         : NULL;
  tp__bytes_put_string(out, ",\"incomplete_details\":");
  if (why) tp__bytes_printf(out, "{\"reason\":\"%s\"}", why);
  else tp__bytes_put_string(out, "null");
  tp__bytes_put_string(out, ",\"instructions\":null,\"metadata\":{},\"model\":");
  tp__put_json(out, tp__bytes_text(&e->model));
  tp__bytes_put_string(out, ",\"output\":[");
  tp__bytes_put_text(out, tp__bytes_text(&e->output));
  tp__bytes_printf(out,
                   "],\"parallel_tool_calls\":true,\"store\":%s,\"tool_choice\":\"auto\",\"tools\":[],"
                   "\"previous_response_id\":",
                   e->stores ? "true" : "false");
  if (e->previous.size > 0) tp__put_json(out, tp__bytes_text(&e->previous));
  else tp__bytes_put_string(out, "null");
  tp__bytes_put_string(out, ",\"usage\":");
  if (answer) put_usage(out, answer);
  else tp__bytes_put_string(out, "null");
  tp__bytes_put_string(out, "}");
}

/* ---- events ---- */

/* Writes the beginning of an event; the caller adds members, and `}` and two line ends. */
static void begin_event(tp__exchange *e, tp__bytes *out, const char *type) {
  tp__bytes_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%llu", type, type,
                   (unsigned long long)e->sequence++);
}

static void end_event(tp__bytes *out) { tp__bytes_put_string(out, "}\n\n"); }

static void put_response_event(tp__exchange *e, tp__bytes *out, const char *type, const tp__answer *answer,
                               const tp__refusal *refusal) {
  begin_event(e, out, type);
  tp__bytes_put_string(out, ",\"response\":");
  put_response(e, out, answer, refusal);
  end_event(out);
}

static void put_begin(tp__exchange *e, tp__bytes *out) {
  if (e->has_piece) return;
  e->has_piece = true;
  put_response_event(e, out, "response.created", NULL, NULL);
  put_response_event(e, out, "response.in_progress", NULL, NULL);
}

static void put_item_event(tp__exchange *e, tp__bytes *out, bool is_done) {
  begin_event(e, out, is_done ? "response.output_item.done" : "response.output_item.added");
  tp__bytes_printf(out, ",\"output_index\":%u,\"item\":", e->item);
  put_item(e, out, e->item_kind, tp__bytes_text(&e->item_text), is_done);
  end_event(out);
}

/* Writes the beginning of an event about the only part of the item. @param key  "delta", "text" or "part". */
static void begin_part_event(tp__exchange *e, tp__bytes *out, const char *of_message, const char *of_reasoning) {
  bool is_message = e->item_kind == ITEM_MESSAGE;
  begin_event(e, out, is_message ? of_message : of_reasoning);
  tp__bytes_printf(out, ",\"item_id\":\"%s_%s_%u\",\"output_index\":%u,\"%s\":0", is_message ? "msg" : "rs",
                   e->id + strlen("resp_"), e->item, e->item, is_message ? "content_index" : "summary_index");
}

static void put_part_event(tp__exchange *e, tp__bytes *out, bool is_done) {
  tp_text text = is_done ? tp__bytes_text(&e->item_text) : (tp_text){0};
  begin_part_event(e, out, is_done ? "response.content_part.done" : "response.content_part.added",
                   is_done ? "response.reasoning_summary_part.done" : "response.reasoning_summary_part.added");
  tp__bytes_put_string(out, ",\"part\":");
  if (e->item_kind == ITEM_MESSAGE) put_text_part(out, text);
  else put_summary_part(out, text);
  end_event(out);
}

static void keep_item(tp__exchange *e) {
  if (e->output.size > 0) tp__bytes_put(&e->output, ",", 1);
  put_item(e, &e->output, e->item_kind, tp__bytes_text(&e->item_text), true);
}

static void put_item_end(tp__exchange *e, tp__bytes *out) {
  if (e->item_kind == ITEM_NONE) return;
  begin_part_event(e, out, "response.output_text.done", "response.reasoning_summary_text.done");
  if (e->item_kind == ITEM_MESSAGE) tp__bytes_put_string(out, ",\"logprobs\":[]");
  tp__bytes_put_string(out, ",\"text\":");
  tp__put_json(out, tp__bytes_text(&e->item_text));
  end_event(out);
  put_part_event(e, out, true);
  put_item_event(e, out, true);
  keep_item(e);
  e->item++;
  e->item_kind = ITEM_NONE;
  tp__bytes_clear(&e->item_text);
}

static void put_item_begin(tp__exchange *e, tp__bytes *out, int kind) {
  if (e->item_kind == kind) return;
  put_item_end(e, out);
  e->item_kind = kind;
  put_item_event(e, out, false);
  put_part_event(e, out, false);
}

static void put_piece(tp__exchange *e, tp__bytes *out, tp_text piece, bool is_thinking) {
  put_begin(e, out);
  put_item_begin(e, out, is_thinking ? ITEM_REASONING : ITEM_MESSAGE);
  tp__bytes_put_text(&e->item_text, piece);
  begin_part_event(e, out, "response.output_text.delta", "response.reasoning_summary_text.delta");
  if (!is_thinking) tp__bytes_put_string(out, ",\"logprobs\":[]");
  tp__bytes_put_string(out, ",\"delta\":");
  tp__put_json(out, piece);
  end_event(out);
}

/* Adds a call to the output and, in a stream, its events. */
static void put_call(tp__exchange *e, tp__bytes *out, const tp__client_call *call, bool streams) {
  char id[112];
  snprintf(id, sizeof id, "\"id\":\"fc_%s_%u\"", e->id + strlen("resp_"), e->item);
  if (e->output.size > 0) tp__bytes_put(&e->output, ",", 1);
  put_calls_of(&e->output, call, id, "completed", true);
  if (streams) {
    begin_event(e, out, "response.output_item.added");
    tp__bytes_printf(out, ",\"output_index\":%u,\"item\":", e->item);
    put_calls_of(out, call, id, "in_progress", false);
    end_event(out);
    begin_event(e, out, "response.function_call_arguments.delta");
    tp__bytes_printf(out, ",\"item_%s,\"output_index\":%u,\"delta\":", id + 1, e->item);
    tp__put_json(out, tp__bytes_text(&call->arguments));
    end_event(out);
    begin_event(e, out, "response.function_call_arguments.done");
    tp__bytes_printf(out, ",\"item_%s,\"output_index\":%u,\"name\":", id + 1, e->item);
    tp__put_json(out, tp__bytes_text(&call->name));
    tp__bytes_put_string(out, ",\"arguments\":");
    tp__put_json(out, tp__bytes_text(&call->arguments));
    end_event(out);
    begin_event(e, out, "response.output_item.done");
    tp__bytes_printf(out, ",\"output_index\":%u,\"item\":", e->item);
    put_calls_of(out, call, id, "completed", true);
    end_event(out);
  }
  e->item++;
}

static void put_end(tp__exchange *e, tp__bytes *out, const tp__answer *answer) {
  put_begin(e, out);
  if (e->item == 0 && e->item_kind == ITEM_NONE && answer->call_count == 0) put_item_begin(e, out, ITEM_MESSAGE);
  put_item_end(e, out);
  for (size_t i = 0; i < answer->call_count; i++) put_call(e, out, &answer->calls[i], true);
  bool is_cut = strcmp(status_of(answer), "incomplete") == 0;
  put_response_event(e, out, is_cut ? "response.incomplete" : "response.completed", answer, NULL);
  tp__bytes_put_string(out, "data: [DONE]\n\n");
  out->failed |= e->output.failed || e->item_text.failed;
}

/* Writes a failure. Clients do not treat response.failed as an error, and would read an empty answer; `error` makes
 * them throw. */
static void put_failure(tp__exchange *e, tp__bytes *out, const tp__refusal *refusal) {
  put_begin(e, out);
  put_response_event(e, out, "response.failed", NULL, refusal);
  begin_event(e, out, "error");
  tp__bytes_printf(out, ",\"code\":\"%s\",\"param\":null,\"message\":", refusal->code);
  tp__put_json(out, tp_text_of(refusal->message));
  tp__bytes error = {0};
  tp__refusal_put(refusal, &error);
  tp__bytes_put(out, ",", 1);
  if (error.size > 2) tp__bytes_put(out, error.data + 1, error.size - 2); /* "error": {…} */
  tp__bytes_fini(&error);
  end_event(out);
}

/* ---- whole answers ---- */

static void add_item(tp__exchange *e, int kind, tp_text text) {
  e->item_kind = kind;
  tp__bytes_put_text(&e->item_text, text);
  keep_item(e);
  tp__bytes_clear(&e->item_text);
  e->item++;
}

static void put_whole(tp__exchange *e, tp__bytes *out, const tp__answer *answer) {
  if (answer->thinking.size > 0) add_item(e, ITEM_REASONING, answer->thinking);
  if (answer->text.size > 0 || answer->call_count == 0) add_item(e, ITEM_MESSAGE, answer->text);
  for (size_t i = 0; i < answer->call_count; i++) put_call(e, out, &answer->calls[i], false);
  put_response(e, out, answer, NULL);
  tp__bytes_put_string(out, "\n");
  out->failed |= e->output.failed || e->item_text.failed;
}

const tp__form tp__responses_form = {
    .numbers_exchanges = true, .piece = put_piece, .end = put_end, .fail = put_failure, .whole = put_whole};
