/* SPDX-License-Identifier: Apache-2.0
 *
 * A process dies in a handler or a tool, and the next one reports its name. A child of this program kills itself in the
 * function that its argument names. */
#include <dirent.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "turnphase/sqlite.h"

static const char *own_path;

/* ---- the child ---- */

static const char *culprit;

static void die_in(const char *name) {
  if (strcmp(name, culprit) == 0) kill(getpid(), SIGKILL);
}

static tp_answer run_handler(void *ctx, tp_call *call) {
  (void)call;
  die_in(ctx);
  return TP_ANSWER_DONE;
}

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  die_in(ctx);
  return tp_tool_ok(run, tp_text_of("done"));
}

static tp_runtime *open_on_file(tp_durability durability, tp_log_fn log, void *ctx) {
  tp_sqlite_store_options store_options = {.struct_size = sizeof store_options, .path = path};
  tp_store *store = NULL;
  tp_runtime *runtime = NULL;
  tp_runtime_options options = {.struct_size = sizeof options, .durability = durability, .log = log, .log_ctx = ctx};
  if (tp_sqlite_store_open(&store_options, &store, NULL) != TP_OK) return NULL;
  options.store = store;
  return tp_runtime_new(&options, &runtime, NULL) == TP_OK ? runtime : NULL;
}

static void call_tools(tp_turn *turn) {
  static const tp_tool_call calls[] = {{.id = TEXT("1"), .name = TEXT("inline_tool"), .arguments = TEXT("\x80")},
                                       {.id = TEXT("2"), .name = TEXT("slow_tool"), .arguments = TEXT("\x80")}};
  tp_tool_result results[2];
  if (tools_run(turn, calls, 2, results, NULL) != TP_OK) _exit(7);
}

/* Three handlers, of which another thread calls the second one, then two tools; then it kills itself. */
static int child_main(const char *file, const char *name) {
  snprintf(path, sizeof path, "%s", file);
  culprit = name;
#define TOOL(word, where) \
  { .struct_size = sizeof(tp_tool), .name = word, .run = run_tool, .ctx = (void *)(uintptr_t)word, .placement = where }
  const tp_tool tools[] = {TOOL("inline_tool", TP_PLACEMENT_INLINE), TOOL("slow_tool", TP_PLACEMENT_THREAD)};
#undef TOOL
  const tp_tool *list[] = {&tools[0], &tools[1]};
  const tp_contribution bundle = {.struct_size = sizeof bundle,
                                  .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                  .key = TEXT("b"),
                                  .tools = list,
                                  .tool_count = 2};
  act contributes = {.emits = &bundle, .emit_count = 1};
#define HANDLER(word, slow_) \
  { .id = word, .phase = TP_PHASE_TURN_INTAKE, .run = run_handler, .ctx = (void *)(uintptr_t)word, .slow = slow_ }
  const hook hooks[] = {
      HANDLER("first", false),
      HANDLER("slow", true),
      HANDLER("last", false),
      {.id = "inline", .phase = TP_PHASE_TURN_PRE_POLICY, .run = run_handler, .ctx = (void *)(uintptr_t) "inline"},
      {.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes}};
#undef HANDLER
  static const uint32_t phases[] = {TP_PHASE_TURN_INTAKE, TP_PHASE_TURN_PRE_POLICY,
                                    TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION};
  tp_runtime *runtime = open_on_file(TP_DURABILITY_ASYNC, NULL, NULL);
  tp_session_options session_options = {.struct_size = sizeof session_options, .id = "s"};
  tp_turn_request request = {.struct_size = sizeof request, .id = "t"};
  tp_session *session;
  tp_turn *turn;
  if (!runtime || hooks_add(runtime, hooks, COUNT(hooks), NULL) != TP_OK) return 3;
  if (tp_session_open(runtime, &session_options, &session, NULL) != TP_OK) return 4;
  if (tp_turn_begin(session, &request, &turn, NULL) != TP_OK) return 5;
  for (size_t i = 0; i < COUNT(phases); i++) {
    tp_phase_result result = {.struct_size = sizeof result};
    if (tp_phase_run(turn, phases[i], &(tp_phase_input){.struct_size = sizeof(tp_phase_input)}, &result, NULL) != TP_OK)
      return 6;
    if (phases[i] == TP_PHASE_TURN_PRE_POLICY) die_in("between");
  }
  call_tools(turn);
  die_in("nothing");
  tp_turn_end(turn);
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  return 0;
}

/* ---- the parent ---- */

static int run_child(const char *name) {
  int status;
  pid_t id = fork();
  if (id == 0) {
    execl(own_path, own_path, test_file_name(__FILE__), "--child", path, name, (char *)NULL);
    _exit(127);
  }
  assert_int_equal(waitpid(id, &status, 0), id);
  return status;
}

static int count_files(void) {
  DIR *dir = opendir(directory);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(dir));) count += strstr(entry->d_name, "-running-") != NULL;
  closedir(dir);
  return count;
}

typedef struct suspects {
  int rows, entries, lines;
  tp_phase_id phase;
  char name[64], turn[64], entry_name[64], session[64];
  bool has_time;
} suspects;

static bool note_audit(void *ctx, const tp_audit *row) {
  suspects *s = ctx;
  if (strcmp(row->action, "crash_suspect") != 0) return true;
  assert_int_equal(row->state, TP_STATE_INTERRUPTED);
  assert_int_equal(row->reason, TP_REASON_CRASH);
  s->rows++;
  s->phase = row->phase;
  snprintf(s->name, sizeof s->name, "%s", row->subscription);
  snprintf(s->turn, sizeof s->turn, "%s", row->turn);
  return true;
}

static bool note_entry(void *ctx, const tp_entry_record *record) {
  suspects *s = ctx;
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record run = record_row(record, i);
    if (run.state != TP_STATE_INTERRUPTED || run.reason != TP_REASON_CRASH) continue;
    int64_t age_ms = time(NULL) * INT64_C(1000) - record->started_unix_ms;
    s->entries++;
    s->has_time = age_ms > -5000 && age_ms < 600000;
    snprintf(s->entry_name, sizeof s->entry_name, "%s", run.subscription);
    tp_text session = record->ids[TP_ID_SESSION];
    snprintf(s->session, sizeof s->session, "%.*s", (int)session.size, session.data);
  }
  return true;
}

static void note_log(void *ctx, const tp_log_record *record) {
  suspects *s = ctx;
  s->lines += strstr(record->message, "1 functions were called when they died (crash_suspect)") != NULL;
}

/* Opens a runtime with the file. @return what it says of the process before it. */
static suspects recover(void) {
  suspects found = {.rows = 0};
  tp_runtime *runtime = open_on_file(TP_DURABILITY_ASYNC, note_log, &found);
  assert_non_null(runtime);
  assert_int_equal(tp_runtime_start(runtime, NULL), TP_OK);
  assert_int_equal(count_files(), 1); /* only the file of this process */
  close_runtime(runtime);
  assert_int_equal(count_files(), 0);
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_store *store = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  tp_audit_query audits = {.struct_size = sizeof audits};
  tp_record_query records = {.struct_size = sizeof records};
  assert_int_equal(store->audits(store->ctx, &audits, note_audit, &found, NULL), TP_OK);
  assert_int_equal(store->records(store->ctx, &records, note_entry, &found, NULL), TP_OK);
  assert_int_equal(tp_sqlite_store_verify(store, NULL, NULL, NULL), TP_OK);
  tp_store_free(store);
  return found;
}

static bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

TEST(handler_in_which_a_process_died_is_named) {
  static const struct {
    const char *name;
    tp_phase_id phase;
  } rows[] = {{"first", TP_PHASE_TURN_INTAKE},
              {"slow", TP_PHASE_TURN_INTAKE},
              {"last", TP_PHASE_TURN_INTAKE},
              {"inline", TP_PHASE_TURN_PRE_POLICY}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    make_directory(state);
    assert_true(was_killed(run_child(rows[i].name)));
    suspects found = recover();
    assert_int_equal(found.rows, 1);
    assert_int_equal(found.lines, 1);
    assert_int_equal(found.phase, rows[i].phase);
    assert_string_equal(found.name, rows[i].name);
    assert_string_equal(found.turn, "t");
    assert_int_equal(found.entries, 1);
    assert_string_equal(found.entry_name, rows[i].name);
    assert_string_equal(found.session, "s");
    assert_true(found.has_time);
    remove_directory(state);
  }
}

TEST(tool_in_which_a_process_died_is_named) {
  static const char *const names[] = {"inline_tool", "slow_tool"};
  for (size_t i = 0; i < COUNT(names); i++) {
    make_directory(state);
    assert_true(was_killed(run_child(names[i])));
    suspects found = recover();
    assert_int_equal(found.rows, 1);
    assert_int_equal(found.phase, 0);
    assert_string_equal(found.name, names[i]);
    assert_string_equal(found.turn, "t");
    assert_int_equal(found.entries, 0);
    remove_directory(state);
  }
}

TEST(process_that_died_outside_of_them_names_none) {
  static const char *const moments[] = {"between", "nothing"};
  for (size_t i = 0; i < COUNT(moments); i++) {
    make_directory(state);
    assert_true(was_killed(run_child(moments[i])));
    assert_int_equal(count_files(), 1);
    suspects found = recover();
    assert_int_equal(found.rows + found.entries + found.lines, 0);
    remove_directory(state);
  }
}

/* After a restart of the machine, a function that was called is no longer a sign of anything. */
TEST_WITH(process_that_ended_with_its_machine_names_none, make_directory, remove_directory) {
  sqlite3 *db;
  assert_true(was_killed(run_child("slow")));
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "UPDATE process SET boot_id = 'another'", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
  suspects found = recover();
  assert_int_equal(found.rows + found.entries + found.lines, 0);
}

TEST_WITH(process_that_ended_leaves_no_file, make_directory, remove_directory) {
  assert_int_equal(run_child("nobody"), 0);
  assert_int_equal(count_files(), 0);
}

TEST_WITH(file_that_is_there_already_is_refused, make_directory, remove_directory) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_store *store = NULL;
  tp_breadcrumb *breadcrumbs = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  assert_int_equal(store->breadcrumbs(store->ctx, 4, &breadcrumbs, NULL), TP_OK);
  assert_int_equal(breadcrumbs[3].is_running, 0);
  assert_int_equal(store->breadcrumbs(store->ctx, 4, &breadcrumbs, &fault), TP_ERR_IO); /* the store already has
                                                                                           breadcrumbs */
  assert_non_null(strstr(fault.message, "cannot be made"));
  tp_store_free(store);
}

TEST_MAIN(count, arguments) {
  static char self[4096];
  if (count == 4 && strcmp(arguments[1], "--child") == 0) return child_main(arguments[2], arguments[3]);
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  if (size <= 0) return 1;
  own_path = self;
  return test_main(count, arguments);
}
