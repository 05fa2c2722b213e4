/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/merge/render.h"

#include "phases/merge/escape.h"
#include "phases/merge/out.h"

static const tp_text empty = {"", 0};

/* ---- content ---- */

static void put_content(tp__out *out, tp_text text) {
  for (size_t at = 0; at < text.size;) {
    size_t open = tp__escape_find(text, at);
    tp__out_text(out, (tp_text){text.data + at, open - at});
    if (open == text.size) return;
    tp__out_string(out, "&lt;");
    at = open + 1;
  }
}

/* Inside the quotes of an attribute, nothing may end the attribute, the tag or the line. */
static void put_attribute(tp__out *out, const char *name, tp_text text) {
  if (text.size == 0) return;
  tp__out_char(out, ' ');
  tp__out_string(out, name);
  tp__out_string(out, "=\"");
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (c == '"') tp__out_string(out, "&quot;");
    else if (c == '<') tp__out_string(out, "&lt;");
    else if (c == '>') tp__out_string(out, "&gt;");
    else if (c == '&') tp__out_string(out, "&amp;");
    else tp__out_char(out, c);
  }
  tp__out_char(out, '"');
}

static void write_content(tp__out *out, const void *ctx) { put_content(out, *(const tp_text *)ctx); }

tp_status tp__render_escaped(tp__arena *arena, tp_text text, tp_text *ret_text) {
  if (tp__escape_find(text, 0) < text.size) return tp__out_twice(arena, write_content, &text, ret_text);
  *ret_text = text;
  return TP_OK;
}

/* ---- system text ---- */

typedef struct system_parts {
  tp_text standing;
  const tp__merged_list *sections;
} system_parts;

static void write_system(tp__out *out, const void *ctx) {
  const system_parts *parts = ctx;
  tp__out_text(out, parts->standing);
  for (size_t i = 0; i < parts->sections->count; i++) {
    const tp_contribution *section = parts->sections->items[i].entry.contribution;
    if (out->size) tp__out_string(out, "\n\n");
    if (section->title.size) {
      tp__out_string(out, "## ");
      put_content(out, section->title);
      tp__out_string(out, "\n\n");
    }
    put_content(out, section->text);
  }
}

tp_status tp__render_system(tp__arena *arena, tp_text standing, const tp__merged_list *sections, tp_text *ret_text) {
  system_parts parts = {standing, sections};
  if (sections->count) return tp__out_twice(arena, write_system, &parts, ret_text);
  *ret_text = standing;
  return TP_OK;
}

typedef struct map_parts {
  tp_text text;
  const char *tag;
  tp_text map;
} map_parts;

static void put_named_value(tp__out *out, tp_text name, tp_text value) {
  tp__out_text(out, name);
  tp__out_string(out, ": ");
  tp__out_json(out, value);
  tp__out_char(out, '\n');
}

static void put_tag(tp__out *out, const char *open, const char *tag, const char *close) {
  tp__out_string(out, open);
  tp__out_string(out, tag);
  tp__out_string(out, close);
}

static void write_map(tp__out *out, const void *ctx) {
  const map_parts *parts = ctx;
  tp__out_text(out, parts->text);
  put_tag(out, parts->text.size > 0 ? "\n\n<" : "<", parts->tag, ">\n");
  for (tp_value_walk walk = {0}; tp_value_next(parts->map, &walk);) put_named_value(out, walk.key, walk.value);
  put_tag(out, "</", parts->tag, ">");
}

tp_status tp__render_map(tp__arena *arena, tp_text text, const char *tag, tp_text map, tp_text *ret_text) {
  map_parts parts = {text, tag, map};
  if (tp_value_count(map) > 0) return tp__out_twice(arena, write_map, &parts, ret_text);
  *ret_text = text;
  return TP_OK;
}

typedef struct scope_parts {
  tp_text text, tools, skills;
} scope_parts;

static void put_list(tp__out *out, const char *name, tp_text list) {
  if (list.size > 0) put_named_value(out, tp_text_of(name), list);
}

static void write_scope(tp__out *out, const void *ctx) {
  const scope_parts *parts = ctx;
  tp__out_text(out, parts->text);
  tp__out_string(out, parts->text.size > 0 ? "\n\n<scope>\n" : "<scope>\n");
  put_list(out, "tools", parts->tools);
  put_list(out, "skills", parts->skills);
  tp__out_string(out, "</scope>");
}

tp_status tp__render_scope(tp__arena *arena, tp_text text, tp_text tools, tp_text skills, tp_text *ret_text) {
  scope_parts parts = {text, tools, skills};
  if (tools.size > 0 || skills.size > 0) return tp__out_twice(arena, write_scope, &parts, ret_text);
  *ret_text = text;
  return TP_OK;
}

/* ---- prompt context ---- */

typedef struct context_lists {
  const tp__merged_list *lists;
  size_t count;
} context_lists;

static void put_entry(tp__out *out, const tp_contribution *entry) {
  tp__out_string(out, "<context-entry");
  put_attribute(out, "id", entry->key);
  put_attribute(out, "domain", entry->domain);
  tp__out_string(out, ">\n");
  put_content(out, entry->text);
  tp__out_string(out, "\n</context-entry>\n");
}

static void write_context(tp__out *out, const void *ctx) {
  const context_lists *context = ctx;
  tp__out_string(out, "<prompt-context>\n");
  for (size_t i = 0; i < context->count; i++) {
    for (size_t j = 0; j < context->lists[i].count; j++) put_entry(out, context->lists[i].items[j].entry.contribution);
  }
  tp__out_string(out, "</prompt-context>");
}

tp_status tp__render_context(tp__arena *arena, const tp__merged_list *lists, size_t list_count, tp_text *ret_text) {
  context_lists context = {lists, list_count};
  for (size_t i = 0; i < list_count; i++) {
    if (lists[i].count) return tp__out_twice(arena, write_context, &context, ret_text);
  }
  *ret_text = empty;
  return TP_OK;
}

/* ---- signals ---- */

typedef struct signal_list {
  const char *phase;
  const tp__merged_list *signals;
} signal_list;

static void put_member(tp__out *out, const char *name, tp_text text) {
  tp__out_json_string(out, tp_text_of(name));
  tp__out_char(out, ':');
  tp__out_json_string(out, text);
  tp__out_char(out, ',');
}

static void put_signal(tp__out *out, const char *phase, const tp__merged_item *item) {
  const tp_merged_entry *entry = &item->entry;
  const tp_contribution *signal = entry->contribution;
  tp__out_char(out, '{');
  put_member(out, "source_event", tp_text_of(item->event ? item->event : phase));
  put_member(out, "hook_id", tp_text_of(entry->subscription));
  put_member(out, "kind", signal->domain);
  put_member(out, "code", signal->key);
  put_member(out, "severity", tp_text_of(tp_severity_name(signal->severity)));
  tp__out_string(out, "\"payload\":");
  if (signal->text.size) tp__out_json_string(out, signal->text);
  else tp__out_json(out, signal->value); /* none is null */
  tp__out_char(out, '}');
}

static void write_signals(tp__out *out, const void *ctx) {
  const signal_list *list = ctx;
  tp__out_string(out, "<hook-signals>\n[");
  for (size_t i = 0; i < list->signals->count; i++) {
    if (i > 0) tp__out_char(out, ',');
    put_signal(out, list->phase, &list->signals->items[i]);
  }
  tp__out_string(out, "]\n</hook-signals>");
}

tp_status tp__render_signals(tp__arena *arena, const char *phase, const tp__merged_list *signals, tp_text *ret_text) {
  signal_list list = {phase, signals};
  if (signals->count) return tp__out_twice(arena, write_signals, &list, ret_text);
  *ret_text = empty;
  return TP_OK;
}

/* ---- reminders ---- */

static void write_reminders(tp__out *out, const void *ctx) {
  const tp__merged_list *reminders = ctx;
  for (size_t i = 0; i < reminders->count; i++) {
    tp__out_string(out, i > 0 ? "\n<system-reminder>\n" : "<system-reminder>\n");
    put_content(out, reminders->items[i].entry.contribution->text);
    tp__out_string(out, "\n</system-reminder>");
  }
}

tp_status tp__render_reminders(tp__arena *arena, const tp__merged_list *reminders, tp_text *ret_text) {
  if (reminders->count) return tp__out_twice(arena, write_reminders, reminders, ret_text);
  *ret_text = empty;
  return TP_OK;
}

typedef struct blocked {
  const char *subscription;
  tp_text reason;
} blocked;

static void write_blocked(tp__out *out, const void *ctx) {
  const blocked *block = ctx;
  tp__out_string(out, "hook ");
  tp__out_string(out, block->subscription);
  tp__out_string(out, " blocked the action");
  if (block->reason.size) tp__out_string(out, ": ");
  tp__out_text(out, block->reason);
}

tp_status tp__render_blocked(tp__arena *arena, const char *subscription, tp_text reason, tp_text *ret_text) {
  blocked block = {subscription, reason};
  return tp__out_twice(arena, write_blocked, &block, ret_text);
}

/* ---- messages ---- */

static void put_block(tp__out *out, tp_text block) {
  if (block.size && out->size) tp__out_string(out, "\n\n");
  tp__out_text(out, block);
}

static void write_rendered(tp__out *out, const void *ctx) {
  const tp__render_parts *parts = ctx;
  put_block(out, parts->context);
  if (!parts->is_result) put_block(out, parts->signals);
  if (parts->text.size && out->size) tp__out_string(out, "\n\n");
  put_content(out, parts->text);
  if (parts->is_result) put_block(out, parts->signals);
  put_block(out, parts->reminders);
}

tp_status tp__render_message(tp__arena *arena, const tp__render_parts *parts, tp_text *ret_text) {
  if (parts->context.size || parts->signals.size || parts->reminders.size) {
    return tp__out_twice(arena, write_rendered, parts, ret_text);
  }
  *ret_text = parts->text;
  return TP_OK;
}
