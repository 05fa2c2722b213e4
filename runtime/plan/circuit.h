/* SPDX-License-Identifier: Apache-2.0
 *
 * circuit: the circuit breaker of a subscription, which opens by itself when half of its calls fail. It consists of two
 * words, without a lock and without other memory. Calls are counted from a failure on, for ten seconds. A subscription
 * that does not fail is called without reading its breaker (exec/breaker.h). While the breaker is open, calls fail at
 * once, except for one call per interval, the probe. A probe that succeeds closes the breaker; a probe that fails
 * doubles the interval. When no call asks the breaker for an interval and ten seconds, it is closed.
 * docs/decisions/circuit.md has the numbers and the reasons. Threads: any, all functions. */
#ifndef TP__CIRCUIT_H
#define TP__CIRCUIT_H

#include "runtime/os/os.h"

#define TP__CIRCUIT_WINDOW_NS ((int64_t)10000 * TP__NS_PER_MS)
#define TP__CIRCUIT_OPEN_NS ((int64_t)5000 * TP__NS_PER_MS)       /* the first interval */
#define TP__CIRCUIT_OPEN_NS_MAX ((int64_t)300000 * TP__NS_PER_MS) /* the longest */
enum { TP__CIRCUIT_CALLS_MIN = 20 };

/** Zero is closed, and nothing counted. */
typedef struct tp__circuit {
  tp__a64 calls; /* since the first failure: its time, how many calls ended, and how many failed; 0: no failure */
  tp__a64 open;  /* the time of the next probe, and the length of the interval; 0: closed */
} tp__circuit;

typedef enum tp__circuit_change {
  TP__CIRCUIT_SAME = 0,
  TP__CIRCUIT_OPENED = 1,   /* the breaker was closed and has opened */
  TP__CIRCUIT_REOPENED = 2, /* its probe failed, so the breaker opened again */
  TP__CIRCUIT_CLOSED = 3
} tp__circuit_change;

/** What the end of a call did to the breaker. */
typedef struct tp__circuit_report {
  tp__circuit_change change;
  uint32_t calls, failures; /* OPENED: that opened it */
  int64_t interval_ns;      /* OPENED, REOPENED */
} tp__circuit_report;

/** Whether the breaker would let a call through now. */
bool tp__circuit_would_admit(const tp__circuit *circuit, int64_t now_ns);
/** Whether the breaker lets a call through. When it is open and its interval is over, this call is the probe, and the
 *  next call is let through at the earliest an interval later. */
bool tp__circuit_admits(tp__circuit *circuit, int64_t now_ns);
/** Whether the breaker has opened and no probe has succeeded since. */
bool tp__circuit_is_open(const tp__circuit *circuit);
/** A call that was let through has ended. */
tp__circuit_report tp__circuit_ended(tp__circuit *circuit, bool failed, int64_t now_ns);
/** The time until which, after the events so far, calls must ask the breaker and be counted. 0: they need not. */
int64_t tp__circuit_suspect_until_ns(const tp__circuit *circuit, int64_t now_ns);
/** Closes it, and clears the counts. */
void tp__circuit_reset(tp__circuit *circuit);

#endif
