/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_protocol.c: the events of other hosts that a phase of ours can carry, and what their programs get on standard
 * input: one object with that host's field names. What a phase does not know is left out, unless scripts commonly read
 * it without looking. */
#include "domains/declared/hook_protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "domains/declared/hook_model.h"
#include "domains/declared/transcript.h"

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

static const tp__tool_name *name_of(const tp__hook *hook, tp_text ours) {
  for (size_t i = 0; i < hook->tool_name_count; i++)
    if (tp__is_word(ours, hook->tool_names[i].ours)) return &hook->tool_names[i];
  return NULL;
}

tp_text tp__protocol_tool(const tp__hook *hook, tp_text ours) {
  const tp__tool_name *name = name_of(hook, ours);
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
  return argument_theirs(name_of(hook, tool), ours);
}

bool tp__protocol_is_tool(const tp__hook *hook, tp_text tool, const char *names) {
  return tp__is_one_of(tp__protocol_tool(hook, tool), names);
}

/* ---- match ---- */

/* A host that runs the phase itself may leave it out. */
static tp_text source_of(tp_text source) { return source.size > 0 ? source : tp_text_of("startup"); }

/* Of the one that there is: a person is to be asked. */
static const char *notification_of(const tp__hook *hook) {
  return hook->protocol == TP__PROTOCOL_GEMINI ? "ToolPermission" : "permission_prompt";
}

const char *tp__protocol_subjects(const tp__hook *hook) {
  const tp__protocol_event *event = hook->protocol_event;
  if (event->id == TP__EVENT_NOTIFICATION) return notification_of(hook);
  return event->id == TP__EVENT_SESSION_START ? "startup resume" : event->subject;
}

static tp_text subject(const tp__hook *hook, const tp_match_view *view) {
  const tp__protocol_event *event = hook->protocol_event;
  if (event->subject) return tp_text_of(event->subject);
  if (event->of == TP__EVENT_OF_SUBAGENT) return tp_match_id(view, TP_ID_AGENT);
  if (event->id == TP__EVENT_NOTIFICATION) return tp_text_of(notification_of(hook));
  if (event->id == TP__EVENT_SESSION_START) return source_of(tp_match_text(view, TP_FIELD_SOURCE));
  return tp__protocol_tool(hook, tp_match_text(view, TP_FIELD_TOOL));
}

static bool is_of(const tp__protocol_event *event, const tp_match_view *view) {
  bool is_nested = tp_match_parent_turn(view).size > 0;
  return event->of == TP__EVENT_OF_ANY || is_nested == (event->of == TP__EVENT_OF_SUBAGENT);
}

bool tp__protocol_matches(const tp__hook *hook, const tp_match_view *view) {
  assert(hook->protocol && hook->protocol_event);
  const tp__protocol_event *event = hook->protocol_event;
  if (!is_of(event, view)) return false;
  bool succeeded = hook->phase == TP_PHASE_TOOL_RESULT ? tp_match_int(view, TP_FIELD_IS_ERROR) == 0
                                                       : tp__is_word(tp_match_text(view, TP_FIELD_STATUS), "success");
  if (event->id == TP__EVENT_POST_TOOL && hook->protocol == TP__PROTOCOL_CLAUDE_CODE && !succeeded) return false;
  if (event->id == TP__EVENT_POST_TOOL_FAILURE && succeeded) return false;
  return !hook->matcher || tp__matcher_fits(hook->matcher, subject(hook, view));
}

/* ---- standard input ---- */

/* The paths of tools for files are absolute there. */
static void write_path(const tp__hook *hook, tp_text path, tp_writer *writer) {
  const char *home = getenv("HOME");
  char text[4096];
  int size = 0;
  if (path.size > 1 && path.data[0] == '~' && path.data[1] == '/' && home)
    size = snprintf(text, sizeof text, "%s%.*s", home, (int)path.size - 1, path.data + 1);
  else if (path.size > 0 && path.size < sizeof text && path.data[0] != '/')
    size = snprintf(text, sizeof text, "%s/%.*s", hook->hooks->root, (int)path.size, path.data);
  if (size > 0 && (size_t)size < sizeof text) tp_write_string(writer, text);
  else tp_write_text(writer, path);
}

static void write_argument(const tp__hook *hook, tp_text key, tp_text value, tp_writer *writer) {
  if (tp__is_word(key, "file_path") && tp_value_kind_of(value) == TP_VALUE_TEXT)
    write_path(hook, tp_value_text(value), writer);
  else tp_write_value(writer, value);
}

/* Arguments that the provider could not decode are text. */
static bool is_map(tp_text arguments) {
  return tp_value_kind_of(arguments) == TP_VALUE_MAP && tp_value_check(arguments, NULL) == TP_OK;
}

/* An object is what every script expects. */
void tp__protocol_write_input(const tp__hook *hook, tp_text tool, tp_text arguments, tp_writer *writer) {
  const tp__tool_name *name = name_of(hook, tool);
  if (!is_map(arguments) && arguments.size > 0) {
    tp_write_map(writer, 1);
    tp_write_string(writer, "malformed");
    tp_write_text(writer, arguments);
    return;
  }
  tp_write_map(writer, tp_value_count(arguments));
  for (tp_value_walk walk = {0}; tp_value_next(arguments, &walk);) {
    tp_text key = argument_theirs(name, walk.key);
    tp_write_text(writer, key);
    write_argument(hook, key, walk.value, writer);
  }
}

/* What the program leaves as it is: of one host its input is the whole, of the other it is merged into the old one. */
static bool is_kept(const tp__hook *hook, tp_text key, const tp__tool_name *name, tp_text input) {
  if (hook->protocol != TP__PROTOCOL_GEMINI) return false;
  for (tp_value_walk walk = {0}; tp_value_next(input, &walk);) {
    if (tp__same(argument_ours(name, walk.key), key)) return false;
  }
  return true;
}

void tp__protocol_write_arguments(const tp__hook *hook, tp_text tool, tp_text before, tp_text input,
                                  tp_writer *writer) {
  const tp__tool_name *name = name_of(hook, tool);
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

static void add_shell_response(tp__input *in) {
  tp__input_text(in, "stdout", tp_call_text(in->call, TP_FIELD_RESULT));
  tp__input_string(in, "stderr", "");
  tp__input_bool(in, "interrupted", false);
  tp__input_bool(in, "isImage", false);
}

static void add_gemini_response(tp__input *in) {
  tp__input_text(in, "llmContent", tp_call_text(in->call, TP_FIELD_RESULT));
  tp__input_text(in, "returnDisplay", tp_call_text(in->call, TP_FIELD_RESULT));
}

/* Of a call with a path; empty: it has none. */
static tp_text path_of(const tp__hook *hook, const tp_call *call) {
  const tp__tool_name *name = name_of(hook, tp_call_text(call, TP_FIELD_TOOL));
  tp_text arguments = tp_call_text(call, TP_FIELD_ARGUMENTS);
  for (tp_value_walk walk = {0}; is_map(arguments) && tp_value_next(arguments, &walk);)
    if (tp__is_word(argument_theirs(name, walk.key), "file_path")) return walk.value;
  return (tp_text){NULL, 0};
}

static void add_file_response(tp__input *in) {
  if (tp__input_begin(in, "filePath"))
    write_argument(in->hook, tp_text_of("file_path"), path_of(in->hook, in->call), in->writer);
  tp__input_bool(in, "success", true);
}

/* A result that is an object stays one; of the tools that have a form of their own a text takes it. */
static void write_response(const tp__hook *hook, const tp_call *call, tp_writer *writer) {
  tp_text result = tp_call_text(call, TP_FIELD_RESULT),
          tool = tp__protocol_tool(hook, tp_call_text(call, TP_FIELD_TOOL));
  if (hook->protocol == TP__PROTOCOL_GEMINI) {
    tp__input_write(hook, call, writer, add_gemini_response);
  } else if (result.size > 0 && result.data[0] == '{' && tp_json_decode(result, writer, NULL) == TP_OK) {
    return; /* it is written */
  } else if (tp__is_word(tool, "Bash")) {
    tp__input_write(hook, call, writer, add_shell_response);
  } else if ((tp__is_word(tool, "Write") || tp__is_word(tool, "Edit")) && path_of(hook, call).size > 0) {
    tp__input_write(hook, call, writer, add_file_response);
  } else {
    tp_write_text(writer, result);
  }
}

/* Each call of a response with its result, as the model reads it. */
static void write_batch(const tp__hook *hook, const tp_call *call, tp_writer *writer) {
  tp_text calls = tp_call_text(call, TP_FIELD_CALLS);
  tp_write_array(writer, tp_value_count(calls));
  for (tp_value_walk walk = {0}; tp_value_next(calls, &walk);) {
    tp_text tool = tp_value_text(tp_value_get(walk.value, "tool"));
    tp_write_map(writer, 4);
    tp_write_string(writer, "tool_name");
    tp_write_text(writer, tp__protocol_tool(hook, tool));
    tp_write_string(writer, "tool_input");
    tp__protocol_write_input(hook, tool, tp_value_get(walk.value, "arguments"), writer);
    tp_write_string(writer, "tool_use_id");
    tp_write_text(writer, tp_value_text(tp_value_get(walk.value, "id")));
    tp_write_string(writer, "tool_response");
    tp_write_text(writer, tp_value_text(tp_value_get(walk.value, "result")));
  }
}

static void add_timestamp(tp__input *in) {
  char text[32];
  struct tm parts;
  time_t now = (time_t)(tp__wall_ms() / 1000);
  gmtime_r(&now, &parts);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  tp__input_string(in, "timestamp", text);
}

static void add_common(tp__input *in) {
  const tp__hook *hook = in->hook;
  const tp_call *call = in->call;
  const tp__protocol_event *event = hook->protocol_event;
  tp_text mode = tp_call_mode(call);
  tp__input_text(in, "session_id", tp_call_id(call, TP_ID_SESSION));
  tp__input_string(in, "transcript_path", in->transcript);
  tp__input_string(in, "cwd", hook->hooks->root);
  if (hook->protocol == TP__PROTOCOL_GEMINI) {
    add_timestamp(in);
  } else {
    if (event->id != TP__EVENT_SESSION_START) tp__input_text(in, "prompt_id", tp_call_id(call, TP_ID_TURN));
    if (event->is & MODE) {
      if (mode.size > 0) tp__input_text(in, "permission_mode", mode);
      else tp__input_string(in, "permission_mode", "default");
    }
  }
  tp__input_string(in, "hook_event_name", event->names[hook->protocol]);
  if (hook->protocol == TP__PROTOCOL_GEMINI || tp_call_parent_turn(call).size == 0) return;
  tp__input_text(in, "agent_id", tp_call_id(call, TP_ID_SESSION));
  tp__input_text(in, "agent_type", tp_call_id(call, TP_ID_AGENT));
}

static void add_call(tp__input *in) {
  const tp_call *call = in->call;
  tp__protocol_event_id event = in->hook->protocol_event->id;
  tp_text tool = tp_call_text(call, TP_FIELD_TOOL);
  tp__input_text(in, "tool_name", tp__protocol_tool(in->hook, tool));
  if (tp__input_begin(in, "tool_input"))
    tp__protocol_write_input(in->hook, tool, tp_call_text(call, TP_FIELD_ARGUMENTS), in->writer);
  if (event == TP__EVENT_PERMISSION_REQUEST) return;
  if (in->hook->protocol != TP__PROTOCOL_GEMINI && tp_call_has(call, TP_FIELD_CALL_ID))
    tp__input_text(in, "tool_use_id", tp_call_text(call, TP_FIELD_CALL_ID));
  if (event == TP__EVENT_PERMISSION_DENIED) tp__input_text(in, "reason", tp_call_text(call, TP_FIELD_REASON));
  if (event == TP__EVENT_PRE_TOOL || event == TP__EVENT_PERMISSION_DENIED) return;
  if (event == TP__EVENT_POST_TOOL) {
    if (tp__input_begin(in, "tool_response")) write_response(in->hook, call, in->writer);
  } else {
    tp__input_text(in, "error", tp_call_text(call, TP_FIELD_RESULT));
    tp__input_bool(in, "is_interrupt", false);
  }
  if (tp_call_has(call, TP_FIELD_DURATION_MS))
    tp__input_int(in, "duration_ms", tp_call_int(call, TP_FIELD_DURATION_MS));
}

static void add_details(tp__input *in) {
  tp_text tool = tp_call_text(in->call, TP_FIELD_TOOL);
  tp__input_text(in, "tool_name", tp__protocol_tool(in->hook, tool));
  if (tp__input_begin(in, "tool_input"))
    tp__protocol_write_input(in->hook, tool, tp_call_text(in->call, TP_FIELD_ARGUMENTS), in->writer);
}

static void add_notification(tp__input *in) {
  char message[512];
  tp_text tool = tp__protocol_tool(in->hook, tp_call_text(in->call, TP_FIELD_TOOL));
  snprintf(message, sizeof message, "A person is asked whether %.*s may run", tp__cut_word(tool, 256),
           tool.size > 0 ? tool.data : "");
  tp__input_string(in, "message", message);
  tp__input_string(in, "notification_type", notification_of(in->hook));
  if (in->hook->protocol == TP__PROTOCOL_GEMINI && tp__input_begin(in, "details"))
    tp__input_write(in->hook, in->call, in->writer, add_details);
}

/* What the user asked for in this turn: the first message of it, before what hooks have objected. */
typedef struct request_said {
  tp_text turn, text;
} request_said;

static bool find_request(void *ctx, const tp_message *message) {
  request_said *said = ctx;
  bool is_it = message->role == TP_ROLE_USER && tp_text_equal(message->turn_id, said->turn);
  if (is_it) said->text = message->text;
  return !is_it;
}

static void add_request_said(tp__input *in) {
  request_said said = {.turn = tp_call_id(in->call, TP_ID_TURN)};
  (void)tp_call_messages(in->call, find_request, &said);
  tp__input_text(in, "prompt", said.text);
}

static void add_own(tp__input *in) {
  const tp_call *call = in->call;
  bool is_gemini = in->hook->protocol == TP__PROTOCOL_GEMINI;
  switch (in->hook->protocol_event->id) {
    case TP__EVENT_PRE_TOOL:
    case TP__EVENT_POST_TOOL:
    case TP__EVENT_POST_TOOL_FAILURE:
    case TP__EVENT_PERMISSION_REQUEST:
    case TP__EVENT_PERMISSION_DENIED:
      add_call(in);
      break;
    case TP__EVENT_PROMPT:
      tp__input_text(in, "prompt", tp_call_text(call, TP_FIELD_TEXT));
      break;
    case TP__EVENT_SESSION_START:
      tp__input_text(in, "source", source_of(tp_call_text(call, TP_FIELD_SOURCE)));
      if (tp_call_has(call, TP_FIELD_MODEL)) tp__input_text(in, "model", tp_call_text(call, TP_FIELD_MODEL));
      break;
    case TP__EVENT_SESSION_END:
      tp__input_string(in, "reason", "other");
      break;
    case TP__EVENT_TOOL_BATCH:
      if (tp__input_begin(in, "tool_calls")) write_batch(in->hook, call, in->writer);
      break;
    case TP__EVENT_SUBAGENT_START:
      break;
    case TP__EVENT_SUBAGENT_STOP:
      tp__input_string(in, "agent_transcript_path", in->transcript); /* fall through */
    case TP__EVENT_STOP:
      if (is_gemini) add_request_said(in);
      tp__input_bool(in, "stop_hook_active", tp_call_int(call, TP_FIELD_STOP_DENIALS) > 0);
      tp__input_text(in, is_gemini ? "prompt_response" : "last_assistant_message",
                     tp_call_text(call, TP_FIELD_RESPONSE_TEXT));
      break;
    case TP__EVENT_PRE_COMPACT:
      tp__input_string(in, "trigger", "auto");
      if (!is_gemini) tp__input_string(in, "custom_instructions", "");
      break;
    case TP__EVENT_NOTIFICATION:
      add_notification(in);
      break;
    case TP__EVENT_BEFORE_MODEL:
    case TP__EVENT_TOOL_SELECTION:
    case TP__EVENT_AFTER_MODEL:
      tp__hook_model_add_input(in);
      break;
    case TP__EVENT_POST_COMPACT:
      tp__input_string(in, "trigger", "auto");
      tp__input_text(in, "compact_summary", tp_call_text(call, TP_FIELD_TEXT));
      break;
    case TP__EVENT_STOP_FAILURE:
      tp__input_string(in, "error", "unknown");
      tp__input_text(in, "error_details", tp_call_text(call, TP_FIELD_MESSAGE));
      break;
  }
}

static void add_all(tp__input *in) {
  add_common(in);
  add_own(in);
}

void tp__protocol_write(const tp__hook *hook, tp_call *call, tp_writer *writer) {
  assert(hook->protocol && hook->protocol_event);
  char path[TP__TRANSCRIPT_PATH_SIZE];
  tp__transcript_write(hook, call, path);
  tp__input in = {.hook = hook, .call = call, .transcript = path};
  tp__input_put(&in, writer, add_all);
}
