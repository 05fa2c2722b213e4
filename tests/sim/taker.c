/* SPDX-License-Identifier: Apache-2.0
 *
 * taker.c: hosts that take the calls of some handlers from an inbox, work on them and answer through their tokens. They
 * stop after the drains, and before the runtime is freed: what was taken may be read no longer. */
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
    case WAY_DEFER_ON_CANCEL:
      world_start("stopper", complete_when_over, note);
      break;
    default:
      break;
  }
}

void taker_run(void *arg) {
  world *w = arg;
  int64_t close_ns = w->s->inbox_close_ns ? tp__now_ns() + w->s->inbox_close_ns : TP__NEVER;
  while (!w->takers_stop) {
    if (tp__now_ns() >= close_ns) { /* it is the only one that takes */
      taker_close(w);
      return;
    }
    const tp_work *work = NULL;
    int64_t until_ns = tp__deadline_after_ms(tp__now_ns(), LOOK_MS);
    if (!tp__inbox_wait_until(w->inbox, until_ns < close_ns ? until_ns : close_ns)) continue;
    tp_status status = tp_inbox_next(w->inbox, &work);
    if (status != TP_OK) world_fail(w, "an inbox gives what it has", "it gave %s", tp_status_name(status));
    if (!work) continue;
    if (work->kind != TP_WORK_HANDLER || work->struct_size != sizeof *work)
      world_fail(w, "work says what it is", "kind %d", (int)work->kind);
    answer(handler_take(work));
  }
}

void taker_close(world *w) {
  tp_inbox_free(w->inbox);
  w->inbox = NULL;
}
