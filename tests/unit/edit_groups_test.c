/* SPDX-License-Identifier: Apache-2.0
 *
 * All subscriptions of an owner, or of a trust level, are switched off and on by one call of an edit. */
#include "tests/support/test.h"
#include "tests/support/edges.h"
#include "tests/unit/plan_world.h"

static void subscribe(tp_edit *edit, const char *id, uint32_t phase, bool disabled) {
  tp_subscription sub = subscription_of(id, phase);
  sub.disabled = disabled;
  add(edit, sub);
}

/* The host has a1, a2 (another phase) and a3, which is disabled; "ext", which is declared, has d1 and d2. */
static world *peopled(void) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  subscribe(edit, "a1", GATHER, false);
  subscribe(edit, "a2", STOP, false);
  subscribe(edit, "a3", GATHER, true);
  commit(w, edit);
  edit = edit_by(w, "ext", TP_TRUST_DECLARED, 0);
  subscribe(edit, "d1", GATHER, false);
  subscribe(edit, "d2", OBSERVE, false);
  commit(w, edit);
  return w;
}

static bool append_enabled(void *ctx, const tp_subscription_info *info) {
  char *text = ctx;
  snprintf(text + strlen(text), 128 - strlen(text), "%s%s", *text ? " " : "", info->id);
  return true;
}

static void assert_enabled(world *w, const char *expected) {
  char text[128] = "";
  tp_subscription_query query = {.struct_size = sizeof query, .only_enabled = 1};
  assert_int_equal(tp__registry_subscriptions(w->registry, &query, append_enabled, text, NULL), TP_OK);
  assert_string_equal(text, expected);
}

static void assert_refused(world *w, tp_edit *edit, tp_status status, const char *subject, const char *word) {
  assert_int_equal(tp_edit_commit(edit, NULL, &w->fault), status);
  assert_string_equal(w->fault.subject, subject);
  if (!strstr(w->fault.message, word)) fail_msg("`%s` is not in: %s", word, w->fault.message);
  tp_edit_discard(edit);
}

#define OWNER(edit, name, enabled) assert_int_equal(tp_edit_enable_owner(edit, name, enabled, NULL), TP_OK)
#define TRUST(edit, trust, enabled) assert_int_equal(tp_edit_enable_trust(edit, trust, enabled, NULL), TP_OK)
#define ONE(edit, id, enabled) assert_int_equal(tp_edit_enable(edit, id, enabled, NULL), TP_OK)

static tp_edit *parts_edit(world *w) { return edit_by(w, "parts", TP_TRUST_BUILTIN, 0); }

TEST(owner_is_switched_off_and_on_in_every_phase) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  OWNER(edit, "host", false);
  commit(w, edit);
  assert_enabled(w, "d1 d2");
  edit = edit_of(w);
  OWNER(edit, "host", true);
  commit(w, edit);
  assert_enabled(w, "a1 a3 d1 a2 d2"); /* what was disabled by itself is enabled, too */
  edit = edit_by(w, "ext", TP_TRUST_DECLARED, 0);
  OWNER(edit, "ext", false);
  commit(w, edit);
  assert_enabled(w, "a1 a3 a2");
  world_close(w);
}

TEST(trust_level_is_switched_off_by_what_is_built_in) {
  world *w = peopled();
  tp_edit *edit = parts_edit(w);
  TRUST(edit, TP_TRUST_DECLARED, false);
  commit(w, edit);
  assert_enabled(w, "a1 a2");
  edit = parts_edit(w);
  TRUST(edit, TP_TRUST_HOST, false);
  TRUST(edit, TP_TRUST_DECLARED, true);
  commit(w, edit);
  assert_enabled(w, "d1 d2");
  world_close(w);
}

TEST(owner_may_not_switch_off_another_one) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  OWNER(edit, "ext", false);
  assert_refused(w, edit, TP_ERR_USAGE, "d1", "belongs to owner `ext`: `host` may not change it");
  edit = edit_by(w, "other", TP_TRUST_HOST, 0); /* the trust is its own, the subscriptions are not */
  TRUST(edit, TP_TRUST_HOST, false);
  assert_refused(w, edit, TP_ERR_USAGE, "a1", "belongs to owner `host`");
  edit = edit_by(w, "ext", TP_TRUST_DECLARED, 0); /* all that have the trust are its own */
  TRUST(edit, TP_TRUST_DECLARED, false);
  commit(w, edit);
  assert_enabled(w, "a1 a2");
  world_close(w);
}

TEST(group_without_subscriptions_is_not_found) {
  world *w = peopled();
  tp_edit *edit = parts_edit(w);
  OWNER(edit, "nobody", true);
  assert_refused(w, edit, TP_ERR_NOT_FOUND, "nobody", "owner `nobody` has no subscription");
  edit = parts_edit(w);
  TRUST(edit, TP_TRUST_BUILTIN, false);
  assert_refused(w, edit, TP_ERR_NOT_FOUND, "", "trust builtin");
  edit = parts_edit(w); /* those that the same edit removes are gone */
  assert_int_equal(tp_edit_remove_subscription(edit, "d1", NULL), TP_OK);
  assert_int_equal(tp_edit_remove_subscription(edit, "d2", NULL), TP_OK);
  OWNER(edit, "ext", false);
  assert_refused(w, edit, TP_ERR_NOT_FOUND, "ext", "`ext`");
  edit = parts_edit(w); /* those that it adds after the call are not there yet */
  OWNER(edit, "parts", false);
  subscribe(edit, "b", GATHER, false);
  assert_refused(w, edit, TP_ERR_NOT_FOUND, "parts", "`parts`");
  assert_enabled(w, "a1 d1 a2 d2");
  world_close(w);
}

TEST(last_call_about_a_subscription_counts) {
  world *w = peopled();
  tp_edit *edit = parts_edit(w);
  ONE(edit, "d1", true);
  OWNER(edit, "ext", false); /* later than the first, earlier than the next */
  ONE(edit, "d2", true);
  TRUST(edit, TP_TRUST_HOST, true);
  OWNER(edit, "host", false);
  ONE(edit, "a3", true);
  commit(w, edit);
  assert_enabled(w, "a3 d2");
  edit = parts_edit(w);
  ONE(edit, "d2", false);
  TRUST(edit, TP_TRUST_DECLARED, true);
  commit(w, edit);
  assert_enabled(w, "a3 d1 d2");
  world_close(w);
}

TEST(what_the_edit_adds_is_reached_by_calls_behind_it) {
  world *w = peopled();
  tp_edit *edit = edit_of(w);
  subscribe(edit, "n1", GATHER, false);
  OWNER(edit, "host", false);
  subscribe(edit, "n2", GATHER, false);
  commit(w, edit);
  assert_enabled(w, "d1 n2 d2");
  edit = edit_of(w); /* nothing stays: what comes later is as it says */
  subscribe(edit, "n3", GATHER, false);
  commit(w, edit);
  assert_enabled(w, "d1 n2 n3 d2");
  edit = edit_of(w); /* of a replaced one the new one counts */
  OWNER(edit, "host", true);
  assert_int_equal(tp_edit_remove_subscription(edit, "n1", NULL), TP_OK);
  subscribe(edit, "n1", STOP, true);
  commit(w, edit);
  assert_enabled(w, "a1 a3 d1 n2 n3 a2 d2");
  world_close(w);
}

TEST(wrong_group_is_refused_at_once) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_enable_owner(edit, NULL, true, &w->fault), TP_ERR_BAD_ID);
  assert_int_equal(tp_edit_enable_owner(edit, "a b", true, &w->fault), TP_ERR_BAD_ID);
  assert_non_null(strstr(w->fault.message, "tp_edit_enable_owner"));
  assert_int_equal(tp_edit_enable_trust(edit, TP_TRUST_NONE, true, &w->fault), TP_ERR_USAGE);
  assert_int_equal(tp_edit_enable_trust(edit, (tp_trust)4, true, &w->fault), TP_ERR_USAGE);
  assert_non_null(strstr(w->fault.message, "trust 4"));
  assert_int_equal(tp_edit_enable_owner(NULL, "a", true, &w->fault), TP_ERR_USAGE);
  assert_int_equal(tp_edit_enable_trust(NULL, TP_TRUST_HOST, true, &w->fault), TP_ERR_USAGE);
  assert_non_null(strstr(w->fault.message, "tp_edit_begin()"));
  tp_edit_discard(edit);
  world_close(w);
}

static bool last_row(void *ctx, const tp_audit *row) { return snprintf(ctx, 256, "%s", row->detail), true; }

TEST(audit_counts_whom_a_group_has_switched) {
  world *w = peopled();
  char detail[256] = "";
  tp_edit *edit = edit_of(w);
  OWNER(edit, "host", false);
  commit(w, edit);
  tp__registry_audit(w->registry, TP_VISIBILITY_INTERNAL, last_row, detail);
  assert_non_null(strstr(detail, "enabled 0, disabled 2, "));
  edit = edit_of(w);
  OWNER(edit, "host", true);
  commit(w, edit);
  tp__registry_audit(w->registry, TP_VISIBILITY_INTERNAL, last_row, detail);
  assert_non_null(strstr(detail, "enabled 3, disabled 0, "));
  world_close(w);
}

/* Every allocation of the call and of the commit is refused once: nothing has changed, and a repeat succeeds. */
TEST(refused_memory_leaves_all_as_it_was) {
  world *w = peopled();
  for (size_t at = 1;; at++) {
    tp_edit *edit = edit_of(w);
    w->count.asked = 0;
    w->count.refuse_at = at;
    tp_status status = tp_edit_enable_owner(edit, "host", false, NULL);
    if (status == TP_OK) status = tp_edit_commit(edit, NULL, NULL);
    bool refused = w->count.asked >= at;
    w->count.refuse_at = 0;
    if (!refused) break;
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    assert_enabled(w, "a1 d1 a2 d2");
    tp_edit_discard(edit);
  }
  assert_enabled(w, "d1 d2");
  world_close(w);
}
