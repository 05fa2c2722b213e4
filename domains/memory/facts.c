/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model answered becomes facts. SQLite reads the JSON. */
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
    " iif(e.type = 'object', json_extract(e.value, '$.replaces'), NULL) FROM json_each(?1, '$.facts') e";
static const char check_sql[] = "SELECT iif(json_valid(?1), json_type(?1, '$.facts') IS 'array', 0)";

void tp__memory_facts_fini(tp__memory_facts *facts) {
  sqlite3_free(facts->texts);
  *facts = (tp__memory_facts){.count = 0};
}

/* ---- quotes ---- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
static char folded(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

static tp_text trimmed(tp_text text) {
  while (text.size && is_space(text.data[0])) text.data++, text.size--;
  while (text.size && is_space(text.data[text.size - 1])) text.size--;
  return text;
}

static size_t spaces_at(tp_text text, size_t at) {
  size_t end = at;
  while (end < text.size && is_space(text.data[end])) end++;
  return end - at;
}

/* Whether the text has the words there; any white space is as good as any other. */
static bool stands_at(tp_text text, size_t at, tp_text words) {
  for (size_t i = 0; i < words.size;) {
    size_t spaces = spaces_at(words, i), theirs = spaces_at(text, at);
    if ((spaces > 0) != (theirs > 0)) return false;
    i += spaces;
    at += theirs;
    if (at >= text.size || folded(text.data[at++]) != folded(words.data[i++])) return false;
  }
  return true;
}

static bool quotes(tp_text said, tp_text quote) {
  enum { QUOTE_MIN = 3 };
  quote = trimmed(quote);
  if (quote.size < QUOTE_MIN) return false;
  for (size_t at = 0; at < said.size; at++)
    if (!is_space(said.data[at]) && stands_at(said, at, quote)) return true;
  return false;
}

/* ---- elements ---- */

static tp_text column(sqlite3_stmt *row, int index) {
  if (sqlite3_column_type(row, index) != SQLITE_TEXT) return (tp_text){"", 0};
  const char *data = (const char *)sqlite3_column_text(row, index);
  return trimmed((tp_text){data, (size_t)sqlite3_column_bytes(row, index)});
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

/* ---- the whole ---- */

static tp_text json_of(tp_text answer) {
  const char *begin = answer.size ? memchr(answer.data, '{', answer.size) : NULL;
  if (!begin) return (tp_text){"", 0};
  size_t end = answer.size;
  while (answer.data[end - 1] != '}' && answer.data + end - 1 > begin) end--;
  return (tp_text){begin, (size_t)(answer.data + end - begin)};
}

static int is_as_asked_locked(tp__memory_store *store, tp_text json, bool *ret_is) {
  TP__LOCKED(&store->reader->mutex);
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(store->reader->db, check_sql, -1, &s, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 1, json);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  *ret_is = rc == SQLITE_ROW && sqlite3_column_int(s, 0) == 1;
  sqlite3_finalize(s);
  return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int read_locked(tp__memory_store *store, tp_text json, tp_text said, const tp__memory_list *known,
                       tp__memory_facts *facts) {
  TP__LOCKED(&store->reader->mutex);
  char *next = facts->texts;
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(store->reader->db, read_sql, -1, &s, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 1, json);
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    take_element(s, said, known, &next, facts);
    rc = SQLITE_OK;
  }
  sqlite3_finalize(s);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

tp_status tp__memory_facts_read(tp__memory_store *store, tp_text answer, tp_text said, const tp__memory_list *known,
                                tp__memory_facts *ret_facts) {
  tp_text json = json_of(answer);
  bool as_asked = false;
  *ret_facts = (tp__memory_facts){.texts = sqlite3_malloc64(json.size + 1)}; /* no text is longer than in JSON */
  if (!ret_facts->texts) return TP_ERR_NO_MEMORY;
  tp__lock_acquire(&store->reader->mutex);
  int rc = is_as_asked_locked(store, json, &as_asked);
  if (rc == SQLITE_OK && as_asked) rc = read_locked(store, json, said, known, ret_facts);
  tp__lock_release(&store->reader->mutex);
  tp_status status = tp__sqlite_status(rc);
  if (status == TP_OK && !as_asked) status = TP_ERR_MALFORMED;
  if (status != TP_OK) tp__memory_facts_fini(ret_facts);
  return status;
}
