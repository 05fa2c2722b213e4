/* SPDX-License-Identifier: Apache-2.0
 *
 * destructor.c: the calls of a host's destructors to the runtime that destroys their object: of a handler, a match, a
 * deferral, a tool, a model, a history, a listener and the store, on any thread, at any time of the runtime's life.
 * Waiting functions are refused there; the others work or return an error; nothing waits for itself. */
#include "world.h"

#include <stdio.h>

static void must_be_refused(world *w, const char *what, tp_status status) {
  if (status == TP_ERR_USAGE || (status == TP_ERR_SHUTDOWN && w->draining)) return;
  world_fail(w, "a destructor must not wait", "%s gave %s", what, tp_status_name(status));
}

static void call_what_waits(world *w) {
  tp_agent *agent;
  tp_agent_config config = {.struct_size = sizeof config, .id = "of-a-destructor"};
  must_be_refused(w, "tp_jobs_wait", tp_jobs_wait(w->runtime, "", 1000, NULL));
  must_be_refused(w, "tp_runtime_drain", tp_runtime_drain(w->runtime, 1000, NULL, NULL));
  must_be_refused(w, "tp_agent_add", tp_agent_add(w->runtime, &config, &agent, NULL));
  tp_runtime_free(w->runtime); /* frees nothing */
}

static void call_what_registers(world *w) {
  tp_edit *edit;
  tp_status status = tp_edit_begin(w->runtime, NULL, &edit, NULL);
  world_check_status(w, "tp_edit_begin in a destructor", status);
  if (status == TP_OK) tp_edit_discard(edit);
  status = tp_subscription_kill(w->runtime, "unknown", true, NULL);
  if (status != TP_ERR_NOT_FOUND) world_check_status(w, "tp_subscription_kill in a destructor", status);
}

static void print_nothing(void *ctx, const char *text, size_t size) { (void)ctx, (void)text, (void)size; }

static bool look_at_record(void *ctx, const tp_entry_record *record) {
  (void)ctx, (void)record;
  return false;
}

static void call_what_inspects(world *w) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(w->runtime, &stats);
  (void)tp_runtime_leaks(w->runtime, NULL, NULL);
  (void)tp_runtime_audit(w->runtime, TP_VISIBILITY_INTERNAL, NULL, NULL);
  (void)tp_phase_find(w->runtime, "turn.intake");
  world_check_status(w, "tp_runtime_records in a destructor",
                     tp_runtime_records(w->runtime, NULL, look_at_record, NULL, NULL));
  world_check_status(w, "tp_phases_print in a destructor",
                     tp_phases_print(w->runtime, TP_PLAN_TABLE, print_nothing, NULL));
}

static void call_what_begins(world *w) {
  tp_turn *turn;
  tp_turn_request request = {.struct_size = sizeof request};
  w->destructor_turns++;
  tp_status status = tp_turn_begin_bare(w->runtime, &request, &turn, NULL);
  world_check_status(w, "tp_turn_begin_bare in a destructor", status);
  if (status == TP_OK) tp_turn_end(turn);
  w->destructor_turns--;
}

static void call_session(world *w) {
  char id[24];
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = id};
  snprintf(id, sizeof id, "destructor-%u", ++w->destructor_sessions);
  tp_status status = tp_session_open(w->runtime, &options, &session, NULL);
  world_check_status(w, "tp_session_open in a destructor", status);
  if (status == TP_OK) tp_session_close(session, NULL, NULL);
}

void world_destructor_by_host(world *w) {
  if (!w->freed) world_destructor(w);
}

void world_destructor(world *w) {
  if (!w->runtime || !w->s->destructors_call) return;
  switch (tp__sim_random(8)) {
    case 0:
      call_what_waits(w);
      return;
    case 1:
      call_what_registers(w);
      return;
    case 2:
      call_what_inspects(w);
      return;
    case 3:
      call_what_begins(w);
      return;
    case 4:
      call_session(w);
      return;
    default:
      return;
  }
}
