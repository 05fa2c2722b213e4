/* SPDX-License-Identifier: Apache-2.0
 *
 * rate: a token bucket: how much may be used per minute. Amounts are reserved at once, so that requests are sent in the
 * order in which they came. It belongs to the I/O thread. */
#ifndef TP__OPENAI_RATE_H
#define TP__OPENAI_RATE_H

#include <stdint.h>

typedef struct tp__openai_rate {
  double per_ns;   /* 0: there is no limit */
  double capacity; /* the most that may be taken at once: the amount of ten seconds, and at least 1 */
  double level;    /* below 0: it is reserved for what waits */
  int64_t at_ns;   /* when level was so */
} tp__openai_rate;

/** A full bucket. @param per_minute  0: no limit. */
void tp__openai_rate_init(tp__openai_rate *rate, uint32_t per_minute, int64_t now_ns);
/** @return when the amount may be used: now_ns, or later. An amount above the capacity waits for a full bucket. */
int64_t tp__openai_rate_take(tp__openai_rate *rate, double amount, int64_t now_ns);
/** Less was used than was taken, or more if the amount is negative. */
void tp__openai_rate_give(tp__openai_rate *rate, double amount);

#endif
