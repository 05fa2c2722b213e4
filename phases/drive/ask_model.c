/* SPDX-License-Identifier: Apache-2.0
 *
 * ask_model.c: a handler asks a model and waits. The request is an attempt of a turn of its own, which engine workers
 * run like a detached run while the handler's thread waits. The handler and the request each hold that turn, because
 * the request may run longer than the handler waits. The last of the two releases the handler's attempt, and with it
 * the objects that the request uses. The handler is paused meanwhile, because a model that blocks needs a handler
 * thread, too. Lock: `ask_model`. */
#include "phases/drive/drive.h"
#include "phases/model/messages.h"
#include "phases/drive/steps.h"
#include "runtime/exec/blocks.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/entry.h"

enum { LOOK_MS = 50 /* how soon a cancel is seen */ };

typedef struct ask {
  tp__turn turn;        /* the turn of the request; its arena holds the request */
  tp__attempt *handler; /* referenced */
  tp_model model;
  tp_session *session; /* the session of the model, referenced by the request; NULL: the handler's own model */
  tp_model_request request;
  tp__message cancel;
  /* the deadline with which the turn began; the turn's own deadline belongs to its owner, and a drain may change it */
  int64_t until_ns;
  size_t block_size;
  tp__mutex mutex;
  tp__cond ended;
  /* the owner's of the turn */
  tp__model_call *running; /* NULL: it has ended */
  /* under mutex */
  bool done, given_up;
  tp_status status;
  tp__model_call *answered; /* referenced, when done: holds the response and the message of a failure */
} ask;

static void free_ask(tp__turn *turn) {
  ask *a = TP__CONTAINER(turn, ask, turn);
  tp_runtime *runtime = turn->runtime;
  tp__attempt *handler = a->handler;
  tp__turn_fini(turn);
  tp__cond_fini(&a->ended);
  tp__mutex_fini(&a->mutex);
  tp__block_give(tp__runtime_blocks(runtime), a, a->block_size);
  tp__attempt_unref(handler);
}

/* ---- on the owner of the request's turn ---- */

static void end(ask *a, tp_status status, tp__model_call *call) {
  a->running = NULL;
  tp__mutex_lock(&a->mutex);
  a->done = true;
  a->status = status;
  if (call && !a->given_up) {
    tp__a32_add_relaxed(&call->base.refs, 1);
    a->answered = call;
  }
  tp__cond_signal(&a->ended);
  tp__sched_wake(tp__runtime_sched(a->turn.runtime));
  tp__mutex_unlock(&a->mutex);
  tp__turn_finish(&a->turn);
}

static void request_ended(tp__model_call *call, tp_status status) { end(call->ctx, status, call); }

static void start_ask(ask *a) {
  tp__model_call *call = tp__model_call_new(&a->turn, NULL, a->session, &a->model, &a->request);
  if (call) {
    call->on_end = request_ended;
    call->delivers = true; /* to no listener */
    call->ctx = a;
    a->running = call;
    tp__model_call_start(call);
  } else {
    end(a, TP_ERR_NO_MEMORY, NULL);
  }
  tp__strand_leave(&a->turn.strand); /* to the engine workers */
}

static void turn_cancelled(tp__turn *turn) {
  ask *a = TP__CONTAINER(turn, ask, turn);
  if (a->running) tp__model_call_cancel(a->running);
}

static void cancel_ask(tp__message *message) {
  ask *a = TP__CONTAINER(message, ask, cancel);
  turn_cancelled(&a->turn);
  tp__turn_unref(&a->turn);
}

/* ---- on the handler's thread ---- */

static tp_status copy_messages(ask *a, const tp_model_request *theirs, tp_fault *fault) {
  const tp_message **list = tp__arena_alloc(&a->turn.arena, (theirs->message_count + 1) * sizeof *list);
  tp_message *copies = tp__arena_alloc(&a->turn.arena, (theirs->message_count + 1) * sizeof *copies);
  if (!list || !copies) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < theirs->message_count; i++) {
    tp_message message;
    TP__TRY(tp__message_read(theirs->messages[i], &message, fault));
    if (!tp_utf8_valid(message.text, NULL))
      return tp__fail(fault, TP_ERR_UTF8, NULL, "messages[%zu].text is not UTF-8", i);
    if (!tp__message_copy(&a->turn.arena, &message, &copies[i])) return TP_ERR_NO_MEMORY;
    list[i] = &copies[i];
  }
  a->request.messages = list;
  a->request.message_count = theirs->message_count;
  return TP_OK;
}

static tp_status read_ask(ask *a, const tp_model_request *theirs, tp_fault *fault) {
  tp_model_request in = {.struct_size = 0};
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "a request is needed");
  TP__TRY(tp__options_read(&in, sizeof in, theirs, "tp_model_request", fault));
  if (in.tool_count > 0) return tp__fail(fault, TP_ERR_USAGE, NULL, "a handler's request takes no tools");
  if (in.message_count == 0 || !in.messages) return tp__fail(fault, TP_ERR_USAGE, NULL, "a request needs messages");
  if (!tp_utf8_valid(in.system, NULL) || !tp_utf8_valid(in.model, NULL))
    return tp__fail(fault, TP_ERR_UTF8, NULL, "the system text or the model's name is not UTF-8");
  if (in.parameters.size && tp_value_kind_of(in.parameters) != TP_VALUE_MAP)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_model_request.parameters must be a map");
  if (!tp__arena_text(&a->turn.arena, in.system, &a->request.system) ||
      (in.model.size && !tp__arena_text(&a->turn.arena, in.model, &a->request.model)) ||
      !tp__arena_text(&a->turn.arena, in.parameters, &a->request.parameters))
    return TP_ERR_NO_MEMORY;
  a->request.struct_size = sizeof a->request;
  a->request.attempt = 1;
  a->request.ids = a->turn.ids;
  a->request.id_count = TP_ID_COUNT;
  return copy_messages(a, &in, fault);
}

/* The calling thread owns its turn. */
static tp_status new_ask(tp_call *call, ask **ret_ask) {
  const tp__turn *asking = call->entry->turn;
  tp_runtime *runtime = asking->runtime;
  size_t block_size;
  ask *a = tp__block_take(tp__runtime_blocks(runtime), sizeof *a, &block_size);
  if (!a) return TP_ERR_NO_MEMORY;
  memset(a, 0, sizeof *a);
  a->block_size = block_size;
  a->until_ns = tp__call_deadline(call);
  tp_status status = tp__mutex_init(&a->mutex, TP__RANK_ask_model);
  if (status == TP_OK && (status = tp__cond_init(&a->ended)) != TP_OK) tp__mutex_fini(&a->mutex);
  const tp__turn_spec spec = {.ids = asking->ids,
                              .mode = asking->mode,
                              .caller = asking->caller,
                              .deadline_ns = a->until_ns,
                              .inbox = asking->inbox,
                              .kind = TP__TURN_DETACHED};
  if (status == TP_OK && (status = tp__turn_init(&a->turn, runtime, &spec)) != TP_OK) {
    tp__cond_fini(&a->ended);
    tp__mutex_fini(&a->mutex);
  }
  if (status != TP_OK) {
    tp__block_give(tp__runtime_blocks(runtime), a, block_size);
    return status;
  }
  a->turn.release = free_ask;
  a->turn.cancelled = turn_cancelled;
  tp__turn_hold(&a->turn); /* the handler's */
  a->handler = call->attempt;
  tp__a32_add_relaxed(&call->attempt->refs, 1);
  a->request.turn = asking; /* held by the handler's attempt */
  *ret_ask = a;
  return TP_OK;
}

/* @return whether the request has ended; if not, it was given up. */
static bool wait(ask *a, tp_call *call) {
  tp__mutex_lock(&a->mutex);
  while (!a->done && !tp_call_cancelled(call)) {
    int64_t look_ns = tp__now_ns() + LOOK_MS * TP__NS_PER_MS;
    (void)tp__sched_wait_until(tp__runtime_sched(a->turn.runtime), &a->ended, &a->mutex,
                               look_ns < a->until_ns ? look_ns : a->until_ns);
  }
  bool done = a->done;
  a->given_up = !done;
  tp__mutex_unlock(&a->mutex);
  return done;
}

static tp_status copy_response(tp_call *call, const tp__model_call *answered, tp_model_response *ret_response) {
  const tp_model_response *theirs = &answered->response;
  tp_model_response ours = *theirs;
  ours.struct_size = sizeof ours;
  if (!tp__arena_text(call->arena, theirs->text, &ours.text) ||
      !tp__arena_text(call->arena, theirs->stop_reason, &ours.stop_reason) ||
      !tp__arena_text(call->arena, theirs->provider_data, &ours.provider_data) ||
      !tp__arena_text(call->arena, theirs->finish_word, &ours.finish_word) ||
      !tp__calls_copy(call->arena, theirs->calls, theirs->call_count, &ours.calls))
    return TP_ERR_NO_MEMORY;
  (void)tp__shown_fill(ret_response, &ours, sizeof ours);
  return TP_OK;
}

static tp_status give_up(ask *a, tp_call *call, tp_fault *fault) {
  a->cancel.deliver = cancel_ask;
  tp__turn_hold(&a->turn);
  if (!tp__strand_push(&a->turn.strand, &a->cancel)) tp__turn_unref(&a->turn); /* it has ended just now */
  bool late = tp_call_time_left_ms(call) == 0;
  return tp__fail(fault, late ? TP_ERR_TIMEOUT : TP_ERR_CANCELLED, NULL, "the model has not answered %s",
                  late ? "within the handler's limit (limit_ms)" : "when the call was cancelled");
}

static tp_status take_end(ask *a, tp_call *call, tp_model_response *ret_response, bool *ret_retryable,
                          tp_fault *fault) {
  tp_status status = a->status;
  if (status == TP_OK) status = copy_response(call, a->answered, ret_response);
  const char *why = a->answered && status != TP_OK ? a->answered->failure_message : NULL;
  if (ret_retryable) *ret_retryable = a->answered && a->answered->retryable;
  if (status != TP_OK) (void)tp__fail(fault, status, NULL, "%s", why ? why : tp_status_text(status));
  if (a->answered) tp__attempt_unref(&a->answered->base);
  return status;
}

/* The model of the turn is one of its session's models, with the name by which the turn asks it. */
static tp_status choose_ask_model(ask *a, const tp_call *call, const tp_model *theirs, tp_fault *fault) {
  if (theirs) return tp__model_read(theirs, tp__runtime_registry(a->turn.runtime), &a->model, fault);
  const tp__drive *drive = tp__drive_of_call(call);
  const tp_model *model = drive ? tp__drive_model(drive) : NULL;
  if (!model || (!model->start && !model->inbox))
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the turn has no model that could be asked: name one");
  a->model = *model;
  a->session = drive->session;
  return tp__arena_text(&a->turn.arena, tp__drive_model_name(drive), &a->request.model) ? TP_OK : TP_ERR_NO_MEMORY;
}

tp_status tp_call_ask_model(tp_call *call, const tp_model *theirs, const tp_model_request *request,
                            tp_model_response *ret_response, bool *ret_retryable, tp_fault *fault) {
  if (!call) return tp__fail_null(fault, "call");
  if (ret_retryable) *ret_retryable = false;
  if (!call->attempt)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_call_ask_model() waits: give the handler the placement thread (TP_PLACEMENT_THREAD)");
  TP__TRY(tp__size_check(ret_response, "tp_model_response", fault));
  ask *a = NULL;
  tp_status status = new_ask(call, &a);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "the model was not asked: %s", tp_status_text(status));
  status = choose_ask_model(a, call, theirs, fault);
  if (status == TP_OK && tp__inbox_is_of_session(a->model.inbox) && !a->turn.inbox)
    status = tp__fail(fault, TP_ERR_USAGE, NULL,
                      "the model names TP_INBOX_OF_SESSION, and the call is of no session with an inbox");
  if (status == TP_OK) status = read_ask(a, request, fault);
  if (status == TP_ERR_NO_MEMORY) (void)tp__fail(fault, status, NULL, "no memory to ask the model");
  tp_status pause = status == TP_OK ? tp__attempt_pause(call->attempt) : status; /* not one of an inbox */
  if (pause == TP_ERR_FULL && tp__runtime_options(a->turn.runtime)->pump)
    status =
        tp__fail(fault, pause, NULL, "%d calls wait on the stacks of the threads that pump: submit, or use an inbox",
                 TP__PUMP_PAUSED_MAX);
  if (status == TP_OK) {
    bool paused = pause == TP_OK;
    start_ask(a);
    bool ended = wait(a, call);
    if (paused) tp__attempt_resume(call->attempt);
    status = ended ? take_end(a, call, ret_response, ret_retryable, fault) : give_up(a, call, fault);
  } else {
    tp__turn_finish(&a->turn);
    tp__strand_leave(&a->turn.strand);
  }
  tp__turn_unref(&a->turn);
  return status;
}
