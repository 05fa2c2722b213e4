/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_cancel.c: cancels one call, or all calls of the running response, for any thread. The request of a thread is a
 * message to the turn's owner, which ends the calls. */
#include "phases/turn/submission.h"
#include "phases/tools/tool_call.h"
#include "runtime/exec/runtime.h"

typedef struct cancel_request {
  tp__message message;
  tp_turn *turn; /* referenced */
  size_t size;
  tp_text call_id; /* empty: all calls; the bytes follow the struct */
} cancel_request;

/* ---- on the owner ---- */

/* If an end phase (tool.result, tool.post) runs, it goes on, because the tool has run. */
static void cancel_slot(tp__tool_slot *slot) {
  if (slot->run) tp__tool_run_cancel(slot->run);
  else if (slot->ask && slot->ask->question) tp__question_cancel(slot->ask->question);
  else if (slot->order && tp__order_cancel(slot)) return;
  else if (slot->gate) tp__phase_cancel(&slot->gate->phase);
}

static bool is_meant(const tp__tool_slot *slot, tp_text call_id) {
  if (slot->settled) return false;
  return call_id.size == 0 || tp_text_equal(tp__toolcall_result(slot)->call_id, call_id);
}

/* A call that waits for a call that ends here must not begin before it is cancelled itself. So all calls are marked
 * first. */
size_t tp__dispatch_cancel(tp__dispatch *d, tp_text call_id) {
  size_t count = 0;
  d->open++; /* stays till every slot was looked at */
  for (tp__tool_slot *slot = d->pending; slot; slot = slot->next)
    if (is_meant(slot, call_id)) {
      slot->is_cancelled = true;
      count++;
    }
  for (tp__tool_slot *slot = d->pending; slot; slot = slot->next)
    if (slot->is_cancelled && !slot->settled) cancel_slot(slot);
  tp__toolcall_unref(d);
  return count;
}

static void free_request(cancel_request *request) {
  tp__turn *core = &request->turn->core;
  tp__release(tp__runtime_allocator(core->runtime), request, request->size);
  tp__turn_unref(core);
}

static void delivered(tp__message *message) {
  cancel_request *request = TP__CONTAINER(message, cancel_request, message);
  tp_turn *turn = request->turn;
  size_t count = turn->dispatch ? tp__dispatch_cancel(turn->dispatch, request->call_id) : 0;
  if (count == 0)
    tp__log(turn->core.runtime, TP_LOG_INFO, &(tp__log_subject){.ids = turn->core.ids},
            "no call%s%.*s%s of the turn is under way: its cancel does nothing", request->call_id.size ? " `" : "",
            (int)request->call_id.size, request->call_id.data, request->call_id.size ? "`" : "");
  free_request(request);
}

/* ---- on any thread ---- */

static tp_status ask_owner(tp_turn *turn, tp_text call_id, tp_fault *fault) {
  size_t size = sizeof(cancel_request) + call_id.size;
  cancel_request *request = tp__alloc_zero(tp__runtime_allocator(turn->core.runtime), size);
  if (!request) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory to cancel a call: try again");
  *request = (cancel_request){.message.deliver = delivered, .turn = turn, .size = size};
  request->call_id = (tp_text){(const char *)(request + 1), call_id.size};
  if (call_id.size > 0) memcpy(request + 1, call_id.data, call_id.size);
  tp__turn_hold(&turn->core);
  if (tp__strand_push(&turn->core.strand, &request->message)) return TP_OK;
  free_request(request);
  return tp__fail(fault, TP_ERR_STALE, NULL, "the turn has ended, and its calls with it");
}

tp_status tp_turn_cancel_calls(tp_turn *turn, tp_text call_id, tp_fault *fault) {
  if (!turn) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_turn_cancel_calls() needs a turn");
  if (tp__runtime_is_of_parent(turn->core.runtime)) return tp__fail_forked(fault);
  return ask_owner(turn, call_id, fault);
}

tp_status tp_submission_cancel_calls(tp_submission *submission, tp_text call_id, tp_fault *fault) {
  if (!submission) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_submission_cancel_calls() needs a submission");
  if (submission->process_generation != tp__process_generation()) return tp__fail_forked(fault);
  tp__turn *core = tp__submission_turn(submission);
  if (!core) return tp__fail(fault, TP_ERR_STALE, NULL, "the turn has ended, and its calls with it");
  tp_status status = ask_owner(tp__turn_of(core), call_id, fault);
  tp__turn_unref(core);
  return status;
}
