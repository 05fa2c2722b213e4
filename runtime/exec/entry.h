/* SPDX-License-Identifier: Apache-2.0
 *
 * entry: one run of one phase in one turn. It owns one block: what is left to wait for (a counter per node), the stack
 * of ready nodes, the run of every node, an arena. engine.c is its machine; node_attempt.c what it does with nodes that
 * leave the owner's thread; call.c what a handler sees of it.
 *
 * The way of a node: its last predecessor settles -> ready -> skipped, or called here (quick), or handed over, or
 * detached -> answered -> decided (decide.c) -> settled -> its successors' counters. When every node is settled the
 * entry ends, exactly once, through on_end. */
#ifndef TP__ENTRY_H
#define TP__ENTRY_H

#include "runtime/exec/attempt.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/turn.h"

typedef struct tp__entry tp__entry;
struct tp__retry;

/** A contribution in the order it was emitted. */
typedef struct tp__emitted {
  tp_contribution contribution;
  struct tp__emitted *next;
} tp__emitted;

/** What an answer brought besides its outcome. */
typedef struct tp__output {
  tp__emitted *first, *last;
  uint32_t count;
  size_t bytes;
  tp_field *replacement; /* fields to replace; NULL: none */
  uint32_t replacement_count;
  tp_status refused; /* the first refused emit: the whole answer is rejected */
} tp__output;

/** How one node ended: its row in the record, and what the engine keeps beside it. */
typedef struct tp__run {
  tp_run_record row;          /* execution, failure and names are filled in when it is settled */
  bool blocked;               /* a required dependency did not succeed */
  bool settled;
  const tp__emitted *first;   /* sealed contributions; with fallback_used they are the subscription's */
  const char *message;        /* reason of a deny, ask or failure; safe */
  tp__attempt *attempt;       /* open: handed over or deferred */
  struct tp__retry *retry;    /* open: waits to be tried again */
} tp__run;

typedef enum tp__fate { TP__FATE_OPEN = 0, TP__FATE_DENIED = 1, TP__FATE_FAILED = 2, TP__FATE_CANCELLED = 3 } tp__fate;

/** What a handler sees (handler.h: tp_call). One lies in the entry for quick calls, one in each attempt. */
struct tp_call {
  tp__entry *entry;
  uint32_t index; /* of the node */
  uint32_t attempt_number;
  const tp_field *fields; /* the payload as of this call */
  uint32_t field_count;
  bool sealed;               /* deferred: emits are refused */
  int64_t hard_ns, limit_ns; /* its deadline: the earlier of hard_ns and started_ns + limit_ns */
  int64_t started_ns;
  tp__arena *arena;
  tp__output output;
  tp__attempt *attempt; /* NULL: quick, not deferred */
};

typedef void (*tp__entry_fn)(tp__entry *entry);

struct tp__entry {
  tp_call call; /* owner only; first, since it is not cleared at birth: every quick call sets it whole */
  /* never changes after begin */
  tp__turn *turn;
  const tp__plan *plan;
  const void *sets;
  const tp_field *begin_fields; /* for match */
  uint32_t begin_field_count;
  uint64_t id;
  size_t block_size;
  tp__entry_fn on_end;
  void (*on_run)(tp__entry *entry, uint32_t index); /* a run settled; may be NULL */
  void *ctx;
  bool sheltered;    /* not ended by the turn's cancel */
  bool detached_run; /* the one node of a detached run */
  bool payload_borrowed; /* begin_fields are the caller's till the entry has ended: a result needs a copy */
  /* owner only; of settled runs attempts may read */
  tp__link link;          /* in turn->entries */
  const tp_field *fields; /* the payload as the chain has it */
  uint32_t field_count;
  int64_t begin_ns, end_ns, now_ns, ended_ns;
  uint32_t unsettled;
  uint32_t ready_count;   /* quick nodes, at the front of `ready` */
  uint32_t leaving_count; /* nodes that leave this thread, at its back: these go first */
  tp__fate fate;
  uint8_t verdict; /* the strictest so far */
  bool has_output; /* something was contributed or replaced */
  bool running;    /* inside the machine: settles only push */
  bool cancelled;               /* whatever its fate was by then; answers on their way may still settle it */
  bool ended;
  bool holds_turn;  /* a reference of the turn is held for attempts */
  uint32_t decider; /* who denied, asked or failed; UINT32_MAX: nobody */
  tp__arena arena;
  uint16_t *counters;
  uint32_t *ready;
  tp__run *runs;
  /* atomic */
  tp__a32 refs;           /* the owner's and one of each attempt */
  tp__aptr kept_attempts; /* acq_rel: those that ended and whose answers are read, newest first */
};

typedef struct tp__entry_spec {
  const tp__plan *plan;
  const tp_field *fields; /* copied unless the plan is all quick */
  uint32_t field_count;
  int64_t budget_ns; /* 0: the plan's */
  bool sheltered;    /* on its own budget, whatever the turn's deadline */
  bool detached_run;
  tp__entry_fn on_end;
  void (*on_run)(tp__entry *entry, uint32_t index);
  void *ctx;
} tp__entry_spec;

/** Owner of the turn. @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__entry_new(tp__turn *turn, const tp__entry_spec *spec, tp__entry **ret_entry);
/** Owner: runs what is ready; on_end may be called before it returns. */
void tp__entry_go(tp__entry *entry);
/** Owner: ends an open entry early: what runs is abandoned, what has not begun is skipped. */
void tp__entry_cancel(tp__entry *entry);
/** Owner, after on_end: the result is no longer needed. */
void tp__entry_release(tp__entry *entry);
/** Any thread: drops an attempt's reference. */
void tp__entry_unref(tp__entry *entry);

/** After the end: TP_OK, TP_ERR_DENIED, TP_ERR_HOOK, TP_ERR_CANCELLED, TP_ERR_TIMEOUT. */
tp_status tp__entry_outcome(const tp__entry *entry);
tp_run_record tp__entry_run(const tp__entry *entry, uint32_t index);

/* ---- between engine.c, node_attempt.c, detached.c and call.c ---- */

/** The node's answer is in. output: what it emitted. Settles, retries or fails; then goes on. */
void tp__entry_answered(tp__entry *entry, uint32_t index, const tp_outcome *outcome, const tp__output *output,
                        int64_t ended_ns);
/** The node ended without an answer. */
void tp__entry_missed(tp__entry *entry, uint32_t index, tp_state state, tp_reason reason, int64_t ended_ns);
/** Runs what became ready; ends the entry when nothing is left. */
void tp__entry_advance(tp__entry *entry);
/** Copies fields with their texts. */
bool tp__fields_copy(tp__arena *arena, const tp_field *fields, uint32_t count, tp_field **ret_copy);
const tp_field *tp__fields_find(const tp_field *fields, uint32_t count, uint32_t id);

/** records.c: packs the record of an entry that has ended. */
void tp__entry_record(tp__entry *entry);
/** records.c: hands what the turn has packed to the store. */
void tp__turn_flush_records(tp__turn *turn);

/** call.c: checks one contribution against what the node may emit and adds a deep copy of it. A refusal sticks to the
 *  output. */
tp_status tp__output_emit(tp__output *output, tp__arena *arena, const tp__entry *entry, uint32_t index,
                          const tp_contribution *contribution);

/** node_attempt.c: hands the node to a handler thread. @return a reason when it was refused at once. */
tp_reason tp__node_hand_over(tp__entry *entry, uint32_t index, int64_t hard_ns, int64_t limit_ns);
/** node_attempt.c: makes the attempt behind a quick call that defers. */
tp_status tp__node_defer_inline(tp_call *call, const tp_deferral *deferral, tp_token *ret_token);

/** node_attempt.c: frees what ended attempts left in the entry: its last reference is gone. Any thread. */
void tp__node_attempts_free(tp__entry *entry);

/** detached.c: starts a detached run of the node, or stores it as a job. @return NONE when accepted or committed. */
tp_reason tp__detached_start(tp__entry *entry, uint32_t index);

#endif
