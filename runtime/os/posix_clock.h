/* SPDX-License-Identifier: Apache-2.0
 *
 * posix_clock: the kernel's own monotonic clock, on which the POSIX files of the seam wait. */
#ifndef TP__POSIX_CLOCK_H
#define TP__POSIX_CLOCK_H

#include "runtime/os/os.h"

int64_t tp__kernel_now_ns(void);

#endif
