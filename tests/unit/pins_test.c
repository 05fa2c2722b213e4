/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins of the newest version in several counters, each under a lock of its own. At a commit the counters are renewed
 * one after the other; this test plays the states in between step by step. */
#include "tests/support/test.h"
#include "runtime/plan/registry.h"
#include "tests/unit/plan_world.h"

/* Two counters of pins; `between` runs after the first was renewed and before the second is. */
typedef struct counters {
  tp__pins first, second;
  void (*between)(struct counters *c);
  tp__snapshot *held;
} counters;

static void renew_both(void *ctx, tp__snapshot *newest) {
  counters *c = ctx;
  tp__pins_renew(&c->first, newest);
  if (c->between) c->between(c);
  tp__pins_renew(&c->second, newest);
}

static void give(tp__pins *pins, tp__snapshot *snapshot) {
  if (!tp__pins_give(pins, snapshot)) tp__snapshot_unpin(snapshot);
}

static void destroyed(void *ctx) { ++*(int *)ctx; }

/* A version of its own: the handler of the one before is taken out with it. */
static void commit_version(world *w, int *ret_ends, const char *id, const char *before) {
  tp_edit *edit = edit_of(w);
  tp_handler handler = handler_of(id);
  handler.ctx = ret_ends;
  handler.destroy = destroyed;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  if (before) assert_int_equal(tp_edit_remove_handler(edit, before, NULL), TP_OK);
  commit(w, edit);
}

typedef struct stage {
  world *w;
  counters c;
  int ends[3]; /* of the versions' handlers, "v0" first */
} stage;

static stage *open_stage(void) {
  stage *s = calloc(1, sizeof *s);
  assert_non_null(s);
  s->w = world_open();
  commit_version(s->w, &s->ends[0], "v0", NULL);
  tp__registry_on_publish(s->w->registry, renew_both, &s->c);
  return s;
}

/* Also proves that each handler ends once, and that no version is left. */
static void close_stage(stage *s, int versions) {
  tp__pins_renew(&s->c.first, NULL);
  tp__pins_renew(&s->c.second, NULL);
  world_close(s->w);
  for (int i = 0; i < versions; i++) assert_int_equal(s->ends[i], 1);
  free(s);
}

/* Like a turn that begins on a thread which knows the new version, and ends on a thread which does not yet. */
static void begin_and_end(counters *c) {
  tp__snapshot *taken = tp__pins_take(&c->first);
  assert_ptr_not_equal(taken, c->second.snapshot);
  give(&c->second, taken);
}

TEST(version_that_only_some_know_outlives_one_return) {
  stage *s = open_stage();
  s->c.between = begin_and_end;
  commit_version(s->w, &s->ends[1], "v1", "v0");
  assert_int_equal(s->ends[0], 1);
  assert_int_equal(s->ends[1], 0);
  s->c.between = NULL;
  commit_version(s->w, &s->ends[2], "v2", "v1");
  assert_int_equal(s->ends[1], 1);
  close_stage(s, 3);
}

static void take_while_it_is_old(counters *c) { c->held = tp__pins_take(&c->second); }

TEST(version_that_is_taken_while_it_is_replaced_goes_with_its_last_holder) {
  stage *s = open_stage();
  s->c.between = take_while_it_is_old;
  commit_version(s->w, &s->ends[1], "v1", "v0");
  assert_int_equal(s->ends[0], 0);
  give(&s->c.first, s->c.held);
  assert_int_equal(s->ends[0], 1);
  close_stage(s, 2);
}

TEST(what_one_counter_took_another_may_return) {
  stage *s = open_stage();
  tp__snapshot *held[3];
  for (int i = 0; i < 3; i++) held[i] = tp__pins_take(&s->c.first);
  give(&s->c.second, held[0]);
  give(&s->c.second, held[1]);
  assert_true(s->c.second.count == -2);
  commit_version(s->w, &s->ends[1], "v1", "v0");
  assert_int_equal(s->ends[0], 0);
  give(&s->c.second, held[2]);
  assert_int_equal(s->ends[0], 1);
  close_stage(s, 2);
}
