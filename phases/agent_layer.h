/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_layer: what this layer adds to a runtime: its agents, its sessions, and the permits of tools. */
#ifndef TP__AGENT_LAYER_H
#define TP__AGENT_LAYER_H

#include "phases/admission.h"
#include "phases/agents.h"
#include "phases/breaker.h"
#include "phases/budget.h"
#include "phases/listeners.h"
#include "phases/sessions.h"
#include "phases/task.h"
#include "phases/tool_permits.h"
#include "runtime/exec/runtime.h"

/* A tenant has one of these, found by its name: two of many may share one. */
enum { TP__HISTORY_PERMITS = 64 };

typedef struct tp__agent_layer {
  tp_runtime *runtime;
  tp__agents agents;
  tp__sessions sessions;
  tp__permits history_permits[TP__HISTORY_PERMITS]; /* by tenant */
  uint32_t history_permits_max;
  tp__tool_permits tool_permits;
  tp__breakers breakers; /* of the providers of models */
  tp__listeners listeners;
  tp__tasks tasks;
  tp__admission admission; /* of driven turns */
  tp__budgets budgets;     /* of a day */
} tp__agent_layer;

/** What this layer counts (tp__thread_caches_count): turns in queues, and ended ones by outcome. */
enum { TP__COUNT_QUEUED = 0 /* and TP_TURN_COMPLETED to TP_TURN_TIMED_OUT */ };

static inline tp__agent_layer *tp__agent_layer_of(tp_runtime *runtime) { return tp__runtime_layer(runtime); }

#endif
