/* SPDX-License-Identifier: Apache-2.0
 *
 * backlog: what an entry does with a job for which the store has no space, by the policy of the subscription. A node
 * that waits for space is an attempt without a function. It stands in a line (tp__jobs.line) with its token. When space
 * becomes free, the token of the first in line is completed. Then the owner of that node inserts the job, leaves the
 * line, and notifies the next node, because there may be more space. If there is no space after all, the node waits on
 * in the same place. So no thread waits, and the oldest node goes first. A node whose time is up, or whose entry is
 * cancelled, leaves the line and notifies the next one. Lock: `jobs`, for the line. */
#ifndef TP__BACKLOG_H
#define TP__BACKLOG_H

#include "runtime/exec/entry.h"

/** The policy of a detached node, never DEFAULT. */
tp_backlog tp__backlog_of(const tp__node *node);
/** Whether the node must wait because other nodes are in line before it. */
bool tp__backlog_has_line(const tp__entry *entry, const tp__node *node);
/** Owner: whether the node may wait for space. A node that runs in a job or a tool may not, because it holds resources
 *  that others need to make space. */
bool tp__backlog_waits(const tp__entry *entry, const tp__node *node);
/** How often space has become free so far; read before the store is asked. Any thread. */
uint32_t tp__backlog_news(struct tp_runtime *runtime);

typedef struct tp__backlog_place {
  int64_t until_ns;
  uint32_t news_seen; /* when the store was asked */
  bool at_head;       /* it was the first before */
} tp__backlog_place;
/** Owner: puts the node into the line. It goes on by tp__entry_detach_again(), or fails.
 *  @return false without memory or token: the node is refused now. */
bool tp__backlog_wait(tp__entry *entry, uint32_t index, const tp__backlog_place *where);
/** Any thread, without a lock: says that there is, or may be, space for one job. */
void tp__backlog_offer(struct tp_runtime *runtime);

#endif
