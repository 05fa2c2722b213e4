/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_section.c: sorts prompt sections by falling weight, then id, then plan order. Sections with the same id become
 * one section at the place of their heaviest part: the parts, heaviest first, with a blank line between them, under the
 * first title. */
#include "phases/merge/merge_part.h"

static const tp_text blank_line = {"\n\n", 2};

static int compare_for_place(const tp__merged_item *a, const tp__merged_item *b) {
  int order = tp__compare_weight(a, b);
  return order ? order : tp__compare_key(a, b); /* total: each id is there once by now */
}

/* Chains the other parts of each section to its first part, and leaves only first parts in the array. */
static size_t join_parts(tp__merged_item **sorted, size_t count) {
  size_t heads = 0;
  tp__merged_item *last = NULL;
  for (size_t i = 0; i < count; i++) {
    if (last && tp__compare_key(last, sorted[i]) == 0) last->joined = sorted[i];
    else sorted[heads++] = sorted[i];
    last = sorted[i];
  }
  return heads;
}

static tp_status pick_title(tp__merge_state *state, const tp__merged_item *head, tp_text *ret_title) {
  const tp__merged_item *titled = NULL;
  for (const tp__merged_item *part = head; part; part = part->joined) {
    tp_text title = part->entry.contribution->title;
    if (title.size == 0) continue;
    if (!titled) titled = part;
    if (tp_text_equal(titled->entry.contribution->title, title)) continue;
    TP__TRY(tp__merge_note_add(state, part, TP_SEVERITY_WARNING, "merge.title_conflict",
                               "%s and %s give it different titles: the first is used", titled->entry.subscription,
                               part->entry.subscription));
  }
  *ret_title = titled ? titled->entry.contribution->title : (tp_text){NULL, 0};
  return TP_OK;
}

static tp_status drop_parts(tp__merge_state *state, tp__merged_item *head, const char *why) {
  for (tp__merged_item *part = head; part; part = part->joined) {
    if (!(part->flags & TP__MERGE_DROPPED)) TP__TRY(tp__merge_drop(state, part, "merge.dropped", why));
  }
  return TP_OK;
}

static char *reserve_parts(tp__merge_state *state, const tp__merged_item *head, size_t left) {
  size_t size = 0;
  for (const tp__merged_item *part = head; part; part = part->joined) {
    size += part->entry.contribution->text.size + blank_line.size;
  }
  return tp__arena_alloc(state->arena, size < left ? size : left);
}

/* Puts as much of each part as fits into one text. If nothing of the first part fits, the whole section is dropped. */
static tp_status join_texts(tp__merge_state *state, tp__merged_item *head, size_t left, tp_text *ret_text) {
  char *data = reserve_parts(state, head, left);
  if (!data) return TP_ERR_NO_MEMORY;
  size_t size = 0;
  for (tp__merged_item *part = head; part; part = part->joined) {
    size_t gap = size ? blank_line.size : 0;
    tp_text text;
    TP__TRY(tp__merge_fit(state, part, left - size > gap ? left - size - gap : 0, &text));
    if (head->flags & TP__MERGE_DROPPED) return drop_parts(state, head, "the first part of its section does not fit");
    if (part->flags & TP__MERGE_DROPPED) continue;
    memcpy(data + size, blank_line.data, gap);
    memcpy(data + size + gap, text.data, text.size);
    size += gap + text.size;
  }
  *ret_text = (tp_text){data, size};
  return TP_OK;
}

/* Makes the section from its parts; *ret_size is its share of the budget. */
static tp_status compose(tp__merge_state *state, tp__merged_item *head, size_t left, size_t *ret_size) {
  *ret_size = head->entry.contribution->text.size;
  if (!head->joined && *ret_size <= left) return TP_OK;
  tp_text text = {NULL, 0}, title;
  TP__TRY(join_texts(state, head, left, &text));
  *ret_size = text.size;
  if (head->flags & TP__MERGE_DROPPED) return TP_OK;
  TP__TRY(pick_title(state, head, &title));
  tp_contribution *section = tp__arena_alloc(state->arena, sizeof *section);
  if (!section) return TP_ERR_NO_MEMORY;
  *section = *head->entry.contribution;
  section->title = title;
  section->text = text;
  section->short_text = (tp_text){NULL, 0};
  head->entry.contribution = section;
  return TP_OK;
}

tp_status tp__merge_sections(tp__merge_state *state, tp__merge_list *list) {
  tp__merged_item **sorted;
  TP__TRY(tp__merge_sorted(state, list, tp__compare_key, &sorted));
  size_t count = join_parts(sorted, list->count), left = TP__SECTIONS_BYTES_MAX;
  tp__merge_sort(sorted, count, compare_for_place);
  for (size_t i = 0, kept = 0; i < count; i++) {
    size_t size = 0;
    if (kept == TP__SECTION_COUNT_MAX) {
      TP__TRY(drop_parts(state, sorted[i], "16 prompt sections stand before it"));
      continue;
    }
    TP__TRY(compose(state, sorted[i], left < TP__SECTION_BYTES_MAX ? left : TP__SECTION_BYTES_MAX, &size));
    if (sorted[i]->flags & TP__MERGE_DROPPED) continue;
    left -= size;
    kept++;
  }
  TP__TRY(tp__merge_rebuild(state, list, sorted, count));
  for (size_t i = 0; i < list->count; i++) list->items[i].joined = NULL;
  return TP_OK;
}
