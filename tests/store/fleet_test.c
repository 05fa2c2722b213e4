/* SPDX-License-Identifier: Apache-2.0
 *
 * A fleet on one SQLite file: three hosts and four workers, each a process, that are killed and begun again, and that
 * stand still past their leases and go on. Whatever happens, the rules of fleet_check.h hold. */
#include <signal.h>

#include "tests/support/test.h"
#include "tests/support/child.h"
#include "tests/support/directory.h"
#include "tests/support/fleet_play.h"
#include "turnphase/sqlite.h"

enum { HOSTS = 3, WORKERS = 4, PROCESSES = HOSTS + WORKERS, LEASE_MS = 300, STOP_MS = 450, FAULTS = 70, LONG = 2000 };

/* ---- a process ---- */

static tp_store *open_store(void) {
  tp_store *store = NULL;
  tp_fault fault = {0};
  const tp_sqlite_store_options options = {
      .struct_size = sizeof options, .path = path, .jobs_max = 1000000, .jobs_ended_max = 10000000};
  if (tp_sqlite_store_open(&options, &store, &fault) != TP_OK) fail_msg("%s", fault.message);
  return store;
}

static tp_history *open_history(void) {
  tp_history *history = NULL;
  tp_fault fault = {0};
  const tp_sqlite_history_options options = {.struct_size = sizeof options, .path = path, .lease_ms = LEASE_MS};
  if (tp_sqlite_history_open_sync(&options, &history, &fault) != TP_OK) fail_msg("%s", fault.message);
  return history;
}

static fleet_player *player_new(uint64_t process, uint64_t thread, tp_history *history, const tp_store *store) {
  fleet_player *p = calloc(1, sizeof *p);
  p->history = history;
  p->store = store;
  p->seed = (unsigned)(process * 7 + thread + 1);
  p->last_id = (process << 32) + (thread << 28);
  p->owner =
      (tp_store_owner){.struct_size = sizeof p->owner, .process_run_id = process * 16 + thread, .process_id = getpid()};
  for (size_t i = 0; i < COUNT(p->known); i++) p->known[i].hash = FLEET_HASH;
  return p;
}

/* @param number  of this process: no other one, before it or after it, has it. */
static int process_main(const char *in, bool is_host, uint64_t number) {
  pthread_t threads[FLEET_THREADS];
  fleet_player *players[FLEET_THREADS];
  snprintf(directory, sizeof directory, "%s", in);
  snprintf(path, sizeof path, "%s/file.db", in);
  fleet.lease_ms = LEASE_MS;
  fleet_open(in);
  tp_store *store = open_store();
  tp_store_recovery found = {.struct_size = sizeof found};
  for (uint64_t i = 0; i < FLEET_THREADS; i++) players[i] = player_new(number, i + 1, NULL, store);
  if (store->open(store->ctx, &players[0]->owner, NULL) != TP_OK || store->recover(store->ctx, &found, NULL) != TP_OK)
    return 2;
  if (is_host) {
    tp_history *history = open_history();
    for (int i = 0; i < FLEET_THREADS; i++) {
      players[i]->history = history;
      pthread_create(&threads[i], NULL, fleet_host_thread, players[i]);
    }
    for (int i = 0; i < FLEET_THREADS; i++) pthread_join(threads[i], NULL);
    tp_history_free(history);
  } else {
    fleet_worker(players[0]);
  }
  for (int i = 0; i < FLEET_THREADS; i++) free(players[i]);
  tp_store_free(store);
  fleet_close();
  return 0;
}

/* ---- the parent ---- */

static struct process {
  child child;
  int64_t goes_on_ns; /* it stands still until then; 0: it runs */
} processes[PROCESSES];
static uint64_t last_number;

static void start_process(int index) {
  char number[24];
  snprintf(number, sizeof number, "%llu", (unsigned long long)++last_number);
  processes[index] = (struct process){
      child_start((const char *const[]){directory, index < HOSTS ? "host" : "worker", number, NULL}), 0};
}

static int end_process(int index) {
  int status = 0;
  waitpid(processes[index].child.id, &status, 0);
  fclose(processes[index].child.lines);
  return status;
}

static void let_go_on(int64_t time_ns) {
  for (int i = 0; i < PROCESSES; i++) {
    if (!processes[i].goes_on_ns || processes[i].goes_on_ns > time_ns) continue;
    kill(processes[i].child.id, SIGCONT);
    processes[i].goes_on_ns = 0;
  }
}

static void await_turns(uint64_t count) {
  uint64_t before = fleet.board->acknowledged;
  while (fleet.board->acknowledged < before + count) {
    let_go_on(now_ns());
    usleep(300);
  }
}

/* One of three stands still, the others die. */
static void do_fault(unsigned *seed, int *stops) {
  int index = rand_r(seed) % PROCESSES;
  struct process *p = &processes[index];
  if (!p->goes_on_ns && rand_r(seed) % 3 == 0) {
    kill(p->child.id, SIGSTOP);
    p->goes_on_ns = now_ns() + (STOP_MS + rand_r(seed) % 100) * 1000000LL;
    ++*stops;
  } else {
    kill(p->child.id, SIGKILL); /* also one that stands still */
    (void)end_process(index);
    start_process(index);
  }
  await_turns((uint64_t)rand_r(seed) % 4);
}

TEST(processes_that_die_and_stand_still_keep_every_rule_on_one_file) {
  int faults = getenv("TURNPHASE_ROUNDS") ? LONG : FAULTS, stops = 0;
  unsigned seed = 37;
  make_directory_in_memory(NULL);
  fleet_open(directory);
  tp_store *store = open_store();
  tp_history *history = open_history();
  for (int i = 0; i < PROCESSES; i++) start_process(i);
  for (int i = 0; i < faults; i++) {
    do_fault(&seed, &stops);
    if (i % 40 == 39) fleet.board->generation++;
  }
  fleet.board->ends = true;
  let_go_on(INT64_MAX);
  for (int i = 0; i < HOSTS; i++) assert_int_equal(end_process(i), 0);
  fleet.board->workers_end = true;
  for (int i = HOSTS; i < PROCESSES; i++) assert_int_equal(end_process(i), 0);
  fleet_verdict v = fleet_judge(directory, history, store);
  print_message("# %d faults, of which %d processes stood still\n", faults, stops);
  fleet_report("sqlite", &v);
  assert_int_equal(v.sum, 0);
  assert_true(fleet.board->finished > 0 && fleet.board->calls > 0 && stops > 0);
  tp_history_free(history);
  tp_store_free(store);
  fleet_close();
  remove_directory(NULL);
}

TEST_MAIN(count, arguments) {
  const char *words[CHILD_WORDS_MAX] = {NULL};
  if (child_is(count, arguments, words))
    return process_main(words[0], strcmp(words[1], "host") == 0, strtoull(words[2], NULL, 10));
  return test_main(count, arguments);
}
