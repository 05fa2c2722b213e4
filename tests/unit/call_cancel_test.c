/* SPDX-License-Identifier: Apache-2.0
 *
 * The cancel of one call and of all calls of a response: what it ends, what it does not affect, and what follows it.
 * The calls of a dispatch begin before the owner reads a message that was pushed after their submit. So a cancel that
 * is requested at once finds each call at the place where it waits. */
#include "tests/support/test.h"
#include "tests/support/model.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, CALLS_MAX = 8 };

#define assert_kind(result, want) assert_string_equal(tp_tool_result_name((result)->kind), tp_tool_result_name(want))

/* A tool that defers each call and stores its token under the number in its id, "c0" to "c7". */
typedef struct world {
  tp_runtime *runtime;
  tp_turn *turn;
  tp_session *session;
  tp_submission *submission;
  tp_token tokens[CALLS_MAX];
  _Atomic int runs, cancels, destroys, filtered, posted, batches;
  _Atomic int questions;
  latch begun, ended, settled; /* settled: calls */
  const tp_tool_result *const *results;
  tp_tool tools[5];
  const tp_tool *list[5];
  tp_contribution bundle;
  act contributes, gate, filter;
  latch keeping, may_keep; /* the store is asked to keep that a call begins, and may answer */
  bool keeps;              /* with a store that is asked before a call begins */
  char log[2048];
} world;

static void on_cancel(void *ctx) { ((world *)ctx)->cancels++; }
static void on_destroy(void *ctx) { ((world *)ctx)->destroys++; }

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  tp_text id = tp_tool_run_call_id(run);
  const tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = on_cancel, .destroy = on_destroy, .ctx = w};
  w->runs++;
  tp_answer answer = tp_tool_defer(run, &deferral, &w->tokens[id.data[1] - '0']);
  latch_hit(&w->begun);
  return answer;
}

static tp_answer run_inline(void *ctx, tp_tool_run *run) {
  ((world *)ctx)->runs++;
  return tp_tool_ok(run, tp_text_of("inline"));
}

/* "gated" waits in its gate, "asked" for a person. */
static tp_answer guard(void *ctx, tp_call *call) {
  world *w = ctx;
  tp_text tool = tp_call_text(call, TP_FIELD_TOOL);
  if (tool.size == 5 && memcmp(tool.data, "asked", 5) == 0) return tp_call_ask(call, "it is asked about");
  return tool.size == 5 && memcmp(tool.data, "gated", 5) == 0 ? play(&w->gate, call) : TP_ANSWER_DONE;
}

static void note_event(void *ctx, const tp_event *event) {
  (void)event;
  latch_hit(&((world *)ctx)->settled);
}

static tp_answer filter(void *ctx, tp_call *call) {
  world *w = ctx;
  w->filtered++;
  return play(&w->filter, call);
}

static tp_answer count_call(void *ctx, tp_call *call) {
  (void)call;
  ++*(_Atomic int *)ctx;
  return TP_ANSWER_DONE;
}

static void ask(void *ctx, const tp_question *question) {
  (void)question;
  ((world *)ctx)->questions++;
}

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

static void note_log(void *ctx, const tp_log_record *record) {
  world *w = ctx;
  pthread_mutex_lock(&log_mutex);
  size_t used = strlen(w->log);
  snprintf(w->log + used, sizeof w->log - used, "%s\n", record->message);
  pthread_mutex_unlock(&log_mutex);
}

static void await_log(const world *w, const char *words) {
  for (bool found = false; !found; sleep_ms(1)) {
    pthread_mutex_lock(&log_mutex);
    found = strstr(w->log, words) != NULL;
    pthread_mutex_unlock(&log_mutex);
  }
}

/* A store that keeps starts of calls, and takes its time. */

static world *keeper;

static tp_status keep_start(void *ctx, const tp_tool_start_record *start, uint64_t *ret_id, tp_tool_end_fn earlier,
                            void *earlier_ctx, tp_fault *fault) {
  (void)ctx, (void)start, (void)earlier, (void)earlier_ctx, (void)fault;
  *ret_id = 1;
  latch_hit(&keeper->keeping);
  latch_wait(&keeper->may_keep, 1);
  return TP_OK;
}

static tp_status keep_end(void *ctx, const tp_tool_end_record *end, tp_fault *fault) {
  (void)ctx, (void)end, (void)fault;
  return TP_OK;
}

static tp_status commit(void *ctx, tp_fault *fault) {
  (void)ctx, (void)fault;
  return TP_OK;
}

static tp_store *store_that_keeps_calls(world *w) {
  tp_store *store;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &store, NULL), TP_OK);
  keeper = w;
  store->durable = 1;
  store->commit = commit;
  store->tool_start = keep_start;
  store->tool_end = keep_end;
  return store;
}

static void open_world(world *w) {
  static const char *const names[] = {"defers", "gated", "asked", "writes", "inline"};
  tp_runtime_options options = {.struct_size = sizeof options, .ask = ask, .ask_ctx = w, .log = note_log, .log_ctx = w};
  if (w->keeps) {
    options.store = store_that_keeps_calls(w);
    options.durability = TP_DURABILITY_SYNC;
  }
  w->begun = w->ended = w->settled = w->keeping = w->may_keep = (latch)LATCH;
  w->runtime = open_runtime(&options);
  const tp_listener listener = {
      .struct_size = sizeof listener, .on_event = note_event, .ctx = w, .kinds = UINT64_C(1) << TP_EVENT_TOOL_END};
  assert_int_equal(tp_runtime_listen(w->runtime, &listener, NULL, NULL), TP_OK);
  for (size_t i = 0; i < COUNT(names); i++) {
    w->tools[i] = (tp_tool){.struct_size = sizeof(tp_tool),
                            .name = names[i],
                            .run = i == 4 ? run_inline : run_tool,
                            .ctx = w,
                            .placement = TP_PLACEMENT_INLINE};
    w->list[i] = &w->tools[i];
  }
  w->tools[3].write_key = "k";
  w->bundle = (tp_contribution){.struct_size = sizeof w->bundle,
                                .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                .key = TEXT("b"),
                                .tools = w->list,
                                .tool_count = COUNT(names)};
  w->contributes = (act){.emits = &w->bundle, .emit_count = 1};
  w->gate = (act){.defers = true, .deferral = {.cancel = on_cancel, .destroy = on_destroy, .ctx = w}};
  const hook hooks[] = {
      {.id = "bundle", .phase = TOOLS, .ctx = &w->contributes},
      {.id = "guards", .phase = TP_PHASE_TOOL_PRE, .run = guard, .ctx = w, .slow = true, .sub.limit_ms = 30000},
      {.id = "filters", .phase = TP_PHASE_TOOL_RESULT, .run = filter, .ctx = w},
      {.id = "watches", .phase = TP_PHASE_TOOL_POST, .run = count_call, .ctx = &w->posted},
      {.id = "batches", .phase = TP_PHASE_TOOL_BATCH, .run = count_call, .ctx = &w->batches}};
  add_hooks(w->runtime, hooks, COUNT(hooks));
}

static void begin_turn(world *w) {
  open_world(w);
  w->turn = begin_bare(w->runtime, 0);
  assert_int_equal(run_phase(w->turn, TOOLS, NULL).outcome, TP_OK);
}

static void end_turn(world *w) {
  tp_turn_end(w->turn);
  close_runtime(w->runtime);
}

static void on_end(void *ctx, const tp_tool_result *const *results, size_t count) {
  world *w = ctx;
  (void)count;
  w->results = results;
  latch_hit(&w->ended);
}

static void submit(world *w, const char *const *tools, size_t count) {
  static const char *const ids[CALLS_MAX] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
  tp_tool_call calls[CALLS_MAX];
  for (size_t i = 0; i < count; i++)
    calls[i] = (tp_tool_call){.id = tp_text_of(ids[i]), .name = tp_text_of(tools[i]), .arguments = no_arguments};
  assert_int_equal(tools_submit(w->turn, calls, count, on_end, w, NULL), TP_OK);
}

static void cancel(world *w, const char *id) {
  tp_fault fault = {0};
  assert_int_equal(tp_turn_cancel_calls(w->turn, tp_text_of(id), &fault), TP_OK);
}

/* ---- one call ---- */

TEST(cancelled_call_ends_alone_and_its_siblings_go_on) {
  world w = {0};
  begin_turn(&w);
  submit(&w, (const char *const[]){"defers", "defers", "defers"}, 3);
  latch_wait(&w.begun, 3); /* the gate is on a thread */
  cancel(&w, "c1");
  assert_int_equal(tp_tool_complete(w.tokens[0], false, tp_text_of("first"), NULL), TP_OK);
  assert_int_equal(tp_tool_complete(w.tokens[2], false, tp_text_of("third"), NULL), TP_OK);
  latch_wait(&w.ended, 1);
  assert_kind(w.results[0], TP_TOOL_OK);
  assert_kind(w.results[1], TP_TOOL_CANCELLED);
  assert_kind(w.results[2], TP_TOOL_OK);
  assert_text(w.results[1]->call_id, "c1");
  assert_true(w.results[1]->started);
  assert_int_equal(w.cancels, 1);
  assert_int_equal(w.filtered, 3);
  assert_int_equal(w.posted, 3);
  assert_int_equal(tp_tool_complete(w.tokens[1], false, tp_text_of("late"), NULL), TP_ERR_STALE);
  end_turn(&w);
  assert_int_equal(w.destroys, 3);
}

TEST(call_that_waits_for_another_ends_and_never_runs) {
  world w = {0};
  begin_turn(&w);
  submit(&w, (const char *const[]){"writes", "writes", "writes", "defers"}, 4);
  latch_wait(&w.begun, 2);
  cancel(&w, "c1");
  cancel(&w, "c3");
  latch_wait(&w.settled, 2); /* while the first call runs */
  assert_int_equal(tp_tool_complete(w.tokens[0], false, tp_text_of("first"), NULL), TP_OK);
  latch_wait(&w.begun, 3); /* the third call goes on: the second was not given up, it never began */
  assert_int_equal(tp_tool_complete(w.tokens[2], false, tp_text_of("third"), NULL), TP_OK);
  latch_wait(&w.ended, 1);
  assert_kind(w.results[0], TP_TOOL_OK);
  assert_kind(w.results[1], TP_TOOL_CANCELLED);
  assert_false(w.results[1]->started);
  assert_kind(w.results[2], TP_TOOL_OK);
  assert_kind(w.results[3], TP_TOOL_CANCELLED);
  assert_int_equal(w.runs, 3);
  end_turn(&w);
}

TEST(call_that_has_run_keeps_its_result_while_tool_result_is_under_way) {
  latch deferred = LATCH;
  world w = {.filter = {.defers = true, .deferral = {.cancel = on_cancel}}};
  begin_turn(&w);
  w.filter.deferral.ctx = &w;
  w.filter.deferred = &deferred;
  submit(&w, (const char *const[]){"inline"}, 1);
  latch_wait(&deferred, 1);
  cancel(&w, "c0");
  cancel(&w, "c7");
  await_log(&w, "no call `c7`"); /* the first cancel was delivered before it */
  const tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  assert_int_equal(tp_token_complete(w.filter.token, &done, NULL), TP_OK);
  latch_wait(&w.ended, 1);
  assert_kind(w.results[0], TP_TOOL_OK);
  assert_int_equal(w.cancels, 0);
  assert_int_equal(w.posted, 1);
  end_turn(&w);
}

/* ---- all calls of a response ---- */

TEST(cancelled_response_ends_each_call_where_it_waits) {
  latch deferred = LATCH;
  world w = {0};
  begin_turn(&w);
  w.gate.deferred = &deferred;
  submit(&w, (const char *const[]){"defers", "gated", "asked", "writes", "writes", "inline"}, 6);
  latch_wait(&w.begun, 2);
  latch_wait(&deferred, 1);
  while (w.questions == 0) sleep_ms(1);
  int64_t cancelled_ns = now_ns();
  cancel(&w, "");
  latch_wait(&w.ended, 1);
  assert_true(now_ns() - cancelled_ns < INT64_C(20000000000)); /* the gate's limit is 30 s */
  for (int i = 0; i < 5; i++) assert_kind(w.results[i], TP_TOOL_CANCELLED);
  assert_true(w.results[0]->started && w.results[3]->started);
  assert_false(w.results[1]->started || w.results[2]->started || w.results[4]->started);
  bool inline_had_run = w.results[5]->kind == TP_TOOL_OK; /* its gate is on a thread as well */
  assert_int_equal(w.runs, inline_had_run ? 3 : 2);
  assert_int_equal(w.filtered, inline_had_run ? 3 : 2);
  assert_int_equal(w.posted, inline_had_run ? 3 : 2);
  assert_int_equal(w.cancels, 3);
  submit(&w, (const char *const[]){"inline"}, 1); /* the turn goes on */
  latch_wait(&w.ended, 2);
  assert_kind(w.results[0], TP_TOOL_OK);
  end_turn(&w);
  assert_int_equal(w.destroys, 3);
}

/* ---- in a turn that the library drives ---- */

typedef struct driven {
  reply replies[2];
  recorder *model;
} driven;

/* A turn whose first response calls `tool` twice. */
static void begin_driven(world *w, driven *d, const char *tool) {
  open_world(w);
  const tp_tool_call call = {.name = tp_text_of(tool), .arguments = no_arguments};
  d->replies[0] = (reply){.calls = {call, call}, .call_count = 2};
  d->replies[0].calls[0].id = (tp_text)TEXT("c0");
  d->replies[0].calls[1].id = (tp_text)TEXT("c1");
  d->replies[1] = (reply){.text = "done"};
  d->model = recorder_new(d->replies, 2);
  const tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .model = recorder_model(d->model, true)};
  assert_int_equal(tp_session_open(w->runtime, &options, &w->session, NULL), TP_OK);
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go")};
  assert_int_equal(tp_turn_submit(w->session, &request, NULL, NULL, &w->submission, NULL), TP_OK);
}

/* The model is asked again, and reads `results`. */
static void end_driven(world *w, driven *d, const char *results) {
  const tp_turn_result *result;
  tp_fault fault = {0};
  assert_int_equal(tp_submission_wait(w->submission, 60000, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_int_equal(d->model->asked, 2);
  assert_non_null(strstr(d->model->requests[1], results));
  assert_int_equal(w->batches, 1);
  assert_int_equal(tp_submission_cancel_calls(w->submission, (tp_text){NULL, 0}, &fault), TP_ERR_STALE);
  assert_non_null(strstr(fault.message, "ended"));
  tp_submission_unref(w->submission);
  tp_session_close(w->session, NULL, NULL);
  close_runtime(w->runtime);
  recorder_free(d->model);
}

TEST(driven_turn_shows_the_cancelled_call_to_the_model_and_goes_on) {
  world w = {0};
  driven d;
  begin_driven(&w, &d, "defers");
  latch_wait(&w.begun, 2);
  assert_int_equal(tp_submission_cancel_calls(w.submission, tp_text_of("c1"), NULL), TP_OK);
  assert_int_equal(tp_tool_complete(w.tokens[0], false, tp_text_of("first"), NULL), TP_OK);
  end_driven(&w, &d, "T<first>=<c0>T!<the call was cancelled>=<c1>");
  assert_int_equal(w.posted, 2);
}

TEST(call_whose_start_is_being_kept_is_not_run) {
  world w = {.keeps = true};
  driven d;
  begin_driven(&w, &d, "inline");
  latch_wait(&w.keeping, 2);
  assert_int_equal(tp_submission_cancel_calls(w.submission, tp_text_of("c1"), NULL), TP_OK);
  assert_int_equal(tp_submission_cancel_calls(w.submission, tp_text_of("c7"), NULL), TP_OK);
  await_log(&w, "no call `c7`"); /* the first cancel was delivered before it */
  latch_hit(&w.may_keep);
  end_driven(&w, &d, "T<inline>=<c0>T!<the call was cancelled>=<c1>");
  assert_int_equal(w.runs, 1);
}

/* ---- what there is nothing of ---- */

TEST(cancel_of_no_call_is_logged_and_changes_nothing) {
  world w = {0};
  begin_turn(&w);
  submit(&w, (const char *const[]){"inline", "defers"}, 2);
  latch_wait(&w.begun, 1);
  while (w.posted == 0) sleep_ms(1);
  cancel(&w, "c0");
  cancel(&w, "c9");
  assert_int_equal(tp_tool_complete(w.tokens[1], false, tp_text_of("said"), NULL), TP_OK);
  latch_wait(&w.ended, 1);
  assert_kind(w.results[0], TP_TOOL_OK);
  assert_kind(w.results[1], TP_TOOL_OK);
  tp_fault fault = {0};
  assert_int_equal(tp_turn_cancel_calls(NULL, (tp_text){NULL, 0}, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_submission_cancel_calls(NULL, (tp_text){NULL, 0}, &fault), TP_ERR_USAGE);
  end_turn(&w);
  assert_non_null(strstr(w.log, "no call `c0` of the turn is under way"));
  assert_non_null(strstr(w.log, "no call `c9` of the turn is under way"));
}
