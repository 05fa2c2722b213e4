/* SPDX-License-Identifier: Apache-2.0
 *
 * conversation: the messages of a turn's request, used instead of its session's history. They are checked as a whole,
 * because a provider refuses a call without its result, and copied. Owns nothing, has no lock; any thread. */
#ifndef TP__CONVERSATION_H
#define TP__CONVERSATION_H

#include "phases/model/messages.h"

/** @return TP_OK; TP_ERR_VERSION; TP_ERR_USAGE, TP_ERR_UTF8, TP_ERR_MALFORMED, TP_ERR_TOO_LARGE with a fault that names
 *          the message by its index. */
tp_status tp__conversation_check(const tp_message *const *messages, size_t count, tp_fault *fault);
/** Copies messages that were checked. @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__conversation_copy(const tp_message *const *messages, size_t count, tp__messages *to);

#endif
