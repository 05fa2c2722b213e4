/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_read_match.c: reads the conditions of a hook on a call: `match`, and the rule of another host. Also makes the
 * text of all conditions for listings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook_protocol.h"
#include "domains/declared/hook_reader.h"

static bool carries(const tp_phase *row, uint32_t field) {
  for (size_t i = 0; i < row->field_count; i++) {
    if (row->fields[i] == field) return true;
  }
  return false;
}

/* ---- match: the arguments of a call ---- */

/* A number or a truth value stands for the text with which it is compared. */
static tp_status add_pattern(tp__hook_reader *reader, uint32_t index, const char *key,
                             tp__condition_patterns *patterns) {
  const tp__yaml_item *item = &reader->yaml.items[index];
  char text[40] = "";
  const char *pattern = text;
  if (item->kind == TP_VALUE_INT) snprintf(text, sizeof text, "%lld", (long long)item->as.integer);
  else if (item->kind == TP_VALUE_BOOL) snprintf(text, sizeof text, "%s", item->as.boolean ? "true" : "false");
  else if (item->kind == TP_VALUE_DOUBLE) snprintf(text, sizeof text, "%.15g", item->as.real);
  else TP__TRY(tp__reader_take_text(reader, index, key, &pattern));
  if (patterns->count == TP__CONDITION_PATTERNS_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "%s has more than %d patterns", key, TP__CONDITION_PATTERNS_MAX);
  if (strlen(pattern) > TP_PATTERN_BYTES_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "a pattern of %s is longer than %d bytes", key,
                  TP_PATTERN_BYTES_MAX);
  patterns->items[patterns->count] = tp__hooks_copy(reader->hooks, tp_text_of(pattern));
  return patterns->items[patterns->count++] ? TP_OK : tp__reader_no_memory(reader);
}

static tp_status add_patterns(tp__hook_reader *reader, uint32_t index, const char *key,
                              tp__condition_patterns *patterns) {
  if (reader->yaml.items[index].kind != TP_VALUE_ARRAY) return add_pattern(reader, index, key, patterns);
  if (reader->yaml.items[index].count == 0)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "%s has no pattern: nothing would fit", key);
  for (uint32_t at = index + 1; at < reader->yaml.items[index].end; at = reader->yaml.items[at].end)
    TP__TRY(add_pattern(reader, at, key, patterns));
  return TP_OK;
}

static tp_status read_bound(tp__hook_reader *reader, uint32_t map, const char *key, bool *ret_has, double *ret_bound) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  if (index == 0) return TP_OK;
  const tp__yaml_item *item = &reader->yaml.items[index];
  if (item->kind != TP_VALUE_INT && item->kind != TP_VALUE_DOUBLE)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "%s must be a number", key);
  *ret_has = true;
  *ret_bound = item->kind == TP_VALUE_INT ? (double)item->as.integer : item->as.real;
  return TP_OK;
}

static tp_status read_condition_map(tp__hook_reader *reader, uint32_t map, tp__condition *condition) {
  static const char *const keys[] = {"glob", "not", "runs"};
  tp__condition_patterns *const lists[] = {&condition->globs, &condition->nots, &condition->runs};
  bool exists = true;
  TP__TRY(tp__reader_expect_map(reader, map, "a condition", TP__MAP_CONDITION));
  if (reader->yaml.items[map].count == 0)
    return REFUSE(reader, TP_ERR_MALFORMED, map, "a condition has one of: glob, not, runs, min, max, exists");
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    uint32_t index = tp__yaml_get(&reader->yaml, map, keys[i]);
    if (index != 0) TP__TRY(add_patterns(reader, index, keys[i], lists[i]));
  }
  TP__TRY(read_bound(reader, map, "min", &condition->has_min, &condition->min));
  TP__TRY(read_bound(reader, map, "max", &condition->has_max, &condition->max));
  if (condition->has_min && condition->has_max && condition->min > condition->max)
    return REFUSE(reader, TP_ERR_MALFORMED, map, "min is above max: no number would fit");
  TP__TRY(tp__reader_get_bool(reader, map, "exists", &exists));
  condition->is_absent = !exists;
  if (exists || reader->yaml.items[map].count == 1) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, map, "exists: false stands by itself: what is not there has no value");
}

/* The hook's conditions, allocated at the first call; NULL without memory. */
static tp__conditions *conditions_of(tp__hook_reader *reader, tp__hook *hook) {
  if (hook->conditions) return (tp__conditions *)(uintptr_t)hook->conditions; /* while it is read */
  tp__conditions *made = tp__hooks_alloc(reader->hooks, sizeof *made);
  if (made) made->root = reader->hooks->root;
  hook->conditions = made;
  return made;
}

static tp_status add_condition(tp__hook_reader *reader, tp__hook *hook, uint32_t index, const char *path,
                               tp__condition **ret_condition) {
  tp__conditions *conditions = conditions_of(reader, hook);
  if (!conditions) return tp__reader_no_memory(reader);
  if (conditions->count == TP__CONDITIONS_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "more than %d arguments", TP__CONDITIONS_MAX);
  *ret_condition = &conditions->items[conditions->count++];
  const char *wrong = tp__condition_set_path(*ret_condition, path);
  return wrong ? REFUSE(reader, TP_ERR_MALFORMED, index, "%s", wrong) : TP_OK;
}

static tp_status read_match_arguments(tp__hook_reader *reader, tp__hook *hook, uint32_t match) {
  uint32_t map = tp__yaml_get(&reader->yaml, match, "arguments");
  if (map == 0) return TP_OK;
  TP__TRY(
      tp__reader_expect(reader, map, "arguments", TP_VALUE_MAP, "a map from paths of arguments to what holds of them"));
  for (uint32_t key = map + 1; key < reader->yaml.items[map].end; key = reader->yaml.items[key + 1].end) {
    const char *path;
    tp__condition *condition = NULL;
    TP__TRY(tp__reader_take_text(reader, key, "the path of an argument", &path));
    TP__TRY(add_condition(reader, hook, key, path, &condition));
    if (reader->yaml.items[key + 1].kind == TP_VALUE_MAP) TP__TRY(read_condition_map(reader, key + 1, condition));
    else TP__TRY(add_patterns(reader, key + 1, path, &condition->globs));
  }
  return TP_OK;
}

/* ---- match: the rule of another host, such as Bash(git push*) ---- */

static tp_status keep_pattern(tp__hook_reader *reader, uint32_t index, tp__condition_patterns *patterns,
                              const char *pattern) {
  if (strlen(pattern) > TP_PATTERN_BYTES_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "the pattern of if is longer than %d bytes", TP_PATTERN_BYTES_MAX);
  patterns->items[patterns->count] = tp__hooks_copy(reader->hooks, tp_text_of(pattern));
  return patterns->items[patterns->count++] ? TP_OK : tp__reader_no_memory(reader);
}

/* `git push:*` is the command with any arguments. */
static tp_status keep_command(tp__hook_reader *reader, uint32_t index, tp__condition *condition, const char *pattern) {
  char text[TP_PATTERN_BYTES_MAX + 3];
  size_t size = strlen(pattern);
  bool is_prefix = size > 2 && strcmp(pattern + size - 2, ":*") == 0;
  snprintf(text, sizeof text, is_prefix ? "%.*s *" : "%.*s", (int)(is_prefix ? size - 2 : size), pattern);
  return keep_pattern(reader, index, &condition->runs, text);
}

/* //etc is absolute; ~/x is in the home directory; /x and ./x are in the project; a name without a slash may be at any
 * depth. */
static tp_status keep_path(tp__hook_reader *reader, uint32_t index, tp__condition *condition, const char *pattern) {
  char text[4096];
  const char *home = getenv("HOME");
  if (strncmp(pattern, "//", 2) == 0) snprintf(text, sizeof text, "%s", pattern + 1);
  else if (strncmp(pattern, "~/", 2) == 0 && home) snprintf(text, sizeof text, "%s%s", home, pattern + 1);
  else if (pattern[0] == '/') snprintf(text, sizeof text, "%s", pattern + 1);
  else if (strncmp(pattern, "./", 2) == 0) snprintf(text, sizeof text, "%s", pattern + 2);
  else snprintf(text, sizeof text, "%s%s", strchr(pattern, '/') ? "" : "**/", pattern);
  return keep_pattern(reader, index, &condition->globs, text);
}

static tp_status read_if(tp__hook_reader *reader, tp__hook *hook, uint32_t match) {
  static const struct {
    const char *rule, *tools, *argument;
    bool is_command;
  } rows[] = {{"Bash", "Bash", "command", true},
              {"Edit", "Edit Write MultiEdit NotebookEdit", "file_path", false},
              {"Write", "Write", "file_path", false},
              {"Read", "Read", "file_path", false}};
  uint32_t index = tp__yaml_get(&reader->yaml, match, "if");
  const char *rule = NULL;
  TP__TRY(tp__reader_get_text(reader, match, "if", &rule));
  if (!rule) return TP_OK;
  if (hook->protocol != TP__PROTOCOL_CLAUDE_CODE)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "if belongs to the protocol claude-code: use arguments");
  size_t name = strcspn(rule, "("), size = strlen(rule);
  hook->rule_tools = tp__hooks_copy(reader->hooks, (tp_text){rule, name});
  if (!hook->rule_tools) return tp__reader_no_memory(reader);
  if (name == size) return TP_OK; /* every call of the tool */
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp__condition *condition = NULL;
    if (strlen(rows[i].rule) != name || memcmp(rows[i].rule, rule, name) != 0 || rule[size - 1] != ')') continue;
    const char *pattern = tp__hooks_copy(reader->hooks, (tp_text){rule + name + 1, size - name - 2});
    if (!pattern) return tp__reader_no_memory(reader);
    hook->rule_tools = rows[i].tools;
    TP__TRY(add_condition(reader, hook, index, rows[i].argument, &condition));
    return rows[i].is_command ? keep_command(reader, index, condition, pattern)
                              : keep_path(reader, index, condition, pattern);
  }
  return REFUSE(reader, TP_ERR_MALFORMED, index,
                "if: %s has no place: Bash(words), Edit(path), Write(path), Read(path), or the name of a tool", rule);
}

/* A key that reads a field of the payload is allowed only in phases that have the field. */
static tp_status check_payload(tp__hook_reader *reader, const tp__hook *hook, uint32_t map) {
  static const struct {
    const char *key;
    tp_field_id one, other; /* either is enough */
  } rows[] = {{"ability_scope", TP_FIELD_TOOL, TP_FIELD_ABILITY_REF},
              {"only_if_changed_paths", TP_FIELD_CHANGED_FILES, TP_FIELD_CHANGED_FILES},
              {"min_duration_ms", TP_FIELD_DURATION_MS, TP_FIELD_DURATION_MS},
              {"arguments", TP_FIELD_ARGUMENTS, TP_FIELD_ARGUMENTS},
              {"if", TP_FIELD_ARGUMENTS, TP_FIELD_ARGUMENTS}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    uint32_t index = tp__yaml_get(&reader->yaml, map, rows[i].key);
    if (index == 0 || carries(hook->row, rows[i].one) || carries(hook->row, rows[i].other)) continue;
    return REFUSE(reader, TP_ERR_MATCH_KEY, index, "%s cannot be asked of %s: its payload does not say", rows[i].key,
                  hook->row->name);
  }
  return TP_OK;
}

/* A match as text: in the words of the file ("ability_scope: a, b"), and in the form of a listing ("ability=a,b"). */
enum { MATCH_LONG, MATCH_SHORT, MATCH_TEXTS };

static void put_flow(const tp__hook_reader *reader, uint32_t index, const char *comma, bool is_inner, tp__bytes *text) {
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

static tp_status keep_description(tp__hook_reader *reader, const char **ret_kept, tp__bytes *text) {
  *ret_kept = text->failed ? NULL : tp__hooks_copy(reader->hooks, tp__bytes_text(text));
  tp__bytes_fini(text);
  return *ret_kept ? TP_OK : tp__reader_no_memory(reader);
}

/* @param keys  the keys to include, separated by blanks; NULL: all. */
tp_status tp__hook_describe_match(tp__hook_reader *reader, tp__hook *hook, uint32_t map, const char *keys) {
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

static tp_status read_matcher(tp__hook_reader *reader, tp__hook *hook, uint32_t map) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, "matcher");
  const char *text = NULL, *why = "";
  TP__TRY(tp__reader_get_text(reader, map, "matcher", &text));
  if (!text) return TP_OK;
  if (!hook->protocol)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "matcher belongs to a protocol: name it, or use ability_scope");
  if (!(hook->protocol_event->is & TP__EVENT_HAS_MATCHER))
    return REFUSE(reader, TP_ERR_MATCH_KEY, index, "%s has no matcher: leave it out", hook->event);
  struct tp__hook_matcher *one = tp__hooks_alloc(reader->hooks, sizeof *one);
  if (!one) return tp__reader_no_memory(reader);
  if (!tp__matcher_init(&one->matcher, text, &why))
    return REFUSE(reader, TP_ERR_MALFORMED, index, "the matcher cannot be used: %s", why);
  one->next = reader->hooks->matchers;
  reader->hooks->matchers = one;
  hook->matcher = &one->matcher;
  return TP_OK;
}

/* One of the events after a call is for calls that succeeded, the other for calls that failed. Some events are only for
 * turns of subagents, others only for other turns. NULL: neither. */
static const char *kind_of_event(const tp__hook *hook) {
  const tp__protocol_event *event = hook->protocol_event;
  bool is_behind = hook->phase == TP_PHASE_TOOL_POST || hook->phase == TP_PHASE_TOOL_RESULT;
  if (!hook->protocol) return NULL;
  if (is_behind && hook->protocol == TP__PROTOCOL_CLAUDE_CODE)
    return event->id == TP__EVENT_POST_TOOL_FAILURE ? "the call failed" : "the call succeeded";
  if (event->of == TP__EVENT_OF_ANY) return NULL;
  return event->of == TP__EVENT_OF_SUBAGENT ? "the turn is nested" : "the turn is not nested";
}

static tp_status describe_event(tp__hook_reader *reader, tp__hook *hook) {
  const char **const kept[MATCH_TEXTS] = {&hook->match, &hook->match_summary};
  const char *kind = kind_of_event(hook);
  for (int style = 0; kind && style < MATCH_TEXTS; style++) {
    tp__bytes text = {0};
    tp__bytes_printf(&text, "%s%s%s", *kept[style], (*kept[style])[0] ? "; " : "", kind);
    TP__TRY(keep_description(reader, kept[style], &text));
  }
  return TP_OK;
}

tp_status tp__hook_read_match(tp__hook_reader *reader, tp__hook *hook) {
  hook->match = hook->match_summary = "";
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "match");
  if (map == 0) return describe_event(reader, hook);
  TP__TRY(tp__reader_expect_map(reader, map, "match", TP__MAP_MATCH));
  TP__TRY(tp__reader_get_keys(reader, map, TP__MAP_MATCH, TP__OWNER_tp__hook, hook));
  TP__TRY(read_match_arguments(reader, hook, map));
  TP__TRY(read_if(reader, hook, map));
  TP__TRY(check_payload(reader, hook, map));
  TP__TRY(read_matcher(reader, hook, map));
  if (reader->yaml.items[map].count > 0) TP__TRY(tp__hook_describe_match(reader, hook, map, NULL));
  return describe_event(reader, hook);
}
