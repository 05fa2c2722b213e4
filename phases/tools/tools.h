/* SPDX-License-Identifier: Apache-2.0
 *
 * tools: the dispatch of one response's calls. All calls run at once, and each makes these steps:
 *
 *   scope -> policy -> tool.create -> tool.rewrite -> schema -> tool.pre -> permission, question -> conflicts
 *         -> run -> cap -> tool.result -> tool.post -> settled
 *
 * A call that is stopped at one of these steps gets its one result from there. `results` is in call order: a call
 * writes its result at its index in the response, whenever it ends. The order of completion is a number in the result.
 * The dispatch ends when every call is settled. Owner only. */
#ifndef TP__TOOLS_H
#define TP__TOOLS_H

#include "phases/tools/tool_run.h"
#include "phases/tools/toolset.h"

/** Called for a reminder of a call. @param block the reminder says why the call was blocked. */
typedef void (*tp__remind_fn)(tp_turn *turn, const char *subscription, tp_text text, bool block);

typedef struct tp__tool_slot tp__tool_slot;

/** One block of memory. A turn that its host drives keeps it for its next dispatch. */
struct tp__dispatch {
  tp_turn *turn;
  const tp_tool_call *const *calls;
  tp_tool_result *results;
  const tp_tool_result **shown; /* the same, as a host reads them */
  size_t count;
  size_t open; /* calls that are not settled, and one more while a thread still begins calls */
  uint32_t completed;
  /* Whether these phases of tools have subscriptions */
  bool has_create, has_rewrite, has_pre, has_ask, has_denied, has_result, has_post;
  bool has_gates;      /* whether one of them has */
  bool has_permission; /* the host's callback must be asked for each call */
  bool has_listener;   /* of events */
  tp_timestamps timestamps;
  bool stale;             /* something was done since now_ns was read */
  int64_t now_ns;         /* when the clock was read last: the end of one call is the start of the next */
  tp__tool_entry *last;   /* the tool that was looked up last */
  tp__tool_slot *free;    /* for the next call */
  tp__tool_slot *pending; /* slots of calls that did not end at once */
  tp__link ordered;       /* calls that have keys and are not done, in call order */
  tp__link resumable;     /* those of them that must check again whether they still wait */
  bool resumes;           /* that is under way */
  tp_tool_run run;        /* of an inline tool: one after the other */
  tp_event begin, end;    /* whose they are was filled in once */
  int64_t wall_ns;        /* when their unix_ms was looked at */
  tp__arena texts;        /* what the results point to */
  tp__arena scratch;      /* the slots: gone with the end */
  char *id_space;         /* for the next id that cannot be borrowed */
  bool calls_stay;        /* ids and names need no copy */
  tp__remind_fn remind;   /* may be NULL */
  void (*on_end)(tp__dispatch *dispatch);
  void *ctx;
  tp__link kept; /* in turn->kept_dispatches, when it has ended and its results are still read */
  size_t block_size;
  char first[192]; /* the first bytes of scratch */
};

/** Begins a dispatch; on_end may be called before this returns. The calls and the data to which they point must stay as
 *  long as the results are read. The texts of results stay until tp__dispatch_free().
 *  @return TP_OK; TP_ERR_NO_MEMORY, and on_end is not called. */
tp_status tp__dispatch_begin(tp_turn *turn, const tp_tool_call *const *calls, size_t count, tp_tool_result *results,
                             tp__remind_fn remind, void (*on_end)(tp__dispatch *dispatch), void *ctx,
                             tp__dispatch **ret_dispatch);
void tp__dispatch_free(tp__dispatch *dispatch);
/** Owner: asserts the invariants of a running dispatch (tools.c). */
void tp__dispatch_check(const tp__dispatch *dispatch);

/* ---- functions of drive, for the calls of a driven turn ---- */

/** running.c: a call's function begins. */
void tp__drive_note_start(tp__drive *drive);
/** step_times.c: a call has its result.
 *  @param entry_id  of the entry of its newest tool.pre; 0: none has run. */
void tp__drive_note_call(tp__drive *drive, const tp_tool_result *result, uint32_t place, int64_t started_ns,
                         int64_t settled_ns, uint64_t entry_id);
#endif
