/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tools/tools.h"
#include "phases/drive/running.h"

#include "phases/drive/steps.h"
#include "phases/tools/tool_call.h"
#include "runtime/exec/exec.h"

enum { PAUSE_MS = 250, OPEN_STEPS_MAX = 32 };

/** The steps of a record: first those that have ended, from the drive, then the open ones. */
typedef struct open_steps {
  const tp__drive *drive;
  tp_turn_step steps[OPEN_STEPS_MAX];
  size_t count;
  uint64_t dropped; /* that did not fit */
} open_steps;

/* ---- what is open ---- */

static void add_open(open_steps *open, const tp_turn_step *step) {
  if (open->count == OPEN_STEPS_MAX) {
    open->dropped++;
    return;
  }
  open->steps[open->count] = *step;
  open->steps[open->count++].struct_size = sizeof *step;
}

static void add_host_call(open_steps *open) {
  const tp__drive *d = open->drive;
  bool loads = d->step == TP__STEP_LOAD, appends = d->step == TP__STEP_COMMIT;
  if (d->host_call && (loads || appends))
    add_open(open, &(tp_turn_step){.started_ns = d->waits_since_ns, .kind = loads ? TP_STEP_LOAD : TP_STEP_APPEND});
}

/* A request that was not taken from its inbox has no start time yet: it is shown as just begun. */
static void add_request(open_steps *open, tp_text model, int64_t now_ns) {
  const tp__drive *d = open->drive;
  if (!d->model_call) return;
  int64_t started_ns = (int64_t)tp__a64_load_acquire(&d->model_call->base.started_ns);
  add_open(open, &(tp_turn_step){.started_ns = started_ns ? started_ns : now_ns,
                                 .kind = TP_STEP_MODEL,
                                 .round = d->iterations + 1,
                                 .name = model});
}

/* Adds functions that were called, and questions. Everything else that a call waits for is a phase, whose entry is
 * open. */
static void add_calls(open_steps *open, int64_t now_ns) {
  const tp__drive *d = open->drive;
  const tp__dispatch *dispatch = d->turn->dispatch;
  for (const tp__tool_slot *slot = dispatch ? dispatch->pending : NULL; slot; slot = slot->next) {
    bool is_asked = slot->ask && slot->ask->question, is_called = slot->run && slot->started_ns;
    if (slot->settled || !slot->tool || (!is_asked && !is_called)) continue;
    add_open(open, &(tp_turn_step){.started_ns = is_called ? slot->started_ns : now_ns,
                                   .kind = is_called ? TP_STEP_TOOL : TP_STEP_QUESTION,
                                   .round = d->iterations,
                                   .place = slot->index,
                                   .name = slot->tool->name});
  }
}

static bool show_step(const void *source, size_t index, tp_turn_step *step) {
  const open_steps *open = source;
  if (index < open->drive->step_count) return tp__drive_show_step(open->drive, index, step);
  index -= open->drive->step_count;
  return index < open->count && tp__shown_fill(step, &open->steps[index], sizeof *step);
}

/* ---- the record ---- */

tp_turn_record tp__drive_record(const tp__drive *d, int64_t ended_ns) {
  int64_t offset_ns = tp__unix_offset_ns();
  return (tp_turn_record){.struct_size = sizeof(tp_turn_record),
                          .ids = d->turn->core.ids,
                          .id_count = TP_ID_COUNT,
                          .started_ns = d->started_ns,
                          .ended_ns = ended_ns,
                          .started_unix_ms = d->started_ns ? (d->started_ns + offset_ns) / TP__NS_PER_MS : 0,
                          .ended_unix_ms = (ended_ns + offset_ns) / TP__NS_PER_MS,
                          .load_ns = d->load_ns,
                          .model_ns = d->model_ns,
                          .tools_ns = d->tools_ns,
                          .append_ns = d->append_ns,
                          .iterations = d->iterations,
                          .tool_calls = d->tool_calls,
                          .input_tokens = d->input_tokens,
                          .output_tokens = d->output_tokens,
                          .cost_micros = d->cost_micros,
                          .step_count = d->step_count,
                          .step = tp__drive_show_step,
                          .step_source = d,
                          .steps_dropped = d->steps_dropped,
                          .parent_turn = tp__turn_parent_id(&d->turn->core)};
}

static void give(tp__drive *d, int64_t now_ns) {
  tp_runtime *runtime = d->turn->core.runtime;
  char buffer[TP__REDACT_SIZE];
  tp_text model = d->model_call ? tp__drive_shown_model(d) : (tp_text){NULL, 0};
  open_steps open = {.drive = d};
  tp__turn_record_entries(&d->turn->core);
  add_host_call(&open);
  add_request(&open, tp__redact(tp__runtime_redactor(runtime), TP_REDACT_RECORD, model, buffer, sizeof buffer), now_ns);
  add_calls(&open, now_ns);
  tp_turn_record record = tp__drive_record(d, now_ns);
  record.number = d->turn->core.number;
  record.state = TP_STATE_RUNNING;
  record.step_count += open.count;
  record.steps_dropped += open.dropped;
  record.step = show_step;
  record.step_source = &open;
  tp__turn_record_give(runtime, &record);
  d->was_running = true;
}

/* ---- when ---- */

static bool is_at_once(const tp__drive *d) {
  return tp__runtime_options(d->turn->core.runtime)->durability == TP_DURABILITY_SYNC;
}

static void fired(tp__timer_entry *timer, int64_t now_ns) {
  tp__drive *d = TP__CONTAINER(timer, tp__drive, running_timer);
  TP__OWNED(&d->turn->core.strand);
  TP__ASSERT(d->shows_running && d->begun);
  d->shows_again_ns = is_at_once(d) ? now_ns : now_ns + PAUSE_MS * TP__NS_PER_MS;
  give(d, now_ns);
}

void tp__running_arm(tp__drive *d) {
  TP__ASSERT(d->shows_running && d->shows_again_ns > 0);
  tp__strand_timer_add(&d->turn->core.strand, &d->running_timer, d->shows_again_ns);
}

void tp__running_begin(tp__drive *d) {
  const tp_runtime *runtime = d->turn->core.runtime;
  const tp_store *store = tp__runtime_store(runtime);
  bool is_durable = tp__runtime_options(runtime)->durability > TP_DURABILITY_MEMORY;
  TP__ASSERT(d->begun && !d->shows_running);
  if (!is_durable || !store->turn_record || !store->turn_running) return;
  tp__list_init(&d->running_timer.link);
  d->running_timer.fire = fired;
  d->shows_running = true;
  d->shows_again_ns = is_at_once(d) ? d->started_ns : d->started_ns + PAUSE_MS * TP__NS_PER_MS;
  tp__running_arm(d);
}

void tp__running_end(tp__drive *d) {
  if (!d->shows_running) return;
  tp__strand_timer_remove(&d->running_timer);
  d->shows_running = false;
}

void tp__drive_note_start(tp__drive *d) { tp__running_changed(d); }
