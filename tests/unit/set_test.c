/* SPDX-License-Identifier: Apache-2.0
 *
 * What consecutive versions share and what they must not share: plans of unchanged phases, maps of ids. The reference
 * is a registry with a single commit: many commits must have the same result as one. */
#include "tests/support/test.h"
#include "runtime/plan/registry.h"
#include "tests/support/edges.h"
#include "tests/unit/plan_world.h"

static uint64_t random_state;
static uint64_t random_bits(void) { /* splitmix64 */
  uint64_t z = random_state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
static uint32_t random_below(uint32_t limit) { return (uint32_t)(random_bits() % limit); }
static bool one_in(uint32_t count) { return random_below(count) == 0; }

/* ---- what is shared ---- */

static world *two_phases(void) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add_handler(edit, "g");
  tp_subscription other = subscription_of("gather.other", GATHER);
  other.handler = "g";
  add(edit, subscription_of("gather.first", GATHER));
  add(edit, other);
  add(edit, subscription_of("reverse.first", REVERSE));
  commit(w, edit);
  return w;
}

static tp__snapshot *newest(world *w) { return tp__registry_pin(w->registry); }

TEST(a_phase_that_no_requested_change_touches_keeps_its_plan) {
  world *w = two_phases();
  tp__snapshot *before = newest(w);
  tp_edit *edit = edit_of(w);
  add(edit, subscription_of("reverse.second", REVERSE));
  commit(w, edit);
  tp__snapshot *after = newest(w);
  const tp__plan *kept = before->plans[GATHER];
  assert_ptr_equal(after->plans[GATHER], kept);
  assert_ptr_not_equal(after->plans[REVERSE], before->plans[REVERSE]);
  assert_int_equal(before->plans[REVERSE]->node_count, 1);
  assert_int_equal(after->plans[REVERSE]->node_count, 2);
  assert_true(after->hash != before->hash);
  tp__snapshot_unpin(before); /* and with it the version that compiled the plan is gone */
  assert_int_equal(kept->node_count, 2);
  assert_string_equal(kept->nodes[0].sub->desc.id, "gather.first");
  tp__snapshot_unpin(after);
  world_close(w);
}

TEST(a_requested_change_that_changes_nothing_touches_nothing) {
  world *w = two_phases();
  tp__snapshot *before = newest(w);
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_enable(edit, "gather.first", true, NULL), TP_OK);
  assert_int_equal(tp_edit_set_budget(edit, GATHER, 0, NULL), TP_OK);
  commit(w, edit);
  tp__snapshot *after = newest(w);
  assert_ptr_equal(after->plans[GATHER], before->plans[GATHER]);
  assert_int_equal(after->version, before->version + 1);
  assert_true(after->hash == before->hash);
  tp__snapshot_unpin(before);
  tp__snapshot_unpin(after);
  world_close(w);
}

TEST(a_budget_touches_its_own_phase) {
  world *w = two_phases();
  tp__snapshot *before = newest(w);
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_set_budget(edit, GATHER, 777, NULL), TP_OK);
  commit(w, edit);
  tp__snapshot *after = newest(w);
  assert_ptr_equal(after->plans[REVERSE], before->plans[REVERSE]);
  assert_int_equal(after->plans[GATHER]->budget_ns, 777 * TP__NS_PER_MS);
  tp__snapshot_unpin(before);
  tp__snapshot_unpin(after);
  world_close(w);
}

TEST(a_replaced_handler_reaches_every_phase_that_names_it) {
  world *w = two_phases();
  tp__snapshot *before = newest(w);
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_remove_handler(edit, "g", NULL), TP_OK);
  tp_handler second = handler_of("g");
  second.contract_version = 2;
  assert_int_equal(tp_edit_add_handler(edit, &second, NULL), TP_OK);
  commit(w, edit);
  tp__snapshot *after = newest(w);
  assert_int_equal(node_of(after->plans[GATHER], "gather.other")->handler->desc.contract_version, 2);
  assert_int_equal(node_of(before->plans[GATHER], "gather.other")->handler->desc.contract_version, 1);
  assert_ptr_equal(after->plans[REVERSE], before->plans[REVERSE]);
  tp__snapshot_unpin(before);
  tp__snapshot_unpin(after);
  world_close(w);
}

TEST(a_handler_that_an_untouched_phase_names_cannot_go) {
  world *w = two_phases();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_remove_handler(edit, "h", NULL), TP_OK);
  assert_int_equal(tp_edit_remove_subscription(edit, "gather.first", NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, &w->fault), TP_ERR_MISSING_HANDLER);
  assert_string_equal(w->fault.subject, "reverse.first");
  tp_edit_discard(edit);
  world_close(w);
}

static void add_waiting_optional(world *w) {
  tp_edit *edit = edit_of(w);
  tp_subscription waiting = subscription_of("a.waiting", GATHER);
  waiting.after = EDGES(EDGE("late", true));
  waiting.after_count = 1;
  add(edit, waiting);
  commit(w, edit);
}

TEST(an_id_that_was_named_in_vain_is_found_when_it_comes) {
  world *w = two_phases();
  add_waiting_optional(w);
  assert_order(w, GATHER, "a.waiting gather.first gather.other");
  tp_edit *edit = edit_of(w);
  add(edit, subscription_of("late", GATHER));
  commit(w, edit);
  assert_order(w, GATHER, "gather.first gather.other late a.waiting");
  world_close(w);
}

TEST(an_id_that_was_named_in_vain_may_not_come_elsewhere) {
  world *w = two_phases();
  add_waiting_optional(w);
  tp_edit *edit = edit_of(w);
  add(edit, subscription_of("late", REVERSE));
  assert_int_equal(tp_edit_commit(edit, NULL, &w->fault), TP_ERR_CROSS_PHASE);
  assert_string_equal(w->fault.subject, "a.waiting");
  tp_edit_discard(edit);
  world_close(w);
}

/* ---- many commits against one ---- */

enum { IDS = 24, HANDLERS = 3, PHASES_USED = 4, ROUNDS = 100, COMMITS = 12, EDGES_MAX = 3 };
static const uint32_t used_phases[PHASES_USED] = {GATHER, REVERSE, OBSERVE, CODE_ONLY};

typedef struct wanted {
  bool there, disabled;
  uint32_t used_phase, handler, edge_count;
  uint32_t targets[EDGES_MAX];
  bool optional[EDGES_MAX];
  uint64_t since; /* order of registration */
} wanted;
typedef struct model {
  wanted subs[IDS];
  uint32_t versions[HANDLERS];
  uint32_t budgets_ms[PHASES_USED];
  uint64_t next;
} model;

static const char *id_of(uint32_t index) {
  static char ids[IDS][8];
  snprintf(ids[index], sizeof ids[index], "s%02u", index * 7 % IDS);
  return ids[index];
}

static void put_handler(tp_edit *edit, const model *m, uint32_t index) {
  char id[8];
  snprintf(id, sizeof id, "h%u", index);
  tp_handler handler = handler_of(id);
  handler.contract_version = m->versions[index];
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
}

static void put_sub(tp_edit *edit, const wanted *s, uint32_t index) {
  char handler[8];
  tp_edge edges[EDGES_MAX];
  const tp_edge *list[EDGES_MAX];
  for (uint32_t i = 0; i < s->edge_count; i++) {
    edges[i] = (tp_edge)EDGE_TO(id_of(s->targets[i]), s->optional[i]);
    list[i] = &edges[i];
  }
  snprintf(handler, sizeof handler, "h%u", s->handler);
  tp_subscription sub = subscription_of(id_of(index), used_phases[s->used_phase]);
  sub.handler = handler;
  sub.disabled = s->disabled;
  sub.after = list;
  sub.after_count = s->edge_count;
  add(edit, sub);
}

static void request_new(model *m, tp_edit *edit, uint32_t index) {
  wanted *s = &m->subs[index];
  *s = (wanted){.there = true, .disabled = one_in(4), .handler = random_below(HANDLERS), .since = m->next++};
  s->used_phase = index % PHASES_USED;
  if (one_in(12)) s->used_phase = random_below(PHASES_USED); /* sometimes in another phase than its dependents expect */
  s->edge_count = random_below(EDGES_MAX + 1);
  for (uint32_t i = 0; i < s->edge_count; i++) {
    s->targets[i] = (index + PHASES_USED * (1 + random_below(IDS / PHASES_USED - 1))) % IDS;
    s->optional[i] = !one_in(8);
  }
  put_sub(edit, s, index);
}

static void request_change(model *m, tp_edit *edit) {
  uint32_t index = random_below(IDS);
  wanted *s = &m->subs[index];
  if (!s->there) {
    request_new(m, edit, index);
  } else if (one_in(2)) {
    assert_int_equal(tp_edit_remove_subscription(edit, id_of(index), NULL), TP_OK);
    s->there = false;
    if (one_in(3)) request_new(m, edit, index);
  } else {
    s->disabled = !s->disabled;
    assert_int_equal(tp_edit_enable(edit, id_of(index), !s->disabled, NULL), TP_OK);
  }
}

static void replace_handler(model *m, tp_edit *edit) {
  char id[8];
  uint32_t index = random_below(HANDLERS);
  snprintf(id, sizeof id, "h%u", index);
  assert_int_equal(tp_edit_remove_handler(edit, id, NULL), TP_OK);
  m->versions[index]++;
  put_handler(edit, m, index);
}

static tp_edit *requested(world *w, model *m) {
  tp_edit *edit = edit_of(w);
  if (m->next == 0) {
    for (uint32_t i = 0; i < HANDLERS; i++) put_handler(edit, m, i);
  } else if (one_in(5)) {
    replace_handler(m, edit);
  }
  if (one_in(5)) {
    uint32_t used_phase = random_below(PHASES_USED);
    m->budgets_ms[used_phase] = 1000 * random_below(3);
    assert_int_equal(tp_edit_set_budget(edit, used_phases[used_phase], m->budgets_ms[used_phase], NULL), TP_OK);
  }
  for (uint32_t i = 1 + random_below(m->next == 0 ? IDS : 3); i > 0; i--) request_change(m, edit);
  m->next++;
  return edit;
}

/* All that the model has, in a world of its own, in one commit. */
static tp_status plan_at_once(const model *m, uint64_t *ret_hash, tp_fault *ret_fault) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  for (uint32_t i = 0; i < HANDLERS; i++) put_handler(edit, m, i);
  for (uint32_t i = 0; i < PHASES_USED; i++) {
    assert_int_equal(tp_edit_set_budget(edit, used_phases[i], m->budgets_ms[i], NULL), TP_OK);
  }
  for (uint64_t at = 0; at < m->next; at++) {
    for (uint32_t i = 0; i < IDS; i++) {
      if (m->subs[i].there && m->subs[i].since == at) put_sub(edit, &m->subs[i], i);
    }
  }
  tp_commit_report report = {.struct_size = sizeof report};
  tp_status status = tp_edit_commit(edit, &report, ret_fault);
  if (status == TP_OK) *ret_hash = report.snapshot_hash;
  else tp_edit_discard(edit);
  world_close(w);
  return status;
}

/* @return whether the commit was granted. */
static bool commit_and_compare(world *w, model *m) {
  model next = *m;
  tp_edit *edit = requested(w, &next);
  uint64_t expected_hash = 0;
  tp_commit_report report = {.struct_size = sizeof report};
  tp_fault expected_fault;
  tp_status expected = plan_at_once(&next, &expected_hash, &expected_fault);
  tp_status status = tp_edit_commit(edit, &report, &w->fault);
  assert_int_equal(status, expected);
  if (status != TP_OK) {
    assert_string_equal(w->fault.message, expected_fault.message);
    tp_edit_discard(edit);
    return false;
  }
  assert_true(report.snapshot_hash == expected_hash);
  *m = next;
  return true;
}

TEST(what_many_commits_came_to_is_what_one_commit_comes_to) {
  uint32_t granted = 0, refused = 0;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    world *w = world_open();
    tp__snapshot *pinned = NULL;
    model m = {.versions = {1, 1, 1}};
    random_state = round;
    for (int i = 0; i < COMMITS; i++) {
      bool taken = commit_and_compare(w, &m);
      *(taken ? &granted : &refused) += 1;
      if (!one_in(3)) continue; /* some turn keeps a version for a while */
      if (pinned) tp__snapshot_unpin(pinned);
      pinned = newest(w);
    }
    if (pinned) tp__snapshot_unpin(pinned);
    world_close(w);
  }
  assert_true(granted > ROUNDS && refused > ROUNDS);
}

/* ---- maps ---- */

enum { MEMBERS = 3000, VERSIONS = 60 };

typedef struct member {
  char id[16];
  int refs;
} member;

static void member_ref(void *m) { ((member *)m)->refs++; }
static void member_unref(void *m) { ((member *)m)->refs--; }
static const tp__map_kind member_kind = {.ref = member_ref, .unref = member_unref};

static void make_members(member *members) {
  for (int i = 0; i < MEMBERS; i++) {
    members[i].refs = 0;
    snprintf(members[i].id, sizeof members[i].id, "member-%d", i);
  }
}

/* The next version: some come, some go. */
static void change(tp__map *map, const tp__map *base, member *members, bool *there) {
  uint32_t touched = 1 + random_below(one_in(4) ? MEMBERS / 3 : 5);
  bool seen[MEMBERS] = {false};
  assert_int_equal(tp__map_begin(map, base, touched), TP_OK);
  for (; touched > 0; touched--) {
    uint32_t i = random_below(MEMBERS);
    if (seen[i]) continue;
    seen[i] = true;
    tp_status status = there[i] ? tp__map_remove(map, members[i].id) : tp__map_add(map, members[i].id, &members[i]);
    assert_int_equal(status, TP_OK);
    there[i] = !there[i];
  }
}

static void assert_holds(const tp__map *map, member *members, const bool *there) {
  size_t count = 0;
  for (int i = 0; i < MEMBERS; i++) {
    assert_ptr_equal(tp__map_get(map, members[i].id), there[i] ? &members[i] : NULL);
    count += there[i];
  }
  assert_int_equal(map->count, count);
}

TEST(a_map_finds_what_it_has_while_others_share_and_change_it) {
  static member members[MEMBERS];
  static bool there[VERSIONS + 1][MEMBERS];
  static tp__map maps[VERSIONS + 1];
  tp_allocator allocator = tp__allocator_of(NULL);
  random_state = 1;
  make_members(members);
  memset(there, 0, sizeof there);
  tp__map_init(&maps[0], &allocator, &member_kind);
  for (int v = 1; v <= VERSIONS; v++) {
    tp__map_init(&maps[v], &allocator, &member_kind);
    memcpy(there[v], there[v - 1], sizeof there[v]);
    change(&maps[v], &maps[v - 1], members, there[v]);
  }
  for (int v = 0; v <= VERSIONS; v++) assert_holds(&maps[v], members, there[v]);
  for (int v = 0; v < VERSIONS; v++) tp__map_fini(&maps[v * 7 % VERSIONS]); /* in any order, the newest last */
  assert_holds(&maps[VERSIONS], members, there[VERSIONS]);
  tp__map_fini(&maps[VERSIONS]);
  for (int i = 0; i < MEMBERS; i++) assert_int_equal(members[i].refs, 0);
}
