/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_protocol.c: the events of other hosts for which turnphase has a phase, and the names of tools and arguments in
 * those hosts. */
#include "domains/declared/hook_protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook_input.h"

enum { MATCHER = TP__EVENT_HAS_MATCHER, MODE = TP__EVENT_HAS_MODE, CONTEXT = TP__EVENT_TEXT_IS_CONTEXT };

static const tp__protocol_event events[] = {
#define EVENT(id, claude_name, gemini_name, phase, limit_ms, is, of, subject) \
  {TP__EVENT_##id, {NULL, claude_name, gemini_name}, TP_PHASE_##phase, limit_ms, is, TP__EVENT_OF_##of, subject},
#include "domains/declared/hook_protocol.def"
#undef EVENT
};

static const char *const protocols[] = {"", "claude-code", "gemini"};

tp__protocol tp__protocol_find(const char *name) {
  if (strcmp(name, protocols[TP__PROTOCOL_CLAUDE_CODE]) == 0) return TP__PROTOCOL_CLAUDE_CODE;
  return strcmp(name, protocols[TP__PROTOCOL_GEMINI]) == 0 ? TP__PROTOCOL_GEMINI : TP__PROTOCOL_NONE;
}

const char *tp__protocol_name(tp__protocol protocol) { return protocols[protocol]; }

const tp__protocol_event *tp__protocol_event_find(tp__protocol protocol, const char *name) {
  assert(protocol != TP__PROTOCOL_NONE && name);
  for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
    if (events[i].names[protocol] && strcmp(events[i].names[protocol], name) == 0) return &events[i];
  return NULL;
}

/* ---- names of tools ---- */

static const tp__tool_name *tool_name_of(const tp__hook *hook, tp_text ours) {
  for (size_t i = 0; i < hook->tool_name_count; i++)
    if (tp__is_word(ours, hook->tool_names[i].ours)) return &hook->tool_names[i];
  return NULL;
}

tp_text tp__protocol_tool(const tp__hook *hook, tp_text ours) {
  const tp__tool_name *name = tool_name_of(hook, ours);
  return name ? tp_text_of(name->theirs) : ours;
}

static tp_text argument_theirs(const tp__tool_name *name, tp_text ours) {
  for (size_t i = 0; name && i < name->argument_count; i++)
    if (tp__is_word(ours, name->arguments[i][0])) return tp_text_of(name->arguments[i][1]);
  return ours;
}

static tp_text argument_ours(const tp__tool_name *name, tp_text their_name) {
  for (size_t i = 0; name && i < name->argument_count; i++)
    if (tp__is_word(their_name, name->arguments[i][1])) return tp_text_of(name->arguments[i][0]);
  return their_name;
}

tp_text tp__protocol_argument(const tp__hook *hook, tp_text tool, tp_text ours) {
  return argument_theirs(tool_name_of(hook, tool), ours);
}

bool tp__protocol_is_tool(const tp__hook *hook, tp_text tool, const char *names) {
  return tp__is_one_of(tp__protocol_tool(hook, tool), names);
}

/* ---- match ---- */

tp_text tp__protocol_source(tp_text source) { return source.size > 0 ? source : tp_text_of("startup"); }

const char *tp__protocol_notification(const tp__hook *hook) {
  return hook->protocol == TP__PROTOCOL_GEMINI ? "ToolPermission" : "permission_prompt";
}

const char *tp__protocol_subjects(const tp__hook *hook) {
  const tp__protocol_event *event = hook->protocol_event;
  if (event->id == TP__EVENT_NOTIFICATION) return tp__protocol_notification(hook);
  return event->id == TP__EVENT_SESSION_START ? "startup resume" : event->subject;
}

static tp_text subject(const tp__hook *hook, const tp_match_view *view) {
  const tp__protocol_event *event = hook->protocol_event;
  if (event->subject) return tp_text_of(event->subject);
  if (event->of == TP__EVENT_OF_SUBAGENT) return tp_match_id(view, TP_ID_AGENT);
  if (event->id == TP__EVENT_NOTIFICATION) return tp_text_of(tp__protocol_notification(hook));
  if (event->id == TP__EVENT_SESSION_START) return tp__protocol_source(tp_match_text(view, TP_FIELD_SOURCE));
  return tp__protocol_tool(hook, tp_match_text(view, TP_FIELD_TOOL));
}

bool tp__protocol_matches(const tp__hook *hook, const tp_match_view *view) {
  assert(hook->protocol && hook->protocol_event);
  const tp__protocol_event *event = hook->protocol_event;
  bool is_nested = tp_match_parent_turn(view).size > 0;
  if (!(event->of == TP__EVENT_OF_ANY || is_nested == (event->of == TP__EVENT_OF_SUBAGENT))) return false;
  bool succeeded = hook->phase == TP_PHASE_TOOL_RESULT ? tp_match_int(view, TP_FIELD_IS_ERROR) == 0
                                                       : tp__is_word(tp_match_text(view, TP_FIELD_STATUS), "success");
  if (event->id == TP__EVENT_POST_TOOL && hook->protocol == TP__PROTOCOL_CLAUDE_CODE && !succeeded) return false;
  if (event->id == TP__EVENT_POST_TOOL_FAILURE && succeeded) return false;
  return !hook->matcher || tp__matcher_fits(hook->matcher, subject(hook, view));
}

/* ---- standard input ---- */

void tp__protocol_write_argument(const tp__hook *hook, tp_text key, tp_text value, tp_writer *writer) {
  if (tp__is_word(key, "file_path") && tp_value_kind_of(value) == TP_VALUE_TEXT) {
    /* Paths in arguments of file tools are absolute there. */
    tp_text path = tp_value_text(value);
    const char *home = getenv("HOME");
    char text[4096];
    int size = 0;
    if (path.size > 1 && path.data[0] == '~' && path.data[1] == '/' && home)
      size = snprintf(text, sizeof text, "%s%.*s", home, (int)path.size - 1, path.data + 1);
    else if (path.size > 0 && path.size < sizeof text && path.data[0] != '/')
      size = snprintf(text, sizeof text, "%s/%.*s", hook->hooks->root, (int)path.size, path.data);
    if (size > 0 && (size_t)size < sizeof text) tp_write_string(writer, text);
    else tp_write_text(writer, path);
  } else tp_write_value(writer, value);
}

/* An object is what every script expects. */
void tp__protocol_write_input(const tp__hook *hook, tp_text tool, tp_text arguments, tp_writer *writer) {
  const tp__tool_name *name = tool_name_of(hook, tool);
  if (!tp__input_is_object(arguments) && arguments.size > 0) {
    tp_write_map(writer, 1);
    tp_write_string(writer, "malformed");
    tp_write_text(writer, arguments);
    return;
  }
  tp_write_map(writer, tp_value_count(arguments));
  for (tp_value_walk walk = {0}; tp_value_next(arguments, &walk);) {
    tp_text key = argument_theirs(name, walk.key);
    tp_write_text(writer, key);
    tp__protocol_write_argument(hook, key, walk.value, writer);
  }
}

/* Whether an argument that the program leaves out keeps its value. In one host the program's input replaces the whole
 * old one; in the other it is merged into it. */
static bool is_kept(const tp__hook *hook, tp_text key, const tp__tool_name *name, tp_text input) {
  if (hook->protocol != TP__PROTOCOL_GEMINI) return false;
  for (tp_value_walk walk = {0}; tp_value_next(input, &walk);) {
    if (tp__same(argument_ours(name, walk.key), key)) return false;
  }
  return true;
}

void tp__protocol_write_arguments(const tp__hook *hook, tp_text tool, tp_text before, tp_text input,
                                  tp_writer *writer) {
  const tp__tool_name *name = tool_name_of(hook, tool);
  size_t kept = 0;
  for (tp_value_walk walk = {0}; tp_value_next(before, &walk);) kept += is_kept(hook, walk.key, name, input);
  tp_write_map(writer, kept + tp_value_count(input));
  for (tp_value_walk walk = {0}; tp_value_next(before, &walk);) {
    if (!is_kept(hook, walk.key, name, input)) continue;
    tp_write_text(writer, walk.key);
    tp_write_value(writer, walk.value);
  }
  for (tp_value_walk walk = {0}; tp_value_next(input, &walk);) {
    tp_write_text(writer, argument_ours(name, walk.key));
    tp_write_value(writer, walk.value);
  }
}
