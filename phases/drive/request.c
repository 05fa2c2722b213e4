/* SPDX-License-Identifier: Apache-2.0
 *
 * request.c: the request: {system text, messages, tools}. The blocks that are added to a message (context, signals,
 * reminders) are rendered anew for each request, and never enter the history. Without any block the messages are the
 * history's own bytes. */
#include "phases/drive/structured.h"
#include "phases/model/parts.h"
#include "phases/merge/render.h"
#include "phases/drive/steps.h"

static tp_status render_context(tp__drive *d, tp_text *ret_text) {
  const tp__turn_sets *sets = d->turn->core.sets;
  const tp_merged *own = d->request_context.merged;
  tp__merged_list lists[2] = {{0}, {0}};
  if (sets) lists[0] = sets->contexts;
  if (own) lists[1] = own->lists[TP_CONTRIBUTION_PROMPT_CONTEXT];
  return tp__render_context(&d->arena, lists, 2, ret_text);
}

static tp_status render_reminders(tp__drive *d, tp_text *ret_text) {
  tp__merged_list reminders;
  if (!tp__reminders_take(&d->session->reminders, &d->arena, &reminders)) return TP_ERR_NO_MEMORY;
  return tp__render_reminders(&d->arena, &reminders, ret_text);
}

/* If the request has blocks of the library, no text of others may look like such a block. A text that needs no escaping
 * is not copied. The past has its own escaped messages (past.c). */
static tp_status escape_others(tp__drive *d, tp_message *messages, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (messages[i].role != TP_ROLE_ASSISTANT)
      TP__TRY(tp__render_escaped(&d->arena, messages[i].text, &messages[i].text));
  return TP_OK;
}

typedef struct blocks {
  tp_text context, signals, added_signals, reminders;
} blocks;

/* Context and signals are added to the turn's first message, the user's. Reminders are added to the last message, and
 * so are signals of messages that were added since the last request (the last message is one of them then). */
static tp_status join(tp__drive *d, tp_message *messages, size_t count, const blocks *b) {
  tp_message *first = &messages[0], *last = &messages[count - 1];
  tp__render_parts parts = {.context = b->context, .signals = b->signals, .text = first->text};
  if (first == last) parts.reminders = b->reminders;
  TP__TRY(tp__render_message(&d->arena, &parts, &first->text));
  if (first == last) return TP_OK;
  parts = (tp__render_parts){.signals = b->added_signals,
                             .is_result = last->role == TP_ROLE_TOOL,
                             .text = last->text,
                             .reminders = b->reminders};
  return tp__render_message(&d->arena, &parts, &last->text);
}

/* Copies of the turn's messages with the blocks in them. */
static tp_status join_blocks(tp__drive *d, const blocks *b, const tp_message *const **ret_own) {
  size_t count = d->messages.count;
  tp_message *copies = tp__arena_alloc(&d->arena, count * sizeof *copies);
  const tp_message **own = tp__arena_alloc(&d->arena, count * sizeof *own);
  if (!copies || !own) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    copies[i] = *d->messages.items[i];
    own[i] = &copies[i];
  }
  TP__TRY(join(d, copies, count, b));
  /* Parts are never cut; texts in them are escaped, also in the user's own message. */
  for (size_t i = 0; i < count; i++)
    if (copies[i].parts.size > 0) TP__TRY(tp__parts_escaped(&d->arena, copies[i].parts, &copies[i].parts));
  if (count > 2) TP__TRY(escape_others(d, copies + 1, count - 2)); /* the first and the last are joined */
  *ret_own = own;
  return TP_OK;
}

/* The name belongs to the first model; another provider would not know it. */
tp_text tp__drive_model_name(const tp__drive *d) {
  if (d->asked_name.size > 0) return d->asked_name;
  if (tp__a32_load_relaxed(&d->model_index) > 0) return (tp_text){NULL, 0};
  if (d->request.model_name) return tp_text_of(d->request.model_name);
  return tp_text_of(d->turn->agent ? d->turn->agent->model_name : NULL);
}

tp_text tp__drive_shown_model(const tp__drive *d) {
  tp_text name = tp__drive_model_name(d);
  return name.data ? name : tp_text_of(tp__drive_model(d)->name);
}

tp_status tp__request_make(tp__drive *d, tp_model_request *ret_request, tp__past_view *ret_view) {
  const tp_message *const *own = (const tp_message *const *)d->messages.items, *const * messages;
  size_t count;
  blocks b;
  *&b = (blocks){.context = {NULL, 0}};
  TP__TRY(render_context(d, &b.context));
  if (!d->requested) b.signals = d->signals;
  b.added_signals = d->added.signals;
  TP__TRY(render_reminders(d, &b.reminders));
  bool joined = b.context.size + b.signals.size + b.added_signals.size + b.reminders.size > 0;
  if (joined) TP__TRY(join_blocks(d, &b, &own));
  tp_text system = tp__structured_system(d);
  if (d->structured.schema && !system.data) return TP_ERR_NO_MEMORY;
  TP__TRY(tp__past_view_init(tp__drive_past(d), joined, own, d->messages.count, ret_view, &messages, &count));
  *ret_request = (tp_model_request){.struct_size = sizeof *ret_request,
                                    .attempt = d->model_attempt,
                                    .ids = d->turn->core.ids,
                                    .id_count = TP_ID_COUNT,
                                    .model = tp__drive_model_name(d),
                                    .parameters = d->request.parameters,
                                    .files = d->request.files,
                                    .system = system,
                                    .answer_schema = d->structured.source,
                                    .messages = messages,
                                    .message_count = count,
                                    .turn = &d->turn->core};
  const tp__toolset *set = d->turn->toolset;
  if (!set || set->count == 0 || tp__drive_model(d)->no_tools) return TP_OK;
  const tp_tool **tools = tp__arena_alloc(&d->arena, set->count * sizeof *tools);
  if (!tools) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < set->count; i++)
    if (!set->entries[i].out_of_scope) tools[ret_request->tool_count++] = set->entries[i].tool;
  if (ret_request->tool_count > 0) ret_request->tools = tools;
  return TP_OK;
}
