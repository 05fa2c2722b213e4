/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c: the merge of one entry. It puts the contributions into one list per kind, in plan order, and merges each
 * list by the rules of its kind. Then it adds its own diagnostics after those of the handlers. */
#include "phases/merge/merge_part.h"
#include "phases/merge/phases.h"

static tp_status (*const mergers[TP_CONTRIBUTION_COUNT])(tp__merge_state *state, tp__merge_list *list) = {
    [TP_CONTRIBUTION_POLICY] = tp__merge_policies,         [TP_CONTRIBUTION_PROMPT_CONTEXT] = tp__merge_contexts,
    [TP_CONTRIBUTION_PROMPT_SECTION] = tp__merge_sections, [TP_CONTRIBUTION_TOOL_BUNDLE] = tp__merge_tools,
    [TP_CONTRIBUTION_SIGNAL] = tp__merge_signals,          [TP_CONTRIBUTION_REMINDER] = tp__merge_reminders,
    [TP_CONTRIBUTION_BACKGROUND_JOB] = tp__merge_jobs,
};

/* ---- dealing out ---- */

static const tp__merged_list *carried_list(const tp__merge *merge, uint32_t kind) {
  static const tp__merged_list none = {NULL, 0};
  if (!merge->sets) return &none;
  if (kind == TP_CONTRIBUTION_POLICY) return &merge->sets->policies;
  return kind == TP_CONTRIBUTION_PROMPT_CONTEXT ? &merge->sets->contexts : &none;
}

static void count_items(const tp__merge *merge, size_t counts[TP_CONTRIBUTION_COUNT]) {
  for (size_t i = 0; i < merge->input_count; i++) {
    for (size_t j = 0; j < merge->inputs[i].count; j++) {
      assert(merge->inputs[i].items[j].kind < TP_CONTRIBUTION_COUNT);
      counts[merge->inputs[i].items[j].kind]++;
    }
  }
}

static tp_status make_lists(const tp__merge *merge, tp__arena *arena, tp__merge_list lists[TP_CONTRIBUTION_COUNT]) {
  size_t counts[TP_CONTRIBUTION_COUNT] = {0};
  count_items(merge, counts);
  for (uint32_t kind = 0; kind < TP_CONTRIBUTION_COUNT; kind++) {
    if (counts[kind] == 0) continue;
    const tp__merged_list *carried = carried_list(merge, kind);
    lists[kind].items = tp__arena_alloc(arena, (counts[kind] + carried->count) * sizeof(tp__merged_item));
    if (!lists[kind].items) return TP_ERR_NO_MEMORY;
    if (!merge->failed) {
      tp__merge_list *list = &lists[kind];
      for (size_t i = 0; i < carried->count; i++) {
        tp__merged_item *item = &list->items[list->count];
        *item = carried->items[i];
        item->order = (uint32_t)list->count++;
        item->flags = TP__MERGE_CARRIED;
      }
    }
  }
  return TP_OK;
}

/* Whether the item may be in the result at all. */
static tp_status passes(tp__merge_state *state, tp__merged_item *item) {
  const tp_contribution *contribution = item->entry.contribution;
  uint32_t kind = contribution->kind;
  bool shown_to_model = kind == TP_CONTRIBUTION_REMINDER || kind == TP_CONTRIBUTION_SIGNAL;
  if (state->merge->failed && kind != TP_CONTRIBUTION_AUDIT && kind != TP_CONTRIBUTION_DIAGNOSTIC) {
    item->flags |= TP__MERGE_DROPPED; /* the failure accounts for it */
  } else if (shown_to_model && (item->flags & TP__MERGE_INFRA)) {
    return tp__merge_drop(state, item, "merge.alias", "the name it was subscribed through shows nothing to the model");
  } else if (kind == TP_CONTRIBUTION_SIGNAL && !tp__phase_takes_signal(state->merge->phase, contribution->domain)) {
    return tp__merge_drop(state, item, "merge.signal_kind", "the phase does not take this kind of signal");
  }
  return TP_OK;
}

static tp_status deal_out(tp__merge_state *state, tp__merge_list lists[TP_CONTRIBUTION_COUNT]) {
  for (size_t i = 0; i < state->merge->input_count; i++) {
    const tp__merge_input *input = &state->merge->inputs[i];
    for (size_t j = 0; j < input->count; j++) {
      tp__merge_list *list = &lists[input->items[j].kind];
      tp__merged_item *item = &list->items[list->count];
      *item = (tp__merged_item){
          .entry = {.struct_size = sizeof(tp_merged_entry),
                    .contribution = &input->items[j],
                    .subscription = input->subscription,
                    .owner = input->owner,
                    .attempt = input->attempt},
          .handler = input->handler ? input->handler : input->subscription,
          .event = input->event,
          .flags = j + 1 == input->count ? input->flags : input->flags & ~(uint32_t)TP__MERGE_FAILED,
          .order = (uint32_t)list->count,
          .visibility = input->visibility,
      };
      TP__TRY(passes(state, item));
      if (!(item->flags & TP__MERGE_DROPPED)) list->count++;
    }
  }
  return TP_OK;
}

/* ---- putting together ---- */

static tp_status append_notes(tp__merge_state *state, tp__merge_list *diagnostics) {
  if (state->note_count == 0) return TP_OK;
  size_t count = diagnostics->count + state->note_count;
  tp__merged_item *items = tp__arena_alloc(state->arena, count * sizeof *items);
  if (!items) return TP_ERR_NO_MEMORY;
  if (diagnostics->count) memcpy(items, diagnostics->items, diagnostics->count * sizeof *items);
  *diagnostics = (tp__merge_list){items, diagnostics->count};
  for (const tp__merge_note *note = state->notes; note; note = note->next) items[diagnostics->count++] = note->item;
  assert(diagnostics->count == count);
  return TP_OK;
}

static tp_status merge_kinds(tp__merge_state *state, tp__merge_list lists[TP_CONTRIBUTION_COUNT]) {
  for (uint32_t kind = 0; kind < TP_CONTRIBUTION_COUNT; kind++) {
    if (lists[kind].count && mergers[kind]) TP__TRY(mergers[kind](state, &lists[kind]));
  }
  return append_notes(state, &lists[TP_CONTRIBUTION_DIAGNOSTIC]);
}

static tp_status merge_all(tp__merge_state *state, tp_merged *merged) {
  tp__merge_list lists[TP_CONTRIBUTION_COUNT] = {{NULL, 0}};
  TP__TRY(make_lists(state->merge, state->arena, lists));
  TP__TRY(deal_out(state, lists));
  TP__TRY(merge_kinds(state, lists));
  for (uint32_t kind = 0; kind < TP_CONTRIBUTION_COUNT; kind++) {
    merged->lists[kind] = (tp__merged_list){lists[kind].items, lists[kind].count};
  }
  return TP_OK;
}

tp_status tp__merge_run(const tp__merge *merge, tp__arena *arena, tp_merged **ret_merged, tp_fault *fault) {
  tp__merge_state state = {.merge = merge, .arena = arena, .fault = fault};
  state.notes_end = &state.notes;
  tp_merged *merged = tp__arena_zero(arena, sizeof *merged);
  tp_status status = merged ? merge_all(&state, merged) : TP_ERR_NO_MEMORY;
  if (status == TP_ERR_NO_MEMORY)
    return tp__fail(fault, status, NULL, "no memory to merge the contributions of a phase");
  if (status != TP_OK) return status;
  merged->phase = merge->phase;
  merged->fields = merge->fields;
  merged->field_count = merge->field_count;
  *ret_merged = merged;
  return TP_OK;
}

/* ---- the turn's sets ---- */

static tp_status take_item(tp__arena *arena, const tp__merged_item *from, tp__merged_item *to) {
  *to = *from;
  if (from->flags & TP__MERGE_CARRIED) return TP_OK; /* is the turn's already */
  tp_contribution *contribution = tp__arena_alloc(arena, sizeof *contribution);
  if (!contribution) return TP_ERR_NO_MEMORY;
  TP__TRY(tp__contribution_copy(arena, from->entry.contribution, contribution));
  to->entry.contribution = contribution;
  bool copied = tp__arena_string(arena, from->entry.subscription, &to->entry.subscription) &&
                tp__arena_string(arena, from->entry.owner, &to->entry.owner) &&
                tp__arena_string(arena, from->handler, &to->handler);
  return copied ? TP_OK : TP_ERR_NO_MEMORY;
}

static tp_status take_list(tp__arena *arena, const tp__merged_list *from, tp__merged_list *to) {
  if (from->count == 0) return TP_OK;
  tp__merged_item *items = tp__arena_alloc(arena, from->count * sizeof *items);
  if (!items) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < from->count; i++) TP__TRY(take_item(arena, &from->items[i], &items[i]));
  *to = (tp__merged_list){items, from->count};
  return TP_OK;
}

tp_status tp__turn_sets_take(tp__turn_sets *sets, tp__arena *arena, const tp_merged *merged) {
  tp__turn_sets taken = *sets;
  TP__TRY(take_list(arena, &merged->lists[TP_CONTRIBUTION_POLICY], &taken.policies));
  TP__TRY(take_list(arena, &merged->lists[TP_CONTRIBUTION_PROMPT_CONTEXT], &taken.contexts));
  *sets = taken;
  return TP_OK;
}

tp_text tp__turn_sets_policy(const tp__turn_sets *sets, tp_text domain, tp_text key) {
  size_t low = 0, high = sets->policies.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const tp_contribution *policy = sets->policies.items[middle].entry.contribution;
    int order = tp__compare_text(policy->domain, domain);
    if (order == 0) order = tp__compare_text(policy->key, key);
    if (order == 0) return policy->text;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return (tp_text){NULL, 0};
}
