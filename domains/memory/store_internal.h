/* SPDX-License-Identifier: Apache-2.0
 *
 * store_internal: what store.c lends to recall.c. All of it is used under the store's mutex. */
#ifndef TP__MEMORY_STORE_INTERNAL_H
#define TP__MEMORY_STORE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>

#include "domains/memory/store.h"

/** The prepared statements; store.c has their text. */
typedef enum tp__memory_sql {
  TP__MEMORY_SQL_ADD_SCOPE,
  TP__MEMORY_SQL_FIND_SCOPE,
  TP__MEMORY_SQL_PUT,
  TP__MEMORY_SQL_GET,
  TP__MEMORY_SQL_NEWEST,
  TP__MEMORY_SQL_FORGET,
  TP__MEMORY_SQL_MATCH,   /* recall.c from here on */
  TP__MEMORY_SQL_EXCERPT,
  TP__MEMORY_SQL_NEXT,
  TP__MEMORY_SQL_PREVIOUS,
  TP__MEMORY_SQL_COUNT
} tp__memory_sql;

struct tp__memory_store {
  pthread_mutex_t mutex;
  /* ---- under mutex */
  sqlite3 *db;
  sqlite3_stmt *statements[TP__MEMORY_SQL_COUNT];
};

/** Teaches a connection the function evidence(recall), which TP__MEMORY_SQL_MATCH calls. @return a SQLite code. */
int tp__memory_evidence_register(sqlite3 *db);

/** What the store knows of a scope. */
typedef struct tp__memory_scope_row {
  int64_t id;
  int64_t memories;
} tp__memory_scope_row;

/* These return SQLite codes. */

/** @return SQLITE_OK; SQLITE_DONE when nothing was ever kept in the scope. */
int tp__memory_find_scope_locked(tp__memory_store *store, const tp__memory_scope *scope, tp__memory_scope_row *ret_row);
/** Appends the memory to the list. @return SQLITE_OK; SQLITE_DONE when there is none of that id in the scope. */
int tp__memory_read_locked(tp__memory_store *store, int64_t scope, int64_t id, tp__memory_list *list);

/** Ends a use of a statement: nothing of the caller's stays bound. */
void tp__memory_release(sqlite3_stmt *statement);

#endif
