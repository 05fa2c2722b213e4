/* SPDX-License-Identifier: Apache-2.0
 *
 * Registration, and the handler that contributes the tools of a server. */
#include "turnphase/mcp.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "domains/mcp/http.h"
#include "domains/mcp/mcp.h"
#include "domains/mcp/sample.h"
#include "domains/mcp/session.h"
#include "domains/mcp/stdio.h"
#include "domains/mcp/tool_call.h"
#include "turnphase/inspect.h"

enum {
  BUNDLE_BYTES_MAX = 900 << 10, /* the most bytes of one server's tools in a turn: an answer has at most 1 MiB */
  TOOL_BYTES = 512,             /* counted for each tool, in addition to its texts */
  LIMIT_SLACK_MS = 1000         /* the handler's limit is start_limit_ms and this */
};

tp_text tp__mcp_tool_output_schema(const tp_tool *tool) {
  if (tool->run != tp__mcp_tool_run) return (tp_text){"", 0};
  const tp__mcp_tool *own = tool->ctx;
  bool is_of_object = tp__is_word(tp_value_text(tp_value_get(own->output_schema, "type")), "object");
  return is_of_object ? own->output_schema : (tp_text){"", 0};
}

/* ---- the tools of a turn ---- */

/* The state that the handler owns. */
typedef struct server {
  tp__mcp_session *session;
} server;

/* A turn that waits for the tools. References: one of the deferral, and one of the session. */
typedef struct wait {
  tp__references refs;
  tp__mcp_session *session; /* holds a reference */
  tp_token token;
  bool is_of_task;                /* the turn is that of a task: it calls one tool, and needs no other */
  char tool[TP_ID_BYTES_MAX + 1]; /* the tool that the task calls */
} wait;

static void wait_unref(void *ctx) {
  wait *w = ctx;
  if (!tp__references_unref(&w->refs)) return;
  tp__mcp_session_unref(w->session);
  tp__heap_free(w, sizeof *w);
}

static void tool_destroy(void *ctx) {
  const tp__mcp_tool *tool = ctx;
  tp__mcp_tools_unref(tool->list);
}

static tp_tool make_tool(const tp_mcp_options *o, const tp__mcp_tool *tool) {
  return (tp_tool){.struct_size = sizeof(tp_tool),
                   .name = tool->full_name,
                   .description = tool->description,
                   .schema = tool->schema,
                   .run = tp__mcp_tool_run,
                   .ctx = (void *)(uintptr_t)tool,
                   .placement = TP_PLACEMENT_INLINE,
                   .max_concurrent = o->max_concurrent,
                   .limit_ms = o->call_limit_ms,
                   .result_bytes_max = o->result_bytes_max,
                   .destroy = tool_destroy};
}

/* The tools of a server that a turn gets. */
typedef struct bundle {
  tp_tool *made;
  const tp_tool **pointers;
  size_t count;    /* each tool holds a reference to its list */
  size_t left_out; /* how many tools do not fit */
} bundle;

/* Copies the tools that fit into one answer together; when a large tool is left out, smaller ones after it can still
 * fit. A task gets only the tool that it calls, so that the work for a call does not grow with the number of tools. */
static void make_tools(const wait *w, tp__mcp_tools *tools, bundle *b) {
  size_t bytes = 0;
  for (size_t i = 0; i < tools->count; i++) {
    const tp__mcp_tool *tool = &tools->items[i];
    if (w->is_of_task && strcmp(tool->full_name, w->tool) != 0) continue;
    size_t size = TOOL_BYTES + strlen(tool->full_name) + strlen(tool->description) + tool->schema.size;
    if (size > BUNDLE_BYTES_MAX - bytes) {
      b->left_out++;
      continue;
    }
    bytes += size;
    b->made[b->count] = make_tool(&w->session->settings.options, tool);
    b->pointers[b->count] = &b->made[b->count];
    b->count++;
    tp__mcp_tools_ref(tools);
  }
}

static tp_contribution warning(tp_text text) {
  return (tp_contribution){.struct_size = sizeof(tp_contribution),
                           .kind = TP_CONTRIBUTION_DIAGNOSTIC,
                           .key = tp_text_of("mcp.server"),
                           .text = text,
                           .severity = TP_SEVERITY_WARNING};
}

/* Adds a diagnostic for each line that was noted, and one for the number of lines that were not kept. */
static size_t add_notes(const tp__mcp_notes *notes, const char *server_name, tp_contribution *items, char words[128]) {
  size_t count = 0;
  tp_text left = tp__bytes_text(&notes->lines), line;
  while (tp__mcp_next_line(&left, &line)) items[count++] = warning(line);
  if (notes->left_out == 0) return count;
  snprintf(words, 128, "%u more messages about the server %s are left out", (unsigned)notes->left_out, server_name);
  items[count++] = warning(tp_text_of(words));
  return count;
}

/* Emits the tools. Each tool that is taken holds a reference to its list. */
static void emit(const wait *w, tp__mcp_tools *tools, const char *words) {
  enum { ITEMS_MAX = TP__MCP_NOTES_MAX + 3 };
  const tp_mcp_options *o = &w->session->settings.options;
  tp_contribution items[ITEMS_MAX];
  const tp_contribution *list[ITEMS_MAX];
  const size_t room = w->is_of_task ? 1 : (tools ? tools->count : 0) + 1;
  char text[TP_FAULT_MESSAGE_SIZE + 128] = "", left_out[128];
  bundle b = {.made = tp__heap_alloc(room * sizeof *b.made), .pointers = tp__heap_alloc(room * sizeof *b.pointers)};
  bool has_memory = b.made && b.pointers;
  tp__mcp_notes notes = {0};
  if (tools && has_memory) make_tools(w, tools, &b);
  tp_fault fault = {0};
  tp__mcp_session_notes_take(w->session, &notes);
  size_t count = add_notes(&notes, o->name, items, left_out);
  if (!tools && count == 0) snprintf(text, sizeof text, "the server %s is not there: %s", o->name, words);
  else if (tools && !has_memory) snprintf(text, sizeof text, "no memory for the tools of the server %s", o->name);
  else if (b.left_out > 0)
    snprintf(text, sizeof text,
             "of the %zu tools of the server %s %zu are used: the descriptions and schemas of the others do not fit "
             "into %d KiB",
             tools->count, o->name, b.count, BUNDLE_BYTES_MAX >> 10);
  if (text[0]) items[count++] = warning(tp_text_of(text));
  if (b.count > 0)
    items[count++] = (tp_contribution){.struct_size = sizeof *items,
                                       .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                       .key = tp_text_of(o->name),
                                       .tools = b.pointers,
                                       .tool_count = (uint32_t)b.count};
  for (size_t i = 0; i < count; i++) list[i] = &items[i];
  const tp_outcome outcome = {.struct_size = sizeof outcome,
                              .kind = TP_ANSWER_DONE,
                              .contributions = count ? list : NULL,
                              .contribution_count = count};
  bool is_taken = tp_token_complete(w->token, &outcome, &fault) == TP_OK;
  for (size_t i = 0; !is_taken && i < b.count; i++) tp__mcp_tools_unref(tools);
  if (!is_taken) tp__mcp_session_notes_return(w->session, &notes); /* the turn is over: the next turn shows the notes */
  tp__bytes_fini(&notes.lines);
  tp__heap_free(b.made, room * sizeof *b.made);
  tp__heap_free(b.pointers, room * sizeof *b.pointers);
}

/* Adds the audit rows of tools that have changed since they were pinned, once for each list. */
static void audit_changed(const tp__mcp_session *s, const tp__mcp_tools *tools) {
  char owner[TP_ID_BYTES_MAX + 1], detail[255];
  snprintf(owner, sizeof owner, "mcp.%s", s->settings.options.name);
  for (size_t i = 0; i < tools->count; i++) {
    if (!tools->items[i].is_changed) continue;
    snprintf(detail, sizeof detail, "%s is not as it was pinned: now %.16s", tools->items[i].full_name,
             tools->items[i].hash);
    (void)!tp_runtime_audit_add(s->runtime, owner, "mcp.changed", tp_text_of(detail), TP_ERR_DENIED, NULL);
  }
}

static void tools_ready(void *ctx, tp__mcp_tools *tools, const char *words) {
  wait *w = ctx;
  if (tools && tp__mcp_session_take_changed(w->session, tools)) audit_changed(w->session, tools);
  emit(w, tools, words);
  wait_unref(w);
}

/* The tool that the turn's task calls; empty: the turn is not that of a task. */
static tp_text task_tool_of(const tp_call *tp) {
  tp_text calls = tp_call_text(tp, TP_FIELD_CALLS);
  return tp_value_count(calls) == 1 ? tp_value_text(tp_value_get(tp_value_at(calls, 0), "tool")) : (tp_text){"", 0};
}

/* Contributes a task's tool without a wait, when the list of the server is ready. @return false: the turn must wait for
 * the session, or there are notes to show. */
static bool contribute_at_once(tp_call *tp, tp__mcp_session *session, tp_text name) {
  const tp_mcp_options *o = &session->settings.options;
  tp__mcp_tools *tools = tp__mcp_session_tools(session);
  if (!tools) return false;
  size_t index = 0;
  while (index < tools->count && !tp__is_word(name, tools->items[index].full_name)) index++;
  bool is_done = index == tools->count; /* a name that this server does not have is that of another server */
  if (!is_done) {
    const tp_tool made = make_tool(o, &tools->items[index]), *const one = &made;
    tp__mcp_tools_ref(tools); /* a reference for the tool, which drops it when it is destroyed */
    is_done = tp_call_emit_tool_bundle(tp, o->name, &one, 1, NULL) == TP_OK;
    if (!is_done) tp__mcp_tools_unref(tools);
  }
  tp__mcp_tools_unref(tools);
  return is_done;
}

/* Called when the turn waits no more, because the time of the phase is over. */
static void wait_cancelled(void *ctx) {
  wait *w = ctx;
  if (!tp__mcp_session_unwant(w->session, w)) return;
  (void)!tp_token_abandon(w->token, NULL); /* this also drops the deferral's reference */
  wait_unref(w);
}

static tp_answer contribute(void *ctx, tp_call *tp) {
  const server *own = ctx;
  tp_text task_tool = task_tool_of(tp);
  if (task_tool.size > 0 && contribute_at_once(tp, own->session, task_tool)) return TP_ANSWER_DONE;
  wait *w = tp__heap_alloc(sizeof *w);
  if (!w) return tp_call_fail(tp, TP_ERR_NO_MEMORY, "no memory to wait for a server");
  tp__references_init(&w->refs);
  tp__mcp_session_ref(own->session);
  w->session = own->session;
  w->is_of_task = task_tool.size > 0;
  (void)tp__copy_cut(w->tool, sizeof w->tool, task_tool);
  const tp_deferral deferral = {
      .struct_size = sizeof deferral, .cancel = wait_cancelled, .destroy = wait_unref, .ctx = w};
  tp__references_ref(&w->refs); /* a reference for the deferral */
  tp_answer answer = tp_call_defer(tp, &deferral, &w->token);
  if (w->token.bits == 0) {
    wait_unref(w);
  } else {
    tp__references_ref(&w->refs); /* a reference for the session */
    if (!tp__mcp_session_want(own->session, tools_ready, w)) tools_ready(w, NULL, "there is no memory to wait for it");
  }
  wait_unref(w);
  return answer;
}

/* ---- tools that have changed ---- */

static tp_answer judge_call(void *ctx, tp_call *tp) {
  tp__mcp_session *session = ctx;
  const tp_mcp_options *o = &session->settings.options;
  char reason[256];
  if (!tp__mcp_session_is_changed(session, tp_call_text(tp, TP_FIELD_TOOL))) return TP_ANSWER_DONE;
  snprintf(reason, sizeof reason, "This tool of the MCP server %s is not the one that was pinned (turnphase mcp pin).",
           o->name);
  return o->changed == TP_MCP_CHANGED_DENY ? tp_call_deny(tp, reason) : tp_call_ask(tp, reason);
}

static void session_unref(void *ctx) { tp__mcp_session_unref(ctx); }

/* Adds a required handler of a server, and its subscription, under one id. */
static tp_status add_required(tp_edit *edit, tp__mcp_session *session, const tp_handler *how, const tp_match *match,
                              int32_t priority, tp_fault *fault) {
  tp_handler handler = *how;
  handler.struct_size = sizeof handler;
  handler.ctx = session;
  handler.destroy = session_unref;
  handler.phase_count = 1;
  handler.contract_version = 1;
  handler.placement = TP_PLACEMENT_INLINE;
  handler.idempotent = true;
  const tp_subscription subscription = {.struct_size = sizeof subscription,
                                        .id = handler.id,
                                        .handler = handler.id,
                                        .phase = handler.phases[0],
                                        .priority = priority,
                                        .failure = TP_FAILURE_REQUIRED,
                                        .match = match};
  tp__mcp_session_ref(session);
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status != TP_OK) {
    tp__mcp_session_unref(session);
    return status;
  }
  return tp_edit_add_subscription(edit, &subscription, fault);
}

static tp_status add_gate(tp_edit *edit, tp__mcp_session *session, const char *id, tp_fault *fault) {
  static const uint32_t phase = TP_PHASE_TOOL_PRE;
  char pattern[TP_ID_BYTES_MAX + 1];
  snprintf(pattern, sizeof pattern, "mcp__%s__*", session->settings.options.name);
  const char *const patterns[] = {pattern};
  const tp_match match = {.struct_size = sizeof match, .tools = patterns, .tool_count = 1};
  const tp_handler handler = {
      .id = id, .summary = "asks about tools that are not as they were pinned", .run = judge_call, .phases = &phase};
  return add_required(edit, session, &handler, &match, 0, fault);
}

/* ---- what servers want of models ---- */

/* Adds the handler that shapes requests, with the priority to run first in its phase: other handlers see, and may
 * change, what is sent. */
static tp_status add_sampling(tp_edit *edit, tp__mcp_session *session, const char *id, tp_fault *fault) {
  static const uint32_t phase = TP_PHASE_MODEL_REQUEST;
  const tp_handler handler = {.id = id,
                              .summary = "leaves of requests that an MCP server wanted what is the server's",
                              .run = tp__mcp_sample_shape,
                              .phases = &phase,
                              .capabilities = TP_CAPABILITY_REPLACE_PAYLOAD};
  return add_required(edit, session, &handler, NULL, INT32_MIN, fault);
}

/* ---- registration ---- */

static void server_destroy(void *ctx) {
  server *own = ctx;
  tp__mcp_session_close(own->session);
  tp__mcp_session_unref(own->session);
  tp__heap_free(own, sizeof *own);
}

typedef struct names {
  char owner[TP_ID_BYTES_MAX + 1], handler[TP_ID_BYTES_MAX + 1], gate[TP_ID_BYTES_MAX + 1];
  char sampling[TP_ID_BYTES_MAX + 1];
} names;

static names names_of(const char *server_name) {
  names n;
  snprintf(n.owner, sizeof n.owner, "mcp.%s", server_name);
  snprintf(n.handler, sizeof n.handler, "mcp.%s.tools", server_name);
  snprintf(n.gate, sizeof n.gate, "mcp.%s.gate", server_name);
  snprintf(n.sampling, sizeof n.sampling, "mcp.%s.sampling", server_name);
  return n;
}

/* Adds the handler, which takes the server. */
static tp_status add(tp_edit *edit, server *own, tp_fault *fault) {
  static const uint32_t phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION;
  const tp_mcp_options *o = &own->session->settings.options;
  const names n = names_of(o->name);
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = n.handler,
                              .summary = "contributes the tools of a server of the Model Context Protocol",
                              .run = contribute,
                              .ctx = own,
                              .destroy = server_destroy,
                              .phases = &phase,
                              .phase_count = 1,
                              .contract_version = 1,
                              .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
                              .placement = TP_PLACEMENT_INLINE,
                              .idempotent = true,
                              .kind = o->arguments ? TP_HANDLER_WORKER : TP_HANDLER_DEFAULT};
  const tp_subscription subscription = {.struct_size = sizeof subscription,
                                        .id = handler.id,
                                        .handler = handler.id,
                                        .phase = phase,
                                        .failure = TP_FAILURE_BEST_EFFORT,
                                        .limit_ms = o->start_limit_ms + LIMIT_SLACK_MS,
                                        .extends_budget = true}; /* without this, the phase's 30 s would end each
                                                                    wait */
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status != TP_OK) { /* the handler was not taken */
    server_destroy(own);
    return status;
  }
  status = tp_edit_add_subscription(edit, &subscription, fault);
  if (status == TP_OK && own->session->settings.has_model) status = add_sampling(edit, own->session, n.sampling, fault);
  return status == TP_OK && o->pins ? add_gate(edit, own->session, n.gate, fault) : status;
}

static tp_status server_new(tp_runtime *runtime, const tp_mcp_options *options, server **ret_server, tp_fault *fault) {
  tp__mcp_settings settings = {0};
  tp_status status = tp__mcp_settings_init(&settings, options, fault);
  if (status != TP_OK) return status;
  server *own = tp__heap_alloc(sizeof *own);
  if (!own) {
    tp__mcp_settings_fini(&settings);
    return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a server");
  }
  const tp__mcp_transport *transport = settings.options.url ? &tp__mcp_http : &tp__mcp_stdio;
  status = tp__mcp_session_new(runtime, &settings, transport, &own->session, fault);
  if (status == TP_OK) *ret_server = own;
  else tp__heap_free(own, sizeof *own);
  return status;
}

/* Tries to add once: another commit may come in between. */
static tp_status add_once(tp_runtime *runtime, const tp_mcp_options *options, tp_fault *fault) {
  server *own = NULL;
  tp_edit *edit = NULL;
  tp_status status = server_new(runtime, options, &own, fault);
  if (status != TP_OK) return status;
  const names n = names_of(own->session->settings.options.name);
  const tp_owner owner = {.struct_size = sizeof owner,
                          .name = n.owner,
                          .trust = TP_TRUST_HOST,
                          .grants = own->session->settings.has_model ? TP_GRANT_PRIVILEGED_HOOKS : 0};
  status = tp_edit_begin(runtime, &owner, &edit, fault);
  if (status != TP_OK) {
    server_destroy(own);
    return status;
  }
  status = add(edit, own, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

tp_status tp_mcp_add(tp_runtime *runtime, const tp_mcp_options *options, tp_fault *fault) {
  tp_status status;
  if (!runtime) return tp__refuse(fault, TP_ERR_USAGE, NULL, "runtime is NULL");
  do status = add_once(runtime, options, fault);
  while (status == TP_ERR_CONFLICT);
  return status;
}

enum { PART_GATE = 1, PART_SAMPLING = 2 };

static tp_status remove_part(tp_edit *edit, const char *id, tp_fault *fault) {
  tp_status status = tp_edit_remove_subscription(edit, id, fault);
  return status == TP_OK ? tp_edit_remove_handler(edit, id, fault) : status;
}

/* @param parts  the handlers with which the server was added. */
static tp_status remove_once(tp_runtime *runtime, const names *n, unsigned parts, tp_fault *fault) {
  const tp_owner owner = {.struct_size = sizeof owner, .name = n->owner, .trust = TP_TRUST_HOST};
  tp_edit *edit = NULL;
  tp_status status = tp_edit_begin(runtime, &owner, &edit, fault);
  if (status != TP_OK) return status;
  status = remove_part(edit, n->handler, fault);
  if (status == TP_OK && (parts & PART_GATE)) status = remove_part(edit, n->gate, fault);
  if (status == TP_OK && (parts & PART_SAMPLING)) status = remove_part(edit, n->sampling, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

tp_status tp_mcp_remove(tp_runtime *runtime, const char *name, tp_fault *fault) {
  tp_status status;
  unsigned parts = PART_GATE | PART_SAMPLING; /* the server may have been added without one of these handlers, or
                                                 without both */
  if (!runtime) return tp__refuse(fault, TP_ERR_USAGE, NULL, "runtime is NULL");
  if (!name || strlen(name) > TP_ID_BYTES_MAX - sizeof "mcp..sampling")
    return tp__refuse(fault, TP_ERR_BAD_ID, name, "there can be no MCP server of this name");
  const names n = names_of(name);
  while (true) {
    status = remove_once(runtime, &n, parts, fault);
    if (status == TP_ERR_NOT_FOUND && parts > 0) parts--;
    else if (status != TP_ERR_CONFLICT) return status;
  }
}
