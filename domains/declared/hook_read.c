/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_read.c: reads a file of one hook, one tool, or the lists of a profile. hook_reader.h has the functions that read
 * keys. */
#include "domains/declared/hook_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook_model.h"
#include "domains/declared/hook_protocol.h"
#include "domains/declared/hook_reader.h"
#include "domains/declared/hook_tool.h"
#include "domains/declared/redact.h"

/* Before the hooks that give no number. */
enum { PERMISSIONS_PRIORITY = -1000000 };

/* ---- a protocol of another host ---- */

static tp_status read_protocol(tp__hook_reader *reader, tp__hook *hook) {
  const char *name = NULL;
  TP__TRY(tp__reader_get_text(reader, 0, "protocol", &name));
  if (!name) {
    static const char *const needs[] = {"tools", "plugin_root", "rewrite"};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
      uint32_t index = tp__yaml_get(&reader->yaml, 0, needs[i]);
      if (index != 0) return REFUSE(reader, TP_ERR_MALFORMED, index, "%s belongs to a protocol: name it", needs[i]);
    }
    return TP_OK;
  }
  hook->protocol = tp__protocol_find(name);
  TP__TRY(tp__reader_get_bool(reader, 0, "rewrite", &hook->rewrites));
  if (hook->protocol) return tp__reader_get_text(reader, 0, "plugin_root", &hook->plugin_root);
  return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "protocol"),
                "there is no protocol \"%s\": claude-code, gemini", name);
}

/* {ours: theirs, …}, of names of arguments. */
static tp_status read_argument_names(tp__hook_reader *reader, uint32_t map, tp__tool_name *name) {
  uint32_t arguments = tp__yaml_get(&reader->yaml, map, "arguments");
  if (arguments == 0) return TP_OK;
  TP__TRY(tp__reader_expect(reader, arguments, "arguments", TP_VALUE_MAP, "a map of argument names"));
  if (reader->yaml.items[arguments].count > TP__ARGUMENT_NAMES_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, arguments, "more than %d arguments", TP__ARGUMENT_NAMES_MAX);
  for (uint32_t key = arguments + 1; key < reader->yaml.items[arguments].end; key = reader->yaml.items[key + 1].end) {
    assert(name->argument_count < sizeof name->arguments / sizeof *name->arguments);
    const char **pair = name->arguments[name->argument_count++];
    TP__TRY(tp__reader_take_text(reader, key, "the name of an argument", &pair[0]));
    TP__TRY(tp__reader_take_text(reader, key + 1, "the name of an argument", &pair[1]));
  }
  return TP_OK;
}

static tp_status read_tool_name(tp__hook_reader *reader, uint32_t key, tp__tool_name *name) {
  uint32_t value = key + 1;
  TP__TRY(tp__reader_take_text(reader, key, "the name of a tool", &name->ours));
  if (reader->yaml.items[value].kind == TP_VALUE_TEXT)
    return tp__reader_take_text(reader, value, name->ours, &name->theirs);
  TP__TRY(tp__reader_expect_map(reader, value, name->ours, TP__MAP_TOOL_NAME));
  TP__TRY(tp__reader_get_text(reader, value, "name", &name->theirs));
  if (!name->theirs) name->theirs = name->ours;
  return read_argument_names(reader, value, name);
}

static tp_status read_tool_names(tp__hook_reader *reader, tp__hook *hook) {
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "tools");
  if (map == 0) return TP_OK;
  TP__TRY(tp__reader_expect(reader, map, "tools", TP_VALUE_MAP, "a map from the names of your tools to theirs"));
  uint32_t count = reader->yaml.items[map].count;
  if (count > TP__TOOL_NAMES_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, map, "more than %d tools", TP__TOOL_NAMES_MAX);
  hook->tool_names = tp__hooks_alloc(reader->hooks, (count + 1) * sizeof *hook->tool_names);
  if (!hook->tool_names) return tp__reader_no_memory(reader);
  for (uint32_t key = map + 1; key < reader->yaml.items[map].end; key = reader->yaml.items[key + 1].end)
    TP__TRY(read_tool_name(reader, key, &hook->tool_names[hook->tool_name_count++]));
  return TP_OK;
}

/* Adds the variables that these hosts set to those that every program gets. */
static tp_status make_environment(tp__hook_reader *reader, tp__hook *hook) {
  const struct {
    const char *name, *value;
  } pairs[] = {{"CLAUDE_PROJECT_DIR", reader->hooks->root},
               {"GEMINI_PROJECT_DIR", hook->protocol == TP__PROTOCOL_GEMINI ? reader->hooks->root : NULL},
               {"CLAUDE_PLUGIN_ROOT", hook->plugin_root}};
  size_t count = 0;
  while (hook->environment[count]) count++;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    if (!pairs[i].value) continue;
    hook->environment[count] = tp__hooks_pair(reader->hooks, pairs[i].name, pairs[i].value);
    if (!hook->environment[count++]) return tp__reader_no_memory(reader);
  }
  return TP_OK;
}

/* ---- the phase ---- */

/* One program does both: a hook that may replace something also decides and reminds. */
static tp_status find_rewritten(tp__hook_reader *reader, tp__hook *hook) {
  if (hook->phase == TP_PHASE_TOOL_PRE) hook->phase = TP_PHASE_TOOL_REWRITE;
  else if (hook->phase == TP_PHASE_TOOL_POST) hook->phase = TP_PHASE_TOOL_RESULT;
  else if (hook->protocol_event->id != TP__EVENT_PERMISSION_REQUEST &&
           !tp__hook_model_is_event(hook->protocol_event->id))
    return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "rewrite"),
                  "%s has nothing that a hook may rewrite: events of tools and models have", hook->event);
  if (reader->hooks->grants & TP_GRANT_REWRITE) return TP_OK;
  return REFUSE(reader, TP_ERR_PRIVILEGED, tp__yaml_get(&reader->yaml, 0, "rewrite"),
                "rewrite: true needs the operator's grant rewrite (tp_hooks_options.grants)");
}

/* The hook keeps its own. */
static tp_status copy_row(tp__hook_reader *reader, tp__hook *hook) {
  hook->own_row = *hook->row;
  hook->own_row.name = tp__hooks_copy(reader->hooks, tp_text_of(hook->row->name));
  hook->row = &hook->own_row;
  return hook->row->name ? TP_OK : tp__reader_no_memory(reader);
}

static tp_status read_event(tp__hook_reader *reader, tp__hook *hook) {
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "event_type"), other = tp__yaml_get(&reader->yaml, 0, "event");
  if (index != 0 && other != 0)
    return REFUSE(reader, TP_ERR_MALFORMED, other, "event and event_type are one: keep one");
  if (index == 0) index = other;
  if (index == 0) return REFUSE(reader, TP_ERR_MALFORMED, 0, "a hook needs event_type: the name of a phase or event");
  TP__TRY(tp__reader_take_text(reader, index, "event_type", &hook->event));
  if (hook->protocol) {
    hook->protocol_event = tp__protocol_event_find(hook->protocol, hook->event);
    if (!hook->protocol_event)
      return REFUSE(reader, TP_ERR_UNKNOWN_PHASE, index,
                    "no phase carries the event \"%s\" of %s: docs/hooks.md lists those that have one", hook->event,
                    tp__protocol_name(hook->protocol));
  }
  hook->phase = hook->protocol ? hook->protocol_event->phase : tp_phase_find(reader->hooks->runtime, hook->event);
  if (hook->rewrites) TP__TRY(find_rewritten(reader, hook));
  else if (hook->protocol && hook->protocol_event->id == TP__EVENT_TOOL_SELECTION)
    return REFUSE(reader, TP_ERR_MALFORMED, index,
                  "%s does nothing but change the tools of a request: it needs rewrite: true", hook->event);
  hook->row = hook->phase ? tp_phase_get(reader->hooks->runtime, hook->phase) : NULL;
  if (!hook->row)
    return REFUSE(reader, TP_ERR_UNKNOWN_PHASE, index, "no phase or event \"%s\": see turnphase phases", hook->event);
  if (hook->row->code_only && !hook->rewrites)
    return REFUSE(reader, TP_ERR_CODE_ONLY, index, "%s takes code only: guard with tool.pre, observe with tool.post",
                  hook->row->name);
  if (hook->row->privileged && !(reader->hooks->grants & TP_GRANT_PRIVILEGED_HOOKS))
    return REFUSE(reader, TP_ERR_PRIVILEGED, index,
                  "%s is privileged: it needs the operator's grant privileged_hooks (tp_hooks_options.grants)",
                  hook->row->name);
  return copy_row(reader, hook);
}

/* ---- policies and edges ---- */

static tp_status read_failure(tp__hook_reader *reader, tp__hook *hook) {
  const char *name = NULL;
  TP__TRY(tp__reader_get_text(reader, 0, "failure", &name));
  if (!hook->is_blocking || hook->protocol) hook->failure = TP_FAILURE_BEST_EFFORT;
  if (!name) return TP_OK;
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "failure");
  if (strcmp(name, "best_effort") == 0) {
    hook->failure = TP_FAILURE_BEST_EFFORT;
    return TP_OK;
  }
  if (strcmp(name, "required") != 0)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "failure is best_effort or required, not \"%s\"", name);
  if (!hook->is_blocking)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "required needs blocking: true: else no phase waits for it");
  if (hook->row->mode == TP_MODE_OBSERVE)
    return REFUSE(reader, TP_ERR_OBSERVER_REQUIRED, index, "%s observes: a hook there is best_effort", hook->row->name);
  hook->failure = TP_FAILURE_REQUIRED;
  return TP_OK;
}

static bool id_is_legal(const char *id) {
  if (!id[0] || strlen(id) > TP_ID_BYTES_MAX) return false;
  for (; *id; id++) {
    if ((unsigned char)*id <= ' ' || *id == 0x7f) return false;
  }
  return true;
}

/* @param key  the key with the id: id, or name. @param missing  the message when it is missing. */
static tp_status read_id(tp__hook_reader *reader, tp__hook *hook, const char *key, const char *missing) {
  TP__TRY(tp__reader_get_text(reader, 0, key, &hook->id));
  if (!hook->id) return REFUSE(reader, TP_ERR_MALFORMED, 0, "%s", missing);
  uint32_t index = tp__yaml_get(&reader->yaml, 0, key);
  if (strcmp(key, "id") == 0 && reader->hooks->prefix[0]) {
    char whole[2 * TP_ID_BYTES_MAX + 2];
    snprintf(whole, sizeof whole, "%.*s%.*s", TP_ID_BYTES_MAX, reader->hooks->prefix, TP_ID_BYTES_MAX + 1, hook->id);
    hook->id = tp__hooks_copy(reader->hooks, tp_text_of(whole));
    if (!hook->id) return tp__reader_no_memory(reader);
  }
  if (!id_is_legal(hook->id))
    return REFUSE(reader, TP_ERR_BAD_ID, index, "%s has 1 to %d bytes without white space", key, TP_ID_BYTES_MAX);
  for (const tp__hook *other = reader->hooks->first; other; other = other->next) {
    if (strcmp(other->id, hook->id) == 0)
      return REFUSE(reader, TP_ERR_DUPLICATE_ID, index, "the %s %s is taken by %s", key, hook->id, other->file);
  }
  hook->place = reader->yaml.items[index].place;
  return TP_OK;
}

static tp_status read_hook(tp__hook_reader *reader, tp__hook *hook) {
  TP__TRY(tp__reader_expect_map(reader, 0, "a hook", TP__MAP_HOOK));
  TP__TRY(read_id(reader, hook, "id", "a hook needs an id"));
  TP__TRY(read_protocol(reader, hook));
  TP__TRY(read_event(reader, hook));
  if (hook->protocol) {
    TP__TRY(read_tool_names(reader, hook));
    TP__TRY(make_environment(reader, hook));
  }
  hook->is_enabled = hook->is_blocking = true;
  hook->summary = "";
  TP__TRY(tp__reader_get_keys(reader, 0, TP__MAP_HOOK, TP__OWNER_tp__hook, hook));
  bool is_notified = hook->protocol && hook->protocol_event->id == TP__EVENT_NOTIFICATION;
  if (is_notified) hook->is_blocking = false; /* no question waits for it */
  if (hook->rewrites && !hook->is_blocking)
    return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "rewrite"),
                  "rewrite: true needs blocking: true, since otherwise nothing waits for it");
  bool sequential = false;
  TP__TRY(tp__reader_get_bool(reader, 0, "sequential", &sequential));
  if (tp__yaml_get(&reader->yaml, 0, "sequential") != 0)
    hook->sequential = sequential ? TP_SEQUENTIAL_ON : TP_SEQUENTIAL_OFF;
  TP__TRY(tp__hook_read_match(reader, hook));
  TP__TRY(tp__hook_read_variables(reader, hook));
  TP__TRY(tp__hook_read_handler(reader, hook));
  TP__TRY(read_failure(reader, hook));
  const char *verdict = NULL;
  TP__TRY(tp__reader_get_text(reader, 0, "verdict", &verdict));
  if (!verdict) return TP_OK;
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "verdict");
  if (hook->protocol) return REFUSE(reader, TP_ERR_MALFORMED, index, "verdict belongs to our own protocol");
  if (strcmp(verdict, "json") != 0) return REFUSE(reader, TP_ERR_MALFORMED, index, "verdict is json, or left out");
  if (!hook->row->stop || !hook->is_blocking || !hook->started)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "verdict: json needs a blocking program in a phase with verdicts");
  hook->wants_json = true;
  return TP_OK;
}

/* ---- tools ---- */

static bool has_property(tp_text schema, const char *name) {
  return tp_value_get(tp_value_get(schema, "properties"), name).size > 0;
}

static tp_status read_tool_keys(tp__hook_reader *reader, tp__hook_tool *tool, const char *key, tp_tool_access access) {
  const char *texts[TP__TOOL_KEYS_MAX];
  size_t count = 0;
  uint32_t index;
  TP__TRY(tp__reader_get_texts(reader, 0, key, texts, TP__TOOL_KEYS_MAX, &count, &index));
  for (size_t i = 0; i < count; i++) {
    assert(tool->key_count < sizeof tool->keys / sizeof *tool->keys);
    tp__tool_key *made = &tool->keys[tool->key_count++];
    made->access = access;
    if (!tp__tool_key_read(reader->hooks, texts[i], made))
      return REFUSE(reader, TP_ERR_MALFORMED, index,
                    "%s takes paths such as repo, and paths with one argument as the last name: files/{path}", key);
    if (made->argument && !has_property(tool->tool.schema, made->argument))
      return REFUSE(reader, TP_ERR_MALFORMED, index, "%s names the argument %s, which is no property of the schema",
                    key, made->argument);
  }
  return TP_OK;
}

/* The library checks the content of a schema at the commit. */
static tp_status read_schema(tp__hook_reader *reader, tp_text *ret_schema) {
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "schema");
  tp_writer *writer;
  tp_text value;
  if (index == 0) return TP_OK;
  TP__TRY(tp__reader_expect(reader, index, "schema", TP_VALUE_MAP, "a map: {type: object, properties: {…}}"));
  if (tp_writer_new(NULL, &writer) != TP_OK) return tp__reader_no_memory(reader);
  tp__yaml_write(&reader->yaml, index, writer);
  const char *copy = tp_writer_finish(writer, &value) == TP_OK ? tp__hooks_copy(reader->hooks, value) : NULL;
  if (copy) *ret_schema = (tp_text){copy, value.size};
  tp_writer_free(writer);
  return copy ? TP_OK : tp__reader_no_memory(reader);
}

static tp_status read_tool(tp__hook_reader *reader, tp__hook *hook) {
  TP__TRY(tp__reader_expect_map(reader, 0, "a tool", TP__MAP_TOOL));
  TP__TRY(read_id(reader, hook, "name", "a tool needs a name"));
  hook->kind = TP__HOOK_TOOL;
  hook->kind_name = "tool";
  hook->tool = tp__hooks_alloc(reader->hooks, sizeof *hook->tool);
  if (!hook->tool) return tp__reader_no_memory(reader);
  tp_tool *tool = &hook->tool->tool;
  hook->phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION;
  hook->row = tp_phase_get(reader->hooks->runtime, hook->phase);
  TP__TRY(copy_row(reader, hook));
  hook->event = hook->row->name;
  hook->summary = hook->match = hook->match_summary = "";
  hook->is_enabled = hook->is_blocking = true;
  hook->failure = TP_FAILURE_FALLBACK; /* the same bundle again: the handler can only fail for lack of memory */
  hook->limit_ms = TP__TOOL_LIMIT_MS;
  tool->max_concurrent = TP__TOOL_CONCURRENT;
  TP__TRY(tp__reader_get_keys(reader, 0, TP__MAP_TOOL, TP__OWNER_tp__hook, hook));
  TP__TRY(tp__reader_get_keys(reader, 0, TP__MAP_TOOL, TP__OWNER_tp_tool, tool));
  if (!tool->description || !tool->description[0])
    return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "description"),
                  "a tool needs a description: a model decides by it");
  TP__TRY(read_schema(reader, &tool->schema));
  TP__TRY(read_tool_keys(reader, hook->tool, "reads", TP_TOOL_READ));
  TP__TRY(read_tool_keys(reader, hook->tool, "writes", TP_TOOL_WRITE));
  TP__TRY(tp__hook_read_variables(reader, hook));
  TP__TRY(tp__hook_read_command(reader, hook, 0));
  TP__TRY(tp__hook_read_sandbox(reader, hook, 0));
  tp__hook_tool_finish(hook);
  return TP_OK;
}

/* ---- the lists of a profile ---- */

static tp_status read_permissions(tp__hook_reader *reader, tp__hook *hook) {
  TP__TRY(tp__reader_expect_map(reader, 0, "a file of permissions", TP__MAP_PERMISSIONS));
  TP__TRY(read_id(reader, hook, "id", "a file of permissions needs an id"));
  hook->kind = TP__HOOK_PERMISSIONS;
  hook->kind_name = hook->event = "permissions";
  hook->permissions = tp__hooks_alloc(reader->hooks, sizeof *hook->permissions);
  if (!hook->permissions) return tp__reader_no_memory(reader);
  tp__permissions *lists = hook->permissions;
  hook->phase = TP_PHASE_TOOL_PRE;
  hook->row = tp_phase_get(reader->hooks->runtime, hook->phase);
  TP__TRY(copy_row(reader, hook));
  hook->event = hook->row->name;
  hook->summary = hook->question = "";
  hook->is_enabled = hook->is_blocking = true;
  hook->priority = PERMISSIONS_PRIORITY;
  lists->otherwise = "auto";
  TP__TRY(tp__reader_get_keys(reader, 0, TP__MAP_PERMISSIONS, TP__OWNER_tp__hook, hook));
  TP__TRY(tp__reader_get_keys(reader, 0, TP__MAP_PERMISSIONS, TP__OWNER_tp__permissions, lists));
  TP__TRY(tp__hook_describe_match(reader, hook, 0, "agent mode environment"));
  if (tp__is_one_of(tp_text_of(lists->otherwise), "never ask auto")) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "otherwise"),
                "otherwise is never, ask or auto, not \"%s\"", lists->otherwise);
}

static tp_status read_any(tp__hook_reader *reader, tp__hook *hook) {
  uint32_t index = reader->yaml.items[0].kind == TP_VALUE_MAP ? tp__yaml_get(&reader->yaml, 0, "kind") : 0;
  const char *kind = NULL;
  if (index == 0) return read_hook(reader, hook);
  TP__TRY(tp__reader_take_text(reader, index, "kind", &kind));
  if (strcmp(kind, "tool") == 0) return read_tool(reader, hook);
  if (strcmp(kind, "permissions") == 0) return read_permissions(reader, hook);
  return REFUSE(
      reader, TP_ERR_MALFORMED, index,
      "kind is tool, permissions or redact, or left out in the file of a hook (its handler has a kind), not \"%s\"",
      kind);
}

/* Patterns of secrets are no hook; the runtime must have got them before. */
static tp_status check_patterns(const tp__hook_reader *reader, tp_text text) {
  tp_redactor *redactor;
  TP__TRY(tp_redactor_new(&redactor, reader->fault));
  tp_status status = tp__redact_add(redactor, &reader->yaml, reader->file, text, reader->fault);
  tp_redactor_free(redactor);
  return status;
}

tp_status tp__hook_read(tp_hooks *hooks, const char *file, tp_text text, tp__hook **ret_hook, tp_fault *fault) {
  tp__hook_reader reader = {.hooks = hooks, .file = file, .fault = fault};
  tp__hook *hook = tp__hooks_alloc(hooks, sizeof *hook);
  if (!hook) return tp__reader_no_memory(&reader);
  tp_status status = tp__yaml_read(text, file, &tp__malloc_allocator, &reader.yaml, fault);
  if (status != TP_OK) return status;
  hook->hooks = hooks;
  hook->file = file;
  memcpy(hook->environment, hooks->environment, sizeof hooks->environment);
  if (tp__redact_is(&reader.yaml)) {
    status = check_patterns(&reader, text);
    hook = NULL;
  } else {
    status = read_any(&reader, hook);
  }
  tp__yaml_fini(&reader.yaml);
  if (status == TP_OK) *ret_hook = hook;
  return status;
}
