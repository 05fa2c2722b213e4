/* SPDX-License-Identifier: Apache-2.0
 *
 * store_internal: what store.c gives recall.c and index.c. A function with a name in _locked is used under the mutex of
 * its connection: one that puts under the writer's, any other under the reader's, but where it is given a connection. A
 * thread that needs both takes the reader's first. */
#ifndef TP__MEMORY_STORE_INTERNAL_H
#define TP__MEMORY_STORE_INTERNAL_H

#include <sqlite3.h>

#include "domains/memory/store.h"
#include "runtime/base/check.h"
#include "stores/sqlite/group.h"
#include "support/lock.h"
#include "support/text.h"

/** The prepared statements; store.c has their text. */
typedef enum tp__memory_sql {
  TP__MEMORY_SQL_ADD_SCOPE,
  TP__MEMORY_SQL_FIND_SCOPE,
  TP__MEMORY_SQL_PUT,
  TP__MEMORY_SQL_GET,
  TP__MEMORY_SQL_NEWEST,
  TP__MEMORY_SQL_DELETE,
  TP__MEMORY_SQL_LINES, /* index.c */
  TP__MEMORY_SQL_NEWER,
  TP__MEMORY_SQL_OLDER,
  TP__MEMORY_SQL_FIND,
  TP__MEMORY_SQL_SCOPES,
  TP__MEMORY_SQL_EMBEDDED, /* vectors.c */
  TP__MEMORY_SQL_SET_EMBEDDED,
  TP__MEMORY_SQL_WITHOUT_VECTOR,
  TP__MEMORY_SQL_PUT_VECTOR,
  TP__MEMORY_SQL_VECTORS,
  TP__MEMORY_SQL_PUT_FACT, /* store.c, facts_store.c */
  TP__MEMORY_SQL_SAME_FACT,
  TP__MEMORY_SQL_REPLACE,
  TP__MEMORY_SQL_FACTS,
  TP__MEMORY_SQL_HISTORY,
  TP__MEMORY_SQL_COUNT
} tp__memory_sql;

enum { TP__MEMORY_INDEX_BUCKETS = 1024 };

/** A connection with its statements, which one thread uses at a time. */
typedef struct tp__memory_connection {
  tp__lock mutex;
  /* ---- under mutex */
  sqlite3 *db;
  sqlite3_stmt *statements[TP__MEMORY_SQL_COUNT];
} tp__memory_connection;

struct tp__memory_store {
  tp__memory_connection connections[2];
  /* never changes after open */
  tp__memory_connection *writer;
  size_t index_bytes_max;
  bool is_async;                 /* a commit syncs nothing */
  tp__memory_connection *reader; /* so that no recall waits for a sync; the writer where the memory is in no file */
  tp__group group;               /* groups the writes: all that wait for the disk share one sync. It has a thread,
                                    unless the store is read-only */
  /* ---- under the reader's mutex */
  fts5_tokenizer tokenizer; /* FTS5's: English stems */
  Fts5Tokenizer *stemmer;
  struct tp__memory_index *indexes, *oldest_index;                  /* of scopes, the most recently used first */
  struct tp__memory_index *index_buckets[TP__MEMORY_INDEX_BUCKETS]; /* the same, by their scopes */
  size_t index_bytes;                                               /* that they hold together */
};

/** What the store knows of a scope. */
typedef struct tp__memory_scope_row {
  int64_t id;
  int64_t memories;
  int64_t changes; /* how many were changed or deleted so far */
} tp__memory_scope_row;

/* These return SQLite codes. */

/** @return SQLITE_OK; SQLITE_DONE when nothing was ever kept in the scope. */
int tp__memory_find_scope_locked(tp__memory_connection *c, const tp__memory_scope *scope,
                                 tp__memory_scope_row *ret_row);
/** Appends the memory to the list. @return SQLITE_OK; SQLITE_DONE when there is none of that id in the scope. */
int tp__memory_read_locked(tp__memory_store *store, int64_t scope, int64_t id, tp__memory_list *list);

/** Writes by a function (tp__group_work.write), in one transaction and one sync with what other threads write
 *  meanwhile. Without the mutex. */
tp_status tp__memory_write(tp__memory_store *store, int (*write)(void *ctx), void *ctx);
/** The same, and on the disk on return also where the store is async. */
tp_status tp__memory_write_durably(tp__memory_store *store, int (*write)(void *ctx), void *ctx);

/** Runs a statement of MEMORY_COLUMNS, unless rc, that of its binding, is an error, appends the memory of each row, and
 *  releases the statement. @return SQLITE_DONE or the error. */
int tp__memory_list_rows(tp__memory_list *list, sqlite3_stmt *s, int rc);

/** Keeps a memory, with its subject where it is a fact. */
int tp__memory_put_locked(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *memory,
                          int64_t *ret_id);

/** Copies a text to *next, which it moves on. @return the copy. */
tp_text tp__memory_put_text(char **next, tp_text text);

/** Appends what a statement of MEMORY_COLUMNS gives whose parameters are a scope and values. The mutex is not held.
 *  @return TP_OK, also when nothing was ever kept in the scope; else the list is as it was. */
tp_status tp__memory_list_scope(tp__memory_store *store, const tp__memory_scope *scope, tp__memory_sql sql,
                                const int64_t *values, int value_count, tp__memory_list *list);

#endif
