/* SPDX-License-Identifier: Apache-2.0
 *
 * registry: declarations that only the files of this module share. A set has everything that is registered at one
 * version. It never changes, belongs to the snapshot that was compiled from it, and is the base of the next commit's
 * set. So only the pointer to the newest snapshot and the audit rows need the lock. Consecutive sets share their equal
 * parts, which are counted: the member list of a phase with its plan, and the shards of the maps, which hold references
 * to the members. */
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
/** Reserves memory for id_count ids in total. */
tp_status tp__index_reserve(tp__index *index, size_t id_count);
/** Copies all ids of `from` into an empty index. */
tp_status tp__index_copy(tp__index *index, const tp__index *from);
/** Adds or replaces an id; the memory was reserved before. id must live as long as the index. */
void tp__index_put(tp__index *index, const char *id, size_t value);
bool tp__index_get(const tp__index *index, const char *id, size_t *ret_value);
/** Removes an id, which must be in the index. @return its value. */
size_t tp__index_remove(tp__index *index, const char *id, uint64_t hash);
/** The hash of an id, for callers that use it more than once. */
uint64_t tp__index_hash(const char *id);
void tp__index_put_hashed(tp__index *index, const char *id, uint64_t hash, size_t value);
bool tp__index_get_hashed(const tp__index *index, const char *id, uint64_t hash, size_t *ret_value);

/* ---- handler.c, subscription.c: registered copies, counted ---- */

/** @param noun  what the descriptor is of. */
tp_status tp__refuse_desc(tp_fault *fault, tp_status code, const char *noun, const char *id, const char *format, ...)
    TP__PRINTF(5, 6);

/** Refuses errors in the descriptor itself; the fault names id, field and remedy. */
tp_status tp__handler_check(const tp__registry *registry, const tp_handler *desc, const tp_owner *owner,
                            tp_fault *fault);
/** Makes a copy with one reference. On failure nothing of desc was taken over. */
tp_status tp__handler_new(const tp_allocator *allocator, const void *inside_of, const tp_handler *desc,
                          const tp_owner *owner, tp__handler **ret_handler);
void tp__handler_ref(tp__handler *handler);
/** The last reference calls destroy, so no lock may be held. Accepts NULL. */
void tp__handler_unref(tp__handler *handler);

/** Also resolves desc->phase. @param ret_flags the flags of the alias by which the phase was named. */
tp_status tp__subscription_check(const tp__registry *registry, tp_subscription *desc, uint32_t *ret_flags,
                                 tp_fault *fault);
tp_status tp__subscription_new(tp__registry *registry, const tp_subscription *desc, const tp_owner *owner,
                               uint32_t alias_flags, tp__subscription **ret_subscription, tp_fault *fault);
void tp__subscription_ref(tp__subscription *subscription);
/** The last reference calls the match's destroy, so no lock may be held. Accepts NULL. */
void tp__subscription_unref(tp__subscription *subscription);
bool tp__subscription_sequential(const tp__subscription *subscription);
/** The name of the phase by which it was subscribed; empty: the phase's own name. */
const char *tp__subscription_alias(const tp__registry *registry, const tp__subscription *subscription);

/* ---- match.c ---- */

/** @param id of the subscription. @param match NULL: accepted. */
tp_status tp__match_check(const char *id, const tp_match *match, tp_fault *fault);
/** Copies a match that was checked. @return false without memory. */
bool tp__match_copy(tp__arena *arena, const tp_match *match, tp_match *ret_match);
/** @return a field that the match reads but the phase does not carry; TP_FIELD_NONE. */
tp_field_id tp__match_missing_field(const tp__registry *registry, tp_phase_id phase, const tp_match *match);
/** Calls `each` for the texts of the conditions, in a fixed order. */
void tp__match_each_condition(const tp_match *match, void (*each)(void *ctx, const char *text), void *ctx);

/* ---- intern.c: ids that stay as long as the registry, each stored once. Records refer to them, also when the
 * subscription is gone. They grow with the number of different ids ever used, not with the number of commits ---- */

tp_status tp__intern(tp__registry *registry, const char *id, const char **ret_id);
/** The number by which records name a subscription with these three interned names. Equal names have the same
 *  number. */
tp_status tp__intern_run_name(tp__registry *registry, const tp__run_name *name, uint32_t *ret_id);

/* ---- map.c: finds registered objects by their ids. Versions share the parts in which they do not differ ---- */

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
/** Drops the reference to every member. The last reference may run a destroy, so no lock may be held. */
void tp__map_fini(tp__map *map);
/** Fills an empty map with the members of base, and prepares it for this many more members. base must not change, and
 *  must be held until the changes of this map are done. */
tp_status tp__map_begin(tp__map *map, const tp__map *base, size_t more);
/** Adds a member and takes a reference. The id is not in the map, and must live as long as the member. */
tp_status tp__map_add(tp__map *map, const char *id, void *member);
/** The id must be in the map, and in the map that it was filled from. */
tp_status tp__map_remove(tp__map *map, const char *id);
/** NULL when there is none. */
void *tp__map_get(const tp__map *map, const char *id);

/* ---- members.c: the subscriptions of one phase, and its plan; shared like the map's shards ---- */

typedef struct tp__set_item {
  tp__subscription *sub;
  bool disabled;
} tp__set_item;
/** An id that an optional edge named and that no subscription had. If a subscription of another phase gets that id, the
 *  edge is an error. */
typedef struct tp__absent {
  const struct tp__absent *next;
  const char *id; /* of the subscription that named it */
} tp__absent;
typedef struct tp__members {
  tp__a32 refs;
  const tp_allocator *allocator; /* the other fields never change after compilation */
  tp__arena arena;               /* holds everything below */
  tp__set_item *items;           /* by rising registration number */
  size_t item_count;
  bool compiled;
  tp__plan *plan; /* NULL when all are disabled */
  const tp__absent *absent;
} tp__members;

/** A copy of the items of `from` with capacity for more; not compiled. @param from NULL: no items. @return NULL: no
 *  memory. */
tp__members *tp__members_new(const tp_allocator *allocator, const tp__members *from, size_t more);
void tp__members_ref(tp__members *members);
/** Accepts NULL. */
void tp__members_unref(tp__members *members);
/** The place of a subscription that is in the list. */
size_t tp__members_find(const tp__members *members, const tp__subscription *subscription);
/** After all others; within the capacity. */
void tp__members_append(tp__members *members, tp__subscription *subscription, bool disabled);
/** Removes the items whose sub was set to NULL. */
void tp__members_close_gaps(tp__members *members);

/* ---- set.c: everything that is registered at one version ---- */

typedef struct tp__set {
  const tp_allocator *allocator;
  tp__map handlers;                              /* tp__handler, held */
  tp__map subscriptions;                         /* tp__subscription, held */
  tp__members *members_of_phase[TP_PHASE_LIMIT]; /* NULL: nothing was ever registered there */
  uint32_t budgets_ms[TP_PHASE_LIMIT];           /* what the host set; 0: nothing */
  uint32_t limits_ms[TP_PHASE_LIMIT];            /* likewise: in place of the row's */
  uint64_t next_registration;
} tp__set;

/** Makes a set without members; tp__set_begin() or tp__set_share() fills the rest, because it is large. */
void tp__set_init(tp__set *set, const tp_allocator *allocator);
/** The first of all. */
void tp__set_begin(tp__set *set);
/** Drops the reference to every member. */
void tp__set_fini(tp__set *set);
/** Fills an empty set with everything that base has, and prepares its maps for this many more members. */
tp_status tp__set_share(tp__set *set, const tp__set *base, size_t more_handlers, size_t more_subscriptions);
/** Gives the set its own member list for a phase, so that the list can be changed and compiled, unless it has one
 *  already.
 *  @param more  how many items may be appended to it. */
tp_status tp__set_touch(tp__set *set, const tp__set *base, uint32_t phase, size_t more);
/** NULL when there is none. */
tp__handler *tp__set_handler(const tp__set *set, const char *id);
tp__subscription *tp__set_subscription(const tp__set *set, const char *id);
/** The default limit of a phase: the host's, else the row's. */
uint32_t tp__set_limit_ms(const tp__set *set, const tp_phase *row, uint32_t phase);
const tp__set_item *tp__set_find(const tp__set *set, const char *id);

/* ---- snapshot.c ---- */

/** A snapshot with an empty set and no plan. The caller has the maker's pin, which becomes the registry's when the
 *  snapshot is published. */
tp_status tp__snapshot_new(tp__registry *registry, uint64_t version, tp__snapshot **ret_snapshot);
tp__set *tp__snapshot_set(tp__snapshot *snapshot);

/** How many references the maker's pin counts for: more than all others together. The others are counted in thread
 *  caches (tp__pins). Until the last cache has added its count, which may be negative, `refs` could reach 0 too early
 *  without this bias. */
#define TP__SNAPSHOT_BIAS (UINT64_C(1) << 48)
/** Drops the maker's pin, which may free the snapshot, as tp__snapshot_unpin() does. Only after all thread caches have
 *  stopped counting pins of it. */
void tp__snapshot_retire(tp__snapshot *snapshot);

/* ---- rows.c: phases and their names ---- */

/** Checks and copies the host's rows into the registry. */
tp_status tp__rows_add_host(tp__registry *registry, const tp_phase *const *rows, size_t row_count, tp_fault *fault);
/** The phase with this name or alias; 0 when there is none. @param ret_flags the flags of the alias; may be NULL. */
uint32_t tp__rows_find(const tp__registry *registry, const char *name, uint32_t *ret_flags);

/* ---- audit.c: rings that are allocated once, so that a row is never lost because memory is missing. Rows about runs
 * have a ring of their own, so that handlers that fail all the time do not displace rows about registrations ---- */

typedef enum tp__audit_class { TP__AUDIT_REGISTRATION = 0, TP__AUDIT_RUN = 1, TP__AUDIT_CLASSES } tp__audit_class;

typedef struct tp__audit_row {
  uint64_t number; /* counts all rows, in the order in which they were added */
  int64_t unix_ms, duration_ns;
  const char *subscription; /* stays as long as the registry; NULL: a row about a registration */
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
  uint64_t count;      /* how many rows were ever written: row i is at i % TP__AUDIT_ROWS */
} tp__audit_ring;

/** Copies the row into its ring and numbers it. */
void tp__audit_add_locked(tp__registry *registry, const tp__audit_row *row);
void tp__audit_add(tp__registry *registry, const tp__audit_row *row);
/** Fills a row with the current time. detail is redacted and cut to fit, at the end of a code point. No lock may be
 *  held. */
void tp__audit_fill(const tp__registry *registry, tp__audit_row *row, const char *owner, const char *action,
                    tp_text detail, tp_status status, uint64_t snapshot_hash);
/** Sets the turn that the row is about. @param ids TP_ID_COUNT texts. */
void tp__audit_of_turn(tp__audit_row *row, const tp_text *ids);
/** Copies a text that is not NUL-terminated into a field of a row, cut to fit. */
void tp__audit_copy(char *target, size_t target_size, tp_text text);

/* ---- fields.c ---- */

/** A bit for each payload field. */
typedef struct tp__field_set {
  uint64_t words[TP_FIELD_LIMIT / 64];
} tp__field_set;
typedef struct tp__phase_fields {
  tp__field_set carried, replaceable;
} tp__phase_fields;

/** Adds the fields of a row, which are below TP_FIELD_LIMIT, to empty sets. */
void tp__phase_fields_fill(tp__phase_fields *fields, const tp_phase *row);
bool tp__field_known(const tp__contribution_ops *ops, uint32_t field);
/** Whether the payload of the phase, which must exist, carries the field. */
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
  const void *inside_of; /* the object that a thread is inside of while it runs a destructor */
  void (*on_commit)(void *ctx);
  void *on_commit_ctx;
  void (*on_publish)(void *ctx, tp__snapshot *newest);
  void *on_publish_ctx;
  void (*on_audit)(void *ctx);
  void *on_audit_ctx;
  /* ---- atomic: numbers for tp__hook_add (relaxed: they only need to differ) */
  tp__a64 hooks;
  tp__mutex lock;
  /* ---- under lock */
  tp__snapshot *current; /* holds one reference */
  tp__audit_ring audit[TP__AUDIT_CLASSES];
  uint64_t audit_number;
  tp__mutex names_lock;
  /* ---- under names_lock: a large edit interns many ids, and turns that begin need the other lock */
  tp__index interned; /* ids in interned_arena */
  tp__index named; /* key "subscription handler owner visibility", in interned_arena; value: its number in run_names */
  tp__arena interned_arena;
  tp__run_names run_names; /* what was added is read without it */
};

/** Makes the snapshot the newest one and adds its audit row, unless another snapshot has replaced base. Takes the
 *  caller's reference on success. May run destroy functions of handlers, so no lock may be held. */
bool tp__registry_publish(tp__registry *registry, const tp__snapshot *base, tp__snapshot *snapshot,
                          const tp__audit_row *row);

/* ---- edit.c: the changes that an edit requests; commit.c applies or refuses them ---- */

/** What is requested of a subscription. */
typedef enum tp__requested {
  TP__REQUESTED_NONE = 0,
  TP__REQUESTED_ENABLE = 1,
  TP__REQUESTED_DISABLE = 2
} tp__requested;

/** The requested change of one id. Changes are in the order of their addition. */
typedef struct tp__change {
  const char *id;          /* in the edit's arena */
  bool removed;            /* the registered one goes */
  tp__requested requested; /* for the added subscription if there is one, else for the registered one */
  uint64_t requested_at;   /* number of the tp_edit_* call that requested it, from 1 */
  uint64_t added_at;       /* number of the call that added sub; 0: none */
  tp__handler *handler;    /* added; the edit's reference */
  tp__subscription *sub;   /* added; the edit's reference */
} tp__change;
typedef struct tp__changes {
  tp__change *items;
  size_t count, capacity;
  tp__index index; /* the newest change of an id */
} tp__changes;

/** A request for all subscriptions of an owner, or of a trust level. */
typedef struct tp__group_request {
  const char *owner; /* in the edit's arena; NULL: every owner with the trust level */
  tp_trust trust;
  tp__requested requested;
  uint64_t at; /* of the edit's calls */
} tp__group_request;

/** The default limit of a phase. If an edit sets several for one phase, the last one counts. */
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
  tp__limit_request *limits; /* few edits have any, so they are stored separately */
  size_t limit_count, limit_capacity;
  bool budget_set[TP_PHASE_LIMIT];
  uint32_t budgets_ms[TP_PHASE_LIMIT];
};

/** Refuses a text that is no id, with the reason. @param field of the descriptor: "tp_handler.id". */
tp_status tp__id_check(const char *id, const char *field, tp_fault *fault);

bool tp__group_has(const tp__group_request *group, const tp__subscription *sub);
/** The last request about a subscription: its own, or the one of a group that it belongs to.
 *  @param change  of its id; NULL: none. @param since requests for groups count only if they came after this call. */
tp__requested tp__edit_requested(const tp_edit *edit, const tp__change *change, uint64_t since,
                                 const tp__subscription *sub);

/** The newest change of an id, or NULL. */
tp__change *tp__changes_find(const tp__changes *changes, const char *id);

/* ---- commit: validate.c, edges.c, compile.c, times.c, hash.c ---- */

enum { TP__EDGE_REQUIRES = 1, TP__EDGE_DEP = 2 /* the later one named the earlier one, so it may read its result */ };

/** A phase while it is compiled. Nodes are in the order of registration numbers until they are sorted. */
typedef struct tp__draft {
  uint32_t phase;
  const tp_phase *row;
  tp__members *members; /* the plan, and everything that stays as long, goes into their arena */
  uint32_t *places;     /* for each item of the members: its index in nodes; TP__NO_PLACE when it is disabled */
  uint32_t *finder;     /* maps a subscription to its item (edges.c) */
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
/** Checks a subscription by itself and resolves its policies. Fills all fields of the node except edges, times and
 *  place. */
tp_status tp__validate(const tp__registry *registry, const tp__set *set, tp__subscription *sub, bool disabled,
                       tp__node *ret_node, tp_fault *fault);
/** The node that a disabled subscription of the snapshot would have, with all fields except edges, times and place. */
void tp__disabled_node(tp__snapshot *snapshot, tp__subscription *sub, tp__node *ret_node);
/** Resolves the targets of a phase's subscriptions, and adds the edges of the sequential ones. */
tp_status tp__draft_edges(const tp__drafts *drafts, tp__draft *draft, tp_fault *fault);
/** Compiles the member lists of the snapshot's set that are not compiled, and takes over the plans of all lists. */
tp_status tp__compile(tp__snapshot *snapshot, tp_fault *fault);
/** Computes the fields that follow from the limits: tails, worst case, critical path, budget. */
tp_status tp__plan_times(tp__plan *plan, tp__arena *scratch);
uint64_t tp__plan_hash(const tp__plan *plan);
/** Any thread: asserts the invariants of a finished plan (compile.c). */
void tp__plan_check(const tp__plan *plan);
/** Any thread that holds the snapshot: asserts the invariants of a compiled snapshot (snapshot.c). */
void tp__snapshot_check(tp__snapshot *snapshot);
uint64_t tp__snapshot_hash(const tp__snapshot *snapshot);

static inline bool tp__node_awaited(const tp__node *node) { return !(node->flags & TP__NODE_DETACHED); }
/** How long a run of run_ns may take together with the wait before it, when the subscription bounds its runs
 *  (max_concurrent). Runs of other entries come before it: up to 64, when each call of a response has one. Each has its
 *  own limit from its start. 0: no run waits. */
int64_t tp__node_line_ns(const tp__node *node, int64_t run_ns);

/** Destroys the handlers, which is the first step of tp__registry_free(). Interned names stay until then. */
void tp__registry_retire(tp__registry *registry);

#endif
