/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets in texts of programs, hooks, tools and people: which of them records, audit rows, log records and files
 * contain. */
#include <dirent.h>

#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"
#include "turnphase/task.h"

/* Each part of four bytes is searched, so none of them may occur in a random id, which is hexadecimal, or in a time. */
#define SECRET "sk-live-QXJW"

FOR_EACH_TEST(make_directory, remove_directory);

/* ---- everything that leaves a runtime: its log, its audit, and the bytes of its files ---- */

typedef struct kept {
  pthread_mutex_t mutex;
  char *text;
  size_t size;
} kept;

static void keep(kept *k, const char *text, size_t size) {
  pthread_mutex_lock(&k->mutex);
  k->text = realloc(k->text, k->size + size + 1);
  assert_non_null(k->text);
  if (size > 0) memcpy(k->text + k->size, text, size);
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

/* ---- the callback of the host ---- */

/* Stars in place of each secret. */
static bool hide(void *ctx, tp_redaction *redaction) {
  (void)ctx;
  assert_int_equal(redaction->struct_size, sizeof *redaction);
  assert_in_range(redaction->place, TP_REDACT_RECORD, TP_REDACT_MEMORY);
  assert_true(redaction->size > 0 && redaction->size <= 4096 && redaction->size <= redaction->capacity);
  for (char *at; (at = memmem(redaction->text, redaction->size, SECRET, strlen(SECRET)));)
    memset(at, '*', strlen(SECRET));
  return true;
}

static bool refuse(void *ctx, tp_redaction *redaction) { return ctx && redaction->size == 0; }

static bool grow(void *ctx, tp_redaction *redaction) {
  (void)ctx;
  redaction->size = redaction->capacity + 1;
  return true;
}

static bool spoil(void *ctx, tp_redaction *redaction) {
  (void)ctx;
  memset(redaction->text, 0xff, redaction->size);
  return true;
}

static void keep_event(void *ctx, const tp_event *event) {
  keep(ctx, event->text.data, event->text.size);
  if (!event->contribution) return;
  keep(ctx, event->contribution->text.data, event->contribution->text.size);
  keep(ctx, event->contribution->key.data, event->contribution->key.size);
}

typedef struct said {
  const char *key, *text;
} said;

static tp_answer say(void *ctx, tp_call *call) {
  const said *what = *(const said **)ctx;
  assert_int_equal(tp_call_emit_diagnostic(call, TP_SEVERITY_WARNING, what->key, what->text, NULL), TP_OK);
  assert_int_equal(tp_call_emit_audit(call, what->key, what->text, NULL), TP_OK);
  return tp_call_phase(call) == TP_PHASE_TURN_INTAKE ? tp_call_deny(call, what->text)
                                                     : tp_call_fail(call, 7, what->text);
}

static void add_saying(tp_runtime *runtime, const char *id, uint32_t phase, tp_handler_fn run, void *ctx) {
  hook one = {.id = id, .phase = phase, .run = run, .ctx = ctx};
  add_hooks(runtime, &one, 1);
}

/* A handler that says each secret in phases of each kind: it denies, and it fails. */
static void run_saying(kept *k, tp_runtime_options options, const said *whats, size_t count) {
  static const uint32_t phases[] = {TP_PHASE_TURN_INTAKE, TP_PHASE_TURN_PRE_POLICY, TP_PHASE_TOOL_PRE};
  tp_runtime *runtime = open_kept(k, options);
  tp_listener listener = {.struct_size = sizeof listener, .on_event = keep_event, .ctx = k};
  const said *what = NULL;
  assert_int_equal(tp_runtime_listen(runtime, &listener, NULL, NULL), TP_OK);
  for (size_t i = 0; i < COUNT(phases); i++) {
    char id[16];
    snprintf(id, sizeof id, "h%zu", i);
    add_saying(runtime, id, phases[i], say, &what);
  }
  for (size_t i = 0; i < count * COUNT(phases); i++) {
    what = &whats[i / COUNT(phases)];
    tp_turn *turn = begin_bare(runtime, 60000);
    (void)run_phase(turn, phases[i % COUNT(phases)], NULL);
    tp_turn_end(turn);
  }
  close_kept(k, runtime);
}

/* Searches for every part of four bytes, and shows the text around a match. */
static void expect_no_part(const kept *k, const char *label) {
  for (const char *part = SECRET; part[3]; part++) {
    const char *at = memmem(k->text, k->size, part, 4);
    if (at) fail_msg("%s: %.*s", label, (int)(k->text + k->size - at > 80 ? 80 : k->text + k->size - at), at);
  }
}

static void make_texts(char texts[][8192], size_t count) {
  static const size_t cuts[] = {100, 126, 200, 250,  256,  470,  500,  504, 506,
                                508, 511, 512, 4080, 4090, 4093, 4096, 5000};
  static const char *const shapes[] = {SECRET,
                                       "the key " SECRET " is wrong",
                                       SECRET " at the start",
                                       "at the end " SECRET,
                                       "twice " SECRET " and " SECRET,
                                       "glued" SECRET "to" SECRET "others",
                                       "\xc3\xa9" SECRET "\xe2\x82\xac",
                                       "{\"key\":\"" SECRET "\"}",
                                       "https://example.com/?key=" SECRET "&b=1",
                                       "Authorization: Bearer " SECRET "\r\n",
                                       "line\n" SECRET "\nline"};
  assert_int_equal(count, COUNT(shapes) + 2 * COUNT(cuts));
  for (size_t i = 0; i < COUNT(shapes); i++) snprintf(texts[i], sizeof texts[i], "%s", shapes[i]);
  for (size_t i = 0; i < 2 * COUNT(cuts); i++) {
    char *text = texts[COUNT(shapes) + i];
    memset(text, 'x', cuts[i / 2]);
    for (size_t at = 0; i % 2 && at < cuts[i / 2]; at += 7) text[at] = ' ';
    snprintf(text + cuts[i / 2], sizeof texts[i] - cuts[i / 2], "%s is the key", SECRET);
  }
}

TEST(texts_leave_redacted_and_never_with_a_part_of_the_secret) {
  static const struct {
    const char *label;
    tp_redact_fn redact;
    const char *left;
  } cases[] = {{"a callback that hides it", hide, "the key ************ is wrong"},
               {"one that fails", refuse, "[redacted]"},
               {"one that leaves too much", grow, "[redacted]"},
               {"one that leaves no UTF-8", spoil, "[redacted]"}};
  static char texts[45][8192];
  said whats[COUNT(texts)];
  make_texts(texts, COUNT(texts));
  for (size_t n = 0; n < COUNT(texts); n++) whats[n] = (said){"note", texts[n]};
  for (size_t i = 0; i < COUNT(cases); i++) {
    kept k = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    run_saying(&k, (tp_runtime_options){.redact = cases[i].redact}, whats, COUNT(texts));
    expect_no_part(&k, cases[i].label);
    if (!has(&k, cases[i].left)) fail_msg("%s: nothing of it is left", cases[i].label);
    free(k.text);
    remove_data();
  }
}

#define PHRASE "key alpha bravo charlie delta echo foxtrot end"

/* Takes out whole phrases, so that what was far after comes to the front. */
static bool remove_phrases(void *ctx, tp_redaction *redaction) {
  (void)ctx;
  for (char *at; (at = memmem(redaction->text, redaction->size, PHRASE, strlen(PHRASE)));) {
    redaction->size -= strlen(PHRASE);
    memmove(at, at + strlen(PHRASE), (size_t)(redaction->text + redaction->size - at));
  }
  return true;
}

/* The cut at 4,096 bytes falls on each word of a secret with blanks, and the text before it is removed. */
TEST(part_of_a_secret_with_blanks_at_a_cut_never_leaves) {
  static char texts[64][8192];
  said whats[COUNT(texts)];
  for (size_t i = 0; i < COUNT(texts); i++) {
    size_t used = (size_t)snprintf(texts[i], sizeof texts[i], "%0*d", (int)i + 1, 0);
    while (used + sizeof PHRASE < 5000)
      used += (size_t)snprintf(texts[i] + used, sizeof texts[i] - used, "%s ", PHRASE);
    whats[i] = (said){"note", texts[i]};
  }
  kept k = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  run_saying(&k, (tp_runtime_options){.redact = remove_phrases}, whats, COUNT(texts));
  for (const char *const *part = (const char *const[]){"alpha", "bravo", "charlie", "delta", "echo", "foxtrot", NULL};
       *part; part++)
    if (has(&k, *part)) fail_msg("%s is left", *part);
  free(k.text);
}

/* A text that was cut keeps its head, and one that was not keeps its end. */
TEST(text_that_was_cut_loses_its_end_alone) {
  static char long_text[6000];
  memset(long_text, 'x', sizeof long_text - 1);
  for (size_t at = 7; at < sizeof long_text - 1; at += 8) long_text[at] = ' ';
  memcpy(long_text, "the head", 8);
  const said whats[] = {{"note", long_text}, {"note", "a short text and its end"}};
  kept k = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  run_saying(&k, (tp_runtime_options){.redact = hide}, whats, 2);
  assert_true(has(&k, "the head"));
  assert_true(has(&k, "a short text and its end"));
  free(k.text);
}

TEST(without_a_callback_texts_leave_as_they_are) {
  kept k = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  run_saying(&k, (tp_runtime_options){0}, &(said){"note", "the key " SECRET}, 1);
  assert_true(has(&k, SECRET));
  free(k.text);
  remove_data();
}

TEST(keys_of_contributions_are_redacted) {
  kept k = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  run_saying(&k, (tp_runtime_options){.redact = hide}, &(said){"the " SECRET, "text"}, 1);
  expect_no_part(&k, "key");
  assert_true(has(&k, "the ************"));
  free(k.text);
  remove_data();
}

/* ---- turns ---- */

static tp_answer deny_with_secret(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_deny(call, "the key " SECRET " was found");
}

/* The name of a tool is what a model wrote. */
TEST(results_and_records_of_turns_are_redacted) {
  static const char script[] =
      "{\"responses\":"
      "[{\"tool_calls\":[{\"name\":\"" SECRET "\",\"arguments\":{}}]},{\"text\":\"done\"}]}";
  for (int denies = 0; denies < 2; denies++) {
    kept k = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    tp_runtime *runtime = open_kept(&k, (tp_runtime_options){.redact = hide});
    tp_model *model;
    tp_fault fault;
    const tp_turn_result *result;
    if (denies) add_saying(runtime, "guard", TP_PHASE_TURN_INTAKE, deny_with_secret, NULL);
    assert_int_equal(tp_script_model_decode(script, &model, &fault), TP_OK);
    tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = model};
    tp_session *session;
    assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
    tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    keep(&k, result->reason.data, result->reason.size);
    if (denies) assert_true(tp_text_is(result->bare_reason, "the key " SECRET " was found"));
    tp_turn_result_free(result);
    tp_session_close(session, NULL, NULL);
    close_kept(&k, runtime);
    expect_no_part(&k, denies ? "a denied turn" : "a tool that is not there");
    assert_true(has(&k, "************"));
    free(k.text);
    remove_data();
  }
}

/* ---- the memory ---- */

static tp_model *script_of(const char *json) {
  tp_model *model;
  tp_fault fault;
  if (tp_script_model_decode(json, &model, &fault) != TP_OK) fail_msg("%s", fault.message);
  return model;
}

static void remember(tp_runtime *runtime, const char *text) {
  tp_writer *writer;
  const tp_task_result *result;
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "memory_remember"};
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_write_map(writer, 1);
  tp_write_string(writer, "text");
  tp_write_string(writer, text);
  assert_int_equal(tp_writer_finish(writer, &spec.arguments), TP_OK);
  assert_int_equal(tp_task_call(runtime, &spec, &result, NULL), TP_OK);
  assert_int_equal(result->kind, TP_TOOL_OK);
  tp_task_result_free(result);
  tp_writer_free(writer);
}

/* The model reads what was said; the file of the memory has no part of it. */
TEST(memory_stores_what_is_redacted) {
  static const char extracts[] =
      "{\"responses\":[{\"text\":\"{\\\"facts\\\":[{\\\"subject\\\":\\\"key " SECRET
      "\\\",\\\"statement\\\":\\\"The key is " SECRET ".\\\",\\\"quote\\\":\\\"my key is " SECRET
      "\\\",\\\"replaces\\\":null}]}\"}],\"repeat\":true}";
  for (int is_long = 0; is_long < 2; is_long++) {
    char text[5000], file[128];
    kept k = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    tp_runtime *runtime = open_kept(&k, (tp_runtime_options){.redact = hide});
    tp_edit *edit;
    tp_session *session;
    const tp_turn_result *result;
    snprintf(file, sizeof file, "%s/data/memory.db", directory);
    tp_memory_options memory = {
        .struct_size = sizeof memory, .path = file, .keep_assistant = true, .model = script_of(extracts)};
    assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
    assert_int_equal(tp_memory_register(edit, &memory, NULL), TP_OK);
    assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
    tp_session_options options = {.struct_size = sizeof options,
                                  .id = "s",
                                  .model = script_of("{\"responses\":[{\"text\":\"Kept: " SECRET "\"}]}")};
    assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
    snprintf(text, sizeof text, "my key is %s", SECRET);
    for (size_t size = strlen(text); is_long && size < 4090; size++) text[size] = size % 5 ? 'y' : ' ';
    if (is_long) snprintf(text + 4090, sizeof text - 4090, " %s", SECRET); /* across the preview's end */
    tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    tp_turn_result_free(result);
    remember(runtime, "the key " SECRET " again");
    assert_int_equal(tp_jobs_wait(runtime, "", 60000, NULL), TP_OK);
    tp_session_close(session, NULL, NULL);
    close_kept(&k, runtime);
    expect_no_part(&k, is_long ? "a long text" : "a short one");
    assert_true(has(&k, "my key is ************") && has(&k, "The key is ************."));
    assert_true(has(&k, "Kept: ************") && has(&k, "the key ************ again"));
    free(k.text);
    remove_data();
  }
}

/* ---- patterns of files ---- */

static tp_redactor *read_patterns(const char *yaml) {
  tp_redactor *redactor;
  tp_fault fault;
  write_named("secrets.yaml", yaml);
  assert_int_equal(tp_redactor_new(&redactor, NULL), TP_OK);
  if (tp_redactor_read(redactor, directory, &fault) != TP_OK) fail_msg("%s: %s", yaml, fault.message);
  return redactor;
}

static void expect_redacted(const char *pattern, const char *text, const char *expected) {
  char yaml[1024], buffer[8192];
  snprintf(yaml, sizeof yaml, "kind: redact\nredact:\n  - %s\n", pattern);
  tp_redactor *redactor = read_patterns(yaml);
  tp_redaction redaction = {.struct_size = sizeof redaction,
                            .place = TP_REDACT_RECORD,
                            .text = buffer,
                            .size = strlen(text),
                            .capacity = sizeof buffer};
  memcpy(buffer, text, redaction.size);
  assert_int_equal(tp_redactor_count(redactor), 1);
  assert_true(tp_redactor_redact(redactor, &redaction));
  if (!tp_text_is((tp_text){buffer, redaction.size}, expected))
    fail_msg("%s of %s: %.*s", pattern, text, (int)redaction.size, buffer);
  tp_redactor_free(redactor);
}

TEST(patterns_of_a_file_take_secrets_out_of_texts) {
  static const char *const cases[][3] = {
      {"sk-live-[0-9]{4}", "the key sk-live-0123 is wrong", "the key [redacted] is wrong"},
      {"sk-live-[0-9]{4}", "sk-live-0123", "[redacted]"},
      {"sk-live-[0-9]{4}", "sk-live-0123sk-live-4567", "[redacted][redacted]"},
      {"sk-live-[0-9]{4}", "sk-live-012 stays", "sk-live-012 stays"},
      {"{name: key, pattern: 'sk-live-\\d+'}", "a sk-live-0123 b sk-live-9 c", "a [redacted:key] b [redacted:key] c"},
      {"{pattern: 'sk-live-\\d+', ignore_case: true}", "SK-LIVE-0123", "[redacted]"},
      {"'sk-live-\\d+'", "SK-LIVE-0123", "SK-LIVE-0123"},
      {"{pattern: 'pin: *\\d+', replacement: 'pin: ***'}", "pin:42, pin: 7", "pin: ***, pin: ***"},
      {"{pattern: 'x+', replacement: ''}", "axxb", "ab"},
      {"'password: \\S+'", "{\"text\": \"password: hunter2\"}", "{\"text\": \"[redacted]"},
      {"'(?:A3T|AKIA)[0-9A-Z]{16}'", "id AKIAABCDEFGHIJKLMNOP.", "id [redacted]."},
      {"'p\xc3\xa4ss'", "das p\xc3\xa4ssw\xc3\xb6rt", "das [redacted]w\xc3\xb6rt"},
      {"'k[^a-z ]'", "\xc3\xa4k\xc3\xb6\xe2\x82\xac", "\xc3\xa4[redacted]\xe2\x82\xac"},
      {"'^key=.*'", "key=1\nkey=2", "[redacted]"},
      {"'^key'", "key key", "[redacted] key"},
      {"'-----BEGIN [A-Z ]*KEY-----[^-]*(-----END [A-Z ]*KEY-----)?'", "-----BEGIN RSA KEY-----\nAAAA\nBBBB",
       "[redacted]"},
      {"'[?&]key=[^& ]+'", "https://e.com/?a=1&key=abc&b=2", "https://e.com/?a=1[redacted]&b=2"},
      {"'\\bbearer +[a-z0-9]{3,}'", "bearer abc1 forbearer ab", "[redacted] forbearer ab"}};
  for (size_t i = 0; i < COUNT(cases); i++) expect_redacted(cases[i][0], cases[i][1], cases[i][2]);
}

TEST(patterns_that_cannot_be_used_are_refused_with_their_place) {
  static const struct {
    const char *yaml, *why;
    uint32_t line;
  } cases[] = {{"kind: redact\n", "redact is a list", 1},
               {"kind: redact\nredact: []\n", "redact is a list", 2},
               {"kind: redact\nredact: sk\n", "redact is a list", 2},
               {"kind: redact\nredacts: [a]\n", "redacts", 2},
               {"kind: redact\nredact:\n  - a\n  - 'b*'\n", "fits the empty text", 4},
               {"kind: redact\nredact: ['']\n", "is empty", 2},
               {"kind: redact\nredact: ['a|']\n", "fits the empty text", 2},
               {"kind: redact\nredact: ['^']\n", "fits the empty text", 2},
               {"kind: redact\nredact: ['\\b']\n", "fits the empty text", 2},
               {"kind: redact\nredact: [7]\n", "put a number in quotes", 2},
               {"kind: redact\nredact: ['(a)\\1']\n", "escapes", 2},
               {"kind: redact\nredact: ['(a']\n", "not well formed", 2},
               {"kind: redact\nredact: ['(?i)a']\n", "of groups", 2},
               {"kind: redact\nredact: ['(a{20}b){20}']\n", "in another one", 2},
               {"kind: redact\nredact: ['((a{20}))*{20}']\n", "nothing to repeat", 2},
               {"kind: redact\nredact: ['a{255}b{255}c{255}d{255}e{255}']\n", "add up", 2},
               {"kind: redact\nredact: ['a{256}']\n", "up to 255", 2},
               {"kind: redact\nredact: ['a{2,1}']\n", "up to 255", 2},
               {"kind: redact\nredact: [{name: n}]\n", "pattern is missing", 2},
               {"kind: redact\nredact: [{pattern: a, name: 'a b'}]\n", "letters, digits", 2},
               {"kind: redact\nredact: [{pattern: a, ignorecase: true}]\n", "ignorecase", 2},
               {"kind: redact\nredact: [{pattern: a, ignore_case: 'yes'}]\n", "true or false", 2}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_redactor *redactor;
    tp_hooks *hooks;
    tp_fault fault = {0}, other = {0};
    write_named("secrets.yaml", cases[i].yaml);
    assert_int_equal(tp_redactor_new(&redactor, NULL), TP_OK);
    tp_status status = tp_redactor_read(redactor, directory, &fault);
    if (status != TP_ERR_MALFORMED || !strstr(fault.message, cases[i].why) || fault.line != cases[i].line)
      fail_msg("%s: %s at %u", cases[i].yaml, fault.message, fault.line);
    assert_true(strstr(fault.subject, "secrets.yaml"));
    tp_redactor_free(redactor);
    tp_runtime *runtime = open_runtime(NULL);
    tp_hooks_options options = {.struct_size = sizeof options, .directory = directory};
    assert_int_equal(tp_hooks_read(runtime, &options, &hooks, &other), TP_ERR_MALFORMED);
    assert_string_equal(other.message, fault.message);
    close_runtime(runtime);
  }
}

/* What is accepted takes effect, or the commit is refused. */
TEST(hooks_with_patterns_need_a_runtime_that_uses_them) {
  static const char patterns[] = "kind: redact\nredact: [abc]\n";
  for (int way = 0; way < 3; way++) {
    tp_redactor *redactor = read_patterns(patterns);
    tp_runtime_options options = {.struct_size = sizeof options, .redact = way > 0 ? tp_redactor_redact : NULL};
    if (way > 0) options.redact_ctx = redactor;
    tp_runtime *runtime = open_runtime(&options);
    tp_hooks *hooks;
    tp_fault fault = {0};
    if (way == 2) write_named("secrets.yaml", "kind: redact\nredact: [abcd]\n");
    tp_hooks_options from = {.struct_size = sizeof from, .directory = directory};
    assert_int_equal(tp_hooks_read(runtime, &from, &hooks, &fault), TP_OK);
    tp_status status = tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault);
    if (status != (way == 1 ? TP_OK : TP_ERR_USAGE)) fail_msg("way %d: %s", way, fault.message);
    if (way != 1) assert_non_null(strstr(fault.message, way == 0 ? "tp_redactor_read()" : "start it again"));
    tp_hooks_free(hooks);
    close_runtime(runtime);
    tp_redactor_free(redactor);
  }
}

TEST(a_long_text_is_redacted_in_bounded_time_and_space) {
  tp_redactor *redactor = read_patterns("kind: redact\nredact: ['a', {pattern: 'b.*c', name: b}, '(x+x+)+y']\n");
  char buffer[8192];
  tp_redaction redaction = {.struct_size = sizeof redaction, .text = buffer, .size = 4096, .capacity = sizeof buffer};
  memset(buffer, 'a', sizeof buffer);
  assert_false(tp_redactor_redact(redactor, &redaction)); /* 40,960 bytes: more than there is space for */
  memset(buffer, 'x', sizeof buffer);
  redaction.size = 4096;
  assert_true(tp_redactor_redact(redactor, &redaction));
  assert_int_equal(redaction.size, 4096);
  assert_int_equal(tp_redactor_count(NULL), 0);
  tp_redactor_free(redactor);
  tp_redactor_free(NULL);
}

TEST(a_context_without_its_callback_is_refused) {
  tp_runtime *runtime;
  tp_fault fault = {0};
  tp_runtime_options options = {.struct_size = sizeof options, .redact_ctx = &fault};
  assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "redact_ctx"));
}
