/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h: the early return, and the checks of our own invariants. It holds only macros, so every module may include
 * it, also the modules that use only the public headers.
 *
 * assert() is for checks that cost little compared with their function, and stays in release builds. The two macros
 * below are for the other checks. They do nothing, and evaluate nothing, unless TP_CHECKS is defined. meson.build
 * defines it for debug builds and for builds with a sanitizer; the simulator always has it.
 *
 * A long-lived object has a function tp__NOUN_check() next to its code. It asserts the invariants of the object one by
 * one, each below a sentence that states it. It is called after every change of the object's state, by a thread that
 * may read all that the check reads: the owner, or the holder of the lock (then the name ends in _check_locked). It
 * changes nothing. */
#ifndef TP__CHECK_H
#define TP__CHECK_H

#include <assert.h>

#define TP__TRY(expression)                       \
  do {                                            \
    tp_status tp__status_ = (expression);         \
    if (tp__status_ != TP_OK) return tp__status_; \
  } while (0)

#if defined(TP_SIM) && !defined(TP_CHECKS)
#define TP_CHECKS 1
#endif
#ifdef TP_CHECKS
#define TP__ASSERT(condition) assert(condition)
#define TP__CHECK(call) (call)
enum { TP__CHECK_ITEMS_MAX = 32 }; /* the most items of a list or an array that one check looks at */
#else
#define TP__ASSERT(condition) ((void)(0 && (condition)))
#define TP__CHECK(call) ((void)0)
#endif

#endif
