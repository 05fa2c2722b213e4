/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_run: one run of a tool's function: its tp_tool_run, and the way of its answer. An inline tool is called on the
 * turn's owner and costs no memory of its own. Only when it defers, it gets an attempt, with a slot and a token. Any
 * other tool has an attempt from the beginning, and runs on a handler thread or through an inbox. */
#ifndef TP__TOOL_RUN_H
#define TP__TOOL_RUN_H

#include "phases/turn/turn.h"
#include "runtime/exec/runtime.h"
#include "runtime/sched/attempt.h"

typedef struct tp__tool_entry tp__tool_entry; /* toolset.h */
typedef struct tp__tool_attempt tp__tool_attempt;

/** The answer of a tool, or the content that replaces it. Missing values are empty. */
typedef struct tp__tool_content {
  tp_text text;  /* cut to the tool's result_bytes_max */
  tp_text value; /* the value and the parts share the limit parts_bytes_max */
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
  uint32_t flaws;        /* ERROR: the tool failed; NO_MEMORY: its answer was lost; PARTIAL: its answer was too long */
  size_t replaced;       /* bytes that were not UTF-8; each is U+FFFD in the text */
  tp__tool_content said; /* in the arena, or as long as the library */
} tp__tool_reply;

/** What the function sees. */
struct tp_tool_run {
  tp__turn *turn;
  const tp_text *call_id, *arguments;
  const char *name;     /* the tool's */
  tp__closure *closure; /* of the tool; its attempts have references of their own */
  int64_t deadline_ns;
  size_t bytes_max;          /* of the answer's text: a longer text is shortened to head and tail */
  size_t parts_bytes_max;    /* of its value and parts */
  tp__arena *arena;          /* for the answer; only the thread that runs the function uses it */
  tp__tool_attempt *attempt; /* NULL: the function runs on the owner, and has not deferred */
  int64_t started_ns;        /* on the owner */
  bool lost_argument;        /* there was no memory for the copy of an argument, so no answer counts */
  tp__tool_reply reply;
};

/** How the attempt of a run ended. The answer is borrowed from the attempt. */
typedef struct tp__tool_end {
  tp__attempt_end end;
  bool is_late;      /* ANSWERED, but after the deadline: the answer does not count */
  uint32_t flaws;    /* of its reply */
  tp_reason refusal; /* REFUSED: why */
  size_t replaced;   /* as in the reply */
  tp__tool_content said;
  int64_t started_ns, ended_ns; /* 0: the function was not called, or the call was not taken from its inbox */
} tp__tool_end;

/** Who waits for a run. Both on the owner. */
typedef struct tp__tool_waits {
  /** Called once; the attempt is freed when it returns. */
  void (*settled)(void *ctx, const tp__tool_end *end);
  /** Reports progress; not called after settled. The texts are borrowed. */
  void (*progressed)(void *ctx, const tp_tool_progress *progress);
} tp__tool_waits;

/** Owner: an inline tool that was called here did not simply answer: it deferred, failed, or both.
 *  @return NULL: run->reply is the answer; else the attempt of a run that waits for its token. The owner must pass it
 *          to tp__tool_run_await() before anything else. */
tp__tool_attempt *tp__tool_run_exceptional(tp_tool_run *run, tp_answer kind);
void tp__tool_run_await(tp__tool_attempt *attempt, int64_t deadline_ns, const tp__tool_waits *waits, void *ctx);

/** Copies a text into the arena; a text that is too long is shortened to its head and tail. @return false without
 *  memory. */
bool tp__tool_text(tp__arena *arena, tp_text text, size_t bytes_max, tp_text *ret_copy);

/** Copies the answer that a handler gave instead of the tool; each text is shortened like a tool's answer. If the text
 *  is empty and there is a value, the text becomes the value as JSON. @param ret_flaws gets PARTIAL bits. @return false
 *  without memory. */
bool tp__tool_content_copy(tp__arena *arena, const tp__tool_content *said, size_t bytes_max, size_t parts_bytes_max,
                           tp__tool_content *ret_copy, uint32_t *ret_flaws);

/** Owner: gives the run to a handler thread or to its inbox. The data to which run points is copied. settled is called
 *  later, never before this returns. @return NONE, or why it was not started: then settled is not called. */
tp_reason tp__tool_run_start(const tp_tool_run *run, const tp__tool_entry *tool, const tp__tool_waits *waits, void *ctx,
                             tp__tool_attempt **ret_attempt);
/** For the thread that runs the function. @return NULL: the function runs on the owner, and has not deferred. */
tp__attempt *tp__tool_run_attempt(const tp_tool_run *run);
/** Any thread: describes the call of an open token, for a turn that is nested in that call.
 *  @param ret_attempt  to be released by tp__token_release() when the turn was made.
 *  @return TP_OK; as tp_tool_report(). */
tp_status tp__tool_run_hold(tp_token token, tp__attempt **ret_attempt, tp__nesting *ret_nesting, tp_fault *fault);
/** Owner: ends it now as cancelled. */
void tp__tool_run_cancel(tp__tool_attempt *attempt);

#endif
