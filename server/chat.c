/* SPDX-License-Identifier: Apache-2.0
 *
 * chat: writes the answers of /v1/chat/completions. The first chunk has the role. The last chunk with a choice has the
 * finish_reason, without which clients throw an error. With stream_options.include_usage a further chunk has the
 * usage. */
#include "server/server.h"

static const char *finish_reason_of(tp_finish finish) {
  switch (finish) {
    case TP_FINISH_LENGTH:
      return "length";
    case TP_FINISH_FILTER:
    case TP_FINISH_REFUSAL:
      return "content_filter";
    case TP_FINISH_TOOL_CALLS:
      return "tool_calls";
    default:
      return "stop";
  }
}

static void put_head(const tp__exchange *exchange, tp__bytes *out, const char *object) {
  tp__bytes_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", exchange->id, object,
                   (long long)exchange->created);
  tp__put_json(out, tp__bytes_text(&exchange->model));
}

static void put_usage(tp__bytes *out, const tp__answer *answer) {
  tp__bytes_printf(out,
                   ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
                   "\"prompt_tokens_details\":{\"cached_tokens\":0},"
                   "\"completion_tokens_details\":{\"reasoning_tokens\":0}}",
                   (long long)answer->input_tokens, (long long)answer->output_tokens,
                   (long long)(answer->input_tokens + answer->output_tokens));
}

/* ---- streams ---- */

static void begin_delta(tp__exchange *exchange, tp__bytes *out) {
  tp__bytes_put_string(out, "data: ");
  put_head(exchange, out, "chat.completion.chunk");
  tp__bytes_put_string(out, ",\"choices\":[{\"index\":0,\"delta\":{");
}

static void end_delta(tp__bytes *out, const char *finish_reason) {
  tp__bytes_printf(out, "},\"logprobs\":null,\"finish_reason\":%s%s%s}]}\n\n", finish_reason ? "\"" : "",
                   finish_reason ? finish_reason : "null", finish_reason ? "\"" : "");
}

static void put_role(tp__exchange *exchange, tp__bytes *out) {
  if (exchange->has_piece) return;
  exchange->has_piece = true;
  begin_delta(exchange, out);
  tp__bytes_put_string(out, "\"role\":\"assistant\",\"content\":\"\"");
  end_delta(out, NULL);
}

static void put_piece(tp__exchange *exchange, tp__bytes *out, tp_text piece, bool is_thinking) {
  put_role(exchange, out);
  begin_delta(exchange, out);
  tp__bytes_put_string(out, is_thinking ? "\"reasoning_content\":" : "\"content\":");
  tp__put_json(out, piece);
  end_delta(out, NULL);
}

/* @param indexes  whether each call begins with its index, as in a stream. */
static void put_calls(tp__bytes *out, const tp__answer *answer, bool indexes) {
  tp__bytes_put_string(out, "\"tool_calls\":[");
  for (size_t i = 0; i < answer->call_count; i++) {
    const tp__client_call *call = &answer->calls[i];
    tp__bytes_put_string(out, i > 0 ? ",{" : "{");
    if (indexes) tp__bytes_printf(out, "\"index\":%zu,", i);
    tp__bytes_printf(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", call->id);
    tp__put_json(out, tp__bytes_text(&call->name));
    tp__bytes_put_string(out, ",\"arguments\":");
    tp__put_json(out, tp__bytes_text(&call->arguments));
    tp__bytes_put_string(out, "}}");
  }
  tp__bytes_put_string(out, "]");
}

static void put_end(tp__exchange *exchange, tp__bytes *out, const tp__answer *answer) {
  put_role(exchange, out);
  if (answer->call_count > 0) {
    begin_delta(exchange, out);
    put_calls(out, answer, true);
    end_delta(out, NULL);
  }
  begin_delta(exchange, out);
  end_delta(out, finish_reason_of(answer->finish));
  if (exchange->wants_usage) {
    tp__bytes_put_string(out, "data: ");
    put_head(exchange, out, "chat.completion.chunk");
    tp__bytes_put_string(out, ",\"choices\":[]");
    put_usage(out, answer);
    tp__bytes_put_string(out, "}\n\n");
  }
  tp__bytes_put_string(out, "data: [DONE]\n\n");
}

/* Writes the error of a stream, which clients throw with its message; an end without [DONE] would also be thrown, but
 * without a message. */
static void put_failure(tp__exchange *exchange, tp__bytes *out, const tp__refusal *refusal) {
  (void)exchange;
  tp__bytes_put_string(out, "data: ");
  tp__refusal_put(refusal, out);
  tp__bytes_put_string(out, "\n\ndata: [DONE]\n\n");
}

/* ---- whole answers ---- */

static void put_whole(tp__exchange *exchange, tp__bytes *out, const tp__answer *answer) {
  put_head(exchange, out, "chat.completion");
  tp__bytes_put_string(out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
  if (answer->text.size > 0 || answer->call_count == 0) tp__put_json(out, answer->text);
  else tp__bytes_put_string(out, "null");
  if (answer->call_count > 0) tp__bytes_put(out, ",", 1);
  if (answer->call_count > 0) put_calls(out, answer, false);
  if (answer->thinking.size > 0) {
    tp__bytes_put_string(out, ",\"reasoning_content\":");
    tp__put_json(out, answer->thinking);
  }
  tp__bytes_printf(out, ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"%s\"}]",
                   finish_reason_of(answer->finish));
  put_usage(out, answer);
  tp__bytes_put_string(out, "}\n");
}

const tp__form tp__chat_form = {.piece = put_piece, .end = put_end, .fail = put_failure, .whole = put_whole};
