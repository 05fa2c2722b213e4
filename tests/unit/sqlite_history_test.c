/* SPDX-License-Identifier: Apache-2.0
 *
 * The history in a SQLite file: appended messages come back, whatever happens in between; a foreign, newer or damaged
 * file is refused and not changed. Faults of the machine (a full disk, a lock that stays, no memory) are simulated by
 * SQLite's own seams: the system calls of its VFS, its sleep and its allocator. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "stores/sqlite/database.h"
#include "turnphase/sqlite.h"

/* ---- the machine that SQLite sees ---- */

static bool disk_full;
static bool sleep_is_pretended;
static int64_t slept_us;
static int allocations_left = -1; /* refused when 0; never when below */
static bool refuse_ever_after;
static sqlite3_mem_methods real_memory;

static ssize_t full_pwrite(int fd, const void *bytes, size_t size, off_t at) {
  if (!disk_full) return pwrite(fd, bytes, size, at);
  errno = ENOSPC;
  return -1;
}

static ssize_t full_write(int fd, const void *bytes, size_t size) {
  if (!disk_full) return write(fd, bytes, size);
  errno = ENOSPC;
  return -1;
}

static int sleep_or_pretend(sqlite3_vfs *vfs, int microseconds) {
  (void)vfs;
  if (sleep_is_pretended) slept_us += microseconds;
  else usleep((useconds_t)microseconds);
  return microseconds;
}

static bool refused(void) {
  if (allocations_left < 0) return false;
  if (allocations_left > 0) {
    allocations_left--;
    return false;
  }
  if (!refuse_ever_after) allocations_left = -1;
  return true;
}

static void *careful_malloc(int size) { return refused() ? NULL : real_memory.xMalloc(size); }
static void *careful_realloc(void *memory, int size) { return refused() ? NULL : real_memory.xRealloc(memory, size); }

static void put_machine_in_place(void) {
  static sqlite3_vfs vfs; /* the unix VFS but for its sleep */
  sqlite3_mem_methods memory;
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory), SQLITE_OK);
  memory = real_memory;
  memory.xMalloc = careful_malloc;
  memory.xRealloc = careful_realloc;
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &memory), SQLITE_OK);
  assert_int_equal(sqlite3_initialize(), SQLITE_OK);
  sqlite3_vfs *real = sqlite3_vfs_find(NULL);
  real->xSetSystemCall(real, "pwrite", (sqlite3_syscall_ptr)full_pwrite);
  real->xSetSystemCall(real, "pwrite64", (sqlite3_syscall_ptr)full_pwrite);
  real->xSetSystemCall(real, "write", (sqlite3_syscall_ptr)full_write);
  vfs = *real;
  vfs.zName = "pretending";
  vfs.xSleep = sleep_or_pretend;
  assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

/* ---- a directory for each test ---- */

static char directory[64];
static char path[96];

static int make_directory_in(const char *place) {
  snprintf(directory, sizeof directory, "%s/sqlite_history_XXXXXX", place);
  if (!mkdtemp(directory)) return -1;
  snprintf(path, sizeof path, "%s/history.db", directory);
  disk_full = false;
  sleep_is_pretended = false;
  slept_us = 0;
  allocations_left = -1;
  return 0;
}

static int make_directory(void **state) {
  (void)state;
  return make_directory_in("/tmp");
}

/* Where a sync costs nothing, for the cases that open hundreds of times. */
static int make_directory_in_memory(void **state) {
  (void)state;
  return make_directory_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

static int remove_directory(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  return system(command);
}

FOR_EACH_TEST(make_directory, remove_directory);

static tp_history *open_history(void) {
  tp_history *history = NULL;
  tp_fault fault = {0};
  tp_status status = tp_sqlite_history_open(path, &history, &fault);
  if (status != TP_OK) fail_msg("%s", fault.message);
  return history;
}

static tp_text text_of(const char *string) { return (tp_text){string, strlen(string)}; }

static tp_message said(const char *turn, const char *text) {
  return (tp_message){.role = TP_ROLE_USER, .turn_id = text_of(turn), .text = text_of(text)};
}

enum { BATCH_MAX = 64 };

static tp_status append_batch(tp_history *history, tp_text tenant, tp_text session, const tp_message *messages,
                              size_t count, tp_fault *fault) {
  const tp_message *batch[BATCH_MAX];
  assert(count <= BATCH_MAX);
  for (size_t i = 0; i < count; i++) batch[i] = &messages[i];
  tp_history_append request = {
      .struct_size = sizeof request, .tenant = tenant, .session = session, .messages = batch, .message_count = count};
  return history->append(history->ctx, &request, fault);
}

static tp_status load_each(tp_history *history, tp_text tenant, tp_text session, tp_message_fn each, void *ctx,
                           tp_fault *fault) {
  tp_history_load request = {
      .struct_size = sizeof request, .tenant = tenant, .session = session, .each = each, .ctx = ctx};
  return history->load(history->ctx, &request, fault);
}

static void append(tp_history *history, const char *session, const char *text) {
  tp_message message = said("t", text);
  tp_fault fault = {0};
  tp_status status = append_batch(history, text_of("acme"), text_of(session), &message, 1, &fault);
  if (status != TP_OK) fail_msg("%s", fault.message);
}

/** What a load returned: the texts joined, each with a bar after it. */
typedef struct loaded {
  size_t count;
  char text[4096];
} loaded;

static tp_status gather(void *ctx, const tp_message *message) {
  loaded *all = ctx;
  all->count++;
  size_t used = strlen(all->text);
  snprintf(all->text + used, sizeof all->text - used, "%.*s|", (int)message->text.size, message->text.data);
  return TP_OK;
}

static tp_status load_with(tp_history *history, tp_message_fn each, void *ctx, tp_fault *fault) {
  return load_each(history, text_of("acme"), text_of("s"), each, ctx, fault);
}

static loaded load(tp_history *history, const char *tenant, const char *session) {
  loaded all = {0};
  tp_fault fault = {0};
  tp_status status = load_each(history, text_of(tenant), text_of(session), gather, &all, &fault);
  if (status != TP_OK) fail_msg("%s", fault.message);
  return all;
}

static void assert_loads(tp_history *history, const char *tenant, const char *session, const char *text) {
  loaded all = load(history, tenant, session);
  assert_string_equal(all.text, text);
}

/* What the file holds, to see that a refusal leaves it alone. */
static uint64_t digest_of_file(const char *name) {
  FILE *file = fopen(name, "rb");
  assert_non_null(file);
  uint64_t digest = 14695981039346656037u;
  for (int c; (c = fgetc(file)) != EOF;) digest = (digest ^ (unsigned)c) * 1099511628211u;
  fclose(file);
  return digest;
}

static void write_file(const char *name, const char *text) {
  FILE *file = fopen(name, "wb");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void sql(const char *name, const char *statements) {
  sqlite3 *db = NULL;
  assert_int_equal(sqlite3_open(name, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

static void assert_refused(const char *name, tp_status expected, const char *words) {
  tp_history *history = NULL;
  tp_fault fault = {0};
  tp_status status = tp_sqlite_history_open(name, &history, &fault);
  assert_int_equal(status, expected);
  assert_int_equal(fault.code, expected);
  assert_null(history);
  assert_string_equal(fault.subject, name);
  assert_non_null(strstr(fault.message, name));
  if (!strstr(fault.message, words)) fail_msg("'%s' is not in: %s", words, fault.message);
}

/* ---- simple ---- */

static tp_status count_only(void *ctx, const tp_message *message) {
  (void)message;
  (*(size_t *)ctx)++;
  return TP_OK;
}

TEST(an_unknown_session_has_no_messages) {
  tp_history *history = open_history();
  size_t count = 0;
  assert_int_equal(load_with(history, count_only, &count, NULL), TP_OK);
  assert_int_equal(count, 0);
  tp_history_free(history);
}

TEST(messages_are_loaded_in_the_order_of_their_appends) {
  tp_history *history = open_history();
  tp_message two[] = {said("t1", "one"), said("t1", "two")};
  assert_int_equal(append_batch(history, text_of("acme"), text_of("s"), two, 2, NULL), TP_OK);
  append(history, "other", "aside");
  append(history, "s", "three");
  assert_loads(history, "acme", "s", "one|two|three|");
  tp_history_free(history);
}

TEST(sessions_of_two_tenants_with_one_name_are_apart) {
  tp_history *history = open_history();
  append(history, "s", "of acme");
  assert_loads(history, "acme", "s", "of acme|");
  assert_loads(history, "", "s", "");
  assert_loads(history, "acm", "es", "");
  tp_history_free(history);
}

TEST(what_was_appended_is_there_after_reopening) {
  tp_history *history = open_history();
  append(history, "s", "before");
  tp_history_free(history);
  history = open_history();
  append(history, "s", "after");
  assert_loads(history, "acme", "s", "before|after|");
  tp_history_free(history);
}

static const tp_tool_call call_structs[] = {
    {.struct_size = sizeof(tp_tool_call),
     .id = {"c1", 2},
     .name = {"weather", 7},
     .arguments = {"\x81\xa4"
                   "city\xa4Oslo",
                   11}},
    {.struct_size = sizeof(tp_tool_call), .id = {"", 0}, .name = {"clock", 5}, .arguments = {NULL, 0}},
    {.struct_size = sizeof(tp_tool_call),
     .id = {"c3", 2},
     .name = {"broken", 6},
     .arguments = {"{\"a\":\0 1", 8},
     .malformed = true}};
static const tp_tool_call *const calls[] = {&call_structs[0], &call_structs[1], &call_structs[2]};

static void assert_same_text(tp_text a, tp_text b) {
  assert_int_equal(a.size, b.size);
  if (a.size) assert_memory_equal(a.data, b.data, a.size);
}

static void assert_same_message(const tp_message *a, const tp_message *b) {
  assert_int_equal(a->role, b->role);
  assert_int_equal(a->is_error, b->is_error);
  assert_same_text(a->turn_id, b->turn_id);
  assert_same_text(a->text, b->text);
  assert_same_text(a->call_id, b->call_id);
  assert_same_text(a->name, b->name);
  assert_same_text(a->parts, b->parts);
  assert_same_text(a->value, b->value);
  assert_same_text(a->provider_data, b->provider_data);
  assert_int_equal(a->call_count, b->call_count);
  for (size_t i = 0; i < a->call_count; i++) {
    assert_same_text(a->calls[i]->id, b->calls[i]->id);
    assert_same_text(a->calls[i]->name, b->calls[i]->name);
    assert_same_text(a->calls[i]->arguments, b->calls[i]->arguments);
    assert_int_equal(a->calls[i]->malformed, b->calls[i]->malformed);
  }
}

/** The messages a load should return, one after the other. */
typedef struct expected {
  const tp_message *next;
  size_t left;
} expected;

static tp_status compare(void *ctx, const tp_message *message) {
  expected *list = ctx;
  assert_true(list->left > 0);
  assert_same_message(message, list->next);
  list->next++;
  list->left--;
  return TP_OK;
}

TEST(every_field_of_every_kind_of_message_comes_back) {
  char *long_text = malloc(300000);
  memset(long_text, 'x', 300000);
  const tp_message messages[] = {
      said("t1", "Gr\xc3\xbc\xc3\x9f dich \xf0\x9f\x8c\x9f"),
      {.role = TP_ROLE_USER,
       .text = text_of("look"),
       .parts = {"\x91\x81\xa4text\xa3"
                 "a\0b",
                 11}},
      {.role = TP_ROLE_ASSISTANT, .turn_id = text_of("t1"), .text = text_of("Wait."), .calls = calls, .call_count = 3},
      {.role = TP_ROLE_ASSISTANT, .turn_id = text_of("t1"), .provider_data = {"\x81\xa1s\xc4\x02\0\xff", 7}},
      {.role = TP_ROLE_TOOL, .text = {"a\0b", 3}, .call_id = text_of("c1"), .name = text_of("weather")},
      {.role = TP_ROLE_TOOL,
       .call_id = text_of("c2"),
       .parts = {"\x91\x82\xa5image\xc4\x03\x89\0P\xaamedia_type\xa9image/png", 34},
       .value = {"\x81\xa1n\0", 4}},
      {.role = TP_ROLE_TOOL, .text = text_of("no"), .name = text_of("clock"), .is_error = true},
      {.role = TP_ROLE_ASSISTANT, .turn_id = text_of("t1"), .text = {long_text, 300000}},
      {.role = TP_ROLE_END, .turn_id = text_of("t2"), .name = text_of("timed_out")}};
  size_t count = sizeof messages / sizeof messages[0];
  tp_history *history = open_history();
  assert_int_equal(append_batch(history, text_of(""), text_of("s"), messages, count, NULL), TP_OK);
  expected list = {messages, count};
  assert_int_equal(load_each(history, text_of(""), text_of("s"), compare, &list, NULL), TP_OK);
  assert_int_equal(list.left, 0);
  tp_history_free(history);
  free(long_text);
}

/* ---- unusual input ---- */

TEST(an_empty_batch_changes_nothing) {
  tp_history *history = open_history();
  assert_int_equal(append_batch(history, text_of("acme"), text_of("s"), NULL, 0, NULL), TP_OK);
  assert_loads(history, "acme", "s", "");
  tp_history_free(history);
}

static tp_status stop_at_second(void *ctx, const tp_message *message) {
  (void)message;
  return ++*(size_t *)ctx == 2 ? TP_ERR_CANCELLED : TP_OK;
}

TEST(a_receiver_that_stops_has_its_status_returned) {
  tp_history *history = open_history();
  for (int i = 0; i < 3; i++) append(history, "s", "x");
  size_t count = 0;
  assert_int_equal(load_with(history, stop_at_second, &count, NULL), TP_ERR_CANCELLED);
  assert_int_equal(count, 2);
  assert_loads(history, "acme", "s", "x|x|x|");
  tp_history_free(history);
}

static tp_status append_and_load_again(void *ctx, const tp_message *message) {
  tp_history *history = ctx;
  append(history, "copy", "copied");
  append(history, "s", "grown");
  load(history, "acme", "copy");
  return message->text.size ? TP_OK : TP_ERR_INTERNAL;
}

TEST(a_receiver_may_append_and_load_and_sees_the_session_as_it_was) {
  tp_history *history = open_history();
  append(history, "s", "a");
  append(history, "s", "b");
  assert_int_equal(load_with(history, append_and_load_again, history, NULL), TP_OK);
  assert_loads(history, "acme", "copy", "copied|copied|");
  assert_loads(history, "acme", "s", "a|b|grown|grown|");
  tp_history_free(history);
}

static void assert_mode(const char *suffix, mode_t mode) {
  char name[128];
  struct stat about;
  snprintf(name, sizeof name, "%s%s", path, suffix);
  assert_int_equal(stat(name, &about), 0);
  assert_int_equal(about.st_mode & 07777, mode);
}

TEST(the_file_and_its_journals_are_private_from_birth) {
  mode_t before = umask(0);
  tp_history *history = open_history();
  append(history, "s", "x");
  umask(before);
  assert_mode("", 0600);
  assert_mode("-wal", 0600);
  assert_mode("-shm", 0600);
  tp_history_free(history);
}

TEST(names_that_mean_something_to_sqlite_are_names_of_files) {
  static const char *const names[] = {":memory:", "file:x?mode=memory", "file::memory:"};
  char here[4096];
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(chdir(directory), 0);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    tp_history *history = NULL;
    assert_int_equal(tp_sqlite_history_open(names[i], &history, NULL), TP_OK);
    append(history, "s", "kept");
    tp_history_free(history);
    assert_int_equal(access(names[i], F_OK), 0);
    assert_int_equal(tp_sqlite_history_open(names[i], &history, NULL), TP_OK);
    assert_loads(history, "acme", "s", "kept|");
    tp_history_free(history);
  }
  assert_int_equal(chdir(here), 0);
}

/* In a child: whether another process has locked the range that every open connection holds (SQLite's SHARED lock). */
static bool held_by_another_process(const char *name) {
  pid_t child = fork();
  if (child == 0) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000002, .l_len = 510};
    int fd = open(name, O_RDWR | O_CLOEXEC);
    _exit(fd < 0 || fcntl(fd, F_GETLK, &lock) != 0 ? 2 : lock.l_type != F_UNLCK);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
  return WEXITSTATUS(status) == 1;
}

/* Closing any descriptor of a file drops every POSIX lock that the process holds on it. Opening the file again must not
 * do that. */
TEST(opening_a_file_again_keeps_the_locks_of_this_process) {
  tp_history *first = open_history();
  append(first, "s", "x");
  assert_true(held_by_another_process(path));
  tp_history *second = open_history();
  assert_true(held_by_another_process(path));
  append(second, "s", "y");
  tp_history_free(second);
  assert_loads(first, "acme", "s", "x|y|");
  tp_history_free(first);
  assert_false(held_by_another_process(path));
}

/* The child is killed while the log is not yet in the database: every acknowledged append must be there. */
TEST(what_was_appended_survives_the_kill_of_its_process) {
  pid_t child = fork();
  if (child == 0) {
    tp_history *history = open_history();
    append(history, "s", "acknowledged");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  tp_history *history = open_history();
  assert_loads(history, "acme", "s", "acknowledged|");
  tp_history_free(history);
}

/* ---- threads ---- */

enum { THREADS = 4, APPENDS = 25 };

typedef struct worker {
  tp_history *history;
  char session[16];
  tp_status status;
  size_t loaded;
} worker;

static void *append_and_load(void *arg) {
  worker *w = arg;
  for (int i = 0; i < APPENDS && w->status == TP_OK; i++) {
    tp_message message = said("t", "word");
    w->status = append_batch(w->history, text_of("acme"), text_of(w->session), &message, 1, NULL);
    w->loaded = 0;
    if (w->status != TP_OK) break;
    w->status = load_each(w->history, text_of("acme"), text_of(w->session), count_only, &w->loaded, NULL);
  }
  return NULL;
}

TEST(sessions_are_appended_to_and_loaded_from_several_threads_at_once) {
  tp_history *history = open_history();
  pthread_t threads[THREADS];
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.history = history};
    snprintf(workers[i].session, sizeof workers[i].session, "s%d", i);
    assert_int_equal(pthread_create(&threads[i], NULL, append_and_load, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(workers[i].status, TP_OK);
    assert_int_equal(workers[i].loaded, APPENDS);
  }
  tp_history_free(history);
}

typedef struct opener {
  tp_history *history;
  tp_status status;
  tp_fault fault;
} opener;

static void *open_it(void *arg) {
  opener *o = arg;
  o->status = tp_sqlite_history_open(path, &o->history, &o->fault);
  return NULL;
}

TEST(a_new_file_may_be_opened_by_several_threads_at_once) {
  pthread_t threads[THREADS];
  opener openers[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, open_it, &openers[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    if (openers[i].status != TP_OK) fail_msg("%s", openers[i].fault.message);
    append(openers[i].history, "s", "x");
  }
  assert_loads(openers[0].history, "acme", "s", "x|x|x|x|");
  for (int i = 0; i < THREADS; i++) tp_history_free(openers[i].history);
}

/* ---- hostile ---- */

TEST(a_path_is_needed) {
  tp_history *history = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_sqlite_history_open(NULL, &history, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_sqlite_history_open("", &history, &fault), TP_ERR_USAGE);
  assert_int_equal(fault.code, TP_ERR_USAGE);
}

TEST(a_missing_directory_or_a_directory_is_an_io_error) {
  char name[128];
  snprintf(name, sizeof name, "%s/none/history.db", directory);
  assert_refused(name, TP_ERR_IO, "No such file");
  assert_refused(directory, TP_ERR_IO, "unable to open");
}

TEST(a_foreign_database_is_refused_and_left_alone) {
  sql(path, "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
  uint64_t before = digest_of_file(path);
  assert_refused(path, TP_ERR_STORE_SCHEMA, "another program");
  assert_int_equal(digest_of_file(path), before);
}

TEST(an_empty_database_that_bears_a_foreign_mark_is_refused) {
  sql(path, "PRAGMA application_id = 7; CREATE TABLE t (x); DROP TABLE t");
  assert_refused(path, TP_ERR_STORE_SCHEMA, "another program");
}

TEST(another_schema_is_refused_and_left_alone) {
  tp_history *history = open_history();
  append(history, "s", "x");
  tp_history_free(history);
  sql(path, "PRAGMA user_version = 99");
  uint64_t before = digest_of_file(path);
  assert_refused(path, TP_ERR_STORE_SCHEMA, "use the turnphase that wrote it");
  assert_int_equal(digest_of_file(path), before);
}

TEST(a_version_that_never_was_is_refused) {
  tp_history *history = open_history();
  tp_history_free(history);
  sql(path, "PRAGMA user_version = -3");
  assert_refused(path, TP_ERR_STORE_CORRUPT, "never was");
}

TEST(a_file_that_is_no_database_is_refused_and_left_alone) {
  char page[2048];
  memset(page, '#', sizeof page);
  page[sizeof page - 1] = '\0';
  write_file(path, page);
  uint64_t before = digest_of_file(path);
  assert_refused(path, TP_ERR_STORE_CORRUPT, "not a database");
  assert_int_equal(digest_of_file(path), before);
}

TEST(a_damaged_page_is_found_at_open) {
  tp_history *history = open_history();
  char text[2000];
  memset(text, 'y', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  for (int i = 0; i < 20; i++) append(history, "s", text);
  tp_history_free(history);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, 4096 * 3, SEEK_SET);
  for (int i = 0; i < 4096; i++) fputc(0x5a, file);
  fclose(file);
  assert_refused(path, TP_ERR_STORE_CORRUPT, "restore a copy");
}

/* Root may write files that other users may not, so the test becomes the user `nobody` for a moment. */
TEST(a_file_that_cannot_be_written_is_refused) {
  tp_history *history = open_history();
  append(history, "s", "x");
  tp_history_free(history);
  assert_int_equal(chmod(directory, 0755), 0);
  assert_int_equal(chmod(path, 0444), 0);
  bool root = geteuid() == 0;
  if (root) assert_int_equal(seteuid(65534), 0);
  assert_refused(path, TP_ERR_STORE_READONLY, "can be written");
  if (root) {
    char name[128];
    snprintf(name, sizeof name, "%s/another.db", directory);
    assert_refused(name, TP_ERR_STORE_READONLY, "cannot be made");
    assert_int_equal(seteuid(0), 0);
  }
}

TEST(a_lock_that_stays_is_waited_for_and_then_said_to_be_busy) {
  tp_history *history = open_history();
  append(history, "s", "before");
  sqlite3 *other = NULL;
  assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  tp_message message = said("t", "refused");
  tp_fault fault = {0};
  sleep_is_pretended = true;
  assert_int_equal(append_batch(history, text_of("acme"), text_of("s"), &message, 1, &fault), TP_ERR_STORE_BUSY);
  assert_int_equal(fault.code, TP_ERR_STORE_BUSY);
  assert_true(slept_us > 1000 * (TP__SQLITE_BUSY_MS - 200) && slept_us <= 1000 * (TP__SQLITE_BUSY_MS + 200));
  assert_loads(history, "acme", "s", "before|");
  assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(other);
  append(history, "s", "after");
  assert_loads(history, "acme", "s", "before|after|");
  tp_history_free(history);
}

TEST(a_full_disk_refuses_the_whole_batch_and_heals) {
  tp_history *history = open_history();
  append(history, "s", "before");
  tp_message batch[] = {said("t", "one"), said("t", "two")};
  tp_fault fault = {0};
  disk_full = true;
  for (int i = 0; i < 3; i++)
    assert_int_equal(append_batch(history, text_of("acme"), text_of("s"), batch, 2, &fault), TP_ERR_STORE_FULL);
  assert_int_equal(fault.code, TP_ERR_STORE_FULL);
  assert_non_null(strstr(fault.message, "free space"));
  assert_loads(history, "acme", "s", "before|");
  disk_full = false;
  assert_int_equal(append_batch(history, text_of("acme"), text_of("s"), batch, 2, NULL), TP_OK);
  assert_loads(history, "acme", "s", "before|one|two|");
  tp_history_free(history);
}

TEST(a_full_disk_at_birth_is_an_error_and_no_database) {
  disk_full = true;
  assert_refused(path, TP_ERR_STORE_FULL, "free space");
  disk_full = false;
  tp_history *history = open_history();
  append(history, "s", "x");
  assert_loads(history, "acme", "s", "x|");
  tp_history_free(history);
}

TEST(a_stored_role_that_does_not_exist_is_damage) {
  tp_history *history = open_history();
  append(history, "s", "x");
  sql(path, "UPDATE message SET role = 9");
  tp_fault fault = {0};
  size_t count = 0;
  assert_int_equal(load_with(history, count_only, &count, &fault), TP_ERR_STORE_CORRUPT);
  assert_int_equal(fault.code, TP_ERR_STORE_CORRUPT);
  assert_int_equal(count, 0);
  tp_history_free(history);
}

/* One life of a history with the n-th allocation refused, in a session of its own. @return whether there was an
 * n-th. */
static bool live_with_refusal(int n, size_t *ret_acknowledged, tp_status *ret_worst) {
  tp_history *history = NULL;
  tp_message message = {.role = TP_ROLE_ASSISTANT, .text = text_of("x"), .calls = calls, .call_count = 3};
  char session[16];
  size_t count = 0;
  snprintf(session, sizeof session, "s%d", n);
  allocations_left = n;
  tp_status status = tp_sqlite_history_open(path, &history, NULL);
  if (status == TP_OK) {
    tp_status appended = append_batch(history, text_of("acme"), text_of(session), &message, 1, NULL);
    if (appended == TP_OK) ++*ret_acknowledged;
    status = load_each(history, text_of("acme"), text_of(session), count_only, &count, NULL);
    if (status == TP_OK) assert_int_equal(count, appended == TP_OK);
    if (status == TP_OK) status = appended;
    tp_history_free(history);
  }
  bool reached = allocations_left <= 0;
  allocations_left = -1;
  *ret_worst = status;
  return reached;
}

static int64_t messages_in_file(void) {
  sqlite3 *db = NULL;
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM message", -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  int64_t count = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return count;
}

static void refuse_each_allocation(bool ever_after) {
  size_t acknowledged = 0;
  bool reached = true;
  refuse_ever_after = ever_after;
  sqlite3_int64 before = sqlite3_memory_used();
  for (long n = 0; reached; n += test_refusal_step()) {
    tp_status worst = TP_OK;
    /* A life that fails leaves its log, which the next ones read. So some lives have a long log, and none has all of
     * them. */
    if (n % 16 == 0) sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    reached = live_with_refusal(n, &acknowledged, &worst);
    if (worst != TP_OK && worst != TP_ERR_NO_MEMORY) fail_msg("allocation %ld: %s", n, tp_status_name(worst));
    assert_true(reached || worst == TP_OK);
    assert_int_equal(sqlite3_memory_used(), before);
  }
  assert_int_equal(messages_in_file(), acknowledged);
}

TEST_WITH(each_allocation_may_be_refused_once, make_directory_in_memory, remove_directory) {
  refuse_each_allocation(false);
}

TEST_WITH(each_allocation_may_be_the_first_of_all_that_are_refused, make_directory_in_memory, remove_directory) {
  refuse_each_allocation(true);
}

static bool count_session(void *ctx, const tp_history_session *row) {
  *(size_t *)ctx += row->message_count;
  return true;
}

TEST_WITH(each_allocation_of_a_list_and_a_deletion_may_be_refused, make_directory_in_memory, remove_directory) {
  tp_history *history = open_history();
  tp_history_query all = {.struct_size = sizeof all};
  tp_history_delete request = {.struct_size = sizeof request, .tenant = text_of("acme"), .session = text_of("s")};
  bool reached = true;
  append(history, "s", "hello");
  refuse_ever_after = true;
  for (long n = 0; reached; n += test_refusal_step()) {
    size_t count = 0;
    allocations_left = n;
    tp_status listed = history->list_sessions(history->ctx, &all, count_session, &count, NULL);
    tp_status deleted = history->delete_session(history->ctx, &request, NULL);
    reached = allocations_left <= 0;
    allocations_left = -1;
    if (listed == TP_OK) assert_int_equal(count, 1);
    if (listed != TP_OK) assert_int_equal(listed, TP_ERR_NO_MEMORY);
    if (deleted != TP_OK) assert_int_equal(deleted, TP_ERR_NO_MEMORY);
    assert_loads(history, "acme", "s", deleted == TP_OK ? "" : "hello|"); /* all of it or nothing */
    if (deleted == TP_OK) append(history, "s", "hello");
    assert_true(reached || deleted == TP_OK);
  }
  tp_history_free(history);
}

TEST_MAIN(count, arguments) {
  put_machine_in_place();
  return test_main(count, arguments);
}

/* ---- a copy of the table, of which some functions are a host's ---- */

static tp_status host_append(void *ctx, const tp_history_append *request, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  return TP_OK;
}

static tp_status host_load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  return TP_OK;
}

static void host_append_start(void *ctx, const tp_history_append *request, tp_token token) {
  (void)ctx, (void)request;
  (void)!tp_history_complete(token, TP_OK, NULL, NULL);
}

TEST(a_copy_whose_append_would_not_be_called_is_refused) {
  enum { THEIRS, HOSTS, NONE };
  static const struct {
    int append, append_start, paired, load;
    tp_status status;
  } rows[] = {{THEIRS, THEIRS, THEIRS, THEIRS, TP_OK},       {THEIRS, THEIRS, THEIRS, HOSTS, TP_OK},
              {THEIRS, HOSTS, THEIRS, THEIRS, TP_OK},        {THEIRS, NONE, THEIRS, THEIRS, TP_OK},
              {NONE, THEIRS, THEIRS, THEIRS, TP_OK},         {NONE, THEIRS, NONE, THEIRS, TP_OK},
              {HOSTS, NONE, THEIRS, THEIRS, TP_OK},          {HOSTS, NONE, NONE, THEIRS, TP_OK},
              {HOSTS, HOSTS, HOSTS, HOSTS, TP_OK},           {HOSTS, HOSTS, THEIRS, THEIRS, TP_ERR_USAGE},
              {HOSTS, THEIRS, THEIRS, THEIRS, TP_ERR_USAGE}, {HOSTS, THEIRS, NONE, THEIRS, TP_ERR_USAGE},
              {THEIRS, THEIRS, NONE, THEIRS, TP_ERR_USAGE},  {THEIRS, THEIRS, HOSTS, THEIRS, TP_ERR_USAGE},
              {NONE, NONE, THEIRS, THEIRS, TP_ERR_USAGE}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    tp_history *theirs = open_history(), copy = *theirs;
    tp_shared_history *shared = NULL;
    tp_fault fault = {0};
    if (rows[r].append != THEIRS) copy.append = rows[r].append == HOSTS ? host_append : NULL;
    if (rows[r].append_start != THEIRS) copy.append_start = rows[r].append_start == HOSTS ? host_append_start : NULL;
    if (rows[r].paired != THEIRS) copy.append_paired = rows[r].paired == HOSTS ? host_append : NULL;
    if (rows[r].load == HOSTS) copy.load = host_load;
    tp_status status = tp_history_share(NULL, &copy, &shared, &fault);
    if (status != rows[r].status) fail_msg("row %zu: %s", r, tp_status_text(status));
    if (status == TP_OK) tp_shared_history_unref(shared);
    else assert_non_null(strstr(fault.message, "append_start"));
    if (status != TP_OK) tp_history_free(theirs);
  }
}
