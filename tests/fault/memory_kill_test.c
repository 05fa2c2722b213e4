/* SPDX-License-Identifier: Apache-2.0
 *
 * A process is killed while it keeps, imports and forgets: the file stays whole, what it said was kept is there, what
 * it said was forgotten is not, and an import is there whole or not at all. Killed at 20 points, or at as many as
 * TURNPHASE_KILLS says. And two processes that write and recall in one file at the same time. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "domains/memory/recall.h"
#include "tests/support/directory.h"
#include "turnphase/memory.h"

enum { KILLS = 20, KILLS_MAX = 1000, STEPS_MAX = 30, BATCH = 5, OPERATIONS = 3 };

static const tp__memory_scope scope = {{"acme", 4}, {"workspace", 9}, {"home", 4}};

/* ---- the process that is killed ---- */

/** What it says before and after each step. */
typedef struct report {
  int step;
  bool done;
} report;

static void need(bool true_one) {
  if (!true_one) _exit(3);
}

static void say(int fd, int step, bool done) {
  report r = {step, done};
  need(write(fd, &r, sizeof r) == (ssize_t)sizeof r);
}

/* A turn's name says which life and step it is of. */
static void name_turn(char into[32], int life, int step, int part) { snprintf(into, 32, "%d-%d-%d", life, step, part); }

static void extract(tp__memory_store *store, int life, int step, int64_t *ret_id) {
  char turn[32];
  name_turn(turn, life, step, 0);
  tp__memory memory = {.said_ms = 1, .session = tp_text_of("s"), .turn = tp_text_of(turn), .text = tp_text_of(turn)};
  need(tp__memory_put(store, &scope, &memory, ret_id) == TP_OK);
}

static void import(tp_memory *file, int life, int step) {
  char turns[BATCH][32];
  tp_memory_entry entries[BATCH];
  const tp_memory_entry *list[BATCH];
  for (int i = 0; i < BATCH; i++) {
    name_turn(turns[i], life, step, i);
    entries[i] = (tp_memory_entry){.struct_size = sizeof(tp_memory_entry),
                                   .said_unix_ms = 1,
                                   .tenant = scope.tenant,
                                   .scope = scope.kind,
                                   .name = scope.name,
                                   .session = tp_text_of("s"),
                                   .turn = tp_text_of(turns[i]),
                                   .text = tp_text_of(turns[i])};
    list[i] = &entries[i];
  }
  need(tp_memory_import(file, list, BATCH, NULL) == TP_OK);
}

/* Step 0 of three keeps, step 1 imports, step 2 forgets what step 0 has kept. */
static void live(int life, int fd) {
  tp__memory_store *store = NULL;
  tp_memory *file = NULL;
  int64_t id = 0;
  need(tp__memory_store_open(path, &store, NULL) == TP_OK && tp_memory_open(path, &file, NULL) == TP_OK);
  for (int step = 0; step < STEPS_MAX; step++) {
    say(fd, step, false);
    if (step % OPERATIONS == 0) extract(store, life, step, &id);
    else if (step % OPERATIONS == 1) import(file, life, step);
    else need(tp_memory_forget(file, id, NULL) == TP_OK);
    say(fd, step, true);
  }
  pause(); /* until it is killed */
}

/* ---- the one that kills and looks ---- */

/** How many of the turns of a step are there, and how many may be. */
typedef struct expectation {
  int least, most;
} expectation;

static expectation expected[KILLS_MAX][STEPS_MAX];
static int there[KILLS_MAX][STEPS_MAX];

static bool count_turn(void *ctx, const tp_memory_entry *entry) {
  int life, step, part;
  char turn[32];
  snprintf(turn, sizeof turn, "%.*s", (int)entry->turn.size, entry->turn.data);
  assert_int_equal(sscanf(turn, "%d-%d-%d", &life, &step, &part), 3);
  there[life][step]++;
  *(int64_t *)ctx = entry->id;
  return true;
}

static void count_turns(void) {
  tp_memory *file = NULL;
  tp_fault fault = {0};
  if (tp_memory_open(path, &file, &fault) != TP_OK) fail_msg("%s", fault.message);
  memset(there, 0, sizeof there);
  for (int64_t last = 0, before = -1; last != before;) {
    tp_memory_query query = {.struct_size = sizeof query, .beyond = last, .limit = 1000, .oldest_first = true};
    before = last;
    assert_int_equal(tp_memory_list(file, &query, count_turn, &last, NULL), TP_OK);
  }
  tp_memory_close(file);
}

static void assert_whole(void) {
  sqlite3 *db = NULL;
  sqlite3_stmt *s = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(s), SQLITE_ROW);
  assert_string_equal(sqlite3_column_text(s, 0), "ok");
  sqlite3_finalize(s);
  const char *check = "INSERT INTO recall (recall, rank) VALUES ('integrity-check', 1)";
  assert_int_equal(sqlite3_exec(db, check, NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(
      sqlite3_prepare_v2(db, "SELECT total(memories) = (SELECT count(*) FROM memory) FROM scope", -1, &s, NULL),
      SQLITE_OK);
  assert_int_equal(sqlite3_step(s), SQLITE_ROW);
  assert_int_equal(sqlite3_column_int(s, 0), 1);
  sqlite3_finalize(s);
  sqlite3_close(db);
}

/* What a report means for what must be there. */
static void expect(int life, report r) {
  expectation *all = expected[life];
  if (r.step % OPERATIONS == 2) {
    all[r.step - 2].least = 0;
    if (r.done) all[r.step - 2].most = 0;
    return;
  }
  all[r.step].most = r.step % OPERATIONS == 1 ? BATCH : 1;
  if (r.done) all[r.step].least = all[r.step].most;
}

/* Kills it when it has said so many things, some of them a moment later. */
static void kill_once(int life, int reports, useconds_t later_us) {
  int ends[2];
  report r;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    live(life, ends[1]);
    _exit(4);
  }
  close(ends[1]);
  for (int i = 0; i < reports; i++) {
    assert_int_equal(read(ends[0], &r, sizeof r), sizeof r);
    expect(life, r);
  }
  if (later_us) usleep(later_us);
  kill(child, SIGKILL);
  while (read(ends[0], &r, sizeof r) == (ssize_t)sizeof r) expect(life, r);
  close(ends[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
}

static void assert_as_expected(int lives) {
  count_turns();
  for (int life = 0; life < lives; life++)
    for (int step = 0; step < STEPS_MAX; step++) {
      const expectation *e = &expected[life][step];
      int found = there[life][step];
      if (found != e->least && found != e->most)
        fail_msg("life %d, step %d: %d are there, not %d or %d", life, step, found, e->least, e->most);
      expected[life][step] = (expectation){found, found}; /* what is so stays so */
    }
}

static void a_killed_process_loses_nothing_and_brings_nothing_back(void **state) {
  (void)state;
  const char *wanted = getenv("TURNPHASE_KILLS");
  int kills = wanted ? atoi(wanted) : KILLS;
  assert_in_range(kills, 1, KILLS_MAX);
  uint32_t random = 4711;
  for (int life = 0; life < kills; life++) {
    random = random * 1664525u + 1013904223u;
    kill_once(life, 1 + (int)(random >> 8) % (2 * STEPS_MAX), (random >> 20) % 4 * 300);
    assert_as_expected(life + 1);
    assert_whole();
  }
}

/* ---- two processes in one file ---- */

enum { EACH = 100 };

static void keep_own(tp__memory_store *store, int process, int number) {
  char turn[32], text[64];
  snprintf(turn, sizeof turn, "p%d-%d", process, number);
  snprintf(text, sizeof text, "The xylophone number%d of process%d.", number, process);
  tp__memory memory = {.said_ms = 1,
                       .session = tp_text_of(process ? "one" : "zero"),
                       .turn = tp_text_of(turn),
                       .text = tp_text_of(text)};
  tp_status status;
  do status = tp__memory_put(store, &scope, &memory, NULL);
  while (status == TP_ERR_STORE_BUSY);
  need(status == TP_OK);
}

/* Keeps its own, and finds each at once. */
static void work(int process) {
  tp__memory_store *store = NULL;
  need(tp__memory_store_open(path, &store, NULL) == TP_OK);
  for (int i = 0; i < EACH; i++) {
    char words[64], turn[32];
    tp__memory_list list = {0};
    keep_own(store, process, i);
    snprintf(words, sizeof words, "number%d process%d", i, process);
    snprintf(turn, sizeof turn, "p%d-%d", process, i);
    need(tp__memory_recall(store, &scope, tp_text_of(words), 10, &list) == TP_OK && list.count > 0);
    bool found = false;
    for (size_t k = 0; k < list.count; k++)
      found = found ||
              (list.items[k].turn.size == strlen(turn) && memcmp(list.items[k].turn.data, turn, strlen(turn)) == 0);
    need(found);
    tp__memory_list_fini(&list);
  }
  tp__memory_store_close(store);
}

static void two_processes_write_and_recall_in_one_file(void **state) {
  (void)state;
  pid_t children[2];
  for (int process = 0; process < 2; process++) {
    children[process] = fork();
    if (children[process] == 0) {
      work(process);
      _exit(0);
    }
  }
  for (int process = 0; process < 2; process++) {
    int status = 0;
    assert_int_equal(waitpid(children[process], &status, 0), children[process]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  assert_whole();
  tp__memory_store *store = NULL;
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  assert_int_equal(tp__memory_recall(store, &scope, tp_text_of("xylophone"), 1000, &list), TP_OK);
  assert_int_equal(list.count, 2 * EACH);
  tp__memory_list_fini(&list);
  tp__memory_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_killed_process_loses_nothing_and_brings_nothing_back, make_directory,
                                      remove_directory),
      cmocka_unit_test_setup_teardown(two_processes_write_and_recall_in_one_file, make_directory, remove_directory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
