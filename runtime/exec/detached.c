/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/detached.h"

#include "runtime/exec/exec.h"
#include "runtime/exec/backlog.h"
#include "runtime/exec/blocks.h"
#include "runtime/exec/jobs.h"
#include "runtime/exec/records.h"
#include "runtime/exec/runtime.h"
#include "runtime/plan/registry.h"

/** Whether a job holds one of the places, of which there are as many as threads. */
enum { PLACE_HELD = 0, PLACE_GIVEN = 1, PLACE_ENDED = 2 };

typedef struct detached {
  tp__turn turn;
  tp__turn *parent;
  /* A plan of one node, blocking and best effort: how it is awaited was decided by the entry that detached it */
  tp__plan plan;
  tp__node node;
  tp__inline_node inline_node; /* as the node's: it leaves this thread */
  uint32_t root;
  uint16_t indegree;
  uint64_t start[2]; /* node 0 leaves the owner's thread, waits for no node and has no mark: all zero */
  tp__detached_end_fn on_end;
  void *ctx;
  tp__detached_job job;
  tp__a32 place; /* acq_rel */
  bool starting; /* on_end would come before the start has returned: then the start returns the reason instead */
  tp_reason refused;
  size_t block_size;
} detached;

static void free_detached(tp__turn *turn) {
  detached *d = TP__CONTAINER(turn, detached, turn);
  tp_runtime *runtime = turn->runtime;
  if (d->parent) tp__turn_unref(d->parent);
  tp__turn_fini(turn);
  tp__block_give(tp__runtime_blocks(runtime), d, d->block_size);
}

static void entry_ended(tp__entry *entry) {
  detached *d = entry->ctx;
  const tp__run *run = tp__entry_more(entry, 0);
  assert(run);
  /* Nothing of a detached run is merged, but the jobs that it contributes are stored. */
  const tp__emitted *each = run->first;
  for (uint32_t i = 0; i < run->row.contribution_count; i++, each = each->next)
    if (each->contribution.kind == TP_CONTRIBUTION_BACKGROUND_JOB)
      (void)!tp__jobs_add_contributed(&d->turn, &each->contribution);
  tp__detached_end end = {.state = run->row.state,
                          .reason = run->row.reason,
                          .code = run->row.code,
                          .was_called = run->row.started_ns != 0,
                          .retryable = run->retryable,
                          .gave_place = tp__a32_exchange_acq_rel(&d->place, PLACE_ENDED) == PLACE_GIVEN,
                          .message = run->message};
  if (d->starting) d->refused = end.reason;
  else if (d->on_end) d->on_end(d->ctx, &end);
  tp__entry_release(entry);
  tp__turn_finish(&d->turn);
}

static void make_plan(detached *d, const tp__detached_spec *spec) {
  d->node = *spec->node;
  d->node.flags = 0;
  d->node.first_edge = d->node.edge_count = 0;
  d->node.first_dep = d->node.dep_count = 0;
  d->node.required_tail_ns = 0;
  d->node.timeout_ns = spec->timeout_ns;
  d->node.failure = TP_FAILURE_BEST_EFFORT;
  d->plan = *spec->plan;
  d->plan.node_count = d->plan.root_count = 1;
  d->plan.nodes = &d->node;
  d->inline_node = (tp__inline_node){.run_name = spec->node->sub->run_name, .leaves = true};
  d->plan.inline_nodes = &d->inline_node;
  d->plan.start = d->start;
  d->plan.start_bytes = sizeof d->start;
  d->plan.ready_count = 0;
  d->plan.leaving_count = 1;
  d->plan.edges = d->plan.deps = NULL;
  d->plan.edge_count = d->plan.dep_count = d->plan.detached_count = 0;
  d->plan.indegree = &d->indegree;
  d->plan.roots = &d->root;
  d->plan.all_inline = d->plan.on_fast_path = false;
  int64_t line_ns = tp__node_line_ns(spec->node, spec->timeout_ns);
  d->plan.budget_ns = line_ns > spec->timeout_ns ? line_ns : spec->timeout_ns;
}

static tp_status begin_detached_turn(detached *d, tp_runtime *runtime, const tp__detached_spec *spec) {
  tp__turn_spec turn = {.ids = spec->payload.ids,
                        .mode = spec->payload.mode,
                        .caller = spec->payload.caller,
                        .deadline_ns = TP__NEVER,
                        .kind = TP__TURN_DETACHED,
                        .snapshot = spec->snapshot,
                        .inbox = spec->parent ? spec->parent->inbox : NULL};
  TP__TRY(tp__turn_init(&d->turn, runtime, &turn));
  d->turn.release = free_detached;
  d->turn.sets = spec->sets;
  d->parent = spec->parent;
  if (!d->parent) return TP_OK;
  tp__turn_hold(d->parent);
  d->turn.origin = d->parent;
  d->turn.caller_job = d->parent->caller_job;
  d->turn.triggered_by = d->parent->triggered_by;
  d->turn.environment = d->parent->environment;
  d->turn.depth = d->parent->depth;
  d->turn.parent = d->parent->parent;
  if (d->turn.parent) tp__turn_hold(d->turn.parent);
  return TP_OK;
}

static tp_status begin_entry(detached *d, const tp__detached_spec *spec, tp__entry **ret_entry) {
  tp_runtime *runtime = d->turn.runtime;
  if (!spec->sets && spec->payload.sets.size > 0 && tp__runtime_layer_ops(runtime)->sets_read &&
      !tp__runtime_layer_ops(runtime)->sets_read(&d->turn.arena, spec->payload.sets, &d->turn.sets))
    return TP_ERR_NO_MEMORY;
  if (!tp__arena_text(&d->turn.arena, spec->job.key, &d->job.key)) return TP_ERR_NO_MEMORY;
  tp__entry_spec entry = {.plan = &d->plan,
                          .fields = spec->payload.fields,
                          .field_count = spec->payload.field_count,
                          .detached_run = true,
                          .on_end = entry_ended,
                          .ctx = d};
  return tp__entry_new(&d->turn, &entry, ret_entry);
}

static tp_reason reason_of(tp_status status) {
  switch (status) {
    case TP_ERR_FULL:
      return TP_REASON_SHED;
    case TP_ERR_SHUTDOWN:
      return TP_REASON_SHUTDOWN;
    default:
      return TP_REASON_NO_MEMORY;
  }
}

tp_reason tp__detached_run(tp_runtime *runtime, const tp__detached_spec *spec) {
  size_t block_size;
  detached *d = tp__block_take(tp__runtime_blocks(runtime), sizeof *d, &block_size);
  if (!d) return TP_REASON_NO_MEMORY;
  memset(d, 0, sizeof *d);
  d->block_size = block_size;
  d->job = spec->job;
  d->on_end = spec->on_end;
  d->ctx = spec->ctx;
  make_plan(d, spec);
  tp_status status = begin_detached_turn(d, runtime, spec);
  if (status != TP_OK) {
    tp__block_give(tp__runtime_blocks(runtime), d, block_size);
    return reason_of(status);
  }
  tp__entry *entry;
  status = begin_entry(d, spec, &entry);
  bool is_unstored = status == TP_OK && spec->parent && tp__entry_record_running(entry) != TP_OK;
  if (is_unstored) { /* it ends without being called */
    entry->cancelled = true;
    entry->state = TP__ENTRY_CANCELLED;
  }
  if (spec->ret_turn) tp__turn_hold(&d->turn);
  if (status == TP_OK) {
    d->starting = true;
    tp__entry_go(entry);
    d->starting = false;
  } else {
    d->refused = reason_of(status);
    tp__turn_finish(&d->turn);
  }
  tp_reason refused = is_unstored ? TP_REASON_STORE : d->refused;
  tp__turn *turn = &d->turn;
  tp__strand_leave(&turn->strand); /* d may be gone unless it is held */
  if (spec->ret_turn && refused == TP_REASON_NONE) *spec->ret_turn = turn;
  else if (spec->ret_turn) tp__turn_unref(turn);
  return refused;
}

const tp__detached_job *tp__detached_job_of(const tp__entry *entry) { return &((const detached *)entry->ctx)->job; }

/* If the token was completed meanwhile, no place was given up, and the end of the run has reported that. The handler's
 * attempt holds the run. */
void tp__detached_has_deferred(const tp__entry *entry) {
  detached *d = entry->ctx;
  tp__jobs *jobs = tp__runtime_jobs(d->turn.runtime);
  uint32_t held = PLACE_HELD;
  if (d->job.id == 0) return;
  tp__jobs_place_given(jobs, 1);
  if (!tp__a32_cas_acq_rel(&d->place, &held, PLACE_GIVEN)) tp__jobs_place_given(jobs, -1);
}

/* ---- from an entry ---- */

static tp__payload payload_of(const tp__entry *e) {
  tp__payload payload = {
      .mode = e->turn->mode, .caller = e->turn->caller, .fields = e->fields, .field_count = e->field_count};
  memcpy(payload.ids, e->turn->ids, sizeof payload.ids);
  return payload;
}

bool tp__detached_start(tp__entry *e, uint32_t index, const tp__backlog_place *where, tp_reason *ret_refused) {
  const tp__node *node = &e->plan->nodes[index];
  tp_runtime *runtime = e->turn->runtime;
  tp__payload payload = payload_of(e);
  if (node->flags & TP__NODE_BACKGROUND) return tp__jobs_add(e, index, &payload, where, ret_refused);
  tp__detached_spec spec = {.plan = e->plan,
                            .node = node,
                            .snapshot = e->turn->snapshot,
                            .payload = payload,
                            .sets = e->sets,
                            .parent = e->turn,
                            .timeout_ns = node->timeout_ns};
  *ret_refused = tp__detached_run(runtime, &spec);
  return true;
}
