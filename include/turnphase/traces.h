/* SPDX-License-Identifier: Apache-2.0
 *
 * traces.h: the library turnphase-traces: spans of turns, sent to a collector by OTLP over HTTP with JSON. It uses
 * libcurl; the core does not.
 *
 * A turn is one span with a child for each request to a model and each call of a tool; a nested turn is a child of the
 * call that runs it, in the same trace. Phases and handlers have spans in turns that did not complete or were slow, or
 * in all. Spans have names, numbers and times, and nothing that a person, a model or a tool said.
 *
 *   invoke_agent AGENT      the turn, from its begin to its end
 *   chat MODEL              a request to a model: tokens, how it ended
 *   execute_tool TOOL       a call: its id and its result's kind
 *   turnphase.phase PHASE   one run of a phase; its status, and who denied or failed
 *   turnphase.handler ID    one run of a handler: its state, its attempts
 *
 * Names and attributes follow OpenTelemetry's conventions for generative AI, version 1.41; further ones begin with
 * "turnphase.". A trace goes on where a client's W3C header traceparent says so (tp_traces_begin()), and
 * tp_traces_parent() makes the header for requests that a turn sends to other services (tp_openai_options.traceparent).
 *
 * No turn waits for the collector. Spans of ended turns wait in a queue with a bound; what does not fit, and what the
 * collector refuses for good, is dropped and counted. One thread sends them; it is started by tp_traces_open(). */
#ifndef TURNPHASE_TRACES_H
#define TURNPHASE_TRACES_H

#include "turnphase/turn.h"

TP_BEGIN_DECLS

typedef struct tp_traces tp_traces;

/** Zero means default. Strings are copied. */
typedef struct tp_traces_options {
  size_t struct_size;
  /** Where spans are sent, such as "http://127.0.0.1:4318/v1/traces". Required; http or https. Redirects are not
   *  followed. */
  const char *url;
  /** Further headers, "Name: value", ended by NULL; or NULL. */
  const char *const *headers;
  /** The attribute service.name; NULL: "turnphase". */
  const char *service;
  /** How many of 1,000 turns are traced, where no client has decided it; 0: all; below 0: none. */
  int32_t sampled_of_1000;
  /** Turns that lasted longer have spans of their phases and handlers, too; 0: 10,000; below 0: all turns. */
  int32_t slow_ms;
  /** The conventions of names and attributes: 0 or 41 (OpenTelemetry 1.41). */
  uint32_t conventions;
  /** Pause before an incomplete batch is sent; 0: 1,000. */
  uint32_t pause_ms;
  /** Bytes of spans that wait; 0: 8,388,608. */
  size_t queue_bytes_max;
  uint32_t reserved_;
  /** Limit of one request; 0: 10,000. */
  uint32_t limit_ms;
  /** Receives one line without a newline: at the first failure, and when spans arrive again. NULL: no lines. Called on
   *  the sending thread. */
  void (*log)(void *ctx, const char *line);
  void *log_ctx;
} tp_traces_options;

/** How many spans were sent, dropped or wait. struct_size is set by the caller. */
typedef struct tp_traces_stats {
  size_t struct_size;
  /** Spans that the collector has taken. */
  uint64_t sent;
  /** Spans that were dropped: the queue was full, there was no memory, the collector refused them or the end came. */
  uint64_t dropped;
  /** Requests that failed, also those that were repeated. */
  uint64_t failures;
  /** Spans that wait. */
  uint64_t waiting;
} tp_traces_stats;

/** Listens to all turns of a runtime that begin from now on.
 *  @param runtime  kept until tp_traces_close().
 *  @return TP_OK; TP_ERR_USAGE for a URL or a header that is none, a sample above 1,000, conventions that it does not
 *          know; TP_ERR_NO_THREAD; TP_ERR_NO_MEMORY; TP_ERR_VERSION.   Threads: any. */
TP_API tp_status tp_traces_open(tp_runtime *runtime, const tp_traces_options *options, tp_traces **ret_traces,
                                tp_fault *fault) TP_MUST_USE;
/** Passes the traceparent that a client has sent with the request for a turn, before the turn is submitted. The turn
 *  then continues the client's trace, and is traced or not as the sampled flag says. A text that is no traceparent of
 *  W3C Trace Context is ignored, as this standard demands. Headers of turns that have not begun are kept for the newest
 *  4,096 of them.
 *  @param ids          by TP_ID_*: those of tenant, session and turn are read.
 *  @param traceparent  "00-" 32 digits "-" 16 digits "-" 2 digits.
 *  Accepts NULL traces.   Threads: any. */
TP_API void tp_traces_begin(tp_traces *traces, const tp_text *ids, uint32_t id_count, tp_text traceparent);
/** Makes the header for a request that a turn sends to another service. Its parent is the turn's newest request to a
 *  model that has not ended, else the turn.
 *  @param ids       as in tp_traces_begin().
 *  @param ret_text  55 characters and a NUL; "" without a trace.
 *  @return whether the turn has a trace. A turn that is not sampled has none.   Accepts NULL traces.   Threads: any. */
TP_API bool tp_traces_parent(tp_traces *traces, const tp_text *ids, uint32_t id_count, char ret_text[56]);
/** Fills the counters. Threads: any. */
TP_API void tp_traces_stats_get(tp_traces *traces, tp_traces_stats *ret_stats);
/** Stops listening, sends what waits within limit_ms, drops the rest, and frees it. Before the runtime is freed; not
 *  from a callback. Accepts NULL.
 *  @param ret_stats  the counters at the end; NULL: not wanted.   Threads: any.   Blocks: limit_ms. */
TP_API void tp_traces_close(tp_traces *traces, uint32_t limit_ms, tp_traces_stats *ret_stats);

TP_END_DECLS
#endif
