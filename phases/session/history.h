/* SPDX-License-Identifier: Apache-2.0
 *
 * history: reads a host's history, and keeps histories that several sessions share. A shared history knows the sessions
 * that use it, so that none is deleted during use. Lock: `shared_history`, for these lists. */
#ifndef TP__HISTORY_H
#define TP__HISTORY_H

#include "runtime/os/os.h"
#include "turnphase/store.h"

/** A session's place in a shared history, in memory of the session. Or the place of a session that is being deleted. */
typedef struct tp__history_user {
  tp__link link;
  tp_text tenant, session;
  uint32_t calls; /* calls that run, including some that were given up */
  bool is_open;
} tp__history_user;

/** Reads a host's history and checks it. If theirs is NULL, the result is zero-filled. */
tp_status tp__history_read(tp_history *ret_history, const tp_history *theirs, tp_fault *fault);
const tp_history *tp__shared_history_get(const tp_shared_history *shared);
/** Enters a session that is about to be opened. The texts must live as long as the user.
 *  @return TP_OK; TP_ERR_BUSY while the session is being deleted. */
tp_status tp__shared_history_join(tp_shared_history *shared, tp__history_user *user, const char *tenant,
                                  const char *session);
/** The session is no longer open. Does nothing for a session that did not join. */
void tp__shared_history_leave(tp_shared_history *shared, tp__history_user *user);
/** Called before and after each call of the history for a user; shared may be NULL. The user must exist until the
 *  second function returns. */
void tp__shared_history_call_begins(tp_shared_history *shared, tp__history_user *user);
void tp__shared_history_call_ends(tp_shared_history *shared, tp__history_user *user);

#endif
