/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_context.c: sorts prompt contexts by falling weight, then domain, then id, under one budget. Each id is kept
 * once: the heaviest, else the first in plan order. */
#include "phases/merge/merge_part.h"

static int compare_for_place(const tp__merged_item *a, const tp__merged_item *b) {
  int order = tp__compare_weight(a, b);
  if (order == 0) order = tp__compare_text(a->entry.contribution->domain, b->entry.contribution->domain);
  return order ? order : tp__compare_key(a, b); /* total: each id is there once by now */
}

static tp_status yield(tp__merge_state *state, const tp__merged_item *winner, tp__merged_item *loser) {
  const tp_contribution *kept = winner->entry.contribution, *lost = loser->entry.contribution;
  loser->flags |= TP__MERGE_DROPPED;
  if (tp_text_equal(kept->text, lost->text) && tp_text_equal(kept->domain, lost->domain) &&
      tp_text_equal(kept->sources, lost->sources)) {
    return TP_OK;
  }
  return tp__merge_note_add(state, loser, TP_SEVERITY_INFO, "merge.duplicate", "%s contributed the same id and is used",
                            winner->entry.subscription);
}

static tp_status apply_budget(tp__merge_state *state, tp__merged_item **sorted, size_t count) {
  size_t left = TP__CONTEXT_BYTES_MAX;
  for (size_t i = 0, kept = 0; i < count; i++) {
    tp_text text;
    if (kept == TP__CONTEXT_COUNT_MAX) {
      TP__TRY(tp__merge_drop(state, sorted[i], "merge.dropped", "the turn's 64 prompt contexts stand before it"));
      continue;
    }
    TP__TRY(tp__merge_fit(state, sorted[i], left, &text));
    if (sorted[i]->flags & TP__MERGE_DROPPED) continue;
    if (text.size < sorted[i]->entry.contribution->text.size) TP__TRY(tp__merge_set_text(state, sorted[i], text));
    left -= text.size;
    kept++;
  }
  return TP_OK;
}

tp_status tp__merge_contexts(tp__merge_state *state, tp__merge_list *list) {
  tp__merged_item **sorted;
  TP__TRY(tp__merge_equals(state, list, tp__compare_key, yield, &sorted));
  tp__merge_squeeze(list);
  TP__TRY(tp__merge_sorted(state, list, compare_for_place, &sorted));
  TP__TRY(apply_budget(state, sorted, list->count));
  return tp__merge_rebuild(state, list, sorted, list->count);
}
