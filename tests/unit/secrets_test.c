/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets that programs, hooks, tools and people say: which of them records, audit rows, log records and files keep. */
#include <dirent.h>

#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"
#include "turnphase/task.h"

#define SECRET "sk-live-0123"

FOR_EACH_TEST(make_directory, remove_directory);

/* ---- what leaves a runtime: its log, its audit, and the bytes of its files ---- */

typedef struct kept {
  pthread_mutex_t mutex;
  char *text;
  size_t size;
} kept;

static void keep(kept *k, const char *text, size_t size) {
  pthread_mutex_lock(&k->mutex);
  k->text = realloc(k->text, k->size + size + 1);
  assert_non_null(k->text);
  memcpy(k->text + k->size, text, size);
  k->text[k->size += size] = '\0';
  pthread_mutex_unlock(&k->mutex);
}

static void keep_log(void *ctx, const tp_log_record *record) { keep(ctx, record->message, strlen(record->message)); }

static bool keep_row(void *ctx, const tp_audit *row) {
  keep(ctx, row->detail, strlen(row->detail));
  return true;
}

/* The database, its log and all that lies beside it. */
static void keep_files(kept *k) {
  char data[96], name[512], bytes[4096];
  snprintf(data, sizeof data, "%s/data", directory);
  DIR *folder = opendir(data);
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", data, entry->d_name);
    FILE *file = fopen(name, "re");
    assert_non_null(file);
    for (size_t size; (size = fread(bytes, 1, sizeof bytes, file)) > 0;) keep(k, bytes, size);
    fclose(file);
  }
  closedir(folder);
}

static tp_runtime *open_kept(kept *k, tp_runtime_options options) {
  char file[128];
  tp_store *store;
  snprintf(file, sizeof file, "%s/data", directory);
  mkdir(file, 0700);
  snprintf(file, sizeof file, "%s/data/turnphase.db", directory);
  tp_sqlite_store_options stored = {.struct_size = sizeof stored, .path = file, .content_hashes = 1};
  assert_int_equal(tp_sqlite_store_open(&stored, &store, NULL), TP_OK);
  options.struct_size = sizeof options;
  options.store = store;
  options.log = keep_log;
  options.log_ctx = k;
  options.log_level = TP_LOG_DEBUG;
  return open_runtime(&options);
}

/* Closes the runtime first: all is written then. */
static void close_kept(kept *k, tp_runtime *runtime) {
  tp_runtime_audit(runtime, TP_VISIBILITY_INTERNAL, keep_row, k);
  close_runtime(runtime);
  keep_files(k);
}

static void remove_data(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s/data'", directory);
  assert_int_equal(system(command), 0);
}

static bool has(const kept *k, const char *text) { return memmem(k->text, k->size, text, strlen(text)) != NULL; }

/* ---- standard error ---- */

#define SAYS "cat > /dev/null; echo \"key " SECRET " is wrong\" >&2; "
#define NOT_KEPT "its standard error is not kept"

/* A driven turn logs them. */
static void keep_diagnostics(kept *k, const tp_phase_result *result) {
  size_t count = result->merged ? tp_merged_count(result->merged, TP_CONTRIBUTION_DIAGNOSTIC) : 0;
  for (size_t i = 0; i < count; i++) {
    tp_text text = tp_merged_get(result->merged, TP_CONTRIBUTION_DIAGNOSTIC, i)->contribution->text;
    keep(k, text.data, text.size);
  }
}

/* A reason that blocks is the answer, and is kept. */
TEST(standard_error_of_a_program_that_failed_is_kept_only_where_its_file_allows_it) {
  static const struct {
    const char *keys, *handler, *script;
    uint32_t phase;
    bool is_answer;
  } cases[] = {
      {"event: PreToolUse\nprotocol: claude-code\n", "", SAYS "exit 1", TP_PHASE_TOOL_PRE, false},
      {"event: PreToolUse\nprotocol: claude-code\nfailure: required\n", "", SAYS "exit 3", TP_PHASE_TOOL_PRE, false},
      {"event: PreToolUse\nprotocol: claude-code\n", "", SAYS "echo text; exit 127", TP_PHASE_TOOL_PRE, false},
      {"event: PreToolUse\nprotocol: claude-code\n", "", SAYS "exit 2", TP_PHASE_TOOL_PRE, true},
      {"event: UserPromptSubmit\nprotocol: claude-code\n", "", SAYS "exit 1", TP_PHASE_TURN_INTAKE, false},
      {"event: BeforeTool\nprotocol: gemini\n", "", SAYS "exit 1", TP_PHASE_TOOL_PRE, false},
      {"event: tool.pre\n", ", kind: worker", SAYS "exit 1", TP_PHASE_TOOL_PRE, false},
      {"event: tool.pre\nfailure: best_effort\n", ", kind: worker", SAYS "exit 0", TP_PHASE_TOOL_PRE, false},
      {"event: tool.pre\n", "", SAYS "exit 1", TP_PHASE_TOOL_PRE, true},
      {"event: session.start\nfailure: required\n", "", SAYS "exit 1", TP_PHASE_SESSION_START, false},
      {"event: session.end\n", "", SAYS "exit 1", TP_PHASE_SESSION_END, false},
      {"event: turn.post_turn\n", "", SAYS "exit 9", TP_PHASE_TURN_POST_TURN, false},
  };
  for (size_t i = 0; i < 2 * COUNT(cases); i++) {
    bool allows = i % 2;
    char yaml[512], script[256];
    kept k = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    snprintf(yaml, sizeof yaml, "id: a\n%s%shandler: {command: [sh, a.sh], timeout_ms: 20000%s}\n", cases[i / 2].keys,
             allows ? "keep_stderr: true\n" : "", cases[i / 2].handler);
    snprintf(script, sizeof script, "%s%s\n", strstr(yaml, "worker") ? "read line; exec < /dev/null; " : "",
             cases[i / 2].script);
    write_named("a.yaml", yaml);
    write_named("a.sh", script);
    tp_runtime *runtime = open_kept(&k, (tp_runtime_options){0});
    commit_hooks(runtime, NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = run_phase(turn, cases[i / 2].phase, NULL);
    keep_diagnostics(&k, &result);
    tp_turn_end(turn);
    close_kept(&k, runtime);
    if (has(&k, SECRET) != (allows || cases[i / 2].is_answer)) fail_msg("%s%s: %s", yaml, script, k.text);
    if (!has(&k, SECRET) && !has(&k, NOT_KEPT)) fail_msg("%s%s: does not say where it is: %s", yaml, script, k.text);
    free(k.text);
    remove_data();
  }
}

/* A model reads why a tool of a program failed; nothing else keeps it. */
TEST(standard_error_of_a_tool_is_its_result_and_nothing_else) {
  static const char *const scripts[] = {SAYS "exit 3", SAYS "kill -KILL $$", SAYS "echo out",
                                        "echo " SECRET "; exit 4"};
  for (size_t i = 0; i < COUNT(scripts); i++) {
    kept k = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    write_named("t.sh", scripts[i]);
    write_named("a.yaml", "kind: tool\nname: t\ndescription: A tool.\ncommand: [sh, t.sh]\n");
    tp_runtime *runtime = open_kept(&k, (tp_runtime_options){0});
    commit_hooks(runtime, NULL);
    tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t"};
    const tp_task_result *result;
    assert_int_equal(tp_task_call(runtime, &spec, &result, NULL), TP_OK);
    bool says = memmem(result->text.data, result->text.size, SECRET, strlen(SECRET)) != NULL;
    if (says == (result->kind == TP_TOOL_OK)) fail_msg("%s: it says %d", scripts[i], says);
    tp_task_result_free(result);
    close_kept(&k, runtime);
    if (has(&k, SECRET)) fail_msg("%s: %s", scripts[i], k.text);
    free(k.text);
    remove_data();
  }
}
