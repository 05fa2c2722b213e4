/* SPDX-License-Identifier: Apache-2.0
 *
 * model: reads the structs that a host fills for models and tools, each by its struct_size, and refuses structs with
 * invalid or unknown members. Owns nothing, has no lock; any thread. */
#ifndef TP__MODEL_H
#define TP__MODEL_H

#include "runtime/base/base.h"
#include "runtime/inbox/inbox.h"
#include "turnphase/model.h"

/** @param theirs       not NULL.
 *  @param inbox_owner  the owner that its inbox must have: tp__inbox_is_of().
 *  @return TP_OK; TP_ERR_VERSION; TP_ERR_USAGE when it has neither start nor inbox, or both. */
tp_status tp__model_read(const tp_model *theirs, const void *inbox_owner, tp_model *ret_model, tp_fault *fault);

enum { TP__FALLBACKS_MAX = 16 };

/** A model and its fallbacks, in the order in which they are asked. */
typedef struct tp__models {
  tp_model first;   /* neither start nor inbox: none */
  tp_model *others; /* NULL: none */
  size_t other_count;
  struct tp__destroy *destroys[TP__FALLBACKS_MAX + 1]; /* for models with an inbox: used instead of a call of destroy */
} tp__models;

/** Checks whether the models of a session or agent may be taken over.
 *  @param first     NULL: none.
 *  @param config    the struct's name, for the fault.  @return as tp__model_read(); TP_ERR_USAGE; TP_ERR_BAD_ID. */
tp_status tp__models_check(const char *config, const tp_model *first, const tp_model *const *others, size_t count,
                           const void *inbox_owner, tp_fault *fault);
/** Copies models that were checked, and references their inboxes.
 *  @param of_session  the inbox that TP_INBOX_OF_SESSION means; NULL: not known yet.
 *  @param inside_of  the object that a thread is inside of while it calls destroy: compared, never followed.
 *  @return TP_OK; TP_ERR_NO_MEMORY: nothing was taken. */
tp_status tp__models_take(tp__models *models, const tp_allocator *allocator, const void *inside_of,
                          tp_inbox *of_session, const tp_model *first, const tp_model *const *others, size_t count);
/** A model that needs the inbox of a session; NULL: none of them does. */
const tp_model *tp__models_need_inbox(const tp__models *models);
/** The models stay their host's after all. Accepts zero-filled ones. */
void tp__models_untake(tp__models *models, const tp_allocator *allocator);
/** The end of the models: each is destroyed, once. Accepts zero-filled ones. Inside of the runtime's frame, without any
 *  lock. */
void tp__models_drop(tp__models *models, const tp_allocator *allocator);
/** @param index  0: the first; above other_count: not allowed. */
static inline const tp_model *tp__models_at(const tp__models *models, size_t index) {
  return index == 0 ? &models->first : &models->others[index - 1];
}
/** Whose breaker counts; may be NULL. */
static inline const char *tp__model_provider(const tp_model *model) {
  return model->provider ? model->provider : model->name;
}

/** These functions read a host's struct into one of this library's size; the texts are not copied.
 *  @return TP_OK; TP_ERR_VERSION; TP_ERR_USAGE for NULL and for a field that must not be set. */
tp_status tp__tool_call_read(const tp_tool_call *theirs, tp_tool_call *ret_call, tp_fault *fault);
/** Reads a message. Its calls are read, too, so that wrong ones are refused here; but they stay in the caller's memory.
 *  TP_ERR_USAGE also for an unknown role. */
tp_status tp__message_read(const tp_message *theirs, tp_message *ret_message, tp_fault *fault);
/** The same of the response's calls. */
tp_status tp__response_read(const tp_model_response *theirs, tp_model_response *ret_response, tp_fault *fault);
/** Sets the fields that the provider left out: finish and finish_word by stop_reason, and TOOL_CALLS when there are
 *  calls. */
void tp__response_finish(tp_model_response *response);

#endif
