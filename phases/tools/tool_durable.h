/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_durable: calls of tools that are not idempotent, in turns of a session whose store keeps them. That a call
 * begins is committed before its function runs, and its result when it has ended, so that a turn that is submitted
 * again after its process died runs no such function twice. A commit blocks on the disk: each is an attempt on a
 * handler thread. Owner only. */
#ifndef TP__TOOL_DURABLE_H
#define TP__TOOL_DURABLE_H

#include "phases/tools/tool_call.h"

/** Whether the store keeps calls of the slot's tool. */
bool tp__toolcall_is_durable(const tp__tool_slot *slot);
/** Commits that the call begins, then goes on with tp__toolcall_started(), or ends the call: with the result that an
 *  earlier run of the turn left, as interrupted, or shed where the store did not take it. */
void tp__toolcall_commit_start(tp__tool_slot *slot);
/** Commits the result, then goes on with tp__toolcall_ended(), whatever came of the commit. What was said is
 *  copied. */
void tp__toolcall_commit_end(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said);

/* ---- tool_call.c, for it ---- */

/** The start is on the disk: calls the function unless the turn was stopped meanwhile. */
void tp__toolcall_started(tp__tool_slot *slot);
/** The result is there: what was said is in dispatch->texts, or lives as long as the library. */
void tp__toolcall_ended(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said);

#endif
