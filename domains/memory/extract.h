/* SPDX-License-Identifier: Apache-2.0
 *
 * extract: has the domain's model extract facts from what a turn said. Blocks for as long as the model takes. */
#ifndef TP__MEMORY_EXTRACT_H
#define TP__MEMORY_EXTRACT_H

#include "domains/memory/memory.h"
#include "turnphase/handler.h"

/** What a turn said. */
typedef struct tp__memory_said {
  tp__memory memory; /* session, turn, time and the user's words */
  tp_text answer;    /* the assistant's */
} tp__memory_said;

/** Asks, checks and keeps. Emits the audit memory.facts. Nothing is kept when it fails.
 *  @param ret_again  whether the same may succeed later.
 *  @return TP_OK; what the model or the store says; TP_ERR_MALFORMED for an answer that is not as asked. */
tp_status tp__memory_extract_facts(tp__memory_domain *domain, tp_call *call, const tp__memory_scope *scope,
                                   const tp__memory_said *said, bool *ret_again);

#endif
