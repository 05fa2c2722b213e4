/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_read_handler.c: reads what a hook runs: its kind, its program with arguments, variables and sandbox, its
 * endpoint, or its question. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "domains/declared/hook_protocol.h"
#include "domains/declared/hook_reader.h"
#include "domains/declared/trust.h"
#include "domains/declared/webhook.h"

/* ---- variables of its programs ---- */

static const char variable_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

static bool is_variable(const char *name) {
  return name[0] && !strchr("0123456789", name[0]) && name[strspn(name, variable_letters)] == '\0';
}

/* The values of these variables name code that a trust would not cover. */
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

static tp_status check_variable(tp__hook_reader *reader, uint32_t index, const char *key, const char *name) {
  if (!is_variable(name))
    return REFUSE(reader, TP_ERR_MALFORMED, index, "%s: \"%s\" is no name of a variable: letters, digits and _", key,
                  name);
  if (!names_code(name)) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, index,
                "%s: %s names code, which a trust would not be about: set it in the command, such as [sh, -c, \"…\"]",
                key, name);
}

/* Replaces a variable of the same name, or appends one. */
static tp_status set_variable(tp__hook_reader *reader, tp__hook *hook, uint32_t index, const char *name,
                              const char *value) {
  size_t at = 0, size = strlen(name);
  for (; hook->environment[at]; at++)
    if (strncmp(hook->environment[at], name, size) == 0 && hook->environment[at][size] == '=') break;
  if (at == TP__HOOK_ENVIRONMENT_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, index, "more than %d variables", TP__HOOK_VARIABLES_MAX);
  hook->environment[at] = tp__hooks_pair(reader->hooks, name, value);
  return hook->environment[at] ? TP_OK : tp__reader_no_memory(reader);
}

static tp_status take_scalar(tp__hook_reader *reader, uint32_t index, const char *key, const char **ret_text) {
  const tp__yaml_item *item = &reader->yaml.items[index];
  char text[40];
  if (item->kind == TP_VALUE_INT) snprintf(text, sizeof text, "%lld", (long long)item->as.integer);
  else if (item->kind == TP_VALUE_BOOL) snprintf(text, sizeof text, "%s", item->as.boolean ? "true" : "false");
  else return tp__reader_take_text(reader, index, key, ret_text);
  *ret_text = tp__hooks_copy(reader->hooks, tp_text_of(text));
  return *ret_text ? TP_OK : tp__reader_no_memory(reader);
}

static tp_status read_env(tp__hook_reader *reader, tp__hook *hook) {
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "env");
  if (map == 0) return TP_OK;
  TP__TRY(tp__reader_expect(reader, map, "env", TP_VALUE_MAP, "a map from names of variables to their values"));
  if (reader->yaml.items[map].count > TP__HOOK_VARIABLES_MAX / 2)
    return REFUSE(reader, TP_ERR_TOO_LARGE, map, "env has more than %d variables", TP__HOOK_VARIABLES_MAX / 2);
  for (uint32_t key = map + 1; key < reader->yaml.items[map].end; key = reader->yaml.items[key + 1].end) {
    const char *name, *value;
    TP__TRY(tp__reader_take_text(reader, key, "the name of a variable", &name));
    TP__TRY(check_variable(reader, key, "env", name));
    TP__TRY(take_scalar(reader, key + 1, name, &value));
    TP__TRY(set_variable(reader, hook, key, name, value));
  }
  return TP_OK;
}

static tp_status pass_variable(tp__hook_reader *reader, tp__hook *hook, uint32_t index, const char *name) {
  const char *value = getenv(name);
  return value ? set_variable(reader, hook, index, name, value) : TP_OK;
}

/* TEAM_* means all variables of the host whose names begin with TEAM_, except those that name code. */
static tp_status pass_prefix(tp__hook_reader *reader, tp__hook *hook, uint32_t index, const char *prefix, size_t size) {
  for (char **each = environ; *each; each++) {
    size_t length = strcspn(*each, "=");
    const char *name = tp__hooks_copy(reader->hooks, (tp_text){*each, length});
    if (!name) return tp__reader_no_memory(reader);
    if (length < size || strncmp(name, prefix, size) != 0 || !is_variable(name) || names_code(name)) continue;
    TP__TRY(pass_variable(reader, hook, index, name));
  }
  return TP_OK;
}

/* Reads variables of the host's environment, with the values at the time when the file is read. */
static tp_status read_pass_env(tp__hook_reader *reader, tp__hook *hook) {
  const char *names[TP__HOOK_VARIABLES_MAX / 2];
  size_t count = 0;
  uint32_t index;
  TP__TRY(tp__reader_get_texts(reader, 0, "pass_env", names, TP__HOOK_VARIABLES_MAX / 2, &count, &index));
  for (size_t i = 0; i < count; i++) {
    size_t size = strlen(names[i]);
    bool is_prefix = size > 0 && names[i][size - 1] == '*';
    const char *name = is_prefix ? tp__hooks_copy(reader->hooks, (tp_text){names[i], size - 1}) : names[i];
    if (!name) return tp__reader_no_memory(reader);
    if (is_prefix && size == 1)
      return REFUSE(reader, TP_ERR_MALFORMED, index,
                    "pass_env: \"*\" would pass all of the host's environment: name "
                    "the variables, or begin with what they begin with: TEAM_*");
    TP__TRY(check_variable(reader, index, "pass_env", name));
    TP__TRY(is_prefix ? pass_prefix(reader, hook, index, name, size - 1) : pass_variable(reader, hook, index, name));
  }
  return TP_OK;
}

/* Variables that the file sets win over those that it passes. */
tp_status tp__hook_read_variables(tp__hook_reader *reader, tp__hook *hook) {
  TP__TRY(read_pass_env(reader, hook));
  return read_env(reader, hook);
}

/* Of a kind that starts none of its own. */
static tp_status check_has_program(tp__hook_reader *reader, const tp__hook *hook) {
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

/* Reads "$NAME/…" or "${NAME}/…", with the value that a program will get. @return the size of the variable; 0: there is
 * none. */
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

/* @param quotes  true: quotes are removed, as a shell would do. @return false when the result is too long. */
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

static tp_status expand_arguments(tp__hook_reader *reader, tp__hook *hook) {
  for (size_t i = 0; i < hook->argument_count; i++) {
    char text[4096];
    if (!strchr(hook->arguments[i], '$')) continue;
    if (!expand(hook, hook->arguments[i], strlen(hook->arguments[i]), "", text, sizeof text))
      return REFUSE(reader, TP_ERR_TOO_LARGE, 0, "an argument of command is longer than %zu bytes", sizeof text - 1);
    hook->arguments[i] = tp__hooks_copy(reader->hooks, tp_text_of(text));
    if (!hook->arguments[i]) return tp__reader_no_memory(reader);
  }
  return TP_OK;
}

/* ---- handler ---- */

static const char *joined(tp_hooks *hooks, const char *folder, const char *name) {
  char text[4096];
  int size = snprintf(text, sizeof text, "%s/%s", folder, name);
  return size > 0 && (size_t)size < sizeof text ? tp__hooks_copy(hooks, tp_text_of(text)) : NULL;
}

/* A program without a slash is searched in PATH, once. A name that is not found is not changed, and cannot start. */
static const char *find_program(tp_hooks *hooks, const char *name) {
  char path[4096];
  bool is_found = tp__trust_look_up(hooks->environment[0] + strlen("PATH="), name, path, sizeof path);
  return is_found ? tp__hooks_copy(hooks, tp_text_of(path)) : joined(hooks, hooks->root, name);
}

static const char *path_in_root(tp_hooks *hooks, const char *name) {
  return name[0] == '/' ? name : joined(hooks, hooks->root, name);
}

tp_status tp__hook_read_command(tp__hook_reader *reader, tp__hook *hook, uint32_t map) {
  uint32_t index;
  TP__TRY(tp__reader_get_texts(reader, map, "command", hook->arguments, TP__HOOK_ARGUMENTS_MAX, &hook->argument_count,
                               &index));
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
  hook->arguments[0] = strchr(hook->arguments[0], '/') ? path_in_root(reader->hooks, hook->arguments[0])
                                                       : find_program(reader->hooks, hook->arguments[0]);
  return hook->arguments[0] ? TP_OK : tp__reader_no_memory(reader);
}

static tp_status read_question(tp__hook_reader *reader, tp__hook *hook, uint32_t map) {
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
  TP__TRY(tp__reader_get_text(reader, map, key, &hook->question));
  if (hook->question[0] || hook->kind == TP__HOOK_ALLOW) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, map, key), "%s is empty", key);
}

/* ---- sandbox ---- */

static tp_status read_sandbox_paths(tp__hook_reader *reader, uint32_t map, const char *key, const char **paths,
                                    size_t *ret_count) {
  uint32_t index;
  TP__TRY(tp__reader_get_texts(reader, map, key, paths, TP__SANDBOX_PATHS_MAX, ret_count, &index));
  for (size_t i = 0; i < *ret_count; i++) {
    paths[i] = path_in_root(reader->hooks, paths[i]);
    if (!paths[i]) return tp__reader_no_memory(reader);
    if (access(paths[i], F_OK) != 0)
      return REFUSE(reader, TP_ERR_MALFORMED, index, "%s of the sandbox names %s, which is not there", key, paths[i]);
  }
  return TP_OK;
}

static tp_status read_sandbox_map(tp__hook_reader *reader, tp__sandbox *sandbox, uint32_t map) {
  static const char *const numbers[TP__SANDBOX_NUMBERS] = {"memory_mib", "cpu_s", "processes", "file_mib"};
  TP__TRY(tp__reader_expect_map(reader, map, "sandbox", TP__MAP_SANDBOX));
  TP__TRY(read_sandbox_paths(reader, map, "read", sandbox->reads, &sandbox->read_count));
  TP__TRY(read_sandbox_paths(reader, map, "write", sandbox->writes, &sandbox->write_count));
  TP__TRY(tp__reader_get_keys(reader, map, TP__MAP_SANDBOX, TP__OWNER_tp__sandbox, sandbox));
  for (size_t i = 0; i < TP__SANDBOX_NUMBERS; i++) {
    int64_t number = 0;
    char text[32];
    TP__TRY(tp__reader_get_number(reader, map, numbers[i], 1, 1 << 20, &number));
    if (number == 0) continue;
    snprintf(text, sizeof text, "%lld", (long long)number);
    sandbox->numbers[i] = tp__hooks_copy(reader->hooks, tp_text_of(text));
    if (!sandbox->numbers[i]) return tp__reader_no_memory(reader);
  }
  return TP_OK;
}

tp_status tp__hook_read_sandbox(tp__hook_reader *reader, tp__hook *hook, uint32_t handler) {
  tp__sandbox *sandbox = &hook->sandbox;
  uint32_t index = tp__yaml_get(&reader->yaml, handler, "sandbox");
  sandbox->is_on = index != 0 || reader->hooks->sandboxes_all;
  if (index != 0 && reader->yaml.items[index].kind == TP_VALUE_MAP) TP__TRY(read_sandbox_map(reader, sandbox, index));
  else TP__TRY(tp__reader_get_bool(reader, handler, "sandbox", &sandbox->is_on));
  if (!sandbox->is_on && reader->hooks->sandboxes_all)
    return REFUSE(reader, TP_ERR_PRIVILEGED, index, "the operator demands a sandbox for every program");
  hook->started = hook->arguments;
  if (!sandbox->is_on) return TP_OK;
  const char **started = tp__hooks_alloc(reader->hooks, TP__SANDBOX_ARGUMENTS_MAX * sizeof *started);
  if (!started) return tp__reader_no_memory(reader);
  hook->started = started;
  const char *programs[TP__HOOK_FILES_MAX];
  size_t count = 0;
  for (size_t i = 0; i < hook->trusted_count; i++)
    if (!hook->trusted[i]->is_loaded || hook->trusted[i]->is_code) programs[count++] = hook->trusted[i]->path;
  if (tp__sandbox_arguments(sandbox, reader->hooks->helper, programs, count, hook->arguments, started)) return TP_OK;
  return REFUSE(reader, TP_ERR_TOO_LARGE, index, "the program and its sandbox have too many arguments");
}

/* ---- webhook ---- */

/* Expands "Bearer ${NAME}", with the host's own environment. */
static tp_status read_header_value(tp__hook_reader *reader, uint32_t index, tp__bytes *line) {
  const char *text;
  TP__TRY(tp__reader_take_text(reader, index, "the value of a header", &text));
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

/* Headers of the request itself. A file that set one of them could make the endpoint read another request. */
static bool is_of_request(tp_text name) {
  static const char *const taken[] = {"content-length", "transfer-encoding", "content-encoding", "host",
                                      "connection",     "keep-alive",        "expect",           "te",
                                      "trailer",        "upgrade",           "proxy-connection"};
  for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
    if (strlen(taken[i]) == name.size && strncasecmp(taken[i], name.data, name.size) == 0) return true;
  return false;
}

/* Sets a variable of the helper's environment: NAME=Header: value. */
static tp_status read_header(tp__hook_reader *reader, tp__hook *hook, uint32_t key, size_t number, size_t at) {
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
  if (status == TP_OK && line.failed) status = tp__reader_no_memory(reader);
  if (status == TP_OK && (memchr(line.data, '\n', line.size) || memchr(line.data, '\r', line.size)))
    status = REFUSE(reader, TP_ERR_MALFORMED, key + 1, "the value of a header has a line end in it");
  if (status == TP_OK) hook->environment[at] = tp__hooks_copy(reader->hooks, (tp_text){line.data, line.size});
  if (status == TP_OK && !hook->environment[at]) status = tp__reader_no_memory(reader);
  tp__bytes_fini(&line);
  return status;
}

static tp_status read_webhook_headers(tp__hook_reader *reader, tp__hook *hook, uint32_t handler) {
  uint32_t map = tp__yaml_get(&reader->yaml, handler, "headers");
  size_t at = 0;
  while (hook->environment[at]) at++;
  if (map == 0) return TP_OK;
  TP__TRY(tp__reader_expect(reader, map, "headers", TP_VALUE_MAP, "a map of headers"));
  if (reader->yaml.items[map].count > TP__WEBHOOK_HEADERS_MAX)
    return REFUSE(reader, TP_ERR_TOO_LARGE, map, "more than %d headers", TP__WEBHOOK_HEADERS_MAX);
  size_t number = 0;
  for (uint32_t key = map + 1; key < reader->yaml.items[map].end; key = reader->yaml.items[key + 1].end)
    TP__TRY(read_header(reader, hook, key, number++, at++));
  return TP_OK;
}

/* What is run is the helper. */
static tp_status read_webhook(tp__hook_reader *reader, tp__hook *hook, uint32_t map) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, "url");
  if (index == 0) return REFUSE(reader, TP_ERR_MALFORMED, map, "a webhook needs url: https://…");
  TP__TRY(tp__reader_take_text(reader, index, "url", &hook->url));
  tp__webhook_url url;
  const char *wrong = tp__webhook_read_url(hook->url, &url);
  if (wrong) return REFUSE(reader, TP_ERR_MALFORMED, index, "the url cannot be used: %s", wrong);
  if (!tp__webhook_allows(reader->hooks->webhook_hosts, &url))
    return REFUSE(reader, TP_ERR_PRIVILEGED, index,
                  "the operator does not allow webhooks to %s:%u (tp_hooks_options.webhook_hosts, --webhook)", url.host,
                  url.port);
  TP__TRY(read_webhook_headers(reader, hook, map));
  size_t at = 0;
  while (hook->environment[at]) at++;
  assert(at < TP__HOOK_ENVIRONMENT_MAX);
  hook->environment[at] = tp__hooks_pair(reader->hooks, TP__WEBHOOK_URL, hook->url);
  hook->arguments[0] = reader->hooks->webhook_helper;
  hook->arguments[1] = tp__hooks_copy(reader->hooks, tp_text_of(url.host));
  hook->argument_count = 2;
  hook->started = hook->arguments;
  tp_text shown = {hook->url, url.shown_size};
  hook->shown_url = tp__hooks_copy(reader->hooks, shown);
  return hook->environment[at] && hook->arguments[1] && hook->shown_url ? TP_OK : tp__reader_no_memory(reader);
}

/* ---- a question to a model ---- */

/* In the other host, the limit for these hooks is shorter than for programs. */
static tp_status read_prompt(tp__hook_reader *reader, tp__hook *hook, uint32_t map, bool has_limit) {
  uint32_t model = tp__yaml_get(&reader->yaml, map, "model");
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

static tp_status check_keys(tp__hook_reader *reader, const struct kind *kind, uint32_t map) {
  size_t at = 0;
  for (const char *name; (name = tp__hook_key_next(TP__MAP_HANDLER, &at));) {
    uint32_t index = tp__yaml_get(&reader->yaml, map, name);
    tp_text text = tp_text_of(name);
    if (index != 0 && !tp__is_one_of(text, "kind timeout_ms") && !tp__is_one_of(text, kind->keys))
      return REFUSE(reader, TP_ERR_MALFORMED, index, "a handler of kind %s has no %s", kind->name, name);
  }
  return TP_OK;
}

static tp_status read_frames(tp__hook_reader *reader, tp__hook *hook, uint32_t map) {
  const char *frames = "json";
  if (hook->protocol)
    return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, map, "kind"),
                  "a worker speaks our own protocol: a hook of another host is a script");
  TP__TRY(tp__reader_get_text(reader, map, "frames", &frames));
  hook->is_msgpack = strcmp(frames, "msgpack") == 0;
  if (hook->is_msgpack || strcmp(frames, "json") == 0) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, map, "frames"),
                "frames are json or msgpack, not \"%s\"", frames);
}

static tp_status read_handler(tp__hook_reader *reader, tp__hook *hook) {
  uint32_t map = tp__yaml_get(&reader->yaml, 0, "handler");
  if (map == 0) return REFUSE(reader, TP_ERR_MALFORMED, 0, "a hook needs handler: {kind: script, command: …}");
  TP__TRY(tp__reader_expect_map(reader, map, "handler", TP__MAP_HANDLER));
  const char *kind = "script";
  TP__TRY(tp__reader_get_text(reader, map, "kind", &kind));
  TP__TRY(tp__reader_get_keys(reader, map, TP__MAP_HANDLER, TP__OWNER_tp__hook, hook));
  bool has_limit = hook->limit_ms > 0;
  if (!has_limit && hook->protocol)
    hook->limit_ms = hook->protocol == TP__PROTOCOL_GEMINI ? TP__GEMINI_LIMIT_MS : hook->protocol_event->limit_ms;
  const struct kind *row = find_kind(kind);
  if (!row)
    return REFUSE(
        reader, TP_ERR_MALFORMED, tp__yaml_get(&reader->yaml, map, "kind"),
        "there is no kind \"%s\": script, worker, log, save_json, approve, ask, deny, allow, webhook, prompt, "
        "agent",
        kind);
  TP__TRY(check_keys(reader, row, map));
  hook->kind = row->kind;
  hook->kind_name = row->name;
  hook->is_agent = strcmp(row->name, "agent") == 0;
  if (hook->kind == TP__HOOK_WORKER) TP__TRY(read_frames(reader, hook, map));
  if (tp__hook_is_native(hook)) return read_question(reader, hook, map);
  if (hook->kind == TP__HOOK_PROMPT) return read_prompt(reader, hook, map, has_limit);
  if (hook->kind == TP__HOOK_WEBHOOK) return read_webhook(reader, hook, map);
  if (!strstr(row->keys, "command")) {
    const char *path = NULL;
    TP__TRY(tp__reader_get_text(reader, map, "path", &path));
    if (!path || !path[0])
      return REFUSE(reader, TP_ERR_MALFORMED, map, "this kind needs path: the file that is written");
    hook->path = path_in_root(reader->hooks, path);
    return hook->path ? TP_OK : tp__reader_no_memory(reader);
  }
  TP__TRY(tp__hook_read_command(reader, hook, map));
  return tp__hook_read_sandbox(reader, hook, map);
}

tp_status tp__hook_read_handler(tp__hook_reader *reader, tp__hook *hook) {
  TP__TRY(read_handler(reader, hook));
  return check_has_program(reader, hook);
}
