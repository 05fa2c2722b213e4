/* SPDX-License-Identifier: Apache-2.0
 *
 * task.h: for hosts that call tools without a conversation: jobs, pipelines, command lines. A task is a tool call in
 * two steps: tp_task_create() runs the gate of creation (tool.create, and the question to a person that it asks) and
 * keeps the call under a key only when it is allowed; tp_task_run() runs the rest (tool.rewrite, schema, tool.pre,
 * permission, the tool, tool.result, tool.post). tp_task_call() runs both. The tools, the policies and all gates are
 * those of a turn: each of these functions begins a turn of its own, without a session, and runs turn.pre_policy and
 * turn.pre_tool_materialization in it first. tp_task_submit() does any of the three without waiting.
 * tp_tool_submit_task() does so from a tool, for the session of its call. The library turnphase-tasks (tasks.h) offers
 * tasks to a model as tools.
 *
 * Tasks live as long as the runtime, at most TP_TASKS_MAX of them; with a store that keeps tasks (tp_store.task_put;
 * SQLite's does) they live as long as its file, and any process with this file may run them, once. A task is deleted
 * when its tool has been started, or by tp_task_discard(). A task whose run was denied or cancelled stays, and may be
 * run again. A task whose process died while it ran stays, too, but running it again is refused, since it is not known
 * how much of it was done.
 * Threads: any. */
#ifndef TURNPHASE_TASK_H
#define TURNPHASE_TASK_H

#include "turnphase/people.h"
#include "turnphase/turn.h"

TP_BEGIN_DECLS

enum tp_task_limits { TP_TASKS_MAX = 65536 };

/** What is done with a task. */
typedef enum tp_task_operation {
  TP_TASK_CREATE = 1, /* as tp_task_create() */
  TP_TASK_RUN = 2,    /* as tp_task_run() */
  TP_TASK_CALL = 3,   /* as tp_task_call() */
  TP_TASK_OPERATION_FORCE_32 = 0x7fffffff
} tp_task_operation;

/** The result of a task, or the notice that a person is asked about it. Made by the library. */
typedef struct tp_task_result {
  size_t struct_size;
  /** TP_OK: the gates of the task were asked, and kind is the outcome. Else the reason why they were not asked, as
   *  tp_task_create() and tp_task_run() return it. */
  tp_status status;
  /** TP_TOOL_OK: allowed and kept, or run; TP_TOOL_DENIED and the others: as of any call; TP_TOOL_NONE while a
   *  person is asked and where status is not TP_OK. */
  tp_tool_result_kind kind;
  /** Set when the tool was called. */
  bool started;
  /** Set when this is not the end: a person is asked, `question` is set, and the task waits for the answer. */
  bool asked;
  uint8_t reserved_[6];
  /** The key of the task, after create and run; empty: no task was kept. */
  tp_text key;
  /** For the caller: the answer of the tool, or the reason why it was not called. */
  tp_text text;
  /** The duration of the tool. */
  int64_t duration_ns;
  /** With asked: the question, with its key, its token for tp_question_answer(), and the call. Else NULL. */
  const tp_question *question;
  /** In the result of a submitted task whose status is not TP_OK: the fault. Else NULL. */
  const tp_fault *fault;
  /** Those of the tool's answer, as in tp_tool_result. */
  tp_text value, parts;
} tp_task_result;

/** Receives the result of a submitted task, or the notice that a person is asked about it. Borrowed until it returns.
 *  Threads: the one that owns the task's turn; it must not block. */
typedef void (*tp_task_fn)(void *ctx, const tp_task_result *result);

/** A call of a tool. Zero means default; copied. */
typedef struct tp_task_spec {
  size_t struct_size;
  /** The tool's name. */
  const char *tool;
  /** Value: a map; empty: one without members. */
  tp_text arguments;
  /** For tp_task_create(): 1–128 bytes, no white space or control; NULL: generated. */
  const char *key;
  /** A registered agent, whose scope limits the tools; NULL: none. */
  const char *agent;
  /** Caller, ids, mode, environment and limit_ms of the task's turn, as for tp_turn_begin_bare(). NULL: default. */
  const tp_turn_request *request;
  /** Called once with `asked` set, when a person is asked about the call, before the question is passed to the channel
   *  of the runtime (tp_runtime_options.ask). A task that has on_asked needs no channel: without one the host answers
   *  the question by its token. NULL: only the channel gets the question. */
  tp_task_fn on_asked;
  void *on_asked_ctx;
  /** A session for which the task is created, run or called; it must stay open until the task has ended. The task's
   *  turn has the session's ids, agent, environment and people. The session's session.end lists the task
   *  (TP_FIELD_TASKS_SUMMARY), its tool and the files that it has changed. The turn is not in the session's queue: it
   *  runs at the same time as the session's turns. A run is in the scope of the session's agent, whichever agent the
   *  task was created for. TP_ERR_USAGE together with agent. NULL: none. */
  tp_session *session;
} tp_task_spec;

/** Begins a task and returns; the task goes on without a thread while it waits for a person, a token or a store.
 *  @param operation  TP_TASK_RUN reads the key, the request, the session and on_asked of the spec, and refuses the
 *                    other members, which were given when the task was created.
 *  @param on_end     required. Called once, also before this returns; the submission has ended when it has returned.
 *                    After a cancel the result's kind is TP_TOOL_CANCELLED, unless the task ended before.
 *  @param ret_submission  to cancel the task (tp_submission_cancel()) or to wait for its end (tp_submission_wait(),
 *                    whose ret_result must be NULL: the result is on_end's); ended by tp_submission_unref(). May be
 *                    NULL.
 *  @return TP_OK; TP_ERR_USAGE without on_end, for a wrong operation, a wrong spec, and in a runtime without engine
 *          workers; and what tp_task_create(), tp_task_run() and tp_task_call() return, except errors that are found
 *          only when the gates or the store are asked: these are the result's status. With anything but TP_OK on_end is
 *          not called. Threads: any.  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_task_submit(tp_runtime *runtime, tp_task_operation operation, const tp_task_spec *spec,
                                tp_task_fn on_end, void *ctx, tp_submission **ret_submission,
                                tp_fault *fault) TP_MUST_USE;

/** tp_task_submit() from a tool's function, for the session of its call, if it has one. The task's turn is nested in
 *  the call's turn (turn.h): it uses the registrations with which the call's turn began, ends at the latest with the
 *  call's deadline, and does not count against turns_max; turns nest four deep. A call that defers returns its permit,
 *  as with tp_tool_submit_turn(). To end the task when the call is cancelled, the host's tp_deferral.cancel calls
 *  tp_submission_cancel().
 *  @param spec  without session and agent, which are those of the call. With request NULL, caller, mode, environment,
 *               task and run are also those of the call's turn.
 *  @return as tp_task_submit(); TP_ERR_TOO_DEEP.
 *  Threads: that of the call, as long as its function runs; of an inbox, until its token is completed.  Blocks: no. */
TP_API tp_status tp_tool_submit_task(tp_tool_run *run, tp_task_operation operation, const tp_task_spec *spec,
                                     tp_task_fn on_end, void *ctx, tp_submission **ret_submission,
                                     tp_fault *fault) TP_MUST_USE;

/** Asks the gates of creation whether the call may be made, and keeps it if they allow it. Blocks: also while a person
 *  is asked. The calling thread runs the steps of the task.
 *  @param ret_result  freed by tp_task_result_free(); untouched when nothing was asked. May be NULL.
 *  @return whether the gates were asked: TP_OK and a result, whatever its kind; TP_ERR_USAGE (no tool, arguments that
 *          are no map, or from inside a handler or a callback), TP_ERR_BAD_ID, TP_ERR_DUPLICATE_ID for a key that is
 *          there (in a store: found when the gates have allowed it), the error of a store that does not keep it,
 *          TP_ERR_NOT_FOUND for an unknown agent, TP_ERR_FULL at TP_TASKS_MAX, TP_ERR_HOOK when the policies or
 *          tools could not be gathered, and what tp_turn_begin_bare() returns.
 *  Threads: any. */
TP_API tp_status tp_task_create(tp_runtime *runtime, const tp_task_spec *spec, const tp_task_result **ret_result,
                                tp_fault *fault) TP_MUST_USE;
/** Runs a task with the tool, arguments and agent with which it was created. Blocks.
 *  @param request  as in tp_task_spec; its caller may be another one than the creator's.
 *  @return as tp_task_create(); TP_ERR_NOT_FOUND for a key that is not there, TP_ERR_BUSY for one that is being run, or
 *          was when its process died; TP_ERR_STORE_CORRUPT for one whose arguments are not those that were allowed.
 *  Threads: any. */
TP_API tp_status tp_task_run(tp_runtime *runtime, const char *key, const tp_turn_request *request,
                             const tp_task_result **ret_result, tp_fault *fault) TP_MUST_USE;
/** Creates and runs a task in one step; nothing is kept. Blocks. @return as tp_task_create().
 *  Threads: any. */
TP_API tp_status tp_task_call(tp_runtime *runtime, const tp_task_spec *spec, const tp_task_result **ret_result,
                              tp_fault *fault) TP_MUST_USE;
/** Deletes a task. @return TP_OK; TP_ERR_NOT_FOUND; TP_ERR_BUSY while it is being run; a task that a store keeps is
 *          deleted also while another process runs it; that run goes on.
 *  Threads: any. */
TP_API tp_status tp_task_discard(tp_runtime *runtime, const char *key, tp_fault *fault) TP_MUST_USE;
/** Frees a result. Accepts NULL. Also after tp_runtime_free(). Threads: any. */
TP_API void tp_task_result_free(const tp_task_result *result);

TP_END_DECLS

#endif
