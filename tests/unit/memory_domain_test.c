/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory in a host: registered in a runtime, its six handlers run by turns and by single phases, its five tools
 * called. Also the rules by which a user's words restrict it. */
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/memory/policy.h"
#include "turnphase/memory.h"
#include "turnphase/turnphase.h"

/* ---- an allocator of SQLite, and so of the memory, that refuses one allocation when a test says so ---- */

static atomic_long allocations_left = -1; /* refused at 0; never below */
static sqlite3_mem_methods real_memory;

static bool refused(void) { return atomic_load(&allocations_left) >= 0 && atomic_fetch_sub(&allocations_left, 1) == 0; }

static void *careful_malloc(int size) { return refused() ? NULL : real_memory.xMalloc(size); }
static void *careful_realloc(void *memory, int size) { return refused() ? NULL : real_memory.xRealloc(memory, size); }

static void put_allocator_in_place(void) {
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) != SQLITE_OK) abort();
  sqlite3_mem_methods memory = real_memory;
  memory.xMalloc = careful_malloc;
  memory.xRealloc = careful_realloc;
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) != SQLITE_OK) abort();
}

/* ---- a runtime with a memory, and a model that notes what it is asked ---- */

enum { NOTE_SIZE = 16384 };

/** What a turn was like, as its events and its model saw it. */
typedef struct notes {
  char contexts[NOTE_SIZE]; /* "memory:1<t1>[2026-01-01, session one] text" and a bar, for each entry */
  char diagnostics[NOTE_SIZE];
  char system[NOTE_SIZE];  /* of the last request */
  char message[NOTE_SIZE]; /* its last user message */
  char tools[NOTE_SIZE];   /* the names, each with a blank after */
} notes;

static char directory[64];
static char path[96];
static tp_runtime *runtime;
static tp_session *open_one; /* by hold_session(); the teardown closes what a failed case leaves open */
static tp_turn *open_turn;
static notes noted;
static const char *assistant_words = "Yes."; /* what every turn is answered */

static void add(char *note, tp_text text) {
  size_t used = strlen(note);
  snprintf(note + used, NOTE_SIZE - used, "%.*s", (int)text.size, text.data);
}

static void on_event(void *ctx, const tp_event *event) {
  notes *n = ctx;
  if (event->kind == TP_EVENT_DIAGNOSTIC) {
    add(n->diagnostics, event->contribution->text);
    add(n->diagnostics, tp_text_of("|"));
  }
  if (event->kind != TP_EVENT_CONTEXT) return;
  assert_int_equal(tp_value_count(event->contribution->sources), 1);
  add(n->contexts, event->contribution->key);
  add(n->contexts, tp_text_of("<"));
  add(n->contexts, tp_value_text(tp_value_at(event->contribution->sources, 0)));
  add(n->contexts, tp_text_of(">"));
  add(n->contexts, event->contribution->text);
  add(n->contexts, tp_text_of("|"));
}

static void note_request(notes *n, const tp_model_request *request) {
  n->system[0] = n->message[0] = n->tools[0] = '\0';
  add(n->system, request->system);
  for (size_t i = 0; i < request->message_count; i++) {
    if (request->messages[i]->role != TP_ROLE_USER) continue;
    n->message[0] = '\0';
    add(n->message, request->messages[i]->text);
  }
  for (size_t i = 0; i < request->tool_count; i++) {
    add(n->tools, tp_text_of(request->tools[i]->name));
    add(n->tools, tp_text_of(" "));
  }
}

static void answer_yes(void *ctx, const tp_model_request *request, tp_token token) {
  if (ctx) note_request(ctx, request);
  tp_model_response yes = {.struct_size = sizeof yes, .text = tp_text_of(assistant_words)};
  if (tp_model_complete(token, &yes, NULL) != TP_OK) abort();
}

static tp_model model_of(notes *n) {
  return (tp_model){
      .struct_size = sizeof(tp_model), .name = "yes", .ctx = n, .start = answer_yes, .placement = TP_PLACEMENT_INLINE};
}

static tp_edit *begin(void) {
  tp_edit *edit = NULL;
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
  return edit;
}

static void register_memory(const tp_memory_options *options, const char *disabled) {
  tp_fault fault = {0};
  tp_edit *edit = begin();
  tp_status status = tp_memory_register(edit, options, &fault);
  if (status == TP_OK && disabled) status = tp_edit_enable(edit, disabled, false, NULL);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, &fault);
  if (status != TP_OK) fail_msg("%s", fault.message);
}

static int start_runtime(void **state) {
  (void)state;
  strcpy(directory, "/tmp/memory_domain_XXXXXX");
  if (!mkdtemp(directory)) return -1;
  snprintf(path, sizeof path, "%s/memory.db", directory);
  memset(&noted, 0, sizeof noted);
  assistant_words = "Yes.";
  /* No breaker may open because of the failures that a test wants: it would hide the following ones. */
  tp_runtime_options options = {.struct_size = sizeof options, .no_breakers = true};
  return tp_runtime_new(&options, &runtime, NULL) == TP_OK ? 0 : -1;
}

static void note_closed(void *ctx) { *(_Atomic bool *)ctx = true; }

/* Its id can be opened again afterwards. */
static void close_session(tp_session *session) {
  _Atomic bool closed = false;
  if (!session) return;
  tp_session_close(session, note_closed, &closed);
  while (!closed) usleep(100);
}

static void end_turn(void) {
  if (open_turn) tp_turn_end(open_turn);
  open_turn = NULL;
}

static int end_runtime(void **state) {
  (void)state;
  char command[128];
  end_turn();
  close_session(open_one);
  open_one = NULL;
  tp_runtime_free(runtime);
  runtime = NULL;
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  return system(command);
}

static int start_with_memory(void **state) {
  if (start_runtime(state) != 0) return -1;
  tp_memory_options options = {.struct_size = sizeof options, .path = path, .active_recall_ms = 20000};
  register_memory(&options, NULL);
  return 0;
}

FOR_EACH_TEST(start_with_memory, end_runtime);

static tp_session *open_session(tp_session_options options) {
  tp_session *session = NULL;
  tp_fault fault = {0};
  options.struct_size = sizeof options;
  const tp_model model = model_of(&noted);
  options.model = &model;
  options.on_event = on_event;
  options.event_ctx = &noted;
  if (tp_session_open(runtime, &options, &session, &fault) != TP_OK) fail_msg("%s", fault.message);
  return session;
}

/* Opens the session that the teardown closes. */
static void hold_session(const char *tenant) {
  open_one = open_session((tp_session_options){.id = "held", .tenant = tenant, .workspace = "home"});
}

static void wait_for_jobs(void) { assert_int_equal(tp_jobs_wait(runtime, "", 20000, NULL), TP_OK); }

static tp_turn_outcome say_in(tp_session *session, const char *turn, const char *text) {
  tp_turn_request request = {.struct_size = sizeof request, .id = turn, .text = tp_text_of(text)};
  const tp_turn_result *result = NULL;
  tp_fault fault = {0};
  noted = (notes){0};
  if (tp_turn_run(session, &request, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_turn_outcome outcome = result->outcome;
  tp_turn_result_free(result);
  wait_for_jobs();
  return outcome;
}

/* One turn in a session of its own. */
static void say_with(tp_session_options options, const char *turn, const char *text) {
  tp_session *session = open_session(options);
  assert_int_equal(say_in(session, turn, text), TP_TURN_COMPLETED);
  close_session(session);
}

static void say(const char *session, const char *turn, const char *text) {
  say_with((tp_session_options){.id = session, .tenant = "acme", .workspace = "home"}, turn, text);
}

static void assert_holds(const char *text, const char *words) {
  if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

static void assert_lacks(const char *text, const char *words) {
  if (strstr(text, words)) fail_msg("'%s' is in: %s", words, text);
}

/* ---- turns ---- */

TEST(what_was_said_in_one_session_is_recalled_in_another) {
  say("one", "t1", "My sister Ingrid moved to Oslo in May.");
  assert_string_equal(noted.contexts, "");
  say("two", "t2", "Where does Ingrid live?");
  assert_holds(noted.contexts, "memory:1<t1>[");
  assert_holds(noted.contexts, ", session one] My sister Ingrid moved to Oslo in May.|");
  assert_holds(noted.message, "My sister Ingrid moved to Oslo in May.");
  assert_holds(noted.message, "Where does Ingrid live?");
  assert_string_equal(noted.diagnostics, "");
}

TEST(the_answer_that_shares_no_word_is_recalled_with_what_stands_before_it) {
  tp_session *session = open_session((tp_session_options){.id = "one", .tenant = "acme", .workspace = "home"});
  say_in(session, "t1", "Let me tell about the summer holiday.");
  say_in(session, "t2", "We stayed at a farm near Bergen.");
  say_in(session, "t3", "The weather was fine.");
  close_session(session);
  say("two", "t4", "Remind me of my summer holiday!");
  assert_holds(noted.contexts, "<t1>");
  assert_holds(noted.contexts, "<t2>");
}

/* 2023-05-18 and the day after, at noon. */
TEST(yesterday_in_a_question_is_the_day_before_it_was_said) {
  enum { DAY_MS = 86400000 };
  const int64_t said_ms = INT64_C(1684411200000);
  const char *const texts[] = {"Swimming was lovely.", "What did I do yesterday?"};
  for (int i = 0; i < 2; i++) {
    tp_session *session =
        open_session((tp_session_options){.id = i ? "two" : "one", .tenant = "acme", .workspace = "home"});
    const tp_turn_request request = {
        .struct_size = sizeof request, .text = tp_text_of(texts[i]), .said_unix_ms = said_ms + i * (int64_t)DAY_MS};
    const tp_turn_result *result = NULL;
    noted = (notes){0};
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    tp_turn_result_free(result);
    wait_for_jobs();
    close_session(session);
  }
  assert_holds(noted.contexts, "Swimming was lovely.");
}

TEST(another_workspace_and_another_tenant_recall_nothing) {
  say("one", "t1", "My sister Ingrid moved to Oslo.");
  say_with((tp_session_options){.id = "two", .tenant = "acme", .workspace = "away"}, "t2", "Where does Ingrid live?");
  assert_string_equal(noted.contexts, "");
  say_with((tp_session_options){.id = "two", .tenant = "other", .workspace = "home"}, "t2", "Where does Ingrid live?");
  assert_string_equal(noted.contexts, "");
  say_with((tp_session_options){.id = "two"}, "t2", "Where does Ingrid live?");
  assert_string_equal(noted.contexts, "");
}

TEST(a_turn_whose_user_asks_not_to_remember_is_not_remembered) {
  say("one", "t1", "Please don't remember this: Ingrid's number is 4711.");
  assert_holds(noted.system, "does not want this turn to be remembered");
  assert_string_equal(noted.tools, "memory_search memory_get memory_list ");
  say("two", "t2", "What is the number of Ingrid?");
  assert_string_equal(noted.contexts, "");
}

TEST(a_turn_whose_user_asks_not_to_use_memory_recalls_nothing) {
  say("one", "t1", "My sister Ingrid moved to Oslo.");
  say("two", "t2", "Where does Ingrid live? Don't use your memory.");
  assert_string_equal(noted.contexts, "");
  assert_holds(noted.system, "does not want memories");
  assert_string_equal(noted.tools, "memory_remember memory_forget ");
  say("three", "t3", "Where does Ingrid live?");
  assert_holds(noted.contexts, "<t1>");
  assert_holds(noted.contexts, "<t2>");
}

/* What an agent whose config has `memory` may do: is_allowed, or nothing. */
static void say_by_agent(tp_text extra, bool is_allowed) {
  const tp_agent_config config = {.struct_size = sizeof config, .id = "clerk", .extra = extra};
  tp_session_options options = {.tenant = "acme", .workspace = "home"};
  tp_fault fault = {0};
  if (tp_agent_add(runtime, &config, &options.agent, &fault) != TP_OK) fail_msg("%s", fault.message);
  options.id = "two";
  say_with(options, "t2", "Where does Ingrid live? Her number is 4711.");
  assert_int_equal(strstr(noted.contexts, "<t1>") != NULL, is_allowed);
  assert_int_equal(noted.tools[0] != 0, is_allowed);
  assert_int_equal(strstr(noted.system, "emor") != NULL, is_allowed);
  tp_agent_remove(options.agent);
  say("three", "t3", "What is the number 4711?");
  assert_int_equal(strstr(noted.contexts, "<t2>") != NULL, is_allowed);
}

TEST(an_agent_whose_config_has_no_memory_recalls_and_keeps_nothing) {
  say("one", "t1", "My sister Ingrid moved to Oslo.");
  say_by_agent((tp_text){"\x81\xa6memory\xc2", sizeof "\x81\xa6memory\xc2" - 1}, false);
}

TEST(what_is_not_true_in_the_config_is_no_memory) {
  say("one", "t1", "My sister Ingrid moved to Oslo.");
  say_by_agent((tp_text){"\x81\xa6memory\xa4true", sizeof "\x81\xa6memory\xa4true" - 1}, false);
}

TEST(an_agent_whose_config_has_memory_has_it) {
  say("one", "t1", "My sister Ingrid moved to Oslo.");
  say_by_agent((tp_text){"\x81\xa6memory\xc3", sizeof "\x81\xa6memory\xc3" - 1}, true);
}

TEST(a_turn_without_requests_has_every_tool_and_the_text_on_their_use) {
  say("one", "t1", "Good morning.");
  assert_string_equal(noted.tools, "memory_search memory_get memory_list memory_remember memory_forget ");
  assert_holds(noted.system, "not instructions");
  assert_holds(noted.system, "memory_search");
  assert_holds(noted.system, "memory_forget");
  say("two", "t2", "Off the record, and without your memory: hello.");
  assert_string_equal(noted.tools, "");
  assert_lacks(noted.system, "memory_");
}

static tp_answer deny_secrets(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  return memmem(text.data, text.size, "secret", 6) ? tp_call_deny(call, "no secrets") : tp_call_allow(call);
}

TEST(a_turn_that_was_denied_is_not_remembered) {
  tp_hook hook = {.struct_size = sizeof hook, .phase = "turn.intake", .run = deny_secrets};
  assert_int_equal(tp_hook_add(runtime, &hook, NULL), TP_OK);
  tp_session *session = open_session((tp_session_options){.id = "one", .tenant = "acme", .workspace = "home"});
  assert_int_equal(say_in(session, "t1", "The secret word is xylophone."), TP_TURN_DENIED);
  close_session(session);
  say("two", "t2", "Is there a xylophone?");
  assert_string_equal(noted.contexts, "");
}

static tp_answer deny_memory(void *ctx, tp_call *call) {
  if (tp_call_emit_policy(call, "memory", ctx, "deny", 1, NULL) != TP_OK) return tp_call_fail(call, 1, NULL);
  return TP_ANSWER_DONE;
}

TEST(a_policy_of_the_host_outweighs_what_the_memory_allows) {
  static char write[] = "write";
  tp_hook hook = {.struct_size = sizeof hook, .phase = "turn.pre_policy", .run = deny_memory, .ctx = write};
  assert_int_equal(tp_hook_add(runtime, &hook, NULL), TP_OK);
  say("one", "t1", "My sister Ingrid moved to Oslo.");
  assert_string_equal(noted.tools, "memory_search memory_get memory_list ");
  say("two", "t2", "Where does Ingrid live?");
  assert_string_equal(noted.contexts, "");
}

TEST_WITH(without_a_policy_nothing_is_recalled_or_remembered, start_runtime, end_runtime) {
  tp_memory_options options = {.struct_size = sizeof options, .path = path};
  register_memory(&options, "memory.policy_classifier");
  say("one", "t1", "My sister Ingrid moved to Oslo.");
  say("two", "t2", "Where does Ingrid live?");
  assert_string_equal(noted.contexts, "");
  assert_string_equal(noted.tools, "");
  assert_string_equal(noted.system, "");
}

static tp_answer allow_memory(void *ctx, tp_call *call) {
  (void)ctx;
  static const char *const keys[] = {"read", "write", "tools"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (tp_call_emit_policy(call, "memory", keys[i], "allow", INT32_MAX, NULL) != TP_OK)
      return tp_call_fail(call, 1, NULL);
  return TP_ANSWER_DONE;
}

/* The host's policies are as heavy as any, and come first. */
TEST(no_policy_gives_an_agent_the_memory_that_its_config_takes_away) {
  tp_hook hook = {.struct_size = sizeof hook, .phase = "turn.pre_policy", .run = allow_memory, .priority = -1000};
  assert_int_equal(tp_hook_add(runtime, &hook, NULL), TP_OK);
  say("zero", "t0", "Do not remember my cat Tom.");
  say("one", "t1", "My sister Ingrid moved to Oslo. Who is Tom?");
  assert_holds(noted.contexts, "<t0>"); /* they are: what the user said does not count against them */
  say_by_agent((tp_text){"\x81\xa6memory\xc2", sizeof "\x81\xa6memory\xc2" - 1}, false);
}

TEST(blank_messages_are_not_remembered) {
  say("one", "t1", " \n ");
  say("one", "t2", "Something.");
  say("two", "t3", "Was there something?");
  assert_holds(noted.contexts, "memory:1<t2>");
}

/* A message of size bytes with a word at a place. */
static char *long_message(size_t size, size_t at, const char *word) {
  char *text = malloc(size + 1);
  assert_non_null(text);
  for (size_t i = 0; i < size; i++) text[i] = "filling up "[i % 11];
  if (at + strlen(word) <= size) memcpy(text + at, word, strlen(word));
  text[size] = '\0';
  return text;
}

static bool note_size(void *ctx, const tp_memory_entry *entry) {
  *(size_t *)ctx = entry->text.size;
  return true;
}

TEST(a_message_is_kept_whole_wherever_its_words_stand) {
  static const size_t places[] = {0, 4080, 4089, 4095, 4097, 8200, 16380, 65536, 131000};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char turn[16], word[32];
    snprintf(turn, sizeof turn, "t%zu", i);
    snprintf(word, sizeof word, " xylophone%zu ", i);
    char *text = long_message(places[i] + 600, places[i], word);
    say("one", turn, text);
    free(text);
    snprintf(word, sizeof word, "Where is xylophone%zu?", i);
    say("two", "ask", word);
    snprintf(word, sizeof word, "xylophone%zu", i);
    assert_holds(noted.contexts, word);
  }
}

static bool note_text(void *ctx, const tp_memory_entry *entry) {
  add(ctx, entry->text);
  add(ctx, tp_text_of("|"));
  return true;
}

static void read_kept(char kept[NOTE_SIZE]) {
  tp_memory *memory = NULL;
  kept[0] = '\0';
  assert_int_equal(tp_memory_open(path, &memory, NULL), TP_OK);
  assert_int_equal(tp_memory_list(memory, NULL, note_text, kept, NULL), TP_OK);
  tp_memory_close(memory);
}

/* Written in two pieces, so that no scanner takes it for a real one. */
#define KEY \
  "sk-"     \
  "proj-a1B2c3D4e5F6g7H8i9J0"

static void keep_secrets(bool keeps) {
  static char kept[NOTE_SIZE];
  const tp_memory_options options = {
      .struct_size = sizeof options, .path = path, .keep_assistant = true, .keep_secrets = keeps};
  register_memory(&options, NULL);
  assistant_words = "I shall use password: hunter22 for it.";
  say("one", "t1", "Please deploy with the key " KEY " today.");
  read_kept(kept);
  assert_int_equal(strstr(kept, KEY) != NULL, keeps);
  assert_int_equal(strstr(kept, "deploy with the key [redacted:key] today.") == NULL, keeps);
  assert_int_equal(strstr(kept, "hunter22") != NULL, keeps);
  say("two", "t2", "Which key do I deploy with?");
  assert_int_equal(strstr(noted.contexts, KEY) != NULL, keeps);
  assert_holds(noted.contexts, "Please deploy with the key");
}

TEST_WITH(secrets_are_not_kept, start_runtime, end_runtime) { keep_secrets(false); }
TEST_WITH(secrets_are_kept_when_the_options_say_so, start_runtime, end_runtime) { keep_secrets(true); }

TEST_WITH(async_memory_keeps_and_recalls_as_any_other, start_runtime, end_runtime) {
  static char kept[NOTE_SIZE];
  tp_memory_options options = {.struct_size = sizeof options, .path = path, .async = true, .reserved_ = {0, 1}};
  tp_edit *edit = begin();
  assert_int_equal(tp_memory_register(edit, &options, NULL), TP_ERR_USAGE);
  tp_edit_discard(edit);
  options.reserved_[1] = 0;
  register_memory(&options, NULL);
  say("one", "t1", "I play the violin.");
  read_kept(kept); /* as another connection reads it */
  assert_string_equal(kept, "I play the violin.|");
  say("two", "t2", "Who plays the violin?");
  assert_holds(noted.contexts, "I play the violin.");
}

TEST(of_a_message_beyond_the_bound_the_beginning_is_kept) {
  static const size_t sizes[] = {4096, 4097, 131072, 131073, 262144, 300000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char turn[16];
    snprintf(turn, sizeof turn, "t%zu", i);
    char *text = long_message(sizes[i], sizes[i], "");
    say("one", turn, text);
    free(text);
  }
  tp_memory *memory = NULL;
  assert_int_equal(tp_memory_open(path, &memory, NULL), TP_OK);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t size = 0;
    assert_int_equal(tp_memory_get(memory, (int64_t)i + 1, note_size, &size, NULL), TP_OK);
    assert_int_equal(size, sizes[i] < 131072 ? sizes[i] : 131072);
  }
  tp_memory_close(memory);
}

/* A long line is cut to the matching words, so that sixteen lines fit the turn's budget. */
TEST(long_memories_stay_within_the_budget_of_the_turn) {
  char text[3500], turn[16];
  for (size_t i = 0; i < sizeof text - 1; i++) text[i] = i % 6 ? 'w' : ' ';
  text[sizeof text - 1] = '\0';
  for (int i = 0; i < 16; i++) {
    snprintf(turn, sizeof turn, "t%d", i);
    memcpy(text + 1700, " xylophone ", 11);
    text[0] = (char)('a' + i);
    say("one", turn, text);
  }
  say("two", "ask", "Which colour had the xylophone of my neighbour?");
  assert_true(strlen(noted.contexts) > 4000 && strlen(noted.contexts) < 12000 + 16 * 32);
  assert_holds(noted.contexts, "xylophone");
  assert_string_equal(noted.diagnostics, "");
}

/* ---- a memory that is busy, full or out of reach ---- */

static sqlite3 *locker;
static struct rlimit file_size;

static void lock_with(const char *sql) {
  assert_int_equal(sqlite3_open(path, &locker), SQLITE_OK);
  assert_int_equal(sqlite3_exec(locker, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void lock_for_writing(void) { lock_with("BEGIN IMMEDIATE"); }
static void lock_for_all(void) { lock_with("BEGIN EXCLUSIVE"); }

static void lock_with_a_write(void) { lock_with("BEGIN; UPDATE scope SET changes = changes + 1"); }

static void unlock(void) {
  assert_int_equal(sqlite3_exec(locker, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(locker);
}

/* Its transaction ends with it. */
static void end_locker(void) { sqlite3_close(locker); }

/* The file system takes no byte. */
static void fill(void) {
  struct rlimit none = {0, 0};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &file_size), 0);
  none.rlim_max = file_size.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
}

static void empty(void) { assert_int_equal(setrlimit(RLIMIT_FSIZE, &file_size), 0); }

static void move(const char *from, const char *to) {
  char names[2][128];
  snprintf(names[0], sizeof names[0], "%s%s", directory, from);
  snprintf(names[1], sizeof names[1], "%s%s", directory, to);
  assert_int_equal(rename(names[0], names[1]), 0);
}

static void take_file(void) { move("/memory.db", "/away"); }
static void return_file(void) { move("/away", "/memory.db"); }
static void take_directory(void) { move("", ".away"); }
static void return_directory(void) { move(".away", ""); }

/* A job that cannot even try waits, for longer than five attempts would take, without a message to the user. */
TEST(what_could_not_be_kept_at_once_is_kept_later) {
  enum { MORE_THAN_ATTEMPTS = 6 };
  static const struct {
    const char *turn;
    void (*take)(void), (*give)(void);
    uint64_t postpones;
  } rows[] = {{"t1", lock_for_writing, unlock, MORE_THAN_ATTEMPTS},
              {"t2", lock_for_all, unlock, 1},
              {"t3", lock_with_a_write, unlock, 1},
              {"t4", lock_for_writing, end_locker, 1},
              {"t5", fill, empty, 1},
              {"t6", take_file, return_file, 1},
              {"t7", take_directory, return_directory, 1}};
  hold_session("acme");
  say("one", "t0", "Hello.");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tp_runtime_stats stats = {.struct_size = sizeof stats};
    tp_turn_request request = {.struct_size = sizeof request, .id = rows[i].turn, .text = tp_text_of("A xylophone.")};
    const tp_turn_result *result = NULL;
    char id[16];
    tp_runtime_stats_get(runtime, &stats);
    const uint64_t before = stats.jobs_postponed;
    rows[i].take();
    tp_status status = tp_turn_run(open_one, &request, &result, NULL);
    while (status == TP_OK && stats.jobs_postponed < before + rows[i].postpones && stats.jobs_dead == 0) {
      usleep(1000);
      tp_runtime_stats_get(runtime, &stats);
    }
    rows[i].give();
    assert_int_equal(status, TP_OK);
    tp_turn_result_free(result);
    wait_for_jobs();
    say("two", "ask", "Is there a xylophone?");
    snprintf(id, sizeof id, "<%s>", rows[i].turn);
    assert_holds(noted.contexts, id);
    tp_runtime_stats_get(runtime, &stats);
    assert_int_equal(stats.jobs_dead, 0);
  }
}

/* ---- a memory that cannot be written ---- */

static atomic_int errors_logged;

static void count_error(void *ctx, const tp_log_record *record) {
  (void)ctx;
  if (record->level == TP_LOG_ERROR) atomic_fetch_add(&errors_logged, 1);
}

static int start_with_log(void **state) {
  tp_runtime_options options = {
      .struct_size = sizeof options, .log = count_error, .log_level = TP_LOG_ERROR, .no_breakers = true};
  int failed = start_runtime(state);
  tp_runtime_free(runtime);
  runtime = NULL;
  errors_logged = 0;
  if (failed || tp_runtime_new(&options, &runtime, NULL) != TP_OK) return -1;
  register_memory(&(tp_memory_options){.struct_size = sizeof(tp_memory_options), .path = path}, NULL);
  return 0;
}

static void change_file(const char *sql) {
  sqlite3 *other = NULL;
  assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(other);
}

static bool note_job(void *ctx, const tp_job *job) {
  *(uint64_t *)ctx = job->id;
  return false;
}

/* Lost memories are reported in the log and in the drain's report. They are stored when their job is run again. */
TEST_WITH(what_could_not_be_kept_is_reported_and_kept_when_it_is_redriven, start_with_log, end_runtime) {
  tp_drain_report report = {.struct_size = sizeof report};
  uint64_t job = 0;
  change_file("CREATE TRIGGER refuse BEFORE INSERT ON memory BEGIN SELECT RAISE (ABORT, 'refused'); END");
  say("one", "t1", "A xylophone.");
  assert_int_not_equal(errors_logged, 0);
  assert_int_equal(tp_jobs_list(runtime, NULL, note_job, &job, NULL), TP_OK);
  assert_int_not_equal(job, 0);
  change_file("DROP TRIGGER refuse");
  assert_int_equal(tp_job_redrive(runtime, job, NULL), TP_OK);
  wait_for_jobs();
  say("two", "t2", "Is there a xylophone?");
  assert_holds(noted.contexts, "<t1>");
  assert_int_equal(tp_runtime_drain(runtime, 20000, &report, NULL), TP_OK);
  assert_int_equal(report.jobs_dead, 1);
}

/* ---- scopes ---- */

static bool recalls(const char *scope, tp_session_options first, tp_session_options second) {
  tp_memory_options options = {.struct_size = sizeof options, .scope = scope};
  register_memory(&options, NULL);
  first.id = "one";
  second.id = "two";
  say_with(first, "t1", "My sister Ingrid moved to Oslo.");
  say_with(second, "t2", "Where does Ingrid live?");
  return strstr(noted.contexts, "<t1>") != NULL;
}

TEST_WITH(the_scope_user_spans_the_workspaces_of_a_tenant, start_runtime, end_runtime) {
  assert_true(recalls("user", (tp_session_options){.tenant = "a", .workspace = "w"},
                      (tp_session_options){.tenant = "a", .workspace = "v"}));
}

TEST_WITH(the_scope_thread_parts_the_threads_of_a_workspace, start_runtime, end_runtime) {
  assert_false(recalls("thread", (tp_session_options){.tenant = "a", .workspace = "w", .thread = "x"},
                       (tp_session_options){.tenant = "a", .workspace = "w", .thread = "y"}));
}

TEST_WITH(the_scope_agent_needs_no_agent, start_runtime, end_runtime) {
  assert_true(recalls("agent", (tp_session_options){.tenant = "a", .workspace = "w"},
                      (tp_session_options){.tenant = "a", .workspace = "v"}));
}

/* ---- phases alone ---- */

static tp_phase_result run_phase(uint32_t phase, const tp_field *fields, size_t count) {
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = count};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_fault fault = {0};
  if (tp_phase_run(open_turn, phase, &input, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(result.outcome, TP_OK);
  return result;
}

/* Begins a turn in the held session and makes its policy. */
static void begin_turn(const char *id, const char *text) {
  tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = tp_text_of(text)};
  end_turn();
  assert_int_equal(tp_turn_begin(open_one, &request, &open_turn, NULL), TP_OK);
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)};
  run_phase(TP_PHASE_TURN_PRE_POLICY, &field, 1);
}

static void end_of_turn_with(const char *text, const char *answer) {
  tp_field fields[] = {{.id = TP_FIELD_OUTCOME, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("completed")},
                       {.id = TP_FIELD_USER_PREVIEW, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)},
                       {.id = TP_FIELD_ASSISTANT_PREVIEW, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(answer)}};
  run_phase(TP_PHASE_TURN_POST_TURN, fields, 3);
  wait_for_jobs();
}

static void end_of_turn(const char *text) { end_of_turn_with(text, "Yes."); }

static tp_phase_result recall(const char *text) {
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)};
  return run_phase(TP_PHASE_TURN_PRE_PROMPT_CONTEXT, &field, 1);
}

static bool has_audit(const tp_phase_result *result, const char *code) {
  size_t count = result->merged ? tp_merged_count(result->merged, TP_CONTRIBUTION_AUDIT) : 0;
  for (size_t i = 0; i < count; i++) {
    tp_text key = tp_merged_get(result->merged, TP_CONTRIBUTION_AUDIT, i)->contribution->key;
    if (key.size == strlen(code) && memcmp(key.data, code, key.size) == 0) return true;
  }
  return false;
}

static size_t contexts_of(const tp_phase_result *result, const char *subscription) {
  size_t count = result->merged ? tp_merged_count(result->merged, TP_CONTRIBUTION_PROMPT_CONTEXT) : 0, found = 0;
  for (size_t i = 0; i < count; i++)
    found += strcmp(tp_merged_get(result->merged, TP_CONTRIBUTION_PROMPT_CONTEXT, i)->subscription, subscription) == 0;
  return found;
}

TEST(a_job_that_runs_twice_remembers_once) {
  hold_session("acme");
  begin_turn("t1", "A xylophone.");
  end_of_turn("A xylophone.");
  end_of_turn("A xylophone.");
  begin_turn("t2", "xylophone");
  tp_phase_result result = recall("xylophone");
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 1);
}

/* ---- the assistant ---- */

TEST_WITH(what_the_assistant_said_is_kept_only_when_the_options_say_so, start_runtime, end_runtime) {
  register_memory(&(tp_memory_options){.struct_size = sizeof(tp_memory_options), .path = path}, NULL);
  assistant_words = "Try the xylophone.";
  say("one", "t1", "What shall I play?");
  assert_holds(noted.system, "What the user says is remembered");
  say("two", "t2", "xylophone");
  assert_string_equal(noted.contexts, "");
}

TEST_WITH(what_the_assistant_said_is_recalled_as_its_own, start_runtime, end_runtime) {
  register_memory(&(tp_memory_options){.struct_size = sizeof(tp_memory_options), .path = path, .keep_assistant = true},
                  NULL);
  assistant_words = "Try the xylophone.";
  say("one", "t1", "What shall I play?");
  assert_holds(noted.system, "What the user and you say is remembered");
  say("two", "t2", "xylophone");
  assert_holds(noted.contexts, "memory:2<t1>[");
  assert_holds(noted.contexts, ", session one, assistant] Try the xylophone.|");
  assistant_words = "";
  say("three", "t3", "Good night.");
  say("four", "t4", "night");
  assert_holds(noted.contexts, ", session three] Good night.|");
  assert_lacks(noted.contexts, "session three, assistant");
}

/* The two lines are alike but for their speaker. */
TEST_WITH(a_question_for_what_one_of_them_said_prefers_that_one, start_runtime, end_runtime) {
  register_memory(&(tp_memory_options){.struct_size = sizeof(tp_memory_options), .path = path, .keep_assistant = true},
                  NULL);
  assistant_words = "Jazz music from Oslo.";
  say("one", "t1", "Jazz music from Oslo.");
  assistant_words = "";
  static const struct {
    const char *text, *first;
  } rows[] = {{"What did you say about jazz music?", "memory:2<"},
              {"You recommended jazz music.", "memory:2<"},
              {"What did I say about jazz music?", "memory:1<"},
              {"As I mentioned, jazz music.", "memory:1<"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char id[16];
    snprintf(id, sizeof id, "q%zu", i);
    say(id, id, rows[i].text);
    const char *two = strstr(noted.contexts, "memory:2<"), *one = strstr(noted.contexts, "memory:1<");
    assert_true(one && two);
    assert_int_equal(rows[i].first[7] == '2', two < one);
  }
}

TEST_WITH(a_job_that_runs_twice_keeps_both_once, start_runtime, end_runtime) {
  register_memory(&(tp_memory_options){.struct_size = sizeof(tp_memory_options), .path = path, .keep_assistant = true},
                  NULL);
  hold_session("acme");
  begin_turn("t1", "A xylophone.");
  for (int i = 0; i < 2; i++) end_of_turn_with("A xylophone.", "A xylophone, too.");
  begin_turn("t2", "xylophone");
  tp_phase_result result = recall("xylophone");
  assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 2);
}

TEST(deterministic_recall_has_all_and_active_recall_adds_nothing) {
  char id[16];
  for (int i = 0; i < 8; i++) {
    snprintf(id, sizeof id, "x%d", i);
    say("one", id, "The xylophone is here.");
    snprintf(id, sizeof id, "p%d", i);
    say("one", id, "The piano is there.");
  }
  hold_session("acme");
  begin_turn("t1", "xylophone");
  tp_phase_result result = recall("xylophone");
  assert_true(has_audit(&result, "memory.active_recall.skipped"));
  assert_int_equal(contexts_of(&result, "memory.deterministic_recall"), 8);
  assert_int_equal(contexts_of(&result, "memory.active_recall"), 0);
}

TEST(a_turn_recalls_sixty_four_entries_at_most) {
  char id[16];
  tp_session *session = open_session((tp_session_options){.id = "one", .tenant = "acme", .workspace = "home"});
  for (int i = 0; i < 66; i++) {
    snprintf(id, sizeof id, "x%d", i);
    say_in(session, id, "The xylophone is here.");
  }
  close_session(session);
  hold_session("acme");
  begin_turn("t1", "Which xylophone did the neighbour buy?");
  tp_phase_result result = recall("Which xylophone did the neighbour buy?");
  assert_int_equal(contexts_of(&result, "memory.deterministic_recall"), 64);
}

TEST(a_model_that_cannot_call_tools_is_given_none) {
  hold_session("acme");
  begin_turn("t1", "Hello.");
  tp_field field = {.id = TP_FIELD_CAN_CALL_TOOLS, .kind = TP_FIELD_KIND_INT, .number = 0};
  tp_phase_result result = run_phase(TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, &field, 1);
  assert_true(!result.merged || tp_merged_count(result.merged, TP_CONTRIBUTION_TOOL_BUNDLE) == 0);
}

/* ---- tools ---- */

static tp_writer *writer;

static int start_with_writer(void **state) {
  return tp_writer_new(NULL, &writer) == TP_OK ? start_with_memory(state) : -1;
}

static int end_with_writer(void **state) {
  tp_writer_free(writer);
  writer = NULL;
  return end_runtime(state);
}

/* The arguments {key: text}, or {} without a key. */
static tp_text arguments(const char *key, const char *text) {
  tp_text value = {0};
  tp_writer_reset(writer);
  tp_write_map(writer, key ? 1 : 0);
  if (key) tp_write_string(writer, key);
  if (key) tp_write_string(writer, text);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  return value;
}

static void assert_used(const char *tool, tp_text with, tp_tool_result_kind kind, const char *words) {
  tp_tool_call call = {.struct_size = sizeof call, .id = tp_text_of("c1"), .name = tp_text_of(tool), .arguments = with};
  const tp_tool_call *const calls[] = {&call};
  const tp_tool_result *const *results;
  char text[4096];
  assert_int_equal(tp_tools_run(open_turn, calls, 1, &results, NULL), TP_OK);
  snprintf(text, sizeof text, "%.*s", (int)results[0]->text.size, results[0]->text.data);
  if (results[0]->kind != kind) fail_msg("%s: %s: %s", tool, tp_tool_result_name(results[0]->kind), text);
  assert_holds(text, words);
}

static void assert_error(const char *tool, tp_text with, const char *words) {
  assert_used(tool, with, TP_TOOL_HANDLER_ERROR, words);
}

static void assert_ok(const char *tool, tp_text with, const char *words) { assert_used(tool, with, TP_TOOL_OK, words); }

static void begin_with_tools(const char *tenant, const char *text) {
  hold_session(tenant);
  begin_turn("t1", text);
  tp_field field = {.id = TP_FIELD_CAN_CALL_TOOLS, .kind = TP_FIELD_KIND_INT, .number = 1};
  run_phase(TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, &field, 1);
}

TEST_WITH(a_model_remembers_searches_reads_lists_and_forgets, start_with_writer, end_with_writer) {
  begin_with_tools("acme", "Hello.");
  assert_ok("memory_list", arguments(NULL, NULL), "Nothing is remembered yet.");
  assert_ok("memory_remember", arguments("text", "Ingrid likes herring."), "Remembered as memory:1.");
  assert_ok("memory_remember", arguments("text", "Olav likes tea."), "Remembered as memory:2.");
  assert_ok("memory_remember", arguments("text", "Ingrid likes herring."), "Remembered as memory:1.");
  assert_ok("memory_search", arguments("query", "What does Ingrid like?"), ", session held, noted] Ingrid likes he");
  assert_ok("memory_search", arguments("query", "submarine"), "No memory matches.");
  assert_ok("memory_get", arguments("id", "memory:2"), "Olav likes tea.");
  assert_ok("memory_list", arguments("before", "memory:2"), "memory:1 [");
  assert_ok("memory_forget", arguments("id", "memory:1"), "Forgotten.");
  assert_error("memory_forget", arguments("id", "memory:1"), "no memory of that id");
  assert_error("memory_get", arguments("id", "1"), "no memory of that id");
  assert_ok("memory_list", arguments("before", "memory:1"), "There are no older memories.");
}

TEST_WITH(wrong_arguments_are_answered_with_what_is_wrong, start_with_writer, end_with_writer) {
  char text[4200];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  begin_with_tools("acme", "Hello.");
  assert_used("memory_search", arguments(NULL, NULL), TP_TOOL_INVALID_ARGUMENTS, "query");
  assert_used("memory_list", arguments("limit", "ten"), TP_TOOL_INVALID_ARGUMENTS, "limit");
  assert_error("memory_get", arguments("id", "memory:one"), "no memory of that id");
  assert_error("memory_list", arguments("before", "yesterday"), "no memory of that id");
  assert_error("memory_remember", arguments("text", " \n"), "empty");
  assert_error("memory_remember", arguments("text", text), "at most 4096 bytes");
}

TEST_WITH(a_tool_reaches_no_other_scope, start_with_writer, end_with_writer) {
  say("one", "t0", "My sister Ingrid moved to Oslo.");
  begin_with_tools("other", "Hello.");
  assert_error("memory_get", arguments("id", "memory:1"), "no memory of that id");
  assert_error("memory_forget", arguments("id", "memory:1"), "no memory of that id");
  assert_ok("memory_search", arguments("query", "Ingrid"), "No memory matches.");
}

TEST_WITH(tools_that_the_policy_withholds_are_unknown, start_with_writer, end_with_writer) {
  begin_with_tools("acme", "Never save this.");
  assert_used("memory_remember", arguments("text", "It."), TP_TOOL_UNKNOWN_TOOL, "");
  assert_ok("memory_list", arguments(NULL, NULL), "Nothing");
}

/* ---- threads ---- */

enum { THREADS = 4, TURNS = 10 };

static void *talk(void *arg) {
  const char *name = arg;
  tp_session_options options = {.struct_size = sizeof options, .id = name, .tenant = "acme", .workspace = "home"};
  tp_session *session = NULL;
  const tp_model model = model_of(NULL);
  options.model = &model;
  bool well = tp_session_open(runtime, &options, &session, NULL) == TP_OK;
  for (int i = 0; well && i < TURNS; i++) {
    tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("The violin and the piano.")};
    const tp_turn_result *result = NULL;
    well = tp_turn_run(session, &request, &result, NULL) == TP_OK && result->outcome == TP_TURN_COMPLETED;
    tp_turn_result_free(result);
  }
  close_session(session);
  return well ? arg : NULL;
}

TEST(sessions_on_several_threads_share_one_memory) {
  static char names[THREADS][16];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    snprintf(names[i], sizeof names[i], "session-%d", i);
    assert_int_equal(pthread_create(&threads[i], NULL, talk, names[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    assert_ptr_equal(result, names[i]);
  }
  wait_for_jobs();
  sqlite3 *db = NULL;
  sqlite3_stmt *count = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*), memories FROM memory, scope", -1, &count, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(count), SQLITE_ROW);
  assert_int_equal(sqlite3_column_int(count, 0), THREADS * TURNS);
  assert_int_equal(sqlite3_column_int(count, 1), THREADS * TURNS);
  sqlite3_finalize(count);
  sqlite3_close(db);
}

/* ---- registration ---- */

static void assert_not_registered(tp_memory_options options, tp_status expected, const char *words) {
  tp_fault fault = {0};
  tp_edit *edit = begin();
  assert_int_equal(tp_memory_register(edit, &options, &fault), expected);
  assert_int_equal(fault.code, expected);
  assert_holds(fault.message, words);
  tp_edit_discard(edit);
}

TEST_WITH(wrong_options_are_refused_with_what_is_right, start_runtime, end_runtime) {
  const size_t size = sizeof(tp_memory_options);
  char missing[128];
  snprintf(missing, sizeof missing, "%s/none/memory.db", directory);
  assert_not_registered((tp_memory_options){0}, TP_ERR_VERSION, "struct_size");
  assert_not_registered((tp_memory_options){.struct_size = size, .scope = "galaxy"}, TP_ERR_USAGE, "agent or task");
  assert_not_registered((tp_memory_options){.struct_size = size, .recall_max = 65}, TP_ERR_USAGE, "at most 64");
  assert_not_registered((tp_memory_options){.struct_size = size, .path = missing}, TP_ERR_IO, missing);
  assert_not_registered((tp_memory_options){.struct_size = size, .path = ""}, TP_ERR_USAGE, "path");
}

TEST_WITH(options_of_an_older_and_of_a_newer_host_are_understood, start_runtime, end_runtime) {
  struct newer {
    tp_memory_options options;
    char more[8];
  } newer = {.options = {.struct_size = sizeof newer}};
  tp_memory_options older = {.struct_size = offsetof(tp_memory_options, recall_max), .recall_max = 99};
  tp_fault fault = {0};
  tp_edit *edit = begin();
  assert_int_equal(tp_memory_register(edit, &older, &fault), TP_OK);
  tp_edit_discard(edit);
  edit = begin();
  assert_int_equal(tp_memory_register(edit, &newer.options, &fault), TP_OK);
  tp_edit_discard(edit);
  edit = begin();
  newer.more[3] = 1;
  assert_int_equal(tp_memory_register(edit, &newer.options, &fault), TP_ERR_VERSION);
  assert_int_equal(tp_memory_register(edit, NULL, &fault), TP_OK);
  tp_edit_discard(edit);
}

TEST_WITH(a_discarded_edit_closes_the_memory, start_runtime, end_runtime) {
  tp_memory_options options = {.struct_size = sizeof options, .path = path};
  sqlite3_int64 before = sqlite3_memory_used();
  tp_edit *edit = begin();
  assert_int_equal(tp_memory_register(edit, &options, NULL), TP_OK);
  assert_true(sqlite3_memory_used() > before);
  tp_edit_discard(edit);
  assert_int_equal(sqlite3_memory_used(), before);
}

TEST_WITH(a_removed_memory_is_closed_and_turns_go_on_without_it, start_runtime, end_runtime) {
  static const char *const ids[] = {"memory.policy_classifier", "memory.deterministic_recall",
                                    "memory.active_recall",     "memory.tool_bundle",
                                    "memory.prompt_contract",   "memory.post_turn_extractor"};
  sqlite3_int64 before = sqlite3_memory_used();
  tp_memory_options options = {.struct_size = sizeof options, .path = path};
  register_memory(&options, NULL);
  say("one", "t1", "My sister Ingrid moved to Oslo.");
  tp_edit *edit = begin();
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
    assert_int_equal(tp_edit_remove_subscription(edit, ids[i], NULL), TP_OK);
    assert_int_equal(tp_edit_remove_handler(edit, ids[i], NULL), TP_OK);
  }
  tp_fault fault = {0};
  if (tp_edit_commit(edit, NULL, &fault) != TP_OK) fail_msg("%s", fault.message);
  say("two", "t2", "Where does Ingrid live?");
  assert_string_equal(noted.contexts, "");
  assert_int_equal(tp_runtime_drain(runtime, 20000, NULL, NULL),
                   TP_OK); /* the last attempt has unreferenced its handler */
  assert_int_equal(sqlite3_memory_used(), before);
}

TEST_WITH(each_allocation_of_the_registration_may_be_refused, start_runtime, end_runtime) {
  tp_memory_options options = {.struct_size = sizeof options};
  sqlite3_int64 before = sqlite3_memory_used();
  bool was_refused = true;
  for (long n = 0; was_refused; n += test_refusal_step()) {
    tp_fault fault = {0};
    tp_edit *edit = begin();
    atomic_store(&allocations_left, n);
    tp_status status = tp_memory_register(edit, &options, &fault);
    was_refused = atomic_exchange(&allocations_left, -1) < 0;
    if (status != TP_OK && status != TP_ERR_NO_MEMORY) fail_msg("allocation %ld: %s", n, fault.message);
    assert_int_equal(fault.code, status);
    tp_edit_discard(edit);
    assert_int_equal(sqlite3_memory_used(), before);
  }
}

/* A recall without memory leaves a diagnostic; the contract or the tools without memory fail the turn. The next turn
 * works. */
TEST(each_allocation_of_a_turn_may_be_refused) {
  tp_session *session = open_one = open_session((tp_session_options){.id = "one", .tenant = "a", .workspace = "w"});
  assert_int_equal(say_in(session, "t", "My sister Ingrid moved to Oslo."), TP_TURN_COMPLETED);
  close_session(session);
  session = open_one = open_session((tp_session_options){.id = "two", .tenant = "a", .workspace = "w"});
  bool was_refused = true;
  for (long n = 0; was_refused; n += test_refusal_step()) {
    atomic_store(&allocations_left, n);
    tp_turn_outcome outcome = say_in(session, "again", "Where does Ingrid live, and what about her sister?");
    was_refused = atomic_exchange(&allocations_left, -1) < 0;
    assert_true(outcome == TP_TURN_COMPLETED || (was_refused && outcome == TP_TURN_FAILED));
  }
  assert_int_equal(say_in(session, "last", "Where does Ingrid live?"), TP_TURN_COMPLETED);
  assert_string_equal(noted.diagnostics, ""); /* why, if nothing was recalled */
  assert_holds(noted.contexts, "<t>");
}

TEST(a_second_memory_in_one_runtime_is_refused) {
  tp_memory_options options = {.struct_size = sizeof options};
  tp_fault fault = {0};
  tp_edit *edit = begin();
  tp_status status = tp_memory_register(edit, &options, &fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, &fault);
  assert_int_equal(status, TP_ERR_DUPLICATE_ID);
  assert_holds(fault.message, "memory.");
  tp_edit_discard(edit);
}

/* ---- the words of a user ---- */

static void assert_policy(const char *text, const char *expected) {
  tp__memory_policy policy = tp__memory_policy_of(tp_text_of(text));
  char found[4] = {policy.read ? 'r' : '-', policy.write ? 'w' : '-', policy.tools ? 't' : '-', '\0'};
  if (strcmp(found, expected) != 0) fail_msg("%s is %s, not %s", text, found, expected);
}

TEST_WITH(words_that_request_nothing_allow_everything, NULL, NULL) {
  assert_policy("", "rwt");
  assert_policy("I don't remember this.", "rwt");
  assert_policy("I do not remember that at all, do you?", "rwt");
  assert_policy("Remember this: I like tea.", "rwt");
  assert_policy("Do you remember what I said?", "rwt");
  assert_policy("We never save anything in summer.", "rwt");
  assert_policy("Don't forget to buy milk.", "rwt");
  assert_policy("Do not store the token in git, and don't keep the old API.", "rwt");
  assert_policy("Run it without memory leaks; do not use memory that was freed.", "rwt");
  assert_policy("Don't remember where I left it.", "rwt");
}

TEST_WITH(requests_not_to_remember_deny_writing, NULL, NULL) {
  assert_policy("Don't remember this.", "r-t");
  assert_policy("DO NOT REMEMBER THIS", "r-t");
  assert_policy("My PIN is 4711, please don\xe2\x80\x99t save that.", "r-t");
  assert_policy("ok, but please do not store any of it: it is private", "r-t");
  assert_policy("Never record this!", "r-t");
  assert_policy("This is off the record.", "r-t");
  assert_policy("Hello. I don't want you to remember my address.", "r-t");
  assert_policy("There is no need to remember this.", "r-t");
  assert_policy("Don't add this conversation to your memory.", "r-t");
  assert_policy("Keep this out of your memory, please.", "r-t");
}

TEST_WITH(requests_not_to_use_memory_deny_reading, NULL, NULL) {
  assert_policy("Don't use your memory.", "-wt");
  assert_policy("Please do not look into your memories for this.", "-wt");
  assert_policy("Answer without using your memory.", "-wt");
  assert_policy("Ignore your memories and tell me.", "-wt");
  assert_policy("Ignore everything you know about me.", "-wt");
  assert_policy("Forget everything you know about me", "-wt");
}

TEST_WITH(requests_may_come_together, NULL, NULL) {
  assert_policy("Off the record, and without your memory: hello.", "---");
  assert_policy("Don't use your memory tools.", "rw-");
  assert_policy("Don't call any memory tools; don't remember this.", "r--");
}

TEST_WITH(a_request_at_either_end_of_a_long_text_is_found, NULL, NULL) {
  enum { SIZE = 200000 };
  char *text = malloc(SIZE + 64);
  for (size_t i = 0; i < SIZE; i++) text[i] = i % 5 == 4 ? ' ' : 'w';
  memcpy(text + SIZE, ". Don't remember this.", 23);
  assert_policy(text, "r-t");
  memcpy(text, "Off the record. ", 16);
  text[SIZE] = '\0';
  assert_policy(text, "r-t");
  memcpy(text, "wwww www wwwwww ", 16);
  assert_policy(text, "rwt");
  free(text);
}

TEST_MAIN(count, arguments) {
  put_allocator_in_place();
  return test_main(count, arguments);
}
