/* SPDX-License-Identifier: Apache-2.0
 *
 * history: what the library reads of a host's history, and histories that several sessions share. A shared history
 * knows the sessions that use it, so that none is deleted while it is used. Lock: `shared_history`, for these lists. */
#ifndef TP__HISTORY_H
#define TP__HISTORY_H

#include "runtime/os/os.h"
#include "turnphase/store.h"

/** A session's place in a shared history, whose memory is the session's; or what is being deleted. */
typedef struct tp__history_user {
  tp__link link;
  tp_text tenant, session;
  uint32_t calls; /* that run, some of which may have been given up */
  bool is_open;
} tp__history_user;

/** Reads a host's history and checks it. theirs may be NULL: zero-fills. */
tp_status tp__history_read(tp_history *ret_history, const tp_history *theirs, tp_fault *fault);
const tp_history *tp__shared_history_get(const tp_shared_history *shared);
/** Enters a session that is about to be opened. The texts live as long as the user.
 *  @return TP_OK; TP_ERR_BUSY while it is being deleted. */
tp_status tp__shared_history_join(tp_shared_history *shared, tp__history_user *user, const char *tenant,
                                  const char *session);
/** The session is not open any more. Harmless for one that did not join. */
void tp__shared_history_leave(tp_shared_history *shared, tp__history_user *user);
/** Around each call of the history for a user; shared may be NULL. The user lives until the second returns. */
void tp__shared_history_call_begins(tp_shared_history *shared, tp__history_user *user);
void tp__shared_history_call_ends(tp_shared_history *shared, tp__history_user *user);

#endif
