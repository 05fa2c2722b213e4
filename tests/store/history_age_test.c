/* SPDX-License-Identifier: Apache-2.0
 *
 * The age of a history: which turns are deleted, which stay, and that a store logs it. Ages are written into the
 * file. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/rows.h"
#include "turnphase/sqlite.h"

enum { DAY_MS = 86400000 };

static char said[4096]; /* what the store logged */

static void note_line(void *ctx, const tp_log_record *record) {
  (void)ctx;
  size_t size = strlen(said);
  snprintf(said + size, sizeof said - size, "%s\n", record->message);
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static tp_store *open_store(uint32_t age_s) {
  said[0] = '\0';
  tp_sqlite_store_options options = {
      .struct_size = sizeof options, .path = path, .log = note_line, .history_age_max_s = age_s};
  tp_store *store = NULL;
  tp_fault fault = {0};
  if (tp_sqlite_store_open(&options, &store, &fault) != TP_OK) fail_msg("%s", fault.message);
  return store;
}

static void execute(sqlite3 *db, const char *sql) {
  char *why = NULL;
  if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) fail_msg("%s: %s", sql, why);
}

/* Adds one message of a session, this many days old. turn: "" for none. */
static void say(sqlite3 *db, const char *tenant, const char *session, const char *turn, int days) {
  char sql[1024];
  snprintf(
      sql, sizeof sql,
      "INSERT INTO session (tenant, name, next, owner, epoch, running) VALUES ('%s', '%s', 0, 0, 0, 0)"
      " ON CONFLICT DO NOTHING;"
      "UPDATE session SET next = next + 1 WHERE tenant = '%s' AND name = '%s';"
      "INSERT INTO message (session, role, is_error, turn, text, call_id, name, parts, value, provider_data, ending,"
      " unix_ms, position) SELECT id, 1, 0, '%s', '%s', '', '', x'', x'', x'', x'', %lld, next - 1 FROM session"
      " WHERE tenant = '%s' AND name = '%s';"
      "INSERT INTO tool_call VALUES (last_insert_rowid(), 0, 'c', 't', 0, x'80')",
      tenant, session, tenant, session, turn, turn, (long long)(now_ms() - (int64_t)days * DAY_MS), tenant, session);
  execute(db, sql);
}

/* "a1 a2 b1 | c1": sessions in the order of their numbers, with the rest of each. */
static void read_left(sqlite3 *db, char *ret_left, size_t size) {
  sqlite3_stmt *rows = NULL;
  ret_left[0] = '\0';
  assert_int_equal(
      sqlite3_prepare_v2(db,
                         "SELECT name || ':' || coalesce((SELECT group_concat(text, ' ') FROM message WHERE"
                         " message.session = session.id ORDER BY message.id), '') FROM session ORDER BY id",
                         -1, &rows, NULL),
      SQLITE_OK);
  while (sqlite3_step(rows) == SQLITE_ROW) {
    size_t at = strlen(ret_left);
    snprintf(ret_left + at, size - at, "%s%s", at ? " | " : "", (const char *)sqlite3_column_text(rows, 0));
  }
  sqlite3_finalize(rows);
}

static uint64_t prune(tp_store *store, int days) {
  uint64_t rows = 0;
  tp_fault fault = {0};
  tp_sqlite_prune request = {.struct_size = sizeof request,
                             .history_before_unix_ms = now_ms() - (int64_t)days * DAY_MS};
  if (tp_sqlite_store_prune(store, &request, &rows, &fault) != TP_OK) fail_msg("%s", fault.message);
  return rows;
}

static sqlite3 *open_rows(void) {
  sqlite3 *db = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  return db;
}

/* Makes this process the one that works on the file. */
static void own(tp_store *store) {
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 7, .process_id = getpid()};
  assert_int_equal(store->open(store->ctx, &owner, NULL), TP_OK);
}

static void remove_store(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -f '%s'*", path);
  assert_int_equal(system(command), 0);
}

FOR_EACH_TEST(make_directory, remove_directory);

/* ---- which turns ---- */

/* TURN:DAYS in the order of the appends; a letter is a session. */
TEST(whole_turns_are_deleted_from_the_beginning_of_a_session_on) {
  static const struct {
    const char *name, *messages[8], *left;
    uint64_t deleted;
  } cases[] = {
      {"nothing is old", {"a1:9", "a2:5"}, "a:a1 a2", 0},
      {"all is old", {"a1:12", "a1:12", "a2:11"}, "", 3},
      {"the first turn is old", {"a1:12", "a1:12", "a2:5"}, "a:a2", 2},
      {"a turn that spans the bound stays whole", {"a1:12", "a2:11", "a2:9", "a3:1"}, "a:a2 a2 a3", 1},
      {"only its last message is young", {"a1:30", "a1:20", "a1:1"}, "a:a1 a1 a1", 0},
      {"old messages after young ones stay: the clock was set back", {"a1:12", "a2:5", "a3:40"}, "a:a2 a3", 1},
      {"sessions are apart", {"a1:12", "b1:12", "a2:1", "b2:11", "c1:1"}, "a:a2 | c:c1", 3},
      {"an old session among young ones", {"a1:1", "b1:20", "c1:1"}, "a:a1 | c:c1", 1},
      {"messages of no turn", {"a:12", "a:12", "a:3"}, "a:", 2},
      {"no turn after a turn", {"a1:12", "a:12", "a:3"}, "a:", 2},
      {"exactly in time", {"a1:10"}, "", 1},
      {"no messages", {NULL}, "", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char left[256];
    tp_store *store = open_store(0);
    sqlite3 *db = open_rows();
    for (size_t n = 0; n < 8 && cases[i].messages[n]; n++) {
      char session[2] = {cases[i].messages[n][0], '\0'}, turn[8];
      const char *colon = strchr(cases[i].messages[n], ':');
      snprintf(turn, sizeof turn, "%.*s", (int)(colon - cases[i].messages[n]), cases[i].messages[n]);
      say(db, "", session, strlen(turn) > 1 ? turn : "", atoi(colon + 1));
    }
    uint64_t deleted = prune(store, 10);
    read_left(db, left, sizeof left);
    if (strcmp(left, cases[i].left) != 0 || deleted != cases[i].deleted)
      fail_msg("%s: %s, %d deleted", cases[i].name, left, (int)deleted);
    assert_int_equal(number_in(path, "SELECT count(*) FROM tool_call WHERE message NOT IN (SELECT id FROM message)"),
                     0);
    assert_int_equal(number_in(path, "SELECT (SELECT count(*) FROM tool_call) = (SELECT count(*) FROM message)"), 1);
    assert_int_equal(prune(store, 10), 0); /* at a rest */
    sqlite3_close(db);
    tp_store_free(store);
    remove_store();
  }
}

TEST(a_session_that_something_works_on_stays_whole_until_that_has_ended) {
  static const struct {
    const char *name, *work, *ends;
  } cases[] = {
      {"a phase that runs", "INSERT INTO entry SELECT 1, %lld, 1, 0, 1, 0, 1, 1, 0, 't', '', '', 's', '', 'x', '', ''",
       "UPDATE entry SET ended_ns = 1"},
      {"a question that is open",
       "INSERT INTO question SELECT NULL, 0, 1, 1, 9e15, 0, 0, 't', '', 's', 'x', '', '', x'', '', '', '', '', '', x''"
       " WHERE %lld",
       "UPDATE question SET state = 1"},
      {"a question that expires",
       "INSERT INTO question SELECT NULL, 0, 1, 1, 9e15, 0, 0, 't', '', 's', 'x', '', '', x'', '', '', '', '', '', x''"
       " WHERE %lld",
       "UPDATE question SET expires_ms = 5"},
      {"a phase of a process that is gone", "INSERT INTO process VALUES (%lld + 1, 999999999, 1, 1, 'another boot')",
       "INSERT INTO entry SELECT 1, max(id), 1, 0, 1, 0, 1, 1, 0, 't', '', '', 's', '', 'x', '', '' FROM process"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char sql[512];
    bool is_gone = strstr(cases[i].name, "gone") != NULL;
    tp_store *store = open_store(0);
    own(store);
    sqlite3 *db = open_rows();
    say(db, "t", "s", "x", 20);
    say(db, "t2", "s", "y", 20); /* a session of another tenant with the same name */
    snprintf(sql, sizeof sql, cases[i].work, 7LL);
    execute(db, sql);
    if (is_gone) execute(db, cases[i].ends);
    uint64_t deleted = prune(store, 10);
    if (deleted != (is_gone ? 2u : 1u)) fail_msg("%s: %d deleted", cases[i].name, (int)deleted);
    if (!is_gone) {
      assert_int_equal(number_in(path, "SELECT count(*) FROM message WHERE turn = 'x'"), 1);
      execute(db, cases[i].ends);
      assert_int_equal(prune(store, 10), 1);
    }
    assert_int_equal(number_in(path, "SELECT count(*) FROM session"), 0);
    sqlite3_close(db);
    tp_store_free(store);
    remove_store();
  }
}

/* Uses the store's own records, as turns make them (phases/drive/running.c); a waiting turn has no open phase. */
TEST(a_session_whose_turn_runs_stays_whole_until_the_turn_or_its_process_has_ended) {
  static const enum { ENDS, DIES, IS_OF_ANOTHER } cases[] = {ENDS, DIES, IS_OF_ANOTHER};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool is_own = cases[i] != DIES;
    tp_store *store = open_store(0);
    own(store);
    sqlite3 *db = open_rows();
    say(db, "t", "s", "x", 20);
    tp_text ids[TP_ID_COUNT] = {{NULL, 0}};
    ids[TP_ID_TENANT] = tp_text_of(cases[i] == IS_OF_ANOTHER ? "t2" : "t");
    ids[TP_ID_SESSION] = tp_text_of("s");
    ids[TP_ID_TURN] = tp_text_of("y");
    tp_turn_record record = {.struct_size = sizeof record,
                             .process_run_id = is_own ? 7 : 8,
                             .number = 1,
                             .ids = ids,
                             .id_count = TP_ID_COUNT,
                             .started_ns = 1,
                             .ended_ns = 2,
                             .ended_unix_ms = 1,
                             .state = TP_STATE_RUNNING};
    if (!is_own) execute(db, "INSERT INTO process VALUES (8, 999999999, 1, 1, 'another boot')");
    assert_int_equal(store->turn_running(store->ctx, &record), TP_OK);
    assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
    assert_int_equal(prune(store, 10), cases[i] == ENDS ? 0 : 1);
    record.running_number = 1;
    record.state = 0;
    assert_int_equal(store->turn_record(store->ctx, &record), TP_OK);
    assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
    assert_int_equal(prune(store, 10), cases[i] == ENDS ? 1 : 0);
    assert_int_equal(number_in(path, "SELECT count(*) FROM message"), 0);
    sqlite3_close(db);
    tp_store_free(store);
    remove_store();
  }
}

/* More than fits into a window: a session that stays before them, and young ones between them. */
TEST(all_that_is_old_is_found_whatever_lies_in_front_of_it) {
  char name[16];
  tp_store *store = open_store(0);
  own(store);
  sqlite3 *db = open_rows();
  execute(db, "BEGIN");
  for (int i = 0; i < 1200; i++) say(db, "t", "s", "x", 30);
  for (int i = 0; i < 1300; i++) {
    snprintf(name, sizeof name, "old%d", i);
    say(db, "t", name, "x", 20);
    if (i % 100 == 0) say(db, "t", "young", "y", 2);
  }
  execute(db, "INSERT INTO entry SELECT 1, 7, 1, 0, 1, 0, 1, 1, 0, 't', '', '', 's', '', 'x', '', ''");
  execute(db, "COMMIT");
  assert_int_equal(prune(store, 10), 1300);
  assert_int_equal(number_in(path, "SELECT count(*) FROM message WHERE turn = 'x'"), 1200);
  assert_int_equal(number_in(path, "SELECT count(*) FROM message WHERE turn = 'y'"), 13);
  assert_int_equal(number_in(path, "SELECT count(*) FROM session"), 2);
  sqlite3_close(db);
  tp_store_free(store);
}

/* ---- the option ---- */

static void write_a_record(tp_store *store) {
  tp_audit row = {.struct_size = sizeof row, .unix_ms = now_ms(), .owner = "o", .action = "a", .detail = "d"};
  assert_int_equal(store->audit(store->ctx, &row), TP_OK);
  assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
}

TEST(a_store_deletes_by_age_what_it_was_opened_with_and_says_so) {
  for (int with = 0; with < 2; with++) {
    tp_store *store = open_store(0);
    sqlite3 *db = open_rows();
    say(db, "", "a", "a1", 12);
    say(db, "", "a", "a2", 2);
    tp_store_free(store);
    store = open_store(with ? 10 * 86400 : 0);
    write_a_record(store);
    write_a_record(store); /* what is deleted after the first is, before the second */
    assert_int_equal(number_in(path, "SELECT count(*) FROM message"), with ? 1 : 2);
    assert_int_equal(strstr(said, "1 messages of 1 sessions were older than history_age_max_s (864000)") != NULL, with);
    say(db, "", "b", "b1", 12);
    write_a_record(store);
    write_a_record(store);
    assert_int_equal(number_in(path, "SELECT count(*) FROM message WHERE turn = 'b1'"), 1); /* once a minute */
    sqlite3_close(db);
    tp_store_free(store);
    remove_store();
  }
}

TEST(options_that_are_wrong_are_refused) {
  tp_store *store = NULL;
  tp_fault fault = {0};
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .reserved_ = 1};
  assert_int_equal(tp_sqlite_store_open(&options, &store, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "reserved_"));
}
