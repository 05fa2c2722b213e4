/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an answer: the first byte chooses the API, the second where the rest is split. In pieces of any size
 * they give the same response, or the same failure; the text is the sum of the deltas. */
#include "providers/openai/stream.h"
#include "tests/fuzz/must.h"

enum { BYTES_MAX = 4096 };

static gathered deltas;

static tp_status on_text(void *ctx, tp_text piece, bool thinking) {
  (void)ctx;
  MUST(piece.size > 0 && tp_utf8_valid(piece, NULL));
  if (thinking) return TP_OK;
  gather(&deltas, piece.data, piece.size);
  return TP_OK;
}

static void tell(gathered *to, tp_text text) {
  gather(to, text.data ? text.data : "", text.size);
  gather(to, "|", 1);
}

static void tell_response(const tp_model_response *response, gathered *to) {
  char counts[64];
  int size = snprintf(counts, sizeof counts, "%lld %lld", (long long)response->input_tokens,
                      (long long)response->output_tokens);
  MUST(response->input_tokens >= 0 && response->output_tokens >= 0);
  tell(to, response->text);
  tell(to, response->stop_reason);
  tell(to, (tp_text){counts, (size_t)size});
  for (size_t i = 0; i < response->call_count; i++) {
    const tp_tool_call *call = response->calls[i];
    MUST(call->name.size > 0 && tp_utf8_valid(call->id, NULL) && tp_utf8_valid(call->name, NULL));
    MUST(call->malformed || tp_value_kind_of(call->arguments) == TP_VALUE_MAP);
    MUST(call->malformed || tp_value_check(call->arguments, NULL) == TP_OK);
    tell(to, call->id);
    tell(to, call->name);
    tell(to, call->arguments);
  }
}

/* @param split  where the input is split; above its size each byte comes by itself. */
static gathered come_to(uint8_t kind, tp_text bytes, size_t split) {
  tp__openai_stream stream = {
      .form = tp__openai_form_of((tp_openai_api)(kind % 3)), .bytes_max = BYTES_MAX, .on_text = on_text};
  gathered said = {0};
  tp_model_response response;
  bool goes_on = true;
  deltas.size = 0;
  MUST(tp__openai_stream_init(&stream) == TP_OK);
  for (size_t at = 0; goes_on && at < bytes.size;) {
    size_t piece = split > bytes.size ? 1 : at < split ? split : bytes.size - at;
    goes_on = tp__openai_stream_feed(&stream, bytes.data + at, piece);
    at += piece;
  }
  bool done = tp__openai_stream_end(&stream);
  const tp__openai_failure *failure = &stream.answer.failure;
  MUST(done == (failure->code == TP_OK));
  MUST(failure->code != TP_ERR_NO_MEMORY);
  if (done && tp__openai_answer_response(&stream.answer, &response) == TP_OK) {
    MUST(response.text.size <= BYTES_MAX);
    MUST(deltas.size == 0 ? stream.answer.is_whole || response.text.size == 0
                          : same_bytes(response.text, (tp_text){deltas.text, deltas.size}));
    tell_response(&response, &said);
  } else {
    MUST(failure->message[0] && tp_utf8_valid(tp_text_of(failure->message), NULL));
    tell(&said, tp_text_of(failure->message));
  }
  tp__openai_stream_fini(&stream);
  return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  tp_text bytes = {(const char *)data + 2, size - 2};
  size_t splits[] = {0, bytes.size * data[1] / 256, bytes.size + 1};
  gathered first = come_to(data[0], bytes, splits[0]);
  for (size_t i = 1; i < 3; i++) {
    gathered other = come_to(data[0], bytes, splits[i]);
    MUST(same_bytes((tp_text){first.text, first.size}, (tp_text){other.text, other.size}));
    free(other.text);
  }
  free(first.text);
  free(deltas.text);
  deltas = (gathered){0};
  return 0;
}
