/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of runs that the memory store copies from records of other callers than the core: found again, bounded, and
 * with refused memory. The suite of all stores checks that they are copied. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "turnphase/store.h"

enum { NAMES_MAX = 65536, NAMES_BYTES_MAX = 16 << 20 };

/* ---- an allocator that refuses the n-th allocation ---- */

static long allocations_left = -1; /* at 0 one is refused; below 0 none is */
static size_t bytes_open;

static void *counting_alloc(void *ctx, size_t size) {
  (void)ctx;
  if (allocations_left == 0) {
    allocations_left = -1;
    return NULL;
  }
  if (allocations_left > 0) allocations_left--;
  bytes_open += size;
  return malloc(size);
}

static void counting_free(void *ctx, void *memory, size_t size) {
  (void)ctx;
  if (memory) bytes_open -= size;
  free(memory);
}

static const tp_allocator counting = {counting_alloc, counting_free, NULL};

/* ---- records ---- */

static tp_store *open_store(void) {
  tp_store *store = NULL;
  tp_store_memory_options options = {.struct_size = sizeof options, .records_max = 100};
  allocations_left = -1;
  assert_int_equal(tp_store_memory_new(&counting, &options, &store, NULL), TP_OK);
  return store;
}

static void close_store(tp_store *store) {
  tp_store_free(store);
  assert_int_equal(bytes_open, 0);
}

static bool run_of(const void *source, size_t index, tp_run_record *record) {
  (void)index;
  *record = *(const tp_run_record *)source;
  return true;
}

static tp_status put(tp_store *store, uint64_t id, const tp_run_record *run) {
  tp_text ids[TP_ID_COUNT] = {{0}};
  tp_entry_record record = {.struct_size = sizeof record,
                            .process_run_id = 1,
                            .entry_id = id,
                            .started_ns = (int64_t)id,
                            .ended_ns = (int64_t)id,
                            .ids = ids,
                            .id_count = TP_ID_COUNT,
                            .run_count = 1,
                            .run = run_of,
                            .source = run};
  return store->record(store->ctx, &record);
}

static tp_run_record named(const char *subscription, const char *handler, const char *owner) {
  return (tp_run_record){
      .struct_size = sizeof(tp_run_record), .subscription = subscription, .handler = handler, .owner = owner};
}

/* ---- the newest record ---- */

typedef struct newest_run {
  char subscription[32], handler[32], owner[32];
  uint8_t visibility;
} newest_run;

static bool keep_newest(void *ctx, const tp_entry_record *record) {
  newest_run *newest = ctx;
  tp_run_record run = {.struct_size = sizeof run};
  assert_true(record->run(record->source, 0, &run));
  snprintf(newest->subscription, sizeof newest->subscription, "%s", run.subscription);
  snprintf(newest->handler, sizeof newest->handler, "%s", run.handler);
  snprintf(newest->owner, sizeof newest->owner, "%s", run.owner);
  newest->visibility = run.visibility;
  return false;
}

static newest_run newest_of(tp_store *store) {
  newest_run newest = {{0}, {0}, {0}, 0};
  tp_record_query query = {.struct_size = sizeof query, .limit = 1};
  assert_int_equal(store->records(store->ctx, &query, keep_newest, &newest, NULL), TP_OK);
  return newest;
}

/* ---- cases ---- */

TEST(names_that_differ_in_one_part_alone_are_kept_apart) {
  tp_store *store = open_store();
  const tp_run_record runs[] = {named("a", "b", "c"), named("x", "b", "c"), named("a", "x", "c"), named("a", "b", "x"),
                                named("ab", "", "c"), named("", "ab", "c"), named("a", "bc", ""), named("abc", "", "")};
  enum { COUNT = sizeof runs / sizeof *runs };
  for (uint64_t i = 0; i < 2 * COUNT; i++) {
    assert_int_equal(put(store, i + 1, &runs[i % COUNT]), TP_OK);
    newest_run newest = newest_of(store);
    assert_string_equal(newest.subscription, runs[i % COUNT].subscription);
    assert_string_equal(newest.handler, runs[i % COUNT].handler);
    assert_string_equal(newest.owner, runs[i % COUNT].owner);
  }
  for (uint8_t visibility = 0; visibility < 4; visibility++) {
    tp_run_record run = named("a", "b", "c");
    run.visibility = visibility;
    assert_int_equal(put(store, 100 + visibility, &run), TP_OK);
    assert_int_equal(newest_of(store).visibility, visibility);
  }
  close_store(store);
}

TEST(names_that_are_known_take_no_memory) {
  tp_store *store = open_store();
  tp_run_record run = named("sub", "handler", "owner");
  for (uint64_t id = 1; id <= 5000; id++) assert_int_equal(put(store, id, &run), TP_OK);
  size_t before = bytes_open;
  for (uint64_t id = 5001; id <= 20000; id++) assert_int_equal(put(store, id, &run), TP_OK);
  assert_int_equal(bytes_open, before);
  close_store(store);
}

TEST(more_names_than_the_bound_are_refused_and_known_ones_are_not) {
  tp_store *store = open_store();
  char subscription[16];
  for (uint64_t id = 1; id <= NAMES_MAX; id++) {
    snprintf(subscription, sizeof subscription, "s%llu", (unsigned long long)id);
    tp_run_record run = named(subscription, "h", "o");
    assert_int_equal(put(store, id, &run), TP_OK);
  }
  tp_run_record other = named("one more", "h", "o"), first = named("s1", "h", "o");
  assert_int_equal(put(store, NAMES_MAX + 1, &other), TP_ERR_FULL);
  assert_int_equal(put(store, NAMES_MAX + 2, &first), TP_OK);
  assert_string_equal(newest_of(store).subscription, "s1");
  close_store(store);
}

TEST(more_bytes_of_names_than_the_bound_are_refused_and_fewer_are_not) {
  enum { LONG = 1 << 20 };
  tp_store *store = open_store();
  char *text = malloc(LONG + 1);
  memset(text, 'a', LONG);
  text[LONG] = '\0';
  uint64_t id = 1;
  for (; id < NAMES_BYTES_MAX / LONG; id++) {
    text[0] = (char)('a' + id);
    tp_run_record run = named(text, "h", "o");
    assert_int_equal(put(store, id, &run), TP_OK);
  }
  text[0] = 'z'; /* with what a name takes beside its text it is more */
  tp_run_record run = named(text, "h", "o"), small = named("small", "h", "o");
  assert_int_equal(put(store, id, &run), TP_ERR_FULL);
  assert_int_equal(put(store, id + 1, &small), TP_OK);
  assert_string_equal(newest_of(store).subscription, "small");
  free(text);
  close_store(store);
}

TEST(refused_memory_is_reported_and_the_next_record_is_kept) {
  for (long refused = 0;; refused++) {
    tp_store *store = open_store();
    tp_run_record run = named("sub", "handler", "owner");
    allocations_left = refused;
    tp_status status = put(store, 1, &run);
    bool was_refused = allocations_left < 0;
    allocations_left = -1;
    assert_int_equal(status, was_refused ? TP_ERR_NO_MEMORY : TP_OK);
    assert_int_equal(put(store, 2, &run), TP_OK);
    assert_string_equal(newest_of(store).owner, "owner");
    close_store(store);
    if (!was_refused) {
      assert_true(refused >= 3); /* the batch, the table, the strings */
      return;
    }
  }
}

TEST(run_without_a_name_is_malformed) {
  tp_store *store = open_store();
  const tp_run_record runs[] = {named(NULL, "h", "o"), named("s", NULL, "o"), named("s", "h", NULL)};
  for (int i = 0; i < 3; i++) assert_int_equal(put(store, 1, &runs[i]), TP_ERR_MALFORMED);
  close_store(store);
}
