/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_names.c: the names of the kinds of results, and the texts for calls that no tool has answered. */
#include <stdio.h>

#include "phases/tools/tool_call.h"

const char *tp_tool_result_name(tp_tool_result_kind kind) {
  static const char *const names[] = {[TP_TOOL_NONE] = "none",
                                      [TP_TOOL_OK] = "ok",
                                      [TP_TOOL_HANDLER_ERROR] = "handler_error",
                                      [TP_TOOL_INVALID_ARGUMENTS] = "invalid_arguments",
                                      [TP_TOOL_UNKNOWN_TOOL] = "unknown_tool",
                                      [TP_TOOL_OUT_OF_SCOPE] = "out_of_scope",
                                      [TP_TOOL_DENIED] = "denied",
                                      [TP_TOOL_TIMED_OUT] = "timed_out",
                                      [TP_TOOL_CANCELLED] = "cancelled",
                                      [TP_TOOL_CRASHED] = "crashed",
                                      [TP_TOOL_SHED] = "shed",
                                      [TP_TOOL_INTERRUPTED] = "interrupted"};
  return TP__NAME_AT(names, kind, "unknown");
}

tp_text tp__toolcall_unanswered(tp_tool_result_kind kind) {
  switch (kind) {
    case TP_TOOL_TIMED_OUT:
      return tp_text_of("the tool did not answer in time");
    case TP_TOOL_CANCELLED:
      return tp_text_of("the call was cancelled");
    default:
      return tp_text_of("no thread or memory could be had for the tool; try again later");
  }
}

tp_text tp__toolcall_refused(const tp__tool_entry *tool, tp_reason reason) {
  if (reason == TP_REASON_NO_INBOX)
    return tp_text_of("calls of this tool come to the inbox of a session, and this turn is of none that has one");
  if (tool->inbox && reason == TP_REASON_NO_PERMIT)
    return tp_text_of("as many calls of this tool as may run at once were given up, and none of them has come back");
  if (!tool->inbox || reason != TP_REASON_NO_WORKER) return tp__toolcall_unanswered(TP_TOOL_SHED);
  return tp_text_of(tp__inbox_is_closed(tool->inbox) ? "the host takes no calls of this tool any more"
                                                     : "too many calls wait for the host of this tool; try again "
                                                       "later");
}

/* ---- ids and names ---- */

enum { NUMBER_BYTES = sizeof "call-4294967295" };

size_t tp__toolcall_id_bytes(const tp__dispatch *d) {
  size_t bytes = 0;
  for (size_t i = 0; i < d->count; i++) {
    size_t size = d->calls[i]->id.size;
    if (size == 0) bytes += NUMBER_BYTES;
    else if (!d->calls_stay) bytes += size + 1;
  }
  return bytes;
}

tp_text tp__toolcall_id(tp__dispatch *d, uint32_t index) {
  tp_text id = d->calls[index]->id;
  if (id.size > 0 && d->calls_stay) return id;
  char *space = d->id_space;
  if (id.size == 0) id.size = (size_t)snprintf(space, NUMBER_BYTES, "call-%u", (unsigned)index);
  else memcpy(space, id.data, id.size);
  space[id.size] = '\0';
  d->id_space = space + id.size + 1;
  return (tp_text){space, id.size};
}

/* A name that no tool has is copied; without memory for it, it is left out. */
tp_text tp__toolcall_name(tp__dispatch *d, uint32_t index, const tp__tool_entry *tool) {
  tp_text name = d->calls[index]->name;
  if (tool) return tool->name;
  if (!d->calls_stay && !tp__arena_text(&d->texts, name, &name)) return (tp_text){"", 0};
  return name;
}
