/* SPDX-License-Identifier: Apache-2.0
 *
 * news: other processes have stored jobs. A transaction that stores a job that can be claimed sends one NOTIFY. While a
 * store watches, a separate connection has LISTEN. So a store need not ask the server while there are no news. It must
 * be tested that LISTEN works, since pgbouncer in transaction mode accepts LISTEN but drops the notifications. So each
 * look for jobs sends a NOTIFY that this process must hear; until it hears it, news count as not working.
 * Lock: postgres_news. Watchers are called under it, on the pool's thread; they call no function of a store
 * (tp_store.job_watch). */
#ifndef TP__POSTGRES_NEWS_H
#define TP__POSTGRES_NEWS_H

#include "stores/postgres/request.h"

/** A store that claims jobs. */
typedef struct tp__pg_watcher {
  /* under the lock */
  struct tp__pg_watcher *next;
  void (*call)(void *ctx); /* NULL: it is not notified, and asks the server instead */
  void *ctx;
} tp__pg_watcher;

typedef struct tp__pg_news tp__pg_news;
extern const tp__pg_class tp__pg_news_class;

/** @param schema  the schema of the jobs.   @param random  a random number of this process.   @return NULL without
 *          memory. */
tp__pg_news *tp__pg_news_new(const char *schema, uint64_t random);
/** Finds out whether the server has NOTIFY; CockroachDB does not. Call it before the pool's thread begins. */
void tp__pg_news_ask(tp__pg_news *news, const PGconn *connection);
/** Accepts NULL. */
void tp__pg_news_free(tp__pg_news *news);
/** Adds a watcher. While there is one, a connection listens. */
void tp__pg_watch(tp_postgres *postgres, tp__pg_watcher *watcher);
/** Sets the function that a watcher is notified by, also for a watcher that was not added. NULL: after the return no
 *  function is called, and no call is under way. */
void tp__pg_watch_call(tp_postgres *postgres, tp__pg_watcher *watcher, void (*call)(void *ctx), void *ctx);
void tp__pg_unwatch(tp_postgres *postgres, const tp__pg_watcher *watcher);
/** Whether LISTEN was accepted. */
bool tp__pg_news_listens(tp_postgres *postgres);
/** Whether news come. If so, there is nothing new while tp__pg_news_number() is unchanged. */
bool tp__pg_news_live(tp_postgres *postgres);
uint64_t tp__pg_news_number(tp_postgres *postgres);
/** Notes that a store of this process has stored a job; other stores of the same database handle are notified at
 *  once. */
void tp__pg_news_add(tp_postgres *postgres, const tp__pg_watcher *by);
/** Adds a NOTIFY to a request, which this process must hear. */
void tp__pg_news_probe(tp_postgres *postgres, tp__pg_request *request);

#endif
