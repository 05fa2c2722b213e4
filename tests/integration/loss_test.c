/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages and the exit status of a run when data could not be stored: the file of the memory is locked by another
 * process, the disk is full, a file may not grow. */
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

enum { STATUS_LOST = 73, STATUS_IO = 74, STATUS_BUSY = 75, SECONDS_MAX = 45, TURNS = 40 };

static const char script[] = "repeat: true\nresponses:\n  - text: I see.\n";
static const char greeting[] = "{\"session\": \"one\", \"turn\": \"t0\", \"user\": \"Good morning!\"}\n";
static const char statement[] =
    "{\"session\": \"one\", \"turn\": \"t1\", \"user\": \"My rabbit is called Amadeus.\"}\n";

/* Ends with the given status, within seconds. */
static void play(command *c, const char *data, const char *input, bool json, int status) {
  *c = (command){
      .arguments = {"run", "--script", scratch_string("model.yaml", script), "--data", data, json ? "--json" : NULL},
      .input = input};
  double began = command_seconds();
  assert_status(c, status);
  assert_true(command_seconds() - began < SECONDS_MAX);
}

static void play_once(const char *data, const char *input, int status) {
  command c;
  play(&c, data, input, false, status);
  command_free(&c);
}

/* ---- the file is locked ---- */

static sqlite3 *lock_file(const char *data, const char *name) {
  char path[512];
  sqlite3 *db = NULL;
  snprintf(path, sizeof path, "%s/%s", data, name);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  return db;
}

FOR_ALL_TESTS(scratch_make, scratch_remove);

/* Its job waits: nothing is lost, and the next turn of the session finds the memory stored. */
TEST(memory_that_is_locked_is_kept_by_the_next_run) {
  command c;
  const char *data = scratch_path("locked");
  play_once(data, greeting, 0);
  sqlite3 *db = lock_file(data, "memory.db");
  play(&c, data, statement, false, STATUS_BUSY);
  sqlite3_close(db);
  assert_holds(&c.err, "background work of session one: what it needs is busy, full, out of reach or not given");
  assert_holds(&c.err, "1 background job is not done yet: the next run with this --data does it");
  assert_null(strstr(c.err.data, "failed for good"));
  command_free(&c);
  play(&c, data, "{\"session\": \"one\", \"turn\": \"t9\", \"user\": \"Good bye!\"}\n", false, 0);
  assert_null(strstr(c.err.data, "not done yet"));
  command_free(&c);
  c = (command){.arguments = {"memory", "list", data}};
  assert_status(&c, 0);
  assert_holds(&c.out, "Amadeus");
  command_free(&c);
}

TEST(memory_that_is_locked_is_no_dead_letter) {
  command c;
  const char *data = scratch_path("locked-json");
  play_once(data, greeting, 0);
  sqlite3 *db = lock_file(data, "memory.db");
  play(&c, data, statement, true, STATUS_BUSY);
  sqlite3_close(db);
  events e = events_read(&c.out);
  assert_int_equal(events_count(&e, "dead_letter", NULL), 0);
  events_free(&e);
  command_free(&c);
  c = (command){.arguments = {"jobs", "list", data, "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"state\":\"queued\"");
  assert_holds(&c.out, "\"reason\":\"postponed\"");
  assert_holds(&c.out, "\"attempt\":0");
  assert_holds(&c.out, "\"message\":\"the store is locked by another connection or process\"");
  command_free(&c);
}

/* The wait for the memories is bounded, and those that are left are counted. */
TEST(many_memories_that_are_locked_are_waited_for_seconds) {
  command c;
  char input[TURNS * 80];
  size_t size = 0;
  for (int i = 0; i < TURNS; i++)
    size +=
        (size_t)snprintf(input + size, sizeof input - size,
                         "{\"session\": \"s%d\", \"turn\": \"t%d\", \"user\": \"My %d. cat is Tom.\"}\n", i / 10, i, i);
  const char *data = scratch_path("locked-many");
  play_once(data, greeting, 0);
  sqlite3 *db = lock_file(data, "memory.db");
  play(&c, data, input, false, STATUS_BUSY);
  sqlite3_close(db);
  assert_holds(&c.err, "40 background jobs are not done yet: the next run with this --data does them");
  command_free(&c);
}

/* The message of a job that failed for good names the command that runs it again. */
TEST(memory_that_refuses_is_a_dead_letter_that_can_be_redriven) {
  command c;
  sqlite3 *db = NULL;
  char path[512], redrive[600];
  const char *data = scratch_path("refused");
  play_once(data, greeting, 0);
  snprintf(path, sizeof path, "%s/memory.db", data);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "CREATE TRIGGER refuse BEFORE INSERT ON memory BEGIN SELECT RAISE (ABORT, ''); END",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  play(&c, data, statement, true, STATUS_LOST);
  assert_int_equal(sqlite3_exec(db, "DROP TRIGGER refuse", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
  snprintf(redrive, sizeof redrive, "turnphase jobs redrive %s --all", data);
  assert_holds(&c.err, "1 background job failed for good");
  assert_holds(&c.err, redrive);
  events e = events_read(&c.out);
  assert_int_equal(events_count(&e, "dead_letter", NULL), 1);
  tp_text letter = events_find(&e, "dead_letter", "t1", "ids.session", "one"), last = event_at(&e, e.count - 1);
  assert_true(event_is(letter, "handler", "memory.post_turn_extractor"));
  assert_int_equal(event_int(letter, "attempts"), 1);
  assert_true(event_is(last, "event", "background"));
  assert_int_equal(event_int(last, "jobs_dead"), 1);
  assert_int_equal(event_int(last, "jobs_lost"), 0);
  events_free(&e);
  command_free(&c);
  c = (command){.arguments = {"jobs", "redrive", data, "--all"}};
  assert_status(&c, 0);
  command_free(&c);
  play_once(data, "{\"session\": \"one\", \"turn\": \"t9\", \"user\": \"Good bye!\"}\n", 0);
  c = (command){.arguments = {"memory", "list", data}};
  assert_status(&c, 0);
  assert_holds(&c.out, "Amadeus");
  command_free(&c);
}

TEST(history_that_is_locked_ends_the_run) {
  command c;
  const char *data = scratch_path("locked-history");
  play_once(data, greeting, 0);
  sqlite3 *db = lock_file(data, "turnphase.db");
  play(&c, data, statement, false, STATUS_BUSY);
  sqlite3_close(db);
  assert_holds(&c.err, "locked");
  command_free(&c);
}

/* ---- the disk is full ---- */

/* The history by itself is larger than the disk, whatever the memory has used of it before. */
enum { TEXT_BYTES = 12000 };

/* Plays so many turns that not all can be stored. @return how many ended, according to the events. */
static size_t play_till_it_is_full(command *c, const char *data, bool json, int status) {
  char *input = malloc(TURNS * (TEXT_BYTES + 200));
  size_t size = 0, ended = 0;
  assert_non_null(input);
  for (int i = 0; i < TURNS; i++) {
    size += (size_t)sprintf(input + size, "{\"session\": \"s%d\", \"turn\": \"t%d\", \"user\": \"", i / 10, i);
    memset(input + size, 'a' + i % 26, TEXT_BYTES);
    size += TEXT_BYTES;
    size += (size_t)sprintf(input + size, "\"}\n");
  }
  play(c, data, input, json, status);
  free(input);
  for (const char *at = c->out.data; (at = strstr(at, "\"event\":\"result\"")); at++) ended++;
  return ended;
}

TEST(disk_that_is_full_is_said_and_ends_the_run) {
  command c;
  char data[256];
  const char *disk = scratch_path("disk");
  assert_int_equal(mkdir(disk, 0700), 0);
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("tmpfs", disk, "tmpfs", 0, "size=400k") != 0) {
    print_message("# no tmpfs can be mounted here: %s\n", strerror(errno));
    return;
  }
  snprintf(data, sizeof data, "%s/data", disk);
  size_t ended = play_till_it_is_full(&c, data, true, STATUS_IO);
  assert_in_range(ended, 1, TURNS - 1); /* the rest was not played */
  assert_holds(&c.err, "full");
  assert_holds(&c.err, "the rest is not played");
  command_free(&c);
  assert_int_equal(umount2(disk, MNT_DETACH), 0);
}

TEST(file_that_may_not_grow_is_said_and_ends_the_run) {
  command c;
  struct rlimit before, small;
  const char *data = scratch_path("small");
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 300 * 1024;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  size_t ended = play_till_it_is_full(&c, data, true, STATUS_IO);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_in_range(ended, 1, TURNS - 1);
  assert_holds(&c.err, "the rest is not played");
  command_free(&c);
}
