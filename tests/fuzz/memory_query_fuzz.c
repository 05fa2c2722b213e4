/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the text of a recall, as a remembered text, and as words of time: every answer is TP_OK, within its
 * bounds, from the requested scope, and the same when it is asked again. */
#include <string.h>

#include "domains/memory/line.h"
#include "domains/memory/recall.h"
#include "domains/memory/times.h"
#include "tests/fuzz/must.h"

enum { RECALLED_MAX = 8 };

static const tp__memory_scope home = {{"acme", 4}, {"workspace", 9}, {"home", 4}};
static const tp__memory_scope away = {{"acme", 4}, {"workspace", 9}, {"away", 4}};

static void keep(tp__memory_store *store, const tp__memory_scope *scope, const char *turn, tp_text text) {
  tp__memory memory = {.said_ms = INT64_C(1683554160000),
                       .session = tp_text_of("s"),
                       .turn = tp_text_of(turn),
                       .part = tp_text_of(scope == &away ? "away" : ""),
                       .text = text};
  MUST(tp__memory_put(store, scope, &memory, NULL) == TP_OK);
}

static tp__memory_store *open_store(void) {
  tp__memory_store *store = NULL;
  MUST(tp__memory_store_open(NULL, &store, NULL) == TP_OK);
  keep(store, &home, "1", tp_text_of("Anna: My sister moved to Oslo last Friday. When did I say that?"));
  keep(store, &home, "2", tp_text_of("Bob: You said \"Oslo\" OR scope : 1 AND text NEAR(a b) in 2019."));
  keep(store, &away, "3", tp_text_of("Anna: My sister moved to Oslo. You said that when in 2019?"));
  return store;
}

static tp__memory_list ask(tp__memory_store *store, tp_text text) {
  tp__memory_list list = {0};
  MUST(tp__memory_recall(store, &home, text, RECALLED_MAX, &list) == TP_OK);
  MUST(list.count <= RECALLED_MAX);
  for (size_t i = 0; i < list.count; i++) {
    MUST(list.items[i].part.size == 0 && list.items[i].rank > 0);
    MUST(list.items[i].text.size <= TP__MEMORY_RECALL_TEXT_MAX);
    MUST(i == 0 || list.items[i].rank <= list.items[i - 1].rank);
  }
  return list;
}

static void must_walk_times(tp_text text) {
  tp__memory_times times = {.words.left = text, .today = 19496};
  const char *from = text.data;
  while (tp__memory_times_next(&times)) {
    char date[TP__MEMORY_TIME_SIZE];
    MUST(times.text.data >= from && times.text.data + times.text.size <= text.data + text.size);
    MUST(times.first <= times.last);
    tp__memory_time_write(&times, date);
    MUST(strlen(date) >= 4);
    from = times.text.data + times.text.size;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tp__memory_store *store;
  if (!store) store = open_store();
  tp_text text = {(const char *)data, size};
  must_walk_times(text);
  tp__memory_list first = ask(store, text), again = ask(store, text);
  MUST(first.count == again.count);
  for (size_t i = 0; i < first.count; i++)
    MUST(first.items[i].id == again.items[i].id && first.items[i].rank == again.items[i].rank);
  tp__memory_list_fini(&first);
  tp__memory_list_fini(&again);
  if (size == 0 || size > 4096) return 0;
  keep(store, &home, "4", text); /* replaces the input of the run before */
  first = ask(store, text);
  for (size_t i = 0; i < first.count; i++) {
    sqlite3_str *line = sqlite3_str_new(NULL);
    tp__memory_line_write(line, &first.items[i], 200);
    MUST(sqlite3_str_errcode(line) == SQLITE_OK && sqlite3_str_length(line) > 12);
    sqlite3_free(sqlite3_str_finish(line));
  }
  tp__memory_list_fini(&first);
  return 0;
}
