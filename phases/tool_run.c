/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tool_run.h"

enum { BLOCK_BYTES = 2048, LIMIT_MS = 120000, CONCURRENT_MAX = 16 };

struct tp_tool_run {
  tp__attempt base;
  tp__turn *turn;             /* referenced */
  tp_tool tool;               /* run, self: valid while the snapshot is pinned; name not read after the turn */
  tp_text call_id, arguments; /* in the arena */
  void (*settled)(void *ctx, const tp__tool_answer *answer);
  void *ctx;
  int64_t deadline_ns;
  tp__arena arena;        /* of the function's thread */
  tp__arena answer_arena; /* of whoever completes the token */
  bool is_error;
  bool no_memory; /* the text was lost */
  tp_text text;
  size_t block_size;
};

static tp__tool_run *of(tp__attempt *attempt) { return TP__CONTAINER(attempt, tp__tool_run, base); }

/* ---- what the tool sees ---- */

tp_text tp_tool_arguments(const tp_tool_run *run) { return run->arguments; }
tp_text tp_tool_id(const tp_tool_run *run, uint32_t id) {
  return id < TP_ID_COUNT ? run->turn->ids[id] : (tp_text){NULL, 0};
}
tp_text tp_tool_call_id(const tp_tool_run *run) { return run->call_id; }

int64_t tp_tool_time_left_ms(const tp_tool_run *run) {
  int64_t left_ns = run->deadline_ns - tp__now_ns();
  return left_ns > 0 ? left_ns / TP__NS_PER_MS : 0;
}

bool tp_tool_cancelled(const tp_tool_run *run) {
  return tp__attempt_is_cancelled(&run->base) || tp__now_ns() >= run->deadline_ns;
}

static tp_outcome answer(tp_tool_run *run, bool is_error, tp_text text) {
  if (!tp_utf8_valid(text, NULL)) {
    is_error = true;
    text = tp_text_of("the tool's answer was not UTF-8");
  }
  run->is_error = is_error;
  run->no_memory = !tp__arena_text(&run->arena, text, &run->text);
  return (tp_outcome){.kind = is_error ? TP_OUTCOME_FAILED : TP_OUTCOME_DONE};
}

tp_outcome tp_tool_ok(tp_tool_run *run, tp_text text) { return answer(run, false, text); }
tp_outcome tp_tool_error(tp_tool_run *run, tp_text text) { return answer(run, true, text); }

tp_outcome tp_tool_defer(tp_tool_run *run, const tp_deferral *deferral, tp_token *ret_token) {
  ret_token->bits = 0;
  if (tp__attempt_defer(&run->base, deferral, ret_token) == TP_OK) return (tp_outcome){.kind = TP_OUTCOME_DEFERRED};
  return tp_tool_error(run, tp_text_of("too many calls are waiting"));
}

/* ---- the attempt ---- */

static tp_outcome call(tp__attempt *attempt) {
  tp__tool_run *run = of(attempt);
  return run->tool.run(run->tool.self, run);
}

/* extra: the text of tp_tool_complete(); NULL for tp_token_complete(), whose reason is the text then. */
static void accept(tp__attempt *attempt, const tp_outcome *outcome, const void *extra) {
  tp__tool_run *run = of(attempt);
  tp_text text = extra ? *(const tp_text *)extra : tp_text_of(outcome->reason);
  bool valid = tp_utf8_valid(text, NULL);
  run->is_error = outcome->kind == TP_OUTCOME_FAILED || !valid;
  run->no_memory =
      !tp__arena_text(&run->answer_arena, valid ? text : tp_text_of("the tool's answer was not UTF-8"), &run->text);
  attempt->answer = (tp_outcome){.kind = outcome->kind};
}

/* Where it was not answered its function may still be running and writing: its answer is not looked at. */
static void settled(tp__attempt *attempt, tp__attempt_end end) {
  tp__tool_run *run = of(attempt);
  tp__tool_answer answer = {.end = end,
                            .refusal = attempt->refusal,
                            .started_ns = (int64_t)tp__a64_load_acquire(&attempt->started_ns),
                            .ended_ns = end == TP__ANSWERED ? attempt->ended_ns : tp__now_ns()};
  if (end == TP__ANSWERED) {
    answer.is_error = run->is_error || run->no_memory || attempt->answer.kind >= TP_OUTCOME_FAILED;
    answer.text = run->no_memory ? tp_text_of("no memory for the tool's answer") : run->text;
  }
  run->settled(run->ctx, &answer);
  tp__attempt_unref(attempt);
}

static void release(tp__attempt *attempt) {
  tp__tool_run *run = of(attempt);
  tp__turn *turn = run->turn;
  tp__arena_fini(&run->arena);
  tp__arena_fini(&run->answer_arena);
  tp__block_give(&turn->runtime->blocks, run, run->block_size);
  tp__turn_unref(turn);
}

static const tp__attempt_class class = {.call = call, .accept = accept, .settled = settled, .release = release};

tp_status tp_tool_complete(tp_token token, bool is_error, tp_text text) {
  tp_outcome outcome = {.kind = is_error ? TP_OUTCOME_FAILED : TP_OUTCOME_DONE};
  return tp__token_answer(token, &class, &outcome, &text);
}

static tp__tool_run *new_run(const tp__tool_run_spec *spec) {
  tp_runtime *runtime = spec->turn->core.runtime;
  size_t block_size;
  tp__tool_run *run = tp__block_take(&runtime->blocks, BLOCK_BYTES, &block_size);
  if (!run) return NULL;
  memset(run, 0, sizeof *run);
  tp__arena_init(&run->arena, &runtime->allocator, run + 1, block_size - sizeof *run, 0);
  tp__arena_init(&run->answer_arena, &runtime->allocator, NULL, 0, 0);
  if (!tp__arena_text(&run->arena, spec->call_id, &run->call_id) ||
      !tp__arena_text(&run->arena, spec->arguments, &run->arguments) ||
      tp__attempt_init(&run->base, &class, &spec->turn->core.strand) != TP_OK) {
    tp__arena_fini(&run->arena);
    tp__block_give(&runtime->blocks, run, block_size);
    return NULL;
  }
  run->block_size = block_size;
  run->turn = &spec->turn->core;
  run->tool = *spec->tool->tool;
  run->settled = spec->settled;
  run->ctx = spec->ctx;
  tp__turn_hold(run->turn);
  return run;
}

/* A quick tool is called here: only when it defers does it wait for anything. */
static tp__tool_run *run_here(tp__tool_run *run) {
  tp__attempt *attempt = &run->base;
  tp__a64_store_relaxed(&attempt->started_ns, (uint64_t)tp__now_ns()); /* no other thread knows it yet */
  tp_outcome outcome = call(attempt);
  bool deferred = tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_DEFERRED;
  if (deferred && (outcome.kind == TP_OUTCOME_DEFERRED || !tp__attempt_revoke(attempt))) {
    tp__attempt_await(attempt, run->deadline_ns);
    return run;
  }
  if (!deferred) tp__attempt_fini(attempt);
  if (deferred || outcome.kind == TP_OUTCOME_DEFERRED) {
    run->is_error = true;
    run->text = tp_text_of("the tool deferred and answered at once");
  }
  attempt->answer = outcome;
  attempt->ended_ns = tp__now_ns();
  settled(attempt, attempt->ended_ns > run->deadline_ns ? TP__EXPIRED : TP__ANSWERED);
  return NULL;
}

tp_reason tp__tool_run_start(const tp__tool_run_spec *spec, tp__tool_run **ret_run) {
  *ret_run = NULL;
  tp__tool_run *run = new_run(spec);
  if (!run) return TP_REASON_NO_MEMORY;
  const tp_tool *tool = spec->tool->tool;
  int64_t limit_ns = (int64_t)(tool->limit_ms ? tool->limit_ms : LIMIT_MS) * TP__NS_PER_MS;
  int64_t now_ns = tp__now_ns(), turn_ns = spec->turn->core.deadline_ns;
  run->deadline_ns = now_ns + limit_ns < turn_ns ? now_ns + limit_ns : turn_ns;
  if (tool->quick) {
    *ret_run = run_here(run);
    return TP_REASON_NONE;
  }
  run->base.pool_item.lane = TP__LANE_UPPER;
  run->base.pool_item.permits = spec->tool->permits;
  run->base.pool_item.permits_max = tool->max_concurrent ? tool->max_concurrent : CONCURRENT_MAX;
  run->base.pool_item.name = spec->tool->name;
  run->base.pool_item.phase = TP_PHASE_TOOL_PRE;
  tp_reason refused = tp__attempt_start(&run->base, turn_ns, limit_ns);
  if (refused) tp__attempt_unref(&run->base);
  else *ret_run = run;
  return refused;
}

void tp__tool_run_cancel(tp__tool_run *run) { tp__attempt_expire(&run->base, TP__CANCELLED); }
