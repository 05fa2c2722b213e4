/* SPDX-License-Identifier: Apache-2.0
 *
 * The data that a run leaves in its data directory, and the commands that read it: runs, show, jobs, store. Also while
 * a process works on the directory, and with damaged files. */
#include <sqlite3.h>

#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

static const char script[] = "repeat: true\nresponses:\n  - text: I see.\n";
static const char said[] =
    "{\"session\": \"one\", \"turn\": \"t1\", \"user\": \"My rabbit is called Amadeus.\"}\n"
    "{\"session\": \"two\", \"turn\": \"t2\", \"user\": \"A secret word: xylophone.\"}\n";

static const char *play(const char *name) {
  const char *data = scratch_path(name);
  command c = {.arguments = {"run", "--script", scratch_string("model.yaml", script), "--data", data}, .input = said};
  assert_status(&c, 0);
  command_free(&c);
  return data;
}

static size_t lines_of(const bytes *b) {
  size_t count = 0;
  for (size_t i = 0; i < b->size; i++) count += b->data[i] == '\n';
  return count;
}

/* Counts the lines of JSON that a command prints. */
static size_t count_of(const char *const words[], const char *data, int status) {
  command c = {.status = 0};
  for (size_t n = 0; words[n]; n++) c.arguments[n] = strcmp(words[n], "DIR") == 0 ? data : words[n];
  assert_status(&c, status);
  size_t count = lines_of(&c.out);
  command_free(&c);
  return count;
}
#define COUNT_OF(data, status, ...) count_of((const char *const[]){__VA_ARGS__, NULL}, data, status)

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(audit_and_stats_tell_who_registered_denied_and_never_fired) {
  static const char guarded[] =
      "responses:\n  - tool_calls: [{name: memory_search, arguments: {query: a}}]\n  - text: done\n";
  const char *data = scratch_path("audited"), *hooks = scratch_path("audit-hooks");
  setenv("XDG_CONFIG_HOME", scratch_path("."), 1);
  assert_int_equal(mkdir(hooks, 0755), 0);
  scratch_string("audit-hooks/a.yaml",
                 "id: no_search\nevent_type: PreAbilityCall\nmatch: {ability_scope: memory_search}\n"
                 "handler: {kind: deny, reason: not here}\n");
  scratch_string("audit-hooks/b.yaml",
                 "id: unused\nevent_type: PreAbilityCall\nmatch: {ability_scope: other}\n"
                 "handler: {kind: deny, reason: never}\n");
  command c = {.arguments = {"hooks", "trust", hooks}};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){
      .arguments = {"run", "--script", scratch_string("guarded.yaml", guarded), "--hooks", hooks, "--data", data},
      .input = "{\"session\": \"s\", \"turn\": \"g1\", \"user\": \"go\"}\n"};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"audit", data, "--action", "denial"}};
  assert_status(&c, 0);
  assert_int_equal(lines_of(&c.out), 1);
  assert_holds(
      &c.out,
      "  denial        no_search                   tool.pre          g1                memory_search: not here\n");
  command_free(&c);
  c = (command){
      .arguments = {"audit", data, "--json", "--handler", "no_search", "--phase", "tool.pre", "--turn", "g1"}};
  assert_status(&c, 0);
  assert_holds(&c.out,
               "\"action\":\"denial\",\"owner\":\"declared\",\"status\":\"TP_ERR_DENIED\",\"hook\":\"no_search\","
               "\"phase\":\"tool.pre\",\"turn\":\"g1\"");
  command_free(&c);
  c = (command){.arguments = {"audit", data, "--action", "commit", "--handler", "declared"}};
  assert_status(&c, 0);
  assert_int_equal(lines_of(&c.out), 1);
  assert_holds(&c.out, ": +no_search in tool.pre, +unused in tool.pre\n");
  command_free(&c);
  assert_int_equal(COUNT_OF(data, 0, "audit", "DIR", "--json", "--action", "commit", "--handler", "unused"), 1);
  assert_int_equal(COUNT_OF(data, 0, "audit", "DIR", "--json", "--action", "commit", "--phase", "tool.pre"), 1);
  assert_int_equal(
      COUNT_OF(data, 0, "audit", "DIR", "--json", "--action", "commit", "--handler", "unused", "--phase", "tool.pre"),
      1);
  assert_int_equal(COUNT_OF(data, 0, "audit", "DIR", "--json", "--action", "commit", "--handler", "unuse"), 0);
  assert_int_equal(COUNT_OF(data, 0, "audit", "DIR", "--json", "--handler", "declared", "--phase", "tool.post"), 0);
  assert_int_equal(COUNT_OF(data, 0, "audit", "DIR", "--json", "--handler", "no_search", "--phase", "tool.pre"), 2);
  c = (command){.arguments = {"audit", data, "--handler", "unused"}};
  assert_status(&c, 0);
  assert_holds(&c.err, "may be left out: see all of them with --action commit");
  command_free(&c);
  assert_int_equal(COUNT_OF(data, 0, "audit", "DIR", "--json", "--turn", "other"), 0);
  assert_int_equal(COUNT_OF(data, 0, "audit", "DIR", "--json", "--since", "2999-01-01"), 0);
  assert_int_equal(COUNT_OF(data, 0, "audit", "DIR", "--json", "--limit", "1"), 1);
  assert_int_equal(COUNT_OF(data, 2, "audit", "DIR", "--phase", "nowhere"), 0);
  assert_int_equal(COUNT_OF(data, 2, "audit", "DIR", "--since", "tea"), 0);
  c = (command){.arguments = {"hooks", "stats", data}};
  assert_status(&c, 0);
  assert_holds(
      &c.out,
      "hook                         phase                calls  denials    fails        p50        p99  last fired\n");
  assert_holds(&c.out, "no_search                    tool.pre                 1        1        0 ");
  assert_holds(
      &c.out,
      "unused                       tool.pre                 0        0        0          -          -  never fired "
      "(skipped 1 times)\n");
  command_free(&c);
  c = (command){.arguments = {"hooks", "stats", data, "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out,
               "{\"hook\":\"no_search\",\"phase\":\"tool.pre\",\"owner\":\"declared\",\"calls\":1,\"skips\":0,"
               "\"denials\":1,\"asks\":0,\"failures\":0,");
  assert_holds(&c.out, "\"never_fired\":true,\"recorded\":true}");
  command_free(&c);
  assert_int_equal(COUNT_OF(data, 0, "hooks", "stats", "DIR", "--json", "--since", "2999-01-01"), 0);
  assert_int_equal(COUNT_OF(data, 2, "hooks", "stats", "DIR", "--since", "tea"), 0);
  assert_int_equal(COUNT_OF(hooks, 2, "hooks", "list", "DIR", "--since", "1d"), 0);
}

static void assert_trust_rows(const char *data, const char *filter, const char *value, size_t count,
                              const char *newest) {
  command c = {.arguments = {"audit", data, "--json", "--action", "trust", filter, value}};
  assert_status(&c, 0);
  if (lines_of(&c.out) != count) fail_msg("%zu rows, not %zu: %s", lines_of(&c.out), count, c.out.data);
  size_t size = count > 0 ? strcspn(c.out.data, "\n") : 0;
  if (count > 0 && !memmem(c.out.data, size, newest, strlen(newest))) fail_msg("no %s: %s", newest, c.out.data);
  command_free(&c);
}

TEST(audit_tells_which_trust_was_given_refused_and_lost_and_by_whom) {
  static const char once[] = "{\"session\": \"s\", \"turn\": \"g1\", \"user\": \"go\"}\n";
  const char *data = scratch_path("trusted"), *hooks = scratch_path("trust-hooks");
  const char *model = scratch_string("model.yaml", script);
  setenv("XDG_CONFIG_HOME", scratch_path("."), 1);
  assert_int_equal(mkdir(hooks, 0755), 0);
  scratch_string("trust-hooks/a.yaml", "id: guard\nevent_type: PreAbilityCall\nhandler: {command: [sh, guard.sh]}\n");
  scratch_string("trust-hooks/guard.sh", "exit 0\n");
  command play_it = {.arguments = {"run", "--script", model, "--hooks", hooks, "--data", data}, .input = once};
  command c = play_it;
  assert_status(&c, 78); /* nothing was trusted, and no turn began */
  command_free(&c);
  assert_trust_rows(data, NULL, NULL, 1, "\"detail\":\"refused: content ");
  c = (command){.arguments = {"hooks", "trust", hooks}};
  assert_status(&c, 0);
  command_free(&c);
  c = play_it;
  assert_status(&c, 0);
  command_free(&c);
  assert_trust_rows(data, NULL, NULL, 2, "\"detail\":\"given: content ");
  scratch_string("trust-hooks/guard.sh", "exit 0 # not what it was\n");
  c = play_it;
  assert_status(&c, 78);
  command_free(&c);
  assert_trust_rows(data, NULL, NULL, 4, "\"detail\":\"lost: guard.sh has changed; ");
  c = (command){.arguments = {"tool", "call", "memory_search", "--hooks", hooks, "--data", data, "--arguments", "-"},
                .input = "{\"query\": \"a\"}"};
  assert_status(&c, 78);
  command_free(&c);
  char user[64], by[96];
  FILE *stream = popen("id -un", "r");
  assert_non_null(stream);
  assert_int_equal(fscanf(stream, "%63s", user), 1);
  pclose(stream);
  snprintf(by, sizeof by, "\"owner\":\"%s\"", user);
  assert_trust_rows(data, NULL, NULL, 5, by);
  assert_trust_rows(data, "--handler", user, 5, by);
  assert_trust_rows(data, "--handler", "guard", 0, "");
  assert_trust_rows(data, "--since", "2999-01-01", 0, "");
  assert_trust_rows(data, "--phase", "tool.pre", 0, "");
  assert_trust_rows(data, "--limit", "2", 2, "lost");
}

TEST(stats_name_the_hooks_of_a_directory_that_no_record_has) {
  const char *data = play("never"), *hooks = scratch_path("never-hooks"), *more = scratch_path("never-more");
  assert_int_equal(mkdir(hooks, 0755), 0);
  assert_int_equal(mkdir(more, 0755), 0);
  scratch_string("never-hooks/a.yaml", "id: new_one\nevent: SessionStop\nhandler: {kind: log, path: a}\n");
  scratch_string("never-hooks/b.yaml", "id: off\nevent: tool.pre\nenabled: false\nhandler: {kind: deny, reason: no}\n");
  scratch_string("never-hooks/c.yaml", "kind: tool\nname: t\ndescription: none\ncommand: ['true']\n");
  scratch_string("never-more/a.yaml", "id: new_one\nevent: SessionStop\nhandler: {kind: log, path: a}\n");
  command c = {.arguments = {"hooks", "stats", data, "--hooks", hooks, "--hooks", more}};
  assert_status(&c, 0);
  static const char none[] = "       0        0        0          -          -  never fired ";
  static const struct {
    const char *name, *phase, *why;
  } rows[] = {{"new_one", "session.end", "(no record has it)\n"},
              {"off", "tool.pre", "(disabled)\n"},
              {"never-more/new_one", "session.end", "(no record has it)\n"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char line[256];
    snprintf(line, sizeof line, "%-29s%-17s %s%s", rows[i].name, rows[i].phase, none, rows[i].why);
    assert_holds(&c.out, line);
  }
  assert_false(holds(&c.out, "\nt "));
  command_free(&c);
  c = (command){.arguments = {"hooks", "stats", data, "--hooks", hooks, "--json", "--since", "2999-01-01"}};
  assert_status(&c, 0);
  assert_int_equal(lines_of(&c.out), 2);
  assert_holds(&c.out, "\"never_fired\":true,\"recorded\":false,\"enabled\":true}");
  assert_holds(&c.out, "\"never_fired\":true,\"recorded\":false,\"enabled\":false}");
  command_free(&c);
  assert_int_equal(COUNT_OF(data, 74, "hooks", "stats", "DIR", "--hooks", "/no/such/directory"), 0);
  assert_int_equal(COUNT_OF(hooks, 2, "hooks", "list", "DIR", "--hooks", "/no/such/directory"), 0);
}

TEST(run_is_recorded_by_default_and_listed_by_what_it_is) {
  const char *data = play("listed");
  size_t all = COUNT_OF(data, 0, "runs", "DIR", "--json");
  size_t one = COUNT_OF(data, 0, "runs", "DIR", "--json", "--session", "one");
  assert_true(all >= 14 && one == all / 2);
  assert_int_equal(COUNT_OF(data, 0, "runs", "DIR", "--json", "--turn", "t2"), one);
  assert_int_equal(COUNT_OF(data, 0, "runs", "DIR", "--json", "--phase", "turn.pre_policy"), 2);
  assert_int_equal(COUNT_OF(data, 0, "runs", "DIR", "--json", "--handler", "memory.active_recall"), 2);
  assert_int_equal(COUNT_OF(data, 0, "runs", "DIR", "--json", "--state", "backgrounded"), 2);
  assert_int_equal(COUNT_OF(data, 0, "runs", "DIR", "--json", "--state", "failed"), 0);
  assert_int_equal(COUNT_OF(data, 0, "runs", "DIR", "--json", "--since", "1h"), all);
  assert_int_equal(COUNT_OF(data, 0, "runs", "DIR", "--json", "--since", "2999-01-01"), 0);
  assert_int_equal(COUNT_OF(data, 0, "runs", "DIR", "--json", "--limit", "3"), 3);
  assert_int_equal(COUNT_OF(data, 0, "runs", "DIR", "--limit", "3"), 3);
  assert_int_equal(COUNT_OF(data, 0, "jobs", "list", "DIR", "--json"), 0);
  assert_int_equal(COUNT_OF(data, 0, "jobs", "list", "DIR", "--json", "--state", "all"), 2);
}

TEST(turn_and_run_are_shown) {
  const char *data = play("shown");
  command c = {.arguments = {"runs", data, "--json", "--turn", "t1", "--phase", "turn.pre_policy"}};
  char run[64] = "";
  assert_status(&c, 0);
  assert_int_equal(sscanf(c.out.data, "{\"run\":\"%63[^\"]", run), 1);
  command_free(&c);
  c = (command){.arguments = {"show", data, "t1"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "turn completed at");
  assert_holds(&c.out, "memory.policy_classifier");
  assert_holds(&c.out, run);
  command_free(&c);
  c = (command){.arguments = {"show", data, run}};
  assert_status(&c, 0);
  assert_holds(&c.out, "turn.pre_policy");
  assert_int_equal(lines_of(&c.out), 2);
  command_free(&c);
  assert_int_equal(COUNT_OF(data, 1, "show", "DIR", "no-such-turn"), 0);
  assert_int_equal(COUNT_OF(data, 1, "show", "DIR", "00000000000000ff-1"), 0);
}

/* Records have no content of the conversation; the history has it. */
TEST(records_do_not_hold_what_was_said) {
  const char *data = play("content");
  static const char *const commands[][3] = {{"runs", NULL}, {"show", "t2"}};
  for (size_t i = 0; i < 2; i++) {
    command c = {.arguments = {commands[i][0], data, commands[i][1] ? commands[i][1] : "--json"}};
    assert_status(&c, 0);
    assert_null(strstr(c.out.data, "xylophone"));
    command_free(&c);
  }
}

static void sql(const char *data, const char *file, const char *statements) {
  char path[512];
  sqlite3 *db = NULL;
  snprintf(path, sizeof path, "%s/%s", data, file);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

/* The owner of a text finds the phases through which it passed. */
TEST(hash_of_a_text_is_found_in_what_is_explained) {
  const char *data = play("hashed");
  command hash = {.arguments = {"store", "hash", data, "-"}, .input = "A secret word: xylophone."};
  command explained = {.arguments = {"explain", data, "t2", "--json"}};
  assert_status(&hash, 0);
  assert_int_equal(hash.out.size, 65);
  hash.out.data[64] = '\0';
  assert_status(&explained, 0);
  assert_holds(&explained.out, hash.out.data);
  command_free(&explained);
  explained = (command){.arguments = {"explain", data, "t1", "--json"}};
  assert_status(&explained, 0);
  assert_null(strstr(explained.out.data, hash.out.data));
  assert_holds(&explained.out, "\"contributed\":[{\"bytes\":");
  command_free(&explained);
  command_free(&hash);
  hash = (command){.arguments = {"store", "hash", data}};
  assert_status(&hash, 2);
  assert_holds(&hash.err, "takes a data directory and a file");
  command_free(&hash);
}

#define SECRET "hunter2-planted"

static void assert_nowhere(const bytes *b, const char *where) {
  if (b->data && memmem(b->data, b->size, SECRET, strlen(SECRET))) fail_msg("the secret is in %s", where);
}

static void assert_not_in_file(const char *data, const char *file) {
  static char content[4 << 20];
  char path[512];
  snprintf(path, sizeof path, "%s/%s", data, file);
  FILE *stream = fopen(path, "rb");
  if (!stream) return; /* the log is gone with the last connection */
  size_t size = fread(content, 1, sizeof content, stream);
  fclose(stream);
  assert_true(size < sizeof content);
  assert_nowhere(&(bytes){.data = content, .size = size}, path);
}

/* The secret is in the user's message, in the model's answer, in the arguments and the result of a tool, and in the
 * payload of a job. So history and memory have it. The rest of the directory must not have it. */
TEST(secret_is_in_no_record_log_plot_or_error) {
  static const char planted[] =
      "responses:\n"
      "  - tool_calls:\n"
      "      - {name: memory_search, arguments: {query: " SECRET
      "}}\n"
      "      - {name: memory_remember, arguments: {text: the word is " SECRET
      "}}\n"
      "      - {name: nothing, arguments: {" SECRET
      ": 1}}\n"
      "      - {name: memory_get, arguments: {id: " SECRET
      "}}\n"
      "  - text: It is " SECRET ".\n";
  const char *data = scratch_path("planted");
  command c = {.arguments = {"run", "--script", scratch_string("planted.yaml", planted), "--data", data, "--verbose"},
               .input = "{\"session\": \"s\", \"turn\": \"t\", \"user\": \"my word is " SECRET "\"}\n"};
  assert_status(&c, 0);
  assert_holds(&c.out, SECRET); /* the conversation itself */
  assert_nowhere(&c.err, "what run logs");
  command_free(&c);
  sql(data, "turnphase.db",
      "PRAGMA secure_delete = ON; DELETE FROM message; DELETE FROM tool_call; VACUUM;"
      "PRAGMA wal_checkpoint(TRUNCATE)");
  assert_not_in_file(data, "turnphase.db");
  assert_not_in_file(data, "turnphase.db-wal");
  static const char *const commands[] = {"explain", "show", "time", "blame", "critical-chain", "plot"};
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    for (int json = 0; json < 2; json++) {
      bool plots = i == 5;
      c = (command){.arguments = {commands[i], data, "t",
                                  plots  ? "--format"
                                  : json ? "--json"
                                         : NULL,
                                  plots ? json ? "chrome-trace" : "html" : NULL}};
      assert_status(&c, 0);
      assert_nowhere(&c.out, commands[i]);
      assert_nowhere(&c.err, commands[i]);
      command_free(&c);
    }
  static const char *const lists[][2] = {{"runs", NULL}, {"jobs", "list"}};
  for (size_t i = 0; i < 2; i++) {
    c = (command){.arguments = {lists[i][0], lists[i][1] ? lists[i][1] : data, lists[i][1] ? data : "--json"}};
    assert_status(&c, 0);
    assert_nowhere(&c.out, lists[i][0]);
    command_free(&c);
  }
}

TEST(dead_job_is_shown_redriven_and_discarded) {
  const char *data = play("dead");
  sql(data, "turnphase.db", "UPDATE job SET state = 4, message = 'it broke', payload = 'secret' WHERE id = 1");
  command c = {.arguments = {"jobs", "list", data}};
  assert_status(&c, 0);
  assert_holds(&c.out, "dead");
  assert_holds(&c.out, "it broke");
  command_free(&c);
  c = (command){.arguments = {"jobs", "show", data, "1", "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"state\":\"dead\"");
  assert_null(strstr(c.out.data, "secret"));
  command_free(&c);
  assert_int_equal(COUNT_OF(data, 0, "jobs", "redrive", "DIR", "1"), 0);
  assert_int_equal(COUNT_OF(data, 1, "jobs", "redrive", "DIR", "1"), 0); /* the job waits now */
  assert_int_equal(COUNT_OF(data, 0, "jobs", "list", "DIR", "--json", "--state", "queued"), 1);
  c = (command){.arguments = {"jobs", "discard", data, "1", "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"state\":\"discarded\"");
  command_free(&c);
  assert_int_equal(COUNT_OF(data, 1, "jobs", "discard", "DIR", "1"), 0);
  assert_int_equal(COUNT_OF(data, 1, "jobs", "show", "DIR", "99"), 0);
  assert_int_equal(COUNT_OF(data, 0, "store", "verify", "DIR"), 0);
}

static void make_dead_jobs(const char *data) {
  sql(data, "turnphase.db",
      "DELETE FROM job; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6)"
      " INSERT INTO job SELECT i, 0, 0, 0, '', '', i, 0, iif(i = 6, 3, 4), 5, 5, 0, 0, 0, 0, 1, 1, 0, 1000, 0, 0, 2000,"
      " iif(i % 2, 'a', 'b'), 's', 'k' || i, iif(i < 4, 'x', 'y'), 'it broke', x'', 0 FROM n");
}

TEST(dead_jobs_are_redriven_by_filter) {
  static const struct {
    const char *words[4];
    int status;
    const char *says;
    int queued;
  } rows[] = {
      {{"--all"}, 0, "5 of 5 dead jobs were redriven", 5},
      {{"--handler", "a"}, 0, "3 of 3 dead jobs were redriven", 3},
      {{"--session", "y"}, 0, "2 of 2 dead jobs were redriven", 2},
      {{"--handler", "b", "--session", "y"}, 0, "1 of 1 dead job was redriven", 1},
      {{"--all", "--limit", "2"}, 0, "2 of 2 dead jobs were redriven", 2},
      {{"--handler", "c"}, 1, " that fits is dead; see: turnphase jobs list ", 0},
      {{"1", "--all"}, 2, "without the number of a job", 0},
      {{"1", "--handler", "a"}, 2, "leave out the number", 0},
      {{"--all", "--session", "x"}, 2, "leave out --handler and --session", 0},
      {{"--all", "--state", "dead"}, 2, "--state is for jobs list", 0},
  };
  const char *data = play("filter");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    make_dead_jobs(data);
    command c = {.arguments = {"jobs", "redrive", data}};
    for (size_t n = 0; n < 4 && rows[i].words[n]; n++) c.arguments[3 + n] = rows[i].words[n];
    assert_status(&c, rows[i].status);
    assert_holds(&c.err, rows[i].says);
    assert_int_equal(c.out.size, 0);
    command_free(&c);
    assert_int_equal(COUNT_OF(data, 0, "jobs", "list", "DIR", "--json", "--state", "queued"), rows[i].queued);
  }
  make_dead_jobs(data);
  assert_int_equal(COUNT_OF(data, 0, "jobs", "redrive", "DIR", "--all", "--json"), 5);
  assert_int_equal(COUNT_OF(data, 2, "jobs", "list", "DIR", "--all"), 0);
  assert_int_equal(COUNT_OF(data, 2, "jobs", "discard", "DIR", "--all"), 0);
  assert_int_equal(COUNT_OF(data, 0, "store", "verify", "DIR"), 0);
}

/* The triggers stand for another process and a disk fault between two jobs. */
TEST(redrive_by_filter_goes_on_after_a_job_that_is_taken_and_stops_at_a_fault) {
  static const struct {
    const char *trigger; /* the trigger of the second dead job */
    const char *says;
    int status, shown, queued;
  } rows[] = {
      {"AFTER UPDATE OF state ON job WHEN NEW.id = 1 BEGIN UPDATE job SET state = 5 WHERE id = 2; END",
       "4 of 5 dead jobs were redriven", 0, 4, 4},
      {"AFTER UPDATE OF state ON job WHEN NEW.id = 4 BEGIN UPDATE job SET state = 5 WHERE id = 5; END",
       "4 of 5 dead jobs were redriven", 0, 4, 4},
      {"BEFORE UPDATE OF state ON job WHEN NEW.id = 2 BEGIN SELECT RAISE(ABORT, 'no'); END",
       "1 of 5 dead jobs were redriven", 74, 1, 1},
      {"BEFORE UPDATE OF state ON job WHEN NEW.id = 1 BEGIN SELECT RAISE(ABORT, 'no'); END",
       "0 of 5 dead jobs were redriven", 74, 0, 0},
  };
  const char *data = play("taken");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int json = 0; json < 2; json++) {
      char statement[512];
      make_dead_jobs(data);
      snprintf(statement, sizeof statement, "DROP TRIGGER IF EXISTS other; CREATE TRIGGER other %s", rows[i].trigger);
      sql(data, "turnphase.db", statement);
      command c = {.arguments = {"jobs", "redrive", data, "--all", json ? "--json" : NULL}};
      assert_status(&c, rows[i].status);
      assert_holds(&c.err, rows[i].says);
      assert_int_equal(lines_of(&c.out), json ? rows[i].shown : 0);
      assert_null(memmem(c.out.data, c.out.size, "discarded", strlen("discarded")));
      command_free(&c);
      sql(data, "turnphase.db", "DROP TRIGGER other");
      assert_int_equal(COUNT_OF(data, 0, "jobs", "list", "DIR", "--json", "--state", "queued"), rows[i].queued);
    }
}

TEST(redrive_by_filter_shows_more_jobs_than_a_list_does) {
  const char *data = play("many_dead");
  sql(data, "turnphase.db",
      "DELETE FROM job; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 103)"
      " INSERT INTO job SELECT i, 0, 0, 0, '', '', i, 0, 4, 5, 5, 0, 0, 0, 0, 1, 1, 0, 1000, 0, 0, 2000, 'a', 's',"
      " 'k' || i, 'x', 'it broke', x'', 0 FROM n");
  assert_int_equal(COUNT_OF(data, 0, "jobs", "redrive", "DIR", "--all", "--json", "--limit", "2"), 2);
  assert_int_equal(COUNT_OF(data, 0, "jobs", "redrive", "DIR", "--all", "--json"), 101);
}

TEST(store_is_verified_and_counted) {
  const char *data = play("verified");
  assert_int_equal(COUNT_OF(data, 0, "store", "verify", "DIR"), 0);
  assert_int_equal(COUNT_OF(data, 0, "store", "stats", "DIR", "--json"), 1);
  command c = {.arguments = {"store", "stats", data}};
  assert_status(&c, 0);
  assert_holds(&c.out, "4 messages of 2 sessions");
  assert_holds(&c.out, "2 turns");
  command_free(&c);
  sql(data, "turnphase.db", "UPDATE counter SET value = 9 WHERE id = 4");
  assert_int_equal(COUNT_OF(data, 1, "store", "verify", "DIR"), 1);
  c = (command){.arguments = {"store", "verify", data, "--json"}};
  assert_status(&c, 1);
  assert_holds(&c.out, "{\"problem\":\"");
  command_free(&c);
  char path[512], noise[8192];
  snprintf(path, sizeof path, "%s/turnphase.db", data);
  memset(noise, 'x', sizeof noise);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  assert_int_equal(pwrite(fd, noise, sizeof noise, 8192), sizeof noise);
  close(fd);
  assert_int_equal(COUNT_OF(data, 1, "store", "verify", "DIR"), 0);
  assert_int_equal(COUNT_OF(data, 74, "runs", "DIR"), 0);
}

static int64_t stat_of(const char *data, const char *name) {
  char key[64];
  command c = {.arguments = {"store", "stats", data, "--json"}};
  assert_status(&c, 0);
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *found = strstr(c.out.data, key);
  assert_non_null(found);
  int64_t number = strtoll(found + strlen(key), NULL, 10);
  command_free(&c);
  return number;
}

/* History, open jobs and dead letters stay; free pages go back to the file system. */
TEST(records_are_pruned_by_age_and_size) {
  const char *data = play("pruned");
  int64_t entries = stat_of(data, "entries"), turns = stat_of(data, "turns");
  assert_int_equal(COUNT_OF(data, 0, "store", "prune", "DIR", "--age", "1h"), 0);
  assert_int_equal(stat_of(data, "entries"), entries);
  sql(data, "turnphase.db",
      "UPDATE job SET state = 4 WHERE id = 1; UPDATE turn SET ended_unix_ms = 1000 WHERE row = 1;"
      "UPDATE entry SET started_unix_ms = 1000 WHERE number <= 3; UPDATE job SET ended_ms = 1000");
  assert_int_equal(COUNT_OF(data, 0, "store", "prune", "DIR", "--age", "1h"), 0);
  assert_int_equal(stat_of(data, "entries"), entries - 3);
  assert_int_equal(stat_of(data, "turns"), turns - 1);
  assert_int_equal(stat_of(data, "jobs_dead"), 1);
  assert_int_equal(stat_of(data, "jobs_succeeded"), 0);
  assert_int_equal(stat_of(data, "messages"), 4);
  sql(data, "turnphase.db",
      "WITH RECURSIVE n(i) AS (VALUES (1000) UNION ALL SELECT i + 1 FROM n WHERE i < 9000)"
      " INSERT INTO audit SELECT i, 1, 9999999999999, 0, 0, 0, 0, 0, 0, 0, 'o', 'a', hex(zeroblob(200)), 't', '', '', "
      "NULL"
      " FROM n");
  assert_true(stat_of(data, "file_bytes") > 3000000);
  assert_int_equal(COUNT_OF(data, 0, "store", "prune", "DIR", "--size", "1M"), 0);
  assert_true(stat_of(data, "file_bytes") <= (1 << 20) + 100 * 4096);
  assert_true(stat_of(data, "audits") > 100);
  assert_int_equal(stat_of(data, "messages"), 4);
  assert_int_equal(COUNT_OF(data, 0, "store", "verify", "DIR"), 0);
}

/* Another process has the file open and is in the middle of a write. */
TEST(directory_is_read_beside_a_process_that_writes) {
  const char *data = play("live");
  char path[512];
  sqlite3 *db = NULL;
  snprintf(path, sizeof path, "%s/turnphase.db", data);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE; DELETE FROM turn", NULL, NULL, NULL), SQLITE_OK);
  double began = command_seconds();
  assert_true(COUNT_OF(data, 0, "runs", "DIR", "--json") > 0);
  assert_true(COUNT_OF(data, 0, "show", "DIR", "t1", "--json") > 1);
  assert_int_equal(COUNT_OF(data, 0, "store", "verify", "DIR"), 0);
  assert_true(command_seconds() - began < 4); /* no command waited for the lock */
  sqlite3_close(db);
}

TEST(wrong_words_are_refused_with_what_helps) {
  const char *data = play("usage");
  static const struct {
    int status;
    const char *words[6], *helps;
  } cases[] = {
      {2, {"runs"}, "which data directory"},
      {74, {"runs", "/no/such/place"}, "--data"},
      {74, {"runs", "/"}, "turnphase.db"},
      {2, {"runs", "DIR", "--state", "happy"}, "succeeded"},
      {2, {"runs", "DIR", "--phase", "nope"}, "turnphase phases"},
      {2, {"runs", "DIR", "--since", "yesterday"}, "--since"},
      {2, {"runs", "DIR", "--since", "2026-02-31"}, "--since"},
      {2, {"runs", "DIR", "--limit", "-1"}, "--limit"},
      {2, {"runs", "DIR", "more"}, "more"},
      {2, {"show", "DIR"}, "--help"},
      {2, {"show", "DIR", ""}, "--help"},
      {2, {"jobs", "kill", "DIR"}, "kill"},
      {2, {"jobs"}, "--help"},
      {2, {"jobs", "redrive", "DIR"}, "number of a job"},
      {2, {"jobs", "redrive", "DIR", "x"}, "number of a job"},
      {2, {"jobs", "list", "DIR", "1"}, "data directory"},
      {2, {"jobs", "list", "DIR", "--state", "happy"}, "queued"},
      {2, {"store", "prune", "DIR"}, "--age, --size or --history-age"},
      {2, {"store", "prune", "DIR", "--age", "old"}, "--age takes"},
      {2, {"store", "prune", "DIR", "--size", "12X"}, "--size takes"},
      {2, {"store", "shrink", "DIR"}, "shrink"},
      {2, {"store", "verify"}, "data directory"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    command c = {.status = 0};
    for (size_t n = 0; n < 6 && cases[i].words[n]; n++)
      c.arguments[n] = strcmp(cases[i].words[n], "DIR") == 0 ? data : cases[i].words[n];
    assert_status(&c, cases[i].status);
    assert_holds(&c.err, cases[i].helps);
    assert_int_equal(c.out.size, 0);
    command_free(&c);
  }
  assert_int_equal(access("/turnphase.db", F_OK), -1); /* no file was made where there was none */
}

/* Counts the files of a data directory that have the text. */
static int files_with(const char *data, const char *text) {
  char command_line[600];
  snprintf(command_line, sizeof command_line, "exit $(grep -l -a -r -e '%s' '%s' | wc -l)", text, data);
  return WEXITSTATUS(system(command_line));
}

TEST(session_is_forked_at_a_turn) {
  static const char talk[] =
      "{\"session\": \"s\", \"turn\": \"t1\", \"user\": \"one\"}\n{\"session\": \"s\", \"turn\": \"t2\", \"user\": "
      "\"two\"}\n";
  static const char again[] =
      "{\"session\": \"f\", \"turn\": \"t1\", \"user\": \"one\"}\n{\"session\": \"f\", \"turn\": \"t3\", \"user\": "
      "\"three\"}\n";
  const char *data = scratch_path("forked"), *model = scratch_string("model.yaml", script);
  command c = {.arguments = {"run", "--script", model, "--data", data}, .input = talk};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"sessions", "fork", data, "s", "f", "--turn", "t1", "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "{\"tenant\":\"\",\"session\":\"f\",\"messages\":2}");
  command_free(&c);
  assert_int_equal(COUNT_OF(data, 1, "sessions", "fork", "DIR", "s", "f"), 0);
  assert_int_equal(COUNT_OF(data, 1, "sessions", "fork", "DIR", "s", "g", "--turn", "t9"), 0);
  assert_int_equal(COUNT_OF(data, 2, "sessions", "fork", "DIR", "s"), 0);
  assert_int_equal(COUNT_OF(data, 2, "sessions", "fork", "DIR", "s", "g h"), 0);
  assert_int_equal(COUNT_OF(data, 2, "sessions", "list", "DIR", "--turn", "t1"), 0);
  /* A turn that the fork has is answered from it, and the fork continues without the second turn of the other
   * session. */
  c = (command){.arguments = {"run", "--script", model, "--data", data}, .input = again};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"sessions", "show", data, "f"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "user: one\nassistant: I see.\nuser: three\nassistant: I see.\n");
  command_free(&c);
}

TEST(session_that_a_turn_of_another_process_has_is_refused_and_its_process_named) {
  static const char talk[] = "{\"session\": \"s\", \"turn\": \"t1\", \"user\": \"one\"}\n";
  static const char more[] = "{\"session\": \"s\", \"turn\": \"t2\", \"user\": \"two\"}\n";
  const char *data = scratch_path("busy"), *model = scratch_string("model.yaml", script);
  struct timespec now;
  char rows[256], holder[64];
  command c = {.arguments = {"run", "--script", model, "--data", data}, .input = talk};
  assert_status(&c, 0);
  command_free(&c);
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(rows, sizeof rows,
           "INSERT INTO holder (process, process_id, process_started, end_ms, boot_id) VALUES (7, %d, 0, %lld, '');"
           "UPDATE session SET owner = 7, running = 1",
           (int)getpid(), (long long)now.tv_sec * 1000 + 600000);
  sql(data, "turnphase.db", rows);
  snprintf(holder, sizeof holder, "process %d", (int)getpid());
  c = (command){.arguments = {"run", "--script", model, "--data", data}, .input = more};
  assert_status(&c, 75);
  assert_holds(&c.out, holder);
  command_free(&c);
  c = (command){.arguments = {"sessions", "list", data}};
  assert_status(&c, 0);
  assert_holds(&c.out, holder);
  command_free(&c);
  sql(data, "turnphase.db", "UPDATE holder SET process_id = 999999999"); /* no process has this number */
  c = (command){.arguments = {"run", "--script", model, "--data", data, "--busy", "wait"}, .input = more};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"run", "--script", model, "--busy", "wait"}, .input = more};
  assert_status(&c, 2);
  command_free(&c);
}

TEST(session_is_shown_exported_and_erased_with_its_memories) {
  static const char talk[] =
      "{\"session\": \"s\", \"turn\": \"t\", \"tenant\": \"ann\", \"user\": \"plant-ann is here\"}\n"
      "{\"session\": \"s\", \"turn\": \"t\", \"tenant\": \"bob\", \"user\": \"plant-bob is here\"}\n";
  const char *data = scratch_path("erased");
  command c = {.arguments = {"run", "--script", scratch_string("model.yaml", script), "--data", data}, .input = talk};
  assert_status(&c, 0);
  command_free(&c);
  assert_int_equal(files_with(data, "plant-ann"), 2);
  assert_int_equal(COUNT_OF(data, 0, "sessions", "list", "DIR"), 2);
  assert_int_equal(COUNT_OF(data, 0, "sessions", "list", "DIR", "--tenant", "bob", "--json"), 1);
  assert_int_equal(COUNT_OF(data, 0, "sessions", "list", "DIR", "--age", "1h"), 0);
  assert_int_equal(COUNT_OF(data, 2, "sessions", "show", "DIR", "s"), 0);
  assert_int_equal(COUNT_OF(data, 1, "sessions", "show", "DIR", "none"), 0);
  c = (command){.arguments = {"sessions", "show", data, "s", "--tenant", "ann"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "user: plant-ann is here\nassistant: I see.\nturn t\n");
  command_free(&c);
  c = (command){.arguments = {"sessions", "export", data, "s", "--tenant", "ann"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "{\"kind\":\"message\",\"row\":{\"id\":1,");
  assert_true(lines_of(&c.out) > 8 && !memmem(c.out.data, c.out.size, "plant-bob", 9));
  command_free(&c);
  static const char *const wrong[][5] = {{"delete", "DIR", "--yes"},        {"delete", "DIR", "s"},
                                         {"list", "DIR", "--yes"},          {"show", "DIR"},
                                         {"delete", "DIR", "--age", "tea"}, {"delete", "DIR", "s", "--limit", "1"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    COUNT_OF(data, 2, "sessions", wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3], wrong[i][4]);
  assert_int_equal(COUNT_OF(data, 2, "forget", "DIR", "--yes"), 0);
  assert_int_equal(COUNT_OF(data, 2, "forget", "DIR", "--tenant", "ann"), 0);
  assert_int_equal(files_with(data, "plant-ann"), 2);
  char claim[128];
  snprintf(claim, sizeof claim, "INSERT INTO process VALUES (7, %d, 0, 1, '')", (int)getpid());
  sql(data, "turnphase.db", claim);
  c = (command){.arguments = {"forget", data, "--tenant", "ann", "--yes"}};
  assert_status(&c, 75);
  snprintf(claim, sizeof claim, "process %d uses it", (int)getpid());
  assert_holds(&c.err, claim);
  command_free(&c);
  assert_int_equal(files_with(data, "plant-ann"), 2);
  sql(data, "turnphase.db", "DELETE FROM process WHERE id = 7");
  assert_int_equal(COUNT_OF(data, 0, "forget", "DIR", "--tenant", "ann", "--session", "other", "--yes"), 0);
  assert_int_equal(files_with(data, "plant-ann"), 2);
  c = (command){.arguments = {"forget", data, "--tenant", "ann", "--yes", "--json"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "{\"sessions\":1,\"rows\":");
  assert_holds(&c.out, "\"memories\":1,\"complete\":true}");
  command_free(&c);
  assert_int_equal(files_with(data, "plant-ann"), 0);
  assert_int_equal(files_with(data, "plant-bob"), 2);
  assert_int_equal(COUNT_OF(data, 0, "sessions", "delete", "DIR", "s", "--yes"), 0);
  assert_int_equal(files_with(data, "plant-bob"), 1);
  assert_int_equal(COUNT_OF(data, 0, "memory", "list", "DIR"), 1);
  assert_int_equal(COUNT_OF(data, 0, "sessions", "list", "DIR"), 0);
}
