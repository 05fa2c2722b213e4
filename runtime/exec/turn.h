/* SPDX-License-Identifier: Apache-2.0
 *
 * turn: the part of a turn that the engine knows: a strand, a snapshot, the ids, a deadline. A detached run is a turn,
 * too. Its owner is the strand's owner. References: the strand's own (until its end), the host's handle, and one of
 * each entry whose attempts have left the owner's thread. */
#ifndef TP__TURN_H
#define TP__TURN_H

#include "runtime/plan/plan.h"
#include "runtime/sched/strand.h"
#include "runtime/store/record_pack.h"

typedef struct tp__turn tp__turn;

/** What ends a turn, and so what a drain waits for. */
typedef enum tp__turn_kind {
  TP__TURN_DRIVEN = 0, /* the library ends it: a drain cancels it and waits for its end */
  /* its host ends it: a drain cancels it and waits only for the running operation, if there is one */
  TP__TURN_HELD = 1,
  TP__TURN_DETACHED = 2, /* a detached run: may begin while draining */
  TP__TURN_CLOSING = 3,  /* closes a session or an agent: likewise */
  TP__TURN_KINDS = 4
} tp__turn_kind;

/** How deep turns may nest: a turn that a call of another turn runs has the depth of that turn plus one. */
enum { TP__NESTED_MAX = 4 };

/* The struct has lines of 64 bytes. The thread that begins a turn writes the strand's first line and the line from
 * `runtime` on. The rest is idle then, and the owner writes it. A turn without ids of its own that runs a phase touches
 * four more lines. A line that another processor wrote, or that a thousand other turns have displaced from the cache,
 * costs 40 to 250 ns. */
struct tp__turn {
  tp__strand strand;
  void (*cancelled)(tp__turn *turn); /* owner: called after the entries were cancelled; may be NULL */
  size_t block_size;                 /* size of the memory when it is no slot of the turn table */
  tp__message cancel_message;
  /* under the runtime's lock */
  tp__link runtime_link; /* links a turn that is not in the turn table */
  /* These never change after begin, except the deadline, which the owner changes */
  struct tp_runtime *runtime;
  tp__snapshot *snapshot;
  int64_t deadline_ns;
  uint64_t number; /* the number of this turn in the runtime */
  /* atomic */
  tp__a32 refs;
  tp__a32 open; /* for a turn in the table: 1 + kind from its begin to its end */
  tp__a32 busy; /* 1 while an operation that the host began is running; cleared by the owner */
  tp__a32 cancel_asked;
  uint8_t caller;  /* tp_caller */
  uint8_t kind;    /* tp__turn_kind */
  uint8_t depth;   /* of a nested turn, and of detached runs of it: 1 to TP__NESTED_MAX; else 0 */
  bool in_table;   /* its memory is a slot of the turn table */
  bool owes_quota; /* the quota is returned together with the slot (turn_table.c) */
  bool cleared;    /* tp__turn_clear() was called; false for a new slot */
  bool host_held;  /* for the agent layer: a thread of the host is the owner */
  bool has_ids;    /* the request or the session has ids */
  bool has_inbox;  /* inbox is set */
  bool is_named;   /* a turn without an id gets one from the owner when it begins to run */
  /* Owner only; the fields that entries read are written before the entries begin */
  bool is_cancelled;
  bool is_fenced;                  /* a store has refused because the session was taken over: nothing more is begun */
  tp_status record_refusal;        /* owner: why the store refused a record, until that is handled */
  tp__record_batch records;        /* packed, not yet passed to the store */
  struct tp__entry *cached_entry;  /* the block in which its entries are made one after the other (begin.h), or NULL */
  const void *sets;                /* the sets merged so far: an immutable version, in a form of the agent layer */
  void (*release)(tp__turn *turn); /* called when the last reference is gone: frees the turn's memory. Any thread */
  tp__arena arena;                 /* lives as long as the references do */
  /* open entries, and those whose result is still read; without the one that runs in the cached block (begin.h) */
  tp__link entries;
  uint64_t last_entry_id, last_of_batch;
  tp_inbox *inbox;  /* the inbox of its session; referenced until the memory is freed; NULL: none */
  tp__turn *parent; /* for a nested turn, and detached runs of it: the turn whose attempt runs it; referenced until the
                      memory is freed */
  tp__turn *origin; /* for a detached run that a turn began: that turn, referenced likewise */
  char own_id[48];  /* the id of a turn that was given none */
  tp_text ids[TP_ID_COUNT];
  tp_text mode;
  tp_text caller_job, triggered_by, environment; /* of the request; like the ids */
  uint64_t jobs_process, jobs_turn; /* owner: used in the keys of jobs of its subscriptions, so that the keys are equal
                                      when the jobs are made again; 0: the entry's ids are used */
  uint64_t fence;        /* owner: the fence of its claim of its session, until it has appended; 0: it has none */
  uint64_t fence_origin; /* owner: of that claim; has no meaning without a fence */
  char identity[144];    /* the first bytes of the arena; ids seldom need more */
};
_Static_assert(offsetof(tp__turn, runtime) % 64 == 0 && offsetof(tp__turn, records) == offsetof(tp__turn, runtime) + 64,
               "what a begin writes is one line");

typedef struct tp__turn_spec {
  const tp_text *ids; /* TP_ID_COUNT ids, copied. NULL: the turn has none, and gets an id when it begins to run */
  tp_text mode;       /* copied */
  tp_caller caller;
  int64_t deadline_ns; /* absolute */
  tp__turn_kind kind;
  bool in_table;
  tp__snapshot *snapshot;                        /* held for it; NULL: the newest */
  tp_text caller_job, triggered_by, environment; /* copied */
  tp__turn *parent; /* of a nested turn, which uses the parent's snapshot; the caller has a reference to it */
  tp_inbox *inbox;  /* of its session; referenced; NULL: none */
} tp__turn_spec;

/** Sets memory up for tp__turn_init(), except the fields that the agent layer sets (cancelled, release). */
void tp__turn_clear(tp__turn *turn, struct tp_runtime *runtime);
/** Makes a turn in a slot of the turn table or in the caller's memory. On failure the slot goes back to the table. The
 *  caller is the owner. @return TP_OK; TP_ERR_SHUTDOWN, TP_ERR_FULL, TP_ERR_NO_MEMORY. */
tp_status tp__turn_init(tp__turn *turn, struct tp_runtime *runtime, const tp__turn_spec *spec);
/** Owner: ends the turn; its strand ends when the owner leaves. Nothing may be open. */
void tp__turn_finish(tp__turn *turn);
/** Owner: asserts the invariants (turn.c). */
void tp__turn_check(const tp__turn *turn);
void tp__turn_hold(tp__turn *turn);
void tp__turn_unref(tp__turn *turn);
/** Prefetches the cache lines that the thread that begins the turn will write: two of this struct, and the first line
 *  of the agent layer's part, which follows it. */
static inline void tp__turn_prefetch(const tp__turn *turn) {
  tp__prefetch(&turn->strand);
  tp__prefetch(&turn->runtime);
  tp__prefetch(turn + 1);
}
/** The same for the thread that will run the turn. Any address may be passed. */
static inline void tp__turn_prefetch_all(const tp__turn *turn) {
  tp__turn_prefetch(turn);
  tp__prefetch(&turn->records);
  tp__prefetch(&turn->arena);
  tp__prefetch(&turn->last_entry_id);
  tp__prefetch(&turn->ids[TP_ID_TURN]);
  tp__prefetch((const char *)(turn + 1) + 64);
  tp__prefetch((const char *)(turn + 1) + 128);
}
/** Called by the host's thread: marks the turn busy with an operation for the engine workers.
 *  @return TP_OK; TP_ERR_BUSY; TP_ERR_SHUTDOWN when the workers are about to stop. */
tp_status tp__turn_begin_operation(tp__turn *turn);
/** Any thread that holds the turn. */
void tp__turn_cancel(tp__turn *turn);
/** The first step of release: frees the arena, unpins the snapshot, and returns the slot, which the next turn may then
 *  take. */
void tp__turn_fini(tp__turn *turn);
/** Takes the next batch of entry ids from the runtime. */
void tp__turn_take_entry_ids(tp__turn *turn);
/** Owner: gives a turn without ids a generated id. */
void tp__turn_name(tp__turn *turn);
/** The id of a turn whose request had none, written into 48 bytes of the caller. */
tp_text tp__turn_generated_id(const tp__turn *turn, char *buffer);
/** Owner: the id of the next entry, unique in the runtime. Turns take ids in batches. */
static inline uint64_t tp__turn_entry_id(tp__turn *turn) {
  if (turn->last_entry_id == turn->last_of_batch) tp__turn_take_entry_ids(turn);
  return ++turn->last_entry_id;
}
/** The id of the turn whose call runs this nested turn; empty for other turns. */
static inline tp_text tp__turn_parent_id(const tp__turn *turn) {
  return turn->depth > 0 && turn->parent ? turn->parent->ids[TP_ID_TURN] : (tp_text){"", 0};
}
static inline const tp__plan *tp__turn_plan(const tp__turn *turn, uint32_t phase) {
  return turn->snapshot->plans[phase];
}

#endif
