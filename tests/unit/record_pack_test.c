/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed rows and entries: a row describes its run exactly, a run that it cannot describe is refused, and a batch of
 * entries with and without details is read as it was written. */
#include <stdlib.h>

#include "tests/support/test.h"
#include "runtime/store/record_pack.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { NAMES = 3 };
static const int64_t BEGIN_NS = 1000000000000;
static tp__run_names names;

static int make_names(void **state) {
  (void)state;
  static const tp__run_name all[NAMES] = {
      {"sub0", "handler0", "owner0", 0}, {"sub1", "handler1", "owner1", 1}, {"s", "h", "o", 3}};
  tp_allocator allocator = tp__allocator_of(NULL);
  for (uint32_t i = 0; i < NAMES; i++) {
    uint32_t id;
    if (tp__run_names_add(&names, &allocator, all[i], &id) != TP_OK || id != i) return -1;
  }
  return 0;
}

static int free_names(void **state) {
  (void)state;
  tp_allocator allocator = tp__allocator_of(NULL);
  tp__run_names_fini(&names, &allocator);
  return 0;
}

FOR_ALL_TESTS(make_names, free_names);

static void assert_same_run(const tp_run_record *run, const tp_run_record *want) {
  assert_string_equal(run->subscription, want->subscription);
  assert_string_equal(run->handler, want->handler);
  assert_string_equal(run->owner, want->owner);
  assert_int_equal(run->queued_ns, want->queued_ns);
  assert_int_equal(run->started_ns, want->started_ns);
  assert_int_equal(run->ended_ns, want->ended_ns);
  assert_int_equal(run->late_ns, want->late_ns);
  assert_int_equal(run->code, want->code);
  assert_int_equal(run->contribution_count, want->contribution_count);
  assert_int_equal(run->attempts, want->attempts);
  assert_int_equal(run->state, want->state);
  assert_int_equal(run->reason, want->reason);
  assert_int_equal(run->verdict, want->verdict ? want->verdict : TP_VERDICT_NONE);
  assert_int_equal(run->execution, want->execution);
  assert_int_equal(run->failure, want->failure);
  assert_int_equal(run->fallback_used, want->fallback_used);
  assert_int_equal(run->visibility, want->visibility);
  assert_int_equal(run->thread, want->thread);
  assert_int_equal(run->limit_ms, want->limit_ms);
}

/* One that fits, with something in every field. */
static tp_run_record usual_run(uint32_t name) {
  const tp__run_name *who = tp__run_name_of(&names, name);
  return (tp_run_record){.subscription = who->subscription,
                         .handler = who->handler,
                         .owner = who->owner,
                         .queued_ns = BEGIN_NS + 17,
                         .started_ns = BEGIN_NS + 17,
                         .ended_ns = BEGIN_NS + 42,
                         .contribution_count = 3,
                         .attempts = 2,
                         .state = TP_STATE_FAILED,
                         .reason = TP_REASON_CAPABILITY,
                         .verdict = TP_VERDICT_DENY,
                         .execution = TP_EXECUTION_BACKGROUND,
                         .failure = TP_FAILURE_REQUIRED,
                         .fallback_used = true,
                         .visibility = who->visibility};
}

/* The run without its names. */
static tp__row_details details_of(const tp_run_record *run) {
  return (tp__row_details){.queued_ns = run->queued_ns,
                           .started_ns = run->started_ns,
                           .ended_ns = run->ended_ns,
                           .late_ns = run->late_ns,
                           .code = run->code,
                           .contribution_count = run->contribution_count,
                           .limit_ms = run->limit_ms,
                           .attempts = run->attempts,
                           .thread = run->thread,
                           .state = run->state,
                           .reason = run->reason,
                           .verdict = run->verdict,
                           .execution = run->execution,
                           .failure = run->failure,
                           .fallback_used = run->fallback_used};
}

static bool pack(const tp_run_record *run, int64_t begin_ns, uint32_t name, tp__row *ret_row) {
  tp__row_details details = details_of(run);
  return tp__row_pack(&details, begin_ns, name, ret_row);
}

static void assert_round_trip(const tp_run_record *run, uint32_t name) {
  tp__row row;
  assert_true(pack(run, BEGIN_NS, name, &row));
  assert_false(tp__row_has_details(&row));
  tp_run_record back = tp__row_shown(&row, BEGIN_NS, tp__run_name_of(&names, name));
  assert_same_run(&back, run);
}

/* ---- what fits ---- */

TEST(every_field_survives) {
  for (uint32_t name = 0; name < NAMES; name++) {
    tp_run_record run = usual_run(name);
    assert_round_trip(&run, name);
  }
}

TEST(every_value_of_every_small_field_survives_beside_any_other) {
  for (uint32_t full = 0; full < 2; full++) {
    tp_run_record base = usual_run(0);
    if (!full) {
      base.contribution_count = 0;
      base.state = base.reason = base.verdict = base.execution = base.failure = 0;
      base.fallback_used = false;
    }
    for (uint32_t i = 0; i <= TP_STATE_SKIPPED; i++) {
      tp_run_record run = base;
      run.state = (uint8_t)i;
      assert_round_trip(&run, 0);
    }
    for (uint32_t i = 0; i <= TP_REASON_KILL_SWITCH; i++) {
      tp_run_record run = base;
      run.reason = (uint8_t)i;
      assert_round_trip(&run, 0);
    }
    for (uint32_t i = 0; i <= TP_EXECUTION_BACKGROUND; i++) {
      tp_run_record run = base;
      run.execution = (uint8_t)i;
      assert_round_trip(&run, 0);
    }
    for (uint32_t i = 0; i <= TP_FAILURE_REQUIRED; i++) {
      tp_run_record run = base;
      run.failure = (uint8_t)i;
      assert_round_trip(&run, 0);
    }
    for (uint32_t i = 0; i <= TP_ANSWER_ASK; i++) {
      tp_run_record run = base;
      run.verdict = (uint8_t)i;
      assert_round_trip(&run, 0);
    }
    for (uint32_t i = 0; i <= UINT8_MAX; i++) {
      tp_run_record run = base;
      run.contribution_count = i;
      assert_round_trip(&run, 0);
    }
    for (uint16_t i = 1; i <= 14; i++) {
      tp_run_record run = base;
      run.attempts = i;
      assert_round_trip(&run, 0);
    }
  }
}

TEST(times_survive_up_to_the_last_one_that_fits) {
  static const int64_t offsets[] = {0, 1, INT32_MAX, (int64_t)INT32_MAX + 1, UINT32_MAX};
  for (size_t i = 0; i < COUNT(offsets); i++) {
    for (size_t j = 0; j < COUNT(offsets); j++) {
      tp_run_record run = usual_run(1);
      run.queued_ns = run.started_ns = BEGIN_NS + offsets[i];
      run.ended_ns = run.started_ns + offsets[j];
      assert_round_trip(&run, 1);
    }
  }
}

TEST(run_that_was_never_called_has_its_times_and_nothing_else) {
  tp_run_record run = usual_run(2);
  run.attempts = 0;
  run.started_ns = run.ended_ns = 0;
  run.state = TP_STATE_SKIPPED;
  run.reason = TP_REASON_NO_SLACK;
  assert_round_trip(&run, 2);
  run.queued_ns = BEGIN_NS;
  assert_round_trip(&run, 2);
}

TEST(row_that_the_loop_writes_reads_as_a_run_that_was_done) {
  tp__row row;
  tp__row_put(&row, 1, 5, 7, tp__row_flags(TP_STATE_SUCCEEDED, 1, TP_EXECUTION_DEADLINE, TP_FAILURE_FALLBACK));
  tp_run_record run = tp__row_shown(&row, BEGIN_NS, tp__run_name_of(&names, 1));
  tp_run_record want = {.subscription = "sub1",
                        .handler = "handler1",
                        .owner = "owner1",
                        .queued_ns = BEGIN_NS + 5,
                        .started_ns = BEGIN_NS + 5,
                        .ended_ns = BEGIN_NS + 12,
                        .attempts = 1,
                        .state = TP_STATE_SUCCEEDED,
                        .execution = TP_EXECUTION_DEADLINE,
                        .failure = TP_FAILURE_FALLBACK,
                        .visibility = TP_VISIBILITY_DEBUG};
  assert_same_run(&run, &want);
}

TEST(rows_are_copied_one_like_the_other) {
  tp__row from[9], to[10];
  for (uint32_t i = 0; i < COUNT(from); i++) tp__row_put(&from[i], i, 10 + i, 20 + i, 30 + i);
  for (uint32_t count = 0; count <= COUNT(from); count++) {
    memset(to, 0xee, sizeof to);
    tp__rows_copy(to, from, count);
    assert_memory_equal(to, from, count * sizeof *from);
    assert_int_equal(to[count].name, 0xeeeeeeee);
  }
}

/* ---- what does not ---- */

static void assert_refused(const tp_run_record *run) {
  tp__row row, before;
  memset(&row, 0x5a, sizeof row);
  before = row;
  assert_false(pack(run, BEGIN_NS, 0, &row));
  assert_memory_equal(&row, &before, sizeof row);
}

TEST(what_a_row_cannot_say_is_refused) {
  tp_run_record run = usual_run(0);
  run.late_ns = BEGIN_NS + 100;
  assert_refused(&run);
  run = usual_run(0);
  run.code = 1;
  assert_refused(&run);
  run = usual_run(0);
  run.thread = 1;
  assert_refused(&run);
  run = usual_run(0);
  run.limit_ms = 1;
  assert_refused(&run);
  run = usual_run(0);
  run.attempts = 15; /* says that there are details */
  assert_refused(&run);
  run.attempts = 16;
  assert_refused(&run);
  run.attempts = UINT16_MAX;
  assert_refused(&run);
  run = usual_run(0);
  run.contribution_count = 256;
  assert_refused(&run);
  run.contribution_count = UINT32_MAX;
  assert_refused(&run);
  run = usual_run(0);
  run.verdict = TP_VERDICT_DENY + 1;
  assert_refused(&run);
  run.verdict = UINT8_MAX;
  assert_refused(&run);
  run = usual_run(0);
  run.state = 16;
  assert_refused(&run);
  run = usual_run(0);
  run.execution = 8;
  assert_refused(&run);
  run = usual_run(0);
  run.failure = 4;
  assert_refused(&run);
}

TEST(times_that_a_row_cannot_say_are_refused) {
  tp_run_record run = usual_run(0);
  run.queued_ns--; /* it waited */
  assert_refused(&run);
  run = usual_run(0);
  run.queued_ns++;
  assert_refused(&run);
  run = usual_run(0);
  run.queued_ns = run.started_ns = BEGIN_NS - 1;
  assert_refused(&run);
  run = usual_run(0);
  run.ended_ns = run.started_ns - 1;
  assert_refused(&run);
  run.ended_ns = 0;
  assert_refused(&run);
  run = usual_run(0);
  run.queued_ns = run.started_ns = BEGIN_NS + UINT32_MAX + 1;
  run.ended_ns = run.started_ns;
  assert_refused(&run);
  run = usual_run(0);
  run.ended_ns = run.started_ns + UINT32_MAX + 1;
  assert_refused(&run);
  run.ended_ns = INT64_MAX;
  assert_refused(&run);
}

TEST(run_that_was_never_called_and_yet_has_times_is_refused) {
  tp_run_record run = usual_run(0);
  run.attempts = 0;
  assert_refused(&run);
  run.ended_ns = 0;
  assert_refused(&run);
  run.ended_ns = run.started_ns;
  run.started_ns = 0;
  assert_refused(&run);
  run.ended_ns = 0;
  run.queued_ns = BEGIN_NS - 1;
  assert_refused(&run);
  run.queued_ns = BEGIN_NS + UINT32_MAX + 1;
  assert_refused(&run);
}

TEST(run_drawn_at_random_survives_or_is_refused) {
  unsigned seed = 20261122, kept = 0;
  for (int i = 0; i < 200000; i++) {
    tp_run_record run = usual_run((uint32_t)rand_r(&seed) % NAMES);
    uint32_t name = run.subscription[0] == 's' && run.subscription[1] == 0 ? 2 : (uint32_t)(run.subscription[3] - '0');
    run.queued_ns = BEGIN_NS + ((int64_t)rand_r(&seed) << rand_r(&seed) % 4) - 5;
    run.started_ns = rand_r(&seed) % 8 ? run.queued_ns : run.queued_ns + 1;
    run.ended_ns = run.started_ns + ((int64_t)rand_r(&seed) << rand_r(&seed) % 4) - 5;
    run.attempts = (uint16_t)(rand_r(&seed) % 18);
    run.contribution_count = (uint32_t)rand_r(&seed) % 260;
    run.code = rand_r(&seed) % 8 == 0;
    run.state = (uint8_t)(rand_r(&seed) % 10);
    run.reason = (uint8_t)(rand_r(&seed) % 256);
    if (run.attempts == 0 && rand_r(&seed) % 2) run.started_ns = run.ended_ns = 0;
    tp__row row;
    if (!pack(&run, BEGIN_NS, name, &row)) continue;
    kept++;
    assert_false(tp__row_has_details(&row));
    tp_run_record back = tp__row_shown(&row, BEGIN_NS, tp__run_name_of(&names, name));
    assert_same_run(&back, &run);
  }
  assert_true(kept > 10000);
}

/* ---- entries ---- */

enum { BATCH_BYTES = 4096 };

static tp__record_batch batch_of(size_t capacity) {
  return (tp__record_batch){.memory = malloc(capacity ? capacity : 1), .capacity = capacity};
}

/* The run of an entry's row; runs with an odd index need details. */
static tp_run_record run_of(uint32_t number, int64_t started_ns, uint32_t index, bool detailed) {
  tp_run_record run = usual_run(index % NAMES);
  run.contribution_count = number;
  run.queued_ns = run.started_ns = started_ns + index;
  if (!detailed || index % 2 == 0) return run;
  run.code = 1000 + index;
  run.late_ns = 2000 + index;
  run.limit_ms = 3000 + index;
  run.thread = (uint16_t)(4000 + index);
  return run;
}

/* An entry whose rows have its number and theirs in them. */
static bool add(tp__record_batch *batch, uint32_t number, uint32_t run_count, bool detailed) {
  tp__packed_entry *entry = tp__record_batch_add(batch, run_count, detailed ? run_count / 2 : 0);
  if (!entry) return false;
  entry->names = &names;
  entry->entry_id = number;
  entry->plan_hash = ~(uint64_t)number;
  entry->started_ns = BEGIN_NS + number;
  entry->ended_ns = BEGIN_NS + 1000 + number;
  entry->phase = 7 + number;
  entry->outcome = TP_ERR_HOOK;
  uint32_t detail_count = 0;
  for (uint32_t i = 0; i < run_count; i++) {
    tp_run_record run = run_of(number, entry->started_ns, i, detailed);
    tp__row *row = &tp__packed_rows(entry)[i];
    if (pack(&run, entry->started_ns, i % NAMES, row)) continue;
    tp__packed_details(entry)[detail_count] = details_of(&run);
    tp__row_put_details(row, i % NAMES, detail_count++);
  }
  return detail_count == entry->detail_count;
}

static void assert_entry(const tp__packed_entry *packed, uint32_t number, uint32_t run_count, bool detailed) {
  static const tp_text ids[TP_ID_COUNT];
  tp_entry_record entry = tp__packed_view(packed, &(tp__record_source){.ids = ids});
  assert_int_equal(entry.entry_id, number);
  assert_true(entry.plan_hash == ~(uint64_t)number);
  assert_int_equal(entry.started_ns, BEGIN_NS + number);
  assert_int_equal(entry.ended_ns, BEGIN_NS + 1000 + number);
  assert_int_equal(entry.phase, 7 + number);
  assert_int_equal(entry.status, TP_ERR_HOOK);
  assert_int_equal(entry.run_count, run_count);
  assert_ptr_equal(entry.ids, ids);
  for (uint32_t i = 0; i < run_count; i++) {
    tp_run_record want = run_of(number, entry.started_ns, i, detailed), run = {.struct_size = sizeof run};
    assert_true(entry.run(entry.source, i, &run));
    assert_same_run(&run, &want);
  }
}

/* A reader with a shorter struct asks for a row, and a reader with a longer one. */
TEST(row_is_shown_as_far_as_its_reader_reaches) {
  static const tp_text ids[TP_ID_COUNT];
  enum { HALF = offsetof(tp_run_record, queued_ns), MORE = sizeof(tp_run_record) + 16 };
  for (int detailed = 0; detailed < 2; detailed++) {
    tp__record_batch batch = batch_of(BATCH_BYTES);
    assert_true(add(&batch, 1, 2, detailed));
    tp_entry_record entry = tp__packed_view((const tp__packed_entry *)batch.memory, &(tp__record_source){.ids = ids});
    _Alignas(8) unsigned char bytes[MORE + 8];
    tp_run_record *row = (tp_run_record *)(void *)bytes;
    memset(bytes, 0xee, sizeof bytes);
    row->struct_size = HALF;
    assert_true(entry.run(entry.source, 1, row));
    assert_int_equal(row->struct_size, HALF);
    assert_string_equal(row->owner, "owner1");
    for (size_t i = HALF; i < sizeof bytes; i++) assert_int_equal(bytes[i], 0xee);
    row->struct_size = MORE;
    assert_true(entry.run(entry.source, 1, row));
    assert_int_equal(row->struct_size, sizeof *row); /* how much of it was filled */
    assert_int_equal(row->started_ns, entry.started_ns + 1);
    for (size_t i = sizeof *row; i < MORE; i++) assert_int_equal(bytes[i], 0);
    for (size_t i = MORE; i < sizeof bytes; i++) assert_int_equal(bytes[i], 0xee);
    memset(bytes, 0xee, sizeof bytes);
    row->struct_size = 0;
    assert_false(entry.run(entry.source, 1, row));
    row->struct_size = sizeof *row;
    assert_false(entry.run(entry.source, 2, row));
    assert_int_equal(bytes[sizeof(size_t)], 0xee);
    free(batch.memory);
  }
}

TEST(batch_of_entries_with_and_without_details_is_walked_entry_by_entry) {
  static const struct {
    uint32_t run_count;
    bool detailed;
  } forms[] = {{1, false}, {3, true}, {0, false}, {0, true}, {7, false}, {1, true}, {2, false}, {5, true}};
  tp__record_batch batch = batch_of(BATCH_BYTES);
  for (uint32_t i = 0; i < COUNT(forms); i++) assert_true(add(&batch, i, forms[i].run_count, forms[i].detailed));
  assert_int_equal(batch.count, COUNT(forms));
  const tp__packed_entry *entry = (const tp__packed_entry *)batch.memory;
  for (uint32_t i = 0; i < COUNT(forms); i++, entry = tp__packed_next(entry))
    assert_entry(entry, i, forms[i].run_count, forms[i].detailed);
  assert_ptr_equal(entry, batch.memory + batch.used);
  free(batch.memory);
}

TEST(entry_goes_in_when_it_just_fits_and_not_with_a_byte_less) {
  for (int detailed = 0; detailed < 2; detailed++) {
    size_t size = tp__packed_size(4, detailed ? 2 : 0), two = 2 * size;
    tp__record_batch batch = batch_of(two);
    assert_true(add(&batch, 1, 4, detailed));
    assert_true(add(&batch, 2, 4, detailed));
    assert_false(add(&batch, 3, 0, detailed));
    assert_int_equal(batch.used, two);
    free(batch.memory);
    batch = batch_of(two - 1);
    assert_true(add(&batch, 1, 4, detailed));
    assert_false(add(&batch, 2, 4, detailed));
    assert_int_equal(batch.used, size);
    assert_int_equal(batch.count, 1);
    free(batch.memory);
  }
  assert_int_equal(tp__packed_size(4, 2), sizeof(tp__packed_entry) + 4 * 16 + 2 * 56);
  tp__record_batch none = {0};
  assert_null(tp__record_batch_add(&none, 0, 0));
}

TEST(batch_is_read_from_a_copy_of_its_struct_its_ids_and_its_bytes) {
  enum { ENTRIES = 4, HALF = offsetof(tp_entry_record, phase) };
  tp__record_batch batch = batch_of(BATCH_BYTES);
  tp_text ids[TP_ID_COUNT] = {{0}}, copied_ids[TP_ID_COUNT];
  for (uint32_t i = 0; i < ENTRIES; i++) assert_true(add(&batch, i, i % 3, i % 2));
  tp_entry_batch copy =
      tp__record_batch_view(&batch, &(tp__record_source){.process_run_id = 9, .unix_offset_ns = 1000000, .ids = ids});
  assert_int_equal(copy.struct_size, sizeof copy);
  assert_int_equal(copy.entry_count, ENTRIES);
  assert_int_equal(copy.packed_bytes, batch.used);
  void *packed = malloc(copy.packed_bytes);
  assert_non_null(packed);
  copy.packed = memcpy(packed, copy.packed, copy.packed_bytes);
  copy.ids = memcpy(copied_ids, ids, sizeof ids);
  memset(batch.memory, 0xee, batch.capacity);
  free(batch.memory);
  size_t offset = 0;
  for (uint32_t i = 0; i < ENTRIES; i++) {
    const tp__packed_entry *entry = (const tp__packed_entry *)((const char *)packed + offset);
    tp_entry_record record = {.struct_size = 0};
    assert_false(copy.entry(&copy, &offset, &record));
    record = (tp_entry_record){.struct_size = HALF, .phase = 12345};
    size_t again = offset;
    assert_true(copy.entry(&copy, &again, &record));
    assert_int_equal(record.phase, 12345); /* after what its reader knows */
    record.struct_size = sizeof record;
    assert_true(copy.entry(&copy, &offset, &record));
    assert_int_equal(offset, again);
    assert_int_equal(record.process_run_id, 9);
    assert_int_equal(record.entry_id, i);
    assert_int_equal(record.started_unix_ms, (BEGIN_NS + i) / 1000000 + 1);
    assert_ptr_equal(record.ids, copied_ids);
    assert_int_equal(record.id_count, TP_ID_COUNT);
    assert_ptr_equal(record.source, entry);
    assert_entry(entry, i, i % 3, i % 2);
  }
  assert_int_equal(offset, copy.packed_bytes);
  tp_entry_record behind = {.struct_size = sizeof behind};
  assert_false(copy.entry(&copy, &offset, &behind));
  free(packed);
}
