/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/answer.h"

#include <string.h>

#include "runtime/base/check.h"

void tp__openai_answer_init(tp__openai_answer *answer) {
  assert(answer->bytes_max > 0 && !answer->drafts);
  answer->usage = (tp__openai_usage){-1, -1, -1, -1};
}

static void free_response(tp__openai_answer *answer) {
  tp__heap_free(answer->calls, (answer->draft_count + 1) * sizeof *answer->calls);
  tp__heap_free((void *)answer->list, (answer->draft_count + 1) * sizeof *answer->list);
  tp_writer_free(answer->arguments);
  answer->calls = NULL;
  answer->list = NULL;
  answer->arguments = NULL;
}

void tp__openai_answer_fini(tp__openai_answer *answer) {
  free_response(answer);
  for (size_t i = 0; i < answer->draft_count; i++) {
    tp__bytes_fini(&answer->drafts[i].id);
    tp__bytes_fini(&answer->drafts[i].name);
    tp__bytes_fini(&answer->drafts[i].arguments);
  }
  tp__heap_free(answer->drafts, answer->draft_capacity * sizeof *answer->drafts);
  tp__bytes_fini(&answer->text);
  tp__bytes_fini(&answer->stop);
  *answer = (tp__openai_answer){.bytes_max = 0};
}

static void no_memory(tp__openai_answer *answer) {
  (void)tp__openai_fail(&answer->failure, TP_ERR_NO_MEMORY, false, "no memory for the model's answer");
}

/* Appends within the limit of the whole answer. */
static bool append(tp__openai_answer *answer, tp__bytes *to, tp_text piece) {
  if (answer->failure.code != TP_OK) return false;
  if (piece.size > answer->bytes_max - answer->bytes) {
    (void)tp__openai_fail(&answer->failure, TP_ERR_MODEL, false,
                          "the answer is longer than %zu bytes: raise response_bytes_max, or ask for fewer tokens",
                          answer->bytes_max);
    return false;
  }
  answer->bytes += piece.size;
  tp__bytes_put_text(to, piece);
  if (to->failed) no_memory(answer);
  return !to->failed;
}

void tp__openai_answer_text(tp__openai_answer *answer, tp_text piece) {
  if (piece.size == 0 || !append(answer, &answer->text, piece) || !answer->on_text) return;
  tp_status status = answer->on_text(answer->ctx, piece);
  if (status != TP_OK)
    (void)tp__openai_fail(&answer->failure, status, false, "a piece of the answer was not taken: %s",
                          tp_status_text(status));
}

void tp__openai_answer_stop_text(tp__openai_answer *answer, tp_text reason) {
  if (reason.size == 0) return;
  answer->bytes -= answer->stop.size;
  tp__bytes_clear(&answer->stop);
  (void)append(answer, &answer->stop, reason);
}

void tp__openai_answer_stop(tp__openai_answer *answer, const char *reason) {
  tp__openai_answer_stop_text(answer, tp_text_of(reason));
}

static void take_count(int64_t *to, int64_t count) {
  if (count >= 0) *to = count;
}

void tp__openai_answer_usage(tp__openai_answer *answer, const tp__openai_usage *usage) {
  take_count(&answer->usage.input, usage->input);
  take_count(&answer->usage.output, usage->output);
  take_count(&answer->usage.cache_read, usage->cache_read);
  take_count(&answer->usage.cache_write, usage->cache_write);
}

/* ---- tool calls ---- */

/* Some servers give every call of an answer the same index: then the id says that it is another one. */
static bool is_draft(const tp__openai_draft *draft, int64_t index, tp_text id) {
  tp_text own = tp__bytes_text(&draft->id);
  if (index < 0) return tp__same(own, id);
  return draft->index == index && (id.size == 0 || own.size == 0 || tp__same(own, id));
}

static tp__openai_draft *find_draft(tp__openai_answer *answer, int64_t index, tp_text id) {
  if (index < 0 && id.size == 0 && answer->draft_count > 0) return &answer->drafts[answer->draft_count - 1];
  for (size_t i = answer->draft_count; i > 0; i--)
    if (is_draft(&answer->drafts[i - 1], index, id)) return &answer->drafts[i - 1];
  return NULL;
}

static bool grow_drafts(tp__openai_answer *answer) {
  if (answer->draft_count < answer->draft_capacity) return true;
  size_t capacity = answer->draft_capacity ? 2 * answer->draft_capacity : 4;
  tp__openai_draft *grown = tp__heap_alloc(capacity * sizeof *grown);
  if (!grown) return false;
  if (answer->draft_count > 0) memcpy(grown, answer->drafts, answer->draft_count * sizeof *grown);
  tp__heap_free(answer->drafts, answer->draft_capacity * sizeof *answer->drafts);
  answer->drafts = grown;
  answer->draft_capacity = capacity;
  return true;
}

tp__openai_draft *tp__openai_answer_draft(tp__openai_answer *answer, int64_t index, tp_text id) {
  assert(answer->draft_count <= answer->draft_capacity);
  if (answer->failure.code != TP_OK) return NULL;
  tp__openai_draft *draft = find_draft(answer, index, id);
  if (draft) return draft;
  if (answer->draft_count == TP__OPENAI_CALLS_MAX) {
    (void)tp__openai_fail(&answer->failure, TP_ERR_MODEL, false, "the answer has more than %d tool calls",
                          TP__OPENAI_CALLS_MAX);
    return NULL;
  }
  if (!grow_drafts(answer)) {
    no_memory(answer);
    return NULL;
  }
  draft = &answer->drafts[answer->draft_count++];
  *draft = (tp__openai_draft){.index = index};
  return draft;
}

void tp__openai_answer_fragment(tp__openai_answer *answer, tp__openai_draft *draft, tp_text id, tp_text name,
                                tp_text arguments) {
  assert(!draft || (draft >= answer->drafts && draft < answer->drafts + answer->draft_count));
  if (!draft) return;
  if (draft->id.size == 0) (void)append(answer, &draft->id, id);
  if (draft->name.size == 0) (void)append(answer, &draft->name, name);
  (void)append(answer, &draft->arguments, arguments);
}

void tp__openai_answer_arguments(tp__openai_answer *answer, tp__openai_draft *draft, tp_text text) {
  assert(!draft || (draft >= answer->drafts && draft < answer->drafts + answer->draft_count));
  if (!draft) return;
  answer->bytes -= draft->arguments.size;
  tp__bytes_clear(&draft->arguments);
  (void)append(answer, &draft->arguments, text);
}

void tp__openai_answer_arguments_value(tp__openai_answer *answer, tp__openai_draft *draft, tp_text value) {
  assert(!draft || (draft >= answer->drafts && draft < answer->drafts + answer->draft_count));
  tp_writer *writer = NULL;
  tp_text json;
  bool is_encoded = tp_writer_new(tp__heap, &writer) == TP_OK && tp_json_encode(value, writer, &json, NULL) == TP_OK;
  if (is_encoded) tp__openai_answer_arguments(answer, draft, json);
  else no_memory(answer);
  tp_writer_free(writer);
}

/* ---- the response ---- */

static bool is_blank(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (!strchr(" \t\r\n", text.data[i]) || text.data[i] == '\0') return false;
  return true;
}

/* Whether the JSON is an object, and no other. */
static bool is_object(tp_text json) {
  size_t at = 0;
  while (at < json.size && strchr(" \t\r\n", json.data[at]) && json.data[at]) at++;
  return at < json.size && json.data[at] == '{';
}

/* All arguments are decoded into one array, of which the calls get their slices. */
static tp_status decode_arguments(tp__openai_answer *answer) {
  tp_text all = {NULL, 0};
  tp_write_array(answer->arguments, answer->draft_count);
  for (size_t i = 0; i < answer->draft_count; i++) {
    tp_tool_call *call = &answer->calls[i];
    tp_text json = tp__bytes_text(&answer->drafts[i].arguments);
    tp_status status = TP_ERR_MALFORMED;
    if (is_blank(json)) tp_write_map(answer->arguments, 0);
    else if (is_object(json)) status = tp_json_decode(json, answer->arguments, NULL);
    if (status == TP_ERR_NO_MEMORY) return status;
    call->malformed = status != TP_OK && !is_blank(json);
    if (call->malformed) tp_write_null(answer->arguments);
  }
  tp_status status = tp_writer_finish(answer->arguments, &all);
  if (status != TP_OK) return status;
  tp_value_walk walk = {0};
  for (size_t i = 0; tp_value_next(all, &walk); i++)
    answer->calls[i].arguments = answer->calls[i].malformed ? tp__bytes_text(&answer->drafts[i].arguments) : walk.value;
  return TP_OK;
}

static tp_status make_calls(tp__openai_answer *answer) {
  size_t count = answer->draft_count;
  free_response(answer);
  answer->calls = tp__heap_alloc((count + 1) * sizeof *answer->calls);
  answer->list = tp__heap_alloc((count + 1) * sizeof *answer->list);
  if (!answer->calls || !answer->list || tp_writer_new(tp__heap, &answer->arguments) != TP_OK) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    tp__openai_draft *draft = &answer->drafts[i];
    answer->calls[i] = (tp_tool_call){
        .struct_size = sizeof(tp_tool_call), .id = tp__bytes_text(&draft->id), .name = tp__bytes_text(&draft->name)};
    answer->list[i] = &answer->calls[i];
    if (draft->name.size == 0)
      return tp__openai_fail(&answer->failure, TP_ERR_MODEL, false, "tool call %zu of the answer has no name", i + 1);
  }
  return decode_arguments(answer);
}

tp_status tp__openai_answer_response(tp__openai_answer *answer, tp_model_response *ret_response) {
  assert(!answer->calls && !answer->list); /* once */
  tp_status status = answer->failure.code != TP_OK ? answer->failure.code : make_calls(answer);
  if (status != TP_OK)
    return tp__openai_fail(&answer->failure, status, false, "the model's answer: %s", tp_status_text(status));
  *ret_response = (tp_model_response){.struct_size = sizeof *ret_response,
                                      .text = tp__bytes_text(&answer->text),
                                      .calls = answer->list,
                                      .call_count = answer->draft_count,
                                      .stop_reason = tp__bytes_text(&answer->stop),
                                      .input_tokens = answer->usage.input > 0 ? answer->usage.input : 0,
                                      .output_tokens = answer->usage.output > 0 ? answer->usage.output : 0};
  if (answer->stop.size == 0) ret_response->stop_reason = tp_text_of(answer->draft_count ? "tool_use" : "end_turn");
  return TP_OK;
}
