/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tools.h"

#include <stdio.h>

#include "phases/out.h"
#include "phases/render.h"
#include "phases/schema.h"
#include "phases/tool_run.h"

enum { RESULT_BYTES_MAX = 100000, SUMMARY_BYTES = 512, FIELDS_MAX = 8 };

struct tp__tool_slot {
  tp__dispatch *dispatch;
  uint32_t index;
  const tp__tool_entry *tool;
  bool settled;
  tp__tool_run *run; /* open */
  tp__phase phase;   /* the one under way */
  tp_field fields[FIELDS_MAX];
  int64_t started_ns;
  tp_text signals; /* of tool.pre, rendered: joins the result's text */
};

const char *tp_tool_result_name(tp_tool_result_kind kind) {
  switch (kind) {
    case TP_TOOL_OK:
      return "ok";
    case TP_TOOL_HANDLER_ERROR:
      return "handler_error";
    case TP_TOOL_INVALID_ARGUMENTS:
      return "invalid_arguments";
    case TP_TOOL_UNKNOWN_TOOL:
      return "unknown_tool";
    case TP_TOOL_OUT_OF_SCOPE:
      return "out_of_scope";
    case TP_TOOL_DENIED:
      return "denied";
    case TP_TOOL_TIMED_OUT:
      return "timed_out";
    case TP_TOOL_CANCELLED:
      return "cancelled";
    case TP_TOOL_CRASHED:
      return "crashed";
    case TP_TOOL_SHED:
      return "shed";
    case TP_TOOL_INTERRUPTED:
      return "interrupted";
  }
  return "unknown";
}

static const tp_tool_call *call_of(const tp__tool_slot *slot) { return &slot->dispatch->calls[slot->index]; }
static tp_tool_result *result_of(const tp__tool_slot *slot) { return &slot->dispatch->results[slot->index]; }

/* ---- the end of a call ---- */

static void one_less_open(tp__dispatch *d) {
  if (--d->open > 0) return;
  d->turn->dispatch = NULL;
  d->on_end(d);
}

static void slot_done(tp__tool_slot *slot) { one_less_open(slot->dispatch); }

/* The one result of a call. text is copied. */
static void set_result(tp__tool_slot *slot, tp_tool_result_kind kind, tp_text text) {
  tp__dispatch *d = slot->dispatch;
  tp_tool_result *result = result_of(slot);
  assert(!slot->settled);
  slot->settled = true;
  result->kind = kind;
  result->completion_order = d->completed++;
  tp__render_parts parts = {.is_result = true, .text = text, .signals = slot->signals};
  bool whole = !slot->signals.size || tp__render_message(&d->arena, &parts, &text) == TP_OK;
  if (!whole || !tp__arena_text(&d->arena, text, &result->text)) {
    result->kind = TP_TOOL_HANDLER_ERROR;
    result->text = tp_text_of("no memory for the result");
  }
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_TOOL_END,
                                 .tool_call = call_of(slot),
                                 .tool_result = result,
                                 .call_index = slot->index,
                                 .text = result->text,
                                 .started_ns = slot->started_ns,
                                 .ended_ns = slot->started_ns ? slot->started_ns + result->duration_ns : 0});
}

/* A call that never started ends here: no tool.result, no tool.post. */
static void stop(tp__tool_slot *slot, tp_tool_result_kind kind, tp_text text) {
  set_result(slot, kind, text);
  slot_done(slot);
}

static void put_text(tp__tool_slot *slot, uint32_t *count, uint32_t id, tp_text text) {
  slot->fields[(*count)++] = (tp_field){.id = id, .text = text};
}

static void put_int(tp__tool_slot *slot, uint32_t *count, uint32_t id, int64_t number) {
  slot->fields[(*count)++] = (tp_field){.id = id, .is_int = true, .number = number};
}

static void put_arguments(tp__tool_slot *slot, uint32_t *count) {
  const tp_tool_call *call = call_of(slot);
  slot->fields[(*count)++] =
      (tp_field){.id = TP_FIELD_ARGUMENTS, .is_value = !call->malformed, .text = call->arguments};
}

static void begin_phase(tp__tool_slot *slot, uint32_t phase, uint32_t field_count, bool sheltered,
                        void (*on_end)(tp__phase *run)) {
  slot->phase = (tp__phase){.turn = slot->dispatch->turn,
                            .phase = phase,
                            .sheltered = sheltered,
                            .fields = slot->fields,
                            .field_count = field_count,
                            .on_end = on_end,
                            .ctx = slot};
  tp__phase_begin(&slot->phase);
}

static void take_reminders(tp__tool_slot *slot) {
  tp__dispatch *d = slot->dispatch;
  const tp_merged *merged = slot->phase.result.merged;
  for (size_t i = 0; d->remind && i < tp_merged_count(merged, TP_KIND_REMINDER); i++) {
    tp_merged_entry entry = tp_merged_get(merged, TP_KIND_REMINDER, i);
    d->remind(d->turn, entry.subscription, entry.contribution->text, false);
  }
}

/* ---- after the run: tool.result, tool.post ---- */

static void post_ended(tp__phase *run) {
  tp__tool_slot *slot = run->ctx;
  take_reminders(slot);
  tp__phase_let_go(&run->result);
  slot_done(slot);
}

static void write_arguments(tp__out *out, const void *ctx) {
  tp__json_value(out, ((const tp_tool_call *)ctx)->arguments);
}

/* The arguments as JSON, bounded; empty where there is no memory for it, or nobody to read it. */
static tp_text input_summary(tp__tool_slot *slot) {
  tp_text text = {NULL, 0};
  if (!tp__turn_plan(&slot->dispatch->turn->core, TP_PHASE_TOOL_POST)) return text;
  if (tp__out_twice(&slot->dispatch->arena, write_arguments, call_of(slot), &text) != TP_OK) return (tp_text){NULL, 0};
  return (tp_text){text.data, tp__utf8_cut(text, SUMMARY_BYTES)};
}

static void begin_post(tp__tool_slot *slot) {
  const tp_tool_result *result = result_of(slot);
  bool ok = result->kind == TP_TOOL_OK;
  tp_text preview = {result->text.data, tp__utf8_cut(result->text, SUMMARY_BYTES)};
  uint32_t count = 0;
  put_text(slot, &count, TP_FIELD_TOOL, call_of(slot)->name);
  put_text(slot, &count, TP_FIELD_STATUS, tp_text_of(ok ? "success" : "failure"));
  put_int(slot, &count, TP_FIELD_DURATION_MS, result->duration_ns / TP__NS_PER_MS);
  put_text(slot, &count, TP_FIELD_INPUT_SUMMARY, input_summary(slot));
  put_text(slot, &count, TP_FIELD_OUTPUT_SUMMARY, ok ? preview : (tp_text){NULL, 0});
  put_text(slot, &count, TP_FIELD_ERROR_MESSAGE, ok ? (tp_text){NULL, 0} : preview);
  begin_phase(slot, TP_PHASE_TOOL_POST, count, true, post_ended);
}

static tp_tool_result_kind kind_of(const tp__tool_answer *answer) {
  switch (answer->end) {
    case TP__ANSWERED:
      return answer->is_error ? TP_TOOL_HANDLER_ERROR : TP_TOOL_OK;
    case TP__EXPIRED:
      return TP_TOOL_TIMED_OUT;
    case TP__CANCELLED:
      return TP_TOOL_CANCELLED;
    case TP__REFUSED:
      break;
  }
  return TP_TOOL_SHED;
}

static tp_text text_without_answer(tp_tool_result_kind kind) {
  switch (kind) {
    case TP_TOOL_TIMED_OUT:
      return tp_text_of("the tool did not answer in time");
    case TP_TOOL_CANCELLED:
      return tp_text_of("the call was cancelled");
    default:
      return tp_text_of("no thread could be had for the tool; try again later");
  }
}

/* Head and tail of a result that is too long, with a note between them of what is gone. */
static tp_text capped(tp__tool_slot *slot, tp_text text) {
  size_t cap = slot->tool->tool->result_bytes_max ? slot->tool->tool->result_bytes_max : RESULT_BYTES_MAX;
  if (text.size <= cap) return text;
  size_t head = tp__utf8_cut(text, cap / 2), tail = text.size - cap / 2;
  while (tail < text.size && ((unsigned char)text.data[tail] & 0xC0) == 0x80) tail++;
  tp__arena *arena = &slot->dispatch->arena;
  tp_text cut = tp__arena_printf(arena, "%.*s\n[… %zu bytes left out …]\n%.*s", (int)head, text.data, tail - head,
                                 (int)(text.size - tail), text.data + tail);
  return cut.data ? cut : (tp_text){text.data, head};
}

static void result_ended(tp__phase *run) {
  tp__tool_slot *slot = run->ctx;
  tp_tool_result *result = result_of(slot);
  tp_text text = result->text;
  if (tp_merged_replaced(run->result.merged, TP_FIELD_RESULT))
    text = tp_merged_text(run->result.merged, TP_FIELD_RESULT);
  set_result(slot, result->kind, capped(slot, text));
  tp__phase_let_go(&run->result);
  begin_post(slot);
}

static void run_settled(void *ctx, const tp__tool_answer *answer) {
  tp__tool_slot *slot = ctx;
  tp__dispatch *d = slot->dispatch;
  tp_tool_result *result = result_of(slot);
  tp_tool_result_kind kind = kind_of(answer);
  tp_text text = answer->end == TP__ANSWERED ? capped(slot, answer->text) : text_without_answer(kind);
  slot->run = NULL;
  if (!answer->started_ns) { /* it never got a thread */
    stop(slot, kind, text);
    return;
  }
  slot->started_ns = answer->started_ns;
  result->started = true;
  result->duration_ns = answer->ended_ns - answer->started_ns;
  result->kind = kind;
  if (!tp__arena_text(&d->arena, text, &result->text)) result->text = (tp_text){NULL, 0};
  uint32_t count = 0;
  put_text(slot, &count, TP_FIELD_TOOL, call_of(slot)->name);
  put_text(slot, &count, TP_FIELD_RESULT, result->text);
  begin_phase(slot, TP_PHASE_TOOL_RESULT, count, true, result_ended);
}

/* ---- before the run: scope, schema, policy, tool.pre ---- */

/* Nothing begins once the turn was cancelled or its time is up. @return whether the call was stopped. */
static bool stopped_by_turn(tp__tool_slot *slot) {
  const tp__dispatch *d = slot->dispatch;
  const tp__turn *core = &d->turn->core;
  tp_tool_result_kind kind = d->cancelled || core->is_cancelled  ? TP_TOOL_CANCELLED
                             : tp__now_ns() >= core->deadline_ns ? TP_TOOL_TIMED_OUT
                                                                 : TP_TOOL_OK;
  if (kind == TP_TOOL_OK) return false;
  stop(slot, kind, text_without_answer(kind));
  return true;
}

static void begin_run(tp__tool_slot *slot) {
  tp__dispatch *d = slot->dispatch;
  if (stopped_by_turn(slot)) return;
  slot->started_ns = tp__now_ns();
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_TOOL_BEGIN, .tool_call = call_of(slot), .call_index = slot->index});
  tp__tool_run_spec spec = {.turn = d->turn,
                            .tool = slot->tool,
                            .call_id = result_of(slot)->call_id,
                            .arguments = call_of(slot)->arguments,
                            .settled = run_settled,
                            .ctx = slot};
  tp__tool_run *run;
  tp_reason refused = tp__tool_run_start(&spec, &run);
  if (refused) stop(slot, TP_TOOL_SHED, text_without_answer(TP_TOOL_SHED));
  else if (run) slot->run = run; /* else it has settled, and the slot may be gone */
}

static void deny(tp__tool_slot *slot, const char *by, tp_text reason) {
  tp__dispatch *d = slot->dispatch;
  tp_text text;
  if (tp__render_blocked(&d->arena, by, reason, &text) != TP_OK) text = tp_text_of("the call was denied");
  tp__log(d->turn->core.runtime, TP_LOG_INFO, "a tool call was denied by %s", by);
  if (d->remind) d->remind(d->turn, by, text, true);
  stop(slot, TP_TOOL_DENIED, text);
}

/* The signals of the gates go with the call's result. Where there is no memory for them, they are lost. */
static void take_signals(tp__tool_slot *slot) {
  const tp_merged *merged = slot->phase.result.merged;
  if (!merged || merged->lists[TP_KIND_SIGNAL].count == 0) return;
  if (tp__render_signals(&slot->dispatch->arena, "tool.pre", &merged->lists[TP_KIND_SIGNAL], &slot->signals) != TP_OK)
    slot->signals = (tp_text){NULL, 0};
}

static void gate_ended(tp__phase *run) {
  tp__tool_slot *slot = run->ctx;
  tp_phase_result *result = &run->result;
  const char *by = result->subscription ? result->subscription : "tool.pre";
  bool passed = run->status == TP_OK && result->outcome == TP_OK;
  bool ask = passed && result->verdict == TP_OUTCOME_ASK;
  slot->dispatch->open++; /* the result is let go after the call was stopped */
  take_reminders(slot);
  take_signals(slot);
  bool stopped = stopped_by_turn(slot); /* what its gates made of that is not their verdict */
  if (stopped) passed = false;
  else if (result->outcome == TP_ERR_CANCELLED) stop(slot, TP_TOOL_CANCELLED, text_without_answer(TP_TOOL_CANCELLED));
  else if (ask) deny(slot, by, tp_text_of("it asks a person, and there is no channel to ask"));
  else if (!passed) deny(slot, by, run->status == TP_OK ? result->reason : tp_text_of(tp_status_text(run->status)));
  tp__phase_let_go(result);
  if (passed && !ask) begin_run(slot);
  slot_done(slot);
}

static void begin_gate(tp__tool_slot *slot) {
  uint32_t count = 0;
  put_text(slot, &count, TP_FIELD_TOOL, call_of(slot)->name);
  put_arguments(slot, &count);
  begin_phase(slot, TP_PHASE_TOOL_PRE, count, false, gate_ended);
}

/* A policy `tool` with value deny or ask is applied before the gates, and no verdict lifts it. */
static tp_text policy_of(const tp__tool_slot *slot) {
  const tp__turn_sets *sets = slot->dispatch->turn->core.sets;
  return sets ? tp__turn_sets_policy(sets, tp_text_of("tool"), call_of(slot)->name) : (tp_text){NULL, 0};
}

static void begin_call(tp__tool_slot *slot) {
  const tp_tool_call *call = call_of(slot);
  char message[TP__SCHEMA_MESSAGE_SIZE];
  slot->tool = tp__toolset_find(slot->dispatch->turn->toolset, call->name);
  tp_text policy = policy_of(slot);
  if (stopped_by_turn(slot)) return;
  if (!slot->tool) {
    stop(slot, TP_TOOL_UNKNOWN_TOOL, tp_text_of("there is no tool of that name"));
  } else if (call->malformed) {
    stop(slot, TP_TOOL_INVALID_ARGUMENTS, tp_text_of("the arguments are not a JSON object"));
  } else if (tp__text_is(policy, "deny")) {
    deny(slot, "policy", tp_text_of("the turn's policy denies this tool"));
  } else if (tp__text_is(policy, "ask")) {
    deny(slot, "policy", tp_text_of("the policy asks a person, and there is no channel to ask"));
  } else if (tp__schema_validate(slot->tool->tool->schema, call->arguments, message, sizeof message) != TP_OK) {
    stop(slot, TP_TOOL_INVALID_ARGUMENTS, tp_text_of(message));
  } else {
    begin_gate(slot);
  }
}

/* ---- the dispatch ---- */

static bool name_results(tp__dispatch *d) {
  for (size_t i = 0; i < d->count; i++) {
    d->results[i] = (tp_tool_result){0};
    if (d->calls[i].id.size == 0) d->results[i].call_id = tp__arena_printf(&d->arena, "call-%zu", i);
    else if (!tp__arena_text(&d->arena, d->calls[i].id, &d->results[i].call_id)) return false;
    if (!d->results[i].call_id.data || !tp__arena_text(&d->arena, d->calls[i].name, &d->results[i].name)) return false;
  }
  return true;
}

tp_status tp__dispatch_begin(tp_turn *turn, const tp_tool_call *calls, size_t count, tp_tool_result *results,
                             tp__remind_fn remind, void (*on_end)(tp__dispatch *dispatch), void *ctx,
                             tp__dispatch **ret_dispatch) {
  const tp_allocator *allocator = &turn->core.runtime->allocator;
  tp__dispatch *d = tp__alloc_zero(allocator, sizeof *d);
  if (!d) return TP_ERR_NO_MEMORY;
  tp__arena_init(&d->arena, allocator, NULL, 0, 0);
  d->turn = turn;
  d->calls = calls;
  d->results = results;
  d->count = count;
  d->remind = remind;
  d->on_end = on_end;
  d->ctx = ctx;
  d->slots = tp__alloc_zero(allocator, (count ? count : 1) * sizeof *d->slots);
  if (!d->slots || !name_results(d)) {
    tp__dispatch_free(d);
    return TP_ERR_NO_MEMORY;
  }
  *ret_dispatch = d;
  turn->dispatch = d;
  d->open = count + 1; /* this function's own: the end comes only when every call has begun */
  for (size_t i = 0; i < count; i++) {
    d->slots[i].dispatch = d;
    d->slots[i].index = (uint32_t)i;
    begin_call(&d->slots[i]);
  }
  one_less_open(d);
  return TP_OK;
}

/* Gates under way are ended by the turn's cancel, which comes here last. */
void tp__dispatch_cancel(tp__dispatch *d) {
  d->cancelled = true;
  d->open++; /* stays till every slot was looked at */
  for (size_t i = 0; i < d->count; i++)
    if (d->slots[i].run) tp__tool_run_cancel(d->slots[i].run);
  one_less_open(d);
}

void tp__dispatch_free(tp__dispatch *d) {
  if (!d) return;
  const tp_allocator *allocator = &d->turn->core.runtime->allocator;
  tp__arena_fini(&d->arena);
  tp__release(allocator, d->slots, (d->count ? d->count : 1) * sizeof *d->slots);
  tp__release(allocator, d, sizeof *d);
}

/* ---- the public doors ---- */

static void sync_ended(tp__dispatch *d) { *(bool *)d->ctx = true; }

/* Results live as long as the turn. */
static void keep(tp_turn *turn, tp__dispatch *d) { tp__list_push(&turn->kept_dispatches, &d->kept); }

tp_status tp_tools_run(tp_turn *turn, const tp_tool_call *calls, size_t count, tp_tool_result *results,
                       tp_fault *fault) {
  TP__TRY(tp__become_owner(fault, "tp_tools_run"));
  bool done = false;
  tp__dispatch *d;
  tp_status status = tp__turn_enter(turn);
  if (status == TP_OK) {
    status = tp__dispatch_begin(turn, calls, count, results, NULL, sync_ended, &done, &d);
    if (status == TP_OK) {
      tp__strand_wait(&turn->core.strand, &done);
      keep(turn, d);
    }
    tp__turn_exit(turn);
  }
  tp__thread_local_set(NULL);
  return status == TP_OK ? TP_OK : tp__fail(fault, status, NULL, "the calls were not run: %s", tp_status_text(status));
}

static void submitted_ended(tp__dispatch *d) {
  tp_turn *turn = d->turn;
  tp_tools_end_fn on_end = turn->operation.on_tools_end;
  void *ctx = turn->operation.ctx;
  keep(turn, d);
  tp__a32_store_release(&turn->core.busy, 0);
  on_end(ctx, d->results, d->count);
}

/* Where there is no memory to begin, every call ends as shed. */
static void submitted_delivered(tp__message *message) {
  tp_turn *turn = TP__CONTAINER(message, tp_turn, operation.message);
  tp__operation *op = &turn->operation;
  tp__dispatch *d;
  tp_status status = tp__dispatch_begin(turn, op->calls, op->call_count, op->results, NULL, submitted_ended, NULL, &d);
  if (status == TP_OK) return;
  for (size_t i = 0; i < op->call_count; i++)
    op->results[i] = (tp_tool_result){.kind = TP_TOOL_SHED, .text = tp_text_of("no memory to run the calls")};
  tp__a32_store_release(&turn->core.busy, 0);
  op->on_tools_end(op->ctx, op->results, op->call_count);
}

static bool copy_calls(tp_turn *turn, const tp_tool_call *calls, size_t count) {
  tp__arena *arena = &turn->operations_arena;
  tp_tool_call *copy = tp__arena_alloc(arena, (count ? count : 1) * sizeof *copy);
  turn->operation.results = tp__arena_zero(arena, (count ? count : 1) * sizeof(tp_tool_result));
  if (!copy || !turn->operation.results) return false;
  for (size_t i = 0; i < count; i++) {
    copy[i] = calls[i];
    if (!tp__arena_text(arena, calls[i].id, &copy[i].id) || !tp__arena_text(arena, calls[i].name, &copy[i].name) ||
        !tp__arena_text(arena, calls[i].arguments, &copy[i].arguments))
      return false;
  }
  turn->operation.calls = copy;
  turn->operation.call_count = count;
  return true;
}

tp_status tp_tools_submit(tp_turn *turn, const tp_tool_call *calls, size_t count, tp_tools_end_fn on_end, void *ctx,
                          tp_fault *fault) {
  if (turn->core.runtime->options.no_engine_workers)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the runtime has no engine workers: use tp_tools_run()");
  tp_status status = tp__turn_begin_operation(&turn->core);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "the operation was not begun: %s", tp_status_text(status));
  if (!copy_calls(turn, calls, count)) {
    tp__a32_store_release(&turn->core.busy, 0);
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the calls");
  }
  turn->operation.on_tools_end = on_end;
  turn->operation.ctx = ctx;
  turn->operation.message.deliver = submitted_delivered;
  tp__turn_submit(turn, &turn->operation.message);
  return TP_OK;
}
