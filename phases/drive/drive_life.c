/* SPDX-License-Identifier: Apache-2.0
 *
 * drive_life.c: how a drive is made, begins, is cancelled and is freed. */
#include "phases/drive/added.h"
#include "phases/model/conversation.h"
#include "phases/model/made_request.h"
#include "phases/drive/running.h"
#include "phases/drive/steps.h"
#include "phases/drive/structured.h"
#include "phases/drive/talk.h"
#include "runtime/exec/blocks.h"

/* ---- life ---- */

static void start_delivered(tp__message *message) {
  tp__drive *d = TP__CONTAINER(message, tp__drive, start_message);
  TP__OWNED(&d->turn->core.strand);
  TP__ASSERT(!d->begun && !d->waits && d->step == TP__STEP_NONE); /* it begins once, out of the queue */
  d->started_ns = tp__now_ns();
  d->begun = true;
  tp__strand_timer_remove(&d->limit_timer);
  if (d->closing) {
    tp__drive_go(d, TP__STEP_SESSION_END);
    return;
  }
  tp__running_begin(d);
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_TURN_BEGIN,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .text = d->user_text,
                                 .parent_turn = tp__turn_parent_id(&d->turn->core)});
  tp__drive_go(d, TP__STEP_LOAD);
}

/* ---- a nested turn, whose call waits for it ---- */

enum { LOOK_MS = 50 };

void tp__drive_watch_call(tp__drive *d) {
  TP__ASSERT(d->call);
  tp__strand_timer_add(&d->turn->core.strand, &d->call_timer, tp__now_ns() + LOOK_MS * TP__NS_PER_MS);
}

static void call_looked_at(tp__timer_entry *timer, int64_t now_ns) {
  (void)now_ns;
  tp__drive *d = TP__CONTAINER(timer, tp__drive, call_timer);
  if (tp__attempt_is_cancelled(d->call)) tp__turn_cancel(&d->turn->core);
  else tp__drive_watch_call(d);
}

void tp__drive_cancel(tp__drive *d) {
  TP__OWNED(&d->turn->core.strand);
  if (!d->begun) {
    (void)!tp__drive_cancel_queued(d);
    return;
  }
  tp__drive_cancel_busy(d);
  if (d->model_call) tp__model_call_cancel(d->model_call);
  bool appends = d->step == TP__STEP_COMMIT || d->step == TP__STEP_END; /* whatever happens, what was done is kept */
  if (d->host_call && !appends) tp__attempt_expire(&d->host_call->base, TP__CANCELLED);
}

static void free_drive(tp__drive *d, tp_runtime *runtime) {
  TP__ASSERT(!d->host_call && !d->model_call && !d->waits);
  tp__talk_fini(d);
  tp__made_request_free(d->made);
  tp__added_fini(d);
  tp__past_unref(d->own_past);
  tp__arena_fini(&d->arena);
  tp__block_give(tp__runtime_blocks(runtime), d, d->block_size);
}

/* Called with the last reference of the turn: no code reads the request any more. */
static void free_held_turn(tp__turn *core) {
  tp_turn *turn = tp__turn_of(core);
  tp__drive *d = turn->drive;
  TP__ASSERT(d && d->turn == turn && tp__a32_load_relaxed(&core->refs) == 0);
  tp_session *session = d->session;
  free_drive(d, core->runtime);
  turn->drive = NULL;
  tp__turn_release(core);
  tp__session_unref(session);
}

/* Copies the request, so that the host's memory is not used again. */
static bool copy_request(tp__drive *d, const tp_turn_request *request) {
  tp__arena *arena = &d->arena;
  d->request.messages = NULL;
  d->request.answer_schema = NULL;
  if (request->messages && !(d->own_past = tp__past_new(arena->allocator))) return false;
  return tp__arena_text(arena, request->text, &d->user_text) &&
         tp__arena_text(arena, request->files, &d->request.files) &&
         tp__arena_text(arena, request->system, &d->request.system) &&
         tp__arena_text(arena, request->parameters, &d->request.parameters) &&
         tp__arena_string(arena, request->model_name, &d->request.model_name) &&
         (!d->own_past ||
          tp__conversation_copy(request->messages, request->message_count, &d->own_past->list) == TP_OK);
}

tp_status tp__drive_new(tp_session *session, const tp_turn_request *request, bool owned, tp__turn_kind kind,
                        const tp__nesting *nesting, tp__drive **ret_drive, tp_fault *fault) {
  tp_runtime *runtime = session->runtime;
  size_t block_size;
  tp__drive *d = tp__block_take(tp__runtime_blocks(runtime), sizeof *d, &block_size);
  if (!d) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a turn");
  memset(d, 0, offsetof(tp__drive, fields));
  d->block_size = block_size;
  tp__arena_init(&d->arena, &tp__runtime_blocks(runtime)->as_allocator, d + 1, block_size - sizeof *d, 0);
  d->messages.arena = &d->arena;
  d->session = session;
  d->outcome = TP_TURN_COMPLETED;
  d->request = *request;
  d->has_own_id = request->id != NULL;
  if (d->request.said_unix_ms == 0) d->request.said_unix_ms = tp__unix_ms();
  d->start_message.deliver = start_delivered;
  tp__drive_init_queued(d);
  d->call = nesting ? nesting->attempt : NULL;
  d->call_timer.fire = call_looked_at;
  tp__list_init(&d->call_timer.link);
  tp__drive_init_busy(d);
  tp_agent *agent = tp__session_take_agent(session, nesting);
  tp__turn_ids ids = tp__session_ids(session, agent, nesting);
  tp_status status = TP_ERR_NO_MEMORY;
  if (copy_request(d, request)) status = tp__structured_take(d, request->answer_schema, fault);
  else (void)!tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a turn");
  if (status == TP_OK) status = tp__turn_new(runtime, &ids, request, kind, &d->turn, fault);
  tp_agent_unref(agent);
  if (status != TP_OK) {
    free_drive(d, runtime);
    return status;
  }
  d->turn->drive = d;
  d->models = session->owns_models || !d->turn->agent ? &session->models : &d->turn->agent->models;
  d->turn->core.release = free_held_turn;
  tp__session_hold(session);
  *ret_drive = d;
  if (!owned) tp__strand_leave(&d->turn->core.strand); /* delivers messages of a drain that may have come meanwhile */
  return TP_OK;
}

static void abort_delivered(tp__message *message) {
  tp__turn_over(TP__CONTAINER(message, tp__drive, start_message)->turn);
}

/* If a drain has cancelled the turn meanwhile, the turn has an owner already, which ends it. */
void tp__drive_abort(tp__drive *d) {
  tp__strand *strand = &d->turn->core.strand;
  bool owned = d->done || tp__strand_try_acquire(strand);
  if (!owned) {
    d->start_message.deliver = abort_delivered;
    tp__strand_push(strand, &d->start_message);
    return;
  }
  tp__turn_over(d->turn);
  tp__strand_leave(strand);
}
