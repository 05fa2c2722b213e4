/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tools/tool_durable.h"

#include "phases/model/parts.h"
#include "phases/turn/people.h"
#include "phases/session/session.h"
#include "phases/turn/store_call.h"
#include "runtime/base/bug.h"
#include "turnphase/store.h"

enum { STORE_LIMIT_MS = 30000 };

static const char not_stored[] = "the store did not keep that this call begins, so it was not run; try again later";
static const char fenced[] = "another process has taken the session over, so this call was not run";
static const char interrupted[] =
    "an earlier run of this turn began this call, and its result is not stored: check whether it had an effect before "
    "it is called again";

/** One commit of a call's start or result. */
typedef struct commit {
  tp__store_call call;
  tp__tool_slot *slot;
  tp_tool_start_record start;
  tp_tool_end_record end;
  /* ---- the work's, until it is answered */
  uint64_t start_id;
  tp_tool_result_kind earlier; /* NONE: the call is new */
  tp__tool_content earlier_said;
  /* ---- the owner's */
  tp_tool_result_kind kind;
  tp__tool_content said; /* in the dispatch */
} commit;

static commit *commit_of(tp__store_call *call) { return TP__CONTAINER(call, commit, call); }

bool tp__toolcall_is_durable(const tp__tool_slot *slot) {
  const tp_turn *turn = slot->dispatch->turn;
  const tp_runtime *runtime = turn->core.runtime;
  const tp_store *store = tp__runtime_store(runtime);
  bool is_wanted = tp__runtime_options(runtime)->durability == TP_DURABILITY_SYNC || tp__people_may_be_asked(turn);
  return turn->session && is_wanted && store->durable && store->tool_start && store->tool_end &&
         !slot->tool->tool->idempotent;
}

/* ---- the work ---- */

static const tp_store *store_of(const commit *k) { return tp__runtime_store(k->call.turn->runtime); }

static bool copy_said(tp__arena *arena, const tp__tool_content *said, tp__tool_content *ret_copy) {
  return tp__arena_text(arena, said->text, &ret_copy->text) && tp__arena_text(arena, said->value, &ret_copy->value) &&
         tp__arena_text(arena, said->parts, &ret_copy->parts);
}

/* The result from a host's store is data from outside. If its value is malformed, the result counts as unknown. */
static void take_earlier(void *ctx, const tp_tool_end_record *theirs) {
  commit *k = ctx;
  tp_tool_end_record earlier;
  k->earlier = TP_TOOL_INTERRUPTED;
  if (tp__options_read(&earlier, sizeof earlier, theirs, "tp_tool_end_record", NULL) != TP_OK ||
      (earlier.value.size > 0 && tp_value_check(earlier.value, NULL) != TP_OK) ||
      tp__parts_check(earlier.parts, "tp_tool_end_record.parts", NULL) != TP_OK)
    return;
  tp__tool_content said = {.text = earlier.text, .value = earlier.value, .parts = earlier.parts};
  if (copy_said(&k->call.arena, &said, &k->earlier_said)) k->earlier = (tp_tool_result_kind)earlier.kind;
}

static tp_status put_start(tp__store_call *call, void *store, tp_fault *fault) {
  commit *k = commit_of(call);
  return store_of(k)->tool_start(store, &k->start, &k->start_id, take_earlier, k, fault);
}

static tp_status put_tool_end(tp__store_call *call, void *store, tp_fault *fault) {
  return store_of(commit_of(call))->tool_end(store, &commit_of(call)->end, fault);
}

/* ---- the end of a commit, on the owner ---- */

static void log_failure(const commit *k, const char *what, tp_status status) {
  const tp__store_call *c = &k->call;
  tp__log(c->turn->runtime, TP_LOG_ERROR, &(tp__log_subject){.status = status, .ids = c->turn->ids},
          "the %s of a call of tool `%s` was not kept: %s", what, c->base.pool_item.name,
          status == c->status && c->fault.message[0] ? c->fault.message : tp_status_text(status));
}

static void start_ended(tp__store_call *call, tp_status status) {
  commit *k = commit_of(call);
  tp__tool_slot *slot = k->slot;
  tp__tool_content said;
  slot->dispatch->stale = true;
  if (status != TP_OK) {
    log_failure(k, "start", status);
    bool is_fenced = status == TP_ERR_FENCED;
    if (is_fenced) slot->dispatch->turn->core.is_fenced = true;
    tp__toolcall_stop(slot, TP_TOOL_SHED, tp_text_of(is_fenced ? fenced : not_stored));
  } else if (k->earlier == TP_TOOL_NONE) {
    slot->start_id = k->start_id;
    tp__toolcall_started(slot);
  } else if (k->earlier == TP_TOOL_INTERRUPTED || !copy_said(&slot->dispatch->texts, &k->earlier_said, &said)) {
    tp__toolcall_stop(slot, TP_TOOL_INTERRUPTED, tp_text_of(interrupted));
  } else {
    tp__toolcall_ended(slot, k->earlier, &said);
  }
}

static void end_ended(tp__store_call *call, tp_status status) {
  commit *k = commit_of(call);
  k->slot->dispatch->stale = true;
  if (status != TP_OK) log_failure(k, "result", status);
  tp__toolcall_ended(k->slot, k->kind, &k->said);
}

static commit *commit_new(tp__tool_slot *slot) {
  tp__store_call *call = tp__store_call_new(slot->dispatch->turn, sizeof(commit), slot->tool->name.data);
  if (!call) return NULL;
  commit_of(call)->slot = slot;
  return commit_of(call);
}

static void start_commit(commit *k, tp_status (*work)(tp__store_call *call, void *store, tp_fault *fault),
                         void (*on_end)(tp__store_call *call, tp_status status)) {
  k->call.work = work;
  k->call.on_end = on_end;
  tp__store_call_start(&k->call, tp__deadline_after_ms(tp__now_ns(), STORE_LIMIT_MS));
}

void tp__toolcall_commit_start(tp__tool_slot *slot) {
  const tp_tool_call *call = tp__toolcall_of(slot);
  commit *k = commit_new(slot);
  tp_text arguments, call_id;
  bool copied = k && tp__arena_text(&k->call.arena, call->arguments, &arguments) &&
                tp__arena_text(&k->call.arena, tp__toolcall_result(slot)->call_id, &call_id);
  if (!copied) {
    if (k) tp__store_call_drop(&k->call);
    tp__toolcall_stop(slot, TP_TOOL_SHED, tp__toolcall_unanswered(TP_TOOL_SHED));
    return;
  }
  k->start = (tp_tool_start_record){.struct_size = sizeof k->start,
                                    .process_run_id = tp__runtime_run_id(k->call.turn->runtime),
                                    .turn_number = k->call.turn->number,
                                    .call_index = slot->index,
                                    .started_unix_ms = tp__unix_ms(),
                                    .ids = k->call.turn->ids,
                                    .id_count = TP_ID_COUNT,
                                    .call_id = call_id,
                                    .tool = slot->tool->name,
                                    .arguments = arguments,
                                    .fence = TP__BUG(TP__BUG_UNFENCED_CALL) ? 0 : slot->dispatch->turn->core.fence,
                                    .origin = slot->dispatch->turn->core.fence_origin};
  start_commit(k, put_start, start_ended);
}

void tp__toolcall_commit_end(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said) {
  commit *k = commit_new(slot);
  tp__tool_content copy;
  if (!k || !copy_said(&k->call.arena, said, &copy)) {
    tp__log(slot->dispatch->turn->core.runtime, TP_LOG_ERROR, &(tp__log_subject){.status = TP_ERR_NO_MEMORY},
            "the result of a call of tool `%s` was not kept: no memory", slot->tool->name.data);
    if (k) tp__store_call_drop(&k->call);
    tp__toolcall_ended(slot, kind, said);
    return;
  }
  k->kind = kind;
  k->said = *said;
  k->end = (tp_tool_end_record){.struct_size = sizeof k->end,
                                .start_id = slot->start_id,
                                .kind = (uint32_t)kind,
                                .text = copy.text,
                                .value = copy.value,
                                .parts = copy.parts};
  start_commit(k, put_tool_end, end_ended);
}
