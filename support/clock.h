/* SPDX-License-Identifier: Apache-2.0
 *
 * clock: the two clocks of the modules outside the core. No state. */
#ifndef TP__SUPPORT_CLOCK_H
#define TP__SUPPORT_CLOCK_H

#include <stdint.h>

/** 64 bits wide (an enumerator would not be), so that a product with 32 bits of milliseconds does not wrap. */
#define TP__NS_IN_MS INT64_C(1000000)

/** The monotonic clock, which the wall clock never moves. Deadlines are on this clock. */
int64_t tp__monotonic_ns(void);
int64_t tp__monotonic_ms(void);
/** The wall clock: unix time. For times that are shown, written or compared with other machines; never for a wait. */
int64_t tp__wall_ms(void);

#endif
