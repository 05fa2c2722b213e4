/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_warn.c: finds settings of a hook that can have no effect here: a matcher that fits no tool, a variable that
 * nothing sets, a missing program or script. Without a warning, a guard that never runs for such a reason would look
 * like one that does. */
#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook.h"
#include "domains/declared/hook_protocol.h"
#include "domains/declared/trust.h"

enum { TOOLS_MAX = 256, NAMED_MAX = 12, TEXT_BYTES_MAX = 256 << 10, VARIABLES_MAX = 32, MESSAGE_SIZE = 1024 };

typedef struct warner {
  const tp_hooks *hooks;
  const tp__hook *hook; /* at hand */
  tp_hook_warning_fn each;
  void *ctx;
  size_t count;
  bool goes_on;
  bool has_all_tools;
  char *tools[TOOLS_MAX]; /* our names */
  size_t tool_count;
  char names[VARIABLES_MAX][64]; /* variables of the hook that were named */
  size_t name_count;
} warner;

static void warn(warner *w, const char *code, const char *format, ...) TP__PRINTF(3, 4);
static void warn(warner *w, const char *code, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  assert(w->hook);
  tp__make_printable(message);
  tp_hook_warning warning = {.struct_size = sizeof warning,
                             .hook = w->hook->id,
                             .file = w->hook->file,
                             .line = w->hook->place.line,
                             .code = code,
                             .message = message};
  w->count++;
  if (w->each && w->goes_on) w->goes_on = w->each(w->ctx, &warning);
}

/* ---- matchers ---- */

static const char claude_tools[] =
    "Bash Read Write Edit MultiEdit NotebookEdit NotebookRead Glob Grep LS WebFetch WebSearch Agent Task TodoWrite "
    "TodoRead "
    "AskUserQuestion ExitPlanMode EnterPlanMode BashOutput KillBash KillShell Skill SlashCommand TaskCreate TaskUpdate "
    "TaskList TaskGet TaskOutput TaskStop ToolSearch SubagentHandback apply_patch spawn_agent Monitor LSP";
static const char gemini_tools[] =
    "run_shell_command read_file read_many_files write_file replace edit glob search_file_content grep_search "
    "list_directory web_fetch google_web_search save_memory write_todos delegate_to_agent ask_user activate_skill "
    "enter_plan_mode exit_plan_mode codebase_investigator";

static bool keep_tool(void *ctx, const tp_tool_listing *listing) {
  warner *w = ctx;
  assert(w->tool_count < TOOLS_MAX);
  char *name = strdup(listing->tool->name);
  if (name) w->tools[w->tool_count++] = name;
  return name && w->tool_count < TOOLS_MAX;
}

/* Adds a name to a list for people. */
static void add_warned_name(char *list, size_t size, size_t *count, tp_text name) {
  size_t used = strlen(list);
  assert(used < size);
  if (++*count > NAMED_MAX + 1) return;
  if (*count == NAMED_MAX + 1) snprintf(list + used, size - used, ", …");
  else snprintf(list + used, size - used, "%s%.*s", used > 0 ? ", " : "", tp__cut(name, 64), name.data);
}

static bool fits_a_tool(const warner *w, char *list, size_t size) {
  bool fits = false;
  size_t count = 0;
  for (size_t i = 0; i < w->tool_count && !fits; i++) {
    tp_text there = tp__protocol_tool(w->hook, tp_text_of(w->tools[i]));
    fits = tp__matcher_fits(w->hook->matcher, there);
    add_warned_name(list, size, &count, there);
  }
  return fits;
}

static const char *next_word(const char *words, char ret_word[64]) {
  size_t size = strcspn(words, " ");
  snprintf(ret_word, 64, "%.*s", (int)size, words);
  return words + size + (words[size] == ' ');
}

/* Names of tools of the host, and the names that `tools` gives to turnphase's tools. */
static bool fits_a_known_name(const warner *w, const tp__matcher *matcher) {
  char word[64];
  const char *words = w->hook->protocol == TP__PROTOCOL_GEMINI ? gemini_tools : claude_tools;
  bool fits = tp__matcher_fits(matcher, tp_text_of("mcp__server__tool"));
  while (*words && !fits) {
    words = next_word(words, word);
    fits = tp__matcher_fits(matcher, tp_text_of(word));
  }
  for (size_t i = 0; i < w->hook->tool_name_count && !fits; i++)
    fits = tp__matcher_fits(matcher, tp_text_of(w->hook->tool_names[i].theirs));
  return fits;
}

/* Finds a name that differs only in the case of its letters, or with which the piece begins. */
static bool find_meant(const warner *w, const char *piece, char ret_word[64]) {
  const char *words = w->hook->protocol == TP__PROTOCOL_GEMINI ? gemini_tools : claude_tools;
  size_t size = strcspn(piece, "(:. *");
  while (*words) {
    words = next_word(words, ret_word);
    if (strlen(ret_word) == size && strncasecmp(ret_word, piece, size) == 0) return true;
  }
  return false;
}

static bool fits_a_subject(const tp__matcher *matcher, const char *words) {
  char word[64];
  bool fits = false;
  while (*words && !fits) {
    words = next_word(words, word);
    fits = tp__matcher_fits(matcher, tp_text_of(word));
  }
  return fits;
}

static void warn_of_subject(warner *w, const char *text, const char *subjects) {
  warn(w, "matcher", "the matcher \"%s\" never fits: of %s there is only: %s", text, w->hook->event, subjects);
}

/* One alternative of a matcher. */
static void check_piece(warner *w, const char *piece) {
  const char *subjects = tp__protocol_subjects(w->hook);
  tp__matcher matcher;
  const char *why;
  char word[64];
  bool is_server = strncmp(piece, "mcp__", 5) == 0;
  if (!piece[0] || is_server || !tp__matcher_init(&matcher, piece, &why)) return;
  if (subjects) {
    if (!fits_a_subject(&matcher, subjects)) warn_of_subject(w, piece, subjects);
  } else if (!fits_a_known_name(w, &matcher)) {
    bool is_meant = find_meant(w, piece, word), is_rule = strchr(piece, '(') != NULL;
    if (is_rule && is_meant)
      warn(w, "matcher",
           "the matcher \"%s\" fits no tool: a matcher is asked about the name alone, here %s; for the call itself say "
           "matcher: %s, if: \"%s\"",
           piece, word, word, piece);
    else if (is_meant) warn(w, "matcher", "the matcher \"%s\" fits no tool: the name is %s", piece, word);
    else
      warn(w, "matcher",
           "the matcher \"%s\" fits no tool of %s: it fits one of yours of that name alone, or with tools: {YOURS: %s}",
           piece, tp__protocol_name(w->hook->protocol), piece);
  }
  tp__matcher_fini(&matcher);
}

/* Bars within parentheses and brackets belong to a regular expression. */
static void check_pieces(warner *w, const char *text) {
  char piece[256];
  int depth = 0;
  size_t used = 0;
  bool is_list = !strpbrk(text, ".*+?()[]^$\\");
  for (const char *at = text;; at++) {
    depth += (*at == '(') + (*at == '[') - (*at == ')') - (*at == ']');
    bool ends = *at == '\0' || (depth <= 0 && (*at == '|' || (is_list && *at == ',')));
    if (!ends) {
      if (used + 1 < sizeof piece && !(is_list && *at == ' ')) piece[used++] = *at;
      continue;
    }
    piece[used] = '\0';
    check_piece(w, piece);
    used = 0;
    if (*at == '\0') return;
  }
}

static void check_matcher(warner *w) {
  const tp__hook *hook = w->hook;
  char list[MESSAGE_SIZE / 2] = "";
  bool has_tool = false;
  if (!hook->protocol || !hook->matcher || !hook->matcher->text) return;
  for (size_t i = 0; i < hook->row->field_count; i++) has_tool = has_tool || hook->row->fields[i] == TP_FIELD_TOOL;
  const char *subjects = tp__protocol_subjects(hook);
  if (!has_tool && !subjects) return; /* it is asked about an agent */
  if (w->has_all_tools && subjects) {
    if (!fits_a_subject(hook->matcher, subjects)) warn_of_subject(w, hook->matcher->text, subjects);
  } else if (w->has_all_tools && w->tool_count > 0) {
    if (!fits_a_tool(w, list, sizeof list))
      warn(w, "matcher", "the matcher \"%s\" fits no tool here, and the hook never runs; it sees them as: %s",
           hook->matcher->text, list);
  } else {
    check_pieces(w, hook->matcher->text);
  }
}

/* Whether the names are similar, as "file_write", "files-write" and "FilesWrite" are to "files_write". */
static bool is_nearly(const char *scope, const char *name) {
  static const char left_out[] = "_-. sS";
  for (;; scope++, name++) {
    scope += strspn(scope, left_out);
    name += strspn(name, left_out);
    if (tolower((unsigned char)*scope) != tolower((unsigned char)*name)) return false;
    if (!*scope) return true;
  }
}

/* If not every tool is known, any name may be a tool. Then a warning is given only for a name that is similar to one of
 * turnphase's tools. */
static void check_scope_name(warner *w, const char *scope) {
  static const char own_tools[] =
      "files_list files_read files_search files_write memory_search memory_get memory_list memory_remember "
      "memory_forget";
  char word[64];
  for (const char *words = own_tools; *words;) {
    words = next_word(words, word);
    if (strcmp(scope, word) == 0) return;
  }
  for (const char *words = own_tools; *words;) {
    words = next_word(words, word);
    if (!is_nearly(scope, word)) continue;
    warn(w, "matcher", "ability_scope %s fits no tool of turnphase, only one of yours of that name: theirs is %s",
         scope, word);
    return;
  }
}

static void check_scopes(warner *w) {
  if (!w->has_all_tools)
    for (size_t i = 0; i < w->hook->scopes.count; i++) check_scope_name(w, w->hook->scopes.items[i]);
  if (!w->has_all_tools || w->tool_count == 0 || w->hook->scopes.count == 0) return;
  char list[MESSAGE_SIZE / 2] = "";
  size_t count = 0;
  for (size_t i = 0; i < w->tool_count; i++) {
    for (size_t j = 0; j < w->hook->scopes.count; j++)
      if (tp_pattern_fits(tp_text_of(w->hook->scopes.items[j]), tp_text_of(w->tools[i]))) return;
    add_warned_name(list, sizeof list, &count, tp_text_of(w->tools[i]));
  }
  warn(w, "matcher", "ability_scope %s%s fits no tool here, and the hook never runs; there are: %s",
       w->hook->scopes.items[0], w->hook->scopes.count > 1 ? ", …" : "", list);
}

/* ---- variables ---- */

/* Variables that a shell sets itself, and variables in the environment of every program. */
static const char set_by_shells[] =
    "PWD OLDPWD IFS RANDOM SECONDS LINENO OPTARG OPTIND OPTERR REPLY UID EUID PPID HOSTNAME SHLVL SHELL PS1 PS2 PS4 "
    "FUNCNAME BASH BASHPID BASHOPTS SHELLOPTS PIPESTATUS EPOCHSECONDS EPOCHREALTIME MACHTYPE OSTYPE HOSTTYPE COLUMNS "
    "LINES "
    "PATH HOME USER LOGNAME LANG LC_ALL TMPDIR TZ TERM EOF ENVIRON ARGV NF NR FS RS OFS ORS FILENAME";

static bool is_set(const warner *w, tp_text name) {
  assert(name.size > 0);
  for (const char *const *pair = w->hook->environment; *pair; pair++)
    if (strncmp(*pair, name.data, name.size) == 0 && (*pair)[name.size] == '=') return true;
  return tp__is_one_of(name, set_by_shells) || tp__begins(name, "BASH_") || tp__begins(name, "LC_");
}

static bool is_name_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Whether "NAME=", "read NAME", "for NAME" or "export NAME" is anywhere in the text. */
static bool is_set_in(tp_text text, tp_text name) {
  const char *end = text.data + text.size;
  for (const char *at = text.data; (at = memmem(at, (size_t)(end - at), name.data, name.size)); at++) {
    const char *after = at + name.size;
    bool is_whole = (at == text.data || (!is_name_byte(at[-1]) && !strchr("${", at[-1]))) &&
                    (after == end || !is_name_byte(*after));
    if (!is_whole) continue;
    if (after < end && (*after == '=' || (*after == '+' && after + 1 < end && after[1] == '='))) return true;
    const char *before = at;
    while (before > text.data && (before[-1] == ' ' || before[-1] == '\t')) before--;
    static const char *const words[] = {"read",    "-r",        "for", "local", "declare",
                                        "mapfile", "readarray", "-t",  "-ra",   "-a"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
      size_t size = strlen(words[i]);
      if (before < at && (size_t)(before - text.data) >= size && memcmp(before - size, words[i], size) == 0)
        return true;
    }
  }
  return false;
}

static void take_variable(warner *w, tp_text text, tp_text name, const char *where) {
  bool is_upper = name.size >= 3 && name.size < sizeof w->names[0];
  for (size_t i = 0; i < name.size; i++) is_upper = is_upper && !islower((unsigned char)name.data[i]);
  if (!is_upper || isdigit((unsigned char)name.data[0]) || is_set(w, name) || is_set_in(text, name)) return;
  for (size_t i = 0; i < w->name_count; i++)
    if (tp__is_word(name, w->names[i])) return;
  assert(w->name_count <= VARIABLES_MAX);
  if (w->name_count == VARIABLES_MAX) return;
  snprintf(w->names[w->name_count++], sizeof w->names[0], "%.*s", (int)name.size, name.data);
  warn(w, "variable",
       "%s reads the variable %.*s, which nothing sets: it is empty there; give it with env: {%.*s: …}, or pass the "
       "host's with pass_env",
       where, (int)name.size, name.data, (int)name.size, name.data);
}

/* Takes the name that begins `size` bytes after `at`, if `at` begins with the words. */
static void take_after(warner *w, tp_text text, const char *at, const char *words, const char *where) {
  size_t size = strlen(words), name = 0;
  const char *end = text.data + text.size;
  if ((size_t)(end - at) <= size || memcmp(at, words, size) != 0) return;
  const char *begin = at + size;
  while (begin < end && strchr("({[\"' ", *begin) && *begin) begin++;
  while (begin + name < end && is_name_byte(begin[name])) name++;
  take_variable(w, text, (tp_text){begin, name}, where);
}

/* A shell expands nothing in single quotes or comments; most of the quoted text is for awk and jq. */
static void scan_shell(warner *w, tp_text text, const char *where) {
  bool is_single = false, is_double = false, is_comment = false;
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (c == '\n') is_comment = false;
    if (is_comment) continue;
    if (c == '\\' && !is_single) i++;
    else if (c == '\'' && !is_double) is_single = !is_single;
    else if (c == '"' && !is_single) is_double = !is_double;
    else if (c == '#' && !is_single && !is_double && (i == 0 || strchr(" \t\n;", text.data[i - 1]))) is_comment = true;
    else if (c == '$' && !is_single)
      take_after(w, text, text.data + i, i + 1 < text.size && text.data[i + 1] == '{' ? "${" : "$", where);
  }
}

static void scan_code(warner *w, tp_text text, const char *where) {
  static const char *const forms[] = {"os.environ.get", "os.environ", "os.getenv", "process.env.", "process.env",
                                      "ENV[",           "ENV.fetch",  "$ENV{",     "getenv",       "Deno.env.get"};
  for (size_t i = 0; i < text.size; i++)
    for (size_t j = 0; j < sizeof forms / sizeof forms[0]; j++)
      if (text.data[i] == forms[j][0]) take_after(w, text, text.data + i, forms[j], where);
}

static bool is_of_shell(const char *path, tp_text text) {
  tp_text name = tp_text_of(path), first = {text.data, 0};
  while (first.size < text.size && text.data[first.size] != '\n') first.size++;
  bool has_line = tp__begins(first, "#!");
  if (has_line) return tp__ends(first, "sh") || tp__contains(first, "sh -");
  return tp__ends(name, ".sh") || tp__ends(name, ".bash") || tp__ends(name, ".zsh");
}

static void check_script(warner *w, const tp__trust_file *file) {
  tp__bytes bytes = {0};
  if (file->use != TP_HOOK_FILE_SCRIPT && !(file->use == TP_HOOK_FILE_PROGRAM && !file->name)) return;
  if (tp__file_read(AT_FDCWD, file->path, TEXT_BYTES_MAX, &bytes) == 0 && bytes.size > 0 &&
      !memchr(bytes.data, '\0', bytes.size)) {
    tp_text text = tp__bytes_text(&bytes);
    if (is_of_shell(file->path, text)) scan_shell(w, text, file->shown);
    else scan_code(w, text, file->shown);
  }
  tp__bytes_fini(&bytes);
}

static void check_variables(warner *w) {
  const tp__hook *hook = w->hook;
  w->name_count = 0;
  bool is_program = hook->kind == TP__HOOK_SCRIPT || hook->kind == TP__HOOK_WORKER || hook->kind == TP__HOOK_TOOL;
  for (size_t i = 1; is_program && i < hook->argument_count; i++)
    if (strcmp(hook->arguments[i - 1], "-c") == 0) scan_shell(w, tp_text_of(hook->arguments[i]), "its command");
  for (size_t i = 0; i < hook->trusted_count; i++)
    if (hook->trusted[i]->is_there) check_script(w, hook->trusted[i]);
}

/* ---- programs ---- */

static void check_files(warner *w) {
  for (size_t i = 0; i < w->hook->trusted_count; i++) {
    const tp__trust_file *file = w->hook->trusted[i];
    if (file->is_there || !file->is_code) continue;
    const char *ending = strrchr(file->path, '.'), *slash = strrchr(file->path, '/');
    bool is_named = file->use == TP_HOOK_FILE_PROGRAM || (ending && ending > slash);
    if (file->name) warn(w, "program", "there is no program %s in PATH", file->name);
    else if (is_named)
      warn(w, "program", "there is no %s: a relative path of a command begins at %s", file->shown, w->hooks->root);
  }
}

static void check_agent(warner *w) {
  if (!w->hook->is_agent) return;
  warn(
      w, "agent",
      "the model of this agent has no tools here: it answers from the event, and where that does not show it, there is "
      "no answer%s; a script can look at files",
      w->hook->failure == TP_FAILURE_BEST_EFFORT ? "" : ", which a guard takes for a no");
}

/* Code that a trust cannot be about. */
static void check_names(warner *w) {
  if (w->hook->loads_more)
    warn(
        w, "code",
        "its scripts load more files from other folders than are listed: no trust is about the others, and they cannot "
        "be decided");
  if (!w->hook->runs_unknown) return;
  warn(w, "code",
       "its command runs files by names that another program prints, and the trust is not about these: decide which "
       "they "
       "are, as in: turnphase hooks trust %s --code-file 'tools/*.sh'; or name them in the command",
       w->hooks->directory);
}

size_t tp_hooks_each_warning(const tp_hooks *hooks, bool has_all_tools, tp_hook_warning_fn each, void *ctx) {
  if (!hooks) return 0;
  warner *w = calloc(1, sizeof *w);
  if (!w) return 0;
  *w = (warner){.hooks = hooks, .each = each, .ctx = ctx, .goes_on = true, .has_all_tools = has_all_tools};
  if (has_all_tools) (void)tp_runtime_tools(hooks->runtime, keep_tool, w, NULL, NULL);
  for (const tp__hook *hook = hooks->first; hook && w->goes_on; hook = hook->next) {
    w->hook = hook;
    if (!hook->is_enabled) continue;
    check_matcher(w);
    check_scopes(w);
    check_names(w);
    check_agent(w);
    check_variables(w);
    check_files(w);
  }
  size_t count = w->count;
  for (size_t i = 0; i < w->tool_count; i++) free(w->tools[i]);
  free(w);
  return count;
}
