/* SPDX-License-Identifier: Apache-2.0
 *
 * recall: finds the memories that are relevant to a text: one search over a scope, sorted by relevance (score.h).
 * Memories of other tenants have no influence. The same store and text give the same list. */
#ifndef TP__MEMORY_RECALL_H
#define TP__MEMORY_RECALL_H

#include "domains/memory/score.h"

enum {
  TP__MEMORY_RECALL_TEXT_MAX = 700 /* the most bytes of a recalled text; of a longer text the part with most of the
                                      searched words */
};

/** As tp__memory_recall(), with a day of asking and a floor.
 *  @param ret_parts  gets TP__MEMORY_PART_COUNT weighed parts for each appended memory, and has space for max memories;
 *          NULL: not wanted. */
tp_status tp__memory_recall_explained(tp__memory_store *store, const tp__memory_scope *scope,
                                      const tp__memory_question *asked, size_t max, tp__memory_list *list,
                                      double *ret_parts);

/** Appends memories with their ranks, best first, at most max: memories that have words of the text or words of the
 *  same stem; memories that were said near these in the same session; and memories that were said on a day that the
 *  text names, or that name this day. A text without words and days recalls nothing. */
tp_status tp__memory_recall(tp__memory_store *store, const tp__memory_scope *scope, tp_text text, size_t max,
                            tp__memory_list *list);

/** The number of bytes of a text, at most max, that does not cut a code point. */
size_t tp__memory_cut(tp_text text, size_t max);

/** Whether two texts share the stem of a word that is worth looking for. @return also true when either has none. */
tp_status tp__memory_is_related(tp__memory_store *store, tp_text a, tp_text b, bool *ret_related);

#endif
