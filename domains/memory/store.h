/* SPDX-License-Identifier: Apache-2.0
 *
 * store: memories, in scopes. A table of functions stores them (tp_memory_store; sqlite.h has the one over a file). The
 * store itself owns the indexes of words and the stemmer, under its mutex. Every function may be called from any
 * thread. It takes its memory from SQLite (sqlite3_malloc64), so a bound on SQLite's memory also bounds that of the
 * store. It never calls back, and does not know turns. */
#ifndef TP__MEMORY_STORE_H
#define TP__MEMORY_STORE_H

#include "turnphase/memory_store.h"

typedef struct tp__memory_store tp__memory_store;

/** A scope: the owner of memories. The tenant is part of every key; any of the three texts may be empty. */
typedef struct tp__memory_scope {
  tp_text tenant;
  tp_text kind; /* "user", "workspace", "thread", "agent", "task" */
  tp_text name; /* the id of the object of that kind */
} tp__memory_scope;

enum { TP__MEMORY_TEXT_BYTES_MAX = 128 * 1024 }; /* the most bytes of a memory; the rest of a longer text is not kept */

/** One remembered text. */
typedef struct tp__memory {
  int64_t id;      /* above 0; never reused */
  int64_t said_ms; /* unix milliseconds */
  int32_t rank;    /* set by a recall: 1,000 is the rank of a text of average length that has every term once */
  tp_text session;
  tp_text turn;
  tp_text part; /* the part of the turn: empty for what the user said, tp__memory_assistant for what the assistant said,
                      else the name of a noted text */
  tp_text text;
  tp_text subject;            /* of a fact: its subject; empty: the memory is no fact */
  int64_t replaced_ms;        /* of a fact: when another fact replaced it, unix milliseconds; 0: it is valid */
  int64_t replaced_by;        /* the id of the fact that replaced it; 0: none, or not known */
  tp_text tenant, kind, name; /* its scope; only set by tp__memory_page() and tp__memory_find() */
} tp__memory;

extern const char tp__memory_assistant[];
bool tp__memory_is_assistant(tp_text part);

/** An ordered list of memories. The texts of each are in a block of its own. A zero-filled list is empty. */
typedef struct tp__memory_list {
  tp__memory *items;
  size_t count, capacity;
} tp__memory_list;

void tp__memory_list_fini(tp__memory_list *list);
/** Frees all but the first count memories. */
void tp__memory_list_cut(tp__memory_list *list, size_t count);

/** @param path  NULL: in memory. @return as tp__memory_database_open(). */
tp_status tp__memory_store_open(const char *path, tp__memory_store **ret_store, tp_fault *fault);
/** Opens a store for reading only: functions that write return TP_ERR_STORE_READONLY. @return as
 *  tp__sqlite_open_read_only(). */
tp_status tp__memory_store_open_read_only(const char *path, tp__memory_store **ret_store, tp_fault *fault);
/** Over a table of functions, which is copied; closing the store does not destroy it until tp__memory_store_own().
 *  @return TP_OK; TP_ERR_VERSION, TP_ERR_USAGE for one that is not whole; TP_ERR_NO_MEMORY. */
tp_status tp__memory_store_over(const tp_memory_store *rows, tp__memory_store **ret_store, tp_fault *fault);
/** From now on the table is the store's. */
void tp__memory_store_own(tp__memory_store *store, const tp_memory_store *rows);
/** After all that was handed over is written. Accepts NULL. */
void tp__memory_store_close(tp__memory_store *store);
/** From now on writes do not wait for the disk (tp_memory_options.async). Call it before other threads use the
 *  store. */
tp_status tp__memory_store_make_async(tp__memory_store *store, tp_fault *fault);
/** Sets the bound of the indexes in memory, which does not count for the index in use. Call it before other threads
 *  know the store. */
void tp__memory_store_bound_indexes(tp__memory_store *store, size_t bytes_max);

/* The functions below return TP_OK or what tp__sqlite_status() returns, and TP_ERR_NOT_FOUND where it is named. They
 * append to lists, and leave them unchanged on failure. */

/** Keeps a text, durable on return unless the store is async. (scope, session, turn, part) is its key: a text kept
 *  under it before is replaced under the same id and with the time it was first said. id and rank are not read.
 *  @param ret_id  may be NULL. */
tp_status tp__memory_put(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *memory,
                         int64_t *ret_id);

/** @return TP_ERR_NOT_FOUND also for a memory of another scope. */
tp_status tp__memory_get(tp__memory_store *store, const tp__memory_scope *scope, int64_t id, tp__memory_list *list);

/** Appends the newest memories, at most limit, of those with an id below before (0: of all). */
tp_status tp__memory_newest(tp__memory_store *store, const tp__memory_scope *scope, int64_t before, size_t limit,
                            tp__memory_list *list);

/** Deletes a memory, durable on return, with all its copies: the file is written anew, and the write-ahead log is
 *  emptied. When that fails, or the process dies meanwhile, the file has a note, and the next deletion or opening does
 *  the rest.
 *  @return TP_ERR_NOT_FOUND also for a memory of another scope; TP_ERR_STORE_BUSY also when it is deleted, but another
 *          process reads the file, so that the log cannot be emptied. */
tp_status tp__memory_forget(tp__memory_store *store, const tp__memory_scope *scope, int64_t id);
/** The same for several memories of any scope, in one transaction; the names of scopes that are then empty are deleted,
 *  too.
 *  @return TP_OK, also when none is there; TP_ERR_STORE_BUSY as tp__memory_forget(). */
tp_status tp__memory_forget_all(tp__memory_store *store, const int64_t *ids, size_t count, size_t *ret_count);

/* ---- over all scopes, for tp_memory ---- */

/** Keeps all or none; each memory names its scope. */
tp_status tp__memory_put_all(tp__memory_store *store, const tp__memory *memories, size_t count);

/** Which memories. NULL: any. */
typedef struct tp__memory_filter {
  const char *tenant, *kind, *name;
} tp__memory_filter;

/** Appends at most limit memories: those with an id below beyond (0: of all), newest first; or those above it, oldest
 *  first. */
tp_status tp__memory_page(tp__memory_store *store, const tp__memory_filter *filter, int64_t beyond, bool oldest_first,
                          size_t limit, tp__memory_list *list);
/** @return TP_ERR_NOT_FOUND when no scope has it. */
tp_status tp__memory_find(tp__memory_store *store, int64_t id, tp__memory_list *list);
/** Appends the scopes: the tenant, kind and name of each, and as id the number of its memories. */
tp_status tp__memory_scopes(tp__memory_store *store, tp__memory_list *list);

#endif
