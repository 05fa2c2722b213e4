/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGKILL at every n-th system call that writes. A child of this program runs turns with tool calls and background jobs
 * on the SQLite store with durability SYNC, and reports each promise. It dies before, within or after its n-th write,
 * truncation or removal of a file. A second child goes on from there. Then no job that was acknowledged is lost or
 * open, no job has ended twice, no tool that is not idempotent ran twice, each call has exactly one result, and the
 * file is whole.
 *
 * 100 points; with TURNPHASE_ROUNDS 100 for each round. TURNPHASE_SEED replays a run. */
#include "tests/support/test.h"
#include "tests/support/child.h"
#include "tests/support/directory.h"
#include "tests/support/dying_writes.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"

enum { POINTS = 100, TURNS = 4, CHARGES = 2, JOBS_MAX = 64 };

/* ---- the child: what it does ---- */

static tp_store real; /* the store that the functions below call */

static tp_status insert_and_say(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  tp_status status = real.job_insert(ctx, job, ret_id, ret_existed, fault);
  if (status == TP_OK) child_say("J %llu\n", (unsigned long long)*ret_id);
  return status;
}

static tp_status finish_and_say(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault) {
  tp_status status = real.job_finish(ctx, request, ret_state, fault);
  if (status == TP_OK && request->end == TP_JOB_END_SUCCEEDED) child_say("E %llu\n", (unsigned long long)request->id);
  return status;
}

static tp_answer run_job(void *ctx, tp_call *call) {
  (void)ctx;
  child_say("R %llu\n", (unsigned long long)tp_call_job_id(call));
  return TP_ANSWER_DONE;
}

/* @param ctx  "F": it is not idempotent. */
static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  tp_text arguments = tp_tool_run_arguments(run);
  child_say("%s %d\n", (const char *)ctx, arguments.data[arguments.size - 1]);
  return tp_tool_ok(run, tp_text_of("done"));
}

static const tp_tool charge = {.struct_size = sizeof charge,
                               .name = "charge",
                               .run = run_tool,
                               .ctx = (void *)(uintptr_t) "F",
                               .placement = TP_PLACEMENT_THREAD};
static const tp_tool look = {
    .struct_size = sizeof look, .name = "look", .run = run_tool, .ctx = (void *)(uintptr_t) "L", .idempotent = true};

static tp_runtime *open_runtime_of_child(void) {
  static const tp_tool *const tools[] = {&charge, &look};
  static tp_contribution bundle = {.struct_size = sizeof bundle,
                                   .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                   .key = TEXT("b"),
                                   .tools = tools,
                                   .tool_count = 2};
  static act contributes = {.emits = &bundle, .emit_count = 1};
  const hook hooks[] = {{.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes},
                        {.id = "job",
                         .phase = TP_PHASE_TURN_POST_TURN,
                         .run = run_job,
                         .slow = true,
                         .idempotent = true,
                         .sub = {.execution = TP_EXECUTION_BACKGROUND, .attempts = 1000}}};
  tp_sqlite_store_options store_options = {.struct_size = sizeof store_options, .path = path, .content_hashes = 1};
  tp_store *store = NULL;
  tp_runtime *runtime = NULL;
  if (tp_sqlite_store_open(&store_options, &store, NULL) != TP_OK) return NULL;
  real = *store;
  tp_store shown = *store;
  shown.job_insert = insert_and_say;
  shown.job_finish = finish_and_say;
  tp_runtime_options options = {.struct_size = sizeof options, .store = &shown, .durability = TP_DURABILITY_SYNC};
  if (tp_runtime_new(&options, &runtime, NULL) != TP_OK || hooks_add(runtime, hooks, 2, NULL) != TP_OK) return NULL;
  return runtime;
}

/* Two calls of charge, one of look, whose arguments no other turn has. */
static void make_replies(reply replies[2], int turn) {
  static char arguments[TURNS][CHARGES][4];
  tp_tool_call *calls = replies[0].calls;
  for (int i = 0; i < CHARGES; i++)
    calls[i] = (tp_tool_call){.id = tp_text_of(i ? "c2" : "c1"),
                              .name = TEXT("charge"),
                              .arguments = argument_n(arguments[turn][i], CHARGES * turn + i)};
  calls[CHARGES] = (tp_tool_call){.id = TEXT("c3"), .name = TEXT("look"), .arguments = calls[0].arguments};
  replies[0].call_count = CHARGES + 1;
  replies[1] = (reply){.text = "all done"};
}

static recorder *models[TURNS]; /* freed after the runtime, whose sessions have them */

static int run_turn(tp_runtime *runtime, int turn) {
  reply replies[2] = {0};
  char id[8];
  make_replies(replies, turn);
  recorder *model = models[turn] = recorder_new(replies, 2);
  snprintf(id, sizeof id, "t%d", turn);
  tp_session_options options = {.struct_size = sizeof options, .id = id, .model = recorder_model(model, false)};
  tp_session *session = NULL;
  if (tp_session_open(runtime, &options, &session, NULL) != TP_OK) return 6;
  tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = TEXT("pay")};
  const tp_turn_result *result = NULL;
  if (tp_turn_run(session, &request, &result, NULL) != TP_OK || result->outcome != TP_TURN_COMPLETED) return 7;
  child_say("M %d %s\n", turn, model->requests[model->asked - 1]);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  return 0;
}

static int child_main(const char *file, int first, int at, int how) {
  snprintf(path, sizeof path, "%s", file);
  dies_at = at;
  dies_how = how;
  if (!install_deaths()) return 4;
  tp_runtime *runtime = open_runtime_of_child();
  int status = runtime && tp_runtime_start(runtime, NULL) == TP_OK ? 0 : 5;
  for (int turn = first; turn < TURNS && status == 0; turn++) status = run_turn(runtime, turn);
  if (status == 0 && tp_jobs_wait(runtime, "", 60000, NULL) != TP_OK) status = 8;
  if (status == 0) child_say("W %d\n", writes);
  tp_runtime_free(runtime);
  for (int turn = 0; turn < TURNS; turn++)
    if (models[turn]) recorder_free(models[turn]);
  return status;
}

/* ---- the parent ---- */

static struct {
  bool inserted[JOBS_MAX], ran[JOBS_MAX];
  int ends[JOBS_MAX], charges[TURNS * CHARGES], jobs, turns, writes, wrong_results, unknown;
} said;

static int count_of(const char *text, const char *what) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, what)); at++) count++;
  return count;
}

static void take_line(const char *line) {
  int number = atoi(line + 2);
  assert_true(number >= 0 && (number < JOBS_MAX || line[0] == 'W'));
  if (line[0] == 'J' && !said.inserted[number]) said.jobs += said.inserted[number] = true;
  if (line[0] == 'R') said.ran[number] = true;
  if (line[0] == 'E') said.ends[number]++;
  if (line[0] == 'F') said.charges[number]++;
  if (line[0] == 'W') said.writes = number;
  if (line[0] != 'M') return;
  static const char *const results[] = {"=<c1>", "=<c2>", "=<c3>"};
  for (size_t i = 0; i < COUNT(results); i++) said.wrong_results += count_of(line, results[i]) != 1;
  said.unknown += count_of(line, "T!<an earlier run");
  said.wrong_results += count_of(line, "T<done>") + count_of(line, "T!<an earlier run") != CHARGES + 1;
  said.turns = number + 1;
}

static int run_child(int at, int how) {
  char first[16], death[16], way[16];
  snprintf(first, sizeof first, "%d", said.turns);
  snprintf(death, sizeof death, "%d", at);
  snprintf(way, sizeof way, "%d", how);
  return child_take_all(child_start((const char *const[]){path, first, death, way, NULL}), take_line);
}

static bool look_at_job(void *ctx, const tp_job *job) {
  int *promised = ctx;
  assert_int_equal(job->state, TP_JOB_SUCCEEDED);
  assert_true(job->id < JOBS_MAX && said.ran[job->id] && said.ends[job->id] <= 1);
  *promised += said.inserted[job->id];
  return true;
}

static void assert_all_is_well(void) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_job_query query = {.struct_size = sizeof query, .states = ~0u};
  tp_store *store = NULL;
  int promised = 0;
  assert_int_equal(said.turns, TURNS);
  assert_int_equal(said.wrong_results, 0);
  for (int i = 0; i < TURNS * CHARGES; i++) assert_true(said.charges[i] <= 1);
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  assert_int_equal(store->jobs(store->ctx, &query, look_at_job, &promised, NULL), TP_OK);
  assert_int_equal(promised, said.jobs);
  assert_int_equal(tp_sqlite_store_verify(store, NULL, NULL, NULL), TP_OK);
  tp_store_free(store);
}

static int points(void) {
  const char *rounds = getenv("TURNPHASE_ROUNDS");
  int count = rounds ? atoi(rounds) : 0;
  return count > 1 ? POINTS * count : POINTS;
}

static uint32_t next_random(uint32_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 17;
  *seed ^= *seed << 5;
  return *seed;
}

TEST(nothing_is_lost_or_done_twice_at_any_write) {
  const char *given = getenv("TURNPHASE_SEED");
  uint32_t first = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)now_ns(), seed = first ? first : 1;
  assert_int_equal(make_directory_in_memory(state), 0);
  memset(&said, 0, sizeof said);
  assert_int_equal(run_child(0, BEFORE), 0);
  assert_all_is_well();
  remove_directory(state);
  int all = said.writes, count = points(), killed = 0, unknown = 0;
  assert_true(all > TURNS * 10);
  print_message("# TURNPHASE_SEED=%u, %d points of %d writes\n", first, count, all);
  for (int i = 0; i < count; i++) {
    int at = 1 + (int)((i + next_random(&seed) % 1000 / 1000.0) * all / count);
    assert_int_equal(make_directory_in_memory(state), 0);
    memset(&said, 0, sizeof said);
    int status = run_child(at, (int)(next_random(&seed) % WAYS));
    killed += child_was_killed(status);
    assert_true(status == 0 || child_was_killed(status)); /* the number of writes varies, so the child may also have
                                                             ended by itself */
    int went_on = run_child(0, BEFORE);
    if (went_on != 0) fail_msg("point %d of %s: the second child ended with status %d", at, path, went_on);
    assert_all_is_well();
    remove_directory(state);
    unknown += said.unknown;
  }
  print_message("# %d were killed; %d calls have a result that is not known\n", killed, unknown);
  assert_true(killed > count * 8 / 10);
}

TEST_MAIN(count, arguments) {
  const char *words[CHILD_WORDS_MAX] = {NULL};
  if (child_is(count, arguments, words)) return child_main(words[0], atoi(words[1]), atoi(words[2]), atoi(words[3]));
  return test_main(count, arguments);
}
