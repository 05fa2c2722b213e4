/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong input is refused with its place before any turn runs, in both forms of a conversation. Right input is accepted
 * in all its forms. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

static const char script[] = "repeat: true\nresponses:\n  - text: I see.\n";

/* ---- right ---- */

static void plays(const char *name, const char *text, size_t turns) {
  command c = {
      .arguments = {"run", "--json", "--script", scratch_string("model.yaml", script), scratch_string(name, text)}};
  assert_status(&c, 0);
  events e = events_read(&c.out);
  assert_int_equal(events_count(&e, "result", NULL), turns);
  events_free(&e);
  command_free(&c);
}

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(both_forms_are_taken) {
  plays("a.yaml", "sessions:\n  - id: a\n    turns:\n      - {id: a1, user: hello}\n      - user: and?\n", 2);
  plays("a.yml", "sessions: [{id: a, tenant: t, workspace: w, turns: [{user: \"\"}]}]\n", 1);
  plays("a.jsonl",
        "{\"session\": \"a\", \"turn\": \"a1\", \"user\": \"hello\"}\n{\"session\": \"b\", \"user\": \"x\"}\n", 2);
  plays("no-extension", "\n{\"session\": \"a\", \"user\": \"hello\"}", 1);
  plays("no-extension", "# ours\nsessions:\n  - {id: a, turns: [{user: x}]}\n", 1);
  plays("crlf.jsonl", "{\"session\": \"a\", \"user\": \"x\"}\r\n\r\n{\"session\": \"a\", \"user\": \"y\"}\r\n", 2);
}

TEST(time_of_saying_may_be_a_date_or_a_time) {
  static const char *const said[] = {"2023-05-08",           "2023-05-08T13:56",        "2023-05-08 13:56:07",
                                     "2024-02-29T13:56:07Z", "2023-05-08T13:56:07.25Z", "2023-05-08T13:56+02:00",
                                     "2000-02-29",           "2023-05-08T13:56:60-0930"};
  for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
    char text[256];
    snprintf(text, sizeof text, "{\"session\": \"a\", \"user\": \"x\", \"said\": \"%s\"}\n", said[i]);
    plays("a.jsonl", text, 1);
  }
  plays("a.yaml", "sessions: [{id: a, said: 2023-05-08, turns: [{user: x}, {user: y, said: 2023-05-09T10:00Z}]}]\n", 2);
}

/* A message of an old conversation is recalled with its own date. */
TEST(time_of_saying_is_the_date_of_what_is_recalled) {
  command c = {.arguments = {"run", "--json", "--script", scratch_string("model.yaml", script),
                             scratch_string("a.yaml",
                                            "sessions:\n  - id: a\n    said: 2023-05-08\n    turns:\n"
                                            "      - user: My sister Ingrid moved to Oslo.\n"
                                            "      - {user: Ingrid has a cat., said: 2023-05-09T23:30-01:00}\n"
                                            "  - id: b\n    turns: [{user: Where does Ingrid live?}]\n")}};
  assert_status(&c, 0);
  assert_holds(&c.out, "[2023-05-08, session a] My sister Ingrid moved to Oslo.");
  assert_holds(&c.out, "[2023-05-10, session a] Ingrid has a cat.");
  command_free(&c);
}

/* The same id in another session, or another tenant's session, is another turn. */
TEST(ids_are_of_their_session) {
  plays(
      "a.jsonl",
      "{\"session\": \"a\", \"turn\": \"1\", \"user\": \"x\"}\n{\"session\": \"b\", \"turn\": \"1\", \"user\": \"x\"}\n"
      "{\"session\": \"a\", \"turn\": \"1\", \"tenant\": \"t\", \"user\": \"x\"}\n",
      3);
}

/* ---- wrong ---- */

/** A conversation that is refused, and how the message begins after the file's name. */
typedef struct wrong {
  const char *text, *complaint;
} wrong;

static void is_refused(const char *name, const char *text, size_t size, const char *complaint) {
  const char *path = scratch_write(name, text, size), *data = scratch_path("never-made");
  char expected[512];
  struct stat found;
  command c = {.arguments = {"run", "--json", "--script", scratch_string("model.yaml", script), "--data", data, path}};
  snprintf(expected, sizeof expected, "turnphase: %s%s", path, complaint);
  assert_status(&c, 78);
  assert_holds(&c.err, expected);
  assert_int_equal(c.out.size, 0); /* no turn ran */
  assert_int_not_equal(stat(data, &found), 0);
  command_free(&c);
}

#define GOOD "{\"session\": \"s\", \"turn\": \"1\", \"user\": \"a\"}\n"

TEST(wrong_lines_are_refused_with_line_and_column) {
  static const wrong wrongs[] = {
      {GOOD "{\"session\": \"s\", \"user\": }\n", ":2:26: "},
      {GOOD GOOD, ":2: session s has a turn 1 already, in line 1"},
      {GOOD "\n" GOOD, ":3: session s has a turn 1 already, in line 1"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"typo\": 1}\n", ":2: a turn has no key \"typo\""},
      {GOOD "{\"session\": \"s\", \"turn\": 2, \"user\": \"a\"}\n", ":2: turn must be text"},
      {GOOD "{\"user\": \"a\"}\n", ":2: a turn needs the key session"},
      {GOOD "{\"session\": \"s\"}\n", ":2: a turn needs the key user"},
      {GOOD "[]\n", ":2: a turn must be a map"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"user\": \"b\"}\n", ":2:"},
      {GOOD "{\"session\": \"s\", \"user\": \"\\ud800\"}\n", ":2:"},
      {GOOD GOOD "{\"session\"", ":3:"},
      {"{\"session\": \"s t\", \"user\": \"a\"}\n", ":1: the session's id must have"},
      {"{\"session\": \"s\\u00a0t\", \"user\": \"a\"}\n", ":1: the session's id must have"},
      {"{\"session\": \"\", \"user\": \"a\"}\n", ":1: the session's id must have"},
      {"{\"session\": \"s\", \"turn\": \"a\\nb\", \"user\": \"a\"}\n", ":1: the turn's id must have"},
      {GOOD "{\"session\": \"s\", \"workspace\": \"w\", \"user\": \"a\"}\n", ":2: session s is in two workspaces"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"said\": 1683554160}\n", ":2: said must be text"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"said\": \"yesterday\"}\n", ":2: said must be a date such as"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"said\": \"\"}\n", ":2: said must be a date such as"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"said\": \"2023-02-29\"}\n", ":2: said must be a date such as"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"said\": \"2023-13-01\"}\n", ":2: said must be a date such as"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"said\": \"2023-05-08T24:00\"}\n", ":2: said must be a date such"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"said\": \"2023-05-08x\"}\n", ":2: said must be a date such as"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"said\": \"1970-01-20\"}\n", ":2: said must be after 1973-03-03"},
      {GOOD "{\"session\": \"s\", \"user\": \"a\", \"said\": \"9999-05-08\"}\n", ":2: said is in the future"},
      {"\n \n", ": there is no turn in it"},
      {"", ": there is no turn in it"}};
  for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++)
    is_refused("wrong.jsonl", wrongs[i].text, strlen(wrongs[i].text), wrongs[i].complaint);
}

TEST(wrong_yaml_is_refused_with_line_or_id) {
  static const wrong wrongs[] = {
      {"sessions: [\n", ":2:"},
      {"sessions: [*a]\n", ":1:12:"},
      {"sessions: 3\n", ": sessions must be a list"},
      {"sesions: []\n", ": a conversation has no key \"sesions\""},
      {"- a\n", ": a conversation must be a map"},
      {"sessions: []\n", ": there is no turn in it"},
      {"sessions: [{id: a, turns: []}]\n", ": there is no turn in it"},
      {"sessions: [{id: 3, turns: []}]\n", ": session 1: id must be text: put it into quotes"},
      {"sessions: [{turns: []}]\n", ": session 1: a session needs the key id"},
      {"sessions: [{id: a}]\n", ": session 1: a session needs the key turns"},
      {"sessions: [{id: a, turns: [{user: x}, 3]}]\n", ": session a, turn 2: a turn must be a map"},
      {"sessions: [{id: a, turns: [{usr: x}]}]\n", ": session a, turn 1: a turn has no key \"usr\""},
      {"sessions: [{id: a, turns: [{id: x}]}]\n", ": session a, turn 1: a turn needs the key user"},
      {"sessions: [{id: a, turns: [{id: x, user: x}, {id: x, user: y}]}]\n", ": session a has two turns x"},
      {"sessions: [{id: a, id: b, turns: []}]\n", ":1:"}};
  for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++)
    is_refused("wrong.yaml", wrongs[i].text, strlen(wrongs[i].text), wrongs[i].complaint);
}

TEST(bytes_that_are_not_utf8_are_refused_with_line_and_column) {
  static const wrong wrongs[] = {
      {GOOD "{\"session\": \"s\", \"user\": \"\xC3\xA9\xFF\"}\n", ":2:28: the byte 0xFF is not UTF-8"},
      {"\xC3", ":1:1: the byte 0xC3"},
      {GOOD "\xED\xA0\x80", ":2:1: the byte 0xED"}};
  for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
    is_refused("wrong.jsonl", wrongs[i].text, strlen(wrongs[i].text), wrongs[i].complaint);
    is_refused("wrong.yaml", wrongs[i].text, strlen(wrongs[i].text), wrongs[i].complaint);
  }
}

TEST(standard_input_is_checked_whole_before_the_first_turn) {
  command c = {.arguments = {"run", "--script", scratch_string("model.yaml", script), "-"}, .input = GOOD GOOD};
  assert_status(&c, 78);
  assert_holds(&c.err, "turnphase: standard input:2: session s has a turn 1 already");
  assert_int_equal(c.out.size, 0);
  command_free(&c);
}

TEST(more_than_64_mib_are_refused) {
  size_t size = 64 * 1024 * 1024 + 1;
  char *text = malloc(size);
  assert_non_null(text);
  memset(text, '\n', size);
  command c = {
      .arguments = {"run", "--script", scratch_string("model.yaml", script)}, .input = text, .input_size = size};
  assert_status(&c, 78);
  assert_holds(&c.err, "larger than 64 MiB");
  command_free(&c);
  free(text);
}

TEST(files_that_are_not_there_are_named) {
  const char *model = scratch_string("model.yaml", script), *talk = scratch_string("talk.jsonl", GOOD);
  command conversation = {.arguments = {"run", "--script", model, scratch_path("none.jsonl")}};
  command directory = {.arguments = {"run", "--script", model, scratch}};
  command no_model = {.arguments = {"run", "--script", scratch_path("none.yaml"), talk}};
  assert_status(&conversation, 74);
  assert_holds(&conversation.err, "none.jsonl: No such file or directory");
  assert_status(&directory, 74);
  assert_holds(&directory.err, "Is a directory");
  assert_status(&no_model, 74);
  assert_holds(&no_model.err, "none.yaml: No such file or directory");
  command_free(&conversation);
  command_free(&directory);
  command_free(&no_model);
}

TEST(a_script_that_is_no_script_is_refused_with_its_place) {
  static const wrong wrongs[] = {{"responses: [\n", ":2:"},
                                 {"responses:\n  - txt: a\n", ":2:5:"},
                                 {"responses:\n  - text: a\n    tool_calls: [{id: a}]\n", ":3:"},
                                 {"responses:\n  - text: \"\xFF\"\n", ":2:12: the byte 0xFF"},
                                 {"hello\n", ":1:1:"}};
  const char *talk = scratch_string("talk.jsonl", GOOD);
  for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
    char expected[512];
    const char *model = scratch_string("wrong.yaml", wrongs[i].text);
    command c = {.arguments = {"run", "--script", model, talk}};
    snprintf(expected, sizeof expected, "turnphase: %s%s", model, wrongs[i].complaint);
    assert_status(&c, 78);
    assert_holds(&c.err, expected);
    assert_int_equal(c.out.size, 0);
    command_free(&c);
  }
}
