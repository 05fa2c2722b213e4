/* SPDX-License-Identifier: Apache-2.0
 *
 * The basics of the command: help, exit statuses, plans and phases, colours, and outputs that cannot be written. */
#include <sys/wait.h>

#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

static const char script[] = "repeat: true\nresponses:\n  - text: I see.\n";
static const char talk[] = "sessions:\n  - id: a\n    turns:\n      - {id: a1, user: hello}\n";

/* ---- help and usage ---- */

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(help_begins_with_examples) {
  static const char *const words[][3] = {{"--help"},           {"-h"},
                                         {"run", "--help"},    {"plan", "-h"},
                                         {"phases", "--help"}, {"exit-status", "--help"},
                                         {"bench", "--help"},  {"hooks", "--help"}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    command c = {.arguments = {words[i][0], words[i][1]}};
    assert_status(&c, 0);
    assert_int_equal(strncmp(c.out.data, "Examples:\n", 10), 0);
    assert_holds(&c.out, "Usage: turnphase");
    assert_int_equal(c.err.size, 0);
    command_free(&c);
  }
}

TEST(version_is_printed) {
  static const char *const words[] = {"--version", "-V"};
  for (size_t i = 0; i < 2; i++) {
    command c = {.arguments = {words[i]}};
    assert_status(&c, 0);
    assert_int_equal(strncmp(c.out.data, "turnphase 0.", 12), 0);
    command_free(&c);
  }
}

TEST(help_of_a_command_is_its_own) {
  command own = {.arguments = {"jobs", "--help"}}, asked = {.arguments = {"help", "jobs"}};
  assert_status(&own, 0);
  assert_status(&asked, 0);
  assert_true(own.out.size == asked.out.size && memcmp(own.out.data, asked.out.data, own.out.size) == 0);
  command_free(&own);
  command_free(&asked);
}

/* An option of several commands has, in the help of each command, the meaning that it has there. */
TEST(help_of_an_option_is_that_of_its_command) {
  static const struct {
    const char *command, *has, *lacks;
  } rows[] = {
      {"plot", "of this session only", "order key"},
      {"jobs", "of this order key only", "of this session only"},
      {"bench", "whole turns in place of bare ones", "played in order"},
      {"run", "a script of responses, played in order", "bare"},
      {"memory", "search 10, and no more than 1000", "below this id, the last of the page before; to erase"},
      {"forget", "turns of which nothing is newer", "memory list"},
      {"store", "prune: what is older", "sessions"},
      {"explain", "for programs: JSON\n", "JSON Lines"},
      {"runs", "for programs: JSON Lines", "jobs without it"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    command c = {.arguments = {rows[i].command, "--help"}};
    assert_status(&c, 0);
    assert_holds(&c.out, rows[i].has);
    if (strstr(c.out.data, rows[i].lacks)) fail_msg("%s: %s", rows[i].command, rows[i].lacks);
    command_free(&c);
  }
}

/* A closed descriptor does not become that of a store or an event loop: nothing waits for it, and nothing is written to
 * it. */
TEST(closed_descriptors_are_no_input_and_no_output) {
  static const struct {
    const char *line;
    int status;
  } rows[] = {{"\"$TURNPHASE\" phases <&- >&-", 74},
              {"\"$TURNPHASE\" phases <&- 2>&- >/dev/null", 0},
              {"\"$TURNPHASE\" run --model script:/no/file <&- 2>/dev/null", 78},
              {"\"$TURNPHASE\" phases --nope <&- 2>&- >/dev/null", 2}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int status = system(rows[i].line);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != rows[i].status) fail_msg("%s: %x", rows[i].line, status);
  }
}

/* A byte that begins no character hides nothing of what follows it. */
TEST(escapes_after_broken_characters_are_shown) {
  command c = {.arguments = {"m\xff\x1b[31m\xe2\x1b[32m"}};
  assert_status(&c, 2);
  assert_holds(&c.err, "'m\xff<U+001B>[31m\xe2<U+001B>[32m'");
  command_free(&c);
}

/* Each action of each command is also known to the code that runs it: it reports the operands that it needs. */
TEST(actions_are_known_and_want_their_operands) {
  static const char *const commands[] = {"hooks", "tool", "mcp", "sessions", "jobs", "ask", "store", "memory"};
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    command none = {.arguments = {commands[i]}};
    assert_status(&none, 2);
    assert_holds(&none.err, " needs an action: ");
    char actions[200], *rest = NULL;
    const char *list = strstr(none.err.data, "action: ") + strlen("action: ");
    snprintf(actions, sizeof actions, "%.*s", (int)strcspn(list, "\n"), list);
    for (char *name = strtok_r(actions, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
      if (strcmp(name, "or") == 0 || strcmp(name, "serve") == 0) continue; /* serve would serve */
      command c = {.arguments = {commands[i], name, "a", "b", "c", "d", "e"}};
      if (strcmp(commands[i], "hooks") == 0 && strcmp(name, "import") == 0) c.arguments[2] = NULL;
      assert_status(&c, 2);
      assert_holds(&c.err, commands[i]);
      assert_false(holds(&c.err, "has no action"));
      command_free(&c);
    }
    command_free(&none);
  }
}

TEST(exit_statuses_are_listed) {
  static const char *const numbers[] = {"\n   1  ", "\n   2  ", "\n  69  ", "\n  70  ", "\n  74  ",
                                        "\n  75  ", "\n  78  ", "\n 124  ", "\n 130  "};
  command c = {.arguments = {"exit-status"}};
  assert_status(&c, 0);
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) assert_holds(&c.out, numbers[i]);
  command_free(&c);
}

TEST(option_without_its_argument_does_not_take_the_next_option_for_it) {
  command c = {.arguments = {"run", "--model", "openai:m", "--key-env", "--base-url", "http://localhost:1"}};
  assert_status(&c, 2);
  assert_holds(&c.err, "'--key-env' needs an argument, and has the option --base-url");
  command_free(&c);
  c = (command){.arguments = {"run", "--model", "openai:m", "--tenant=--odd", "missing.yaml"}};
  assert_status(&c, 74); /* with one line it is one */
  assert_holds(&c.err, "missing.yaml");
  command_free(&c);
}

TEST(wrong_words_are_a_usage_error_on_standard_error) {
  static const char *const words[][6] = {{NULL},
                                         {"bogus"},
                                         {"--bogus"},
                                         {"run"},
                                         {"run", "--script"},
                                         {"run", "-x"},
                                         {"run", "--bogus=1"},
                                         {"run", "--json=3"},
                                         {"run", "--color", "blue"},
                                         {"run", "--script", "m", "--tenant", "a b"},
                                         {"run", "a", "b"},
                                         {"plan", "no.such.phase"},
                                         {"plan", "--json", "--dot"},
                                         {"plan", "--data", "d"},
                                         {"plan", "a", "b"},
                                         {"phases", "x"},
                                         {"phases", "--turns", "3"},
                                         {"bench", "x"},
                                         {"bench", "--turns", "0"},
                                         {"bench", "--turns", "-3"},
                                         {"bench", "--turns", "3x"},
                                         {"bench", "--turns", ""},
                                         {"bench", "--turns", "99999999999999999999"},
                                         {"bench", "--warm-up", "10000001"},
                                         {"bench", "--concurrency", "0"},
                                         {"bench", "--workers", "1025"},
                                         {"bench", "--timestamps", "fast"},
                                         {"bench", "--histogram", "none"},
                                         {"bench", "--histogram"},
                                         {"bench", "--phase", "no.such.phase"},
                                         {"bench", "--dot"},
                                         {"hooks"},
                                         {"hooks", "destroy", "d"},
                                         {"hooks", "list"},
                                         {"hooks", "list", "a", "b"},
                                         {"hooks", "list", "d", "--payload", "p"},
                                         {"hooks", "check", "d", "--language", "sh"},
                                         {"hooks", "run", "d"},
                                         {"hooks", "new", "guard", "a", "d", "e"},
                                         {"hooks", "new", "magic", "a", "d"},
                                         {"hooks", "new", "guard", "a/b", "d"},
                                         {"hooks", "new", "guard", "a", "d'e"},
                                         {"hooks", "new", "guard", "--language=c"},
                                         {"hooks", "--data", "d"},
                                         {"exit-status", "x"},
                                         {"--version", "x"},
                                         {"help", "run", "x"},
                                         {"help", "--json", "x"},
                                         {"help", "--jso"},
                                         {"help", "bogus"}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    command c = {.arguments = {NULL}};
    for (int j = 0; j < 6; j++) c.arguments[j] = words[i][j];
    assert_status(&c, 2);
    assert_int_equal(c.out.size, 0);
    assert_int_equal(strncmp(c.err.data, "turnphase: ", 11), 0);
    command_free(&c);
  }
}

TEST(words_that_are_nearly_right_get_the_name_that_was_meant) {
  static const struct {
    const char *words[3], *said;
  } rows[] = {
      {{"pln"}, "there is no command 'pln'; did you mean 'plan'?"},
      {{"help", "pln"}, "there is no command 'pln'; did you mean 'plan'?"},
      {{"chatt"}, "did you mean 'chat'?"},
      {{"sess"}, "did you mean 'sessions'?"},
      {{"xyzzy"}, "there is no command 'xyzzy'\n"},
      {{"run", "--scritp"}, "run does not take '--scritp'; did you mean '--script'?"},
      {{"runs", "--statte=x"}, "runs does not take '--statte=x'; did you mean '--state'?"},
      {{"chat", "--temprature"}, "did you mean '--temperature'?"},
      {{"plan", "--state"}, "plan does not take '--state'\n"}, /* an option of another command */
      {{"jobs", "lst"},
       "jobs has no action 'lst'; did you mean 'list'? The actions are: list, show, redrive or discard"},
      {{"memory", "serach"}, "did you mean 'search'?"},
      {{"ask", "foo"}, "ask has no action 'foo'. The actions are: list or answer\n"},
      {{"--hlep"}, "there is no command '--hlep'; did you mean '--help'?"},
      {{"plan", "turn.intak"}, "there is no phase 'turn.intak'; did you mean 'turn.intake'?"},
      {{"bench", "--phase", "tool.prre"}, "there is no phase 'tool.prre'; did you mean 'tool.pre'?"},
      {{"run", "--script="}, "--script needs its MODEL.yaml, and got an empty text"},
      {{"plan", "--hooks", ""}, "--hooks needs its DIR, and got an empty text"},
      {{"mcp", ""}, "mcp has no action ''. The actions are: "},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    command c = {.arguments = {rows[i].words[0], rows[i].words[1], rows[i].words[2]}};
    assert_status(&c, 2);
    assert_holds(&c.err, rows[i].said);
    command_free(&c);
  }
}

TEST(a_script_in_the_place_of_a_conversation_is_recognized) {
  const char *model = scratch_string("model.yaml", script);
  command c = {.arguments = {"run", "--script", model, model}};
  assert_status(&c, 78);
  assert_holds(&c.err, "a script of a model has it, and is named by --script FILE");
  command_free(&c);
}

TEST(two_dashes_end_the_options) {
  command c = {.arguments = {"run", "--script", "m.yaml", "--", "--no-such-file"}};
  assert_status(&c, 74);
  assert_holds(&c.err, "--no-such-file: ");
  command_free(&c);
}

/* ---- plan and phases ---- */

static tp_text decode(const command *c, tp_writer **ret_writer) {
  tp_text value;
  tp_fault fault;
  assert_int_equal(tp_writer_new(NULL, ret_writer), TP_OK);
  assert_int_equal(tp_json_decode((tp_text){c->out.data, c->out.size}, *ret_writer, &fault), TP_OK);
  assert_int_equal(tp_writer_finish(*ret_writer, &value), TP_OK);
  return value;
}

TEST(plan_of_one_phase_has_its_handlers) {
  command c = {.arguments = {"plan", "turn.pre_prompt_context"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "memory.deterministic_recall");
  assert_false(holds(&c.out, "memory.tool_bundle"));
  command_free(&c);
}

TEST(plan_without_memory_is_empty) {
  command c = {.arguments = {"plan", "--no-memory", "--json"}};
  tp_writer *writer;
  assert_status(&c, 0);
  tp_text value = decode(&c, &writer);
  assert_int_equal(tp_value_kind_of(tp_value_get(value, "phases")), TP_VALUE_ARRAY);
  assert_int_equal(tp_value_count(tp_value_get(value, "phases")), 0);
  tp_writer_free(writer);
  command_free(&c);
}

TEST(plan_shows_a_loaded_library) {
  command c = {.arguments = {"plan", "--load", getenv("TURNPHASE_DEMO"), "--dot", "tool.pre"}};
  assert_status(&c, 0);
  assert_int_equal(strncmp(c.out.data, "digraph", 7), 0);
  assert_holds(&c.out, "trip.spending_limit");
  command_free(&c);
}

TEST(phases_are_28_with_their_subscriptions) {
  command c = {.arguments = {"phases", "--json"}}, table = {.arguments = {"phases"}};
  tp_writer *writer;
  size_t subscriptions = 0;
  assert_status(&c, 0);
  tp_text phases = tp_value_get(decode(&c, &writer), "phases");
  assert_int_equal(tp_value_count(phases), 28);
  for (tp_value_walk walk = {0}; tp_value_next(phases, &walk);)
    subscriptions += (size_t)tp_value_int(tp_value_get(walk.value, "subscriptions"), 0);
  assert_int_equal(subscriptions, 6); /* the memory's */
  assert_status(&table, 0);
  assert_holds(&table.out, "turn.pre_prompt_context");
  tp_writer_free(writer);
  command_free(&c);
  command_free(&table);
}

TEST(what_is_not_a_domain_is_not_loaded) {
  const char *text = scratch_string("text.so", "not a library");
  command missing = {.arguments = {"plan", "--load", "/no/such/library.so"}};
  command not_one = {.arguments = {"plan", "--load", text}};
  command other = {.arguments = {"plan", "--load", "libm.so.6"}}; /* a file here, never a name to search for */
  assert_status(&missing, 74);                                    /* as for any missing file */
  assert_holds(&missing.err, "/no/such/library.so");
  assert_status(&not_one, 78);
  assert_holds(&not_one.err, text);
  assert_status(&other, 74);
  assert_holds(&other.err, "./libm.so.6");
  command_free(&missing);
  command_free(&not_one);
  command_free(&other);
}

/* ---- outputs ---- */

TEST(a_full_disk_is_reported) {
  const char *model = scratch_string("model.yaml", script), *conversation = scratch_string("talk.yaml", talk);
  command phases = {.arguments = {"phases"}, .output_path = "/dev/full"};
  command run = {.arguments = {"run", "--script", model, conversation}, .output_path = "/dev/full"};
  assert_status(&phases, 74);
  assert_holds(&phases.err, "No space left on device");
  assert_status(&run, 74);
  assert_holds(&run.err, "No space left on device");
  command_free(&phases);
  command_free(&run);
}

TEST(a_reader_that_goes_away_is_no_error) {
  const char *model = scratch_string("model.yaml", script);
  bytes lines = {0};
  for (int i = 0; i < 2000; i++) bytes_string(&lines, "{\"session\": \"s\", \"user\": \"hello\"}\n");
  command c = {.arguments = {"run", "--script", model, "--json"}, .input = lines.data, .output_max = 1};
  assert_status(&c, 74);
  assert_int_equal(c.err.size, 0);
  command_free(&c);
  free(lines.data);
}

TEST(colours_only_where_they_are_wanted) {
  const char *model = scratch_string("model.yaml", script), *conversation = scratch_string("talk.yaml", talk);
  static const char *const when[] = {"auto", "never", "always"};
  for (int i = 0; i < 3; i++) {
    command c = {.arguments = {"run", "--script", model, "--color", when[i], conversation}};
    assert_status(&c, 0);
    assert_int_equal(holds(&c.out, "\033["), i == 2);
    command_free(&c);
  }
}

/* A message may have any bytes, and a terminal must not obey them. */
TEST(escapes_of_the_conversation_do_not_reach_the_terminal) {
  command c = {
      .arguments = {"run", "--script", scratch_string("model.yaml", script)},
      .input = "{\"session\": \"s\", \"user\": \"red \\u001b[31m bell \\u0007 csi \\u009b31m nul \\u0000 end\"}\n"};
  assert_status(&c, 0);
  assert_false(holds(&c.out, "\033"));
  assert_false(holds(&c.out, "\007"));
  assert_false(holds(&c.out, "\xC2\x9B"));
  assert_holds(&c.out, "end");
  command_free(&c);
}
