/* SPDX-License-Identifier: Apache-2.0
 *
 * held_answer: delivers an answer to listeners: its pieces, and its end. If a handler of model.response may replace or
 * deny the text, nothing of it is delivered before that phase has ended. Then the text is delivered as the phase left
 * it, as one piece, followed by the end of the answer. If the phase fails or denies, no text is delivered. For the
 * turn's owner; no lock. */
#ifndef TP__HELD_ANSWER_H
#define TP__HELD_ANSWER_H

#include "phases/drive/steps.h"

/** Exists for one request, until model.response has ended. In the drive's arena. */
typedef struct tp__held {
  bool any_text;    /* a piece of the answer came */
  tp_text thinking; /* the pieces that came */
  size_t thinking_capacity;
  int64_t started_ns, ended_ns; /* of the request; 0: none was made */
} tp__held;

/** Called before a request: holds its answer back if a handler may replace it. @return false without memory. */
bool tp__held_begin(tp__drive *drive);
/** tp__model_call.on_delta. */
void tp__held_delta(tp__model_call *call, tp_text text, bool thinking);
/** The request has ended. @param response NULL: it failed. @param word the provider's own word for the end. */
void tp__held_end(tp__drive *drive, tp_status status, const tp_model_response *response, tp_text word,
                  int64_t started_ns, int64_t ended_ns);
/** The turn has stopped: the held text is not delivered, and the turn keeps none of it. */
void tp__held_drop(tp__drive *drive, tp_status status);
/** The model's thinking for the current answer; may be empty. */
tp_text tp__held_thinking(const tp__drive *drive);

#endif
