/* SPDX-License-Identifier: Apache-2.0
 *
 * model_call: one request to a model provider, as an attempt that always answers through its token, for a provider's
 * function as well as for an inbox. Pieces of text that come faster than the turn's owner takes them are joined into
 * one event, unless the turn wants each piece. Lock: `model_call`, for those pieces. */
#ifndef TP__MODEL_CALL_H
#define TP__MODEL_CALL_H

#include "phases/session/session.h"

typedef struct tp__model_call tp__model_call;
struct tp__model_call {
  tp__attempt base;
  tp__turn *turn;                /* referenced: the memory of the request is the turn's */
  tp__past_view view;            /* what the request reads of the past */
  struct tp__made_request *made; /* the request, with a view of its own; NULL: the request belongs to the turn */
  tp__toolset *tools;            /* referenced, because the request shows them; NULL: it shows none */
  tp_session *session;           /* referenced: it has the history and the model; NULL: a handler asks */
  tp_model model;
  tp_model_request request;
  int64_t deadline_ns; /* the turn's */
  /* written by the thread that completes the token, read by the owner when the call has settled */
  tp__arena answer_arena;      /* begins after the call, in its block */
  tp_model_response response;  /* in answer_arena */
  tp_status failure;           /* TP_OK: response is set */
  const char *failure_message; /* in answer_arena; may be NULL */
  bool retryable;
  bool each_delta; /* never changes: pieces are not joined */
  bool delivers;   /* never changes: the thread that emits a piece may deliver it */
  /* under mutex */
  tp__mutex mutex;
  char *pieces; /* each piece is preceded by a uint64_t with its size and kind */
  size_t pieces_size, pieces_capacity;
  bool delta_pending;
  tp__message delta_message;
  /* atomic: a tp_hold, which the owner makes when a listener first holds the answer; NULL: no listener has */
  tp__aptr hold;
  /* the owner's */
  bool any_delta; /* of the answer: thinking is none */
  void (*on_delta)(tp__model_call *call, tp_text text, bool thinking);
  void (*on_note)(tp__model_call *call, tp_text key, tp_text text);
  /** Called once. status: TP_OK with call->response; the status of tp_model_fail(); TP_ERR_TIMEOUT, TP_ERR_CANCELLED,
   *  TP_ERR_NO_THREAD. */
  void (*on_end)(tp__model_call *call, tp_status status);
  void *ctx;
  size_t block_size;
};

/** @return NULL without memory. */
tp__model_call *tp__model_call_new(tp__turn *turn, tp__toolset *tools, tp_session *session, const tp_model *model,
                                   const tp_model_request *request);
/** Owner: starts the call; on_end is called, perhaps before this returns. Takes the call. */
void tp__model_call_start(tp__model_call *call);
/** Owner, while a piece is delivered: holds the answer back until tp_hold_release(). @return NULL without memory. */
tp_hold *tp__model_call_hold(tp__model_call *call);
/** Owner: the answer is no longer wanted: ends the call at once as cancelled. */
void tp__model_call_cancel(tp__model_call *call);

#endif
