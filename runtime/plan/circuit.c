/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/circuit.h"

/* ---- what the words hold ---- */

/* The time of the first failure, in units of 2^24 ns (17 ms) modulo 2^32, and two counts of 16 bits. */
typedef struct count {
  uint32_t since;
  uint32_t calls, failures;
} count;

enum { UNIT_BITS = 24, COUNT_MAX = UINT16_MAX };

static uint32_t unit_of(int64_t ns) { return (uint32_t)(ns >> UNIT_BITS); }

static count unpack_count(uint64_t word) {
  return (count){(uint32_t)(word >> 32), (uint32_t)(word >> 16) & COUNT_MAX, (uint32_t)word & COUNT_MAX};
}

static uint64_t count_word(count c) { return (uint64_t)c.since << 32 | (uint64_t)c.calls << 16 | c.failures; }

/* The earliest time of the next probe, in microseconds; how often the interval was doubled; and whether a probe has
 * begun. While probing is set, the next call that ends counts as the probe. */
typedef struct opening {
  int64_t until_us;
  uint32_t doublings;
  bool probing;
} opening;

static opening opening_of(uint64_t word) {
  return (opening){(int64_t)(word >> 8), (uint32_t)(word >> 1) & 127, (word & 1) != 0};
}

static uint64_t opening_word(opening o) { return (uint64_t)o.until_us << 8 | (uint64_t)o.doublings << 1 | o.probing; }

static int64_t until_ns(opening o) { return o.until_us * TP__NS_PER_US; }

static int64_t interval_ns(uint32_t doublings) {
  int64_t interval = TP__CIRCUIT_OPEN_NS << doublings;
  return interval < TP__CIRCUIT_OPEN_NS_MAX ? interval : TP__CIRCUIT_OPEN_NS_MAX;
}

static uint64_t open_for(uint32_t doublings, bool probing, int64_t now_ns) {
  return opening_word((opening){(now_ns + interval_ns(doublings)) / TP__NS_PER_US, doublings, probing});
}

/* No call was admitted for so long that the breaker's state says nothing about the next call. */
static bool is_outdated(uint64_t open, int64_t now_ns) {
  return now_ns >= until_ns(opening_of(open)) + TP__CIRCUIT_WINDOW_NS;
}

/* ---- before a call ---- */

bool tp__circuit_would_admit(const tp__circuit *circuit, int64_t now_ns) {
  uint64_t open = tp__a64_load_relaxed(&circuit->open);
  return open == 0 || now_ns >= until_ns(opening_of(open));
}

bool tp__circuit_is_open(const tp__circuit *circuit) { return tp__a64_load_relaxed(&circuit->open) != 0; }

bool tp__circuit_admits(tp__circuit *circuit, int64_t now_ns) {
  uint64_t open = tp__a64_load_relaxed(&circuit->open);
  while (open != 0) {
    if (now_ns < until_ns(opening_of(open))) return false;
    uint64_t next = is_outdated(open, now_ns) ? 0 : open_for(opening_of(open).doublings, true, now_ns);
    if (tp__a64_cas_acq_rel(&circuit->open, &open, next)) return true;
  }
  return true;
}

/* ---- after it ---- */

static tp__circuit_report probe_ended(tp__circuit *circuit, uint64_t open, bool failed, int64_t now_ns) {
  uint32_t doublings = opening_of(open).doublings;
  if (failed && interval_ns(doublings) < TP__CIRCUIT_OPEN_NS_MAX) doublings++;
  uint64_t next = failed ? open_for(doublings, false, now_ns) : 0;
  if (!tp__a64_cas_acq_rel(&circuit->open, &open, next)) return (tp__circuit_report){TP__CIRCUIT_SAME, 0, 0, 0};
  if (failed) return (tp__circuit_report){TP__CIRCUIT_REOPENED, 0, 0, interval_ns(doublings)};
  return (tp__circuit_report){TP__CIRCUIT_CLOSED, 0, 0, 0}; /* nothing was counted since it opened */
}

static bool is_window_over(count c, int64_t now_ns) {
  return unit_of(now_ns) - c.since >= unit_of(TP__CIRCUIT_WINDOW_NS);
}

/* The count after one more call has ended. */
static count counted(count c, bool failed, int64_t now_ns) {
  if (c.calls == 0 || is_window_over(c, now_ns)) return failed ? (count){unit_of(now_ns), 1, 1} : (count){0, 0, 0};
  if (c.calls == COUNT_MAX) {
    c.calls /= 2;
    c.failures /= 2;
  }
  return (count){c.since, c.calls + 1, c.failures + failed};
}

static tp__circuit_report count_call(tp__circuit *circuit, bool failed, int64_t now_ns) {
  uint64_t was = tp__a64_load_relaxed(&circuit->calls);
  count now;
  bool opens;
  do {
    if (was == 0 && !failed) return (tp__circuit_report){TP__CIRCUIT_SAME, 0, 0, 0};
    now = counted(unpack_count(was), failed, now_ns);
    opens = failed && now.calls >= TP__CIRCUIT_CALLS_MIN && 2 * now.failures >= now.calls;
  } while (!tp__a64_cas_acq_rel(&circuit->calls, &was, opens ? 0 : count_word(now)));
  if (!opens) return (tp__circuit_report){TP__CIRCUIT_SAME, 0, 0, 0};
  tp__a64_store_relaxed(&circuit->open, open_for(0, false, now_ns));
  return (tp__circuit_report){TP__CIRCUIT_OPENED, now.calls, now.failures, TP__CIRCUIT_OPEN_NS};
}

tp__circuit_report tp__circuit_ended(tp__circuit *circuit, bool failed, int64_t now_ns) {
  uint64_t open = tp__a64_load_relaxed(&circuit->open);
  if (open != 0 && is_outdated(open, now_ns) && tp__a64_cas_acq_rel(&circuit->open, &open, 0)) open = 0;
  if (open == 0) return count_call(circuit, failed, now_ns);
  if (!opening_of(open).probing) return (tp__circuit_report){TP__CIRCUIT_SAME, 0, 0, 0}; /* it began before */
  return probe_ended(circuit, open, failed, now_ns);
}

int64_t tp__circuit_suspect_until_ns(const tp__circuit *circuit, int64_t now_ns) {
  uint64_t open = tp__a64_load_relaxed(&circuit->open);
  if (open != 0) return until_ns(opening_of(open)) + TP__CIRCUIT_WINDOW_NS;
  return tp__a64_load_relaxed(&circuit->calls) ? now_ns + TP__CIRCUIT_WINDOW_NS : 0;
}

void tp__circuit_reset(tp__circuit *circuit) {
  tp__a64_store_relaxed(&circuit->open, 0);
  tp__a64_store_relaxed(&circuit->calls, 0);
}
