/* SPDX-License-Identifier: Apache-2.0
 *
 * The screen of a conversation at terminals of 60, 80 and 120 columns, compared as text with tests/screens/chat-*.txt:
 * the sign of life of a silent turn, which disappears, wrapped words, Markdown, lines of tools, a question, refused and
 * listed sessions, an answer without its call. Times are masked. TURNPHASE_SCREENS=write writes the files anew. */
#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/support/terminal.h"

#define PROMPT "\n> "

static const char script[] =
    "responses:\n"
    "  - text: \"# Teas\\n\\nThere is a **green** tea and a `black` one, *both of them* from last year, and this "
    "sentence goes on and on until it has to be wrapped at each of the widths, between two words.\\n\\n"
    "- one that hangs below its own first word, which it does when it is longer than the terminal, as this one is at "
    "each width\\n- two\\n\\n```\\nint cups = 2;\\n```\\n\"\n"
    "    tool_calls: [{id: a, name: files_list, arguments: {path: .}}]\n"
    "    usage: {input_tokens: 12, output_tokens: 3}\n"
    "  - text: A letter is there.\n"
    "    usage: {input_tokens: 20, output_tokens: 7}\n"
    "  - tool_calls: [{id: b, name: files_write, arguments: {path: note.txt, "
    "text: It is nearly gone and somebody has to buy more of it before the guests come on Sunday}}]\n"
    "  - text: Written.\n"
    "  - tool_calls: [{id: c, name: files_write, arguments: {path: b.txt, text: no}}]\n"
    "  - text: Not written.\n"
    "  - {text: That is, finish: tool_calls}\n";

/* Silent while there is a gate, until it is opened and closed. */
static const char hook[] =
    "id: silent\nevent: turn.intake\nhandler:\n  timeout_ms: 120000\n"
    "  command: [sh, -c, 'test ! -p gate || cat gate; echo \"{}\"']\n";

static const int widths[] = {60, 80, 120};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* Each conversation has a directory of its own, in which the command runs. */
static void enter(int columns) {
  char name[16];
  snprintf(name, sizeof name, "%d", columns);
  assert_int_equal(chdir(scratch_path(name)), 0);
}

static void put(const char *name, const char *text) {
  FILE *file = fopen(name, "we");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static int prepare(void **state) {
  if (!getenv("TURNPHASE_SOURCE") || scratch_make(state) != 0) return -1;
  setenv("TERM", "xterm", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  setenv("HOME", scratch, 1);
  setenv("XDG_CONFIG_HOME", scratch_path("config"), 1);
  unsetenv("NO_COLOR");
  unsetenv("COLUMNS");
  for (size_t i = 0; i < WIDTHS; i++) {
    char line[256];
    snprintf(line, sizeof line, "mkdir -p %s/%d/hooks %s/%d/tea", scratch, widths[i], scratch, widths[i]);
    assert_int_equal(system(line), 0);
    enter(widths[i]);
    put("model.yaml", script);
    put("hooks/silent.yaml", hook);
    put("tea/letter.txt", "x\n");
    assert_int_equal(mkfifo("gate", 0600), 0);
    command c = {.arguments = {"hooks", "trust", "hooks"}};
    assert_status(&c, 0);
    command_free(&c);
  }
  return 0;
}

static int clean(void **state) { return chdir("/") == 0 ? scratch_remove(state) : -1; }

FOR_ALL_TESTS(prepare, clean);

/* ---- what is compared ---- */

static size_t time_size(const char *text, size_t digits) {
  static const char *const units[] = {" ms", " s"};
  for (size_t i = 0; digits > 0 && i < 2; i++) {
    size_t size = strlen(units[i]);
    if (strncmp(text + digits, units[i], size) == 0 && !isalnum((unsigned char)text[digits + size]))
      return digits + size;
  }
  return 0;
}

static size_t stamp_size(const char *text) {
  static const char form[] = "0000-00-00T00:00:00.000Z";
  for (size_t i = 0; form[i]; i++)
    if (form[i] == '0' ? !isdigit((unsigned char)text[i]) : text[i] != form[i]) return 0;
  return sizeof form - 1;
}

/* Masks the time of a turn or a call as "#", and a time of day as "0000-…", with the same width. The caller frees the
 * result. */
static char *masked(const char *text) {
  bytes out = {0};
  bytes_add(&out, "", 0);
  while (*text) {
    size_t stamp = stamp_size(text), digits = strspn(text, "0123456789."), time = time_size(text, digits);
    if (stamp) bytes_string(&out, "0000-00-00T00:00:00.000Z");
    else if (time) bytes_string(&out, "#");
    else bytes_add(&out, text, digits ? digits : 1);
    text += stamp ? stamp : time ? time : digits ? digits : 1;
  }
  return out.data;
}

/* The screen without its first line, which names the version. */
static void compare(terminal *t, int columns) {
  char path[512], *shown;
  bytes wanted = {0};
  const char *all = strstr(terminal_text(t), "/help lists"), *asked = getenv("TURNPHASE_SCREENS");
  assert_non_null(all);
  shown = masked(all);
  snprintf(path, sizeof path, "%s/tests/screens/chat-%d.txt", getenv("TURNPHASE_SOURCE"), columns);
  if (asked && strcmp(asked, "write") == 0) put(path, shown);
  FILE *file = fopen(path, "re");
  if (!file) fail_msg("%s: %s; TURNPHASE_SCREENS=write writes it", path, strerror(errno));
  char piece[4096];
  for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;) bytes_add(&wanted, piece, got);
  fclose(file);
  if (strcmp(shown, wanted.data) != 0) print_message("# at %d:\n%s\n# wanted:\n%s\n", columns, shown, wanted.data);
  assert_string_equal(shown, wanted.data);
  free(shown);
  free(wanted.data);
}

/* ---- the conversation ---- */

static terminal *begin(int columns) {
  const char *const arguments[] = {
      getenv("TURNPHASE"), "chat", "--script", "model.yaml", "--no-memory", "--hooks", "hooks",
      "--files",           "tea",  "--data",   "kept",       "--session",   "monday",  NULL};
  enter(columns);
  terminal *t = terminal_open(arguments, columns);
  terminal_await(t, PROMPT);
  terminal_say(t, "Which teas are there?");
  return t;
}

/* The turn is silent until the sign of life is seen, however long that takes; then it goes on. */
static void see_sign(terminal *t, int columns) {
  while (!strstr(terminal_text(t), "Which teas are there?\n  \xe2\x80\xa6 "))
    if (!terminal_pump(t)) fail_msg("no sign of life came; the screen:\n%s", t->text);
  enter(columns);
  int gate = open("gate", O_WRONLY | O_CLOEXEC);
  assert_true(gate >= 0);
  assert_int_equal(unlink("gate"), 0);
  close(gate);
  terminal_await(t, "tool call\n\n> ");
}

static void go_on(terminal *t) {
  terminal_say(t, "Write a note.");
  terminal_await(t, "ends): ");
  terminal_say(t, "y");
  terminal_await(t, "tool call\n\n> ");
  terminal_say(t, "And another.");
  terminal_await(t, "ends): ");
  terminal_say(t, "n");
  terminal_await(t, "tool call\n\n> ");
  terminal_say(t, "/sessions");
  terminal_await(t, PROMPT);
  terminal_say(t, "/nothing");
  terminal_await(t, "see /help\n> ");
  terminal_say(t, "Is there anything else?");
  terminal_await(t, "s\n\n> ");
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
}

/* All at once: the sign comes after a second. */
TEST(a_conversation_at_60_80_and_120_columns) {
  terminal *all[WIDTHS];
  for (size_t i = 0; i < WIDTHS; i++) all[i] = begin(widths[i]);
  for (size_t i = 0; i < WIDTHS; i++) see_sign(all[i], widths[i]);
  for (size_t i = 0; i < WIDTHS; i++) {
    go_on(all[i]);
    assert_true(all[i]->painted);
    compare(all[i], widths[i]);
    terminal_close(all[i]);
  }
}
