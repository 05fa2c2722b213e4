/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation on the way to a published snapshot is refused: each one alone, and each one together with all later
 * ones. The result is TP_ERR_NO_MEMORY, the old plan stays in force, the next try works, and nothing leaks. destroy is
 * called exactly once for each object that was taken, and never for others. */
#include "tests/support/test.h"
#include "tests/unit/plan_world.h"

enum { HANDLERS = 12, SUBSCRIPTIONS = 40 };

typedef struct lives {
  int handlers[HANDLERS];
  int matches[SUBSCRIPTIONS];
  bool handler_taken[HANDLERS];
  bool match_taken[SUBSCRIPTIONS];
} lives;

static void end_life(void *ctx) { (*(int *)ctx)++; }

static int32_t matches_all(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_YES;
}

static tp_status add_one_handler(tp_edit *edit, int i, lives *l) {
  char id[16];
  snprintf(id, sizeof id, "h%d", i);
  tp_handler handler = handler_of(id);
  handler.summary =
      "a summary that is long enough to need some room of its own, so that one more allocation is made for "
      "it than the first buffer of a handler would cover, however large that one was made to be";
  handler.ctx = &l->handlers[i];
  handler.destroy = end_life;
  tp_status status = tp_edit_add_handler(edit, &handler, NULL);
  l->handler_taken[i] = status == TP_OK;
  return status;
}

static tp_status add_one_subscription(tp_edit *edit, int i, lives *l) {
  char id[16], handler[16], before[16];
  snprintf(id, sizeof id, "s%02d", i);
  snprintf(handler, sizeof handler, "h%d", i % HANDLERS);
  snprintf(before, sizeof before, "s%02d", i - 2);
  const tp_edge two = {.struct_size = sizeof two, .target = before, .optional = true};
  const tp_edge old = {.struct_size = sizeof old, .target = "old", .optional = true};
  const tp_edge *const edges[] = {&two, &old};
  static char words[600];
  memset(words, 'w', sizeof words - 1);
  const tp_contribution fallback[] = {
      {.struct_size = sizeof(tp_contribution),
       .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
       .key = {"k", 1},
       .text = {words, 500}},
      {.struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_DIAGNOSTIC, .text = {words, 400}}};
  const tp_contribution *const list[] = {&fallback[0], &fallback[1]};
  tp_subscription sub = subscription_of(id, i % 2 ? GATHER : REVERSE);
  sub.handler = handler;
  sub.after = edges;
  sub.after_count = i % 2 ? 2 : 1; /* "old" is in the phase of the subscriptions with odd numbers */
  sub.metadata = i % 3 ? "m" : words;
  sub.match = &(tp_match){.struct_size = sizeof(tp_match),
                          .matches = matches_all,
                          .destroy = end_life,
                          .ctx = &l->matches[i],
                          .description = "always"};
  if (i % 2) {
    sub.failure = TP_FAILURE_FALLBACK;
    sub.fallback = list;
    sub.fallback_count = 2;
  }
  tp_status status = tp_edit_add_subscription(edit, &sub, NULL);
  l->match_taken[i] = status == TP_OK;
  return status;
}

/* The whole way, giving up at the first refusal. */
static tp_status go(tp__registry *registry, lives *l, tp_fault *fault) {
  tp_edit *edit;
  tp_status status = tp__edit_new(registry, NULL, &edit, NULL);
  if (status != TP_OK) return status;
  for (int i = 0; i < HANDLERS && status == TP_OK; i++) status = add_one_handler(edit, i, l);
  for (int i = 0; i < SUBSCRIPTIONS && status == TP_OK; i++) status = add_one_subscription(edit, i, l);
  if (status == TP_OK) status = tp_edit_remove_subscription(edit, "older", NULL);
  if (status == TP_OK) status = tp_edit_enable(edit, "old", true, NULL);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static void prepare(world *w) {
  tp_edit *edit = edit_with_handler(w);
  tp_subscription old = subscription_of("old", GATHER);
  old.disabled = true;
  add(edit, old);
  add(edit, subscription_of("older", GATHER));
  commit(w, edit);
}

static void assert_ended(const lives *l, int times) {
  for (int i = 0; i < HANDLERS; i++) assert_int_equal(l->handlers[i], l->handler_taken[i] ? times : 0);
  for (int i = 0; i < SUBSCRIPTIONS; i++) assert_int_equal(l->matches[i], l->match_taken[i] ? times : 0);
}

/* @return false when the way was made without a refusal: all are tried. */
static bool try_refusing(size_t n, bool rest) {
  world *w = world_open();
  prepare(w);
  lives refused = {0}, taken = {0};
  tp__snapshot *before = tp__registry_pin(w->registry);
  w->count.asked = 0;
  w->count.refuse_at = n;
  w->count.refuse_rest = rest;
  tp_status status = go(w->registry, &refused, &w->fault);
  bool was_refused = w->count.asked >= n;
  w->count.refuse_at = 0;
  tp__snapshot *after = tp__registry_pin(w->registry);
  if (was_refused) {
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    assert_ptr_equal(before, after);
    assert_ended(&refused, 1);
    tp__snapshot_unpin(after);
    assert_int_equal(go(w->registry, &taken, &w->fault), TP_OK);
    after = tp__registry_pin(w->registry);
    assert_ended(&taken, 0);
  } else {
    assert_int_equal(status, TP_OK);
    assert_ended(&refused, 0);
  }
  assert_int_equal(after->version, before->version + 1);
  assert_int_equal(after->plans[GATHER]->node_count, SUBSCRIPTIONS / 2 + 1);
  tp__snapshot_unpin(before);
  tp__snapshot_unpin(after);
  world_close(w);
  assert_ended(&refused, 1);
  assert_ended(&taken, 1);
  return was_refused;
}

TEST(a_refused_allocation_anywhere_on_the_way_to_a_commit_changes_nothing) {
  size_t n = 1;
  while (try_refusing(n, false)) n++;
  assert_true(n > 100);
}

TEST(memory_that_stays_refused_changes_nothing) {
  size_t n = 1;
  while (try_refusing(n, true)) n++;
  assert_true(n > 100);
}

/* The same commit is tried again and again, and gets a little further each time: the edit must stay complete. */
TEST(a_commit_that_was_refused_memory_can_be_tried_again) {
  world *w = world_open();
  prepare(w);
  lives l = {0};
  tp_edit *edit = edit_of(w);
  for (int i = 0; i < HANDLERS; i++) assert_int_equal(add_one_handler(edit, i, &l), TP_OK);
  for (int i = 0; i < SUBSCRIPTIONS; i++) assert_int_equal(add_one_subscription(edit, i, &l), TP_OK);
  tp_status status = TP_ERR_NO_MEMORY;
  size_t tries = 0;
  for (size_t n = 1; status != TP_OK; n++, tries++) {
    w->count.asked = 0;
    w->count.refuse_at = n;
    status = tp_edit_commit(edit, NULL, &w->fault);
    if (status != TP_OK) {
      assert_int_equal(status, TP_ERR_NO_MEMORY);
      assert_int_equal(w->fault.code, TP_ERR_NO_MEMORY);
      assert_ended(&l, 0);
    }
  }
  w->count.refuse_at = 0;
  assert_true(tries > 8); /* most of the memory of a commit comes from arenas, in few pieces */
  tp__snapshot *snapshot;
  assert_int_equal(pin_plan(w, GATHER, &snapshot)->node_count, SUBSCRIPTIONS / 2 + 1);
  tp__snapshot_unpin(snapshot);
  world_close(w);
  assert_ended(&l, 1);
}

static bool last_row(void *ctx, const tp_audit *row) {
  *(tp_status *)ctx = row->status;
  return true;
}

TEST(a_commit_refused_for_memory_is_in_the_audit) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  w->count.asked = 0;
  w->count.refuse_at = 1;
  w->count.refuse_rest = true;
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_ERR_NO_MEMORY);
  tp_status seen = TP_OK;
  assert_int_equal(tp__registry_audit(w->registry, TP_VISIBILITY_INTERNAL, last_row, &seen), 1);
  assert_int_equal(seen, TP_ERR_NO_MEMORY);
  tp_edit_discard(edit);
  world_close(w);
}

TEST(a_hook_without_memory_is_not_added) {
  size_t n = 1;
  for (;; n++) {
    world *w = world_open();
    w->count.asked = 0;
    w->count.refuse_at = n;
    tp_status status = tp__hook_add(w->registry, HOOK("test.stop", no_run, NULL), &w->fault);
    w->count.refuse_at = 0;
    bool refused = w->count.asked >= n;
    assert_int_equal(status, refused ? TP_ERR_NO_MEMORY : TP_OK);
    tp__snapshot *snapshot = tp__registry_pin(w->registry);
    assert_int_equal(snapshot->version, refused ? 0 : 1);
    tp__snapshot_unpin(snapshot);
    if (refused) assert_int_equal(tp__hook_add(w->registry, HOOK("test.stop", no_run, NULL), &w->fault), TP_OK);
    world_close(w);
    if (!refused) break;
  }
  assert_true(n > 10);
}

TEST(a_registry_without_memory_is_not_made) {
  static const uint32_t fields[] = {TP_FIELD_HOST};
  static const tp_phase rows[] = {
      {.struct_size = sizeof *rows, .name = "host.a", .mode = TP_MODE_GATHER, .fields = fields, .field_count = 1},
      {.struct_size = sizeof *rows, .name = "host.b", .mode = TP_MODE_OBSERVE, .fields = fields, .field_count = 1}};
  static const tp_phase *const list[] = {&rows[0], &rows[1]};
  size_t n = 1;
  for (;; n++) {
    counter count = {.refuse_at = n};
    const tp_allocator allocator = {.alloc = counted_alloc, .release = counted_release, .ctx = &count};
    tp__registry *registry = NULL;
    tp_fault fault;
    tp_status status =
        tp__registry_new(&allocator, world_rows, PHASES, world_aliases, 3, list, 2, &world_ops, &registry, &fault);
    if (status == TP_OK) {
      tp__registry_free(registry);
      assert_int_equal(count.blocks, 0);
      break;
    }
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    assert_int_equal(fault.code, TP_ERR_NO_MEMORY);
    assert_null(registry);
    assert_int_equal(count.blocks, 0);
  }
  assert_true(n > 3);
  tp__registry_free(NULL);
}
