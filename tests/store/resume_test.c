/* SPDX-License-Identifier: Apache-2.0
 *
 * A turn whose process dies, and that is submitted again by its id. A child of this program runs it on the SQLite store
 * with durability SYNC and kills itself at the n-th possible moment: around the commits of the start and of the result
 * of each tool call, and inside of the tool. A second child submits the turn again. For every n, no function of a tool
 * that is not idempotent runs twice, and the model reads exactly one result of each call. */
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"

#define SECRET "hunter2-planted"

static const char *own_path;

/* ---- the child ---- */

static int lines_fd;
static _Atomic int moments;
static int dies_at; /* 0: never */

static void say(const char *format, ...) {
  static char line[REQUEST_BYTES + 64];
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (write(lines_fd, line, (size_t)size) != size) _exit(3);
  pthread_mutex_unlock(&mutex);
}

static void moment(void) {
  if (++moments == dies_at) kill(getpid(), SIGKILL);
}

static tp_store real;

static tp_status start_and_count(void *ctx, const tp_tool_start_record *start, uint64_t *ret_id, tp_tool_end_fn earlier,
                                 void *earlier_ctx, tp_fault *fault) {
  moment();
  tp_status status = real.tool_start(ctx, start, ret_id, earlier, earlier_ctx, fault);
  moment();
  return status;
}

static tp_status end_and_count(void *ctx, const tp_tool_end_record *end, tp_fault *fault) {
  moment();
  tp_status status = real.tool_end(ctx, end, fault);
  moment();
  return status;
}

/* The answer has text, value and a part, each with the secret. */
static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  tp_text arguments = tp_tool_run_arguments(run);
  say("F %s %d\n", (const char *)ctx, arguments.data[arguments.size - 1]);
  moment();
  const tp_part picture = {.struct_size = sizeof picture,
                           .kind = TP_PART_IMAGE,
                           .bytes = TEXT("\0PNG " SECRET),
                           .media_type = TEXT("image/png")};
  const tp_part *const parts[] = {&picture};
  const tp_tool_answer answer = {.struct_size = sizeof answer,
                                 .text = TEXT("done " SECRET),
                                 .value = TEXT("\x81\xa3has\xaf" SECRET),
                                 .parts = parts,
                                 .part_count = 1};
  return tp_tool_answer_with(run, &answer, NULL);
}

static tp_runtime *open_child_runtime(const hook *contribute) {
  tp_sqlite_store_options store_options = {.struct_size = sizeof store_options, .path = path};
  tp_store *store = NULL;
  tp_fault fault = {0};
  if (tp_sqlite_store_open(&store_options, &store, &fault) != TP_OK) _exit(4);
  real = *store;
  tp_store shown = *store;
  shown.tool_start = start_and_count;
  shown.tool_end = end_and_count;
  tp_runtime_options options = {.struct_size = sizeof options, .store = &shown, .durability = TP_DURABILITY_SYNC};
  tp_runtime *runtime = NULL;
  if (tp_runtime_new(&options, &runtime, &fault) != TP_OK || hooks_add(runtime, contribute, 1, &fault) != TP_OK)
    _exit(5);
  return runtime;
}

static int child_main(const char *file, int at, int fd) {
  snprintf(path, sizeof path, "%s", file);
  dies_at = at;
  lines_fd = fd;
  tp_tool charge = {.struct_size = sizeof charge,
                    .name = "charge",
                    .run = run_tool,
                    .ctx = (void *)(uintptr_t) "charge",
                    .placement = TP_PLACEMENT_THREAD};
  tp_tool look = {.struct_size = sizeof look,
                  .name = "look",
                  .run = run_tool,
                  .ctx = (void *)(uintptr_t) "look",
                  .idempotent = true};
  const tp_tool *list[] = {&charge, &look};
  const tp_contribution bundle = {.struct_size = sizeof bundle,
                                  .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                  .key = TEXT("b"),
                                  .tools = list,
                                  .tool_count = 2};
  act contributes = {.emits = &bundle, .emit_count = 1};
  const hook contribute = {.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes};
  char one[4], two[4];
#define CALL(call, tool, value) \
  { .id = TEXT(call), .name = TEXT(tool), .arguments = value }
  const reply replies[] = {{.calls = {CALL("c1", "charge", argument_n(one, 1)),
                                      CALL("c2", "charge", argument_n(two, 2)), CALL("c3", "look", argument_n(one, 1))},
                            .call_count = 3},
                           {.calls = {CALL("c4", "charge", argument_n(one, 1))}, .call_count = 1},
                           {.text = "all done"}};
#undef CALL
  recorder *model = recorder_new(replies, 3);
  tp_runtime *runtime = open_child_runtime(&contribute);
  tp_session_options session_options = {
      .struct_size = sizeof session_options, .id = "s", .model = recorder_model(model, false)};
  tp_session *session = NULL;
  if (tp_session_open(runtime, &session_options, &session, NULL) != TP_OK) return 6;
  tp_turn_request request = {.struct_size = sizeof request, .id = "t", .text = TEXT("pay")};
  const tp_turn_result *result = NULL;
  if (tp_turn_run(session, &request, &result, NULL) != TP_OK || result->outcome != TP_TURN_COMPLETED) return 7;
  say("M %s\n", model->requests[model->asked - 1]);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  recorder_free(model);
  return 0;
}

/* ---- the parent ---- */

typedef struct ledger {
  int ones, twos, looks;            /* how often functions ran, in all */
  char request[REQUEST_BYTES + 62]; /* the last one of the model */
} ledger;

static int run_child(int at, ledger *l) {
  int fds[2], status;
  char death[16], fd[16];
  static char line[REQUEST_BYTES + 64];
  assert_int_equal(pipe(fds), 0);
  snprintf(death, sizeof death, "%d", at);
  snprintf(fd, sizeof fd, "%d", fds[1]);
  pid_t id = fork();
  if (id == 0) {
    close(fds[0]);
    execl(own_path, own_path, test_file_name(__FILE__), "--child", path, death, fd, (char *)NULL);
    _exit(127);
  }
  close(fds[1]);
  FILE *lines = fdopen(fds[0], "r");
  while (fgets(line, sizeof line, lines)) {
    if (strncmp(line, "M ", 2) == 0) memcpy(l->request, line + 2, sizeof l->request);
    l->ones += strcmp(line, "F charge 1\n") == 0;
    l->twos += strcmp(line, "F charge 2\n") == 0;
    l->looks += strcmp(line, "F look 1\n") == 0;
  }
  fclose(lines);
  assert_int_equal(waitpid(id, &status, 0), id);
  return status;
}

static int count_of(const char *text, const char *what) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, what)); at++) count++;
  return count;
}

static void assert_one_result_of_each_call(const ledger *l) {
  static const char *const results[] = {"=<c1>", "=<c2>", "=<c3>", "=<c4>"};
  for (size_t i = 0; i < COUNT(results); i++) assert_int_equal(count_of(l->request, results[i]), 1);
  assert_int_equal(count_of(l->request, "T<done ") + count_of(l->request, "T!<an earlier run"), 4);
  assert_int_equal(count_of(l->request, "P<image (image/png, 20 bytes)>V<21>"), count_of(l->request, "T<done "));
}

static void assert_file_is_whole_and_has_no_secret(void) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_store *store = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  assert_int_equal(tp_sqlite_store_verify(store, NULL, NULL, NULL), TP_OK);
  tp_store_free(store);
  char search[256];
  snprintf(search, sizeof search, "! grep -q '%s' %s*", SECRET, path);
  assert_int_equal(system(search), 0);
}

TEST(no_tool_runs_twice_wherever_the_process_dies) {
  static ledger l;
  int interrupted = 0, stored = 0, status = 1;
  for (int at = 1; status != 0; at++) {
    make_directory(state);
    l = (ledger){.ones = 0};
    status = run_child(at, &l);
    assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    int before = l.ones + l.twos;
    if (status != 0) assert_int_equal(run_child(0, &l), 0);
    assert_true(l.ones <= 2 && l.twos <= 1 && l.looks >= 1);
    assert_one_result_of_each_call(&l);
    int unknown = count_of(l.request, "T!<an earlier run");
    assert_true(l.ones + l.twos + unknown >= 3); /* each call ran, or is said not to be known */
    interrupted += unknown;
    if (status != 0) stored += 3 - unknown - (l.ones + l.twos - before);
    assert_file_is_whole_and_has_no_secret();
    remove_directory(state);
    assert_true(at < 100);
  }
  print_message("# %d calls were interrupted, %d had a result that was kept\n", interrupted, stored);
  assert_true(interrupted > 0 && stored > 0);
}

TEST_WITH(turn_that_has_ended_and_is_submitted_again_runs_no_tool, make_directory, remove_directory) {
  static ledger l;
  l = (ledger){.ones = 0};
  assert_int_equal(run_child(0, &l), 0);
  assert_int_equal(count_of(l.request, "T<done "), 4);
  assert_int_equal(run_child(0, &l), 0);
  assert_int_equal(l.ones + l.twos, 3);
  assert_int_equal(l.looks, 2);
  assert_int_equal(count_of(l.request, "T!<an earlier run"), 3); /* their results are gone with the turn */
  assert_file_is_whole_and_has_no_secret();
}

TEST_MAIN(count, arguments) {
  static char self[4096];
  if (count == 5 && strcmp(arguments[1], "--child") == 0)
    return child_main(arguments[2], atoi(arguments[3]), atoi(arguments[4]));
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  if (size <= 0) return 1;
  own_path = self;
  return test_main(count, arguments);
}
