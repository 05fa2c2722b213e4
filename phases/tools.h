/* SPDX-License-Identifier: Apache-2.0
 *
 * tools: the tools of a turn, and the dispatch of one response's calls. Every call goes its own way, all at once:
 *
 *   scope -> schema -> policy -> tool.pre -> run -> cap -> tool.result -> tool.post -> settled
 *
 * and whatever stops it on the way gives it its one result. A call's slot in `results` is its place in the response;
 * the order of completion is a number in it. The dispatch ends when every call is settled. Owner only. */
#ifndef TP__TOOLS_H
#define TP__TOOLS_H

#include "phases/turn.h"

/** A tool of the turn. */
typedef struct tp__tool_entry {
  const tp_tool *tool;
  const char *owner;
  const char *name; /* lives as long as the runtime */
  tp__permits *permits;
} tp__tool_entry;

struct tp__toolset {
  tp_runtime *runtime;
  tp__arena arena; /* the descriptors */
  tp__tool_entry *entries;
  size_t count;
};

/** The tools of a merged turn.pre_tool_materialization, copied. */
tp_status tp__toolset_new(tp__upper *upper, const tp_merged *merged, tp__toolset **ret_toolset);
/** Accepts NULL. */
void tp__toolset_free(tp__toolset *toolset);
const tp__tool_entry *tp__toolset_find(const tp__toolset *toolset, tp_text name);

/** A reminder that a call left behind. @param block  it says why the call was blocked. */
typedef void (*tp__remind_fn)(tp_turn *turn, const char *subscription, tp_text text, bool block);

typedef struct tp__tool_slot tp__tool_slot;

struct tp__dispatch {
  tp_turn *turn;
  tp__arena arena; /* what the results point to */
  const tp_tool_call *calls;
  tp_tool_result *results;
  size_t count;
  tp__tool_slot *slots;
  size_t open;
  uint32_t completed;
  bool cancelled;
  tp__link kept;        /* in turn->kept_dispatches, when it has ended and its results are still read */
  tp__remind_fn remind; /* may be NULL */
  void (*on_end)(tp__dispatch *dispatch);
  void *ctx;
};

/** Begins; on_end may be called before it returns. calls stay till then; results' texts till tp__dispatch_free().
 *  @return TP_OK; TP_ERR_NO_MEMORY, and on_end is not called. */
tp_status tp__dispatch_begin(tp_turn *turn, const tp_tool_call *calls, size_t count, tp_tool_result *results,
                             tp__remind_fn remind, void (*on_end)(tp__dispatch *dispatch), void *ctx,
                             tp__dispatch **ret_dispatch);
/** Every call that is not settled ends as cancelled. */
void tp__dispatch_cancel(tp__dispatch *dispatch);
void tp__dispatch_free(tp__dispatch *dispatch);

/** drive.c: what a cancel means to a driven turn. */
void tp__drive_cancel(tp__drive *drive);

#endif
