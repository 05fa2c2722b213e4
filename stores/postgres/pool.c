/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/pool.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/fault.h"

enum {
  CONNECT_S = 5,
  SILENCE_MS = 2000, /* added to statement_ms: the time until a silent connection is given up */
  ENDING_MS = 5000,  /* the time for works that wait at the end */
  RETRY_MS = 10,     /* the pause after a transaction that may succeed when it is tried again */
  BACKOFF_MS = 50,   /* the first pause after a connection that failed; doubled up to the next value */
  BACKOFF_MS_MAX = 1000,
  SKIPPED_MAX = 512,      /* how many works a look for the next transaction may skip */
  FLIGHT_BYTES = 16 << 20 /* a transaction with more bytes takes no further work */
};

typedef enum channel_state {
  CHANNEL_AWAY,       /* there is no connection, or not yet */
  CHANNEL_CONNECTING, /* PQconnectPoll() continues */
  CHANNEL_IDLE,
  CHANNEL_BUSY,    /* a flight is under way */
  CHANNEL_CLEARING /* ROLLBACK is under way */
} channel_state;

/** The connection of a lane. Used by the pool's thread. */
typedef struct channel {
  channel_state state;
  PGconn *connection; /* NULL only in the state AWAY */
  short events;       /* the events that poll() waits for */
  int64_t until_ns;   /* in AWAY and IDLE: nothing is done before this time; else: the connection is given up at this
                         time */
  int64_t backoff_ms;
  bool was_lost;  /* set when the loss was logged */
  bool is_direct; /* a flight has found that no pooler is between */
  tp__pg_prepared prepared;
  tp__pg_flight flight;
} channel;

struct tp__pg_pool {
  /* never changes after new */
  const tp__pg_target *target;
  const tp__pg_class *const *classes;
  void *ctx;
  int64_t timeout_ms, statement_ms;
  char statement_text[16];
  tp_log_fn log;
  void *log_ctx;
  int wake; /* eventfd */
  pthread_t thread;
  /* used by the pool's thread */
  channel channels[TP__PG_LANES];
  tp__pg_parameters parameters;
  tp__pg_work *first, **last; /* works that wait, in their order */
  bool is_ending;
  int64_t end_ns;        /* set while the pool ends: nothing is tried after this time */
  bool prepares_nothing; /* a server did not know a statement that was prepared */
  tp__lock lock;
  /* ---- under lock */
  tp__pg_work *incoming, **incoming_last;
  bool ending, was_awoken;
  void (*then)(void *ctx); /* called at the end of a pool that ended itself */
  void *then_ctx;
  tp_postgres_report report;
};

/* ---- works, from any thread ---- */

void tp__pg_submit(tp__pg_pool *p, tp__pg_work *work) {
  const uint64_t one = 1;
  assert(work->class && work->lane < TP__PG_LANES && work->doing);
  work->next = NULL;
  work->status = TP_OK;
  work->deadline_ns = work->stays ? INT64_MAX : tp__monotonic_ns() + p->timeout_ms * TP__NS_IN_MS;
  tp__lock_acquire(&p->lock);
  *p->incoming_last = work;
  p->incoming_last = &work->next;
  bool wakes = !p->was_awoken;
  p->was_awoken = true;
  tp__lock_release(&p->lock);
  if (wakes)
    (void)!write(p->wake, &one, sizeof one); /* the eventfd cannot be full: it is written at most once before
                                                         each read */
}

tp_status tp__pg_run(tp__pg_pool *p, tp__pg_work *work, tp_fault *fault) {
  if (tp__pg_is_own_thread(p))
    return tp__refuse(fault, TP_ERR_USAGE, p->target->name, "%s: cannot %s in a callback of the database's own thread",
                      p->target->name, work->doing);
  work->end = NULL;
  work->has_ended = false;
  tp__lock_condition_init(&work->changed);
  tp__pg_submit(p, work);
  tp__lock_acquire(&p->lock);
  while (!work->has_ended) tp__lock_condition_wait(&work->changed, &p->lock);
  tp__lock_release(&p->lock);
  tp__lock_condition_fini(&work->changed);
  if (work->status != TP_OK && fault) *fault = work->fault;
  return work->status;
}

void tp__pg_pool_wake(tp__pg_pool *p) {
  const uint64_t one = 1;
  (void)!write(p->wake, &one, sizeof one);
}

static void count(tp__pg_pool *p, uint64_t *counter, uint64_t by) {
  tp__lock_acquire(&p->lock);
  *counter += by;
  tp__lock_release(&p->lock);
}

bool tp__pg_is_own_thread(const tp__pg_pool *p) { return pthread_equal(pthread_self(), p->thread); }

void tp__pg_counts(tp__pg_pool *p, tp_postgres_report *report) {
  tp__lock_acquire(&p->lock);
  *report = p->report;
  tp__lock_release(&p->lock);
}

/* ---- the ends of works ---- */

static void end_work(tp__pg_pool *p, tp__pg_work *work) {
  void (*end)(tp__pg_work *) = work->end;
  count(p, &p->report.operations, 1);
  if (end) {
    end(work);
    return;
  }
  tp__lock_acquire(&p->lock);
  work->has_ended = true;
  tp__lock_condition_signal(&work->changed);
  tp__lock_release(&p->lock);
}

static void fail_work(tp__pg_pool *p, tp__pg_work *work, tp_status status, const char *message, const char *sqlstate) {
  (void)!tp__pg_refuse(p->target, status, work->doing, message, sqlstate, &work->fault);
  work->status = status;
  end_work(p, work);
}

static int64_t deadline_of(const tp__pg_pool *p, const tp__pg_work *work) {
  return p->is_ending && p->end_ns < work->deadline_ns ? p->end_ns : work->deadline_ns;
}

/* Ends a work whose deadline has passed. Its fault has the last failure of its connection or its transaction. */
static void expire_work(tp__pg_pool *p, tp__pg_work *work) {
  char message[256];
  const char *why = work->fault.message[0] ? work->fault.message : "there is no connection yet";
  snprintf(message, sizeof message, "%.160s%s", why,
           work->in_doubt ? "; it is not known whether it was done, since an answer was lost" : "");
  fail_work(p, work, work->status != TP_OK ? work->status : TP_ERR_STORE, message, NULL);
}

static void expire_works(tp__pg_pool *p, int64_t now_ns) {
  tp__pg_work **at = &p->first, *ended = NULL, **ended_last = &ended;
  while (*at) {
    tp__pg_work *work = *at;
    if (deadline_of(p, work) > now_ns) {
      at = &work->next;
      continue;
    }
    *at = work->next;
    work->next = NULL;
    *ended_last = work;
    ended_last = &work->next;
  }
  p->last = at;
  while (ended) {
    tp__pg_work *work = ended;
    ended = work->next;
    expire_work(p, work);
  }
}

/* ---- the log ---- */

void tp__pg_say(tp__pg_pool *p, tp_log_level level, tp_status status, const char *message) {
  const tp_log_record record = {.struct_size = sizeof record,
                                .level = level,
                                .status = status,
                                .unix_ms = tp__wall_ms(),
                                .message = message,
                                .turn_id = {"", 0},
                                .session_id = {"", 0}};
  if (p->log) p->log(p->log_ctx, &record);
}

/* ---- flights ---- */

static void clear_flight(tp__pg_flight *f) {
  for (int i = 0; i < TP__PG_STATEMENTS_MAX; i++) {
    PQclear(f->answers[i]);
    f->answers[i] = NULL;
  }
  f->count = f->bytes = 0;
  f->own_statements = 0;
  f->sent = f->answered = 0;
  f->prepared = NULL;
  f->has_answer = f->has_failed = false;
  f->sqlstate[0] = f->message[0] = '\0';
}

/* Puts the works of a flight back before all others, in their order. */
static void put_back(tp__pg_pool *p, tp__pg_flight *f) {
  for (size_t i = f->count; i > 0; i--) {
    tp__pg_work *work = f->works[i - 1];
    work->next = p->first;
    if (!p->first) p->last = &work->next;
    p->first = work;
  }
  f->count = 0;
}

/* Handles a transaction that failed: its works are tried again, or end. */
static void flight_failed(tp__pg_pool *p, tp__pg_flight *f, tp__pg_meaning meaning, bool in_doubt) {
  tp__pg_work *works[TP__PG_WORKS_MAX];
  size_t size = f->count;
  bool ends = !meaning.is_retried && size == 1;
  const char *sqlstate = f->sqlstate[0] ? f->sqlstate : NULL;
  char message[sizeof f->message];
  memcpy(works, f->works, size * sizeof *works);
  memcpy(message, f->message, sizeof message);
  for (size_t i = 0; i < size; i++) {
    if (in_doubt) works[i]->in_doubt = true;
    if (!meaning.is_retried) works[i]->is_single = true;
    works[i]->status = meaning.status;
    tp__make_printable(message);
    snprintf(works[i]->fault.message, sizeof works[i]->fault.message, "%s", message);
  }
  count(p, &p->report.retries, ends ? 0 : 1);
  if (!ends) put_back(p, f);
  f->count = 0;
  if (ends) fail_work(p, works[0], meaning.status, message, sqlstate);
}

static void lose(tp__pg_pool *p, channel *l, const char *why) {
  char message[2 * TP_FAULT_MESSAGE_SIZE];
  tp_fault fault = {0};
  bool had_flight = l->state == CHANNEL_BUSY, was_there = l->state != CHANNEL_CONNECTING && l->state != CHANNEL_AWAY;
  int64_t wait_ms = l->backoff_ms;
  (void)!tp__pg_refuse(p->target, TP_ERR_STORE, was_there ? "go on" : "connect", why, NULL, &fault);
  snprintf(l->flight.message, sizeof l->flight.message, "%s", why);
  l->flight.message[strcspn(l->flight.message, "\n")] = '\0';
  tp__pg_work *waiting = p->first;
  for (; waiting && !was_there; waiting = waiting->next) { /* keeps the reason, in case that no connection comes in
                                                              time */
    if (waiting->lane != (tp__pg_lane)(l - p->channels)) continue;
    waiting->status = TP_ERR_STORE;
    snprintf(waiting->fault.message, sizeof waiting->fault.message, "%s", l->flight.message);
  }
  PQfinish(l->connection);
  l->connection = NULL;
  l->state = CHANNEL_AWAY;
  l->until_ns = tp__monotonic_ns() + wait_ms * TP__NS_IN_MS;
  l->backoff_ms = wait_ms == 0 ? BACKOFF_MS : wait_ms * 2 > BACKOFF_MS_MAX ? BACKOFF_MS_MAX : wait_ms * 2;
  if (was_there) count(p, &p->report.lost, 1);
  if (!l->was_lost) {
    snprintf(message, sizeof message, "a connection is lost, and is tried again: %s", fault.message);
    tp__pg_say(p, TP_LOG_WARNING, TP_ERR_STORE, message);
  }
  l->was_lost = true;
  for (size_t i = 0; p->classes[i]; i++)
    if (p->classes[i]->lost) p->classes[i]->lost(p->ctx, (tp__pg_lane)(l - p->channels));
  l->flight.sqlstate[0] = '\0';
  if (had_flight) flight_failed(p, &l->flight, tp__pg_meaning_of(NULL), true);
  clear_flight(&l->flight);
}

static const char *libpq_error(const channel *l) {
  const char *message = PQerrorMessage(l->connection);
  return message && message[0] ? message : "the connection was closed";
}

/* ---- statements that are prepared ---- */

enum { NAME_SIZE = 32 };

static void write_name(char ret_name[NAME_SIZE], uint64_t hash) {
  snprintf(ret_name, NAME_SIZE, "turnphase_%016llx", (unsigned long long)hash);
}

/* FNV-1a; never 0. */
static uint64_t hash_of(const char *sql) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (; *sql; sql++) hash = (hash ^ (unsigned char)*sql) * UINT64_C(1099511628211);
  return hash ? hash : 1;
}

static bool is_prepared(const tp__pg_flight *f, uint64_t hash) {
  for (size_t i = 0; i < f->prepared->count; i++)
    if (f->prepared->hashes[i] == hash) return true;
  for (int i = 0; i < f->sent; i++)
    if (f->preparing[i] == hash) return true;
  return false;
}

/* Prepares the statement, where there is room for it. @return false: it is not prepared. */
static bool prepare(tp__pg_flight *f, const char *sql, uint64_t hash) {
  char name[NAME_SIZE];
  enum { LEFT_MIN = TP__PG_OWN_STATEMENTS_MAX / 2 }; /* for the statements that come after it */
  bool has_room = f->prepared->count < TP__PG_PREPARED_MAX && f->sent + LEFT_MIN < TP__PG_STATEMENTS_MAX;
  write_name(name, hash);
  if (!has_room || PQsendPrepare(f->connection, name, sql, 0, NULL) != 1) return false;
  f->preparing[f->sent++] = hash;
  return true;
}

/* The answer to a statement that prepares another one has come. */
static void note_prepared(tp__pg_flight *f, int statement) {
  uint64_t hash = f->prepared ? f->preparing[statement] : 0;
  if (!hash || f->prepared->count == TP__PG_PREPARED_MAX) return;
  if (PQresultStatus(f->answers[statement]) == PGRES_COMMAND_OK) f->prepared->hashes[f->prepared->count++] = hash;
}

bool tp__pg_flight_send_given(tp__pg_flight *f, const char *sql, const tp__pg_parameters *parameters, int *ret_index) {
  char name[NAME_SIZE];
  uint64_t hash = f->prepared && parameters->count > 0 ? hash_of(sql) : 0;
  bool prepared = hash && (is_prepared(f, hash) || prepare(f, sql, hash));
  assert(f->sent < TP__PG_STATEMENTS_MAX);
  f->preparing[f->sent] = 0;
  if (ret_index) *ret_index = f->sent;
  if (prepared) write_name(name, hash);
  bool sent = prepared ? tp__pg_parameters_send_prepared(parameters, f->connection, name)
                       : tp__pg_parameters_send(parameters, f->connection, sql);
  if (sent) f->sent++;
  return sent;
}

bool tp__pg_flight_send(tp__pg_flight *f, const char *sql, int *ret_index) {
  bool sent = tp__pg_flight_send_given(f, sql, f->parameters, ret_index);
  tp__pg_parameters_clear(f->parameters);
  return sent;
}

/* Sends the settings with each transaction, and leaves none in the server's session, which pgbouncer may share with
 * others. */
static bool send_settings(tp__pg_pool *p, tp__pg_flight *f) {
  static const char settings[] =
      "SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', $1::text, true),"
      " set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('synchronous_commit',"
      " CASE WHEN $2::bigint <> 0 THEN 'off' WHEN current_setting('synchronous_commit') = 'off' THEN 'on'"
      " ELSE current_setting('synchronous_commit') END, true), pg_backend_pid()::bigint";
  bool is_async = true;
  for (size_t i = 0; i < f->count; i++) is_async = is_async && f->works[i]->is_async;
  tp__pg_parameter_text(&p->parameters, tp_text_of(p->statement_text));
  tp__pg_parameter_int(&p->parameters, is_async);
  return tp__pg_flight_send(f, settings, &f->settings);
}

/* Reads and writes until poll() has to wait. */
static void flush(tp__pg_pool *p, channel *l) {
  int left = PQflush(l->connection);
  if (left < 0) {
    lose(p, l, libpq_error(l));
    return;
  }
  l->events = left ? POLLIN | POLLOUT : POLLIN;
}

static void start_silence(const tp__pg_pool *p, channel *l) {
  l->until_ns = tp__monotonic_ns() + (p->statement_ms + SILENCE_MS) * TP__NS_IN_MS;
}

static bool build_flight(const tp__pg_pool *p, tp__pg_lane lane, tp__pg_flight *f) {
  bool built = true;
  for (size_t i = 0; built && p->classes[i]; i++) built = p->classes[i]->build(p->ctx, lane, f);
  return built;
}

static void send_flight(tp__pg_pool *p, channel *l, tp__pg_lane lane) {
  tp__pg_flight *f = &l->flight;
  f->connection = l->connection;
  f->parameters = &p->parameters;
  f->prepared = l->is_direct && !p->prepares_nothing ? &l->prepared : NULL;
  tp__pg_parameters_clear(&p->parameters);
  l->state = CHANNEL_BUSY;
  start_silence(p, l);
  bool sent = tp__pg_flight_send(f, "BEGIN ISOLATION LEVEL READ COMMITTED", NULL) && send_settings(p, f) &&
              build_flight(p, lane, f) && tp__pg_flight_send(f, "COMMIT", NULL) && PQpipelineSync(l->connection) == 1;
  tp__pg_parameters_clear(&p->parameters);
  if (sent) flush(p, l);
  else lose(p, l, libpq_error(l));
}

/* ---- the choice of the next works ---- */

static bool has_key(const tp__pg_flight *f, uint64_t key) {
  for (size_t i = 0; i < f->count; i++)
    if (f->works[i]->key == key) return true;
  return false;
}

static bool is_under_way(const tp__pg_pool *p, uint64_t key) {
  for (int i = 0; key && i < TP__PG_LANES; i++)
    if (has_key(&p->channels[i].flight, key)) return true;
  return false;
}

static bool is_under_way_in(const tp__pg_pool *p, tp__pg_lane lane) { return p->channels[lane].flight.count > 0; }

static bool is_anything_under_way(const tp__pg_pool *p) {
  for (int i = 0; i < TP__PG_LANES; i++)
    if (is_under_way_in(p, (tp__pg_lane)i)) return true;
  return false;
}

static bool work_fits(const tp__pg_flight *f, const tp__pg_work *work) {
  if (f->count == 0) return true;
  return !work->is_single && !work->exclusive && !f->works[0]->is_single && !f->works[0]->exclusive &&
         f->count < TP__PG_WORKS_MAX && f->bytes + work->bytes <= FLIGHT_BYTES &&
         f->own_statements + work->statements <= TP__PG_OWN_STATEMENTS_MAX;
}

/* Records, LISTEN, and all other works do not wait for each other. */
static bool is_of_its_own(tp__pg_lane lane) { return lane == TP__PG_RECORDS || lane == TP__PG_NEWS; }

/* Takes the works that a lane may do now from those that wait. */
static void choose(tp__pg_pool *p, tp__pg_lane lane, int64_t now_ns) {
  uint64_t skipped[SKIPPED_MAX];
  size_t skipped_count = 0;
  tp__pg_flight *f = &p->channels[lane].flight;
  assert(f->count == 0);
  for (tp__pg_work **at = &p->first; *at && skipped_count < SKIPPED_MAX && f->count < TP__PG_WORKS_MAX;) {
    tp__pg_work *work = *at;
    bool is_apart = work->lane != lane && (is_of_its_own(work->lane) || is_of_its_own(lane));
    if (is_apart || work->not_before_ns > now_ns) {
      at = &work->next;
      continue;
    }
    bool goes = work->lane == lane && work_fits(f, work) && !is_under_way(p, work->key);
    for (size_t i = 0; goes && work->key && i < skipped_count; i++) goes = skipped[i] != work->key;
    if (work->exclusive && (skipped_count > 0 || is_under_way_in(p, TP__PG_WRITES) || is_under_way_in(p, TP__PG_READS)))
      goes = false;
    if (goes) {
      *at = work->next;
      if (!*at) p->last = at;
      f->works[f->count++] = work;
      f->bytes += work->bytes;
      f->own_statements += work->statements;
    } else {
      skipped[skipped_count++] = work->key;
      at = &work->next;
      if (work->exclusive) break;
    }
  }
}

static bool is_wanted(const tp__pg_pool *p, tp__pg_lane lane, int64_t now_ns) {
  for (const tp__pg_work *work = p->first; work; work = work->next)
    if (work->lane == lane && work->not_before_ns <= now_ns) return true;
  return false;
}

/* ---- channels ---- */

static void connected(tp__pg_pool *p, channel *l) {
  bool works = PQsetnonblocking(l->connection, 1) == 0 && PQenterPipelineMode(l->connection) == 1;
  if (!works) {
    lose(p, l, libpq_error(l));
    return;
  }
  l->state = CHANNEL_IDLE;
  l->events = POLLIN;
  l->until_ns = 0;
  l->is_direct = false;
  l->prepared.count = 0;
  count(p, &p->report.connections, 1);
  if (l->was_lost) tp__pg_say(p, TP_LOG_INFO, TP_OK, "there is a connection to the database again");
  l->was_lost = false;
}

static void go_on_connecting(tp__pg_pool *p, channel *l) {
  switch (PQconnectPoll(l->connection)) {
    case PGRES_POLLING_OK:
      connected(p, l);
      break;
    case PGRES_POLLING_READING:
      l->events = POLLIN;
      break;
    case PGRES_POLLING_WRITING:
      l->events = POLLOUT;
      break;
    default:
      lose(p, l, libpq_error(l));
      break;
  }
}

static bool is_committed(const tp__pg_flight *f) {
  if (f->has_failed || f->answered != f->sent) return false;
  return strcmp(PQcmdStatus(f->answers[f->sent - 1]), "COMMIT") == 0;
}

/* Ends the works of a committed flight. Their ends may submit other works, or end the pool, so the flight is over
 * before; only its answers stay. */
static void flight_committed(tp__pg_pool *p, channel *l, tp__pg_lane lane) {
  enum { BACKEND = 4 }; /* the column of the settings */
  tp__pg_flight *f = &l->flight, ended = {.count = 0};
  l->is_direct = tp__pg_int(f->answers[f->settings], 0, BACKEND) == PQbackendPID(l->connection);
  for (size_t i = 0; i < f->count; i++) {
    f->works[i]->status = TP_OK;
    f->works[i]->fault = (tp_fault){0};
  }
  for (size_t i = 0; p->classes[i]; i++) p->classes[i]->settle(p->ctx, lane, f);
  ended.count = f->count;
  memcpy(ended.works, f->works, f->count * sizeof *f->works);
  memcpy(ended.answers, f->answers, sizeof f->answers);
  memset(f->answers, 0, sizeof f->answers);
  f->count = 0;
  for (size_t i = 0; i < ended.count; i++)
    if (ended.works[i]->again) f->works[f->count++] = ended.works[i];
  put_back(p, f);
  clear_flight(f);
  l->state = CHANNEL_IDLE;
  l->until_ns = l->backoff_ms = 0;
  count(p, &p->report.transactions, 1);
  for (size_t i = 0; i < ended.count; i++) {
    if (ended.works[i]->again) ended.works[i]->again = false;
    else end_work(p, ended.works[i]);
  }
  clear_flight(&ended);
}

/* Whether the error is about a prepared statement: the server does not know it, has another one of its name, or its
 * tables have changed since it was planned. */
static bool is_of_prepared(const char *sqlstate) {
  return strcmp(sqlstate, "26000") == 0 || strcmp(sqlstate, "42P05") == 0 || strcmp(sqlstate, "0A000") == 0;
}

/* Handles a flight to which the server has answered completely. */
static void flight_answered(tp__pg_pool *p, channel *l) {
  tp__pg_flight *f = &l->flight;
  tp__pg_lane lane = (tp__pg_lane)(l - p->channels);
  if (l->state == CHANNEL_CLEARING) {
    clear_flight(f);
    l->state = CHANNEL_IDLE;
    l->until_ns = tp__monotonic_ns() + RETRY_MS * TP__NS_IN_MS;
    return;
  }
  if (is_committed(f)) {
    flight_committed(p, l, lane);
    return;
  }
  tp__pg_meaning meaning = tp__pg_meaning_of(f->has_failed ? f->sqlstate : "XX000");
  if (f->prepared && is_of_prepared(f->sqlstate)) {
    p->prepares_nothing = true;
    meaning = (tp__pg_meaning){TP_ERR_STORE, .is_retried = true, .reconnects = true};
  }
  if (meaning.reconnects) {
    char message[sizeof f->message];
    memcpy(message, f->message, sizeof message);
    lose(p, l, message);
    return;
  }
  flight_failed(p, f, meaning, false);
  if (PQtransactionStatus(l->connection) != PQTRANS_IDLE) {
    /* After a failed transaction the server must end it first. */
    clear_flight(&l->flight);
    l->flight.connection = l->connection;
    l->flight.parameters = &p->parameters;
    l->state = CHANNEL_CLEARING;
    start_silence(p, l);
    if (tp__pg_flight_send(&l->flight, "ROLLBACK", NULL) && PQpipelineSync(l->connection) == 1) flush(p, l);
    else lose(p, l, libpq_error(l));
    return;
  }
  clear_flight(f);
  l->state = CHANNEL_IDLE;
  l->until_ns = tp__monotonic_ns() + RETRY_MS * TP__NS_IN_MS;
}

static void note_failure(tp__pg_flight *f, const PGresult *answer) {
  const char *sqlstate = PQresultErrorField(answer, PG_DIAG_SQLSTATE);
  const char *message = PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY);
  if (f->has_failed) return;
  f->has_failed = true;
  snprintf(f->sqlstate, sizeof f->sqlstate, "%s", sqlstate ? sqlstate : "");
  snprintf(f->message, sizeof f->message, "%s", message ? message : "the connection was closed");
}

/* @return false: nothing more can be read now. */
static bool read_answer(tp__pg_pool *p, channel *l) {
  tp__pg_flight *f = &l->flight;
  if (PQisBusy(l->connection)) return false;
  PGresult *answer = PQgetResult(l->connection);
  ExecStatusType kind = PQresultStatus(answer);
  if (!answer) {
    if (!f->has_answer) {
      lose(p, l, libpq_error(l));
      return false;
    }
    f->has_answer = false;
    note_prepared(f, f->answered);
    f->answered++;
    return true;
  }
  if (kind == PGRES_PIPELINE_SYNC) {
    PQclear(answer);
    flight_answered(p, l);
    return false;
  }
  if (kind == PGRES_FATAL_ERROR) note_failure(f, answer);
  f->has_answer = true;
  if (f->answered >= TP__PG_STATEMENTS_MAX || f->answers[f->answered]) PQclear(answer);
  else f->answers[f->answered] = answer;
  return true;
}

static void take_notifications(tp__pg_pool *p, channel *l) {
  PGnotify *got;
  while ((got = PQnotifies(l->connection))) {
    for (size_t i = 0; p->classes[i]; i++)
      if (p->classes[i]->notified) p->classes[i]->notified(p->ctx, got->extra);
    PQfreemem(got);
  }
}

static void use_channel(tp__pg_pool *p, channel *l, short got) {
  if (l->state == CHANNEL_CONNECTING) {
    go_on_connecting(p, l);
    return;
  }
  if (!PQconsumeInput(l->connection)) {
    /* Reads on, since a server may have sent a reason before it closed. */
    while (l->state == CHANNEL_BUSY && read_answer(p, l)) continue;
    if (l->connection) lose(p, l, libpq_error(l));
    return;
  }
  if (l == &p->channels[TP__PG_NEWS]) take_notifications(p, l);
  if (l->state == CHANNEL_IDLE) {
    if (got & (POLLHUP | POLLERR)) lose(p, l, "the connection was closed");
    return;
  }
  start_silence(p, l);
  if (got & POLLOUT) flush(p, l);
  while ((l->state == CHANNEL_BUSY || l->state == CHANNEL_CLEARING) && read_answer(p, l)) continue;
}

static void begin_what_waits(tp__pg_pool *p, int64_t now_ns) {
  for (int i = 0; i < TP__PG_LANES; i++) {
    channel *l = &p->channels[i];
    bool is_free = (l->state == CHANNEL_IDLE || l->state == CHANNEL_AWAY) && l->until_ns <= now_ns;
    if (!is_free || !is_wanted(p, (tp__pg_lane)i, now_ns)) continue;
    if (l->state == CHANNEL_AWAY) {
      l->connection = tp__pg_connect_start(p->target, CONNECT_S);
      l->state = CHANNEL_CONNECTING;
      l->until_ns = tp__monotonic_ns() + CONNECT_S * 1000 * TP__NS_IN_MS;
      l->events = POLLOUT;
      if (!l->connection) lose(p, l, "no memory for a connection");
      else if (PQstatus(l->connection) == CONNECTION_BAD) lose(p, l, libpq_error(l));
      continue;
    }
    l->until_ns = 0;
    choose(p, (tp__pg_lane)i, now_ns);
    if (l->flight.count > 0) send_flight(p, l, (tp__pg_lane)i);
  }
}

/* ---- the thread ---- */

static void take_incoming(tp__pg_pool *p) {
  tp__lock_acquire(&p->lock);
  if (p->incoming) {
    *p->last = p->incoming;
    p->last = p->incoming_last;
    p->incoming = NULL;
    p->incoming_last = &p->incoming;
  }
  if (p->ending && !p->is_ending) {
    p->is_ending = true;
    p->end_ns = tp__monotonic_ns() + ENDING_MS * TP__NS_IN_MS;
  }
  tp__lock_release(&p->lock);
}

static bool is_done(const tp__pg_pool *p) { return p->is_ending && !p->first && !is_anything_under_way(p); }

/* When the thread has something to do next without an event. */
static int64_t next_ns(const tp__pg_pool *p, int64_t tick_ns) {
  int64_t next = tick_ns, now_ns = tp__monotonic_ns();
  for (const tp__pg_work *work = p->first; work; work = work->next) {
    if (deadline_of(p, work) < next) next = deadline_of(p, work);
    if (work->not_before_ns > now_ns && work->not_before_ns < next) next = work->not_before_ns;
  }
  for (int i = 0; i < TP__PG_LANES; i++) {
    const channel *l = &p->channels[i];
    bool waits = l->state == CHANNEL_CONNECTING || l->state == CHANNEL_BUSY || l->state == CHANNEL_CLEARING;
    if ((waits || (l->until_ns > 0 && is_wanted(p, (tp__pg_lane)i, now_ns))) && l->until_ns < next) next = l->until_ns;
  }
  if (p->is_ending && p->end_ns < next) next = p->end_ns;
  return next;
}

static void sleep_until(tp__pg_pool *p, int64_t until_ns) {
  struct pollfd fds[TP__PG_LANES + 1] = {{.fd = p->wake, .events = POLLIN}};
  int64_t left_ns = until_ns - tp__monotonic_ns();
  int wait_ms = until_ns == INT64_MAX           ? -1
                : left_ns <= 0                  ? 0
                : left_ns > 3600 * 1000000000LL ? 3600000
                                                : (int)((left_ns + TP__NS_IN_MS - 1) / TP__NS_IN_MS);
  for (int i = 0; i < TP__PG_LANES; i++) {
    const channel *l = &p->channels[i];
    fds[i + 1] = (struct pollfd){.fd = l->connection ? PQsocket(l->connection) : -1, .events = l->events};
  }
  if (poll(fds, TP__PG_LANES + 1, wait_ms) <= 0) return; /* on EINTR the loop comes here again */
  if (fds[0].revents) {
    uint64_t number;
    (void)!read(p->wake, &number, sizeof number);
    tp__lock_acquire(&p->lock);
    p->was_awoken = false;
    tp__lock_release(&p->lock);
  }
  for (int i = 0; i < TP__PG_LANES; i++)
    if (fds[i + 1].revents && p->channels[i].connection) use_channel(p, &p->channels[i], fds[i + 1].revents);
}

static void fini(tp__pg_pool *p) {
  for (int i = 0; i < TP__PG_LANES; i++) {
    clear_flight(&p->channels[i].flight);
    PQfinish(p->channels[i].connection);
  }
  tp__pg_parameters_fini(&p->parameters);
  if (p->wake >= 0) close(p->wake);
  tp__lock_fini(&p->lock);
  tp__heap_free(p, sizeof *p);
}

static int64_t tick(const tp__pg_pool *p, int64_t now_ns) {
  int64_t first_ns = INT64_MAX;
  for (size_t i = 0; p->classes[i]; i++) {
    int64_t at_ns = p->classes[i]->tick ? p->classes[i]->tick(p->ctx, now_ns) : INT64_MAX;
    if (at_ns < first_ns) first_ns = at_ns;
  }
  return first_ns;
}

static void *run_pool(void *ctx) {
  tp__pg_pool *p = ctx;
  for (;;) {
    take_incoming(p);
    int64_t now_ns = tp__monotonic_ns(), tick_ns = tick(p, now_ns);
    take_incoming(p);
    expire_works(p, now_ns);
    for (int i = 0; i < TP__PG_LANES; i++) {
      channel *l = &p->channels[i];
      bool waits = l->state == CHANNEL_CONNECTING || l->state == CHANNEL_BUSY || l->state == CHANNEL_CLEARING;
      if (waits && l->until_ns <= now_ns) lose(p, l, "the server did not answer in time");
    }
    if (p->is_ending && p->end_ns <= now_ns) /* gives up the flights under way, which then expire */
      for (int i = 0; i < TP__PG_LANES; i++)
        if (p->channels[i].state == CHANNEL_BUSY) lose(p, &p->channels[i], "it did not end in time");
    begin_what_waits(p, now_ns);
    if (is_done(p)) break;
    sleep_until(p, next_ns(p, tick_ns));
  }
  tp__lock_acquire(&p->lock);
  void (*then)(void *) = p->then;
  void *then_ctx = p->then_ctx;
  tp__lock_release(&p->lock);
  if (!then) return NULL;
  fini(p);
  then(then_ctx);
  return NULL;
}

/* ---- life ---- */

tp__pg_pool *tp__pg_pool_new(const tp__pg_target *target, const tp_postgres_options *options, PGconn *connection,
                             const tp__pg_class *const *classes, void *ctx) {
  tp__pg_pool *p = tp__heap_alloc(sizeof *p);
  if (!p) {
    PQfinish(connection);
    return NULL;
  }
  p->target = target;
  p->classes = classes;
  p->ctx = ctx;
  p->timeout_ms = options->timeout_ms;
  p->statement_ms = options->statement_ms;
  p->log = options->log;
  p->log_ctx = options->log_ctx;
  p->last = &p->first;
  p->incoming_last = &p->incoming;
  snprintf(p->statement_text, sizeof p->statement_text, "%u", options->statement_ms);
  tp__lock_init(&p->lock, TP__LOCK_postgres);
  p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  p->channels[TP__PG_WRITES].connection = connection;
  p->channels[TP__PG_WRITES].state = CHANNEL_IDLE;
  connected(p, &p->channels[TP__PG_WRITES]);
  if (p->wake >= 0 && tp__thread_spawn(&p->thread, run_pool, p) == 0) return p;
  fini(p);
  return NULL;
}

void tp__pg_pool_free(tp__pg_pool *p, void (*then)(void *ctx), void *ctx) {
  const uint64_t one = 1;
  if (!p) {
    then(ctx);
    return;
  }
  bool is_own = tp__pg_is_own_thread(p);
  tp__lock_acquire(&p->lock);
  p->ending = true;
  if (is_own) {
    p->then = then;
    p->then_ctx = ctx;
  }
  tp__lock_release(&p->lock);
  if (is_own) {
    pthread_detach(p->thread);
    return;
  }
  (void)!write(p->wake, &one, sizeof one);
  pthread_join(p->thread, NULL);
  fini(p);
  then(ctx);
}
