/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"
#include "phases/merge/contribution.h"
#include "phases/merge/merge.h"
#include "tests/support/counting.h"

/* ---- a stage: inputs are added in plan order, then merged ---- */

enum { ITEMS_MAX = 72 };
static tp__arena arena;
static tp__merge_input inputs[ITEMS_MAX];
static size_t input_count;
static tp__turn_sets sets;
static tp_merged *merged;

static int setup(void **state) {
  (void)state;
  refuse_at = -1;
  input_count = 0;
  sets = (tp__turn_sets){0};
  tp__arena_init(&arena, &counting, NULL, 0, 0);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tp__arena_fini(&arena);
  return blocks_open == 0 ? 0 : -1;
}

FOR_EACH_TEST(setup, teardown);

/* A contribution of a subscription of its own: "s0", "s1", …, owned by "owner". */
static tp__merge_input *add(tp_contribution contribution) {
  tp_contribution *item = tp__arena_alloc(&arena, sizeof *item);
  assert_int_equal(tp__contribution_copy(&arena, &contribution, item), TP_OK);
  tp__merge_input *input = &inputs[input_count];
  const char *subscription = tp__arena_printf(&arena, "s%zu", input_count).data;
  *input = (tp__merge_input){subscription, "owner", subscription, NULL, 1, 0, item, 1, 0};
  input_count++;
  return input;
}

static tp__merge_input *policy(const char *domain, const char *key, const char *value, int32_t weight) {
  return add((tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = TP_CONTRIBUTION_POLICY,
                               .domain = tp_text_of(domain),
                               .key = tp_text_of(key),
                               .text = tp_text_of(value),
                               .weight = weight});
}

static tp__merge_input *context(const char *domain, const char *id, const char *text, int32_t weight) {
  return add((tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                               .domain = tp_text_of(domain),
                               .key = tp_text_of(id),
                               .text = tp_text_of(text),
                               .weight = weight});
}

static tp__merge_input *section(const char *id, const char *title, const char *text, int32_t weight) {
  return add((tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = TP_CONTRIBUTION_PROMPT_SECTION,
                               .key = tp_text_of(id),
                               .title = tp_text_of(title),
                               .text = tp_text_of(text),
                               .weight = weight});
}

static tp__merge_input *reminder(const char *text) {
  return add((tp_contribution){
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = tp_text_of(text)});
}

static tp__merge_input *signal_of(const char *kind, const char *code, const char *text) {
  return add((tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = TP_CONTRIBUTION_SIGNAL,
                               .domain = tp_text_of(kind),
                               .key = tp_text_of(code),
                               .text = tp_text_of(text)});
}

static tp_status try_merge(uint32_t phase, tp_fault *fault) {
  tp__merge merge = {.phase = phase, .inputs = inputs, .input_count = input_count, .sets = &sets};
  return tp__merge_run(&merge, &arena, &merged, fault);
}

static void merge_in(uint32_t phase) { assert_int_equal(try_merge(phase, NULL), TP_OK); }

/* A text of this many bytes, all of one letter. */
static const char *long_text(char letter, size_t size) {
  char *text = tp__arena_alloc(&arena, size + 1);
  memset(text, letter, size);
  text[size] = '\0';
  return text;
}

static const tp_contribution *at(uint32_t kind, size_t index) {
  assert_in_range(index, 0, tp_merged_count(merged, kind) - 1);
  return tp_merged_get(merged, kind, index)->contribution;
}

#define assert_count(kind, n) assert_int_equal(tp_merged_count(merged, (kind)), (n))
#define assert_text(text, string) assert_true(tp_text_is((text), (string)))

static void assert_diagnostic(size_t index, const char *subscription, const char *code, const char *text) {
  const tp_merged_entry *entry = tp_merged_get(merged, TP_CONTRIBUTION_DIAGNOSTIC, index);
  assert_non_null(entry->contribution);
  assert_string_equal(entry->contribution->text.data, text);
  assert_string_equal(entry->contribution->key.data, code);
  assert_string_equal(entry->subscription, subscription);
  assert_int_equal(entry->contribution->kind, TP_CONTRIBUTION_DIAGNOSTIC);
}

/* ---- policies ---- */

TEST(the_heavier_policy_wins_wherever_it_stands) {
  policy("memory", "read", "allow", 1);
  policy("memory", "read", "never", 2);
  policy("memory", "read", "maybe", -5);
  merge_in(TP_PHASE_TURN_PRE_POLICY);
  assert_count(TP_CONTRIBUTION_POLICY, 1);
  assert_text(at(TP_CONTRIBUTION_POLICY, 0)->text, "never");
  assert_string_equal(tp_merged_get(merged, TP_CONTRIBUTION_POLICY, 0)->subscription, "s1");
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 2);
  assert_diagnostic(0, "s0", "merge.policy_overridden",
                    "policy memory/read: s1 with weight 2 stands over s0 with weight 1");
  assert_diagnostic(1, "s2", "merge.policy_overridden",
                    "policy memory/read: s1 with weight 2 stands over s2 with weight -5");
}

TEST(the_extremes_of_weight_compare_without_overflow) {
  policy("d", "k", "light", INT32_MIN);
  policy("d", "k", "heavy", INT32_MAX);
  merge_in(TP_PHASE_TURN_PRE_POLICY);
  assert_text(at(TP_CONTRIBUTION_POLICY, 0)->text, "heavy");
}

TEST(equal_policies_merge_without_a_word) {
  policy("memory", "read", "allow", 1);
  policy("memory", "read", "allow", 1);
  policy("memory", "read", "allow", 0);
  merge_in(TP_PHASE_TURN_PRE_POLICY);
  assert_count(TP_CONTRIBUTION_POLICY, 1);
  assert_string_equal(tp_merged_get(merged, TP_CONTRIBUTION_POLICY, 0)->subscription, "s0");
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 0);
}

TEST(policies_that_disagree_with_equal_weight_leave_a_conflict_without_values) {
  policy("tool", "shell", "deny", 3);
  policy("tool", "shell", "allow", 3);
  merge_in(TP_PHASE_TURN_PRE_POLICY);
  assert_text(at(TP_CONTRIBUTION_POLICY, 0)->text, "deny");
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 1);
  assert_diagnostic(0, "s1", "merge.policy_conflict",
                    "policy tool/shell: s0 and s1 disagree with equal weight 3: the first is used");
  assert_int_equal(at(TP_CONTRIBUTION_DIAGNOSTIC, 0)->severity, TP_SEVERITY_WARNING);
}

TEST(policies_stand_by_domain_and_key) {
  policy("b", "x", "1", 9);
  policy("a", "z", "2", 0);
  policy("a", "y", "3", 0);
  policy("ab", "a", "4", 0);
  merge_in(TP_PHASE_TURN_PRE_POLICY);
  assert_text(at(TP_CONTRIBUTION_POLICY, 0)->text, "3");
  assert_text(at(TP_CONTRIBUTION_POLICY, 1)->text, "2");
  assert_text(at(TP_CONTRIBUTION_POLICY, 2)->text, "4");
  assert_text(at(TP_CONTRIBUTION_POLICY, 3)->text, "1");
}

TEST(a_later_entry_adds_to_the_turns_policies) {
  policy("memory", "read", "allow", 2);
  policy("memory", "write", "never", 2);
  merge_in(TP_PHASE_TURN_PRE_POLICY);
  assert_int_equal(tp__turn_sets_take(&sets, &arena, merged), TP_OK);
  input_count = 2; /* goes on counting subscriptions */
  policy("memory", "read", "never", 2);
  policy("memory", "write", "allow", 3);
  policy("skill", "use", "yes", 0);
  tp__merge merge = {.phase = TP_PHASE_TURN_PRE_POLICY, .inputs = inputs + 2, .input_count = 3, .sets = &sets};
  assert_int_equal(tp__merge_run(&merge, &arena, &merged, NULL), TP_OK);
  assert_count(TP_CONTRIBUTION_POLICY, 3);
  assert_text(at(TP_CONTRIBUTION_POLICY, 0)->text, "allow"); /* what was there stands first */
  assert_text(at(TP_CONTRIBUTION_POLICY, 1)->text, "allow");
  assert_string_equal(tp_merged_get(merged, TP_CONTRIBUTION_POLICY, 1)->subscription, "s3");
  assert_diagnostic(0, "s2", "merge.policy_conflict",
                    "policy memory/read: s0 and s2 disagree with equal weight 2: the first is used");
  assert_diagnostic(1, "s1", "merge.policy_overridden",
                    "policy memory/write: s3 with weight 3 stands over s1 with weight 2");
  assert_int_equal(tp__turn_sets_take(&sets, &arena, merged), TP_OK);
  assert_text(tp__turn_sets_policy(&sets, tp_text_of("memory"), tp_text_of("write")), "allow");
  assert_text(tp__turn_sets_policy(&sets, tp_text_of("skill"), tp_text_of("use")), "yes");
  assert_int_equal(tp__turn_sets_policy(&sets, tp_text_of("skill"), tp_text_of("us")).size, 0);
  assert_int_equal(tp__turn_sets_policy(&sets, tp_text_of(""), tp_text_of("")).size, 0);
}

/* ---- prompt context ---- */

TEST(contexts_stand_by_weight_then_domain_then_id) {
  context("b", "1", "t", 0);
  context("a", "9", "t", 0);
  context("a", "10", "t", 0);
  context("z", "z", "t", 5);
  context("", "y", "t", 0);
  context("a", "neg", "t", -1);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  static const char *const order[] = {"z", "y", "10", "9", "1", "neg"};
  assert_count(TP_CONTRIBUTION_PROMPT_CONTEXT, 6);
  for (size_t i = 0; i < 6; i++) assert_text(at(TP_CONTRIBUTION_PROMPT_CONTEXT, i)->key, order[i]);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 0);
}

TEST(one_context_id_is_there_once_the_heavier_else_the_first) {
  context("a", "x", "first", 1);
  context("b", "x", "heavier", 2);
  context("a", "y", "first", 1);
  context("a", "y", "second", 1);
  context("a", "z", "same", 1);
  context("a", "z", "same", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  assert_count(TP_CONTRIBUTION_PROMPT_CONTEXT, 3);
  assert_text(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 0)->text, "heavier");
  assert_text(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->text, "first");
  assert_text(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 2)->text, "same");
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 2);
  assert_diagnostic(0, "s0", "merge.duplicate", "prompt_context x: s1 contributed the same id and is used");
  assert_diagnostic(1, "s3", "merge.duplicate", "prompt_context y: s2 contributed the same id and is used");
}

TEST(the_sixty_fifth_context_is_dropped_with_a_diagnostic) {
  for (int i = 0; i < 66; i++) context("d", tp__arena_printf(&arena, "%02d", i).data, "t", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  assert_count(TP_CONTRIBUTION_PROMPT_CONTEXT, 64);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 2);
  assert_diagnostic(0, "s64", "merge.dropped",
                    "prompt_context 64: dropped: the turn's 64 prompt contexts stand before it");
}

TEST(contexts_are_cut_at_the_budget_and_the_rest_is_dropped) {
  context("d", "a", long_text('a', 11000), 3);
  context("d", "b", long_text('b', 5000), 2);
  context("d", "c", "c", 1);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  assert_count(TP_CONTRIBUTION_PROMPT_CONTEXT, 2);
  assert_int_equal(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->text.size, 1000);
  assert_diagnostic(0, "s1", "merge.cut", "prompt_context b: cut from 5000 to 1000 bytes by the budget");
  assert_diagnostic(1, "s2", "merge.dropped", "prompt_context c: dropped: nothing of it fits into the budget");
}

TEST(exactly_the_budget_is_whole) {
  context("d", "a", long_text('a', TP__CONTEXT_BYTES_MAX - 1), 1);
  context("d", "b", "b", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  assert_count(TP_CONTRIBUTION_PROMPT_CONTEXT, 2);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 0);
}

TEST(a_cut_does_not_split_a_code_point) {
  context("d", "a", long_text('a', 11998), 1);
  context("d", "b", "\xe2\x82\xac\xe2\x82\xac", 0); /* two bytes are left, one sign needs three */
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  assert_count(TP_CONTRIBUTION_PROMPT_CONTEXT, 1);
  assert_diagnostic(0, "s1", "merge.dropped", "prompt_context b: dropped: nothing of it fits into the budget");
  input_count = 0;
  context("d", "a", long_text('a', 11996), 1);
  context("d", "b", "\xe2\x82\xac\xe2\x82\xac", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  assert_text(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->text, "\xe2\x82\xac");
}

static tp_contribution with_short_form(const char *text, const char *short_text) {
  return (tp_contribution){.struct_size = sizeof(tp_contribution),
                           .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                           .key = tp_text_of("b"),
                           .text = tp_text_of(text),
                           .short_text = tp_text_of(short_text)};
}

TEST(the_short_form_stands_in_when_the_text_does_not_fit) {
  context("", "a", long_text('a', 11990), 1);
  add(with_short_form("much too long", "short"));
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  assert_text(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->text, "short");
  assert_int_equal(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->short_text.size, 0);
  assert_diagnostic(0, "s1", "merge.shortened",
                    "prompt_context b: its short form of 5 bytes stands for 13 by the budget");
  input_count = 0;
  context("", "a", long_text('a', 11997), 1);
  add(with_short_form("much too long", "short"));
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  assert_text(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->text, "sho");
  assert_diagnostic(0, "s1", "merge.cut", "prompt_context b: cut from 13 to 3 bytes by the budget");
}

TEST(a_short_form_that_is_longer_is_no_short_form) {
  context("", "a", long_text('a', 11997), 1);
  add(with_short_form("too long", "even longer than that"));
  merge_in(TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  assert_text(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->text, "too");
}

TEST(the_turns_contexts_share_one_budget_over_its_phases) {
  context("d", "a", long_text('a', 8000), 1);
  merge_in(TP_PHASE_SESSION_START);
  assert_int_equal(tp__turn_sets_take(&sets, &arena, merged), TP_OK);
  context("d", "b", long_text('b', 8000), 5);
  tp__merge merge = {.phase = TP_PHASE_TURN_INTAKE, .inputs = inputs + 1, .input_count = 1, .sets = &sets};
  assert_int_equal(tp__merge_run(&merge, &arena, &merged, NULL), TP_OK);
  assert_count(TP_CONTRIBUTION_PROMPT_CONTEXT, 2);
  assert_int_equal(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 0)->text.size, 8000);
  assert_int_equal(at(TP_CONTRIBUTION_PROMPT_CONTEXT, 1)->text.size, 4000);
  assert_diagnostic(0, "s0", "merge.cut", "prompt_context a: cut from 8000 to 4000 bytes by the budget");
  tp__turn_sets own = {.policies = sets.policies}; /* as model.pre has it */
  merge.sets = &own;
  assert_int_equal(tp__merge_run(&merge, &arena, &merged, NULL), TP_OK);
  assert_count(TP_CONTRIBUTION_PROMPT_CONTEXT, 1);
}

TEST(an_entry_that_contributes_no_context_does_not_repeat_the_turns) {
  context("d", "a", "t", 1);
  merge_in(TP_PHASE_SESSION_START);
  assert_int_equal(tp__turn_sets_take(&sets, &arena, merged), TP_OK);
  input_count = 0;
  reminder("r");
  merge_in(TP_PHASE_TURN_INTAKE);
  assert_count(TP_CONTRIBUTION_PROMPT_CONTEXT, 0);
  assert_int_equal(tp__turn_sets_take(&sets, &arena, merged), TP_OK);
  assert_int_equal(sets.contexts.count, 1);
}

TEST(the_turns_sets_outlive_the_entry) {
  tp__arena turn;
  tp__arena_init(&turn, &counting, NULL, 0, 0);
  policy("d", "k", "value", 0);
  context("d", "id", long_text('a', 13000), 1);
  merge_in(TP_PHASE_TURN_PRE_POLICY);
  assert_int_equal(tp__turn_sets_take(&sets, &turn, merged), TP_OK);
  tp__arena_fini(&arena); /* the address sanitizer watches what follows */
  assert_text(tp__turn_sets_policy(&sets, tp_text_of("d"), tp_text_of("k")), "value");
  assert_string_equal(sets.contexts.items[0].entry.subscription, "s1");
  assert_string_equal(sets.contexts.items[0].entry.owner, "owner");
  assert_int_equal(sets.contexts.items[0].entry.contribution->text.size, 12000);
  tp__arena_fini(&turn);
}

/* ---- sections ---- */

TEST(sections_stand_by_weight_then_id) {
  section("b", "", "t", 0);
  section("a", "", "t", 0);
  section("c", "", "t", 1);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_COMPILE);
  assert_text(at(TP_CONTRIBUTION_PROMPT_SECTION, 0)->key, "c");
  assert_text(at(TP_CONTRIBUTION_PROMPT_SECTION, 1)->key, "a");
  assert_text(at(TP_CONTRIBUTION_PROMPT_SECTION, 2)->key, "b");
}

TEST(sections_of_one_id_are_joined_by_a_blank_line_heaviest_first) {
  section("x", "", "light", 0);
  section("y", "", "between", 1);
  section("x", "Title", "heavy", 2);
  section("x", "Title", "light too", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_COMPILE);
  assert_count(TP_CONTRIBUTION_PROMPT_SECTION, 2);
  assert_text(at(TP_CONTRIBUTION_PROMPT_SECTION, 0)->key, "x");
  assert_text(at(TP_CONTRIBUTION_PROMPT_SECTION, 0)->text, "heavy\n\nlight\n\nlight too");
  assert_text(at(TP_CONTRIBUTION_PROMPT_SECTION, 0)->title, "Title");
  assert_string_equal(tp_merged_get(merged, TP_CONTRIBUTION_PROMPT_SECTION, 0)->subscription, "s2");
  assert_text(at(TP_CONTRIBUTION_PROMPT_SECTION, 1)->key, "y");
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 0);
}

TEST(differing_titles_of_one_section_are_diagnosed) {
  section("x", "", "a", 0);
  section("x", "One", "b", 0);
  section("x", "Two", "c", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_COMPILE);
  assert_text(at(TP_CONTRIBUTION_PROMPT_SECTION, 0)->title, "One");
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 1);
  assert_diagnostic(0, "s2", "merge.title_conflict",
                    "prompt_section x: s1 and s2 give it different titles: the first is used");
}

TEST(one_section_has_8000_bytes_and_all_have_16000) {
  section("a", "", long_text('a', 9000), 3);
  section("b", "", long_text('b', 7000), 2);
  section("c", "", long_text('c', 7000), 1);
  section("d", "", "d", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_COMPILE);
  assert_count(TP_CONTRIBUTION_PROMPT_SECTION, 3);
  assert_int_equal(at(TP_CONTRIBUTION_PROMPT_SECTION, 0)->text.size, 8000);
  assert_int_equal(at(TP_CONTRIBUTION_PROMPT_SECTION, 1)->text.size, 7000);
  assert_int_equal(at(TP_CONTRIBUTION_PROMPT_SECTION, 2)->text.size, 1000);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 3);
  assert_diagnostic(0, "s0", "merge.cut", "prompt_section a: cut from 9000 to 8000 bytes by the budget");
}

TEST(a_joined_section_keeps_to_its_budget_part_by_part) {
  section("x", "", long_text('a', 7990), 0);
  section("x", "", long_text('b', 20), 0);
  section("x", "", "c", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_COMPILE);
  assert_int_equal(at(TP_CONTRIBUTION_PROMPT_SECTION, 0)->text.size, 8000);
  assert_memory_equal(at(TP_CONTRIBUTION_PROMPT_SECTION, 0)->text.data + 7988, "aa\n\nbbbbbbbb", 12);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 2);
  assert_diagnostic(0, "s1", "merge.cut", "prompt_section x: cut from 20 to 8 bytes by the budget");
  assert_diagnostic(1, "s2", "merge.dropped", "prompt_section x: dropped: nothing of it fits into the budget");
}

TEST(a_section_whose_first_part_does_not_fit_is_dropped_whole) {
  section("a", "", long_text('a', 8000), 2);
  section("b", "", long_text('b', 7999), 2);
  section("x", "", "\xc3\xa9", 1);
  section("x", "", "c", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_COMPILE);
  assert_count(TP_CONTRIBUTION_PROMPT_SECTION, 2);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 2);
  assert_diagnostic(0, "s2", "merge.dropped", "prompt_section x: dropped: nothing of it fits into the budget");
  assert_diagnostic(1, "s3", "merge.dropped", "prompt_section x: dropped: the first part of its section does not fit");
}

TEST(the_seventeenth_section_is_dropped_with_all_its_parts) {
  for (int i = 0; i < 17; i++) section(tp__arena_printf(&arena, "%02d", i).data, "", "t", 0);
  section("16", "", "more", 0);
  merge_in(TP_PHASE_TURN_PRE_PROMPT_COMPILE);
  assert_count(TP_CONTRIBUTION_PROMPT_SECTION, 16);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 2);
  assert_diagnostic(1, "s17", "merge.dropped", "prompt_section 16: dropped: 16 prompt sections stand before it");
}

/* ---- tools ---- */

static tp_answer tool_run(void *ctx, tp_tool_run *run) {
  (void)ctx;
  (void)run;
  return TP_ANSWER_DONE;
}

static tp__merge_input *bundle(const char *owner, const char *handler, const char *id, const char *one,
                               const char *two) {
  tp_tool tools[2] = {{.struct_size = sizeof(tp_tool), .name = one, .run = tool_run},
                      {.struct_size = sizeof(tp_tool), .name = two, .run = tool_run}};
  const tp_tool *list[] = {&tools[0], &tools[1]};
  tp__merge_input *input = add((tp_contribution){.struct_size = sizeof(tp_contribution),
                                                 .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                                 .key = tp_text_of(id),
                                                 .tools = list,
                                                 .tool_count = two ? 2 : 1});
  input->owner = owner;
  input->handler = handler;
  return input;
}

TEST(bundles_keep_plan_order) {
  bundle("o", "h1", "z", "t1", "t2");
  bundle("o", "h2", "a", "t3", NULL);
  merge_in(TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION);
  assert_text(at(TP_CONTRIBUTION_TOOL_BUNDLE, 0)->key, "z");
  assert_text(at(TP_CONTRIBUTION_TOOL_BUNDLE, 1)->key, "a");
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 0);
}

TEST(a_bundle_id_that_a_handler_repeats_keeps_the_first) {
  bundle("o", "h", "b", "t1", NULL);
  bundle("o", "h", "b", "t2", NULL);
  bundle("o", "other", "b", "t3", NULL);
  merge_in(TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION);
  assert_count(TP_CONTRIBUTION_TOOL_BUNDLE, 2);
  assert_string_equal(at(TP_CONTRIBUTION_TOOL_BUNDLE, 0)->tools[0]->name, "t1");
  assert_string_equal(at(TP_CONTRIBUTION_TOOL_BUNDLE, 1)->tools[0]->name, "t3");
  assert_diagnostic(0, "s1", "merge.duplicate",
                    "tool_bundle b: dropped: its handler contributed a bundle of this id before");
}

TEST(one_tool_name_from_two_owners_is_an_error_that_names_both) {
  tp_fault fault = {0};
  bundle("alice", "h1", "b1", "t1", "shell");
  bundle("bob", "h2", "b2", "shell", NULL);
  tp_merged *before = merged = NULL;
  assert_int_equal(try_merge(TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, &fault), TP_ERR_TOOL_CONFLICT);
  assert_ptr_equal(merged, before);
  assert_string_equal(fault.subject, "shell");
  assert_string_equal(
      fault.message,
      "tool shell is contributed by owner alice (subscription s0) and by owner bob (subscription s1): rename one");
}

TEST(one_tool_name_twice_from_one_owner_keeps_the_first) {
  bundle("o", "h1", "b1", "t1", "shell");
  bundle("o", "h2", "b2", "shell", "t2");
  merge_in(TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION);
  assert_int_equal(at(TP_CONTRIBUTION_TOOL_BUNDLE, 0)->tool_count, 2);
  assert_int_equal(at(TP_CONTRIBUTION_TOOL_BUNDLE, 1)->tool_count, 1);
  assert_string_equal(at(TP_CONTRIBUTION_TOOL_BUNDLE, 1)->tools[0]->name, "t2");
  assert_diagnostic(0, "s1", "merge.duplicate",
                    "tool_bundle b2: tool shell is left out: the owner contributed it before, through s0");
}

TEST(a_dropped_bundle_conflicts_with_none) {
  bundle("alice", "h", "b", "t1", NULL);
  bundle("alice", "h", "b", "shell", NULL);
  bundle("bob", "g", "b", "shell", NULL);
  merge_in(TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION);
  assert_count(TP_CONTRIBUTION_TOOL_BUNDLE, 2);
}

TEST(a_bundle_without_tools_is_kept) {
  add((tp_contribution){
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_TOOL_BUNDLE, .key = tp_text_of("empty")});
  merge_in(TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION);
  assert_count(TP_CONTRIBUTION_TOOL_BUNDLE, 1);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 0);
}

/* ---- what stays in order ---- */

TEST(signals_reminders_audits_and_diagnostics_keep_plan_order) {
  signal_of("routing_hint", "B", "1");
  reminder("z");
  signal_of("normalized_intent", "A", "2");
  reminder("a");
  add((tp_contribution){
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_AUDIT, .key = tp_text_of("two")});
  add((tp_contribution){.struct_size = sizeof(tp_contribution),
                        .kind = TP_CONTRIBUTION_DIAGNOSTIC,
                        .key = tp_text_of("d"),
                        .text = tp_text_of("mine")});
  add((tp_contribution){
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_AUDIT, .key = tp_text_of("one")});
  add((tp_contribution){
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC, .key = tp_text_of("m")});
  merge_in(TP_PHASE_TURN_INTAKE);
  assert_text(at(TP_CONTRIBUTION_SIGNAL, 0)->key, "B");
  assert_text(at(TP_CONTRIBUTION_SIGNAL, 1)->key, "A");
  assert_text(at(TP_CONTRIBUTION_REMINDER, 0)->text, "z");
  assert_text(at(TP_CONTRIBUTION_REMINDER, 1)->text, "a");
  assert_text(at(TP_CONTRIBUTION_AUDIT, 0)->key, "two");
  assert_text(at(TP_CONTRIBUTION_AUDIT, 1)->key, "one");
  assert_count(TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC, 1);
  assert_diagnostic(0, "s5", "d", "mine");
  assert_count(0, 8);
}

TEST(a_signal_in_a_phase_that_is_not_its_own_is_dropped) {
  signal_of("ability_guard", "ABILITY_DENIED", "no");
  merge_in(TP_PHASE_TURN_INTAKE);
  assert_count(TP_CONTRIBUTION_SIGNAL, 0);
  assert_diagnostic(0, "s0", "merge.signal_kind",
                    "signal ABILITY_DENIED: dropped: the phase does not take this kind of signal");
  merge_in(TP_PHASE_TOOL_PRE);
  assert_count(TP_CONTRIBUTION_SIGNAL, 1);
}

TEST(the_thirty_third_signal_is_dropped) {
  for (int i = 0; i < 33; i++) signal_of("routing_hint", "C", "t");
  merge_in(TP_PHASE_TURN_INTAKE);
  assert_count(TP_CONTRIBUTION_SIGNAL, 32);
  assert_diagnostic(0, "s32", "merge.dropped", "signal C: dropped: 32 signals stand before it");
}

TEST(a_signals_text_is_cut_and_its_value_is_whole_or_dropped) {
  char value[300] = "\xc5\x01\x27"; /* 295 bytes */
  signal_of("routing_hint", "A", long_text('a', 16100));
  add((tp_contribution){.struct_size = sizeof(tp_contribution),
                        .kind = TP_CONTRIBUTION_SIGNAL,
                        .domain = tp_text_of("routing_hint"),
                        .key = tp_text_of("B"),
                        .value = {value, 298}});
  signal_of("routing_hint", "C", long_text('c', 285));
  signal_of("routing_hint", "D", "");
  merge_in(TP_PHASE_TURN_INTAKE);
  assert_count(TP_CONTRIBUTION_SIGNAL, 3);
  assert_text(at(TP_CONTRIBUTION_SIGNAL, 1)->key, "C");
  assert_int_equal(at(TP_CONTRIBUTION_SIGNAL, 1)->text.size, 284);
  assert_text(at(TP_CONTRIBUTION_SIGNAL, 2)->key, "D");
  assert_diagnostic(0, "s1", "merge.dropped", "signal B: dropped: its payload does not fit into the budget");
  assert_diagnostic(1, "s2", "merge.cut", "signal C: cut from 285 to 284 bytes by the budget");
}

TEST(reminders_keep_to_16_and_8000_bytes) {
  reminder(long_text('a', 7000));
  reminder(long_text('b', 1200));
  reminder("c");
  merge_in(TP_PHASE_TOOL_POST);
  assert_count(TP_CONTRIBUTION_REMINDER, 2);
  assert_int_equal(at(TP_CONTRIBUTION_REMINDER, 1)->text.size, 1000);
  assert_diagnostic(0, "s1", "merge.cut", "reminder: cut from 1200 to 1000 bytes by the budget");
  assert_diagnostic(1, "s2", "merge.dropped", "reminder: dropped: nothing of it fits into the budget");
  input_count = 0;
  for (int i = 0; i < 17; i++) reminder("r");
  merge_in(TP_PHASE_TOOL_POST);
  assert_count(TP_CONTRIBUTION_REMINDER, 16);
  assert_diagnostic(0, "s16", "merge.dropped", "reminder: dropped: there are 16 reminders without it");
}

TEST(why_something_was_blocked_is_never_cut) {
  reminder(long_text('a', 7000));
  for (int i = 0; i < 20; i++) reminder(long_text('b', 1000))->flags = TP__MERGE_BLOCK;
  reminder("late");
  merge_in(TP_PHASE_TOOL_PRE);
  assert_count(TP_CONTRIBUTION_REMINDER, 20);
  for (size_t i = 0; i < 20; i++) assert_int_equal(at(TP_CONTRIBUTION_REMINDER, i)->text.size, 1000);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 2);
}

TEST(a_blocks_reason_takes_from_the_budget_of_those_before_it) {
  reminder(long_text('a', 7000));
  reminder(long_text('b', 5000))->flags = TP__MERGE_BLOCK;
  merge_in(TP_PHASE_TOOL_PRE);
  assert_int_equal(at(TP_CONTRIBUTION_REMINDER, 0)->text.size, 3000);
  assert_int_equal(at(TP_CONTRIBUTION_REMINDER, 1)->text.size, 5000);
}

TEST(an_alias_that_shows_nothing_to_the_model_drops_reminders_and_signals_alone) {
  reminder("r")->flags = TP__MERGE_INFRA;
  signal_of("routing_hint", "A", "t")->flags = TP__MERGE_INFRA;
  add((tp_contribution){
          .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_AUDIT, .key = tp_text_of("kept")})
      ->flags = TP__MERGE_INFRA;
  reminder("other");
  merge_in(TP_PHASE_TURN_INTAKE);
  assert_count(TP_CONTRIBUTION_REMINDER, 1);
  assert_count(TP_CONTRIBUTION_SIGNAL, 0);
  assert_count(TP_CONTRIBUTION_AUDIT, 1);
  assert_diagnostic(0, "s0", "merge.alias",
                    "reminder: dropped: the name it was subscribed through shows nothing to the model");
  assert_diagnostic(1, "s1", "merge.alias",
                    "signal A: dropped: the name it was subscribed through shows nothing to the model");
}

static tp__merge_input *job(const char *key, const char *handler, const char *order_key) {
  return add((tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = TP_CONTRIBUTION_BACKGROUND_JOB,
                               .key = tp_text_of(key),
                               .domain = tp_text_of(handler),
                               .text = tp_text_of(order_key)});
}

TEST(jobs_are_there_once_per_key) {
  job("z", "h", "s");
  job("a", "h", "s");
  job("z", "h", "s");
  job("a", "g", "s");
  merge_in(TP_PHASE_TURN_POST_TURN);
  assert_count(TP_CONTRIBUTION_BACKGROUND_JOB, 2);
  assert_text(at(TP_CONTRIBUTION_BACKGROUND_JOB, 0)->key, "z");
  assert_text(at(TP_CONTRIBUTION_BACKGROUND_JOB, 1)->domain, "h");
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 1);
  assert_diagnostic(0, "s3", "merge.duplicate", "background_job a: dropped: another job of this key stands before it");
}

TEST(a_failed_entry_keeps_audits_and_diagnostics_alone) {
  policy("d", "k", "v", 0);
  reminder("r");
  add((tp_contribution){.struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_AUDIT, .key = tp_text_of("a")});
  add((tp_contribution){
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_DIAGNOSTIC, .key = tp_text_of("d")});
  tp__merge merge = {
      .phase = TP_PHASE_TURN_PRE_POLICY, .failed = true, .inputs = inputs, .input_count = 4, .sets = &sets};
  assert_int_equal(tp__merge_run(&merge, &arena, &merged, NULL), TP_OK);
  assert_count(0, 2);
  assert_count(TP_CONTRIBUTION_AUDIT, 1);
  assert_count(TP_CONTRIBUTION_DIAGNOSTIC, 1);
}

/* ---- reading ---- */

TEST(reading_past_the_end_or_of_nothing_is_empty) {
  assert_int_equal(tp_merged_count(NULL, 0), 0);
  assert_null(tp_merged_get(NULL, 0, 0));
  assert_int_equal(tp_merged_text(NULL, TP_FIELD_TEXT).size, 0);
  assert_false(tp_merged_replaced(NULL, TP_FIELD_TEXT));
  reminder("r");
  merge_in(TP_PHASE_TOOL_POST);
  assert_null(tp_merged_get(merged, 0, 1));
  assert_null(tp_merged_get(merged, TP_CONTRIBUTION_REMINDER, 1));
  assert_null(tp_merged_get(merged, TP_CONTRIBUTION_COUNT, 0));
  assert_null(tp_merged_get(merged, UINT32_MAX, 0));
  assert_int_equal(tp_merged_count(merged, TP_CONTRIBUTION_COUNT), 0);
  assert_int_equal(tp_merged_get(merged, 0, 0)->attempt, 1);
}

TEST(the_payload_is_read_as_the_chain_left_it) {
  const tp__merged_field fields[] = {
      {{.id = TP_FIELD_FILES, .kind = TP_FIELD_KIND_VALUE, .text = {"\x90", 1}}, false},
      {{.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = {"new", 3}}, true},
      {{.id = TP_FIELD_ATTEMPT, .kind = TP_FIELD_KIND_INT, .number = 3}, true},
  };
  tp__merge merge = {.phase = TP_PHASE_TURN_INTAKE, .fields = fields, .field_count = 3};
  assert_int_equal(tp__merge_run(&merge, &arena, &merged, NULL), TP_OK);
  assert_text(tp_merged_text(merged, TP_FIELD_TEXT), "new");
  assert_true(tp_merged_replaced(merged, TP_FIELD_TEXT));
  assert_text(tp_merged_text(merged, TP_FIELD_FILES), "\x90");
  assert_false(tp_merged_replaced(merged, TP_FIELD_FILES));
  assert_int_equal(tp_merged_text(merged, TP_FIELD_ATTEMPT).size, 0);
  assert_int_equal(tp_merged_text(merged, TP_FIELD_MODEL).size, 0);
  assert_false(tp_merged_replaced(merged, TP_FIELD_MODEL));
}

/* ---- canonical bytes ---- */

static tp_text bytes_of(const tp_merged *result, tp_writer *writer) {
  tp_text bytes = {NULL, 0};
  tp_writer_reset(writer);
  assert_int_equal(tp_merged_write(result, writer), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &bytes), TP_OK);
  return bytes;
}

TEST(canonical_bytes_are_canonical_and_show_everything) {
  tp_writer *writer, *again;
  assert_int_equal(tp_writer_new(&counting, &writer), TP_OK);
  assert_int_equal(tp_writer_new(&counting, &again), TP_OK);
  context("d", "id", "text", 3);
  add((tp_contribution){.struct_size = sizeof(tp_contribution),
                        .kind = TP_CONTRIBUTION_SIGNAL,
                        .domain = tp_text_of("routing_hint"),
                        .key = tp_text_of("A"),
                        .value = {"\x82\xa1z\xcd\x00\x01\xa1y\x02", 9}}); /* keys unsorted, 1 in three bytes */
  bundle("o", "h", "b", "t1", "t2");
  const tp__merged_field fields[] = {
      {{.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = {"new", 3}}, true},
      {{.id = TP_FIELD_FILES, .kind = TP_FIELD_KIND_VALUE, .text = {"\x90", 1}}, true},
      {{.id = TP_FIELD_ATTEMPT, .kind = TP_FIELD_KIND_INT, .number = 3}, false},
  };
  tp__merge merge = {
      .phase = TP_PHASE_TURN_INTAKE, .inputs = inputs, .input_count = 3, .fields = fields, .field_count = 3};
  assert_int_equal(tp__merge_run(&merge, &arena, &merged, NULL), TP_OK);
  tp_text bytes = bytes_of(merged, writer), canonical = {NULL, 0};
  assert_int_equal(tp_value_write_canonical(bytes, again, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(again, &canonical), TP_OK);
  assert_true(tp_text_equal(bytes, canonical));
  tp_text contributions = tp_value_get(bytes, "contributions"), replaced = tp_value_get(bytes, "replaced");
  assert_int_equal(tp_value_count(contributions), 3);
  tp_text first = tp_value_at(contributions, 0);
  assert_text(tp_value_text(tp_value_get(first, "kind")), "prompt_context");
  assert_text(tp_value_text(tp_value_get(first, "subscription")), "s0");
  assert_text(tp_value_text(tp_value_get(first, "owner")), "owner");
  assert_int_equal(tp_value_int(tp_value_get(first, "weight"), 0), 3);
  assert_int_equal(tp_value_count(tp_value_get(tp_value_at(contributions, 1), "tools")), 2);
  assert_int_equal(tp_value_count(replaced), 2);
  assert_int_equal(tp_value_int(tp_value_get(tp_value_at(replaced, 0), "field"), 0), TP_FIELD_TEXT);
  assert_int_equal(tp_value_int(tp_value_get(tp_value_at(replaced, 1), "field"), 0), TP_FIELD_FILES);
  tp_writer_free(writer);
  tp_writer_free(again);
}

TEST(nothing_has_canonical_bytes_too) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(&counting, &writer), TP_OK);
  assert_text(bytes_of(NULL, writer),
              "\x82\xad"
              "contributions"
              "\x90\xa8"
              "replaced"
              "\x90");
  tp_writer_free(writer);
}

/* ---- refused memory ---- */

/* An arena with only a buffer is refused at every possible point, not only where a chunk begins. */
TEST(every_size_of_buffer_is_enough_or_a_clean_error) {
  static char buffer[64 * 1024];
  size_t enough = 0;
  policy("d", "k", "a", 0);
  policy("d", "k", "b", 0);
  context("d", "a", long_text('a', 13000), 1);
  section("x", "A", "a", 0);
  section("x", "B", "b", 0);
  bundle("o", "h", "b", "t", NULL);
  bundle("o", "g", "b", "t", "u");
  reminder(long_text('r', 9000));
  job("k", "h", "");
  job("k", "h", "");
  for (size_t size = 0; size < sizeof buffer && !enough; size += 8) {
    tp__arena small;
    tp_merged *result = NULL;
    tp__arena_init(&small, NULL, buffer, size, 0);
    tp__merge merge = {.phase = TP_PHASE_TURN_INTAKE, .inputs = inputs, .input_count = input_count};
    tp_status status = tp__merge_run(&merge, &small, &result, NULL);
    if (status == TP_OK) enough = size;
    else assert_int_equal(status, TP_ERR_NO_MEMORY);
  }
  assert_in_range(enough, 1000, sizeof buffer);
}
