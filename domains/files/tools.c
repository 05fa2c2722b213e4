/* SPDX-License-Identifier: Apache-2.0
 *
 * The four tools. When a tool cannot do its work, it answers with an error, a sentence for the model with the path and
 * a remedy. */
#include "domains/files/tools.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/file.h"
#include "support/tool_row.h"
#include "domains/files/root.h"
#include "runtime/base/check.h"

enum {
  ENTRIES_MAX = 1000,
  MATCHES_MAX = 100,
  SEARCHED_MAX = 20000, /* files and directories */
  DEPTH_MAX = 32,
  SHOWN_BYTES_MAX = 240, /* the most bytes of a line in a result of files_search */
  FILE_BYTES_MAX = 1 << 20
};

/* Adds the name of a file as one line: a control byte is a question mark, a byte that is not UTF-8 U+FFFD.
 * @return whether the name is shown as it is, so that it can be given as a path. */
static bool add_shown_name(tp__bytes *t, const char *name) {
  size_t begin = t->size;
  bool is_same = tp__bytes_put_utf8(t, tp_text_of(name)) == 0;
  for (size_t i = begin; i < t->size; i++) {
    if ((unsigned char)t->data[i] >= 0x20 && t->data[i] != 0x7f) continue;
    t->data[i] = '?';
    is_same = false;
  }
  return is_same;
}

/* Answers with the text, and frees it. */
static tp_answer answer_with_text(tp_tool_run *run, tp__bytes *t) {
  tp_answer given = t->failed ? tp_tool_error(run, tp_text_of("There is no memory for the answer."))
                              : tp_tool_ok(run, tp__bytes_text(t));
  tp__bytes_fini(t);
  return given;
}

static tp_answer refuse_path(tp_tool_run *run, const char *path, const char *why) {
  char words[TP__FILES_PATH_MAX + 256];
  int size = snprintf(words, sizeof words, "%s: %s", path, why);
  return tp_tool_error(run, (tp_text){words, size < (int)sizeof words ? (size_t)size : sizeof words - 1});
}

static const char *words_for(int error) {
  assert(error < 0);
  static const struct {
    int error;
    const char *words;
  } rows[] = {
      {EXDEV, "the path leads out of the directory of these tools; give one below it, without a leading slash."},
      {ENOENT, "there is no such file or directory; files_list shows what is there."},
      {EISDIR, "that is a directory; files_list shows what is in it."},
      {ENOTDIR, "a part of the path is a file, not a directory."},
      {ELOOP, "the path goes through too many symbolic links."},
      {EINVAL, "that is no file: a device, socket or FIFO is neither read nor replaced."},
      {EACCES, "the permissions of the file system do not allow it."},
      {EPERM, "the permissions of the file system do not allow it."},
      {ENOSPC, "the disk is full; nothing was changed."},
      {EDQUOT, "the disk is full; nothing was changed."},
      {EROFS, "the file system is read-only."},
      {ENAMETOOLONG, "the path is too long."},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].error == -error) return rows[i].words;
  return strerror(-error);
}

/* Takes the argument "path". @return false when it is not usable: then the run is answered. */
static bool take_path(tp_tool_run *run, char into[TP__FILES_PATH_MAX], tp_answer *ret_answer) {
  if (tp__files_path(tp_value_text(tp_value_get(tp_tool_run_arguments(run), "path")), into)) return true;
  *ret_answer = tp_tool_error(run, tp_text_of("path: it is longer than 1,023 bytes, or holds a NUL."));
  return false;
}

/* ---- files_list ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void free_names(char **names, size_t count) {
  for (size_t i = 0; i < count; i++) free(names[i]);
  free(names);
}

/* Reads the entries of a directory except "." and "..", sorted, and closes the stream. @return 0 or a negative
 * errno. */
static int read_names(DIR *directory, char ***ret_names, size_t *ret_count, size_t most) {
  assert(directory && most > 0);
  char **names = calloc(most, sizeof *names);
  size_t count = 0;
  int error = names ? 0 : -ENOMEM;
  for (const struct dirent *entry; !error && count < most && (errno = 0, entry = readdir(directory));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    names[count] = strdup(entry->d_name);
    if (names[count]) count++;
    else error = -ENOMEM;
  }
  closedir(directory);
  if (error) {
    free_names(names, count);
    return error;
  }
  if (count > 1) qsort(names, count, sizeof *names, by_name);
  *ret_names = names;
  *ret_count = count;
  return 0;
}

static int open_names(int root, const char *path, char ***ret_names, size_t *ret_count, size_t most) {
  int fd = tp__files_open(root, path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return fd;
  DIR *directory = fdopendir(fd);
  if (directory) return read_names(directory, ret_names, ret_count, most);
  int error = -errno;
  close(fd);
  return error;
}

static void add_directory_entry(tp__bytes *t, int directory, const char *name) {
  struct stat found;
  bool is_same = add_shown_name(t, name);
  if (fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) != 0) tp__bytes_put(t, "  (gone)", 8);
  else if (S_ISDIR(found.st_mode)) tp__bytes_put(t, "/", 1);
  else if (S_ISLNK(found.st_mode)) tp__bytes_put(t, "  (symbolic link)", 17);
  else if (S_ISREG(found.st_mode)) tp__bytes_printf(t, "  %lld bytes", (long long)found.st_size);
  else tp__bytes_put(t, "  (no file)", 11);
  if (!is_same) tp__bytes_put_string(t, "  (its name has bytes that these tools cannot be given)");
  tp__bytes_put(t, "\n", 1);
}

static tp_answer files_list(void *ctx, tp_tool_run *run) {
  const tp__files *files = ctx;
  char path[TP__FILES_PATH_MAX], **names;
  tp_answer given;
  size_t count;
  if (!take_path(run, path, &given)) return given;
  int error = open_names(files->root, path, &names, &count, ENTRIES_MAX + 1);
  if (error) return refuse_path(run, path, words_for(error));
  int directory = tp__files_open(files->root, path, O_PATH | O_DIRECTORY);
  tp__bytes t = {0};
  for (size_t i = 0; i < count && i < ENTRIES_MAX; i++) add_directory_entry(&t, directory, names[i]);
  if (count > ENTRIES_MAX)
    tp__bytes_printf(&t, "There are more than %d entries; these are some of them.\n", ENTRIES_MAX);
  if (count == 0) tp__bytes_printf(&t, "%s is empty.", path);
  if (directory >= 0) close(directory);
  free_names(names, count);
  return answer_with_text(run, &t);
}

/* ---- files_read ---- */

/* Reads a file of at most FILE_BYTES_MAX. @return 0 or a negative errno; -EFBIG. */
static int read_file_at(int root, const char *path, tp__bytes *t) {
  int fd = tp__files_open_to_read(root, path);
  if (fd < 0) return fd;
  int error = tp__file_read_open(fd, FILE_BYTES_MAX, t);
  close(fd);
  return error;
}

static bool is_binary(const tp__bytes *t) { return t->size > 0 && memchr(t->data, '\0', t->size); }
static bool is_text(const tp__bytes *t) { return !is_binary(t) && tp_utf8_valid(tp__bytes_text(t), NULL); }

static const char *line_end(const char *at, const char *end) {
  const char *newline = memchr(at, '\n', (size_t)(end - at));
  return newline ? newline + 1 : end;
}

/* Adds lines from first on, as many as are wanted and fit: whole lines, and at least one, which may be cut. */
static void add_lines(tp__bytes *into, const tp__bytes *from, int64_t first, int64_t lines, size_t bytes_max) {
  const char *at = from->data, *end = from->data + from->size;
  int64_t line = 1;
  for (; at < end && line < first; line++) at = line_end(at, end);
  const char *begin = at;
  for (; at < end && line < first + lines; line++) {
    const char *next = line_end(at, end);
    if ((size_t)(next - begin) > bytes_max) break;
    at = next;
  }
  if (at == begin && at < end && lines > 0) { /* a single line is too long: it is cut */
    size_t cut = bytes_max;
    while (cut > 0 && ((unsigned char)begin[cut] & 0xc0) == 0x80) cut--;
    tp__bytes_put(into, begin, cut);
    tp__bytes_printf(into, "\n(line %lld is cut here: it is longer than %zu bytes)", (long long)line, bytes_max);
    return;
  }
  tp__bytes_put(into, begin, (size_t)(at - begin));
  if (at < end) tp__bytes_printf(into, "(there is more: go on with first_line %lld)", (long long)line);
  else if (begin == end) tp__bytes_printf(into, "(the file has %lld lines)", (long long)line - 1);
}

static tp_answer files_read(void *ctx, tp_tool_run *run) {
  const tp__files *files = ctx;
  tp_text arguments = tp_tool_run_arguments(run);
  char path[TP__FILES_PATH_MAX];
  tp_answer given;
  tp__bytes whole = {0}, shown = {0};
  if (!take_path(run, path, &given)) return given;
  int error = read_file_at(files->root, path, &whole);
  if (error || !is_text(&whole)) {
    tp__bytes_fini(&whole);
    return refuse_path(run, path,
                       error == -EFBIG ? "the file is larger than 1 MiB; these tools do not read it."
                       : error
                           ? words_for(error)
                           : "that is no text in UTF-8; this tool reads only text; files_search shows lines of it.");
  }
  add_lines(&shown, &whole, tp_value_int(tp_value_get(arguments, "first_line"), 1),
            tp_value_int(tp_value_get(arguments, "lines"), FILE_BYTES_MAX), files->read_bytes_max);
  tp__bytes_fini(&whole);
  return answer_with_text(run, &shown);
}

/* ---- files_search ---- */

typedef struct search {
  const tp_tool_run *run;
  int root;
  tp_text needle;
  tp__bytes found;
  size_t matches, looked_at, passed_over; /* passed_over: files that are too large or not readable */
  size_t replaced;                        /* bytes of the shown lines that are not UTF-8 */
  bool stopped;
} search;

static bool search_goes_on(search *s) {
  bool limit = s->matches >= MATCHES_MAX || s->looked_at >= SEARCHED_MAX;
  s->stopped = s->stopped || limit || tp_tool_run_cancelled(s->run);
  return !s->stopped;
}

/* Where a long line is cut: not inside a character, so at most one character before the limit. */
static size_t cut_of(tp_text line) {
  assert(line.size > SHOWN_BYTES_MAX);
  size_t size = SHOWN_BYTES_MAX;
  for (int back = 0; back < 3 && ((unsigned char)line.data[size] & 0xc0) == 0x80; back++) size--;
  return ((unsigned char)line.data[size] & 0xc0) == 0x80 ? SHOWN_BYTES_MAX : size;
}

static void search_file(search *s, const char *path) {
  tp__bytes whole = {0};
  s->looked_at++;
  if (read_file_at(s->root, path, &whole) != 0) {
    s->passed_over++;
  } else if (is_binary(&whole)) { /* a binary file has no lines to show */
    if (memmem(whole.data, whole.size, s->needle.data, s->needle.size)) {
      (void)add_shown_name(&s->found, path);
      tp__bytes_put_string(&s->found, ": this binary file holds the text\n");
      s->matches++;
    }
  } else {
    const char *at = whole.data, *end = whole.data + whole.size;
    for (size_t line = 1; at < end && search_goes_on(s); line++) {
      const char *next = line_end(at, end);
      if (memmem(at, (size_t)(next - at), s->needle.data, s->needle.size)) {
        size_t size = (size_t)(next - at);
        if (size && at[size - 1] == '\n') size--;
        bool cut = size > SHOWN_BYTES_MAX;
        if (cut) size = cut_of((tp_text){at, size});
        (void)add_shown_name(&s->found, path);
        tp__bytes_printf(&s->found, ":%zu: ", line);
        s->replaced += tp__bytes_put_utf8(&s->found, (tp_text){at, size});
        tp__bytes_put(&s->found, cut ? "…\n" : "\n", strlen(cut ? "…\n" : "\n"));
        s->matches++;
      }
      at = next;
    }
  }
  tp__bytes_fini(&whole);
}

static void search_below(search *s, const char *path, int depth);

/* Symbolic links are not followed: their targets are found where they are, and the walk cannot loop. */
static void search_entry(search *s, const char *path, const char *name, int depth) {
  char below[TP__FILES_PATH_MAX];
  struct stat found;
  bool here = strcmp(path, ".") == 0;
  int size = snprintf(below, sizeof below, "%s%s%s", here ? "" : path, here ? "" : "/", name);
  int fd = size < (int)sizeof below ? tp__files_open(s->root, below, O_PATH | O_NOFOLLOW) : -ENAMETOOLONG;
  bool known = fd >= 0 && fstat(fd, &found) == 0;
  if (fd >= 0) close(fd);
  if (!known) s->passed_over++;
  else if (S_ISDIR(found.st_mode)) search_below(s, below, depth + 1);
  else if (S_ISREG(found.st_mode)) search_file(s, below);
}

static void search_below(search *s, const char *path, int depth) {
  char **names;
  size_t count;
  s->looked_at++;
  if (depth > DEPTH_MAX || open_names(s->root, path, &names, &count, SEARCHED_MAX) != 0) {
    s->passed_over++;
    return;
  }
  for (size_t i = 0; i < count && search_goes_on(s); i++) search_entry(s, path, names[i], depth);
  free_names(names, count);
}

static tp_answer files_search(void *ctx, tp_tool_run *run) {
  const tp__files *files = ctx;
  char path[TP__FILES_PATH_MAX];
  tp_answer given;
  struct stat is;
  search s = {
      .run = run, .root = files->root, .needle = tp_value_text(tp_value_get(tp_tool_run_arguments(run), "text"))};
  if (!take_path(run, path, &given)) return given;
  if (s.needle.size == 0) return tp_tool_error(run, tp_text_of("text: it is empty; give what the lines hold."));
  int fd = tp__files_open(files->root, path, O_PATH);
  int error = fd < 0 ? fd : fstat(fd, &is) == 0 ? 0 : -errno;
  if (fd >= 0) close(fd);
  if (error) return refuse_path(run, path, words_for(error));
  if (S_ISDIR(is.st_mode)) search_below(&s, path, 0);
  else search_file(&s, path);
  if (s.matches == 0) tp__bytes_printf(&s.found, "No line holds that text.\n");
  if (s.stopped)
    tp__bytes_printf(&s.found,
                     "The search ended after %zu lines that were found and %zu files; look below a directory.\n",
                     s.matches, s.looked_at);
  if (s.passed_over)
    tp__bytes_printf(&s.found, "%zu files were passed over: larger than 1 MiB, or not readable.\n", s.passed_over);
  if (s.replaced)
    tp__bytes_printf(&s.found, "%zu bytes of these lines are not UTF-8: U+FFFD stands for each.\n", s.replaced);
  return answer_with_text(run, &s.found);
}

/* ---- files_write ---- */

static tp_answer files_write(void *ctx, tp_tool_run *run) {
  const tp__files *files = ctx;
  tp_text words = tp_value_text(tp_value_get(tp_tool_run_arguments(run), "text"));
  char path[TP__FILES_PATH_MAX];
  tp_answer given;
  if (!take_path(run, path, &given)) return given;
  if (words.size > FILE_BYTES_MAX) return refuse_path(run, path, "the text is longer than 1 MiB.");
  int error = tp__files_write(files->root, path, words);
  if (error) return refuse_path(run, path, words_for(error));
  tp__bytes t = {0};
  tp__bytes_printf(&t, "Wrote %zu bytes to %s.", words.size, path);
  return answer_with_text(run, &t);
}

enum { KEY_BYTES_MAX = 1024 }; /* the limit of tp_tool_keys_add() */

/* Adds a write key for the file, so that calls which write one file run in their order, and the end of the session
 * lists the file. A path that cannot be a key gets none: the call itself refuses it. */
static tp_status write_keys(void *ctx, tp_text arguments, tp_tool_keys *keys) {
  (void)ctx;
  char path[TP__FILES_PATH_MAX], key[TP__FILES_PATH_MAX + sizeof "files/"] = "files";
  size_t used = strlen(key);
  if (!tp__files_path(tp_value_text(tp_value_get(arguments, "path")), path)) return TP_OK;
  for (const char *part = path; *part;) {
    size_t size = strcspn(part, "/");
    bool is_dot = size == 0 || (size == 1 && part[0] == '.');
    if (tp__is_word((tp_text){part, size}, "..")) return TP_OK;
    if (!is_dot) used += (size_t)snprintf(key + used, sizeof key - used, "/%.*s", (int)size, part);
    part += size + (part[size] == '/');
  }
  bool is_key = used > strlen("files") && used <= KEY_BYTES_MAX && tp_utf8_valid((tp_text){key, used}, NULL);
  return is_key ? tp_tool_keys_add(keys, TP_TOOL_WRITE, (tp_text){key, used}, NULL) : TP_OK;
}

/* ---- their descriptions ---- */

#define PATH(what) \
  { "path", what, 0, true }

static const tp__tool_row tool_rows[TP__FILES_TOOL_COUNT] = {
    {"files_list",
     "List the files and directories in a directory.",
     files_list,
     false,
     {{"path", "the directory, such as docs; without it the top one", 0, false}}},
    {"files_read",
     "Read a text file, or some lines of it.",
     files_read,
     false,
     {PATH("the file, such as docs/notes.md"),
      {"first_line", "the line to begin with (1)", INT64_MAX, false},
      {"lines", "how many lines (as many as fit)", INT64_MAX, false}}},
    {"files_search",
     "Find the lines that hold a text, in a file or in all files below a directory. Upper and lower case differ.",
     files_search,
     false,
     {{"text", "the text, as it stands in the line", 0, true},
      {"path", "a file or directory; without it all", 0, false}}},
    {"files_write",
     "Write a whole text file. What was in it is gone; missing directories are made.",
     files_write,
     false,
     {PATH("the file, such as docs/notes.md"), {"text", "all that the file shall hold", 0, true}}}};

tp_status tp__files_tools_init(tp__files *files) {
  tp_status status = TP_OK;
  for (size_t i = 0; status == TP_OK && i < TP__FILES_TOOL_COUNT; i++) {
    files->tool_list[i] = &files->tools[i];
    status = tp_writer_new(NULL, &files->schema_writers[i]);
    if (status == TP_OK) status = tp__tool_row_make(&tool_rows[i], files, files->schema_writers[i], &files->tools[i]);
  }
  files->tools[TP__FILES_TOOL_COUNT - 1].keys = write_keys; /* the last tool is files_write */
  return status;
}

void tp__files_tools_fini(tp__files *files) {
  for (size_t i = 0; i < TP__FILES_TOOL_COUNT; i++) tp_writer_free(files->schema_writers[i]);
}
