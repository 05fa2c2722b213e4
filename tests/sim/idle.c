/* SPDX-License-Identifier: Apache-2.0
 *
 * idle.c: a host that opens very many sessions and leaves them to the drain, which must end each of them once. */
#include "world.h"

#include <stdio.h>

void idle_run(void *arg) {
  world *w = arg;
  for (uint32_t i = 0; i < w->s->idle_sessions; i++) {
    char id[16];
    tp_session *session;
    tp_session_options options = {.struct_size = sizeof options, .id = id};
    snprintf(id, sizeof id, "idle-%u", i);
    tp_status status = tp_session_open(w->runtime, &options, &session, NULL);
    world_check_status(w, "tp_session_open of an idle session", status);
    if (status == TP_OK) w->idle_opened++;
    if (i % 64 == 0) tp__sim_sleep_ns(world_pause_ns(100));
  }
}

static tp_answer hear_end(void *ctx, tp_call *call) {
  world *w = ctx;
  tp_text id = tp_call_id(call, TP_ID_SESSION);
  w->idle_ended += id.size > 5 && memcmp(id.data, "idle-", 5) == 0;
  return TP_ANSWER_DONE;
}

tp_status idle_register(world *w, tp_edit *edit) {
  static const world_hook end = {.id = "z.end", .phase = TP_PHASE_SESSION_END, .run = hear_end, .is_inline = true};
  return world_subscribe(w, edit, &end);
}

void idle_ended(world *w) {
  bool all = w->s->fault_level < FAULTS_CLOCK; /* else a jump may take the time of a handler */
  if (w->idle_ended > w->idle_opened || (all && w->idle_ended != w->idle_opened))
    world_fail(w, "a drain ends each idle session once", "%u of %u", w->idle_ended, w->idle_opened);
}
