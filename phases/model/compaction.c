/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/model/compaction.h"

#include "phases/merge/out.h"

enum { BYTES_PER_TOKEN = 4, TOKENS_PER_MESSAGE = 4, LINE_BYTES_MAX = 4000 };
enum { MEDIA_TOKENS = 1500, DOCUMENT_BYTES_PER_TOKEN = 32, AUDIO_BYTES_PER_TOKEN = 500 };

/* ---- tokens ---- */

static bool is_of_text(tp_text media_type) {
  static const char text[] = "text/";
  return media_type.size >= sizeof text - 1 && memcmp(media_type.data, text, sizeof text - 1) == 0;
}

/* The size of a part: for text that a model reads, its bytes. For other parts, about as many bytes as the same number
 * of tokens would take as text: an image is scaled down to a fixed size, and a part that is only named may be an
 * image. */
static size_t bytes_of_part(const tp_part *part) {
  size_t size = part->bytes.size;
  if (part->kind == TP_PART_TEXT) return part->text.size;
  size_t words = part->name.size + part->media_type.size + part->description.size;
  if (part->kind == TP_PART_LINK) return words + part->uri.size;
  if (part->kind == TP_PART_FILE && size > 0 && is_of_text(part->media_type)) return words + size;
  size_t tokens = MEDIA_TOKENS;
  if (part->kind == TP_PART_AUDIO && size > 0) tokens = size / AUDIO_BYTES_PER_TOKEN;
  if (part->kind == TP_PART_FILE && size / DOCUMENT_BYTES_PER_TOKEN > tokens) tokens = size / DOCUMENT_BYTES_PER_TOKEN;
  return words + tokens * BYTES_PER_TOKEN;
}

static size_t bytes_of_parts(tp_text parts) {
  size_t bytes = 0;
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) {
    tp_part part = {.struct_size = sizeof part};
    if (tp_part_read(walk.value, &part, NULL) == TP_OK) bytes += bytes_of_part(&part);
  }
  return bytes;
}

static size_t bytes_of(const tp_message *message) {
  size_t bytes = message->text.size + message->name.size + message->provider_data.size;
  if (message->parts.size > 0) bytes += bytes_of_parts(message->parts);
  for (size_t i = 0; i < message->call_count; i++)
    bytes += message->calls[i]->name.size + message->calls[i]->arguments.size;
  return bytes;
}

int64_t tp_message_tokens(const tp_message *message) {
  if (!message) return 0;
  if (message->role == TP_ROLE_END) return 0; /* its one line is made up for by the estimates of other messages */
  return (int64_t)(bytes_of(message) + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN + TOKENS_PER_MESSAGE;
}

int64_t tp__messages_tokens(const tp_message *const *messages, size_t count) {
  int64_t tokens = 0;
  for (size_t i = 0; i < count; i++) tokens += tp_message_tokens(messages[i]);
  return tokens;
}

/* ---- turns ---- */

/* A host's history need not have ids of turns, so a user's message also begins a turn. */
static bool begins_turn(const tp_message *const *messages, size_t i) {
  if (i == 0) return true;
  if (messages[i]->role == TP_ROLE_TOOL || messages[i]->role == TP_ROLE_END) return false;
  return messages[i]->role == TP_ROLE_USER || !tp_text_equal(messages[i]->turn_id, messages[i - 1]->turn_id);
}

size_t tp__compaction_kept_from(const tp_message *const *messages, size_t count, int64_t tokens_max) {
  size_t kept = count;
  int64_t tokens = 0;
  for (size_t i = count; i > 0 && tokens <= tokens_max; i--) {
    tokens += tp_message_tokens(messages[i - 1]);
    if (tokens <= tokens_max && begins_turn(messages, i - 1)) kept = i - 1;
  }
  return kept;
}

size_t tp__compaction_kept_half(const tp_message *const *messages, size_t count, int64_t tokens_max) {
  size_t kept = tp__compaction_kept_from(messages, count, tokens_max / 2), newest = count;
  if (kept < count) return kept;
  while (newest > 0 && !begins_turn(messages, newest - 1)) newest--;
  if (newest > 0) newest--;
  return tp__messages_tokens(messages + newest, count - newest) <= tokens_max ? newest : count;
}

/* ---- pairs ---- */

static bool answers_one_of(const tp_message *asked, tp_text call_id) {
  for (size_t i = 0; i < asked->call_count; i++)
    if (tp_text_equal(asked->calls[i]->id, call_id)) return true;
  return false;
}

static bool is_answered_by(const tp_message *const *results, size_t count, tp_text call_id) {
  for (size_t i = 0; i < count; i++)
    if (tp_text_equal(results[i]->call_id, call_id)) return true;
  return false;
}

/* Whether the results directly after a message match its calls. */
static bool has_results(const tp_message *const *messages, size_t behind) {
  const tp_message *asked = messages[0], *const *results = messages + 1;
  if (behind < asked->call_count) return false;
  for (size_t i = 0; i < asked->call_count; i++)
    if (results[i]->role != TP_ROLE_TOOL || !answers_one_of(asked, results[i]->call_id) ||
        !is_answered_by(results, asked->call_count, asked->calls[i]->id))
      return false;
  return true;
}

tp_status tp__compaction_check(const tp_message *const *messages, size_t count, tp_fault *fault) {
  for (size_t i = 0; i < count; i++) {
    const tp_message *message = messages[i];
    if (message->role == TP_ROLE_TOOL)
      return tp__fail(fault, TP_ERR_MALFORMED, NULL, "message %zu is a result without its call right before it", i);
    if (!has_results(&messages[i], count - i - 1))
      return tp__fail(fault, TP_ERR_MALFORMED, NULL, "the calls of message %zu have not one result each behind it", i);
    i += message->call_count;
  }
  return TP_OK;
}

/* ---- a summary ---- */

typedef struct transcript {
  const tp_message *const *messages;
  size_t from, count;
} transcript;

static const char *speaker(tp_role role) {
  static const char *const names[] = {
      [TP_ROLE_USER] = "user: ", [TP_ROLE_ASSISTANT] = "assistant: ", [TP_ROLE_TOOL] = "tool result: "};
  return TP__NAME_AT(names, role, "note: ");
}

static tp_text cut_line(tp_text text) { return (tp_text){text.data, tp__utf8_cut(text, LINE_BYTES_MAX)}; }

static void put_message_line(tp__out *out, const tp_message *message) {
  if (message->role == TP_ROLE_END) return;
  tp__out_string(out, speaker(message->role));
  tp__out_text(out, cut_line(message->text));
  if (message->text.size > LINE_BYTES_MAX) tp__out_string(out, " [cut]");
  for (size_t i = 0; i < message->call_count; i++) {
    tp__out_string(out, " [calls ");
    tp__out_text(out, message->calls[i]->name);
    tp__out_string(out, "]");
  }
  tp__out_char(out, '\n');
}

static void write_transcript(tp__out *out, const void *ctx) {
  const transcript *t = ctx;
  if (t->from > 0) tp__out_string(out, "[earlier messages are left out]\n");
  for (size_t i = t->from; i < t->count; i++) put_message_line(out, t->messages[i]);
}

static size_t line_bytes(const tp_message *message) {
  size_t bytes = 32 + (message->text.size < LINE_BYTES_MAX ? message->text.size : LINE_BYTES_MAX);
  for (size_t i = 0; i < message->call_count; i++) bytes += 16 + message->calls[i]->name.size;
  return bytes;
}

tp_text tp__compaction_transcript(tp__arena *arena, const tp_message *const *messages, size_t count, size_t bytes_max) {
  transcript t = {messages, count, count};
  tp_text text = {NULL, 0};
  for (size_t bytes = 32; t.from > 0; t.from--) {
    bytes += line_bytes(messages[t.from - 1]);
    if (bytes > bytes_max) break;
  }
  return tp__out_twice(arena, write_transcript, &t, &text) == TP_OK ? text : (tp_text){NULL, 0};
}
