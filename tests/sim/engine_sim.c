/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_sim: the whole engine on a simulated machine, with one script and one schedule per seed. For a failing seed it
 * prints the property that did not hold, the trace, and the command that replays it, and exits with 1. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/bug.h"
#include "world.h"

typedef struct arguments {
  uint64_t seeds, seed;
  uint64_t seconds; /* after this time no further seed begins; 0: no limit */
  uint32_t nodes_max;
  int policy; /* -1: both */
  enum tp__bug bug;
  bool prove, replay, verbose;
} arguments;

static const char *const bug_names[] = {"none",           "lost_wakeup",  "recycled_slot",    "left_queued",
                                        "two_owners",     "not_woken",    "early_end",        "lost_cancel",
                                        "lost_destroy",   "task_held",    "other_inbox",      "left_in_line",
                                        "pump_not_woken", "load_endless", "delta_passes",     "pair_broken",
                                        "message_left",   "rest_left",    "postponed_counts", "space_unnoticed",
                                        "line_skipped"};
static const char *const policy_names[] = {"random", "pct", "both"};
static const char *program;
static arguments args = {.seeds = 10000, .seed = 1, .nodes_max = 12, .policy = -1};
static volatile uint64_t seed_now;
static uint64_t traces; /* hash of the traces of the seed's runs */

/* ---- output ---- */

static void command_of(char *text, size_t size, uint64_t seed) {
  int length = snprintf(text, size, "%s --seeds 1 --seed %llu --nodes-max %u --policy %s", program,
                        (unsigned long long)seed, args.nodes_max, policy_names[args.policy < 0 ? 2 : args.policy]);
  if (args.bug) snprintf(text + length, size - (size_t)length, " --bug %s", bug_names[args.bug]);
}

static void print_failure(const world *w, uint32_t workers) {
  const script *s = w->s;
  char command[512];
  command_of(command, sizeof command, s->seed);
  printf("seed %llu FAILED: %s\n", (unsigned long long)s->seed, w->failure);
  printf("  script: faults: %s, %u nodes, %u turns, %u engine workers, %s schedule\n",
         script_fault_level_name(s->fault_level), s->node_count, s->turn_count,
         workers ? workers : s->options.engine_workers, policy_names[s->sim.policy]);
  printf("  run: %llu steps, %lld us of virtual time, trace %016llx\n", (unsigned long long)w->report.steps,
         (long long)w->report.virtual_ns / TP__NS_PER_US, (unsigned long long)w->report.trace_hash);
  if (w->report.end != TP__SIM_DONE) printf("  end: %s\n", w->report.message);
  if (args.seeds == 1) trace_print(w);
  printf("  replay: %s\n", command);
  fflush(stdout);
}

/* A crash is a failed property, too; nothing but write() is safe any more. */
static void print_crash(void) {
  char command[512], text[700];
  command_of(command, sizeof command, seed_now);
  int length = snprintf(text, sizeof text, "seed %llu FAILED: no crash: the process died\n  replay: %s\n",
                        (unsigned long long)seed_now, command);
  if (write(STDOUT_FILENO, text, (size_t)length) < 0) _exit(1);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void __sanitizer_set_death_callback(void (*callback)(void));
static void watch_crashes(void) { __sanitizer_set_death_callback(print_crash); }
#else
static void on_crash(int number) {
  (void)number;
  print_crash();
  _exit(1);
}
static void watch_crashes(void) {
  static char stack[65536]; /* a fiber's may be what broke */
  stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
  sigaltstack(&alternative, NULL);
  static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) sigaction(deadly[i], &action, NULL);
}
#endif

/* ---- seeds ---- */

/* @return whether all held. */
static bool play_once(world *w, const script *s, uint32_t workers) {
  world_play(w, s, workers);
  traces = traces * UINT64_C(0x100000001B3) ^ w->report.trace_hash;
  if (args.verbose)
    printf("seed %llu, %s: %llu steps, %u calls, trace %016llx\n", (unsigned long long)s->seed,
           script_fault_level_name(s->fault_level), (unsigned long long)w->report.steps, w->call_count,
           (unsigned long long)w->report.trace_hash);
  if (!world_failed(w)) return true;
  print_failure(w, workers);
  return false;
}

/* A script without faults has the same outcomes with any number of workers. */
static bool play_thrice(world *worlds, const script *s) {
  static const uint32_t workers[] = {1, 2, 8};
  bool held = true;
  for (int i = 0; i < 3 && held; i++) {
    held = play_once(&worlds[i], s, workers[i]);
    if (held && i > 0) {
      oracle_same(&worlds[i], &worlds[0], workers[i], workers[0]);
      held = !world_failed(&worlds[i]);
      if (!held) print_failure(&worlds[i], workers[i]);
    }
  }
  for (int i = 0; i < 3; i++) world_fini(&worlds[i]);
  return held;
}

static bool play_seed(uint64_t seed) {
  static world worlds[3];
  static script s;
  seed_now = seed;
  traces = 0;
  memset(worlds, 0, sizeof worlds);
  script_draw(&s, seed, args.nodes_max, args.policy);
  if (s.fault_level == FAULTS_NONE) return play_thrice(worlds, &s);
  bool held = play_once(&worlds[0], &s, 0);
  world_fini(&worlds[0]);
  return held;
}

/* Plays the seeds in reverse order, so that each has other seeds before it: no run may depend on earlier ones. */
static bool replay_all(const uint64_t *first) {
  for (uint64_t i = args.seeds; i-- > 0;) {
    if (!play_seed(args.seed + i)) return false;
    if (traces == first[i]) continue;
    printf("seed %llu FAILED: a seed replays: its traces differ behind other seeds\n",
           (unsigned long long)(args.seed + i));
    return false;
  }
  return true;
}

static int play_all(void) {
  uint64_t *first = args.replay ? calloc(args.seeds, sizeof *first) : NULL;
  bool held = !args.replay || first;
  tp__planted_bug = args.bug;
  watch_crashes();
  time_t began = time(NULL);
  for (uint64_t i = 0; held && i < args.seeds; i++) {
    held = play_seed(args.seed + i);
    if (first) first[i] = traces;
    if (args.seconds && time(NULL) - began >= (time_t)args.seconds) args.seeds = i + 1;
  }
  if (held && first) held = replay_all(first);
  free(first);
  if (!held) return 1;
  printf("%llu seeds from %llu, graphs of up to %u nodes: every property held\n", (unsigned long long)args.seeds,
         (unsigned long long)args.seed, args.nodes_max);
  return 0;
}

/* ---- a check of the checker: each planted bug must be found; in a process of its own, because it may break everything
 * ---- */

static bool is_found(enum tp__bug bug) {
  args.bug = bug;
  printf("planted: %s\n", bug_names[bug]);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(play_all());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) {
    perror("engine_sim");
    return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static int prove(void) {
  int missed = 0;
  for (int bug = TP__BUG_LOST_WAKEUP; bug <= TP__BUG_LINE_SKIPPED; bug++) {
    if (is_found((enum tp__bug)bug)) continue;
    printf("%s was NOT found in %llu seeds\n", bug_names[bug], (unsigned long long)args.seeds);
    missed++;
  }
  if (!missed) printf("every planted bug was found\n");
  return missed > 0;
}

/* ---- arguments ---- */

static const char help[] =
    "Examples:\n"
    "  engine_sim --seeds 100000           seeds 1 to 100000\n"
    "  engine_sim --seeds 1 --seed 4711    replays one run, step for step\n"
    "  engine_sim --prove                  plants each known bug and wants it found\n"
    "\n"
    "Usage: engine_sim [OPTION...]\n"
    "  --seeds N          how many; 10,000\n"
    "  --seed S           the first; 1\n"
    "  --seconds T        begins no further seed after so long\n"
    "  --nodes-max K      the largest graph; 12, at most 64\n"
    "  --policy P         random, pct or both (drawn by the seed)\n"
    "  --bug NAME         plants lost_wakeup, recycled_slot, left_queued, two_owners,\n"
    "                        not_woken, early_end, lost_cancel, lost_destroy, task_held, other_inbox,\n"
    "                        left_in_line, pump_not_woken, load_endless, delta_passes, pair_broken,\n"
    "                        message_left, rest_left, postponed_counts, space_unnoticed\n"
    "                        or line_skipped\n"
    "  --prove            plants each in turn; 0 when all are found within the seeds\n"
    "  --replay           plays the seeds once more, last first, and wants the same traces\n"
    "  --verbose          a line for each run\n"
    "Exit: 0 every property held, 1 one did not, 2 usage.\n";

static int index_of(const char *name, const char *const *names, int count) {
  for (int i = 0; i < count; i++)
    if (strcmp(name, names[i]) == 0) return i;
  return -1;
}

static bool read_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret) {
  char *end;
  unsigned long long number = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || number < least || number > most) return false;
  *ret = number;
  return true;
}

static bool read_option(int option) {
  uint64_t nodes_max;
  int found;
  switch (option) {
    case 'n':
      return read_number(optarg, 1, UINT64_MAX, &args.seeds);
    case 's':
      return read_number(optarg, 0, UINT64_MAX, &args.seed);
    case 't':
      return read_number(optarg, 1, UINT32_MAX, &args.seconds);
    case 'k':
      if (!read_number(optarg, 1, SCRIPT_NODES_MAX, &nodes_max)) return false;
      args.nodes_max = (uint32_t)nodes_max;
      return true;
    case 'p':
      found = index_of(optarg, policy_names, 3);
      args.policy = found == 2 ? -1 : found;
      return found >= 0;
    case 'b':
      found = index_of(optarg, bug_names, (int)(sizeof bug_names / sizeof *bug_names));
      args.bug = found > 0 ? (enum tp__bug)found : TP__BUG_NONE;
      return found >= 0;
    case 'P':
      args.prove = true;
      return true;
    case 'r':
      args.replay = true;
      return true;
    case 'v':
      args.verbose = true;
      return true;
    default:
      return false;
  }
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"seeds", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"seconds", required_argument, NULL, 't'},
                                          {"nodes-max", required_argument, NULL, 'k'},
                                          {"policy", required_argument, NULL, 'p'},
                                          {"bug", required_argument, NULL, 'b'},
                                          {"prove", no_argument, NULL, 'P'},
                                          {"replay", no_argument, NULL, 'r'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  program = argv[0];
  int option;
  while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
    if (option == 'h') {
      fputs(help, stdout);
      return 0;
    }
    if (read_option(option)) continue;
    fprintf(stderr, "engine_sim: what --%s was given does not fit (see --help)\n",
            option == '?' ? "?" : argv[optind - 1]);
    return 2;
  }
  if (optind < argc) {
    fprintf(stderr, "engine_sim: there is nothing to do with '%s' (see --help)\n", argv[optind]);
    return 2;
  }
  return args.prove ? prove() : play_all();
}
