/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of one response: each gets exactly one result, in call order, and the fate of one does not affect its
 * siblings. On bare turns, through tp_tools_run() and tp_tools_submit(). */
#include <assert.h>

#include "tests/support/test.h"
#include "tests/support/model.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, TOOL_PRE = TP_PHASE_TOOL_PRE };

/* ---- tools that do what is set ---- */

typedef struct job {
  const char *text;
  bool error;
  bool defers;
  latch *waits_for, *entered;
  _Atomic uint32_t calls;
  tp_token token;
  tp_deferral deferral;
  char seen_call_id[32];
  int64_t seen_n;
  int64_t left_ms;
} job;

static tp_answer work(void *ctx, tp_tool_run *run) {
  job *j = ctx;
  if (j->calls++ == 0) { /* only the first call notes: a tool may run several times at once */
    tp_text id = tp_tool_run_call_id(run);
    snprintf(j->seen_call_id, sizeof j->seen_call_id, "%.*s", (int)id.size, id.data);
    double real = -1;
    bool flag;
    tp_text text;
    j->seen_n = -1;
    if (tp_tool_run_argument_int(run, "n", &j->seen_n, NULL) == TP_OK) {
      assert(tp_tool_run_argument_double(run, "n", &real, NULL) == TP_OK && real == (double)j->seen_n);
      assert(tp_tool_run_argument_bool(run, "n", &flag, NULL) == TP_ERR_MALFORMED);
      assert(tp_tool_run_argument_text(run, "n", &text, NULL) == TP_ERR_MALFORMED);
    }
    j->left_ms = tp_tool_run_time_left_ms(run);
  }
  if (j->defers) {
    tp_deferral deferral = j->deferral;
    deferral.struct_size = sizeof deferral;
    tp_answer outcome = tp_tool_defer(run, &deferral, &j->token);
    if (j->entered) latch_hit(j->entered);
    return outcome;
  }
  if (j->entered) latch_hit(j->entered);
  if (j->waits_for) latch_wait(j->waits_for, 1);
  return j->error ? tp_tool_error(run, tp_text_of(j->text)) : tp_tool_ok(run, tp_text_of(j->text));
}

typedef struct bundle {
  tp_tool tools[8];
  const tp_tool *list[8];
  size_t count;
  tp_contribution contribution;
  act act;
} bundle;

static tp_tool *add_tool(bundle *b, const char *name, job *j) {
  tp_tool *tool = &b->tools[b->count];
  b->list[b->count++] = tool;
  *tool = (tp_tool){.struct_size = sizeof *tool, .name = name, .description = "a tool", .run = work, .ctx = j};
  return tool;
}

static tp_turn *begin_with(tp_runtime *runtime, bundle *b, const hook *more, size_t more_count) {
  b->contribution = (tp_contribution){.struct_size = sizeof(tp_contribution),
                                      .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                      .key = TEXT("b"),
                                      .tools = b->list,
                                      .tool_count = (uint32_t)b->count};
  b->act = (act){.emits = &b->contribution, .emit_count = 1};
  add_hooks(runtime, &(hook){.id = "bundle", .phase = TOOLS, .ctx = &b->act}, 1);
  if (more_count) add_hooks(runtime, more, more_count);
  tp_turn *turn = begin_bare(runtime, 0);
  assert_int_equal(run_phase(turn, TOOLS, NULL).outcome, TP_OK);
  return turn;
}

static tp_tool_call call_of(const char *id, const char *name) {
  return (tp_tool_call){.id = tp_text_of(id), .name = tp_text_of(name), .arguments = no_arguments};
}

#define assert_kind(result, want) assert_string_equal(tp_tool_result_name((result).kind), tp_tool_result_name(want))

/* ---- one call ---- */

TEST(tool_gets_its_arguments_and_gives_its_text) {
  for (int is_inline = 0; is_inline < 2; is_inline++) {
    tp_runtime *runtime = open_runtime(NULL);
    bundle b = {.count = 0};
    job j = {.text = "done"};
    add_tool(&b, "t", &j)->placement = is_inline ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD;
    tp_turn *turn = begin_with(runtime, &b, NULL, 0);
    char bytes[4];
    tp_tool_call call = call_of("c1", "t");
    call.arguments = argument_n(bytes, 7);
    tp_tool_result result;
    assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
    assert_kind(result, TP_TOOL_OK);
    assert_true(result.started);
    assert_text(result.text, "done");
    assert_text(result.call_id, "c1");
    assert_text(result.name, "t");
    assert_string_equal(j.seen_call_id, "c1");
    assert_int_equal(j.seen_n, 7);
    assert_in_range(j.left_ms, 60000, 120000);
    assert_int_equal(tools_run(turn, NULL, 0, NULL, NULL), TP_OK); /* none is fine, too */
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(turn_without_materialization_has_no_tools) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_tool_call call = call_of("", "t");
  tp_tool_result result;
  assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
  assert_kind(result, TP_TOOL_UNKNOWN_TOOL);
  assert_false(result.started);
  assert_text(result.call_id, "call-0");
  assert_true(result.text.size > 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(arguments_that_break_the_schema_or_are_not_decoded_show_the_model_why) {
  tp_runtime *runtime = open_runtime(NULL);
  bundle b = {.count = 0};
  job j = {.text = "done"};
  tp_writer *w;
  tp_text schema;
  assert_int_equal(tp_writer_new(NULL, &w), TP_OK);
  tp_write_map(w, 3);
  tp_write_string(w, "type");
  tp_write_string(w, "object");
  tp_write_string(w, "required");
  tp_write_array(w, 1);
  tp_write_string(w, "n");
  tp_write_string(w, "properties");
  tp_write_map(w, 1);
  tp_write_string(w, "n");
  tp_write_map(w, 2);
  tp_write_string(w, "type");
  tp_write_string(w, "integer");
  tp_write_string(w, "maximum");
  tp_write_int(w, 10);
  assert_int_equal(tp_writer_finish(w, &schema), TP_OK);
  add_tool(&b, "t", &j)->schema = schema;
  tp_turn *turn = begin_with(runtime, &b, NULL, 0);
  char bytes[2][4];
  tp_tool_call calls[4] = {call_of("ok", "t"), call_of("missing", "t"), call_of("large", "t"), call_of("raw", "t")};
  calls[0].arguments = argument_n(bytes[0], 10);
  calls[2].arguments = argument_n(bytes[1], 11);
  calls[3].arguments = (tp_text)TEXT("{\"n\": ");
  calls[3].malformed = true;
  tp_tool_result results[4];
  assert_int_equal(tools_run(turn, calls, 4, results, NULL), TP_OK);
  assert_kind(results[0], TP_TOOL_OK);
  for (int i = 1; i < 4; i++) {
    assert_kind(results[i], TP_TOOL_INVALID_ARGUMENTS);
    assert_false(results[i].started);
    assert_true(results[i].text.size > 0);
  }
  assert_non_null(memmem(results[1].text.data, results[1].text.size, "n", 1));
  assert_int_equal(j.calls, 1);
  tp_turn_end(turn);
  tp_writer_free(w);
  close_runtime(runtime);
}

/* ---- eight at once: case 15 ---- */

typedef struct nemesis {
  tp_turn *turn;
  latch *entered, *leave;
} nemesis;

static void *cancel_in_the_middle(void *arg) {
  nemesis *n = arg;
  latch_wait(n->entered, 1);
  tp_turn_cancel(n->turn);
  return NULL;
}

static tp_answer deny_one(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text tool = tp_call_text(call, TP_FIELD_TOOL);
  if (tool.size == 6 && memcmp(tool.data, "denied", 6) == 0) return tp_call_deny(call, "not this one");
  return tp_call_allow(call);
}

TEST(eight_parallel_calls_get_eight_results_in_call_order) {
  for (int cancel = 0; cancel < 2; cancel++) {
    tp_runtime *runtime = open_runtime(NULL);
    latch leave = LATCH, waiting = LATCH;
    bundle b = {.count = 0};
    job good = {.text = "good"}, bad = {.text = "bad luck", .error = true},
        hangs = {.text = "never", .waits_for = &leave};
    job patient = {.text = "patient", .waits_for = &leave, .entered = &waiting}, denied = {.text = "never"};
    add_tool(&b, "good", &good);
    add_tool(&b, "bad", &bad);
    add_tool(&b, "hangs", &hangs)->limit_ms = 20;
    add_tool(&b, "patient", &patient);
    add_tool(&b, "denied", &denied);
    hook gate = {.id = "gate", .phase = TOOL_PRE, .run = deny_one};
    tp_turn *turn = begin_with(runtime, &b, &gate, 1);
    tp_tool_call calls[8] = {call_of("0", "good"),   call_of("1", "bad"),    call_of("2", "hangs"),
                             call_of("3", "denied"), call_of("4", "nobody"), call_of("5", "patient"),
                             call_of("6", "good"),   call_of("7", "good")};
    calls[6].arguments = (tp_text)TEXT("garbage");
    calls[6].malformed = true;
    tp_tool_result results[8];
    nemesis n = {turn, &waiting, &leave};
    pthread_t thread;
    if (cancel) pthread_create(&thread, NULL, cancel_in_the_middle, &n);
    else patient.waits_for = NULL;
    assert_int_equal(tools_run(turn, calls, 8, results, NULL), TP_OK);
    if (cancel) pthread_join(thread, NULL);
    assert_kind(results[3], TP_TOOL_DENIED);
    assert_false(results[3].started);
    assert_non_null(memmem(results[3].text.data, results[3].text.size, "not this one", 12));
    assert_kind(results[4], TP_TOOL_UNKNOWN_TOOL);
    assert_kind(results[6], TP_TOOL_INVALID_ARGUMENTS);
    if (cancel) {
      assert_kind(results[5], TP_TOOL_CANCELLED);
      assert_true(results[2].kind == TP_TOOL_TIMED_OUT || results[2].kind == TP_TOOL_CANCELLED);
    } else {
      assert_kind(results[0], TP_TOOL_OK);
      assert_kind(results[1], TP_TOOL_HANDLER_ERROR);
      assert_text(results[1].text, "bad luck");
      assert_kind(results[2], TP_TOOL_TIMED_OUT);
      assert_true(results[2].started);
      assert_kind(results[5], TP_TOOL_OK);
      assert_kind(results[7], TP_TOOL_OK);
    }
    uint32_t orders = 0;
    for (int i = 0; i < 8; i++) {
      assert_text(results[i].call_id, ((char[]){(char)('0' + i), 0}));
      assert_text(results[i].name, calls[i].name.data);
      orders |= 1u << results[i].completion_order;
    }
    assert_int_equal(orders, 0xff);
    assert_int_equal(denied.calls, 0);
    latch_hit(&leave);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(calls_run_at_the_same_time) {
  tp_runtime *runtime = open_runtime(NULL);
  latch a_in = LATCH, b_in = LATCH;
  bundle b = {.count = 0};
  job one = {.text = "1", .entered = &a_in, .waits_for = &b_in},
      two = {.text = "2", .entered = &b_in, .waits_for = &a_in};
  add_tool(&b, "one", &one);
  add_tool(&b, "two", &two);
  tp_turn *turn = begin_with(runtime, &b, NULL, 0);
  tp_tool_call calls[2] = {call_of("a", "one"), call_of("b", "two")};
  tp_tool_result results[2];
  assert_int_equal(tools_run(turn, calls, 2, results, NULL), TP_OK);
  assert_text(results[0].text, "1");
  assert_text(results[1].text, "2");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- gates ---- */

static tp_tool_result run_gated(const hook *hooks, size_t count, job *j) {
  static char text[512];
  tp_runtime *runtime = open_runtime(NULL);
  bundle b = {.count = 0};
  add_tool(&b, "t", j);
  tp_turn *turn = begin_with(runtime, &b, hooks, count);
  run_phase(turn, TP_PHASE_TURN_PRE_POLICY, NULL);
  tp_tool_call call = call_of("c", "t");
  tp_tool_result result;
  assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
  snprintf(text, sizeof text, "%.*s", (int)result.text.size, result.text.size ? result.text.data : "");
  result.text = tp_text_of(text);
  tp_turn_end(turn);
  close_runtime(runtime);
  return result;
}

TEST(policy_deny_beats_a_hook_that_allows) {
  static const char *const values[] = {"deny", "ask", "allow"};
  for (int i = 0; i < 3; i++) {
    tp_contribution policy = {.struct_size = sizeof(tp_contribution),
                              .kind = TP_CONTRIBUTION_POLICY,
                              .domain = TEXT("tool"),
                              .key = TEXT("t"),
                              .text = tp_text_of(values[i])};
    act says = {.emits = &policy, .emit_count = 1}, allows = {.kind = TP_ANSWER_ALLOW};
    hook hooks[] = {{.id = "policy", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &says},
                    {.id = "allows", .phase = TOOL_PRE, .ctx = &allows}};
    job j = {.text = "ran"};
    tp_tool_result result = run_gated(hooks, 2, &j);
    assert_kind(result, i < 2 ? TP_TOOL_DENIED : TP_TOOL_OK);
    assert_int_equal(j.calls, i < 2 ? 0 : 1);
  }
}

TEST(gate_that_denies_asks_or_fails_denies_the_call) {
  static const struct {
    act act;
    tp_tool_result_kind kind;
    const char *text;
  } cases[] = {
      {{.kind = TP_ANSWER_DENY, .reason = "because"}, TP_TOOL_DENIED, "because"},
      {{.kind = TP_ANSWER_ASK, .reason = "may I"}, TP_TOOL_DENIED, "no channel to ask: may I"},
      {{.kind = TP_ANSWER_ASK}, TP_TOOL_DENIED, "no channel to ask"},
      {{.kind = TP_ANSWER_FAILED, .reason = "ill"}, TP_TOOL_DENIED, "ill"},
      {{.kind = TP_ANSWER_ALLOW}, TP_TOOL_OK, "ran"},
      {{.kind = TP_ANSWER_DONE}, TP_TOOL_OK, "ran"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    for (int slow = 0; slow < 2; slow++) {
      act gate;
      memcpy(&gate, &cases[i].act, sizeof gate);
      hook h = {.id = "gate", .phase = TOOL_PRE, .ctx = &gate, .slow = slow};
      job j = {.text = "ran"};
      tp_tool_result result = run_gated(&h, 1, &j);
      assert_kind(result, cases[i].kind);
      assert_non_null(strstr(result.text.data, cases[i].text));
      assert_int_equal(result.started, cases[i].kind == TP_TOOL_OK);
      assert_int_equal(j.calls, cases[i].kind == TP_TOOL_OK ? 1 : 0);
    }
  }
}

TEST(result_and_post_run_exactly_for_calls_that_started) {
  tp_runtime *runtime = open_runtime(NULL);
  act result_hook = {.replaces = TP_FIELD_RESULT, .appends = "+"}, post = {0};
  hook hooks[] = {{.id = "gate", .phase = TOOL_PRE, .run = deny_one},
                  {.id = "result", .phase = TP_PHASE_TOOL_RESULT, .ctx = &result_hook},
                  {.id = "post", .phase = TP_PHASE_TOOL_POST, .ctx = &post, .slow = true}};
  bundle b = {.count = 0};
  job good = {.text = "good"}, bad = {.text = "bad", .error = true}, denied = {0};
  add_tool(&b, "good", &good);
  add_tool(&b, "bad", &bad)->placement = TP_PLACEMENT_INLINE;
  add_tool(&b, "denied", &denied);
  tp_turn *turn = begin_with(runtime, &b, hooks, 3);
  tp_tool_call calls[4] = {call_of("a", "good"), call_of("b", "bad"), call_of("c", "denied"), call_of("d", "nobody")};
  tp_tool_result results[4];
  assert_int_equal(tools_run(turn, calls, 4, results, NULL), TP_OK);
  assert_text(results[0].text, "good+");
  assert_text(results[1].text, "bad+");
  assert_int_equal(result_hook.calls, 2);
  assert_int_equal(post.calls, 2);
  tp_turn_end(turn);
  close_runtime(runtime);
}

static tp_answer note_call(void *ctx, tp_call *call) {
  char *notes = ctx;
  tp_text tool = tp_call_text(call, TP_FIELD_TOOL), id = tp_call_text(call, TP_FIELD_CALL_ID);
  size_t used = strlen(notes);
  snprintf(notes + used, 512 - used, "%u of %.*s %.*s, ", tp_call_phase(call), (int)id.size, id.data, (int)tool.size,
           tool.data);
  return TP_ANSWER_DONE;
}

TEST(every_phase_of_a_call_names_it) {
  char notes[512] = "";
  tp_runtime *runtime = open_runtime(NULL);
  act asks = {.kind = TP_ANSWER_ASK, .reason = "may I"};
  hook hooks[] = {{.id = "pre", .phase = TOOL_PRE, .run = note_call, .ctx = notes},
                  {.id = "rewrite", .phase = TP_PHASE_TOOL_REWRITE, .run = note_call, .ctx = notes},
                  {.id = "result", .phase = TP_PHASE_TOOL_RESULT, .run = note_call, .ctx = notes},
                  {.id = "post", .phase = TP_PHASE_TOOL_POST, .run = note_call, .ctx = notes},
                  {.id = "ask", .phase = TP_PHASE_TOOL_ASK, .run = note_call, .ctx = notes},
                  {.id = "denied", .phase = TP_PHASE_TOOL_DENIED, .run = note_call, .ctx = notes},
                  {.id = "asks", .phase = TOOL_PRE, .ctx = &asks}};
  bundle b = {.count = 0};
  job j = {.text = "good"};
  add_tool(&b, "t", &j);
  tp_turn *turn = begin_with(runtime, &b, hooks, 6);
  tp_tool_call call = call_of("c1", "t");
  tp_tool_result result;
  assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
  assert_string_equal(notes, "15 of c1 t, 16 of c1 t, 17 of c1 t, 18 of c1 t, ");
  tp_turn_end(turn);
  notes[0] = 0;
  add_hooks(runtime, &hooks[6], 1);
  turn = begin_bare(runtime, 0);
  assert_int_equal(run_phase(turn, TOOLS, NULL).outcome, TP_OK);
  assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
  assert_string_equal(notes, "15 of c1 t, 16 of c1 t, 25 of c1 t, 26 of c1 t, ");
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(what_tool_post_answers_takes_nothing_back) {
  static const act acts[] = {
      {.kind = TP_ANSWER_DENY, .reason = "no"}, {.kind = TP_ANSWER_FAILED, .reason = "ill"}, {0}};
  for (size_t i = 0; i < COUNT(acts); i++) {
    tp_runtime *runtime = open_runtime(NULL);
    act post = acts[i];
    hook hooks[] = {{.id = "post", .phase = TP_PHASE_TOOL_POST, .ctx = &post}};
    bundle b = {.count = 0};
    job good = {.text = "good"};
    add_tool(&b, "good", &good);
    tp_turn *turn = begin_with(runtime, &b, hooks, 1);
    tp_tool_call call = call_of("a", "good");
    tp_tool_result result;
    assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
    assert_kind(result, TP_TOOL_OK);
    assert_text(result.text, "good");
    assert_int_equal(post.calls, 1);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- caps ---- */

TEST(long_result_keeps_head_and_tail_cut_at_code_points) {
  tp_runtime *runtime = open_runtime(NULL);
  bundle b = {.count = 0};
  static char text[3 * 1000 + 1];
  for (int i = 0; i < 1000; i++) memcpy(text + 3 * i, "\xe2\x82\xac", 3); /* euro signs */
  job j = {.text = text}, exact = {.text = "12345678"};
  add_tool(&b, "t", &j)->result_bytes_max = 100; /* 50 is no border of a code point */
  add_tool(&b, "exact", &exact)->result_bytes_max = 8;
  tp_turn *turn = begin_with(runtime, &b, NULL, 0);
  tp_tool_call calls[2] = {call_of("c", "t"), call_of("d", "exact")};
  tp_tool_result results[2];
  assert_int_equal(tools_run(turn, calls, 2, results, NULL), TP_OK);
  assert_kind(results[0], TP_TOOL_OK);
  assert_true(tp_utf8_valid(results[0].text, NULL));
  assert_in_range(results[0].text.size, 90, 160);
  assert_memory_equal(results[0].text.data, "\xe2\x82\xac", 3);
  assert_memory_equal(results[0].text.data + results[0].text.size - 3, "\xe2\x82\xac", 3);
  assert_non_null(memmem(results[0].text.data, results[0].text.size, "left out", 8));
  assert_text(results[1].text, "12345678");
  tp_turn_end(turn);
  close_runtime(runtime);
}

static void note_log(void *ctx, const tp_log_record *log) {
  char *seen = ctx;
  if (log->level == TP_LOG_WARNING) snprintf(seen, 128, "%s", log->message);
}

TEST(bytes_of_an_answer_that_are_not_utf8_are_replaced_and_logged) {
  char seen[128] = "";
  tp_runtime_options options = {.struct_size = sizeof options, .log = note_log, .log_ctx = seen};
  tp_runtime *runtime = open_runtime(&options);
  bundle b = {.count = 0};
  job j = {.text = "caf\xe9 \xff\xfe"}, fine = {.text = "caf\xc3\xa9"};
  add_tool(&b, "t", &j);
  add_tool(&b, "fine", &fine);
  tp_turn *turn = begin_with(runtime, &b, NULL, 0);
  tp_tool_call call = call_of("c", "fine");
  tp_tool_result result;
  assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
  assert_string_equal(seen, "");
  call.name = tp_text_of("t");
  assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
  assert_kind(result, TP_TOOL_OK);
  assert_text(result.text, "caf\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD");
  assert_string_equal(seen, "tool `t`: 3 bytes are not UTF-8 in its answer: U+FFFD stands for each");
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(permits_bound_one_tool) {
  tp_runtime *runtime = open_runtime(NULL);
  latch entered = LATCH, leave = LATCH;
  bundle b = {.count = 0};
  job j = {.text = "done", .entered = &entered, .waits_for = &leave};
  tp_tool *tool = add_tool(&b, "t", &j);
  tool->max_concurrent = 1;
  tool->limit_ms = 30;
  tp_turn *turn = begin_with(runtime, &b, NULL, 0);
  tp_tool_call calls[3] = {call_of("a", "t"), call_of("b", "t"), call_of("c", "t")};
  tp_tool_result results[3];
  assert_int_equal(tools_run(turn, calls, 3, results, NULL), TP_OK);
  assert_int_equal(j.calls, 1);
  int timed_out = 0, shed = 0;
  for (int i = 0; i < 3; i++) {
    timed_out += results[i].kind == TP_TOOL_TIMED_OUT;
    shed += results[i].kind == TP_TOOL_SHED;
  }
  assert_true(timed_out >= 1);
  assert_int_equal(timed_out + shed, 3);
  latch_hit(&leave);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- deferral ---- */

static void count_up(void *ctx) { ++*(_Atomic int *)ctx; }

TEST(tool_that_defers_is_completed_by_its_token) {
  for (int is_inline = 0; is_inline < 2; is_inline++) {
    tp_runtime *runtime = open_runtime(NULL);
    latch entered = LATCH;
    _Atomic int cancels = 0, destroys = 0;
    bundle b = {.count = 0};
    job never = {.defers = true, .entered = &entered, .deferral = {.cancel = count_up, .ctx = &cancels}};
    job ended = {.defers = true, .deferral = {.destroy = count_up, .ctx = &destroys}};
    tp_tool *tool = add_tool(&b, "never", &never);
    tool->placement = is_inline ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD;
    tool->limit_ms = 20;
    add_tool(&b, "other", &ended)->placement = is_inline ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD;
    tp_turn *turn = begin_with(runtime, &b, NULL, 0);
    tp_tool_call call = call_of("c", "never");
    tp_tool_result result;
    assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
    assert_kind(result, TP_TOOL_TIMED_OUT);
    assert_int_equal(cancels, 1);
    assert_int_equal(tp_tool_complete(never.token, false, tp_text_of("late"), NULL), TP_ERR_STALE);
    assert_kind(result, TP_TOOL_TIMED_OUT);
    tp_turn_end(turn);
    close_runtime(runtime);
    assert_int_equal(tp_tool_complete(never.token, false, tp_text_of("later"), NULL), TP_ERR_STALE);
  }
}

enum { CALLS = 10048, REVERSED = 64, WAITING_BYTES_MAX = 4096 };

/* ---- what is allocated, with the highest sum ---- */

static _Atomic int64_t bytes_open, bytes_most;

static void *counting_alloc(void *ctx, size_t size) {
  (void)ctx;
  int64_t open = atomic_fetch_add(&bytes_open, (int64_t)size) + (int64_t)size;
  int64_t most = atomic_load(&bytes_most);
  while (open > most && !atomic_compare_exchange_weak(&bytes_most, &most, open)) {}
  return malloc(size);
}

static void counting_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  bytes_open -= (int64_t)size;
  free(memory);
}

typedef struct many_calls {
  latch entered, ended;
  tp_token *tokens;
  _Atomic uint32_t count;
  const tp_tool_result *const *results;
  size_t result_count;
  int bad;
} many_calls;

static tp_answer defer_one(void *ctx, tp_tool_run *run) {
  many_calls *c = ctx;
  tp_token token;
  tp_answer outcome = tp_tool_defer(run, NULL, &token);
  c->tokens[c->count++] = token;
  latch_hit(&c->entered);
  return outcome;
}

static void all_ended(void *ctx, const tp_tool_result *const *results, size_t count) {
  many_calls *c = ctx;
  c->results = results;
  c->result_count = count;
  latch_hit(&c->ended);
}

static void *complete_every_other(void *arg) {
  many_calls *c = arg;
  latch_wait(&c->entered, CALLS);
  for (uint32_t i = 1; i < CALLS; i += 2)
    if (tp_tool_complete(c->tokens[i], false, tp_text_of("done"), NULL) != TP_OK) c->bad++;
  return NULL;
}

TEST(ten_thousand_deferred_calls_complete_with_two_workers) {
  tp_runtime_options options = {.struct_size = sizeof options,
                                .engine_workers = 2,
                                .handler_threads = 2,
                                .allocator = {counting_alloc, counting_release, NULL}};
  tp_runtime *runtime = open_runtime(&options);
  many_calls c = {.entered = LATCH, .ended = LATCH, .tokens = calloc(CALLS, sizeof *c.tokens)};
  bundle b = {.count = 0};
  *add_tool(&b, "t", NULL) = (tp_tool){
      .struct_size = sizeof(tp_tool), .name = "t", .run = defer_one, .ctx = &c, .placement = TP_PLACEMENT_INLINE};
  tp_turn *turn = begin_with(runtime, &b, NULL, 0);
  tp_tool_call *calls = calloc(CALLS, sizeof *calls);
  int64_t bytes_before = bytes_open;
  bytes_most = bytes_before;
  for (int i = 0; i < CALLS; i++) calls[i] = call_of("", "t");
  assert_int_equal(tools_submit(turn, calls, CALLS, all_ended, &c, NULL), TP_OK);
  free(calls); /* copied */
  pthread_t thread;
  pthread_create(&thread, NULL, complete_every_other, &c);
  latch_wait(&c.entered, CALLS);
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  assert_in_range(stats.handler_threads, 0, 2);
  int64_t bytes_each = (bytes_most - bytes_before) / CALLS;
  printf("# %d calls wait: %lld bytes for each\n", CALLS, (long long)bytes_each);
  assert_in_range(bytes_each, 1, WAITING_BYTES_MAX);
  int bad = 0;
  for (uint32_t i = 0; i < CALLS; i += 2)
    bad += tp_tool_complete(c.tokens[i], false, tp_text_of("done"), NULL) != TP_OK;
  pthread_join(thread, NULL);
  latch_wait(&c.ended, 1);
  assert_int_equal(bad + c.bad, 0);
  assert_int_equal(c.result_count, CALLS);
  for (size_t i = 0; i < CALLS; i++) {
    char id[16];
    snprintf(id, sizeof id, "call-%zu", i);
    assert_text(c.results[i]->call_id, id);
    assert_int_equal(c.results[i]->kind, TP_TOOL_OK);
  }
  tp_turn_end(turn);
  close_runtime(runtime);
  free(c.tokens);
}

TEST(sixty_four_calls_that_complete_in_reverse_have_their_results_in_call_order) {
  for (int is_inline = 0; is_inline < 2; is_inline++) {
    tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = 2, .handler_threads = 1};
    tp_runtime *runtime = open_runtime(&options);
    tp_token tokens[REVERSED];
    many_calls c = {.entered = LATCH, .ended = LATCH, .tokens = tokens};
    bundle b = {.count = 0};
    *add_tool(&b, "t", NULL) = (tp_tool){.struct_size = sizeof(tp_tool),
                                         .name = "t",
                                         .run = defer_one,
                                         .ctx = &c,
                                         .max_concurrent = REVERSED,
                                         .placement = is_inline ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
    tp_turn *turn = begin_with(runtime, &b, NULL, 0);
    tp_tool_call calls[REVERSED];
    for (int i = 0; i < REVERSED; i++) calls[i] = call_of("", "t");
    assert_int_equal(tools_submit(turn, calls, REVERSED, all_ended, &c, NULL), TP_OK);
    latch_wait(&c.entered, REVERSED); /* one thread, or the owner: in call order */
    for (int i = REVERSED - 1; i >= 0; i--) {
      char text[16];
      snprintf(text, sizeof text, "says %d", i);
      assert_int_equal(tp_tool_complete(tokens[i], false, tp_text_of(text), NULL), TP_OK);
    }
    latch_wait(&c.ended, 1);
    for (int i = 0; i < REVERSED; i++) {
      char id[16], text[16];
      snprintf(id, sizeof id, "call-%d", i);
      snprintf(text, sizeof text, "says %d", i);
      assert_text(c.results[i]->call_id, id);
      assert_text(c.results[i]->text, text);
      assert_int_equal(c.results[i]->completion_order, REVERSED - 1 - i);
    }
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

typedef struct mixer {
  act handler;
  latch deferred;
  tp_status wrong, right;
} mixer;

static void *complete_as_a_tool(void *arg) {
  mixer *m = arg;
  latch_wait(&m->deferred, 1);
  m->wrong = tp_tool_complete(m->handler.token, false, tp_text_of("not a tool's"), NULL);
  m->right = tp_token_complete(m->handler.token,
                               &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_ALLOW}, NULL);
  return NULL;
}

TEST(token_of_a_handler_is_not_a_tools) {
  tp_runtime *runtime = open_runtime(NULL);
  mixer m = {.deferred = LATCH};
  m.handler = (act){.defers = true, .deferred = &m.deferred};
  add_hooks(runtime, &(hook){.id = "d", .phase = TOOL_PRE, .ctx = &m.handler}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, complete_as_a_tool, &m);
  tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
  pthread_join(thread, NULL);
  assert_int_equal(m.wrong, TP_ERR_USAGE);
  assert_int_equal(m.right, TP_OK); /* it was still open */
  assert_int_equal(run_of(&result, "d").state, TP_STATE_SUCCEEDED);
  assert_int_equal(result.outcome, TP_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- what tool.post shows ---- */

typedef struct shown {
  char summary[2048];
  size_t size;
  int calls;
  tp_text arguments; /* what it must get whole */
  bool is_whole;
} shown;

static tp_answer see_post(void *ctx, tp_call *call) {
  shown *s = ctx;
  tp_text summary = tp_call_text(call, TP_FIELD_INPUT_SUMMARY);
  tp_text arguments = tp_call_text(call, TP_FIELD_ARGUMENTS), result = tp_call_text(call, TP_FIELD_RESULT);
  s->is_whole = arguments.size == s->arguments.size && memcmp(arguments.data, s->arguments.data, arguments.size) == 0 &&
                result.size == 4 && memcmp(result.data, "done", 4) == 0;
  s->calls++;
  s->size = summary.size;
  snprintf(s->summary, sizeof s->summary, "%.*s", (int)summary.size, summary.size ? summary.data : "");
  return TP_ANSWER_DONE;
}

/* {"n": text}, where text is `count` times the two bytes of an e with an accent. */
static tp_text accented(char *memory, size_t count) {
  size_t used = 0, bytes = 2 * count;
  memcpy(memory, "\x81\xa1n\xda", 4);
  memory[4] = (char)(bytes >> 8);
  memory[5] = (char)(bytes & 0xff);
  for (used = 6; used < 6 + bytes; used += 2) memcpy(memory + used, "\xc3\xa9", 2);
  return (tp_text){memory, used};
}

TEST(tool_post_shows_the_arguments_whole_and_as_json_cut_between_characters) {
  char seven[4], many[2048];
  const struct {
    tp_text arguments;
    const char *begins;
    size_t size;
  } cases[] = {{argument_n(seven, 7), "{\"n\":7}", 7},
               {no_arguments, "{}", 2},
               {accented(many, 700), "{\"n\":\"\xc3\xa9\xc3\xa9", 6 + 768 + 3 + 256 + 2}}; /* head, ellipsis, tail */
  for (size_t i = 0; i < COUNT(cases); i++) {
    shown seen = {.arguments = cases[i].arguments};
    job j = {.text = "done"};
    bundle b = {.count = 0};
    add_tool(&b, "t", &j);
    tp_runtime *runtime = open_runtime(NULL);
    hook post = {.id = "post", .phase = TP_PHASE_TOOL_POST, .run = see_post, .ctx = &seen};
    tp_turn *turn = begin_with(runtime, &b, &post, 1);
    tp_tool_call call = {.name = TEXT("t"), .arguments = cases[i].arguments};
    tp_tool_result result;
    assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
    assert_kind(result, TP_TOOL_OK);
    assert_int_equal(seen.calls, 1);
    assert_true(seen.is_whole);
    assert_int_equal(seen.size, cases[i].size);
    assert_memory_equal(seen.summary, cases[i].begins, strlen(cases[i].begins));
    assert_true(tp_utf8_valid((tp_text){seen.summary, seen.size}, NULL));
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* Of several runs the least counts: a thread may be stopped at any moment. */
TEST(time_that_the_check_of_large_arguments_takes_is_not_the_tools) {
  enum { BYTES = 24 << 20 };
  char *memory = malloc(BYTES + 8);
  memcpy(memory, "\x81\xa1n\xdb", 4);
  for (int i = 0; i < 4; i++) memory[4 + i] = (char)((uint32_t)BYTES >> (24 - 8 * i));
  memset(memory + 8, 'x', BYTES);
  int64_t least_ns = INT64_MAX, least_whole_ns = INT64_MAX;
  for (int i = 0; i < 5; i++) {
    job j = {.text = "done"};
    bundle b = {.count = 0};
    add_tool(&b, "t", &j)->placement = TP_PLACEMENT_INLINE;
    tp_runtime *runtime = open_runtime(NULL);
    tp_turn *turn = begin_with(runtime, &b, NULL, 0);
    tp_tool_call call = {.name = TEXT("t"), .arguments = {memory, BYTES + 8}};
    tp_tool_result result;
    int64_t begun_ns = now_ns();
    assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
    int64_t whole_ns = now_ns() - begun_ns;
    assert_kind(result, TP_TOOL_OK);
    if (result.duration_ns < least_ns) least_ns = result.duration_ns;
    if (whole_ns < least_whole_ns) least_whole_ns = whole_ns;
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  free(memory);
  if (least_ns > least_whole_ns / 4)
    fail_msg("the tool is charged %lld us of %lld us", (long long)least_ns / 1000, (long long)least_whole_ns / 1000);
}
