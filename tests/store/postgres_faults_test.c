/* SPDX-License-Identifier: Apache-2.0
 *
 * Three hosts share sessions in a PostgreSQL database, and the connection to the server fails: a proxy cuts it before
 * COMMIT, after it, and anywhere; the server ends connections, and is killed and started again. Each session is a list
 * of unique numbers. Whatever happens: an acknowledged number is in it once, any other at most once, and each turn got
 * a beginning of it. */
#include "tests/support/test.h"
#include "tests/support/host.h"
#include "tests/support/postgres_proxy.h"
#include "tests/support/postgres_server.h"
#include "turnphase/postgres.h"

/* ---- hosts: they claim, look, and append ---- */

enum { HOSTS = 3, THREADS = 2, SESSIONS = 4, IDS_MAX = 200000, STATEMENT_MS = 500 };
typedef enum fate { NOT_TRIED, IN_DOUBT, ACKNOWLEDGED } fate;

static _Atomic int next_id;
static _Atomic int acknowledged;
static _Atomic bool ends;
static _Atomic unsigned char fates[IDS_MAX];
static _Atomic int wrong_loads;

typedef struct list {
  int *ids;
  size_t count, capacity;
} list;

static void add(list *l, int id) {
  if (l->count == l->capacity) {
    l->capacity = l->capacity ? 2 * l->capacity : 256;
    l->ids = realloc(l->ids, l->capacity * sizeof *l->ids);
  }
  l->ids[l->count++] = id;
}

static tp_status take_id(void *ctx, const tp_message *message) {
  char text[16];
  snprintf(text, sizeof text, "%.*s", (int)message->text.size, message->text.data);
  add(ctx, atoi(text));
  return TP_OK;
}

/* What a turn got: its session, the last number in it, and how many there were. */
typedef struct seen {
  int session, last;
  size_t count;
} seen;

typedef struct worker {
  tp_history *history;
  tp_store_owner owner;
  unsigned seed;
  list known[SESSIONS];
  uint64_t numbers[SESSIONS];
  seen *seen;
  size_t seen_count, seen_capacity;
  int refused, fenced, failed, turns;
} worker;

static const char *const names[SESSIONS] = {"a", "b", "c", "d"};

static void note_seen(worker *w, int session) {
  const list *l = &w->known[session];
  if (w->seen_count == w->seen_capacity) {
    w->seen_capacity = w->seen_capacity ? 2 * w->seen_capacity : 256;
    w->seen = realloc(w->seen, w->seen_capacity * sizeof *w->seen);
  }
  w->seen[w->seen_count++] = (seen){session, l->count ? l->ids[l->count - 1] : 0, l->count};
}

static tp_status claim_session(worker *w, int session, tp_history_claim *claim) {
  list *known = &w->known[session], fresh = {.ids = NULL};
  *claim = (tp_history_claim){.struct_size = sizeof *claim};
  const tp_history_load load = {.struct_size = sizeof load,
                                .session = tp_text_of(names[session]),
                                .each = take_id,
                                .ctx = &fresh,
                                .owner = &w->owner,
                                .number = w->numbers[session],
                                .after = known->count,
                                .claim = claim};
  tp_status status = w->history->load(w->history->ctx, &load, NULL);
  if (status == TP_OK) {
    if (claim->first == 0) known->count = 0;
    else if (claim->first != known->count) wrong_loads++;
    for (size_t i = 0; i < fresh.count; i++) add(known, fresh.ids[i]);
    if (known->count != claim->position) wrong_loads++;
    w->numbers[session] = claim->number;
    note_seen(w, session);
  }
  free(fresh.ids);
  return status;
}

static tp_status append_id(worker *w, int session, const tp_history_claim *claim, int id) {
  char text[16];
  snprintf(text, sizeof text, "%d", id);
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = tp_text_of(text)};
  const tp_message *const messages[] = {&message};
  const tp_history_append request = {.struct_size = sizeof request,
                                     .session = tp_text_of(names[session]),
                                     .messages = messages,
                                     .message_count = 1,
                                     .claim = claim};
  return w->history->append(w->history->ctx, &request, NULL);
}

static void take_turn(worker *w) {
  tp_history_claim claim;
  int session = rand_r(&w->seed) % SESSIONS;
  bool has_claim = rand_r(&w->seed) % 8 != 0;
  tp_status status = has_claim ? claim_session(w, session, &claim) : TP_OK;
  if (status != TP_OK) {
    if (status == TP_ERR_BUSY) w->refused++;
    else w->failed++;
    return;
  }
  const tp_history_release release = {
      .struct_size = sizeof release, .session = tp_text_of(names[session]), .claim = &claim};
  if (has_claim && rand_r(&w->seed) % 8 == 0) {
    w->history->release(w->history->ctx, &release);
    return;
  }
  int id = ++next_id;
  if (id >= IDS_MAX) abort();
  fates[id] = IN_DOUBT;
  w->turns++;
  status = append_id(w, session, has_claim ? &claim : NULL, id);
  if (status == TP_OK) {
    fates[id] = ACKNOWLEDGED;
    acknowledged++;
    if (has_claim) add(&w->known[session], id);
    return;
  }
  if (status == TP_ERR_FENCED) {
    w->fenced++;
    fates[id] = NOT_TRIED; /* nothing of it may be there */
  } else {
    w->failed++;
  }
  w->numbers[session] = 0;
  w->known[session].count = 0;
  if (has_claim) w->history->release(w->history->ctx, &release);
}

static void *work(void *ctx) {
  while (!ends) take_turn(ctx);
  return NULL;
}

/* ---- faults ---- */

static void run_sql(const char *sql) {
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  PQclear(PQexec(connection, sql));
  PQfinish(connection);
}

/* The hosts go on: each fault is followed by some turns that succeed. */
static void await_turns(int count) {
  int before = acknowledged;
  while (acknowledged < before + count) usleep(500);
}

static void do_fault(unsigned *seed, int kind) {
  int before = proxy.done;
  proxy.left = (size_t)(rand_r(seed) % 3000);
  proxy.next = kind;
  while (proxy.done == before) usleep(200);
  await_turns(3);
}

static void end_backends(void) {
  run_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turnphase'");
  await_turns(3);
}

static void restart(int how) {
  postgres_stop(how);
  if (!postgres_start()) abort();
  await_turns(3);
}

/* ---- the checker ---- */

static list final_list(tp_history *history, int session) {
  list l = {.ids = NULL};
  const tp_history_load load = {
      .struct_size = sizeof load, .session = tp_text_of(names[session]), .each = take_id, .ctx = &l};
  assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
  return l;
}

static void check_all(tp_history *history, worker *workers, size_t count) {
  static unsigned char times[IDS_MAX];
  list lists[SESSIONS];
  int wrong = 0;
  memset(times, 0, sizeof times);
  for (int s = 0; s < SESSIONS; s++) {
    lists[s] = final_list(history, s);
    for (size_t i = 0; i < lists[s].count; i++) times[lists[s].ids[i]]++;
  }
  for (int id = 1; id <= next_id; id++) {
    bool is_right = fates[id] == ACKNOWLEDGED ? times[id] == 1 : times[id] <= (fates[id] == IN_DOUBT);
    if (!is_right) {
      print_message("# number %d: fate %d, and %d times in the lists\n", id, fates[id], times[id]);
      wrong++;
    }
  }
  for (size_t w = 0; w < count; w++)
    for (size_t i = 0; i < workers[w].seen_count; i++) {
      const seen *one = &workers[w].seen[i];
      const list *l = &lists[one->session];
      if (one->count > l->count || (one->count && l->ids[one->count - 1] != one->last)) {
        print_message("# a turn saw %zu numbers, the last %d\n", one->count, one->last);
        wrong++;
      }
    }
  for (int s = 0; s < SESSIONS; s++) free(lists[s].ids);
  assert_int_equal(wrong, 0);
  assert_int_equal(wrong_loads, 0);
}

static tp_postgres *open_through(const char *conninfo, tp_history **ret_history) {
  tp_postgres *database = NULL;
  tp_fault fault = {0};
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = conninfo, .lease_ms = 2000, .statement_ms = STATEMENT_MS};
  if (tp_postgres_open(&options, &database, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(tp_postgres_history(database, ret_history, NULL), TP_OK);
  return database;
}

TEST(what_was_acknowledged_is_kept_once_through_every_fault) {
  enum { FAULTS = 24, WORKERS = HOSTS * THREADS };
  tp_postgres *databases[HOSTS];
  static worker workers[WORKERS];
  pthread_t threads[WORKERS];
  unsigned seed = 37;
  bool is_long = getenv("TURNPHASE_ROUNDS") != NULL;
  int rounds = is_long ? 400 : FAULTS;
  start_proxy();
  for (int i = 0; i < HOSTS; i++) {
    tp_history *history = NULL;
    databases[i] = open_through(proxy.conninfo, &history);
    for (int t = 0; t < THREADS; t++)
      workers[i * THREADS + t] =
          (worker){.history = history,
                   .owner = {.struct_size = sizeof(tp_store_owner), .process_run_id = (uint64_t)(1 + i * THREADS + t)},
                   .seed = (unsigned)(1 + i * THREADS + t)};
  }
  for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  for (int i = 0; i < rounds; i++) {
    int kind = BEFORE_COMMIT + i % 3;
    if (i % 20 == 7) end_backends();
    if (i % 20 == 13) restart(SIGQUIT);
    if (i % 80 == 73) restart(SIGKILL);
    if (is_long && i % 40 == 20) kind = SILENT; /* its host waits 2.5 s */
    do_fault(&seed, kind);
  }
  ends = true;
  uint64_t lost = 0, connections = 0;
  int turns = 0, refused = 0, fenced = 0, failed = 0;
  for (int i = 0; i < WORKERS; i++) {
    pthread_join(threads[i], NULL);
    turns += workers[i].turns;
    refused += workers[i].refused;
    fenced += workers[i].fenced;
    failed += workers[i].failed;
  }
  for (int i = 0; i < HOSTS; i++) {
    tp_postgres_report report = {.struct_size = sizeof report};
    assert_int_equal(tp_postgres_counts(databases[i], &report), TP_OK);
    lost += report.lost;
    connections += report.connections;
  }
  tp_history *direct = NULL;
  tp_postgres *database = open_through(postgres_server.conninfo, &direct);
  check_all(direct, workers, WORKERS);
  print_message("# %d faults and restarts, %d turns, %d acknowledged, %d refused, %d fenced, %d failed, %d lost\n",
                rounds, turns, (int)acknowledged, refused, fenced, failed, (int)lost);
  assert_true(lost >= (uint64_t)rounds && connections > lost);
  assert_int_equal(failed, 0); /* each fault ends before timeout_ms does */
  tp_history_free(direct);
  tp_postgres_close(database);
  for (int i = 0; i < HOSTS; i++) {
    tp_history_free(workers[i * THREADS].history);
    tp_postgres_close(databases[i]);
  }
  for (int i = 0; i < WORKERS; i++) {
    free(workers[i].seen);
    for (int s = 0; s < SESSIONS; s++) free(workers[i].known[s].ids);
  }
  stop_proxy();
}

static void set_standbys(const char *sql) {
  run_sql(sql);
  run_sql("SELECT pg_reload_conf()");
  usleep(200000); /* each process of the server reads it when it is idle */
}

/* The server waits with its answer to COMMIT until a standby has the transaction, and there is none. A time limit must
 * not end that wait: the server would then answer that it has committed. */
TEST(append_that_no_standby_has_is_not_acknowledged) {
  if (!getenv("TURNPHASE_ROUNDS")) return; /* some seconds */
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = postgres_server.conninfo, .timeout_ms = 2000, .statement_ms = 300};
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = TEXT("1")};
  const tp_message *const messages[] = {&message};
  const tp_history_append request = {
      .struct_size = sizeof request, .session = TEXT("replicated"), .messages = messages, .message_count = 1};
  tp_postgres *database = NULL;
  tp_history *history = NULL;
  assert_int_equal(tp_postgres_open(&options, &database, NULL), TP_OK);
  assert_int_equal(tp_postgres_history(database, &history, NULL), TP_OK);
  assert_int_equal(history->append(history->ctx, &request, NULL), TP_OK);
  set_standbys("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
  assert_int_equal(history->append(history->ctx, &request, NULL), TP_ERR_STORE);
  set_standbys("ALTER SYSTEM RESET synchronous_standby_names");
  assert_int_equal(history->append(history->ctx, &request, NULL), TP_OK);
  tp_history_free(history);
  tp_postgres_close(database);
}

/* The turn never knew of its claim. Its host lives, and so does the lease for another session of that host. */
TEST(claim_whose_answer_was_lost_for_good_is_released_when_the_server_answers) {
  static tp_history_claim claims[2];
  static const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 7},
                              second = {.struct_size = sizeof second, .process_run_id = 8};
  tp_history *history = NULL, *other = NULL;
  tp_postgres *database = NULL, *others = open_through(postgres_server.conninfo, &other);
  start_proxy();
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = proxy.conninfo, .lease_ms = 60000, .timeout_ms = 200};
  assert_int_equal(tp_postgres_open(&options, &database, NULL), TP_OK);
  assert_int_equal(tp_postgres_history(database, &history, NULL), TP_OK);
  tp_history_load load = {.struct_size = sizeof load, .session = TEXT("held"), .owner = &owner, .claim = &claims[0]};
  tp_postgres_report report = {.struct_size = sizeof report};
  list none = {.ids = NULL};
  load.each = take_id;
  load.ctx = &none;
  assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK); /* so its lease lives */
  load.session = (tp_text)TEXT("lost");
  load.claim = &claims[1];
  proxy.refuses = true;
  proxy.next = AFTER_COMMIT;
  history->load_start(history->ctx, &load, (tp_token){0});
  while (report.operations < 2) assert_int_equal(tp_postgres_counts(database, &report), TP_OK); /* it failed */
  assert_int_equal(claims[1].fence, 0);
  load.owner = &second;
  assert_int_equal(other->load(other->ctx, &load, NULL), TP_ERR_BUSY);
  proxy.refuses = false;
  tp_status status = TP_ERR_BUSY;
  while (status == TP_ERR_BUSY) status = other->load(other->ctx, &load, NULL);
  assert_int_equal(status, TP_OK);
  tp_history_free(history);
  tp_history_free(other);
  tp_postgres_close(database);
  tp_postgres_close(others);
  stop_proxy();
}

/* ---- records ---- */

static bool no_run(const void *source, size_t index, tp_run_record *run) {
  (void)source, (void)index, (void)run;
  return false;
}

static tp_status put_entry(tp_store *store, uint64_t id) {
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = {"s\0x", 3}};
  const tp_entry_record entry = {.struct_size = sizeof entry,
                                 .process_run_id = 7,
                                 .entry_id = id,
                                 .started_unix_ms = 1,
                                 .ended_ns = 1,
                                 .ids = ids,
                                 .id_count = TP_ID_COUNT,
                                 .run = no_run};
  return store->record(store->ctx, &entry);
}

/* An entry, a turn, an attempt and an audit row of one number. */
static void put_all(tp_store *store, uint64_t id) {
  const tp_turn_record turn = {.struct_size = sizeof turn, .process_run_id = 7, .number = id, .outcome = 1};
  const tp_attempt_record attempt = {.struct_size = sizeof attempt, .process_run_id = 7, .entry_id = 1, .attempt = 1};
  const tp_audit audit = {.struct_size = sizeof audit, .unix_ms = (int64_t)id, .owner = "o", .action = "audit"};
  assert_int_equal(store->attempt(store->ctx, &attempt), TP_OK);
  assert_int_equal(put_entry(store, id), TP_OK);
  assert_int_equal(store->turn_record(store->ctx, &turn), TP_OK);
  assert_int_equal(store->audit(store->ctx, &audit), TP_OK);
}

typedef struct found {
  uint64_t entries, turns, attempts, audits, wrong;
} found;

static bool find_entry(void *ctx, const tp_entry_record *entry) {
  found *f = ctx;
  tp_text session = entry->ids[TP_ID_SESSION];
  f->entries++;
  f->wrong += session.size != 3 || memcmp(session.data, "s\0x", 3) != 0;
  return true;
}

static bool find_turn(void *ctx, const tp_turn_record *turn) {
  (void)turn;
  ((found *)ctx)->turns++;
  return true;
}

static bool find_attempt(void *ctx, const tp_attempt_record *attempt) {
  (void)attempt;
  ((found *)ctx)->attempts++;
  return true;
}

static bool find_audit(void *ctx, const tp_audit *audit) {
  (void)audit;
  ((found *)ctx)->audits++;
  return true;
}

static found find_all(tp_store *store) {
  found f = {.entries = 0};
  const tp_record_query entries = {.struct_size = sizeof entries};
  const tp_turn_query turns = {.struct_size = sizeof turns};
  const tp_attempt_query attempts = {.struct_size = sizeof attempts, .process_run_id = 7, .entry_id = 1};
  const tp_audit_query audits = {.struct_size = sizeof audits};
  assert_int_equal(store->records(store->ctx, &entries, find_entry, &f, NULL), TP_OK);
  assert_int_equal(store->turns(store->ctx, &turns, find_turn, &f, NULL), TP_OK);
  assert_int_equal(store->attempts(store->ctx, &attempts, find_attempt, &f, NULL), TP_OK);
  assert_int_equal(store->audits(store->ctx, &audits, find_audit, &f, NULL), TP_OK);
  assert_int_equal(f.wrong, 0);
  return f;
}

static tp_store *open_store(const tp_postgres_options *options, size_t queue_bytes_max) {
  tp_postgres *database = NULL;
  tp_store *store = NULL;
  const tp_postgres_store_options given = {.struct_size = sizeof given, .queue_bytes_max = queue_bytes_max};
  assert_int_equal(tp_postgres_open(options, &database, NULL), TP_OK);
  assert_int_equal(tp_postgres_store(database, &given, &store, NULL), TP_OK);
  tp_postgres_close(database);
  return store;
}

/* ---- statements that are prepared ---- */

static void keep_entries(tp_store *store, uint64_t from, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    put_all(store, from + i);
    assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
  }
}

TEST(statements_are_prepared_where_the_server_is_at_the_other_end_and_only_there) {
  enum { ENTRIES = 8 };
  start_proxy();
  const tp_postgres_options options = {.struct_size = sizeof options, .conninfo = proxy.conninfo, .schema = "planned"};
  tp_store *store = open_store(&options, 0);
  keep_entries(store, 1, ENTRIES);
  int prepared = proxy.prepared, used = proxy.used;
  assert_true(prepared > 0 && used > prepared);
  keep_entries(store, 1 + ENTRIES, ENTRIES);
  assert_true(proxy.used > used);
  assert_true(proxy.prepared - prepared <= prepared); /* what comes now and then only; nothing is prepared twice */
  proxy.left = 0;
  proxy.next = ANYWHERE; /* the new connection has nothing prepared */
  keep_entries(store, 1 + 2 * ENTRIES, 1);
  used = proxy.used;
  keep_entries(store, 2 + 2 * ENTRIES, ENTRIES);
  assert_true(proxy.used > used);
  proxy.next = NO_FAULT;
  tp_store_free(store);
  proxy.pools = true;
  prepared = proxy.prepared;
  store = open_store(&options, 0);
  keep_entries(store, 100, ENTRIES);
  assert_int_equal(proxy.prepared, prepared);
  tp_store_free(store);
  proxy.pools = false;
  stop_proxy();
}

/* As behind a pooler that gives its clients the number of its server's process. */
TEST(statement_that_the_server_has_forgotten_is_sent_whole_and_no_other_is_prepared) {
  enum { ENTRIES = 8 };
  start_proxy();
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = proxy.conninfo, .schema = "forgotten"};
  tp_store *store = open_store(&options, 0);
  keep_entries(store, 1, ENTRIES);
  int before = proxy.done;
  proxy.next = FORGOTTEN;
  keep_entries(store, 1 + ENTRIES, ENTRIES);
  assert_int_equal(proxy.done, before + 1);
  int used = proxy.used;
  keep_entries(store, 1 + 2 * ENTRIES, ENTRIES);
  assert_int_equal(proxy.used, used);
  found f = find_all(store);
  assert_int_equal(f.entries, 3 * ENTRIES);
  assert_int_equal(f.turns, 3 * ENTRIES);
  assert_int_equal(f.audits, 3 * ENTRIES);
  tp_store_free(store);
  stop_proxy();
}

/* Each commit is answered, whatever became of the answer of its transaction. */
TEST(records_that_were_committed_are_kept_once_through_every_fault) {
  enum { ROUNDS = 12 };
  static const int kinds[] = {BEFORE_COMMIT, AFTER_COMMIT, ANYWHERE};
  start_proxy();
  const tp_postgres_options through = {.struct_size = sizeof through, .conninfo = proxy.conninfo, .schema = "kept"};
  const tp_postgres_options direct = {
      .struct_size = sizeof direct, .conninfo = postgres_server.conninfo, .schema = "kept"};
  tp_store *store = open_store(&through, 0);
  uint64_t number = 0;
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < COUNT(kinds); i++) {
      proxy.left = (size_t)(round * 37);
      proxy.next = kinds[i];
      put_all(store, ++number);
      assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
      proxy.next = NO_FAULT;
    }
  }
  assert_true(proxy.done >= ROUNDS);
  tp_store *other = open_store(&direct, 0); /* the first one is still open: what is read was committed */
  found f = find_all(other);
  assert_int_equal(f.entries, number);
  assert_int_equal(f.turns, number);
  assert_int_equal(f.attempts, number);
  assert_int_equal(f.audits, number);
  tp_store_free(other);
  tp_store_free(store);
  stop_proxy();
}

static _Atomic int full_logs, again_logs;

static void log_drops(void *ctx, const tp_log_record *record) {
  (void)ctx;
  if (strstr(record->message, "the queue of records is full (65536 bytes)")) full_logs++;
  if (strstr(record->message, "records are taken again")) again_logs++;
}

TEST(records_never_wait_for_a_server_that_is_away_and_what_is_dropped_is_counted) {
  full_logs = again_logs = 0;
  const tp_postgres_options options = {.struct_size = sizeof options,
                                       .conninfo = postgres_server.conninfo,
                                       .schema = "away",
                                       .timeout_ms = 300,
                                       .log = log_drops};
  tp_store *store = open_store(&options, 65536);
  const tp_postgres_options patient = {
      .struct_size = sizeof patient, .conninfo = postgres_server.conninfo, .schema = "away"};
  assert_int_equal(put_entry(store, 1), TP_OK);
  while (store->commit(store->ctx, NULL) != TP_OK) continue; /* its time is short */
  postgres_stop(SIGQUIT);
  uint64_t taken = 1, dropped = 0;
  for (uint64_t id = 2; id <= 1000; id++) {
    tp_status status = put_entry(store, id);
    assert_true(status == TP_OK || status == TP_ERR_FULL);
    if (status == TP_OK) taken++;
    else dropped++;
  }
  assert_true(dropped > 0 && taken > 10);
  assert_int_equal(full_logs, 1);
  tp_fault fault = {0};
  assert_int_equal(store->commit(store->ctx, &fault), TP_ERR_STORE);
  assert_non_null(strstr(fault.message, "database `postgres`"));
  assert_true(postgres_start());
  while (store->commit(store->ctx, NULL) != TP_OK) continue;
  assert_int_equal(put_entry(store, 2000), TP_OK);
  assert_int_equal(again_logs, 1);
  while (store->commit(store->ctx, NULL) != TP_OK) continue;
  tp_store *other = open_store(&patient, 0);
  assert_int_equal(find_all(other).entries, taken + 1);
  tp_store_free(other);
  tp_store_free(store);
}

/* ---- jobs, calls of tools, tasks: what is done again is recognized ---- */

static tp_job found_job;
static int found_jobs, earlier_calls;

static void note_job(void *ctx, const tp_job *job) {
  (void)ctx;
  found_jobs++;
  found_job = *job; /* its numbers are looked at */
}

static bool note_listed(void *ctx, const tp_job *job) {
  note_job(ctx, job);
  return true;
}

static void note_earlier(void *ctx, const tp_tool_end_record *earlier) {
  (void)ctx, (void)earlier;
  earlier_calls++;
}

static void note_task(void *ctx, const tp_task_record *task) { *(int *)ctx += task->key.size > 0; }

static void arm(int kind) { proxy.next = kind; }

static uint64_t insert_job(tp_store *store, const char *key, int cut) {
  const tp_job job = {.struct_size = sizeof job,
                      .attempts_max = 3,
                      .handler = TEXT("h"),
                      .idempotency_key = tp_text_of(key),
                      .order_key = tp_text_of(key)};
  uint64_t id = 0;
  bool existed = true;
  arm(cut);
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  assert_false(existed);
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  assert_true(existed);
  return id;
}

static void claim_job(tp_store *store, uint64_t id, uint32_t attempt, int cut) {
  const tp_job_claim request = {.struct_size = sizeof request, .lease_ms = 60000, .take = note_job, .count_max = 8};
  int64_t next_ms;
  found_jobs = 0;
  arm(cut);
  assert_int_equal(store->job_claim(store->ctx, &request, &next_ms, NULL), TP_OK);
  assert_int_equal(found_jobs, 1);
  assert_int_equal(found_job.id, id);
  assert_int_equal(found_job.attempt, attempt);
}

static void finish_job(tp_store *store, tp_job_end end, tp_job_state want, int cut) {
  const tp_job_finish request = {
      .struct_size = sizeof request, .id = found_job.id, .claim = found_job.claim, .end = end, .reason = 1};
  uint32_t state = 0;
  arm(cut);
  assert_int_equal(store->job_finish(store->ctx, &request, &state, NULL), TP_OK);
  assert_int_equal(state, want);
  assert_int_equal(store->job_finish(store->ctx, &request, &state, NULL),
                   want == TP_JOB_QUEUED ? TP_ERR_STALE : TP_ERR_NOT_FOUND);
}

static size_t count_jobs(tp_store *store, uint32_t states) {
  const tp_job_query query = {.struct_size = sizeof query, .states = states};
  found_jobs = 0;
  assert_int_equal(store->jobs(store->ctx, &query, note_listed, NULL, NULL), TP_OK);
  return (size_t)found_jobs;
}

static void play_job(tp_store *store, const char *key, int cut) {
  uint64_t id = insert_job(store, key, cut);
  claim_job(store, id, 1, cut);
  finish_job(store, TP_JOB_END_RETRY, TP_JOB_QUEUED, cut);
  claim_job(store, id, 2, cut);
  finish_job(store, TP_JOB_END_RELEASED, TP_JOB_QUEUED, cut);
  claim_job(store, id, 2, cut);
  finish_job(store, TP_JOB_END_FAILED, TP_JOB_DEAD, cut);
  arm(cut);
  assert_int_equal(store->job_redrive(store->ctx, id, 0, NULL), TP_OK);
  claim_job(store, id, 1, cut);
  finish_job(store, TP_JOB_END_SUCCEEDED, TP_JOB_SUCCEEDED, cut);
  char other[16];
  snprintf(other, sizeof other, "%s-2", key);
  id = insert_job(store, other, cut);
  arm(cut);
  assert_int_equal(store->job_discard(store->ctx, id, 0, NULL), TP_OK);
  assert_int_equal(store->job_discard(store->ctx, id, 0, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(count_jobs(store, 0), 0); /* none is open or dead */
}

static uint64_t origin; /* of the claim of the next call */

static tp_status start_tool(tp_store *store, uint64_t turn, const char *session, uint64_t fence, uint64_t *ret_id) {
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = tp_text_of(session), [TP_ID_TURN] = TEXT("turn")};
  const tp_tool_start_record start = {.struct_size = sizeof start,
                                      .process_run_id = 7,
                                      .turn_number = turn,
                                      .ids = ids,
                                      .id_count = TP_ID_COUNT,
                                      .tool = TEXT("pay"),
                                      .arguments = TEXT("ten"),
                                      .fence = fence,
                                      .origin = origin};
  *ret_id = 0;
  earlier_calls = 0;
  return store->tool_start(store->ctx, &start, ret_id, note_earlier, NULL, NULL);
}

static void play_calls(tp_store *store, const char *session, int cut) {
  uint64_t first, second, none;
  arm(cut);
  assert_int_equal(start_tool(store, 1, session, 0, &first), TP_OK);
  assert_true(first && !earlier_calls);
  arm(cut);
  assert_int_equal(start_tool(store, 1, session, 0, &second), TP_OK);
  assert_true(second && second != first && !earlier_calls);
  for (int i = 0; i < 2; i++) { /* the turn is run again: each of its calls is matched once */
    arm(cut);
    assert_int_equal(start_tool(store, 2, session, 0, &none), TP_OK);
    assert_true(!none && earlier_calls == 1);
  }
  assert_int_equal(start_tool(store, 2, session, 0, &none), TP_OK);
  assert_true(none && !earlier_calls);
}

static void play_task(tp_store *store, const char *key, int cut) {
  const tp_task_record task = {
      .struct_size = sizeof task, .key = tp_text_of(key), .tool = TEXT("pay"), .arguments = TEXT("ten")};
  int taken = 0;
  arm(cut);
  assert_int_equal(store->task_put(store->ctx, &task, NULL), TP_OK);
  assert_int_equal(store->task_put(store->ctx, &task, NULL), TP_ERR_DUPLICATE_ID);
  arm(cut);
  assert_int_equal(store->task_take(store->ctx, task.key, note_task, &taken, NULL), TP_OK);
  assert_int_equal(store->task_take(store->ctx, task.key, note_task, &taken, NULL), TP_ERR_BUSY);
  assert_int_equal(taken, 1);
  arm(cut);
  assert_int_equal(store->task_settle(store->ctx, task.key, false, NULL), TP_OK);
  assert_int_equal(store->task_settle(store->ctx, task.key, false, NULL), TP_ERR_NOT_FOUND);
}

static void play_fork(tp_postgres *database, tp_history *history, const char *name, int cut) {
  const tp_message said = {.struct_size = sizeof said, .role = TP_ROLE_USER, .text = TEXT("hello")};
  const tp_message *const messages[] = {&said, &said};
  const tp_history_append append = {.struct_size = sizeof append,
                                    .tenant = TEXT("forks"),
                                    .session = tp_text_of(name),
                                    .messages = messages,
                                    .message_count = COUNT(messages)};
  const tp_kept_fork fork = {.struct_size = sizeof fork, .tenant = "forks", .session = name, .new_session = "forked"};
  const tp_kept_choice query = {.struct_size = sizeof query, .tenant = "forks", .session = "forked"};
  tp_kept_erased erased = {.struct_size = sizeof erased};
  uint64_t count = 0;
  arm(NO_FAULT);
  assert_int_equal(history->append(history->ctx, &append, NULL), TP_OK);
  arm(cut);
  assert_int_equal(tp_postgres_session_fork(database, &fork, &count, NULL), TP_OK);
  assert_int_equal(count, COUNT(messages));
  assert_int_equal(tp_postgres_session_fork(database, &fork, &count, NULL), TP_ERR_DUPLICATE_ID);
  arm(cut);
  assert_int_equal(tp_postgres_sessions_erase(database, &query, &erased, NULL), TP_OK);
  assert_int_equal(erased.sessions, 1);
}

TEST(each_change_of_a_store_is_made_once_whether_or_not_its_answer_is_lost) {
  static const int kinds[] = {NO_FAULT, BEFORE_COMMIT, AFTER_COMMIT};
  static const char *const keys[] = {"k1", "k2", "k3"};
  tp_store *store = NULL;
  tp_fault fault = {0};
  tp_postgres *database = NULL;
  start_proxy();
  const tp_postgres_options options = {.struct_size = sizeof options, .conninfo = proxy.conninfo};
  if (tp_postgres_open(&options, &database, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(tp_postgres_store(database, NULL, &store, NULL), TP_OK);
  tp_history *history = NULL;
  assert_int_equal(tp_postgres_history(database, &history, NULL), TP_OK);
  int before = proxy.done;
  for (size_t i = 0; i < COUNT(kinds); i++) {
    play_job(store, keys[i], kinds[i]);
    play_calls(store, keys[i], kinds[i]);
    play_task(store, keys[i], kinds[i]);
    play_fork(database, history, keys[i], kinds[i]);
  }
  assert_true(proxy.done - before >= 2 * 20);
  arm(NO_FAULT);
  tp_history_free(history);
  tp_postgres_close(database);
  tp_store_free(store);
  stop_proxy();
}

/* A host claims a session; another one takes it over. Everything that the first host's turn begins then is refused. */
TEST(turn_whose_session_was_taken_over_begins_no_call_and_inserts_no_job) {
  tp_history *history = NULL;
  tp_postgres *database = open_through(postgres_server.conninfo, &history);
  tp_store *store = NULL;
  list none = {.ids = NULL};
  tp_history_claim claims[2];
  assert_int_equal(tp_postgres_store(database, NULL, &store, NULL), TP_OK);
  for (int i = 0; i < 2; i++) {
    const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 77};
    claims[i] = (tp_history_claim){.struct_size = sizeof claims[i]};
    const tp_history_load load = {.struct_size = sizeof load,
                                  .session = TEXT("taken"),
                                  .each = take_id,
                                  .ctx = &none,
                                  .owner = &owner,
                                  .claim = &claims[i]};
    assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
  }
  assert_true(claims[1].fence > claims[0].fence);
  uint64_t id;
  assert_int_equal(start_tool(store, 1, "taken", claims[0].fence, &id), TP_ERR_FENCED);
  assert_int_equal(start_tool(store, 1, "taken", claims[1].fence, &id), TP_OK);
  assert_true(id && !earlier_calls); /* the refused one has left nothing */
  assert_int_equal(start_tool(store, 1, "unknown", 5, &id), TP_OK);
  /* {"ids": ["", "", "", "taken"]}: tenant, agent, workspace, session */
  static const char payload[] = "\x81\xa3ids\x94\xa0\xa0\xa0\xa5taken";
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1,
                .handler = TEXT("h"),
                .idempotency_key = TEXT("fenced"),
                .order_key = TEXT("fenced"),
                .payload = {payload, sizeof payload - 1},
                .fence = claims[0].fence};
  bool existed = true;
  tp_fault fault = {0};
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, &fault), TP_ERR_FENCED);
  assert_non_null(strstr(fault.message, "taken over"));
  assert_int_equal(count_jobs(store, 0), 0);
  job.fence = claims[1].fence;
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  assert_false(existed);
  job.fence = claims[0].fence;
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK); /* a known key wins */
  assert_true(existed);
  assert_int_equal(store->job_discard(store->ctx, id, 0, NULL), TP_OK);
  tp_store_free(store);
  tp_history_free(history);
  tp_postgres_close(database);
}

/* A host claims a session and stands still; the session is deleted and begun again. */
TEST(turn_whose_session_was_begun_anew_begins_no_call_and_inserts_no_job) {
  tp_history *history = NULL;
  tp_postgres *database = open_through(postgres_server.conninfo, &history);
  tp_store *store = NULL;
  list none = {.ids = NULL};
  tp_history_claim claims[2];
  const tp_history_delete deletion = {.struct_size = sizeof deletion, .session = TEXT("anew")};
  assert_int_equal(tp_postgres_store(database, NULL, &store, NULL), TP_OK);
  for (uint64_t i = 0; i < 2; i++) {
    const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 780 + i};
    claims[i] = (tp_history_claim){.struct_size = sizeof claims[i]};
    const tp_history_load load = {.struct_size = sizeof load,
                                  .session = TEXT("anew"),
                                  .each = take_id,
                                  .ctx = &none,
                                  .owner = &owner,
                                  .claim = &claims[i]};
    assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
    if (i > 0) break;
    run_sql("UPDATE turnphase.process SET lease_end = clock_timestamp() - interval '1 second' WHERE id = 780");
    assert_int_equal(history->delete_session(history->ctx, &deletion, NULL), TP_ERR_NOT_FOUND); /* it has no message */
  }
  assert_true(claims[1].fence > claims[0].fence && claims[1].number > claims[0].number);
  uint64_t id;
  assert_int_equal(start_tool(store, 1, "anew", claims[0].fence, &id), TP_ERR_FENCED);
  assert_int_equal(start_tool(store, 1, "anew", claims[1].fence, &id), TP_OK);
  assert_true(id && !earlier_calls);
  assert_int_equal(start_tool(store, 2, "anew", claims[0].fence, &id), TP_ERR_FENCED);
  assert_int_equal(earlier_calls, 0); /* the refused turn is not shown what the other turn called */
  static const char payload[] =
      "\x81\xa3ids\x94\xa0\xa0\xa0\xa4"
      "anew";
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1,
                .handler = TEXT("h"),
                .idempotency_key = TEXT("anew"),
                .payload = {payload, sizeof payload - 1},
                .fence = claims[0].fence};
  bool existed = true;
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_ERR_FENCED);
  assert_int_equal(count_jobs(store, 0), 0);
  job.fence = claims[1].fence;
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  assert_int_equal(store->job_discard(store->ctx, id, 0, NULL), TP_OK);
  /* and deleted, and not begun again: known of a claim of this database only */
  run_sql("DELETE FROM turnphase.session WHERE name = 'anew'");
  const uint64_t origins[] = {claims[1].origin, claims[1].origin ^ 2, 0};
  static const char *const keys[] = {"own", "other", "not known"};
  for (size_t i = 0; i < COUNT(origins); i++) {
    tp_status wanted = i == 0 ? TP_ERR_FENCED : TP_OK;
    origin = job.origin = origins[i];
    job.idempotency_key = tp_text_of(keys[i]);
    assert_int_equal(start_tool(store, 3, "anew", claims[1].fence, &id), wanted);
    assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), wanted);
    if (wanted == TP_OK) assert_int_equal(store->job_discard(store->ctx, id, 0, NULL), TP_OK);
  }
  origin = 0;
  tp_store_free(store);
  tp_history_free(history);
  tp_postgres_close(database);
}

/* A process that stands still does not renew its lease; simulated by ending its row's lease. */
TEST(jobs_of_a_process_whose_lease_has_ended_are_queued_again_or_dead) {
  tp_history *history = NULL;
  tp_store *stores[2];
  tp_postgres *databases[2];
  uint64_t id = 0;
  bool existed;
  for (int i = 0; i < 2; i++) {
    const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = (uint64_t)(901 + i)};
    databases[i] = open_through(postgres_server.conninfo, &history);
    tp_history_free(history);
    assert_int_equal(tp_postgres_store(databases[i], NULL, &stores[i], NULL), TP_OK);
    assert_int_equal(stores[i]->open(stores[i]->ctx, &owner, NULL), TP_OK);
  }
  const tp_job job = {.struct_size = sizeof job,
                      .attempts_max = 2,
                      .handler = TEXT("h"),
                      .idempotency_key = TEXT("left"),
                      .order_key = TEXT("left")};
  assert_int_equal(stores[0]->job_insert(stores[0]->ctx, &job, &id, &existed, NULL), TP_OK);
  for (uint32_t attempt = 1; attempt <= 2; attempt++) {
    tp_store_recovery recovered = {.struct_size = sizeof recovered};
    claim_job(stores[0], id, attempt, NO_FAULT);
    const tp_job claimed = found_job;
    assert_int_equal(stores[1]->recover(stores[1]->ctx, &recovered, NULL), TP_OK);
    assert_int_equal(recovered.jobs_requeued + recovered.jobs_dead, 0); /* it lives */
    run_sql("UPDATE turnphase.process SET lease_end = clock_timestamp() - interval '1 s' WHERE id = 901");
    recovered = (tp_store_recovery){.struct_size = sizeof recovered};
    assert_int_equal(stores[1]->recover(stores[1]->ctx, &recovered, NULL), TP_OK);
    assert_int_equal(recovered.jobs_requeued, attempt == 1);
    assert_int_equal(recovered.jobs_dead, attempt == 2);
    assert_true(recovered.owners >= 1);
    const tp_job_finish late = {
        .struct_size = sizeof late, .id = claimed.id, .claim = claimed.claim, .end = TP_JOB_END_SUCCEEDED};
    uint32_t became;
    assert_int_equal(stores[0]->job_finish(stores[0]->ctx, &late, &became, NULL),
                     attempt == 1 ? TP_ERR_STALE : TP_ERR_NOT_FOUND);
    tp_store_free(stores[0]); /* its process begins anew */
    const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 901};
    assert_int_equal(tp_postgres_store(databases[0], NULL, &stores[0], NULL), TP_OK);
    assert_int_equal(stores[0]->open(stores[0]->ctx, &owner, NULL), TP_OK);
  }
  assert_int_equal(count_jobs(stores[1], 1u << TP_JOB_DEAD), 1);
  assert_int_equal(found_job.reason, TP_REASON_CRASH);
  assert_int_equal(stores[1]->job_discard(stores[1]->ctx, id, 0, NULL), TP_OK);
  for (int i = 0; i < 2; i++) {
    tp_store_free(stores[i]);
    tp_postgres_close(databases[i]);
  }
}

TEST_MAIN(count, arguments) {
  const char *lack = postgres_lack();
  if (lack) {
    printf("1..0 # SKIP %s\n", lack);
    return 0;
  }
  postgres_server.settings[0] = "wal_level=replica";
  postgres_server.settings[1] = "max_wal_senders=4"; /* else the server waits for no standby */
  postgres_make();
  int failed = test_main(count, arguments);
  postgres_remove();
  return failed;
}
