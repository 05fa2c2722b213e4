/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns that run, as their store shows them: the steps for which each waits, by durability. */
#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"

static tp_status (*real_running)(void *ctx, const tp_turn_record *record);
static tp_status (*real_turn)(void *ctx, const tp_turn_record *record);
static _Atomic int notes;           /* given to the store */
static _Atomic uint64_t had_number; /* running_number of the last turn that ended */

static tp_status count_note(void *ctx, const tp_turn_record *record) {
  notes++;
  return real_running(ctx, record);
}

static tp_status note_end(void *ctx, const tp_turn_record *record) {
  had_number = record->running_number;
  return real_turn(ctx, record);
}

/** What a turn waits for. */
typedef enum what { NOTHING, HANDLER, TOOL, DEFERRED, MODEL, QUESTION, LOAD } what;

typedef struct world {
  what waits_for;
  latch go, entered;
  tp_token token; /* of what was deferred, or asked */
  tp_runtime *runtime;
  tp_session *session;
  tp_submission *turn;
  recorder *model;
  tp_tool tool;
  const tp_tool *list[1];
  tp_contribution bundle;
  act contributes, quick, slow, last;
  tp_history history;
} world;

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  tp_answer answer = TP_ANSWER_DEFERRED;
  tp_deferral deferral = {.struct_size = sizeof deferral};
  if (w->waits_for == DEFERRED) answer = tp_tool_defer(run, &deferral, &w->token);
  latch_hit(&w->entered);
  if (w->waits_for == DEFERRED) return answer;
  if (w->waits_for == TOOL) latch_wait(&w->go, 1);
  return tp_tool_ok(run, tp_text_of("done"));
}

static int32_t asks(void *ctx, const tp_permission_request *request) {
  (void)request;
  return ((world *)ctx)->waits_for == QUESTION ? TP_PERMISSION_ASK : TP_PERMISSION_AUTO;
}

static void keep_question(void *ctx, const tp_question *question) {
  world *w = ctx;
  w->token = question->token;
  latch_hit(&w->entered);
}

static void load_later(void *ctx, const tp_history_load *request, tp_token token) {
  world *w = ctx;
  (void)request;
  w->token = token;
  if (w->waits_for != LOAD) (void)!tp_history_complete_load(token, TP_OK, NULL, 0, NULL, NULL);
  latch_hit(&w->entered);
}

static tp_status take_append(void *ctx, const tp_history_append *request, tp_fault *fault) {
  return (void)ctx, (void)request, (void)fault, TP_OK;
}

static const reply with_call[] = {
    {.calls = {{.id = TEXT("c1"), .name = TEXT("build"), .arguments = TEXT("\x80")}}, .call_count = 1},
    {.text = "done"}};
static const reply never[] = {{.never = true}};

static void open_world(world *w, what waits_for, tp_durability durability) {
  const tp_sqlite_store_options on_file = {.struct_size = sizeof on_file, .path = path};
  tp_store *store = NULL;
  *w = (world){.waits_for = waits_for, .go = LATCH, .entered = LATCH};
  assert_int_equal(tp_sqlite_store_open(&on_file, &store, NULL), TP_OK);
  tp_store counted = *store;
  real_running = store->turn_running;
  real_turn = store->turn_record;
  counted.turn_running = count_note;
  counted.turn_record = note_end;
  notes = 0;
  had_number = 0;
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .store = &counted,
                                      .durability = durability,
                                      .ask = keep_question,
                                      .ask_ctx = w,
                                      .permission = asks,
                                      .permission_ctx = w};
  w->runtime = open_runtime(&options);
  w->tool = (tp_tool){.struct_size = sizeof(tp_tool),
                      .name = "build",
                      .run = run_tool,
                      .ctx = w,
                      .idempotent = true,
                      .placement = waits_for == TOOL ? TP_PLACEMENT_THREAD : TP_PLACEMENT_INLINE};
  w->list[0] = &w->tool;
  w->bundle = (tp_contribution){.struct_size = sizeof w->bundle,
                                .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                .key = TEXT("b"),
                                .tools = w->list,
                                .tool_count = 1};
  w->contributes = (act){.emits = &w->bundle, .emit_count = 1};
  w->slow = (act){.entered = &w->entered, .waits_for = waits_for == HANDLER ? &w->go : NULL};
  const hook hooks[] = {
      {.id = "bundle", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &w->contributes},
      {.id = "quick", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &w->quick},
      {.id = "slow", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &w->slow, .slow = waits_for == HANDLER},
      {.id = "last", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &w->last, .after = "slow"}};
  add_hooks(w->runtime, hooks, COUNT(hooks));
  const reply *replies = waits_for == MODEL ? never : with_call;
  w->model = recorder_new(replies, waits_for == MODEL ? COUNT(never) : COUNT(with_call));
  w->history =
      (tp_history){.struct_size = sizeof(tp_history), .ctx = w, .load_start = load_later, .append = take_append};
  const tp_session_options session = {.struct_size = sizeof session,
                                      .id = "s",
                                      .tenant = "t",
                                      .history = &w->history,
                                      .model = recorder_model(w->model, true)};
  assert_int_equal(tp_session_open(w->runtime, &session, &w->session, NULL), TP_OK);
}

/* The data that the test gave to the handlers is in its frame, so the runtime is freed first. */
static void close_world(world *w) {
  tp_submission_unref(w->turn);
  tp_session_close(w->session, NULL, NULL);
  close_runtime(w->runtime);
  recorder_free(w->model);
}

static void let_go(world *w) {
  const tp_decision allows = {.struct_size = sizeof allows, .verdict = TP_VERDICT_ALLOW};
  const tp_model_response answer = {.struct_size = sizeof answer, .text = TEXT("done")};
  latch_hit(&w->go);
  if (w->waits_for == DEFERRED) assert_int_equal(tp_tool_complete(w->token, false, tp_text_of("built"), NULL), TP_OK);
  if (w->waits_for == MODEL) assert_int_equal(tp_model_complete(w->model->token, &answer, NULL), TP_OK);
  if (w->waits_for == QUESTION) assert_int_equal(tp_question_answer(w->token, &allows, NULL), TP_OK);
  if (w->waits_for == LOAD) assert_int_equal(tp_history_complete_load(w->token, TP_OK, NULL, 0, NULL, NULL), TP_OK);
}

/* ---- what is read ---- */

typedef struct seen {
  int count;
  uint32_t state, kind; /* of the open step; 0: none is open */
  char name[32], turn[32];
} seen;

static bool note_running(void *ctx, const tp_turn_record *record) {
  seen *s = ctx;
  s->count++;
  s->state = record->state;
  snprintf(s->turn, sizeof s->turn, "%.*s", (int)record->ids[TP_ID_TURN].size, record->ids[TP_ID_TURN].data);
  for (size_t i = 0; i < record->step_count; i++) {
    tp_turn_step step = {.struct_size = sizeof step};
    if (!record->step(record->step_source, i, &step) || step.ended_ns) continue;
    s->kind = step.kind;
    snprintf(s->name, sizeof s->name, "%.*s", (int)step.name.size, step.name.size ? step.name.data : "");
  }
  return true;
}

static seen read_running(world *w) {
  seen s = {.count = 0};
  assert_int_equal(tp_runtime_turns_running(w->runtime, NULL, note_running, &s, NULL), TP_OK);
  return s;
}

typedef struct open_entry {
  int count; /* entries of the phase */
  bool is_open;
  char states[4][16]; /* by the order of the plan */
} open_entry;

static bool note_entry(void *ctx, const tp_entry_record *record) {
  open_entry *e = ctx;
  e->count++;
  e->is_open = record->ended_ns == 0;
  for (size_t i = 0; i < record->run_count && i < 4; i++)
    snprintf(e->states[i], sizeof e->states[i], "%s", tp_state_name(record_row(record, i).state));
  return true;
}

static open_entry read_entry(world *w, tp_phase_id phase) {
  open_entry e = {.count = 0};
  const tp_record_query query = {.struct_size = sizeof query, .phase = phase};
  assert_int_equal(tp_runtime_records(w->runtime, &query, note_entry, &e, NULL), TP_OK);
  return e;
}

/* The row comes without anything else that happens. */
static seen await_open(world *w, uint32_t kind) {
  seen s = read_running(w);
  for (; s.count == 0 || s.kind != kind; s = read_running(w)) sleep_ms(1);
  return s;
}

static void submit(world *w) {
  const tp_turn_request request = {.struct_size = sizeof request, .id = "turn-1", .text = TEXT("build it")};
  assert_int_equal(tp_turn_submit(w->session, &request, NULL, NULL, &w->turn, NULL), TP_OK);
}

static void assert_completed(world *w) {
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_submission_wait(w->turn, 60000, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
}

TEST(turn_that_waits_is_shown_with_what_it_waits_for) {
  static const struct {
    what waits_for;
    uint32_t kind;
    const char *name;
  } rows[] = {{HANDLER, 0, ""},
              {TOOL, TP_STEP_TOOL, "build"},
              {DEFERRED, TP_STEP_TOOL, "build"},
              {MODEL, TP_STEP_MODEL, "recorder"},
              {QUESTION, TP_STEP_QUESTION, "build"},
              {LOAD, TP_STEP_LOAD, ""}};
  static const tp_durability durabilities[] = {TP_DURABILITY_ASYNC, TP_DURABILITY_SYNC};
  for (size_t i = 0; i < COUNT(rows); i++)
    for (size_t d = 0; d < COUNT(durabilities); d++) {
      world w;
      make_directory(state);
      open_world(&w, rows[i].waits_for, durabilities[d]);
      submit(&w);
      seen s = await_open(&w, rows[i].kind);
      assert_int_equal(s.count, 1);
      assert_int_equal(s.state, TP_STATE_RUNNING);
      assert_string_equal(s.turn, "turn-1");
      assert_string_equal(s.name, rows[i].name);
      let_go(&w);
      assert_completed(&w);
      assert_int_equal(read_running(&w).count, 0);
      assert_true(had_number > 0);
      close_world(&w);
      remove_directory(state);
    }
}

TEST(phase_that_waits_has_a_record_that_its_end_replaces) {
  world w;
  open_entry e;
  open_world(&w, HANDLER, TP_DURABILITY_ASYNC);
  submit(&w);
  for (e = read_entry(&w, TP_PHASE_TURN_PRE_POLICY); e.count == 0; e = read_entry(&w, TP_PHASE_TURN_PRE_POLICY))
    sleep_ms(1);
  assert_true(e.is_open);
  assert_string_equal(e.states[0], "succeeded"); /* inline, and called before the owner left */
  assert_string_equal(e.states[1], "running");
  assert_string_equal(e.states[2], "queued"); /* it waits for the one before */
  let_go(&w);
  assert_completed(&w);
  assert_int_equal(tp_runtime_records_commit(w.runtime, NULL), TP_OK);
  e = read_entry(&w, TP_PHASE_TURN_PRE_POLICY);
  assert_int_equal(e.count, 1);
  assert_false(e.is_open);
  for (int i = 0; i < 3; i++) assert_string_equal(e.states[i], "succeeded");
  close_world(&w);
}

/* Entries that have ended are in the store before their turn ends. */
TEST(entries_that_ended_are_there_while_their_turn_waits) {
  world w;
  open_entry e;
  open_world(&w, MODEL, TP_DURABILITY_ASYNC);
  submit(&w);
  await_open(&w, TP_STEP_MODEL);
  e = read_entry(&w, TP_PHASE_TURN_PRE_POLICY);
  assert_int_equal(e.count, 1);
  assert_false(e.is_open);
  let_go(&w);
  assert_completed(&w);
  close_world(&w);
}

/* A turn of less than a quarter of a second. If the machine is slower than that, the row may be there. */
TEST(short_turn_gives_its_store_nothing_more) {
  world w;
  open_world(&w, NOTHING, TP_DURABILITY_ASYNC);
  int64_t begun_ns = now_ns();
  submit(&w);
  assert_completed(&w);
  bool is_short = now_ns() - begun_ns < 200 * INT64_C(1000000);
  if (is_short) assert_int_equal(notes, 0);
  if (is_short) assert_int_equal(had_number, 0);
  close_world(&w);
}

TEST(turn_whose_records_may_be_lost_has_no_row) {
  world w;
  open_world(&w, TOOL, TP_DURABILITY_MEMORY);
  submit(&w);
  latch_wait(&w.entered, 2); /* the handler, the tool */
  sleep_ms(300);
  assert_int_equal(read_running(&w).count, 0);
  let_go(&w);
  assert_completed(&w);
  assert_int_equal(notes, 0);
  close_world(&w);
}

/* Turns that wait do not write again and again what has not changed. */
TEST(turn_that_waits_is_noted_once) {
  world w;
  open_world(&w, MODEL, TP_DURABILITY_ASYNC);
  submit(&w);
  await_open(&w, TP_STEP_MODEL);
  int before = notes;
  sleep_ms(600);
  assert_int_equal(notes, before);
  let_go(&w);
  assert_completed(&w);
  close_world(&w);
}

FOR_EACH_TEST(make_directory, remove_directory);
