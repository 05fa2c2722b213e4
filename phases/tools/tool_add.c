/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_add.c: tools that a host registers by one call. Such a tool is a hook: its function emits the bundle of the
 * tool, and its fallback is that same bundle. So the subscription holds the tool, which is checked, taken and destroyed
 * like any fallback. The tools of a turn include it even when there was no memory to emit it. */
#include <stdio.h>

#include "phases/merge/contribution.h"
#include "phases/tools/tools.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/entry.h"
#include "turnphase/tool.h"

#define ID_PREFIX "tool:"
enum { NAME_BYTES_MAX = TP_ID_BYTES_MAX - (sizeof ID_PREFIX - 1) };

typedef char tool_id[TP_ID_BYTES_MAX + 1];

static tp_status make_id(const char *name, tool_id ret_id, tp_fault *fault) {
  if (!tp__id_valid(name) || strlen(name) > NAME_BYTES_MAX)
    return tp__fail(fault, TP_ERR_BAD_ID, name, "the name of a tool must be 1 to %d bytes without white space",
                    NAME_BYTES_MAX);
  snprintf(ret_id, sizeof(tool_id), ID_PREFIX "%s", name);
  return TP_OK;
}

static tp_answer emit_tool(void *ctx, tp_call *call) {
  (void)ctx;
  const tp_subscription *mine = &call->entry->plan->nodes[call->index].sub->desc;
  TP__ASSERT(mine->fallback_count == 1);
  return tp_call_emit(call, mine->fallback[0], NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

tp_status tp_tool_add(tp_runtime *runtime, const tp_tool *theirs, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  tp_tool tool;
  tool_id id;
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_tool_add needs a tool");
  TP__TRY(tp__options_read(&tool, sizeof tool, theirs, "tp_tool", fault));
  TP__TRY(make_id(tool.name, id, fault));
  const tp_contribution bundle = {.struct_size = sizeof bundle,
                                  .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                  .key = tp_text_of(tool.name),
                                  .tools = &theirs,
                                  .tool_count = 1};
  const tp_contribution *const fallback[] = {&bundle};
  TP__TRY(
      tp__contribution_check(tp__runtime_allocator(runtime), TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, &bundle, fault));
  const tp_hook hook = {.struct_size = sizeof hook,
                        .id = id,
                        .phase = "turn.pre_tool_materialization",
                        .run = emit_tool,
                        .placement = TP_PLACEMENT_INLINE,
                        .failure = TP_FAILURE_FALLBACK,
                        .fallback = fallback,
                        .fallback_count = 1,
                        .sequential = TP_SEQUENTIAL_OFF,
                        .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE};
  tp_status status = tp_hook_add(runtime, &hook, fault);
  if (status != TP_ERR_DUPLICATE_ID) return status;
  return tp__fail(fault, status, tool.name, "a tool `%s` was added before: remove it first", tool.name);
}

tp_status tp_tool_remove(tp_runtime *runtime, const char *name, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  tool_id id;
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(make_id(name, id, fault));
  tp_status status = tp_hook_remove(runtime, id, fault);
  if (status != TP_ERR_NOT_FOUND) return status;
  return tp__fail(fault, status, name, "no tool `%s` was added by tp_tool_add()", name);
}
