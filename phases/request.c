/* SPDX-License-Identifier: Apache-2.0
 *
 * The request: {system text, messages, tools}. What joins a message (context, signals, reminders) is rendered anew for
 * each request and never enters the history. Without any of it the messages are the history's own bytes. */
#include "phases/drive.h"
#include "phases/parts.h"
#include "phases/render.h"

/* End marks are the history's own. What a handler denied is kept in it, but no model ever reads it. */
static bool is_for_the_model(const tp__messages *past, size_t i) {
  const tp_message *message = &past->items[i], *next = i + 1 < past->count ? message + 1 : NULL;
  bool denied = message->role == TP_ROLE_USER && next && next->role == TP_ROLE_END && tp__text_is(next->name, "denied");
  return message->role != TP_ROLE_END && !denied;
}

struct tp__drive_past {
  tp__past *past;
  struct tp__drive_past *next;
};

/* The session may replace its messages while this request, or one that was given up, still reads them. */
static bool hold_past(tp__drive *d) {
  tp__past *past = d->session->past;
  if (d->has_history || (d->pasts && d->pasts->past == past)) return true;
  struct tp__drive_past *held = tp__arena_alloc(&d->arena, sizeof *held);
  if (!held) return false;
  *held = (struct tp__drive_past){tp__past_ref(past), d->pasts};
  d->pasts = held;
  return true;
}

void tp__request_let_go(tp__drive *d) {
  for (; d->pasts; d->pasts = d->pasts->next) tp__past_unref(d->pasts->past);
}

/* What came before, then this turn. Only the structs are copied; their texts stay where they are. */
static tp_message *gather(tp__drive *d, size_t *ret_count, size_t *ret_user) {
  const tp__messages *past = tp__drive_past(d), *now = &d->messages;
  tp_message *all = tp__arena_alloc(&d->arena, (past->count + now->count + 1) * sizeof *all);
  if (!all) return NULL;
  size_t count = 0;
  for (size_t i = 0; i < past->count; i++)
    if (is_for_the_model(past, i)) all[count++] = past->items[i];
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
  if (!tp__reminders_take(&d->session->reminders, &d->arena, &reminders)) return TP_ERR_NO_MEMORY;
  return tp__render_reminders(&d->arena, &reminders, ret_text);
}

static tp_status take_tools(tp__drive *d, tp_model_request *request) {
  const tp__toolset *set = d->turn->toolset;
  if (!set || set->count == 0 || tp__drive_model(d)->no_tools) return TP_OK;
  const tp_tool **tools = tp__arena_alloc(&d->arena, set->count * sizeof *tools);
  if (!tools) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < set->count; i++)
    if (!set->entries[i].out_of_scope) tools[request->tool_count++] = set->entries[i].tool;
  if (request->tool_count > 0) request->tools = tools;
  return TP_OK;
}

/* Where a block of ours stands in the request, nothing that others said may look like one: not in earlier messages
 * either. A text that needs nothing stays as it is. */
static tp_status escape_others(tp__drive *d, tp_message *messages, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (messages[i].role != TP_ROLE_ASSISTANT)
      TP__TRY(tp__render_escaped(&d->arena, messages[i].text, &messages[i].text));
  return TP_OK;
}

/* Parts stay whole, and what stands in them is escaped, the user's own message too. */
static tp_status escape_parts(tp__drive *d, tp_message *messages, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (messages[i].parts.size > 0) TP__TRY(tp__parts_escaped(&d->arena, messages[i].parts, &messages[i].parts));
  return TP_OK;
}

typedef struct blocks {
  tp_text context, signals, reminders;
} blocks;

static tp_status render_blocks(tp__drive *d, blocks *ret_blocks) {
  *ret_blocks = (blocks){.context = {NULL, 0}};
  TP__TRY(render_context(d, &ret_blocks->context));
  if (!d->requested) ret_blocks->signals = d->signals;
  return render_reminders(d, &ret_blocks->reminders);
}

/* Context and signals join the user's message, reminders the last one. */
static tp_status join_blocks(tp__drive *d, tp_message *messages, size_t count, size_t user, const blocks *b) {
  tp_message *first = &messages[user], *last = &messages[count - 1];
  tp__render_parts parts = {.context = b->context, .signals = b->signals, .text = first->text};
  if (first == last) parts.reminders = b->reminders;
  TP__TRY(tp__render_message(&d->arena, &parts, &first->text));
  if (first == last) return TP_OK;
  parts = (tp__render_parts){.is_result = last->role == TP_ROLE_TOOL, .text = last->text, .reminders = b->reminders};
  return tp__render_message(&d->arena, &parts, &last->text);
}

/* The name is the first model's: another provider would not know it. */
tp_text tp__drive_model_name(const tp__drive *d) {
  if (d->model_index > 0) return (tp_text){NULL, 0};
  if (d->request.model_name) return tp_text_of(d->request.model_name);
  return tp_text_of(d->session->agent ? d->session->agent->model_name : NULL);
}

tp_status tp__request_make(tp__drive *d, tp_model_request *ret_request) {
  size_t count, user;
  tp_message *messages = hold_past(d) ? gather(d, &count, &user) : NULL;
  if (!messages) return TP_ERR_NO_MEMORY;
  blocks b;
  TP__TRY(render_blocks(d, &b));
  if (b.context.size + b.signals.size + b.reminders.size > 0) {
    TP__TRY(join_blocks(d, messages, count, user, &b));
    TP__TRY(escape_parts(d, messages, count));
    TP__TRY(escape_others(d, messages, user)); /* before and after the user's message, but for the last */
    if (count > user + 2) TP__TRY(escape_others(d, messages + user + 1, count - user - 2));
  }
  const tp_message **list = tp__arena_alloc(&d->arena, count * sizeof *list);
  if (!list) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < count; i++) list[i] = &messages[i];
  *ret_request = (tp_model_request){.struct_size = sizeof *ret_request,
                                    .attempt = d->model_attempt,
                                    .ids = d->turn->core.ids,
                                    .id_count = TP_ID_COUNT,
                                    .model = tp__drive_model_name(d),
                                    .parameters = d->request.parameters,
                                    .files = d->request.files,
                                    .system = d->system,
                                    .messages = list,
                                    .message_count = count,
                                    .turn = &d->turn->core};
  return take_tools(d, ret_request);
}
