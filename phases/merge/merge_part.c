/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/merge/merge_part.h"

#include <stdio.h>

/* ---- order ---- */

int tp__compare_text(tp_text a, tp_text b) {
  size_t common = a.size < b.size ? a.size : b.size;
  int order = common ? memcmp(a.data, b.data, common) : 0;
  return order ? order : (a.size > b.size) - (a.size < b.size);
}

int tp__compare_weight(const tp__merged_item *a, const tp__merged_item *b) {
  int32_t weight_a = a->entry.contribution->weight, weight_b = b->entry.contribution->weight;
  return (weight_a < weight_b) - (weight_a > weight_b);
}

int tp__compare_key(const tp__merged_item *a, const tp__merged_item *b) {
  return tp__compare_text(a->entry.contribution->key, b->entry.contribution->key);
}

static int compare_all(const tp__merged_item *a, const tp__merged_item *b, tp__merge_compare compare) {
  int order = compare(a, b);
  if (order == 0) order = tp__compare_weight(a, b);
  return order ? order : (a->order > b->order) - (a->order < b->order);
}

static void sift_down(tp__merged_item **heap, size_t at, size_t count, tp__merge_compare compare) {
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && compare_all(heap[child], heap[child + 1], compare) < 0) child++;
    if (compare_all(heap[at], heap[child], compare) >= 0) return;
    tp__merged_item *item = heap[at];
    heap[at] = heap[child];
    heap[child] = item;
  }
}

/* Heap sort, because qsort() may allocate memory. It is not stable, which does not matter for a total order. */
void tp__merge_sort(tp__merged_item **items, size_t count, tp__merge_compare compare) {
  for (size_t at = count / 2; at-- > 0;) sift_down(items, at, count, compare);
  for (size_t last = count; last-- > 1;) {
    tp__merged_item *item = items[0];
    items[0] = items[last];
    items[last] = item;
    sift_down(items, 0, last, compare);
  }
}

tp_status tp__merge_sorted(tp__merge_state *state, const tp__merge_list *list, tp__merge_compare compare,
                           tp__merged_item ***ret_sorted) {
  tp__merged_item **sorted = tp__arena_alloc(state->arena, list->count * sizeof *sorted);
  if (!sorted) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < list->count; i++) sorted[i] = &list->items[i];
  tp__merge_sort(sorted, list->count, compare);
  *ret_sorted = sorted;
  return TP_OK;
}

tp_status tp__merge_equals(tp__merge_state *state, const tp__merge_list *list, tp__merge_compare compare,
                           tp_status (*again)(tp__merge_state *state, const tp__merged_item *first,
                                              tp__merged_item *item),
                           tp__merged_item ***ret_sorted) {
  const tp__merged_item *first = NULL;
  TP__TRY(tp__merge_sorted(state, list, compare, ret_sorted));
  for (size_t i = 0; i < list->count; i++) {
    tp__merged_item *item = (*ret_sorted)[i];
    if (first && compare(first, item) == 0) TP__TRY(again(state, first, item));
    else first = item;
  }
  return TP_OK;
}

tp_status tp__merge_rebuild(tp__merge_state *state, tp__merge_list *list, tp__merged_item *const *sorted,
                            size_t count) {
  tp__merged_item *items = tp__arena_alloc(state->arena, count * sizeof *items);
  if (!items) return TP_ERR_NO_MEMORY;
  *list = (tp__merge_list){items, 0};
  for (size_t i = 0; i < count; i++) {
    if (!(sorted[i]->flags & TP__MERGE_DROPPED)) items[list->count++] = *sorted[i];
  }
  return TP_OK;
}

void tp__merge_squeeze(tp__merge_list *list) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) {
    if (!(list->items[i].flags & TP__MERGE_DROPPED)) list->items[kept++] = list->items[i];
  }
  list->count = kept;
}

/* ---- diagnostics ---- */

static tp_text put_subject(tp__arena *arena, const tp_contribution *about, const char *sentence) {
  const char *kind = tp__kind_name(about->kind);
  int key_size = (int)about->key.size, domain_size = (int)about->domain.size; /* bounded when they were taken */
  if (about->kind == TP_CONTRIBUTION_POLICY) {
    return tp__arena_printf(arena, "%s %.*s/%.*s: %s", kind, domain_size, about->domain.data, key_size, about->key.data,
                            sentence);
  }
  if (key_size == 0) return tp__arena_printf(arena, "%s: %s", kind, sentence);
  return tp__arena_printf(arena, "%s %.*s: %s", kind, key_size, about->key.data, sentence);
}

tp_status tp__merge_note_add(tp__merge_state *state, const tp__merged_item *about, tp_severity severity,
                             const char *code, const char *format, ...) {
  char sentence[TP_FAULT_MESSAGE_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(sentence, sizeof sentence, format, args);
  va_end(args);
  tp_text text = put_subject(state->arena, about->entry.contribution, sentence);
  tp_contribution *contribution = tp__arena_alloc(state->arena, sizeof *contribution);
  tp__merge_note *note = tp__arena_zero(state->arena, sizeof *note);
  if (!text.data || !contribution || !note) return TP_ERR_NO_MEMORY;
  *contribution = (tp_contribution){
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_DIAGNOSTIC, .severity = severity, .text = text};
  contribution->key = tp_text_of(code);
  note->item.entry = about->entry;
  note->item.entry.contribution = contribution;
  note->item.handler = about->handler;
  note->item.visibility = about->visibility;
  *state->notes_end = note;
  state->notes_end = &note->next;
  state->note_count++;
  return TP_OK;
}

tp_status tp__merge_drop(tp__merge_state *state, tp__merged_item *item, const char *code, const char *why) {
  item->flags |= TP__MERGE_DROPPED;
  return tp__merge_note_add(state, item, TP_SEVERITY_WARNING, code, "dropped: %s", why);
}

/* ---- budgets ---- */

tp_status tp__merge_set_text(tp__merge_state *state, tp__merged_item *item, tp_text text) {
  tp_contribution *contribution = tp__arena_alloc(state->arena, sizeof *contribution);
  if (!contribution) return TP_ERR_NO_MEMORY;
  *contribution = *item->entry.contribution;
  contribution->text = text;
  contribution->short_text = (tp_text){NULL, 0};
  item->entry.contribution = contribution;
  item->flags &= ~(uint32_t)TP__MERGE_CARRIED;
  return TP_OK;
}

tp_status tp__merge_fit(tp__merge_state *state, tp__merged_item *item, size_t left, tp_text *ret_text) {
  tp_text whole = item->entry.contribution->text, form = item->entry.contribution->short_text;
  *ret_text = whole;
  if (whole.size <= left) return TP_OK;
  bool has_short = form.size > 0 && form.size < whole.size;
  if (!has_short) form = whole;
  *ret_text = (tp_text){form.data, tp__utf8_cut(form, left)};
  if (ret_text->size == 0) return tp__merge_drop(state, item, "merge.dropped", "nothing of it fits into the budget");
  if (ret_text->size < form.size) {
    return tp__merge_note_add(state, item, TP_SEVERITY_WARNING, "merge.cut", "cut from %zu to %zu bytes by the budget",
                              whole.size, ret_text->size);
  }
  return tp__merge_note_add(state, item, TP_SEVERITY_INFO, "merge.shortened",
                            "its short form of %zu bytes stands for %zu by the budget", form.size, whole.size);
}
