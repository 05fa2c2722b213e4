/* SPDX-License-Identifier: Apache-2.0
 *
 * Long conversations: how a history is shortened, when, the request to the model, and failed compactions. The last case
 * plays several hundred seeded turns. */
#include "tests/support/test.h"
#include "phases/model/compaction.h"
#include "tests/support/world.h"

/* ---- a session, what was observed, and turns of 18 tokens ---- */

typedef struct observed {
  char text[1024];
  bool denies; /* a compaction */
} observed;

static void note(observed *o, const char *format, ...) {
  size_t used = strlen(o->text);
  va_list args;
  va_start(args, format);
  vsnprintf(o->text + used, sizeof o->text - used, format, args);
  va_end(args);
}

static tp_answer observe(void *ctx, tp_call *call) {
  if (tp_call_phase(call) == TP_PHASE_MODEL_PRE) {
    note(ctx, "pre%d ", (int)tp_call_int(call, TP_FIELD_ATTEMPT));
    return TP_ANSWER_DONE;
  }
  tp_text plan = tp_call_text(call, TP_FIELD_PLAN);
  note(ctx, "%.*s %d>%d ", (int)plan.size, plan.data, (int)tp_call_int(call, TP_FIELD_TOKENS_BEFORE),
       (int)tp_call_int(call, TP_FIELD_TOKENS_AFTER));
  if (((observed *)ctx)->denies) return tp_call_deny(call, "keep it");
  return TP_ANSWER_DONE;
}

static void note_diagnostic(void *ctx, const tp_event *event) {
  if (event->kind == TP_EVENT_DIAGNOSTIC)
    note(ctx, "! %.*s ", (int)event->contribution->text.size, event->contribution->text.data);
}

typedef struct world {
  WORLD;
  observed seen;
} world;

static tp_status compact_as_set(void *ctx, const tp_compaction_request *compaction, tp_fault *fault);

static void open_world(world *w, const reply *replies, size_t count, int64_t tokens_max, tp_compaction compaction,
                       void *compact_ctx) {
  *w = (world){0};
  const hook hooks[] = {{.id = "pre", .phase = TP_PHASE_MODEL_PRE, .run = observe, .ctx = &w->seen},
                        {.id = "c", .phase = TP_PHASE_TURN_PRE_COMPACTION, .run = observe, .ctx = &w->seen}};
  const tp_session_options session = {.on_event = note_diagnostic,
                                      .event_ctx = &w->seen,
                                      .history_tokens_max = tokens_max,
                                      .compaction = compaction,
                                      .compact = compact_ctx ? compact_as_set : NULL,
                                      .compact_ctx = compact_ctx};
  world_open(
      &w->stage,
      &(world_options){
          .hooks = hooks, .hook_count = COUNT(hooks), .replies = replies, .reply_count = count, .session = session});
}

static const tp_turn_result *say(const world *w, const char *text, tp_turn_outcome outcome) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, outcome);
  return result;
}

/* 36 bytes are 9 tokens, plus 4 for the message; the answer "ok" is 1 token, plus 4. */
static void say_long(const world *w, char letter) {
  char text[37];
  memset(text, letter, 36);
  text[36] = '\0';
  tp_turn_result_free(say(w, text, TP_TURN_COMPLETED));
}

#define LONG(letter) letter letter letter letter letter letter
#define A36 LONG("aaaaaa")
#define B36 LONG("bbbbbb")
#define C36 LONG("cccccc")
#define D36 LONG("dddddd")

static const reply ok[] = {{.text = "ok"}};

/* ---- dropping ---- */

TEST(history_above_its_limit_loses_its_oldest_turns_before_the_request) {
  world w;
  open_world(&w, ok, 1, 40, TP_COMPACTION_DROP_OLDEST, NULL);
  say_long(&w, 'a');
  say_long(&w, 'b');
  say_long(&w, 'c'); /* 36 tokens are in the history before this turn */
  assert_string_equal(w.model->requests[2], "S<>U<" A36 ">A<ok>U<" B36 ">A<ok>U<" C36 ">");
  assert_string_equal(w.seen.text, "pre1 pre1 pre1 ");
  say_long(&w, 'd'); /* 54 tokens are in the history before this turn */
  assert_string_equal(w.seen.text, "pre1 pre1 pre1 history_tokens_max 54>40 pre1 ");
  assert_string_equal(w.model->requests[3], "S<>U<" C36 ">A<ok>U<" D36 ">");
  say_long(&w, 'a');
  assert_string_equal(w.model->requests[4], "S<>U<" C36 ">A<ok>U<" D36 ">A<ok>U<" A36 ">");
  world_close(&w.stage);
}

/* Notes what turn.post_compaction carries. */
static tp_answer see_compacted(void *ctx, tp_call *call) {
  tp_text summary = tp_call_text(call, TP_FIELD_TEXT);
  note(ctx, "after %d>%d <%.*s> ", (int)tp_call_int(call, TP_FIELD_TOKENS_BEFORE),
       (int)tp_call_int(call, TP_FIELD_TOKENS_AFTER), (int)summary.size, summary.data ? summary.data : "");
  return TP_ANSWER_DONE;
}

TEST(history_that_became_shorter_is_reported) {
  static const reply with_summary[] = {
      {.text = "ok"}, {.text = "ok"}, {.text = "ok"}, {.text = "in short"}, {.text = "ok"}};
  for (int summarizes = 0; summarizes < 2; summarizes++) {
    world w;
    open_world(&w, summarizes ? with_summary : ok, summarizes ? COUNT(with_summary) : 1, 40,
               summarizes ? TP_COMPACTION_SUMMARIZE : TP_COMPACTION_DROP_OLDEST, NULL);
    add_hooks(w.runtime,
              &(hook){.id = "after", .phase = TP_PHASE_TURN_POST_COMPACTION, .run = see_compacted, .ctx = &w.seen}, 1);
    for (char letter = 'a'; letter <= 'd'; letter++) say_long(&w, letter);
    const char *want = summarizes ? "54>40 after 54>36 <in short> pre1 " : "54>40 after 54>18 <> pre1 ";
    if (!strstr(w.seen.text, want)) fail_msg("%s", w.seen.text);
    world_close(&w.stage);
  }
}

TEST(denied_compaction_leaves_the_history_as_it_is) {
  static const reply too_long[] = {{.text = "ok"}, {.fails = TP_ERR_CONTEXT_LENGTH}};
  world w;
  open_world(&w, ok, 1, 40, TP_COMPACTION_DROP_OLDEST, NULL);
  w.seen.denies = true;
  for (char letter = 'a'; letter <= 'd'; letter++) say_long(&w, letter);
  assert_string_equal(w.seen.text,
                      "pre1 pre1 pre1 history_tokens_max 54>40 "
                      "! the history was not compacted: hook c: keep it pre1 ");
  assert_string_equal(w.model->requests[3], "S<>U<" A36 ">A<ok>U<" B36 ">A<ok>U<" C36 ">A<ok>U<" D36 ">");
  world_close(&w.stage);
  open_world(&w, too_long, 2, 0, TP_COMPACTION_DROP_OLDEST, NULL);
  w.seen.denies = true;
  say_long(&w, 'a');
  const tp_turn_result *result = say(&w, "go", TP_TURN_FAILED);
  assert_int_equal(result->code, TP_ERR_CONTEXT_LENGTH);
  assert_non_null(memmem(result->reason.data, result->reason.size, "hook c: keep it", 15));
  tp_turn_result_free(result);
  world_close(&w.stage);
}

TEST(history_of_exactly_its_limit_is_left_alone) {
  world w;
  open_world(&w, ok, 1, 36, TP_COMPACTION_DROP_OLDEST, NULL);
  for (int i = 0; i < 3; i++) say_long(&w, 'a');
  assert_string_equal(w.seen.text, "pre1 pre1 pre1 ");
  world_close(&w.stage);
}

TEST(turn_that_has_its_own_messages_is_not_compacted) {
  world w;
  open_world(&w, ok, 1, 1, TP_COMPACTION_DROP_OLDEST, NULL);
  say_long(&w, 'a');
  const tp_message own = {.struct_size = sizeof own, .role = TP_ROLE_USER, .text = TEXT("before")};
  const tp_message *const messages[] = {&own};
  tp_turn_request request = {
      .struct_size = sizeof request, .text = TEXT("now"), .messages = messages, .message_count = 1};
  assert_int_equal(tp_turn_run(w.session, &request, NULL, NULL), TP_OK);
  assert_string_equal(w.seen.text, "pre1 pre1 ");
  world_close(&w.stage);
}

/* ---- dropping, alone ---- */

static void drop(const tp_message *messages, size_t count, int64_t tokens_max, observed *ret_kept) {
  const tp_message *pointers[8];
  for (size_t i = 0; i < count; i++) pointers[i] = &messages[i];
  ret_kept->text[0] = '\0';
  for (size_t i = tp__compaction_kept_half(pointers, count, tokens_max); i < count; i++)
    note(ret_kept, "%.*s ", (int)messages[i].text.size, messages[i].text.data);
}

#define SAID(role_, text_) \
  { .struct_size = sizeof(tp_message), .role = (role_), .text = TEXT(text_) }

TEST(turns_without_ids_begin_at_the_users_messages) {
  const tp_message messages[] = {SAID(TP_ROLE_USER, "aaaa"), SAID(TP_ROLE_ASSISTANT, "bbbb"),
                                 SAID(TP_ROLE_USER, "cccc"), SAID(TP_ROLE_ASSISTANT, "dddd"),
                                 SAID(TP_ROLE_END, "eeee")}; /* 5 each, the mark 0 */
  observed kept;
  drop(messages, 5, 40, &kept);
  assert_string_equal(kept.text, "aaaa bbbb cccc dddd eeee ");
  drop(messages, 5, 39, &kept);
  assert_string_equal(kept.text, "cccc dddd eeee ");
  drop(messages, 5, 10, &kept); /* the history does not fit in half of the limit, but in the whole limit */
  assert_string_equal(kept.text, "cccc dddd eeee ");
  drop(messages, 5, 9, &kept);
  assert_string_equal(kept.text, "");
  drop(messages, 0, 9, &kept);
}

TEST(tokens_are_a_quarter_of_the_bytes_and_four) {
  static const tp_tool_call call = {
      .struct_size = sizeof call, .name = TEXT("look"), .arguments = TEXT("\x81\xa1n\x01")};
  static const tp_tool_call *const calls[] = {&call};
  const struct {
    tp_message message;
    int64_t tokens;
  } rows[] = {{SAID(TP_ROLE_USER, ""), 4},
              {SAID(TP_ROLE_USER, "a"), 5},
              {SAID(TP_ROLE_USER, "abcd"), 5},
              {SAID(TP_ROLE_USER, "abcde"), 6},
              {SAID(TP_ROLE_END, "abcde"), 0},
              {{.role = TP_ROLE_TOOL, .text = TEXT("abcd"), .name = TEXT("look")}, 6},
              {{.role = TP_ROLE_ASSISTANT, .calls = calls, .call_count = 1}, 6}};
  for (size_t i = 0; i < COUNT(rows); i++) assert_int_equal(tp_message_tokens(&rows[i].message), rows[i].tokens);
}

#define PART(...) \
  { .struct_size = sizeof(tp_part), __VA_ARGS__ }

static int64_t tokens_of_part(tp_writer *writer, const tp_part *part) {
  tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_TOOL};
  tp_fault fault = {0};
  tp_writer_reset(writer);
  tp_write_array(writer, 1);
  if (tp_part_write(part, writer, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(tp_writer_finish(writer, &message.parts), TP_OK);
  return tp_message_tokens(&message) - 4;
}

/* Some 100 kB of nothing. */
static const char media[100000];
#define MEDIA \
  { media, sizeof media }

TEST(parts_count_as_what_a_model_makes_of_them) {
  const struct {
    tp_part part;
    int64_t tokens;
  } rows[] = {
      {PART(.kind = TP_PART_TEXT), 0},
      {PART(.kind = TP_PART_TEXT, .text = MEDIA), 25000},
      {PART(.kind = TP_PART_IMAGE, .uri = TEXT("https://example.org/a.png")), 1500},
      {PART(.kind = TP_PART_IMAGE, .bytes = MEDIA, .media_type = TEXT("image/png")), 1503},
      {PART(.kind = TP_PART_IMAGE, .bytes = {media, 1}, .media_type = TEXT("image/jpeg"), .name = TEXT("of May")),
       1504},
      {PART(.kind = TP_PART_AUDIO, .bytes = MEDIA, .media_type = TEXT("audio/wav")), 203},
      {PART(.kind = TP_PART_AUDIO, .uri = TEXT("file:///bell.wav")), 1500},
      {PART(.kind = TP_PART_FILE, .bytes = MEDIA, .media_type = TEXT("text/csv; charset=utf-8")), 25006},
      {PART(.kind = TP_PART_FILE, .bytes = MEDIA, .media_type = TEXT("application/pdf")), 3129},
      {PART(.kind = TP_PART_FILE, .bytes = {media, 100}, .media_type = TEXT("application/pdf")), 1504},
      {PART(.kind = TP_PART_FILE, .bytes = MEDIA, .media_type = TEXT("texts/plain")), 3128},
      {PART(.kind = TP_PART_FILE, .uri = TEXT("data:text/plain,hello")), 1503},
      {PART(.kind = TP_PART_FILE), 1500},
      {PART(.kind = TP_PART_LINK, .uri = TEXT("db://table"), .description = TEXT("of May"), .size = 1 << 30), 4},
  };
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(rows); i++)
    if (tokens_of_part(writer, &rows[i].part) != rows[i].tokens)
      fail_msg("row %zu: %lld tokens", i, (long long)tokens_of_part(writer, &rows[i].part));
  tp_writer_free(writer);
}

TEST(parts_add_up_and_the_value_of_a_result_does_not_count) {
  tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_TOOL, .text = TEXT("abcd")};
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  const tp_text json = TEXT("[{\"text\": \"abcd\"}, {\"image\": \"https://a\"}, {\"image\": \"https://b\"}]");
  assert_int_equal(tp_json_decode(json, writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &message.parts), TP_OK);
  message.value = message.parts;
  assert_int_equal(tp_message_tokens(&message), 4 + 1 + 1 + 2 * 1500);
  message.parts = (tp_text)TEXT("\x91\xc0"); /* a host may also count messages whose parts are malformed */
  assert_int_equal(tp_message_tokens(&message), 4 + 1);
  tp_writer_free(writer);
}

static void show(const world *w) {
  const tp_turn_request request = {.struct_size = sizeof request,
                                   .text = TEXT("this"),
                                   .files = TEXT("\x91\xa5"
                                                 "a.png")};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

TEST(history_of_short_texts_with_images_is_compacted) {
  world w;
  open_world(&w, ok, 1, 4000, TP_COMPACTION_DROP_OLDEST, NULL);
  for (int i = 0; i < 3; i++) show(&w);
  assert_string_equal(w.seen.text, "pre1 pre1 pre1 ");
  show(&w);
  assert_string_equal(w.seen.text, "pre1 pre1 pre1 history_tokens_max 4530>4000 pre1 ");
  world_close(&w.stage);
}

/* ---- what the provider says ---- */

TEST(context_that_is_too_long_is_compacted_and_asked_again_once) {
  static const reply replies[] = {{.text = "ok"},
                                  {.text = "ok"},
                                  {.fails = TP_ERR_CONTEXT_LENGTH},
                                  {.text = "ok"},
                                  {.fails = TP_ERR_CONTEXT_LENGTH},
                                  {.fails = TP_ERR_CONTEXT_LENGTH}};
  world w;
  open_world(&w, replies, COUNT(replies), 0, TP_COMPACTION_DROP_OLDEST, NULL);
  say_long(&w, 'a');
  say_long(&w, 'b');
  say_long(&w, 'c'); /* 36 before it: 18 may stay, the newest turn */
  assert_string_equal(w.seen.text, "pre1 pre1 pre1 context_length 36>18 pre2 ");
  assert_string_equal(w.model->requests[3], "S<>U<" B36 ">A<ok>U<" C36 ">");
  const tp_turn_result *result = say(&w, "again", TP_TURN_FAILED);
  assert_int_equal(result->code, TP_ERR_CONTEXT_LENGTH);
  tp_turn_result_free(result);
  assert_int_equal(w.model->asked, 6); /* asked again once, and not for ever */
  world_close(&w.stage);
}

TEST(history_that_the_provider_refuses_is_halved_also_under_its_limit) {
  static const reply replies[] = {
      {.text = "ok"}, {.text = "ok"}, {.text = "ok"}, {.text = "ok"}, {.fails = TP_ERR_CONTEXT_LENGTH}, {.text = "ok"}};
  world w;
  open_world(&w, replies, COUNT(replies), 80, TP_COMPACTION_DROP_OLDEST, NULL);
  for (char c = 'a'; c <= 'd'; c++) say_long(&w, c);
  say_long(&w, 'e'); /* 72 before it, under the limit of 80 */
  assert_non_null(strstr(w.seen.text, "context_length 72>36 pre2 "));
  world_close(&w.stage);
}

TEST(each_request_of_a_turn_may_be_compacted_once) {
  static const reply replies[] = {{.text = "ok"},
                                  {.text = "ok"},
                                  {.text = "ok"},
                                  {.text = "ok"},
                                  {.fails = TP_ERR_CONTEXT_LENGTH},
                                  {.text = "", .calls = {{.id = TEXT("1"), .name = TEXT("none")}}, .call_count = 1},
                                  {.fails = TP_ERR_CONTEXT_LENGTH},
                                  {.text = "ok"}};
  world w;
  open_world(&w, replies, COUNT(replies), 0, TP_COMPACTION_DROP_OLDEST, NULL);
  for (char c = 'a'; c <= 'd'; c++) say_long(&w, c);
  tp_turn_result_free(say(&w, "e", TP_TURN_COMPLETED));
  assert_non_null(strstr(w.seen.text, "context_length 72>36 pre2 pre1 context_length 18>9 pre2 "));
  assert_string_equal(w.model->requests[5], "S<>U<" D36 ">A<ok>U<e>");
  assert_memory_equal(w.model->requests[7], "S<>U<e>A<>C<none>T!<", 20);
  world_close(&w.stage);
}

TEST(without_a_way_to_compact_the_turn_fails_as_the_provider_says) {
  static const reply replies[] = {{.text = "ok"}, {.fails = TP_ERR_CONTEXT_LENGTH}};
  world w;
  open_world(&w, replies, 2, 0, TP_COMPACTION_NONE, NULL);
  say_long(&w, 'a');
  const tp_turn_result *result = say(&w, "b", TP_TURN_FAILED);
  assert_int_equal(result->code, TP_ERR_CONTEXT_LENGTH);
  tp_turn_result_free(result);
  assert_string_equal(w.seen.text, "pre1 pre1 ");
  world_close(&w.stage);
}

/* ---- summaries ---- */

TEST(summary_of_the_sessions_own_model_stands_for_the_old_turns) {
  static const reply replies[] = {{.text = "ok"},
                                  {.text = "ok"},
                                  {.text = "ok"},
                                  {.text = "They said a, b.", .input_tokens = 5, .cost_micros = 7},
                                  {.text = "ok", .input_tokens = 1}};
  world w;
  open_world(&w, replies, COUNT(replies), 40, TP_COMPACTION_SUMMARIZE, NULL);
  for (char c = 'a'; c <= 'c'; c++) say_long(&w, c);
  const tp_turn_result *result = say(&w, "now", TP_TURN_COMPLETED);
  assert_int_equal(result->input_tokens, 6); /* the tokens of the summary also count for the turn */
  assert_int_equal(result->cost_micros, 7);
  assert_int_equal(result->iterations, 1);
  tp_turn_result_free(result);
  /* 80 bytes hold one message of the two turns */
  const char *asked = w.model->requests[3];
  assert_non_null(strstr(asked, "S<You summarize the older part of a conversation"));
  assert_non_null(strstr(asked, "U<[earlier messages are left out]\nassistant: ok\n>"));
  assert_int_equal(w.model->tool_counts[3], 0);
  assert_string_equal(w.model->requests[4],
                      "S<>U<Summary of the conversation before this point:\n\nThey said a, b.>"
                      "U<" C36 ">A<ok>U<now>");
  assert_string_equal(w.seen.text, "pre1 pre1 pre1 history_tokens_max 54>40 pre1 ");
  world_close(&w.stage);
}

TEST(summary_that_fails_or_is_empty_leaves_the_history) {
  static const reply failing[] = {
      {.text = "ok"}, {.text = "ok"}, {.text = "ok"}, {.fails = TP_ERR_MODEL}, {.text = "ok"}};
  static const reply empty[] = {{.text = "ok"}, {.text = "ok"}, {.text = "ok"}, {.text = ""}, {.text = "ok"}};
  const struct {
    const reply *replies;
    const char *why;
  } rows[] = {{failing, "! the history was not compacted: as set pre1 "},
              {empty, "! the history was not compacted: the model's summary is empty pre1 "}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    world w;
    open_world(&w, rows[i].replies, 5, 40, TP_COMPACTION_SUMMARIZE, NULL);
    for (char c = 'a'; c <= 'd'; c++) say_long(&w, c);
    assert_non_null(strstr(w.seen.text, rows[i].why));
    assert_non_null(strstr(w.model->requests[4], "U<" A36 ">"));
    world_close(&w.stage);
  }
}

/* ---- callbacks of the host ---- */

typedef struct script {
  tp_message messages[4];
  size_t count;
  tp_status status;
  bool keeps_all;
  latch *entered, *waits_for; /* of the first call alone */
  latch left;
  size_t bytes; /* read of the messages after waits_for */
} script;

static tp_status compact_as_set(void *ctx, const tp_compaction_request *compaction, tp_fault *fault) {
  script *t = ctx;
  (void)fault;
  if (t->entered) latch_hit(t->entered);
  if (t->waits_for && latch_count(t->entered) == 1) latch_wait(t->waits_for, 1);
  for (size_t i = 0; i < compaction->message_count; i++)
    for (tp_text text = compaction->messages[i]->text; text.size > 0; text.data++, text.size--)
      t->bytes += text.data[0] != 0;
  for (size_t i = 0; t->keeps_all && i < compaction->message_count; i++)
    (void)!compaction->each(compaction->each_ctx, compaction->messages[i]);
  tp_status status = t->status;
  for (size_t i = 0; i < t->count && status == TP_OK; i++) {
    t->messages[i].struct_size = sizeof t->messages[i];
    status = compaction->each(compaction->each_ctx, &t->messages[i]);
  }
  latch_hit(&t->left);
  return status;
}

static const tp_tool_call one_call = {.struct_size = sizeof one_call, .id = TEXT("1"), .name = TEXT("look")};
static const tp_tool_call other_call = {.struct_size = sizeof other_call, .id = TEXT("2"), .name = TEXT("look")};
static const tp_tool_call *const two_calls[] = {&one_call, &other_call};

#define ASKS \
  { .role = TP_ROLE_ASSISTANT, .calls = two_calls, .call_count = 2 }
#define RESULT(id_) \
  { .role = TP_ROLE_TOOL, .call_id = TEXT(id_), .text = TEXT("r") }

TEST(history_that_is_not_whole_or_not_shorter_is_not_taken) {
  const struct {
    script script;
    const char *why; /* NULL: taken */
  } rows[] = {
      {{.count = 0}, NULL},
      {{.messages = {ASKS, RESULT("1"), RESULT("2")}, .count = 3}, NULL},
      {{.messages = {ASKS, RESULT("2"), RESULT("1")}, .count = 3}, NULL},
      {{.messages = {{.role = TP_ROLE_USER, .text = TEXT("s")}}, .count = 1}, NULL},
      {{.messages = {ASKS, RESULT("1")}, .count = 2}, "the calls of message 0 have not one result each behind it"},
      {{.messages = {ASKS}, .count = 1}, "the calls of message 0 have not one result each behind it"},
      {{.messages = {ASKS, RESULT("1"), RESULT("1")}, .count = 3}, "the calls of message 0"},
      {{.messages = {ASKS, RESULT("1"), RESULT("3")}, .count = 3}, "the calls of message 0"},
      {{.messages = {{.role = TP_ROLE_USER, .text = TEXT("s")}, RESULT("1")}, .count = 2},
       "message 1 is a result without its call right before it"},
      {{.messages = {ASKS, RESULT("1"), RESULT("2"), RESULT("2")}, .count = 4}, "message 3 is a result without"},
      {{.messages = {ASKS, RESULT("1"), {.role = TP_ROLE_USER}, RESULT("2")}, .count = 4}, "the calls of message 0"},
      {{.keeps_all = true}, "what is to replace it has 54 tokens, and it has 54"},
      {{.messages = {{.role = TP_ROLE_FORCE_32}}, .count = 1}, "the history was not compacted"},
      {{.status = TP_ERR_IO}, "the history was not compacted"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    world w;
    script t = rows[i].script;
    t.left = (latch)LATCH;
    open_world(&w, ok, 1, 40, TP_COMPACTION_HOST, &t);
    for (char c = 'a'; c <= 'd'; c++) say_long(&w, c);
    bool kept = strstr(w.model->requests[3], "U<" A36 ">") != NULL;
    assert_int_equal(kept, rows[i].why != NULL);
    if (rows[i].why && !strstr(w.seen.text, rows[i].why)) fail_msg("row %zu: %s", i, w.seen.text);
    if (!rows[i].why) assert_null(strchr(w.seen.text, '!'));
    world_close(&w.stage);
  }
}

TEST(compaction_that_fails_after_the_provider_refused_fails_the_turn) {
  static const reply replies[] = {{.text = "ok"}, {.fails = TP_ERR_CONTEXT_LENGTH}};
  world w;
  script t = {.status = TP_ERR_IO, .left = LATCH};
  open_world(&w, replies, 2, 0, TP_COMPACTION_HOST, &t);
  say_long(&w, 'a');
  const tp_turn_result *result = say(&w, "b", TP_TURN_FAILED);
  assert_int_equal(result->code, TP_ERR_CONTEXT_LENGTH);
  assert_non_null(strstr(result->reason.data, "the history was not compacted"));
  tp_turn_result_free(result);
  assert_int_equal(w.model->asked, 2);
  world_close(&w.stage);
}

/* The callback that was given up still reads its messages when the session has replaced them. */
TEST(turn_is_cancelled_while_its_history_is_compacted) {
  world w;
  latch entered = LATCH, goes_on = LATCH;
  script t = {.entered = &entered, .waits_for = &goes_on, .keeps_all = true, .left = LATCH};
  open_world(&w, ok, 1, 10, TP_COMPACTION_HOST, &t);
  say_long(&w, 'a');
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("b")};
  tp_submission *submission;
  const tp_turn_result *result;
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
  latch_wait(&entered, 1);
  tp_submission_cancel(submission);
  assert_int_equal(tp_submission_wait(submission, 60000, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_CANCELLED);
  tp_submission_unref(submission);
  t.keeps_all = false;
  say_long(&w, 'c'); /* the history becomes empty */
  assert_string_equal(w.model->requests[1], "S<>U<" C36 ">");
  assert_int_equal(t.bytes, 61); /* the messages include the cancelled turn and why it ended */
  latch_hit(&goes_on);
  latch_wait(&t.left, 2);
  assert_int_equal(t.bytes, 61 + 38);
  world_close(&w.stage);
}

/* ---- hundreds of turns ---- */

enum { TURNS = 300, CONTEXT_TOKENS = 900, SESSION_TOKENS = 700 };

typedef struct generator {
  uint64_t seed;
  const char *wrong;
  uint32_t asked, refused, summaries;
  uint32_t call_number;
  tp_token token;
} generator;

static uint32_t draw(generator *g, uint32_t below) {
  g->seed ^= g->seed << 13;
  g->seed ^= g->seed >> 7;
  g->seed ^= g->seed << 17;
  return (uint32_t)(g->seed >> 33) % below;
}

static void check_pairs(generator *g, const tp_model_request *request) {
  for (size_t i = 0; i < request->message_count; i++) {
    const tp_message *m = request->messages[i];
    if (m->role == TP_ROLE_TOOL) g->wrong = "a result without its call";
    for (size_t c = 0; c < m->call_count; c++) {
      const tp_message *result = i + 1 + c < request->message_count ? request->messages[i + 1 + c] : NULL;
      if (!result || result->role != TP_ROLE_TOOL || result->call_id.size != m->calls[c]->id.size ||
          memcmp(result->call_id.data, m->calls[c]->id.data, result->call_id.size) != 0)
        g->wrong = "a call without its result";
    }
    i += m->call_count;
  }
}

static void generate(void *ctx, const tp_model_request *request, tp_token token) {
  generator *g = ctx;
  int64_t tokens = 0;
  g->asked++;
  check_pairs(g, request);
  for (size_t i = 0; i < request->message_count; i++) tokens += tp_message_tokens(request->messages[i]);
  if (request->system.size > 0) g->summaries++;
  else if (tokens > CONTEXT_TOKENS) {
    g->refused++;
    (void)!tp_model_fail(token, TP_ERR_CONTEXT_LENGTH, "too long", false, NULL);
    return;
  }
  char ids[4][16];
  tp_tool_call calls[4];
  const tp_tool_call *list[4];
  bool last = request->system.size > 0 || request->messages[request->message_count - 1]->role == TP_ROLE_TOOL;
  size_t count = last ? 0 : draw(g, 5);
  for (size_t i = 0; i < count; i++) {
    snprintf(ids[i], sizeof ids[i], "c%u", g->call_number++);
    calls[i] = (tp_tool_call){.struct_size = sizeof calls[i],
                              .id = tp_text_of(ids[i]),
                              .name = tp_text_of("look"),
                              .arguments = no_arguments};
    list[i] = &calls[i];
  }
  char text[201];
  memset(text, 'm', sizeof text);
  tp_model_response response = {
      .struct_size = sizeof response, .text = {text, 1 + draw(g, 200)}, .calls = list, .call_count = count};
  (void)!tp_model_complete(token, &response, NULL);
}

static tp_answer look(void *ctx, tp_tool_run *run) {
  char text[201];
  (void)ctx;
  memset(text, 't', sizeof text);
  return tp_tool_ok(run, (tp_text){text, 1 + tp_tool_run_call_id(run).size * 40});
}

static void play_hundreds(uint64_t seed, tp_compaction compaction, int64_t tokens_max) {
  generator g = {.seed = seed * UINT64_C(0x9E3779B97F4A7C15)};
  const tp_tool tool = {.struct_size = sizeof tool, .name = "look", .run = look, .placement = TP_PLACEMENT_INLINE};
  const tp_tool *const tools[] = {&tool};
  const tp_contribution bundle = {.struct_size = sizeof bundle,
                                  .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                  .key = TEXT("t"),
                                  .tools = tools,
                                  .tool_count = 1};
  act contributes = {.emits = &bundle, .emit_count = 1};
  const tp_model model = {
      .struct_size = sizeof model, .name = "generator", .ctx = &g, .start = generate, .placement = TP_PLACEMENT_INLINE};
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, &(hook){.id = "t", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes}, 1);
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "s",
                                .model = &model,
                                .history_tokens_max = tokens_max,
                                .compaction = compaction};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  for (int i = 0; i < TURNS; i++) {
    char id[16], text[401];
    memset(text, 'u', sizeof text);
    snprintf(id, sizeof id, "t%d", i);
    tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = {text, 1 + draw(&g, 400)}};
    const tp_turn_result *result;
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    if (result->outcome != TP_TURN_COMPLETED || g.wrong)
      fail_msg("seed %d, turn %d: %s: %.*s", (int)seed, i, g.wrong ? g.wrong : "", (int)result->reason.size,
               result->reason.data ? result->reason.data : "");
    tp_turn_result_free(result);
  }
  if (tokens_max == 0) assert_true(g.refused > 10);
  if (compaction == TP_COMPACTION_SUMMARIZE) assert_true(g.summaries > 10);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(hundreds_of_turns_with_calls_complete_and_keep_pairs_whole) {
  for (uint64_t seed = 1; seed <= 4; seed++) {
    play_hundreds(seed, TP_COMPACTION_DROP_OLDEST, SESSION_TOKENS);
    play_hundreds(seed, TP_COMPACTION_DROP_OLDEST, 0);
    play_hundreds(seed, TP_COMPACTION_SUMMARIZE, SESSION_TOKENS);
    play_hundreds(seed, TP_COMPACTION_SUMMARIZE, 0);
  }
}
