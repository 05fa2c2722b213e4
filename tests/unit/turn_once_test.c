/* SPDX-License-Identifier: Apache-2.0
 *
 * tp_turn_once() and tp_script_play(): one turn in a session of its own. Also the functions that simple hosts use:
 * tp_guard_add(), tp_call_contains(), tp_tool_run_string() and tp_tool_printf(). */
#include <stdio.h>

#include "tests/support/test.h"
#include "tests/support/model.h"

#define HELLO "{\"responses\": [{\"text\": \"Hello!\"}]}"

static char answer[256];
static tp_fault fault;

static tp_status play_once(tp_runtime *runtime, const char *script, const char *text) {
  snprintf(answer, sizeof answer, "untouched");
  fault = (tp_fault){0};
  return tp_script_play(runtime, script, text, answer, sizeof answer, &fault);
}

TEST(the_text_of_the_last_response_is_the_answer) {
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(play_once(runtime, HELLO, "Hi"), TP_OK);
  assert_string_equal(answer, "Hello!");
  assert_int_equal(play_once(runtime, HELLO, NULL), TP_OK); /* each call plays it from its start */
  assert_string_equal(answer, "Hello!");
  close_runtime(runtime);
}

TEST(an_answer_that_does_not_fit_is_refused_with_the_characters_that_do) {
  tp_runtime *runtime = open_runtime(NULL);
  const char *script = "{\"responses\": [{\"text\": \"a\\u00e9\\u20ac\"}]}"; /* 1 + 2 + 3 bytes */
  static const char *const shown[] = {"", "", "a", "a", "a\xC3\xA9", "a\xC3\xA9", "a\xC3\xA9", "a\xC3\xA9\xE2\x82\xAC"};
  for (size_t size = 1; size <= 7; size++) {
    char small[8] = "xxxxxxx";
    tp_fault refused = {0};
    tp_status status = tp_script_play(runtime, script, "Hi", small, size, &refused);
    assert_int_equal(status, size == 7 ? TP_OK : TP_ERR_TOO_LARGE);
    assert_true(size == 7 || strstr(refused.message, "has 6 bytes"));
    assert_string_equal(small, shown[size]);
  }
  close_runtime(runtime);
}

TEST(a_turn_without_text_has_an_empty_answer) {
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(play_once(runtime, "{\"responses\": [{\"text\": \"\"}]}", "Hi"), TP_OK);
  assert_string_equal(answer, "");
  close_runtime(runtime);
}

static tp_answer has_secret(void *ctx, tp_call *call) {
  return tp_call_contains(call, TP_FIELD_TEXT, ctx) ? TP_ANSWER_DENY : TP_ANSWER_ALLOW;
}

TEST(a_denied_turn_names_hook_phase_and_reason) {
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(tp_guard_add(runtime, "discretion", "turn.intake", has_secret, "secret", &fault), TP_OK);
  assert_int_equal(play_once(runtime, HELLO, "a secret, please"), TP_ERR_DENIED);
  assert_string_equal(answer, "untouched");
  assert_int_equal(fault.code, TP_ERR_DENIED);
  assert_int_equal(fault.phase, TP_PHASE_TURN_INTAKE);
  assert_string_equal(fault.subject, "discretion");
  assert_string_equal(fault.message, "turn.intake: hook discretion: denied without a reason");
  assert_int_equal(tp_script_play(runtime, HELLO, "a secret", answer, sizeof answer, NULL), TP_ERR_DENIED);
  assert_int_equal(tp_hook_remove(runtime, "discretion", &fault), TP_OK);
  assert_int_equal(play_once(runtime, HELLO, "a secret, please"), TP_OK);
  close_runtime(runtime);
}

static tp_answer fails(void *ctx, tp_call *call) { return tp_call_fail(call, 7, ctx); }
static tp_answer answers_nothing(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  return TP_ANSWER_NONE;
}

TEST(a_guard_that_fails_denies) {
  static const struct {
    tp_handler_fn run;
    void *ctx;
    const char *message;
  } rows[] = {{fails, "the list is gone", "turn.intake: hook hook-1: the list is gone"},
              {fails, NULL, "turn.intake: hook hook-1: error"},
              {answers_nothing, NULL, "turn.intake: hook hook-1: malformed"}};
  for (size_t i = 0; i < 3; i++) {
    tp_runtime *runtime = open_runtime(NULL);
    assert_int_equal(tp_guard_add(runtime, NULL, "turn.intake", rows[i].run, rows[i].ctx, &fault), TP_OK);
    assert_int_equal(play_once(runtime, HELLO, "Hi"), TP_ERR_DENIED);
    assert_string_equal(fault.message, rows[i].message);
    close_runtime(runtime);
  }
}

TEST(a_guard_without_function_or_phase_is_refused) {
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(tp_guard_add(runtime, "a", "turn.intake", NULL, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_guard_add(runtime, "a", "no.phase", has_secret, NULL, &fault), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(tp_guard_add(runtime, "a b", "turn.intake", has_secret, NULL, &fault), TP_ERR_BAD_ID);
  assert_int_equal(tp_guard_add(runtime, "a", "turn.intake", has_secret, "x", &fault), TP_OK);
  assert_int_equal(tp_guard_add(runtime, "a", "turn.intake", has_secret, "x", &fault), TP_ERR_DUPLICATE_ID);
  close_runtime(runtime);
}

/* ---- a field with a word ---- */

static const struct {
  const char *text, *word;
  bool is_in;
} words[] = {{"a secret", "secret", true},
             {"secret", "secret", true},
             {"secre", "secret", false},
             {"Secret", "secret", false},
             {"sesecret", "secret", true},
             {"secret", "", false},
             {"secret", NULL, false},
             {"", "secret", false},
             {"x", "x", true},
             {"x", "xx", false},
             {"gr\xC3\xBC\xC3\x9F", "\xC3\x9F", true}};

typedef struct looked {
  size_t row;
  bool right;
} looked;

static tp_answer look_for_word(void *ctx, tp_call *call) {
  looked *l = ctx;
  const char *word = words[l->row].word;
  l->right = tp_call_contains(call, TP_FIELD_TEXT, word) == words[l->row].is_in;
  return tp_call_contains(call, TP_FIELD_RESPONSE_TEXT, word) ? TP_ANSWER_DENY : TP_ANSWER_ALLOW; /* not carried */
}

TEST(a_field_has_a_word_or_not) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    looked l = {.row = i};
    tp_runtime *runtime = open_runtime(NULL);
    assert_int_equal(tp_guard_add(runtime, NULL, "turn.intake", look_for_word, &l, &fault), TP_OK);
    if (play_once(runtime, HELLO, words[i].text) != TP_OK) fail_msg("%s", fault.message);
    close_runtime(runtime);
    if (!l.right) fail_msg("row %zu: %s in %s", i, words[i].word ? words[i].word : "NULL", words[i].text);
  }
}

static tp_answer look_past_nul(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_contains(call, TP_FIELD_TEXT, "secret") ? TP_ANSWER_DENY : TP_ANSWER_ALLOW;
}

TEST(a_nul_hides_no_word_from_a_guard) {
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(tp_guard_add(runtime, NULL, "turn.intake", look_past_nul, NULL, &fault), TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  const tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = {"a\0secret", 8}};
  const tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TURN_INTAKE, &input, &result, &fault), TP_OK);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  tp_turn_end(turn);
  close_runtime(runtime);
}

static tp_answer has_command(void *ctx, tp_call *call) {
  bool *saw = ctx;
  *saw = tp_call_contains(call, TP_FIELD_ARGUMENTS, "rm -rf");
  return *saw ? TP_ANSWER_DENY : TP_ANSWER_ALLOW;
}
static tp_answer do_nothing(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, (tp_text){0});
}

TEST(a_field_that_is_a_value_has_its_texts) {
  static const struct {
    const char *arguments;
    bool is_denied;
  } rows[] = {{"{\"command\": \"rm -rf /\"}", true},
              {"{\"command\": [\"sh\", \"-c\", \"ls; rm -rf /\"]}", true},
              {"{\"rm -rf\": 1}", true},
              {"{\"command\": \"rm\"}", false},
              {"{}", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool is_denied = false;
    tp_runtime *runtime = open_runtime(NULL);
    assert_int_equal(tp_guard_add(runtime, NULL, "tool.pre", has_command, &is_denied, &fault), TP_OK);
    char script[256];
    snprintf(script, sizeof script,
             "{\"responses\": [{\"tool_calls\": [{\"name\": \"t\", \"arguments\": %s}]}, {\"text\": \"ok\"}]}",
             rows[i].arguments);
    const tp_tool tool = {.struct_size = sizeof tool, .name = "t", .run = do_nothing};
    assert_int_equal(tp_tool_add(runtime, &tool, &fault), TP_OK);
    assert_int_equal(play_once(runtime, script, "Hi"), TP_OK);
    close_runtime(runtime);
    if (is_denied != rows[i].is_denied) fail_msg("%s", rows[i].arguments);
  }
}

/* ---- tools ---- */

static tp_answer echo(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_printf(run, "[%s]", tp_tool_run_string(run, "city"));
}
static tp_answer answer_long(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_printf(run, "%0*d", 5000, 7);
}
static tp_answer answer_no_utf8(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_printf(run, "\xFF%d", 1);
}
static tp_answer answer_no_format(void *ctx, tp_tool_run *run) {
  const char *none = ctx;
  return tp_tool_printf(run, none, 1);
}

typedef struct heard {
  char text[8192];
  tp_tool_result_kind kind;
} heard;

static void hear_result(void *ctx, const tp_event *event) {
  heard *h = ctx;
  h->kind = event->tool_result->kind;
  snprintf(h->text, sizeof h->text, "%.*s", (int)event->tool_result->text.size, event->tool_result->text.data);
}

static _Atomic bool refuses;
static void *alloc_unless_refused(void *ctx, size_t size) {
  (void)ctx;
  return refuses ? NULL : malloc(size);
}
static void release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

static tp_answer echo_without_memory(void *ctx, tp_tool_run *run) {
  (void)ctx;
  refuses = true;
  const char *city = tp_tool_run_string(run, "city");
  refuses = false;
  return tp_tool_printf(run, "[%s]", city);
}

/* What the tool answers to a call with these arguments, as JSON. */
static heard call_tool(tp_tool_fn run, tp_placement placement, const char *arguments) {
  static char script[200000];
  heard h = {0};
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .allocator = {alloc_unless_refused, release, NULL}};
  tp_runtime *runtime = open_runtime(&options);
  const tp_tool tool = {.struct_size = sizeof tool, .name = "t", .run = run, .placement = placement};
  const tp_listener listener = {
      .struct_size = sizeof listener, .on_event = hear_result, .ctx = &h, .kinds = 1ull << TP_EVENT_TOOL_END};
  assert_int_equal(tp_tool_add(runtime, &tool, &fault), TP_OK);
  assert_int_equal(tp_runtime_listen(runtime, &listener, NULL, &fault), TP_OK);
  snprintf(script, sizeof script,
           "{\"responses\": [{\"tool_calls\": [{\"name\": \"t\", \"arguments\": %s}]}, {\"text\": \"ok\"}]}",
           arguments);
  if (play_once(runtime, script, "Hi") != TP_OK) fail_msg("%s", fault.message);
  close_runtime(runtime);
  return h;
}

TEST(a_text_argument_is_a_string) {
  static const struct {
    const char *arguments, *text;
  } rows[] = {{"{\"city\": \"Oslo\"}", "[Oslo]"},
              {"{\"city\": \"\"}", "[]"},
              {"{}", "[]"},
              {"{\"town\": \"Oslo\"}", "[]"},
              {"{\"city\": 7}", "[]"},
              {"{\"city\": null}", "[]"},
              {"{\"city\": [\"Oslo\"]}", "[]"},
              {"{\"city\": \"Os\\u0000lo\"}", "[]"},
              {"{\"city\": \"%s%n\"}", "[%s%n]"},
              {"{\"city\": \"\\u00c5lesund\"}", "[\xC3\x85lesund]"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (tp_placement placement = TP_PLACEMENT_THREAD; placement <= TP_PLACEMENT_INLINE; placement++) {
      heard h = call_tool(echo, placement, rows[i].arguments);
      assert_int_equal(h.kind, TP_TOOL_OK);
      assert_string_equal(h.text, rows[i].text);
    }
  }
}

TEST(an_argument_without_memory_is_an_error_whatever_is_answered) {
  static char arguments[100000];
  size_t size = (size_t)snprintf(arguments, sizeof arguments, "{\"city\": \"");
  memset(arguments + size, 'o', sizeof arguments - size - 3);
  memcpy(arguments + sizeof arguments - 3, "\"}", 3);
  heard h = call_tool(echo_without_memory, TP_PLACEMENT_INLINE, arguments);
  assert_int_equal(h.kind, TP_TOOL_HANDLER_ERROR);
  assert_string_equal(h.text, "no memory for an argument");
}

TEST(a_printed_answer_may_be_long) {
  heard h = call_tool(answer_long, TP_PLACEMENT_INLINE, "{}");
  assert_int_equal(h.kind, TP_TOOL_OK);
  assert_int_equal(strlen(h.text), 5000);
  assert_int_equal(h.text[4999], '7');
}

TEST(a_printed_answer_without_format_is_an_error_and_one_without_utf8_is_mended) {
  heard h = call_tool(answer_no_utf8, TP_PLACEMENT_INLINE, "{}");
  assert_int_equal(h.kind, TP_TOOL_OK);
  assert_string_equal(h.text,
                      "\xEF\xBF\xBD"
                      "1");
  assert_int_equal(call_tool(answer_no_format, TP_PLACEMENT_INLINE, "{}").kind, TP_TOOL_HANDLER_ERROR);
}

/* ---- models ---- */

static const reply replies[] = {{.text = "one"}, {.text = "two"}, {.fails = TP_ERR_MODEL}};

TEST(a_model_serves_several_turns_and_stays_the_hosts) {
  recorder *r = recorder_new(replies, 3);
  const tp_model *model = recorder_model(r, true);
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(tp_turn_once(runtime, model, "Hi", answer, sizeof answer, &fault), TP_OK);
  assert_string_equal(answer, "one");
  assert_int_equal(tp_turn_once(runtime, model, "Ho", answer, sizeof answer, &fault), TP_OK);
  assert_string_equal(answer, "two");
  assert_string_equal(r->requests[1], "S<>U<Ho>"); /* it is another session: no past */
  assert_int_equal(tp_turn_once(runtime, model, "Hi", answer, sizeof answer, &fault), TP_ERR_MODEL);
  assert_non_null(strstr(fault.message, "as set"));
  assert_string_equal(answer, "two");
  close_runtime(runtime);
  assert_int_equal(r->destroys, 0);
  recorder_free(r);
}

TEST(a_shared_history_of_the_runtime_keeps_no_turn_of_these) {
  tp_history *history;
  tp_shared_history *shared;
  assert_int_equal(tp_history_memory_new(NULL, &history, NULL), TP_OK);
  assert_int_equal(tp_history_share(NULL, history, &shared, NULL), TP_OK);
  tp_runtime_options options = {.struct_size = sizeof options, .shared_history = shared};
  recorder *r = recorder_new(replies, 2);
  for (int i = 0; i < 2; i++) { /* two processes, as it were: both name their sessions alike */
    tp_runtime *runtime = open_runtime(&options);
    assert_int_equal(tp_turn_once(runtime, recorder_model(r, true), "Hi", answer, sizeof answer, &fault), TP_OK);
    close_runtime(runtime);
  }
  assert_string_equal(r->requests[1], "S<>U<Hi>");
  tp_shared_history_unref(shared);
  recorder_free(r);
}

TEST(what_is_not_usable_is_refused_before_anything_is_made) {
  recorder *r = recorder_new(replies, 1);
  tp_model model = *recorder_model(r, true);
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(tp_turn_once(NULL, &model, "Hi", answer, sizeof answer, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_turn_once(runtime, NULL, "Hi", answer, sizeof answer, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_turn_once(runtime, &model, "Hi", NULL, sizeof answer, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_turn_once(runtime, &model, "Hi", answer, 0, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_turn_once(runtime, &model, "\xFF", answer, sizeof answer, &fault), TP_ERR_UTF8);
  assert_int_equal(tp_script_play(runtime, NULL, "Hi", answer, sizeof answer, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_script_play(runtime, "[", "Hi", answer, sizeof answer, &fault), TP_ERR_MALFORMED);
  model.start = NULL;
  assert_int_equal(tp_turn_once(runtime, &model, "Hi", answer, sizeof answer, &fault), TP_ERR_USAGE);
  model.struct_size = 0;
  assert_int_equal(tp_turn_once(runtime, &model, "Hi", answer, sizeof answer, &fault), TP_ERR_VERSION);
  assert_int_equal(r->asked, 0);
  assert_int_equal(r->destroys, 0);
  close_runtime(runtime);
  recorder_free(r);
}

typedef struct inside {
  tp_runtime *runtime;
  tp_status status;
} inside;

static tp_answer play_inside(void *ctx, tp_call *call) {
  inside *i = ctx;
  (void)call;
  i->status = tp_script_play(i->runtime, HELLO, "Hi", answer, sizeof answer, NULL);
  return TP_ANSWER_DONE;
}

TEST(a_handler_runs_no_turn_of_its_own) {
  inside i = {.runtime = open_runtime(NULL)};
  assert_int_equal(tp_guard_add(i.runtime, NULL, "turn.intake", play_inside, &i, &fault), TP_OK);
  assert_int_equal(play_once(i.runtime, HELLO, "Hi"), TP_OK);
  assert_int_equal(i.status, TP_ERR_USAGE);
  close_runtime(i.runtime);
}

TEST(a_drained_runtime_plays_nothing) {
  tp_runtime *runtime = open_runtime(NULL);
  assert_int_equal(tp_runtime_drain(runtime, 0, NULL, NULL), TP_OK);
  assert_int_equal(play_once(runtime, HELLO, "Hi"), TP_ERR_SHUTDOWN);
  close_runtime(runtime);
}

TEST(without_engine_workers_it_runs_on_the_callers_thread) {
  const tp_runtime_options options = {.struct_size = sizeof options, .no_engine_workers = true};
  tp_runtime *runtime = open_runtime(&options);
  assert_int_equal(play_once(runtime, HELLO, "Hi"), TP_OK);
  assert_string_equal(answer, "Hello!");
  close_runtime(runtime);
}

enum { THREADS = 4, ROUNDS = 50 };

static void *play_often(void *ctx) {
  for (int i = 0; i < ROUNDS; i++) {
    char mine[16];
    tp_fault why;
    if (tp_script_play(ctx, HELLO, "Hi", mine, sizeof mine, &why) != TP_OK || strcmp(mine, "Hello!") != 0) return ctx;
  }
  return NULL;
}

TEST(several_threads_play_at_once) {
  tp_runtime *runtime = open_runtime(NULL);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, play_often, runtime), 0);
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  close_runtime(runtime);
}
