/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools of files, used by a model in turns, in a directory with hostile content: links that lead out, loops, FIFOs,
 * large and binary files, directories that are replaced meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "turnphase/files.h"

enum { ANSWER_SIZE = 1 << 18 };

/* ---- a runtime with the tools, and a model that calls one of them ---- */

static tp_runtime *runtime;
static tp_session *session;
static char root[128], answer[ANSWER_SIZE];
static tp_tool_result_kind answer_kind;
static tp_text called, with; /* the tool call that the model asks for next */
static size_t tools_shown;

static void on_event(void *ctx, const tp_event *event) {
  (void)ctx;
  if (event->kind != TP_EVENT_TOOL_END) return;
  answer_kind = event->tool_result->kind;
  snprintf(answer, sizeof answer, "%.*s", (int)event->tool_result->text.size, event->tool_result->text.data);
}

static void start(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  tp_tool_call call = {.struct_size = sizeof call, .name = called, .arguments = with};
  const tp_tool_call *const calls[] = {&call};
  tools_shown = request->tool_count;
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("done")};
  if (request->messages[request->message_count - 1]->role == TP_ROLE_USER) {
    response.calls = calls;
    response.call_count = 1;
  }
  assert_int_equal(tp_model_complete(token, &response, NULL), TP_OK);
}

static const tp_model model = {
    .struct_size = sizeof(tp_model), .name = "caller", .start = start, .placement = TP_PLACEMENT_INLINE};

static tp_status register_files(const tp_files_options *options, tp_fault *fault) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "files", .trust = TP_TRUST_BUILTIN};
  tp_edit *edit;
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  tp_status status = tp_files_register(edit, options, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static void open_with(tp_files_writes writes, uint32_t read_bytes_max) {
  tp_files_options options = {
      .struct_size = sizeof options, .root = root, .writes = writes, .read_bytes_max = read_bytes_max};
  tp_session_options session_options = {
      .struct_size = sizeof session_options, .id = "one", .model = &model, .on_event = on_event};
  tp_fault fault = {0};
  runtime = open_runtime(NULL);
  if (register_files(&options, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(tp_session_open(runtime, &session_options, &session, NULL), TP_OK);
}

static void close_all(void) {
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  runtime = NULL;
}

/* Calls a tool in a turn. Arguments are pairs of a name and a text, with NULL at the end; a text of digits is sent as a
 * number. */
static const char *call(const char *tool, ...) {
  tp_writer *writer;
  const char *items[8];
  size_t count = 0;
  va_list args;
  va_start(args, tool);
  while (count < 8 && (items[count] = va_arg(args, const char *))) count++;
  va_end(args);
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_write_map(writer, count / 2);
  for (size_t i = 0; i < count; i++) {
    bool is_number = i % 2 && items[i][0] && strspn(items[i], "0123456789") == strlen(items[i]);
    if (is_number) tp_write_int(writer, atoll(items[i]));
    else tp_write_string(writer, items[i]);
  }
  assert_int_equal(tp_writer_finish(writer, &with), TP_OK);
  called = tp_text_of(tool);
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
  const tp_turn_result *result;
  snprintf(answer, sizeof answer, "(nothing)");
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
  tp_writer_free(writer);
  return answer;
}

#define assert_says(kind, words, ...)                                                             \
  do {                                                                                            \
    const char *said_ = call(__VA_ARGS__, NULL);                                                  \
    if (answer_kind != (kind)) fail_msg("it is %s: %s", tp_tool_result_name(answer_kind), said_); \
    if (!strstr(said_, (words))) fail_msg("\"%s\" does not hold \"%s\"", said_, (words));         \
  } while (0)
#define assert_ok(words, ...) assert_says(TP_TOOL_OK, words, __VA_ARGS__)
#define assert_refused(words, ...) assert_says(TP_TOOL_HANDLER_ERROR, words, __VA_ARGS__)

/* ---- files ---- */

static void below(char *into, size_t size, const char *name) { snprintf(into, size, "%s/%s", root, name); }

static void put(const char *name, const char *text, size_t size) {
  char file[256];
  below(file, sizeof file, name);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, size, f), size);
  assert_int_equal(fclose(f), 0);
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

static void make(const char *name) {
  char file[256];
  below(file, sizeof file, name);
  assert_int_equal(mkdir(file, 0777), 0);
}

static void link_to(const char *target, const char *name) {
  char file[256];
  below(file, sizeof file, name);
  assert_int_equal(symlink(target, file), 0);
}

static void assert_holds_file(const char *name, const char *text) {
  char file[256], bytes[1024];
  below(file, sizeof file, name);
  FILE *f = fopen(file, "r");
  assert_non_null(f);
  bytes[fread(bytes, 1, sizeof bytes - 1, f)] = '\0';
  fclose(f);
  assert_string_equal(bytes, text);
}

static size_t entries_of(const char *name) {
  char list[256], line[512];
  size_t count = 0;
  snprintf(list, sizeof list, "ls -A '%s/%s'", root, name);
  FILE *f = popen(list, "r");
  while (fgets(line, sizeof line, f)) count++;
  pclose(f);
  return count;
}

/* Makes a directory with root in it, and a secret beside root. */
static int prepare(void **state) {
  if (make_directory(state) != 0) return -1;
  snprintf(root, sizeof root, "%s/root", directory);
  if (mkdir(root, 0777) != 0) return -1;
  char secret[128];
  snprintf(secret, sizeof secret, "%s/secret", directory);
  FILE *f = fopen(secret, "w");
  return f && fputs("hidden words\n", f) >= 0 && fclose(f) == 0 ? 0 : -1;
}

FOR_EACH_TEST(prepare, remove_directory);

/* ---- cases ---- */

TEST(files_are_listed_read_and_found) {
  make("docs");
  put_text("docs/notes.md", "one\ntwo walnuts\nthree\n");
  put_text("a.txt", "Walnuts\nwalnuts again\n");
  link_to("a.txt", "link");
  open_with(TP_FILES_WRITES_NEVER, 0);
  assert_string_equal(call("files_list", NULL), "a.txt  22 bytes\ndocs/\nlink  (symbolic link)\n");
  assert_int_equal(tools_shown, 3);
  assert_ok("notes.md  22 bytes", "files_list", "path", "docs");
  assert_string_equal(call("files_read", "path", "docs/notes.md", NULL), "one\ntwo walnuts\nthree\n");
  assert_string_equal(call("files_read", "path", "link", NULL), "Walnuts\nwalnuts again\n");
  assert_string_equal(call("files_read", "path", "docs/../a.txt", NULL), "Walnuts\nwalnuts again\n");
  assert_string_equal(call("files_read", "path", "docs/notes.md", "first_line", "2", "lines", "1", NULL),
                      "two walnuts\n(there is more: go on with first_line 3)");
  assert_ok("(the file has 3 lines)", "files_read", "path", "docs/notes.md", "first_line", "9");
  assert_string_equal(call("files_search", "text", "walnuts", NULL),
                      "a.txt:2: walnuts again\ndocs/notes.md:2: two walnuts\n");
  assert_string_equal(call("files_search", "text", "walnuts", "path", "docs", NULL), "docs/notes.md:2: two walnuts\n");
  assert_string_equal(call("files_search", "text", "Walnuts", "path", "a.txt", NULL), "a.txt:1: Walnuts\n");
  assert_ok("No line holds that text.", "files_search", "text", "hazel");
  assert_says(TP_TOOL_UNKNOWN_TOOL, "there is no tool of that name", "files_write", "path", "x", "text", "y");
  close_all();
}

TEST(what_is_written_is_whole_and_in_its_place) {
  char file[256];
  struct stat is;
  put_text("script.sh", "echo old\n");
  below(file, sizeof file, "script.sh");
  assert_int_equal(chmod(file, 0750), 0);
  link_to("../secret", "out");
  open_with(TP_FILES_WRITES_ALLOW, 0);
  assert_ok("Wrote 9 bytes to script.sh.", "files_write", "path", "script.sh", "text", "echo new\n");
  assert_holds_file("script.sh", "echo new\n");
  assert_int_equal(stat(file, &is), 0);
  assert_int_equal(is.st_mode & 0777, 0750);
  assert_ok("Wrote 1 bytes", "files_write", "path", "new/deep/file.txt", "text", "x");
  assert_holds_file("new/deep/file.txt", "x");
  assert_ok("Wrote 0 bytes", "files_write", "path", "empty", "text", "");
  assert_holds_file("empty", "");
  assert_ok("Wrote 4 bytes", "files_write", "path", "out", "text", "mine"); /* the link itself is replaced */
  assert_holds_file("out", "mine");
  assert_holds_file("../secret", "hidden words\n");
  assert_refused("that is a directory", "files_write", "path", "new/deep", "text", "x");
  assert_refused("that is a directory", "files_write", "path", "new/..", "text", "x");
  assert_refused("a part of the path is a file", "files_write", "path", "empty/x", "text", "x");
  assert_int_equal(entries_of("."), 4);
  assert_int_equal(entries_of("new/deep"), 1);
  close_all();
}

TEST(no_path_leaves_the_directory) {
  char absolute[128];
  snprintf(absolute, sizeof absolute, "%s/secret", directory);
  make("sub");
  link_to("../secret", "file_out");
  link_to("..", "directory_out");
  link_to(directory, "absolute_out");
  link_to("/proc/self/cwd", "magic");
  const char *const paths[] = {"../secret",        "sub/../../secret",     absolute,
                               "file_out",         "directory_out/secret", "absolute_out/secret",
                               "magic/etc/passwd", "/etc/passwd"};
  open_with(TP_FILES_WRITES_ALLOW, 0);
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    assert_refused("leads out", "files_read", "path", paths[i]);
    assert_refused("leads out", "files_search", "path", paths[i], "text", "h");
    if (strcmp(paths[i], "file_out") != 0) assert_refused("leads out", "files_write", "path", paths[i], "text", "x");
  }
  assert_refused("leads out", "files_list", "path", "..");
  assert_refused("leads out", "files_list", "path", "directory_out");
  assert_refused("leads out", "files_list", "path", "/");
  assert_ok("No line holds that text.", "files_search", "text", "hidden");
  assert_holds_file("../secret", "hidden words\n");
  close_all();
}

TEST(what_is_no_text_file_is_refused_by_its_kind) {
  char file[256], *large = malloc(2 << 20), path_of_2000[2001];
  memset(large, 'x', 2 << 20);
  memset(path_of_2000, 'p', 2000);
  path_of_2000[2000] = '\0';
  below(file, sizeof file, "fifo");
  assert_int_equal(mkfifo(file, 0666), 0);
  put("large", large, 2 << 20);
  put("binary", "a\0b", 3);
  put("latin1", "caf\xe9\n", 5);
  link_to("loop", "loop");
  open_with(TP_FILES_WRITES_ALLOW, 100);
  assert_refused("that is no file", "files_read", "path", "fifo");
  assert_refused("that is no file", "files_write", "path", "fifo", "text", "x");
  assert_int_equal(entries_of("."), 5); /* and no temporary file */
  assert_refused("larger than 1 MiB", "files_read", "path", "large");
  assert_refused("no text in UTF-8", "files_read", "path", "binary");
  assert_refused("no text in UTF-8", "files_read", "path", "latin1");
  assert_refused("too many symbolic links", "files_read", "path", "loop");
  assert_refused("there is no such file", "files_read", "path", "nothing");
  assert_refused("that is a directory", "files_read", "path", ".");
  assert_refused("a part of the path is a file", "files_list", "path", "binary");
  assert_refused("longer than 1,023 bytes", "files_read", "path", path_of_2000);
  assert_refused("it is empty", "files_search", "text", "");
  assert_ok("1 files were passed over", "files_search", "text", "x");
  put("line", large, 1000);
  const char *cut = call("files_read", "path", "line", NULL);
  assert_int_equal(strspn(cut, "x"), 100);
  assert_non_null(strstr(cut, "(line 1 is cut here: it is longer than 100 bytes)"));
  free(large);
  close_all();
}

#define BAD "\xEF\xBF\xBD"

TEST(names_and_lines_that_are_not_utf8_are_shown_byte_by_byte) {
  static const struct {
    const char *name, *shown;
  } names[] = {
      {"caf\xe9", "caf" BAD},
      {"\xc0\xaf", BAD BAD},
      {"s\xed\xa0\x80", "s" BAD BAD BAD},
      {"cut\xe2\x82", "cut" BAD BAD},
      {"\xff\xfe"
       "a",
       BAD BAD "a"},
      {"\x80", BAD},
      {"\xf4\x90\x80\x80", BAD BAD BAD BAD},
  };
  static const struct {
    const char *text, *shown;
  } lines[] = {
      {"needle caf\xe9", ": needle caf" BAD "\n"},   {"\xff needle", ": " BAD " needle\n"},
      {"needle \xc0\xaf", ": needle " BAD BAD "\n"}, {"needle \xed\xa0\x80", ": needle " BAD BAD BAD "\n"},
      {"needle \xe2\x82", ": needle " BAD BAD "\n"}, {"needle caf\xc3\xa9", ": needle caf\xc3\xa9\n"},
  };
  char text[512] = "";
  for (size_t i = 0; i < COUNT(names); i++) put_text(names[i].name, "");
  for (size_t i = 0; i < COUNT(lines); i++) {
    strcat(text, lines[i].text);
    strcat(text, "\n");
  }
  put_text("latin\xe9", text);
  put("binary", "a\0needle", 8);
  put("other", "a\0b", 3);
  open_with(TP_FILES_WRITES_NEVER, 0);
  const char *said = call("files_list", "path", ".", NULL);
  assert_int_equal(answer_kind, TP_TOOL_OK);
  for (size_t i = 0; i < COUNT(names); i++) {
    char line[128];
    snprintf(line, sizeof line, "%s  0 bytes  (its name has bytes that these tools cannot be given)\n", names[i].shown);
    if (!strstr(said, line)) fail_msg("%s\nin\n%s", line, said);
  }
  said = call("files_search", "text", "needle", NULL);
  assert_int_equal(answer_kind, TP_TOOL_OK);
  for (size_t i = 0; i < COUNT(lines); i++)
    if (!strstr(said, lines[i].shown)) fail_msg("%s\nin\n%s", lines[i].shown, said);
  assert_non_null(strstr(said, "latin" BAD ":1: "));
  assert_non_null(strstr(said, "binary: this binary file holds the text\n"));
  assert_null(strstr(said, "other"));
  assert_non_null(strstr(said, "9 bytes of these lines are not UTF-8: U+FFFD stands for each.\n"));
  close_all();
}

TEST(a_long_line_of_bytes_that_are_not_utf8_is_cut_at_its_limit) {
  char line[300];
  memset(line, 0x80, sizeof line);
  memcpy(line, "needle", 6);
  put("a", line, sizeof line);
  open_with(TP_FILES_WRITES_NEVER, 0);
  const char *said = call("files_search", "text", "needle", NULL);
  size_t shown = 0;
  for (const char *at = said; (at = strstr(at, BAD)); at += 3) shown++;
  assert_int_equal(shown, 240 - 6);
  assert_non_null(strstr(said, "…\n"));
  close_all();
}

TEST(long_answers_are_cut_and_say_so) {
  char name[32];
  make("many");
  for (int i = 0; i < 1100; i++) {
    snprintf(name, sizeof name, "many/%04d", i);
    put_text(name, "needle\n");
  }
  open_with(TP_FILES_WRITES_NEVER, 0);
  assert_ok("There are more than 1000 entries", "files_list", "path", "many");
  assert_ok("The search ended after 100 lines", "files_search", "text", "needle");
  size_t lines = 0;
  for (const char *at = answer; (at = strstr(at, ": needle")); at++) lines++;
  assert_int_equal(lines, 100);
  close_all();
}

TEST(a_write_asks_unless_it_is_allowed) {
  open_with(TP_FILES_WRITES_ASK, 0);
  assert_says(TP_TOOL_DENIED, "files.write_guard", "files_write", "path", "x.txt", "text", "y");
  assert_int_equal(entries_of("."), 0);
  assert_int_equal(tools_shown, 4);
  assert_ok("is empty", "files_list", NULL);
  close_all();
}

TEST(wrong_options_are_refused) {
  tp_fault fault = {0};
  char nothing[256];
  below(nothing, sizeof nothing, "nothing");
  runtime = open_runtime(NULL);
  const struct {
    tp_files_options options;
    tp_status status;
    const char *words;
  } wrongs[] = {{{.struct_size = sizeof(tp_files_options)}, TP_ERR_USAGE, "root is empty"},
                {{.struct_size = sizeof(tp_files_options), .root = nothing}, TP_ERR_IO, "nothing: No such file"},
                {{.struct_size = sizeof(tp_files_options), .root = "/etc/passwd"}, TP_ERR_IO, "Not a directory"},
                {{.struct_size = sizeof(tp_files_options), .root = root, .writes = 3}, TP_ERR_USAGE, "writes is 3"},
                {{.struct_size = sizeof(tp_files_options), .root = root, .read_bytes_max = 1048577},
                 TP_ERR_USAGE,
                 "read_bytes_max is 1048577"},
                {{.struct_size = 3, .root = root}, TP_ERR_VERSION, "struct_size is 3"}};
  for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
    assert_int_equal(register_files(&wrongs[i].options, &fault), wrongs[i].status);
    assert_non_null(strstr(fault.message, wrongs[i].words));
  }
  assert_int_equal(register_files(NULL, &fault), TP_ERR_USAGE);
  union {
    tp_files_options options;
    char bytes[8192];
  } long_one = {.options = {.struct_size = 4104, .root = root}}; /* above what a struct may have: it is uninitialised */
  assert_int_equal(register_files(&long_one.options, &fault), TP_ERR_VERSION);
  assert_non_null(strstr(fault.message, "struct_size is 4104"));
  close_runtime(runtime);
}

/* Another program repeatedly replaces a directory by a link that leads out, while the tools walk through it. */
static atomic_bool stop_swapping;

static void *swap(void *unused) {
  (void)unused;
  char a[256], b[256];
  below(a, sizeof a, "a");
  below(b, sizeof b, "b");
  while (!stop_swapping) syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2 /* RENAME_EXCHANGE */);
  return NULL;
}

TEST(a_directory_that_becomes_a_link_leads_nowhere) {
  pthread_t swapper;
  make("a");
  put_text("a/secret", "open words\n");
  link_to("..", "b");
  open_with(TP_FILES_WRITES_ALLOW, 0);
  stop_swapping = false;
  assert_int_equal(pthread_create(&swapper, NULL, swap, NULL), 0);
  for (int i = 0; i < 300; i++) {
    assert_null(strstr(call("files_read", "path", "a/secret", NULL), "hidden"));
    assert_null(strstr(call("files_search", "text", "words", NULL), "hidden"));
    call("files_write", "path", "a/secret", "text", "open words\n", NULL);
  }
  stop_swapping = true;
  pthread_join(swapper, NULL);
  assert_holds_file("../secret", "hidden words\n");
  close_all();
}
