/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/fit.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/check.h"

/* ---- what the forms demand ---- */

typedef struct demands {
  const tp__openai_form *form;
  size_t id_bytes_max;
  bool any_id;          /* an id may have any visible character of ASCII; otherwise letters, digits, "_" and "-" */
  bool user_after_tool; /* a user's message may follow a result */
  bool system_first;    /* system messages must come before all others */
} demands;

/* In all forms, names have 1 to 64 letters, digits, "_" and "-". docs/models.md names the sources of the rules. */
static const demands rows[] = {
    {&tp__openai_form_chat, 40, true, false, true},
    {&tp__openai_form_responses, 64, false, true, false},
    {&tp__openai_form_messages, 64, false, true, true},
};
enum { NAME_BYTES_MAX = 64, ROWS = sizeof rows / sizeof *rows };

static const demands *demands_of(const tp__openai_form *form) {
  size_t i = 0;
  while (i + 1 < ROWS && rows[i].form != form) i++;
  assert(rows[i].form == form);
  return &rows[i];
}

/* The lines that are used when an API requires a message. */
static const char empty_message[] = "[empty message]";
static const char no_output[] = "[no output]";
static const char no_result[] = "[the result is not known: the call may have run, or not]";
static const char no_answer[] = "[no answer]";
static const char no_beginning[] = "[what was said before is not shown]";
static const char go_on[] = "[go on]";

/* ---- memory ---- */

typedef struct tp__openai_fit_block {
  struct tp__openai_fit_block *next;
  size_t size, used;
} fit_block;

enum { BLOCK_BYTES_MIN = 4096 };

/* Aligned for any pointer; NULL without memory. */
static void *take_fit_memory(tp__openai_fit *fit, size_t size) {
  size = (size + 7) & ~(size_t)7;
  fit_block *block = fit->blocks;
  if (!block || block->size - block->used < size) {
    size_t bytes = sizeof *block + size > BLOCK_BYTES_MIN ? sizeof *block + size : BLOCK_BYTES_MIN;
    block = tp__heap_alloc(bytes);
    if (!block) return NULL;
    *block = (fit_block){.next = fit->blocks, .size = bytes, .used = sizeof *block};
    fit->blocks = block;
  }
  void *at = (char *)block + block->used;
  block->used += size;
  return at;
}

/* ---- names ---- */

typedef struct tp__openai_name {
  tp_text own, sent; /* of one piece of the heap, after the row */
} name_row;

void tp__openai_names_fini(tp__openai_names *names) {
  for (size_t i = 0; i < names->count; i++)
    tp__heap_free((char *)(uintptr_t)names->rows[i].own.data, names->rows[i].own.size + NAME_BYTES_MAX);
  tp__heap_free(names->rows, names->capacity * sizeof *names->rows);
  *names = (tp__openai_names){.rows = NULL};
}

tp_text tp__openai_names_find(const tp__openai_names *names, tp_text sent) {
  for (size_t i = 0; i < names->count; i++)
    if (tp__same(names->rows[i].sent, sent)) return names->rows[i].own;
  return sent;
}

void tp__openai_names_restore(const tp__openai_names *names, const tp_model_response *response) {
  for (size_t i = 0; names->count > 0 && i < response->call_count; i++) {
    tp_tool_call *call = (tp_tool_call *)(uintptr_t)response->calls[i];
    call->name = tp__openai_names_find(names, call->name);
  }
}

static bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static bool has_pattern(tp_text text, size_t bytes_max, bool any) {
  if (text.size == 0 || text.size > bytes_max) return false;
  for (size_t i = 0; i < text.size; i++)
    if (!(any ? text.data[i] > ' ' && text.data[i] < 0x7f : is_word_character(text.data[i]))) return false;
  return true;
}

static uint64_t hash_further(tp_text text, uint64_t hash) {
  for (size_t i = 0; i < text.size; i++) hash = (hash ^ (unsigned char)text.data[i]) * UINT64_C(0x100000001b3);
  return hash;
}
static const uint64_t hash_seed = UINT64_C(0xcbf29ce484222325);

/* The name with "_" for forbidden characters, and a hash at its end, so that the same name always gives the same
 * result. */
static size_t fit_name(tp_text name, char sent[NAME_BYTES_MAX]) {
  enum { HASH_BYTES = 9 };
  size_t size = name.size < NAME_BYTES_MAX - HASH_BYTES ? name.size : NAME_BYTES_MAX - HASH_BYTES;
  char hash[HASH_BYTES + 1];
  for (size_t i = 0; i < size; i++) sent[i] = is_word_character(name.data[i]) ? name.data[i] : '_';
  snprintf(hash, sizeof hash, "_%08x", (unsigned)(hash_further(name, hash_seed) & 0xffffffff));
  memcpy(sent + size, hash, HASH_BYTES);
  return size + HASH_BYTES;
}

static tp_status name_call(tp__openai_fit *fit, tp_text *name) {
  if (has_pattern(*name, NAME_BYTES_MAX, false)) return TP_OK;
  char *sent = take_fit_memory(fit, NAME_BYTES_MAX);
  if (!sent) return TP_ERR_NO_MEMORY;
  fit->repairs[TP__OPENAI_REPAIR_NAME]++;
  *name = (tp_text){sent, fit_name(*name, sent)};
  return TP_OK;
}

static tp_status add_fit_name(tp__openai_fit *fit, tp_text own, name_row *row) {
  char *memory = tp__heap_alloc(own.size + NAME_BYTES_MAX);
  if (!memory) return TP_ERR_NO_MEMORY;
  memcpy(memory, own.data, own.size);
  *row = (name_row){.own = {memory, own.size}, .sent = {memory + own.size, fit_name(own, memory + own.size)}};
  fit->names.count++;
  fit->repairs[TP__OPENAI_REPAIR_NAME]++;
  return TP_OK;
}

/* A tool under another name is a copy of the tool. */
static tp_status rename_tool(tp__openai_fit *fit, const tp_tool **tool) {
  tp_tool *copy = take_fit_memory(fit, sizeof *copy);
  char *name = take_fit_memory(fit, NAME_BYTES_MAX + 1);
  name_row *row = &fit->names.rows[fit->names.count];
  assert(fit->names.count < fit->names.capacity);
  if (!copy || !name || add_fit_name(fit, tp_text_of((*tool)->name), row) != TP_OK) return TP_ERR_NO_MEMORY;
  memcpy(name, row->sent.data, row->sent.size);
  name[row->sent.size] = 0;
  *copy = **tool;
  copy->name = name;
  *tool = copy;
  return TP_OK;
}

static tp_status fit_tools(tp__openai_fit *fit, const tp_model_request *request) {
  size_t others = 0;
  for (size_t i = 0; i < request->tool_count; i++)
    others += !has_pattern(tp_text_of(request->tools[i]->name), NAME_BYTES_MAX, false);
  if (others == 0) return TP_OK;
  const tp_tool **tools = take_fit_memory(fit, request->tool_count * sizeof *tools);
  fit->names.rows = tp__heap_alloc(others * sizeof *fit->names.rows);
  fit->names.capacity = others;
  if (!tools || !fit->names.rows) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < request->tool_count; i++) {
    tools[i] = request->tools[i];
    if (has_pattern(tp_text_of(tools[i]->name), NAME_BYTES_MAX, false)) continue;
    if (rename_tool(fit, &tools[i]) != TP_OK) return TP_ERR_NO_MEMORY;
  }
  fit->request.tools = tools;
  return TP_OK;
}

/* ---- ids ---- */

/* The ids in the request: open addressing, at most half full. */
typedef struct id_set {
  tp_text *items;
  size_t mask;
} id_set;

/* @return false when it is there already. */
static bool add_id(id_set *set, tp_text id) {
  assert(id.size > 0 && (set->mask & (set->mask + 1)) == 0); /* a power of two */
  size_t at = (size_t)hash_further(id, hash_seed) & set->mask;
  for (; set->items[at].data; at = (at + 1) & set->mask)
    if (tp__same(set->items[at], id)) return false;
  set->items[at] = id;
  return true;
}

/* ---- the walk ---- */

/** The conversation while it is walked. */
typedef struct walk {
  tp__openai_fit *fit;
  const tp__openai_config *config;
  const demands *demands;
  const tp_model_request *from;
  const tp_message **to;
  size_t count;
  bool begun;  /* a message that is no system message was written */
  bool *taken; /* for each message: it is a result that was placed after its call */
  id_set ids;
} walk;

static bool is_blank_text(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (!strchr(" \t\r\n\v\f", text.data[i]) || text.data[i] == 0) return false;
  return true;
}

static void count_repair(walk *w, tp__openai_fit_repair repair) { w->fit->repairs[repair]++; }

static const tp_message *last_of(const walk *w) { return w->count > 0 ? w->to[w->count - 1] : NULL; }

static void put_fit_message(walk *w, const tp_message *message) {
  w->to[w->count++] = message;
  w->begun = w->begun || message->role != TP_ROLE_SYSTEM;
}

static tp_message *new_message(walk *w, tp_role role, const char *text) {
  tp_message *message = take_fit_memory(w->fit, sizeof *message);
  if (message) *message = (tp_message){.struct_size = sizeof *message, .role = role, .text = tp_text_of(text)};
  return message;
}

static tp_status put_line(walk *w, tp_role role, const char *text, tp__openai_fit_repair repair) {
  const tp_message *line = new_message(w, role, text);
  if (!line) return TP_ERR_NO_MEMORY;
  count_repair(w, repair);
  put_fit_message(w, line);
  return TP_OK;
}

/* The message with a line for its text. */
static tp_status put_with_text(walk *w, const tp_message *message, const char *text) {
  tp_message *copy = new_message(w, message->role, text);
  if (!copy) return TP_ERR_NO_MEMORY;
  *copy = *message;
  copy->text = tp_text_of(text);
  count_repair(w, TP__OPENAI_REPAIR_EMPTY);
  put_fit_message(w, copy);
  return TP_OK;
}

static bool has_content(const tp_message *message) { return !is_blank_text(message->text) || message->parts.size > 1; }

static tp_status walk_user(walk *w, const tp_message *message) {
  const tp_message *last = last_of(w);
  if (last && last->role == TP_ROLE_TOOL && !w->demands->user_after_tool) {
    tp_status status = put_line(w, TP_ROLE_ASSISTANT, no_answer, TP__OPENAI_REPAIR_ROLE);
    if (status != TP_OK) return status;
  }
  if (!has_content(message)) return put_with_text(w, message, empty_message);
  if (is_blank_text(message->text) && message->text.size > 0) return put_with_text(w, message, "");
  put_fit_message(w, message);
  return TP_OK;
}

/* ---- calls ---- */

/* Wraps arguments that are no object as {"key": …}; text: the arguments as they were written. */
static tp_status wrap_arguments(walk *w, tp_tool_call *call) {
  static const char written[] = "\x81\xb3malformed_arguments\xdb", value[] =
                                                                       "\x81\xa9"
                                                                       "arguments";
  tp__bytes clean = {0};
  tp_text inside = call->arguments;
  size_t head = call->malformed ? sizeof written - 1 + 4 : sizeof value - 1;
  if (call->malformed && !tp_utf8_valid(inside, NULL)) {
    (void)tp__bytes_put_utf8(&clean, inside);
    inside = tp__bytes_text(&clean);
  }
  char *to = clean.failed ? NULL : take_fit_memory(w->fit, head + inside.size);
  if (to) {
    memcpy(to, call->malformed ? written : value, call->malformed ? sizeof written - 1 : head);
    for (int i = 0; call->malformed && i < 4; i++) to[head - 1 - (size_t)i] = (char)(inside.size >> (8 * i));
    if (inside.size > 0) memcpy(to + head, inside.data, inside.size);
    call->arguments = (tp_text){to, head + inside.size};
    call->malformed = false;
  }
  tp__bytes_fini(&clean);
  count_repair(w, TP__OPENAI_REPAIR_ARGUMENTS);
  return to ? TP_OK : TP_ERR_NO_MEMORY;
}

/* An id that the form does not accept, or that occurred before, becomes another id, which is the same in each
 * request. */
static tp_status id_call(walk *w, tp_text *id) {
  enum { ID_BYTES = 5 + 16 };
  if (has_pattern(*id, w->demands->id_bytes_max, w->demands->any_id) && add_id(&w->ids, *id)) return TP_OK;
  char *sent = take_fit_memory(w->fit, ID_BYTES + 1);
  if (!sent) return TP_ERR_NO_MEMORY;
  count_repair(w, TP__OPENAI_REPAIR_ID);
  for (uint64_t salt = hash_seed;; salt++) {
    snprintf(sent, ID_BYTES + 1, "call_%016llx", (unsigned long long)hash_further(*id, salt));
    if (add_id(&w->ids, (tp_text){sent, ID_BYTES})) break;
  }
  *id = (tp_text){sent, ID_BYTES};
  return TP_OK;
}

static bool is_object(const tp_tool_call *call) {
  return !call->malformed && (call->arguments.size == 0 || tp_value_kind_of(call->arguments) == TP_VALUE_MAP);
}

static tp_status fit_call(walk *w, const tp_tool_call *call, tp_tool_call *copy) {
  *copy = *call;
  tp_status status = is_object(call) ? TP_OK : wrap_arguments(w, copy);
  if (status == TP_OK) status = name_call(w->fit, &copy->name);
  return status == TP_OK ? id_call(w, &copy->id) : status;
}

/* The first result with this id that no call has taken yet, before the next message with calls. */
static size_t find_result(const walk *w, size_t asked, tp_text id) {
  for (size_t i = asked + 1; i < w->from->message_count; i++) {
    const tp_message *message = w->from->messages[i];
    if (message->role == TP_ROLE_ASSISTANT && message->call_count > 0) break;
    if (message->role == TP_ROLE_TOOL && !w->taken[i] && tp__same(message->call_id, id)) return i;
  }
  return SIZE_MAX;
}

static tp_status put_result(walk *w, size_t asked, size_t place, const tp_tool_call *own, const tp_tool_call *sent) {
  size_t found = find_result(w, asked, own->id);
  tp_message *result = new_message(w, TP_ROLE_TOOL, no_result);
  if (!result) return TP_ERR_NO_MEMORY;
  if (found == SIZE_MAX) {
    result->is_error = true;
    count_repair(w, TP__OPENAI_REPAIR_RESULT);
  } else {
    w->taken[found] = true;
    *result = *w->from->messages[found];
    if (found != asked + 1 + place) count_repair(w, TP__OPENAI_REPAIR_ORDER);
    if (is_blank_text(result->text)) result->text = tp_text_of(has_content(result) ? "" : no_output);
  }
  result->call_id = sent->id;
  result->name = sent->name;
  put_fit_message(w, result);
  return TP_OK;
}

/* ---- the assistant ---- */

static tp_text joined(walk *w, tp_text first, tp_text second) {
  assert(first.size > 0 && second.size > 0);
  char *to = take_fit_memory(w->fit, first.size + 2 + second.size);
  if (!to) return (tp_text){NULL, 0};
  memcpy(to, first.data, first.size);
  memcpy(to + first.size, "\n\n", 2);
  memcpy(to + first.size + 2, second.data, second.size);
  return (tp_text){to, first.size + 2 + second.size};
}

/* The endpoint goes on when it gets the message back unchanged. */
static bool is_paused(const walk *w, const tp_message *message) {
  return tp_value_bool(tp_value_get(tp__openai_own_data(w->config, message), "paused"), false);
}

/* Joins two consecutive answers; the provider data is that of the second. */
static tp_status join_last(walk *w, tp_message *message) {
  const tp_message *last = last_of(w);
  if (!last || last->role != TP_ROLE_ASSISTANT || last->call_count > 0 || is_paused(w, last)) return TP_OK;
  message->text = message->text.size > 0 ? joined(w, last->text, message->text) : last->text;
  count_repair(w, TP__OPENAI_REPAIR_ROLE);
  w->count--;
  return message->text.data ? TP_OK : TP_ERR_NO_MEMORY;
}

static tp_status walk_calls(walk *w, size_t at, tp_message *copy) {
  const tp_message *message = w->from->messages[at];
  size_t count = message->call_count;
  tp_tool_call *calls = take_fit_memory(w->fit, count * sizeof *calls);
  const tp_tool_call **list = take_fit_memory(w->fit, count * sizeof *list);
  tp_status status = calls && list ? TP_OK : TP_ERR_NO_MEMORY;
  for (size_t i = 0; status == TP_OK && i < count; i++) {
    status = fit_call(w, message->calls[i], &calls[i]);
    list[i] = &calls[i];
  }
  copy->calls = list;
  if (status == TP_OK) put_fit_message(w, copy);
  for (size_t i = 0; status == TP_OK && i < count; i++) status = put_result(w, at, i, message->calls[i], &calls[i]);
  return status;
}

static tp_status walk_assistant(walk *w, size_t at) {
  const tp_message *message = w->from->messages[at];
  bool blank = is_blank_text(message->text);
  if (blank && message->call_count == 0 && !is_paused(w, message)) {
    count_repair(w, TP__OPENAI_REPAIR_EMPTY);
    return TP_OK;
  }
  if (!w->begun) {
    tp_status status = put_line(w, TP_ROLE_USER, no_beginning, TP__OPENAI_REPAIR_ROLE);
    if (status != TP_OK) return status;
  }
  tp_message *copy = take_fit_memory(w->fit, sizeof *copy);
  if (!copy) return TP_ERR_NO_MEMORY;
  *copy = *message;
  if (blank) copy->text = (tp_text){"", 0};
  tp_status status = join_last(w, copy);
  if (status != TP_OK || message->call_count > 0) return status == TP_OK ? walk_calls(w, at, copy) : status;
  put_fit_message(w, copy);
  return TP_OK;
}

static void put_system(walk *w, const tp_message *message) {
  if (is_blank_text(message->text)) count_repair(w, TP__OPENAI_REPAIR_EMPTY);
  else put_fit_message(w, message);
}

static tp_status walk_message(walk *w, size_t at) {
  const tp_message *message = w->from->messages[at];
  switch (message->role) {
    case TP_ROLE_USER:
      return walk_user(w, message);
    case TP_ROLE_ASSISTANT:
      return walk_assistant(w, at);
    case TP_ROLE_SYSTEM:
      if (!w->demands->system_first) put_system(w, message);
      return TP_OK;
    case TP_ROLE_TOOL: /* those that have a call were put with it */
      if (!w->taken[at]) count_repair(w, TP__OPENAI_REPAIR_ORPHAN);
      return TP_OK;
    default: /* marks are no messages */
      return TP_OK;
  }
}

static tp_status walk_all(walk *w) {
  tp_status status = TP_OK;
  for (size_t i = 0; w->demands->system_first && i < w->from->message_count; i++)
    if (w->from->messages[i]->role == TP_ROLE_SYSTEM) put_system(w, w->from->messages[i]);
  for (size_t i = 0; status == TP_OK && i < w->from->message_count; i++) status = walk_message(w, i);
  if (status != TP_OK || w->from->message_count == 0) return status;
  const tp_message *last = last_of(w);
  bool waits = w->begun && (last->role == TP_ROLE_USER || last->role == TP_ROLE_TOOL || is_paused(w, last));
  return waits ? TP_OK : put_line(w, TP_ROLE_USER, go_on, TP__OPENAI_REPAIR_ROLE);
}

/* The most messages that there may be: each may get a line before it, and each call a result. */
static size_t most_messages(const tp_model_request *request, size_t *ret_calls) {
  *ret_calls = 0;
  for (size_t i = 0; i < request->message_count; i++) *ret_calls += request->messages[i]->call_count;
  return 2 * request->message_count + *ret_calls + 2;
}

static tp_status fit_messages(tp__openai_fit *fit, const tp__openai_config *config, const tp_model_request *request) {
  walk w = {.fit = fit, .config = config, .demands = demands_of(config->form), .from = request};
  size_t calls, most = most_messages(request, &calls), slots = 4;
  while (slots < 2 * calls + 2) slots *= 2;
  w.to = take_fit_memory(fit, most * sizeof *w.to);
  w.taken = take_fit_memory(fit, request->message_count + 1);
  w.ids = (id_set){take_fit_memory(fit, slots * sizeof *w.ids.items), slots - 1};
  if (!w.to || !w.taken || !w.ids.items) return TP_ERR_NO_MEMORY;
  memset(w.taken, 0, request->message_count + 1);
  memset(w.ids.items, 0, slots * sizeof *w.ids.items);
  tp_status status = walk_all(&w);
  assert(w.count <= most);
  fit->request.messages = w.to;
  fit->request.message_count = w.count;
  return status;
}

/* ---- thinking ---- */

tp_text tp__openai_own_data(const tp__openai_config *config, const tp_message *message) {
  tp_text none = {NULL, 0};
  if (message->role != TP_ROLE_ASSISTANT || message->provider_data.size == 0) return none;
  bool is_own = tp__is_word(tp__openai_text(message->provider_data, "provider"), config->place) &&
                tp__is_word(tp__openai_text(message->provider_data, "api"), config->form->name);
  return is_own ? message->provider_data : none;
}

static bool thinks(const tp__openai_fit *fit, const tp__openai_config *config) {
  for (size_t i = 0; i < fit->request.message_count; i++) {
    tp_text fields = tp_value_get(tp__openai_own_data(config, fit->request.messages[i]), "fields");
    if (tp__openai_text(fields, "reasoning_content").size > 0) return true;
  }
  return false;
}

/* The calls that are being answered have no thinking block: they come from another provider, or from before thinking
 * was switched on. The API requires thinking to be off until they are answered. */
static bool lacks_thinking(const tp__openai_fit *fit, const tp__openai_config *config) {
  const tp_model_request *request = &fit->request;
  size_t i = request->message_count;
  if (i == 0 || request->messages[i - 1]->role != TP_ROLE_TOOL) return false;
  while (i > 0 && request->messages[i - 1]->role == TP_ROLE_TOOL) i--;
  assert(i > 0 && request->messages[i - 1]->role == TP_ROLE_ASSISTANT);
  tp_text items = tp_value_get(tp__openai_own_data(config, request->messages[i - 1]), "items");
  return tp_value_count(items) == 0;
}

/* ---- all of it ---- */

tp_status tp__openai_fit_init(tp__openai_fit *fit, const tp__openai_config *config, const tp_model_request *request) {
  fit->request = *request;
  tp_status status = fit_tools(fit, request);
  if (status == TP_OK) status = fit_messages(fit, config, request);
  if (status != TP_OK) return status;
  if (config->form == &tp__openai_form_chat && thinks(fit, config)) {
    fit->thinks = true;
    /* Messages without the reasoning that the provider requires in each of its messages get a blank one. */
    for (size_t i = 0; i < fit->request.message_count; i++) {
      const tp_message *message = fit->request.messages[i];
      tp_text fields = tp_value_get(tp__openai_own_data(config, message), "fields");
      if (message->role == TP_ROLE_ASSISTANT && tp__openai_text(fields, "reasoning_content").size == 0)
        fit->repairs[TP__OPENAI_REPAIR_THINKING]++;
    }
  }
  if (config->form == &tp__openai_form_messages) fit->no_thinking = lacks_thinking(fit, config);
  return TP_OK;
}

void tp__openai_fit_fini(tp__openai_fit *fit) {
  while (fit->blocks) {
    fit_block *block = fit->blocks;
    fit->blocks = block->next;
    tp__heap_free(block, block->size);
  }
  tp__openai_names_fini(&fit->names);
}

size_t tp__openai_fit_describe(const tp__openai_fit *fit, char *buffer, size_t size) {
  static const char *const words[TP__OPENAI_REPAIRS] = {
      [TP__OPENAI_REPAIR_EMPTY] = "empty messages",     [TP__OPENAI_REPAIR_ROLE] = "roles",
      [TP__OPENAI_REPAIR_RESULT] = "missing results",   [TP__OPENAI_REPAIR_ORPHAN] = "results without a call",
      [TP__OPENAI_REPAIR_ORDER] = "results in order",   [TP__OPENAI_REPAIR_ID] = "ids of calls",
      [TP__OPENAI_REPAIR_NAME] = "names of tools",      [TP__OPENAI_REPAIR_ARGUMENTS] = "arguments",
      [TP__OPENAI_REPAIR_THINKING] = "missing thinking"};
  size_t used = 0;
  if (size > 0) buffer[0] = 0;
  for (size_t i = 0; i < TP__OPENAI_REPAIRS && used < size; i++) {
    if (fit->repairs[i] == 0) continue;
    int printed = snprintf(buffer + used, size - used, "%s%s (%u)", used > 0 ? ", " : "", words[i], fit->repairs[i]);
    used += printed > 0 ? (size_t)printed : 0;
  }
  return used < size ? used : size - 1;
}
