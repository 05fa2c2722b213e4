/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties of every merge, over random contributions: only plan order counts; merging again changes nothing; budgets
 * hold; and each contribution is in the result, in an entry of it, or named by a diagnostic. */
#include "tests/support/test.h"
#include "phases/merge/contribution.h"
#include "phases/merge/merge.h"
#include "tests/support/counting.h"

static tp_answer tool_run(void *ctx, tp_tool_run *run) {
  (void)ctx;
  (void)run;
  return TP_ANSWER_DONE;
}

/* ---- random contributions ---- */

static uint64_t random_state;

static uint32_t random_below(uint32_t bound) { /* splitmix64 */
  uint64_t z = random_state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (uint32_t)((z ^ z >> 31) >> 32) % bound;
}

/* A text of the wanted size at most, of letters of one to three bytes. */
static tp_text random_text(tp__arena *memory, size_t size) {
  static const char *const letters[] = {"a", "b", "\n", "\xc3\xa9", "\xe2\x82\xac"};
  char *text = tp__arena_alloc(memory, size + 1);
  size_t used = 0;
  while (used < size) {
    const char *letter = letters[random_below(5)];
    if (used + strlen(letter) > size) letter = "x";
    memcpy(text + used, letter, strlen(letter));
    used += strlen(letter);
  }
  text[used] = '\0';
  return (tp_text){text, used};
}

static tp_text random_name(tp__arena *memory, const char *stem, uint32_t bound) {
  return tp__arena_printf(memory, "%s%u", stem, random_below(bound));
}

static size_t random_size(void) {
  static const uint32_t bounds[] = {4, 40, 400, 9000};
  return 1 + random_below(bounds[random_below(4)]);
}

static tp_contribution random_contribution(tp__arena *memory) {
  static const char *const hints[] = {"routing_hint", "normalized_intent", "routing_hint"};
  tp_contribution c = {.struct_size = sizeof c,
                       .kind = 1 + random_below(TP_CONTRIBUTION_COUNT - 1),
                       .weight = (int32_t)random_below(3) - 1};
  c.key = random_name(memory, "k", random_below(2) ? 6 : 40);
  c.domain = random_name(memory, "d", 2);
  c.text = random_text(memory, c.kind == TP_CONTRIBUTION_POLICY ? 1 : random_size());
  if (random_below(3) == 0) c.short_text = random_text(memory, 1 + random_below(60));
  if (random_below(3) == 0) c.title = random_name(memory, "t", 2);
  if (c.kind == TP_CONTRIBUTION_SIGNAL) c.domain = tp_text_of(hints[random_below(3)]);
  if (c.kind == TP_CONTRIBUTION_SIGNAL && random_below(2)) {
    c.text = (tp_text){NULL, 0};
    c.value = (tp_text){
        "\xa3"
        "abc",
        4};
  }
  if (c.kind == TP_CONTRIBUTION_TOOL_BUNDLE) {
    tp_tool *tools = tp__arena_zero(memory, 3 * sizeof *tools);
    const tp_tool **list = tp__arena_zero(memory, 3 * sizeof *list);
    c.tools = list;
    c.tool_count = random_below(4);
    for (uint32_t i = 0; i < c.tool_count; i++) {
      list[i] = &tools[i];
      tools[i] = (tp_tool){.struct_size = sizeof *tools,
                           .run = tool_run,
                           .name = tp__arena_printf(memory, "tool%u-%u", i, random_below(6)).data};
    }
  }
  return c;
}

typedef struct random_set {
  tp__arena memory;
  tp__merge_input inputs[24];
  size_t count;
  tp__turn_sets sets;
} random_set;

/* Items of any kind, up to 24 subscriptions with up to 5 items each; some are marked. */
static void make_set(random_set *set) {
  tp__arena_init(&set->memory, &counting, NULL, 0, 0);
  set->sets = (tp__turn_sets){0};
  set->count = random_below(25);
  for (size_t i = 0; i < set->count; i++) {
    size_t count = random_below(6);
    tp_contribution *items = tp__arena_alloc(&set->memory, count * sizeof *items);
    for (size_t j = 0; j < count; j++) {
      tp_contribution made = random_contribution(&set->memory);
      assert_int_equal(tp__contribution_copy(&set->memory, &made, &items[j]), TP_OK);
    }
    uint32_t mark = random_below(8);
    set->inputs[i] = (tp__merge_input){
        .subscription = tp__arena_printf(&set->memory, "s%02zu", i).data,
        .owner = "owner",
        .handler = random_name(&set->memory, "h", 12).data,
        .attempt = 1 + random_below(3),
        .flags = mark == 0   ? TP__MERGE_INFRA
                 : mark == 1 ? TP__MERGE_BLOCK
                             : 0u,
        .items = items,
        .count = count,
    };
  }
}

static tp_merged *merge_set(const random_set *set, const tp__merge_input *from, size_t count, tp__arena *memory) {
  tp_merged *result = NULL;
  tp__merge merge = {.phase = TP_PHASE_TURN_INTAKE, .inputs = from, .input_count = count, .sets = &set->sets};
  assert_int_equal(tp__merge_run(&merge, memory, &result, NULL), TP_OK);
  return result;
}

static tp_text bytes_of(const tp_merged *result, tp_writer *writer) {
  tp_text bytes = {NULL, 0};
  tp_writer_reset(writer);
  assert_int_equal(tp_merged_write(result, writer), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &bytes), TP_OK);
  return bytes;
}

/* The same inputs, but each allocated anew in another order, so that every address differs. */
static void produce_again(const random_set *set, tp__arena *memory, tp__merge_input *copies) {
  size_t order[24];
  for (size_t i = 0; i < set->count; i++) {
    size_t j = random_below((uint32_t)i + 1);
    order[i] = order[j];
    order[j] = i;
  }
  for (size_t i = 0; i < set->count; i++) {
    const tp__merge_input *input = &set->inputs[order[i]];
    tp_contribution *items = tp__arena_alloc(memory, input->count * sizeof *items);
    for (size_t j = input->count; j-- > 0;) {
      assert_int_equal(tp__contribution_copy(memory, &input->items[j], &items[j]), TP_OK);
    }
    copies[order[i]] = *input;
    copies[order[i]].items = items;
    assert_true(tp__arena_string(memory, input->subscription, &copies[order[i]].subscription));
    assert_true(tp__arena_string(memory, input->handler, &copies[order[i]].handler));
  }
}

static void check_order_of_production(const random_set *set, const tp_merged *result, tp_writer *writer,
                                      tp_writer *other) {
  tp__arena memory;
  tp__merge_input copies[24];
  tp__arena_init(&memory, &counting, NULL, 0, 0);
  produce_again(set, &memory, copies);
  const tp_merged *again = merge_set(set, copies, set->count, &memory);
  assert_true(tp_text_equal(bytes_of(result, writer), bytes_of(again, other)));
  tp__arena_fini(&memory);
}

/* Every merged entry becomes an input of its own, in merged order: merging these changes nothing any more. */
static void check_idempotence(const random_set *set, const tp_merged *result, tp_writer *writer, tp_writer *other) {
  tp__arena memory;
  size_t count = tp_merged_count(result, 0);
  tp__arena_init(&memory, &counting, NULL, 0, 0);
  tp__merge_input *entries = tp__arena_alloc(&memory, count * sizeof *entries);
  for (size_t i = 0; i < count; i++) {
    const tp_merged_entry *entry = tp_merged_get(result, 0, i);
    /* Each is the bundle of a handler of its own, because the result does not tell which handler it was. */
    const char *handler = tp__arena_printf(&memory, "%zu", i).data;
    bool block = false;
    for (size_t j = 0; j < set->count; j++) {
      if (strcmp(set->inputs[j].subscription, entry->subscription) == 0)
        block = set->inputs[j].flags == TP__MERGE_BLOCK;
    }
    entries[i] = (tp__merge_input){.subscription = entry->subscription,
                                   .owner = entry->owner,
                                   .handler = handler,
                                   .attempt = entry->attempt,
                                   .flags = block ? TP__MERGE_BLOCK : 0,
                                   .items = entry->contribution,
                                   .count = 1};
  }
  tp__turn_sets none = {0};
  tp__merge merge = {.phase = TP_PHASE_TURN_INTAKE, .inputs = entries, .input_count = count, .sets = &none};
  tp_merged *again = NULL;
  assert_int_equal(tp__merge_run(&merge, &memory, &again, NULL), TP_OK);
  assert_true(tp_text_equal(bytes_of(result, writer), bytes_of(again, other)));
  tp__arena_fini(&memory);
}

static size_t bytes_in(const tp_merged *result, uint32_t kind, uint32_t flags) {
  size_t bytes = 0;
  for (size_t i = 0; i < result->lists[kind].count; i++) {
    const tp__merged_item *item = &result->lists[kind].items[i];
    if ((item->flags & TP__MERGE_BLOCK) != flags) continue;
    bytes += item->entry.contribution->text.size + item->entry.contribution->value.size;
  }
  return bytes;
}

static void check_budgets(const tp_merged *result) {
  assert_in_range(tp_merged_count(result, TP_CONTRIBUTION_PROMPT_CONTEXT), 0, TP__CONTEXT_COUNT_MAX);
  assert_in_range(bytes_in(result, TP_CONTRIBUTION_PROMPT_CONTEXT, 0), 0, 12000);
  assert_in_range(tp_merged_count(result, TP_CONTRIBUTION_PROMPT_SECTION), 0, 16);
  assert_in_range(bytes_in(result, TP_CONTRIBUTION_PROMPT_SECTION, 0), 0, 16000);
  assert_in_range(tp_merged_count(result, TP_CONTRIBUTION_SIGNAL), 0, 32);
  assert_in_range(bytes_in(result, TP_CONTRIBUTION_SIGNAL, 0), 0, 16384);
  size_t blocked = bytes_in(result, TP_CONTRIBUTION_REMINDER, TP__MERGE_BLOCK),
         other = bytes_in(result, TP_CONTRIBUTION_REMINDER, 0);
  assert_in_range(other, 0, blocked < 8000 ? 8000 - blocked : 0);
  for (size_t i = 0; i < tp_merged_count(result, 0); i++) {
    const tp_contribution *entry = tp_merged_get(result, 0, i)->contribution;
    assert_true(tp_utf8_valid(entry->text, NULL));
    if (entry->kind == TP_CONTRIBUTION_PROMPT_SECTION) assert_in_range(entry->text.size, 1, 8000);
  }
}

static bool same_content(const tp_contribution *a, const tp_contribution *b) {
  return a->kind == b->kind && tp_text_equal(a->key, b->key) && tp_text_equal(a->text, b->text) &&
         tp_text_equal(a->domain, b->domain) && tp_text_equal(a->value, b->value);
}

static bool contains(tp_text text, tp_text part) {
  return part.size == 0 || (text.size && memmem(text.data, text.size, part.data, part.size));
}

/* Whether it is present as a whole, or part of a merged entry, or named by a diagnostic of the merge for its
 * subscription. */
static bool is_accounted_for(const tp_merged *result, const tp__merge_input *input, const tp_contribution *item) {
  tp_text named = item->key;
  for (size_t i = 0; i < tp_merged_count(result, 0); i++) {
    const tp_merged_entry *entry = tp_merged_get(result, 0, i);
    const tp_contribution *found = entry->contribution;
    if (found == item || same_content(found, item)) return true;
    bool section = found->kind == TP_CONTRIBUTION_PROMPT_SECTION && item->kind == TP_CONTRIBUTION_PROMPT_SECTION;
    if (section && tp_text_equal(found->key, item->key) && contains(found->text, item->text)) return true;
    bool ours =
        found->kind == TP_CONTRIBUTION_DIAGNOSTIC && found->key.size > 6 && memcmp(found->key.data, "merge.", 6) == 0;
    if (!ours || strcmp(entry->subscription, input->subscription) != 0) continue;
    if (contains(found->text, tp_text_of(tp__kind_name(item->kind))) && contains(found->text, named)) return true;
  }
  return false;
}

static void check_accounts(const random_set *set, const tp_merged *result) {
  for (size_t i = 0; i < set->count; i++) {
    for (size_t j = 0; j < set->inputs[i].count; j++) {
      assert_true(is_accounted_for(result, &set->inputs[i], &set->inputs[i].items[j]));
    }
  }
}

TEST(random_merges_are_ordered_by_the_plan_alone_idempotent_bounded_and_accounted_for) {
  tp_writer *writer, *other;
  assert_int_equal(tp_writer_new(&counting, &writer), TP_OK);
  assert_int_equal(tp_writer_new(&counting, &other), TP_OK);
  for (uint64_t seed = 1; seed <= (uint64_t)test_rounds(1500); seed++) {
    random_set set;
    random_state = seed;
    make_set(&set);
    const tp_merged *result = merge_set(&set, set.inputs, set.count, &set.memory);
    check_order_of_production(&set, result, writer, other);
    check_idempotence(&set, result, writer, other);
    check_budgets(result);
    check_accounts(&set, result);
    tp__arena_fini(&set.memory);
  }
  tp_writer_free(writer);
  tp_writer_free(other);
}

/* Merges entry after entry into one pair of sets: the budget holds for the whole turn, and no policy is lost. */
TEST(a_turns_sets_keep_to_one_budget_over_random_entries) {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    random_state = seed;
    tp__arena turn;
    tp__turn_sets turns = {0};
    tp__arena_init(&turn, &counting, NULL, 0, 0);
    for (int entry = 0; entry < 5; entry++) {
      random_set set;
      make_set(&set);
      set.sets = turns;
      size_t policies = turns.policies.count;
      const tp_merged *result = merge_set(&set, set.inputs, set.count, &set.memory);
      check_budgets(result);
      check_accounts(&set, result);
      assert_int_equal(tp__turn_sets_take(&turns, &turn, result), TP_OK);
      assert_true(turns.policies.count >= policies);
      tp__arena_fini(&set.memory);
    }
    assert_in_range(turns.contexts.count, 0, TP__CONTEXT_COUNT_MAX);
    tp__arena_fini(&turn);
  }
}

/* ---- refused memory ---- */

TEST(every_refused_allocation_is_a_clean_error) {
  random_set set;
  random_state = 4711;
  do {
    make_set(&set);
    if (set.count > 20) break;
    tp__arena_fini(&set.memory);
  } while (true);
  long before = blocks_open, refusals = 0;
  tp_status status = TP_ERR_NO_MEMORY;
  for (long n = 0; status != TP_OK; n++) {
    tp__arena memory, turn;
    tp__turn_sets turns = {0};
    tp_fault fault = {0};
    tp_merged *result = NULL;
    tp__arena_init(&memory, &counting, NULL, 0, 0);
    tp__arena_init(&turn, &counting, NULL, 0, 0);
    tp__merge merge = {.phase = TP_PHASE_TURN_INTAKE, .inputs = set.inputs, .input_count = set.count};
    refuse_at = n;
    status = tp__merge_run(&merge, &memory, &result, &fault);
    if (status != TP_OK) {
      assert_null(result);
      assert_int_equal(fault.code, TP_ERR_NO_MEMORY);
    } else {
      status = tp__turn_sets_take(&turns, &turn, result);
      if (status != TP_OK) assert_int_equal(turns.contexts.count + turns.policies.count, 0);
    }
    refuse_at = -1;
    tp__arena_fini(&memory);
    tp__arena_fini(&turn);
    assert_int_equal(blocks_open, before);
    if (status == TP_OK) break;
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    refusals++;
  }
  assert_true(refusals > 5);
  tp__arena_fini(&set.memory);
}
