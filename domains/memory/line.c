/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/line.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "domains/memory/times.h"
#include "runtime/base/check.h"

static const char id_prefix[] = "memory:";

static void write_date(sqlite3_str *into, int64_t unix_ms) {
  time_t seconds = (time_t)(unix_ms / 1000);
  struct tm date;
  char words[32];
  if (gmtime_r(&seconds, &date) && strftime(words, sizeof words, "%Y-%m-%d", &date) > 0)
    sqlite3_str_appendall(into, words);
}

static void append_text(sqlite3_str *into, tp_text text) {
  if (text.size) sqlite3_str_append(into, text.data, (int)text.size);
}

/* Returns where the date of words of time is written: after a genitive ("yesterday's"), whose apostrophe may be
 * typographic. */
static const char *end_after_genitive(const tp__memory_times *times, const char *end) {
  static const char *const genitives[] = {"'s", "\xE2\x80\x99s"};
  const char *at = times->text.data + times->text.size;
  for (size_t i = 0; i < 2; i++) {
    size_t size = strlen(genitives[i]);
    if ((size_t)(end - at) >= size && memcmp(at, genitives[i], size) == 0) return at + size;
  }
  return at;
}

/* Whether a text in parentheses follows already. */
static bool is_explained(const char *at, const char *end) {
  while (at < end && *at == ' ') at++;
  return at < end && *at == '(';
}

/* Writes the text with the dates of its words of time: "last Friday (2023-05-19)". */
static void append_dated(sqlite3_str *into, tp_text text, int64_t said_ms) {
  tp__memory_times times = {.words.left = text, .today = tp__memory_day_of(said_ms)};
  const char *from = text.data, *end = text.size ? text.data + text.size : text.data;
  for (int dated = 0; said_ms > 0 && dated < TP__MEMORY_LINE_DATES_MAX && tp__memory_times_next(&times);) {
    const char *at = end_after_genitive(&times, end);
    char date[TP__MEMORY_TIME_SIZE];
    if (times.says_itself || is_explained(at, end)) continue;
    tp__memory_time_write(&times, date);
    append_text(into, (tp_text){from, (size_t)(at - from)});
    sqlite3_str_appendf(into, " (%s)", date);
    from = at;
    dated++;
  }
  append_text(into, (tp_text){from, (size_t)(end - from)});
}

void tp__memory_line_write(sqlite3_str *into, const tp__memory *memory, size_t text_max) {
  tp_text text = memory->text;
  if (text.size > text_max)
    for (text.size = text_max; text.size > 0 && ((unsigned char)text.data[text.size] & 0xC0) == 0x80;) text.size--;
  sqlite3_str_appendchar(into, 1, '[');
  write_date(into, memory->said_ms);
  if (memory->session.size) sqlite3_str_appendall(into, ", session ");
  append_text(into, memory->session);
  const char *kind = tp__memory_is_assistant(memory->part) ? ", assistant"
                     : memory->subject.size                ? ", fact"
                     : memory->part.size                   ? ", noted"
                                                           : "";
  sqlite3_str_appendall(into, kind);
  if (memory->replaced_ms) {
    sqlite3_str_appendall(into, ", replaced ");
    write_date(into, memory->replaced_ms);
  }
  sqlite3_str_appendall(into, "] ");
  append_dated(into, text, memory->said_ms);
  if (text.size < memory->text.size) sqlite3_str_appendall(into, "\xE2\x80\xA6");
}

tp_text tp__memory_speaker(const tp__memory *memory) {
  if (tp__memory_is_assistant(memory->part)) return memory->part;
  tp_text name = tp__memory_name_before(memory->text);
  return name.size ? name : tp_text_of("user");
}

void tp__memory_part_write(const char *kind, tp_text text, char into[TP__MEMORY_PART_SIZE]) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (size_t i = 0; i < text.size; i++) hash = (hash ^ (unsigned char)text.data[i]) * 1099511628211u;
  snprintf(into, TP__MEMORY_PART_SIZE, "%s%016llx", kind, (unsigned long long)hash);
}

void tp__memory_id_write(int64_t id, char into[TP__MEMORY_ID_SIZE]) {
  assert(id > 0);
  snprintf(into, TP__MEMORY_ID_SIZE, "%s%lld", id_prefix, (long long)id);
}

int64_t tp__memory_id_read(tp_text text) {
  size_t prefix = strlen(id_prefix);
  if (text.size > prefix && memcmp(text.data, id_prefix, prefix) == 0) {
    text.data += prefix;
    text.size -= prefix;
  }
  int64_t id = 0;
  if (text.size == 0 || text.size > 18) return 0; /* 18 digits cannot overflow */
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return 0;
    id = 10 * id + (text.data[i] - '0');
  }
  return id;
}
