/* SPDX-License-Identifier: Apache-2.0
 *
 * share: lets engine workers help with nodes of placement parallel. The owner of an entry puts ready nodes into
 * batches. An engine worker without other work opens a batch and calls its nodes; the owner takes the answers and
 * settles the nodes. So only the owner touches counters, rows and verdicts. The owner takes back a batch that no helper
 * has opened.
 *
 * The states of a batch: EMPTY (the owner's) -> OFFERED -> OPENED (a helper's) -> DONE -> EMPTY, or from OFFERED back
 * to EMPTY. The share exists as long as its entry. Every helper that was asked holds the entry, and so does a wake-up
 * that may come. */
#ifndef TP__SHARE_H
#define TP__SHARE_H

#include "runtime/exec/entry.h"

enum {
  TP__SHARE_SEARCH_NS = 30 * TP__NS_PER_US /* how long a thread spins for the next event before it sleeps */
};

/** How many engine workers help the entries of a runtime. */
typedef struct tp__helpers {
  uint32_t max;      /* the most helpers of one entry; never changes after new, except in tests */
  int64_t search_ns; /* how long an owner or helper spins before it sleeps; changes likewise */
  tp__a32 requested; /* helpers that were asked and have not left, at most max */
} tp__helpers;

/** Owner: offers ready nodes of placement parallel to engine workers without work. Keeps the first node for itself. */
void tp__share_offer(tp__entry *entry);
/** Owner: settles nodes that helpers have answered, and takes back batches that no worker has opened. */
void tp__share_collect(tp__entry *entry);
/** Owner, when no node is ready: waits for a moment for answers of helpers.
 *  @return true when a node became ready or settled; false: no batch is out, or a message will come when one is
 *    returned. */
bool tp__share_wait(tp__entry *entry);
/** Owner: no more nodes are to be called, because the entry is decided or has ended. */
void tp__share_stop(tp__entry *entry);
/** The entry's last reference is gone. */
void tp__share_free(tp__entry *entry);

#endif
