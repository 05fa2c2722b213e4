/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase chat: the screen of a person at a terminal, and the output for a script. */
#include <fcntl.h>
#include <sys/ioctl.h>

#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/support/endpoint.h"
#include "tests/support/streams.h"
#include "tests/support/terminal.h"

#define KEY "sk-planted-0123456789abcdef"

/* The environment of a terminal with colours, without settings of the user. */
static int prepare(void **state) {
  if (scratch_make(state) != 0) return -1;
  setenv("TERM", "xterm", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  setenv("HOME", scratch, 1);
  setenv("TURNPHASE_TEST_DOMAIN", "tools", 1);
  unsetenv("NO_COLOR");
  unsetenv("COLUMNS");
  unsetenv("OPENAI_API_KEY");
  return 0;
}

FOR_ALL_TESTS(prepare, scratch_remove);

static terminal *chat_at(int columns, const char *const *more) {
  const char *arguments[24] = {getenv("TURNPHASE"), "chat"};
  for (size_t i = 0; more[i]; i++) arguments[i + 2] = more[i];
  return terminal_open(arguments, columns);
}

#define CHAT_AT(columns, ...) chat_at(columns, (const char *const[]){__VA_ARGS__, NULL})

/* The screen from these words on. */
static const char *from(terminal *t, const char *words) {
  const char *found = strstr(terminal_text(t), words);
  if (!found) print_message("# \"%s\" is not on the screen:\n%s\n", words, t->text);
  assert_non_null(found);
  return found;
}

#define PROMPT "\n> "
#define HELP "/help lists the commands. Ctrl-C cancels a turn, Ctrl-D leaves.\n\n"

static const char script[] =
    "responses:\n"
    "  - text: Let me look. This line is longer than eighty columns, so that the terminal has to wrap it.\n"
    "    tool_calls:\n"
    "      - {id: c1, name: shell, arguments: {command: ls -la /a/folder/with/a/name/that/is/long/enough/to/be/cut/at/"
    "eighty/columns}}\n"
    "    usage: {input_tokens: 12, output_tokens: 3}\n"
    "  - text: \"T\\u00fcr.\\n\\nWith \\e[31mcolour and \\u202E.\"\n"
    "    usage: {input_tokens: 20, output_tokens: 7}\n"
    "  - text: I was asked again.\n";

/* ---- a person at a terminal ---- */

static const struct {
  int columns;
  const char *answer;
} widths[] = {
    {80,
     "Let me look. This line is longer than eighty columns, so that the terminal has\n"
     "to wrap it.\n"
     "  \xe2\x96\xb8 shell {\"command\":\"ls -la /a/folder/with/a/name/that/is/long/enough/to/be/c\xe2\x80\xa6\n"},
    {120,
     "Let me look. This line is longer than eighty columns, so that the terminal has to wrap it.\n"
     "  \xe2\x96\xb8 shell {\"command\":\"ls -la /a/folder/with/a/name/that/is/long/enough/to/be/cut/at/eighty/"
     "columns\"}\n"},
};

TEST(a_turn_with_a_tool_call_is_seen_and_the_next_process_goes_on) {
  const char *model = scratch_string("model.yaml", script);
  for (size_t i = 0; i < 2; i++) {
    char wanted[8192];
    const char *data = scratch_path(i ? "wide" : "narrow");
    terminal *t = CHAT_AT(widths[i].columns, "--script", model, "--load", getenv("TURNPHASE_DOMAIN"), "--data", data,
                          "--session", "monday");
    terminal_await(t, PROMPT);
    terminal_say(t, "Gr\xc3\xbc\xc3\x9f dich");
    terminal_await(t, PROMPT);
    terminal_say(t, "/retry");
    terminal_await(t, PROMPT);
    terminal_say(t, "/quit");
    assert_int_equal(terminal_wait(t), 0);
    snprintf(wanted, sizeof wanted, "%s%s%s", HELP "> Gr\xc3\xbc\xc3\x9f dich\n", widths[i].answer,
             "  \xe2\x9c\x93 shell  # ms  it ran\n"
             "T\xc3\xbcr.\n\nWith <U+001B>[31mcolour and <U+202E>.\n"
             "  # ms \xc2\xb7 32 + 10 tokens \xc2\xb7 1 tool call\n\n"
             "> /retry\nI was asked again.\n  # ms\n\n> /quit\n");
    assert_non_null(strstr(t->raw, ", session monday in "));
    assert_masked(from(t, HELP), wanted);
    assert_true(t->painted);
    terminal_close(t);

    const endpoint_reply reply = {.body = CHAT_HELLO};
    endpoint *e = endpoint_open(&reply, 1);
    t = CHAT_AT(widths[i].columns, "--model", "openai:m", "--base-url", e->url, "--data", data, "--session", "monday");
    terminal_await(t, PROMPT);
    assert_non_null(strstr(t->raw, "6 messages so far"));
    (void)terminal_text(t);
    assert_non_null(strstr(t->text, "\n> Gr\xc3\xbc\xc3\x9f dich\n  I was asked again.\n/help lists"));
    terminal_say(t, "/retry");
    terminal_await(t, "\n\n> ");
    assert_non_null(strstr(endpoint_body(e, 0), "Let me look."));
    assert_non_null(strstr(endpoint_body(e, 0), "I was asked again."));
    assert_masked(from(t, "> /retry"), "> /retry\nHello, w\xc3\xb6rld\n  # ms \xc2\xb7 19 + 10 tokens\n\n> ");
    terminal_say(t, "/quit");
    assert_int_equal(terminal_wait(t), 0);
    terminal_close(t);
    endpoint_close(e);
  }
}

#define BEFORE \
  "> Hi\nOne two\nthr^C\n[cancelled]\n  # ms\n\n> Again\nHello, w\xc3\xb6rld\n  # ms \xc2\xb7 19 + 10 tokens\n\n"
#define LEAVES "Ctrl-C once more leaves, as Ctrl-D and /quit do.\n> "

TEST(ctrl_c_cancels_the_turn_and_not_the_program) {
  static const char words[] = DELTA("{\"content\":\"One two\\nthr\"}");
  static const char all[] = DELTA("{\"content\":\"One two\\nthr\"}") CHAT_HELLO;
  const endpoint_reply replies[] = {{.body = all, .stops_at = sizeof words - 1, .then = ENDPOINT_WAITS},
                                    {.body = CHAT_HELLO}};
  bool edits = getenv("TURNPHASE_LIBEDIT") != NULL;
  for (int columns = 80; columns <= 120; columns += 40) {
    endpoint *e = endpoint_open(replies, 2);
    terminal *t = CHAT_AT(columns, "--model", "openai:m", "--base-url", e->url, "--no-memory");
    terminal_await(t, PROMPT);
    terminal_say(t, "Hi");
    terminal_await(t, "\nOne two\nthr");
    terminal_type(t, "\x03");
    terminal_await(t, PROMPT);
    endpoint_await(e, &e->left, 1);
    terminal_say(t, "Again");
    terminal_await(t, "tokens\n\n> ");
    if (edits) { /* otherwise the content of the line is not known */
      terminal_type(t, "gone");
      terminal_await(t, "> gone");
      terminal_type(t, "\x03");
      terminal_await(t, "> gone\n> ");
    }
    terminal_type(t, "\x03");
    terminal_await(t, "do.\n> ");
    assert_masked(from(t, "> Hi"), edits ? BEFORE "> gone\n>\n" LEAVES : BEFORE "> ^C\n" LEAVES);
    terminal_type(t, "\x03");
    assert_int_equal(terminal_wait(t), 0);
    terminal_close(t);
    endpoint_close(e);
  }
}

/* Waits until the command has read every typed line, and has shown the results of all but the last. */
static void await_read(const terminal *t) {
  int slave = open(ptsname(t->master), O_RDONLY | O_NOCTTY | O_CLOEXEC), waits = 1;
  assert_true(slave >= 0);
  for (int round = 0; round < 20000 && waits > 0; round++) {
    assert_int_equal(ioctl(slave, FIONREAD, &waits), 0);
    if (waits > 0) usleep(1000);
  }
  assert_int_equal(waits, 0);
  close(slave);
}

/* What is typed or pasted, and the message that results, as JSON. */
static const struct {
  const char *typed, *message;
} texts_of_lines[] = {
    {"\x1b[200~a1\ra2\ra3\x1b[201~\r", "a1\\na2\\na3"},
    {"\x1b[200~b1\nb2\x1b[201~\r", "b1\\nb2"},
    {"\x1b[200~c1\r\rc2\r\x1b[201~\r", "c1\\n\\nc2"},          /* the last line end begins no line */
    {"\x1b[200~/usr/lib/d\rd2\x1b[201~\r", "/usr/lib/d\\nd2"}, /* this is not a command */
    {"\x1b[200~//quit\re2\x1b[201~\r", "/quit\\ne2"},
    {"See: \x1b[200~f1\rf2\x1b[201~ and so on\r", "See: f1\\nf2 and so on"},
    {"\x1b[200~T\xc3\xbcr\r\xe6\x9c\xac\x1b[201~\r", "T\xc3\xbcr\\n\xe6\x9c\xac"},
    {"\x1b[200~g\x1b[200g\x1b[201~\r", "g\\u001b[200g"}, /* nearly its end */
    {"\x1b[200~h\x1b\x1b[201~\r", "h\\u001b"},
    {"\x1b[200~\x1b[201~none\r", "none"},
    {"\x1b[200~\r\r\x1b[201~j\r", "j"},
    {"k1\x1b\rk2\r", "k1\\nk2"}, /* Alt-Enter */
};
enum { CHAT_BYTES_MAX = 1 << 20 }; /* the most bytes of a message */
enum { TEXTS_OF_LINES = sizeof texts_of_lines / sizeof texts_of_lines[0] };

static void await_answers(terminal *t, size_t wanted) {
  for (size_t count = 0; count < wanted;) {
    count = 0;
    for (const char *at = terminal_text(t); (at = strstr(at, " tokens\n\n> ")); at++) count++;
    if (count < wanted && !terminal_pump(t)) fail_msg("%zu answers of %zu came:\n%s", count, wanted, t->text);
  }
}

TEST(a_text_of_several_lines_is_one_message) {
  endpoint_reply replies[TEXTS_OF_LINES];
  if (!getenv("TURNPHASE_LIBEDIT")) skip(); /* the terminal by itself knows lines only */
  for (size_t i = 0; i < TEXTS_OF_LINES; i++) replies[i] = (endpoint_reply){.body = CHAT_HELLO};
  endpoint *e = endpoint_open(replies, TEXTS_OF_LINES);
  terminal *t = CHAT_AT(80, "--model", "openai:m", "--base-url", e->url, "--no-memory");
  terminal_await(t, PROMPT);
  assert_non_null(strstr(t->raw, "\x1b[?2004h"));
  for (size_t i = 0; i < TEXTS_OF_LINES; i++) {
    terminal_type(t, texts_of_lines[i].typed);
    await_answers(t, i + 1);
    char wanted[100];
    snprintf(wanted, sizeof wanted, "\"content\":\"%s\"}", texts_of_lines[i].message);
    if (!strstr(endpoint_body(e, i), wanted)) fail_msg("%s is not in %s", wanted, endpoint_body(e, i));
  }
  char *large = malloc(CHAT_BYTES_MAX + 2);
  memset(large, 'x', CHAT_BYTES_MAX + 1);
  large[CHAT_BYTES_MAX + 1] = '\0';
  terminal_type(t, "begun \x1b[200~");
  terminal_type(t, large);
  terminal_type(t, "\x1b[201~");
  free(large);
  terminal_await(t, "a message has at most 1048576 bytes\n> "); /* nothing of it was sent */
  assert_int_equal(e->request_count, TEXTS_OF_LINES);
  terminal_type(t, "\x1b[200~/quit\rnow\x1b[201~\r");
  terminal_await(t, "has two slashes\n> ");
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
  assert_non_null(strstr(t->raw, "\x1b[?2004l"));
  terminal_close(t);
  endpoint_close(e);
}

TEST(what_is_typed_during_a_turn_enters_it_and_a_command_waits) {
  static const char words[] = DELTA("{\"content\":\"One two\"}");
  static const char all[] = DELTA("{\"content\":\"One two\"}") CHAT_HELLO;
  const endpoint_reply replies[] = {{.body = all, .stops_at = sizeof words - 1, .then = ENDPOINT_WAITS},
                                    {.body = CHAT_HELLO}};
  endpoint *e = endpoint_open(replies, 2);
  terminal *t = CHAT_AT(80, "--model", "openai:m", "--base-url", e->url, "--no-memory");
  terminal_await(t, PROMPT);
  terminal_say(t, "Hi");
  terminal_await(t, "\nOne two");
  terminal_say(t, "And the //tests, too.");
  await_read(t);
  terminal_say(t, "/nothing");
  await_read(t);
  endpoint_go(e);
  terminal_await(t, "there is no command /nothing; see /help\n> ");
  assert_non_null(from(t, "\xc2\xbb And the //tests, too.\n"));
  assert_non_null(from(t, "38 + 20 tokens"));
  assert_non_null(strstr(endpoint_body(e, 1), "And the //tests, too."));
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
  assert_string_equal(endpoint_body(e, 2), "");
  terminal_close(t);
  endpoint_close(e);
}

TEST(questions_about_calls_are_answered_in_place) {
  static const char writes[] =
      "responses:\n"
      "  - tool_calls: [{name: files_write, arguments: {path: a.txt, text: no}}]\n"
      "  - text: Not written.\n"
      "  - tool_calls: [{name: files_write, arguments: {path: b.txt, text: yes}}]\n"
      "  - text: Written.\n";
  const char *root = scratch_path(""), *model = scratch_string("model.yaml", writes);
  terminal *t = CHAT_AT(120, "--script", model, "--no-memory", "--files", root);
  terminal_await(t, PROMPT);
  terminal_say(t, "Write a");
  terminal_await(t, "until the run ends): ");
  assert_non_null(from(t, "reason: it writes the file a.txt"));
  terminal_say(t, "n");
  terminal_await(t, PROMPT);
  assert_non_null(from(t, "\nNot written.\n"));
  terminal_say(t, "Write b");
  terminal_await(t, "until the run ends): ");
  assert_non_null(from(t, "reason: it writes the file b.txt"));
  terminal_say(t, "y");
  terminal_await(t, PROMPT);
  assert_non_null(from(t, "\nWritten.\n"));
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);
  assert_int_not_equal(access(scratch_path("a.txt"), F_OK), 0);
  assert_int_equal(access(scratch_path("b.txt"), F_OK), 0);
}

/* Each of two calls asks. The end of the first comes while the question about the second is open. */
TEST(no_line_is_printed_into_a_question) {
  static const char writes[] =
      "responses:\n"
      "  - tool_calls: [{name: files_write, arguments: {path: c.txt, text: yes}}, "
      "{name: files_write, arguments: {path: d.txt, text: yes}}]\n"
      "  - text: Written.\n";
  const char *root = scratch_path(""), *model = scratch_string("model.yaml", writes);
  terminal *t = CHAT_AT(120, "--script", model, "--no-memory", "--files", root);
  terminal_await(t, PROMPT);
  terminal_say(t, "Write both");
  terminal_await(t, "until the run ends): ");
  terminal_say(t, "y");
  terminal_await(
      t,
      "reason: it writes the file d.txt\nRun it? y (once), n, e (edit the arguments),\nor always (this tool, "
      "until the run ends): ");
  terminal_say(t, "y");
  terminal_await(t, PROMPT);
  const char *second = from(t, "until the run ends): y\nturnphase: hook") + 20;
  second = strstr(second, "until the run ends): y\n");
  assert_non_null(second);
  assert_ptr_equal(strstr(from(t, "> Write both"), "\xe2\x96\xb8"), second + sizeof "until the run ends): y\n  " - 1);
  assert_non_null(strstr(second, "Wrote 3 bytes to c.txt.\n"));
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);
}

/* Waits for the sign of life in the line after these words. A test that is not scheduled for a while misses seconds of
 * it. */
static void await_sign(terminal *t, const char *words) {
  for (;;) {
    const char *at = strstr(terminal_text(t), words);
    if (at) at = strncmp(at + strlen(words), "\n  \xe2\x80\xa6 ", 7) == 0 ? at + strlen(words) + 7 : NULL;
    size_t digits = at ? strspn(at, "0123456789") : 0;
    if (digits > 0 && (strcmp(at + digits, " s") == 0 || strcmp(at + digits, " s ") == 0)) return;
    if (terminal_pump(t)) continue;
    print_message("# no sign came after \"%s\"; the screen:\n%s\n", words, t->text);
    fail();
  }
}

/* Text on the screen is an event, and so is the sign of life, so this test waits for no fixed time. */
TEST(a_model_that_says_nothing_has_a_sign_that_its_answer_erases) {
  static const char *const terms[] = {"xterm", "dumb"};
  for (size_t i = 0; i < 2; i++) {
    const endpoint_reply reply = {.body = CHAT_HELLO, .waits_before = true};
    setenv("TERM", terms[i], 1);
    endpoint *e = endpoint_open(&reply, 1);
    terminal *t = CHAT_AT(80, "--model", "openai:m", "--base-url", e->url, "--no-memory");
    terminal_await(t, PROMPT);
    terminal_say(t, "Hi");
    if (i == 0) await_sign(t, "> Hi");
    endpoint_go(e);
    terminal_await(t, "tokens\n\n> ");
    assert_masked(from(t, "> Hi"), "> Hi\nHello, w\xc3\xb6rld\n  # ms \xc2\xb7 19 + 10 tokens\n\n> ");
    if (i == 1) assert_null(strstr(t->raw, "\xe2\x80\xa6"));
    terminal_say(t, "/quit");
    assert_int_equal(terminal_wait(t), 0);
    terminal_close(t);
    endpoint_close(e);
  }
  setenv("TERM", "xterm", 1);
}

TEST(tab_completes_commands_and_files_and_sessions_are_listed) {
  const char *model = scratch_string("model.yaml", "responses: [{text: Hello.}]\n"), *data = scratch_path("kept");
  char line[4200], wanted[4300];
  scratch_string("tab-one.png", "x");
  scratch_string("tab-two.png", "x");
  terminal *t = CHAT_AT(120, "--script", model, "--no-memory", "--data", data, "--session", "monday");
  terminal_await(t, PROMPT);
  terminal_say(t, "/sessions");
  terminal_await(t, PROMPT);
  terminal_say(t, "Hi");
  terminal_await(t, "ms\n\n> ");
  terminal_say(t, "/sessions");
  terminal_await(t, "Z  monday                2 messages\n> ");
  if (getenv("TURNPHASE_LIBEDIT")) {
    terminal_type(t, "/att\t");
    terminal_await(t, "> /attach ");
    snprintf(line, sizeof line, "%s\t", scratch_path("ta"));
    snprintf(wanted, sizeof wanted, "> /attach %s", scratch_path("tab-"));
    terminal_type(t, line);
    terminal_await(t, wanted);
    terminal_type(t, "\tt\t"); /* first the list, then the only name that is left */
    terminal_await(t, "tab-two.png ");
    assert_non_null(strstr(t->text, "tab-one.png "));
    terminal_type(t, "\x03");
    terminal_await(t, "\n> ");
  }
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);
}

TEST(markdown_is_painted_for_a_person_and_raw_on_demand) {
  const char *model = scratch_string("model.yaml", "responses: [{text: \"# Head\\n\\n- **one** `two`\\n\"}]\n");
  for (int raw = 0; raw < 3; raw++) {
    if (raw == 2) setenv("NO_COLOR", "1", 1);
    terminal *t = CHAT_AT(80, "--script", model, "--no-memory", raw == 1 ? "--raw" : NULL);
    terminal_await(t, PROMPT);
    terminal_say(t, "Hi");
    terminal_await(t, "ms\n\n> ");
    assert_non_null(from(t, raw ? "# Head\n\n- **one** `two`\n" : "\nHead\n\n\xe2\x80\xa2 one two\n"));
    terminal_say(t, "/quit");
    assert_int_equal(terminal_wait(t), 0);
    terminal_close(t);
  }
  unsetenv("NO_COLOR");
  command c = {.arguments = {"chat", "--script", model, "--no-memory"}, .input = "Hi\n"};
  assert_status(&c, 0);
  assert_holds(&c.out, "# Head\n\n- **one** `two`\n");
  command_free(&c);
}

TEST(ctrl_c_before_any_text_leaves_no_line_half_written) {
  const endpoint_reply reply = {.body = CHAT_HELLO, .waits_before = true};
  endpoint *e = endpoint_open(&reply, 1);
  terminal *t = CHAT_AT(80, "--model", "openai:m", "--base-url", e->url, "--no-memory");
  terminal_await(t, PROMPT);
  terminal_say(t, "Hi");
  terminal_await(t, "> Hi\n"); /* at Ctrl-C the terminal drops the unread input */
  endpoint_await(e, &e->request_count, 1);
  terminal_type(t, "\x03");
  terminal_await(t, PROMPT);
  assert_masked(from(t, "> Hi"), "> Hi\n^C\n[cancelled]\n  # ms\n\n> ");
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);
  endpoint_close(e);
}

#define PNG "\x89PNG\r\n\x1a\n!"
#define PNG_URL "data:image/png;base64,iVBORw0KGgoh"

/* The image is sent with each request of the conversation, as long as the file exists. */
TEST(an_image_is_attached) {
  const endpoint_reply reply = {.body = CHAT_HELLO};
  const char *image = scratch_write("a.png", PNG, sizeof PNG - 1), *data = scratch_path("attached");
  char line[700];
  endpoint *e = endpoint_open(&reply, 1);
  terminal *t = CHAT_AT(100, "--model", "openai:m", "--base-url", e->url, "--data", data);
  terminal_await(t, PROMPT);
  static const char *const refused[][2] = {{"/attach", "(PNG, JPEG, GIF or WebP)\n> "},
                                           {"/attach /no/such/file", "/no/such/file: No such file or directory\n> "},
                                           {"/attach /dev/null", "/dev/null: it is not a regular file\n> "}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    terminal_say(t, refused[i][0]);
    terminal_await(t, refused[i][1]);
  }
  snprintf(line, sizeof line, "/attach %s", image);
  terminal_say(t, line);
  terminal_await(t, " goes with the next message\n> ");
  terminal_say(t, "Look");
  terminal_await(t, "tokens\n\n> ");
  terminal_say(t, "Again");
  terminal_await(t, "tokens\n\n> ");
  for (size_t i = 0; i < 2; i++) {
    assert_non_null(strstr(endpoint_body(e, i), "{\"type\":\"text\",\"text\":\"Look\"},{\"type\":\"image_url\""));
    assert_null(strstr(strstr(endpoint_body(e, i), PNG_URL) + 1, PNG_URL));
  }
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);

  unlink(image);
  t = CHAT_AT(100, "--model", "openai:m", "--base-url", e->url, "--data", data);
  terminal_await(t, PROMPT);
  terminal_say(t, "And now?");
  terminal_await(t, "tokens\n\n> ");
  assert_non_null(strstr(endpoint_body(e, 2), "[an image that is not sent any more]"));
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);
  endpoint_close(e);
}

TEST(what_happened_is_looked_at_with_commands) {
  const char *model = scratch_string("model.yaml", script), *file = scratch_path("talk.md");
  char line[700];
  terminal *t = CHAT_AT(100, "--script", model, "--load", getenv("TURNPHASE_DOMAIN"), "--data", scratch_path("looked"));
  terminal_await(t, PROMPT);
  static const char *const too_early[][2] = {
      {"/explain", "there was no turn yet\n> "},
      {"/phases", "there was no turn yet\n> "},
      {"/tools", "is known after the first turn\n> "},
      {"/memory", "  nothing is remembered yet\n> "},
      {"/retry", "there is no message yet that could be sent again\n> "},
      {"/save", "/save needs the name of a file\n> "},
      {"/save /no/such/folder/x", "/no/such/folder/x: No such file or directory\n> "},
      {"/quit now", "/quit takes nothing, not 'now'\n> "},
      {"/nothing", "see /help\n> "}};
  for (size_t i = 0; i < sizeof too_early / sizeof *too_early; i++) {
    terminal_say(t, too_early[i][0]);
    terminal_await(t, too_early[i][1]);
  }
  terminal_say(t, "//slash");
  terminal_await(t, "tool call\n\n> ");
  terminal_say(t, "/phases");
  terminal_await(t, PROMPT);
  from(t, "\n  turn.pre_policy ");
  terminal_say(t, "/tools");
  terminal_await(t, PROMPT);
  from(t, "\n  shell                runs nothing\n");
  terminal_say(t, "/memory");
  terminal_await(t, "  /slash\n> ");
  terminal_say(t, "/memory slash");
  terminal_await(t, "  /slash\n> ");
  terminal_say(t, "/memory Reykjavik");
  terminal_await(t, "nothing that fits is remembered\n> ");
  terminal_say(t, "/explain");
  terminal_await(t, PROMPT);
  from(t, "user     /slash\n");
  from(t, "call 1, shell, begins\n");
  from(t, "end      completed\n");
  snprintf(line, sizeof line, "/save %s", file);
  terminal_say(t, line);
  terminal_await(t, PROMPT);
  terminal_say(t, line);
  terminal_await(t, "choose another\n> ");
  terminal_say(t, "/help");
  terminal_await(t, "a new line.\n> ");
  terminal_type(t, "\x04");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);

  struct stat found;
  char saved[4096] = "";
  FILE *opened = fopen(file, "r");
  assert_non_null(opened);
  assert_int_equal(fstat(fileno(opened), &found), 0);
  assert_int_equal(found.st_mode & 0777, 0600);
  assert_true(fread(saved, 1, sizeof saved - 1, opened) > 0);
  fclose(opened);
  assert_ptr_equal(strstr(saved, "# Conversation chat\n\n## User\n\n/slash\n\n## Assistant\n\nLet me look."), saved);
  assert_non_null(
      strstr(saved, "wrap it.\n\nCalls `shell`.\n\n## Tool shell\n\nit ran\n\n## Assistant\n\nT\xc3\xbcr."));
}

TEST(what_was_recalled_is_seen_with_verbose_and_colours_can_be_off) {
  const char *model = scratch_string("again.yaml", "repeat: true\nresponses: [{text: Yes.}]\n");
  setenv("NO_COLOR", "1", 1);
  terminal *t = CHAT_AT(90, "--script", model, "--load", getenv("TURNPHASE_EXAMPLE"), "--verbose");
  terminal_await(t, PROMPT);
  terminal_say(t, "Where is the cat?");
  terminal_await(t, "ms\n\n> ");
  from(t, "  \xc2\xb7 context notes.count: ");
  terminal_say(t, "a secret");
  terminal_await(t, "ms\n\n> ");
  from(t, "\n[denied] ");
  assert_false(t->painted);
  terminal_say(t, "/memory");
  terminal_await(t, "cannot be listed\n> ");
  terminal_type(t, "\x04");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);
  unsetenv("NO_COLOR");
}

TEST(lines_are_edited_and_come_again) {
  const char *model = scratch_string("again.yaml", "repeat: true\nresponses: [{text: Yes.}]\n");
  terminal *t = CHAT_AT(80, "--script", model, "--no-memory");
  terminal_await(t, PROMPT);
  terminal_say(t, "first");
  terminal_await(t, "ms\n\n> ");
  terminal_type(t, "\x10"); /* Ctrl-P */
  if (getenv("TURNPHASE_LIBEDIT")) {
    terminal_await(t, "> first");
    terminal_type(t,
                  "\x7f\x7f"
                  "e\r");
    terminal_await(t, "ms\n\n> ");
    from(t, "> fire\nYes.\n");
  }
  terminal_type(t, "\x15\x04"); /* Ctrl-U, Ctrl-D */
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);
}

/* ---- the key ---- */

TEST(the_key_is_nowhere) {
  static const endpoint_reply replies[] = {
      {.body = CHAT_HELLO},
      {.status = 401,
       .type = "application/json",
       .body = "{\"error\":{\"message\":\"Incorrect key: " KEY "\",\"code\":\"invalid_api_key\"}}"}};
  char line[700];
  const char *data = scratch_path("keyed");
  setenv("TEST_KEY", KEY, 1);
  endpoint *e = endpoint_open(replies, 2);
  terminal *t =
      CHAT_AT(80, "--model", "openai:m", "--base-url", e->url, "--key-env", "TEST_KEY", "--data", data, "--verbose");
  terminal_await(t, PROMPT);
  terminal_say(t, "Hi");
  terminal_await(t, "tokens\n\n> ");
  assert_non_null(strstr(endpoint_request(e, 0), KEY));
  terminal_say(t, "/retry");
  terminal_await(t, "ms\n\n> ");
  from(t, "[failed] ");
  terminal_say(t, "/explain");
  terminal_await(t, PROMPT);
  snprintf(line, sizeof line, "/save %s/saved.md", data);
  terminal_say(t, line);
  terminal_await(t, PROMPT);
  terminal_type(t, "\x04");
  assert_int_equal(terminal_wait(t), 0);
  assert_null(memmem(t->raw, t->raw_size, KEY, strlen(KEY)));
  terminal_close(t);
  endpoint_close(e);
  snprintf(line, sizeof line, "test -s %s/saved.md && ! grep -r -a -q %s %s", data, KEY, data);
  assert_int_equal(system(line), 0);
  unsetenv("TEST_KEY");
}

/* ---- what the model thinks, and how its answer ended ---- */

#define THINKS(text) DELTA("{\"reasoning_content\":\"" text "\"}")
#define SAYS(text) DELTA("{\"content\":\"" text "\"}")
#define MARK "  \xc2\xb7 "
#define FOLDED "  thinking is folded to a line\n"
#define WHOLE "  thinking is shown whole\n"
static const char thoughts[] =
    THINKS("  The user\\n greets") THINKS(" me. \\n\\n\\u001b[2JI am") THINKS(" polite. ") SAYS("Hel") SAYS("lo.")
        THINKS("Anything else to say? No: this is enough for a greeting.") SAYS(" Bye.") FINISH("stop") DONE;

TEST(thinking_is_dimmed_and_folded_and_whole_on_demand) {
  static const struct {
    bool colour;
    const char *dimmed;
  } rows[] = {{true, "\x1b[2m"}, {false, NULL}};
  const endpoint_reply reply = {.body = thoughts, .piece = 7};
  for (size_t i = 0; i < 2; i++) {
    endpoint *e = endpoint_open(&reply, 1);
    if (!rows[i].colour) setenv("NO_COLOR", "1", 1);
    terminal *t = CHAT_AT(40, "--model", "openai:m", "--base-url", e->url, "--no-memory");
    terminal_await(t, PROMPT);
    terminal_say(t, "Hi");
    terminal_await(t, "ms\n\n> ");
    terminal_say(t, "/thinking");
    terminal_await(t, WHOLE "> ");
    terminal_say(t, "Again");
    terminal_await(t, "ms\n\n> ");
    terminal_say(t, "/thinking");
    terminal_await(t, FOLDED "> ");
    assert_masked(from(t, "> Hi"), "> Hi\n" MARK
                                   "The user greets me. <U+001B>[2JI a\xe2\x80\xa6\n"
                                   "Hello.\n" MARK
                                   "Anything else to say? No: this is\xe2\x80\xa6\n Bye.\n  # ms\n\n"
                                   "> /thinking\n" WHOLE "> Again\n" MARK "The user\n" MARK "greets me.\n" MARK
                                   "<U+001B>[2JI am polite.\nHello.\n" MARK
                                   "Anything else to say? No: this is en\nough for a greeting.\n Bye.\n  # ms\n\n"
                                   "> /thinking\n" FOLDED "> ");
    assert_int_equal(t->painted, rows[i].colour);
    if (rows[i].dimmed) assert_non_null(strstr(t->raw, rows[i].dimmed));
    terminal_say(t, "/quit");
    assert_int_equal(terminal_wait(t), 0);
    terminal_close(t);
    unsetenv("NO_COLOR");
    endpoint_close(e);
  }
}

/* A script reads only the answer. It gets thinking on request, as separate events. */
TEST(thinking_is_in_no_answer_of_a_script) {
  static const struct {
    const char *option, *input, *out;
  } rows[] = {
      {NULL, "Hi\n", "Hello. Bye.\n"},
      {"--verbose", "Hi\n", MARK "The user greets me. <U+001B>[2JI am polite.\nHello.\n" MARK},
      {NULL, "/thinking\nHi\n", WHOLE MARK "The user\n" MARK "greets me.\n" MARK "<U+001B>[2JI am polite.\nHello.\n"},
      {"--json", "Hi\n", "\"event\":\"thinking\""},
  };
  const endpoint_reply reply = {.body = thoughts};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    endpoint *e = endpoint_open(&reply, 1);
    command c = {.arguments = {"chat", "--model", "openai:m", "--base-url", e->url, "--no-memory", rows[i].option},
                 .input = rows[i].input};
    assert_status(&c, 0);
    assert_holds(&c.out, rows[i].out);
    if (i == 0) assert_string_equal(c.out.data, rows[i].out);
    if (i == 3) {
      const char *end = strstr(c.out.data, "\"event\":\"model_end\"");
      assert_non_null(end);
      assert_non_null(strstr(end, "\"text\":\"Hello. Bye.\""));
      assert_null(strstr(end, "polite"));
    }
    command_free(&c);
    endpoint_close(e);
  }
}

TEST(thinking_is_in_no_file_that_is_saved) {
  const endpoint_reply reply = {.body = thoughts};
  endpoint *e = endpoint_open(&reply, 1);
  const char *file = scratch_path("thought.md");
  char line[700], saved[4096] = "";
  snprintf(line, sizeof line, "/thinking\nHi\n/save %s\n", file);
  command c = {.arguments = {"chat", "--model", "openai:m", "--base-url", e->url, "--no-memory"}, .input = line};
  assert_status(&c, 0);
  FILE *opened = fopen(file, "r");
  assert_non_null(opened);
  assert_true(fread(saved, 1, sizeof saved - 1, opened) > 0);
  fclose(opened);
  assert_non_null(strstr(saved, "Hello. Bye."));
  assert_null(strstr(saved, "polite"));
  command_free(&c);
  endpoint_close(e);
}

#define REFUSAL_OF_CHAT DELTA("{\"refusal\":\"I will not.\"}") FINISH("stop") DONE

TEST(an_answer_that_ended_early_has_a_line_that_says_so) {
  static const struct {
    const char *body, *out, *json;
  } rows[] = {
      {SAYS("The first half") FINISH("length") DONE,
       "The first half\n[length] the answer is cut: it reached the limit of tokens\n", "\"finish\":\"length\""},
      {SAYS("The") FINISH("content_filter") DONE, "The\n[filter] the provider filtered the answer\n",
       "\"finish\":\"filter\",\"finish_word\":\"content_filter\""},
      {SAYS("No.") FINISH("refusal") DONE, "No.\n[refusal] the model refused to answer\n", "\"finish\":\"refusal\""},
      {REFUSAL_OF_CHAT, "I will not.\n[refusal] the model refused to answer\n",
       "\"finish\":\"refusal\",\"finish_word\":\"stop\""},
      {SAYS("Yes.") FINISH("pause") DONE, "Yes.\n[pause] the model paused: the next message lets it go on\n",
       "\"finish\":\"pause\""},
      {FINISH("stop") DONE, "[stop] the answer is empty\n", "\"finish\":\"stop\""},
      {SAYS("Yes.") FINISH("stop") DONE, "Yes.\n", "\"finish\":\"stop\""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const endpoint_reply reply = {.body = rows[i].body};
    for (int json = 0; json < 2; json++) {
      endpoint *e = endpoint_open(&reply, 1);
      command c = {
          .arguments = {"chat", "--model", "openai:m", "--base-url", e->url, "--no-memory", json ? "--json" : NULL},
          .input = "Hi\n"};
      assert_status(&c, i < 5);
      const char *answer = strstr(rows[i].out, "Yes.\n[pause]") && !json ? strstr(c.out.data, "Yes.\n[") : c.out.data;
      assert_non_null(answer); /* after a pause the provider was asked to go on, and has paused again */
      if (json) assert_holds(&c.out, rows[i].json);
      else assert_string_equal(answer, rows[i].out);
      command_free(&c);
      endpoint_close(e);
    }
  }
}

/* ---- a script ---- */

TEST(without_a_terminal_each_line_is_a_message) {
  const char *model = scratch_string("model.yaml", script);
  command c = {.arguments = {"chat", "--script", model, "--load", getenv("TURNPHASE_DOMAIN"), "--no-memory"},
               .input = "one\r\n\n  \ntwo"};
  assert_status(&c, 0);
  assert_masked(
      c.out.data,
      "Let me look. This line is longer than eighty columns, so that the terminal has to wrap it.\n"
      "  \xe2\x96\xb8 shell {\"command\":\"ls -la /a/folder/with/a/name/that/is/long/enough/to/be/c\xe2\x80\xa6\n"
      "  \xe2\x9c\x93 shell  # ms  it ran\n"
      "T\xc3\xbcr.\n\nWith <U+001B>[31mcolour and <U+202E>.\n"
      "I was asked again.\n");
  assert_string_equal(c.err.data, "");
  command_free(&c);
}

TEST(json_gives_the_events_of_run_and_takes_lines_as_they_stand) {
  const char *model = scratch_string("model.yaml", script);
  command c = {.arguments = {"chat", "--script", model, "--load", getenv("TURNPHASE_DOMAIN"), "--json"},
               .input = "/quit\nsecond\n"};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"event\":\"turn_begin\"");
  assert_holds(&c.out, "\"text\":\"/quit\"");
  assert_holds(&c.out, "\"event\":\"tool_end\"");
  assert_holds(&c.out, "\"session\":\"chat\"");
  assert_holds(&c.out, "\"text\":\"I was asked again.\"");
  const char *first = strstr(c.out.data, "\"turn\":\""), *other = strstr(c.out.data, "\"text\":\"second\"");
  assert_non_null(first);
  assert_non_null(other);
  other = strstr(other, "\"turn\":\"");
  assert_non_null(other);
  assert_memory_not_equal(first, other, strlen("\"turn\":\"2026-11-22T23:50:34.123Z"));
  for (const char *line = c.out.data; *line; line = strchr(line, '\n') + 1) assert_int_equal(*line, '{');
  command_free(&c);
}

TEST(the_exit_status_says_what_went_wrong) {
  const char *one = scratch_string("one.yaml", "responses: [{text: Yes.}]\n");
  char *long_line = malloc((1 << 20) + 16);
  assert_non_null(long_line);
  memset(long_line, 'x', (1 << 20) + 8);
  strcpy(long_line + (1 << 20) + 8, "\nHi\n");
  const struct {
    const char *arguments[8], *input;
    int status;
    const char *out, *err;
  } rows[] = {
      {{"chat"}, "", 2, "", "chat needs a model: --model openai:NAME"},
      {{"chat", "--script", one, "--session", "a b"}, "", 2, "", "--session must have 1 to 128 bytes"},
      {{"chat", "--script", one, "talk.yaml"}, "", 2, "", "chat does not take 'talk.yaml'"},
      {{"chat", "--script", "/no/such"}, "", 74, "", "/no/such"},
      {{"chat", "--script", one}, "", 0, "", ""},
      {{"chat", "--script", one}, "Hi\n/quit\nnever\n", 0, "Yes.\n", ""},
      {{"chat", "--script", one}, "Hi\nmore\n", 1, "Yes.\n[failed] ", ""},
      {{"chat", "--script", one}, "/foo\nHi\n", 2, "Yes.\n", "there is no command /foo; see /help"},
      {{"chat", "--script", one}, "\xff\nHi\n", 78, "Yes.\n", "UTF-8"},
      {{"chat", "--script", one}, long_line, 2, "Yes.\n", "a message has at most 1048576 bytes"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {.input = rows[i].input};
    memcpy(c.arguments, rows[i].arguments, sizeof rows[i].arguments);
    assert_status(&c, rows[i].status);
    assert_holds(&c.out, rows[i].out);
    assert_holds(&c.err, rows[i].err);
    command_free(&c);
  }
  free(long_line);
}

TEST(skills_are_called_where_no_command_has_the_name) {
  const char *skills = scratch_path("skills");
  assert_int_equal(mkdir(skills, 0700), 0);
  scratch_string("skills/brief.md", "Be brief.\n");
  scratch_string("skills/help.md", "Help.\n");
  const char *one = scratch_string("yes.yaml", "responses: [{text: Yes.}]\nrepeat: true\n");
  const struct {
    const char *input;
    int status;
    const char *out;
  } rows[] = {{"/brief x\n", 0, "Yes.\n"},
              {"/help\n", 0, "this list"},
              {"//help\n", 0, "Yes.\n"},
              {"/foo\n", 0, "/foo: there is no such skill"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {.arguments = {"chat", "--script", one, "--no-memory", "--skills", skills}, .input = rows[i].input};
    assert_status(&c, rows[i].status);
    assert_holds(&c.out, rows[i].out);
    command_free(&c);
  }
}

TEST(sigint_ends_a_script) {
  static const char words[] = DELTA("{\"content\":\"One two\"}");
  static const char all[] = DELTA("{\"content\":\"One two\"}") CHAT_HELLO;
  const endpoint_reply flowing = {.body = all, .stops_at = sizeof words - 1, .then = ENDPOINT_WAITS};
  endpoint *e = endpoint_open(&flowing, 1);
  command c = {.arguments = {"chat", "--model", "openai:m", "--base-url", e->url, "--no-memory"},
               .input = "Hi\nnever\n",
               .interrupt_at = "One two"};
  assert_status(&c, 130);
  assert_string_equal(c.out.data, "One two\n[cancelled]\n");
  endpoint_await(e, &e->left, 1);
  command_free(&c);
  endpoint_close(e);
}

/* ---- a server of MCP that asks ---- */

TEST(a_person_answers_what_a_server_of_MCP_asks) {
  const char *program = getenv("TURNPHASE_MCP_SERVER");
  if (!program) skip();
  char server[600];
  const char *model = scratch_string("asks.yaml",
                                     "responses:\n"
                                     "  - tool_calls: [{id: c1, name: mcp__s__echo, arguments: {text: x}}]\n"
                                     "  - text: First.\n"
                                     "  - tool_calls: [{id: c2, name: mcp__s__echo, arguments: {text: x}}]\n"
                                     "  - text: Second.\n");
  snprintf(server, sizeof server, "s=%s forms=1 rich", program);
  terminal *t = CHAT_AT(120, "--script", model, "--no-memory", "--mcp", server);
  terminal_await(t, PROMPT);
  terminal_say(t, "go");
  terminal_await(t, "y, or n (declines): ");
  from(t, "turnphase: the MCP server s asks, in the call of mcp__s__echo:\n  Which<U+001B>[31m one?\n");
  terminal_say(t, "perhaps");
  terminal_await(t, "Answer y or n: ");
  terminal_say(t, "y");
  terminal_await(t, "  Your name\n  name (string): ");
  terminal_say(t, "");
  terminal_await(t, "that must be an answer\n  Your name\n  name (string): ");
  terminal_say(t, "Ada");
  terminal_await(t, "age (integer, may be empty): ");
  terminal_say(t, "1.5");
  terminal_await(t, "that must be a whole number\n  age (integer, may be empty): ");
  terminal_say(t, "36");
  terminal_await(t, "height (number, may be empty): ");
  terminal_say(t, "tall");
  terminal_await(t, "that must be a number\n  height (number, may be empty): ");
  terminal_say(t, "1.5");
  terminal_await(t, "sure (y or n): ");
  terminal_say(t, "n");
  terminal_await(t, "note (string, may be empty): ");
  terminal_say(t, "");
  terminal_await(t, "colour (red | blue, may be empty): ");
  terminal_say(t, "green");
  terminal_await(t, "that must be one of the choices\n  colour (red | blue, may be empty): ");
  terminal_say(t, "blue");
  terminal_await(t, PROMPT);
  from(t, "'result':{'action':'accept','content':{'name':'Ada','age':36,'height':1.5,'sure':false,'colo");
  terminal_say(t, "again");
  terminal_await(t, "y, or n (declines): ");
  terminal_say(t, "n");
  terminal_await(t, PROMPT);
  from(t, "'result':{'action':'decline'}");
  terminal_say(t, "/quit");
  assert_int_equal(terminal_wait(t), 0);
  terminal_close(t);
}
