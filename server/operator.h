/* SPDX-License-Identifier: Apache-2.0
 *
 * operator: routes of those who operate a server: /metrics, and with a key of its own /admin. One thread answers them,
 * since a store may be slow, and the thread of the connections must not wait. At most WAITING_MAX requests wait for it;
 * more are refused.
 *
 * Locks: the server's own for each list of this module; nothing of the runtime is called under one. */
#ifndef TP__SERVER_OPERATOR_H
#define TP__SERVER_OPERATOR_H

#include "server/server.h"

typedef struct tp__operator tp__operator;

/** A request of an operator, as its route reads it on the thread of the operators. */
typedef struct tp__operator_request {
  struct tp__operator_request *next;
  tp__http_request *request; /* ended by the route */
  tp__operator_fn answer;
  tp__bytes body;
  bool open_metrics; /* its header Accept prefers OpenMetrics */
} tp__operator_request;

/** Starts the thread, and counts from here on. */
tp_status tp__operator_start(tp_server *server, tp_fault *fault) TP_MUST_USE;
/** Counts no more: no event of a turn comes to the server after the last one that is under way. */
void tp__operator_unlisten(tp_server *server);
/** Ends the thread when all that waits has been answered. After the front has ended. */
void tp__operator_stop(tp_server *server);
/** Accepts NULL. */
void tp__operator_free(tp__operator *operators);

/** Whether a request may be answered: it has the operators' key, no other site made it, and it names this machine where
 *  the server listens for this machine only.
 *  @param reads_only  without an operators' key the request may come from this machine, where clients need no key. */
bool tp__operator_admit(const tp_server *server, const tp__http_request *request, bool reads_only,
                        tp__refusal *refusal);
/** Passes the request to the thread. On the front's thread. */
void tp__operator_pass(tp_server *server, tp__http_request *request, tp__operator_fn answer);

/** Routes. */
void tp__operator_metrics(tp_server *server, tp__operator_request *request);

/* ---- page.c ---- */

/** Makes the page of operators, and the policy by which a browser runs its own script and style only. Without memory
 *  `failed` is set. */
void tp__page_make(tp__bytes *page, tp__bytes *policy);
/** Answers with it. On the front's thread. */
void tp__page_answer(tp_server *server, tp__http_request *request);

#endif
