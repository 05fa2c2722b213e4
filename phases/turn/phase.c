/* SPDX-License-Identifier: Apache-2.0
 *
 * phase.c: runs a phase: begins its entry, and when the entry has ended, merges its contributions. */
#include "phases/merge/phases.h"
#include "phases/merge/sets.h"
#include "phases/turn/turn.h"
#include "runtime/exec/blocks.h"
#include "runtime/exec/exec.h"

enum { LOGGED_BYTES_MAX = 256 }; /* of a diagnostic */

/* ---- what the merge is given ---- */

/* A failure that did not fail the entry becomes a diagnostic. */
static bool needs_diagnostic(const tp__node *node, const tp__run *run) {
  tp__decision decision = tp__decide(node->execution, node->failure, run->row.reason);
  return decision == TP__DECIDE_DIAGNOSE || decision == TP__DECIDE_FALLBACK;
}

static bool put_diagnostic(tp__entry *e, const tp__run *run, tp_contribution *item) {
  const char *why = tp_reason_name(run->row.reason);
  *item = (tp_contribution){.struct_size = sizeof(tp_contribution),
                            .kind = TP_CONTRIBUTION_DIAGNOSTIC,
                            .severity = TP_SEVERITY_WARNING,
                            .key = tp_text_of(why)};
  item->text = run->message
                   ? tp__arena_printf(&e->arena, "%s: %s: %s", tp_state_name(run->row.state), why, run->message)
                   : tp__arena_printf(&e->arena, "%s: %s", tp_state_name(run->row.state), why);
  return item->text.data != NULL;
}

static bool put_items(tp__entry *e, uint32_t index, tp__merge_input *input) {
  const tp__node *node = &e->plan->nodes[index];
  const tp__run *run = tp__entry_more(e, index);
  if (!run) return true; /* it contributed nothing */
  bool diagnose = needs_diagnostic(node, run);
  input->count = run->row.contribution_count + diagnose;
  if (input->count == 0) return true;
  tp_contribution *items = tp__arena_alloc(&e->arena, input->count * sizeof *items);
  if (!items) return false;
  input->items = items;
  if (run->row.fallback_used) {
    for (uint32_t i = 0; i < run->row.contribution_count; i++) *items++ = *node->sub->desc.fallback[i];
  } else {
    for (const tp__emitted *each = run->first; items < input->items + run->row.contribution_count; each = each->next)
      *items++ = each->contribution;
  }
  return !diagnose || put_diagnostic(e, run, items);
}

static bool make_inputs(tp__entry *e, tp__merge *merge) {
  tp__merge_input *inputs = tp__arena_zero(&e->arena, e->plan->node_count * sizeof *inputs);
  if (!inputs) return false;
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    const tp__node *node = &e->plan->nodes[i];
    inputs[i] = (tp__merge_input){.subscription = node->subscription_name,
                                  .owner = node->owner_name,
                                  .handler = node->handler_name,
                                  .event = node->sub->desc.phase_name,
                                  .attempt = tp__entry_run(e, i).attempts,
                                  .flags = node->flags & TP__NODE_INFRA ? TP__MERGE_INFRA : 0,
                                  .visibility = node->sub->desc.visibility};
    if (!put_items(e, i, &inputs[i])) return false;
    const tp__run *run = tp__entry_more(e, i);
    if (run && needs_diagnostic(node, run)) inputs[i].flags |= TP__MERGE_FAILED;
  }
  merge->inputs = inputs;
  merge->input_count = e->plan->node_count;
  return true;
}

static bool is_replaced(const tp__entry *e, const tp_field *field) {
  const tp_field *before = tp__fields_find(e->begin_fields, e->begin_field_count, field->id);
  return !before || before->text.data != field->text.data || before->number != field->number;
}

static bool make_fields(tp__entry *e, tp__merge *merge) {
  tp__merged_field *fields = tp__arena_alloc(&e->arena, (e->field_count + 1) * sizeof *fields);
  if (!fields) return false;
  for (uint32_t i = 0; i < e->field_count; i++) {
    fields[i] = (tp__merged_field){e->fields[i], is_replaced(e, &e->fields[i])};
    bool borrowed = e->payload_borrowed && !fields[i].replaced;
    if (borrowed && !tp__arena_text(&e->arena, e->fields[i].text, &fields[i].field.text)) return false;
  }
  merge->fields = fields;
  merge->field_count = e->field_count;
  return true;
}

/* ---- the end of an entry ---- */

/* Two owners contributed the same tool: the phase fails, and the fault names both. */
static tp_status notify_conflict(tp__phase_run *run, tp__entry *e, const tp_fault *fault) {
  run->result.outcome = TP_ERR_TOOL_CONFLICT;
  if (!tp__arena_text(&e->arena, tp_text_of(fault->message), &run->result.reason)) run->result.reason = (tp_text){0};
  return TP_OK;
}

static tp_status merge_entry(tp__phase_run *run, tp__entry *e) {
  tp__turn_sets sets = e->sets ? *(const tp__turn_sets *)e->sets : (tp__turn_sets){0};
  if (run->own_contexts) sets.contexts = (tp__merged_list){0};
  bool failed = e->state == TP__ENTRY_FAILED || e->state == TP__ENTRY_UNSTORED;
  tp__merge merge = {.phase = run->phase, .failed = failed, .sets = &sets};
  if (!make_inputs(e, &merge) || !make_fields(e, &merge)) return TP_ERR_NO_MEMORY;
  tp_merged *merged;
  tp_fault fault;
  tp_status status = tp__merge_run(&merge, &e->arena, &merged, &fault);
  if (status == TP_ERR_TOOL_CONFLICT) return notify_conflict(run, e, &fault);
  if (status != TP_OK) return status;
  run->result.merged = merged;
  if (run->own_contexts || run->result.outcome != TP_OK) return TP_OK;
  if (run->phase == TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION) {
    const char *needs_inbox;
    TP__TRY(tp__turn_take_tools(run->turn, merged, &needs_inbox));
    if (needs_inbox && run->turn->session) {
      /* A tool needs the session's inbox, and there is none: the phase of the session's turn fails and reports it. */
      run->result.outcome = TP_ERR_USAGE;
      run->result.reason = tp__arena_printf(
          &e->arena, "the tool %s names TP_INBOX_OF_SESSION: set tp_session_options.inbox", needs_inbox);
    }
  }
  return tp__sets_advance(e->turn, merged);
}

static void set_deciding_node(tp__phase_run *run, const tp__entry *e) {
  if (e->state == TP__ENTRY_UNSTORED) {
    run->result.state = TP_STATE_FAILED;
    run->result.why = TP_REASON_STORE;
    run->result.reason = tp_text_of("the record of the phase could not be stored");
  }
  if (e->deciding_node == UINT32_MAX) return;
  const tp__run *run_of = tp__entry_more(e, e->deciding_node); /* a verdict or failure always has one */
  run->result.subscription = e->plan->nodes[e->deciding_node].subscription_name;
  run->result.state = (tp_state)run_of->row.state;
  run->result.why = (tp_reason)run_of->row.reason;
  run->result.reason = tp_text_of(run_of->message                        ? run_of->message
                                  : run_of->row.reason != TP_REASON_NONE ? tp_reason_name(run_of->row.reason)
                                                                         : NULL);
}

/* ---- who consumes what ---- */

/* Audit items are stored as audit rows, whichever function runs the phase. */
static void keep_audits(const tp__phase_run *run, const tp_merged *merged) {
  const tp__merged_list *audits = &merged->lists[TP_CONTRIBUTION_AUDIT];
  for (size_t i = 0; i < audits->count; i++) {
    const tp_merged_entry *entry = &audits->items[i].entry;
    tp__report_add(&run->turn->core, 0,
                   &(tp__report){.action = "audit",
                                 .phase = run->phase,
                                 .subscription = entry->subscription,
                                 .owner = entry->owner,
                                 .subject = entry->contribution->key,
                                 .detail = entry->contribution->text,
                                 .state = TP_STATE_SUCCEEDED,
                                 .visibility = audits->items[i].visibility});
  }
}

static tp_log_level level_of(tp_severity severity) {
  switch (severity) {
    case TP_SEVERITY_ERROR:
      return TP_LOG_ERROR;
    case TP_SEVERITY_WARNING:
      return TP_LOG_WARNING;
    default:
      return TP_LOG_INFO;
  }
}

static void log_list(const tp__phase_run *run, const tp__merged_list *list) {
  const tp_runtime *runtime = run->turn->core.runtime;
  const tp_phase *row = tp__registry_phase(tp__runtime_registry(runtime), run->phase);
  for (size_t i = 0; i < list->count; i++) {
    const tp_merged_entry *entry = &list->items[i].entry;
    const tp_contribution *said = entry->contribution;
    if (list->items[i].flags & TP__MERGE_FAILED) continue; /* its run was logged */
    tp__log_subject about = {.phase = run->phase, .subscription = entry->subscription, .ids = run->turn->core.ids};
    size_t size = tp__redact_before(tp__runtime_redactor(runtime), said->text, LOGGED_BYTES_MAX);
    tp__log(runtime, level_of(said->severity), &about, "diagnostic of hook %s in %s: %.*s: %.*s", entry->subscription,
            row->name, (int)said->key.size, said->key.data, (int)size, said->text.data ? said->text.data : "");
  }
}

/* Diagnostics that no listener receives are logged. A host that runs a phase itself reads them in its result. */
static void log_diagnostics(const tp__phase_run *run, const tp_merged *merged) {
  if (!run->turn->drive || tp__turn_wants(run->turn, TP_EVENT_DIAGNOSTIC)) return;
  log_list(run, &merged->lists[TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC]);
  log_list(run, &merged->lists[TP_CONTRIBUTION_DIAGNOSTIC]);
}

static tp_visibility visibility_of(const tp__entry *e, uint32_t index) {
  return e->plan->nodes[index].sub->desc.visibility;
}

static void entry_ended(tp__entry *e) {
  TP__ASSERT(e->ended && e->ctx);
  tp__phase_run *run = e->ctx;
  tp_phase_result *result = &run->result;
  run->entry = NULL;
  result->outcome = tp__entry_outcome(e);
  result->verdict = result->outcome == TP_ERR_DENIED ? TP_VERDICT_DENY : (tp_verdict)e->verdict;
  result->run_count = e->plan->node_count;
  result->entry = e;
  set_deciding_node(run, e);
  if (e->has_output) run->status = merge_entry(run, e);
  if (result->merged) {
    keep_audits(run, result->merged);
    log_diagnostics(run, result->merged);
  }
  if (tp__turn_has_listener(run->turn)) {
    tp__event_contributions(run->turn, result, run->phase);
    tp__event(run->turn, &(tp_event){.kind = TP_EVENT_PHASE_END,
                                     .phase = run->phase,
                                     .visibility = e->deciding_node == UINT32_MAX ? TP_VISIBILITY_USER_VISIBLE
                                                                                  : visibility_of(e, e->deciding_node),
                                     .status = result->outcome,
                                     .text = result->reason,
                                     .subscription = result->subscription,
                                     .started_ns = e->begin_ns,
                                     .ended_ns = e->ended_ns});
  }
  run->on_end(run);
}

static void run_settled(tp__entry *e, uint32_t index) {
  tp__phase_run *run = e->ctx;
  tp_run_record record = tp__entry_run(e, index);
  const tp__run *more = tp__entry_more(e, index);
  const char *message = more ? more->message : NULL;
  tp__event(run->turn, &(tp_event){.kind = TP_EVENT_RUN,
                                   .phase = run->phase,
                                   .visibility = visibility_of(e, index),
                                   .run = &record,
                                   .text = tp_text_of(message)});
}

static const tp_phase_result nothing = {.struct_size = sizeof nothing, .verdict = TP_VERDICT_NONE};

/* Clears a result. The caller's struct may be of an older, shorter version. */
static inline void clear(tp_phase_result *result) {
  if (result->struct_size == sizeof *result || result->struct_size == 0) *result = nothing;
  else tp__shown_fill(result, &nothing, sizeof nothing);
}

/* Called when no answer of the entry was exceptional. *result was cleared before. */
static inline void set_fast_path_result(tp_phase_result *result, tp__entry *e) {
  TP__ASSERT(e->ended && !e->exceptional);
  result->run_count = e->plan->node_count;
  result->entry = e;
}

/* The entry has begun, and its end will be reported. */
static void go_on(tp__phase_run *run, tp__entry *e) {
  TP__ASSERT(!e->ended && !run->entry);
  e->on_end = entry_ended;
  e->ctx = run;
  run->entry = e;
  tp__entry_go(e);
}

static void begin_entry(tp__phase_run *run, const tp__plan *plan) {
  TP__ASSERT(!run->entry && run->on_end);
  tp__entry_spec spec = {.plan = plan,
                         .fields = run->fields,
                         .field_count = run->field_count,
                         .budget_ns = run->budget_ns,
                         .ignores_cancel = run->ignores_cancel,
                         .on_end = entry_ended,
                         .on_run = tp__turn_has_listener(run->turn) ? run_settled : NULL,
                         .ctx = run};
  tp__entry *entry;
  run->status = tp__entry_new(&run->turn->core, &spec, &entry);
  if (run->status == TP_OK) {
    if (run->skips) {
      TP__ASSERT(!entry->running);
      entry->has_listener = true; /* so that no loop of inline nodes runs it */
      for (uint32_t i = 0; i < entry->plan->node_count; i++)
        if (run->skips(run, &entry->plan->nodes[i])) entry->marks[i] |= TP__MARK_SKIPPED;
    }
    run->entry = entry;
    tp__entry_go(entry);
  } else {
    run->on_end(run);
  }
}

static bool may_run_inline(const tp__phase_run *run) {
  return !tp__turn_has_listener(run->turn) && !run->ignores_cancel && !run->budget_ns && !run->skips;
}

void tp__phase_begin(tp__phase_run *run) {
  TP__OWNED(&run->turn->core.strand);
  TP__ASSERT(run->on_end && run->phase < TP_PHASE_LIMIT);
  tp_turn *turn = run->turn;
  const tp__plan *plan = tp__turn_plan(&turn->core, run->phase);
  run->status = TP_OK;
  run->entry = NULL;
  if (!plan) {
    run->result = nothing;
    run->on_end(run);
    return;
  }
  if (turn->drive) tp__drive_show_talk(turn->drive);
  if (tp__turn_has_listener(turn))
    tp__event(turn,
              &(tp_event){.kind = TP_EVENT_PHASE_BEGIN, .phase = run->phase, .visibility = TP_VISIBILITY_USER_VISIBLE});
  tp__entry *entry =
      may_run_inline(run) ? tp__entry_run_inline(&turn->core, plan, run->fields, run->field_count) : NULL;
  run->result = nothing;
  if (entry && entry->ended) {
    set_fast_path_result(&run->result, entry);
    run->on_end(run);
    return;
  }
  if (entry) {
    go_on(run, entry);
  } else {
    begin_entry(run, plan);
  }
}

uint64_t tp__phase_entry_id(const tp_phase_result *result) {
  return result->entry ? ((const tp__entry *)result->entry)->id : 0;
}

void tp__phase_cancel(tp__phase_run *run) {
  if (run->entry && !run->ignores_cancel) tp__entry_cancel(run->entry);
}

void tp__phase_let_go(tp_phase_result *result) {
  if (result->entry) tp__entry_release(result->entry);
  clear(result);
}

/* ---- the public API ---- */

static tp_status check_phase(const tp_turn *turn, uint32_t phase, tp_fault *fault) {
  if (tp__registry_phase(tp__runtime_registry(turn->core.runtime), phase)) return TP_OK;
  return tp__fail(fault, TP_ERR_UNKNOWN_PHASE, NULL, "there is no phase of number %u: use tp_phase_find()", phase);
}

/* Kept out of the callers, so that a phase without payload does not pay for it. */
static __attribute__((noinline)) tp_status read_input(const tp_turn *turn, uint32_t phase, const tp_phase_input *theirs,
                                                      tp__phase_run *run, tp_fault *fault) {
  tp_phase_input input;
  tp__fields_use use = tp__turn_plan(&turn->core, phase) ? TP__FIELDS_RUN : TP__FIELDS_SHAPE;
  TP__TRY(tp__options_read(&input, sizeof input, theirs, "tp_phase_input", fault));
  if (input.reserved_) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_phase_input.reserved_ must be zero");
  const tp__registry *registry = tp__runtime_registry(turn->core.runtime);
  TP__TRY(tp__fields_check(registry, phase, use, input.fields, input.field_count, fault));
  run->fields = input.fields;
  run->field_count = (uint32_t)input.field_count;
  run->budget_ns = (int64_t)input.budget_ms * TP__NS_PER_MS;
  return TP_OK;
}

typedef struct sync_run {
  tp__phase_run phase;
  bool done;
} sync_run;

static void sync_ended(tp__phase_run *run) { ((sync_run *)run->ctx)->done = true; }

/* @param begun an entry that has begun and not ended; NULL: the phase is still to begin. */
static __attribute__((noinline)) tp_status run_and_wait(tp_turn *turn, uint32_t phase, const tp_phase_input *input,
                                                        tp__entry *begun, tp_phase_result *result, tp_fault *fault) {
  sync_run sync = {.phase = {.turn = turn, .phase = phase, .on_end = sync_ended, .ctx = &sync}};
  if (input) TP__TRY(read_input(turn, phase, input, &sync.phase, fault));
  if (begun) go_on(&sync.phase, begun);
  else tp__phase_begin(&sync.phase);
  tp__strand_wait(&turn->core.strand, &sync.done);
  if (sync.phase.status != TP_OK)
    return tp__fail(fault, sync.phase.status, NULL, "the phase was not run: %s", tp_status_text(sync.phase.status));
  tp__shown_fill(result, &sync.phase.result, sizeof *result);
  return TP_OK;
}

static __attribute__((noinline)) tp_status run_empty(const tp_turn *turn, uint32_t phase, const tp_phase_input *input,
                                                     tp_phase_result *result, tp_fault *fault) {
  tp__phase_run unused;
  if (input) TP__TRY(read_input(turn, phase, input, &unused, fault));
  clear(result);
  return TP_OK;
}

static __attribute__((noinline)) tp_status enter_slowly(tp_turn *turn, tp__inside *frame, tp_fault *fault) {
  TP__TRY(tp__become_owner(turn->core.runtime, frame, fault, "tp_phase_run"));
  tp_status status = tp__turn_enter(turn);
  if (status == TP_OK) return TP_OK;
  tp__inside_leave(frame);
  return tp__fail(fault, status, NULL, "the phase was not run: %s", tp_status_text(status));
}

/* Makes the calling thread the owner of the turn. The first check is the common case, in which nothing prevents
 * that. */
static inline tp_status enter_phase(tp_turn *turn, tp__inside *frame, tp_fault *fault) {
  const tp__strand *strand = &turn->core.strand;
  const tp_runtime *runtime = turn->core.runtime;
  if (!turn->core.host_held || !turn->core.is_named || tp__inside_any() || tp__aptr_load_relaxed(&strand->inbox) ||
      strand->wake_ns != TP__NEVER || tp__runtime_is_of_parent(runtime) ||
      tp__runtime_life(runtime) >= TP__LIFE_STOPPING || tp__a32_load_acquire(&turn->core.busy))
    return enter_slowly(turn, frame, fault);
  tp__a32_store_relaxed(&turn->core.busy, 1); /* as in tp__turn_enter() */
  tp__inside_enter(frame, runtime, TP__THREAD_OWNER);
  return TP_OK;
}

tp_status tp_phase_run(tp_turn *turn, uint32_t phase, const tp_phase_input *input, tp_phase_result *result,
                       tp_fault *fault) {
  if (!turn) return tp__fail_null(fault, "turn");
  const tp__plan *plan = phase < TP_PHASE_LIMIT ? tp__turn_plan(&turn->core, phase) : NULL;
  if (!plan) TP__TRY(check_phase(turn, phase, fault));
  if (result->struct_size != sizeof *result) TP__TRY(tp__size_check(result, "tp_phase_result", fault));
  if (!plan) return run_empty(turn, phase, input, result, fault);
  tp__inside frame;
  TP__TRY(enter_phase(turn, &frame, fault));
  bool may_take_fast_path = !input && !tp__turn_has_listener(turn);
  tp__entry *entry = may_take_fast_path ? tp__entry_run_inline(&turn->core, plan, NULL, 0) : NULL;
  tp_status status = TP_OK;
  if (entry && entry->ended) {
    clear(result);
    set_fast_path_result(result, entry);
  } else {
    status = run_and_wait(turn, phase, input, entry, result, fault);
  }
  tp__turn_exit(turn);
  tp__inside_leave(&frame);
  return status;
}

static void submitted_ended(tp__phase_run *run) {
  tp_turn *turn = run->turn;
  tp__operation *op = &turn->operation;
  tp_phase_end_fn on_end = op->on_phase_end;
  void *ctx = op->ctx;
  if (run->status != TP_OK) run->result.outcome = run->status;
  if (op->arena.allocator) tp__arena_fini(&op->arena);
  op->arena.allocator = NULL;
  tp__a32_store_release(&turn->core.busy, 0);
  on_end(ctx, &run->result); /* an operation that the callback submits begins when it has returned */
}

static void submitted_delivered(tp__message *message) {
  tp__operation *op = TP__CONTAINER(message, tp__operation, message);
  op->phase.turn = TP__CONTAINER(op, tp_turn, operation);
  op->phase.phase = op->phase_id;
  op->phase.own_contexts = op->phase.ignores_cancel = false;
  op->phase.budget_ns = op->budget_ns;
  op->phase.fields = op->fields;
  op->phase.field_count = op->field_count;
  op->phase.on_end = submitted_ended;
  tp__phase_begin(&op->phase);
}

/* Copies the payload, which must stay until the end. */
static bool copy_payload(tp_turn *turn, const tp__phase_run *run) {
  tp__operation *op = &turn->operation;
  tp_field *copy = NULL;
  op->field_count = run->field_count;
  op->fields = NULL;
  if (run->field_count == 0) return true;
  tp__arena_init(&op->arena, &tp__runtime_blocks(turn->core.runtime)->as_allocator, NULL, 0, 0);
  if (!tp__fields_copy(&op->arena, run->fields, run->field_count, &copy)) {
    tp__arena_fini(&op->arena);
    op->arena.allocator = NULL;
    return false;
  }
  op->fields = copy;
  return true;
}

tp_status tp_phase_submit(tp_turn *turn, uint32_t phase, const tp_phase_input *input, tp_phase_end_fn on_end, void *ctx,
                          tp_fault *fault) {
  if (!turn) return tp__fail_null(fault, "turn");
  bool is_known = phase < TP_PHASE_LIMIT && tp__turn_plan(&turn->core, phase); /* who has a plan is */
  if (!is_known) TP__TRY(check_phase(turn, phase, fault));
  if (!on_end)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_phase_submit needs on_end: nothing else says when the phase ended");
  if (tp__runtime_options(turn->core.runtime)->no_engine_workers)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the runtime has no engine workers: use tp_phase_run()");
  tp__phase_run run;
  run.field_count = 0;
  run.budget_ns = 0;
  if (input) TP__TRY(read_input(turn, phase, input, &run, fault));
  tp_status status = tp__turn_begin_operation(&turn->core);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "the operation was not begun: %s", tp_status_text(status));
  tp__operation *op = &turn->operation;
  if (!copy_payload(turn, &run)) {
    tp__a32_store_release(&turn->core.busy, 0);
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the payload");
  }
  op->phase_id = phase;
  op->budget_ns = run.budget_ns;
  op->on_phase_end = on_end;
  op->ctx = ctx;
  op->message.deliver = submitted_delivered;
  tp__turn_submit(turn, &op->message);
  return TP_OK;
}

/* A result is memory of the turn, so only the owner may release it. The owner here is a callback of the turn, or the
 * host's thread, which holds the turn or becomes its owner for a moment. Any other callback or handler is not the
 * owner, and must not wait for it, because the owner might wait for this callback. Then the result stays until the
 * turn's end. */
static __attribute__((noinline)) void release_entry(tp_turn *turn, tp_phase_result *result) {
  tp__strand *strand = &turn->core.strand;
  if (tp__strand_is_here(strand)) {
    tp__phase_let_go(result);
  } else if (tp__inside_is_of(turn->core.runtime)) {
    clear(result);
  } else if (turn->core.host_held) {
    tp__phase_let_go(result);
  } else {
    tp__strand_acquire(strand);
    tp__phase_let_go(result);
    tp__strand_leave_to_workers(strand);
  }
}

void tp_phase_result_release(tp_turn *turn, tp_phase_result *result) {
  if (turn && result && result->entry) release_entry(turn, result);
}

const tp_run_record *tp_phase_result_run(const tp_phase_result *result, uint32_t index) {
  if (!result) return NULL;
  if (!result->entry || index >= result->run_count) return NULL;
  const tp_run_record *rows = tp__entry_runs(result->entry);
  return rows ? &rows[index] : NULL;
}
