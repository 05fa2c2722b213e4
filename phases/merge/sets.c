/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/merge/sets.h"

static const tp__turn_sets nothing;

static const tp__turn_sets *sets_of(const tp_call *call) {
  const tp__turn_sets *sets = call->entry->sets;
  return sets ? sets : &nothing;
}

tp_status tp__sets_advance(tp__turn *turn, const tp_merged *merged) {
  if (!merged->lists[TP_CONTRIBUTION_POLICY].count && !merged->lists[TP_CONTRIBUTION_PROMPT_CONTEXT].count)
    return TP_OK;
  tp__turn_sets *next = tp__arena_alloc(&turn->arena, sizeof *next);
  if (!next) return TP_ERR_NO_MEMORY;
  *next = turn->sets ? *(const tp__turn_sets *)turn->sets : nothing;
  TP__TRY(tp__turn_sets_take(next, &turn->arena, merged));
  turn->sets = next;
  return TP_OK;
}

/* ---- as handlers read them ---- */

tp_text tp_call_policy(const tp_call *call, const char *domain, const char *key) {
  if (!call) return (tp_text){0};
  return tp__turn_sets_policy(sets_of(call), tp_text_of(domain), tp_text_of(key));
}

size_t tp_call_policy_count(const tp_call *call) {
  if (!call) return 0;
  return sets_of(call)->policies.count;
}

const tp_contribution *tp_call_policy_at(const tp_call *call, size_t index) {
  if (!call) return NULL;
  const tp__merged_list *policies = &sets_of(call)->policies;
  return index < policies->count ? policies->items[index].entry.contribution : NULL;
}

size_t tp_call_context_count(const tp_call *call) {
  if (!call) return 0;
  return sets_of(call)->contexts.count;
}

const tp_contribution *tp_call_context(const tp_call *call, size_t index) {
  if (!call) return NULL;
  const tp__merged_list *contexts = &sets_of(call)->contexts;
  return index < contexts->count ? contexts->items[index].entry.contribution : NULL;
}

/* ---- as a value: {policies: [[domain, key, text, weight] …], contexts: [[domain, key, text, weight, sources] …]}
 * ---- */

static void write_list(const tp__merged_list *list, bool with_sources, tp_writer *writer) {
  tp_write_array(writer, list->count);
  for (size_t i = 0; i < list->count; i++) {
    const tp_contribution *c = list->items[i].entry.contribution;
    tp_write_array(writer, with_sources ? 5 : 4);
    tp_write_text(writer, c->domain);
    tp_write_text(writer, c->key);
    tp_write_text(writer, c->text);
    tp_write_int(writer, c->weight);
    if (!with_sources) continue;
    if (c->sources.size > 0) tp_write_value(writer, c->sources);
    else tp_write_null(writer);
  }
}

void tp__sets_write(const void *version, tp_writer *writer) {
  const tp__turn_sets *sets = version;
  tp_write_map(writer, 2);
  tp_write_string(writer, "policies");
  write_list(&sets->policies, false, writer);
  tp_write_string(writer, "contexts");
  write_list(&sets->contexts, true, writer);
}

static bool read_list(tp__arena *arena, uint32_t kind, tp_text value, tp__merged_list *list) {
  size_t count = tp_value_count(value);
  tp__merged_item *items = tp__arena_zero(arena, (count ? count : 1) * sizeof *items);
  tp_contribution *contributions = tp__arena_zero(arena, (count ? count : 1) * sizeof *contributions);
  if (!items || !contributions) return false;
  tp_value_walk walk = {0};
  for (size_t i = 0; i < count && tp_value_next(value, &walk); i++) {
    tp_contribution *c = &contributions[i];
    c->struct_size = sizeof *c;
    c->kind = kind;
    c->weight = (int32_t)tp_value_int(tp_value_at(walk.value, 3), 0);
    if (!tp__arena_text(arena, tp_value_text(tp_value_at(walk.value, 0)), &c->domain) ||
        !tp__arena_text(arena, tp_value_text(tp_value_at(walk.value, 1)), &c->key) ||
        !tp__arena_text(arena, tp_value_text(tp_value_at(walk.value, 2)), &c->text) ||
        !tp__arena_text(arena, tp_value_at(walk.value, 4), &c->sources))
      return false;
    items[i].entry = (tp_merged_entry){.contribution = c, .subscription = "", .owner = ""};
  }
  *list = (tp__merged_list){items, count};
  return true;
}

bool tp__sets_read(tp__arena *arena, tp_text value, const void **ret_sets) {
  tp__turn_sets *sets = tp__arena_zero(arena, sizeof *sets);
  if (!sets || !read_list(arena, TP_CONTRIBUTION_POLICY, tp_value_get(value, "policies"), &sets->policies) ||
      !read_list(arena, TP_CONTRIBUTION_PROMPT_CONTEXT, tp_value_get(value, "contexts"), &sets->contexts))
    return false;
  *ret_sets = sets;
  return true;
}
