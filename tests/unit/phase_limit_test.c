/* SPDX-License-Identifier: Apache-2.0
 *
 * The default limit of a phase, set by the host instead of the row's. */
#include "tests/support/test.h"
#include "tests/support/edges.h"
#include "tests/unit/plan_world.h"

#define MS INT64_C(1000000)

static tp_status set_limit(world *w, uint32_t phase, uint32_t limit_ms) {
  tp_edit *edit = edit_of(w);
  tp_status status = tp_edit_set_limit(edit, phase, limit_ms, &w->fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, &w->fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static int64_t limit_of(world *w, uint32_t phase, const char *id) {
  tp__snapshot *snapshot;
  int64_t timeout_ns = node_of(pin_plan(w, phase, &snapshot), id)->timeout_ns;
  tp__snapshot_unpin(snapshot);
  return timeout_ns / MS;
}

static uint64_t hash_of(world *w, uint32_t phase) {
  tp__snapshot *snapshot;
  uint64_t hash = pin_plan(w, phase, &snapshot)->hash;
  tp__snapshot_unpin(snapshot);
  return hash;
}

static int64_t budget_of(world *w, uint32_t phase) {
  tp__snapshot *snapshot;
  int64_t budget_ns = pin_plan(w, phase, &snapshot)->budget_ns;
  tp__snapshot_unpin(snapshot);
  return budget_ns / MS;
}

/* In GATHER: one that sets no limit, one that sets 70 ms, one that is detached. One in STOP. "off" is disabled. */
static world *peopled(void) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add(edit, subscription_of("open", GATHER));
  tp_subscription named = subscription_of("named", GATHER), fire = subscription_of("fire", GATHER);
  named.limit_ms = 70;
  add(edit, named);
  fire.execution = TP_EXECUTION_FIRE_AND_RECORD;
  add(edit, fire);
  add(edit, subscription_of("guard", STOP));
  tp_subscription off = subscription_of("off", GATHER);
  off.disabled = true;
  add(edit, off);
  commit(w, edit);
  return w;
}

static bool limit_of_off(void *ctx, const tp_subscription_info *info) {
  if (strcmp(info->id, "off") == 0) *(uint32_t *)ctx = info->limit_ms;
  return true;
}

TEST(limit_holds_for_those_that_name_none) {
  world *w = peopled();
  uint64_t before = hash_of(w, GATHER), other = hash_of(w, STOP);
  assert_int_equal(set_limit(w, GATHER, 1234), TP_OK);
  assert_int_equal(limit_of(w, GATHER, "open"), 1234);
  assert_int_equal(limit_of(w, GATHER, "named"), 70);
  assert_int_equal(limit_of(w, GATHER, "fire"), 30000);
  assert_int_equal(limit_of(w, STOP, "guard"), 5000);
  assert_int_equal(budget_of(w, GATHER), 1234);
  assert_true(hash_of(w, GATHER) != before);
  assert_true(hash_of(w, STOP) == other);
  uint32_t limit_ms = 0;
  assert_int_equal(tp__registry_subscriptions(w->registry, NULL, limit_of_off, &limit_ms, NULL), TP_OK);
  assert_int_equal(limit_ms, 1234);
  assert_int_equal(tp__registry_phase(w->registry, GATHER)->limit_ms, 5000); /* the row stays as it is */
  world_close(w);
}

TEST(limit_stays_over_commits_until_it_is_taken_back) {
  world *w = peopled();
  uint64_t before = hash_of(w, GATHER);
  assert_int_equal(set_limit(w, GATHER, 9), TP_OK);
  assert_int_equal(set_limit(w, CODE_ONLY, 8), TP_OK); /* nothing is subscribed there yet */
  tp_edit *edit = edit_of(w);
  add(edit, subscription_of("later", GATHER));
  add(edit, subscription_of("first", CODE_ONLY));
  commit(w, edit);
  assert_int_equal(limit_of(w, GATHER, "later"), 9);
  assert_int_equal(limit_of(w, CODE_ONLY, "first"), 8);
  edit = edit_of(w);
  assert_int_equal(tp_edit_remove_subscription(edit, "later", NULL), TP_OK);
  commit(w, edit);
  assert_int_equal(set_limit(w, GATHER, 0), TP_OK);
  assert_int_equal(limit_of(w, GATHER, "open"), 5000);
  assert_true(hash_of(w, GATHER) == before);
  assert_int_equal(set_limit(w, CODE_ONLY, 0), TP_OK);
  assert_int_equal(limit_of(w, CODE_ONLY, "first"), 5000); /* its row has none */
  world_close(w);
}

TEST(limit_that_changes_nothing_leaves_the_hash) {
  world *w = peopled();
  uint64_t before = hash_of(w, GATHER);
  assert_int_equal(set_limit(w, GATHER, 5000), TP_OK); /* what the row says */
  assert_true(hash_of(w, GATHER) == before);
  world_close(w);
}

TEST(limit_is_the_budget_where_nothing_is_awaited) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  tp_subscription fire = subscription_of("fire", GATHER);
  fire.execution = TP_EXECUTION_FIRE_AND_RECORD;
  add(edit, fire);
  assert_int_equal(tp_edit_set_limit(edit, GATHER, 44, NULL), TP_OK);
  commit(w, edit);
  assert_int_equal(budget_of(w, GATHER), 44);
  assert_int_equal(limit_of(w, GATHER, "fire"), 30000);
  world_close(w);
}

TEST(limit_is_refused_above_a_budget_that_a_required_one_needs) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_set_budget(edit, STOP, 6000, NULL), TP_OK);
  commit(w, edit);
  assert_int_equal(set_limit(w, STOP, 6001), TP_ERR_BUDGET);
  assert_string_equal(w->fault.subject, "guard");
  assert_int_equal(limit_of(w, STOP, "guard"), 5000);
  assert_int_equal(set_limit(w, STOP, 6000), TP_OK);
  world_close(w);
}

TEST(hooks_of_the_runtime_have_their_own_default_before_it) {
  world *w = world_open();
  tp__registry_hook_defaults(w->registry, 300, TP_FAILURE_DEFAULT);
  assert_int_equal(tp__hook_add(w->registry, HOOK("test.gather", no_run, NULL), NULL), TP_OK);
  tp_edit *edit = edit_with_handler(w);
  add(edit, subscription_of("plain", GATHER));
  assert_int_equal(tp_edit_set_limit(edit, GATHER, 44, NULL), TP_OK);
  commit(w, edit);
  assert_int_equal(limit_of(w, GATHER, "hook-1"), 300);
  assert_int_equal(limit_of(w, GATHER, "plain"), 44);
  world_close(w);
}

TEST(limit_is_the_hosts_to_set) {
  world *w = world_open();
  assert_int_equal(set_limit(w, 0, 1), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(set_limit(w, 63, 1), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(set_limit(w, TP_PHASE_LIMIT, 1), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(set_limit(w, UINT32_MAX, 1), TP_ERR_UNKNOWN_PHASE);
  assert_non_null(strstr(w->fault.message, "tp_edit_set_limit: there is no phase"));
  assert_int_equal(tp_edit_set_limit(NULL, GATHER, 1, &w->fault), TP_ERR_USAGE);
  assert_non_null(strstr(w->fault.message, "tp_edit_begin()"));
  tp_edit *edit = edit_by(w, "ext", TP_TRUST_DECLARED, TP_GRANT_PRIVILEGED_HOOKS);
  assert_int_equal(tp_edit_set_limit(edit, GATHER, 1, &w->fault), TP_ERR_USAGE);
  assert_string_equal(w->fault.subject, "ext");
  assert_non_null(strstr(w->fault.message, "declared"));
  tp_edit_discard(edit);
  edit = edit_by(w, "parts", TP_TRUST_BUILTIN, 0);
  assert_int_equal(tp_edit_set_limit(edit, GATHER, 1, NULL), TP_OK);
  commit(w, edit);
  world_close(w);
}

TEST(last_limit_of_an_edit_counts) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_set_limit(edit, GATHER, 1, NULL), TP_OK);
  assert_int_equal(tp_edit_set_limit(edit, STOP, 7, NULL), TP_OK);
  assert_int_equal(tp_edit_set_limit(edit, GATHER, 2, NULL), TP_OK);
  w->count.asked = 0;
  w->count.refuse_at = 1;
  tp_status status = TP_OK; /* until the list must grow */
  for (int i = 0; i < 100 && status == TP_OK; i++) status = tp_edit_set_limit(edit, GATHER, 3, &w->fault);
  w->count.refuse_at = 0;
  assert_int_equal(status, TP_ERR_NO_MEMORY);
  commit(w, edit);
  assert_int_equal(limit_of(w, GATHER, "open"), 3);
  assert_int_equal(limit_of(w, STOP, "guard"), 7);
  world_close(w);
}

static void keep_text(void *ctx, const char *text, size_t size) {
  char *page = ctx;
  size_t used = strlen(page);
  assert_true(used + size < 32768);
  memcpy(page + used, text, size);
  page[used + size] = '\0';
}

TEST(limit_is_shown_as_the_hosts) {
  world *w = peopled();
  static char page[32768];
  assert_int_equal(set_limit(w, GATHER, 2000), TP_OK);
  const struct {
    bool plan;
    tp_plan_format format;
    const char *parts[2];
  } cases[] = {
      {true, TP_PLAN_TABLE, {"budget 2 s, default limit 2 s (set by the host), hash ", "blocking         2 s "}},
      {true, TP_PLAN_JSON, {"\"default_limit_ms\":2000,\"default_limit_set_by_host\":true", "\"limit_ms\":2000"}},
      {true, TP_PLAN_JSON, {"\"default_limit_ms\":5000,\"default_limit_set_by_host\":false", "\"limit_ms\":70"}},
      {false, TP_PLAN_TABLE, {"2 s (set by the host)  best_effort", "5 s                    required"}},
      {false, TP_PLAN_JSON, {"\"limit_ms\":2000,\"limit_set_by_host\":true", "\"limit_set_by_host\":false"}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    page[0] = '\0';
    assert_int_equal(cases[i].plan ? tp__plan_print(w->registry, 0, cases[i].format, keep_text, page)
                                   : tp__phases_print(w->registry, cases[i].format, keep_text, page),
                     TP_OK);
    for (int k = 0; k < 2; k++)
      if (!strstr(page, cases[i].parts[k])) fail_msg("`%s` is not in:\n%s", cases[i].parts[k], page);
  }
  world_close(w);
}

static bool last_row(void *ctx, const tp_audit *row) { return snprintf(ctx, 256, "%s", row->detail), true; }

TEST(audit_counts_limits) {
  world *w = peopled();
  char detail[256] = "";
  assert_int_equal(set_limit(w, GATHER, 2000), TP_OK);
  tp__registry_audit(w->registry, TP_VISIBILITY_INTERNAL, last_row, detail);
  assert_non_null(strstr(detail, "budgets 0, limits 1"));
  world_close(w);
}
