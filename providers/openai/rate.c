/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/rate.h"

#include "runtime/base/check.h"

static const double NS_PER_MINUTE = 60e9;
enum { CAPACITIES_PER_MINUTE = 6 };

static double least(double a, double b) { return a < b ? a : b; }

void tp__openai_rate_init(tp__openai_rate *rate, uint32_t per_minute, int64_t now_ns) {
  double capacity = (double)per_minute / CAPACITIES_PER_MINUTE;
  *rate =
      (tp__openai_rate){.per_ns = per_minute / NS_PER_MINUTE, .capacity = capacity > 1 ? capacity : 1, .at_ns = now_ns};
  rate->level = rate->capacity;
}

int64_t tp__openai_rate_take(tp__openai_rate *rate, double amount, int64_t now_ns) {
  assert(amount >= 0 && rate->capacity >= 1);
  if (rate->per_ns == 0) return now_ns;
  rate->level = least(rate->level + (double)(now_ns - rate->at_ns) * rate->per_ns, rate->capacity);
  rate->at_ns = now_ns;
  double missing = least(amount, rate->capacity) - rate->level;
  rate->level -= amount;
  return missing > 0 ? now_ns + (int64_t)(missing / rate->per_ns) + 1 : now_ns;
}

void tp__openai_rate_give(tp__openai_rate *rate, double amount) { rate->level += amount; }
