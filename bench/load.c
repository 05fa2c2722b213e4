/* SPDX-License-Identifier: Apache-2.0
 *
 * The load of a server: many sessions, in each of which a turn begins as soon as the one before it has ended, with
 * their history, jobs and memories on the disk. README.md says how to read it. The files lie in TMPDIR, or in /tmp. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/latch.h"
#include "bench/report.h"
#include "turnphase/sqlite.h"
#ifdef BENCH_WITH_MEMORY
#include "turnphase/memory.h"
#endif

#define ROWS "sessions memory steady "

enum { SESSIONS_MAX = 512, TURNS_A_SESSION = 100, ROUNDS = 7, TURNS_A_SESSION_QUICK = 2, ROUNDS_QUICK = 1 };

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
    char workspace[32]; /* its user: each has memories of its own */
    uint32_t left;      /* turns that are left; used by the thread that ends them, one at a time */
    uint64_t random;    /* the state from which the words are chosen */
  } sessions[SESSIONS_MAX];
  bench_latch ended;
} crowd;

/* Makes a message: as in a language, most words also occur in messages of others. */
static tp_text say(struct crowd_session *s, char *buffer, size_t size) {
  enum { WORDS = 8, RARE = 5000 };
  size_t at = 0;
  for (int i = 0; i < WORDS; i++) {
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    uint32_t dice = (uint32_t)(s->random >> 33), word = dice % RARE;
    if (dice % 4 == 0) word %= 50;
    at += (size_t)snprintf(buffer + at, size - at, "%sword%u", i ? " " : "", word);
  }
  return (tp_text){buffer, at};
}

static void submit(struct crowd_session *s);

static void turn_ended(void *ctx, const tp_turn_result *result) {
  struct crowd_session *s = ctx;
  bench_must(result->code, NULL);
  if (--s->left > 0) submit(s);
  else bench_latch_hit(&s->crowd->ended, 1);
}

static void submit(struct crowd_session *s) {
  char buffer[128];
  tp_turn_request request = {.struct_size = sizeof request, .text = say(s, buffer, sizeof buffer)};
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
    borrowed.destroy = NULL; /* the model stays the caller's */
    snprintf(id, sizeof id, "bench-%u", i);
    struct crowd_session *s = &c->sessions[i];
    snprintf(s->workspace, sizeof s->workspace, "home-%u", i);
    tp_session_options session = {
        .struct_size = sizeof session, .id = id, .workspace = s->workspace, .model = &borrowed};
    s->crowd = c;
    s->random = i + 1;
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

static void close_sessions(crowd *c) {
  bench_latch_set(&c->ended, c->session_count);
  for (uint32_t i = 0; i < c->session_count; i++) tp_session_close(c->sessions[i].session, session_closed, &c->ended);
  bench_latch_wait(&c->ended);
}

static void close_crowd(crowd *c) {
  close_sessions(c);
  tp_runtime_free(c->runtime);
  tp_model_free(c->model);
}

/* ---- sessions, by the place of their history ---- */

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

/* Each measurement has a new file and a new runtime, so that no round has the history of an earlier one. */
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

/* ---- memory: what each turn leaves in a memory ---- */

#ifdef BENCH_WITH_MEMORY

enum {
  DRAIN_MS = 5000,
  KEEP_MS = 60000,
  MEMORY_TURNS = 8192,
  MEMORY_ROUNDS = 3,
  STEADY_TURNS = 200000,
  STEADY_PARTS = 10
};

/** What is on the disk when a turn ends (nothing, or its messages and its job), and whether a memory waits for the
 *  disk. */
typedef struct form {
  const char *name;
  bool is_durable;
} form;
static const form forms[] = {{"asynchronous", false}, {"durable", true}};

typedef struct outcome {
  double rate;   /* turns a second, until the drain has ended; an asynchronous history may not be on the disk by then */
  double stored; /* turns a second, until the history is on the disk, too */
  double lost;   /* how many memories were lost */
  double left;   /* how many memories still have their job in the store */
  double drain_ms, free_ms;
  double cpu_us; /* of all threads, for each turn */
} outcome;

typedef struct trial {
  crowd crowd;
  bool with_memory;
  const form *form;
  char memory[300], store[300];
  uint64_t turns;
} trial;

static bool add_memories(void *ctx, const tp_memory_scope *scope) {
  *(uint64_t *)ctx += scope->memories;
  return true;
}

static uint64_t count_memories(const char *path) {
  tp_memory *memory;
  tp_fault fault;
  uint64_t count = 0;
  bench_must(tp_memory_open(path, &memory, &fault), &fault);
  bench_must(tp_memory_scopes(memory, add_memories, &count, &fault), &fault);
  tp_memory_close(memory);
  return count;
}

static bool count_job(void *ctx, const tp_job *job) {
  (void)job;
  ++*(uint64_t *)ctx;
  return true;
}

/* Counts the jobs that the next process must run. */
static uint64_t count_jobs(const char *path) {
  tp_store *store;
  tp_fault fault;
  uint64_t count = 0;
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_job_query query = {.struct_size = sizeof query, .states = 1u << TP_JOB_QUEUED | 1u << TP_JOB_RUNNING};
  bench_must(tp_sqlite_store_open(&options, &store, &fault), &fault);
  bench_must(store->jobs(store->ctx, &query, count_job, &count, &fault), &fault);
  store->destroy(store->ctx);
  return count;
}

static void open_trial(trial *t, const form *f, bool with_memory, uint32_t sessions) {
  tp_fault fault;
  tp_store *store = NULL;
  tp_runtime_options options = {.struct_size = sizeof options, .shared_history = open_history(!f->is_durable)};
  snprintf(t->store, sizeof t->store, "%s/%d.db", folder, file_count++);
  tp_sqlite_store_options store_options = {.struct_size = sizeof store_options, .path = t->store};
  if (f->is_durable) bench_must(tp_sqlite_store_open(&store_options, &store, &fault), &fault);
  options.store = store;
  t->form = f;
  t->with_memory = with_memory;
  t->turns = 0;
  open_crowd(&t->crowd, &options, sessions);
  tp_shared_history_unref(options.shared_history);
  snprintf(t->memory, sizeof t->memory, "%s/%d.db", folder, file_count++);
  if (!with_memory) return;
  tp_edit *edit;
  tp_memory_options memory = {.struct_size = sizeof memory, .path = t->memory, .async = !f->is_durable};
  bench_must(tp_edit_begin(t->crowd.runtime, NULL, &edit, &fault), &fault);
  bench_must(tp_memory_register(edit, &memory, &fault), &fault);
  bench_must(tp_edit_commit(edit, NULL, &fault), &fault);
}

static double run_trial(trial *t, uint32_t turns_a_session) {
  t->turns += (uint64_t)t->crowd.session_count * turns_a_session;
  return run_crowd(&t->crowd, turns_a_session);
}

/* Ends a server cleanly. Acknowledged texts that have not reached the memory by then are lost. */
static void close_trial(trial *t, outcome *o) {
  tp_fault fault;
  int64_t began = bench_now_ns();
  close_sessions(&t->crowd);
  if (t->form->is_durable) { /* otherwise a drain leaves unclaimed jobs to the next process */
    const tp_status status = tp_jobs_wait(t->crowd.runtime, "", KEEP_MS, NULL);
    if (status != TP_ERR_TIMEOUT) bench_must(status, NULL);
  }
  bench_must(tp_runtime_drain(t->crowd.runtime, DRAIN_MS, NULL, &fault), &fault);
  o->drain_ms = (double)(bench_now_ns() - began) / 1e6;
  tp_runtime_free(t->crowd.runtime);
  o->free_ms = (double)(bench_now_ns() - began) / 1e6 - o->drain_ms;
  tp_model_free(t->crowd.model);
  if (!t->with_memory) return;
  o->left = t->form->is_durable ? (double)count_jobs(t->store) : 0;
  o->lost = (double)t->turns - (double)count_memories(t->memory) - o->left;
}

static outcome try_memory(const form *f, bool with_memory, uint32_t sessions, uint32_t turns_a_session) {
  static trial t;
  outcome o = {0};
  open_trial(&t, f, with_memory, sessions);
  int64_t cpu_ns = bench_cpu_ns();
  double run_s = (double)sessions * turns_a_session / run_trial(&t, turns_a_session);
  close_trial(&t, &o);
  o.cpu_us = (double)(bench_cpu_ns() - cpu_ns) / 1e3 / (double)t.turns;
  o.rate = (double)t.turns / (run_s + o.drain_ms / 1e3);
  o.stored = (double)t.turns / (run_s + (o.drain_ms + o.free_ms) / 1e3);
  return o;
}

static void memory_at(bench_program *program, const form *f, uint32_t sessions) {
  double rates[2][MEMORY_ROUNDS], stored[2][MEMORY_ROUNDS], cpu_us[2][MEMORY_ROUNDS], drains[MEMORY_ROUNDS];
  double lost = 0, left = 0;
  char what[128];
  uint32_t rounds = program->quick ? ROUNDS_QUICK : MEMORY_ROUNDS;
  uint32_t turns =
      program->quick ? TURNS_A_SESSION_QUICK : (sessions == 1 ? MEMORY_TURNS / 16 : MEMORY_TURNS) / sessions;
  for (uint32_t round = 0; round < rounds; round++)
    for (int with = 0; with < 2; with++) {
      outcome o = try_memory(f, with, sessions, turns);
      rates[with][round] = o.rate;
      stored[with][round] = o.stored;
      cpu_us[with][round] = o.cpu_us;
      if (with) drains[round] = o.drain_ms;
      lost += o.lost;
      left += o.left;
    }
  double without = bench_spread_of(rates[0], rounds).median, with = bench_spread_of(rates[1], rounds).median;
  snprintf(what, sizeof what, "%u sessions, %s, without memory", sessions, f->name);
  bench_figure(program, "memory", what, without, "turns a second", 0);
  snprintf(what, sizeof what, "%u sessions, %s, with memory", sessions, f->name);
  bench_figure(program, "memory", what, with, "turns a second", 0);
  bench_figure(program, "memory", "how many times that is less", without / with, "times", 4);
  without = bench_spread_of(stored[0], rounds).median, with = bench_spread_of(stored[1], rounds).median;
  bench_figure(program, "memory", "how many times it is less until the history is on the disk", without / with, "times",
               4);
  bench_figure(program, "memory", "a turn's CPU without memory", bench_spread_of(cpu_us[0], rounds).median, "us", 0);
  bench_figure(program, "memory", "a turn's CPU with memory", bench_spread_of(cpu_us[1], rounds).median, "us", 0);
  bench_figure(program, "memory", "its drain", bench_spread_of(drains, rounds).median, "ms", 0);
  bench_figure(program, "memory", "memories that the next process makes, in all runs", left, "memories", 0);
  bench_figure(program, "memory", "memories lost in all runs, and one more", 1 + lost, "memories", 1);
}

static void memory(bench_program *program) {
  static const uint32_t counts[] = {1, 64, 512};
  if (!bench_wanted(program, "memory")) return;
  for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) memory_at(program, &forms[f], counts[n]);
}

/* ---- steady: a server that runs for long ---- */

static void steady(bench_program *program) {
  enum { SESSIONS = 64 };
  static trial t;
  outcome o = {0};
  uint32_t turns = (program->quick ? STEADY_TURNS / 100 : STEADY_TURNS) / STEADY_PARTS / SESSIONS;
  double first = 0, rate = 0;
  char what[96];
  if (!bench_wanted(program, "steady")) return;
  open_trial(&t, &forms[0], true, SESSIONS);
  for (int part = 0; part < STEADY_PARTS; part++) {
    int64_t cpu_ns = bench_cpu_ns();
    rate = run_trial(&t, turns);
    double cpu_us = (double)(bench_cpu_ns() - cpu_ns) / 1e3 / turns / SESSIONS;
    if (part == 0) first = rate;
    snprintf(what, sizeof what, "64 sessions, asynchronous, with memory, turns %u to %u", part * turns * SESSIONS,
             (part + 1) * turns * SESSIONS);
    bench_figure(program, "steady", what, rate, "turns a second", 0);
    bench_figure(program, "steady", "a turn's CPU meanwhile", cpu_us, "us", 0);
  }
  close_trial(&t, &o);
  bench_figure(program, "steady", "how many times slower the last ones are than the first", first / rate, "times", 1.5);
  bench_figure(program, "steady", "its drain", o.drain_ms, "ms", 0);
  bench_figure(program, "steady", "memories lost, and one more", 1 + o.lost, "memories", 1);
}

#endif

int main(int argc, char **argv) {
  bench_program program;
  const char *tmp = getenv("TMPDIR");
  char command[300];
  bench_open(&program, "load", "What a server with many sessions meets.", ROWS, argc, argv);
  snprintf(folder, sizeof folder, "%s/turnphase_bench_XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(folder)) return 70;
  sessions(&program);
#ifdef BENCH_WITH_MEMORY
  memory(&program);
  steady(&program);
#endif
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command) == 0 ? bench_close(&program) : 70;
}
