/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that must be on the disk when its function returns: threads that wait at the same time share one commit,
 * whatever they write into the file of a store or of a memory. No reader of a memory waits for a commit. */
#include <sched.h>
#include <sqlite3.h>

#include "tests/support/test.h"
#include "domains/memory/facts.h"
#include "domains/memory/recall.h"
#include "domains/memory/sqlite.h"
#include "domains/memory/store_internal.h"
#include "domains/memory/vectors.h"
#include "stores/sqlite/sqlite.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"

enum { WRITERS = 6 };

static const tp__memory_scope home = {.tenant = TEXT("acme"), .kind = TEXT("workspace"), .name = TEXT("home")};

typedef struct files {
  tp_store *store;
  tp__memory_store *memory;
  struct writer {
    struct files *files;
    tp_status (*run)(struct writer *w);
    char name[16];
    uint64_t id, claim; /* of its job or tool call; the id of its memory */
    tp_status status;
  } writers[WRITERS];
  int commits;
} files;

static tp_text name_of(const struct writer *w) { return tp_text_of(w->name); }

/* ---- each writer's own rows: one function prepares them, another one is measured ---- */

static tp_status insert_job(struct writer *w) {
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1,
                .inserted_ms = 1,
                .handler = TEXT("mailer"),
                .idempotency_key = name_of(w),
                .order_key = name_of(w)};
  bool existed;
  return w->files->store->job_insert(w->files->store->ctx, &job, &w->id, &existed, NULL);
}

static void note_claim(void *ctx, const tp_job *job) {
  struct writer *w = ctx;
  w->id = job->id;
  w->claim = job->claim;
}

static tp_status claim_job(struct writer *w) {
  tp_job_claim request = {.struct_size = sizeof request, .now_ms = 2, .lease_ms = 60000, .take = note_claim, .ctx = w};
  int64_t next_ms;
  tp_status status = insert_job(w);
  return status == TP_OK ? w->files->store->job_claim(w->files->store->ctx, &request, &next_ms, NULL) : status;
}

static tp_status renew_job(struct writer *w) {
  tp_job_renew request = {
      .struct_size = sizeof request, .id = w->id, .claim = w->claim, .now_ms = 3, .lease_ms = 60000};
  return w->files->store->job_renew(w->files->store->ctx, &request, NULL);
}

static tp_status end_job(struct writer *w) {
  tp_job_finish request = {
      .struct_size = sizeof request, .id = w->id, .claim = w->claim, .now_ms = 4, .end = TP_JOB_END_FAILED};
  uint32_t state;
  return w->files->store->job_finish(w->files->store->ctx, &request, &state, NULL);
}

static tp_status make_dead_letter(struct writer *w) {
  tp_status status = claim_job(w);
  return status == TP_OK ? end_job(w) : status;
}

static tp_status redrive_job(struct writer *w) {
  return w->files->store->job_redrive(w->files->store->ctx, w->id, 5, NULL);
}

static tp_status discard_job(struct writer *w) {
  return w->files->store->job_discard(w->files->store->ctx, w->id, 5, NULL);
}

static void refuse_earlier(void *ctx, const tp_tool_end_record *earlier) {
  (void)earlier;
  ((struct writer *)ctx)->status = TP_ERR_EXISTS;
}

static tp_status start_tool(struct writer *w) {
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = name_of(w)};
  tp_tool_start_record start = {.struct_size = sizeof start,
                                .process_run_id = 1,
                                .turn_number = 1,
                                .started_unix_ms = 1,
                                .ids = ids,
                                .id_count = TP_ID_COUNT,
                                .tool = TEXT("pay")};
  return w->files->store->tool_start(w->files->store->ctx, &start, &w->id, refuse_earlier, w, NULL);
}

static tp_status end_tool(struct writer *w) {
  tp_tool_end_record end = {.struct_size = sizeof end, .start_id = w->id, .text = TEXT("paid")};
  return w->files->store->tool_end(w->files->store->ctx, &end, NULL);
}

static tp_status put_task(struct writer *w) {
  tp_task_record task = {.struct_size = sizeof task, .created_unix_ms = 1, .key = name_of(w), .tool = TEXT("pay")};
  return w->files->store->task_put(w->files->store->ctx, &task, NULL);
}

static void take_nothing(void *ctx, const tp_task_record *record) {
  (void)ctx;
  (void)record;
}

static tp_status take_task(struct writer *w) {
  return w->files->store->task_take(w->files->store->ctx, name_of(w), take_nothing, NULL, NULL);
}

static tp_status settle_task(struct writer *w) {
  return w->files->store->task_settle(w->files->store->ctx, name_of(w), false, NULL);
}

static tp__memory memory_of(const struct writer *w) {
  return (tp__memory){.said_ms = 1,
                      .session = name_of(w),
                      .turn = name_of(w),
                      .text = name_of(w),
                      .tenant = home.tenant,
                      .kind = home.kind,
                      .name = name_of(w)};
}

/* A scope of its own for each, which has vectors of its own. */
static tp__memory_scope scope_of(const struct writer *w) {
  return (tp__memory_scope){home.tenant, home.kind, name_of(w)};
}

static tp_status keep_memory(struct writer *w) {
  tp__memory memory = memory_of(w);
  tp__memory_scope scope = scope_of(w);
  int64_t id = 0;
  tp_status status = tp__memory_put(w->files->memory, &scope, &memory, &id);
  w->id = (uint64_t)id;
  return status;
}

static tp_status import_memory(struct writer *w) {
  tp__memory memory = memory_of(w);
  return tp__memory_put_all(w->files->memory, &memory, 1);
}

static tp_status keep_fact(struct writer *w) {
  tp__memory said = memory_of(w);
  tp__memory_scope scope = scope_of(w);
  tp__memory_facts facts = {.count = 1};
  size_t kept;
  facts.items[0] = (tp__memory_fact){.subject = TEXT("Ada"), .statement = name_of(w)};
  tp_status status = tp__memory_facts_put(w->files->memory, &scope, &said, &facts, &kept);
  return status == TP_OK && kept != 1 ? TP_ERR_INTERNAL : status;
}

static tp_status forget_memory(struct writer *w) {
  tp__memory_scope scope = scope_of(w);
  return tp__memory_forget(w->files->memory, &scope, (int64_t)w->id);
}

static tp_status embed_ones(void *ctx, const tp_memory_embed_request *request, float *ret_vectors) {
  (void)ctx;
  for (size_t i = 0; i < request->text_count * request->dimensions; i++) ret_vectors[i] = 1;
  return TP_OK;
}

static bool never(const void *ctx) {
  (void)ctx;
  return false;
}

static const tp_memory_embedder embedder = {
    .struct_size = sizeof embedder, .name = "test", .embed = embed_ones, .dimensions = 4, .batch_max = 8};

static tp_status make_vectors(struct writer *w) {
  const tp__memory_embed_work work = {.cancelled = never};
  tp__memory_scope scope = scope_of(w);
  return tp__memory_embed_missing(w->files->memory, &scope, &embedder, &work);
}

static const struct row {
  const char *name;
  tp_status (*prepare)(struct writer *w), (*run)(struct writer *w);
  bool in_memory;
} rows[] = {{"insert a job", NULL, insert_job, false},         {"renew a job", claim_job, renew_job, false},
            {"end a job", claim_job, end_job, false},          {"redrive a job", make_dead_letter, redrive_job, false},
            {"discard a job", insert_job, discard_job, false}, {"start a tool", NULL, start_tool, false},
            {"end a tool", start_tool, end_tool, false},       {"put a task", NULL, put_task, false},
            {"take a task", put_task, take_task, false},       {"settle a task", put_task, settle_task, false},
            {"keep a memory", NULL, keep_memory, true},        {"import a memory", NULL, import_memory, true},
            {"keep a fact", keep_memory, keep_fact, true},     {"forget a memory", keep_memory, forget_memory, true},
            {"make vectors", keep_memory, make_vectors, true}};

/* ---- the test ---- */

static char memory_path[sizeof path + 8];

static void open_files(files *f) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  *f = (files){.commits = 0};
  unlink(path);
  unlink(memory_path);
  assert_int_equal(tp_sqlite_store_open(&options, &f->store, NULL), TP_OK);
  snprintf(memory_path, sizeof memory_path, "%s-memory", path);
  assert_int_equal(tp__memory_store_open(memory_path, &f->memory, NULL), TP_OK);
}

static void close_files(files *f) {
  f->store->destroy(f->store->ctx);
  tp__memory_store_close(f->memory);
}

static int count_commit(void *ctx) {
  ++*(int *)ctx;
  return 0;
}

static void *run_writer(void *ctx) {
  struct writer *w = ctx;
  tp_status status = w->run(w);
  if (status != TP_OK) w->status = status;
  return NULL;
}

static size_t waiting_works(tp__group *group) {
  size_t count = 0;
  tp__lock_acquire(&group->mutex);
  for (const tp__group_work *work = group->first; work; work = work->next) count++;
  tp__lock_release(&group->mutex);
  return count;
}

/* The connection is held until all of them wait. */
static void write_at_once(files *f, const struct row *row) {
  tp__sqlite_store *s = tp__sqlite_store_of(f->store);
  tp__group *group = row->in_memory ? tp__memory_sqlite_group(&f->memory->rows) : &s->group;
  pthread_t threads[WRITERS];
  tp__lock_acquire(group->connection);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_writer, &f->writers[i]), 0);
  while (waiting_works(group) < WRITERS) sched_yield();
  sqlite3_commit_hook(group->db, count_commit, &f->commits);
  tp__lock_release(group->connection);
  for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
}

FOR_EACH_TEST(make_directory_in_memory, remove_directory);

TEST(threads_that_write_at_once_share_a_commit_whatever_they_write) {
  for (size_t r = 0; r < COUNT(rows); r++) {
    files f;
    open_files(&f);
    for (int i = 0; i < WRITERS; i++) {
      struct writer *w = &f.writers[i];
      w->files = &f;
      w->run = rows[r].run;
      snprintf(w->name, sizeof w->name, "writer-%d", i);
      if (rows[r].prepare) assert_int_equal(rows[r].prepare(w), TP_OK);
    }
    write_at_once(&f, &rows[r]);
    for (int i = 0; i < WRITERS; i++)
      if (f.writers[i].status != TP_OK) fail_msg("%s: %s", rows[r].name, tp_status_text(f.writers[i].status));
    int expected = rows[r].run == forget_memory ? 2 : 1; /* all deletions, and then that no copies are left */
    if (f.commits != expected) fail_msg("%s: %d commits for %d writers", rows[r].name, f.commits, WRITERS);
    close_files(&f);
  }
}

/* ---- reading meanwhile ---- */

static const float direction[4] = {1, 0, 0, 0};

static tp_status recall(struct writer *w, tp__memory_list *list) {
  tp__memory_scope scope = scope_of(w);
  return tp__memory_recall(w->files->memory, &scope, name_of(w), 8, list);
}

static tp_status recall_fused(struct writer *w, tp__memory_list *list) {
  tp__memory_scope scope = scope_of(w);
  return tp__memory_recall_fused(w->files->memory, &scope, &(tp__memory_question){.text = name_of(w)}, &embedder,
                                 direction, 8, list);
}

static tp_status get(struct writer *w, tp__memory_list *list) {
  tp__memory_scope scope = scope_of(w);
  return tp__memory_get(w->files->memory, &scope, (int64_t)w->id, list);
}

static tp_status newest(struct writer *w, tp__memory_list *list) {
  tp__memory_scope scope = scope_of(w);
  return tp__memory_newest(w->files->memory, &scope, 0, 8, list);
}

static tp_status page(struct writer *w, tp__memory_list *list) {
  const tp__memory_filter all = {NULL, NULL, NULL};
  return tp__memory_page(w->files->memory, &all, 0, true, 8, list);
}

static tp_status find(struct writer *w, tp__memory_list *list) {
  return tp__memory_find(w->files->memory, (int64_t)w->id, list);
}

static tp_status scopes(struct writer *w, tp__memory_list *list) { return tp__memory_scopes(w->files->memory, list); }

static tp_status facts_known(struct writer *w, tp__memory_list *list) {
  tp__memory_scope scope = scope_of(w);
  tp_status status = tp__memory_facts_known(w->files->memory, &scope, name_of(w), list);
  return status == TP_OK && list->count == 0 ? find(w, list) : status; /* it has no facts */
}

static tp_status facts_history(struct writer *w, tp__memory_list *list) {
  tp__memory_scope scope = scope_of(w);
  tp_status status = tp__memory_facts_history(w->files->memory, &scope, (int64_t)w->id, list);
  return status == TP_OK && list->count == 0 ? find(w, list) : status;
}

static tp_status read_facts(struct writer *w, tp__memory_list *list) {
  tp__memory_facts facts;
  const tp_text answer = TEXT("{\"facts\": []}");
  tp_status status = tp__memory_facts_read(w->files->memory, answer, name_of(w), list, &facts);
  if (status == TP_OK) tp__memory_facts_fini(&facts);
  return status == TP_OK ? find(w, list) : status;
}

static const struct reading {
  const char *name;
  tp_status (*read)(struct writer *w, tp__memory_list *list);
} readings[] = {{"recall", recall},
                {"recall by vectors", recall_fused},
                {"get", get},
                {"newest", newest},
                {"page", page},
                {"find", find},
                {"scopes", scopes},
                {"known facts", facts_known},
                {"history of a fact", facts_history},
                {"facts of an answer", read_facts}};

typedef struct commit {
  tp__memory_store *memory;
  latch begun, may_end;
  tp_status status;
} commit;

static int wait_in_transaction(void *ctx) {
  commit *c = ctx;
  latch_hit(&c->begun);
  latch_wait(&c->may_end, 1);
  return SQLITE_OK;
}

static void *run_commit(void *ctx) {
  commit *c = ctx;
  tp__group_work work = {.write = wait_in_transaction, .ctx = c, .doing = "wait"};
  c->status = tp__group_run(tp__memory_sqlite_group(&c->memory->rows), &work, NULL);
  return NULL;
}

/* One that writes has its connection until the disk has what it wrote. */
TEST(what_reads_a_memory_waits_for_no_commit) {
  files f;
  open_files(&f);
  struct writer *w = &f.writers[0];
  commit c = {.memory = f.memory, .begun = LATCH, .may_end = LATCH};
  pthread_t thread;
  w->files = &f;
  snprintf(w->name, sizeof w->name, "violin");
  assert_int_equal(keep_memory(w), TP_OK);
  assert_int_equal(pthread_create(&thread, NULL, run_commit, &c), 0);
  latch_wait(&c.begun, 1);
  for (size_t r = 0; r < COUNT(readings); r++) {
    tp__memory_list list = {0};
    tp_status status = readings[r].read(w, &list);
    if (status != TP_OK || list.count != 1)
      fail_msg("%s: %zu memories, %s", readings[r].name, list.count, tp_status_text(status));
    tp__memory_list_fini(&list);
  }
  latch_hit(&c.may_end);
  pthread_join(thread, NULL);
  assert_int_equal(c.status, TP_OK);
  close_files(&f);
}

/* ---- jobs by one call ---- */

static void note_claim_of_its_writer(void *ctx, const tp_job *job) {
  files *f = ctx;
  for (size_t i = 0; i < WRITERS; i++)
    if (tp_text_equal(name_of(&f->writers[i]), job->order_key)) note_claim(&f->writers[i], job);
}

TEST(jobs_that_are_claimed_or_ended_by_one_call_are_one_commit) {
  files f;
  open_files(&f);
  tp_job_finish requests[WRITERS];
  const tp_job_finish *list[WRITERS];
  uint32_t states[WRITERS];
  tp_status statuses[WRITERS];
  for (size_t i = 0; i < WRITERS; i++) {
    f.writers[i].files = &f;
    snprintf(f.writers[i].name, sizeof f.writers[i].name, "job%zu", i);
    assert_int_equal(insert_job(&f.writers[i]), TP_OK);
  }
  sqlite3_commit_hook(((tp__sqlite_store *)f.store->ctx)->db, count_commit, &f.commits);
  tp_job_claim claim = {.struct_size = sizeof claim,
                        .now_ms = 2,
                        .lease_ms = 60000,
                        .take = note_claim_of_its_writer,
                        .ctx = &f,
                        .count_max = 2 * WRITERS};
  int64_t next_ms;
  assert_int_equal(f.store->job_claim(f.store->ctx, &claim, &next_ms, NULL), TP_OK);
  assert_int_equal(f.commits, 1);
  for (size_t i = 0; i < WRITERS; i++) {
    assert_true(f.writers[i].claim > 0);
    requests[i] = (tp_job_finish){.struct_size = sizeof requests[i],
                                  .id = f.writers[i].id,
                                  .claim = f.writers[i].claim,
                                  .now_ms = 3,
                                  .end = TP_JOB_END_SUCCEEDED};
    list[i] = &requests[i];
  }
  assert_int_equal(f.store->job_finish_all(f.store->ctx, list, WRITERS, states, statuses, NULL), TP_OK);
  assert_int_equal(f.commits, 2);
  for (size_t i = 0; i < WRITERS; i++) assert_true(statuses[i] == TP_OK && states[i] == TP_JOB_SUCCEEDED);
  close_files(&f);
}

/* The last two find the store full. */
TEST(jobs_that_are_inserted_by_one_call_are_one_commit) {
  enum { SPACE = WRITERS - 2 };
  files f;
  tp_job jobs[WRITERS];
  const tp_job *list[WRITERS];
  uint64_t ids[WRITERS];
  bool existed[WRITERS];
  tp_status statuses[WRITERS];
  open_files(&f);
  tp__sqlite_store *store = f.store->ctx;
  store->options.jobs_max = SPACE;
  for (size_t i = 0; i < WRITERS; i++) {
    snprintf(f.writers[i].name, sizeof f.writers[i].name, "job%zu", i);
    jobs[i] = (tp_job){.struct_size = sizeof jobs[i],
                       .attempts_max = 1,
                       .inserted_ms = 1,
                       .handler = TEXT("mailer"),
                       .idempotency_key = name_of(&f.writers[i]),
                       .order_key = name_of(&f.writers[i])};
    list[i] = &jobs[i];
  }
  sqlite3_commit_hook(store->db, count_commit, &f.commits);
  assert_int_equal(f.store->job_insert_all(f.store->ctx, list, WRITERS, ids, existed, statuses, NULL), TP_OK);
  assert_int_equal(f.commits, 1);
  for (size_t i = 0; i < WRITERS; i++) {
    assert_int_equal(statuses[i], i < SPACE ? TP_OK : TP_ERR_FULL);
    assert_false(existed[i]);
    if (i > 0 && i < SPACE) assert_true(ids[i] > ids[i - 1]);
  }
  close_files(&f);
}

/* ---- a memory that does not wait ---- */

static int log_syncs;
static const sqlite3_io_methods *real_methods;

static int count_sync(sqlite3_file *file, int flags) {
  log_syncs++;
  return real_methods->xSync(file, flags);
}

static void count_log_syncs(tp__memory_store *memory) {
  static sqlite3_io_methods methods;
  sqlite3_file *log = NULL;
  assert_int_equal(
      sqlite3_file_control(tp__memory_sqlite_group(&memory->rows)->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log),
      SQLITE_OK);
  real_methods = log->pMethods;
  methods = *real_methods;
  methods.xSync = count_sync;
  log->pMethods = &methods;
  log_syncs = 0;
}

/* The reader keeps the log in use, so no checkpoint does the sync of the deletion: everything up to the reader's state
 * is moved. */
static void forget_while_another_one_reads(struct writer *w) {
  sqlite3 *reader = NULL, *other = NULL;
  assert_int_equal(keep_memory(w), TP_OK);
  assert_int_equal(sqlite3_open(memory_path, &reader), SQLITE_OK);
  assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM memory", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_open(memory_path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "PRAGMA wal_checkpoint", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(other);
  log_syncs = 0;
  assert_int_equal(forget_memory(w), TP_ERR_STORE_BUSY);
  assert_true(log_syncs >= 1);
  sqlite3_close(reader);
}

TEST(async_memory_is_synced_when_something_is_deleted_and_else_by_no_write) {
  for (int is_async = 0; is_async < 2; is_async++) {
    files f;
    open_files(&f);
    struct writer *w = &f.writers[0];
    w->files = &f;
    snprintf(w->name, sizeof w->name, "violin %d", is_async);
    assert_int_equal(keep_memory(w), TP_OK); /* the log is there */
    if (is_async) assert_int_equal(tp__memory_store_make_async(f.memory, NULL), TP_OK);
    count_log_syncs(f.memory);
    for (int i = 0; i < 3; i++) assert_int_equal(keep_memory(w), TP_OK);
    assert_int_equal(import_memory(w), TP_OK);
    assert_int_equal(log_syncs, is_async ? 0 : 4);
    log_syncs = 0;
    assert_int_equal(forget_memory(w), TP_OK);
    assert_true(log_syncs >= 1);
    assert_int_equal(keep_memory(w), TP_OK);
    log_syncs = 0;
    assert_int_equal(tp__memory_forget_all(f.memory, (int64_t[]){(int64_t)w->id}, 1, NULL), TP_OK);
    assert_true(log_syncs >= 1);
    forget_while_another_one_reads(w);
    close_files(&f);
  }
}
