/* SPDX-License-Identifier: Apache-2.0
 *
 * circuit: the circuit breaker of a subscription, which opens by itself when half of its calls fail. It holds two words
 * and no lock, and no memory. Calls are counted from a failure on, for ten seconds: a subscription that does not fail
 * costs nothing, and is called without a look at this (exec/breaker.h). While it is open a call fails at
 * once; then one call per interval is let through as a probe. A probe that succeeds closes it, one that fails doubles
 * the interval. A breaker of which no call asks for an interval and ten seconds is closed.
 * docs/decisions/circuit.md has the numbers and why. Threads: any, all of them. */
#ifndef TP__CIRCUIT_H
#define TP__CIRCUIT_H

#include "runtime/os/os.h"

#define TP__CIRCUIT_WINDOW_NS ((int64_t)10000 * TP__NS_PER_MS)
#define TP__CIRCUIT_OPEN_NS ((int64_t)5000 * TP__NS_PER_MS)       /* the first interval */
#define TP__CIRCUIT_OPEN_NS_MAX ((int64_t)300000 * TP__NS_PER_MS) /* the longest */
enum { TP__CIRCUIT_CALLS_MIN = 20 };

/** Zero is closed, and nothing counted. */
typedef struct tp__circuit {
  tp__a64 calls; /* from the first failure: when it was, how many calls ended, and how many failed; 0: none */
  tp__a64 open;  /* when the next probe may begin, and how long the interval is; 0: closed */
} tp__circuit;

typedef enum tp__circuit_change {
  TP__CIRCUIT_SAME = 0,
  TP__CIRCUIT_OPENED = 1,   /* it was closed */
  TP__CIRCUIT_REOPENED = 2, /* by its probe */
  TP__CIRCUIT_CLOSED = 3
} tp__circuit_change;

/** What a call that ended did to it. */
typedef struct tp__circuit_report {
  tp__circuit_change change;
  uint32_t calls, failures; /* OPENED: that opened it */
  int64_t interval_ns;      /* OPENED, REOPENED */
} tp__circuit_report;

/** Whether a call would be let through now. */
bool tp__circuit_would_admit(const tp__circuit *circuit, int64_t now_ns);
/** Whether a call is let through; where it is open and its interval over, the call is the probe and the next one is let
 *  through an interval later at the soonest. */
bool tp__circuit_admits(tp__circuit *circuit, int64_t now_ns);
/** Whether it has opened and no probe has succeeded since. */
bool tp__circuit_is_open(const tp__circuit *circuit);
/** A call that was let through has ended. */
tp__circuit_report tp__circuit_ended(tp__circuit *circuit, bool failed, int64_t now_ns);
/** Until when, after what happened now, the next calls must be asked for and counted. 0: not at all. */
int64_t tp__circuit_suspect_until_ns(const tp__circuit *circuit, int64_t now_ns);
/** Closes it, and clears the counts. */
void tp__circuit_reset(tp__circuit *circuit);

#endif
