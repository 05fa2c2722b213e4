/* SPDX-License-Identifier: Apache-2.0
 *
 * A fleet on one SQLite file, and one on a PostgreSQL database behind a proxy that fails. Three hosts and four workers,
 * each a process, are killed and started again, and stand still past their leases and go on. Connections are cut before
 * COMMIT, after it and anywhere, delayed or silent. Backends are ended; a server has no connection left; a server is
 * killed and started again. --long adds three cases: pgbouncer in transaction mode in between; two servers, whose
 * primary is lost and whose synchronous standby is promoted, again and again; processes whose clocks differ by minutes.
 * Whatever happens, the rules of fleet_check.h hold. */
#include <signal.h>

#include "tests/support/child.h"
#include "tests/support/directory.h"
#include "tests/support/fleet_play.h"
#include "tests/support/test.h"
#include "turnphase/sqlite.h"
#ifdef TP_WITH_POSTGRES
#include "tests/support/postgres_others.h"
#include "tests/support/postgres_proxy.h"
#include "tests/support/postgres_server.h"
#include "turnphase/postgres.h"
#endif

enum { HOSTS = 3, WORKERS = 4, PROCESSES = HOSTS + WORKERS };
enum { SQLITE, POSTGRES, BOUNCED, STANDBY, SKEWED };

static const struct {
  const char *name;
  uint32_t lease_ms;
  int stop_ms, faults, faults_long;
} kinds[] = {{"sqlite", 300, 450, 70, 2000},
             {"postgres", 500, 700, 16, 2000},
             {"bounced", 500, 700, 200, 200},
             {"standby", 500, 700, 60, 60},
             {"skewed", 500, 700, 200, 200}};
static int kind;
#define FAKETIME "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"

/* ---- what the processes share ---- */

static void open_sqlite(tp_store **ret_store, tp_history **ret_history) {
  tp_fault fault = {0};
  const tp_sqlite_store_options store = {
      .struct_size = sizeof store, .path = path, .jobs_max = 1000000, .jobs_ended_max = 10000000};
  const tp_sqlite_history_options history = {
      .struct_size = sizeof history, .path = path, .lease_ms = kinds[kind].lease_ms};
  if (tp_sqlite_store_open(&store, ret_store, &fault) != TP_OK ||
      tp_sqlite_history_open_sync(&history, ret_history, &fault) != TP_OK)
    fail_msg("%s", fault.message);
}

static void open_postgres(const char *conninfo, tp_store **ret_store, tp_history **ret_history) {
#ifdef TP_WITH_POSTGRES
  tp_postgres *database = NULL;
  tp_fault fault = {0};
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = conninfo, .lease_ms = kinds[kind].lease_ms, .statement_ms = 2000};
  const tp_postgres_store_options store = {
      .struct_size = sizeof store, .jobs_max = 1000000, .jobs_ended_max = 10000000};
  if (tp_postgres_open(&options, &database, &fault) != TP_OK ||
      tp_postgres_store(database, &store, ret_store, &fault) != TP_OK ||
      tp_postgres_history(database, ret_history, &fault) != TP_OK)
    fail_msg("%s", fault.message);
  tp_postgres_close(database);
#else
  (void)conninfo, (void)ret_store, (void)ret_history;
#endif
}

static void open_shared(const char *conninfo, tp_store **ret_store, tp_history **ret_history) {
  if (kind == SQLITE) open_sqlite(ret_store, ret_history);
  else open_postgres(conninfo, ret_store, ret_history);
}

/* ---- a process ---- */

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

/* @param number  of this process; no earlier or later process has the same. */
static int process_main(const char *in, const char *conninfo, bool is_host, uint64_t number) {
  pthread_t threads[FLEET_THREADS];
  fleet_player *players[FLEET_THREADS];
  tp_store *store = NULL;
  tp_history *history = NULL;
  snprintf(directory, sizeof directory, "%s", in);
  snprintf(path, sizeof path, "%s/file.db", in);
  fleet.lease_ms = kinds[kind].lease_ms;
  fleet_open(in);
  open_shared(conninfo, &store, &history);
  tp_store_recovery found = {.struct_size = sizeof found};
  for (uint64_t i = 0; i < FLEET_THREADS; i++) players[i] = player_new(number, i + 1, history, store);
  if (store->open(store->ctx, &players[0]->owner, NULL) != TP_OK || store->recover(store->ctx, &found, NULL) != TP_OK)
    return 2;
  if (is_host) {
    for (int i = 0; i < FLEET_THREADS; i++) pthread_create(&threads[i], NULL, fleet_host_thread, players[i]);
    for (int i = 0; i < FLEET_THREADS; i++) pthread_join(threads[i], NULL);
  } else {
    fleet_worker(players[0]);
  }
  for (int i = 0; i < FLEET_THREADS; i++) free(players[i]);
  tp_history_free(history);
  tp_store_free(store);
  fleet_close();
  return 0;
}

/* ---- the parent ---- */

static struct process {
  child child;
  int64_t goes_on_ns; /* a stopped process stands still until this time; 0: it runs */
} processes[PROCESSES];
static uint64_t last_number;
static const char *conninfo_of_children = "-";

/* A third of the processes are five minutes ahead, a third five minutes late; the clock that only rises is right. */
static void set_clock(int index) {
  static const char *const clocks[] = {"+0", "+300s", "-300s"};
  if (kind != SKEWED) return;
  setenv("FAKETIME", clocks[index % 3], 1);
  setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
  setenv("LD_PRELOAD", FAKETIME, 1);
}

static void start_process(int index) {
  char number[24];
  set_clock(index);
  snprintf(number, sizeof number, "%llu", (unsigned long long)++last_number);
  processes[index] =
      (struct process){child_start((const char *const[]){directory, index < HOSTS ? "host" : "worker", number,
                                                         kinds[kind].name, conninfo_of_children, NULL}),
                       0};
  unsetenv("LD_PRELOAD");
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

/* When a process gave up by itself, such as one that found no server at its start, another one replaces it. */
static void await_turns(uint64_t count) {
  uint64_t before = fleet.board->acknowledged;
  while (fleet.board->acknowledged < before + count) {
    let_go_on(now_ns());
    for (int i = 0; i < PROCESSES; i++) {
      if (waitpid(processes[i].child.id, NULL, WNOHANG) != processes[i].child.id) continue;
      if (kind == SQLITE) fail_msg("a process ended by itself");
      fclose(processes[i].child.lines);
      start_process(i);
    }
    usleep(300);
  }
}

/* One process of three stands still; the others die. */
static void hit_a_process(unsigned *seed, int *stops) {
  int index = rand_r(seed) % PROCESSES;
  struct process *p = &processes[index];
  if (!p->goes_on_ns && rand_r(seed) % 3 == 0) {
    kill(p->child.id, SIGSTOP);
    p->goes_on_ns = now_ns() + (kinds[kind].stop_ms + rand_r(seed) % 100) * 1000000LL;
    ++*stops;
  } else {
    kill(p->child.id, SIGKILL); /* SIGKILL also ends a process that stands still */
    (void)end_process(index);
    start_process(index);
  }
}

#ifdef TP_WITH_POSTGRES
static void end_backends(void) {
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  PQclear(PQexec(connection,
                 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE application_name = 'turnphase'"));
  PQfinish(connection);
}

/* For a moment there is no free connection, and the hosts have none, because theirs are ended first. */
static void take_all_connections(void) {
  PGconn *taken[64];
  end_backends();
  for (int i = 0; i < 64; i++) taken[i] = PQconnectdb(postgres_server.conninfo);
  usleep(100000);
  for (int i = 0; i < 64; i++) PQfinish(taken[i]);
}

static bool restart_bouncer(void) {
  bouncer_stop(SIGKILL);
  return bouncer_start();
}

static void hit_others(int i) {
  bool goes_on = true;
  if (kind == STANDBY) goes_on = i % 3 != 2 || pair_fail_over();
  else if (i % 20 == 13) {
    postgres_stop(SIGQUIT);
    goes_on = postgres_start();
  } else if (kind == BOUNCED && i % 4 == 3) goes_on = restart_bouncer();
  else end_backends();
  if (!goes_on) abort();
}

static void hit_the_server(unsigned *seed, int i) {
  if (kind != POSTGRES) {
    hit_others(i);
    return;
  }
  static const int cuts[] = {BEFORE_COMMIT, AFTER_COMMIT, ANYWHERE, DELAYED};
  if (i % 80 == 39) take_all_connections();
  else if (i % 20 == 7) end_backends();
  else if (i % 40 == 17) {
    postgres_stop(i % 80 == 17 ? SIGKILL : SIGQUIT);
    if (!postgres_start()) abort();
  } else {
    int before = proxy.done;
    proxy.left = (size_t)(rand_r(seed) % 3000);
    proxy.next = i % 40 == 30 ? SILENT : cuts[rand_r(seed) % (int)COUNT(cuts)];
    while (proxy.done == before) {
      let_go_on(now_ns());
      usleep(200);
    }
  }
}
#else
static void hit_the_server(unsigned *seed, int i) { (void)seed, (void)i; }
#endif

static void play_fleet(const char *direct) {
  int faults = getenv("TURNPHASE_ROUNDS") ? kinds[kind].faults_long : kinds[kind].faults, stops = 0, hits = 0;
  unsigned seed = 37;
  tp_store *store = NULL;
  tp_history *history = NULL;
  make_directory_in_memory(NULL);
  fleet_open(directory);
  open_shared(direct, &store, &history);
  for (int i = 0; i < PROCESSES; i++) start_process(i);
  for (int i = 0; i < faults; i++) {
    bool of_server = kind != SQLITE && i % 2 == 1;
    if (of_server) hit_the_server(&seed, hits++);
    else hit_a_process(&seed, &stops);
    await_turns((uint64_t)rand_r(&seed) % 4);
    if (i % 40 == 39) fleet.board->generation++;
  }
  fleet.board->ends = true;
  let_go_on(INT64_MAX);
  for (int i = 0; i < HOSTS; i++) assert_int_equal(end_process(i), 0);
  fleet.board->workers_end = true;
  for (int i = HOSTS; i < PROCESSES; i++) assert_int_equal(end_process(i), 0);
  fleet_verdict v = fleet_judge(directory, history, store);
  print_message(
      "# %d faults: %d of the server and the connections to it; %d "
      "processes stood still\n",
      faults, hits, stops);
  fleet_report(kinds[kind].name, &v);
  assert_int_equal(v.sum, 0);
  assert_true(fleet.board->finished > 0 && fleet.board->calls > 0 && stops > 0);
  tp_history_free(history);
  tp_store_free(store);
  fleet_close();
  remove_directory(NULL);
}

TEST(processes_that_die_and_stand_still_keep_every_rule_on_one_file) {
  kind = SQLITE;
  play_fleet(NULL);
}

TEST(processes_and_connections_that_fail_keep_every_rule_on_one_database) {
#ifdef TP_WITH_POSTGRES
  kind = POSTGRES;
  const char *lack = postgres_lack();
  if (lack) {
    print_message("# skipped: %s\n", lack);
    return;
  }
  postgres_make();
  start_proxy();
  conninfo_of_children = proxy.conninfo;
  play_fleet(postgres_server.conninfo);
  stop_proxy();
  postgres_remove();
#endif
}

#ifdef TP_WITH_POSTGRES
/* @return whether it is played: in --long, where the machine has what it needs. */
static bool make_for(int which, const char *lack) {
  if (!getenv("TURNPHASE_ROUNDS")) return false;
  if (!lack) lack = postgres_lack();
  if (lack) print_message("# skipped: %s\n", lack);
  if (lack) return false;
  kind = which;
  if (kind == STANDBY) {
    postgres_server.settings[0] = "wal_level=replica";
    postgres_server.settings[1] = "max_wal_senders=4";
  }
  postgres_make();
  return true;
}
#endif

TEST(fleet_behind_pgbouncer_keeps_every_rule) {
#ifdef TP_WITH_POSTGRES
  if (!make_for(BOUNCED, bouncer_lack())) return;
  assert_true(bouncer_make());
  conninfo_of_children = bouncer.conninfo;
  play_fleet(postgres_server.conninfo);
  bouncer_stop(SIGKILL);
  postgres_remove();
#endif
}

TEST(fleet_keeps_every_rule_when_the_standby_becomes_the_primary) {
#ifdef TP_WITH_POSTGRES
  if (!make_for(STANDBY, NULL)) return;
  assert_true(pair_make());
  conninfo_of_children = postgres_pair.conninfo;
  play_fleet(postgres_pair.conninfo);
  pair_stop();
  postgres_remove();
#endif
}

TEST(processes_whose_clocks_differ_by_minutes_keep_every_rule) {
#ifdef TP_WITH_POSTGRES
  if (!make_for(SKEWED, access(FAKETIME, R_OK) == 0 ? NULL : "libfaketime is not installed (its Debian package)"))
    return;
  conninfo_of_children = postgres_server.conninfo;
  play_fleet(postgres_server.conninfo);
  postgres_remove();
#endif
}

TEST_MAIN(count, arguments) {
  const char *words[CHILD_WORDS_MAX] = {NULL};
  if (!child_is(count, arguments, words)) return test_main(count, arguments);
  while (strcmp(words[3], kinds[kind].name) != 0) kind++;
  return process_main(words[0], words[4], strcmp(words[1], "host") == 0, strtoull(words[2], NULL, 10));
}
