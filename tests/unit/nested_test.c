/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns that a call of a handler or tool runs: with one handler thread and one permit; as deep as they may nest; given
 * up together with their call; refused when they would wait for themselves. The model answers "go 2" by a call of the
 * tool `delegate`, which runs a turn "go 1" in a session of its own. It answers "go 0" with "bottom", and a result of
 * the tool with the result in brackets. */
#include "tests/support/test.h"
#include "tests/support/model.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, BEGINS_MAX = 64 };

typedef struct world {
  tp_runtime *runtime;
  tp_session *session;
  tp_model model;
  tp_tool tool;
  const tp_tool *list[1];
  tp_contribution bundle;
  act contributes;
  uint32_t calls;        /* that "go N" is answered by; 0: one */
  bool in_itself;        /* nested turns are run in the session "root" */
  bool submits;          /* the tool defers and submits the turn */
  bool on_thread;        /* with submits: the tool's function runs on a handler thread */
  bool is_late;          /* another thread submits the turn, with the token */
  latch *entered, *goes; /* the tool hits the one and waits for the other */
  latch *late_goes;      /* the other thread waits for it */
  latch submitted;       /* the other thread has submitted the turn, or was refused */
  latch nested_over;     /* a submitted one has ended */
  _Atomic int sessions, inside, inside_most, hook_runs;
  _Atomic tp_status refusal;       /* what the last nested turn that was not run was refused with */
  _Atomic tp_turn_outcome outcome; /* of the last one that was run */
  pthread_mutex_t mutex;
  struct {
    char session[32], turn[64], parent[64];
  } begins[BEGINS_MAX];
  size_t begin_count;
  latch begun;
} world;

/* ---- the model ---- */

static void answer_text(tp_token token, const char *before, tp_text text, const char *behind) {
  char answer[256];
  snprintf(answer, sizeof answer, "%s%.*s%s", before, (int)text.size, text.size ? text.data : "", behind);
  const tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of(answer)};
  (void)!tp_model_complete(token, &response, NULL);
}

static void answer_calls(tp_token token, int n, uint32_t count) {
  char argument[4], ids[8][2];
  tp_tool_call calls[8];
  const tp_tool_call *list[8];
  for (uint32_t i = 0; i < count; i++) {
    ids[i][0] = 'c';
    ids[i][1] = (char)('0' + i);
    calls[i] = (tp_tool_call){.struct_size = sizeof calls[i],
                              .id = {ids[i], 2},
                              .name = TEXT("delegate"),
                              .arguments = argument_n(argument, n)};
    list[i] = &calls[i];
  }
  const tp_model_response response = {.struct_size = sizeof response, .calls = list, .call_count = count};
  (void)!tp_model_complete(token, &response, NULL);
}

static void start_model(void *ctx, const tp_model_request *request, tp_token token) {
  const world *w = ctx;
  const tp_message *last = request->messages[request->message_count - 1];
  if (last->role == TP_ROLE_TOOL) answer_text(token, "<", last->text, ">");
  else if (last->text.size == 4 && memcmp(last->text.data, "hang", 4) == 0) return;
  else if (last->text.size < 4 || last->text.data[3] == '0') answer_text(token, "", tp_text_of("bottom"), "");
  else answer_calls(token, last->text.data[3] - '0', w->calls ? w->calls : 1);
}

/* ---- the tool ---- */

static tp_session *open_own(world *w) {
  char id[32];
  tp_session *session;
  snprintf(id, sizeof id, "sub-%d", w->sessions++);
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &w->model};
  return tp_session_open(w->runtime, &options, &session, NULL) == TP_OK ? session : NULL;
}

static void enter(world *w) {
  int inside = ++w->inside;
  if (inside > w->inside_most) w->inside_most = inside;
}

static tp_text argument_text(const tp_tool_run *run, char text[8]) {
  tp_text arguments = tp_tool_run_arguments(run);
  int n = arguments.data[arguments.size - 1];
  snprintf(text, 8, n == 9 ? "hang" : "go %d", n - 1);
  return tp_text_of(text);
}

typedef struct deferred {
  world *w;
  tp_token token;
} deferred;

static void nested_ended(void *ctx, const tp_turn_result *result) {
  deferred *d = ctx;
  d->w->outcome = result->outcome;
  (void)!tp_tool_complete(d->token, false, result->text, NULL);
  latch_hit(&d->w->nested_over);
  free(d);
}

/* What another thread submits after the function of the tool has returned. */
typedef struct late_turn {
  deferred *of;
  tp_session *session;
  char text[8];
  latch *goes;
} late_turn;

static void *submit_late(void *arg) {
  late_turn *l = arg;
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(l->text)};
  const tp_token token = l->of->token;
  world *w = l->of->w;
  tp_fault fault = {0};
  if (l->goes) latch_wait(l->goes, 1);
  tp_status status = tp_tool_submit_turn_late(token, l->session, &request, nested_ended, l->of, NULL, &fault);
  if (status != TP_OK) {
    w->refusal = status;
    free(l->of);
    (void)!tp_tool_complete(token, true, tp_text_of(fault.message), NULL);
  }
  tp_session_close(l->session, NULL, NULL);
  latch_hit(&w->submitted);
  free(l);
  return NULL;
}

static tp_answer defer_late(world *w, tp_tool_run *run, tp_session *session, const tp_turn_request *request) {
  late_turn *l = malloc(sizeof *l);
  deferred *d = malloc(sizeof *d);
  pthread_t thread;
  *d = (deferred){.w = w};
  *l = (late_turn){.of = d, .session = session, .goes = w->late_goes};
  snprintf(l->text, sizeof l->text, "%.*s", (int)request->text.size, request->text.data);
  tp_answer answer = tp_tool_defer(run, NULL, &d->token);
  if (pthread_create(&thread, NULL, submit_late, l) != 0) abort();
  pthread_detach(thread);
  return answer;
}

static tp_answer submit(world *w, tp_tool_run *run, tp_session *session, const tp_turn_request *request) {
  if (w->is_late) return defer_late(w, run, session, request);
  deferred *d = malloc(sizeof *d);
  tp_fault fault = {0};
  *d = (deferred){.w = w};
  tp_answer answer = tp_tool_defer(run, NULL, &d->token);
  w->refusal = tp_tool_run_turn(run, session, request, NULL, NULL); /* a call that deferred does not wait */
  tp_token token = d->token;
  if (tp_tool_submit_turn(run, session, request, nested_ended, d, NULL, &fault) == TP_OK) return answer;
  free(d);
  (void)!tp_tool_complete(token, true, tp_text_of(fault.message), NULL);
  return answer;
}

static tp_answer delegate(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  char text[8];
  tp_fault fault = {0};
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request, .text = argument_text(run, text)};
  if (w->entered) latch_hit(w->entered);
  if (w->goes) latch_wait(w->goes, 1);
  tp_session *session = w->in_itself ? w->session : open_own(w);
  if (w->submits) {
    tp_answer answer = submit(w, run, session, &request);
    if (!w->is_late) tp_session_close(session, NULL, NULL);
    return answer;
  }
  enter(w);
  w->inside--; /* the call waits from here on */
  tp_status status = tp_tool_run_turn(run, session, &request, &result, &fault);
  enter(w);
  tp_answer answer = TP_ANSWER_NONE;
  if (status == TP_OK) {
    w->outcome = result->outcome;
    answer = tp_tool_ok(run, result->text);
    tp_turn_result_free(result);
  } else {
    w->refusal = status;
    answer = tp_tool_error(run, tp_text_of(fault.message));
  }
  if (!w->in_itself) tp_session_close(session, NULL, NULL);
  w->inside--;
  return answer;
}

/* ---- the host ---- */

static void note_begin(void *ctx, const tp_event *event) {
  world *w = ctx;
  pthread_mutex_lock(&w->mutex);
  if (w->begin_count < BEGINS_MAX) {
    snprintf(w->begins[w->begin_count].session, 32, "%s", event->ids[TP_ID_SESSION].data);
    snprintf(w->begins[w->begin_count].turn, 64, "%s", event->ids[TP_ID_TURN].data);
    snprintf(w->begins[w->begin_count++].parent, 64, "%s", event->parent_turn.data);
  }
  pthread_mutex_unlock(&w->mutex);
  latch_hit(&w->begun);
}

static void open_world(world *w, tp_runtime_options options) {
  options.struct_size = sizeof options;
  pthread_mutex_init(&w->mutex, NULL);
  w->begun = w->submitted = w->nested_over = (latch)LATCH;
  w->runtime = open_runtime(&options);
  const tp_listener listener = {
      .struct_size = sizeof listener, .on_event = note_begin, .ctx = w, .kinds = UINT64_C(1) << TP_EVENT_TURN_BEGIN};
  assert_int_equal(tp_runtime_listen(w->runtime, &listener, NULL, NULL), TP_OK);
  w->model = (tp_model){.struct_size = sizeof(tp_model),
                        .name = "brackets",
                        .ctx = w,
                        .start = start_model,
                        .placement = TP_PLACEMENT_INLINE};
  w->tool = (tp_tool){.struct_size = sizeof(tp_tool),
                      .name = "delegate",
                      .run = delegate,
                      .ctx = w,
                      .max_concurrent = w->tool.max_concurrent,
                      .limit_ms = w->tool.limit_ms,
                      .placement = w->submits && !w->on_thread ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  w->list[0] = &w->tool;
  w->bundle = (tp_contribution){.struct_size = sizeof w->bundle,
                                .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                .key = TEXT("b"),
                                .tools = w->list,
                                .tool_count = 1};
  w->contributes = (act){.emits = &w->bundle, .emit_count = 1};
  const hook hooks[] = {{.id = "bundle", .phase = TOOLS, .ctx = &w->contributes}};
  add_hooks(w->runtime, hooks, COUNT(hooks));
  const tp_session_options session = {.struct_size = sizeof session, .id = "root", .model = &w->model};
  assert_int_equal(tp_session_open(w->runtime, &session, &w->session, NULL), TP_OK);
}

static void close_world(world *w) {
  tp_session_close(w->session, NULL, NULL);
  close_runtime(w->runtime);
  pthread_mutex_destroy(&w->mutex);
}

static void run_turn(world *w, const char *text, const char *want) {
  const tp_turn_result *result;
  const tp_turn_request request = {.struct_size = sizeof request, .id = "t", .text = tp_text_of(text)};
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  assert_string_equal(tp_turn_outcome_name(result->outcome), "completed");
  assert_text(result->text, want);
  tp_turn_result_free(result);
}

/* ---- what works ---- */

static bool count_nested(void *ctx, const tp_turn_record *turn) {
  *(int *)ctx += turn->parent_turn.size > 0;
  return true;
}

/* One thread and one permit serve a chain of four: what waits has neither. */
TEST(four_deep_with_one_thread_and_one_permit) {
  world w = {.tool.max_concurrent = 1};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  run_turn(&w, "go 4", "<<<<bottom>>>>");
  assert_int_equal(w.begin_count, 5);
  assert_string_equal(w.begins[0].parent, "");
  for (size_t i = 1; i < 5; i++) assert_string_equal(w.begins[i].parent, w.begins[i - 1].turn);
  assert_int_equal(w.inside_most, 1);
  assert_int_equal(w.refusal, TP_OK);
  int nested = 0;
  const tp_turn_query all = {.struct_size = sizeof all};
  assert_int_equal(tp_runtime_turns(w.runtime, &all, count_nested, &nested, NULL), TP_OK);
  assert_int_equal(nested, 4);
  close_world(&w);
}

TEST(five_deep_is_refused) {
  world w = {.tool.max_concurrent = 1};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  run_turn(&w, "go 5", "<<<<<turns nest 4 deep: this call is of a turn at that depth>>>>>");
  assert_int_equal(w.refusal, TP_ERR_TOO_DEEP);
  close_world(&w);
}

/* A call that has its turn waits for its permit before it goes on. */
TEST(permits_hold_beside_nested_turns) {
  world w = {.tool.max_concurrent = 1, .calls = 4};
  open_world(&w, (tp_runtime_options){.handler_threads = 4});
  run_turn(&w, "go 2", "<<bottom>>");
  assert_int_equal(w.begin_count, 1 + 4 + 16);
  assert_int_equal(w.inside_most, 1);
  close_world(&w);
}

TEST(a_nested_turn_takes_no_capacity) {
  world w = {0};
  open_world(&w, (tp_runtime_options){.turns_running_max = 1});
  run_turn(&w, "go 2", "<<bottom>>");
  close_world(&w);
}

TEST(it_runs_without_engine_workers) {
  world w = {0};
  open_world(&w, (tp_runtime_options){.no_engine_workers = true});
  run_turn(&w, "go 2", "<<bottom>>");
  close_world(&w);
}

TEST(a_tool_that_defers_submits_it) {
  world w = {.submits = true};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  run_turn(&w, "go 3", "<<<bottom>>>");
  assert_int_equal(w.refusal, TP_ERR_USAGE); /* it tried to wait as well */
  close_world(&w);
}

/* max_concurrent counts deferred runs, but not those whose turn needs the permit. */
TEST(a_tool_that_submits_it_has_no_permit_meanwhile) {
  world w = {.submits = true, .on_thread = true, .tool.max_concurrent = 1, .calls = 2};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  run_turn(&w, "go 3", "<<<bottom>>>");
  assert_int_equal(w.begin_count, 1 + 2 + 4 + 8);
  close_world(&w);
}

static tp_answer count_run(void *ctx, tp_call *call) {
  (void)call;
  ((world *)ctx)->hook_runs++;
  return TP_ANSWER_DONE;
}

typedef struct submitted {
  latch ended;
  tp_turn_outcome outcome;
  char text[128];
} submitted;

static void turn_ended(void *ctx, const tp_turn_result *result) {
  submitted *s = ctx;
  s->outcome = result->outcome;
  snprintf(s->text, sizeof s->text, "%.*s", (int)result->text.size, result->text.size ? result->text.data : "");
  latch_hit(&s->ended);
}

TEST(it_sees_the_registrations_of_its_call) {
  latch entered = LATCH, goes = LATCH;
  world w = {.entered = &entered, .goes = &goes};
  submitted s = {.ended = LATCH};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go 1")};
  assert_int_equal(tp_turn_submit(w.session, &request, turn_ended, &s, NULL, NULL), TP_OK);
  latch_wait(&entered, 1);
  const hook late = {.id = "late", .phase = TP_PHASE_TURN_INTAKE, .run = count_run, .ctx = &w};
  add_hooks(w.runtime, &late, 1);
  latch_hit(&goes);
  latch_wait(&s.ended, 1);
  assert_string_equal(s.text, "<bottom>");
  assert_int_equal(w.hook_runs, 0);
  run_turn(&w, "go 0", "bottom");
  assert_int_equal(w.hook_runs, 1);
  close_world(&w);
}

/* ---- by the token ---- */

TEST(another_thread_submits_it_by_the_token) {
  for (int on_thread = 0; on_thread < 2; on_thread++) {
    world w = {.submits = true, .is_late = true, .on_thread = on_thread};
    open_world(&w, (tp_runtime_options){.handler_threads = 1, .turns_running_max = 1});
    run_turn(&w, "go 4", "<<<<bottom>>>>");
    latch_wait(&w.submitted, 4);
    assert_int_equal(w.begin_count, 5);
    for (size_t i = 1; i < 5; i++) assert_string_equal(w.begins[i].parent, w.begins[i - 1].turn);
    close_world(&w);
  }
}

TEST(by_the_token_five_deep_is_refused) {
  world w = {.submits = true, .is_late = true};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  run_turn(&w, "go 5", "<<<<<turns nest 4 deep: this call is of a turn at that depth>>>>>");
  latch_wait(&w.submitted, 5);
  assert_int_equal(w.refusal, TP_ERR_TOO_DEEP);
  close_world(&w);
}

/* The call has passed its limit before. */
TEST(a_token_that_was_given_up_submits_nothing) {
  latch goes = LATCH;
  world w = {.submits = true, .is_late = true, .tool.limit_ms = 30, .late_goes = &goes};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  const tp_turn_result *result;
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go 1")};
  assert_int_equal(tp_turn_run(w.session, &request, &result, NULL), TP_OK);
  tp_turn_result_free(result);
  latch_hit(&goes);
  latch_wait(&w.submitted, 1);
  assert_int_equal(w.refusal, TP_ERR_STALE);
  assert_int_equal(w.begin_count, 1);
  close_world(&w);
}

/* A turn that hangs ends with the limit of the call. */
TEST(by_the_token_it_ends_with_its_call) {
  world w = {.submits = true, .is_late = true, .tool.limit_ms = 50};
  submitted s = {.ended = LATCH};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go 9")};
  assert_int_equal(tp_turn_submit(w.session, &request, turn_ended, &s, NULL, NULL), TP_OK);
  latch_wait(&s.ended, 1);
  latch_wait(&w.nested_over, 1);
  latch_wait(&w.submitted, 1);
  assert_string_equal(tp_turn_outcome_name(w.outcome), "timed_out");
  close_world(&w);
}

/* ---- a handler ---- */

typedef struct asker {
  world *w;
  tp_session *session;
  tp_status status;
  char text[128], parent[64];
  int jobs;
  latch done;
} asker;

/* In a nested turn it notes the parent; in any other turn it runs a turn in which it is subscribed as well. */
static tp_answer ask_subagent(void *ctx, tp_call *call) {
  asker *a = ctx;
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go 0")};
  if (tp_call_job_id(call) && a->jobs++ > 0) return TP_ANSWER_DONE; /* the turn that it runs asks for it again */
  if (tp_call_parent_turn(call).size > 0) {
    snprintf(a->parent, sizeof a->parent, "%s", tp_call_parent_turn(call).data);
    return TP_ANSWER_DONE;
  }
  a->status = tp_call_run_turn(call, a->session, &request, &result, NULL);
  if (a->status == TP_OK) {
    snprintf(a->text, sizeof a->text, "%.*s", (int)result->text.size, result->text.data);
    tp_turn_result_free(result);
  }
  latch_hit(&a->done);
  return TP_ANSWER_DONE;
}

TEST(a_handler_runs_one_in_which_it_is_subscribed) {
  world w = {0};
  asker a = {.w = &w, .done = LATCH};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  a.session = open_own(&w);
  const hook asks = {.id = "asks",
                     .phase = TP_PHASE_TURN_INTAKE,
                     .run = ask_subagent,
                     .ctx = &a,
                     .slow = true,
                     .sub = {.max_concurrent = 1, .limit_ms = 30000}};
  add_hooks(w.runtime, &asks, 1);
  run_turn(&w, "go 0", "bottom");
  assert_int_equal(a.status, TP_OK);
  assert_string_equal(a.text, "bottom");
  assert_string_equal(a.parent, "t");
  tp_session_close(a.session, NULL, NULL);
  close_world(&w);
}

/* Like ask_subagent(), but without waiting. */
static void subagent_ended(void *ctx, const tp_turn_result *result) {
  deferred *d = ctx;
  const tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  d->w->outcome = result->outcome;
  (void)!tp_token_complete(d->token, &done, NULL);
}

typedef struct submitter {
  deferred deferred;
  tp_session *session;
  tp_status status;
} submitter;

static tp_answer submit_subagent(void *ctx, tp_call *call) {
  submitter *s = ctx;
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go 0")};
  if (tp_call_parent_turn(call).size > 0) return TP_ANSWER_DONE;
  tp_answer answer = tp_call_defer(call, NULL, &s->deferred.token);
  s->status = tp_call_submit_turn(call, s->session, &request, subagent_ended, &s->deferred, NULL, NULL);
  return answer;
}

TEST(a_handler_submits_one_in_which_it_is_subscribed) {
  world w = {0};
  submitter s = {.deferred.w = &w};
  w.outcome = TP_TURN_TIMED_OUT;
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  s.session = open_own(&w);
  const hook submits = {.id = "submits",
                        .phase = TP_PHASE_TURN_INTAKE,
                        .run = submit_subagent,
                        .ctx = &s,
                        .slow = true,
                        .sub = {.max_concurrent = 1, .limit_ms = 30000}};
  add_hooks(w.runtime, &submits, 1);
  run_turn(&w, "go 0", "bottom");
  assert_int_equal(s.status, TP_OK);
  assert_int_equal(w.outcome, TP_TURN_COMPLETED);
  tp_session_close(s.session, NULL, NULL);
  close_world(&w);
}

TEST(an_inline_handler_may_not_wait) {
  world w = {0};
  asker a = {.w = &w, .done = LATCH};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  a.session = open_own(&w);
  const hook asks = {.id = "asks", .phase = TP_PHASE_TURN_INTAKE, .run = ask_subagent, .ctx = &a};
  add_hooks(w.runtime, &asks, 1);
  run_turn(&w, "go 0", "bottom");
  assert_int_equal(a.status, TP_ERR_USAGE);
  tp_session_close(a.session, NULL, NULL);
  close_world(&w);
}

/* No turn waits for a background job. So a job may run a turn of the session from which it comes, and a new chain of
 * nested turns begins with it. */
TEST(a_background_job_runs_one_of_its_own_session) {
  for (int execution = TP_EXECUTION_FIRE_AND_RECORD; execution <= TP_EXECUTION_BACKGROUND; execution++) {
    world w = {0};
    asker a = {.w = &w, .status = TP_ERR_USAGE, .done = LATCH};
    open_world(&w, (tp_runtime_options){.handler_threads = 1});
    a.session = w.session;
    const hook asks = {.id = "asks",
                       .phase = TP_PHASE_TURN_POST_TURN,
                       .run = ask_subagent,
                       .ctx = &a,
                       .slow = true,
                       .sub = {.execution = (tp_execution)execution, .limit_ms = 30000}};
    add_hooks(w.runtime, &asks, 1);
    run_turn(&w, "go 2", "<<bottom>>");
    latch_wait(&a.done, 1);
    assert_int_equal(a.status, TP_OK);
    assert_string_equal(a.text, "bottom");
    close_world(&w);
  }
}

/* ---- what is refused, and what is given up ---- */

TEST(a_session_that_waits_for_the_call_is_refused) {
  world w = {.in_itself = true};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  run_turn(&w, "go 1",
           "<a turn of this session waits for the call, and the nested one would wait for that: open another session>");
  assert_int_equal(w.refusal, TP_ERR_USAGE);
  close_world(&w);
}

TEST(a_session_of_another_runtime_is_refused) {
  world w = {0}, other = {0};
  asker a = {.w = &w, .done = LATCH};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  open_world(&other, (tp_runtime_options){.handler_threads = 1});
  const hook asks = {.id = "asks", .phase = TP_PHASE_TURN_INTAKE, .run = ask_subagent, .ctx = &a, .slow = true};
  add_hooks(w.runtime, &asks, 1);
  a.session = other.session;
  run_turn(&w, "go 0", "bottom");
  assert_int_equal(a.status, TP_ERR_USAGE);
  a.session = NULL;
  run_turn(&w, "go 0", "bottom");
  assert_int_equal(a.status, TP_ERR_USAGE);
  close_world(&other);
  close_world(&w);
}

/* The model never answers, so the limit of the tool's call ends the nested turn. */
TEST(it_ends_with_the_limit_of_its_call) {
  world w = {.tool.limit_ms = 50};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  const tp_turn_result *result;
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go 9")};
  assert_int_equal(tp_turn_run(w.session, &request, &result, NULL), TP_OK);
  assert_string_equal(tp_turn_outcome_name(result->outcome), "completed"); /* the tool's answer may be just in time */
  tp_turn_result_free(result);
  await_abandoned(w.runtime);
  assert_string_equal(tp_turn_outcome_name(w.outcome), "timed_out");
  close_world(&w);
}

TEST(it_is_cancelled_with_its_call) {
  world w = {0};
  submitted s = {.ended = LATCH};
  tp_submission *submission;
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go 9")};
  assert_int_equal(tp_turn_submit(w.session, &request, turn_ended, &s, &submission, NULL), TP_OK);
  latch_wait(&w.begun, 2);
  tp_submission_cancel(submission);
  latch_wait(&s.ended, 1);
  assert_string_equal(tp_turn_outcome_name(s.outcome), "cancelled");
  await_abandoned(w.runtime);
  assert_string_equal(tp_turn_outcome_name(w.outcome), "cancelled");
  tp_submission_unref(submission);
  close_world(&w);
}

TEST(a_drain_ends_it) {
  world w = {0};
  submitted s = {.ended = LATCH};
  open_world(&w, (tp_runtime_options){.handler_threads = 1});
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go 9")};
  assert_int_equal(tp_turn_submit(w.session, &request, turn_ended, &s, NULL, NULL), TP_OK);
  latch_wait(&w.begun, 2);
  (void)!tp_runtime_drain(w.runtime, 1, NULL, NULL);
  latch_wait(&s.ended, 1);
  assert_true(s.outcome == TP_TURN_CANCELLED || s.outcome == TP_TURN_COMPLETED); /* the nested one may be first */
  await_abandoned(w.runtime);
  assert_string_equal(tp_turn_outcome_name(w.outcome), "cancelled");
  close_world(&w);
}
