/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/given.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/check.h"

typedef tp__openai_block block;

static tp_text kind_of(const block *b) { return tp__bytes_text(&b->kind); }

/* The fields of a chat completion's message that are sent back as they came. */
static const char text_fields[] = "reasoning_content, reasoning";

/* Kinds of the library; the names of other kinds are the endpoint's. An encrypted detail is not shown. */
static const char extra_kind[] = "extra of a call", message_kind[] = "extra of the message";
static const char details_kind[] = "reasoning_details", secret_kind[] = "encrypted reasoning_details";

bool tp__openai_is_thinking(tp_text kind) {
  return tp__is_one_of(kind, "reasoning_content, reasoning, thinking, reasoning_details, think");
}

/* ---- taking ---- */

/* The index of the call that an event was about: the call with its id, else the newest. */
static int64_t place_of_call(const tp__openai_answer *answer, tp_text id) {
  int64_t at = (int64_t)answer->calls.count - 1;
  for (int64_t i = at; i >= 0 && id.size > 0; i--)
    if (tp__same(tp__bytes_text(&answer->calls.drafts[i].id), id)) return i;
  return at;
}

static bool is_extra(tp_text key, tp_text value) {
  return tp_value_kind_of(value) != TP_VALUE_NULL &&
         tp__is_one_of(key, "extra_content, thought_signature, provider_specific_fields");
}

/* Keeps the extra pairs of a map, as a map. */
static void keep_extra(tp__openai_answer *answer, tp_text map, int64_t index, const char *kind) {
  size_t count = 0;
  tp_writer *writer = NULL;
  tp_text value = {NULL, 0};
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) count += is_extra(walk.key, walk.value);
  if (count == 0 || tp_writer_new(tp__heap, &writer) != TP_OK) return;
  tp_write_map(writer, count);
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    if (!is_extra(walk.key, walk.value)) continue;
    tp_write_text(writer, walk.key);
    tp_write_value(writer, walk.value);
  }
  if (tp_writer_finish(writer, &value) == TP_OK)
    tp__openai_answer_block_value(answer, tp__openai_answer_block(answer, index, kind), value);
  tp_writer_free(writer);
}

void tp__openai_take_extra(tp__openai_answer *answer, tp_text call) {
  int64_t place = place_of_call(answer, tp__openai_text(call, "id"));
  if (place >= 0) keep_extra(answer, call, place, extra_kind);
}

void tp__openai_take_message_extra(tp__openai_answer *answer, tp_text message) {
  keep_extra(answer, message, 0, message_kind);
}

/* The key under which a detail has the text that comes in pieces. */
static const char *key_of_detail(tp_text detail) {
  tp_text type = tp__openai_text(detail, "type");
  if (tp__is_word(type, "reasoning.summary")) return "summary";
  return tp__is_word(type, "reasoning.encrypted") ? "data" : "text";
}

void tp__openai_take_details(tp__openai_answer *answer, tp_text details, bool is_whole) {
  int64_t place = 0;
  for (tp_value_walk walk = {0}; tp_value_next(details, &walk); place++) {
    if (tp_value_kind_of(walk.value) != TP_VALUE_MAP) continue;
    int64_t index = tp__openai_count(walk.value, "index");
    bool is_secret = strcmp(key_of_detail(walk.value), "data") == 0;
    block *b = tp__openai_answer_block(answer, index < 0 ? place : index, is_secret ? secret_kind : details_kind);
    if (!b || (is_whole && b->value.size > 0)) continue;
    if (b->value.size == 0) tp__openai_answer_block_value(answer, b, walk.value);
    tp__openai_answer_block_text(answer, b, tp__openai_text(walk.value, key_of_detail(walk.value)));
    tp__openai_answer_block_signature(answer, b, tp__openai_text(walk.value, "signature"));
  }
}

/* ---- writing ---- */

/** What is needed to write provider_data from the blocks of an answer. */
typedef struct making {
  const tp__openai_config *config;
  const tp__openai_answer *answer;
  tp_writer *writer;
} making;

static bool is_form(const making *m, const tp__openai_form *form) { return m->config->form == form; }

static bool is_detail(const block *b) {
  return tp__is_word(kind_of(b), details_kind) || tp__is_word(kind_of(b), secret_kind);
}

/* Writes a detail as it came, but with its whole text and its signature. */
static void write_detail(const making *m, const block *b) {
  assert(is_detail(b));
  tp_text value = tp__bytes_text(&b->value);
  const char *key = key_of_detail(value);
  bool has_text = b->text.size > 0, has_signature = b->signature.size > 0;
  size_t count = has_text + has_signature;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);)
    count += !(has_text && tp__is_word(walk.key, key)) && !(has_signature && tp__is_word(walk.key, "signature"));
  tp_write_map(m->writer, count);
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);) {
    if ((has_text && tp__is_word(walk.key, key)) || (has_signature && tp__is_word(walk.key, "signature"))) continue;
    tp_write_text(m->writer, walk.key);
    tp_write_value(m->writer, walk.value);
  }
  if (has_text) tp__openai_write_pair_text(m->writer, key, tp__bytes_text(&b->text));
  if (has_signature) tp__openai_write_pair_text(m->writer, "signature", tp__bytes_text(&b->signature));
}

static size_t count_kind(const making *m, const char *kind) {
  size_t count = 0;
  for (size_t i = 0; i < m->answer->block_count; i++) count += tp__is_word(kind_of(&m->answer->blocks[i]), kind);
  return count;
}

/* ---- chat ---- */

static bool is_text_field(const block *b) { return tp__is_one_of(kind_of(b), text_fields) && b->text.size > 0; }

static size_t fields_count(const making *m) {
  size_t count = count_kind(m, details_kind) + count_kind(m, secret_kind) > 0;
  for (size_t i = 0; i < m->answer->block_count; i++) {
    const block *b = &m->answer->blocks[i];
    count += is_text_field(b);
    if (tp__is_word(kind_of(b), message_kind)) count += tp_value_count(tp__bytes_text(&b->value));
  }
  return count;
}

static void write_fields(const making *m) {
  size_t details = count_kind(m, details_kind) + count_kind(m, secret_kind);
  tp_write_string(m->writer, "fields");
  tp_write_map(m->writer, fields_count(m));
  for (size_t i = 0; i < m->answer->block_count; i++) {
    const block *b = &m->answer->blocks[i];
    if (is_text_field(b)) {
      tp_write_text(m->writer, kind_of(b));
      tp_write_text(m->writer, tp__bytes_text(&b->text));
    }
    if (!tp__is_word(kind_of(b), message_kind)) continue;
    for (tp_value_walk walk = {0}; tp_value_next(tp__bytes_text(&b->value), &walk);) {
      tp_write_text(m->writer, walk.key);
      tp_write_value(m->writer, walk.value);
    }
  }
  if (details == 0) return;
  tp_write_string(m->writer, details_kind);
  tp_write_array(m->writer, details);
  for (size_t i = 0; i < m->answer->block_count; i++)
    if (is_detail(&m->answer->blocks[i])) write_detail(m, &m->answer->blocks[i]);
}

static const block *extra_of(const making *m, size_t place) {
  for (size_t i = 0; i < m->answer->block_count; i++) {
    const block *b = &m->answer->blocks[i];
    if (b->index == (int64_t)place && tp__is_word(kind_of(b), extra_kind)) return b;
  }
  return NULL;
}

static void write_extras(const making *m) {
  tp_write_string(m->writer, "calls");
  tp_write_array(m->writer, m->answer->calls.count);
  for (size_t i = 0; i < m->answer->calls.count; i++) {
    const block *extra = extra_of(m, i);
    tp_write_map(m->writer, extra ? 2 : 1);
    tp__openai_write_pair_text(m->writer, "id", tp__bytes_text(&m->answer->calls.drafts[i].id));
    if (!extra) continue;
    tp_write_string(m->writer, "extra");
    tp_write_value(m->writer, tp__bytes_text(&extra->value));
  }
}

/* ---- messages and responses ---- */

/* Whether a block has enough data to be sent back as an item. A "reasoning" item needs encrypted_content: the endpoint
 * does not store items, so it could not find one by its id. */
static bool is_item(const block *b) {
  if (tp__is_one_of(kind_of(b), "thinking")) return b->text.size > 0 || b->signature.size > 0;
  if (tp__is_word(kind_of(b), "redacted_thinking") || tp__is_word(kind_of(b), TP__OPENAI_OTHER_BLOCK))
    return b->value.size > 0;
  return tp__is_word(kind_of(b), "reasoning") &&
         tp__openai_text(tp__bytes_text(&b->value), "encrypted_content").size > 0;
}

/* The place of a block among text and calls; blocks and calls use the same numbering. */
static int64_t place_of(const making *m, const block *b) {
  assert(!is_form(m, &tp__openai_form_chat));
  int64_t before = 0;
  for (size_t i = 0; i < m->answer->calls.count; i++) {
    int64_t index = m->answer->calls.drafts[i].index;
    before += index >= 0 && index < b->index;
  }
  if (before > 0) return 1 + before;
  for (size_t i = 0; i < m->answer->span_count; i++)
    if (m->answer->spans[i].spot.item < b->index) return 1;
  return 0;
}

static void write_reasoning_item(const making *m, tp_text item) {
  static const char *const keys[] = {"id", "encrypted_content", "content"};
  size_t count = 2;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) count += tp_value_get(item, keys[i]).size > 1;
  tp_text summary = tp_value_get(item, "summary");
  tp_write_map(m->writer, count);
  tp__openai_write_pair(m->writer, "type", "reasoning");
  tp_write_string(m->writer, "summary");
  if (tp_value_kind_of(summary) == TP_VALUE_ARRAY) tp_write_value(m->writer, summary);
  else tp_write_array(m->writer, 0);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    tp_text value = tp_value_get(item, keys[i]);
    if (value.size <= 1) continue; /* none, or null */
    tp_write_string(m->writer, keys[i]);
    tp_write_value(m->writer, value);
  }
}

/* Writes a block of the endpoint's own tools, with the input that came in pieces. */
static void write_other(const making *m, const block *b) {
  tp_text value = tp__bytes_text(&b->value), input = tp__openai_trim(tp__bytes_text(&b->text));
  tp_writer *writer = NULL;
  bool has_input = tp__begins(input, "{") && tp_writer_new(tp__heap, &writer) == TP_OK &&
                   tp_json_decode(input, writer, NULL) == TP_OK && tp_writer_finish(writer, &input) == TP_OK;
  if (!has_input) {
    tp_write_value(m->writer, value);
  } else {
    tp_write_map(m->writer, tp_value_count(value) + (tp_value_get(value, "input").size == 0));
    for (tp_value_walk walk = {0}; tp_value_next(value, &walk);) {
      if (tp__is_word(walk.key, "input")) continue;
      tp_write_text(m->writer, walk.key);
      tp_write_value(m->writer, walk.value);
    }
    tp_write_string(m->writer, "input");
    tp_write_value(m->writer, input);
  }
  tp_writer_free(writer);
}

static void write_item(const making *m, const block *b) {
  assert(is_item(b));
  tp_text value = tp__bytes_text(&b->value);
  tp_write_map(m->writer, 2);
  tp_write_string(m->writer, "at");
  tp_write_int(m->writer, place_of(m, b));
  tp_write_string(m->writer, "item");
  if (tp__is_word(kind_of(b), "reasoning")) {
    write_reasoning_item(m, value);
  } else if (tp__is_word(kind_of(b), TP__OPENAI_OTHER_BLOCK)) {
    write_other(m, b);
  } else if (tp__is_word(kind_of(b), "redacted_thinking")) {
    tp_write_value(m->writer, value);
  } else {
    tp_write_map(m->writer, b->signature.size > 0 ? 3 : 2);
    tp__openai_write_pair(m->writer, "type", "thinking");
    tp__openai_write_pair_text(m->writer, "thinking", tp__bytes_text(&b->text));
    if (b->signature.size > 0) tp__openai_write_pair_text(m->writer, "signature", tp__bytes_text(&b->signature));
  }
}

static size_t items_count(const making *m) {
  size_t count = 0;
  for (size_t i = 0; i < m->answer->block_count; i++) count += is_item(&m->answer->blocks[i]);
  return count;
}

static void write_items(const making *m) {
  tp_write_string(m->writer, "items");
  tp_write_array(m->writer, items_count(m));
  for (size_t i = 0; i < m->answer->block_count; i++)
    if (is_item(&m->answer->blocks[i])) write_item(m, &m->answer->blocks[i]);
}

/* ---- all of it ---- */

/* The reasoning for people. If a server sends it in two fields, the first one is used. */
static void put_thinking(const making *m, tp__bytes *text) {
  tp_text first = {NULL, 0};
  for (size_t i = 0; i < m->answer->block_count; i++) {
    const block *b = &m->answer->blocks[i];
    if (!tp__openai_is_thinking(kind_of(b)) || b->text.size == 0) continue;
    if (first.size == 0) first = kind_of(b);
    if (!tp__same(first, kind_of(b))) continue;
    if (text->size > 0) tp__bytes_put_string(text, "\n\n");
    tp__bytes_put_text(text, tp__bytes_text(&b->text));
  }
}

tp_status tp__openai_given_write(const tp__openai_config *config, const tp__openai_answer *answer, tp_writer *writer,
                                 tp_text *ret_data) {
  making m = {config, answer, writer};
  assert(config->place && answer->failure.code == TP_OK);
  tp__bytes thinking = {0};
  const block *refusal = tp__openai_answer_find_block(answer, 0, "refusal");
  bool paused = is_form(&m, &tp__openai_form_messages) && tp__openai_answer_finish(answer) == TP_FINISH_PAUSE;
  *ret_data = (tp_text){NULL, 0};
  if (answer->block_count == 0 && !paused) return TP_OK;
  bool is_chat = is_form(&m, &tp__openai_form_chat);
  put_thinking(&m, &thinking);
  bool has_fields = is_chat && fields_count(&m) > 0, has_extras = is_chat && count_kind(&m, extra_kind) > 0;
  bool has_items = !is_chat && items_count(&m) > 0;
  tp_write_map(writer, 2 + (thinking.size > 0) + has_fields + has_extras + has_items + paused + !!refusal);
  tp__openai_write_pair(writer, "provider", config->place);
  tp__openai_write_pair(writer, "api", config->form->name);
  if (thinking.size > 0) tp__openai_write_pair_text(writer, "thinking", tp__bytes_text(&thinking));
  if (refusal) tp__openai_write_pair_text(writer, "refusal", tp__bytes_text(&refusal->text));
  if (has_fields) write_fields(&m);
  if (has_extras) write_extras(&m);
  if (has_items) write_items(&m);
  if (paused) {
    tp_write_string(writer, "paused");
    tp_write_bool(writer, true);
  }
  tp_status status = thinking.failed ? TP_ERR_NO_MEMORY : tp_writer_finish(writer, ret_data);
  tp__bytes_fini(&thinking);
  return status;
}
