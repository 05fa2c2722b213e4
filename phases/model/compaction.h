/* SPDX-License-Identifier: Apache-2.0
 *
 * compaction: shortens a history: finds which of its turns fit, and makes the request for a summary of the others. Pure
 * functions; compaction_step.c has the step of a turn that uses them. */
#ifndef TP__COMPACTION_H
#define TP__COMPACTION_H

#include "phases/model/messages.h"
#include "turnphase/turn.h"

int64_t tp__messages_tokens(const tp_message *const *messages, size_t count);
/** The index at which the newest turns that fit into this many tokens begin. Only whole turns count, so that no call is
 *  separated from its result.
 *  @return count when not even the newest one fits. */
size_t tp__compaction_kept_from(const tp_message *const *messages, size_t count, int64_t tokens_max);
/** The same for half of what a history may hold, so that the history is not compacted again at once. Keeps at least the
 *  newest turn, if it fits at all. */
size_t tp__compaction_kept_half(const tp_message *const *messages, size_t count, int64_t tokens_max);
/** Whether the messages of a new history have a call without its result, or a result without its call.
 *  @return TP_OK; TP_ERR_MALFORMED with a fault that names the message by its index. */
tp_status tp__compaction_check(const tp_message *const *messages, size_t count, tp_fault *fault);
/** The text from which the model makes a summary of messages, of at most bytes_max. If the messages need more, the
 *  oldest are left out, and the text says so. @return an empty text without memory. */
tp_text tp__compaction_transcript(tp__arena *arena, const tp_message *const *messages, size_t count, size_t bytes_max);

#endif
