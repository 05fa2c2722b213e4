/* SPDX-License-Identifier: Apache-2.0
 *
 * host_call: a call to a session's history or to its compaction callback, as an attempt with a limit: a function that
 * may block (load, append, compact), run on a handler thread, or one that only begins (load_start, append_start) and is
 * answered through a token. What it works on lies in its own arena, so that a call that was abandoned is harmless. */
#ifndef TP__HOST_CALL_H
#define TP__HOST_CALL_H

#include "phases/session/session.h"

enum { TP__HOST_CALL_LIMIT_MS = 30000 };

typedef struct tp__host_call tp__host_call;
struct tp__host_call {
  tp__attempt base;
  tp__turn *turn;                         /* referenced */
  tp_session *session;                    /* referenced */
  tp__arena arena;                        /* the work's */
  tp_status (*work)(tp__host_call *call); /* on a handler thread; NULL: load_start, append_start */
  tp_compaction_request compaction;       /* of a compaction */
  tp__past *past;                         /* referenced: what the work reads; NULL: nothing */
  tp__past *made;                         /* referenced: what it makes: loaded or compacted; NULL: nothing */
  tp_history_append request;              /* of append_start: lives till its token is completed */
  tp_history_load load;                   /* of load and load_start: likewise */
  tp_history_claim claim;                 /* that load fills; until the owner takes it, the call's to release */
  /** On the owner, once. status: the work's, or TP_ERR_TIMEOUT, TP_ERR_NO_THREAD: then the work's memory is not to be
   *  looked at. */
  void (*on_end)(tp__host_call *call, tp_status status);
  void *ctx;
  tp_status status;    /* the work's, or that of the token's completion */
  tp_fault fault;      /* likewise */
  bool counts;         /* a call that has not ended: the owner's, then the work's or the token's */
  const char *message; /* owner: what the work said of its failure; NULL: nothing, or it did not answer */
  size_t block_size;
};

/** @return NULL without memory. */
tp__host_call *tp__host_call_new(tp_turn *turn, tp_session *session, const char *name);
/** The same for a load of the session's history, with `load` and `made`. Its work, of a history without load_start, is
 *  the caller's to set.
 *  @param claims  of a history that is shared: the load claims the session, and gives only what is new. */
tp__host_call *tp__host_call_new_load(tp_turn *turn, tp_session *session, const char *name, bool claims);
/** Owner: the claim of a load that succeeded is the session's turn's now. */
void tp__host_call_take_claim(tp__host_call *call);
/** Owner: ends the claim of the session's turn, if it has one that no append has ended. */
void tp__session_release_claim(tp_session *session);
/** Owner: starts it; on_end comes, be it before this returns. Takes the call.
 *  @param end_ns  it ends at the latest then; TP__NEVER: after its own limit. */
void tp__host_call_start(tp__host_call *call, int64_t end_ns);
/** Whether a function of the session's history runs, or may yet: one that a turn has left, where no turn waits for one.
 *  The next call of the session begins after that (tp_history: one call per session at a time).   Threads: any. */
bool tp__session_history_is_called(const tp_session *session);
/** Frees a call that was not started. */
void tp__host_call_drop(tp__host_call *call);

#endif
