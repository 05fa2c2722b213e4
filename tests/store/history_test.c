/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite of histories: the behaviour of every history, however it is implemented. The memory history is
 * the reference. To add a history, add one line to the table `histories`. */
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/host.h"
#include "turnphase/sqlite.h"
#ifdef TP_WITH_POSTGRES
#include "tests/support/postgres_server.h"
#include "turnphase/postgres.h"
#endif

typedef struct history_kind {
  const char *name;
  tp_status (*open)(tp_history **ret_history); /* an empty one */
} history_kind;

static tp_status open_memory(tp_history **ret_history) { return tp_history_memory_new(NULL, ret_history, NULL); }

static char folder[] = "/tmp/turnphase-history-XXXXXX";
static int file_count;
static tp_status open_sqlite(tp_history **ret_history) {
  char path[64];
  snprintf(path, sizeof path, "%s/%d.db", folder, file_count++);
  return tp_sqlite_history_open(path, ret_history, NULL);
}

static tp_status open_sqlite_async(tp_history **ret_history) {
  char path[64];
  snprintf(path, sizeof path, "%s/%d.db", folder, file_count++);
  const tp_sqlite_history_options options = {.struct_size = sizeof options, .path = path};
  return tp_sqlite_history_open_async(&options, ret_history, NULL);
}

#ifdef TP_WITH_POSTGRES
/* Each history has a schema of its own. */
static tp_status open_postgres(tp_history **ret_history) {
  char schema[16];
  tp_fault fault = {0};
  tp_postgres *database = NULL;
  snprintf(schema, sizeof schema, "s%d", file_count++);
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = postgres_server.conninfo, .schema = schema};
  tp_status status = tp_postgres_open(&options, &database, &fault);
  if (status == TP_OK) status = tp_postgres_history(database, ret_history, &fault);
  if (status != TP_OK) print_message("# %s\n", fault.message);
  tp_postgres_close(database);
  return status;
}
#endif

static const history_kind histories[] = {
    {"memory", open_memory},
    {"sqlite", open_sqlite},
    {"sqlite, asynchronous", open_sqlite_async},
#ifdef TP_WITH_POSTGRES
    {"postgres", open_postgres}, /* the last: it is left out where there is no server */
#endif
};
static const history_kind *kind; /* under test */

static tp_history *open_history(void) {
  tp_history *history = NULL;
  assert_int_equal(kind->open(&history), TP_OK);
  assert_int_equal(history->struct_size, sizeof *history);
  assert_non_null(history->delete_session);
  assert_non_null(history->list_sessions);
  return history;
}

/* A history that begins an append and completes a token gets an append for which no caller waits. */
static void append_to(tp_history *history, const tp_history_append *request) {
  if (history->append_start) history->append_start(history->ctx, request, (tp_token){0});
  else assert_int_equal(history->append(history->ctx, request, NULL), TP_OK);
}

/* Appends one message of each role that a turn with a tool call leaves; text distinguishes the turns. */
static void append(tp_history *history, const char *tenant, const char *session, const char *text) {
  static _Thread_local char bytes[80]; /* nothing of it is there any more when it is loaded */
  static _Thread_local tp_tool_call call;
  snprintf(bytes, sizeof bytes, "c1t\x80r%s", text);
  const tp_text id = {bytes, 2}, name = {bytes + 2, 1}, arguments = {bytes + 3, 1}, said = {bytes + 4, 1};
  call = (tp_tool_call){.struct_size = sizeof call, .id = id, .name = name, .arguments = arguments};
  const tp_tool_call *calls[] = {&call};
  tp_message user = {.struct_size = sizeof user, .role = TP_ROLE_USER, .text = tp_text_of(bytes + 5)};
  tp_message assistant = {.struct_size = sizeof assistant, .role = TP_ROLE_ASSISTANT, .calls = calls, .call_count = 1};
  tp_message tool = {.struct_size = sizeof tool, .role = TP_ROLE_TOOL, .text = said, .call_id = id, .name = name};
  const tp_message *messages[] = {&user, &assistant, &tool};
  tp_history_append request = {.struct_size = sizeof request,
                               .tenant = tp_text_of(tenant),
                               .session = tp_text_of(session),
                               .messages = messages,
                               .message_count = COUNT(messages)};
  append_to(history, &request);
  memset(bytes, '?', sizeof bytes);
  memset(&call, 0, sizeof call);
}

typedef struct texts {
  char users[64];
  size_t count, calls;
} texts;

static tp_status keep(void *ctx, const tp_message *message) {
  texts *t = ctx;
  t->count++;
  t->calls += message->call_count;
  for (size_t i = 0; i < message->call_count; i++) {
    const tp_tool_call *call = message->calls[i];
    assert_int_equal(call->id.size + call->name.size + call->arguments.size, 4);
    assert_memory_equal(call->id.data, "c1", 2);
    assert_memory_equal(call->name.data, "t", 1);
    assert_memory_equal(call->arguments.data, "\x80", 1);
  }
  if (message->role == TP_ROLE_TOOL) {
    assert_int_equal(message->text.size + message->call_id.size + message->name.size, 4);
    assert_memory_equal(message->text.data, "r", 1);
    assert_memory_equal(message->call_id.data, "c1", 2);
    assert_memory_equal(message->name.data, "t", 1);
  }
  if (message->role == TP_ROLE_USER) strncat(t->users, message->text.data, message->text.size);
  return TP_OK;
}

static texts load(tp_history *history, const char *tenant, const char *session) {
  texts t = {.count = 0};
  tp_history_load request = {.struct_size = sizeof request,
                             .tenant = tp_text_of(tenant),
                             .session = tp_text_of(session),
                             .each = keep,
                             .ctx = &t};
  assert_int_equal(history->load(history->ctx, &request, NULL), TP_OK);
  return t;
}

static void assert_loads(tp_history *history, const char *tenant, const char *session, const char *users) {
  texts t = load(history, tenant, session);
  assert_string_equal(t.users, users);
  assert_int_equal(t.count, 3 * strlen(users));
  assert_int_equal(t.calls, strlen(users));
}

static tp_status delete_session(tp_history *history, const char *tenant, const char *session, tp_fault *fault) {
  tp_history_delete request = {
      .struct_size = sizeof request, .tenant = tp_text_of(tenant), .session = tp_text_of(session)};
  return history->delete_session(history->ctx, &request, fault);
}

typedef struct listing {
  tp_history *history;
  char names[256]; /* "tenant/session*messages " */
  uint64_t last;
  size_t count, stop_at;
  int bad;
  const char *deletes; /* at the first row, the callback deletes this session */
  bool appends;        /* at the first row, the callback appends to a new session */
} listing;

static bool list_row(void *ctx, const tp_history_session *row) {
  listing *l = ctx;
  char text[64];
  snprintf(text, sizeof text, "%.*s/%.*s*%u ", (int)row->tenant.size, row->tenant.data, (int)row->session.size,
           row->session.data, (unsigned)row->message_count);
  strncat(l->names, text, sizeof l->names - strlen(l->names) - 1);
  if (row->struct_size != sizeof *row || row->number <= l->last) l->bad++;
  l->last = row->number;
  if (l->count++ == 0 && l->appends) append(l->history, "b", "new", "n");
  if (l->count == 1 && l->deletes && delete_session(l->history, "a", l->deletes, NULL) != TP_OK) l->bad++;
  return l->count != l->stop_at;
}

static listing list(tp_history *history, const tp_history_query *query, listing l) {
  l.history = history;
  tp_history_query all = {.struct_size = sizeof all};
  assert_int_equal(history->list_sessions(history->ctx, query ? query : &all, list_row, &l, NULL), TP_OK);
  assert_int_equal(l.bad, 0);
  return l;
}

/* ---- cases ---- */

TEST(what_was_appended_is_loaded_in_order_and_by_tenant_and_session) {
  tp_history *history = open_history();
  assert_loads(history, "a", "s", "");
  append(history, "a", "s", "1");
  append(history, "b", "s", "2");
  append(history, "a", "s", "3");
  append(history, "", "s", "4");
  assert_loads(history, "a", "s", "13");
  assert_loads(history, "b", "s", "2");
  assert_loads(history, "", "s", "4");
  assert_loads(history, "a", "t", "");
  tp_history_free(history);
}

TEST(names_that_run_together_are_apart) {
  tp_history *history = open_history();
  append(history, "ab", "c", "1");
  append(history, "a", "bc", "2");
  assert_loads(history, "ab", "c", "1");
  assert_loads(history, "a", "bc", "2");
  tp_history_free(history);
}

TEST(a_deleted_session_is_gone_and_the_others_stay) {
  tp_history *history = open_history();
  tp_fault fault = {0};
  append(history, "a", "s", "1");
  append(history, "a", "t", "2");
  append(history, "b", "s", "3");
  assert_int_equal(delete_session(history, "a", "s", &fault), TP_OK);
  assert_loads(history, "a", "s", "");
  assert_loads(history, "a", "t", "2");
  assert_loads(history, "b", "s", "3");
  assert_int_equal(delete_session(history, "a", "s", &fault), TP_ERR_NOT_FOUND);
  assert_true(fault.message[0] != '\0');
  assert_int_equal(delete_session(history, "", "s", NULL), TP_ERR_NOT_FOUND);
  append(history, "a", "s", "4"); /* the session begins anew */
  assert_loads(history, "a", "s", "4");
  tp_history_free(history);
}

TEST(sessions_are_listed_by_rising_number_with_their_messages) {
  tp_history *history = open_history();
  assert_string_equal(list(history, NULL, (listing){.count = 0}).names, "");
  append(history, "b", "s", "1");
  append(history, "a", "t", "2");
  append(history, "a", "s", "3");
  append(history, "b", "s", "4");
  assert_string_equal(list(history, NULL, (listing){.count = 0}).names, "b/s*6 a/t*3 a/s*3 ");
  tp_history_query of_a = {.struct_size = sizeof of_a, .tenant = TEXT("a")};
  assert_string_equal(list(history, &of_a, (listing){.count = 0}).names, "a/t*3 a/s*3 ");
  assert_string_equal(list(history, NULL, (listing){.stop_at = 1}).names, "b/s*6 ");
  assert_int_equal(delete_session(history, "a", "t", NULL), TP_OK);
  assert_string_equal(list(history, NULL, (listing){.count = 0}).names, "b/s*6 a/s*3 ");
  tp_history_free(history);
}

TEST(a_list_is_read_page_by_page) {
  enum { SESSIONS = 200 };
  tp_history *history = open_history();
  for (int i = 0; i < SESSIONS; i++) {
    char name[8];
    snprintf(name, sizeof name, "s%d", i);
    append(history, "a", name, "x");
  }
  tp_history_query page = {.struct_size = sizeof page, .limit = 64};
  size_t all = 0, pages = 0;
  for (listing l = {.count = 1}; l.count > 0; pages++) {
    l = list(history, &page, (listing){.last = page.after_number});
    page.after_number = l.last;
    all += l.count;
  }
  assert_int_equal(all, SESSIONS);
  assert_int_equal(pages, 5); /* 64, 64, 64, 8, none */
  tp_history_free(history);
}

TEST(a_receiver_of_a_list_may_append_and_delete) {
  tp_history *history = open_history();
  append(history, "a", "s", "1");
  append(history, "a", "t", "2");
  append(history, "a", "u", "3");
  (void)list(history, NULL, (listing){.deletes = "t"});
  assert_string_equal(list(history, NULL, (listing){.count = 0}).names, "a/s*3 a/u*3 ");
  (void)list(history, NULL, (listing){.appends = true});
  assert_string_equal(list(history, NULL, (listing){.count = 0}).names, "a/s*3 a/u*3 b/new*3 ");
  (void)list(history, NULL, (listing){.deletes = "s"}); /* the callback deletes the session that it is shown */
  assert_string_equal(list(history, NULL, (listing){.count = 0}).names, "a/u*3 b/new*3 ");
  tp_history_free(history);
}

/* ---- several threads ---- */

typedef struct user {
  tp_history *history;
  char session[8];
  int bad;
} user;

static bool look_at(void *ctx, const tp_history_session *row) {
  if (row->message_count == 0) ++*(int *)ctx;
  return true;
}

static void *use(void *arg) {
  user *u = arg;
  tp_history_query all = {.struct_size = sizeof all};
  for (int i = 0; i < 20; i++) {
    append(u->history, "a", u->session, "x");
    append(u->history, "a", u->session, "y");
    if (load(u->history, "a", u->session).count != 6) u->bad++;
    if (u->history->list_sessions(u->history->ctx, &all, look_at, &u->bad, NULL) != TP_OK) u->bad++;
    if (delete_session(u->history, "a", u->session, NULL) != TP_OK) u->bad++;
  }
  return NULL;
}

TEST(sessions_are_used_by_several_threads_at_once) {
  enum { THREADS = 4 };
  tp_history *history = open_history();
  pthread_t threads[THREADS];
  user users[THREADS];
  for (int i = 0; i < THREADS; i++) {
    users[i] = (user){.history = history};
    snprintf(users[i].session, sizeof users[i].session, "s%d", i);
    assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(users[i].bad, 0);
  }
  assert_string_equal(list(history, NULL, (listing){.count = 0}).names, "");
  tp_history_free(history);
}

/* ---- each case with each history ---- */

static int choose_kind(void **state) {
  kind = *state;
  return 0;
}

FOR_EACH_TEST(choose_kind, NULL);

TEST_MAIN(count, arguments) {
  test_variant variants[COUNT(histories)];
  size_t kinds = COUNT(variants);
  if (!mkdtemp(folder)) return 1;
  for (size_t i = 0; i < COUNT(variants); i++)
    variants[i] = (test_variant){.name = histories[i].name, .state = (void *)(uintptr_t)&histories[i]};
#ifdef TP_WITH_POSTGRES
  const char *lack = postgres_lack();
  if (lack) printf("# skipped: postgres: %s\n", lack);
  else postgres_make();
  kinds -= lack != NULL;
#endif
  int failed = test_main_for_each(count, arguments, variants, kinds);
#ifdef TP_WITH_POSTGRES
  postgres_remove();
#endif
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) == 0 ? failed : 1;
}
