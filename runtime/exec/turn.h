/* SPDX-License-Identifier: Apache-2.0
 *
 * turn: the part of a turn that the engine knows: a strand, a snapshot, whose turn it is, a deadline. A detached run is
 * one too. Its owner is the strand's owner. References: the strand's own (until its end), the host's handle, and one of
 * every entry that attempts have left its owner's thread with. */
#ifndef TP__TURN_H
#define TP__TURN_H

#include "runtime/plan/plan.h"
#include "runtime/sched/strand.h"
#include "runtime/store/record_pack.h"

typedef struct tp__turn tp__turn;

/** What ends it, and so what a drain waits for. */
typedef enum tp__turn_kind {
  TP__TURN_DRIVEN = 0,   /* by us: a drain cancels it and waits for its end */
  TP__TURN_HELD = 1,     /* by its host: a drain cancels it and waits for the operation under way, if any */
  TP__TURN_DETACHED = 2, /* a detached run: may begin while draining */
  TP__TURN_CLOSING = 3,  /* closes a session or an agent: likewise */
  TP__TURN_KINDS = 4
} tp__turn_kind;

/** So deep turns nest: a turn, one that a call of it runs, and so on. */
enum { TP__NESTED_MAX = 4 };

/* Lines of 64 bytes. The thread that begins a turn writes the strand's first and the one from `runtime` on; the rest is
 * idle, and its owner writes it. A turn without ids of its own that runs a phase touches four more. A line that
 * another processor wrote, or that a thousand other turns have driven out of the cache, costs 40 to 250 ns. */
struct tp__turn {
  tp__strand strand;
  void (*cancelled)(tp__turn *turn); /* owner: after the entries were cancelled; may be NULL */
  size_t block_size;                 /* of the memory, unless it is a slot of the turn table */
  tp__message cancel_message;
  /* under the runtime's lock */
  tp__link runtime_link; /* of a turn that is not in the turn table */
  /* never changes after begin, but for the deadline: that is the owner's */
  struct tp_runtime *runtime;
  tp__snapshot *snapshot;
  int64_t deadline_ns;
  uint64_t number; /* of this turn in the runtime */
  /* atomic */
  tp__a32 refs;
  tp__a32 open; /* of a turn in the table: 1 + kind from begin to end */
  tp__a32 busy; /* 1 while an operation that the host began is under way; cleared by the owner */
  tp__a32 cancel_asked;
  uint8_t caller;  /* tp_caller */
  uint8_t kind;    /* tp__turn_kind */
  uint8_t depth;   /* of a nested turn, and detached runs of it, 1 to TP__NESTED_MAX; else 0 */
  bool in_table;   /* its memory is a slot of the turn table */
  bool owes_quota; /* its quota is returned with its slot (turn_table.c) */
  bool cleared;    /* tp__turn_clear() was called: not yet for a new slot */
  bool host_held;  /* for the agent layer: the owner is a thread of the host's */
  bool has_ids;    /* of its request or session */
  bool has_inbox;  /* inbox is set */
  bool is_named;   /* the owner makes the id of a turn that has none when it begins to run it */
  /* owner only; what entries read of it is written before they begin */
  bool is_cancelled;
  bool is_fenced;                  /* a store has said that the session was taken over: nothing more is begun */
  tp_status record_refusal;        /* owner: why the store refused a record, until it is looked at */
  tp__record_batch records;        /* packed, not yet passed to the store */
  struct tp__entry *cached_entry;  /* the block in which its entries are made one after the other (begin.h), or NULL */
  const void *sets;                /* what was merged so far: an immutable version in a form of the agent layer */
  void (*release)(tp__turn *turn); /* frees the memory the turn is in: the last reference is gone. Any thread */
  tp__arena arena;                 /* lives as long as the references do */
  tp__link entries; /* open ones, and those whose result is still read; not what ran in the cached block (begin.h) */
  uint64_t last_entry_id, last_of_batch;
  tp_inbox *inbox;  /* its session's; referenced till the end of its memory; NULL: none */
  tp__turn *parent; /* of a nested turn, and detached runs of it: whose attempt has it run; referenced till the end of
                         its memory */
  tp__turn *origin; /* of a detached run that a turn began: that turn, referenced likewise */
  char own_id[48];  /* of a turn that was given none */
  tp_text ids[TP_ID_COUNT];
  tp_text mode;
  tp_text caller_job, triggered_by, environment; /* of the request; like the ids */
  uint64_t jobs_process, jobs_turn; /* owner: in the keys of jobs that its subscriptions make, so that they are the same
                                       when they are made once more; 0: the entry's are */
  uint64_t fence;                   /* owner: of its claim of its session, until it has appended; 0: it has none */
  char identity[152];               /* the arena's first bytes: ids seldom need more */
};
_Static_assert(offsetof(tp__turn, runtime) % 64 == 0 && offsetof(tp__turn, records) == offsetof(tp__turn, runtime) + 64,
               "what a begin writes is one line");

typedef struct tp__turn_spec {
  const tp_text *ids; /* TP_ID_COUNT; copied. NULL: the turn has none, and its own is made when it begins to run */
  tp_text mode;       /* copied */
  tp_caller caller;
  int64_t deadline_ns; /* absolute */
  tp__turn_kind kind;
  bool in_table;
  tp__snapshot *snapshot;                        /* held for it; NULL: the newest */
  tp_text caller_job, triggered_by, environment; /* copied */
  tp__turn *parent; /* of a nested turn, which uses its snapshot; the caller has a reference to it */
  tp_inbox *inbox;  /* of its session; referenced; NULL: none */
} tp__turn_spec;

/** Sets memory up as tp__turn_init() finds it, but for what the agent layer sets (cancelled, release). */
void tp__turn_clear(tp__turn *turn, struct tp_runtime *runtime);
/** Makes a turn in a slot of the turn table (which gets it back when this fails) or in the caller's memory. The caller
 *  is the owner. @return TP_OK; TP_ERR_SHUTDOWN, TP_ERR_FULL, TP_ERR_NO_MEMORY. */
tp_status tp__turn_init(tp__turn *turn, struct tp_runtime *runtime, const tp__turn_spec *spec);
/** Owner: the turn is over; its strand ends when the owner leaves. Nothing may be open. */
void tp__turn_finish(tp__turn *turn);
/** Owner: asserts what always holds (turn.c). */
void tp__turn_check(const tp__turn *turn);
void tp__turn_hold(tp__turn *turn);
void tp__turn_unref(tp__turn *turn);
/** Prefetches the cache lines that the thread that begins the turn will write: its own two, and the first of the layer
 *  above, which lies after it. */
static inline void tp__turn_prefetch(const tp__turn *turn) {
  tp__prefetch(&turn->strand);
  tp__prefetch(&turn->runtime);
  tp__prefetch(turn + 1);
}
/** The same for the thread that will run it. Any address will do. */
static inline void tp__turn_prefetch_all(const tp__turn *turn) {
  tp__turn_prefetch(turn);
  tp__prefetch(&turn->records);
  tp__prefetch(&turn->arena);
  tp__prefetch(&turn->last_entry_id);
  tp__prefetch(&turn->ids[TP_ID_TURN]);
  tp__prefetch((const char *)(turn + 1) + 64);
  tp__prefetch((const char *)(turn + 1) + 128);
}
/** The host's thread: marks the turn busy with an operation for the engine workers.
 *  @return TP_OK; TP_ERR_BUSY; TP_ERR_SHUTDOWN when the workers are about to stop. */
tp_status tp__turn_begin_operation(tp__turn *turn);
/** Any thread that holds the turn. */
void tp__turn_cancel(tp__turn *turn);
/** What release calls first: frees the arena, unpins the snapshot, returns the slot, which the next turn may take. */
void tp__turn_fini(tp__turn *turn);
/** Takes the next batch of entry ids from the runtime. */
void tp__turn_take_entry_ids(tp__turn *turn);
/** Owner: gives a turn without ids its own. */
void tp__turn_name(tp__turn *turn);
/** The id of a turn whose request had none, in 48 bytes of the caller's. */
tp_text tp__turn_generated_id(const tp__turn *turn, char *buffer);
/** Owner: the next entry's id, unique in the runtime: turns take them in batches. */
static inline uint64_t tp__turn_entry_id(tp__turn *turn) {
  if (turn->last_entry_id == turn->last_of_batch) tp__turn_take_entry_ids(turn);
  return ++turn->last_entry_id;
}
/** The id of the turn whose call runs this nested one; of any other turn empty. */
static inline tp_text tp__turn_parent_id(const tp__turn *turn) {
  return turn->depth > 0 && turn->parent ? turn->parent->ids[TP_ID_TURN] : (tp_text){"", 0};
}
static inline const tp__plan *tp__turn_plan(const tp__turn *turn, uint32_t phase) {
  return turn->snapshot->plans[phase];
}

#endif
