/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_read.c: one hook from its YAML file. Every key is looked at once, with its place at hand; what is not known is
 * refused. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "domains/declared/glob.h"
#include "domains/declared/hook.h"
#include "domains/declared/yaml_items.h"

#define KEYS \
  "id, event_type, event, enabled, blocking, summary, priority, after, before, requires, match, handler, failure, " \
  "verdict, effects"
#define MATCH_KEYS "ability_scope, min_duration_ms, only_if_changed_paths, agent, mode"
#define HANDLER_KEYS "kind, command, path, timeout_ms"

struct reader {
  tp_hooks *hooks;
  tp__yaml yaml;
  const char *file;
  tp_fault *fault;
};

static tp_status no_memory(struct reader *reader) {
  return tp__refuse(reader->fault, TP_ERR_NO_MEMORY, reader->file, (tp__place){0}, "no memory for a hook");
}

#define REFUSE(reader, code, index, ...) \
  tp__refuse((reader)->fault, (code), (reader)->file, (reader)->yaml.items[index].place, __VA_ARGS__)

#define TRY(expression)                            \
  do {                                             \
    tp_status try_status_ = (expression);          \
    if (try_status_ != TP_OK) return try_status_; \
  } while (0)

/* ---- fields ---- */

static tp_status expect(struct reader *reader, uint32_t index, const char *key, tp_value_kind kind, const char *what) {
  if (reader->yaml.items[index].kind == kind) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, index, "%s must be %s", key, what);
}

static tp_status expect_map(struct reader *reader, uint32_t index, const char *what, const char *known) {
  TRY(expect(reader, index, what, TP_VALUE_MAP, "a map"));
  uint32_t key = tp__yaml_unknown_key(&reader->yaml, index, known);
  if (key == 0) return TP_OK;
  tp_text text = tp__yaml_text(&reader->yaml, key);
  return REFUSE(reader, TP_ERR_MALFORMED, key, "%s has no key \"%.*s\", only %s", what, tp__cut(text, 64), text.data,
                known);
}

static tp_status take_text(struct reader *reader, uint32_t index, const char *key, const char **ret_text) {
  TRY(expect(reader, index, key, TP_VALUE_TEXT, "text: put it into quotes"));
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
  TRY(expect(reader, index, key, TP_VALUE_BOOL, "true or false"));
  *ret_bool = reader->yaml.items[index].as.boolean;
  return TP_OK;
}

static tp_status read_number(struct reader *reader, uint32_t map, const char *key, int64_t least, int64_t most,
                             int64_t *ret_number) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  if (index == 0) return TP_OK;
  TRY(expect(reader, index, key, TP_VALUE_INT, "an integer"));
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
  TRY(expect(reader, index, key, TP_VALUE_ARRAY, "text or a list of texts"));
  if (item->count > max) return REFUSE(reader, TP_ERR_TOO_LARGE, index, "%s has more than %zu items", key, max);
  for (uint32_t at = index + 1; at < reader->yaml.items[index].end; at = reader->yaml.items[at].end) {
    TRY(take_text(reader, at, key, &items[*ret_count]));
    (*ret_count)++;
  }
  return TP_OK;
}

/* ---- the phase ---- */

static tp_status read_event(struct reader *reader, tp__hook *hook) {
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "event_type"), other = tp__yaml_get(&reader->yaml, 0, "event");
  if (index != 0 && other != 0)
    return REFUSE(reader, TP_ERR_MALFORMED, other, "event and event_type are one: keep one");
  if (index == 0) index = other;
  if (index == 0) return REFUSE(reader, TP_ERR_MALFORMED, 0, "a hook needs event_type: the name of a phase or event");
  TRY(take_text(reader, index, "event_type", &hook->event));
  hook->phase = tp_phase_find(reader->hooks->runtime, hook->event);
  hook->row = hook->phase ? tp_phase_get(reader->hooks->runtime, hook->phase) : NULL;
  if (!hook->row)
    return REFUSE(reader, TP_ERR_UNKNOWN_PHASE, index, "no phase or event \"%s\": see turnphase phases", hook->event);
  if (hook->row->code_only)
    return REFUSE(reader, TP_ERR_CODE_ONLY, index, "%s takes code only: guard with tool.pre, observe with tool.post",
                  hook->row->name);
  if (hook->row->privileged)
    return REFUSE(reader, TP_ERR_PRIVILEGED, index, "%s is privileged: it takes no declared hooks", hook->row->name);
  hook->own_row = *hook->row;
  hook->own_row.name = tp__hooks_copy(reader->hooks, tp_text_of(hook->row->name));
  hook->row = &hook->own_row;
  return hook->row->name ? TP_OK : no_memory(reader);
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
  TRY(read_texts(reader, map, key, patterns->items, TP__HOOK_PATTERNS_MAX, &patterns->count, ret_index));
  for (size_t i = 0; i < patterns->count; i++) {
    if (strlen(patterns->items[i]) > TP__GLOB_BYTES_MAX)
      return REFUSE(reader, TP_ERR_TOO_LARGE, *ret_index, "a pattern of %s is longer than %d bytes", key,
                    TP__GLOB_BYTES_MAX);
  }
  return TP_OK;
}

static tp_status no_such_key(struct reader *reader, const tp__hook *hook, uint32_t index, const char *key) {
  return REFUSE(reader, TP_ERR_MATCH_KEY, index, "%s cannot be asked of %s: its payload does not say", key,
                hook->row->name);
}

static tp_status describe_match(struct reader *reader, tp__hook *hook, uint32_t map) {
  char text[512] = "";
  uint32_t key = map + 1;
  for (uint32_t i = 0; i < reader->yaml.items[map].count; i++) {
    tp_text name = tp__yaml_text(&reader->yaml, key);
    const tp__yaml_item *value = &reader->yaml.items[key + 1];
    char shown[96] = "";
    if (value->kind == TP_VALUE_INT) snprintf(shown, sizeof shown, "%lld", (long long)value->as.integer);
    uint32_t first = value->kind == TP_VALUE_ARRAY && value->count > 0 ? key + 2 : key + 1;
    if (reader->yaml.items[first].kind == TP_VALUE_TEXT) {
      tp_text pattern = tp__yaml_text(&reader->yaml, first);
      snprintf(shown, sizeof shown, "%.*s%s", tp__cut(pattern, 64), pattern.data,
               value->kind == TP_VALUE_ARRAY && value->count > 1 ? ", …" : "");
    }
    size_t size = strlen(text);
    snprintf(text + size, sizeof text - size, "%s%.*s: %s", size > 0 ? "; " : "", tp__cut(name, 64), name.data, shown);
    key = reader->yaml.items[key + 1].end;
  }
  hook->match = tp__hooks_copy(reader->hooks, tp_text_of(text));
  return hook->match ? TP_OK : no_memory(reader);
}

static tp_status read_match(struct reader *reader, tp__hook *hook) {
  hook->duration_ms_min = -1;
  hook->match = "";
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "match"), index;
  if (map == 0) return TP_OK;
  TRY(expect_map(reader, map, "match", MATCH_KEYS));
  TRY(read_patterns(reader, map, "ability_scope", &hook->scopes, &index));
  if (index != 0 && !carries(hook->row, TP_FIELD_TOOL) && !carries(hook->row, TP_FIELD_ABILITY_REF))
    return no_such_key(reader, hook, index, "ability_scope");
  TRY(read_patterns(reader, map, "only_if_changed_paths", &hook->changed_paths, &index));
  if (index != 0 && !carries(hook->row, TP_FIELD_CHANGED_FILES))
    return no_such_key(reader, hook, index, "only_if_changed_paths");
  TRY(read_patterns(reader, map, "agent", &hook->agents, &index));
  TRY(read_patterns(reader, map, "mode", &hook->modes, &index));
  TRY(read_number(reader, map, "min_duration_ms", 0, INT64_MAX, &hook->duration_ms_min));
  if (hook->duration_ms_min >= 0 && !carries(hook->row, TP_FIELD_DURATION_MS))
    return no_such_key(reader, hook, tp__yaml_get(&reader->yaml, map, "min_duration_ms"), "min_duration_ms");
  return reader->yaml.items[map].count > 0 ? describe_match(reader, hook, map) : TP_OK;
}

/* ---- handler ---- */

static const char *joined(tp_hooks *hooks, const char *folder, const char *name) {
  char text[4096];
  int size = snprintf(text, sizeof text, "%s/%s", folder, name);
  return size > 0 && (size_t)size < sizeof text ? tp__hooks_copy(hooks, tp_text_of(text)) : NULL;
}

/* A program without a slash is looked for in PATH, once; one that is not found stays as it is, and cannot start. */
static const char *find_program(tp_hooks *hooks, const char *name) {
  const char *list = hooks->environment[0] + strlen("PATH=");
  while (*list) {
    size_t size = strcspn(list, ":");
    char folder[1024];
    if (size > 0 && size < sizeof folder) {
      memcpy(folder, list, size);
      folder[size] = '\0';
      const char *path = joined(hooks, folder, name);
      if (path && access(path, X_OK) == 0) return path;
    }
    list += size + (list[size] == ':');
  }
  return joined(hooks, hooks->root, name);
}

static const char *path_of(tp_hooks *hooks, const char *name) {
  return name[0] == '/' ? name : joined(hooks, hooks->root, name);
}

static tp_status read_command(struct reader *reader, tp__hook *hook, uint32_t map) {
  uint32_t index;
  TRY(read_texts(reader, map, "command", hook->arguments, TP__HOOK_ARGUMENTS_MAX, &hook->argument_count, &index));
  if (hook->argument_count == 0 || hook->arguments[0][0] == '\0')
    return REFUSE(reader, TP_ERR_MALFORMED, map, "a script needs command: a path, or a list of a program and its "
                  "arguments");
  bool is_line = reader->yaml.items[index].kind == TP_VALUE_TEXT && strpbrk(hook->arguments[0], " \t\n|&;<>$`\"'");
  if (is_line)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "command is one path, not a line of a shell: write a list, such as "
                  "[sh, -c, \"…\"] or [python3, guard.py]");
  for (size_t i = 0; i < hook->argument_count; i++) {
    bool is_looked_up = i == 0 && !strchr(hook->arguments[0], '/');
    hook->names[i] = is_looked_up ? find_program(reader->hooks, hook->arguments[0])
                                  : path_of(reader->hooks, hook->arguments[i]);
    if (!hook->names[i] && i == 0) return no_memory(reader);
  }
  hook->arguments[0] = hook->names[0];
  return TP_OK;
}

static tp_status read_path(struct reader *reader, tp__hook *hook, uint32_t map) {
  const char *path = NULL;
  TRY(read_text(reader, map, "path", &path));
  if (!path || !path[0]) return REFUSE(reader, TP_ERR_MALFORMED, map, "this kind needs path: the file that is written");
  hook->path = path_of(reader->hooks, path);
  return hook->path ? TP_OK : no_memory(reader);
}

static tp_status read_handler(struct reader *reader, tp__hook *hook) {
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "handler");
  if (map == 0) return REFUSE(reader, TP_ERR_MALFORMED, 0, "a hook needs handler: {kind: script, command: …}");
  TRY(expect_map(reader, map, "handler", HANDLER_KEYS));
  const char *kind = "script";
  TRY(read_text(reader, map, "kind", &kind));
  int64_t limit_ms = 0;
  TRY(read_number(reader, map, "timeout_ms", 1, TP__HOOK_LIMIT_MS_MAX, &limit_ms));
  hook->limit_ms = (uint32_t)limit_ms;
  bool is_script = strcmp(kind, "script") == 0;
  const char *foreign = is_script ? "path" : "command";
  uint32_t index = tp__yaml_get(&reader->yaml, map, foreign);
  if (index != 0) return REFUSE(reader, TP_ERR_MALFORMED, index, "a handler of kind %s has no %s", kind, foreign);
  hook->kind = is_script ? TP__HOOK_SCRIPT : strcmp(kind, "log") == 0 ? TP__HOOK_LOG : TP__HOOK_SAVE_JSON;
  if (is_script) return read_command(reader, hook, map);
  if (hook->kind == TP__HOOK_LOG || strcmp(kind, "save_json") == 0) return read_path(reader, hook, map);
  return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, map, "kind"),
                "there is no kind \"%s\": script, log, save_json", kind);
}

/* ---- policies and edges ---- */

static tp_status read_failure(struct reader *reader, tp__hook *hook) {
  const char *name = NULL;
  TRY(read_text(reader, 0, "failure", &name));
  if (!hook->is_blocking) hook->failure = TP_FAILURE_BEST_EFFORT;
  if (!name) return TP_OK;
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "failure");
  if (strcmp(name, "best_effort") == 0) {
    hook->failure = TP_FAILURE_BEST_EFFORT;
    return TP_OK;
  }
  if (strcmp(name, "required") != 0)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "failure is best_effort or required, not \"%s\"", name);
  if (!hook->is_blocking)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "required needs blocking: true, since nobody waits otherwise");
  if (hook->row->mode == TP_MODE_OBSERVE)
    return REFUSE(reader, TP_ERR_OBSERVER_REQUIRED, index, "%s observes: a hook there is best_effort", hook->row->name);
  hook->failure = TP_FAILURE_REQUIRED;
  return TP_OK;
}

static tp_status read_verdict(struct reader *reader, tp__hook *hook) {
  const char *verdict = NULL;
  TRY(read_text(reader, 0, "verdict", &verdict));
  if (!verdict) return TP_OK;
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "verdict");
  if (strcmp(verdict, "json") != 0) return REFUSE(reader, TP_ERR_MALFORMED, index, "verdict is json, or left out");
  if (!hook->row->stop || !hook->is_blocking || hook->kind != TP__HOOK_SCRIPT)
    return REFUSE(reader, TP_ERR_MALFORMED, index, "verdict: json needs a blocking script in a phase with verdicts");
  hook->wants_json = true;
  return TP_OK;
}

static tp_status read_edges(struct reader *reader, const char *key, tp__edges *edges) {
  const char *targets[TP__HOOK_EDGES_MAX];
  size_t count = 0;
  uint32_t index;
  TRY(read_texts(reader, 0, key, targets, TP__HOOK_EDGES_MAX, &count, &index));
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

static tp_status read_id(struct reader *reader, tp__hook *hook) {
  TRY(read_text(reader, 0, "id", &hook->id));
  if (!hook->id) return REFUSE(reader, TP_ERR_MALFORMED, 0, "a hook needs an id");
  uint32_t index = tp__yaml_get(&reader->yaml, 0, "id");
  if (!id_is_legal(hook->id))
    return REFUSE(reader, TP_ERR_BAD_ID, index, "an id has 1 to %d bytes without white space", TP_ID_BYTES_MAX);
  for (const tp__hook *other = reader->hooks->first; other; other = other->next) {
    if (strcmp(other->id, hook->id) == 0)
      return REFUSE(reader, TP_ERR_DUPLICATE_ID, index, "the id %s is taken by %s", hook->id, other->file);
  }
  hook->place = reader->yaml.items[index].place;
  return TP_OK;
}

static tp_status read_hook(struct reader *reader, tp__hook *hook) {
  TRY(expect_map(reader, 0, "a hook", KEYS));
  TRY(read_id(reader, hook));
  TRY(read_event(reader, hook));
  hook->is_enabled = hook->is_blocking = true;
  hook->summary = "";
  TRY(read_bool(reader, 0, "enabled", &hook->is_enabled));
  TRY(read_bool(reader, 0, "blocking", &hook->is_blocking));
  TRY(read_text(reader, 0, "summary", &hook->summary));
  int64_t priority = 0;
  TRY(read_number(reader, 0, "priority", INT32_MIN, INT32_MAX, &priority));
  hook->priority = (int32_t)priority;
  TRY(read_edges(reader, "after", &hook->after));
  TRY(read_edges(reader, "before", &hook->before));
  TRY(read_edges(reader, "requires", &hook->needs));
  TRY(read_match(reader, hook));
  TRY(read_handler(reader, hook));
  TRY(read_failure(reader, hook));
  return read_verdict(reader, hook);
}

tp_status tp__hook_read(tp_hooks *hooks, const char *file, tp_text text, tp__hook **ret_hook, tp_fault *fault) {
  struct reader reader = {.hooks = hooks, .file = file, .fault = fault};
  tp__hook *hook = tp__hooks_alloc(hooks, sizeof *hook);
  if (!hook) return no_memory(&reader);
  tp_status status = tp__yaml_read(text, file, &tp__malloc_allocator, &reader.yaml, fault);
  if (status != TP_OK) return status;
  hook->hooks = hooks;
  hook->file = file;
  status = read_hook(&reader, hook);
  tp__yaml_fini(&reader.yaml);
  if (status == TP_OK) *ret_hook = hook;
  return status;
}
