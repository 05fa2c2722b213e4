/* SPDX-License-Identifier: Apache-2.0
 *
 * extract: lets the domain's model extract facts from the texts of a turn. Blocks until the model has answered. */
#ifndef TP__MEMORY_EXTRACT_H
#define TP__MEMORY_EXTRACT_H

#include "domains/memory/memory.h"
#include "turnphase/handler.h"

/** The texts of a turn. */
typedef struct tp__memory_said {
  tp__memory memory; /* session, turn, time and the user's words */
  tp_text answer;    /* the assistant's answer */
} tp__memory_said;

/** Asks the model, checks its answer and keeps the facts. Emits the audit memory.facts. Nothing is kept when it fails.
 *  @param ret_again  whether the same may succeed later.
 *  @return TP_OK; what the model or the store returns; TP_ERR_MALFORMED for an answer of a wrong form. */
tp_status tp__memory_extract_facts(tp__memory_domain *domain, tp_call *call, const tp__memory_scope *scope,
                                   const tp__memory_said *said, bool *ret_again);

#endif
