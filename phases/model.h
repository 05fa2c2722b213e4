/* SPDX-License-Identifier: Apache-2.0
 *
 * model: reads the structs that a host fills for models and tools, each by its struct_size, and refuses what is not of
 * this library. Owns nothing, has no lock; any thread. */
#ifndef TP__MODEL_H
#define TP__MODEL_H

#include "runtime/base/base.h"
#include "runtime/inbox/inbox.h"
#include "turnphase/model.h"

/** @param theirs       not NULL.
 *  @param inbox_owner  whose its inbox must be: tp__inbox_is_of().
 *  @return TP_OK; TP_ERR_VERSION; TP_ERR_USAGE without start and inbox, or with both. */
tp_status tp__model_read(const tp_model *theirs, const void *inbox_owner, tp_model *ret_model, tp_fault *fault);
/** A model that was read is taken: keeps its inbox. */
void tp__model_take(const tp_model *model);
/** The end of a model that was taken; accepts a zero-filled one. Inside of the runtime's frame, without any lock. */
void tp__model_drop(const tp_model *model);
/** What is read below is that of a struct of this library's size; the texts stay where they are.
 *  @return TP_OK; TP_ERR_VERSION; TP_ERR_USAGE for NULL and for a field that must not be set. */
tp_status tp__tool_call_read(const tp_tool_call *theirs, tp_tool_call *ret_call, tp_fault *fault);
/** The calls of the message are read too, to be refused here, but stay the caller's. TP_ERR_USAGE also for a role that
 *  is none of ours. */
tp_status tp__message_read(const tp_message *theirs, tp_message *ret_message, tp_fault *fault);
/** The same of the response's calls. */
tp_status tp__response_read(const tp_model_response *theirs, tp_model_response *ret_response, tp_fault *fault);

#endif
