/* SPDX-License-Identifier: Apache-2.0
 *
 * round.c: turns that run at once go in lanes: a lane begins a turn, submits one phase after the other from the end of
 * the one before, ends the turn and begins its next one. So that workers do not stand in each other's way each thread
 * writes a sheet of its own, and lanes share nothing till they have ended. */
#include "cli/bench/round.h"

#include <pthread.h>
#include <stdlib.h>

#include "cli/common/exit_status.h"
#include "cli/common/machine.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"

/** A turn under way, and its times so far. */
typedef struct ride {
  tp_turn *turn;
  int64_t turn_ns, begin_ns;
} ride;

static tp_status begin_turn(const cli_round *round, ride *r, tp_fault *fault) {
  tp_turn_request request = {.struct_size = sizeof request, .caller = TP_CALLER_MANUAL_CLI};
  int64_t began_ns = cli_now_ns();
  tp_status status = tp_turn_begin_bare(round->runtime, &request, &r->turn, fault);
  r->turn_ns = r->begin_ns = cli_now_ns() - began_ns;
  return status;
}

static void end_turn(ride *r, cli_sheet *sheet) {
  int64_t began_ns = cli_now_ns();
  tp_turn_end(r->turn);
  int64_t end_ns = cli_now_ns() - began_ns;
  if (!sheet) return;
  cli_histogram_add(&sheet->begin, r->begin_ns);
  cli_histogram_add(&sheet->end, end_ns);
  cli_histogram_add(&sheet->turn, r->turn_ns + end_ns);
}

/* A phase that was run, whatever its handlers said; all else is no measurement. */
static bool was_run(tp_status outcome) {
  return outcome == TP_OK || outcome == TP_ERR_DENIED || outcome == TP_ERR_HOOK || outcome == TP_ERR_CANCELLED ||
         outcome == TP_ERR_TOOL_CONFLICT;
}

static void take_down(cli_sheet *sheet, ride *r, size_t at, int64_t took_ns, tp_phase_result *result) {
  r->turn_ns += took_ns;
  if (sheet) cli_sheet_add(sheet, at, took_ns, result);
  tp_phase_result_release(r->turn, result);
}

/* ---- one after the other ---- */

static tp_status run_phase(const cli_round *round, ride *r, size_t at, tp_fault *fault) {
  const cli_round_phase *phase = &round->phases[at];
  tp_phase_result result = {.struct_size = sizeof result};
  int64_t began_ns = cli_now_ns();
  tp_status status = tp_phase_run(r->turn, phase->phase, &phase->input, &result, fault);
  int64_t took_ns = cli_now_ns() - began_ns;
  if (status == TP_OK) take_down(round->sheet, r, at, took_ns, &result);
  return status;
}

static tp_status run_turn(const cli_round *round, tp_fault *fault) {
  ride r;
  tp_status status = begin_turn(round, &r, fault);
  if (status != TP_OK) return status;
  for (size_t at = 0; status == TP_OK && at < round->phase_count; at++) status = run_phase(round, &r, at, fault);
  end_turn(&r, status == TP_OK ? round->sheet : NULL);
  return status;
}

static tp_status run_here(cli_round *round, tp_fault *fault) {
  tp_status status = TP_OK;
  int64_t began_ns = cli_now_ns();
  for (uint32_t i = 0; status == TP_OK && i < round->turns; i++) status = run_turn(round, fault);
  round->elapsed_ns = cli_now_ns() - began_ns;
  return status;
}

/* ---- several at once ---- */

/** What the lanes share. */
typedef struct traffic {
  const cli_round *round;
  uint64_t number; /* unlike that of any other; from 1 */
  pthread_mutex_t mutex;
  pthread_cond_t ended;
  uint32_t lanes_left; /* under mutex */
  tp_status status;    /* under mutex: the first failure */
  tp_fault fault;      /* under mutex */
  cli_sheet *sheets;   /* under mutex: of every thread that measures */
} traffic;

typedef struct lane {
  traffic *traffic;
  uint32_t turns_left;
  ride ride;
  size_t at; /* the phase under way */
  int64_t submitted_ns;
} lane;

static _Thread_local cli_sheet *my_sheet; /* of the traffic of that number */
static _Thread_local uint64_t my_number;

static cli_sheet *sheet_of_thread(traffic *t) {
  const cli_sheet *total = t->round->sheet;
  if (!total || my_number == t->number) return total ? my_sheet : NULL;
  my_sheet = cli_sheet_new(total->phase_count, total->step_ns, total->timed);
  my_number = t->number;
  pthread_mutex_lock(&t->mutex);
  my_sheet->next = t->sheets;
  t->sheets = my_sheet;
  pthread_mutex_unlock(&t->mutex);
  return my_sheet;
}

static void lane_ended(traffic *t, tp_status status, const tp_fault *fault) {
  pthread_mutex_lock(&t->mutex);
  if (status != TP_OK && t->status == TP_OK) {
    t->status = status;
    t->fault = *fault;
  }
  if (--t->lanes_left == 0) pthread_cond_signal(&t->ended);
  pthread_mutex_unlock(&t->mutex);
}

static void phase_ended(void *ctx, const tp_phase_result *result);

/* From its success on the lane belongs to whoever ends the phase. */
static tp_status submit_phase(lane *l, tp_fault *fault) {
  const cli_round_phase *phase = &l->traffic->round->phases[l->at];
  l->submitted_ns = cli_now_ns();
  return tp_phase_submit(l->ride.turn, phase->phase, &phase->input, phase_ended, l, fault);
}

static void stop_lane(lane *l, tp_status status, const tp_fault *fault) {
  tp_turn_end(l->ride.turn);
  lane_ended(l->traffic, status, fault);
}

static void begin_next(lane *l) {
  tp_fault fault = {0};
  if (l->turns_left == 0) {
    lane_ended(l->traffic, TP_OK, NULL);
    return;
  }
  l->turns_left--;
  l->at = 0;
  tp_status status = begin_turn(l->traffic->round, &l->ride, &fault);
  if (status != TP_OK) {
    lane_ended(l->traffic, status, &fault);
    return;
  }
  status = submit_phase(l, &fault);
  if (status != TP_OK) stop_lane(l, status, &fault);
}

static void phase_ended(void *ctx, const tp_phase_result *theirs) {
  int64_t ended_ns = cli_now_ns();
  lane *l = ctx;
  cli_sheet *sheet = sheet_of_thread(l->traffic);
  tp_phase_result result = *theirs;
  tp_fault fault = {0};
  if (!was_run(result.outcome)) {
    stop_lane(l, result.outcome, &fault);
    return;
  }
  take_down(sheet, &l->ride, l->at, ended_ns - l->submitted_ns, &result);
  if (++l->at == l->traffic->round->phase_count) {
    end_turn(&l->ride, sheet);
    begin_next(l);
    return;
  }
  tp_status status = submit_phase(l, &fault);
  if (status != TP_OK) stop_lane(l, status, &fault);
}

static void wait_for_lanes(traffic *t) {
  pthread_mutex_lock(&t->mutex);
  while (t->lanes_left > 0) pthread_cond_wait(&t->ended, &t->mutex);
  pthread_mutex_unlock(&t->mutex);
}

static void add_up(traffic *t) {
  while (t->sheets) {
    cli_sheet *next = t->sheets->next;
    cli_sheet_merge(t->round->sheet, t->sheets);
    cli_sheet_free(t->sheets);
    t->sheets = next;
  }
}

static tp_status run_in_lanes(cli_round *round, tp_fault *fault) {
  static uint64_t last_number;
  uint32_t count = round->concurrency < round->turns ? round->concurrency : round->turns;
  traffic t = {.round = round,
               .number = ++last_number,
               .mutex = PTHREAD_MUTEX_INITIALIZER,
               .ended = PTHREAD_COND_INITIALIZER,
               .lanes_left = count};
  lane *lanes = cli_alloc(count * sizeof *lanes);
  int64_t began_ns = cli_now_ns();
  for (uint32_t i = 0; i < count; i++)
    lanes[i] = (lane){.traffic = &t, .turns_left = round->turns / count + (i < round->turns % count)};
  for (uint32_t i = 0; i < count; i++) begin_next(&lanes[i]);
  wait_for_lanes(&t);
  round->elapsed_ns = cli_now_ns() - began_ns;
  add_up(&t);
  pthread_cond_destroy(&t.ended);
  pthread_mutex_destroy(&t.mutex);
  free(lanes);
  *fault = t.fault;
  return t.status;
}

int cli_round_run(cli_round *round) {
  tp_fault fault = {0};
  tp_status status = round->concurrency > 1 ? run_in_lanes(round, &fault) : run_here(round, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(NULL, status, &fault);
}
