/* SPDX-License-Identifier: Apache-2.0
 *
 * Payload fields: their names and kinds, and which fields a phase refuses. */
#include "tests/support/test.h"
#include "tests/support/host.h"

enum { INTAKE = TP_PHASE_TURN_INTAKE, OWN_PHASE = TP_PHASE_HOST, OWN_FIELD = TP_FIELD_HOST };

/* ---- names and kinds ---- */

TEST(every_field_is_found_by_its_name_and_has_a_kind) {
  for (uint32_t field = 1; field <= TP_FIELD_RESULT_PARTS; field++) {
    const char *name = tp_field_name(field);
    assert_non_null(name);
    assert_int_equal(tp_field_find(name), field);
    assert_in_range(tp_field_kind(field), TP_FIELD_KIND_TEXT, TP_FIELD_KIND_VALUE);
  }
  assert_string_equal(tp_field_name(TP_FIELD_TOOL_NAMES), "tool_names");
  assert_int_equal(tp_field_kind(TP_FIELD_TEXT), TP_FIELD_KIND_TEXT);
  assert_int_equal(tp_field_kind(TP_FIELD_CODE), TP_FIELD_KIND_INT);
  assert_int_equal(tp_field_kind(TP_FIELD_ARGUMENTS), TP_FIELD_KIND_VALUE);
}

TEST(what_is_no_field_has_neither_name_nor_kind) {
  static const uint32_t strange[] = {0,         TP_FIELD_ASSISTANT_TEXT + 1, 65, TP_FIELD_HOST, TP_FIELD_LIMIT, 47777,
                                     UINT32_MAX};
  for (size_t i = 0; i < COUNT(strange); i++) {
    assert_null(tp_field_name(strange[i]));
    assert_int_equal(tp_field_kind(strange[i]), TP_FIELD_KIND_NONE);
  }
  assert_int_equal(tp_field_find("Text"), 0);
  assert_int_equal(tp_field_find(""), 0);
  assert_int_equal(tp_field_find(NULL), 0);
}

TEST(fields_of_the_host_begin_behind_the_space_for_ours) {
  assert_int_equal(TP_FIELD_HOST, 256);
  assert_int_equal(sizeof(tp_field), 32);
}

/* ---- what a phase refuses ---- */

typedef struct world {
  tp_runtime *runtime;
  tp_turn *turn;
  act observer;
} world;

static world open_world(bool subscribed) {
  static const uint32_t fields[] = {OWN_FIELD, TP_FIELD_TEXT};
  static const tp_phase row = {
      .struct_size = sizeof row, .name = "own.phase", .mode = TP_MODE_OBSERVE, .fields = fields, .field_count = 2};
  tp_runtime_options options = {
      .struct_size = sizeof options, .phases = (const tp_phase *const[]){&row}, .phase_count = 1};
  world w = {.runtime = open_runtime(&options)};
  static act idle;
  hook hooks[] = {{.id = "intake", .phase = INTAKE, .ctx = &idle},
                  {.id = "pre", .phase = TP_PHASE_TOOL_PRE, .ctx = &idle},
                  {.id = "model", .phase = TP_PHASE_MODEL_PRE, .ctx = &idle},
                  {.id = "own", .phase = OWN_PHASE, .ctx = &idle}};
  if (subscribed) add_hooks(w.runtime, hooks, COUNT(hooks));
  w.turn = begin_bare(w.runtime, 0);
  return w;
}

static void close_world(world *w) {
  tp_turn_end(w->turn);
  close_runtime(w->runtime);
}

typedef struct attempt {
  uint32_t phase;
  tp_field fields[2];
  size_t count;
  const char *says[3]; /* parts of the fault's message */
  tp_status status;    /* 0: TP_ERR_USAGE */
  bool content;        /* looked at only where there is a subscription */
} attempt;

#define A_TEXT \
  { .id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("hello") }

static const attempt refused[] = {
    {.phase = INTAKE,
     .fields = {{.id = 47777, .kind = TP_FIELD_KIND_TEXT}},
     .count = 1,
     .says = {"47777", "turn.intake", "unknown"}},
    {.phase = INTAKE, .fields = {{.id = 0, .kind = TP_FIELD_KIND_TEXT}}, .count = 1, .says = {"unknown"}},
    {.phase = INTAKE,
     .fields = {{.id = TP_FIELD_ASSISTANT_TEXT + 1, .kind = TP_FIELD_KIND_TEXT}},
     .count = 1,
     .says = {"64", "unknown"}},
    {.phase = INTAKE,
     .fields = {{.id = TP_FIELD_TEXT, .text = TEXT("hello")}},
     .count = 1,
     .says = {"`text`", "turn.intake", "TP_FIELD_KIND_TEXT"}},
    {.phase = INTAKE,
     .fields = {{.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_INT, .number = 3}},
     .count = 1,
     .says = {"`text`", "INT", "TP_FIELD_KIND_TEXT"}},
    {.phase = INTAKE,
     .fields = {{.id = TP_FIELD_TEXT, .kind = 4, .text = TEXT("hello")}},
     .count = 1,
     .says = {"`text`", "4", "TP_FIELD_KIND_TEXT"}},
    {.phase = INTAKE,
     .fields = {{.id = TP_FIELD_TEXT, .kind = 0x101, .text = TEXT("hello")}},
     .count = 1,
     .says = {"`text`", "257"}},
    {.phase = INTAKE,
     .fields = {{.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .number = 3, .text = TEXT("hello")}},
     .count = 1,
     .says = {"`text`", "number"}},
    {.phase = TP_PHASE_MODEL_PRE,
     .fields = {{.id = TP_FIELD_ATTEMPT, .kind = TP_FIELD_KIND_INT, .number = 3, .text = TEXT("three")}},
     .count = 1,
     .says = {"`attempt`", "model.pre", "text"}},
    {.phase = INTAKE, .fields = {A_TEXT, A_TEXT}, .count = 2, .says = {"`text`", "turn.intake", "twice"}},
    {.phase = INTAKE,
     .fields = {A_TEXT, {.id = TP_FIELD_MODEL, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("m")}},
     .count = 2,
     .says = {"`model`", "turn.intake", "not carried"}},
    {.phase = INTAKE,
     .fields = {{.id = OWN_FIELD, .kind = TP_FIELD_KIND_TEXT}},
     .count = 1,
     .says = {"field_256", "not carried"}},
    {.phase = OWN_PHASE,
     .fields = {{.id = OWN_FIELD + 1, .kind = TP_FIELD_KIND_TEXT}},
     .count = 1,
     .says = {"field_257", "own.phase", "not carried"}},
    {.phase = OWN_PHASE, .fields = {{.id = OWN_FIELD}}, .count = 1, .says = {"field_256", "own.phase"}},
    {.phase = INTAKE,
     .fields = {{.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("caf\xe9")}},
     .count = 1,
     .says = {"`text`", "turn.intake", "UTF-8"},
     .status = TP_ERR_UTF8,
     .content = true},
    {.phase = INTAKE,
     .fields = {{.id = TP_FIELD_FILES, .kind = TP_FIELD_KIND_VALUE, .text = TEXT("\x91")}},
     .count = 1,
     .says = {"`files`", "turn.intake"},
     .status = TP_ERR_MALFORMED,
     .content = true},
};

static void ended(void *ctx, const tp_phase_result *result) {
  (void)result;
  latch_hit(ctx);
}

static void assert_refused(const attempt *a, tp_status status, const tp_fault *fault) {
  tp_status want = a->status ? a->status : TP_ERR_USAGE;
  if (status != want) fail_msg("attempt %td: %s: %s", a - refused, tp_status_name(status), fault->message);
  assert_int_equal(fault->phase, a->phase);
  for (size_t i = 0; i < COUNT(a->says) && a->says[i]; i++)
    if (!strstr(fault->message, a->says[i])) fail_msg("no \"%s\" in: %s", a->says[i], fault->message);
}

TEST(phase_refuses_fields_that_it_does_not_take) {
  for (int subscribed = 0; subscribed < 2; subscribed++) {
    world w = open_world(subscribed);
    for (size_t i = 0; i < COUNT(refused); i++) {
      const attempt *a = &refused[i];
      if (a->content && !subscribed) continue;
      tp_phase_input input = {.struct_size = sizeof input, .fields = a->fields, .field_count = a->count};
      tp_phase_result result = {.struct_size = sizeof result};
      latch done = LATCH;
      tp_fault fault = {0};
      assert_refused(a, tp_phase_run(w.turn, a->phase, &input, &result, &fault), &fault);
      fault = (tp_fault){0};
      if (subscribed) assert_refused(a, tp_phase_submit(w.turn, a->phase, &input, ended, &done, &fault), &fault);
    }
    close_world(&w);
  }
}

TEST(fields_that_are_counted_but_not_given_are_refused) {
  world w = open_world(true);
  tp_phase_input input = {.struct_size = sizeof input, .field_count = 1};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(w.turn, INTAKE, &input, &result, NULL), TP_ERR_USAGE);
  close_world(&w);
}

TEST(phase_takes_what_is_right) {
  static const attempt taken[] = {
      {.phase = INTAKE, .fields = {A_TEXT}, .count = 1},
      {.phase = INTAKE,
       .fields = {{.id = TP_FIELD_FILES, .kind = TP_FIELD_KIND_VALUE, .text = TEXT("\x90")}, A_TEXT},
       .count = 2},
      {.phase = TP_PHASE_TOOL_PRE,
       .fields = {{.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = TEXT("\x80")}},
       .count = 1},
      {.phase = TP_PHASE_TOOL_PRE, /* what could not be decoded */
       .fields = {{.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("{oh")}},
       .count = 1},
      {.phase = OWN_PHASE, .fields = {{.id = OWN_FIELD, .kind = TP_FIELD_KIND_INT, .number = -1}, A_TEXT}, .count = 2},
      {.phase = OWN_PHASE,
       .fields = {{.id = OWN_FIELD, .kind = TP_FIELD_KIND_VALUE, .text = TEXT("\xc0")}},
       .count = 1},
  };
  world w = open_world(true);
  for (size_t i = 0; i < COUNT(taken); i++) {
    tp_phase_input input = {.struct_size = sizeof input, .fields = taken[i].fields, .field_count = taken[i].count};
    tp_phase_result result = {.struct_size = sizeof result};
    tp_fault fault = {0};
    tp_status status = tp_phase_run(w.turn, taken[i].phase, &input, &result, &fault);
    if (status != TP_OK) fail_msg("attempt %zu: %s", i, fault.message);
  }
  close_world(&w);
}

TEST(row_of_the_host_names_only_fields_that_exist) {
  static const uint32_t strange[] = {TP_FIELD_ASSISTANT_TEXT + 1, 255, TP_FIELD_LIMIT};
  for (size_t i = 0; i < COUNT(strange); i++) {
    tp_phase row = {
        .struct_size = sizeof row, .name = "own", .mode = TP_MODE_OBSERVE, .fields = &strange[i], .field_count = 1};
    tp_runtime_options options = {
        .struct_size = sizeof options, .phases = (const tp_phase *const[]){&row}, .phase_count = 1};
    tp_runtime *runtime;
    assert_int_equal(tp_runtime_new(&options, &runtime, NULL), TP_ERR_USAGE);
  }
}

/* ---- what a replacement refuses ---- */

typedef struct replacer {
  tp_field fields[2];
  size_t count;
  tp_status status;
} replacer;

static tp_answer replace(void *ctx, tp_call *call) {
  replacer *r = ctx;
  r->status = tp_call_replace(call, r->fields, r->count, NULL);
  return TP_ANSWER_DONE;
}

TEST(handler_is_refused_replacements_that_are_not_right) {
  static const struct {
    replacer r;
    const char *says;
  } cases[] = {
      {{.fields = {{.id = 47777, .kind = TP_FIELD_KIND_TEXT}}, .count = 1}, "field 47777 for phase `turn.intake`"},
      {{.fields = {{.id = TP_FIELD_TEXT, .text = TEXT("x")}}, .count = 1}, "`text` (1) of phase `turn.intake`"},
      {{.fields = {{.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_VALUE, .text = TEXT("\xc0")}}, .count = 1}, "as VALUE"},
      {{.fields = {A_TEXT, A_TEXT}, .count = 2}, "`text` (1) of phase `turn.intake` is given twice"},
      {{.fields = {{.id = TP_FIELD_MODEL, .kind = TP_FIELD_KIND_TEXT}}, .count = 1}, "`model` (2) is not carried"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    for (int slow = 0; slow < 2; slow++) {
      replacer r = cases[i].r;
      tp_runtime *runtime = open_runtime(NULL);
      hook h = {.id = "replaces", .phase = INTAKE, .run = replace, .ctx = &r, .slow = slow};
      add_hooks(runtime, &h, 1);
      tp_turn *turn = begin_bare(runtime, 0);
      tp_phase_result result = run_phase(turn, INTAKE, "hello");
      assert_int_equal(r.status, TP_ERR_MALFORMED);
      assert_run(&result, "replaces", TP_STATE_FAILED, TP_REASON_MALFORMED);
      char message[512] = "";
      tp_text text = tp_merged_get(result.merged, TP_CONTRIBUTION_DIAGNOSTIC, 0)->contribution->text;
      memcpy(message, text.data, text.size < sizeof message ? text.size : sizeof message - 1);
      if (!strstr(message, cases[i].says)) fail_msg("no \"%s\" in: %s", cases[i].says, message);
      tp_turn_end(turn);
      close_runtime(runtime);
    }
  }
}

TEST(handler_replaces_what_is_right) {
  replacer r = {.fields = {A_TEXT, {.id = TP_FIELD_FILES, .kind = TP_FIELD_KIND_VALUE, .text = TEXT("\x90")}},
                .count = 2};
  tp_runtime *runtime = open_runtime(NULL);
  hook h = {.id = "replaces", .phase = INTAKE, .run = replace, .ctx = &r};
  add_hooks(runtime, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, INTAKE, "before");
  assert_int_equal(r.status, TP_OK);
  assert_text(tp_merged_text(result.merged, TP_FIELD_TEXT), "hello");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- the payload as one value ---- */

typedef struct payload_seen {
  const char *data;
  char text[64];
  int64_t number;
  size_t count;
  latch *entered; /* hit, then waited for till all have come; may be NULL */
  int all;
} payload_seen;

static tp_answer see_payload(void *ctx, tp_call *call) {
  payload_seen *seen = ctx;
  if (seen->entered) {
    latch_hit(seen->entered);
    latch_wait(seen->entered, seen->all);
  }
  tp_text value = tp_call_payload(call), text = tp_value_text(tp_value_get(value, "model"));
  if (!text.size) text = tp_value_text(tp_value_get(value, "text"));
  seen->data = value.data;
  seen->count = tp_value_count(value);
  seen->number = tp_value_int(tp_value_get(value, "attempt"), -1);
  snprintf(seen->text, sizeof seen->text, "%.*s", (int)text.size, text.size ? text.data : "");
  if (tp_call_payload(call).data != value.data) seen->count = SIZE_MAX;
  return TP_ANSWER_DONE;
}

static tp_phase_result run_model_pre(tp_turn *turn, const char *model, int64_t attempt_number) {
  tp_field fields[] = {{.id = TP_FIELD_ATTEMPT, .kind = TP_FIELD_KIND_INT, .number = attempt_number},
                       {.id = TP_FIELD_MODEL, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(model)}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_MODEL_PRE, &input, &result, NULL), TP_OK);
  return result;
}

TEST(payload_is_one_value_with_the_names_of_its_fields) {
  for (int slow = 0; slow < 2; slow++) {
    payload_seen seen = {0};
    tp_runtime *runtime = open_runtime(NULL);
    hook h = {.id = "sees", .phase = TP_PHASE_MODEL_PRE, .run = see_payload, .ctx = &seen, .slow = slow};
    add_hooks(runtime, &h, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    for (int i = 0; i < 5; i++) { /* the memory of one entry serves the next */
      char model[16];
      snprintf(model, sizeof model, "model %d", i);
      tp_phase_result result = run_model_pre(turn, model, i);
      assert_string_equal(seen.text, model);
      assert_int_equal(seen.number, i);
      assert_int_equal(seen.count, 2);
      tp_phase_result_release(turn, &result);
    }
    run_phase(turn, TP_PHASE_MODEL_PRE, NULL);
    assert_int_equal(seen.count, 0); /* an empty map, and a value all the same */
    assert_non_null(seen.data);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(handlers_that_run_at_once_share_one_payload) {
  enum { HANDLERS = 8 };
  latch entered = LATCH;
  payload_seen seen[HANDLERS];
  hook hooks[HANDLERS];
  char ids[HANDLERS][8];
  tp_runtime *runtime = open_runtime(NULL);
  for (int i = 0; i < HANDLERS; i++) {
    seen[i] = (payload_seen){.entered = &entered, .all = HANDLERS};
    snprintf(ids[i], sizeof ids[i], "h%d", i);
    hooks[i] = (hook){.id = ids[i], .phase = TP_PHASE_MODEL_PRE, .run = see_payload, .ctx = &seen[i], .slow = true};
  }
  add_hooks(runtime, hooks, HANDLERS);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_model_pre(turn, "m", 1);
  for (int i = 0; i < HANDLERS; i++) {
    assert_ptr_equal(seen[i].data, seen[0].data);
    assert_string_equal(seen[i].text, "m");
  }
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(payload_behind_a_replacement_is_the_new_one) {
  payload_seen before = {0}, after = {0};
  act replaces = {.replaces = TP_FIELD_TEXT, .text = "new"};
  tp_runtime *runtime = open_runtime(NULL);
  hook hooks[] = {{.id = "before", .phase = INTAKE, .run = see_payload, .ctx = &before},
                  {.id = "replaces", .phase = INTAKE, .ctx = &replaces, .after = "before"},
                  {.id = "after", .phase = INTAKE, .run = see_payload, .ctx = &after, .after = "replaces"}};
  add_hooks(runtime, hooks, COUNT(hooks));
  tp_turn *turn = begin_bare(runtime, 0);
  run_phase(turn, INTAKE, "old");
  assert_string_equal(before.text, "old");
  assert_string_equal(after.text, "new");
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- what a match sees ---- */

typedef struct match_seen {
  tp_caller caller;
  bool has[TP_ID_COUNT];
} match_seen;

static int32_t see_match(void *ctx, const tp_match_view *view) {
  match_seen *seen = ctx;
  seen->caller = tp_match_caller(view);
  for (uint32_t id = 0; id < TP_ID_COUNT; id++) seen->has[id] = tp_match_id(view, id).size > 0;
  return TP_MATCH_YES;
}

TEST(match_sees_who_asked_and_whose_turn_it_is) {
  match_seen seen = {0};
  static act idle;
  tp_runtime *runtime = open_runtime(NULL);
  hook h = {.id = "matched",
            .phase = INTAKE,
            .ctx = &idle,
            .sub.match = &(const tp_match){
                .struct_size = sizeof(tp_match), .matches = see_match, .ctx = &seen, .description = "all"}};
  add_hooks(runtime, &h, 1);
  tp_turn_request request = {.struct_size = sizeof request, .id = "t1", .caller = TP_CALLER_MANUAL_CLI};
  tp_turn *turn;
  assert_int_equal(tp_turn_begin_bare(runtime, &request, &turn, NULL), TP_OK);
  run_phase(turn, INTAKE, "x");
  assert_int_equal(seen.caller, TP_CALLER_MANUAL_CLI);
  assert_true(seen.has[TP_ID_TURN]);
  tp_turn_end(turn);
  close_runtime(runtime);
}
