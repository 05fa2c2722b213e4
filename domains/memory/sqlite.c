/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/sqlite.h"

#include <string.h>

#include "domains/memory/database.h"
#include "domains/memory/terms.h"
#include "stores/sqlite/statement.h"

/* ---- statements ---- */

/** The prepared statements. */
typedef enum sql_number {
  SQL_ADD_SCOPE,
  SQL_FIND_SCOPE,
  SQL_PUT,
  SQL_FIND_KEPT,
  SQL_GET,
  SQL_NEWEST,
  SQL_LINES,
  SQL_NEWER,
  SQL_OLDER,
  SQL_FIND,
  SQL_SCOPES,
  SQL_EMBEDDED,
  SQL_SET_EMBEDDED,
  SQL_WITHOUT_VECTOR,
  SQL_PUT_VECTOR,
  SQL_VECTORS,
  SQL_PUT_FACT,
  SQL_SAME_FACT,
  SQL_REPLACE,
  SQL_FACTS,
  SQL_HISTORY,
  SQL_COUNT
} sql_number;

/** A connection with its statements, which one thread uses at a time. */
typedef struct connection {
  tp__lock mutex;
  /* ---- under mutex */
  sqlite3 *db;
  sqlite3_stmt *statements[SQL_COUNT];
} connection;

struct tp__memory_sqlite {
  connection connections[2];
  /* never changes after open */
  connection *writer;
  connection *reader; /* a second connection, so that no recall waits for a sync; the writer itself when the memory is
                         in no file */
  bool is_async;      /* set when a commit syncs nothing */
  tp__group group;    /* groups the writes; it has a thread, unless the store is read-only */
};

/** The row of a scope in the file. */
typedef struct scope_row {
  int64_t id;
  int64_t memories;
  int64_t changes; /* how many of its memories were changed or deleted so far */
} scope_row;

#define MEMORY_COLUMNS                                                                                      \
  "m.id, m.said_ms, ifnull(f.replaced_ms, 0), ifnull(f.replaced_by, 0), m.session, m.turn, m.part, m.text," \
  " ifnull(f.subject, '')"
#define MEMORY_ROWS " FROM memory m LEFT JOIN fact f ON f.memory = m.id"
#define SCOPED_COLUMNS MEMORY_COLUMNS ", s.tenant, s.kind, s.name"
#define SCOPED_FILTER                                                   \
  MEMORY_ROWS                                                           \
  " JOIN scope s ON s.id = m.scope WHERE (?1 IS NULL OR s.tenant = ?1)" \
  " AND (?2 IS NULL OR s.kind = ?2) AND (?3 IS NULL OR s.name = ?3)"

static const char *const sql_texts[SQL_COUNT] = {
    [SQL_ADD_SCOPE] = "INSERT INTO scope (tenant, kind, name, memories) VALUES (?1, ?2, ?3, 0)",
    [SQL_FIND_SCOPE] = "SELECT id, memories, changes FROM scope WHERE tenant = ?1 AND kind = ?2 AND name = ?3",
    [SQL_PUT] =
        "INSERT INTO memory (scope, session, turn, part, said_ms, asks, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        " ON CONFLICT (scope, session, turn, part) DO UPDATE SET asks = excluded.asks, text = excluded.text",
    [SQL_FIND_KEPT] = "SELECT id FROM memory WHERE scope = ?1 AND session = ?2 AND turn = ?3 AND part = ?4",
    [SQL_GET] = "SELECT " MEMORY_COLUMNS MEMORY_ROWS " WHERE m.id = ?1 AND m.scope = ?2",
    [SQL_NEWEST] = "SELECT " MEMORY_COLUMNS MEMORY_ROWS " WHERE m.scope = ?1 AND m.id < ?2 ORDER BY m.id DESC LIMIT ?3",
    [SQL_LINES] = "SELECT m.id, m.session, m.said_ms, m.text, m.part, ifnull(f.subject, '')" MEMORY_ROWS
                  " WHERE m.scope = ?1 AND m.id > ?2 AND ifnull(f.replaced_ms, 0) = 0 ORDER BY m.id",
    [SQL_NEWER] = "SELECT " SCOPED_COLUMNS SCOPED_FILTER " AND m.id > ?4 ORDER BY m.id LIMIT ?5",
    [SQL_OLDER] = "SELECT " SCOPED_COLUMNS SCOPED_FILTER " AND m.id < ?4 ORDER BY m.id DESC LIMIT ?5",
    [SQL_FIND] = "SELECT " SCOPED_COLUMNS MEMORY_ROWS " JOIN scope s ON s.id = m.scope WHERE m.id = ?1",
    [SQL_SCOPES] = "SELECT tenant, kind, name, memories FROM scope WHERE kind <> '' ORDER BY tenant, kind, name",
    [SQL_EMBEDDED] = "SELECT upto FROM embedded WHERE scope = ?1 AND embedder = ?2",
    [SQL_SET_EMBEDDED] = "INSERT OR REPLACE INTO embedded (scope, embedder, upto) VALUES (?1, ?2, ?3)",
    [SQL_WITHOUT_VECTOR] =
        "SELECT " MEMORY_COLUMNS MEMORY_ROWS " WHERE m.scope = ?1 AND m.id > ?2 ORDER BY m.id LIMIT ?3",
    [SQL_PUT_VECTOR] =
        "INSERT OR REPLACE INTO vector (memory, scope, scale, bytes) SELECT id, scope, ?2, ?3 FROM memory WHERE id = ?1"
        " AND text = ?4",
    [SQL_VECTORS] =
        "SELECT memory, scale, bytes FROM vector WHERE scope = ?1 AND memory > ?2 AND memory <= ?3"
        " AND memory NOT IN (SELECT memory FROM fact WHERE scope = ?1 AND replaced_ms > 0) ORDER BY memory LIMIT ?4",
    [SQL_PUT_FACT] =
        "INSERT INTO fact (memory, scope, subject, replaced_ms) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (memory) DO UPDATE SET subject = excluded.subject",
    [SQL_SAME_FACT] =
        "SELECT m.id FROM fact f JOIN memory m ON m.id = f.memory WHERE f.scope = ?1 AND f.replaced_ms = 0"
        " AND m.text = ?2 AND NOT (m.session = ?3 AND m.turn = ?4) LIMIT 1",
    /* the fact that was said later stays valid; of the two ids the first is that of the older fact */
    [SQL_REPLACE] =
        "WITH pair AS (SELECT a.id AS a, a.said_ms AS a_ms, b.id AS b, b.said_ms AS b_ms FROM memory a, memory b"
        "  WHERE a.id = ?1 AND b.id = ?2 AND a.scope = ?3 AND b.scope = ?3 AND a.id <> b.id)"
        " UPDATE fact SET replaced_by = (SELECT iif(a_ms <= b_ms, b, a) FROM pair),"
        "  replaced_ms = (SELECT max(a_ms, b_ms) FROM pair)"
        " WHERE memory = (SELECT iif(a_ms <= b_ms, a, b) FROM pair) AND replaced_ms = 0",
    [SQL_FACTS] =
        "SELECT " MEMORY_COLUMNS MEMORY_ROWS " WHERE f.scope = ?1 AND f.replaced_ms = 0 ORDER BY m.id DESC LIMIT ?2",
    [SQL_HISTORY] =
        "WITH RECURSIVE later(id) AS (SELECT replaced_by FROM fact WHERE memory = ?2 AND replaced_by > 0"
        "  UNION SELECT f.replaced_by FROM fact f JOIN later ON f.memory = later.id WHERE f.replaced_by > 0),"
        " earlier(id) AS (VALUES (?2) UNION SELECT f.memory FROM fact f JOIN earlier ON f.replaced_by = earlier.id)"
        " SELECT " MEMORY_COLUMNS MEMORY_ROWS
        " WHERE m.scope = ?1 AND m.id <> ?2 AND (m.id IN (SELECT id FROM later) OR m.id IN (SELECT id FROM earlier))"
        " ORDER BY m.said_ms DESC, m.id DESC LIMIT ?3"};

static int bind_scope(sqlite3_stmt *statement, const tp_memory_scope *owner) {
  return tp__sqlite_bind_texts(statement, 1, (const tp_text[]){owner->tenant, owner->scope, owner->name}, 3);
}

/* @return SQLITE_OK; SQLITE_DONE when nothing was ever kept in the scope. */
static int find_scope_locked(connection *c, const tp_memory_scope *owner, scope_row *ret_row) {
  TP__LOCKED(&c->mutex);
  sqlite3_stmt *s = c->statements[SQL_FIND_SCOPE];
  int rc = bind_scope(s, owner);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  if (rc == SQLITE_ROW)
    *ret_row = (scope_row){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 2)};
  tp__sqlite_release(s);
  return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* ---- writing ---- */

static int add_scope_locked(tp__memory_sqlite *store, const tp_memory_entry *entry, int64_t *ret_id) {
  TP__LOCKED(&store->writer->mutex);
  const tp_memory_scope owner = {.tenant = entry->tenant, .scope = entry->scope, .name = entry->name};
  sqlite3_stmt *s = store->writer->statements[SQL_ADD_SCOPE];
  scope_row row = {0};
  int rc = find_scope_locked(store->writer, &owner, &row);
  *ret_id = row.id;
  if (rc != SQLITE_DONE) return rc;
  rc = tp__sqlite_run(s, bind_scope(s, &owner));
  *ret_id = sqlite3_last_insert_rowid(store->writer->db);
  return rc;
}

static int put_fact_locked(tp__memory_sqlite *store, int64_t scope, int64_t id, const tp_memory_entry *fact) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = store->writer->statements[SQL_PUT_FACT];
  int rc = tp__sqlite_bind_ints(s, (const int64_t[]){id, scope}, 2);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 3, fact->subject);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 4, fact->replaced_unix_ms);
  return tp__sqlite_run(s, rc);
}

static int bind_key(sqlite3_stmt *s, int64_t scope, const tp_memory_entry *entry) {
  int rc = sqlite3_bind_int64(s, 1, scope);
  return rc == SQLITE_OK ? tp__sqlite_bind_texts(s, 2, (const tp_text[]){entry->session, entry->turn, entry->part}, 3)
                         : rc;
}

/* Of one that was kept before. */
static int find_kept_locked(tp__memory_sqlite *store, int64_t scope, const tp_memory_entry *entry, int64_t *ret_id) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = store->writer->statements[SQL_FIND_KEPT];
  int rc = bind_key(s, scope, entry);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  if (rc == SQLITE_ROW) *ret_id = sqlite3_column_int64(s, 0);
  tp__sqlite_release(s);
  return rc == SQLITE_ROW ? SQLITE_OK : rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

/* Without RETURNING, which makes a table in memory each time: that costs more than the rest of the statement. */
static int put_locked(tp__memory_sqlite *store, const tp_memory_entry *entry, int64_t *ret_id) {
  TP__LOCKED(&store->writer->mutex);
  assert(entry->turn.data || entry->turn.size == 0);
  sqlite3_stmt *s = store->writer->statements[SQL_PUT];
  int64_t scope = 0;
  int rc = add_scope_locked(store, entry, &scope);
  if (rc == SQLITE_OK) rc = bind_key(s, scope, entry);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 5, entry->said_unix_ms);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int(s, 6, tp__memory_only_asks(entry->text));
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 7, entry->text);
  sqlite3_set_last_insert_rowid(store->writer->db, 0);
  rc = tp__sqlite_run(s, rc);
  *ret_id = sqlite3_last_insert_rowid(store->writer->db);
  if (rc == SQLITE_OK && *ret_id == 0) rc = find_kept_locked(store, scope, entry, ret_id);
  if (rc != SQLITE_OK) return rc;
  return entry->subject.size ? put_fact_locked(store, scope, *ret_id, entry) : SQLITE_OK;
}

/** Entries that are kept together, or not at all. */
typedef struct putting {
  tp__group_work work; /* must be the first member: the group casts to it */
  tp__memory_sqlite *store;
  const tp_memory_entry *const *entries;
  size_t count;
  int64_t *ret_ids;
  tp_memory_put_fn end; /* set for put_later */
  void *end_ctx;
} putting;

static int write_entries(void *ctx) {
  const putting *p = ctx;
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < p->count; i++) {
    int64_t id = 0;
    rc = put_locked(p->store, p->entries[i], &id);
    if (rc == SQLITE_OK && p->ret_ids) p->ret_ids[i] = id;
  }
  return rc;
}

/* Runs a writing function in one transaction and one sync, together with what other threads write meanwhile. */
static tp_status write_by(tp__memory_sqlite *store, int (*write)(void *ctx), void *ctx) {
  tp__group_work work = {.write = write, .ctx = ctx, .doing = "write"};
  return tp__group_run(&store->group, &work, NULL);
}

static tp_status put(void *ctx, const tp_memory_entry *const *entries, size_t count, int64_t *ret_ids,
                     tp_fault *fault) {
  putting p = {.store = ctx, .entries = entries, .count = count, .ret_ids = ret_ids};
  (void)fault;
  return write_by(ctx, write_entries, &p);
}

static void ended(tp__group_work *work) {
  putting *p = (putting *)work;
  tp_memory_put_fn end = p->end;
  void *end_ctx = p->end_ctx;
  tp_status status = work->status;
  sqlite3_free(p);
  end(end_ctx, status);
}

static tp_status put_later(void *ctx, const tp_memory_entry *const *entries, size_t count, tp_memory_put_fn end,
                           void *end_ctx) {
  tp__memory_sqlite *store = ctx;
  putting *p = sqlite3_malloc64(sizeof *p);
  if (!p) return TP_ERR_NO_MEMORY;
  *p = (putting){.work = {.write = write_entries, .ctx = p, .doing = "write", .end = ended},
                 .store = store,
                 .entries = entries,
                 .count = count,
                 .end = end,
                 .end_ctx = end_ctx};
  tp__group_submit(&store->group, &p->work);
  return TP_OK;
}

/* ---- facts ---- */

/* @param ret_known  whether a valid fact of another turn says the same. */
static int is_known_locked(tp__memory_sqlite *store, int64_t scope, const tp_memory_entry *fact, bool *ret_known) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = store->writer->statements[SQL_SAME_FACT];
  int rc = sqlite3_bind_int64(s, 1, scope);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_texts(s, 2, (const tp_text[]){fact->text, fact->session, fact->turn}, 3);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  *ret_known = rc == SQLITE_ROW;
  tp__sqlite_release(s);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int replace_locked(tp__memory_sqlite *store, int64_t scope, int64_t older, int64_t newer) {
  TP__LOCKED(&store->writer->mutex);
  assert(older > 0 && newer > 0 && older != newer);
  sqlite3_stmt *s = store->writer->statements[SQL_REPLACE];
  return tp__sqlite_run(s, tp__sqlite_bind_ints(s, (const int64_t[]){older, newer, scope}, 3));
}

static int put_one_fact_locked(tp__memory_sqlite *store, const tp_memory_entry *fact, int64_t replaces, size_t *kept) {
  TP__LOCKED(&store->writer->mutex);
  const tp_memory_scope owner = {.tenant = fact->tenant, .scope = fact->scope, .name = fact->name};
  scope_row row = {0};
  bool known = false;
  int64_t id = 0;
  int rc = find_scope_locked(store->writer, &owner, &row);
  if (rc == SQLITE_OK) rc = is_known_locked(store, row.id, fact, &known);
  if ((rc != SQLITE_OK && rc != SQLITE_DONE) || known) return rc;
  rc = put_locked(store, fact, &id);
  if (rc == SQLITE_OK) ++*kept;
  /* when the job of a turn runs again, its own fact is among the known ones; a fact never replaces itself */
  if (rc == SQLITE_OK && replaces && replaces != id) rc = replace_locked(store, row.id, replaces, id);
  return rc;
}

typedef struct fact_writing {
  tp__memory_sqlite *store;
  const tp_memory_entry *const *facts;
  const int64_t *replaces;
  size_t count, kept;
} fact_writing;

static int write_facts(void *ctx) {
  fact_writing *w = ctx;
  int rc = SQLITE_OK;
  w->kept = 0;
  for (size_t i = 0; rc == SQLITE_OK && i < w->count; i++)
    rc = put_one_fact_locked(w->store, w->facts[i], w->replaces[i], &w->kept);
  return rc;
}

static tp_status put_facts(void *ctx, const tp_memory_entry *const *facts, const int64_t *replaces, size_t count,
                           size_t *ret_kept, tp_fault *fault) {
  fact_writing w = {ctx, facts, replaces, count, 0};
  (void)fault;
  tp_status status = write_by(ctx, write_facts, &w);
  assert(w.kept <= count);
  *ret_kept = status == TP_OK ? w.kept : 0;
  return status;
}

/* ---- deleting ---- */

/* Syncs the write-ahead log: with commits that do not sync, the log may not be on the disk yet. */
static int sync_log(tp__memory_sqlite *store) {
  sqlite3_file *log = NULL;
  tp__lock_acquire(&store->writer->mutex);
  int rc = sqlite3_file_control(store->writer->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (rc == SQLITE_OK && log && log->pMethods) rc = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
  tp__lock_release(&store->writer->mutex);
  return rc;
}

/* Writes a note in the transaction that deletes, so that no crash leaves copies without a note. The note counts
 * deletions, so that a process which overwrites copies does not remove the note of a process that has deleted
 * meanwhile. */
static int note_copies_locked(tp__memory_sqlite *store) {
  TP__LOCKED(&store->writer->mutex);
  static const char sql[] = "INSERT INTO embedded VALUES (-1, '', 1) ON CONFLICT (scope) DO UPDATE SET upto = upto + 1";
  return sqlite3_exec(store->writer->db, sql, NULL, NULL, NULL);
}

/* Moves the write-ahead log into the file and empties it. @return SQLITE_BUSY when another process reads. */
static int truncate_log_locked(tp__memory_sqlite *store) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(store->writer->db, "PRAGMA wal_checkpoint(TRUNCATE)", -1, &s, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  bool busy = rc == SQLITE_ROW && sqlite3_column_int(s, 0) != 0;
  int end = sqlite3_finalize(s);
  if (rc != SQLITE_ROW) return rc;
  return busy ? SQLITE_BUSY : end;
}

/* Deletes the names of empty scopes, since a tenant's name may name a person. The row stays, so that its id is never
 * reused: an index in the memory of a process may still belong to it. */
static const char forget_names_sql[] =
    "UPDATE scope SET tenant = '', kind = '', name = CAST(id AS TEXT), changes = changes + 1"
    " WHERE memories = 0 AND kind <> ''";

typedef struct forgetting {
  tp__memory_sqlite *store;
  const tp_memory_scope *owner; /* NULL: of any scope */
  const int64_t *ids;
  size_t count, forgotten;
} forgetting;

static int delete_locked(forgetting *f) {
  sqlite3 *db = f->store->writer->db;
  TP__LOCKED(&f->store->writer->mutex);
  scope_row row = {0};
  sqlite3_stmt *s = NULL;
  int rc = f->owner ? find_scope_locked(f->store->writer, f->owner, &row) : SQLITE_OK;
  if (rc != SQLITE_OK) return rc == SQLITE_DONE ? SQLITE_OK : rc;
  rc = sqlite3_prepare_v2(db, "DELETE FROM memory WHERE id = ?1 AND (?2 = 0 OR scope = ?2)", -1, &s, NULL);
  for (size_t i = 0; i < f->count && rc == SQLITE_OK; i++) {
    rc = tp__sqlite_run(s, tp__sqlite_bind_ints(s, (const int64_t[]){f->ids[i], row.id}, 2));
    if (rc == SQLITE_OK && sqlite3_changes(db) > 0) f->forgotten++;
  }
  sqlite3_finalize(s);
  return rc;
}

static int write_forgetting(void *ctx) {
  forgetting *f = ctx;
  f->forgotten = 0;
  int rc = delete_locked(f);
  if (rc != SQLITE_OK || f->forgotten == 0) return rc;
  if (!f->owner) rc = sqlite3_exec(f->store->writer->db, forget_names_sql, NULL, NULL, NULL);
  return rc == SQLITE_OK ? note_copies_locked(f->store) : rc;
}

/* Writes the file anew. SQLite overwrites the bytes that it deletes, but copies may be left where it moved rows between
 * pages. Does nothing when no deletion has left copies. */
static int overwrite_copies_locked(tp__memory_sqlite *store) {
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

/* Overwrites the copies, after the deletion is committed. */
static int overwrite_copies(tp__memory_sqlite *store) {
  assert(store->writer && store->reader);
  if (store->reader != store->writer)
    tp__lock_acquire(&store->reader->mutex); /* so that no snapshot of this process
                                                                                  keeps the log */
  tp__lock_acquire(&store->writer->mutex);
  int rc = overwrite_copies_locked(store);
  tp__lock_release(&store->writer->mutex);
  if (store->reader != store->writer) tp__lock_release(&store->reader->mutex);
  return rc;
}

static tp_status erase(void *ctx, const tp_memory_scope *owner, const int64_t *ids, size_t count, size_t *ret_count,
                       tp_fault *fault) {
  tp__memory_sqlite *store = ctx;
  forgetting f = {store, owner, ids, count, 0};
  (void)fault;
  tp_status status = write_by(store, write_forgetting, &f);
  if (status == TP_OK && store->is_async) status = tp__sqlite_status(sync_log(store));
  *ret_count = status == TP_OK ? f.forgotten : 0;
  return status == TP_OK ? tp__sqlite_status(overwrite_copies(store)) : status;
}

/* ---- reading ---- */

/* Passes a row of MEMORY_COLUMNS, or of SCOPED_COLUMNS, to each. */
static bool show_row(sqlite3_stmt *row, tp_memory_entry_fn each, void *each_ctx) {
  enum { PLAIN_COUNT = 9 };
  tp_memory_entry entry = {.struct_size = sizeof entry,
                           .id = sqlite3_column_int64(row, 0),
                           .said_unix_ms = sqlite3_column_int64(row, 1),
                           .replaced_unix_ms = sqlite3_column_int64(row, 2),
                           .replaced_by = sqlite3_column_int64(row, 3),
                           .session = tp__sqlite_column(row, 4),
                           .turn = tp__sqlite_column(row, 5),
                           .part = tp__sqlite_column(row, 6),
                           .text = tp__sqlite_column(row, 7),
                           .subject = tp__sqlite_column(row, 8)};
  if (sqlite3_column_count(row) > PLAIN_COUNT) {
    entry.tenant = tp__sqlite_column(row, 9);
    entry.scope = tp__sqlite_column(row, 10);
    entry.name = tp__sqlite_column(row, 11);
  }
  return each(each_ctx, &entry);
}

/* Passes the rows to each, unless rc, the result of the binding, is an error. @return SQLITE_OK or the error. */
static int show_rows(sqlite3_stmt *s, int rc, tp_memory_entry_fn each, void *each_ctx) {
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW)
    rc = show_row(s, each, each_ctx) ? SQLITE_OK : SQLITE_DONE;
  tp__sqlite_release(s);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static tp_status read_done(tp__memory_sqlite *store, int rc) {
  tp__lock_release(&store->reader->mutex);
  return tp__sqlite_status(rc == SQLITE_DONE ? SQLITE_OK : rc);
}

/* Passes a row of id, session, said_ms, text, part, subject to each. */
static bool show_line(sqlite3_stmt *row, tp_memory_entry_fn each, void *each_ctx) {
  const tp_memory_entry entry = {.struct_size = sizeof entry,
                                 .id = sqlite3_column_int64(row, 0),
                                 .session = tp__sqlite_column(row, 1),
                                 .said_unix_ms = sqlite3_column_int64(row, 2),
                                 .text = tp__sqlite_column(row, 3),
                                 .part = tp__sqlite_column(row, 4),
                                 .subject = tp__sqlite_column(row, 5)};
  return each(each_ctx, &entry);
}

static int lines_locked(tp__memory_sqlite *store, tp_memory_mark *mark, tp_memory_entry_fn each, void *each_ctx) {
  TP__LOCKED(&store->reader->mutex);
  sqlite3_stmt *s = store->reader->statements[SQL_LINES];
  int rc = tp__sqlite_bind_ints(s, (const int64_t[]){mark->scope, mark->last}, 2);
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    mark->last = sqlite3_column_int64(s, 0);
    mark->lines++;
    rc = show_line(s, each, each_ctx) ? SQLITE_OK : SQLITE_DONE;
  }
  tp__sqlite_release(s);
  return rc;
}

static tp_status news(void *ctx, const tp_memory_scope *owner, const tp_memory_mark *mark, bool *ret_is_anew,
                      tp_memory_entry_fn each, void *each_ctx, tp_memory_mark *ret_mark, tp_fault *fault) {
  tp__memory_sqlite *store = ctx;
  scope_row row = {0};
  (void)fault;
  tp__lock_acquire(&store->reader->mutex);
  int rc = find_scope_locked(store->reader, owner, &row);
  *ret_is_anew = row.id != mark->scope || row.changes != mark->changes;
  *ret_mark =
      *ret_is_anew ? (tp_memory_mark){.struct_size = sizeof *mark, .scope = row.id, .changes = row.changes} : *mark;
  if (rc == SQLITE_OK && ret_mark->lines < row.memories) rc = lines_locked(store, ret_mark, each, each_ctx);
  return read_done(store, rc);
}

static tp_status get(void *ctx, int64_t scope, const int64_t *ids, size_t count, tp_memory_entry_fn each,
                     void *each_ctx, tp_fault *fault) {
  tp__memory_sqlite *store = ctx;
  sqlite3_stmt *s = store->reader->statements[scope ? SQL_GET : SQL_FIND];
  int rc = SQLITE_OK;
  bool more = true;
  (void)fault;
  tp__lock_acquire(&store->reader->mutex);
  for (size_t i = 0; more && rc == SQLITE_OK && i < count; i++) {
    rc = tp__sqlite_bind_ints(s, (const int64_t[]){ids[i], scope}, scope ? 2 : 1);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) more = show_row(s, each, each_ctx);
    tp__sqlite_release(s);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) rc = SQLITE_OK;
  }
  return read_done(store, rc);
}

static int bind_query(sqlite3_stmt *s, const tp_memory_query *query) {
  const char *const texts[] = {query->tenant, query->scope, query->name};
  const int64_t from = query->beyond || query->oldest_first ? query->beyond : INT64_MAX;
  int rc = SQLITE_OK;
  for (int i = 0; rc == SQLITE_OK && i < 3; i++) rc = sqlite3_bind_text(s, i + 1, texts[i], -1, SQLITE_STATIC);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 4, from);
  return rc == SQLITE_OK ? sqlite3_bind_int64(s, 5, query->limit) : rc;
}

/* Passes rows of one scope, whose id is the first parameter. */
static int list_scope_locked(tp__memory_sqlite *store, const tp_memory_scope *owner, sql_number sql,
                             const int64_t *values, int count, tp_memory_entry_fn each, void *each_ctx) {
  TP__LOCKED(&store->reader->mutex);
  sqlite3_stmt *s = store->reader->statements[sql];
  scope_row row = {0};
  int rc = find_scope_locked(store->reader, owner, &row);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 1, row.id);
  for (int i = 0; rc == SQLITE_OK && i < count; i++) rc = sqlite3_bind_int64(s, i + 2, values[i]);
  return show_rows(s, rc, each, each_ctx);
}

static tp_status list(void *ctx, const tp_memory_scope *owner, const tp_memory_query *query, tp_memory_entry_fn each,
                      void *each_ctx, tp_fault *fault) {
  tp__memory_sqlite *store = ctx;
  int rc = SQLITE_OK;
  (void)fault;
  tp__lock_acquire(&store->reader->mutex);
  if (owner) {
    const int64_t values[] = {query->beyond > 0 ? query->beyond : INT64_MAX, query->limit};
    rc = list_scope_locked(store, owner, SQL_NEWEST, values, 2, each, each_ctx);
  } else {
    sqlite3_stmt *s = store->reader->statements[query->oldest_first ? SQL_NEWER : SQL_OLDER];
    rc = show_rows(s, bind_query(s, query), each, each_ctx);
  }
  return read_done(store, rc);
}

static tp_status facts(void *ctx, const tp_memory_scope *owner, int64_t id, size_t limit, tp_memory_entry_fn each,
                       void *each_ctx, tp_fault *fault) {
  tp__memory_sqlite *store = ctx;
  const int64_t values[] = {id, (int64_t)limit};
  (void)fault;
  tp__lock_acquire(&store->reader->mutex);
  int rc = id ? list_scope_locked(store, owner, SQL_HISTORY, values, 2, each, each_ctx)
              : list_scope_locked(store, owner, SQL_FACTS, values + 1, 1, each, each_ctx);
  return read_done(store, rc);
}

static tp_status scopes(void *ctx, tp_memory_scope_fn each, void *each_ctx, tp_fault *fault) {
  tp__memory_sqlite *store = ctx;
  int rc = SQLITE_OK;
  (void)fault;
  tp__lock_acquire(&store->reader->mutex);
  sqlite3_stmt *s = store->reader->statements[SQL_SCOPES];
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    const tp_memory_scope scope = {.struct_size = sizeof scope,
                                   .tenant = tp__sqlite_column(s, 0),
                                   .scope = tp__sqlite_column(s, 1),
                                   .name = tp__sqlite_column(s, 2),
                                   .memories = sqlite3_column_int64(s, 3)};
    rc = each(each_ctx, &scope) ? SQLITE_OK : SQLITE_DONE;
  }
  tp__sqlite_release(s);
  return read_done(store, rc);
}

/* ---- vectors ---- */

/* Reads up to which memory the scope has vectors of the embedder: 0 when it has none. */
static int read_upto_locked(connection *c, int64_t scope, const char *embedder, int64_t *ret_upto) {
  TP__LOCKED(&c->mutex);
  sqlite3_stmt *s = c->statements[SQL_EMBEDDED];
  int rc = sqlite3_bind_int64(s, 1, scope);
  if (rc == SQLITE_OK) rc = sqlite3_bind_text(s, 2, embedder, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  *ret_upto = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
  tp__sqlite_release(s);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int write_upto_locked(tp__memory_sqlite *store, int64_t scope, const char *embedder, int64_t upto) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = store->writer->statements[SQL_SET_EMBEDDED];
  int rc = sqlite3_bind_int64(s, 1, scope);
  if (rc == SQLITE_OK) rc = sqlite3_bind_text(s, 2, embedder, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 3, upto);
  return tp__sqlite_run(s, rc);
}

static tp_status vectors_missing(void *ctx, const tp_memory_scope *owner, const char *embedder, size_t limit,
                                 tp_memory_entry_fn each, void *each_ctx, tp_memory_mark *ret_mark, tp_fault *fault) {
  tp__memory_sqlite *store = ctx;
  sqlite3_stmt *s = store->reader->statements[SQL_WITHOUT_VECTOR];
  scope_row row = {0};
  assert(limit > 0);
  (void)fault;
  *ret_mark = (tp_memory_mark){.struct_size = sizeof *ret_mark};
  tp__lock_acquire(&store->reader->mutex);
  int rc = find_scope_locked(store->reader, owner, &row);
  ret_mark->scope = row.id;
  if (rc == SQLITE_OK) rc = read_upto_locked(store->reader, row.id, embedder, &ret_mark->last);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(s, (const int64_t[]){row.id, ret_mark->last, (int64_t)limit}, 3);
  return read_done(store, show_rows(s, rc, each, each_ctx));
}

/* Stores a vector, unless the memory was deleted or changed meanwhile. */
static int put_vector_locked(tp__memory_sqlite *store, const tp_memory_vector *vector) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = store->writer->statements[SQL_PUT_VECTOR];
  int rc = sqlite3_bind_int64(s, 1, vector->id);
  if (rc == SQLITE_OK) rc = sqlite3_bind_double(s, 2, vector->scale);
  if (rc == SQLITE_OK) rc = sqlite3_bind_blob64(s, 3, vector->numbers, vector->dimensions, SQLITE_STATIC);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 4, vector->text);
  return tp__sqlite_run(s, rc);
}

typedef struct vector_writing {
  tp__memory_sqlite *store;
  const tp_memory_mark *mark;
  const char *embedder;
  const tp_memory_vector *const *vectors;
  size_t count;
  int64_t upto;
} vector_writing;

/* Stores vectors. When another job has stored some meanwhile, nothing is stored, and those of the other job count. */
static int write_vectors(void *ctx) {
  const vector_writing *w = ctx;
  int64_t upto = 0;
  int rc = read_upto_locked(w->store->writer, w->mark->scope, w->embedder, &upto);
  if (rc != SQLITE_OK || upto != w->mark->last) return rc;
  for (size_t i = 0; rc == SQLITE_OK && i < w->count; i++) rc = put_vector_locked(w->store, w->vectors[i]);
  return rc == SQLITE_OK ? write_upto_locked(w->store, w->mark->scope, w->embedder, w->upto) : rc;
}

static tp_status vectors_put(void *ctx, const tp_memory_mark *mark, const char *embedder,
                             const tp_memory_vector *const *vectors, size_t count, int64_t upto, tp_fault *fault) {
  vector_writing w = {ctx, mark, embedder, vectors, count, upto};
  (void)fault;
  return write_by(ctx, write_vectors, &w);
}

static tp_status read_vectors(void *ctx, const tp_memory_scope *owner, const char *embedder, int64_t *after,
                              tp_memory_vector_fn each, void *each_ctx, tp_fault *fault) {
  enum { VECTORS_AT_ONCE = 2048 };
  tp__memory_sqlite *store = ctx;
  sqlite3_stmt *s = store->reader->statements[SQL_VECTORS];
  scope_row row = {0};
  int64_t upto = 0, from = *after;
  (void)fault;
  *after = 0;
  tp__lock_acquire(&store->reader->mutex);
  int rc = find_scope_locked(store->reader, owner, &row);
  if (rc == SQLITE_OK) rc = read_upto_locked(store->reader, row.id, embedder, &upto);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(s, (const int64_t[]){row.id, from, upto, VECTORS_AT_ONCE}, 4);
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    const tp_memory_vector vector = {.struct_size = sizeof vector,
                                     .id = sqlite3_column_int64(s, 0),
                                     .scale = sqlite3_column_double(s, 1),
                                     .numbers = sqlite3_column_blob(s, 2),
                                     .dimensions = (size_t)sqlite3_column_bytes(s, 2)};
    *after = vector.id;
    rc = each(each_ctx, &vector) ? SQLITE_OK : SQLITE_DONE;
  }
  tp__sqlite_release(s);
  return read_done(store, rc);
}

/* ---- life ---- */

static int prepare_all(connection *c) {
  for (int i = 0; i < SQL_COUNT; i++) {
    int rc = sqlite3_prepare_v3(c->db, sql_texts[i], -1, SQLITE_PREPARE_PERSISTENT, &c->statements[i], NULL);
    if (rc != SQLITE_OK) return rc;
  }
  return SQLITE_OK;
}

static void connection_fini(connection *c) {
  for (int i = 0; i < SQL_COUNT; i++) sqlite3_finalize(c->statements[i]);
  sqlite3_close(c->db);
  tp__lock_fini(&c->mutex);
}

/* Opens the connections. A database without a file exists in one connection only: then reader and writer are the
 * same. */
static tp_status open_connections(tp__memory_sqlite *store, const char *path, tp_fault *fault) {
  connection *c = store->connections;
  store->writer = store->reader = &c[0];
  tp_status status = tp__memory_database_open(path, &c[0].db, fault);
  int rc = status == TP_OK ? prepare_all(&c[0]) : SQLITE_OK;
  if (status == TP_OK && rc == SQLITE_OK && path) {
    store->reader = &c[1];
    status = tp__memory_database_open_reader(path, &c[1].db, fault);
    if (status == TP_OK) rc = prepare_all(&c[1]);
  }
  return rc == SQLITE_OK ? status : tp__sqlite_fail(store->reader->db, path, "prepare", rc, fault);
}

/* Opens one connection. A write fails with SQLite's own message. */
static tp_status open_read_only(tp__memory_sqlite *store, const char *path, tp_fault *fault) {
  connection *c = store->connections;
  store->writer = store->reader = &c[0];
  tp_status status = tp__memory_database_open_read_only(path, &c[0].db, fault);
  int rc = status == TP_OK ? prepare_all(&c[0]) : SQLITE_OK;
  return rc == SQLITE_OK ? status : tp__sqlite_fail(c[0].db, path, "prepare", rc, fault);
}

static void close_store(void *ctx) {
  tp__memory_sqlite *store = ctx;
  tp__group_fini(&store->group);
  connection_fini(&store->connections[1]);
  connection_fini(&store->connections[0]); /* the last connection that is closed empties the log */
  sqlite3_free(store);
}

static void destroy(void *ctx) {
  tp__memory_sqlite *store = ctx;
  if (!tp__group_end_later(&store->group, close_store, store)) close_store(store);
}

static const tp_memory_store functions = {.struct_size = sizeof functions,
                                          .put = put,
                                          .put_later = put_later,
                                          .put_facts = put_facts,
                                          .news = news,
                                          .get = get,
                                          .list = list,
                                          .facts = facts,
                                          .scopes = scopes,
                                          .erase = erase,
                                          .vectors_missing = vectors_missing,
                                          .vectors_put = vectors_put,
                                          .vectors = read_vectors,
                                          .destroy = destroy};

tp_status tp__memory_sqlite_open(const char *path, bool read_only, tp_memory_store *ret_store, tp_fault *fault) {
  tp__memory_sqlite *store = sqlite3_malloc64(sizeof *store);
  if (!store) return tp__sqlite_fail(NULL, path, "open", SQLITE_NOMEM, fault);
  memset(store, 0, sizeof *store);
  tp__lock_init(&store->connections[0].mutex, TP__LOCK_memory);
  tp__lock_init(&store->connections[1].mutex, TP__LOCK_memory_read);
  tp_status status = read_only ? open_read_only(store, path, fault) : open_connections(store, path, fault);
  if (status == TP_OK)
    status = tp__group_init(&store->group, &store->writer->mutex, store->writer->db, NULL, !read_only, fault);
  if (status == TP_OK && !read_only)
    (void)overwrite_copies(store); /* copies that a process left which died; when this fails, the note stays */
  *ret_store = functions;
  ret_store->ctx = store;
  if (status != TP_OK) destroy(store);
  return status;
}

/* Makes the store async. In WAL mode the file is consistent after any crash also without the syncs of commits;
 * checkpoints still sync. */
tp_status tp__memory_sqlite_make_async(const tp_memory_store *of, tp_fault *fault) {
  tp__memory_sqlite *store = of->ctx;
  assert(!store->is_async);
  tp__lock_acquire(&store->writer->mutex);
  int rc = sqlite3_exec(store->writer->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
  tp_status status =
      rc == SQLITE_OK ? TP_OK : tp__sqlite_fail(store->writer->db, NULL, "set up its journal", rc, fault);
  tp__lock_release(&store->writer->mutex);
  store->is_async = status == TP_OK;
  return status;
}

tp__group *tp__memory_sqlite_group(const tp_memory_store *of) {
  tp__memory_sqlite *store = of->ctx;
  return &store->group;
}
