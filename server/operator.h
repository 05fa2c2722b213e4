/* SPDX-License-Identifier: Apache-2.0
 *
 * operator: routes for the operators of a server: /metrics and, with a key of its own, /admin. A separate thread
 * answers them, since a store may be slow, and the thread of the connections must not wait. At most WAITING_MAX
 * requests wait for it; further ones are refused.
 *
 * Locks: the server's lock, for each list of this module; no function of the runtime is called under it. */
#ifndef TP__SERVER_OPERATOR_H
#define TP__SERVER_OPERATOR_H

#include "server/server.h"

typedef struct tp__operator tp__operator;

/** A request of an operator, which its route reads on the thread of the operators. */
typedef struct tp__operator_request {
  struct tp__operator_request *next;
  tp__http_request *request; /* the route ends it */
  tp__operator_fn answer;
  tp__bytes body;
  bool open_metrics; /* set when its header Accept prefers OpenMetrics */
} tp__operator_request;

/** Starts the thread, and the counting. */
tp_status tp__operator_start(tp_server *server, tp_fault *fault) TP_MUST_USE;
/** Ends the counting: after the events that are under way no event comes to the server. */
void tp__operator_unlisten(tp_server *server);
/** Ends the thread after all waiting requests are answered. Called after the front has ended. */
void tp__operator_stop(tp_server *server);
/** Accepts NULL. */
void tp__operator_free(tp__operator *operators);

/** Whether a request may be answered: it has the operators' key, no other site made it, and it names this machine if
 *  the server listens for this machine only.
 *  @param reads_only  without an operators' key, a request from this machine is admitted where clients need no key. */
bool tp__operator_admit(const tp_server *server, const tp__http_request *request, bool reads_only,
                        tp__refusal *refusal);
/** Passes the request to the thread. On the front's thread. */
void tp__operator_pass(tp_server *server, tp__http_request *request, tp__operator_fn answer);

/** The routes. */
void tp__operator_metrics(tp_server *server, tp__operator_request *request);

/* ---- page.c ---- */

/** Makes the page of operators, and the policy by which a browser runs only the page's own script and style. Without
 *  memory `failed` is set. */
void tp__page_make(tp__bytes *page, tp__bytes *policy);
/** Answers with the page. Runs on the front's thread. */
void tp__page_answer(tp_server *server, tp__http_request *request);

#endif
