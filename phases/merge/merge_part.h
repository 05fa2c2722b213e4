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
  tp__merge_note *notes, **notes_end; /* its own diagnostics, in the order they were made */
  size_t note_count;
} tp__merge_state;

/** Below 0 when a stands before b. Of equals the heavier stands first, else the first in plan order: a total order. */
typedef int (*tp__merge_compare)(const tp__merged_item *a, const tp__merged_item *b);
int tp__compare_text(tp_text a, tp_text b);
int tp__compare_weight(const tp__merged_item *a, const tp__merged_item *b); /* the heavier first */
int tp__compare_key(const tp__merged_item *a, const tp__merged_item *b);

/** Sorts an array of pointers to items, in place and without memory. */
void tp__merge_sort(tp__merged_item **items, size_t count, tp__merge_compare compare);
/** Gives pointers to the items of a list, sorted. Never NULL on success. */
tp_status tp__merge_sorted(tp__merge_state *state, const tp__merge_list *list, tp__merge_compare compare,
                           tp__merged_item ***ret_sorted);
/** Sorts, and calls again for each item after the first of its equals. */
tp_status tp__merge_equals(tp__merge_state *state, const tp__merge_list *list, tp__merge_compare compare,
                           tp_status (*again)(tp__merge_state *state, const tp__merged_item *first,
                                              tp__merged_item *item),
                           tp__merged_item ***ret_sorted);
/** Makes the list of the sorted items that are not dropped. */
tp_status tp__merge_rebuild(tp__merge_state *state, tp__merge_list *list, tp__merged_item *const *sorted, size_t count);
/** Takes the dropped items out of the list, in place. */
void tp__merge_squeeze(tp__merge_list *list);

/** A diagnostic of the merge about an item: severity, a code, and a sentence that holds names and sizes, never content.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__merge_note_add(tp__merge_state *state, const tp__merged_item *about, tp_severity severity,
                             const char *code, const char *format, ...) TP__PRINTF(5, 6);
/** The same, and the item is not in the result. */
tp_status tp__merge_drop(tp__merge_state *state, tp__merged_item *item, const char *code, const char *why);

/** Gives the item a contribution of its own with another text; the short form has served. */
tp_status tp__merge_set_text(tp__merge_state *state, tp__merged_item *item, tp_text text);

/** The longest that left bytes allow: the whole text, else the item's short form, else one of them cut at a code point,
 *  with a diagnostic for what is lost.
 *  @param ret_text  borrowed from the item's contribution; empty when nothing fits: then the item is marked dropped. */
tp_status tp__merge_fit(tp__merge_state *state, tp__merged_item *item, size_t left, tp_text *ret_text);

/* The kinds: each changes its list, which comes in plan order, into the merged one. */
tp_status tp__merge_policies(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_contexts(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_sections(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_tools(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_signals(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_reminders(tp__merge_state *state, tp__merge_list *list);
tp_status tp__merge_jobs(tp__merge_state *state, tp__merge_list *list);

#endif
