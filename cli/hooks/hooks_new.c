/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_new.c: makes a new hook: its YAML file, its script, and a test that passes without changes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/hooks/hooks.h"

enum { PATH_SIZE = 4096, TEXT_SIZE = 8192, FILES_MAX = 4 };

/* In all texts @ID@ and @DIR@ are replaced by the values of the command line. */
#define TRIES                                                                                            \
  "#!/bin/sh\n"                                                                                          \
  "# Tries the hook @ID@ by itself. Run it where the host runs, when the directory is trusted:\n"        \
  "#   turnphase hooks trust '@DIR@' && sh '@DIR@/@ID@.test.sh'\n"                                       \
  "try() { # payload, what must stand in the report, what that means\n"                                  \
  "  report=$(printf '%s' \"$1\" |\n"                                                                    \
  "    \"${TURNPHASE:-turnphase}\" hooks run '@DIR@' \"${hook:-@ID@}\" --payload - --json)\n"            \
  "  case $report in\n"                                                                                  \
  "    *\"$2\"*) printf 'ok%s: %.80s\\n' \"${3:+, $3}\" \"$1\" ;;\n"                                     \
  "    *'\"judged\":\"skipped\"'*) echo \"not ok, skipped: its match does not fit $1\" >&2; exit 1 ;;\n" \
  "    *) echo \"not ok${3:+, not $3}: $1 gave $report\" >&2; exit 1 ;;\n"                               \
  "  esac\n"                                                                                             \
  "}\n"

#define VERDICTS                                              \
  TRIES                                                       \
  "allows() { try \"$1\" '\"judged\":\"allow\"' allowed; }\n" \
  "denies() { try \"$1\" '\"judged\":\"deny\"' denied; }\n"   \
  "\n"                                                        \
  "# The calls that the hook must allow and must deny: change them when you change the hook.\n"

static const char guard_yaml[] =
    "id: @ID@\n"
    "event_type: tool.pre              # before each call of a tool; it fails closed\n"
    "summary: denies a call whose arguments hold rm -rf\n"
    "handler:\n"
    "  kind: script\n"
    "  command: '@DIR@/@ID@.@SUFFIX@'\n"
    "  timeout_ms: 5000\n"
    "# match: {ability_scope: ['shell*']}   # without it: calls of every tool\n";

static const char preflight_yaml[] =
    "id: @ID@\n"
    "event_type: PreAbilityCreate      # before a call or a task of a tool is made; it fails closed\n"
    "summary: refuses a call whose arguments hold rm -rf, before it is made\n"
    "handler:\n"
    "  kind: script\n"
    "  command: '@DIR@/@ID@.@SUFFIX@'\n"
    "  timeout_ms: 5000\n"
    "# match: {ability_scope: ['shell*']}   # without it: calls of every tool\n";

/* Each script denies a call when it does not find the arguments. */
static const char *const guard_scripts[] = {
    [CLI_LANGUAGE_SH] =
        "#!/bin/sh\n"
        "# Standard input is one line of JSON: {…, \"payload\": {\"tool\": …, \"arguments\": {…}}}.\n"
        "# Exit code 0 allows; any other denies, and standard error is the reason.\n"
        "case $(cat) in\n"
        "  *'rm -rf'*) echo \"rm -rf is not allowed here\" >&2; exit 1 ;;\n"
        "  *'\"arguments\":'*) ;; # they were read, and have nothing of it\n"
        "  *) echo \"the call has no arguments to look at\" >&2; exit 1 ;;\n"
        "esac\n",
    [CLI_LANGUAGE_PYTHON] =
        "#!/usr/bin/env python3\n"
        "# Standard input is one line of JSON: {…, \"payload\": {\"tool\": …, \"arguments\": {…}}}.\n"
        "# Exit code 0 allows; any other denies, and standard error is the reason. Read with [\"…\"]\n"
        "# and not with get(): what is not there must not allow the call.\n"
        "import json\n"
        "import sys\n"
        "\n"
        "call = json.load(sys.stdin)[\"payload\"]\n"
        "if \"arguments\" not in call:\n"
        "    sys.exit(\"the call has no arguments to look at\")\n"
        "if \"rm -rf\" in json.dumps(call[\"arguments\"]):\n"
        "    sys.exit(\"rm -rf is not allowed here\")\n",
    [CLI_LANGUAGE_JS] =
        "#!/usr/bin/env node\n"
        "// Standard input is one line of JSON: {…, \"payload\": {\"tool\": …, \"arguments\": {…}}}.\n"
        "// Exit code 0 allows; any other denies, and standard error is the reason. Read without ?.\n"
        "// and ??: what is not there must not allow the call.\n"
        "const call = JSON.parse(require(\"fs\").readFileSync(0, \"utf8\")).payload;\n"
        "const deny = (reason) => {\n"
        "  console.error(reason);\n"
        "  process.exitCode = 1;\n"
        "};\n"
        "if (!call.arguments) deny(\"the call has no arguments to look at\");\n"
        "else if (JSON.stringify(call.arguments).includes(\"rm -rf\")) deny(\"rm -rf is not allowed here\");\n",
};

static const char guard_test[] = VERDICTS
    "allows '{\"tool\": \"shell\", \"arguments\": {\"command\": \"ls\"}}'\n"
    "denies '{\"tool\": \"shell\", \"arguments\": {\"command\": \"rm -rf /\"}}'\n"
    "denies '{\"tool\": \"shell\"}' # a call that it cannot read\n";

static const char preflight_test[] = VERDICTS
    "allows '{\"ability_ref\": \"shell\", \"arguments\": {\"command\": \"ls\"}}'\n"
    "denies '{\"ability_ref\": \"shell\", \"arguments\": {\"command\": \"rm -rf /\"}}'\n"
    "denies '{\"ability_ref\": \"shell\"}' # a call that it cannot read\n";

static const char context_yaml[] =
    "id: @ID@\n"
    "event_type: turn.intake           # with each message of the user\n"
    "summary: shows the model where it works\n"
    "handler:\n"
    "  kind: script\n"
    "  command: '@DIR@/@ID@.@SUFFIX@'\n"
    "  timeout_ms: 5000\n";

static const char *const context_scripts[] = {
    [CLI_LANGUAGE_SH] =
        "#!/bin/sh\n"
        "# What is printed becomes a reminder for the model.\n"
        "echo \"The working directory is $(pwd).\"\n",
    [CLI_LANGUAGE_PYTHON] =
        "#!/usr/bin/env python3\n"
        "# What is printed becomes a reminder for the model.\n"
        "import os\n"
        "\n"
        "print(f\"The working directory is {os.getcwd()}.\")\n",
    [CLI_LANGUAGE_JS] =
        "#!/usr/bin/env node\n"
        "// What is printed becomes a reminder for the model.\n"
        "console.log(`The working directory is ${process.cwd()}.`);\n",
};

static const char context_test[] = TRIES "try '{\"text\": \"Hello\"}' '\"kind\":\"reminder\"'\n";

static const char log_yaml[] =
    "id: @ID@\n"
    "event_type: tool.post             # after each call of a tool\n"
    "summary: keeps a line of JSON for each call\n"
    "blocking: false\n"
    "handler:\n"
    "  kind: log\n"
    "  path: '@ID@.jsonl'\n";

static const char log_test[] = TRIES
    "try '{\"tool\": \"shell\", \"status\": \"success\"}' '\"judged\":\"not_waited_for\"'\n"
    "grep -q '\"hook_id\":\"@ID@\"' '@ID@.jsonl'\n";

static const char stop_yaml[] =
    "id: @ID@\n"
    "event_type: SessionStop           # when a session has ended\n"
    "summary: keeps a line of JSON for each session\n"
    "blocking: false\n"
    "handler:\n"
    "  kind: log\n"
    "  path: '@ID@.jsonl'\n";

static const char stop_test[] = TRIES
    "try '{}' '\"judged\":\"not_waited_for\"'\n"
    "grep -q '\"hook_id\":\"@ID@\"' '@ID@.jsonl'\n";

static const char summary_yaml[] =
    "id: @ID@\n"
    "event_type: SessionStop           # when a session has ended; @ID@_read.yaml shows it to the next one\n"
    "summary: keeps how the last session ended, what it changed and what it ran\n"
    "handler:\n"
    "  kind: save_json                 # replaces the file by the context\n"
    "  path: '@ID@.json'\n";

static const char summary_read_yaml[] =
    "id: @ID@_read\n"
    "event_type: session.start         # before the first turn of a session\n"
    "summary: shows the model what @ID@ has kept of the session before\n"
    "handler:\n"
    "  kind: script\n"
    "  command: '@DIR@/@ID@_read.@SUFFIX@'\n"
    "  timeout_ms: 5000\n";

static const char *const summary_scripts[] = {
    [CLI_LANGUAGE_SH] =
        "#!/bin/sh\n"
        "# What is printed becomes a reminder for the model. The first session has no file to read.\n"
        "[ -f '@ID@.json' ] || exit 0\n"
        "echo \"The session before this one ended so:\"\n"
        "head -c 8000 '@ID@.json'\n",
    [CLI_LANGUAGE_PYTHON] =
        "#!/usr/bin/env python3\n"
        "# What is printed becomes a reminder for the model. The first session has no file to read.\n"
        "import json\n"
        "import sys\n"
        "\n"
        "try:\n"
        "    with open(\"@ID@.json\") as file:\n"
        "        last = json.load(file)\n"
        "except FileNotFoundError:\n"
        "    sys.exit()\n"
        "fields = {**last.get(\"payload\", {}), **last}\n"
        "print(f\"The session before this one ended: {fields.get('outcome', 'without a turn')}.\")\n"
        "for name in (\"changed_files\", \"abilities_used\", \"tasks_summary\"):\n"
        "    if fields.get(name):\n"
        "        print(f\"{name}: {json.dumps(fields[name])[:2000]}\")\n",
    [CLI_LANGUAGE_JS] =
        "#!/usr/bin/env node\n"
        "// What is printed becomes a reminder for the model. The first session has no file to read.\n"
        "const fs = require(\"fs\");\n"
        "if (!fs.existsSync(\"@ID@.json\")) process.exit();\n"
        "const last = JSON.parse(fs.readFileSync(\"@ID@.json\", \"utf8\"));\n"
        "const fields = { ...last.payload, ...last };\n"
        "console.log(`The session before this one ended: ${fields.outcome ?? \"without a turn\"}.`);\n"
        "for (const name of [\"changed_files\", \"abilities_used\", \"tasks_summary\"]) {\n"
        "  if (fields[name]) console.log(`${name}: ${JSON.stringify(fields[name]).slice(0, 2000)}`);\n"
        "}\n",
};

static const char summary_test[] = TRIES
    "try '{\"outcome\": \"completed\"}' '\"judged\":\"done\"'\n"
    "grep -q '\"hook_id\":\"@ID@\"' '@ID@.json'\n"
    "hook=@ID@_read\n"
    "try '{}' 'The session before this one ended'\n";

typedef struct kind {
  const char *name, *yaml, *test;
  const char *const *scripts; /* NULL: it has none */
  const char *read_yaml;      /* of a second hook that uses the same script; NULL: there is none */
} kind;

static const kind kinds[] = {
    {"guard", guard_yaml, guard_test, guard_scripts, NULL},
    {"preflight", preflight_yaml, preflight_test, guard_scripts, NULL},
    {"context", context_yaml, context_test, context_scripts, NULL},
    {"log", log_yaml, log_test, NULL, NULL},
    {"stop", stop_yaml, stop_test, NULL, NULL},
    {"summary", summary_yaml, summary_test, summary_scripts, summary_read_yaml},
};

static const char *const suffixes[] = {
    [CLI_LANGUAGE_SH] = "sh", [CLI_LANGUAGE_PYTHON] = "py", [CLI_LANGUAGE_JS] = "js"};

/* ---- files ---- */

typedef struct maker {
  const char *id, *directory, *suffix;
  char paths[FILES_MAX][PATH_SIZE];
  size_t count;
  bool made_directory;
} maker;

static void put(char *text, size_t *used, const char *piece, size_t size) {
  if (*used + size >= TEXT_SIZE) size = 0; /* cannot be: id and directory are bounded */
  memcpy(text + *used, piece, size);
  *used += size;
  text[*used] = '\0';
}

static void fill(const maker *m, const char *template, char ret_text[TEXT_SIZE]) {
  const struct {
    const char *mark, *word;
  } marks[] = {{"@ID@", m->id}, {"@DIR@", m->directory}, {"@SUFFIX@", m->suffix}};
  size_t used = 0;
  ret_text[0] = '\0';
  while (*template) {
    size_t i = 0;
    while (i < 3 && strncmp(template, marks[i].mark, strlen(marks[i].mark)) != 0) i++;
    if (i < 3) put(ret_text, &used, marks[i].word, strlen(marks[i].word));
    else put(ret_text, &used, template, 1);
    template += i < 3 ? strlen(marks[i].mark) : 1;
  }
}

static int refuse_new_file(const char *path, int error) {
  cli_error_at(path, 0, 0, "%s%s", strerror(error), error == EEXIST ? ": nothing is overwritten" : "");
  return error == EEXIST ? CLI_CONFIG : CLI_IO;
}

/* @param tail  of its name, after the id. */
static int make_file(maker *m, const char *tail, const char *suffix, mode_t mode, const char *template) {
  char text[TEXT_SIZE];
  char *path = m->paths[m->count];
  fill(m, template, text);
  snprintf(path, PATH_SIZE, "%s/%s%s.%s", m->directory, m->id, tail, suffix);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return refuse_new_file(path, errno);
  m->count++;
  ssize_t written = write(fd, text, strlen(text));
  int error = written < 0 ? errno : ENOSPC;
  if (close(fd) == 0 && written == (ssize_t)strlen(text)) return CLI_OK;
  return refuse_new_file(path, error);
}

/* The folders above it stay even if the hook cannot be made. */
static int make_parents(const char *directory) {
  char path[4096];
  int size = snprintf(path, sizeof path, "%s", directory);
  if (size < 0 || (size_t)size >= sizeof path) return refuse_new_file(directory, ENAMETOOLONG);
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(path, 0755) != 0 && errno != EEXIST) return refuse_new_file(path, errno);
    *slash = '/';
  }
  return CLI_OK;
}

static int make_directory(maker *m) {
  int status = make_parents(m->directory);
  if (status != CLI_OK) return status;
  m->made_directory = mkdir(m->directory, 0755) == 0;
  return m->made_directory || errno == EEXIST ? CLI_OK : refuse_new_file(m->directory, errno);
}

static void take_back_hook(const maker *m) {
  for (size_t i = 0; i < m->count; i++) unlink(m->paths[i]);
  if (m->made_directory) rmdir(m->directory);
}

/* ---- the action ---- */

static const kind *find_kind(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  cli_error("there is no kind '%s': guard, preflight, context, log, stop or summary", name);
  return NULL;
}

static bool is_name(const char *text, const char *more) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  for (; *text; text++)
    if (!strchr(letters, *text) && !strchr(more, *text)) return false;
  return true;
}

/* The id is used in file names, and id and directory in a script and in YAML. */
static bool are_names(const char *id, size_t id_size_max, const char *directory) {
  if (!id[0] || id[0] == '.' || id[0] == '-' || strlen(id) > id_size_max || !is_name(id, "")) {
    cli_error("an id of a new hook has 1 to %zu letters, digits, '_', '-' and '.', and begins with none of '-' and '.'",
              id_size_max);
    return false;
  }
  if (directory[0] && directory[0] != '-' && strlen(directory) < 512 && is_name(directory, "/ +,@=")) return true;
  cli_error(
      "the directory of a new hook has at most 511 letters, digits, '_', '-', '.', ' ', '+', ',', '@', '=' "
      "and '/': its path is written into the files");
  return false;
}

int cli_hooks_new(const cli_arguments *arguments, cli_output *output) {
  cli_language language = arguments->language ? arguments->language : CLI_LANGUAGE_SH;
  const kind *of = find_kind(arguments->operands[1]);
  maker m = {.id = arguments->operands[2], .directory = arguments->operands[3], .suffix = suffixes[language]};
  size_t id_size_max = TP_ID_BYTES_MAX - (of && of->read_yaml ? strlen("_read") : 0);
  if (!of || !are_names(m.id, id_size_max, m.directory)) return CLI_USAGE;
  if (!of->scripts && arguments->language) {
    cli_error("a hook of the kind %s has no script: leave --language out", of->name);
    return CLI_USAGE;
  }
  int status = make_directory(&m);
  const char *tail = of->read_yaml ? "_read" : "";
  if (status == CLI_OK) status = make_file(&m, "", "yaml", 0644, of->yaml);
  if (status == CLI_OK && of->read_yaml) status = make_file(&m, tail, "yaml", 0644, of->read_yaml);
  if (status == CLI_OK && of->scripts) status = make_file(&m, tail, m.suffix, 0755, of->scripts[language]);
  if (status == CLI_OK) status = make_file(&m, "", "test.sh", 0755, of->test);
  if (status != CLI_OK) {
    take_back_hook(&m);
    return status;
  }
  for (size_t i = 0; i < m.count; i++) cli_printf(output, "made %s\n", m.paths[i]);
  cli_printf(output, "Look at them, trust them, and run the test:\n  turnphase hooks trust '%s'\n  sh '%s'\n",
             m.directory, m.paths[m.count - 1]);
  return CLI_OK;
}
