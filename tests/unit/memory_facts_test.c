/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts that a model extracts from a user's messages: which are stored, which replace others, what is recalled and
 * shown of them, and what happens to a turn whose model failed. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/memory/facts.h"
#include "tests/support/model.h"
#include "turnphase/inbox.h"
#include "turnphase/memory.h"

/* ---- a host whose memory has a model ---- */

static tp_runtime *runtime;
static tp_session *session;
static recorder *extractor;
static char directory[64], path[96];
static int turns;
static char context[20000]; /* the newest request to the session's own model */

static void answer_yes(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  write_request(context, request);
  tp_model_response yes = {.struct_size = sizeof yes, .text = TEXT("Yes.")};
  if (tp_model_complete(token, &yes, NULL) != TP_OK) abort();
}

static uint32_t extract_ms; /* 0: the default */

static void start(const reply *replies, size_t count) {
  const tp_model model = {.struct_size = sizeof model, .start = answer_yes, .placement = TP_PLACEMENT_INLINE};
  tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .tenant = "acme", .workspace = "home", .model = &model};
  tp_fault fault = {0};
  extractor = recorder_new(replies, count);
  tp_memory_options memory = {.struct_size = sizeof memory,
                              .path = path,
                              .extract_ms = extract_ms,
                              .model = count ? recorder_model(extractor, false) : NULL};
  tp_edit *edit = NULL;
  runtime = open_runtime(NULL);
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
  if (tp_memory_register(edit, &memory, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
}

static void note_closed(void *ctx) { latch_hit(ctx); }

static void stop(void) {
  latch closed = LATCH;
  tp_session_close(session, note_closed, &closed);
  latch_wait(&closed, 1);
  close_runtime(runtime);
  recorder_free(extractor);
}

/* @param said_ms  0: now. Returns when the turn's job has ended. */
static void say_at(const char *text, int64_t said_ms) {
  char id[16];
  snprintf(id, sizeof id, "t%d", ++turns);
  tp_turn_request request = {.struct_size = sizeof request,
                             .id = id,
                             .text = tp_text_of(text),
                             .said_unix_ms = said_ms,
                             .if_exists = TP_IF_EXISTS_RUN};
  const tp_turn_result *result;
  tp_fault fault = {0};
  if (tp_turn_run(session, &request, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
  assert_int_equal(tp_jobs_wait(runtime, "", 60000, NULL), TP_OK);
}

static void say(const char *text) { say_at(text, 0); }

static int set_up(void **state) {
  (void)state;
  turns = 0;
  extract_ms = 0;
  strcpy(directory, "/tmp/memory_facts_XXXXXX");
  if (!mkdtemp(directory)) return -1;
  snprintf(path, sizeof path, "%s/m.db", directory);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", directory);
  return system(command);
}

FOR_EACH_TEST(set_up, tear_down);

/* ---- what the file holds ---- */

typedef struct listing {
  char text[4096]; /* "id|turn|subject|text|replaced or not\n" */
  size_t count;
} listing;

static bool note(void *ctx, const tp_memory_entry *entry) {
  listing *l = ctx;
  size_t used = strlen(l->text);
  snprintf(l->text + used, sizeof l->text - used, "%lld|%.*s|%.*s|%.*s|%s\n", (long long)entry->id,
           (int)entry->turn.size, entry->turn.data, (int)entry->subject.size, entry->subject.data,
           (int)entry->text.size, entry->text.data, entry->replaced_unix_ms ? "replaced" : "holds");
  l->count++;
  return true;
}

static listing file_of(int64_t id, const char *search) {
  listing l = {.count = 0};
  tp_memory *memory;
  tp_memory_query query = {.struct_size = sizeof query, .oldest_first = !search};
  tp_fault fault = {0};
  assert_int_equal(tp_memory_open(path, &memory, NULL), TP_OK);
  tp_status status = search ? tp_memory_search(memory, &query, tp_text_of(search), note, &l, &fault)
                     : id   ? tp_memory_get(memory, id, note, &l, &fault)
                            : tp_memory_list(memory, &query, note, &l, &fault);
  if (status != TP_OK) fail_msg("%s", fault.message);
  tp_memory_close(memory);
  return l;
}

/* ---- what is kept ---- */

TEST(fact_stands_beside_the_words_that_it_was_made_of) {
  static const reply replies[] = {{.text = "Here it is:\n```json\n{\"facts\": [{\"subject\": \"the user\","
                                           " \"statement\": \"The user lives in Munich.\","
                                           " \"quote\": \"i live\\n  in munich\", \"replaces\": null}]}\n```"}};
  start(replies, 1);
  say("Hello! I live in Munich, near the river.");
  stop();
  listing l = file_of(0, NULL);
  assert_string_equal(l.text,
                      "1|t1||Hello! I live in Munich, near the river.|holds\n"
                      "2|t1|the user|The user lives in Munich.|holds\n");
}

TEST(model_is_shown_the_words_and_what_is_known) {
  static const reply replies[] = {{.text = "{\"facts\": [{\"subject\": \"Rex\", \"statement\": \"Rex is a terrier.\","
                                           " \"quote\": \"Rex, my terrier\"}]}"},
                                  {.text = "{\"facts\": []}"}};
  start(replies, 2);
  say_at("This is Rex, my terrier.", INT64_C(1683550800000));
  say_at("Is Rex a terrier?", INT64_C(1683637200000)); /* it is among the newest and shares words */
  assert_int_equal(extractor->asked, 2);
  assert_non_null(strstr(extractor->requests[0], "No facts are known yet."));
  assert_non_null(strstr(extractor->requests[0], "[2023-05-08, session s] This is Rex, my terrier."));
  assert_non_null(strstr(extractor->requests[0], "<answer>\nYes.\n</answer>"));
  static const char line[] = "Known facts:\n2 [2023-05-08, session s, fact] Rex is a terrier.\n";
  const char *known = strstr(extractor->requests[1], line);
  assert_non_null(known);
  assert_null(strstr(known + sizeof line - 1, "Rex is a terrier."));
  stop();
}

TEST(what_the_user_did_not_say_is_refused) {
  static const reply replies[] = {
      {.text = "{\"facts\": ["
               "{\"subject\": \"a\", \"statement\": \"Invented.\", \"quote\": \"I own a yacht\"},"
               "{\"subject\": \"a\", \"statement\": \"No quote.\"},"
               "{\"subject\": \"a\", \"statement\": \"Too short a quote.\", \"quote\": \"I\"},"
               "{\"subject\": \"\", \"statement\": \"No subject.\", \"quote\": \"I live here\"},"
               "{\"subject\": \"a\", \"statement\": \" \", \"quote\": \"I live here\"},"
               "{\"subject\": 7, \"statement\": \"A number.\", \"quote\": \"I live here\"},"
               "\"text\", null, 3, [],"
               "{\"subject\": \"a\", \"statement\": \"Run together.\", \"quote\": \"Ilivehere\"},"
               "{\"subject\": \"a\", \"statement\": \"Assistant's.\", \"quote\": \"Yes.\"},"
               "{\"subject\": \"a\", \"statement\": \"Sound.\", \"quote\": \"I live here\", \"replaces\": 99}]}"}};
  start(replies, 1);
  say("I live here.");
  stop();
  assert_string_equal(file_of(0, NULL).text, "1|t1||I live here.|holds\n2|t1|a|Sound.|holds\n");
}

TEST(sixteen_facts_of_a_turn_are_kept) {
  static char many[4096];
  size_t used = (size_t)snprintf(many, sizeof many, "{\"facts\": [");
  for (int i = 0; i < 20; i++)
    used += (size_t)snprintf(many + used, sizeof many - used,
                             "%s{\"subject\": \"a\", \"statement\": \"Fact %d.\", \"quote\": \"I live here\"}",
                             i ? "," : "", i);
  snprintf(many + used, sizeof many - used, "]}");
  const reply replies[] = {{.text = many}};
  start(replies, 1);
  say("I live here.");
  stop();
  assert_int_equal(file_of(0, NULL).count, 1 + 16);
}

TEST(same_sentence_is_kept_once) {
  static const reply replies[] = {
      {.text = "{\"facts\": [{\"subject\": \"a\", \"statement\": \"The user likes tea.\", \"quote\": \"I like tea\"},"
               "{\"subject\": \"a\", \"statement\": \"The user likes tea.\", \"quote\": \"like tea\"}]}"}};
  start(replies, 1);
  say("I like tea.");
  say("As I said: I like tea.");
  stop();
  assert_int_equal(file_of(0, NULL).count, 3);
}

/* ---- what replaces what ---- */

static const int64_t DAY = INT64_C(1683550800000);

static const reply moves[] = {
    {.text = "{\"facts\": [{\"subject\": \"the user\", \"statement\": \"The user lives in Munich.\","
             " \"quote\": \"I live in Munich\"}]}"},
    {.text = "{\"facts\": [{\"subject\": \"the user\", \"statement\": \"The user lives in Berlin.\","
             " \"quote\": \"I moved to Berlin\", \"replaces\": 2}]}"},
    {.text = "{\"facts\": [{\"subject\": \"the user\", \"statement\": \"The user lives in Rome.\","
             " \"quote\": \"I moved to Rome\", \"replaces\": 4}]}"},
    {.text = "{\"facts\": []}"}};

TEST(newer_fact_is_recalled_and_both_are_shown) {
  start(moves, COUNT(moves));
  say_at("I live in Munich.", DAY + 1000);
  say_at("I moved to Berlin.", DAY + 2000);
  say_at("I moved to Rome.", DAY + 3000);
  say("Where does the user live?");
  assert_non_null(strstr(context, "fact] The user lives in Rome."));
  assert_null(strstr(context, "The user lives in Munich."));
  assert_null(strstr(context, "The user lives in Berlin."));
  stop();
  listing found = file_of(0, "the user lives");
  assert_non_null(strstr(found.text, "The user lives in Rome."));
  assert_null(strstr(found.text, "The user lives in Berlin."));
  const char *both =
      "4|t2|the user|The user lives in Berlin.|replaced\n6|t3|the user|The user lives in Rome.|holds\n"
      "2|t1|the user|The user lives in Munich.|replaced\n";
  assert_string_equal(file_of(4, NULL).text, both);
  assert_int_equal(file_of(6, NULL).count, 3);
  assert_int_equal(file_of(1, NULL).count, 1);
}

TEST(fact_said_earlier_does_not_replace_one_said_later) {
  start(moves, COUNT(moves));
  say_at("I live in Munich.", DAY + 5000);
  say_at("I moved to Berlin.", DAY + 2000); /* an older conversation, mentioned later */
  stop();
  listing l = file_of(0, NULL);
  assert_non_null(strstr(l.text, "The user lives in Munich.|holds"));
  assert_non_null(strstr(l.text, "The user lives in Berlin.|replaced"));
}

TEST(fact_of_a_turn_that_is_repeated_does_not_replace_itself) {
  static const reply replies[] = {
      {.text = "{\"facts\": [{\"subject\": \"the user\", \"statement\": \"The user lives in Munich.\","
               " \"quote\": \"I live in Munich\"}]}"},
      {.text = "{\"facts\": [{\"subject\": \"the user\", \"statement\": \"The user lives in Munich.\","
               " \"quote\": \"I live in Munich\", \"replaces\": 2}]}"}};
  start(replies, COUNT(replies));
  say("I live in Munich.");
  turns = 0;
  say("I live in Munich.");
  assert_int_equal(extractor->asked, 2);
  stop();
  assert_string_equal(file_of(0, NULL).text,
                      "1|t1||I live in Munich.|holds\n2|t1|the user|The user lives in Munich.|holds\n");
}

TEST(forgotten_fact_does_not_restore_the_one_before) {
  tp_memory *memory;
  start(moves, COUNT(moves));
  say_at("I live in Munich.", DAY + 1000);
  say_at("I moved to Berlin.", DAY + 2000);
  stop();
  assert_int_equal(tp_memory_open(path, &memory, NULL), TP_OK);
  assert_int_equal(tp_memory_forget(memory, 4, NULL), TP_OK);
  tp_memory_close(memory);
  assert_null(strstr(file_of(0, "Where does the user live?").text, "The user lives in Munich."));
  assert_string_equal(file_of(2, NULL).text, "2|t1|the user|The user lives in Munich.|replaced\n");
}

/* ---- failures ---- */

static uint64_t dead_jobs(void) {
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 60000, &report, NULL), TP_OK);
  return report.jobs_dead;
}

/* ---- forms of answers ---- */

#define ONE "{\"subject\": \"allergy\", \"statement\": \"No peanuts.\", \"quote\": \"allergic to peanuts\"}"
#define LISTED "{\"facts\": [" ONE "]}"
#define QUOTED(quote) "{\"facts\": [{\"subject\": \"a\", \"statement\": \"No peanuts.\", \"quote\": \"" quote "\"}]}"

/** What is read of an answer. */
static const struct form {
  const char *answer;
  tp_status status;
  size_t facts, refused;
} forms[] = {
    {LISTED, TP_OK, 1, 0},
    {"```json\n" LISTED "\n```", TP_OK, 1, 0},
    {"Here are the facts:\n" LISTED "\nLet me know!", TP_OK, 1, 0},
    {"<think>The user is allergic. I answer {\"facts\": ...}.</think>\n" LISTED, TP_OK, 1, 0},
    {"<think>{\"facts\": []} would be none, but " QUOTED("nuts") "</think>" LISTED, TP_OK, 1, 0},
    {"I use the form {facts: [...]}.\n" LISTED, TP_OK, 1, 0},
    {LISTED " I left out {the rest}.", TP_OK, 1, 0},
    {"[" ONE "]", TP_OK, 1, 0},
    {"The list: [" ONE ", " ONE "] [1]", TP_OK, 2, 0},
    {"{\"facts\": [" ONE ", ], }", TP_OK, 1, 0},
    {"{\"facts\": [{\"subject\": \"a, ]\", \"statement\": \"x\\\"}, ]\", \"quote\": \"peanuts\"},]}", TP_OK, 1, 0},
    {"{\"facts\": []}", TP_OK, 0, 0},
    {"{}", TP_OK, 0, 0},
    {"```json\n[ ]\n```", TP_OK, 0, 0},
    {"I found nothing that lasts: []", TP_ERR_MALFORMED, 0, 0}, /* it may be the list of something else */
    {"The sources are []. " LISTED, TP_OK, 1, 0},
    {LISTED " Sources: []", TP_OK, 1, 0},
    {"There are no facts to keep.", TP_OK, 0, 0},
    {"None.", TP_OK, 0, 0},
    {"I see nothing here that should be remembered.", TP_OK, 0, 0},
    {"No", TP_OK, 0, 0},
    {QUOTED("\\\"allergic to peanuts\\\""), TP_OK, 1, 0},
    {QUOTED("\xE2\x80\x9Cmoved to Lyon\xE2\x80\x9D"), TP_OK, 1, 0},
    {QUOTED("\xC2\xAB moved to Lyon \xC2\xBB"), TP_OK, 1, 0},
    {QUOTED("'I\xE2\x80\x99m allergic'"), TP_OK, 1, 0},
    {QUOTED("I said \\\"yes\\\""), TP_OK, 1, 0},
    {QUOTED("allergic to walnuts"), TP_OK, 0, 1},
    {QUOTED("\\\"\\\""), TP_OK, 0, 1},
    {"", TP_ERR_MALFORMED, 0, 0},
    {"```", TP_ERR_MALFORMED, 0, 0},
    {"``````", TP_ERR_MALFORMED, 0, 0},
    {"I cannot.", TP_ERR_MALFORMED, 0, 0},
    {"No problem, I like to help.", TP_ERR_MALFORMED, 0, 0},
    {"{\"facts\": 3}", TP_ERR_MALFORMED, 0, 0},
    {"{\"facts\": [" ONE ", {\"subject\": \"b", TP_ERR_MALFORMED, 0, 0}, /* cut: nothing of it */
    {"[\"peanuts\"]", TP_ERR_MALFORMED, 0, 0},
    {"No facts: {broken}", TP_ERR_MALFORMED, 0, 0},
    {"}]", TP_ERR_MALFORMED, 0, 0},
    {"[}", TP_ERR_MALFORMED, 0, 0},
    {"{\"a\\", TP_ERR_MALFORMED, 0, 0}};

TEST(object_is_found_wherever_it_stands_in_the_answer) {
  static const char said[] = "I'm allergic to peanuts, I said \xE2\x80\x9Cyes\xE2\x80\x9D, and I moved to Lyon.";
  const tp__memory_list known = {0};
  tp__memory_store *store;
  assert_int_equal(tp__memory_store_open(NULL, &store, NULL), TP_OK);
  for (size_t i = 0; i < COUNT(forms); i++) {
    tp__memory_facts facts;
    char *answer = strdup(forms[i].answer); /* of its size: a byte read beyond it is seen */
    assert_non_null(answer);
    const tp_text text = {answer, strlen(answer)};
    const tp_status status = tp__memory_facts_read(store, text, tp_text_of(said), &known, &facts);
    if (status != forms[i].status || facts.count != forms[i].facts || facts.refused != forms[i].refused)
      fail_msg("%s: %d, %zu kept, %zu refused", forms[i].answer, (int)status, facts.count, facts.refused);
    tp__memory_facts_fini(&facts);
    free(answer);
  }
  tp__memory_store_close(store);
}

TEST(failed_model_loses_no_word_and_is_asked_again) {
  static const reply replies[] = {
      {.fails = TP_ERR_MODEL, .retryable = true},
      {.text = "I cannot."},
      {.text = "{\"facts\": 3}"},
      {.text = "{broken}"},
      {.text = "{\"facts\": [{\"subject\": \"a\", \"statement\": \"Kept.\", \"quote\": \"I live here\"}]}"}};
  start(replies, COUNT(replies));
  say("I live here.");
  assert_int_equal(extractor->asked, 5);
  assert_int_equal(dead_jobs(), 0);
  stop();
  listing l = file_of(0, NULL);
  assert_int_equal(l.count, 2);
  assert_non_null(strstr(l.text, "1|t1||I live here.|holds\n"));
  assert_non_null(strstr(l.text, "|t1|a|Kept.|holds\n"));
}

TEST(failure_for_good_is_a_dead_letter) {
  static const reply replies[] = {{.fails = TP_ERR_MODEL}};
  start(replies, 1);
  say("I live here.");
  assert_int_equal(extractor->asked, 1);
  assert_int_equal(dead_jobs(), 1);
  stop();
  assert_string_equal(file_of(0, NULL).text, "1|t1||I live here.|holds\n");
}

TEST(model_that_hangs_is_given_up_at_the_limit_and_asked_again) {
  static const reply replies[] = {
      {.never = true},
      {.text = "{\"facts\": [{\"subject\": \"a\", \"statement\": \"Kept.\", \"quote\": \"I live here\"}]}"}};
  extract_ms = 300;
  start(replies, COUNT(replies));
  say("I live here.");
  assert_in_range(extractor->asked, 2, 5);
  while (extractor->cancels == 0) sleep_ms(1);
  assert_int_equal(dead_jobs(), 0);
  stop();
  assert_int_equal(file_of(0, NULL).count, 2);
}

/* ---- a model with an inbox ---- */

static tp_status add_memory(const tp_model *model, tp_fault *fault) {
  tp_memory_options memory = {.struct_size = sizeof memory, .path = path, .model = model};
  tp_edit *edit = NULL;
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
  tp_status status = tp_memory_register(edit, &memory, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  else assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  return status;
}

static const tp_work *next_work(tp_inbox *inbox) {
  const tp_work *work = NULL;
  struct pollfd waits = {.fd = tp_inbox_fd(inbox), .events = POLLIN};
  while (!work) {
    assert_int_equal(poll(&waits, 1, 60000), 1);
    assert_int_equal(tp_inbox_next(inbox, &work), TP_OK);
  }
  return work;
}

TEST(model_with_an_inbox_is_asked_there) {
  static int ctx;
  static const tp_model_response answer = {
      .struct_size = sizeof answer,
      .text = TEXT("{\"facts\": [{\"subject\": \"a\", \"statement\": \"Kept.\", \"quote\": \"I live here\"}]}")};
  const tp_model own = {.struct_size = sizeof own, .start = answer_yes, .placement = TP_PLACEMENT_INLINE};
  const tp_turn_request request = {.struct_size = sizeof request, .id = "t1", .text = TEXT("I live here.")};
  tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .tenant = "acme", .workspace = "home", .model = &own};
  tp_inbox *inbox = NULL;
  runtime = open_runtime(NULL);
  assert_int_equal(tp_inbox_new(runtime, NULL, &inbox, NULL), TP_OK);
  const tp_model model = {.struct_size = sizeof model, .ctx = &ctx, .inbox = inbox};
  assert_int_equal(add_memory(&model, NULL), TP_OK);
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  tp_turn_result_free(result);
  const tp_work *work = next_work(inbox);
  assert_int_equal(work->kind, TP_WORK_MODEL);
  assert_ptr_equal(work->ctx, &ctx);
  assert_int_equal(tp_model_complete(work->token, &answer, NULL), TP_OK);
  assert_int_equal(tp_jobs_wait(runtime, "", 60000, NULL), TP_OK);
  tp_inbox_free(inbox); /* the domain keeps its memory */
  tp_turn_request again = request;
  again.id = "t2";
  assert_int_equal(tp_turn_run(session, &again, &result, NULL), TP_OK);
  tp_turn_result_free(result);
  assert_int_equal(tp_jobs_wait(runtime, "", 60000, NULL), TP_OK);
  latch closed = LATCH;
  tp_session_close(session, note_closed, &closed);
  latch_wait(&closed, 1);
  close_runtime(runtime);
  assert_non_null(strstr(file_of(0, NULL).text, "|t1|a|Kept.|holds\n"));
}

TEST(wrong_model_with_an_inbox_is_refused) {
  tp_inbox *inbox = NULL;
  runtime = open_runtime(NULL);
  assert_int_equal(tp_inbox_new(runtime, NULL, &inbox, NULL), TP_OK);
  const tp_model cases[] = {{.struct_size = sizeof(tp_model), .inbox = inbox, .start = answer_yes},
                            {.struct_size = sizeof(tp_model), .inbox = TP_INBOX_OF_SESSION},
                            {.struct_size = sizeof(tp_model), .inbox = inbox, .destroy = note_closed},
                            {.struct_size = sizeof(tp_model), .inbox = inbox, .placement = TP_PLACEMENT_INLINE}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_fault fault = {0};
    assert_int_equal(add_memory(&cases[i], &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "inbox"));
  }
  close_runtime(runtime);
  tp_inbox_free(inbox);
}

TEST(wrong_model_is_refused) {
  const tp_model models[] = {{.struct_size = sizeof(tp_model)}, {.struct_size = 4}};
  runtime = open_runtime(NULL);
  for (size_t i = 0; i < 2; i++) {
    tp_memory_options memory = {.struct_size = sizeof memory, .path = path, .model = &models[i]};
    tp_edit *edit = NULL;
    assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
    assert_int_equal(tp_memory_register(edit, &memory, NULL), i == 0 ? TP_ERR_USAGE : TP_ERR_VERSION);
    tp_edit_discard(edit);
  }
  close_runtime(runtime);
}

TEST(model_is_destroyed_once) {
  start(moves, COUNT(moves));
  recorder *r = extractor;
  say("I live in Munich.");
  latch closed = LATCH;
  tp_session_close(session, note_closed, &closed);
  latch_wait(&closed, 1);
  assert_int_equal(r->destroys, 0);
  close_runtime(runtime);
  assert_int_equal(r->destroys, 1);
  recorder_free(r);
}

/* ---- moving ---- */

TEST(facts_are_imported) {
  const tp_memory_entry entries[] = {{.struct_size = sizeof(tp_memory_entry),
                                      .said_unix_ms = 1,
                                      .scope = TEXT("workspace"),
                                      .part = TEXT("fact-1"),
                                      .text = TEXT("The user lives in Oslo."),
                                      .subject = TEXT("the user"),
                                      .replaced_unix_ms = 2},
                                     {.struct_size = sizeof(tp_memory_entry),
                                      .said_unix_ms = 2,
                                      .scope = TEXT("workspace"),
                                      .part = TEXT("fact-2"),
                                      .text = TEXT("The user lives in Bern."),
                                      .subject = TEXT("the user")},
                                     {.struct_size = sizeof(tp_memory_entry),
                                      .said_unix_ms = 2,
                                      .scope = TEXT("workspace"),
                                      .text = TEXT("x"),
                                      .replaced_unix_ms = 2}};
  const tp_memory_entry *const list[] = {&entries[0], &entries[1], &entries[2]};
  tp_memory *memory;
  assert_int_equal(tp_memory_open(path, &memory, NULL), TP_OK);
  assert_int_equal(tp_memory_import(memory, list, 3, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_memory_import(memory, list, 2, NULL), TP_OK);
  tp_memory_close(memory);
  assert_string_equal(file_of(0, "where does the user live").text, "2||the user|The user lives in Bern.|holds\n");
  assert_int_equal(file_of(0, NULL).count, 2);
}
