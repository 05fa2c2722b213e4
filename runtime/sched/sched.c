/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/sched.h"

tp_status tp__sched_init(tp__sched *sched, const tp__sched_options *options) {
  memset(sched, 0, sizeof *sched);
  sched->options = *options;
  TP__TRY(tp__pump_init(&sched->pump));
  tp_status status = tp__workers_init(&sched->workers, &sched->options);
  if (status == TP_OK) {
    status = tp__pool_init(&sched->pool, &sched->options);
    if (status == TP_OK) {
      status = tp__timer_init(&sched->timer);
      if (status == TP_OK) return TP_OK;
      tp__pool_fini(&sched->pool);
    }
    tp__workers_fini(&sched->workers);
  }
  tp__pump_fini(&sched->pump);
  return status;
}

tp_status tp__sched_start(tp__sched *sched) {
  if (sched->options.pumped) TP__TRY(tp__pump_open(&sched->pump));
  tp_status status = tp__timer_start(&sched->timer, sched->options.allocator);
  if (status == TP_OK) status = tp__workers_start(&sched->workers);
  if (status != TP_OK) tp__sched_stop(sched);
  return status;
}

/* The timer stops first: a strand that it pushes, under its lock, needs the workers. */
void tp__sched_stop(tp__sched *sched) {
  tp__timer_stop(&sched->timer);
  tp__workers_stop(&sched->workers);
}

void tp__sched_fini(tp__sched *sched) {
  tp__timer_fini(&sched->timer);
  tp__pool_fini(&sched->pool);
  tp__workers_fini(&sched->workers);
  tp__pump_fini(&sched->pump);
}
