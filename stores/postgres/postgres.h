/* SPDX-License-Identifier: Apache-2.0
 *
 * postgres: a database: its pool, its statements, and which sessions this process has claimed. history.c makes the
 * works of a history; what the pool's thread does with them is in operations.c. */
#ifndef TP__POSTGRES_H
#define TP__POSTGRES_H

#include "stores/postgres/messages.h"
#include "stores/postgres/pool.h"
#include "support/references.h"

/** Statements, which postgres.c expands once. */
typedef enum tp__pg_statement {
  TP__PG_BEAT,
  TP__PG_SWEEP,
  TP__PG_LEAVE,
  TP__PG_ADD_SESSIONS,
  TP__PG_LOCK_SESSIONS,
  TP__PG_CLAIM,
  TP__PG_CLAIMED_MESSAGES,
  TP__PG_APPEND,
  TP__PG_PROVE,
  TP__PG_DROP_EMPTY,
  TP__PG_DELETE,
  TP__PG_HOLDERS,
  TP__PG_MESSAGES,
  TP__PG_LIST,
  TP__PG_STATEMENTS
} tp__pg_statement;
extern const char *const tp__pg_history_sql[TP__PG_STATEMENTS];

/** A runtime of this process that has, or had a moment ago, running turns, or that has a store open. */
typedef struct tp__pg_lease {
  int64_t process;    /* its process_run_id */
  int64_t end_ns;     /* on our clock: at the server it ends no earlier */
  int64_t renewed_ns; /* its end, once the transaction that renews it is committed; 0: none does */
  bool leaves;        /* a transaction that deletes its row is under way */
  bool is_held;       /* a store of this runtime is open */
} tp__pg_lease;

/** A session that a running turn of this process has. */
typedef struct tp__pg_claimed {
  int64_t process;
  uint64_t number, fence;
} tp__pg_claimed;

typedef enum tp__pg_kind {
  TP__PG_OF_CLAIM,
  TP__PG_OF_APPEND, /* and of release: of no messages */
  TP__PG_OF_DELETE,
  TP__PG_OF_BEAT,  /* renews leases, or ends those that no turn needs */
  TP__PG_OF_LEAVE, /* ends all leases */
  TP__PG_OF_HOLD,  /* a store of a runtime is opened: its lease is kept, also without turns */
  TP__PG_OF_UNHOLD,
  TP__PG_OF_READ,
  TP__PG_OF_LIST
} tp__pg_kind;

typedef struct tp__pg_operation {
  tp__pg_work work; /* first */
  tp_postgres *postgres;
  tp__pg_kind kind;
  tp_text tenant, session; /* borrowed as the request is, or in `names` */
  char *names;             /* of the operation; NULL: none */
  bool has_token;          /* of what reads messages: they are read before the rows go; else it gets a copy of them */
  tp_token token;
  /* of a claim */
  int64_t process;
  uint64_t number, after;
  tp_history_claim *ret_claim;                       /* under the database's lock: NULL once its turn has left */
  tp_history_claim claim;                            /* that was made; of an append: which it has */
  struct tp__pg_operation *before_open, *after_open; /* of loads with a token; under the database's lock */
  bool has_left;                                     /* likewise: its turn does not wait any more */
  /* of a claim and a read: the messages */
  PGresult *rows; /* of the flight until settle has returned, then the operation's, if no token completes it */
  int first_row, row_count;
  /* of an append */
  bool has_claim;
  int64_t batch; /* its number */
  tp__pg_messages messages;
  /* of a deletion */
  bool found;
  /* of a list */
  const tp_history_query *query;
} tp__pg_operation;

struct tp_postgres {
  /* never changes after open */
  tp__references references;
  tp_history face; /* of each history that is made: its taker has a copy */
  tp__pg_target target;
  char *quoted; /* the schema */
  char *address;
  char *sql[TP__PG_STATEMENTS];
  int64_t lease_ms, timeout_ms;
  int64_t batch_base; /* random */
  tp__pg_pool *pool;
  struct tp__pg_news *news;
  /* of the pool's thread */
  tp__pg_lease *leases;
  size_t lease_count, lease_capacity;
  tp__pg_claimed *claimed;
  size_t claimed_count, claimed_capacity;
  bool beats; /* a beat waits, or is under way */
  tp__pg_operation beat;
  int answers[TP__PG_LANES][TP__PG_STATEMENTS]; /* of the flight of each lane: which answer a statement has; -1: none */
  tp__lock lock;
  /* ---- under lock */
  bool has_leases;
  tp__pg_operation *open_loads;
  int64_t batches; /* numbers that were given */
};

extern const tp__pg_class tp__pg_history_class;
extern const tp_history tp__pg_history_face;
/** A number for what may be done twice, by which it is recognized in the database: random for each process, never 0. */
int64_t tp__pg_next_batch(tp_postgres *pg);
/** Ends a reference. */
void tp__pg_unref(tp_postgres *postgres);
/** Ends an operation that is not needed any more: frees what it has. */
void tp__pg_operation_fini(tp__pg_operation *operation);

#endif
