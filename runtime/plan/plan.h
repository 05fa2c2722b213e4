/* SPDX-License-Identifier: Apache-2.0
 *
 * plan: what is registered, and its order. The registry holds handlers and subscriptions. A commit compiles the
 * subscriptions of each phase into a plan of flat arrays, and publishes all plans together as one immutable snapshot.
 * Owns: the registered copies of descriptors. Locks (lock.def): `registry`, held for pins and publishing, and `names`,
 * for ids that stay longer than the objects that they name. Neither is held while a plan is compiled or a function of a
 * handler is called. Never: runs a handler, knows a turn.
 *
 * The steps: tp_edit_*() gather changes (edit.c) -> commit.c applies them to a set that begins as the registered one,
 * shared -> for each phase that the changes touch, validate.c resolves the policies of each subscription, edges.c finds
 * the targets of edges, sort.c orders the nodes, compile.c lays out the arrays -> commit.c publishes -> turns pin.
 *
 * An edge always says which subscription runs first: also in a reverse row, `after` means after. Only subscriptions
 * that no edge orders, and the line of the sequential ones, run backwards there. Nodes are stored in the order in which
 * they run, also in reverse rows, so every edge leads from a lower to a higher index. */
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

/** What holds for a subscription that is made through this name. */
enum {
  TP__ALIAS_SEQUENTIAL = 1, /* it is sequential unless it sets that itself */
  TP__ALIAS_INFRA = 2       /* its reminders and signals are dropped with a diagnostic */
};
typedef struct tp__alias {
  const char *name;
  uint32_t phase;
  uint32_t flags;
} tp__alias;

/** Functions of the agent layer: the modules of runtime/ do not read contributions. */
typedef struct tp__contribution_ops {
  /** Makes the checks of `copy`, and those that are only made at registration, when the error can still be reported: of
   *  a tool's schema. May be NULL.
   *  @return TP_OK, TP_ERR_MALFORMED, TP_ERR_BAD_SCHEMA, TP_ERR_NO_MEMORY. */
  tp_status (*check)(const tp_allocator *allocator, uint32_t phase, const tp_contribution *in, tp_fault *fault);
  /** Checks a contribution, also whether the phase takes a signal of this kind, and copies it deeply. On success, the
   *  host's objects that the copy holds are added to the home.
   *  @param fault  may be NULL; else names the wrong field and its error.
   *  @return TP_OK, TP_ERR_MALFORMED, TP_ERR_NO_MEMORY. */
  tp_status (*copy)(tp__arena *arena, uint32_t phase, const tp__closure_home *home, const tp_contribution *in,
                    tp_contribution *out, tp_fault *fault);
  /** The verdict that is in a contribution, and its reason in *ret_reason, which may be empty. May be NULL. */
  tp_verdict (*verdict)(const tp_contribution *contribution, tp_text *ret_reason);
  /** Releases the host's objects in a contribution that was refused: calls the destroy of its tools. May be NULL. */
  void (*discard)(const tp_contribution *contribution);
  /** The name of a TP_CONTRIBUTION_*, static text. May be NULL. */
  const char *(*kind_name)(uint32_t kind);
  /** The name of a payload field, static text; NULL: it has none. May be NULL. */
  const char *(*field_name)(uint32_t field);
  /** For each payload field below TP_FIELD_HOST: the kinds that it may have, as bits 1 << TP_FIELD_KIND_*; 0: there is
   *  no such field. NULL: every field exists, of any kind. */
  const uint8_t *field_kinds;
  /** The error in the content of a well-formed field, as static text; NULL: there is none. May be NULL. */
  const char *(*field_flaw)(const tp_field *field);
  /** The field that this one belongs to. When a handler replaces the owner and not this field, this field leaves the
   *  payload. 0: it belongs to none. May be NULL. */
  tp_field_id (*field_owner)(tp_field_id field);
} tp__contribution_ops;

/** A registered handler. It is freed, and its destroy is called without lock, when the last subscription, snapshot and
 *  attempt has dropped its reference. */
typedef struct tp__handler {
  tp__a32 refs;
  const tp_allocator *allocator; /* this and the fields below never change after registration */
  const void *inside_of;         /* the object that a thread is inside of while it runs destroy (tp__inside) */
  struct tp__destroy *destroys;  /* when the handler has an inbox: used instead of a call of desc.destroy */
  tp__arena arena;               /* holds every copy below */
  tp_handler desc;               /* strings and arrays are copies */
  const char *owner;
  tp_trust trust;
  tp_grant grants;
} tp__handler;

/** A registered subscription. All snapshots that contain it share it, so that there is one set of permits and one kill
 *  switch. */
typedef struct tp__subscription {
  tp__a32 refs;
  const tp_allocator *allocator; /* the fields down to the line never change after registration */
  const void *inside_of; /* the object that a thread is inside of while it runs the match's destroy (tp__inside) */
  tp__arena arena;       /* holds every copy below */
  tp_subscription desc;  /* strings and arrays are copies; phase is resolved; disabled is as it was added; the
                                   resolved execution, failure and limit_ms are in the node, not here */
  tp_match match;        /* the target of desc.match; zero-filled without a match */
  tp__aptr closures;     /* what its fallback holds of the host's */
  uint32_t alias_flags;
  const char *owner;
  tp_trust trust;
  tp_grant grants;
  uint64_t registration; /* number, rising */
  /* Interned: they stay as long as the registry, so that records may point to them. */
  const char *name, *handler_name, *owner_name;
  uint32_t run_name; /* the number of the three names, in the registry's run_names */
  /* ---- atomic: the operator sets it, and it is read when a node becomes ready (relaxed: a value that is a moment old
   * is good enough) */
  tp__a32 killed;
  tp__a32 tripped;
  tp__circuit circuit;
  tp__permits permits; /* under the pool's mutex (sched/pool.c) */
} tp__subscription;

enum {
  TP__NODE_INLINE = 1,
  TP__NODE_DETACHED = 2, /* FireAndRecord or Background */
  TP__NODE_BACKGROUND = 4,
  /* timeout_ns counts from the time when the node became ready; without this flag from the call */
  TP__NODE_DEADLINE = 8,
  TP__NODE_REQUIRED = 16,
  TP__NODE_FALLBACK = 32,
  TP__NODE_MATCH = 64,
  TP__NODE_RETRY = 128,
  TP__NODE_INFRA = 256,    /* TP__ALIAS_INFRA */
  TP__NODE_PARALLEL = 512, /* with INLINE: an idle engine worker may call it */
  TP__NODE_EXTENDS = 1024  /* the default budget of its phase is at least as long as this node may take */
};

/** How a policy shapes a node: its row of policy.def. */
typedef struct tp__policy {
  const char *name;
  uint32_t flags;
  uint32_t limit_ms; /* of a run without a limit of its own; 0: the phase's limit */
} tp__policy;

/** In names.c. For a number that is no value of the enum: a row "unknown" without flags. */
const tp__policy *tp__execution_policy(tp_execution execution);
const tp__policy *tp__failure_policy(tp_failure failure);

/** One subscription in a plan, in plan order. */
typedef struct tp__node {
  tp_handler_fn run;
  void *ctx;
  uint32_t flags;
  /* bit 1 << TP_CONTRIBUTION_*: the kinds that it may emit here (by row, capabilities, detachment) */
  tp_capability kinds;
  uint32_t first_edge, edge_count; /* in plan->edges */
  int64_t timeout_ns;
  int64_t required_tail_ns;      /* length of the longest path of required nodes after it (an inline node counts as 10
                                   ms an attempt); nodes on the path that are not required, or not awaited, count as
                                   0 */
  uint32_t first_dep, dep_count; /* in plan->deps: what its call may see */
  tp_capability capabilities;    /* the handler's */
  uint32_t permits;              /* 0: none needed */
  tp__subscription *sub;         /* held by the snapshot */
  tp__handler *handler;          /* held by the snapshot */
  tp_execution execution;        /* resolved, never DEFAULT */
  tp_failure failure;            /* resolved, never DEFAULT */
  /* Copies of the subscription's pointers to its interned names. */
  const char *subscription_name, *handler_name, *owner_name;
  uint32_t level;                            /* length of the longest path of edges from a root, from 0: for printing */
  bool critical;                             /* on the critical path: for printing */
  uint8_t subscription_bytes, handler_bytes; /* lengths of the names, cut to the size of a breadcrumb */
} tp__node;

/** The fields of a node that the loop of inline nodes reads, in half a cache line. */
typedef struct tp__inline_node {
  tp_handler_fn run;
  void *ctx;
  uint32_t first_edge; /* in plan->edges */
  uint16_t edge_count;
  bool on_fast_path; /* inline, awaited, without match, and the time when it becomes ready is not needed */
  bool leaves;       /* it leaves the owner's thread: not inline, or detached */
  uint32_t run_name;
  uint32_t flags; /* flags of its row after an answer that is not exceptional */
} tp__inline_node;

/** The compiled subscriptions of a phase. Never changes. */
typedef struct tp__plan {
  const tp_phase *row;
  uint32_t phase;
  uint32_t node_count; /* > 0 */
  uint32_t edge_count, dep_count, root_count;
  tp__node *nodes;
  tp__inline_node *inline_nodes; /* of each node */
  /** Successors by rising target, each as target << 1 | 1 when the target requires this node's success. Each pair is
   *  there once. A chain has an edge from each node to the next, so that the engine treats chains and graphs alike.
   *  Edges out of a detached node (in a chain, or by its own `before`) wait only for its start: it counts as settled
   *  when it was started. */
  uint32_t *edges;
  uint32_t *deps;     /* node indexes of direct after/requires targets, by rising index */
  uint16_t *indegree; /* per node: edges into it */
  /** The initial state of an entry, which is copied in one piece: for each node a bit, set when it is an inline root;
   *  for each node a uint16_t, its indegree; as many again, a stack of the roots that leave the owner's thread; for
   *  each node a zero byte. Padded to 8 bytes. */
  void *start;
  uint8_t *no_marks; /* the zero bytes in `start`, as marks that are never written */
  uint32_t start_bytes;
  uint32_t ready_count, leaving_count; /* of these */
  uint32_t *roots;                     /* nodes without incoming edge, rising */
  int64_t worst_ns;    /* length of the longest path of limits, with attempts and back-off; detached nodes count as 0 */
  int64_t required_ns; /* the same, counting only required nodes */
  int64_t host_budget_ns;   /* what the host set; 0: nothing */
  int64_t default_limit_ns; /* for handlers that set no limit: the host's, else the row's */
  bool limit_set;           /* by the host */
  int64_t budget_ns;        /* The budget of an entry: the host's, else worst_ns. Unless the phase observes, that is
                              capped at 30 s, but never below the longest path of nodes that are required or EXTENDS.
                              When nothing is awaited, it is the default limit. At most a quarter of TP__NEVER. */
  uint32_t levels;
  const char *needs_inbox; /* as the snapshot's */
  uint32_t detached_count;
  bool all_inline;                /* every awaited node is inline */
  bool on_fast_path;              /* every node is on the fast path */
  bool has_parallel;              /* at least two nodes have the placement parallel */
  int64_t required_tail_ns_max;   /* of all nodes */
  int64_t timeout_ns_min;         /* of the nodes that have a limit; TP__NEVER: no node has one */
  const tp__run_names *run_names; /* the registry's */
  uint64_t hash;                  /* of everything that decides behaviour, except pointers */
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
  const char *needs_inbox;         /* a subscription without match whose calls go to the inbox of the session; NULL:
                                     there is none */
} tp__snapshot;

/** A part of the pins of the newest snapshot, counted per thread cache under its lock (exec/thread_cache.h). A pin that
 *  was taken from one cache may be returned to another, so a count may be below 0. Only the sum is correct, and it is
 *  read only when there is a newer snapshot. */
typedef struct tp__pins {
  tp__snapshot *snapshot; /* the newest */
  int64_t count;
} tp__pins;

/** Takes a pin of the newest snapshot. Under the lock of the pins. */
static inline tp__snapshot *tp__pins_take(tp__pins *pins) {
  pins->count++;
  return pins->snapshot;
}
/** Returns a pin. @return false when the snapshot is not counted here: then the caller calls tp__snapshot_unpin() for
 *  it, after the lock. */
static inline bool tp__pins_give(tp__pins *pins, const tp__snapshot *snapshot) {
  if (snapshot != pins->snapshot) return false;
  pins->count--;
  return true;
}
/** Moves the pins that were counted here to the snapshot's own count, and counts pins of `newest` from now on. Called
 *  from tp__registry_on_publish() and at the end (NULL). */
void tp__pins_renew(tp__pins *pins, tp__snapshot *newest);

/** A registry with the built-in and the host's phases and an empty snapshot of version 0. rows, aliases and ops are
 *  borrowed for the registry's life; rows[i] is phase i, so rows[0] is unused. Host rows are copied; host_rows[i] is
 *  phase TP_PHASE_HOST + i.
 *  @return TP_OK; TP_ERR_NO_MEMORY; for a host row TP_ERR_BAD_ID, TP_ERR_DUPLICATE_ID, TP_ERR_USAGE, TP_ERR_VERSION;
 *          TP_ERR_TOO_LARGE for more than 64 host rows. */
tp_status tp__registry_new(const tp_allocator *allocator, const tp_phase *rows, size_t row_count,
                           const tp__alias *aliases, size_t alias_count, const tp_phase *const *host_rows,
                           size_t host_row_count, const tp__contribution_ops *ops, tp__registry **ret_registry,
                           tp_fault *fault);
/** Sets the object that a thread is inside of while it runs a destructor: the runtime. Before the first edit. */
void tp__registry_belongs_to(tp__registry *registry, const void *runtime);
/** Every snapshot must be unpinned. Handlers are destroyed. Accepts NULL. */
void tp__registry_free(tp__registry *registry);

/** The newest snapshot, pinned until tp__snapshot_unpin(). Threads: any. */
tp__snapshot *tp__registry_pin(tp__registry *registry);
/** Adds a pin of a snapshot that the caller has pinned already. */
void tp__snapshot_hold(tp__snapshot *snapshot);
/** May free the snapshot and run destroy functions of handlers, so no lock may be held. */
void tp__snapshot_unpin(tp__snapshot *snapshot);

/** The work of tp_edit_begin() and the similar functions in runtime.h, for a registry instead of a runtime. */
tp_status tp__edit_new(tp__registry *registry, const tp_owner *owner, tp_edit **ret_edit, tp_fault *fault);
tp_status tp__hook_add(tp__registry *registry, const tp_hook *hook, tp_fault *fault);
/** tp_hook_remove(). */
tp_status tp__hook_remove(tp__registry *registry, const char *id, tp_fault *fault);
/** Sets the callback that redacts the details of audit rows. Before the first edit. */
void tp__registry_redact(tp__registry *registry, const tp__redactor *redactor);
/** Sets limit and failure policy of hooks that set none themselves (tp_runtime_options); 0: the phase's. Before the
 *  first edit. */
void tp__registry_hook_defaults(tp__registry *registry, uint32_t limit_ms, tp_failure failure);
/** What an operator may do to a subscription, in all snapshots at once. */
typedef enum tp__operator_switch { TP__SWITCH_KILL = 1, TP__SWITCH_TRIP = 2 } tp__operator_switch;
/** @param ret_was whether the switch was set before. */
tp_status tp__registry_switch(tp__registry *registry, const char *subscription, tp__operator_switch which, bool on,
                              bool *ret_was, tp_fault *fault);
uint32_t tp__registry_phase_find(const tp__registry *registry, const char *name);
const tp_phase *tp__registry_phase(const tp__registry *registry, uint32_t phase);
typedef enum tp__fields_use {
  TP__FIELDS_RUN,    /* for tp_phase_run() */
  TP__FIELDS_SHAPE,  /* the same for a phase without subscriptions: contents are not checked */
  TP__FIELDS_REPLACE /* for tp_call_replace() */
} tp__fields_use;
/** fields.c: checks the fields that a caller gives to a phase. Each must be known, of the right kind, carried by the
 *  phase (or replaceable there), and given once, with a content that is valid for its kind. Costs a few instructions
 *  for each field, and the check of its content.
 *  @return TP_OK; TP_ERR_USAGE; for a wrong content TP_ERR_UTF8 or the result of tp_value_check(). The fault names
 *          field and phase. */
tp_status tp__fields_check(const tp__registry *registry, uint32_t phase, tp__fields_use use, const tp_field *fields,
                           size_t count, tp_fault *fault);
/** The name of a field, or "field_300" for one without a name. */
typedef struct tp__field_label_buffer {
  char text[24];
} tp__field_label_buffer;
const char *tp__field_label(const tp__contribution_ops *ops, uint32_t field, tp__field_label_buffer *buffer);
/** Calls `each` for the aliases of a phase, for printing. */
void tp__registry_aliases(const tp__registry *registry, uint32_t phase, void (*each)(void *ctx, const tp__alias *alias),
                          void *ctx);
size_t tp__registry_audit(tp__registry *registry, tp_visibility visibility_min, tp_audit_fn each, void *ctx);
/** Sets a function that is called without lock after each successful commit (job workers then look whether they can run
 *  more jobs). Before the first commit. */
void tp__registry_on_commit(tp__registry *registry, void (*call)(void *ctx), void *ctx);
/** tp_runtime_audit_add(). */
tp_status tp__registry_audit_add(tp__registry *registry, const char *owner, const char *action, tp_text detail,
                                 tp_status decision, tp_fault *fault);
/** Sets the function that is called, without lock, when there is a new audit row. At most once, before the first
 *  commit. */
void tp__registry_on_audit(tp__registry *registry, void (*call)(void *ctx), void *ctx);
/** The position of a reader of new audit rows: zero-fill. */
typedef struct tp__audit_cursor {
  uint64_t places[2];
  uint64_t number; /* of the next row */
  uint64_t missed; /* rows that were overwritten before they were read */
} tp__audit_cursor;
/** Shows the rows from the cursor on, oldest first. Threads: one at a time per cursor. */
void tp__registry_audit_new(tp__registry *registry, tp__audit_cursor *cursor,
                            void (*each)(void *ctx, const tp_audit *row), void *ctx);
/** Sets the function that moves the cached pins to the newest snapshot (thread_cache.c), before the first commit. Calls
 *  it at once, and again with each newer snapshot, under the registry's lock. */
void tp__registry_on_publish(tp__registry *registry, void (*renew)(void *ctx, tp__snapshot *newest), void *ctx);
/** Finds a node of the newest snapshot that can run a job, by handler id and contract version, in one phase (0: in any
 *  phase). Prefers Background subscriptions, then takes the first in plan order.
 *  @return the pinned snapshot and node, or NULL. */
tp__snapshot *tp__registry_find_handler(tp__registry *registry, tp_text handler_id, uint32_t contract_version,
                                        uint32_t phase, const tp__node **ret_node, const tp__plan **ret_plan);

/** The pause after an attempt (counted from 1) of a subscription with retries. An exponential pause doubles, up to 60
 *  s. */
int64_t tp__retry_pause_ns(const tp_subscription *desc, uint32_t attempt);

/** Walks what is registered (listing.c), as tp_runtime_subscriptions(). No lock may be held. */
tp_status tp__registry_subscriptions(tp__registry *registry, const tp_subscription_query *query,
                                     tp_subscription_fn each, void *ctx, tp_fault *fault);

/** Plans printed (print.c). */
tp_status tp__plan_print(tp__registry *registry, uint32_t phase, tp_plan_format format, tp_print_fn print, void *ctx);
tp_status tp__phases_print(tp__registry *registry, tp_plan_format format, tp_print_fn print, void *ctx);

/** sort.c: Kahn's algorithm with a heap on (priority, tie). Nodes with equal keys are taken by index, so the order is
 *  total.
 *  @param edges       from, to pairs.
 *  @param ret_order   node_count indexes.
 *  @param ret_cycle   on TP_ERR_CYCLE: a path along edges that begins and ends with the same node, at most node_count +
 *                     1 indexes. It depends only on the graph: the search goes from the first node that could not be
 *                     sorted back along the first predecessors of that kind. The path begins with its first member.
 *                     "First" means first in the order of (priority, tie).
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
