/* SPDX-License-Identifier: Apache-2.0
 *
 * times: words of time in a text, resolved against the day on which it was said: "last Friday" gets its date. English,
 * by the table in times.c; days are those of UTC. Pure functions, which allocate nothing. */
#ifndef TP__MEMORY_TIMES_H
#define TP__MEMORY_TIMES_H

#include "domains/memory/terms.h"

/** The span that a word of time names. */
typedef enum tp__memory_span {
  TP__MEMORY_SPAN_DAY,
  TP__MEMORY_SPAN_WEEK,    /* seven days from Monday */
  TP__MEMORY_SPAN_WEEKEND, /* Saturday and Sunday */
  TP__MEMORY_SPAN_MONTH,
  TP__MEMORY_SPAN_YEAR
} tp__memory_span;

/** Walks the words of time of a text. Start with a walk that is zero-filled except words.left and today. */
typedef struct tp__memory_times {
  tp__memory_words words; /* words.left is the rest of the text */
  int64_t today;          /* the day on which the text was said, as tp__memory_day_of() returns it */
  tp_text text;           /* the current words of time: a slice of the text */
  tp__memory_span span;
  bool says_itself;    /* it names its date, such as "in 2019", so no date must be added */
  int64_t first, last; /* the first and last day that it means */
  tp_text before;      /* internal: the word before words.left */
} tp__memory_times;

/** @return false at the end. */
bool tp__memory_times_next(tp__memory_times *times);

/** The day of a time; 0 is 1970-01-01. */
int64_t tp__memory_day_of(int64_t unix_ms);
/** The day of a date; month from 1. */
int64_t tp__memory_day(int year, int month, int day);
/** The date of a day. Any of the three may be NULL. */
void tp__memory_date(int64_t day, int *ret_year, int *ret_month, int *ret_day);

/** Writes the date of words of time: "2023-05-19", "week of 2023-05-15", "weekend of 2023-05-20", "2023-05", "2022". */
enum { TP__MEMORY_TIME_SIZE = 48 };
void tp__memory_time_write(const tp__memory_times *times, char into[TP__MEMORY_TIME_SIZE]);

#endif
