/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of the SQLite store: records and jobs a second, compared with plain SQLite that writes the same rows; and
 * the cost that recording adds to an inline handler and to a turn of W7. The files are in TMPDIR, or in /tmp. README.md
 * says how to read it. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/latch.h"
#include "bench/report.h"
#include "turnphase/sqlite.h"

#define ROWS "records_async records_sync jobs handler turn many history "

enum { RUNS = 6, ASYNC_RECORDS = 1000, JOBS = 20, PHASES = 500, TURNS = 100 };

/* ---- files ---- */

static char folder[256];

static const char *file_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s.db", folder, name);
  return path;
}

/* @param page_cache_bytes  0: SQLite's own. */
static tp_store *open_store_caching(const char *name, uint32_t page_cache_bytes) {
  tp_sqlite_store_options options = {.struct_size = sizeof options,
                                     .path = file_of(name),
                                     .jobs_ended_max = 1000,
                                     .page_cache_bytes = page_cache_bytes};
  tp_store *store;
  tp_fault fault = {0};
  bench_must(tp_sqlite_store_open(&options, &store, &fault), &fault);
  return store;
}

static tp_store *open_store(const char *name) { return open_store_caching(name, 0); }

static void must(sqlite3 *db, int rc) {
  if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW) return;
  fprintf(stderr, "sqlite: %s\n", sqlite3_errmsg(db));
  exit(70);
}

/** Writes the same rows with SQLite only, with the same settings. */
typedef struct direct {
  sqlite3 *db;
  sqlite3_stmt *begin, *commit, *first, *second, *third;
  int64_t number;
} direct;

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  must(db, sqlite3_prepare_v2(db, sql, -1, &statement, NULL));
  return statement;
}

static direct open_direct(const char *name, const char *schema, const char *first, const char *second,
                          const char *third) {
  direct p = {.number = 0};
  must(NULL, sqlite3_open(file_of(name), &p.db));
  must(p.db, sqlite3_exec(p.db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", NULL, NULL, NULL));
  must(p.db, sqlite3_exec(p.db, schema, NULL, NULL, NULL));
  p.begin = prepare(p.db, "BEGIN IMMEDIATE");
  p.commit = prepare(p.db, "COMMIT");
  p.first = prepare(p.db, first);
  p.second = prepare(p.db, second);
  p.third = third ? prepare(p.db, third) : NULL;
  return p;
}

static void step(const direct *p, sqlite3_stmt *statement) {
  int rc;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) continue;
  must(p->db, rc);
  sqlite3_reset(statement);
}

static void close_direct(direct *p) {
  sqlite3_stmt *all[] = {p->begin, p->commit, p->first, p->second, p->third};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) sqlite3_finalize(all[i]);
  sqlite3_close(p->db);
}

/* ---- records ---- */

static bool run_of(const void *source, size_t index, tp_run_record *record) {
  (void)source, (void)index;
  *record = (tp_run_record){.struct_size = record->struct_size,
                            .subscription = "subscription",
                            .handler = "handler",
                            .owner = "owner",
                            .queued_ns = 1000,
                            .started_ns = 1000,
                            .ended_ns = 1010,
                            .attempts = 1,
                            .state = TP_STATE_SUCCEEDED};
  return true;
}

typedef struct recording {
  tp_store *store;
  direct direct;
  uint64_t entries;
  uint32_t each; /* records in each transaction */
} recording;

static void record_one(recording *r) {
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = tp_text_of("0123456789abcdef"), [TP_ID_SESSION] = tp_text_of("session")};
  tp_entry_record record = {.struct_size = sizeof record,
                            .process_run_id = 1,
                            .entry_id = ++r->entries,
                            .phase = 64,
                            .started_ns = 1000,
                            .ended_ns = 1100,
                            .ids = ids,
                            .id_count = TP_ID_COUNT,
                            .run_count = RUNS,
                            .run = run_of};
  bench_must(r->store->record(r->store->ctx, &record), NULL);
}

static int64_t record_ours(void *ctx, uint32_t times) {
  recording *r = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    for (uint32_t n = 0; n < r->each; n++) record_one(r);
    bench_must(r->store->commit(r->store->ctx, NULL), NULL);
  }
  return bench_now_ns() - began;
}

static void bind_texts(sqlite3_stmt *statement, int from, const char *const *texts, int count) {
  for (int i = 0; i < count; i++) sqlite3_bind_text(statement, from + i, texts[i], -1, SQLITE_STATIC);
}

static void insert_direct(direct *p) {
  static const char *const ids[] = {"", "", "", "session", "", "0123456789abcdef", "", ""};
  static const char *const names[] = {"subscription", "handler", "owner"};
  const int64_t entry[] = {1, ++p->number, 0, 1000, 1100, 0, 64, 0};
  for (int i = 0; i < 8; i++) sqlite3_bind_int64(p->first, i + 1, entry[i]);
  bind_texts(p->first, 9, ids, 8);
  step(p, p->first);
  int64_t number = sqlite3_last_insert_rowid(p->db);
  for (int run = 0; run < RUNS; run++) {
    const int64_t values[] = {number, run, 1000, 1000, 1010, 0, 0, 0, 1, TP_STATE_SUCCEEDED, 0, 0, 0, 0, 0, 0, 0, 0};
    for (int i = 0; i < 18; i++) sqlite3_bind_int64(p->second, i + 1, values[i]);
    bind_texts(p->second, 19, names, 3);
    step(p, p->second);
  }
}

static int64_t record_direct(void *ctx, uint32_t times) {
  recording *r = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    step(&r->direct, r->direct.begin);
    for (uint32_t n = 0; n < r->each; n++) insert_direct(&r->direct);
    step(&r->direct, r->direct.commit);
  }
  return bench_now_ns() - began;
}

#define IDS "tenant TEXT, agent TEXT, workspace TEXT, session TEXT, thread TEXT, turn TEXT, task TEXT, run TEXT"

static void records(bench_program *program, const char *name, const char *what, uint32_t each) {
  bench_row row = {.name = name, .what = what, .unit = "a record", .per = each};
  if (!bench_wanted(program, name)) return;
  recording r = {.store = open_store(name), .each = each};
  char other[64];
  snprintf(other, sizeof other, "%s_direct", name);
  r.direct = open_direct(
      other,
      "CREATE TABLE entry (number INTEGER PRIMARY KEY, process INTEGER, id INTEGER, plan_hash INTEGER,"
      "  started_ns INTEGER, ended_ns INTEGER, started_unix_ms INTEGER, phase INTEGER, status INTEGER, " IDS
      ");"
      "CREATE UNIQUE INDEX entry_id ON entry (process, id); CREATE INDEX entry_session ON entry (session);"
      "CREATE INDEX entry_turn ON entry (turn); CREATE INDEX entry_running ON entry (process) WHERE ended_ns = 0;"
      "CREATE TABLE run (entry INTEGER, position INTEGER, a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER,"
      "  f INTEGER, g INTEGER, h INTEGER, i INTEGER, j INTEGER, k INTEGER, l INTEGER, m INTEGER, n INTEGER, o INTEGER,"
      "  p INTEGER, subscription TEXT, handler TEXT, owner TEXT, PRIMARY KEY (entry, position)) WITHOUT ROWID;",
      "INSERT INTO entry (process, id, plan_hash, started_ns, ended_ns, started_unix_ms, phase, status, tenant, agent,"
      " workspace, session, thread, turn, task, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", NULL);
  bench_row_add(&row, (bench_contestant){.name = "turnphase", .run = record_ours, .ctx = &r, .threads = true},
                (bench_bound){.against = 1});
  bench_row_add(&row, (bench_contestant){.name = "plain SQLite", .run = record_direct, .ctx = &r},
                (bench_bound){.against = 1});
  bench_settings settings = bench_settings_of(program);
  settings.single = true;
  bench_row_run(program, &row, &settings);
  bench_figure(program, name, "turnphase", each * 1e9 / row.results[0].all.median, "records a second", 0);
  tp_store_free(r.store);
  close_direct(&r.direct);
}

/* ---- jobs ---- */

static uint64_t claimed_id, claim_token;
static void take_claim(void *ctx, const tp_job *job) {
  (void)ctx;
  claimed_id = job->id;
  claim_token = job->claim;
}

static void job_ours(recording *r) {
  char key[32];
  uint64_t id;
  bool existed;
  int64_t next;
  uint32_t state;
  snprintf(key, sizeof key, "%llu", (unsigned long long)++r->entries);
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 3,
                .limit_ms = 1000,
                .handler = tp_text_of("handler"),
                .subscription = tp_text_of("subscription"),
                .idempotency_key = tp_text_of(key),
                .order_key = tp_text_of("session"),
                .payload = {"\x80", 1}};
  bench_must(r->store->job_insert(r->store->ctx, &job, &id, &existed, NULL), NULL);
  tp_job_claim claim = {.struct_size = sizeof claim, .now_ms = 1, .lease_ms = 60000, .take = take_claim};
  bench_must(r->store->job_claim(r->store->ctx, &claim, &next, NULL), NULL);
  tp_job_finish finish = {
      .struct_size = sizeof finish, .id = claimed_id, .claim = claim_token, .now_ms = 2, .end = TP_JOB_END_SUCCEEDED};
  bench_must(r->store->job_finish(r->store->ctx, &finish, &state, NULL), NULL);
}

static int64_t jobs_ours(void *ctx, uint32_t times) {
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++)
    for (int n = 0; n < JOBS; n++) job_ours(ctx);
  return bench_now_ns() - began;
}

static void in_transaction(direct *p, sqlite3_stmt *statement) {
  step(p, p->begin);
  step(p, statement);
  step(p, p->commit);
}

static int64_t jobs_direct(void *ctx, uint32_t times) {
  direct *p = &((recording *)ctx)->direct;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times * JOBS; i++) {
    sqlite3_bind_int64(p->first, 1, ++p->number);
    in_transaction(p, p->first);
    sqlite3_bind_int64(p->second, 1, p->number);
    in_transaction(p, p->second);
    sqlite3_bind_int64(p->third, 1, p->number);
    in_transaction(p, p->third);
  }
  return bench_now_ns() - began;
}

static void jobs(bench_program *program) {
  bench_row row = {
      .name = "jobs", .what = "a job inserted, claimed and ended, each durable", .unit = "a job", .per = JOBS};
  if (!bench_wanted(program, "jobs")) return;
  recording r = {.store = open_store("jobs")};
  r.direct = open_direct("jobs_direct",
                         "CREATE TABLE job (id INTEGER PRIMARY KEY, claim INTEGER, state INTEGER, attempt INTEGER,"
                         "  handler TEXT, key TEXT UNIQUE, order_key TEXT, payload BLOB);"
                         "CREATE INDEX job_order ON job (order_key, id) WHERE state IN (1, 2);",
                         "INSERT INTO job VALUES (?1, 0, 1, 0, 'handler', ?1, 'session', x'80')",
                         "UPDATE job SET state = 2, claim = claim + 1, attempt = attempt + 1 WHERE id = ?1 RETURNING *",
                         "UPDATE job SET state = 3, payload = x'' WHERE id = ?1");
  bench_row_add(&row, (bench_contestant){.name = "turnphase", .run = jobs_ours, .ctx = &r, .threads = true},
                (bench_bound){.against = 1});
  bench_row_add(&row, (bench_contestant){.name = "plain SQLite", .run = jobs_direct, .ctx = &r},
                (bench_bound){.against = 1});
  bench_settings settings = bench_settings_of(program);
  settings.single = true;
  bench_row_run(program, &row, &settings);
  bench_figure(program, "jobs", "turnphase", JOBS * 1e9 / row.results[0].all.median, "jobs a second", 0);
  tp_store_free(r.store);
  close_direct(&r.direct);
}

/* ---- what recording adds ---- */

typedef struct host {
  const bench_workload *workload;
  tp_runtime *runtime;
  tp_store store;         /* the functions of its store; ctx NULL: the memory store */
  uint32_t turns, phases; /* in each run */
} host;

/* The writer's work after the turns is not timed: the bench waits for it between two runs. */
static int64_t host_run(void *ctx, uint32_t times) {
  host *h = ctx;
  int64_t duration_ns = 0;
  for (uint32_t i = 0; i < times; i++) {
    int64_t began = bench_now_ns();
    for (uint32_t t = 0; t < h->turns; t++) {
      tp_turn *turn = bench_turn_begin(h->runtime);
      for (uint32_t p = 0; p < h->phases; p++) bench_workload_run(h->workload, turn);
      tp_turn_end(turn);
    }
    duration_ns += bench_now_ns() - began;
    if (h->store.ctx) bench_must(h->store.commit(h->store.ctx, NULL), NULL);
  }
  return duration_ns;
}

static bench_contestant host_new(host *h, const bench_workload *workload, const char *name, const char *file,
                                 uint32_t turns, uint32_t phases) {
  tp_runtime_options options = {.struct_size = sizeof options};
  *h = (host){.workload = workload, .turns = turns, .phases = phases};
  if (file) {
    tp_store *store = open_store(file);
    h->store = *store;
    options.store = store;
    options.durability = TP_DURABILITY_ASYNC;
    options.record_queue_bytes = 256 << 20;
  }
  h->runtime = bench_workload_runtime(workload, &options, NULL, NULL);
  return (bench_contestant){.name = name, .run = host_run, .ctx = h, .threads = file != NULL};
}

static void added(bench_program *program, const char *name, const char *what, const char *unit, const char *workload,
                  uint32_t turns, uint32_t phases) {
  bench_workload w;
  host hosts[2];
  if (!bench_wanted(program, name) || !bench_workload_make(&w, workload)) return;
  bench_row row = {.name = name, .what = what, .unit = unit, .per = (double)turns * phases};
  bench_row_add(&row, host_new(&hosts[0], &w, "records in memory", NULL, turns, phases), (bench_bound){0});
  bench_row_add(&row, host_new(&hosts[1], &w, "SQLite, async", name, turns, phases), (bench_bound){.against = 0});
  bench_settings settings = bench_settings_of(program);
  settings.single = true;
  bench_row_run(program, &row, &settings);
  double memory = row.results[0].all.median / row.per, async = row.results[1].all.median / row.per;
  char words[64];
  snprintf(words, sizeof words, "async adds to %s", unit);
  bench_figure(program, name, words, async - memory, "ns", 0);
  for (int i = 0; i < 2; i++) tp_runtime_free(hosts[i].runtime);
  bench_workload_fini(&w);
}

/* ---- growth ---- */

static double resident_kib(void) {
  unsigned long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2) exit(70);
  fclose(file);
  return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* The median time of records, each of which is committed by itself. */
static double median_of(recording *r, int count) {
  double *durations = bench_alloc((size_t)count, sizeof *durations);
  for (int i = 0; i < count; i++) durations[i] = (double)record_ours(r, 1);
  double median = bench_spread_of(durations, (uint32_t)count).median;
  free(durations);
  return median;
}

/* Whether the cost of a record, and the resident memory, grow with the size of the file. */
static void many_records(bench_program *program) {
  enum { FIRST = 1000, MANY = 100000, MANY_QUICK = 5000, BATCH_ENTRIES = 100 };
  if (!bench_wanted(program, "many")) return;
  int many = program->quick ? MANY_QUICK : MANY;
  recording r = {.store = open_store_caching("growth", 256 << 10), .each = 1};
  (void)median_of(&r, FIRST);
  double early = median_of(&r, FIRST), resident = resident_kib();
  r.each = BATCH_ENTRIES;
  while (r.entries + FIRST + BATCH_ENTRIES <= (uint64_t)many) (void)record_ours(&r, 1);
  r.each = 1;
  double late = median_of(&r, FIRST);
  bench_figure(program, "many", "median of the last 1,000 records over that of records 1,000 to 2,000", late / early,
               "times", 1.2);
  bench_figure(program, "many", "resident memory between them", resident_kib() - resident, "KiB", 1024);
  tp_store_free(r.store);
}

/* ---- a whole turn, and the history that keeps its messages ---- */

typedef struct talk {
  tp_runtime *runtime;
  tp_model *model;
  uint64_t number; /* how many sessions there were */
  bench_latch closed;
} talk;

static void session_closed(void *ctx) { bench_latch_hit(ctx, 1); }

/* Each turn is the first one of a session: one session and two messages are written. */
static int64_t talk_run(void *ctx, uint32_t times) {
  talk *t = ctx;
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("How warm is it there?")};
  tp_model borrowed = *t->model;
  int64_t duration_ns = 0;
  borrowed.destroy = NULL; /* the model stays the caller's */
  for (uint32_t i = 0; i < times; i++) {
    char id[32];
    tp_session *session;
    const tp_turn_result *result = NULL;
    tp_fault fault;
    snprintf(id, sizeof id, "bench-%llu", (unsigned long long)t->number++);
    tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &borrowed};
    bench_must(tp_session_open(t->runtime, &options, &session, &fault), &fault);
    int64_t began = bench_now_ns();
    bench_must(tp_turn_run(session, &request, &result, &fault), &fault);
    duration_ns += bench_now_ns() - began;
    bench_must(result->code, NULL);
    tp_turn_result_free(result);
    bench_latch_set(&t->closed, 1);
    tp_session_close(session, session_closed, &t->closed);
    bench_latch_wait(&t->closed);
  }
  return duration_ns;
}

static tp_status open_talk_history(const char *file, bool async, tp_history **ret_history, tp_fault *fault) {
  tp_sqlite_history_options options = {.struct_size = sizeof options, .path = file_of(file)};
  if (async) return tp_sqlite_history_open_async(&options, ret_history, fault);
  return tp_sqlite_history_open(options.path, ret_history, fault);
}

static bench_contestant talk_new(talk *t, const char *name, const char *file, bool async) {
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("12 degrees.")};
  const tp_model_response *responses[] = {&response};
  tp_runtime_options options = {.struct_size = sizeof options};
  tp_fault fault;
  *t = (talk){.runtime = NULL};
  if (file) {
    tp_history *history;
    bench_must(open_talk_history(file, async, &history, &fault), &fault);
    bench_must(tp_history_share(NULL, history, &options.shared_history, &fault), &fault);
  }
  bench_must(tp_runtime_new(&options, &t->runtime, &fault), &fault);
  if (file) tp_shared_history_unref(options.shared_history);
  bench_must(tp_script_model_new(responses, 1, true, &t->model, &fault), &fault);
  return (bench_contestant){.name = name, .run = talk_run, .ctx = t, .threads = true};
}

static int64_t talk_direct(void *ctx, uint32_t times) {
  direct *p = ctx;
  static const char *const messages[][2] = {{"0123456789abcdef", "How warm is it there?"},
                                            {"0123456789abcdef", "12 degrees."}};
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    char name[32];
    snprintf(name, sizeof name, "bench-%lld", (long long)p->number++);
    step(p, p->begin);
    sqlite3_bind_text(p->first, 1, name, -1, SQLITE_STATIC);
    step(p, p->first);
    int64_t session = sqlite3_last_insert_rowid(p->db);
    for (int m = 0; m < 2; m++) {
      sqlite3_bind_int64(p->second, 1, session);
      sqlite3_bind_int64(p->second, 2, m + 1);
      bind_texts(p->second, 3, messages[m], 2);
      step(p, p->second);
    }
    step(p, p->commit);
  }
  return bench_now_ns() - began;
}

static void history(bench_program *program) {
  bench_row row = {.name = "history", .what = "tp_turn_run with a model that answers at once", .unit = "a turn"};
  if (!bench_wanted(program, "history")) return;
  enum { DIRECT = 3 }; /* its index in the row */
  talk talks[DIRECT];
  direct p = open_direct("history_direct",
                         "CREATE TABLE session (number INTEGER PRIMARY KEY, tenant TEXT, name TEXT,"
                         "  UNIQUE (tenant, name));"
                         "CREATE TABLE message (number INTEGER PRIMARY KEY, session INTEGER, role INTEGER,"
                         "  is_error INTEGER, turn TEXT, text TEXT, call_id TEXT, name TEXT, parts BLOB);"
                         "CREATE INDEX message_session ON message (session);",
                         "INSERT INTO session (tenant, name) VALUES ('', ?)",
                         "INSERT INTO message (session, role, turn, text) VALUES (?, ?, ?, ?)", NULL);
  bench_row_add(&row, talk_new(&talks[0], "history in memory", NULL, false), (bench_bound){.against = DIRECT});
  bench_row_add(&row, talk_new(&talks[1], "history in SQLite, durable when it ends", "history", false),
                (bench_bound){.against = DIRECT});
  bench_row_add(&row, talk_new(&talks[2], "history in SQLite, asynchronous", "history_async", true),
                (bench_bound){.against = DIRECT});
  bench_row_add(&row, (bench_contestant){.name = "plain SQLite, the same rows", .run = talk_direct, .ctx = &p},
                (bench_bound){.against = DIRECT});
  bench_settings settings = bench_settings_of(program);
  settings.single = true;
  bench_row_run(program, &row, &settings);
  for (int i = 0; i < DIRECT; i++) {
    tp_runtime_free(talks[i].runtime);
    tp_model_free(talks[i].model);
  }
  close_direct(&p);
}

int main(int argc, char **argv) {
  bench_program program;
  const char *tmp = getenv("TMPDIR");
  char command[300];
  bench_open(&program, "sqlite", "What the SQLite store costs, beside plain SQLite.", ROWS, argc, argv);
  snprintf(folder, sizeof folder, "%s/turnphase_bench_XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(folder)) return 70;
  records(&program, "records_async", "records of an entry with 6 runs, 1,000 in a commit", ASYNC_RECORDS);
  records(&program, "records_sync", "records of an entry with 6 runs, each committed", 1);
  jobs(&program);
  added(&program, "handler", "phases of 6 inline handlers that do nothing, 500 in a turn", "a phase", "W2", 1, PHASES);
  added(&program, "turn", "a turn of five phases with a diamond of 4 inline handlers", "a turn", "diamond", TURNS, 1);
  many_records(&program);
  history(&program);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command) == 0 ? bench_close(&program) : 70;
}
