/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples of docs/hooks.md. Every block of YAML and every script is taken out of the document, written to the
 * place that the line above it names, and run: each hook alone, and all of them in a turn. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"

enum { FILES_MAX = 32 };

static char paths[FILES_MAX][256]; /* the files in the document */
static size_t path_count;

static char *read_document(void) {
  char name[512];
  snprintf(name, sizeof name, "%s/docs/hooks.md", getenv("TURNPHASE_SOURCE"));
  FILE *file = fopen(name, "r");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
  fclose(file);
  return text;
}

static bool is_example(const char *fence) {
  static const char *const languages[] = {"```yaml\n", "```bash\n", "```python\n", "```javascript\n"};
  for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++)
    if (strncmp(fence, languages[i], strlen(languages[i])) == 0) return true;
  return false;
}

/* The line above begins with the path in backquotes. */
static void take_path(const char *document, const char *fence, char ret_path[256]) {
  const char *line = fence - 2; /* the empty line, then the one above it */
  assert_true(line > document && line[0] == '\n' && line[1] == '\n');
  while (line > document && line[-1] != '\n') line--;
  size_t size = strcspn(line + 1, "`\n");
  if (line[0] != '`' || line[1 + size] != '`' || size >= 256) fail_msg("no path above the block: %.60s", fence);
  snprintf(ret_path, 256, "%.*s", (int)size, line + 1);
}

static void write_file(const char *path, const char *text, size_t size) {
  char line[600];
  snprintf(line, sizeof line, "mkdir -p \"$(dirname '%s')\"", path);
  assert_int_equal(system(line), 0);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, size, file), size);
  fclose(file);
  if (!strstr(path, ".yaml")) assert_int_equal(chmod(path, 0755), 0);
}

static void take_examples(void) {
  char *document = read_document();
  path_count = 0;
  for (char *fence = strstr(document, "\n```"); fence; fence = strstr(fence, "\n```")) {
    fence++;
    char *text = strchr(fence, '\n') + 1, *end = strstr(text - 1, "\n```\n");
    assert_non_null(end);
    if (is_example(fence)) {
      assert_true(path_count < FILES_MAX);
      take_path(document, fence, paths[path_count]);
      write_file(paths[path_count++], text, (size_t)(end + 1 - text));
    }
    fence = end + 4;
  }
  free(document);
}

static int enter(void **state) {
  if (!getenv("TURNPHASE_SOURCE") || scratch_make(state) != 0 || chdir(scratch) != 0) return -1;
  setenv("XDG_CONFIG_HOME", scratch_path("config"), 1);
  take_examples();
  char line[600];
  snprintf(line, sizeof line, "cp '%s/examples/worker/turnphase_worker.py' .system/hooks/", getenv("TURNPHASE_SOURCE"));
  assert_int_equal(system(line), 0);
  command c = {.arguments = {"hooks", "trust", ".system/hooks"}};
  assert_status(&c, 0);
  command_free(&c);
  return 0;
}

static int leave(void **state) { return chdir("/") == 0 ? scratch_remove(state) : -1; }

FOR_EACH_TEST(enter, leave);

static bool is_program(const char *name) {
  char line[128];
  snprintf(line, sizeof line, "command -v %s > /dev/null", name);
  return system(line) == 0;
}

/* A hook of the document, a call, and the expected result. */
typedef struct example {
  const char *hook, *program, *payload, *judged, *reason;
} example;

static const example examples[] = {
    {"no_rm", "sh", "{\"tool\": \"shell\", \"arguments\": {\"command\": \"ls\"}}", "allow", ""},
    {"no_rm", "sh", "{\"tool\": \"shell\", \"arguments\": {\"command\": \"rm -rf /\"}}", "deny",
     "rm -rf is not allowed here"},
    {"no_secrets", "python3", "{\"tool\": \"shell\", \"arguments\": {\"command\": \"ls\"}}", "allow", ""},
    {"no_secrets", "python3", "{\"tool\": \"shell\", \"arguments\": {\"command\": \"cat .env\"}}", "deny",
     "secrets stay where they are"},
    {"ask_deploy", "node", "{\"tool\": \"deploy\", \"arguments\": {}}", "ask", "a deploy to undefined"},
    {"ask_deploy", "node", "{\"tool\": \"deploy\", \"arguments\": {\"to\": \"prod\"}}", "ask", "a deploy to prod"},
    {"ask_deploy", "node", "{\"tool\": \"deploy\", \"arguments\": {\"to\": \"staging\"}}", "allow", ""},
    {"ask_deploy", "node", "{\"tool\": \"shell\", \"arguments\": {}}", "skipped", ""},
    {"no_env", "python3", "{\"tool\": \"write_file\", \"arguments\": {\"file_path\": \"a.c\"}}", "done", ""},
    {"no_env", "python3", "{\"tool\": \"write_file\", \"arguments\": {\"file_path\": \".env\"}}", "deny",
     "that file holds secrets"},
    {"no_env", "python3",
     "{\"hook_event_name\": \"PreToolUse\", \"tool_name\": \"Edit\", \"tool_input\": {\"file_path\": \"/x/.env\"}}",
     "deny", "that file holds secrets"},
    {"no_rm_worker", "python3", "{\"tool\": \"shell\", \"arguments\": {\"command\": \"ls\"}}", "allow", ""},
    {"no_rm_worker", "python3", "{\"tool\": \"shell\", \"arguments\": {\"command\": \"rm -rf /\"}}", "deny",
     "rm -rf is not allowed here"},
};

/* The call lacks the value by which each of these hooks decides. */
static const struct {
  const char *hook, *program, *payload;
} unread[] = {
    {"no_rm", "sh", "{\"tool\": \"shell\"}"},
    {"no_secrets", "python3", "{\"tool\": \"shell\"}"},
    {"ask_deploy", "node", "{\"tool\": \"deploy\"}"},
    {"ask_deploy", "node", "{\"tool\": \"deploy\", \"arguments\": {}}"},
    {"no_env", "python3", "{\"tool\": \"write_file\"}"},
    {"no_env", "python3", "{\"tool\": \"write_file\", \"arguments\": {\"path\": \".env\"}}"},
    {"no_env", "python3", "{\"hook_event_name\": \"PreToolUse\", \"tool_name\": \"Edit\", \"tool_input\": {}}"},
    {"no_rm_worker", "python3", "{\"tool\": \"shell\"}"},
};

enum { EXAMPLES = sizeof examples / sizeof examples[0] };

TEST(each_hook_of_the_document_decides_as_it_says) {
  for (size_t i = 0; i < EXAMPLES; i++) {
    const example *e = &examples[i];
    if (!is_program(e->program)) {
      print_message("# skipped: %s: there is no %s\n", e->hook, e->program);
      continue;
    }
    char words[256];
    command c = {.arguments = {"hooks", "run", ".system/hooks", e->hook, "--payload", "-", "--json"},
                 .input = e->payload};
    assert_status(&c, 0);
    snprintf(words, sizeof words, "\"judged\":\"%s\"", e->judged);
    if (!holds(&c.out, words)) fail_msg("%s of %s: %s", e->payload, e->hook, c.out.data);
    snprintf(words, sizeof words, "\"reason\":\"%s\"", e->reason);
    if (!holds(&c.out, words)) fail_msg("%s of %s: %s", e->payload, e->hook, c.out.data);
    command_free(&c);
  }
}

static bool is_named(const char *path, const char *hook) {
  const char *name = strrchr(path, '/') + 1;
  size_t size = strcspn(name, ".");
  return strlen(hook) == size && strncmp(name, hook, size) == 0;
}

/* A program that treats a missing value as an empty text would allow a call that it never read. */
TEST(no_hook_of_the_document_allows_what_it_could_not_read) {
  for (size_t i = 0; i < sizeof unread / sizeof unread[0]; i++) {
    if (!is_program(unread[i].program)) continue;
    command c = {.arguments = {"hooks", "run", ".system/hooks", unread[i].hook, "--payload", "-", "--json"},
                 .input = unread[i].payload};
    command_run(&c);
    bool is_refused = holds(&c.out, "\"judged\":\"deny\"") || holds(&c.out, "\"judged\":\"ask\"") ||
                      holds(&c.out, "\"judged\":\"failed\"");
    bool goes_on = holds(&c.out, "\"judged\":\"failed\"") && holds(&c.out, "\"phase_outcome\":\"TP_OK\"");
    if (!is_refused || goes_on) fail_msg("%s of %s: %s", unread[i].payload, unread[i].hook, c.out.data);
    command_free(&c);
  }
}

static bool is_tried(const char *path) {
  bool is_denied = false, is_unread = false;
  for (size_t i = 0; i < EXAMPLES; i++)
    is_denied = is_denied || (is_named(path, examples[i].hook) && strcmp(examples[i].judged, "deny") == 0) ||
                (is_named(path, examples[i].hook) && strcmp(examples[i].judged, "ask") == 0);
  for (size_t i = 0; i < sizeof unread / sizeof unread[0]; i++) is_unread = is_unread || is_named(path, unread[i].hook);
  return is_denied && is_unread;
}

/* A block that is added to the document needs a row above with a denied call, and a call that it cannot read. */
TEST(no_example_of_the_document_is_left_out) {
  assert_true(path_count >= 8);
  for (size_t i = 0; i < path_count; i++)
    if (!is_tried(paths[i])) fail_msg("%s has no row that is denied, or none of what it cannot read", paths[i]);
  command c = {.arguments = {"hooks", "check", ".system/hooks"}};
  assert_status(&c, 0);
  command_free(&c);
}

static const char model[] =
    "responses:\n"
    "  - tool_calls:\n"
    "      - {id: c1, name: shell, arguments: {command: rm -rf /}}\n"
    "      - {id: c2, name: shell, arguments: {command: cat .env}}\n"
    "      - {id: c3, name: deploy, arguments: {}}\n"
    "      - {id: c4, name: shell, arguments: {command: ls}}\n"
    "  - text: Done.\n";

TEST(the_hooks_of_the_document_hold_in_a_turn) {
  if (!is_program("python3") || !is_program("node")) {
    print_message("# skipped: there is no python3 or no node\n");
    return;
  }
  scratch_string("model.yaml", model);
  scratch_string("talk.jsonl", "{\"session\": \"s\", \"user\": \"hi\"}\n");
  setenv("TURNPHASE_TEST_DOMAIN", "tools", 1);
  command c = {.arguments = {"run", "--json", "--script", "model.yaml", "--hooks", ".system/hooks", "--load",
                             getenv("TURNPHASE_DOMAIN"), "talk.jsonl"}};
  assert_status(&c, 0);
  assert_holds(&c.out, "hook no_rm blocked the action: rm -rf is not allowed here");
  assert_holds(&c.out, "hook no_secrets blocked the action: secrets stay where they are");
  assert_holds(&c.out, "a deploy");
  assert_holds(&c.out, "\"call_id\":\"c3\",\"name\":\"deploy\",\"kind\":\"denied\"");
  assert_holds(&c.out, "\"call_id\":\"c4\",\"name\":\"shell\",\"kind\":\"ok\"");
  command_free(&c);
}
