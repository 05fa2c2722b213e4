/* SPDX-License-Identifier: Apache-2.0
 *
 * What the memory stores and recalls, without a runtime: keys and scopes, the two searches, texts with a special
 * meaning for the index, foreign files, and a machine with errors. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/memory/keeping.h"
#include "domains/memory/line.h"
#include "domains/memory/recall.h"
#include "domains/memory/score.h"
#include "domains/memory/terms.h"
#include "tests/support/directory.h"
#include "tests/support/rows.h"
#include "turnphase/value.h"

/* ---- an allocator of SQLite's that refuses when a test says so ---- */

static long allocations_left = -1; /* refused at 0; never below */
static bool refuse_ever_after;
static sqlite3_mem_methods real_memory;

static bool refused(void) {
  if (allocations_left < 0) return false;
  if (allocations_left > 0) {
    allocations_left--;
    return false;
  }
  if (!refuse_ever_after) allocations_left = -1;
  return true;
}

static void *careful_malloc(int size) { return refused() ? NULL : real_memory.xMalloc(size); }
static void *careful_realloc(void *memory, int size) { return refused() ? NULL : real_memory.xRealloc(memory, size); }

static void put_allocator_in_place(void) {
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory), SQLITE_OK);
  sqlite3_mem_methods memory = real_memory;
  memory.xMalloc = careful_malloc;
  memory.xRealloc = careful_realloc;
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &memory), SQLITE_OK);
}

/* ---- short forms ---- */

static tp__memory_store *store;

static int open_store(void **state) {
  (void)state;
  return tp__memory_store_open(NULL, &store, NULL) == TP_OK ? 0 : -1;
}

static int close_store(void **state) {
  (void)state;
  tp__memory_store_close(store);
  store = NULL;
  return 0;
}

FOR_EACH_TEST(open_store, close_store);

static tp_text text_of(const char *string) { return (tp_text){string, strlen(string)}; }

static const tp__memory_scope home = {.tenant = {"acme", 4}, .kind = {"workspace", 9}, .name = {"home", 4}};

static tp__memory said(const char *session, const char *turn, const char *text) {
  return (tp__memory){.session = text_of(session), .turn = text_of(turn), .text = text_of(text)};
}

static int64_t put_in(const tp__memory_scope *scope, const char *session, const char *turn, const char *text) {
  int64_t id = 0;
  tp__memory memory = said(session, turn, text);
  memory.said_ms = 1683554160000;
  assert_int_equal(tp__memory_put(store, scope, &memory, &id), TP_OK);
  assert_true(id > 0);
  return id;
}

/* Puts a line into a session of its own, where it has no neighbours. */
static int64_t put(const char *turn, const char *text) { return put_in(&home, turn, turn, text); }

static void assert_text(tp_text text, const char *expected) {
  if (text.size != strlen(expected) || memcmp(text.data, expected, text.size) != 0)
    fail_msg("\"%.*s\" is not \"%s\"", (int)text.size, text.data, expected);
}

/* The turns of a list, each with a blank after it. */
static const char *turns_of(tp__memory_list *list) {
  static char turns[1024];
  turns[0] = '\0';
  for (size_t i = 0; i < list->count; i++) {
    size_t used = strlen(turns);
    snprintf(turns + used, sizeof turns - used, "%.*s ", (int)list->items[i].turn.size, list->items[i].turn.data);
  }
  tp__memory_list_fini(list);
  return turns;
}

static const char *recalled(const tp__memory_scope *scope, const char *text, size_t max) {
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_recall(store, scope, text_of(text), max, &list), TP_OK);
  return turns_of(&list);
}

static const char *newest(const tp__memory_scope *scope, int64_t before, size_t limit) {
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_newest(store, scope, before, limit, &list), TP_OK);
  return turns_of(&list);
}

/* ---- keeping ---- */

TEST(what_was_put_comes_back_whole) {
  int64_t id = put_in(&home, "s1", "t1", "I live in Oslo.");
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_get(store, &home, id, &list), TP_OK);
  assert_int_equal(list.count, 1);
  assert_int_equal(list.items[0].id, id);
  assert_int_equal(list.items[0].said_ms, 1683554160000);
  assert_text(list.items[0].session, "s1");
  assert_text(list.items[0].turn, "t1");
  assert_text(list.items[0].part, "");
  assert_text(list.items[0].text, "I live in Oslo.");
  tp__memory_list_fini(&list);
}

TEST(a_list_gives_the_newest_first_and_goes_on_before_an_id) {
  put("t1", "one");
  put("t2", "two");
  int64_t third = put("t3", "three");
  assert_string_equal(newest(&home, 0, 10), "t3 t2 t1 ");
  assert_string_equal(newest(&home, 0, 2), "t3 t2 ");
  assert_string_equal(newest(&home, third, 10), "t2 t1 ");
  assert_string_equal(newest(&home, 1, 10), "");
}

TEST(a_repeated_turn_replaces_its_text_and_keeps_id_and_time) {
  int64_t id = put("t1", "The cat is grey.");
  put("t2", "Another.");
  tp__memory again = said("t1", "t1", "The cat is black.");
  int64_t second = 0;
  assert_int_equal(tp__memory_put(store, &home, &again, &second), TP_OK);
  assert_int_equal(second, id);
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_get(store, &home, id, &list), TP_OK);
  assert_text(list.items[0].text, "The cat is black.");
  assert_int_equal(list.items[0].said_ms, 1683554160000);
  tp__memory_list_fini(&list);
  assert_string_equal(recalled(&home, "grey", 8), "");
  assert_string_equal(recalled(&home, "black", 8), "t1 ");
  assert_string_equal(newest(&home, 0, 8), "t2 t1 ");
}

TEST(one_turn_may_have_several_parts) {
  put("t1", "said");
  tp__memory note = said("t1", "t1", "noted");
  note.part = text_of("note-1");
  assert_int_equal(tp__memory_put(store, &home, &note, NULL), TP_OK);
  assert_string_equal(newest(&home, 0, 8), "t1 t1 ");
}

TEST(every_part_of_the_scope_keeps_memories_apart) {
  const tp__memory_scope others[] = {{text_of("other"), text_of("workspace"), text_of("home")},
                                     {text_of("acme"), text_of("thread"), text_of("home")},
                                     {text_of("acme"), text_of("workspace"), text_of("away")},
                                     {text_of("acme"), text_of("workspace"), text_of("")},
                                     {text_of(""), text_of("workspace"), text_of("home")},
                                     {text_of("acmeworkspace"), text_of(""), text_of("home")}};
  int64_t id = put("t1", "The secret word is xylophone.");
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    tp__memory_list list = {0};
    if (i % 2) put_in(&others[i], "s1", "own", "Nothing of interest.");
    assert_string_equal(recalled(&others[i], "xylophone", 8), "");
    assert_string_equal(newest(&others[i], 0, 8), i % 2 ? "own " : "");
    assert_int_equal(tp__memory_get(store, &others[i], id, &list), TP_ERR_NOT_FOUND);
    assert_int_equal(tp__memory_forget(store, &others[i], id), TP_ERR_NOT_FOUND);
    assert_int_equal(list.count, 0);
    tp__memory_list_fini(&list);
  }
  assert_string_equal(recalled(&home, "xylophone", 8), "t1 ");
}

TEST(empty_ids_are_a_scope_like_any_other) {
  const tp__memory_scope empty_scope = {.kind = text_of("workspace")};
  put_in(&empty_scope, "", "", "A word in the dark.");
  assert_string_equal(newest(&empty_scope, 0, 8), " ");
  assert_string_equal(newest(&home, 0, 8), "");
}

TEST(what_is_forgotten_is_found_nowhere_and_its_id_is_not_used_again) {
  put("t1", "Keep the harbour.");
  int64_t id = put("t2", "Forget the harbour.");
  assert_int_equal(tp__memory_forget(store, &home, id), TP_OK);
  assert_int_equal(tp__memory_forget(store, &home, id), TP_ERR_NOT_FOUND);
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_get(store, &home, id, &list), TP_ERR_NOT_FOUND);
  assert_string_equal(recalled(&home, "harbour", 8), "t1 ");
  assert_true(put("t3", "New.") > id);
  assert_int_equal(tp__memory_forget(store, &home, -1), TP_ERR_NOT_FOUND);
}

/* ---- the first look ---- */

TEST(words_are_found_in_any_form_and_case) {
  put("t1", "We painted a sunrise.");
  put("t2", "The caf\xc3\xa9 was closed.");
  put("t3", "Nothing at all.");
  assert_string_equal(recalled(&home, "When did they go PAINTING?", 8), "t1 ");
  assert_string_equal(recalled(&home, "cafe", 8), "t2 ");
  assert_string_equal(recalled(&home, "Caf\xc3\x89S", 8), "t2 ");
  assert_string_equal(recalled(&home, "umbrella", 8), "");
}

TEST(more_and_rarer_words_rank_higher) {
  put("t1", "Anna: the garden is green.");
  put("t2", "Anna: the violin is in the garden.");
  put("t3", "Anna: the house is big.");
  put("t4", "Anna: the garden has a wall around it.");
  assert_string_equal(recalled(&home, "Does Anna play the violin in the garden?", 1), "t2 ");
}

TEST(ranks_say_how_good_a_memory_is) {
  for (int i = 0; i < 20; i++) {
    char turn[16];
    snprintf(turn, sizeof turn, "f%d", i);
    put(turn, "Some filler words of no use.");
  }
  put("all", "A violin stands beside the piano.");
  put("half", "Only a violin stands around here.");
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_recall(store, &home, text_of("violin piano"), 8, &list), TP_OK);
  assert_int_equal(list.count, 2);
  assert_true(list.items[1].rank > 0 && list.items[0].rank > 3 * list.items[1].rank / 2);
  assert_string_equal(turns_of(&list), "all half ");
}

TEST(a_memory_that_only_asks_stands_behind_one_that_states) {
  put("states", "Melanie painted a lake sunrise last year, I think it was in spring.");
  put("asks", "When did Melanie paint the sunrise?");
  put("other", "Hello there.");
  assert_string_equal(recalled(&home, "When did Melanie paint a sunrise?", 8), "states asks ");
}

TEST(of_equals_the_newest_comes_first) {
  put("t1", "The train is late.");
  put("t2", "The train is late.");
  put("t3", "The train is late.");
  assert_string_equal(recalled(&home, "train", 2), "t3 t2 ");
}

TEST(a_text_without_words_recalls_nothing) {
  put("t1", "What is it that you were doing there?");
  assert_string_equal(recalled(&home, "", 8), "");
  assert_string_equal(recalled(&home, " ?! \xe2\x80\xa6 ", 8), "");
  assert_string_equal(recalled(&home, "what is it that you were doing", 8), "");
}

TEST(nothing_is_recalled_before_anything_was_kept) { assert_string_equal(recalled(&home, "violin", 8), ""); }

/* Memories of others must not affect one's own ranks: neither their words nor their number. */
TEST(other_tenants_change_no_rank) {
  const tp__memory_scope other = {text_of("other"), text_of("workspace"), text_of("home")};
  put("t1", "Violin lessons in town.");
  put("t2", "Piano lessons in town.");
  tp__memory_list before = {0}, after = {0};
  assert_int_equal(tp__memory_recall(store, &home, text_of("violin lessons"), 8, &before), TP_OK);
  for (int i = 0; i < 50; i++) {
    char turn[16];
    snprintf(turn, sizeof turn, "o%d", i);
    put_in(&other, "s1", turn, "Violin violin violin.");
  }
  assert_int_equal(tp__memory_recall(store, &home, text_of("violin lessons"), 8, &after), TP_OK);
  assert_int_equal(before.count, 2);
  assert_int_equal(after.count, 2);
  for (size_t i = 0; i < 2; i++) assert_int_equal(before.items[i].rank, after.items[i].rank);
  assert_string_equal(turns_of(&before), "t1 t2 ");
  assert_string_equal(turns_of(&after), "t1 t2 ");
}

/* The id of a scope is also a word of the index; a text that contains it must not match it. */
TEST(the_number_of_a_scope_is_no_word_of_a_text) {
  put("t1", "Plain words.");
  assert_string_equal(recalled(&home, "1 2 3 4 5", 8), "");
  put("t2", "The answer is 42.");
  assert_string_equal(recalled(&home, "42", 8), "t2 ");
}

TEST(no_text_means_anything_to_the_index) {
  static const char *const texts[] = {"\"violin",
                                      "violin\"",
                                      "\"\"\"violin\"\"\"",
                                      "text : violin",
                                      "scope : 1 OR violin",
                                      "violin*",
                                      "^violin",
                                      "NEAR(violin piano, 5)",
                                      "violin AND NOT violin",
                                      "(violin",
                                      "{text scope} : violin",
                                      "violin + piano",
                                      "-violin",
                                      "violin;DROP TABLE memory",
                                      "violin \xf0\x9f\x8c\x9f \xe2\x9c\x93",
                                      "\xcc\x81\xcc\x81 violin",
                                      "\xe1\xbf\xbf violin",
                                      "violin \xff\xfe\xc3",
                                      "\xc3 violin"};
  put("t1", "A violin.");
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    const char *turns = recalled(&home, texts[i], 8);
    if (strcmp(turns, "t1 ") != 0) fail_msg("%s recalls %s", texts[i], turns);
  }
}

/* A term that the index does not treat as a word must not shift the evidence of the terms after it. */
TEST(a_term_that_is_no_word_of_the_index_leaves_the_others_in_their_place) {
  static const char *const strange[] = {
      "\xd8\x80", "\xe0\xa7\xb4\xe0\xa7\xb2", "\xe1\x8d\xa1", "\xf0\x9d\x84\x9e", "\xef\xbf\xbd", "\xcd\xbe",
      "\xc2\xaa"};
  for (int i = 0; i < 9; i++) {
    char turn[16];
    snprintf(turn, sizeof turn, "f%d", i);
    put(turn, "The piano is here.");
  }
  put("rare", "The violin is here.");
  for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
    char text[64];
    snprintf(text, sizeof text, "piano %s violin", strange[i]);
    assert_string_equal(recalled(&home, text, 1), "rare ");
  }
}

TEST(a_text_with_nul_bytes_is_read_to_its_end) {
  put("t1", "A violin.");
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_recall(store, &home, (tp_text){"one\0two\0violin", 14}, 8, &list), TP_OK);
  assert_string_equal(turns_of(&list), "t1 ");
}

TEST(a_huge_text_is_read_in_bounded_time) {
  enum { SIZE = 4 * 1024 * 1024 };
  put("t1", "A violin.");
  char *text = malloc(SIZE);
  memcpy(text, "violin ", 7);
  for (size_t i = 7; i < SIZE; i++) text[i] = i % 7 ? (char)('a' + i % 23) : ' ';
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_recall(store, &home, (tp_text){text, SIZE}, 8, &list), TP_OK);
  assert_string_equal(turns_of(&list), "t1 ");
  free(text);
}

/* ---- long texts ---- */

TEST(a_long_memory_is_cut_to_where_its_words_are) {
  char text[3001];
  for (size_t i = 0; i < 3000; i += 10) memcpy(text + i, "filler \xc3\xbc\x20", 10);
  memcpy(text + 1500, "xylophone ", 10);
  text[3000] = '\0';
  put("t1", text);
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_recall(store, &home, text_of("xylophone"), 8, &list), TP_OK);
  assert_int_equal(list.count, 1);
  tp_text cut = list.items[0].text;
  assert_true(cut.size <= TP__MEMORY_RECALL_TEXT_MAX && cut.size > 100);
  assert_non_null(memmem(cut.data, cut.size, "xylophone", 9));
  assert_true((cut.data[cut.size - 1] & 0xC0) != 0xC0);
  tp__memory_list_fini(&list);
  assert_int_equal(tp__memory_newest(store, &home, 0, 1, &list), TP_OK);
  assert_int_equal(list.items[0].text.size, 3000);
  tp__memory_list_fini(&list);
}

/* The words are in the excerpt at any place of the text, with an ellipsis where text is left out. */
TEST(an_excerpt_holds_the_words_wherever_they_stand) {
  static const size_t places[] = {0, 10, 340, 350, 360, 690, 700, 710, 1500, 2300, 2640, 2980, 2990};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char text[3001], turn[16];
    for (size_t at = 0; at < 3000; at += 10) memcpy(text + at, "filler \xc3\xbc\x20", 10);
    memcpy(text + places[i], "xylophone ", 10);
    text[3000] = '\0';
    snprintf(turn, sizeof turn, "t%zu", i);
    const tp__memory_scope own = {.tenant = text_of(turn), .kind = text_of("workspace"), .name = text_of("home")};
    put_in(&own, "s1", turn, text);
    tp__memory_list list = {0};
    assert_int_equal(tp__memory_recall(store, &own, text_of("xylophone"), 8, &list), TP_OK);
    assert_int_equal(list.count, 1);
    tp_text cut = list.items[0].text;
    assert_true(cut.size <= TP__MEMORY_RECALL_TEXT_MAX && cut.size > 600 && tp_utf8_valid(cut, NULL));
    assert_non_null(memmem(cut.data, cut.size, "xylophone", 9));
    const bool starts = memcmp(cut.data, text, 10) == 0, ends = memcmp(cut.data + cut.size - 10, text + 2990, 10) == 0;
    assert_int_equal(memcmp(cut.data, "\xe2\x80\xa6", 3) == 0, !starts);
    assert_int_equal(memcmp(cut.data + cut.size - 3, "\xe2\x80\xa6", 3) == 0, !ends);
    tp__memory_list_fini(&list);
  }
}

TEST(two_words_near_each_other_are_worth_more_than_apart) {
  char near[2001], apart[2001];
  for (size_t at = 0; at < 2000; at += 10) {
    memcpy(near + at, "plainword ", 10);
    memcpy(apart + at, "plainword ", 10);
  }
  near[2000] = apart[2000] = '\0';
  memcpy(near + 942, " zither ", 8);
  memcpy(near + 970, " xylophone ", 11); /* in the next passage */
  memcpy(apart + 100, " zither ", 8);
  memcpy(apart + 1900, " xylophone ", 11);
  put_in(&home, "s2", "near", near);
  put_in(&home, "s1", "apart", apart);
  put_in(&home, "s3", "none", "Other words.");
  assert_string_equal(recalled(&home, "zither xylophone", 2), "near apart ");
}

/* A long line tells its topic itself, so its neighbours count little. */
TEST(a_long_line_has_little_of_its_neighbours) {
  char text[1001];
  for (size_t at = 0; at < 1000; at += 10) memcpy(text + at, "wordy tex ", 10);
  text[1000] = '\0';
  put_in(&home, "s1", "t1", "The xylophone and the zither.");
  put_in(&home, "s1", "long", text);
  put_in(&home, "s2", "t3", "The xylophone and the zither.");
  put_in(&home, "s2", "short", "In the attic.");
  put_in(&home, "s3", "none", "Other words.");
  double parts[8 * TP__MEMORY_PART_COUNT], covers[2] = {0, 0}; /* of the short one, of the long one */
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_recall_explained(
                       store, &home, &(tp__memory_question){.text = text_of("xylophone zither")}, 8, &list, parts),
                   TP_OK);
  for (size_t at = 0; at < list.count; at++) {
    const double cover = parts[at * TP__MEMORY_PART_COUNT + TP__MEMORY_PART_cover];
    if (tp__is_word(list.items[at].turn, "short")) covers[0] = cover;
    if (tp__is_word(list.items[at].turn, "long")) covers[1] = cover;
  }
  tp__memory_list_fini(&list);
  assert_true(covers[0] > 0 && covers[1] < covers[0] / 10);
}

static size_t recalled_with_floor(const char *question, int32_t floor, const char *turn) {
  tp__memory_list list = {0};
  size_t found = 0;
  const tp__memory_question asked = {.text = text_of(question), .floor = floor};
  assert_int_equal(tp__memory_recall_explained(store, &home, &asked, 64, &list, NULL), TP_OK);
  for (size_t i = 0; i < list.count; i++) found += tp__is_word(list.items[i].turn, turn);
  tp__memory_list_fini(&list);
  return found;
}

TEST(what_only_its_neighbours_have_words_for_needs_strong_ones) {
  char id[16];
  for (int i = 0; i < 40; i++) { /* half of them speak of a meeting */
    snprintf(id, sizeof id, "m%d", i);
    put_in(&home, id, id, i % 2 ? "Another meeting." : "Nothing much.");
  }
  put_in(&home, "s1", "common", "A meeting again.");
  put_in(&home, "s1", "beside", "Who knows.");
  put_in(&home, "s2", "rare", "The xylophone is there.");
  put_in(&home, "s2", "answer", "In the attic.");
  static const struct {
    const char *question, *turn;
    int32_t floor;
    size_t found;
  } rows[] = {{"When is the meeting?", "common", 0, 1},       {"When is the meeting?", "beside", 0, 0},
              {"When is the meeting?", "beside", -1, 1},      {"When is the meeting?", "beside", 100, 1},
              {"When is the meeting?", "common", 2000, 1},    {"Where is the xylophone?", "rare", 0, 1},
              {"Where is the xylophone?", "answer", 0, 1},    {"Where is the xylophone?", "answer", 700, 1},
              {"Where is the xylophone?", "answer", 1000, 0}, {"Where is the xylophone?", "rare", 1000, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (recalled_with_floor(rows[i].question, rows[i].floor, rows[i].turn) != rows[i].found)
      fail_msg("row %zu: '%s' with a floor of %d", i, rows[i].question, (int)rows[i].floor);
}

TEST(a_question_about_nothing_recalls_nothing) {
  put_in(&home, "s1", "t1", "My sister moved to Oslo.");
  put_in(&home, "s1", "t2", "She likes it.");
  static const char *const questions[] = {"",      "How are you?",          "What is the capital of Portugal?",
                                          "Hello", "What about you and me", "Could you do that again, please?"};
  for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
    tp__memory_list list = {0};
    const tp__memory_question asked = {.text = text_of(questions[i]), .asked_ms = 86400000};
    assert_int_equal(tp__memory_recall_explained(store, &home, &asked, 8, &list, NULL), TP_OK);
    if (list.count) fail_msg("'%s' recalls something", questions[i]);
    tp__memory_list_fini(&list);
  }
}

TEST(a_long_neighbour_is_cut_at_a_code_point) {
  char text[2001];
  for (size_t i = 0; i < 1998; i += 3) memcpy(text + i, "\xe4\xb8\xad", 3);
  text[1998] = '\0';
  put_in(&home, "s1", "t1", "Where is the xylophone?");
  put_in(&home, "s1", "t2", text);
  tp__memory_list list = {0};
  const tp__memory_question asked = {.text = text_of("xylophone"), .floor = -1};
  assert_int_equal(tp__memory_recall_explained(store, &home, &asked, 8, &list, NULL), TP_OK);
  assert_int_equal(list.count, 2);
  for (size_t i = 0; i < 2; i++)
    if (list.items[i].text.size > 100) assert_int_equal(list.items[i].text.size, 696); /* 232 of three bytes */
  tp__memory_list_fini(&list);
}

/* ---- words of other languages ---- */

static const struct {
  const char *said, *other, *asked;
} languages[] = {
    {"今天我们玩了成语接龙游戏，很开心。", "明天去北京开会。", "成语接龙"},
    {"我的密码保存在书桌的抽屉里。", "他喜欢喝咖啡。", "密码在哪个抽屉"},
    {"我家的猫叫小白。", "天气很好。", "猫"},
    {"來週五在臺北有一場音樂會。", "我喜歡看書。", "音樂會"},
    {"来週の金曜日に京都へ旅行します。", "今日はパンを食べました。", "京都旅行"},
    {"コーヒーよりお茶が好きです。", "明日は雨です。", "お茶は好き？"},
    {"오늘 끝말잇기 게임을 했다.", "내일은 비가 온다.", "끝말잇기"},
    {"비밀번호는 서랍에 있어요.", "점심은 김밥이었다.", "비밀번호가 어디"},
    {"ฉันชอบกินข้าวผัดกุ้งที่ตลาด", "พรุ่งนี้ฝนจะตก", "ข้าวผัด"},
    {"ຂ້ອຍມັກກິນເຂົ້າຈີ່", "ມື້ອື່ນຝົນຕົກ", "ເຂົ້າຈີ່"},
    {"ខ្ញុំចូលចិត្តរៀនភាសាខ្មែរ", "ស្អែកមានភ្លៀង", "ភាសាខ្មែរ"},
    {"ကျွန်တော် မြန်မာစာ သင်နေတယ်", "မနက်ဖြန် မိုးရွာမယ်", "မြန်မာစာ"},
    {"Пароль меняется ежеквартально.", "Завтра будет дождь.", "паролем"},
    {"Ключи лежат под ковриком.", "Кошка спит на диване.", "где ключами под коврик"},
    {"Ключ лежить під килимком.", "Завтра буде дощ.", "килимком"},
    {"Срещата е в понеделник.", "Времето е хубаво.", "срещата"},
    {"Ο κωδικός αλλάζει κάθε μήνα.", "Αύριο θα βρέξει.", "κωδικοσ"},
    {"كَلِمَة المرور تتغير كل شهر.", "غدا سوف تمطر.", "كلمة"},
    {"أحمد يعيش في القاهرة.", "الطقس جميل.", "احمد"},
    {"رمز عبور هر ماه عوض می‌شود.", "فردا باران می‌بارد.", "عبور"},
    {"הסיסמה משתנה כל חודש.", "מחר ירד גשם.", "הסיסמה"},
    {"मेरा पासवर्ड हर महीने बदलता है।", "कल बारिश होगी।", "पासवर्ड"},
    {"আমার পাসওয়ার্ড প্রতি মাসে বদলায়।", "কাল বৃষ্টি হবে।", "পাসওয়ার্ড"},
    {"என் கடவுச்சொல் மாறும்.", "நாளை மழை பெய்யும்.", "கடவுச்சொல்"},
    {"Le café est servi après le déjeuner.", "Il pleut demain.", "cafe"},
    {"Tối nay chúng ta ăn phở ở Hà Nội.", "Ngày mai trời mưa.", "Ha Noi"},
    {"Zmieniamy hasła co kwartał.", "Jutro pada deszcz.", "hasło"},
    {"Şifre İstanbul'daki çekmecede.", "Yarın yağmur yağacak.", "istanbul"},
    {"A jelszót havonta cseréljük.", "Holnap esik.", "jelszó"},
    {"Gatan heter Østergade.", "Det regnar imorgon.", "ostergade"},
    {"我们用Python写了爬虫。", "他去上海。", "Python"},
};

TEST(words_of_other_languages_are_found) {
  size_t missed = 0;
  for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
    char tenant[16];
    snprintf(tenant, sizeof tenant, "l%zu", i);
    const tp__memory_scope own = {.tenant = text_of(tenant), .kind = text_of("workspace"), .name = text_of("home")};
    put_in(&own, "s1", "said", languages[i].said);
    put_in(&own, "s2", "other", languages[i].other);
    const char *turns = recalled(&own, languages[i].asked, 2);
    if (strncmp(turns, "said ", 5) != 0) print_error("%s: \"%s\"\n", languages[i].asked, turns), missed++;
    turns = recalled(&own, "qwertz", 2);
    assert_string_equal(turns, "");
  }
  assert_int_equal(missed, 0);
}

TEST(words_that_share_only_a_short_start_are_other_words) {
  put_in(&home, "s1", "said", "Кот спит. Стол стоит. Вода.");
  assert_string_equal(recalled(&home, "код", 1), "");
  assert_string_equal(recalled(&home, "стул", 1), "");
  assert_string_equal(recalled(&home, "водопроводчик", 1), "");
}

TEST(a_long_run_without_spaces_is_found_by_any_part_of_it) {
  static const char letters[] = "一二三四五六七八九十百千万东西南北春夏秋冬天地日月星云雨雪风";
  put_in(&home, "s1", "said", letters);
  for (size_t at = 0; at + 6 < sizeof letters - 1; at += 3) {
    char asked[8];
    snprintf(asked, sizeof asked, "%.6s", letters + at);
    assert_string_equal(recalled(&home, asked, 1), "said ");
  }
  assert_string_equal(recalled(&home, letters, 1), "said ");
  assert_string_equal(recalled(&home, "东一", 1), "");
}

/* ---- the order of relevance ---- */

TEST(the_answer_that_shares_no_word_is_recalled_with_its_question) {
  put_in(&home, "s1", "t1", "Good morning to you.");
  put_in(&home, "s1", "ask", "Where did you spend the summer holiday?");
  put_in(&home, "s1", "answer", "At my aunt's farm near Bergen.");
  put_in(&home, "s1", "t4", "How lovely.");
  put_in(&home, "s2", "elsewhere", "Unrelated words.");
  const char *turns = recalled(&home, "summer holiday", 3);
  assert_non_null(strstr(turns, "answer "));
  assert_non_null(strstr(turns, "ask "));
}

TEST(neighbours_are_of_the_same_session_only) {
  put_in(&home, "s1", "a", "Alpha.");
  put_in(&home, "s2", "b", "The xylophone.");
  put_in(&home, "s1", "c", "Gamma.");
  assert_string_equal(recalled(&home, "xylophone", 8), "b ");
}

TEST(a_word_that_was_not_said_may_be_the_beginning_of_one_that_was_said) {
  put("t1", "We looked at paintbrushes.");
  assert_string_equal(recalled(&home, "paint", 8), "t1 ");
  assert_string_equal(recalled(&home, "pain", 8), "");
}

/* A longer list begins with the shorter one: later entries never push a better one back. */
TEST(a_longer_list_begins_with_the_shorter_one) {
  char turn[16], longer[1024];
  for (int i = 0; i < 60; i++) {
    snprintf(turn, sizeof turn, "t%d", i);
    put_in(&home, i % 2 ? "s1" : "s2", turn, i % 5 ? "The piano." : i % 3 ? "A violin and a piano?" : "A violin.");
  }
  snprintf(longer, sizeof longer, "%s", recalled(&home, "violin piano", 64));
  for (size_t max = 1; max < 60; max++) {
    const char *shorter = recalled(&home, "violin piano", max);
    assert_memory_equal(shorter, longer, strlen(shorter));
  }
}

TEST(of_two_who_say_the_same_the_one_that_is_named_comes_first) {
  put("anna", "Anna: I bought a violin.");
  put("bert", "Bert: I bought a violin.");
  put("more", "Anna: Hello.");
  put("much", "Bert: Hello.");
  assert_string_equal(recalled(&home, "What did Anna buy, a violin?", 1), "anna ");
  assert_string_equal(recalled(&home, "What did Bert buy, a violin?", 1), "bert ");
}

static void put_at(int64_t said_ms, const char *turn) {
  tp__memory memory = said(turn, turn, "We went to a concert.");
  memory.said_ms = said_ms;
  assert_int_equal(tp__memory_put(store, &home, &memory, NULL), TP_OK);
}

TEST(a_date_in_the_text_prefers_what_was_said_then) {
  put_at(INT64_C(1675339200000), "february"); /* 2023-02-02 */
  put_at(INT64_C(1683554160000), "may");      /* 2023-05-08 */
  put_at(INT64_C(1702029600000), "december"); /* 2023-12-08 */
  assert_string_equal(recalled(&home, "Which concert was in May 2023?", 1), "may ");
  assert_string_equal(recalled(&home, "Which concert was on 2 February, 2023?", 1), "february ");
  assert_string_equal(recalled(&home, "Which concert was in May 2022?", 1), "december ");
}

TEST(each_score_is_the_sum_of_its_parts) {
  tp__memory_index *index = NULL;
  tp__memory_scored *scored = NULL;
  size_t count = 0;
  put_in(&home, "s1", "t1", "Anna: Did you buy a violin last week?");
  put_in(&home, "s1", "t2", "Bert: Three of them, in Oslo.");
  assert_int_equal(tp__memory_index_use(store, &home, &index), TP_OK);
  assert_int_equal(tp__memory_score(store, index, &(tp__memory_question){.text = text_of("Who bought a violin?")}, 8,
                                    &scored, &count),
                   SQLITE_OK);
  tp__memory_index_release(store, index);
  assert_int_equal(count, 2);
  for (size_t i = 0; i < count; i++) {
    double sum = 0;
    for (int part = 0; part < TP__MEMORY_PART_COUNT; part++)
      sum += tp__memory_part_rows[part].weight * scored[i].parts[part];
    assert_true(sum > scored[i].score - 1e-4 && sum < scored[i].score + 1e-4);
  }
  sqlite3_free(scored);
}

/* ---- parts of the score ---- */

/* Of the line of a turn, before its weight. */
static double part_of(const char *question, const char *turn, tp__memory_part part) {
  double parts[16 * TP__MEMORY_PART_COUNT], found = NAN;
  tp__memory_list list = {0};
  const tp__memory_question asked = {.text = text_of(question), .floor = -1};
  assert_int_equal(tp__memory_recall_explained(store, &home, &asked, 16, &list, parts), TP_OK);
  for (size_t i = 0; i < list.count; i++)
    if (tp__is_word(list.items[i].turn, turn))
      found = parts[i * TP__MEMORY_PART_COUNT + (size_t)part] / tp__memory_part_rows[part].weight;
  tp__memory_list_fini(&list);
  if (isnan(found)) fail_msg("%s is not recalled", turn);
  return found;
}

TEST(question_for_a_number_prefers_lines_that_have_one) {
  static const char *const asking[] = {"How many violins are there?", "how old is the violin",
                                       "The price of the violin?", "What is the average violin?"};
  static const char *const others[] = {"Where is the violin?", "How is the violin?", "many a violin"};
  put("number", "The violin: 1780.");
  put("words", "The violin: old.");
  for (size_t i = 0; i < sizeof asking / sizeof *asking; i++) {
    assert_true(part_of(asking[i], "number", TP__MEMORY_PART_number) == 1);
    assert_true(part_of(asking[i], "words", TP__MEMORY_PART_number) == 0);
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_true(part_of(others[i], "number", TP__MEMORY_PART_number) == 0);
  assert_string_equal(recalled(&home, "How many violins are there?", 8), "number words ");
}

/* By its three best lines, that line itself left out. */
TEST(line_of_a_session_about_the_same_is_worth_more) {
  static const char *const turns[] = {"f1", "f2", "f3", "f4", "f5"};
  put("lone", "A violin in town.");
  put_in(&home, "two", "p1", "A violin in town.");
  put_in(&home, "two", "p2", "A violin in town.");
  put_in(&home, "two", "weak", "Another violin stands in that long street by the old church of the town.");
  for (size_t i = 0; i < 5; i++) put_in(&home, "five", turns[i], "A violin in town.");
  put("other", "Nothing here.");
  for (int again = 0; again < 2; again++) {
    const double own = part_of("violin", "f1", TP__MEMORY_PART_own),
                 weak = part_of("violin", "weak", TP__MEMORY_PART_own);
    assert_true(part_of("violin", "lone", TP__MEMORY_PART_session) == 0);
    assert_true(fabs(part_of("violin", "p1", TP__MEMORY_PART_session) - (own + weak) / 3) < 1e-5);
    assert_true(fabs(part_of("violin", "weak", TP__MEMORY_PART_session) - 2 * own / 3) < 1e-5);
    for (size_t i = 0; i < 5; i++) assert_true(fabs(part_of("violin", turns[i], TP__MEMORY_PART_session) - own) < 1e-5);
  }
}

TEST(line_asks_when_it_does_from_its_first_word_on) {
  static const struct {
    const char *text;
    bool asks;
  } lines[] = {{"Can you hear the violin?", true},
               {"so what is a violin?", true},
               {"Anna: When does the violin come?", true},
               {"Is it loud? Where is the violin?  ", true},
               {"I have a violin, can you hear it?", false},
               {"What a violin!", false},
               {"And so, a violin?", false},
               {"The violin: can you hear it?", false}};
  char turn[16];
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    snprintf(turn, sizeof turn, "t%zu", i);
    put(turn, lines[i].text);
  }
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    snprintf(turn, sizeof turn, "t%zu", i);
    if ((part_of("violin", turn, TP__MEMORY_PART_asks) == 1) != lines[i].asks) fail_msg("%s", lines[i].text);
  }
}

/* ---- irregular forms ---- */

static int compare_stem(void *ctx, tp_text stem, tp_text word) {
  (void)word;
  assert_text(stem, ctx);
  return SQLITE_OK;
}

static const struct {
  const char *word, *base, *stem;
} irregular[] = {
#define FORM(word, base, stem) {word, base, stem},
#include "domains/memory/forms.def"
#undef FORM
};

TEST(each_irregular_form_has_the_stem_of_its_base) {
  for (size_t i = 0; i < sizeof irregular / sizeof *irregular; i++) {
    if (i && strcmp(irregular[i - 1].word, irregular[i].word) >= 0) fail_msg("%s is not sorted", irregular[i].word);
    assert_int_equal(tp__memory_stems(store, text_of(irregular[i].word), compare_stem, (void *)irregular[i].stem), 0);
    assert_int_equal(tp__memory_stems(store, text_of(irregular[i].base), compare_stem, (void *)irregular[i].stem), 0);
  }
  assert_int_equal(tp__memory_base_stem(text_of("go")).size, 0);
  assert_int_equal(tp__memory_base_stem(text_of("wentx")).size, 0);
  assert_int_equal(tp__memory_base_stem(text_of("")).size, 0);
}

TEST(question_finds_irregular_forms) {
  put("bought", "She BOUGHT a violin.");
  put("child", "The child sings.");
  put("other", "Nothing of that.");
  assert_string_equal(recalled(&home, "What did she buy?", 8), "bought ");
  assert_string_equal(recalled(&home, "Do children sing?", 8), "child ");
  assert_string_equal(recalled(&home, "Has a child sung?", 8), "child ");
}

/* A line that a request has still introduces those beside it. */
TEST(lines_that_a_request_has_whole_are_left_out_and_nothing_else) {
  enum { LINES = 5, SLOTS = 4 };
  static const char *const said[LINES] = {"The violin is old.", "The violin is old. It is from Oslo, and a long story.",
                                          "the violin is old.", "The violin is old", "Nothing at all."};
  uint64_t slots[SLOTS] = {0};
  const tp__memory_said_hashes hashes = {.slots = slots, .mask = SLOTS - 1};
  tp__memory_question asked = {.text = text_of("Which violin?"), .floor = -1};
  tp__memory_list with = {0}, without = {0}, empty = {0};
  for (size_t i = 0; i < LINES; i++) {
    char turn[] = {'t', (char)('0' + i), '\0'};
    put_in(&home, "s", turn, said[i]);
    if (i > 1) continue;
    size_t at = tp__memory_hash(text_of(said[i])) & hashes.mask;
    while (slots[at]) at = (at + 1) & hashes.mask;
    slots[at] = tp__memory_hash(text_of(said[i]));
  }
  assert_int_equal(tp__memory_recall_explained(store, &home, &asked, 8, &with, NULL), TP_OK);
  assert_int_equal(with.count, LINES);
  asked.present = &hashes;
  assert_int_equal(tp__memory_recall_explained(store, &home, &asked, 8, &without, NULL), TP_OK);
  asked.present = &(tp__memory_said_hashes){.slots = NULL};
  assert_int_equal(tp__memory_recall_explained(store, &home, &asked, 8, &empty, NULL), TP_OK);
  assert_int_equal(empty.count, LINES);
  size_t left = 0;
  for (size_t i = 0; i < with.count; i++) {
    if (with.items[i].turn.data[1] < '2') continue;
    assert_true(left < without.count);
    assert_int_equal(without.items[left].id, with.items[i].id); /* in their order, with their ranks */
    assert_int_equal(without.items[left++].rank, with.items[i].rank);
  }
  assert_int_equal(left, without.count);
  tp__memory_list_fini(&with);
  tp__memory_list_fini(&without);
  tp__memory_list_fini(&empty);
}

TEST(the_same_store_and_text_give_the_same_list) {
  char first[256];
  for (int i = 0; i < 30; i++) {
    char turn[16];
    snprintf(turn, sizeof turn, "t%d", i);
    put(turn, i % 3 ? "The violin and the piano." : "The piano alone.");
  }
  snprintf(first, sizeof first, "%s", recalled(&home, "violin piano", 16));
  for (int i = 0; i < 5; i++) assert_string_equal(recalled(&home, "violin piano", 16), first);
}

/* ---- terms ---- */

static void assert_terms(const char *text, const char *expected) {
  tp__memory_terms terms;
  char joined[1024] = "";
  tp__memory_terms_of(text_of(text), &terms);
  for (size_t i = 0; i < terms.count; i++) {
    size_t used = strlen(joined);
    snprintf(joined + used, sizeof joined - used, "%.*s ", (int)terms.items[i].size, terms.items[i].data);
  }
  assert_string_equal(joined, expected);
}

TEST_WITH(terms_are_the_words_that_say_something, NULL, NULL) {
  assert_terms("When did Caroline go to the LGBTQ support group?", "Caroline go LGBTQ support group ");
  assert_terms("Don't you think it's Mel\xe2\x80\x99s?", "think Mel ");
  assert_terms("violin, VIOLIN; Violin.", "violin ");
  assert_terms(
      "Gr\xc3\xbc\xc3\x9f"
      "e aus K\xc3\xb6ln",
      "Gr\xc3\xbc\xc3\x9f"
      "e aus K\xc3\xb6ln ");
  assert_terms("\xd0\x9c\xd0\xb8\xd1\x80 \xf0\x9f\x8c\x9f 42", "\xd0\x9c\xd0\xb8\xd1\x80 42 ");
  assert_terms("snake_case and 3.5", "snake case 3 5 ");
  assert_terms("yourselves a Yours were", "");
}

TEST_WITH(terms_are_bounded_in_number_and_length, NULL, NULL) {
  char text[4096] = "";
  for (int i = 0; i < 200; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "word%d ", i);
  }
  tp__memory_terms terms;
  tp__memory_terms_of(text_of(text), &terms);
  assert_int_equal(terms.count, TP__MEMORY_TERMS_MAX);
  memset(text, 'w', 65);
  strcpy(text + 65, " fine");
  assert_terms(text, "fine ");
}

TEST_WITH(a_text_only_asks_when_every_sentence_does, NULL, NULL) {
  assert_true(tp__memory_only_asks(text_of("Where is it?")));
  assert_true(tp__memory_only_asks(text_of("Really? Where is version 3.5? \n")));
  assert_false(tp__memory_only_asks(text_of("I lost it. Where is it?")));
  assert_false(tp__memory_only_asks(text_of("Wow! Where?")));
  assert_false(tp__memory_only_asks(text_of("It is there.")));
  assert_false(tp__memory_only_asks(text_of("Where? There")));
  assert_false(tp__memory_only_asks(text_of("")));
}

/* ---- lines ---- */

TEST_WITH(ids_are_read_as_they_are_written, NULL, NULL) {
  char id[TP__MEMORY_ID_SIZE];
  tp__memory_id_write(INT64_C(123456789012345678), id);
  assert_string_equal(id, "memory:123456789012345678");
  assert_int_equal(tp__memory_id_read(text_of(id)), INT64_C(123456789012345678));
  assert_int_equal(tp__memory_id_read(text_of("7")), 7);
  static const char *const wrong[] = {"",   "memory:", "memory:-1",       "memory:1x",           "Memory:1",
                                      " 1", "1 ",      "memory:memory:1", "99999999999999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_int_equal(tp__memory_id_read(text_of(wrong[i])), 0);
}

static void assert_line(const tp__memory *memory, size_t max, const char *expected) {
  sqlite3_str *line = sqlite3_str_new(NULL);
  tp__memory_line_write(line, memory, max);
  char *text = sqlite3_str_finish(line);
  assert_string_equal(text, expected);
  sqlite3_free(text);
}

TEST_WITH(a_line_says_when_and_where_it_was_said, NULL, NULL) {
  tp__memory memory = {.said_ms = 1683554160000, .session = text_of("s1"), .text = text_of("Gr\xc3\xbc\xc3\x9f dich")};
  assert_line(&memory, SIZE_MAX, "[2023-05-08, session s1] Gr\xc3\xbc\xc3\x9f dich");
  assert_line(&memory, 3, "[2023-05-08, session s1] Gr\xe2\x80\xa6");
  memory.part = text_of("note-1");
  memory.session = text_of("");
  assert_line(&memory, SIZE_MAX, "[2023-05-08, noted] Gr\xc3\xbc\xc3\x9f dich");
}

/* ---- files ---- */

static void assert_refused(tp_status expected, const char *words) {
  tp_fault fault = {0};
  tp__memory_store *refused_store = NULL;
  assert_int_equal(tp__memory_store_open(path, &refused_store, &fault), expected);
  assert_null(refused_store);
  assert_int_equal(fault.code, expected);
  assert_non_null(strstr(fault.message, path));
  if (!strstr(fault.message, words)) fail_msg("'%s' is not in: %s", words, fault.message);
}

static void sql(const char *statements) {
  sqlite3 *db = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

TEST_WITH(a_file_is_private_and_keeps_what_it_was_given, make_directory, remove_directory) {
  struct stat about;
  mode_t before = umask(0);
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  umask(before);
  put("t1", "A violin.");
  tp__memory_store_close(store);
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_mode & 07777, 0600);
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  assert_string_equal(recalled(&home, "violin", 8), "t1 ");
  tp__memory_store_close(store);
}

TEST_WITH(files_that_are_not_ours_or_newer_or_no_database_are_refused, make_directory, remove_directory) {
  sql("CREATE TABLE t (x)");
  assert_refused(TP_ERR_STORE_SCHEMA, "another program");
  unlink(path);
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  tp__memory_store_close(store);
  sql("PRAGMA user_version = 5");
  assert_refused(TP_ERR_STORE_SCHEMA, "version 5");
  unlink(path);
  FILE *file = fopen(path, "wb");
  for (int i = 0; i < 300; i++) fputs("no database ", file);
  fclose(file);
  assert_refused(TP_ERR_STORE_CORRUPT, "not a database");
  unlink(path);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_refused(TP_ERR_IO, "open");
  rmdir(path);
  rmdir(directory);
  assert_refused(TP_ERR_IO, "cannot be made");
}

/* The index in memory follows the file, whichever process writes it. */
TEST_WITH(what_another_process_writes_changes_and_forgets_is_seen, make_directory, remove_directory) {
  tp__memory_store *other = NULL;
  tp__memory memory = said("s", "other", "A second violin.");
  int64_t id = 0;
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  assert_int_equal(tp__memory_store_open(path, &other, NULL), TP_OK);
  put("t1", "A violin.");
  assert_string_equal(recalled(&home, "violin piano", 8), "t1 ");
  assert_int_equal(tp__memory_put(other, &home, &memory, &id), TP_OK);
  assert_non_null(strstr(recalled(&home, "violin", 8), "other "));
  memory.text = text_of("A piano.");
  assert_int_equal(tp__memory_put(other, &home, &memory, NULL), TP_OK);
  assert_string_equal(recalled(&home, "violin", 8), "t1 ");
  assert_string_equal(recalled(&home, "piano", 8), "other ");
  assert_int_equal(tp__memory_forget(other, &home, id), TP_OK);
  assert_string_equal(recalled(&home, "piano", 8), "");
  tp__memory_store_close(other);
  tp__memory_store_close(store);
}

TEST_WITH(a_locked_file_is_busy_for_writers_and_open_to_readers, make_directory, remove_directory) {
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  put("t1", "A violin.");
  sqlite3 *other = NULL;
  assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  tp__memory memory = said("", "t2", "No.");
  assert_int_equal(tp__memory_put(store, &home, &memory, NULL), TP_ERR_STORE_BUSY);
  assert_int_equal(tp__memory_forget(store, &home, 1), TP_ERR_STORE_BUSY);
  assert_string_equal(recalled(&home, "violin", 8), "t1 ");
  assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(other);
  put("t3", "Another violin.");
  tp__memory_store_close(store);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 30 };

typedef struct worker {
  int number, failures;
} worker;

static void *put_and_recall(void *arg) {
  worker *w = arg;
  for (int i = 0; i < ROUNDS; i++) {
    char turn[32];
    tp__memory_list list = {0};
    snprintf(turn, sizeof turn, "w%d-%d", w->number, i);
    tp__memory memory = said("s", turn, "The violin and the piano.");
    w->failures += tp__memory_put(store, &home, &memory, NULL) != TP_OK;
    w->failures += tp__memory_recall(store, &home, text_of("violin"), 8, &list) != TP_OK || list.count == 0;
    w->failures += tp__memory_recall(store, &home, text_of("piano"), 8, &list) != TP_OK;
    tp__memory_list_fini(&list);
  }
  return NULL;
}

TEST(several_threads_may_put_and_recall_at_once) {
  pthread_t threads[THREADS];
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, put_and_recall, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) assert_int_equal(workers[i].failures, 0);
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_newest(store, &home, 0, 1000, &list), TP_OK);
  assert_int_equal(list.count, THREADS * ROUNDS);
  tp__memory_list_fini(&list);
}

/* ---- no memory ---- */

/* Everything the store does, once; the first failure. */
static tp_status live(void) {
  tp__memory_list list = {0};
  tp__memory_store *mine = NULL;
  tp__memory memory = said("s", "t", "The violin and the piano.");
  char text[2000];
  memset(text, 'x', sizeof text);
  memcpy(text, "violin ", 7);
  tp__memory longer = {.session = text_of("s"), .turn = text_of("u"), .text = {text, sizeof text}};
  int64_t id = 0;
  tp_status status = tp__memory_store_open(NULL, &mine, NULL);
  if (status == TP_OK) status = tp__memory_put(mine, &home, &memory, &id);
  if (status == TP_OK) status = tp__memory_put(mine, &home, &longer, NULL);
  if (status == TP_OK) status = tp__memory_recall(mine, &home, text_of("violin"), 8, &list);
  if (status == TP_OK) status = tp__memory_recall(mine, &home, text_of("piano"), 8, &list);
  if (status == TP_OK) status = tp__memory_newest(mine, &home, 0, 8, &list);
  if (status == TP_OK) assert_int_equal(list.count, 6);
  if (status == TP_OK) status = tp__memory_forget(mine, &home, id);
  tp__memory_list_fini(&list);
  tp__memory_store_close(mine);
  return status;
}

static void refuse_each_allocation(bool ever_after) {
  sqlite3_int64 before = sqlite3_memory_used();
  bool reached = true;
  refuse_ever_after = ever_after;
  for (long n = 0; reached; n += test_refusal_step()) {
    allocations_left = n;
    tp_status status = live();
    reached = allocations_left <= 0;
    allocations_left = -1;
    if (status != TP_OK && status != TP_ERR_NO_MEMORY) fail_msg("allocation %ld: %d", n, (int)status);
    assert_true(reached || status == TP_OK);
    assert_int_equal(sqlite3_memory_used(), before);
  }
}

TEST_WITH(each_allocation_may_be_refused, NULL, NULL) {
  refuse_each_allocation(false);
  refuse_each_allocation(true);
}

TEST_MAIN(count, arguments) {
  put_allocator_in_place();
  return test_main(count, arguments);
}

/* ---- what indexes take ---- */

/* Recalls from this many scopes in turn. @return the bytes of all indexes except the one in use. */
static size_t bytes_of_others(void) {
  size_t bytes = 0;
  for (const tp__memory_index *index = store->indexes->older; index; index = index->older) bytes += index->bytes;
  return bytes;
}

TEST(indexes_keep_to_their_bound_and_are_made_again) {
  enum { SCOPES = 12, MEMORIES = 20 };
  static const size_t bounds[] = {1, 100, 1000, 5000, 20000, 50000, 100000, 200000, 1 << 20, 1 << 28};
  tp__memory_scope scopes[SCOPES];
  char names[SCOPES][16];
  for (int i = 0; i < SCOPES; i++) {
    snprintf(names[i], sizeof names[i], "home-%d", i);
    scopes[i] = (tp__memory_scope){home.tenant, home.kind, text_of(names[i])};
    for (int m = 0; m < MEMORIES; m++) {
      char turn[16];
      snprintf(turn, sizeof turn, "t%d", m);
      put_in(&scopes[i], "s", turn, m == i ? "A violin was bought in Oslo." : "The bridge is closed.");
    }
  }
  size_t kept_before = 0;
  for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
    tp__memory_indexes_free(store);
    tp__memory_store_bound_indexes(store, bounds[b]);
    size_t kept = 0;
    for (int round = 0; round < 2; round++)
      for (int i = 0; i < SCOPES; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, "t%d ", i);
        assert_string_equal(recalled(&scopes[i], "violin", 1), expected);
        assert_true(bytes_of_others() <= bounds[b]);
      }
    size_t bytes = 0;
    for (const tp__memory_index *index = store->indexes; index; index = index->older) {
      kept++;
      bytes += index->counted;
      assert_ptr_equal(index->older ? index->older->newer : store->oldest_index, index);
    }
    assert_int_equal(store->index_bytes, bytes);
    assert_true(kept >= kept_before && kept >= 1 && kept <= SCOPES);
    kept_before = kept;
  }
  assert_int_equal(kept_before, SCOPES);
}

/* ---- what is handed over ---- */

enum { HANDED = 100 };

static struct handed {
  int ends, kept;
  uint64_t refused_tag;
  tp_status refused;
  bool closes; /* the store, at the last end */
} handed;      /* of the store's thread until it is closed */

static void end_of_handed(uint64_t tag, tp_status status) {
  assert_int_equal(tag, ++handed.ends); /* in their order */
  if (status == TP_OK) {
    handed.kept++;
  } else {
    handed.refused = status;
    handed.refused_tag = tag;
  }
  if (handed.ends == HANDED && handed.closes) tp__memory_store_close(store);
}

/* Two texts of a turn. */
static void hand_over(int number) {
  char turn[16], first[32];
  snprintf(turn, sizeof turn, "t%d", number);
  snprintf(first, sizeof first, "Line %d.", number);
  tp__memory memories[2] = {said("s", turn, first), said("s", turn, "Yes.")};
  memories[1].part = text_of(tp__memory_assistant);
  for (int i = 0; i < 2; i++) memories[i].said_ms = 1683554160000;
  tp__memory_keeping *keeping = tp__memory_keeping_new(store, &home, memories, 2);
  assert_non_null(keeping);
  memset(turn, 'x', sizeof turn); /* the store has copied the turn */
  memset(first, 'x', sizeof first);
  tp__memory_keep_later(keeping, end_of_handed, (uint64_t)number);
}

static void hand_all_over(const char *trigger) {
  handed = (struct handed){.closes = handed.closes};
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  if (trigger) sql(trigger);
  for (int i = 1; i <= HANDED; i++) hand_over(i);
}

/* Whatever waited was written before it was closed. */
TEST_WITH(what_was_handed_over_is_kept_in_its_order_though_the_store_is_closed, make_directory, remove_directory) {
  tp__memory_list list = {0};
  handed.closes = false;
  hand_all_over(NULL);
  tp__memory_store_close(store);
  assert_int_equal(handed.ends, HANDED);
  assert_int_equal(handed.kept, HANDED);
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  assert_int_equal(tp__memory_newest(store, &home, 0, 1000, &list), TP_OK);
  assert_int_equal(list.count, 2 * HANDED);
  assert_text(list.items[2 * HANDED - 1].text, "Line 1.");
  assert_text(list.items[2 * HANDED - 2].text, "Yes.");
  assert_text(list.items[2 * HANDED - 2].turn, "t1");
  assert_text(list.items[1].text, "Line 100.");
  assert_text(list.items[0].part, tp__memory_assistant);
  tp__memory_list_fini(&list);
  tp__memory_store_close(store);
}

/* The first of its texts is not stored either; works that shared its transaction are. */
TEST_WITH(what_cannot_be_kept_keeps_nothing_else, make_directory, remove_directory) {
  handed.closes = false;
  hand_all_over(
      "CREATE TRIGGER no BEFORE INSERT ON memory WHEN new.turn = 't7' AND new.part <> ''"
      " BEGIN SELECT RAISE (ABORT, 'no'); END");
  tp__memory_store_close(store);
  assert_int_equal(handed.ends, HANDED);
  assert_int_equal(handed.kept, HANDED - 1);
  assert_int_equal(handed.refused_tag, 7);
  assert_int_not_equal(handed.refused, TP_OK);
  assert_int_equal(number_in(path, "SELECT count(*) FROM memory"), 2 * (HANDED - 1));
  assert_int_equal(number_in(path, "SELECT count(*) FROM memory WHERE turn = 't7'"), 0);
}

/* The last one that needs the store may be a job's answer. */
TEST_WITH(an_end_may_close_the_store, make_directory, remove_directory) {
  handed.closes = true;
  hand_all_over(NULL);
  char log[112];
  snprintf(log, sizeof log, "%s-wal", path);
  while (access(log, F_OK) == 0) usleep(1000); /* the last connection deletes it */
  tp__memory_store *again = NULL;
  while (tp__memory_store_open(path, &again, NULL) != TP_OK) usleep(1000);
  tp__memory_store_close(again);
  assert_int_equal(number_in(path, "SELECT count(*) FROM memory"), 2 * HANDED);
}
