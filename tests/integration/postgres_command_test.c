/* SPDX-License-Identifier: Apache-2.0
 *
 * The command with --data postgres://…: sessions and records are stored there and read from there. Commands that cannot
 * use a database refuse it by name. */
#include <pthread.h>
#include <sys/stat.h>

#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/support/postgres_server.h"

static const char script[] = "repeat: true\nresponses:\n  - text: I see.\n";
static const char turn[] = "{\"session\": \"one\", \"turn\": \"t1\", \"user\": \"My rabbit is called Amadeus.\"}\n";
static const char next_turn[] = "{\"session\": \"one\", \"turn\": \"t2\", \"user\": \"And mine is not.\"}\n";
static char uri[256];

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(sessions_and_records_are_kept_in_the_database_and_memory_is_said_not_to_be) {
  const struct {
    const char *input, *says;
  } runs[] = {{turn, "I see."}, {turn, "the history has this turn"}, {next_turn, "shown 3 messages"}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    command c = {.arguments = {"run", "--script", scratch_string("model.yaml", script), "--data", uri},
                 .input = runs[i].input};
    assert_status(&c, 0);
    assert_non_null(strstr(c.out.data, runs[i].says));
    assert_non_null(strstr(c.err.data, "keeps no memory"));
    command_free(&c);
  }
}

/* Other processes read the records of one process. */
TEST(records_of_a_turn_are_read_from_the_database) {
  const char *const model = scratch_string("model.yaml", script);
  const char *const input =
      "{\"session\": \"read\", \"turn\": \"read1\", \"user\": \"My rabbit is called Amadeus.\"}\n";
  const struct {
    const char *arguments[8], *says;
  } cases[] = {
      {{"run", "--script", model, "--data", uri, "--durability", "sync"}, "I see."},
      {{"runs", uri, "--session", "read"}, "turn.post_turn"},
      {{"runs", uri, "--turn", "read1"}, "turn.post_turn"},
      {{"plot", uri, "read1"}, "html"},
      {{"show", uri, "read1"}, "read1"},
      {{"explain", uri, "read1"}, "read1"},
      {{"time", uri, "read1"}, "read1"},
      {{"blame", uri, "read1"}, "read1"},
      {{"audit", uri}, "commit"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    command c = {.input = input};
    memcpy(c.arguments, cases[i].arguments, sizeof cases[i].arguments);
    (void)command_run(&c);
    if (c.status != 0 || !strstr(c.out.data, cases[i].says))
      fail_msg("%s: %d: %s%s", cases[i].arguments[0], c.status, c.out.data, c.err.data);
    command_free(&c);
  }
}

/* A host inserts a job; a worker, which is another process, runs it, and operators see its result. */
TEST(job_that_is_in_the_database_is_run_by_a_worker) {
  static const char sql[] =
      "WITH k AS (INSERT INTO turnphase.job_key (hash, id, batch) OVERRIDING SYSTEM VALUE VALUES ('x', 4711, 1)"
      " RETURNING id)"
      " INSERT INTO turnphase.job SELECT id, id, 1, 0, 0, 1, 0, 0, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'nobody', 'nobody',"
      " 'x', 'one', '', '', 'x', 1, 0, 0, 0 FROM k";
  const struct {
    const char *arguments[8], *says;
    int status;
  } cases[] = {{{"run", "--script", scratch_string("model.yaml", script), "--data", uri}, "", 0}, /* makes the schema */
               {{"jobs", "list", uri}, "", 0},
               {{"jobs", "list", uri}, "nobody", 0},
               {{"jobs", "show", uri, "4711"}, "nobody", 0},
               {{"jobs", "discard", uri, "4711"}, "", 0},
               {{"worker", uri, "--until-empty"}, "", 0},
               {{"jobs", "list", uri, "--state", "succeeded"}, "memory.post_turn_extractor", 0}, /* the job of the
                                                                                                    turn */
               {{"jobs", "list", uri, "--state", "discarded"}, "nobody", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    command c = {.input = turn};
    memcpy(c.arguments, cases[i].arguments, sizeof cases[i].arguments);
    (void)command_run(&c);
    if (c.status != cases[i].status || !strstr(c.out.data, cases[i].says))
      fail_msg("case %zu: %d: %s%s", i, c.status, c.out.data, c.err.data);
    command_free(&c);
    if (i != 1) continue;
    PGconn *connection = PQconnectdb(postgres_server.conninfo);
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) fail_msg("%s", PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
  }
}

static void assert_says(const char *const *arguments, size_t count, const char *input, int status, const char *says) {
  command c = {.input = input};
  memcpy(c.arguments, arguments, count * sizeof *arguments);
  (void)command_run(&c);
  if (c.status != status || !(strstr(c.out.data, says) || strstr(c.err.data, says)))
    fail_msg("%s %s: %d: %s%s", arguments[0], arguments[1], c.status, c.out.data, c.err.data);
  command_free(&c);
}
#define ASSERT_SAYS(input, status, says, ...)                                                                         \
  assert_says((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), input, \
              status, says)

/* A copy from a directory into a database, and from there into another directory: the counts are equal, and the copy
 * can be read. */
TEST(data_is_copied_into_a_database_and_back) {
  const char *const model = scratch_string("model.yaml", script);
  const char *const first = scratch_path("first"), *const second = scratch_path("second");
  char into[256];
  snprintf(into, sizeof into, "postgres://postgres@/copied?host=%s", postgres_server.directory);
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  PQclear(PQexec(connection, "CREATE DATABASE copied"));
  PQfinish(connection);
  ASSERT_SAYS(turn, 0, "I see.", "run", "--script", model, "--data", first);
  ASSERT_SAYS(next_turn, 0, "I see.", "run", "--script", model, "--data", first);
  ASSERT_SAYS(NULL, 0, "messages  4", "data", "copy", first, into);
  ASSERT_SAYS(NULL, 0, "turn.post_turn", "runs", into, "--turn", "t1");
  ASSERT_SAYS(NULL, 1, "is not empty", "data", "copy", first, into);
  ASSERT_SAYS(NULL, 0, "\"messages\":4", "data", "copy", into, second, "--json");
  ASSERT_SAYS(NULL, 0, "t2", "explain", second, "t2");
  ASSERT_SAYS(turn, 0, "the history has this turn", "run", "--script", model, "--data", second);
  ASSERT_SAYS(NULL, 1, "tasks of a database are not copied, and not counted", "data", "copy", into, second);
  ASSERT_SAYS(NULL, 2, "data copy FROM TO", "data", "copy", first);
  ASSERT_SAYS(NULL, 74, "cannot connect", "data", "copy", first, "postgres:///d?host=/nowhere");
  ASSERT_SAYS(NULL, 74, "No such file", "data", "copy", "/nowhere/at/all", into);
}

static void *run_command(void *c) {
  (void)command_run(c);
  return NULL;
}

static void await_question(char *number, size_t size) {
  for (number[0] = '\0'; !number[0]; usleep(10000)) {
    command list = {.arguments = {"ask", "list", uri, "--json"}};
    (void)command_run(&list);
    const char *at = list.status == 0 ? strstr(list.out.data, "\"number\":") : NULL;
    if (at) snprintf(number, size, "%llu", strtoull(at + strlen("\"number\":"), NULL, 10));
    command_free(&list);
  }
}

/* One process asks and waits; another one lists the question and answers it, once. */
TEST(question_that_is_in_the_database_is_answered_by_another_process) {
  static const char calls[] =
      "responses:\n  - tool_calls: [{id: a, name: files_write, arguments: {path: asked.txt, text: y}}]\n"
      "  - text: It is done.\n";
  static const char input[] = "{\"session\": \"asks\", \"turn\": \"asks1\", \"user\": \"Write it.\"}\n";
  char files[512], number[24];
  pthread_t thread;
  snprintf(files, sizeof files, "%s", scratch_path("files"));
  assert_int_equal(mkdir(files, 0700), 0);
  command run = {.arguments = {"run", "--script", scratch_string("calls.yaml", calls), "--data", uri, "--ask", "data",
                               "--files", files, "--files-writes", "ask"},
                 .input = input};
  assert_int_equal(pthread_create(&thread, NULL, run_command, &run), 0);
  await_question(number, sizeof number);
  ASSERT_SAYS(NULL, 0, "files_write", "ask", "list", uri);
  ASSERT_SAYS(NULL, 0, "", "ask", "answer", uri, number, "allow", "--by", "ann");
  assert_int_equal(pthread_join(thread, NULL), 0);
  if (run.status != 0 || !strstr(run.out.data, "It is done."))
    fail_msg("%d: %s%s", run.status, run.out.data, run.err.data);
  command_free(&run);
  assert_int_equal(access(scratch_path("files/asked.txt"), F_OK), 0);
  ASSERT_SAYS(NULL, 1, "was answered before", "ask", "answer", uri, number, "deny");
  ASSERT_SAYS(NULL, 0, "answered by ann", "ask", "list", uri, "--all");
}

TEST(sessions_of_the_database_are_listed_shown_forked_and_deleted) {
  static const char calls[] =
      "responses:\n  - tool_calls: [{id: a, name: files_list, arguments: {path: .}}]\n  - text: I see.\n";
  const char *const model = scratch_string("calls.yaml", calls), *const files = scratch_path("listed");
  const char *const forked = "{\"session\": \"forked\", \"turn\": \"of1\", \"user\": \"My rabbit is Amadeus.\"}\n";
  assert_int_equal(mkdir(files, 0700), 0);
  ASSERT_SAYS("{\"session\": \"kept\", \"turn\": \"of1\", \"user\": \"My rabbit is Amadeus.\"}\n", 0, "I see.", "run",
              "--script", model, "--data", uri, "--files", files);
  ASSERT_SAYS("{\"session\": \"kept\", \"turn\": \"of2\", \"user\": \"And mine.\"}\n", 0, "I see.", "run", "--script",
              scratch_string("model.yaml", script), "--data", uri);
  ASSERT_SAYS(NULL, 0, "kept  6 messages, 2 turns, 2 jobs, 0 questions, 0 tasks", "sessions", "list", uri);
  ASSERT_SAYS(NULL, 0, "\"session\":\"kept\",\"messages\":6", "sessions", "list", uri, "--json");
  ASSERT_SAYS(NULL, 0, "assistant calls files_list", "sessions", "show", uri, "kept");
  ASSERT_SAYS(NULL, 0, "\nturn of2\n", "sessions", "show", uri, "kept");
  ASSERT_SAYS(NULL, 0, "{\"kind\":\"tool_call\",\"row\":{\"turn\":\"of1\",\"message\":1,", "sessions", "export", uri,
              "kept");
  ASSERT_SAYS(NULL, 0, "{\"kind\":\"run\",\"row\":{\"turn\":\"of2\",", "sessions", "export", uri, "kept");
  ASSERT_SAYS(NULL, 0, "forked has 4 messages of kept", "sessions", "fork", uri, "kept", "forked", "--turn", "of1");
  ASSERT_SAYS(forked, 0, "the history has this turn", "run", "--script", model, "--data", uri);
  ASSERT_SAYS(NULL, 1, "there is a session forked already", "sessions", "fork", uri, "kept", "forked");
  ASSERT_SAYS(NULL, 1, "session kept has no turn other", "sessions", "fork", uri, "kept", "new", "--turn", "other");
  ASSERT_SAYS(NULL, 0, "the server has copies until it vacuums", "sessions", "delete", uri, "kept", "--yes");
  ASSERT_SAYS(NULL, 1, "there is no session kept", "sessions", "show", uri, "kept");
  ASSERT_SAYS(NULL, 0, "assistant calls files_list", "sessions", "show", uri, "forked");
  ASSERT_SAYS(NULL, 0, "\"complete\":false", "sessions", "delete", uri, "forked", "--yes", "--json");
}

/* A task of the database is created by one process and run by another one, once; calls leave records. */
TEST(tools_are_called_and_tasks_are_kept_in_the_database) {
  const char *const files = scratch_path("tools"), *const model = scratch_string("model.yaml", script);
  assert_int_equal(mkdir(files, 0700), 0);
  scratch_string("tools/note.txt", "Amadeus");
  ASSERT_SAYS(turn, 0, "", "run", "--script", model, "--data", uri); /* makes the schema */
  ASSERT_SAYS(NULL, 0, "files_read", "tool", "list", "--files", files, "--data", uri);
  ASSERT_SAYS("{\"path\": \"note.txt\"}", 0, "Amadeus", "tool", "call", "files_read", "--files", files, "--data", uri,
              "-a", "-");
  ASSERT_SAYS("{\"path\": \"note.txt\"}", 0, "monday", "tool", "create", "files_read", "--files", files, "--data", uri,
              "--key", "monday", "-a", "-");
  ASSERT_SAYS(NULL, 0, "tool.pre", "runs", uri, "--limit", "0");
  ASSERT_SAYS(NULL, 0, "Amadeus", "tool", "run", "monday", "--files", files, "--data", uri);
  ASSERT_SAYS(NULL, 78, "there is no task monday", "tool", "run", "monday", "--files", files, "--data", uri);
  ASSERT_SAYS(NULL, 0, "a database keeps no memory", "tool", "list", "--files", files, "--data", uri);
}

/* A client of MCP calls a tool, whose question a person answers from another process. */
TEST(gateway_of_mcp_keeps_its_questions_in_the_database) {
  const char *const files = scratch_path("offered");
  static const char messages[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\","
      "\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n"
      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"files_write\","
      "\"arguments\":{\"path\":\"offered.txt\",\"text\":\"y\"}}}\n";
  char number[24];
  pthread_t thread;
  assert_int_equal(mkdir(files, 0700), 0);
  command serve = {.arguments = {"mcp", "serve", "--data", uri, "--ask", "data", "--ask-wait", "60", "--files", files,
                                 "--files-writes", "ask"},
                   .input = messages};
  assert_int_equal(pthread_create(&thread, NULL, run_command, &serve), 0);
  await_question(number, sizeof number);
  ASSERT_SAYS(NULL, 0, "", "ask", "answer", uri, number, "allow", "--by", "ann");
  assert_int_equal(pthread_join(thread, NULL), 0);
  if (serve.status != 0 || !strstr(serve.out.data, "\"id\":2") || strstr(serve.out.data, "isError\":true"))
    fail_msg("%d: %s%s", serve.status, serve.out.data, serve.err.data);
  assert_non_null(strstr(serve.err.data, "a database keeps no forms"));
  command_free(&serve);
  assert_int_equal(access(scratch_path("offered/offered.txt"), F_OK), 0);
}

TEST(what_cannot_use_a_database_is_refused_by_name) {
  const char *const model = scratch_string("model.yaml", script);
  const struct {
    const char *arguments[9], *says;
    int status;
  } cases[] = {
      {{"worker", "postgres:///d?host=/nowhere"}, "database `d` at /nowhere:5432: cannot connect", 74},
      {{"jobs", "list", "postgres://u:s3cr3t@h/d"}, "the name of the database has a password", 2},
      {{"jobs", "discard", uri, "4712"}, "there is no such job", 1},
      {{"store", "verify", uri}, "store is for the file of a data directory. For a database: `turnphase forget", 2},
      {{"memory", "list", uri}, "memory cannot use a database yet", 2},
      {{"ask", "answer", uri, "4713", "allow"}, "there is no question 4713", 1},
      {{"sessions", "list", "postgres://u:s3cr3t@h/d"}, "the name of the database has a password", 2},
      {{"sessions", "show", uri, "nobody"}, "there is no session nobody", 1},
      {{"sessions", "fork", uri, "nobody", "new"}, "there is no session nobody", 1},
      {{"sessions", "delete", uri}, "which sessions?", 2},
      {{"runs", "postgres://u:s3cr3t@h/d"}, "the name of the database has a password", 2},
      {{"runs", "postgres:///d?host=/nowhere"}, "database `d` at /nowhere:5432: cannot connect", 74},
      {{"tool", "list", "--data", "postgres:///d?host=/nowhere"}, "database `d` at /nowhere:5432: cannot connect", 74},
      {{"mcp", "serve", "--data", uri, "--expose", "memory"}, "--expose memory needs a data directory", 2},
      {{"mcp", "pin", "x", "--data", uri, "--mcp", "x=true"}, "pins are files", 2},
      {{"tool", "list", "--data", uri, "--mcp", "x=true", "--mcp-changed", "deny"}, "--mcp-changed needs pins", 2},
      {{"tool", "list", "--data", uri, "--mcp", "x=true"}, "a database keeps no pins of MCP servers", 0},
      {{"run", "--script", model, "--data", uri, "--history-age", "1d"}, "--history-age is for the history", 2},
      {{"run", "--script", model, "--data", "postgres://u:s3cr3t@h/d"}, "put it into ~/.pgpass", 2},
      {{"run", "--script", model, "--data", "postgres://h/d?user=u&password=s3cr3t"}, "put it into ~/.pgpass", 2},
      {{"chat", "--script", model, "--data", "postgres:///d?host=/nowhere"}, "database `d` at /nowhere:5432", 74},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    command c = {.input = turn};
    memcpy(c.arguments, cases[i].arguments, sizeof cases[i].arguments);
    (void)command_run(&c);
    if (c.status != cases[i].status || !strstr(c.err.data, cases[i].says))
      fail_msg("case %zu: %d: %s", i, c.status, c.err.data);
    assert_null(strstr(c.err.data, "s3cr3t"));
    command_free(&c);
  }
}

TEST_MAIN(count, arguments) {
  const char *lack = postgres_lack();
  if (lack) {
    printf("1..0 # SKIP %s\n", lack);
    return 0;
  }
  postgres_make();
  snprintf(uri, sizeof uri, "postgres://postgres@/postgres?host=%s", postgres_server.directory);
  int failed = test_main(count, arguments);
  postgres_remove();
  return failed;
}
