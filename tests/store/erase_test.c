/* SPDX-License-Identifier: Apache-2.0
 *
 * Erasing the sessions of a file. Strings of three tenants are planted wherever a store keeps texts, mixed with each
 * other. After an erasure no byte of one tenant's strings is in any file of the directory, and the others are complete.
 * The same holds when SIGKILL ends the erasure at any system call that writes, and the next one goes on (30 points;
 * with TURNPHASE_ROUNDS 30 for each round). */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/test.h"
#include "tests/support/child.h"
#include "tests/support/directory.h"
#include "tests/support/dying_writes.h"
#include "tests/support/rows.h"
#include "turnphase/sqlite.h"

enum { PLACES = 11, EACH = 9, STRINGS = PLACES * EACH, TENANTS = 3, POINTS = 30, NEEDLE = 32, LONG = 9000 };
static const char *const tenants[TENANTS] = {"ann", "bob", "cid"};

/* ---- what is planted ---- */

static const char *needle_of(int tenant, int number) {
  static char texts[4][NEEDLE];
  static int next;
  char *text = texts[next++ % 4];
  snprintf(text, NEEDLE, "plant-%s-%03d-QwErTy", tenants[tenant], number);
  return text;
}

/* Some are long, so that they are in pages of their own. @return valid until the next call. */
static tp_text planted(int tenant, int number) {
  static char text[LONG + NEEDLE];
  size_t size = number % 5 == 0 ? LONG : (size_t)(number % 7) * 40;
  memset(text, 'x', size);
  snprintf(text + size, NEEDLE, "%s", needle_of(tenant, number));
  return tp_text_of(text);
}

/** A file that is open as a store, as a history and with a connection of the test. */
typedef struct world {
  tp_store *store;
  tp_history *history;
  sqlite3 *db;
  tp_writer *writer;
} world;

static tp_store *open_store(void) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_store *store = NULL;
  tp_fault fault = {0};
  if (tp_sqlite_store_open(&options, &store, &fault) != TP_OK) fail_msg("%s", fault.message);
  return store;
}

static tp_text map_of(world *w, const char *key, tp_text text) {
  tp_text value = {NULL, 0};
  tp_writer_reset(w->writer);
  tp_write_map(w->writer, 1);
  tp_write_string(w->writer, key);
  tp_write_text(w->writer, text);
  assert_int_equal(tp_writer_finish(w->writer, &value), TP_OK);
  return value;
}

/* The payload of a job, with the ids of a turn in their order. */
static tp_text payload_of(world *w, const tp_text *ids, tp_text text) {
  tp_text value = {NULL, 0};
  tp_writer_reset(w->writer);
  tp_write_map(w->writer, 2);
  tp_write_string(w->writer, "ids");
  tp_write_array(w->writer, TP_ID_COUNT);
  for (int i = 0; i < TP_ID_COUNT; i++) tp_write_text(w->writer, ids[i]);
  tp_write_string(w->writer, "fields");
  tp_write_text(w->writer, text);
  assert_int_equal(tp_writer_finish(w->writer, &value), TP_OK);
  return value;
}

static void append(world *w, const tp_text *ids, const tp_message *message) {
  const tp_message *const messages[] = {message};
  tp_history_append request = {.struct_size = sizeof request,
                               .tenant = ids[TP_ID_TENANT],
                               .session = ids[TP_ID_SESSION],
                               .messages = messages,
                               .message_count = 1};
  assert_int_equal(w->history->append(w->history->ctx, &request, NULL), TP_OK);
}

static bool no_run(const void *source, size_t index, tp_run_record *record) {
  (void)source;
  (void)index;
  (void)record;
  return false;
}

static void put_attempt(world *w, const tp_text *ids, uint64_t number, tp_text text) {
  tp_attempt_record attempt = {
      .struct_size = sizeof attempt,
      .process_run_id = 7,
      .entry_id = number,
      .attempt = 1,
      .message = {text.data + text.size - (text.size < 300 ? text.size : 300), text.size < 300 ? text.size : 300}};
  tp_entry_record entry = {.struct_size = sizeof entry,
                           .process_run_id = 7,
                           .entry_id = number,
                           .started_ns = 1,
                           .ended_ns = 2,
                           .started_unix_ms = 1000,
                           .phase = 1,
                           .ids = ids,
                           .id_count = TP_ID_COUNT,
                           .run = no_run};
  assert_int_equal(w->store->attempt(w->store->ctx, &attempt), TP_OK);
  assert_int_equal(w->store->record(w->store->ctx, &entry), TP_OK);
}

static void put_turn(world *w, const tp_text *ids, uint64_t number, tp_text text) {
  tp_turn_record turn = {.struct_size = sizeof turn,
                         .process_run_id = 7,
                         .number = number,
                         .started_ns = 1,
                         .ended_ns = 2,
                         .started_unix_ms = 1000,
                         .ended_unix_ms = 2000,
                         .ids = ids,
                         .id_count = TP_ID_COUNT,
                         .reason = text};
  assert_int_equal(w->store->turn_record(w->store->ctx, &turn), TP_OK);
}

static void put_job(world *w, const tp_text *ids, const char *key, tp_text text) {
  uint64_t id = 0;
  bool existed = false;
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1,
                .handler = tp_text_of("h"),
                .subscription = tp_text_of("h"),
                .idempotency_key = tp_text_of(key),
                .order_key = ids[TP_ID_SESSION],
                .inserted_ms = 1500,
                .payload = payload_of(w, ids, text)};
  assert_int_equal(w->store->job_insert(w->store->ctx, &job, &id, &existed, NULL), TP_OK);
}

static void put_call(world *w, const tp_text *ids, uint64_t number, tp_text text) {
  uint64_t id = 0;
  tp_tool_start_record start = {.struct_size = sizeof start,
                                .process_run_id = 7,
                                .turn_number = number,
                                .ids = ids,
                                .id_count = TP_ID_COUNT,
                                .tool = tp_text_of("t"),
                                .call_id = tp_text_of("c")};
  assert_int_equal(w->store->tool_start(w->store->ctx, &start, &id, NULL, NULL, NULL), TP_OK);
  tp_tool_end_record end = {.struct_size = sizeof end, .start_id = id, .text = text};
  assert_int_equal(w->store->tool_end(w->store->ctx, &end, NULL), TP_OK);
}

static void put_question(world *w, const tp_text *ids, tp_text text) {
  sqlite3_stmt *insert = NULL;
  static const char sql[] =
      "INSERT INTO question (turn, call_id, session, tenant, tool, hash, agent, subscription, reason, arguments,"
      " expires_ms, asked_ms, state, waits, answered_ms, used_ms, person, answer, edited)"
      " VALUES ('t', 'c', ?1, ?2, 'x', '', '', '', ?3, x'', 1, 1, 0, 0, 0, 0, '', '', x'')";
  assert_int_equal(sqlite3_prepare_v2(w->db, sql, -1, &insert, NULL), SQLITE_OK);
  const tp_text texts[] = {ids[TP_ID_SESSION], ids[TP_ID_TENANT], text};
  for (int i = 0; i < 3; i++) sqlite3_bind_text(insert, i + 1, texts[i].data, (int)texts[i].size, SQLITE_TRANSIENT);
  assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
  sqlite3_finalize(insert);
}

static void plant(world *w, int tenant, int number) {
  char turn[32], key[64];
  snprintf(turn, sizeof turn, "t%d", number); /* the text is the same for every tenant */
  snprintf(key, sizeof key, "%s-%d", tenants[tenant], number);
  tp_text text = planted(tenant, number);
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_TENANT] = tp_text_of(tenants[tenant]),
                                    [TP_ID_SESSION] = number % 2 ? tp_text_of("even odds") : tp_text_of("s"),
                                    [TP_ID_TURN] = tp_text_of(turn)};
  tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .turn_id = ids[TP_ID_TURN], .text = text};
  uint64_t row = (uint64_t)(number * TENANTS + tenant + 1);
  tp_tool_call call = {.struct_size = sizeof call, .id = tp_text_of("c"), .name = tp_text_of("t")};
  const tp_tool_call *const calls[] = {&call};
  tp_task_record task = {.struct_size = sizeof task,
                         .created_unix_ms = 1,
                         .key = tp_text_of(key),
                         .tool = tp_text_of("t"),
                         .tenant = ids[TP_ID_TENANT],
                         .session = ids[TP_ID_SESSION]};
  tp_audit audit = {.struct_size = sizeof audit,
                    .unix_ms = 1,
                    .owner = "o",
                    .action = "denial",
                    .subscription = "s",
                    .turn = turn,
                    .tenant = tenants[tenant],
                    .session = ids[TP_ID_SESSION].data,
                    .detail = text.data};
  switch (number % PLACES) {
    case 0:
      append(w, ids, &message);
      return;
    case 1:
      call.arguments = map_of(w, "a", text);
      message = (tp_message){.struct_size = sizeof message,
                             .role = TP_ROLE_ASSISTANT,
                             .calls = calls,
                             .call_count = 1,
                             .text = tp_text_of("")};
      append(w, ids, &message);
      return;
    case 2:
      message.role = TP_ROLE_TOOL;
      message.text = tp_text_of("");
      message.value = map_of(w, "v", text);
      append(w, ids, &message);
      return;
    case 3:
      put_job(w, ids, key, text);
      return;
    case 4:
      put_question(w, ids, text);
      return;
    case 5:
      task.arguments = map_of(w, "a", text);
      assert_int_equal(w->store->task_put(w->store->ctx, &task, NULL), TP_OK);
      return;
    case 6:
      put_attempt(w, ids, row, text);
      return;
    case 7:
      put_turn(w, ids, row, text);
      return;
    case 8:
      put_call(w, ids, row, text);
      return;
    case 9:
      assert_int_equal(w->store->audit(w->store->ctx, &audit), TP_OK);
      return;
    default:
      message.role = TP_ROLE_ASSISTANT;
      message.provider_data = map_of(w, "p", text);
      append(w, ids, &message);
  }
}

static world open_world(void) {
  world w = {.store = open_store()};
  assert_int_equal(tp_sqlite_history_open(path, &w.history, NULL), TP_OK);
  assert_int_equal(sqlite3_open(path, &w.db), SQLITE_OK);
  assert_int_equal(sqlite3_busy_timeout(w.db, 5000), SQLITE_OK);
  assert_int_equal(sqlite3_exec(w.db, "PRAGMA secure_delete = ON", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(tp_writer_new(NULL, &w.writer), TP_OK);
  return w;
}

static void close_world(world *w) {
  tp_writer_free(w->writer);
  sqlite3_close(w->db);
  tp_history_free(w->history);
  tp_store_free(w->store);
}

static void plant_all(world *w) {
  for (int number = 0; number < STRINGS; number++)
    for (int tenant = 0; tenant < TENANTS; tenant++) plant(w, tenant, number);
  assert_int_equal(w->store->commit(w->store->ctx, NULL), TP_OK);
}

/* ---- what is left ---- */

static size_t count_in(const char *file, const char *text) {
  size_t count = 0, size = strlen(text);
  struct stat found;
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  assert_true(fd >= 0 && fstat(fd, &found) == 0);
  char *bytes = malloc((size_t)found.st_size + 1), *end = bytes + found.st_size;
  assert_int_equal(read(fd, bytes, (size_t)found.st_size), found.st_size);
  for (char *at = bytes; (at = memmem(at, (size_t)(end - at), text, size)); at += size) count++;
  free(bytes);
  close(fd);
  return count;
}

/* Counts the tenant's strings in every file of the directory. */
static size_t count_bytes(int tenant) {
  char start[NEEDLE], file[400];
  size_t count = 0;
  snprintf(start, sizeof start, "plant-%s-", tenants[tenant]);
  DIR *dir = opendir(directory);
  for (struct dirent *entry; (entry = readdir(dir));) {
    snprintf(file, sizeof file, "%s/%s", directory, entry->d_name);
    if (entry->d_name[0] != '.') count += count_in(file, start);
  }
  closedir(dir);
  return count;
}

typedef struct found_strings {
  int tenant, count;
  bool found[STRINGS];
} found_strings;

static bool look_at_row(void *ctx, const char *kind, tp_text row) {
  found_strings *f = ctx;
  assert_true(kind[0] && tp_value_check(row, NULL) == TP_OK);
  for (int i = 0; i < STRINGS; i++) {
    const char *needle = needle_of(f->tenant, i);
    if (f->found[i] || !memmem(row.data, row.size, needle, strlen(needle))) continue;
    f->found[i] = true;
    f->count++;
  }
  return true;
}

static int strings_of(const tp_store *store, int tenant) {
  found_strings f = {.tenant = tenant};
  static const char *const sessions[] = {"s", "even odds"};
  for (int i = 0; i < 2; i++)
    assert_int_equal(tp_sqlite_session_rows(store, tenants[tenant], sessions[i], look_at_row, &f, NULL), TP_OK);
  return f.count;
}

static bool is_left(const tp_store *store) {
  bool left = false;
  assert_int_equal(tp_sqlite_erasure_is_left(store, &left, NULL), TP_OK);
  return left;
}

static void assert_only_bob_is_gone(const tp_store *store) {
  assert_int_equal(strings_of(store, 0), STRINGS);
  assert_int_equal(strings_of(store, 1), 0);
  assert_int_equal(strings_of(store, 2), STRINGS);
  assert_int_equal(count_bytes(1), 0);
  assert_false(is_left(store));
  assert_int_equal(tp_sqlite_store_verify(store, NULL, NULL, NULL), TP_OK);
}

static const tp_kept_choice bob = {.struct_size = sizeof bob, .tenant = "bob"};

FOR_EACH_TEST(make_directory_in_memory, remove_directory);

TEST(no_byte_of_an_erased_tenant_is_left_and_the_others_are_complete) {
  world w = open_world();
  plant_all(&w);
  for (int i = 0; i < TENANTS; i++) assert_int_equal(strings_of(w.store, i), STRINGS);
  assert_true(count_bytes(1) >= STRINGS);
  tp_kept_erased erased = {.struct_size = sizeof erased};
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &bob, &erased, NULL), TP_OK);
  assert_int_equal(erased.sessions, 2);
  assert_true(erased.rows >= STRINGS && erased.is_complete && !erased.sessions_in_use);
  assert_only_bob_is_gone(w.store);
  close_world(&w);
  assert_int_equal(count_bytes(1), 0);
}

static void run_sql(world *w, const char *sql) {
  char *wrong = NULL;
  if (sqlite3_exec(w->db, sql, NULL, NULL, &wrong) != SQLITE_OK) fail_msg("%s: %s", sql, wrong);
}

/* Makes this process look like another one that has the file open. */
static void put_process(world *w) {
  char sql[160];
  snprintf(sql, sizeof sql, "INSERT INTO process VALUES (7, %d, 0, 1, '')", (int)getpid());
  run_sql(w, sql);
}

TEST(file_that_a_live_process_uses_is_left_as_it_is) {
  world w = open_world();
  tp_fault fault = {0};
  char number[16];
  plant_all(&w);
  put_process(&w);
  tp_kept_erased erased = {.struct_size = sizeof erased, .sessions = 9};
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &bob, &erased, &fault), TP_ERR_BUSY);
  snprintf(number, sizeof number, "process %d", (int)getpid());
  assert_non_null(strstr(fault.message, number));
  assert_int_equal(erased.sessions, 0);
  assert_int_equal(strings_of(w.store, 1), STRINGS);
  run_sql(&w, "UPDATE process SET process_id = 0x7ffffff0"); /* there is no process with this number */
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &bob, NULL, NULL), TP_OK);
  assert_only_bob_is_gone(w.store);
  close_world(&w);
}

TEST(session_on_which_a_live_process_works_stays_and_the_others_go) {
  static const struct {
    const char *busy; /* the statement that makes the session "s" of bob busy */
  } rows[] = {{"UPDATE job SET state = 2, process = 7 WHERE tenant = 'bob' AND session = 's'"},
              {"UPDATE entry SET ended_ns = 0 WHERE tenant = 'bob' AND session = 's'"},
              {"UPDATE turn SET ended_ns = 0 WHERE tenant = 'bob' AND session = 's'"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world w = open_world();
    plant_all(&w);
    put_process(&w);
    run_sql(&w, rows[i].busy);
    tp_kept_erased erased = {.struct_size = sizeof erased};
    tp_kept_choice request = bob;
    request.with_others = 1;
    assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, &erased, NULL), TP_ERR_BUSY);
    assert_true(erased.sessions == 1 && erased.sessions_in_use == 1 && erased.is_complete);
    assert_int_equal(erased.process_id, getpid());
    assert_in_range(strings_of(w.store, 1), STRINGS / 2 - 1, STRINGS / 2 + 1);
    assert_int_equal(strings_of(w.store, 2), STRINGS);
    run_sql(&w, "DELETE FROM process");
    assert_int_equal(tp_sqlite_sessions_erase(w.store, &bob, NULL, NULL), TP_OK);
    assert_only_bob_is_gone(w.store);
    close_world(&w);
    remove_directory(state);
    assert_int_equal(make_directory_in_memory(state), 0);
  }
}

/* A reader of an old state prevents the log from being emptied. The log has copies, and the file notes that. */
TEST(copies_that_a_reader_holds_are_told_and_overwritten_by_the_next_erasure) {
  world w = open_world();
  plant_all(&w);
  assert_int_equal(sqlite3_exec(w.db, "BEGIN; SELECT count(*) FROM message", NULL, NULL, NULL), SQLITE_OK);
  tp_kept_erased erased = {.struct_size = sizeof erased};
  tp_store *quick = NULL;
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .busy_ms = 10};
  assert_int_equal(tp_sqlite_store_open(&options, &quick, NULL), TP_OK);
  assert_int_equal(tp_sqlite_sessions_erase(quick, &bob, &erased, NULL), TP_ERR_STORE_BUSY);
  assert_true(erased.sessions == 2 && !erased.is_complete && is_left(quick));
  assert_int_equal(strings_of(quick, 1), 0);
  run_sql(&w, "COMMIT");
  erased = (tp_kept_erased){.struct_size = sizeof erased};
  assert_int_equal(tp_sqlite_sessions_erase(quick, &bob, &erased, NULL), TP_OK);
  assert_true(erased.sessions == 0 && erased.is_complete);
  assert_only_bob_is_gone(quick);
  tp_store_free(quick);
  close_world(&w);
}

typedef struct listed {
  int count;
  char names[8][64];
  tp_kept_session last;
} listed;

static bool list_session(void *ctx, const tp_kept_session *session) {
  listed *l = ctx;
  snprintf(l->names[l->count++], sizeof l->names[0], "%.*s/%.*s", (int)session->tenant.size, session->tenant.data,
           (int)session->session.size, session->session.data);
  l->last = *session;
  return l->count < 8;
}

static listed list_of(const tp_store *store, tp_kept_query query) {
  listed l = {.count = 0};
  query.struct_size = sizeof query;
  assert_int_equal(tp_sqlite_sessions_list(store, &query, list_session, &l, NULL), TP_OK);
  return l;
}

TEST(sessions_are_listed_with_all_that_there_is_of_them) {
  world w = open_world();
  plant_all(&w);
  assert_int_equal(list_of(w.store, (tp_kept_query){.tenant = NULL}).count, 6);
  assert_int_equal(list_of(w.store, (tp_kept_query){.limit = 2}).count, 2);
  assert_int_equal(list_of(w.store, (tp_kept_query){.tenant = ""}).count, 0);
  listed l = list_of(w.store, (tp_kept_query){.tenant = "cid", .session = "s"});
  assert_int_equal(l.count, 1);
  assert_string_equal(l.names[0], "cid/s");
  const tp_kept_session *s = &l.last;
  assert_int_equal(s->messages, 19);
  assert_int_equal(s->turns + s->entries + s->calls + s->audits + s->jobs + s->questions + s->tasks,
                   STRINGS / 2 + 1 - 19);
  assert_true(s->first_unix_ms == 1 && s->last_unix_ms > 1600000000000);
  assert_int_equal(s->process_id, 0);
  /* Nothing of a session is older than its messages, which are of now. */
  assert_int_equal(list_of(w.store, (tp_kept_query){.before_unix_ms = 1600000000000}).count, 0);
  run_sql(&w, "UPDATE message SET unix_ms = 5000 WHERE session = 1; DELETE FROM tool_start");
  run_sql(&w, "UPDATE session SET name = 'unknown' WHERE id = 2; UPDATE message SET unix_ms = 0 WHERE session = 2");
  l = list_of(w.store, (tp_kept_query){.before_unix_ms = 5001});
  assert_true(l.count >= 1 && l.last.last_unix_ms == 5000);
  for (int i = 0; i < l.count; i++) assert_null(strstr(l.names[i], "unknown"));
  close_world(&w);
}

/* The first job of an order key holds those after it, also of others. */
TEST(jobs_that_waited_for_an_erased_one_may_run) {
  world w = open_world();
  plant_all(&w);
  run_sql(&w, "UPDATE job SET order_key = 's'");
  run_sql(&w, "UPDATE job SET is_first = (place = (SELECT min(place) FROM job WHERE tenant = 'bob')) ");
  run_sql(&w, "UPDATE job SET place = place + 1000 WHERE tenant <> 'bob'");
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &bob, NULL, NULL), TP_OK);
  assert_int_equal(number_in(path, "SELECT count(*) FROM job WHERE is_first"), 1);
  assert_int_equal(tp_sqlite_store_verify(w.store, NULL, NULL, NULL), TP_OK);
  close_world(&w);
}

TEST(wrong_requests_are_refused_and_erase_nothing) {
  world w = open_world();
  plant_all(&w);
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .read_only = 1};
  tp_store *reader = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &reader, NULL), TP_OK);
  tp_kept_choice wrong = bob;
  assert_int_equal(tp_sqlite_sessions_erase(reader, &bob, NULL, NULL), TP_ERR_STORE_READONLY);
  wrong.with_others = 2;
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &wrong, NULL, NULL), TP_ERR_USAGE);
  wrong = bob;
  wrong.only_counts = 2;
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &wrong, NULL, NULL), TP_ERR_USAGE);
  wrong = bob;
  wrong.matching = "abc";
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &wrong, NULL, NULL), TP_ERR_USAGE);
  wrong = bob;
  wrong.person = "";
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &wrong, NULL, NULL), TP_ERR_USAGE);
  wrong = bob;
  wrong.struct_size = 3;
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &wrong, NULL, NULL), TP_ERR_VERSION);
  assert_int_equal(tp_sqlite_sessions_erase(NULL, &bob, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_sqlite_sessions_list(NULL, NULL, list_session, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_sqlite_session_rows(w.store, NULL, "s", look_at_row, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(strings_of(w.store, 1), STRINGS);
  assert_int_equal(strings_of(reader, 1), STRINGS);
  tp_store_free(reader);
  close_world(&w);
}

/* ---- turns of sessions that go on ---- */

static size_t count_everywhere(const char *text) {
  char file[400];
  size_t count = 0;
  DIR *dir = opendir(directory);
  for (struct dirent *entry; (entry = readdir(dir));) {
    snprintf(file, sizeof file, "%s/%s", directory, entry->d_name);
    if (entry->d_name[0] != '.') count += count_in(file, text);
  }
  closedir(dir);
  return count;
}

TEST(turns_that_have_a_text_are_erased_wherever_it_stands) {
  world w = open_world();
  plant_all(&w);
  int left = STRINGS; /* messages without a turn, and questions, which all belong to one turn, are erased together */
  for (int place = 0; place < PLACES; place++) {
    char text[NEEDLE];
    snprintf(text, sizeof text, "%s", needle_of(1, place + PLACES));
    assert_int_not_equal(count_everywhere(text), 0);
    tp_kept_erased counted = {.struct_size = sizeof counted}, erased = counted;
    tp_kept_choice request = {.struct_size = sizeof request, .tenant = "bob", .matching = text, .only_counts = 1};
    assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, &counted, NULL), TP_OK);
    assert_int_equal(strings_of(w.store, 1), left); /* nothing was erased */
    request.only_counts = 0;
    assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, &erased, NULL), TP_OK);
    assert_true(erased.sessions == 1 && erased.is_complete && counted.sessions == 1 && counted.rows == erased.rows);
    assert_int_equal(erased.turns, place == 5 ? 0 : 1);
    if (count_everywhere(text)) fail_msg("place %d: the text is left", place);
    int now = strings_of(w.store, 1);
    if (now >= left || now < left - (place == 1 || place == 4 ? EACH : 1))
      fail_msg("place %d: %d of %d are left", place, now, left);
    left = now;
  }
  assert_int_equal(strings_of(w.store, 0), STRINGS);
  assert_int_equal(strings_of(w.store, 2), STRINGS);
  tp_kept_erased none = {.struct_size = sizeof none};
  const tp_kept_choice of_no_turn[] = {
      {.struct_size = sizeof none, .tenant = "bob", .matching = needle_of(0, 3)}, /* this string is Ann's */
      {.struct_size = sizeof none, .tenant = "bob", .matching = "session"},       /* a column's name */
      {.struct_size = sizeof none, .tenant = "bob", .matching = "assistant"}};
  for (size_t i = 0; i < sizeof of_no_turn / sizeof *of_no_turn; i++) {
    tp_kept_choice request = of_no_turn[i];
    request.struct_size = sizeof request;
    assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, &none, NULL), TP_OK);
    assert_int_equal(none.rows, 0);
  }
  assert_int_equal(tp_sqlite_store_verify(w.store, NULL, NULL, NULL), TP_OK);
  close_world(&w);
}

/* A turn with a user's message in it, and its record if it has a workspace or a thread. */
static void plant_turn(world *w, const char *session, const char *turn, const char *workspace, const char *thread,
                       const char *said) {
  static uint64_t number = 5000;
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_TENANT] = tp_text_of("acme"),
                                    [TP_ID_SESSION] = tp_text_of(session),
                                    [TP_ID_TURN] = tp_text_of(turn),
                                    [TP_ID_WORKSPACE] = tp_text_of(workspace ? workspace : ""),
                                    [TP_ID_THREAD] = tp_text_of(thread ? thread : "")};
  const tp_message message = {
      .struct_size = sizeof message, .role = TP_ROLE_USER, .turn_id = ids[TP_ID_TURN], .text = tp_text_of(said)};
  append(w, ids, &message);
  if (workspace || thread) put_turn(w, ids, number++, tp_text_of(""));
  assert_int_equal(w->store->commit(w->store->ctx, NULL), TP_OK);
}

static int64_t messages_like(const char *said) {
  char sql[128];
  snprintf(sql, sizeof sql, "SELECT count(*) FROM message WHERE text LIKE '%%%s%%'", said);
  return number_in(path, sql);
}

TEST(turns_of_a_person_are_erased_and_those_of_others_stay) {
  world w = open_world();
  plant_all(&w);
  plant_turn(&w, "hers", "1", "zoe", NULL, "gone 1");
  plant_turn(&w, "hers", "2", NULL, NULL, "gone 2"); /* its record is gone, those of its session are hers */
  plant_turn(&w, "thread", "1", "ward", "zoe", "gone 3");
  plant_turn(&w, "mixed", "1", "zoe", NULL, "gone 4");
  plant_turn(&w, "mixed", "2", "yan", NULL, "stays 1: zoe was here");
  plant_turn(&w, "mixed", "3", NULL, NULL, "zoe: gone 5");
  plant_turn(&w, "mixed", "4", NULL, NULL, "stays 2");
  plant_turn(&w, "mixed", "5", NULL, NULL, "zoey: stays 3");
  plant_turn(&w, "mixed", "6", "", "zo", "stays 4");
  plant_turn(&w, "others", "1", "yan", "yan", "zoe stays 5");
  tp_kept_erased erased = {.struct_size = sizeof erased};
  const tp_kept_choice request = {.struct_size = sizeof request, .tenant = "acme", .person = "zoe"};
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, &erased, NULL), TP_OK);
  assert_int_equal(messages_like("gone"), 0);
  assert_int_equal(messages_like("stays"), 5);
  assert_int_equal(count_everywhere("gone 5"), 0);
  assert_true(erased.turns == 5 && erased.sessions == 3 && erased.turns_unknown == 2 && erased.is_complete);
  assert_int_equal(number_in(path, "SELECT count(*) FROM session WHERE name IN ('hers', 'thread')"), 0);
  for (int i = 0; i < TENANTS; i++) assert_int_equal(strings_of(w.store, i), STRINGS);
  assert_int_equal(tp_sqlite_store_verify(w.store, NULL, NULL, NULL), TP_OK);
  close_world(&w);
}

/** What an export has passed to its callback. */
typedef struct exported {
  char texts[256];       /* the texts of the messages, each with a line end */
  int rows, jobs, after; /* after: stop then; 0: never */
  const char *tenant;
} exported;

static bool take_exported(void *ctx, const tp_kept_session *session, const char *kind, tp_text row) {
  exported *e = ctx;
  assert_true(tp_text_is(session->tenant, e->tenant));
  if (strcmp(kind, "message") == 0) {
    size_t size = strlen(e->texts);
    tp_text text = tp_value_text(tp_value_get(row, "text"));
    assert_true(size + text.size + 2 < sizeof e->texts);
    snprintf(e->texts + size, sizeof e->texts - size, "%.*s\n", (int)text.size, text.data);
  }
  e->jobs += strcmp(kind, "job") == 0;
  return ++e->rows != e->after;
}

static void expect_exported(world *w, const tp_kept_choice *request, const char *texts, int jobs) {
  exported e = {.tenant = "acme"};
  tp_kept_erased passed = {.struct_size = sizeof passed}, counted = {.struct_size = sizeof counted};
  tp_kept_choice counts = *request;
  counts.only_counts = 1;
  assert_int_equal(tp_sqlite_sessions_export(w->store, request, take_exported, &e, &passed, NULL), TP_OK);
  assert_int_equal(tp_sqlite_sessions_erase(w->store, &counts, &counted, NULL), TP_OK);
  assert_string_equal(e.texts, texts);
  assert_int_equal(e.jobs, jobs);
  assert_int_equal(e.rows, passed.rows);
  assert_true(passed.sessions == counted.sessions && passed.turns == counted.turns);
  assert_int_equal(passed.turns_unknown, counted.turns_unknown);
}

TEST(what_is_exported_is_what_an_erasure_would_delete) {
  world w = open_world();
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TENANT] = tp_text_of("acme"), [TP_ID_SESSION] = tp_text_of("mixed")};
  plant_all(&w); /* of other tenants */
  plant_turn(&w, "hers", "1", "zoe", NULL, "hers 1");
  plant_turn(&w, "hers", "2", NULL, NULL, "hers 2");
  plant_turn(&w, "mixed", "1", "zoe", NULL, "hers 3");
  plant_turn(&w, "mixed", "2", "yan", NULL, "his: zoe was here");
  plant_turn(&w, "mixed", "3", NULL, NULL, "nobody's");
  ids[TP_ID_TURN] = tp_text_of("1");
  put_job(&w, ids, "waits, of turn 1", tp_text_of("nothing of it"));
  ids[TP_ID_TURN] = tp_text_of("2");
  put_job(&w, ids, "waits, of turn 2", tp_text_of("nothing of it"));
  tp_kept_choice request = {.struct_size = sizeof request, .tenant = "acme", .person = "zoe"};
  expect_exported(&w, &request, "hers 1\nhers 2\nhers 3\n", 1);
  request.person = "nobody";
  expect_exported(&w, &request, "", 0);
  request.person = NULL;
  request.matching = "was here";
  expect_exported(&w, &request, "his: zoe was here\n", 1);
  request.matching = NULL;
  request.session = "mixed";
  expect_exported(&w, &request, "hers 3\nhis: zoe was here\nnobody's\n", 2);
  request.session = NULL;
  exported e = {.tenant = "acme", .after = 2}; /* of the first of two sessions */
  assert_int_equal(tp_sqlite_sessions_export(w.store, &request, take_exported, &e, NULL, NULL), TP_OK);
  assert_int_equal(e.rows, 2);
  exported before = {.tenant = "acme"}, later = {.tenant = "acme"};
  assert_int_equal(tp_sqlite_sessions_export(w.store, &request, take_exported, &before, NULL, NULL), TP_OK);
  put_turn(&w, ids, 99, tp_text_of("waits in the queue"));
  assert_int_equal(tp_sqlite_sessions_export(w.store, &request, take_exported, &later, NULL, NULL), TP_OK);
  assert_true(later.rows > before.rows);
  assert_int_equal(tp_sqlite_sessions_export(w.store, &request, NULL, NULL, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_sqlite_sessions_export(NULL, &request, take_exported, &e, NULL, NULL), TP_ERR_USAGE);
  request.matching = "abc";
  assert_int_equal(tp_sqlite_sessions_export(w.store, &request, take_exported, &e, NULL, NULL), TP_ERR_USAGE);
  for (int i = 0; i < TENANTS; i++) assert_int_equal(strings_of(w.store, i), STRINGS); /* nothing was erased */
  close_world(&w);
}

TEST(what_a_live_process_works_on_is_exported_too) {
  world w = open_world();
  plant_turn(&w, "s", "1", "zoe", NULL, "hers 1");
  put_process(&w);
  run_sql(&w, "UPDATE turn SET ended_ns = 0");
  const tp_kept_choice request = {.struct_size = sizeof request, .tenant = "acme", .person = "zoe"};
  tp_kept_choice counts = request;
  counts.only_counts = counts.with_others = 1;
  tp_kept_erased passed = {.struct_size = sizeof passed};
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &counts, &passed, NULL), TP_OK);
  assert_true(passed.sessions_in_use == 1 && passed.turns == 0);
  exported e = {.tenant = "acme"};
  assert_int_equal(tp_sqlite_sessions_export(w.store, &request, take_exported, &e, &passed, NULL), TP_OK);
  assert_true(tp_text_is(tp_text_of(e.texts), "hers 1\n") && passed.turns == 1 && passed.sessions == 1);
  close_world(&w);
}

TEST(turns_of_which_nothing_is_newer_are_erased_from_a_session_that_goes_on) {
  world w = open_world();
  plant_turn(&w, "s", "1", "x", NULL, "old gone 1");
  plant_turn(&w, "s", "2", NULL, NULL, "old gone 2");
  plant_turn(&w, "s", "3", "x", NULL, "old, but its record is new");
  plant_turn(&w, "s", "4", NULL, NULL, "new");
  run_sql(&w, "UPDATE message SET unix_ms = 1900 WHERE text LIKE 'old%'; UPDATE turn SET ended_unix_ms = 1900");
  run_sql(&w, "UPDATE turn SET ended_unix_ms = 5000 WHERE turn = '3'");
  tp_kept_erased erased = {.struct_size = sizeof erased};
  tp_kept_choice request = {.struct_size = sizeof request, .tenant = "acme", .turns_before_unix_ms = 1901};
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, &erased, NULL), TP_OK);
  assert_true(erased.turns == 2 && erased.sessions == 1 && messages_like("gone") == 0 && messages_like("") == 2);
  request.turns_before_unix_ms = 5001;
  request.matching = "its record"; /* both conditions hold */
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, &erased, NULL), TP_OK);
  assert_true(erased.turns == 1 && messages_like("new") == 1);
  request.matching = NULL;
  request.before_unix_ms = 5001; /* of the session, which has newer ones */
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, &erased, NULL), TP_OK);
  assert_true(erased.turns == 0 && erased.rows == 0);
  close_world(&w);
}

TEST(jobs_go_with_their_turn_and_those_that_have_ended_with_the_last_one) {
  world w = open_world();
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TENANT] = tp_text_of("acme"), [TP_ID_SESSION] = tp_text_of("s")};
  plant_turn(&w, "s", "1", "x", NULL, "the needle");
  plant_turn(&w, "s", "2", "x", NULL, "another");
  ids[TP_ID_TURN] = tp_text_of("1");
  put_job(&w, ids, "waits, of turn 1", tp_text_of("nothing of it"));
  put_job(&w, ids, "ended", tp_text_of(""));
  ids[TP_ID_TURN] = tp_text_of("2");
  put_job(&w, ids, "waits, of turn 2", tp_text_of("nothing of it"));
  run_sql(&w, "UPDATE job SET state = 3, payload = x'' WHERE idempotency_key = 'ended'");
  tp_kept_choice request = {.struct_size = sizeof request, .tenant = "acme", .matching = "the needle"};
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, NULL, NULL), TP_OK);
  assert_int_equal(number_in(path, "SELECT count(*) FROM job WHERE idempotency_key LIKE '%turn 1'"), 0);
  assert_int_equal(number_in(path, "SELECT count(*) FROM job"), 2);
  request.matching = "another";
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, NULL, NULL), TP_OK);
  assert_int_equal(number_in(path, "SELECT count(*) FROM job"), 0);
  assert_int_equal(tp_sqlite_store_verify(w.store, NULL, NULL, NULL), TP_OK);
  plant_turn(&w, "s", "3", NULL, NULL, "of a time that is not known");
  run_sql(&w, "UPDATE message SET unix_ms = 0");
  request.matching = NULL;
  request.turns_before_unix_ms = 5000;
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &request, NULL, NULL), TP_OK);
  assert_int_equal(messages_like("not known"), 1);
  close_world(&w);
}

/* Rows that wait in the store's queue, and reasons of attempts whose entry never got a record. */
TEST(rows_that_wait_and_attempts_without_an_entry_are_erased_too) {
  world w = open_world();
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_TENANT] = tp_text_of("bob"), [TP_ID_SESSION] = tp_text_of("s")};
  tp_attempt_record attempt = {.struct_size = sizeof attempt,
                               .process_run_id = 7,
                               .entry_id = 1000,
                               .attempt = 1,
                               .message = tp_text_of("plant-bob-lost")};
  assert_int_equal(w.store->attempt(w.store->ctx, &attempt), TP_OK);
  for (uint64_t i = 0; i < 200; i++) put_turn(&w, ids, 2000 + i, tp_text_of("plant-bob-late"));
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &bob, NULL, NULL), TP_OK);
  assert_int_equal(w.store->commit(w.store->ctx, NULL), TP_OK);
  assert_int_equal(number_in(path, "SELECT count(*) FROM turn"), 0);
  assert_int_equal(count_bytes(1), 0);
  close_world(&w);
}

/* When SQLite moves rows from page to page, because others come between them and grow, it leaves copies. These are not
 * overwritten when the rows are deleted. */
TEST(copies_in_pages_that_were_split_are_overwritten_too) {
  enum { ROWS = 900 };
  world w = open_world();
  char sql[400];
  for (unsigned i = 0; i < ROWS; i++) {
    unsigned random = (i + 1) * 2654435761u, other = (i / 2 + 1) * 2654435761u;
    snprintf(sql, sizeof sql,
             "INSERT INTO task VALUES ('%08x', 0, 1, 't', '', CAST('plant-%s-%04u-' || hex(zeroblob(%u)) AS BLOB), x'',"
             " '%s', 's'); UPDATE task SET arguments = arguments || hex(zeroblob(%u)) WHERE key = '%08x' AND %u",
             random, tenants[i % TENANTS], i, random >> 8 & 127, tenants[i % TENANTS], random >> 16 & 127, other,
             i % 3 == 0);
    run_sql(&w, sql);
  }
  assert_int_equal(tp_sqlite_sessions_erase(w.store, &bob, NULL, NULL), TP_OK);
  assert_int_equal(count_bytes(1), 0);
  assert_int_equal(number_in(path, "SELECT count(*) FROM task"), ROWS - ROWS / TENANTS);
  close_world(&w);
}

/* ---- files that others may read, and empty ones ---- */

TEST(key_that_others_may_use_is_refused) {
  static const int modes[] = {0644, 0640, 0604, 0666, 0620, 0610, 0601, 0777, 0660, 0606};
  char key[120];
  unsigned char hash[32];
  tp_store *store = open_store();
  assert_int_equal(tp_sqlite_store_hash(store, tp_text_of("a"), hash, NULL), TP_OK);
  tp_store_free(store);
  snprintf(key, sizeof key, "%s-key", path);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    tp_fault fault = {0};
    assert_int_equal(chmod(key, (mode_t)modes[i]), 0);
    store = open_store();
    assert_int_equal(tp_sqlite_store_hash(store, tp_text_of("a"), hash, &fault), TP_ERR_IO);
    assert_non_null(strstr(fault.message, "chmod 600"));
    assert_int_equal(chmod(key, 0600), 0);
    assert_int_equal(tp_sqlite_store_hash(store, tp_text_of("a"), hash, NULL), TP_OK);
    tp_store_free(store);
  }
}

TEST(every_file_of_a_store_is_its_owners_alone_whatever_the_umask) {
  struct stat found;
  char file[400];
  int count = 0;
  mode_t before = umask(0);
  world w = open_world();
  plant_all(&w);
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 8, .process_id = getpid()};
  tp_breadcrumb *crumbs = NULL;
  assert_int_equal(w.store->open(w.store->ctx, &owner, NULL), TP_OK);
  assert_int_equal(w.store->breadcrumbs(w.store->ctx, 2, &crumbs, NULL), TP_OK);
  DIR *dir = opendir(directory);
  for (struct dirent *entry; (entry = readdir(dir));) {
    snprintf(file, sizeof file, "%s/%s", directory, entry->d_name);
    if (entry->d_name[0] == '.' || stat(file, &found) != 0) continue;
    if ((found.st_mode & 07777) != 0600) fail_msg("%s has mode %04o", file, (unsigned)found.st_mode & 07777);
    count++;
  }
  closedir(dir);
  umask(before);
  assert_int_equal(count, 5); /* the file, its log and shared memory, the key, the breadcrumbs */
  close_world(&w);
}

static int warnings;
static void count_warning(void *ctx, const tp_log_record *record) {
  (void)ctx;
  warnings += strstr(record->message, "0 bytes") != NULL;
}

TEST(file_of_no_bytes_is_named_and_never_read_as_a_store) {
  tp_sqlite_store_options options = {
      .struct_size = sizeof options, .path = path, .existing_only = 1, .log = count_warning};
  tp_store *store = NULL;
  tp_fault fault = {0};
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(tp_sqlite_store_open(&options, &store, &fault), TP_ERR_STORE_CORRUPT);
  assert_non_null(strstr(fault.message, "0 bytes"));
  options.existing_only = 0;
  options.read_only = 1;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_ERR_STORE_CORRUPT);
  options.read_only = 0;
  warnings = 0;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK); /* as after a crash while the file was made */
  assert_int_equal(warnings, 1);
  tp_store_free(store);
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  assert_int_equal(warnings, 1);
  tp_store_free(store);
}

static int child_main(const char *file, int at, int how) {
  tp_store *store = NULL;
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = file};
  if (!install_deaths() || tp_sqlite_store_open(&options, &store, NULL) != TP_OK) return 4;
  writes = 0;
  dies_at = at;
  dies_how = how;
  tp_status status = tp_sqlite_sessions_erase(store, &bob, NULL, NULL);
  child_say("W %d\n", writes);
  tp_store_free(store);
  return status == TP_OK ? 0 : 5;
}

static int writes_of_child;
static void take_line(const char *line) { writes_of_child = atoi(line + 2); }

static int run_child(int at, int how) {
  char death[16], way[16];
  snprintf(death, sizeof death, "%d", at);
  snprintf(way, sizeof way, "%d", how);
  return child_take_all(child_start((const char *const[]){path, death, way, NULL}), take_line);
}

static void copy_file(const char *to, const char *from) {
  char command[400];
  snprintf(command, sizeof command, "rm -f '%s'-* && cp '%s' '%s'", to, from, to);
  assert_int_equal(system(command), 0);
}

/* The state after a kill: all rows are there; or none of them, and then the note about copies is there until the
 * erasure is over. */
static void assert_goes_on(int at) {
  tp_store *store = open_store();
  int left = strings_of(store, 1);
  if (left != 0 && (left != STRINGS || is_left(store))) fail_msg("point %d: %d strings are left", at, left);
  tp_kept_erased erased = {.struct_size = sizeof erased};
  assert_int_equal(tp_sqlite_sessions_erase(store, &bob, &erased, NULL), TP_OK);
  assert_int_equal(erased.sessions, left ? 2 : 0);
  assert_only_bob_is_gone(store);
  tp_store_free(store);
  assert_int_equal(count_bytes(1), 0);
}

TEST(erasure_that_is_killed_at_any_write_is_finished_by_the_next) {
  char whole[200], key[200];
  const char *rounds = getenv("TURNPHASE_ROUNDS");
  int count = rounds && atoi(rounds) > 1 ? POINTS * atoi(rounds) : POINTS, killed = 0, told = 0;
  world w = open_world();
  plant_all(&w);
  close_world(&w);
  snprintf(whole, sizeof whole, "%s.whole", directory);
  snprintf(key, sizeof key, "%s-key", path);
  copy_file(whole, path);
  remove(key); /* removed so that copy_file() may remove what stands next to the file */
  assert_int_equal(run_child(0, BEFORE), 0);
  assert_true(writes_of_child > 20);
  for (int i = 0; i < count; i++) {
    int at = 1 + (int)((int64_t)i * writes_of_child / count);
    copy_file(path, whole);
    int status = run_child(at, i % WAYS);
    killed += child_was_killed(status);
    assert_true(status == 0 || child_was_killed(status));
    tp_store *store = open_store();
    told += is_left(store);
    tp_store_free(store);
    assert_goes_on(at);
  }
  print_message("# %d were killed, %d left copies\n", killed, told);
  assert_true(killed > count * 8 / 10 && told > count / 4);
  remove(whole);
}

TEST_MAIN(count, arguments) {
  const char *words[CHILD_WORDS_MAX] = {NULL};
  if (child_is(count, arguments, words)) return child_main(words[0], atoi(words[1]), atoi(words[2]));
  return test_main(count, arguments);
}
