/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server meets: many sessions whose turns come one after the other, each as soon as the one before has ended,
 * with what they keep on the disk. README.md says how to read it. The files lie in TMPDIR, or in /tmp. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/latch.h"
#include "bench/report.h"
#include "turnphase/sqlite.h"

#define ROWS "sessions "

enum { SESSIONS_MAX = 64, TURNS_A_SESSION = 100, ROUNDS = 7, TURNS_A_SESSION_QUICK = 2, ROUNDS_QUICK = 1 };

static char folder[256];
static int file_count;

/* ---- a crowd of sessions ---- */

typedef struct crowd {
  tp_runtime *runtime;
  tp_model *model;
  uint32_t session_count;
  struct crowd_session {
    struct crowd *crowd;
    tp_session *session;
    uint32_t left; /* turns; of the thread that ends them, one after the other */
  } sessions[SESSIONS_MAX];
  bench_latch ended;
} crowd;

static void submit(struct crowd_session *s);

static void turn_ended(void *ctx, const tp_turn_result *result) {
  struct crowd_session *s = ctx;
  bench_must(result->code, NULL);
  if (--s->left > 0) submit(s);
  else bench_latch_hit(&s->crowd->ended, 1);
}

static void submit(struct crowd_session *s) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("How warm is it there?")};
  tp_submission *submission;
  tp_fault fault;
  bench_must(tp_turn_submit(s->session, &request, turn_ended, s, &submission, &fault), &fault);
  tp_submission_unref(submission);
}

static void open_crowd(crowd *c, tp_runtime_options *options, uint32_t session_count) {
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("12 degrees.")};
  const tp_model_response *responses[] = {&response};
  tp_fault fault;
  c->session_count = session_count;
  bench_must(tp_runtime_new(options, &c->runtime, &fault), &fault);
  bench_must(tp_script_model_new(responses, 1, true, &c->model, &fault), &fault);
  for (uint32_t i = 0; i < session_count; i++) {
    char id[32];
    tp_model borrowed = *c->model;
    borrowed.destroy = NULL; /* it stays ours */
    snprintf(id, sizeof id, "bench-%u", i);
    tp_session_options session = {.struct_size = sizeof session, .id = id, .model = &borrowed};
    c->sessions[i].crowd = c;
    bench_must(tp_session_open(c->runtime, &session, &c->sessions[i].session, &fault), &fault);
  }
}

/* @return turns a second. */
static double run_crowd(crowd *c, uint32_t turns_a_session) {
  bench_latch_set(&c->ended, c->session_count);
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < c->session_count; i++) {
    c->sessions[i].left = turns_a_session;
    submit(&c->sessions[i]);
  }
  bench_latch_wait(&c->ended);
  return 1e9 * c->session_count * turns_a_session / (double)(bench_now_ns() - began);
}

static void session_closed(void *ctx) { bench_latch_hit(ctx, 1); }

static void close_crowd(crowd *c) {
  bench_latch_set(&c->ended, c->session_count);
  for (uint32_t i = 0; i < c->session_count; i++) tp_session_close(c->sessions[i].session, session_closed, &c->ended);
  bench_latch_wait(&c->ended);
  tp_runtime_free(c->runtime);
  tp_model_free(c->model);
}

/* ---- sessions: where their history lies ---- */

static tp_shared_history *open_history(bool async) {
  char path[300];
  tp_history *history;
  tp_shared_history *shared;
  tp_fault fault;
  snprintf(path, sizeof path, "%s/%d.db", folder, file_count++);
  tp_sqlite_history_options options = {.struct_size = sizeof options, .path = path, .queue_bytes_max = 256 << 20};
  bench_must(
      async ? tp_sqlite_history_open_async(&options, &history, &fault) : tp_sqlite_history_open(path, &history, &fault),
      &fault);
  bench_must(tp_history_share(NULL, history, &shared, &fault), &fault);
  return shared;
}

/* Each with a new file and a new runtime, so that no round has the history of the one before. */
static double measure(bool async, uint32_t sessions, uint32_t turns_a_session) {
  static crowd c;
  tp_runtime_options options = {.struct_size = sizeof options, .shared_history = open_history(async)};
  open_crowd(&c, &options, sessions);
  tp_shared_history_unref(options.shared_history);
  double rate = run_crowd(&c, turns_a_session);
  close_crowd(&c);
  return rate;
}

static void sessions(bench_program *program) {
  static const uint32_t counts[] = {1, 8, 64};
  enum { COUNTS = 3, FORMS = 2 };
  static const char *const forms[FORMS] = {"durable when a turn ends", "asynchronous"};
  double rates[FORMS][COUNTS][ROUNDS];
  uint32_t rounds = program->quick ? ROUNDS_QUICK : ROUNDS;
  uint32_t turns = program->quick ? TURNS_A_SESSION_QUICK : TURNS_A_SESSION;
  if (!bench_wanted(program, "sessions")) return;
  for (uint32_t round = 0; round < rounds; round++)
    for (uint32_t n = 0; n < COUNTS; n++)
      for (uint32_t form = 0; form < FORMS; form++)
        rates[form][n][round] = measure(form == 1, counts[n], counts[n] == 1 ? 10 * turns : turns);
  for (uint32_t form = 0; form < FORMS; form++)
    for (uint32_t n = 0; n < COUNTS; n++) {
      char what[96];
      snprintf(what, sizeof what, "%u sessions, history in SQLite, %s", counts[n], forms[form]);
      bench_figure(program, "sessions", what, bench_spread_of(rates[form][n], rounds).median, "turns a second", 0);
    }
}

int main(int argc, char **argv) {
  bench_program program;
  const char *tmp = getenv("TMPDIR");
  char command[300];
  bench_open(&program, "load", "What a server with many sessions meets.", ROWS, argc, argv);
  snprintf(folder, sizeof folder, "%s/turnphase_bench_XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(folder)) return 70;
  sessions(&program);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command) == 0 ? bench_close(&program) : 70;
}
