/* SPDX-License-Identifier: Apache-2.0
 *
 * decide: the consequence of the way in which a run ended. One pure function; tests/unit/decide_test.c has the table of
 * all cases. */
#ifndef TP__DECIDE_H
#define TP__DECIDE_H

#include "turnphase/store.h"

typedef enum tp__decision {
  TP__DECIDE_GO_ON = 0,    /* succeeded, or had no duty */
  TP__DECIDE_DIAGNOSE = 1, /* becomes a diagnostic; in a chain with verdicts the run abstains */
  TP__DECIDE_FALLBACK = 2, /* the subscription's fallback is used; the run's state stays failed or timed_out */
  TP__DECIDE_FAIL = 3      /* the entry fails closed */
} tp__decision;

/** @param execution, failure  resolved, never DEFAULT.
 *  @param cause  how the run ended: NONE for success (of a detached run: accepted or committed). */
tp__decision tp__decide(tp_execution execution, tp_failure failure, tp_reason cause);

#endif
