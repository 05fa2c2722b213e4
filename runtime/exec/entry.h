/* SPDX-License-Identifier: Apache-2.0
 *
 * entry: one run of one phase in one turn. It owns one block, with a counter per node (how many nodes it still waits
 * for), the ready nodes, a row for every node, and an arena. entry.c is the general machine; settle.c ends nodes;
 * inline.c is the fast loop for inline nodes; node_attempt.c handles nodes that leave the owner's thread; call.c is the
 * view of a handler.
 *
 * When a node settles, its row is written in the form of the record, in four words. That suffices for a node that was
 * called once, at the moment when it was ready, and returned DONE without contributions. Any other node has a tp__run
 * as well, and MORE in its marks.
 *
 * The states of a node: its last predecessor settles -> ready -> skipped, or called here (inline), or submitted, or
 * detached -> answered -> decided (decide.c) -> settled -> its successors' counters. When every node is settled the
 * entry ends, exactly once, through on_end. */
#ifndef TP__ENTRY_H
#define TP__ENTRY_H

#include "runtime/exec/decide.h"
#include "runtime/exec/turn.h"
#include "runtime/sched/attempt.h"
#include "runtime/store/record_pack.h"

typedef struct tp__entry tp__entry;
typedef struct tp__share tp__share;
struct tp__retry;

/** A contribution, in the order of emission. */
typedef struct tp__emitted {
  tp_contribution contribution;
  struct tp__emitted *next;
} tp__emitted;

/** What an answer has besides its outcome. */
typedef struct tp__output {
  tp__emitted *first, *last;
  uint32_t count;
  size_t bytes;
  tp_field *replacement; /* fields to replace; NULL: none */
  uint32_t replacement_count;
  tp_status refused;   /* the first refused emit, which rejects the whole answer */
  const char *refusal; /* why, in a sentence; may be NULL */
} tp__output;

/** The state of a node that a row cannot describe while it runs: the data for its record, and data that only the engine
 *  needs. */
typedef struct tp__run {
  tp__row_details row; /* execution and failure are set when the node is settled */
  bool settled;
  bool retryable;           /* it failed, and its handler's answer allows another try */
  uint16_t reported;        /* how many of its attempts were counted and recorded because others were to follow */
  const tp__emitted *first; /* sealed contributions; with fallback_used, the subscription's */
  const char *message;      /* reason of a deny, ask or failure; safe */
  tp__attempt *attempt;     /* open: submitted or deferred */
  struct tp__retry *retry;  /* open: waits to be tried again */
} tp__run;

enum {
  TP__MARK_BLOCKED = 1, /* a required dependency did not succeed */
  TP__MARK_MORE = 2,    /* the node has a tp__run, and its row is not written yet */
  TP__MARK_SKIPPED = 4  /* the code that began the entry left the node out */
};

/** The inline nodes of an entry that may be called now, as one bit for each. So the first in plan order is called
 *  first, in whatever order they became ready. Edges lead to higher indexes, so the search for the next ready node
 *  begins at the word of the last one. */
typedef struct tp__ready {
  uint64_t *bits;
  uint32_t low;   /* no word before this one has a bit */
  uint32_t count; /* of bits */
} tp__ready;

typedef enum tp__entry_state {
  TP__ENTRY_OPEN = 0,
  TP__ENTRY_DENIED = 1,
  TP__ENTRY_FAILED = 2,
  TP__ENTRY_CANCELLED = 3,
  TP__ENTRY_UNSTORED = 4 /* failed, because a subscription is required and the store did not commit the record */
} tp__entry_state;

/** What a handler sees (handler.h: tp_call). One is in the entry, for inline calls, and one in each attempt. After the
 *  entry's call was touched, it is set up anew for the next handler; otherwise only index and started_ns change. */
struct tp_call {
  tp__entry *entry;
  uint32_t index; /* of the node */
  uint32_t attempt_number;
  const tp_field *fields; /* the payload as of this call */
  uint32_t field_count;
  bool touched; /* a contribution, a replacement, a refusal or a deferral was made */
  bool sealed;  /* deferred: emits are refused */
  /* for an attempt, which ends at the earlier of deadline_ns and started_ns + timeout_ns */
  int64_t deadline_ns, timeout_ns;
  int64_t started_ns;
  tp__arena *arena;
  tp__output output;    /* for an inline call: set up when the call is touched */
  tp__answer answer;    /* the reason and code for an answer of this kind; set up like output */
  tp__attempt *attempt; /* NULL: an inline call that has not deferred, whose deadline is computed on demand */
};

/** What a match function sees (handler.h: tp_match_view). */
struct tp_match_view {
  const tp__entry *entry;
};
/** match.c: the answer of the node's match: TP_MATCH_*. */
int32_t tp__match(const tp_match *match, const tp_match_view *view);

typedef void (*tp__entry_fn)(tp__entry *entry);

struct tp__entry {
  /* never changes after begin */
  tp__turn *turn;
  const tp__plan *plan;
  const void *sets;
  const tp_field *begin_fields; /* for match */
  uint64_t id;
  size_t block_size;
  tp__entry_fn on_end;
  void (*on_run)(tp__entry *entry, uint32_t index); /* a run settled; may be NULL */
  void *ctx;
  tp__row *rows; /* they follow this struct; then come ready's bits, counters, leaving, marks, runs */
  /* set when the entry is laid out, before any attempt (begin.h) */
  uint16_t *leaving; /* a stack of ready nodes that leave this thread; these go first */
  uint16_t *counters;
  uint8_t *marks; /* TP__MARK_* */
  tp__run *runs;  /* each is set up when its node gets MARK_MORE, not earlier */
  uint32_t begin_field_count;
  bool payload_borrowed; /* begin_fields belong to the caller until the entry has ended, so a result needs a copy */
  /* owner only; but attempts may read the runs of settled nodes */
  bool running; /* inside the machine: settles only push */
  bool ended;
  bool taken;                 /* for a cached block: an entry is in it, open or with its result */
  bool is_call_set;           /* call is in the state that an inline call needs before its handler touches it */
  const tp_run_record *shown; /* the rows as a host reads them, in the arena; NULL: not made */
  union {
    struct {
      uint8_t state;       /* tp__entry_state */
      bool ignores_cancel; /* the turn's cancel does not end it; never changes */
      bool detached_run;   /* the only node is a detached run; never changes */
      bool has_listener;   /* on_run is set, or a node is skipped; never changes once the entry runs */
      bool has_output;     /* something was contributed or replaced */
      bool has_more;       /* a node has a run */
      /* a cancel came, whatever the state was by then; answers on their way may still settle the entry */
      bool cancelled;
      bool holds_turn; /* the entry holds a reference to the turn, for attempts */
    };
    uint64_t exceptional; /* 0: none of these is set */
  };
  uint8_t verdict;        /* the strictest so far */
  uint32_t deciding_node; /* index of the node that denied, asked or failed; UINT32_MAX: none */
  uint32_t unsettled;
  uint32_t leaving_count;
  tp__ready ready; /* the inline ones */
  uint32_t field_count;
  const tp_field *fields; /* the payload as the chain has it */
  int64_t begin_ns, end_ns, now_ns, ended_ns;
  int64_t fast_path_until_ns; /* until then no deadline but a node's own limit can pass, and a row can hold the times */
  tp__link link;              /* in turn->entries, or linked to itself (see there) */
  tp__share *share;           /* nodes that other threads call; NULL: there never was one */
  tp__arena arena;
  tp_call call; /* not set up at birth */
  /* atomic */
  tp__a32 refs;               /* the owner's and one of each attempt */
  tp__a32 pinned;             /* acq_rel: abandoned attempts, which together pin the entry's block */
  tp__aptr retained_attempts; /* acq_rel: ended attempts whose answers are read, newest first */
  tp__aptr closures;          /* acq_rel: the host's objects in emitted contributions; mostly NULL */
  tp__aptr payloads;          /* acquire, release: payloads that tp_call_payload() made (call_payload.c); mostly NULL */
};

typedef struct tp__entry_spec {
  const tp__plan *plan;
  const tp_field *fields; /* copied unless the plan is all inline */
  uint32_t field_count;
  int64_t budget_ns;   /* 0: the plan's */
  bool ignores_cancel; /* the entry runs on its own budget, whatever the turn's deadline */
  bool detached_run;
  tp__entry_fn on_end;
  void (*on_run)(tp__entry *entry, uint32_t index);
  void *ctx;
} tp__entry_spec;

/** Owner of the turn. @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__entry_new(tp__turn *turn, const tp__entry_spec *spec, tp__entry **ret_entry);
/** Owner: runs the ready nodes; on_end may be called before this returns. */
void tp__entry_go(tp__entry *entry);
/** Owner: ends an open entry early: running nodes are abandoned, nodes that have not begun are skipped. */
void tp__entry_cancel(tp__entry *entry);
/** Owner, after on_end: the result is no longer needed. */
void tp__entry_release(tp__entry *entry);
/** Any thread: drops an attempt's reference. */
void tp__entry_unref(tp__entry *entry);
/** Owner: asserts the invariants (entry.c). For an entry of many nodes, only those that need no look at each node. */
void tp__entry_check(const tp__entry *entry);

/** After the end: TP_OK, TP_ERR_DENIED, TP_ERR_HOOK, TP_ERR_CANCELLED, TP_ERR_TIMEOUT. */
tp_status tp__entry_outcome(const tp__entry *entry);
tp_run_record tp__entry_run(const tp__entry *entry, uint32_t index);
/** The rows of all nodes as a host reads them, made at the first call and cached in the entry. @return NULL without
 *  memory. */
const tp_run_record *tp__entry_runs(tp__entry *entry);

/** The node's run; NULL when its row describes it completely. Valid for settled nodes; for the owner also for other
 *  nodes. */
static inline const tp__run *tp__entry_more(const tp__entry *entry, uint32_t index) {
  return entry->marks[index] & TP__MARK_MORE ? &entry->runs[index] : NULL;
}

/* ---- for the other files that run an entry ---- */

static inline void tp__ready_push(tp__ready *ready, uint32_t index) {
  uint32_t word = index / 64;
  TP__ASSERT(!(ready->bits[word] >> index % 64 & 1)); /* a node becomes ready once */
  ready->bits[word] |= UINT64_C(1) << index % 64;
  if (word < ready->low) ready->low = word;
  ready->count++;
}

/** The first one. There must be one. */
static inline uint32_t tp__ready_first(tp__ready *ready) {
  TP__ASSERT(ready->count > 0);
  while (ready->bits[ready->low] == 0) ready->low++;
  return ready->low * 64 + (uint32_t)__builtin_ctzll(ready->bits[ready->low]);
}

/** Takes the first ready index. */
static inline uint32_t tp__ready_pop(tp__ready *ready) {
  uint32_t first = tp__ready_first(ready);
  ready->bits[ready->low] &= ready->bits[ready->low] - 1;
  ready->count--;
  return first;
}

/** The next ready node after an index. @return UINT32_MAX: there is none. */
static inline uint32_t tp__ready_behind(const tp__ready *ready, uint32_t index, uint32_t node_count) {
  for (uint32_t from = index + 1; from < node_count; from = (from / 64 + 1) * 64) {
    uint64_t bits = ready->bits[from / 64] >> from % 64;
    if (bits) return from + (uint32_t)__builtin_ctzll(bits);
  }
  return UINT32_MAX;
}

/** Takes this index, which is ready. */
static inline void tp__ready_take(tp__ready *ready, uint32_t index) {
  TP__ASSERT(ready->count > 0 && (ready->bits[index / 64] >> index % 64 & 1));
  ready->bits[index / 64] &= ~(UINT64_C(1) << index % 64);
  ready->count--;
}

/** When a node must end in an entry that ends at end_ns. For a node that is not required: earlier by the longest
 *  required path after it. */
static inline int64_t tp__node_end(const tp__node *node, int64_t end_ns) {
  return node->flags & TP__NODE_REQUIRED ? end_ns : end_ns - node->required_tail_ns;
}
/** The deadline of a node that was ready at queued_ns. It includes the limit of a call only for the execution policy
 *  Deadline. */
static inline int64_t tp__node_deadline(const tp__node *node, int64_t end_ns, int64_t queued_ns) {
  int64_t node_end_ns = tp__node_end(node, end_ns), own_ns = queued_ns + node->timeout_ns;
  return node->flags & TP__NODE_DEADLINE && own_ns < node_end_ns ? own_ns : node_end_ns;
}
/** How long one call of the node may take; 0: until the deadline. */
static inline int64_t tp__node_timeout(const tp__node *node) {
  return node->flags & TP__NODE_DEADLINE ? 0 : node->timeout_ns;
}
/** An inline node was called, by the owner or by a helper, and its answer is exceptional. */
void tp__entry_called(tp__entry *entry, uint32_t index, tp_call *call, tp_answer kind, int64_t ended_ns);

/** For a node that waited for space in the backlog and is the first in line, when there may be space: stores its job,
 *  unless the entry is decided. @return true: there was no space, and the node waits on until until_ns. */
bool tp__entry_detach_again(tp__entry *entry, uint32_t index, int64_t until_ns);
/** The thread of the jobs has stored or refused the job of a detached node: the entry goes on.
 *  @param news_seen  tp__backlog_news() before the store was asked. @param refused NONE: the job is committed. */
void tp__entry_detached(tp__entry *entry, uint32_t index, uint32_t news_seen, tp_reason refused);
/** Runs the nodes that became ready; ends the entry when nothing is left. */
void tp__entry_advance(tp__entry *entry);
/** Copies fields with their texts. */
bool tp__fields_copy(tp__arena *arena, const tp_field *fields, uint32_t count, tp_field **ret_copy);
const tp_field *tp__fields_find(const tp_field *fields, uint32_t count, uint32_t id);

#endif
