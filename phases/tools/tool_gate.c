/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_gate.c: the phases before and after the run of a tool: tool.create, tool.rewrite, the schema and tool.pre before
 * it, tool.result and tool.post after it. */
#include "phases/merge/out.h"
#include "phases/model/parts.h"
#include "phases/merge/render.h"
#include "phases/merge/schema.h"
#include "phases/tools/tool_call.h"

enum { SUMMARY_BYTES = 512 }; /* of a result */
/* The size of the summary of arguments, and of one text in it. */
enum { INPUT_BYTES = 16384, SUMMARY_TEXT_BYTES = 1024 };
enum { ARGUMENT_BYTES_FREE = 64 }; /* For longer arguments, the time of the check is not counted as time of the tool. */

static void put_gate_text(tp__tool_slot *slot, uint32_t *count, uint32_t id, tp_text text) {
  slot->gate->fields[(*count)++] = (tp_field){.id = id, .kind = TP_FIELD_KIND_TEXT, .text = text};
}

/* Of a turn that was begun for a task. */
static void put_task_key(tp__tool_slot *slot, uint32_t *count) {
  const tp__task_view *task = slot->dispatch->turn->task;
  if (task && task->key.size) put_gate_text(slot, count, TP_FIELD_TASK_KEY, task->key);
}

static void put_arguments(tp__tool_slot *slot, uint32_t *count) {
  const tp_tool_call *call = tp__toolcall_of(slot);
  slot->gate->fields[(*count)++] = (tp_field){.id = TP_FIELD_ARGUMENTS,
                                              .kind = call->malformed ? TP_FIELD_KIND_TEXT : TP_FIELD_KIND_VALUE,
                                              .text = call->arguments};
}

static void put_call_id(tp__tool_slot *slot, uint32_t *count) {
  put_gate_text(slot, count, TP_FIELD_CALL_ID, tp__toolcall_result(slot)->call_id);
}

/* Value and parts of a result, if it has them. */
static void put_rest(tp__tool_slot *slot, uint32_t *count, tp_text value, tp_text parts) {
  tp_field *fields = slot->gate->fields;
  if (value.size > 0)
    fields[(*count)++] = (tp_field){.id = TP_FIELD_RESULT_VALUE, .kind = TP_FIELD_KIND_VALUE, .text = value};
  if (parts.size > 0)
    fields[(*count)++] = (tp_field){.id = TP_FIELD_RESULT_PARTS, .kind = TP_FIELD_KIND_VALUE, .text = parts};
  TP__ASSERT(*count <= TP__TOOL_FIELDS_MAX);
}

static void put_int(tp__tool_slot *slot, uint32_t *count, uint32_t id, int64_t number) {
  slot->gate->fields[(*count)++] = (tp_field){.id = id, .kind = TP_FIELD_KIND_INT, .number = number};
}

static void begin_phase(tp__tool_slot *slot, uint32_t phase, uint32_t field_count, bool ignores_cancel,
                        void (*on_end)(tp__phase_run *run)) {
  slot->dispatch->stale = true;
  slot->gate->phase = (tp__phase_run){.turn = slot->dispatch->turn,
                                      .phase = phase,
                                      .ignores_cancel = ignores_cancel,
                                      .fields = slot->gate->fields,
                                      .field_count = field_count,
                                      .on_end = on_end,
                                      .ctx = slot};
  tp__phase_begin(&slot->gate->phase);
}

/* A phase has ended, some time after it began. */
static tp__tool_slot *ended_of(tp__phase_run *run) {
  tp__tool_slot *slot = run->ctx;
  slot->dispatch->stale = true;
  return slot;
}

static void take_reminders(tp__tool_slot *slot, const tp_merged *merged) {
  tp__dispatch *d = slot->dispatch;
  for (size_t i = 0; d->remind && i < tp_merged_count(merged, TP_CONTRIBUTION_REMINDER); i++) {
    const tp_merged_entry *entry = tp_merged_get(merged, TP_CONTRIBUTION_REMINDER, i);
    d->remind(d->turn, entry->subscription, entry->contribution->text, false);
  }
}

/* ---- what the gates say ---- */

/* The signals of the gates are added to the call's result. Without memory for them, they are lost. */
static void take_signals(tp__tool_slot *slot, const char *phase, const tp_merged *merged) {
  tp__arena *texts = &slot->dispatch->texts;
  tp_text *signals = &slot->gate->signals, more;
  if (!merged || merged->lists[TP_CONTRIBUTION_SIGNAL].count == 0) return;
  if (tp__render_signals(texts, phase, &merged->lists[TP_CONTRIBUTION_SIGNAL], &more) != TP_OK) return;
  if (signals->size > 0)
    more = tp__arena_printf(texts, "%.*s\n%.*s", (int)signals->size, signals->data, (int)more.size, more.data);
  if (more.data) *signals = more;
}

/* @return whether the call goes on; if not, it was stopped. */
static bool judge_gate(tp__tool_slot *slot, const tp__phase_run *run, const char *phase) {
  const tp_phase_result *result = &run->result;
  const char *by = result->subscription ? result->subscription : phase;
  if (tp__toolcall_stopped(slot)) return false; /* the outcome of the gates is then not their verdict */
  if (result->outcome == TP_ERR_CANCELLED)
    tp__toolcall_stop(slot, TP_TOOL_CANCELLED, tp__toolcall_unanswered(TP_TOOL_CANCELLED));
  else if (run->status != TP_OK)
    tp__toolcall_deny(slot, run->phase, by, tp_text_of(tp_status_text(run->status)), false);
  else if (result->outcome != TP_OK) tp__toolcall_deny(slot, run->phase, by, result->reason, true);
  else return result->verdict != TP_VERDICT_ASK || tp__toolcall_ask(slot, by, run->phase, result->reason);
  return false;
}

/* A gate has ended. Its contributions are freed after the call was stopped, or before the call goes on. */
static void gate_ended(tp__phase_run *run, const char *phase,
                       bool (*take)(tp__tool_slot *slot, const tp_merged *merged), void (*next)(tp__tool_slot *slot)) {
  tp__tool_slot *slot = ended_of(run);
  tp__dispatch *d = slot->dispatch;
  d->open++;
  take_reminders(slot, run->result.merged);
  take_signals(slot, phase, run->result.merged);
  bool passed = judge_gate(slot, run, phase) && (!take || take(slot, run->result.merged));
  tp__phase_let_go(&run->result);
  if (passed) next(slot);
  tp__toolcall_unref(d);
}

static void write_arguments(tp__out *out, const void *ctx) {
  tp__out_json_summary(out, ((const tp_tool_call *)ctx)->arguments, SUMMARY_TEXT_BYTES);
}

/* The arguments as JSON. Long texts are shortened to head and tail, so that no long argument hides another one. Empty
 * without memory. Written once for the arguments of a call, and again for arguments that replace them. */
static tp_text input_summary(tp__tool_slot *slot) {
  const tp_tool_call *call = tp__toolcall_of(slot);
  tp__tool_gate *gate = slot->gate;
  if (gate->summarized == call) return gate->summary;
  tp_text text = call->arguments;
  if (!call->malformed && tp__out_twice(&slot->dispatch->texts, write_arguments, call, &text) != TP_OK)
    return (tp_text){NULL, 0};
  gate->summarized = call;
  return gate->summary = (tp_text){text.data, tp__utf8_cut(text, INPUT_BYTES)};
}

/* ---- tool.pre ---- */

static void pre_ended(tp__phase_run *run) {
  ((tp__tool_slot *)run->ctx)->pre_entry_id = tp__phase_entry_id(&run->result);
  gate_ended(run, "tool.pre", NULL, tp__toolcall_permit);
}

/* ---- the schema ---- */

/* @return whether the arguments are a map that fits the schema; if not, the call was stopped. */
static bool arguments_fit(tp__tool_slot *slot) {
  char message[TP__SCHEMA_MESSAGE_SIZE];
  tp_text arguments = tp__toolcall_of(slot)->arguments;
  const tp__schema *schema;
  slot->dispatch->stale |= arguments.size > ARGUMENT_BYTES_FREE;
  if (tp__tool_schema(slot->dispatch->turn->toolset, slot->tool, &schema) != TP_OK) {
    tp__toolcall_stop(slot, TP_TOOL_SHED, tp__toolcall_unanswered(TP_TOOL_SHED));
    return false;
  }
  if (tp__schema_validate(schema, arguments, message, sizeof message) == TP_OK) return true;
  tp_text text;
  if (!tp__arena_text(&slot->dispatch->texts, tp_text_of(message), &text))
    text = tp_text_of("the arguments do not fit");
  tp__toolcall_stop(slot, TP_TOOL_INVALID_ARGUMENTS, text);
  return false;
}

static void check_arguments(tp__tool_slot *slot) {
  if (tp__toolcall_of(slot)->malformed) {
    tp__toolcall_stop(slot, TP_TOOL_INVALID_ARGUMENTS, tp_text_of("the arguments are not a JSON object"));
  } else if (!arguments_fit(slot)) {
    return;
  } else if (!slot->dispatch->has_pre) {
    tp__toolcall_permit(slot);
  } else if (!tp__toolcall_stopped(slot)) {
    uint32_t count = 0;
    put_gate_text(slot, &count, TP_FIELD_TOOL, tp__toolcall_of(slot)->name);
    put_arguments(slot, &count);
    put_gate_text(slot, &count, TP_FIELD_INPUT_SUMMARY, input_summary(slot));
    put_task_key(slot, &count);
    put_call_id(slot, &count);
    begin_phase(slot, TP_PHASE_TOOL_PRE, count, false, pre_ended);
  }
}

/* ---- tool.rewrite ---- */

/* Makes another call with the new arguments; id and name stay. @return false without memory. */
static bool replace_arguments(tp__tool_slot *slot, tp_text arguments, bool malformed) {
  tp_tool_call *call = tp__arena_alloc(&slot->dispatch->texts, sizeof *call);
  if (!call) return false;
  *call = *tp__toolcall_of(slot);
  call->malformed = malformed;
  slot->call = call;
  return tp__arena_text(&slot->dispatch->texts, arguments, &call->arguments);
}

static bool take_gate_arguments(tp__tool_slot *slot, const tp_merged *merged) {
  size_t i = 0;
  while (merged->fields[i].field.id != TP_FIELD_ARGUMENTS) i++;
  const tp_field *field = &merged->fields[i].field;
  return replace_arguments(slot, field->text, field->kind != TP_FIELD_KIND_VALUE);
}

static bool replaces_result(const tp_merged *merged) {
  return tp_merged_replaced(merged, TP_FIELD_RESULT) || tp_merged_replaced(merged, TP_FIELD_RESULT_VALUE) ||
         tp_merged_replaced(merged, TP_FIELD_RESULT_PARTS);
}

/* Copies the result as the chain left it, within the limits of the tool. @return false without memory. */
static bool copy_result(tp__tool_slot *slot, const tp_merged *merged, tp__tool_content *ret_said) {
  tp__tool_content said = {.text = tp_merged_text(merged, TP_FIELD_RESULT),
                           .value = tp_merged_text(merged, TP_FIELD_RESULT_VALUE),
                           .parts = tp_merged_text(merged, TP_FIELD_RESULT_PARTS)};
  uint32_t flaws = 0;
  if (tp_value_kind_of(said.value) == TP_VALUE_NULL) said.value = (tp_text){NULL, 0};
  if (!tp__tool_content_copy(&slot->dispatch->texts, &said, slot->tool->result_bytes_max, slot->tool->parts_bytes_max,
                             ret_said, &flaws))
    return false;
  if (flaws) tp__toolcall_note_cut(slot, flaws);
  return true;
}

static bool take_result(tp__tool_slot *slot, const tp_merged *merged) {
  slot->gate->is_ready = true;
  return copy_result(slot, merged, &slot->gate->ready);
}

static bool take_rewrite(tp__tool_slot *slot, const tp_merged *merged) {
  bool ok = !tp_merged_replaced(merged, TP_FIELD_ARGUMENTS) || take_gate_arguments(slot, merged);
  if (ok && replaces_result(merged)) ok = take_result(slot, merged);
  if (!ok)
    tp__toolcall_deny(slot, TP_PHASE_TOOL_REWRITE, "tool.rewrite", tp_text_of("no memory for what it was rewritten to"),
                      false);
  return ok;
}

static void rewrite_ended(tp__phase_run *run) { gate_ended(run, "tool.rewrite", take_rewrite, check_arguments); }

static void begin_rewrite(tp__tool_slot *slot) {
  if (tp__toolcall_stage(slot) == TP__TASK_CREATE) {
    tp__toolcall_allow(slot);
    return;
  }
  if (!slot->dispatch->has_rewrite) {
    check_arguments(slot);
    return;
  }
  if (tp__toolcall_stopped(slot)) return;
  uint32_t count = 0;
  put_gate_text(slot, &count, TP_FIELD_TOOL, tp__toolcall_of(slot)->name);
  put_arguments(slot, &count);
  put_call_id(slot, &count);
  begin_phase(slot, TP_PHASE_TOOL_REWRITE, count, false, rewrite_ended);
}

/* ---- tool.ask ---- */

/* New arguments make another call, which every gate after tool.rewrite checks again. A task keeps the arguments with
 * which it was created. */
static bool take_edit(tp__tool_slot *slot, const tp_merged *merged) {
  if (!tp_merged_replaced(merged, TP_FIELD_ARGUMENTS)) return true;
  const char *why = NULL;
  if (tp__toolcall_stage(slot) == TP__TASK_CREATE) why = "the arguments of a task cannot be edited while it is created";
  else if (!take_gate_arguments(slot, merged)) why = "no memory for the arguments as they were edited";
  slot->ask->is_edited = !why;
  if (why) tp__toolcall_deny(slot, TP_PHASE_TOOL_ASK, "tool.ask", tp_text_of(why), false);
  return !why;
}

static void go_on_asked(tp__tool_slot *slot) {
  bool is_edited = slot->ask->is_edited;
  slot->ask->is_edited = false;
  if (is_edited) check_arguments(slot);
  else tp__toolcall_allow(slot);
}

/* The model had asked for other arguments, so it is told to which arguments its result belongs. */
static void remind_of_edit(tp__tool_slot *slot, tp_text person) {
  tp__dispatch *d = slot->dispatch;
  const tp_tool_call *call = tp__toolcall_of(slot);
  tp_text json;
  if (!d->remind || tp__out_twice(&d->texts, write_arguments, call, &json) != TP_OK) return;
  tp_text text = tp__arena_printf(
      &d->texts, "%s%.*s changed the arguments of the call %.*s of %.*s before it ran. They are now: %.*s",
      person.size > 0 ? "The person " : "A person", (int)person.size, person.size > 0 ? person.data : "",
      (int)call->id.size, call->id.size > 0 ? call->id.data : "", (int)call->name.size, call->name.data,
      (int)tp__utf8_cut(json, INPUT_BYTES), json.data);
  if (text.data) d->remind(d->turn, slot->ask->by, text, false);
}

void tp__toolcall_edit(tp__tool_slot *slot, tp_text arguments, tp_text person) {
  const char *why = NULL;
  if (tp__toolcall_stage(slot) == TP__TASK_CREATE) why = "the arguments of a task cannot be edited while it is created";
  else if (!replace_arguments(slot, arguments, false)) why = "no memory for the arguments as they were edited";
  if (why) {
    tp__toolcall_deny(slot, slot->ask->phase, slot->ask->by, tp_text_of(why), false);
    return;
  }
  slot->ask->is_allowed = true; /* the answer to all later questions about this version of the call */
  remind_of_edit(slot, person);
  check_arguments(slot);
}

static void ask_ended(tp__phase_run *run) {
  tp__tool_slot *slot = run->ctx;
  TP__ASSERT(slot->ask && slot->ask->was_shown && !slot->ask->question);
  slot->ask->is_allowed = run->status == TP_OK && run->result.verdict == TP_VERDICT_ALLOW;
  gate_ended(run, "tool.ask", take_edit, go_on_asked);
}

void tp__toolcall_ask_hooks(tp__tool_slot *slot) {
  uint32_t count = 0;
  slot->ask->was_shown = true;
  put_gate_text(slot, &count, TP_FIELD_TOOL, tp__toolcall_of(slot)->name);
  put_arguments(slot, &count);
  put_call_id(slot, &count);
  put_gate_text(slot, &count, TP_FIELD_INPUT_SUMMARY, input_summary(slot));
  put_gate_text(slot, &count, TP_FIELD_REASON, slot->ask->reason);
  begin_phase(slot, TP_PHASE_TOOL_ASK, count, false, ask_ended);
}

/* ---- tool.create ---- */

static void create_ended(tp__phase_run *run) { gate_ended(run, "tool.create", NULL, begin_rewrite); }

void tp__toolcall_create(tp__tool_slot *slot) {
  if (!slot->dispatch->has_create || tp__toolcall_stage(slot) == TP__TASK_RUN) {
    begin_rewrite(slot);
    return;
  }
  if (tp__toolcall_stopped(slot)) return;
  uint32_t count = 0;
  put_gate_text(slot, &count, TP_FIELD_ABILITY_REF, tp__toolcall_of(slot)->name);
  put_gate_text(slot, &count, TP_FIELD_ABILITY_KIND,
                tp_text_of(slot->tool && slot->tool->tool->is_operation ? "operation_key" : "ability_id"));
  put_gate_text(slot, &count, TP_FIELD_INPUT_SUMMARY, input_summary(slot));
  put_arguments(slot, &count);
  tp_text environment = slot->dispatch->turn->core.environment;
  if (environment.size > 0) put_gate_text(slot, &count, TP_FIELD_ENVIRONMENT, environment);
  begin_phase(slot, TP_PHASE_TOOL_CREATE, count, false, create_ended);
}

/* ---- tool.result ---- */

static void filter_ended(tp__phase_run *run) {
  tp__tool_slot *slot = ended_of(run);
  tp_tool_result *result = tp__toolcall_result(slot);
  tp_tool_result_kind kind = result->kind;
  tp__tool_content said = {.text = result->text, .value = result->value, .parts = result->parts};
  if (replaces_result(run->result.merged) && !copy_result(slot, run->result.merged, &said)) {
    kind = TP_TOOL_HANDLER_ERROR;
    said = (tp__tool_content){.text = tp_text_of("no memory for the result")};
  }
  take_reminders(slot, run->result.merged);
  tp__toolcall_settle(slot, kind, &said);
  tp__phase_let_go(&run->result);
  tp__toolcall_settled(slot);
}

void tp__toolcall_filter(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said) {
  tp_tool_result *result = tp__toolcall_result(slot);
  result->kind = kind;
  result->text = said->text;
  result->value = said->value;
  result->parts = said->parts;
  uint32_t count = 0;
  put_gate_text(slot, &count, TP_FIELD_TOOL, tp__toolcall_of(slot)->name);
  put_gate_text(slot, &count, TP_FIELD_RESULT, said->text);
  put_call_id(slot, &count);
  put_arguments(slot, &count);
  put_int(slot, &count, TP_FIELD_IS_ERROR, kind != TP_TOOL_OK);
  put_rest(slot, &count, said->value, said->parts);
  begin_phase(slot, TP_PHASE_TOOL_RESULT, count, true, filter_ended);
}

/* ---- tool.post ---- */

static void post_ended(tp__phase_run *run) {
  tp__tool_slot *slot = ended_of(run);
  take_reminders(slot, run->result.merged);
  tp__phase_let_go(&run->result);
  tp__toolcall_done(slot);
}

void tp__toolcall_post(tp__tool_slot *slot) {
  const tp_tool_result *result = tp__toolcall_result(slot);
  bool ok = result->kind == TP_TOOL_OK;
  tp_text bare = slot->gate->bare;
  tp_text shown = bare.size > 0 ? bare : tp__parts_described(&slot->dispatch->texts, result->parts);
  tp_text preview = {shown.data, tp__utf8_cut(shown, SUMMARY_BYTES)};
  uint32_t count = 0;
  put_gate_text(slot, &count, TP_FIELD_TOOL, tp__toolcall_of(slot)->name);
  put_gate_text(slot, &count, TP_FIELD_STATUS, tp_text_of(!ok ? "failure" : slot->is_partial ? "partial" : "success"));
  put_int(slot, &count, TP_FIELD_DURATION_MS, result->duration_ns / TP__NS_PER_MS);
  put_gate_text(slot, &count, TP_FIELD_INPUT_SUMMARY, input_summary(slot));
  put_gate_text(slot, &count, TP_FIELD_OUTPUT_SUMMARY, ok ? preview : (tp_text){NULL, 0});
  put_gate_text(slot, &count, TP_FIELD_ERROR_MESSAGE, ok ? (tp_text){NULL, 0} : preview);
  put_arguments(slot, &count);
  put_gate_text(slot, &count, TP_FIELD_RESULT, bare);
  put_task_key(slot, &count);
  put_call_id(slot, &count);
  put_rest(slot, &count, result->value, result->parts);
  begin_phase(slot, TP_PHASE_TOOL_POST, count, true, post_ended);
}

/* ---- tool.denied ---- */

/* A denial may begin at the end of the phase whose subscription denied, so it needs memory of its own. */
typedef struct denial {
  tp__phase_run phase;
  tp_field fields[TP__TOOL_FIELDS_MAX];
} denial;

static void denied_ended(tp__phase_run *run) {
  tp__tool_slot *slot = ended_of(run);
  take_reminders(slot, run->result.merged);
  tp__phase_let_go(&run->result);
  tp__toolcall_done(slot);
}

void tp__toolcall_denied(tp__tool_slot *slot, tp_text reason) {
  tp__dispatch *d = slot->dispatch;
  TP__ASSERT(slot->settled && !slot->done && slot->gate);
  denial *made = tp__arena_zero(&d->texts, sizeof *made);
  if (!made || !tp__arena_text(&d->texts, reason, &reason)) {
    tp__toolcall_done(slot);
    return;
  }
  uint32_t count = 0;
  put_gate_text(slot, &count, TP_FIELD_TOOL, tp__toolcall_of(slot)->name);
  put_arguments(slot, &count);
  put_call_id(slot, &count);
  put_gate_text(slot, &count, TP_FIELD_INPUT_SUMMARY, input_summary(slot));
  put_gate_text(slot, &count, TP_FIELD_REASON, reason);
  memcpy(made->fields, slot->gate->fields, count * sizeof *made->fields);
  d->stale = true;
  made->phase = (tp__phase_run){.turn = d->turn,
                                .phase = TP_PHASE_TOOL_DENIED,
                                .ignores_cancel = true,
                                .fields = made->fields,
                                .field_count = count,
                                .on_end = denied_ended,
                                .ctx = slot};
  tp__phase_begin(&made->phase);
}
