/* SPDX-License-Identifier: Apache-2.0
 *
 * store: what is remembered, in scopes. A table of functions keeps it (tp_memory_store; sqlite.h has the one over a
 * file); the indexes of words and what makes stems are the store's own, under its mutex. Every function may be called
 * from any thread. It takes its memory from SQLite (sqlite3_malloc64), so a bound on SQLite's memory bounds ours, too.
 * Never: calls back, knows a turn. */
#ifndef TP__MEMORY_STORE_H
#define TP__MEMORY_STORE_H

#include "turnphase/base.h"

typedef struct tp__memory_store tp__memory_store;

/** Whose memories. The tenant is part of every key; any of the three may be empty. */
typedef struct tp__memory_scope {
  tp_text tenant;
  tp_text kind; /* "user", "workspace", "thread", "agent", "task" */
  tp_text name; /* the id of that kind */
} tp__memory_scope;

enum { TP__MEMORY_TEXT_BYTES_MAX = 128 * 1024 }; /* of a memory; of what is longer the rest is not kept */

/** One remembered text. */
typedef struct tp__memory {
  int64_t id;      /* above 0; never used again for another */
  int64_t said_ms; /* unix milliseconds */
  int32_t rank;    /* recall only: 1,000 is as good as a text of average length that holds every term once */
  tp_text session;
  tp_text turn;
  tp_text part; /* of the turn: empty for what the user said, tp__memory_assistant for what the assistant said, else
                      what names a noted text */
  tp_text text;
  tp_text subject;            /* of a fact: whom or what it is about; empty: none */
  int64_t replaced_ms;        /* of a fact: when another one replaced it, unix milliseconds; 0: it holds */
  int64_t replaced_by;        /* the id of that one; 0: none, or not known */
  tp_text tenant, kind, name; /* its scope; only of tp__memory_page() and tp__memory_find() */
} tp__memory;

extern const char tp__memory_assistant[];
bool tp__memory_is_assistant(tp_text part);

/** Memories in an order. Each one's texts stand in a block of its own. Zero-filled is empty. */
typedef struct tp__memory_list {
  tp__memory *items;
  size_t count, capacity;
} tp__memory_list;

void tp__memory_list_fini(tp__memory_list *list);
/** Frees all but the first count. */
void tp__memory_list_cut(tp__memory_list *list, size_t count);

/** @param path  NULL: in memory. @return as tp__memory_database_open(). */
tp_status tp__memory_store_open(const char *path, tp__memory_store **ret_store, tp_fault *fault);
/** For reading only: what writes returns TP_ERR_STORE_READONLY. @return as tp__sqlite_open_read_only(). */
tp_status tp__memory_store_open_read_only(const char *path, tp__memory_store **ret_store, tp_fault *fault);
/** After all that was handed over is written. Accepts NULL. */
void tp__memory_store_close(tp__memory_store *store);
/** From now on what is kept does not wait for the disk (tp_memory_options.async). Before other threads use it. */
tp_status tp__memory_store_make_async(tp__memory_store *store, tp_fault *fault);
/** Of the indexes in memory, but for the one in use; before other threads know the store. */
void tp__memory_store_bound_indexes(tp__memory_store *store, size_t bytes_max);

/* The functions below return TP_OK or what tp__sqlite_status() says; TP_ERR_NOT_FOUND where it is named. Lists are
 * appended to, and left as they are on failure. */

/** Keeps a text, durable on return unless the store is async. (scope, session, turn, part) is its key: a text kept
 *  under it before is replaced under the same id and with the time it was first said. id and rank are not read.
 *  @param ret_id  may be NULL. */
tp_status tp__memory_put(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *memory,
                         int64_t *ret_id);

/** @return TP_ERR_NOT_FOUND also for a memory of another scope. */
tp_status tp__memory_get(tp__memory_store *store, const tp__memory_scope *scope, int64_t id, tp__memory_list *list);

/** The newest first: at most limit of those with an id below before (0: of all). */
tp_status tp__memory_newest(tp__memory_store *store, const tp__memory_scope *scope, int64_t before, size_t limit,
                            tp__memory_list *list);

/** Deletes it, durable on return, and its traces: copies in the file, which is written anew, and the write-ahead log.
 *  Where that fails, or the process dies meanwhile, the file has a note, and the next deletion or opening does the
 *  rest.
 *  @return TP_ERR_NOT_FOUND also for a memory of another scope; TP_ERR_STORE_BUSY also when it is deleted, but another
 *          process reads and so keeps the log. */
tp_status tp__memory_forget(tp__memory_store *store, const tp__memory_scope *scope, int64_t id);
/** The same for several of any scope, in one transaction; the names of scopes that are empty then are deleted, too.
 *  @return TP_OK, also when none is there; TP_ERR_STORE_BUSY as above. */
tp_status tp__memory_forget_all(tp__memory_store *store, const int64_t *ids, size_t count, size_t *ret_count);

/* ---- over all scopes, for tp_memory ---- */

/** Keeps all or none; the scope of each is in it. */
tp_status tp__memory_put_all(tp__memory_store *store, const tp__memory *memories, size_t count);

/** NULL: any. */
typedef struct tp__memory_filter {
  const char *tenant, *kind, *name;
} tp__memory_filter;

/** At most limit of those with an id below beyond (0: of all), newest first; or above it, oldest first. */
tp_status tp__memory_page(tp__memory_store *store, const tp__memory_filter *filter, int64_t beyond, bool oldest_first,
                          size_t limit, tp__memory_list *list);
/** @return TP_ERR_NOT_FOUND when no scope has it. */
tp_status tp__memory_find(tp__memory_store *store, int64_t id, tp__memory_list *list);
/** The scopes: of each tenant, kind and name, and as id the number of its memories. */
tp_status tp__memory_scopes(tp__memory_store *store, tp__memory_list *list);

#endif
