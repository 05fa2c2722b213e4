/* SPDX-License-Identifier: Apache-2.0
 *
 * Ambiguous words are not resolved: "on Friday", "a few days ago", "in two weeks" (from now, or within), "in May". */
#include "domains/memory/times.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "domains/memory/index.h"

/* ---- days and dates ---- */

enum { DAY_S = 86400 };

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

int64_t tp__memory_day_of(int64_t unix_ms) { return floor_divide(unix_ms, INT64_C(1000) * DAY_S); }

int64_t tp__memory_day(int year, int month, int day) {
  assert(month >= 1 && month <= 12 && day >= 1 && day <= 31);
  struct tm date = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
  return timegm(&date) / DAY_S;
}

void tp__memory_date(int64_t day, int *ret_year, int *ret_month, int *ret_day) {
  const time_t seconds = day * DAY_S;
  struct tm date = {0};
  gmtime_r(&seconds, &date);
  if (ret_day) *ret_day = date.tm_mday;
  if (ret_month) *ret_month = date.tm_mon + 1;
  if (ret_year) *ret_year = date.tm_year + 1900;
}

/* The weekday of a day; 0 is Monday. */
static int weekday_of(int64_t day) { return (int)(day + 3 - 7 * floor_divide(day + 3, 7)); }

/* ---- the table ---- */

/** How words of time are resolved. */
typedef enum way {
  BY_DAYS,    /* to the day that is `shift` days after today */
  BY_UNIT,    /* to the week, month, year … that is `shift` units after today's */
  BY_NUMBER,  /* to the day that is as many units after today as the number says; before today if shift is below 0 */
  BY_WEEKDAY, /* to the weekday before today, from today on, or after today, by shift */
  BY_MONTH,   /* to the month of that name before today's, from today's on, or after it, by shift */
  BY_YEAR     /* to the year that is written there */
} way;

/** The words of a pattern are separated by spaces, their alternatives by bars. # is a number, @ a unit, % a weekday,
 *  ^ a month with a capital, $ a year. When two patterns fit, the first one counts. */
typedef struct row {
  const char *pattern;
  way by;
  int shift;
} row;

static const row rows[] = {
    {"day before yesterday", BY_DAYS, -2},
    {"day after tomorrow", BY_DAYS, 2},
    {"yesterday", BY_DAYS, -1},
    {"today|tonight", BY_DAYS, 0},
    {"tomorrow", BY_DAYS, 1},
    {"last night", BY_DAYS, -1},
    {"this morning|afternoon|evening", BY_DAYS, 0},
    {"# @ ago", BY_NUMBER, -1},
    {"couple of @ ago", BY_NUMBER, -1},
    {"couple @ ago", BY_NUMBER, -1},
    {"# @ from now|today", BY_NUMBER, 1},
    {"this past %", BY_WEEKDAY, -1},
    {"last|previous %", BY_WEEKDAY, -1},
    {"this %", BY_WEEKDAY, 0},
    {"next|coming %", BY_WEEKDAY, 1},
    {"this past weekend", BY_UNIT, -1},
    {"last|previous @", BY_UNIT, -1},
    {"this @", BY_UNIT, 0},
    {"next|coming @", BY_UNIT, 1},
    {"last ^", BY_MONTH, -1},
    {"this ^", BY_MONTH, 0},
    {"next ^", BY_MONTH, 1},
    {"in|since|during|until|till|by|of $", BY_YEAR, 0},
};

static const char *const weekday_names[] = {"monday", "tuesday",  "wednesday", "thursday",
                                            "friday", "saturday", "sunday"};
static const char *const number_names[] = {"one",   "two",   "three", "four", "five",   "six",
                                           "seven", "eight", "nine",  "ten",  "eleven", "twelve"};
/* Words before a number that change its meaning: "half a year ago", "more than a year ago". */
static const char not_before[] = "half|than|over|quarter|to|or";

static int find_name(tp_text word, const char *const *names, int count) {
  for (int i = 0; i < count; i++)
    if (tp__memory_same_word(word, tp_text_of(names[i]))) return i;
  return -1;
}

/* The number that a word means; 0 for anything but a number from 1 to 9,999. */
static int number_of_word(tp_text word) {
  if (tp__memory_is_one_of(word, "a|an", 4)) return 1;
  int number = find_name(word, number_names, 12) + 1;
  if (number || word.size > 4) return number;
  for (size_t i = 0; i < word.size; i++) {
    if (word.data[i] < '0' || word.data[i] > '9') return 0;
    number = 10 * number + (word.data[i] - '0');
  }
  return number;
}

/** The values of a pattern's placeholders. */
typedef struct found {
  tp__memory_span unit;
  int number, weekday, month, year;
} found;

static bool take_unit(tp_text word, found *f) {
  static const struct {
    const char *names;
    tp__memory_span span;
  } units[] = {{"day|days", TP__MEMORY_SPAN_DAY},
               {"week|weeks", TP__MEMORY_SPAN_WEEK},
               {"weekend|weekends", TP__MEMORY_SPAN_WEEKEND},
               {"month|months", TP__MEMORY_SPAN_MONTH},
               {"year|years", TP__MEMORY_SPAN_YEAR}};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (tp__memory_is_one_of(word, units[i].names, strlen(units[i].names))) {
      f->unit = units[i].span;
      return true;
    }
  return false;
}

static bool take_pattern_word(tp_text word, const char *pattern, size_t size, found *f) {
  switch (pattern[0]) {
    case '#':
      return (f->number = number_of_word(word)) > 0;
    case '@':
      return take_unit(word, f);
    case '%':
      return (f->weekday = find_name(word, weekday_names, 7)) >= 0;
    case '^':
      return word.data[0] < 'a' && (f->month = tp__memory_month_of(word)) > 0;
    case '$':
      return word.size == 4 && (f->year = number_of_word(word)) >= 1900 && f->year < 2200;
    default:
      break;
  }
  if (tp__memory_same_word(word, tp_text_of("weekend"))) f->unit = TP__MEMORY_SPAN_WEEKEND;
  return tp__memory_is_one_of(word, pattern, size);
}

/* Whether a pattern fits at the current word. @param words  moved after the last word of the pattern when it fits. */
static bool time_fits(tp__memory_words *words, const char *pattern, found *f) {
  tp__memory_words at = *words;
  *f = (found){.number = 2}; /* a couple */
  for (bool first = true; *pattern; first = false) {
    size_t size = strcspn(pattern, " ");
    if (!first && (!tp__memory_words_next(&at) || at.begins_clause)) return false;
    if (!take_pattern_word(at.word, pattern, size, f)) return false;
    pattern += size + (pattern[size] == ' ');
  }
  *words = at;
  return true;
}

/* ---- words with which no pattern begins ---- */

/* Most words of a text begin no pattern, and a turn recalls hundreds of texts. So a word is excluded by its first
 * letter and its size before it is compared with each pattern. Bit n of an element: a pattern's first word has n
 * bytes. */
static uint32_t first_sizes[26];
/* For each pattern the letters with which its first word may begin, and DIGIT. */
static uint32_t first_letters[sizeof rows / sizeof rows[0]];
enum { DIGIT = 26 };

static int letter_of(char c) {
  int lower = (unsigned char)c | 0x20;
  return lower >= 'a' && lower <= 'z' ? lower - 'a' : -1;
}

static void note_first(const char *word, size_t size, uint32_t *letters) {
  assert(size > 0 && size < 32 && letter_of(word[0]) >= 0);
  first_sizes[letter_of(word[0])] |= 1u << size;
  *letters |= 1u << letter_of(word[0]);
}

static void note_numbers(uint32_t *letters) {
  note_first("a", 1, letters);
  note_first("an", 2, letters);
  for (size_t i = 0; i < sizeof number_names / sizeof number_names[0]; i++)
    note_first(number_names[i], strlen(number_names[i]), letters);
  *letters |= 1u << DIGIT;
}

__attribute__((constructor)) static void note_first_words(void) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *at = rows[i].pattern;
    assert(at[0] == '#' || letter_of(at[0]) >= 0); /* no pattern begins with another placeholder */
    if (at[0] == '#') note_numbers(&first_letters[i]);
    for (size_t size; at[0] != '#' && (size = strcspn(at, "| ")) > 0; at += size + 1) {
      note_first(at, size, &first_letters[i]);
      if (at[size] != '|') break;
    }
  }
}

static bool may_begin(tp_text word) {
  int letter = word.size ? letter_of(word.data[0]) : -1;
  if (letter >= 0) return word.size < 32 && (first_sizes[letter] >> word.size & 1);
  return word.size > 0 && word.data[0] >= '0' && word.data[0] <= '9' && word.size <= 4;
}

/* ---- reckoning ---- */

static void be_days(tp__memory_times *t, tp__memory_span span, int64_t first, int count) {
  t->span = span;
  t->first = first;
  t->last = first + count - 1;
}

static void be_month(tp__memory_times *t, int year, int month) {
  int next_year = month == 12 ? year + 1 : year, next = month == 12 ? 1 : month + 1;
  int64_t first = tp__memory_day(year, month, 1);
  be_days(t, TP__MEMORY_SPAN_MONTH, first, (int)(tp__memory_day(next_year, next, 1) - first));
}

static void be_year(tp__memory_times *t, int year) {
  int64_t first = tp__memory_day(year, 1, 1);
  be_days(t, TP__MEMORY_SPAN_YEAR, first, (int)(tp__memory_day(year + 1, 1, 1) - first));
}

static void be_unit(tp__memory_times *t, tp__memory_span unit, int shift) {
  int year, month;
  int64_t monday = t->today - weekday_of(t->today);
  tp__memory_date(t->today, &year, &month, NULL);
  switch (unit) {
    case TP__MEMORY_SPAN_DAY:
      be_days(t, unit, t->today + shift, 1);
      break;
    case TP__MEMORY_SPAN_WEEK:
      be_days(t, unit, monday + 7 * (int64_t)shift, 7);
      break;
    case TP__MEMORY_SPAN_WEEKEND:
      be_days(t, unit, monday + 5 + 7 * (int64_t)shift, 2);
      break;
    case TP__MEMORY_SPAN_YEAR:
      be_year(t, year + shift);
      break;
    case TP__MEMORY_SPAN_MONTH:
      month += 12 * year - 1 + shift;
      be_month(t, month / 12, month % 12 + 1);
      break;
  }
}

static void be_weekday(tp__memory_times *t, int weekday, int shift) {
  int ahead = (weekday - weekday_of(t->today) + 7) % 7; /* 0: today */
  if (shift > 0 && ahead == 0) ahead = 7;
  be_days(t, TP__MEMORY_SPAN_DAY, t->today + (shift < 0 ? ahead - 7 : ahead), 1);
}

static void be_named_month(tp__memory_times *t, int month, int shift) {
  int year, now;
  tp__memory_date(t->today, &year, &now, NULL);
  be_month(t, shift < 0 ? year - (month >= now) : shift > 0 ? year + (month <= now) : year, month);
}

/* Resolves words of time; the years do not go below year 1. */
static bool reckon(tp__memory_times *t, const row *r, const found *f) {
  int year;
  tp__memory_date(t->today, &year, NULL, NULL);
  if (r->by == BY_NUMBER && f->unit == TP__MEMORY_SPAN_YEAR && f->number >= year) return false;
  switch (r->by) {
    case BY_DAYS:
      be_days(t, TP__MEMORY_SPAN_DAY, t->today + r->shift, 1);
      break;
    case BY_UNIT:
      be_unit(t, f->unit, r->shift);
      break;
    case BY_NUMBER:
      be_unit(t, f->unit, r->shift * f->number);
      break;
    case BY_WEEKDAY:
      be_weekday(t, f->weekday, r->shift);
      break;
    case BY_MONTH:
      be_named_month(t, f->month, r->shift);
      break;
    case BY_YEAR:
      be_year(t, f->year);
      break;
  }
  t->says_itself = r->by == BY_YEAR;
  return true;
}

/* ---- the walk ---- */

/* Whether the words mean something else: "the last week of May" is not the week before today's, and "last day" and
 * "next day" are counted from another day. */
static bool means_otherwise(const tp__memory_times *t, const row *r, const found *f, const tp__memory_words *behind) {
  if (r->by == BY_NUMBER) return tp__memory_is_one_of(t->before, not_before, strlen(not_before));
  if (r->by != BY_UNIT) return false;
  tp__memory_words next = *behind;
  bool more = tp__memory_words_next(&next) && !next.begins_clause;
  const bool of = more && tp__memory_is_one_of(next.word, "of", 2),
             in = more && tp__memory_is_one_of(next.word, "in", 2);
  return f->unit == TP__MEMORY_SPAN_DAY || of ||
         (in && tp__memory_words_next(&next) && tp__memory_month_of(next.word) > 0);
}

static bool at_time(tp__memory_times *t, tp_text word) {
  const int letter = letter_of(word.data[0]);
  const uint32_t begins = 1u << (letter >= 0 ? letter : DIGIT);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp__memory_words words = t->words;
    found f;
    if (!(first_letters[i] & begins)) continue;
    if (!time_fits(&words, rows[i].pattern, &f) || means_otherwise(t, &rows[i], &f, &words)) continue;
    if (!reckon(t, &rows[i], &f)) continue;
    t->text = (tp_text){word.data, (size_t)(words.word.data + words.word.size - word.data)};
    t->before = words.word;
    t->words = words;
    return true;
  }
  return false;
}

bool tp__memory_times_next(tp__memory_times *t) {
  while (tp__memory_words_next(&t->words)) {
    if (may_begin(t->words.word) && at_time(t, t->words.word)) return true;
    t->before = t->words.word;
  }
  return false;
}

void tp__memory_time_write(const tp__memory_times *t, char into[TP__MEMORY_TIME_SIZE]) {
  int year, month, day;
  tp__memory_date(t->first, &year, &month, &day);
  const char *of = t->span == TP__MEMORY_SPAN_WEEK      ? "week of "
                   : t->span == TP__MEMORY_SPAN_WEEKEND ? "weekend of "
                                                        : "";
  int written = snprintf(into, TP__MEMORY_TIME_SIZE, "%s%04d", of, year);
  if (t->span != TP__MEMORY_SPAN_YEAR)
    written += snprintf(into + written, (size_t)(TP__MEMORY_TIME_SIZE - written), "-%02d", month);
  if (t->span < TP__MEMORY_SPAN_MONTH) snprintf(into + written, (size_t)(TP__MEMORY_TIME_SIZE - written), "-%02d", day);
}
