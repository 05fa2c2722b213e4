/* SPDX-License-Identifier: Apache-2.0
 *
 * The command with --data postgres://…: sessions and records are kept there and read from there, and what cannot use a
 * database is refused by name. */
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
    assert_non_null(strstr(c.err.data, "keeps no tasks and no memory"));
    command_free(&c);
  }
}

/* What one process recorded, others read. */
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

TEST(what_cannot_use_a_database_is_refused_by_name) {
  const char *const model = scratch_string("model.yaml", script);
  const struct {
    const char *arguments[8], *says;
    int status;
  } cases[] = {
      {{"worker", uri}, "worker cannot use a database yet", 2},
      {{"jobs", "list", uri}, "jobs cannot use a database yet", 2},
      {{"sessions", "list", uri}, "sessions cannot use a database yet", 2},
      {{"runs", "postgres://u:s3cr3t@h/d"}, "the name of the database has a password", 2},
      {{"runs", "postgres:///d?host=/nowhere"}, "database `d` at /nowhere:5432: cannot connect", 74},
      {{"tool", "list", "--data", "postgresql://h/d"}, "tool cannot use a database yet", 2},
      {{"run", "--script", model, "--data", uri, "--ask", "data"}, "--ask data needs --data DIR", 2},
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
