/* SPDX-License-Identifier: Apache-2.0
 *
 * The files in which other hosts name their servers:
 * {"mcpServers": {NAME: {"command": …, "args": […]} or {"url": …}}}. */
#include "turnphase/mcp.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/bytes.h"
#include "support/fault.h"
#include "support/file.h"
#include "turnphase/value.h"

enum { CONFIG_BYTES_MAX = 1 << 20, STRINGS_MAX = 256, SERVERS_MAX = 256 };

/* One server that is being read: its strings, and the lists that point to them. */
typedef struct entry {
  const char *name; /* the server's name, for messages */
  const char *strings[STRINGS_MAX];
  size_t string_count;
  const char *arguments[STRINGS_MAX], *environment[STRINGS_MAX], *headers[STRINGS_MAX];
  const char *allow[STRINGS_MAX], *deny[STRINGS_MAX];
  char member[64]; /* the member that is being read; empty: none */
  tp_fault *fault;
} entry;

/* ---- strings ---- */

static bool is_variable_name(tp_text name) {
  for (size_t i = 0; i < name.size; i++) {
    char c = name.data[i];
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!is_letter && !(c >= '0' && c <= '9' && i > 0)) return false;
  }
  return name.size > 0;
}

/* Adds the text for which ${NAME} or ${NAME:-default} stands. */
static tp_status put_variable(const entry *e, const char *member, tp_text inside, tp__bytes *string) {
  const char *divider = memmem(inside.data, inside.size, ":-", 2);
  tp_text name = {inside.data, divider ? (size_t)(divider - inside.data) : inside.size};
  char key[128];
  if (!is_variable_name(name) || name.size >= sizeof key)
    return tp__refuse(e->fault, TP_ERR_MALFORMED, e->name, "%s of the server %s: ${%.*s} names no variable", member,
                      e->name, tp__cut(inside, 64), inside.data);
  tp__copy_cut(key, sizeof key, name);
  const char *value = getenv(key);
  if (value && (*value || !divider)) {
    tp__bytes_put_string(string, value);
  } else if (divider) {
    tp__bytes_put(string, divider + 2, inside.size - name.size - 2);
  } else {
    return tp__refuse(e->fault, TP_ERR_NOT_FOUND, e->name,
                      "%s of the server %s needs the environment variable %s: set it, or write ${%s:-default}", member,
                      e->name, key, key);
  }
  return TP_OK;
}

/* Copies prefix and text, with variables replaced. The copy lives as long as the entry. */
static tp_status take_string(entry *e, const char *member, const char *prefix, tp_text text, const char **ret_string) {
  tp__bytes string = {0};
  tp_status status = TP_OK;
  if (memchr(text.data, '\0', text.size))
    return tp__refuse(e->fault, TP_ERR_MALFORMED, e->name, "%s of the server %s has a NUL", member, e->name);
  if (e->string_count == STRINGS_MAX)
    return tp__refuse(e->fault, TP_ERR_TOO_LARGE, e->name, "the server %s has more than %d texts", e->name,
                      STRINGS_MAX);
  tp__bytes_put_string(&string, prefix);
  while (status == TP_OK && text.size > 0) {
    const char *begin = memmem(text.data, text.size, "${", 2);
    const char *end = begin ? memchr(begin, '}', text.size - (size_t)(begin - text.data)) : NULL;
    size_t before = end ? (size_t)(begin - text.data) : text.size;
    tp__bytes_put(&string, text.data, before);
    text = (tp_text){text.data + before, text.size - before};
    if (!end) break;
    status = put_variable(e, member, (tp_text){begin + 2, (size_t)(end - begin) - 2}, &string);
    text = (tp_text){end + 1, text.size - (size_t)(end + 1 - begin)};
  }
  char *copy = string.failed || status != TP_OK ? NULL : tp__heap_copy(tp__bytes_text(&string));
  if (status == TP_OK && !copy) status = tp__refuse(e->fault, TP_ERR_NO_MEMORY, e->name, "no memory for a server");
  tp__bytes_fini(&string);
  if (status != TP_OK) return status;
  e->strings[e->string_count++] = copy;
  *ret_string = copy;
  return TP_OK;
}

static tp_status refuse_kind(const entry *e, const char *member, const char *kind) {
  return tp__refuse(e->fault, TP_ERR_MALFORMED, e->name, "%s of the server %s is not %s", member, e->name, kind);
}

/* Refuses a value that is no text; in YAML a number is a common mistake. */
static tp_status refuse_no_text(const entry *e, const char *member, const char *kind, tp_text value) {
  if (tp_value_kind_of(value) == TP_VALUE_ARRAY || tp_value_kind_of(value) == TP_VALUE_MAP)
    return refuse_kind(e, member, kind);
  return tp__refuse(e->fault, TP_ERR_MALFORMED, e->name, "%s of the server %s is not %s: put the value into quotes",
                    member, e->name, kind);
}

static tp_status take_config_text(entry *e, const char *member, tp_text value, const char **ret_string) {
  if (tp_value_kind_of(value) != TP_VALUE_TEXT) return refuse_no_text(e, member, "a text", value);
  return take_string(e, member, "", tp_value_text(value), ret_string);
}

/* Appends the elements to a list. The list has space, since each element is one of the strings. */
static tp_status take_list(entry *e, const char *member, tp_text value, const char **list, size_t count) {
  tp_status status = TP_OK;
  if (tp_value_kind_of(value) != TP_VALUE_ARRAY) return refuse_kind(e, member, "an array of texts");
  for (tp_value_walk walk = {0}; status == TP_OK && tp_value_next(value, &walk);) {
    if (tp_value_kind_of(walk.value) != TP_VALUE_TEXT)
      return refuse_no_text(e, member, "an array of texts", walk.value);
    if (count + 1 >= STRINGS_MAX) return refuse_kind(e, member, "as short as it may be");
    status = take_string(e, member, "", tp_value_text(walk.value), &list[count++]);
  }
  return status;
}

/* Takes pairs as "KEY=value" or "Key: value". */
static tp_status take_pairs(entry *e, const char *member, tp_text value, const char *divider, const char **list) {
  tp_status status = TP_OK;
  size_t count = 0;
  if (tp_value_kind_of(value) != TP_VALUE_MAP) return refuse_kind(e, member, "an object of texts");
  for (tp_value_walk walk = {0}; status == TP_OK && tp_value_next(value, &walk);) {
    tp__bytes prefix = {0};
    if (tp_value_kind_of(walk.value) != TP_VALUE_TEXT)
      return refuse_no_text(e, member, "an object of texts", walk.value);
    if (count + 1 >= STRINGS_MAX) return refuse_kind(e, member, "as short as it may be");
    tp__bytes_put_text(&prefix, walk.key);
    tp__bytes_put_string(&prefix, divider);
    status = take_string(e, member, tp__bytes_string(&prefix), tp_value_text(walk.value), &list[count]);
    count++;
    tp__bytes_fini(&prefix);
  }
  return status;
}

/* ---- a server ---- */

/* Whether the member is one of another host's, without effect here. Members that would lift a gate there (autoApprove,
 * alwaysAllow, trust) lift none here: only hooks and the host decide about gates. */
static bool is_of_others(tp_text key) {
  return tp__is_one_of(key, "autoApprove alwaysAllow trust description gallery icon");
}

static void note_config(const tp_mcp_config *config, const char *format, ...) TP__PRINTF(2, 3);
static void note_config(const tp_mcp_config *config, const char *format, ...) {
  char words[512];
  va_list args;
  if (!config->on_note) return;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  tp__make_printable(words);
  config->on_note(config->on_note_ctx, words);
}

/* ---- options of this library ---- */

static const char own_members[] =
    "command args env cwd url headers type disabled allow deny start_limit_ms call_limit_ms result_bytes_max "
    "max_concurrent message_bytes_max changed workspace pins sampling";

static tp_status take_number(const entry *e, tp_text value, uint32_t *ret_number) {
  int64_t number = tp_value_int(value, -1);
  if (number < 1 || number > UINT32_MAX) return refuse_kind(e, e->member, "a whole number from 1 to 4294967295");
  *ret_number = (uint32_t)number;
  return TP_OK;
}

static tp_status take_changed(const entry *e, tp_text value, tp_mcp_changed *ret_changed) {
  tp_text word = tp_value_kind_of(value) == TP_VALUE_TEXT ? tp_value_text(value) : (tp_text){"", 0};
  if (!tp__is_one_of(word, "ask deny")) return refuse_kind(e, "changed", "ask or deny");
  *ret_changed = tp__is_word(word, "deny") ? TP_MCP_CHANGED_DENY : TP_MCP_CHANGED_ASK;
  return TP_OK;
}

static tp_status take_patterns(entry *e, tp_text value, const char **list, const char *const **ret_list,
                               size_t *ret_count) {
  tp_status status = take_list(e, e->member, value, list, 0);
  for (size_t i = 0; status == TP_OK && list[i]; i++)
    if (!list[i][0] || strlen(list[i]) > TP_PATTERN_BYTES_MAX)
      return refuse_kind(e, e->member, "a list of patterns of 1 to 255 bytes");
  *ret_list = list;
  *ret_count = tp_value_count(value);
  return status;
}

static tp_status take_sampling(const entry *e, tp_text value, const tp_mcp_sampling **sampling) {
  if (tp_value_kind_of(value) != TP_VALUE_BOOL) return refuse_kind(e, "sampling", "true or false");
  if (!tp_value_bool(value, false)) *sampling = NULL;
  else if (!*sampling)
    return tp__refuse(e->fault, TP_ERR_MALFORMED, e->name,
                      "sampling of the server %s is true, but there is no model that answers: name one, such as by "
                      "--mcp-sampling MODEL",
                      e->name);
  return TP_OK;
}

/* @return TP_ERR_NOT_FOUND: the key is not one of these options. */
static tp_status take_own_member(entry *e, tp_text key, tp_text value, tp_mcp_options *o) {
  const struct {
    const char *key;
    uint32_t *at;
  } numbers[] = {{"start_limit_ms", &o->start_limit_ms},
                 {"call_limit_ms", &o->call_limit_ms},
                 {"result_bytes_max", &o->result_bytes_max},
                 {"max_concurrent", &o->max_concurrent},
                 {"message_bytes_max", &o->message_bytes_max}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (tp__is_word(key, numbers[i].key)) return take_number(e, value, numbers[i].at);
  if (tp__is_word(key, "allow")) return take_patterns(e, value, e->allow, &o->allow, &o->allow_count);
  if (tp__is_word(key, "deny")) return take_patterns(e, value, e->deny, &o->deny, &o->deny_count);
  if (tp__is_word(key, "changed")) return take_changed(e, value, &o->changed);
  if (tp__is_word(key, "workspace")) return take_config_text(e, "workspace", value, &o->workspace);
  if (tp__is_word(key, "pins")) return take_config_text(e, "pins", value, &o->pins);
  if (tp__is_word(key, "sampling")) return take_sampling(e, value, &o->sampling);
  return TP_ERR_NOT_FOUND;
}

/* ---- members ---- */

static tp_status take_member(entry *e, const tp_mcp_config *config, tp_text key, tp_text value, tp_mcp_options *o) {
  char *shown = e->member;
  tp__show(shown, sizeof e->member, key);
  if (config->has_options) {
    tp_status status = take_own_member(e, key, value, o);
    if (status != TP_ERR_NOT_FOUND) return status;
  }
  if (tp__is_word(key, "command")) {
    o->arguments = e->arguments;
    return take_config_text(e, "command", value, &e->arguments[0]);
  }
  if (tp__is_word(key, "args")) return take_list(e, "args", value, e->arguments, 1);
  if (tp__is_word(key, "env")) {
    o->environment = e->environment;
    return take_pairs(e, "env", value, "=", e->environment);
  }
  if (tp__is_word(key, "cwd")) return take_config_text(e, "cwd", value, &o->directory);
  if (tp__is_one_of(key, "url httpUrl")) return take_config_text(e, "url", value, &o->url);
  if (tp__is_word(key, "headers")) {
    o->headers = e->headers;
    return take_pairs(e, "headers", value, ": ", e->headers);
  }
  if (tp__is_one_of(key, "type transport disabled enabled")) return TP_OK; /* these were read before */
  if (is_of_others(key))
    note_config(config, "the server %s: %s has no effect here: hooks and questions decide", e->name, shown);
  else if (config->has_options)
    return tp__refuse(e->fault, TP_ERR_MALFORMED, e->name, "a server has no member \"%s\", only: %s", shown,
                      own_members);
  else note_config(config, "the server %s: %s is not known here, and has no effect", e->name, shown);
  return TP_OK;
}

/* Whether the server is used; if not, a note gives the reason. */
static bool is_used(const entry *e, const tp_mcp_config *config, tp_text server) {
  tp_text type = tp_value_text(tp_value_get(server, "type"));
  if (type.size == 0) type = tp_value_text(tp_value_get(server, "transport"));
  if (tp_value_bool(tp_value_get(server, "disabled"), false) || !tp_value_bool(tp_value_get(server, "enabled"), true)) {
    note_config(config, "the server %s is disabled in its file", e->name);
    return false;
  }
  if (type.size == 0 || tp__is_one_of(type, "stdio http streamable-http streamableHttp streamable_http")) return true;
  note_config(config, "the server %s is left out: its type \"%.*s\" is none that turnphase has (stdio, http)", e->name,
              tp__cut(type, 32), type.data);
  return false;
}

static tp_status add_server(tp_runtime *runtime, entry *e, const tp_mcp_config *config, tp_text server) {
  tp_mcp_options options = {.struct_size = sizeof options,
                            .name = e->name,
                            .workspace = config->workspace,
                            .pins = config->pins,
                            .changed = config->changed,
                            .ask = config->ask,
                            .ask_ctx = config->ask_ctx,
                            .sampling = config->sampling};
  tp_status status = TP_OK;
  if (tp_value_kind_of(server) != TP_VALUE_MAP)
    return tp__refuse(e->fault, TP_ERR_MALFORMED, e->name, "the server %s is not an object", e->name);
  if (!is_used(e, config, server)) return TP_ERR_STALE;
  for (tp_value_walk walk = {0}; status == TP_OK && tp_value_next(server, &walk);)
    status = take_member(e, config, walk.key, walk.value, &options);
  if (status != TP_OK && e->fault) {
    char subject[sizeof e->fault->subject];
    snprintf(subject, sizeof subject, "%.60s.%s", e->name, e->member);
    snprintf(e->fault->subject, sizeof e->fault->subject, "%s", subject);
  }
  if (status == TP_OK && !e->arguments[0] && !options.url)
    status = tp__refuse(e->fault, TP_ERR_MALFORMED, e->name, "the server %s has neither a command nor a url", e->name);
  return status == TP_OK ? tp_mcp_add(runtime, &options, e->fault) : status;
}

static void entry_fini(entry *e) {
  for (size_t i = 0; i < e->string_count; i++) tp__heap_string_free((char *)(uintptr_t)e->strings[i]);
  tp__heap_free(e, sizeof *e);
}

static tp_status add_servers(tp_runtime *runtime, const tp_mcp_config *config, tp_text servers, size_t *count,
                             tp_fault *fault) {
  if (tp_value_kind_of(servers) != TP_VALUE_MAP)
    return tp__refuse(fault, TP_ERR_MALFORMED, config->path, "\"mcpServers\" is not an object of servers");
  if (tp_value_count(servers) > SERVERS_MAX)
    return tp__refuse(fault, TP_ERR_TOO_LARGE, config->path, "more than %d servers", SERVERS_MAX);
  for (tp_value_walk walk = {0}; tp_value_next(servers, &walk);) {
    char name[TP_ID_BYTES_MAX + 1];
    entry *e = tp__heap_alloc(sizeof *e);
    if (!e) return tp__refuse(fault, TP_ERR_NO_MEMORY, config->path, "no memory for a server");
    tp__show(name, sizeof name, walk.key);
    e->name = name;
    e->fault = fault;
    tp_status status = add_server(runtime, e, config, walk.value);
    entry_fini(e);
    if (status == TP_OK) ++*count;
    else if (status != TP_ERR_STALE) return status;
  }
  return TP_OK;
}

static tp_status read_file(tp_runtime *runtime, const tp_mcp_config *config, size_t *count, tp_fault *fault) {
  tp__bytes bytes = {0};
  tp_writer *writer = NULL;
  tp_text value, servers = {"", 0};
  int error = tp__file_read(AT_FDCWD, config->path, CONFIG_BYTES_MAX, &bytes);
  tp_status status = error == 0 ? tp_writer_new(NULL, &writer)
                                : tp__file_refuse(fault, config->path, error, CONFIG_BYTES_MAX,
                                                  "the servers of %s cannot be read", config->path);
  if (status == TP_OK) status = tp_json_decode(tp__bytes_text(&bytes), writer, fault);
  if (status == TP_OK) status = tp_writer_finish(writer, &value);
  if (status == TP_OK) servers = tp_value_get(value, "mcpServers");
  if (status == TP_OK && servers.size == 0)
    status = tp__refuse(fault, TP_ERR_MALFORMED, config->path, "%s has no \"mcpServers\"", config->path);
  if (status == TP_OK) status = add_servers(runtime, config, servers, count, fault);
  tp_writer_free(writer);
  tp__bytes_fini(&bytes);
  return status;
}

tp_status tp_mcp_config_add(tp_runtime *runtime, const tp_mcp_config *config, size_t *ret_count, tp_fault *fault) {
  tp_mcp_config ours;
  size_t count = 0;
  if (!runtime || !config) return tp__refuse(fault, TP_ERR_USAGE, NULL, "%s is NULL", runtime ? "config" : "runtime");
  tp_status status = tp__struct_read(&ours, sizeof ours, config, "tp_mcp_config", fault);
  if (status == TP_OK && !ours.path == (ours.servers.size == 0))
    status = tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_mcp_config has a path or servers: exactly one");
  if (status == TP_OK)
    status =
        ours.path ? read_file(runtime, &ours, &count, fault) : add_servers(runtime, &ours, ours.servers, &count, fault);
  if (ret_count) *ret_count = count;
  return status;
}
