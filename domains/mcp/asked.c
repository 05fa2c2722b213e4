/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/asked.h"

#include <assert.h>

#include "domains/mcp/changed.h"
#include "domains/mcp/server/server.h"
#include "support/text.h"

/* A question of a server. The code that answers it owns it. */
struct tp_mcp_asked {
  tp__mcp_session *session; /* holds a reference */
  tp__mcp_asked_fn on_answer;
  void *ctx;
};

static void end(tp_mcp_asked *asked, tp_text result) {
  assert(asked->session && asked->on_answer);
  asked->on_answer(asked->ctx, result);
  tp__mcp_session_unref(asked->session);
  tp__heap_free(asked, sizeof *asked);
}

static void end_with(tp_mcp_asked *asked, const char *action, tp_text content) {
  tp_writer *writer = NULL;
  tp_text result = {"", 0};
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    tp_write_map(writer, 1U + (content.size > 0));
    tp_write_string(writer, "action");
    tp_write_string(writer, action);
    if (content.size > 0) tp_write_string(writer, "content"), tp_write_value(writer, content);
    if (tp_writer_finish(writer, &result) != TP_OK) result = (tp_text){"", 0};
  }
  end(asked, result);
  tp_writer_free(writer);
}

/* ---- the client of a gateway ---- */

static void client_answered(void *ctx, tp_text answers) {
  tp_text answer = tp_value_at(answers, 0);
  if (tp_value_kind_of(answer) == TP_VALUE_MAP) end(ctx, answer);
  else end_with(ctx, "cancel", (tp_text){"", 0});
}

/* @return false: the call is not one of a client, or the client cannot show forms. */
static bool ask_client(tp_mcp_asked *asked, tp_text params, const tp__mcp_origin *origin) {
  tp_mcp_call *call = origin ? tp__mcp_changed_find(asked->session->runtime, origin->data) : NULL;
  if (!call) return false;
  bool is_asked = tp__mcp_call_pass_on(call, "elicitation/create", params, client_answered, asked);
  tp__mcp_call_unref(call);
  return is_asked;
}

/* ---- the host ---- */

static void ask_host(tp_mcp_asked *asked, tp_text params, const tp__mcp_origin *origin) {
  const tp_mcp_options *o = &asked->session->settings.options;
  const tp_mcp_question question = {.struct_size = sizeof question,
                                    .asked = asked,
                                    .server = o->name,
                                    .tool = origin ? tp_text_of(origin->tool) : (tp_text){"", 0},
                                    .message = tp_value_text(tp_value_get(params, "message")),
                                    .url = tp_value_text(tp_value_get(params, "url")),
                                    .schema = tp_value_get(params, "requestedSchema")};
  o->ask(o->ask_ctx, &question);
}

tp_status tp_mcp_answer(tp_mcp_asked *asked, tp_mcp_action action, tp_text content, tp_fault *fault) {
  static const char *const words[] = {
      [TP_MCP_ACCEPT] = "accept", [TP_MCP_DECLINE] = "decline", [TP_MCP_CANCEL] = "cancel"};
  if (!asked || action < TP_MCP_ACCEPT || action > TP_MCP_CANCEL)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_mcp_answer() needs what was asked, and an action");
  if (content.size > 0 && action != TP_MCP_ACCEPT)
    return tp__refuse(fault, TP_ERR_USAGE, "content", "only what is accepted has a content");
  if (content.size > 0) {
    tp_status status = tp_value_check(content, fault);
    if (status != TP_OK) return status;
    if (tp_value_kind_of(content) != TP_VALUE_MAP) return tp__refuse(fault, TP_ERR_USAGE, "content", "is a map");
  }
  end_with(asked, words[action], content);
  return TP_OK;
}

void tp__mcp_asked_begin(tp__mcp_session *session, tp_text params, const tp__mcp_origin *origin,
                         tp__mcp_asked_fn on_answer, void *ctx) {
  tp_mcp_asked *asked = tp__heap_alloc(sizeof *asked);
  if (!asked) {
    on_answer(ctx, (tp_text){"", 0});
    return;
  }
  tp__mcp_session_ref(session);
  *asked = (tp_mcp_asked){.session = session, .on_answer = on_answer, .ctx = ctx};
  if (ask_client(asked, params, origin)) return;
  if (session->settings.options.ask) ask_host(asked, params, origin);
  else end_with(asked, "decline", (tp_text){"", 0});
}
