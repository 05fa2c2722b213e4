/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/turn/agents.h"

#include "phases/turn/agent.h"
#include "runtime/exec/runtime.h"

static tp_agent *agent_of(const tp__link *link) { return TP__CONTAINER((tp__link *)(uintptr_t)link, tp_agent, link); }

tp_status tp__agents_init(tp__agents *agents) {
  tp__list_init(&agents->list);
  agents->numbers = 0;
  return tp__mutex_init(&agents->mutex, TP__RANK_agents);
}

void tp__agents_fini(tp__agents *agents) {
  TP__ASSERT(tp__list_empty(&agents->list));
  tp__mutex_fini(&agents->mutex);
}

static tp_agent *find_agent_locked(const tp__agents *agents, const char *id) {
  TP__LOCKED(&agents->mutex);
  for (const tp__link *link = agents->list.next; link != &agents->list; link = link->next)
    if (strcmp(agent_of(link)->id, id) == 0) return agent_of(link);
  return NULL;
}

static void push_locked(tp__agents *agents, tp_agent *agent) {
  TP__LOCKED(&agents->mutex);
  agent->number = ++agents->numbers;
  tp__list_push(&agents->list, &agent->link);
}

bool tp__agents_reserve(tp__agents *agents, tp_agent *agent) {
  tp__mutex_lock(&agents->mutex);
  bool is_new = !find_agent_locked(agents, agent->id);
  if (is_new) push_locked(agents, agent);
  tp__mutex_unlock(&agents->mutex);
  return is_new;
}

void tp__agents_show(tp__agents *agents, tp_agent *agent) {
  tp__mutex_lock(&agents->mutex);
  if (tp__list_empty(&agent->link)) push_locked(agents, agent);
  agent->visible = true;
  tp__mutex_unlock(&agents->mutex);
}

void tp__agents_delist(tp__agents *agents, tp_agent *agent) {
  tp__mutex_lock(&agents->mutex);
  agent->visible = false;
  tp__list_remove(&agent->link);
  tp__mutex_unlock(&agents->mutex);
}

void tp__agents_swap(tp__agents *agents, const tp__agent_swap *swaps, size_t count) {
  tp__mutex_lock(&agents->mutex);
  for (size_t i = 0; i < count; i++) {
    tp_agent *before = swaps[i].before, *after = swaps[i].after;
    if (after) after->visible = true;
    if (before) before->visible = false;
    if (before && after) {
      after->number = before->number;
      tp__list_push(&before->link, &after->link);
      tp__a32_store_release(&before->replaced, 1);
    }
    if (before) tp__list_remove(&before->link);
  }
  tp__mutex_unlock(&agents->mutex);
}

tp_agent *tp__agents_newest_registered(tp__agents *agents) {
  tp_agent *found = NULL;
  tp__mutex_lock(&agents->mutex);
  for (tp__link *link = agents->list.prev; link != &agents->list && !found; link = link->prev)
    if (tp__a32_load_acquire(&agent_of(link)->registered)) found = agent_of(link);
  if (found) tp__agent_ref(found);
  tp__mutex_unlock(&agents->mutex);
  return found;
}

void tp__agents_free_all(tp__agents *agents) {
  while (!tp__list_empty(&agents->list)) {
    tp_agent *agent = agent_of(agents->list.next);
    tp__list_remove(&agent->link);
    tp__agent_unref(agent);
  }
}

/* ---- finding and walking ---- */

tp_agent *tp_agent_find(tp_runtime *runtime, const char *id) {
  if (!runtime || !id || tp__runtime_is_forked(runtime)) return NULL;
  tp__agents *agents = tp__layer_agents(runtime);
  tp__mutex_lock(&agents->mutex);
  tp_agent *found = NULL;
  for (const tp__link *link = agents->list.next; link != &agents->list && !found; link = link->next)
    if (agent_of(link)->visible && strcmp(agent_of(link)->id, id) == 0) found = agent_of(link);
  if (found) tp__agent_ref(found);
  tp__mutex_unlock(&agents->mutex);
  return found;
}

/* The first visible agent after `after`, referenced. If `after` has left the list meanwhile, its place is found by its
 * number. */
static tp_agent *next_of(tp__agents *agents, tp_agent *after) {
  tp_agent *next = NULL;
  tp__mutex_lock(&agents->mutex);
  bool left = after && tp__list_empty(&after->link);
  tp__link *link = after && !left ? after->link.next : agents->list.next;
  for (; link != &agents->list && !next; link = link->next)
    if (agent_of(link)->visible && (!left || agent_of(link)->number > after->number)) next = agent_of(link);
  if (next) tp__agent_ref(next);
  tp__mutex_unlock(&agents->mutex);
  return next;
}

size_t tp_runtime_agents(tp_runtime *runtime, tp_agent_fn each, void *ctx) {
  if (!runtime || tp__runtime_is_forked(runtime)) return 0;
  size_t count = 0;
  bool more = true;
  tp__agents *agents = tp__layer_agents(runtime);
  tp_agent *agent = next_of(agents, NULL);
  while (agent) {
    count++;
    if (each) more = each(ctx, agent);
    tp_agent *next = more ? next_of(agents, agent) : NULL;
    tp__agent_unref(agent);
    agent = next;
  }
  return count;
}
