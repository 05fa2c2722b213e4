/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/news.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/postgres/store.h"
#include "support/clock.h"

enum {
  HEARING_MS = 3000 /* how long a NOTIFY may need until it is heard */,
  AGAIN_MS = 30000 /* how long to wait after LISTEN was
                                                                                    refused */
};

struct tp__pg_news {
  /* never changes after new */
  char channel[40], mark[24]; /* channel: the channel of LISTEN; mark: by it this process recognizes its own NOTIFY */
  bool is_known;              /* the server has NOTIFY */
  /* used by the pool's thread */
  tp__pg_request listen;
  bool is_asked; /* set while the request is under way */
  int64_t ask_ns;
  tp__lock lock;
  /* ---- under lock */
  tp__pg_watcher *watchers;
  bool listens;
  int64_t probed_ns, heard_ns; /* when this process last sent its own NOTIFY, and last heard it; 0: never */
  uint64_t number;             /* counts news: those of other processes, and jobs that this process has stored */
};

static const char notify[] = "SELECT pg_notify($1::text, $2::text)";

tp__pg_news *tp__pg_news_new(const char *schema, uint64_t random) {
  const tp_text name = tp_text_of(schema);
  tp__pg_news *n = tp__heap_alloc(sizeof *n);
  if (!n) return NULL;
  snprintf(n->channel, sizeof n->channel, "turnphase_%016" PRIx64, (uint64_t)tp__pg_short_hash(&name, 1));
  snprintf(n->mark, sizeof n->mark, "%016" PRIx64, random);
  n->number = 1;
  tp__lock_init(&n->lock, TP__LOCK_postgres_news);
  return n;
}

void tp__pg_news_free(tp__pg_news *n) {
  if (!n) return;
  assert(!n->watchers);
  tp__lock_fini(&n->lock);
  tp__heap_free(n, sizeof *n);
}

void tp__pg_news_ask(tp__pg_news *n, const PGconn *connection) {
  n->is_known = !PQparameterStatus(connection, "crdb_version");
}

/* ---- LISTEN, on the pool's thread ---- */

static void set_listening(tp__pg_news *n, bool listens) {
  tp__lock_acquire(&n->lock);
  n->listens = listens;
  n->probed_ns = n->heard_ns = 0;
  tp__lock_release(&n->lock);
}

static void listen_ended(tp__pg_work *work) {
  tp__pg_request *r = (tp__pg_request *)(void *)work;
  tp__pg_news *n = r->postgres->news;
  n->is_asked = false;
  n->ask_ns = work->status == TP_OK ? 0 : tp__monotonic_ns() + AGAIN_MS * TP__NS_IN_MS;
  set_listening(n, work->status == TP_OK);
  tp__pg_request_fini(r);
}

/* While there is a watcher, a lost connection is made again. */
static int64_t tick(void *ctx, int64_t now_ns) {
  tp_postgres *pg = ctx;
  tp__pg_news *n = pg->news;
  char sql[64];
  tp__lock_acquire(&n->lock);
  bool is_wanted = n->is_known && n->watchers && !n->listens && !n->is_asked;
  tp__lock_release(&n->lock);
  if (!is_wanted) return INT64_MAX;
  if (now_ns < n->ask_ns) return n->ask_ns;
  n->ask_ns = now_ns + AGAIN_MS * TP__NS_IN_MS; /* when there was no memory */
  snprintf(sql, sizeof sql, "LISTEN %s", n->channel);
  tp__pg_request_init(&n->listen, pg, TP__PG_NEWS, "listen to news of jobs");
  (void)tp__pg_request_add(&n->listen, sql);
  n->listen.work.end = listen_ended;
  n->is_asked = tp__pg_request_submit(&n->listen);
  if (!n->is_asked) tp__pg_request_fini(&n->listen);
  return n->is_asked ? INT64_MAX : n->ask_ns;
}

static void lost(void *ctx, tp__pg_lane lane) {
  const tp_postgres *pg = ctx;
  if (lane == TP__PG_NEWS && !pg->news->is_asked) set_listening(pg->news, false);
}

static void add_locked(tp__pg_news *n, const tp__pg_watcher *by) {
  TP__LOCKED(&n->lock);
  n->number++;
  for (const tp__pg_watcher *w = n->watchers; w; w = w->next)
    if (w != by && w->call) w->call(w->ctx);
}

static void notified(void *ctx, const char *payload) {
  const tp_postgres *pg = ctx;
  tp__pg_news *n = pg->news;
  tp__lock_acquire(&n->lock);
  if (strcmp(payload, n->mark) == 0) n->heard_ns = tp__monotonic_ns();
  else add_locked(n, NULL);
  tp__lock_release(&n->lock);
}

/* ---- NOTIFY ---- */

static void put_notify(const tp__pg_news *n, tp__pg_parameters *p) {
  tp__pg_parameter_text(p, tp_text_of(n->channel));
  tp__pg_parameter_text(p, tp_text_of(n->mark));
}

void tp__pg_news_probe(tp_postgres *pg, tp__pg_request *request) {
  tp__pg_news *n = pg->news;
  put_notify(n, tp__pg_request_add(request, notify));
  tp__lock_acquire(&n->lock);
  n->probed_ns = tp__monotonic_ns();
  tp__lock_release(&n->lock);
}

/* Adds one NOTIFY for all works of a transaction. */
static bool build(void *ctx, tp__pg_lane lane, tp__pg_flight *f) {
  const tp_postgres *pg = ctx;
  bool has_news = false;
  (void)lane;
  for (size_t i = 0; i < f->count; i++) has_news = has_news || f->works[i]->has_news;
  if (!has_news || !pg->news->is_known) return true;
  put_notify(pg->news, f->parameters);
  return tp__pg_flight_send(f, notify, NULL);
}

static void settle(void *ctx, tp__pg_lane lane, tp__pg_flight *f) { (void)ctx, (void)lane, (void)f; }

const tp__pg_class tp__pg_news_class = {
    .build = build, .settle = settle, .tick = tick, .lost = lost, .notified = notified};

/* ---- watching ---- */

static void drop_locked(tp__pg_news *n, const tp__pg_watcher *watcher) {
  TP__LOCKED(&n->lock);
  tp__pg_watcher **at = &n->watchers;
  while (*at && *at != watcher) at = &(*at)->next;
  if (*at) *at = watcher->next;
}

void tp__pg_watch(tp_postgres *pg, tp__pg_watcher *watcher) {
  tp__pg_news *n = pg->news;
  tp__lock_acquire(&n->lock);
  drop_locked(n, watcher);
  watcher->next = n->watchers;
  n->watchers = watcher;
  tp__lock_release(&n->lock);
  tp__pg_pool_wake(pg->pool);
}

void tp__pg_watch_call(tp_postgres *pg, tp__pg_watcher *watcher, void (*call)(void *ctx), void *ctx) {
  tp__lock_acquire(&pg->news->lock);
  watcher->call = call;
  watcher->ctx = ctx;
  tp__lock_release(&pg->news->lock);
}

void tp__pg_unwatch(tp_postgres *pg, const tp__pg_watcher *watcher) {
  tp__lock_acquire(&pg->news->lock);
  drop_locked(pg->news, watcher);
  tp__lock_release(&pg->news->lock);
}

bool tp__pg_news_live(tp_postgres *pg) {
  tp__pg_news *n = pg->news;
  int64_t now_ns = tp__monotonic_ns();
  tp__lock_acquire(&n->lock);
  bool is_live =
      n->listens && n->heard_ns && (n->heard_ns >= n->probed_ns || now_ns - n->probed_ns < HEARING_MS * TP__NS_IN_MS);
  tp__lock_release(&n->lock);
  return is_live;
}

bool tp__pg_news_listens(tp_postgres *pg) {
  tp__lock_acquire(&pg->news->lock);
  bool listens = pg->news->listens;
  tp__lock_release(&pg->news->lock);
  return listens;
}

uint64_t tp__pg_news_number(tp_postgres *pg) {
  tp__lock_acquire(&pg->news->lock);
  uint64_t number = pg->news->number;
  tp__lock_release(&pg->news->lock);
  return number;
}

void tp__pg_news_add(tp_postgres *pg, const tp__pg_watcher *by) {
  tp__lock_acquire(&pg->news->lock);
  add_locked(pg->news, by);
  tp__lock_release(&pg->news->lock);
}
