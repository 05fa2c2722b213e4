/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_settings.c: reads settings files of other hosts. Two forms are in use: event, groups with a matcher, handlers;
 * and event, handlers. A setting of an entry that has no counterpart here is reported: the entry is left out if its
 * meaning would change, or else gets a note. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/hooks/hooks_import.h"
#include "cli/run/event.h"
#include "runtime/base/check.h"
#include "support/secrets.h"
#include "support/text.h"

enum { TIMEOUT_MS_MAX = 86400000, ARGUMENTS_MAX = 60, SUSPICIOUS_S = 1000 };

/* ---- entries ---- */

static const char *format_text(cli_settings *settings, const char *format, ...) TP__PRINTF(2, 3);
static const char *format_text(cli_settings *settings, const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return cli_pool_copy(&settings->pool, tp_text_of(text));
}

static void note_entry(cli_entry *entry, const char *text) {
  if (entry->note_count < CLI_NOTES_MAX) entry->notes[entry->note_count++] = text;
}

static void leave_out(cli_entry *entry, const char *why) {
  if (!entry->left_out) entry->left_out = why;
}

static cli_entry *add_settings_entry(cli_settings *settings, const char *event) {
  settings->entries = cli_reserve(settings->entries, settings->count, &settings->capacity, sizeof *settings->entries);
  cli_entry *entry = &settings->entries[settings->count++];
  *entry = (cli_entry){.event = event, .command = ""};
  return entry;
}

static void note_file(cli_settings *settings, const char *text) {
  if (settings->note_count < CLI_FILE_NOTES_MAX) settings->notes[settings->note_count++] = text;
}

/* ---- events ---- */

/* Whether a name is one of the words, which are separated by blanks. */
static bool is_among(const char *name, const char *words) {
  for (size_t size; *words; words += size + (words[size] == ' ')) {
    size = strcspn(words, " ");
    if (strlen(name) == size && memcmp(words, name, size) == 0) return true;
  }
  return false;
}

/* Events for which there is no phase, with the reason. The last ones belong to hosts whose scripts read other fields
 * than those that turnphase's protocols write. */
static const struct {
  const char *names, *why;
} no_phase[] = {
    {"TaskCreated TaskCompleted", "there are no task lists"},
    {"TeammateIdle", "there are no teammates"},
    {"Setup InstructionsLoaded UserPromptExpansion MessageDisplay ConfigChange CwdChanged DirectoryAdded "
     "FileChanged WorktreeCreate WorktreeRemove Elicitation ElicitationResult PreModelSwitch PostModelSwitch Interrupt",
     "it is an event of its host, which no phase of a turn is"},
    {"preToolUse postToolUse postToolUseFailure beforeShellExecution afterShellExecution beforeMCPExecution "
     "afterMCPExecution beforeReadFile afterFileEdit beforeSubmitPrompt afterAgentResponse afterAgentThought stop "
     "subagentStart subagentStop sessionStart sessionEnd preCompact workspaceOpen permissionRequest "
     "userPromptSubmitted userPromptTransformed agentStop errorOccurred notification",
     "a script for this event reads other fields than ours writes; in files of hosts that take both, name the "
     "event as PreToolUse, PostToolUse, UserPromptSubmit, … "},
};

static const char *why_no_phase(const char *event) {
  for (size_t i = 0; i < sizeof no_phase / sizeof no_phase[0]; i++)
    if (is_among(event, no_phase[i].names)) return no_phase[i].why;
  return "no such event is known";
}

static const char known_events[] =
    "PreToolUse PostToolUse PostToolUseFailure UserPromptSubmit SessionStart SessionEnd Stop StopFailure BeforeTool "
    "AfterTool BeforeAgent AfterAgent PreCompact PreCompress PostToolBatch SubagentStart SubagentStop "
    "PermissionRequest PermissionDenied Notification PostCompact BeforeModel AfterModel BeforeToolSelection";
static const char gemini_events[] =
    "BeforeTool AfterTool BeforeAgent AfterAgent BeforeModel AfterModel BeforeToolSelection PreCompress";
/* What they answer can stop something. */
static const char guards[] =
    "PreToolUse UserPromptSubmit Stop BeforeTool BeforeAgent AfterAgent PreCompact PreCompress PostToolBatch "
    "SubagentStop BeforeModel AfterModel";
static const char without_matcher[] =
    "UserPromptSubmit Stop PostToolBatch BeforeAgent AfterAgent BeforeModel AfterModel BeforeToolSelection";

/* ---- one handler ---- */

typedef struct reader {
  cli_settings *settings;
  cli_entry *entry;
  bool is_flat; /* handlers without groups */
} reader;

static const char *text_of(reader *r, tp_text value) {
  return tp_value_kind_of(value) == TP_VALUE_TEXT ? cli_pool_copy(&r->settings->pool, tp_value_text(value)) : NULL;
}

static void need_text(reader *r, const char *key) {
  leave_out(r->entry, format_text(r->settings, "malformed: %s is not a text", key));
}

static void read_type(reader *r, tp_text value) {
  const char *type = text_of(r, value);
  if (!type) need_text(r, "type");
  else if (!is_among(type, "command http prompt agent"))
    leave_out(r->entry,
              format_text(r->settings,
                          "handlers of the type %s have no place: only command, http, prompt and agent have", type));
}

static void read_timeout(reader *r, tp_text value, bool is_ms) {
  tp_value_kind kind = tp_value_kind_of(value);
  double number = tp_value_double(value, -1);
  bool is_number = kind == TP_VALUE_INT || kind == TP_VALUE_DOUBLE;
  double ms = is_ms ? number : number * 1000;
  if (!is_number || ms < 1 || ms > TIMEOUT_MS_MAX) {
    leave_out(r->entry, "malformed: timeout is not a number from 1 ms to a day");
    return;
  }
  r->entry->timeout_ms = (int64_t)ms;
  if (!is_ms && number >= SUSPICIOUS_S)
    note_entry(r->entry,
               format_text(r->settings, "its limit is %.0f s: timeout is in seconds; was it meant as ms?", number));
}

static void read_flag(reader *r, const char *key, tp_text value, bool *ret_flag) {
  if (tp_value_kind_of(value) != TP_VALUE_BOOL)
    leave_out(r->entry, format_text(r->settings, "malformed: %s is not true or false", key));
  else *ret_flag = tp_value_bool(value, false);
}

static void read_shell(reader *r, tp_text value, const char **ret_shell) {
  const char *shell = text_of(r, value);
  if (shell && strcmp(shell, "bash") == 0) *ret_shell = "bash";
  else leave_out(r->entry, format_text(r->settings, "the shell %s has no place", shell ? shell : "(no text)"));
}

static void read_on_failure(reader *r, tp_text value) {
  const char *what = text_of(r, value);
  if (what && strcmp(what, "block") == 0) r->entry->fails_closed = true;
  else if (!what || strcmp(what, "continue") != 0)
    leave_out(r->entry, "malformed: onFailure is neither block nor continue");
}

/* @return NULL, or what is wrong. */
static const char *read_variables(cli_settings *settings, tp_text env, cli_variables *variables) {
  char number[40];
  if (tp_value_kind_of(env) != TP_VALUE_MAP) return "malformed: env is not an object of texts";
  if (tp_value_count(env) > CLI_VARIABLES_MAX) return "env has more than 60 variables";
  for (tp_value_walk walk = {0}; tp_value_next(env, &walk);) {
    tp_value_kind kind = tp_value_kind_of(walk.value);
    tp_text value = tp_value_text(walk.value);
    bool is_bool = kind == TP_VALUE_BOOL;
    if (is_bool) value = tp_text_of(tp_value_bool(walk.value, false) ? "true" : "false");
    if (kind == TP_VALUE_INT) snprintf(number, sizeof number, "%lld", (long long)tp_value_int(walk.value, 0));
    if (kind == TP_VALUE_INT) value = tp_text_of(number);
    if (kind != TP_VALUE_TEXT && kind != TP_VALUE_INT && !is_bool) return "malformed: env is not an object of texts";
    variables->items[variables->count][0] = cli_pool_copy(&settings->pool, walk.key);
    variables->items[variables->count++][1] = cli_pool_copy(&settings->pool, value);
  }
  return NULL;
}

/* @return false for a key that no handler has. */
static bool read_key(reader *r, const char *key, tp_text value, const char **ret_shell) {
  cli_entry *entry = r->entry;
  bool rewakes = false, ignored = false;
  bool is_gemini = strcmp(r->settings->protocol, "gemini") == 0;
  if (is_among(key, "command bash args matcher name description")) return true; /* read elsewhere */
  if (strcmp(key, "type") == 0) read_type(r, value);
  else if (strcmp(key, "timeout") == 0) read_timeout(r, value, is_gemini);
  else if (strcmp(key, "timeoutSec") == 0) read_timeout(r, value, false);
  else if (strcmp(key, "shell") == 0) read_shell(r, value, ret_shell);
  else if (strcmp(key, "onFailure") == 0) read_on_failure(r, value);
  else if (strcmp(key, "failClosed") == 0) read_flag(r, key, value, &entry->fails_closed);
  else if (strcmp(key, "async") == 0) read_flag(r, key, value, &entry->is_async);
  else if (strcmp(key, "asyncRewake") == 0) {
    read_flag(r, key, value, &rewakes);
    if (rewakes) {
      /* For these events exit code 2 gives the model a message, which it gets at once. */
      entry->rewakes = is_among(entry->event, "PostToolUse PostToolUseFailure Stop SubagentStop");
      if (entry->rewakes)
        note_entry(entry, "asyncRewake: it is waited for here, and exit code 2 reaches the model at once");
      else leave_out(entry, "asyncRewake has no place: a program that nothing waits for wakes no model");
    }
  } else if (strcmp(key, "statusMessage") == 0) note_entry(entry, "statusMessage is not shown");
  else if (is_among(key, "rewakeMessage rewakeSummary"))
    note_entry(entry, format_text(r->settings, "%s is not shown: the model reads what the program wrote", key));
  else if (strcmp(key, "once") == 0) note_entry(entry, "once has no meaning outside of skills: it runs each time");
  else if (strcmp(key, "continueOnBlock") == 0) {
    read_flag(r, key, value, &ignored);
    note_entry(entry, "continueOnBlock: a block behind a call is always a reminder");
  } else if (strcmp(key, "if") == 0) {
    entry->rule = text_of(r, value);
    if (!entry->rule) need_text(r, "if");
  } else if (strcmp(key, "env") == 0) {
    const char *wrong = read_variables(r->settings, value, &entry->variables);
    if (wrong) leave_out(entry, wrong);
  } else if (is_among(key, "commandWindows command_windows powershell")) {
    note_entry(entry, format_text(r->settings, "%s is for another system", key));
  } else if (is_among(key, "cwd exec loop_limit")) leave_out(entry, format_text(r->settings, "%s has no place", key));
  else return false;
  return true;
}

static void read_arguments(reader *r, tp_text args, const char *shell, const char *command) {
  const char **list = cli_alloc((ARGUMENTS_MAX + 4) * sizeof *list);
  size_t count = 0;
  if (args.size == 0) {
    list[count++] = shell;
    list[count++] = "-c";
    list[count++] = command;
  } else if (tp_value_kind_of(args) != TP_VALUE_ARRAY || tp_value_count(args) > ARGUMENTS_MAX) {
    leave_out(r->entry, "malformed: args is not a list of at most 60 texts");
  } else {
    list[count++] = command;
    for (tp_value_walk walk = {0}; tp_value_next(args, &walk);) {
      list[count] = text_of(r, walk.value);
      if (!list[count++]) leave_out(r->entry, "malformed: args is not a list of at most 60 texts");
      else r->entry->command = format_text(r->settings, "%s %s", r->entry->command, list[count - 1]);
    }
  }
  r->entry->arguments = list;
  r->entry->argument_count = count;
}

static void note_environment(reader *r, const char *command) {
  static const char *const absent[] = {"CLAUDE_ENV_FILE",        "CLAUDE_PLUGIN_DATA", "CLAUDE_PLUGIN_OPTION_",
                                       "CLAUDE_CODE_SESSION_ID", "CLAUDE_EFFORT",      "CODEX_ENV_FILE"};
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
    if (strstr(command, absent[i]))
      note_entry(r->entry, format_text(r->settings, "%s is not in its environment", absent[i]));
  if (strstr(command, "CLAUDE_PLUGIN_ROOT") && !r->settings->plugin_root)
    note_entry(r->entry, "CLAUDE_PLUGIN_ROOT is not in its environment: the file is no hooks/hooks.json of a plugin");
}

static void read_command(reader *r, tp_text handler, const char *shell) {
  tp_text value = tp_value_get(handler, "command");
  if (value.size == 0) value = tp_value_get(handler, "bash");
  const char *command = text_of(r, value);
  if (!command || !command[0] || strlen(command) != tp_value_text(value).size) {
    leave_out(r->entry, "malformed: command is missing, or is not a text");
    return;
  }
  r->entry->command = command;
  note_environment(r, command);
  read_arguments(r, tp_value_get(handler, "args"), shell, command);
}

/* ---- an endpoint ---- */

static bool is_listed(tp_text names, const char *name, size_t size) {
  for (tp_value_walk walk = {0}; tp_value_next(names, &walk);) {
    if (tp__same(tp_value_text(walk.value), (tp_text){name, size})) return true;
  }
  return false;
}

/* "$NAME" and "${NAME}" of allowed variables become "${NAME}"; other variables become nothing, as in that host. */
static const char *convert_header(reader *r, const char *value, tp_text names) {
  static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  char text[2048];
  size_t used = 0;
  while (*value && used + 256 < sizeof text) {
    bool has_brace = value[0] == '$' && value[1] == '{';
    const char *name = value + 1 + has_brace;
    size_t size = value[0] == '$' ? strspn(name, legal) : 0;
    if (size == 0 || size > 200 || (has_brace && name[size] != '}')) {
      assert(used < sizeof text / sizeof *text);
      text[used++] = *value++;
      continue;
    }
    if (is_listed(names, name, size)) used += (size_t)snprintf(text + used, 256, "${%.*s}", (int)size, name);
    else
      note_entry(r->entry,
                 format_text(r->settings, "its headers get no %.*s: allowedEnvVars does not list it", (int)size, name));
    value = name + size + has_brace;
  }
  if (*value) leave_out(r->entry, "a header is longer than 1,700 bytes");
  return format_text(r->settings, "%.*s", (int)used, text);
}

static void read_headers(reader *r, tp_text headers, tp_text names) {
  cli_entry *entry = r->entry;
  if (headers.size == 0) return;
  if (tp_value_kind_of(headers) != TP_VALUE_MAP || tp_value_count(headers) > CLI_HEADERS_MAX) {
    leave_out(entry, "malformed: headers is not an object of at most 16 texts");
    return;
  }
  for (tp_value_walk walk = {0}; tp_value_next(headers, &walk);) {
    const char *value = text_of(r, walk.value);
    if (!value) leave_out(entry, "malformed: headers is not an object of at most 16 texts");
    if (!value) return;
    entry->headers[entry->header_count][0] = cli_pool_copy(&r->settings->pool, walk.key);
    assert(entry->header_count < sizeof entry->headers / sizeof *entry->headers);
    entry->headers[entry->header_count++][1] = convert_header(r, value, names);
  }
}

/* The part of a URL that a report may show: path and query may be secret. */
static const char *shown_url(reader *r, const char *url) {
  tp__bytes shown = {0};
  const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
  tp__put_without(&shown, (tp_text){url, (size_t)(host - url) + strcspn(host, "/?#")}, NULL);
  const char *text = format_text(r->settings, "%s", tp__bytes_string(&shown));
  tp__bytes_fini(&shown);
  return text;
}

/* Host and port of a URL. For a malformed URL, the library reports the error. */
static const char *endpoint_of(reader *r, const char *url) {
  const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
  size_t size = strcspn(host, "/?");
  const char *closed = memchr(host, ']', size), *behind = closed ? closed : host;
  bool has_port = memchr(behind, ':', size - (size_t)(behind - host)) != NULL;
  bool is_port_80 = strncmp(url, "http://", 7) == 0 && !has_port;
  return format_text(r->settings, "%.*s%s", (int)size, host, is_port_80 ? ":80" : "");
}

static void read_endpoint(reader *r, tp_text handler) {
  cli_entry *entry = r->entry;
  const char *url = text_of(r, tp_value_get(handler, "url"));
  if (!url || !url[0]) {
    leave_out(entry, "malformed: url is missing, or is not a text");
    return;
  }
  entry->url = url;
  entry->command = shown_url(r, url);
  entry->endpoint = endpoint_of(r, url);
  note_entry(entry, format_text(r->settings, "its endpoint must be allowed: --webhook %s", entry->endpoint));
  read_headers(r, tp_value_get(handler, "headers"), tp_value_get(handler, "allowedEnvVars"));
}

static void read_matcher(reader *r, tp_text value) {
  cli_entry *entry = r->entry;
  if (value.size == 0 || tp_value_kind_of(value) == TP_VALUE_NULL) return;
  const char *matcher = text_of(r, value);
  if (!matcher) {
    need_text(r, "matcher");
  } else if (is_among(entry->event, without_matcher)) {
    note_entry(entry, format_text(r->settings,
                                  "its matcher \"%s\" is left out: the event has none, and its host ignores it, too",
                                  matcher));
  } else if (r->is_flat && strpbrk(matcher, ".*+?()[]^$\\")) {
    entry->matcher = format_text(r->settings, "^(?:%s)$", matcher); /* these hosts anchor it */
  } else {
    entry->matcher = matcher;
  }
}

static void check_event(reader *r) {
  const char *event = r->entry->event;
  if (strcmp(event, "AfterModel") == 0)
    note_entry(r->entry,
               "it runs once for an answer, when that is whole, and not for each chunk; nothing of the answer is "
               "shown before");
  if (is_among(event, known_events)) r->entry->is_guard = is_among(event, guards);
  else leave_out(r->entry, why_no_phase(event));
}

/* ---- a question to a model ---- */

static void read_prompt(reader *r, tp_text handler, const char *type) {
  cli_entry *entry = r->entry;
  tp_text model = tp_value_get(handler, "model");
  entry->prompt = text_of(r, tp_value_get(handler, "prompt"));
  if (model.size > 0) entry->model = text_of(r, model);
  if (!entry->prompt || !entry->prompt[0]) {
    leave_out(entry, "malformed: prompt is missing, or is not a text");
    return;
  }
  entry->command = entry->prompt;
  entry->is_agent = strcmp(type, "agent") == 0;
  if (model.size > 0 && !entry->model) need_text(r, "model");
  else if (entry->model)
    note_entry(entry,
               format_text(r->settings,
                           "the provider is asked for the model \"%s\": take model out of the file where it has none "
                           "of that name",
                           entry->model));
}

/* For each type, the keys that only its handlers have: they are read with the type, or left out with it. */
static const struct {
  const char *type, *keys;
} own_keys[] = {{"http", "url headers allowedEnvVars"},
                {"prompt", "prompt model"},
                {"agent", "prompt model"},
                {"mcp_tool", "server tool input"}};

static bool is_own_key(const char *type, const char *key) {
  for (size_t i = 0; i < sizeof own_keys / sizeof own_keys[0]; i++)
    if (strcmp(own_keys[i].type, type) == 0) return is_among(key, own_keys[i].keys);
  return false;
}

static void read_handler(cli_settings *settings, const char *event, tp_text matcher, tp_text handler, bool is_flat) {
  reader r = {.settings = settings, .entry = add_settings_entry(settings, event), .is_flat = is_flat};
  const char *shell = "sh", *type = text_of(&r, tp_value_get(handler, "type"));
  if (!type) type = "command";
  check_event(&r);
  if (tp_value_kind_of(handler) != TP_VALUE_MAP) {
    leave_out(r.entry, "malformed: a handler is an object");
    return;
  }
  read_matcher(&r, matcher);
  r.entry->name = text_of(&r, tp_value_get(handler, "name"));
  for (tp_value_walk walk = {0}; tp_value_next(handler, &walk);) {
    const char *key = cli_pool_copy(&settings->pool, walk.key);
    if (is_own_key(type, key)) continue;
    if (!read_key(&r, key, walk.value, &shell))
      note_entry(r.entry, format_text(settings, "the unknown field %s is left out", key));
  }
  if (r.entry->rewakes) r.entry->is_async = false; /* which it implies */
  if (strcmp(type, "http") == 0) read_endpoint(&r, handler);
  else if (is_among(type, "prompt agent")) read_prompt(&r, handler, type);
  else read_command(&r, handler, shell);
  if (r.entry->is_async && r.entry->is_guard)
    note_entry(r.entry, "async: nothing waits for it, and nothing that it decides counts");
}

/* ---- the file ---- */

static void refuse_group(cli_settings *settings, const char *event, const char *why) {
  cli_entry *entry = add_settings_entry(settings, event);
  leave_out(entry, why);
}

static void read_handlers(cli_settings *settings, const char *event, tp_text group) {
  tp_text handlers = tp_value_get(group, "hooks");
  if (tp_value_kind_of(group) != TP_VALUE_MAP) {
    refuse_group(settings, event, "malformed: neither a group nor a handler, which are objects");
  } else if (handlers.size == 0) {
    read_handler(settings, event, tp_value_get(group, "matcher"), group, true);
  } else if (tp_value_kind_of(handlers) != TP_VALUE_ARRAY) {
    refuse_group(settings, event, "malformed: hooks of a group is not a list");
  } else {
    for (tp_value_walk walk = {0}; tp_value_next(handlers, &walk);)
      read_handler(settings, event, tp_value_get(group, "matcher"), walk.value, false);
  }
}

/* The keys of a group other than its matcher apply to each of its handlers. */
static void read_group_keys(cli_settings *settings, tp_text group, size_t first) {
  for (tp_value_walk walk = {0}; tp_value_next(group, &walk);) {
    const char *key = cli_pool_copy(&settings->pool, walk.key);
    if (is_among(key, "matcher hooks name description")) continue;
    for (size_t i = first; i < settings->count; i++) {
      reader r = {.settings = settings, .entry = &settings->entries[i]};
      if (strcmp(key, "sequential") == 0) read_flag(&r, key, walk.value, &r.entry->is_sequential);
      else
        note_entry(r.entry,
                   format_text(settings, "%s of its group is left out: a group has matcher, sequential and hooks%s",
                               key, strcmp(key, "if") == 0 ? ", and if belongs to a handler" : ""));
    }
  }
}

static void read_group(cli_settings *settings, const char *event, size_t number, tp_text group) {
  size_t first = settings->count;
  read_handlers(settings, event, group);
  if (tp_value_get(group, "hooks").size > 0) read_group_keys(settings, group, first);
  for (size_t i = first; i < settings->count; i++) {
    settings->entries[i].group = number;
    settings->entries[i].index = i - first;
  }
}

/* A plugin is the directory above hooks/hooks.json. */
static void find_plugin(cli_settings *settings, const char *path) {
  static const char tail[] = "/hooks/hooks.json";
  char *whole = realpath(path, NULL);
  size_t size = whole ? strlen(whole) : 0, tail_size = sizeof tail - 1;
  if (size > tail_size && strcmp(whole + size - tail_size, tail) == 0)
    settings->plugin_root = cli_pool_copy(&settings->pool, (tp_text){whole, size - tail_size});
  free(whole);
}

/* [features] of a config.toml. */
static bool has_no_feature(tp_text object) {
  tp_text features = tp_value_get(object, "features");
  return !tp_value_bool(tp_value_get(features, "hooks"), true) ||
         !tp_value_bool(tp_value_get(features, "codex_hooks"), true);
}

/* [hooks.state] of a config.toml is not an event. */
static bool is_state(const char *event, tp_text value) {
  return strcmp(event, "state") == 0 && tp_value_kind_of(value) == TP_VALUE_MAP;
}

static void read_states(cli_settings *settings, tp_text states) {
  bool has_trust = false;
  for (tp_value_walk walk = {0}; tp_value_next(states, &walk);) {
    has_trust = has_trust || tp_value_get(walk.value, "trusted_hash").size > 0;
    if (tp_value_bool(tp_value_get(walk.value, "enabled"), true)) continue;
    const char *key = cli_pool_copy(&settings->pool, walk.key);
    if (settings->state_count < CLI_STATES_MAX) settings->states[settings->state_count++] = key;
    else note_file(settings, format_text(settings, "hooks.state has too many places: %s is not read", key));
  }
  if (has_trust) note_file(settings, "what its host trusts (trusted_hash of hooks.state) is not trusted here");
}

/* Whether it is the same file. If the place is on another machine or in another home directory, a file with the same
 * name in the same folder counts. */
static bool is_file(const char *path, const char *place, size_t place_size) {
  char *own = realpath(path, NULL), *text = strndup(place, place_size), *there = text ? realpath(text, NULL) : NULL;
  bool is_same = own && there && strcmp(own, there) == 0;
  if (own && text && !there) {
    const char *name = strrchr(text, '/'), *folder = name ? memrchr(text, '/', (size_t)(name - text)) : NULL;
    size_t tail = strlen(folder ? folder : text), size = strlen(own);
    is_same = size > tail && strcmp(own + size - tail, folder ? folder : text) == 0 &&
              (folder || own[size - tail - 1] == '/');
  }
  free(own);
  free(text);
  free(there);
  return is_same;
}

/* PreToolUse: pre_tool_use. */
static bool is_event(const char *event, const char *key, size_t key_size) {
  size_t at = 0;
  for (size_t i = 0; event[i]; i++) {
    bool is_upper = event[i] >= 'A' && event[i] <= 'Z';
    if (is_upper && i > 0 && (at >= key_size || key[at++] != '_')) return false;
    if (at >= key_size || key[at++] != (is_upper ? event[i] - 'A' + 'a' : event[i])) return false;
  }
  return at == key_size;
}

/* @param state  "FILE:event:group:index". */
static bool is_place(const char *path, const cli_entry *entry, const char *state) {
  char end[64];
  snprintf(end, sizeof end, ":%zu:%zu", entry->group, entry->index);
  size_t size = strlen(state), end_size = strlen(end);
  if (size <= end_size || strcmp(state + size - end_size, end) != 0) return false;
  const char *event = memrchr(state, ':', size - end_size);
  if (!event || !is_event(entry->event, event + 1, (size_t)(state + size - end_size - event - 1))) return false;
  return is_file(path, state, (size_t)(event - state));
}

static bool apply_state(cli_settings *files, size_t count, const char *state) {
  bool is_found = false;
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < files[i].count; j++) {
      cli_entry *entry = &files[i].entries[j];
      if (!is_place(files[i].path, entry, state)) continue;
      if (!entry->is_off) note_entry(entry, "its host has it switched off: it is written with enabled: false");
      entry->is_off = is_found = true;
    }
  }
  return is_found;
}

void cli_settings_apply_states(cli_settings *files, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < files[i].state_count; j++)
      if (!apply_state(files, count, files[i].states[j]))
        note_file(&files[i],
                  format_text(&files[i], "hooks.state switches off %s, which is no hook of the files that are imported",
                              files[i].states[j]));
}

static void read_environment(cli_settings *settings, tp_text object) {
  tp_text env = tp_value_get(object, "env");
  const char *wrong = env.size > 0 ? read_variables(settings, env, &settings->variables) : NULL;
  if (wrong) note_file(settings, wrong);
}

/* A list of names of hooks, or of their commands. */
static void switch_off(cli_settings *settings, tp_text names) {
  for (tp_value_walk walk = {0}; tp_value_kind_of(names) == TP_VALUE_ARRAY && tp_value_next(names, &walk);) {
    tp_text name = tp_value_text(walk.value);
    bool is_found = false;
    for (size_t i = 0; i < settings->count; i++) {
      cli_entry *entry = &settings->entries[i];
      if (!tp__is_word(name, entry->name ? entry->name : entry->command) && !tp__is_word(name, entry->command))
        continue;
      if (!entry->is_off) note_entry(entry, "its host has it switched off: it is written with enabled: false");
      entry->is_off = is_found = true;
    }
    if (!is_found)
      note_file(settings, format_text(settings, "disabled names %.*s, and no hook of the file has that name",
                                      (int)name.size, name.size > 0 ? name.data : ""));
  }
}

/* Notes rules that decide about calls in that host, and are not hooks. */
static void note_rules(cli_settings *settings, tp_text object) {
  tp_text rules = tp_value_get(object, "permissions"), tools = tp_value_get(object, "tools");
  bool has_rules = tp_value_count(tp_value_get(rules, "deny")) + tp_value_count(tp_value_get(rules, "ask")) > 0;
  bool has_tools =
      tp_value_count(tp_value_get(tools, "exclude")) + tp_value_count(tp_value_get(object, "excludeTools")) > 0;
  if (has_rules)
    note_file(settings,
              "permissions are not read: what deny and ask list goes on here, until a file of kind "
              "permissions, or a guard of kind deny or ask, says so");
  if (has_tools)
    note_file(settings, "the excluded tools are not read: they go on here, until a file of kind permissions has them");
  static const struct {
    const char *keys, *why;
  } others[] = {
      {"allowManagedHooksOnly", "their host runs managed hooks only: those of other files were off there"},
      {"allowedHttpHookUrls httpHookAllowedEnvVars", "not read: --webhook says which endpoints are asked"},
      {"statusLine subagentStatusLine fileSuggestion apiKeyHelper otelHeadersHelper awsAuthRefresh awsCredentialExport "
       "notify",
       "not read: a program of its host, and no hook"},
  };
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    for (tp_value_walk walk = {0}; tp_value_next(object, &walk);) {
      const char *key = cli_pool_copy(&settings->pool, walk.key);
      bool is_set = tp_value_kind_of(walk.value) != TP_VALUE_BOOL || tp_value_bool(walk.value, false);
      if (is_set && is_among(key, others[i].keys))
        note_file(settings, format_text(settings, "%s: %s", key, others[i].why));
    }
  if (tp_value_count(tp_value_get(object, "enabledPlugins")) > 0)
    note_file(settings, "enabledPlugins are not read: import the hooks/hooks.json of each plugin, too");
}

static int read_object(const char *path, tp_text object, cli_settings *settings) {
  tp_text hooks = tp_value_get(object, "hooks");
  if (tp_value_kind_of(object) != TP_VALUE_MAP || tp_value_kind_of(hooks) != TP_VALUE_MAP) {
    cli_error_at(path, 0, 0, "has no hooks: {\"hooks\": {\"PreToolUse\": [ … ]}}");
    return CLI_CONFIG;
  }
  settings->protocol = strstr(path, ".gemini/") ? "gemini" : "claude-code";
  for (tp_value_walk walk = {0}; tp_value_next(hooks, &walk);)
    if (is_among(cli_pool_copy(&settings->pool, walk.key), gemini_events)) settings->protocol = "gemini";
  find_plugin(settings, path);
  settings->disabled = tp_value_bool(tp_value_get(object, "disableAllHooks"), false) || has_no_feature(object) ||
                       !tp_value_bool(tp_value_get(tp_value_get(object, "hooksConfig"), "enabled"), true) ||
                       !tp_value_bool(tp_value_get(hooks, "enabled"), true);
  read_environment(settings, object);
  note_rules(settings, object);
  for (tp_value_walk walk = {0}; tp_value_next(hooks, &walk);) {
    const char *event = cli_pool_copy(&settings->pool, walk.key);
    if (is_among(event, "disabled enabled notifications")) continue; /* read below */
    if (is_state(event, walk.value)) {
      read_states(settings, walk.value);
      continue;
    }
    if (tp_value_kind_of(walk.value) != TP_VALUE_ARRAY) {
      refuse_group(settings, event,
                   is_among(event, known_events) ? "malformed: an event has a list of groups: [{\"hooks\": [ … ]}]"
                                                 : why_no_phase(event));
      continue;
    }
    size_t number = 0;
    for (tp_value_walk group = {0}; tp_value_next(walk.value, &group);)
      read_group(settings, event, number++, group.value);
  }
  switch_off(settings, tp_value_get(hooks, "disabled"));
  switch_off(settings, tp_value_get(tp_value_get(object, "hooksConfig"), "disabled"));
  return CLI_OK;
}

int cli_settings_read(const char *path, cli_settings *settings) {
  tp_text object;
  tp_writer *writer;
  *settings = (cli_settings){.protocol = "claude-code", .path = path};
  int status = cli_settings_decode(path, &writer, &object);
  if (status == CLI_OK) status = read_object(path, object, settings);
  tp_writer_free(writer);
  return status;
}

void cli_settings_free(cli_settings *settings) {
  for (size_t i = 0; i < settings->count; i++) free((void *)(uintptr_t)settings->entries[i].arguments);
  free(settings->entries);
  cli_pool_free(&settings->pool);
}
