/* SPDX-License-Identifier: Apache-2.0
 *
 * tools: the tools of a turn, and the dispatch of one response's calls. Every call goes its own way, all at once:
 *
 *   scope -> policy -> tool.create -> tool.rewrite -> schema -> tool.pre -> permission, question -> conflicts
 *         -> run -> cap -> tool.result -> tool.post -> settled
 *
 * and where it is stopped on the way, that gives it its one result. `results` is in call order: a call writes the
 * result at its index in the response, whenever it ends; the order of completion is a number in it. The dispatch ends
 * when every call is settled. Owner only. */
#ifndef TP__TOOLS_H
#define TP__TOOLS_H

#include "phases/model.h"
#include "phases/schema.h"
#include "phases/tool_run.h"

/** What the turn's policies say of a tool. */
typedef enum tp__tool_policy { TP__TOOL_FREE = 0, TP__TOOL_DENY = 1, TP__TOOL_ASK = 2 } tp__tool_policy;

/** A tool of the turn. */
struct tp__tool_entry {
  tp_tool_fn run; /* NULL: inbox */
  void *ctx;
  tp_inbox *inbox;      /* the closure or the turn has a reference; NULL without run: the turn's session has none */
  tp__closure *closure; /* referenced; NULL: it holds nothing of the host's */
  bool is_inline;
  bool out_of_scope; /* the turn's agent may not use it */
  bool left_out;     /* model.request has left it out of the last request */
  tp__tool_policy policy;
  const void *sets; /* by which policy was judged: the turn's, of this version */
  bool is_compiled; /* schema is set, by the first call */
  const tp__schema *schema;
  int64_t timeout_ns;
  size_t result_bytes_max, parts_bytes_max;
  uint32_t concurrent_max;
  const tp_tool *tool;
  const char *owner;
  tp_text name; /* with a NUL after it; lives as long as the runtime */
  tp__permits *permits;
};

struct tp__toolset {
  tp_runtime *runtime;
  tp__a32 refs;    /* acq_rel: the turn's, and one of each request that shows the tools */
  tp__arena arena; /* the descriptors */
  tp__tool_entry *entries;
  size_t count;
  const char *needs_inbox; /* a tool whose calls come to the session's inbox, which there is not; NULL: none */
  uint32_t *places;        /* by the hash of a name: index + 1, 0 is free */
  uint32_t mask;
  size_t block_size;
};

/** The tools of a merged turn.pre_tool_materialization, copied.
 *  @param scope  an array of the names that may be used; empty: all.
 *  @param inbox  of the turn's session; the turn has a reference; NULL: none. */
tp_status tp__toolset_new(tp_runtime *runtime, tp_text scope, tp_inbox *inbox, const tp_merged *merged,
                          tp__toolset **ret_toolset);
/** Both accept NULL. */
tp__toolset *tp__toolset_ref(tp__toolset *toolset);
void tp__toolset_unref(tp__toolset *toolset);
/** @return NULL: there is none. toolset may be NULL. */
tp__tool_entry *tp__toolset_find(const tp__toolset *toolset, tp_text name);

/** A reminder that a call left behind. @param block  it says why the call was blocked. */
typedef void (*tp__remind_fn)(tp_turn *turn, const char *subscription, tp_text text, bool block);

/** The tool's schema, compiled at the first call. @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__tool_schema(tp__toolset *toolset, tp__tool_entry *tool, const tp__schema **ret_schema);

typedef struct tp__tool_slot tp__tool_slot;

/** One block of memory, which a turn that its host drives keeps for its next dispatch. */
struct tp__dispatch {
  tp_turn *turn;
  const tp_tool_call *const *calls;
  tp_tool_result *results;
  const tp_tool_result **shown; /* the same, as a host reads them */
  size_t count;
  size_t open; /* calls that are not settled, and 1 while a thread still begins them */
  uint32_t completed;
  /* whether these phases of tools have subscriptions */
  bool has_create, has_rewrite, has_pre, has_ask, has_denied, has_result, has_post;
  bool has_gates;      /* whether one of them has */
  bool has_permission; /* the host's callback is asked for each call */
  bool has_listener;   /* of events */
  tp_timestamps timestamps;
  bool stale;             /* now_ns is older than what was done since */
  int64_t now_ns;         /* when the clock was read last: the end of one call is the start of the next */
  tp__tool_entry *last;   /* the tool that was looked up last */
  tp__tool_slot *free;    /* for the next call */
  tp__tool_slot *pending; /* of calls that did not end where they began */
  tp__link ordered;       /* calls that have keys and are not through, in call order */
  tp__link resumable;     /* those of them whose wait is to be looked at again */
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

/** Begins; on_end may be called before it returns. calls and what they point to stay as long as the results are read;
 *  results' texts till tp__dispatch_free().
 *  @return TP_OK; TP_ERR_NO_MEMORY, and on_end is not called. */
tp_status tp__dispatch_begin(tp_turn *turn, const tp_tool_call *const *calls, size_t count, tp_tool_result *results,
                             tp__remind_fn remind, void (*on_end)(tp__dispatch *dispatch), void *ctx,
                             tp__dispatch **ret_dispatch);
/** tool_cancel.c: ends calls that have no result yet as cancelled; a function that was called for one is given up, and
 *  its end phases come.
 *  @param call_id  empty: all.
 *  @return how many were not settled. */
size_t tp__dispatch_cancel(tp__dispatch *dispatch, tp_text call_id);
void tp__dispatch_free(tp__dispatch *dispatch);
/** Owner: asserts what always holds while it runs (tools.c). */
void tp__dispatch_check(const tp__dispatch *dispatch);

/** step_times.c: a call of a driven turn has its result. */
void tp__drive_note_call(tp__drive *drive, const tp_tool_result *result, uint32_t place, int64_t started_ns,
                         int64_t settled_ns);
/** drive.c: what a cancel means to a driven turn. */
void tp__drive_cancel(tp__drive *drive);

#endif
