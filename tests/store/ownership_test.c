/* SPDX-License-Identifier: Apache-2.0
 *
 * One session, several hosts: runtimes of one process, each with its own history on one file, or all with one history
 * in memory; and processes that die, or stand still, during a turn. The model of each later turn sees every
 * acknowledged message, once and in order, and no two turns have the session at the same time. */
#include "tests/support/test.h"
#include "tests/support/child.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "turnphase/sqlite.h"
#ifdef TP_WITH_POSTGRES
#include "tests/support/postgres_server.h"
#include "turnphase/postgres.h"
#endif

#include <sqlite3.h>

enum { HOSTS = 3, WORDS = 1024, SHORT_MS = 300 };
enum { SYNC, ASYNC, MEMORY, POSTGRES };

/* Without a server, all but the last entry of each list of kinds are played. */
static bool has_server;

/* The lease of the histories that are opened. Only tests that set it wait for its end. */
static uint32_t lease_ms = 60000;

/* ---- histories that hosts share ---- */

/* The name of a directory is also used for a schema, so the data of the schema before is not visible. */
static tp_status open_postgres(tp_history **ret_history, tp_fault *fault) {
#ifdef TP_WITH_POSTGRES
  tp_postgres *postgres = NULL;
  const tp_postgres_options options = {.struct_size = sizeof options,
                                       .conninfo = postgres_server.conninfo,
                                       .schema = strrchr(directory, '_') + 1,
                                       .lease_ms = lease_ms};
  tp_status status = tp_postgres_open(&options, &postgres, fault);
  if (status == TP_OK) status = tp_postgres_history(postgres, ret_history, fault);
  tp_postgres_close(postgres);
  return status;
#else
  (void)ret_history, (void)fault;
  return TP_ERR_USAGE;
#endif
}

/* @param kind  of several hosts: a kind of which each host opens a history of its own. */
static tp_status open_history(int kind, tp_history **ret_history, tp_fault *fault) {
  const tp_sqlite_history_options options = {.struct_size = sizeof options, .path = path, .lease_ms = lease_ms};
  if (kind == POSTGRES) return open_postgres(ret_history, fault);
  return tp_sqlite_history_open_sync(&options, ret_history, fault);
}

/* ---- a host ---- */

typedef struct host {
  int kind;
  tp_runtime *runtime;
  tp_history *history;       /* a history of a file: each host has its own */
  tp_shared_history *shared; /* referenced */
  tp_session *session;
  char seen[WORDS]; /* the texts of users in the newest request, each with a space */
  latch asked;      /* hit by a request whose text ends with '~' */
  tp_token token;   /* the token of that request */
  char lost[TP_FAULT_MESSAGE_SIZE];
} host;

static void answer(void *ctx, const tp_model_request *request, tp_token token) {
  static const tp_model_response yes = {.struct_size = sizeof yes, .text = TEXT("yes")};
  host *h = ctx;
  tp_text last = {"", 0};
  h->seen[0] = '\0';
  for (size_t i = 0; i < request->message_count; i++) {
    const tp_message *m = request->messages[i];
    if (m->role != TP_ROLE_USER || m->text.data[0] == '[') continue;
    size_t used = strlen(h->seen);
    snprintf(h->seen + used, WORDS - used, "%.*s ", (int)m->text.size, m->text.data);
    last = m->text;
  }
  char kind = last.size ? last.data[last.size - 1] : ' ';
  if (kind == '!') {
    (void)!tp_model_fail(token, TP_ERR_MODEL, "as the text asks", false, NULL);
  } else if (kind == '~') {
    h->token = token;
    latch_hit(&h->asked);
  } else {
    (void)!tp_model_complete(token, &yes, NULL);
  }
}

static void let_answer(host *h) {
  static const tp_model_response yes = {.struct_size = sizeof yes, .text = TEXT("yes")};
  assert_int_equal(tp_model_complete(h->token, &yes, NULL), TP_OK);
}

static void keep_lost(void *ctx, const tp_log_record *record) {
  host *h = ctx;
  if (record->status == TP_ERR_FENCED) snprintf(h->lost, sizeof h->lost, "%s", record->message);
}

static tp_status open_session_of(host *h, tp_busy busy, uint32_t busy_wait_ms, tp_fault *fault) {
  const tp_model model = {.struct_size = sizeof model, .name = "echo", .start = answer, .ctx = h};
  const tp_session_options options = {.struct_size = sizeof options,
                                      .id = "s",
                                      .model = &model,
                                      .shared_history = h->shared,
                                      .busy = (uint32_t)busy,
                                      .busy_wait_ms = busy_wait_ms};
  return tp_session_open(h->runtime, &options, &h->session, fault);
}

static void open_host(host *h, int kind, tp_shared_history *in_memory, tp_busy busy, uint32_t busy_wait_ms) {
  tp_fault fault = {0};
  *h = (host){.kind = kind, .asked = LATCH};
  tp_sqlite_history_options options = {.struct_size = sizeof options, .path = path, .lease_ms = lease_ms};
  tp_status status = TP_OK;
  if (kind == SYNC || kind == POSTGRES) status = open_history(kind, &h->history, &fault);
  if (kind == ASYNC) {
    options.log = keep_lost;
    options.log_ctx = h;
    status = tp_sqlite_history_open_async(&options, &h->history, &fault);
  }
  if (status == TP_OK && h->history) status = tp_history_share(NULL, h->history, &h->shared, &fault);
  if (kind == MEMORY) h->shared = tp_shared_history_ref(in_memory);
  const tp_runtime_options of_runtime = {.struct_size = sizeof of_runtime};
  if (status == TP_OK) status = tp_runtime_new(&of_runtime, &h->runtime, &fault);
  if (status == TP_OK) status = open_session_of(h, busy, busy_wait_ms, &fault);
  if (status != TP_OK) fail_msg("%s", fault.message);
}

static void close_host(host *h) {
  tp_session_close(h->session, NULL, NULL);
  tp_runtime_free(h->runtime);
  tp_shared_history_unref(h->shared);
}

/* Counts a message. The load that calls it also writes whatever waits to be written. */
static tp_status drop_message(void *ctx, const tp_message *message) {
  (void)message;
  ++*(int *)ctx;
  return TP_OK;
}
static int count_messages(tp_history *history) {
  int count = 0;
  const tp_history_load load = {.struct_size = sizeof load, .session = TEXT("s"), .each = drop_message, .ctx = &count};
  assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
  return count;
}

typedef struct ended {
  tp_turn_outcome outcome;
  tp_status code;
  bool is_stored;
  char reason[TP_FAULT_MESSAGE_SIZE];
} ended;

static ended end_of(const tp_turn_result *result) {
  ended e = {.outcome = result->outcome, .code = result->code, .is_stored = result->is_stored};
  snprintf(e.reason, sizeof e.reason, "%.*s", (int)result->reason.size, result->reason.size ? result->reason.data : "");
  return e;
}

static ended say_as(host *h, const char *id, const char *text) {
  const tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = tp_text_of(text)};
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_turn_run(h->session, &request, &result, NULL), TP_OK);
  ended e = end_of(result);
  tp_turn_result_free(result);
  return e;
}

static ended say(host *h, const char *text) { return say_as(h, NULL, text); }

static tp_submission *submit(host *h, const char *text, uint32_t limit_ms) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text), .limit_ms = limit_ms};
  tp_submission *submission = NULL;
  assert_int_equal(tp_turn_submit(h->session, &request, NULL, NULL, &submission, NULL), TP_OK);
  return submission;
}

static ended wait_for(tp_submission *submission) {
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(submission, 60000, &result, NULL), TP_OK);
  ended e = end_of(result);
  tp_submission_unref(submission);
  return e;
}

/* ---- one after the other ---- */

/* A letter is a turn of that host. The characters after it are in the turn's text: '!' its model fails; '~' it is
 * cancelled while it waits for its model. D: a host that has not opened the session deletes it. R and a letter: that
 * host closes its session, and opens it again. T and a letter: a turn with an id that all these turns share. */
static const char *const scripts[] = {"ab",   "aba",     "aabb",    "abab",       "abcabc", "ab!a",   "a!b",
                                      "ab~a", "a~b",     "aDb",     "abDab",      "aDbba",  "abRab",  "aRaba",
                                      "TaTb", "aTbTaTb", "a!b~a!b", "aaabbbccca", "abDDa",  "aDaabb", "abaDbababab"};

static void note_closed(void *ctx) { latch_hit(ctx); }

static void delete_session(int kind, host *hosts) {
  tp_history *history = NULL;
  tp_shared_history *shared = NULL;
  for (int i = 0; i < HOSTS; i++) (void)count_messages(hosts[i].history);
  assert_int_equal(open_history(kind, &history, NULL), TP_OK);
  assert_int_equal(tp_history_share(NULL, history, &shared, NULL), TP_OK);
  tp_status status = tp_shared_history_delete(shared, NULL, "s", NULL);
  assert_true(status == TP_OK || status == TP_ERR_NOT_FOUND);
  tp_shared_history_unref(shared);
}

static void take_turn(host *h, const char *text, const char *id, char *said, bool *t_has_run) {
  char before[WORDS];
  snprintf(before, sizeof before, "%s", said);
  bool known = id && *t_has_run;
  size_t used = strlen(said);
  if (!known) snprintf(said + used, WORDS - used, "%s ", text);
  h->seen[0] = '\0';
  ended e;
  if (strchr(text, '~')) {
    tp_submission *submission = submit(h, text, 0);
    latch_wait(&h->asked, latch_count(&h->asked) ? latch_count(&h->asked) : 1);
    tp_submission_cancel(submission);
    e = wait_for(submission);
    h->asked = (latch)LATCH;
    assert_int_equal(e.outcome, TP_TURN_CANCELLED);
  } else {
    e = say_as(h, id, text);
    if (e.outcome != TP_TURN_COMPLETED) print_message("# %s: %d %s\n", text, (int)e.code, e.reason);
    if (e.outcome != (strchr(text, '!') ? TP_TURN_FAILED : TP_TURN_COMPLETED)) fail_msg("%s: %s", text, e.reason);
  }
  assert_int_equal(e.is_stored, known);
  if (known) assert_string_equal(h->seen, "");
  else if (strcmp(h->seen, said) != 0) fail_msg("after '%s' the model of %s was shown '%s'", before, text, h->seen);
  if (id) *t_has_run = true;
  if (h->kind == ASYNC)
    (void)count_messages(h->history); /* another host reads only the file, so what waits is written
                                                             first */
}

static void play_script(int kind, const char *script) {
  host hosts[HOSTS];
  tp_history *history = NULL;
  tp_shared_history *in_memory = NULL;
  char said[WORDS] = "";
  bool t_has_run = false;
  make_directory_in_memory(NULL);
  if (kind == MEMORY) {
    assert_int_equal(tp_history_memory_new(NULL, &history, NULL), TP_OK);
    assert_int_equal(tp_history_share(NULL, history, &in_memory, NULL), TP_OK);
  }
  for (int i = 0; i < HOSTS; i++) open_host(&hosts[i], kind, in_memory, TP_BUSY_REFUSE, 0);
  tp_shared_history_unref(in_memory);
  int number = 0;
  for (const char *at = script; *at; at++) {
    char text[32];
    bool reopens = *at == 'R', has_id = *at == 'T';
    if (*at == 'D') {
      delete_session(kind, hosts);
      said[0] = '\0';
      t_has_run = false;
      continue;
    }
    if (reopens || has_id) at++;
    host *h = &hosts[*at - 'a'];
    if (reopens) {
      tp_session *old = h->session;
      latch closed = LATCH;
      tp_session_close(old, note_closed, &closed);
      latch_wait(&closed, 1);
      assert_int_equal(open_session_of(h, TP_BUSY_REFUSE, 0, NULL), TP_OK);
      continue;
    }
    bool is_marked = at[1] == '!' || at[1] == '~';
    snprintf(text, sizeof text, has_id ? "t" : "%c%d%c", *at, ++number, is_marked ? at[1] : '.');
    take_turn(h, text, has_id ? "t" : NULL, said, &t_has_run);
    at += is_marked;
  }
  for (int i = 0; i < HOSTS; i++) close_host(&hosts[i]);
  remove_directory(NULL);
}

TEST(turn_of_each_host_is_shown_what_all_hosts_said) {
  for (int kind = SYNC; kind <= (has_server ? POSTGRES : MEMORY); kind++)
    for (size_t i = 0; i < COUNT(scripts); i++) {
      if (kind == MEMORY && strchr(scripts[i], 'D')) continue; /* all have it open in the one history */
      print_message("# kind %d: %s\n", kind, scripts[i]);
      play_script(kind, scripts[i]);
    }
}

/* ---- at once ---- */

static bool copy_session(void *ctx, const tp_kept_session *session) {
  memcpy(ctx, session, sizeof *session);
  return true;
}

static tp_kept_session list_one(tp_store *store) {
  tp_kept_session session = {.messages = 77};
  assert_int_equal(tp_sqlite_sessions_list(store, NULL, copy_session, &session, NULL), TP_OK);
  return session;
}

static void open_two(host hosts[2], int kind, tp_busy busy, uint32_t busy_wait_ms) {
  tp_history *history = NULL;
  tp_shared_history *in_memory = NULL;
  make_directory_in_memory(NULL);
  if (kind == MEMORY) {
    assert_int_equal(tp_history_memory_new(NULL, &history, NULL), TP_OK);
    assert_int_equal(tp_history_share(NULL, history, &in_memory, NULL), TP_OK);
  }
  for (int i = 0; i < 2; i++) open_host(&hosts[i], kind, in_memory, busy, busy_wait_ms);
  tp_shared_history_unref(in_memory);
}

static void close_two(host hosts[2]) {
  for (int i = 0; i < 2; i++) close_host(&hosts[i]);
  remove_directory(NULL);
}

/* A turn that waits for its model, and so has the session. */
static tp_submission *hold(host *h, const char *text) {
  tp_submission *submission = submit(h, text, 0);
  latch_wait(&h->asked, 1);
  return submission;
}

TEST(second_turn_at_once_is_refused_with_the_holder_and_its_lease) {
  static const int kinds[] = {SYNC, MEMORY, POSTGRES};
  for (size_t k = 0; k < COUNT(kinds) - !has_server; k++) {
    host hosts[2];
    char holder[64];
    open_two(hosts, kinds[k], TP_BUSY_REFUSE, 0);
    tp_submission *first = hold(&hosts[0], "one~");
    ended e = say(&hosts[1], "two");
    assert_int_equal(e.outcome, TP_TURN_FAILED);
    assert_int_equal(e.code, TP_ERR_BUSY);
    snprintf(holder, sizeof holder, kinds[k] == MEMORY ? "another runtime" : "process %d", (int)getpid());
    assert_non_null(strstr(e.reason, holder));
    assert_true(kinds[k] == MEMORY || strstr(e.reason, "its lease ends in "));
    assert_string_equal(hosts[1].seen, "");
    let_answer(&hosts[0]);
    assert_int_equal(wait_for(first).outcome, TP_TURN_COMPLETED);
    assert_int_equal(say(&hosts[1], "three").outcome, TP_TURN_COMPLETED);
    assert_string_equal(hosts[1].seen, "one~ three "); /* no model sees the turn that was refused */
    close_two(hosts);
  }
}

TEST(second_turn_waits_until_the_session_is_free) {
  static const int kinds[] = {SYNC, MEMORY, POSTGRES};
  for (size_t k = 0; k < COUNT(kinds) - !has_server; k++) {
    host hosts[2];
    open_two(hosts, kinds[k], TP_BUSY_WAIT, 0);
    tp_submission *first = hold(&hosts[0], "one~"), *second = submit(&hosts[1], "two", 0);
    let_answer(&hosts[0]);
    assert_int_equal(wait_for(first).outcome, TP_TURN_COMPLETED);
    assert_int_equal(wait_for(second).outcome, TP_TURN_COMPLETED);
    assert_string_equal(hosts[1].seen, "one~ two ");
    close_two(hosts);
  }
}

TEST(turn_that_waits_for_its_session_can_leave) {
  enum { ITS_BOUND, ITS_LIMIT, CANCEL, WAYS };
  for (int i = 0; i < WAYS * (has_server ? 2 : 1); i++) {
    host hosts[2];
    int way = i % WAYS;
    open_two(hosts, i < WAYS ? SYNC : POSTGRES, TP_BUSY_WAIT, way == ITS_BOUND ? 30 : 0);
    tp_submission *first = hold(&hosts[0], "one~");
    tp_submission *second = submit(&hosts[1], "two", way == ITS_LIMIT ? 30 : 0);
    if (way == CANCEL) tp_submission_cancel(second);
    ended e = wait_for(second);
    assert_int_equal(e.code, way == ITS_BOUND ? TP_ERR_BUSY : way == ITS_LIMIT ? TP_ERR_TIMEOUT : TP_ERR_CANCELLED);
    let_answer(&hosts[0]);
    assert_int_equal(wait_for(first).outcome, TP_TURN_COMPLETED);
    assert_int_equal(say(&hosts[1], "three").outcome, TP_TURN_COMPLETED);
    assert_string_equal(hosts[1].seen, "one~ three ");
    close_two(hosts);
  }
}

TEST(wait_that_could_have_no_effect_is_refused) {
  const struct {
    uint32_t busy, wait_ms;
    bool shared;
  } wrong[] = {{TP_BUSY_WAIT, 0, false}, {TP_BUSY_REFUSE, 5, true}, {2, 0, true}};
  tp_runtime *runtime = open_runtime(NULL);
  make_directory_in_memory(NULL);
  for (size_t i = 0; i < COUNT(wrong); i++) {
    tp_history *history = NULL;
    tp_session *session = NULL;
    tp_fault fault = {0};
    if (wrong[i].shared) assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
    const tp_session_options options = {.struct_size = sizeof options,
                                        .id = "s",
                                        .history = history,
                                        .busy = wrong[i].busy,
                                        .busy_wait_ms = wrong[i].wait_ms};
    assert_int_equal(tp_session_open(runtime, &options, &session, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "busy"));
    tp_history_free(history);
  }
  close_runtime(runtime);
  remove_directory(NULL);
}

/* A turn that a host acknowledged without waiting for its file may be fenced: its log reports it, and the host goes
 * on. */
TEST(queued_turn_that_another_host_came_before_is_logged_and_the_next_one_sees_the_file) {
  host hosts[2];
  open_two(hosts, ASYNC, TP_BUSY_REFUSE, 0);
  assert_int_equal(say(&hosts[0], "one").code, TP_OK);
  (void)count_messages(hosts[0].history);
  tp_submission *first = hold(&hosts[0], "two~");
  assert_int_equal(say(&hosts[1], "three").code, TP_OK);
  (void)count_messages(hosts[1].history);
  let_answer(&hosts[0]);
  assert_int_equal(wait_for(first).code, TP_OK);
  assert_int_equal(count_messages(hosts[0].history), 4);
  assert_non_null(strstr(hosts[0].lost, "taken over"));
  assert_int_equal(say(&hosts[0], "four").code, TP_OK);
  assert_string_equal(hosts[0].seen, "one three four ");
  close_two(hosts);
}

/* ---- what a history promises of claims ---- */

static const tp_store_owner owners[] = {{.struct_size = sizeof(tp_store_owner), .process_run_id = 7},
                                        {.struct_size = sizeof(tp_store_owner), .process_run_id = 8}};

static tp_status claim_as(tp_history *history, int owner, tp_history_claim *claim, int *ret_given, tp_fault *fault) {
  tp_store_owner own = owners[owner];
  own.process_id = getpid();
  uint64_t number = claim->number, after = claim->position;
  *ret_given = 0;
  *claim = (tp_history_claim){.struct_size = sizeof *claim};
  const tp_history_load load = {.struct_size = sizeof load,
                                .session = TEXT("s"),
                                .each = drop_message,
                                .ctx = ret_given,
                                .owner = &own,
                                .number = number,
                                .after = after,
                                .claim = claim};
  return history->load(history->ctx, &load, fault);
}

static tp_status append_as(tp_history *history, const tp_history_claim *claim, size_t count) {
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .turn_id = TEXT("t")};
  const tp_message *const messages[] = {&message, &message, &message};
  const tp_history_append request = {.struct_size = sizeof request,
                                     .session = TEXT("s"),
                                     .messages = messages,
                                     .message_count = count,
                                     .claim = claim};
  return history->append(history->ctx, &request, NULL);
}

static void release_as(tp_history *history, const tp_history_claim *claim) {
  const tp_history_release request = {.struct_size = sizeof request, .session = TEXT("s"), .claim = claim};
  history->release(history->ctx, &request);
}

static bool count_session(void *ctx, const tp_history_session *session) {
  (void)session;
  ++*(int *)ctx;
  return true;
}

static int count_sessions(tp_history *history) {
  int count = 0;
  const tp_history_query all = {.struct_size = sizeof all};
  assert_int_equal(history->list_sessions(history->ctx, &all, count_session, &count, NULL), TP_OK);
  return count;
}

static void check_claims(tp_history *history) {
  tp_history_claim first = {.number = 0}, second = {.number = 0}, old = {.number = 0};
  int given;
  assert_int_equal(history->shared, 1);
  assert_int_equal(claim_as(history, 0, &old, &given, NULL), TP_OK);
  assert_int_equal(append_as(history, &old, 0), TP_OK); /* a session without messages leaves nothing */
  assert_int_equal(claim_as(history, 0, &first, &given, NULL), TP_OK);
  assert_true(first.number > old.number);
  assert_true(first.number && first.fence && first.position == 0 && first.first == 0);
  assert_int_equal(count_sessions(history), 0); /* the session has no messages */
  assert_int_equal(claim_as(history, 1, &second, &given, NULL), TP_ERR_BUSY);
  assert_int_equal(second.fence, 0);
  assert_int_equal(append_as(history, &first, 2), TP_OK);
  assert_int_equal(append_as(history, &first, 1), TP_ERR_FENCED); /* the claim has ended */
  assert_int_equal(count_messages(history), 2);
  /* The second host gets the messages that it does not have, and no others. */
  assert_int_equal(claim_as(history, 1, &second, &given, NULL), TP_OK);
  assert_int_equal(given, 2);
  assert_true(second.number == first.number && second.fence > first.fence && second.position == 2);
  assert_int_equal(append_as(history, &second, 3), TP_OK);
  first.position = 2;
  assert_int_equal(claim_as(history, 0, &first, &given, NULL), TP_OK);
  assert_true(given == 3 && first.first == 2 && first.position == 5);
  /* A claim of the same owner replaces the one before, which can append and release nothing any more. */
  old = first;
  assert_int_equal(claim_as(history, 0, &first, &given, NULL), TP_OK);
  assert_true(given == 0 && first.fence > old.fence && first.first == 5);
  assert_int_equal(append_as(history, &old, 1), TP_ERR_FENCED);
  release_as(history, &old);
  second.position = 5;
  assert_int_equal(claim_as(history, 1, &second, &given, NULL), TP_ERR_BUSY);
  release_as(history, &first);
  release_as(history, &first);
  assert_int_equal(append_as(history, &first, 1), TP_ERR_FENCED);
  second = (tp_history_claim){.number = first.number, .position = 9}; /* more than there are */
  assert_int_equal(claim_as(history, 1, &second, &given, NULL), TP_OK);
  assert_true(given == 5 && second.first == 0);
  /* Messages without a claim are appended at the end, and fence the turn. */
  assert_int_equal(append_as(history, NULL, 1), TP_OK);
  assert_int_equal(append_as(history, &second, 1), TP_ERR_FENCED);
  assert_int_equal(count_messages(history), 6);
  const tp_history_delete request = {.struct_size = sizeof request, .session = TEXT("s")};
  assert_int_equal(history->delete_session(history->ctx, &request, NULL), TP_ERR_BUSY);
  old = second;
  assert_int_equal(claim_as(history, 1, &second, &given, NULL), TP_OK); /* and the next turn of the host itself goes
                                                                           on */
  release_as(history, &second);
  assert_int_equal(history->delete_session(history->ctx, &request, NULL), TP_OK);
  assert_int_equal(history->delete_session(history->ctx, &request, NULL), TP_ERR_NOT_FOUND);
  /* A session that was begun anew is another one, however long it is. */
  first = second;
  first.position = 1;
  for (int i = 0; i < 2; i++) assert_int_equal(append_as(history, NULL, 3), TP_OK);
  assert_int_equal(claim_as(history, 0, &first, &given, NULL), TP_OK);
  assert_true(given == 6 && first.first == 0 && first.number != second.number);
  assert_int_equal(append_as(history, &second, 1), TP_ERR_FENCED);
  release_as(history, &first);
  assert_int_equal(count_messages(history), 6);
}

TEST(claims_are_exclusive_and_append_once_in_each_history) {
  tp_history *history = NULL;
  assert_int_equal(tp_history_memory_new(NULL, &history, NULL), TP_OK);
  check_claims(history);
  tp_history_free(history);
  make_directory_in_memory(NULL);
  assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
  check_claims(history);
  tp_history_free(history);
  if (has_server) {
    assert_int_equal(open_history(POSTGRES, &history, NULL), TP_OK);
    check_claims(history);
    tp_history_free(history);
  }
  remove_directory(NULL);
}

/* ---- a session that begins with what another one has ---- */

static tp_status write_down(void *ctx, const tp_message *m) {
  char *to = ctx;
  size_t used = strlen(to);
  snprintf(to + used, WORDS - used, "%s:%.*s:%.*s%s%.*s ", m->role == TP_ROLE_USER ? "U" : "A", (int)m->turn_id.size,
           m->turn_id.data, (int)m->text.size, m->text.data, m->call_count ? "+" : "",
           m->call_count ? (int)m->calls[0]->name.size : 0, m->call_count ? m->calls[0]->name.data : "");
  return TP_OK;
}

static void assert_has(tp_history *history, const char *tenant, const char *session, const char *wanted) {
  char has[WORDS] = "";
  const tp_history_load load = {.struct_size = sizeof load,
                                .tenant = tp_text_of(tenant),
                                .session = tp_text_of(session),
                                .each = write_down,
                                .ctx = has};
  assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
  assert_string_equal(has, wanted);
}

static void append_turn(tp_history *history, const char *tenant, const char *session, const char *turn) {
  const tp_tool_call call = {.struct_size = sizeof call, .id = TEXT("c"), .name = TEXT("look")};
  const tp_tool_call *const calls[] = {&call};
  const tp_message user = {.struct_size = sizeof user, .role = TP_ROLE_USER, .turn_id = tp_text_of(turn)};
  const tp_message answer_of = {.struct_size = sizeof answer_of,
                                .role = TP_ROLE_ASSISTANT,
                                .turn_id = tp_text_of(turn),
                                .text = TEXT("yes"),
                                .calls = calls,
                                .call_count = 1};
  const tp_message *const messages[] = {&user, &answer_of};
  const tp_history_append request = {.struct_size = sizeof request,
                                     .tenant = tp_text_of(tenant),
                                     .session = tp_text_of(session),
                                     .messages = messages,
                                     .message_count = 2};
  assert_int_equal(history->append(history->ctx, &request, NULL), TP_OK);
}

static tp_status fork_of(tp_store *store, const char *tenant, const char *session, const char *new_session,
                         const char *turn, uint64_t *ret_messages) {
  const tp_kept_fork request = {
      .struct_size = sizeof request, .tenant = tenant, .session = session, .new_session = new_session, .turn = turn};
  return tp_sqlite_session_fork(store, &request, ret_messages, NULL);
}

TEST(fork_has_all_up_to_its_turn_and_is_a_session_of_its_own) {
  const struct {
    const char *tenant, *session, *new_session, *turn;
    tp_status status;
    const char *has;
  } cases[] = {{"", "s", "all", NULL, TP_OK, "U:1: A:1:yes+look U:2: A:2:yes+look U:3: A:3:yes+look "},
               {"", "s", "first", "1", TP_OK, "U:1: A:1:yes+look "},
               {"", "s", "second", "2", TP_OK, "U:1: A:1:yes+look U:2: A:2:yes+look "},
               {"", "first", "again", "1", TP_OK, "U:1: A:1:yes+look "},
               {NULL, "s", "no-tenant", "1", TP_OK, "U:1: A:1:yes+look "},
               {"t", "s", "theirs", NULL, TP_OK, "U:9: A:9:yes+look "},
               {"", "aged", "young", "5", TP_OK, "U:5: A:5:yes+look "}, /* the first turn was deleted for its age */
               {"", "s", "s", NULL, TP_ERR_DUPLICATE_ID, NULL},
               {"", "s", "first", NULL, TP_ERR_DUPLICATE_ID, NULL},
               {"", "s", "x", "9", TP_ERR_NOT_FOUND, NULL},
               {"", "none", "x", NULL, TP_ERR_NOT_FOUND, NULL},
               {"none", "s", "x", NULL, TP_ERR_NOT_FOUND, NULL},
               {"", "s", "", NULL, TP_ERR_BAD_ID, NULL},
               {"", "s", NULL, NULL, TP_ERR_BAD_ID, NULL},
               {"", "s", "a b", NULL, TP_ERR_BAD_ID, NULL},
               {"", "s", "a\x80", NULL, TP_ERR_BAD_ID, NULL},
               {"", "s", "a\xc2\xa0", NULL, TP_ERR_BAD_ID, NULL}, /* U+00A0: no session opens with it */
               {"", NULL, "x", NULL, TP_ERR_USAGE, NULL}};
  tp_history *history = NULL;
  tp_store *store = NULL;
  make_directory_in_memory(NULL);
  const tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  for (int i = 1; i <= 3; i++) append_turn(history, "", "s", (const char *const[]){"1", "2", "3"}[i - 1]);
  append_turn(history, "t", "s", "9");
  append_turn(history, "", "aged", "4");
  append_turn(history, "", "aged", "5");
  sqlite3 *db;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db,
                                "DELETE FROM tool_call WHERE message IN (SELECT id FROM message WHERE turn = '4');"
                                "DELETE FROM message WHERE turn = '4'",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  sqlite3_close(db);
  for (size_t i = 0; i < COUNT(cases); i++) {
    uint64_t messages = 77, each = 0;
    tp_status status =
        fork_of(store, cases[i].tenant, cases[i].session, cases[i].new_session, cases[i].turn, &messages);
    if (status != cases[i].status) fail_msg("case %zu: %s", i, tp_status_name(status));
    for (const char *at = cases[i].has; at && *at; at++) each += *at == ' ';
    assert_int_equal(messages, cases[i].has ? each : 77);
    if (!cases[i].has) continue;
    const char *tenant = cases[i].tenant ? cases[i].tenant : "";
    assert_has(history, tenant, cases[i].new_session, cases[i].has);
    append_turn(history, tenant, cases[i].new_session, "8"); /* at the next position, and only there */
  }
  assert_has(history, "", "s", cases[0].has);
  assert_has(history, "", "first", "U:1: A:1:yes+look U:8: A:8:yes+look ");
  assert_int_equal(tp_sqlite_store_verify(store, NULL, NULL, NULL), TP_OK);
  assert_int_equal(fork_of(NULL, "", "s", "x", NULL, NULL), TP_ERR_USAGE);
  tp_history_free(history);
  tp_store_free(store);
  remove_directory(NULL);
}

TEST(session_that_runs_is_listed_with_its_process_and_lease) {
  host hosts[2];
  tp_store *store = NULL;
  open_two(hosts, SYNC, TP_BUSY_REFUSE, 0);
  const tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  tp_submission *first = hold(&hosts[0], "one~");
  tp_kept_session session = list_one(store);
  assert_true(session.process_id == getpid() && session.lease_ms > 0 && session.lease_ms <= lease_ms);
  let_answer(&hosts[0]);
  assert_int_equal(wait_for(first).code, TP_OK);
  session = list_one(store);
  assert_true(session.process_id == 0 && session.lease_ms == 0 && session.messages == 2);
  tp_store_free(store);
  close_two(hosts);
}

/* ---- processes that die, or stand still, in a turn ---- */

/* The child reports when its model is asked, and answers when it gets a line. */
static int child_main(const char *file, const char *lease, const char *kind, const char *conninfo) {
  static host h;
  lease_ms = (uint32_t)atoi(lease);
  snprintf(path, sizeof path, "%s", file);
  snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(file, '/') - file), file);
#ifdef TP_WITH_POSTGRES
  snprintf(postgres_server.conninfo, sizeof postgres_server.conninfo, "%s", conninfo);
#else
  (void)conninfo;
#endif
  open_host(&h, atoi(kind), NULL, TP_BUSY_REFUSE, 0);
  tp_submission *submission = submit(&h, "child~", 0);
  latch_wait(&h.asked, 1);
  child_say("asked %s\n", h.seen);
  while (access(file, F_OK) == 0 || atoi(kind) == POSTGRES) { /* the child waits until its parent has made a file */
    char name[128];
    snprintf(name, sizeof name, "%s.go", file);
    if (access(name, F_OK) == 0) break;
    usleep(2000);
  }
  let_answer(&h);
  ended e = wait_for(submission);
  child_say("ended %d %s\n", (int)e.code, e.reason);
  close_host(&h);
  return 0;
}

static child start_child(int kind, const char *lease) {
#ifdef TP_WITH_POSTGRES
  const char *conninfo = postgres_server.conninfo;
#else
  const char *conninfo = "";
#endif
  char number[8];
  snprintf(number, sizeof number, "%d", kind);
  return child_start((const char *const[]){path, lease, number, conninfo, NULL});
}

static void read_line(child c, char *line, size_t size) {
  if (!fgets(line, (int)size, c.lines)) snprintf(line, size, "the child has ended");
}

static void make_file(const char *suffix) {
  char name[128];
  snprintf(name, sizeof name, "%s%s", path, suffix);
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  fclose(file);
}

TEST(session_of_a_process_that_died_in_its_turn_is_free_at_once) {
  host h;
  char line[CHILD_LINE];
  make_directory_in_memory(NULL);
  open_host(&h, SYNC, NULL, TP_BUSY_REFUSE, 0);
  assert_int_equal(say(&h, "one").code, TP_OK);
  child c = start_child(SYNC, "60000");
  read_line(c, line, sizeof line);
  assert_string_equal(line, "asked one child~ \n");
  ended e = say(&h, "two");
  assert_int_equal(e.code, TP_ERR_BUSY);
  snprintf(line, sizeof line, "process %d", (int)c.id);
  assert_non_null(strstr(e.reason, line));
  kill(c.id, SIGKILL);
  waitpid(c.id, NULL, 0);
  fclose(c.lines);
  assert_int_equal(say(&h, "three").code, TP_OK);
  assert_string_equal(h.seen, "one three ");
  close_host(&h);
  remove_directory(NULL);
}

static void stand_still(int kind) {
  host h;
  char line[CHILD_LINE];
  make_directory_in_memory(NULL);
  open_host(&h, kind, NULL, TP_BUSY_WAIT, 0);
  assert_int_equal(say(&h, "one").code, TP_OK);
  child c = start_child(kind, "300");
  read_line(c, line, sizeof line);
  kill(c.id, SIGSTOP);
  assert_int_equal(say(&h, "two").code, TP_OK); /* the turn waits for the end of the lease */
  assert_string_equal(h.seen, "one two ");
  make_file(".go");
  kill(c.id, SIGCONT);
  read_line(c, line, sizeof line);
  int code = 0;
  assert_int_equal(sscanf(line, "ended %d", &code), 1);
  assert_int_equal(code, TP_ERR_FENCED);
  assert_non_null(strstr(line, "taken over"));
  waitpid(c.id, NULL, 0);
  fclose(c.lines);
  assert_int_equal(say(&h, "three").code, TP_OK);
  assert_string_equal(h.seen, "one two three ");
  close_host(&h);
  remove_directory(NULL);
}

TEST(process_that_stood_still_past_its_lease_appends_nothing) {
  stand_still(SYNC);
  if (has_server) stand_still(POSTGRES);
}

/* A database is shared by several machines: no host sees whether a process of another one lives. */
TEST(session_of_a_process_that_died_in_its_turn_is_free_after_its_lease_in_a_database) {
  host h;
  char line[CHILD_LINE];
  if (!has_server) return;
  make_directory_in_memory(NULL);
  open_host(&h, POSTGRES, NULL, TP_BUSY_WAIT, 0);
  assert_int_equal(say(&h, "one").code, TP_OK);
  int64_t began_ns = now_ns();
  child c = start_child(POSTGRES, "400");
  read_line(c, line, sizeof line);
  assert_string_equal(line, "asked one child~ \n");
  kill(c.id, SIGKILL);
  waitpid(c.id, NULL, 0);
  fclose(c.lines);
  assert_int_equal(say(&h, "two").code, TP_OK);
  assert_true(now_ns() - began_ns >= 400 * 1000000LL);
  assert_string_equal(h.seen, "one two ");
  close_host(&h);
  remove_directory(NULL);
}

static int64_t lease_end_in_file(void) {
  sqlite3 *db;
  sqlite3_stmt *row = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  sqlite3_busy_timeout(db, 10000);
  assert_int_equal(sqlite3_prepare_v2(db, "SELECT coalesce(max(end_ms), 0) FROM holder", -1, &row, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(row), SQLITE_ROW);
  int64_t end_ms = sqlite3_column_int64(row, 0);
  sqlite3_finalize(row);
  sqlite3_close(db);
  return end_ms;
}

static int64_t lease_end(int kind) {
  if (kind != POSTGRES) return lease_end_in_file();
#ifdef TP_WITH_POSTGRES
  char sql[160];
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  snprintf(sql, sizeof sql, "SELECT coalesce(max(extract(epoch FROM lease_end) * 1000), 0)::bigint FROM \"%s\".process",
           strrchr(directory, '_') + 1);
  PGresult *row = PQexec(connection, sql);
  if (PQresultStatus(row) != PGRES_TUPLES_OK) fail_msg("%s", PQerrorMessage(connection));
  int64_t end_ms = atoll(PQgetvalue(row, 0, 0));
  PQclear(row);
  PQfinish(connection);
  return end_ms;
#else
  return 0;
#endif
}

/* While a turn runs, its process extends its lease; when no turn runs any more, it has no lease. */
TEST(lease_is_renewed_while_a_turn_runs_and_not_after_it) {
  for (int i = 0; i <= has_server; i++) {
    host hosts[2];
    int kind = i ? POSTGRES : SYNC;
    lease_ms = SHORT_MS;
    open_two(hosts, kind, TP_BUSY_REFUSE, 0);
    lease_ms = 60000;
    tp_submission *first = hold(&hosts[0], "one~");
    int64_t end_ms = lease_end(kind);
    assert_true(end_ms > 0);
    while (lease_end(kind) <= end_ms) usleep(5000);
    let_answer(&hosts[0]);
    assert_int_equal(wait_for(first).code, TP_OK);
    while (lease_end(kind) != 0) usleep(5000);
    assert_int_equal(say(&hosts[1], "two").code, TP_OK);
    close_two(hosts);
  }
}

TEST_MAIN(count, arguments) {
  const char *words[CHILD_WORDS_MAX] = {NULL};
  if (child_is(count, arguments, words)) return child_main(words[0], words[1], words[2], words[3]);
#ifdef TP_WITH_POSTGRES
  const char *lack = postgres_lack();
  if (lack) printf("# skipped: postgres: %s\n", lack);
  else postgres_make();
  has_server = !lack;
  int failed = test_main(count, arguments);
  postgres_remove();
  return failed;
#else
  return test_main(count, arguments);
#endif
}
