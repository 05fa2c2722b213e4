/* SPDX-License-Identifier: Apache-2.0
 *
 * Random tenants, scopes, texts, changes and queries: a scope that shares its file with others recalls exactly what it
 * would recall in a file of its own, in the same order and with the same ranks. So nothing passes from one scope to
 * another, and ranks do not depend on the data of others. A failure prints the seed. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "domains/memory/recall.h"

enum { SCOPES = 6, SEEDS = 60, STEPS = 160, TEXT_SIZE = 256, RECALLED_MAX = 20 };

/* Empty ids, equal names of other kinds and tenants, and ids that are the beginning of other ids. */
static const tp__memory_scope scopes[SCOPES] = {
    {{"acme", 4}, {"workspace", 9}, {"home", 4}}, {{"acme", 4}, {"workspace", 9}, {"hom", 3}},
    {{"acme", 4}, {"thread", 6}, {"home", 4}},    {{"acm", 3}, {"workspace", 9}, {"home", 4}},
    {{"", 0}, {"workspace", 9}, {"home", 4}},     {{"acme", 4}, {"workspace", 9}, {"", 0}}};

static uint64_t state_of_random;

static uint32_t draw(uint32_t below) {
  state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state_of_random >> 33) % below;
}

static void write_text(char into[TEXT_SIZE]) {
  static const char *const words[] = {"Oslo", "cat",       "jazz",      "May",       "2023", "I",
                                      "you",  "said",      "yesterday", "xylophone", "the",  "?",
                                      "Anna", "gardening", "garden",    "when",      "did",  "7",
                                      "\"",   "OR",        "NEAR(",     "scope",     "-",    "\xC3\xA9t\xC3\xA9"};
  static const char *const starts[] = {"", "", "Anna: ", "Bob: ", "Anna: ", "Mr. X: "};
  size_t used = (size_t)snprintf(into, TEXT_SIZE, "%s", starts[draw(6)]);
  for (uint32_t left = 1 + draw(12); left > 0 && used < TEXT_SIZE - 16; left--)
    used += (size_t)snprintf(into + used, TEXT_SIZE - used, "%s ", words[draw(sizeof words / sizeof words[0])]);
  if (draw(4) == 0) into[used - 1] = '?';
}

typedef struct world {
  tp__memory_store *shared, *alone[SCOPES];
  unsigned seed;
} world;

static void put(world *w, uint32_t scope, uint32_t step) {
  char text[TEXT_SIZE], turn[16];
  static const char *const sessions[] = {"s", "t", ""};
  write_text(text);
  snprintf(turn, sizeof turn, "t%u", draw(8) == 0 && step > 0 ? draw(step) : step); /* some replace another */
  tp__memory memory = {.said_ms = INT64_C(1683554160000) + (int64_t)draw(400) * 86400000,
                       .session = tp_text_of(sessions[draw(3)]),
                       .turn = tp_text_of(turn),
                       .part = tp_text_of(draw(3) == 0 ? tp__memory_assistant : ""),
                       .text = tp_text_of(text)};
  assert_int_equal(tp__memory_put(w->shared, &scopes[scope], &memory, NULL), TP_OK);
  assert_int_equal(tp__memory_put(w->alone[scope], &scopes[scope], &memory, NULL), TP_OK);
}

/* Forgets the same memory in both stores. It is chosen by its place from the newest. */
static void forget(world *w, uint32_t scope) {
  tp__memory_list shared = {0}, alone = {0};
  assert_int_equal(tp__memory_newest(w->shared, &scopes[scope], 0, 8, &shared), TP_OK);
  assert_int_equal(tp__memory_newest(w->alone[scope], &scopes[scope], 0, 8, &alone), TP_OK);
  assert_int_equal(shared.count, alone.count);
  if (shared.count > 0) {
    size_t at = draw((uint32_t)shared.count);
    assert_int_equal(tp__memory_forget(w->shared, &scopes[(scope + 1) % SCOPES], shared.items[at].id),
                     TP_ERR_NOT_FOUND);
    assert_int_equal(tp__memory_forget(w->shared, &scopes[scope], shared.items[at].id), TP_OK);
    assert_int_equal(tp__memory_forget(w->alone[scope], &scopes[scope], alone.items[at].id), TP_OK);
  }
  tp__memory_list_fini(&shared);
  tp__memory_list_fini(&alone);
}

static bool same(tp_text a, tp_text b) { return a.size == b.size && memcmp(a.data, b.data, a.size) == 0; }

static void ask(world *w, uint32_t scope) {
  char text[TEXT_SIZE];
  tp__memory_list shared = {0}, alone = {0};
  write_text(text);
  assert_int_equal(tp__memory_recall(w->shared, &scopes[scope], tp_text_of(text), RECALLED_MAX, &shared), TP_OK);
  assert_int_equal(tp__memory_recall(w->alone[scope], &scopes[scope], tp_text_of(text), RECALLED_MAX, &alone), TP_OK);
  bool equal = shared.count == alone.count;
  for (size_t i = 0; equal && i < shared.count; i++) {
    const tp__memory *a = &shared.items[i], *b = &alone.items[i];
    equal = a->rank == b->rank && same(a->turn, b->turn) && same(a->session, b->session) && same(a->text, b->text);
  }
  if (!equal) fail_msg("seed %u, scope %u: '%s' recalls something else in a shared file", w->seed, scope, text);
  tp__memory_list_fini(&shared);
  tp__memory_list_fini(&alone);
}

TEST(what_others_store_changes_nothing) {
  for (unsigned seed = 1; seed <= SEEDS; seed++) {
    world w = {.seed = seed};
    state_of_random = seed;
    assert_int_equal(tp__memory_store_open(NULL, &w.shared, NULL), TP_OK);
    for (int i = 0; i < SCOPES; i++) assert_int_equal(tp__memory_store_open(NULL, &w.alone[i], NULL), TP_OK);
    for (uint32_t step = 0; step < STEPS; step++) {
      uint32_t scope = draw(SCOPES), what = draw(8);
      if (what == 0) forget(&w, scope);
      else if (what < 3) ask(&w, scope);
      else put(&w, scope, step);
    }
    for (uint32_t scope = 0; scope < SCOPES; scope++) ask(&w, scope);
    tp__memory_store_close(w.shared);
    for (int i = 0; i < SCOPES; i++) tp__memory_store_close(w.alone[i]);
  }
}

/* ---- what is left early ---- */

/* A line that is skipped before all of its parts were checked is not among the best. With space for all lines, none is
 * skipped. */
static void compare_best(tp__memory_store *store, const char *text, size_t max, size_t all, unsigned seed) {
  tp__memory_list best = {0}, every = {0};
  assert_int_equal(tp__memory_recall(store, &scopes[0], tp_text_of(text), max, &best), TP_OK);
  assert_int_equal(tp__memory_recall(store, &scopes[0], tp_text_of(text), all, &every), TP_OK);
  assert_true(best.count <= every.count && (best.count == max || best.count == every.count));
  for (size_t i = 0; i < best.count; i++)
    if (best.items[i].id != every.items[i].id)
      fail_msg("seed %u, the best %zu: '%s' recalls another one at %zu", seed, max, text, i);
  tp__memory_list_fini(&best);
  tp__memory_list_fini(&every);
}

TEST(what_is_left_early_is_none_of_the_best) {
  enum { LINES = 400, SESSIONS = 25, QUESTIONS = 40, ROUNDS = 3 };
  static const size_t most[] = {1, 3, 10, 64};
  for (unsigned seed = 1; seed <= ROUNDS; seed++) {
    tp__memory_store *store;
    char text[TEXT_SIZE], turn[16], session[16];
    state_of_random = seed;
    assert_int_equal(tp__memory_store_open(NULL, &store, NULL), TP_OK);
    for (uint32_t i = 0; i < LINES; i++) {
      write_text(text);
      snprintf(turn, sizeof turn, "t%u", i);
      snprintf(session, sizeof session, "s%u", i * SESSIONS / LINES);
      const tp__memory memory = {.said_ms = INT64_C(1683554160000) + (int64_t)i * 3600000,
                                 .session = tp_text_of(session),
                                 .turn = tp_text_of(turn),
                                 .text = tp_text_of(text)};
      assert_int_equal(tp__memory_put(store, &scopes[0], &memory, NULL), TP_OK);
    }
    for (int i = 0; i < QUESTIONS; i++) {
      write_text(text);
      for (size_t m = 0; m < sizeof most / sizeof *most; m++) compare_best(store, text, most[m], LINES, seed);
    }
    tp__memory_store_close(store);
  }
}
