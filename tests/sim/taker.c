/* SPDX-License-Identifier: Apache-2.0
 *
 * taker.c: hosts that take the calls of some handlers from an inbox, work on them and answer through their tokens. They
 * stop after the drains, and before the runtime is freed, because taken work must not be read after that. */
#include "runtime/exec/runtime.h"
#include "world.h"

enum { LOOK_MS = 5000 };

tp_status taker_open(world *w) {
  if (!w->s->taker_count) return TP_OK;
  tp_inbox_options options = {.struct_size = sizeof options, .capacity = w->s->inbox_capacity};
  return tp_inbox_new(w->runtime, &options, &w->inbox, NULL);
}

/* It stops early: the answer is not wanted any more. */
static void complete_when_over(void *arg) {
  call_note *note = arg;
  while (tp_token_open(note->token)) tp__sim_sleep_ns(TP__NS_PER_MS);
  if (handler_complete(note) == TP_OK)
    world_fail(note->w, "a token that is not open is stale", "node %d: its completion was taken", note->node);
}

static void answer(call_note *note) {
  switch (note->move->way) {
    case WAY_RETURN:
    case WAY_DEFER_INSIDE:
    case WAY_DEFER_AND_RETURN:
      (void)!handler_complete(note);
      break;
    case WAY_DEFER_TWICE:
      handler_complete_later(note); /* fall through */
    case WAY_DEFER:
      handler_complete_later(note);
      break;
    case WAY_DEFER_ON_CANCEL: /* its cancel comes through the inbox, where that is not freed before */
      if (note->w->s->inbox_close_ns) world_start("stopper", complete_when_over, note);
      else if (note->cancels > 0) (void)!handler_complete(note);
      break;
    default:
      break;
  }
}

static void take(world *w) {
  const tp_work *work = NULL;
  uint64_t looks = ++w->looks;
  tp_status status = tp_inbox_next(w->inbox, &work);
  if (status != TP_OK) world_fail(w, "an inbox gives what it has", "it gave %s", tp_status_name(status));
  if (!work) return;
  if (work->struct_size != sizeof *work) world_fail(w, "work says what it is", "%zu bytes", work->struct_size);
  switch (work->kind) {
    case TP_WORK_HANDLER:
      answer(handler_take(work));
      return;
    case TP_WORK_CANCEL:
      handler_cancel(w, work, looks);
      break;
    case TP_WORK_DESTROY:
      break;
    default:
      world_fail(w, "work says what it is", "kind %d", (int)work->kind);
  }
  if (tp_work_release(work) != TP_OK) world_fail(w, "work without an answer is released", "kind %d", (int)work->kind);
}

void taker_run(void *arg) {
  world *w = arg;
  int64_t close_ns = w->s->inbox_close_ns ? tp__now_ns() + w->s->inbox_close_ns : TP__NEVER;
  while (!w->takers_stop) {
    if (tp__now_ns() >= close_ns) { /* it is the only one that takes */
      taker_close(w);
      return;
    }
    int64_t until_ns = tp__deadline_after_ms(tp__now_ns(), LOOK_MS);
    if (!tp__inbox_wait_until(w->inbox, until_ns < close_ns ? until_ns : close_ns)) continue;
    take(w);
  }
  while (tp__inbox_wait_until(w->inbox, 1)) take(w); /* what the drains left there */
}

void taker_look_at_cancels(const world *w) {
  for (const call_note *note = w->calls; note; note = note->next)
    if (note->in_inbox && note->move->way == WAY_DEFER_ON_CANCEL && !w->s->inbox_close_ns && note->cancels != 1)
      world_fail((world *)(uintptr_t)w, "the cancel of taken work comes once", "node %d: %u times", note->node,
                 note->cancels);
}

void taker_close(world *w) {
  tp_inbox_free(w->inbox);
  w->inbox = NULL;
}
