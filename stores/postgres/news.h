/* SPDX-License-Identifier: Apache-2.0
 *
 * news: other processes have stored jobs. A transaction with a job that can be claimed sends one NOTIFY; a connection
 * of its own has LISTEN, while a store watches. So a store need not ask the server while there are no news. That LISTEN
 * works is not believed but proved: pgbouncer in transaction mode accepts it, and drops what comes. So each look sends
 * a NOTIFY that this process must hear; until it does, the news are dead.
 * Lock: postgres_news. Watchers are called under it (tp_store.job_watch says that they call nothing of a store), on the
 * pool's thread. */
#ifndef TP__POSTGRES_NEWS_H
#define TP__POSTGRES_NEWS_H

#include "stores/postgres/request.h"

/** A store that claims jobs. */
typedef struct tp__pg_watcher {
  /* under the lock */
  struct tp__pg_watcher *next;
  void (*call)(void *ctx); /* NULL: it is told nothing, and asks */
  void *ctx;
} tp__pg_watcher;

typedef struct tp__pg_news tp__pg_news;
extern const tp__pg_class tp__pg_news_class;

/** @param schema  whose jobs they are.   @param random  of this process.   @return NULL without memory. */
tp__pg_news *tp__pg_news_new(const char *schema, uint64_t random);
/** Whether the server has NOTIFY: CockroachDB has not. Before the pool's thread begins. */
void tp__pg_news_ask(tp__pg_news *news, const PGconn *connection);
/** Accepts NULL. */
void tp__pg_news_free(tp__pg_news *news);
/** As long as there is a watcher a connection listens. */
void tp__pg_watch(tp_postgres *postgres, tp__pg_watcher *watcher);
/** Whether it watches or not: from now on news are told to call; NULL: from the return on to none, and no call is under
 *  way. */
void tp__pg_watch_call(tp_postgres *postgres, tp__pg_watcher *watcher, void (*call)(void *ctx), void *ctx);
void tp__pg_unwatch(tp_postgres *postgres, const tp__pg_watcher *watcher);
/** Whether LISTEN was accepted. */
bool tp__pg_news_listens(tp_postgres *postgres);
/** Whether news come: then nothing is new while tp__pg_news_number() stays the same. */
bool tp__pg_news_live(tp_postgres *postgres);
uint64_t tp__pg_news_number(tp_postgres *postgres);
/** A store of this process has stored a job; others of the same database handle are told at once. */
void tp__pg_news_add(tp_postgres *postgres, const tp__pg_watcher *by);
/** Adds to a request that this process hears itself. */
void tp__pg_news_probe(tp_postgres *postgres, tp__pg_request *request);

#endif
