/* SPDX-License-Identifier: Apache-2.0
 *
 * step_times.c: when a driven turn waited for its history, its model and its tools, for its record. The data is in the
 * turn's arena. Names must live as long as the turn. */
#include "phases/tools/tools.h"
#include "phases/drive/drive.h"

enum { STEPS_FIRST = 8, STEPS_MAX = 1024 };

static bool reserve_step(tp__drive *d) {
  if (d->step_count < d->step_capacity) return true;
  if (d->step_count == STEPS_MAX) return false;
  uint32_t capacity = d->step_capacity ? 2 * d->step_capacity : STEPS_FIRST;
  tp_turn_step *steps = tp__arena_alloc(&d->arena, capacity * sizeof *steps);
  if (!steps) return false;
  if (d->step_count) memcpy(steps, d->steps, d->step_count * sizeof *steps);
  d->steps = steps;
  d->step_capacity = capacity;
  return true;
}

/* A model may call anything a tool. */
static tp_text redact_name(tp__drive *d, tp_text name) {
  char buffer[TP__REDACT_SIZE];
  const tp__redactor *redactor = tp__runtime_redactor(d->session->runtime);
  tp_text copy;
  if (!redactor->redact) return name;
  tp_text redacted = tp__redact(redactor, TP_REDACT_RECORD, name, buffer, sizeof buffer);
  return tp__arena_text(&d->arena, redacted, &copy) ? copy : (tp_text){NULL, 0};
}

static void add_turn_step(tp__drive *d, const tp_turn_step *step) {
  if (!tp__runtime_store(d->session->runtime)->turn_record) return; /* there is no record to put it in */
  if (!reserve_step(d)) {
    d->steps_dropped++;
    return;
  }
  d->steps[d->step_count] = *step;
  d->steps[d->step_count++].name = redact_name(d, step->name);
}

void tp__drive_note_step(tp__drive *d, tp_step_kind kind, int64_t started_ns, int64_t ended_ns, tp_status outcome) {
  add_turn_step(d, &(tp_turn_step){.struct_size = sizeof(tp_turn_step),
                                   .started_ns = started_ns,
                                   .ended_ns = ended_ns,
                                   .kind = kind,
                                   .outcome = outcome});
}

void tp__drive_note_request(tp__drive *d, tp_text model, int64_t started_ns, int64_t ended_ns, tp_status outcome) {
  add_turn_step(d, &(tp_turn_step){.struct_size = sizeof(tp_turn_step),
                                   .started_ns = started_ns,
                                   .ended_ns = ended_ns,
                                   .kind = TP_STEP_MODEL,
                                   .round = d->iterations + 1,
                                   .outcome = outcome,
                                   .name = model});
}

void tp__drive_note_call(tp__drive *d, const tp_tool_result *result, uint32_t place, int64_t started_ns,
                         int64_t settled_ns, uint64_t entry_id) {
  int64_t begin_ns = result->started ? started_ns : settled_ns;
  add_turn_step(d, &(tp_turn_step){.struct_size = sizeof(tp_turn_step),
                                   .started_ns = begin_ns,
                                   .ended_ns = begin_ns + (result->started ? result->duration_ns : 0),
                                   .kind = TP_STEP_TOOL,
                                   .round = d->iterations,
                                   .place = place,
                                   .outcome = (int32_t)result->kind,
                                   .name = result->name,
                                   .entry_id = entry_id});
}

bool tp__drive_show_step(const void *source, size_t index, tp_turn_step *step) {
  const tp__drive *d = source;
  return index < d->step_count && tp__shown_fill(step, &d->steps[index], sizeof *step);
}
