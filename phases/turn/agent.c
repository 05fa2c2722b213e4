/* SPDX-License-Identifier: Apache-2.0
 *
 * agent.c: agents as objects. agents.c has their list, agent_work.c runs their phases. */
#include "phases/turn/agent.h"

#include "runtime/exec/runtime.h"

void tp__agent_ref(tp_agent *agent) { tp__a32_add_relaxed(&agent->refs, 1); }

void tp__agent_unref(tp_agent *agent) {
  if (tp__a32_sub_acq_rel(&agent->refs, 1) == 1) {
    const tp_allocator *allocator = tp__runtime_allocator(agent->runtime);
    tp__inside frame;
    tp__inside_enter(&frame, agent->runtime, TP__INSIDE_CALLBACK);
    tp__models_drop(&agent->models, allocator);
    tp__inside_leave(&frame);
    tp__string_free(allocator, agent->id);
    tp__string_free(allocator, agent->system);
    tp__string_free(allocator, agent->model_name);
    tp__release(allocator, (void *)(uintptr_t)agent->config.data, agent->config.size);
    tp__release(allocator, agent, sizeof *agent);
  }
}

void tp_agent_unref(tp_agent *agent) {
  if (agent) tp__agent_unref(agent);
}

const char *tp_agent_id(const tp_agent *agent) {
  if (!agent) return NULL;
  return agent->id;
}
tp_text tp_agent_config_get(const tp_agent *agent) {
  if (!agent) return (tp_text){0};
  return agent->config;
}

static bool one_fits(tp_text patterns, tp_text name) {
  for (tp_value_walk walk = {0}; patterns.size > 0 && tp_value_next(patterns, &walk);)
    if (tp_pattern_fits(tp_value_text(walk.value), name)) return true;
  return false;
}

bool tp_agent_has_in_scope(const tp_agent *agent, tp_text tool) {
  if (!agent) return false;
  return (agent->scope.size == 0 || one_fits(agent->scope, tool)) && !one_fits(agent->denied, tool);
}
