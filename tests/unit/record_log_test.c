/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of entry records, without a runtime: what it retains, in which order it gives it, its behaviour at its bounds
 * and without memory, and that it allocates nothing once it is full. */
#include <pthread.h>
#include <stdio.h>

#include "tests/support/test.h"
#include "runtime/store/record_log.h"
#include "tests/support/counting.h"

enum { KEPT_MAX = 4096, THREADS = 12 };

/* ---- entries and who reads them ---- */

static const tp_text no_ids[TP_ID_COUNT];
static const tp__record_source no_source = {.ids = no_ids};

static tp_run_record row_of(const tp_entry_record *record, size_t index) {
  tp_run_record row = {.struct_size = sizeof row};
  return record->run(record->source, index, &row) ? row : (tp_run_record){0};
}

static void late(tp__record_log *log, uint64_t entry_id, uint32_t run_index, int64_t late_ns) {
  tp_late_record note = {.struct_size = sizeof note, .entry_id = entry_id, .late_ns = late_ns, .run_index = run_index};
  tp__record_log_late(log, &note);
}

typedef struct kept {
  uint64_t ids[KEPT_MAX];
  int64_t ended_ns[KEPT_MAX], late_ns[KEPT_MAX]; /* late_ns: of the first run */
  size_t count, stop_at;                         /* stop_at 0: never */
} kept;

static kept got; /* too large for a stack */

static bool keep(void *ctx, const tp_entry_record *record) {
  kept *k = ctx;
  if (k->count == KEPT_MAX) return false;
  k->ids[k->count] = record->entry_id;
  k->ended_ns[k->count] = record->ended_ns;
  k->late_ns[k->count] = record->run_count > 0 ? row_of(record, 0).late_ns : 0;
  return ++k->count != k->stop_at;
}

static tp_status read_newest(tp__record_log *log, size_t limit, tp_record_fn each, void *ctx) {
  tp_record_query query = {.struct_size = sizeof query, .limit = limit};
  if (limit == 0) return TP_OK; /* of a query it means all */
  return tp__record_log_read(log, &query, each, ctx);
}

static tp_status read_all(tp__record_log *log, size_t limit) {
  got.count = got.stop_at = 0;
  return read_newest(log, limit, keep, &got);
}

static tp__run_name one_name[TP__RUN_NAMES_FIRST] = {{"s", "h", "o", 0}};
static const tp__run_names names_of_one = {.chunks = {one_name}, .count = 1};

/* One entry whose rows have details, with a code of their own. */
static tp_status add_ended(tp__record_log *log, uint64_t id, uint32_t run_count, int64_t ended_ns) {
  tp__record_batch batch = {.capacity = tp__packed_size(run_count, run_count)};
  batch.memory = calloc(1, batch.capacity);
  tp__packed_entry *entry = tp__record_batch_add(&batch, run_count, run_count);
  *entry = (tp__packed_entry){
      .entry_id = id, .ended_ns = ended_ns, .names = &names_of_one, .run_count = run_count, .detail_count = run_count};
  for (uint32_t i = 0; i < run_count; i++) {
    tp__row_put_details(&tp__packed_rows(entry)[i], 0, i);
    tp__packed_details(entry)[i] = (tp__row_details){.code = (uint32_t)id + i};
  }
  tp_status status = tp__record_log_add(log, &no_source, &batch);
  free(batch.memory);
  return status;
}

static tp_status add(tp__record_log *log, uint64_t id, uint32_t run_count) {
  return add_ended(log, id, run_count, (int64_t)id);
}

static void assert_falling(uint64_t newest, size_t count) {
  assert_int_equal(got.count, count);
  for (size_t i = 0; i < count; i++) assert_int_equal(got.ids[i], newest - i);
}

static tp__record_log *open_log(size_t entries_max) {
  tp__record_log *log = malloc(sizeof *log);
  assert_int_equal(tp__record_log_init(log, &counting, entries_max), TP_OK);
  return log;
}

static void close_log(tp__record_log *log) {
  tp__record_log_fini(log);
  free(log);
  assert_int_equal(blocks_open, 0);
}

/* ---- order ---- */

TEST(empty_log_gives_nothing) {
  tp__record_log *log = open_log(10);
  assert_int_equal(read_all(log, 100), TP_OK);
  assert_int_equal(got.count, 0);
  close_log(log);
}

TEST(what_one_thread_adds_comes_back_newest_first) {
  tp__record_log *log = open_log(3000);
  for (uint64_t i = 1; i <= 2500; i++) assert_int_equal(add(log, i, (uint32_t)(i % 4)), TP_OK); /* several segments */
  assert_int_equal(read_all(log, KEPT_MAX), TP_OK);
  assert_falling(2500, 2500);
  close_log(log);
}

typedef struct adder {
  tp__record_log *log;
  uint64_t first;
  _Atomic uint32_t failed;
  uint32_t count, step;
} adder;

static void *add_some(void *arg) {
  adder *a = arg;
  for (uint32_t i = 0; i < a->count; i++)
    if (add(a->log, a->first + i * a->step, 1) != TP_OK) a->failed++;
  return NULL;
}

/* Each thread's own entries fall, and none is there twice. */
static void assert_of_threads(void) {
  uint64_t last[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) last[i] = UINT64_MAX;
  for (size_t i = 0; i < got.count; i++) {
    uint64_t *of_thread = &last[(got.ids[i] - 1) % THREADS];
    assert_in_range(got.ids[i], 1, THREADS * 200);
    assert_true(got.ids[i] < *of_thread);
    *of_thread = got.ids[i];
  }
}

TEST(threads_that_add_and_one_that_reads_do_not_disturb_each_other) {
  static tp__record_log log; /* more threads than rings */
  tp_allocator allocator = tp__allocator_of(NULL);
  assert_int_equal(tp__record_log_init(&log, &allocator, KEPT_MAX), TP_OK);
  adder adders[THREADS];
  pthread_t threads[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) {
    adders[i] = (adder){.log = &log, .first = 1 + i, .count = 200, .step = THREADS};
    pthread_create(&threads[i], NULL, add_some, &adders[i]);
  }
  for (int i = 0; i < 20; i++) {
    assert_int_equal(read_all(&log, KEPT_MAX), TP_OK);
    assert_of_threads();
    late(&log, 1, 0, 5);
  }
  for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < THREADS; i++) assert_int_equal(adders[i].failed, 0);
  assert_int_equal(read_all(&log, KEPT_MAX), TP_OK);
  assert_int_equal(got.count, THREADS * 200);
  assert_of_threads();
  tp__record_log_fini(&log);
}

TEST(rings_are_merged_by_time_and_equal_times_by_number) {
  tp__record_log *log = open_log(KEPT_MAX);
  adder adders[TP__RECORD_STRIPES];
  for (uint32_t i = 0; i < TP__RECORD_STRIPES; i++) { /* each on a thread, and so in a ring, of its own */
    pthread_t thread;
    adders[i] = (adder){.log = log, .first = 1 + i, .count = 300, .step = TP__RECORD_STRIPES};
    pthread_create(&thread, NULL, add_some, &adders[i]);
    pthread_join(thread, NULL);
  }
  assert_int_equal(read_all(log, KEPT_MAX), TP_OK);
  assert_falling(300 * TP__RECORD_STRIPES, 300 * TP__RECORD_STRIPES);
  close_log(log);
  log = open_log(10);
  assert_int_equal(add_ended(log, 1, 0, 5), TP_OK);
  assert_int_equal(add_ended(log, 2, 0, 5), TP_OK);
  assert_int_equal(read_all(log, 10), TP_OK);
  assert_falling(2, 2);
  close_log(log);
}

/* ---- how much ---- */

TEST(no_more_than_the_limit_is_given_and_reading_stops_when_the_reader_says_so) {
  tp__record_log *log = open_log(1000);
  for (uint64_t i = 1; i <= 1000; i++) assert_int_equal(add(log, i, 1), TP_OK);
  assert_int_equal(read_all(log, 0), TP_OK);
  assert_int_equal(got.count, 0);
  assert_int_equal(read_all(log, 7), TP_OK);
  assert_falling(1000, 7);
  got.count = 0;
  got.stop_at = 3;
  assert_int_equal(read_newest(log, SIZE_MAX, keep, &got), TP_OK);
  assert_falling(1000, 3);
  close_log(log);
}

TEST(newest_entries_are_kept_up_to_the_maximum) {
  static const size_t maxima[] = {1, 2, 100, 1023};
  for (size_t m = 0; m < sizeof maxima / sizeof *maxima; m++) {
    tp__record_log *log = open_log(maxima[m]);
    for (uint64_t i = 1; i <= 6000; i++) {
      assert_int_equal(add(log, i, 2), TP_OK);
      if (i % 991 != 0) continue;
      assert_int_equal(read_all(log, KEPT_MAX), TP_OK);
      assert_falling(i, i < maxima[m] ? i : maxima[m]);
    }
    close_log(log);
  }
}

TEST(batch_of_more_entries_than_are_kept_is_refused) {
  tp__record_log *log = open_log(3);
  char memory[4 * sizeof(tp__packed_entry)];
  tp__record_batch batch = {.memory = memory, .capacity = sizeof memory};
  for (int i = 0; i < 4; i++) assert_non_null(tp__record_batch_add(&batch, 0, 0));
  assert_int_equal(tp__record_log_add(log, &no_source, &batch), TP_ERR_TOO_LARGE);
  assert_int_equal(read_all(log, 10), TP_OK);
  assert_int_equal(got.count, 0);
  close_log(log);
}

/* ---- ids ---- */

static bool check_ids(void *ctx, const tp_entry_record *record) {
  bool *right = ctx;
  for (uint32_t id = 0; id < TP_ID_COUNT; id++) {
    char want[64] = "";
    size_t size = (record->entry_id + id) % 3 == 0
                      ? 0
                      : (size_t)snprintf(want, sizeof want, "%u of %llu", id, (unsigned long long)record->entry_id);
    if (record->ids[id].size != size || memcmp(record->ids[id].data, want, size) != 0) *right = false;
  }
  return true;
}

TEST(ids_of_each_batch_come_back_with_its_entries) {
  tp__record_log *log = open_log(5000);
  for (uint64_t n = 1; n <= 3000; n++) {
    char texts[TP_ID_COUNT][64], memory[sizeof(tp__packed_entry)];
    tp_text ids[TP_ID_COUNT];
    for (uint32_t id = 0; id < TP_ID_COUNT; id++) {
      int size = snprintf(texts[id], sizeof texts[id], "%u of %llu", id, (unsigned long long)n);
      ids[id] = (n + id) % 3 == 0 ? (tp_text){0} : (tp_text){texts[id], (size_t)size};
    }
    tp__record_batch batch = {.memory = memory, .capacity = sizeof memory};
    tp__packed_entry *entry = tp__record_batch_add(&batch, 0, 0);
    *entry = (tp__packed_entry){.entry_id = n, .ended_ns = (int64_t)n};
    assert_int_equal(tp__record_log_add(log, &(tp__record_source){.ids = ids}, &batch), TP_OK);
  }
  bool right = true;
  assert_int_equal(read_newest(log, 5000, check_ids, &right), TP_OK);
  assert_true(right);
  close_log(log);
}

TEST(ids_that_are_too_long_are_refused_and_the_longest_are_not) {
  tp__record_log *log = open_log(10);
  static char text[UINT16_MAX + 1];
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = {text, UINT16_MAX}, [TP_ID_RUN] = {text, 1}};
  char memory[sizeof(tp__packed_entry)];
  tp__record_batch batch = {.memory = memory, .capacity = sizeof memory};
  *tp__record_batch_add(&batch, 0, 0) = (tp__packed_entry){.entry_id = 1};
  assert_int_equal(tp__record_log_add(log, &(tp__record_source){.ids = ids}, &batch), TP_ERR_TOO_LARGE);
  ids[TP_ID_RUN].size = 0;
  assert_int_equal(tp__record_log_add(log, &(tp__record_source){.ids = ids}, &batch), TP_OK);
  assert_int_equal(read_all(log, 10), TP_OK);
  assert_int_equal(got.count, 1);
  close_log(log);
}

/* ---- large entries and the bound of bytes ---- */

enum {
  RUN_BYTES = sizeof(tp__row) + sizeof(tp__row_details),
  LARGE_RUNS = TP__SEGMENT_BYTES / RUN_BYTES + 100,
  HUGE_RUNS = 60000
};

static bool check_rows(void *ctx, const tp_entry_record *record) {
  bool *right = ctx;
  for (uint32_t i = 0; i < record->run_count; i++)
    if (row_of(record, i).code != record->entry_id + i) *right = false;
  return true;
}

TEST(entry_larger_than_a_segment_is_kept_among_small_ones) {
  tp__record_log *log = open_log(50);
  for (uint64_t i = 1; i <= 400; i++) assert_int_equal(add(log, i, i % 10 == 0 ? LARGE_RUNS : 3), TP_OK);
  assert_int_equal(read_all(log, 50), TP_OK);
  assert_falling(400, 50);
  bool right = true;
  assert_int_equal(read_newest(log, 50, check_rows, &right), TP_OK);
  assert_true(right);
  close_log(log);
}

TEST(bytes_stay_bounded_and_the_newest_is_always_there) {
  tp__record_log *log = open_log(1000000);
  enum { ENTRY_BYTES = HUGE_RUNS * RUN_BYTES, BOUND = 16 << 20 };
  for (uint64_t i = 1; i <= 20; i++) {
    assert_int_equal(add(log, i, HUGE_RUNS), TP_OK);
    assert_in_range(tp__a64_load_relaxed(&log->bytes), 1, BOUND + ENTRY_BYTES);
    assert_int_equal(read_all(log, 1), TP_OK);
    assert_falling(i, 1);
  }
  assert_int_equal(read_all(log, 100), TP_OK);
  assert_in_range(got.count, 1, BOUND / ENTRY_BYTES + 1);
  assert_int_equal(add(log, 21, BOUND / RUN_BYTES + 1), TP_ERR_TOO_LARGE);
  assert_int_equal(read_all(log, 1), TP_OK);
  assert_falling(20, 1);
  for (uint64_t i = 22; i <= 100; i++) assert_int_equal(add(log, i, 1), TP_OK);
  assert_int_equal(read_all(log, 79), TP_OK);
  assert_falling(100, 79);
  close_log(log);
}

/* ---- late ---- */

typedef struct late_run {
  uint64_t entry_id;
  uint32_t run_index;
  int64_t late_ns;
} late_run;

static bool keep_late_run(void *ctx, const tp_entry_record *record) {
  late_run *run = ctx;
  if (record->entry_id == run->entry_id) run->late_ns = row_of(record, run->run_index).late_ns;
  return record->entry_id != run->entry_id;
}

TEST(lateness_is_noted_in_details_alone) {
  tp__record_log *log = open_log(3000);
  tp__run_names names = {0};
  uint32_t name;
  assert_int_equal(tp__run_names_add(&names, &counting, (tp__run_name){"s", "h", "o", 0}, &name), TP_OK);
  char memory[256];
  tp__record_batch batch = {.memory = memory, .capacity = sizeof memory};
  tp__packed_entry *entry = tp__record_batch_add(&batch, 1, 0);
  *entry = (tp__packed_entry){.entry_id = 1, .names = &names, .run_count = 1};
  tp__row_put(tp__packed_rows(entry), name, 0, 0, tp__row_flags(TP_STATE_SUCCEEDED, 1, 0, 0));
  assert_int_equal(tp__record_log_add(log, &no_source, &batch), TP_OK);
  for (uint64_t i = 2; i <= 2500; i++) assert_int_equal(add(log, i, i == 4 ? 0 : i == 5 ? 3 : 1), TP_OK);
  late(log, 1, 0, 111);    /* without details */
  late(log, 2, 0, 222);    /* in the oldest segment */
  late(log, 3, 1, 333);    /* it has no such run */
  late(log, 4, 0, 444);    /* it has none */
  late(log, 5, 2, 777);    /* its third run: not the first, of which late_ns is kept */
  late(log, 2500, 0, 555); /* in the newest */
  late(log, 9999, 0, 666); /* not kept */
  assert_int_equal(read_all(log, 3000), TP_OK);
  assert_falling(2500, 2500);
  for (size_t i = 0; i < got.count; i++) {
    int64_t want = got.ids[i] == 2 ? 222 : got.ids[i] == 2500 ? 555 : 0;
    assert_int_equal(got.late_ns[i], want);
  }
  late_run third = {.entry_id = 5, .run_index = 2};
  assert_int_equal(read_newest(log, 3000, keep_late_run, &third), TP_OK);
  assert_int_equal(third.late_ns, 777);
  tp__record_log_fini(log);
  free(log);
  tp__run_names_fini(&names, &counting);
  assert_int_equal(blocks_open, 0);
}

/* The search ends at the first ring that has the entry, so its answer must be right. */
TEST(a_ring_says_whether_the_late_entry_is_its_own) {
  tp__a64 bytes;
  tp__record_ring ring;
  atomic_init(&bytes.v, 0);
  tp__record_ring_init(&ring, &counting, 10, &bytes, 1 << 20);
  tp__record_batch batch = {.capacity = tp__packed_size(1, 0)};
  batch.memory = calloc(1, batch.capacity);
  tp__packed_entry *entry = tp__record_batch_add(&batch, 1, 0);
  *entry = (tp__packed_entry){.entry_id = 7, .run_count = 1};
  assert_int_equal(tp__record_ring_add(&ring, &no_source, &batch), TP_OK);
  free(batch.memory);
  tp_late_record note = {.struct_size = sizeof note, .entry_id = 7, .late_ns = 5};
  assert_true(tp__record_ring_late(&ring, &note));
  note.run_index = 3; /* it has no such run, and is here all the same */
  assert_true(tp__record_ring_late(&ring, &note));
  note.entry_id = 8;
  assert_false(tp__record_ring_late(&ring, &note));
  note = (tp_late_record){.struct_size = sizeof note, .entry_id = 7, .process_run_id = 1};
  assert_false(tp__record_ring_late(&ring, &note)); /* of another process */
  tp__record_ring_fini(&ring);
  assert_int_equal(blocks_open, 0);
}

static void *late_from_elsewhere(void *arg) {
  late(arg, 1, 0, 77);
  return NULL;
}

TEST(lateness_is_noted_from_any_thread) {
  tp__record_log *log = open_log(10);
  assert_int_equal(add(log, 1, 1), TP_OK);
  for (int i = 0; i < TP__RECORD_STRIPES; i++) { /* wherever the threads' own rings are */
    pthread_t thread;
    pthread_create(&thread, NULL, late_from_elsewhere, log);
    pthread_join(thread, NULL);
  }
  assert_int_equal(read_all(log, 1), TP_OK);
  assert_int_equal(got.late_ns[0], 77);
  close_log(log);
}

/* ---- memory ---- */

TEST(refused_memory_loses_one_batch_and_nothing_before_or_behind) {
  for (int n = 0; n < 8; n++) {
    tp__record_log *log = open_log(10000);
    size_t kept_count = 0;
    uint64_t refused = 0;
    refuse_at = n;
    for (uint64_t i = 1; i <= 4000; i++) {
      tp_status status = add(log, i, 1);
      if (status == TP_OK) kept_count++;
      else refused = i;
      if (status != TP_OK) assert_int_equal(status, TP_ERR_NO_MEMORY);
      if (status != TP_OK) refuse_at = -1;
    }
    refuse_at = -1;
    assert_int_equal(kept_count, refused ? 3999 : 4000);
    assert_int_equal(read_all(log, KEPT_MAX), TP_OK);
    assert_int_equal(got.count, kept_count);
    for (size_t i = 0; i + 1 < got.count; i++)
      assert_int_equal(got.ids[i], got.ids[i + 1] + 1 + (got.ids[i + 1] + 1 == refused));
    close_log(log);
  }
}

TEST(refused_memory_stops_a_reader_and_leaves_the_log_as_it_was) {
  tp__record_log *log = open_log(2500);
  adder adders[3];
  for (uint32_t i = 0; i < 3; i++) {
    pthread_t thread;
    adders[i] = (adder){.log = log, .first = 1 + i, .count = 800, .step = 3};
    pthread_create(&thread, NULL, add_some, &adders[i]);
    pthread_join(thread, NULL);
  }
  long open_before = blocks_open, n = 0;
  tp_status status = TP_ERR_NO_MEMORY;
  for (; status != TP_OK; n++) {
    refuse_at = n;
    status = read_all(log, KEPT_MAX);
    refuse_at = -1;
    if (status != TP_OK) assert_int_equal(status, TP_ERR_NO_MEMORY);
    assert_int_equal(blocks_open, open_before);
    assert_in_range(got.count, 0, 2400);
    for (size_t i = 0; i < got.count; i++) assert_int_equal(got.ids[i], 2400 - i);
  }
  assert_true(n > 6);
  assert_int_equal(got.count, 2400);
  close_log(log);
}

TEST(full_log_takes_no_memory) {
  tp__record_log *log = malloc(sizeof *log);
  assert_int_equal(tp__record_log_init(log, &counting, 1000), TP_OK);
  for (uint64_t i = 1; i <= 5000; i++) assert_int_equal(add(log, i, (uint32_t)(i % 7)), TP_OK);
  takes = 0;
  for (uint64_t i = 5001; i <= 50000; i++) assert_int_equal(add(log, i, (uint32_t)(i % 7)), TP_OK);
  assert_int_equal(takes, 0);
  assert_int_equal(read_all(log, 1000), TP_OK);
  assert_falling(50000, 1000);
  close_log(log);
}
