/* SPDX-License-Identifier: Apache-2.0
 *
 * The fault of a refused contribution, replacement or completion names the member, the limit and the remedy, with the
 * phase and the subscription if there is one. */
#include "tests/support/test.h"

#include "tests/support/host.h"

enum {
  CONTEXT = TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
  REWRITE = TP_PHASE_TOOL_REWRITE,
  TOOLS_PHASE = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION
};
enum { BYTES_LIMIT = 1 << 20 };

static char many_bytes[BYTES_LIMIT];

static tp_status seen; /* by the handler or the keys function of the case */
static tp_fault seen_fault;

/* ---- emit and replace ---- */

typedef struct refusal {
  tp_status (*try)(tp_call *call, tp_fault *fault);
  uint32_t phase;
  tp_status status;
  const char *says, *subject;
} refusal;

static tp_status emit_nothing(tp_call *call, tp_fault *fault) { return tp_call_emit(call, NULL, fault); }
static tp_status emit_without_size(tp_call *call, tp_fault *fault) {
  return tp_call_emit(call, &(tp_contribution){.kind = TP_CONTRIBUTION_PROMPT_CONTEXT}, fault);
}
static tp_status emit_no_text(tp_call *call, tp_fault *fault) {
  return tp_call_emit_prompt_context(call, "a", NULL, 0, fault);
}
static tp_status emit_latin1(tp_call *call, tp_fault *fault) {
  return tp_call_emit_prompt_context(call, "a", "caf\xe9", 0, fault);
}
static tp_status emit_line_break(tp_call *call, tp_fault *fault) {
  return tp_call_emit_prompt_section(call, "a\nb", "t", "x", 0, fault);
}
static tp_status emit_long_key(tp_call *call, tp_fault *fault) {
  return tp_call_emit(call,
                      &(tp_contribution){.struct_size = sizeof(tp_contribution),
                                         .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                         .key = {many_bytes, 300},
                                         .text = TEXT("x")},
                      fault);
}
static tp_status emit_too_much(tp_call *call, tp_fault *fault) {
  return tp_call_emit(call,
                      &(tp_contribution){.struct_size = sizeof(tp_contribution),
                                         .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                         .key = TEXT("k"),
                                         .text = {many_bytes, sizeof many_bytes}},
                      fault);
}
static tp_status emit_unallowed(tp_call *call, tp_fault *fault) {
  return tp_call_emit_background_job(call, "h", "k", (tp_text){0}, fault);
}
static tp_status emit_severity(tp_call *call, tp_fault *fault) {
  return tp_call_emit(call,
                      &(tp_contribution){.struct_size = sizeof(tp_contribution),
                                         .kind = TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC,
                                         .key = TEXT("k"),
                                         .severity = (tp_severity)99},
                      fault);
}
static tp_status emit_policy(tp_call *call, tp_fault *fault) {
  return tp_call_emit_policy(call, "tool", "rm", "denny", 0, fault);
}
static tp_status emit_tool(tp_call *call, tp_fault *fault) {
  const tp_tool tool = {.struct_size = sizeof tool, .name = "weather", .description = "d"};
  const tp_tool *tools[] = {&tool};
  return tp_call_emit_tool_bundle(call, "b", tools, 1, fault);
}
static tp_status emit_null_tool(tp_call *call, tp_fault *fault) {
  const tp_tool *tools[] = {NULL};
  return tp_call_emit_tool_bundle(call, "b", tools, 1, fault);
}
static tp_status replace_where_nothing_is(tp_call *call, tp_fault *fault) {
  return tp_call_replace_text(call, TP_FIELD_TEXT, "x", fault);
}
static tp_status replace_other_field(tp_call *call, tp_fault *fault) {
  return tp_call_replace_text(call, TP_FIELD_TOOL, "x", fault);
}
static tp_status replace_latin1(tp_call *call, tp_fault *fault) {
  return tp_call_replace_text(call, TP_FIELD_ARGUMENTS, "caf\xe9", fault);
}
static tp_status replace_nothing(tp_call *call, tp_fault *fault) { return tp_call_replace(call, NULL, 2, fault); }
static tp_status emit_after_defer(tp_call *call, tp_fault *fault) {
  tp_deferral deferral = {.struct_size = sizeof deferral};
  tp_token token;
  (void)tp_call_defer(call, &deferral, &token);
  tp_status status = tp_call_emit_audit(call, "a", "b", fault);
  (void)!tp_token_abandon(token, NULL);
  return status;
}

static tp_answer try_it(void *ctx, tp_call *call) {
  refusal *r = ctx;
  seen = r->try(call, &seen_fault);
  if (r->try(call, NULL) == TP_OK) seen = TP_OK; /* the fault may be NULL */
  return TP_ANSWER_DONE;
}

TEST(emit_and_replace_say_what_they_refuse) {
  static const refusal table[] = {
      {emit_nothing, CONTEXT, TP_ERR_USAGE, "the contribution is NULL", "s"},
      {emit_without_size, CONTEXT, TP_ERR_VERSION, "set it to sizeof(tp_contribution)", "s"},
      {emit_no_text, CONTEXT, TP_ERR_MALFORMED, "prompt_context: text is missing", "s"},
      {emit_latin1, CONTEXT, TP_ERR_MALFORMED, "text is not UTF-8 at byte 3", "s"},
      {emit_line_break, TP_PHASE_TURN_PRE_PROMPT_COMPILE, TP_ERR_MALFORMED, "prompt_section: key holds control bytes",
       "s"},
      {emit_long_key, CONTEXT, TP_ERR_MALFORMED, "key has 300 bytes, and may have 128", "s"},
      {emit_too_much, CONTEXT, TP_ERR_TOO_LARGE, "1048576 are the most", "s"},
      {emit_unallowed, CONTEXT, TP_ERR_CAPABILITY, "it contributes background_job", "s"},
      {emit_severity, TP_PHASE_TURN_PRE_PROMPT_COMPILE, TP_ERR_MALFORMED, "severity is none of ours", "s"},
      {emit_policy, TP_PHASE_TURN_PRE_POLICY, TP_ERR_MALFORMED, "must be deny, ask or allow", "s"},
      {emit_tool, TOOLS_PHASE, TP_ERR_MALFORMED, "tool weather has no function: set tp_tool.run", "weather"},
      {emit_null_tool, TOOLS_PHASE, TP_ERR_MALFORMED, "tools[0] is NULL", "s"},
      {replace_where_nothing_is, CONTEXT, TP_ERR_CAPABILITY, "has no field that may be replaced", "s"},
      {replace_other_field, REWRITE, TP_ERR_MALFORMED, "`tool` (23) of phase `tool.rewrite` may not be replaced",
       "tool.rewrite"},
      {replace_latin1, REWRITE, TP_ERR_MALFORMED, "`arguments` (24)", "tool.rewrite"},
      {replace_nothing, REWRITE, TP_ERR_MALFORMED, "is counted but not given", "tool.rewrite"},
      {emit_after_defer, CONTEXT, TP_ERR_USAGE, "goes to tp_token_complete()", "s"},
  };
  memset(many_bytes, 'x', sizeof many_bytes);
  for (size_t i = 0; i < COUNT(table); i++) {
    refusal r = table[i];
    tp_runtime *runtime = open_runtime(NULL);
    add_hooks(runtime, &(hook){.id = "s", .phase = r.phase, .run = try_it, .ctx = &r}, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, r.phase, NULL);
    if (!strstr(seen_fault.message, r.says)) fail_msg("case %zu: `%s` is not in `%s`", i, r.says, seen_fault.message);
    assert_run(&result, "s", TP_STATE_FAILED,
               r.status == TP_ERR_CAPABILITY ? TP_REASON_CAPABILITY
               : r.try == emit_after_defer   ? TP_REASON_ERROR
                                             : TP_REASON_MALFORMED);
    tp_turn_end(turn);
    close_runtime(runtime);
    assert_string_equal(tp_status_name(seen), tp_status_name(r.status));
    assert_int_equal(seen_fault.code, r.status);
    assert_string_equal(seen_fault.subject, r.subject);
    if (r.try != emit_after_defer) assert_int_equal(seen_fault.phase, r.phase);
  }
}

/* ---- completing ---- */

static void hit_end(void *ctx, const tp_phase_result *result) { (void)result, latch_hit(ctx); }

static tp_token token_of_handler; /* open */

static tp_status complete_kind(tp_fault *fault) {
  return tp_token_complete(token_of_handler,
                           &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DEFERRED}, fault);
}
static tp_status complete_nothing(tp_fault *fault) { return tp_token_complete(token_of_handler, NULL, fault); }
static tp_status complete_without_size(tp_fault *fault) {
  return tp_token_complete(token_of_handler, &(tp_outcome){.kind = TP_ANSWER_DONE}, fault);
}
static tp_status complete_why(tp_fault *fault) {
  return tp_token_complete(token_of_handler,
                           &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE, .why = 1}, fault);
}
static tp_status complete_unknown_why(tp_fault *fault) {
  return tp_token_complete(
      token_of_handler, &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_FAILED, .why = 99}, fault);
}
static tp_status complete_contributions(tp_fault *fault) {
  return tp_token_complete(
      token_of_handler,
      &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE, .contribution_count = 3}, fault);
}
static tp_status complete_replacements(tp_fault *fault) {
  return tp_token_complete(
      token_of_handler,
      &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE, .replacement_count = 2}, fault);
}
static tp_status complete_zero(tp_fault *fault) {
  return tp_token_complete((tp_token){0}, &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE},
                           fault);
}
static tp_status complete_as_tool(tp_fault *fault) {
  return tp_tool_complete(token_of_handler, false, tp_text_of("x"), fault);
}
static tp_status complete_as_model(tp_fault *fault) {
  return tp_model_complete(token_of_handler, &(tp_model_response){.struct_size = sizeof(tp_model_response)}, fault);
}
static tp_status fail_as_model(tp_fault *fault) {
  return tp_model_fail(token_of_handler, TP_ERR_MODEL, "m", false, fault);
}
static tp_status delta_as_model(tp_fault *fault) { return tp_model_delta(token_of_handler, tp_text_of("x"), fault); }
static tp_status delta_latin1(tp_fault *fault) {
  return tp_model_delta(token_of_handler, tp_text_of("caf\xe9 au lait"), fault);
}
static tp_status complete_as_history(tp_fault *fault) {
  return tp_history_complete(token_of_handler, TP_OK, NULL, fault);
}
static tp_status complete_history_status(tp_fault *fault) {
  return tp_history_complete(token_of_handler, (tp_status)12345, NULL, fault);
}

TEST(completions_say_what_they_refuse) {
  static const struct {
    tp_status (*try)(tp_fault *fault);
    tp_status status;
    const char *says;
  } table[] = {
      {complete_kind, TP_ERR_USAGE, "tp_outcome.kind is"},
      {complete_nothing, TP_ERR_USAGE, "needs a tp_outcome"},
      {complete_without_size, TP_ERR_VERSION, "set it to sizeof(tp_outcome)"},
      {complete_why, TP_ERR_USAGE, "with kind TP_ANSWER_FAILED only"},
      {complete_unknown_why, TP_ERR_USAGE, "tp_outcome.why is 99"},
      {complete_contributions, TP_ERR_USAGE, "tp_outcome.contributions is NULL, and contribution_count is 3"},
      {complete_replacements, TP_ERR_USAGE, "tp_outcome.replacements is NULL, and replacement_count is 2"},
      {complete_zero, TP_ERR_STALE, "the token is 0"},
      {complete_as_tool, TP_ERR_USAGE, "is of a handler: complete it with tp_token_complete()"},
      {complete_as_model, TP_ERR_USAGE, "is of a handler: complete it with tp_token_complete()"},
      {fail_as_model, TP_ERR_USAGE, "is of a handler: complete it with tp_token_complete()"},
      {delta_as_model, TP_ERR_USAGE, "is of a handler: complete it with tp_token_complete()"},
      {delta_latin1, TP_ERR_UTF8, "not UTF-8 at byte 3 of 12"},
      {complete_as_history, TP_ERR_USAGE, "is of a handler: complete it with tp_token_complete()"},
      {complete_history_status, TP_ERR_USAGE, "12345 is no tp_status"},
  };
  tp_runtime *runtime = open_runtime(NULL);
  latch deferred = LATCH, ended = LATCH;
  act deferring = {.defers = true, .deferred = &deferred};
  add_hooks(runtime, &(hook){.id = "s", .phase = CONTEXT, .ctx = &deferring}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  assert_int_equal(tp_phase_submit(turn, CONTEXT, NULL, hit_end, &ended, NULL), TP_OK);
  latch_wait(&deferred, 1);
  token_of_handler = deferring.token;
  for (size_t i = 0; i < COUNT(table); i++) {
    tp_fault fault = {0};
    assert_string_equal(tp_status_name(table[i].try(&fault)), tp_status_name(table[i].status));
    assert_int_equal(fault.code, table[i].status);
    if (!strstr(fault.message, table[i].says))
      fail_msg("case %zu: `%s` is not in `%s`", i, table[i].says, fault.message);
    assert_int_equal(table[i].try(NULL), table[i].status); /* the fault may be NULL */
    assert_true(tp_token_open(token_of_handler));
  }
  tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  tp_fault fault = {0};
  assert_int_equal(tp_token_complete(token_of_handler, &done, &fault), TP_OK);
  assert_int_equal(fault.code, 0); /* filled on failure only */
  assert_int_equal(tp_token_complete(token_of_handler, &done, &fault), TP_ERR_STALE);
  assert_non_null(strstr(fault.message, "was completed, timed out, cancelled or abandoned before"));
  assert_int_equal(tp_model_delta(token_of_handler, tp_text_of("x"), &fault), TP_ERR_STALE);
  latch_wait(&ended, 1);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- keys of a tool ---- */

typedef struct key_case {
  tp_tool_access access;
  const char *path;
  size_t times;
  tp_status status;
  const char *says;
} key_case;

static tp_status add_keys(void *ctx, tp_text arguments, tp_tool_keys *keys) {
  (void)arguments;
  key_case *k = ctx;
  for (size_t i = 0; i < k->times; i++) seen = tp_tool_keys_add(keys, k->access, tp_text_of(k->path), &seen_fault);
  return TP_OK;
}

static tp_answer answer_ok(void *ctx, tp_tool_run *run) { return (void)ctx, tp_tool_ok(run, tp_text_of("ok")); }

static tp_answer offer_tool(void *ctx, tp_call *call) {
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "t",
                        .description = "d",
                        .run = answer_ok,
                        .ctx = ctx,
                        .keys = add_keys,
                        .placement = TP_PLACEMENT_INLINE};
  const tp_tool *tools[] = {&tool};
  return tp_call_emit_tool_bundle(call, "b", tools, 1, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

TEST(keys_say_what_they_refuse) {
  static const key_case table[] = {
      {TP_TOOL_READ, "", 1, TP_ERR_USAGE, "the key, of 0 bytes, must be a path of 1 to 1024 bytes"},
      {TP_TOOL_READ, "a/", 1, TP_ERR_USAGE, "the key, of 2 bytes"},
      {TP_TOOL_WRITE, "a/../b", 1, TP_ERR_USAGE, "without empty names, `.`, `..`"},
      {TP_TOOL_WRITE, "caf\xe9", 1, TP_ERR_USAGE, "of UTF-8"},
      {(tp_tool_access)7, "a", 1, TP_ERR_USAGE, "is 7: it must be TP_TOOL_READ or TP_TOOL_WRITE"},
      {TP_TOOL_READ, "a", 65, TP_ERR_FULL, "has 64 keys, which is the most"},
  };
  for (size_t i = 0; i < COUNT(table); i++) {
    key_case k = table[i];
    tp_runtime *runtime = open_runtime(NULL);
    add_hooks(runtime, &(hook){.id = "s", .phase = TOOLS_PHASE, .run = offer_tool, .ctx = &k}, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    (void)run_phase(turn, TOOLS_PHASE, NULL);
    tp_tool_result result;
    tp_tool_call call = {.id = TEXT("1"), .name = TEXT("t"), .arguments = TEXT("\x80")};
    assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
    assert_int_equal(result.kind, TP_TOOL_HANDLER_ERROR);
    tp_turn_end(turn);
    close_runtime(runtime);
    assert_string_equal(tp_status_name(seen), tp_status_name(k.status));
    if (!strstr(seen_fault.message, k.says)) fail_msg("case %zu: `%s` is not in `%s`", i, k.says, seen_fault.message);
  }
}
