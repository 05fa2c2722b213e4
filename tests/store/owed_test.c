/* SPDX-License-Identifier: Apache-2.0
 *
 * A turn whose process dies at its end: after the history has it, and before its record is stored. It is submitted
 * again, and answered from the history; its turn.post_turn, which did not run, runs then, once. A child of this program
 * dies at the moment that its argument names. */
#include "tests/support/test.h"
#include "tests/support/child.h"
#include "tests/support/directory.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"

typedef enum moment { NEVER, APPENDED, BEFORE_JOB, AFTER_JOB, IN_HANDLER, BEFORE_RECORD, MOMENTS } moment;
static int dies_at; /* a moment */

static void reach(moment m) {
  if ((int)m == dies_at) kill(getpid(), SIGKILL);
}

/* ---- a host ---- */

typedef struct host {
  tp_runtime *runtime;
  tp_session *session;
  recorder *model;
  act unused;
  _Atomic int posts, jobs; /* calls */
  char tools[64];          /* turn.post_turn's, of the last call */
} host;

static tp_store real;
static tp_history real_history;

static tp_status insert_and_die(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  reach(BEFORE_JOB);
  tp_status status = real.job_insert(ctx, job, ret_id, ret_existed, fault);
  reach(AFTER_JOB);
  return status;
}

static tp_status record_and_die(void *ctx, const tp_turn_record *record) {
  reach(BEFORE_RECORD);
  return real.turn_record(ctx, record);
}

static tp_status append_and_die(void *ctx, const tp_history_append *request, tp_fault *fault) {
  tp_status status = real_history.append(ctx, request, fault);
  reach(APPENDED);
  return status;
}

static tp_answer post(void *ctx, tp_call *call) {
  host *h = ctx;
  tp_text said = tp_call_text(call, TP_FIELD_USER_PREVIEW), answer = tp_call_text(call, TP_FIELD_ASSISTANT_PREVIEW);
  snprintf(h->tools, sizeof h->tools, "%.*s %.*s %zu", (int)said.size, said.data, (int)answer.size, answer.data,
           tp_value_count(tp_call_text(call, TP_FIELD_TOOL_EVENTS)));
  h->posts++;
  reach(IN_HANDLER);
  return TP_ANSWER_DONE;
}

static tp_answer run_job(void *ctx, tp_call *call) {
  (void)call;
  ((host *)ctx)->jobs++;
  return TP_ANSWER_DONE;
}

static const reply replies[] = {
    {.calls = {{.id = TEXT("c1"), .name = TEXT("nothing"), .arguments = TEXT("\x80")}}, .call_count = 1},
    {.text = "done"}};

static bool open_host(host *h, const char *session, tp_durability durability) {
  const tp_sqlite_store_options on_file = {.struct_size = sizeof on_file, .path = path};
  tp_store *store = NULL;
  tp_history *history = NULL;
  *h = (host){.model = recorder_new(replies, COUNT(replies))};
  if (tp_sqlite_store_open(&on_file, &store, NULL) != TP_OK || tp_sqlite_history_open(path, &history, NULL) != TP_OK)
    return false;
  real = *store;
  real_history = *history;
  tp_store dying = *store;
  dying.job_insert = insert_and_die;
  dying.turn_record = record_and_die;
  tp_history dying_history = *history;
  dying_history.append = append_and_die;
  dying_history.append_start = NULL;
  dying_history.append_cancel = NULL;
  const tp_runtime_options options = {.struct_size = sizeof options, .store = &dying, .durability = durability};
  const tp_session_options of_session = {.struct_size = sizeof of_session,
                                         .id = session,
                                         .history = &dying_history,
                                         .model = recorder_model(h->model, true)};
  const hook hooks[] = {{.id = "job",
                         .phase = TP_PHASE_TURN_POST_TURN,
                         .run = run_job,
                         .ctx = h,
                         .slow = true,
                         .idempotent = true,
                         .sub = {.execution = TP_EXECUTION_BACKGROUND}},
                        {.id = "post", .phase = TP_PHASE_TURN_POST_TURN, .run = post, .ctx = h}};
  return tp_runtime_new(&options, &h->runtime, NULL) == TP_OK && hooks_add(h->runtime, hooks, 2, NULL) == TP_OK &&
         tp_session_open(h->runtime, &of_session, &h->session, NULL) == TP_OK;
}

static void close_host(host *h) {
  tp_session_close(h->session, NULL, NULL);
  close_runtime(h->runtime);
  recorder_free(h->model);
}

/* @return whether it completed. */
static bool play_turn(host *h, bool *ret_is_stored) {
  const tp_turn_request request = {.struct_size = sizeof request, .id = "turn-1", .text = TEXT("hello")};
  const tp_turn_result *result = NULL;
  if (tp_turn_run(h->session, &request, &result, NULL) != TP_OK) return false;
  bool completed = result->outcome == TP_TURN_COMPLETED && tp_text_is(result->text, "done");
  *ret_is_stored = result->is_stored;
  tp_turn_result_free(result);
  return completed;
}

static int child_main(const char *file, const char *moment_number, const char *durability) {
  static host h;
  bool is_stored;
  snprintf(path, sizeof path, "%s", file);
  dies_at = atoi(moment_number);
  if (!open_host(&h, "s", (tp_durability)atoi(durability)) || !play_turn(&h, &is_stored)) return 3;
  close_host(&h);
  return 0;
}

/* ---- the parent ---- */

static void run_child(moment m, tp_durability durability) {
  char number[16], durable[16];
  snprintf(number, sizeof number, "%d", (int)m);
  snprintf(durable, sizeof durable, "%d", (int)durability);
  child c = child_start((const char *const[]){path, number, durable, NULL});
  int status = child_take_all(c, NULL);
  if (m == NEVER) assert_int_equal(status, 0);
  else assert_true(child_was_killed(status));
}

static bool count_job(void *ctx, const tp_job *job) {
  assert_true(tp_text_is(job->subscription, "job"));
  return ++*(int *)ctx;
}

static int count_jobs(tp_runtime *runtime) {
  const tp_job_query all = {.struct_size = sizeof all, .states = ~0u};
  int count = 0;
  assert_int_equal(tp_jobs_list(runtime, &all, count_job, &count, NULL), TP_OK);
  return count;
}

static bool count_turn(void *ctx, const tp_turn_record *record) {
  (void)record;
  return ++*(int *)ctx;
}

static int count_turns(tp_runtime *runtime) {
  int count = 0;
  assert_int_equal(tp_runtime_turns(runtime, NULL, count_turn, &count, NULL), TP_OK);
  return count;
}

static void assert_owed(moment m, tp_durability durability) {
  host h;
  bool is_stored = false, is_owed = m != NEVER;
  dies_at = 0;
  for (int again = 0; again < 2; again++) { /* the first turn has already got what was owed */
    assert_true(open_host(&h, "s", durability));
    assert_true(play_turn(&h, &is_stored));
    assert_true(is_stored);
    assert_int_equal(h.model->asked, 0);
    assert_int_equal(h.posts, is_owed && again == 0);
    if (h.posts) assert_string_equal(h.tools, "hello done 1");
    assert_int_equal(tp_jobs_wait(h.runtime, "s", 60000, NULL), TP_OK);
    assert_int_equal(count_jobs(h.runtime), 1);
    assert_int_equal(count_turns(h.runtime), 1);
    close_host(&h);
  }
}

TEST(post_turn_of_a_process_that_died_comes_with_the_answer_and_its_job_once) {
  static const tp_durability durabilities[] = {TP_DURABILITY_ASYNC, TP_DURABILITY_SYNC};
  for (moment m = NEVER; m < MOMENTS; m++)
    for (size_t d = 0; d < COUNT(durabilities); d++) {
      make_directory(state);
      run_child(m, durabilities[d]);
      assert_owed(m, durabilities[d]);
      remove_directory(state);
    }
}

/* A turn that runs once more owes what its second run did. */
TEST(turn_that_runs_once_more_has_a_job_of_its_own) {
  host h;
  make_directory(state);
  run_child(NEVER, TP_DURABILITY_ASYNC);
  dies_at = 0;
  assert_true(open_host(&h, "s", TP_DURABILITY_ASYNC));
  const tp_turn_request request = {
      .struct_size = sizeof request, .id = "turn-1", .text = TEXT("hello"), .if_exists = TP_IF_EXISTS_RUN};
  assert_int_equal(tp_turn_run(h.session, &request, NULL, NULL), TP_OK);
  assert_int_equal(h.posts, 1);
  assert_int_equal(count_jobs(h.runtime), 2);
  close_host(&h);
  remove_directory(state);
}

TEST_MAIN(count, arguments) {
  const char *words[CHILD_WORDS_MAX] = {NULL};
  if (child_is(count, arguments, words)) return child_main(words[0], words[1], words[2]);
  return test_main(count, arguments);
}
