/* SPDX-License-Identifier: Apache-2.0
 *
 * call: one request from its start to the completion of its token, as libcurl carries it out. It belongs to the I/O
 * thread, but for the fields that say otherwise. */
#ifndef TP__OPENAI_CALL_H
#define TP__OPENAI_CALL_H

#include "providers/openai/io.h"
#include "providers/openai/stream.h"

typedef enum tp__openai_call_state {
  TP__OPENAI_WAITS, /* for start_ns */
  TP__OPENAI_SENT,
  TP__OPENAI_ANSWERED, /* its token is completed; the transfer may end, so that its connection can be reused */
  TP__OPENAI_OVER      /* to be freed */
} tp__openai_call_state;

typedef struct tp__openai_call {
  /* never change */
  tp__openai_core *core; /* one reference */
  tp_token token;
  tp__bytes body;
  tp__openai_names names;    /* of tools that have another one there */
  char *model;               /* as it is sent */
  char traceparent[80];      /* a header; empty: none */
  struct curl_slist headers; /* that one, before those of the config */
  uint32_t attempt;
  int64_t deadline_ns; /* the turn's; INT64_MAX: none */
  /* under the mutex of io.c */
  struct tp__openai_call *previous, *next; /* in the list of all */
  struct tp__openai_call *next_new;        /* in the inbox */
  bool cancelled;
  /* the I/O thread's */
  struct tp__openai_call *next_active;
  tp__openai_call_state state;
  bool reserves; /* it holds one request and `tokens` of its model's rates, and is not sent */
  double tokens;
  bool gone; /* cancelled, as the I/O thread has seen it */
  CURL *easy;
  int64_t start_ns, sent_ns, connected_ns, byte_ns, answered_ns; /* 0: not yet */
  long status;                                                   /* 0: no head yet */
  int64_t paused_ns; /* since when the transfer is paused, since a listener holds the answer back; 0: it is not */
  bool reads;        /* stream is there */
  tp__openai_stream stream;
  tp_writer *given;  /* tp_model_response.provider_data; NULL: none yet */
  tp__bytes pieces;  /* of text, which the turn has not heard of: each after its size, a uint32_t, and its kind */
  tp__bytes refusal; /* the body of an answer that is none */
  tp__openai_failure failure;
  char curl_error[CURL_ERROR_SIZE];
  uint64_t *connections; /* counts those that are opened */
} tp__openai_call;

/** @param body, names  taken on success. @return NULL when there is no memory. */
tp__openai_call *tp__openai_call_new(tp__openai_core *core, const tp_model_request *request, tp_token token,
                                     tp__bytes *body, tp__openai_names *names);
/** Everything but the reference of core. */
void tp__openai_call_free(tp__openai_call *call);

/** When the request may be sent; or it fails, since that is too late. */
void tp__openai_call_plan(tp__openai_call *call, int64_t now_ns);
/** Takes the next step: sends, ends what passed a limit or was cancelled, completes what is answered. */
void tp__openai_call_step(tp__openai_call *call, CURLM *multi, int64_t now_ns);
/** When the next step must be taken; INT64_MAX: never. */
int64_t tp__openai_call_next_ns(const tp__openai_call *call);
/** libcurl is through with the transfer. */
void tp__openai_call_ended(tp__openai_call *call, CURLM *multi, CURLcode code, int64_t now_ns);
/** Ends it at once; the token is failed if it is not completed. */
void tp__openai_call_abort(tp__openai_call *call, CURLM *multi);

#endif
