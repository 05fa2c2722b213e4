/* SPDX-License-Identifier: Apache-2.0
 *
 * end: the end of what a host submitted, as work in an inbox. It is the ctx of a submit, and the tp_end_of_… function
 * its on_end. The thread that reports the end of a turn holds the ends that are put meanwhile, until the submission has
 * ended: a host that takes one finds the result there. No lock; the holds of a thread are its own. */
#ifndef TP__END_H
#define TP__END_H

#include "turnphase/inbox.h"

/** Lies in the frame of the function that holds. */
typedef struct tp__ends {
  tp_end *first, *last;
  void *outer;
} tp__ends;

/** From here on this thread's ends wait. */
void tp__ends_hold(tp__ends *ends);
/** They are put, in their order; those of an outer hold wait on. */
void tp__ends_put(tp__ends *ends);

#endif
