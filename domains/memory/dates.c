/* SPDX-License-Identifier: Apache-2.0
 *
 * A date is first read as a spec, perhaps without a year. It becomes days when the year is known: a weekend depends on
 * the year, and a range may cross the end of a year. */
#include "domains/memory/dates.h"

#include <assert.h>
#include <string.h>

#include "domains/memory/index.h"
#include "domains/memory/times.h"

/* ---- specs ---- */

/** Which days of the named period are meant. */
typedef enum portion { ALL, WEEK, WEEKEND, EARLY, MIDDLE, LATE } portion;

/** A date as it was read. 0: this part is not named. */
typedef struct spec {
  int year, month, day;
  portion part;
  int nth; /* the week or weekend of a month, from 1; 5: the last one; 0: the one that contains the day */
} spec;

static int days_in_month(int year, int month) {
  const int64_t next = month == 12 ? tp__memory_day(year + 1, 1, 1) : tp__memory_day(year, month + 1, 1);
  return (int)(next - tp__memory_day(year, month, 1));
}

/* The weekday of a day; 0 is Monday. */
static int weekday_of(int64_t day) { return (int)(((day + 3) % 7 + 7) % 7); }

static tp__memory_days days_from(int64_t first, int count) {
  return (tp__memory_days){(int32_t)first, (int32_t)(first + count - 1)};
}

/* The days of the week or weekend that contains a day, or of the nth one of a month. Weeks of a month are counted from
 * its first day. */
static tp__memory_days resolve_week(const spec *s, int64_t first, int days) {
  const bool weekend = s->part == WEEKEND;
  const int count = weekend ? 2 : 7;
  if (s->day) {
    const int64_t day = first + s->day - 1;
    return days_from(day - weekday_of(day) + (weekend ? 5 : 0), count);
  }
  const int64_t begin = weekend ? first + (12 - weekday_of(first)) % 7 : first; /* a Saturday */
  if (s->nth < 5) return days_from(begin + 7 * ((int64_t)s->nth - 1), count);
  const int64_t end = first + days - count;
  return days_from(weekend ? end - (weekday_of(end) + 2) % 7 : end, count);
}

/* @return false: there is no such day, such as 29 February in most years. */
static bool resolve(const spec *s, int year, tp__memory_days *ret) {
  const int month = s->month ? s->month : 1, days = days_in_month(year, month);
  const int64_t first = tp__memory_day(year, month, 1);
  if (s->day > days) return false;
  if (!s->month) *ret = days_from(first, (int)(tp__memory_day(year + 1, 1, 1) - first));
  else if ((s->part == WEEK || s->part == WEEKEND) && (s->day || s->nth)) *ret = resolve_week(s, first, days);
  else if (s->day) *ret = days_from(first + s->day - 1, 1);
  else if (s->part == EARLY) *ret = days_from(first, 10);
  else if (s->part == MIDDLE) *ret = days_from(first + 10, 10);
  else if (s->part == LATE) *ret = days_from(first + 20, days - 20);
  else *ret = days_from(first, days);
  return true;
}

/* ---- reading ---- */

typedef struct reader {
  tp__memory_words words; /* positioned at the current word */
  tp_text before[4];      /* the words before it in its clause, the nearest one first */
} reader;

static bool is(tp_text word, const char *alternatives) {
  return word.size > 0 && tp__memory_is_one_of(word, alternatives, strlen(alternatives));
}

/* Moves to the next word. @param gap  characters that may stand between the two words in addition to spaces, each
 * once. */
static bool next_word(tp__memory_words *words, const char *gap) {
  const char *end = words->word.data + words->word.size;
  tp__memory_words at = *words;
  if (!tp__memory_words_next(&at)) return false;
  bool used[4] = {false};
  for (; end < at.word.data; end++) {
    const char *allowed = *end ? strchr(gap, *end) : NULL;
    if (*end == ' ') continue;
    if (!allowed || used[allowed - gap]) return false;
    used[allowed - gap] = true;
  }
  *words = at;
  return true;
}

static int digits_of(tp_text word, size_t *ret_digits) {
  int number = 0;
  size_t i = 0;
  for (; i < word.size && i < 4 && word.data[i] >= '0' && word.data[i] <= '9'; i++)
    number = 10 * number + word.data[i] - '0';
  *ret_digits = i;
  return number;
}

/* Reads a day such as 8, 08 or 8th. */
static int day_of(tp_text word) {
  size_t digits;
  int number = digits_of(word, &digits);
  tp_text rest = {word.data + digits, word.size - digits};
  if (digits == 0 || digits > 2 || number > 31 || !(rest.size == 0 || is(rest, "st|nd|rd|th"))) return 0;
  return number;
}

static int year_of(tp_text word) {
  size_t digits;
  int number = digits_of(word, &digits);
  return digits == 4 && word.size == 4 && number >= 1900 && number < 2200 ? number : 0;
}

/* @param ret_weak  set when the name is shortened or has no capital, so that it may also be a name or another word. */
static int month_of(tp_text word, bool *ret_weak) {
  static const char *const names[] = {"Jan", "Feb", "Mar",      "Apr", NULL,  "Jun",
                                      "Jul", "Aug", "Sep|Sept", "Oct", "Nov", "Dec"};
  *ret_weak = word.data[0] >= 'a';
  if (word.size < 3 || !memchr("jfmasond", word.data[0] | 0x20, 8)) return 0;
  int month = tp__memory_month_of(word);
  for (int i = 0; !month && i < 12; i++)
    if (names[i] && is(word, names[i])) {
      *ret_weak = true;
      return i + 1;
    }
  return month;
}

/* Reads "2023-05-08", "2023/5/8", "8.5.2023" or "5/20/2023". A date in which day and month could be exchanged is not
 * accepted. */
static bool read_numeric(tp__memory_words *words, spec *s) {
  size_t digits[3];
  int numbers[3] = {0};
  tp__memory_words at = *words;
  const char *end = at.word.data + at.word.size;
  const char sep = at.left.size > 0 ? *end : '\0';
  if (!memchr("-/.", sep, 3)) return false;
  for (int i = 0; i < 3; i++) {
    const char *after = at.word.data + at.word.size;
    if (i > 0 && (*after != sep || !tp__memory_words_next(&at) || at.word.data != after + 1)) return false;
    numbers[i] = digits_of(at.word, &digits[i]);
    if (digits[i] == 0 || digits[i] != at.word.size || (i < 2 && at.left.size == 0)) return false;
  }
  if (digits[0] == 4 && digits[1] <= 2 && digits[2] <= 2 && sep != '.') {
    *s = (spec){.year = numbers[0], .month = numbers[1], .day = numbers[2]};
  } else if (digits[0] <= 2 && digits[1] <= 2 && digits[2] == 4) {
    const bool day_first = sep == '.' || numbers[0] > 12;
    if (!day_first && numbers[1] <= 12 && numbers[0] != numbers[1]) return false;
    *s = (spec){.year = numbers[2], .month = numbers[day_first], .day = numbers[!day_first]};
  }
  if (s->year < 1900 || s->year >= 2200 || s->month < 1 || s->month > 12 || s->day < 1 || s->day > 31) return false;
  *words = at;
  return true;
}

/* Reads a year after a date: "May 8, 2023", "8-May-2023", "8 Sept. 2023". */
static void read_year(tp__memory_words *words, spec *s) {
  tp__memory_words at = *words;
  if (!next_word(&at, ",-.") || !year_of(at.word)) return;
  s->year = year_of(at.word);
  *words = at;
}

/* Reads "May", "May 8", "May 2023" or "May 8th, 2023". A weak name needs a number next to it; next to "may" and "march"
 * in small letters a number usually counts something else, so these are never months. */
static bool read_month_first(tp__memory_words *words, spec *s) {
  bool is_weak;
  tp__memory_words at = *words;
  s->month = month_of(words->word, &is_weak);
  if (!s->month || (words->word.data[0] == 'm' && is_weak && tp__memory_month_of(words->word))) return false;
  if (next_word(&at, ".") && day_of(at.word)) {
    s->day = day_of(at.word);
    *words = at;
  }
  read_year(words, s);
  return !is_weak || s->day || s->year;
}

/* Reads "8 May" or "8th of May, 2023". */
static bool read_day_first(tp__memory_words *words, spec *s) {
  bool is_weak;
  tp__memory_words at = *words;
  s->day = day_of(words->word);
  if (!s->day || !next_word(&at, "-.")) return false;
  if (is(at.word, "of") && !next_word(&at, "")) return false;
  s->month = month_of(at.word, &is_weak);
  if (!s->month) return false;
  *words = at;
  read_year(words, s);
  return true;
}

/* @param words  moved to the last word of the date. */
static bool read_date(tp__memory_words *words, spec *ret) {
  *ret = (spec){0};
  const char first = words->word.data[0];
  if (first >= '0' && first <= '9') {
    if (read_numeric(words, ret)) return true;
    *ret = (spec){0};
    return read_day_first(words, ret);
  }
  return read_month_first(words, ret);
}

/* ---- what stands before a date ---- */

static int nth_of(tp_text word) {
  static const char *const names[] = {"first|1st", "second|2nd", "third|3rd", "fourth|4th", "last"};
  for (int i = 0; i < 5; i++)
    if (is(word, names[i])) return i + 1;
  return 0;
}

/* Reads the words before a date: "mid-May", "the end of May", "the first week of May", "the weekend of 13 May". */
static void read_portion(const reader *r, spec *s) {
  static const struct {
    const char *words;
    portion part;
  } parts[] = {{"early|beginning|start", EARLY},
               {"mid|middle", MIDDLE},
               {"late|end", LATE},
               {"week", WEEK},
               {"weekend", WEEKEND}};
  const int of = is(r->before[0], "of|in"), at = of && is(r->before[1], "the") ? 2 : of;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    if (is(r->before[at], parts[i].words)) s->part = parts[i].part;
  const bool is_week = s->part == WEEK || s->part == WEEKEND;
  if (is_week && !s->day) s->nth = nth_of(r->before[at + 1]);
  if (s->day ? !is_week : is_week && !s->nth) s->part = ALL;
}

/* Whether a single month name is a month: "May" and "March" are other words, too, and "August" and "April" also
 * names. */
static bool is_month_alone(const reader *r, const spec *s, bool is_question) {
  if (s->day || s->year) return true;
  if (s->part != ALL ||
      is(r->before[0], "in|during|since|until|till|by|of|from|between|through|to|for|early|mid|late|this|last|next"))
    return true;
  return is_question && s->month != 5 && s->month != 3;
}

/* ---- ranges ---- */

static bool is_before(const spec *a, const spec *b) {
  if (a->year && b->year && a->year != b->year) return a->year < b->year;
  return a->month != b->month ? a->month < b->month : a->day < b->day;
}

/* Reads the word between two dates: "to", "until", a dash; or "and" after "between". The words are moved to the second
 * date. */
static bool read_connector(tp__memory_words *words, bool between) {
  tp__memory_words at = *words;
  const char *end = at.word.data + at.word.size;
  if (!tp__memory_words_next(&at)) return false;
  size_t gap = (size_t)(at.word.data - end);
  static const char *const dashes[] = {"-", " - ", "\xE2\x80\x93", " \xE2\x80\x93 ", "\xE2\x80\x94", " \xE2\x80\x94 "};
  for (size_t i = 0; i < sizeof dashes / sizeof dashes[0]; i++)
    if (gap == strlen(dashes[i]) && memcmp(end, dashes[i], gap) == 0) {
      *words = at;
      return true;
    }
  at = *words;
  if (!next_word(&at, "") || !is(at.word, between ? "and|to|until" : "to|until|till|through|thru")) return false;
  if (!next_word(&at, "")) return false;
  if (is(at.word, "the") && !next_word(&at, "")) return false;
  *words = at;
  return true;
}

/* @param words  at the last word of the first date; moved to the last word of the second date, if there is one. */
static bool read_range_end(tp__memory_words *words, const spec *from, bool between, spec *ret) {
  tp__memory_words at = *words;
  if (!read_connector(&at, between)) return false;
  if (read_date(&at, ret)) {
    *words = at;
    return (from->day > 0) == (ret->day > 0);
  }
  *ret = (spec){.year = from->year, .month = from->month, .day = day_of(at.word)}; /* "May 3 to 10" */
  if (!from->day || ret->day <= from->day) return false;
  read_year(&at, ret);
  *words = at;
  return true;
}

/* Reads "3 to 10 May" or "between 3 and 10 May": the first date is only a number. */
static bool read_day_range(tp__memory_words *words, bool between, spec *from, spec *to) {
  tp__memory_words at = *words;
  *from = (spec){.day = day_of(at.word)};
  if (!from->day || !read_connector(&at, between) || !day_of(at.word) || !read_day_first(&at, (*to = (spec){0}, to)))
    return false;
  from->year = to->year;
  from->month = to->month;
  *words = at;
  return from->day < to->day;
}

/* ---- the walk ---- */

typedef struct span {
  spec from, to;
  bool is_range;
} span;

/* Reads a day, a month, a year or a range that begins at the current word, and moves that to its last word.
 * @return false: none begins there. */
static bool read_span(reader *r, bool is_question, span *ret) {
  tp__memory_words at = r->words;
  const bool between = is(r->before[is(r->before[0], "the")], "between");
  *ret = (span){.is_range = true};
  if (read_day_range(&at, between, &ret->from, &ret->to)) {
    r->words = at;
    return true;
  }
  at = r->words;
  ret->is_range = false;
  if (!read_date(&at, &ret->from)) {
    ret->from = (spec){.year = year_of(at.word)};
    const bool is_year = ret->from.year && (is_question || is(r->before[0], "in|since|during|until|till|by|of"));
    return is_year;
  }
  read_portion(r, &ret->from);
  if (!is_month_alone(r, &ret->from, is_question)) return false;
  ret->is_range = read_range_end(&at, &ret->from, between, &ret->to);
  if (ret->is_range) {
    /* When only one of the two dates has a year, the other gets it too, or the neighbouring year when the range crosses
     * a new year. */
    spec *a = &ret->from;
    spec *b = &ret->to;
    if (!a->year && b->year) a->year = b->year - is_before(b, a);
    else if (a->year && !b->year) b->year = a->year + is_before(b, a);
  }
  r->words = at;
  return true;
}

static bool resolve_span(const span *s, int year, tp__memory_days *ret) {
  tp__memory_days to;
  const int from_year = s->from.year ? s->from.year : year;
  if (!resolve(&s->from, from_year, ret)) return false;
  if (!s->is_range) return true;
  const int to_year = s->to.year ? s->to.year : from_year + is_before(&s->to, &s->from);
  if (!resolve(&s->to, to_year, &to) || to.last < ret->first) return false;
  ret->last = to.last;
  return true;
}

/** The receiver of the days, and the data it needs. */
typedef struct reporting {
  tp__memory_days_fn each;
  void *ctx;
  bool is_question;
  int32_t today;
  int first_year, last_year;
} reporting;

/* Reports the date in the year in which it is nearest to the day of saying. */
static bool report_nearest(const reporting *t, const span *s) {
  tp__memory_days best = {0, 0}, days;
  int64_t least = INT64_MAX;
  int year;
  if (t->today == TP__MEMORY_NO_DAY) return true;
  tp__memory_date(t->today, &year, NULL, NULL);
  for (int y = year - 1; y <= year + 1; y++) {
    if (!resolve_span(s, y, &days)) continue;
    const int64_t apart = ((int64_t)days.first + days.last) / 2 - t->today, distance = apart < 0 ? -apart : apart;
    if (distance < least) best = days;
    if (distance < least) least = distance;
  }
  return least == INT64_MAX || t->each(t->ctx, best);
}

static bool report(const reporting *t, const span *s) {
  tp__memory_days days;
  if (s->from.year) return !resolve_span(s, s->from.year, &days) || t->each(t->ctx, days);
  if (!t->is_question) return report_nearest(t, s);
  for (int y = t->first_year; y <= t->last_year; y++)
    if (resolve_span(s, y, &days) && !t->each(t->ctx, days)) return false;
  return true;
}

/* Whether the word is an anchor: every date contains the name of a month, or four digits together. */
static bool is_anchor(const char *at, const char *end) {
  static const char months[] = "janfebmaraprmayjunjulaugsepoctnovdec";
  if (end - at < 3) return false;
  if (at[0] >= '0' && at[0] <= '9')
    return end - at >= 4 && at[1] >= '0' && at[1] <= '9' && at[2] >= '0' && at[2] <= '9' && at[3] >= '0' &&
           at[3] <= '9';
  if (!memchr("jfmasond", at[0] | 0x20, 8)) return false;
  for (const char *month = months; *month; month += 3)
    if (month[0] == (at[0] | 0x20) && month[1] == (at[1] | 0x20) && month[2] == (at[2] | 0x20)) return true;
  return false;
}

static bool is_word_byte(char c) {
  const char lower = (char)(c | 0x20);
  return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || (c & 0x80);
}

/* Returns the next start of a word that is an anchor; the end when there is none. */
static const char *find_anchor(const char *begin, const char *from, const char *end) {
  for (const char *at = from; at < end; at++)
    if (is_word_byte(*at) && (at == begin || !is_word_byte(at[-1])) && is_anchor(at, end)) return at;
  return end;
}

static void move_on(reader *r) {
  memmove(r->before + 1, r->before, sizeof r->before - sizeof r->before[0]);
  r->before[0] = r->words.word;
}

/* Reports the dates that begin before an anchor or at it. @param from  moved to the position of the reader. */
static bool report_dates_to(const reporting *t, const char **from, const char *anchor, const char *end) {
  reader r = {.words.left = {*from, (size_t)(end - *from)}};
  while (r.words.left.size > 0 && r.words.left.data <= anchor && tp__memory_words_next(&r.words)) {
    span s;
    const char c = r.words.word.data[0];
    const bool may_begin = (c >= '0' && c <= '9') || (c & 0x80) == 0;
    if (r.words.begins_clause && !is(r.before[0], "mid")) memset(r.before, 0, sizeof r.before);
    if (may_begin && r.words.word.size <= 9 && read_span(&r, t->is_question, &s) && !report(t, &s)) return false;
    move_on(&r);
  }
  *from = r.words.left.data;
  return true;
}

/* Reports all dates. Most of a text is far from a date, so only the words from shortly before each anchor are read. */
static bool report_dates(const reporting *t, tp_text text) {
  enum { BEFORE = 48 };
  const char *end = text.data + text.size, *from = text.data;
  for (const char *at = from; text.size > 0 && (at = find_anchor(text.data, at, end)) < end;) {
    if (at - from > BEFORE)
      for (from = at - BEFORE; from < at && *from != ' ';) from++;
    if (!report_dates_to(t, &from, at, end)) return false;
    at = from > at ? from : at + 1;
  }
  return true;
}

/* Whether words mean the present: "How are you today?" asks for no memories of today, and "this year" not for all of
 * the year. */
static bool is_present(const reporting *t, const tp__memory_times *times) {
  const bool week = times->span == TP__MEMORY_SPAN_WEEK || times->span == TP__MEMORY_SPAN_WEEKEND;
  return t->is_question && !week && times->first <= t->today && t->today <= times->last;
}

static bool report_times(const reporting *t, tp_text text) {
  tp__memory_times times = {.words.left = text, .today = t->today};
  while (t->today != TP__MEMORY_NO_DAY && tp__memory_times_next(&times)) {
    if (times.says_itself || is_present(t, &times)) continue;
    if (!t->each(t->ctx, (tp__memory_days){(int32_t)times.first, (int32_t)times.last})) return false;
  }
  return true;
}

bool tp__memory_dates_of_line(tp_text text, int32_t said, tp__memory_days_fn each, void *ctx) {
  const reporting t = {.each = each, .ctx = ctx, .today = said};
  return report_times(&t, text) && report_dates(&t, text);
}

bool tp__memory_dates_of_question(tp_text text, int32_t asked, int first_year, int last_year, tp__memory_days_fn each,
                                  void *ctx) {
  const reporting t = {
      .each = each, .ctx = ctx, .is_question = true, .today = asked, .first_year = first_year, .last_year = last_year};
  return report_times(&t, text) && report_dates(&t, text);
}
