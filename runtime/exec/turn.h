/* SPDX-License-Identifier: Apache-2.0
 *
 * turn: the part of a turn that the engine knows: a strand, a snapshot, whose turn it is, a deadline. A detached run is
 * one too. Its owner is the strand's owner. References: the strand's own (until its end), the host's handle, and one of
 * every entry that attempts have left its owner's thread with. */
#ifndef TP__TURN_H
#define TP__TURN_H

#include "runtime/exec/strand.h"
#include "runtime/plan/plan.h"
#include "runtime/store/record_pack.h"

typedef struct tp__turn tp__turn;

/** Who ends it, and so what a drain waits for. */
typedef enum tp__turn_kind {
  TP__TURN_DRIVEN = 0,   /* by us: a drain cancels it and waits for its end */
  TP__TURN_HELD = 1,     /* by its host: a drain cancels it and waits for the operation under way, if any */
  TP__TURN_DETACHED = 2, /* a detached run: may begin while draining */
  TP__TURN_CLOSING = 3,  /* closes a session or an agent: likewise */
  TP__TURN_KINDS = 4
} tp__turn_kind;

struct tp__turn {
  tp__strand strand;
  /* never changes after begin */
  struct tp_runtime *runtime;
  tp__snapshot *snapshot;
  tp_text ids[TP_ID_COUNT];
  tp_text mode;
  tp_caller caller;
  void (*cancelled)(tp__turn *turn); /* owner: after the entries were cancelled; may be NULL */
  void (*release)(tp__turn *turn);   /* frees the memory the turn is in: the last reference is gone. Any thread */
  tp__turn_kind kind;
  size_t block_size;
  /* owner only; what entries read of it is written before they begin */
  tp__arena arena;  /* lives as long as the references do */
  const void *sets; /* what was merged so far: an immutable version, the layer above knows its form */
  int64_t deadline_ns;
  bool is_cancelled;
  uint64_t last_entry_id, last_of_lot;
  tp__link entries;         /* open ones, and those whose result is kept */
  tp__record_batch records; /* packed, not yet handed over */
  void *spare;              /* an entry's block kept for the next entry */
  size_t spare_size;
  bool spare_clean; /* it was a quiet entry's (begin.h) */
  /* atomic */
  tp__a32 refs;
  tp__a32 cancel_asked;
  tp__a32 busy; /* 1 while an operation that the host began is under way; cleared by the owner */
  /* under the runtime's lock */
  tp__link runtime_link;
  tp__message cancel_message;
  char identity[256]; /* the arena's first bytes: ids seldom need more */
};

typedef struct tp__turn_spec {
  const tp_text *ids; /* TP_ID_COUNT; copied */
  tp_text mode;       /* copied */
  tp_caller caller;
  int64_t deadline_ns; /* absolute */
  bool owned;          /* by the caller; else by nobody */
  tp__turn_kind kind;
  tp__snapshot *snapshot; /* held for it; NULL: the newest */
} tp__turn_spec;

/** @return TP_OK; TP_ERR_SHUTDOWN, TP_ERR_FULL, TP_ERR_FORKED, TP_ERR_NO_MEMORY; then turn is untouched. */
tp_status tp__turn_init(tp__turn *turn, struct tp_runtime *runtime, const tp__turn_spec *spec);
/** Owner: the turn is over; its strand ends when the owner leaves. Nothing may be open. */
void tp__turn_finish(tp__turn *turn);
void tp__turn_hold(tp__turn *turn);
void tp__turn_unref(tp__turn *turn);
/** The host's thread: marks the turn busy with an operation for the engine workers.
 *  @return TP_OK; TP_ERR_BUSY; TP_ERR_SHUTDOWN when the workers are about to stop. */
tp_status tp__turn_begin_operation(tp__turn *turn);
/** Any thread that holds the turn. */
void tp__turn_cancel(tp__turn *turn);
/** What release calls first: frees the arena, lets go of the snapshot. */
void tp__turn_fini(tp__turn *turn);
/** Takes the next lot of entry ids from the runtime. */
void tp__turn_take_entry_ids(tp__turn *turn);
/** Owner: the next entry's id, unique in the runtime: turns take them in lots. */
static inline uint64_t tp__turn_entry_id(tp__turn *turn) {
  if (turn->last_entry_id == turn->last_of_lot) tp__turn_take_entry_ids(turn);
  return ++turn->last_entry_id;
}
static inline const tp__plan *tp__turn_plan(const tp__turn *turn, uint32_t phase) {
  return turn->snapshot->plans[phase];
}

#endif
