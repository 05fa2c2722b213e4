/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/turn/event_inbox.h"

#include "phases/merge/contribution.h"
#include "phases/model/messages.h"

enum { FIRST_BYTES = 256, TURN_ENDS_MAX = 65536 };

struct tp__event_inbox {
  /* never changes */
  tp__listener *listener;
  tp_inbox *inbox; /* referenced */
  tp__mutex mutex;
  /* under mutex */
  uint64_t lost;      /* since the last TP_EVENT_LOST was taken */
  bool marker_waits;  /* in the inbox */
  bool marker_taken;  /* and not returned */
  size_t piece_bytes; /* bytes of pieces of answers that were put and have not ended; counted when held_bytes is set */
  /* The marker: used by the thread that puts it, then by the one that takes it */
  tp__inbox_note marker;
  tp_event lost_event;
};

/* An event that waits or was taken. */
typedef struct copy {
  tp__inbox_note in_inbox;
  tp__listener *listener; /* referenced */
  tp_hold *hold;          /* the hold of the answer to which the piece belongs; or NULL */
  size_t piece_bytes;     /* that are counted */
  tp_allocator allocator;
  tp__arena arena;
  tp_event event;
  tp_text ids[TP_ID_COUNT];
  tp__event_data data;
  tp_run_record run;
  tp_contribution contribution;
  tp_tool_call call;
  tp_tool_result result;
  tp_job job;
  tp_question question;
  _Alignas(8) char first[FIRST_BYTES];
} copy;

/* ---- copying ---- */

static bool copy_run(copy *c, const tp_run_record *run) {
  c->run = *run;
  c->event.run = &c->run;
  return tp__arena_string(&c->arena, run->subscription, &c->run.subscription) &&
         tp__arena_string(&c->arena, run->handler, &c->run.handler) &&
         tp__arena_string(&c->arena, run->owner, &c->run.owner);
}

static bool copy_contribution(copy *c, const tp_contribution *contribution) {
  c->event.contribution = &c->contribution;
  return tp__contribution_copy(&c->arena, contribution, &c->contribution) == TP_OK;
}

static bool copy_call(copy *c, const tp_tool_call *call) {
  c->event.tool_call = &c->call;
  return tp__tool_call_read(call, &c->call, NULL) == TP_OK && tp__arena_text(&c->arena, c->call.id, &c->call.id) &&
         tp__arena_text(&c->arena, c->call.name, &c->call.name) &&
         tp__arena_text(&c->arena, c->call.arguments, &c->call.arguments);
}

static bool copy_result(copy *c, const tp_tool_result *result) {
  c->result = *result;
  c->event.tool_result = &c->result;
  return tp__arena_text(&c->arena, result->call_id, &c->result.call_id) &&
         tp__arena_text(&c->arena, result->name, &c->result.name) &&
         tp__arena_text(&c->arena, result->text, &c->result.text) &&
         tp__arena_text(&c->arena, result->value, &c->result.value) &&
         tp__arena_text(&c->arena, result->parts, &c->result.parts) &&
         tp__arena_text(&c->arena, result->waited_key, &c->result.waited_key);
}

static bool copy_job(copy *c, const tp_job *job) {
  c->job = *job;
  c->event.job = &c->job;
  tp_text *texts[] = {&c->job.handler,   &c->job.subscription, &c->job.idempotency_key,
                      &c->job.order_key, &c->job.message,      &c->job.payload};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!tp__arena_text(&c->arena, *texts[i], texts[i])) return false;
  return true;
}

/* Called after copy_call(): the call and the ids are those of the event. */
static bool copy_question(copy *c, const tp_question *question) {
  c->question = *question;
  c->event.question = &c->question;
  c->question.ids = c->ids;
  c->question.call = &c->call;
  return tp__arena_text(&c->arena, question->subscription, &c->question.subscription) &&
         tp__arena_text(&c->arena, question->reason, &c->question.reason) &&
         tp__arena_text(&c->arena, question->arguments_hash, &c->question.arguments_hash) &&
         tp__arena_text(&c->arena, question->key, &c->question.key);
}

static bool copy_event(copy *c, const tp_event *event) {
  c->event = *event;
  c->event.ids = c->ids;
  c->event.turn = NULL;
  c->event.copied = &c->data;
  c->data.of_runtime = tp_event_data(event, TP_ID_RUNTIME);
  for (uint32_t i = 0; i < TP_ID_COUNT; i++) {
    c->data.of_ids[i] = tp_event_data(event, i);
    if (!tp__arena_text(&c->arena, event->ids[i], &c->ids[i])) return false;
  }
  return tp__arena_text(&c->arena, event->text, &c->event.text) &&
         tp__arena_text(&c->arena, event->model, &c->event.model) &&
         tp__arena_string(&c->arena, event->subscription, &c->event.subscription) &&
         (!event->run || copy_run(c, event->run)) &&
         (!event->contribution || copy_contribution(c, event->contribution)) &&
         (!event->tool_call || copy_call(c, event->tool_call)) &&
         (!event->tool_result || copy_result(c, event->tool_result)) && (!event->job || copy_job(c, event->job)) &&
         (!event->question || copy_question(c, event->question)) &&
         tp__arena_text(&c->arena, event->parent_turn, &c->event.parent_turn) &&
         tp__arena_text(&c->arena, event->finish_word, &c->event.finish_word);
}

static void copy_free(copy *c) {
  tp_allocator allocator = c->allocator;
  tp__arena_fini(&c->arena);
  tp__release(&allocator, c, sizeof *c);
}

/* ---- an event in the inbox ---- */

/* Called before the event is put, because afterwards it may be taken and released. */
static void count_piece(tp__event_inbox *through, copy *c, const tp_event *event) {
  size_t held_bytes = through->listener->held_bytes;
  if (held_bytes == 0 || !(event->kind == TP_EVENT_MODEL_DELTA || event->kind == TP_EVENT_THINKING)) return;
  tp__mutex_lock(&through->mutex);
  c->piece_bytes = event->text.size;
  through->piece_bytes += c->piece_bytes;
  bool holds = through->piece_bytes > held_bytes;
  tp__mutex_unlock(&through->mutex);
  if (holds) c->hold = tp_event_hold(event);
}

/* It has ended, or was not put. */
static void uncount_piece(tp__event_inbox *through, copy *c) {
  if (c->piece_bytes > 0) {
    tp__mutex_lock(&through->mutex);
    TP__ASSERT(through->piece_bytes >= c->piece_bytes);
    through->piece_bytes -= c->piece_bytes;
    tp__mutex_unlock(&through->mutex);
  }
  tp_hold_release(c->hold);
}

static void copy_end(tp__inbox_note *event) {
  copy *c = TP__CONTAINER(event, copy, in_inbox);
  tp__listener *listener = c->listener;
  tp_inbox *inbox = event->item.inbox;
  uncount_piece(listener->through, c);
  copy_free(c);
  tp__listener_unref(listener);
  tp__inbox_unref(inbox);
}

static bool is_removed(const tp__listener *listener) {
  return tp__a32_load_acquire(&((tp__listener *)(uintptr_t)listener)->removed); /* as wants() */
}

static bool copy_take(tp__inbox_note *event) {
  if (!is_removed(TP__CONTAINER(event, copy, in_inbox)->listener)) return true;
  copy_end(event);
  return false;
}

/* @return NULL without memory. */
static copy *copy_new(tp__listener *listener, const tp_event *event) {
  copy *c = tp__alloc(&listener->allocator, sizeof *c);
  if (!c) return NULL;
  c->allocator = listener->allocator;
  c->listener = listener;
  c->hold = NULL;
  c->piece_bytes = 0;
  tp__arena_init(&c->arena, &c->allocator, c->first, sizeof c->first, 0);
  c->in_inbox = (tp__inbox_note){.take = copy_take, .end = copy_end};
  c->in_inbox.item.work =
      (tp_work){.struct_size = sizeof(tp_work), .kind = TP_WORK_EVENT, .ctx = listener->ctx, .event = &c->event};
  if (!copy_event(c, event)) {
    copy_free(c);
    return NULL;
  }
  tp__listener_ref(listener);
  return c;
}

/* ---- those that were lost ---- */

/* Puts the marker unless it is in the inbox or the host has it. The inbox always has space for it. */
static void put_marker_locked(tp__event_inbox *through) {
  TP__LOCKED(&through->mutex);
  if (through->marker_waits || through->marker_taken) return;
  tp__inbox_put_end end = tp__inbox_put_event(through->inbox, &through->marker, UINT32_MAX);
  if (end != TP__INBOX_PUT) return; /* closed: nothing of it will be taken */
  through->marker_waits = true;
  tp__listener_ref(through->listener);
}

static void lose_locked(tp__event_inbox *through) {
  TP__LOCKED(&through->mutex);
  through->lost++;
  put_marker_locked(through);
}

static tp__event_inbox *of_marker(tp__inbox_note *event) { return TP__CONTAINER(event, tp__event_inbox, marker); }

static void marker_end(tp__inbox_note *event) {
  tp__event_inbox *through = of_marker(event);
  tp_inbox *inbox = event->item.inbox; /* the put acquired a reference */
  tp__mutex_lock(&through->mutex);
  through->marker_waits = through->marker_taken = false;
  if (through->lost > 0) put_marker_locked(through);
  tp__mutex_unlock(&through->mutex);
  tp__listener_unref(through->listener);
  tp__inbox_unref(inbox);
}

/* From here on events are put again, after the marker. */
static bool marker_take(tp__inbox_note *event) {
  tp__event_inbox *through = of_marker(event);
  static const tp_text no_ids[TP_ID_COUNT];
  if (is_removed(through->listener)) {
    tp__mutex_lock(&through->mutex);
    through->lost = 0;
    tp__mutex_unlock(&through->mutex);
    marker_end(event);
    return false;
  }
  tp__mutex_lock(&through->mutex);
  through->marker_waits = false;
  through->marker_taken = true;
  through->lost_event = (tp_event){.struct_size = sizeof(tp_event),
                                   .kind = TP_EVENT_LOST,
                                   .time_ns = tp__now_ns(),
                                   .unix_ms = tp__unix_ms(),
                                   .ids = no_ids,
                                   .id_count = TP_ID_COUNT,
                                   .visibility = TP_VISIBILITY_USER_VISIBLE,
                                   .lost = through->lost};
  through->lost = 0;
  tp__mutex_unlock(&through->mutex);
  return true;
}

/* ---- the listener's side ---- */

tp__event_inbox *tp__event_inbox_new(tp__listener *listener, tp_inbox *inbox) {
  tp__event_inbox *through = tp__alloc_zero(&listener->allocator, sizeof *through);
  if (!through) return NULL;
  if (tp__mutex_init(&through->mutex, TP__RANK_event_inbox) != TP_OK) {
    tp__release(&listener->allocator, through, sizeof *through);
    return NULL;
  }
  through->listener = listener;
  through->inbox = inbox;
  tp__inbox_ref(inbox);
  through->marker = (tp__inbox_note){.take = marker_take, .end = marker_end};
  through->marker.item.work = (tp_work){
      .struct_size = sizeof(tp_work), .kind = TP_WORK_EVENT, .ctx = listener->ctx, .event = &through->lost_event};
  return through;
}

void tp__event_inbox_free(tp__event_inbox *through) {
  if (!through) return;
  tp_allocator allocator = through->listener->allocator;
  tp__mutex_fini(&through->mutex);
  tp__inbox_unref(through->inbox);
  tp__release(&allocator, through, sizeof *through);
}

void tp__event_inbox_put(tp__event_inbox *through, const tp_event *event) {
  bool is_end = event->kind == TP_EVENT_TURN_END;
  copy *c = copy_new(through->listener, event);
  tp__inbox_put_end end = TP__INBOX_FULL;
  if (c) count_piece(through, c, event);
  tp__mutex_lock(&through->mutex);
  /* the host has the marker, so it cannot be put before the end */
  bool reports_lost = is_end && !through->marker_waits;
  if (c && reports_lost) c->event.lost = through->lost;
  if (c && (is_end || through->lost == 0))
    end = tp__inbox_put_event(through->inbox, &c->in_inbox, is_end ? TURN_ENDS_MAX : 0);
  if (end == TP__INBOX_PUT && reports_lost) through->lost = 0;
  if (end == TP__INBOX_FULL) lose_locked(through);
  tp__mutex_unlock(&through->mutex);
  if (end == TP__INBOX_PUT || !c) return; /* the thread that took it may have ended it */
  uncount_piece(through, c);
  copy_free(c);
  tp__listener_unref(through->listener);
}
