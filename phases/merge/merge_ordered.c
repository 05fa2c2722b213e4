/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_ordered.c: the kinds that stay in plan order: signals and reminders under their budgets, and jobs, once per
 * key. */
#include "phases/merge/merge_part.h"

/* ---- signals ---- */

/* Takes as much of the text as fits, and the value as a whole or not at all. */
static tp_status fit_signal(tp__merge_state *state, tp__merged_item *item, size_t *left) {
  size_t value_size = item->entry.contribution->value.size;
  if (value_size > *left) {
    return tp__merge_drop(state, item, "merge.dropped", "its payload does not fit into the budget");
  }
  tp_text text;
  TP__TRY(tp__merge_fit(state, item, *left, &text));
  if (item->flags & TP__MERGE_DROPPED) return TP_OK;
  if (text.size < item->entry.contribution->text.size) TP__TRY(tp__merge_set_text(state, item, text));
  *left -= value_size + text.size; /* a signal has one of them */
  return TP_OK;
}

tp_status tp__merge_signals(tp__merge_state *state, tp__merge_list *list) {
  size_t left = TP__SIGNAL_BYTES_MAX;
  for (size_t i = 0, kept = 0; i < list->count; i++) {
    tp__merged_item *item = &list->items[i];
    if (kept < TP__SIGNAL_COUNT_MAX) TP__TRY(fit_signal(state, item, &left));
    else TP__TRY(tp__merge_drop(state, item, "merge.dropped", "32 signals stand before it"));
    kept += !(item->flags & TP__MERGE_DROPPED);
  }
  tp__merge_squeeze(list);
  return TP_OK;
}

/* ---- reminders ---- */

/* The reason why an action was blocked is never cut. Such reminders get their bytes first, at any place in the
 * order. */
static void serve_blocks(const tp__merge_list *list, size_t *bytes, size_t *count) {
  for (size_t i = 0; i < list->count; i++) {
    if (!(list->items[i].flags & TP__MERGE_BLOCK)) continue;
    size_t size = list->items[i].entry.contribution->text.size;
    *bytes = size < *bytes ? *bytes - size : 0;
    *count = *count ? *count - 1 : 0;
  }
}

static tp_status fit_reminder(tp__merge_state *state, tp__merged_item *item, size_t *bytes, size_t *count) {
  tp_text text;
  if (*count == 0) return tp__merge_drop(state, item, "merge.dropped", "there are 16 reminders without it");
  TP__TRY(tp__merge_fit(state, item, *bytes, &text));
  if (item->flags & TP__MERGE_DROPPED) return TP_OK;
  if (text.size < item->entry.contribution->text.size) TP__TRY(tp__merge_set_text(state, item, text));
  *bytes -= text.size;
  *count -= 1;
  return TP_OK;
}

tp_status tp__merge_reminders(tp__merge_state *state, tp__merge_list *list) {
  size_t bytes = TP__REMINDER_BYTES_MAX, count = TP__REMINDER_COUNT_MAX;
  serve_blocks(list, &bytes, &count);
  for (size_t i = 0; i < list->count; i++) {
    if (!(list->items[i].flags & TP__MERGE_BLOCK)) TP__TRY(fit_reminder(state, &list->items[i], &bytes, &count));
  }
  tp__merge_squeeze(list);
  return TP_OK;
}

/* ---- jobs ---- */

static bool same_job(const tp_contribution *a, const tp_contribution *b) {
  return tp_text_equal(a->domain, b->domain) && tp_text_equal(a->value, b->value) && tp_text_equal(a->text, b->text);
}

static tp_status drop_job(tp__merge_state *state, const tp__merged_item *first, tp__merged_item *job) {
  if (!same_job(first->entry.contribution, job->entry.contribution))
    return tp__merge_drop(state, job, "merge.duplicate", "another job of this key stands before it");
  job->flags |= TP__MERGE_DROPPED;
  return TP_OK;
}

tp_status tp__merge_jobs(tp__merge_state *state, tp__merge_list *list) {
  tp__merged_item **sorted;
  TP__TRY(tp__merge_equals(state, list, tp__compare_key, drop_job, &sorted));
  tp__merge_squeeze(list);
  return TP_OK;
}
