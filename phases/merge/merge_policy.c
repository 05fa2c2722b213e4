/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_policy.c: keeps one value for each (domain, key): the heaviest, and among equally heavy ones the first in plan
 * order. Policies that the turn had merged before come before all others. */
#include "phases/merge/merge_part.h"

static int compare_name(const tp__merged_item *a, const tp__merged_item *b) {
  int order = tp__compare_text(a->entry.contribution->domain, b->entry.contribution->domain);
  return order ? order : tp__compare_text(a->entry.contribution->key, b->entry.contribution->key);
}

/* The diagnostics hold no values, because a value may be exactly what a policy protects. */
static tp_status yield(tp__merge_state *state, const tp__merged_item *winner, tp__merged_item *loser) {
  loser->flags |= TP__MERGE_DROPPED;
  if (tp_text_equal(winner->entry.contribution->text, loser->entry.contribution->text)) return TP_OK;
  int weight = (int)winner->entry.contribution->weight;
  if (tp__compare_weight(winner, loser) != 0) {
    return tp__merge_note_add(state, loser, TP_SEVERITY_INFO, "merge.policy_overridden",
                              "%s with weight %d stands over %s with weight %d", winner->entry.subscription, weight,
                              loser->entry.subscription, (int)loser->entry.contribution->weight);
  }
  return tp__merge_note_add(state, loser, TP_SEVERITY_WARNING, "merge.policy_conflict",
                            "%s and %s disagree with equal weight %d: the first is used", winner->entry.subscription,
                            loser->entry.subscription, weight);
}

tp_status tp__merge_policies(tp__merge_state *state, tp__merge_list *list) {
  tp__merged_item **sorted;
  TP__TRY(tp__merge_equals(state, list, compare_name, yield, &sorted));
  return tp__merge_rebuild(state, list, sorted, list->count);
}
