/* SPDX-License-Identifier: Apache-2.0
 *
 * task.c: the run of a task: a turn without session. It collects policies and tools, and dispatches one call; the turn
 * says which steps of the call are made. The store keeps the outcome. The end of each step begins the next one, on the
 * owner of the turn: the caller of a synchronous function, or an engine worker. */
#include "turnphase/task.h"

#include <stdio.h>

#include "phases/turn/agent.h"
#include "phases/turn/end.h"
#include "phases/turn/people.h"
#include "phases/session/session.h"
#include "phases/session/sessions.h"
#include "phases/turn/store_call.h"
#include "phases/turn/submission.h"
#include "phases/tools/task.h"
#include "phases/tools/tool_call.h"
#include "runtime/base/bug.h"
#include "runtime/value/value.h"

/** One run of a task, from its beginning until its end was reported. */
typedef struct task_work {
  /* never change after the begin */
  tp_runtime *runtime;
  tp_turn *turn;
  tp_submission *submission; /* NULL: the caller of a synchronous function waits */
  tp_task_fn on_end, on_asked;
  void *ctx, *on_asked_ctx;
  char key[TP_ID_BYTES_MAX + 1]; /* of a task that is the store's */
  /* the owner's */
  bool is_stored; /* the task is in the store, and not in the table */
  tp__task *task; /* NULL: the store has not given it yet */
  tp__task_view view;
  tp__phase_run phase;
  tp_field called; /* of turn.pre_tool_materialization */
  tp_tool_call call;
  const tp_tool_call *calls[1];
  tp_tool_result came;
  tp__dispatch *dispatch; /* has ended; holds the texts of `came`; NULL: the call was not dispatched */
  bool kept;              /* the task may be run later */
  bool done;
  tp_status status;
  tp_fault fault;
} task_work;

static const tp_allocator *allocator_of(const task_work *w) { return tp__runtime_allocator(w->runtime); }
static bool keeps_tasks(const tp_runtime *runtime) { return tp__runtime_store(runtime)->task_put != NULL; }
static bool is_in_table(const task_work *w) { return w->view.stage != TP__TASK_WHOLE && !w->is_stored; }

/* ---- results ---- */

typedef struct result {
  tp_task_result shown;
  tp_allocator allocator;
  size_t size;
} result;

static tp_task_result result_of(const task_work *w) {
  bool has_key = w->status == TP_OK && w->kept && w->task;
  return (tp_task_result){.struct_size = sizeof(tp_task_result),
                          .status = w->status,
                          .kind = w->status == TP_OK ? w->came.kind : TP_TOOL_NONE,
                          .started = w->came.started,
                          .key = has_key ? tp_text_of(w->task->key) : (tp_text){"", 0},
                          .text = w->status == TP_OK ? w->came.text : (tp_text){"", 0},
                          .value = w->status == TP_OK ? w->came.value : (tp_text){"", 0},
                          .parts = w->status == TP_OK ? w->came.parts : (tp_text){"", 0},
                          .duration_ns = w->came.duration_ns,
                          .fault = w->status == TP_OK ? NULL : &w->fault};
}

static void put_task_text(char **space, tp_text *text) {
  if (text->size > 0) memcpy(*space, text->data, text->size);
  text->data = *space;
  *space += text->size + 1; /* the memory is zero: a NUL follows */
}

/* Copies the result for the caller of a synchronous function. @return NULL without memory. */
static const tp_task_result *copy_result(const task_work *w) {
  tp_task_result from = result_of(w);
  size_t size = sizeof(result) + from.key.size + from.text.size + from.value.size + from.parts.size + 4;
  result *r = tp__alloc_zero(allocator_of(w), size);
  if (!r) return NULL;
  char *space = (char *)(r + 1);
  r->allocator = *allocator_of(w);
  r->size = size;
  r->shown = from;
  put_task_text(&space, &r->shown.key);
  put_task_text(&space, &r->shown.text);
  put_task_text(&space, &r->shown.value);
  put_task_text(&space, &r->shown.parts);
  return &r->shown;
}

void tp_task_result_free(const tp_task_result *shown) {
  if (!shown) return;
  result *r = TP__CONTAINER((tp_task_result *)(uintptr_t)shown, result, shown);
  tp_allocator allocator = r->allocator;
  tp__release(&allocator, r, r->size);
}

/* ---- the end ---- */

/* What the end of the session lists. */
static void note_task(const task_work *w) {
  tp_session *session = w->turn ? w->turn->session : NULL;
  if (!session || !w->task || w->status != TP_OK) return;
  tp_text tool = tp_text_of(w->task->tool);
  if (w->came.started) tp__session_note_tool(session, tool);
  if (w->view.stage == TP__TASK_WHOLE || (w->view.stage == TP__TASK_CREATE && !w->kept)) return;
  tp__task_status status = w->view.stage == TP__TASK_CREATE ? TP__TASK_PARTIAL
                           : w->came.kind == TP_TOOL_OK     ? TP__TASK_SUCCESS
                                                            : TP__TASK_FAILURE;
  tp__session_note_task(session, tp_text_of(w->task->key), tool, status);
}

/* A task that was put into the store leaves the table. */
static void free_work(task_work *w) {
  const tp_allocator *allocator = allocator_of(w);
  bool stays = w->kept && !(w->view.stage == TP__TASK_CREATE && keeps_tasks(w->runtime));
  if (w->turn) w->turn->task = NULL;
  if (w->task && is_in_table(w)) tp__tasks_leave(tp__layer_tasks(w->runtime), allocator, w->task, stays);
  else tp__task_free(allocator, w->task);
  tp__release(allocator, w, sizeof *w);
}

/* Everything is settled. The caller of a synchronous function goes on; the end of a submitted task is reported here. */
static void finish_task_work(task_work *w) {
  TP__OWNED(&w->turn->core.strand);
  TP__ASSERT(!w->done);
  w->done = true;
  note_task(w);
  if (!w->submission) return;
  tp_turn *turn = w->turn;
  tp_submission *submission = w->submission;
  tp__dispatch *dispatch = w->dispatch;
  tp_task_result shown = result_of(w);
  char key[TP_ID_BYTES_MAX + 1];
  snprintf(key, sizeof key, "%.*s", (int)shown.key.size, shown.key.data);
  shown.key.data = key;
  tp_task_fn on_end = w->on_end;
  tp__ends ends;
  void *ctx = w->ctx;
  tp_fault fault = w->fault;
  if (shown.fault) shown.fault = &fault;
  /* before the report of the end, because the host may then run the task or use its key again */
  if (!TP__BUG(TP__BUG_TASK_HELD)) free_work(w);
  tp__ends_hold(&ends); /* so that a host that takes the end from an inbox finds the submission ended */
  on_end(ctx, &shown);
  if (TP__BUG(TP__BUG_TASK_HELD)) free_work(w);
  tp__submission_ended(submission);
  tp__ends_put(&ends);
  tp__dispatch_free(dispatch);
  tp__a32_store_release(&turn->core.busy, 0);
  tp_turn_end(turn);
}

/* ---- the store ---- */

/** A call of the store for a task. */
typedef struct task_call {
  tp__store_call base;
  task_work *work;
  tp_text key;
  tp_task_record record; /* of a put */
  bool stays;            /* of a settle */
  tp__task *taken;       /* of a take; NULL: no memory */
} task_call;

static task_call *call_of(tp__store_call *call) { return TP__CONTAINER(call, task_call, base); }

/* @return NULL without memory. */
static task_call *new_call(task_work *w, const char *key) {
  tp__store_call *call = tp__store_call_new(w->turn, sizeof(task_call), "task");
  if (!call) return NULL;
  call_of(call)->work = w;
  if (tp__arena_text(&call->arena, tp_text_of(key), &call_of(call)->key)) return call_of(call);
  tp__store_call_drop(call);
  return NULL;
}

/* The call has no limit of its own. If it were given up, it might still begin the task in the store. */
static void start_call(task_call *c, tp_status (*work)(tp__store_call *call, void *store, tp_fault *fault),
                       void (*on_end)(tp__store_call *call, tp_status status)) {
  c->base.work = work;
  c->base.on_end = on_end;
  tp__store_call_start(&c->base, TP__NEVER);
}

static void take_fault(task_work *w, const tp__store_call *call, tp_status status) {
  w->status = status;
  if (status == TP_OK) return;
  w->fault = call->fault;
  if (!w->fault.message[0]) (void)!tp__fail(&w->fault, status, w->key, "the store: %s", tp_status_text(status));
}

static const tp_store *store_of(const tp__store_call *call) { return tp__runtime_store(call->turn->runtime); }

static tp_status put_task(tp__store_call *call, void *store, tp_fault *fault) {
  return store_of(call)->task_put(store, &call_of(call)->record, fault);
}

static void put_ended(tp__store_call *call, tp_status status) {
  take_fault(call_of(call)->work, call, status);
  finish_task_work(call_of(call)->work);
}

/* The record points to data of the task, which stays until the work ends. */
static void put_task_record(task_work *w) {
  const tp__task *task = w->task;
  task_call *c = new_call(w, task->key);
  if (!c) {
    w->status = tp__fail(&w->fault, TP_ERR_NO_MEMORY, task->key, "no memory to keep the task");
    finish_task_work(w);
    return;
  }
  c->record = (tp_task_record){.struct_size = sizeof c->record,
                               .created_unix_ms = tp__unix_ms(),
                               .key = c->key,
                               .tool = tp_text_of(task->tool),
                               .arguments = task->arguments,
                               .agent = tp_text_of(task->agent),
                               .tenant = w->turn->core.ids[TP_ID_TENANT],
                               .session = w->turn->core.ids[TP_ID_SESSION]};
  start_call(c, put_task, put_ended);
}

static tp_status settle_task(tp__store_call *call, void *store, tp_fault *fault) {
  return store_of(call)->task_settle(store, call_of(call)->key, call_of(call)->stays, fault);
}

static void log_unsettled(const task_work *w, tp_status status, const tp_fault *fault) {
  tp__log(w->runtime, TP_LOG_ERROR, &(tp__log_subject){.status = status},
          "the end of the task `%s` was not kept, so it stays begun: %s", w->key,
          fault && fault->message[0] ? fault->message : tp_status_text(status));
}

static void settle_ended(tp__store_call *call, tp_status status) {
  if (status != TP_OK) log_unsettled(call_of(call)->work, status, &call->fault);
  finish_task_work(call_of(call)->work);
}

/* If this fails, the task stays marked as begun, so that it is not run twice. */
static void settle_stored_task(task_work *w) {
  task_call *c = new_call(w, w->key);
  if (!c) {
    log_unsettled(w, TP_ERR_NO_MEMORY, NULL);
    finish_task_work(w);
    return;
  }
  c->stays = w->kept;
  start_call(c, settle_task, settle_ended);
}

/* ---- the call ---- */

/* `came`, status and kept are set. */
static void settle_and_finish(task_work *w) {
  TP__ASSERT(!w->turn->dispatch && (w->task || w->status != TP_OK));
  bool puts = w->view.stage == TP__TASK_CREATE && w->status == TP_OK && w->kept && keeps_tasks(w->runtime);
  if (puts) put_task_record(w);
  else if (w->is_stored) settle_stored_task(w);
  else finish_task_work(w);
}

/* Sets the outcome of the task. A task that was created is allowed. A task that was run remains if its tool was not
 * started. */
static void came_to(task_work *w) {
  const tp_tool_result *came = &w->came;
  w->kept = w->view.stage == TP__TASK_CREATE ? came->kind == TP_TOOL_OK : !came->started && came->kind != TP_TOOL_OK;
  settle_and_finish(w);
}

static void call_ended(tp__dispatch *dispatch) {
  task_work *w = dispatch->ctx;
  w->dispatch = dispatch;
  came_to(w);
}

static void stop(task_work *w, tp_tool_result_kind kind) {
  w->came = (tp_tool_result){.struct_size = sizeof w->came, .kind = kind, .text = tp__toolcall_unanswered(kind)};
  came_to(w);
}

static void fail_task_work(task_work *w, tp_status status) {
  w->status = status;
  settle_and_finish(w);
}

static void dispatch(task_work *w) {
  TP__ASSERT(w->task && !w->dispatch);
  static const char no_members = '\x80';
  const tp__task *task = w->task;
  tp__dispatch *unused;
  w->call = (tp_tool_call){.struct_size = sizeof w->call,
                           .id = w->view.key.size > 0 ? w->view.key : tp_text_of("call-0"), /* also in a question */
                           .name = tp_text_of(task->tool),
                           .arguments = task->arguments.size ? task->arguments : (tp_text){&no_members, 1}};
  w->calls[0] = &w->call;
  w->turn->task = &w->view;
  if (tp__dispatch_begin(w->turn, w->calls, 1, &w->came, NULL, call_ended, w, &unused) != TP_OK)
    fail_task_work(w, tp__fail(&w->fault, TP_ERR_NO_MEMORY, NULL, "no memory for the call"));
}

/* ---- collecting policies and tools for the call ---- */

static void gather(task_work *w, tp_phase_id phase, const tp_field *field, void (*on_end)(tp__phase_run *run)) {
  w->phase = (tp__phase_run){
      .turn = w->turn, .phase = phase, .fields = field, .field_count = field != NULL, .on_end = on_end, .ctx = w};
  tp__phase_begin(&w->phase);
}

/* @return NONE: the phase did not fail because of a cancel or of the request's limit. */
static tp_tool_result_kind why_over(const tp__turn *turn) {
  if (tp__a32_load_relaxed(&turn->cancel_asked)) return TP_TOOL_CANCELLED;
  return tp__now_ns() >= turn->deadline_ns ? TP_TOOL_TIMED_OUT : TP_TOOL_NONE;
}

/* @return whether the task goes on; if not, it has ended. */
static bool gathered(task_work *w, tp__phase_run *run, const char *what) {
  const tp_phase_result *r = &run->result;
  tp_status status = run->status;
  tp_tool_result_kind over = TP_TOOL_NONE;
  if (status != TP_OK) {
    (void)!tp__fail(&w->fault, status, NULL, "the %s of the call could not be gathered: %s", what,
                    tp_status_text(status));
  } else if (r->outcome != TP_OK && (over = why_over(&w->turn->core)) == TP_TOOL_NONE) {
    status = tp__fail(&w->fault, TP_ERR_HOOK, r->subscription, "the %s of the call could not be gathered: %.*s", what,
                      (int)r->reason.size, r->reason.size ? r->reason.data : "");
  }
  tp__phase_let_go(&run->result);
  if (over) stop(w, over);
  else if (status != TP_OK) fail_task_work(w, status);
  return !over && status == TP_OK;
}

static void tools_ended(tp__phase_run *run) {
  task_work *w = run->ctx;
  if (gathered(w, run, "tools")) dispatch(w);
}

/* Writes the call that the task will make, so that contributors of tools may leave out the others. @return false: no
 * memory, and they are not told. */
static bool write_calls(task_work *w, tp_text *ret_value) {
  tp_allocator allocator = tp__allocator_of(allocator_of(w));
  tp_writer writer;
  tp_text value;
  tp__value_writer_init(&writer, &allocator);
  tp_write_array(&writer, 1);
  tp_write_map(&writer, 1);
  tp_write_string(&writer, "tool");
  tp_write_string(&writer, w->task->tool);
  bool is_written =
      tp_writer_finish(&writer, &value) == TP_OK && tp__arena_text(&w->turn->core.arena, value, ret_value);
  tp__value_writer_fini(&writer);
  return is_written;
}

static void policies_ended(tp__phase_run *run) {
  task_work *w = run->ctx;
  if (!gathered(w, run, "policies")) return;
  w->called = (tp_field){.id = TP_FIELD_CALLS, .kind = TP_FIELD_KIND_VALUE};
  bool has_it = write_calls(w, &w->called.text);
  gather(w, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, has_it ? &w->called : NULL, tools_ended);
}

/* ---- a task that this or another process has put into the store ---- */

static void copy_taken(void *ctx, const tp_task_record *record) {
  task_call *c = ctx;
  char key[TP_ID_BYTES_MAX + 1], tool[TP_ID_BYTES_MAX + 1], agent[TP_ID_BYTES_MAX + 1];
  snprintf(key, sizeof key, "%.*s", (int)c->key.size, c->key.data);
  snprintf(tool, sizeof tool, "%.*s", (int)record->tool.size, record->tool.data);
  snprintf(agent, sizeof agent, "%.*s", (int)record->agent.size, record->agent.size ? record->agent.data : "");
  tp_task_spec spec = {.struct_size = sizeof spec,
                       .tool = tool,
                       .arguments = record->arguments,
                       .agent = record->agent.size ? agent : NULL};
  c->taken = tp__task_new(tp__runtime_allocator(c->base.turn->runtime), &spec, key);
}

static tp_status take_task(tp__store_call *call, void *store, tp_fault *fault) {
  return store_of(call)->task_take(store, call_of(call)->key, copy_taken, call_of(call), fault);
}

static tp_status no_such_agent(const char *id, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_NOT_FOUND, id, "there is no agent of this id: add it with tp_agent_add()");
}

/* Sets the agent. The turn began without it, because only the store knew it. */
static tp_status adopt_agent(task_work *w) {
  tp_turn *turn = w->turn;
  if (!w->task->agent || turn->session) return TP_OK; /* of a session that has its own, or none */
  tp_agent *agent = tp_agent_find(w->runtime, w->task->agent);
  if (!agent) return no_such_agent(w->task->agent, &w->fault);
  turn->agent = agent; /* the turn's reference */
  turn->core.has_ids = true;
  if (tp__arena_text(&turn->core.arena, tp_text_of(w->task->agent), &turn->core.ids[TP_ID_AGENT])) return TP_OK;
  return tp__fail(&w->fault, TP_ERR_NO_MEMORY, NULL, "no memory for the task");
}

static void note_task_taken(tp__store_call *call, tp_status status) {
  task_work *w = call_of(call)->work;
  w->task = call_of(call)->taken;
  take_fault(w, call, status);
  if (status != TP_OK) { /* it is not begun */
    finish_task_work(w);
    return;
  }
  w->kept = true;
  if (!w->task) fail_task_work(w, tp__fail(&w->fault, TP_ERR_NO_MEMORY, NULL, "no memory for the task"));
  else if ((status = adopt_agent(w)) != TP_OK) fail_task_work(w, status);
  else gather(w, TP_PHASE_TURN_PRE_POLICY, NULL, policies_ended);
}

/* ---- the begin ---- */

static void begin_work(task_work *w) {
  task_call *c;
  if (w->task) gather(w, TP_PHASE_TURN_PRE_POLICY, NULL, policies_ended);
  else if ((c = new_call(w, w->key))) start_call(c, take_task, note_task_taken);
  else {
    w->status = tp__fail(&w->fault, TP_ERR_NO_MEMORY, NULL, "no memory for the task");
    finish_task_work(w);
  }
}

static void delivered(tp__message *message) {
  begin_work(TP__CONTAINER(message, tp_turn, operation.message)->operation.ctx);
}

/* The host is told of the question first, so that an immediate answer of the channel does not come before that. */
static void asked(void *ctx, const tp_question *question) {
  task_work *w = ctx;
  TP__ASSERT(w->on_asked && !w->done);
  const tp_runtime_options *options = tp__runtime_options(w->runtime);
  tp_task_result shown = {.struct_size = sizeof shown, .asked = true, .key = w->view.key, .question = question};
  w->on_asked(w->on_asked_ctx, &shown);
  if (options->ask) options->ask(options->ask_ctx, question);
}

/* The turn holds its reference to the session as long as the turn exists. */
static void release_with_session(tp__turn *core) {
  tp_session *session = tp__turn_of(core)->session;
  tp__turn_release(core);
  tp__session_unref(session);
}

/* A session's listeners are called for one turn of the session at a time. This turn runs at the same time as others of
 * the session, so they are not called for it. */
static tp_status begin_turn_of(task_work *w, tp_session *session, const tp__nesting *nesting,
                               const tp_turn_request *request, tp_fault *fault) {
  tp_agent *agent = tp__session_take_agent(session, nesting);
  tp__turn_ids ids = tp__session_ids(session, agent, nesting);
  ids.listeners = NULL;
  tp_status status = tp__turn_new_held(w->runtime, &ids, request, TP__TURN_HELD, &w->turn, fault);
  tp_agent_unref(agent);
  if (status != TP_OK) return status;
  tp__session_hold(session);
  w->turn->core.release = release_with_session;
  status = tp__session_check_inbox(session, w->turn->core.snapshot, fault);
  if (status == TP_OK) return TP_OK;
  tp_turn_end(w->turn);
  w->turn = NULL;
  return status;
}

static tp_status begin_bare_turn(task_work *w, const tp__nesting *nesting, const tp_turn_request *request,
                                 tp_fault *fault) {
  const char *agent_id = w->task ? w->task->agent : NULL;
  tp_agent *agent = agent_id ? tp_agent_find(w->runtime, agent_id) : NULL;
  if (agent_id && !agent) return no_such_agent(agent_id, fault);
  tp__turn_ids ids = {.agent = agent_id, .used_agent = agent, .nesting = nesting};
  tp_status status = tp__turn_new_held(w->runtime, &ids, request, TP__TURN_HELD, &w->turn, fault);
  tp_agent_unref(agent);
  return status;
}

static tp_status begin_task_turn(task_work *w, const tp_task_spec *spec, const tp__nesting *nesting, tp_fault *fault) {
  tp_turn_request request;
  tp_status status = tp__request_read_held(spec->request, &request, fault);
  if (status == TP_OK && spec->session) status = begin_turn_of(w, spec->session, nesting, &request, fault);
  else if (status == TP_OK) status = begin_bare_turn(w, nesting, &request, fault);
  if (status == TP_OK && w->on_asked) {
    w->turn->people.ask = asked;
    w->turn->people.ask_ctx = w;
  }
  return status;
}

static tp_status read_spec(const tp_task_spec *theirs, tp_task_spec *spec, tp_fault *fault) {
  memset(spec, 0, sizeof *spec);
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "a task needs a tp_task_spec");
  TP__TRY(tp__options_read(spec, sizeof *spec, theirs, "tp_task_spec", fault));
  if (!spec->on_asked && spec->on_asked_ctx)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_task_spec.on_asked_ctx is set, but on_asked is NULL");
  if (!spec->session || !spec->agent) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, spec->agent, "tp_task_spec.agent is given beside a session, which has its own");
}

/* Checks the fields that create and call need. A run takes them from the task. */
static tp_status check_call(const tp_task_spec *spec, tp_fault *fault) {
  if (!spec->tool || !tp__id_valid(spec->tool))
    return tp__fail(fault, TP_ERR_BAD_ID, spec->tool, "tp_task_spec.tool must be 1 to 128 bytes without white space");
  if (spec->key && !tp__id_valid(spec->key))
    return tp__fail(fault, TP_ERR_BAD_ID, spec->key, "tp_task_spec.key must be 1 to 128 bytes without white space");
  if (!spec->arguments.size) return TP_OK;
  tp_status status = tp_value_check(spec->arguments, NULL);
  if (status == TP_OK && tp_value_kind_of(spec->arguments) != TP_VALUE_MAP) status = TP_ERR_USAGE;
  if (status == TP_OK) return TP_OK;
  return tp__fail(fault, status == TP_ERR_NO_MEMORY ? status : TP_ERR_USAGE, spec->tool,
                  "tp_task_spec.arguments must be one value, a map");
}

static tp_status check_run(const tp_task_spec *spec, tp_fault *fault) {
  const char *member = spec->tool ? "tool" : spec->arguments.size ? "arguments" : spec->agent ? "agent" : NULL;
  if (!spec->key) return tp__fail(fault, TP_ERR_USAGE, NULL, "to run a task needs its key");
  if (!member) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, spec->key,
                  "tp_task_spec.%s was given when the task was created: a run takes the key, the request, the session "
                  "and on_asked",
                  member);
}

static tp_status check_spec(tp_task_operation operation, const tp_task_spec *spec, tp_fault *fault) {
  switch (operation) {
    case TP_TASK_CREATE:
      return check_call(spec, fault);
    case TP_TASK_RUN:
      return check_run(spec, fault);
    case TP_TASK_CALL:
      TP__TRY(check_call(spec, fault));
      if (!spec->key) return TP_OK;
      return tp__fail(fault, TP_ERR_USAGE, spec->key, "a direct call keeps no task: leave tp_task_spec.key NULL");
    default:
      return tp__fail(fault, TP_ERR_USAGE, NULL, "there is no operation %d of a task", (int)operation);
  }
}

/* Takes the task of a run from the table. If it is not there, the store is asked later. */
static tp_status take_task_of_run(task_work *w, const char *key, tp_fault *fault) {
  tp_status status = tp__tasks_take(tp__layer_tasks(w->runtime), key, &w->task, fault);
  w->is_stored = status == TP_ERR_NOT_FOUND && keeps_tasks(w->runtime) && tp__id_valid(key);
  if (w->is_stored) snprintf(w->key, sizeof w->key, "%s", key);
  else if (status == TP_OK) w->kept = true; /* what does not begin may be run again */
  return w->is_stored ? TP_OK : status;
}

static tp_status find_task(task_work *w, tp_task_operation operation, const tp_task_spec *spec, tp_fault *fault) {
  const tp_allocator *allocator = allocator_of(w);
  tp__task_stage stage = operation == TP_TASK_CREATE ? TP__TASK_CREATE
                         : operation == TP_TASK_RUN  ? TP__TASK_RUN
                                                     : TP__TASK_WHOLE;
  tp_status status = TP_OK;
  w->view.stage = stage;
  if (operation == TP_TASK_CREATE)
    status = tp__tasks_reserve(tp__layer_tasks(w->runtime), allocator, spec, tp__runtime_run_id(w->runtime), &w->task,
                               fault);
  else if (operation == TP_TASK_RUN) status = take_task_of_run(w, spec->key, fault);
  else if (!(w->task = tp__task_new(allocator, spec, NULL)))
    status = tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the call");
  if (status != TP_OK) return status;
  w->view.key = tp_text_of(w->task ? w->task->key : w->key);
  return TP_OK;
}

/* Makes all checks that need no gate and no store. The turn then is the caller's. */
static tp_status prepare_task_work(tp_runtime *runtime, tp_task_operation operation, const tp_task_spec *theirs,
                                   const tp__nesting *nesting, task_work **ret_work, tp_fault *fault) {
  tp_task_spec ours = *theirs, *spec = &ours;
  TP__TRY(check_spec(operation, spec, fault));
  TP__TRY(tp__runtime_ready(runtime, fault));
  if (spec->session && spec->session->runtime != runtime)
    return tp__fail(fault, TP_ERR_USAGE, spec->key, "tp_task_spec.session is of another runtime");
  if (spec->session && spec->session->agent_id) spec->agent = spec->session->agent_id;
  task_work *w = tp__alloc_zero(tp__runtime_allocator(runtime), sizeof *w);
  if (!w) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the task");
  w->runtime = runtime;
  w->on_asked = spec->on_asked;
  w->on_asked_ctx = spec->on_asked_ctx;
  tp_status status = find_task(w, operation, spec, fault);
  if (status == TP_OK) status = begin_task_turn(w, spec, nesting, fault);
  if (status == TP_OK) *ret_work = w;
  else free_work(w);
  return status;
}

/* ---- the public functions ---- */

/* The calling thread owns the turn. */
static tp_status wait_here(task_work *w, const tp__inside *frame, tp_fault *fault) {
  tp_status status = tp__turn_enter(w->turn);
  if (status == TP_OK) {
    begin_work(w);
    tp__strand_wait(&w->turn->core.strand, &w->done);
    tp__turn_exit(w->turn);
  }
  tp__inside_leave(frame);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "the task was not run: %s", tp_status_text(status));
  if (w->status != TP_OK && fault) *fault = w->fault;
  return w->status;
}

static tp_status run_task_operation(tp_runtime *runtime, tp_task_operation operation, const tp_task_spec *spec,
                                    const tp_task_result **ret_result, tp_fault *fault) {
  task_work *w;
  tp__inside frame;
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(prepare_task_work(runtime, operation, spec, NULL, &w, fault));
  tp_status status = tp__become_owner(runtime, &frame, fault, "a task");
  if (status == TP_OK) status = wait_here(w, &frame, fault);
  const tp_task_result *made = status == TP_OK && ret_result ? copy_result(w) : NULL;
  if (status == TP_OK && ret_result && !made)
    status = tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the result of the call");
  tp_turn *turn = w->turn;
  tp__dispatch_free(w->dispatch);
  free_work(w);
  tp_turn_end(turn);
  if (made) *ret_result = made;
  return status;
}

tp_status tp_task_create(tp_runtime *runtime, const tp_task_spec *theirs, const tp_task_result **ret_result,
                         tp_fault *fault) {
  tp_task_spec spec;
  TP__TRY(read_spec(theirs, &spec, fault));
  return run_task_operation(runtime, TP_TASK_CREATE, &spec, ret_result, fault);
}

tp_status tp_task_call(tp_runtime *runtime, const tp_task_spec *theirs, const tp_task_result **ret_result,
                       tp_fault *fault) {
  tp_task_spec spec;
  TP__TRY(read_spec(theirs, &spec, fault));
  return run_task_operation(runtime, TP_TASK_CALL, &spec, ret_result, fault);
}

tp_status tp_task_run(tp_runtime *runtime, const char *key, const tp_turn_request *request,
                      const tp_task_result **ret_result, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  tp_task_spec spec = {.struct_size = sizeof spec, .key = key, .request = request};
  return run_task_operation(runtime, TP_TASK_RUN, &spec, ret_result, fault);
}

/* A nested task without a request of its own uses the values of the calling turn. */
static tp_turn_request request_of(const tp__turn *parent) {
  return (tp_turn_request){.struct_size = sizeof(tp_turn_request),
                           .caller = parent->caller,
                           .mode = parent->mode.data,
                           .caller_job = parent->caller_job.data,
                           .triggered_by = parent->triggered_by.data,
                           .environment = parent->environment.size > 0 ? parent->environment.data : NULL,
                           .task = parent->ids[TP_ID_TASK].data,
                           .run = parent->ids[TP_ID_RUN].data};
}

static tp_status prepare_nested(tp_runtime *runtime, const tp__nesting *nesting, tp_task_operation operation,
                                tp_task_spec *spec, task_work **ret_work, tp_fault *fault) {
  const tp__turn *parent = nesting->parent;
  tp_turn_request request = request_of(parent);
  if (!spec->request) spec->request = &request;
  if (spec->session || spec->agent)
    return tp__fail(fault, TP_ERR_USAGE, spec->key, "the session and the agent of a nested task are those of its call");
  if (parent->depth >= TP__NESTED_MAX)
    return tp__fail(fault, TP_ERR_TOO_DEEP, spec->key, "turns nest %d deep: this call is of a turn at that depth",
                    TP__NESTED_MAX);
  spec->session =
      tp__sessions_hold_of(tp__layer_sessions(runtime), parent->ids[TP_ID_TENANT], parent->ids[TP_ID_SESSION]);
  if (!spec->session && operation != TP_TASK_RUN && parent->ids[TP_ID_AGENT].size > 0)
    spec->agent = parent->ids[TP_ID_AGENT].data;
  tp_status status = prepare_task_work(runtime, operation, spec, nesting, ret_work, fault);
  if (spec->session) tp__session_unref(spec->session);
  return status;
}

tp_status tp_task_submit(tp_runtime *runtime, tp_task_operation operation, const tp_task_spec *theirs,
                         tp_task_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault) {
  return tp__task_submit(runtime, NULL, operation, theirs, on_end, ctx, ret_submission, fault);
}

tp_status tp__task_submit(tp_runtime *runtime, const tp__nesting *nesting, tp_task_operation operation,
                          const tp_task_spec *theirs, tp_task_fn on_end, void *ctx, tp_submission **ret_submission,
                          tp_fault *fault) {
  task_work *w;
  tp_task_spec spec;
  TP__TRY(read_spec(theirs, &spec, fault));
  if (!on_end) return tp__fail(fault, TP_ERR_USAGE, spec.key, "on_end is missing: nothing else gives the result");
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (tp__runtime_options(runtime)->no_engine_workers)
    return tp__fail(fault, TP_ERR_USAGE, spec.key,
                    "the runtime has no engine workers: use tp_task_call() and its like");
  if (nesting) TP__TRY(prepare_nested(runtime, nesting, operation, &spec, &w, fault));
  else TP__TRY(prepare_task_work(runtime, operation, &spec, NULL, &w, fault));
  tp_turn *turn = w->turn;
  w->on_end = on_end;
  w->ctx = ctx;
  tp_status status = TP_ERR_NO_MEMORY;
  w->submission = tp__submission_new(allocator_of(w), &turn->core);
  if (w->submission) status = tp__turn_begin_operation(&turn->core);
  if (status != TP_OK) {
    if (w->submission) tp__submission_abort(w->submission);
    free_work(w);
    tp_turn_end(turn);
    return tp__fail(fault, status, NULL, "the task was not begun: %s", tp_status_text(status));
  }
  if (ret_submission) *ret_submission = w->submission;
  else tp_submission_unref(w->submission);
  turn->operation.ctx = w;
  turn->operation.message.deliver = delivered;
  tp__turn_submit(turn, &turn->operation.message);
  return TP_OK;
}

tp_status tp_task_discard(tp_runtime *runtime, const char *key, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!key) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_task_discard needs a key");
  tp_status status = tp__tasks_discard(tp__layer_tasks(runtime), tp__runtime_allocator(runtime), key, fault);
  if (status != TP_ERR_NOT_FOUND || !keeps_tasks(runtime)) return status;
  TP__TRY(tp__may_block(runtime, fault, "a task"));
  TP__TRY(tp__runtime_ready(runtime, fault));
  const tp_store *store = tp__runtime_store(runtime);
  tp__inside frame;
  void *store_ctx = tp__store_enter(&frame, runtime);
  return tp__store_left(&frame, store->task_settle(store_ctx, tp_text_of(key), false, fault));
}
