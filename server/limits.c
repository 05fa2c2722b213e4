/* SPDX-License-Identifier: Apache-2.0
 *
 * limits: the settings for the server in the config of an agent: the limits of its turns, and the tools that they may
 * use. */
#include "server/server.h"

/** The amounts of a map `limits`; 0: not given. */
typedef struct amounts {
  int64_t requests, tool_calls, tokens, cost_micros, time_ms, repeats;
} amounts;

/* Reads the limits. When one cannot be read, no turn may run without it. */
static tp_status read_limits(const tp_agent *agent, tp_text map, amounts *ret_amounts, tp_fault *fault) {
  const struct {
    const char *key;
    int64_t *to, most;
  } rows[] = {
      {"requests", &ret_amounts->requests, INT32_MAX},       {"tool_calls", &ret_amounts->tool_calls, INT32_MAX},
      {"tokens", &ret_amounts->tokens, INT64_MAX},           {"time_ms", &ret_amounts->time_ms, UINT32_MAX},
      {"cost_micros", &ret_amounts->cost_micros, INT64_MAX}, {"repeats", &ret_amounts->repeats, INT32_MAX}};
  const char *id = tp_agent_id(agent);
  if (map.size > 0 && tp_value_kind_of(map) != TP_VALUE_MAP)
    return tp__refuse(fault, TP_ERR_INTERNAL, id, "limits in the config of the agent %s is no map", id);
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    size_t i = 0;
    while (i < sizeof rows / sizeof *rows && !tp_text_is(walk.key, rows[i].key)) i++;
    bool is_known = i < sizeof rows / sizeof *rows, is_int = tp_value_kind_of(walk.value) == TP_VALUE_INT;
    int64_t number = is_int ? tp_value_int(walk.value, 0) : 0;
    if (!is_known || number < 1 || number > rows[i].most)
      return tp__refuse(fault, TP_ERR_INTERNAL, id, "limits in the config of the agent %s: %.*s %s", id,
                        tp__cut(walk.key, TP_ID_BYTES_MAX), walk.key.data,
                        is_known ? "must be a whole number above 0" : "is no limit");
    *rows[i].to = number;
  }
  return TP_OK;
}

tp_status tp__server_limits_fill(const tp_agent *agent, tp_turn_request *request, tp_fault *fault) {
  amounts of_agent = {0};
  tp_status status = read_limits(agent, tp_value_get(tp_agent_config_get(agent), "limits"), &of_agent, fault);
  if (status != TP_OK) return status;
  bool is_less = of_agent.tool_calls && (!request->tool_calls_max || of_agent.tool_calls < request->tool_calls_max);
  if (is_less) request->tool_calls_max = (uint32_t)of_agent.tool_calls;
  if (of_agent.time_ms) request->limit_ms = (uint32_t)of_agent.time_ms;
  request->iterations_max = (uint32_t)of_agent.requests;
  request->call_repeats_max = (uint32_t)of_agent.repeats;
  request->tokens_max = of_agent.tokens;
  request->cost_micros_max = of_agent.cost_micros;
  return TP_OK;
}

/* ---- tools ---- */

bool tp__server_tools_check(const tp_agent *agent, tp_text tools, tp__refusal *refusal) {
  for (tp_value_walk walk = {0}; tools.size > 0 && tp_value_next(tools, &walk);) {
    tp_text name = tp_value_text(tp_value_get(walk.value, "name"));
    if (tp_agent_has_in_scope(agent, name)) continue;
    return tp__refusal_fill(refusal, 400, "tool_not_allowed", "tools",
                            "tools: the agent %s may not use the tool '%.*s': it is not among the tools of its config",
                            tp_agent_id(agent), tp__cut(name, TP_ID_BYTES_MAX), name.data);
  }
  return true;
}
