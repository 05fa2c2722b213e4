/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_part: what the files of the merge share: the state of one run, sorting, diagnostics. */
#ifndef TP__MERGE_PART_H
#define TP__MERGE_PART_H

#include "phases/merge/contribution.h"
#include "phases/merge/merge.h"

enum {
  TP__MERGE_CARRIED = 1 << 16, /* was in the turn's set before */
  TP__MERGE_DROPPED = 1 << 17, /* is not in the result */
};

/** A list whose items the merge may still change. */
typedef struct tp__merge_list {
  tp__merged_item *items;
  size_t count;
} tp__merge_list;

typedef struct tp__merge_note {
  struct tp__merge_note *next;
  tp__merged_item item;
} tp__merge_note;

/** One run of the merge. */
typedef struct tp__merge_state {
  const tp__merge *merge;
  tp__arena *arena;
  tp_fault *fault;
  tp__merge_note *notes, **notes_end; /* diagnostics of the merge itself, in the order in which they were made */
  size_t note_count;
} tp__merge_state;

/** Below 0 when a comes before b. Of equal items the heavier comes first, else the first in plan order, so the order is
 *  total. */
typedef int (*tp__merge_compare)(const tp__merged_item *a, const tp__merged_item *b);
int tp__compare_text(tp_text a, tp_text b);
int tp__compare_weight(const tp__merged_item *a, const tp__merged_item *b); /* the heavier first */
int tp__compare_key(const tp__merged_item *a, const tp__merged_item *b);

/** Sorts an array of pointers to items, in place and without allocation. */
void tp__merge_sort(tp__merged_item **items, size_t count, tp__merge_compare compare);
/** Gives sorted pointers to the items of a list. Never NULL on success. */
tp_status tp__merge_sorted(tp__merge_state *state, const tp__merge_list *list, tp__merge_compare compare,
                           tp__merged_item ***ret_sorted);
/** Sorts, and calls `again` for each item that equals an earlier one. */
tp_status tp__merge_equals(tp__merge_state *state, const tp__merge_list *list, tp__merge_compare compare,
                           tp_status (*again)(tp__merge_state *state, const tp__merged_item *first,
                                              tp__merged_item *item),
                           tp__merged_item ***ret_sorted);
/** Makes the list of the sorted items that are not dropped. */
tp_status tp__merge_rebuild(tp__merge_state *state, tp__merge_list *list, tp__merged_item *const *sorted, size_t count);
/** Removes the dropped items from the list, in place. */
void tp__merge_squeeze(tp__merge_list *list);

/** Adds a diagnostic of the merge about an item: severity, a code, and a sentence with names and sizes, never with
 *  content.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__merge_note_add(tp__merge_state *state, const tp__merged_item *about, tp_severity severity,
                             const char *code, const char *format, ...) TP__PRINTF(5, 6);
/** As tp__merge_note_add(); and removes the item from the result. */
tp_status tp__merge_drop(tp__merge_state *state, tp__merged_item *item, const char *code, const char *why);

/** Gives the item a contribution of its own with another text, without a short form. */
tp_status tp__merge_set_text(tp__merge_state *state, tp__merged_item *item, tp_text text);

/** The longest text that fits into `left` bytes: the whole text, else the item's short form, else one of the two cut at
 *  a code point. A diagnostic says what is lost.
 *  @param ret_text  borrowed from the item's contribution; empty when nothing fits; then the item is marked dropped. */
tp_status tp__merge_fit(tp__merge_state *state, tp__merged_item *item, size_t left, tp_text *ret_text);

/* The merge of each kind: changes the kind's list, which comes in plan order, into the merged list. */
tp_status tp__merge_policies(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_contexts(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_sections(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_tools(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_signals(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_reminders(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_jobs(tp__merge_state *state, tp__merge_list *list);

#endif
