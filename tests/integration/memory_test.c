/* SPDX-License-Identifier: Apache-2.0
 *
 * The command memory: its actions on the memories of runs, their output for people and programs, and refusals. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"

static const char script[] = "repeat: true\nresponses:\n  - text: I see.\n";
static const char talk[] =
    "sessions:\n  - id: a\n    said: 2023-05-08\n    tenant: acme\n    workspace: home\n    turns:\n"
    "      - {id: a1, user: \"Bob: My sister Ingrid moved to Oslo.\"}\n      - {id: a2, user: Ingrid has a quagga.}\n";

static const char *kept(void) {
  const char *data = scratch_path("data");
  command c = {.arguments = {"run", "--script", scratch_string("model.yaml", script), "--data", data,
                             scratch_string("talk.yaml", talk)}};
  assert_status(&c, 0);
  command_free(&c);
  return data;
}

#define MEMORY(...)                        \
  (command) {                              \
    .arguments = { "memory", __VA_ARGS__ } \
  }

static void says(command c, int status, const char *words) {
  assert_status(&c, status);
  assert_holds(status == 0 ? &c.out : &c.err, words);
  command_free(&c);
}

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(memories_are_listed_searched_and_shown) {
  const char *data = kept();
  says(MEMORY("list", data), 0, "2023-05-08  acme/workspace:home  a  user  Ingrid has a quagga.");
  says(MEMORY("list", data, "--limit", "1"), 0, "Ingrid has a quagga.");
  says(MEMORY("list", data, "--limit", "0"), 0, "Bob: My sister");
  says(MEMORY("list", data, "--json", "--before", "2"), 0, "{\"id\":1,\"tenant\":\"acme\",\"scope\":\"workspace\"");
  says(MEMORY("search", data, "Where does Ingrid live?", "--explain"), 0, "place");
  says(MEMORY("search", data, "quagga", "--json", "--explain"), 0, "\"parts\":{\"window\":");
  says(MEMORY("show", data, "memory:1"), 0, "Bob: My sister");
  says(MEMORY("show", data, "2", "--json"), 0, "\"text\":\"Ingrid has a quagga.\"");
  says(MEMORY("stats", data), 0, "2 memories in 1 scope, ");
  says(MEMORY("stats", data, "--json"), 0, "\"memories\":2");
  command none = MEMORY("list", data, "--tenant", "other");
  assert_status(&none, 0);
  assert_int_equal(none.out.size, 0);
  command_free(&none);
}

TEST(facts_of_a_model_are_listed_and_moved) {
  static const char facts[] =
      "repeat: true\nresponses:\n  - text: '{\"facts\": [{\"subject\": \"Ingrid\","
      " \"statement\": \"Ingrid has a quagga.\", \"quote\": \"has a quagga\"}]}'\n";
  char model[4200];
  const char *data = scratch_path("facts");
  snprintf(model, sizeof model, "script:%.4100s", scratch_string("facts.yaml", facts));
  command c = {.arguments = {"run", "--script", scratch_string("model.yaml", script), "--data", data, "--facts", model,
                             scratch_string("talk.yaml", talk)}};
  assert_status(&c, 0);
  command_free(&c);
  says(MEMORY("list", data), 0, "(fact about Ingrid)  Ingrid has a quagga.");
  command exporting = MEMORY("export", data);
  assert_status(&exporting, 0);
  assert_non_null(exporting.out.data);
  const char *file = scratch_string("moved.jsonl", exporting.out.data ? exporting.out.data : "");
  command_free(&exporting);
  says(MEMORY("import", scratch_path("moved"), file), 0, "imported: ");
  struct stat made;
  assert_int_equal(stat(scratch_path("moved/memory.db"), &made), 0); /* a directory as of --data */
  says(MEMORY("search", scratch_path("moved"), "quagga", "--json"), 0, "\"subject\":\"Ingrid\"");
  command without = {.arguments = {"chat", "--script", scratch_string("model.yaml", script), "--facts", "nothing"}};
  assert_status(&without, 2);
  assert_holds(&without.err, "--facts is openai:NAME");
  command_free(&without);
}

TEST(export_and_import_have_the_same_memories) {
  const char *data = kept();
  command exporting = MEMORY("export", data), again;
  assert_status(&exporting, 0);
  command importing = {.arguments = {"memory", "import", scratch_path("other.db"), "-"},
                       .input = exporting.out.data,
                       .input_size = exporting.out.size};
  assert_status(&importing, 0);
  assert_holds(&importing.out, "imported: 2 memories");
  again = MEMORY("export", scratch_path("other.db"));
  assert_status(&again, 0);
  assert_int_equal(again.out.size, exporting.out.size);
  assert_memory_equal(again.out.data, exporting.out.data, again.out.size);
  command_free(&exporting);
  command_free(&importing);
  command_free(&again);
}

TEST(what_is_forgotten_is_gone) {
  const char *data = kept();
  says(MEMORY("forget", data, "2"), 0, "forgotten: memory:2");
  says(MEMORY("forget", data, "2"), 1, "there is no memory of the id 2");
  says(MEMORY("show", data, "2"), 1, "there is no memory of the id 2");
  command c = MEMORY("search", data, "quagga");
  assert_status(&c, 1);
  command_free(&c);
}

TEST(wrong_imports_are_refused_with_their_line_and_make_no_file) {
#define GOOD "{\"scope\": \"user\", \"text\": \"x\", \"said\": \"2023-05-08\"}\n"
  static const char *const wrongs[][2] = {
      {GOOD "{\n", ":2:"},
      {GOOD "[]\n", ":2: a memory must be a map"},
      {GOOD "{\"text\": \"x\", \"said\": \"2023-05-08\"}\n", ":2: scope must be user"},
      {GOOD "{\"scope\": \"user\", \"said\": \"2023-05-08\"}\n", ":2: text must not be blank"},
      {GOOD "{\"scope\": \"user\", \"text\": \"x\"}\n", ":2: said must be a date"},
      {GOOD "{\"scope\": \"user\", \"text\": \"x\", \"said_unix_ms\": -1}\n", ":2: said_unix_ms must be"},
      {GOOD "{\"scope\": \"user\", \"text\": 3, \"said\": \"2023-05-08\"}\n", ":2: text must be text"},
      {GOOD "{\"scope\": \"user\", \"txt\": \"x\"}\n", ":2: a memory has no key \"txt\""}};
  for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
    const char *never = scratch_path("never.db");
    struct stat found;
    says(MEMORY("import", never, scratch_string("wrong.jsonl", wrongs[i][0])), 78, wrongs[i][1]);
    assert_int_not_equal(stat(never, &found), 0);
    const char *nowhere = scratch_path("nowhere");
    says(MEMORY("import", nowhere, scratch_string("wrong.jsonl", wrongs[i][0])), 78, wrongs[i][1]);
    assert_int_not_equal(stat(nowhere, &found), 0);
  }
}

TEST(wrong_command_lines_are_refused) {
  const char *data = kept();
  says(MEMORY(NULL), 2, "needs an action");
  says(MEMORY("dream", data), 2, "has no action 'dream'");
  says(MEMORY("list"), 2, "usage: turnphase memory list DATA");
  says(MEMORY("show", data, "x"), 2, "'x' is no id of a memory");
  says(MEMORY("show", data, "0"), 2, "'0' is no id of a memory");
  says(MEMORY("list", data, "--explain"), 2, "memory list does not take --explain");
  says(MEMORY("forget", data, "1", "--tenant", "t"), 2, "memory forget does not take --tenant");
  says(MEMORY("search", data, "quagga", "--limit", "0"), 78, "lower limit");
  says(MEMORY("search", data, "zebra"), 1, " fits 'zebra'; see: turnphase memory list ");
  command none = MEMORY("list", data, "--tenant", "nobody");
  assert_status(&none, 0);
  assert_holds(&none.err, "no memory fits in ");
  command_free(&none);
  says(MEMORY("list", scratch_path("nothing.db")), 74, "nothing.db");
  assert_int_equal(mkdir(scratch_path("empty"), 0700), 0);
  says(MEMORY("list", scratch_path("empty")), 74, "nothing was kept here: there is no memory.db");
  says(MEMORY("list", scratch_string("text.db", "This is a text and no database at all.")), 74, "text.db");
}
