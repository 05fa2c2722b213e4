/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the output of a hook's program: judged in each protocol, with any exit code; the engine accepts the
 * resulting answer. The first byte chooses the protocol, the exit code and whether the hook rewrites. */
#include "domains/declared/hook_answer.h"
#include "domains/declared/hook_protocol.h"
#include "tests/fuzz/must.h"

static const struct {
  tp__protocol protocol;
  const char *event;
} events[] = {{TP__PROTOCOL_NONE, "tool.pre"},           {TP__PROTOCOL_CLAUDE_CODE, "PreToolUse"},
              {TP__PROTOCOL_CLAUDE_CODE, "PostToolUse"}, {TP__PROTOCOL_CLAUDE_CODE, "Stop"},
              {TP__PROTOCOL_GEMINI, "BeforeTool"},       {TP__PROTOCOL_GEMINI, "AfterTool"}};
enum { EVENTS = sizeof events / sizeof events[0] };

static void must_be_an_answer(const tp_outcome *outcome) {
  MUST(outcome->kind >= TP_ANSWER_DONE && outcome->kind <= TP_ANSWER_FAILED && outcome->kind != TP_ANSWER_DEFERRED);
  MUST(!outcome->reason || tp_utf8_valid(tp_text_of(outcome->reason), NULL));
  MUST(outcome->contribution_count <= TP__JUDGED_MAX);
  MUST(outcome->why == 0 || outcome->kind == TP_ANSWER_FAILED);
  for (size_t i = 0; i < outcome->contribution_count; i++) {
    const tp_contribution *contribution = outcome->contributions[i];
    if (contribution->kind == TP_CONTRIBUTION_REMINDER) MUST(tp_utf8_valid(contribution->text, NULL));
  }
  for (size_t i = 0; i < outcome->replacement_count; i++) {
    const tp_field *field = &outcome->replacements[i];
    if (field->kind == TP_FIELD_KIND_VALUE) MUST(tp_value_check(field->text, NULL) == TP_OK);
    else MUST(tp_utf8_valid(field->text, NULL));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tp__judged judged;
  unsigned choice = size > 0 ? data[0] : 0;
  size_t at = choice % EVENTS;
  tp_text output = {(const char *)data + (size > 0), size - (size > 0)};
  bool is_behind = strstr(events[at].event, "Post") || strstr(events[at].event, "After");
  tp_phase row = {.struct_size = sizeof row,
                  .name = "tool.pre",
                  .stop = !is_behind,
                  .ask = !is_behind,
                  .kinds = TP_CAPABILITY_EMIT_REMINDER | TP_CAPABILITY_EMIT_SIGNAL};
  static tp__hook hook;
  hook = (tp__hook){.id = "h",
                    .event = events[at].event,
                    .row = &row,
                    .phase = is_behind ? TP_PHASE_TOOL_RESULT : TP_PHASE_TOOL_REWRITE,
                    .is_blocking = true,
                    .rewrites = (choice / EVENTS) & 1,
                    .protocol = events[at].protocol};
  if (hook.protocol) hook.protocol_event = tp__protocol_event_find(hook.protocol, hook.event);
  const tp__asked asked = {.tool = tp_text_of("shell"), .arguments = {"\x81\xa1n\x01", 4}};
  const tp_process_result result = {.struct_size = sizeof result,
                                    .end = TP_PROCESS_EXITED,
                                    .exit_code = (int32_t)(choice / EVENTS / 2 % 3),
                                    .output = output,
                                    .errors = output};
  tp__hook_judge(&hook, &asked, &result, &judged);
  must_be_an_answer(&judged.outcome);
  tp__judged_fini(&judged);
  return 0;
}
