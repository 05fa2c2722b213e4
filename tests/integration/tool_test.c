/* SPDX-License-Identifier: Apache-2.0
 *
 * The command tool: the tools of a turn, and one call with its gates, for people and for a pipeline. */
#include <sys/stat.h>

#include "tests/support/test.h"
#include "tests/integration/support/command.h"

static const char *files(void) {
  static char path[512];
  scratch_string("note.txt", "line one\n");
  snprintf(path, sizeof path, "%s", scratch_path("."));
  return path;
}

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(tools_are_listed_for_people_and_programs) {
  command c = {.arguments = {"tool", "list", "--no-memory", "--files", files()}};
  assert_status(&c, 0);
  assert_holds(&c.out, "files_read");
  assert_holds(&c.out, "Read a text file");
  command_free(&c);
  c = (command){.arguments = {"tool", "list", "--no-memory", "--files", files(), "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "{\"tool\":\"files_list\",\"owner\":\"files\"");
  assert_holds(&c.out, "\"schema\":{\"type\":\"object\"");
  command_free(&c);
}

TEST(call_prints_what_the_tool_says) {
  command c = {.arguments = {"tool", "call", "files_read", "--files", files(), "--arguments", "-"},
               .input = "{\"path\": \"note.txt\"}"};
  assert_status(&c, 0);
  assert_holds(&c.out, "line one");
  command_free(&c);
  c = (command){.arguments = {"tool", "call", "files_read", "--files", files(), "-a", "{\"path\": \"note.txt\"}"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "line one");
  command_free(&c);
  c = (command){.arguments = {"tool", "call", "files_read", "--files", files(), "-a", "{\"path\""}};
  assert_status(&c, 78);
  assert_holds(&c.err, "the object of the command line:1:");
  command_free(&c);
  c = (command){.arguments = {"tool", "call", "files_read", "--files", files(), "-a", "-", "--json"},
                .input = "{\"path\": \"note.txt\"}"};
  assert_status(&c, 0);
  assert_holds(&c.out, "{\"tool\":\"files_read\",\"result\":\"ok\",\"started\":true");
  command_free(&c);
}

/* No person can be asked where there is no terminal. */
TEST(call_that_is_denied_ends_with_a_status_of_its_own) {
  command c = {.arguments = {"tool", "call", "files_write", "--files", files(), "-a", "-", "--caller", "ci"},
               .input = "{\"path\": \"new.txt\", \"text\": \"no\"}"};
  assert_status(&c, 77);
  assert_holds(&c.out, "blocked the action");
  assert_holds(&c.err, "files_write: denied");
  command_free(&c);
  c = (command){.arguments = {"tool", "call", "files_write", "--files", files(), "--files-writes", "allow", "-a", "-"},
                .input = "{\"path\": \"new.txt\", \"text\": \"yes\"}"};
  assert_status(&c, 0);
  command_free(&c);
}

TEST(what_cannot_be_called_is_distinguished_from_what_failed) {
  static const struct {
    const char *tool, *arguments;
    int status;
    const char *says;
  } cases[] = {{"missing", "{}", 78, "no tool of that name"},
               {"files_read", "{}", 78, "path"},
               {"files_read", "[1]", 78, "one JSON object"},
               {"files_read", "{", 78, "standard input:1:"},
               {"files_read", "{\"path\": \"not-there.txt\"}", 1, "not-there.txt"}};
  command usage = {.arguments = {"tool", "call", "files_read", "{\"path\": \"a.txt\"}", "--files", files()}};
  assert_status(&usage, 2);
  assert_holds(&usage.err, "--arguments");
  command_free(&usage);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    command c = {.arguments = {"tool", "call", cases[i].tool, "--files", files(), "-a", "-"},
                 .input = cases[i].arguments};
    assert_status(&c, cases[i].status);
    if (!strstr(c.out.data, cases[i].says) && !strstr(c.err.data, cases[i].says))
      fail_msg("`%s` is not in: %s%s", cases[i].says, c.out.data, c.err.data);
    command_free(&c);
  }
}

/* A directory with one declared tool, trusted. */
static const char *declared(const char *script) {
  static char path[512];
  char text[600];
  mkdir(scratch_path("hooks"), 0700);
  snprintf(path, sizeof path, "%s", scratch_path("hooks"));
  snprintf(text, sizeof text, "kind: tool\nname: count\ndescription: Counts.\ncommand: [sh, '%s/count.sh']\n", path);
  scratch_string("hooks/count.yaml", text);
  scratch_string("hooks/count.sh", script);
  command c = {.arguments = {"hooks", "trust", path}};
  assert_status(&c, 0);
  command_free(&c);
  return path;
}

TEST(declared_tool_is_listed_and_called) {
  setenv("XDG_CONFIG_HOME", scratch_path("."), 1);
  const char *hooks = declared("cat; exit 0");
  command c = {.arguments = {"tool", "list", "--no-memory", "--hooks", hooks}};
  assert_status(&c, 0);
  assert_holds(&c.out, "count");
  assert_holds(&c.out, "declared");
  command_free(&c);
  c = (command){.arguments = {"tool", "call", "count", "--hooks", hooks, "-a", "-"}, .input = "{\"n\": 1}"};
  assert_status(&c, 0);
  assert_holds(&c.out, "{\"n\":1}");
  command_free(&c);
  c = (command){.arguments = {"hooks", "list", hooks, "-v"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "tool /");
  command_free(&c);
  c = (command){.arguments = {"hooks", "run", hooks, "count"}};
  assert_status(&c, 2);
  assert_holds(&c.err, "turnphase tool call count --hooks");
  command_free(&c);
  scratch_string("hooks/count.sh", "echo changed");
  c = (command){.arguments = {"tool", "call", "count", "--hooks", hooks, "-a", "-"}, .input = "{}"};
  assert_status(&c, 78);
  assert_holds(&c.err, "has changed since it was trusted");
  command_free(&c);
  hooks = declared("echo no >&2; exit 4");
  c = (command){.arguments = {"tool", "call", "count", "--hooks", hooks, "-a", "-"}, .input = "{}"};
  assert_status(&c, 1);
  assert_holds(&c.out, "exited with code 4: no");
  command_free(&c);
}

/* The output of a program is bytes: a byte that is not UTF-8 does not affect the rest of the output. */
TEST(output_that_is_not_utf8_is_shown_and_diagnosed) {
  setenv("XDG_CONFIG_HOME", scratch_path("."), 1);
  const char *hooks = declared("printf 'caf\\351 au lait'");
  command c = {.arguments = {"tool", "call", "count", "--hooks", hooks, "-a", "-"}, .input = "{}"};
  assert_status(&c, 0);
  assert_string_equal(c.out.data, "caf\xEF\xBF\xBD au lait\n");
  assert_holds(&c.err, "tool `count`: 1 byte is not UTF-8 in its answer: U+FFFD stands for each");
  command_free(&c);
}

TEST(task_is_created_and_run_by_two_commands) {
  char data[512];
  snprintf(data, sizeof data, "%s", scratch_path("kept"));
  command c = {
      .arguments = {"tool", "create", "files_read", "--files", files(), "--data", data, "--key", "monday", "-a", "-"},
      .input = "{\"path\": \"note.txt\"}"};
  assert_status(&c, 0);
  assert_string_equal(c.out.data, "monday\n");
  command_free(&c);
  c = (command){.arguments = {"tool", "create", "files_read", "--files", files(), "--data", data, "--key", "monday"}};
  assert_status(&c, 78);
  assert_holds(&c.err, "there is a task monday");
  command_free(&c);
  c = (command){.arguments = {"tool", "run", "monday", "--files", files(), "--data", data, "--caller", "ci", "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "{\"task\":\"monday\",\"result\":\"ok\",\"started\":true");
  assert_holds(&c.out, "line one");
  command_free(&c);
  c = (command){.arguments = {"tool", "run", "monday", "--files", files(), "--data", data}};
  assert_status(&c, 78);
  assert_holds(&c.err, "there is no task monday");
  command_free(&c);
}

/* A declared tool, whose program kills the command that runs it. */
TEST(task_whose_command_died_is_not_run_again) {
  char data[512];
  setenv("XDG_CONFIG_HOME", scratch_path("."), 1);
  snprintf(data, sizeof data, "%s", scratch_path("died"));
  const char *hooks = declared("kill -KILL $PPID");
  command c = {.arguments = {"tool", "create", "count", "--hooks", hooks, "--data", data, "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "{\"tool\":\"count\",\"task\":\"task-");
  char key[128];
  const char *from = strstr(c.out.data, "task-");
  snprintf(key, sizeof key, "%.*s", (int)strcspn(from, "\""), from);
  command_free(&c);
  c = (command){.arguments = {"tool", "run", key, "--hooks", hooks, "--data", data}};
  assert_int_equal(command_run(&c), -1);
  command_free(&c);
  c = (command){.arguments = {"tool", "run", key, "--hooks", hooks, "--data", data}};
  assert_status(&c, 75);
  assert_holds(&c.err, "is being run, or was when its process died");
  command_free(&c);
}

TEST(wrong_words_are_refused) {
  const char *const wrong[][5] = {{"tool"},
                                  {"tool", "run"},
                                  {"tool", "run", "key"},
                                  {"tool", "create", "files_read"},
                                  {"tool", "list", "--key", "k"},
                                  {"tool", "call"},
                                  {"tool", "list", "files_read"},
                                  {"tool", "list", "--caller", "robot"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    command c = {.input = ""};
    for (size_t j = 0; j < 5; j++) c.arguments[j] = wrong[i][j];
    assert_status(&c, 2);
    command_free(&c);
  }
}

/* ---- servers of MCP ---- */

static const char *server(const char *words) {
  static char option[512];
  snprintf(option, sizeof option, "s=\"%s\" %s", getenv("TURNPHASE_MCP_SERVER"), words);
  return option;
}

TEST(servers_of_mcp_are_listed_and_called_like_tools) {
  command c = {.arguments = {"mcp", "list", "--no-memory", "--mcp", server("")}};
  assert_status(&c, 0);
  assert_holds(&c.out, "mcp__s__echo");
  assert_holds(&c.out, "Says a text.");
  command_free(&c);
  c = (command){.arguments = {"mcp", "call", "mcp__s__echo", "--no-memory", "--mcp", server(""), "-a", "-"},
                .input = "{\"text\": \"hello\"}"};
  assert_status(&c, 0);
  assert_holds(&c.out, "hello");
  command_free(&c);
  c = (command){.arguments = {"mcp", "list", "--no-memory", "--mcp", server("exit")}};
  assert_status(&c, 0);
  assert_holds(&c.err, "the server s is not there: it exited with code 5");
  command_free(&c);
}

/* The server gets the answer of the script, and the run of the handler that shapes the request is recorded. */
TEST(a_model_answers_what_a_server_wants) {
  static const char answers[] = "responses:\n  - text: Of the script.\n";
  char model[256];
  snprintf(model, sizeof model, "script:%s", scratch_string("sampled.yaml", answers));
  command c = {.arguments = {"mcp", "call", "mcp__s__echo", "--no-memory", "--mcp", server("samples=1"),
                             "--mcp-sampling", model},
               .input = ""};
  c.arguments[8] = "-a";
  c.arguments[9] = scratch_string("sampled.json", "{\"text\": \"x\"}");
  assert_status(&c, 0);
  assert_holds(&c.out, "'text':'Of the script.'");
  command_free(&c);
}

TEST(what_cannot_be_a_server_is_refused_with_its_remedy) {
  static const struct {
    const char *arguments[4];
    int status;
    const char *says;
  } cases[] = {{{"mcp", "list"}, 2, "name servers by --mcp"},
               {{"mcp", "serve-all"}, 2, "list, call"},
               {{"mcp", "pin", "--mcp", "a=b"}, 2, "name one server"},
               {{"mcp", "list", "--mcp", "nothing"}, 2, "NAME=COMMAND"},
               {{"mcp", "list", "--mcp", "a=\"b"}, 2, "each quote an end"},
               {{"mcp", "list", "--mcp", "a__b=c"}, 78, "1 to 32 letters"},
               {{"mcp", "list", "--mcp", "a="}, 78, "exactly one"},
               {{"mcp", "list", "--mcp-config", "/nowhere.json"}, 74, "/nowhere.json"},
               {{"plan", "--mcp-defer", "5"}, 2, "--mcp-defer is for the tools of --mcp"},
               {{"plan", "--mcp-defer", "0"}, 2, "1"},
               {{"tool", "list", "--mcp-sampling", "script:x"}, 2, "--mcp-sampling is for the servers of --mcp"},
               {{"tool", "list", "--mcp=a=b", "--mcp-sampling=client"}, 2, "client is for mcp serve"},
               {{"tool", "list", "--mcp=a=b", "--mcp-sampling=x"}, 2, "--mcp-sampling is openai:NAME"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    command c = {0};
    for (size_t w = 0; w < 4; w++) c.arguments[w] = cases[i].arguments[w];
    command_run(&c);
    if (c.status != cases[i].status || !strstr(c.err.data, cases[i].says))
      fail_msg("%zu: %d: %s", i, c.status, c.err.data);
    command_free(&c);
  }
}

/* Settings of another host, as in its guide: the matcher is a pattern of the tool's name. */
TEST(hooks_of_other_hosts_guard_the_tools_of_servers) {
  static const char settings[] =
      "{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"mcp__s__.*\", \"hooks\": [{\"type\": \"command\", \"command\": "
      "\"jq -e '.tool_name == \\\"mcp__s__fail\\\"' >/dev/null || exit 0; echo 'Not this one.' >&2; exit 2\"}]}]}}";
  char directory[512];
  scratch_string("settings.json", settings);
  snprintf(directory, sizeof directory, "%s", scratch_path("imported"));
  command c = {.arguments = {"hooks", "import", scratch_path("settings.json"), "--write", directory}};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"hooks", "trust", directory}};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"mcp", "call", "mcp__s__fail", "--no-memory", "--mcp", server(""), "--hooks", directory}};
  assert_status(&c, 77);
  assert_holds(&c.out, "Not this one.");
  command_free(&c);
  c = (command){
      .arguments = {"mcp", "call", "mcp__s__value", "--no-memory", "--mcp", server(""), "--hooks", directory}};
  assert_status(&c, 0);
  assert_holds(&c.out, "rain_mm");
  command_free(&c);
  c = (command){.arguments = {"mcp", "check", "s", "--no-memory", "--mcp", server(""), "--hooks", directory}};
  assert_status(&c, 0);
  assert_holds(&c.out, "deny   mcp__s__fail");
  assert_holds(&c.out, "allow  mcp__s__value");
  assert_holds(&c.out, "\neach was asked about without arguments: a guard that reads them may decide otherwise\n");
  assert_holds(&c.out, "Not this one.");
  command_free(&c);
}

TEST(a_profile_names_servers_with_options) {
  char good[1024], conversation[2048];
  snprintf(
      good, sizeof good,
      "mcp_defer: 1\nmcp:\n  s:\n    command: %s\n    args: []\n    allow: [echo, value]\n    call_limit_ms: 5000\n",
      getenv("TURNPHASE_MCP_SERVER"));
  command c = {.arguments = {"mcp", "list", "--no-memory", "--mcp-config", scratch_string("p.yaml", good)}};
  assert_status(&c, 0);
  assert_holds(&c.out, "mcp__s__echo");
  assert_null(strstr(c.out.data, "mcp__s__fail"));
  assert_null(strstr(c.out.data, "mcp_search"));
  assert_holds(&c.err, "mcp_defer has no effect here");
  command_free(&c);
  c = (command){.arguments = {"plan", "--no-memory", "--mcp-config", scratch_path("p.yaml")}};
  assert_status(&c, 0);
  assert_holds(&c.out, "mcp-defer.request");
  assert_string_equal(c.err.data ? c.err.data : "", "");
  command_free(&c);
  /* the conversation itself */
  static const char finds[] =
      "responses:\n"
      "  - tool_calls: [{name: mcp_search, arguments: {query: echo}}]\n"
      "  - tool_calls: [{name: mcp__s__echo, arguments: {text: heard}}]\n"
      "  - text: Done.\n";
  snprintf(conversation, sizeof conversation, "%ssessions:\n  - {id: a, turns: [{user: Go.}]}\n", good);
  c = (command){.arguments = {"run", "--no-memory", "--script", scratch_string("finds.yaml", finds),
                              scratch_string("talk.yaml", conversation)}};
  assert_status(&c, 0);
  assert_holds(&c.out, "heard");
  command_free(&c);
  c = (command){.arguments = {"run", "--no-memory", "--script", scratch_string("finds.yaml", finds)},
                .input = conversation};
  assert_status(&c, 78);
  assert_holds(&c.err, "mcp is read from a file: name it");
  command_free(&c);
}

TEST(a_profile_that_is_wrong_says_where) {
  static const struct {
    const char *yaml;
    int status;
    const char *says;
  } cases[] = {
      {"mcp: {s: {command: x}}\nmcp: {}\n", 78, "p.yaml:2:1: "},
      {"mcp:\n  s: {command: x\n", 78, "p.yaml:3:1: "},
      {"- mcp\n", 78, "p.yaml: a profile is a map"},
      {"{}\n", 78, "p.yaml: mcp is a map of servers"},
      {"\nmcp: [a]\n", 78, "p.yaml:2:1: mcp is a map of servers"},
      {"mcp: {}\n", 78, "p.yaml:1:1: mcp is a map of servers"},
      {"mcp: {s: {command: x}}\nservers: {}\n", 78, "p.yaml:2:1: a profile has no key \"servers\", only mcp"},
      {"mcp: {s: {command: x}}\nmcp_defer: many\n", 78, "p.yaml:2:1: mcp_defer is a number of tools"},
      {"mcp: {s: {command: x}}\nmcp_defer: 0\n", 78, "p.yaml:2:1: mcp_defer is a number of tools"},
      {"mcp:\n  s:\n    command: x\n    alow: [a]\n", 78, "p.yaml:4:5: a server has no member \"alow\""},
      {"mcp:\n  s:\n    command: x\n    env: {PORT: 80}\n", 78, "p.yaml:4:5: env of the server s"},
      {"mcp:\n  s:\n    command: x\n    deny: none\n", 78, "p.yaml:4:5: deny of the server s"},
      {"mcp:\n  s:\n    args: [x]\n", 78, "p.yaml:2:3: the server s has neither"},
      {"mcp:\n  t: {command: y}\n  a.b: {command: x}\n", 78, "p.yaml:3:3: the name of an MCP server"},
      {"mcp:\n  s: npx\n", 78, "p.yaml:2:3: the server s is not an object"},
      {"mcp:\n  s:\n    command: ${MCP_NOT_SET}\n", 78, "p.yaml:3:5: command of the server s needs"},
      {"mcp:\n  s:\n    command: x\n    url: 'http://a'\n", 78, "p.yaml:2:3: an MCP server has a program"},
      {"mcp:\n  s:\n    command: x\n    start_limit_ms: 300001\n", 78, "p.yaml:2:3: start_limit_ms is at most"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    command c = {.arguments = {"mcp", "list", "--no-memory", "--mcp-config", scratch_string("p.yaml", cases[i].yaml)}};
    command_run(&c);
    if (c.status != cases[i].status || !strstr(c.err.data, cases[i].says))
      fail_msg("%zu: %d: %s", i, c.status, c.err.data);
    command_free(&c);
  }
}

TEST(tools_of_servers_are_found_first) {
  static const char finds[] =
      "responses:\n"
      "  - tool_calls: [{name: mcp__s__echo, arguments: {text: early}}]\n"
      "  - tool_calls: [{name: mcp_search, arguments: {query: what rain fell}}, {name: mcp_search, arguments: {query: "
      "zz}}]\n"
      "  - tool_calls: [{name: mcp__s__echo, arguments: {text: in time}}]\n"
      "  - text: Done.\n";
  command c = {.arguments = {"run", "--no-memory", "--script", scratch_string("finds.yaml", finds), "--mcp", server(""),
                             "--mcp-defer", "3"},
               .input = "{\"session\": \"s\", \"turn\": \"1\", \"user\": \"Go.\"}\n"};
  assert_status(&c, 0);
  assert_holds(&c.out, "it is not among the tools of the request");
  assert_holds(&c.out, "None of the 9 tools of servers has one of these words");
  assert_holds(&c.out, "in time");
  command_free(&c);
}

TEST(a_tool_that_changed_is_denied_until_it_is_pinned_anew) {
  char data[512];
  snprintf(data, sizeof data, "%s", scratch_path("pinned"));
  command c = {.arguments = {"mcp", "list", "--no-memory", "--mcp", server(""), "--data", data}};
  assert_status(&c, 0);
  command_free(&c);
  const char *changed = server("described=Says");
  c = (command){.arguments = {"mcp", "call", "mcp__s__echo", "--no-memory", "--mcp", changed, "--data", data,
                              "--mcp-changed", "deny", "-a", "-"},
                .input = "{\"text\": \"no\"}"};
  assert_status(&c, 77);
  assert_holds(&c.out, "is not the one that was pinned");
  assert_holds(&c.err, "the tool echo of the server s is not the one that was pinned: it is denied");
  command_free(&c);
  c = (command){.arguments = {"mcp", "pin", "s", "--no-memory", "--mcp", changed, "--data", data}};
  assert_status(&c, 0);
  assert_holds(&c.out, "allow  mcp__s__echo");
  command_free(&c);
  c = (command){
      .arguments = {"mcp", "call", "mcp__s__echo", "--no-memory", "--mcp", changed, "--data", data, "-a", "-"},
      .input = "{\"text\": \"yes\"}"};
  assert_status(&c, 0);
  assert_holds(&c.out, "yes");
  command_free(&c);
}

/* ---- mcp serve ---- */

#define MCP_META                                                   \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"        \
  "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":" \
  "{}}"
#define MCP_CALL(id, tool, arguments)                                                         \
  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool \
  "\",\"arguments\":" arguments "," MCP_META "}}\n"

TEST(serve_has_the_protocol_on_standard_output_and_nothing_else) {
  command c = {.arguments = {"mcp", "serve", "--files", files(), "--data", scratch_path("served")},
               .input = MCP_CALL("1", "files_read", "{\"path\":\"note.txt\"}")
                   MCP_CALL("2", "files_write", "{\"path\":\"x\",\"text\":\"y\"}")};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"text\":\"line one");
  assert_holds(&c.out, "\"isError\":true");
  assert_holds(&c.out, "none can be asked");
  for (const char *line = c.out.data; *line; line = strchr(line, '\n') + 1) assert_int_equal(*line, '{');
  command_free(&c);
  c = (command){.arguments = {"audit", scratch_path("served"), "--action", "ask"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "files.write_guard");
  command_free(&c);
}

/* The gateway ends while a person is asked; another gateway with the same data goes on. */
TEST(serve_has_the_answer_to_what_an_ended_gateway_asked) {
  char data[512];
  snprintf(data, sizeof data, "%s", scratch_path("outlived"));
  const char *call = MCP_CALL("1", "files_write", "{\"path\":\"outlived.txt\",\"text\":\"y\"}");
  double begin_s = command_seconds();
  command c = {.arguments = {"mcp", "serve", "--files", files(), "--data", data, "--ask", "data", "--ask-wait", "1"},
               .input = call};
  assert_status(&c, 0);
  assert_holds(&c.out, "needs approval: ");
  command_free(&c);
  assert_true(command_seconds() - begin_s < 9); /* the end does not wait for the limit of ten seconds */
  c = (command){.arguments = {"ask", "answer", data, "1", "allow", "--by", "ann"}};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"mcp", "serve", "--files", files(), "--data", data, "--ask", "data"}, .input = call};
  assert_status(&c, 0);
  assert_holds(&c.out, "Wrote 1 bytes to outlived.txt.");
  command_free(&c);
}

TEST(serve_guards_the_tools_of_servers) {
  const char *settings =
      "{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"mcp__s__value\", \"hooks\": [{\"type\": \"command\", \"command\": "
      "\"echo 'Not this one.' >&2; exit 2\"}]}]}}";
  char directory[512];
  scratch_string("served.json", settings);
  snprintf(directory, sizeof directory, "%s", scratch_path("served-hooks"));
  command c = {.arguments = {"hooks", "import", scratch_path("served.json"), "--write", directory}};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"hooks", "trust", directory}};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"mcp", "serve", "--mcp", server(""), "--hooks", directory},
                .input = MCP_CALL("1", "s__value", "{}")};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"isError\":true");
  assert_holds(&c.out, "Not this one.");
  command_free(&c);
}

TEST(serve_does_not_start_with_what_is_wrong) {
  static const struct {
    const char *arguments[8];
    int status;
    const char *words;
  } rows[] = {
      {{"mcp", "serve", "more"}, 2, "no more words"},
      {{"mcp", "serve", "--http", "8808"}, 2, "ADDRESS:PORT"},
      {{"mcp", "serve", "--http", "127.0.0.1:99999"}, 2, "ADDRESS:PORT"},
      {{"mcp", "serve", "--http", "127.0.0.1:0", "--stdio"}, 2, "not both"},
      {{"mcp", "serve", "--keys", "/dev/null"}, 2, "--http"},
      {{"mcp", "serve", "--http", "127.0.0.1:0", "--keys", "/dev/null"}, 78, "no key"},
      {{"mcp", "serve", "--ask", "data"}, 2, "--data"},
      {{"mcp", "serve", "--expose", "all"}, 2, "memory or tasks"},
      {{"mcp", "serve", "--http", "0.0.0.0:0"}, 0, "0.0.0.0"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {0};
    memcpy(c.arguments, rows[i].arguments, sizeof rows[i].arguments);
    command_run(&c);
    assert_holds(&c.err, rows[i].words);
    assert_int_equal(c.out.size, 0);
    if (rows[i].status) assert_int_equal(c.status, rows[i].status);
    else assert_int_not_equal(c.status, 0);
    command_free(&c);
  }
  char keys[1025 * 18 + 1] = "", *at = keys;
  for (int i = 0; i < 1025; i++) at += sprintf(at, "%017d\n", i);
  command many = {.arguments = {"mcp", "serve", "--http", "127.0.0.1:0", "--keys", scratch_string("keys", keys)}};
  command_run(&many);
  assert_int_equal(many.status, 78);
  assert_holds(&many.err, "has more than 1024 keys");
  command_free(&many);
  mkdir(scratch_path("broken"), 0700);
  scratch_string("broken/guard.yaml", "id: [\n");
  char directory[512];
  snprintf(directory, sizeof directory, "%s", scratch_path("broken"));
  command c = {.arguments = {"mcp", "serve", "--files", files(), "--hooks", directory},
               .input = MCP_CALL("1", "files_read", "{\"path\":\"note.txt\"}")};
  command_run(&c);
  assert_int_not_equal(c.status, 0);
  assert_int_equal(c.out.size, 0); /* it never serves without its guards */
  command_free(&c);
}

TEST(serve_offers_skills_as_prompts) {
  char directory[512];
  mkdir(scratch_path("prompts"), 0700);
  scratch_string("prompts/review.md", "---\ndescription: Looks twice\n---\nRead it twice.\n");
  snprintf(directory, sizeof directory, "%s", scratch_path("prompts"));
  command c = {.arguments = {"mcp", "serve", "--skills", directory},
               .input =
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/list\",\"params\":{" MCP_META
                   "}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"prompts/get\",\"params\":{\"name\":\"review\","
                   "\"arguments\":{\"text\":\"the last\"}," MCP_META
                   "}}\n"
                   "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"prompts/get\",\"params\":{\"name\":\"../x\"," MCP_META
                   "}}\n"};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"name\":\"review\",\"description\":\"Looks twice\"");
  assert_holds(&c.out, "Read it twice.\\n\\nthe last");
  assert_holds(&c.out, "-32602");
  command_free(&c);
}
