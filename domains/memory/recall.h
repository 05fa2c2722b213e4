/* SPDX-License-Identifier: Apache-2.0
 *
 * recall: which memories a text calls to mind: one search over a scope, whose order is the order of relevance
 * (score.h). What other tenants remember changes nothing. The same store and text give the same list. */
#ifndef TP__MEMORY_RECALL_H
#define TP__MEMORY_RECALL_H

#include "domains/memory/score.h"

enum {
  TP__MEMORY_RECALL_TEXT_MAX = 700 /* bytes of a recalled text; of a longer one, where its words are densest */
};

/** As tp__memory_recall(), but for the day of asking and the floor.
 *  @param ret_parts  of each that is appended TP__MEMORY_PART_COUNT weighed parts, space for max; NULL: not wanted. */
tp_status tp__memory_recall_explained(tp__memory_store *store, const tp__memory_scope *scope,
                                      const tp__memory_question *asked, size_t max, tp__memory_list *list,
                                      double *ret_parts);

/** Memories that hold words of the text, or words of the same stem, those said near them in the same session, and those
 *  said on a day that the text names, or about it; best first, at most max. A text without either recalls nothing.
 *  Appends to the list, with ranks. */
tp_status tp__memory_recall(tp__memory_store *store, const tp__memory_scope *scope, tp_text text, size_t max,
                            tp__memory_list *list);

/** Bytes of a text, at most max, that do not cut a code point. */
size_t tp__memory_cut(tp_text text, size_t max);

/** Whether two texts share the stem of a word that is worth looking for. @return also true when either has none. */
tp_status tp__memory_is_related(tp__memory_store *store, tp_text a, tp_text b, bool *ret_related);

#endif
