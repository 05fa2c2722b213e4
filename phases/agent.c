/* SPDX-License-Identifier: Apache-2.0
 *
 * agent.c: agents as objects: their list, their config, who finds them. agent_work.c runs their phases. */
#include "phases/agent.h"

#include "phases/model.h"
#include "runtime/exec/entry.h"

static void free_agent(tp_agent *agent) {
  const tp_allocator *allocator = tp__runtime_allocator(agent->layer->runtime);
  tp__inside frame;
  tp__inside_enter(&frame, agent->layer->runtime, TP__INSIDE_CALLBACK);
  tp__models_drop(&agent->models, allocator);
  tp__inside_leave(&frame);
  tp__string_free(allocator, agent->id);
  tp__string_free(allocator, agent->system);
  tp__string_free(allocator, agent->model_name);
  tp__release(allocator, (void *)(uintptr_t)agent->config.data, agent->config.size);
  tp__release(allocator, agent, sizeof *agent);
}

void tp__agent_ref(tp_agent *agent) { tp__a32_add_relaxed(&agent->refs, 1); }

void tp__agent_unref(tp_agent *agent) {
  if (tp__a32_sub_acq_rel(&agent->refs, 1) == 1) free_agent(agent);
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

/* ---- the list ---- */

static tp_agent *agent_of(const tp__link *link) { return TP__CONTAINER((tp__link *)(uintptr_t)link, tp_agent, link); }

tp_agent *tp_agent_find(tp_runtime *runtime, const char *id) {
  if (!runtime) return NULL;
  tp__agent_layer *layer = tp__agent_layer_of(runtime);
  tp_agent *found = NULL;
  if (!id || tp__runtime_is_forked(runtime)) return NULL;
  tp__mutex_lock(&layer->agents_mutex);
  for (tp__link *link = layer->agents.next; link != &layer->agents && !found; link = link->next)
    if (agent_of(link)->visible && strcmp(agent_of(link)->id, id) == 0) found = agent_of(link);
  if (found) tp__agent_ref(found);
  tp__mutex_unlock(&layer->agents_mutex);
  return found;
}

/* The first visible one after `after`, which may have left the list meanwhile: then the walk ends, as that of one who
 * came before it would. Referenced. */
static tp_agent *next_of(tp__agent_layer *layer, tp_agent *after) {
  tp_agent *next = NULL;
  tp__mutex_lock(&layer->agents_mutex);
  tp__link *link = after ? after->link.next : layer->agents.next;
  bool is_gone = after && link == &after->link;
  for (; !is_gone && link != &layer->agents && !next; link = link->next)
    if (agent_of(link)->visible) next = agent_of(link);
  if (next) tp__agent_ref(next);
  tp__mutex_unlock(&layer->agents_mutex);
  return next;
}

size_t tp_runtime_agents(tp_runtime *runtime, tp_agent_fn each, void *ctx) {
  if (!runtime) return 0;
  size_t count = 0;
  bool more = true;
  if (tp__runtime_is_forked(runtime)) return 0;
  tp_agent *agent = next_of(tp__agent_layer_of(runtime), NULL);
  while (agent) {
    count++;
    if (each) more = each(ctx, agent);
    tp_agent *next = more ? next_of(tp__agent_layer_of(runtime), agent) : NULL;
    tp__agent_unref(agent);
    agent = next;
  }
  return count;
}

void tp__agents_free_all(tp_runtime *runtime) {
  tp__agent_layer *layer = tp__agent_layer_of(runtime);
  while (!tp__list_empty(&layer->agents)) {
    tp_agent *agent = agent_of(layer->agents.next);
    tp__list_remove(&agent->link);
    tp__agent_unref(agent);
  }
}

/* ---- for handlers ---- */

tp_text tp_call_agent_config(const tp_call *call) {
  if (!call) return (tp_text){0};
  const tp__turn *core = call->entry->turn;
  if (core->kind == TP__TURN_DETACHED) return (tp_text){NULL, 0}; /* its turn is the engine's alone */
  const tp_agent *agent = tp__turn_of((tp__turn *)(uintptr_t)core)->agent;
  return agent ? agent->config : (tp_text){NULL, 0};
}
