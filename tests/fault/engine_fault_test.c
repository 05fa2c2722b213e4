/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation in the whole life of a runtime is refused: each one alone, and each one together with all later
 * ones; and so is every thread. Each step may return its own error. Nothing crashes, hangs or leaks, and when memory is
 * available again, the next turn works. */
#include <dlfcn.h>
#include <errno.h>

#include "tests/support/test.h"
#include "tests/support/model.h"

/* ---- an allocator and a thread library that refuse ---- */

static _Atomic long asked, refuse_at, blocks_open; /* refuse_at 0: nothing is refused */
static _Atomic bool refuse_rest;
static _Atomic long threads_asked, threads_refuse_at;

static bool is_refused(long n, long at) { return at > 0 && (n == at || (refuse_rest && n > at)); }

static void *refusing_alloc(void *ctx, size_t size) {
  (void)ctx;
  if (is_refused(++asked, refuse_at)) return NULL;
  void *memory = malloc(size);
  if (memory) blocks_open++;
  return memory;
}

static void refusing_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  memset(memory, 0xdd, size); /* a wrong size, or a read after the free, is found out */
  blocks_open--;
  free(memory);
}

typedef int (*create_fn)(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
  static create_fn real;
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  if (is_refused(++threads_asked, threads_refuse_at)) return EAGAIN;
  return real(thread, attributes, run, arg);
}

static void refuse(long at, bool rest) {
  asked = threads_asked = 0;
  refuse_rest = rest;
  refuse_at = at;
}

static void refuse_thread(long at, bool rest) {
  asked = threads_asked = 0;
  refuse_rest = rest;
  threads_refuse_at = at;
}

static void refuse_nothing(void) { refuse_at = threads_refuse_at = 0; }

/* ---- one life of a runtime ---- */

static const tp_contribution context = {.struct_size = sizeof(tp_contribution),
                                        .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                        .key = TEXT("c"),
                                        .domain = TEXT("d"),
                                        .text = TEXT("a memory")};
static const tp_contribution policy = {.struct_size = sizeof(tp_contribution),
                                       .kind = TP_CONTRIBUTION_POLICY,
                                       .domain = TEXT("tool"),
                                       .key = TEXT("other"),
                                       .text = TEXT("deny")};
static const tp_contribution section = {.struct_size = sizeof(tp_contribution),
                                        .kind = TP_CONTRIBUTION_PROMPT_SECTION,
                                        .key = TEXT("s"),
                                        .title = TEXT("title"),
                                        .text = TEXT("a section")};
static const tp_contribution reminder = {
    .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("remember")};
static const tp_contribution task = {.struct_size = sizeof(tp_contribution),
                                     .kind = TP_CONTRIBUTION_BACKGROUND_JOB,
                                     .key = TEXT("k"),
                                     .domain = TEXT("job"),
                                     .value = TEXT("\x80")};

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("a result"));
}

static const tp_tool threaded = {.struct_size = sizeof(tp_tool), .name = "t", .run = run_tool};
static const tp_tool in_line = {
    .struct_size = sizeof(tp_tool), .name = "inline", .run = run_tool, .placement = TP_PLACEMENT_INLINE};
static const tp_tool *const tools[] = {&threaded, &in_line};
static const tp_contribution bundle = {.struct_size = sizeof(tp_contribution),
                                       .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                       .key = TEXT("b"),
                                       .tools = tools,
                                       .tool_count = 2};

#define CALL(call_id, tool)                                                                                  \
  {                                                                                                          \
    .struct_size = sizeof(tp_tool_call), .id = TEXT(call_id), .name = TEXT(tool), .arguments = { "\x80", 1 } \
  }
static const tp_tool_call call_structs[] = {CALL("a", "t"), CALL("b", "inline"), CALL("c", "nobody")};
static const tp_tool_call *const calls[] = {&call_structs[0], &call_structs[1], &call_structs[2]};
static const tp_model_response responses[] = {
    {.struct_size = sizeof(tp_model_response), .text = TEXT("let me see"), .calls = calls, .call_count = 3},
    {.struct_size = sizeof(tp_model_response), .text = TEXT("done")}};

enum { HOOKS = 12 };

typedef struct life {
  tp_runtime *runtime;
  tp_session *session;
  act acts[HOOKS];
  tp_model *model;
  tp_history *history;
  bool model_taken, history_taken;
  bool is_answering;
} life;

static tp_status add_all(life *l) {
  const hook hooks[HOOKS] = {
      {.id = "start", .phase = TP_PHASE_SESSION_START, .ctx = &l->acts[0], .slow = true},
      {.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .ctx = &l->acts[1]},
      {.id = "policy", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &l->acts[2]},
      {.id = "context", .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, .ctx = &l->acts[3], .slow = true},
      {.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &l->acts[4]},
      {.id = "section", .phase = TP_PHASE_TURN_PRE_PROMPT_COMPILE, .ctx = &l->acts[5], .slow = true},
      {.id = "gate", .phase = TP_PHASE_TOOL_PRE, .ctx = &l->acts[6], .slow = true},
      {.id = "post", .phase = TP_PHASE_TOOL_POST, .ctx = &l->acts[7]},
      {.id = "fire",
       .phase = TP_PHASE_TURN_POST_TURN,
       .ctx = &l->acts[8],
       .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD}},
      {.id = "job",
       .phase = TP_PHASE_TURN_POST_TURN,
       .ctx = &l->acts[9],
       .sub = {.execution = TP_EXECUTION_BACKGROUND}},
      {.id = "jobs", .phase = TP_PHASE_TURN_POST_TURN, .ctx = &l->acts[10]},
      {.id = "filter", .phase = TP_PHASE_MODEL_RESPONSE, .ctx = &l->acts[11]}};
  static const tp_contribution *const emits[HOOKS] = {&reminder, NULL,      &policy, &context, &bundle, &section,
                                                      NULL,      &reminder, NULL,    NULL,     &task,   NULL};
  memset(l->acts, 0, sizeof l->acts);
  for (int i = 0; i < HOOKS; i++) l->acts[i] = (act){.emits = emits[i], .emit_count = emits[i] ? 1 : 0};
  l->acts[1].replaces = TP_FIELD_TEXT;
  l->acts[1].appends = "!";
  l->acts[6].kind = TP_ANSWER_ALLOW;
  l->acts[11].replaces = TP_FIELD_TEXT;
  return hooks_add(l->runtime, hooks, HOOKS, NULL);
}

/* An answer that never began has no pieces and no end. */
static void pair_answers(void *ctx, const tp_event *event) {
  bool *is_open = ctx;
  bool is_end = event->kind == TP_EVENT_MODEL_END;
  if ((is_end || event->kind == TP_EVENT_MODEL_DELTA) && !*is_open)
    fail_msg("%s without a begin", tp_event_name(event->kind));
  *is_open = (*is_open || event->kind == TP_EVENT_MODEL_BEGIN) && !is_end;
}

static tp_status open_session(life *l) {
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "s",
                                .tenant = "t",
                                .workspace = "w",
                                .model = l->model,
                                .history = l->history,
                                .on_event = pair_answers,
                                .event_ctx = &l->is_answering};
  tp_status status = tp_session_open(l->runtime, &options, &l->session, NULL);
  l->model_taken = l->history_taken = status == TP_OK;
  return status;
}

static tp_status say(life *l, tp_turn_outcome *ret_outcome) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("hello"), .limit_ms = 20000};
  const tp_turn_result *result = NULL;
  tp_status status = tp_turn_run(l->session, &request, &result, NULL);
  if (status != TP_OK) return status;
  *ret_outcome = result->outcome;
  tp_turn_result_free(result);
  return TP_OK;
}

static void note_submitted(void *ctx, const tp_phase_result *result) {
  (void)result;
  latch_hit(ctx);
}

/* Phases, submitted and not, and calls on a turn that the host drives. */
static tp_status run_bare(life *l) {
  tp_turn *turn;
  tp_phase_result result = {.struct_size = sizeof result};
  tp_tool_result results[3];
  latch notified = LATCH;
  tp_status status = tp_turn_begin_bare(l->runtime, NULL, &turn, NULL);
  if (status != TP_OK) return status;
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("hello")};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  status = tp_phase_run(turn, TP_PHASE_TURN_INTAKE, &input, &result, NULL);
  if (status == TP_OK) status = tp_phase_run(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, &result, NULL);
  if (status == TP_OK) status = tools_run(turn, call_structs, 3, results, NULL);
  if (status == TP_OK && (status = tp_phase_submit(turn, TP_PHASE_TURN_PRE_PROMPT_CONTEXT, &input, note_submitted,
                                                   &notified, NULL)) == TP_OK)
    latch_wait(&notified, 1);
  tp_turn_end(turn);
  return status;
}

/* Runs the steps until one fails. */
static tp_status live(life *l) {
  const tp_runtime_options options = {
      .struct_size = sizeof options, .allocator = {refusing_alloc, refusing_release, NULL}, .engine_workers = 2};
  tp_turn_outcome outcome = TP_TURN_FAILED;
  tp_status status = tp_runtime_new(&options, &l->runtime, NULL);
  if (status == TP_OK) status = add_all(l);
  if (status == TP_OK) status = open_session(l);
  if (status == TP_OK) status = run_bare(l);
  if (status == TP_OK) status = say(l, &outcome);
  return status;
}

/* When memory is available again, the objects that were made so far must be good for a turn. */
static void assert_works_again(life *l) {
  tp_turn_outcome outcome = TP_TURN_FAILED;
  if (!l->runtime) return;
  if (!l->session) {
    tp_runtime_free(l->runtime);
    l->runtime = NULL;
    return;
  }
  tp_status status = say(l, &outcome);
  if (status != TP_OK || outcome != TP_TURN_COMPLETED)
    fail_msg("the next turn: %s, %s", tp_status_name(status), tp_turn_outcome_name(outcome));
}

static void begin_life(life *l) {
  static const tp_model_response *const list[] = {&responses[0], &responses[1]};
  memset(l, 0, sizeof *l);
  assert_int_equal(tp_script_model_new(list, 2, true, &l->model, NULL), TP_OK);
  assert_int_equal(tp_history_memory_new(NULL, &l->history, NULL), TP_OK);
}

static void end_life(life *l, bool drain_first) {
  if (l->runtime) {
    if (drain_first) assert_int_equal(tp_runtime_drain(l->runtime, 5000, NULL, NULL), TP_OK);
    close_runtime(l->runtime);
  }
  if (!l->model_taken) tp_model_free(l->model);
  if (!l->history_taken) tp_history_free(l->history);
  assert_int_equal(blocks_open, 0);
}

static bool is_clean(tp_status status) {
  return status == TP_OK || status == TP_ERR_NO_MEMORY || status == TP_ERR_NO_THREAD;
}

/* @return false when the life was lived without a refusal: all are tried. */
static bool live_refusing(long n, bool rest) {
  life l;
  begin_life(&l);
  refuse(n, rest);
  tp_status status = live(&l);
  bool was_refused = asked >= n;
  refuse_nothing();
  if (!is_clean(status)) fail_msg("refused at %ld: %s", n, tp_status_name(status));
  if (!was_refused) assert_int_equal(status, TP_OK);
  /* A script answers in turn: when the refused turn read only its first response, play the second. */
  if (l.session) {
    tp_turn_outcome outcome;
    (void)!say(&l, &outcome);
  }
  assert_works_again(&l);
  end_life(&l, true);
  return was_refused;
}

TEST(every_allocation_of_a_life_is_refused_once) {
  long n = 1;
  while (live_refusing(n, false)) n++;
  assert_true(n > 50);
}

TEST(every_allocation_from_the_nth_on_is_refused) {
  long n = 1;
  while (live_refusing(n, true)) n++;
  assert_true(n > 50);
}

/* The drain and the end have no memory at all. */
TEST(runtime_ends_without_memory) {
  for (long n = 1; n <= 12; n++) {
    life l;
    begin_life(&l);
    refuse_nothing();
    assert_int_equal(live(&l), TP_OK);
    refuse(n, true);
    assert_int_equal(tp_runtime_drain(l.runtime, 50, NULL, NULL), TP_OK); /* jobs that cannot be claimed are given up */
    end_life(&l, false);
    refuse_nothing();
  }
}

/* A commit at the same time as running turns finds no memory: the old plans stay in force. */
TEST(commit_without_memory_changes_nothing_for_turns) {
  life l;
  begin_life(&l);
  refuse_nothing();
  assert_int_equal(live(&l), TP_OK);
  act more = {0};
  hook h = {.id = "more", .phase = TP_PHASE_TURN_INTAKE, .ctx = &more};
  for (long n = 1;; n++) {
    refuse(n, false);
    tp_status status = hooks_add(l.runtime, &h, 1, NULL);
    refuse_nothing();
    if (status == TP_OK) break;
    assert_int_equal(status, TP_ERR_NO_MEMORY);
    tp_turn_outcome outcome = TP_TURN_FAILED;
    assert_int_equal(say(&l, &outcome), TP_OK);
    assert_int_equal(outcome, TP_TURN_COMPLETED);
    assert_int_equal(more.calls, 0);
  }
  tp_turn_outcome outcome;
  assert_int_equal(say(&l, &outcome), TP_OK);
  assert_int_equal(more.calls, 1);
  end_life(&l, true);
}

/* ---- threads ---- */

static bool live_without_thread(long n, bool rest) {
  life l;
  begin_life(&l);
  refuse_thread(n, rest);
  tp_status status = live(&l);
  bool was_refused = threads_asked >= n;
  refuse_nothing();
  if (!is_clean(status)) fail_msg("thread %ld refused: %s", n, tp_status_name(status));
  if (l.runtime && !l.session) { /* opening the session starts the runtime: now it can */
    assert_int_equal(status, TP_ERR_NO_THREAD);
    assert_int_equal(open_session(&l), TP_OK);
  }
  if (l.session) {
    tp_turn_outcome outcome;
    (void)!say(&l, &outcome);
  }
  assert_works_again(&l);
  end_life(&l, true);
  return was_refused;
}

TEST(every_thread_is_refused) {
  for (int rest = 0; rest < 2; rest++) {
    long n = 1;
    while (live_without_thread(n, rest)) n++;
    assert_true(n > 4); /* timer, two workers, jobs, and handler threads */
  }
}
