/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_durable: calls of tools that are not idempotent, in turns of a session whose store keeps such calls. The start
 * of a call is committed before its function runs, and its result when it has ended. When a process dies, and its turn
 * is submitted again, no such function runs twice. A commit blocks on the disk, so each is an attempt on a handler
 * thread. Owner only. */
#ifndef TP__TOOL_DURABLE_H
#define TP__TOOL_DURABLE_H

#include "phases/tools/tool_call.h"

/** Whether the store keeps calls of the slot's tool. */
bool tp__toolcall_is_durable(const tp__tool_slot *slot);
/** Commits the start of the call. Then goes on with tp__toolcall_started(), or ends the call: with the result that an
 *  earlier run of the turn left, as interrupted, or as shed if the store did not take it. */
void tp__toolcall_commit_start(tp__tool_slot *slot);
/** Commits the result, then goes on with tp__toolcall_ended(), even if the commit fails. The texts are copied. */
void tp__toolcall_commit_end(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said);

/* ---- tool_call.c, for it ---- */

/** The start is on the disk: calls the function, unless the turn was stopped meanwhile. */
void tp__toolcall_started(tp__tool_slot *slot);
/** The call has its result. The texts are in dispatch->texts, or live as long as the library. */
void tp__toolcall_ended(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said);

#endif
