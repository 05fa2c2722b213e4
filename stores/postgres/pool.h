/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: the connections to a database and the one thread that uses them. Any thread submits works. The pool's thread
 * takes as many waiting works as fit, and sends their statements in one transaction (a "flight"), in pipeline mode,
 * with one round trip. Works that come meanwhile go into the next transaction. No work waits for time to pass, unless
 * it has not_before_ns. There are four lanes, for writing, for reading only, for records, and for LISTEN. Each has a
 * connection, which is made when it is needed, and at most one transaction under way.
 *
 * Statements are prepared only on a connection that leads directly to the server: then the server's process has the
 * process number that it reported at the connect. A pooler such as pgbouncer shares the server's session, with its
 * prepared statements, among its clients.
 *
 * Works with the same key (a session) are done in the order of arrival, one in each transaction. An exclusive work
 * waits for all earlier works, and has a transaction of its own.
 *
 * A failed transaction is tried again when it may succeed (serialization, lock, lost connection), until the deadline of
 * each of its works. Otherwise each work is tried by itself, so that a work that cannot be written does not fail
 * others. When a connection is lost after COMMIT may have been sent, the works are in doubt: their class must find out
 * whether they were done before it does them again. Lock: the pool's, under which nothing is called. */
#ifndef TP__POSTGRES_POOL_H
#define TP__POSTGRES_POOL_H

#include "stores/postgres/connection.h"
#include "stores/postgres/parameters.h"
#include "support/lock.h"
#include "turnphase/postgres.h"

typedef enum tp__pg_lane { TP__PG_WRITES, TP__PG_READS, TP__PG_RECORDS, TP__PG_NEWS, TP__PG_LANES } tp__pg_lane;

enum {
  TP__PG_WORKS_MAX = 128,
  TP__PG_STATEMENTS_MAX = 128,
  TP__PG_OWN_STATEMENTS_MAX = 64,
  TP__PG_PREPARED_MAX = 64 /* statements of a connection */
};

struct tp__pg_class;

typedef struct tp__pg_work {
  const struct tp__pg_class *class; /* the class, which knows its meaning */
  tp__pg_lane lane;
  uint64_t key;    /* works with the same key are done in order; 0: it needs no order */
  size_t bytes;    /* about how many bytes are sent for it */
  int statements;  /* statements that are only for this work */
  int64_t process; /* the process whose lease must last while it is done; 0: none */
  const char *doing;
  bool exclusive;
  bool is_async;         /* it may be acknowledged before it is on the disk, if all works of its transaction may */
  int64_t not_before_ns; /* it is not done before this time; 0: at once */
  bool stays;            /* it has no deadline: it is tried until the pool ends */
  bool has_news;         /* other processes are notified when it is committed (news.h) */
  /** Called at its end, on the pool's thread, without a lock. The work belongs to the submitter again. NULL: a thread
   *  waits for it. */
  void (*end)(struct tp__pg_work *work);
  /** Set by settle: nothing was done, and the work is tried again. */
  bool again;
  /* the result */
  tp_status status;
  tp_fault fault;
  /* ---- used by the pool's thread after the submission */
  bool in_doubt;  /* set when it may have been committed */
  bool is_single; /* set when it failed together with others, and is tried by itself */
  int64_t deadline_ns;
  struct tp__pg_work *next;
  /* ---- under the pool's lock */
  bool has_ended;
  tp__lock_condition changed; /* signalled for a work that a thread waits for */
} tp__pg_work;

/** The statements that the server has planned for a connection, by a hash of their text, which is in their names. */
typedef struct tp__pg_prepared {
  uint64_t hashes[TP__PG_PREPARED_MAX];
  size_t count;
} tp__pg_prepared;

/** The works of one transaction, its statements, and their answers once it is committed. */
typedef struct tp__pg_flight {
  tp__pg_work *works[TP__PG_WORKS_MAX];
  size_t count, bytes;
  int own_statements; /* the number of own statements of all works */
  PGconn *connection;
  tp__pg_parameters *parameters;             /* cleared by each send */
  int sent, answered;                        /* statements */
  int settings;                              /* the index of the statement that says whose connection it is */
  tp__pg_prepared *prepared;                 /* of the connection; NULL: nothing may be prepared there */
  uint64_t preparing[TP__PG_STATEMENTS_MAX]; /* the hash of what this statement prepares; 0: it prepares nothing */
  bool has_answer;                           /* of the statement that is read */
  PGresult *answers[TP__PG_STATEMENTS_MAX];
  char sqlstate[6]; /* that of the first statement that failed; empty: none has */
  bool has_failed;
  char message[256];
} tp__pg_flight;

/** A kind of works. A flight has works of several classes: each function handles only the works of its own class. */
typedef struct tp__pg_class {
  /** Sends the statements of a flight by tp__pg_flight_send(). @return false: no memory, or no connection. */
  bool (*build)(void *ctx, tp__pg_lane lane, tp__pg_flight *flight);
  /** Called when the transaction is committed: sets the status of each work, which is TP_OK at first. The answers are
   *  valid until the works have ended. */
  void (*settle)(void *ctx, tp__pg_lane lane, tp__pg_flight *flight);
  /** Called before the pool's thread sleeps; may submit works. @return when it must be called again; INT64_MAX: only
   *  after a work. May be NULL. */
  int64_t (*tick)(void *ctx, int64_t now_ns);
  /** Called when a lane has lost its connection. May be NULL. */
  void (*lost)(void *ctx, tp__pg_lane lane);
  /** Called when a NOTIFY has come. May be NULL. */
  void (*notified)(void *ctx, const char *payload);
} tp__pg_class;

typedef struct tp__pg_pool tp__pg_pool;

/** Starts the thread.
 *  @param connection  taken: the first connection of the lane that writes.
 *  @param options     only read now; its strings are not used.
 *  @param classes     ends with NULL. For each transaction the classes are called in this order, with ctx.
 *  @return NULL: no memory, no descriptor or no thread; the connection is closed. */
tp__pg_pool *tp__pg_pool_new(const tp__pg_target *target, const tp_postgres_options *options, PGconn *connection,
                             const tp__pg_class *const *classes, void *ctx);
/** Does the waiting works, for at most 5 s, and ends the thread; works that are left fail with TP_ERR_STORE. On the
 *  pool's own thread, in the end of a work, it returns at once.
 *  @param then  called when the pool is gone, on this thread or the pool's. Accepts NULL for the pool. */
void tp__pg_pool_free(tp__pg_pool *pool, void (*then)(void *ctx), void *ctx);
/** Submits a work. Any thread; blocks: no. */
void tp__pg_submit(tp__pg_pool *pool, tp__pg_work *work);
/** Submits and waits. @return the work's status; TP_ERR_USAGE on the pool's own thread. */
tp_status tp__pg_run(tp__pg_pool *pool, tp__pg_work *work, tp_fault *fault);
/** Makes the pool's thread call tick() of each class. Any thread; blocks: no. */
void tp__pg_pool_wake(tp__pg_pool *pool);
/** Whether the calling thread is the pool's. */
bool tp__pg_is_own_thread(const tp__pg_pool *pool);
void tp__pg_counts(tp__pg_pool *pool, tp_postgres_report *report);

/** Sends a statement with the flight's parameters, and clears these.
 *  @param ret_index  the index of its answer; set also on failure. */
bool tp__pg_flight_send(tp__pg_flight *flight, const char *sql, int *ret_index);
/** The same with parameters of the caller, which are kept. */
bool tp__pg_flight_send_given(tp__pg_flight *flight, const char *sql, const tp__pg_parameters *parameters,
                              int *ret_index);
/** Writes to the log of the database. On any thread, without a lock. */
void tp__pg_say(tp__pg_pool *pool, tp_log_level level, tp_status status, const char *message);

#endif
