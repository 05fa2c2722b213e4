/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a model's answer into facts. SQLite reads the JSON. */
#include "domains/memory/facts.h"

#include <string.h>

#include "domains/memory/store_internal.h"
#include "domains/memory/terms.h"
#include "stores/sqlite/database.h"
#include "stores/sqlite/statement.h"
#include "turnphase/value.h"

/* Rows: subject, statement, quote, replaces of each element of "facts"; NULLs for one that is no object. */
static const char read_sql[] =
    "SELECT iif(e.type = 'object', json_extract(e.value, '$.subject'), NULL),"
    " iif(e.type = 'object', json_extract(e.value, '$.statement'), NULL),"
    " iif(e.type = 'object', json_extract(e.value, '$.quote'), NULL),"
    " iif(e.type = 'object', json_extract(e.value, '$.replaces'), NULL)"
    " FROM json_each(?1, iif(json_type(?1) = 'array', '$', '$.facts')) e";
/* Whether the JSON is {"facts": [...]}, or a list by itself in which each element has a statement. */
static const char check_sql[] =
    "SELECT iif(json_valid(?1), json_type(?1, '$.facts') IS 'array' OR (json_type(?1) = 'array' AND"
    " json_array_length(?1) > 0 AND NOT EXISTS (SELECT 1 FROM json_each(?1) e WHERE e.type IS NOT 'object' OR"
    " json_type(e.value, '$.statement') IS NOT 'text')), 0)";

void tp__memory_facts_fini(tp__memory_facts *facts) {
  sqlite3_free(facts->texts);
  *facts = (tp__memory_facts){.count = 0};
}

/* ---- quotes ---- */

static bool is_fact_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
static char folded(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

static tp_text trim_fact(tp_text text) {
  while (text.size && is_fact_space(text.data[0])) text.data++, text.size--;
  while (text.size && is_fact_space(text.data[text.size - 1])) text.size--;
  return text;
}

static size_t spaces_at(tp_text text, size_t at) {
  size_t end = at;
  while (end < text.size && is_fact_space(text.data[end])) end++;
  return end - at;
}

/* Reads a byte; typographic quotation marks count as ' or ". @param at  moved after it. */
static char read_mark(tp_text text, size_t *at) {
  static const char single[] = "\x98\x99\x9B", twice[] = "\x9C\x9D\x9E";
  const char *bytes = text.data + *at;
  if (text.size - *at >= 3 && memcmp(bytes, "\xE2\x80", 2) == 0 && bytes[2]) {
    const bool is_single = strchr(single, bytes[2]), is_double = strchr(twice, bytes[2]);
    if (is_single || is_double) *at += 3;
    if (is_single || is_double) return is_single ? '\'' : '"';
  }
  ++*at;
  return folded(*bytes);
}

/* Whether the text has the words at this place; all white space counts as equal. */
static bool stands_at(tp_text text, size_t at, tp_text words) {
  for (size_t i = 0; i < words.size;) {
    size_t spaces = spaces_at(words, i), theirs = spaces_at(text, at);
    if ((spaces > 0) != (theirs > 0)) return false;
    i += spaces;
    at += theirs;
    if (at >= text.size || read_mark(text, &at) != read_mark(words, &i)) return false;
  }
  return true;
}

/* Removes the quotation marks around a quote: "…", '…', `…`, «…» and the like. */
static tp_text without_marks(tp_text quote) {
  static const char *const marks[][2] = {{"\"", "\""},
                                         {"'", "'"},
                                         {"`", "`"},
                                         {"\xE2\x80\x9C", "\xE2\x80\x9D"},
                                         {"\xE2\x80\x98", "\xE2\x80\x99"},
                                         {"\xE2\x80\x9E", "\xE2\x80\x9C"},
                                         {"\xC2\xAB", "\xC2\xBB"},
                                         {"\xC2\xBB", "\xC2\xAB"}};
  quote = trim_fact(quote);
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    const size_t before = strlen(marks[i][0]), after = strlen(marks[i][1]);
    if (quote.size <= before + after || memcmp(quote.data, marks[i][0], before) != 0 ||
        memcmp(quote.data + quote.size - after, marks[i][1], after) != 0)
      continue;
    return trim_fact((tp_text){quote.data + before, quote.size - before - after});
  }
  return quote;
}

static bool quotes(tp_text said, tp_text quote) {
  enum { QUOTE_MIN = 3 };
  quote = without_marks(quote);
  if (quote.size < QUOTE_MIN) return false;
  for (size_t at = 0; at < said.size; at++)
    if (!is_fact_space(said.data[at]) && stands_at(said, at, quote)) return true;
  return false;
}

/* ---- elements ---- */

static tp_text column(sqlite3_stmt *row, int index) {
  if (sqlite3_column_type(row, index) != SQLITE_TEXT) return (tp_text){"", 0};
  const char *data = (const char *)sqlite3_column_text(row, index);
  return trim_fact((tp_text){data, (size_t)sqlite3_column_bytes(row, index)});
}

static int64_t known_id(const tp__memory_list *known, int64_t id) {
  for (size_t i = 0; i < known->count; i++)
    if (known->items[i].id == id) return id;
  return 0;
}

static bool is_sound(tp_text subject, tp_text statement) {
  return !tp__memory_is_blank(subject) && subject.size <= TP__MEMORY_SUBJECT_MAX && !tp__memory_is_blank(statement) &&
         statement.size <= TP__MEMORY_STATEMENT_MAX && tp_utf8_valid(subject, NULL) && tp_utf8_valid(statement, NULL);
}

static tp_text put_copy(char **next, tp_text text) {
  char *at = *next;
  memcpy(at, text.data, text.size);
  *next += text.size;
  return (tp_text){at, text.size};
}

static void take_element(sqlite3_stmt *row, tp_text said, const tp__memory_list *known, char **next,
                         tp__memory_facts *facts) {
  tp_text subject = column(row, 0), statement = column(row, 1);
  if (facts->count == TP__MEMORY_FACTS_MAX || !is_sound(subject, statement) || !quotes(said, column(row, 2))) {
    facts->refused++;
    return;
  }
  assert(facts->count < sizeof facts->items / sizeof *facts->items);
  facts->items[facts->count++] = (tp__memory_fact){put_copy(next, subject), put_copy(next, statement),
                                                   known_id(known, sqlite3_column_int64(row, 3))};
}

/* ---- the JSON of an answer ---- */

/* Returns where the value ends that begins here with a brace or a bracket; 0: it does not end. */
static size_t end_of_value(tp_text text) {
  enum { DEPTH_MAX = 32 };
  char closing[DEPTH_MAX];
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size; i++) {
    const char c = text.data[i];
    if (quoted) {
      if (c == '\\') i++;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if (c == '{' || c == '[') {
      if (depth == DEPTH_MAX) return 0;
      closing[depth++] = c == '{' ? '}' : ']';
    } else if (c == '}' || c == ']') {
      if (c != closing[--depth]) return 0;
      if (depth == 0) return i + 1;
    }
  }
  return 0;
}

/* Copies a value without trailing commas. @return its size in bytes. */
static size_t copy_value(tp_text value, char *into) {
  size_t used = 0;
  bool quoted = false;
  for (size_t i = 0; i < value.size; i++) {
    const char c = value.data[i];
    if (quoted && c == '\\') {
      into[used++] = c;
      into[used++] = value.data[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    const size_t next = i + 1 + spaces_at(value, i + 1);
    const char after = next < value.size ? value.data[next] : '\0';
    if (quoted || c != ',' || (after != '}' && after != ']')) into[used++] = c;
  }
  return used;
}

/* Whether the answer says in words that there are no facts: "None.", "There are no facts to keep." */
static bool says_none(tp_text answer) {
  static const char none[] = "none|nothing", no[] = "no|any|without",
                    what[] = "fact|facts|information|memory|memories|detail|details|statement|statements";
  enum { WORDS_MAX = 64, NEAR = 5 };
  tp__memory_words words = {.left = answer};
  int count = 0, negated = -NEAR - 1;
  for (; count < WORDS_MAX && tp__memory_words_next(&words); count++) {
    if (tp__memory_is_one_of(words.word, none, sizeof none - 1)) return true;
    if (tp__memory_is_one_of(words.word, no, sizeof no - 1)) negated = count;
    if (count - negated <= NEAR && tp__memory_is_one_of(words.word, what, sizeof what - 1)) return true;
  }
  return count == 1 && negated == 0;
}

/* ---- the whole ---- */

static int is_as_asked_locked(tp__memory_store *store, tp_text json, bool *ret_is) {
  TP__LOCKED(&store->mutex);
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(store->db, check_sql, -1, &s, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 1, json);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  *ret_is = rc == SQLITE_ROW && sqlite3_column_int(s, 0) == 1;
  sqlite3_finalize(s);
  return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int read_locked(tp__memory_store *store, tp_text json, tp_text said, const tp__memory_list *known,
                       tp__memory_facts *facts) {
  TP__LOCKED(&store->mutex);
  char *next = facts->texts;
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(store->db, read_sql, -1, &s, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 1, json);
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    take_element(s, said, known, &next, facts);
    rc = SQLITE_OK;
  }
  sqlite3_finalize(s);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/** The values of an answer that are JSON of the right form. */
typedef struct found_json {
  char *text; /* as large as the answer */
  size_t size;
  bool found, other; /* other: the answer has a value of another form, such as {} */
} found_json;

/* Looks for the JSON of the right form. The last one counts: a model that thinks aloud tries before it answers. */
static int look_for_json_locked(tp__memory_store *store, tp_text answer, found_json *json) {
  TP__LOCKED(&store->mutex);
  enum { VALUES_MAX = 256 };
  int rc = SQLITE_OK, values = 0;
  char *copy = sqlite3_malloc64(answer.size + 1);
  if (!copy) return SQLITE_NOMEM;
  for (size_t at = 0; rc == SQLITE_OK && at < answer.size && values < VALUES_MAX; at++) {
    if (answer.data[at] != '{' && answer.data[at] != '[') continue;
    const tp_text left = {answer.data + at, answer.size - at};
    const tp_text value = {left.data, end_of_value(left)};
    bool as_asked = false;
    values++;
    json->other = true;
    if (value.size == 0) continue;
    const size_t size = copy_value(value, copy);
    rc = is_as_asked_locked(store, (tp_text){copy, size}, &as_asked);
    if (!as_asked) continue;
    memcpy(json->text, copy, size);
    json->size = size;
    json->found = true;
    at += value.size - 1;
  }
  sqlite3_free(copy);
  return rc;
}

/* Whether the answer says that there are no facts: "[]", "{}", with or without a fence, or in words. */
static bool is_none(tp_text answer, const found_json *json) {
  static const char fence[] = "```", name[] = "json";
  if (!json->other) return says_none(answer);
  answer = trim_fact(answer);
  if (answer.size > 2 * (sizeof fence - 1) && memcmp(answer.data, fence, 3) == 0) {
    answer = (tp_text){answer.data + 3, answer.size - 3};
    if (answer.size > 4 && memcmp(answer.data, name, 4) == 0) answer = (tp_text){answer.data + 4, answer.size - 4};
    if (answer.size >= 3 && memcmp(answer.data + answer.size - 3, fence, 3) == 0) answer.size -= 3;
    answer = trim_fact(answer);
  }
  if (answer.size < 2) return false;
  const tp_text inside = trim_fact((tp_text){answer.data + 1, answer.size - 2});
  const char first = answer.data[0], last = answer.data[answer.size - 1];
  return inside.size == 0 && ((first == '{' && last == '}') || (first == '[' && last == ']'));
}

tp_status tp__memory_facts_read(tp__memory_store *store, tp_text answer, tp_text said, const tp__memory_list *known,
                                tp__memory_facts *ret_facts) {
  found_json json = {.text = sqlite3_malloc64(answer.size + 1)};
  *ret_facts = (tp__memory_facts){.texts = sqlite3_malloc64(answer.size + 1)}; /* a decoded text is never longer than
                                                                                  its JSON */
  tp_status status = json.text && ret_facts->texts ? TP_OK : TP_ERR_NO_MEMORY;
  if (status == TP_OK) {
    tp__lock_acquire(&store->mutex);
    int rc = look_for_json_locked(store, answer, &json);
    if (rc == SQLITE_OK && json.found) rc = read_locked(store, (tp_text){json.text, json.size}, said, known, ret_facts);
    tp__lock_release(&store->mutex);
    status = tp__sqlite_status(rc);
  }
  if (status == TP_OK && !json.found && !is_none(answer, &json)) status = TP_ERR_MALFORMED;
  sqlite3_free(json.text);
  if (status != TP_OK) tp__memory_facts_fini(ret_facts);
  return status;
}
