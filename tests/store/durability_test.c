/* SPDX-License-Identifier: Apache-2.0
 *
 * The promises of tp_runtime_options.durability, with the SQLite store: the content of the file, as another connection
 * sees it, when a phase has ended or a detached run begins; and the effects of a full disk. */
#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/full_disk.h"
#include "tests/support/host.h"
#include "tests/support/rows.h"
#include "turnphase/sqlite.h"

enum { PHASE = TP_PHASE_TURN_PRE_POLICY, BEST_EFFORT_PHASE = TP_PHASE_TURN_PRE_PROMPT_CONTEXT };

static int prepare(void **state) {
  disk_full = false;
  return make_directory(state);
}

FOR_EACH_TEST(prepare, remove_directory);

/* ---- what a host has ---- */

static _Atomic int refusals, resumptions;

static void count_lines(void *ctx, const tp_log_record *record) {
  (void)ctx;
  if (strstr(record->message, "were not kept: ")) refusals++;
  if (strstr(record->message, "the store takes records again")) resumptions++;
}

static _Atomic int lines_of_key;
static void count_key_lines(void *ctx, const tp_log_record *record) {
  (void)ctx;
  if (strstr(record->message, "the key of its hashes")) lines_of_key++;
}

static const tp_store *sqlite_store; /* as tp_sqlite_store_open() gave it: the runtime has a copy */

static tp_store *open_sqlite(void) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .busy_ms = 50};
  tp_store *store = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  sqlite_store = store;
  return store;
}

static tp_runtime *open_durable(tp_store *store, tp_durability durability, uint32_t queue_bytes) {
  refusals = resumptions = 0;
  tp_runtime_options options = {.struct_size = sizeof options,
                                .store = store,
                                .durability = durability,
                                .record_queue_bytes = queue_bytes,
                                .engine_workers = 1,
                                .log = count_lines};
  return open_runtime(&options);
}

static int64_t number_of(const char *sql) { return number_in(path, sql); }

static tp_sqlite_store_report counts(void) {
  tp_sqlite_store_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_sqlite_store_counts(sqlite_store, &report), TP_OK);
  return report;
}

/* ---- sync ---- */

TEST(record_is_committed_when_a_phase_has_ended) {
  tp_runtime *runtime = open_durable(open_sqlite(), TP_DURABILITY_SYNC, 0);
  act inlined = {0}, slow = {0};
  add_hooks(runtime, &(hook){.id = "inline", .phase = PHASE, .ctx = &inlined}, 1);
  add_hooks(runtime, &(hook){.id = "slow", .phase = BEST_EFFORT_PHASE, .ctx = &slow, .slow = true}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  for (int i = 1; i <= 3; i++) {
    tp_phase_result result = run_phase(turn, PHASE, NULL);
    assert_int_equal(result.outcome, TP_OK);
    assert_run(&result, "inline", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_int_equal(number_of("SELECT count(*) FROM entry"), 2 * i - 1);
    run_phase(turn, BEST_EFFORT_PHASE, NULL);
    assert_int_equal(number_of("SELECT count(*) FROM run"), 2 * i);
  }
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, PHASE, NULL, &result, NULL), TP_OK); /* which would take the fast path */
  assert_int_equal(number_of("SELECT count(*) FROM entry"), 7);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(phase_with_a_required_subscription_fails_where_its_record_cannot_be_committed) {
  tp_runtime *runtime = open_durable(open_sqlite(), TP_DURABILITY_SYNC, 0);
  static const tp_contribution policy = {.struct_size = sizeof policy,
                                         .kind = TP_CONTRIBUTION_POLICY,
                                         .domain = TEXT("d"),
                                         .key = TEXT("k"),
                                         .text = TEXT("v")};
  act guard = {.emits = &policy, .emit_count = 1}, guest = {0};
  add_hooks(runtime, &(hook){.id = "guard", .phase = PHASE, .ctx = &guard}, 1);
  add_hooks(runtime, &(hook){.id = "guest", .phase = BEST_EFFORT_PHASE, .ctx = &guest}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  disk_full = true;
  tp_phase_result result = run_phase(turn, PHASE, NULL);
  assert_int_equal(result.outcome, TP_ERR_HOOK);
  assert_int_equal(result.why, TP_REASON_STORE);
  assert_true(result.reason.size > 0);
  if (result.merged) assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_POLICY), 0);
  assert_run(&result, "guard", TP_STATE_SUCCEEDED, TP_REASON_NONE); /* it ran: that is not denied */
  assert_int_equal(run_phase(turn, BEST_EFFORT_PHASE, NULL).outcome, TP_OK);
  disk_full = false;
  assert_int_equal(run_phase(turn, PHASE, NULL).outcome, TP_OK); /* without a restart */
  assert_int_equal(number_of("SELECT count(*) FROM entry"), 3);
  assert_int_equal(number_of("SELECT count(*) FROM entry WHERE status = 500"), 1); /* as was reported */
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- a commit does not hold an engine worker ---- */

static latch commit_begun = LATCH, commit_may_end = LATCH;
static tp_status (*real_commit)(void *ctx, tp_fault *fault);
static tp_status commit_slowly(void *ctx, tp_fault *fault) {
  latch_hit(&commit_begun);
  latch_wait(&commit_may_end, 1);
  return real_commit(ctx, fault);
}

static void note_end(void *ctx, const tp_phase_result *result) {
  (void)result;
  latch_hit(ctx);
}

TEST(engine_worker_does_not_wait_for_a_commit) {
  commit_begun = commit_may_end = (latch)LATCH;
  tp_store *store = open_sqlite();
  real_commit = store->commit;
  store->commit = commit_slowly;
  tp_runtime *runtime = open_durable(store, TP_DURABILITY_SYNC, 0); /* one engine worker */
  latch called = LATCH, ended = LATCH;
  act first = {.entered = &called};
  add_hooks(runtime, &(hook){.id = "first", .phase = PHASE, .ctx = &first}, 1);
  tp_turn *a = begin_bare(runtime, 0), *b = begin_bare(runtime, 0);
  assert_int_equal(tp_phase_submit(a, PHASE, NULL, note_end, &ended, NULL), TP_OK);
  latch_wait(&commit_begun, 1);
  assert_int_equal(tp_phase_submit(b, PHASE, NULL, note_end, &ended, NULL), TP_OK);
  latch_wait(&called, 2); /* while the commit of a waits */
  assert_int_equal(latch_count(&ended), 0);
  latch_hit(&commit_may_end);
  latch_wait(&ended, 2);
  tp_turn_end(a);
  tp_turn_end(b);
  close_runtime(runtime);
}

/* ---- detached runs ---- */

static hook detached(act *a, tp_failure failure) {
  return (hook){.id = "detached",
                .phase = BEST_EFFORT_PHASE,
                .ctx = a,
                .slow = true,
                .no_capability = true,
                .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD, .failure = failure}};
}

TEST(detached_run_is_recorded_before_it_starts_and_at_its_end) {
  latch entered = LATCH, may_go = LATCH;
  act a = {.entered = &entered, .waits_for = &may_go};
  tp_runtime *runtime = open_durable(open_sqlite(), TP_DURABILITY_SYNC, 0);
  hook h = detached(&a, TP_FAILURE_BEST_EFFORT);
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, BEST_EFFORT_PHASE, NULL);
  assert_run(&result, "detached", TP_STATE_BACKGROUNDED, TP_REASON_NONE);
  latch_wait(&entered, 1);
  assert_int_equal(number_of("SELECT state FROM run JOIN entry ON number = entry WHERE entry.ended_ns = 0"),
                   TP_STATE_RUNNING);
  latch_hit(&may_go);
  tp_turn_end(turn);
  assert_int_equal(tp_runtime_drain(runtime, 10000, NULL, NULL), TP_OK);
  assert_int_equal(number_of("SELECT count(*) FROM entry WHERE ended_ns = 0"), 0);
  assert_int_equal(number_of("SELECT count(*) FROM entry"), 2);
  assert_int_equal(number_of("SELECT count(*) FROM run WHERE state = 3"), 1);
  close_runtime(runtime);
}

TEST(detached_run_that_cannot_be_recorded_is_not_started) {
  act a = {0};
  tp_runtime *runtime = open_durable(open_sqlite(), TP_DURABILITY_SYNC, 0);
  hook h = detached(&a, TP_FAILURE_REQUIRED);
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  disk_full = true;
  tp_phase_result result = run_phase(turn, BEST_EFFORT_PHASE, NULL);
  assert_run(&result, "detached", TP_STATE_FAILED, TP_REASON_STORE);
  assert_int_equal(result.outcome, TP_ERR_HOOK);
  disk_full = false;
  tp_turn_end(turn);
  assert_int_equal(tp_runtime_drain(runtime, 10000, NULL, NULL), TP_OK);
  assert_int_equal(a.calls, 0);
  close_runtime(runtime);
}

/* ---- async ---- */

TEST(turns_never_wait_and_drops_are_counted_and_logged_once) {
  enum { TURNS = 200 };
  tp_runtime *runtime = open_durable(open_sqlite(), TP_DURABILITY_ASYNC, 8192);
  act guard = {0};
  add_hooks(runtime, &(hook){.id = "guard", .phase = PHASE, .ctx = &guard}, 1);
  assert_int_equal(tp_runtime_start(runtime, NULL), TP_OK);
  disk_full = true;
  for (int i = 0; i < TURNS; i++) {
    tp_turn *turn = begin_bare(runtime, 0);
    assert_int_equal(run_phase(turn, PHASE, NULL).outcome, TP_OK);
    tp_turn_end(turn);
  }
  tp_sqlite_store_report full = counts();
  assert_true(full.records_dropped > 0 && full.records_queued > 0);
  assert_true(full.queue_bytes <= 8192);
  assert_int_equal(refusals, 1);
  disk_full = false;
  assert_int_equal(tp_runtime_records_commit(runtime, NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  run_phase(turn, PHASE, NULL);
  tp_turn_end(turn);
  assert_int_equal(resumptions, 1);
  assert_int_equal(tp_runtime_records_commit(runtime, NULL), TP_OK);
  tp_sqlite_store_report after = counts();
  assert_int_equal(after.records_dropped, full.records_dropped);
  assert_int_equal(after.records_written, after.records_queued);
  assert_int_equal(after.queue_bytes, 0);
  int64_t entries = number_of("SELECT count(*) FROM entry");
  assert_int_equal(entries + (int64_t)after.records_dropped, TURNS + 1);
  close_runtime(runtime);
}

/* ---- attempts ---- */

typedef struct attempt_list {
  tp_attempt_record items[8];
  char messages[8][64];
  size_t count;
} attempt_list;

static bool keep_attempt(void *ctx, const tp_attempt_record *record) {
  attempt_list *l = ctx;
  snprintf(l->messages[l->count], sizeof l->messages[0], "%.*s", (int)record->message.size, record->message.data);
  l->items[l->count++] = *record;
  return l->count < 8;
}

/* That of the newest entry. */
static attempt_list attempts_of(const char *subscription) {
  attempt_list l = {.count = 0};
  char question[160];
  snprintf(question, sizeof question,
           "SELECT max(number) FROM entry JOIN run ON entry = number AND subscription = '%s'", subscription);
  char of_entry[160];
  int64_t number = number_of(question);
  snprintf(of_entry, sizeof of_entry, "SELECT process FROM entry WHERE number = %lld", (long long)number);
  tp_attempt_query query = {.struct_size = sizeof query, .process_run_id = (uint64_t)number_of(of_entry)};
  snprintf(of_entry, sizeof of_entry, "SELECT id FROM entry WHERE number = %lld", (long long)number);
  query.entry_id = (uint64_t)number_of(of_entry);
  assert_int_equal(sqlite_store->attempts(sqlite_store->ctx, &query, keep_attempt, &l, NULL), TP_OK);
  return l;
}

TEST(attempts_that_the_row_of_their_run_cannot_describe_are_kept) {
  tp_runtime *runtime = open_durable(open_sqlite(), TP_DURABILITY_SYNC, 0);
  act flaky = {.kind = TP_ANSWER_FAILED, .reason = "no route", .code = 5, .retryable = true, .succeeds_at = 3};
  act silent = {0}, guard = {.kind = TP_ANSWER_DENY, .reason = "not on Sundays"};
  add_hooks(runtime, &(hook){.id = "silent", .phase = PHASE, .ctx = &silent}, 1);
  add_hooks(
      runtime,
      &(hook){.id = "flaky", .phase = BEST_EFFORT_PHASE, .ctx = &flaky, .idempotent = true, .sub = {.attempts = 4}}, 1);
  add_hooks(runtime, &(hook){.id = "guard", .phase = TP_PHASE_TURN_INTAKE, .ctx = &guard}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  run_phase(turn, PHASE, NULL);
  assert_int_equal(attempts_of("silent").count, 0);
  run_phase(turn, BEST_EFFORT_PHASE, NULL);
  attempt_list l = attempts_of("flaky");
  assert_int_equal(l.count, 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(l.items[i].attempt, i + 1);
    assert_int_equal(l.items[i].state, i < 2 ? TP_STATE_FAILED : TP_STATE_SUCCEEDED);
    assert_int_equal(l.items[i].reason, i < 2 ? TP_REASON_ERROR : TP_REASON_NONE);
    assert_string_equal(l.messages[i], i < 2 ? "no route" : "");
    assert_true(l.items[i].started_ns > 0 && l.items[i].ended_ns >= l.items[i].started_ns);
    if (i > 0) assert_true(l.items[i].started_ns >= l.items[i - 1].ended_ns);
    if (i < 2) assert_int_equal(l.items[i].code, 5);
  }
  run_phase(turn, TP_PHASE_TURN_INTAKE, NULL);
  l = attempts_of("guard");
  assert_int_equal(l.count, 1);
  assert_int_equal(l.items[0].verdict, TP_VERDICT_DENY);
  assert_string_equal(l.messages[0], "not on Sundays");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* A failure ends the phase while a failed attempt waits for the next one, which is never called. */
TEST(an_attempt_has_one_record_though_another_was_to_follow) {
  tp_runtime *runtime = open_durable(open_sqlite(), TP_DURABILITY_SYNC, 0);
  latch entered = LATCH;
  act flaky = {.kind = TP_ANSWER_FAILED, .reason = "no route", .retryable = true, .entered = &entered};
  act guard = {.kind = TP_ANSWER_FAILED, .waits_for = &entered};
  const tp_subscription later = {.attempts = 2, .backoff = TP_BACKOFF_FIXED, .backoff_ms = 1000};
  add_hooks(
      runtime,
      (hook[]){{.id = "flaky", .phase = PHASE, .ctx = &flaky, .idempotent = true, .sub = later},
               {.id = "guard", .phase = PHASE, .ctx = &guard, .slow = true, .sub = {.failure = TP_FAILURE_REQUIRED}}},
      2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, PHASE, NULL);
  tp_run_record run = run_of(&result, "flaky");
  assert_int_equal(run.state, TP_STATE_CANCELLED);
  assert_int_equal(run.attempts, 1);
  assert_true(run.started_ns > 0);
  attempt_list l = attempts_of("flaky");
  assert_int_equal(l.count, 2); /* one of each run */
  assert_int_equal(l.items[0].run_index, 0);
  assert_int_equal(l.items[0].state, TP_STATE_FAILED);
  assert_string_equal(l.messages[0], "no route");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- content ---- */

typedef struct content_list {
  tp_content_record items[16];
  unsigned char hashes[16][32];
  size_t count;
} content_list;

static bool keep_content(void *ctx, const tp_content_record *record) {
  content_list *l = ctx;
  assert_true(record->hash.size == 32 && record->content.size == 0);
  memcpy(l->hashes[l->count], record->hash.data, 32);
  l->items[l->count++] = *record;
  return true;
}

static tp_runtime *open_with_hashes(void) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .content_hashes = 1};
  tp_store *store = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  sqlite_store = store;
  return open_durable(store, TP_DURABILITY_ASYNC, 0);
}

static void assert_hash_is_of(const content_list *l, size_t index, const char *content) {
  unsigned char hash[32];
  assert_int_equal(tp_sqlite_store_hash(sqlite_store, tp_text_of(content), hash, NULL), TP_OK);
  assert_memory_equal(hash, l->hashes[index], 32);
  assert_int_equal(l->items[index].bytes, strlen(content));
}

TEST(size_and_hash_of_what_passed_through_a_phase_are_kept) {
  tp_runtime *runtime = open_with_hashes();
  const tp_contribution text = {.struct_size = sizeof text,
                                .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                .key = TEXT("k"),
                                .text = TEXT("the word is xylophone"),
                                .weight = 1};
  act contributes = {.emits = &text, .emit_count = 1}, silent = {0};
  const hook hooks[] = {{.id = "a_silent", .phase = BEST_EFFORT_PHASE, .ctx = &silent},
                        {.id = "contributes", .phase = BEST_EFFORT_PHASE, .ctx = &contributes}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("what is it?")};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, BEST_EFFORT_PHASE, &input, &result, NULL), TP_OK);
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  assert_int_equal(sqlite_store->commit(sqlite_store->ctx, NULL), TP_OK);
  content_list l = {.count = 0};
  tp_content_query query = {.struct_size = sizeof query,
                            .process_run_id = (uint64_t)number_of("SELECT process FROM entry"),
                            .entry_id = (uint64_t)number_of("SELECT id FROM entry")};
  assert_int_equal(sqlite_store->contents(sqlite_store->ctx, &query, keep_content, &l, NULL), TP_OK);
  assert_int_equal(l.count, 2);
  assert_int_equal(l.items[0].field, TP_FIELD_TEXT);
  assert_int_equal(l.items[0].kind, 0);
  assert_hash_is_of(&l, 0, "what is it?");
  assert_int_equal(l.items[1].field, 0);
  assert_int_equal(l.items[1].kind, TP_CONTRIBUTION_PROMPT_CONTEXT);
  assert_int_equal(l.items[1].run_index, 1);
  assert_hash_is_of(&l, 1, "the word is xylophone");
  close_runtime(runtime);
  char search[256];
  snprintf(search, sizeof search, "! grep -q xylophone %s*", path);
  assert_int_equal(system(search), 0);
}

TEST(phase_of_inline_handlers_has_the_hash_of_its_payload) {
  tp_runtime *runtime = open_with_hashes();
  act silent = {0};
  add_hooks(runtime, &(hook){.id = "silent", .phase = PHASE, .ctx = &silent}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("hello")};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  tp_phase_result result = {.struct_size = sizeof result};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tp_phase_run(turn, PHASE, &input, &result, NULL), TP_OK);
    tp_phase_result_release(turn, &result);
  }
  tp_turn_end(turn);
  assert_int_equal(sqlite_store->commit(sqlite_store->ctx, NULL), TP_OK);
  assert_int_equal(number_of("SELECT count(*) FROM content JOIN entry ON content.process = entry.process"
                             " AND content.entry = entry.id WHERE bytes = 5"),
                   3);
  assert_int_equal(number_of("SELECT count(DISTINCT hash) FROM content"), 1);
  close_runtime(runtime);
}

/* A key that cannot be used: what has no hash has its size. */
TEST(without_a_key_sizes_are_kept_and_that_is_logged_once) {
  char key[sizeof path + 8];
  snprintf(key, sizeof key, "%s-key", path);
  FILE *file = fopen(key, "w");
  fputs("short", file);
  fclose(file);
  lines_of_key = 0;
  tp_sqlite_store_options options = {
      .struct_size = sizeof options, .path = path, .content_hashes = 1, .log = count_key_lines};
  tp_store *store = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  tp_content_record record = {
      .struct_size = sizeof record, .process_run_id = 1, .entry_id = 1, .bytes = 3, .field = 1, .content = TEXT("abc")};
  for (int i = 0; i < 2; i++) assert_int_equal(store->content(store->ctx, &record), TP_OK);
  assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
  assert_int_equal(number_of("SELECT count(*) FROM content WHERE bytes = 3 AND hash = x''"), 2);
  assert_int_equal(lines_of_key, 1);
  unsigned char hash[32];
  assert_int_equal(tp_sqlite_store_hash(store, record.content, hash, NULL), TP_ERR_IO);
  tp_store_free(store);
}

TEST(attempts_go_with_their_entry) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .records_max = 2};
  tp_store *store = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  sqlite_store = store;
  tp_runtime *runtime = open_durable(store, TP_DURABILITY_SYNC, 0);
  act fails = {.kind = TP_ANSWER_FAILED, .reason = "no"}, silent = {0};
  add_hooks(runtime, &(hook){.id = "silent", .phase = PHASE, .ctx = &silent}, 1);
  add_hooks(runtime, &(hook){.id = "fails", .phase = BEST_EFFORT_PHASE, .ctx = &fails}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  for (int i = 0; i < 5; i++) run_phase(turn, BEST_EFFORT_PHASE, NULL);
  assert_int_equal(number_of("SELECT count(*) FROM entry"), 2);
  assert_int_equal(number_of("SELECT count(*) FROM attempt"), 2);
  assert_int_equal(number_of("SELECT count(*) FROM attempt JOIN entry ON entry = id"), 2);
  for (int i = 0; i < 2; i++) run_phase(turn, PHASE, NULL); /* entries that have none push those out that have */
  assert_int_equal(number_of("SELECT count(*) FROM attempt"), 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST_MAIN(count, arguments) {
  if (!install_full_disk()) return 1;
  return test_main(count, arguments);
}
