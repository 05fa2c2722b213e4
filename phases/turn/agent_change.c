/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_change.c: replaces several agents at once, all or none. Steps that may be refused come first, each with its
 * undo. The step that makes the change visible comes last, in one critical section of the list. */
#include "phases/model/model.h"
#include "phases/turn/agent_work.h"
#include "phases/turn/agents.h"
#include "phases/turn/turn.h"

/** One change of the list. */
typedef struct part {
  tp_agent *before, *after; /* after: this function's until the end */
  tp_agent_config config;   /* where has_config */
  bool has_config;
  bool unregistered; /* agent.unregister has run for before */
} part;

typedef struct change {
  tp_runtime *runtime;
  part *parts;
  tp__agent_swap *swaps;
  size_t count;
  /* held from the beginning to the end: a drain that begins meanwhile waits, and then finds the new agents */
  tp_turn *turn;
} change;

static const tp_allocator *allocator_of(const change *c) { return tp__runtime_allocator(c->runtime); }

/* ---- what is asked for ---- */

static tp_status refuse_change(tp_fault *fault, const char *id, const char *what) {
  return tp__fail(fault, TP_ERR_USAGE, id, "tp_agent_change: %s", what);
}

static tp_status check_before(const change *c, const part *p, tp_fault *fault) {
  tp_agent *found = tp_agent_find(c->runtime, p->before->id);
  tp_agent_unref(found); /* the host has a reference */
  if (p->before->runtime != c->runtime) return refuse_change(fault, p->before->id, "the agent is of another runtime");
  if (found != p->before) return refuse_change(fault, p->before->id, "the agent was removed or replaced");
  if (p->has_config && strcmp(p->before->id, p->config.id) != 0)
    return refuse_change(fault, p->config.id, "an agent is replaced by one of its own id");
  return TP_OK;
}

static tp_status check_pair(const part *a, const part *b, tp_fault *fault) {
  const char *id = a->has_config ? a->config.id : a->before->id, *other = b->has_config ? b->config.id : b->before->id;
  return strcmp(id, other) == 0 ? refuse_change(fault, id, "the agent is listed twice") : TP_OK;
}

static tp_status read_change(change *c, const tp_agent_change *theirs, part *p, tp_fault *fault) {
  tp_agent_change ours;
  TP__TRY(tp__options_read(&ours, sizeof ours, theirs, "tp_agent_change", fault));
  p->before = ours.before;
  p->has_config = ours.config != NULL;
  if (!p->before && !p->has_config) return refuse_change(fault, NULL, "neither before nor config is set");
  if (p->has_config) TP__TRY(tp__agent_config_read(c->runtime, ours.config, &p->config, fault));
  return p->before ? check_before(c, p, fault) : TP_OK;
}

/* ---- the steps that may be refused ---- */

static tp_status build_agent(change *c, part *p, tp_fault *fault) {
  if (!p->has_config) return TP_OK;
  TP__TRY(tp__agent_build(c->runtime, &p->config, !p->before, &p->after, fault));
  const tp_model *model = p->before ? tp__models_need_inbox(&p->after->models) : NULL;
  if (!model) return TP_OK;
  return refuse_change(fault, p->config.id, "a model with TP_INBOX_OF_SESSION would come to sessions that are open");
}

static tp_status enroll(part *p, tp_fault *fault) {
  if (!p->after) return TP_OK;
  if (p->before) {
    tp__agent_unregister(p->before);
    p->unregistered = true;
  }
  return tp__agent_register(p->after, fault);
}

static void log_lost(const tp_agent *agent, const tp_fault *fault) {
  tp__log_subject subject = {.status = TP_ERR_HOOK, .phase = TP_PHASE_AGENT_REGISTER};
  tp__log(agent->runtime, TP_LOG_ERROR, &subject, "agent.register of `%s`, which stays, was refused: %s", agent->id,
          fault->message);
}

/* Undoes the steps in reverse order. Nothing of the change was visible. */
static void undo(change *c) {
  for (size_t i = c->count; i > 0; i--) {
    part *p = &c->parts[i - 1];
    tp_fault fault = {0};
    if (p->after) tp__agent_unregister(p->after);
    if (p->unregistered && tp__agent_register(p->before, &fault) != TP_OK) log_lost(p->before, &fault);
    if (p->after) tp__agent_unbuild(p->after);
  }
}

/* ---- the change ---- */

static void show_change(change *c, tp_agent_change *const *changes) {
  for (size_t i = 0; i < c->count; i++)
    c->swaps[i] = (tp__agent_swap){.before = c->parts[i].before, .after = c->parts[i].after};
  tp__agents_swap(tp__layer_agents(c->runtime), c->swaps, c->count);
  for (size_t i = 0; i < c->count; i++) {
    part *p = &c->parts[i];
    changes[i]->agent = p->after;
    if (!p->before) continue;
    tp__agent_unregister(p->before); /* of one that is only removed */
    tp__agent_unref(p->before);
  }
}

static tp_status begin_change(change *c, tp_agent_change *const *changes, tp_fault *fault) {
  tp_turn_request request;
  TP__TRY(tp__request_read(NULL, &request, fault));
  c->parts = tp__alloc_zero(allocator_of(c), c->count * sizeof *c->parts);
  c->swaps = tp__alloc_zero(allocator_of(c), c->count * sizeof *c->swaps);
  if (!c->parts || !c->swaps) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a change of agents");
  for (size_t i = 0; i < c->count; i++) {
    if (!changes[i]) return refuse_change(fault, NULL, "a pointer of the list is NULL");
    TP__TRY(read_change(c, changes[i], &c->parts[i], fault));
    for (size_t other = 0; other < i; other++) TP__TRY(check_pair(&c->parts[other], &c->parts[i], fault));
  }
  return tp__turn_new_held(c->runtime, &(tp__turn_ids){0}, &request, TP__TURN_HELD, &c->turn, fault);
}

tp_status tp_agents_change(tp_runtime *runtime, tp_agent_change *const *changes, size_t count, tp_fault *fault) {
  change c = {.runtime = runtime, .count = count};
  if (!runtime) return tp__fail_null(fault, "runtime");
  if (!changes || count == 0) return refuse_change(fault, NULL, "the list is empty");
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(tp__may_block(runtime, fault, "tp_agents_change"));
  TP__TRY(tp__runtime_ready(runtime, fault));
  tp_status status = begin_change(&c, changes, fault);
  if (status == TP_OK) {
    for (size_t i = 0; i < count && status == TP_OK; i++) status = build_agent(&c, &c.parts[i], fault);
    for (size_t i = 0; i < count && status == TP_OK; i++) status = enroll(&c.parts[i], fault);
    if (status == TP_OK) show_change(&c, changes);
    else undo(&c);
    tp_turn_end(c.turn);
  }
  tp__release(allocator_of(&c), c.parts, c.count * sizeof *c.parts);
  tp__release(allocator_of(&c), c.swaps, c.count * sizeof *c.swaps);
  return status;
}
