/* SPDX-License-Identifier: Apache-2.0
 *
 * end: the end of a submitted operation, as work in an inbox. It is the ctx of a submit, and a tp_end_of_… function is
 * the on_end. The thread that reports the end of a turn holds back the ends that are put meanwhile, until the
 * submission has ended. So a host that takes an end finds the result in its submission. No lock; each thread has its
 * own holds. */
#ifndef TP__END_H
#define TP__END_H

#include "turnphase/inbox.h"

/** Lies in the frame of the function that holds ends back. */
typedef struct tp__ends {
  tp_end *first, *last;
  void *outer;
} tp__ends;

/** From here on this thread's ends wait. */
void tp__ends_hold(tp__ends *ends);
/** Puts the held ends, in order. If an outer hold exists, they wait for that one. */
void tp__ends_put(tp__ends *ends);

#endif
