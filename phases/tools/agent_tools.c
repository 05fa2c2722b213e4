/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_tools.c: lists the tools that a turn of the runtime or of an agent would have, without such a turn, by running
 * only the phase that contributes them. Also lists the tools of a call's turn. */
#include "phases/turn/agent.h"
#include "phases/tools/tool_run.h"
#include "phases/tools/toolset.h"

typedef struct listing {
  tp_tool_listing_fn each; /* NULL: counted alone */
  void *ctx;
  size_t *ret_count; /* may be NULL */
} listing;

static tp_status emit_agent_tools(tp_turn *turn, const char *subject, tp_fault *fault) {
  static const char no_names[] = "\x90";
  const tp_field fields[] = {{.id = TP_FIELD_TOOL_NAMES, .kind = TP_FIELD_KIND_VALUE, .text = {no_names, 1}},
                             {.id = TP_FIELD_CAN_CALL_TOOLS, .kind = TP_FIELD_KIND_INT, .number = 1}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2};
  tp_phase_result result = {.struct_size = sizeof result};
  TP__TRY(tp_phase_run(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, &input, &result, fault));
  if (result.outcome == TP_OK) return TP_OK;
  return tp__fail(fault, result.outcome, result.subscription ? result.subscription : subject,
                  "the tools cannot be listed: turn.pre_tool_materialization failed at %s: %.*s",
                  result.subscription ? result.subscription : "its merge", (int)result.reason.size,
                  result.reason.data ? result.reason.data : "");
}

static void show_tools(const tp__toolset *tools, const listing *list) {
  size_t count = 0;
  bool more = true;
  for (size_t i = 0; tools && i < tools->count && more; i++) {
    const tp__tool_entry *entry = &tools->entries[i];
    if (entry->out_of_scope) continue;
    tp_tool_listing shown = {.struct_size = sizeof shown, .tool = entry->tool, .owner = entry->owner};
    count++;
    if (list->each) more = list->each(list->ctx, &shown);
  }
  if (list->ret_count) *list->ret_count = count;
}

static tp_status list_tools(tp_runtime *runtime, const tp__turn_ids *ids, const listing *list, const char *what,
                            tp_fault *fault) {
  tp_turn_request request;
  tp_turn *turn;
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(tp__may_block(runtime, fault, what));
  TP__TRY(tp__runtime_ready(runtime, fault));
  TP__TRY(tp__request_read(NULL, &request, fault));
  request.id = "tools-listed"; /* the name in records of the phase, because no host has sent a turn */
  TP__TRY(tp__turn_new_held(runtime, ids, &request, TP__TURN_HELD, &turn, fault));
  tp_status status = emit_agent_tools(turn, ids->agent, fault);
  if (status == TP_OK) show_tools(turn->toolset, list);
  tp_turn_end(turn);
  return status;
}

tp_status tp_runtime_tools(tp_runtime *runtime, tp_tool_listing_fn each, void *ctx, size_t *ret_count,
                           tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  return list_tools(runtime, &(tp__turn_ids){0}, &(listing){each, ctx, ret_count}, "tp_runtime_tools", fault);
}

tp_status tp_agent_tools(tp_agent *agent, tp_tool_listing_fn each, void *ctx, size_t *ret_count, tp_fault *fault) {
  if (!agent) return tp__fail_null(fault, "agent");
  tp__turn_ids ids = {.agent = agent->id, .used_agent = agent};
  return list_tools(agent->runtime, &ids, &(listing){each, ctx, ret_count}, "tp_agent_tools", fault);
}

/* Called on the owner of the turn that has the toolset. */
tp_status tp_tool_run_tools(const tp_tool_run *run, tp_tool_listing_fn each, void *ctx, size_t *ret_count,
                            tp_fault *fault) {
  if (!run) return tp__fail_null(fault, "run");
  if (run->attempt)
    return tp__fail(fault, TP_ERR_USAGE, run->name,
                    "only a tool of placement inline that has not deferred may list the tools of its turn");
  show_tools(tp__turn_of(run->turn)->toolset, &(listing){each, ctx, ret_count});
  return TP_OK;
}
