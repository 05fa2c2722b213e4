/* SPDX-License-Identifier: Apache-2.0
 *
 * claims: which turn of which process has a session of the history. A row of `session` names its owner, the epoch of
 * the newest claim (the fence), the position of the next message, and whether a turn runs. A row of `holder` is a
 * process that has such turns, with the end of its lease. A thread extends the lease every third of its length. A
 * process without running turns has no row, and its thread sleeps.
 *
 * A claim is refused while the holder lives: its process is not gone, and its lease has not ended. So the sessions of a
 * process that died can be taken over at once, and those of a process that stands still when its lease has ended.
 * Leases are on the monotonic clock of the machine, which no person sets; all processes of a SQLite file are on one
 * machine. A claim is committed without a sync of the disk: only a crash of the machine can undo it, and no process
 * survives that. The lock is that of the connection. */
#ifndef TP__SQLITE_CLAIMS_H
#define TP__SQLITE_CLAIMS_H

#include "stores/sqlite/sqlite.h"

enum {
  TP__FIND_CLAIMED,
  TP__NEW_CLAIMED,
  TP__CLAIM_SESSION,
  TP__FIND_HOLDER,
  TP__RENEW_HOLDER,
  TP__BEAT_HOLDER,
  TP__DELETE_HOLDER,
  TP__SWEEP_HOLDERS,
  TP__END_CLAIM,
  TP__FORGET_CLAIMED,
  TP__CLAIM_STATEMENTS
};

#define TP__SESSION_NEW ((uint64_t)INT64_MAX)
/** The epochs of a session begin at its number times this. So a session that was deleted and begun again has none of
 *  the earlier epochs, and a turn that stood still meanwhile is fenced. */
#define TP__EPOCHS_OF_SESSION 268435456
/** A bit in the fence of a turn that has looked at its session without claiming it. */
#define TP__FENCE_OF_LOOK (UINT64_C(1) << 62)

/** A session that a running turn of this process has claimed. */
typedef struct tp__claimed {
  int64_t process; /* its runtime's process_run_id */
  uint64_t number, fence;
} tp__claimed;

/** A runtime of this process that has, or recently had, running turns. */
typedef struct tp__lease {
  int64_t process; /* its process_run_id */
  int64_t end_ms;
} tp__lease;

typedef struct tp__claims {
  /* never changes after init */
  tp__lock *connection; /* the lock of db, and of what follows */
  sqlite3 *db;
  const char *path;
  int64_t lease_ms;
  uint64_t origin; /* tp__sqlite_origin() */
  /* ---- under the connection's lock */
  sqlite3_stmt *statements[TP__CLAIM_STATEMENTS];
  tp__lease *leases;
  size_t count, capacity;
  tp__claimed *claimed;
  size_t claimed_count, claimed_capacity;
  pthread_t thread;
  tp__lock_condition wanted; /* for the thread: it must end, or has a lease again */
  bool has_thread, ending;
  bool is_weak; /* syncing commits could not be switched on again: nothing is written meanwhile */
} tp__claims;

/** @param lease_ms  0: 15 s.   @return TP_OK, or why a statement could not be prepared. */
tp_status tp__claims_init(tp__claims *claims, tp__lock *connection, sqlite3 *db, const char *path, uint32_t lease_ms,
                          tp_fault *fault);
/** Ends the thread, and the leases. Accepts a zero-filled struct. Without the lock. */
void tp__claims_fini(tp__claims *claims);
/** Looks at the session of a load, on another connection, without a claim; for a history that does not wait for its
 *  file. claim->fence then is for tp__claims_look_holds(), and claim->number is TP__SESSION_NEW when there is no
 *  session.
 *  @return as tp__claims_claim(). */
tp_status tp__claims_look(const tp__claims *claims, sqlite3 *db, const tp_history_load *request, tp_fault *fault);
/** Claims the session of a load, in a transaction of its own.
 *  @param request  its owner and claim are set; claim is filled, first included.
 *  @return TP_OK; TP_ERR_BUSY, with the holder in the fault; TP_ERR_NO_THREAD; errors of the file. Without the lock. */
tp_status tp__claims_claim(tp__claims *claims, const tp_history_load *request, tp_fault *fault);
/** Whether no turn has claimed a session since this turn looked at it. When there was no session at the time of the
 *  look, an earlier turn of this process whose batch waited may have begun it; then this turn may go on, too.
 *  @param fence    of the look.
 *  @param session  the session that the file has now, and its epoch; 0 without a session. */
bool tp__claims_look_holds(uint64_t fence, int64_t session, int64_t epoch);
/** Ends a claim, inside of a transaction: count messages are appended at its position.
 *  @param ret_is_fenced  the claim no longer has the session: nothing was changed. */
int tp__claims_end_locked(tp__claims *claims, const tp_history_claim *claim, size_t count, bool *ret_is_fenced);
/** Whether a running turn of a living process has the session. @param ret_process_id  0: none has. */
int tp__claims_find_live_locked(tp__claims *claims, int64_t session, int64_t *ret_process_id);

/** A claim of a session as readers of the file see it. */
typedef struct tp__holder {
  int64_t process_id; /* a living process whose turn has the session; 0: none */
  int64_t lease_ms;   /* the rest of its lease */
} tp__holder;
/** @param owner  the session's.  @return SQLITE_OK or the error. On a connection that no other thread uses. */
int tp__sqlite_find_holder(sqlite3 *db, int64_t owner, tp_text boot_id, tp__holder *ret_holder);

#endif
