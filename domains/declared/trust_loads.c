/* SPDX-License-Identifier: Apache-2.0
 *
 * trust_loads.c: finds what the scripts of a hook load from outside of its directory: modules of Python (import, from,
 * paths added to sys.path), of JavaScript (require, import) and Ruby (require_relative), and files that a shell reads
 * (`.`, source). Scripts are read line by line; files that they load are read in the same way. A name that is made in
 * another way, as in __import__(name), is not found. A found file is not trusted as code before the operator says that
 * it is code: it is listed as unclear. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domains/declared/hook.h"
#include "domains/declared/trust.h"

enum {
  PATH_SIZE = 4096,
  SCRIPT_BYTES_MAX = 256 << 10,
  LOADED_MAX = 64, /* of one hook */
  READ_MAX = 128,  /* files that are looked at */
  BASES_MAX = 8,
  NAMES_MAX = 16,
  PIECE_MAX = 512
};

typedef enum language { NO_LANGUAGE, PYTHON, JAVASCRIPT, SHELL, RUBY } language;

typedef struct named_path {
  char name[64];
  char path[PATH_SIZE];
} named_path;

typedef struct loads {
  tp_hooks *hooks;
  tp__hook *hook;
  char read[READ_MAX][PATH_SIZE / 4]; /* files that were, or will be, looked at */
  size_t read_count;
  size_t loaded;
  /* of the file at hand */
  char folder[PATH_SIZE];
  char bases[BASES_MAX][PATH_SIZE]; /* where modules are looked for, besides */
  size_t base_count;
  named_path names[NAMES_MAX]; /* variables that hold a path */
  size_t name_count;
  tp_status status;
  tp_fault *fault;
} loads;

/* ---- paths ---- */

static bool is_file(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

static bool is_below(const char *path, const char *folder) {
  size_t size = strlen(folder);
  return strncmp(path, folder, size) == 0 && path[size] == '/';
}

static void go_up(char *path) {
  char *slash = strrchr(path, '/');
  if (slash) *slash = '\0';
}

static bool join(char ret_path[PATH_SIZE], const char *folder, tp_text rest) {
  bool is_whole = rest.size > 0 && rest.data[0] == '/';
  int size = snprintf(ret_path, PATH_SIZE, "%s%s%.*s", is_whole ? "" : folder, is_whole ? "" : "/", (int)rest.size,
                      rest.size ? rest.data : "");
  return size > 0 && size < PATH_SIZE;
}

/* Takes a file that is loaded: searches it in turn, and lists it if it is outside of the directory. @return whether it
 * exists as a file. */
static bool take_loaded_file(loads *l, const char *path) {
  char *real = is_file(path) ? realpath(path, NULL) : NULL;
  bool is_one = real && strlen(real) < sizeof l->read[0];
  for (size_t i = 0; is_one && i < l->read_count; i++)
    if (strcmp(l->read[i], real) == 0) {
      free(real);
      return true;
    }
  if (is_one && l->read_count < READ_MAX) snprintf(l->read[l->read_count++], sizeof l->read[0], "%s", real);
  bool is_elsewhere = is_one && !is_below(real, l->hooks->folder);
  if (is_elsewhere && (l->loaded == LOADED_MAX || l->hook->trusted_count == TP__HOOK_FILES_MAX))
    l->hook->loads_more = true;
  else if (is_elsewhere && l->status == TP_OK) {
    l->loaded++;
    l->status = tp__trust_add(l->hooks, l->hook, real, NULL, TP__TRUST_LOADED, l->fault);
  }
  free(real);
  return is_one;
}

/* ---- lines ---- */

static tp_text trim_line(tp_text line) {
  while (line.size > 0 && isspace((unsigned char)line.data[0])) line.data++, line.size--;
  while (line.size > 0 && isspace((unsigned char)line.data[line.size - 1])) line.size--;
  return line;
}

static bool has(tp_text line, const char *word) { return memmem(line.data, line.size, word, strlen(word)) != NULL; }

static size_t count_word(tp_text line, const char *word) {
  size_t count = 0, size = strlen(word);
  for (const char *at = line.data, *end = line.data + line.size;
       (at = memmem(at, (size_t)(end - at), word, size)) != NULL; at += size)
    count++;
  return count;
}

/* The next text in quotes. @param ret_rest  the text after it. */
static bool next_quoted(tp_text line, tp_text *ret_text, tp_text *ret_rest) {
  size_t at = 0;
  while (at < line.size && !strchr("\"'`", line.data[at])) at++;
  if (at + 1 >= line.size) return false;
  const char *end = memchr(line.data + at + 1, line.data[at], line.size - at - 1);
  if (!end) return false;
  *ret_text = (tp_text){line.data + at + 1, (size_t)(end - line.data - at - 1)};
  *ret_rest = (tp_text){end + 1, (size_t)(line.data + line.size - end - 1)};
  return true;
}

static bool is_word_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool has_word(tp_text line, const char *word) {
  size_t size = strlen(word);
  for (const char *at = line.data, *end = line.data + line.size;
       (at = memmem(at, (size_t)(end - at), word, size)) != NULL; at++) {
    bool is_begin = at == line.data || !is_word_byte(at[-1]), is_end = at + size == end || !is_word_byte(at[size]);
    if (is_begin && is_end) return true;
  }
  return false;
}

/* The variable that an assignment sets; empty: it is no assignment. */
static tp_text assigned(tp_text line) {
  static const char *const words[] = {"const ", "let ", "var ", "export ", "local ", "readonly "};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (tp__begins(line, words[i]))
      line = trim_line((tp_text){line.data + strlen(words[i]), line.size - strlen(words[i])});
  size_t size = 0;
  while (size < line.size && is_word_byte(line.data[size])) size++;
  size_t at = size;
  while (at < line.size && line.data[at] == ' ') at++;
  bool is_one = size > 0 && at + 1 < line.size && line.data[at] == '=' && line.data[at + 1] != '=';
  return is_one ? (tp_text){line.data, size} : (tp_text){NULL, 0};
}

static void keep_name(loads *l, tp_text name, const char *path) {
  if (name.size == 0 || name.size >= sizeof l->names[0].name || l->name_count == NAMES_MAX) return;
  named_path *kept = &l->names[l->name_count++];
  snprintf(kept->name, sizeof kept->name, "%.*s", (int)name.size, name.data);
  snprintf(kept->path, sizeof kept->path, "%s", path);
}

static const char *path_named_in(const loads *l, tp_text line) {
  for (size_t i = l->name_count; i-- > 0;)
    if (has_word(line, l->names[i].name)) return l->names[i].path;
  return NULL;
}

/* The folder or file that a line of Python or JavaScript names: "os.path.join(os.path.dirname(__file__), '..')",
 * "Path(__file__).parent.parent / 'lib'", "path.join(__dirname, '../lib')", with variables that the file has set so.
 * @param own  the name that means the file or its folder. @return false: the path is unknown. */
static bool path_of_line(const loads *l, tp_text line, const char *own, const char *file, char ret_path[PATH_SIZE]) {
  tp_text piece, rest = line;
  const char *variable = path_named_in(l, line);
  bool is_own = has(line, own);
  size_t ups = count_word(line, "dirname(") + count_word(line, ".parent") - count_word(line, ".parents[");
  const char *parents = memmem(line.data, line.size, ".parents[", 9);
  if (parents && parents + 9 < line.data + line.size && isdigit((unsigned char)parents[9]))
    ups += (size_t)(parents[9] - '0') + 1;
  snprintf(ret_path, PATH_SIZE, "%s", is_own ? file : variable ? variable : l->hooks->root);
  if (!is_own && !variable && ups > 0) return false;
  while (ups-- > 0) go_up(ret_path);
  while (next_quoted(rest, &piece, &rest)) {
    char folder[PATH_SIZE];
    if (piece.size == 0 || piece.size > PIECE_MAX || tp__is_word(piece, own)) continue;
    snprintf(folder, sizeof folder, "%s", ret_path);
    if (!join(ret_path, folder, piece)) return false;
  }
  return ret_path[0] == '/';
}

/* ---- Python ---- */

static void add_base(loads *l, const char *path) {
  char *real = l->base_count < BASES_MAX ? realpath(path, NULL) : NULL;
  if (real && strlen(real) < PATH_SIZE) snprintf(l->bases[l->base_count++], PATH_SIZE, "%s", real);
  free(real);
}

/* "a.b" below a folder: a/b.py, or the packages a and a/b. */
static bool take_dotted(loads *l, const char *folder, tp_text name) {
  static const char *const ends[] = {".py", "/__init__.py"};
  char path[PATH_SIZE], whole[PATH_SIZE + 16];
  bool is_found = false;
  if (name.size == 0 || name.size > PIECE_MAX || !join(path, folder, name)) return false;
  size_t start = strlen(folder) + 1;
  for (char *at = path + start; *at; at++)
    if (*at == '.') *at = '/';
  size_t size = start;
  do {
    size += strcspn(path + size, "/");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
      snprintf(whole, sizeof whole, "%.*s%s", (int)size, path, ends[i]);
      is_found = take_loaded_file(l, whole) || is_found;
    }
  } while (path[size++]);
  return is_found;
}

/* The first folder that has the module counts: the script's own, those of sys.path, the root. */
static void take_module(loads *l, tp_text name) {
  bool is_found = take_dotted(l, l->folder, name);
  for (size_t i = 0; !is_found && i < l->base_count; i++) is_found = take_dotted(l, l->bases[i], name);
  if (!is_found) (void)take_dotted(l, l->hooks->root, name);
}

static tp_text next_name(tp_text *rest) {
  *rest = trim_line(*rest);
  while (rest->size > 0 && strchr(",( ", rest->data[0])) rest->data++, rest->size--;
  size_t size = 0;
  while (size < rest->size && (is_word_byte(rest->data[size]) || rest->data[size] == '.')) size++;
  tp_text name = {rest->data, size};
  const char *comma = memchr(rest->data + size, ',', rest->size - size);
  *rest = comma ? (tp_text){comma, (size_t)(rest->data + rest->size - comma)} : (tp_text){NULL, 0};
  return name;
}

/* "from ..a.b import c, d": the dots go up from the folder of the file. */
static void take_from(loads *l, tp_text rest) {
  char folder[PATH_SIZE], dotted[PATH_SIZE];
  const char *import = memmem(rest.data, rest.size, " import ", 8);
  if (!import) return;
  tp_text module = trim_line((tp_text){rest.data, (size_t)(import - rest.data)});
  tp_text names = {import + 8, (size_t)(rest.data + rest.size - import - 8)};
  size_t dots = 0;
  while (dots < module.size && module.data[dots] == '.') dots++;
  module = (tp_text){module.data + dots, module.size - dots};
  snprintf(folder, sizeof folder, "%s", l->folder);
  for (size_t i = 1; i < dots; i++) go_up(folder);
  if (module.size > PIECE_MAX) return;
  if (dots == 0) take_module(l, module);
  else (void)take_dotted(l, folder, module);
  while (names.size > 0) {
    tp_text name = next_name(&names);
    if (name.size == 0 || name.size > PIECE_MAX) continue;
    snprintf(dotted, sizeof dotted, "%.*s%s%.*s", (int)module.size, module.size ? module.data : "",
             module.size ? "." : "", (int)name.size, name.data);
    if (dots == 0) take_module(l, tp_text_of(dotted));
    else (void)take_dotted(l, folder, tp_text_of(dotted));
  }
}

static void take_python(loads *l, tp_text line, const char *file) {
  char path[PATH_SIZE];
  tp_text quoted, rest = line;
  tp_text variable = assigned(line);
  bool is_path = has(line, "__file__") || (variable.size > 0 && path_named_in(l, line));
  if (is_path && variable.size > 0 && path_of_line(l, line, "__file__", file, path)) keep_name(l, variable, path);
  if (has(line, "sys.path") && path_of_line(l, line, "__file__", file, path)) add_base(l, path);
  if (has(line, "import_module(") && next_quoted(rest, &quoted, &rest)) take_module(l, quoted);
  if ((has(line, "run_path(") || has(line, "spec_from_file_location(") || has(line, "exec(")) &&
      path_of_line(l, line, "__file__", file, path))
    (void)take_loaded_file(l, path);
  if (tp__begins(line, "from ")) take_from(l, (tp_text){line.data + 5, line.size - 5});
  if (!tp__begins(line, "import ")) return;
  for (rest = (tp_text){line.data + 7, line.size - 7}; rest.size > 0;) {
    tp_text name = next_name(&rest);
    if (name.size > 0) take_module(l, name);
  }
}

/* ---- JavaScript and Ruby ---- */

static void take_with_endings(loads *l, const char *path) {
  static const char *const ends[] = {"", ".js", ".mjs", ".cjs", ".ts", ".rb", "/index.js", "/index.mjs"};
  char whole[PATH_SIZE + 16];
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    snprintf(whole, sizeof whole, "%s%s", path, ends[i]);
    if (take_loaded_file(l, whole)) return;
  }
}

/* A package of node_modules, in the folder or in one above it. Its package file stands for the whole package. */
static void take_package(loads *l, tp_text name) {
  char folder[PATH_SIZE], path[PATH_SIZE + PIECE_MAX + 32];
  const char *slash = memchr(name.data, '/', name.size);
  if (slash && name.data[0] == '@') slash = memchr(slash + 1, '/', (size_t)(name.data + name.size - slash - 1));
  int size = slash ? (int)(slash - name.data) : (int)name.size;
  snprintf(folder, sizeof folder, "%s", l->folder);
  while (folder[0]) {
    snprintf(path, sizeof path, "%s/node_modules/%.*s/package.json", folder, size, name.data);
    if (take_loaded_file(l, path)) return;
    go_up(folder);
  }
}

static void take_javascript(loads *l, tp_text line, const char *file) {
  char path[PATH_SIZE];
  tp_text quoted = {NULL, 0}, rest = line, variable = assigned(line);
  bool loads_one = has(line, "require(") || has(line, "import(") || tp__begins(line, "import ") ||
                   has(line, " from ") || tp__begins(line, "} from ");
  bool is_made = has(line, "__dirname") || (path_named_in(l, line) && (has(line, "join(") || has(line, "resolve(")));
  (void)file;
  if (is_made && path_of_line(l, line, "__dirname", l->folder, path)) {
    if (variable.size > 0) keep_name(l, variable, path);
    if (loads_one) take_with_endings(l, path);
    return;
  }
  if (!loads_one) return;
  if (!next_quoted(rest, &quoted, &rest)) {
    const char *kept = path_named_in(l, line);
    if (kept) take_with_endings(l, kept);
    return;
  }
  if (quoted.size == 0 || quoted.size > PIECE_MAX || tp__begins(quoted, "node:")) return;
  bool is_path = quoted.data[0] == '.' || quoted.data[0] == '/';
  if (is_path && join(path, l->folder, quoted)) take_with_endings(l, path);
  else if (!is_path) take_package(l, quoted);
}

static void take_ruby(loads *l, tp_text line) {
  char path[PATH_SIZE];
  tp_text quoted, rest = line;
  bool is_one = tp__begins(line, "require_relative") && next_quoted(rest, &quoted, &rest) && quoted.size <= PIECE_MAX;
  if (is_one && join(path, l->folder, quoted)) take_with_endings(l, path);
}

/* ---- shells ---- */

/* The word after `.` or source, without quotes, up to the next blank outside of $(…) and "…". */
static size_t read_word(tp_text rest, char ret_word[PATH_SIZE]) {
  size_t used = 0, at = 0;
  int depth = 0;
  bool is_quoted = false;
  for (; at < rest.size && used + 1 < PATH_SIZE; at++) {
    char c = rest.data[at];
    if (c == '"' && depth == 0) {
      is_quoted = !is_quoted;
      continue;
    }
    if (c == '\'' && depth == 0) continue;
    if (depth == 0 && !is_quoted && strchr(" \t;&|)#", c)) break;
    depth += c == '(' || c == '{';
    depth -= (c == ')' || c == '}') && depth > 0;
    ret_word[used++] = c;
  }
  ret_word[used] = '\0';
  return at;
}

/* The rest of a word after its computed first part; for "$(dirname "$0")/../lib/x.sh": "../lib/x.sh".
 * @param ret_name  the variable that is the first part; empty: it is no variable. */
static const char *after_made_part(const char *word, tp_text *ret_name) {
  char close = word[1] == '(' ? ')' : word[1] == '{' ? '}' : '\0';
  const char *end = word + 1;
  int depth = 0;
  *ret_name = (tp_text){NULL, 0};
  if (close) {
    for (; *end; end++) {
      depth += *end == word[1];
      depth -= *end == close;
      if (*end == close && depth == 0) break;
    }
    if (close == '}') *ret_name = (tp_text){word + 2, strcspn(word + 2, "}%#:[/")};
    end += *end != '\0';
  } else {
    while (is_word_byte(*end)) end++;
    *ret_name = (tp_text){word + 1, (size_t)(end - word - 1)};
  }
  return end + strspn(end, "/");
}

/* The paths that a word may mean: relative to a variable that the file has set, else to the script's folder or the
 * root.
 * @param places  at least three. @return how many. */
static size_t places_of(const loads *l, const char *word, char places[3][PATH_SIZE]) {
  const char *rest = word;
  size_t count = 0;
  if (word[0] == '/') {
    snprintf(places[0], PATH_SIZE, "%s", word);
    return 1;
  }
  if (word[0] == '$') {
    tp_text name;
    rest = after_made_part(word, &name);
    for (size_t i = l->name_count; name.size > 0 && count == 0 && i-- > 0;)
      if (tp__is_word(name, l->names[i].name)) count += join(places[0], l->names[i].path, tp_text_of(rest));
  }
  if (strchr(rest, '$') || count > 0) return count;
  count += join(places[count], l->folder, tp_text_of(rest));
  count += join(places[count], l->hooks->root, tp_text_of(rest));
  return count;
}

static void take_shell_assignment(loads *l, tp_text line) {
  char word[PATH_SIZE], places[3][PATH_SIZE];
  tp_text name = assigned(line);
  const char *equals = name.size > 0 ? memchr(line.data, '=', line.size) : NULL;
  if (!equals) return;
  (void)read_word((tp_text){equals + 1, (size_t)(line.data + line.size - equals - 1)}, word);
  /* LIB=$(cd "$(dirname "$0")/../lib" && pwd) */
  char *inner = strstr(word, "$(cd ");
  if (inner == word) {
    char made[PATH_SIZE];
    (void)read_word(trim_line(tp_text_of(word + 5)), made);
    snprintf(word, sizeof word, "%s", made);
  }
  size_t count = word[0] && (strchr(word, '/') || word[0] == '$') ? places_of(l, word, places) : 0;
  for (size_t i = 0; i < count; i++)
    if (access(places[i], F_OK) == 0) {
      keep_name(l, name, places[i]);
      return;
    }
}

static void take_shell(loads *l, tp_text line) {
  static const char *const words[] = {". ", "source "};
  char word[PATH_SIZE], places[3][PATH_SIZE];
  take_shell_assignment(l, line);
  for (size_t at = 0; at < line.size; at++) {
    bool may_begin = at == 0 || strchr(";&|{( \t", line.data[at - 1]);
    for (size_t i = 0; may_begin && i < sizeof words / sizeof words[0]; i++) {
      tp_text rest = {line.data + at, line.size - at};
      if (!tp__begins(rest, words[i])) continue;
      rest = trim_line((tp_text){rest.data + strlen(words[i]), rest.size - strlen(words[i])});
      (void)read_word(rest, word);
      size_t count = strchr(word, '/') || strchr(word, '.') || word[0] == '$' ? places_of(l, word, places) : 0;
      for (size_t p = 0; p < count && !take_loaded_file(l, places[p]); p++) continue;
    }
  }
}

/* ---- files ---- */

static language language_of(const char *path, tp_text text) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  tp_text ending = tp_text_of(dot ? dot + 1 : ""), first = {text.data, 0};
  while (first.size < text.size && text.data[first.size] != '\n') first.size++;
  if (tp__is_one_of(ending, "py pyw")) return PYTHON;
  if (tp__is_one_of(ending, "js mjs cjs ts")) return JAVASCRIPT;
  if (tp__is_one_of(ending, "sh bash zsh ksh dash")) return SHELL;
  if (tp__is_word(ending, "rb")) return RUBY;
  if (!tp__begins(first, "#!")) return NO_LANGUAGE;
  if (has(first, "python") || has(first, "uv run")) return PYTHON;
  if (has(first, "node") || has(first, "bun") || has(first, "deno")) return JAVASCRIPT;
  return has(first, "ruby") ? RUBY : has(first, "sh") ? SHELL : NO_LANGUAGE;
}

static void take_lines(loads *l, tp_text text, language in, const char *file) {
  assert(in != NO_LANGUAGE);
  while (text.size > 0 && l->status == TP_OK) {
    const char *end = memchr(text.data, '\n', text.size);
    tp_text line = trim_line((tp_text){text.data, end ? (size_t)(end - text.data) : text.size});
    text = end ? (tp_text){end + 1, (size_t)(text.data + text.size - end - 1)} : (tp_text){NULL, 0};
    if (line.size == 0 || line.data[0] == '#') continue;
    if (in == PYTHON) take_python(l, line, file);
    else if (in == JAVASCRIPT) take_javascript(l, line, file);
    else if (in == SHELL) take_shell(l, line);
    else take_ruby(l, line);
  }
}

tp_status tp__trust_find_loads(tp_hooks *hooks, tp__hook *hook, tp_fault *fault) {
  loads *l = calloc(1, sizeof *l);
  if (!l) return tp__refuse(fault, TP_ERR_NO_MEMORY, hook->file, "no memory for a hook");
  l->hooks = hooks;
  l->hook = hook;
  l->fault = fault;
  size_t named = hook->trusted_count;
  for (size_t i = 0; i < named && l->read_count < READ_MAX; i++) {
    const tp__trust_file *file = hook->trusted[i];
    bool may_load = file->is_code && !file->name && strlen(file->path) < sizeof l->read[0];
    if (may_load) snprintf(l->read[l->read_count++], sizeof l->read[0], "%s", file->path);
  }
  for (size_t i = 0; i < l->read_count && l->status == TP_OK; i++) {
    char path[sizeof l->read[0]];
    memcpy(path, l->read[i], sizeof path);
    tp__bytes bytes = {0};
    l->base_count = l->name_count = 0;
    snprintf(l->folder, sizeof l->folder, "%s", path);
    go_up(l->folder);
    int error = tp__file_read(AT_FDCWD, path, SCRIPT_BYTES_MAX, &bytes);
    language in = error == 0 ? language_of(path, tp__bytes_text(&bytes)) : NO_LANGUAGE;
    if (in != NO_LANGUAGE) take_lines(l, tp__bytes_text(&bytes), in, path);
    tp__bytes_fini(&bytes);
  }
  tp_status status = l->status;
  free(l);
  return status;
}
