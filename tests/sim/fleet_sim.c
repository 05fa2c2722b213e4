/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet_sim: several hosts that share sessions and jobs, on a simulated machine, with one world and one schedule per
 * seed. For a failing seed it prints the property that did not hold and the command that replays it, and exits with
 * 1. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fleet.h"
#include "runtime/base/bug.h"

typedef struct arguments {
  uint64_t seeds, seed, seconds;
  fleet_bug bug;
  enum tp__bug engine_bug;
  bool prove, replay, verbose;
} arguments;

static const char *const trouble_names[FLEET_TROUBLES] = {"none", "delays", "loss", "cuts", "kills"};
static const char *const bug_names[FLEET_BUGS] = {
    "none",          "append_any_fence", "append_any_position", "claim_running", "same_fence",   "call_any_fence",
    "job_any_fence", "no_proof",         "job_no_key",          "left_claim",    "job_any_claim"};
static const struct {
  const char *name;
  enum tp__bug bug;
} engine_bugs[] = {{"old_past", TP__BUG_OLD_PAST},          {"unfenced_call", TP__BUG_UNFENCED_CALL},
                   {"unfenced_job", TP__BUG_UNFENCED_JOB},  {"fenced_completes", TP__BUG_FENCED_COMPLETES},
                   {"kept_claim", TP__BUG_KEPT_CLAIM},      {"kept_late_claim", TP__BUG_KEPT_LATE_CLAIM},
                   {"unstored_past", TP__BUG_UNSTORED_PAST}};
enum { ENGINE_BUGS = sizeof engine_bugs / sizeof *engine_bugs };
static arguments args = {.seeds = 1000, .seed = 1};

/* ---- what the hosts use ---- */

static void *take(void *ctx, size_t size) {
  (void)ctx;
  return malloc(size);
}
static void give(void *ctx, void *memory, size_t size) {
  (void)ctx, (void)size;
  free(memory);
}
const tp_allocator fleet_allocator = {.alloc = take, .release = give};

void fleet_fail(fleet_world *w, const char *format, ...) {
  if (w->failure[0]) return;
  va_list list;
  va_start(list, format);
  vsnprintf(w->failure, sizeof w->failure, format, list);
  va_end(list);
}

void fleet_start(const char *name, void (*run)(void *arg), void *arg) {
  tp__thread *thread;
  if (tp__thread_start(&fleet_allocator, name, run, arg, &thread) != TP_OK) abort();
  tp__thread_detach(thread);
}

size_t fleet_begin_event(fleet_world *w, fleet_event event) {
  event.fate = FLEET_BEGUN;
  event.began_ns = tp__now_ns();
  if (w->event_count == w->event_capacity) {
    w->event_capacity = w->event_capacity ? 2 * w->event_capacity : 1024;
    w->events = realloc(w->events, w->event_capacity * sizeof *w->events);
    if (!w->events) abort();
  }
  w->events[w->event_count] = event;
  return w->event_count++;
}

void fleet_end_event(fleet_world *w, size_t number, fleet_fate fate) {
  int64_t now_ns = tp__now_ns();
  w->events[number].fate = fate;
  w->events[number].ended_ns = now_ns;
}

/* ---- a world ---- */

static void wait_for_jobs(fleet_world *w) {
  for (int i = 0; fleet_database_open_jobs(w->db) > 0; i++) {
    if (i == 10000) {
      fleet_fail(w, "each job that was stored ends: %zu are open", fleet_database_open_jobs(w->db));
      return;
    }
    tp__sim_sleep_ns(100 * TP__NS_PER_MS);
  }
}

/* All that was sent has arrived, and no turn runs any more; the leases of the hosts last. */
static void look_at_sessions(fleet_world *w) {
  int64_t now_ns = tp__now_ns();
  for (uint32_t s = 0; s < w->session_count; s++)
    if (fleet_database_is_held(w->db, s, now_ns))
      fleet_fail(w, "a session that no turn has is free: session %u is not", s);
}

static void live(void *arg) {
  fleet_world *w = arg;
  for (uint32_t i = 0; i < w->host_count; i++) fleet_host_start(w);
  while (w->living > 0) {
    tp__sim_sleep_ns(fleet_random_ns(FLEET_LEASE_MS));
    if (w->trouble >= TROUBLE_CUTS && w->living > 0) fleet_hosts_trouble(w);
  }
  w->healed = true;
  tp__sim_sleep_ns(fleet_ns(4 * FLEET_LEASE_MS));
  fleet_hosts_settle(w);
  look_at_sessions(w);
  wait_for_jobs(w);
  fleet_hosts_close(w);
}

/* Whether it is the end of a turn that ended by itself; a turn that was stopped from outside runs again. */
static bool is_own_end(const tp_message *m) {
  return m->ending.size > 0 && !tp_text_is(m->name, "cancelled") && !tp_text_is(m->name, "timed_out");
}

/* A turn that ended by itself is stored once, however often and wherever it was submitted. */
static void look_at_turns(fleet_world *w) {
  for (size_t i = 0; i < w->turn_count; i++) {
    const fleet_turn *turn = w->turns[i];
    char id[32];
    uint32_t ends = 0;
    snprintf(id, sizeof id, "t%llu", (unsigned long long)turn->id);
    for (const fleet_message *m = fleet_database_messages(w->db, turn->session, 0); m; m = m->next)
      ends += tp_text_is(m->message.turn_id, id) && is_own_end(&m->message);
    if (ends > 1 || ends < turn->acknowledged)
      fleet_fail(w, "a turn that ended is stored once: %s is there %u times", id, ends);
  }
}

static void judge(fleet_world *w) {
  fleet_list lists[FLEET_SESSIONS_MAX] = {{.ids = NULL}};
  fleet_history h = {.events = w->events,
                     .event_count = w->event_count,
                     .lists = lists,
                     .session_count = w->session_count,
                     .has_jobs = true};
  for (uint32_t s = 0; s < w->session_count; s++)
    for (const fleet_message *m = fleet_database_messages(w->db, s, 0); m; m = m->next)
      if (m->id) fleet_add(&lists[s], m->id);
  fleet_database_succeeded(w->db, &h.jobs);
  fleet_verdict v = fleet_check(&h);
  if (v.sum) fleet_fail(w, "%s", v.first);
  look_at_turns(w);
  for (uint32_t s = 0; s < w->session_count; s++) free(lists[s].ids);
  free(h.jobs.ids);
}

static void draw(fleet_world *w, uint64_t seed, tp__sim_options *ret_options) {
  uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) >> 16;
  *w = (fleet_world){.seed = seed,
                     .bug = args.bug,
                     .trouble = (fleet_trouble)(state % FLEET_TROUBLES),
                     .host_count = 1 + (uint32_t)(state / 8 % FLEET_HOSTS_MAX),
                     .session_count = 1 + (uint32_t)(state / 64 % FLEET_SESSIONS_MAX),
                     .clock_jumps = state / 8192 % 2,
                     .turns_each = 2 + (uint32_t)(state / 512 % 5)};
  *ret_options = (tp__sim_options){.seed = seed,
                                   .policy = state / 4096 % 2 ? TP__SIM_PCT : TP__SIM_RANDOM,
                                   .clock_jump_inverse = w->clock_jumps ? 200 : UINT32_MAX,
                                   .steps_max = 20000000};
}

static void print(const fleet_world *w) {
  printf(
      "seed %llu%s%s\n  trouble: %s, %u hosts, %u sessions; %zu turns: %u completed, %u busy, %u fenced, %u failed; "
      "%u calls, %u jobs, %u kills\n",
      (unsigned long long)w->seed, w->failure[0] ? " FAILED: " : "", w->failure, trouble_names[w->trouble],
      w->host_count, w->session_count, w->turn_count, w->acknowledged, w->busy, w->fenced, w->failed, w->calls,
      w->stored, w->kills);
  printf("  run: %llu steps, %lld ms of virtual time, trace %016llx\n", (unsigned long long)w->report.steps,
         (long long)(w->report.virtual_ns / TP__NS_PER_MS), (unsigned long long)w->report.trace_hash);
  if (w->failure[0]) printf("  replay: fleet_sim --seeds 1 --seed %llu\n", (unsigned long long)w->seed);
}

static void print_lists(const fleet_world *w) {
  for (uint32_t s = 0; s < w->session_count; s++) {
    printf("  session %u:", s);
    for (const fleet_message *m = fleet_database_messages(w->db, s, 0); m; m = m->next)
      printf(" %.*s/%s/%.*s", (int)m->message.turn_id.size, m->message.turn_id.data, tp__role_name(m->message.role),
             (int)(m->message.text.size < 40 ? m->message.text.size : 40), m->message.text.data);
    printf("\n");
  }
}

/* @return whether all held. */
static bool play(uint64_t seed, uint64_t *ret_trace) {
  static fleet_world w;
  tp__sim_options options;
  draw(&w, seed, &options);
  w.db = fleet_database_new(w.bug);
  w.report = tp__sim_run(&options, live, &w);
  *ret_trace = w.report.trace_hash;
  if (w.report.end != TP__SIM_DONE) fleet_fail(&w, "the run ends: %s", w.report.message);
  if (!w.failure[0]) judge(&w);
  if (w.failure[0] || args.verbose) print(&w);
  if (w.failure[0] && args.seeds == 1) print_lists(&w);
  fleet_hosts_fini(&w);
  fleet_database_free(w.db);
  for (size_t i = 0; i < w.turn_count; i++) free(w.turns[i]);
  free(w.events);
  return !w.failure[0];
}

/* Plays the seeds in reverse order, so that each has other seeds before it: no run may depend on earlier ones. */
static bool replay_all(const uint64_t *traces) {
  for (uint64_t i = args.seeds; i-- > 0;) {
    uint64_t trace = 0;
    if (!play(args.seed + i, &trace)) return false;
    if (trace == traces[i]) continue;
    printf("seed %llu FAILED: a seed replays: its traces differ after other seeds\n",
           (unsigned long long)(args.seed + i));
    return false;
  }
  return true;
}

static int play_all(void) {
  time_t began = time(NULL);
  uint64_t *traces = calloc(args.replay ? args.seeds : 1, sizeof *traces);
  bool held = traces != NULL;
  tp__planted_bug = args.engine_bug;
  for (uint64_t i = 0; held && i < args.seeds; i++) {
    held = play(args.seed + i, &traces[args.replay ? i : 0]);
    if (args.seconds && time(NULL) - began >= (time_t)args.seconds) args.seeds = i + 1;
  }
  if (held && args.replay) held = replay_all(traces);
  free(traces);
  if (!held) return 1;
  printf("%llu seeds from %llu: every property held\n", (unsigned long long)args.seeds, (unsigned long long)args.seed);
  return 0;
}

/* ---- a check of the checker ---- */

static bool is_found(void) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(play_all());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) return false;
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int prove(void) {
  int missed = 0;
  for (int i = 1; i < FLEET_BUGS + (int)ENGINE_BUGS; i++) {
    bool of_engine = i >= FLEET_BUGS;
    args.bug = of_engine ? FLEET_BUG_NONE : (fleet_bug)i;
    args.engine_bug = of_engine ? engine_bugs[i - FLEET_BUGS].bug : TP__BUG_NONE;
    printf("planted: %s\n", of_engine ? engine_bugs[i - FLEET_BUGS].name : bug_names[i]);
    if (is_found()) continue;
    printf("  it was NOT found in %llu seeds\n", (unsigned long long)args.seeds);
    missed++;
  }
  if (!missed) printf("every planted bug was found\n");
  return missed > 0;
}

/* ---- arguments ---- */

static const char help[] =
    "Examples:\n"
    "  fleet_sim --seeds 10000           seeds 1 to 10000\n"
    "  fleet_sim --seeds 1 --seed 4711   replays one run, step for step\n"
    "  fleet_sim --prove                 plants each known bug and wants it found\n"
    "\n"
    "Usage: fleet_sim [OPTION...]\n"
    "  --seeds N     how many; 1,000\n"
    "  --seed S      the first; 1\n"
    "  --seconds T   begins no further seed after so long\n"
    "  --bug NAME    plants a bug; --prove prints their names\n"
    "  --prove       plants each in turn; 0 when all are found within the seeds\n"
    "  --replay      plays the seeds once more, last first, and wants the same traces\n"
    "  --verbose     lines for each run\n"
    "Exit: 0 every property held, 1 one did not, 2 usage.\n";

static bool read_bug(const char *name) {
  for (int i = 1; i < FLEET_BUGS; i++)
    if (strcmp(name, bug_names[i]) == 0) args.bug = (fleet_bug)i;
  for (int i = 0; i < (int)ENGINE_BUGS; i++)
    if (strcmp(name, engine_bugs[i].name) == 0) args.engine_bug = engine_bugs[i].bug;
  return args.bug || args.engine_bug;
}

static bool read_number(const char *text, uint64_t *ret) {
  char *end;
  *ret = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end;
}

static bool read_option(int option) {
  switch (option) {
    case 'n':
      return read_number(optarg, &args.seeds);
    case 's':
      return read_number(optarg, &args.seed);
    case 't':
      return read_number(optarg, &args.seconds);
    case 'b':
      return read_bug(optarg);
    case 'P':
      return args.prove = true;
    case 'r':
      return args.replay = true;
    case 'v':
      return args.verbose = true;
    default:
      return false;
  }
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"seeds", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"seconds", required_argument, NULL, 't'},
                                          {"bug", required_argument, NULL, 'b'},
                                          {"prove", no_argument, NULL, 'P'},
                                          {"replay", no_argument, NULL, 'r'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
    if (option == 'h') {
      fputs(help, stdout);
      return 0;
    }
    if (read_option(option)) continue;
    fprintf(stderr, "fleet_sim: %s does not fit (see --help)\n", option == '?' ? "an option" : argv[optind - 1]);
    return 2;
  }
  return args.prove ? prove() : play_all();
}
