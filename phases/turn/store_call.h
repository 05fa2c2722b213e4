/* SPDX-License-Identifier: Apache-2.0
 *
 * store_call: a blocking call of the store for a turn, as an attempt on a handler thread. If no thread takes it, the
 * owner makes the call itself. The data that the store reads is in the call's arena, because a call that was given up
 * may still run when its turn is gone. Owner only, except `work`. */
#ifndef TP__STORE_CALL_H
#define TP__STORE_CALL_H

#include "phases/turn/turn.h"

/** The first member of a struct of the caller. */
typedef struct tp__store_call tp__store_call;
struct tp__store_call {
  tp__attempt base;
  tp__turn *turn; /* referenced */
  size_t block_size;
  tp__arena arena; /* data that the store reads, and copies that the work makes */
  /** Calls the store with its ctx, on a handler thread or on the owner's. */
  tp_status (*work)(tp__store_call *call, void *store, tp_fault *fault);
  /** Called on the owner, once; the call is freed afterwards. status: the result of work, or TP_ERR_TIMEOUT. */
  void (*on_end)(tp__store_call *call, tp_status status);
  /* ---- the work's, until it is answered */
  tp_status status;
  tp_fault fault;
};

/** @param size  size of the caller's struct, which is zero-filled.
 *  @param name  for people: the thing that is stored; lives as long as the runtime.
 *  @return NULL without memory. */
tp__store_call *tp__store_call_new(tp_turn *turn, size_t size, const char *name);
/** Starts the call, whose work and on_end are set. on_end may be called before this returns.
 *  @param end_ns  the time at which the call is given up; TP__NEVER: never. */
void tp__store_call_start(tp__store_call *call, int64_t end_ns);
/** Frees a call that was not started. */
void tp__store_call_drop(tp__store_call *call);

#endif
