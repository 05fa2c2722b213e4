/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of time and their meaning, a row each, and how a recalled line shows them. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "domains/memory/line.h"
#include "domains/memory/times.h"

enum { FRIDAY = 19496 }; /* 2023-05-19 */

static int64_t said_on(int year, int month, int day) {
  return tp__memory_day(year, month, day) * INT64_C(86400000) + 50000000;
}

/* "words=date" of each, with a bar after. */
static void describe(const char *text, int64_t said_ms, char *into, size_t size) {
  tp__memory_times times = {.words.left = tp_text_of(text), .today = tp__memory_day_of(said_ms)};
  into[0] = '\0';
  while (tp__memory_times_next(&times)) {
    char date[TP__MEMORY_TIME_SIZE];
    tp__memory_time_write(&times, date);
    size_t used = strlen(into);
    snprintf(into + used, size - used, "%.*s=%s|", (int)times.text.size, times.text.data, date);
    assert_true(times.first <= times.last);
  }
}

static void assert_means(const char *text, int64_t said_ms, const char *expected) {
  char words[1024];
  describe(text, said_ms, words, sizeof words);
  if (strcmp(words, expected) != 0) fail_msg("'%s' means '%s', not '%s'", text, words, expected);
}

typedef struct row {
  const char *text, *means;
} row;

/* Said on Friday, 2023-05-19. */
TEST(words_of_time_mean_what_the_table_says) {
  static const row rows[] = {
      {"I saw her yesterday.", "yesterday=2023-05-18|"},
      {"YESTERDAY", "YESTERDAY=2023-05-18|"},
      {"the day before yesterday", "day before yesterday=2023-05-17|"},
      {"today or tonight", "today=2023-05-19|tonight=2023-05-19|"},
      {"this morning and last night", "this morning=2023-05-19|last night=2023-05-18|"},
      {"See you tomorrow, or the day after tomorrow!", "tomorrow=2023-05-20|day after tomorrow=2023-05-21|"},
      {"last Friday", "last Friday=2023-05-12|"},
      {"last thursday", "last thursday=2023-05-18|"},
      {"this past Saturday", "this past Saturday=2023-05-13|"},
      {"this Friday", "this Friday=2023-05-19|"},
      {"this Sunday", "this Sunday=2023-05-21|"},
      {"next Friday", "next Friday=2023-05-26|"},
      {"next Monday", "next Monday=2023-05-22|"},
      {"last week", "last week=week of 2023-05-08|"},
      {"this week", "this week=week of 2023-05-15|"},
      {"next week", "next week=week of 2023-05-22|"},
      {"last weekend", "last weekend=weekend of 2023-05-13|"},
      {"this past weekend", "this past weekend=weekend of 2023-05-13|"},
      {"this weekend", "this weekend=weekend of 2023-05-20|"},
      {"next month", "next month=2023-06|"},
      {"last month", "last month=2023-04|"},
      {"last year", "last year=2022|"},
      {"next year", "next year=2024|"},
      {"three days ago", "three days ago=2023-05-16|"},
      {"2 weeks ago", "2 weeks ago=week of 2023-05-01|"},
      {"a week ago", "a week ago=week of 2023-05-08|"},
      {"a couple of days ago", "couple of days ago=2023-05-17|"},
      {"a month ago", "a month ago=2023-04|"},
      {"five months ago", "five months ago=2022-12|"},
      {"17 months ago", "17 months ago=2021-12|"},
      {"10 years ago", "10 years ago=2013|"},
      {"two days from now", "two days from now=2023-05-21|"},
      {"eight months from now", "eight months from now=2024-01|"},
      {"last May, last June, last April", "last May=2022-05|last June=2022-06|last April=2023-04|"},
      {"next May, next June, this July", "next May=2024-05|next June=2023-06|this July=2023-07|"},
      {"in 2019", "in 2019=2019|"},
      {"since 2019 and until 2021", "since 2019=2019|until 2021=2021|"}};
  assert_int_equal(tp__memory_day(2023, 5, 19), FRIDAY);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_means(rows[i].text, said_on(2023, 5, 19), rows[i].means);
}

TEST(what_is_ambiguous_or_no_time_is_left_alone) {
  static const char *const texts[] = {"",
                                      "on Friday",
                                      "a few days ago",
                                      "in two weeks",
                                      "in May",
                                      "at last. Friday came",
                                      "last, Friday",
                                      "the last week of May",
                                      "the last weekend in May",
                                      "the next day",
                                      "the last day",
                                      "half a year ago",
                                      "more than a year ago",
                                      "two or three weeks ago",
                                      "a long time ago",
                                      "last",
                                      "next may we see",
                                      "in 1492",
                                      "in 20190",
                                      "in 2,019",
                                      "room 2019",
                                      "zero days ago",
                                      "0 days ago",
                                      "10000 days ago",
                                      "9999 years ago",
                                      "ago",
                                      "the week before last",
                                      "my weekly day",
                                      "yesterdays",
                                      "last Fridays"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) assert_means(texts[i], said_on(2023, 5, 19), "");
}

TEST(months_and_years_are_crossed) {
  assert_means("yesterday", said_on(2024, 3, 1), "yesterday=2024-02-29|");
  assert_means("yesterday", said_on(2023, 3, 1), "yesterday=2023-02-28|");
  assert_means("yesterday", said_on(2023, 1, 1), "yesterday=2022-12-31|");
  assert_means("last month", said_on(2023, 1, 31), "last month=2022-12|");
  assert_means("next month", said_on(2023, 12, 31), "next month=2024-01|");
  assert_means("last week", said_on(2023, 1, 1), "last week=week of 2022-12-19|"); /* a Sunday */
  assert_means("this weekend", said_on(2023, 1, 1), "this weekend=weekend of 2022-12-31|");
}

TEST(days_and_dates_agree_over_the_centuries) {
  int year = 1600, month = 1, day = 1;
  for (int64_t number = tp__memory_day(1600, 1, 1); number < tp__memory_day(2400, 1, 2); number++) {
    int y, m, d;
    tp__memory_date(number, &y, &m, &d);
    if (y != year || m != month || d != day) fail_msg("day %lld is %d-%d-%d", (long long)number, y, m, d);
    assert_int_equal(tp__memory_day(y, m, d), number);
    if (d == 28 || ++day > 28) {
      tp__memory_date(number + 1, &year, &month, &day);
      assert_true(day == d + 1 || (day == 1 && month == m % 12 + 1));
    }
  }
  assert_int_equal(tp__memory_day(1970, 1, 1), 0);
  assert_int_equal(tp__memory_day_of(-1), -1);
}

/* ---- in a recalled line ---- */

static void assert_line(const char *text, int64_t said_ms, size_t max, const char *expected) {
  tp__memory memory = {.said_ms = said_ms, .text = tp_text_of(text)};
  sqlite3_str *line = sqlite3_str_new(NULL);
  tp__memory_line_write(line, &memory, max);
  char *words = sqlite3_str_finish(line);
  assert_string_equal(words, expected);
  sqlite3_free(words);
}

TEST(a_line_shows_the_dates_of_its_words_of_time) {
  const int64_t said = said_on(2023, 5, 19);
  assert_line("I came last Friday, and she yesterday.", said, SIZE_MAX,
              "[2023-05-19] I came last Friday (2023-05-12), and she yesterday (2023-05-18).");
  assert_line("yesterday's news and yesterday\xE2\x80\x99s", said, SIZE_MAX,
              "[2023-05-19] yesterday's (2023-05-18) news and yesterday\xE2\x80\x99s (2023-05-18)");
  assert_line("in 2019", said, SIZE_MAX, "[2023-05-19] in 2019");
  assert_line("last Friday (the 12th)", said, SIZE_MAX, "[2023-05-19] last Friday (the 12th)");
  assert_line("", said, SIZE_MAX, "[2023-05-19] ");
  assert_line("it rained yesterday", said, 12, "[2023-05-19] it rained ye\xE2\x80\xA6");
}

TEST(a_line_has_eight_dates_at_most_and_none_without_a_time_of_saying) {
  char text[256] = "", expected[512] = "[2023-05-19] ";
  for (int i = 0; i < 10; i++) {
    strcat(text, "today ");
    strcat(expected, i < 8 ? "today (2023-05-19) " : "today ");
  }
  assert_line(text, said_on(2023, 5, 19), SIZE_MAX, expected);
  assert_line("yesterday", 0, SIZE_MAX, "[1970-01-01] yesterday");
}
