/* SPDX-License-Identifier: Apache-2.0
 *
 * trust_find.c: finds the files that a command names, and the role of each: a program that is started, a script that
 * such a program runs, or data. Shell lines are read as in shell_line.h; variables that the environment or the line
 * itself sets are expanded. In doubt, a file is taken for code. */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domains/declared/hook.h"
#include "domains/declared/shell_line.h"
#include "domains/declared/trust.h"

enum {
  FOLDERS_MAX = 8,
  VARIABLES_MAX = 32,
  PENDING_MAX = 32,
  WORDS_MAX = 64,
  DEPTH_MAX = 12,
  FIND_LEVELS = 5, /* folders in folders that are looked at */
  LIST_BYTES_MAX = 65536,
  SHEBANG_BYTES = 256,
  PATH_SIZE = 4096
};

typedef struct finder {
  tp_hooks *hooks;
  tp__hook *hook;
  /* folders in which relative paths may begin: the root, and the targets of cd in the line */
  const char *folders[FOLDERS_MAX];
  size_t folder_count;
  const char *variables[VARIABLES_MAX]; /* NAME=VALUE, that the line sets */
  size_t variable_count;
  const char *pending[PENDING_MAX]; /* files that the line reads; a shell may get them on its standard input */
  size_t pending_count;
  const char *sources[PENDING_MAX]; /* names that the line prints or finds; found ones are stored as patterns */
  size_t source_count;
  bool runs_names;  /* a name that was found or read is run: find -exec sh {}, xargs -n1 sh, sh "$f" in a loop */
  bool reads_names; /* a loop iterates over unknown names, or a command reads names */
  bool feeds_shell; /* a shell or an interpreter runs its standard input */
  /* a word that is run is not known, such as $(…): it may come from the files that the line reads */
  bool may_feed_shell;
  bool is_literal;  /* no shell has read the words */
  bool has_unknown; /* a part of the last expanded word is not known */
  unsigned depth;
  tp_status status;
  tp_fault *fault;
} finder;

typedef struct words {
  const char *items[WORDS_MAX];
  size_t count;
} words;

static void find_in_words(finder *f, const words *w);
static void find_in_line(finder *f, const char *line);
static bool is_assignment(const char *word);

static bool is_in(const char *name, const char *list) { return tp__is_one_of(tp_text_of(name), list); }

static const char *keep(finder *f, tp_text text) {
  const char *copy = tp__hooks_copy(f->hooks, text);
  if (!copy) f->status = tp__refuse(f->fault, TP_ERR_NO_MEMORY, f->hook->file, "no memory for a hook");
  return copy ? copy : "";
}

static void refuse_long(finder *f, const char *what) {
  if (f->status == TP_OK)
    f->status = tp__refuse(f->fault, TP_ERR_TOO_LARGE, f->hook->file,
                           "its command has more %s than can be looked at: write a script, and name that", what);
}

/* ---- variables ---- */

static bool is_name_byte(char c, bool is_first) {
  char lower = (char)(c | 32);
  return c == '_' || (lower >= 'a' && lower <= 'z') || (!is_first && c >= '0' && c <= '9');
}

static size_t name_size(const char *text) {
  size_t size = 0;
  while (is_name_byte(text[size], size == 0)) size++;
  return size;
}

static const char *value_in(const char *const *pairs, size_t count, const char *name, size_t size) {
  for (size_t i = count; i-- > 0;)
    if (strncmp(pairs[i], name, size) == 0 && pairs[i][size] == '=') return pairs[i] + size + 1;
  return NULL;
}

static const char *variable_value(const finder *f, const char *name, size_t size) {
  const char *set = value_in(f->variables, f->variable_count, name, size);
  size_t count = 0;
  while (f->hook->environment[count]) count++;
  if (!set) set = value_in(f->hook->environment, count, name, size);
  return !set && tp__is_word((tp_text){name, size}, "PWD") ? f->folders[f->folder_count - 1] : set;
}

/* Expands "$NAME", "${NAME}" or "${NAME:-other}" at the beginning of a text, but no form that changes the value, such
 * as ${NAME%/}.
 * @param ret_value  no data: not known.   @return the size of the expression in the text. */
static size_t expand_one(const finder *f, const char *text, tp_text *ret_value) {
  bool braces = text[1] == '{';
  const char *name = text + 1 + braces, *end = braces ? strchr(name, '}') : NULL;
  size_t size = name_size(name), unknown_size = strlen(TP__SHELL_UNKNOWN);
  *ret_value = (tp_text){NULL, 0};
  if (strncmp(text, TP__SHELL_UNKNOWN, unknown_size) == 0) return unknown_size;
  if (braces && !end) return strlen(text);
  if (!braces && size == 0) return text[1] ? 2 : 1; /* $1, $@ */
  const char *value = size > 0 ? variable_value(f, name, size) : NULL, *rest = name + size;
  if (value) *ret_value = tp_text_of(value);
  if (!braces) return size + 1;
  const char *other = rest + (*rest == ':') + 1;
  if (!value && rest < end && other <= end && other[-1] == '-') *ret_value = (tp_text){other, (size_t)(end - other)};
  return (size_t)(end - text) + 1;
}

/* Expands a word. @return false: the result is too long for a path. */
static bool expand(finder *f, const char *word, char ret_text[PATH_SIZE]) {
  assert(word && f->variable_count <= VARIABLES_MAX);
  size_t used = 0;
  const char *home = variable_value(f, "HOME", 4);
  f->has_unknown = false;
  if (f->is_literal) return (size_t)snprintf(ret_text, PATH_SIZE, "%s", word) < PATH_SIZE;
  if (word[0] == '~' && word[1] == '/' && home) {
    used = (size_t)snprintf(ret_text, PATH_SIZE, "%s", home);
    word++;
  }
  while (*word) {
    tp_text piece = {word, 1};
    size_t taken = *word == '$' ? expand_one(f, word, &piece) : 1;
    if (used + piece.size >= PATH_SIZE) return false;
    f->has_unknown = f->has_unknown || !piece.data;
    if (piece.size > 0) memcpy(ret_text + used, piece.data, piece.size);
    used += piece.size;
    word += taken;
  }
  ret_text[used] = '\0';
  return true;
}

/* ---- files ---- */

/* Takes the command of a script's "#!" line, because the interpreter is started, too. */
static void take_shebang(finder *f, const char *path) {
  char line[SHEBANG_BYTES];
  int fd = tp__file_open(AT_FDCWD, path, NULL);
  ssize_t size = fd >= 0 ? pread(fd, line, sizeof line - 1, 0) : -1;
  if (fd >= 0) close(fd);
  if (size < 3 || line[0] != '#' || line[1] != '!' || f->depth >= DEPTH_MAX) return;
  words w = {.count = 0};
  bool was_literal = f->is_literal, fed_shell = f->feeds_shell;
  line[size] = '\0';
  line[strcspn(line, "\r\n")] = '\0';
  for (char *rest = line + 2, *word; w.count < WORDS_MAX && (word = strtok_r(rest, " \t", &rest));)
    w.items[w.count++] = keep(f, tp_text_of(word));
  f->is_literal = true;
  find_in_words(f, &w);
  f->is_literal = was_literal;
  f->feeds_shell = fed_shell; /* the interpreter gets the script */
}

static void add_path(finder *f, const char *path, tp__trust_role role) {
  size_t before = f->hook->trusted_count;
  if (f->status == TP_OK) f->status = tp__trust_add(f->hooks, f->hook, path, NULL, role, f->fault);
  if (role == TP__TRUST_DATA && f->pending_count == PENDING_MAX) refuse_long(f, "files");
  else if (role == TP__TRUST_DATA) f->pending[f->pending_count++] = keep(f, tp_text_of(path));
  if (role != TP__TRUST_DATA && f->hook->trusted_count > before) take_shebang(f, path);
}

static bool is_folder(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static void add_glob(finder *f, const char *pattern, tp__trust_role role) {
  glob_t found;
  if (f->status == TP_OK) f->status = tp__trust_add_glob(f->hooks, f->hook, pattern, role, f->fault);
  if (glob(pattern, GLOB_BRACE, NULL, &found) != 0) return;
  for (size_t i = 0; i < found.gl_pathc; i++)
    if (!is_folder(found.gl_pathv[i])) add_path(f, found.gl_pathv[i], role);
  globfree(&found);
}

/* Adds the files of a folder that an interpreter runs: its start file, and all scripts next to it. */
static void add_folder(finder *f, const char *folder) {
  static const char *const patterns[] = {"__main__.py", "package.json", "*.py", "*.js", "*.mjs", "*.cjs", "*.ts"};
  char pattern[PATH_SIZE + 16];
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    snprintf(pattern, sizeof pattern, "%s/%s", folder, patterns[i]);
    add_glob(f, pattern, TP__TRUST_SCRIPT);
  }
}

static void add_one(finder *f, const char *path, tp__trust_role role) {
  if (role != TP__TRUST_DATA && !f->is_literal && strpbrk(path, "*?[{")) add_glob(f, path, role);
  else if (!is_folder(path)) add_path(f, path, role);
  else if (role == TP__TRUST_SCRIPT) add_folder(f, path);
}

/* A path of a line that begins with a slash may lack an unknown folder before it: "$(git rev-parse …)/x.sh". */
static bool may_be_below(const finder *f, const char *word) { return word[0] != '/' || !f->is_literal; }

/* Adds a file in each folder in which it exists. A relative path is also added at the root, even if there is no file: a
 * file that is created there later must not run. @param word  expanded. */
static void add_file(finder *f, const char *word, tp__trust_role role) {
  char path[PATH_SIZE + PATH_SIZE];
  bool is_below = word[0] != '/', is_there = !is_below && access(word, F_OK) == 0, is_found = is_there;
  assert(f->folder_count > 0 && f->folder_count <= FOLDERS_MAX);
  if (!word[0]) return;
  for (size_t i = 0; may_be_below(f, word) && i < f->folder_count; i++) {
    snprintf(path, sizeof path, "%s/%s", f->folders[i], word);
    bool is_here = access(path, F_OK) == 0;
    is_found = is_found || is_here;
    if (is_here || (is_below && role == TP__TRUST_DATA)) add_one(f, path, role);
  }
  if (role == TP__TRUST_DATA && is_below) return;
  bool is_known = !is_found && !f->has_unknown;
  snprintf(path, sizeof path, "%s/%s", f->folders[0], word);
  if (!is_below && (is_there || !is_found))
    add_one(f, word, is_there || is_known || role == TP__TRUST_DATA ? role : TP__TRUST_ARGUMENT);
  if (is_below && access(path, F_OK) != 0) add_one(f, path, is_known ? role : TP__TRUST_ARGUMENT);
  if (!is_below && f->has_unknown && !is_found) add_one(f, path, TP__TRUST_ARGUMENT);
}

/* Whether a word means the output of another command, or the standard input: neither is a file with a name. Notes which
 * of the two it is. */
static bool is_printed(finder *f, const char *word) {
  bool is_input = is_in(word, "/dev/stdin /dev/fd/0 /proc/self/fd/0"), is_unknown = !strcmp(word, TP__SHELL_UNKNOWN);
  f->feeds_shell = f->feeds_shell || is_input;
  f->may_feed_shell = f->may_feed_shell || is_unknown;
  return is_input || is_unknown;
}

static void take_file(finder *f, const char *word, tp__trust_role role) {
  char text[PATH_SIZE];
  if (role == TP__TRUST_SCRIPT && is_printed(f, word)) return;
  if (expand(f, word, text)) add_file(f, text, role);
  if (role == TP__TRUST_SCRIPT && f->has_unknown && f->reads_names) f->runs_names = true;
}

/* An option may have a file after its "=". */
static void take_arguments(finder *f, const words *w, size_t first, tp__trust_role role) {
  for (size_t i = first; i < w->count; i++) {
    const char *equals = w->items[i][0] == '-' ? strchr(w->items[i], '=') : NULL;
    if (equals) take_file(f, equals + 1, role);
    else if (w->items[i][0] != '-') take_file(f, w->items[i], role);
  }
}

/* ---- programs ---- */

static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static const char grammar[] = "! { } if then elif else do while until time coproc function fi done esac in ( ) [[ ]]";
/* Commands of the shell itself that run no files. */
static const char built_in[] =
    "echo printf test [ [[ : true false return exit set shift wait kill read trap umask unset ulimit let alias unalias "
    "pwd hash type jobs fg bg getopts times for select case break continue shopt complete bind";
static const char setting[] = "export readonly declare typeset local";
/* Programs that read or write the files that their arguments name. */
static const char readers[] =
    "cat grep egrep fgrep rg ag ack head tail wc sort uniq cut tr diff cmp comm tee touch rm rmdir mkdir cp mv ln "
    "chmod "
    "chown stat ls file du df basename dirname realpath readlink md5sum sha1sum sha256sum b2sum cksum od xxd hexdump "
    "strings gzip gunzip zcat bzip2 xz tar zip unzip sqlite3 logger dd split paste column fold fmt nl tac rev shuf "
    "less "
    "more curl wget jq yq ruff black flake8 pylint mypy isort autopep8 yapf bandit eslint prettier tsc biome stylelint "
    "shellcheck shfmt hadolint yamllint markdownlint gofmt goimports golint rustfmt clang-format clang-tidy ktlint "
    "rubocop phpcs phpstan standard git gh notify-send osascript say afplay mktemp truncate sha512sum inotifywait";
/* Programs that run the file after -f or --file, and read their other arguments. */
static const char by_option[] = "awk gawk mawk nawk sed gsed jq yq make gmake psql";

/* python3.11, node, … */
static bool is_interpreter(const char *name) {
  static const char list[] =
      "python pypy node nodejs deno bun tsx ts-node ruby perl php lua luajit Rscript pwsh expect tclsh wish guile "
      "racket "
      "elixir escript julia java groovy scala kotlin swift osascript bats raku nu xonsh";
  char plain[64];
  size_t size = strcspn(name, "0123456789");
  bool has_version = name[size] && strspn(name + size, "0123456789.") == strlen(name + size);
  if (has_version && size > 0 && size < sizeof plain) {
    memcpy(plain, name, size);
    plain[size] = '\0';
    return is_in(plain, list);
  }
  return is_in(name, list);
}

static bool is_known(const char *name) {
  return tp__shell_is_shell(tp_text_of(name)) || is_interpreter(name) || is_in(name, by_option) ||
         is_in(name, readers) || tp__shell_is_wrapper(tp_text_of(name));
}

/* @return whether it is there. */
static bool add_program(finder *f, const char *name) {
  char path[PATH_SIZE];
  if (strchr(name, '/')) {
    add_file(f, name, TP__TRUST_PROGRAM);
    return true;
  }
  size_t before = f->hook->trusted_count;
  const char *search = variable_value(f, "PATH", 4);
  bool is_found = tp__trust_look_up(search, name, path, sizeof path);
  tp__trust_name by_name = {keep(f, tp_text_of(name)), search};
  if (!is_found) snprintf(path, sizeof path, "%s/%.255s", f->hooks->root, name);
  if (f->status == TP_OK) f->status = tp__trust_add(f->hooks, f->hook, path, &by_name, TP__TRUST_PROGRAM, f->fault);
  if (is_found && f->hook->trusted_count > before) take_shebang(f, path);
  return is_found;
}

static bool is_program(const finder *f, const char *word) {
  char path[PATH_SIZE];
  if (!strchr(word, '/')) return tp__trust_look_up(variable_value(f, "PATH", 4), word, path, sizeof path);
  if (word[0] == '/') return access(word, X_OK) == 0 && !is_folder(word);
  for (size_t i = 0; i < f->folder_count; i++) {
    snprintf(path, sizeof path, "%.2000s/%.2000s", f->folders[i], word);
    if (access(path, X_OK) == 0 && !is_folder(path)) return true;
  }
  return false;
}

/* ---- the words of each kind of program ---- */

static void add_place(finder *f, const char *path) {
  assert(path[0] == '/');
  if (f->folder_count == FOLDERS_MAX) refuse_long(f, "folders");
  else f->folders[f->folder_count++] = keep(f, tp_text_of(path));
}

static void go_to(finder *f, const char *word) {
  char text[PATH_SIZE], path[PATH_SIZE + PATH_SIZE];
  if (!expand(f, word, text) || !text[0]) return;
  snprintf(path, sizeof path, "%s/%s", f->folders[f->folder_count - 1], text);
  if (text[0] != '/' || (may_be_below(f, text) && is_folder(path))) add_place(f, path);
  if (text[0] == '/') add_place(f, text);
}

static void set_variable(finder *f, const char *word) {
  char text[PATH_SIZE], pair[PATH_SIZE + 256];
  size_t size = name_size(word);
  if (size > 200 || !expand(f, word + size + 1, text)) return;
  if (f->variable_count == VARIABLES_MAX) {
    refuse_long(f, "variables");
    return;
  }
  snprintf(pair, sizeof pair, "%.*s=%s", (int)size, word, text);
  f->variables[f->variable_count++] = keep(f, tp_text_of(pair));
  if (strchr(text, '/')) add_file(f, text, TP__TRUST_ARGUMENT);
}

static bool is_assignment(const char *word) {
  size_t size = name_size(word);
  return size > 0 && word[size] == '=';
}

static void take_rest(finder *f, const words *w, size_t first) {
  words rest = {.count = 0};
  for (size_t i = first; i < w->count; i++) rest.items[rest.count++] = w->items[i];
  find_in_words(f, &rest);
}

/* ---- names that one command finds and another runs ---- */

static void add_source(finder *f, const char *word) {
  if (f->source_count == PENDING_MAX) refuse_long(f, "names");
  else f->sources[f->source_count++] = keep(f, tp_text_of(word));
}

/* Whether a found name replaces the word, or the mark in it: "{}", "$1", "$@". */
static bool is_given(const char *word, const char *mark) {
  return strstr(word, mark) != NULL || is_in(word, "$0 $1 $@ $* ${0} ${1} ${@} ${*}");
}

typedef struct given {
  const char *mark;
  bool is_run;
} given;

static bool runs_given(const words *w, const char *mark);

static void look_for_given(void *ctx, const tp__shell_command *command) {
  char bytes[WORDS_MAX][128];
  given *g = ctx;
  words w = {.count = 0};
  for (size_t i = 0; i < command->count && i < WORDS_MAX; i++) {
    snprintf(bytes[i], sizeof bytes[i], "%.*s", (int)command->words[i].size, command->words[i].data);
    if (!((command->inputs | command->outputs) >> i & 1) && !is_in(bytes[i], grammar)) w.items[w.count++] = bytes[i];
  }
  g->is_run = g->is_run || runs_given(&w, g->mark);
}

/* Whether a command runs the name that replaces its mark: as the program, or as the script of a shell or an
 * interpreter. For a line, one of its commands must do so. */
static bool runs_given(const words *w, const char *mark) {
  size_t at = 0;
  assert(mark[0] && w->count <= WORDS_MAX);
  while (at < w->count && (tp__shell_is_wrapper(tp_text_of(base_of(w->items[at]))) || w->items[at][0] == '-' ||
                           is_assignment(w->items[at]) || (w->items[at][0] >= '0' && w->items[at][0] <= '9')))
    at++;
  if (at == w->count) return false;
  const char *name = base_of(w->items[at]);
  if (is_given(w->items[at], mark)) return true;
  bool is_shell = tp__shell_is_shell(tp_text_of(name)), is_line = false;
  if (!is_shell && !is_interpreter(name) && !is_in(name, ". source eval")) return false;
  for (size_t i = at + 1; i < w->count; i++) {
    const char *word = w->items[i];
    bool is_option = word[0] == '-' && word[1];
    is_line = is_line || (is_shell && is_option && word[1] != '-' && strchr(word, 'c'));
    if (is_option && is_shell && tp__shell_option_has_value(tp_text_of(word))) i++;
    if (is_option) continue;
    given inner = {.mark = mark};
    if (!is_line) return is_given(word, mark);
    return !tp__shell_line_each(tp_text_of(word), look_for_given, &inner) || inner.is_run;
  }
  return false;
}

static void take_given(finder *f, const words *w, const char *mark) {
  assert(mark[0]);
  if (w->count == 0) return;
  f->runs_names = f->runs_names || runs_given(w, mark);
  find_in_words(f, w);
}

/* Adds patterns for the files below a folder, not their names, because a file that is added later must not run, either.
 * A plain name also becomes a pattern: a name without a file would count as a missing file. */
static void add_found(finder *f, const char *folder, const char *name, unsigned levels) {
  static const char between[] = "*/*/*/*/*/";
  char text[PATH_SIZE], pattern[PATH_SIZE + 64];
  assert(levels <= FIND_LEVELS && 2 * FIND_LEVELS == sizeof between - 1);
  if (!expand(f, folder, text) || strlen(text) + strlen(name) >= PATH_SIZE) return;
  bool is_plain = name[0] && !strpbrk(name, "*?[{");
  for (unsigned level = 0; level < levels; level++) {
    snprintf(pattern, sizeof pattern, "%.3000s/%.*s%s%.1s%s%.1000s", text, (int)(2 * level), between,
             is_plain ? "[" : "", name, is_plain ? "]" : "", name + (name[0] != '\0'));
    add_source(f, pattern);
  }
}

/* find lib tools -maxdepth 2 -name '*.sh' -exec sh {} \; */
static void take_find(finder *f, const words *w) {
  size_t paths = 1, names = 0;
  assert(w->count > 0);
  unsigned levels = FIND_LEVELS;
  while (paths < w->count && !strchr("-(!", w->items[paths][0])) paths++;
  for (size_t i = paths; i + 1 < w->count; i++) {
    if (is_in(w->items[i], "-maxdepth") && w->items[i + 1][0] >= '0' && w->items[i + 1][0] <= '0' + FIND_LEVELS)
      levels = (unsigned)(w->items[i + 1][0] - '0');
    names += is_in(w->items[i], "-name -iname");
    if (!is_in(w->items[i], "-exec -execdir -ok -okdir")) continue;
    words run = {.count = 0};
    for (i++; i < w->count && !is_in(w->items[i], "; +"); i++) run.items[run.count++] = w->items[i];
    take_given(f, &run, "{}");
  }
  for (size_t i = paths; i + 1 < w->count; i++)
    for (size_t j = 1; j < paths || (j == 1 && paths == 1); j++)
      if (is_in(w->items[i], "-name -iname")) add_found(f, paths > 1 ? w->items[j] : ".", w->items[i + 1], levels);
  for (size_t j = 1; names == 0 && (j < paths || (j == 1 && paths == 1)); j++)
    add_found(f, paths > 1 ? w->items[j] : ".", "*", levels);
}

/* Whether the next word of xargs or parallel is a file from which it reads names. */
static bool is_list_option(const char *word) { return is_in(word, "-a --arg-file --argfile ::::"); }

/* xargs -0 -n1 -I% sh %; without a mark xargs puts the names at the end of the command. */
static void take_xargs(finder *f, const words *w) {
  static const char with_value[] = "-n -P -L -d -E -s -a -j --max-args --max-procs --max-lines --delimiter --arg-file";
  const char *mark = NULL;
  size_t at = 1;
  assert(w->count > 0);
  for (; at < w->count && w->items[at][0] == '-'; at++) {
    const char *word = w->items[at];
    bool has_next = at + 1 < w->count;
    if (has_next && is_list_option(word)) take_file(f, w->items[at + 1], TP__TRUST_DATA);
    if (has_next && is_in(word, "-I --replace")) mark = w->items[++at];
    else if (strncmp(word, "-I", 2) == 0 || strncmp(word, "-i", 2) == 0) mark = word[2] ? word + 2 : "{}";
    else if (has_next && is_in(word, with_value)) at++;
  }
  words run = {.count = 0};
  for (; at < w->count; at++) run.items[run.count++] = w->items[at];
  if (!mark && run.count > 0 && run.count < WORDS_MAX) run.items[run.count++] = "{}";
  take_given(f, &run, mark && mark[0] ? mark : "{}");
}

/* parallel sh ::: a.sh b.sh; parallel 'sh {}'; without a command the names are commands. */
static void take_parallel(finder *f, const words *w) {
  char text[PATH_SIZE];
  words run = {.count = 0};
  bool in_names = false, in_lists = false, has_mark = false;
  for (size_t i = 1; i < w->count; i++) {
    const char *word = w->items[i];
    bool begins = run.count > 0 || strpbrk(word, " \t{") ||
                  (word[0] != '-' && expand(f, word, text) && (is_program(f, text) || is_known(base_of(text))));
    if (strncmp(word, ":::", 3) == 0) {
      in_lists = word[3] == ':';
      in_names = !in_lists;
    } else if (in_lists || (i > 1 && run.count == 0 && is_list_option(w->items[i - 1]))) {
      take_file(f, word, TP__TRUST_DATA);
    } else if (in_names) {
      add_source(f, word);
    } else if (begins) {
      has_mark = has_mark || strstr(word, "{}");
      if (run.count == 0 && strpbrk(word, " \t")) {
        given inner = {.mark = "{}"};
        f->runs_names = f->runs_names || !tp__shell_line_each(tp_text_of(word), look_for_given, &inner) || inner.is_run;
        find_in_line(f, word);
      }
      run.items[run.count++] = word;
    }
  }
  bool has_command = run.count > 0;
  for (size_t i = 0; !has_command && i < f->source_count; i++) find_in_line(f, f->sources[i]);
  f->feeds_shell = f->feeds_shell || !has_command;
  if (has_command && !has_mark && run.count < WORDS_MAX) run.items[run.count++] = "{}";
  if (has_command) take_given(f, &run, "{}");
}

/* Takes a file that lists names: the list itself, because another list would run other files, and each file in the
 * list.
 * @return false: the path is no file that can be read. */
static bool take_list(finder *f, const char *path) {
  tp__bytes text = {0};
  if (is_folder(path) || tp__file_read(AT_FDCWD, path, LIST_BYTES_MAX, &text) != 0) return false;
  add_path(f, path, TP__TRUST_SCRIPT);
  f->is_literal = true;
  (void)tp__bytes_string(&text); /* ends it */
  for (char *rest = text.data, *name; rest && f->status == TP_OK && (name = strtok_r(rest, " \t\r\n", &rest));)
    if (access(name, F_OK) == 0 || strpbrk(name, "./")) add_file(f, name, TP__TRUST_SCRIPT);
  f->is_literal = false;
  tp__bytes_fini(&text);
  return true;
}

/* Takes the files whose names one command finds and another runs: the sources, and the files that list names. */
static void take_names(finder *f) {
  char text[PATH_SIZE], pattern[PATH_SIZE + 8];
  size_t lists = 0, count = f->pending_count;
  assert(f->runs_names && f->source_count <= PENDING_MAX && count <= PENDING_MAX);
  f->is_literal = false;
  for (size_t i = 0; i < f->source_count; i++) {
    if (!expand(f, f->sources[i], text) || !text[0]) continue;
    add_file(f, text, TP__TRUST_SCRIPT);
    snprintf(pattern, sizeof pattern, "%s/*", text);
    if (text[strspn(text, "./")] == '\0' || !strpbrk(text, "*?[{")) add_file(f, pattern, TP__TRUST_SCRIPT);
  }
  for (size_t i = 0; i < count && f->status == TP_OK; i++) lists += take_list(f, f->pending[i]);
  bool is_unknown = f->source_count + lists == 0;
  for (const char *const *one = f->hooks->code_files; is_unknown && *one; one++)
    add_file(f, *one, TP__TRUST_SCRIPT); /* the operator has named these as code */
  f->hook->runs_unknown = is_unknown && !f->hooks->code_files[0];
  f->is_literal = true;
}

/* Takes the command of a wrapper such as env or sudo. It begins with the first word that is a program; the words before
 * it are options and their values. */
static void take_wrapped(finder *f, const words *w, const char *wrapper) {
  char text[PATH_SIZE];
  for (size_t i = 1; i < w->count; i++) {
    const char *word = w->items[i];
    bool has_next = i + 1 < w->count, is_env = strcmp(wrapper, "env") == 0;
    if (is_env && strncmp(word, "--chdir=", 8) == 0) go_to(f, word + 8);
    else if (is_env && has_next && is_in(word, "-C --chdir")) go_to(f, w->items[++i]);
    else if (is_env && strncmp(word, "--split-string=", 15) == 0) find_in_line(f, word + 15);
    else if (is_env && strncmp(word, "-S", 2) == 0 && word[2]) find_in_line(f, word + 2);
    else if (strpbrk(word, " \t")) find_in_line(f, word);
    else if (is_assignment(word)) set_variable(f, word);
    else if (word[0] != '-' && expand(f, word, text) && (is_program(f, text) || is_known(base_of(text)))) {
      take_rest(f, w, i);
      return;
    }
  }
  take_arguments(f, w, 1, TP__TRUST_ARGUMENT);
}

/* bash -euo pipefail -c 'line', bash script, bash < script. */
static void take_shell(finder *f, const words *w) {
  bool is_line = false;
  for (size_t i = 1; i < w->count; i++) {
    const char *word = w->items[i];
    bool is_option = (word[0] == '-' || word[0] == '+') && word[1];
    is_line = is_line || (is_option && word[0] == '-' && word[1] != '-' && strchr(word, 'c'));
    if (is_option && tp__shell_option_has_value(tp_text_of(word))) i++;
    else if (!is_option && word[0] != '-') {
      if (is_line && !is_printed(f, word)) find_in_line(f, word);
      if (!is_line) take_file(f, word, TP__TRUST_SCRIPT);
      take_arguments(f, w, i + 1, TP__TRUST_ARGUMENT); /* the line may run them: "$1" */
      return;
    }
  }
  f->feeds_shell = true;
}

static void take_module(finder *f, const char *module) {
  static const char *const forms[] = {"%s.py", "%s/__main__.py", "%s/__init__.py"};
  char name[256], path[300];
  snprintf(name, sizeof name, "%s", module);
  for (char *dot = name; (dot = strchr(dot, '.'));) *dot = '/';
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(path, sizeof path, forms[i], name);
#pragma GCC diagnostic pop
    add_file(f, path, TP__TRUST_SCRIPT);
  }
}

/* Takes the script of an interpreter: every word that is no option, up to the first word with a dot or a slash in it.
 * The words before that one may be values of options. */
static void take_interpreter(finder *f, const words *w) {
  bool has_code = false;
  for (size_t i = 1; i < w->count && !has_code; i++) {
    const char *word = w->items[i];
    char text[PATH_SIZE];
    bool has_next = i + 1 < w->count;
    if (has_next && is_in(word, "-m")) {
      take_module(f, w->items[i + 1]);
      has_code = true;
    } else if (has_next && is_in(word, "-c -e -p -E -ne -pe -le -lne --eval --print eval")) {
      (void)is_printed(f, w->items[i + 1]);
      has_code = true; /* it is in the command itself, or printed */
    } else if (word[0] != '-' && !is_in(word, "run") && expand(f, word, text)) {
      take_file(f, word, TP__TRUST_SCRIPT);
      has_code = strpbrk(text, "./") != NULL || !has_next;
    }
  }
  if (!has_code) f->feeds_shell = true;
  take_arguments(f, w, 1, TP__TRUST_ARGUMENT);
}

static void take_by_option(finder *f, const words *w, const char *program) {
  bool makes = is_in(program, "make gmake");
  for (size_t i = 1; i < w->count; i++) {
    const char *word = w->items[i];
    if (makes && i + 1 < w->count && is_in(word, "-C --directory")) go_to(f, w->items[i + 1]);
    if (i + 1 < w->count && is_in(word, "-f --file --from-file --makefile"))
      take_file(f, w->items[i + 1], TP__TRUST_SCRIPT);
    else if (strncmp(word, "--file=", 7) == 0) take_file(f, word + 7, TP__TRUST_SCRIPT);
    else if (strncmp(word, "-f", 2) == 0 && word[2]) take_file(f, word + 2, TP__TRUST_SCRIPT);
  }
  if (makes) {
    /* make reads the first of these that exists. */
    take_file(f, "GNUmakefile", TP__TRUST_SCRIPT);
    take_file(f, "makefile", TP__TRUST_SCRIPT);
    take_file(f, "Makefile", TP__TRUST_SCRIPT);
  }
  take_arguments(f, w, 1, TP__TRUST_DATA);
}

/* Takes all files of each folder that the words name. */
static void take_folders(finder *f, const words *w) {
  char text[PATH_SIZE], pattern[PATH_SIZE + 8];
  for (size_t i = 1; i < w->count; i++) {
    if (w->items[i][0] == '-' || !expand(f, w->items[i], text) || strlen(text) >= PATH_SIZE - 2) continue;
    snprintf(pattern, sizeof pattern, "%s/*", text);
    add_file(f, pattern, TP__TRUST_SCRIPT);
  }
}

/* Adds the names that a command prints. @param without  the name that it prints when none is given; NULL: it prints
 * nothing. */
static void add_printed(finder *f, const words *w, const char *without) {
  size_t count = 0;
  for (size_t i = 1; i < w->count; i++) {
    bool is_name = w->items[i][0] != '-' && !strpbrk(w->items[i], "% \t\n\\:\"'") && strpbrk(w->items[i], "./*");
    if (is_name || (without && w->items[i][0] != '-')) add_source(f, w->items[i]);
    count += w->items[i][0] != '-';
  }
  if (without && count == 0) add_source(f, without);
}

/* Takes a command of the shell itself. @return false: the words are those of a program. */
static bool take_built_in(finder *f, const words *w) {
  const char *name = w->items[0];
  if (is_in(name, setting)) {
    for (size_t i = 1; i < w->count; i++)
      if (is_assignment(w->items[i])) set_variable(f, w->items[i]);
  } else if (is_in(name, "cd pushd")) {
    if (w->count > 1) go_to(f, w->items[w->count - 1]);
  } else if (is_in(name, ". source")) {
    if (w->count > 1) take_file(f, w->items[1], TP__TRUST_SCRIPT);
  } else if (is_in(name, "eval trap")) {
    for (size_t i = 1; i < w->count; i++)
      if (!is_printed(f, w->items[i])) find_in_line(f, w->items[i]);
  } else if (is_in(name, "for select")) {
    take_arguments(f, w, 3, TP__TRUST_ARGUMENT);
    for (size_t i = 3; i < w->count; i++) f->reads_names = f->reads_names || strstr(w->items[i], TP__SHELL_UNKNOWN);
  } else {
    f->reads_names = f->reads_names || is_in(name, "read mapfile readarray");
    if (is_in(name, "echo printf")) add_printed(f, w, NULL);
    return is_in(name, built_in);
  }
  return true;
}

static void find_in_words(finder *f, const words *w) {
  char program[PATH_SIZE];
  size_t first = 0;
  words rest = {.count = 0};
  for (; !f->is_literal && first < w->count; first++) {
    if (is_assignment(w->items[first])) set_variable(f, w->items[first]);
    else if (!is_in(w->items[first], grammar)) break;
  }
  for (size_t i = first; i < w->count; i++) rest.items[rest.count++] = w->items[i];
  if (rest.count == 0 || f->status != TP_OK) return;
  if (f->depth >= DEPTH_MAX) {
    refuse_long(f, "lines in lines");
    return;
  }
  f->depth++;
  bool is_done = !f->is_literal && take_built_in(f, &rest);
  bool is_named = !is_done && !is_printed(f, rest.items[0]) && expand(f, rest.items[0], program) && program[0];
  if (!is_done && rest.items[0][0] == '$' && f->has_unknown && f->reads_names) f->runs_names = true;
  if (is_named) {
    const char *name = base_of(program);
    add_program(f, program);
    if (tp__shell_is_shell(tp_text_of(name))) take_shell(f, &rest);
    else if (is_interpreter(name)) take_interpreter(f, &rest);
    else if (is_in(name, "find")) take_find(f, &rest);
    else if (is_in(name, "xargs")) take_xargs(f, &rest);
    else if (is_in(name, "parallel")) take_parallel(f, &rest);
    else if (tp__shell_is_wrapper(tp_text_of(name))) take_wrapped(f, &rest, name);
    else if (is_in(name, by_option)) take_by_option(f, &rest, name);
    else if (is_in(name, "run-parts")) take_folders(f, &rest);
    else take_arguments(f, &rest, 1, is_in(name, readers) ? TP__TRUST_DATA : TP__TRUST_ARGUMENT);
    if (is_in(name, "ls")) add_printed(f, &rest, ".");
  } else if (!is_done) take_arguments(f, &rest, 1, TP__TRUST_ARGUMENT); /* of a program that is not known */
  f->depth--;
}

/* ---- lines ---- */

static void take_command(void *ctx, const tp__shell_command *command) {
  finder *f = ctx;
  words w = {.count = 0};
  assert(command->count <= WORDS_MAX);
  for (size_t i = 0; i < command->count; i++) {
    const char *word = keep(f, command->words[i]);
    bool is_input = (command->inputs >> i & 1) != 0, is_output = (command->outputs >> i & 1) != 0;
    size_t pending = f->pending_count;
    if (is_input || is_output) take_file(f, word, TP__TRUST_DATA);
    else w.items[w.count++] = word;
    if (is_output) f->pending_count = pending;
  }
  find_in_words(f, &w);
}

static void find_in_line(finder *f, const char *line) {
  if (f->status != TP_OK) return;
  if (f->depth >= DEPTH_MAX) {
    refuse_long(f, "lines in lines");
    return;
  }
  bool was_literal = f->is_literal;
  f->depth++;
  f->is_literal = false;
  if (!tp__shell_line_each(tp_text_of(line), take_command, f)) refuse_long(f, "lines in lines");
  f->is_literal = was_literal;
  f->depth--;
}

tp_status tp__trust_find(tp_hooks *hooks, tp__hook *hook, tp_fault *fault) {
  finder f = {.hooks = hooks, .hook = hook, .fault = fault, .is_literal = true};
  words w = {.count = 0};
  f.folders[f.folder_count++] = hooks->root;
  assert(variable_value(&f, "PATH", 4));
  for (size_t i = 0; i < hook->argument_count && w.count < WORDS_MAX; i++) w.items[w.count++] = hook->arguments[i];
  find_in_words(&f, &w);
  size_t count = f.feeds_shell || f.may_feed_shell ? f.pending_count : 0;
  for (size_t i = 0; i < count && f.status == TP_OK; i++)
    add_path(&f, f.pending[i], f.feeds_shell ? TP__TRUST_SCRIPT : TP__TRUST_ARGUMENT);
  if (f.runs_names && f.status == TP_OK) take_names(&f);
  return f.status == TP_OK ? tp__trust_find_loads(hooks, hook, fault) : f.status;
}
