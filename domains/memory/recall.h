/* SPDX-License-Identifier: Apache-2.0
 *
 * recall: which memories a text calls to mind. Both looks rank by BM25 over the words of the text, with the statistics
 * of the scope alone: what other tenants remember changes nothing. The same store and text give the same list. */
#ifndef TP__MEMORY_RECALL_H
#define TP__MEMORY_RECALL_H

#include "domains/memory/store.h"

enum {
  TP__MEMORY_RECALL_TEXT_MAX = 700,      /* bytes of a recalled text; of a longer one, where its words are densest */
  TP__MEMORY_RECALL_MATCHES_MAX = 20000, /* newest matches that are ranked */
  TP__MEMORY_RECALL_GOOD = 1000          /* a rank from which a memory counts as a good answer */
};

/** The first look: memories that hold words of the text, or words of the same stem; best first, at most max. A memory
 *  that only asks counts half. A text without words recalls nothing. Appends to the list, with ranks. */
tp_status tp__memory_recall(tp__memory_store *store, const tp__memory_scope *scope, tp_text text, size_t max,
                            tp__memory_list *list);

/** The second, broader look: words may also be beginnings of words, and what was said right before and after a match in
 *  the same session gains from it, for conversations answer in the next turn. Leaves out the known ids. */
tp_status tp__memory_recall_more(tp__memory_store *store, const tp__memory_scope *scope, tp_text text,
                                 const int64_t *known, size_t known_count, size_t max, tp__memory_list *list);

/** Whether a first look that gave these ranks needs no second: at least half of what it may bring are good answers. */
bool tp__memory_recall_sufficient(const int32_t *ranks, size_t count, size_t max);

#endif
