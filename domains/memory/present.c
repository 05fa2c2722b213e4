/* SPDX-License-Identifier: Apache-2.0
 *
 * All texts are looked for in one walk, by a rolling hash over the messages, since a conversation may have megabytes,
 * and a recall hundreds of texts. */
#include "domains/memory/present.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "domains/memory/memory.h"
#include "domains/memory/recall.h"
#include "domains/memory/secrets.h"

/** The text of a memory that is looked for. */
typedef struct sought {
  tp_text text;
  uint64_t hash; /* the hash of its first TP__MEMORY_PRESENT_BYTES bytes; 0: it is shorter */
  uint32_t next; /* the next text in the same slot, 1 + its index; 0: none */
  bool is_assistant, found;
} sought;

typedef struct walk {
  tp_call *call;
  const tp__memory_list *list;
  sought *items;
  uint32_t *slots; /* for each hash the first text, 1 + its index; 0: none */
  size_t slot_mask;
  bool failed;
} walk;

/* ---- the rolling hash: a polynomial of the window's bytes ---- */

static const uint64_t FACTOR = UINT64_C(0x9E3779B97F4A7C15);

static uint64_t hash_of_window(const char *data) {
  uint64_t hash = 0;
  for (size_t i = 0; i < TP__MEMORY_PRESENT_BYTES; i++) hash = hash * FACTOR + (unsigned char)data[i];
  return hash;
}

/* The factor of the first byte of a window. */
static uint64_t first_factor(void) {
  uint64_t factor = 1;
  for (int i = 1; i < TP__MEMORY_PRESENT_BYTES; i++) factor *= FACTOR;
  return factor;
}

/* The high bits depend on every byte. */
static size_t slot_of(const walk *w, uint64_t hash) { return (size_t)((hash * FACTOR) >> 32) & w->slot_mask; }

static void find_at(walk *w, uint64_t hash, const char *at, size_t left) {
  for (uint32_t i = w->slots[slot_of(w, hash)]; i; i = w->items[i - 1].next) {
    sought *s = &w->items[i - 1];
    if (!s->found && s->hash == hash && s->text.size <= left) s->found = memcmp(s->text.data, at, s->text.size) == 0;
  }
}

static void find_in(walk *w, tp_text text) {
  enum { WINDOW = TP__MEMORY_PRESENT_BYTES };
  const uint64_t first = first_factor();
  if (text.size < WINDOW) return;
  uint64_t hash = hash_of_window(text.data);
  find_at(w, hash, text.data, text.size);
  for (size_t i = WINDOW; i < text.size; i++) {
    hash = (hash - first * (unsigned char)text.data[i - WINDOW]) * FACTOR + (unsigned char)text.data[i];
    find_at(w, hash, text.data + i + 1 - WINDOW, text.size - (i + 1 - WINDOW));
  }
}

/* ---- a message ---- */

/* Whether a message holds the text after redaction: a memory without its secrets differs from the message. */
static bool holds_redacted(walk *w, const tp_message *message, tp_text text) {
  tp_text clean;
  char *block;
  size_t secrets;
  if (tp__memory_redact_secrets(message->text, &clean, &block, &secrets) != TP_OK) {
    w->failed = true;
    return false;
  }
  const size_t size = clean.size + TP__MEMORY_REDACT_SIZE;
  char *buffer = sqlite3_malloc64(size);
  w->failed = w->failed || !buffer;
  bool found = false;
  if (buffer) {
    tp_text left = tp_call_redact(w->call, TP_REDACT_MEMORY, clean, buffer, size);
    found = left.data != message->text.data && memmem(left.data, left.size, text.data, text.size) != NULL;
  }
  sqlite3_free(buffer);
  sqlite3_free(block);
  return found;
}

static void look_at_message(walk *w, sought *s, const tp__memory *memory, const tp_message *message) {
  const tp_role role = s->is_assistant ? TP_ROLE_ASSISTANT : TP_ROLE_USER;
  if (s->text.size < TP__MEMORY_PRESENT_BYTES && tp_text_equal(s->text, message->text)) s->found = true;
  if (s->found || message->role != role || message->turn_id.size == 0) return;
  s->found = tp_text_equal(memory->turn, message->turn_id) && holds_redacted(w, message, s->text);
}

static bool find_in_message(void *ctx, const tp_message *message) {
  walk *w = ctx;
  find_in(w, message->text);
  for (size_t i = 0; i < message->call_count; i++) find_in(w, message->calls[i]->arguments);
  for (size_t i = 0; i < w->list->count; i++)
    if (!w->items[i].found) look_at_message(w, &w->items[i], &w->list->items[i], message);
  return !w->failed;
}

/* ---- the list ---- */

static tp_text without_ellipses(tp_text text) {
  static const char ellipsis[] = "\xE2\x80\xA6";
  enum { MARK = sizeof ellipsis - 1 };
  if (text.size > MARK && memcmp(text.data, ellipsis, MARK) == 0) text = (tp_text){text.data + MARK, text.size - MARK};
  if (text.size > MARK && memcmp(text.data + text.size - MARK, ellipsis, MARK) == 0) text.size -= MARK;
  return text;
}

static void seek(walk *w) {
  for (size_t i = 0; i < w->list->count; i++) {
    const tp__memory *memory = &w->list->items[i];
    sought *s = &w->items[i];
    *s = (sought){.text = without_ellipses(memory->text), .is_assistant = tp__memory_is_assistant(memory->part)};
    if (s->text.size < TP__MEMORY_PRESENT_BYTES) continue;
    s->hash = hash_of_window(s->text.data);
    uint32_t *slot = &w->slots[slot_of(w, s->hash)];
    s->next = *slot;
    *slot = (uint32_t)i + 1;
  }
}

static void remove_found(const sought *items, tp__memory_list *list) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) {
    tp__memory memory = list->items[i];
    if (!items[i].found) { /* removed items go to the end, where the list frees them */
      list->items[i] = list->items[kept];
      list->items[kept++] = memory;
    }
  }
  tp__memory_list_cut(list, kept);
}

tp_status tp__memory_drop_present(tp_call *call, tp__memory_list *list) {
  size_t slots = 64;
  if (list->count == 0 || tp_call_messages(call, NULL, NULL) == 0) return TP_OK;
  while (slots < 16 * list->count) slots *= 2; /* large enough that most windows of a message find an empty slot */
  walk w = {.call = call, .list = list, .slot_mask = slots - 1};
  w.items = sqlite3_malloc64(list->count * sizeof *w.items);
  w.slots = sqlite3_malloc64(slots * sizeof *w.slots);
  w.failed = !w.items || !w.slots;
  if (!w.failed) {
    memset(w.slots, 0, slots * sizeof *w.slots);
    seek(&w);
    (void)tp_call_messages(call, find_in_message, &w);
  }
  if (!w.failed) remove_found(w.items, list);
  sqlite3_free(w.slots);
  sqlite3_free(w.items);
  return w.failed ? TP_ERR_NO_MEMORY : TP_OK;
}
