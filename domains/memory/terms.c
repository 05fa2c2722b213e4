/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/terms.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* English words that are in every conversation and say nothing about its subject; sorted. The parts of words with an
 * apostrophe (don't: don, t) are among them. */
static const char *const stop_words[] = {
    "a",        "about",      "above",  "after",  "again",   "all",   "also",    "am",    "an",        "and",
    "any",      "are",        "aren",   "as",     "at",      "be",    "because", "been",  "before",    "being",
    "below",    "between",    "both",   "but",    "by",      "can",   "cannot",  "could", "couldn",    "d",
    "did",      "didn",       "do",     "does",   "doesn",   "doing", "don",     "done",  "down",      "during",
    "each",     "few",        "for",    "from",   "further", "get",   "gets",    "got",   "had",       "has",
    "hasn",     "have",       "haven",  "having", "he",      "her",   "here",    "hers",  "herself",   "him",
    "himself",  "his",        "how",    "i",      "if",      "in",    "into",    "is",    "isn",       "it",
    "its",      "itself",     "just",   "let",    "like",    "ll",    "m",       "may",   "me",        "might",
    "more",     "most",       "must",   "my",     "myself",  "no",    "nor",     "not",   "now",       "of",
    "off",      "on",         "once",   "only",   "or",      "other", "our",     "ours",  "ourselves", "out",
    "over",     "own",        "please", "re",     "s",       "same",  "shall",   "she",   "should",    "shouldn",
    "so",       "some",       "such",   "t",      "tell",    "than",  "that",    "the",   "their",     "theirs",
    "them",     "themselves", "then",   "there",  "these",   "they",  "this",    "those", "through",   "to",
    "too",      "under",      "until",  "up",     "upon",    "us",    "ve",      "very",  "was",       "wasn",
    "we",       "were",       "weren",  "what",   "when",    "where", "which",   "while", "who",       "whom",
    "whose",    "why",        "will",   "with",   "won",     "would", "wouldn",  "you",   "your",      "yours",
    "yourself", "yourselves"};

static int compare_word(const void *key, const void *item) {
  const tp_text *word = key;
  const char *stop = *(const char *const *)item;
  int order = sqlite3_strnicmp(word->data, stop, (int)word->size); /* compares ASCII only, whatever the locale is */
  return order != 0 ? order : stop[word->size] ? -1 : 0;
}

bool tp__memory_is_stop_word(tp_text word) {
  enum { LONGEST = 10 };
  if (word.size > LONGEST) return false;
  size_t count = sizeof stop_words / sizeof stop_words[0];
  return bsearch(&word, stop_words, count, sizeof stop_words[0], compare_word) != NULL;
}

/** An irregular form and the stem of its base. */
static const struct form {
  const char *word, *stem;
} forms[] = {
#define FORM(word, base, stem) {word, stem},
#include "domains/memory/forms.def"
#undef FORM
};

static int compare_form(const void *key, const void *item) {
  const struct form *form = item;
  return compare_word(key, &form->word);
}

tp_text tp__memory_base_stem(tp_text word) {
  enum { SHORTEST = 3, LONGEST = 10 };
  if (word.size < SHORTEST || word.size > LONGEST) return (tp_text){"", 0};
  const struct form *form = bsearch(&word, forms, sizeof forms / sizeof forms[0], sizeof forms[0], compare_form);
  return form ? tp_text_of(form->stem) : (tp_text){"", 0};
}

uint32_t tp__memory_point(tp_text text, size_t *ret_size) {
  assert(text.size > 0);
  const unsigned char *b = (const unsigned char *)text.data;
  size_t size = b[0] < 0x80 ? 1 : b[0] >= 0xF0 ? 4 : b[0] >= 0xE0 ? 3 : b[0] >= 0xC0 ? 2 : 1;
  *ret_size = 1;
  if (size == 1) return b[0] < 0x80 ? b[0] : 'x';
  if (size > text.size) return 'x';
  uint32_t point = b[0] & (0xFFu >> (size + 1));
  for (size_t i = 1; i < size; i++) {
    if ((b[i] & 0xC0) != 0x80) return 'x';
    point = point << 6 | (b[i] & 0x3Fu);
  }
  *ret_size = size;
  return point;
}

bool tp__memory_is_unspaced(uint32_t point) {
  static const uint32_t ranges[][2] = {
      {0x0E00, 0x0FFF}, {0x1000, 0x109F}, {0x1100, 0x11FF}, {0x1780, 0x17FF},   {0x3005, 0x3007},  {0x3040, 0x30FF},
      {0x3130, 0x318F}, {0x31F0, 0x31FF}, {0x3400, 0x4DBF}, {0x4E00, 0x9FFF},   {0xA9E0, 0xA9FF},  {0xAA60, 0xAA7F},
      {0xAC00, 0xD7FF}, {0xF900, 0xFAFF}, {0xFF66, 0xFF9F}, {0x1B000, 0x1B16F}, {0x20000, 0x3FFFF}};
  if (point < ranges[0][0]) return false;
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (point >= ranges[i][0] && point <= ranges[i][1]) return true;
  return false;
}

/* Whether a code point is a letter. Beyond ASCII everything is, except Latin-1 signs, general and CJK punctuation,
 * symbols and emoji. If the index does not accept a code point as a letter, words with it are not found, which does no
 * harm. */
static bool is_letter(uint32_t point) {
  if (point < 0x80)
    return (point >= '0' && point <= '9') || (point >= 'A' && point <= 'Z') || (point >= 'a' && point <= 'z');
  if (point < 0xC0) return point == 0xAA || point == 0xB5 || point == 0xBA;
  if (point == 0xD7 || point == 0xF7) return false;
  return !((point >= 0x2000 && point <= 0x2BFF) || (point >= 0x3000 && point <= 0x3004) ||
           (point >= 0x3008 && point <= 0x3020) || (point >= 0xE000 && point <= 0xF8FF) ||
           (point >= 0xFE00 && point <= 0xFE6F) || (point >= 0xFF01 && point <= 0xFF0F) ||
           (point >= 0x1F000 && point <= 0x1FAFF));
}

static bool is_apostrophe(uint32_t point) { return point == '\'' || point == 0x2019; }
static bool is_term_space(uint32_t point) { return point == ' ' || point == '\t' || point == '_'; }

/* How many ASCII letters and digits are at the start of the text: nearly all letters are ASCII. */
static size_t ascii_letters(tp_text text) {
  size_t count = 0;
  for (; count < text.size; count++) {
    const unsigned char c = (unsigned char)text.data[count], lower = c | 0x20;
    if (!((lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9'))) break;
  }
  return count;
}

static void skip(tp_text *text, size_t size) {
  text->data += size;
  text->size -= size;
}

/* Skips to the next letter. @return whether the skipped bytes end a clause: they are more than spaces and
 * apostrophes. */
static bool skip_separators(tp_text *left) {
  bool clause = false;
  if (left->size && *left->data == ' ') skip(left, 1);
  while (left->size && ascii_letters((tp_text){left->data, 1}) == 0) {
    size_t size;
    uint32_t point = tp__memory_point(*left, &size);
    if (is_letter(point)) break;
    clause = clause || !(is_term_space(point) || is_apostrophe(point));
    skip(left, size);
  }
  return clause;
}

bool tp__memory_words_next(tp__memory_words *words) {
  words->begins_clause = skip_separators(&words->left) || !words->started;
  words->started = true;
  words->word = (tp_text){words->left.data, 0};
  while (words->left.size) {
    size_t size = ascii_letters(words->left);
    words->word.size += size;
    skip(&words->left, size);
    if (words->left.size == 0 || !is_letter(tp__memory_point(words->left, &size))) break;
    words->word.size += size;
    skip(&words->left, size);
  }
  return words->word.size > 0;
}

bool tp__memory_same_word(tp_text a, tp_text b) {
  return a.size == b.size && sqlite3_strnicmp(a.data, b.data, (int)a.size) == 0;
}

bool tp__memory_is_one_of(tp_text word, const char *alternatives, size_t size) {
  while (size) {
    const char *bar = memchr(alternatives, '|', size);
    size_t length = bar ? (size_t)(bar - alternatives) : size;
    if (tp__memory_same_word(word, (tp_text){alternatives, length})) return true;
    if (!bar) return false;
    alternatives += length + 1;
    size -= length + 1;
  }
  return false;
}

static bool has_term(const tp__memory_terms *terms, tp_text word) {
  for (size_t i = 0; i < terms->count; i++)
    if (tp__memory_same_word(terms->items[i], word)) return true;
  return false;
}

/* How many bytes the whole code points at the start of a non-empty text have, at most max. */
static size_t bytes_of_points(tp_text text, size_t max) {
  size_t bytes = 0, size = 0;
  for (tp_text left = text; left.size > 0; skip(&left, size)) {
    tp__memory_point(left, &size);
    if (bytes + size > max) break;
    bytes += size;
  }
  return bytes;
}

void tp__memory_terms_of(tp_text text, tp__memory_terms *ret_terms) {
  if (text.size > TP__MEMORY_TERMS_TEXT_MAX) text.size = TP__MEMORY_TERMS_TEXT_MAX;
  tp__memory_words words = {.left = text};
  ret_terms->count = 0;
  while (ret_terms->count < TP__MEMORY_TERMS_MAX && tp__memory_words_next(&words)) {
    tp_text word = words.word;
    size_t size;
    bool comes_in_pieces = tp__memory_is_unspaced(tp__memory_point(word, &size));
    if (word.size > TP__MEMORY_TERM_BYTES_MAX && !comes_in_pieces) continue;
    while (word.size > 0 && ret_terms->count < TP__MEMORY_TERMS_MAX) {
      tp_text piece = {word.data, bytes_of_points(word, TP__MEMORY_TERM_BYTES_MAX)};
      skip(&word, piece.size);
      if (tp__memory_is_stop_word(piece) || has_term(ret_terms, piece)) continue;
      ret_terms->items[ret_terms->count++] = piece;
    }
  }
}

tp_text tp__memory_name_before(tp_text text) {
  enum { NAME_BYTES_MAX = 40 };
  size_t words = 0;
  for (size_t i = 0; i < text.size && i <= NAME_BYTES_MAX; i++) {
    bool starts = i == 0 || text.data[i - 1] == ' ';
    if (text.data[i] == ':')
      return i && i + 1 < text.size && text.data[i + 1] == ' ' ? (tp_text){text.data, i} : (tp_text){0};
    if (starts && (text.data[i] < 'A' || text.data[i] > 'Z' || ++words > 3)) break;
    if (memchr(".,;!?\"()\n", text.data[i], 9)) break;
  }
  return (tp_text){0};
}

bool tp__memory_is_blank(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (!memchr(" \t\r\n", text.data[i], 4)) return false;
  return true;
}

/* Whether a full stop ends a sentence: inside a word or number ("3.5", "v1.2") it does not. */
static bool ends_sentence(tp_text text, size_t at) {
  char c = text.data[at];
  if (c == '!' || c == '\n') return true;
  return c == '.' && (at + 1 == text.size || text.data[at + 1] == ' ' || text.data[at + 1] == '\n');
}

bool tp__memory_only_asks(tp_text text) {
  while (text.size && memchr(" \t\r\n", text.data[text.size - 1], 4)) text.size--;
  if (!text.size || text.data[text.size - 1] != '?') return false;
  for (size_t i = 0; i < text.size; i++)
    if (ends_sentence(text, i)) return false;
  return true;
}
