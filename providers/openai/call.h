/* SPDX-License-Identifier: Apache-2.0
 *
 * call: one request from its start to the completion of its token, as libcurl carries it out. It belongs to the I/O
 * thread, except fields with another comment. */
#ifndef TP__OPENAI_CALL_H
#define TP__OPENAI_CALL_H

#include "providers/openai/io.h"
#include "providers/openai/stream.h"

typedef enum tp__openai_call_state {
  TP__OPENAI_WAITS, /* for start_ns */
  TP__OPENAI_SENT,
  /* its token is completed; the transfer may still end regularly, so that its connection can be reused */
  TP__OPENAI_ANSWERED,
  TP__OPENAI_OVER /* to be freed */
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
  bool reserves; /* it has reserved one request and `tokens` of its model's rates, and is not sent yet */
  double tokens;
  bool gone; /* cancelled, as the I/O thread has seen it */
  CURL *easy;
  int64_t start_ns, sent_ns, connected_ns, byte_ns, answered_ns; /* 0: not yet */
  long status;                                                   /* 0: no head yet */
  int64_t paused_ns; /* when the transfer was paused because a listener holds the answer back; 0: not paused */
  bool reads;        /* stream is there */
  tp__openai_stream stream;
  tp_writer *given; /* for tp_model_response.provider_data; NULL: none yet */
  /* of text that the turn has not received yet; each is preceded by its size (a uint32_t) and its kind */
  tp__bytes pieces;
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

/** Decides when the request may be sent; fails it if that is too late. */
void tp__openai_call_plan(tp__openai_call *call, int64_t now_ns);
/** Takes the next step: sends the request, ends it when it passed a limit or was cancelled, or completes the token when
 *  it is answered. */
void tp__openai_call_step(tp__openai_call *call, CURLM *multi, int64_t now_ns);
/** When the next step must be made; INT64_MAX: never. */
int64_t tp__openai_call_next_ns(const tp__openai_call *call);
/** libcurl is through with the transfer. */
void tp__openai_call_ended(tp__openai_call *call, CURLM *multi, CURLcode code, int64_t now_ns);
/** Ends the request at once; fails the token if it is not completed. */
void tp__openai_call_abort(tp__openai_call *call, CURLM *multi);

#endif
