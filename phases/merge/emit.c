/* SPDX-License-Identifier: Apache-2.0
 *
 * emit.c: the short forms of tp_call_emit(). Each fills a contribution. A NULL string is a missing field; the sink
 * refuses a contribution without a field that its kind requires. */
#include "turnphase/handler.h"

tp_status tp_call_emit_policy(tp_call *call, const char *domain, const char *key, const char *value, int32_t weight,
                              tp_fault *fault) {
  tp_contribution contribution = {
      .struct_size = sizeof(tp_contribution),
      .kind = TP_CONTRIBUTION_POLICY,
      .domain = tp_text_of(domain),
      .key = tp_text_of(key),
      .text = tp_text_of(value),
      .weight = weight,
  };
  return tp_call_emit(call, &contribution, fault);
}

tp_status tp_call_emit_prompt_context(tp_call *call, const char *id, const char *text, int32_t weight,
                                      tp_fault *fault) {
  tp_contribution contribution = {
      .struct_size = sizeof(tp_contribution),
      .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
      .key = tp_text_of(id),
      .text = tp_text_of(text),
      .weight = weight,
  };
  return tp_call_emit(call, &contribution, fault);
}

tp_status tp_call_emit_prompt_section(tp_call *call, const char *id, const char *title, const char *text,
                                      int32_t weight, tp_fault *fault) {
  tp_contribution contribution = {
      .struct_size = sizeof(tp_contribution),
      .kind = TP_CONTRIBUTION_PROMPT_SECTION,
      .key = tp_text_of(id),
      .title = tp_text_of(title),
      .text = tp_text_of(text),
      .weight = weight,
  };
  return tp_call_emit(call, &contribution, fault);
}

tp_status tp_call_emit_tool_bundle(tp_call *call, const char *id, const struct tp_tool *const *tools, size_t count,
                                   tp_fault *fault) {
  tp_contribution contribution = {
      .struct_size = sizeof(tp_contribution),
      .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
      .key = tp_text_of(id),
      .tools = tools,
      .tool_count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX, /* as many are too many in any case */
  };
  return tp_call_emit(call, &contribution, fault);
}

tp_status tp_call_emit_signal(tp_call *call, const char *signal_kind, const char *code, tp_severity severity,
                              const char *text, tp_fault *fault) {
  tp_contribution contribution = {
      .struct_size = sizeof(tp_contribution),
      .kind = TP_CONTRIBUTION_SIGNAL,
      .domain = tp_text_of(signal_kind),
      .key = tp_text_of(code),
      .severity = severity,
      .text = tp_text_of(text),
  };
  return tp_call_emit(call, &contribution, fault);
}

tp_status tp_call_emit_reminder(tp_call *call, const char *text, tp_fault *fault) {
  tp_contribution contribution = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = tp_text_of(text)};
  return tp_call_emit(call, &contribution, fault);
}

tp_status tp_call_emit_audit(tp_call *call, const char *code, const char *text, tp_fault *fault) {
  tp_contribution contribution = {.struct_size = sizeof(tp_contribution),
                                  .kind = TP_CONTRIBUTION_AUDIT,
                                  .key = tp_text_of(code),
                                  .text = tp_text_of(text)};
  return tp_call_emit(call, &contribution, fault);
}

tp_status tp_call_emit_diagnostic(tp_call *call, tp_severity severity, const char *code, const char *text,
                                  tp_fault *fault) {
  tp_contribution contribution = {
      .struct_size = sizeof(tp_contribution),
      .kind = TP_CONTRIBUTION_DIAGNOSTIC,
      .severity = severity,
      .key = tp_text_of(code),
      .text = tp_text_of(text),
  };
  return tp_call_emit(call, &contribution, fault);
}

tp_status tp_call_emit_background_job(tp_call *call, const char *handler, const char *idempotency_key, tp_text payload,
                                      tp_fault *fault) {
  tp_contribution contribution = {
      .struct_size = sizeof(tp_contribution),
      .kind = TP_CONTRIBUTION_BACKGROUND_JOB,
      .domain = tp_text_of(handler),
      .key = tp_text_of(idempotency_key),
      .value = payload,
  };
  return tp_call_emit(call, &contribution, fault);
}
