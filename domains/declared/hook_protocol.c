/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_protocol.c: the events of other hosts that a phase of ours can carry, and what their programs get on standard
 * input: one object with that host's field names. What a phase does not know is left out, unless scripts commonly read
 * it without looking: transcript_path is there and empty. */
#include "domains/declared/hook_protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "domains/declared/hook.h"

static const tp__protocol_event events[] = {
    {.id = TP__EVENT_PRE_TOOL,
     .names = {NULL, "PreToolUse", "BeforeTool"},
     .phase = TP_PHASE_TOOL_PRE,
     .limit_ms = {0, 600000, 60000},
     .has_matcher = true,
     .has_mode = true},
    {.id = TP__EVENT_POST_TOOL,
     .names = {NULL, "PostToolUse", "AfterTool"},
     .phase = TP_PHASE_TOOL_POST,
     .limit_ms = {0, 600000, 60000},
     .has_matcher = true,
     .has_mode = true},
    {.id = TP__EVENT_POST_TOOL_FAILURE,
     .names = {NULL, "PostToolUseFailure", NULL},
     .phase = TP_PHASE_TOOL_POST,
     .limit_ms = {0, 600000, 0},
     .has_matcher = true,
     .has_mode = true},
    {.id = TP__EVENT_PROMPT,
     .names = {NULL, "UserPromptSubmit", "BeforeAgent"},
     .phase = TP_PHASE_TURN_INTAKE,
     .limit_ms = {0, 30000, 60000},
     .has_mode = true,
     .text_is_context = true,
     .of = TP__EVENT_OF_AGENT},
    {.id = TP__EVENT_SESSION_START,
     .names = {NULL, "SessionStart", "SessionStart"},
     .phase = TP_PHASE_SESSION_START,
     .limit_ms = {0, 600000, 60000},
     .has_matcher = true,
     .text_is_context = true,
     .of = TP__EVENT_OF_AGENT},
    {.id = TP__EVENT_SESSION_END,
     .names = {NULL, "SessionEnd", "SessionEnd"},
     .phase = TP_PHASE_SESSION_END,
     .limit_ms = {0, 1500, 60000},
     .has_matcher = true},
    {.id = TP__EVENT_TOOL_BATCH,
     .names = {NULL, "PostToolBatch", NULL},
     .phase = TP_PHASE_TOOL_BATCH,
     .limit_ms = {0, 600000, 0},
     .has_mode = true},
    {.id = TP__EVENT_STOP,
     .names = {NULL, "Stop", "AfterAgent"},
     .phase = TP_PHASE_TURN_STOP,
     .limit_ms = {0, 600000, 60000},
     .has_mode = true,
     .of = TP__EVENT_OF_AGENT},
    {.id = TP__EVENT_SUBAGENT_START,
     .names = {NULL, "SubagentStart", NULL},
     .phase = TP_PHASE_TURN_INTAKE,
     .limit_ms = {0, 600000, 0},
     .has_matcher = true,
     .of = TP__EVENT_OF_SUBAGENT},
    {.id = TP__EVENT_SUBAGENT_STOP,
     .names = {NULL, "SubagentStop", NULL},
     .phase = TP_PHASE_TURN_STOP,
     .limit_ms = {0, 600000, 0},
     .has_matcher = true,
     .has_mode = true,
     .of = TP__EVENT_OF_SUBAGENT},
    {.id = TP__EVENT_PRE_COMPACT,
     .names = {NULL, "PreCompact", "PreCompress"},
     .phase = TP_PHASE_TURN_PRE_COMPACTION,
     .limit_ms = {0, 600000, 60000},
     .has_matcher = true},
    {.id = TP__EVENT_STOP_FAILURE,
     .names = {NULL, "StopFailure", NULL},
     .phase = TP_PHASE_RUNTIME_ERROR,
     .limit_ms = {0, 600000, 0},
     .has_matcher = true},
};

static const char *const protocols[] = {"", "claude-code", "gemini"};

tp__protocol tp__protocol_find(const char *name) {
  if (strcmp(name, protocols[TP__PROTOCOL_CLAUDE_CODE]) == 0) return TP__PROTOCOL_CLAUDE_CODE;
  return strcmp(name, protocols[TP__PROTOCOL_GEMINI]) == 0 ? TP__PROTOCOL_GEMINI : TP__PROTOCOL_NONE;
}

const char *tp__protocol_name(tp__protocol protocol) { return protocols[protocol]; }

const tp__protocol_event *tp__protocol_event_find(tp__protocol protocol, const char *name) {
  for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
    if (events[i].names[protocol] && strcmp(events[i].names[protocol], name) == 0) return &events[i];
  return NULL;
}

/* ---- names of tools ---- */

static bool is(tp_text text, const char *word) {
  return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

static const tp__tool_name *name_of(const tp__hook *hook, tp_text ours) {
  for (size_t i = 0; i < hook->tool_name_count; i++)
    if (is(ours, hook->tool_names[i].ours)) return &hook->tool_names[i];
  return NULL;
}

static tp_text theirs(const tp__hook *hook, tp_text ours) {
  const tp__tool_name *name = name_of(hook, ours);
  return name ? tp_text_of(name->theirs) : ours;
}

static tp_text argument_theirs(const tp__tool_name *name, tp_text ours) {
  for (size_t i = 0; name && i < name->argument_count; i++)
    if (is(ours, name->arguments[i][0])) return tp_text_of(name->arguments[i][1]);
  return ours;
}

static tp_text argument_ours(const tp__tool_name *name, tp_text their_name) {
  for (size_t i = 0; name && i < name->argument_count; i++)
    if (is(their_name, name->arguments[i][1])) return tp_text_of(name->arguments[i][0]);
  return their_name;
}

/* ---- match ---- */

/* Neither a start of another source nor an end with another reason comes from our sessions. */
static tp_text subject(const tp__hook *hook, const tp_match_view *view) {
  switch (hook->protocol_event->id) {
    case TP__EVENT_SESSION_START:
      return tp_text_of("startup");
    case TP__EVENT_SESSION_END:
      return tp_text_of("other");
    case TP__EVENT_PRE_COMPACT:
      return tp_text_of("auto");
    case TP__EVENT_STOP_FAILURE:
      return tp_text_of("unknown");
    case TP__EVENT_SUBAGENT_START:
    case TP__EVENT_SUBAGENT_STOP:
      return tp_match_id(view, TP_ID_AGENT);
    default:
      return theirs(hook, tp_match_text(view, TP_FIELD_TOOL));
  }
}

static bool is_of(const tp__protocol_event *event, const tp_match_view *view) {
  bool is_nested = tp_match_parent_turn(view).size > 0;
  return event->of == TP__EVENT_OF_ANY || is_nested == (event->of == TP__EVENT_OF_SUBAGENT);
}

bool tp__protocol_matches(const tp__hook *hook, const tp_match_view *view) {
  const tp__protocol_event *event = hook->protocol_event;
  if (!is_of(event, view)) return false;
  bool succeeded = hook->phase == TP_PHASE_TOOL_RESULT ? tp_match_int(view, TP_FIELD_IS_ERROR) == 0
                                                       : is(tp_match_text(view, TP_FIELD_STATUS), "success");
  if (event->id == TP__EVENT_POST_TOOL && hook->protocol == TP__PROTOCOL_CLAUDE_CODE && !succeeded) return false;
  if (event->id == TP__EVENT_POST_TOOL_FAILURE && succeeded) return false;
  return !hook->matcher || tp__matcher_fits(hook->matcher, subject(hook, view));
}

/* ---- standard input ---- */

enum { PAIRS_MAX = 16 };

/* A map whose size is known when all of it is there. */
struct pairs {
  struct {
    const char *key;
    enum { TEXT, INT, BOOL, VALUE } kind;
    tp_text text;
    int64_t number;
  } items[PAIRS_MAX];
  size_t count;
};

static void add_text(struct pairs *pairs, const char *key, tp_text text) {
  pairs->items[pairs->count].key = key;
  pairs->items[pairs->count].kind = TEXT;
  pairs->items[pairs->count++].text = text;
}

static void add_string(struct pairs *pairs, const char *key, const char *text) {
  add_text(pairs, key, tp_text_of(text));
}

static void add_value(struct pairs *pairs, const char *key, tp_text value) {
  add_text(pairs, key, value);
  pairs->items[pairs->count - 1].kind = VALUE;
}

static void add_number(struct pairs *pairs, const char *key, bool is_bool, int64_t number) {
  pairs->items[pairs->count].key = key;
  pairs->items[pairs->count].kind = is_bool ? BOOL : INT;
  pairs->items[pairs->count++].number = number;
}

static void write_pairs(const struct pairs *pairs, tp_writer *writer) {
  tp_write_map(writer, pairs->count);
  for (size_t i = 0; i < pairs->count; i++) {
    tp_write_string(writer, pairs->items[i].key);
    switch (pairs->items[i].kind) {
      case TEXT:
        tp_write_text(writer, pairs->items[i].text);
        break;
      case INT:
        tp_write_int(writer, pairs->items[i].number);
        break;
      case BOOL:
        tp_write_bool(writer, pairs->items[i].number != 0);
        break;
      case VALUE:
        tp_write_value(writer, pairs->items[i].text);
        break;
    }
  }
}

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

/* Arguments that the provider could not decode are text; an object is what every script expects. */
static void write_input(const tp__hook *hook, tp_text tool, tp_text arguments, tp_writer *writer) {
  const tp__tool_name *name = name_of(hook, tool);
  bool is_map = tp_value_kind_of(arguments) == TP_VALUE_MAP && tp_value_check(arguments, NULL) == TP_OK;
  if (!is_map && arguments.size > 0) {
    tp_write_map(writer, 1);
    tp_write_string(writer, "malformed");
    tp_write_text(writer, arguments);
    return;
  }
  tp_write_map(writer, tp_value_count(arguments));
  for (tp_value_walk walk = {0}; tp_value_next(arguments, &walk);) {
    tp_text key = argument_theirs(name, walk.key);
    tp_write_text(writer, key);
    if (is(key, "file_path") && tp_value_kind_of(walk.value) == TP_VALUE_TEXT)
      write_path(hook, tp_value_text(walk.value), writer);
    else tp_write_value(writer, walk.value);
  }
}

/* What the program leaves as it is: of one host its input is the whole, of the other it is merged into the old one. */
static bool is_kept(const tp__hook *hook, tp_text key, const tp__tool_name *name, tp_text input) {
  if (hook->protocol != TP__PROTOCOL_GEMINI) return false;
  for (tp_value_walk walk = {0}; tp_value_next(input, &walk);) {
    tp_text ours = argument_ours(name, walk.key);
    if (ours.size == key.size && memcmp(ours.data, key.data, key.size) == 0) return false;
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

static void write_shell_response(tp_text result, tp_writer *writer) {
  struct pairs pairs = {.count = 0};
  add_text(&pairs, "stdout", result);
  add_string(&pairs, "stderr", "");
  add_number(&pairs, "interrupted", true, false);
  add_number(&pairs, "isImage", true, false);
  write_pairs(&pairs, writer);
}

static void write_gemini_response(tp_text result, tp_writer *writer) {
  struct pairs pairs = {.count = 0};
  add_text(&pairs, "llmContent", result);
  add_text(&pairs, "returnDisplay", result);
  write_pairs(&pairs, writer);
}

/* A result that is an object stays one; of the tools that have a form of their own a text takes it. */
static void write_response(const tp__hook *hook, const tp_call *call, tp_text input, tp_writer *scratch,
                           tp_writer *writer) {
  tp_text result = tp_call_text(call, TP_FIELD_RESULT), value;
  tp_text tool = theirs(hook, tp_call_text(call, TP_FIELD_TOOL));
  tp_text path = tp_value_get(input, "file_path");
  if (hook->protocol == TP__PROTOCOL_GEMINI) {
    write_gemini_response(result, writer);
  } else if (result.size > 0 && result.data[0] == '{' && tp_json_decode(result, scratch, NULL) == TP_OK &&
             tp_writer_finish(scratch, &value) == TP_OK) {
    tp_write_value(writer, value);
  } else if (is(tool, "Bash")) {
    write_shell_response(result, writer);
  } else if (path.size > 0 && (is(tool, "Write") || is(tool, "Edit"))) {
    tp_write_map(writer, 2);
    tp_write_string(writer, "filePath");
    tp_write_value(writer, path);
    tp_write_string(writer, "success");
    tp_write_bool(writer, true);
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
    tp_write_text(writer, theirs(hook, tool));
    tp_write_string(writer, "tool_input");
    write_input(hook, tool, tp_value_get(walk.value, "arguments"), writer);
    tp_write_string(writer, "tool_use_id");
    tp_write_text(writer, tp_value_text(tp_value_get(walk.value, "id")));
    tp_write_string(writer, "tool_response");
    tp_write_text(writer, tp_value_text(tp_value_get(walk.value, "result")));
  }
}

/** Values that are made before the map that holds them. */
struct made {
  tp_writer *input, *response, *scratch;
  tp_text input_value, response_value;
};

static bool make(const tp__hook *hook, const tp_call *call, struct made *made) {
  tp_writer **const writers[] = {&made->input, &made->response, &made->scratch};
  for (size_t i = 0; i < 3; i++)
    if (tp_writer_new(NULL, writers[i]) != TP_OK) return false;
  write_input(hook, tp_call_text(call, TP_FIELD_TOOL), tp_call_text(call, TP_FIELD_ARGUMENTS), made->input);
  if (tp_writer_finish(made->input, &made->input_value) != TP_OK) return false;
  if (hook->protocol_event->id == TP__EVENT_TOOL_BATCH) write_batch(hook, call, made->response);
  else write_response(hook, call, made->input_value, made->scratch, made->response);
  return tp_writer_finish(made->response, &made->response_value) == TP_OK;
}

static void unmake(struct made *made) {
  tp_writer_free(made->input);
  tp_writer_free(made->response);
  tp_writer_free(made->scratch);
}

static void add_common(const tp__hook *hook, const tp_call *call, char timestamp[32], struct pairs *pairs) {
  const tp__protocol_event *event = hook->protocol_event;
  tp_text mode = tp_call_mode(call);
  add_text(pairs, "session_id", tp_call_id(call, TP_ID_SESSION));
  add_string(pairs, "transcript_path", "");
  add_string(pairs, "cwd", hook->hooks->root);
  if (hook->protocol == TP__PROTOCOL_GEMINI) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(timestamp, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
    add_string(pairs, "timestamp", timestamp);
  } else {
    if (event->id != TP__EVENT_SESSION_START) add_text(pairs, "prompt_id", tp_call_id(call, TP_ID_TURN));
    if (event->has_mode) {
      if (mode.size > 0) add_text(pairs, "permission_mode", mode);
      else add_string(pairs, "permission_mode", "default");
    }
  }
  add_string(pairs, "hook_event_name", event->names[hook->protocol]);
  if (hook->protocol == TP__PROTOCOL_GEMINI || tp_call_parent_turn(call).size == 0) return;
  add_text(pairs, "agent_id", tp_call_id(call, TP_ID_SESSION));
  add_text(pairs, "agent_type", tp_call_id(call, TP_ID_AGENT));
}

static void add_call(const tp__hook *hook, const tp_call *call, const struct made *made, struct pairs *pairs) {
  tp__protocol_event_id event = hook->protocol_event->id;
  add_text(pairs, "tool_name", theirs(hook, tp_call_text(call, TP_FIELD_TOOL)));
  add_value(pairs, "tool_input", made->input_value);
  if (event == TP__EVENT_PRE_TOOL) return;
  if (event == TP__EVENT_POST_TOOL) add_value(pairs, "tool_response", made->response_value);
  else {
    add_text(pairs, "error", tp_call_text(call, TP_FIELD_RESULT));
    add_number(pairs, "is_interrupt", true, false);
  }
  if (tp_call_has(call, TP_FIELD_DURATION_MS))
    add_number(pairs, "duration_ms", false, tp_call_int(call, TP_FIELD_DURATION_MS));
}

static void add_own(const tp__hook *hook, const tp_call *call, const struct made *made, struct pairs *pairs) {
  switch (hook->protocol_event->id) {
    case TP__EVENT_PRE_TOOL:
    case TP__EVENT_POST_TOOL:
    case TP__EVENT_POST_TOOL_FAILURE:
      add_call(hook, call, made, pairs);
      break;
    case TP__EVENT_PROMPT:
      add_text(pairs, "prompt", tp_call_text(call, TP_FIELD_TEXT));
      break;
    case TP__EVENT_SESSION_START:
      add_string(pairs, "source", "startup");
      if (tp_call_has(call, TP_FIELD_MODEL)) add_text(pairs, "model", tp_call_text(call, TP_FIELD_MODEL));
      break;
    case TP__EVENT_SESSION_END:
      add_string(pairs, "reason", "other");
      break;
    case TP__EVENT_TOOL_BATCH:
      add_value(pairs, "tool_calls", made->response_value);
      break;
    case TP__EVENT_SUBAGENT_START:
      break;
    case TP__EVENT_SUBAGENT_STOP:
      add_string(pairs, "agent_transcript_path", ""); /* fall through */
    case TP__EVENT_STOP:
      add_number(pairs, "stop_hook_active", true, tp_call_int(call, TP_FIELD_STOP_DENIALS) > 0);
      add_text(pairs, hook->protocol == TP__PROTOCOL_GEMINI ? "prompt_response" : "last_assistant_message",
               tp_call_text(call, TP_FIELD_RESPONSE_TEXT));
      break;
    case TP__EVENT_PRE_COMPACT:
      add_string(pairs, "trigger", "auto");
      if (hook->protocol != TP__PROTOCOL_GEMINI) add_string(pairs, "custom_instructions", "");
      break;
    case TP__EVENT_STOP_FAILURE:
      add_string(pairs, "error", "unknown");
      add_text(pairs, "error_details", tp_call_text(call, TP_FIELD_MESSAGE));
      break;
  }
}

bool tp__protocol_write(const tp__hook *hook, const tp_call *call, tp_writer *writer) {
  struct made made = {0};
  struct pairs pairs = {.count = 0};
  char timestamp[32];
  bool is_made = make(hook, call, &made);
  if (is_made) {
    add_common(hook, call, timestamp, &pairs);
    add_own(hook, call, &made, &pairs);
    write_pairs(&pairs, writer);
  }
  unmake(&made);
  return is_made;
}
