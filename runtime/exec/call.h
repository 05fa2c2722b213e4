/* SPDX-License-Identifier: Apache-2.0
 *
 * call: what a handler sees and does (handler.h: tp_call), and what its answer has. The thread that runs the
 * handler; it takes no lock but for a payload that is read (call_payload.c). */
#ifndef TP__CALL_H
#define TP__CALL_H

#include "runtime/exec/entry.h"

/** The answer after what a handler's function returned, with the reason and code that the call has for it. */
tp__answer tp__call_answer(const tp_call *call, tp_answer kind);
/** Checks one contribution against what the node may emit and adds a deep copy of it. A refusal sticks to the
 *  output. fault may be NULL. */
tp_status tp__output_emit(tp__output *output, tp__arena *arena, tp__entry *entry, uint32_t index,
                          const tp_contribution *contribution, tp_fault *fault);
/** Adds fields to replace, copied; checked as for tp_call_replace(). */
tp_status tp__output_replace(tp__output *output, tp__arena *arena, const tp__entry *entry, uint32_t index,
                             const tp_field *fields, size_t count, tp_fault *fault);
/** Adds fields that were checked and copied. @return TP_ERR_NO_MEMORY, which stands in the output, too. */
tp_status tp__output_join(tp__output *output, tp__arena *arena, const tp_field *fields, uint32_t count);

/** Frees what tp_call_payload() made for the entry, whose handlers have all returned. */
void tp__call_payloads_free(tp__entry *entry);

#endif
