/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"
#include "tests/support/edges.h"
#include "tests/unit/plan_world.h"

#define MS INT64_C(1000000)
static tp_subscription after(const char *id, uint32_t phase, const tp_edge *const *edges, size_t count) {
  tp_subscription sub = subscription_of(id, phase);
  sub.after = edges;
  sub.after_count = count;
  return sub;
}

static tp_subscription needs(const char *id, uint32_t phase, const tp_edge *const *edges, size_t count) {
  tp_subscription sub = subscription_of(id, phase);
  sub.needs = edges;
  sub.needs_count = count;
  return sub;
}

static tp_subscription before(const char *id, uint32_t phase, const tp_edge *const *edges, size_t count) {
  tp_subscription sub = subscription_of(id, phase);
  sub.before = edges;
  sub.before_count = count;
  return sub;
}

static uint32_t place_of(const tp__plan *plan, const char *id) { return (uint32_t)(node_of(plan, id) - plan->nodes); }

/* -1: no edge; 0: an edge; 1: one that requires. */
static int edge_between(const tp__plan *plan, const char *from, const char *to) {
  const tp__node *node = node_of(plan, from);
  for (uint32_t e = node->first_edge; e < node->first_edge + node->edge_count; e++) {
    if (plan->edges[e] >> 1 == place_of(plan, to)) return plan->edges[e] & 1;
  }
  return -1;
}

/* ---- order ---- */

TEST(all_six_registration_orders_give_one_order) {
  static const char *const orders[] = {"ABC", "ACB", "BAC", "BCA", "CAB", "CBA"};
  for (uint32_t phase = GATHER; phase <= STOP; phase += STOP - GATHER) {
    for (size_t o = 0; o < 6; o++) {
      world *w = world_open();
      tp_edit *edit = edit_with_handler(w);
      for (const char *c = orders[o]; *c; c++) {
        if (*c == 'A') add(edit, before("A", phase, EDGES(EDGE("B", false)), 1));
        if (*c == 'B') add(edit, before("B", phase, EDGES(EDGE("C", false)), 1));
        if (*c == 'C') add(edit, subscription_of("C", phase));
      }
      commit(w, edit);
      assert_order(w, phase, "A B C");
      world_close(w);
    }
  }
}

TEST(gather_breaks_ties_by_id_and_chains_by_registration) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  static const char *const ids[] = {"c", "a", "b"};
  for (size_t i = 0; i < 3; i++) {
    char chained[8];
    snprintf(chained, sizeof chained, "%s2", ids[i]);
    add(edit, subscription_of(ids[i], GATHER));
    add(edit, subscription_of(chained, STOP));
  }
  tp_subscription first = subscription_of("z", GATHER);
  first.priority = -1;
  add(edit, first);
  commit(w, edit);
  assert_order(w, GATHER, "z a b c");
  assert_order(w, STOP, "c2 a2 b2");
  world_close(w);
}

TEST(a_reverse_phase_runs_backwards_but_keeps_its_edges) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add(edit, subscription_of("one", REVERSE));
  add(edit, needs("two", REVERSE, EDGES(EDGE("one", false)), 1));
  add(edit, subscription_of("three", REVERSE));
  tp_subscription early = subscription_of("four", REVERSE);
  early.priority = -1; /* lower runs later where all is backwards */
  add(edit, early);
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, REVERSE, &snapshot);
  char text[64];
  assert_string_equal(order_of(plan, text, sizeof text), "three one two four");
  assert_int_equal(edge_between(plan, "one", "two"), 1);
  assert_int_equal(edge_between(plan, "three", "one"), 0);
  assert_int_equal(plan->root_count, 1);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(sequential_ones_of_a_reverse_phase_stand_in_line_backwards) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  for (const char *c = "abc"; *c; c++) {
    char id[2] = {*c, '\0'};
    tp_subscription sub = subscription_of(id, REVERSE);
    sub.sequential = TP_SEQUENTIAL_ON;
    sub.priority = 'b' - *c; /* alone it would say: a last */
    add(edit, sub);
  }
  commit(w, edit);
  assert_order(w, REVERSE, "c b a");
  world_close(w);
}

/* ---- edges ---- */

TEST(flat_arrays_hold_a_diamond) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add(edit, after("d", GATHER, EDGES(EDGE("b", false), EDGE("c", false)), 2));
  add(edit, needs("c", GATHER, EDGES(EDGE("a", false)), 1));
  add(edit, after("b", GATHER, EDGES(EDGE("a", false)), 1));
  add(edit, subscription_of("a", GATHER));
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  static const uint32_t edges[] = {1 << 1, 2 << 1 | 1, 3 << 1, 3 << 1}, deps[] = {0, 0, 1, 2};
  static const uint16_t indegree[] = {0, 1, 1, 2};
  assert_int_equal(plan->node_count, 4);
  assert_int_equal(plan->edge_count, 4);
  assert_memory_equal(plan->edges, edges, sizeof edges);
  assert_memory_equal(plan->indegree, indegree, sizeof indegree);
  assert_int_equal(plan->dep_count, 4);
  assert_memory_equal(plan->deps, deps, sizeof deps);
  assert_int_equal(plan->root_count, 1);
  assert_int_equal(plan->roots[0], 0);
  assert_int_equal(plan->levels, 3);
  assert_int_equal(plan->nodes[3].dep_count, 2);
  assert_int_equal(plan->nodes[3].level, 2);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(an_edge_named_twice_is_one_and_requires_wins) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add(edit, before("a", GATHER, EDGES(EDGE("b", false), EDGE("b", true)), 2));
  tp_subscription b = after("b", GATHER, EDGES(EDGE("a", false), EDGE("a", false)), 2);
  b.needs = EDGES(EDGE("a", false));
  b.needs_count = 1;
  add(edit, b);
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(plan->edge_count, 1);
  assert_int_equal(edge_between(plan, "a", "b"), 1);
  assert_int_equal(plan->indegree[1], 1);
  assert_int_equal(plan->dep_count, 1);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(a_chain_has_an_edge_from_each_node_to_the_next) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add(edit, subscription_of("a", STOP));
  tp_subscription detached = subscription_of("b", STOP);
  detached.execution = TP_EXECUTION_FIRE_AND_RECORD;
  detached.failure = TP_FAILURE_BEST_EFFORT;
  add(edit, detached);
  add(edit, needs("c", STOP, EDGES(EDGE("a", false)), 1));
  add(edit, needs("d", STOP, EDGES(EDGE("c", false)), 1));
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, STOP, &snapshot);
  assert_int_equal(edge_between(plan, "a", "b"), 0);
  assert_int_equal(edge_between(plan, "b", "c"), 0);
  assert_int_equal(edge_between(plan, "a", "c"), 1);
  assert_int_equal(edge_between(plan, "c", "d"), 1); /* the chain's edge and the required one are one */
  assert_int_equal(plan->indegree[place_of(plan, "c")], 2);
  assert_int_equal(plan->indegree[place_of(plan, "d")], 1);
  assert_int_equal(plan->edge_count, 4);
  assert_int_equal(plan->detached_count, 1);
  assert_int_equal(node_of(plan, "c")->dep_count,
                   1); /* it sees a, which it named, and not b, which is only before it */
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(a_before_edge_orders_but_shows_no_result) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add(edit, before("z", GATHER, EDGES(EDGE("a", false)), 1));
  add(edit, subscription_of("a", GATHER));
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(edge_between(plan, "z", "a"), 0);
  assert_int_equal(plan->dep_count, 0);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(optional_edges_to_a_missing_or_disabled_one_are_ignored) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  tp_subscription off = subscription_of("off", GATHER);
  off.disabled = true;
  add(edit, off);
  add(edit, after("a", GATHER, EDGES(EDGE("nobody", true), EDGE("off", true), EDGE("b", true)), 3));
  add(edit, subscription_of("b", GATHER));
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(plan->node_count, 2);
  assert_int_equal(plan->edge_count, 1);
  assert_int_equal(edge_between(plan, "b", "a"), 0);
  assert_int_equal(plan->dep_count, 1);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(sequential_ones_stand_in_line_and_none_waits_for_the_detached) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  static const char *const ids[] = {"c", "x", "b", "a"};
  for (size_t i = 0; i < 4; i++) {
    tp_subscription sub = subscription_of(ids[i], GATHER);
    sub.sequential = TP_SEQUENTIAL_ON;
    if (ids[i][0] == 'x') sub.execution = TP_EXECUTION_BACKGROUND;
    add(edit, sub);
  }
  add(edit, subscription_of("free", GATHER));
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(edge_between(plan, "c", "x"), 0);
  assert_int_equal(edge_between(plan, "x", "b"), -1);
  assert_int_equal(edge_between(plan, "c", "b"), 0);
  assert_int_equal(edge_between(plan, "b", "a"), 0);
  assert_int_equal(plan->edge_count, 3);
  assert_int_equal(plan->dep_count, 0);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(an_alias_is_sequential_unless_its_subscription_says_otherwise_and_a_declared_owner_is_not) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  static const char *const ids[] = {"d", "c", "b"};
  for (size_t i = 0; i < 3; i++) {
    tp_subscription sub = subscription_of(ids[i], TP_PHASE_NONE);
    sub.phase_name = "inOrder";
    if (ids[i][0] == 'b') sub.sequential = TP_SEQUENTIAL_OFF;
    add(edit, sub);
  }
  commit(w, edit);
  assert_order(w, GATHER, "b d c");
  edit = edit_by(w, "files", TP_TRUST_DECLARED, 0);
  add(edit, subscription_of("a", GATHER));
  commit(w, edit);
  assert_order(w, GATHER, "a b d c");
  world_close(w);
}

TEST(an_infra_alias_marks_its_nodes) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  tp_subscription sub = subscription_of("a", TP_PHASE_NONE);
  sub.phase_name = "infra";
  add(edit, sub);
  add(edit, subscription_of("b", OBSERVE));
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, OBSERVE, &snapshot);
  assert_true(node_of(plan, "a")->flags & TP__NODE_INFRA);
  assert_false(node_of(plan, "b")->flags & TP__NODE_INFRA);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

/* ---- policies ---- */

TEST(zero_means_default) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  tp_subscription sub = subscription_of("blocking", GATHER_REQUIRED);
  add(edit, sub);
  sub = subscription_of("deadline", GATHER_REQUIRED);
  sub.execution = TP_EXECUTION_DEADLINE;
  add(edit, sub);
  sub = subscription_of("fire", GATHER_REQUIRED);
  sub.execution = TP_EXECUTION_FIRE_AND_RECORD;
  add(edit, sub);
  sub = subscription_of("background", GATHER_REQUIRED);
  sub.execution = TP_EXECUTION_BACKGROUND;
  add(edit, sub);
  add(edit, subscription_of("bare_row", REVERSE)); /* a row that says neither limit nor failure */
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER_REQUIRED, &snapshot);
  assert_int_equal(node_of(plan, "blocking")->execution, TP_EXECUTION_BLOCKING);
  assert_int_equal(node_of(plan, "blocking")->failure, TP_FAILURE_REQUIRED);
  assert_int_equal(node_of(plan, "blocking")->timeout_ns, 1000 * MS);
  assert_int_equal(node_of(plan, "blocking")->permits, 16);
  assert_int_equal(node_of(plan, "deadline")->timeout_ns, 1000 * MS);
  assert_int_equal(node_of(plan, "deadline")->flags, TP__NODE_DEADLINE | TP__NODE_REQUIRED);
  assert_int_equal(node_of(plan, "fire")->timeout_ns, 30000 * MS);
  assert_int_equal(node_of(plan, "fire")->flags, TP__NODE_DETACHED | TP__NODE_REQUIRED);
  assert_int_equal(node_of(plan, "background")->timeout_ns, 180000 * MS);
  assert_int_equal(node_of(plan, "background")->flags, TP__NODE_DETACHED | TP__NODE_BACKGROUND | TP__NODE_REQUIRED);
  assert_int_equal(snapshot->plans[REVERSE]->nodes[0].timeout_ns, 5000 * MS);
  assert_int_equal(snapshot->plans[REVERSE]->nodes[0].failure, TP_FAILURE_BEST_EFFORT);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(an_inline_handler_needs_no_permits_unless_asked_for) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  tp_handler inlined = handler_of("h");
  inlined.placement = TP_PLACEMENT_INLINE;
  assert_int_equal(tp_edit_add_handler(edit, &inlined, NULL), TP_OK);
  add(edit, subscription_of("a", GATHER));
  tp_subscription b = subscription_of("b", GATHER);
  b.max_concurrent = 3;
  add(edit, b);
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(node_of(plan, "a")->permits, 0);
  assert_int_equal(node_of(plan, "b")->permits, 3);
  assert_true(node_of(plan, "a")->flags & TP__NODE_INLINE);
  assert_true(plan->all_inline);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(what_a_node_may_emit_is_what_row_handler_and_detachment_allow) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  tp_handler modest = handler_of("modest");
  modest.capabilities = TP_CAPABILITY_DECIDE;
  assert_int_equal(tp_edit_add_handler(edit, &modest, NULL), TP_OK);
  tp_handler silent = handler_of("silent");
  silent.capabilities = 0;
  assert_int_equal(tp_edit_add_handler(edit, &silent, NULL), TP_OK);
  add(edit, subscription_of("a", GATHER));
  tp_subscription b = subscription_of("b", GATHER);
  b.execution = TP_EXECUTION_BACKGROUND;
  add(edit, b);
  tp_subscription c = subscription_of("c", GATHER);
  c.handler = "modest";
  add(edit, c);
  tp_subscription d = subscription_of("d", GATHER);
  d.handler = "silent"; /* declares nothing: all that the row allows */
  add(edit, d);
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  const uint32_t always = 1 << TP_CONTRIBUTION_DIAGNOSTIC, audit = 1 << TP_CONTRIBUTION_AUDIT,
                 job = 1 << TP_CONTRIBUTION_BACKGROUND_JOB;
  assert_int_equal(node_of(plan, "a")->kinds, always | audit | job | 1 << TP_CONTRIBUTION_PROMPT_CONTEXT);
  assert_int_equal(node_of(plan, "b")->kinds, always | audit | job);
  assert_int_equal(node_of(plan, "c")->kinds, always);
  assert_true((node_of(plan, "d")->kinds & node_of(plan, "a")->kinds) == node_of(plan, "a")->kinds);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

/* ---- times ---- */

static tp_subscription timed(const char *id, uint32_t limit_ms, tp_failure failure, const char *after_id) {
  tp_subscription sub = subscription_of(id, GATHER);
  static tp_edge edges[16];
  static const tp_edge *lists[16];
  static size_t used;
  sub.limit_ms = limit_ms;
  sub.failure = failure;
  if (after_id) {
    size_t at = used++ % 16;
    edges[at] = (tp_edge)EDGE_TO(after_id, false);
    lists[at] = &edges[at];
    sub.after = &lists[at];
    sub.after_count = 1;
  }
  return sub;
}

TEST(times_follow_from_the_longest_paths) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  tp_handler inlined = handler_of("q");
  inlined.placement = TP_PLACEMENT_INLINE;
  assert_int_equal(tp_edit_add_handler(edit, &inlined, NULL), TP_OK);
  add(edit, timed("a", 100, TP_FAILURE_BEST_EFFORT, NULL));
  add(edit, timed("b", 300, TP_FAILURE_REQUIRED, "a"));
  add(edit, timed("c", 1000, TP_FAILURE_BEST_EFFORT, "a"));
  tp_subscription d = timed("d", 50, TP_FAILURE_REQUIRED, "b");
  d.handler = "q";
  add(edit, d);
  add(edit, timed("e", 7, TP_FAILURE_BEST_EFFORT, "d"));
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(plan->worst_ns, 1100 * MS);
  assert_int_equal(plan->required_ns, 350 * MS);
  assert_int_equal(plan->budget_ns, 1100 * MS);
  assert_int_equal(plan->host_budget_ns, 0);
  assert_int_equal(node_of(plan, "a")->required_tail_ns, 310 * MS); /* an inline one counts 10 ms */
  assert_int_equal(node_of(plan, "b")->required_tail_ns, 10 * MS);
  assert_int_equal(node_of(plan, "c")->required_tail_ns, 0);
  assert_int_equal(node_of(plan, "e")->required_tail_ns, 0);
  assert_true(node_of(plan, "a")->critical && node_of(plan, "c")->critical);
  assert_false(node_of(plan, "b")->critical || node_of(plan, "d")->critical || node_of(plan, "e")->critical);
  assert_false(plan->all_inline);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(attempts_and_pauses_count_and_a_deadline_covers_them) {
  static const struct {
    tp_execution execution;
    uint32_t attempts;
    tp_backoff backoff;
    uint32_t backoff_ms;
    int64_t worst_ms;
  } rows[] = {{TP_EXECUTION_BLOCKING, 1, TP_BACKOFF_FIXED, 1000, 100},
              {TP_EXECUTION_BLOCKING, 3, TP_BACKOFF_NONE, 1000, 300},
              {TP_EXECUTION_BLOCKING, 3, TP_BACKOFF_FIXED, 1000, 2300},
              {TP_EXECUTION_BLOCKING, 4, TP_BACKOFF_EXPONENTIAL, 1000, 400 + 1000 + 2000 + 4000},
              {TP_EXECUTION_BLOCKING, 4, TP_BACKOFF_EXPONENTIAL, 40000, 400 + 40000 + 60000 + 60000},
              {TP_EXECUTION_BLOCKING, 3, TP_BACKOFF_FIXED, 70000, 300 + 120000},
              {TP_EXECUTION_BLOCKING, 1001, TP_BACKOFF_EXPONENTIAL, 30000, 100100 + 30000 + 999 * 60000},
              {TP_EXECUTION_DEADLINE, 4, TP_BACKOFF_EXPONENTIAL, 40000, 100},
              {TP_EXECUTION_FIRE_AND_RECORD, 4, TP_BACKOFF_FIXED, 40000, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world *w = world_open();
    tp_edit *edit = edit_of(w);
    tp_handler handler = handler_of("h");
    handler.idempotent = true;
    assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
    tp_subscription sub = timed("a", 100, TP_FAILURE_BEST_EFFORT, NULL);
    sub.execution = rows[i].execution;
    sub.attempts = rows[i].attempts;
    sub.backoff = rows[i].backoff;
    sub.backoff_ms = rows[i].backoff_ms;
    add(edit, sub);
    commit(w, edit);
    tp__snapshot *snapshot;
    assert_int_equal(pin_plan(w, GATHER, &snapshot)->worst_ns, rows[i].worst_ms * MS);
    tp__snapshot_unpin(snapshot);
    world_close(w);
  }
}

TEST(times_saturate) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  tp_handler handler = handler_of("h");
  handler.idempotent = true;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  tp_subscription sub = timed("a", UINT32_MAX, TP_FAILURE_REQUIRED, NULL);
  sub.attempts = UINT32_MAX;
  sub.backoff = TP_BACKOFF_EXPONENTIAL;
  sub.backoff_ms = UINT32_MAX;
  add(edit, sub);
  tp_subscription behind = timed("b", UINT32_MAX, TP_FAILURE_REQUIRED, "a");
  behind.attempts = UINT32_MAX;
  add(edit, behind);
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(plan->worst_ns, TP__NEVER);
  assert_int_equal(plan->required_ns, TP__NEVER);
  assert_int_equal(plan->budget_ns, TP__NEVER / 4); /* an entry adds it to the time without looking */
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(the_pause_doubles_and_is_capped) {
  tp_subscription desc = {.backoff = TP_BACKOFF_EXPONENTIAL, .backoff_ms = 1};
  assert_int_equal(tp__retry_pause_ns(&desc, 1), 1 * MS);
  assert_int_equal(tp__retry_pause_ns(&desc, 2), 2 * MS);
  assert_int_equal(tp__retry_pause_ns(&desc, 16), 32768 * MS);
  assert_int_equal(tp__retry_pause_ns(&desc, 17), 60000 * MS);
  assert_int_equal(tp__retry_pause_ns(&desc, UINT32_MAX), 60000 * MS);
  desc.backoff_ms = UINT32_MAX;
  assert_int_equal(tp__retry_pause_ns(&desc, 40), 60000 * MS);
  desc.backoff = TP_BACKOFF_NONE;
  assert_int_equal(tp__retry_pause_ns(&desc, 1), 0);
}

TEST(the_budget_is_the_hosts_else_capped_but_never_below_what_is_required) {
  static const struct {
    uint32_t host_ms, best_effort_ms, required_ms;
    int64_t budget_ms;
  } rows[] = {{0, 2000, 1000, 3000},
              {0, 20000, 15000, 30000},
              {0, 1000, 40000, 40000},
              {1500, 2000, 1000, 1500},
              {60000, 1, 1, 60000}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world *w = world_open();
    tp_edit *edit = edit_with_handler(w);
    add(edit, timed("a", rows[i].best_effort_ms, TP_FAILURE_BEST_EFFORT, NULL));
    add(edit, timed("b", rows[i].required_ms, TP_FAILURE_REQUIRED, "a"));
    assert_int_equal(tp_edit_set_budget(edit, GATHER, rows[i].host_ms, NULL), TP_OK);
    commit(w, edit);
    tp__snapshot *snapshot;
    const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
    assert_int_equal(plan->budget_ns, rows[i].budget_ms * MS);
    assert_int_equal(plan->host_budget_ns, rows[i].host_ms * MS);
    tp__snapshot_unpin(snapshot);
    world_close(w);
  }
}

/* a: best effort, extends; b: best effort, after a; c: extends, alone; d: required, after a. */
TEST(the_default_budget_is_not_below_what_extends_it_and_the_hosts_wins) {
  static const struct {
    uint32_t host_ms, a_ms, b_ms, c_ms, d_ms;
    int64_t budget_ms, required_ms;
  } rows[] = {{0, 61000, 1, 1, 1, 61001, 1},
              {0, 61000, 1, 90000, 1, 90000, 1},
              {0, 61000, 50000, 1, 1, 61001, 1},
              {0, 61000, 1, 1, 40000, 101000, 40000},
              {0, 2000, 1000, 1000, 1, 3000, 1},
              {0, 20000, 20000, 1, 1, 30000, 1},
              {5000, 61000, 1, 90000, 1, 5000, 1},
              {200000, 61000, 1, 90000, 1, 200000, 1},
              {1, 61000, 1, 1, 1, 1, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world *w = world_open();
    tp_edit *edit = edit_with_handler(w);
    tp_subscription subs[] = {
        timed("a", rows[i].a_ms, TP_FAILURE_BEST_EFFORT, NULL), timed("b", rows[i].b_ms, TP_FAILURE_BEST_EFFORT, "a"),
        timed("c", rows[i].c_ms, TP_FAILURE_BEST_EFFORT, NULL), timed("d", rows[i].d_ms, TP_FAILURE_REQUIRED, "a")};
    subs[0].extends_budget = subs[2].extends_budget = true;
    for (size_t k = 0; k < 4; k++) add(edit, subs[k]);
    if (rows[i].host_ms) assert_int_equal(tp_edit_set_budget(edit, GATHER, rows[i].host_ms, NULL), TP_OK);
    commit(w, edit);
    tp__snapshot *snapshot;
    const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
    assert_int_equal(plan->budget_ns, rows[i].budget_ms * MS);
    assert_int_equal(plan->required_ns, rows[i].required_ms * MS);
    tp__snapshot_unpin(snapshot);
    world_close(w);
  }
}

TEST(what_no_entry_waits_for_extends_no_budget) {
  static const tp_execution executions[] = {TP_EXECUTION_BACKGROUND, TP_EXECUTION_FIRE_AND_RECORD};
  for (size_t i = 0; i < 2; i++) {
    world *w = world_open();
    tp_edit *edit = edit_with_handler(w);
    tp_subscription sub = timed("a", 1000, TP_FAILURE_BEST_EFFORT, NULL);
    sub.execution = executions[i];
    sub.extends_budget = true;
    add(edit, sub);
    assert_int_equal(tp_edit_commit(edit, NULL, &w->fault), TP_ERR_USAGE);
    assert_non_null(strstr(w->fault.message, "extends_budget"));
    assert_non_null(strstr(w->fault.message, tp_execution_name(executions[i])));
    tp_edit_discard(edit);
    world_close(w);
  }
}

TEST(a_phase_in_which_nothing_is_awaited_has_its_rows_limit) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  tp_subscription sub = subscription_of("a", GATHER);
  sub.execution = TP_EXECUTION_BACKGROUND;
  add(edit, sub);
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(plan->worst_ns, 0);
  assert_int_equal(plan->budget_ns, 5000 * MS);
  assert_true(plan->all_inline);
  assert_false(plan->nodes[0].critical);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(a_path_above_the_budget_is_a_warning) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add(edit, timed("a", 800, TP_FAILURE_BEST_EFFORT, NULL));
  add(edit, timed("b", 800, TP_FAILURE_BEST_EFFORT, "a"));
  add(edit, subscription_of("fine", OBSERVE));
  assert_int_equal(tp_edit_set_budget(edit, GATHER, 1000, NULL), TP_OK);
  tp_commit_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_edit_commit(edit, &report, &w->fault), TP_OK);
  assert_int_equal(report.warnings, 1);
  assert_int_equal(report.warning_phase, GATHER);
  assert_int_equal(report.handlers, 1);
  assert_int_equal(report.subscriptions, 3);
  assert_int_equal(report.snapshot_version, 1);
  world_close(w);
}

/* ---- hash ---- */

static uint64_t hash_with(tp_handler handler, tp_subscription sub, uint32_t budget_ms, uint64_t *ret_snapshot_hash) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  add(edit, sub);
  add(edit, subscription_of("other", GATHER));
  assert_int_equal(tp_edit_set_budget(edit, GATHER, budget_ms, NULL), TP_OK);
  commit(w, edit);
  tp__snapshot *snapshot;
  uint64_t hash = pin_plan(w, GATHER, &snapshot)->hash;
  *ret_snapshot_hash = snapshot->hash;
  tp__snapshot_unpin(snapshot);
  world_close(w);
  return hash;
}

static int32_t always(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_YES;
}
static int32_t never(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_NO;
}

TEST(the_hash_follows_behaviour_and_not_pointers) {
  enum { CASES = 17 };
  const tp_edge *const *to_other = EDGES(EDGE("other", false));
  const tp_match tools[] = {{.struct_size = sizeof(tp_match), .matches = always, .description = "tool is x"},
                            {.struct_size = sizeof(tp_match), .matches = always, .description = "tool is y"}};
  uint64_t hashes[CASES], snapshots[CASES], again;
  tp_contribution fallback = {.struct_size = sizeof(tp_contribution),
                              .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                              .key = {"k", 1},
                              .text = {"text", 4}};
  const tp_contribution *const list[] = {&fallback};
  for (int i = 0; i < CASES; i++) {
    tp_handler handler = handler_of("h");
    tp_subscription sub = subscription_of("a", GATHER);
    handler.idempotent = true;
    if (i == 1) sub.limit_ms = 77;
    if (i == 2) sub.execution = TP_EXECUTION_DEADLINE;
    if (i == 3) sub.failure = TP_FAILURE_REQUIRED;
    if (i == 4) handler.placement = TP_PLACEMENT_INLINE;
    if (i == 5) handler.contract_version = 2;
    if (i == 6) handler.capabilities = TP_CAPABILITY_EMIT_AUDIT;
    if (i == 7) sub.attempts = 2;
    if (i == 8) sub.max_concurrent = 2;
    if (i == 9) sub.after = to_other, sub.after_count = 1;
    if (i == 10) sub.needs = to_other, sub.needs_count = 1;
    if (i == 11) sub.match = &tools[0];
    if (i == 12) sub.id = "b";
    if (i == 16) sub.match = &tools[1];
    if (i == 13) sub.priority = 1;
    if (i == 14 || i == 15) {
      sub.failure = TP_FAILURE_FALLBACK;
      fallback.text.data = i == 14 ? "text" : "next";
      sub.fallback = list;
      sub.fallback_count = 1;
    }
    hashes[i] = hash_with(handler, sub, 0, &snapshots[i]);
    assert_true(hash_with(handler, sub, 0, &again) == hashes[i] && again == snapshots[i]);
    for (int before_ = 0; before_ < i; before_++)
      assert_true(hashes[before_] != hashes[i] && snapshots[before_] != snapshots[i]);
    assert_true(hash_with(handler, sub, 9999, &again) != hashes[i]);
    tp_handler elsewhere = handler;
    elsewhere.ctx = &elsewhere;
    elsewhere.summary = "another summary";
    sub.metadata = "and other words";
    tp_match other_function = {.struct_size = 0};
    if (sub.match) other_function = *sub.match, other_function.matches = never, sub.match = &other_function;
    assert_true(hash_with(elsewhere, sub, 0, &again) == hashes[i]);
  }
}

/* ---- size ---- */

TEST(ten_thousand_subscriptions_compile) {
  enum { COUNT = 10000 };
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  for (int i = 0; i < COUNT; i++) {
    char id[32], target[32];
    int own = i * 7919 % COUNT; /* registered in another order than by id */
    snprintf(id, sizeof id, "s%05d", own);
    snprintf(target, sizeof target, "s%05d", own / 2);
    add(edit, own > 0 ? after(id, GATHER, EDGES(EDGE(target, false)), 1) : subscription_of(id, GATHER));
  }
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(plan->node_count, COUNT);
  assert_int_equal(plan->edge_count, COUNT - 1);
  assert_int_equal(plan->levels, 15);
  assert_string_equal(plan->nodes[0].sub->desc.id, "s00000");
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(a_chain_of_a_thousand_compiles_in_order) {
  enum { COUNT = 1000 };
  static const uint32_t phases[] = {STOP, GATHER};
  for (size_t p = 0; p < 2; p++) {
    world *w = world_open();
    tp_edit *edit = edit_with_handler(w);
    for (int i = COUNT - 1; i >= 0; i--) {
      char id[16], target[16];
      snprintf(id, sizeof id, "s%d", i);
      snprintf(target, sizeof target, "s%d", i - 1);
      add(edit, i > 0 ? needs(id, phases[p], EDGES(EDGE(target, false)), 1) : subscription_of(id, phases[p]));
    }
    commit(w, edit);
    tp__snapshot *snapshot;
    const tp__plan *plan = pin_plan(w, phases[p], &snapshot);
    assert_int_equal(plan->node_count, COUNT);
    assert_int_equal(plan->levels, COUNT);
    assert_int_equal(plan->edge_count, COUNT - 1);
    for (uint32_t i = 0; i < COUNT; i++) {
      char id[16];
      snprintf(id, sizeof id, "s%u", i);
      assert_string_equal(plan->nodes[i].sub->desc.id, id);
      assert_true(plan->nodes[i].critical);
      if (i + 1 < COUNT) assert_int_equal(plan->edges[plan->nodes[i].first_edge], (i + 1) << 1 | 1);
    }
    tp__snapshot_unpin(snapshot);
    world_close(w);
  }
}

TEST(a_fan_out_of_a_thousand_compiles) {
  enum { COUNT = 1000 };
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  static tp_edge leaves[COUNT];
  static const tp_edge *list[COUNT];
  static char ids[COUNT][16];
  add(edit, subscription_of("root", GATHER));
  for (int i = 0; i < COUNT; i++) {
    snprintf(ids[i], sizeof ids[i], "s%d", i);
    leaves[i] = (tp_edge)EDGE_TO(ids[i], false);
    list[i] = &leaves[i];
    add(edit, after(ids[i], GATHER, EDGES(EDGE("root", false)), 1));
  }
  add(edit, after("sink", GATHER, list, COUNT));
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_int_equal(plan->nodes[0].edge_count, COUNT);
  assert_string_equal(plan->nodes[COUNT + 1].sub->desc.id, "sink");
  assert_int_equal(plan->indegree[COUNT + 1], COUNT);
  assert_int_equal(plan->nodes[COUNT + 1].dep_count, COUNT);
  assert_int_equal(plan->levels, 3);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(one_subscription_too_many_is_refused) {
  enum { COUNT = 65535 };
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  for (int i = 0; i <= COUNT; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    add(edit, subscription_of(id, STOP));
  }
  assert_int_equal(tp_edit_commit(edit, NULL, &w->fault), TP_ERR_TOO_LARGE);
  assert_int_equal(w->fault.phase, STOP);
  assert_non_null(strstr(w->fault.message, "65535"));
  assert_int_equal(tp_edit_remove_subscription(edit, "s77", NULL), TP_OK);
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, STOP, &snapshot);
  assert_int_equal(plan->node_count, COUNT);
  assert_int_equal(plan->edges[plan->edge_count - 1] >> 1, COUNT - 1);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(one_edge_too_many_is_refused) {
  enum { COUNT = 1001, EACH = 1000 };
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  static const tp_edge *edges[EACH];
  static char ids[COUNT][16];
  for (int i = 0; i < COUNT; i++) snprintf(ids[i], sizeof ids[i], "s%d", i);
  const tp_edge *first = EDGE(ids[0], false);
  for (int i = 0; i < EACH; i++) edges[i] = first;
  add(edit, subscription_of(ids[0], GATHER));
  for (int i = 1; i < COUNT; i++) add(edit, after(ids[i], GATHER, edges, EACH));
  commit(w, edit); /* exactly a million */
  edit = edit_of(w);
  add(edit, after("more", GATHER, edges, 1));
  assert_int_equal(tp_edit_commit(edit, NULL, &w->fault), TP_ERR_TOO_LARGE);
  assert_int_equal(w->fault.phase, GATHER);
  assert_non_null(strstr(w->fault.message, "1000000"));
  tp_edit_discard(edit);
  world_close(w);
}
