/* SPDX-License-Identifier: Apache-2.0
 *
 * The quality of recall on a real conversation. Every utterance of LoCoMo's conversation 26 is remembered. Then each
 * question with known evidence is asked. It counts as answered when an utterance of its evidence is among the recalled
 * ones. The conversation is not part of this tree; without it the test is skipped. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/conversations.h"
#include "tests/support/test.h"
#include "domains/memory/recall.h"

enum {
  FIRST_MAX = 10,
  TOTAL_MAX = 64,
  BYTES_MAX = 12000,
  PREFIX_BYTES = 40, /* the date and session before each text */
  QUESTIONS = 197,
  UTTERANCES = 419
};

static char *conversation; /* its JSON; SQLite reads it */
static sqlite3 *reader;

static const tp__memory_scope scope = {.tenant = {"acme", 4}, .kind = {"workspace", 9}, .name = {"home", 4}};

static char *read_conversation(void) {
  char path[4096];
  conversations_path("locomo/26.json", path, sizeof path);
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  char *text = calloc(1, (size_t)size + 1);
  if (text && fread(text, 1, (size_t)size, file) != (size_t)size) text[0] = '\0';
  fclose(file);
  return text;
}

static sqlite3_stmt *query(const char *sql) {
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(reader, sql, -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_bind_text(statement, 1, conversation, -1, SQLITE_STATIC), SQLITE_OK);
  return statement;
}

static tp_text column(sqlite3_stmt *row, int index) {
  const char *text = (const char *)sqlite3_column_text(row, index);
  return (tp_text){text ? text : "", (size_t)sqlite3_column_bytes(row, index)};
}

static void remember(tp__memory_store *store, tp_text session, tp_text turn, tp_text text) {
  tp__memory memory = {.said_ms = 1, .session = session, .turn = turn, .text = text};
  assert_int_equal(tp__memory_put(store, &scope, &memory, NULL), TP_OK);
}

/* Session by session, in the order of the conversation. */
static tp__memory_store *remember_everything(void) {
  tp__memory_store *store = NULL;
  assert_int_equal(tp__memory_store_open(NULL, &store, NULL), TP_OK);
  sqlite3_stmt *row = query(
      "SELECT s.key, u.value ->> 'dia_id', (u.value ->> 'speaker') || ': ' || (u.value ->> 'text')"
      " FROM json_each(?1) s JOIN json_each(s.value) u WHERE s.key GLOB 'session_[0-9]*' AND s.type = 'array'"
      " AND NOT s.key GLOB '*_*_*' ORDER BY CAST(substr(s.key, 9) AS INTEGER), u.key");
  int count = 0;
  for (; sqlite3_step(row) == SQLITE_ROW; count++) remember(store, column(row, 0), column(row, 1), column(row, 2));
  sqlite3_finalize(row);
  assert_int_equal(count, UTTERANCES);
  return store;
}

/** What the questions came to. */
typedef struct tally {
  int questions, first, all, cut;
} tally;

static bool among(const tp__memory_list *list, size_t count, const char *evidence) {
  for (size_t i = 0; i < count; i++) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%.*s\"", (int)list->items[i].turn.size, list->items[i].turn.data);
    if (strstr(evidence, quoted)) return true;
  }
  return false;
}

/* Asks a question, and counts whether its evidence is among the texts that a turn would get (BYTES_MAX). */
static void ask(tp__memory_store *store, tp_text question, const char *evidence, tally *all) {
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_recall(store, &scope, question, TOTAL_MAX, &list), TP_OK);
  size_t bytes = 0, fits = 0;
  while (fits < list.count && (bytes += list.items[fits].text.size + PREFIX_BYTES) <= BYTES_MAX) fits++;
  all->questions++;
  all->cut += fits < list.count;
  all->first += among(&list, fits < FIRST_MAX ? fits : FIRST_MAX, evidence);
  all->all += among(&list, fits, evidence);
  tp__memory_list_fini(&list);
}

static tally ask_everything(tp__memory_store *store, bool remember_questions) {
  tally all = {0};
  sqlite3_stmt *row = query(
      "SELECT value ->> 'question', value ->> 'evidence', key FROM json_each(?1, '$.qa')"
      " WHERE json_array_length(value, '$.evidence') > 0 ORDER BY key");
  while (sqlite3_step(row) == SQLITE_ROW) {
    ask(store, column(row, 0), column(row, 1).data, &all);
    if (remember_questions) remember(store, (tp_text){"questions", 9}, column(row, 2), column(row, 0));
  }
  sqlite3_finalize(row);
  assert_int_equal(all.questions, QUESTIONS);
  return all;
}

static void print_tally(const char *title, const tally *all) {
  printf(
      "# %s: evidence recalled for %d of %d questions (%.1f %%); among the first %d entries for %d; %d over the "
      "budget\n",
      title, all->all, all->questions, 100.0 * all->all / all->questions, FIRST_MAX, all->first, all->cut);
}

TEST(evidence_is_recalled_for_most_questions) {
  tp__memory_store *store = remember_everything();
  tally all = ask_everything(store, false);
  print_tally("questions not remembered", &all);
  assert_true(all.all >= 176 && all.first >= 156); /* a change that falls below has lost something */
  tp__memory_store_close(store);
}

/* As in a session that asks the questions one after the other: earlier questions must not displace the answers. */
TEST(earlier_questions_do_not_displace_the_evidence) {
  tp__memory_store *store = remember_everything();
  tally all = ask_everything(store, true);
  print_tally("questions remembered as asked", &all);
  assert_true(all.all >= 175);
  tp__memory_store_close(store);
}

TEST_MAIN(count, arguments) {
  conversation = read_conversation();
  if (!conversation) {
    puts("1..0 # SKIP the conversation (locomo/26.json in TURNPHASE_CONVERSATIONS, else ../shared/data) is not there");
    return 0;
  }
  if (sqlite3_open(":memory:", &reader) != SQLITE_OK) return 1;
  int failed = test_main(count, arguments);
  sqlite3_close(reader);
  free(conversation);
  return failed;
}
