/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_import.c: the action import. Each entry becomes a YAML file, which the library reads in a directory of its own:
 * what it refuses is left out with its words, so that the report says what a commit will. */
#include "cli/hooks/hooks_import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/hooks/hooks.h"
#include "cli/run/host.h"

enum { PATH_SIZE = 4096, BUDGET_MS = 30000 /* of a phase in which nothing required needs more */ };

/* ---- YAML ---- */

static void put_string(tp__bytes *t, const char *string) { cli_buffer_add(t, string, strlen(string)); }

/* A JSON string is a double-quoted scalar of YAML. */
static void put_quoted(tp__bytes *t, const char *string, size_t size) {
  tp_writer *writer;
  tp_text value;
  cli_need(tp_writer_new(NULL, &writer));
  tp_write_text(writer, (tp_text){string, size});
  cli_need(tp_writer_finish(writer, &value));
  cli_need(cli_buffer_add_json(t, value, NULL));
  tp_writer_free(writer);
}

static void put_pair(tp__bytes *t, const char *key, const char *value) {
  put_string(t, key);
  put_string(t, ": ");
  put_quoted(t, value, strlen(value));
  cli_buffer_add(t, "\n", 1);
}

static bool is_of_tools(const cli_entry *entry) { return strstr(entry->event, "Tool") != NULL; }

/* "shell=Bash" or "shell=Bash:cmd=command,dir=path". */
static void put_tool(tp__bytes *t, const char *word) {
  size_t ours = strcspn(word, "="), theirs = strcspn(word + ours + 1, ":");
  const char *name = word + ours + 1, *arguments = name[theirs] ? name + theirs + 1 : NULL;
  put_string(t, "  ");
  put_quoted(t, word, ours);
  put_string(t, ": {name: ");
  put_quoted(t, name, theirs);
  if (arguments) put_string(t, ", arguments: {");
  for (bool first = true; arguments && *arguments; first = false) {
    size_t size = strcspn(arguments, ","), left = strcspn(arguments, "=");
    if (!first) put_string(t, ", ");
    put_quoted(t, arguments, left);
    put_string(t, ": ");
    put_quoted(t, arguments + left + 1, size - left - 1);
    arguments += size + (arguments[size] == ',');
  }
  put_string(t, arguments ? "}}\n" : "}\n");
}

static bool is_pair(const char *word, size_t size) {
  const char *equals = memchr(word, '=', size);
  return equals && equals > word && equals < word + size - 1 &&
         !memchr(equals + 1, '=', (size_t)(word + size - equals - 1));
}

static bool check_tool(const char *word) {
  size_t head = strcspn(word, ":");
  bool is_good = strlen(word) < 256 && tp_utf8_valid(tp_text_of(word), NULL) && is_pair(word, head);
  for (const char *at = word[head] ? word + head + 1 : NULL; is_good && at;) {
    size_t size = strcspn(at, ",");
    is_good = is_pair(at, size);
    at = at[size] ? at + size + 1 : NULL;
  }
  if (!is_good) cli_error("--tool takes OURS=THEIRS, or OURS=THEIRS:ARGUMENT=THEIRS,…, not '%s'", word);
  return is_good;
}

static bool rewrites(const cli_arguments *arguments, const cli_entry *entry) {
  bool has_something = is_of_tools(entry) && strcmp(entry->event, "PostToolBatch") != 0;
  return arguments->rewrite && has_something && !entry->is_async;
}

static void put_endpoint(tp__bytes *t, const cli_entry *entry) {
  put_string(t, "  ");
  put_pair(t, "url", entry->url);
  if (entry->header_count > 0) put_string(t, "  headers:\n");
  for (size_t i = 0; i < entry->header_count; i++) {
    put_string(t, "    ");
    put_quoted(t, entry->headers[i][0], strlen(entry->headers[i][0]));
    put_string(t, ": ");
    put_quoted(t, entry->headers[i][1], strlen(entry->headers[i][1]));
    put_string(t, "\n");
  }
}

/* Of the file and of the entry, which counts. */
static void put_variables(tp__bytes *t, const cli_variables *of_file, const cli_variables *own) {
  if (of_file->count + own->count > 0) put_string(t, "env:\n");
  for (size_t i = 0; i < of_file->count + own->count; i++) {
    const char *const *pair = i < own->count ? own->items[i] : of_file->items[i - own->count];
    bool is_set = false;
    for (size_t j = 0; i >= own->count && j < own->count; j++) is_set |= strcmp(own->items[j][0], pair[0]) == 0;
    if (is_set) continue;
    put_string(t, "  ");
    put_quoted(t, pair[0], strlen(pair[0]));
    put_string(t, ": ");
    put_quoted(t, pair[1], strlen(pair[1]));
    put_string(t, "\n");
  }
}

static void put_passed(tp__bytes *t, const cli_words *names) {
  if (names->count > 0) put_string(t, "pass_env:\n");
  for (size_t i = 0; i < names->count; i++) {
    put_string(t, "  - ");
    put_quoted(t, names->items[i], strlen(names->items[i]));
    put_string(t, "\n");
  }
}

static void write_yaml(const cli_settings *settings, const cli_arguments *arguments, const cli_entry *entry,
                       tp__bytes *t) {
  char number[64];
  put_string(t, "# Written by turnphase hooks import.\n");
  put_pair(t, "id", entry->id);
  put_pair(t, "protocol", settings->protocol);
  put_pair(t, "event", entry->event);
  if (settings->disabled) put_string(t, "enabled: false\n");
  if (entry->is_async) put_string(t, "blocking: false\n");
  put_string(t, entry->fails_closed ? "failure: required       # no answer stops the action\n"
                                    : "failure: best_effort    # no answer lets the action go on\n");
  if (entry->matcher || entry->rule) put_string(t, "match:\n");
  if (entry->matcher) {
    put_string(t, "  ");
    put_pair(t, "matcher", entry->matcher);
  }
  if (entry->rule) {
    put_string(t, "  ");
    put_pair(t, "if", entry->rule);
  }
  if (rewrites(arguments, entry)) put_string(t, "rewrite: true          # it may change arguments and results\n");
  if (settings->plugin_root) put_pair(t, "plugin_root", settings->plugin_root);
  if (!entry->url) put_variables(t, &settings->variables, &entry->variables);
  if (!entry->url) put_passed(t, &arguments->pass_env);
  if (is_of_tools(entry) && arguments->tools.count > 0) {
    put_string(t, "tools:\n");
    for (size_t i = 0; i < arguments->tools.count; i++) put_tool(t, arguments->tools.items[i]);
  }
  put_string(t, entry->url ? "handler:\n  kind: webhook\n" : "handler:\n  kind: script\n");
  snprintf(number, sizeof number, "  timeout_ms: %lld\n", (long long)entry->timeout_ms);
  if (entry->timeout_ms > 0) put_string(t, number);
  if (entry->url) {
    put_endpoint(t, entry);
    return;
  }
  put_string(t, "  command:\n");
  for (size_t i = 0; i < entry->argument_count; i++) {
    put_string(t, "    - ");
    put_quoted(t, entry->arguments[i], strlen(entry->arguments[i]));
    cli_buffer_add(t, "\n", 1);
  }
}

/* ---- files ---- */

/* @return 0 or errno. */
static int write_new(const char *path, const char *bytes) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644), error = 0;
  if (fd < 0) return errno;
  for (size_t left = strlen(bytes); left > 0 && error == 0;) {
    ssize_t written = write(fd, bytes, left);
    if (written > 0) bytes += written, left -= (size_t)written;
    else if (errno != EINTR) error = errno;
  }
  if (close(fd) != 0 && error == 0) error = errno;
  return error;
}

/* ---- what the library says ---- */

typedef struct importer {
  const cli_arguments *arguments;
  cli_output *output;
  cli_settings settings;
  tp_runtime *runtime;
  char folder[64]; /* a directory of its own */
  size_t taken;
} importer;

static bool take_info(void *ctx, const tp_hook_info *info) {
  *(tp_hook_info *)ctx = *info;
  return false;
}

static const char *copy(importer *m, const char *string) {
  return cli_pool_copy(&m->settings.pool, tp_text_of(string));
}

static int check_entry(importer *m, cli_entry *entry) {
  char path[96];
  snprintf(path, sizeof path, "%s/a.yaml", m->folder);
  int error = write_new(path, entry->yaml);
  if (error != 0) {
    cli_error_at(path, 0, 0, "%s", strerror(error));
    return CLI_IO;
  }
  const char *const endpoints[] = {entry->endpoint, NULL};
  bool is_endpoint = entry->url && entry->endpoint[0] && !strpbrk(entry->endpoint, "@%\\ ");
  tp_hooks_options options = {.struct_size = sizeof options,
                              .directory = m->folder,
                              .grants = TP_GRANT_REWRITE,
                              .webhook_hosts = is_endpoint ? endpoints : NULL};
  tp_hooks *hooks;
  tp_fault fault = {0};
  tp_hook_info info = {0};
  tp_status status = tp_hooks_read(m->runtime, &options, &hooks, &fault);
  unlink(path);
  if (status == TP_ERR_NO_MEMORY) return cli_fault(NULL, status, &fault);
  if (status != TP_OK) {
    entry->left_out = copy(m, fault.message);
    return CLI_OK;
  }
  tp_hooks_each(hooks, take_info, &info);
  const tp_phase *row = tp_phase_get(m->runtime, info.phase);
  entry->phase = row->name;
  entry->is_cut = !entry->fails_closed && info.blocking && info.limit_ms > BUDGET_MS && row->mode != TP_MODE_OBSERVE;
  if (entry->is_cut && entry->timeout_ms > 0 && entry->note_count < CLI_NOTES_MAX)
    entry->notes[entry->note_count++] = "it gets the 30 s of its phase, whatever its own limit is";
  m->taken++;
  tp_hooks_free(hooks);
  return CLI_OK;
}

/* PreToolUse -> pre-tool-use */
static void write_name(const char *event, char *ret_name, size_t size) {
  size_t used = 0;
  for (; *event && used + 3 < size; event++) {
    bool is_upper = *event >= 'A' && *event <= 'Z';
    if (is_upper && used > 0) ret_name[used++] = '-';
    ret_name[used++] = is_upper ? (char)(*event - 'A' + 'a') : *event;
  }
  ret_name[used] = '\0';
}

/* Phases that only observe have no policy to close. */
static void choose_policy(const importer *m, cli_entry *entry) {
  if (m->arguments->fail_closed && entry->is_guard) entry->fails_closed = true;
  if (!entry->fails_closed || (entry->is_guard && !entry->is_async)) return;
  entry->fails_closed = false;
  if (entry->note_count < CLI_NOTES_MAX)
    entry->notes[entry->note_count++] = "it cannot fail closed: nothing waits for its answer";
}

static int prepare_entry(importer *m, size_t index) {
  cli_entry *entry = &m->settings.entries[index];
  char name[64], id[96];
  if (entry->left_out) return CLI_OK;
  choose_policy(m, entry);
  write_name(entry->event, name, sizeof name);
  snprintf(id, sizeof id, "%s-%zu", name, index + 1);
  entry->id = copy(m, id);
  tp__bytes t = {0};
  write_yaml(&m->settings, m->arguments, entry, &t);
  entry->yaml = copy(m, tp__bytes_string(&t));
  tp__bytes_fini(&t);
  return check_entry(m, entry);
}

/* The library says which names of variables a hook may have; one that it refuses is left out. */
static int check_variable(importer *m, const char *name, const char **ret_why) {
  cli_entry probe = {.event = "", .command = "", .fails_closed = true};
  tp__bytes t = {0};
  put_string(&t, "id: a\nevent: tool.pre\nhandler: {command: \"/\"}\nenv:\n  ");
  put_quoted(&t, name, strlen(name));
  put_string(&t, ": \"\"\n");
  probe.yaml = copy(m, tp__bytes_string(&t));
  tp__bytes_fini(&t);
  int status = check_entry(m, &probe);
  if (!probe.left_out) m->taken--;
  *ret_why = probe.left_out;
  return status;
}

static int check_variables(importer *m, cli_variables *variables) {
  size_t kept = 0;
  for (size_t i = 0; i < variables->count; i++) {
    const char *why = NULL;
    int status = check_variable(m, variables->items[i][0], &why);
    if (status != CLI_OK) return status;
    if (why && m->settings.note_count < CLI_FILE_NOTES_MAX) m->settings.notes[m->settings.note_count++] = why;
    if (!why) memcpy(variables->items[kept++], variables->items[i], sizeof variables->items[i]);
  }
  variables->count = kept;
  return CLI_OK;
}

static int prepare(importer *m) {
  const char *tmp = getenv("TMPDIR");
  snprintf(m->folder, sizeof m->folder, "%s/turnphase-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
  if (!mkdtemp(m->folder)) {
    cli_error_at(m->folder, 0, 0, "%s", strerror(errno));
    m->folder[0] = '\0';
    return CLI_IO;
  }
  int status = check_variables(m, &m->settings.variables);
  for (size_t i = 0; i < m->settings.count && status == CLI_OK; i++) {
    status = check_variables(m, &m->settings.entries[i].variables);
    if (status == CLI_OK) status = prepare_entry(m, i);
  }
  rmdir(m->folder);
  return status;
}

/* ---- writing ---- */

static void path_of(const importer *m, size_t index, char ret_path[PATH_SIZE]) {
  snprintf(ret_path, PATH_SIZE, "%s/%03zu-%s.yaml", m->arguments->write, index + 1, m->settings.entries[index].id);
}

static void take_back(const importer *m, size_t count, bool made) {
  char path[PATH_SIZE];
  for (size_t i = 0; i < count; i++) {
    if (m->settings.entries[i].left_out) continue;
    path_of(m, i, path);
    unlink(path);
  }
  if (made) rmdir(m->arguments->write);
}

static int write_all(const importer *m) {
  char path[PATH_SIZE];
  bool made = mkdir(m->arguments->write, 0755) == 0;
  int error = made || errno == EEXIST ? 0 : errno;
  snprintf(path, sizeof path, "%s", m->arguments->write);
  size_t i = 0;
  for (; error == 0 && i < m->settings.count; i++) {
    if (m->settings.entries[i].left_out) continue;
    path_of(m, i, path);
    error = write_new(path, m->settings.entries[i].yaml);
    if (error != 0) break;
  }
  if (error == 0) return CLI_OK;
  if (error != EEXIST && i < m->settings.count) unlink(path);
  take_back(m, i, made);
  cli_error_at(path, 0, 0, "%s%s", strerror(error),
               error == EEXIST ? ": nothing is overwritten, and nothing written" : "");
  return error == EEXIST ? CLI_CONFIG : CLI_IO;
}

/* ---- the report ---- */

static void print_string(const importer *m, const char *string) { cli_hooks_print_text(m->output, tp_text_of(string)); }

static void print_entry(const importer *m, const cli_entry *entry) {
  print_string(m, entry->event);
  cli_print_string(m->output, "  ");
  if (entry->matcher) print_string(m, entry->matcher);
  if (entry->matcher) cli_print_string(m->output, "  ");
  if (entry->rule) print_string(m, entry->rule);
  if (entry->rule) cli_print_string(m->output, "  ");
  print_string(m, entry->command);
  cli_print_string(m->output, "\n  ");
  if (entry->left_out) {
    cli_print_string(m->output, "no place: ");
    print_string(m, entry->left_out);
  } else {
    cli_printf(m->output, "%s in %s", entry->id, entry->phase);
    if (entry->is_guard && !entry->is_async)
      cli_print_string(m->output, entry->fails_closed ? "; fails closed: without an answer the action is stopped"
                                                      : "; FAILS OPEN: without an answer the action goes on "
                                                        "(--fail-closed stops it)");
  }
  cli_print_string(m->output, "\n");
  for (size_t i = 0; i < entry->note_count; i++) {
    cli_print_string(m->output, "  note: ");
    print_string(m, entry->notes[i]);
    cli_print_string(m->output, "\n");
  }
}

static bool any_of_tools(const importer *m) {
  for (size_t i = 0; i < m->settings.count; i++)
    if (!m->settings.entries[i].left_out && is_of_tools(&m->settings.entries[i])) return true;
  return false;
}

static bool any_cut(const importer *m) {
  for (size_t i = 0; i < m->settings.count; i++)
    if (m->settings.entries[i].is_cut) return true;
  return false;
}

static void print_report(const importer *m) {
  size_t left_out = m->settings.count - m->taken;
  for (size_t i = 0; i < m->settings.count; i++) print_entry(m, &m->settings.entries[i]);
  if (!m->arguments->rewrite && any_of_tools(m))
    cli_print_string(m->output,
                     "what they rewrite is not taken, and a call whose arguments one rewrites is denied "
                     "(--rewrite takes it)\n");
  if (any_cut(m))
    cli_print_string(m->output,
                     "limits above 30 s are those of hooks that fail closed, or observe: the others get the 30 s of "
                     "their phase, and then the action goes on\n");
  if (m->settings.disabled)
    cli_print_string(m->output, "their host has all hooks off: all of them are written with enabled: false\n");
  for (size_t i = 0; i < m->settings.variables.count; i++) {
    cli_print_string(m->output, i == 0 ? "each program gets " : ", ");
    print_string(m, m->settings.variables.items[i][0]);
  }
  if (m->settings.variables.count > 0) cli_print_string(m->output, " of env\n");
  for (size_t i = 0; i < m->settings.note_count; i++) {
    cli_print_string(m->output, "note: ");
    print_string(m, m->settings.notes[i]);
    cli_print_string(m->output, "\n");
  }
  cli_printf(m->output, "%zu %s, %zu ha%s no place\n", m->taken, m->arguments->write ? "written" : "would be written",
             left_out, left_out == 1 ? "s" : "ve");
  if (m->arguments->write) cli_printf(m->output, "look at them, then: turnphase hooks trust %s\n", m->arguments->write);
  else cli_print_string(m->output, "--write DIR writes them\n");
}

static void add_entry(cli_map *p, const cli_entry *entry) {
  cli_map_open(p, NULL);
  cli_map_add_string(p, "event", entry->event);
  cli_map_add_string(p, "matcher", entry->matcher ? entry->matcher : "");
  cli_map_add_string(p, "if", entry->rule ? entry->rule : "");
  cli_map_add_string(p, "command", entry->command);
  cli_map_add_bool(p, "has_place", !entry->left_out);
  if (entry->left_out) cli_map_add_string(p, "left_out", entry->left_out);
  else {
    cli_map_add_string(p, "id", entry->id);
    cli_map_add_string(p, "phase", entry->phase);
    cli_map_add_bool(p, "guard", entry->is_guard && !entry->is_async);
    cli_map_add_bool(p, "fails_open", !entry->fails_closed);
  }
  cli_map_add_list(p, "notes", entry->notes, entry->note_count);
  cli_map_close(p);
}

static int print_report_json(const importer *m) {
  cli_map p = {0};
  cli_map_add_string(&p, "settings", m->arguments->operands[1]);
  cli_map_add_string(&p, "protocol", m->settings.protocol);
  cli_map_add_bool(&p, "disabled", m->settings.disabled);
  cli_map_add_string(&p, "written", m->arguments->write ? m->arguments->write : "");
  cli_map_add_list(&p, "notes", m->settings.notes, m->settings.note_count);
  cli_map_open(&p, "env");
  for (size_t i = 0; i < m->settings.variables.count; i++)
    cli_map_add_string(&p, m->settings.variables.items[i][0], m->settings.variables.items[i][1]);
  cli_map_close(&p);
  cli_map_open_list(&p, "entries");
  for (size_t i = 0; i < m->settings.count; i++) add_entry(&p, &m->settings.entries[i]);
  cli_map_close(&p);
  return cli_map_print(&p, m->output);
}

int cli_hooks_import(const cli_arguments *arguments, cli_output *output) {
  importer m = {.arguments = arguments, .output = output};
  for (size_t i = 0; i < arguments->tools.count; i++)
    if (!check_tool(arguments->tools.items[i])) return CLI_USAGE;
  int status = cli_settings_read(arguments->operands[1], &m.settings);
  if (status == CLI_OK) {
    cli_arguments alone = *arguments;
    alone.no_memory = true;
    status = cli_host_open(&alone, NULL, NULL, &m.runtime);
    if (status == CLI_OK) status = prepare(&m);
    if (status == CLI_OK && arguments->write && m.taken > 0) status = write_all(&m);
    if (status == CLI_OK && arguments->json) status = print_report_json(&m);
    else if (status == CLI_OK) print_report(&m);
    if (status == CLI_OK && m.taken < m.settings.count) status = CLI_NEGATIVE;
    tp_runtime_free(m.runtime);
  }
  cli_settings_free(&m.settings);
  return status;
}
