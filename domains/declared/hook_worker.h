/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_worker: programs that stay. A hook of kind worker has one program, started with its first request and again
 * after it ended; requests go to it as frames with numbers, several in flight, and come back in any order.
 * hook_worker.c owns the program, its open requests and when it may be started again; one lock, of these three, under
 * which nothing is called but the process loop. A program that dies takes its open requests with it
 * (TP_REASON_CRASH). */
#ifndef TP__DECLARED_HOOK_WORKER_H
#define TP__DECLARED_HOOK_WORKER_H

#include "domains/declared/hook.h"

/** Made with the hook. @return NULL without memory. */
tp__worker *tp__worker_new(const tp__hook *hook);
/** For the end of the hooks: no program runs any more. Accepts NULL. */
void tp__worker_free(tp__worker *worker);
/** The handler's function of such a hook. */
tp_answer tp__worker_run(tp__worker *worker, tp_call *call);
/** With the handler: gives the program end-of-file and a moment, then ends it. Waits for that, but not on the thread of
 *  the process loop. */
void tp__worker_stop(tp__worker *worker);

#endif
