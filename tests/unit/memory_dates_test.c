/* SPDX-License-Identifier: Apache-2.0
 *
 * The days that texts name, a row each; and what a question recalls by them: lines that share no word with it. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "domains/memory/dates.h"
#include "domains/memory/recall.h"
#include "domains/memory/times.h"

enum { DAY_MS = 86400000 };

static int64_t ms_of(const char *date) {
  int year, month, day;
  assert_int_equal(sscanf(date, "%d-%d-%d", &year, &month, &day), 3);
  return tp__memory_day(year, month, day) * INT64_C(86400000) + DAY_MS / 2;
}

static int32_t day_of(const char *date) { return (int32_t)tp__memory_day_of(ms_of(date)); }

typedef struct row {
  const char *text, *days;
} row;

static bool describe(void *ctx, tp__memory_days days) {
  char *into = ctx;
  int y, m, d;
  for (int i = 0; i < 2; i++) {
    tp__memory_date(i ? days.last : days.first, &y, &m, &d);
    if (i && days.last == days.first) break;
    size_t used = strlen(into);
    snprintf(into + used, 512 - used, "%s%04d-%02d-%02d", i ? ".." : *into ? " " : "", y, m, d);
  }
  return true;
}

/* Asked on Friday, 2023-05-19, of what was said in 2022 and 2023. */
TEST(a_question_names_these_days) {
  static const row rows[] = {{"on 8 May 2023", "2023-05-08"},
                             {"on 8th May, 2023", "2023-05-08"},
                             {"on the 8th of May 2023", "2023-05-08"},
                             {"on May 8, 2023", "2023-05-08"},
                             {"on May 8th 2023?", "2023-05-08"},
                             {"on 8-May-2023", "2023-05-08"},
                             {"on 8 Sept. 2023", "2023-09-08"},
                             {"on Dec 24, 2022", "2022-12-24"},
                             {"on 2023-05-08.", "2023-05-08"},
                             {"on 2023/5/8", "2023-05-08"},
                             {"on 8.5.2023", "2023-05-08"},
                             {"on 5/20/2023", "2023-05-20"},
                             {"on 20/5/2023", "2023-05-20"},
                             {"on 8 may 2023", "2023-05-08"},
                             {"on May 8", "2022-05-08 2023-05-08"},
                             {"in May 2023", "2023-05-01..2023-05-31"},
                             {"in May", "2022-05-01..2022-05-31 2023-05-01..2023-05-31"},
                             {"In February 2024", "2024-02-01..2024-02-29"},
                             {"in 2022", "2022-01-01..2022-12-31"},
                             {"in early May 2023", "2023-05-01..2023-05-10"},
                             {"in mid-May 2023", "2023-05-11..2023-05-20"},
                             {"at the end of May 2023", "2023-05-21..2023-05-31"},
                             {"in late February 2023", "2023-02-21..2023-02-28"},
                             {"in the first week of May 2023", "2023-05-01..2023-05-07"},
                             {"in the last week of May 2023", "2023-05-25..2023-05-31"},
                             {"the week of May 10, 2023", "2023-05-08..2023-05-14"},
                             {"on the weekend of 13 May 2023", "2023-05-13..2023-05-14"},
                             {"on the weekend of May 10, 2023", "2023-05-13..2023-05-14"},
                             {"on the second weekend of May 2023", "2023-05-13..2023-05-14"},
                             {"on the last weekend in May 2023", "2023-05-27..2023-05-28"},
                             {"between 3 and 10 May 2023", "2023-05-03..2023-05-10"},
                             {"between May 3 and May 10, 2023", "2023-05-03..2023-05-10"},
                             {"between the 3rd and the 10th of May 2023", "2023-05-03..2023-05-10"},
                             {"from May 3, 2023 to May 10, 2023", "2023-05-03..2023-05-10"},
                             {"from 3 May until 10 May 2023", "2023-05-03..2023-05-10"},
                             {"May 3-10, 2023", "2023-05-03..2023-05-10"},
                             {"3-10 May 2023", "2023-05-03..2023-05-10"},
                             {"3 \xE2\x80\x93 10 May 2023", "2023-05-03..2023-05-10"},
                             {"2023-05-03 to 2023-05-10", "2023-05-03..2023-05-10"},
                             {"from April to June 2023", "2023-04-01..2023-06-30"},
                             {"from 28 December 2022 to 3 January 2023", "2022-12-28..2023-01-03"},
                             {"from 28 December to 3 January 2023", "2022-12-28..2023-01-03"},
                             {"from 28 December 2022 to 3 January", "2022-12-28..2023-01-03"},
                             {"from 28 December to 3 January", "2022-12-28..2023-01-03 2023-12-28..2024-01-03"},
                             {"between November and February", "2022-11-01..2023-02-28 2023-11-01..2024-02-29"},
                             {"on May 3 and on May 20, 2023", "2022-05-03 2023-05-03 2023-05-20"},
                             {"yesterday", "2023-05-18"},
                             {"last Friday", "2023-05-12"},
                             {"last weekend", "2023-05-13..2023-05-14"},
                             {"two weeks ago", "2023-05-01..2023-05-07"},
                             {"last month", "2023-04-01..2023-04-30"},
                             {"How are you today?", ""},
                             {"this month, this year, tonight", ""},
                             {"this week", "2023-05-15..2023-05-21"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char days[512] = "";
    assert_true(
        tp__memory_dates_of_question(tp_text_of(rows[i].text), day_of("2023-05-19"), 2022, 2023, describe, days));
    if (strcmp(days, rows[i].days) != 0) fail_msg("'%s' names '%s', not '%s'", rows[i].text, days, rows[i].days);
  }
}

TEST(a_text_without_a_date_names_no_day) {
  static const char *const texts[] = {"",
                                      "May I come in?",
                                      "may 8 people come",
                                      "the march 3 miles long",
                                      "Dec is my friend",
                                      "marching to Jan",
                                      "on 31 February 2023",
                                      "on 4/5/2023", /* April or May */
                                      "on 2023-13-08",
                                      "version 1.2.3",
                                      "8, May",
                                      "room 20190",
                                      "call 555-2023-0505",
                                      "32 May people",
                                      "How are you?",
                                      "on Friday"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char days[512] = "";
    tp__memory_dates_of_line(tp_text_of(texts[i]), day_of("2023-05-19"), describe, days);
    if (*days) fail_msg("'%s' names '%s'", texts[i], days);
  }
}

/* Said on Friday, 2023-05-19. */
TEST(a_line_names_the_nearest_of_its_days) {
  static const row rows[] = {{"We meet on May 20.", "2023-05-20"},
                             {"We met on 3 December.", "2022-12-03"},
                             {"See you on 3 November.", "2023-11-03"},
                             {"yesterday, and on 8 May", "2023-05-18 2023-05-08"},
                             {"It was in May.", "2023-05-01..2023-05-31"},
                             {"May was here.", ""},
                             {"since 2019", "2019-01-01..2019-12-31"},
                             {"2019 people", ""},
                             {"from 28 December to 3 January", "2022-12-28..2023-01-03"},
                             {"next Friday", "2023-05-26"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char days[512] = "";
    tp__memory_dates_of_line(tp_text_of(rows[i].text), day_of("2023-05-19"), describe, days);
    if (strcmp(days, rows[i].days) != 0) fail_msg("'%s' names '%s', not '%s'", rows[i].text, days, rows[i].days);
  }
  char days[512] = "";
  tp__memory_dates_of_line(tp_text_of("on 8 May, and yesterday"), TP__MEMORY_NO_DAY, describe, days);
  assert_string_equal(days, "");
}

TEST(every_date_of_a_long_text_is_read_once) {
  char text[4096] = "", days[512] = "";
  for (int i = 0; i < 20; i++) strcat(text, "Far from any date stand these words of no month at all. ");
  strcat(text, "On 8 May 2023 we met. ");
  for (int i = 0; i < 20; i++) strcat(text, "And then these follow, which say nothing of a day either. ");
  strcat(text, "From May 10, 2023 to May 12, 2023 and on 2023-06-01.");
  tp__memory_dates_of_line(tp_text_of(text), day_of("2023-05-19"), describe, days);
  assert_string_equal(days, "2023-05-08 2023-05-10..2023-05-12 2023-06-01");
}

/* ---- recall ---- */

static const tp__memory_scope home = {.tenant = {"acme", 4}, .kind = {"workspace", 9}, .name = {"home", 4}};

static void keep(tp__memory_store *store, const char *turn, const char *said, const char *text) {
  /* Each in a session of its own: no neighbour helps. */
  const tp__memory memory = {
      .said_ms = ms_of(said), .session = tp_text_of(turn), .turn = tp_text_of(turn), .text = tp_text_of(text)};
  assert_int_equal(tp__memory_put(store, &home, &memory, NULL), TP_OK);
}

/* "a b c ": the turns of what is recalled, best first. */
static void recall(tp__memory_store *store, const char *question, const char *asked, char *into, size_t size) {
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_recall_explained(
                       store, &home, &(tp__memory_question){.text = tp_text_of(question), .asked_ms = ms_of(asked)}, 16,
                       &list, NULL),
                   TP_OK);
  into[0] = '\0';
  for (size_t i = 0; i < list.count; i++) {
    size_t used = strlen(into);
    snprintf(into + used, size - used, "%.*s ", (int)list.items[i].turn.size, list.items[i].turn.data);
  }
  tp__memory_list_fini(&list);
}

static void assert_same_turns(const char *question, const char *turns, const char *expected) {
  bool same = strlen(turns) == strlen(expected);
  char copy[512], *rest = NULL;
  snprintf(copy, sizeof copy, "%s", expected);
  for (char *turn = strtok_r(copy, " ", &rest); turn; turn = strtok_r(NULL, " ", &rest))
    same = same && strstr(turns, turn);
  if (!same) fail_msg("'%s' recalls '%s', not '%s'", question, turns, expected);
}

/* No question shares a word with a line. Each row names the lines of its turns, in any order. */
TEST(a_date_recalls_lines_without_a_shared_word) {
  static const struct {
    const char *question, *turns;
  } rows[] = {{"What did I do on 8 May 2023?", "lake "},
              {"What did I do on May 8th?", "lake "},
              {"What was on 2023-05-08?", "lake "},
              {"What did I do on 7 May 2023?", "piano "},   /* said on the 8th: yesterday */
              {"What happens on 20 May 2023?", "concert "}, /* said before */
              {"What happens on May 26?", "dentist "},      /* next Friday */
              {"What did I do on the weekend of 13 May 2023?", "tent "},
              {"What did I do last weekend?", "tent "},
              {"What was on Friday, 12 May 2023?", "dentist "},
              {"What did I do from 7 to 9 May 2023?", "lake piano "},
              {"What did I do between May 6 and May 9?", "lake piano "},
              {"What did I do between 6 and 9 May 2023?", "lake piano "},
              {"What happened in December 2022?", "party snow "},
              {"What happened in January 2023?", "resolution party "},
              {"What did I do from 30 December to 2 January?", "party resolution "},
              {"What did I do on 31 December?", "party "},
              {"What did I do in early May?", "lake piano "},
              {"What did I do in the second week of May 2023?", "lake tent dentist "},
              {"What did I do in April 2023?", "boat "},
              {"What did I do on 30 April 2023?", "boat "},
              {"What happens on 3 January?", "move "},
              {"What did I do on 1 March 2023?", ""},
              {"What did I do in 1999?", ""},
              {"What did I do three weeks ago?", "boat "}, /* week of 24 April */
              {"What will I do next Friday?", "dentist "}};
  tp__memory_store *store = NULL;
  assert_int_equal(tp__memory_store_open(NULL, &store, NULL), TP_OK);
  keep(store, "snow", "2022-12-20", "Such a cold morning, the pipes froze.");
  keep(store, "party", "2023-01-01", "We danced all night on 31 December.");
  keep(store, "resolution", "2023-01-02", "No more sugar.");
  keep(store, "move", "2023-06-20", "The new house is ours on Jan 3, 2024.");
  keep(store, "boat", "2023-04-30", "Anna repaired her sail.");
  keep(store, "lake", "2023-05-08", "Swimming was lovely.");
  keep(store, "piano", "2023-06-15", "Bought the piano back on 7 May.");
  keep(store, "concert", "2023-03-10", "Tickets for the opera are for 20 May.");
  keep(store, "dentist", "2023-05-12", "Remind me: teeth, next Friday, and then 26 May again.");
  keep(store, "tent", "2023-05-14", "We slept under the stars.");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char turns[512];
    recall(store, rows[i].question, "2023-05-19", turns, sizeof turns);
    assert_same_turns(rows[i].question, turns, rows[i].turns);
  }
  tp__memory_store_close(store);
}

/* Words still count: a line with both comes first, and a line with words only is recalled, too. */
TEST(words_and_a_date_are_worth_more_than_either) {
  char turns[512];
  tp__memory_store *store = NULL;
  assert_int_equal(tp__memory_store_open(NULL, &store, NULL), TP_OK);
  keep(store, "word", "2023-03-08", "The xylophone is for sale.");
  keep(store, "day", "2023-05-08", "It rained.");
  keep(store, "both", "2023-05-08", "The xylophone was sold.");
  recall(store, "What about the xylophone on 8 May 2023?", "2023-05-19", turns, sizeof turns);
  assert_int_equal(strncmp(turns, "both ", 5), 0);
  assert_same_turns("both", turns, "both word day ");
  tp__memory_store_close(store);
}

/* Words of time in a question have no meaning when the time of the question is not known. */
TEST(yesterday_means_nothing_without_a_day_of_asking) {
  tp__memory_list list = {0};
  tp__memory_store *store = NULL;
  assert_int_equal(tp__memory_store_open(NULL, &store, NULL), TP_OK);
  keep(store, "day", "2023-05-08", "It rained.");
  assert_int_equal(tp__memory_recall(store, &home, tp_text_of("What was yesterday?"), 16, &list), TP_OK);
  assert_int_equal(list.count, 0);
  tp__memory_list_fini(&list);
  tp__memory_store_close(store);
}

TEST_MAIN(count, arguments) { return test_main(count, arguments); }
