/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/turn/turn.h"

const char *tp_event_name(tp_event_kind kind) {
  static const char *const names[] = {[TP_EVENT_TURN_BEGIN] = "turn_begin",
                                      [TP_EVENT_PHASE_BEGIN] = "phase_begin",
                                      [TP_EVENT_RUN] = "run",
                                      [TP_EVENT_PHASE_END] = "phase_end",
                                      [TP_EVENT_MODEL_BEGIN] = "model_begin",
                                      [TP_EVENT_MODEL_DELTA] = "model_delta",
                                      [TP_EVENT_MODEL_END] = "model_end",
                                      [TP_EVENT_TOOL_BEGIN] = "tool_begin",
                                      [TP_EVENT_TOOL_END] = "tool_end",
                                      [TP_EVENT_CONTEXT] = "context",
                                      [TP_EVENT_REMINDER] = "reminder",
                                      [TP_EVENT_DIAGNOSTIC] = "diagnostic",
                                      [TP_EVENT_TURN_END] = "turn_end",
                                      [TP_EVENT_AUDIT] = "audit",
                                      [TP_EVENT_QUESTION] = "question",
                                      [TP_EVENT_LOST] = "lost",
                                      [TP_EVENT_JOB] = "job",
                                      [TP_EVENT_THINKING] = "thinking",
                                      [TP_EVENT_MESSAGE] = "message",
                                      [TP_EVENT_TOOL_PROGRESS] = "tool_progress"};
  return TP__NAME_AT(names, kind, "unknown");
}

bool tp__turn_wants(const tp_turn *turn, tp_event_kind kind) {
  for (int i = 0; i < 2 && turn->listeners[i]; i++)
    if (turn->listeners[i]->kinds >> kind & 1) return true;
  return false;
}

bool tp__turn_takes_pieces_anywhere(const tp_turn *turn) {
  static const uint64_t pieces = UINT64_C(1) << TP_EVENT_MODEL_DELTA | UINT64_C(1) << TP_EVENT_THINKING;
  uint64_t kinds = 0;
  for (int i = 0; i < 2 && turn->listeners[i]; i++) kinds |= turn->listeners[i]->kinds_on_owner;
  return !(kinds & pieces);
}

void tp__turn_notify(const tp_turn *turn, const tp_event *event, tp__listeners_of which) {
  tp__listener_set_notify(turn->listeners[0], event, which);
  if (turn->listeners[1]) tp__listener_set_notify(turn->listeners[1], event, which);
}

/* Whether an event is for people who watch the runtime: then its texts are redacted. All other events carry content of
 * the turn. */
static bool is_safe(tp_event_kind kind) {
  return kind == TP_EVENT_DIAGNOSTIC || kind == TP_EVENT_AUDIT || kind == TP_EVENT_RUN || kind == TP_EVENT_PHASE_END;
}

static void notify_redacted(const tp_turn *turn, const tp_event *event, tp__listeners_of which) {
  char text[TP__REDACT_SIZE], key[TP__REDACT_SIZE];
  const tp__redactor *by = tp__runtime_redactor(turn->core.runtime);
  tp_event shown = *event;
  tp_contribution said;
  shown.text = tp__redact(by, TP_REDACT_EVENT, event->text, text, sizeof text);
  if (event->contribution) { /* a diagnostic or an audit has no other texts */
    said = *event->contribution;
    said.text = shown.text;
    said.key = tp__redact(by, TP_REDACT_EVENT, said.key, key, sizeof key);
    shown.contribution = &said;
  }
  tp__turn_notify(turn, &shown, which);
}

void tp__event_to(tp_turn *turn, tp_event *event, tp__listeners_of which) {
  if (!tp__turn_has_listener(turn)) return;
  if (!event->struct_size) {
    event->struct_size = sizeof *event;
    event->sequence = ++turn->event_sequence;
    event->time_ns = tp__now_ns();
    event->unix_ms = tp__unix_ms();
    event->ids = turn->core.ids;
    event->id_count = TP_ID_COUNT;
    event->turn = &turn->core;
  }
  if (tp__runtime_redactor(turn->core.runtime)->redact && is_safe(event->kind)) notify_redacted(turn, event, which);
  else tp__turn_notify(turn, event, which);
}

static void each_of(tp_turn *turn, const tp_phase_result *result, uint32_t phase, uint32_t kind, tp_event_kind event) {
  if (!result->merged) return;
  const tp__merged_list *list = &result->merged->lists[kind];
  for (size_t i = 0; i < list->count; i++) {
    const tp_merged_entry *merged = &list->items[i].entry;
    tp__event(turn, &(tp_event){.kind = event,
                                .phase = phase,
                                .visibility = list->items[i].visibility,
                                .contribution = merged->contribution,
                                .subscription = merged->subscription,
                                .text = merged->contribution->text});
  }
}

void tp__event_contributions(tp_turn *turn, const tp_phase_result *result, uint32_t phase) {
  each_of(turn, result, phase, TP_CONTRIBUTION_PROMPT_CONTEXT, TP_EVENT_CONTEXT);
  each_of(turn, result, phase, TP_CONTRIBUTION_REMINDER, TP_EVENT_REMINDER);
  each_of(turn, result, phase, TP_CONTRIBUTION_AUDIT, TP_EVENT_AUDIT);
  each_of(turn, result, phase, TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC, TP_EVENT_DIAGNOSTIC);
  each_of(turn, result, phase, TP_CONTRIBUTION_DIAGNOSTIC, TP_EVENT_DIAGNOSTIC);
}
