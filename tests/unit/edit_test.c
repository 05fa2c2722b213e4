/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"
#include "tests/support/edges.h"
#include "tests/unit/plan_world.h"

#define LIST(...) ((const tp_contribution *const[]){__VA_ARGS__})
#define MATCH(reads, count)                           \
  (&(const tp_match){.struct_size = sizeof(tp_match), \
                     .matches = matches_all,          \
                     .description = "all",            \
                     .fields = (reads),               \
                     .field_count = (count)})

static int32_t matches_all(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_YES;
}

static tp_status switch_off(world *w, const char *id, bool off) {
  bool was;
  return tp__registry_switch(w->registry, id, TP__SWITCH_KILL, off, &was, NULL);
}

/* ---- refused at commit ---- */

static bool last_row(void *ctx, const tp_audit *row) {
  tp_audit *last = ctx;
  *last = *row;
  return true;
}

/* Commits an edit that must be refused. Checks that the message names the ids, that nothing has changed, and that the
 * audit has the refusal. The edit is discarded. */
static void assert_refused(world *w, tp_edit *edit, tp_status code, const char *subject, const char *const *words) {
  tp__snapshot *before = tp__registry_pin(w->registry);
  memset(&w->fault, 0, sizeof w->fault);
  tp_commit_report report = {.struct_size = sizeof report, .snapshot_version = 77};
  tp_status status = tp_edit_commit(edit, &report, &w->fault);
  if (status != code) fail_msg("%s instead of %s: %s", tp_status_name(status), tp_status_name(code), w->fault.message);
  assert_int_equal(w->fault.code, code);
  assert_int_equal(report.snapshot_version, 77);
  assert_string_equal(w->fault.subject, subject);
  for (; *words; words++) {
    if (!strstr(w->fault.message, *words)) fail_msg("`%s` is not named in: %s", *words, w->fault.message);
  }
  tp_audit last = {0};
  tp__registry_audit(w->registry, TP_VISIBILITY_INTERNAL, last_row, &last);
  assert_int_equal(last.status, code);
  assert_true(last.snapshot_hash == before->hash);
  tp__snapshot *after = tp__registry_pin(w->registry);
  assert_ptr_equal(before, after);
  tp__snapshot_unpin(before);
  tp__snapshot_unpin(after);
  tp_edit_discard(edit);
}
#define WORDS(...) \
  (const char *const[]) { __VA_ARGS__, NULL }

/* A world in which gather holds "ok", stop holds "gate", and "off" is disabled. */
static world *peopled(void) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add(edit, subscription_of("ok", GATHER));
  add(edit, subscription_of("gate", STOP));
  tp_subscription off = subscription_of("off", GATHER);
  off.disabled = true;
  add(edit, off);
  tp_subscription fire = subscription_of("fire", GATHER);
  fire.execution = TP_EXECUTION_FIRE_AND_RECORD;
  add(edit, fire);
  commit(w, edit);
  return w;
}

TEST(a_missing_handler_is_named) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  tp_subscription sub = subscription_of("new", GATHER);
  sub.handler = "ghost";
  add(edit, sub);
  assert_refused(w, edit, TP_ERR_MISSING_HANDLER, "new", WORDS("`new`", "`ghost`", "test.gather"));
  assert_int_equal(w->fault.phase, GATHER);
  world_close(w);
}

TEST(a_handler_that_is_still_used_is_not_removed) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_remove_handler(edit, "h", NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_MISSING_HANDLER, "ok", WORDS("`ok`", "`h`"));
  edit = edit_of(w); /* the disabled subscription needs it as well */
  assert_int_equal(tp_edit_remove_handler(edit, "h", NULL), TP_OK);
  assert_int_equal(tp_edit_remove_subscription(edit, "ok", NULL), TP_OK);
  assert_int_equal(tp_edit_remove_subscription(edit, "gate", NULL), TP_OK);
  assert_int_equal(tp_edit_remove_subscription(edit, "fire", NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_MISSING_HANDLER, "off", WORDS("`off`", "`h`"));
  world_close(w);
}

TEST(an_unsupported_phase_is_refused) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  tp_handler handler = handler_of("limited");
  handler.phases = (const uint32_t[]){STOP};
  handler.phase_count = 1;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  tp_subscription sub = subscription_of("new", GATHER);
  sub.handler = "limited";
  add(edit, sub);
  assert_refused(w, edit, TP_ERR_UNSUPPORTED_PHASE, "new", WORDS("`new`", "`limited`", "test.gather"));
  world_close(w);
}

typedef enum relation { AFTER, BEFORE, REQUIRES } relation;

static tp_edit *edit_with_edge(world *w, uint32_t phase, relation what, const char *target, bool optional) {
  tp_edit *edit = edit_of(w);
  const tp_edge *const *edges = EDGES(EDGE(target, optional));
  tp_subscription sub = subscription_of("new", phase);
  if (what == AFTER) sub.after = edges, sub.after_count = 1;
  if (what == BEFORE) sub.before = edges, sub.before_count = 1;
  if (what == REQUIRES) sub.needs = edges, sub.needs_count = 1;
  add(edit, sub);
  return edit;
}

TEST(bad_edges_are_refused_each_with_its_code) {
  static const struct {
    uint32_t phase;
    relation what;
    const char *target;
    bool optional;
    tp_status code;
    const char *word;
  } rows[] = {
      {GATHER, AFTER, "gate", false, TP_ERR_CROSS_PHASE, "test.stop"},
      {GATHER, BEFORE, "gate", false, TP_ERR_CROSS_PHASE, "test.stop"},
      {GATHER, REQUIRES, "gate", true, TP_ERR_CROSS_PHASE, "test.stop"}, /* optional is no excuse: never right */
      {GATHER, AFTER, "ghost", false, TP_ERR_MISSING_DEPENDENCY, "after"},
      {GATHER, BEFORE, "ghost", false, TP_ERR_MISSING_DEPENDENCY, "before"},
      {GATHER, REQUIRES, "ghost", false, TP_ERR_MISSING_DEPENDENCY, "needs"},
      {GATHER, AFTER, "off", false, TP_ERR_DISABLED_DEPENDENCY, "disabled"},
      {GATHER, BEFORE, "off", false, TP_ERR_DISABLED_DEPENDENCY, "disabled"},
      {GATHER, AFTER, "new", false, TP_ERR_SELF_DEPENDENCY, "itself"},
      {GATHER, REQUIRES, "new", true, TP_ERR_SELF_DEPENDENCY, "itself"},
      {GATHER, AFTER, "fire", false, TP_ERR_DETACHED_TARGET, "fire_and_record"},
      {GATHER, BEFORE, "fire", false, TP_ERR_DETACHED_TARGET, "fire_and_record"},
      {GATHER, REQUIRES, "fire", true, TP_ERR_DETACHED_TARGET, "fire_and_record"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world *w = peopled();
    tp_edit *edit = edit_with_edge(w, rows[i].phase, rows[i].what, rows[i].target, rows[i].optional);
    assert_refused(w, edit, rows[i].code, "new", WORDS("`new`", rows[i].target, "test.gather", rows[i].word));
    assert_int_equal(w->fault.phase, GATHER);
    world_close(w);
  }
}

TEST(a_target_that_goes_or_is_disabled_takes_the_edge_with_it) {
  world *w = peopled();
  tp_edit *edit = edit_with_edge(w, GATHER, REQUIRES, "ok", false);
  commit(w, edit);
  edit = edit_of(w);
  assert_int_equal(tp_edit_remove_subscription(edit, "ok", NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_MISSING_DEPENDENCY, "new", WORDS("`new`", "`ok`"));
  edit = edit_of(w);
  assert_int_equal(tp_edit_enable(edit, "ok", false, NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_DISABLED_DEPENDENCY, "new", WORDS("`new`", "`ok`"));
  world_close(w);
}

TEST(a_cycle_is_reported_with_its_members) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  tp_subscription c = subscription_of("c", GATHER), a = subscription_of("a", GATHER), b = subscription_of("b", GATHER);
  c.after = EDGES(EDGE("b", false));
  a.after = EDGES(EDGE("c", false));
  b.needs = EDGES(EDGE("a", false));
  c.after_count = a.after_count = b.needs_count = 1;
  add(edit, c);
  add(edit, a);
  add(edit, b);
  tp_subscription behind = subscription_of("behind", GATHER);
  behind.after = EDGES(EDGE("c", false));
  behind.after_count = 1;
  add(edit, behind);
  assert_refused(w, edit, TP_ERR_CYCLE, "a", WORDS("test.gather", ": a -> b -> c -> a"));
  assert_int_equal(w->fault.phase, GATHER);
  assert_string_equal(strstr(w->fault.message, ": ") + 2, "a -> b -> c -> a");
  assert_order(w, GATHER, "fire ok"); /* the old plan stays in force */
  world_close(w);
}

TEST(a_cycle_that_the_line_of_sequential_ones_closes_is_reported) {
  for (uint32_t phase = GATHER; phase <= REVERSE; phase += REVERSE - GATHER) {
    world *w = world_open();
    tp_edit *edit = edit_with_handler(w);
    tp_subscription first = subscription_of("first", phase), second = subscription_of("second", phase);
    first.sequential = second.sequential = TP_SEQUENTIAL_ON;
    first.after = EDGES(EDGE("second", false));
    first.after_count = 1;
    add(edit, first);
    add(edit, second);
    if (phase == GATHER) {
      assert_refused(w, edit, TP_ERR_CYCLE, "first", WORDS("first -> second -> first"));
    } else {
      commit(w, edit); /* backwards the second one is first anyway */
      assert_order(w, phase, "second first");
    }
    world_close(w);
  }
}

TEST(the_middle_of_a_long_cycle_is_left_out) {
  enum { COUNT = 1000 };
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  for (int i = 0; i < COUNT; i++) {
    char id[16], next[16];
    snprintf(id, sizeof id, "s%04d", i);
    snprintf(next, sizeof next, "s%04d", (i + 1) % COUNT);
    tp_subscription sub = subscription_of(id, GATHER);
    sub.before = EDGES(EDGE(next, false));
    sub.before_count = 1;
    add(edit, sub);
  }
  assert_refused(w, edit, TP_ERR_CYCLE, "s0000", WORDS(": s0000 -> s0001 -> s0002 -> ", " more) -> s0000"));
  world_close(w);
}

TEST(a_cycle_of_two_of_the_longest_ids_shows_both) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  char ids[2][TP_ID_BYTES_MAX + 1] = {{0}};
  for (int i = 0; i < 2; i++) memset(ids[i], 'a' + i, TP_ID_BYTES_MAX);
  for (int i = 0; i < 2; i++) {
    tp_subscription sub = subscription_of(ids[i], GATHER);
    sub.before = EDGES(EDGE(ids[1 - i], false));
    sub.before_count = 1;
    add(edit, sub);
  }
  assert_refused(w, edit, TP_ERR_CYCLE, ids[0], WORDS(ids[0], ids[1]));
  world_close(w);
}

TEST(a_cycle_of_the_longest_ids_still_names_its_members) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  char ids[4][TP_ID_BYTES_MAX + 1];
  for (int i = 0; i < 4; i++) {
    memset(ids[i], 'a' + i, TP_ID_BYTES_MAX);
    ids[i][TP_ID_BYTES_MAX] = '\0';
  }
  for (int i = 0; i < 4; i++) {
    tp_subscription sub = subscription_of(ids[i], GATHER);
    sub.before = EDGES(EDGE(ids[(i + 1) % 4], false));
    sub.before_count = 1;
    add(edit, sub);
  }
  assert_refused(w, edit, TP_ERR_CYCLE, ids[0], WORDS(ids[0], ids[1], "(2 more)"));
  assert_string_equal(w->fault.message + strlen(w->fault.message) - TP_ID_BYTES_MAX, ids[0]);
  world_close(w);
}

TEST(trust_is_checked) {
  static const struct {
    uint32_t phase;
    tp_trust trust;
    uint32_t grants;
    tp_status code;
  } rows[] = {{PRIVILEGED, TP_TRUST_HOST, 0, TP_ERR_PRIVILEGED},
              {PRIVILEGED, TP_TRUST_DECLARED, 0, TP_ERR_PRIVILEGED},
              {PRIVILEGED, TP_TRUST_HOST, TP_GRANT_PRIVILEGED_HOOKS, TP_OK},
              {PRIVILEGED, TP_TRUST_BUILTIN, 0, TP_OK},
              {CODE_ONLY, TP_TRUST_DECLARED, 0, TP_ERR_CODE_ONLY},
              {CODE_ONLY, TP_TRUST_DECLARED, TP_GRANT_PRIVILEGED_HOOKS, TP_ERR_CODE_ONLY},
              {CODE_ONLY, TP_TRUST_HOST, 0, TP_OK}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world *w = peopled();
    tp_edit *edit = edit_by(w, "plugin", rows[i].trust, rows[i].grants);
    add(edit, subscription_of("new", rows[i].phase));
    if (rows[i].code == TP_OK) commit(w, edit);
    else assert_refused(w, edit, rows[i].code, "new", WORDS("`new`", "`plugin`"));
    world_close(w);
  }
}

TEST(a_declared_handler_stays_declared_whichever_owner_subscribes_it) {
  world *w = peopled();
  tp_edit *edit = edit_by(w, "files", TP_TRUST_DECLARED, 0);
  add_handler(edit, "script");
  commit(w, edit);
  edit = edit_of(w);
  tp_subscription sub = subscription_of("new", CODE_ONLY);
  sub.handler = "script";
  add(edit, sub);
  assert_refused(w, edit, TP_ERR_CODE_ONLY, "new", WORDS("`new`", "`files`"));
  world_close(w);
}

TEST(policies_that_do_not_go_together_are_refused) {
  const tp_contribution context = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_PROMPT_CONTEXT, .key = {"k", 1}};
  const tp_contribution section = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_PROMPT_SECTION, .key = {"k", 1}};
  const tp_contribution policy = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_POLICY, .key = {"k", 1}};
  const tp_contribution strange = {.struct_size = sizeof strange, .kind = 4711};
  const tp_contribution manifest = {.struct_size = sizeof(tp_contribution),
                                    .kind = TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC};
  const struct {
    const char *what;
    tp_status code;
    tp_subscription sub;
  } rows[] = {
      {"required observer", TP_ERR_OBSERVER_REQUIRED, {.phase = OBSERVE, .failure = TP_FAILURE_REQUIRED}},
      {"observer that requires",
       TP_ERR_OBSERVER_REQUIRED,
       {.phase = OBSERVE, .needs = EDGES(EDGE("x", true)), .needs_count = 1}},
      {"required and fired in a chain with verdicts",
       TP_ERR_DETACHED_REQUIRED,
       {.phase = STOP, .failure = TP_FAILURE_REQUIRED, .execution = TP_EXECUTION_FIRE_AND_RECORD}},
      {"required by default, in the background",
       TP_ERR_DETACHED_REQUIRED,
       {.phase = STOP, .execution = TP_EXECUTION_BACKGROUND}},
      {"retried, but not idempotent", TP_ERR_USAGE, {.phase = GATHER, .attempts = 2}},
      {"fallback without anything", TP_ERR_BAD_FALLBACK, {.phase = GATHER, .failure = TP_FAILURE_FALLBACK}},
      {"fallback of a detached one",
       TP_ERR_BAD_FALLBACK,
       {.phase = GATHER,
        .failure = TP_FAILURE_FALLBACK,
        .execution = TP_EXECUTION_FIRE_AND_RECORD,
        .fallback = LIST(&context),
        .fallback_count = 1}},
      {"fallback that cannot be a verdict",
       TP_ERR_BAD_FALLBACK,
       {.phase = STOP, .failure = TP_FAILURE_FALLBACK, .fallback_verdict = (tp_verdict)5}},
      {"fallback that is not used", TP_ERR_USAGE, {.phase = GATHER, .fallback = LIST(&context), .fallback_count = 1}},
      {"fallback verdict that is not used", TP_ERR_USAGE, {.phase = STOP, .fallback_verdict = TP_VERDICT_DENY}},
      {"verdict where none is taken",
       TP_ERR_CAPABILITY,
       {.phase = GATHER, .failure = TP_FAILURE_FALLBACK, .fallback_verdict = TP_VERDICT_DENY}},
      {"ask where only allow and deny are taken",
       TP_ERR_CAPABILITY,
       {.phase = STOP_NO_ASK, .failure = TP_FAILURE_FALLBACK, .fallback_verdict = TP_VERDICT_ASK}},
      {"verdict that was not declared",
       TP_ERR_CAPABILITY,
       {.handler = "modest", .phase = STOP, .failure = TP_FAILURE_FALLBACK, .fallback_verdict = TP_VERDICT_ALLOW}},
      {"kind that the phase does not take",
       TP_ERR_CAPABILITY,
       {.phase = GATHER, .failure = TP_FAILURE_FALLBACK, .fallback = LIST(&policy), .fallback_count = 1}},
      {"kind that the handler did not declare",
       TP_ERR_CAPABILITY,
       {.handler = "modest",
        .phase = GATHER,
        .failure = TP_FAILURE_FALLBACK,
        .fallback = LIST(&context),
        .fallback_count = 1}},
      {"kind that neither knows",
       TP_ERR_CAPABILITY,
       {.phase = GATHER, .failure = TP_FAILURE_FALLBACK, .fallback = LIST(&section), .fallback_count = 1}},
      {"kind that does not exist",
       TP_ERR_CAPABILITY,
       {.phase = GATHER, .failure = TP_FAILURE_FALLBACK, .fallback = LIST(&strange), .fallback_count = 1}},
      {"diagnostic of another kind",
       TP_ERR_CAPABILITY,
       {.phase = GATHER, .failure = TP_FAILURE_FALLBACK, .fallback = LIST(&manifest), .fallback_count = 1}},
      {"match of a field that the phase lacks",
       TP_ERR_MATCH_KEY,
       {.phase = GATHER, .match = MATCH(((const uint32_t[]){TP_FIELD_TEXT, TP_FIELD_RESULT}), 2)}},
      {"match of a field that does not exist",
       TP_ERR_MATCH_KEY,
       {.phase = GATHER, .match = MATCH((const uint32_t[]){4711}, 1)}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world *w = peopled();
    for (int disabled = 0; disabled <= 1; disabled++) { /* a disabled subscription must be sound as well */
      tp_edit *edit = edit_of(w);
      tp_handler modest = handler_of("modest");
      modest.capabilities = TP_CAPABILITY_EMIT_AUDIT;
      assert_int_equal(tp_edit_add_handler(edit, &modest, NULL), TP_OK);
      tp_subscription sub = rows[i].sub;
      sub.struct_size = sizeof sub;
      sub.id = "new";
      if (!sub.handler) sub.handler = "h";
      sub.disabled = disabled;
      tp_status added = tp_edit_add_subscription(edit, &sub, NULL);
      if (added != TP_OK) fail_msg("%s: %s", rows[i].what, tp_status_name(added));
      assert_refused(w, edit, rows[i].code, "new", WORDS("`new`"));
    }
    world_close(w);
  }
}

TEST(policies_that_do_go_together_are_taken) {
  const tp_contribution context = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_PROMPT_CONTEXT, .key = {"k", 1}};
  const tp_contribution diagnostic = {.struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_DIAGNOSTIC};
  const tp_subscription rows[] = {
      {.phase = STOP, .failure = TP_FAILURE_BEST_EFFORT, .execution = TP_EXECUTION_FIRE_AND_RECORD},
      {.phase = GATHER_REQUIRED, .execution = TP_EXECUTION_BACKGROUND},
      {.phase = STOP, .failure = TP_FAILURE_FALLBACK, .fallback_verdict = TP_VERDICT_ASK},
      {.phase = STOP_NO_ASK, .failure = TP_FAILURE_FALLBACK, .fallback_verdict = TP_VERDICT_DENY},
      {.phase = GATHER, .failure = TP_FAILURE_FALLBACK, .fallback = LIST(&context), .fallback_count = 1},
      {.handler = "modest",
       .phase = GATHER,
       .failure = TP_FAILURE_FALLBACK,
       .fallback = LIST(&diagnostic),
       .fallback_count = 1},
      {.handler = "again", .phase = GATHER, .attempts = 5},
      {.phase = GATHER, .match = MATCH((const uint32_t[]){TP_FIELD_TOOL}, 1)},
      {.phase = OBSERVE, .execution = TP_EXECUTION_BACKGROUND},
  };
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  tp_handler modest = handler_of("modest"), again = handler_of("again");
  modest.capabilities = TP_CAPABILITY_EMIT_AUDIT;
  again.idempotent = true;
  assert_int_equal(tp_edit_add_handler(edit, &modest, NULL), TP_OK);
  assert_int_equal(tp_edit_add_handler(edit, &again, NULL), TP_OK);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char id[16];
    tp_subscription sub = rows[i];
    snprintf(id, sizeof id, "new%zu", i);
    sub.struct_size = sizeof sub;
    sub.id = id;
    if (!sub.handler) sub.handler = "h";
    add(edit, sub);
  }
  commit(w, edit);
  world_close(w);
}

TEST(a_required_limit_above_the_hosts_budget_is_refused) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  tp_subscription sub = subscription_of("new", GATHER);
  sub.failure = TP_FAILURE_REQUIRED;
  sub.limit_ms = 2001;
  add(edit, sub);
  assert_int_equal(tp_edit_set_budget(edit, GATHER, 2000, NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_BUDGET, "new", WORDS("`new`", "2001 ms", "2000 ms"));
  edit = edit_of(w);
  sub.limit_ms = 2000;
  add(edit, sub);
  tp_subscription fire = sub;
  fire.id = "detached";
  fire.execution = TP_EXECUTION_FIRE_AND_RECORD;
  fire.limit_ms = 9000;
  add(edit, fire);
  assert_int_equal(tp_edit_set_budget(edit, GATHER, 2000, NULL), TP_OK);
  commit(w, edit);
  edit = edit_of(w); /* the budget stays over commits, and is what refuses later ones */
  sub.id = "newer";
  sub.limit_ms = 2001;
  add(edit, sub);
  assert_refused(w, edit, TP_ERR_BUDGET, "newer", WORDS("`newer`"));
  edit = edit_of(w);
  add(edit, sub);
  assert_int_equal(tp_edit_set_budget(edit, GATHER, 0, NULL), TP_OK);
  commit(w, edit);
  edit = edit_of(w);
  sub.id = "asleep";
  sub.limit_ms = 3000;
  sub.disabled = true;
  add(edit, sub);
  commit(w, edit);
  edit = edit_of(w);
  assert_int_equal(tp_edit_set_budget(edit, GATHER, 2500, NULL), TP_OK);
  commit(w, edit); /* a disabled one is not held to the budget */
  edit = edit_of(w);
  assert_int_equal(tp_edit_enable(edit, "asleep", true, NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_BUDGET, "asleep", WORDS("3000 ms", "2500 ms"));
  world_close(w);
}

TEST(ids_that_are_taken_are_refused) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  add(edit, subscription_of("ok", STOP)); /* ids are unique over all phases */
  assert_refused(w, edit, TP_ERR_DUPLICATE_ID, "ok", WORDS("`ok`", "`host`"));
  edit = edit_of(w);
  add_handler(edit, "h");
  assert_refused(w, edit, TP_ERR_DUPLICATE_ID, "h", WORDS("`h`", "`host`"));
  edit = edit_of(w);
  tp_handler handler = handler_of("twice");
  tp_subscription sub = subscription_of("twice", GATHER); /* a handler and a subscription may share an id */
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_ERR_DUPLICATE_ID);
  assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_OK);
  assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_ERR_DUPLICATE_ID);
  commit(w, edit);
  world_close(w);
}

TEST(what_is_not_there_is_not_changed) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_remove_handler(edit, "ghost", NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_NOT_FOUND, "ghost", WORDS("handler `ghost`"));
  edit = edit_of(w);
  assert_int_equal(tp_edit_remove_subscription(edit, "ghost", NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_NOT_FOUND, "ghost", WORDS("subscription `ghost`"));
  for (int enabled = 0; enabled <= 1; enabled++) {
    edit = edit_of(w);
    assert_int_equal(tp_edit_enable(edit, "ghost", enabled, NULL), TP_OK);
    assert_refused(w, edit, TP_ERR_NOT_FOUND, "ghost", WORDS("subscription `ghost`"));
  }
  edit = edit_of(w);
  assert_int_equal(tp_edit_remove_subscription(edit, "ok", NULL), TP_OK);
  assert_int_equal(tp_edit_enable(edit, "ok", true, NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_NOT_FOUND, "ok", WORDS("subscription `ok`"));
  world_close(w);
}

TEST(an_owner_changes_only_its_own) {
  world *w = peopled();
  tp_edit *edit = edit_by(w, "plugin", TP_TRUST_HOST, 0);
  assert_int_equal(tp_edit_remove_subscription(edit, "ok", NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_USAGE, "ok", WORDS("`ok`", "`host`", "`plugin`"));
  edit = edit_by(w, "plugin", TP_TRUST_HOST, 0);
  assert_int_equal(tp_edit_enable(edit, "ok", false, NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_USAGE, "ok", WORDS("`ok`", "`host`", "`plugin`"));
  edit = edit_by(w, "plugin", TP_TRUST_DECLARED, TP_GRANT_PRIVILEGED_HOOKS);
  assert_int_equal(tp_edit_remove_handler(edit, "h", NULL), TP_OK);
  assert_refused(w, edit, TP_ERR_USAGE, "h", WORDS("`h`", "`host`", "`plugin`"));
  edit = edit_by(w, "core", TP_TRUST_BUILTIN, 0);
  assert_int_equal(tp_edit_remove_subscription(edit, "ok", NULL), TP_OK);
  commit(w, edit);
  assert_order(w, GATHER, "fire");
  world_close(w);
}

TEST(a_commit_that_came_in_between_is_a_conflict) {
  world *w = peopled();
  tp_edit *slow = edit_of(w), *fast = edit_of(w);
  add(slow, subscription_of("slow", GATHER));
  add(fast, subscription_of("fast", GATHER));
  commit(w, fast);
  assert_refused(w, slow, TP_ERR_CONFLICT, "host", WORDS("version 1", "begin again"));
  assert_order(w, GATHER, "fast fire ok");
  world_close(w);
}

TEST(a_refused_edit_can_be_corrected) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  tp_subscription bad = subscription_of("new", GATHER);
  bad.handler = "ghost";
  add(edit, bad);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_ERR_MISSING_HANDLER);
  assert_int_equal(tp_edit_remove_subscription(edit, "new", NULL), TP_OK);
  bad.handler = "h";
  bad.after = EDGES(EDGE("ghost", false));
  bad.after_count = 1;
  add(edit, bad);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_ERR_MISSING_DEPENDENCY);
  add(edit, subscription_of("ghost", GATHER));
  commit(w, edit);
  assert_order(w, GATHER, "fire ghost new ok");
  world_close(w);
}

/* ---- refused at once ---- */

TEST(bad_descriptors_are_refused_when_they_are_added) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  static char long_id[TP_ID_BYTES_MAX + 2];
  memset(long_id, 'x', TP_ID_BYTES_MAX + 1);
  const char *const bad_ids[] = {NULL, "", " ", "a b", "a\tb", "a\nb", "a\x7f", "\x01", long_id, "\xff", "\xc2\xa0"};
  for (size_t i = 0; i < sizeof bad_ids / sizeof *bad_ids; i++) {
    tp_handler handler = handler_of(bad_ids[i]);
    assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_ERR_BAD_ID);
    tp_subscription sub = subscription_of(bad_ids[i], GATHER);
    assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_ERR_BAD_ID);
    sub = subscription_of("new", GATHER);
    sub.handler = bad_ids[i];
    assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_ERR_BAD_ID);
    sub = subscription_of("new", GATHER);
    sub.before = EDGES(EDGE("fine", true), EDGE(bad_ids[i], true));
    sub.before_count = 2;
    assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_ERR_BAD_ID);
    assert_int_equal(tp_edit_remove_handler(edit, bad_ids[i], NULL), TP_ERR_BAD_ID);
    assert_int_equal(tp_edit_remove_subscription(edit, bad_ids[i], NULL), TP_ERR_BAD_ID);
    assert_int_equal(tp_edit_enable(edit, bad_ids[i], true, NULL), TP_ERR_BAD_ID);
    tp_owner owner = {.struct_size = sizeof owner, .name = bad_ids[i], .trust = TP_TRUST_HOST};
    tp_edit *refused;
    assert_int_equal(tp__edit_new(w->registry, &owner, &refused, NULL), TP_ERR_BAD_ID);
  }
  commit(w, edit); /* and nothing of all that is in it */
  tp__snapshot *snapshot = tp__registry_pin(w->registry);
  assert_null(snapshot->plans[GATHER]);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

static tp_status try_handler(tp_edit *edit, tp_handler handler) { return tp_edit_add_handler(edit, &handler, NULL); }
static tp_status try_subscription(tp_edit *edit, tp_subscription sub) {
  return tp_edit_add_subscription(edit, &sub, NULL);
}

TEST(other_nonsense_is_refused_when_it_is_added) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  tp_handler handler = handler_of("h");
  handler.run = NULL;
  assert_int_equal(try_handler(edit, handler), TP_ERR_USAGE);
  handler = handler_of("h");
  handler.capabilities = 1u << 30;
  assert_int_equal(try_handler(edit, handler), TP_ERR_USAGE);
  handler = handler_of("h");
  handler.phases = NULL;
  assert_int_equal(try_handler(edit, handler), TP_ERR_USAGE);
  handler = handler_of("h");
  handler.phases = (const uint32_t[]){GATHER, 63};
  handler.phase_count = 2;
  assert_int_equal(try_handler(edit, handler), TP_ERR_UNKNOWN_PHASE);
  handler = handler_of("h");
  handler.summary = "\xff";
  assert_int_equal(try_handler(edit, handler), TP_ERR_UTF8);
  handler = handler_of("h");
  handler.struct_size = 0;
  assert_int_equal(try_handler(edit, handler), TP_ERR_VERSION);
  assert_int_equal(tp_edit_add_handler(edit, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_edit_add_handler(NULL, &handler, NULL), TP_ERR_USAGE);

  tp_subscription sub = subscription_of("s", 0);
  assert_int_equal(try_subscription(edit, sub), TP_ERR_UNKNOWN_PHASE);
  sub.phase = TP_PHASE_LIMIT + 5;
  assert_int_equal(try_subscription(edit, sub), TP_ERR_UNKNOWN_PHASE);
  sub = subscription_of("s", 0);
  sub.phase_name = "no.such.phase";
  assert_int_equal(try_subscription(edit, sub), TP_ERR_UNKNOWN_PHASE);
  sub.phase_name = "test.gather";
  sub.phase = STOP; /* the name and the number disagree */
  assert_int_equal(try_subscription(edit, sub), TP_ERR_USAGE);
  sub = subscription_of("s", GATHER);
  sub.execution = (tp_execution)9;
  assert_int_equal(try_subscription(edit, sub), TP_ERR_USAGE);
  sub = subscription_of("s", GATHER);
  sub.failure = (tp_failure)-1;
  assert_int_equal(try_subscription(edit, sub), TP_ERR_USAGE);
  sub = subscription_of("s", GATHER);
  sub.sequential = (tp_sequential)3;
  assert_int_equal(try_subscription(edit, sub), TP_ERR_USAGE);
  sub = subscription_of("s", GATHER);
  sub.after_count = 1;
  assert_int_equal(try_subscription(edit, sub), TP_ERR_USAGE);
  sub.after_count = SIZE_MAX;
  assert_int_equal(try_subscription(edit, sub), TP_ERR_TOO_LARGE);
  sub = subscription_of("s", GATHER);
  sub.fallback_count = 1;
  assert_int_equal(try_subscription(edit, sub), TP_ERR_USAGE);
  const tp_contribution keyless = {.struct_size = sizeof keyless, .kind = TP_CONTRIBUTION_PROMPT_CONTEXT};
  sub.fallback = LIST(&keyless);
  assert_int_equal(try_subscription(edit, sub), TP_ERR_MALFORMED);
  sub = subscription_of("s", GATHER);
  tp_match match = {.struct_size = sizeof match, .matches = matches_all};
  sub.match = &match;
  assert_int_equal(try_subscription(edit, sub), TP_ERR_USAGE);
  match.description = "\xc0\x80";
  assert_int_equal(try_subscription(edit, sub), TP_ERR_UTF8);
  sub = subscription_of("s", GATHER);
  match = (tp_match){.struct_size = sizeof match, .matches = matches_all, .description = "all", .field_count = 1};
  sub.match = &match;
  assert_int_equal(try_subscription(edit, sub), TP_ERR_USAGE);
  match = (tp_match){.struct_size = sizeof match, .description = "none"};
  assert_int_equal(try_subscription(edit, sub), TP_ERR_USAGE);
  match = (tp_match){.struct_size = 3, .matches = matches_all, .description = "all"};
  assert_int_equal(try_subscription(edit, sub), TP_ERR_VERSION);
  sub = subscription_of("s", GATHER);
  sub.metadata = "\xed\xa0\x80";
  assert_int_equal(try_subscription(edit, sub), TP_ERR_UTF8);
  assert_int_equal(tp_edit_set_budget(edit, 0, 1, NULL), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(tp_edit_set_budget(edit, TP_PHASE_LIMIT, 1, NULL), TP_ERR_UNKNOWN_PHASE);
  tp_owner owner = {.struct_size = sizeof owner, .name = "x", .trust = TP_TRUST_HOST, .grants = 1u << 20};
  tp_edit *refused;
  assert_int_equal(tp__edit_new(w->registry, &owner, &refused, NULL), TP_ERR_USAGE);
  owner = (tp_owner){.struct_size = sizeof owner, .name = "x", .trust = (tp_trust)7};
  assert_int_equal(tp__edit_new(w->registry, &owner, &refused, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_edit_commit(NULL, NULL, &w->fault), TP_ERR_USAGE);
  tp_edit_discard(edit);
  tp_edit_discard(NULL);
  world_close(w);
}

TEST(an_older_shorter_descriptor_is_read_as_far_as_it_goes) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  union {
    tp_subscription sub;
    unsigned char bytes[sizeof(tp_subscription)];
  } old;
  memset(&old, 0xEE, sizeof old); /* the library does not read what lies after the end of the struct */
  memset(&old, 0, offsetof(tp_subscription, execution));
  old.sub.struct_size = offsetof(tp_subscription, execution);
  old.sub.id = "old";
  old.sub.handler = "h";
  old.sub.phase = GATHER;
  assert_int_equal(tp_edit_add_subscription(edit, &old.sub, NULL), TP_OK);
  commit(w, edit);
  assert_order(w, GATHER, "old");
  world_close(w);
}

/* ---- what an edit does ---- */

TEST(nothing_is_seen_before_the_commit_and_all_of_it_after) {
  world *w = world_open();
  tp__snapshot *empty = tp__registry_pin(w->registry);
  assert_int_equal(empty->version, 0);
  for (int i = 0; i < TP_PHASE_LIMIT; i++) assert_null(empty->plans[i]);
  tp_edit *edit = edit_with_handler(w);
  add(edit, subscription_of("a", GATHER));
  add(edit, subscription_of("b", STOP));
  tp__snapshot *still = tp__registry_pin(w->registry);
  assert_ptr_equal(still, empty);
  tp__snapshot_unpin(still);
  tp_commit_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_edit_commit(edit, &report, &w->fault), TP_OK);
  tp__snapshot *now = tp__registry_pin(w->registry);
  assert_int_equal(now->version, 1);
  assert_int_equal(report.snapshot_version, 1);
  assert_true(report.snapshot_hash == now->hash && now->hash != empty->hash);
  assert_non_null(now->plans[GATHER]);
  assert_non_null(now->plans[STOP]);
  assert_null(empty->plans[GATHER]); /* whoever pinned the old snapshot keeps it as it was */
  tp__snapshot_unpin(empty);
  tp__snapshot_unpin(now);
  world_close(w);
}

TEST(subscriptions_are_disabled_and_enabled) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_enable(edit, "off", true, NULL), TP_OK);
  assert_int_equal(tp_edit_enable(edit, "ok", false, NULL), TP_OK);
  add(edit, subscription_of("new", GATHER));
  assert_int_equal(tp_edit_enable(edit, "new", false, NULL), TP_OK);
  assert_int_equal(tp_edit_enable(edit, "newer", false, NULL), TP_OK); /* may be said first, too */
  add(edit, subscription_of("newer", GATHER));
  commit(w, edit);
  assert_order(w, GATHER, "fire off");
  edit = edit_of(w);
  assert_int_equal(tp_edit_enable(edit, "new", true, NULL), TP_OK);
  commit(w, edit);
  assert_order(w, GATHER, "fire new off");
  world_close(w);
}

TEST(a_phase_whose_subscriptions_are_all_disabled_has_no_plan) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_enable(edit, "gate", false, NULL), TP_OK);
  commit(w, edit);
  tp__snapshot *snapshot = tp__registry_pin(w->registry);
  assert_null(snapshot->plans[STOP]);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

TEST(a_subscription_that_is_removed_and_added_again_is_a_new_one) {
  world *w = peopled();
  assert_int_equal(switch_off(w, "gate", true), TP_OK);
  tp__snapshot *before = tp__registry_pin(w->registry);
  tp_edit *edit = edit_of(w);
  add(edit, subscription_of("gate2", STOP));
  assert_int_equal(tp_edit_remove_subscription(edit, "gate", NULL), TP_OK);
  add(edit, subscription_of("gate", STOP));
  commit(w, edit);
  assert_order(w, STOP, "gate2 gate"); /* at the end of the line */
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, STOP, &snapshot);
  assert_ptr_not_equal(node_of(plan, "gate")->sub, node_of(before->plans[STOP], "gate")->sub);
  assert_false(tp__a32_load_relaxed(&node_of(plan, "gate")->sub->killed));
  tp__snapshot_unpin(snapshot);
  tp__snapshot_unpin(before);
  world_close(w);
}

TEST(a_kept_subscription_is_one_object_in_all_snapshots) {
  world *w = peopled();
  tp__snapshot *before = tp__registry_pin(w->registry);
  tp_edit *edit = edit_of(w);
  add(edit, subscription_of("more", STOP));
  commit(w, edit);
  assert_int_equal(switch_off(w, "gate", true), TP_OK);
  const tp__subscription *gate = node_of(before->plans[STOP], "gate")->sub;
  assert_true(tp__a32_load_relaxed(&gate->killed)); /* in the old snapshot, too */
  tp__snapshot *snapshot;
  assert_ptr_equal(node_of(pin_plan(w, STOP, &snapshot), "gate")->sub, gate);
  bool was = false;
  assert_int_equal(tp__registry_switch(w->registry, "gate", TP__SWITCH_KILL, false, &was, NULL), TP_OK);
  assert_true(was);
  assert_int_equal(tp__registry_switch(w->registry, "gate", TP__SWITCH_KILL, false, &was, NULL), TP_OK);
  assert_false(was);
  assert_false(tp__a32_load_relaxed(&gate->killed));
  assert_int_equal(switch_off(w, "ghost", true), TP_ERR_NOT_FOUND);
  assert_int_equal(switch_off(w, NULL, true), TP_ERR_USAGE);
  tp__snapshot_unpin(snapshot);
  tp__snapshot_unpin(before);
  world_close(w);
}

TEST(what_was_given_is_copied) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  char id[] = "handler", sub_id[] = "subscription", target[] = "target", words[] = "words", text[] = "text";
  uint32_t phases[] = {GATHER}, fields[] = {TP_FIELD_TEXT};
  tp_edge edge = {.struct_size = sizeof edge, .target = target};
  tp_contribution fallback = {.struct_size = sizeof(tp_contribution),
                              .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                              .key = {"k", 1},
                              .text = {text, 4}};
  tp_handler handler = handler_of(id);
  handler.phases = phases;
  handler.phase_count = 1;
  handler.summary = words;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  tp_subscription sub = subscription_of(target, GATHER);
  sub.handler = id;
  add(edit, sub);
  sub.id = sub_id;
  sub.after = EDGES(&edge);
  sub.after_count = 1;
  sub.metadata = words;
  sub.failure = TP_FAILURE_FALLBACK;
  sub.fallback = LIST(&fallback);
  sub.fallback_count = 1;
  sub.match = &(tp_match){.struct_size = sizeof(tp_match),
                          .matches = matches_all,
                          .description = words,
                          .fields = fields,
                          .field_count = 1};
  add(edit, sub);
  memset(id, 'X', sizeof id - 1);
  memset(sub_id, 'X', sizeof sub_id - 1);
  memset(target, 'X', sizeof target - 1);
  memset(words, 'X', sizeof words - 1);
  memset(text, 'X', sizeof text - 1);
  memset(&fallback, 0xEE, sizeof fallback);
  phases[0] = fields[0] = 99;
  edge.target = NULL;
  commit(w, edit);
  tp__snapshot *snapshot;
  const tp__node *node = node_of(pin_plan(w, GATHER, &snapshot), "subscription");
  assert_string_equal(node->handler->desc.id, "handler");
  assert_string_equal(node->handler->desc.summary, "words");
  assert_int_equal(node->handler->desc.phases[0], GATHER);
  assert_int_equal(node->handler->desc.contract_version, 1);
  assert_string_equal(node->sub->desc.metadata, "words");
  assert_string_equal(node->sub->desc.match->description, "words");
  assert_int_equal(node->sub->desc.match->fields[0], TP_FIELD_TEXT);
  assert_string_equal(node->sub->desc.after[0]->target, "target");
  assert_memory_equal(node->sub->desc.fallback[0]->text.data, "text", 4);
  assert_string_equal(node->sub->owner, "host");
  assert_int_equal(node->dep_count, 1);
  tp__snapshot_unpin(snapshot);
  world_close(w);
}

/* ---- destroy ---- */

typedef struct life {
  int ended;
} life;
static void end_life(void *ctx) { ((life *)ctx)->ended++; }

static tp_handler living(const char *id, life *l) {
  tp_handler handler = handler_of(id);
  handler.ctx = l;
  handler.destroy = end_life;
  return handler;
}

static tp_subscription matching(const char *id, life *l) {
  static tp_match match;
  tp_subscription sub = subscription_of(id, GATHER);
  sub.match = &match;
  match = (tp_match){
      .struct_size = sizeof(tp_match), .matches = matches_all, .destroy = end_life, .ctx = l, .description = "always"};
  return sub;
}

TEST(destroy_is_called_once_after_the_last_snapshot_is_freed) {
  world *w = world_open();
  life handler_life = {0}, match_life = {0};
  tp_edit *edit = edit_of(w);
  tp_handler handler = living("h", &handler_life);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  add(edit, matching("a", &match_life));
  commit(w, edit);
  tp__snapshot *old = tp__registry_pin(w->registry);
  tp__snapshot_hold(old);
  edit = edit_of(w);
  assert_int_equal(tp_edit_remove_subscription(edit, "a", NULL), TP_OK);
  assert_int_equal(tp_edit_remove_handler(edit, "h", NULL), TP_OK);
  commit(w, edit);
  assert_int_equal(handler_life.ended + match_life.ended, 0);
  tp__snapshot_unpin(old);
  assert_int_equal(handler_life.ended + match_life.ended, 0);
  tp__snapshot_unpin(old);
  assert_int_equal(handler_life.ended, 1);
  assert_int_equal(match_life.ended, 1);
  world_close(w);
  assert_int_equal(handler_life.ended, 1);
  assert_int_equal(match_life.ended, 1);
}

TEST(destroy_is_called_at_the_end_of_the_registry_and_at_discard) {
  world *w = world_open();
  life kept = {0}, dropped = {0}, match_kept = {0}, match_dropped = {0}, refused = {0};
  tp_edit *edit = edit_of(w);
  tp_handler handler = living("h", &kept);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  add(edit, matching("a", &match_kept));
  handler = living("h", &refused); /* refused: not taken, so it is not destroyed */
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_ERR_DUPLICATE_ID);
  tp_subscription twin = matching("a", &refused);
  assert_int_equal(tp_edit_add_subscription(edit, &twin, NULL), TP_ERR_DUPLICATE_ID);
  commit(w, edit);
  edit = edit_of(w);
  handler = living("dropped", &dropped);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  add(edit, matching("dropped", &match_dropped));
  tp_edit_discard(edit);
  assert_int_equal(dropped.ended, 1);
  assert_int_equal(match_dropped.ended, 1);
  assert_int_equal(kept.ended + match_kept.ended, 0);
  world_close(w);
  assert_int_equal(kept.ended, 1);
  assert_int_equal(match_kept.ended, 1);
  assert_int_equal(refused.ended, 0);
}

TEST(what_an_edit_takes_back_is_destroyed_then) {
  world *w = world_open();
  life l = {0}, m = {0};
  tp_edit *edit = edit_of(w);
  tp_handler handler = living("h", &l);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  add(edit, matching("a", &m));
  assert_int_equal(tp_edit_remove_handler(edit, "h", NULL), TP_OK);
  assert_int_equal(tp_edit_remove_subscription(edit, "a", NULL), TP_OK);
  assert_int_equal(l.ended, 1);
  assert_int_equal(m.ended, 1);
  commit(w, edit); /* an edit that came to nothing is still a commit */
  assert_int_equal(l.ended, 1);
  world_close(w);
}

TEST(a_handler_can_be_replaced_under_its_subscriptions) {
  world *w = world_open();
  life old = {0}, new_ = {0};
  tp_edit *edit = edit_of(w);
  tp_handler handler = living("h", &old);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  add(edit, subscription_of("a", GATHER));
  commit(w, edit);
  edit = edit_of(w);
  assert_int_equal(tp_edit_remove_handler(edit, "h", NULL), TP_OK);
  handler = living("h", &new_);
  handler.contract_version = 2;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  commit(w, edit);
  assert_int_equal(old.ended, 1);
  assert_int_equal(new_.ended, 0);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, GATHER, &snapshot);
  assert_ptr_equal(plan->nodes[0].ctx, &new_);
  assert_int_equal(plan->nodes[0].handler->desc.contract_version, 2);
  tp__snapshot_unpin(snapshot);
  world_close(w);
  assert_int_equal(new_.ended, 1);
}

typedef struct curious {
  world *w;
  uint64_t version;
} curious;
static void look_around(void *ctx) {
  curious *c = ctx;
  tp__snapshot *snapshot = tp__registry_pin(c->w->registry); /* hangs if the registry's lock is held here */
  c->version = snapshot->version;
  tp__snapshot_unpin(snapshot);
}

TEST(destroy_may_use_the_registry) {
  world *w = world_open();
  curious c = {.w = w};
  tp_edit *edit = edit_of(w);
  tp_handler handler = handler_of("h");
  handler.ctx = &c;
  handler.destroy = look_around;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  commit(w, edit);
  edit = edit_of(w);
  assert_int_equal(tp_edit_remove_handler(edit, "h", NULL), TP_OK);
  commit(w, edit);
  assert_int_equal(c.version, 2);
  world_close(w);
}

/* ---- phases ---- */

TEST(phases_are_found_by_name_and_alias) {
  world *w = world_open();
  assert_int_equal(tp__registry_phase_find(w->registry, "test.stop"), STOP);
  assert_int_equal(tp__registry_phase_find(w->registry, "plainAlias"), GATHER);
  assert_int_equal(tp__registry_phase_find(w->registry, "infra"), OBSERVE);
  assert_int_equal(tp__registry_phase_find(w->registry, "Test.stop"), 0);
  assert_int_equal(tp__registry_phase_find(w->registry, ""), 0);
  assert_int_equal(tp__registry_phase_find(w->registry, NULL), 0);
  assert_string_equal(tp__registry_phase(w->registry, STOP)->name, "test.stop");
  assert_null(tp__registry_phase(w->registry, 0));
  assert_null(tp__registry_phase(w->registry, PHASES));
  assert_null(tp__registry_phase(w->registry, UINT32_MAX));
  world_close(w);
}

static tp_status registry_with(world *w, const tp_phase *rows, size_t count, tp__registry **ret_registry) {
  const tp_allocator allocator = {.alloc = counted_alloc, .release = counted_release, .ctx = &w->count};
  const tp_phase *list[TP_PHASE_LIMIT];
  for (size_t i = 0; i < count && i < TP_PHASE_LIMIT; i++) list[i] = rows ? &rows[i] : NULL;
  return tp__registry_new(&allocator, world_rows, PHASES, world_aliases, 3, rows ? list : NULL, count, &world_ops,
                          ret_registry, &w->fault);
}

TEST(phases_of_the_host_are_copied_and_numbered) {
  world *w = calloc(1, sizeof *w);
  char name[] = "host.first";
  uint32_t fields[] = {TP_FIELD_HOST, TP_FIELD_TEXT};
  const tp_phase rows[] = {
      {.struct_size = sizeof *rows, .name = name, .mode = TP_MODE_GATHER, .fields = fields, .field_count = 2},
      {.struct_size = sizeof *rows,
       .name = "host.second",
       .mode = TP_MODE_CHAIN,
       .replace = true,
       .fields = fields,
       .field_count = 2,
       .replaceable = fields,
       .replaceable_count = 1,
       .limit_ms = 9}};
  assert_int_equal(registry_with(w, rows, 2, &w->registry), TP_OK);
  memset(name, 'X', sizeof name - 1);
  fields[0] = 0;
  const tp_phase *first = tp__registry_phase(w->registry, TP_PHASE_HOST);
  assert_string_equal(first->name, "host.first");
  assert_int_equal(first->limit_ms, 5000);
  assert_int_equal(first->failure, TP_FAILURE_BEST_EFFORT);
  assert_int_equal(first->fields[0], TP_FIELD_HOST);
  assert_int_equal(tp__registry_phase(w->registry, TP_PHASE_HOST + 1)->limit_ms, 9);
  assert_int_equal(tp__registry_phase_find(w->registry, "host.second"), TP_PHASE_HOST + 1);
  tp_edit *edit = edit_of(w);
  tp_handler handler = handler_of("h");
  handler.phases = (const uint32_t[]){TP_PHASE_HOST};
  handler.phase_count = 1;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  tp_subscription sub = subscription_of("a", TP_PHASE_HOST);
  sub.match = &(tp_match){.struct_size = sizeof(tp_match),
                          .matches = matches_all,
                          .description = "x",
                          .fields = (const uint32_t[]){TP_FIELD_HOST},
                          .field_count = 1};
  add(edit, sub);
  commit(w, edit);
  assert_order(w, TP_PHASE_HOST, "a");
  world_close(w);
}

TEST(rows_of_the_host_that_make_no_sense_are_refused) {
  static const uint32_t fields[] = {TP_FIELD_HOST}, strange[] = {0}, other[] = {TP_FIELD_TEXT};
  static const tp_phase good = {.struct_size = sizeof good,
                                .name = "host.phase",
                                .mode = TP_MODE_CHAIN,
                                .replace = true,
                                .fields = fields,
                                .field_count = 1,
                                .replaceable = fields,
                                .replaceable_count = 1};
  tp_status codes[24];
  tp_phase rows[24];
  size_t count = 0;
  for (; count < 24; count++) {
    tp_phase row = good;
    tp_status code = TP_ERR_USAGE;
    if (count == 0) row.struct_size = 0, code = TP_ERR_VERSION;
    else if (count == 1) row.name = NULL, code = TP_ERR_BAD_ID;
    else if (count == 2) row.name = "two words", code = TP_ERR_BAD_ID;
    else if (count == 3) row.name = "test.gather", code = TP_ERR_DUPLICATE_ID;
    else if (count == 4) row.name = "plainAlias", code = TP_ERR_DUPLICATE_ID;
    else if (count == 5) row.mode = (tp_mode)0;
    else if (count == 6) row.mode = (tp_mode)4;
    else if (count == 7) row.mode = TP_MODE_GATHER;
    else if (count == 8) row.ask = true;
    else if (count == 9) row.failure = (tp_failure)4;
    else if (count == 10) row.kinds = 1u << TP_CONTRIBUTION_COUNT;
    else if (count == 11) row.fields = NULL;
    else if (count == 12) row.fields = strange;
    else if (count == 13) row.replaceable = other;
    else if (count == 14) row.replace = false;
    else if (count == 15) row.field_count = SIZE_MAX;
    else if (count == 16)
      row = (tp_phase){.struct_size = sizeof row, .name = "o", .mode = TP_MODE_OBSERVE, .failure = TP_FAILURE_REQUIRED};
    else if (count == 17)
      row = (tp_phase){.struct_size = sizeof row, .name = "o", .mode = TP_MODE_OBSERVE, .reverse = true};
    else if (count == 18)
      row = (tp_phase){.struct_size = sizeof row, .name = "o", .mode = TP_MODE_GATHER, .stop = true};
    else break;
    rows[count] = row;
    codes[count] = code;
  }
  for (size_t i = 0; i < count; i++) {
    world *w = calloc(1, sizeof *w);
    tp__registry *untouched = NULL;
    assert_int_equal(registry_with(w, &rows[i], 1, &untouched), codes[i]);
    assert_null(untouched);
    assert_true(strlen(w->fault.message) > 10);
    assert_int_equal(w->count.blocks, 0);
    free(w);
  }
  world *w = calloc(1, sizeof *w);
  const tp_phase twice[] = {good, good};
  assert_int_equal(registry_with(w, twice, 2, &w->registry), TP_ERR_DUPLICATE_ID);
  static tp_phase many[65];
  assert_int_equal(registry_with(w, many, 65, &w->registry), TP_ERR_TOO_LARGE);
  assert_int_equal(registry_with(w, NULL, 1, &w->registry), TP_ERR_USAGE);
  assert_int_equal(w->count.blocks, 0);
  free(w);
}

/* ---- hooks, jobs, audit ---- */

TEST(a_hook_is_added_in_one_line) {
  world *w = world_open();
  int ctx;
  assert_int_equal(tp__hook_add(w->registry, HOOK("test.stop", no_run, &ctx), &w->fault), TP_OK);
  assert_int_equal(tp__hook_add(w->registry, HOOK("test.stop", no_run, NULL), &w->fault), TP_OK);
  assert_int_equal(tp__hook_add(w->registry, HOOK("infra", no_run, NULL), &w->fault), TP_OK);
  tp__snapshot *snapshot;
  const tp__plan *plan = pin_plan(w, STOP, &snapshot);
  assert_int_equal(plan->node_count, 2);
  assert_int_equal(snapshot->version, 3);
  assert_ptr_equal(plan->nodes[0].ctx, &ctx);
  assert_string_equal(plan->nodes[0].sub->owner, "host");
  assert_int_equal(plan->nodes[0].capabilities, 1 << TP_CONTRIBUTION_SIGNAL | 1 << TP_CONTRIBUTION_REMINDER |
                                                    TP_CAPABILITY_EMIT_AUDIT | TP_CAPABILITY_DECIDE);
  assert_int_equal(plan->nodes[0].sub->desc.sequential, TP_SEQUENTIAL_ON);
  assert_true(snapshot->plans[OBSERVE]->nodes[0].flags & TP__NODE_INFRA);
  tp__snapshot_unpin(snapshot);
  assert_int_equal(tp__hook_add(w->registry, HOOK("test.privileged", no_run, NULL), &w->fault), TP_ERR_PRIVILEGED);
  assert_int_equal(tp__hook_add(w->registry, HOOK("nowhere", no_run, NULL), &w->fault), TP_ERR_UNKNOWN_PHASE);
  assert_string_equal(w->fault.subject, "nowhere");
  assert_int_equal(tp__hook_add(w->registry, HOOK(NULL, no_run, NULL), &w->fault), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(tp__hook_add(w->registry, HOOK("test.stop", NULL, NULL), &w->fault), TP_ERR_USAGE);
  world_close(w);
}

TEST(a_hook_finds_another_id_when_its_own_is_taken) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  add_handler(edit, "hook-1");
  add_handler(edit, "h");
  add(edit, subscription_of("hook-2", STOP));
  commit(w, edit);
  assert_int_equal(tp__hook_add(w->registry, HOOK("test.stop", no_run, NULL), &w->fault), TP_OK);
  assert_order(w, STOP, "hook-2 hook-3");
  world_close(w);
}

TEST(commits_are_notified_and_refusals_are_not) {
  world *w = world_open();
  life heard = {0};
  tp__registry_on_commit(w->registry, end_life, &heard);
  tp_edit *edit = edit_of(w);
  add(edit, subscription_of("a", GATHER));
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_ERR_MISSING_HANDLER);
  assert_int_equal(heard.ended, 0);
  add_handler(edit, "h");
  commit(w, edit);
  assert_int_equal(heard.ended, 1);
  world_close(w);
}

TEST(a_job_finds_its_handler) {
  world *w = peopled();
  const tp__node *node;
  const tp__plan *plan;
  tp_edit *edit = edit_of(w);
  tp_handler handler = handler_of("extract");
  handler.contract_version = 3;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  tp_subscription awaited = subscription_of("a.awaited", GATHER), background = subscription_of("b.background", GATHER);
  awaited.handler = background.handler = "extract";
  background.execution = TP_EXECUTION_BACKGROUND;
  add(edit, awaited);
  add(edit, background);
  commit(w, edit);
  tp__snapshot *snapshot = tp__registry_find_handler(w->registry, tp_text_of("extract"), 3, GATHER, &node, &plan);
  assert_non_null(snapshot);
  assert_string_equal(node->sub->desc.id, "b.background");
  assert_int_equal(plan->phase, GATHER);
  tp__snapshot_unpin(snapshot);
  assert_non_null(snapshot = tp__registry_find_handler(w->registry, tp_text_of("extract"), 3, 0, &node, &plan));
  tp__snapshot_unpin(snapshot);
  assert_non_null(snapshot = tp__registry_find_handler(w->registry, tp_text_of("h"), 1, STOP, &node, &plan));
  assert_string_equal(node->sub->desc.id, "gate");
  tp__snapshot_unpin(snapshot);
  assert_null(tp__registry_find_handler(w->registry, tp_text_of("extract"), 2, GATHER, &node, &plan));
  assert_null(tp__registry_find_handler(w->registry, tp_text_of("extract"), 3, STOP, &node, &plan));
  assert_null(tp__registry_find_handler(w->registry, tp_text_of("extrac"), 3, 0, &node, &plan));
  assert_null(tp__registry_find_handler(w->registry, (tp_text){NULL, 0}, 3, 0, &node, &plan));
  world_close(w);
}

typedef struct rows_seen {
  size_t count;
  char text[4096];
} rows_seen;
static bool write_row(void *ctx, const tp_audit *row) {
  rows_seen *seen = ctx;
  size_t used = strlen(seen->text);
  seen->count++;
  assert_true(row->unix_ms > 0);
  snprintf(seen->text + used, sizeof seen->text - used, "%s %s %s: %s\n", row->owner, row->action,
           tp_status_name(row->status), row->detail);
  return true;
}

TEST(every_commit_refusal_and_switch_leaves_a_row) {
  world *w = world_open();
  tp_edit *edit = edit_by(w, "memory", TP_TRUST_BUILTIN, TP_GRANT_PRIVILEGED_HOOKS);
  add_handler(edit, "h");
  add(edit, subscription_of("a", GATHER));
  commit(w, edit);
  edit = edit_by(w, "files", TP_TRUST_DECLARED, 0);
  tp_subscription sub = subscription_of("b", CODE_ONLY);
  add(edit, sub);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_ERR_CODE_ONLY);
  tp_edit_discard(edit);
  assert_int_equal(switch_off(w, "a", true), TP_OK);
  rows_seen seen = {0};
  assert_int_equal(tp__registry_audit(w->registry, TP_VISIBILITY_INTERNAL, write_row, &seen), 3);
  assert_int_equal(seen.count, 3);
  const char *first = strstr(
      seen.text, "memory commit TP_OK: trust builtin, granted privileged_hooks: handlers +1 -0, subscriptions +1 -0");
  const char *second = strstr(seen.text, "files commit TP_ERR_CODE_ONLY: subscription `b` of test.code_only");
  const char *third = strstr(seen.text, "operator kill_switch TP_OK: subscription `a` switched off");
  assert_non_null(first);
  assert_non_null(second);
  assert_non_null(third);
  assert_true(first < second && second < third);
  world_close(w);
}

typedef struct bound {
  uint64_t count;
  char first[256], last[256];
} bound;
static bool first_and_last(void *ctx, const tp_audit *row) {
  bound *b = ctx;
  snprintf(b->count++ == 0 ? b->first : b->last, sizeof b->first, "%s", row->detail);
  return true;
}

TEST(the_audit_keeps_the_newest_1024_rows) {
  world *w = peopled();
  for (int i = 0; i < 3000; i++) assert_int_equal(switch_off(w, i % 2 ? "ok" : "gate", true), TP_OK);
  assert_int_equal(switch_off(w, "fire", false), TP_OK);
  bound b = {0};
  assert_int_equal(tp__registry_audit(w->registry, TP_VISIBILITY_INTERNAL, first_and_last, &b), 1024);
  assert_int_equal(b.count, 1024);
  assert_string_equal(b.first, "subscription `ok` switched off");
  assert_string_equal(b.last, "subscription `fire` switched on again");
  world_close(w);
}
