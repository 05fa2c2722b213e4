/* SPDX-License-Identifier: Apache-2.0
 *
 * call: what a handler sees and does (handler.h: tp_call), and the data of its answer. Used on the thread that runs the
 * handler. It takes no lock, except when a payload is read (call_payload.c). */
#ifndef TP__CALL_H
#define TP__CALL_H

#include "runtime/exec/entry.h"

/** The answer after the handler's function has returned, with the reason and code that the call has stored for this
 *  kind. */
tp__answer tp__call_answer(const tp_call *call, tp_answer kind);
/** Checks one contribution against the kinds that the node may emit, and adds a deep copy of it. A refusal is kept in
 *  the output. fault may be NULL. */
tp_status tp__output_emit(tp__output *output, tp__arena *arena, tp__entry *entry, uint32_t index,
                          const tp_contribution *contribution, tp_fault *fault);
/** Adds fields to replace, copied; checked as for tp_call_replace(). */
tp_status tp__output_replace(tp__output *output, tp__arena *arena, const tp__entry *entry, uint32_t index,
                             const tp_field *fields, size_t count, tp_fault *fault);
/** Adds fields that were checked and copied. @return TP_ERR_NO_MEMORY, which is also kept in the output. */
tp_status tp__output_join(tp__output *output, tp__arena *arena, const tp_field *fields, uint32_t count);

/** Frees the payloads that tp_call_payload() made for the entry. All its handlers have returned. */
void tp__call_payloads_free(tp__entry *entry);

#endif
