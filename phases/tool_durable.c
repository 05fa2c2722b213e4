/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tool_durable.h"

#include "runtime/exec/blocks.h"
#include "turnphase/store.h"

enum { STORE_LIMIT_MS = 30000 };

static const char not_stored[] = "the store did not keep that this call begins, so it was not run; try again later";
static const char interrupted[] =
    "an earlier run of this turn began this call, and its result is not stored: check whether it had an effect before "
    "it is called again";

/** One commit. What the store reads is copied: a commit that was given up may still run when the call is gone. */
typedef struct commit {
  tp__attempt base;
  tp__turn *turn; /* referenced */
  tp__tool_slot *slot;
  size_t block_size;
  bool is_end;
  tp_tool_start_record start;
  tp_tool_end_record end;
  tp__arena arena;
  /* ---- the work's, till it is answered */
  tp_status status;
  uint64_t start_id;
  tp_tool_result_kind earlier; /* NONE: the call is new */
  tp_text earlier_text;
  tp_fault fault;
  /* ---- the owner's */
  tp_tool_result_kind kind;
  tp_text text; /* in the dispatch */
} commit;

static commit *of(tp__attempt *attempt) { return TP__CONTAINER(attempt, commit, base); }

bool tp__toolcall_is_durable(const tp__tool_slot *slot) {
  const tp_turn *turn = slot->dispatch->turn;
  const tp_runtime *runtime = turn->core.runtime;
  const tp_store *store = tp__runtime_store(runtime);
  return turn->session && tp__runtime_options(runtime)->durability == TP_DURABILITY_SYNC && store->tool_start &&
         store->tool_end && !slot->tool->tool->idempotent;
}

/* ---- the work ---- */

static void take_earlier(void *ctx, const tp_tool_end_record *earlier) {
  commit *k = ctx;
  k->earlier = (tp_tool_result_kind)earlier->kind;
  if (tp__arena_text(&k->arena, earlier->text, &k->earlier_text)) return;
  k->earlier = TP_TOOL_INTERRUPTED;
  k->earlier_text = (tp_text){"", 0};
}

static void work(commit *k) {
  tp_runtime *runtime = tp__attempt_runtime(&k->base);
  const tp_store *store = tp__runtime_store(runtime);
  tp__inside frame;
  void *store_ctx = tp__store_enter(&frame, runtime);
  if (k->is_end) k->status = store->tool_end(store_ctx, &k->end, &k->fault);
  else k->status = store->tool_start(store_ctx, &k->start, &k->start_id, take_earlier, k, &k->fault);
  tp__store_left(&frame, k->status);
}

static tp__answer call(tp__attempt *attempt) {
  work(of(attempt));
  return (tp__answer){.kind = TP_ANSWER_DONE};
}

/* ---- what comes of it, on the owner ---- */

static void log_failure(const commit *k, tp_status status) {
  tp__log(tp__attempt_runtime(&k->base), TP_LOG_ERROR, &(tp__log_subject){.status = status, .ids = k->turn->ids},
          "the %s of a call of tool `%s` was not kept: %s", k->is_end ? "result" : "start", k->base.pool_item.name,
          status == k->status && k->fault.message[0] ? k->fault.message : tp_status_text(status));
}

static void start_ended(commit *k, tp_status status) {
  tp__tool_slot *slot = k->slot;
  tp_text text;
  if (status != TP_OK) {
    log_failure(k, status);
    tp__toolcall_stop(slot, TP_TOOL_SHED, tp_text_of(not_stored));
  } else if (k->earlier == TP_TOOL_NONE) {
    slot->start_id = k->start_id;
    tp__toolcall_started(slot);
  } else if (k->earlier == TP_TOOL_INTERRUPTED || !tp__arena_text(&slot->dispatch->texts, k->earlier_text, &text)) {
    tp__toolcall_stop(slot, TP_TOOL_INTERRUPTED, tp_text_of(interrupted));
  } else {
    tp__toolcall_ended(slot, k->earlier, text);
  }
}

static void ended(commit *k, tp_status status) {
  k->slot->dispatch->stale = true;
  if (!k->is_end) {
    start_ended(k, status);
    return;
  }
  if (status != TP_OK) log_failure(k, status);
  tp__toolcall_ended(k->slot, k->kind, k->text);
}

static void settled(tp__attempt *attempt, tp__attempt_end end) {
  commit *k = of(attempt);
  if (end == TP__REFUSED) work(k); /* the pool has stopped, or has no thread: the owner waits itself */
  ended(k, end == TP__ANSWERED || end == TP__REFUSED ? k->status : TP_ERR_TIMEOUT);
  tp__attempt_unref(attempt);
}

static void release(tp__attempt *attempt) {
  commit *k = of(attempt);
  tp__turn *turn = k->turn;
  tp__arena_fini(&k->arena);
  tp__block_give(tp__runtime_blocks(tp__attempt_runtime(attempt)), k, k->block_size);
  tp__turn_unref(turn);
}

static const tp__attempt_class class = {.what = "commit", .call = call, .settled = settled, .release = release};

static commit *commit_new(tp__tool_slot *slot) {
  tp__turn *turn = &slot->dispatch->turn->core;
  size_t block_size;
  commit *k = tp__block_take(tp__runtime_blocks(turn->runtime), sizeof *k, &block_size);
  if (!k) return NULL;
  memset(k, 0, sizeof *k);
  if (tp__attempt_init(&k->base, &class, &turn->strand) != TP_OK) {
    tp__block_give(tp__runtime_blocks(turn->runtime), k, block_size);
    return NULL;
  }
  k->block_size = block_size;
  k->base.pool_item.lane = TP__LANE_HISTORY;
  k->base.pool_item.name = slot->tool->name.data;
  k->slot = slot;
  k->turn = turn;
  tp__turn_hold(turn);
  tp__arena_init(&k->arena, tp__runtime_allocator(turn->runtime), NULL, 0, 0);
  return k;
}

static void discard(commit *k) {
  tp__attempt_fini(&k->base);
  tp__attempt_unref(&k->base);
}

static void begin(commit *k) {
  if (!tp__attempt_start(&k->base, tp__deadline_after_ms(tp__now_ns(), STORE_LIMIT_MS), 0)) return;
  work(k); /* no thread for it */
  ended(k, k->status);
  tp__attempt_unref(&k->base);
}

void tp__toolcall_commit_start(tp__tool_slot *slot) {
  const tp_tool_call *call = tp__toolcall_of(slot);
  commit *k = commit_new(slot);
  tp_text arguments, call_id;
  bool copied = k && tp__arena_text(&k->arena, call->arguments, &arguments) &&
                tp__arena_text(&k->arena, tp__toolcall_result(slot)->call_id, &call_id);
  if (!copied) {
    if (k) discard(k);
    tp__toolcall_stop(slot, TP_TOOL_SHED, tp__toolcall_unanswered(TP_TOOL_SHED));
    return;
  }
  k->start = (tp_tool_start_record){.struct_size = sizeof k->start,
                                    .process_run_id = tp__runtime_run_id(tp__attempt_runtime(&k->base)),
                                    .turn_number = k->turn->number,
                                    .call_index = slot->index,
                                    .started_unix_ms = tp__unix_ms(),
                                    .ids = k->turn->ids,
                                    .id_count = TP_ID_COUNT,
                                    .call_id = call_id,
                                    .tool = slot->tool->name,
                                    .arguments = arguments};
  begin(k);
}

void tp__toolcall_commit_end(tp__tool_slot *slot, tp_tool_result_kind kind, tp_text text) {
  commit *k = commit_new(slot);
  tp_text copy;
  if (!k || !tp__arena_text(&k->arena, text, &copy)) {
    tp__log(slot->dispatch->turn->core.runtime, TP_LOG_ERROR, &(tp__log_subject){.status = TP_ERR_NO_MEMORY},
            "the result of a call of tool `%s` was not kept: no memory", slot->tool->name.data);
    if (k) discard(k);
    tp__toolcall_ended(slot, kind, text);
    return;
  }
  k->is_end = true;
  k->kind = kind;
  k->text = text;
  k->end = (tp_tool_end_record){
      .struct_size = sizeof k->end, .start_id = slot->start_id, .kind = (uint32_t)kind, .text = copy};
  begin(k);
}
