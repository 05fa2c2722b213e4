/* SPDX-License-Identifier: Apache-2.0
 *
 * registry: what the files of this module share with each other alone.
 * What is registered at one version is a set: it never changes, belongs to the snapshot that was compiled of it, and is
 * the ground on which the next commit builds its own. So nothing but the pointer to the newest snapshot and the audit
 * rows needs the lock. Neighbouring sets share what they have in common, in parts that are counted: the members of a
 * phase with its plan, and the shards of the maps, which hold the members. */
#ifndef TP__REGISTRY_H
#define TP__REGISTRY_H

#include "runtime/plan/plan.h"

enum {
  TP__PHASE_NODES_MAX = 65535, /* so that an indegree fits in 16 bits */
  TP__PHASE_EDGES_MAX = 1000000,
  TP__AUDIT_ROWS = 1024,
  TP__AUDIT_DETAIL_SIZE = 256,
  TP__AUDIT_ACTION_SIZE = 32,
  TP__LIMIT_DEFAULT_MS = 5000
};

/* ---- index.c: from an id to a number, by hashing; ids are borrowed ---- */

typedef struct tp__index_slot {
  const char *id; /* NULL: empty */
  uint64_t hash;
  size_t value;
} tp__index_slot;
typedef struct tp__index {
  const tp_allocator *allocator;
  tp__index_slot *slots;
  size_t slot_count, id_count;
} tp__index;

void tp__index_init(tp__index *index, const tp_allocator *allocator);
void tp__index_fini(tp__index *index);
/** Reserves memory for id_count ids in all. */
tp_status tp__index_reserve(tp__index *index, size_t id_count);
/** The same ids as from's, into an index that is empty. */
tp_status tp__index_copy(tp__index *index, const tp__index *from);
/** Puts or replaces; the memory was reserved. id must live as long as the index. */
void tp__index_put(tp__index *index, const char *id, size_t value);
bool tp__index_get(const tp__index *index, const char *id, size_t *ret_value);
/** Takes out an id that is there. @return its value. */
size_t tp__index_remove(tp__index *index, const char *id, uint64_t hash);
/** The same for a caller that has the id's hash already. */
uint64_t tp__index_hash(const char *id);
void tp__index_put_hashed(tp__index *index, const char *id, uint64_t hash, size_t value);
bool tp__index_get_hashed(const tp__index *index, const char *id, uint64_t hash, size_t *ret_value);

/* ---- handler.c, subscription.c: registered copies, counted ---- */

/** @param noun  what the descriptor is of. */
tp_status tp__refuse_desc(tp_fault *fault, tp_status code, const char *noun, const char *id, const char *format, ...)
    TP__PRINTF(5, 6);

/** Refuses what is wrong with the descriptor itself; the fault names id, field and remedy. */
tp_status tp__handler_check(const tp__registry *registry, const tp_handler *desc, const tp_owner *owner,
                            tp_fault *fault);
/** A copy with one reference. On failure nothing of desc was taken. */
tp_status tp__handler_new(const tp_allocator *allocator, const void *inside_of, const tp_handler *desc,
                          const tp_owner *owner, tp__handler **ret_handler);
void tp__handler_ref(tp__handler *handler);
/** The last one calls destroy: no lock may be held. Accepts NULL. */
void tp__handler_unref(tp__handler *handler);

/** Also resolves desc->phase. @param ret_flags  of the alias it was named by. */
tp_status tp__subscription_check(const tp__registry *registry, tp_subscription *desc, uint32_t *ret_flags,
                                 tp_fault *fault);
tp_status tp__subscription_new(tp__registry *registry, const tp_subscription *desc, const tp_owner *owner,
                               uint32_t alias_flags, tp__subscription **ret_subscription, tp_fault *fault);
void tp__subscription_ref(tp__subscription *subscription);
/** The last one calls the match's destroy: no lock may be held. Accepts NULL. */
void tp__subscription_unref(tp__subscription *subscription);
bool tp__subscription_sequential(const tp__subscription *subscription);
/** The name of its phase by which it was subscribed; empty: the phase's own. */
const char *tp__subscription_alias(const tp__registry *registry, const tp__subscription *subscription);

/* ---- match.c ---- */

/** @param id  of the subscription. @param match  NULL: nothing is wrong. */
tp_status tp__match_check(const char *id, const tp_match *match, tp_fault *fault);
/** A copy of a match that was checked. @return false without memory. */
bool tp__match_copy(tp__arena *arena, const tp_match *match, tp_match *ret_match);
/** @return the field that the match reads and the phase does not carry; TP_FIELD_NONE. */
tp_field_id tp__match_missing_field(const tp__registry *registry, tp_phase_id phase, const tp_match *match);
/** The texts of the conditions, in a fixed order. */
void tp__match_each_condition(const tp_match *match, void (*each)(void *ctx, const char *text), void *ctx);

/* ---- intern.c: ids that live as long as the registry, each stored once. Records refer to them, also when the
 * subscription is gone; they grow with the number of different ids ever used, not with the number of commits ---- */

tp_status tp__intern(tp__registry *registry, const char *id, const char **ret_id);
/** The number under which records name a subscription whose three names are interned; the same for the same names. */
tp_status tp__intern_run_name(tp__registry *registry, const tp__run_name *name, uint32_t *ret_id);

/* ---- map.c: from ids to what is registered under them, shared between versions as far as they agree ---- */

typedef struct tp__shard tp__shard;
/** What the members of a map are. */
typedef struct tp__map_kind {
  void (*ref)(void *member);
  void (*unref)(void *member);
} tp__map_kind;
typedef struct tp__map {
  const tp_allocator *allocator;
  const tp__map_kind *kind;
  tp__shard **shards; /* each NULL while it has no member */
  size_t shard_count; /* a power of two, or 0 */
  size_t count;
} tp__map;

void tp__map_init(tp__map *map, const tp_allocator *allocator, const tp__map_kind *kind);
/** Drops the reference to every member. The last one may run a destroy: no lock may be held. */
void tp__map_fini(tp__map *map);
/** Fills an empty map with the members of base, in a form that suits so many more. base must stay as it is and be held
 *  until this one is done with its changes. */
tp_status tp__map_begin(tp__map *map, const tp__map *base, size_t more);
/** Takes a reference. The id is not in the map, and lives as long as the member. */
tp_status tp__map_add(tp__map *map, const char *id, void *member);
/** The id is in the map, and in the one that it began with. */
tp_status tp__map_remove(tp__map *map, const char *id);
/** NULL when there is none. */
void *tp__map_get(const tp__map *map, const char *id);

/* ---- members.c: what is registered in one phase, and its plan; shared like the map's shards ---- */

typedef struct tp__set_item {
  tp__subscription *sub;
  bool disabled;
} tp__set_item;
/** An id that an optional edge named and no subscription has. A subscription of that id in another phase makes the edge
 *  an error. */
typedef struct tp__absent {
  const struct tp__absent *next;
  const char *id; /* of the subscription that named it */
} tp__absent;
typedef struct tp__members {
  tp__a32 refs;
  const tp_allocator *allocator; /* the rest never changes once it is compiled */
  tp__arena arena;               /* holds everything below */
  tp__set_item *items;           /* by rising registration number */
  size_t item_count;
  bool compiled;
  tp__plan *plan; /* NULL when all are disabled */
  const tp__absent *absent;
} tp__members;

/** A copy of from's items with capacity for more, not compiled. @param from  NULL: none. @return NULL: no memory. */
tp__members *tp__members_new(const tp_allocator *allocator, const tp__members *from, size_t more);
void tp__members_ref(tp__members *members);
/** Accepts NULL. */
void tp__members_unref(tp__members *members);
/** The place of a subscription that is in it. */
size_t tp__members_find(const tp__members *members, const tp__subscription *subscription);
/** After all others; within the capacity. */
void tp__members_append(tp__members *members, tp__subscription *subscription, bool disabled);
/** Drops the items whose sub was set to NULL. */
void tp__members_close_gaps(tp__members *members);

/* ---- set.c: what is registered at one version ---- */

typedef struct tp__set {
  const tp_allocator *allocator;
  tp__map handlers;                              /* tp__handler, held */
  tp__map subscriptions;                         /* tp__subscription, held */
  tp__members *members_of_phase[TP_PHASE_LIMIT]; /* NULL: nothing was ever registered there */
  uint32_t budgets_ms[TP_PHASE_LIMIT];           /* what the host set; 0: nothing */
  uint32_t limits_ms[TP_PHASE_LIMIT];            /* likewise: in place of the row's */
  uint64_t next_registration;
} tp__set;

/** Without members; the rest is filled by tp__set_begin() or tp__set_share(), since it is large. */
void tp__set_init(tp__set *set, const tp_allocator *allocator);
/** The first of all. */
void tp__set_begin(tp__set *set);
/** Drops the reference to every member. */
void tp__set_fini(tp__set *set);
/** Fills an empty set with all that base has, and makes the maps fit for so many more. */
tp_status tp__set_share(tp__set *set, const tp__set *base, size_t more_handlers, size_t more_subscriptions);
/** Gives the set a member list of its own for a phase, to be changed and compiled, unless it has one already.
 *  @param more  how many items may be appended to it. */
tp_status tp__set_touch(tp__set *set, const tp__set *base, uint32_t phase, size_t more);
/** NULL when there is none. */
tp__handler *tp__set_handler(const tp__set *set, const char *id);
tp__subscription *tp__set_subscription(const tp__set *set, const char *id);
/** The default limit of a phase: the host's, else the row's. */
uint32_t tp__set_limit_ms(const tp__set *set, const tp_phase *row, uint32_t phase);
const tp__set_item *tp__set_find(const tp__set *set, const char *id);

/* ---- snapshot.c ---- */

/** An empty set, no plan, and its maker's pin: the registry's once it is published. */
tp_status tp__snapshot_new(tp__registry *registry, uint64_t version, tp__snapshot **ret_snapshot);
tp__set *tp__snapshot_set(tp__snapshot *snapshot);

/** How many references the maker's pin counts for: more than all others. Those are counted in thread caches (tp__pins),
 *  and until the last cache has added its count, which may be negative, `refs` without it could reach 0 too early. */
#define TP__SNAPSHOT_BIAS (UINT64_C(1) << 48)
/** Drops the maker's pin, which may free the snapshot, as tp__snapshot_unpin(). Only when no thread cache counts pins
 *  of it any more. */
void tp__snapshot_retire(tp__snapshot *snapshot);

/* ---- rows.c: phases and their names ---- */

/** Checks and copies the host's rows into the registry. */
tp_status tp__rows_add_host(tp__registry *registry, const tp_phase *const *rows, size_t row_count, tp_fault *fault);
/** 0 when there is none. @param ret_flags  of the alias; may be NULL. */
uint32_t tp__rows_find(const tp__registry *registry, const char *name, uint32_t *ret_flags);

/* ---- audit.c: rings that are allocated once, so that a row is never lost for lack of memory. Rows of runs have one of
 * their own, so that handlers that fail all the time do not displace what was registered ---- */

typedef enum tp__audit_class { TP__AUDIT_REGISTRATION = 0, TP__AUDIT_RUN = 1, TP__AUDIT_CLASSES } tp__audit_class;

typedef struct tp__audit_row {
  uint64_t number; /* of all rows, in the order in which they were added */
  int64_t unix_ms, duration_ns;
  const char *subscription; /* as long as the registry; NULL: of registration */
  uint64_t snapshot_hash;
  tp_status status;
  uint32_t phase;
  uint8_t state, reason, visibility; /* tp_state, tp_reason, tp_visibility */
  char action[TP__AUDIT_ACTION_SIZE];
  char owner[TP_ID_BYTES_MAX + 1];
  char turn[TP_ID_BYTES_MAX + 1];
  char tenant[TP_ID_BYTES_MAX + 1];
  char session[TP_ID_BYTES_MAX + 1];
  char detail[TP__AUDIT_DETAIL_SIZE];
} tp__audit_row;
typedef struct tp__audit_ring {
  tp__audit_row *rows; /* TP__AUDIT_ROWS */
  uint64_t count;      /* written ever: row i is at i % TP__AUDIT_ROWS */
} tp__audit_ring;

/** Copies the row into its ring and numbers it. */
void tp__audit_add_locked(tp__registry *registry, const tp__audit_row *row);
void tp__audit_add(tp__registry *registry, const tp__audit_row *row);
/** A row of now. detail is redacted and cut to fit, at a code point. No lock may be held. */
void tp__audit_fill(const tp__registry *registry, tp__audit_row *row, const char *owner, const char *action,
                    tp_text detail, tp_status status, uint64_t snapshot_hash);
/** Which turn the row is about. @param ids  TP_ID_COUNT texts. */
void tp__audit_of_turn(tp__audit_row *row, const tp_text *ids);
/** Writes a text that is not NUL-terminated into a row's field, cut to fit. */
void tp__audit_copy(char *target, size_t target_size, tp_text text);

/* ---- fields.c ---- */

/** A bit for each payload field. */
typedef struct tp__field_set {
  uint64_t words[TP_FIELD_LIMIT / 64];
} tp__field_set;
typedef struct tp__phase_fields {
  tp__field_set carried, replaceable;
} tp__phase_fields;

/** Puts the fields of a row, which are below TP_FIELD_LIMIT, into empty sets. */
void tp__phase_fields_fill(tp__phase_fields *fields, const tp_phase *row);
bool tp__field_known(const tp__contribution_ops *ops, uint32_t field);
/** Whether the payload of a phase that there is carries the field. */
bool tp__phase_carries(const tp__registry *registry, uint32_t phase, uint32_t field);

/* ---- registry.c ---- */

struct tp__registry {
  /* ---- never changes after new */
  tp_allocator allocator;
  tp__arena arena; /* the host's rows */
  const tp_phase *phases[TP_PHASE_LIMIT];
  tp__phase_fields phase_fields[TP_PHASE_LIMIT];
  const tp__alias *aliases;
  size_t alias_count;
  const tp__contribution_ops *ops;
  /* ---- never changes after the first edit */
  uint32_t hook_limit_ms;
  tp_failure hook_failure;
  tp__redactor redactor; /* of the details of audit rows */
  /* ---- never changes after the first commit */
  const void *inside_of; /* what a thread that runs a destructor is inside of */
  void (*on_commit)(void *ctx);
  void *on_commit_ctx;
  void (*on_publish)(void *ctx, tp__snapshot *newest);
  void *on_publish_ctx;
  void (*on_audit)(void *ctx);
  void *on_audit_ctx;
  /* ---- atomic: numbers for tp__hook_add (relaxed: they need only differ) */
  tp__a64 hooks;
  tp__mutex lock;
  /* ---- under lock */
  tp__snapshot *current; /* holds one reference */
  tp__audit_ring audit[TP__AUDIT_CLASSES];
  uint64_t audit_number;
  tp__mutex names_lock;
  /* ---- under names_lock: a large edit interns much, and turns that begin want the other one */
  tp__index interned; /* ids in interned_arena */
  tp__index named;    /* "subscription handler owner visibility" in interned_arena: its number in run_names */
  tp__arena interned_arena;
  tp__run_names run_names; /* what was added is read without it */
};

/** Makes it the newest snapshot, with the audit row of that, unless another one has replaced base. Takes the
 *  caller's reference on success. May run handlers' destroy: no lock may be held. */
bool tp__registry_publish(tp__registry *registry, const tp__snapshot *base, tp__snapshot *snapshot,
                          const tp__audit_row *row);

/* ---- edit.c: what an edit requests; commit.c grants or refuses it ---- */

/** What is requested of a subscription. */
typedef enum tp__requested {
  TP__REQUESTED_NONE = 0,
  TP__REQUESTED_ENABLE = 1,
  TP__REQUESTED_DISABLE = 2
} tp__requested;

/** What is to happen to one id. Changes stand in the order of additions. */
typedef struct tp__change {
  const char *id;          /* in the edit's arena */
  bool removed;            /* the registered one goes */
  tp__requested requested; /* for the added one, else for the registered one */
  uint64_t requested_at;   /* of the edit's calls, from 1 */
  uint64_t added_at;       /* of sub; 0: none was added */
  tp__handler *handler;    /* added; the edit's reference */
  tp__subscription *sub;   /* added; the edit's reference */
} tp__change;
typedef struct tp__changes {
  tp__change *items;
  size_t count, capacity;
  tp__index index; /* the newest change of an id */
} tp__changes;

/** What is to happen to all subscriptions of an owner, or of a trust level. */
typedef struct tp__group_request {
  const char *owner; /* in the edit's arena; NULL: every owner of the trust */
  tp_trust trust;
  tp__requested requested;
  uint64_t at; /* of the edit's calls */
} tp__group_request;

/** The default limit of a phase. Of several of one phase the last one counts. */
typedef struct tp__limit_request {
  uint32_t phase, limit_ms; /* limit_ms 0: the row's */
} tp__limit_request;

struct tp_edit {
  tp__registry *registry;
  uint64_t base_version; /* the newest when the edit began */
  char owner_name[TP_ID_BYTES_MAX + 1];
  tp_owner owner;  /* its name is owner_name */
  tp__arena arena; /* ids */
  tp__changes handlers, subscriptions;
  uint64_t calls; /* about subscriptions, so far */
  tp__group_request *groups;
  size_t group_count, group_capacity;
  tp__limit_request *limits; /* few edits have any, so that they are stored apart */
  size_t limit_count, limit_capacity;
  bool budget_set[TP_PHASE_LIMIT];
  uint32_t budgets_ms[TP_PHASE_LIMIT];
};

/** Refuses what is no id, saying why. @param field  of the descriptor: "tp_handler.id". */
tp_status tp__id_check(const char *id, const char *field, tp_fault *fault);

bool tp__group_has(const tp__group_request *group, const tp__subscription *sub);
/** The last request about a subscription: its own, or that of a group.
 *  @param change  of its id; NULL: none.   @param since  groups count when they were requested after this call. */
tp__requested tp__edit_requested(const tp_edit *edit, const tp__change *change, uint64_t since,
                                 const tp__subscription *sub);

/** The newest change of an id, or NULL. */
tp__change *tp__changes_find(const tp__changes *changes, const char *id);

/* ---- commit: validate.c, edges.c, compile.c, times.c, hash.c ---- */

enum { TP__EDGE_REQUIRES = 1, TP__EDGE_DEP = 2 /* the later one named the earlier one: it may see it */ };

/** A phase on its way to a plan. Nodes stand by registration number until they are sorted. */
typedef struct tp__draft {
  uint32_t phase;
  const tp_phase *row;
  tp__members *members; /* its plan and what lasts as long go into its arena */
  uint32_t *places;     /* per item of the members: its index in nodes; TP__NO_PLACE when disabled */
  uint32_t *finder;     /* from a subscription to its item (edges.c) */
  uint32_t finder_bits;
  tp__node *nodes;
  uint32_t node_count;
  tp__sort_edge *edges; /* from runs before to; indexes of nodes */
  uint8_t *edge_flags;
  uint32_t edge_count;
} tp__draft;

/** All phases that a commit touches. */
typedef struct tp__drafts {
  const tp__registry *registry;
  const tp__set *set;
  tp__arena *scratch; /* ends with the commit */
  tp__draft *items;   /* by rising phase */
  uint32_t count;
} tp__drafts;
#define TP__NO_PLACE UINT32_MAX

/** tp__fail() about a subscription: "subscription `x` of turn.intake: …", with the phase. */
tp_status tp__subscription_refuse(tp_fault *fault, const tp__registry *registry, const tp__subscription *sub,
                                  tp_status code, const char *format, ...) TP__PRINTF(5, 6);
/** Refuses what is wrong with a subscription by itself, and resolves its policies: everything of the node but edges,
 *  times and place. */
tp_status tp__validate(const tp__registry *registry, const tp__set *set, tp__subscription *sub, bool disabled,
                       tp__node *ret_node, tp_fault *fault);
/** The node that a disabled subscription of the snapshot would have: everything but edges, times and place. */
void tp__disabled_node(tp__snapshot *snapshot, tp__subscription *sub, tp__node *ret_node);
/** Resolves the targets of a phase's subscriptions and adds the edges of the sequential ones. */
tp_status tp__draft_edges(const tp__drafts *drafts, tp__draft *draft, tp_fault *fault);
/** Compiles the members_of_phase of the snapshot's set that are not compiled, and takes over all their plans. */
tp_status tp__compile(tp__snapshot *snapshot, tp_fault *fault);
/** Fills in what follows from the limits: tails, worst case, critical path, budget. */
tp_status tp__plan_times(tp__plan *plan, tp__arena *scratch);
uint64_t tp__plan_hash(const tp__plan *plan);
/** Any thread: asserts what holds of a plan from its making on (compile.c). */
void tp__plan_check(const tp__plan *plan);
/** Any thread that holds it: asserts what holds of a snapshot from its compilation on (snapshot.c). */
void tp__snapshot_check(tp__snapshot *snapshot);
uint64_t tp__snapshot_hash(const tp__snapshot *snapshot);

static inline bool tp__node_awaited(const tp__node *node) { return !(node->flags & TP__NODE_DETACHED); }
/** How long a run of run_ns may take, with the wait before it, where the subscription bounds its runs (max_concurrent):
 *  those of other entries stand before it, 64 of them where each call of a response has one, and each has its own limit
 *  from its start. 0: there is no such line. */
int64_t tp__node_line_ns(const tp__node *node, int64_t run_ns);

/** Destroys the handlers, as tp__registry_free() does first; interned names stay till then. */
void tp__registry_retire(tp__registry *registry);

#endif
