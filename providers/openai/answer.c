/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/answer.h"
#include "providers/openai/given.h"

#include <string.h>

#include "runtime/base/check.h"

/* Pieces come for one of the newest spots; older ones are not searched. */
enum { SPANS_SEARCHED = 64, REPEATED_SIZE_MIN = 16, GROWING_PIECES_MIN = 4, TAGGED_MAX = 64 };

static void take_decided(void *ctx, tp_text piece, bool thinking);

static bool reads_tags(const tp__openai_answer *answer) {
  return answer->quirks & (TP_OPENAI_QUIRK_THINK_TAGS | TP_OPENAI_QUIRK_THINK_FIRST);
}

void tp__openai_answer_init(tp__openai_answer *answer) {
  assert(answer->bytes_max > 0 && answer->calls.count == 0);
  answer->usage = (tp__openai_usage){-1, -1, -1, -1};
  answer->bytes_left = answer->bytes_max;
  answer->think = (tp__openai_think){
      .out = take_decided, .ctx = answer, .begins_inside = answer->quirks & TP_OPENAI_QUIRK_THINK_FIRST};
}

static void free_response(tp__openai_answer *answer) {
  tp__heap_free(answer->tool_calls, (answer->calls.count + 1) * sizeof *answer->tool_calls);
  tp__heap_free((void *)answer->list, (answer->calls.count + 1) * sizeof *answer->list);
  tp_writer_free(answer->arguments);
  answer->tool_calls = NULL;
  answer->list = NULL;
  answer->arguments = NULL;
}

void tp__openai_answer_fini(tp__openai_answer *answer) {
  free_response(answer);
  tp__openai_calls_fini(&answer->calls);
  for (size_t i = 0; i < answer->block_count; i++) {
    tp__bytes_fini(&answer->blocks[i].kind);
    tp__bytes_fini(&answer->blocks[i].value);
    tp__bytes_fini(&answer->blocks[i].text);
    tp__bytes_fini(&answer->blocks[i].signature);
  }
  tp__heap_free(answer->blocks, answer->block_capacity * sizeof *answer->blocks);
  tp__heap_free(answer->spans, answer->span_capacity * sizeof *answer->spans);
  tp__bytes_fini(&answer->text);
  tp__bytes_fini(&answer->said);
  tp__openai_think_fini(&answer->think);
  tp__bytes_fini(&answer->stop);
  tp__bytes_fini(&answer->word);
  *answer = (tp__openai_answer){.bytes_max = 0};
}

static void fail_answer_memory(tp__openai_answer *answer) {
  (void)tp__openai_fail(&answer->failure, TP_ERR_NO_MEMORY, false, "no memory for the model's answer");
}

static void too_long(tp__openai_answer *answer) {
  (void)tp__openai_fail(&answer->failure, TP_ERR_MODEL, false,
                        "the answer is longer than %zu bytes: raise response_bytes_max, or ask for fewer tokens",
                        answer->bytes_max);
}

/* Appends within the size limit of the whole answer. */
static bool append_within_limit(tp__openai_answer *answer, tp__bytes *to, tp__openai_tail *tail, tp_text piece) {
  assert(piece.data || piece.size == 0);
  size_t before = to->size;
  if (answer->failure.code != TP_OK) return false;
  if (piece.size > answer->bytes_left) {
    too_long(answer);
    return false;
  }
  if (tail) tp__openai_join(to, tail, piece, answer->has_marks);
  else tp__bytes_put_text(to, piece);
  if (to->failed) {
    fail_answer_memory(answer);
    return false;
  }
  size_t grown = to->size - before;
  answer->bytes_left -= grown < answer->bytes_left ? grown : answer->bytes_left;
  return true;
}

void tp__openai_answer_event(tp__openai_answer *answer, bool has_marks) {
  answer->has_marks = has_marks;
  answer->is_unread = answer->is_silent = false;
  answer->calls.chunk++;
}

bool tp__openai_answer_has_content(const tp__openai_answer *answer) {
  return answer->text.size > 0 || answer->tail.size > 0 || answer->calls.count > 0 || answer->block_count > 0;
}

/* ---- text ---- */

static tp__openai_span *find_span(const tp__openai_answer *answer, tp__openai_spot spot) {
  for (size_t i = answer->span_count; i > 0 && i + SPANS_SEARCHED > answer->span_count; i--) {
    tp__openai_span *span = &answer->spans[i - 1];
    if (span->spot.item == spot.item && span->spot.part == spot.part) return span;
  }
  return NULL;
}

static bool is_last(const tp__openai_answer *answer, const tp__openai_span *span) {
  return span == &answer->spans[answer->span_count - 1];
}

static tp__openai_span *begin_span(tp__openai_answer *answer, tp__openai_spot spot) {
  void *grown = answer->spans;
  if (!tp__grow(tp__heap, &grown, &answer->span_capacity, answer->span_count + 1, sizeof *answer->spans)) {
    fail_answer_memory(answer);
    return NULL;
  }
  answer->spans = grown;
  tp__openai_span *span = &answer->spans[answer->span_count++];
  *span = (tp__openai_span){
      .spot = spot, .begin = answer->text.size, .end = answer->text.size, .newest = answer->text.size};
  return span;
}

static tp_text span_text(const tp__openai_answer *answer, const tp__openai_span *span) {
  assert(span->begin <= span->end && span->end <= answer->text.size);
  if (span->begin == span->end) return (tp_text){NULL, 0};
  return (tp_text){answer->text.data + span->begin, span->end - span->begin};
}

/* What a text has grown by. */
static void emit_of(tp__openai_answer *answer, const tp__bytes *text, size_t before, bool thinking) {
  assert(before <= text->size);
  if (text->size == before || !answer->on_text || answer->is_silent) return;
  tp_text piece = {text->data + before, text->size - before};
  tp_status status = answer->on_text(answer->ctx, piece, thinking);
  if (status != TP_OK)
    (void)tp__openai_fail(&answer->failure, status, false, "a piece of the answer was not taken: %s",
                          tp_status_text(status));
}

static void emit(tp__openai_answer *answer, size_t before) {
  if (!reads_tags(answer)) {
    emit_of(answer, &answer->text, before, false);
    return;
  }
  if (answer->text.size == before) return;
  tp__openai_think_feed(&answer->think, (tp_text){answer->text.data + before, answer->text.size - before});
  if (answer->think.failed) fail_answer_memory(answer);
}

/* Takes a piece that was separated from the tags around it. Its bytes were counted with the text. */
static void take_decided(void *ctx, tp_text piece, bool thinking) {
  tp__openai_answer *answer = ctx;
  size_t before = answer->said.size;
  bool had_marks = answer->has_marks;
  uint32_t block = answer->think.blocks < TAGGED_MAX ? answer->think.blocks : TAGGED_MAX;
  if (answer->failure.code != TP_OK) return;
  answer->bytes_left += piece.size;
  answer->has_marks = false;
  if (thinking) tp__openai_answer_block_text(answer, tp__openai_answer_block(answer, block, "think"), piece);
  else if (append_within_limit(answer, &answer->said, NULL, piece)) emit_of(answer, &answer->said, before, false);
  answer->has_marks = had_marks;
}

tp_text tp__openai_answer_said(const tp__openai_answer *answer) {
  return tp__bytes_text(reads_tags(answer) ? &answer->said : &answer->text);
}

/* Appends a piece to the last span. */
static void add_to_span(tp__openai_answer *answer, tp__openai_span *span, tp_text piece) {
  assert(is_last(answer, span));
  size_t before = answer->text.size;
  if (!append_within_limit(answer, &answer->text, &answer->tail, piece)) return;
  span->end = answer->text.size;
  span->pieces++;
  emit(answer, before);
}

/* The span of the spot, where text can be appended; NULL, with a failure, without memory. */
static tp__openai_span *span_at_end(tp__openai_answer *answer, tp__openai_spot spot) {
  tp__openai_span *span = find_span(answer, spot);
  return span && is_last(answer, span) ? span : begin_span(answer, spot);
}

/* The new part of a piece, when each piece contains the whole text so far. @param tail  of the text. */
static tp_text addition_of(const tp__openai_answer *answer, tp_text so_far, tp__openai_tail *tail, tp_text piece) {
  if (!(answer->quirks & TP_OPENAI_QUIRK_CUMULATIVE)) return piece;
  if (tp__openai_is_beginning(piece, so_far)) return (tp_text){NULL, 0};
  if (!tp__openai_is_beginning(so_far, piece)) return piece;
  tail->size = 0; /* the piece has it again */
  return (tp_text){piece.data + so_far.size, piece.size - so_far.size};
}

/* Notes whether all pieces of a span, from the first on, contained the pieces before them. */
static void note_growth(tp__openai_answer *answer, tp__openai_span *span, tp_text piece) {
  assert(span->newest <= span->end);
  if (span->is_flat || answer->grows) return;
  tp_text newest = {NULL, span->end - span->newest};
  if (newest.size > 0) newest.data = answer->text.data + span->newest;
  if (span->pieces > 0 && (newest.size == 0 || newest.size >= piece.size || !tp__openai_is_beginning(newest, piece)))
    span->is_flat = true;
  answer->grows = !span->is_flat && span->pieces + 1 >= GROWING_PIECES_MIN && piece.size >= REPEATED_SIZE_MIN;
  span->newest = span->end;
}

void tp__openai_answer_text(tp__openai_answer *answer, tp__openai_spot spot, tp_text piece) {
  if (piece.size == 0 || answer->failure.code != TP_OK) return;
  tp__openai_span *span = span_at_end(answer, spot);
  if (!span) return;
  piece = addition_of(answer, span_text(answer, span), &answer->tail, piece);
  if (piece.size == 0) return;
  if (!(answer->quirks & TP_OPENAI_QUIRK_CUMULATIVE)) note_growth(answer, span, piece);
  size_t left = span->given - span->repeated, count = piece.size < left ? piece.size : left;
  if (left > 0 && memcmp(answer->text.data + span->begin + span->repeated, piece.data, count) == 0) {
    span->repeated += count;
    piece = (tp_text){piece.data + count, piece.size - count};
  } else if (left > 0 && span->repeated > 0) { /* no repetition: the bytes that were left out belong to the text */
    size_t repeated = span->repeated;
    tp__bytes again = {0};
    span->given = span->repeated = 0;
    tp__bytes_put(&again, answer->text.data + span->begin, repeated);
    if (again.failed) fail_answer_memory(answer);
    add_to_span(answer, span, tp__bytes_text(&again));
    tp__bytes_fini(&again);
  } else {
    span->given = span->repeated = 0;
  }
  if (piece.size > 0) add_to_span(answer, span, piece);
}

void tp__openai_answer_text_given(tp__openai_answer *answer, tp__openai_spot spot, tp_text text) {
  if (answer->failure.code != TP_OK || text.size == 0) return;
  tp__openai_span *span = find_span(answer, spot);
  if (!span || !is_last(answer, span) || !tp__same(span_text(answer, span), text)) {
    span = begin_span(answer, spot);
    if (span) add_to_span(answer, span, text);
  }
  if (!span) return;
  span->given = span->end - span->begin;
  span->repeated = 0;
}

bool tp__openai_answer_repeats(const tp__openai_answer *answer, tp__openai_spot spot, tp_text text) {
  const tp__openai_span *span = find_span(answer, spot);
  return span && (span->pieces > 1 || text.size >= REPEATED_SIZE_MIN) && tp__same(span_text(answer, span), text);
}

/* Whether `whole` adds nothing to `part`: it is contained in `part`, or differs only in blanks. */
static bool says_no_more(tp_text part, tp_text whole) {
  tp_text a = tp__openai_trim(whole);
  return a.size == 0 || (a.size <= part.size && memmem(part.data, part.size, a.data, a.size) != NULL);
}

/* Adds the part of a snapshot that has not come yet. @param text  without marks. */
static void complete_span(tp__openai_answer *answer, tp__openai_span *span, tp_text text) {
  tp_text own = span_text(answer, span);
  bool goes_on = tp__openai_is_beginning(own, text);
  if (!goes_on && says_no_more(own, text)) return;
  tp_text rest = goes_on ? (tp_text){text.data + own.size, text.size - own.size} : text;
  if (rest.size == 0) return;
  if (!is_last(answer, span)) span = begin_span(answer, span->spot);
  if (span) add_to_span(answer, span, rest);
}

/* The text of a snapshot without marks; incomplete characters become U+FFFD. */
static bool clean(tp__openai_answer *answer, tp_text text, tp__bytes *ret_clean) {
  tp__openai_tail tail = {.size = 0};
  tp__openai_join(ret_clean, &tail, text, answer->has_marks);
  tp__openai_join_end(ret_clean, &tail);
  if (ret_clean->failed) fail_answer_memory(answer);
  return answer->failure.code == TP_OK;
}

static void end_tail(tp__openai_answer *answer) {
  size_t before = answer->text.size;
  if (answer->tail.size == 0 || answer->failure.code != TP_OK) return;
  tp__openai_join_end(&answer->text, &answer->tail);
  if (answer->text.failed) fail_answer_memory(answer);
  else if (answer->span_count > 0) answer->spans[answer->span_count - 1].end = answer->text.size;
  if (answer->failure.code == TP_OK) emit(answer, before);
}

void tp__openai_answer_end(tp__openai_answer *answer) {
  end_tail(answer);
  if (reads_tags(answer)) tp__openai_think_end(&answer->think);
  if (answer->think.failed) fail_answer_memory(answer);
  for (size_t i = 0; i < answer->block_count; i++) {
    tp__openai_join_end(&answer->blocks[i].text, &answer->blocks[i].tail);
    if (answer->blocks[i].text.failed) fail_answer_memory(answer);
  }
}

static void take_whole(tp__openai_answer *answer, tp__openai_spot spot, tp_text text, bool is_listed) {
  tp__bytes copy = {0};
  if (text.size == 0 || answer->failure.code != TP_OK) return;
  end_tail(answer);
  if (clean(answer, text, &copy)) {
    tp_text whole = tp__bytes_text(&copy);
    bool had_marks = answer->has_marks, is_known = false;
    tp__openai_span *span = find_span(answer, spot);
    for (size_t i = 0; (is_listed || !span) && !is_known && i < answer->span_count; i++)
      is_known = tp__same(span_text(answer, &answer->spans[i]), whole);
    answer->has_marks = false;
    if (!span && !is_known) span = begin_span(answer, spot);
    if (!is_known && span) complete_span(answer, span, whole);
    answer->has_marks = had_marks;
  }
  tp__bytes_fini(&copy);
}

void tp__openai_answer_text_whole(tp__openai_answer *answer, tp__openai_spot spot, tp_text text) {
  take_whole(answer, spot, text, false);
}

void tp__openai_answer_text_listed(tp__openai_answer *answer, tp__openai_spot spot, tp_text text) {
  take_whole(answer, spot, text, true);
}

/* ---- how it ended, and what it cost ---- */

static void set_text(tp__openai_answer *answer, tp__bytes *to, tp_text text) {
  answer->bytes_left += to->size;
  tp__bytes_clear(to);
  (void)append_within_limit(answer, to, NULL, text);
}

void tp__openai_answer_stop(tp__openai_answer *answer, const char *reason, tp_text word) {
  if (word.size == 0) return;
  set_text(answer, &answer->stop, reason ? tp_text_of(reason) : word);
  set_text(answer, &answer->word, word);
}

tp_finish tp__openai_answer_finish(const tp__openai_answer *answer) {
  tp_finish finish = tp_finish_of(tp__bytes_text(&answer->word));
  if (finish == TP_FINISH_UNKNOWN) finish = tp_finish_of(tp__bytes_text(&answer->stop));
  if (finish == TP_FINISH_UNKNOWN && answer->stop.size > 0) finish = TP_FINISH_STOP;
  return finish == TP_FINISH_STOP && answer->refuses ? TP_FINISH_REFUSAL : finish;
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

/* ---- calls and blocks ---- */

void tp__openai_answer_call(tp__openai_answer *answer, const tp__openai_fragment *fragment) {
  if (answer->failure.code != TP_OK) return;
  tp__openai_fragment marked = *fragment;
  marked.has_marks = answer->has_marks;
  tp_status status = tp__openai_calls_take(&answer->calls, &marked, &answer->bytes_left);
  if (status == TP_ERR_TOO_LARGE) too_long(answer);
  else if (status == TP_ERR_FULL)
    (void)tp__openai_fail(&answer->failure, TP_ERR_MODEL, false, "the answer has more than %d tool calls",
                          TP__OPENAI_CALLS_MAX);
  else if (status != TP_OK) fail_answer_memory(answer);
}

tp__openai_block *tp__openai_answer_find_block(const tp__openai_answer *answer, int64_t index, const char *kind) {
  for (size_t i = answer->block_count; i > 0 && i + SPANS_SEARCHED > answer->block_count; i--) {
    tp__openai_block *block = &answer->blocks[i - 1];
    if (block->index == index && tp__is_word(tp__bytes_text(&block->kind), kind)) return block;
  }
  return NULL;
}

tp__openai_block *tp__openai_answer_block(tp__openai_answer *answer, int64_t index, const char *kind) {
  assert(kind[0] && answer->block_count <= answer->block_capacity);
  void *grown = answer->blocks;
  if (answer->failure.code != TP_OK) return NULL;
  tp__openai_block *found = tp__openai_answer_find_block(answer, index, kind);
  if (found) return found;
  if (answer->block_count == TP__OPENAI_BLOCKS_MAX) {
    (void)tp__openai_fail(&answer->failure, TP_ERR_MODEL, false, "the answer has more than %d blocks of thinking",
                          TP__OPENAI_BLOCKS_MAX);
    return NULL;
  }
  if (!tp__grow(tp__heap, &grown, &answer->block_capacity, answer->block_count + 1, sizeof *answer->blocks)) {
    fail_answer_memory(answer);
    return NULL;
  }
  answer->blocks = grown;
  tp__openai_block *block = &answer->blocks[answer->block_count++];
  *block = (tp__openai_block){.index = index};
  return append_within_limit(answer, &block->kind, NULL, tp_text_of(kind)) ? block : NULL;
}

/* Some servers send the same reasoning in two fields: only the first one is shown. */
static bool is_shown(const tp__openai_answer *answer, const tp__openai_block *block) {
  tp_text kind = tp__bytes_text(&block->kind);
  for (const tp__openai_block *b = answer->blocks; b < block; b++) {
    tp_text other = tp__bytes_text(&b->kind);
    if (tp__openai_is_thinking(other) && b->text.size > 0 && !tp__same(other, kind)) return false;
  }
  return tp__openai_is_thinking(kind);
}

void tp__openai_answer_block_text(tp__openai_answer *answer, tp__openai_block *block, tp_text piece) {
  size_t before = block ? block->text.size : 0;
  if (block) piece = addition_of(answer, tp__bytes_text(&block->text), &block->tail, piece);
  if (!block || !append_within_limit(answer, &block->text, &block->tail, piece)) return;
  if (is_shown(answer, block)) emit_of(answer, &block->text, before, true);
}

void tp__openai_answer_refusal(tp__openai_answer *answer, tp_text words, bool is_whole) {
  if (words.size == 0) return;
  answer->refuses = true;
  tp__openai_block *block = tp__openai_answer_block(answer, 0, "refusal");
  if (!block || (is_whole && block->text.size > 0)) return;
  answer->bytes_left += words.size; /* it is counted with the text */
  (void)append_within_limit(answer, &block->text, &block->tail, words);
}

void tp__openai_answer_block_signature(tp__openai_answer *answer, tp__openai_block *block, tp_text piece) {
  if (block) (void)append_within_limit(answer, &block->signature, NULL, piece);
}

void tp__openai_answer_block_value(tp__openai_answer *answer, tp__openai_block *block, tp_text value) {
  if (!block || value.size == 0) return;
  answer->bytes_left += block->value.size;
  tp__bytes_clear(&block->value);
  (void)append_within_limit(answer, &block->value, NULL, value);
}

/* ---- the response ---- */

/* Whether the JSON is one object. */
static bool is_object(tp_text json) { return json.size > 0 && json.data[0] == '{'; }

/* Some servers encode the arguments twice, as a text with JSON in it. @return whether they were. */
static bool decode_twice(tp_text json, tp_writer *to) {
  tp_writer *writer = NULL;
  tp_text text;
  bool good = json.size > 0 && json.data[0] == '"' && tp_writer_new(tp__heap, &writer) == TP_OK &&
              tp_json_decode(json, writer, NULL) == TP_OK && tp_writer_finish(writer, &text) == TP_OK;
  if (good) {
    text = tp__openai_trim(tp_value_text(text));
    good = is_object(text) && tp_json_decode(text, to, NULL) == TP_OK;
  }
  tp_writer_free(writer);
  return good;
}

/* JSON as models write it, with newlines in strings, or with a comma too many. */
static tp_status decode_repaired(tp_text json, tp_writer *to) {
  tp__bytes repaired = {0}, clean = {0};
  tp__openai_tail tail = {.size = 0};
  bool has_marks;
  tp__openai_repair(json, &repaired, &has_marks);
  tp__openai_join(&clean, &tail, tp__bytes_text(&repaired), has_marks);
  tp__openai_join_end(&clean, &tail);
  tp_status status =
      repaired.failed || clean.failed ? TP_ERR_NO_MEMORY : tp_json_decode(tp__bytes_text(&clean), to, NULL);
  tp__bytes_fini(&repaired);
  tp__bytes_fini(&clean);
  return status;
}

/* @return TP_OK, TP_ERR_NO_MEMORY, or the error that they are no object. */
static tp_status decode_one(tp_text json, tp_writer *to) {
  json = tp__openai_trim(json);
  if (json.size == 0 || tp__is_word(json, "null")) {
    tp_write_map(to, 0);
    return TP_OK;
  }
  if (!is_object(json)) return decode_twice(json, to) ? TP_OK : TP_ERR_MALFORMED;
  tp_status status = tp_json_decode(json, to, NULL);
  if (status == TP_OK || status == TP_ERR_NO_MEMORY) return status;
  return decode_repaired(json, to);
}

/* All arguments are decoded into one array; each call gets its slice of it. */
static tp_status decode_arguments(tp__openai_answer *answer) {
  tp_text all = {NULL, 0};
  tp_write_array(answer->arguments, answer->calls.count);
  for (size_t i = 0; i < answer->calls.count; i++) {
    tp_status status = decode_one(tp__bytes_text(&answer->calls.drafts[i].arguments), answer->arguments);
    if (status == TP_ERR_NO_MEMORY) return status;
    answer->tool_calls[i].malformed = status != TP_OK;
    if (status != TP_OK) tp_write_null(answer->arguments);
  }
  tp_status status = tp_writer_finish(answer->arguments, &all);
  if (status != TP_OK) return status;
  tp_value_walk walk = {0};
  for (size_t i = 0; tp_value_next(all, &walk); i++)
    answer->tool_calls[i].arguments =
        answer->tool_calls[i].malformed ? tp__bytes_text(&answer->calls.drafts[i].arguments) : walk.value;
  return TP_OK;
}

static tp_status make_calls(tp__openai_answer *answer) {
  size_t count = answer->calls.count;
  free_response(answer);
  answer->tool_calls = tp__heap_alloc((count + 1) * sizeof *answer->tool_calls);
  answer->list = tp__heap_alloc((count + 1) * sizeof *answer->list);
  if (!answer->tool_calls || !answer->list || tp_writer_new(tp__heap, &answer->arguments) != TP_OK ||
      !tp__openai_calls_end(&answer->calls))
    return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    tp__openai_draft *draft = &answer->calls.drafts[i];
    answer->tool_calls[i] = (tp_tool_call){
        .struct_size = sizeof(tp_tool_call), .id = tp__bytes_text(&draft->id), .name = tp__bytes_text(&draft->name)};
    answer->list[i] = &answer->tool_calls[i];
    if (draft->name.size == 0)
      return tp__openai_fail(&answer->failure, TP_ERR_MODEL, false, "tool call %zu of the answer has no name", i + 1);
  }
  return decode_arguments(answer);
}

tp_status tp__openai_answer_response(tp__openai_answer *answer, tp_model_response *ret_response) {
  assert(!answer->tool_calls && !answer->list); /* once */
  tp_status status = answer->failure.code != TP_OK ? answer->failure.code : make_calls(answer);
  if (status != TP_OK)
    return tp__openai_fail(&answer->failure, status, false, "the model's answer: %s", tp_status_text(status));
  *ret_response = (tp_model_response){.struct_size = sizeof *ret_response,
                                      .text = tp__openai_answer_said(answer),
                                      .calls = answer->list,
                                      .call_count = answer->calls.count,
                                      .stop_reason = tp__bytes_text(&answer->stop),
                                      .finish = tp__openai_answer_finish(answer),
                                      .finish_word = tp__bytes_text(&answer->word),
                                      .input_tokens = answer->usage.input > 0 ? answer->usage.input : 0,
                                      .output_tokens = answer->usage.output > 0 ? answer->usage.output : 0};
  if (answer->stop.size == 0) ret_response->stop_reason = tp_text_of(answer->calls.count ? "tool_use" : "end_turn");
  if (ret_response->finish == TP_FINISH_UNKNOWN) ret_response->finish = TP_FINISH_STOP;
  if (ret_response->finish == TP_FINISH_STOP && answer->calls.count > 0) ret_response->finish = TP_FINISH_TOOL_CALLS;
  return TP_OK;
}
