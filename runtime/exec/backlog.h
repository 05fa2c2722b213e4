/* SPDX-License-Identifier: Apache-2.0
 *
 * backlog: what an entry does with a job for which the store has no space, by the policy of the subscription. A node
 * that waits is an attempt without a function: it stands in line (tp__jobs.line) with its token, and what frees space
 * completes the token of the first. Then its owner inserts the job, leaves the line, and notifies the next one, since
 * there may be more space; where there is none after all, the node waits on in the same place. So no thread waits, and
 * the oldest goes first. One whose time is up, or whose entry is cancelled, leaves the line, and notifies the next one
 * in its place. Lock: `jobs`, for the line. */
#ifndef TP__BACKLOG_H
#define TP__BACKLOG_H

#include "runtime/exec/entry.h"

/** The policy of a detached node, never DEFAULT. */
tp_backlog tp__backlog_of(const tp__node *node);
/** Whether the node is to wait at all: others are in line before it. */
bool tp__backlog_has_line(const tp__entry *entry, const tp__node *node);
/** Owner: whether the node may wait for space. What runs in a job or a tool holds what others need to make space. */
bool tp__backlog_waits(const tp__entry *entry, const tp__node *node);
/** How often there was space so far: read before the store is asked. Any thread. */
uint32_t tp__backlog_news(struct tp_runtime *runtime);

typedef struct tp__backlog_place {
  int64_t until_ns;
  uint32_t news_seen; /* when the store was asked */
  bool at_head;       /* it was the first before */
} tp__backlog_place;
/** Owner: lets the node stand in line. It goes on by tp__entry_detach_again(), or has failed.
 *  @return false without memory or token: it is refused now. */
bool tp__backlog_wait(tp__entry *entry, uint32_t index, const tp__backlog_place *where);
/** Any thread, without a lock: there is space for one job, or may be. */
void tp__backlog_offer(struct tp_runtime *runtime);

#endif
