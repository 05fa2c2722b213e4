/* SPDX-License-Identifier: Apache-2.0
 *
 * request workload: handlers of model.request and model.response in driven sessions. The first leaves out messages and
 * tools, answers instead of the model, denies, fails or is late; the second replaces the text of each answer. A request
 * to a model has calls and results in pairs, and no event contains the removed text. */
#ifndef SIM_REQUEST_WORK_H
#define SIM_REQUEST_WORK_H

#include "turn_work.h"

/** What the model says, and what is left of it. */
#define REQUEST_WORK_SAID "as the model says"
#define REQUEST_WORK_LEFT "as the filter says"

/** Plays the handler of model.request for a session. @param delay_ns  before it answers. */
tp_answer request_work_rewrite(turn_work *d, tp_call *call, int64_t delay_ns);
/** The handler of model.response. */
tp_answer request_work_filter(tp_call *call);
/** Checks a request to a model: each call has its result directly after its message, in order. */
void request_work_check(world *w, const tp_model_request *request);
/** What a listener is shown. */
void request_work_check_event(world *w, const tp_event *event);

#endif
