/* SPDX-License-Identifier: Apache-2.0
 *
 * postgres: a database handle: its pool, its statements, and the sessions that this process has claimed. history.c
 * makes the works of a history; operations.c has their part that runs on the pool's thread. */
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

/** The lease of a runtime of this process that has running turns, or had some a moment ago, or that has a store
 *  open. */
typedef struct tp__pg_lease {
  int64_t process;    /* its process_run_id */
  int64_t end_ns;     /* its end on this machine's clock; at the server it ends no earlier */
  int64_t renewed_ns; /* its new end, once the transaction that renews it is committed; 0: none is under way */
  bool leaves;        /* set while a transaction that deletes its row is under way */
  bool is_held;       /* set while a store of this runtime is open */
} tp__pg_lease;

/** A session that a running turn of this process has. */
typedef struct tp__pg_claimed {
  int64_t process;
  uint64_t number, fence;
} tp__pg_claimed;

typedef enum tp__pg_kind {
  TP__PG_OF_CLAIM,
  TP__PG_OF_APPEND, /* also a release, as an append of no messages */
  TP__PG_OF_DELETE,
  TP__PG_OF_BEAT,  /* renews leases, or ends those that no turn needs */
  TP__PG_OF_LEAVE, /* ends all leases */
  TP__PG_OF_HOLD,  /* opens a store of a runtime: the lease is kept also without turns */
  TP__PG_OF_UNHOLD,
  TP__PG_OF_READ,
  TP__PG_OF_LIST
} tp__pg_kind;

typedef struct tp__pg_operation {
  tp__pg_work work; /* must be the first member */
  tp_postgres *postgres;
  tp__pg_kind kind;
  tp_text tenant, session; /* borrowed from the request, or stored in `names` */
  char *names;             /* the memory of the two texts; NULL: they are borrowed */
  bool has_token;          /* set for a load with a token: its messages are read before the rows are freed; without a
                              token it gets a copy */
  tp_token token;
  /* of a claim */
  int64_t process;
  uint64_t number, after;
  tp_history_claim *ret_claim;                       /* under the database's lock: NULL after its turn has stopped
                                                        waiting */
  tp_history_claim claim;                            /* the claim that was made; for an append: the turn's claim */
  struct tp__pg_operation *before_open, *after_open; /* the list of loads with a token; under the database's lock */
  bool has_left;                                     /* under the same lock: set when its turn does not wait any more */
  /* of a claim and a read: the messages */
  PGresult *rows; /* owned by the flight until settle has returned, then by the operation if it has no token */
  int first_row, row_count;
  /* of an append */
  bool has_claim;
  int64_t batch; /* the number of the batch */
  tp__pg_messages messages;
  /* of a deletion */
  bool found;
  /* of a list */
  const tp_history_query *query;
} tp__pg_operation;

struct tp_postgres {
  /* never changes after open */
  tp__references references;
  tp_history face; /* the functions that each history is made of: a copy of this struct */
  tp__pg_target target;
  char *quoted; /* the schema */
  char *address;
  char *sql[TP__PG_STATEMENTS];
  int64_t lease_ms, timeout_ms;
  int64_t batch_base; /* a random number */
  tp__pg_pool *pool;
  struct tp__pg_news *news;
  /* of the pool's thread */
  tp__pg_lease *leases;
  size_t lease_count, lease_capacity;
  tp__pg_claimed *claimed;
  size_t claimed_count, claimed_capacity;
  bool beats; /* set while a beat waits or is under way */
  tp__pg_operation beat;
  int answers[TP__PG_LANES][TP__PG_STATEMENTS]; /* for the flight of each lane: the index of a statement's answer; -1:
                                                   none */
  tp__lock lock;
  /* ---- under lock */
  bool has_leases;
  tp__pg_operation *open_loads;
  int64_t batches; /* how many batch numbers were given */
};

/** tp_history_claim.origin of its claims; never 0. */
static inline uint64_t tp__pg_origin(const tp_postgres *pg) { return (uint64_t)pg->batch_base | 1; }

extern const tp__pg_class tp__pg_history_class;
extern const tp_history tp__pg_history_face;
/** A number by which a change that may be made twice is recognized in the database: random for each process, never
 *  0. */
int64_t tp__pg_next_batch(tp_postgres *pg);
/** Ends a reference. */
void tp__pg_unref(tp_postgres *postgres);
/** Frees what an operation has, after it is not needed any more. */
void tp__pg_operation_fini(tp__pg_operation *operation);

#endif
