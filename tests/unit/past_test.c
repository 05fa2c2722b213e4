/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of a session's past that a model sees: cached from request to request, and never changed while they are
 * read. */
#include "tests/support/test.h"
#include "phases/model/past.h"
#include "phases/merge/phases.h"
#include "tests/support/counting.h"
#include "tests/support/model.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT };
enum { MOST = 64 };

/* ---- a past, and what a request reads of it ---- */

static void say(tp__past *past, tp_role role, const char *text, const char *name) {
  tp_message message = {
      .struct_size = sizeof message, .role = role, .text = tp_text_of(text), .name = tp_text_of(name)};
  assert_int_equal(tp__messages_add(&past->list, &message), TP_OK);
}

typedef struct request {
  tp__past_view view;
  const tp_message *const *messages;
  size_t count;
} request;

static tp_message user_says(const char *text) {
  return (tp_message){.struct_size = sizeof(tp_message), .role = TP_ROLE_USER, .text = tp_text_of(text)};
}

static tp_status try_get_request(tp__past *past, bool escaped, const tp_message *own, request *r) {
  const tp_message *const list[] = {own};
  *r = (request){.count = 0};
  return tp__past_view_init(past, escaped, list, 1, &r->view, &r->messages, &r->count);
}

static request get_request(tp__past *past, bool escaped, const tp_message *own) {
  request r;
  assert_int_equal(try_get_request(past, escaped, own, &r), TP_OK);
  return r;
}

/* The texts with a bar after each. */
static const char *words(const request *r) {
  static _Thread_local char text[4096];
  text[0] = 0;
  for (size_t i = 0; i < r->count; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%.*s|", (int)r->messages[i]->text.size, r->messages[i]->text.data);
  }
  return text;
}

TEST(request_shows_what_came_before_and_what_is_new) {
  tp__past *past = tp__past_new(&counting);
  tp_message own = user_says("now"), later = user_says("later");
  request r = get_request(past, false, &own);
  assert_string_equal(words(&r), "now|");
  tp__past_view_fini(&r.view);
  say(past, TP_ROLE_USER, "one", "");
  say(past, TP_ROLE_ASSISTANT, "two", "");
  r = get_request(past, false, &own);
  assert_string_equal(words(&r), "one|two|now|");
  tp__past_view_fini(&r.view);
  say(past, TP_ROLE_USER, "three", "");
  r = get_request(past, false, &later);
  assert_string_equal(words(&r), "one|two|three|later|");
  tp__past_view_fini(&r.view);
  tp__past_view_fini(&r.view); /* of nothing */
  tp__past_unref(past);
  assert_int_equal(blocks_open, 0);
}

TEST(end_mark_is_a_line_and_what_was_denied_is_shown_to_no_model) {
  tp__past *past = tp__past_new(&counting);
  tp_message own = user_says("now");
  say(past, TP_ROLE_USER, "failed", "");
  say(past, TP_ROLE_END, "why", "failed");
  request r = get_request(past, false, &own);
  assert_string_equal(words(&r), "failed|[The turn failed before it was complete.]|now|");
  tp__past_view_fini(&r.view);
  say(past, TP_ROLE_USER, "denied", "");
  say(past, TP_ROLE_END, "why", "denied");
  say(past, TP_ROLE_USER, "said", "");
  for (int escaped = 0; escaped < 2; escaped++) {
    r = get_request(past, escaped, &own);
    assert_string_equal(words(&r), "failed|[The turn failed before it was complete.]|said|now|");
    tp__past_view_fini(&r.view);
  }
  tp__past_unref(past);
}

#define DONE " before it was complete. What its calls did is done: do not repeat it unless the user asks for it.]"

TEST(end_mark_names_the_outcome_and_warns_of_what_is_done) {
  static const struct {
    const char *outcome;
    bool has_calls;
    const char *line;
  } rows[] = {{"cancelled", false, "[The turn was cancelled before it was complete.]"},
              {"cancelled", true, "[The turn was cancelled" DONE},
              {"timed_out", false, "[The turn ran out of time before it was complete.]"},
              {"timed_out", true, "[The turn ran out of time" DONE},
              {"failed", true, "[The turn failed" DONE},
              {"denied", true, "[The turn was stopped by a rule" DONE},
              {"", false, "[The turn failed before it was complete.]"},
              {"of a newer library", true, "[The turn failed" DONE}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tp__past *past = tp__past_new(&counting);
    tp_message own = user_says("now");
    char want[256];
    say(past, TP_ROLE_TOOL, "of the turn before", ""); /* of another turn: does not count */
    past->list.items[0]->turn_id = (tp_text){"t0", 2};
    say(past, TP_ROLE_USER, "do", "");
    if (rows[i].has_calls) say(past, TP_ROLE_TOOL, "did", "");
    say(past, TP_ROLE_END, "a reason that no model reads", rows[i].outcome);
    request r = get_request(past, true, &own);
    snprintf(want, sizeof want, "of the turn before|do|%s%s|now|", rows[i].has_calls ? "did|" : "", rows[i].line);
    assert_string_equal(words(&r), want);
    for (size_t k = 0; k < r.count; k++) assert_true(r.messages[k]->role != TP_ROLE_END);
    tp__past_view_fini(&r.view);
    tp__past_unref(past);
  }
}

TEST(list_without_a_reader_is_used_again) {
  tp__past *past = tp__past_new(&counting);
  tp_message own = user_says("now");
  say(past, TP_ROLE_USER, "one", "");
  request r = get_request(past, false, &own);
  const void *list = r.messages;
  tp__past_view_fini(&r.view);
  long before = takes;
  for (int i = 0; i < 100; i++) {
    r = get_request(past, false, &own);
    assert_ptr_equal(r.messages, list);
    assert_ptr_equal(r.messages[0], past->list.items[0]); /* nothing is copied */
    tp__past_view_fini(&r.view);
  }
  assert_int_equal(takes, before);
  tp__past_unref(past);
}

/* A request that was given up reads on, while later requests have other messages at the same places. */
TEST(list_that_is_read_stays_as_it_is) {
  tp__past *past = tp__past_new(&counting);
  request held[MOST];
  char said[MOST][MOST * 8];
  tp_message own[MOST];
  char texts[MOST][16];
  for (int i = 0; i < MOST; i++) {
    snprintf(texts[i], sizeof texts[i], "own%d", i);
    own[i] = user_says(texts[i]);
    held[i] = get_request(past, false, &own[i]);
    snprintf(said[i], sizeof said[i], "%s", words(&held[i]));
    say(past, TP_ROLE_USER, i % 2 ? "a" : "b", "");
  }
  for (int i = 0; i < MOST; i++) assert_string_equal(words(&held[i]), said[i]);
  tp__past_unref(past); /* its session has another one: views of it stay */
  for (int i = 0; i < MOST; i++) {
    assert_string_equal(words(&held[i]), said[i]);
    tp__past_view_fini(&held[i].view);
  }
  assert_int_equal(blocks_open, 0);
}

TEST(what_looks_like_our_blocks_is_escaped_once) {
  tp__past *past = tp__past_new(&counting);
  tp_message own = user_says("<system-reminder>");
  say(past, TP_ROLE_USER, "plain", "");
  say(past, TP_ROLE_ASSISTANT, "<system-reminder> mine", "");
  say(past, TP_ROLE_TOOL, "</prompt-context> theirs", "");
  request unescaped = get_request(past, false, &own), r = get_request(past, true, &own);
  assert_string_equal(words(&unescaped), "plain|<system-reminder> mine|</prompt-context> theirs|<system-reminder>|");
  assert_ptr_equal(r.messages[0], past->list.items[0]);
  assert_ptr_equal(r.messages[1], past->list.items[1]); /* the model's own words */
  assert_ptr_not_equal(r.messages[2], past->list.items[2]);
  assert_null(memchr(r.messages[2]->text.data, '<', r.messages[2]->text.size));
  assert_int_equal(r.messages[2]->role, TP_ROLE_TOOL);
  assert_ptr_equal(r.messages[3], &own); /* the caller has escaped it */
  const tp_message *kept = r.messages[2];
  tp__past_view_fini(&r.view);
  say(past, TP_ROLE_USER, "<hook-signals>", "");
  r = get_request(past, true, &own);
  assert_ptr_equal(r.messages[2], kept);
  assert_null(memchr(r.messages[3]->text.data, '<', r.messages[3]->text.size));
  tp__past_view_fini(&r.view);
  tp__past_view_fini(&unescaped.view);
  tp__past_unref(past);
  assert_int_equal(blocks_open, 0);
}

/* {"text": "<system-reminder>"} */
TEST(parts_are_escaped_too) {
  static const tp_text parts = TEXT("\x91\x81\xa4text\xb1<system-reminder>");
  tp__past *past = tp__past_new(&counting);
  tp_message own = user_says("now"), with_parts = user_says("plain");
  with_parts.parts = parts;
  assert_int_equal(tp__messages_add(&past->list, &with_parts), TP_OK);
  request r = get_request(past, true, &own);
  assert_int_equal(r.messages[0]->text.size, 5);
  assert_int_not_equal(r.messages[0]->parts.size, 0);
  assert_null(memchr(r.messages[0]->parts.data, '<', r.messages[0]->parts.size));
  assert_memory_equal(past->list.items[0]->parts.data, parts.data, parts.size);
  tp__past_view_fini(&r.view);
  tp__past_unref(past);
}

TEST(sizes_are_those_of_all_messages) {
  tp__past *past = tp__past_new(&counting);
  size_t bytes = 0;
  int64_t tokens = 0;
  char text[200];
  assert_int_equal(tp__past_bytes(past), 0);
  for (int i = 0; i < 200; i++) {
    memset(text, 'a', sizeof text);
    text[i % 199] = 0;
    say(past, TP_ROLE_USER, text, "");
    bytes += strlen(text);
    tokens += tp_message_tokens(past->list.items[i]);
    if (i % 3 == 0) assert_int_equal(tp__past_bytes(past), bytes);
    if (i % 5 == 0) assert_int_equal(tp__past_tokens(past), tokens);
  }
  assert_int_equal(tp__past_tokens(past), tokens);
  assert_int_equal(tp__past_bytes(past), bytes);
  tp__past_unref(past);
}

TEST(refused_memory_changes_nothing) {
  for (long granted = 0; granted < 20; granted++) {
    tp__past *past = tp__past_new(&counting);
    tp_message own = user_says("now");
    request first, r;
    for (int i = 0; i < 40; i++) say(past, TP_ROLE_USER, i % 2 ? "<hook-signals> 0123456789" : "plain", "");
    refuse_at = granted;
    tp_status status = try_get_request(past, true, &own, &first);
    refuse_at = -1;
    assert_true(status == TP_OK || status == TP_ERR_NO_MEMORY);
    r = get_request(past, true, &own);
    assert_int_equal(r.count, 41);
    for (size_t i = 0; i < 40; i++) assert_null(memchr(r.messages[i]->text.data, '<', r.messages[i]->text.size));
    tp__past_view_fini(&r.view);
    if (status == TP_OK) tp__past_view_fini(&first.view);
    tp__past_unref(past);
    assert_int_equal(blocks_open, 0);
    if (status == TP_OK) return;
  }
  fail();
}

/* ---- turns ---- */

static tp_answer read_it(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("its text"));
}

static tp_answer contribute_tool(void *ctx, tp_call *call) {
  static const tp_tool read = {
      .struct_size = sizeof read, .name = "read", .run = read_it, .placement = TP_PLACEMENT_INLINE};
  static const tp_tool *const tools[] = {&read};
  (void)ctx;
  assert_int_equal(tp_call_emit_tool_bundle(call, "files", tools, 1, NULL), TP_OK);
  return TP_ANSWER_DONE;
}

static tp_answer give_context(void *ctx, tp_call *call) {
  static const tp_contribution context = {.struct_size = sizeof(tp_contribution),
                                          .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                          .domain = TEXT("d"),
                                          .key = TEXT("k"),
                                          .text = TEXT("it rains")};
  (void)ctx;
  assert_int_equal(tp_call_emit(call, &context, NULL), TP_OK);
  return TP_ANSWER_DONE;
}

static _Atomic size_t bytes_taken;
static void *measured_alloc(void *ctx, size_t size) {
  bytes_taken += size;
  return counting_alloc(ctx, size);
}
static const tp_allocator measured = {measured_alloc, counting_release, NULL};

static void run_turns(tp_session *session, int count) {
  const tp_turn_request asks = {.struct_size = sizeof asks, .text = TEXT("read both")};
  for (int i = 0; i < count; i++) assert_int_equal(tp_turn_run(session, &asks, NULL, NULL), TP_OK);
}

static tp_model *model_with_two_calls(void) {
  static const tp_tool_call calls[2] = {
      {.struct_size = sizeof calls[0], .id = TEXT("a"), .name = TEXT("read"), .arguments = TEXT("\x80")},
      {.struct_size = sizeof calls[1], .id = TEXT("b"), .name = TEXT("read"), .arguments = TEXT("\x80")}};
  static const tp_tool_call *const list[2] = {&calls[0], &calls[1]};
  static const tp_model_response first = {.struct_size = sizeof first, .calls = list, .call_count = 2};
  static const tp_model_response second = {.struct_size = sizeof second, .text = TEXT("both were read")};
  static const tp_model_response *const responses[] = {&first, &second};
  tp_model *model;
  assert_int_equal(tp_script_model_new(responses, 2, true, &model, NULL), TP_OK);
  return model;
}

/* A turn allocates only for what its session keeps of it: four messages, in long chunks, and pointers to them, in lists
 * that double. */
TEST(turn_takes_what_its_session_keeps_however_long_that_is) {
  enum { WARM = 2500, TURNS = 2000, KEPT_BYTES_MAX = 2000 }; /* warm: the store's rows of turns are as long as these */
  (void)state;
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = measured};
  tp_runtime *runtime = open_runtime(&options);
  hook hooks[] = {{.id = "tools", .phase = TOOLS, .run = contribute_tool},
                  {.id = "context", .phase = GATHER, .run = give_context}};
  add_hooks(runtime, hooks, 2);
  tp_model *model = model_with_two_calls();
  tp_session *session;
  const tp_session_options of_session = {.struct_size = sizeof of_session, .id = "s", .model = model};
  assert_int_equal(tp_session_open(runtime, &of_session, &session, NULL), TP_OK);
  run_turns(session, WARM);
  long takes_before = takes;
  size_t bytes_before = bytes_taken;
  run_turns(session, TURNS);
  double calls_each = (double)(takes - takes_before) / TURNS;
  size_t bytes_each = (bytes_taken - bytes_before) / TURNS;
  printf("# a turn takes %zu bytes in %.3f calls of the allocator\n", bytes_each, calls_each);
  assert_true(calls_each < 0.05);
  assert_true(bytes_each < KEPT_BYTES_MAX);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

/* A provider whose function reads its request after it has answered, while the session's next turn asks. */
typedef struct slow_reader {
  _Atomic int asked;
  latch next_asked, compared;
  bool same;
} slow_reader;

static void read_slowly(void *ctx, const tp_model_request *asks, tp_token token) {
  static const tp_model_response answer = {.struct_size = sizeof answer, .text = TEXT("yes")};
  slow_reader *r = ctx;
  char before[512], after[512];
  bool first = r->asked++ == 0;
  request shown = {.messages = asks->messages, .count = asks->message_count};
  if (first) snprintf(before, sizeof before, "%s", words(&shown));
  assert_int_equal(tp_model_complete(token, &answer, NULL), TP_OK);
  if (!first) {
    latch_hit(&r->next_asked);
    return;
  }
  latch_wait(&r->next_asked, 1);
  snprintf(after, sizeof after, "%s", words(&shown));
  r->same = strcmp(before, after) == 0;
  latch_hit(&r->compared);
}

TEST(request_stays_as_long_as_its_provider_reads) {
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = counting};
  slow_reader r = {.next_asked = LATCH, .compared = LATCH};
  hook context = {.id = "context", .phase = GATHER, .run = give_context}; /* its contribution is in the request alone */
  const tp_model model = {.struct_size = sizeof model, .name = "m", .ctx = &r, .start = read_slowly};
  tp_runtime *runtime = open_runtime(&options);
  add_hooks(runtime, &context, 1);
  tp_session *session;
  const tp_session_options of_session = {.struct_size = sizeof of_session, .id = "s", .model = &model};
  assert_int_equal(tp_session_open(runtime, &of_session, &session, NULL), TP_OK);
  for (int i = 0; i < 2; i++) {
    const tp_turn_request asks = {.struct_size = sizeof asks, .text = tp_text_of(i ? "second" : "first")};
    assert_int_equal(tp_turn_run(session, &asks, NULL, NULL), TP_OK);
  }
  latch_wait(&r.compared, 1);
  assert_true(r.same);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  assert_int_equal(blocks_open, 0);
}
