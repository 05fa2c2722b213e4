/* SPDX-License-Identifier: Apache-2.0
 *
 * The short forms of tp_call_emit(), with a sink of the test. */
#include "tests/support/test.h"
#include "runtime/base/base.h"
#include "turnphase/tool.h"

static tp_contribution seen;
static void *seen_call;
static tp_fault *seen_fault, given_fault;
static int call_stand_in;

tp_status tp_call_emit(tp_call *call, const tp_contribution *contribution, tp_fault *fault) {
  seen_fault = fault;
  seen_call = call;
  seen = *contribution;
  return TP_ERR_TOO_LARGE; /* recognisable: each form returns what the sink says */
}

static tp_call *call(void) { return (tp_call *)(void *)&call_stand_in; }

#define assert_text(text, string) assert_true(tp_text_is((text), (string)))

static void expect(tp_status status, uint32_t kind) {
  assert_int_equal(status, TP_ERR_TOO_LARGE);
  assert_ptr_equal(seen_call, &call_stand_in);
  assert_ptr_equal(seen_fault, &given_fault);
  assert_int_equal(seen.kind, kind);
}

TEST(policy_and_context_and_section_fill_their_fields) {
  expect(tp_call_emit_policy(call(), "memory", "read", "allow", -3, &given_fault), TP_CONTRIBUTION_POLICY);
  assert_text(seen.domain, "memory");
  assert_text(seen.key, "read");
  assert_text(seen.text, "allow");
  assert_int_equal(seen.weight, -3);
  expect(tp_call_emit_prompt_context(call(), "D1:3", "likes tea", 7, &given_fault), TP_CONTRIBUTION_PROMPT_CONTEXT);
  assert_text(seen.key, "D1:3");
  assert_text(seen.text, "likes tea");
  assert_int_equal(seen.weight, 7);
  expect(tp_call_emit_prompt_section(call(), "rules", "The rules", "Be brief.", 1, &given_fault),
         TP_CONTRIBUTION_PROMPT_SECTION);
  assert_text(seen.key, "rules");
  assert_text(seen.title, "The rules");
  assert_text(seen.text, "Be brief.");
  assert_int_equal(seen.weight, 1);
}

TEST(tool_bundle_passes_the_callers_tools) {
  const tp_tool tool = {.struct_size = sizeof tool};
  const tp_tool *tools[] = {&tool, &tool};
  expect(tp_call_emit_tool_bundle(call(), "memory", tools, 2, &given_fault), TP_CONTRIBUTION_TOOL_BUNDLE);
  assert_text(seen.key, "memory");
  assert_ptr_equal(seen.tools, tools);
  assert_int_equal(seen.tool_count, 2);
}

TEST(more_tools_than_a_bundle_can_count_stay_too_many) {
  expect(tp_call_emit_tool_bundle(call(), "memory", NULL, (size_t)UINT32_MAX + 2, &given_fault),
         TP_CONTRIBUTION_TOOL_BUNDLE);
  assert_int_equal(seen.tool_count, UINT32_MAX);
}

TEST(signal_reminder_audit_and_diagnostic_fill_their_fields) {
  expect(tp_call_emit_signal(call(), "ability_guard", "ABILITY_DENIED", TP_SEVERITY_ERROR, "no", &given_fault),
         TP_CONTRIBUTION_SIGNAL);
  assert_text(seen.domain, "ability_guard");
  assert_text(seen.key, "ABILITY_DENIED");
  assert_text(seen.text, "no");
  assert_int_equal(seen.severity, TP_SEVERITY_ERROR);
  expect(tp_call_emit_reminder(call(), "look up", &given_fault), TP_CONTRIBUTION_REMINDER);
  assert_text(seen.text, "look up");
  expect(tp_call_emit_audit(call(), "login", "done", &given_fault), TP_CONTRIBUTION_AUDIT);
  assert_text(seen.key, "login");
  assert_text(seen.text, "done");
  assert_int_equal(seen.severity, TP_SEVERITY_INFO);
  expect(tp_call_emit_diagnostic(call(), TP_SEVERITY_WARNING, "slow", "ran long", &given_fault),
         TP_CONTRIBUTION_DIAGNOSTIC);
  assert_text(seen.key, "slow");
  assert_text(seen.text, "ran long");
  assert_int_equal(seen.severity, TP_SEVERITY_WARNING);
}

TEST(background_job_names_handler_key_and_payload) {
  expect(tp_call_emit_background_job(call(), "extract", "turn-1", (tp_text){"\x01", 1}, &given_fault),
         TP_CONTRIBUTION_BACKGROUND_JOB);
  assert_text(seen.domain, "extract");
  assert_text(seen.key, "turn-1");
  assert_text(seen.value, "\x01");
  assert_int_equal(seen.text.size, 0);
}

TEST(null_strings_are_missing_fields) {
  expect(tp_call_emit_policy(call(), NULL, NULL, NULL, 0, &given_fault), TP_CONTRIBUTION_POLICY);
  assert_int_equal(seen.domain.size + seen.key.size + seen.text.size, 0);
  expect(tp_call_emit_reminder(call(), NULL, &given_fault), TP_CONTRIBUTION_REMINDER);
  assert_int_equal(seen.text.size, 0);
}
