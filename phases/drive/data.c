/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c: gives handlers, tools, providers and listeners the host's own pointers. A turn has a copy of each, because a
 * running turn may outlive its session. */
#include "phases/turn/event_inbox.h"
#include "phases/session/session.h"
#include "phases/tools/tool_run.h"
#include "runtime/exec/runtime.h"

static void *data_of(const tp__turn *core, uint32_t id) {
  if (id == TP_ID_RUNTIME) return tp__runtime_options(core->runtime)->data;
  if (core->kind == TP__TURN_DETACHED) return NULL; /* its turn is the engine's alone */
  const tp_turn *turn = tp__turn_of((tp__turn *)(uintptr_t)core);
  switch (id) {
    case TP_ID_AGENT:
      return turn->agent ? turn->agent->data : NULL;
    case TP_ID_SESSION:
      return turn->session_data;
    case TP_ID_TURN:
      return turn->data;
    default:
      return NULL;
  }
}

void *tp_call_data(const tp_call *call, uint32_t id) {
  if (!call) return NULL;
  return data_of(call->entry->turn, id);
}
void *tp_match_data(const tp_match_view *view, uint32_t id) {
  if (!view) return NULL;
  return data_of(view->entry->turn, id);
}
void *tp_tool_run_data(const tp_tool_run *run, uint32_t id) {
  if (!run) return NULL;
  return data_of(run->turn, id);
}

/* The library sets the turn, or for a copied event the data. A struct that the host made itself has neither. */
void *tp_event_data(const tp_event *event, uint32_t id) {
  if (!event) return NULL;
  if (event->turn) return data_of(event->turn, id);
  const tp__event_data *data = event->copied;
  if (!data) return NULL;
  return id == TP_ID_RUNTIME ? data->of_runtime : id < TP_ID_COUNT ? data->of_ids[id] : NULL;
}
void *tp_model_request_data(const tp_model_request *request, uint32_t id) {
  if (!request) return NULL;
  return request->turn ? data_of(request->turn, id) : NULL;
}

void *tp_runtime_data(const tp_runtime *runtime) {
  if (!runtime) return NULL;
  return tp__runtime_options(runtime)->data;
}
void *tp_agent_data(const tp_agent *agent) {
  if (!agent) return NULL;
  return agent->data;
}
void *tp_session_data(const tp_session *session) {
  if (!session) return NULL;
  return session->data;
}
void *tp_turn_data(const tp_turn *turn) {
  if (!turn) return NULL;
  return turn->data;
}
