/* SPDX-License-Identifier: Apache-2.0
 *
 * What handlers, callbacks and destructors may call in the runtime that calls them: they get a status, never an abort
 * or a deadlock. Each destructor here calls every public function that takes a runtime. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/model.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT };

static const tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};

/* ---- everything that takes a runtime ---- */

typedef struct caller {
  tp_runtime *runtime;
  bool is_freed; /* the runtime is being freed, or was */
  _Atomic int calls;
  _Atomic int wrong;    /* answers that should not have been given */
  _Atomic bool is_done; /* all was called */
} caller;

static void print_nothing(void *ctx, const char *text, size_t size) {
  (void)ctx;
  (void)text;
  (void)size;
}

static tp_answer silent_hook(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  return TP_ANSWER_DONE;
}

static void expect(caller *c, const char *what, tp_status status, tp_status want) {
  tp_status wanted = c->is_freed ? TP_ERR_SHUTDOWN : want;
  if (status == wanted) return;
  fprintf(stderr, "%s: %s, not %s\n", what, tp_status_name(status), tp_status_name(wanted));
  c->wrong++;
}

static void call_what_registers(caller *c) {
  tp_edit *edit = NULL;
  tp_status status = tp_edit_begin(c->runtime, NULL, &edit, NULL);
  expect(c, "tp_edit_begin", status, TP_OK);
  if (status == TP_OK) tp_edit_discard(edit);
  tp_hook silent = {.struct_size = sizeof silent, .phase = "turn.intake", .run = silent_hook};
  expect(c, "tp_hook_add", tp_hook_add(c->runtime, &silent, NULL), TP_OK);
  expect(c, "tp_subscription_kill", tp_subscription_kill(c->runtime, "nobody", true, NULL), TP_ERR_NOT_FOUND);
  if ((tp_phase_find(c->runtime, "turn.intake") == 0) != c->is_freed) c->wrong++;
  if ((tp_phase_get(c->runtime, GATHER) == NULL) != c->is_freed) c->wrong++;
}

static void call_what_inspects(caller *c) {
  expect(c, "tp_plan_print", tp_plan_print(c->runtime, 0, TP_PLAN_TABLE, print_nothing, NULL), TP_OK);
  expect(c, "tp_phases_print", tp_phases_print(c->runtime, TP_PLAN_TABLE, print_nothing, NULL), TP_OK);
  (void)tp_runtime_audit(c->runtime, TP_VISIBILITY_INTERNAL, NULL, NULL);
  (void)tp_runtime_leaks(c->runtime, NULL, NULL);
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(c->runtime, &stats);
}

static void call_what_begins(caller *c) {
  tp_turn *turn;
  tp_turn_request request = {.struct_size = sizeof request};
  tp_status status = tp_turn_begin_bare(c->runtime, &request, &turn, NULL);
  expect(c, "tp_turn_begin_bare", status, TP_OK);
  if (status == TP_OK) tp_turn_end(turn);
  static _Atomic uint32_t session_count;
  char id[32]; /* one that was closed a moment ago may still be open */
  snprintf(id, sizeof id, "of-a-destructor-%u", ++session_count);
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = id};
  status = tp_session_open(c->runtime, &options, &session, NULL);
  expect(c, "tp_session_open", status, TP_OK);
  if (status == TP_OK) tp_session_close(session, NULL, NULL);
  tp_inbox *inbox;
  status = tp_inbox_new(c->runtime, NULL, &inbox, NULL);
  expect(c, "tp_inbox_new", status, TP_OK);
  if (status == TP_OK) tp_inbox_free(inbox);
  expect(c, "tp_runtime_start", tp_runtime_start(c->runtime, NULL), TP_OK);
}

static void call_what_waits(caller *c) {
  tp_agent *agent;
  tp_agent_config config = {.struct_size = sizeof config, .id = "of-a-destructor"};
  expect(c, "tp_agent_add", tp_agent_add(c->runtime, &config, &agent, NULL), TP_ERR_USAGE);
  expect(c, "tp_jobs_wait", tp_jobs_wait(c->runtime, "", 0, NULL), TP_ERR_USAGE);
  expect(c, "tp_runtime_drain", tp_runtime_drain(c->runtime, 0, NULL, NULL), TP_ERR_USAGE);
  tp_runtime_free(c->runtime); /* frees nothing */
}

static void call_everything(void *ctx) {
  caller *c = ctx;
  c->calls++;
  call_what_registers(c);
  call_what_inspects(c);
  call_what_begins(c);
  call_what_waits(c);
  c->is_done = true;
}

/* The functions that it calls may destroy the caller in turn: only the first call counts. */
static void destroy_once(void *ctx) {
  caller *c = ctx;
  if (c->calls == 0) call_everything(c);
}

static int32_t always(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_YES;
}

static void add_destroyed(tp_runtime *runtime, const char *id, caller *handler, caller *match, bool commit) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  tp_edit *edit;
  uint32_t phase = GATHER;
  tp_handler desc = {.struct_size = sizeof desc,
                     .id = id,
                     .run = silent_hook,
                     .ctx = handler,
                     .destroy = destroy_once,
                     .phases = &phase,
                     .phase_count = 1};
  tp_match matching = {.struct_size = sizeof matching,
                       .matches = always,
                       .destroy = destroy_once,
                       .ctx = match,
                       .description = "always"};
  tp_subscription sub = {.struct_size = sizeof sub, .id = id, .handler = id, .phase = GATHER, .match = &matching};
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  assert_int_equal(tp_edit_add_handler(edit, &desc, NULL), TP_OK);
  assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_OK);
  if (commit) assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  else tp_edit_discard(edit);
}

static void remove_both(tp_runtime *runtime, const char *id) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  tp_edit *edit;
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  assert_int_equal(tp_edit_remove_subscription(edit, id, NULL), TP_OK);
  assert_int_equal(tp_edit_remove_handler(edit, id, NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
}

#define assert_called(c)            \
  do {                              \
    assert_int_equal((c).calls, 1); \
    assert_int_equal((c).wrong, 0); \
  } while (0)

/* ---- destructors ---- */

TEST(destructors_may_call_everything_in_a_commit_and_a_discard) {
  tp_runtime *runtime = open_runtime(NULL);
  caller h = {.runtime = runtime}, m = {.runtime = runtime}, dh = {.runtime = runtime}, dm = {.runtime = runtime};
  add_destroyed(runtime, "discarded", &dh, &dm, false);
  assert_called(dh);
  assert_called(dm);
  add_destroyed(runtime, "removed", &h, &m, true);
  remove_both(runtime, "removed");
  assert_called(h);
  assert_called(m);
  close_runtime(runtime);
}

TEST(destructors_may_call_everything_at_the_end_of_a_turn) {
  tp_runtime *runtime = open_runtime(NULL);
  caller h = {.runtime = runtime}, m = {.runtime = runtime};
  add_destroyed(runtime, "removed", &h, &m, true);
  tp_turn *turn = begin_bare(runtime, 0);
  remove_both(runtime, "removed");
  assert_int_equal(h.calls, 0);
  tp_turn_end(turn);
  assert_called(h);
  assert_called(m);
  close_runtime(runtime);
}

/* ---- the store: the memory store, which counts its destroy ---- */

static void (*inner_destroy)(void *ctx);
static caller *store_caller;
static latch store_gone = LATCH;

static void store_destroy(void *ctx) {
  destroy_once(store_caller);
  inner_destroy(ctx);
  latch_hit(&store_gone);
}

/* The memory store with a destructor before its own. */
static const tp_store *make_store(caller *c) {
  static tp_store store;
  tp_store *inner;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &inner, NULL), TP_OK);
  store = *inner;
  inner_destroy = store.destroy;
  store_caller = c;
  store.destroy = store_destroy;
  return &store;
}

/* ---- the other functions of the store ---- */

enum { STORE_OPEN, STORE_RECORD, STORE_COMMIT, STORE_RECORDS, STORE_INSERT, STORE_JOB_OPEN, STORE_JOBS, STORE_CALLS };
static const char *const store_call_names[STORE_CALLS] = {"open",   "record",   "commit", "records",
                                                          "insert", "job_open", "jobs"};

/* A store whose functions call the runtime, each at its first call. */
typedef struct calling_store {
  tp_store *inner;
  tp_runtime *runtime; /* NULL: it calls nothing */
  _Atomic int calls[STORE_CALLS];
  _Atomic int wrong;
} calling_store;

static void must_refuse(calling_store *s, int function, const char *what, tp_status status) {
  if (status == TP_ERR_USAGE) return;
  fprintf(stderr, "%s in the store's %s: %s\n", what, store_call_names[function], tp_status_name(status));
  s->wrong++;
}

static void call_from_store(calling_store *s, int function) {
  if (!s->runtime || ++s->calls[function] > 1) return;
  tp_agent *agent;
  tp_agent_config config = {.struct_size = sizeof config, .id = "of-a-store"};
  tp_hook silent = {.struct_size = sizeof silent, .phase = "turn.intake", .run = silent_hook};
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  must_refuse(s, function, "tp_agent_add", tp_agent_add(s->runtime, &config, &agent, NULL));
  must_refuse(s, function, "tp_jobs_wait", tp_jobs_wait(s->runtime, "", 1000, NULL));
  must_refuse(s, function, "tp_runtime_drain", tp_runtime_drain(s->runtime, 0, NULL, NULL));
  tp_runtime_free(s->runtime); /* frees nothing */
  if (tp_hook_add(s->runtime, &silent, NULL) != TP_OK) s->wrong++;
  tp_status started = tp_runtime_start(s->runtime, NULL);
  if (function == STORE_OPEN) must_refuse(s, function, "tp_runtime_start", started);
  tp_runtime_stats_get(s->runtime, &stats);
}

static tp_status calling_open(void *ctx, const tp_store_owner *owner, tp_fault *fault) {
  (void)owner, (void)fault;
  call_from_store(ctx, STORE_OPEN);
  return TP_OK;
}
static tp_status calling_record(void *ctx, const tp_entry_record *record) {
  calling_store *s = ctx;
  call_from_store(s, STORE_RECORD);
  return s->inner->record(s->inner->ctx, record);
}
static tp_status calling_commit(void *ctx, tp_fault *fault) {
  (void)fault;
  call_from_store(ctx, STORE_COMMIT);
  return TP_OK;
}
static tp_status calling_records(void *ctx, const tp_record_query *query, tp_record_fn each, void *each_ctx,
                                 tp_fault *fault) {
  calling_store *s = ctx;
  call_from_store(s, STORE_RECORDS);
  return s->inner->records(s->inner->ctx, query, each, each_ctx, fault);
}
static tp_status calling_insert(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  calling_store *s = ctx;
  call_from_store(s, STORE_INSERT);
  return s->inner->job_insert(s->inner->ctx, job, ret_id, ret_existed, fault);
}
static tp_status calling_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  calling_store *s = ctx;
  return s->inner->job_claim(s->inner->ctx, request, ret_next_ms, fault);
}
static tp_status calling_finish(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault) {
  calling_store *s = ctx;
  return s->inner->job_finish(s->inner->ctx, request, ret_state, fault);
}
static tp_status calling_renew(void *ctx, const tp_job_renew *request, tp_fault *fault) {
  calling_store *s = ctx;
  return s->inner->job_renew(s->inner->ctx, request, fault);
}
static tp_status calling_job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault) {
  calling_store *s = ctx;
  call_from_store(s, STORE_JOB_OPEN);
  return s->inner->job_open(s->inner->ctx, order_key, ret_count, fault);
}
static tp_status calling_jobs(void *ctx, const tp_job_query *query, tp_job_each_fn each, void *each_ctx,
                              tp_fault *fault) {
  calling_store *s = ctx;
  call_from_store(s, STORE_JOBS);
  return s->inner->jobs(s->inner->ctx, query, each, each_ctx, fault);
}
static void calling_destroy(void *ctx) {
  calling_store *s = ctx;
  tp_store_free(s->inner);
}

static bool ignore_record(void *ctx, const tp_entry_record *record) {
  (void)ctx, (void)record;
  return true;
}
static bool ignore_job(void *ctx, const tp_job *job) {
  (void)ctx, (void)job;
  return true;
}

TEST(functions_of_a_store_may_call_the_runtime_and_are_refused_what_waits) {
  calling_store s = {.runtime = NULL};
  assert_int_equal(tp_store_memory_new(NULL, NULL, &s.inner, NULL), TP_OK);
  tp_store store = {.struct_size = sizeof store,
                    .ctx = &s,
                    .name = "calling",
                    .open = calling_open,
                    .record = calling_record,
                    .commit = calling_commit,
                    .records = calling_records,
                    .job_insert = calling_insert,
                    .job_claim = calling_claim,
                    .job_renew = calling_renew,
                    .job_finish = calling_finish,
                    .job_open = calling_job_open,
                    .jobs = calling_jobs,
                    .destroy = calling_destroy};
  tp_runtime_options options = {.struct_size = sizeof options, .store = &store};
  assert_int_equal(tp_runtime_new(&options, &s.runtime, NULL), TP_OK);
  add_hooks(s.runtime, &(hook){.id = "h", .phase = GATHER, .run = silent_hook}, 1);
  add_hooks(s.runtime,
            &(hook){.id = "b",
                    .phase = TP_PHASE_TURN_POST_TURN,
                    .run = silent_hook,
                    .sub = {.execution = TP_EXECUTION_BACKGROUND}},
            1);
  assert_int_equal(tp_runtime_start(s.runtime, NULL), TP_OK);
  tp_turn *turn = begin_bare(s.runtime, 0);
  (void)run_phase(turn, GATHER, NULL);
  (void)run_phase(turn, TP_PHASE_TURN_POST_TURN, NULL);
  tp_turn_end(turn); /* the records go to the store on the host's own thread */
  assert_int_equal(tp_runtime_records_commit(s.runtime, NULL), TP_OK);
  assert_int_equal(tp_runtime_records(s.runtime, NULL, ignore_record, NULL, NULL), TP_OK);
  assert_int_equal(tp_jobs_list(s.runtime, NULL, ignore_job, NULL, NULL), TP_OK);
  s.calls[STORE_JOB_OPEN] = 0;
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(s.runtime, &stats);
  s.calls[STORE_COMMIT] = 0;
  assert_int_equal(tp_runtime_drain(s.runtime, 1000, NULL, NULL), TP_OK);
  for (int i = 0; i < STORE_CALLS; i++)
    if (s.calls[i] == 0) fail_msg("the store's %s was not called", store_call_names[i]);
  assert_int_equal(s.wrong, 0);
  tp_runtime_free(s.runtime);
}

static void destroy_deferral(void *ctx) { destroy_once(ctx); }

static tp_token deferred_token;

static tp_answer defer_for_ever(void *ctx, tp_call *call) {
  return tp_call_defer(call,
                       &(tp_deferral){.struct_size = sizeof(tp_deferral), .destroy = destroy_deferral, .ctx = ctx},
                       &deferred_token);
}

TEST(destructors_may_call_everything_while_the_runtime_is_freed) {
  caller h = {.is_freed = true}, m = {.is_freed = true}, deferral = {.is_freed = true}, store = {.is_freed = true};
  tp_runtime_options options = {.struct_size = sizeof options, .store = make_store(&store)};
  tp_runtime *runtime = open_runtime(&options);
  h.runtime = m.runtime = deferral.runtime = store.runtime = runtime;
  add_destroyed(runtime, "kept", &h, &m, true);
  add_hooks(runtime,
            &(hook){.id = "deferred",
                    .phase = TP_PHASE_TOOL_PRE,
                    .run = defer_for_ever,
                    .ctx = &deferral,
                    .sub = {.limit_ms = 1}},
            1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TP_PHASE_TOOL_PRE, NULL);
  assert_run(&result, "deferred", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  tp_turn_end(turn);
  tp_runtime_free(runtime);
  assert_called(h);
  assert_called(m);
  assert_called(deferral);
  assert_called(store);
}

typedef struct sleeper {
  latch entered, may_return;
} sleeper;

static tp_answer sleep_on(void *ctx, tp_call *call) {
  sleeper *s = ctx;
  latch_hit(&s->entered);
  latch_wait(&s->may_return, 1);
  (void)call;
  return TP_ANSWER_DONE;
}

TEST(destructors_may_call_everything_when_an_abandoned_handler_returns_after_the_free) {
  static caller h, m, store;
  static sleeper s = {LATCH, LATCH};
  h = m = store = (caller){.is_freed = true};
  int gone = latch_count(&store_gone);
  tp_runtime_options options = {.struct_size = sizeof options, .store = make_store(&store)};
  tp_runtime *runtime = open_runtime(&options);
  h.runtime = m.runtime = store.runtime = runtime;
  add_destroyed(runtime, "kept", &h, &m, true);
  add_hooks(runtime,
            &(hook){.id = "sleeper",
                    .phase = TP_PHASE_TOOL_PRE,
                    .run = sleep_on,
                    .ctx = &s,
                    .slow = true,
                    .sub = {.limit_ms = 50}},
            1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TP_PHASE_TOOL_PRE, NULL);
  assert_run(&result, "sleeper", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  latch_wait(&s.entered, 1);
  tp_turn_end(turn);
  tp_runtime_free(runtime);
  assert_int_equal(h.calls, 0);
  latch_hit(&s.may_return);
  latch_wait(&store_gone, gone + 1);
  assert_called(h);
  assert_called(m);
  assert_called(store);
}

/* ---- models and histories ---- */

static void model_destroy(void *ctx) { destroy_once(ctx); }

static void start_nothing(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  (void)request;
  (void)!tp_model_fail(token, TP_ERR_MODEL, "none", false, NULL);
}

static void history_destroy(void *ctx) { destroy_once(ctx); }

static tp_status load_nothing(void *ctx, const tp_history_load *request, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  return TP_OK;
}

static tp_status append_nothing(void *ctx, const tp_history_append *request, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  return TP_OK;
}

static void on_closed(void *ctx) { latch_hit(ctx); }

TEST(destructors_of_a_model_and_a_history_may_call_everything) {
  static caller model, history;
  for (int freed = 0; freed < 2; freed++) {
    model = history = (caller){.is_freed = freed};
    tp_runtime *runtime = open_runtime(NULL);
    model.runtime = history.runtime = runtime;
    tp_session *session;
    tp_session_options options = {.struct_size = sizeof options, .id = "s"};
    tp_model silent = {
        .struct_size = sizeof silent, .name = "none", .ctx = &model, .start = start_nothing, .destroy = model_destroy};
    options.model = &silent;
    tp_history nowhere = {.struct_size = sizeof nowhere,
                          .ctx = &history,
                          .load = load_nothing,
                          .append = append_nothing,
                          .destroy = history_destroy};
    options.history = &nowhere;
    assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
    if (!freed) {
      latch closed = LATCH;
      tp_session_close(session, on_closed, &closed);
      latch_wait(&closed, 1);
      while (!model.is_done || !history.is_done) sleep_ms(1); /* they may come after on_end */
    }
    close_runtime(runtime);
    assert_called(model);
    assert_called(history);
  }
}

/* ---- listeners ---- */

static void ignore_event(void *ctx, const tp_event *event) { (void)ctx, (void)event; }

TEST(destructor_of_a_listener_may_call_everything) {
  tp_runtime *runtime = open_runtime(NULL);
  caller removed = {.runtime = runtime}, left = {.runtime = runtime, .is_freed = true};
  tp_listener listener = {
      .struct_size = sizeof listener, .on_event = ignore_event, .ctx = &removed, .destroy = destroy_once};
  uint64_t id;
  assert_int_equal(tp_runtime_listen(runtime, &listener, &id, NULL), TP_OK);
  assert_int_equal(tp_runtime_unlisten(runtime, id, NULL), TP_OK);
  assert_called(removed);
  listener.ctx = &left;
  assert_int_equal(tp_runtime_listen(runtime, &listener, NULL, NULL), TP_OK);
  close_runtime(runtime);
  assert_called(left);
}

/* ---- the end of a runtime, asked for from inside ---- */

typedef struct ender {
  tp_runtime *runtime;
  tp_status drained;
  tp_token token;
  latch ended;
} ender;

static void end_it(ender *e) {
  e->drained = tp_runtime_drain(e->runtime, 0, NULL, NULL);
  tp_runtime_free(e->runtime);
}

static tp_answer end_in_handler(void *ctx, tp_call *call) {
  end_it(ctx);
  (void)call;
  return TP_ANSWER_DONE;
}

static void end_in_phase_end(void *ctx, const tp_phase_result *result) {
  (void)result;
  end_it(ctx);
  latch_hit(&((ender *)ctx)->ended);
}

static void end_in_destroy(void *ctx) { end_it(ctx); }

static tp_answer end_when_completed(void *ctx, tp_call *call) {
  ender *e = ctx;
  tp_answer outcome = tp_call_defer(
      call, &(tp_deferral){.struct_size = sizeof(tp_deferral), .destroy = end_in_destroy, .ctx = e}, &e->token);
  latch_hit(&e->ended);
  return outcome;
}

static _Atomic int logged;

static void count_log(void *ctx, const tp_log_record *record) {
  (void)ctx;
  if (record->level == TP_LOG_ERROR && strstr(record->message, "tp_runtime_free")) logged++;
}

static tp_runtime *open_logged(ender *e) {
  tp_runtime_options options = {.struct_size = sizeof options, .log = count_log};
  *e = (ender){.runtime = open_runtime(&options), .ended = LATCH};
  logged = 0;
  return e->runtime;
}

TEST(free_from_a_handler_is_logged_and_frees_nothing) {
  for (int slow = 0; slow < 2; slow++) {
    ender e;
    tp_runtime *runtime = open_logged(&e);
    add_hooks(runtime, &(hook){.id = "ender", .phase = GATHER, .run = end_in_handler, .ctx = &e, .slow = slow}, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "ender", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_int_equal(e.drained, TP_ERR_USAGE);
    assert_int_equal(logged, 1);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(free_from_a_callback_is_logged_and_frees_nothing) {
  ender e;
  tp_runtime *runtime = open_logged(&e);
  add_hooks(runtime, &(hook){.id = "h", .phase = GATHER, .run = silent_hook}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  assert_int_equal(tp_phase_submit(turn, GATHER, NULL, end_in_phase_end, &e, NULL), TP_OK);
  latch_wait(&e.ended, 1);
  assert_int_equal(e.drained, TP_ERR_USAGE);
  assert_int_equal(logged, 1);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(free_from_the_destroy_of_a_completed_deferral_is_logged_and_frees_nothing) {
  ender e;
  tp_runtime *runtime = open_logged(&e);
  add_hooks(runtime, &(hook){.id = "d", .phase = GATHER, .run = end_when_completed, .ctx = &e, .slow = true}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  ender ended = {.runtime = runtime, .ended = LATCH};
  assert_int_equal(tp_phase_submit(turn, GATHER, NULL, end_in_phase_end, &ended, NULL), TP_OK);
  latch_wait(&e.ended, 1);
  assert_int_equal(tp_token_complete(e.token, &done, NULL), TP_OK);
  assert_int_equal(e.drained, TP_ERR_USAGE);
  latch_wait(&ended.ended, 1);
  assert_int_equal(logged, 2);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- the mark is of one runtime and one process ---- */

static tp_status use(tp_runtime *runtime) {
  tp_turn *turn;
  tp_turn_request request = {.struct_size = sizeof request};
  tp_status status = tp_turn_begin_bare(runtime, &request, &turn, NULL);
  if (status != TP_OK) return status;
  tp_phase_result result = {.struct_size = sizeof result};
  status = tp_phase_run(turn, GATHER, NULL, &result, NULL);
  if (status == TP_OK && result.run_count != 1) status = TP_ERR_INTERNAL;
  tp_turn_end(turn);
  tp_status drained = tp_runtime_drain(runtime, 0, NULL, NULL);
  return status != TP_OK ? status : drained;
}

static tp_status make_and_use(void) {
  tp_runtime *runtime;
  tp_status status = tp_runtime_new(NULL, &runtime, NULL);
  if (status != TP_OK) return status;
  status = hooks_add(runtime, &(hook){.id = "h", .phase = GATHER, .run = silent_hook}, 1, NULL);
  if (status == TP_OK) status = use(runtime);
  tp_runtime_free(runtime);
  return status;
}

typedef struct second {
  tp_runtime *first;
  tp_status used, of_first;
  bool forks;
  int ended;
} second;

static tp_answer use_another_runtime(void *ctx, tp_call *call) {
  second *s = ctx;
  pid_t child = s->forks ? fork() : 0;
  if (child == 0) {
    s->used = make_and_use();
    s->of_first = tp_runtime_drain(s->first, 0, NULL, NULL);
    if (s->forks) _exit(s->used == TP_OK && s->of_first == TP_ERR_FORKED ? 0 : 1);
  } else {
    waitpid(child, &s->ended, 0);
  }
  (void)call;
  return TP_ANSWER_DONE;
}

TEST(handler_may_use_another_runtime_and_so_may_the_child_of_a_fork_in_it) {
  for (int i = 0; i < 4; i++) {
    if (i % 2 && HAS_THREAD_SANITIZER) continue;
    tp_runtime *runtime = open_runtime(NULL);
    second s = {.first = runtime, .used = TP_ERR_INTERNAL, .forks = i % 2, .ended = -1};
    add_hooks(runtime,
              &(hook){.id = "u",
                      .phase = GATHER,
                      .run = use_another_runtime,
                      .ctx = &s,
                      .slow = i / 2,
                      .sub = {.limit_ms = 60000}},
              1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "u", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    if (s.forks) {
      assert_true(WIFEXITED(s.ended));
      assert_int_equal(WEXITSTATUS(s.ended), 0);
    } else {
      assert_int_equal(s.used, TP_OK);
      assert_int_equal(s.of_first, TP_ERR_USAGE);
    }
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}
