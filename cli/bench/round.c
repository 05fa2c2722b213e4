/* SPDX-License-Identifier: Apache-2.0
 *
 * round.c: each turn that runs at once belongs to a client. A client begins a turn, submits each phase from the end of
 * the phase before it, ends the turn, and begins its next turn. Each thread writes statistics of its own, and clients
 * share nothing until they have ended, so that workers do not disturb each other.
 *
 * With a rate, the calling thread gives each turn, when it is due, to an idle client. If all clients are busy, the turn
 * waits, and its response time includes that wait. */
#include "cli/bench/round.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/schedule.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "support/lock.h"
#include "support/clock.h"

/** A turn under way, and its times so far. */
typedef struct request_run {
  tp_turn *turn;
  int64_t turn_ns, begin_ns;
  int64_t due_ns, late_ns; /* due_ns 0: there is no schedule */
} request_run;

/* @param number  different from that of any other turn of the round. */
static tp_status begin_turn(const cli_round *round, request_run *r, uint64_t number, tp_fault *fault) {
  char id[sizeof CLI_UNCOUNTED_TURN + 20];
  snprintf(id, sizeof id, CLI_UNCOUNTED_TURN "%llu", (unsigned long long)number);
  tp_turn_request request = {
      .struct_size = sizeof request, .id = round->statistics ? NULL : id, .caller = TP_CALLER_MANUAL_CLI};
  int64_t began_ns = tp__monotonic_ns();
  tp_status status = tp_turn_begin_bare(round->runtime, &request, &r->turn, fault);
  r->late_ns = began_ns - r->due_ns;
  r->turn_ns = r->begin_ns = tp__monotonic_ns() - began_ns;
  return status;
}

static void end_turn(cli_recorder *recorder, request_run *r, cli_statistics *statistics) {
  int64_t began_ns = tp__monotonic_ns();
  tp_turn_end(r->turn);
  int64_t ended_ns = tp__monotonic_ns(), end_ns = ended_ns - began_ns;
  if (!statistics) return;
  if (r->due_ns) {
    cli_histogram_add(&statistics->response, ended_ns - r->due_ns);
    cli_histogram_add(&statistics->late, r->late_ns);
  }
  cli_histogram_add(&statistics->begin, r->begin_ns);
  cli_histogram_add(&statistics->end, end_ns);
  cli_histogram_add(&statistics->turn, r->turn_ns + end_ns);
  cli_recorder_count(recorder);
}

/* Whether the phase was run, whatever the verdict of its handlers. Any other outcome is no measurement. */
static bool was_run(tp_status outcome) {
  return outcome == TP_OK || outcome == TP_ERR_DENIED || outcome == TP_ERR_HOOK || outcome == TP_ERR_CANCELLED ||
         outcome == TP_ERR_TOOL_CONFLICT;
}

static bool run_of_result(const void *source, size_t index, tp_run_record *row) {
  *row = *tp_phase_result_run(source, (uint32_t)index);
  return true;
}

static void record(cli_statistics *statistics, request_run *r, size_t at, int64_t duration_ns,
                   tp_phase_result *result) {
  const cli_statistics_entry entry = {.outcome = result->outcome,
                                      .duration_ns = duration_ns,
                                      .run_count = result->run_count,
                                      .run = run_of_result,
                                      .source = result};
  r->turn_ns += duration_ns;
  if (statistics) cli_statistics_add(statistics, at, &entry);
  tp_phase_result_release(r->turn, result);
}

/* ---- one after the other ---- */

static tp_status run_phase(const cli_round *round, request_run *r, size_t at, tp_fault *fault) {
  const cli_round_phase *phase = &round->phases[at];
  tp_phase_result result = {.struct_size = sizeof result};
  int64_t began_ns = tp__monotonic_ns();
  tp_status status = tp_phase_run(r->turn, phase->phase, &phase->input, &result, fault);
  int64_t duration_ns = tp__monotonic_ns() - began_ns;
  if (status == TP_OK) record(round->statistics, r, at, duration_ns, &result);
  return status;
}

static tp_status run_turn(const cli_round *round, uint32_t number, int64_t due_ns, tp_fault *fault) {
  request_run r = {.due_ns = due_ns};
  tp_status status = begin_turn(round, &r, number, fault);
  if (status != TP_OK) return status;
  for (size_t at = 0; status == TP_OK && at < round->phase_count; at++) status = run_phase(round, &r, at, fault);
  end_turn(round->recorder, &r, status == TP_OK ? round->statistics : NULL);
  return status;
}

static tp_status run_here(cli_round *round, tp_fault *fault) {
  tp_status status = TP_OK;
  cli_schedule schedule = cli_schedule_start(round->rate ? round->rate : 1);
  int64_t began_ns = schedule.began_ns;
  for (uint32_t i = 0; status == TP_OK && i < round->turns; i++)
    status = run_turn(round, i, round->rate ? cli_schedule_wait(&schedule, i) : 0, fault);
  round->elapsed_ns = tp__monotonic_ns() - began_ns;
  return status;
}

/* ---- several at once ---- */

/** What the clients share. */
typedef struct load {
  const cli_round *round;
  uint64_t number; /* unlike that of any other; from 1 */
  tp__lock mutex;
  tp__lock_condition ended;       /* a client has no turn any more */
  uint32_t clients_left;          /* under mutex: those with a turn */
  struct client *idle_clients;    /* under mutex: the others; only with a rate */
  tp_status status;               /* under mutex: the first failure */
  tp_fault fault;                 /* under mutex */
  cli_statistics *all_statistics; /* under mutex: those of every thread that measures */
} load;

typedef struct client {
  load *load;
  uint32_t number; /* number of the client, from 0 */
  uint32_t turns_left;
  request_run request_run;
  tp_session *session; /* of a whole turn */
  size_t at;           /* of a bare one: the phase under way */
  int64_t submitted_ns;
  struct client *next; /* of those that are idle */
} client;

static _Thread_local cli_statistics *my_statistics; /* of the load of that number */
static _Thread_local uint64_t my_number;

static cli_statistics *statistics_of_thread(load *t) {
  const cli_statistics *total = t->round->statistics;
  if (!total || my_number == t->number) return total ? my_statistics : NULL;
  my_statistics = cli_statistics_new(total->phase_count, total->step_ns, total->timed);
  my_number = t->number;
  tp__lock_acquire(&t->mutex);
  my_statistics->next = t->all_statistics;
  t->all_statistics = my_statistics;
  tp__lock_release(&t->mutex);
  return my_statistics;
}

static void client_ended(client *l, tp_status status, const tp_fault *fault) {
  load *t = l->load;
  tp__lock_acquire(&t->mutex);
  TP__ASSERT(t->clients_left > 0);
  if (status != TP_OK && t->status == TP_OK) {
    t->status = status;
    t->fault = *fault;
  }
  l->next = t->idle_clients;
  t->idle_clients = l;
  t->clients_left--;
  if (t->clients_left == 0 || t->round->rate) tp__lock_condition_signal(&t->ended);
  tp__lock_release(&t->mutex);
}

static void phase_ended(void *ctx, const tp_phase_result *result);

/* When the submit has succeeded, the client belongs to the thread that ends the phase. */
static tp_status submit_phase(client *l, tp_fault *fault) {
  const cli_round_phase *phase = &l->load->round->phases[l->at];
  l->submitted_ns = tp__monotonic_ns();
  return tp_phase_submit(l->request_run.turn, phase->phase, &phase->input, phase_ended, l, fault);
}

static void stop_client(client *l, tp_status status, const tp_fault *fault) {
  tp_turn_end(l->request_run.turn);
  client_ended(l, status, fault);
}

static void begin_next(client *l);

/* ---- whole turns ---- */

static void session_closed(void *ctx) { begin_next(ctx); }

static void whole_ended(void *ctx, const tp_turn_result *result) {
  int64_t ended_ns = tp__monotonic_ns();
  client *l = ctx;
  cli_statistics *statistics = statistics_of_thread(l->load);
  const request_run *r = &l->request_run;
  if (statistics) {
    if (r->due_ns) {
      cli_histogram_add(&statistics->response, ended_ns - r->due_ns);
      cli_histogram_add(&statistics->late, r->late_ns);
    }
    cli_statistics_add_turn(statistics, ended_ns - l->submitted_ns, result);
    cli_recorder_count(l->load->round->recorder);
  }
  tp_session_close(l->session, session_closed, l);
}

/* Each turn is the first of a session, so that no turn has a longer history than another. */
static tp_status submit_whole(client *l, uint64_t number, tp_fault *fault) {
  const cli_round *round = l->load->round;
  char id[48], turn_id[sizeof CLI_UNCOUNTED_TURN + 20];
  tp_model script = *round->scripts[l->number];
  script.destroy = NULL; /* it goes on to the next session */
  snprintf(id, sizeof id, "bench-%u", l->number);
  snprintf(turn_id, sizeof turn_id, CLI_UNCOUNTED_TURN "%llu", (unsigned long long)number);
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &script};
  tp_status status = tp_session_open(round->runtime, &options, &l->session, fault);
  if (status != TP_OK) return status;
  const tp_turn_request request = {.struct_size = sizeof request,
                                   .id = round->statistics ? NULL : turn_id,
                                   .caller = TP_CALLER_MANUAL_CLI,
                                   .text = round->text};
  l->submitted_ns = tp__monotonic_ns();
  l->request_run.late_ns = l->submitted_ns - l->request_run.due_ns;
  status = tp_turn_submit(l->session, &request, whole_ended, l, NULL, fault);
  if (status != TP_OK) tp_session_close(l->session, NULL, NULL);
  return status;
}

/* ---- the turns of a client ---- */

static void begin_next(client *l) {
  tp_fault fault = {0};
  if (l->turns_left == 0) {
    client_ended(l, TP_OK, NULL);
    return;
  }
  l->turns_left--;
  l->at = 0;
  uint64_t number = (uint64_t)l->number << 32 | l->turns_left;
  if (l->load->round->scripts) {
    tp_status submitted = submit_whole(l, number, &fault);
    if (submitted != TP_OK) client_ended(l, submitted, &fault);
    return;
  }
  tp_status status = begin_turn(l->load->round, &l->request_run, number, &fault);
  if (status != TP_OK) {
    client_ended(l, status, &fault);
    return;
  }
  status = submit_phase(l, &fault);
  if (status != TP_OK) stop_client(l, status, &fault);
}

static void phase_ended(void *ctx, const tp_phase_result *theirs) {
  int64_t ended_ns = tp__monotonic_ns();
  client *l = ctx;
  cli_statistics *statistics = statistics_of_thread(l->load);
  tp_phase_result result = *theirs;
  tp_fault fault = {0};
  if (!was_run(result.outcome)) {
    stop_client(l, result.outcome, &fault);
    return;
  }
  record(statistics, &l->request_run, l->at, ended_ns - l->submitted_ns, &result);
  if (++l->at == l->load->round->phase_count) {
    end_turn(l->load->round->recorder, &l->request_run, statistics);
    begin_next(l);
    return;
  }
  tp_status status = submit_phase(l, &fault);
  if (status != TP_OK) stop_client(l, status, &fault);
}

static void wait_for_clients(load *t) {
  tp__lock_acquire(&t->mutex);
  while (t->clients_left > 0) tp__lock_condition_wait(&t->ended, &t->mutex);
  tp__lock_release(&t->mutex);
}

/* @return NULL after a failure: then no further turn begins. */
static client *take_idle_client(load *t) {
  tp__lock_acquire(&t->mutex);
  while (!t->idle_clients) tp__lock_condition_wait(&t->ended, &t->mutex);
  client *l = t->status == TP_OK ? t->idle_clients : NULL;
  if (l) {
    t->idle_clients = l->next;
    t->clients_left++;
  }
  tp__lock_release(&t->mutex);
  return l;
}

static void begin_on_schedule(load *t, client *clients, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    clients[i] = (client){.load = t, .number = i, .next = t->idle_clients};
    t->idle_clients = &clients[i];
  }
  cli_schedule schedule = cli_schedule_start(t->round->rate);
  for (uint32_t i = 0; i < t->round->turns; i++) {
    int64_t due_ns = cli_schedule_wait(&schedule, i);
    client *l = take_idle_client(t);
    if (!l) return;
    l->request_run.due_ns = due_ns;
    l->turns_left = 1;
    begin_next(l);
  }
}

static void begin_all(load *t, client *clients, uint32_t count) {
  uint32_t turns = t->round->turns;
  t->clients_left = count;
  for (uint32_t i = 0; i < count; i++)
    clients[i] = (client){.load = t, .number = i, .turns_left = turns / count + (i < turns % count)};
  for (uint32_t i = 0; i < count; i++) begin_next(&clients[i]);
}

static void add_up(load *t) {
  while (t->all_statistics) {
    cli_statistics *next = t->all_statistics->next;
    cli_statistics_merge(t->round->statistics, t->all_statistics);
    cli_statistics_free(t->all_statistics);
    t->all_statistics = next;
  }
}

static tp_status run_in_clients(cli_round *round, tp_fault *fault) {
  static uint64_t last_number;
  uint32_t count = round->concurrency < round->turns ? round->concurrency : round->turns;
  load t = {.round = round,
            .number = ++last_number,
            .mutex = TP__LOCK_INITIALIZER(TP__LOCK_round),
            .ended = TP__LOCK_CONDITION_INITIALIZER};
  client *clients = cli_alloc(count * sizeof *clients);
  int64_t began_ns = tp__monotonic_ns();
  if (round->rate) begin_on_schedule(&t, clients, count);
  else begin_all(&t, clients, count);
  wait_for_clients(&t);
  round->elapsed_ns = tp__monotonic_ns() - began_ns;
  add_up(&t);
  tp__lock_condition_fini(&t.ended);
  tp__lock_fini(&t.mutex);
  free(clients);
  *fault = t.fault;
  return t.status;
}

int cli_round_run(cli_round *round) {
  assert((round->phase_count > 0 || round->scripts) && round->turns > 0);
  tp_fault fault = {0};
  round->began_ms = tp__wall_ms();
  tp_status status = round->concurrency > 1 || round->scripts ? run_in_clients(round, &fault) : run_here(round, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(NULL, status, &fault);
}
