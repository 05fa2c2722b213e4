/* SPDX-License-Identifier: Apache-2.0
 *
 * inbox.h: for hosts whose code runs on a thread of their own choice (Node, Lua, an event loop). A handler, tool or
 * model that names an inbox has no function: each call of it waits in the inbox as a tp_work until a thread of the
 * host takes it, and is answered through its token. No handler thread is used, and no callback is called.
 *
 *   poll(tp_inbox_fd(inbox)) -> tp_inbox_next(inbox, &work) -> read work->call    -> tp_token_complete(work->token, …)
 *                                                              read work->run     -> tp_tool_complete(work->token, …)
 *                                                              read work->request -> tp_model_complete(work->token, …)
 *
 * A listener that names an inbox receives its events in the same queue, in their order:
 *                                                              read work->event   -> tp_work_release(work)
 *
 * A thread that waits in a synchronous call (tp_turn_run, tp_phase_run, …) takes no work meanwhile: a host with one
 * thread uses the submit forms.
 *
 * Threads: any, at any time, unless a declaration says otherwise. Several threads may take from one inbox. */
#ifndef TURNPHASE_INBOX_H
#define TURNPHASE_INBOX_H

#include "turnphase/turn.h"

TP_BEGIN_DECLS

/** Options of an inbox. Zero means default. */
typedef struct tp_inbox_options {
  size_t struct_size;
  uint32_t capacity;       /* how much work may wait to be taken; 0: 1,024; at most 1,048,576 */
  uint32_t event_capacity; /* how many events may wait besides; 0: 1,024; at most 1,048,576. 65,536 more ends of
                                   turns may wait */
} tp_inbox_options;

/** Makes an inbox for handlers, tools, models and listeners of this runtime. It belongs to the process that makes it:
 *  in the child of a fork it must be left alone.
 *  @param options  borrowed; may be NULL.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_NO_MEMORY; TP_ERR_SYSTEM when the process has no
 *          descriptor left; TP_ERR_FORKED.
 *  Threads: any.
 *  From a hook: yes. */
TP_API tp_status tp_inbox_new(tp_runtime *runtime, const tp_inbox_options *options, tp_inbox **ret_inbox,
                              tp_fault *fault) TP_MUST_USE;

/** The descriptor to poll: readable while work or events wait (level-triggered; an eventfd). The host only polls it and
 *  never reads, writes or closes it. It stays the same until tp_inbox_free(). It costs one write when the first work
 *  comes into an empty inbox, and one read when the last is taken. Threads: any. */
TP_API int tp_inbox_fd(const tp_inbox *inbox);

/** The kind of work. A newer library may pass unknown values: abandon their token (tp_token_abandon()). */
typedef enum tp_work_kind {
  TP_WORK_HANDLER = 1, /* a call of a handler: call is set; answered by tp_token_complete() */
  TP_WORK_TOOL = 2,    /* a call of a tool: run is set; answered by tp_tool_complete() */
  TP_WORK_MODEL = 3,   /* a request to a model: request is set; answered by tp_model_delta(), any number of
                                   times, and then by tp_model_complete() or tp_model_fail() */
  TP_WORK_EVENT = 4,   /* an event: event is set, and token is 0; released by tp_work_release() */
  TP_WORK_KIND_FORCE_32 = 0x7fffffff
} tp_work_kind;

/** One piece of work, made by the library, which sets struct_size. An event may be read until it is released, also
 *  after its turn has ended and its runtime was freed. Any other work, and everything it points to, may be read until
 *  the token is completed or the runtime is freed, also when the attempt was abandoned (tp_token_open()): its memory
 *  stays until the token is completed, so each token that was taken must be completed once. One thread at a time uses a
 *  work. */
typedef struct tp_work {
  size_t struct_size;
  tp_work_kind kind;
  uint32_t reserved_; /* zero */
  tp_token token;     /* where the answer goes */
  void *ctx;          /* of the handler, tool, model or listener */
  /** All functions that read a tp_call may be used, and those that emit or replace: what was emitted before the token
   *  is completed belongs to the answer, before the contributions of tp_token_complete(). tp_call_defer() fails, since
   *  the attempt is deferred already; tp_call_allow(), tp_call_deny(), tp_call_ask() and tp_call_fail() have no
   *  effect. */
  tp_call *call;
  /** Functions that read a tp_tool_run may be used; tp_tool_ok(), tp_tool_error() and tp_tool_defer() have no
   *  effect. */
  tp_tool_run *run;
  const tp_model_request *request;
  const tp_event *event;
} tp_work;

/** Takes the work that has waited longest. Skips work whose attempt has ended, and events of a listener that was
 *  removed. The limit of an attempt counts from when it came into the inbox, not from when it was taken.
 *  @param ret_work  NULL when nothing waits.
 *  @return TP_OK; TP_ERR_USAGE without an inbox; TP_ERR_FORKED in the child of a fork.
 *  Threads: any.
 *  Blocks: no.  From a hook: yes. */
TP_API tp_status tp_inbox_next(tp_inbox *inbox, const tp_work **ret_work) TP_MUST_USE;

/** Releases an event that was taken; each exactly once. The inbox may have been freed.
 *  @return TP_OK; TP_ERR_USAGE for NULL and for work that has a token: complete that.
 *  Threads: any, at any time, also after tp_runtime_free().  Blocks: no.  From a hook: yes. */
TP_API tp_status tp_work_release(const tp_work *work);

/** Closes the inbox and its descriptor, which must not be polled any more. Work that was not taken fails (no_worker; a
 *  tool's call is shed), and so does every later attempt of a handler, tool or model that names the inbox. Work that
 *  was taken stays until its token is completed. Events that were not taken are dropped, and so are later ones. Accepts
 *  NULL. Call it before or after tp_runtime_free(), which does not free inboxes, and not while another thread is in a
 *  call of this inbox. In the child of a fork it does nothing.
 *  Threads: any.
 *  From a hook: yes. */
TP_API void tp_inbox_free(tp_inbox *inbox);

TP_END_DECLS
#endif
