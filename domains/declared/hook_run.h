/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_run: the handler of a declared hook, and the match of its subscription. */
#ifndef TP__DECLARED_HOOK_RUN_H
#define TP__DECLARED_HOOK_RUN_H

#include "domains/declared/hook.h"

/** The handler's function and its destroy. ctx is a tp__hook; its hooks hold a reference for the handler. */
tp_answer tp__hook_run(void *ctx, tp_call *call);
void tp__hook_destroy(void *ctx);
/** The parts of a match that tp_match cannot express: the protocol, the environment, the arguments. ctx is a
 *  tp__hook. */
bool tp__hook_has_matches(const tp__hook *hook);
int32_t tp__hook_matches(void *ctx, const tp_match_view *view);

#endif
