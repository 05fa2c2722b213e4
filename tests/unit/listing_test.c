/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over registered subscriptions: in plans, disabled, killed, and with the alias of each. */
#include "tests/support/test.h"
#include "tests/support/edges.h"
#include "tests/unit/plan_world.h"

typedef struct seen {
  tp_subscription_info infos[16];
  size_t count, most; /* most: after so many each says false */
} seen;

static bool keep(void *ctx, const tp_subscription_info *info) {
  seen *s = ctx;
  s->infos[s->count++] = *info;
  return s->count != s->most;
}

static const char *ids_of(const seen *s) {
  static char text[256];
  text[0] = '\0';
  for (size_t i = 0; i < s->count; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", s->infos[i].id);
  }
  return text;
}

static seen walk(world *w, const tp_subscription_query *query) {
  seen s = {.count = 0};
  assert_int_equal(tp__registry_subscriptions(w->registry, query, keep, &s, NULL), TP_OK);
  return s;
}

static int32_t matches_all(void *ctx, const tp_match_view *view) { return (void)ctx, (void)view, TP_MATCH_YES; }

/* Of the host: first -> second in GATHER, a disabled "off" through an alias, a guard. Of "ext": "theirs". */
static world *peopled(void) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  tp_handler inlined = handler_of("q");
  inlined.placement = TP_PLACEMENT_INLINE;
  inlined.kind = TP_HANDLER_SCRIPT;
  inlined.origin_file = "q.js";
  inlined.origin_line = 12;
  assert_int_equal(tp_edit_add_handler(edit, &inlined, NULL), TP_OK);
  tp_subscription second = subscription_of("second", GATHER);
  second.handler = "q";
  second.after = EDGES(EDGE("first", false), EDGE("nobody", true));
  second.after_count = 2;
  second.needs = EDGES(EDGE("first", false));
  second.needs_count = 1;
  second.metadata = "mine";
  second.visibility = TP_VISIBILITY_USER_AUDIT;
  second.priority = -7;
  second.execution = TP_EXECUTION_DEADLINE;
  second.limit_ms = 77;
  second.match = &(tp_match){.struct_size = sizeof(tp_match), .matches = matches_all, .description = "all"};
  add(edit, second);
  add(edit, subscription_of("first", GATHER));
  tp_subscription off = subscription_of("off", TP_PHASE_NONE);
  off.phase_name = "inOrder";
  off.disabled = true;
  off.before = EDGES(EDGE("second", false));
  off.before_count = 1;
  off.max_concurrent = 3;
  add(edit, off);
  tp_subscription guard = subscription_of("guard", TP_PHASE_NONE);
  guard.phase_name = "test.stop";
  add(edit, guard);
  commit(w, edit);
  edit = edit_by(w, "ext", TP_TRUST_DECLARED, TP_GRANT_PRIVILEGED_HOOKS);
  tp_subscription theirs = subscription_of("theirs", OBSERVE);
  theirs.phase_name = "infra";
  add(edit, theirs);
  commit(w, edit);
  return w;
}

TEST(enabled_one_is_shown_with_its_resolved_policies) {
  world *w = peopled();
  seen s = walk(w, NULL);
  assert_string_equal(ids_of(&s), "first second off guard theirs");
  const tp_subscription_info *info = &s.infos[1];
  assert_int_equal(info->struct_size, sizeof *info);
  assert_string_equal(info->handler, "q");
  assert_string_equal(info->owner, "host");
  assert_int_equal(info->trust, TP_TRUST_HOST);
  assert_int_equal(info->grants, 0);
  assert_int_equal(info->phase, GATHER);
  assert_string_equal(info->phase_name, "test.gather");
  assert_string_equal(info->alias, "");
  assert_false(info->disabled || info->killed || info->sequential);
  assert_int_equal(info->execution, TP_EXECUTION_DEADLINE);
  assert_int_equal(info->failure, TP_FAILURE_BEST_EFFORT);
  assert_int_equal(info->placement, TP_PLACEMENT_INLINE);
  assert_int_equal(info->limit_ms, 77);
  assert_int_equal(info->max_concurrent, 0);
  assert_int_equal(info->attempts, 1);
  assert_int_equal(info->priority, -7);
  assert_int_equal(info->visibility, TP_VISIBILITY_USER_AUDIT);
  assert_int_equal(info->order, 2);
  assert_int_equal(info->level, 1);
  assert_string_equal(info->match, "all");
  assert_string_equal(info->metadata, "mine");
  assert_int_equal(info->after_count, 2);
  assert_string_equal(info->after[1]->target, "nobody");
  assert_true(info->after[1]->optional && !info->after[0]->optional);
  assert_int_equal(info->needs_count, 1);
  assert_string_equal(info->needs[0]->target, "first");
  assert_int_equal(info->before_count, 0);
  assert_string_equal(info->origin_file, "q.js");
  assert_int_equal(info->origin_line, 12);
  assert_int_equal(info->kind, TP_HANDLER_SCRIPT);
  info = &s.infos[0];
  assert_int_equal(info->max_concurrent, 16);
  assert_int_equal(info->limit_ms, 5000);
  assert_int_equal(info->order, 1);
  assert_int_equal(info->level, 0);
  assert_string_equal(info->match, "");
  assert_string_equal(info->metadata, "");
  assert_null(info->origin_file);
  assert_int_equal(info->kind, TP_HANDLER_NATIVE);
  assert_string_equal(s.infos[3].alias, ""); /* its phase's own name is none */
  world_close(w);
}

TEST(disabled_one_is_shown_with_what_it_would_be) {
  world *w = peopled();
  seen s = walk(w, NULL);
  const tp_subscription_info *info = &s.infos[2];
  assert_true(info->disabled);
  assert_false(info->killed);
  assert_true(info->sequential); /* the subscription is found by its alias */
  assert_string_equal(info->alias, "inOrder");
  assert_int_equal(info->order, 0);
  assert_int_equal(info->level, -1);
  assert_int_equal(info->execution, TP_EXECUTION_BLOCKING);
  assert_int_equal(info->limit_ms, 5000);
  assert_int_equal(info->max_concurrent, 3);
  assert_string_equal(info->before[0]->target, "second");
  info = &s.infos[4];
  assert_string_equal(info->alias, "infra");
  assert_string_equal(info->owner, "ext");
  assert_int_equal(info->trust, TP_TRUST_DECLARED);
  assert_int_equal(info->grants, TP_GRANT_PRIVILEGED_HOOKS);
  world_close(w);
}

TEST(killed_one_says_so_in_its_place) {
  world *w = peopled();
  bool was;
  assert_int_equal(tp__registry_switch(w->registry, "first", TP__SWITCH_KILL, true, &was, NULL), TP_OK);
  assert_int_equal(tp__registry_switch(w->registry, "off", TP__SWITCH_KILL, true, &was, NULL), TP_OK);
  seen s = walk(w, NULL);
  assert_true(s.infos[0].killed && !s.infos[0].disabled);
  assert_int_equal(s.infos[0].order, 1);
  assert_true(s.infos[2].killed && s.infos[2].disabled);
  assert_false(s.infos[1].killed);
  world_close(w);
}

TEST(phase_with_nothing_enabled_is_walked_too) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_enable(edit, "guard", false, NULL), TP_OK);
  commit(w, edit);
  seen s = walk(w, &(tp_subscription_query){.struct_size = sizeof(tp_subscription_query), .phase = STOP});
  assert_string_equal(ids_of(&s), "guard");
  assert_true(s.infos[0].disabled);
  assert_int_equal(s.infos[0].failure, TP_FAILURE_REQUIRED); /* the phase's */
  world_close(w);
}

#define QUERY(...) (&(tp_subscription_query){.struct_size = sizeof(tp_subscription_query), __VA_ARGS__})

TEST(query_leaves_out_what_does_not_fit) {
  world *w = peopled();
  const struct {
    const tp_subscription_query *query;
    const char *ids;
  } cases[] = {
      {QUERY(.phase = GATHER), "first second off"},
      {QUERY(.owner = "host"), "first second off guard"},
      {QUERY(.owner = "ext"), "theirs"},
      {QUERY(.owner = "nobody"), ""},
      {QUERY(.trust = TP_TRUST_DECLARED), "theirs"},
      {QUERY(.only_enabled = 1), "first second guard theirs"},
      {QUERY(.phase = CODE_ONLY), ""},
      {QUERY(.owner = "ext", .trust = TP_TRUST_HOST), ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    seen s = walk(w, cases[i].query);
    assert_string_equal(ids_of(&s), cases[i].ids);
  }
  world_close(w);
}

TEST(each_may_stop_anywhere) {
  world *w = peopled();
  for (size_t most = 1; most <= 5; most++) {
    seen s = {.most = most};
    assert_int_equal(tp__registry_subscriptions(w->registry, NULL, keep, &s, NULL), TP_OK);
    assert_int_equal(s.count, most);
  }
  world_close(w);
}

TEST(wrong_query_is_refused) {
  world *w = peopled();
  const struct {
    const tp_subscription_query *query;
    tp_status status;
    const char *word;
  } cases[] = {
      {&(tp_subscription_query){.phase = GATHER}, TP_ERR_VERSION, "struct_size"},
      {QUERY(.phase = 63), TP_ERR_UNKNOWN_PHASE, "phase 63"},
      {QUERY(.phase = UINT32_MAX), TP_ERR_UNKNOWN_PHASE, "no phase"},
      {QUERY(.trust = (tp_trust)4), TP_ERR_USAGE, "trust 4"},
      {QUERY(.only_enabled = 2), TP_ERR_USAGE, "only_enabled is 2"},
      {QUERY(.reserved_ = 1), TP_ERR_USAGE, "reserved_"},
  };
  seen s = {.count = 0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(tp__registry_subscriptions(w->registry, cases[i].query, keep, &s, &w->fault), cases[i].status);
    assert_non_null(strstr(w->fault.message, cases[i].word));
  }
  assert_int_equal(tp__registry_subscriptions(w->registry, NULL, NULL, NULL, &w->fault), TP_ERR_USAGE);
  assert_int_equal(s.count, 0);
  world_close(w);
}

/* ---- a commit in the middle of a walk ---- */

typedef struct meddler {
  world *w;
  seen seen;
} meddler;

static bool remove_all(void *ctx, const tp_subscription_info *info) {
  meddler *m = ctx;
  if (m->seen.count == 0) {
    tp_edit *edit = edit_by(m->w, "all", TP_TRUST_BUILTIN, 0);
    static const char *const ids[] = {"first", "second", "off", "guard", "theirs"};
    for (size_t i = 0; i < 5; i++) assert_int_equal(tp_edit_remove_subscription(edit, ids[i], NULL), TP_OK);
    assert_int_equal(tp_edit_remove_handler(edit, "h", NULL), TP_OK);
    commit(m->w, edit);
  }
  return keep(&m->seen, info) && strlen(info->id) > 0;
}

TEST(walk_stays_at_its_version_while_each_commits) {
  meddler m = {.w = peopled()};
  assert_int_equal(tp__registry_subscriptions(m.w->registry, NULL, remove_all, &m, NULL), TP_OK);
  assert_int_equal(m.seen.count, 5);
  seen s = walk(m.w, NULL);
  assert_int_equal(s.count, 0);
  world_close(m.w);
}

TEST(walking_needs_no_memory) {
  world *w = peopled();
  w->count.refuse_at = 1;
  w->count.refuse_rest = true;
  w->count.asked = 0;
  assert_int_equal(walk(w, NULL).count, 5);
  assert_int_equal(w->count.asked, 0);
  world_close(w);
}

/* ---- through the public API ---- */

static tp_answer done(void *ctx, tp_call *call) { return (void)ctx, (void)call, TP_ANSWER_DONE; }

TEST(runtime_walks_its_hooks) {
  tp_runtime *runtime;
  assert_int_equal(tp_runtime_new(NULL, &runtime, NULL), TP_OK);
  assert_int_equal(tp_hook_add(runtime, HOOK("PreAbilityCall", done, NULL), NULL), TP_OK);
  seen s = {.count = 0};
  assert_int_equal(tp_runtime_subscriptions(runtime, NULL, keep, &s, NULL), TP_OK);
  assert_int_equal(s.count, 1);
  assert_string_equal(s.infos[0].id, "hook-1");
  assert_string_equal(s.infos[0].phase_name, "tool.pre");
  assert_string_equal(s.infos[0].alias, "PreAbilityCall");
  assert_int_equal(tp_runtime_subscriptions(runtime, NULL, NULL, NULL, NULL), TP_ERR_USAGE);
  tp_runtime_free(runtime);
}
