/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_protocol_input.c: the standard input of programs of other hosts: one object with that host's field names. A
 * field that the phase does not know is left out, unless scripts commonly read it without a check. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "domains/declared/hook_context.h"
#include "domains/declared/hook_input.h"
#include "domains/declared/hook_model.h"
#include "domains/declared/hook_protocol.h"
#include "domains/declared/transcript.h"

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

/* The path in a call's arguments; empty: it has none. */
static tp_text call_path(const tp__hook *hook, const tp_call *call) {
  tp_text tool = tp_call_text(call, TP_FIELD_TOOL), arguments = tp_call_text(call, TP_FIELD_ARGUMENTS);
  for (tp_value_walk walk = {0}; tp__input_is_object(arguments) && tp_value_next(arguments, &walk);)
    if (tp__is_word(tp__protocol_argument(hook, tool, walk.key), "file_path")) return walk.value;
  return (tp_text){NULL, 0};
}

static void add_file_response(tp__input *in) {
  if (tp__input_begin(in, "filePath"))
    tp__protocol_write_argument(in->hook, tp_text_of("file_path"), call_path(in->hook, in->call), in->writer);
  tp__input_bool(in, "success", true);
}

/* A result that is an object is written as an object. For tools that have a form of their own there, the text is put
 * into that form. */
static void write_response(const tp__hook *hook, const tp_call *call, tp_writer *writer) {
  tp_text result = tp_call_text(call, TP_FIELD_RESULT),
          tool = tp__protocol_tool(hook, tp_call_text(call, TP_FIELD_TOOL));
  if (hook->protocol == TP__PROTOCOL_GEMINI) {
    tp__input_write(hook, call, writer, add_gemini_response);
  } else if (result.size > 0 && result.data[0] == '{' && tp_json_decode(result, writer, NULL) == TP_OK) {
    return; /* it is written */
  } else if (tp__is_word(tool, "Bash")) {
    tp__input_write(hook, call, writer, add_shell_response);
  } else if ((tp__is_word(tool, "Write") || tp__is_word(tool, "Edit")) && call_path(hook, call).size > 0) {
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

static void add_common(tp__input *in) {
  const tp__hook *hook = in->hook;
  const tp_call *call = in->call;
  const tp__protocol_event *event = hook->protocol_event;
  tp_text mode = tp_call_mode(call);
  tp__input_text(in, "session_id", tp_call_id(call, TP_ID_SESSION));
  tp__input_string(in, "transcript_path", in->transcript);
  tp__input_string(in, "cwd", hook->hooks->root);
  if (hook->protocol == TP__PROTOCOL_GEMINI) {
    char text[32];
    struct tm parts;
    time_t now = (time_t)(tp__wall_ms() / 1000);
    gmtime_r(&now, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    tp__input_string(in, "timestamp", text);
  } else {
    if (event->id != TP__EVENT_SESSION_START) tp__input_text(in, "prompt_id", tp_call_id(call, TP_ID_TURN));
    if (event->is & TP__EVENT_HAS_MODE) {
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
  tp__input_string(in, "notification_type", tp__protocol_notification(in->hook));
  if (in->hook->protocol == TP__PROTOCOL_GEMINI && tp__input_begin(in, "details"))
    tp__input_write(in->hook, in->call, in->writer, add_details);
}

/* The user's request in this turn: its first message, before any objection of hooks. */
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
      tp__input_text(in, "source", tp__protocol_source(tp_call_text(call, TP_FIELD_SOURCE)));
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
