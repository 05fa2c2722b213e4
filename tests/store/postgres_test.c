/* SPDX-License-Identifier: Apache-2.0
 *
 * A history in a PostgreSQL database, beyond the behaviour of every history (history_test.c, ownership_test.c): how it
 * is opened, by which user, the content of faults, and the limits of a message. */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/support/test.h"
#include "stores/postgres/connection.h"
#include "stores/postgres/store.h"
#include "tests/support/host.h"
#include "tests/support/postgres_server.h"
#include "turnphase/postgres.h"
#include "turnphase/value.h"

static const tp_text odd_name = TEXT("nul \0 and \xff");
static const char secret[] = "s3cr3t/p@ss%";

/* ---- a database ---- */

static int schema_count;
static char schema[16];
static int new_schema(void **state) {
  (void)state;
  snprintf(schema, sizeof schema, "s%d", schema_count++);
  return 0;
}
FOR_EACH_TEST(new_schema, NULL);

static tp_status open_as(const char *conninfo, bool existing_only, tp_postgres **ret_database, tp_fault *fault) {
  const tp_postgres_options options = {.struct_size = sizeof options,
                                       .conninfo = conninfo,
                                       .schema = schema,
                                       .timeout_ms = 2000,
                                       .existing_only = existing_only};
  return tp_postgres_open(&options, ret_database, fault);
}

static tp_postgres *open_database(tp_history **ret_history) {
  tp_postgres *database = NULL;
  tp_fault fault = {0};
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = postgres_server.conninfo, .schema = schema};
  if (tp_postgres_open(&options, &database, &fault) != TP_OK) fail_msg("%s", fault.message);
  if (ret_history) assert_int_equal(tp_postgres_history(database, ret_history, NULL), TP_OK);
  return database;
}

/* As the superuser, outside of the library. '@' is the schema. */
static void run_sql(const char *format) {
  char sql[2048], *to = sql;
  for (; *format && to < sql + sizeof sql - sizeof schema; format++) {
    if (*format == '@') to += sprintf(to, "%s", schema);
    else *to++ = *format;
  }
  *to = '\0';
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  PQsetNoticeReceiver(connection, NULL, NULL);
  PGresult *result = PQexec(connection, sql);
  if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
    fail_msg("%s: %s", sql, PQerrorMessage(connection));
  PQclear(result);
  PQfinish(connection);
}

/* ---- opening ---- */

static void assert_no_secret(const tp_fault *fault) {
  static const char *const parts[] = {secret, "s3cr3t", "p@ss", "p%40ss", "ss%"};
  for (size_t i = 0; i < COUNT(parts); i++) {
    if (strstr(fault->message, parts[i]) || strstr(fault->subject, parts[i]))
      fail_msg("'%s' shows the password", fault->message);
  }
}

TEST(what_is_refused_names_the_remedy_and_never_the_password) {
  static const struct {
    const char *conninfo, *says;
    tp_status status;
  } cases[] = {
      {NULL, "needs a connection string", TP_ERR_USAGE},
      {"", "needs a connection string", TP_ERR_USAGE},
      {"nonsense", "is not shown", TP_ERR_USAGE},
      {"host=/nowhere password=s3cr3t p@ss", "is not shown", TP_ERR_USAGE},
      {"host=/nowhere pasword=s3cr3t", "is not shown", TP_ERR_USAGE},
      {"postgres://u:s3cr3t/p@ss%@127.0.0.1/d", "%40", TP_ERR_USAGE},
      {"postgres://u:s3cr3t%2Fp%4@127.0.0.1/d", "is not shown", TP_ERR_USAGE},
      {"postgres://u:s3cr3t@127.0.0.1:port/d", "cannot connect", TP_ERR_STORE},
      {"host=/nowhere user=u dbname=d password='s3cr3t/p@ss%'", "database `d` at /nowhere:5432", TP_ERR_STORE},
      {"postgres://u:s3cr3t%2Fp%40ss%25@127.0.0.1:1/d", "database `d` at 127.0.0.1:1: cannot connect", TP_ERR_STORE},
      {"host='s3cr3t/p@ss%' password='s3cr3t/p@ss%'", "cannot connect", TP_ERR_STORE},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_postgres *database = NULL;
    tp_fault fault = {0};
    tp_status status = open_as(cases[i].conninfo, false, &database, &fault);
    if (status != cases[i].status) fail_msg("case %zu: %s: %s", i, tp_status_name(status), fault.message);
    if (!strstr(fault.message, cases[i].says)) fail_msg("case %zu: %s", i, fault.message);
    assert_no_secret(&fault);
    assert_null(database);
  }
}

TEST(options_that_cannot_be_are_refused) {
  const char *const schemas[] = {"a@b", "\x80", "0123456789012345678901234567890123456789012345678901234567890123"};
  tp_postgres *database = NULL;
  tp_postgres_options options = {.struct_size = sizeof options, .conninfo = postgres_server.conninfo};
  for (size_t i = 0; i < COUNT(schemas); i++) {
    options.schema = schemas[i];
    assert_int_equal(tp_postgres_open(&options, &database, NULL), TP_ERR_USAGE);
  }
  options.struct_size = 3;
  assert_int_equal(tp_postgres_open(&options, &database, NULL), TP_ERR_VERSION);
  assert_int_equal(tp_postgres_open(NULL, &database, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_postgres_history(NULL, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_postgres_counts(NULL, NULL), TP_ERR_USAGE);
  tp_postgres_close(NULL);
}

TEST(schema_is_made_once_however_many_open_it_at_once) {
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  void *(*const open_one)(void *) = (void *(*)(void *))(uintptr_t)open_database;
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, open_one, NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    void *database;
    pthread_join(threads[i], &database);
    tp_postgres_close(database);
  }
}

TEST(schema_of_another_version_or_program_is_refused) {
  static const struct {
    const char *sql;
    tp_status status, existing;
  } steps[] = {{"SELECT 1", TP_OK, TP_ERR_NOT_FOUND}, /* there is none yet: made after the check */
               {"UPDATE @.version SET version = version + 1", TP_ERR_STORE_SCHEMA, TP_ERR_STORE_SCHEMA},
               {"UPDATE @.version SET version = version - 1", TP_OK, TP_OK},
               {"DELETE FROM @.version", TP_ERR_STORE_SCHEMA, TP_ERR_NOT_FOUND}, /* its tables are there */
               {"DROP TABLE @.version; CREATE TABLE @.version (id text)", TP_ERR_STORE_SCHEMA, TP_ERR_STORE_SCHEMA}};
  for (size_t i = 0; i < COUNT(steps); i++) {
    tp_fault fault = {0};
    tp_postgres *database = NULL;
    run_sql(steps[i].sql);
    tp_status status = open_as(postgres_server.conninfo, true, &database, &fault);
    if (status != steps[i].existing) fail_msg("step %zu: %s: %s", i, tp_status_name(status), fault.message);
    tp_postgres_close(database);
    database = NULL;
    status = open_as(postgres_server.conninfo, false, &database, &fault);
    if (status != steps[i].status) fail_msg("step %zu: %s: %s", i, tp_status_name(status), fault.message);
    tp_postgres_close(database);
  }
}

static void append_text(tp_history *history, const char *session, tp_text text, tp_status wanted, tp_fault *fault) {
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = text};
  const tp_message *const messages[] = {&message};
  const tp_history_append request = {
      .struct_size = sizeof request, .session = tp_text_of(session), .messages = messages, .message_count = 1};
  tp_status status = history->append(history->ctx, &request, fault);
  if (status != wanted) fail_msg("%s: %s", tp_status_name(status), fault ? fault->message : "");
}

TEST(role_needs_the_rights_of_the_page_and_no_others) {
  char conninfo[160];
  tp_fault fault = {0};
  tp_postgres *database = NULL;
  tp_history *history = NULL;
  run_sql("CREATE ROLE plain LOGIN");
  snprintf(conninfo, sizeof conninfo, "host=%s dbname=postgres user=plain", postgres_server.directory);
  assert_int_equal(open_as(conninfo, false, &database, &fault), TP_ERR_STORE_READONLY);
  assert_non_null(strstr(fault.message, "GRANT CREATE"));
  tp_postgres_close(open_database(NULL));
  assert_int_equal(open_as(conninfo, false, &database, &fault), TP_ERR_STORE_READONLY);
  assert_non_null(strstr(fault.message, "docs/postgres.md"));
  run_sql(
      "GRANT USAGE ON SCHEMA @ TO plain; GRANT SELECT ON @.version TO plain;"
      "GRANT SELECT ON @.process, @.session, @.message TO plain");
  assert_int_equal(open_as(conninfo, false, &database, &fault), TP_OK);
  assert_int_equal(tp_postgres_history(database, &history, NULL), TP_OK);
  append_text(history, "s", (tp_text)TEXT("x"), TP_ERR_STORE_READONLY, &fault);
  assert_non_null(strstr(fault.message, "permission denied"));
  run_sql("GRANT INSERT, UPDATE, DELETE ON @.process, @.session, @.message TO plain");
  append_text(history, "s", (tp_text)TEXT("x"), TP_OK, &fault);
  tp_history_free(history);
  tp_postgres_close(database);
}

/* ---- jobs ---- */

static uint64_t claimed_id, claimed_token;

static void take_job(void *ctx, const tp_job *job) {
  ++*(int *)ctx;
  claimed_id = job->id;
  claimed_token = job->claim;
}

/* A key that no text takes. */
static uint64_t insert_job(tp_store *store, int number, tp_status wanted) {
  char key[] = "\0\xffkey 0";
  key[sizeof key - 2] = (char)('0' + number);
  const tp_job job = {.struct_size = sizeof job,
                      .attempts_max = 1,
                      .handler = TEXT("h\0"),
                      .idempotency_key = {key, sizeof key - 1},
                      .order_key = {key, sizeof key - 1},
                      .payload = TEXT("\x80")};
  uint64_t id = 0;
  bool existed = false;
  tp_fault fault = {0};
  tp_status status = store->job_insert(store->ctx, &job, &id, &existed, &fault);
  if (status != wanted) fail_msg("%s: %s", tp_status_name(status), fault.message);
  return id;
}

static void run_job(tp_store *store) {
  int count = 0;
  int64_t next_ms;
  uint32_t state = 0;
  const tp_job_claim claim = {.struct_size = sizeof claim, .lease_ms = 60000, .take = take_job, .ctx = &count};
  assert_int_equal(store->job_claim(store->ctx, &claim, &next_ms, NULL), TP_OK);
  assert_int_equal(count, 1);
  const tp_job_finish end = {
      .struct_size = sizeof end, .id = claimed_id, .claim = claimed_token, .end = TP_JOB_END_SUCCEEDED};
  assert_int_equal(store->job_finish(store->ctx, &end, &state, NULL), TP_OK);
  assert_int_equal(state, TP_JOB_SUCCEEDED);
}

static bool count_job(void *ctx, const tp_job *job) {
  assert_int_equal(job->payload.size, 0);
  ++*(int *)ctx;
  return true;
}

static void ignore_end(void *ctx, const tp_tool_end_record *end) { (void)ctx, (void)end; }

TEST(store_needs_the_rights_of_the_page_takes_so_many_jobs_and_forgets_old_ones) {
  char conninfo[160];
  tp_fault fault = {0};
  tp_postgres *database = NULL;
  tp_store *store = NULL;
  const tp_postgres_store_options options = {.struct_size = sizeof options, .jobs_max = 3, .jobs_ended_max = 2};
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 5, .durability = TP_DURABILITY_SYNC};
  snprintf(conninfo, sizeof conninfo, "host=%s dbname=postgres user=clerk", postgres_server.directory);
  tp_postgres_close(open_database(NULL));
  run_sql(
      "CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA @ TO clerk; GRANT SELECT ON @.version TO clerk;"
      "GRANT SELECT, INSERT, UPDATE, DELETE ON @.process, @.session, @.message TO clerk;"
      "GRANT SELECT, INSERT, UPDATE, DELETE ON @.entry, @.late, @.attempt, @.content, @.turn, @.running, @.died,"
      " @.audit, @.flush TO clerk;"
      "GRANT SELECT, INSERT, UPDATE, DELETE ON @.job, @.job_key, @.job_ended, @.task, @.tool_start TO clerk;"
      "GRANT SELECT, INSERT ON @.secret TO clerk");
  if (open_as(conninfo, true, &database, &fault) != TP_OK) fail_msg("%s", fault.message);
  if (tp_postgres_store(database, &options, &store, &fault) != TP_OK) fail_msg("%s", fault.message);
  if (store->open(store->ctx, &owner, &fault) != TP_OK) fail_msg("%s", fault.message);
  if (store->recover(store->ctx, NULL, &fault) != TP_OK) fail_msg("%s", fault.message);
  uint64_t first = insert_job(store, 0, TP_OK);
  for (int i = 1; i < 3; i++) (void)insert_job(store, i, TP_OK);
  (void)insert_job(store, 3, TP_ERR_FULL);
  assert_int_equal(insert_job(store, 0, TP_OK), first); /* a known key needs no place */
  for (int i = 0; i < 3; i++) run_job(store);
  int count = 0;
  const tp_job_query query = {.struct_size = sizeof query, .states = ~0u};
  assert_int_equal(store->jobs(store->ctx, &query, count_job, &count, NULL), TP_OK);
  assert_int_equal(count, 2);
  assert_true(insert_job(store, 0, TP_OK) > first); /* its key was forgotten with it */
  run_job(store);
  const tp_tool_start_record start = {.struct_size = sizeof start, .process_run_id = 5, .tool = odd_name};
  const tp_task_record task = {.struct_size = sizeof task, .key = odd_name, .tool = TEXT("t")};
  uint64_t id = 0;
  assert_int_equal(store->tool_start(store->ctx, &start, &id, ignore_end, NULL, NULL), TP_OK);
  const tp_tool_end_record end = {.struct_size = sizeof end, .start_id = id, .text = odd_name};
  assert_int_equal(store->tool_end(store->ctx, &end, NULL), TP_OK);
  assert_int_equal(store->task_put(store->ctx, &task, NULL), TP_OK);
  assert_int_equal(store->task_settle(store->ctx, task.key, false, NULL), TP_OK);
  assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
  tp_store_free(store);
  tp_postgres_close(database);
}

TEST(store_refuses_wrong_options) {
  tp_postgres *database = open_database(NULL);
  tp_store *store = NULL;
  tp_postgres_store_options options = {.struct_size = 0};
  assert_int_equal(tp_postgres_store(database, &options, &store, NULL), TP_ERR_VERSION);
  options = (tp_postgres_store_options){.struct_size = sizeof options, .reserved_ = 1};
  assert_int_equal(tp_postgres_store(database, &options, &store, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_postgres_store(NULL, NULL, &store, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_postgres_store(database, NULL, NULL, NULL), TP_ERR_USAGE);
  assert_null(store);
  tp_postgres_close(database);
}

/* ---- messages ---- */

static const tp_text odd = TEXT("nul \0, no UTF-8 \x80\xff, 'quotes\" \\ and a \n line");

static bool is_odd(tp_text text) { return text.size == odd.size && memcmp(text.data, odd.data, odd.size) == 0; }

static tp_status compare_message(void *ctx, const tp_message *m) {
  int *count = ctx;
  assert_int_equal(m->struct_size, sizeof *m);
  assert_int_equal(m->role, ++*count);
  assert_int_equal(m->is_error, *count % 2);
  assert_true(is_odd(m->turn_id) && is_odd(m->text) && is_odd(m->call_id) && is_odd(m->name) && is_odd(m->parts));
  assert_true(is_odd(m->value) && is_odd(m->provider_data) && is_odd(m->ending));
  assert_int_equal(m->call_count, *count);
  for (size_t i = 0; i < m->call_count; i++) {
    const tp_tool_call *call = m->calls[i];
    assert_int_equal(call->struct_size, sizeof *call);
    assert_true(is_odd(call->id) && is_odd(call->arguments) && call->malformed == (i % 2 == 0));
    assert_int_equal(call->name.size, i);
  }
  return TP_OK;
}

TEST(message_comes_back_with_all_its_bytes) {
  tp_history *history = NULL;
  tp_postgres *database = open_database(&history);
  tp_tool_call calls[4];
  tp_message messages[4];
  const tp_tool_call *call_list[4];
  const tp_message *list[4];
  int count = 0;
  for (size_t i = 0; i < 4; i++) {
    calls[i] = (tp_tool_call){
        .struct_size = sizeof *calls, .id = odd, .name = {odd.data, i}, .arguments = odd, .malformed = i % 2 == 0};
    messages[i] = (tp_message){.struct_size = sizeof *messages,
                               .role = (tp_role)(i + 1),
                               .is_error = (i + 1) % 2,
                               .turn_id = odd,
                               .text = odd,
                               .call_id = odd,
                               .name = odd,
                               .parts = odd,
                               .value = odd,
                               .provider_data = odd,
                               .ending = odd,
                               .calls = call_list,
                               .call_count = i + 1};
    call_list[i] = &calls[i];
    list[i] = &messages[i];
  }
  const tp_history_append append = {.struct_size = sizeof append,
                                    .tenant = TEXT("tenant 'with' \"quotes\""),
                                    .session = TEXT("s\xc3\xa9"),
                                    .messages = list,
                                    .message_count = 4};
  const tp_history_load load = {.struct_size = sizeof load,
                                .tenant = append.tenant,
                                .session = append.session,
                                .each = compare_message,
                                .ctx = &count};
  assert_int_equal(history->append(history->ctx, &append, NULL), TP_OK);
  assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
  assert_int_equal(count, 4);
  tp_history_free(history);
  tp_postgres_close(database);
}

static tp_status stop_at_two(void *ctx, const tp_message *m) {
  (void)m;
  return ++*(int *)ctx == 2 ? TP_ERR_CANCELLED : TP_OK;
}

TEST(receiver_that_refuses_a_message_ends_the_load) {
  tp_history *history = NULL;
  tp_postgres *database = open_database(&history);
  int count = 0;
  const tp_history_load load = {.struct_size = sizeof load, .session = TEXT("s"), .each = stop_at_two, .ctx = &count};
  for (int i = 0; i < 3; i++) append_text(history, "s", odd, TP_OK, NULL);
  assert_int_equal(history->load(history->ctx, &load, NULL), TP_ERR_CANCELLED);
  assert_int_equal(count, 2);
  tp_history_free(history);
  tp_postgres_close(database);
}

/* ---- groups ---- */

static tp_status count_message(void *ctx, const tp_message *m) {
  (void)m;
  ++*(int *)ctx;
  return TP_OK;
}

static int count_of(tp_history *history, const char *session) {
  int count = 0;
  const tp_history_load load = {
      .struct_size = sizeof load, .session = tp_text_of(session), .each = count_message, .ctx = &count};
  assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
  return count;
}

static tp_postgres_report counts_of(tp_postgres *database) {
  tp_postgres_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_postgres_counts(database, &report), TP_OK);
  return report;
}

static void begin_append(tp_history *history, const char *session, const char *text) {
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = tp_text_of(text)};
  const tp_message *const messages[] = {&message};
  const tp_history_append request = {
      .struct_size = sizeof request, .session = tp_text_of(session), .messages = messages, .message_count = 1};
  history->append_start(history->ctx, &request, (tp_token){0});
}

/* A name that the server cannot store fails its own append, but no other one of its transaction. */
TEST(appends_that_wait_share_a_transaction_and_one_that_cannot_be_written_fails_by_itself) {
  enum { SESSIONS = 100 };
  tp_history *history = NULL;
  tp_postgres *database = open_database(&history);
  char name[16];
  for (int i = 0; i < SESSIONS; i++) {
    snprintf(name, sizeof name, "s%d", i);
    begin_append(history, name, "one");
  }
  for (int i = 0; i < SESSIONS; i++) {
    snprintf(name, sizeof name, "s%d", i);
    assert_int_equal(count_of(history, name), 1);
  }
  assert_in_range(counts_of(database).transactions, SESSIONS + 1, SESSIONS + 50); /* a load each */
  tp_fault fault = {0};
  for (int i = 0; i < 10; i++) begin_append(history, "s0", "two"); /* of one session: in their order */
  begin_append(history, "s1\xff", "not UTF-8");
  for (int i = 1; i < SESSIONS; i++) {
    snprintf(name, sizeof name, "s%d", i);
    begin_append(history, name, "three");
  }
  append_text(history, "\xff", odd, TP_ERR_UTF8, &fault);
  assert_int_equal(count_of(history, "s0"), 11);
  for (int i = 1; i < SESSIONS; i++) {
    snprintf(name, sizeof name, "s%d", i);
    assert_int_equal(count_of(history, name), 2);
  }
  tp_history_free(history);
  tp_postgres_close(database);
}

/* ---- turns ---- */

static void answer(void *ctx, const tp_model_request *request, tp_token token) {
  static const tp_model_response yes = {.struct_size = sizeof yes, .text = TEXT("yes")};
  (void)ctx, (void)request;
  (void)!tp_model_complete(token, &yes, NULL);
}

TEST(turn_that_finds_nothing_new_waits_for_the_server_twice) {
  enum { TURNS = 10 };
  tp_history *history = NULL;
  tp_postgres *database = open_database(&history);
  const tp_model model = {.struct_size = sizeof model, .name = "echo", .start = answer};
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = &model, .history = history};
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session = NULL;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  uint64_t before = 0;
  for (int i = 0; i <= TURNS; i++) {
    const tp_turn_result *result = NULL;
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    tp_turn_result_free(result);
    if (i == 0) before = counts_of(database).transactions;
  }
  assert_int_equal(counts_of(database).transactions - before, 2 * TURNS);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  tp_postgres_close(database);
}

/* ---- when the server is late, or away ---- */

/* Holds the row of a session, as a transaction of another program might. */
static PGconn *lock_sessions(void) {
  char sql[64];
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  snprintf(sql, sizeof sql, "SELECT 1 FROM %s.session FOR UPDATE", schema);
  PQclear(PQexec(connection, "BEGIN"));
  PGresult *rows = PQexec(connection, sql);
  assert_int_equal(PQresultStatus(rows), PGRES_TUPLES_OK);
  PQclear(rows);
  return connection;
}

static tp_postgres *open_impatient(uint32_t timeout_ms, uint32_t statement_ms, tp_history **ret_history) {
  tp_postgres *database = NULL;
  const tp_postgres_options options = {.struct_size = sizeof options,
                                       .conninfo = postgres_server.conninfo,
                                       .schema = schema,
                                       .timeout_ms = timeout_ms,
                                       .statement_ms = statement_ms};
  assert_int_equal(tp_postgres_open(&options, &database, NULL), TP_OK);
  assert_int_equal(tp_postgres_history(database, ret_history, NULL), TP_OK);
  return database;
}

static tp_status claim_as(tp_history *history, uint64_t process, tp_history_claim *claim, tp_fault *fault) {
  int count = 0;
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = process};
  *claim = (tp_history_claim){.struct_size = sizeof *claim};
  const tp_history_load load = {.struct_size = sizeof load,
                                .session = TEXT("s"),
                                .each = count_message,
                                .ctx = &count,
                                .owner = &owner,
                                .claim = claim};
  return history->load(history->ctx, &load, fault);
}

static void release_as(tp_history *history, const tp_history_claim *claim) {
  const tp_history_release release = {.struct_size = sizeof release, .session = TEXT("s"), .claim = claim};
  history->release(history->ctx, &release);
}

TEST(turn_that_left_while_its_load_was_under_way_leaves_no_claim) {
  tp_history *history = NULL, *other = NULL;
  tp_postgres *database = open_database(&history), *others = open_database(&other);
  const tp_model model = {.struct_size = sizeof model, .name = "echo", .start = answer};
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = &model, .history = history};
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello"), .limit_ms = 30};
  const tp_turn_result *result = NULL;
  tp_history_claim claim;
  append_text(other, "s", odd, TP_OK, NULL);
  PGconn *lock = lock_sessions();
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session = NULL;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->code, TP_ERR_TIMEOUT);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime); /* what the load was given is gone */
  PQfinish(lock);
  /* A read of the session comes after its claim, and the claim after the release: each waits for the one before. */
  while (counts_of(database).operations < 2) sleep_ms(1);
  assert_int_equal(claim_as(other, 77, &claim, NULL), TP_OK);
  assert_true(claim.fence == (claim.number << 28) + 2); /* the one before had been made */
  release_as(other, &claim);
  tp_history_free(other);
  tp_postgres_close(database);
  tp_postgres_close(others);
}

/* Waits until a statement of the library waits for a lock. */
static void await_lock_wait(void) {
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  for (int waiting = 0; waiting == 0;) {
    PGresult *rows = PQexec(connection,
                            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'turnphase'"
                            " AND wait_event_type = 'Lock'");
    waiting = PQntuples(rows);
    PQclear(rows);
  }
  PQfinish(connection);
}

TEST(session_that_is_deleted_while_an_append_waits_for_it_begins_anew) {
  tp_history *history = NULL;
  tp_postgres *database = open_database(&history);
  char sql[160];
  append_text(history, "s", odd, TP_OK, NULL);
  PGconn *lock = lock_sessions();
  begin_append(history, "s", "anew");
  await_lock_wait();
  snprintf(sql, sizeof sql, "DELETE FROM %s.message; DELETE FROM %s.session; COMMIT", schema, schema);
  PGresult *result = PQexec(lock, sql);
  assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
  PQclear(result);
  PQfinish(lock);
  assert_int_equal(count_of(history, "s"), 1);
  tp_history_free(history);
  tp_postgres_close(database);
}

TEST(session_that_another_program_locks_is_busy_after_the_time_and_free_then) {
  tp_history *history = NULL;
  tp_fault fault = {0};
  tp_history_claim claim;
  tp_postgres *database = open_impatient(300, 50, &history);
  append_text(history, "s", odd, TP_OK, NULL);
  PGconn *lock = lock_sessions();
  append_text(history, "s", odd, TP_ERR_STORE_BUSY, &fault);
  assert_non_null(strstr(fault.message, "timeout"));
  assert_null(strstr(fault.message, "not known"));
  assert_int_equal(claim_as(history, 7, &claim, &fault), TP_ERR_STORE_BUSY);
  assert_int_equal(claim.fence, 0);
  PQfinish(lock);
  append_text(history, "s", odd, TP_OK, NULL);
  assert_int_equal(count_of(history, "s"), 2);
  assert_in_range(counts_of(database).retries, 2, 100);
  tp_history_free(history);
  tp_postgres_close(database);
}

TEST(server_that_is_away_fails_turns_after_the_time_and_what_was_released_is_free_when_it_is_back) {
  tp_history *history = NULL, *other = NULL;
  tp_fault fault = {0};
  tp_history_claim claim, second;
  tp_postgres *database = open_impatient(200, 200, &history), *others = open_impatient(5000, 1000, &other);
  append_text(history, "s", odd, TP_OK, NULL);
  assert_int_equal(claim_as(history, 7, &claim, NULL), TP_OK);
  assert_int_equal(claim_as(other, 8, &second, &fault), TP_ERR_BUSY);
  assert_non_null(strstr(fault.message, "its lease ends in"));
  postgres_stop(SIGINT);
  append_text(history, "t", odd, TP_ERR_STORE, &fault);
  assert_non_null(strstr(fault.message, "cannot append to a session: "));
  assert_true(strstr(fault.message, "No such file") || strstr(fault.message, "connection"));
  release_as(history, &claim);
  append_text(history, "t", odd, TP_ERR_STORE, &fault); /* a release has no deadline */
  assert_true(postgres_start());
  tp_status status = TP_ERR_BUSY; /* until the release has come */
  while (status == TP_ERR_BUSY) status = claim_as(other, 8, &second, NULL);
  assert_int_equal(status, TP_OK);
  assert_true(second.fence == claim.fence + 1);
  release_as(other, &second);
  append_text(history, "t", odd, TP_OK, NULL);
  assert_int_equal(count_of(other, "t"), 1);
  tp_history_free(history);
  tp_history_free(other);
  tp_postgres_close(database);
  tp_postgres_close(others);
}

TEST(closing_ends_the_leases_of_this_process_at_once) {
  tp_history *history = NULL, *other = NULL;
  tp_history_claim claim;
  tp_postgres *database = open_database(&history), *others = open_database(&other);
  assert_int_equal(claim_as(history, 7, &claim, NULL), TP_OK);
  assert_int_equal(claim_as(other, 8, &claim, NULL), TP_ERR_BUSY);
  tp_history_free(history);
  tp_postgres_close(database);
  assert_int_equal(claim_as(other, 8, &claim, NULL), TP_OK);
  tp_history_free(other);
  tp_postgres_close(others);
}

/* ---- sessions: listing, reading, forking and erasing them ---- */

/** What a list or a read has shown. */
typedef struct shown {
  int sessions;
  tp_kept_session last; /* without its texts */
  char name[24], holder[64], kinds[512];
} shown;

static bool note_session(void *ctx, const tp_kept_session *session) {
  shown *s = ctx;
  s->sessions++;
  s->last = *session;
  snprintf(s->name, sizeof s->name, "%.*s", (int)session->session.size, session->session.data);
  snprintf(s->holder, sizeof s->holder, "%.*s", (int)session->holder.size, session->holder.data);
  return true;
}

static bool note_row(void *ctx, const char *kind, tp_text row) {
  shown *s = ctx;
  size_t used = strlen(s->kinds);
  assert_int_equal(tp_value_kind_of(row), TP_VALUE_MAP);
  snprintf(s->kinds + used, sizeof s->kinds - used, "%s ", kind);
  return strcmp(kind, "task") != 0 && strcmp(kind, s->name) != 0; /* stops at the last one, or at the one it names */
}

static shown list_named(tp_postgres *database, const char *session) {
  const tp_kept_query query = {.struct_size = sizeof query, .session = session};
  shown s = {.sessions = 0};
  tp_fault fault = {0};
  if (tp_postgres_sessions_list(database, &query, note_session, &s, &fault) != TP_OK) fail_msg("%s", fault.message);
  return s;
}

/* A job as a runtime makes it: its payload has the ids of its turn. */
static void insert_job_of(tp_store *store, const char *session, const char *turn, const char *key) {
  tp_writer *writer = NULL;
  tp_text payload;
  uint64_t id;
  bool existed;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_write_map(writer, 1);
  tp_write_string(writer, "ids");
  tp_write_array(writer, TP_ID_COUNT);
  for (int i = 0; i < TP_ID_COUNT; i++)
    tp_write_string(writer, i == TP_ID_SESSION ? session : i == TP_ID_TURN ? turn : "");
  assert_int_equal(tp_writer_finish(writer, &payload), TP_OK);
  const tp_job job = {.struct_size = sizeof job,
                      .attempts_max = 1,
                      .handler = TEXT("h"),
                      .idempotency_key = tp_text_of(key),
                      .payload = payload};
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  tp_writer_free(writer);
}

/* What a store keeps of a session, of every kind but those of a turn's records. */
static void keep_session(tp_store *store, tp_history *history, const char *session) {
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = tp_text_of(session), [TP_ID_TURN] = TEXT("turn")};
  const tp_tool_start_record start = {
      .struct_size = sizeof start, .process_run_id = 5, .ids = ids, .id_count = TP_ID_COUNT, .tool = odd_name};
  const tp_task_record task = {.struct_size = sizeof task,
                               .key = tp_text_of(session),
                               .tool = TEXT("t"),
                               .session = tp_text_of(session),
                               .created_unix_ms = 1};
  const tp_entry_record entry = {.struct_size = sizeof entry,
                                 .process_run_id = 5,
                                 .entry_id = 1 + (uint64_t)schema_count,
                                 .started_unix_ms = 2,
                                 .ended_ns = 3,
                                 .ids = ids,
                                 .id_count = TP_ID_COUNT};
  const tp_attempt_record attempt = {
      .struct_size = sizeof attempt, .process_run_id = 5, .entry_id = entry.entry_id, .message = odd_name};
  const tp_turn_record turn = {.struct_size = sizeof turn,
                               .process_run_id = 5,
                               .number = entry.entry_id,
                               .ended_unix_ms = 4,
                               .ids = ids,
                               .id_count = TP_ID_COUNT};
  const tp_audit audit = {.struct_size = sizeof audit, .owner = "o", .action = "a", .turn = "turn", .session = session};
  uint64_t id = 0;
  append_text(history, session, odd_name, TP_OK, NULL);
  insert_job_of(store, session, "", session);
  assert_int_equal(store->tool_start(store->ctx, &start, &id, ignore_end, NULL, NULL), TP_OK);
  assert_int_equal(store->task_put(store->ctx, &task, NULL), TP_OK);
  assert_int_equal(store->attempt(store->ctx, &attempt), TP_OK);
  assert_int_equal(store->record(store->ctx, &entry), TP_OK);
  assert_int_equal(store->turn_record(store->ctx, &turn), TP_OK);
  assert_int_equal(store->audit(store->ctx, &audit), TP_OK);
  assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
}

TEST(what_there_is_of_a_session_is_listed_read_and_erased) {
  tp_history *history = NULL;
  tp_store *store = NULL;
  tp_history_claim claim;
  tp_fault fault = {0};
  tp_postgres *database = open_database(&history);
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 5, .durability = TP_DURABILITY_SYNC};
  const tp_kept_choice of_s = {.struct_size = sizeof of_s, .session = "s"}, none = {.struct_size = 0};
  tp_kept_erased erased = {.struct_size = sizeof erased};
  assert_int_equal(tp_postgres_store(database, NULL, &store, NULL), TP_OK);
  assert_int_equal(store->open(store->ctx, &owner, NULL), TP_OK);
  keep_session(store, history, "s");
  append_text(history, "t", odd_name, TP_OK, NULL);
  assert_string_equal(list_named(database, NULL).name, "t"); /* the newest is the last */
  shown s = list_named(database, "s");
  assert_int_equal(s.sessions, 1);
  const tp_kept_session l = s.last;
  if (l.messages != 1 || l.turns != 1 || l.entries != 1 || l.calls != 1 || l.audits != 1 || l.jobs != 1 || l.tasks != 1)
    fail_msg("%d %d %d %d %d %d %d", (int)l.messages, (int)l.turns, (int)l.entries, (int)l.calls, (int)l.audits,
             (int)l.jobs, (int)l.tasks);
  assert_true(!s.holder[0] && !l.lease_ms && l.first_unix_ms == 1 && l.last_unix_ms > 1000);
  s.name[0] = '\0';
  assert_int_equal(tp_postgres_session_rows(database, "", "s", note_row, &s, NULL), TP_OK);
  assert_string_equal(s.kinds, "message turn entry attempt audit call job task ");
  snprintf(s.name, sizeof s.name, "turn"); /* and none after the one that stops */
  s.kinds[0] = '\0';
  assert_int_equal(tp_postgres_session_rows(database, "", "s", note_row, &s, NULL), TP_OK);
  assert_string_equal(s.kinds, "message turn ");
  /* While a turn has it, it stays. */
  assert_int_equal(claim_as(history, 7, &claim, NULL), TP_OK);
  s = list_named(database, "s");
  assert_true(strstr(s.holder, "process ") && s.last.lease_ms > 0);
  assert_int_equal(tp_postgres_sessions_erase(database, &of_s, &erased, &fault), TP_ERR_BUSY);
  assert_true(erased.sessions == 0 && erased.rows == 0 && erased.sessions_in_use == 1);
  assert_int_equal(list_named(database, "s").last.tasks, 1);
  release_as(history, &claim);
  /* And while a job of it runs. */
  claimed_id = 0;
  int taken = 0;
  int64_t next_ms = 0;
  const tp_job_claim job = {.struct_size = sizeof job, .lease_ms = 60000, .take = take_job, .ctx = &taken};
  assert_int_equal(store->job_claim(store->ctx, &job, &next_ms, NULL), TP_OK);
  assert_int_equal(tp_postgres_sessions_erase(database, &of_s, &erased, &fault), TP_ERR_BUSY);
  assert_true(strstr(list_named(database, "s").holder, "process ") != NULL);
  const tp_job_finish end = {
      .struct_size = sizeof end, .id = claimed_id, .claim = claimed_token, .end = TP_JOB_END_SUCCEEDED};
  uint32_t became = 0;
  assert_int_equal(store->job_finish(store->ctx, &end, &became, NULL), TP_OK);
  assert_int_equal(list_named(database, "s").last.jobs, 1); /* it is known whose it was */
  assert_int_equal(tp_postgres_sessions_erase(database, &of_s, &erased, &fault), TP_OK);
  assert_int_equal(erased.sessions, 1);
  assert_int_equal(erased.rows, 9); /* a session, a message, and each that was listed, with an attempt */
  assert_int_equal(list_named(database, "s").sessions, 0);
  assert_int_equal(list_named(database, "t").last.messages, 1);
  assert_int_equal(tp_postgres_sessions_erase(database, &none, NULL, NULL), TP_ERR_VERSION);
  assert_int_equal(tp_postgres_sessions_erase(database, NULL, NULL, NULL), TP_ERR_USAGE);
  const tp_kept_choice all = {.struct_size = sizeof all};
  assert_int_equal(tp_postgres_sessions_erase(database, &all, NULL, NULL), TP_ERR_USAGE);
  tp_store_free(store);
  tp_history_free(history);
  tp_postgres_close(database);
}

TEST(many_sessions_and_odd_names_are_erased) {
  enum { SESSIONS = 130 };
  tp_history *history = NULL;
  tp_store *store = NULL;
  tp_postgres *database = open_database(&history);
  const tp_task_record task = {
      .struct_size = sizeof task, .key = TEXT("k"), .tool = TEXT("t"), .session = odd_name, .created_unix_ms = 1};
  const tp_kept_choice old = {.struct_size = sizeof old, .before_unix_ms = INT64_MAX};
  tp_kept_erased erased = {.struct_size = sizeof erased};
  char name[16];
  assert_int_equal(tp_postgres_store(database, NULL, &store, NULL), TP_OK);
  assert_int_equal(store->task_put(store->ctx, &task, NULL), TP_OK);
  for (int i = 0; i < SESSIONS; i++) {
    snprintf(name, sizeof name, "n%d", i);
    append_text(history, name, odd_name, TP_OK, NULL);
  }
  assert_int_equal(list_named(database, NULL).sessions, SESSIONS + 1);
  tp_fault fault = {0};
  if (tp_postgres_sessions_erase(database, &old, &erased, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(erased.sessions, SESSIONS + 1);
  assert_int_equal(erased.rows, 2 * SESSIONS + 1);
  assert_int_equal(list_named(database, NULL).sessions, 0);
  tp_store_free(store);
  tp_history_free(history);
  tp_postgres_close(database);
}

typedef struct age_erasure {
  tp_postgres *database;
  tp_kept_choice query;
  tp_kept_erased erased;
  tp_status status;
} age_erasure;

static void *erase_by_age(void *arg) {
  age_erasure *e = arg;
  e->status = tp_postgres_sessions_erase(e->database, &e->query, &e->erased, NULL);
  return NULL;
}

/* Everything of it was old when it was listed; then there was something new. */
TEST(session_in_which_something_happened_meanwhile_is_not_too_old) {
  static const char *const news[] = {
      NULL,
      "UPDATE @.message m SET appended = clock_timestamp() FROM @.session s WHERE s.id = m.session AND s.name = 's'",
      "UPDATE @.turn SET ended_unix_ms = 9000000000000",
      "UPDATE @.entry SET started_unix_ms = 9000000000000",
      "UPDATE @.job SET inserted_ms = 9000000000000",
      "UPDATE @.task SET created_unix_ms = 9000000000000",
      "UPDATE @.tool_start SET started_unix_ms = 9000000000000",
      "UPDATE @.audit SET unix_ms = 9000000000000",
      "INSERT INTO @.job_ended OVERRIDING SYSTEM VALUE SELECT id, 1, state, claim, attempt, attempts_max, backoff,"
      " backoff_ms, limit_ms, phase, contract_version, reason, code, inserted_ms, claimable_ms, lease_end_ms,"
      " 9000000000000, postponed_ms, handler, subscription, idempotency_key, order_key, message, payload, key_hash,"
      " order_hash, process, batch, mark, tenant, session FROM @.job"};
  for (size_t i = 0; i < COUNT(news); i++) {
    tp_history *history = NULL;
    tp_store *store = NULL;
    pthread_t thread;
    new_schema(NULL);
    age_erasure e = {.database = open_database(&history),
                     .query = {.struct_size = sizeof e.query, .before_unix_ms = ((int64_t)time(NULL) - 3600) * 1000},
                     .erased = {.struct_size = sizeof e.erased}};
    assert_int_equal(tp_postgres_store(e.database, NULL, &store, NULL), TP_OK);
    keep_session(store, history, "s");
    append_text(history, "other", odd, TP_OK, NULL);
    run_sql(
        "UPDATE @.message SET appended = appended - interval '1 day'; UPDATE @.job SET inserted_ms = 1;"
        " UPDATE @.tool_start SET started_unix_ms = 1");
    PGconn *lock = lock_sessions();
    assert_int_equal(pthread_create(&thread, NULL, erase_by_age, &e), 0);
    await_lock_wait();
    if (news[i]) run_sql(news[i]);
    PQfinish(lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    const uint64_t left = news[i] != NULL;
    if (e.status != (left ? TP_ERR_BUSY : TP_OK) || e.erased.sessions != 2 - left || e.erased.sessions_in_use != left)
      fail_msg("case %zu: %s, %d erased", i, tp_status_name(e.status), (int)e.erased.sessions);
    assert_int_equal(list_named(e.database, NULL).sessions, left);
    if (left) assert_int_equal(list_named(e.database, "s").last.messages, 1);
    tp_store_free(store);
    tp_history_free(history);
    tp_postgres_close(e.database);
  }
}

/* ---- turns of a session that goes on ---- */

static void append_turn(tp_history *history, const char *turn, const char *text) {
  const tp_message message = {
      .struct_size = sizeof message, .role = TP_ROLE_USER, .turn_id = tp_text_of(turn), .text = tp_text_of(text)};
  const tp_message *const messages[] = {&message};
  const tp_history_append request = {
      .struct_size = sizeof request, .session = TEXT("s"), .messages = messages, .message_count = 1};
  assert_int_equal(history->append(history->ctx, &request, NULL), TP_OK);
}

/** What an export has passed. */
typedef struct passed_rows {
  char texts[128]; /* of messages */
  int jobs, rows, most;
} passed_rows;

static bool take_row(void *ctx, const tp_kept_session *session, const char *kind, tp_text row) {
  passed_rows *p = ctx;
  assert_true(tp_text_is(session->session, "s"));
  if (strcmp(kind, "message") == 0) {
    tp_text text = tp_value_text(tp_value_get(row, "text"));
    size_t size = strlen(p->texts);
    snprintf(p->texts + size, sizeof p->texts - size, "%.*s\n", (int)text.size, text.data);
  }
  p->jobs += strcmp(kind, "job") == 0;
  return ++p->rows != p->most;
}

/* What would be erased is counted and exported first; then it is erased. */
static tp_status erase_turns(tp_postgres *database, tp_kept_choice choice, const char *texts, int jobs,
                             tp_kept_erased *ret_erased) {
  passed_rows rows = {.jobs = 0};
  tp_kept_erased counted = {.struct_size = sizeof counted}, passed = counted;
  tp_fault fault = {0};
  choice.struct_size = sizeof choice;
  if (tp_postgres_sessions_export(database, &choice, take_row, &rows, &passed, &fault) != TP_OK)
    fail_msg("%s", fault.message);
  assert_string_equal(rows.texts, texts);
  assert_int_equal(rows.jobs, jobs);
  assert_int_equal(rows.rows, passed.rows);
  choice.only_counts = 1;
  assert_int_equal(tp_postgres_sessions_erase(database, &choice, &counted, NULL), TP_OK);
  choice.only_counts = 0;
  *ret_erased = (tp_kept_erased){.struct_size = sizeof *ret_erased};
  tp_status status = tp_postgres_sessions_erase(database, &choice, ret_erased, NULL);
  assert_int_equal(counted.rows, ret_erased->rows);
  assert_int_equal(counted.turns, ret_erased->turns);
  assert_int_equal(counted.sessions, ret_erased->sessions);
  assert_int_equal(counted.sessions_in_use, ret_erased->sessions_in_use);
  assert_int_equal(counted.turns_unknown, ret_erased->turns_unknown);
  assert_int_equal(passed.turns_unknown, ret_erased->turns_unknown);
  if (status == TP_OK) assert_int_equal(passed.turns, ret_erased->turns);
  return status;
}

TEST(session_of_which_turns_were_erased_goes_on_under_a_new_number) {
  tp_history *history = NULL, *other = NULL;
  tp_postgres *database = open_database(&history), *others = open_database(&other);
  tp_history_claim before, claim;
  tp_kept_erased e;
  append_turn(history, "a", "zoe: one");
  append_turn(history, "b", "yan: two");
  append_turn(history, "c", "zoe: three");
  /* While a turn has it, it stays as it is. */
  assert_int_equal(claim_as(history, 7, &before, NULL), TP_OK);
  assert_int_equal(erase_turns(others, (tp_kept_choice){.person = "zoe"}, "zoe: one\nzoe: three\n", 0, &e),
                   TP_ERR_BUSY);
  assert_true(e.sessions == 0 && e.sessions_in_use == 1 && e.rows == 0 && e.turns == 0);
  assert_int_equal(count_of(other, "s"), 3);
  /* Its lease has ended: it is fenced when it goes on, and the session is free for others. */
  run_sql("UPDATE @.process SET lease_end = clock_timestamp() - interval '1 second'");
  assert_int_equal(erase_turns(others, (tp_kept_choice){.person = "zoe"}, "zoe: one\nzoe: three\n", 0, &e), TP_OK);
  assert_true(e.sessions == 1 && e.turns == 2 && e.rows == 2 && e.turns_unknown == 1 && !e.is_complete);
  const tp_message said = {.struct_size = sizeof said, .role = TP_ROLE_USER, .text = TEXT("late")};
  const tp_message *const messages[] = {&said};
  const tp_history_append late = {
      .struct_size = sizeof late, .session = TEXT("s"), .messages = messages, .message_count = 1, .claim = &before};
  assert_int_equal(history->append(history->ctx, &late, NULL), TP_ERR_FENCED);
  run_sql("UPDATE @.process SET lease_end = clock_timestamp() + interval '1 hour'"); /* it stood still only */
  assert_int_equal(claim_as(other, 8, &claim, NULL), TP_OK);
  assert_true(claim.number != before.number && claim.fence > before.fence && claim.position == 1 && claim.first == 0);
  release_as(other, &claim);
  append_turn(other, "d", "four");
  assert_int_equal(count_of(history, "s"), 2);
  const tp_kept_fork fork = {.struct_size = sizeof fork, .session = "s", .new_session = "forked", .turn = "d"};
  uint64_t copied = 0;
  assert_int_equal(tp_postgres_session_fork(database, &fork, &copied, NULL), TP_OK);
  assert_int_equal(copied, 2);
  const tp_kept_fork up_to_b = {.struct_size = sizeof fork, .session = "s", .new_session = "short", .turn = "b"};
  assert_int_equal(tp_postgres_session_fork(database, &up_to_b, &copied, NULL), TP_OK);
  assert_int_equal(copied, 1);
  /* The last turns go with their session. */
  assert_int_equal(erase_turns(database, (tp_kept_choice){.session = "s", .turns_before_unix_ms = INT64_MAX},
                               "yan: two\nfour\n", 0, &e),
                   TP_OK);
  assert_true(e.turns == 2 && e.rows == 3);
  assert_int_equal(list_named(database, "s").sessions, 0);
  assert_int_equal(list_named(database, "forked").last.messages, 2);
  tp_history_free(history);
  tp_history_free(other);
  tp_postgres_close(database);
  tp_postgres_close(others);
}

TEST(jobs_and_tasks_go_with_their_turn_or_where_they_fit) {
  tp_history *history = NULL;
  tp_store *store = NULL;
  tp_history_claim before, claim;
  tp_kept_erased e;
  tp_postgres *database = open_database(&history);
  const tp_task_record task = {.struct_size = sizeof task,
                               .key = TEXT("key of a task"),
                               .tool = TEXT("t"),
                               .session = TEXT("s"),
                               .created_unix_ms = 1};
  assert_int_equal(tp_postgres_store(database, NULL, &store, NULL), TP_OK);
  append_turn(history, "a", "the needle");
  append_turn(history, "b", "other");
  insert_job_of(store, "s", "a", "of a");
  insert_job_of(store, "s", "b", "of b");
  insert_job_of(store, "s", "", "of none");
  assert_int_equal(store->task_put(store->ctx, &task, NULL), TP_OK);
  tp_kept_choice wrong = {.struct_size = sizeof wrong, .matching = "abc"};
  assert_int_equal(tp_postgres_sessions_erase(database, &wrong, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_postgres_sessions_export(database, &wrong, take_row, &e, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_postgres_sessions_export(database, &wrong, NULL, NULL, NULL, NULL), TP_ERR_USAGE);
  wrong = (tp_kept_choice){.struct_size = sizeof wrong, .tenant = "nobody"};
  passed_rows some = {.most = 2};
  assert_int_equal(tp_postgres_sessions_export(database, &wrong, take_row, &some, NULL, NULL), TP_OK);
  assert_int_equal(some.rows, 0);
  wrong.tenant = NULL;
  assert_int_equal(tp_postgres_sessions_export(database, &wrong, take_row, &some, NULL, NULL), TP_OK);
  assert_int_equal(some.rows, 2);
  assert_int_equal(erase_turns(database, (tp_kept_choice){.matching = "the needle"}, "the needle\n", 1, &e), TP_OK);
  assert_true(e.turns == 1 && e.rows == 2);
  assert_int_equal(list_named(database, "s").last.jobs, 2);
  assert_int_equal(claim_as(history, 7, &before, NULL), TP_OK);
  release_as(history, &before);
  assert_int_equal(erase_turns(database, (tp_kept_choice){.matching = "key of a task"}, "", 0, &e), TP_OK);
  assert_true(e.turns == 0 && e.rows == 1 && list_named(database, "s").last.tasks == 0);
  assert_int_equal(claim_as(history, 7, &claim, NULL), TP_OK);
  assert_true(claim.number == before.number && claim.position == 1); /* no message went */
  release_as(history, &claim);
  run_sql(
      "INSERT INTO @.job_ended OVERRIDING SYSTEM VALUE SELECT id, id, 3, claim, attempt, attempts_max, backoff,"
      " backoff_ms, limit_ms, phase, contract_version, reason, code, inserted_ms, claimable_ms, lease_end_ms,"
      " ended_ms, postponed_ms, handler, subscription, idempotency_key, order_key, message, payload, key_hash,"
      " order_hash, process, batch, mark, tenant, session FROM @.job WHERE idempotency_key = 'of none'::bytea;"
      " DELETE FROM @.job WHERE idempotency_key = 'of none'::bytea;");
  assert_int_equal(erase_turns(database, (tp_kept_choice){.matching = "other"}, "other\n", 2, &e), TP_OK);
  run_sql("SELECT 1 / (CASE WHEN (SELECT count(*) FROM @.job_key) = 0 THEN 1 ELSE 0 END)"); /* keys are free again */
  assert_int_equal(list_named(database, "s").sessions, 0);
  append_turn(history, "", "zoe: of no turn"); /* a task of no turn is as near to it as can be */
  append_turn(history, "a", "nobody's");
  assert_int_equal(store->task_put(store->ctx, &task, NULL), TP_OK);
  assert_int_equal(erase_turns(database, (tp_kept_choice){.person = "zoe"}, "zoe: of no turn\n", 0, &e), TP_OK);
  assert_int_equal(e.turns_unknown, 1);
  /* A turn runs by its record only: its history is elsewhere. */
  run_sql(
      "INSERT INTO @.process VALUES (99, 'x', clock_timestamp() + interval '1 hour', clock_timestamp());"
      " INSERT INTO @.running (process, number, state, ended_unix_ms, tenant, agent, workspace, session, thread, turn,"
      " task, run, value) VALUES (99, 1, 2, 0, '', '', '', 's', '', 'x', '', '', '')");
  wrong = (tp_kept_choice){.struct_size = sizeof wrong, .session = "s"};
  assert_int_equal(tp_postgres_sessions_erase(database, &wrong, NULL, NULL), TP_ERR_BUSY);
  run_sql("DELETE FROM @.process WHERE id = 99");
  assert_int_equal(tp_postgres_sessions_erase(database, &wrong, NULL, NULL), TP_OK);
  tp_store_free(store);
  tp_history_free(history);
  tp_postgres_close(database);
}

TEST(session_begins_with_the_past_of_another_one) {
  tp_history *history = NULL;
  tp_postgres *database = open_database(&history);
  tp_history_claim claim;
  uint64_t count = 0;
  tp_fault fault = {0};
  const tp_kept_fork fork = {.struct_size = sizeof fork, .session = "old", .new_session = "s"};
  static const struct {
    tp_kept_fork fork;
    tp_status status;
  } refused[] = {
      {{.struct_size = 3}, TP_ERR_VERSION},
      {{.struct_size = sizeof(tp_kept_fork), .new_session = "s"}, TP_ERR_USAGE},
      {{.struct_size = sizeof(tp_kept_fork), .session = "old", .new_session = "with blank"}, TP_ERR_BAD_ID},
      {{.struct_size = sizeof(tp_kept_fork), .session = "old", .new_session = "a\xe3\x80\x80"}, TP_ERR_BAD_ID},
      {{.struct_size = sizeof(tp_kept_fork), .session = "\xff", .new_session = "x"}, TP_ERR_UTF8},
      {{.struct_size = sizeof(tp_kept_fork), .session = "none", .new_session = "x"}, TP_ERR_NOT_FOUND},
      {{.struct_size = sizeof(tp_kept_fork), .session = "old", .new_session = "x", .turn = "t"}, TP_ERR_NOT_FOUND},
      {{.struct_size = sizeof(tp_kept_fork), .session = "old", .new_session = "old"}, TP_ERR_DUPLICATE_ID},
  };
  append_text(history, "old", odd_name, TP_OK, NULL);
  append_text(history, "old", odd_name, TP_OK, NULL);
  for (size_t i = 0; i < COUNT(refused); i++) {
    tp_status status = tp_postgres_session_fork(database, &refused[i].fork, &count, &fault);
    if (status != refused[i].status) fail_msg("%zu: %s: %s", i, tp_status_name(status), fault.message);
  }
  assert_int_equal(tp_postgres_session_fork(database, &fork, &count, NULL), TP_OK);
  assert_int_equal(count, 2);
  append_text(history, "old", odd_name, TP_OK, NULL); /* which the fork has not */
  assert_int_equal(claim_as(history, 7, &claim, NULL), TP_OK);
  assert_int_equal(claim.position, 2);
  release_as(history, &claim);
  append_text(history, "s", odd_name, TP_OK, NULL);
  assert_int_equal(list_named(database, "s").last.messages, 3);
  tp_history_free(history);
  tp_postgres_close(database);
}

TEST(schema_of_an_earlier_version_is_upgraded_with_its_rows) {
  tp_store *store = NULL;
  tp_postgres *database = open_database(NULL);
  assert_int_equal(tp_postgres_store(database, NULL, &store, NULL), TP_OK);
  insert_job_of(store, "s", "", "before");
  tp_store_free(store);
  tp_postgres_close(database);
  run_sql(
      "ALTER TABLE @.job DROP COLUMN tenant, DROP COLUMN session;"
      "ALTER TABLE @.job_ended DROP COLUMN tenant, DROP COLUMN session;"
      "DROP TABLE @.memory, @.memory_scope, @.memory_vector, @.memory_embedded, @.memory_erased;"
      "UPDATE @.version SET version = 3");
  assert_int_equal(open_as(postgres_server.conninfo, true, &database, NULL), TP_ERR_STORE_SCHEMA);
  database = open_database(NULL);
  assert_int_equal(tp_postgres_store(database, NULL, &store, NULL), TP_OK);
  insert_job_of(store, "s", "", "after");
  assert_int_equal(list_named(database, "s").last.jobs, 1);
  assert_int_equal(list_named(database, "").last.jobs, 1); /* of the version before it is not known whose it is */
  tp_store_free(store);
  tp_postgres_close(database);
}

/* ---- what the server's codes mean ---- */

/* ---- news of jobs ---- */

/** What a runtime with a store does. */
typedef struct worker {
  tp_postgres *database;
  tp_store *store;
} worker;

static void open_worker(worker *w) {
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 900 + (uint64_t)schema_count};
  *w = (worker){.database = open_database(NULL)};
  assert_int_equal(tp_postgres_store(w->database, NULL, &w->store, NULL), TP_OK);
  assert_int_equal(w->store->open(w->store->ctx, &owner, NULL), TP_OK);
}

static void close_worker(worker *w) {
  tp_store_free(w->store);
  tp_postgres_close(w->database);
}

static void take_claim(void *ctx, const tp_job *job) {
  uint64_t *taken = ctx;
  taken[0] = job->id;
  taken[1] = job->claim;
}

static bool claim_job(worker *w, uint64_t taken[2]) {
  int64_t next_ms = 0;
  const tp_job_claim claim = {.struct_size = sizeof claim, .lease_ms = 60000, .take = take_claim, .ctx = taken};
  tp_status status = w->store->job_claim(w->store->ctx, &claim, &next_ms, NULL);
  assert_true(status == TP_OK || status == TP_ERR_NOT_FOUND);
  return status == TP_OK;
}

/* @return how long it took until another process had claimed it. */
static int64_t play_job(tp_store *store, worker *w, int number) {
  char key[16];
  snprintf(key, sizeof key, "k%d", number);
  const tp_job job = {.struct_size = sizeof job,
                      .attempts_max = 1,
                      .limit_ms = 10000,
                      .handler = TEXT("job"),
                      .idempotency_key = tp_text_of(key)};
  uint64_t id = 0, taken[2] = {0};
  bool existed = true;
  int64_t began_ns = now_ns();
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  while (!claim_job(w, taken)) usleep(500);
  int64_t took_ns = now_ns() - began_ns;
  assert_int_equal(taken[0], id);
  const tp_job_finish finish = {
      .struct_size = sizeof finish, .id = taken[0], .claim = taken[1], .end = TP_JOB_END_SUCCEEDED};
  uint32_t state = 0;
  assert_int_equal(w->store->job_finish(w->store->ctx, &finish, &state, NULL), TP_OK);
  assert_false(claim_job(w, taken)); /* as a runtime does then */
  return took_ns;
}

/* Questions that are asked twice a second are answered without the server, as soon as the process has received its own
 * notification. */
static void await_quiet(worker *w) {
  uint64_t taken[2], before;
  do {
    before = counts_of(w->database).operations;
    sleep_ms(2);
    assert_false(claim_job(w, taken));
  } while (counts_of(w->database).operations != before);
}

static int by_size(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return left < right ? -1 : left > right;
}

/* Without notifications, each job would be found only after 10 s, because a store without jobs asks nothing for that
 * long. */
TEST(job_that_another_process_stores_is_news_at_once) {
  enum { JOBS = 20, LIMIT_MS = 20000 };
  int64_t took_ns[JOBS], sum_ns = 0;
  worker w;
  tp_postgres *other = open_database(NULL);
  tp_store *store = NULL;
  assert_int_equal(tp_postgres_store(other, NULL, &store, NULL), TP_OK);
  open_worker(&w);
  await_quiet(&w);
  for (int i = 0; i < JOBS; i++) {
    sum_ns += took_ns[i] = play_job(store, &w, i);
    await_quiet(&w);
  }
  qsort(took_ns, JOBS, sizeof *took_ns, by_size);
  print_message("# a job is claimed by another process after %.1f ms (median), %.1f ms (9 of 10)\n",
                (double)took_ns[JOBS / 2] / 1e6, (double)took_ns[JOBS * 9 / 10] / 1e6);
  assert_true(sum_ns / 1000000 < LIMIT_MS);
  close_worker(&w);
  tp_store_free(store);
  tp_postgres_close(other);
}

/* Its connections are ended repeatedly: jobs are found by polling, and by notifications when there is a connection
 * again. */
TEST(job_is_found_though_no_news_come) {
  worker w;
  tp_postgres *other = open_database(NULL);
  tp_store *store = NULL;
  assert_int_equal(tp_postgres_store(other, NULL, &store, NULL), TP_OK);
  open_worker(&w);
  for (int i = 0; i < 4; i++) {
    (void)play_job(store, &w, 2 * i);
    run_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turnphase'");
    (void)play_job(store, &w, 2 * i + 1);
  }
  close_worker(&w);
  tp_store_free(store);
  tp_postgres_close(other);
}

TEST(process_without_work_does_not_ask_the_server) {
  enum { LOOKS = 20 };
  worker w;
  uint64_t taken[2], before;
  tp_postgres *other = open_database(NULL);
  tp_store *store = NULL;
  assert_int_equal(tp_postgres_store(other, NULL, &store, NULL), TP_OK);
  open_worker(&w);
  (void)play_job(store, &w, 0);
  await_quiet(&w);
  before = counts_of(w.database).operations;
  for (int i = 0; i < LOOKS; i++) assert_false(claim_job(&w, taken));
  assert_in_range(counts_of(w.database).operations - before, 0, 1); /* one that renews the lease */
  (void)play_job(store, &w, 1);                                     /* and what is stored then is found */
  (void)play_job(w.store, &w, 2);                                   /* also where it has stored it by itself */
  close_worker(&w);
  tp_store_free(store);
  tp_postgres_close(other);
}

/* ---- who is told of them ---- */

typedef struct told {
  _Atomic int count;
  _Atomic bool is_over; /* nobody is called any more */
} told;

static _Atomic int told_calls;

static void count_news(void *ctx) {
  told *t = ctx;
  if (t->is_over) abort();
  t->count++;
  told_calls++;
}

static void *watch_and_not(void *ctx) {
  worker *w = ctx;
  for (int i = 0; i < 2000 || told_calls < 20; i++) {
    told *t = calloc(1, sizeof *t);
    w->store->job_watch(w->store->ctx, count_news, t);
    if (i % 8 == 0) usleep(200);
    w->store->job_watch(w->store->ctx, NULL, NULL);
    t->is_over = true;
    free(t);
  }
  return NULL;
}

TEST(nobody_is_called_after_a_watch_has_ended) {
  worker w;
  pthread_t thread;
  bool ends = false;
  char notify[80];
  const tp_text name = tp_text_of(schema);
  snprintf(notify, sizeof notify, "NOTIFY turnphase_%016llx, 'another'",
           (unsigned long long)tp__pg_short_hash(&name, 1));
  told_calls = 0;
  open_worker(&w);
  assert_int_equal(pthread_create(&thread, NULL, watch_and_not, &w), 0);
  for (; !ends; ends = pthread_tryjoin_np(thread, NULL) == 0) run_sql(notify);
  close_worker(&w);
}

TEST(stores_of_one_database_tell_one_another) {
  worker w;
  tp_store *second = NULL;
  told of_first = {0}, of_second = {0};
  const tp_job job = {.struct_size = sizeof job, .attempts_max = 1, .limit_ms = 10000, .handler = TEXT("job")};
  uint64_t id = 0;
  bool existed = true;
  open_worker(&w);
  assert_int_equal(tp_postgres_store(w.database, NULL, &second, NULL), TP_OK);
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 77};
  assert_int_equal(second->open(second->ctx, &owner, NULL), TP_OK);
  w.store->job_watch(w.store->ctx, count_news, &of_first);
  second->job_watch(second->ctx, count_news, &of_second);
  assert_int_equal(second->job_insert(second->ctx, &job, &id, &existed, NULL), TP_OK);
  assert_int_equal(of_first.count, 1);
  assert_int_equal(of_second.count, 0); /* it knows */
  w.store->job_watch(w.store->ctx, NULL, NULL);
  tp_store_free(second);
  close_worker(&w);
}

/* ---- a runtime in another process ---- */

enum { FAR_JOBS = 40 };

static int far_ran; /* the pipe into which a run says that it began */

static tp_answer say_begin(void *ctx, tp_call *call) {
  (void)ctx, (void)call;
  int64_t at_ns = now_ns();
  return write(far_ran, &at_ns, sizeof at_ns) == (ssize_t)sizeof at_ns ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static tp_runtime *open_far(const tp_store *store) {
  const tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = 1, .store = store};
  const hook job = {
      .id = "job", .phase = TP_PHASE_TURN_POST_TURN, .run = say_begin, .sub = {.execution = TP_EXECUTION_BACKGROUND}};
  tp_runtime *runtime = NULL;
  if (tp_runtime_new(&options, &runtime, NULL) != TP_OK || hooks_add(runtime, &job, 1, NULL) != TP_OK) abort();
  if (tp_runtime_start(runtime, NULL) != TP_OK) abort();
  return runtime;
}

/* Runs the jobs, until the other process closes its end. */
static void run_far_jobs(int stop) {
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = postgres_server.conninfo, .schema = schema};
  tp_postgres *database = NULL;
  tp_store *store = NULL;
  char byte;
  if (tp_postgres_open(&options, &database, NULL) != TP_OK) abort();
  if (tp_postgres_store(database, NULL, &store, NULL) != TP_OK) abort();
  tp_runtime *runtime = open_far(store);
  (void)!read(stop, &byte, 1);
  tp_runtime_free(runtime);
  tp_postgres_close(database);
}

/* The store of the process that makes the jobs: it keeps them in the database, and claims none. */
static tp_store *far_store;

static tp_status insert_far(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  (void)ctx;
  return far_store->job_insert(far_store->ctx, job, ret_id, ret_existed, fault);
}

/* By looks, twice a second, they would take 20 s. */
TEST(job_begins_in_a_runtime_of_another_process_at_once) {
  enum { LIMIT_MS = 8000 };
  int64_t took_ns[FAR_JOBS], sum_ns = 0;
  int ran[2], stop[2], status = -1;
  tp_postgres *database = open_database(NULL); /* which makes the schema */
  tp_postgres_close(database);
  assert_true(pipe(ran) == 0 && pipe(stop) == 0);
  pid_t child = fork();
  if (child == 0) {
    close(stop[1]);
    far_ran = ran[1];
    run_far_jobs(stop[0]);
    _exit(0);
  }
  close(stop[0]);
  close(ran[1]);
  database = open_database(NULL);
  assert_int_equal(tp_postgres_store(database, NULL, &far_store, NULL), TP_OK);
  tp_store *own = NULL;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &own, NULL), TP_OK);
  tp_store store = *own;
  store.job_insert = insert_far;
  store.job_insert_all = NULL;
  tp_runtime *runtime = open_far(&store);
  for (int i = -1; i < FAR_JOBS; i++) { /* the first one waits for the process to start */
    int64_t began_ns = now_ns(), at_ns;
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, TP_PHASE_TURN_POST_TURN, NULL);
    assert_run(&result, "job", TP_STATE_BACKGROUNDED, TP_REASON_NONE);
    tp_turn_end(turn);
    assert_int_equal(read(ran[0], &at_ns, sizeof at_ns), sizeof at_ns);
    if (i >= 0) sum_ns += took_ns[i] = at_ns - began_ns;
  }
  close(stop[1]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  qsort(took_ns, FAR_JOBS, sizeof *took_ns, by_size);
  print_message("# a job begins in another process after %.1f ms (median), %.1f ms (9 of 10)\n",
                (double)took_ns[FAR_JOBS / 2] / 1e6, (double)took_ns[FAR_JOBS * 9 / 10] / 1e6);
  assert_true(sum_ns / 1000000 < LIMIT_MS);
  tp_runtime_free(runtime);
  tp_store_free(far_store);
  tp_postgres_close(database);
  close(ran[0]);
}

TEST(only_what_may_pass_is_tried_again) {
  static const struct {
    const char *codes; /* separated by blanks */
    tp_status status;
    bool is_retried, reconnects;
  } rows[] = {
      {"40001 40P01 55P03 57014 23505", TP_ERR_STORE_BUSY, true, false},
      {"57P01 57P03 08006 08P01 25P02 25P03", TP_ERR_STORE, true, true},
      {"25006", TP_ERR_STORE_READONLY, true, true},
      {"53300", TP_ERR_STORE_BUSY, true, true},
      {"53100", TP_ERR_STORE_FULL, false, false},
      {"53200", TP_ERR_STORE, true, false},
      {"42501", TP_ERR_STORE_READONLY, false, false},
      {"42P01 42703 3F000", TP_ERR_STORE_SCHEMA, false, false},
      {"22021", TP_ERR_UTF8, false, false},
      {"54000", TP_ERR_TOO_LARGE, false, false},
      {"XX001 XX002", TP_ERR_STORE_CORRUPT, false, false},
      {"XX000 54001 22P02", TP_ERR_STORE, false, false},
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    for (const char *code = rows[i].codes; *code; code += code[5] ? 6 : 5) {
      char one[6];
      snprintf(one, sizeof one, "%.5s", code);
      tp__pg_meaning meaning = tp__pg_meaning_of(one);
      if (meaning.status != rows[i].status || meaning.is_retried != rows[i].is_retried ||
          meaning.reconnects != rows[i].reconnects)
        fail_msg("%s: %s %d %d", one, tp_status_name(meaning.status), meaning.is_retried, meaning.reconnects);
    }
  assert_true(tp__pg_meaning_of(NULL).reconnects && tp__pg_meaning_of("").reconnects); /* the connection was lost */
}

TEST_MAIN(count, arguments) {
  const char *lack = postgres_lack();
  if (lack) {
    printf("1..0 # SKIP %s\n", lack);
    return 0;
  }
  postgres_make();
  int failed = test_main(count, arguments);
  postgres_remove();
  return failed;
}
