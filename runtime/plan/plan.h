/* SPDX-License-Identifier: Apache-2.0
 *
 * plan: what is registered and how it is ordered. The registry holds handlers and subscriptions; a commit compiles
 * those of every phase into a plan of flat arrays and publishes them together as one immutable snapshot.
 * Owns: the registered copies of descriptors. Locks (lock.def): `registry`, held for pins and publishing, and
 * `names`, for ids that outlive what they name; neither while a plan is compiled or anything of a handler's is called.
 * Never: runs a handler, knows a turn.
 *
 * The way: tp_edit_*() gather changes (edit.c) -> commit.c applies them to a set that begins as the registered one,
 * shared -> for the phases that they touch validate.c resolves the policies of each subscription, edges.c finds the
 * targets, sort.c orders, compile.c lays out the arrays -> commit.c publishes -> turns pin.
 *
 * An edge always says which subscription runs first: in a reverse row `after` still means after, while what no edge
 * orders, and the line of the sequential ones, runs backwards. Nodes are stored in the order in which they run, reverse
 * rows too, so every edge leads from a lower to a higher index. */
#ifndef TP__PLAN_H
#define TP__PLAN_H

#include "runtime/inbox/inbox.h"
#include "runtime/os/os.h"
#include "runtime/plan/circuit.h"
#include "runtime/value/redact.h"
#include "runtime/plan/closure.h"
#include "runtime/sched/permits.h"
#include "runtime/store/run_names.h"
#include "turnphase/inspect.h"

typedef struct tp__registry tp__registry;

/** What a subscription made through this name promises. */
enum {
  TP__ALIAS_SEQUENTIAL = 1, /* sequential unless the subscription sets it otherwise */
  TP__ALIAS_INFRA = 2       /* its reminders and signals are dropped with a diagnostic */
};
typedef struct tp__alias {
  const char *name;
  uint32_t phase;
  uint32_t flags;
} tp__alias;

/** Functions of the agent layer: no module of runtime/ looks inside contributions. */
typedef struct tp__contribution_ops {
  /** What copy checks, and more where somebody who registers can still be told: a tool's schema. May be NULL.
   *  @return TP_OK, TP_ERR_MALFORMED, TP_ERR_BAD_SCHEMA, TP_ERR_NO_MEMORY. */
  tp_status (*check)(const tp_allocator *allocator, uint32_t phase, const tp_contribution *in, tp_fault *fault);
  /** Checks, also whether the phase takes a signal of this kind, and deep-copies. What the copy holds of the host's is
   *  added to the home, on success only.
   *  @param fault  NULL allowed; else says which field, and what is wrong with it.
   *  @return TP_OK, TP_ERR_MALFORMED, TP_ERR_NO_MEMORY. */
  tp_status (*copy)(tp__arena *arena, uint32_t phase, const tp__closure_home *home, const tp_contribution *in,
                    tp_contribution *out, tp_fault *fault);
  /** The verdict that a contribution is, with its reason in *ret_reason, which may be empty. May be NULL. */
  tp_verdict (*verdict)(const tp_contribution *contribution, tp_text *ret_reason);
  /** Ends what was taken with a contribution that was refused: calls the destroy of its tools. May be NULL. */
  void (*discard)(const tp_contribution *contribution);
  /** The name of a TP_CONTRIBUTION_*, static text. May be NULL. */
  const char *(*kind_name)(uint32_t kind);
  /** The name of a payload field, static text; NULL: it has none. May be NULL. */
  const char *(*field_name)(uint32_t field);
  /** For each payload field below TP_FIELD_HOST the kinds that it is given in, bit 1 << TP_FIELD_KIND_*; 0: there is no
   *  such field. NULL: there are all, of any kind. */
  const uint8_t *field_kinds;
  /** What a well-formed field's content must be and is not, static text; NULL: nothing is wrong. May be NULL. */
  const char *(*field_flaw)(const tp_field *field);
  /** The field that this one goes with: when a handler replaces that and not this, this one leaves the payload. 0: it
   *  goes with none. May be NULL. */
  tp_field_id (*field_owner)(tp_field_id field);
} tp__contribution_ops;

/** A registered handler. Freed, and its destroy called without lock, when the last subscription, snapshot and attempt
 *  has dropped its reference. */
typedef struct tp__handler {
  tp__a32 refs;
  const tp_allocator *allocator; /* the rest never changes after registration */
  const void *inside_of;         /* what a thread that runs its destroy is inside of */
  struct tp__destroy *destroys;  /* with an inbox, in place of the call of desc.destroy */
  tp__arena arena;               /* holds every copy below */
  tp_handler desc;               /* strings and arrays are copies */
  const char *owner;
  tp_trust trust;
  tp_grant grants;
} tp__handler;

/** A registered subscription; shared by all snapshots that contain it, so that permits and the kill switch are one. */
typedef struct tp__subscription {
  tp__a32 refs;
  const tp_allocator *allocator; /* never changes after registration, down to the line */
  const void *inside_of;         /* what a thread that runs its match's destroy is inside of */
  tp__arena arena;               /* holds every copy below */
  tp_subscription desc;          /* strings and arrays are copies; phase is resolved; execution, failure and limit_ms as
                                    resolved at commit are in the node, not here; disabled is as it was added */
  tp_match match;                /* where desc.match leads to; zero-filled without one */
  tp__aptr closures;             /* what its fallback holds of the host's */
  uint32_t alias_flags;
  const char *owner;
  tp_trust trust;
  tp_grant grants;
  uint64_t registration; /* number, rising */
  /* Interned: live as long as the registry, so that records may refer to them. */
  const char *name, *handler_name, *owner_name;
  uint32_t run_name; /* the three of them, in the registry's run_names */
  /* ---- atomic: set by the operator, read when a node becomes ready (relaxed: any moment will do) */
  tp__a32 killed;
  tp__a32 tripped;
  tp__circuit circuit;
  tp__permits permits; /* under the pool's mutex (sched/pool.c) */
} tp__subscription;

enum {
  TP__NODE_INLINE = 1,
  TP__NODE_DETACHED = 2, /* FireAndRecord or Background */
  TP__NODE_BACKGROUND = 4,
  TP__NODE_DEADLINE = 8, /* timeout_ns counts from ready, else from the call */
  TP__NODE_REQUIRED = 16,
  TP__NODE_FALLBACK = 32,
  TP__NODE_MATCH = 64,
  TP__NODE_RETRY = 128,
  TP__NODE_INFRA = 256,    /* TP__ALIAS_INFRA */
  TP__NODE_PARALLEL = 512, /* with INLINE: may be called by an idle engine worker */
  TP__NODE_EXTENDS = 1024  /* the default budget of its phase is not below what it may take */
};

/** What a policy makes of a node: its row of policy.def. */
typedef struct tp__policy {
  const char *name;
  uint32_t flags;
  uint32_t limit_ms; /* of a run that has none of its own; 0: the phase's */
} tp__policy;

/** In names.c. Of what is no value: a row "unknown" without flags. */
const tp__policy *tp__execution_policy(tp_execution execution);
const tp__policy *tp__failure_policy(tp_failure failure);

/** One subscription in a plan, in plan order. */
typedef struct tp__node {
  tp_handler_fn run;
  void *ctx;
  uint32_t flags;
  tp_capability kinds; /* bit 1 << TP_CONTRIBUTION_*: what it may emit here (row, capabilities, detachment) */
  uint32_t first_edge, edge_count; /* in plan->edges */
  int64_t timeout_ns;
  int64_t required_tail_ns;      /* longest path of required nodes after it (inline ones count 10 ms an attempt); nodes
                                 on the way that are not required, or not awaited, count nothing */
  uint32_t first_dep, dep_count; /* in plan->deps: what its call may see */
  tp_capability capabilities;    /* the handler's */
  uint32_t permits;              /* 0: none needed */
  tp__subscription *sub;         /* held by the snapshot */
  tp__handler *handler;          /* held by the snapshot */
  tp_execution execution;        /* resolved, never DEFAULT */
  tp_failure failure;            /* resolved, never DEFAULT */
  /* The subscription's interned names, at hand. */
  const char *subscription_name, *handler_name, *owner_name;
  uint32_t level;                            /* longest path of edges from a root, from 0: for printing */
  bool critical;                             /* on the critical path: for printing */
  uint8_t subscription_bytes, handler_bytes; /* of the names, cut to what a breadcrumb holds */
} tp__node;

/** What the loop of inline nodes reads of a node, half a cache line of it. */
typedef struct tp__inline_node {
  tp_handler_fn run;
  void *ctx;
  uint32_t first_edge; /* in plan->edges */
  uint16_t edge_count;
  bool on_fast_path; /* inline, awaited, without match, and when it became ready does not matter */
  bool leaves;       /* the owner's thread: not inline, or detached */
  uint32_t run_name;
  uint32_t flags; /* of its row, when its answer is not exceptional */
} tp__inline_node;

/** A phase's subscriptions, compiled. Never changes. */
typedef struct tp__plan {
  const tp_phase *row;
  uint32_t phase;
  uint32_t node_count; /* > 0 */
  uint32_t edge_count, dep_count, root_count;
  tp__node *nodes;
  tp__inline_node *inline_nodes; /* of each node */
  /** Successors by rising target: target << 1 | 1 when the target requires this one's success. Each pair once. A chain
   *  has an edge from each node to the next, so that the engine knows one way to go on. Edges out of a detached node
   *  (in a chain, or by its own `before`) wait for its start only: it counts as settled when started. */
  uint32_t *edges;
  uint32_t *deps;     /* node indexes of direct after/requires targets, by rising index */
  uint16_t *indegree; /* per node: edges into it */
  /** What an entry starts from, copied in one piece: a bit for each node, set where it is an inline root; a uint16_t
   *  for each, its indegree; as many again, a stack of the roots that leave the owner's thread; a zero byte for
   *  each. Padded to 8 bytes. */
  void *start;
  uint8_t *no_marks; /* the zero bytes in it, as marks, which are never written */
  uint32_t start_bytes;
  uint32_t ready_count, leaving_count; /* of these */
  uint32_t *roots;                     /* nodes without incoming edge, rising */
  int64_t worst_ns;         /* longest path of limits, attempts and back-off included; detached nodes count nothing */
  int64_t required_ns;      /* the same, where only required nodes count */
  int64_t host_budget_ns;   /* what the host set; 0: nothing */
  int64_t default_limit_ns; /* of handlers that name none: the host's, else the row's */
  bool limit_set;           /* by the host */
  int64_t budget_ns;        /* of an entry: the host's, else worst_ns (unless the phase observes capped at 30 s, but not
                                 below the longest path of what is required or EXTENDS); the default limit when
                                 nothing is awaited; at most a quarter of TP__NEVER */
  uint32_t levels;
  const char *needs_inbox; /* as the snapshot's */
  uint32_t detached_count;
  bool all_inline;                /* every awaited node is inline */
  bool on_fast_path;              /* every node is on the fast path */
  bool has_parallel;              /* two nodes or more are of placement parallel */
  int64_t required_tail_ns_max;   /* of all nodes */
  int64_t timeout_ns_min;         /* of the nodes that have a limit; TP__NEVER: none has */
  const tp__run_names *run_names; /* the registry's */
  uint64_t hash;                  /* of everything that decides behaviour but pointers */
} tp__plan;

/** Words of a bit for each node. */
static inline size_t tp__ready_words(uint32_t node_count) { return (node_count + 63) / 64; }

/** All plans of one version. */
typedef struct tp__snapshot {
  tp__a64 refs;
  tp__registry *registry;
  uint64_t version;
  uint64_t hash;
  tp__plan *plans[TP_PHASE_LIMIT]; /* NULL: no enabled subscription */
  const char *needs_inbox;         /* a subscription without match whose calls come to the inbox of the session; NULL:
                                      none */
} tp__snapshot;

/** A part of the pins of the newest snapshot, counted per thread cache under its lock (exec/thread_cache.h). A pin that
 *  is taken from one cache may be returned to another, so a count may be below 0: only the sum is correct, and it is
 *  read only when there is a newer snapshot. */
typedef struct tp__pins {
  tp__snapshot *snapshot; /* the newest */
  int64_t count;
} tp__pins;

/** A hold on the newest snapshot. Under the lock of the pins. */
static inline tp__snapshot *tp__pins_take(tp__pins *pins) {
  pins->count++;
  return pins->snapshot;
}
/** @return false when the snapshot is not counted here: then tp__snapshot_unpin() it, after the lock. */
static inline bool tp__pins_give(tp__pins *pins, const tp__snapshot *snapshot) {
  if (snapshot != pins->snapshot) return false;
  pins->count--;
  return true;
}
/** The same for pins at the moment of tp__registry_on_publish() and at the end (NULL): the holds that were counted here
 *  become the snapshot's own. */
void tp__pins_renew(tp__pins *pins, tp__snapshot *newest);

/** A registry with the built-in and the host's phases and an empty snapshot of version 0. rows, aliases and ops are
 *  borrowed for the registry's life; rows[i] is phase i, so rows[0] is unused. Host rows are copied; host_rows[i] is
 *  phase TP_PHASE_HOST + i.
 *  @return TP_OK; TP_ERR_NO_MEMORY; for a host row TP_ERR_BAD_ID, TP_ERR_DUPLICATE_ID, TP_ERR_USAGE, TP_ERR_VERSION;
 *          TP_ERR_TOO_LARGE for more than 64 of them. */
tp_status tp__registry_new(const tp_allocator *allocator, const tp_phase *rows, size_t row_count,
                           const tp__alias *aliases, size_t alias_count, const tp_phase *const *host_rows,
                           size_t host_row_count, const tp__contribution_ops *ops, tp__registry **ret_registry,
                           tp_fault *fault);
/** What a thread that runs a destructor is inside of: the runtime. Before the first edit. */
void tp__registry_belongs_to(tp__registry *registry, const void *runtime);
/** Every snapshot must be unpinned. Handlers are destroyed. Accepts NULL. */
void tp__registry_free(tp__registry *registry);

/** The newest snapshot, held until unpinned. Threads: any. */
tp__snapshot *tp__registry_pin(tp__registry *registry);
/** A further hold on a snapshot that is held already. */
void tp__snapshot_hold(tp__snapshot *snapshot);
/** May free the snapshot and run handlers' destroy: no lock may be held. */
void tp__snapshot_unpin(tp__snapshot *snapshot);

/** What tp_edit_begin() and its siblings in runtime.h do, over a registry instead of a runtime. */
tp_status tp__edit_new(tp__registry *registry, const tp_owner *owner, tp_edit **ret_edit, tp_fault *fault);
tp_status tp__hook_add(tp__registry *registry, const tp_hook *hook, tp_fault *fault);
/** tp_hook_remove(). */
tp_status tp__hook_remove(tp__registry *registry, const char *id, tp_fault *fault);
/** What redacts the details of audit rows. Before the first edit. */
void tp__registry_redact(tp__registry *registry, const tp__redactor *redactor);
/** Limit and failure policy of hooks that name none (tp_runtime_options); 0: the phase's. Before the first edit. */
void tp__registry_hook_defaults(tp__registry *registry, uint32_t limit_ms, tp_failure failure);
/** What an operator does to a subscription in all snapshots at once. */
typedef enum tp__operator_switch { TP__SWITCH_KILL = 1, TP__SWITCH_TRIP = 2 } tp__operator_switch;
/** @param ret_was  whether it was so before. */
tp_status tp__registry_switch(tp__registry *registry, const char *subscription, tp__operator_switch which, bool on,
                              bool *ret_was, tp_fault *fault);
uint32_t tp__registry_phase_find(const tp__registry *registry, const char *name);
const tp_phase *tp__registry_phase(const tp__registry *registry, uint32_t phase);
typedef enum tp__fields_use {
  TP__FIELDS_RUN,    /* for tp_phase_run() */
  TP__FIELDS_SHAPE,  /* the same for a phase without subscriptions: contents are not looked at */
  TP__FIELDS_REPLACE /* for tp_call_replace() */
} tp__fields_use;
/** fields.c: checks fields that are given to a phase: each known, of its kind, carried (or replaceable), once, and its
 *  content valid for its kind. A few instructions for a field, and the check of its content.
 *  @return TP_OK; TP_ERR_USAGE; of the content TP_ERR_UTF8 or what tp_value_check() returns. The fault names field and
 *          phase. */
tp_status tp__fields_check(const tp__registry *registry, uint32_t phase, tp__fields_use use, const tp_field *fields,
                           size_t count, tp_fault *fault);
/** The name of a field, or "field_300" for one without a name. */
typedef struct tp__field_label_buffer {
  char text[24];
} tp__field_label_buffer;
const char *tp__field_label(const tp__contribution_ops *ops, uint32_t field, tp__field_label_buffer *buffer);
/** Aliases of a phase for printing: calls each. */
void tp__registry_aliases(const tp__registry *registry, uint32_t phase, void (*each)(void *ctx, const tp__alias *alias),
                          void *ctx);
size_t tp__registry_audit(tp__registry *registry, tp_visibility visibility_min, tp_audit_fn each, void *ctx);
/** Called after each successful commit without lock (job workers look whether they can run more). Set before the first
 *  commit. */
void tp__registry_on_commit(tp__registry *registry, void (*call)(void *ctx), void *ctx);
/** tp_runtime_audit_add(). */
tp_status tp__registry_audit_add(tp__registry *registry, const char *owner, const char *action, tp_text detail,
                                 tp_status decision, tp_fault *fault);
/** Once, before the first commit: called without lock when there is a new audit row. */
void tp__registry_on_audit(tp__registry *registry, void (*call)(void *ctx), void *ctx);
/** The place of a reader of new audit rows: zero-fill. */
typedef struct tp__audit_cursor {
  uint64_t places[2];
  uint64_t number; /* of the next row */
  uint64_t missed; /* rows that were gone before they were read */
} tp__audit_cursor;
/** Shows the rows from the cursor on, oldest first. Threads: one with a cursor. */
void tp__registry_audit_new(tp__registry *registry, tp__audit_cursor *cursor,
                            void (*each)(void *ctx, const tp_audit *row), void *ctx);
/** Who counts pins: called now and with each newer snapshot, under the registry's lock. Set before the first commit. */
void tp__registry_on_publish(tp__registry *registry, void (*renew)(void *ctx, tp__snapshot *newest), void *ctx);
/** A node of the newest snapshot that can run a job: by handler id and contract version, in one phase (0: in any).
 *  Background subscriptions are preferred, then the first in plan order.
 *  @return the pinned snapshot and node, or NULL. */
tp__snapshot *tp__registry_find_handler(tp__registry *registry, tp_text handler_id, uint32_t contract_version,
                                        uint32_t phase, const tp__node **ret_node, const tp__plan **ret_plan);

/** The pause after an attempt (from 1) of a retried subscription: exponential doubles, at most 60 s. */
int64_t tp__retry_pause_ns(const tp_subscription *desc, uint32_t attempt);

/** Walks what is registered (listing.c), as tp_runtime_subscriptions(). No lock may be held. */
tp_status tp__registry_subscriptions(tp__registry *registry, const tp_subscription_query *query,
                                     tp_subscription_fn each, void *ctx, tp_fault *fault);

/** Plans printed (print.c). */
tp_status tp__plan_print(tp__registry *registry, uint32_t phase, tp_plan_format format, tp_print_fn print, void *ctx);
tp_status tp__phases_print(tp__registry *registry, tp_plan_format format, tp_print_fn print, void *ctx);

/** sort.c: Kahn's algorithm with a heap on (priority, tie); equal ones are taken by index, so the order is total.
 *  @param edges       from, to pairs.
 *  @param ret_order   node_count indexes.
 *  @param ret_cycle   on TP_ERR_CYCLE: a path along edges that begins and ends with the same node, at most
 *                     node_count + 1 indexes. It depends on the graph alone: found by going from the first node that
 *                     could not be sorted back along first such predecessors, it begins with its first member ("first"
 *                     in the order of (priority, tie)).
 *  @return TP_OK, TP_ERR_CYCLE, TP_ERR_NO_MEMORY. */
typedef struct tp__sort_node {
  int64_t priority;
  const char *tie_id;  /* compared bytewise when not NULL in both */
  uint64_t tie_number; /* else this */
} tp__sort_node;
typedef struct tp__sort_edge {
  uint32_t from, to;
} tp__sort_edge;
tp_status tp__sort(const tp_allocator *allocator, const tp__sort_node *nodes, uint32_t node_count,
                   const tp__sort_edge *edges, uint32_t edge_count, uint32_t *ret_order, uint32_t *ret_cycle,
                   uint32_t *ret_cycle_count);

#endif
