/* SPDX-License-Identifier: Apache-2.0
 *
 * dates: the days that a text names: dates ("8 May 2023", "May 8th", "2023-05-08", "20.5.2023"), months, years, parts
 * of a month ("mid-May", "the first week of May"), weekends, ranges ("from 28 December to 3 January"), and words of
 * time (times.h), counted from the day on which the text was said or asked. English; days are those of UTC. Pure
 * functions. */
#ifndef TP__MEMORY_DATES_H
#define TP__MEMORY_DATES_H

#include "turnphase/base.h"

/** Days from first to last, both included. */
typedef struct tp__memory_days {
  int32_t first, last;
} tp__memory_days;

/** The day on which a text was said; TP__MEMORY_NO_DAY: the day is not known, and words of time name no days. */
enum { TP__MEMORY_NO_DAY = INT32_MIN };

/** Receives days; false stops the walk. */
typedef bool (*tp__memory_days_fn)(void *ctx, tp__memory_days days);

/** Reports the days that a line names. A date without a year is the one nearest to the day on which the line was said;
 *  when that day is not known, it names nothing.
 *  @return false when each stopped. */
bool tp__memory_dates_of_line(tp_text text, int32_t said, tp__memory_days_fn each, void *ctx);

/** Reports the days that a question names: a date without a year in each of the years from first_year to last_year. A
 *  single month counts, and a single year; words for the present ("today", "this year") do not.
 *  @return as tp__memory_dates_of_line(). */
bool tp__memory_dates_of_question(tp_text text, int32_t asked, int first_year, int last_year, tp__memory_days_fn each,
                                  void *ctx);

#endif
