/* SPDX-License-Identifier: Apache-2.0
 *
 * io: the one I/O thread of the process, and the requests that it carries out. It owns the libcurl multi handle and
 * every transfer. From tp__openai_io_submit() on, a request belongs to it. One mutex guards the data that other threads
 * use: the list of requests, the inbox, the count of models. No function of the core is called under it. */
#ifndef TP__OPENAI_IO_H
#define TP__OPENAI_IO_H

#include "providers/openai/rate.h"
#include "providers/openai/request.h"

/** A model, shared by its owner and its requests; freed with the last reference. */
typedef struct tp__openai_core {
  tp_model face;            /* the result of tp_openai_model_new(); the runtime copies it */
  tp__openai_config config; /* never changes */
  size_t refs;              /* under the mutex of io.c */
  /* the I/O thread's */
  int64_t not_before_ns; /* what the newest Retry-After said */
  tp__openai_rate requests, tokens;
} tp__openai_core;

/** Makes libcurl ready. @return TP_OK; TP_ERR_SYSTEM when it cannot be used. */
tp_status tp__openai_io_ready(void);
/** Counts a model, so that the I/O thread stays while there are models, and makes libcurl ready.
 *  @return TP_OK; TP_ERR_SYSTEM when libcurl cannot be used. */
tp_status tp__openai_io_join(void);
/** Ends the running requests of the model and drops its owner's reference. The last model ends the I/O thread and waits
 *  for it, unless this runs on that thread. */
void tp__openai_io_leave(tp__openai_core *core);

/** Carries out a request and completes its token. Starts the I/O thread when it does not run.
 *  @param body, names taken in every case.
 *  @return TP_OK; TP_ERR_NO_MEMORY, TP_ERR_NO_THREAD: then the caller must fail the token. */
tp_status tp__openai_io_submit(tp__openai_core *core, const tp_model_request *request, tp_token token, tp__bytes *body,
                               tp__openai_names *names);
/** Ends the request of the token, if there is one. */
void tp__openai_io_cancel(tp_token token);

/** Lets the I/O thread look at its requests. */
void tp__openai_io_wake(void);

void tp__openai_io_stats(tp_openai_stats *ret_stats);

#endif
