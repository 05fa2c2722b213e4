/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_worker: programs that keep running. A hook of kind worker has one program, started with its first request, and
 * again after it has ended. Requests go to it as numbered frames, several at a time, and replies may come in any order.
 * hook_worker.c owns the program and its open requests, and decides when the program may be started again. One lock
 * guards these three; only functions of the process loop are called under it. When the program dies, its open requests
 * fail (TP_REASON_CRASH). */
#ifndef TP__DECLARED_HOOK_WORKER_H
#define TP__DECLARED_HOOK_WORKER_H

#include "domains/declared/hook.h"

/** Made with the hook. @return NULL without memory. */
tp__worker *tp__worker_new(const tp__hook *hook);
/** Called at the end of the hooks, when no program runs any more. Accepts NULL. */
void tp__worker_free(tp__worker *worker);
/** The handler's function of such a hook. */
tp_answer tp__worker_run(tp__worker *worker, tp_call *call);
/** Called with the handler's end: gives the program end-of-file and a moment, then ends it. Waits for that, except on
 *  the thread of the process loop. */
void tp__worker_stop(tp__worker *worker);

#endif
