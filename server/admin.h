/* SPDX-License-Identifier: Apache-2.0
 *
 * admin: the routes below /admin, on the thread of the operators. Without a key of operators there are none. Each
 * change by an operator has a row of the audit, with the owner "operator". */
#ifndef TP__SERVER_ADMIN_H
#define TP__SERVER_ADMIN_H

#include "server/operator.h"

void tp__admin_state(tp_server *server, tp__operator_request *request);
void tp__admin_turns(tp_server *server, tp__operator_request *request);
void tp__admin_questions(tp_server *server, tp__operator_request *request);
void tp__admin_denials(tp_server *server, tp__operator_request *request);
void tp__admin_handlers(tp_server *server, tp__operator_request *request);
void tp__admin_breakers(tp_server *server, tp__operator_request *request);
void tp__admin_jobs(tp_server *server, tp__operator_request *request);
void tp__admin_plan(tp_server *server, tp__operator_request *request);
void tp__admin_cancel(tp_server *server, tp__operator_request *request);
void tp__admin_answer(tp_server *server, tp__operator_request *request);
void tp__admin_redrive(tp_server *server, tp__operator_request *request);
void tp__admin_discard(tp_server *server, tp__operator_request *request);
void tp__admin_trip(tp_server *server, tp__operator_request *request);
void tp__admin_drain(tp_server *server, tp__operator_request *request);
/** Answers with the stream of events. Runs on the front's thread, since it never waits. */
void tp__admin_events(tp_server *server, tp__http_request *request);

/** Adds the state of a server as one JSON object, as GET /admin/state has it. Threads: any. */
void tp__admin_put_state(tp_server *server, tp__bytes *out);

#endif
