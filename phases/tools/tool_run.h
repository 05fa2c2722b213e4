/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_run: one run of a tool's function: what it sees as its tp_tool_run, and how its answer comes back. An inline
 * tool is called on the turn's owner and costs no memory of its own: only when it defers does it get an attempt, with
 * a slot and a token. Any other tool has its attempt from the start and runs on a handler thread. */
#ifndef TP__TOOL_RUN_H
#define TP__TOOL_RUN_H

#include "phases/turn/turn.h"
#include "runtime/exec/runtime.h"
#include "runtime/sched/attempt.h"

typedef struct tp__tool_entry tp__tool_entry; /* toolset.h */
typedef struct tp__tool_attempt tp__tool_attempt;

/** What a tool said, or what stands in its place. Values that are not there are empty. */
typedef struct tp__tool_content {
  tp_text text;  /* cut to the tool's result_bytes_max */
  tp_text value; /* with the parts within its parts_bytes_max */
  tp_text parts;
} tp__tool_content;

enum {
  TP__REPLY_ERROR = 1,
  TP__REPLY_NO_MEMORY = 2,
  TP__REPLY_CUT = 4,      /* the text */
  TP__REPLY_LEFT_OUT = 8, /* a part, or the value */
  TP__REPLY_PARTIAL = TP__REPLY_CUT | TP__REPLY_LEFT_OUT
};

/** The reply of a tool's function. */
typedef struct tp__tool_reply {
  uint32_t flaws;        /* ERROR: the tool could not; NO_MEMORY: what it said was lost; PARTIAL: it was too long */
  size_t replaced;       /* bytes that were not UTF-8: each is U+FFFD in the text */
  tp__tool_content said; /* in the arena, or as long as the library */
} tp__tool_reply;

/** What the function sees. */
struct tp_tool_run {
  tp__turn *turn;
  const tp_text *call_id, *arguments;
  const char *name;     /* the tool's */
  tp__closure *closure; /* the tool's; its attempts have references of their own */
  int64_t deadline_ns;
  size_t bytes_max;          /* of the answer's text: longer ones keep head and tail */
  size_t parts_bytes_max;    /* of its value and parts */
  tp__arena *arena;          /* of the answer; the thread's that runs the function */
  tp__tool_attempt *attempt; /* NULL: on the owner, and it has not deferred */
  int64_t started_ns;        /* on the owner */
  bool lost_argument;        /* there was no memory for a copy of one: no answer counts */
  tp__tool_reply reply;
};

/** How the attempt of a run ended; what was said is borrowed from the attempt. */
typedef struct tp__tool_end {
  tp__attempt_end end;
  bool is_late;      /* ANSWERED, after the deadline: the answer does not count */
  uint32_t flaws;    /* of its reply */
  tp_reason refusal; /* REFUSED: why */
  size_t replaced;   /* as in the reply */
  tp__tool_content said;
  int64_t started_ns, ended_ns; /* 0: its function was not called, or it was not taken from its inbox */
} tp__tool_end;

/** Who waits for a run. Both on the owner. */
typedef struct tp__tool_waits {
  /** Once; the attempt goes away when it returns. */
  void (*settled)(void *ctx, const tp__tool_end *end);
  /** How far it is; not after settled. What it points to is borrowed. */
  void (*progressed)(void *ctx, const tp_tool_progress *progress);
} tp__tool_waits;

/** Owner: an inline tool that was called here did more than answer: it deferred, failed, or both.
 *  @return NULL: run->reply is the answer; else the attempt of a run that waits for its token, to be given to
 *          tp__tool_run_await() before the owner does anything else. */
tp__tool_attempt *tp__tool_run_exceptional(tp_tool_run *run, tp_answer kind);
void tp__tool_run_await(tp__tool_attempt *attempt, int64_t deadline_ns, const tp__tool_waits *waits, void *ctx);

/** Copies a text into the arena, cut to its head and tail where it is too long. @return false without memory. */
bool tp__tool_text(tp__arena *arena, tp_text text, size_t bytes_max, tp_text *ret_copy);

/** Copies what a handler said in a tool's place, each text cut as a tool's answer. Empty text beside a value: the value
 *  as JSON. @param ret_flaws  gets PARTIAL bits. @return false without memory. */
bool tp__tool_content_copy(tp__arena *arena, const tp__tool_content *said, size_t bytes_max, size_t parts_bytes_max,
                           tp__tool_content *ret_copy, uint32_t *ret_flaws);

/** Owner: hands the tool to a handler thread or to its inbox. What run points to is copied. settled comes later, never
 *  before this returns. @return NONE, or why it was not started: then settled is not called. */
tp_reason tp__tool_run_start(const tp_tool_run *run, const tp__tool_entry *tool, const tp__tool_waits *waits, void *ctx,
                             tp__tool_attempt **ret_attempt);
/** The thread that runs the function. @return NULL: it runs on the owner, and has not deferred. */
tp__attempt *tp__tool_run_attempt(const tp_tool_run *run);
/** Any thread: what a turn is run for that is nested in the call of an open token.
 *  @param ret_attempt  tp__token_release() when the turn was made.
 *  @return TP_OK; as tp_tool_report(). */
tp_status tp__tool_run_hold(tp_token token, tp__attempt **ret_attempt, tp__nesting *ret_nesting, tp_fault *fault);
/** Owner: ends it now as cancelled. */
void tp__tool_run_cancel(tp__tool_attempt *attempt);

#endif
