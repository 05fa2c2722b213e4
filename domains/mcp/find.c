/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/find.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "support/text.h"

enum {
  LEVEL_NAME = 6,
  LEVEL_DESCRIPTION = 4,
  LEVEL_PARAMETER = 2, /* one less when only the beginning of a word is the same */
  STEM_MIN = 3,        /* the least letters of a query's word for a longer word of a tool to fit it */
  SCHEMA_DEPTH_MAX = 8,
  RARITY_MAX = 32,
  SHOWN_BYTES = 200 /* the most bytes of a description in the result */
};

/* ---- words ---- */

static bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80;
}
static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static char lower(char c) { return is_upper(c) ? (char)(c - 'A' + 'a') : c; }

/* Takes the next word off the beginning of a text. */
static bool next_word(tp_text *text, tp_text *ret_word) {
  while (text->size > 0 && !is_word_byte(text->data[0])) *text = (tp_text){text->data + 1, text->size - 1};
  size_t size = 0;
  while (size < text->size && is_word_byte(text->data[size]) &&
         !(size > 0 && is_upper(text->data[size]) && !is_upper(text->data[size - 1])))
    size++;
  *ret_word = (tp_text){text->data, size};
  if (size > 0) *text = (tp_text){text->data + size, text->size - size};
  return size > 0;
}

/* @return 2: the same word; 1: the word of the tool begins with that of the query, which has three letters or more, or
 * the word of the query begins with that of the tool, which has four letters or more; 0: neither. */
static uint8_t likeness(tp_text asked, tp_text word) {
  size_t size = asked.size < word.size ? asked.size : word.size;
  if (asked.size < word.size && size < STEM_MIN) return 0;
  if (asked.size > word.size && size <= STEM_MIN) return 0;
  for (size_t i = 0; i < size; i++)
    if (lower(asked.data[i]) != lower(word.data[i])) return 0;
  return asked.size == word.size ? 2 : 1;
}

static bool is_common(tp_text word) {
  static const char *const words[] = {"a",  "an", "and", "by", "for", "from", "i",     "in",   "is", "it",
                                      "of", "on", "or",  "to", "the", "tool", "tools", "with", NULL};
  for (size_t i = 0; words[i]; i++)
    if (likeness(word, tp_text_of(words[i])) == 2) return true;
  return false;
}

static void take_words(tp__mcp_find *find, bool with_common) {
  tp_text rest = find->query, word;
  while (next_word(&rest, &word)) {
    bool is_known = is_common(word) && !with_common;
    for (size_t i = 0; i < find->word_count && !is_known; i++) is_known = likeness(word, find->words[i]) == 2;
    if (is_known) continue;
    if (find->word_count < TP__MCP_FIND_WORDS_MAX) find->words[find->word_count++] = word;
    else find->words_left_out = true;
  }
}

void tp__mcp_find_begin(tp__mcp_find *find, tp_text query) {
  assert(find->limit > 0 && find->count == 0);
  find->query = query;
  take_words(find, false);
  if (find->word_count == 0) take_words(find, true);
  for (size_t i = 0; i < find->word_count; i++) find->begins[(unsigned char)lower(find->words[i].data[0])] = true;
}

/* ---- a tool ---- */

static void compare_words(const tp__mcp_find *find, tp__mcp_fit *fit, tp_text text, uint8_t level) {
  for (tp_text word; next_word(&text, &word);) {
    if (!find->begins[(unsigned char)lower(word.data[0])]) continue; /* most words cannot be one of the query's */
    for (size_t i = 0; i < find->word_count; i++) {
      if (fit->levels[i] >= level) continue;
      uint8_t alike = likeness(find->words[i], word);
      uint8_t reached = alike == 2 ? level : alike == 1 ? (uint8_t)(level - 1) : 0;
      if (reached > fit->levels[i]) fit->levels[i] = reached;
    }
  }
}

/* Compares names of parameters, and their descriptions. */
static void compare_schema(const tp__mcp_find *find, tp__mcp_fit *fit, tp_text schema, int depth) {
  if (depth == SCHEMA_DEPTH_MAX) return;
  for (tp_value_walk walk = {0}; tp_value_next(schema, &walk);) {
    bool is_words = tp__is_word(walk.key, "description") || tp__is_word(walk.key, "title");
    if (is_words && tp_value_kind_of(walk.value) == TP_VALUE_TEXT)
      compare_words(find, fit, tp_value_text(walk.value), LEVEL_PARAMETER);
    if (tp__is_word(walk.key, "properties"))
      for (tp_value_walk each = {0}; tp_value_next(walk.value, &each);)
        compare_words(find, fit, each.key, LEVEL_PARAMETER);
    compare_schema(find, fit, walk.value, depth + 1);
  }
}

static bool is_separator(char c) { return c == ' ' || c == ',' || c == '\n' || c == '\t' || c == '\r'; }

/* Whether the query contains the name, with or without mcp__SERVER__, as a whole word. */
static bool has_name(tp_text query, const char *name) {
  const char *rest = strncmp(name, TP__MCP_PREFIX, sizeof TP__MCP_PREFIX - 1) == 0
                         ? strstr(name + sizeof TP__MCP_PREFIX - 1, "__")
                         : NULL;
  for (size_t at = 0, size; at < query.size; at += size + 1) {
    size = 0;
    while (at + size < query.size && !is_separator(query.data[at + size])) size++;
    tp_text token = {query.data + at, size};
    if (tp_text_is(token, name) || (rest && rest[2] && tp_text_is(token, rest + 2))) return true;
  }
  return false;
}

void tp__mcp_find_take(tp__mcp_find *find, const tp_tool *tool) {
  tp__mcp_fit fit = {.tool = tool, .index = find->count, .is_named = has_name(find->query, tool->name)};
  const size_t prefix =
      strncmp(tool->name, TP__MCP_PREFIX, sizeof TP__MCP_PREFIX - 1) == 0 ? sizeof TP__MCP_PREFIX - 1 : 0;
  compare_words(find, &fit, tp_text_of(tool->name + prefix), LEVEL_NAME);
  compare_words(find, &fit, tp_text_of(tool->description), LEVEL_DESCRIPTION);
  compare_schema(find, &fit, tool->schema, 0);
  if (find->failed || !tp__grow(tp__heap, (void **)&find->fits, &find->capacity, find->count + 1, sizeof *find->fits)) {
    find->failed = true;
    return;
  }
  find->fits[find->count++] = fit;
}

/* ---- what was found ---- */

static int compare_fits(const void *a, const void *b) {
  const tp__mcp_fit *one = a, *other = b;
  if (one->is_named != other->is_named) return other->is_named - one->is_named;
  if (one->score != other->score) return one->score < other->score ? 1 : -1;
  return (one->index > other->index) - (one->index < other->index);
}

static size_t sort_fits(tp__mcp_find *find) {
  size_t fitting = 0;
  if (find->count > 0) qsort(find->fits, find->count, sizeof *find->fits, compare_fits);
  while (fitting < find->count && (find->fits[fitting].is_named || find->fits[fitting].score > 0)) fitting++;
  return fitting;
}

/* Adds a tool with the first line of its description. */
static void put_tool(tp__bytes *text, const tp_tool *tool) {
  tp_text said = tp_text_of(tool->description);
  const char *end = said.size ? memchr(said.data, '\n', said.size) : NULL;
  if (end) said.size = (size_t)(end - said.data);
  size_t shown = (size_t)tp__cut(said, SHOWN_BYTES);
  tp__bytes_put_string(text, tool->name);
  if (shown > 0) tp__bytes_put_string(text, ": ");
  tp__bytes_put(text, said.data, shown);
  tp__bytes_put_string(text, tool->description && tool->description[shown] ? "…\n" : "\n");
}

bool tp__mcp_find_end(tp__mcp_find *find, tp_writer *writer, tp__bytes *text) {
  if (find->failed) return false;
  /* A word that few tools have counts more than one that all tools have. */
  for (size_t w = 0; w < find->word_count; w++) {
    size_t having = 0;
    for (size_t i = 0; i < find->count; i++) having += find->fits[i].levels[w] > 0;
    size_t rarity = having ? find->count / having : 0;
    uint32_t weight = (uint32_t)(rarity > RARITY_MAX ? RARITY_MAX : rarity) + 1;
    for (size_t i = 0; i < find->count; i++) find->fits[i].score += find->fits[i].levels[w] * weight;
  }
  size_t fitting = sort_fits(find), count = fitting < find->limit ? fitting : find->limit;
  tp_write_map(writer, 1);
  tp_write_string(writer, "tools");
  tp_write_array(writer, count);
  for (size_t i = 0; i < count; i++) tp_write_string(writer, find->fits[i].tool->name);
  if (count == 0) {
    tp__bytes_printf(text, "None of the %zu tools of servers has one of these words. Try other words for the same.",
                     find->count);
    return true;
  }
  tp__bytes_printf(text, "%s can be called from the next answer on:\n", count == 1 ? "This tool" : "These tools");
  for (size_t i = 0; i < count; i++) put_tool(text, find->fits[i].tool);
  if (fitting > count)
    tp__bytes_printf(text, "%zu more fit less well: search with more words, or with other ones.\n", fitting - count);
  if (find->words_left_out)
    tp__bytes_printf(text, "Only the first %d words of the query were looked for.\n", TP__MCP_FIND_WORDS_MAX);
  return true;
}

void tp__mcp_find_fini(tp__mcp_find *find) {
  tp__heap_free(find->fits, find->capacity * sizeof *find->fits);
  *find = (tp__mcp_find){0};
}
