/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_run: the attempt of a tool's function: what it sees as its tp_tool_run. */
#ifndef TP__TOOL_RUN_H
#define TP__TOOL_RUN_H

#include "phases/tools.h"

/** What the function came to; text is borrowed from the run. */
typedef struct tp__tool_answer {
  tp__attempt_end end;
  tp_reason refusal; /* with TP__REFUSED */
  bool is_error;
  tp_text text;
  int64_t started_ns, ended_ns; /* 0: its function was not called */
} tp__tool_answer;

typedef struct tp_tool_run tp__tool_run;

typedef struct tp__tool_run_spec {
  tp_turn *turn;
  const tp__tool_entry *tool;
  tp_text call_id, arguments; /* copied */
  /** On the owner, once; the run goes away when it returns. Not called when the start was refused. */
  void (*settled)(void *ctx, const tp__tool_answer *answer);
  void *ctx;
} tp__tool_run_spec;

/** Owner: calls a quick tool here, hands any other to a handler thread. settled may be called before it returns.
 *  @return NONE, or why it was not started. *ret_run is NULL when it has settled. */
tp_reason tp__tool_run_start(const tp__tool_run_spec *spec, tp__tool_run **ret_run);
/** Owner: ends it now as cancelled. */
void tp__tool_run_cancel(tp__tool_run *run);

#endif
