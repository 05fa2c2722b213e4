/* SPDX-License-Identifier: Apache-2.0
 *
 * No text is recalled into a request that contains it already: whole turns, and the request to their model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/support/host.h"
#include "turnphase/memory.h"
#include "turnphase/turnphase.h"

enum { NOTE_SIZE = 65536 };

static tp_runtime *runtime;
static tp_session *session;
static char recalled[NOTE_SIZE]; /* "<turn>text|" of each context of the last turn */
static char request[NOTE_SIZE];  /* the messages of its last request, in brackets */
static int context_count;

static void add(char *note, tp_text text) {
  size_t used = strlen(note);
  snprintf(note + used, NOTE_SIZE - used, "%.*s", (int)text.size, text.data ? text.data : "");
}

static void on_event(void *ctx, const tp_event *event) {
  (void)ctx;
  if (event->kind != TP_EVENT_CONTEXT) return;
  context_count++;
  add(recalled, tp_text_of("<"));
  add(recalled, tp_value_text(tp_value_at(event->contribution->sources, 0)));
  add(recalled, tp_text_of(">"));
  add(recalled, event->contribution->text);
  add(recalled, tp_text_of("|"));
}

static void answer(void *ctx, const tp_model_request *asked, tp_token token) {
  request[0] = '\0';
  for (size_t i = 0; i < asked->message_count; i++) {
    add(request, tp_text_of("["));
    add(request, asked->messages[i]->text);
    add(request, tp_text_of("]"));
  }
  const tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of(*(const char **)ctx)};
  if (tp_model_complete(token, &response, NULL) != TP_OK) abort();
}

static const char *assistant_words = "Good.";

/* What a host takes for a secret. */
static bool redact_number(void *ctx, tp_redaction *redaction) {
  (void)ctx;
  for (char *at; (at = memmem(redaction->text, redaction->size, "4711", 4));) memcpy(at, "****", 4);
  return true;
}

static void start(bool redacts) {
  tp_runtime_options options = {.struct_size = sizeof options, .redact = redacts ? redact_number : NULL};
  const tp_memory_options memory = {.struct_size = sizeof memory, .keep_assistant = true, .active_recall_ms = 20000};
  tp_edit *edit = NULL;
  assert_int_equal(tp_runtime_new(&options, &runtime, NULL), TP_OK);
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
  assert_int_equal(tp_memory_register(edit, &memory, NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
}

static void note_closed(void *ctx) { latch_hit(ctx); }

static void leave(void) {
  latch closed = LATCH;
  if (!session) return;
  tp_session_close(session, note_closed, &closed);
  latch_wait(&closed, 1);
  session = NULL;
}

static int begin(void **state) {
  (void)state;
  assistant_words = "Good.";
  start(false);
  return 0;
}

static int end(void **state) {
  (void)state;
  leave();
  tp_runtime_free(runtime);
  return 0;
}

FOR_EACH_TEST(begin, end);

static void enter_with(tp_session_options options) {
  const tp_model model = {.struct_size = sizeof model,
                          .name = "good",
                          .ctx = &assistant_words,
                          .start = answer,
                          .placement = TP_PLACEMENT_INLINE};
  tp_fault fault = {0};
  leave();
  options.struct_size = sizeof options;
  options.tenant = "acme";
  options.model = &model;
  options.on_event = on_event;
  if (tp_session_open(runtime, &options, &session, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static void enter(const char *id) { enter_with((tp_session_options){.id = id}); }

static void run(tp_turn_request turn) {
  const tp_turn_result *result = NULL;
  tp_fault fault = {0};
  turn.struct_size = sizeof turn;
  recalled[0] = '\0';
  context_count = 0;
  if (tp_turn_run(session, &turn, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
  assert_int_equal(tp_jobs_wait(runtime, "", 20000, NULL), TP_OK);
}

static void say(const char *turn, const char *text) { run((tp_turn_request){.id = turn, .text = tp_text_of(text)}); }

static int count_of(const char *text, const char *words) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, words)); at++) count++;
  return count;
}

static void assert_lacks(const char *text, const char *words) {
  if (strstr(text, words)) fail_msg("'%s' is in: %s", words, text);
}

static void assert_holds(const char *text, const char *words) {
  if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

static const char code[] = "The code of my locker is 4711, and the locker is the blue one.";

TEST(what_this_session_has_said_is_not_recalled_into_it) {
  assistant_words = "I note that your locker has that code.";
  enter("one");
  say("t1", code);
  say("t2", "What is the code of my locker?");
  assert_string_equal(recalled, "");
  assert_int_equal(count_of(request, "The code of my locker is 4711"), 1);
  assert_int_equal(count_of(request, "I note that your locker"), 1);
  enter("two");
  say("t3", "What is the code of my locker?");
  assert_holds(recalled, "<t1>");
  assert_int_equal(count_of(request, "The code of my locker is 4711"), 1);
}

TEST(what_was_said_in_another_session_is_recalled_beside_what_stands_there) {
  enter("one");
  say("t1", "My locker is on the second floor of the gym.");
  enter("two");
  say("t2", code);
  say("t3", "Where is my locker?");
  assert_holds(recalled, "<t1>");
  assert_lacks(recalled, "<t2>");
}

TEST(the_question_that_is_asked_again_does_not_recall_itself) {
  enter("one");
  say("t1", "Which colour has the locker that I have at the gym?");
  enter("two");
  say("t2", "Which colour has the locker that I have at the gym?");
  assert_lacks(recalled, "Which colour");
}

/* A single word is no sentence. It stands in many messages that say something else. */
TEST(a_short_text_stands_there_only_as_a_message_of_its_own) {
  enter("one");
  say("t1", "Blue locker.");
  enter("two");
  say("t2", "I passed by the Blue locker.");
  say("t3", "What about the locker?");
  assert_holds(recalled, "<t1>");
  say("t4", "Blue locker.");
  say("t5", "And the locker?");
  assert_lacks(recalled, "<t1>");
}

static char *long_text(const char *words) {
  enum { SIZE = 6000 };
  char *text = calloc(1, SIZE + 1);
  if (!text) abort();
  for (size_t i = 0; i < SIZE; i++) text[i] = i % 7 == 6 ? ' ' : (char)('a' + (i / 7 * 5 + i) % 26);
  memcpy(text + SIZE / 2, words, strlen(words));
  return text;
}

TEST(a_passage_of_a_long_message_that_stands_there_is_not_recalled) {
  char *text = long_text(" my locker has the code 4711 ");
  enter("one");
  say("t1", text);
  say("t2", "What code has my locker?");
  assert_lacks(recalled, "<t1>");
  enter("two");
  say("t3", "What code has my locker?");
  assert_holds(recalled, "<t1>");
  free(text);
}

/** For a turn whose host gives the conversation, like a server of another API; no message has the id of a turn. */
static void say_after(const char *turn, const char *user, const char *assistant, const char *text) {
  const tp_message first = {.struct_size = sizeof first, .role = TP_ROLE_USER, .text = tp_text_of(user)};
  const tp_message second = {.struct_size = sizeof second, .role = TP_ROLE_ASSISTANT, .text = tp_text_of(assistant)};
  const tp_message *const messages[] = {&first, &second};
  run((tp_turn_request){.id = turn, .messages = messages, .message_count = 2, .text = tp_text_of(text)});
}

TEST(what_stands_in_the_messages_of_the_request_is_not_recalled) {
  assistant_words = "I note that your locker has that code.";
  enter("one");
  say("t1", code);
  enter("two");
  say_after("t2", code, "Noted.", "What is the code of my locker?");
  assert_holds(recalled, "I note that your locker");
  assert_lacks(recalled, "The code of my locker is 4711");
  say_after("t3", "Hello.", assistant_words, "What is the code of my locker?");
  assert_holds(recalled, "The code of my locker is 4711");
  assert_lacks(recalled, "I note that your locker");
}

TEST(a_text_among_others_in_one_message_stands_there) {
  char all[512];
  enter("one");
  say("t1", code);
  enter("two");
  snprintf(all, sizeof all, "%s %s %s", "From my notes:", code, "That is all.");
  say_after("t2", all, "Noted.", "What is the code of my locker?");
  assert_lacks(recalled, code);
}

TEST(the_beginning_of_a_text_is_not_the_text) {
  char beginning[] = "The code of my locker is 4711, and";
  enter("one");
  say("t1", code);
  enter("two");
  say_after("t2", beginning, "Noted.", "What is the code of my locker?");
  assert_holds(recalled, code);
}

TEST(what_a_call_of_a_tool_holds_stands_there) {
  tp_writer *writer = NULL;
  tp_text arguments;
  enter("one");
  say("t1", code);
  enter("two");
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_write_map(writer, 1);
  tp_write_string(writer, "text");
  tp_write_string(writer, code);
  assert_int_equal(tp_writer_finish(writer, &arguments), TP_OK);
  const tp_tool_call call = {.struct_size = sizeof call, .id = {"c1", 2}, .name = {"note", 4}, .arguments = arguments};
  const tp_tool_call *const calls[] = {&call};
  const tp_message said[] = {{.struct_size = sizeof *said, .role = TP_ROLE_USER, .text = {"Hello.", 6}},
                             {.struct_size = sizeof *said, .role = TP_ROLE_ASSISTANT, .calls = calls, .call_count = 1},
                             {.struct_size = sizeof *said,
                              .role = TP_ROLE_TOOL,
                              .text = {"ok", 2},
                              .call_id = {"c1", 2},
                              .name = {"note", 4}}};
  const tp_message *const messages[] = {&said[0], &said[1], &said[2]};
  run((tp_turn_request){.id = "t2", .messages = messages, .message_count = 3, .text = {"Where is my locker?", 19}});
  assert_lacks(recalled, code);
  tp_writer_free(writer);
}

TEST(one_message_may_hold_more_than_a_turn_recalls) {
  enum { SAID = 150 };
  static char all[SAID * 64];
  char id[16], text[64];
  all[0] = '\0';
  enter("one");
  say("o1", "A xylophone for sale: which xylophone?");
  say("o2", "Anna came by with a ferry, a drum, an accordion and an old xylophone.");
  for (int i = 0; i < SAID; i++) {
    snprintf(id, sizeof id, "t%d", i);
    snprintf(text, sizeof text, "Xylophone number %d is for sale.", i);
    say(id, text);
    strcat(strcat(all, text), " ");
  }
  enter("two");
  say_after("ask", all, "Noted.", "Which xylophone is for sale?");
  assert_holds(recalled, "<o1>");
  assert_holds(recalled, "<o2>");
  assert_lacks(recalled, "Xylophone number");
}

TEST(what_a_compaction_took_out_is_recalled_again) {
  enter_with((tp_session_options){.id = "one", .compaction = TP_COMPACTION_DROP_OLDEST, .history_tokens_max = 60});
  say("t1", code);
  say("t2", "What is the code of my locker?");
  assert_lacks(recalled, "<t1>");
  for (int i = 0; i < 4; i++) {
    char id[16];
    snprintf(id, sizeof id, "f%d", i);
    say(id, "The weather was fine all day, and we walked along the lake until the evening came.");
  }
  assert_lacks(request, "4711");
  say("t3", "What is the code of my locker?");
  assert_holds(recalled, "<t1>");
  assert_int_equal(count_of(request, "The code of my locker is 4711"), 1);
}

TEST_WITH(what_is_kept_redacted_stands_there_with_what_was_redacted, NULL, end) {
  start(true);
  enter("one");
  say("t1", code);
  say("t2", "What is the code of my locker?");
  assert_string_equal(recalled, "");
  enter("two");
  say("t3", "What is the code of my locker?");
  assert_holds(recalled, "The code of my locker is ****");
}

TEST(what_is_kept_without_its_secret_stands_there_with_it) {
  enter("one");
  say("t1", "For my locker take password: hunter22 please.");
  say("t2", "What about my locker?");
  assert_string_equal(recalled, "");
  enter("two");
  say("t3", "What about my locker?");
  assert_holds(recalled, "password: [redacted:password] please.");
}

/* Sixty-four entries are better than those below them; entries that the request contains already take no place. */
TEST(what_stands_there_takes_no_place_from_others) {
  char id[16], text[96];
  enter("one");
  for (int i = 0; i < 5; i++) {
    snprintf(id, sizeof id, "o%d", i);
    snprintf(text, sizeof text, "Number %d: the ferry had a xylophone beside an accordion.", i);
    say(id, text);
  }
  enter("two");
  for (int i = 0; i < 80; i++) {
    snprintf(id, sizeof id, "t%d", i);
    snprintf(text, sizeof text, "My xylophone number %d is for sale, a xylophone.", i);
    say(id, text);
  }
  say("ask", "Which xylophone is for sale?");
  assert_lacks(recalled, "<t");
  for (int i = 0; i < 5; i++) {
    snprintf(id, sizeof id, "<o%d>", i);
    assert_holds(recalled, id);
  }
}

TEST_MAIN(count, arguments) { return test_main(count, arguments); }
