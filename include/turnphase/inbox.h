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
 * Everything else that such a host is notified of comes in the same queue, in its order, and is released:
 *
 *   an event of a listener that names the inbox                read work->event   -> tp_work_release(work)
 *   the end of what the host submitted (tp_end_new())          read work->end     -> tp_work_release(work)
 *   the cancel of a call that was taken                        read work->token   -> tp_work_release(work)
 *   the end of an object that names the inbox (destroy)        read work->ctx     -> tp_work_release(work)
 *
 * A host with several loops has an inbox for each, and names it in the sessions of that loop
 * (tp_session_options.inbox). What is registered once for all sessions names TP_INBOX_OF_SESSION: its work comes to the
 * inbox of the session whose turn it is. In a turn without such an inbox this code never runs, and nothing is allowed
 * because of that:
 *
 *   tp_session_open() of a session whose model names it       TP_ERR_USAGE
 *   tp_turn_run() and its like, a task of the session         TP_ERR_USAGE while a hook without a match names it
 *   a hook with a match, and turns of no session              the call fails (TP_REASON_NO_INBOX): a guard denies
 *   a tool of a session's turn                                the turn fails with TP_ERR_USAGE before its first request
 *   agent.build and its like, background jobs                 refused at the commit: they are of no session
 *
 * A task of a session (tp_task_spec.session) has that session's inbox. A detached run comes to the inbox of its turn's
 * session, also after that was closed. A nested turn is of its own session. `destroy` of what is registered for all
 * sessions is called as without an inbox.
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
  /** How many calls may wait to be taken; 0: as many as may be deferred (tp_runtime_options.deferred_max); at most
   *  1,048,576. A call that finds the inbox full waits in line, in the order of arrival, until its limit; it is not
   *  refused. */
  uint32_t capacity;
  /** How many events may wait in addition to the calls; 0: 1,024; at most 1,048,576. 65,536 more events TURN_END may
   *  wait. Ends, cancels and destroys need no space. */
  uint32_t event_capacity;
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
 *  comes into an empty inbox, and one read when the last is taken. A host that goes on to take work while new work
 *  comes may find the descriptor readable once with nothing to take. Threads: any. */
TP_API int tp_inbox_fd(const tp_inbox *inbox);

/** The kind of work. A newer library may pass unknown values: abandon the token, or release the work if it has none. */
typedef enum tp_work_kind {
  TP_WORK_HANDLER = 1, /* a call of a handler: call is set; answered by tp_token_complete() */
  TP_WORK_TOOL = 2,    /* a call of a tool: run is set; answered by tp_tool_complete() */
  TP_WORK_MODEL = 3,   /* a request to a model: request is set; answered by tp_model_delta(), any number of
                                   times, and then by tp_model_complete() or tp_model_fail() */
  TP_WORK_EVENT = 4,   /* an event: event is set, and token is 0; released by tp_work_release() */
  /** Something that was submitted with a tp_end has ended: end is set, ctx is that of tp_end_new(), and token is 0.
   *  Never lost: it needs no space in the inbox. Released by tp_work_release(). */
  TP_WORK_END = 5,
  /** The answer to a HANDLER, TOOL or MODEL that was taken is no longer wanted: its limit has passed, or it was
   *  cancelled. token and ctx are those of that work. It comes at most once for each of these, after it, and not when
   *  its token was completed before. The token must be completed or abandoned all the same: its memory stays until
   *  then. Never lost. Released by tp_work_release(). */
  TP_WORK_CANCEL = 6,
  /** A handler, hook, tool, model or listener that names this inbox and has a function `destroy` is not used any more:
   *  ctx is its own, and token is 0. Once for each, after its last use. tp_work_release() calls `destroy` with ctx, on
   *  its own thread. Never lost: tp_inbox_free() calls `destroy` for what was not taken, and after that `destroy` is
   *  called where the last use ends, as without an inbox. Either may come after tp_runtime_free(): then `destroy` must
   *  not use the runtime, which is gone. */
  TP_WORK_DESTROY = 7,
  TP_WORK_KIND_FORCE_32 = 0x7fffffff
} tp_work_kind;

/** What was submitted with a tp_end. */
typedef enum tp_end_kind {
  TP_END_TURN = 1,    /* turn is set: tp_turn_submit(), tp_call_submit_turn(), tp_tool_submit_turn() */
  TP_END_SESSION = 2, /* nothing is set: tp_session_close(), tp_session_close_with(), tp_session_end_phase_submit() */
  TP_END_PHASE = 3,   /* phase is set: tp_phase_submit() */
  TP_END_TOOLS = 4,   /* results and result_count are set: tp_tools_submit(), tp_tools_submit_borrowed() */
  TP_END_AGENT = 5,   /* agent is set: tp_agent_add_submit(), tp_agent_remove_submit() */
  TP_END_DRAIN = 6,   /* drain is set: tp_runtime_drain_submit() */
  TP_END_JOBS = 7,    /* jobs is set: tp_jobs_wait_submit() */
  TP_END_TASK = 8,    /* task is set: tp_task_submit(), its end or the notice of tp_task_spec.on_asked */
  TP_END_KIND_FORCE_32 = 0x7fffffff
} tp_end_kind;

/** How something that was submitted has ended. Made by the library, which sets struct_size. A copy: it and the texts in
 *  it may be read until the work is released. What a phase result points to, and the results of tools, live until
 *  tp_turn_end(), as when they are passed to a callback. Where memory was short, the texts of a turn's or a task's
 *  result and of its question are empty. */
typedef struct tp_work_end {
  size_t struct_size;
  tp_end_kind kind;
  uint32_t reserved_; /* zero */
  const tp_turn_result *turn;
  const tp_phase_result *phase;
  const tp_tool_result *const *results;
  size_t result_count;
  const tp_agent_result *agent;
  const tp_drain_report *drain;
  const tp_jobs_wait_result *jobs;
  const struct tp_task_result *task; /* task.h */
} tp_work_end;

/** One piece of work, made by the library, which sets struct_size. A HANDLER, TOOL or MODEL, and everything it points
 *  to, may be read until the token is completed or the runtime is freed, also when the attempt was abandoned
 *  (tp_token_open()): its memory stays until the token is completed, so each token that was taken must be completed
 *  once. Any other work may be read until it is released, also after its turn has ended and its runtime was freed, and
 *  each must be released once. One thread at a time uses a work. */
typedef struct tp_work {
  size_t struct_size;
  tp_work_kind kind;
  uint32_t reserved_; /* zero */
  tp_token token;     /* where the answer goes */
  void *ctx;          /* of the handler, tool, model or listener, or that of tp_end_new() */
  /** All functions that read a tp_call may be used, and those that emit or replace: what was emitted before the token
   *  is completed belongs to the answer, before the contributions of tp_token_complete(). tp_call_defer() fails, since
   *  the attempt is deferred already; tp_call_allow(), tp_call_deny(), tp_call_ask() and tp_call_fail() have no
   *  effect. */
  tp_call *call;
  /** Functions that read a tp_tool_run may be used; tp_tool_ok(), tp_tool_error(), tp_tool_answer_with() and
   *  tp_tool_defer() have no effect. */
  tp_tool_run *run;
  const tp_model_request *request;
  const tp_event *event;
  const tp_work_end *end;
} tp_work;

/** Takes the work that has waited longest. Skips work whose attempt has ended, cancels of tokens that were completed,
 *  and events of a listener that was removed. The limit of an attempt counts from when it came into the inbox, not from
 *  when it was taken.
 *  @param ret_work  NULL when nothing waits.
 *  @return TP_OK; TP_ERR_USAGE without an inbox; TP_ERR_FORKED in the child of a fork.
 *  Threads: any.
 *  Blocks: no.  From a hook: yes. */
TP_API tp_status tp_inbox_next(tp_inbox *inbox, const tp_work **ret_work) TP_MUST_USE;

/** Takes the work that has waited longest, and what follows, at most `max` pieces: as tp_inbox_next() in a loop.
 *  @param works      max pointers, of which *ret_count are set. May be NULL when max is 0.
 *  @return as tp_inbox_next(); TP_ERR_USAGE without works or ret_count.
 *  Threads: any.
 *  Blocks: no.  From a hook: yes. */
TP_API tp_status tp_inbox_take(tp_inbox *inbox, const tp_work **works, size_t max, size_t *ret_count) TP_MUST_USE;

/** Releases work that was taken and is not answered: an EVENT, END, CANCEL or DESTROY, each exactly once. For a
 *  DESTROY it calls `destroy`. The inbox may have been freed.
 *  @return TP_OK; TP_ERR_USAGE for NULL, and for a HANDLER, TOOL or MODEL: complete its token.
 *  Threads: any, at any time, also after tp_runtime_free().  Blocks: no.  From a hook: yes. */
TP_API tp_status tp_work_release(const tp_work *work);

/** Closes the inbox and its descriptor, which must not be polled any more. Work that was not taken fails (no_worker; a
 *  tool's call is shed), and so does every later attempt of a handler, tool or model that names the inbox. Work that
 *  was taken stays until its token is completed. Events, ends and cancels that were not taken are dropped, and so are
 *  later ones. The functions `destroy` of DESTROY works that were not taken are called, on this thread. Accepts NULL.
 *  Call it before or after tp_runtime_free(), which does not free inboxes, and not while another thread is in a call of
 *  this inbox. A host that needs every end frees it after the runtime. In the child of a fork it does nothing.
 *  Threads: any.
 *  From a hook: yes. */
TP_API void tp_inbox_free(tp_inbox *inbox);

/* ---- ends ------------------------------------------------------------------------------------------------------- */

/** The end of one thing that a host submits. It is made before, passed as ctx together with the tp_end_of_… function
 *  that has the type of on_end, and comes back once as a TP_WORK_END:
 *
 *    tp_end_new(inbox, client, &end, fault);
 *    status = tp_turn_submit(session, &request, tp_end_of_turn, end, &submission, fault);
 *    if (status != TP_OK) tp_end_free(end);
 *
 *  Every turn whose submit returned TP_OK has its one end there, also a turn that never began: it was cancelled, or its
 *  limit passed, while it waited in the queue of its session or for its admission. When the work can be taken, the
 *  submission has ended (tp_submission_wait() with 0 returns the result), the id of a closed session may be opened
 *  again, and the events of the turn come before it in the same inbox. */
typedef struct tp_end tp_end;

/** Makes an end. It holds the memory that its work needs, so that the work comes also when memory is short; only the
 *  texts of a turn's result are copied later.
 *  @param inbox  where the work will come; kept until then.
 *  @param ctx    the work's ctx.
 *  @return TP_OK; TP_ERR_USAGE without inbox or ret_end; TP_ERR_NO_MEMORY; TP_ERR_FORKED.
 *  Threads: any.  Blocks: no.  From a hook: yes. */
TP_API tp_status tp_end_new(tp_inbox *inbox, void *ctx, tp_end **ret_end, tp_fault *fault) TP_MUST_USE;

/** Frees an end whose submit failed, or that was never submitted. Never one whose work has come or will come: that is
 *  freed by tp_work_release(). Accepts NULL. Threads: any. */
TP_API void tp_end_free(tp_end *end);

/** The on_end of a submit whose ctx is a tp_end: puts its work into the inbox. A host may also call it in an on_end of
 *  its own, once for each end. In a freed inbox the end is dropped, and freed.
 *  @param end  a tp_end; its work has come when the function returns, or, called by the library, a moment later, when
 *              the submission has ended.
 *  Threads: any.  Blocks: no.  From a hook: yes. */
TP_API void tp_end_of_turn(void *end, const tp_turn_result *result);
/** As tp_end_of_turn(), for the close of a session and for the end of a logical phase of it. Threads: any. */
TP_API void tp_end_of_session(void *end);
/** The same for a submitted phase. Threads: any. */
TP_API void tp_end_of_phase(void *end, const tp_phase_result *result);
/** The same for submitted tool calls. Threads: any. */
TP_API void tp_end_of_tools(void *end, const tp_tool_result *const *results, size_t count);
/** The same for an agent that is added or removed. Threads: any. */
TP_API void tp_end_of_agent(void *end, const tp_agent_result *result);
/** The same for a drain. Threads: any. */
TP_API void tp_end_of_drain(void *end, const tp_drain_report *report);
/** The same for a wait for jobs. Threads: any. */
TP_API void tp_end_of_jobs(void *end, const tp_jobs_wait_result *result);
/** The same for a submitted task. As tp_task_spec.on_asked, with another tp_end, it delivers the question of the task:
 *  a host frees that one by tp_end_free() when the task ended without a question. Threads: any. */
TP_API void tp_end_of_task(void *end, const struct tp_task_result *result);

TP_END_DECLS
#endif
