/* SPDX-License-Identifier: Apache-2.0
 *
 * share: nodes of placement parallel, which are worth another thread's time. The owner of an entry puts ready nodes
 * into batches, some at a time; an engine worker that has nothing else to do opens them and calls; the owner takes the
 * answers and settles. So counters, rows and verdicts stay the owner's alone, and a batch that no helper opened is
 * taken back.
 *
 * A batch is EMPTY (the owner's) -> OFFERED -> OPENED (a helper's) -> DONE -> EMPTY, or from OFFERED back to EMPTY.
 * The share lives as long as its entry, which every helper that was asked holds, and a wake-up that may come. */
#ifndef TP__SHARE_H
#define TP__SHARE_H

#include "runtime/exec/entry.h"

enum {
  TP__SHARE_SEARCH_NS = 30 * TP__NS_PER_US /* how long one looks for what may come before sleeping */
};

/** How many engine workers help the entries of a runtime. */
typedef struct tp__helpers {
  uint32_t max;      /* that may help one entry; never changes after new, but in tests */
  int64_t search_ns; /* how long an owner or helper looks for what may come before it sleeps; likewise */
  tp__a32 requested; /* helpers that were asked and have not left, at most max */
} tp__helpers;

/** Owner: gives ready nodes of placement parallel to engine workers that have nothing to do, but for the first one. */
void tp__share_offer(tp__entry *entry);
/** Owner: settles what was answered elsewhere, and takes back what no worker came for. */
void tp__share_collect(tp__entry *entry);
/** Owner: nothing is ready. Waits for a moment for answers from elsewhere.
 *  @return whether something became ready or settled; false: nothing is out, or a message will come when one is in. */
bool tp__share_wait(tp__entry *entry);
/** Owner: nothing more is to be called: the entry is decided, or has ended. */
void tp__share_stop(tp__entry *entry);
/** The entry's last reference is gone. */
void tp__share_free(tp__entry *entry);

#endif
