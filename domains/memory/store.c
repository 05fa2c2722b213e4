/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/store.h"

#include <string.h>

#include "domains/memory/database.h"
#include "domains/memory/index.h"
#include "domains/memory/terms.h"
#include "stores/sqlite/database.h"
#include "stores/sqlite/statement.h"

#define MEMORY_COLUMNS                                                                                      \
  "m.id, m.said_ms, ifnull(f.replaced_ms, 0), ifnull(f.replaced_by, 0), m.session, m.turn, m.part, m.text," \
  " ifnull(f.subject, '')"
#define MEMORY_ROWS " FROM memory m LEFT JOIN fact f ON f.memory = m.id"
#define SCOPED_COLUMNS MEMORY_COLUMNS ", s.tenant, s.kind, s.name"
#define SCOPED_FILTER                                                   \
  MEMORY_ROWS                                                           \
  " JOIN scope s ON s.id = m.scope WHERE (?1 IS NULL OR s.tenant = ?1)" \
  " AND (?2 IS NULL OR s.kind = ?2) AND (?3 IS NULL OR s.name = ?3)"

static const char *const sql_texts[TP__MEMORY_SQL_COUNT] = {
    [TP__MEMORY_SQL_ADD_SCOPE] =
        "INSERT INTO scope (tenant, kind, name, memories) VALUES (?1, ?2, ?3, 0) ON CONFLICT DO NOTHING",
    [TP__MEMORY_SQL_FIND_SCOPE] =
        "SELECT id, memories, changes FROM scope WHERE tenant = ?1 AND kind = ?2 AND name = ?3",
    [TP__MEMORY_SQL_PUT] =
        "INSERT INTO memory (scope, session, turn, part, said_ms, asks, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        " ON CONFLICT (scope, session, turn, part) DO UPDATE SET asks = excluded.asks, text = excluded.text"
        " RETURNING id",
    [TP__MEMORY_SQL_GET] = "SELECT " MEMORY_COLUMNS MEMORY_ROWS " WHERE m.id = ?1 AND m.scope = ?2",
    [TP__MEMORY_SQL_NEWEST] =
        "SELECT " MEMORY_COLUMNS MEMORY_ROWS " WHERE m.scope = ?1 AND m.id < ?2 ORDER BY m.id DESC LIMIT ?3",
    [TP__MEMORY_SQL_DELETE] = "DELETE FROM memory WHERE id = ?1 AND scope = ?2 RETURNING id",
    [TP__MEMORY_SQL_LINES] = "SELECT m.id, m.session, m.said_ms, m.text, m.part, f.memory IS NOT NULL" MEMORY_ROWS
                             " WHERE m.scope = ?1 AND m.id > ?2 AND ifnull(f.replaced_ms, 0) = 0 ORDER BY m.id",
    [TP__MEMORY_SQL_NEWER] = "SELECT " SCOPED_COLUMNS SCOPED_FILTER " AND m.id > ?4 ORDER BY m.id LIMIT ?5",
    [TP__MEMORY_SQL_OLDER] = "SELECT " SCOPED_COLUMNS SCOPED_FILTER " AND m.id < ?4 ORDER BY m.id DESC LIMIT ?5",
    [TP__MEMORY_SQL_FIND] = "SELECT " SCOPED_COLUMNS MEMORY_ROWS " JOIN scope s ON s.id = m.scope WHERE m.id = ?1",
    [TP__MEMORY_SQL_SCOPES] =
        "SELECT tenant, kind, name, memories FROM scope WHERE kind <> '' ORDER BY tenant, kind, name",
    [TP__MEMORY_SQL_EMBEDDED] = "SELECT upto FROM embedded WHERE scope = ?1 AND embedder = ?2",
    [TP__MEMORY_SQL_SET_EMBEDDED] = "INSERT OR REPLACE INTO embedded (scope, embedder, upto) VALUES (?1, ?2, ?3)",
    [TP__MEMORY_SQL_WITHOUT_VECTOR] =
        "SELECT " MEMORY_COLUMNS MEMORY_ROWS " WHERE m.scope = ?1 AND m.id > ?2 ORDER BY m.id LIMIT ?3",
    [TP__MEMORY_SQL_PUT_VECTOR] =
        "INSERT OR REPLACE INTO vector (memory, scope, scale, bytes) SELECT id, scope, ?2, ?3 FROM memory WHERE id = ?1"
        " AND text = ?4",
    [TP__MEMORY_SQL_VECTORS] =
        "SELECT memory, scale, bytes FROM vector WHERE scope = ?1 AND memory > ?2 AND memory <= ?3"
        " AND memory NOT IN (SELECT memory FROM fact WHERE scope = ?1 AND replaced_ms > 0) ORDER BY memory LIMIT ?4",
    [TP__MEMORY_SQL_PUT_FACT] =
        "INSERT INTO fact (memory, scope, subject, replaced_ms) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (memory) DO UPDATE SET subject = excluded.subject",
    [TP__MEMORY_SQL_SAME_FACT] =
        "SELECT m.id FROM fact f JOIN memory m ON m.id = f.memory WHERE f.scope = ?1 AND f.replaced_ms = 0"
        " AND m.text = ?2 AND NOT (m.session = ?3 AND m.turn = ?4) LIMIT 1",
    /* the one that was said later holds; of the two ids the first is the older fact's */
    [TP__MEMORY_SQL_REPLACE] =
        "WITH pair AS (SELECT a.id AS a, a.said_ms AS a_ms, b.id AS b, b.said_ms AS b_ms FROM memory a, memory b"
        "  WHERE a.id = ?1 AND b.id = ?2 AND a.scope = ?3 AND b.scope = ?3 AND a.id <> b.id)"
        " UPDATE fact SET replaced_by = (SELECT iif(a_ms <= b_ms, b, a) FROM pair),"
        "  replaced_ms = (SELECT max(a_ms, b_ms) FROM pair)"
        " WHERE memory = (SELECT iif(a_ms <= b_ms, a, b) FROM pair) AND replaced_ms = 0",
    [TP__MEMORY_SQL_FACTS] =
        "SELECT " MEMORY_COLUMNS MEMORY_ROWS " WHERE f.scope = ?1 AND f.replaced_ms = 0 ORDER BY m.id DESC LIMIT ?2",
    [TP__MEMORY_SQL_HISTORY] =
        "WITH RECURSIVE later(id) AS (SELECT replaced_by FROM fact WHERE memory = ?2 AND replaced_by > 0"
        "  UNION SELECT f.replaced_by FROM fact f JOIN later ON f.memory = later.id WHERE f.replaced_by > 0),"
        " earlier(id) AS (VALUES (?2) UNION SELECT f.memory FROM fact f JOIN earlier ON f.replaced_by = earlier.id)"
        " SELECT " MEMORY_COLUMNS MEMORY_ROWS
        " WHERE m.scope = ?1 AND m.id <> ?2 AND (m.id IN (SELECT id FROM later) OR m.id IN (SELECT id FROM earlier))"
        " ORDER BY m.said_ms DESC, m.id DESC LIMIT ?3"};

const char tp__memory_assistant[] = "assistant";

bool tp__memory_is_assistant(tp_text part) { return tp__is_word(part, tp__memory_assistant); }

static int overwrite_copies(tp__memory_store *store);

/* ---- life ---- */

static int prepare_all(tp__memory_connection *c) {
  for (int i = 0; i < TP__MEMORY_SQL_COUNT; i++) {
    int rc = sqlite3_prepare_v3(c->db, sql_texts[i], -1, SQLITE_PREPARE_PERSISTENT, &c->statements[i], NULL);
    if (rc != SQLITE_OK) return rc;
  }
  return SQLITE_OK;
}

static void connection_fini(tp__memory_connection *c) {
  for (int i = 0; i < TP__MEMORY_SQL_COUNT; i++) sqlite3_finalize(c->statements[i]);
  sqlite3_close(c->db);
  tp__lock_fini(&c->mutex);
}

static int make_stemmer(tp__memory_store *store) {
  /* Marks are letters: in Thai and the scripts of India they are vowels. */
  const char *arguments[] = {"unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc"};
  fts5_api *api = NULL;
  void *ctx = NULL;
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(store->reader->db, "SELECT fts5(?1)", -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_bind_pointer(statement, 1, &api, "fts5_api_ptr", NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  int end = sqlite3_finalize(statement);
  if (rc != SQLITE_ROW || !api) return end != SQLITE_OK ? end : rc == SQLITE_ROW ? SQLITE_ERROR : rc;
  rc = api->xFindTokenizer(api, "porter", &ctx, &store->tokenizer);
  if (rc == SQLITE_OK) rc = store->tokenizer.xCreate(ctx, arguments, 5, &store->stemmer);
  return rc;
}

/* A database that is in no file is its connection's: then both are one. */
static tp_status open_connections(tp__memory_store *store, const char *path, tp_fault *fault) {
  tp__memory_connection *c = store->connections;
  store->writer = store->reader = &c[0];
  tp_status status = tp__memory_database_open(path, &c[0].db, fault);
  int rc = status == TP_OK ? prepare_all(&c[0]) : SQLITE_OK;
  if (status == TP_OK && rc == SQLITE_OK && path) {
    store->reader = &c[1];
    status = tp__memory_database_open_reader(path, &c[1].db, fault);
    if (status == TP_OK) rc = prepare_all(&c[1]);
  }
  if (status == TP_OK && rc == SQLITE_OK) rc = make_stemmer(store);
  return rc == SQLITE_OK ? status : tp__sqlite_fail(store->reader->db, path, "prepare", rc, fault);
}

/* One connection: what would write fails with SQLite's own words. */
static tp_status open_read_only(tp__memory_store *store, const char *path, tp_fault *fault) {
  tp__memory_connection *c = store->connections;
  store->writer = store->reader = &c[0];
  tp_status status = tp__memory_database_open_read_only(path, &c[0].db, fault);
  int rc = status == TP_OK ? prepare_all(&c[0]) : SQLITE_OK;
  if (status == TP_OK && rc == SQLITE_OK) rc = make_stemmer(store);
  return rc == SQLITE_OK ? status : tp__sqlite_fail(c[0].db, path, "prepare", rc, fault);
}

static tp_status open_store(const char *path, bool read_only, tp__memory_store **ret_store, tp_fault *fault) {
  tp__memory_store *store = sqlite3_malloc64(sizeof *store);
  if (!store) return tp__sqlite_fail(NULL, path, "open", SQLITE_NOMEM, fault);
  memset(store, 0, sizeof *store);
  store->index_bytes_max = TP__MEMORY_INDEX_BYTES_MAX;
  tp__lock_init(&store->connections[0].mutex, TP__LOCK_memory);
  tp__lock_init(&store->connections[1].mutex, TP__LOCK_memory_read);
  tp_status status = read_only ? open_read_only(store, path, fault) : open_connections(store, path, fault);
  if (status == TP_OK)
    status = tp__group_init(&store->group, &store->writer->mutex, store->writer->db, NULL, !read_only, fault);
  if (status == TP_OK && !read_only)
    (void)overwrite_copies(store); /* of a process that died; where that fails the note stays */
  if (status == TP_OK) *ret_store = store;
  else tp__memory_store_close(store);
  return status;
}

tp_status tp__memory_store_open(const char *path, tp__memory_store **ret_store, tp_fault *fault) {
  return open_store(path, false, ret_store, fault);
}

tp_status tp__memory_store_open_read_only(const char *path, tp__memory_store **ret_store, tp_fault *fault) {
  return open_store(path, true, ret_store, fault);
}

static void close_store(void *ctx) {
  tp__memory_store *store = ctx;
  tp__group_fini(&store->group);
  tp__memory_indexes_free(store);
  if (store->stemmer) store->tokenizer.xDelete(store->stemmer);
  connection_fini(&store->connections[1]);
  connection_fini(&store->connections[0]); /* the last one to close empties the log */
  sqlite3_free(store);
}

void tp__memory_store_close(tp__memory_store *store) {
  if (!store || tp__group_end_later(&store->group, close_store, store)) return;
  close_store(store);
}

/* In WAL mode the file is whole after any crash also without the syncs of commits: those of checkpoints stay. */
tp_status tp__memory_store_make_async(tp__memory_store *store, tp_fault *fault) {
  assert(!store->is_async);
  tp__lock_acquire(&store->writer->mutex);
  int rc = sqlite3_exec(store->writer->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
  tp_status status =
      rc == SQLITE_OK ? TP_OK : tp__sqlite_fail(store->writer->db, NULL, "set up its journal", rc, fault);
  tp__lock_release(&store->writer->mutex);
  store->is_async = status == TP_OK;
  return status;
}

void tp__memory_store_bound_indexes(tp__memory_store *store, size_t bytes_max) {
  assert(bytes_max > 0 && !store->indexes);
  store->index_bytes_max = bytes_max;
}

/* ---- statements ---- */

static int bind_scope(sqlite3_stmt *statement, const tp__memory_scope *scope) {
  int rc = tp__sqlite_bind_text(statement, 1, scope->tenant);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(statement, 2, scope->kind);
  return rc == SQLITE_OK ? tp__sqlite_bind_text(statement, 3, scope->name) : rc;
}

int tp__memory_find_scope_locked(tp__memory_connection *c, const tp__memory_scope *scope,
                                 tp__memory_scope_row *ret_row) {
  TP__LOCKED(&c->mutex);
  sqlite3_stmt *s = c->statements[TP__MEMORY_SQL_FIND_SCOPE];
  int rc = bind_scope(s, scope);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  if (rc == SQLITE_ROW)
    *ret_row =
        (tp__memory_scope_row){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 2)};
  tp__sqlite_release(s);
  return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* ---- lists ---- */

void tp__memory_list_fini(tp__memory_list *list) {
  assert(list->count <= list->capacity);
  for (size_t i = 0; i < list->count; i++) sqlite3_free((char *)list->items[i].session.data);
  sqlite3_free(list->items);
  *list = (tp__memory_list){0};
}

void tp__memory_list_cut(tp__memory_list *list, size_t count) {
  assert(count <= list->count && list->count <= list->capacity);
  while (list->count > count) sqlite3_free((char *)list->items[--list->count].session.data);
}

static int list_grow(tp__memory_list *list) {
  assert(list->count <= list->capacity);
  if (list->count < list->capacity) return SQLITE_OK;
  size_t capacity = list->capacity ? 2 * list->capacity : 16;
  tp__memory *items = sqlite3_realloc64(list->items, capacity * sizeof *items);
  if (!items) return SQLITE_NOMEM;
  list->items = items;
  list->capacity = capacity;
  return SQLITE_OK;
}

tp_text tp__memory_put_text(char **next, tp_text text) {
  char *at = *next;
  if (text.size) memcpy(at, text.data, text.size);
  *next += text.size;
  return (tp_text){at, text.size};
}

/* A row of MEMORY_COLUMNS, or of SCOPED_COLUMNS. The block of the texts begins at the session. */
static int list_add(tp__memory_list *list, sqlite3_stmt *row) {
  enum { FIRST_TEXT = 4, TEXTS_MAX = 8 };
  int count = sqlite3_column_count(row) - FIRST_TEXT;
  tp_text texts[TEXTS_MAX] = {{0}};
  size_t size = 1;
  for (int i = 0; i < count && i < TEXTS_MAX; i++) {
    texts[i] = tp__sqlite_column(row, FIRST_TEXT + i);
    size += texts[i].size;
  }
  char *next = list_grow(list) == SQLITE_OK ? sqlite3_malloc64(size) : NULL;
  if (!next) return SQLITE_NOMEM;
  tp__memory *memory = &list->items[list->count++];
  *memory = (tp__memory){.id = sqlite3_column_int64(row, 0),
                         .said_ms = sqlite3_column_int64(row, 1),
                         .replaced_ms = sqlite3_column_int64(row, 2),
                         .replaced_by = sqlite3_column_int64(row, 3)};
  tp_text *const into[TEXTS_MAX] = {&memory->session, &memory->turn,   &memory->part, &memory->text,
                                    &memory->subject, &memory->tenant, &memory->kind, &memory->name};
  for (int i = 0; i < count && i < TEXTS_MAX; i++) *into[i] = tp__memory_put_text(&next, texts[i]);
  return SQLITE_OK;
}

int tp__memory_list_rows(tp__memory_list *list, sqlite3_stmt *s, int rc) {
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) rc = list_add(list, s);
  tp__sqlite_release(s);
  return rc;
}

/* ---- writing ---- */

static int add_scope_locked(tp__memory_store *store, const tp__memory_scope *scope, int64_t *ret_id) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = store->writer->statements[TP__MEMORY_SQL_ADD_SCOPE];
  int rc = tp__sqlite_run(s, bind_scope(s, scope));
  if (rc != SQLITE_OK) return rc;
  tp__memory_scope_row row = {0};
  rc = tp__memory_find_scope_locked(store->writer, scope, &row);
  if (rc == SQLITE_OK) *ret_id = row.id;
  return rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

static int put_fact_locked(tp__memory_store *store, int64_t scope, int64_t id, const tp__memory *memory) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = store->writer->statements[TP__MEMORY_SQL_PUT_FACT];
  int rc = tp__sqlite_bind_ints(s, (const int64_t[]){id, scope}, 2);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 3, memory->subject);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 4, memory->replaced_ms);
  return tp__sqlite_run(s, rc);
}

int tp__memory_put_locked(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *memory,
                          int64_t *ret_id) {
  TP__LOCKED(&store->writer->mutex);
  assert(memory->turn.data || memory->turn.size == 0);
  sqlite3_stmt *s = store->writer->statements[TP__MEMORY_SQL_PUT];
  int64_t scope_id = 0;
  int rc = add_scope_locked(store, scope, &scope_id);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 1, scope_id);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 2, memory->session);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 3, memory->turn);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 4, memory->part);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 5, memory->said_ms);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int(s, 6, tp__memory_only_asks(memory->text));
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 7, memory->text);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  if (rc == SQLITE_ROW) {
    *ret_id = sqlite3_column_int64(s, 0);
    rc = sqlite3_step(s);
  }
  tp__sqlite_release(s);
  if (rc != SQLITE_DONE) return rc;
  return memory->subject.size ? put_fact_locked(store, scope_id, *ret_id, memory) : SQLITE_OK;
}

tp_status tp__memory_write(tp__memory_store *store, int (*write)(void *ctx), void *ctx) {
  tp__group_work work = {.write = write, .ctx = ctx, .doing = "write"};
  return tp__group_run(&store->group, &work, NULL);
}

/* Of a commit without a sync the write-ahead log is the file that the disk has not got yet. */
static int sync_log(tp__memory_store *store) {
  sqlite3_file *log = NULL;
  tp__lock_acquire(&store->writer->mutex);
  int rc = sqlite3_file_control(store->writer->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (rc == SQLITE_OK && log && log->pMethods) rc = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
  tp__lock_release(&store->writer->mutex);
  return rc;
}

tp_status tp__memory_write_durably(tp__memory_store *store, int (*write)(void *ctx), void *ctx) {
  tp_status status = tp__memory_write(store, write, ctx);
  return status == TP_OK && store->is_async ? tp__sqlite_status(sync_log(store)) : status;
}

typedef struct keeping {
  tp__memory_store *store;
  const tp__memory_scope *scope;
  const tp__memory *memory;
  int64_t id;
} keeping;

static int write_memory(void *ctx) {
  keeping *k = ctx;
  return tp__memory_put_locked(k->store, k->scope, k->memory, &k->id);
}

tp_status tp__memory_put(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *memory,
                         int64_t *ret_id) {
  keeping k = {store, scope, memory, 0};
  tp_status status = tp__memory_write(store, write_memory, &k);
  if (status == TP_OK && ret_id) *ret_id = k.id;
  return status;
}

/* @return SQLITE_DONE when there was nothing to delete. */
static int delete_memory_locked(tp__memory_store *store, const tp__memory_scope *scope, int64_t id) {
  TP__LOCKED(&store->writer->mutex);
  tp__memory_scope_row row = {0};
  int rc = tp__memory_find_scope_locked(store->writer, scope, &row);
  if (rc != SQLITE_OK) return rc;
  sqlite3_stmt *s = store->writer->statements[TP__MEMORY_SQL_DELETE];
  bool found = false;
  rc = tp__sqlite_bind_ints(s, (const int64_t[]){id, row.id}, 2);
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    found = true;
    rc = SQLITE_OK;
  }
  tp__sqlite_release(s);
  return rc == SQLITE_DONE && found ? SQLITE_OK : rc;
}

/* In the transaction that deletes, so that no crash leaves copies that nothing tells of. The note counts deletions: a
 * process that overwrites does not take away the note of another one that has deleted meanwhile. */
static int note_copies_locked(tp__memory_store *store) {
  TP__LOCKED(&store->writer->mutex);
  static const char sql[] = "INSERT INTO embedded VALUES (-1, '', 1) ON CONFLICT (scope) DO UPDATE SET upto = upto + 1";
  return sqlite3_exec(store->writer->db, sql, NULL, NULL, NULL);
}

/* Moves the write-ahead log into the file and empties it. @return SQLITE_BUSY when another process reads. */
static int truncate_log_locked(tp__memory_store *store) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(store->writer->db, "PRAGMA wal_checkpoint(TRUNCATE)", -1, &s, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  bool busy = rc == SQLITE_ROW && sqlite3_column_int(s, 0) != 0;
  int end = sqlite3_finalize(s);
  if (rc != SQLITE_ROW) return rc;
  return busy ? SQLITE_BUSY : end;
}

typedef struct forgetting {
  tp__memory_store *store;
  const tp__memory_scope *scope;
  int64_t id;
  bool was_there;
} forgetting;

static int write_forgetting(void *ctx) {
  forgetting *f = ctx;
  int rc = delete_memory_locked(f->store, f->scope, f->id);
  f->was_there = rc == SQLITE_OK;
  if (rc == SQLITE_DONE) return SQLITE_OK;
  return rc == SQLITE_OK ? note_copies_locked(f->store) : rc;
}

/* SQLite overwrites what it deletes, but where it moved rows between pages copies may have stayed: the file is written
 * anew. Nothing is done where no deletion has left copies. */
static int overwrite_copies_locked(tp__memory_store *store) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3 *db = store->writer->db;
  int64_t note = 0;
  int rc = tp__sqlite_once(db, "SELECT upto FROM embedded WHERE scope = -1", NULL, 0, &note);
  if (rc != SQLITE_OK || !note) return rc;
  rc = sqlite3_exec(db, "VACUUM", NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = truncate_log_locked(store);
  return rc == SQLITE_OK ? tp__sqlite_once(db, "DELETE FROM embedded WHERE scope = -1 AND upto = ?1", &note, 1, NULL)
                         : rc;
}

/* After what was deleted is committed. */
static int overwrite_copies(tp__memory_store *store) {
  assert(store->writer && store->reader);
  if (store->reader != store->writer) tp__lock_acquire(&store->reader->mutex); /* no snapshot of ours keeps the log */
  tp__lock_acquire(&store->writer->mutex);
  int rc = overwrite_copies_locked(store);
  tp__lock_release(&store->writer->mutex);
  if (store->reader != store->writer) tp__lock_release(&store->reader->mutex);
  return rc;
}

tp_status tp__memory_forget(tp__memory_store *store, const tp__memory_scope *scope, int64_t id) {
  forgetting f = {store, scope, id, false};
  tp_status status = tp__memory_write_durably(store, write_forgetting, &f);
  if (status != TP_OK) return status;
  int copies = overwrite_copies(store);
  return f.was_there || copies != SQLITE_OK ? tp__sqlite_status(copies) : TP_ERR_NOT_FOUND;
}

typedef struct forgetting_all {
  tp__memory_store *store;
  const int64_t *ids;
  size_t count, forgotten;
} forgetting_all;

/* Of scopes that are empty: a tenant's name is a person's. The row stays, so that its id is never another scope's: an
 * index in the memory of a process may still be of it. */
static const char forget_names_sql[] =
    "UPDATE scope SET tenant = '', kind = '', name = CAST(id AS TEXT), changes = changes + 1"
    " WHERE memories = 0 AND kind <> ''";

static int write_forgetting_all(void *ctx) {
  forgetting_all *f = ctx;
  sqlite3 *db = f->store->writer->db;
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(db, "DELETE FROM memory WHERE id = ?1", -1, &s, NULL);
  f->forgotten = 0;
  for (size_t i = 0; i < f->count && rc == SQLITE_OK; i++) {
    rc = tp__sqlite_run(s, tp__sqlite_bind_ints(s, &f->ids[i], 1));
    if (rc == SQLITE_OK && sqlite3_changes(db) > 0) f->forgotten++;
  }
  sqlite3_finalize(s);
  if (rc != SQLITE_OK || f->forgotten == 0) return rc;
  rc = sqlite3_exec(db, forget_names_sql, NULL, NULL, NULL);
  return rc == SQLITE_OK ? note_copies_locked(f->store) : rc;
}

tp_status tp__memory_forget_all(tp__memory_store *store, const int64_t *ids, size_t count, size_t *ret_count) {
  assert(store && (ids || count == 0));
  forgetting_all f = {store, ids, count, 0};
  tp_status status = tp__memory_write(store, write_forgetting_all, &f);
  if (ret_count) *ret_count = status == TP_OK ? f.forgotten : 0;
  return status == TP_OK ? tp__sqlite_status(overwrite_copies(store)) : status;
}

typedef struct importing {
  tp__memory_store *store;
  const tp__memory *memories;
  size_t count;
} importing;

static int write_all_of(void *ctx) {
  const importing *all = ctx;
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < all->count; i++) {
    const tp__memory *memory = &all->memories[i];
    tp__memory_scope scope = {memory->tenant, memory->kind, memory->name};
    int64_t id;
    rc = tp__memory_put_locked(all->store, &scope, memory, &id);
  }
  return rc;
}

tp_status tp__memory_put_all(tp__memory_store *store, const tp__memory *memories, size_t count) {
  importing all = {store, memories, count};
  return tp__memory_write(store, write_all_of, &all);
}

/* ---- reading ---- */

int tp__memory_read_locked(tp__memory_store *store, int64_t scope, int64_t id, tp__memory_list *list) {
  TP__LOCKED(&store->reader->mutex);
  assert(scope > 0);
  sqlite3_stmt *s = store->reader->statements[TP__MEMORY_SQL_GET];
  int rc = tp__sqlite_bind_ints(s, (const int64_t[]){id, scope}, 2);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  if (rc == SQLITE_ROW) rc = list_add(list, s);
  tp__sqlite_release(s);
  return rc;
}

tp_status tp__memory_get(tp__memory_store *store, const tp__memory_scope *scope, int64_t id, tp__memory_list *list) {
  tp__memory_scope_row row = {0};
  tp__lock_acquire(&store->reader->mutex);
  int rc = tp__memory_find_scope_locked(store->reader, scope, &row);
  if (rc == SQLITE_OK) rc = tp__memory_read_locked(store, row.id, id, list);
  tp__lock_release(&store->reader->mutex);
  return rc == SQLITE_DONE ? TP_ERR_NOT_FOUND : tp__sqlite_status(rc);
}

/* The end of a use of the store that adds to a list: what could not be added whole is taken back. */
static tp_status listed(tp__memory_store *store, tp__memory_list *list, size_t count_before, int rc) {
  tp__lock_release(&store->reader->mutex);
  tp_status status = tp__sqlite_status(rc);
  if (status != TP_OK) tp__memory_list_cut(list, count_before);
  return status;
}

tp_status tp__memory_list_scope(tp__memory_store *store, const tp__memory_scope *scope, tp__memory_sql sql,
                                const int64_t *values, int value_count, tp__memory_list *list) {
  assert(sql < TP__MEMORY_SQL_COUNT && value_count >= 0);
  sqlite3_stmt *s = store->reader->statements[sql];
  tp__memory_scope_row row = {0};
  size_t count = list->count;
  tp__lock_acquire(&store->reader->mutex);
  int rc = tp__memory_find_scope_locked(store->reader, scope, &row);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 1, row.id);
  for (int i = 0; rc == SQLITE_OK && i < value_count; i++) rc = sqlite3_bind_int64(s, i + 2, values[i]);
  return listed(store, list, count, tp__memory_list_rows(list, s, rc));
}

tp_status tp__memory_newest(tp__memory_store *store, const tp__memory_scope *scope, int64_t before, size_t limit,
                            tp__memory_list *list) {
  const int64_t values[] = {before > 0 ? before : INT64_MAX, (int64_t)limit};
  return tp__memory_list_scope(store, scope, TP__MEMORY_SQL_NEWEST, values, 2, list);
}

/* ---- over all scopes ---- */

static int bind_filter(sqlite3_stmt *s, const tp__memory_filter *filter) {
  const char *const texts[] = {filter->tenant, filter->kind, filter->name};
  int rc = SQLITE_OK;
  for (int i = 0; rc == SQLITE_OK && i < 3; i++) rc = sqlite3_bind_text(s, i + 1, texts[i], -1, SQLITE_STATIC);
  return rc;
}

static int page_locked(tp__memory_store *store, const tp__memory_filter *filter, int64_t beyond, bool oldest_first,
                       size_t limit, tp__memory_list *list) {
  TP__LOCKED(&store->reader->mutex);
  sqlite3_stmt *s = store->reader->statements[oldest_first ? TP__MEMORY_SQL_NEWER : TP__MEMORY_SQL_OLDER];
  int rc = bind_filter(s, filter);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 4, beyond || oldest_first ? beyond : INT64_MAX);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 5, (int64_t)limit);
  return tp__memory_list_rows(list, s, rc);
}

tp_status tp__memory_page(tp__memory_store *store, const tp__memory_filter *filter, int64_t beyond, bool oldest_first,
                          size_t limit, tp__memory_list *list) {
  size_t count = list->count;
  tp__lock_acquire(&store->reader->mutex);
  return listed(store, list, count, page_locked(store, filter, beyond, oldest_first, limit, list));
}

tp_status tp__memory_find(tp__memory_store *store, int64_t id, tp__memory_list *list) {
  tp__lock_acquire(&store->reader->mutex);
  sqlite3_stmt *s = store->reader->statements[TP__MEMORY_SQL_FIND];
  int rc = sqlite3_bind_int64(s, 1, id);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  if (rc == SQLITE_ROW) rc = list_add(list, s);
  tp__sqlite_release(s);
  tp__lock_release(&store->reader->mutex);
  return rc == SQLITE_DONE ? TP_ERR_NOT_FOUND : tp__sqlite_status(rc);
}

static int scopes_locked(tp__memory_store *store, tp__memory_list *list) {
  TP__LOCKED(&store->reader->mutex);
  sqlite3_stmt *s = store->reader->statements[TP__MEMORY_SQL_SCOPES];
  int rc = SQLITE_OK;
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    tp_text texts[3] = {tp__sqlite_column(s, 0), tp__sqlite_column(s, 1), tp__sqlite_column(s, 2)};
    char *next =
        list_grow(list) == SQLITE_OK ? sqlite3_malloc64(texts[0].size + texts[1].size + texts[2].size + 1) : NULL;
    rc = next ? SQLITE_OK : SQLITE_NOMEM;
    if (rc != SQLITE_OK) break;
    tp__memory *scope = &list->items[list->count++];
    *scope = (tp__memory){.id = sqlite3_column_int64(s, 3), .session = {next, 0}}; /* the block begins there */
    scope->tenant = tp__memory_put_text(&next, texts[0]);
    scope->kind = tp__memory_put_text(&next, texts[1]);
    scope->name = tp__memory_put_text(&next, texts[2]);
  }
  tp__sqlite_release(s);
  return rc;
}

tp_status tp__memory_scopes(tp__memory_store *store, tp__memory_list *list) {
  size_t count = list->count;
  tp__lock_acquire(&store->reader->mutex);
  return listed(store, list, count, scopes_locked(store, list));
}
