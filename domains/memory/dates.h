/* SPDX-License-Identifier: Apache-2.0
 *
 * dates: the days that a text names: dates ("8 May 2023", "May 8th", "2023-05-08", "20.5.2023"), months, years, parts
 * of a month ("mid-May", "the first week of May"), weekends, ranges ("from 28 December to 3 January"), and words of
 * time (times.h), reckoned from the day on which it was said or asked. English; days are those of UTC. Pure
 * functions. */
#ifndef TP__MEMORY_DATES_H
#define TP__MEMORY_DATES_H

#include "turnphase/base.h"

/** Days from first to last, both included. */
typedef struct tp__memory_days {
  int32_t first, last;
} tp__memory_days;

/** The day on which a text was said; TP__MEMORY_NO_DAY: not known, and words of time mean nothing. */
enum { TP__MEMORY_NO_DAY = INT32_MIN };

/** Called for each; false stops. */
typedef bool (*tp__memory_days_fn)(void *ctx, tp__memory_days days);

/** The days that a line names. A date without a year is the one nearest to the day on which the line was said; where
 *  that is not known, it names nothing.
 *  @return false when each stopped. */
bool tp__memory_dates_of_line(tp_text text, int32_t said, tp__memory_days_fn each, void *ctx);

/** The days that a question names: a date without a year in each of the years from first_year to last_year. A month by
 *  itself counts, and a year; what means now ("today", "this year") does not.
 *  @return as above. */
bool tp__memory_dates_of_question(tp_text text, int32_t asked, int first_year, int last_year, tp__memory_days_fn each,
                                  void *ctx);

#endif
