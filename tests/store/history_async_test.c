/* SPDX-License-Identifier: Apache-2.0
 *
 * A SQLite history whose turns do not wait for the disk: what they wait for instead, the state after a full disk and
 * after a kill, and which callers are notified. */
#include "tests/support/test.h"
#include "tests/support/child.h"
#include "tests/support/directory.h"
#include "tests/support/full_disk.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"

enum { SESSIONS = 3 };

/* ---- what the history says ---- */

typedef struct log_lines {
  pthread_mutex_t mutex;
  char text[4096]; /* "code message\n" */
} log_lines;
static log_lines lines = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void keep_line(void *ctx, const tp_log_record *record) {
  log_lines *l = ctx;
  pthread_mutex_lock(&l->mutex);
  size_t used = strlen(l->text);
  snprintf(l->text + used, sizeof l->text - used, "%s %s\n", tp_status_name(record->status), record->message);
  pthread_mutex_unlock(&l->mutex);
}

static bool is_said(const char *text) {
  pthread_mutex_lock(&lines.mutex);
  bool said = strstr(lines.text, text) != NULL;
  pthread_mutex_unlock(&lines.mutex);
  return said;
}

/* ---- a host with such a history ---- */

typedef struct talk {
  tp_history *history; /* the runtime has it */
  tp_runtime *runtime;
  tp_model *model;
  tp_session *sessions[SESSIONS];
} talk;

static void open_talk(talk *t, size_t queue_bytes_max) {
  static const tp_model_response answer = {.struct_size = sizeof answer, .text = TEXT("yes")};
  static const tp_model_response *const answers[] = {&answer};
  const tp_sqlite_history_options options = {.struct_size = sizeof options,
                                             .path = path,
                                             .queue_bytes_max = queue_bytes_max,
                                             .log = keep_line,
                                             .log_ctx = &lines};
  tp_runtime_options of_runtime = {.struct_size = sizeof of_runtime};
  lines.text[0] = 0;
  *t = (talk){.history = NULL};
  assert_int_equal(tp_sqlite_history_open_async(&options, &t->history, NULL), TP_OK);
  assert_null(t->history->append);
  assert_int_equal(tp_history_share(NULL, t->history, &of_runtime.shared_history, NULL), TP_OK);
  assert_int_equal(tp_runtime_new(&of_runtime, &t->runtime, NULL), TP_OK);
  tp_shared_history_unref(of_runtime.shared_history);
  assert_int_equal(tp_script_model_new(answers, 1, true, &t->model, NULL), TP_OK);
  for (int i = 0; i < SESSIONS; i++) {
    char id[16];
    tp_model model = *t->model;
    model.destroy = NULL;
    snprintf(id, sizeof id, "s%d", i);
    const tp_session_options of_session = {.struct_size = sizeof of_session, .id = id, .model = &model};
    assert_int_equal(tp_session_open(t->runtime, &of_session, &t->sessions[i], NULL), TP_OK);
  }
}

static void close_talk(talk *t) {
  for (int i = 0; i < SESSIONS; i++) tp_session_close(t->sessions[i], NULL, NULL);
  tp_runtime_free(t->runtime);
  tp_model_free(t->model);
}

/* The turn's text is its number in the session. */
static tp_status say(talk *t, int session, int number, char *ret_reason) {
  char text[32];
  snprintf(text, sizeof text, "%d", number);
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(t->sessions[session], &request, &result, NULL), TP_OK);
  tp_status code = result->code;
  if (ret_reason) snprintf(ret_reason, TP_FAULT_MESSAGE_SIZE, "%.*s", (int)result->reason.size, result->reason.data);
  tp_turn_result_free(result);
  return code;
}

/* ---- what the file has ---- */

static tp_status count_in_order(void *ctx, const tp_message *message) {
  int *count = ctx;
  char expected[32];
  snprintf(expected, sizeof expected, "%d", *count / 2);
  assert_int_equal(message->role, *count % 2 ? TP_ROLE_ASSISTANT : TP_ROLE_USER);
  if (*count % 2 == 0) {
    assert_int_equal(message->text.size, strlen(expected));
    assert_memory_equal(message->text.data, expected, message->text.size);
  }
  ++*count;
  return TP_OK;
}

static tp_status load_from(tp_history *history, int session, int *ret_messages, tp_fault *fault) {
  char id[16];
  snprintf(id, sizeof id, "s%d", session);
  *ret_messages = 0;
  const tp_history_load request = {
      .struct_size = sizeof request, .session = tp_text_of(id), .each = count_in_order, .ctx = ret_messages};
  return history->load(history->ctx, &request, fault);
}

/* @return how many turns of a session are in the file; they must be its first ones. */
static int turns_in_file(int session) {
  tp_history *history;
  int messages;
  assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
  assert_int_equal(load_from(history, session, &messages, NULL), TP_OK);
  assert_int_equal(messages % 2, 0);
  tp_history_free(history);
  return messages / 2;
}

/* ---- cases ---- */

FOR_EACH_TEST(make_directory, remove_directory);

/* Another process holds the file, and no turn is delayed. */
TEST(turns_end_while_nothing_can_be_written) {
  enum { TURNS = 20 };
  (void)state;
  talk t;
  sqlite3 *other;
  open_talk(&t, 0);
  for (int i = 0; i < SESSIONS; i++) assert_int_equal(say(&t, i, 0, NULL), TP_OK);
  int messages;
  assert_int_equal(load_from(t.history, 0, &messages, NULL), TP_OK); /* a load also waits until queued messages are
                                                                        written */
  assert_int_equal(messages, 2);
  assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
  sqlite3_busy_timeout(other, 10000);
  assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  for (int n = 1; n < TURNS; n++)
    for (int i = 0; i < SESSIONS; i++) assert_int_equal(say(&t, i, n, NULL), TP_OK);
  assert_in_range(turns_in_file(1), 0, 1); /* the lock is held: the others are not written */
  assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(other);
  close_talk(&t);
  for (int i = 0; i < SESSIONS; i++) assert_int_equal(turns_in_file(i), TURNS);
  assert_string_equal(lines.text, "");
}

TEST(full_disk_fails_turns_once_the_queue_is_full_and_loses_none_that_it_accepted) {
  enum { QUEUE = 8192, MOST = 1000 };
  (void)state;
  talk t;
  tp_fault fault = {0};
  char reason[TP_FAULT_MESSAGE_SIZE] = "";
  int taken = 0, messages;
  open_talk(&t, QUEUE);
  disk_full = true;
  tp_status status;
  while ((status = say(&t, 0, taken, reason)) == TP_OK && taken < MOST) taken++;
  assert_int_equal(status, TP_ERR_STORE_FULL);
  assert_in_range(taken, 5, 100);
  assert_non_null(strstr(reason, "the queue of turns that wait to be written is full"));
  assert_non_null(strstr(reason, path));
  assert_true(is_said("the queue of turns is full (8192 bytes): those that come now fail"));
  assert_int_equal(load_from(t.history, 0, &messages, &fault), TP_ERR_STORE_FULL); /* the load fails rather than give
                                                                                      less than all messages */
  assert_non_null(strstr(fault.message, path));
  assert_int_equal(load_from(t.history, 1, &messages, NULL), TP_OK); /* no message of this session waits in the queue */
  disk_full = false;
  assert_int_equal(load_from(t.history, 0, &messages, NULL), TP_OK);
  assert_int_equal(messages, 2 * taken);
  assert_true(is_said("turns are written again"));
  assert_int_equal(say(&t, 0, taken, NULL), TP_OK);
  close_talk(&t);
  assert_int_equal(turns_in_file(0), taken + 1);
}

TEST(turn_that_is_more_than_the_queue_fails_alone) {
  static char much[20000];
  const tp_turn_request request = {.struct_size = sizeof request, .text = {much, sizeof much}};
  const tp_turn_result *result;
  talk t;
  memset(much, 'a', sizeof much);
  open_talk(&t, sizeof much);
  assert_int_equal(tp_turn_run(t.sessions[0], &request, &result, NULL), TP_OK);
  assert_int_equal(result->code, TP_ERR_TOO_LARGE);
  assert_non_null(strstr(result->reason.data, "queue_bytes_max is 20000"));
  tp_turn_result_free(result);
  for (int n = 0; n < 3; n++) assert_int_equal(say(&t, 0, n, NULL), TP_OK);
  close_talk(&t);
  assert_int_equal(turns_in_file(0), 3);
}

/* There is no message about a full queue, and a batch that fits is accepted as before, although half of the queue is in
 * use. */
TEST(turn_that_is_more_than_the_queue_stops_no_other) {
  enum { QUEUE = 20000 };
  static char much[QUEUE];
  tp_turn_request request = {.struct_size = sizeof request, .text = {much, QUEUE * 3 / 5}};
  const tp_turn_result *result;
  talk t;
  memset(much, 'a', sizeof much);
  open_talk(&t, QUEUE);
  disk_full = true;
  assert_int_equal(tp_turn_run(t.sessions[1], &request, &result, NULL), TP_OK);
  assert_int_equal(result->code, TP_OK);
  tp_turn_result_free(result);
  request.text = (tp_text){much, sizeof much};
  assert_int_equal(tp_turn_run(t.sessions[2], &request, &result, NULL), TP_OK);
  assert_int_equal(result->code, TP_ERR_TOO_LARGE);
  tp_turn_result_free(result);
  assert_int_equal(say(&t, 0, 0, NULL), TP_OK);
  assert_false(is_said("is full ("));
  disk_full = false;
  close_talk(&t);
  assert_int_equal(turns_in_file(0), 1);
}

TEST(what_cannot_be_written_at_the_end_is_counted_in_the_log) {
  talk t;
  open_talk(&t, 0);
  disk_full = true;
  for (int n = 0; n < 4; n++) assert_int_equal(say(&t, 0, n, NULL), TP_OK);
  close_talk(&t);
  disk_full = false;
  assert_true(is_said("4 turns were lost: they could not be written before the file was closed"));
  assert_int_equal(turns_in_file(0), 0);
}

TEST(options_are_checked) {
  tp_history *history = NULL;
  tp_fault fault = {0};
  tp_sqlite_history_options options = {.struct_size = sizeof options};
  assert_int_equal(tp_sqlite_history_open_async(&options, &history, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "path"));
  options.path = path;
  assert_int_equal(tp_sqlite_history_open_async(&options, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_sqlite_history_open_async(NULL, &history, &fault), TP_ERR_USAGE);
  options.struct_size = 3;
  assert_int_equal(tp_sqlite_history_open_async(&options, &history, &fault), TP_ERR_VERSION);
  options = (tp_sqlite_history_options){.struct_size = sizeof options, .path = "/nowhere/at/all.db"};
  assert_int_equal(tp_sqlite_history_open_async(&options, &history, &fault), TP_ERR_IO);
  assert_non_null(strstr(fault.message, "/nowhere/at/all.db"));
  assert_null(history);
}

/* ---- a process that is killed ---- */

enum { CHILD_QUEUE = 256 << 20 };

static int be_child(const char *file) {
  talk t;
  char reason[TP_FAULT_MESSAGE_SIZE];
  snprintf(path, sizeof path, "%s", file);
  open_talk(&t, CHILD_QUEUE); /* a busy machine's disk may be far after */
  for (int n = 0;; n++)
    for (int i = 0; i < SESSIONS; i++) {
      tp_status code = say(&t, i, n, reason);
      if (code != TP_OK) {
        fprintf(stderr, "turn %d of session %d: %s: %s\n%s", n, i, tp_status_name(code), reason, lines.text);
        return 1;
      }
      child_say("%d %d\n", i, n);
    }
}

/* The turns in the file are the first ones, each complete. None is missing before one that is there. */
TEST(kill_takes_the_last_turns_alone) {
  enum { KILLS = 8 };
  (void)state;
  int all = 0;
  for (int k = 0; k < KILLS; k++) {
    char line[64];
    int kept[SESSIONS], status;
    const char *words[] = {path, NULL};
    child c = child_start(words);
    for (int i = 0; i < 1 + k * 3000; i++) assert_non_null(fgets(line, sizeof line, c.lines));
    assert_int_equal(kill(c.id, SIGKILL), 0);
    fclose(c.lines);
    assert_int_equal(waitpid(c.id, &status, 0), c.id);
    assert_true(child_was_killed(status));
    for (int i = 0; i < SESSIONS; i++) all += kept[i] = turns_in_file(i);
    for (int i = 1; i < SESSIONS; i++) assert_in_range(kept[i - 1] - kept[i], 0, 1);
    assert_in_range(kept[0] - kept[SESSIONS - 1], 0, 1);
    assert_int_equal(remove_directory(NULL), 0);
    assert_int_equal(make_directory(NULL), 0);
  }
  assert_true(all > 0);
}

TEST_MAIN(argc, argv) {
  const char *words[CHILD_WORDS_MAX];
  if (!install_full_disk()) return 1;
  if (child_is(argc, argv, words)) return be_child(words[0]);
  return test_main(argc, argv);
}
