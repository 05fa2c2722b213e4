/* SPDX-License-Identifier: Apache-2.0
 *
 * Every error in an edit has a fault that names the id, the field and the remedy. */
#include "tests/support/test.h"
#include "tests/support/edges.h"
#include "tests/unit/plan_world.h"

typedef struct refusal {
  tp_status want;
  const char *subject; /* NULL: none is asked for */
  const char *words[3];
} refusal;

static void assert_fault(const tp_fault *fault, tp_status status, const refusal *want) {
  if (status != want->want)
    fail_msg("%s instead of %s: %s", tp_status_name(status), tp_status_name(want->want), fault->message);
  assert_int_equal(fault->code, want->want);
  if (want->subject) assert_string_equal(fault->subject, want->subject);
  for (int i = 0; i < 3 && want->words[i]; i++) {
    if (!strstr(fault->message, want->words[i])) fail_msg("`%s` is not in: %s", want->words[i], fault->message);
  }
}

#define HANDLER(...) \
  { .struct_size = sizeof(tp_handler), .id = "new", .run = no_run, __VA_ARGS__ }

TEST(a_wrong_handler_is_named_with_its_field) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  static const uint32_t phases[] = {GATHER, 99};
  char long_id[TP_ID_BYTES_MAX + 2];
  memset(long_id, 'x', sizeof long_id - 1);
  long_id[sizeof long_id - 1] = '\0';
  const struct {
    tp_handler handler;
    refusal want;
  } cases[] = {
      {{.id = "new", .run = no_run}, {TP_ERR_VERSION, NULL, {"tp_handler", "struct_size"}}},
      {{.struct_size = sizeof(tp_handler), .run = no_run}, {TP_ERR_BAD_ID, NULL, {"tp_handler.id is not set"}}},
      {{.struct_size = sizeof(tp_handler), .id = "", .run = no_run}, {TP_ERR_BAD_ID, NULL, {"tp_handler.id is empty"}}},
      {{.struct_size = sizeof(tp_handler), .id = "a b", .run = no_run}, {TP_ERR_BAD_ID, "a b", {"white space"}}},
      {{.struct_size = sizeof(tp_handler), .id = long_id, .run = no_run}, {TP_ERR_BAD_ID, NULL, {"longer than 128"}}},
      {{.struct_size = sizeof(tp_handler), .id = "new"}, {TP_ERR_USAGE, "new", {"`new`", "run is NULL"}}},
      {HANDLER(.capabilities = 1 << 30), {TP_ERR_USAGE, "new", {"capabilities", "0x40000000"}}},
      {HANDLER(.summary = "\xff"), {TP_ERR_UTF8, "new", {"summary", "UTF-8"}}},
      {HANDLER(.phase_count = 1), {TP_ERR_USAGE, "new", {"phase_count is 1", "phases is NULL"}}},
      {HANDLER(.phases = phases, .phase_count = 200), {TP_ERR_USAGE, "new", {"phase_count is 200", "128"}}},
      {HANDLER(.phases = phases, .phase_count = 2), {TP_ERR_UNKNOWN_PHASE, "new", {"phases[1]", "99"}}},
      {HANDLER(.reserved_ = {0, 0, 7}), {TP_ERR_USAGE, "new", {"tp_handler.reserved_[2] is 7"}}},
      {HANDLER(.kind = (tp_handler_kind)5), {TP_ERR_USAGE, "new", {"kind is 5", "0 to 4"}}},
      {HANDLER(.kind = (tp_handler_kind)-1), {TP_ERR_USAGE, "new", {"kind is -1"}}},
      {HANDLER(.kind = TP_HANDLER_BUILTIN), {TP_ERR_USAGE, "new", {"kind is builtin", "`host` has trust host"}}},
      {HANDLER(.origin_file = "\xff"), {TP_ERR_UTF8, "new", {"origin_file", "UTF-8"}}},
      {HANDLER(.origin_line = 3), {TP_ERR_USAGE, "new", {"origin_line is 3", "origin_file is NULL"}}},
      {{.struct_size = sizeof(tp_handler), .id = "h", .run = no_run},
       {TP_ERR_DUPLICATE_ID, "h", {"handler `h`", "another id"}}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    memset(&w->fault, 0xee, sizeof w->fault);
    assert_fault(&w->fault, tp_edit_add_handler(edit, &cases[i].handler, &w->fault), &cases[i].want);
  }
  assert_fault(&w->fault, tp_edit_add_handler(edit, NULL, &w->fault), &(refusal){TP_ERR_USAGE, NULL, {"a handler"}});
  assert_fault(&w->fault, tp_edit_add_handler(NULL, &cases[0].handler, &w->fault),
               &(refusal){TP_ERR_USAGE, NULL, {"tp_edit_begin()"}});
  tp_edit_discard(edit);
  world_close(w);
}

#define SUBSCRIPTION(...) \
  { .struct_size = sizeof(tp_subscription), .id = "new", .handler = "h", __VA_ARGS__ }
#define GATHERED(...) SUBSCRIPTION(.phase = GATHER, __VA_ARGS__)

TEST(a_wrong_subscription_is_named_with_its_field) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  add(edit, subscription_of("there", GATHER));
  static const tp_contribution incomplete = {.struct_size = sizeof incomplete, .kind = TP_CONTRIBUTION_PROMPT_CONTEXT};
  static const tp_contribution *const keyless[] = {&incomplete};
  const tp_edge *const *edges = EDGES(EDGE("a b", false)), *const none = NULL;
  const tp_edge *const *sizeless = EDGES(&(const tp_edge){.target = "there"});
  const tp_edge *const *reserved =
      EDGES(&(const tp_edge){.struct_size = sizeof(tp_edge), .target = "there", .reserved_ = {0, 1}});
  static const tp_contribution *const nothing = NULL;
  const struct {
    tp_subscription sub;
    refusal want;
  } cases[] = {
      {{.id = "new", .handler = "h", .phase = GATHER}, {TP_ERR_VERSION, NULL, {"tp_subscription", "struct_size"}}},
      {{.struct_size = sizeof(tp_subscription), .handler = "h", .phase = GATHER},
       {TP_ERR_BAD_ID, NULL, {"tp_subscription.id is not set"}}},
      {{.struct_size = sizeof(tp_subscription), .id = "new", .phase = GATHER},
       {TP_ERR_BAD_ID, "new", {"`new`", "handler"}}},
      {SUBSCRIPTION(.phase = 0), {TP_ERR_UNKNOWN_PHASE, "new", {"phase 0", "phase_name"}}},
      {SUBSCRIPTION(.phase_name = "nowhere"), {TP_ERR_UNKNOWN_PHASE, "new", {"`nowhere`"}}},
      {SUBSCRIPTION(.phase = STOP, .phase_name = "plainAlias"), {TP_ERR_USAGE, "new", {"`plainAlias`", "one of the"}}},
      {GATHERED(.execution = (tp_execution)7), {TP_ERR_USAGE, "new", {"execution is 7"}}},
      {GATHERED(.failure = (tp_failure)7), {TP_ERR_USAGE, "new", {"failure is 7"}}},
      {GATHERED(.backoff = (tp_backoff)7), {TP_ERR_USAGE, "new", {"backoff is 7"}}},
      {GATHERED(.sequential = (tp_sequential)7), {TP_ERR_USAGE, "new", {"sequential is 7"}}},
      {GATHERED(.visibility = (tp_visibility)7), {TP_ERR_USAGE, "new", {"visibility is 7"}}},
      {GATHERED(.fallback_count = 2), {TP_ERR_USAGE, "new", {"fallback_count is 2"}}},
      {GATHERED(.failure = TP_FAILURE_FALLBACK, .fallback = keyless, .fallback_count = 1),
       {TP_ERR_MALFORMED, "new", {"contribution 1 of its fallback"}}},
      {GATHERED(.metadata = "\xff"), {TP_ERR_UTF8, "new", {"metadata"}}},
      {GATHERED(.after_count = 3), {TP_ERR_USAGE, "new", {"after has 3 edges"}}},
      {GATHERED(.needs = &none, .needs_count = 1), {TP_ERR_USAGE, "new", {"needs[0] is NULL"}}},
      {GATHERED(.needs = sizeless, .needs_count = 1), {TP_ERR_VERSION, NULL, {"tp_edge: struct_size is 0"}}},
      {GATHERED(.after = reserved, .after_count = 1), {TP_ERR_USAGE, "new", {"reserved_ of after[0]"}}},
      {GATHERED(.failure = TP_FAILURE_FALLBACK, .fallback = &nothing, .fallback_count = 1),
       {TP_ERR_USAGE, "new", {"fallback[0] is NULL"}}},
      {GATHERED(.before = edges, .before_count = 1), {TP_ERR_BAD_ID, "new", {"before[0]"}}},
      {GATHERED(.before = edges, .before_count = 2000000), {TP_ERR_TOO_LARGE, "new", {"before", "1000000"}}},
      {{.struct_size = sizeof(tp_subscription), .id = "there", .handler = "h", .phase = GATHER},
       {TP_ERR_DUPLICATE_ID, "there", {"subscription `there`", "another id"}}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    memset(&w->fault, 0xee, sizeof w->fault);
    assert_fault(&w->fault, tp_edit_add_subscription(edit, &cases[i].sub, &w->fault), &cases[i].want);
  }
  assert_fault(&w->fault, tp_edit_add_subscription(edit, NULL, &w->fault),
               &(refusal){TP_ERR_USAGE, NULL, {"a subscription"}});
  assert_fault(&w->fault, tp_edit_add_subscription(NULL, &cases[0].sub, &w->fault),
               &(refusal){TP_ERR_USAGE, NULL, {"tp_edit_begin()"}});
  tp_edit_discard(edit);
  world_close(w);
}

TEST(a_wrong_owner_is_named_with_its_field) {
  world *w = world_open();
  const struct {
    tp_owner owner;
    refusal want;
  } cases[] = {
      {{.name = "x"}, {TP_ERR_VERSION, NULL, {"tp_owner", "struct_size"}}},
      {{.struct_size = sizeof(tp_owner), .trust = TP_TRUST_HOST}, {TP_ERR_BAD_ID, NULL, {"tp_owner.name is not set"}}},
      {{.struct_size = sizeof(tp_owner), .name = "x", .trust = (tp_trust)9}, {TP_ERR_USAGE, "x", {"`x`", "trust 9"}}},
      {{.struct_size = sizeof(tp_owner), .name = "x"}, {TP_ERR_USAGE, "x", {"`x`", "trust is not set"}}},
      {{.struct_size = sizeof(tp_owner), .name = "x", .trust = TP_TRUST_HOST, .grants = 1u << 31},
       {TP_ERR_USAGE, "x", {"grants", "0x80000000"}}},
      {{.struct_size = sizeof(tp_owner), .name = "x", .trust = TP_TRUST_BUILTIN, .grants = TP_GRANT_REWRITE << 1},
       {TP_ERR_USAGE, "x", {"none of TP_GRANT_*"}}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tp_edit *edit = NULL;
    memset(&w->fault, 0xee, sizeof w->fault);
    assert_fault(&w->fault, tp__edit_new(w->registry, &cases[i].owner, &edit, &w->fault), &cases[i].want);
    assert_null(edit);
  }
  world_close(w);
}

TEST(a_wrong_change_is_named_with_its_call) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  tp_fault *fault = &w->fault;
  bool was;
  const refusal bad = {TP_ERR_BAD_ID, "a b", {"white space"}}, no_edit = {TP_ERR_USAGE, NULL, {"tp_edit_begin()"}};
  const refusal no_phase = {TP_ERR_UNKNOWN_PHASE, NULL, {"no phase 99"}};
  const refusal absent = {TP_ERR_NOT_FOUND, "ghost", {"`ghost`"}}, no_id = {TP_ERR_USAGE, NULL, {"the id"}};
  assert_fault(fault, tp_edit_remove_handler(edit, "a b", fault), &bad);
  assert_fault(fault, tp_edit_remove_subscription(edit, "a b", fault), &bad);
  assert_fault(fault, tp_edit_enable(edit, "a b", true, fault), &bad);
  assert_fault(fault, tp_edit_set_budget(edit, 99, 1, fault), &no_phase);
  assert_fault(fault, tp_edit_remove_handler(NULL, "a", fault), &no_edit);
  assert_fault(fault, tp_edit_remove_subscription(NULL, "a", fault), &no_edit);
  assert_fault(fault, tp_edit_enable(NULL, "a", true, fault), &no_edit);
  assert_fault(fault, tp_edit_set_budget(NULL, GATHER, 1, fault), &no_edit);
  assert_fault(fault, tp__registry_switch(w->registry, "ghost", TP__SWITCH_KILL, true, &was, fault), &absent);
  assert_fault(fault, tp__registry_switch(w->registry, NULL, TP__SWITCH_KILL, true, &was, fault), &no_id);
  tp_edit_discard(edit);
  world_close(w);
}
