/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQLite store with faults: a file that another process has locked, a full disk, a limit of the file's size, a file
 * that cannot be written, was removed, is damaged, foreign or of another version; processes that are gone. The system
 * calls of SQLite's VFS simulate a full disk. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "support/clock.h"
#include "tests/support/directory.h"
#include "tests/support/full_disk.h"
#include "tests/support/host.h"
#include "turnphase/sqlite.h"

static int prepare(void **state) {
  disk_full = false;
  return make_directory(state);
}

FOR_EACH_TEST(prepare, remove_directory);

/* ---- what a host does ---- */

typedef struct log_lines {
  pthread_mutex_t mutex;
  char text[4096];
} log_lines;

static void add_line(void *ctx, const tp_log_record *record) {
  log_lines *l = ctx;
  pthread_mutex_lock(&l->mutex);
  size_t used = strlen(l->text);
  snprintf(l->text + used, sizeof l->text - used, "%s %s: %s\n", tp_log_level_name(record->level),
           tp_status_name(record->status), record->message);
  pthread_mutex_unlock(&l->mutex);
}

static log_lines lines = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static tp_store *open_with(size_t queue_bytes_max) {
  lines.text[0] = '\0';
  tp_sqlite_store_options options = {.struct_size = sizeof options,
                                     .path = path,
                                     .queue_bytes_max = queue_bytes_max,
                                     .busy_ms = 50,
                                     .log = add_line,
                                     .log_ctx = &lines};
  tp_store *store = NULL;
  tp_fault fault = {0};
  if (tp_sqlite_store_open(&options, &store, &fault) != TP_OK) fail_msg("%s", fault.message);
  return store;
}

static tp_status insert(tp_store *store, const char *key, uint64_t *ret_id, tp_fault *fault) {
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 2,
                .limit_ms = 100,
                .handler = TEXT("h"),
                .idempotency_key = tp_text_of(key),
                .order_key = tp_text_of(key),
                .payload = TEXT("payload")};
  bool existed;
  return store->job_insert(store->ctx, &job, ret_id, &existed, fault);
}

static bool no_run(const void *source, size_t index, tp_run_record *record) {
  (void)source;
  (void)index;
  (void)record;
  return false;
}

static tp_status record(tp_store *store, uint64_t id) {
  tp_entry_record entry = {.struct_size = sizeof entry, .process_run_id = 7, .entry_id = id, .phase = 1, .run = no_run};
  return store->record(store->ctx, &entry);
}

static bool count(void *ctx, const tp_entry_record *entry) {
  (void)entry;
  ++*(size_t *)ctx;
  return true;
}

static size_t records_of(tp_store *store) {
  tp_record_query query = {.struct_size = sizeof query};
  size_t found = 0;
  assert_int_equal(store->records(store->ctx, &query, count, &found, NULL), TP_OK);
  return found;
}

static tp_sqlite_store_report counts_of(const tp_store *store) {
  tp_sqlite_store_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_sqlite_store_counts(store, &report), TP_OK);
  return report;
}

static uint64_t open_jobs(tp_store *store) {
  uint64_t found = 99;
  assert_int_equal(store->job_open(store->ctx, (tp_text){NULL, 0}, &found, NULL), TP_OK);
  return found;
}

static void take_nothing(void *ctx, const tp_job *job) {
  (void)ctx;
  (void)job;
}

static tp_status claim(tp_store *store, int64_t now_ms) {
  tp_job_claim request = {.struct_size = sizeof request, .now_ms = now_ms, .lease_ms = 100000, .take = take_nothing};
  int64_t next;
  return store->job_claim(store->ctx, &request, &next, NULL);
}

static void sql(const char *statements) {
  sqlite3 *db = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

static void assert_names_path(const tp_fault *fault, tp_status code) {
  assert_int_equal(fault->code, code);
  assert_string_equal(fault->subject, path);
  assert_non_null(strstr(fault->message, path));
}

static void assert_refused(tp_status code, const char *words) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_store *store = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_sqlite_store_open(&options, &store, &fault), code);
  assert_null(store);
  assert_names_path(&fault, code);
  if (!strstr(fault.message, words)) fail_msg("'%s' is not in: %s", words, fault.message);
}

/* ---- another process ---- */

typedef struct child {
  pid_t id;
  int says, hears;
} child;

/* A child that runs a function, which writes one byte at its end, and then waits until its pipe is closed. */
static child start(void (*does)(int says)) {
  int to[2], from[2];
  assert_int_equal(pipe(to), 0);
  assert_int_equal(pipe(from), 0);
  pid_t id = fork();
  if (id == 0) {
    char byte;
    close(to[1]);
    close(from[0]);
    does(from[1]);
    while (read(to[0], &byte, 1) > 0) continue;
    _exit(0);
  }
  close(to[0]);
  close(from[1]);
  char byte;
  assert_int_equal(read(from[0], &byte, 1), 1);
  return (child){id, from[0], to[1]};
}

static void end(child c, int with_signal) {
  if (with_signal) kill(c.id, with_signal);
  close(c.hears);
  close(c.says);
  waitpid(c.id, NULL, 0);
}

static void lock_file(int says) {
  sqlite3 *db = NULL;
  if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
    _exit(1);
  (void)!write(says, "x", 1);
}

TEST(a_file_that_another_process_has_locked_is_busy_until_it_is_unlocked) {
  tp_fault fault = {0};
  uint64_t id;
  tp_store_free(open_with(0)); /* the child opens it before this process does: locks do not cross a fork */
  child c = start(lock_file);
  tp_store *store = open_with(0);
  assert_int_equal(insert(store, "a", &id, &fault), TP_ERR_STORE_BUSY);
  assert_names_path(&fault, TP_ERR_STORE_BUSY);
  assert_int_equal(record(store, 1), TP_OK); /* it waits in the queue */
  assert_int_equal(store->commit(store->ctx, &fault), TP_ERR_STORE_BUSY);
  end(c, 0);
  assert_int_equal(insert(store, "a", &id, &fault), TP_OK);
  assert_int_equal(store->commit(store->ctx, &fault), TP_OK);
  assert_int_equal(records_of(store), 1);
  tp_store_free(store);
}

/* ---- a full disk ---- */

TEST(a_full_disk_is_declared_and_recovered_from_without_a_restart) {
  tp_store *store = open_with(0);
  tp_fault fault = {0};
  uint64_t id;
  disk_full = true;
  assert_int_equal(insert(store, "a", &id, &fault), TP_ERR_STORE_FULL);
  assert_names_path(&fault, TP_ERR_STORE_FULL);
  for (uint64_t i = 1; i <= 10; i++) assert_int_equal(record(store, i), TP_OK);
  assert_int_equal(store->commit(store->ctx, &fault), TP_ERR_STORE_FULL);
  assert_names_path(&fault, TP_ERR_STORE_FULL);
  tp_sqlite_store_report report = counts_of(store);
  assert_int_equal(report.is_failing, 1);
  assert_int_equal(report.last_failure, TP_ERR_STORE_FULL);
  assert_int_equal(report.records_written, 0);
  disk_full = false;
  assert_int_equal(insert(store, "a", &id, &fault), TP_OK);
  assert_int_equal(store->commit(store->ctx, &fault), TP_OK);
  report = counts_of(store);
  assert_int_equal(report.is_failing, 0);
  assert_int_equal(report.records_written, 10);
  assert_int_equal(report.records_dropped, 0);
  assert_int_equal(report.queue_bytes, 0);
  assert_int_equal(records_of(store), 10);
  assert_int_equal(open_jobs(store), 1);
  tp_store_free(store);
  assert_non_null(strstr(lines.text, "error TP_ERR_STORE_FULL: "));
  assert_non_null(strstr(lines.text, "written again"));
}

TEST(a_full_queue_drops_and_counts_and_takes_again) {
  tp_store *store = open_with(4096);
  uint64_t taken = 0, refused = 0;
  disk_full = true;
  while (refused < 5) {
    tp_status status = record(store, taken + 1);
    if (status == TP_OK) taken++;
    else refused++;
    assert_true(status == TP_OK || status == TP_ERR_FULL);
  }
  assert_true(taken > 0);
  tp_sqlite_store_report report = counts_of(store);
  assert_true(report.queue_bytes <= 4096);
  assert_int_equal(report.records_dropped, 5);
  disk_full = false;
  assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
  assert_int_equal(record(store, taken + 1), TP_OK);
  assert_int_equal(records_of(store), taken + 1);
  tp_store_free(store);
  assert_non_null(strstr(lines.text, "the queue of records is full"));
  assert_non_null(strstr(lines.text, "5 were not"));
}

TEST(what_waits_when_a_store_is_closed_is_written_or_logged_as_lost) {
  tp_store *store = open_with(0);
  for (uint64_t i = 1; i <= 3; i++) assert_int_equal(record(store, i), TP_OK);
  tp_store_free(store);
  store = open_with(0);
  assert_int_equal(records_of(store), 3);
  disk_full = true;
  assert_int_equal(record(store, 4), TP_OK);
  tp_store_free(store);
  assert_non_null(strstr(lines.text, "1 records were lost"));
}

/* ---- files that are not taken ---- */

TEST(a_file_of_another_version_or_program_is_refused) {
  tp_store_free(open_with(0));
  sql("PRAGMA user_version = 99");
  assert_refused(TP_ERR_STORE_SCHEMA, "of schema version 99, and this library has version 13; use the turnphase");
  sql("PRAGMA user_version = 14");
  assert_refused(TP_ERR_STORE_SCHEMA, "use the turnphase that wrote it");
  sql("PRAGMA user_version = 0");
  assert_refused(TP_ERR_STORE_CORRUPT, "never was");
  sql("PRAGMA user_version = 13; PRAGMA application_id = 7");
  assert_refused(TP_ERR_STORE_SCHEMA, "another path");
}

TEST(a_broken_file_is_refused) {
  tp_store *store = open_with(0);
  uint64_t id;
  for (int i = 0; i < 50; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    assert_int_equal(insert(store, key, &id, NULL), TP_OK);
  }
  tp_store_free(store);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  char noise[4096];
  memset(noise, 0x5a, sizeof noise);
  for (int page = 1; page < 12; page++) assert_int_equal(pwrite(fd, noise, sizeof noise, page * 4096), 4096);
  close(fd);
  assert_refused(TP_ERR_STORE_CORRUPT, "restore a copy");
}

static void never_taken(void *ctx, const tp_task_record *task) {
  (void)ctx;
  fail_msg("the task %.*s was taken", (int)task->key.size, task->key.data);
}

/* What a person allowed is what runs: nothing changes it on the way. */
TEST(a_task_whose_arguments_were_changed_is_not_taken) {
  tp_store *store = open_with(0);
  tp_task_record task = {.struct_size = sizeof task, .key = TEXT("one"), .tool = TEXT("t"), .arguments = TEXT("\x80")};
  assert_int_equal(store->task_put(store->ctx, &task, NULL), TP_OK);
  tp_store_free(store);
  sql("UPDATE task SET arguments = x'81a16e07'");
  store = open_with(0);
  tp_fault fault = {0};
  assert_int_equal(store->task_take(store->ctx, task.key, never_taken, NULL, &fault), TP_ERR_STORE_CORRUPT);
  assert_non_null(strstr(fault.message, "not those that were allowed"));
  assert_int_equal(store->task_settle(store->ctx, task.key, false, NULL), TP_OK);
  tp_store_free(store);
}

TEST(a_file_of_an_earlier_version_is_left_as_it_was_while_the_disk_is_full) {
  tp_store *store = open_with(0);
  assert_int_equal(record(store, 1), TP_OK);
  tp_store_free(store);
  sql("ALTER TABLE step DROP COLUMN entry_id; PRAGMA user_version = 1");
  disk_full = true;
  assert_refused(TP_ERR_STORE_FULL, "free space");
  disk_full = false;
  sql("ALTER TABLE step ADD COLUMN entry_id INTEGER; ALTER TABLE step DROP COLUMN entry_id"); /* it was not there */
  store = open_with(0);
  assert_int_equal(records_of(store), 1);
  tp_store_free(store);
  sql("INSERT INTO step (turn, position, kind, round, place, outcome, started_ns, ended_ns, name, entry_id)"
      " VALUES (1, 0, 1, 0, 0, 0, 0, 0, '', 0)");
}

TEST(a_new_file_that_cannot_be_written_stays_empty_and_is_made_later) {
  disk_full = true;
  assert_refused(TP_ERR_STORE_FULL, "free space");
  disk_full = false;
  tp_store *store = open_with(0);
  assert_int_equal(record(store, 1), TP_OK);
  assert_int_equal(records_of(store), 1);
  tp_store_free(store);
}

/* ---- what becomes of a file that is open ---- */

TEST(a_limit_of_the_file_size_is_a_full_disk) {
  tp_store *store = open_with(0);
  uint64_t id;
  tp_fault fault = {0};
  struct rlimit before, small;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 64 << 10; /* the file and its log have more than a page each, but no space for a job of 1 MiB */
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  static char large[1 << 20];
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1,
                .limit_ms = 1,
                .handler = TEXT("h"),
                .idempotency_key = TEXT("large"),
                .payload = {large, sizeof large}};
  bool existed;
  tp_status status = store->job_insert(store->ctx, &job, &id, &existed, &fault);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  if (status != TP_ERR_STORE_FULL) fail_msg("%d %s", fault.system_error, fault.message);
  assert_names_path(&fault, TP_ERR_STORE_FULL);
  assert_non_null(strstr(fault.message, "free space"));
  assert_int_equal(open_jobs(store), 0);
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, &fault), TP_OK);
  assert_int_equal(open_jobs(store), 1);
  tp_store_free(store);
}

TEST(a_file_that_was_removed_takes_nothing_until_it_is_back) {
  tp_store *store = open_with(0);
  uint64_t id;
  tp_fault fault = {0};
  char aside[128];
  snprintf(aside, sizeof aside, "%s.aside", path);
  assert_int_equal(insert(store, "before", &id, NULL), TP_OK);
  assert_int_equal(rename(path, aside), 0);
  assert_int_equal(insert(store, "a", &id, &fault), TP_ERR_IO);
  assert_names_path(&fault, TP_ERR_IO);
  assert_non_null(strstr(fault.message, "removed"));
  assert_int_equal(claim(store, 1), TP_ERR_IO);
  assert_int_equal(record(store, 1), TP_OK);
  assert_int_equal(store->commit(store->ctx, &fault), TP_ERR_IO);
  assert_int_equal(rename(aside, path), 0);
  assert_int_equal(insert(store, "a", &id, &fault), TP_OK);
  assert_int_equal(store->commit(store->ctx, &fault), TP_OK);
  assert_int_equal(records_of(store), 1);
  assert_int_equal(open_jobs(store), 2);
  tp_store_free(store);
}

/* Root may write every file, so the test takes another user's rights for a moment. */
TEST(a_file_that_cannot_be_written_is_refused) {
  tp_store_free(open_with(0));
  assert_int_equal(chmod(directory, 0755), 0);
  assert_int_equal(chmod(path, 0444), 0);
  bool is_root = geteuid() == 0;
  if (is_root) assert_int_equal(seteuid(65534), 0);
  assert_refused(TP_ERR_STORE_READONLY, "can be written");
  if (is_root) assert_int_equal(seteuid(0), 0);
}

TEST(damage_that_is_found_later_is_declared) {
  tp_store *store = open_with(0);
  uint64_t id;
  tp_fault fault = {0};
  assert_int_equal(insert(store, "a", &id, NULL), TP_OK);
  tp_store_free(store);
  store = open_with(0);
  sql("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'job';"
      "PRAGMA schema_version = 1000");
  assert_int_equal(insert(store, "b", &id, &fault), TP_ERR_STORE_CORRUPT);
  assert_names_path(&fault, TP_ERR_STORE_CORRUPT);
  assert_non_null(strstr(fault.message, "restore a copy"));
  tp_store_free(store);
}

TEST(only_an_existing_file_is_opened_where_that_is_asked_for) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .existing_only = 1};
  tp_store *store = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_sqlite_store_open(&options, &store, &fault), TP_ERR_NOT_FOUND);
  assert_names_path(&fault, TP_ERR_NOT_FOUND);
  assert_int_equal(access(path, F_OK), -1);
  tp_store_free(open_with(0));
  assert_int_equal(tp_sqlite_store_open(&options, &store, &fault), TP_OK);
  tp_store_free(store);
}

/* Beside a store that writes, and never more than read. */
TEST(file_that_is_opened_for_reading_is_read_alone) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .read_only = 1};
  tp_store *store = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_sqlite_store_open(&options, &store, &fault), TP_ERR_NOT_FOUND);
  assert_int_equal(access(path, F_OK), -1);
  tp_store *writer = open_with(0);
  assert_int_equal(record(writer, 1), TP_OK);
  assert_int_equal(writer->commit(writer->ctx, NULL), TP_OK);
  assert_int_equal(tp_sqlite_store_open(&options, &store, &fault), TP_OK);
  assert_int_equal(records_of(store), 1);
  assert_int_equal(record(writer, 2), TP_OK);
  assert_int_equal(writer->commit(writer->ctx, NULL), TP_OK);
  assert_int_equal(records_of(store), 2);
  assert_int_equal(record(store, 3), TP_ERR_STORE_READONLY);
  assert_null(store->job_redrive);
  tp_sqlite_store_stats stats = {.struct_size = sizeof stats};
  assert_int_equal(tp_sqlite_store_stats_get(store, &stats, NULL), TP_OK);
  assert_int_equal(stats.entries, 2);
  tp_runtime_options runtime_options = {.struct_size = sizeof runtime_options, .store = store};
  tp_runtime *runtime = NULL;
  assert_int_equal(tp_runtime_new(&runtime_options, &runtime, &fault), TP_ERR_USAGE);
  tp_store_free(store);
  tp_store_free(writer);
  sql("PRAGMA user_version = 99");
  assert_int_equal(tp_sqlite_store_open(&options, &store, &fault), TP_ERR_STORE_SCHEMA);
  assert_non_null(strstr(fault.message, "use the turnphase that wrote it"));
  options.read_only = 2;
  assert_int_equal(tp_sqlite_store_open(&options, &store, &fault), TP_ERR_USAGE);
}

/* What is in its log only is in no file that may be read without it. */
TEST(store_in_a_directory_for_reading_is_not_read_without_its_log) {
  static const char copy[] =
      "set -e; cd '%s'; mkdir ro; cp %s ro/copy.db; if %s; then cp %s-wal ro/copy.db-wal; fi;"
      " chmod 0444 ro/*; chmod 0555 ro; chmod 0711 .";
  const char *name = strrchr(path, '/') + 1;
  char command[1024], at[256];
  snprintf(at, sizeof at, "%s/ro/copy.db", directory);
  tp_store_free(open_with(0)); /* the file is whole without what comes then */
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = at, .read_only = 1};
  for (int has_log = 1; has_log >= 0; has_log--) {
    tp_store *writer = open_with(0), *store = NULL;
    tp_fault fault = {0};
    assert_int_equal(record(writer, (uint64_t)(has_log + 1)), TP_OK);
    assert_int_equal(writer->commit(writer->ctx, NULL), TP_OK);
    if (!has_log) tp_store_free(writer);
    snprintf(command, sizeof command, copy, directory, name, has_log ? "true" : "false", name);
    assert_int_equal(system(command), 0);
    bool is_root = geteuid() == 0;
    if (is_root) assert_int_equal(seteuid(65534), 0); /* to whom the modes count */
    tp_status status = tp_sqlite_store_open(&options, &store, &fault);
    if (is_root) assert_int_equal(seteuid(0), 0);
    if (has_log) assert_int_not_equal(status, TP_OK);
    if (has_log) assert_string_equal(fault.subject, at);
    else if (status != TP_OK) fail_msg("%s", fault.message);
    if (!has_log) assert_int_equal(records_of(store), 2);
    tp_store_free(store);
    if (has_log) tp_store_free(writer);
    snprintf(command, sizeof command, "chmod 0755 '%s/ro' && rm -r '%s/ro'", directory, directory);
    assert_int_equal(system(command), 0);
  }
}

/* ---- options ---- */

TEST(options_that_make_no_sense_are_refused) {
  tp_store *store = NULL;
  tp_fault fault = {0};
  tp_sqlite_store_options none = {.struct_size = sizeof none};
  assert_int_equal(tp_sqlite_store_open(&none, &store, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "path"));
  tp_sqlite_store_options slow = {.struct_size = sizeof slow, .path = path, .busy_ms = 600001};
  assert_int_equal(tp_sqlite_store_open(&slow, &store, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "busy_ms"));
  tp_sqlite_store_options wrong_options = {.struct_size = sizeof wrong_options, .path = path, .existing_only = 2};
  assert_int_equal(tp_sqlite_store_open(&wrong_options, &store, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "existing_only"));
  tp_sqlite_store_options small = {.struct_size = sizeof small, .path = path, .page_cache_bytes = 65535};
  assert_int_equal(tp_sqlite_store_open(&small, &store, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "page_cache_bytes is 65535: give at least 65536"));
  small.page_cache_bytes++;
  assert_int_equal(tp_sqlite_store_open(&small, &store, &fault), TP_OK);
  tp_store_free(store);
  store = NULL;
  tp_sqlite_store_options tiny = {.struct_size = sizeof tiny, .path = path, .bytes_max = 1000};
  assert_int_equal(tp_sqlite_store_open(&tiny, &store, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "bytes_max"));
  tp_sqlite_store_options wrong = {.path = path};
  assert_int_equal(tp_sqlite_store_open(&wrong, &store, &fault), TP_ERR_VERSION);
  assert_int_equal(tp_sqlite_store_open(NULL, &store, &fault), TP_ERR_USAGE);
  assert_null(store);
}

/* ---- processes ---- */

static tp_store_owner owner_of(uint64_t run_id, int64_t process_id, int64_t started, const char *boot_id) {
  return (tp_store_owner){.struct_size = sizeof(tp_store_owner),
                          .process_run_id = run_id,
                          .process_id = process_id,
                          .process_started = started,
                          .boot_id = tp_text_of(boot_id)};
}

static tp_status own(tp_store *store, tp_store_owner owner) { return store->open(store->ctx, &owner, NULL); }

static bool run_in_state(const void *source, size_t index, tp_run_record *record) {
  (void)index;
  *record = (tp_run_record){.struct_size = sizeof *record,
                            .subscription = "s",
                            .handler = "h",
                            .owner = "o",
                            .state = *(const uint8_t *)source};
  return true;
}

static tp_status record_state(tp_store *store, uint64_t run_id, uint64_t id, uint8_t state, int64_t ended_ns) {
  tp_entry_record entry = {.struct_size = sizeof entry,
                           .process_run_id = run_id,
                           .entry_id = id,
                           .started_ns = 1,
                           .ended_ns = ended_ns,
                           .run_count = 1,
                           .run = run_in_state,
                           .source = &state};
  return store->record(store->ctx, &entry);
}

static bool step_of_left_turn(const void *source, size_t index, tp_turn_step *step) {
  static const tp_turn_step steps[] = {
      {.kind = TP_STEP_TOOL, .started_ns = 1, .ended_ns = 2, .name = {"over", 4}},
      {.kind = TP_STEP_LOAD, .started_ns = 1},
      {.kind = TP_STEP_MODEL, .started_ns = 1, .name = {"gpt", 3}},
      {.kind = TP_STEP_TOOL, .started_ns = 1, .name = {"build", 5}},
      {.kind = TP_STEP_QUESTION, .started_ns = 1, .name = {"asked", 5}},
  };
  (void)source;
  if (index >= COUNT(steps)) return false;
  *step = steps[index];
  step->struct_size = sizeof *step;
  return true;
}

/* Which turn it is. */
static const tp_text left_ids[TP_ID_COUNT] = {
    [TP_ID_TENANT] = {"t", 1}, [TP_ID_SESSION] = {"s", 1}, [TP_ID_TURN] = {"left", 4}};

static tp_status leave_turn_running(tp_store *store, uint64_t run_id) {
  const tp_turn_record record = {.struct_size = sizeof record,
                                 .process_run_id = run_id,
                                 .number = 3,
                                 .ids = left_ids,
                                 .id_count = TP_ID_COUNT,
                                 .started_ns = 1,
                                 .ended_ns = 5,
                                 .step_count = 5,
                                 .step = step_of_left_turn,
                                 .state = TP_STATE_RUNNING};
  return store->turn_running(store->ctx, &record);
}

/* Two jobs, of which one runs, two entries, of which one runs, and a turn. */
static bool leave_things_running(tp_store *store, uint64_t run_id) {
  uint64_t id;
  if (leave_turn_running(store, run_id) != TP_OK) return false;
  return insert(store, "a", &id, NULL) == TP_OK && insert(store, "b", &id, NULL) == TP_OK && claim(store, 1) == TP_OK &&
         record_state(store, run_id, 1, TP_STATE_SUCCEEDED, 2) == TP_OK &&
         record_state(store, run_id, 2, TP_STATE_RUNNING, 0) == TP_OK && store->commit(store->ctx, NULL) == TP_OK;
}

static void run_until_killed(int says) {
  tp_store *store = open_with(0);
  bool ok = own(store, owner_of(11, getpid(), 0, "boot")) == TP_OK && leave_things_running(store, 11);
  (void)!write(says, "x", ok ? 1 : 0);
}

static tp_store_recovery recover(tp_store *store) {
  tp_store_recovery found = {.struct_size = sizeof found};
  assert_int_equal(own(store, owner_of(12, getpid(), 0, "boot")), TP_OK);
  assert_int_equal(store->recover(store->ctx, &found, NULL), TP_OK);
  return found;
}

typedef struct states {
  int interrupted, others, failed;
} states;

static bool count_states(void *ctx, const tp_entry_record *entry) {
  states *s = ctx;
  tp_run_record run = {.struct_size = sizeof run};
  if (!entry->run(entry->source, 0, &run)) return true;
  if (run.state == TP_STATE_INTERRUPTED && run.reason == TP_REASON_CRASH && entry->ended_ns == 0) s->interrupted++;
  else s->others++;
  if (entry->status == TP_ERR_HOOK) s->failed++;
  return true;
}

typedef struct left_turns {
  int count;
  uint32_t state;
  size_t open;
} left_turns;

static bool note_left_turn(void *ctx, const tp_turn_record *record) {
  left_turns *left = ctx;
  left->count++;
  left->state = record->state;
  for (size_t i = 0; i < record->step_count; i++) {
    tp_turn_step step = {.struct_size = sizeof step};
    left->open += record->step(record->step_source, i, &step) && step.ended_ns == 0;
  }
  return true;
}

static void assert_left_turn(tp_store *store, uint32_t state) {
  left_turns left = {.count = 0};
  tp_turn_query all = {.struct_size = sizeof all};
  assert_int_equal(store->turns_running(store->ctx, &all, note_left_turn, &left, NULL), TP_OK);
  assert_int_equal(left.count, 1);
  assert_int_equal(left.state, state);
  assert_int_equal(left.open, 4); /* what it was doing is kept */
}

static bool count_suspects(void *ctx, const tp_audit *row) {
  int *found = ctx;
  if (strcmp(row->action, "crash_suspect") != 0) return true;
  assert_string_equal(row->turn, "left");
  assert_string_equal(row->session, "s");
  assert_string_equal(row->tenant, "t");
  if (strcmp(row->detail, "a request to the model `gpt` was open when its process died") == 0) *found += 1;
  else if (strcmp(row->detail, "the tool `build` was called when its process died") == 0) *found += 10;
  else *found += 100;
  return true;
}

static void assert_suspects(tp_store *store, int want) {
  int found = 0;
  tp_audit_query all = {.struct_size = sizeof all};
  assert_int_equal(store->audits(store->ctx, &all, count_suspects, &found, NULL), TP_OK);
  assert_int_equal(found, want);
}

static void assert_recovered(tp_store *store, bool by_itself) {
  tp_store_recovery found = recover(store), again = {.struct_size = sizeof again};
  states seen = {0};
  tp_record_query query = {.struct_size = sizeof query};
  assert_int_equal(found.owners, 1);
  assert_int_equal(found.jobs_requeued, 1);
  assert_int_equal(found.jobs_dead, 0);
  assert_int_equal(found.entries_interrupted, 1);
  assert_int_equal(found.turns_interrupted, 1);
  assert_int_equal(found.crash_suspects, by_itself ? 2 : 0);
  assert_left_turn(store, TP_STATE_INTERRUPTED);
  assert_suspects(store, by_itself ? 11 : 0);
  assert_int_equal(store->records(store->ctx, &query, count_states, &seen, NULL), TP_OK);
  assert_int_equal(seen.interrupted, 1);
  assert_int_equal(seen.failed, 1);
  assert_int_equal(seen.others, 1);
  assert_int_equal(open_jobs(store), 2);
  assert_int_equal(claim(store, 2), TP_OK);
  assert_int_equal(claim(store, 2), TP_OK);
  assert_int_equal(store->recover(store->ctx, &again, NULL), TP_OK);
  assert_int_equal(again.owners + again.jobs_requeued + again.entries_interrupted + again.turns_interrupted, 0);
  assert_suspects(store, by_itself ? 11 : 0);
}

static void assert_states(tp_store *store, int interrupted, int failed, int others) {
  states seen = {0};
  tp_record_query query = {.struct_size = sizeof query};
  assert_int_equal(store->records(store->ctx, &query, count_states, &seen, NULL), TP_OK);
  assert_int_equal(seen.interrupted, interrupted);
  assert_int_equal(seen.failed, failed);
  assert_int_equal(seen.others, others);
}

/* A command that only reads shows the state that a recovery will leave; the next start writes it. */
TEST(what_a_killed_process_left_running_is_read_as_interrupted_before_a_recovery) {
  child c = start(run_until_killed);
  tp_store *store = open_with(0);
  assert_left_turn(store, TP_STATE_RUNNING);
  assert_states(store, 0, 0, 2);
  end(c, SIGKILL);
  assert_left_turn(store, TP_STATE_INTERRUPTED);
  assert_states(store, 1, 1, 1);
  assert_suspects(store, 0);
  tp_store_free(store);
}

/* ---- a turn that the history has, and its record ---- */

static bool is_cut(tp_store *store, uint64_t process, const tp_text *ids) {
  bool cut = false;
  assert_int_equal(store->turn_is_cut(store->ctx, process, ids, TP_ID_COUNT, &cut, NULL), TP_OK);
  return cut;
}

static void put_turn_record(tp_store *store, uint64_t process, int64_t started_ms) {
  const tp_turn_record record = {.struct_size = sizeof record,
                                 .process_run_id = process,
                                 .number = (uint64_t)started_ms,
                                 .ids = left_ids,
                                 .id_count = TP_ID_COUNT,
                                 .outcome = 1,
                                 .started_unix_ms = started_ms};
  assert_int_equal(store->turn_record(store->ctx, &record), TP_OK);
}

TEST(turn_is_cut_when_its_process_died_and_left_no_record_of_it) {
  child c = start(run_until_killed);
  tp_store *store = open_with(0);
  assert_false(is_cut(store, 11, left_ids)); /* its process runs */
  end(c, SIGKILL);
  assert_true(is_cut(store, 11, left_ids));
  assert_false(is_cut(store, 77, left_ids)); /* of which nothing is known: it was closed */
  put_turn_record(store, 9, 1);              /* an earlier run of it, in another process */
  assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
  (void)recover(store);
  assert_true(is_cut(store, 11, left_ids));
  assert_false(is_cut(store, 12, left_ids));
  put_turn_record(store, 12, 2); /* the run that made up for it: its clock was late */
  assert_false(is_cut(store, 11, left_ids));
  tp_text others[TP_ID_COUNT];
  static const tp_id_kind kinds[] = {TP_ID_TENANT, TP_ID_SESSION, TP_ID_TURN};
  for (size_t i = 0; i < COUNT(kinds); i++) {
    memcpy(others, left_ids, sizeof others);
    others[kinds[i]] = (tp_text)TEXT("other");
    assert_true(is_cut(store, 11, others));
  }
  tp_store_free(store);
}

TEST(turn_is_not_cut_when_its_process_gave_its_record_before_it_died) {
  child c = start(run_until_killed);
  tp_store *store = open_with(0);
  put_turn_record(store, 11, 1);
  end(c, SIGKILL);
  assert_false(is_cut(store, 11, left_ids));
  (void)recover(store);
  assert_false(is_cut(store, 11, left_ids));
  tp_store_free(store);
}

TEST(what_a_killed_process_left_running_is_requeued_or_interrupted) {
  child c = start(run_until_killed);
  end(c, SIGKILL);
  tp_store *store = open_with(0);
  assert_recovered(store, true);
  tp_store_free(store);
}

TEST(a_process_that_was_killed_and_is_not_waited_for_is_gone) {
  child c = start(run_until_killed);
  siginfo_t info;
  kill(c.id, SIGKILL);
  assert_int_equal(waitid(P_PID, (id_t)c.id, &info, WEXITED | WNOWAIT), 0); /* it stays a zombie */
  tp_store *store = open_with(0);
  assert_recovered(store, true);
  tp_store_free(store);
  end(c, 0);
}

TEST(a_process_that_runs_keeps_what_it_runs) {
  child c = start(run_until_killed);
  tp_store *store = open_with(0);
  tp_store_recovery found = recover(store);
  assert_int_equal(found.owners + found.jobs_requeued + found.entries_interrupted + found.turns_interrupted, 0);
  assert_left_turn(store, TP_STATE_RUNNING);
  assert_int_equal(claim(store, 2), TP_OK);
  assert_int_equal(claim(store, 2), TP_ERR_NOT_FOUND);
  tp_store_free(store);
  end(c, 0);
}

/* Its number was given to another process, or the machine was restarted: here, the number is the one of this
 * process. */
TEST(a_process_is_known_by_its_number_its_start_and_the_boot) {
  for (int i = 0; i < 2; i++) {
    tp_store *left = open_with(0);
    assert_int_equal(own(left, i == 0 ? owner_of(11, getpid(), 1, "boot") : owner_of(11, getpid(), 0, "another boot")),
                     TP_OK);
    assert_true(leave_things_running(left, 11));
    tp_store_free(left); /* its row stays, since a job and an entry run */
    tp_store *store = open_with(0);
    assert_recovered(store, i == 0);
    tp_store_free(store);
    remove_directory(NULL);
    make_directory(NULL);
  }
}

TEST(an_entry_that_ran_when_its_store_was_closed_is_interrupted_later) {
  tp_store *left = open_with(0);
  assert_int_equal(own(left, owner_of(11, getpid(), 1, "boot")), TP_OK);
  assert_int_equal(record_state(left, 11, 1, TP_STATE_RUNNING, 0), TP_OK);
  tp_store_free(left);
  tp_store *store = open_with(0);
  assert_int_equal(recover(store).entries_interrupted, 1);
  tp_store_free(store);
}

static void run_on_this_boot(int says) {
  tp_store *store = open_with(0);
  bool ok = own(store, owner_of(11, getpid(), 0, "")) == TP_OK && leave_things_running(store, 11);
  (void)!write(says, "x", ok ? 1 : 0);
}

static int64_t number_of(const char *statement) {
  sqlite3 *db = NULL;
  sqlite3_stmt *row = NULL;
  int64_t number = -1;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  sqlite3_busy_timeout(db, 10000);
  assert_int_equal(sqlite3_prepare_v2(db, statement, -1, &row, NULL), SQLITE_OK);
  if (sqlite3_step(row) == SQLITE_ROW) number = sqlite3_column_int64(row, 0);
  sqlite3_finalize(row);
  sqlite3_close(db);
  return number;
}

/* It looks twice a second at most. */
TEST(what_a_process_left_is_found_by_one_that_lives) {
  static const char left_running[] =
      "SELECT (SELECT count(*) FROM process WHERE id = 11)"
      " + (SELECT count(*) FROM job WHERE state = 2)"
      " + (SELECT count(*) FROM running WHERE state = 2)";
  child c = start(run_on_this_boot);
  const tp_runtime_options options = {
      .struct_size = sizeof options, .store = open_with(0), .job_lease_ms = 300, .log = add_line, .log_ctx = &lines};
  tp_runtime *runtime = open_runtime(&options);
  assert_int_equal(tp_runtime_start(runtime, NULL), TP_OK);
  usleep(700000); /* it has looked once more: the process lives */
  assert_int_equal(number_of(left_running), 3);
  end(c, SIGKILL);
  while (number_of(left_running) > 0) usleep(10000);
  close_runtime(runtime);
  assert_non_null(strstr(lines.text, "was left by 1 processes that are gone: 1 jobs were requeued"));
}

static tp_job claimed;
static void take_numbers(void *ctx, const tp_job *job) {
  (void)ctx;
  claimed = *job;
}

/* The wall clock was set back between two processes: a job that would wait for longer than any pause is due. */
TEST(a_job_waits_no_longer_than_its_pause_when_the_clock_was_set_back) {
  enum { SECOND = 1000, MINUTE = 60 * SECOND, SLACK = 30 * SECOND };
  static const int64_t hour = 60 * (int64_t)MINUTE, day = 24 * hour;
  const struct {
    int64_t ahead; /* of now, when it may be claimed */
    int64_t waits; /* at most, and not much less */
  } rows[] = {{day, 0},        {365 * day, 0},   {INT64_MAX / 4, 0}, {7 * day, 0}, {hour, 0},  {10 * MINUTE, 0},
              {3 * MINUTE, 0}, {MINUTE, MINUTE}, {SLACK, SLACK},     {0, 0},       {-hour, 0}, {-day, 0}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    uint64_t id;
    uint32_t after;
    int64_t next = 0;
    const int64_t now = tp__wall_ms();
    tp_store *left = open_with(0);
    assert_int_equal(own(left, owner_of(11, getpid(), 1, "boot")), TP_OK);
    assert_int_equal(insert(left, "a", &id, NULL), TP_OK);
    tp_job_claim request = {.struct_size = sizeof request, .now_ms = now, .lease_ms = MINUTE, .take = take_numbers};
    assert_int_equal(left->job_claim(left->ctx, &request, &next, NULL), TP_OK);
    const tp_job_finish retry = {.struct_size = sizeof retry,
                                 .id = claimed.id,
                                 .claim = claimed.claim,
                                 .now_ms = now,
                                 .retry_at_ms = now + rows[i].ahead,
                                 .end = TP_JOB_END_RETRY,
                                 .reason = TP_REASON_ERROR};
    assert_int_equal(left->job_finish(left->ctx, &retry, &after, NULL), TP_OK);
    assert_int_equal(after, TP_JOB_QUEUED);
    tp_store_free(left);
    tp_store *store = open_with(0);
    (void)recover(store);
    if (rows[i].waits > SLACK) assert_int_equal(claim(store, now + rows[i].waits - SLACK), TP_ERR_NOT_FOUND);
    if (rows[i].waits == SLACK) assert_int_equal(claim(store, now + SLACK - 1), TP_ERR_NOT_FOUND);
    /* the recovery looked at the clock a moment later */
    assert_int_equal(claim(store, now + rows[i].waits + SLACK), TP_OK);
    tp_store_free(store);
    remove_directory(NULL);
    make_directory(NULL);
  }
}

TEST(a_job_whose_last_attempt_was_killed_is_a_dead_letter) {
  tp_store *left = open_with(0);
  uint64_t id;
  assert_int_equal(own(left, owner_of(11, getpid(), 1, "boot")), TP_OK);
  assert_int_equal(insert(left, "a", &id, NULL), TP_OK);
  assert_int_equal(claim(left, 1), TP_OK);
  assert_int_equal(claim(left, 1000000000), TP_OK); /* its lease ran out: the second attempt of two */
  tp_store_free(left);
  tp_store *store = open_with(0);
  tp_store_recovery found = recover(store);
  assert_int_equal(found.jobs_dead, 1);
  assert_int_equal(found.jobs_requeued, 0);
  assert_int_equal(open_jobs(store), 0);
  tp_store_free(store);
}

/* ---- what an operator asks ---- */

static void count_problem(void *ctx, tp_text problem) {
  if (problem.size > 0) ++*(int *)ctx;
}

static int problems_of(tp_store *store) {
  int problems = 0;
  tp_fault fault = {0};
  tp_status status = tp_sqlite_store_verify(store, count_problem, &problems, &fault);
  assert_int_equal(status, problems ? TP_ERR_STORE_CORRUPT : TP_OK);
  if (problems) assert_names_path(&fault, TP_ERR_STORE_CORRUPT);
  return problems;
}

TEST(what_is_in_the_file_is_counted) {
  tp_store *store = open_with(0), *memory = NULL;
  assert_true(leave_things_running(store, 7));
  tp_sqlite_store_stats stats = {.struct_size = sizeof stats};
  assert_int_equal(tp_sqlite_store_stats_get(store, &stats, NULL), TP_OK);
  assert_int_equal(stats.entries, 2);
  assert_int_equal(stats.runs, 2);
  assert_int_equal(stats.jobs_queued, 1);
  assert_int_equal(stats.jobs_running, 1);
  assert_int_equal(stats.schema_version, 13);
  assert_true(stats.file_bytes >= 4096 && stats.free_bytes <= stats.file_bytes);
  assert_int_equal(tp_store_memory_new(NULL, NULL, &memory, NULL), TP_OK);
  assert_int_equal(tp_sqlite_store_stats_get(memory, &stats, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_sqlite_store_verify(memory, NULL, NULL, NULL), TP_ERR_USAGE);
  stats.struct_size = 1;
  assert_int_equal(tp_sqlite_store_stats_get(store, &stats, NULL), TP_ERR_VERSION);
  tp_store_free(memory);
  tp_store_free(store);
}

TEST(rows_that_do_not_agree_are_found) {
  static const char *const damages[] = {
      "DELETE FROM entry WHERE id = 1",
      "UPDATE counter SET value = 9 WHERE id = 2",
      "UPDATE job SET is_first = 0 WHERE state = 2",
      "INSERT INTO message VALUES (1, 77, 1, 0, '', '', '', '', x'', x'', x'', x'', 0, 0)",
      "INSERT INTO tool_call VALUES (77, 0, '', '', 0, '')",
      "UPDATE job SET state = 3, is_first = 0 WHERE state = 1",
  };
  for (size_t i = 0; i < COUNT(damages); i++) {
    tp_store *store = open_with(0);
    assert_true(leave_things_running(store, 7));
    assert_int_equal(problems_of(store), 0);
    sql(damages[i]);
    if (problems_of(store) != 1) fail_msg("not found: %s", damages[i]);
    tp_store_free(store);
    remove_directory(NULL);
    make_directory(NULL);
  }
}

/* ---- what is not kept ---- */

static int64_t unix_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static tp_store *open_bounded(uint64_t bytes_max, uint32_t age_max_s) {
  lines.text[0] = '\0';
  tp_sqlite_store_options options = {.struct_size = sizeof options,
                                     .path = path,
                                     .busy_ms = 50,
                                     .log = add_line,
                                     .log_ctx = &lines,
                                     .bytes_max = bytes_max,
                                     .age_max_s = age_max_s};
  tp_store *store = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  return store;
}

static void record_at(tp_store *store, uint64_t id, int64_t started_ms) {
  static const uint8_t done = TP_STATE_SUCCEEDED;
  char turn[120];
  memset(turn, 't', sizeof turn);
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = {turn, sizeof turn}};
  tp_entry_record entry = {.struct_size = sizeof entry,
                           .process_run_id = 7,
                           .entry_id = id,
                           .started_unix_ms = started_ms,
                           .ended_ns = 1,
                           .ids = ids,
                           .id_count = TP_ID_COUNT,
                           .run_count = 4,
                           .run = run_in_state,
                           .source = &done};
  tp_turn_record record = {.struct_size = sizeof record,
                           .process_run_id = 7,
                           .number = id,
                           .ended_unix_ms = started_ms,
                           .ids = ids,
                           .id_count = TP_ID_COUNT};
  tp_audit row = {.struct_size = sizeof row, .unix_ms = started_ms, .owner = "o", .action = "a", .detail = "d"};
  assert_int_equal(store->record(store->ctx, &entry), TP_OK);
  assert_int_equal(store->turn_record(store->ctx, &record), TP_OK);
  assert_int_equal(store->audit(store->ctx, &row), TP_OK);
}

/* A step of retention follows each transaction, so the next commit comes after it. */
static void commit(tp_store *store) { assert_int_equal(store->commit(store->ctx, NULL), TP_OK); }

static tp_sqlite_store_stats stats_of(tp_store *store) {
  tp_sqlite_store_stats stats = {.struct_size = sizeof stats};
  assert_int_equal(tp_sqlite_store_stats_get(store, &stats, NULL), TP_OK);
  return stats;
}

TEST(records_that_are_too_old_are_deleted) {
  enum { OLD = 50, YOUNG = 3 };
  tp_store *store = open_bounded(0, 3600);
  int64_t now_ms = unix_now_ms();
  uint64_t id;
  assert_int_equal(insert(store, "done", &id, NULL), TP_OK);
  assert_int_equal(store->job_discard(store->ctx, id, now_ms - 7200000, NULL), TP_OK);
  assert_int_equal(insert(store, "waits", &id, NULL), TP_OK);
  for (uint64_t i = 1; i <= OLD; i++) record_at(store, i, now_ms - 7200000);
  for (uint64_t i = 1; i <= YOUNG; i++) record_at(store, OLD + i, now_ms);
  commit(store);
  tp_sqlite_store_stats stats;
  uint64_t young = YOUNG;
  do { /* a store looks for old records once a second at most, after a transaction */
    if (young > YOUNG) usleep(20000);
    record_at(store, OLD + ++young, now_ms);
    commit(store);
    stats = stats_of(store);
  } while (stats.entries > young && young < 500);
  assert_in_range(stats.entries, YOUNG, young);
  assert_int_equal(stats.runs, 4 * stats.entries);
  assert_int_equal(stats.turns, stats.entries);
  assert_int_equal(stats.audits, stats.entries);
  assert_int_equal(stats.jobs_discarded, 0);
  assert_int_equal(stats.jobs_queued, 1);
  assert_int_equal(problems_of(store), 0);
  tp_store_free(store);
}

static off_t size_of_files(void) {
  struct stat file, log;
  char name[128];
  assert_int_equal(stat(path, &file), 0);
  snprintf(name, sizeof name, "%s-wal", path);
  return file.st_size + (stat(name, &log) == 0 ? log.st_size : 0);
}

TEST(file_stays_within_a_fifth_of_its_bound) {
  enum { BOUND = 2 << 20, ROUNDS = 200, IN_ROUND = 40 };
  tp_store *store = open_bounded(BOUND, 0);
  uint64_t id = 0, job;
  off_t largest = 0;
  assert_int_equal(insert(store, "waits", &job, NULL), TP_OK);
  for (int i = 0; i < ROUNDS; i++) {
    for (int n = 0; n < IN_ROUND; n++) record_at(store, ++id, unix_now_ms());
    commit(store);
    off_t size = size_of_files();
    if (size > largest) largest = size;
  }
  tp_sqlite_store_stats stats = stats_of(store);
  assert_true(stats.entries > 100 && stats.entries < id);
  assert_int_equal(stats.runs, 4 * stats.entries);
  if (largest > BOUND + BOUND / 5) fail_msg("%lld bytes, of %d", (long long)largest, BOUND);
  assert_int_equal(open_jobs(store), 1);
  assert_int_equal(problems_of(store), 0);
  tp_store_free(store);
}

TEST(pages_that_are_free_are_returned_to_the_file_system) {
  tp_store *store = open_bounded(0, 0);
  for (uint64_t i = 1; i <= 4000; i++) record_at(store, i, 1);
  commit(store);
  uint64_t before = stats_of(store).file_bytes;
  tp_store_free(store);
  store = open_bounded(0, 60); /* all of them are older */
  for (uint64_t i = 1; i <= 12; i++) {
    record_at(store, 4000 + i, unix_now_ms());
    commit(store);
  }
  tp_sqlite_store_stats stats = stats_of(store);
  assert_true(stats.entries <= 12);
  assert_true(stats.file_bytes < before / 3);
  tp_store_free(store);
}

TEST(bound_that_the_history_alone_passes_is_logged_once) {
  tp_store *store = open_bounded(1 << 20, 0);
  static char large[2 << 20];
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1,
                .limit_ms = 1,
                .handler = TEXT("h"),
                .idempotency_key = TEXT("large"),
                .payload = {large, sizeof large}};
  uint64_t id;
  bool existed;
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  for (uint64_t i = 1; i <= 5; i++) {
    record_at(store, i, 1);
    commit(store);
  }
  tp_store_free(store);
  const char *first = strstr(lines.text, "larger than bytes_max");
  assert_non_null(first);
  assert_null(strstr(first + 1, "larger than bytes_max"));
}

/* When a job has ended and the file was closed, no byte of its payload is in the file. */
TEST(payload_of_an_ended_job_is_gone) {
  tp_store *store = open_with(0);
  static char secret[20000];
  for (size_t i = 0; i + 9 <= sizeof secret; i += 9) memcpy(secret + i, "xylophone", 9);
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1,
                .limit_ms = 1,
                .handler = TEXT("h"),
                .idempotency_key = TEXT("k"),
                .payload = {secret, sizeof secret}};
  uint64_t id;
  bool existed;
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  assert_int_equal(store->job_discard(store->ctx, id, 1, NULL), TP_OK);
  tp_store_free(store);
  FILE *file = fopen(path, "rb");
  static char bytes[1 << 20];
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  assert_true(size > 4096 && size < sizeof bytes);
  assert_null(memmem(bytes, size, "xylophone", 9));
}

TEST_MAIN(count, arguments) {
  if (!install_full_disk()) return 1;
  return test_main(count, arguments);
}
