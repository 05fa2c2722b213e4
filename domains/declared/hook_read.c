/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_read.c: one hook from its YAML file. Every key is looked at once, with its place at hand; what is not known is
 * refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "domains/declared/hook_model.h"
#include "domains/declared/hook_protocol.h"
#include "domains/declared/hook_read.h"
#include "domains/declared/hook_tool.h"
#include "domains/declared/redact.h"
#include "domains/declared/trust.h"
#include "domains/declared/webhook.h"
#include "domains/declared/yaml.h"

#define KEYS                                                                                                        \
  "id, event_type, event, enabled, blocking, summary, priority, after, before, requires, match, handler, failure, " \
  "verdict, effects, protocol, tools, plugin_root, rewrite, max_concurrent, sequential, env, pass_env, keep_stderr"
#define TOOL_KEYS                                                                                          \
  "kind, name, enabled, summary, description, schema, command, timeout_ms, result_bytes_max, idempotent, " \
  "max_concurrent, reads, writes, operation, sandbox, env, pass_env"
#define MATCH_KEYS \
  "ability_scope, min_duration_ms, only_if_changed_paths, agent, mode, environment, arguments, matcher, if"
#define HANDLER_KEYS "kind, command, path, timeout_ms, frames, sandbox, question, reason, url, headers, prompt, model"
#define PERMISSION_KEYS "kind, id, enabled, summary, agent, mode, environment, never, ask, auto, otherwise"
#define CONDITION_KEYS "glob, not, runs, min, max, exists"

/* Before the hooks that give no number. */
enum { PERMISSIONS_PRIORITY = -1000000 };

struct reader {
  tp_hooks *hooks;
  tp__yaml yaml;
  const char *file;
  tp_fault *fault;
};

static tp_status no_memory(struct reader *reader) {
  return tp__refuse(reader->fault, TP_ERR_NO_MEMORY, reader->file, "no memory for a hook");
}

#define REFUSE(reader, code, index, ...) \
  tp__refuse_at((reader)->fault, (code), (reader)->file, (reader)->yaml.items[index].place, __VA_ARGS__)

/* ---- fields ---- */

static tp_status expect(struct reader *reader, uint32_t index, const char *key, tp_value_kind kind, const char *what) {
  if (reader->yaml.items[index].kind == kind) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, index, "%s must be %s", key, what);
}

static tp_status expect_map(struct reader *reader, uint32_t index, const char *what, const char *known) {
  TP__TRY(expect(reader, index, what, TP_VALUE_MAP, "a map"));
  return tp__yaml_check_map(&reader->yaml, index, what, known, reader->file, reader->fault);
}

static tp_status take_text(struct reader *reader, uint32_t index, const char *key, const char **ret_text) {
  TP__TRY(expect(reader, index, key, TP_VALUE_TEXT, "text: put it into quotes"));
  tp_text text = tp__yaml_text(&reader->yaml, index);
  if (memchr(text.data, '\0', text.size)) return REFUSE(reader, TP_ERR_MALFORMED, index, "%s has a NUL in it", key);
  *ret_text = tp__hooks_copy(reader->hooks, text);
  return *ret_text ? TP_OK : no_memory(reader);
}

static tp_status read_text(struct reader *reader, uint32_t map, const char *key, const char **ret_text) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  return index == 0 ? TP_OK : take_text(reader, index, key, ret_text);
}

static tp_status read_bool(struct reader *reader, uint32_t map, const char *key, bool *ret_bool) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  if (index == 0) return TP_OK;
  TP__TRY(expect(reader, index, key, TP_VALUE_BOOL, "true or false"));
  *ret_bool = reader->yaml.items[index].as.boolean;
  return TP_OK;
}

static tp_status read_number(struct reader *reader, uint32_t map, const char *key, int64_t least, int64_t most,
                             int64_t *ret_number) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  if (index == 0) return TP_OK;
  TP__TRY(expect(reader, index, key, TP_VALUE_INT, "an integer"));
  *ret_number = reader->yaml.items[index].as.integer;
  if (*ret_number >= least && *ret_number <= most) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, index, "%s must be from %lld to %lld", key, (long long)least,
                (long long)most);
}

/* A text, or a list of them. */
static tp_status read_texts(struct reader *reader, uint32_t map, const char *key, const char **items, size_t max,
                            size_t *ret_count, uint32_t *ret_index) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  *ret_index = index;
  if (index == 0) return TP_OK;
  const tp__yaml_item *item = &reader->yaml.items[index];
  if (item->kind == TP_VALUE_TEXT) {
    *ret_count = 1;
    return take_text(reader, index, key, &items[0]);
  }
  TP__TRY(expect(reader, index, key, TP_VALUE_ARRAY, "text or a list of texts"));
  if (item->count > max) return REFUSE(reader, TP_ERR_TOO_LARGE, index, "%s has more than %zu items", key, max);
  for (uint32_t at = index + 1; at < reader->yaml.items[index].end; at = reader->yaml.items[at].end) {
    TP__TRY(take_text(reader, at, key, &items[*ret_count]));
    (*ret_count)++;
  }
  return TP_OK;
}

/* ---- the phase ---- */

/* One program for both: where it may replace something it also decides and reminds. */
static tp_status find_rewritten(struct reader *reader, tp__hook *hook) {
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
static tp_status copy_row(struct reader *reader, tp__hook *hook) {
  hook->own_row = *hook->row;
  hook->own_row.name = tp__hooks_copy(reader->hooks, tp_text_of(hook->row->name));
  hook->row = &hook->own_row;
  return hook->row->name ? TP_OK : no_memory(reader);
}

static tp_status read_event(struct reader *reader, tp__hook *hook) {
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "event_type"), other = tp__yaml_get(&reader->yaml, 0, "event");
  if (index != 0 && other != 0)
    return REFUSE(reader, TP_ERR_MALFORMED, other, "event and event_type are one: keep one");
  if (index == 0) index = other;
  if (index == 0) return REFUSE(reader, TP_ERR_MALFORMED, 0, "a hook needs event_type: the name of a phase or event");
  TP__TRY(take_text(reader, index, "event_type", &hook->event));
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

static bool carries(const tp_phase *row, uint32_t field) {
  for (size_t i = 0; i < row->field_count; i++) {
    if (row->fields[i] == field) return true;
  }
  return false;
}

/* ---- match ---- */

static tp_status read_patterns(struct reader *reader, uint32_t map, const char *key, tp__patterns *patterns,
                               uint32_t *ret_index) {
  TP__TRY(read_texts(reader, map, key, patterns->items, TP__HOOK_PATTERNS_MAX, &patterns->count, ret_index));
  for (size_t i = 0; i < patterns->count; i++) {
    if (strlen(patterns->items[i]) > TP_PATTERN_BYTES_MAX)
      return REFUSE(reader, TP_ERR_TOO_LARGE, *ret_index, "a pattern of %s is longer than %d bytes", key,
                    TP_PATTERN_BYTES_MAX);
  }
  return TP_OK;
}

/* ---- match: what a call is called with ---- */

/* A number or a truth value stands for the text that it is compared by. */
static tp_status add_pattern(struct reader *reader, uint32_t index, const char *key, tp__condition_patterns *patterns) {
  const tp__yaml_item *item = &reader->yaml.items[index];
  char text[40] = "";
  const char *pattern = text;
  if (item->kind == TP_VALUE_INT) snprintf(text, sizeof text, "%lld", (long long)item->as.integer);
  else if (item->kind == TP_VALUE_BOOL) snprintf(text, sizeof text, "%s", item->as.boolean ? "true" : "false");
  else if (item->kind == TP_VALUE_DOUBLE) snprintf(text, sizeof text, "%.15g", item->as.real);
  else TP__TRY(take_text(reader, index, key, &pattern));
  if (patterns->count == TP__CONDITION_PATTERNS_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "%s has more than %d patterns", key, TP__CONDITION_PATTERNS_MAX);
  if (strlen(pattern) > TP_PATTERN_BYTES_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "a pattern of %s is longer than %d bytes", key,
                  TP_PATTERN_BYTES_MAX);
  patterns->items[patterns->count] = tp__hooks_copy(reader->hooks, tp_text_of(pattern));
  return patterns->items[patterns->count++] ? TP_OK : no_memory(reader);
}

static tp_status add_patterns(struct reader *reader, uint32_t index, const char *key,
                              tp__condition_patterns *patterns) {
  if (reader->yaml.items[index].kind != TP_VALUE_ARRAY) return add_pattern(reader, index, key, patterns);
  if (reader->yaml.items[index].count == 0)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "%s has no pattern: nothing would fit", key);
  for (uint32_t at = index + 1; at < reader->yaml.items[index].end; at = reader->yaml.items[at].end)
    TP__TRY(add_pattern(reader, at, key, patterns));
  return TP_OK;
}

static tp_status read_bound(struct reader *reader, uint32_t map, const char *key, bool *ret_has, double *ret_bound) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  if (index == 0) return TP_OK;
  const tp__yaml_item *item = &reader->yaml.items[index];
  if (item->kind != TP_VALUE_INT && item->kind != TP_VALUE_DOUBLE)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "%s must be a number", key);
  *ret_has = true;
  *ret_bound = item->kind == TP_VALUE_INT ? (double)item->as.integer : item->as.real;
  return TP_OK;
}

static tp_status read_condition_map(struct reader *reader, uint32_t map, tp__condition *condition) {
  static const char *const keys[] = {"glob", "not", "runs"};
  tp__condition_patterns *const lists[] = {&condition->globs, &condition->nots, &condition->runs};
  bool exists = true;
  TP__TRY(expect_map(reader, map, "a condition", CONDITION_KEYS));
  if (reader->yaml.items[map].count == 0)
    return REFUSE(reader, TP_ERR_MALFORMED, map, "a condition has one of: %s", CONDITION_KEYS);
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    uint32_t index = tp__yaml_get(&reader->yaml, map, keys[i]);
    if (index != 0) TP__TRY(add_patterns(reader, index, keys[i], lists[i]));
  }
  TP__TRY(read_bound(reader, map, "min", &condition->has_min, &condition->min));
  TP__TRY(read_bound(reader, map, "max", &condition->has_max, &condition->max));
  if (condition->has_min && condition->has_max && condition->min > condition->max)
    return REFUSE(reader, TP_ERR_MALFORMED, map, "min is above max: no number would fit");
  TP__TRY(read_bool(reader, map, "exists", &exists));
  condition->is_absent = !exists;
  if (exists || reader->yaml.items[map].count == 1) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, map, "exists: false stands by itself: what is not there has no value");
}

/* The hook's conditions, made at the first call; NULL without memory. */
static tp__conditions *conditions_of(struct reader *reader, tp__hook *hook) {
  if (hook->conditions) return (tp__conditions *)(uintptr_t)hook->conditions; /* while it is read */
  tp__conditions *made = tp__hooks_alloc(reader->hooks, sizeof *made);
  if (made) made->root = reader->hooks->root;
  hook->conditions = made;
  return made;
}

static tp_status add_condition(struct reader *reader, tp__hook *hook, uint32_t index, const char *path,
                               tp__condition **ret_condition) {
  tp__conditions *conditions = conditions_of(reader, hook);
  if (!conditions) return no_memory(reader);
  if (conditions->count == TP__CONDITIONS_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "more than %d arguments", TP__CONDITIONS_MAX);
  *ret_condition = &conditions->items[conditions->count++];
  const char *wrong = tp__condition_set_path(*ret_condition, path);
  return wrong ? REFUSE(reader, TP_ERR_MALFORMED, index, "%s", wrong) : TP_OK;
}

static tp_status read_arguments(struct reader *reader, tp__hook *hook, uint32_t match) {
  uint32_t map = tp__yaml_get(&reader->yaml, match, "arguments");
  if (map == 0) return TP_OK;
  TP__TRY(expect(reader, map, "arguments", TP_VALUE_MAP, "a map from paths of arguments to what holds of them"));
  for (uint32_t key = map + 1; key < reader->yaml.items[map].end; key = reader->yaml.items[key + 1].end) {
    const char *path;
    tp__condition *condition = NULL;
    TP__TRY(take_text(reader, key, "the path of an argument", &path));
    TP__TRY(add_condition(reader, hook, key, path, &condition));
    if (reader->yaml.items[key + 1].kind == TP_VALUE_MAP) TP__TRY(read_condition_map(reader, key + 1, condition));
    else TP__TRY(add_patterns(reader, key + 1, path, &condition->globs));
  }
  return TP_OK;
}

/* ---- match: the rule of another host, such as Bash(git push*) ---- */

static tp_status keep_pattern(struct reader *reader, uint32_t index, tp__condition_patterns *patterns,
                              const char *pattern) {
  if (strlen(pattern) > TP_PATTERN_BYTES_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "the pattern of if is longer than %d bytes", TP_PATTERN_BYTES_MAX);
  patterns->items[patterns->count] = tp__hooks_copy(reader->hooks, tp_text_of(pattern));
  return patterns->items[patterns->count++] ? TP_OK : no_memory(reader);
}

/* `git push:*` is the command with any arguments. */
static tp_status keep_command(struct reader *reader, uint32_t index, tp__condition *condition, const char *pattern) {
  char text[TP_PATTERN_BYTES_MAX + 3];
  size_t size = strlen(pattern);
  bool is_prefix = size > 2 && strcmp(pattern + size - 2, ":*") == 0;
  snprintf(text, sizeof text, is_prefix ? "%.*s *" : "%.*s", (int)(is_prefix ? size - 2 : size), pattern);
  return keep_pattern(reader, index, &condition->runs, text);
}

/* //etc is absolute, ~/x of the home, /x and ./x of the project; a name without a slash is at any depth. */
static tp_status keep_path(struct reader *reader, uint32_t index, tp__condition *condition, const char *pattern) {
  char text[4096];
  const char *home = getenv("HOME");
  if (strncmp(pattern, "//", 2) == 0) snprintf(text, sizeof text, "%s", pattern + 1);
  else if (strncmp(pattern, "~/", 2) == 0 && home) snprintf(text, sizeof text, "%s%s", home, pattern + 1);
  else if (pattern[0] == '/') snprintf(text, sizeof text, "%s", pattern + 1);
  else if (strncmp(pattern, "./", 2) == 0) snprintf(text, sizeof text, "%s", pattern + 2);
  else snprintf(text, sizeof text, "%s%s", strchr(pattern, '/') ? "" : "**/", pattern);
  return keep_pattern(reader, index, &condition->globs, text);
}

static tp_status read_if(struct reader *reader, tp__hook *hook, uint32_t match) {
  static const struct {
    const char *rule, *tools, *argument;
    bool is_command;
  } rows[] = {{"Bash", "Bash", "command", true},
              {"Edit", "Edit Write MultiEdit NotebookEdit", "file_path", false},
              {"Write", "Write", "file_path", false},
              {"Read", "Read", "file_path", false}};
  uint32_t index = tp__yaml_get(&reader->yaml, match, "if");
  const char *rule = NULL;
  TP__TRY(read_text(reader, match, "if", &rule));
  if (!rule) return TP_OK;
  if (hook->protocol != TP__PROTOCOL_CLAUDE_CODE)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "if belongs to the protocol claude-code: use arguments");
  size_t name = strcspn(rule, "("), size = strlen(rule);
  hook->rule_tools = tp__hooks_copy(reader->hooks, (tp_text){rule, name});
  if (!hook->rule_tools) return no_memory(reader);
  if (name == size) return TP_OK; /* every call of the tool */
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp__condition *condition = NULL;
    if (strlen(rows[i].rule) != name || memcmp(rows[i].rule, rule, name) != 0 || rule[size - 1] != ')') continue;
    const char *pattern = tp__hooks_copy(reader->hooks, (tp_text){rule + name + 1, size - name - 2});
    if (!pattern) return no_memory(reader);
    hook->rule_tools = rows[i].tools;
    TP__TRY(add_condition(reader, hook, index, rows[i].argument, &condition));
    return rows[i].is_command ? keep_command(reader, index, condition, pattern)
                              : keep_path(reader, index, condition, pattern);
  }
  return REFUSE(reader, TP_ERR_MALFORMED, index,
                "if: %s has no place: Bash(words), Edit(path), Write(path), Read(path), or the name of a tool", rule);
}

static tp_status no_such_key(struct reader *reader, const tp__hook *hook, uint32_t index, const char *key) {
  return REFUSE(reader, TP_ERR_MATCH_KEY, index, "%s cannot be asked of %s: its payload does not say", key,
                hook->row->name);
}

/* A match as text: in words of the file ("ability_scope: a, b"), and as a listing has it ("ability=a,b"). */
enum { MATCH_LONG, MATCH_SHORT, MATCH_TEXTS };

static void put_flow(const struct reader *reader, uint32_t index, const char *comma, bool is_inner, tp__bytes *text) {
  const tp__yaml_item *item = &reader->yaml.items[index];
  bool is_map = item->kind == TP_VALUE_MAP;
  switch (item->kind) {
    case TP_VALUE_MAP:
    case TP_VALUE_ARRAY:
      if (is_map || is_inner) tp__bytes_put_string(text, is_map ? "{" : "[");
      for (uint32_t at = index + 1; at < item->end; at = reader->yaml.items[at].end) {
        if (at > index + 1) tp__bytes_put_string(text, is_map || is_inner ? ", " : comma);
        put_flow(reader, at, comma, true, text);
        if (!is_map) continue;
        tp__bytes_put_string(text, ": ");
        put_flow(reader, ++at, comma, true, text);
      }
      if (is_map || is_inner) tp__bytes_put_string(text, is_map ? "}" : "]");
      break;
    case TP_VALUE_TEXT:
      tp__bytes_put_text(text, tp__yaml_text(&reader->yaml, index));
      break;
    case TP_VALUE_INT:
      tp__bytes_printf(text, "%lld", (long long)item->as.integer);
      break;
    case TP_VALUE_DOUBLE:
      tp__bytes_printf(text, "%g", item->as.real);
      break;
    case TP_VALUE_BOOL:
      tp__bytes_put_string(text, item->as.boolean ? "true" : "false");
      break;
    default:
      tp__bytes_put_string(text, "null");
  }
}

static void put_key(tp_text key, int style, tp__bytes *text) {
  if (text->size > 0) tp__bytes_put_string(text, "; ");
  if (style == MATCH_SHORT && tp__is_word(key, "ability_scope")) key = tp_text_of("ability");
  if (style == MATCH_SHORT && tp__is_word(key, "only_if_changed_paths")) key = tp_text_of("paths");
  tp__bytes_put_text(text, key);
  tp__bytes_put_string(text, style == MATCH_SHORT ? "=" : ": ");
}

static tp_status keep_description(struct reader *reader, const char **ret_kept, tp__bytes *text) {
  *ret_kept = text->failed ? NULL : tp__hooks_copy(reader->hooks, tp__bytes_text(text));
  tp__bytes_fini(text);
  return *ret_kept ? TP_OK : no_memory(reader);
}

/* @param keys  those that count, separated by blanks; NULL: all. */
static tp_status describe_match(struct reader *reader, tp__hook *hook, uint32_t map, const char *keys) {
  const char **const kept[MATCH_TEXTS] = {&hook->match, &hook->match_summary};
  for (int style = 0; style < MATCH_TEXTS; style++) {
    tp__bytes text = {0};
    for (uint32_t key = map + 1; key < reader->yaml.items[map].end; key = reader->yaml.items[key + 1].end) {
      tp_text name = tp__yaml_text(&reader->yaml, key);
      if (keys && !tp__is_one_of(name, keys)) continue;
      put_key(name, style, &text);
      put_flow(reader, key + 1, style == MATCH_SHORT ? "," : ", ", false, &text);
    }
    TP__TRY(keep_description(reader, kept[style], &text));
  }
  return TP_OK;
}

static tp_status read_matcher(struct reader *reader, tp__hook *hook, uint32_t map) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, "matcher");
  const char *text = NULL, *why = "";
  TP__TRY(read_text(reader, map, "matcher", &text));
  if (!text) return TP_OK;
  if (!hook->protocol)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "matcher belongs to a protocol: name it, or use ability_scope");
  if (!(hook->protocol_event->is & TP__EVENT_HAS_MATCHER))
    return REFUSE(reader, TP_ERR_MATCH_KEY, index, "%s has no matcher: leave it out", hook->event);
  struct tp__hook_matcher *one = tp__hooks_alloc(reader->hooks, sizeof *one);
  if (!one) return no_memory(reader);
  if (!tp__matcher_init(&one->matcher, text, &why))
    return REFUSE(reader, TP_ERR_MALFORMED, index, "the matcher cannot be used: %s", why);
  one->next = reader->hooks->matchers;
  reader->hooks->matchers = one;
  hook->matcher = &one->matcher;
  return TP_OK;
}

/* Of the events after a call one has the calls that succeeded, the other those that failed; of some events only turns
 * of subagents have them, or only others. NULL: neither. */
static const char *kind_of_event(const tp__hook *hook) {
  const tp__protocol_event *event = hook->protocol_event;
  bool is_behind = hook->phase == TP_PHASE_TOOL_POST || hook->phase == TP_PHASE_TOOL_RESULT;
  if (!hook->protocol) return NULL;
  if (is_behind && hook->protocol == TP__PROTOCOL_CLAUDE_CODE)
    return event->id == TP__EVENT_POST_TOOL_FAILURE ? "the call failed" : "the call succeeded";
  if (event->of == TP__EVENT_OF_ANY) return NULL;
  return event->of == TP__EVENT_OF_SUBAGENT ? "the turn is nested" : "the turn is not nested";
}

static tp_status describe_event(struct reader *reader, tp__hook *hook) {
  const char **const kept[MATCH_TEXTS] = {&hook->match, &hook->match_summary};
  const char *kind = kind_of_event(hook);
  for (int style = 0; kind && style < MATCH_TEXTS; style++) {
    tp__bytes text = {0};
    tp__bytes_printf(&text, "%s%s%s", *kept[style], (*kept[style])[0] ? "; " : "", kind);
    TP__TRY(keep_description(reader, kept[style], &text));
  }
  return TP_OK;
}

static tp_status read_match(struct reader *reader, tp__hook *hook) {
  hook->match = hook->match_summary = "";
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "match"), index;
  if (map == 0) return describe_event(reader, hook);
  TP__TRY(expect_map(reader, map, "match", MATCH_KEYS));
  TP__TRY(read_patterns(reader, map, "ability_scope", &hook->scopes, &index));
  if (index != 0 && !carries(hook->row, TP_FIELD_TOOL) && !carries(hook->row, TP_FIELD_ABILITY_REF))
    return no_such_key(reader, hook, index, "ability_scope");
  TP__TRY(read_patterns(reader, map, "only_if_changed_paths", &hook->changed_paths, &index));
  if (index != 0 && !carries(hook->row, TP_FIELD_CHANGED_FILES))
    return no_such_key(reader, hook, index, "only_if_changed_paths");
  TP__TRY(read_patterns(reader, map, "agent", &hook->agents, &index));
  TP__TRY(read_patterns(reader, map, "mode", &hook->modes, &index));
  TP__TRY(read_number(reader, map, "min_duration_ms", 0, INT64_MAX, &hook->duration_ms_min));
  index = tp__yaml_get(&reader->yaml, map, "min_duration_ms");
  if (index != 0 && !carries(hook->row, TP_FIELD_DURATION_MS))
    return no_such_key(reader, hook, index, "min_duration_ms");
  TP__TRY(read_patterns(reader, map, "environment", &hook->environments, &index));
  TP__TRY(read_arguments(reader, hook, map));
  TP__TRY(read_if(reader, hook, map));
  if ((hook->conditions || hook->rule_tools) && !carries(hook->row, TP_FIELD_ARGUMENTS))
    return no_such_key(reader, hook, map, hook->rule_tools ? "if" : "arguments");
  TP__TRY(read_matcher(reader, hook, map));
  if (reader->yaml.items[map].count > 0) TP__TRY(describe_match(reader, hook, map, NULL));
  return describe_event(reader, hook);
}

/* ---- a protocol of another host ---- */

static tp_status read_protocol(struct reader *reader, tp__hook *hook) {
  const char *name = NULL;
  TP__TRY(read_text(reader, 0, "protocol", &name));
  if (!name) {
    static const char *const needs[] = {"tools", "plugin_root", "rewrite"};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
      uint32_t index = tp__yaml_get(&reader->yaml, 0, needs[i]);
      if (index != 0) return REFUSE(reader, TP_ERR_MALFORMED, index, "%s belongs to a protocol: name it", needs[i]);
    }
    return TP_OK;
  }
  hook->protocol = tp__protocol_find(name);
  TP__TRY(read_bool(reader, 0, "rewrite", &hook->rewrites));
  if (hook->protocol) return read_text(reader, 0, "plugin_root", &hook->plugin_root);
  return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "protocol"),
                "there is no protocol \"%s\": claude-code, gemini", name);
}

/* {ours: theirs, …}, of names of arguments. */
static tp_status read_argument_names(struct reader *reader, uint32_t map, tp__tool_name *name) {
  uint32_t arguments = tp__yaml_get(&reader->yaml, map, "arguments");
  if (arguments == 0) return TP_OK;
  TP__TRY(expect(reader, arguments, "arguments", TP_VALUE_MAP, "a map of argument names"));
  if (reader->yaml.items[arguments].count > TP__ARGUMENT_NAMES_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, arguments, "more than %d arguments", TP__ARGUMENT_NAMES_MAX);
  for (uint32_t key = arguments + 1; key < reader->yaml.items[arguments].end; key = reader->yaml.items[key + 1].end) {
    assert(name->argument_count < sizeof name->arguments / sizeof *name->arguments);
    const char **pair = name->arguments[name->argument_count++];
    TP__TRY(take_text(reader, key, "the name of an argument", &pair[0]));
    TP__TRY(take_text(reader, key + 1, "the name of an argument", &pair[1]));
  }
  return TP_OK;
}

static tp_status read_tool_name(struct reader *reader, uint32_t key, tp__tool_name *name) {
  uint32_t value = key + 1;
  TP__TRY(take_text(reader, key, "the name of a tool", &name->ours));
  if (reader->yaml.items[value].kind == TP_VALUE_TEXT) return take_text(reader, value, name->ours, &name->theirs);
  TP__TRY(expect_map(reader, value, name->ours, "name, arguments"));
  TP__TRY(read_text(reader, value, "name", &name->theirs));
  if (!name->theirs) name->theirs = name->ours;
  return read_argument_names(reader, value, name);
}

static tp_status read_tool_names(struct reader *reader, tp__hook *hook) {
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "tools");
  if (map == 0) return TP_OK;
  TP__TRY(expect(reader, map, "tools", TP_VALUE_MAP, "a map from the names of your tools to theirs"));
  uint32_t count = reader->yaml.items[map].count;
  if (count > TP__TOOL_NAMES_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, map, "more than %d tools", TP__TOOL_NAMES_MAX);
  hook->tool_names = tp__hooks_alloc(reader->hooks, (count + 1) * sizeof *hook->tool_names);
  if (!hook->tool_names) return no_memory(reader);
  for (uint32_t key = map + 1; key < reader->yaml.items[map].end; key = reader->yaml.items[key + 1].end)
    TP__TRY(read_tool_name(reader, key, &hook->tool_names[hook->tool_name_count++]));
  return TP_OK;
}

/* What these hosts set, behind what every program gets. */
static tp_status make_environment(struct reader *reader, tp__hook *hook) {
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
    if (!hook->environment[count++]) return no_memory(reader);
  }
  return TP_OK;
}

/* ---- variables of its programs ---- */

static const char variable_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

static bool is_variable(const char *name) {
  return name[0] && !strchr("0123456789", name[0]) && name[strspn(name, variable_letters)] == '\0';
}

/* Their values name code, which no trust would be about. */
static bool names_code(const char *name) {
  static const char names[] =
      "PATH ENV BASH_ENV SHELLOPTS PS4 ZDOTDIR PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONPYCACHEPREFIX NODE_OPTIONS "
      "NODE_PATH PERL5LIB PERL5OPT PERL5DB RUBYLIB RUBYOPT GEM_PATH GEM_HOME BUNDLE_GEMFILE LUA_PATH LUA_CPATH PHPRC "
      "PHP_INI_SCAN_DIR JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH AWKPATH AWKLIBPATH MAKEFLAGS "
      "MAKEFILES TCLLIBPATH GUILE_LOAD_PATH JULIA_LOAD_PATH R_PROFILE R_PROFILE_USER R_LIBS GCONV_PATH OPENSSL_CONF "
      "DOTNET_STARTUP_HOOKS NPM_CONFIG_SCRIPT_SHELL npm_config_script_shell GIT_SSH GIT_SSH_COMMAND GIT_EXEC_PATH "
      "GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_ASKPASS";
  static const char *const prefixes[] = {"LD_", "BASH_FUNC_", "LUA_INIT", "GIT_CONFIG", "CORECLR_"};
  bool is_one = tp__is_one_of(tp_text_of(name), names);
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
    is_one = is_one || strncmp(name, prefixes[i], strlen(prefixes[i])) == 0;
  return is_one;
}

static tp_status check_variable(struct reader *reader, uint32_t index, const char *key, const char *name) {
  if (!is_variable(name))
    return REFUSE(reader, TP_ERR_MALFORMED, index, "%s: \"%s\" is no name of a variable: letters, digits and _", key,
                  name);
  if (!names_code(name)) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, index,
                "%s: %s names code, which a trust would not be about: set it in the command, such as [sh, -c, \"…\"]",
                key, name);
}

/* In place of one of this name, or at the end. */
static tp_status set_variable(struct reader *reader, tp__hook *hook, uint32_t index, const char *name,
                              const char *value) {
  size_t at = 0, size = strlen(name);
  for (; hook->environment[at]; at++)
    if (strncmp(hook->environment[at], name, size) == 0 && hook->environment[at][size] == '=') break;
  if (at == TP__HOOK_ENVIRONMENT_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "more than %d variables", TP__HOOK_VARIABLES_MAX);
  hook->environment[at] = tp__hooks_pair(reader->hooks, name, value);
  return hook->environment[at] ? TP_OK : no_memory(reader);
}

static tp_status take_scalar(struct reader *reader, uint32_t index, const char *key, const char **ret_text) {
  const tp__yaml_item *item = &reader->yaml.items[index];
  char text[40];
  if (item->kind == TP_VALUE_INT) snprintf(text, sizeof text, "%lld", (long long)item->as.integer);
  else if (item->kind == TP_VALUE_BOOL) snprintf(text, sizeof text, "%s", item->as.boolean ? "true" : "false");
  else return take_text(reader, index, key, ret_text);
  *ret_text = tp__hooks_copy(reader->hooks, tp_text_of(text));
  return *ret_text ? TP_OK : no_memory(reader);
}

static tp_status read_env(struct reader *reader, tp__hook *hook) {
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "env");
  if (map == 0) return TP_OK;
  TP__TRY(expect(reader, map, "env", TP_VALUE_MAP, "a map from names of variables to their values"));
  if (reader->yaml.items[map].count > TP__HOOK_VARIABLES_MAX / 2)
    return REFUSE(reader, TP_ERR_TOO_LARGE, map, "env has more than %d variables", TP__HOOK_VARIABLES_MAX / 2);
  for (uint32_t key = map + 1; key < reader->yaml.items[map].end; key = reader->yaml.items[key + 1].end) {
    const char *name, *value;
    TP__TRY(take_text(reader, key, "the name of a variable", &name));
    TP__TRY(check_variable(reader, key, "env", name));
    TP__TRY(take_scalar(reader, key + 1, name, &value));
    TP__TRY(set_variable(reader, hook, key, name, value));
  }
  return TP_OK;
}

static tp_status pass_variable(struct reader *reader, tp__hook *hook, uint32_t index, const char *name) {
  const char *value = getenv(name);
  return value ? set_variable(reader, hook, index, name, value) : TP_OK;
}

/* TEAM_* are all variables of the host whose names begin so, but for those that name code. */
static tp_status pass_prefix(struct reader *reader, tp__hook *hook, uint32_t index, const char *prefix, size_t size) {
  for (char **each = environ; *each; each++) {
    size_t length = strcspn(*each, "=");
    const char *name = tp__hooks_copy(reader->hooks, (tp_text){*each, length});
    if (!name) return no_memory(reader);
    if (length < size || strncmp(name, prefix, size) != 0 || !is_variable(name) || names_code(name)) continue;
    TP__TRY(pass_variable(reader, hook, index, name));
  }
  return TP_OK;
}

/* Of the host's environment, as it is when the file is read. */
static tp_status read_pass_env(struct reader *reader, tp__hook *hook) {
  const char *names[TP__HOOK_VARIABLES_MAX / 2];
  size_t count = 0;
  uint32_t index;
  TP__TRY(read_texts(reader, 0, "pass_env", names, TP__HOOK_VARIABLES_MAX / 2, &count, &index));
  for (size_t i = 0; i < count; i++) {
    size_t size = strlen(names[i]);
    bool is_prefix = size > 0 && names[i][size - 1] == '*';
    const char *name = is_prefix ? tp__hooks_copy(reader->hooks, (tp_text){names[i], size - 1}) : names[i];
    if (!name) return no_memory(reader);
    if (is_prefix && size == 1)
      return REFUSE(reader, TP_ERR_MALFORMED, index,
                    "pass_env: \"*\" would pass all of the host's environment: name "
                    "the variables, or begin with what they begin with: TEAM_*");
    TP__TRY(check_variable(reader, index, "pass_env", name));
    TP__TRY(is_prefix ? pass_prefix(reader, hook, index, name, size - 1) : pass_variable(reader, hook, index, name));
  }
  return TP_OK;
}

/* What the file sets counts before what it passes. */
static tp_status read_variables(struct reader *reader, tp__hook *hook) {
  TP__TRY(read_pass_env(reader, hook));
  return read_env(reader, hook);
}

/* Of a kind that starts none of its own. */
static tp_status check_has_program(struct reader *reader, const tp__hook *hook) {
  static const struct {
    const char *key, *what;
  } keys[] = {
      {"env", "could read env"}, {"pass_env", "could read pass_env"}, {"keep_stderr", "has a standard error to keep"}};
  if (hook->kind == TP__HOOK_SCRIPT || hook->kind == TP__HOOK_WORKER) return TP_OK;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    uint32_t index = tp__yaml_get(&reader->yaml, 0, keys[i].key);
    if (index != 0)
      return REFUSE(reader, TP_ERR_MALFORMED, index, "a handler of kind %s starts no program that %s", hook->kind_name,
                    keys[i].what);
  }
  return TP_OK;
}

/* "$NAME/…" and "${NAME}/…", with the values that a program will find. @return the size of the variable; 0: none. */
static size_t variable_of(const tp__hook *hook, const char *text, const char **ret_value) {
  if (text[0] != '$') return 0;
  bool braces = text[1] == '{';
  const char *name = text + 1 + braces;
  for (size_t i = 0; hook->environment[i]; i++) {
    size_t size = strcspn(hook->environment[i], "=");
    if (strncmp(hook->environment[i], name, size) != 0 || (braces && name[size] != '}')) continue;
    if (!braces && strspn(name, variable_letters) != size) continue;
    *ret_value = hook->environment[i] + size + 1;
    return size + 1 + 2 * (size_t)braces;
  }
  return 0;
}

/* @param quotes  are left out, as a shell would. @return false when it is too long. */
static bool expand(const tp__hook *hook, const char *text, size_t size, const char *quotes, char *ret_text,
                   size_t ret_size) {
  size_t used = 0;
  const char *end = text + size;
  while (text < end) {
    const char *value, *piece = text;
    size_t taken = variable_of(hook, text, &value), piece_size = 1;
    if (taken > 0) {
      piece = value;
      piece_size = strlen(value);
    } else if (strchr(quotes, *text)) {
      piece_size = 0;
    }
    if (used + piece_size >= ret_size) return false;
    memcpy(ret_text + used, piece, piece_size);
    used += piece_size;
    text += taken > 0 ? taken : 1;
  }
  ret_text[used] = '\0';
  return true;
}

static bool is_shell_line(const tp__hook *hook) {
  const char *slash = hook->argument_count > 2 ? strrchr(hook->arguments[0], '/') : NULL;
  const char *name = slash ? slash + 1 : hook->arguments[0];
  return hook->argument_count > 2 && (strcmp(name, "sh") == 0 || strcmp(name, "bash") == 0) &&
         strcmp(hook->arguments[1], "-c") == 0;
}

static tp_status expand_arguments(struct reader *reader, tp__hook *hook) {
  for (size_t i = 0; i < hook->argument_count; i++) {
    char text[4096];
    if (!strchr(hook->arguments[i], '$')) continue;
    if (!expand(hook, hook->arguments[i], strlen(hook->arguments[i]), "", text, sizeof text))
      return REFUSE(reader, TP_ERR_TOO_LARGE, 0, "an argument of command is longer than %zu bytes", sizeof text - 1);
    hook->arguments[i] = tp__hooks_copy(reader->hooks, tp_text_of(text));
    if (!hook->arguments[i]) return no_memory(reader);
  }
  return TP_OK;
}

/* ---- handler ---- */

static const char *joined(tp_hooks *hooks, const char *folder, const char *name) {
  char text[4096];
  int size = snprintf(text, sizeof text, "%s/%s", folder, name);
  return size > 0 && (size_t)size < sizeof text ? tp__hooks_copy(hooks, tp_text_of(text)) : NULL;
}

/* A program without a slash is looked for in PATH, once; one that is not found stays as it is, and cannot start. */
static const char *find_program(tp_hooks *hooks, const char *name) {
  char path[4096];
  bool is_found = tp__trust_look_up(hooks->environment[0] + strlen("PATH="), name, path, sizeof path);
  return is_found ? tp__hooks_copy(hooks, tp_text_of(path)) : joined(hooks, hooks->root, name);
}

static const char *path_of(tp_hooks *hooks, const char *name) {
  return name[0] == '/' ? name : joined(hooks, hooks->root, name);
}

static tp_status read_command(struct reader *reader, tp__hook *hook, uint32_t map) {
  uint32_t index;
  TP__TRY(read_texts(reader, map, "command", hook->arguments, TP__HOOK_ARGUMENTS_MAX, &hook->argument_count, &index));
  if (hook->argument_count == 0 || hook->arguments[0][0] == '\0')
    return REFUSE(reader, TP_ERR_MALFORMED, map,
                  "what is run needs command: a path, or a list of a program and its "
                  "arguments");
  bool is_line = reader->yaml.items[index].kind == TP_VALUE_TEXT && strpbrk(hook->arguments[0], " \t\n|&;<>$`\"'");
  if (is_line)
    return REFUSE(reader, TP_ERR_MALFORMED, index,
                  "command is one path, not a line of a shell: write a list, such as "
                  "[sh, -c, \"…\"] or [python3, guard.py]");
  if (hook->protocol && !is_shell_line(hook)) TP__TRY(expand_arguments(reader, hook));
  TP__TRY(tp__trust_find(reader->hooks, hook, reader->fault));
  hook->arguments[0] = strchr(hook->arguments[0], '/') ? path_of(reader->hooks, hook->arguments[0])
                                                       : find_program(reader->hooks, hook->arguments[0]);
  return hook->arguments[0] ? TP_OK : no_memory(reader);
}

static tp_status read_path(struct reader *reader, tp__hook *hook, uint32_t map) {
  const char *path = NULL;
  TP__TRY(read_text(reader, map, "path", &path));
  if (!path || !path[0]) return REFUSE(reader, TP_ERR_MALFORMED, map, "this kind needs path: the file that is written");
  hook->path = path_of(reader->hooks, path);
  return hook->path ? TP_OK : no_memory(reader);
}

static tp_status read_question(struct reader *reader, tp__hook *hook, uint32_t map) {
  uint32_t kind = tp__yaml_get(&reader->yaml, map, "kind");
  bool asks = hook->kind == TP__HOOK_APPROVE;
  if (asks && (!hook->row->ask || !hook->is_blocking))
    return REFUSE(reader, TP_ERR_MALFORMED, kind,
                  "%s needs blocking: true and a phase that may ask: tool.pre, tool.create", hook->kind_name);
  if (!asks && (!hook->row->stop || !hook->is_blocking))
    return REFUSE(reader, TP_ERR_MALFORMED, kind,
                  "%s needs blocking: true and a phase with verdicts, such as tool.pre, tool.create, turn.intake",
                  hook->kind_name);
  const char *key = strcmp(hook->kind_name, "approve") == 0 ? "question" : "reason";
  hook->question = asks ? "needs an approval" : hook->kind == TP__HOOK_DENY ? "it is not allowed" : "";
  TP__TRY(read_text(reader, map, key, &hook->question));
  if (hook->question[0] || hook->kind == TP__HOOK_ALLOW) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, map, key), "%s is empty", key);
}

/* ---- sandbox ---- */

static tp_status read_sandbox_paths(struct reader *reader, uint32_t map, const char *key, const char **paths,
                                    size_t *ret_count) {
  uint32_t index;
  TP__TRY(read_texts(reader, map, key, paths, TP__SANDBOX_PATHS_MAX, ret_count, &index));
  for (size_t i = 0; i < *ret_count; i++) {
    paths[i] = path_of(reader->hooks, paths[i]);
    if (!paths[i]) return no_memory(reader);
    if (access(paths[i], F_OK) != 0)
      return REFUSE(reader, TP_ERR_MALFORMED, index, "%s of the sandbox names %s, which is not there", key, paths[i]);
  }
  return TP_OK;
}

static tp_status read_sandbox_map(struct reader *reader, tp__sandbox *sandbox, uint32_t map) {
  static const char *const numbers[TP__SANDBOX_NUMBERS] = {"memory_mib", "cpu_s", "processes", "file_mib"};
  TP__TRY(expect_map(reader, map, "sandbox", "read, write, network, memory_mib, cpu_s, processes, file_mib"));
  TP__TRY(read_sandbox_paths(reader, map, "read", sandbox->reads, &sandbox->read_count));
  TP__TRY(read_sandbox_paths(reader, map, "write", sandbox->writes, &sandbox->write_count));
  TP__TRY(read_bool(reader, map, "network", &sandbox->network));
  for (size_t i = 0; i < TP__SANDBOX_NUMBERS; i++) {
    int64_t number = 0;
    char text[32];
    TP__TRY(read_number(reader, map, numbers[i], 1, 1 << 20, &number));
    if (number == 0) continue;
    snprintf(text, sizeof text, "%lld", (long long)number);
    sandbox->numbers[i] = tp__hooks_copy(reader->hooks, tp_text_of(text));
    if (!sandbox->numbers[i]) return no_memory(reader);
  }
  return TP_OK;
}

static tp_status read_sandbox(struct reader *reader, tp__hook *hook, uint32_t handler) {
  tp__sandbox *sandbox = &hook->sandbox;
  uint32_t index = tp__yaml_get(&reader->yaml, handler, "sandbox");
  sandbox->is_on = index != 0 || reader->hooks->sandboxes_all;
  if (index != 0 && reader->yaml.items[index].kind == TP_VALUE_MAP) TP__TRY(read_sandbox_map(reader, sandbox, index));
  else TP__TRY(read_bool(reader, handler, "sandbox", &sandbox->is_on));
  if (!sandbox->is_on && reader->hooks->sandboxes_all)
    return REFUSE(reader, TP_ERR_PRIVILEGED, index, "the operator demands a sandbox for every program");
  hook->started = hook->arguments;
  if (!sandbox->is_on) return TP_OK;
  const char **started = tp__hooks_alloc(reader->hooks, TP__SANDBOX_ARGUMENTS_MAX * sizeof *started);
  if (!started) return no_memory(reader);
  hook->started = started;
  const char *programs[TP__HOOK_FILES_MAX];
  size_t count = 0;
  for (size_t i = 0; i < hook->trusted_count; i++)
    if (!hook->trusted[i]->is_loaded || hook->trusted[i]->is_code) programs[count++] = hook->trusted[i]->path;
  if (tp__sandbox_arguments(sandbox, reader->hooks->helper, programs, count, hook->arguments, started)) return TP_OK;
  return REFUSE(reader, TP_ERR_TOO_LARGE, index, "the program and its sandbox have too many arguments");
}

/* ---- webhook ---- */

/* "Bearer ${NAME}", with the host's own environment. */
static tp_status read_header_value(struct reader *reader, uint32_t index, tp__bytes *line) {
  const char *text;
  TP__TRY(take_text(reader, index, "the value of a header", &text));
  while (*text) {
    const char *end = text[0] == '$' && text[1] == '{' ? strchr(text, '}') : NULL;
    if (!end) {
      tp__bytes_put(line, text++, 1);
      continue;
    }
    const char *name = tp__hooks_copy(reader->hooks, (tp_text){text + 2, (size_t)(end - text - 2)});
    const char *value = name ? getenv(name) : NULL;
    if (!value)
      return REFUSE(reader, TP_ERR_MALFORMED, index, "a header needs the environment variable %s, which is not set",
                    name ? name : "");
    tp__bytes_put(line, value, strlen(value));
    text = end + 1;
  }
  return TP_OK;
}

static bool is_header_name(tp_text name) {
  static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";
  bool is_name = name.size > 0;
  for (size_t i = 0; i < name.size; i++) is_name = is_name && memchr(legal, name.data[i], sizeof legal - 1);
  return is_name;
}

/* What the request itself is made of. With one of these in a file the endpoint would read another request. */
static bool is_of_request(tp_text name) {
  static const char *const taken[] = {"content-length", "transfer-encoding", "content-encoding", "host",
                                      "connection",     "keep-alive",        "expect",           "te",
                                      "trailer",        "upgrade",           "proxy-connection"};
  for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
    if (strlen(taken[i]) == name.size && strncasecmp(taken[i], name.data, name.size) == 0) return true;
  return false;
}

/* A variable of the helper's environment: NAME=Header: value. */
static tp_status read_header(struct reader *reader, tp__hook *hook, uint32_t key, size_t number, size_t at) {
  tp_text name = tp__yaml_text(&reader->yaml, key);
  char start[64];
  tp__bytes line = {0};
  if (!is_header_name(name))
    return REFUSE(reader, TP_ERR_MALFORMED, key, "the name of a header has letters, digits and - only");
  if (is_of_request(name))
    return REFUSE(reader, TP_ERR_MALFORMED, key, "the header %.*s belongs to the request itself: leave it out",
                  tp__cut_word(name, 64), name.data);
  snprintf(start, sizeof start, TP__WEBHOOK_HEADER "%zu=", number);
  tp__bytes_put(&line, start, strlen(start));
  tp__bytes_put(&line, name.data, name.size);
  tp__bytes_put(&line, ": ", 2);
  tp_status status = read_header_value(reader, key + 1, &line);
  if (status == TP_OK && line.failed) status = no_memory(reader);
  if (status == TP_OK && (memchr(line.data, '\n', line.size) || memchr(line.data, '\r', line.size)))
    status = REFUSE(reader, TP_ERR_MALFORMED, key + 1, "the value of a header has a line end in it");
  if (status == TP_OK) hook->environment[at] = tp__hooks_copy(reader->hooks, (tp_text){line.data, line.size});
  if (status == TP_OK && !hook->environment[at]) status = no_memory(reader);
  tp__bytes_fini(&line);
  return status;
}

static tp_status read_headers(struct reader *reader, tp__hook *hook, uint32_t handler) {
  uint32_t map = tp__yaml_get(&reader->yaml, handler, "headers");
  size_t at = 0;
  while (hook->environment[at]) at++;
  if (map == 0) return TP_OK;
  TP__TRY(expect(reader, map, "headers", TP_VALUE_MAP, "a map of headers"));
  if (reader->yaml.items[map].count > TP__WEBHOOK_HEADERS_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, map, "more than %d headers", TP__WEBHOOK_HEADERS_MAX);
  size_t number = 0;
  for (uint32_t key = map + 1; key < reader->yaml.items[map].end; key = reader->yaml.items[key + 1].end)
    TP__TRY(read_header(reader, hook, key, number++, at++));
  return TP_OK;
}

/* What is run is the helper. */
static tp_status read_webhook(struct reader *reader, tp__hook *hook, uint32_t map) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, "url");
  if (index == 0) return REFUSE(reader, TP_ERR_MALFORMED, map, "a webhook needs url: https://…");
  TP__TRY(take_text(reader, index, "url", &hook->url));
  tp__webhook_url url;
  const char *wrong = tp__webhook_read_url(hook->url, &url);
  if (wrong) return REFUSE(reader, TP_ERR_MALFORMED, index, "the url cannot be used: %s", wrong);
  if (!tp__webhook_allows(reader->hooks->webhook_hosts, &url))
    return REFUSE(reader, TP_ERR_PRIVILEGED, index,
                  "the operator does not allow webhooks to %s:%u (tp_hooks_options.webhook_hosts, --webhook)", url.host,
                  url.port);
  TP__TRY(read_headers(reader, hook, map));
  hook->arguments[0] = reader->hooks->webhook_helper;
  hook->arguments[1] = tp__hooks_copy(reader->hooks, tp_text_of(url.host));
  hook->arguments[2] = hook->url;
  hook->argument_count = 3;
  hook->started = hook->arguments;
  return hook->arguments[1] ? TP_OK : no_memory(reader);
}

/* ---- a question to a model ---- */

/* The limit of another host is shorter for these than for programs. */
static tp_status read_prompt(struct reader *reader, tp__hook *hook, uint32_t map, bool has_limit) {
  uint32_t model = tp__yaml_get(&reader->yaml, map, "model");
  TP__TRY(read_text(reader, map, "prompt", &hook->prompt));
  TP__TRY(read_text(reader, map, "model", &hook->model));
  if (!hook->prompt || !hook->prompt[strspn(hook->prompt, " \t\r\n")])
    return REFUSE(reader, TP_ERR_MALFORMED, map,
                  "this kind needs prompt: what the model is asked, with $ARGUMENTS for the event");
  if (hook->model && !hook->model[0])
    return REFUSE(reader, TP_ERR_MALFORMED, model, "model is empty: name one, or leave it out for that of the turn");
  if (hook->rewrites)
    return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "rewrite"),
                  "a handler of kind %s rewrites nothing: its model answers ok and reason", hook->kind_name);
  uint32_t most_ms = hook->is_agent ? TP__AGENT_LIMIT_MS : TP__PROMPT_LIMIT_MS;
  if (!has_limit && hook->protocol && hook->limit_ms > most_ms) hook->limit_ms = most_ms;
  return TP_OK;
}

static const struct kind {
  const char *name;
  tp__hook_kind kind;
  const char *keys; /* of those that not every kind has */
} kinds[] = {{"script", TP__HOOK_SCRIPT, "command sandbox"},
             {"worker", TP__HOOK_WORKER, "command frames sandbox"},
             {"log", TP__HOOK_LOG, "path"},
             {"save_json", TP__HOOK_SAVE_JSON, "path"},
             {"approve", TP__HOOK_APPROVE, "question"},
             {"ask", TP__HOOK_APPROVE, "reason"},
             {"deny", TP__HOOK_DENY, "reason"},
             {"allow", TP__HOOK_ALLOW, "reason"},
             {"webhook", TP__HOOK_WEBHOOK, "url headers"},
             {"prompt", TP__HOOK_PROMPT, "prompt model"},
             {"agent", TP__HOOK_PROMPT, "prompt model"}};

static const struct kind *find_kind(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  return NULL;
}

static tp_status read_frames(struct reader *reader, tp__hook *hook, uint32_t map) {
  const char *frames = "json";
  if (hook->protocol)
    return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, map, "kind"),
                  "a worker speaks our own protocol: a hook of another host is a script");
  TP__TRY(read_text(reader, map, "frames", &frames));
  hook->is_msgpack = strcmp(frames, "msgpack") == 0;
  if (hook->is_msgpack || strcmp(frames, "json") == 0) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, map, "frames"),
                "frames are json or msgpack, not \"%s\"", frames);
}

static tp_status read_handler(struct reader *reader, tp__hook *hook) {
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "handler");
  if (map == 0) return REFUSE(reader, TP_ERR_MALFORMED, 0, "a hook needs handler: {kind: script, command: …}");
  TP__TRY(expect_map(reader, map, "handler", HANDLER_KEYS));
  const char *kind = "script";
  TP__TRY(read_text(reader, map, "kind", &kind));
  int64_t limit_ms = 0;
  TP__TRY(read_number(reader, map, "timeout_ms", 1, TP__HOOK_LIMIT_MS_MAX, &limit_ms));
  hook->limit_ms = (uint32_t)limit_ms;
  bool has_limit = limit_ms > 0;
  if (!has_limit && hook->protocol)
    hook->limit_ms = hook->protocol == TP__PROTOCOL_GEMINI ? TP__GEMINI_LIMIT_MS : hook->protocol_event->limit_ms;
  const struct kind *row = find_kind(kind);
  if (!row)
    return REFUSE(
        reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, map, "kind"),
        "there is no kind \"%s\": script, worker, log, save_json, approve, ask, deny, allow, webhook, prompt, "
        "agent",
        kind);
  static const char *const own[] = {"command", "path", "frames",  "sandbox", "question",
                                    "reason",  "url",  "headers", "prompt",  "model"};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
    uint32_t index = tp__yaml_get(&reader->yaml, map, own[i]);
    if (index != 0 && !strstr(row->keys, own[i]))
      return REFUSE(reader, TP_ERR_MALFORMED, index, "a handler of kind %s has no %s", kind, own[i]);
  }
  hook->kind = row->kind;
  hook->kind_name = row->name;
  hook->is_agent = strcmp(row->name, "agent") == 0;
  if (hook->kind == TP__HOOK_WORKER) TP__TRY(read_frames(reader, hook, map));
  if (tp__hook_is_native(hook)) return read_question(reader, hook, map);
  if (hook->kind == TP__HOOK_PROMPT) return read_prompt(reader, hook, map, has_limit);
  if (hook->kind == TP__HOOK_WEBHOOK) return read_webhook(reader, hook, map);
  if (!strstr(row->keys, "command")) return read_path(reader, hook, map);
  TP__TRY(read_command(reader, hook, map));
  return read_sandbox(reader, hook, map);
}

/* ---- policies and edges ---- */

static tp_status read_failure(struct reader *reader, tp__hook *hook) {
  const char *name = NULL;
  TP__TRY(read_text(reader, 0, "failure", &name));
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

static tp_status read_verdict(struct reader *reader, tp__hook *hook) {
  const char *verdict = NULL;
  TP__TRY(read_text(reader, 0, "verdict", &verdict));
  if (!verdict) return TP_OK;
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "verdict");
  if (hook->protocol) return REFUSE(reader, TP_ERR_MALFORMED, index, "verdict belongs to our own protocol");
  if (strcmp(verdict, "json") != 0) return REFUSE(reader, TP_ERR_MALFORMED, index, "verdict is json, or left out");
  if (!hook->row->stop || !hook->is_blocking || !hook->started)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "verdict: json needs a blocking program in a phase with verdicts");
  hook->wants_json = true;
  return TP_OK;
}

static tp_status read_edges(struct reader *reader, const char *key, tp__edges *edges) {
  const char *targets[TP__HOOK_EDGES_MAX];
  size_t count = 0;
  uint32_t index;
  TP__TRY(read_texts(reader, 0, key, targets, TP__HOOK_EDGES_MAX, &count, &index));
  for (size_t i = 0; i < count; i++) {
    edges->items[i] = (tp_edge){.struct_size = sizeof edges->items[i], .target = targets[i]};
    edges->list[i] = &edges->items[i];
  }
  edges->count = count;
  return TP_OK;
}

static bool id_is_legal(const char *id) {
  if (!id[0] || strlen(id) > TP_ID_BYTES_MAX) return false;
  for (; *id; id++) {
    if ((unsigned char)*id <= ' ' || *id == 0x7f) return false;
  }
  return true;
}

/* @param key  under which it stands: id, or name.   @param missing  what is said without it. */
static tp_status read_id(struct reader *reader, tp__hook *hook, const char *key, const char *missing) {
  TP__TRY(read_text(reader, 0, key, &hook->id));
  if (!hook->id) return REFUSE(reader, TP_ERR_MALFORMED, 0, "%s", missing);
  uint32_t index = tp__yaml_get(&reader->yaml, 0, key);
  if (strcmp(key, "id") == 0 && reader->hooks->prefix[0]) {
    char whole[2 * TP_ID_BYTES_MAX + 2];
    snprintf(whole, sizeof whole, "%.*s%.*s", TP_ID_BYTES_MAX, reader->hooks->prefix, TP_ID_BYTES_MAX + 1, hook->id);
    hook->id = tp__hooks_copy(reader->hooks, tp_text_of(whole));
    if (!hook->id) return no_memory(reader);
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

static tp_status read_concurrency(struct reader *reader, tp__hook *hook) {
  int64_t concurrent = 0;
  bool sequential = false;
  TP__TRY(read_number(reader, 0, "max_concurrent", 1, 1024, &concurrent));
  TP__TRY(read_bool(reader, 0, "sequential", &sequential));
  hook->max_concurrent = (uint32_t)concurrent;
  if (tp__yaml_get(&reader->yaml, 0, "sequential") != 0)
    hook->sequential = sequential ? TP_SEQUENTIAL_ON : TP_SEQUENTIAL_OFF;
  return TP_OK;
}

static tp_status read_hook(struct reader *reader, tp__hook *hook) {
  TP__TRY(expect_map(reader, 0, "a hook", KEYS));
  TP__TRY(read_id(reader, hook, "id", "a hook needs an id"));
  TP__TRY(read_protocol(reader, hook));
  TP__TRY(read_event(reader, hook));
  if (hook->protocol) {
    TP__TRY(read_tool_names(reader, hook));
    TP__TRY(make_environment(reader, hook));
  }
  hook->is_enabled = hook->is_blocking = true;
  hook->summary = "";
  TP__TRY(read_bool(reader, 0, "enabled", &hook->is_enabled));
  TP__TRY(read_bool(reader, 0, "blocking", &hook->is_blocking));
  bool is_notified = hook->protocol && hook->protocol_event->id == TP__EVENT_NOTIFICATION;
  if (is_notified) hook->is_blocking = false; /* no question waits for it */
  if (hook->rewrites && !hook->is_blocking)
    return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "rewrite"),
                  "rewrite: true needs blocking: true, since otherwise nothing waits for it");
  TP__TRY(read_text(reader, 0, "summary", &hook->summary));
  int64_t priority = 0;
  TP__TRY(read_number(reader, 0, "priority", INT32_MIN, INT32_MAX, &priority));
  hook->priority = (int32_t)priority;
  TP__TRY(read_concurrency(reader, hook));
  TP__TRY(read_edges(reader, "after", &hook->after));
  TP__TRY(read_edges(reader, "before", &hook->before));
  TP__TRY(read_edges(reader, "requires", &hook->needs));
  TP__TRY(read_match(reader, hook));
  TP__TRY(read_variables(reader, hook));
  TP__TRY(read_handler(reader, hook));
  TP__TRY(check_has_program(reader, hook));
  TP__TRY(read_bool(reader, 0, "keep_stderr", &hook->keeps_errors));
  TP__TRY(read_failure(reader, hook));
  return read_verdict(reader, hook);
}

/* ---- tools ---- */

static bool has_property(tp_text schema, const char *name) {
  return tp_value_get(tp_value_get(schema, "properties"), name).size > 0;
}

static tp_status read_tool_keys(struct reader *reader, tp__hook_tool *tool, const char *key, tp_tool_access access) {
  const char *texts[TP__TOOL_KEYS_MAX];
  size_t count = 0;
  uint32_t index;
  TP__TRY(read_texts(reader, 0, key, texts, TP__TOOL_KEYS_MAX, &count, &index));
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

/* What a schema may hold is checked at the commit, by the library. */
static tp_status read_schema(struct reader *reader, tp_text *ret_schema) {
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "schema");
  tp_writer *writer;
  tp_text value;
  if (index == 0) return TP_OK;
  TP__TRY(expect(reader, index, "schema", TP_VALUE_MAP, "a map: {type: object, properties: {…}}"));
  if (tp_writer_new(NULL, &writer) != TP_OK) return no_memory(reader);
  tp__yaml_write(&reader->yaml, index, writer);
  const char *copy = tp_writer_finish(writer, &value) == TP_OK ? tp__hooks_copy(reader->hooks, value) : NULL;
  if (copy) *ret_schema = (tp_text){copy, value.size};
  tp_writer_free(writer);
  return copy ? TP_OK : no_memory(reader);
}

static tp_status read_tool_numbers(struct reader *reader, tp__hook *hook) {
  int64_t limit_ms = 0, concurrent = 0, bytes = 0;
  TP__TRY(read_number(reader, 0, "timeout_ms", 1, TP__HOOK_LIMIT_MS_MAX, &limit_ms));
  TP__TRY(read_number(reader, 0, "max_concurrent", 1, 1024, &concurrent));
  TP__TRY(read_number(reader, 0, "result_bytes_max", 1, TP__TOOL_RESULT_BYTES_MAX, &bytes));
  hook->limit_ms = limit_ms > 0 ? (uint32_t)limit_ms : TP__TOOL_LIMIT_MS;
  hook->tool->tool.max_concurrent = concurrent > 0 ? (uint32_t)concurrent : TP__TOOL_CONCURRENT;
  hook->tool->tool.result_bytes_max = (uint32_t)bytes;
  return TP_OK;
}

static tp_status read_tool(struct reader *reader, tp__hook *hook) {
  TP__TRY(expect_map(reader, 0, "a tool", TOOL_KEYS));
  TP__TRY(read_id(reader, hook, "name", "a tool needs a name"));
  hook->kind = TP__HOOK_TOOL;
  hook->kind_name = "tool";
  hook->tool = tp__hooks_alloc(reader->hooks, sizeof *hook->tool);
  if (!hook->tool) return no_memory(reader);
  tp_tool *tool = &hook->tool->tool;
  hook->phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION;
  hook->row = tp_phase_get(reader->hooks->runtime, hook->phase);
  TP__TRY(copy_row(reader, hook));
  hook->event = hook->row->name;
  hook->summary = hook->match = hook->match_summary = "";
  hook->is_enabled = hook->is_blocking = true;
  hook->failure = TP_FAILURE_FALLBACK; /* the bundle again: its handler may lack memory alone */
  TP__TRY(read_bool(reader, 0, "enabled", &hook->is_enabled));
  TP__TRY(read_text(reader, 0, "summary", &hook->summary));
  TP__TRY(read_text(reader, 0, "description", &tool->description));
  if (!tool->description || !tool->description[0])
    return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "description"),
                  "a tool needs a description: a model decides by it");
  TP__TRY(read_schema(reader, &tool->schema));
  TP__TRY(read_bool(reader, 0, "idempotent", &tool->idempotent));
  TP__TRY(read_bool(reader, 0, "operation", &tool->is_operation));
  TP__TRY(read_tool_numbers(reader, hook));
  TP__TRY(read_tool_keys(reader, hook->tool, "reads", TP_TOOL_READ));
  TP__TRY(read_tool_keys(reader, hook->tool, "writes", TP_TOOL_WRITE));
  TP__TRY(read_variables(reader, hook));
  TP__TRY(read_command(reader, hook, 0));
  TP__TRY(read_sandbox(reader, hook, 0));
  tp__hook_tool_finish(hook);
  return TP_OK;
}

/* ---- the lists of a profile ---- */

static tp_status read_permissions(struct reader *reader, tp__hook *hook) {
  uint32_t index;
  TP__TRY(expect_map(reader, 0, "a file of permissions", PERMISSION_KEYS));
  TP__TRY(read_id(reader, hook, "id", "a file of permissions needs an id"));
  hook->kind = TP__HOOK_PERMISSIONS;
  hook->kind_name = hook->event = "permissions";
  hook->permissions = tp__hooks_alloc(reader->hooks, sizeof *hook->permissions);
  if (!hook->permissions) return no_memory(reader);
  tp__permissions *lists = hook->permissions;
  hook->phase = TP_PHASE_TOOL_PRE;
  hook->row = tp_phase_get(reader->hooks->runtime, hook->phase);
  TP__TRY(copy_row(reader, hook));
  hook->event = hook->row->name;
  hook->summary = hook->question = "";
  hook->is_enabled = hook->is_blocking = true;
  hook->priority = PERMISSIONS_PRIORITY;
  lists->otherwise = "auto";
  TP__TRY(read_bool(reader, 0, "enabled", &hook->is_enabled));
  TP__TRY(read_text(reader, 0, "summary", &hook->summary));
  TP__TRY(read_patterns(reader, 0, "agent", &hook->agents, &index));
  TP__TRY(read_patterns(reader, 0, "mode", &hook->modes, &index));
  TP__TRY(read_patterns(reader, 0, "environment", &hook->environments, &index));
  TP__TRY(read_patterns(reader, 0, "never", &lists->never, &index));
  TP__TRY(read_patterns(reader, 0, "ask", &lists->ask, &index));
  TP__TRY(read_patterns(reader, 0, "auto", &lists->automatic, &index));
  TP__TRY(read_text(reader, 0, "otherwise", &lists->otherwise));
  TP__TRY(describe_match(reader, hook, 0, "agent mode environment"));
  if (tp__is_one_of(tp_text_of(lists->otherwise), "never ask auto")) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, 0, "otherwise"),
                "otherwise is never, ask or auto, not \"%s\"", lists->otherwise);
}

static tp_status read_any(struct reader *reader, tp__hook *hook) {
  uint32_t index = reader->yaml.items[0].kind == TP_VALUE_MAP ? tp__yaml_get(&reader->yaml, 0, "kind") : 0;
  const char *kind = NULL;
  if (index == 0) return read_hook(reader, hook);
  TP__TRY(take_text(reader, index, "kind", &kind));
  if (strcmp(kind, "tool") == 0) return read_tool(reader, hook);
  if (strcmp(kind, "permissions") == 0) return read_permissions(reader, hook);
  return REFUSE(
      reader, TP_ERR_MALFORMED, index,
      "kind is tool, permissions or redact, or left out in the file of a hook (its handler has a kind), not \"%s\"",
      kind);
}

/* The patterns of secrets are no hook: the runtime was given them before. */
static tp_status check_patterns(const struct reader *reader, tp_text text) {
  tp_redactor *redactor;
  TP__TRY(tp_redactor_new(&redactor, reader->fault));
  tp_status status = tp__redact_add(redactor, &reader->yaml, reader->file, text, reader->fault);
  tp_redactor_free(redactor);
  return status;
}

tp_status tp__hook_read(tp_hooks *hooks, const char *file, tp_text text, tp__hook **ret_hook, tp_fault *fault) {
  struct reader reader = {.hooks = hooks, .file = file, .fault = fault};
  tp__hook *hook = tp__hooks_alloc(hooks, sizeof *hook);
  if (!hook) return no_memory(&reader);
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
