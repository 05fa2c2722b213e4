/* SPDX-License-Identifier: Apache-2.0
 *
 * The request: {system text, messages, tools}. What joins a message (context, signals, reminders) is rendered anew for
 * each request and never enters the history. Without any of it the messages are the history's own bytes. */
#include "phases/drive.h"
#include "phases/render.h"

static bool is_for_the_model(const tp_message *message) { return message->role != TP_ROLE_END; }

/* The history, then this turn. Only the structs are copied; their texts stay where they are. */
static tp_message *gather(tp__drive *d, size_t *ret_count, size_t *ret_user) {
  const tp__messages *past = &d->session->messages, *now = &d->messages;
  tp_message *all = tp__arena_alloc(&d->arena, (past->count + now->count + 1) * sizeof *all);
  if (!all) return NULL;
  size_t count = 0;
  for (size_t i = 0; i < past->count; i++)
    if (is_for_the_model(&past->items[i])) all[count++] = past->items[i];
  *ret_user = count; /* the turn begins with the user's message */
  for (size_t i = 0; i < now->count; i++) all[count++] = now->items[i];
  *ret_count = count;
  return all;
}

static tp_status render_context(tp__drive *d, tp_text *ret_text) {
  const tp__turn_sets *sets = d->turn->core.sets;
  const tp_merged *own = d->request_context.merged;
  tp__merged_list lists[2] = {{0}, {0}};
  if (sets) lists[0] = sets->contexts;
  if (own) lists[1] = own->lists[TP_KIND_PROMPT_CONTEXT];
  return tp__render_context(&d->arena, lists, 2, ret_text);
}

static tp_status render_reminders(tp__drive *d, tp_text *ret_text) {
  tp__merged_list reminders;
  if (!tp__reminders_list(&d->session->reminders, &d->arena, &reminders)) return TP_ERR_NO_MEMORY;
  d->reminders_in_request = reminders.count;
  return tp__render_reminders(&d->arena, &reminders, ret_text);
}

static tp_status take_tools(tp__drive *d, tp_model_request *request) {
  const tp__toolset *set = d->turn->toolset;
  if (!set || set->count == 0 || d->session->model.no_tools) return TP_OK;
  tp_tool *tools = tp__arena_alloc(&d->arena, set->count * sizeof *tools);
  if (!tools) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < set->count; i++) tools[i] = *set->entries[i].tool;
  request->tools = tools;
  request->tool_count = set->count;
  return TP_OK;
}

tp_status tp__request_make(tp__drive *d, tp_model_request *ret_request) {
  size_t count, user;
  tp_message *messages = gather(d, &count, &user);
  if (!messages) return TP_ERR_NO_MEMORY;
  tp__render_parts parts[2] = {{.text = messages[user].text}, {.is_result = false}};
  tp_text reminders;
  TP__TRY(render_context(d, &parts[0].context));
  TP__TRY(render_reminders(d, &reminders));
  if (!d->requested) parts[0].signals = d->signals;
  bool last_is_user = user == count - 1;
  if (last_is_user) parts[0].reminders = reminders;
  TP__TRY(tp__render_message(&d->arena, &parts[0], &messages[user].text));
  if (!last_is_user) {
    parts[1] = (tp__render_parts){.is_result = messages[count - 1].role == TP_ROLE_TOOL,
                                  .text = messages[count - 1].text,
                                  .reminders = reminders};
    TP__TRY(tp__render_message(&d->arena, &parts[1], &messages[count - 1].text));
  }
  *ret_request = (tp_model_request){.struct_size = sizeof *ret_request,
                                    .attempt = d->model_attempt,
                                    .model = tp_text_of(d->session->agent ? d->session->agent->model_name : NULL),
                                    .system = d->system,
                                    .messages = messages,
                                    .message_count = count};
  return take_tools(d, ret_request);
}
