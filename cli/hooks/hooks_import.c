/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_import.c: the action import. Each entry becomes a YAML file, which the library reads in a separate directory.
 * An entry that the library refuses is left out, with the library's message. So the report agrees with a later
 * commit. */
#include "cli/hooks/hooks_import.h"

#include <ctype.h>
#include <dirent.h>
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
#include "runtime/base/check.h"
#include "support/file.h"

enum {
  FILES_MAX = CLI_OPERANDS_MAX - 1,
  PATH_SIZE = 4096,
  BUDGET_MS = 30000 /* for a phase in which no required hook needs more */
};

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

static bool is_filter(const cli_entry *entry) { return strcmp(entry->event, "BeforeToolSelection") == 0; }

static bool is_of_tools(const cli_entry *entry) {
  return (strstr(entry->event, "Tool") && !is_filter(entry)) || strstr(entry->event, "Permission") ||
         strcmp(entry->event, "Notification") == 0;
}

static bool is_of_models(const cli_entry *entry) {
  return strcmp(entry->event, "BeforeModel") == 0 || strcmp(entry->event, "AfterModel") == 0 || is_filter(entry);
}

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
  bool has_something = is_of_models(entry) ||
                       (is_of_tools(entry) && strcmp(entry->event, "PostToolBatch") != 0 &&
                        strcmp(entry->event, "PermissionDenied") != 0 && strcmp(entry->event, "Notification") != 0);
  return arguments->rewrite && has_something && !entry->is_async && !entry->prompt;
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

/* Writes the variables of the file and of the entry; the entry's win. */
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
  if (settings->disabled || entry->is_off) put_string(t, "enabled: false\n");
  if (entry->is_async) put_string(t, "blocking: false\n");
  if (entry->is_sequential) put_string(t, "sequential: true\n");
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
  if (rewrites(arguments, entry))
    put_string(t, is_of_models(entry) ? "rewrite: true          # it may change requests and answers\n"
                                      : "rewrite: true          # it may change arguments and results\n");
  if (settings->plugin_root) put_pair(t, "plugin_root", settings->plugin_root);
  bool is_program = !entry->url && !entry->prompt;
  if (is_program) put_variables(t, &settings->variables, &entry->variables);
  if (is_program) put_passed(t, &arguments->pass_env);
  if ((is_of_tools(entry) || is_of_models(entry)) && arguments->tools.count > 0) {
    put_string(t, "tools:\n");
    for (size_t i = 0; i < arguments->tools.count; i++) put_tool(t, arguments->tools.items[i]);
  }
  put_string(t, "handler:\n  kind: ");
  put_string(t, entry->url ? "webhook\n" : entry->is_agent ? "agent\n" : entry->prompt ? "prompt\n" : "script\n");
  snprintf(number, sizeof number, "  timeout_ms: %lld\n", (long long)entry->timeout_ms);
  if (entry->timeout_ms > 0) put_string(t, number);
  if (entry->url) put_endpoint(t, entry);
  if (entry->prompt) {
    put_string(t, "  ");
    put_pair(t, "prompt", entry->prompt);
    if (entry->model) put_string(t, "  ");
    if (entry->model) put_pair(t, "model", entry->model);
  }
  if (!is_program) return;
  put_string(t, "  command:\n");
  for (size_t i = 0; i < entry->argument_count; i++) {
    put_string(t, "    - ");
    put_quoted(t, entry->arguments[i], strlen(entry->arguments[i]));
    cli_buffer_add(t, "\n", 1);
  }
}

/* ---- files ---- */

/* @return 0 or errno. */
static int write_new(const char *path, const char *bytes, mode_t mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode), error = 0;
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

/* A file of hooks that is there already. */
typedef struct existing {
  const char *name, *id, *text;
} existing;

typedef struct importer {
  const cli_arguments *arguments;
  cli_output *output;
  cli_settings files[FILES_MAX];
  size_t file_count, count; /* of files, and of their entries */
  cli_pool pool;
  existing *existing; /* in the directory that is written to */
  size_t existing_count, existing_capacity;
  unsigned number; /* of the last file there */
  tp_runtime *runtime;
  char folder[64];    /* a directory of its own */
  size_t taken, same; /* have a place; of these, are there already */
} importer;

/* The entry at an index over all files. @param ret_settings  its file; may be NULL. */
static cli_entry *entry_at(const importer *m, size_t index, cli_settings **ret_settings) {
  size_t file = 0;
  assert(index < m->count);
  while (index >= m->files[file].count) index -= m->files[file++].count;
  if (ret_settings) *ret_settings = (cli_settings *)(uintptr_t)&m->files[file];
  return &m->files[file].entries[index];
}

static bool take_info(void *ctx, const tp_hook_info *info) {
  *(tp_hook_info *)ctx = *info;
  return false;
}

static const char *copy_imported(importer *m, const char *string) {
  return cli_pool_copy(&m->pool, tp_text_of(string));
}

typedef struct importer_entry {
  importer *m;
  cli_entry *entry;
} importer_entry;

static bool note_warning(void *ctx, const tp_hook_warning *warning) {
  importer_entry *at = ctx;
  if (at->entry->note_count < CLI_NOTES_MAX)
    at->entry->notes[at->entry->note_count++] = copy_imported(at->m, warning->message);
  return true;
}

static int check_entry(importer *m, cli_entry *entry) {
  char path[96];
  snprintf(path, sizeof path, "%s/a.yaml", m->folder);
  int error = write_new(path, entry->yaml, 0600);
  if (error != 0) {
    cli_error_at(path, 0, 0, "%s", strerror(error));
    return CLI_IO;
  }
  const char *const endpoints[] = {entry->endpoint, NULL};
  bool is_endpoint = entry->url && entry->endpoint[0] && !strpbrk(entry->endpoint, "@%\\ ");
  tp_hooks_options options = {.struct_size = sizeof options,
                              .directory = m->folder,
                              .grants = TP_GRANT_REWRITE | TP_GRANT_PRIVILEGED_HOOKS,
                              .webhook_hosts = is_endpoint ? endpoints : NULL};
  tp_hooks *hooks;
  tp_fault fault = {0};
  tp_hook_info info = {0};
  tp_status status = tp_hooks_read(m->runtime, &options, &hooks, &fault);
  unlink(path);
  if (status == TP_ERR_NO_MEMORY) return cli_fault(NULL, status, &fault);
  if (status != TP_OK) {
    entry->left_out = copy_imported(m, fault.message);
    return CLI_OK;
  }
  tp_hooks_each(hooks, take_info, &info);
  const tp_phase *row = tp_phase_get(m->runtime, info.phase);
  entry->phase = row->name;
  importer_entry at = {m, entry};
  if (entry->event[0]) tp_hooks_each_warning(hooks, false, note_warning, &at);
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

/* A phase that only observes needs no failure policy. */
static void choose_policy(const importer *m, cli_entry *entry) {
  if (m->arguments->fail_closed && entry->is_guard) entry->fails_closed = true;
  if (!entry->fails_closed || (entry->is_guard && !entry->is_async)) return;
  entry->fails_closed = false;
  if (entry->note_count < CLI_NOTES_MAX)
    entry->notes[entry->note_count++] = "it cannot fail closed: nothing waits for its answer";
}

/* ---- what is there already ---- */

/* Compares texts without their ids: equal texts are one hook. */
static bool says_the_same(const char *one, const char *other) {
  while (*one && *other) {
    size_t size = strcspn(one, "\n"), other_size = strcspn(other, "\n");
    bool is_id = strncmp(one, "id: ", 4) == 0 && strncmp(other, "id: ", 4) == 0;
    if (!is_id && (size != other_size || memcmp(one, other, size) != 0)) return false;
    one += size + (one[size] == '\n');
    other += other_size + (other[other_size] == '\n');
  }
  return !*one && !*other;
}

static void add_existing(importer *m, const char *name, tp_text text) {
  assert(m->existing_count <= m->existing_capacity);
  const char *copied = cli_pool_copy(&m->pool, text), *at = copied;
  m->existing = cli_reserve(m->existing, m->existing_count, &m->existing_capacity, sizeof *m->existing);
  existing *e = &m->existing[m->existing_count++];
  *e = (existing){.name = copy_imported(m, name), .id = "", .text = copied};
  for (; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    if (strncmp(at, "id:", 3) != 0) continue;
    size_t skip = 3 + strspn(at + 3, " \"'"), size = strcspn(at + skip, " \"'\n");
    e->id = cli_pool_copy(&m->pool, (tp_text){at + skip, size});
    return;
  }
}

static int read_existing(importer *m) {
  const char *directory = m->arguments->write;
  DIR *open_directory = directory ? opendir(directory) : NULL;
  for (struct dirent *entry; open_directory && (entry = readdir(open_directory));) {
    char path[PATH_SIZE];
    const char *dot = strrchr(entry->d_name, '.');
    tp__bytes text = {0};
    if (entry->d_name[0] == '.' || !dot || (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0)) continue;
    snprintf(path, sizeof path, "%.2000s/%s", directory, entry->d_name);
    if (tp__file_read(AT_FDCWD, path, 1 << 20, &text) == 0)
      add_existing(m, entry->d_name, (tp_text){tp__bytes_string(&text), text.size});
    tp__bytes_fini(&text);
    unsigned number = (unsigned)strtoul(entry->d_name, NULL, 10);
    if (number > m->number && number < 1000000) m->number = number;
  }
  if (open_directory) closedir(open_directory);
  return CLI_OK;
}

static bool is_taken(const importer *m, size_t index, const char *id) {
  assert(id[0] && index < m->count);
  for (size_t i = 0; i < m->existing_count; i++)
    if (strcmp(m->existing[i].id, id) == 0) return true;
  for (size_t i = 0; i < index; i++) {
    const cli_entry *entry = entry_at(m, i, NULL);
    if (entry->id && !entry->same_as && strcmp(entry->id, id) == 0) return true;
  }
  return false;
}

/* As in their host, hooks of several files add up, and a hook that two files contain runs once. */
static const char *find_same(importer *m, size_t index, const cli_settings *settings, const char *yaml) {
  for (size_t i = 0; i < m->existing_count; i++)
    if (says_the_same(m->existing[i].text, yaml)) return m->existing[i].name;
  for (size_t i = 0; i < index; i++) {
    cli_settings *its;
    const cli_entry *entry = entry_at(m, i, &its);
    if (its != settings && entry->yaml && !entry->same_as && says_the_same(entry->yaml, yaml)) return entry->id;
  }
  return NULL;
}

static int prepare_entry(importer *m, size_t index) {
  cli_settings *settings = NULL;
  cli_entry *entry = entry_at(m, index, &settings);
  char name[64], id[192];
  if (!entry->left_out && is_filter(entry) && !m->arguments->rewrite)
    entry->left_out = "it does nothing but change the tools of a request: --rewrite takes it";
  if (entry->left_out) return CLI_OK;
  if (strcmp(entry->event, "AfterTool") == 0 && !m->arguments->rewrite && entry->note_count < CLI_NOTES_MAX)
    entry->notes[entry->note_count++] = "a deny hides the result only with --rewrite; without it the model reads both";
  choose_policy(m, entry);
  write_name(entry->event, name, sizeof name);
  /* settings.local.json becomes settings-local. If another folder has the same name, the folder's name precedes it. */
  size_t size = sizeof id;
  const char *slash = strrchr(settings->path, '/'), *file = slash ? slash + 1 : settings->path;
  char stem[64];
  snprintf(stem, sizeof stem, "%.60s", file);
  char *dot = strrchr(stem, '.');
  if (dot && dot > stem) *dot = '\0';
  for (char *at = stem; *at; at++)
    if (!isalnum((unsigned char)*at)) *at = '-';
  snprintf(id, size, "%s-%zu", name, index + 1);
  if (settings != &m->files[0] || is_taken(m, index, id)) snprintf(id, size, "%s-%s-%zu", stem, name, index + 1);
  for (unsigned i = 2; is_taken(m, index, id) && i < 1000; i++)
    snprintf(id, size, "%s-%u-%s-%zu", stem, i, name, index + 1);
  entry->id = copy_imported(m, id);
  tp__bytes t = {0};
  write_yaml(settings, m->arguments, entry, &t);
  entry->yaml = copy_imported(m, tp__bytes_string(&t));
  tp__bytes_fini(&t);
  entry->same_as = find_same(m, index, settings, entry->yaml);
  if (entry->same_as) m->same++;
  return check_entry(m, entry);
}

/* The library decides which variable names a hook may set; a refused one is left out. */
static int check_variable(importer *m, const char *name, const char **ret_why) {
  cli_entry probe = {.event = "", .command = "", .fails_closed = true};
  tp__bytes t = {0};
  put_string(&t, "id: a\nevent: tool.pre\nhandler: {command: \"/\"}\nenv:\n  ");
  put_quoted(&t, name, strlen(name));
  put_string(&t, ": \"\"\n");
  probe.yaml = copy_imported(m, tp__bytes_string(&t));
  tp__bytes_fini(&t);
  int status = check_entry(m, &probe);
  if (!probe.left_out) m->taken--;
  *ret_why = probe.left_out;
  return status;
}

static int check_variables(importer *m, cli_settings *settings, cli_variables *variables) {
  size_t kept = 0;
  for (size_t i = 0; i < variables->count; i++) {
    const char *why = NULL;
    int status = check_variable(m, variables->items[i][0], &why);
    if (status != CLI_OK) return status;
    if (why && settings->note_count < CLI_FILE_NOTES_MAX) settings->notes[settings->note_count++] = why;
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
  int status = read_existing(m);
  for (size_t i = 0; i < m->file_count && status == CLI_OK; i++)
    status = check_variables(m, &m->files[i], &m->files[i].variables);
  for (size_t i = 0; i < m->count && status == CLI_OK; i++) {
    cli_settings *settings;
    cli_entry *entry = entry_at(m, i, &settings);
    status = check_variables(m, settings, &entry->variables);
    if (status == CLI_OK) status = prepare_entry(m, i);
  }
  rmdir(m->folder);
  return status;
}

/* ---- writing ---- */

static void path_of(const importer *m, size_t index, char ret_path[PATH_SIZE]) {
  snprintf(ret_path, PATH_SIZE, "%s/%03zu-%s.yaml", m->arguments->write, m->number + index + 1,
           entry_at(m, index, NULL)->id);
}

static void take_back(const importer *m, size_t count, bool made) {
  char path[PATH_SIZE];
  for (size_t i = 0; i < count; i++) {
    if (entry_at(m, i, NULL)->left_out || entry_at(m, i, NULL)->same_as) continue;
    path_of(m, i, path);
    unlink(path);
  }
  if (made) rmdir(m->arguments->write);
}

/* Errors are reported later, for the directory itself. */
static void make_parents(const char *directory) {
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "%s", directory);
  for (char *slash = strchr(path + (path[0] != '\0'), '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    (void)mkdir(path, 0755);
    *slash = '/';
  }
}

/* If only its owner may read a settings file, the same holds for files with its headers and variables. */
static mode_t mode_of(const importer *m, size_t index) {
  cli_settings *settings;
  struct stat found;
  (void)entry_at(m, index, &settings);
  bool is_file = strcmp(settings->path, "-") != 0 && stat(settings->path, &found) == 0;
  return is_file ? (found.st_mode & 0644) | 0600 : 0600;
}

static int write_all(const importer *m) {
  char path[PATH_SIZE];
  make_parents(m->arguments->write);
  bool made = mkdir(m->arguments->write, 0755) == 0;
  int error = made || errno == EEXIST ? 0 : errno;
  snprintf(path, sizeof path, "%s", m->arguments->write);
  size_t i = 0;
  for (; error == 0 && i < m->count; i++) {
    if (entry_at(m, i, NULL)->left_out || entry_at(m, i, NULL)->same_as) continue;
    path_of(m, i, path);
    error = write_new(path, entry_at(m, i, NULL)->yaml, mode_of(m, i));
    if (error != 0) break;
  }
  if (error == 0) return CLI_OK;
  if (error != EEXIST && i < m->count) unlink(path);
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
    cli_printf(m->output, entry->same_as ? "is there already, as %s, in %s" : "%s in %s",
               entry->same_as ? entry->same_as : entry->id, entry->phase);
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

static size_t count_of(const importer *m, bool (*is_one)(const cli_entry *entry)) {
  size_t count = 0;
  for (size_t i = 0; i < m->count; i++) count += !entry_at(m, i, NULL)->left_out && is_one(entry_at(m, i, NULL));
  return count;
}

static bool any_cut(const importer *m) {
  for (size_t i = 0; i < m->count; i++)
    if (entry_at(m, i, NULL)->is_cut) return true;
  return false;
}

static void print_file(const importer *m, const cli_settings *settings) {
  if (settings->disabled)
    cli_print_string(m->output, "their host has all hooks off: all of them are written with enabled: false\n");
  for (size_t i = 0; i < settings->variables.count; i++) {
    cli_print_string(m->output, i == 0 ? "each program gets " : ", ");
    print_string(m, settings->variables.items[i][0]);
  }
  if (settings->variables.count > 0) cli_print_string(m->output, " of env\n");
  for (size_t i = 0; i < settings->note_count; i++) {
    cli_print_string(m->output, "note: ");
    print_string(m, settings->notes[i]);
    cli_print_string(m->output, "\n");
  }
}

static bool has_matcher_of_tools(const cli_entry *entry) {
  const char *matcher = entry->matcher;
  return !entry->left_out && is_of_tools(entry) && matcher && matcher[0] && strcmp(matcher, "*") != 0;
}

static void print_report(const importer *m) {
  size_t left_out = m->count - m->taken;
  for (size_t i = 0; i < m->count; i++) print_entry(m, entry_at(m, i, NULL));
  if (!m->arguments->rewrite && count_of(m, is_of_tools) > 0)
    cli_print_string(m->output,
                     "what they rewrite is not taken, and a call whose arguments one rewrites is denied "
                     "(--rewrite takes it)\n");
  if (!m->arguments->rewrite && count_of(m, is_of_models) > 0)
    cli_print_string(m->output,
                     "a turn whose request or answer one of them changes is denied (--rewrite takes the change)\n");
  if (count_of(m, is_filter) > 1)
    cli_print_string(m->output,
                     "several filters of tools leave them out one after the other; their host joins the lists\n");
  if (m->arguments->tools.count == 0 && count_of(m, has_matcher_of_tools) > 0)
    cli_print_string(m->output,
                     "matchers are names of their host's tools: --tool OURS=THEIRS, such as --tool files_write=Write, "
                     "where yours are called otherwise, or the hook never runs\n");
  if (any_cut(m))
    cli_print_string(m->output,
                     "limits above 30 s are those of hooks that fail closed, or observe: the others get the 30 s of "
                     "their phase, and then the action goes on\n");
  for (size_t i = 0; i < m->file_count; i++) print_file(m, &m->files[i]);
  size_t made = m->taken - m->same;
  if (m->same > 0) cli_printf(m->output, "%zu %s there already\n", m->same, m->same == 1 ? "is" : "are");
  cli_printf(m->output, "%zu %s, %zu ha%s no place\n", made, m->arguments->write ? "written" : "would be written",
             left_out, left_out == 1 ? "s" : "ve");
  if (m->arguments->write) cli_printf(m->output, "look at them, then: turnphase hooks trust %s\n", m->arguments->write);
  else cli_print_string(m->output, "--write DIR writes them\n");
}

static void add_import_entry(cli_map *p, const cli_entry *entry) {
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
    cli_map_add_bool(p, "enabled", !entry->is_off);
    cli_map_add_string(p, "same_as", entry->same_as ? entry->same_as : "");
  }
  cli_map_add_list(p, "notes", entry->notes, entry->note_count);
  cli_map_close(p);
}

static int print_report_json(const importer *m) {
  cli_map p = {0};
  const char *notes[FILES_MAX * CLI_FILE_NOTES_MAX], *paths[FILES_MAX];
  size_t note_count = 0;
  bool disabled = false;
  for (size_t i = 0; i < m->file_count; i++) {
    paths[i] = m->files[i].path;
    disabled = disabled || m->files[i].disabled;
    for (size_t j = 0; j < m->files[i].note_count; j++) notes[note_count++] = m->files[i].notes[j];
  }
  cli_map_add_string(&p, "settings", paths[0]);
  cli_map_add_list(&p, "files", paths, m->file_count);
  cli_map_add_string(&p, "protocol", m->files[0].protocol);
  cli_map_add_bool(&p, "disabled", disabled);
  cli_map_add_string(&p, "written", m->arguments->write ? m->arguments->write : "");
  cli_map_add_list(&p, "notes", notes, note_count);
  cli_map_open(&p, "env");
  for (size_t f = 0; f < m->file_count; f++)
    for (size_t i = 0; i < m->files[f].variables.count; i++)
      cli_map_add_string(&p, m->files[f].variables.items[i][0], m->files[f].variables.items[i][1]);
  cli_map_close(&p);
  cli_map_open_list(&p, "entries");
  for (size_t i = 0; i < m->count; i++) add_import_entry(&p, entry_at(m, i, NULL));
  cli_map_close(&p);
  return cli_map_print(&p, m->output);
}

/* Reads user, project and local settings of one host. */
static int read_files(importer *m) {
  int status = CLI_OK;
  for (size_t i = 1; i < m->arguments->operand_count && status == CLI_OK; i++) {
    cli_settings *settings = &m->files[m->file_count++];
    status = cli_settings_read(m->arguments->operands[i], settings);
    m->count += settings->count;
    if (status != CLI_OK || strcmp(settings->protocol, m->files[0].protocol) == 0) continue;
    cli_error_at(settings->path, 0, 0, "is of another host than %s: import it by itself", m->files[0].path);
    status = CLI_USAGE;
  }
  if (status == CLI_OK) cli_settings_apply_states(m->files, m->file_count);
  return status;
}

int cli_hooks_import(const cli_arguments *arguments, cli_output *output) {
  importer *m = cli_alloc(sizeof *m);
  *m = (importer){.arguments = arguments, .output = output};
  int status = CLI_OK;
  for (size_t i = 0; i < arguments->tools.count && status == CLI_OK; i++)
    if (!check_tool(arguments->tools.items[i])) status = CLI_USAGE;
  if (status == CLI_OK) status = read_files(m);
  if (status == CLI_OK) {
    cli_arguments alone = *arguments;
    alone.no_memory = true;
    status = cli_host_open(&alone, NULL, NULL, &m->runtime);
    if (status == CLI_OK) status = prepare(m);
    if (status == CLI_OK && arguments->write && m->taken > m->same) status = write_all(m);
    if (status == CLI_OK && arguments->json) status = print_report_json(m);
    else if (status == CLI_OK) print_report(m);
    if (status == CLI_OK && m->taken < m->count) status = CLI_NEGATIVE;
    tp_runtime_free(m->runtime);
  }
  for (size_t i = 0; i < m->file_count; i++) cli_settings_free(&m->files[i]);
  cli_pool_free(&m->pool);
  free(m->existing);
  free(m);
  return status;
}
