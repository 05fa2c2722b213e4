/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#include "commit_work.h"
#include "ask_work.h"
#include "history.h"
#include "load_work.h"
#include "compaction_work.h"
#include "nested_work.h"
#include "task_work.h"
#include "loop.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/share.h"
#include "session_work.h"
#include "tool_work.h"
#include "turn_work.h"

void world_fail(world *w, const char *property, const char *format, ...) {
  if (world_failed(w)) return;
  int size = snprintf(w->failure, sizeof w->failure, "%s: ", property);
  va_list args;
  va_start(args, format);
  vsnprintf(w->failure + size, sizeof w->failure - (size_t)size, format, args);
  va_end(args);
}

static void *host_alloc(void *ctx, size_t size) {
  (void)ctx;
  return malloc(size);
}
static void host_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

static bool refusing; /* whether the current play refuses */

/* Refusals are for the engine's threads, not for those of the test. Between the switch and the start, other threads run
 * only at the start's first point; a refusal that is skipped there is as good as another draw. */
tp__thread *world_start_joined(const char *name, void (*run)(void *arg), void *arg) {
  tp_allocator allocator = {.alloc = host_alloc, .release = host_release};
  tp__thread *thread = NULL;
  tp__sim_refusals(false);
  tp_status status = tp__thread_start(&allocator, name, run, arg, &thread);
  tp__sim_refusals(refusing);
  return status == TP_OK ? thread : NULL;
}

tp__thread *world_start(const char *name, void (*run)(void *arg), void *arg) {
  tp__thread *thread = world_start_joined(name, run, arg);
  if (thread) tp__thread_detach(thread);
  return thread;
}

static void refuse(bool on) {
  refusing = on;
  tp__sim_refusals(on);
}

/* ---- the store: the memory store, which counts and sometimes refuses ---- */

static bool store_refuses(const world *w) {
  return refusing && w->s->store_refuse_inverse && tp__sim_random(w->s->store_refuse_inverse) == 0;
}

/* The place of the id in the table, or the place where it would be inserted. */
static uint64_t *record_place(const world *w, uint64_t entry_id) {
  size_t mask = w->record_capacity - 1, at = (size_t)(entry_id * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;
  while (w->records[at] && w->records[at] != entry_id) at = (at + 1) & mask;
  return &w->records[at];
}

bool world_recorded(const world *w, uint64_t entry_id) {
  return w->record_count > 0 && *record_place(w, entry_id) == entry_id;
}

static void grow_records(world *w) {
  world old = {.records = w->records, .record_capacity = w->record_capacity};
  w->record_capacity = w->record_capacity ? w->record_capacity * 2 : 1024;
  w->records = calloc(w->record_capacity, sizeof *w->records);
  if (!w->records) abort();
  for (size_t i = 0; i < old.record_capacity; i++)
    if (old.records[i]) *record_place(w, old.records[i]) = old.records[i];
  free(old.records);
}

static void note_record(world *w, uint64_t entry_id) {
  if (world_recorded(w, entry_id))
    world_fail(w, "one record per entry", "entry %llu is recorded again", (unsigned long long)entry_id);
  if (2 * w->record_count >= w->record_capacity) grow_records(w);
  *record_place(w, entry_id) = entry_id;
  w->record_count++;
}

/* Called for an entry that has not ended: with any states, and never after its end. The memory store keeps no such
 * record. */
static tp_status note_open_entry(world *w, const tp_entry_record *record) {
  if (world_recorded(w, record->entry_id))
    world_fail(w, "no entry is open after its end", "entry %llu", (unsigned long long)record->entry_id);
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    if (!record->run(record->source, i, &run) || run.state < TP_STATE_QUEUED || run.state > TP_STATE_SKIPPED)
      world_fail(w, "every run of an open entry has a state", "entry %llu, row %zu",
                 (unsigned long long)record->entry_id, i);
  }
  return store_refuses(w) ? TP_ERR_STORE : TP_OK;
}

static tp_status store_record(void *ctx, const tp_entry_record *record) {
  world *w = ctx;
  if (!record->ended_ns) return note_open_entry(w, record);
  note_record(w, record->entry_id);
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    if (!record->run(record->source, i, &run) || run.state < TP_STATE_SUCCEEDED)
      world_fail(w, "every subscription accounted for", "entry %llu is recorded with row %zu not settled",
                 (unsigned long long)record->entry_id, i);
  }
  return store_refuses(w) ? TP_ERR_STORE : w->inner->record(w->inner->ctx, record);
}
/* Called once for each driven turn. */
static tp_status store_turn_record(void *ctx, const tp_turn_record *record) {
  world *w = ctx;
  uint64_t number = record->number;
  if (!record->process_run_id || !number || record->ended_ns < record->started_ns || !record->outcome)
    world_fail(w, "a turn's record is whole", "number %llu", (unsigned long long)number);
  if (number < WORLD_TURNS && w->turn_recorded[number]++)
    world_fail(w, "one record per turn", "number %llu is recorded again", (unsigned long long)number);
  if (record->running_number < WORLD_TURNS) w->turn_is_over[record->running_number] = record->running_number > 0;
  tp__sim_point();
  return store_refuses(w) ? TP_ERR_STORE : w->inner->turn_record(w->inner->ctx, record);
}

/* Called for a turn that has not ended: the record lists the steps that have ended, then open ones. It is never called
 * after the turn's end. */
static tp_status store_turn_running(void *ctx, const tp_turn_record *record) {
  world *w = ctx;
  bool is_open = false, is_whole = record->number && record->state == TP_STATE_RUNNING && !record->outcome &&
                                   record->started_ns > 0 && record->ended_ns >= record->started_ns;
  for (size_t i = 0; i < record->step_count; i++) {
    tp_turn_step step = {.struct_size = sizeof step};
    is_whole = is_whole && record->step(record->step_source, i, &step) && step.kind && !(is_open && step.ended_ns);
    is_open = step.ended_ns == 0;
  }
  if (!is_whole) world_fail(w, "the record of a turn that runs is whole", "%llu", (unsigned long long)record->number);
  if (record->number < WORLD_TURNS && w->turn_is_over[record->number])
    world_fail(w, "no turn runs after its end", "number %llu", (unsigned long long)record->number);
  tp__sim_point();
  return store_refuses(w) ? TP_ERR_STORE : w->inner->turn_running(w->inner->ctx, record);
}

static tp_status store_commit(void *ctx, tp_fault *fault) { return (void)ctx, (void)fault, TP_OK; }

static tp_status store_turns_running(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx,
                                     tp_fault *fault) {
  return ((world *)ctx)->inner->turns_running(((world *)ctx)->inner->ctx, query, each, each_ctx, fault);
}
static tp_status store_audit(void *ctx, const tp_audit *row) {
  world *w = ctx;
  if (!row->action || !w->store_opens) world_fail(w, "an audit row is whole", "%s", row->action ? row->action : "?");
  if (w->in_audit++) world_fail(w, "audit rows come one at a time", "%s", row->action);
  tp__sim_point();
  w->in_audit--;
  return store_refuses(w) ? TP_ERR_STORE : TP_OK;
}
static tp_status store_record_late(void *ctx, const tp_late_record *late) {
  world *w = ctx;
  return w->inner->record_late(w->inner->ctx, late);
}
static tp_status store_job_insert(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  world *w = ctx;
  return store_refuses(w) ? TP_ERR_STORE : w->inner->job_insert(w->inner->ctx, job, ret_id, ret_existed, fault);
}
/* The store's functions may block; a thread for which no other one waits calls these two. */
static void lag(void) {
  if (tp__sim_random(4) == 0) tp__sim_sleep_ns((int64_t)tp__sim_random(2 * TP__NS_PER_MS));
}
static tp_status store_job_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  world *w = ctx;
  lag();
  return w->inner->job_claim(w->inner->ctx, request, ret_next_ms, fault);
}
static tp_status store_job_renew(void *ctx, const tp_job_renew *request, tp_fault *fault) {
  world *w = ctx;
  lag();
  return store_refuses(w) ? TP_ERR_STORE : w->inner->job_renew(w->inner->ctx, request, fault);
}
static tp_status store_job_finish(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault) {
  world *w = ctx;
  lag();
  return w->inner->job_finish(w->inner->ctx, request, ret_state, fault);
}
static tp_status store_job_finish_all(void *ctx, const tp_job_finish *const *requests, size_t count,
                                      uint32_t *ret_states, tp_status *ret_statuses, tp_fault *fault) {
  world *w = ctx;
  lag();
  return w->inner->job_finish_all(w->inner->ctx, requests, count, ret_states, ret_statuses, fault);
}
static tp_status store_job_insert_all(void *ctx, const tp_job *const *jobs, size_t count, uint64_t *ret_ids,
                                      bool *ret_existed, tp_status *ret_statuses, tp_fault *fault) {
  world *w = ctx;
  lag();
  if (store_refuses(w)) return TP_ERR_STORE;
  return w->inner->job_insert_all(w->inner->ctx, jobs, count, ret_ids, ret_existed, ret_statuses, fault);
}
static tp_status store_job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault) {
  world *w = ctx;
  return w->inner->job_open(w->inner->ctx, order_key, ret_count, fault);
}
static tp_status store_records(void *ctx, const tp_record_query *query, tp_record_fn each, void *each_ctx,
                               tp_fault *fault) {
  world *w = ctx;
  return w->inner->records(w->inner->ctx, query, each, each_ctx, fault);
}
static tp_status store_jobs(void *ctx, const tp_job_query *query, tp_job_each_fn each, void *each_ctx,
                            tp_fault *fault) {
  world *w = ctx;
  return w->inner->jobs(w->inner->ctx, query, each, each_ctx, fault);
}
static tp_status store_job_redrive(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault) {
  world *w = ctx;
  return w->inner->job_redrive(w->inner->ctx, id, now_ms, fault);
}
static tp_status store_job_discard(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault) {
  world *w = ctx;
  return w->inner->job_discard(w->inner->ctx, id, now_ms, fault);
}
static tp_status store_open(void *ctx, const tp_store_owner *owner, tp_fault *fault) {
  world *w = ctx;
  (void)owner, (void)fault;
  lag();
  if (w->store_opens > 0) world_fail(w, "a store is opened once", "it was opened before");
  w->store_opens++;
  return TP_OK;
}
static void store_destroy(void *ctx) {
  world *w = ctx;
  w->store_destroys++;
  world_destructor(w);
  w->inner->destroy(w->inner->ctx);
}

static tp_status make_store(world *w) {
  tp_allocator allocator = tp__sim_allocator();
  tp_store_memory_options options = {.struct_size = sizeof options, .records_max = 64, .jobs_max = w->s->jobs_max};
  TP__TRY(tp_store_memory_new(&allocator, &options, &w->inner, NULL));
  w->store = (tp_store){.struct_size = sizeof w->store,
                        .ctx = w,
                        .name = "sim",
                        .open = store_open,
                        .record = store_record,
                        .turn_record = store_turn_record,
                        .turn_running = store_turn_running,
                        .commit = store_commit,
                        .turns_running = store_turns_running,
                        .durable = w->s->node_count % 2, /* what the store says of itself: it is durable in scripts with
                                                            an odd number of nodes */
                        .audit = store_audit,
                        .record_late = store_record_late,
                        .job_insert = store_job_insert,
                        .job_claim = store_job_claim,
                        .job_renew = store_job_renew,
                        .job_finish = store_job_finish,
                        .job_finish_all = w->s->seed % 4 == 0 ? NULL : store_job_finish_all,
                        .job_insert_all = w->s->seed % 3 == 0 ? NULL : store_job_insert_all,
                        .job_open = store_job_open,
                        .records = store_records,
                        .jobs = store_jobs,
                        .job_redrive = store_job_redrive,
                        .job_discard = store_job_discard,
                        .destroy = store_destroy};
  return TP_OK;
}

/* ---- registration ---- */

static void handler_destroyed(void *ctx) {
  node_actor *actor = ctx;
  actor->destroys++;
  if (actor->w->s->nodes[actor->index].inbox) world_destructor_by_host(actor->w);
  else world_destructor(actor->w);
}
static void match_destroyed(void *ctx) {
  node_actor *actor = ctx;
  actor->match_destroys++;
  world_destructor(actor->w);
}
static int32_t match_run(void *ctx, const tp_match_view *view) {
  const node_actor *actor = ctx;
  int match = actor->w->s->nodes[actor->index].match;
  if (tp_match_int(view, SCRIPT_FIELD_OP) < 0 || match == 2) return TP_MATCH_NO;
  return match == 1 ? TP_MATCH_YES : TP_MATCH_NONE;
}

static tp_placement placement_of(const world *w, const script_node *node) {
  if (!node->is_inline) return TP_PLACEMENT_THREAD;
  return w->s->all_parallel ? TP_PLACEMENT_PARALLEL : TP_PLACEMENT_INLINE;
}

static tp_status add_handler(tp_edit *edit, node_actor *actor, const script_node *node) {
  uint32_t phase = TP_PHASE_HOST + (uint32_t)node->phase;
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = node->id,
                        .run = node->inbox ? NULL : handler_run,
                        .inbox = node->inbox ? actor->w->inbox : NULL,
                        .ctx = actor,
                        .destroy = handler_destroyed,
                        .phases = &phase,
                        .phase_count = 1,
                        .capabilities = TP_CAPABILITY_DECIDE | TP_CAPABILITY_REPLACE_PAYLOAD |
                                        TP_CAPABILITY_EMIT_AUDIT | TP_CAPABILITY_EMIT_REMINDER |
                                        TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT | TP_CAPABILITY_CONTRIBUTE_POLICY,
                        .placement = placement_of(actor->w, node),
                        .idempotent = node->attempts > 1};
  TP__TRY(tp_edit_add_handler(edit, &handler, NULL));
  actor->taken = true;
  return TP_OK;
}

static tp_status add_subscription(tp_edit *edit, world *w, node_actor *actor, const script_node *node) {
  tp_edge edges[SCRIPT_EDGES_MAX];
  const tp_edge *after[SCRIPT_EDGES_MAX], *needs[SCRIPT_EDGES_MAX];
  tp_contribution fallback[2];
  const tp_contribution *const fallbacks[2] = {&fallback[0], &fallback[1]};
  char texts[2][32];
  tp_subscription sub = {.struct_size = sizeof sub,
                         .id = node->id,
                         .handler = node->id,
                         .phase = TP_PHASE_HOST + (uint32_t)node->phase,
                         .disabled = node->disabled,
                         .priority = node->priority,
                         .execution = node->execution,
                         .limit_ms = node->limit_ms,
                         .failure = node->failure,
                         .fallback_verdict = node->fallback_verdict,
                         .fallback = node->fallback_count ? fallbacks : NULL,
                         .fallback_count = node->fallback_count,
                         .attempts = node->attempts,
                         .backoff = node->backoff,
                         .backoff_ms = node->backoff_ms,
                         .max_concurrent = node->max_concurrent,
                         .sequential = node->sequential,
                         .after = after,
                         .needs = needs};
  for (uint32_t i = 0; i < node->edge_count; i++) {
    const script_edge *edge = &node->edges[i];
    edges[i] = (tp_edge){.struct_size = sizeof *edges,
                         .target = edge->target < 0 ? "ghost" : w->s->nodes[edge->target].id,
                         .optional = edge->optional};
    if (edge->requires_success) needs[sub.needs_count++] = &edges[i];
    else after[sub.after_count++] = &edges[i];
  }
  for (uint32_t i = 0; i < node->fallback_count; i++) {
    snprintf(texts[i], sizeof texts[i], "fallback n%d", actor->index);
    fallback[i] = (tp_contribution){.struct_size = sizeof(tp_contribution),
                                    .kind = TP_CONTRIBUTION_AUDIT,
                                    .key = tp_text_of("fallback"),
                                    .text = tp_text_of(texts[i])};
  }
  static const uint32_t match_fields[] = {SCRIPT_FIELD_OP};
  const tp_match match = {.struct_size = sizeof match,
                          .matches = match_run,
                          .destroy = match_destroyed,
                          .ctx = actor,
                          .description = "as the script says",
                          .fields = match_fields,
                          .field_count = 1};
  if (node->match) sub.match = &match;
  TP__TRY(tp_edit_add_subscription(edit, &sub, NULL));
  actor->match_taken = node->match != 0;
  return TP_OK;
}

static tp_status subscribe(tp_edit *edit, const world_hook *hook, const char *id, uint32_t phase) {
  tp_subscription subscription = {.struct_size = sizeof subscription,
                                  .id = id,
                                  .handler = hook->id,
                                  .phase = hook->alias && phase == hook->phase ? 0 : phase,
                                  .phase_name = phase == hook->phase ? hook->alias : NULL,
                                  .attempts = hook->attempts,
                                  .failure = hook->failure,
                                  .backlog = hook->backlog,
                                  .execution = hook->background ? TP_EXECUTION_BACKGROUND : TP_EXECUTION_DEFAULT};
  return tp_edit_add_subscription(edit, &subscription, NULL);
}

tp_status world_subscribe(world *w, tp_edit *edit, const world_hook *hook) {
  uint32_t phases[] = {hook->phase, hook->also};
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = hook->id,
                        .run = hook->run,
                        .ctx = w,
                        .phases = phases,
                        .phase_count = hook->also ? 2 : 1,
                        .capabilities = hook->capabilities,
                        .placement = hook->is_inline ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD,
                        .idempotent = hook->attempts > 1};
  if (hook->alias && tp_phase_find(w->runtime, hook->alias) != hook->phase)
    world_fail(w, "an alias is a phase's name", "%s", hook->alias);
  TP__TRY(tp_edit_add_handler(edit, &handler, NULL));
  TP__TRY(subscribe(edit, hook, hook->id, hook->phase));
  char id[24];
  snprintf(id, sizeof id, "%s.also", hook->id);
  return hook->also ? subscribe(edit, hook, id, hook->also) : TP_OK;
}

static tp_status add_all(world *w, tp_edit *edit, tp_fault *fault) {
  for (uint32_t i = 0; i < w->s->node_count; i++) {
    TP__TRY(add_handler(edit, &w->nodes[i], &w->s->nodes[i]));
    TP__TRY(add_subscription(edit, w, &w->nodes[i], &w->s->nodes[i]));
  }
  if (w->s->turn_work_count) TP__TRY(turn_work_register(w, edit));
  if (w->s->tool_work_count) TP__TRY(tool_work_register(w, edit));
  load_work_watch(w);
  if (ask_work_applies(w)) TP__TRY(ask_work_register(w, edit));
  if (w->session_work) TP__TRY(session_work_register(w, edit));
  if (w->s->nested) TP__TRY(nested_work_register(w, edit));
  if (w->s->tasks) TP__TRY(task_work_register(w, edit));
  if (w->s->compaction) TP__TRY(compaction_work_register(w, edit));
  if (w->s->loop_count) TP__TRY(loop_register(w, edit));
  if (w->s->idle_sessions) TP__TRY(idle_register(w, edit));
  return tp_edit_commit(edit, NULL, fault);
}

/* Idle workers help, as many and for as long as the script says. */
static void set_helpers(world *w) {
  tp__runtime_helpers(w->runtime)->max = w->s->helpers_max;
  tp__runtime_helpers(w->runtime)->search_ns = w->s->search_ns;
}

static tp_status register_all(world *w, tp_fault *fault) {
  static const tp_owner owner = {
      .struct_size = sizeof owner, .name = "host", .trust = TP_TRUST_HOST, .grants = TP_GRANT_PRIVILEGED_HOOKS};
  tp_edit *edit;
  TP__TRY(tp_edit_begin(w->runtime, &owner, &edit, NULL));
  tp_status status = add_all(w, edit, fault);
  if (status != TP_OK) {
    tp_edit_discard(edit);
    return status;
  }
  for (uint32_t i = 0; i < w->s->node_count && status == TP_OK; i++)
    if (w->s->nodes[i].killed) status = tp_subscription_kill(w->runtime, w->s->nodes[i].id, true, NULL);
  return status;
}

static tp_status build(world *w, uint32_t workers, tp_fault *fault) {
  tp_runtime_options options = w->s->options;
  if (workers > 2) options.pump = false; /* a script with a pump has the same outcomes with threads */
  if (workers && !options.pump) options.engine_workers = workers;
  options.allocator = tp__sim_allocator();
  script_rows(w->s, w->rows);
  const tp_phase *rows[SCRIPT_PHASES];
  for (int i = 0; i < SCRIPT_PHASES; i++) rows[i] = &w->rows[i];
  options.phases = rows;
  options.phase_count = SCRIPT_PHASES;
  TP__TRY(history_open(w));
  TP__TRY(make_store(w));
  options.store = &w->store;
  if (w->store.durable) options.durability = TP_DURABILITY_ASYNC; /* what runs is shown, too */
  options.shared_history = w->history;
  tool_work_set_people(w, &options);
  if (w->s->tasks) options.ask_limit_ms = TASK_WORK_ASK_MS;
  tp_status status = tp_runtime_new(&options, &w->runtime, fault);
  w->store_taken = status == TP_OK;
  /* A drain leaves the jobs of a durable store to the next process, which is not part of the play. */
  if (status == TP_OK) ((tp_store *)(uintptr_t)tp__runtime_store(w->runtime))->durable = 0;
  if (!w->store_taken) tp_store_free(w->inner);
  if (status == TP_OK) status = taker_open(w);
  if (status == TP_OK) status = register_all(w, fault);
  if (status == TP_OK && w->s->all_parallel) set_helpers(w);
  return status;
}

/* ---- hosts ---- */

bool world_heard(world *w, event_order *order, const tp_event *event) {
  bool own = tp_text_equal(event->ids[TP_ID_TURN], event->ids[TP_ID_SESSION]);
  uint64_t *last = own ? &order->turns : &order->ends;
  if (event->sequence != *last + 1)
    world_fail(w, "events in order", "event %llu follows %llu", (unsigned long long)event->sequence,
               (unsigned long long)*last);
  *last = event->sequence;
  return own;
}

static void on_event(void *ctx, const tp_event *event) {
  turn_actor *turn = ctx;
  if (!world_heard(turn->w, &turn->heard, event)) return;
  if (event->kind == TP_EVENT_PHASE_BEGIN) turn->run_events = 0;
  if (event->kind == TP_EVENT_RUN) turn->run_events++;
}

static uint32_t op_number(const turn_actor *turn, uint32_t op) { return turn->index * SCRIPT_OPS_MAX + op; }

/* Called from a callback, which must not wait: releases a result of another turn, whatever that turn is doing. The end
 * of that turn waits for this callback. */
static void release_another(world *w, const turn_actor *here) {
  turn_actor *other = &w->turns[tp__sim_random(w->s->turn_count)];
  uint32_t op = (uint32_t)tp__sim_random(w->s->turns[other->index].op_count);
  op_note *note = &w->ops[op_number(other, op)];
  if (other == here) return;
  tp__mutex_lock(&w->results);
  tp_phase_result taken = note->result;
  if (other->ending) taken.entry = NULL;
  if (taken.entry) {
    other->releasers++;
    note->result = (tp_phase_result){0};
  }
  tp__mutex_unlock(&w->results);
  if (!taken.entry) return;
  tp_phase_result_release(other->turn, &taken);
  if (taken.entry) world_fail(w, "a released result is gone", "of turn %u", other->index);
  other->releasers--;
}

/* Called on the turn's owner when the operation has ended. */
static void op_ended(turn_actor *turn, uint32_t op, const tp_phase_result *result) {
  world *w = turn->w;
  op_note *note = &w->ops[op_number(turn, op)];
  oracle_op_ended(w, op_number(turn, op), result);
  if (world_op(w, op_number(turn, op))->release && result->entry) {
    tp_phase_result own = *result;
    oracle_op_again(w, op_number(turn, op), result);
    tp_phase_result_release(turn->turn, &own);
    return;
  }
  tp__mutex_lock(&w->results);
  note->result = *result;
  tp__mutex_unlock(&w->results);
}

static void end_turn(turn_actor *turn) {
  world *w = turn->w;
  turn->ending = true;
  while (turn->releasers) tp__sim_sleep_ns(TP__NS_PER_US);
  for (uint32_t op = 0; op < w->s->turns[turn->index].op_count; op++) {
    op_note *note = &w->ops[op_number(turn, op)];
    if (note->result.entry) oracle_op_again(w, op_number(turn, op), &note->result);
  }
  tp_turn_end(turn->turn);
}

static bool may_refuse(const world *w, tp_status status) {
  switch (status) {
    case TP_OK:
      return true;
    case TP_ERR_SHUTDOWN:
      return w->draining;
    case TP_ERR_FULL:
      return w->s->options.turns_max > 0 || w->s->options.turns_running_max > 0 ||
             w->s->options.handler_queue_max > 0 || w->s->options.pump;
    case TP_ERR_NO_MEMORY:
    case TP_ERR_NO_THREAD:
      return w->s->fault_level == FAULTS_REFUSALS;
    default:
      return false;
  }
}

void world_check_status(world *w, const char *what, tp_status status) {
  if (!may_refuse(w, status)) world_fail(w, "no refusal without a reason", "%s gave %s", what, tp_status_name(status));
}

typedef struct op_input {
  tp_field fields[2];
  tp_phase_input input;
} op_input;

static void fill_input(op_input *in, const turn_actor *turn, uint32_t op) {
  in->fields[0] = (tp_field){.id = SCRIPT_FIELD_OP, .kind = TP_FIELD_KIND_INT, .number = op_number(turn, op)};
  in->fields[1] = (tp_field){.id = SCRIPT_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("first")};
  in->input = (tp_phase_input){.struct_size = sizeof in->input, .fields = in->fields, .field_count = 2};
  in->input.budget_ms = world_op(turn->w, op_number(turn, op))->budget_ms;
}

static void submitted_ended(void *ctx, const tp_phase_result *result);

static tp_status submit(turn_actor *turn, uint32_t op) {
  op_input in;
  fill_input(&in, turn, op);
  op_note *note = &turn->w->ops[op_number(turn, op)];
  turn->next_op = op + 1;
  note->begun = true;
  note->begun_ns = tp__now_ns();
  uint32_t phase = TP_PHASE_HOST + (uint32_t)world_op(turn->w, op_number(turn, op))->phase;
  tp_status status = tp_phase_submit(turn->turn, phase, &in.input, submitted_ended, turn, NULL);
  if (status != TP_OK) note->begun = false;
  world_check_status(turn->w, "tp_phase_submit", status);
  return status;
}

static void submitted_ended(void *ctx, const tp_phase_result *result) {
  turn_actor *turn = ctx;
  const script_turn *plan = &turn->w->s->turns[turn->index];
  op_ended(turn, turn->next_op - 1, result);
  if (world_one_in(3)) release_another(turn->w, turn);
  if (plan->chained) {
    while (turn->next_op < plan->op_count)
      if (submit(turn, turn->next_op) == TP_OK) return;
    end_turn(turn);
  }
  tp__parker_unpark(&turn->parker);
}

static void run_here(turn_actor *turn, uint32_t op) {
  op_input in;
  fill_input(&in, turn, op);
  op_note *note = &turn->w->ops[op_number(turn, op)];
  note->begun = true;
  note->begun_ns = tp__now_ns();
  tp_phase_result result = {.struct_size = sizeof result};
  uint32_t phase = TP_PHASE_HOST + (uint32_t)world_op(turn->w, op_number(turn, op))->phase;
  tp_status status = tp_phase_run(turn->turn, phase, &in.input, &result, NULL);
  world_check_status(turn->w, "tp_phase_run", status);
  if (status == TP_OK) op_ended(turn, op, &result);
  else note->begun = false;
}

static void cancel_later(void *arg) {
  turn_actor *turn = arg;
  tp__sim_sleep_ns(turn->w->s->turns[turn->index].cancel_ns);
  if (!turn->cancelled_ns) turn->cancelled_ns = tp__now_ns();
  tp_turn_cancel(turn->turn);
  tp_turn_cancel(turn->turn);
}

static void run_ops(turn_actor *turn) {
  const script_turn *plan = &turn->w->s->turns[turn->index];
  if (plan->chained) {
    while (turn->next_op < plan->op_count)
      if (submit(turn, turn->next_op) == TP_OK) {
        tp__parker_park_until(&turn->parker, TP__NEVER);
        return;
      }
    end_turn(turn);
    return;
  }
  for (uint32_t op = 0; op < plan->op_count; op++) {
    if (!plan->ops[op].submitted) run_here(turn, op);
    else if (submit(turn, op) == TP_OK) tp__parker_park_until(&turn->parker, TP__NEVER);
  }
}

static void session_closed(void *ctx) {
  turn_actor *turn = ctx;
  turn->session_closed = true;
  tp__parker_unpark(&turn->parker);
}

static tp_status begin_turn(turn_actor *turn) {
  world *w = turn->w;
  const script_turn *plan = &w->s->turns[turn->index];
  char id[16];
  snprintf(id, sizeof id, "s%u", turn->index);
  tp_turn_request request = {.struct_size = sizeof request, .id = id, .limit_ms = plan->limit_ms};
  if (plan->in_session) {
    tp_session_options options = {.struct_size = sizeof options, .id = id, .on_event = on_event, .event_ctx = turn};
    TP__TRY(tp_session_open(w->runtime, &options, &turn->session, NULL));
  }
  tp_status status = turn->session ? tp_turn_begin(turn->session, &request, &turn->turn, NULL)
                                   : tp_turn_begin_bare(w->runtime, &request, &turn->turn, NULL);
  if (plan->limit_ms) turn->limit_end_ns = tp__now_ns() + plan->limit_ms * (int64_t)TP__NS_PER_MS;
  return status;
}

static void host_run(void *arg) {
  turn_actor *turn = arg;
  const script_turn *plan = &turn->w->s->turns[turn->index];
  tp__sim_sleep_ns(plan->begin_ns);
  tp_status status = begin_turn(turn);
  world_check_status(turn->w, "to begin a turn", status);
  if (status == TP_OK) {
    tp__thread *canceller = plan->cancel_ns ? world_start_joined("canceller", cancel_later, turn) : NULL;
    run_ops(turn);
    if (canceller) tp__thread_join(canceller);
    if (!plan->chained) end_turn(turn);
  }
  if (turn->session) {
    tp_session_close(turn->session, session_closed, turn);
    while (!turn->session_closed) tp__parker_park_until(&turn->parker, TP__NEVER);
  }
}

/* ---- mischief ---- */

enum { WALL_JUMP_MS = 1000 };

/* Completes tokens that are over, and numbers that never were tokens. */
static void poke_run(void *arg) {
  world *w = arg;
  static const tp_outcome done = {.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE};
  for (uint32_t i = 0; i < w->s->pokes; i++) {
    tp__sim_sleep_ns((int64_t)tp__sim_random(10 * TP__NS_PER_MS));
    if (w->s->wall_jumps) tp__sim_wall_jump_ms((int64_t)tp__sim_random(WALL_JUMP_MS) - WALL_JUMP_MS / 2);
    tp_token token = {tp__sim_random(UINT64_MAX) | UINT64_C(1) << 62};
    uint32_t skip = w->call_count ? (uint32_t)tp__sim_random(w->call_count) : 0;
    for (const call_note *note = w->calls; note; note = note->next)
      if (note->token_over && skip-- == 0) {
        token = note->token;
        break;
      }
    if (tp_token_complete(token, &done, NULL) != TP_ERR_STALE)
      world_fail(w, "a stale token is harmless", "completing one that was over was not refused");
  }
}

static void kill_run(void *arg) {
  world *w = arg;
  tp__sim_sleep_ns(w->s->kill_ns);
  tp_status status = tp_subscription_kill(w->runtime, w->s->nodes[w->s->kill_node].id, true, NULL);
  world_check_status(w, "tp_subscription_kill", status);
}

typedef struct drain_note {
  tp_drain_report report;
  uint32_t ends;
} drain_note;

static void drain_ended(void *ctx, const tp_drain_report *report) {
  drain_note *note = ctx;
  note->report = *report;
  note->ends++;
}

/* @return whether the drain was accepted: one drain is, where there are memory and a thread. */
static bool drain_submitted(world *w, tp_drain_report *report) {
  drain_note note = {.ends = 0};
  tp_status status = tp_runtime_drain_submit(w->runtime, w->s->drain_limit_ms, drain_ended, &note, NULL);
  if (status == TP_OK && tp__runtime_life(w->runtime) < TP__LIFE_DRAINING)
    world_fail(w, "a drain refuses new turns at once", "it was submitted, and they are taken");
  if (status != TP_OK && status != TP_ERR_BUSY) world_check_status(w, "tp_runtime_drain_submit", status);
  while (status == TP_OK && !note.ends) tp__sim_sleep_ns(20 * TP__NS_PER_MS); /* each poll costs steps */
  *report = note.report;
  return status == TP_OK;
}

static void drain(world *w) {
  tp_drain_report report = {.struct_size = sizeof report};
  tp_status status = TP_OK;
  w->draining = true;
  if (!w->drain_ns) w->drain_ns = tp__now_ns();
  if (!world_one_in(2) || !drain_submitted(w, &report)) {
    report.struct_size = sizeof report;
    status = tp_runtime_drain(w->runtime, w->s->drain_limit_ms, &report, NULL);
  }
  if (status != TP_OK) world_fail(w, "drain ends", "it gave %s", tp_status_name(status));
  if (tp__runtime_life(w->runtime) != TP__LIFE_DRAINED)
    world_fail(w, "drain ends", "it returned while another one was under way");
  if (w->s->fault_level != FAULTS_NONE) return;
  if (report.turns_cancelled || report.leaks || report.jobs_lost || !report.complete)
    world_fail(w, "drain waits for what ends in time", "%llu turns cancelled, %llu leaks, %llu jobs lost",
               (unsigned long long)report.turns_cancelled, (unsigned long long)report.leaks,
               (unsigned long long)report.jobs_lost);
}

static void drain_run(void *arg) {
  world *w = arg;
  tp__sim_sleep_ns(w->s->drain_ns);
  drain(w);
}

static void drain_again(void *arg) {
  world *w = arg;
  tp__sim_sleep_ns(w->s->drain_ns + (int64_t)tp__sim_random(5 * TP__NS_PER_MS));
  drain(w);
}

/* ---- a play ---- */

static void run_hosts(world *w) {
  tp__thread *threads[SCRIPT_TURNS_MAX + SCRIPT_TURN_WORKS_MAX + SCRIPT_TOOL_WORKS_MAX + SCRIPT_EDITORS_MAX +
                      SCRIPT_READERS_MAX + SCRIPT_LOOPS_MAX + 10] = {NULL};
  uint32_t count = 0;
  for (uint32_t i = 0; i < w->s->turn_count; i++) threads[count++] = world_start_joined("host", host_run, &w->turns[i]);
  for (uint32_t i = 0; i < w->s->turn_work_count; i++)
    threads[count++] = world_start_joined("turn workload", turn_work_run, &w->turn_works[i]);
  if (w->s->load_turns && !w->s->options.no_engine_workers)
    threads[count++] = world_start_joined("load", load_work_run, w);
  for (uint32_t i = 0; i < w->s->tool_work_count; i++)
    threads[count++] = world_start_joined("tool workload", tool_work_run, &w->tool_works[i]);
  for (uint32_t i = 0; i < w->s->editor_count; i++)
    threads[count++] = world_start_joined("editor", commit_work_edit, &w->editors[i]);
  for (uint32_t i = 0; i < w->s->reader_count; i++)
    threads[count++] = world_start_joined("reader", commit_work_read, &w->readers[i]);
  if (w->session_work) threads[count++] = world_start_joined("shared", session_work_run, w->session_work);
  if (w->nested) threads[count++] = world_start_joined("nested", nested_work_run, w);
  if (w->tasks) threads[count++] = world_start_joined("tasks", task_work_run, w);
  if (w->compaction) threads[count++] = world_start_joined("compaction", compaction_work_run, w);
  for (uint32_t i = 0; i < w->s->loop_count; i++) threads[count++] = world_start_joined("loop", loop_run, &w->loops[i]);
  if (w->s->idle_sessions) threads[count++] = world_start_joined("idler", idle_run, w);
  if (w->s->looks) threads[count++] = world_start_joined("observer", observer_run, w);
  if (w->s->drain_ns) threads[count++] = world_start_joined("drainer", drain_run, w);
  if (w->s->drain_ns && tp__sim_random(3) == 0) threads[count++] = world_start_joined("drainer", drain_again, w);
  if (w->s->kill_ns) threads[count++] = world_start_joined("killer", kill_run, w);
  for (uint32_t i = 0; i < count; i++)
    if (threads[i]) tp__thread_join(threads[i]);
}

static void look_after_drain(world *w) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(w->runtime, &stats);
  w->jobs_refused = stats.jobs_refused;
  w->jobs_shed = stats.jobs_shed;
  if (stats.jobs_in_line > 0)
    world_fail(w, "drain ends", "it left %llu entries in line for space", (unsigned long long)stats.jobs_in_line);
  if (stats.turns_open > w->destructor_turns)
    world_fail(w, "drain ends", "it left %llu turns open", (unsigned long long)stats.turns_open);
  w->abandoned = stats.attempts_abandoned;
  if (stats.attempts_abandoned < w->handlers_running)
    world_fail(w, "drain ends", "%u functions run, but only %llu are called abandoned", w->handlers_running,
               (unsigned long long)stats.attempts_abandoned);
}

/* Each open token belongs to a call: none was lost on its way to the handler, or back. Other plays hold tokens of their
 * own. */
static void look_at_tokens(world *w) {
  uint32_t held = 0;
  if (w->s->turn_work_count || w->s->tool_work_count || w->session_work || w->s->loop_count || w->s->history) return;
  if (w->load || w->nested || w->compaction || w->tasks) return;
  for (const call_note *note = w->calls; note; note = note->next) held += note->token.bits && !note->token_over;
  uint32_t open = tp__a32_load_relaxed(&tp__runtime_sched(w->runtime)->tokens_open);
  for (int i = 0; i < 1000 && open > held; i++) { /* the completion of a token that is over may not have returned yet */
    tp__sim_sleep_ns(TP__NS_PER_US);
    open = tp__a32_load_relaxed(&tp__runtime_sched(w->runtime)->tokens_open);
  }
  if (open > held) world_fail(w, "no token is lost", "%u are open, and %u are held", open, held);
}

static void complete_after_free(world *w) {
  for (call_note *note = w->calls; note; note = note->next) {
    if (!note->token.bits || (note->move->way != WAY_DEFER_AFTER_FREE && tp__sim_random(4) > 0)) continue;
    if (handler_complete(note) == TP_OK)
      world_fail(w, "a stale token is harmless", "it was taken after tp_runtime_free()");
  }
}

static void play(void *arg) {
  world *w = arg;
  tp_fault fault = {0};
  uint32_t workers = (uint32_t)w->bytes_open; /* passed in by world_play() */
  refuse(w->s->refuse_setup);
  tp_status status = build(w, workers, &fault);
  w->registered = status == TP_OK;
  if (status != TP_OK && !(w->s->refuse_setup && status == TP_ERR_NO_MEMORY))
    world_fail(w, "the script is registered", "%s: %s", tp_status_name(status), fault.message);
  refuse(w->s->fault_level == FAULTS_REFUSALS);
  tp__thread *takers[SCRIPT_TAKERS_MAX] = {NULL};
  for (uint32_t i = 0; w->registered && i < w->s->taker_count; i++)
    takers[i] = world_start_joined("taker", taker_run, w);
  bool pumped = w->registered && tp__runtime_options(w->runtime)->pump;
  tp__thread *pumper = pumped ? world_start_joined("pumper", pumper_run, w) : NULL;
  if (w->registered) {
    if (w->s->pokes) world_start("poker", poke_run, w);
    run_hosts(w);
    if (w->s->fault_level == FAULTS_NONE || tp__sim_random(2)) drain(w);
    w->draining = true;
    if (!w->drain_ns) w->drain_ns = tp__now_ns();
    (void)!tp_runtime_drain(w->runtime, 0, NULL, NULL);
    look_after_drain(w);
  }
  if (pumper) {
    pumper_stop(w);
    tp__thread_join(pumper);
  }
  w->takers_stop = true;
  for (uint32_t i = 0; i < SCRIPT_TAKERS_MAX; i++)
    if (takers[i]) tp__thread_join(takers[i]);
  if (w->registered) taker_look_at_cancels(w);
  if (w->registered) look_at_tokens(w);
  if (w->waits_ended != w->waits_submitted)
    world_fail(w, "a wait for jobs ends once", "%u were submitted, %u have ended", w->waits_submitted, w->waits_ended);
  bool inbox_first = world_one_in(2);
  if (inbox_first) taker_close(w);
  w->draining = true;
  if (w->runtime) tp_runtime_free(w->runtime);
  w->freed = true;
  if (!inbox_first) taker_close(w);
  complete_after_free(w);
  history_after_free(w);
  tp_shared_history_unref(w->history);
  for (uint32_t i = 0; i < w->s->tool_work_count; i++) tool_work_after_free(&w->tool_works[i]);
  for (uint32_t i = 0; i < w->s->loop_count; i++) loop_after_free(&w->loops[i]);
}

static void ready(tp__parker *parker) {
  tp_status status = tp__parker_init(parker);
  assert(status == TP_OK);
  (void)status;
}

static void send_out(world *w) {
  w->tool_works = calloc(w->s->tool_work_count + 1, sizeof *w->tool_works);
  if (!w->tool_works) abort();
  for (uint32_t i = 0; i < w->s->tool_work_count; i++) {
    w->tool_works[i] = (tool_work){.w = w, .index = i};
    ready(&w->tool_works[i].parker);
    tool_work_draw(&w->tool_works[i]);
  }
}

static void make_readers(world *w) {
  w->editors = calloc(w->s->editor_count + 1, sizeof *w->editors);
  w->readers = calloc(w->s->reader_count + 1, sizeof *w->readers);
  if (!w->editors || !w->readers) abort();
  for (uint32_t i = 0; i < w->s->editor_count; i++) {
    w->editors[i].w = w;
    commit_work_name(&w->editors[i], i);
  }
  for (uint32_t i = 0; i < w->s->reader_count; i++) {
    w->readers[i].w = w;
    ready(&w->readers[i].parker);
  }
}

static void gather(world *w) {
  if (!w->s->session_work) return;
  w->session_work = calloc(1, sizeof *w->session_work);
  if (!w->session_work) abort();
  session_work_name(w->session_work, w);
  ready(&w->session_work->parker);
}

static void make_loops(world *w) {
  static const char *const ids[SCRIPT_LOOPS_MAX] = {"loop", "loop-2"};
  w->loops = calloc(w->s->loop_count + 1, sizeof *w->loops);
  if (!w->loops) abort();
  for (uint32_t i = 0; i < w->s->loop_count; i++) {
    w->loops[i].w = w;
    w->loops[i].id = ids[i];
    ready(&w->loops[i].parker);
  }
}

void world_play(world *w, const script *s, uint32_t workers) {
  memset(w, 0, sizeof *w);
  w->s = s;
  for (uint32_t i = 0; i < s->node_count; i++) w->nodes[i] = (node_actor){.w = w, .index = (int)i};
  for (uint32_t i = 0; i < s->turn_count; i++) {
    w->turns[i] = (turn_actor){.w = w, .index = i};
    ready(&w->turns[i].parker);
  }
  w->turn_works = calloc(s->turn_work_count + 1, sizeof *w->turn_works);
  if (!w->turn_works) abort();
  for (uint32_t i = 0; i < s->turn_work_count; i++) {
    w->turn_works[i] = (turn_work){.w = w, .index = i};
    ready(&w->turn_works[i].parker);
  }
  tp_status status = tp__mutex_init(&w->results, TP__RANK_NONE);
  assert(status == TP_OK);
  (void)status;
  send_out(w);
  make_readers(w);
  gather(w);
  make_loops(w);
  owner_watch(w);
  w->bytes_open = workers;
  w->report = tp__sim_run(&s->sim, play, w);
  w->bytes_open = tp__sim_bytes_open();
  if (w->report.end != TP__SIM_DONE) {
    world_fail(w, w->report.end == TP__SIM_LIVELOCK ? "no livelock" : "no deadlock", "%.480s", w->report.message);
  } else {
    oracle_world_ended(w);
    history_ended(w);
    if (w->registered) idle_ended(w);
    for (uint32_t i = 0; i < s->turn_work_count; i++) turn_work_ended(&w->turn_works[i]);
    for (uint32_t i = 0; i < s->tool_work_count; i++) tool_work_ended(&w->tool_works[i]);
    ask_work_ended(w);
    load_work_ended(w);
    nested_work_ended(w);
    task_work_ended(w);
    compaction_work_ended(w);
    for (uint32_t i = 0; i < s->editor_count; i++) commit_work_ended(&w->editors[i]);
    if (w->session_work) session_work_ended(w->session_work);
    for (uint32_t i = 0; i < s->loop_count; i++) loop_ended(&w->loops[i]);
  }
}

void world_fini(world *w) {
  for (uint32_t i = 0; w->turn_works && i < w->s->turn_work_count; i++) turn_work_fini(&w->turn_works[i]);
  free(w->turn_works);
  w->turn_works = NULL;
  for (uint32_t i = 0; w->tool_works && i < w->s->tool_work_count; i++) tool_work_undraw(&w->tool_works[i]);
  free(w->tool_works);
  w->tool_works = NULL;
  free(w->editors);
  free(w->readers);
  free(w->load);
  w->load = NULL;
  free(w->nested);
  w->nested = NULL;
  free(w->tasks);
  w->tasks = NULL;
  free(w->compaction);
  w->compaction = NULL;
  free(w->session_work);
  for (uint32_t i = 0; w->loops && i < w->s->loop_count; i++) loop_fini(&w->loops[i]);
  free(w->loops);
  w->loops = NULL;
  free(w->records);
  history_fini(w);
  w->session_work = NULL;
  w->records = NULL;
  w->editors = NULL;
  w->readers = NULL;
  while (w->calls) {
    call_note *note = w->calls;
    w->calls = note->next;
    free(note);
  }
}
