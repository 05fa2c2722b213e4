/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_context: the description of a call for a program or a model. hook_context.c has turnphase's own protocol,
 * hook_protocol_input.c those of other hosts. No state. */
#ifndef TP__DECLARED_HOOK_CONTEXT_H
#define TP__DECLARED_HOOK_CONTEXT_H

#include "domains/declared/hook.h"

/** Makes the input of a program or a model, in the protocol of the hook.
 *  @return TP_OK and a line with its newline, which the caller frees. */
tp_status tp__hook_context_line(const tp__hook *hook, tp_call *call, tp__bytes *ret_line);
/** Writes the input of a hook with turnphase's own protocol. */
void tp__hook_write_context(const tp__hook *hook, const tp_call *call, tp_writer *writer);

/** Writes the input of a program of another host's hook, and its transcript. */
void tp__protocol_write(const tp__hook *hook, tp_call *call, tp_writer *writer);

#endif
