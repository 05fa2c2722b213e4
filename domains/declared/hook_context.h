/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_context: what a program or a model reads of a call. hook_context.c has our own protocol,
 * hook_protocol_input.c those of other hosts. No state. */
#ifndef TP__DECLARED_HOOK_CONTEXT_H
#define TP__DECLARED_HOOK_CONTEXT_H

#include "domains/declared/hook.h"

/** What a program or a model reads, in the protocol of the hook.
 *  @return TP_OK and a line with its newline, to be freed. */
tp_status tp__hook_context_line(const tp__hook *hook, tp_call *call, tp__bytes *ret_line);
/** Writes what a hook of our own protocol gets. */
void tp__hook_write_context(const tp__hook *hook, const tp_call *call, tp_writer *writer);

/** Writes what a program of a hook of another host gets, and its transcript. */
void tp__protocol_write(const tp__hook *hook, tp_call *call, tp_writer *writer);

#endif
