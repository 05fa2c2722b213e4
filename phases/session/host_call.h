/* SPDX-License-Identifier: Apache-2.0
 *
 * host_call: a call to a session's history or to its compaction callback, as an attempt with a limit. There are two
 * forms: a function that may block (load, append, compact) runs on a handler thread; a function that only begins the
 * work (load_start, append_start) is answered through a token. The data of a call is in its own arena, so an abandoned
 * call does no harm. */
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
  tp_status (*work)(tp__host_call *call); /* runs on a handler thread; NULL: load_start, append_start */
  tp_compaction_request compaction;       /* of a compaction */
  tp__past *past;                         /* referenced: the past that the work reads; NULL: none */
  tp__past *made;            /* referenced: the past that the work makes, by loading or compacting; NULL: none */
  tp_history_append request; /* of append_start: stays until its token is completed */
  tp_history_load load;      /* of load and load_start: likewise */
  tp_history_claim claim;    /* filled by load; the call must release it until the owner takes it */
  /** Called on the owner, once. status: the work's, or TP_ERR_TIMEOUT or TP_ERR_NO_THREAD: then the memory of the work
   *  must not be read. */
  void (*on_end)(tp__host_call *call, tp_status status);
  void *ctx;
  tp_status status;    /* the status of the work, or of the token's completion */
  tp_fault fault;      /* likewise */
  bool counts;         /* the call has not ended; written by the owner, then by the work or the token's holder */
  const char *message; /* owner: the error message of the work; NULL: there is none, or the work has not answered */
  size_t block_size;
};

/** @return NULL without memory. */
tp__host_call *tp__host_call_new(tp_turn *turn, tp_session *session, const char *name);
/** The same for a load of the session's history, with `load` and `made`. For a history without load_start, the caller
 *  must set the work.
 *  @param claims  for a shared history: the load claims the session, and gives only new messages. */
tp__host_call *tp__host_call_new_load(tp_turn *turn, tp_session *session, const char *name, bool claims);
/** Owner: the claim of a load that succeeded now belongs to the session's turn. */
void tp__host_call_take_claim(tp__host_call *call);
/** Owner: ends the claim of the session's turn, if it has one that was not ended by an append. */
void tp__session_release_claim(tp_session *session);
/** Owner: starts the call; on_end is called, perhaps before this returns. Takes the call.
 *  @param end_ns  the call ends by then at the latest; TP__NEVER: by its own limit. */
void tp__host_call_start(tp__host_call *call, int64_t end_ns);
/** Whether a function of the session's history runs, or may still begin, that no turn waits for any more. The next call
 *  of the session begins after it has ended (tp_history: one call per session at a time). Threads: any. */
bool tp__session_history_is_called(const tp_session *session);
/** Frees a call that was not started. */
void tp__host_call_drop(tp__host_call *call);

#endif
