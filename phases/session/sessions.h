/* SPDX-License-Identifier: Apache-2.0
 *
 * sessions: the sessions of a runtime that are open, or whose close has not ended. Each pair of tenant and id is there
 * once. A drain moves each session that it has visited to the list `ending`. Both lists are in the order in which
 * sessions were opened, and `ending` comes first, so that a walk finds its place again. Lock: `sessions`; under it, a
 * session's own lock and that of a shared history may be taken. The lists hold no reference: a session leaves them
 * before it is freed. */
#ifndef TP__SESSIONS_H
#define TP__SESSIONS_H

#include "runtime/base/hash_table.h"
#include "runtime/os/os.h"
#include "turnphase/turn.h"

typedef struct tp__sessions {
  const tp_allocator *allocator; /* never changes */
  /* relaxed */
  tp__a64 turns_ended; /* driven turns that were recorded; numbers their records */
  tp__a64 turns_once;  /* turns of tp_turn_once() and tp_script_play(); numbers the ids of their sessions */
  /* under mutex */
  tp__mutex mutex;
  tp__link list;   /* that no drain has visited */
  tp__link ending; /* that a drain has visited */
  uint64_t opened;
  tp__hash_table table; /* all of them, by tenant and id */
} tp__sessions;

/** The counters of phases over all turns (tp__runtime_count): queued turns, and ended turns by outcome. */
enum { TP__COUNT_QUEUED = 0 /* and TP_TURN_COMPLETED to TP_TURN_TIMED_OUT */ };

tp_status tp__sessions_init(tp__sessions *sessions, const tp_allocator *allocator);
/** The lists are empty. */
void tp__sessions_fini(tp__sessions *sessions);
/** Those of a runtime (agent_layer.c). */
tp__sessions *tp__layer_sessions(const tp_runtime *runtime);

/** Lists a session that is about to be opened, and enters it in its shared history. If a drain begins at the same time,
 *  either the drain sees the session, or the session sees the drain.
 *  @return TP_OK; TP_ERR_SHUTDOWN after the begin of a drain; TP_ERR_BUSY when the pair of tenant and id is listed, or
 *          is being deleted; TP_ERR_NO_MEMORY. */
tp_status tp__sessions_add(tp__sessions *sessions, tp_session *session);
/** Removes a session from the lists. Does nothing for a session that is not listed. */
void tp__sessions_remove(tp__sessions *sessions, tp_session *session);
/** The session with these ids, held, even while it is being closed. @return NULL: there is none. Any thread. */
tp_session *tp__sessions_hold_of(tp__sessions *sessions, tp_text tenant, tp_text id);
/** For a drain: visits the next session. @return a session whose end was not requested before, held; NULL: all were
 *  visited. */
tp_session *tp__sessions_take_open(tp__sessions *sessions);
/** For a drain: whether a host is about to queue the end of a session that it closes. */
bool tp__sessions_any_half_closed(tp__sessions *sessions);
size_t tp__sessions_count(tp__sessions *sessions);
/** At the end of the runtime: frees the sessions that the host did not close. */
void tp__sessions_free_all(tp__sessions *sessions);
#ifdef TP_SIM
/** For a bug that the simulator plants. @return an inbox, referenced; NULL: no other session has one. */
tp_inbox *tp__sessions_inbox_of_another(tp__sessions *sessions);
#endif

#endif
