/* SPDX-License-Identifier: Apache-2.0
 *
 * response_calls.c: how model.response may change the calls of a response: it may drop calls, and change the tool or
 * the arguments of others. It cannot add a call, because a result answers a call of the model by its id. */
#include "phases/drive/drive.h"
#include "phases/tools/tools.h"
#include "runtime/exec/exec.h"

static void report_replacement(const tp__drive *d, tp_text tool, const char *what) {
  tp__report_add(&d->turn->core, TP_LOG_INFO,
                 &(tp__report){.action = "replacement",
                               .phase = TP_PHASE_MODEL_RESPONSE,
                               .subscription = "model.response",
                               .owner = "",
                               .subject = tool,
                               .detail = tp_text_of(what),
                               .visibility = TP_VISIBILITY_USER_VISIBLE});
}

/* Reads one map of the value and applies it to the call that it names. @return the error; NULL: there is none. */
static const char *read_replaced_call(tp_text map, const tp_tool_call *was, tp_tool_call *is) {
  tp_text tool = tp_value_get(map, "tool"), arguments = tp_value_get(map, "arguments");
  *is = *was;
  if (tool.size > 0) {
    if (tp_value_text(tool).size == 0) return "calls: `tool` must be the name of a tool";
    is->name = tp_value_text(tool);
  }
  if (arguments.size == 0) return NULL;
  if (tp_value_kind_of(arguments) != TP_VALUE_MAP) return "calls: `arguments` must be a map";
  is->arguments = arguments;
  is->malformed = false;
  return NULL;
}

/* The index of the call with this id, searched from `from` on; the count: there is none. */
static size_t find_call(const tp__drive *d, tp_text id, size_t from) {
  while (from < d->call_count && !tp_text_equal(d->calls[from]->id, id)) from++;
  return from;
}

/* places[i] is the index of the response's call from which calls[i] was made. */
static const char *read_replaced_calls(const tp__drive *d, tp_text value, tp_tool_call *calls, size_t *places,
                                       size_t *ret_count) {
  size_t next = 0, count = 0;
  if (tp_value_kind_of(value) != TP_VALUE_ARRAY) return "calls: it must be an array";
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk); count++) {
    if (tp_value_kind_of(walk.value) != TP_VALUE_MAP) return "calls: each must be a map";
    next = find_call(d, tp_value_text(tp_value_get(walk.value, "id")), next);
    if (next == d->call_count) return "calls: each must have the id of a call of the response, once, in their order";
    places[count] = next;
    const char *wrong = read_replaced_call(walk.value, d->calls[next++], &calls[count]);
    if (wrong) return wrong;
  }
  *ret_count = count;
  return NULL;
}

bool tp__response_take_calls(tp__drive *d, tp_text value, tp_text *ret_why) {
  size_t count = 0;
  tp_tool_call *calls = tp__arena_alloc(&d->arena, (d->call_count + 1) * sizeof *calls);
  size_t *places = tp__arena_alloc(&d->arena, (d->call_count + 1) * sizeof *places);
  const tp_tool_call **list = tp__arena_alloc(&d->arena, (d->call_count + 1) * sizeof *list);
  if (!calls || !places || !list || !tp__arena_text(&d->arena, value, &value)) return false;
  const char *wrong = read_replaced_calls(d, value, calls, places, &count);
  if (wrong) {
    *ret_why = tp_text_of(wrong);
    return true;
  }
  for (size_t i = 0, next = 0; i < d->call_count; i++)
    if (next < count && places[next] == i) {
      const tp_tool_call *was = d->calls[i];
      const tp_tool_call *is = &calls[next++];
      if (!tp_text_equal(was->name, is->name)) report_replacement(d, was->name, "the call became one of another tool");
      if (was->malformed != is->malformed || !tp_text_equal(was->arguments, is->arguments))
        report_replacement(d, was->name, "the arguments of the call were changed");
    } else report_replacement(d, d->calls[i]->name, "the call was dropped");
  for (size_t i = 0; i < count; i++) list[i] = &calls[i];
  d->calls = list;
  d->call_count = count;
  return true;
}
