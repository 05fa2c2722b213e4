/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools that are declared in a file: the meaning of each end of the program, the keys of calls, refusals. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "turnphase/task.h"

#define BAD "\xEF\xBF\xBD"
#define HEAD "kind: tool\nname: t\ndescription: A tool.\n"

/* @param more  of the file. */
static tp_runtime *open_tool(const char *script, const char *more) {
  char text[1024];
  write_named("t.sh", script);
  snprintf(text, sizeof text, HEAD "command: [sh, t.sh]\n%s", more);
  write_named("a.yaml", text);
  return open_with_hooks(NULL);
}

static tp_tool_result_kind call(tp_runtime *runtime, tp_text arguments, char ret_text[512]) {
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t", .arguments = arguments};
  const tp_task_result *result;
  tp_fault fault = {0};
  if (tp_task_call(runtime, &spec, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_tool_result_kind kind = result->kind;
  snprintf(ret_text, 512, "%.*s", (int)result->text.size, result->text.data);
  tp_task_result_free(result);
  return kind;
}

FOR_EACH_TEST(make_directory, remove_directory);

TEST(end_of_the_program_is_the_result) {
  static const struct {
    const char *script, *more;
    tp_tool_result_kind kind;
    const char *text;
  } cases[] = {
      {"cat", "", TP_TOOL_OK, "{\"n\":7}\n"},
      {"echo done", "", TP_TOOL_OK, "done"},
      {"printf 'a\\n\\n'", "", TP_TOOL_OK, "a\n"},
      {"true", "", TP_TOOL_OK, ""},
      {"echo noise >&2; echo done", "", TP_TOOL_OK, "done"},
      {"echo part; echo no disk >&2; exit 3", "", TP_TOOL_HANDLER_ERROR,
       "the program exited with code 3: no disk\nits output:\npart"},
      {"echo no disk >&2; exit 3", "", TP_TOOL_HANDLER_ERROR, "the program exited with code 3: no disk"},
      {"printf 'a\\nb\\n\\n'; printf 'c\\n\\n' >&2; exit 3", "", TP_TOOL_HANDLER_ERROR,
       "the program exited with code 3: c\nits output:\na\nb"},
      {"echo ' ' >&2; echo part; exit 3", "", TP_TOOL_HANDLER_ERROR, "the program exited with code 3: part"},
      {"printf 'a\\377'; printf 'b\\376' >&2; exit 3", "", TP_TOOL_HANDLER_ERROR,
       "the program exited with code 3: b" BAD "\nits output:\na" BAD},
      {"echo part; echo why >&2; kill -KILL $$", "", TP_TOOL_HANDLER_ERROR,
       "the program was killed by signal 9: why\nits output:\npart"},
      {"echo only this; exit 1", "", TP_TOOL_HANDLER_ERROR, "the program exited with code 1: only this"},
      {"exit 1", "", TP_TOOL_HANDLER_ERROR, "the program exited with code 1"},
      {"printf '\\377' >&2; exit 1", "", TP_TOOL_HANDLER_ERROR, "the program exited with code 1: " BAD},
      {"kill -KILL $$", "", TP_TOOL_HANDLER_ERROR, "the program was killed by signal 9"},
      {"printf '\\377'", "", TP_TOOL_OK, BAD},
      {"printf 'caf\\351 au lait'", "", TP_TOOL_OK, "caf" BAD " au lait"},
      {"printf '\\300\\257'", "", TP_TOOL_OK, BAD BAD},
      {"printf 'a\\355\\240\\200z'", "", TP_TOOL_OK, "a" BAD BAD BAD "z"},
      {"printf 'cut \\342\\202'", "", TP_TOOL_OK, "cut " BAD BAD},
      {"printf '\\376\\377x\\n'", "", TP_TOOL_OK, BAD BAD "x"},
      {"printf 'caf\\351' >&2; exit 1", "", TP_TOOL_HANDLER_ERROR, "the program exited with code 1: caf" BAD},
      {"printf 'a\\377b\\n'; exit 2", "", TP_TOOL_HANDLER_ERROR, "the program exited with code 2: a" BAD "b"},
      {"printf '\\3770123456789'", "result_bytes_max: 8\n", TP_TOOL_OK, BAD "0\n[… 5 bytes left out …]\n6789"},
      {"exec tr '\\000' y </dev/zero", "result_bytes_max: 100\n", TP_TOOL_HANDLER_ERROR,
       "the program wrote more than 8 MiB of output, or 64\n[… 8388574 bytes left out …]\n"
       "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"},
      {"exec yes >&2", "result_bytes_max: 66\n", TP_TOOL_HANDLER_ERROR, NULL},
      {"head -c 3000000 /dev/zero | tr '\\000' y", "result_bytes_max: 4\n", TP_TOOL_OK,
       "yy\n[… 2999996 bytes left out …]\nyy"},
      {"printf 0123456789", "result_bytes_max: 4\n", TP_TOOL_OK, "01\n[… 6 bytes left out …]\n89"},
      {"exec sleep 100", "timeout_ms: 30\n", TP_TOOL_TIMED_OUT, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    tp_runtime *runtime = open_tool(cases[i].script, cases[i].more);
    tp_tool_result_kind kind = call(runtime, (tp_text)TEXT("\x81\xa1n\x07"), text);
    const char *want = cases[i].text;
    if (want && want[0] == '{') want = "{\"n\":7}"; /* the newline at the end goes */
    if (kind != cases[i].kind || (want && strcmp(text, want) != 0))
      fail_msg("%s: %s: %s", cases[i].script, tp_tool_result_name(kind), text);
    close_runtime(runtime);
  }
}

/* ---- answers with parts ---- */

#define ITEMS(items) "{\"content\": [" items "]}"
#define SAID(text) "{\"type\": \"text\", \"text\": \"" text "\"}"
#define IMAGE(data) "{\"type\": \"image\", \"data\": \"" data "\", \"mimeType\": \"image/png\"}"
#define GIF "{\"type\": \"image\", \"data\": \"R0lGODlh\", \"mimeType\": \"image/gif\"}"
#define GIF_SHOWN "image (image/gif, 6 bytes)"

/* The answer as text: its text, its value as JSON, then one line for each part. */
static void show_answer(const tp_task_result *result, char text[2048]) {
  tp_writer *writer;
  int size = snprintf(text, 2048, "%.*s", (int)result->text.size, result->text.data);
  tp_text json = {"", 0};
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  if (result->value.size > 0) assert_int_equal(tp_json_encode(result->value, writer, &json, NULL), TP_OK);
  if (json.size > 0) size += snprintf(text + size, 2048 - (size_t)size, "\n= %s", json.data);
  for (tp_value_walk walk = {0}; tp_value_next(result->parts, &walk);) {
    tp_part part = {.struct_size = sizeof part};
    char line[256];
    assert_int_equal(tp_part_read(walk.value, &part, NULL), TP_OK);
    tp_part_describe(&part, line, sizeof line);
    tp_text content = part.kind == TP_PART_TEXT ? part.text : part.bytes;
    bool shows = part.kind == TP_PART_TEXT || part.kind == TP_PART_FILE;
    size += snprintf(text + size, 2048 - (size_t)size, "\n* %s%s%.*s", line, shows ? " " : "",
                     shows ? (int)content.size : 0, content.data ? content.data : "");
  }
  tp_writer_free(writer);
}

TEST(program_answers_with_parts) {
  static const struct {
    const char *output, *more, *shown;
    bool is_error;
  } cases[] = {
      {ITEMS(SAID("Two peaks.") ", " GIF), "", "Two peaks.\n* " GIF_SHOWN, false},
      {ITEMS(GIF ", " SAID("below")), "", "\n* " GIF_SHOWN "\n* text (5 bytes) below", false},
      {ITEMS(SAID("a") ", " SAID("b") ", " GIF ", " SAID("c")), "", "a\nb\n* " GIF_SHOWN "\n* text (1 byte) c", false},
      {"\n  " ITEMS(SAID("a")) "\n\n", "", "a", false},
      {ITEMS(""), "", "", false},
      {"{\"content\": [], \"structuredContent\": {\"n\": 1}}", "", "{\"n\":1}\n= {\"n\":1}", false},
      {"{\"content\": [" SAID("one") "], \"structuredContent\": {\"n\": 1}, \"_meta\": {}, \"isError\": false}", "",
       "one\n= {\"n\":1}", false},
      {"{\"content\": [" SAID("one") "], \"structuredContent\": null}", "", "one", false},
      {"{\"content\": [" SAID("no such city") "], \"isError\": true}", "", "no such city", true},
      {ITEMS("{\"type\": \"audio\", \"data\": \"UklGRg==\", \"mimeType\": \"audio/wav\"}"), "",
       "\n* audio (audio/wav, 4 bytes)", false},
      {ITEMS("{\"type\": \"resource_link\", \"uri\": \"file:///r.html\", \"name\": \"r\", \"title\": \"Report\", "
             "\"description\": \"of May\", \"mimeType\": \"text/html\", \"size\": 7}"),
       "", "\n* link Report <file:///r.html> (text/html, 7 bytes): of May", false},
      {ITEMS("{\"type\": \"resource\", \"resource\": {\"uri\": \"file:///a.md\", \"mimeType\": \"text/markdown\", "
             "\"text\": \"# A\"}}"),
       "", "\n* file <file:///a.md> (text/markdown, 3 bytes) # A", false},
      {ITEMS("{\"type\": \"resource\", \"resource\": {\"uri\": \"file:///a\", \"text\": \"A\"}}"), "",
       "\n* file <file:///a> (text/plain, 1 byte) A", false},
      {ITEMS("{\"type\": \"resource\", \"resource\": {\"uri\": \"file:///a.bin\", \"blob\": \"Ynl0ZXM=\"}}"), "",
       "\n* file <file:///a.bin> (5 bytes) bytes", false},
      {ITEMS("{\"type\": \"image\", \"data\": \"data:image/png;base64,iVBORw==\"}"), "",
       "\n* image (image/png, 6 bytes)", false},
      {ITEMS(IMAGE("aVZC\\nT1J3\\n")), "", "\n* image (image/png, 6 bytes)", false}, /* as base64(1) breaks lines */
      {ITEMS("{\"type\": \"text\", \"text\": \"a\", \"annotations\": {\"audience\": [\"user\"]}}"), "", "a", false},
      {ITEMS(SAID("caf\xe9") ", " GIF), "",
       "caf" BAD "\n[1 byte was not UTF-8 in the answer: U+FFFD stands for each]\n* " GIF_SHOWN, false},
      /* what cannot be a part is named, and the rest is there */
      {ITEMS(SAID("a") ", " IMAGE("iVB*") ", " GIF), "", "content[1].data is not base64\na\n* " GIF_SHOWN, true},
      {ITEMS(IMAGE("iVBOR") ", " SAID("a")), "", "content[0].data is not base64\na", true},
      {ITEMS(IMAGE("") ", " SAID("a")), "", "content[0].data has no bytes\na", true},
      {ITEMS("{\"type\": \"image\", \"mimeType\": \"image/png\"}"), "",
       "content[0].data is missing: the content in base64", true},
      {ITEMS("{\"type\": \"image\", \"data\": 7, \"mimeType\": \"image/png\"}"), "", "content[0].data must be text",
       true},
      {ITEMS("{\"type\": \"image\", \"data\": \"R0lG\"}"), "",
       "content[0].mimeType is missing: what data is, such as \"image/png\"", true},
      {ITEMS("{\"type\": \"image\", \"data\": \"R0lG\", \"mimeType\": \"png\"}"), "",
       "content[0].mimeType must be such as \"image/png\"", true},
      {ITEMS("{\"type\": \"text\"}"), "", "content[0].text is missing", true},
      {ITEMS("{\"type\": \"resource\"}"), "", "content[0].resource must be a map with text or blob", true},
      {ITEMS("{\"type\": \"resource\", \"resource\": {\"uri\": \"a:b\"}}"), "",
       "content[0].blob is missing: the content in base64", true},
      {ITEMS("{\"type\": \"resource_link\", \"name\": \"x\"}"), "", "content[0].uri is missing: what the link names",
       true},
      {ITEMS("{\"type\": \"resource_link\", \"uri\": \"a:b\", \"size\": -1}"), "",
       "content[0].size must be a number of bytes", true},
      {ITEMS(GIF ", {\"type\": \"video\", \"data\": \"AA\"}, " SAID("a")), "",
       "content[1].type is none of text, image, audio, resource and resource_link:\n"
       "{\"type\":\"video\",\"data\":\"AA\"}\n* " GIF_SHOWN "\n* text (1 byte) a",
       true},
      {"{\"content\": [" SAID("a") "], \"isError\": 1}", "", "isError must be true or false\na", true},
      /* what does not fit is left out by the tool's own limits */
      {ITEMS(SAID("0123456789")), "result_bytes_max: 4\n", "01\n[… 6 bytes left out …]\n89", false},
      /* other JSON is text */
      {"{\"content\": \"a\"}", "", "{\"content\": \"a\"}", false},
      {"{\"content\": [1]}", "", "{\"content\": [1]}", false},
      {"{\"content\": [{\"text\": \"a\"}]}", "", "{\"content\": [{\"text\": \"a\"}]}", false},
      {"{\"content\": [" SAID("a") "], \"id\": 1}", "", "{\"content\": [" SAID("a") "], \"id\": 1}", false},
      {"[" ITEMS("") "]", "", "[" ITEMS("") "]", false},
      {ITEMS("") ITEMS(""), "", ITEMS("") ITEMS(""), false},
      {"{\"content\": [", "", "{\"content\": [", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char script[1024], text[2048];
    const tp_task_result *result;
    tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t"};
    snprintf(script, sizeof script, "cat <<'END'\n%s\nEND\n", cases[i].output);
    tp_runtime *runtime = open_tool(script, cases[i].more);
    assert_int_equal(tp_task_call(runtime, &spec, &result, NULL), TP_OK);
    show_answer(result, text);
    if ((result->kind != TP_TOOL_OK) != cases[i].is_error || strcmp(text, cases[i].shown) != 0)
      fail_msg("%s: %s: %s", cases[i].output, tp_tool_result_name(result->kind), text);
    tp_task_result_free(result);
    close_runtime(runtime);
  }
}

TEST(program_that_fails_keeps_its_parts) {
  char text[2048];
  const tp_task_result *result;
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t"};
  tp_runtime *runtime = open_tool("echo no disk >&2\ncat <<'END'\n" ITEMS(SAID("half") ", " GIF) "\nEND\nexit 3\n", "");
  assert_int_equal(tp_task_call(runtime, &spec, &result, NULL), TP_OK);
  show_answer(result, text);
  assert_int_equal(result->kind, TP_TOOL_HANDLER_ERROR);
  assert_string_equal(text, "the program exited with code 3: no disk\nhalf\n* " GIF_SHOWN);
  tp_task_result_free(result);
  close_runtime(runtime);
}

/* The core names what is above tp_tool.parts_bytes_max, 4 MiB. */
TEST(part_that_is_too_large_is_named) {
  char text[2048];
  const tp_task_result *result;
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t"};
  tp_runtime *runtime = open_tool(
      "printf '{\"content\": [{\"type\": \"image\", \"mimeType\": \"image/png\", \"data\": \"'\n"
      "head -c 6000000 /dev/zero | tr '\\0' A\nprintf '\"}, " SAID("a") "]}'\n",
      "");
  assert_int_equal(tp_task_call(runtime, &spec, &result, NULL), TP_OK);
  show_answer(result, text);
  assert_int_equal(result->kind, TP_TOOL_OK);
  if (!strstr(text, "4,500,000 bytes") || !strstr(text, "\n* text (1 byte) a")) fail_msg("%s", text);
  tp_task_result_free(result);
  close_runtime(runtime);
}

/* ---- what a file says ---- */

static bool note_tool(void *ctx, const tp_tool_listing *shown) {
  const tp_tool *tool = shown->tool;
  snprintf(ctx, 512, "%s|%s|%s|%d|%u|%u|%u|%s|", tool->name, tool->description, shown->owner, tool->idempotent,
           tool->max_concurrent, tool->limit_ms, tool->result_bytes_max, tool->keys ? "keys" : "");
  return true;
}

TEST(file_says_what_the_tool_is) {
  char text[512] = "";
  tp_runtime *runtime =
      open_tool("true",
                "idempotent: true\nmax_concurrent: 3\ntimeout_ms: 500\nresult_bytes_max: 900\nwrites: repo\n"
                "schema: {type: object, properties: {n: {type: integer}}, required: [n]}\n");
  assert_int_equal(tp_runtime_tools(runtime, note_tool, text, NULL, NULL), TP_OK);
  assert_string_equal(text, "t|A tool.|declared|1|3|500|900|keys|");
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_INVALID_ARGUMENTS);
  assert_int_equal(call(runtime, (tp_text)TEXT("\x81\xa1n\x07"), text), TP_TOOL_OK);
  close_runtime(runtime);
  runtime = open_tool("true", "");
  assert_int_equal(tp_runtime_tools(runtime, note_tool, text, NULL, NULL), TP_OK);
  assert_string_equal(text, "t|A tool.|declared|0|16|120000|0||");
  close_runtime(runtime);
  runtime = open_tool("true", "enabled: false\n");
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_UNKNOWN_TOOL);
  close_runtime(runtime);
}

/* ---- keys ---- */

enum { CALLS_MAX = 3 };

/* Runs calls of one response; arguments are JSON. */
static void run_calls(tp_runtime *runtime, const char *const *arguments, size_t count,
                      void (*look)(void *ctx, const tp_tool_result *const *results), void *ctx) {
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result contributed = run_phase(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL);
  assert_int_equal(contributed.outcome, TP_OK);
  tp_tool_call calls[CALLS_MAX];
  const tp_tool_call *list[CALLS_MAX];
  tp_writer *writers[CALLS_MAX];
  for (size_t i = 0; i < count; i++) {
    tp_text value;
    assert_int_equal(tp_writer_new(NULL, &writers[i]), TP_OK);
    assert_int_equal(tp_json_decode(tp_text_of(arguments[i]), writers[i], NULL), TP_OK);
    assert_int_equal(tp_writer_finish(writers[i], &value), TP_OK);
    calls[i] = (tp_tool_call){.struct_size = sizeof calls[i], .name = TEXT("t"), .arguments = value};
    list[i] = &calls[i];
  }
  const tp_tool_result *const *results;
  tp_fault fault = {0};
  if (tp_tools_run(turn, list, count, &results, &fault) != TP_OK) fail_msg("%s", fault.message);
  look(ctx, results);
  for (size_t i = 0; i < count; i++) tp_writer_free(writers[i]);
  tp_turn_end(turn);
}

static void note_waited_key(void *ctx, const tp_tool_result *const *results) {
  char *text = ctx;
  assert_int_equal(results[0]->kind, TP_TOOL_OK);
  assert_int_equal(results[1]->kind, TP_TOOL_OK);
  assert_int_equal(results[0]->waited_ns, 0);
  snprintf(text, 64, "%.*s", (int)results[1]->waited_key.size, results[1]->waited_key.data);
}

TEST(calls_of_one_key_wait_for_each_other) {
  static const struct {
    const char *key, *one, *other, *waited;
  } cases[] = {
      {"writes: repo", "{}", "{}", "repo"},
      {"reads: repo", "{}", "{}", ""},
      {"reads: repo\nwrites: repo", "{}", "{}", "repo"},
      {"writes: /", "{}", "{}", "/"},
      {"writes: 'files/{path}'", "{\"path\": \"a\"}", "{\"path\": \"./a\"}", "files/a"},
      {"writes: 'files/{path}'", "{\"path\": \"a\"}", "{\"path\": \"/a\"}", "files/a"},
      {"writes: 'files/{path}'", "{\"path\": \"a\"}", "{\"path\": \"b\"}", ""},
      {"writes: 'files/{path}'", "{\"path\": \"a\"}", "{\"path\": \"b/..//a/c\"}", "files/a"},
      {"writes: 'files/{path}'", "{\"path\": \"a\"}", "{\"path\": \"ab\"}", ""},
      {"writes: 'files/{path}'", "{\"path\": \"a\"}", "{}", "files/a"},
      {"writes: 'files/{path}'", "{}", "{\"path\": \"a\"}", "files"},
      {"writes: 'files/{path}'", "{\"path\": \"../x\"}", "{\"path\": \"a\"}", "files"},
      {"writes: 'files/{path}'", "{\"path\": 7}", "{\"path\": 7}", "files/7"},
      {"writes: 'files/{path}'", "{\"path\": 7}", "{\"path\": 8}", ""},
      {"writes: 'files/{path}'", "{\"path\": [1]}", "{\"path\": 8}", "files"},
      {"writes: 'files/{path}'", "{\"path\": \"a\\u0000b\"}", "{\"path\": \"a\"}", "files"},
      {"writes: '{path}'", "{\"path\": \"a\"}", "{\"path\": \"a\"}", "/a"},
      {"writes: '{path}'", "{\"path\": \"a\"}", "{\"path\": \"b\"}", ""},
      {"writes: '{path}'", "{}", "{\"path\": \"b\"}", "/"},
      {"reads: ['{path}', repo]\nwrites: 'files/{path}'", "{\"path\": \"a\"}", "{\"path\": \"a\"}", "files/a"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char more[256], waited[64];
    snprintf(more, sizeof more, "schema: {properties: {path: {}}}\n%s\n", cases[i].key);
    tp_runtime *runtime = open_tool("true", more);
    const char *const arguments[] = {cases[i].one, cases[i].other};
    run_calls(runtime, arguments, 2, note_waited_key, waited);
    if (strcmp(waited, cases[i].waited) != 0)
      fail_msg("%s, %s and %s: waited for `%s`", cases[i].key, cases[i].one, cases[i].other, waited);
    close_runtime(runtime);
  }
}

static void note_kinds(void *ctx, const tp_tool_result *const *results) {
  (void)ctx;
  assert_int_equal(results[0]->kind, TP_TOOL_OK);
  assert_int_equal(results[1]->kind, TP_TOOL_OK);
  assert_string_equal(results[0]->text.data, "met");
}

/* The first one ends when the second one runs. */
TEST(calls_of_different_keys_run_at_once) {
  tp_runtime *runtime = open_tool(
      "case $(cat) in *first*) until [ -e met ]; do sleep 0.01; done;; *) : >met;; esac\n"
      "echo met",
      "schema: {properties: {path: {}}}\nwrites: '{path}'\n");
  const char *const arguments[] = {"{\"path\": \"first\"}", "{\"path\": \"second\"}"};
  run_calls(runtime, arguments, 2, note_kinds, NULL);
  close_runtime(runtime);
}

TEST(argument_that_is_too_long_means_all) {
  char more[] = "schema: {properties: {path: {}}}\nwrites: 'files/{path}'\n", waited[64];
  char longest[1100] = "{\"path\": \"", other[] = "{\"path\": \"z\"}";
  size_t size = strlen(longest);
  memset(longest + size, 'x', 1019);
  longest[size + 1] = '/';
  memcpy(longest + size + 1019, "\"}", 3);
  tp_runtime *runtime = open_tool("true", more);
  const char *const too_long[] = {longest, other};
  run_calls(runtime, too_long, 2, note_waited_key, waited);
  assert_string_equal(waited, "files");
  memcpy(longest + size + 1018, "\"}", 3); /* 1,024 bytes are a key */
  run_calls(runtime, too_long, 2, note_waited_key, waited);
  assert_string_equal(waited, "");
  close_runtime(runtime);
}

/* ---- files ---- */

TEST(what_is_wrong_is_refused_with_its_place) {
  static const struct {
    const char *text;
    tp_status status;
    unsigned line;
    const char *part;
  } cases[] = {
      {"kind: tol\nname: t\n", TP_ERR_MALFORMED, 1, "kind is tool"},
      {"kind: [tool]\n", TP_ERR_MALFORMED, 1, "kind must be text"},
      {"kind: tool\nname: t\nid: t\n", TP_ERR_MALFORMED, 3, "no key \"id\""},
      {"kind: tool\ndescription: d\ncommand: x\n", TP_ERR_MALFORMED, 1, "a tool needs a name"},
      {"kind: tool\nname: a b\n", TP_ERR_BAD_ID, 2, "without white space"},
      {"kind: tool\nname: t\ncommand: x\n", TP_ERR_MALFORMED, 1, "needs a description"},
      {HEAD, TP_ERR_MALFORMED, 1, "needs command"},
      {HEAD "command: ls -l\n", TP_ERR_MALFORMED, 4, "not a line of a shell"},
      {HEAD "command: x\nschema: [1]\n", TP_ERR_MALFORMED, 5, "schema must be a map"},
      {HEAD "command: x\ntimeout_ms: 0\n", TP_ERR_MALFORMED, 5, "timeout_ms must be from 1"},
      {HEAD "command: x\nmax_concurrent: 2000\n", TP_ERR_MALFORMED, 5, "max_concurrent must be from 1 to 1024"},
      {HEAD "command: x\nresult_bytes_max: 2000000\n", TP_ERR_MALFORMED, 5, "result_bytes_max must be"},
      {HEAD "command: x\nidempotent: 1\n", TP_ERR_MALFORMED, 5, "idempotent must be true or false"},
      {HEAD "command: x\nreads: a//b\n", TP_ERR_MALFORMED, 5, "reads takes paths"},
      {HEAD "command: x\nreads: a/\n", TP_ERR_MALFORMED, 5, "reads takes paths"},
      {HEAD "command: x\nreads: ''\n", TP_ERR_MALFORMED, 5, "reads takes paths"},
      {HEAD "command: x\nwrites: a/../b\n", TP_ERR_MALFORMED, 5, "writes takes paths"},
      {HEAD "command: x\nwrites: ['a{n}']\n", TP_ERR_MALFORMED, 5, "writes takes paths"},
      {HEAD "command: x\nwrites: 'a/{n}/b'\n", TP_ERR_MALFORMED, 5, "writes takes paths"},
      {HEAD "command: x\nwrites: 'a/{}'\n", TP_ERR_MALFORMED, 5, "writes takes paths"},
      {HEAD "command: x\nwrites: 'a}'\n", TP_ERR_MALFORMED, 5, "writes takes paths"},
      {HEAD "command: x\nwrites: 'a/{n}'\nschema: {properties: {m: {}}}\n", TP_ERR_MALFORMED, 5,
       "names the argument n, which is no property"},
  };
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tp_hooks *hooks;
    tp_fault fault = {0};
    write_named("a.yaml", cases[i].text);
    tp_status status = read_hooks(runtime, NULL, &hooks, &fault);
    if (status == TP_OK) tp_hooks_free(hooks);
    if (status != cases[i].status || fault.line != cases[i].line || !strstr(fault.message, cases[i].part) ||
        !strstr(fault.subject, "a.yaml"))
      fail_msg("%s: %s: %s:%u: %s", cases[i].text, tp_status_name(status), fault.subject, fault.line, fault.message);
  }
  close_runtime(runtime);
}

TEST(schema_that_cannot_be_used_is_refused_at_the_commit) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  tp_fault fault = {0};
  write_named("a.yaml", HEAD "command: x\nschema: {type: object, properties: {n: {type: numbr}}}\n");
  assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_OK);
  assert_int_not_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault), TP_OK);
  assert_non_null(strstr(fault.subject, "a.yaml"));
  assert_int_equal(fault.line, 2);
  if (!strstr(fault.message, "tool t: schema.properties.n.type: must be null, boolean, "))
    fail_msg("%s", fault.message);
  tp_hooks_free(hooks);
  close_runtime(runtime);
}

TEST(name_is_taken_once_in_a_directory) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  tp_fault fault = {0};
  write_named("a.yaml", "id: t\nevent: tool.post\nhandler: {kind: log, path: x}\n");
  write_named("b.yaml", HEAD "command: x\n");
  assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_ERR_DUPLICATE_ID);
  assert_non_null(strstr(fault.subject, "b.yaml"));
  close_runtime(runtime);
}

TEST(program_that_is_not_what_was_trusted_does_not_run) {
  char text[512];
  tp_runtime *runtime = open_tool("echo good", "");
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_OK);
  write_named("t.sh", "echo evil");
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_HANDLER_ERROR);
  assert_non_null(strstr(text, "not what was trusted"));
  close_runtime(runtime);
}

TEST(program_that_is_not_there_is_an_error_of_the_call) {
  char text[512];
  write_named("a.yaml", HEAD "command: ./missing\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_HANDLER_ERROR);
  assert_non_null(strstr(text, "was not started"));
  close_runtime(runtime);
}

static bool note_info(void *ctx, const tp_hook_info *info) {
  snprintf(ctx, 512, "%s|%s|%s|%u|%s", info->id, info->kind, info->event, info->limit_ms, info->arguments[1]);
  return true;
}

typedef struct heard {
  latch ended;
  tp_process_end end;
  tp_answer answer;
  char input[64], output[64], reason[64];
} heard;

static void hear(void *ctx, const tp_hook_program *program) {
  heard *h = ctx;
  h->answer = program->outcome->kind;
  h->end = program->end;
  snprintf(h->input, sizeof h->input, "%.*s", (int)program->input.size, program->input.data);
  snprintf(h->output, sizeof h->output, "%.*s", (int)program->output.size, program->output.data);
  snprintf(h->reason, sizeof h->reason, "%s", program->outcome->reason ? program->outcome->reason : "");
  latch_hit(&h->ended);
}

TEST(hooks_show_tools_and_their_programs) {
  heard h = {.ended = LATCH};
  char text[512];
  tp_hooks_options options = hooks_options();
  options.on_program = hear;
  options.program_ctx = &h;
  write_named("t.sh", "echo out; exit 2");
  write_named("a.yaml", HEAD "command: [sh, t.sh]\n");
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  assert_int_equal(read_hooks(runtime, &options, &hooks, NULL), TP_OK);
  assert_int_equal(tp_hooks_each(hooks, note_info, text), 1);
  assert_string_equal(text, "t|tool|turn.pre_tool_materialization|120000|t.sh");
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, NULL), TP_OK);
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_HANDLER_ERROR);
  tp_hooks_free(hooks); /* waits for on_program */
  assert_int_equal(h.answer, TP_ANSWER_FAILED);
  assert_string_equal(h.input, "{}\n");
  assert_string_equal(h.output, "out\n");
  assert_string_equal(h.reason, "the program exited with code 2: out");
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_HANDLER_ERROR); /* what is registered stays */
  close_runtime(runtime);
}

TEST(call_that_is_given_up_ends_its_program) {
  heard h = {.ended = LATCH};
  char text[512];
  tp_hooks_options options = hooks_options();
  options.on_program = hear;
  options.program_ctx = &h;
  write_named("a.yaml", HEAD "command: [sleep, '100']\ntimeout_ms: 30\n");
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks;
  assert_int_equal(read_hooks(runtime, &options, &hooks, NULL), TP_OK);
  assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, NULL), TP_OK);
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_TIMED_OUT);
  latch_wait(&h.ended, 1);
  assert_int_equal(h.end, TP_PROCESS_CANCELLED); /* by its token, before its own limit */
  tp_hooks_free(hooks);
  close_runtime(runtime);
}

TEST(tool_is_replaced_with_its_file) {
  char text[512];
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *before, *hooks;
  write_named("t.sh", "echo old");
  write_named("a.yaml", HEAD "command: [sh, t.sh]\n");
  assert_int_equal(read_hooks(runtime, NULL, &before, NULL), TP_OK);
  assert_int_equal(tp_hooks_commit(before, NULL, tp_hooks_hash(before), NULL, NULL), TP_OK);
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_OK);
  assert_string_equal(text, "old");
  write_named("t.sh", "echo new");
  assert_int_equal(read_hooks(runtime, NULL, &hooks, NULL), TP_OK);
  assert_int_equal(tp_hooks_replace(hooks, before, NULL, tp_hooks_hash(hooks), NULL, NULL), TP_OK);
  tp_hooks_free(before);
  tp_hooks_free(hooks);
  assert_int_equal(call(runtime, (tp_text){0}, text), TP_TOOL_OK);
  assert_string_equal(text, "new");
  close_runtime(runtime);
}
