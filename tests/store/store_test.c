/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite of stores: the behaviour of every store, however it is implemented. The memory store is the
 * reference. To add a store, add one line to the table `stores`. */
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/host.h"
#include "turnphase/sqlite.h"
#ifdef TP_WITH_POSTGRES
#include "tests/support/postgres_server.h"
#include "turnphase/postgres.h"
#endif

/* ---- the stores ---- */

typedef struct store_kind {
  const char *name;
  /* Opens an empty store that keeps at least records_max entry records and turn records. */
  tp_status (*open)(size_t records_max, tp_store **ret_store);
  /* Opens the store that was opened last and then closed, with all its data. NULL: the store is not durable. */
  tp_status (*reopen)(size_t records_max, tp_store **ret_store);
} store_kind;

static tp_status open_memory(size_t records_max, tp_store **ret_store) {
  tp_store_memory_options options = {
      .struct_size = sizeof options, .records_max = records_max, .turns_max = records_max};
  return tp_store_memory_new(NULL, &options, ret_store, NULL);
}

static char folder[64];
static int file_count;
static tp_status reopen_sqlite(size_t records_max, tp_store **ret_store) {
  char path[96];
  snprintf(path, sizeof path, "%s/%d.db", folder, file_count);
  tp_sqlite_store_options options = {
      .struct_size = sizeof options, .path = path, .records_max = records_max, .turns_max = records_max};
  return tp_sqlite_store_open(&options, ret_store, NULL);
}

static tp_status open_sqlite(size_t records_max, tp_store **ret_store) {
  file_count++;
  return reopen_sqlite(records_max, ret_store);
}

#ifdef TP_WITH_POSTGRES
/* Each store has a schema of its own. */
static tp_status reopen_postgres(size_t records_max, tp_store **ret_store) {
  char schema[16];
  tp_fault fault = {0};
  tp_postgres *database = NULL;
  snprintf(schema, sizeof schema, "s%d", file_count);
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = postgres_server.conninfo, .schema = schema};
  const tp_postgres_store_options store = {
      .struct_size = sizeof store, .callers_clock = 1, .records_max = records_max, .turns_max = records_max};
  tp_status status = tp_postgres_open(&options, &database, &fault);
  if (status == TP_OK) status = tp_postgres_store(database, &store, ret_store, &fault);
  if (status != TP_OK) print_message("# %s\n", fault.message);
  tp_postgres_close(database);
  return status;
}

static tp_status open_postgres(size_t records_max, tp_store **ret_store) {
  file_count++;
  return reopen_postgres(records_max, ret_store);
}
#endif

static const store_kind stores[] = {
    {"memory", open_memory, NULL},
    {"sqlite", open_sqlite, reopen_sqlite},
#ifdef TP_WITH_POSTGRES
    {"postgres", open_postgres, reopen_postgres}, /* the last: it is left out where there is no server */
#endif
};
static const store_kind *kind; /* under test */

static tp_store *open_store(size_t records_max) {
  tp_store *store = NULL;
  assert_int_equal(kind->open(records_max, &store), TP_OK);
  assert_int_equal(store->struct_size, sizeof *store);
  assert_non_null(store->name);
  assert_int_equal(store->durable, kind->reopen != NULL);
  if (records_max > 0 && !store->records) { /* PostgreSQL's has no records yet */
    tp_store_free(store);
    skip();
  }
  return store;
}

static bool is_of_sqlite(void) { return strcmp(kind->name, "sqlite") == 0; }

/* Functions that durable stores have and stores in memory lack; a case that finds a difference elsewhere fails. */
static bool is_durable_kind(bool has_function) {
  assert_int_equal(has_function, kind->reopen != NULL);
  return has_function;
}

static tp_store *reopen_store(size_t records_max) {
  tp_store *store = NULL;
  assert_int_equal(kind->reopen(records_max, &store), TP_OK);
  return store;
}

/* ---- records ---- */

enum { RUN_ID = 7, TP_MS = 1000000 };
static const int64_t WALL_MS = 1700000000000;

static bool run_at(const void *source, size_t index, tp_run_record *record) {
  *record = (tp_run_record){.struct_size = sizeof *record,
                            .subscription = "sub",
                            .handler = "h",
                            .owner = "o",
                            .state = TP_STATE_SUCCEEDED,
                            .thread = (uint16_t)(60000 * (index % 2)),
                            .attempts = (uint16_t)(index + *(const uint32_t *)source)};
  return true;
}

static void put_record(tp_store *store, uint64_t id, uint32_t runs) {
  static const uint32_t base = 10;
  char turn[32];
  snprintf(turn, sizeof turn, "turn-%llu", (unsigned long long)id);
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = tp_text_of(turn), [TP_ID_SESSION] = TEXT("s")};
  tp_entry_record record = {.struct_size = sizeof record,
                            .process_run_id = RUN_ID,
                            .entry_id = id,
                            .started_ns = (int64_t)id * TP_MS,
                            .ended_ns = (int64_t)id * TP_MS,
                            .started_unix_ms = WALL_MS + (int64_t)id,
                            .phase = 5,
                            .status = TP_OK,
                            .ids = ids,
                            .id_count = TP_ID_COUNT,
                            .run_count = runs,
                            .run = run_at,
                            .source = &base};
  assert_int_equal(store->record(store->ctx, &record), TP_OK);
  memset(turn, 'x', sizeof turn);
}

typedef struct listing {
  uint64_t ids[64];
  size_t count, stop_at;
  int bad;
  int64_t late_ns;
} listing;

static bool list(void *ctx, const tp_entry_record *record) {
  listing *l = ctx;
  char want[32];
  snprintf(want, sizeof want, "turn-%llu", (unsigned long long)record->entry_id);
  tp_text turn = record->ids[TP_ID_TURN];
  if (record->struct_size != sizeof *record || record->process_run_id != RUN_ID || record->id_count != TP_ID_COUNT ||
      record->started_unix_ms != WALL_MS + (int64_t)record->entry_id)
    l->bad++;
  if (turn.size != strlen(want) || memcmp(turn.data, want, turn.size) != 0) l->bad++;
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    if (!record->run(record->source, i, &run)) l->bad++;
    else if (run.attempts != 10 + i || strcmp(run.subscription, "sub") != 0 || run.thread != 60000 * (i % 2)) l->bad++;
    if (run.late_ns) l->late_ns = run.late_ns;
  }
  tp_run_record none = {.struct_size = sizeof none};
  if (record->run(record->source, record->run_count, &none)) l->bad++;
  l->ids[l->count++] = record->entry_id;
  return l->count != l->stop_at;
}

static tp_status read_newest(tp_store *store, size_t limit, listing *l) {
  tp_record_query query = {.struct_size = sizeof query, .limit = limit};
  return store->records(store->ctx, &query, list, l, NULL);
}

/* ---- names of runs ---- */

typedef struct named_run {
  char subscription[16], handler[16], owner[16];
  uint8_t visibility;
  uint64_t wrong; /* names that were read and not those that were given */
} named_run;

static bool named_run_at(const void *source, size_t index, tp_run_record *record) {
  const named_run *names = source;
  *record = (tp_run_record){.struct_size = sizeof *record,
                            .subscription = names->subscription,
                            .handler = names->handler,
                            .owner = names->owner,
                            .state = TP_STATE_SUCCEEDED,
                            .attempts = 1,
                            .visibility = names->visibility};
  (void)index;
  return true;
}

static void name_run(named_run *run, uint64_t id) {
  snprintf(run->subscription, sizeof run->subscription, "sub%llu", (unsigned long long)id);
  snprintf(run->handler, sizeof run->handler, "h%llu", (unsigned long long)id % 3);
  snprintf(run->owner, sizeof run->owner, "o%llu", (unsigned long long)id % 2);
  run->visibility = (uint8_t)(id % 4);
}

static tp_status put_named(tp_store *store, uint64_t id) {
  named_run run = {.wrong = 0};
  name_run(&run, id);
  tp_text ids[TP_ID_COUNT] = {{0}};
  tp_entry_record record = {.struct_size = sizeof record,
                            .process_run_id = RUN_ID,
                            .entry_id = id,
                            .started_ns = (int64_t)id * TP_MS,
                            .ended_ns = (int64_t)id * TP_MS,
                            .started_unix_ms = WALL_MS,
                            .phase = 5,
                            .ids = ids,
                            .id_count = TP_ID_COUNT,
                            .run_count = 1,
                            .run = named_run_at,
                            .source = &run};
  tp_status status = store->record(store->ctx, &record);
  memset(&run, 'x', sizeof run);
  return status;
}

static bool check_names(void *ctx, const tp_entry_record *record) {
  named_run *check = ctx, want = {.wrong = 0};
  tp_run_record run = {.struct_size = sizeof run};
  name_run(&want, record->entry_id);
  if (!record->run(record->source, 0, &run) || strcmp(run.subscription, want.subscription) != 0 ||
      strcmp(run.handler, want.handler) != 0 || strcmp(run.owner, want.owner) != 0 || run.visibility != want.visibility)
    check->wrong++;
  return true;
}

TEST(names_of_a_run_are_copied) {
  tp_store *store = open_store(100);
  named_run check = {.wrong = 0};
  for (uint64_t id = 1; id <= 50; id++) assert_int_equal(put_named(store, id), TP_OK);
  for (uint64_t id = 1; id <= 50; id++) assert_int_equal(put_named(store, id + 50), TP_OK);
  tp_record_query query = {.struct_size = sizeof query};
  assert_int_equal(store->records(store->ctx, &query, check_names, &check, NULL), TP_OK);
  assert_int_equal(check.wrong, 0);
  tp_store_free(store);
}

TEST(newest_records_are_kept_newest_first) {
  tp_store *store = open_store(4);
  listing none = {.count = 0};
  assert_int_equal(read_newest(store, 10, &none), TP_OK);
  assert_int_equal(none.count, 0);
  for (uint64_t id = 1; id <= 6; id++) put_record(store, id, (uint32_t)id * 7 % 5);
  listing all = {.count = 0}, two = {.count = 0}, stopped = {.stop_at = 1};
  assert_int_equal(read_newest(store, 10, &all), TP_OK);
  assert_int_equal(all.count, 4);
  for (uint64_t i = 0; i < 4; i++) assert_int_equal(all.ids[i], 6 - i);
  assert_int_equal(all.bad, 0);
  assert_int_equal(read_newest(store, 2, &two), TP_OK);
  assert_int_equal(two.count, 2);
  assert_int_equal(read_newest(store, 10, &stopped), TP_OK);
  assert_int_equal(stopped.count, 1);
  tp_store_free(store);
}

static tp_status late(tp_store *store, uint64_t run_id, uint64_t entry_id, uint32_t index, int64_t late_ns) {
  tp_late_record note = {.struct_size = sizeof note,
                         .process_run_id = run_id,
                         .entry_id = entry_id,
                         .late_ns = late_ns,
                         .run_index = index};
  return store->record_late(store->ctx, &note);
}

TEST(late_time_is_noted_where_the_entry_is_still_kept) {
  tp_store *store = open_store(2);
  for (uint64_t id = 1; id <= 3; id++) put_record(store, id, 2);
  assert_int_equal(late(store, RUN_ID, 1, 0, 77), TP_OK);     /* gone: no error */
  assert_int_equal(late(store, RUN_ID, 2, 9, 77), TP_OK);     /* no such run */
  assert_int_equal(late(store, RUN_ID + 1, 2, 1, 77), TP_OK); /* of another process */
  listing l = {.count = 0};
  assert_int_equal(read_newest(store, 10, &l), TP_OK);
  assert_int_equal(l.late_ns, 0);
  assert_int_equal(late(store, RUN_ID, 2, 1, 77), TP_OK);
  assert_int_equal(read_newest(store, 10, &l), TP_OK);
  assert_int_equal(l.late_ns, 77);
  tp_store_free(store);
}

TEST(records_are_read_page_by_page_and_by_what_they_are) {
  tp_store *store = open_store(20);
  for (uint64_t id = 1; id <= 10; id++) put_record(store, id, 1);
  uint64_t before = 0, expected = 10;
  for (int page = 0; page < 4; page++) {
    listing l = {.count = 0};
    tp_record_query query = {
        .struct_size = sizeof query, .limit = 4, .before_process_run_id = RUN_ID, .before_entry_id = before};
    assert_int_equal(store->records(store->ctx, &query, list, &l, NULL), TP_OK);
    assert_int_equal(l.count, page < 2 ? 4 : page == 2 ? 2 : 0);
    for (size_t i = 0; i < l.count; i++) assert_int_equal(l.ids[i], expected--);
    if (l.count > 0) before = l.ids[l.count - 1];
  }
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = TEXT("turn-3")};
  listing one = {.count = 0}, none = {.count = 0}, some = {.count = 0}, wrong = {.count = 0};
  tp_record_query by_turn = {.struct_size = sizeof by_turn, .ids = ids, .id_count = TP_ID_COUNT};
  assert_int_equal(store->records(store->ctx, &by_turn, list, &one, NULL), TP_OK);
  assert_int_equal(one.count, 1);
  assert_int_equal(one.ids[0], 3);
  tp_record_query by_phase = {.struct_size = sizeof by_phase, .phase = 6};
  assert_int_equal(store->records(store->ctx, &by_phase, list, &none, NULL), TP_OK);
  tp_record_query failed = {.struct_size = sizeof failed, .only_failed = 1};
  assert_int_equal(store->records(store->ctx, &failed, list, &none, NULL), TP_OK);
  assert_int_equal(none.count, 0);
  tp_record_query by_time = {.struct_size = sizeof by_time, .from_unix_ms = WALL_MS + 4, .to_unix_ms = WALL_MS + 6};
  assert_int_equal(store->records(store->ctx, &by_time, list, &some, NULL), TP_OK);
  assert_int_equal(some.count, 3);
  assert_int_equal(store->records(store->ctx, &(tp_record_query){0}, list, &wrong, NULL), TP_ERR_VERSION);
  tp_store_free(store);
}

/* ---- turns ---- */

/* The turn with number n waited for n % 4 tools; the part that does not fit its struct is zero. */
static bool put_step(const void *source, size_t index, tp_turn_step *step) {
  static const char names[] = "abc";
  if (index >= *(const uint64_t *)source % 4) return false;
  assert_int_equal(step->struct_size, sizeof *step);
  *step = (tp_turn_step){.struct_size = sizeof *step,
                         .started_ns = 100 + (int64_t)index,
                         .ended_ns = 200 + (int64_t)index,
                         .kind = TP_STEP_TOOL,
                         .round = 1,
                         .place = (uint32_t)index,
                         .outcome = -3,
                         .name = {names + index, 1},
                         .entry_id = UINT64_MAX - index};
  return true;
}

static size_t wrong_steps(const tp_turn_record *record) {
  size_t wrong = record->step_count != record->number % 4 || record->steps_dropped != record->number;
  for (size_t i = 0; i <= record->step_count; i++) {
    tp_turn_step is = {.struct_size = sizeof is}, should = {.struct_size = sizeof should};
    bool there = i < record->step_count;
    if (record->step(record->step_source, i, &is) != there || !there) continue;
    put_step(&record->number, i, &should);
    wrong += is.struct_size != sizeof is || is.started_ns != should.started_ns || is.ended_ns != should.ended_ns ||
             is.kind != should.kind || is.round != should.round || is.place != should.place ||
             is.outcome != should.outcome || is.entry_id != should.entry_id || is.name.size != 1 ||
             is.name.data[0] != should.name.data[0];
  }
  return wrong;
}

static void put_turn(tp_store *store, uint64_t number, uint32_t outcome) {
  char turn[32], why[64];
  snprintf(turn, sizeof turn, "turn-%llu", (unsigned long long)number);
  memset(why, 'w', sizeof why);
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = tp_text_of(turn), [TP_ID_SESSION] = TEXT("s")};
  tp_turn_record record = {.struct_size = sizeof record,
                           .process_run_id = RUN_ID,
                           .number = number,
                           .ids = ids,
                           .id_count = TP_ID_COUNT,
                           .outcome = outcome,
                           .code = outcome == 1 ? TP_OK : TP_ERR_MODEL,
                           .ended_unix_ms = WALL_MS + (int64_t)number,
                           .model_ns = (int64_t)number,
                           .subscription = TEXT("sub"),
                           .reason = {why, number * 13 % sizeof why},
                           .step_count = number % 4,
                           .step = put_step,
                           .step_source = &number,
                           .steps_dropped = number,
                           .parent_turn = {why, number % 5}};
  assert_int_equal(store->turn_record(store->ctx, &record), TP_OK);
  memset(turn, 'x', sizeof turn);
  memset(why, 'x', sizeof why);
}

static bool list_turn(void *ctx, const tp_turn_record *record) {
  listing *l = ctx;
  char want[32];
  snprintf(want, sizeof want, "turn-%llu", (unsigned long long)record->number);
  tp_text turn = record->ids[TP_ID_TURN];
  if (record->struct_size != sizeof *record || record->process_run_id != RUN_ID || record->id_count != TP_ID_COUNT ||
      record->model_ns != (int64_t)record->number || record->reason.size != record->number * 13 % 64 ||
      record->subscription.size != 3 || record->parent_turn.size != record->number % 5)
    l->bad++;
  for (size_t i = 0; i < record->parent_turn.size; i++) l->bad += record->parent_turn.data[i] != 'w';
  for (size_t i = 0; i < record->reason.size; i++) l->bad += record->reason.data[i] != 'w';
  l->bad += wrong_steps(record);
  if (turn.size != strlen(want) || memcmp(turn.data, want, turn.size) != 0) l->bad++;
  l->ids[l->count++] = record->number;
  return l->count != l->stop_at;
}

static listing read_turns(tp_store *store, const tp_turn_query *query, size_t stop_at) {
  listing l = {.stop_at = stop_at};
  assert_int_equal(store->turns(store->ctx, query, list_turn, &l, NULL), TP_OK);
  assert_int_equal(l.bad, 0);
  return l;
}

TEST(newest_turns_are_kept_and_read_by_what_they_are) {
  enum { KEPT = 20, ALL = 47 };
  tp_store *store = open_store(KEPT);
  tp_turn_query all = {.struct_size = sizeof all};
  assert_int_equal(read_turns(store, &all, 0).count, 0);
  for (uint64_t n = 1; n <= ALL; n++) put_turn(store, n, n % 3 ? 1 : 2);
  listing l = read_turns(store, &all, 0);
  assert_true(l.count >= KEPT);
  for (uint64_t i = 0; i < l.count; i++) assert_int_equal(l.ids[i], ALL - i);
  assert_int_equal(read_turns(store, &all, 3).count, 3);
  tp_turn_query page = {.struct_size = sizeof page, .limit = 8, .before_process_run_id = RUN_ID, .before_number = 40};
  l = read_turns(store, &page, 0);
  assert_int_equal(l.count, 8);
  assert_int_equal(l.ids[0], 39);
  tp_turn_query failed = {.struct_size = sizeof failed, .only_failed = 1, .limit = 2};
  l = read_turns(store, &failed, 0);
  assert_int_equal(l.ids[0], 45);
  assert_int_equal(l.ids[1], 42);
  tp_turn_query by_time = {.struct_size = sizeof by_time, .from_unix_ms = WALL_MS + 40, .to_unix_ms = WALL_MS + 43};
  assert_int_equal(read_turns(store, &by_time, 0).count, 4);
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = TEXT("turn-41")};
  tp_turn_query by_id = {.struct_size = sizeof by_id, .ids = ids, .id_count = TP_ID_COUNT};
  l = read_turns(store, &by_id, 0);
  assert_int_equal(l.count, 1);
  assert_int_equal(l.ids[0], 41);
  tp_turn_query gone = {.struct_size = sizeof gone, .before_process_run_id = RUN_ID, .before_number = 1};
  assert_int_equal(read_turns(store, &gone, 0).count, 0);
  assert_int_equal(store->turns(store->ctx, &(tp_turn_query){0}, list_turn, &l, NULL), TP_ERR_VERSION);
  tp_store_free(store);
}

/* ---- jobs ---- */

static tp_job job_of(const char *key, const char *order) {
  return (tp_job){.struct_size = sizeof(tp_job),
                  .attempts_max = 2,
                  .phase = 21,
                  .contract_version = 1,
                  .limit_ms = 100,
                  .handler = TEXT("h"),
                  .subscription = TEXT("s"),
                  .idempotency_key = tp_text_of(key),
                  .order_key = tp_text_of(order),
                  .payload = TEXT("\x80")};
}

static uint64_t insert(tp_store *store, const char *key, const char *order, bool existed) {
  tp_job job = job_of(key, order);
  uint64_t id = 0;
  bool was = !existed;
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &was, NULL), TP_OK);
  assert_int_equal(was, existed);
  assert_true(id > 0);
  return id;
}

typedef struct claimed {
  int count;
  uint64_t id, claim;
  uint32_t attempt;
  char key[32], payload[8];
} claimed;

static void take(void *ctx, const tp_job *job) {
  claimed *c = ctx;
  c->count++;
  c->id = job->id;
  c->claim = job->claim;
  c->attempt = job->attempt;
  snprintf(c->key, sizeof c->key, "%.*s", (int)job->idempotency_key.size, job->idempotency_key.data);
  snprintf(c->payload, sizeof c->payload, "%.*s", (int)job->payload.size, job->payload.data);
}

static bool accept(void *ctx, const tp_job *job) {
  (void)ctx;
  return job->handler.size == 1 && job->contract_version == 1;
}
static bool refuse(void *ctx, const tp_job *job) {
  (void)ctx;
  (void)job;
  return false;
}

static tp_status claim_with(tp_store *store, tp_job_filter_fn filter, int64_t now_ms, claimed *c,
                            int64_t *ret_next_ms) {
  tp_job_claim request = {
      .struct_size = sizeof request, .now_ms = now_ms, .lease_ms = 1000, .filter = filter, .take = take, .ctx = c};
  memset(c, 0, sizeof *c);
  return store->job_claim(store->ctx, &request, ret_next_ms, NULL);
}

static tp_status claim(tp_store *store, int64_t now_ms, claimed *c, int64_t *ret_next_ms) {
  tp_status status = claim_with(store, accept, now_ms, c, ret_next_ms);
  assert_int_equal(c->count, status == TP_OK ? 1 : 0);
  return status;
}

static tp_status finish_to(tp_store *store, const claimed *c, tp_job_end end, int64_t retry_at_ms,
                           tp_job_state want_state) {
  uint32_t state = 0;
  tp_job_finish request = {.struct_size = sizeof request,
                           .id = c->id,
                           .claim = c->claim,
                           .now_ms = 5,
                           .retry_at_ms = retry_at_ms,
                           .end = end,
                           .reason = end == TP_JOB_END_SUCCEEDED ? TP_REASON_NONE : TP_REASON_ERROR,
                           .code = 7,
                           .message = TEXT("why")};
  tp_status status = store->job_finish(store->ctx, &request, &state, NULL);
  if (status == TP_OK) assert_string_equal(tp_job_state_name(state), tp_job_state_name(want_state));
  return status;
}

static tp_status finish(tp_store *store, uint64_t id, uint64_t token, tp_job_end end, int64_t retry_at_ms) {
  uint32_t state;
  tp_job_finish request = {
      .struct_size = sizeof request, .id = id, .claim = token, .retry_at_ms = retry_at_ms, .end = end};
  return store->job_finish(store->ctx, &request, &state, NULL);
}

static uint64_t open_jobs(tp_store *store, const char *order) {
  uint64_t count = 99;
  assert_int_equal(store->job_open(store->ctx, tp_text_of(order), &count, NULL), TP_OK);
  return count;
}

TEST(known_key_gives_its_job_again) {
  tp_store *store = open_store(0);
  uint64_t id = insert(store, "k", "o", false);
  assert_int_equal(insert(store, "k", "o", true), id);
  assert_int_equal(open_jobs(store, ""), 1);
  claimed c;
  int64_t next;
  assert_int_equal(claim(store, 1, &c, &next), TP_OK);
  assert_string_equal(c.payload, "\x80");
  assert_int_equal(insert(store, "k", "o", true), id); /* while it runs */
  assert_int_equal(finish(store, c.id, c.claim, TP_JOB_END_SUCCEEDED, 0), TP_OK);
  assert_int_equal(insert(store, "k", "o", true), id); /* and when it has ended */
  assert_int_equal(open_jobs(store, ""), 0);
  tp_store_free(store);
}

TEST(only_the_oldest_of_an_order_key_is_claimable) {
  tp_store *store = open_store(0);
  insert(store, "a1", "a", false);
  insert(store, "a2", "a", false);
  insert(store, "b1", "b", false);
  claimed c;
  int64_t next;
  assert_int_equal(claim(store, 1, &c, &next), TP_OK);
  assert_string_equal(c.key, "a1");
  uint64_t id = c.id, token = c.claim;
  assert_int_equal(claim(store, 1, &c, &next), TP_OK);
  assert_string_equal(c.key, "b1");
  assert_int_equal(claim(store, 1, &c, &next), TP_ERR_NOT_FOUND);
  assert_int_equal(open_jobs(store, "a"), 2);
  assert_int_equal(finish(store, id, token, TP_JOB_END_FAILED, 0), TP_OK);
  assert_int_equal(open_jobs(store, "a"), 1);
  assert_int_equal(claim(store, 1, &c, &next), TP_OK);
  assert_string_equal(c.key, "a2");
  tp_store_free(store);
}

TEST(retry_waits_its_time_and_dies_after_the_last_attempt) {
  tp_store *store = open_store(0);
  insert(store, "k", "o", false);
  claimed c;
  int64_t next;
  assert_int_equal(claim(store, 1000, &c, &next), TP_OK);
  assert_int_equal(c.attempt, 1);
  assert_int_equal(finish(store, c.id, c.claim, TP_JOB_END_RETRY, 1500), TP_OK);
  assert_int_equal(claim(store, 1499, &c, &next), TP_ERR_NOT_FOUND);
  assert_int_equal(next, 1500);
  assert_int_equal(claim(store, 1500, &c, &next), TP_OK);
  assert_int_equal(c.attempt, 2);
  assert_int_equal(finish(store, c.id, c.claim, TP_JOB_END_RETRY, 1600), TP_OK);
  assert_int_equal(claim(store, 9000, &c, &next), TP_ERR_NOT_FOUND); /* a dead letter */
  assert_int_equal(open_jobs(store, ""), 0);
  tp_store_free(store);
}

/* ---- several by one call ---- */

enum { BATCH = 8 };

typedef struct claimed_all {
  claimed items[BATCH];
  size_t count;
} claimed_all;

static void take_next(void *ctx, const tp_job *job) {
  claimed_all *all = ctx;
  if (all->count < BATCH) take(&all->items[all->count], job);
  all->count++;
}

static tp_status claim_all(tp_store *store, size_t count_max, tp_job_filter_fn filter, claimed_all *all) {
  int64_t next_ms;
  tp_job_claim request = {.struct_size = sizeof request,
                          .now_ms = 1,
                          .lease_ms = 1000,
                          .filter = filter,
                          .take = take_next,
                          .ctx = all,
                          .count_max = count_max};
  all->count = 0;
  memset(all->items, 0, sizeof all->items);
  return store->job_claim(store->ctx, &request, &next_ms, NULL);
}

TEST(one_call_claims_the_oldest_of_each_order_key_up_to_a_number) {
  tp_store *store = open_store(0);
  claimed_all all;
  assert_int_equal(claim_all(store, 4, accept, &all), TP_ERR_NOT_FOUND);
  insert(store, "a1", "a", false);
  insert(store, "a2", "a", false);
  insert(store, "b1", "b", false);
  insert(store, "c1", "c", false);
  insert(store, "d1", "d", false);
  assert_int_equal(claim_all(store, 3, refuse, &all), TP_ERR_NOT_FOUND);
  assert_int_equal(claim_all(store, 3, accept, &all), TP_OK);
  assert_int_equal(all.count, 3);
  assert_string_equal(all.items[0].key, "a1");
  assert_string_equal(all.items[1].key, "b1");
  assert_string_equal(all.items[2].key, "c1");
  for (int i = 0; i < 3; i++) assert_true(all.items[i].attempt == 1 && all.items[i].payload[0] == '\x80');
  assert_int_equal(finish_to(store, &all.items[0], TP_JOB_END_SUCCEEDED, 0, TP_JOB_SUCCEEDED), TP_OK);
  assert_int_equal(claim_all(store, 0, NULL, &all), TP_OK); /* 0 is one */
  assert_int_equal(all.count, 1);
  assert_string_equal(all.items[0].key, "a2");
  assert_int_equal(claim_all(store, 1000, accept, &all), TP_OK);
  assert_int_equal(all.count, 1);
  assert_string_equal(all.items[0].key, "d1");
  assert_int_equal(claim_all(store, 1000, accept, &all), TP_ERR_NOT_FOUND);
  assert_int_equal(open_jobs(store, ""), 4);
  tp_store_free(store);
}

TEST(jobs_that_are_inserted_together_have_an_answer_each) {
  enum { JOBS = 4 };
  static const char *const keys[JOBS] = {"a1", "known", "b1", "c1"};
  tp_store *store = open_store(0);
  tp_job jobs[JOBS];
  const tp_job *list[JOBS];
  uint64_t ids[JOBS] = {0}, known = 0;
  bool existed[JOBS] = {false};
  tp_status statuses[JOBS];
  tp_fault fault = {0};
  claimed_all all;
  tp_job first = job_of("known", "k");
  assert_int_equal(store->job_insert(store->ctx, &first, &known, &existed[0], NULL), TP_OK);
  for (int i = 0; i < JOBS; i++) {
    jobs[i] = job_of(keys[i], keys[i]);
    list[i] = &jobs[i];
  }
  jobs[JOBS - 1].struct_size = 0; /* then none is inserted */
  assert_int_not_equal(store->job_insert_all(store->ctx, list, JOBS, ids, existed, statuses, &fault), TP_OK);
  assert_int_equal(open_jobs(store, ""), 1);
  jobs[JOBS - 1].struct_size = sizeof *jobs;
  assert_int_equal(store->job_insert_all(store->ctx, list, JOBS, ids, existed, statuses, &fault), TP_OK);
  for (int i = 0; i < JOBS; i++) {
    assert_int_equal(statuses[i], TP_OK);
    assert_int_equal(existed[i], i == 1);
  }
  assert_true(ids[1] == known && ids[0] > known && ids[2] > ids[0]);
  assert_int_equal(open_jobs(store, ""), JOBS);
  assert_int_equal(claim_all(store, JOBS, accept, &all), TP_OK);
  assert_int_equal(all.count, JOBS);
  assert_string_equal(all.items[0].key, "known");
  assert_string_equal(all.items[1].key, "a1");
  assert_string_equal(all.items[2].key, "b1");
  tp_store_free(store);
}

/* Two turns with one id may end at the same time: then their jobs have the same key. */
TEST(jobs_of_one_key_that_are_inserted_together_are_one) {
  enum { JOBS = 5 };
  static const char *const keys[JOBS] = {"twice", "other", "twice", "twice", "other"};
  tp_store *store = open_store(0);
  tp_job jobs[JOBS];
  const tp_job *list[JOBS];
  uint64_t ids[JOBS] = {0};
  bool existed[JOBS] = {false};
  tp_status statuses[JOBS];
  for (int i = 0; i < JOBS; i++) {
    jobs[i] = job_of(keys[i], keys[i]);
    list[i] = &jobs[i];
  }
  assert_int_equal(store->job_insert_all(store->ctx, list, JOBS, ids, existed, statuses, NULL), TP_OK);
  for (int i = 0; i < JOBS; i++) {
    assert_int_equal(statuses[i], TP_OK);
    assert_int_equal(existed[i], i > 1);
    assert_int_equal(ids[i], ids[keys[i][0] == 'o']);
  }
  assert_true(ids[0] != ids[1] && open_jobs(store, "") == 2);
  tp_store_free(store);
}

static bool accept_h(void *ctx, const tp_job *job) {
  (void)ctx;
  return tp_text_equal(job->handler, tp_text_of("h"));
}

TEST(one_call_claims_of_the_handlers_that_the_filter_accepts) {
  tp_store *store = open_store(0);
  claimed_all all;
  const char *const handlers[] = {"g", "h", "i", "h"};
  for (int i = 0; i < 4; i++) {
    const char key[] = {'k', (char)('0' + i), '\0'};
    tp_job job = job_of(key, key);
    uint64_t id;
    bool existed;
    job.handler = tp_text_of(handlers[i]);
    assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  }
  assert_int_equal(claim_all(store, BATCH, accept_h, &all), TP_OK);
  assert_int_equal(all.count, 2);
  assert_string_equal(all.items[0].key, "k1");
  assert_string_equal(all.items[1].key, "k3");
  assert_int_equal(claim_all(store, BATCH, NULL, &all), TP_OK);
  assert_int_equal(all.count, 2);
  assert_string_equal(all.items[0].key, "k0");
  assert_string_equal(all.items[1].key, "k2");
  tp_store_free(store);
}

TEST(claims_that_end_together_have_an_answer_each) {
  tp_store *store = open_store(0);
  static const uint32_t ends[] = {TP_JOB_END_SUCCEEDED, TP_JOB_END_FAILED, TP_JOB_END_RETRY, TP_JOB_END_RELEASED};
  static const uint32_t became[] = {TP_JOB_SUCCEEDED, TP_JOB_DEAD, TP_JOB_QUEUED, TP_JOB_QUEUED};
  enum { ENDS = 4, STALE = ENDS, UNKNOWN, ALL };
  claimed_all all;
  tp_job_finish requests[ALL];
  const tp_job_finish *list[ALL];
  uint32_t states[ALL];
  tp_status statuses[ALL];
  tp_fault fault = {0};
  const char *const keys[] = {"a", "b", "c", "d", "e"};
  for (int i = 0; i < 5; i++) insert(store, keys[i], keys[i], false);
  assert_int_equal(claim_all(store, BATCH, accept, &all), TP_OK);
  assert_int_equal(all.count, 5);
  for (int i = 0; i < ALL; i++) {
    const claimed *c = &all.items[i < 5 ? i : 4];
    requests[i] = (tp_job_finish){.struct_size = sizeof requests[i],
                                  .id = c->id + (i == UNKNOWN ? 1000 : 0),
                                  .claim = c->claim + (i == STALE ? 1000 : 0),
                                  .now_ms = 2,
                                  .retry_at_ms = 2,
                                  .end = i < ENDS ? ends[i] : TP_JOB_END_SUCCEEDED};
    list[i] = &requests[i];
  }
  requests[ALL - 1].end = 9; /* then none is ended */
  assert_int_equal(store->job_finish_all(store->ctx, list, ALL, states, statuses, &fault), TP_ERR_USAGE);
  assert_int_equal(open_jobs(store, ""), 5);
  requests[ALL - 1].end = TP_JOB_END_SUCCEEDED;
  assert_int_equal(store->job_finish_all(store->ctx, list, ALL, states, statuses, &fault), TP_OK);
  for (int i = 0; i < ENDS; i++) {
    assert_int_equal(statuses[i], TP_OK);
    assert_int_equal(states[i], became[i]);
  }
  assert_int_equal(statuses[STALE], TP_ERR_STALE);
  assert_int_equal(statuses[UNKNOWN], TP_ERR_NOT_FOUND);
  assert_int_equal(open_jobs(store, ""), 3);
  assert_int_equal(finish_to(store, &all.items[4], TP_JOB_END_SUCCEEDED, 0, TP_JOB_SUCCEEDED), TP_OK);
  tp_store_free(store);
}

/* Between two claims the wall clock is set. The lease does not change: its holder renews it (runtime/exec/jobs.c). */
TEST(clock_that_is_set_back_leaves_no_job_beyond_the_longest_pause) {
  enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };
  static const int64_t day = 24 * (int64_t)HOUR, now = 400 * (int64_t)24 * HOUR;
  static const struct {
    int64_t pause, back;
    bool is_due;
  } rows[] = {{30 * SECOND, 0, false},
              {30 * SECOND, SECOND, false},
              {30 * SECOND, 29 * SECOND, false},
              {30 * SECOND, 31 * SECOND, true},
              {MINUTE, SECOND, true},
              {200, MINUTE, true},
              {200, 50 * SECOND, false},
              {200, HOUR, true},
              {MINUTE, day, true},
              {30 * SECOND, 365 * day, true},
              {0, day, true},
              {MINUTE, -day, true}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_store *store = open_store(0);
    claimed c, running;
    int64_t next;
    (void)insert(store, "waits", "o1", false);
    assert_int_equal(claim(store, now, &c, &next), TP_OK);
    if (rows[i].back >= 0) { /* ahead, its lease would be over */
      (void)insert(store, "runs", "o2", false);
      assert_int_equal(claim(store, now, &running, &next), TP_OK);
    }
    assert_int_equal(finish_to(store, &c, TP_JOB_END_RETRY, now + rows[i].pause, TP_JOB_QUEUED), TP_OK);
    assert_int_equal(claim(store, now - rows[i].back, &c, &next), rows[i].is_due ? TP_OK : TP_ERR_NOT_FOUND);
    if (rows[i].is_due) assert_string_equal(c.key, "waits");
    else assert_int_equal(claim(store, now + rows[i].pause, &c, &next), TP_OK);
    tp_store_free(store);
  }
}

TEST(lease_that_ran_out_is_claimed_again_and_the_old_claim_is_stale) {
  tp_store *store = open_store(0);
  insert(store, "k", "o", false);
  claimed first, second;
  int64_t next;
  assert_int_equal(claim(store, 1000, &first, &next), TP_OK);
  assert_int_equal(claim(store, 1999, &second, &next), TP_ERR_NOT_FOUND);
  assert_int_equal(next, 2000);
  assert_int_equal(claim(store, 2000, &second, &next), TP_OK);
  assert_int_equal(second.id, first.id);
  assert_int_equal(second.attempt, 2);
  assert_int_equal(finish(store, first.id, first.claim, TP_JOB_END_SUCCEEDED, 0), TP_ERR_STALE);
  assert_int_equal(finish(store, second.id, second.claim, TP_JOB_END_SUCCEEDED, 0), TP_OK);
  assert_int_equal(finish(store, second.id, second.claim, TP_JOB_END_SUCCEEDED, 0), TP_ERR_NOT_FOUND);
  tp_store_free(store);
}

static tp_status renew(tp_store *store, uint64_t id, uint64_t token, int64_t now_ms) {
  tp_job_renew request = {.struct_size = sizeof request, .id = id, .claim = token, .now_ms = now_ms, .lease_ms = 1000};
  return store->job_renew(store->ctx, &request, NULL);
}

TEST(renewed_lease_ends_later_and_only_the_current_claim_renews) {
  tp_store *store = open_store(0);
  uint64_t id = insert(store, "k", "o", false);
  claimed first, second;
  int64_t next;
  assert_int_not_equal(renew(store, id, 0, 1000), TP_OK); /* it is not claimed */
  assert_int_equal(claim(store, 1000, &first, &next), TP_OK);
  assert_int_equal(renew(store, id, first.claim, 1900), TP_OK);
  assert_int_equal(renew(store, id, first.claim + 1, 5000), TP_ERR_STALE);
  assert_int_equal(claim(store, 2899, &second, &next), TP_ERR_NOT_FOUND);
  assert_int_equal(next, 2900);
  assert_int_equal(renew(store, id, first.claim, 4000), TP_OK); /* late, and no worker has it yet */
  assert_int_equal(claim(store, 4999, &second, &next), TP_ERR_NOT_FOUND);
  assert_int_equal(claim(store, 5000, &second, &next), TP_OK);
  assert_int_equal(renew(store, id, first.claim, 5001), TP_ERR_STALE);
  assert_int_equal(renew(store, id, second.claim, 5001), TP_OK);
  assert_int_equal(finish(store, id, second.claim, TP_JOB_END_SUCCEEDED, 0), TP_OK);
  assert_int_not_equal(renew(store, id, second.claim, 5002), TP_OK);
  tp_job_renew wrong = {.struct_size = 0};
  assert_int_equal(store->job_renew(store->ctx, &wrong, NULL), TP_ERR_VERSION);
  tp_store_free(store);
}

TEST(lease_of_the_last_attempt_that_ran_out_leaves_a_dead_letter) {
  tp_store *store = open_store(0);
  insert(store, "k", "o", false);
  insert(store, "behind", "o", false);
  claimed c;
  int64_t next;
  assert_int_equal(claim(store, 1000, &c, &next), TP_OK);
  assert_int_equal(claim(store, 3000, &c, &next), TP_OK);
  assert_int_equal(c.attempt, 2);
  assert_int_equal(claim(store, 9000, &c, &next), TP_OK); /* the queue goes on */
  assert_string_equal(c.key, "behind");
  assert_int_equal(open_jobs(store, "o"), 1);
  tp_store_free(store);
}

TEST(job_that_no_process_can_run_stays) {
  tp_store *store = open_store(0);
  insert(store, "k", "o", false);
  claimed c;
  int64_t next;
  assert_int_equal(claim_with(store, refuse, 1, &c, &next), TP_ERR_NOT_FOUND);
  assert_int_equal(c.count, 0);
  assert_int_equal(open_jobs(store, "o"), 1);
  assert_int_equal(open_jobs(store, "other"), 0);
  tp_store_free(store);
}

/* ---- what operators see and do ---- */

typedef struct job_list {
  size_t count, stop_at;
  uint64_t ids[16];
  tp_job first; /* its texts are not looked at */
  char payload[8], message[8];
  tp_store *store; /* not NULL: discard each from inside the list */
} job_list;

static bool keep_job(void *ctx, const tp_job *job) {
  job_list *l = ctx;
  if (l->count == 0) {
    l->first = *job;
    snprintf(l->payload, sizeof l->payload, "%.*s", (int)job->payload.size, job->payload.data);
    snprintf(l->message, sizeof l->message, "%.*s", (int)job->message.size, job->message.data);
  }
  l->ids[l->count++ % COUNT(l->ids)] = job->id;
  if (l->store) (void)!l->store->job_discard(l->store->ctx, job->id, 1, NULL);
  return l->count != l->stop_at;
}

static job_list list_jobs(tp_store *store, const tp_job_query *query) {
  job_list l = {.count = 0};
  tp_job_query ours = *query;
  ours.struct_size = sizeof ours;
  assert_int_equal(store->jobs(store->ctx, &ours, keep_job, &l, NULL), TP_OK);
  return l;
}

TEST(jobs_are_listed_by_id_and_filter_without_their_content) {
  tp_store *store = open_store(0);
  uint64_t ids[4];
  const char *const keys[] = {"a", "b", "c", "d"}, *const orders[] = {"x", "y", "x", "y"};
  for (int i = 0; i < 4; i++) ids[i] = insert(store, keys[i], orders[i], false);
  claimed c;
  int64_t next;
  assert_int_equal(claim(store, 1, &c, &next), TP_OK);
  assert_int_equal(finish_to(store, &c, TP_JOB_END_SUCCEEDED, 0, TP_JOB_SUCCEEDED), TP_OK);
  job_list open = list_jobs(store, &(tp_job_query){0});
  assert_int_equal(open.count, 3);
  for (int i = 0; i < 3; i++) assert_int_equal(open.ids[i], ids[i + 1]);
  assert_int_equal(open.first.struct_size, sizeof open.first);
  assert_string_equal(open.payload, "");
  assert_int_equal(list_jobs(store, &(tp_job_query){.order_key = TEXT("y")}).count, 2);
  assert_int_equal(list_jobs(store, &(tp_job_query){.handler = TEXT("nobody")}).count, 0);
  assert_int_equal(list_jobs(store, &(tp_job_query){.after_id = ids[1]}).ids[0], ids[2]);
  assert_int_equal(list_jobs(store, &(tp_job_query){.limit = 1}).count, 1);
  job_list ended = list_jobs(store, &(tp_job_query){.states = 1u << TP_JOB_SUCCEEDED, .with_payload = 1});
  assert_int_equal(ended.count, 1);
  assert_int_equal(ended.ids[0], ids[0]);
  assert_string_equal(ended.payload, ""); /* it is gone */
  job_list one = list_jobs(store, &(tp_job_query){.id = ids[1], .with_payload = 1});
  assert_int_equal(one.count, 1);
  assert_string_equal(one.payload, "\x80");
  assert_int_equal(one.first.state, TP_JOB_QUEUED);
  assert_int_equal(one.first.attempts_max, 2);
  job_list wrong = {.count = 0};
  assert_int_equal(store->jobs(store->ctx, &(tp_job_query){0}, keep_job, &wrong, NULL), TP_ERR_VERSION);
  tp_store_free(store);
}

TEST(list_may_be_meddled_with_from_inside) {
  tp_store *store = open_store(0);
  const char *const keys[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++) insert(store, keys[i], keys[i], false);
  job_list all = {.store = store};
  assert_int_equal(store->jobs(store->ctx, &(tp_job_query){.struct_size = sizeof(tp_job_query)}, keep_job, &all, NULL),
                   TP_OK);
  assert_int_equal(all.count, 3);
  assert_int_equal(open_jobs(store, ""), 0);
  tp_store_free(store);
}

TEST(dead_letter_keeps_its_content_and_is_redriven_or_discarded) {
  tp_store *store = open_store(0);
  uint64_t id = insert(store, "k", "o", false);
  claimed c;
  int64_t next;
  assert_int_equal(store->job_redrive(store->ctx, id, 1, NULL), TP_ERR_NOT_FOUND); /* it is open */
  assert_int_equal(claim(store, 1, &c, &next), TP_OK);
  assert_int_equal(store->job_discard(store->ctx, id, 1, NULL), TP_ERR_BUSY);
  assert_int_equal(finish_to(store, &c, TP_JOB_END_FAILED, 0, TP_JOB_DEAD), TP_OK);
  assert_int_equal(open_jobs(store, ""), 0);
  assert_int_equal(claim(store, 9000, &c, &next), TP_ERR_NOT_FOUND);
  job_list dead = list_jobs(store, &(tp_job_query){.states = 1u << TP_JOB_DEAD, .with_payload = 1});
  assert_int_equal(dead.count, 1);
  assert_int_equal(dead.first.reason, TP_REASON_ERROR);
  assert_int_equal(dead.first.code, 7);
  assert_int_equal(dead.first.attempt, 1);
  assert_int_equal(dead.first.ended_ms, 5);
  assert_string_equal(dead.payload, "\x80");
  assert_string_equal(dead.message, "why");
  assert_int_equal(store->job_redrive(store->ctx, id, 10, NULL), TP_OK);
  assert_int_equal(open_jobs(store, "o"), 1);
  assert_int_equal(claim(store, 10, &c, &next), TP_OK);
  assert_int_equal(c.attempt, 1); /* all of them are before it again */
  assert_string_equal(c.payload, "\x80");
  assert_int_equal(finish_to(store, &c, TP_JOB_END_FAILED, 0, TP_JOB_DEAD), TP_OK);
  assert_int_equal(store->job_discard(store->ctx, id, 11, NULL), TP_OK);
  assert_int_equal(store->job_discard(store->ctx, id, 11, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(store->job_redrive(store->ctx, id, 11, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(insert(store, "k", "o", true), id); /* its key stays known */
  tp_store_free(store);
}

TEST(dead_letter_that_is_redriven_comes_after_the_open_jobs_of_its_key) {
  static const char *const order[] = {"a2", "a3", "a1", "a4"};
  tp_store *store = open_store(0);
  uint64_t id = insert(store, "a1", "a", false);
  claimed c;
  int64_t next;
  assert_int_equal(claim(store, 1, &c, &next), TP_OK);
  assert_int_equal(finish_to(store, &c, TP_JOB_END_FAILED, 0, TP_JOB_DEAD), TP_OK);
  insert(store, "a2", "a", false);
  insert(store, "a3", "a", false);
  assert_int_equal(store->job_redrive(store->ctx, id, 1, NULL), TP_OK);
  insert(store, "a4", "a", false);
  for (size_t i = 0; i < COUNT(order); i++) {
    assert_int_equal(claim(store, 1, &c, &next), TP_OK);
    assert_string_equal(c.key, order[i]);
    assert_int_equal(finish_to(store, &c, TP_JOB_END_SUCCEEDED, 0, TP_JOB_SUCCEEDED), TP_OK);
  }
  tp_store_free(store);
}

TEST(discarded_job_gives_way_to_the_next_of_its_key) {
  tp_store *store = open_store(0);
  uint64_t first = insert(store, "a1", "a", false);
  insert(store, "a2", "a", false);
  assert_int_equal(store->job_discard(store->ctx, first, 1, NULL), TP_OK);
  claimed c;
  int64_t next;
  assert_int_equal(claim(store, 1, &c, &next), TP_OK);
  assert_string_equal(c.key, "a2");
  tp_store_free(store);
}

TEST(released_attempt_does_not_count) {
  tp_store *store = open_store(0);
  insert(store, "k", "o", false);
  claimed c;
  int64_t next;
  for (int i = 0; i < 5; i++) {
    assert_int_equal(claim(store, 100 * i, &c, &next), TP_OK);
    assert_int_equal(c.attempt, 1);
    assert_int_equal(finish_to(store, &c, TP_JOB_END_RELEASED, 100 * i + 50, TP_JOB_QUEUED), TP_OK);
    assert_int_equal(claim(store, 100 * i + 49, &c, &next), TP_ERR_NOT_FOUND);
    assert_int_equal(next, 100 * i + 50);
  }
  tp_store_free(store);
}

static int64_t postponed_ms(tp_store *store, uint32_t state) {
  job_list all = list_jobs(store, &(tp_job_query){.states = 1u << state});
  assert_int_equal(all.count, 1);
  return all.first.postponed_ms;
}

static tp_status postpone(tp_store *store, const claimed *c, tp_job_end end, int64_t ms) {
  uint32_t state;
  tp_job_finish request = {.struct_size = sizeof request,
                           .id = c->id,
                           .claim = c->claim,
                           .end = end,
                           .reason = TP_REASON_POSTPONED,
                           .postponed_ms = ms};
  return store->job_finish(store->ctx, &request, &state, NULL);
}

TEST(time_for_which_a_job_was_postponed_is_kept_until_it_is_redriven) {
  tp_store *store = open_store(0);
  uint64_t id = insert(store, "k", "o", false);
  claimed c;
  int64_t next;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(postponed_ms(store, TP_JOB_QUEUED), 200 * i);
    assert_int_equal(claim(store, 100, &c, &next), TP_OK);
    assert_int_equal(c.attempt, 1);
    assert_int_equal(postpone(store, &c, TP_JOB_END_RELEASED, 200 * (i + 1)), TP_OK);
  }
  assert_int_equal(claim(store, 100, &c, &next), TP_OK);
  assert_int_equal(postponed_ms(store, TP_JOB_RUNNING), 600);
  assert_int_equal(postpone(store, &c, TP_JOB_END_RETRY, 700), TP_OK); /* of a job with two attempts */
  assert_int_equal(postponed_ms(store, TP_JOB_QUEUED), 700);
  assert_int_equal(claim(store, 100, &c, &next), TP_OK);
  assert_int_equal(postpone(store, &c, TP_JOB_END_RETRY, 800), TP_OK);
  assert_int_equal(open_jobs(store, ""), 0);
  assert_int_equal(store->job_redrive(store->ctx, id, 1, NULL), TP_OK);
  assert_int_equal(postponed_ms(store, TP_JOB_QUEUED), 0);
  tp_store_free(store);
}

typedef struct losing {
  claimed claimed; /* first: what take() fills */
  int dead;
  uint64_t dead_id;
  uint32_t state, reason;
} losing;

static void note_dead(void *ctx, const tp_job *job) {
  losing *l = ctx;
  l->dead++;
  l->dead_id = job->id;
  l->state = job->state;
  l->reason = job->reason;
}

TEST(job_whose_last_lease_ran_out_is_reported) {
  tp_store *store = open_store(0);
  uint64_t id = insert(store, "k", "o", false);
  claimed c;
  int64_t next;
  for (int i = 0; i < 2; i++) assert_int_equal(claim(store, 10000 * i, &c, &next), TP_OK);
  losing l = {.dead = 0};
  tp_job_claim request = {
      .struct_size = sizeof request, .now_ms = 90000, .lease_ms = 1000, .take = take, .dead = note_dead, .ctx = &l};
  assert_int_equal(store->job_claim(store->ctx, &request, &next, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(l.dead, 1);
  assert_int_equal(l.dead_id, id);
  assert_int_equal(l.state, TP_JOB_DEAD);
  assert_int_equal(l.reason, TP_REASON_TIMEOUT);
  assert_int_equal(store->job_claim(store->ctx, &request, &next, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(l.dead, 1);
  tp_store_free(store);
}

static int asked;
static bool accept_only_other(void *ctx, const tp_job *job) {
  (void)ctx;
  asked++;
  return job->handler.size == 5;
}

TEST(filter_is_asked_once_for_each_handler) {
  tp_store *store = open_store(0);
  char key[16];
  for (int i = 0; i < 200; i++) {
    snprintf(key, sizeof key, "k%d", i);
    insert(store, key, key, false);
  }
  tp_job job = job_of("other", "other");
  job.handler = (tp_text)TEXT("other");
  uint64_t id;
  bool existed;
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  claimed c;
  int64_t next;
  asked = 0;
  assert_int_equal(claim_with(store, accept_only_other, 1, &c, &next), TP_OK);
  assert_string_equal(c.key, "other");
  assert_int_equal(asked, 2);
  tp_store_free(store);
}

/* What claims and inserts cost does not depend on how many jobs there are. */
TEST(many_jobs_are_inserted_and_run_in_order) {
  enum { ORDERS = 100 };
  const int jobs = test_rounds(strcmp(kind->name, "postgres") == 0 ? 400 : 20000); /* a round trip takes longer */
  tp_store *store = open_store(0);
  char key[32], order[32];
  for (int i = 0; i < jobs; i++) {
    snprintf(key, sizeof key, "k%d", i);
    snprintf(order, sizeof order, "o%d", i % ORDERS);
    insert(store, key, order, false);
  }
  claimed c;
  int64_t next;
  uint64_t last_of[ORDERS] = {0};
  for (int i = 0; i < jobs; i++) {
    assert_int_equal(claim(store, i, &c, &next), TP_OK);
    int number = atoi(c.key + 1);
    assert_true(c.id > last_of[number % ORDERS]);
    last_of[number % ORDERS] = c.id;
    tp_job_end end = i % 3 == 0 ? TP_JOB_END_FAILED : TP_JOB_END_SUCCEEDED;
    assert_int_equal(finish(store, c.id, c.claim, end, 0), TP_OK);
  }
  assert_int_equal(open_jobs(store, ""), 0);
  tp_store_free(store);
}

typedef struct inserter {
  tp_store *store;
  _Atomic int *new_ones;
} inserter;

static void *insert_many(void *arg) {
  inserter *in = arg;
  for (int i = 0; i < 25; i++) {
    tp_job job = job_of("the same", "o");
    uint64_t id;
    bool existed = true;
    if (in->store->job_insert(in->store->ctx, &job, &id, &existed, NULL) == TP_OK && !existed) ++*in->new_ones;
  }
  return NULL;
}

TEST(one_key_inserted_a_hundred_times_in_parallel_is_one_job) {
  tp_store *store = open_store(0);
  _Atomic int new_ones = 0;
  inserter in = {store, &new_ones};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, insert_many, &in);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(new_ones, 1);
  assert_int_equal(open_jobs(store, ""), 1);
  tp_store_free(store);
}

/* ---- the memory history ---- */

static tp_status count_message(void *ctx, const tp_message *message) {
  (void)message;
  return ++*(int *)ctx == 3 ? TP_ERR_TOO_LARGE : TP_OK;
}

static tp_status load(tp_history *history, const char *tenant, const char *session, int *count) {
  tp_history_load request = {.struct_size = sizeof request,
                             .tenant = tp_text_of(tenant),
                             .session = tp_text_of(session),
                             .each = count_message,
                             .ctx = count};
  return history->load(history->ctx, &request, NULL);
}

static tp_status append_two(tp_history *history, const char *tenant, const char *session) {
  static const tp_message a = {.role = TP_ROLE_USER, .text = TEXT("a")},
                          b = {.role = TP_ROLE_ASSISTANT, .text = TEXT("b")};
  const tp_message *const two[] = {&a, &b};
  tp_history_append request = {.struct_size = sizeof request,
                               .tenant = tp_text_of(tenant),
                               .session = tp_text_of(session),
                               .messages = two,
                               .message_count = 2};
  return history->append(history->ctx, &request, NULL);
}

TEST(history_is_kept_apart_by_tenant_and_session) {
  tp_history *history;
  assert_int_equal(tp_history_memory_new(NULL, &history, NULL), TP_OK);
  assert_int_equal(append_two(history, "t1", "s"), TP_OK);
  int count = 0;
  assert_int_equal(load(history, "t2", "s", &count), TP_OK);
  assert_int_equal(count, 0);
  assert_int_equal(load(history, "t", "1s", &count), TP_OK);
  assert_int_equal(count, 0);
  assert_int_equal(load(history, "t1", "s", &count), TP_OK);
  assert_int_equal(count, 2);
  assert_int_equal(append_two(history, "t1", "s"), TP_OK);
  count = 0;
  assert_int_equal(load(history, "t1", "s", &count), TP_ERR_TOO_LARGE); /* the callback's own */
  assert_int_equal(count, 3);
  tp_history_free(history);
}

/* ---- audit rows ---- */

typedef struct audit_listing {
  int64_t times[16];
  size_t count, stop_at;
  int bad;
} audit_listing;

static void put_audit(tp_store *store, int64_t unix_ms) {
  char owner[16] = "owner", detail[16];
  snprintf(detail, sizeof detail, "detail %d", (int)unix_ms);
  tp_audit row = {.struct_size = sizeof row,
                  .unix_ms = unix_ms,
                  .owner = owner,
                  .action = "denial",
                  .detail = detail,
                  .status = TP_ERR_DENIED,
                  .phase = (uint32_t)(unix_ms % 3),
                  .snapshot_hash = UINT64_MAX,
                  .subscription = unix_ms % 2 ? "sub" : NULL,
                  .turn = "t",
                  .duration_ns = 5,
                  .state = TP_STATE_FAILED,
                  .reason = TP_REASON_ERROR,
                  .visibility = TP_VISIBILITY_DEBUG};
  assert_int_equal(store->audit(store->ctx, &row), TP_OK);
  memset(owner, 'x', sizeof owner);
  memset(detail, 'x', sizeof detail);
}

static bool list_audit(void *ctx, const tp_audit *row) {
  audit_listing *l = ctx;
  char detail[16];
  snprintf(detail, sizeof detail, "detail %d", (int)row->unix_ms);
  if (row->struct_size != sizeof *row || strcmp(row->owner, "owner") != 0 || strcmp(row->action, "denial") != 0 ||
      strcmp(row->detail, detail) != 0 || strcmp(row->turn, "t") != 0 || row->status != TP_ERR_DENIED ||
      row->snapshot_hash != UINT64_MAX || row->duration_ns != 5 || row->state != TP_STATE_FAILED ||
      row->reason != TP_REASON_ERROR || row->visibility != TP_VISIBILITY_DEBUG ||
      row->phase != (uint32_t)(row->unix_ms % 3) || (row->subscription != NULL) != (row->unix_ms % 2 != 0))
    l->bad++;
  l->times[l->count++] = row->unix_ms;
  return l->count != l->stop_at;
}

static audit_listing read_audits(tp_store *store, const tp_audit_query *query, size_t stop_at) {
  audit_listing l = {.stop_at = stop_at};
  assert_int_equal(store->audits(store->ctx, query, list_audit, &l, NULL), TP_OK);
  assert_int_equal(l.bad, 0);
  return l;
}

TEST(audit_rows_are_kept_whole_and_read_newest_first) {
  tp_store *store = open_store(64);
  assert_int_equal(store->audit != NULL, store->audits != NULL); /* a store that keeps them shows them */
  if (!store->audits) {
    tp_store_free(store);
    return;
  }
  tp_audit_query query = {.struct_size = sizeof query};
  assert_int_equal(read_audits(store, &query, 0).count, 0);
  for (int64_t t = 1; t <= 9; t++) put_audit(store, t);
  audit_listing all = read_audits(store, &query, 0);
  assert_int_equal(all.count, 9);
  for (size_t i = 0; i < 9; i++) assert_int_equal(all.times[i], 9 - i);
  assert_int_equal(read_audits(store, NULL, 0).count, 9);
  assert_int_equal(read_audits(store, &query, 2).count, 2);
  query = (tp_audit_query){.struct_size = sizeof query, .from_unix_ms = 3, .to_unix_ms = 8, .phase = 1, .limit = 1};
  audit_listing some = read_audits(store, &query, 0);
  assert_int_equal(some.count, 1);
  assert_int_equal(some.times[0], 7);
  tp_store_free(store);
}

/* ---- durable stores ---- */

static bool run_of_state(const void *source, size_t index, tp_run_record *record) {
  *record = (tp_run_record){.struct_size = sizeof *record,
                            .subscription = "sub",
                            .handler = "h",
                            .owner = "o",
                            .state = *(const uint8_t *)source,
                            .visibility = TP_VISIBILITY_USER_AUDIT,
                            .queued_ns = (int64_t)index};
  return true;
}

static void put_state(tp_store *store, uint64_t id, uint8_t state, int64_t ended_ns, size_t runs) {
  tp_entry_record record = {.struct_size = sizeof record,
                            .process_run_id = UINT64_MAX,
                            .entry_id = id,
                            .started_ns = 1,
                            .ended_ns = ended_ns,
                            .run_count = runs,
                            .run = run_of_state,
                            .source = &state};
  assert_int_equal(store->record(store->ctx, &record), TP_OK);
}

/* ---- turns that run ---- */

/* The turn with number n has n % 3 steps that have ended, and an open one. */
static bool running_step(const void *source, size_t index, tp_turn_step *step) {
  uint64_t ended = *(const uint64_t *)source % 3;
  if (index > ended) return false;
  *step = (tp_turn_step){.struct_size = sizeof *step,
                         .started_ns = 10 + (int64_t)index,
                         .ended_ns = index < ended ? 20 : 0,
                         .kind = index < ended ? TP_STEP_TOOL : TP_STEP_MODEL,
                         .round = 1 + (uint32_t)index,
                         .name = tp_text_of(index < ended ? "tool" : "model"),
                         .entry_id = 70 + index};
  return true;
}

static tp_turn_record running_record(uint64_t number, int64_t noted_ms, const tp_text *ids) {
  return (tp_turn_record){.struct_size = sizeof(tp_turn_record),
                          .process_run_id = RUN_ID,
                          .number = number,
                          .ids = ids,
                          .id_count = TP_ID_COUNT,
                          .started_ns = 5,
                          .ended_ns = noted_ms * TP_MS,
                          .started_unix_ms = WALL_MS,
                          .ended_unix_ms = WALL_MS + noted_ms,
                          .iterations = (uint32_t)noted_ms,
                          .step_count = number % 3 + 1,
                          .step = running_step,
                          .step_source = &number,
                          .parent_turn = TEXT("parent"),
                          .state = TP_STATE_RUNNING};
}

static void note_running(tp_store *store, uint64_t number, int64_t noted_ms) {
  char turn[32];
  snprintf(turn, sizeof turn, "turn-%llu", (unsigned long long)number);
  const tp_text ids[TP_ID_COUNT] = {
      [TP_ID_TURN] = tp_text_of(turn), [TP_ID_SESSION] = TEXT("s"), [TP_ID_TENANT] = TEXT("t")};
  tp_turn_record record = running_record(number, noted_ms, ids);
  record.step_source = &number;
  assert_int_equal(store->turn_running(store->ctx, &record), TP_OK);
  memset(turn, 'x', sizeof turn);
}

static void end_running(tp_store *store, uint64_t process, uint64_t number) {
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = TEXT("ended")};
  const tp_turn_record record = {.struct_size = sizeof record,
                                 .process_run_id = process,
                                 .number = 900 + number,
                                 .ids = ids,
                                 .id_count = TP_ID_COUNT,
                                 .outcome = 1,
                                 .running_number = number};
  assert_int_equal(store->turn_record(store->ctx, &record), TP_OK);
}

static bool list_running(void *ctx, const tp_turn_record *record) {
  listing *l = ctx;
  char want[32];
  tp_turn_step step = {.struct_size = sizeof step};
  size_t last = record->number % 3;
  snprintf(want, sizeof want, "turn-%llu", (unsigned long long)record->number);
  l->bad += record->struct_size != sizeof *record || record->state != TP_STATE_RUNNING || record->outcome != 0 ||
            record->process_run_id != RUN_ID || record->started_ns != 5 || record->step_count != last + 1 ||
            record->ended_unix_ms != WALL_MS + record->iterations || record->started_unix_ms != WALL_MS ||
            !tp_text_is(record->ids[TP_ID_TURN], want) || !tp_text_is(record->ids[TP_ID_TENANT], "t") ||
            !tp_text_is(record->parent_turn, "parent");
  l->bad += !record->step(record->step_source, last, &step) || step.ended_ns != 0 || step.kind != TP_STEP_MODEL ||
            step.round != last + 1 || !tp_text_is(step.name, "model") || step.entry_id != 70 + last;
  l->bad += last > 0 && (!record->step(record->step_source, 0, &step) || step.ended_ns != 20);
  l->bad += record->step(record->step_source, last + 1, &step);
  l->ids[l->count++] = record->number * 1000 + record->iterations;
  return l->count != l->stop_at;
}

static listing read_running(tp_store *store, const tp_turn_query *query, size_t stop_at) {
  listing l = {.stop_at = stop_at};
  assert_int_equal(store->turns_running(store->ctx, query, list_running, &l, NULL), TP_OK);
  assert_int_equal(l.bad, 0);
  return l;
}

static void assert_running(tp_store *store, const tp_turn_query *query, const uint64_t *want, size_t count) {
  listing l = read_running(store, query, 0);
  assert_int_equal(l.count, count);
  for (size_t i = 0; i < count; i++) assert_int_equal(l.ids[i], want[i]);
}
#define ASSERT_RUNNING(store, query, ...) \
  assert_running(store, query, (uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

TEST(turn_that_runs_has_its_newest_record_until_it_ends) {
  tp_store *store = open_store(64);
  tp_turn_query all = {.struct_size = sizeof all};
  assert_int_equal(read_running(store, &all, 0).count, 0);
  for (uint64_t n = 1; n <= 4; n++) note_running(store, n, (int64_t)n);
  ASSERT_RUNNING(store, &all, 4004, 3003, 2002, 1001);
  note_running(store, 2, 9);
  note_running(store, 2, 10);
  ASSERT_RUNNING(store, &all, 2010, 4004, 3003, 1001);
  assert_int_equal(read_turns(store, &all, 0).count, 0); /* none has ended */
  end_running(store, RUN_ID, 4);
  end_running(store, RUN_ID, 0);     /* it had no record while it ran */
  end_running(store, RUN_ID + 1, 1); /* of another process */
  ASSERT_RUNNING(store, &all, 2010, 3003, 1001);
  tp_store_free(store);
}

TEST(turns_that_run_are_read_by_what_they_are) {
  tp_store *store = open_store(64);
  for (uint64_t n = 1; n <= 6; n++) note_running(store, n, (int64_t)n);
  tp_text turn[TP_ID_COUNT] = {[TP_ID_TURN] = TEXT("turn-3")}, other[TP_ID_COUNT] = {[TP_ID_SESSION] = TEXT("x")};
  tp_text all_of[TP_ID_COUNT] = {[TP_ID_SESSION] = TEXT("s"), [TP_ID_TENANT] = TEXT("t")};
  tp_turn_query by_turn = {.struct_size = sizeof by_turn, .ids = turn, .id_count = TP_ID_COUNT};
  ASSERT_RUNNING(store, &by_turn, 3003);
  tp_turn_query by_other = {.struct_size = sizeof by_other, .ids = other, .id_count = TP_ID_COUNT};
  assert_int_equal(read_running(store, &by_other, 0).count, 0);
  tp_turn_query page = {.struct_size = sizeof page, .ids = all_of, .id_count = TP_ID_COUNT, .limit = 2};
  ASSERT_RUNNING(store, &page, 6006, 5005);
  page.before_process_run_id = RUN_ID;
  page.before_number = 5;
  ASSERT_RUNNING(store, &page, 4004, 3003);
  page.before_number = 77; /* it has ended meanwhile */
  assert_int_equal(read_running(store, &page, 0).count, 0);
  tp_turn_query by_time = {
      .struct_size = sizeof by_time, .from_unix_ms = WALL_MS + 2, .to_unix_ms = WALL_MS + 4, .only_failed = 1};
  ASSERT_RUNNING(store, &by_time, 4004, 3003, 2002);
  by_time.to_unix_ms = 0;
  ASSERT_RUNNING(store, &by_time, 6006, 5005, 4004, 3003, 2002);
  assert_int_equal(read_running(store, &by_time, 3).count, 3);
  listing l = {.count = 0};
  assert_int_equal(store->turns_running(store->ctx, &(tp_turn_query){0}, list_running, &l, NULL), TP_ERR_VERSION);
  assert_int_equal(store->turn_running(store->ctx, &(tp_turn_record){0}), TP_ERR_VERSION);
  tp_store_free(store);
}

TEST(turns_that_run_stay_when_a_durable_store_is_opened_again) {
  if (!kind->reopen) return;
  tp_store *store = open_store(64);
  note_running(store, 1, 1);
  note_running(store, 2, 2);
  end_running(store, RUN_ID, 1);
  tp_store_free(store);
  store = reopen_store(64);
  tp_turn_query all = {.struct_size = sizeof all};
  ASSERT_RUNNING(store, &all, 2002);
  if (is_of_sqlite()) assert_int_equal(tp_sqlite_store_verify(store, NULL, NULL, NULL), TP_OK);
  tp_store_free(store);
}

typedef struct last_entry {
  size_t count, runs;
  int64_t ended_ns;
  uint8_t state, visibility;
} last_entry;

static bool note_entry(void *ctx, const tp_entry_record *record) {
  last_entry *e = ctx;
  tp_run_record run = {.struct_size = sizeof run};
  e->count++;
  e->runs = record->run_count;
  e->ended_ns = record->ended_ns;
  if (!record->run(record->source, 0, &run)) return false;
  e->state = run.state;
  e->visibility = run.visibility;
  return true;
}

static last_entry read_entries(tp_store *store) {
  last_entry e = {.count = 0};
  tp_record_query query = {.struct_size = sizeof query};
  assert_int_equal(store->records(store->ctx, &query, note_entry, &e, NULL), TP_OK);
  return e;
}

TEST(record_of_an_entry_that_runs_is_replaced_by_that_of_its_end) {
  if (!kind->reopen) return;
  tp_store *store = open_store(64);
  put_state(store, 1, TP_STATE_RUNNING, 0, 1);
  last_entry e = read_entries(store);
  assert_int_equal(e.count, 1);
  assert_int_equal(e.ended_ns, 0);
  assert_int_equal(e.state, TP_STATE_RUNNING);
  put_state(store, 1, TP_STATE_SUCCEEDED, 9, 2);
  e = read_entries(store);
  assert_int_equal(e.count, 1);
  assert_int_equal(e.runs, 2);
  assert_int_equal(e.ended_ns, 9);
  assert_int_equal(e.state, TP_STATE_SUCCEEDED);
  assert_int_equal(e.visibility, TP_VISIBILITY_USER_AUDIT);
  put_state(store, 2, TP_STATE_SUCCEEDED, 9, 1);
  assert_int_equal(read_entries(store).count, 2);
  tp_store_free(store);
}

TEST(what_was_committed_is_there_when_the_store_is_opened_again) {
  if (!kind->reopen) return;
  tp_store *store = open_store(64);
  for (uint64_t i = 1; i <= 3; i++) {
    put_record(store, i, 2);
    put_turn(store, i, 1);
    put_audit(store, (int64_t)i);
  }
  assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
  tp_store_free(store);
  store = reopen_store(64);
  listing entries = {.count = 0};
  assert_int_equal(read_newest(store, 0, &entries), TP_OK);
  assert_int_equal(entries.count, 3);
  assert_int_equal(entries.bad, 0);
  assert_int_equal(read_audits(store, NULL, 0).count, 3);
  put_record(store, 4, 2);
  listing more = {.count = 0};
  assert_int_equal(read_newest(store, 0, &more), TP_OK);
  assert_int_equal(more.ids[0], 4);
  tp_store_free(store);
}

static int choose(void **state) {
  kind = *state;
  return 0;
}

/* ---- tasks: of stores that keep them ---- */

static tp_status put_task(tp_store *store, const char *key, const char *agent) {
  tp_task_record task = {.struct_size = sizeof task,
                         .created_unix_ms = WALL_MS,
                         .key = tp_text_of(key),
                         .tool = TEXT("deploy"),
                         .arguments = TEXT("\x81\xa1n\x07"),
                         .agent = tp_text_of(agent)};
  return store->task_put(store->ctx, &task, NULL);
}

static void note_task(void *ctx, const tp_task_record *task) {
  assert_int_equal(task->struct_size, sizeof *task);
  assert_int_equal(task->created_unix_ms, WALL_MS);
  assert_int_equal(task->arguments.size, 4);
  assert_memory_equal(task->arguments.data, "\x81\xa1n\x07", 4);
  snprintf(ctx, 64, "%.*s %.*s %.*s", (int)task->key.size, task->key.data, (int)task->tool.size, task->tool.data,
           (int)task->agent.size, task->agent.size ? task->agent.data : "");
}

static tp_status take_task(tp_store *store, const char *key, char ret_text[64]) {
  snprintf(ret_text, 64, "not called");
  return store->task_take(store->ctx, tp_text_of(key), note_task, ret_text, NULL);
}

static tp_status settle_task(tp_store *store, const char *key, bool stays) {
  return store->task_settle(store->ctx, tp_text_of(key), stays, NULL);
}

TEST(task_is_taken_once_until_it_is_settled) {
  char text[64];
  tp_store *store = open_store(0);
  if (is_durable_kind(store->task_put && store->task_take && store->task_settle)) {
    assert_int_equal(take_task(store, "one", text), TP_ERR_NOT_FOUND);
    assert_int_equal(settle_task(store, "one", true), TP_ERR_NOT_FOUND);
    assert_int_equal(settle_task(store, "one", false), TP_ERR_NOT_FOUND);
    assert_int_equal(put_task(store, "one", "ops"), TP_OK);
    assert_int_equal(put_task(store, "one", ""), TP_ERR_DUPLICATE_ID);
    assert_int_equal(put_task(store, "two", ""), TP_OK);
    assert_int_equal(put_task(store, "", ""), TP_ERR_USAGE);
    assert_int_equal(take_task(store, "one", text), TP_OK);
    assert_string_equal(text, "one deploy ops");
    assert_int_equal(take_task(store, "one", text), TP_ERR_BUSY);
    assert_string_equal(text, "not called");
    assert_int_equal(put_task(store, "one", ""), TP_ERR_DUPLICATE_ID);
    assert_int_equal(settle_task(store, "one", true), TP_OK);
    assert_int_equal(take_task(store, "one", text), TP_OK);
    assert_int_equal(settle_task(store, "one", false), TP_OK);
    assert_int_equal(take_task(store, "one", text), TP_ERR_NOT_FOUND);
    assert_int_equal(take_task(store, "two", text), TP_OK);
    assert_string_equal(text, "two deploy ");
    assert_int_equal(settle_task(store, "two", false), TP_OK);
  }
  tp_store_free(store);
}

TEST(tasks_are_there_when_the_store_is_opened_again) {
  char text[64];
  tp_store *store = open_store(0);
  bool keeps = store->task_put && kind->reopen;
  if (keeps) assert_int_equal(put_task(store, "waits", ""), TP_OK);
  if (keeps) assert_int_equal(put_task(store, "begun", ""), TP_OK);
  if (keeps) assert_int_equal(take_task(store, "begun", text), TP_OK);
  tp_store_free(store);
  if (!keeps) return;
  store = reopen_store(0);
  tp_store *other = reopen_store(0);
  assert_int_equal(take_task(store, "begun", text), TP_ERR_BUSY);
  assert_int_equal(take_task(other, "waits", text), TP_OK);
  assert_int_equal(take_task(store, "waits", text), TP_ERR_BUSY);
  assert_int_equal(settle_task(store, "begun", false), TP_OK);
  assert_int_equal(take_task(other, "begun", text), TP_ERR_NOT_FOUND);
  tp_store_free(other);
  tp_store_free(store);
}

typedef struct taker {
  pthread_t thread;
  tp_store *store;
  tp_status status;
} taker;

static void ignore_task(void *ctx, const tp_task_record *task) {
  (void)ctx;
  (void)task;
}

static void *run_taker(void *arg) {
  taker *t = arg;
  t->status = t->store->task_take(t->store->ctx, tp_text_of("one"), ignore_task, NULL, NULL);
  return NULL;
}

TEST(task_that_many_threads_take_is_taken_once) {
  taker takers[8];
  tp_store *store = open_store(0);
  tp_store *other = store->task_put && kind->reopen ? reopen_store(0) : NULL;
  for (int round = 0; store->task_put && round < 20; round++) {
    int taken = 0;
    assert_int_equal(put_task(store, "one", ""), TP_OK);
    for (size_t i = 0; i < COUNT(takers); i++) {
      takers[i].store = other && i % 2 ? other : store;
      assert_int_equal(pthread_create(&takers[i].thread, NULL, run_taker, &takers[i]), 0);
    }
    for (size_t i = 0; i < COUNT(takers); i++) {
      pthread_join(takers[i].thread, NULL);
      taken += takers[i].status == TP_OK;
      if (takers[i].status != TP_OK) assert_int_equal(takers[i].status, TP_ERR_BUSY);
    }
    assert_int_equal(taken, 1);
    assert_int_equal(settle_task(store, "one", false), TP_OK);
  }
  tp_store_free(other);
  tp_store_free(store);
}

/* ---- attempts, and calls that begin ---- */

static void put_attempt(tp_store *store, uint64_t entry, uint32_t run, uint32_t number, const char *message) {
  char said[16];
  snprintf(said, sizeof said, "%s", message);
  const tp_attempt_record record = {.struct_size = sizeof record,
                                    .process_run_id = RUN_ID,
                                    .entry_id = entry,
                                    .run_index = run,
                                    .attempt = number,
                                    .queued_ns = 1,
                                    .started_ns = 2,
                                    .ended_ns = 3,
                                    .late_ns = 4,
                                    .state = TP_STATE_FAILED,
                                    .reason = TP_REASON_ERROR,
                                    .code = 7,
                                    .message = tp_text_of(said)};
  assert_int_equal(store->attempt(store->ctx, &record), TP_OK);
  memset(said, 'x', sizeof said);
}

typedef struct attempt_list {
  char text[64]; /* "run.attempt message;" */
  size_t stop_at, count;
} attempt_list;

static bool keep_attempt(void *ctx, const tp_attempt_record *a) {
  attempt_list *l = ctx;
  size_t used = strlen(l->text);
  bool same = a->struct_size == sizeof *a && a->process_run_id == RUN_ID && a->queued_ns == 1 && a->started_ns == 2 &&
              a->ended_ns == 3 && a->late_ns == 4 && a->state == TP_STATE_FAILED && a->reason == TP_REASON_ERROR &&
              a->code == 7;
  snprintf(l->text + used, sizeof l->text - used, "%s%u.%u %.*s;", same ? "" : "wrong ", a->run_index, a->attempt,
           (int)a->message.size, a->message.size ? a->message.data : "");
  return ++l->count != l->stop_at;
}

TEST(attempts_of_an_entry_are_read_in_plan_order) {
  tp_store *store = open_store(10);
  if (is_durable_kind(store->attempt && store->attempts)) {
    attempt_list all = {.stop_at = 0}, two = {.stop_at = 2};
    const tp_attempt_query query = {.struct_size = sizeof query, .process_run_id = RUN_ID, .entry_id = 1};
    put_attempt(store, 1, 2, 1, "c");
    put_attempt(store, 1, 0, 2, "");
    put_attempt(store, 2, 0, 1, "other");
    put_attempt(store, 1, 0, 1, "a");
    assert_int_equal(store->attempts(store->ctx, &query, keep_attempt, &all, NULL), TP_OK);
    assert_string_equal(all.text, "0.1 a;0.2 ;2.1 c;");
    assert_int_equal(store->attempts(store->ctx, &query, keep_attempt, &two, NULL), TP_OK);
    assert_string_equal(two.text, "0.1 a;0.2 ;");
  }
  tp_store_free(store);
}

typedef struct earlier {
  uint32_t calls, kind;
  char text[32];
} earlier;

static void keep_earlier(void *ctx, const tp_tool_end_record *end) {
  earlier *e = ctx;
  e->calls++;
  e->kind = end->kind;
  snprintf(e->text, sizeof e->text, "%.*s", (int)end->text.size, end->text.size ? end->text.data : "");
}

/* @return the number of a call that begins; 0: an earlier run of the turn had it. */
static uint64_t start_call(tp_store *store, uint64_t run, const char *turn, const char *arguments, earlier *e) {
  const tp_text ids[TP_ID_COUNT] = {
      [TP_ID_TENANT] = TEXT("t"), [TP_ID_SESSION] = TEXT("s"), [TP_ID_TURN] = tp_text_of(turn)};
  const tp_tool_start_record start = {.struct_size = sizeof start,
                                      .process_run_id = RUN_ID,
                                      .turn_number = run,
                                      .ids = ids,
                                      .id_count = TP_ID_COUNT,
                                      .call_id = TEXT("c"),
                                      .tool = TEXT("pay"),
                                      .arguments = tp_text_of(arguments)};
  uint64_t id = 0;
  *e = (earlier){.calls = 0};
  assert_int_equal(store->tool_start(store->ctx, &start, &id, keep_earlier, e, NULL), TP_OK);
  assert_int_equal(e->calls, id == 0);
  return id;
}

TEST(call_of_a_turn_that_runs_again_is_not_begun_again) {
  tp_store *store = open_store(0);
  if (is_durable_kind(store->tool_start && store->tool_end)) {
    earlier e;
    uint64_t paid = start_call(store, 1, "one", "ten", &e), open = start_call(store, 1, "one", "six", &e);
    assert_true(paid && open && paid != open);
    const tp_tool_end_record end = {
        .struct_size = sizeof end, .start_id = paid, .kind = TP_TOOL_OK, .text = TEXT("paid ten")};
    assert_int_equal(store->tool_end(store->ctx, &end, NULL), TP_OK);
    assert_int_equal(start_call(store, 2, "one", "ten", &e), 0);
    assert_int_equal(e.kind, TP_TOOL_OK);
    assert_string_equal(e.text, "paid ten");
    assert_int_equal(start_call(store, 2, "one", "six", &e), 0);
    assert_int_equal(e.kind, TP_TOOL_INTERRUPTED);
    assert_true(start_call(store, 2, "one", "ten", &e) != 0); /* a second one of this run */
    assert_true(start_call(store, 2, "one", "five", &e) != 0);
    assert_true(start_call(store, 2, "two", "ten", &e) != 0); /* another turn */
  }
  tp_store_free(store);
}

/* ---- batches ---- */

/* The maker of a batch decides how it is packed: here a number for each entry, which is its id and the number of its
 * runs. */
static bool entry_of_number(const tp_entry_batch *batch, size_t *offset, tp_entry_record *record) {
  static const uint32_t base = 10;
  const uint64_t *number = (const uint64_t *)((const char *)batch->packed + *offset);
  if (*offset >= batch->packed_bytes) return false;
  *record = (tp_entry_record){.struct_size = sizeof *record,
                              .process_run_id = batch->process_run_id,
                              .entry_id = *number,
                              .started_ns = TP_MS,
                              .ended_ns = 2 * TP_MS,
                              .started_unix_ms = 1 + batch->unix_offset_ns / TP_MS,
                              .phase = 5,
                              .status = TP_ERR_HOOK,
                              .ids = batch->ids,
                              .id_count = batch->id_count,
                              .run_count = *number,
                              .run = run_at,
                              .source = &base};
  *offset += sizeof *number;
  return true;
}

static bool list_batched(void *ctx, const tp_entry_record *record) {
  listing *l = ctx;
  tp_text turn = record->ids[TP_ID_TURN], session = record->ids[TP_ID_SESSION];
  bool ran = record->entry_id == 2 && turn.size == 0; /* what the record of its start said stays */
  if (!ran && (turn.size != 3 || memcmp(turn.data, "one", 3) != 0 || record->started_unix_ms != WALL_MS)) l->bad++;
  if (record->process_run_id != UINT64_MAX || record->ended_ns != 2 * TP_MS || record->status != TP_ERR_HOOK ||
      session.size != 0 || record->run_count != record->entry_id)
    l->bad++;
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    if (!record->run(record->source, i, &run) || run.attempts != 10 + i || strcmp(run.subscription, "sub") != 0 ||
        strcmp(run.handler, "h") != 0 || strcmp(run.owner, "o") != 0)
      l->bad++;
    if (run.late_ns) l->late_ns = (int64_t)record->entry_id * 100 + (int64_t)i;
  }
  l->ids[l->count++] = record->entry_id;
  return true;
}

TEST(entries_of_a_batch_are_kept_as_if_each_had_come_alone) {
  tp_store *store = open_store(10);
  if (is_durable_kind(store->record_batch)) {
    uint64_t numbers[] = {3, 0, 4, 2};
    char turn[] = "one";
    tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = {turn, 3}};
    const tp_entry_batch batch = {.struct_size = sizeof batch,
                                  .process_run_id = UINT64_MAX,
                                  .ids = ids,
                                  .id_count = TP_ID_TURN + 1, /* a store takes the others for empty */
                                  .entry_count = 4,
                                  .unix_offset_ns = (WALL_MS - 1) * TP_MS,
                                  .packed = numbers,
                                  .packed_bytes = sizeof numbers,
                                  .entry = entry_of_number};
    put_state(store, 2, TP_STATE_RUNNING, 0, 1); /* its end is in the batch */
    assert_int_equal(store->record_batch(store->ctx, &batch), TP_OK);
    const tp_late_record late = {
        .struct_size = sizeof late, .process_run_id = UINT64_MAX, .entry_id = 3, .late_ns = 77, .run_index = 1};
    assert_int_equal(store->record_late(store->ctx, &late), TP_OK);
    memset(turn, 'x', sizeof turn);
    memset(ids, 0, sizeof ids);
    memset(numbers, 0xee, sizeof numbers);
    listing l = {.count = 0};
    const tp_record_query query = {.struct_size = sizeof query};
    assert_int_equal(store->records(store->ctx, &query, list_batched, &l, NULL), TP_OK);
    static const uint64_t newest_first[] = {4, 0, 3, 2};
    assert_int_equal(l.count, 4);
    assert_memory_equal(l.ids, newest_first, sizeof newest_first);
    assert_int_equal(l.bad, 0);
    assert_int_equal(l.late_ns, 301);
  }
  tp_store_free(store);
}

TEST(newest_records_are_kept_of_batches_too) {
  enum { MOST = 5, BATCHES = 40, EACH = 3 };
  tp_store *store = open_store(MOST);
  if (is_durable_kind(store->record_batch)) {
    static const tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = {"one", 3}};
    for (uint64_t i = 0; i < BATCHES; i++) {
      const uint64_t numbers[EACH] = {EACH * i + 1, EACH * i + 2, EACH * i + 3};
      const tp_entry_batch batch = {.struct_size = sizeof batch,
                                    .process_run_id = UINT64_MAX,
                                    .ids = ids,
                                    .id_count = TP_ID_COUNT,
                                    .entry_count = EACH,
                                    .unix_offset_ns = (WALL_MS - 1) * TP_MS,
                                    .packed = numbers,
                                    .packed_bytes = sizeof numbers,
                                    .entry = entry_of_number};
      assert_int_equal(store->record_batch(store->ctx, &batch), TP_OK);
    }
    listing l = {.count = 0};
    const tp_record_query query = {.struct_size = sizeof query};
    assert_int_equal(store->records(store->ctx, &query, list_batched, &l, NULL), TP_OK);
    assert_int_equal(l.count, MOST);
    for (uint64_t i = 0; i < MOST; i++) assert_int_equal(l.ids[i], EACH * BATCHES - i);
    assert_int_equal(l.bad, 0);
    if (is_of_sqlite()) {
      tp_sqlite_store_report report = {.struct_size = sizeof report};
      assert_int_equal(tp_sqlite_store_counts(store, &report), TP_OK);
      assert_int_equal(report.records_queued, EACH * BATCHES); /* records are counted, not batches */
      assert_int_equal(report.records_written, EACH * BATCHES);
      assert_int_equal(report.queue_bytes, 0);
    }
  }
  tp_store_free(store);
}

FOR_EACH_TEST(choose, NULL);

TEST_MAIN(count, arguments) {
  test_variant variants[COUNT(stores)];
  size_t kinds = COUNT(variants);
  for (size_t i = 0; i < COUNT(variants); i++)
    variants[i] = (test_variant){.name = stores[i].name, .state = (void *)(uintptr_t)&stores[i]};
  /* Where a sync costs nothing: these cases commit tens of thousands of times. */
  snprintf(folder, sizeof folder, "%s/turnphase-store-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (!mkdtemp(folder)) return 1;
#ifdef TP_WITH_POSTGRES
  const char *lack = postgres_lack();
  if (lack) printf("# skipped: postgres: %s\n", lack);
  else postgres_make();
  kinds -= lack != NULL;
#endif
  int failed = test_main_for_each(count, arguments, variants, kinds);
#ifdef TP_WITH_POSTGRES
  postgres_remove();
#endif
  char command[96];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command) == 0 ? failed : 1;
}
