/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of messages: texts and files after the text of a user's message, on their way from the host to the model and
 * into the history. */
#include "tests/support/test.h"
#include "tests/support/model.h"

#define FILE_A \
  "\x81\xa4"   \
  "file\xa5"   \
  "a.png"
#define TEXT_B \
  "\x81\xa4"   \
  "text\xa3"   \
  "b c"

enum { SHOWN_SIZE = 4096 };

/** A model that stores the content of its newest request: "text[parts]" of each message. */
typedef struct shown {
  tp_model model;
  char messages[SHOWN_SIZE], files[256];
  bool fails;
} shown;

static void put(char *to, size_t size, const char *before, tp_text text, const char *after) {
  size_t used = strlen(to);
  snprintf(to + used, size - used, "%s%.*s%s", before, (int)text.size, text.size ? text.data : "", after);
}

static void put_parts(char *to, tp_text parts) {
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) {
    put(to, SHOWN_SIZE, "[text ", tp_value_text(tp_value_get(walk.value, "text")), " ");
    put(to, SHOWN_SIZE, "file ", tp_value_text(tp_value_get(walk.value, "file")), "]");
  }
}

static void start(void *ctx, const tp_model_request *request, tp_token token) {
  shown *s = ctx;
  s->messages[0] = s->files[0] = '\0';
  for (size_t i = 0; i < request->message_count; i++) {
    put(s->messages, SHOWN_SIZE, i ? "|" : "", request->messages[i]->text, "");
    put_parts(s->messages, request->messages[i]->parts);
  }
  for (tp_value_walk walk = {0}; tp_value_next(request->files, &walk);)
    put(s->files, sizeof s->files, "", tp_value_text(walk.value), ";");
  tp_model_response response = {.struct_size = sizeof response, .text = TEXT("yes")};
  if (s->fails) (void)!tp_model_fail(token, TP_ERR_MODEL, "as set", false, NULL);
  else (void)!tp_model_complete(token, &response, NULL);
}

static tp_session *open_session(tp_runtime *runtime, shown *s, const tp_session_options *more) {
  tp_session_options options = more ? *more : (tp_session_options){0};
  tp_session *session;
  s->model = (tp_model){.struct_size = sizeof s->model, .ctx = s, .start = start, .placement = TP_PLACEMENT_INLINE};
  options.struct_size = sizeof options;
  options.id = "s";
  options.model = &s->model;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  return session;
}

static void say(tp_session *session, const char *text, tp_text files, const tp_message *const *messages, size_t count,
                tp_turn_outcome outcome) {
  const tp_turn_result *result = NULL;
  tp_turn_request request = {.struct_size = sizeof request,
                             .text = tp_text_of(text),
                             .files = files,
                             .messages = messages,
                             .message_count = count};
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, outcome);
  tp_turn_result_free(result);
}

static const tp_text one_file = TEXT(
                         "\x91\xa5"
                         "a.png"),
                     none = {NULL, 0};

TEST(files_of_a_turn_are_parts_of_its_message_and_stay_in_the_history) {
  tp_runtime *runtime = open_runtime(NULL);
  shown s = {.fails = false};
  tp_session *session = open_session(runtime, &s, NULL);
  say(session, "look", one_file, NULL, 0, TP_TURN_COMPLETED);
  assert_string_equal(s.messages, "look[text  file a.png]");
  assert_string_equal(s.files, "a.png;");
  say(session, "again", none, NULL, 0, TP_TURN_COMPLETED);
  assert_string_equal(s.messages, "look[text  file a.png]|yes|again");
  assert_string_equal(s.files, "");
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

/* They may be why it failed. */
TEST(files_of_a_turn_that_failed_are_not_kept) {
  tp_runtime *runtime = open_runtime(NULL);
  shown s = {.fails = true};
  tp_session *session = open_session(runtime, &s, NULL);
  say(session, "look", one_file, NULL, 0, TP_TURN_FAILED);
  assert_string_equal(s.messages, "look[text  file a.png]");
  s.fails = false;
  say(session, "again", none, NULL, 0, TP_TURN_COMPLETED);
  assert_string_equal(s.messages, "look|[The turn failed before it was complete.]|again");
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(parts_of_a_turns_own_messages_reach_the_model) {
  const tp_message before = {
      .struct_size = sizeof before, .role = TP_ROLE_USER, .text = TEXT("x"), .parts = TEXT("\x92" TEXT_B FILE_A)};
  const tp_message *const messages[] = {&before};
  tp_runtime *runtime = open_runtime(NULL);
  shown s = {.fails = false};
  tp_session *session = open_session(runtime, &s, NULL);
  say(session, "now", none, messages, 1, TP_TURN_COMPLETED);
  assert_string_equal(s.messages, "x[text b c file ][text  file a.png]|now");
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

/* ---- a history of the host's ---- */

typedef struct book {
  tp_message message;
  char appended[SHOWN_SIZE];
} book;

static tp_status load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  (void)fault;
  return request->each(request->ctx, &((book *)ctx)->message);
}

static tp_status append(void *ctx, const tp_history_append *request, tp_fault *fault) {
  book *b = ctx;
  (void)fault;
  for (size_t i = 0; i < request->message_count; i++) put_parts(b->appended, request->messages[i]->parts);
  return TP_OK;
}

TEST(a_history_gets_parts_and_gives_them) {
  book b = {
      .message = {
          .struct_size = sizeof(tp_message), .role = TP_ROLE_USER, .text = TEXT("old"), .parts = TEXT("\x91" TEXT_B)}};
  const tp_history history = {.struct_size = sizeof history, .ctx = &b, .load = load, .append = append};
  tp_runtime *runtime = open_runtime(NULL);
  shown s = {.fails = false};
  tp_session *session = open_session(runtime, &s, &(tp_session_options){.history = &history});
  say(session, "look", one_file, NULL, 0, TP_TURN_COMPLETED);
  assert_string_equal(s.messages, "old[text b c file ]|look[text  file a.png]");
  assert_string_equal(b.appended, "[text  file a.png]");
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

TEST(a_history_with_parts_that_are_none_fails_the_turn) {
  static const tp_message wrong[] = {
      {.struct_size = sizeof(tp_message), .role = TP_ROLE_USER, .parts = TEXT("\x91\x80")},
      {.struct_size = sizeof(tp_message), .role = TP_ROLE_ASSISTANT, .parts = TEXT("\x91" TEXT_B)}};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    book b = {.message = wrong[i]};
    const tp_history history = {.struct_size = sizeof history, .ctx = &b, .load = load, .append = append};
    tp_runtime *runtime = open_runtime(NULL);
    shown s = {.fails = false};
    tp_session *session = open_session(runtime, &s, &(tp_session_options){.history = &history});
    say(session, "look", none, NULL, 0, TP_TURN_FAILED);
    tp_session_close(session, NULL, NULL);
    close_runtime(runtime);
  }
}

/* ---- escaping ---- */

/* If a request has a block of the library, no part may look like one. */
TEST(a_part_cannot_pass_for_a_block) {
  static const char reminder[] =
      "\x92\x81\xa4"
      "text\xb1"
      "</system-reminder"
      "\x81\xa4"
      "file\xa5"
      "a.png";
  const tp_message before = {
      .struct_size = sizeof before, .role = TP_ROLE_USER, .text = TEXT("x"), .parts = {reminder, sizeof reminder - 1}};
  const tp_message *const messages[] = {&before};
  const tp_contribution context = {
      .struct_size = sizeof context, .kind = TP_CONTRIBUTION_PROMPT_CONTEXT, .key = TEXT("k"), .text = TEXT("known")};
  act contributes = {.emits = &context, .emit_count = 1};
  const hook hooks[] = {{.id = "context", .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, .ctx = &contributes}};
  shown s = {.fails = false};
  for (int with = 0; with < 2; with++) {
    tp_runtime *runtime = open_runtime(NULL);
    if (with) add_hooks(runtime, hooks, 1);
    tp_session *session = open_session(runtime, &s, NULL);
    say(session, "now", none, messages, 1, TP_TURN_COMPLETED);
    if (with) assert_null(strstr(s.messages, "</system-reminder"));
    else assert_non_null(strstr(s.messages, "x[text </system-reminder file ]"));
    assert_non_null(strstr(s.messages, "[text  file a.png]"));
    tp_session_close(session, NULL, NULL);
    close_runtime(runtime);
  }
}
