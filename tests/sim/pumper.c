/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/runtime.h"
#include "world.h"

enum { ITEMS_MAX = 4 };

/* When memory or the start is refused, it tries again. After the drain of a runtime that never started, there is
 * nothing to pump until another drain is submitted. */
static bool start(world *w) {
  while (!w->pump_stops) {
    tp_status status = tp_runtime_start(w->runtime, NULL);
    bool is_shut = status == TP_ERR_SHUTDOWN;
    if (status == TP_OK || is_shut) {
      if (tp__pump_is_open(&tp__runtime_sched(w->runtime)->pump)) return true;
    } else {
      world_check_status(w, "to start a runtime that is pumped", status);
    }
    tp__sim_sleep_ns(is_shut ? 20 * TP__NS_PER_MS : 100 * TP__NS_PER_US); /* a poll costs steps */
  }
  return false;
}

static void wait_for_work(world *w, int wait_ms) {
  int64_t until_ns = wait_ms < 0 ? TP__NEVER : tp__deadline_after_ms(tp__now_ns(), (uint64_t)wait_ms);
  if (wait_ms < -1) world_fail(w, "a pump says when the next one is due", "in %d ms", wait_ms);
  if (wait_ms != 0) (void)tp__pollable_wait_until(&tp__runtime_sched(w->runtime)->pump.pollable, until_ns);
}

void pumper_run(void *arg) {
  world *w = arg;
  if (!start(w)) return;
  while (!w->pump_stops) {
    int wait_ms = -1;
    uint32_t items_max = world_one_in(2) ? 0 : 1 + (uint32_t)tp__sim_random(ITEMS_MAX);
    tp_status status = tp_runtime_pump(w->runtime, items_max, &wait_ms, NULL);
    if (status != TP_OK && status != TP_ERR_BUSY) world_fail(w, "a pump runs", "it gave %s", tp_status_name(status));
    if (world_one_in(8)) tp__sim_sleep_ns(world_pause_ns(500)); /* the loop has other things to do */
    if (!w->pump_stops) wait_for_work(w, wait_ms);              /* a wake-up from before may be taken */
  }
}

/* Wakes it by the descriptor itself, as a host would by a pipe of its own. So a bug in which the pump wakes no host is
 * found. */
void pumper_stop(world *w) {
  tp__pump *pump = &tp__runtime_sched(w->runtime)->pump;
  w->pump_stops = true;
  tp__mutex_lock(&pump->mutex);
  if (tp__pump_is_open(pump) && !pump->is_set) tp__pollable_set(&pump->pollable);
  pump->is_set = tp__pump_is_open(pump);
  tp__mutex_unlock(&pump->mutex);
}
