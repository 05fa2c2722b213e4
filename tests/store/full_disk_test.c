/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk becomes full while the SQLite store works: each operation returns TP_ERR_STORE_FULL and changes nothing, and
 * works again when there is space, without a restart. */
#include <sqlite3.h>
#include <sys/stat.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/full_disk.h"
#include "tests/support/host.h"
#include "turnphase/sqlite.h"

static int prepare(void **state) {
  disk_full = false;
  return make_directory(state);
}

FOR_EACH_TEST(prepare, remove_directory);

static tp_store *open_store(uint64_t bytes_max) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .bytes_max = bytes_max};
  tp_store *store = NULL;
  tp_fault fault = {0};
  if (tp_sqlite_store_open(&options, &store, &fault) != TP_OK) fail_msg("%s", fault.message);
  return store;
}

static void assert_whole(const tp_store *store) {
  assert_int_equal(tp_sqlite_store_verify(store, NULL, NULL, NULL), TP_OK);
}

/* ---- jobs ---- */

static struct { uint64_t id, claim; } claimed;

static void take_claim(void *ctx, const tp_job *job) {
  (void)ctx;
  claimed.id = job->id;
  claimed.claim = job->claim;
}

static tp_status insert(tp_store *store) {
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1,
                .limit_ms = 1,
                .handler = TEXT("h"),
                .idempotency_key = TEXT("k"),
                .payload = TEXT("payload")};
  uint64_t id;
  bool existed;
  return store->job_insert(store->ctx, &job, &id, &existed, NULL);
}

static tp_status claim(tp_store *store) {
  tp_job_claim request = {.struct_size = sizeof request, .now_ms = 1, .lease_ms = 1000, .take = take_claim};
  int64_t next;
  return store->job_claim(store->ctx, &request, &next, NULL);
}

static tp_status renew(tp_store *store) {
  tp_job_renew request = {
      .struct_size = sizeof request, .id = claimed.id, .claim = claimed.claim, .now_ms = 2, .lease_ms = 1000};
  return store->job_renew(store->ctx, &request, NULL);
}

static tp_status finish(tp_store *store) {
  tp_job_finish request = {
      .struct_size = sizeof request, .id = claimed.id, .claim = claimed.claim, .now_ms = 3, .end = TP_JOB_END_FAILED};
  uint32_t state;
  return store->job_finish(store->ctx, &request, &state, NULL);
}

static tp_status redrive(tp_store *store) { return store->job_redrive(store->ctx, claimed.id, 4, NULL); }
static tp_status discard(tp_store *store) { return store->job_discard(store->ctx, claimed.id, 5, NULL); }

/* ---- calls of tools ---- */

static uint64_t start_id;
static void no_earlier(void *ctx, const tp_tool_end_record *earlier) { (void)ctx, (void)earlier; }

static tp_status begin_tool(tp_store *store) {
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = TEXT("t")};
  tp_tool_start_record start = {.struct_size = sizeof start,
                                .process_run_id = 1,
                                .turn_number = 1,
                                .ids = ids,
                                .id_count = TP_ID_COUNT,
                                .call_id = TEXT("c"),
                                .tool = TEXT("pay"),
                                .arguments = TEXT("\x80")};
  return store->tool_start(store->ctx, &start, &start_id, no_earlier, NULL, NULL);
}

static tp_status end_tool(tp_store *store) {
  tp_tool_end_record end = {.struct_size = sizeof end, .start_id = start_id, .text = TEXT("paid")};
  return store->tool_end(store->ctx, &end, NULL);
}

TEST(each_operation_says_so_and_works_when_there_is_space) {
  static const struct {
    const char *name;
    tp_status (*run)(tp_store *store);
  } steps[] = {{"insert", insert},           {"claim", claim},        {"renew", renew},
               {"finish", finish},           {"redrive", redrive},    {"discard", discard},
               {"begin a tool", begin_tool}, {"end a tool", end_tool}};
  tp_store *store = open_store(0);
  for (size_t i = 0; i < COUNT(steps); i++) {
    disk_full = true;
    for (int n = 0; n < 2; n++)
      if (steps[i].run(store) != TP_ERR_STORE_FULL) fail_msg("%s did not find a full disk", steps[i].name);
    disk_full = false;
    tp_status status = steps[i].run(store);
    if (status != TP_OK) fail_msg("%s did not work again: %s", steps[i].name, tp_status_name(status));
  }
  assert_whole(store);
  tp_store_free(store);
}

/* ---- records, the checkpoint of SQLite's log, and retention ---- */

static bool no_run(const void *source, size_t index, tp_run_record *record) {
  (void)source, (void)index, (void)record;
  return false;
}

static void record(tp_store *store, uint64_t from, uint64_t count) {
  static char long_id[100];
  memset(long_id, 'x', sizeof long_id);
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = {long_id, sizeof long_id}};
  for (uint64_t id = from; id < from + count; id++) {
    tp_entry_record entry = {.struct_size = sizeof entry,
                             .process_run_id = 7,
                             .entry_id = id,
                             .phase = 1,
                             .ids = ids,
                             .id_count = TP_ID_COUNT,
                             .ended_ns = 1,
                             .run = no_run};
    assert_int_equal(store->record(store->ctx, &entry), TP_OK);
  }
}

static int64_t count_entries(const tp_store *store) {
  tp_sqlite_store_stats stats = {.struct_size = sizeof stats};
  assert_int_equal(tp_sqlite_store_stats_get(store, &stats, NULL), TP_OK);
  return (int64_t)stats.entries;
}

static off_t size_of(const char *end) {
  char name[sizeof path + 8];
  struct stat found;
  snprintf(name, sizeof name, "%s%s", path, end);
  return stat(name, &found) == 0 ? found.st_size : 0;
}

/* There is space for the log, but none for the file into which it must be written back. */
TEST(log_that_cannot_be_written_back_is_written_back_later) {
  enum { BATCHES = 40, EACH = 200 };
  tp_store *store = open_store(0);
  full_only = ".db";
  disk_full = true;
  for (uint64_t i = 0; i < BATCHES; i++) {
    record(store, 1 + i * EACH, EACH);
    assert_int_equal(store->commit(store->ctx, NULL), TP_OK); /* what is in the log is durable */
  }
  off_t log = size_of("-wal"), file = size_of("");
  assert_true(log > 2 * file);
  disk_full = false;
  full_only = NULL;
  record(store, 1 + BATCHES * EACH, 1);
  assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
  assert_true(size_of("") > file);
  assert_int_equal(count_entries(store), BATCHES * EACH + 1);
  assert_whole(store);
  tp_store_free(store);
}

TEST(retention_goes_on_when_there_is_space) {
  enum { BOUND = 1 << 20, BATCHES = 60, EACH = 200 };
  tp_store *store = open_store(BOUND);
  uint64_t id = 1;
  for (int i = 0; i < BATCHES; i++, id += EACH) {
    disk_full = i % 3 == 1;
    record(store, id, EACH);
    tp_status status = store->commit(store->ctx, NULL);
    assert_int_equal(status, disk_full ? TP_ERR_STORE_FULL : TP_OK);
  }
  disk_full = false;
  off_t size;
  do { /* a step of the retention comes after each transaction, on the writer's thread */
    record(store, id++, 1);
    assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
    size = size_of("") + size_of("-wal");
  } while (size > BOUND + BOUND / 5 && id < 2 * BATCHES * EACH);
  int64_t kept = count_entries(store);
  assert_true(kept > 100 && kept < (int64_t)id - 1);
  assert_true(size <= BOUND + BOUND / 5);
  assert_whole(store);
  uint64_t deleted = 0;
  tp_sqlite_prune prune = {.struct_size = sizeof prune, .bytes_max = 64 << 10};
  disk_full = true;
  assert_int_equal(tp_sqlite_store_prune(store, &prune, &deleted, NULL), TP_ERR_STORE_FULL);
  disk_full = false;
  assert_int_equal(tp_sqlite_store_prune(store, &prune, &deleted, NULL), TP_OK);
  assert_true(deleted > 0 && count_entries(store) < kept);
  assert_whole(store);
  tp_store_free(store);
}

TEST_MAIN(count, arguments) {
  if (!install_full_disk()) return 1;
  return test_main(count, arguments);
}
