/* SPDX-License-Identifier: Apache-2.0
 *
 * request: a work of a few statements, for jobs, calls of tools, tasks and questions. The asking thread puts the
 * parameters and reads the answers. The statements of a request are sent in one transaction, in their order, together
 * with those of other waiting works. In SQL '@' is the schema.
 *
 * A request whose commit was not acknowledged is sent again. A statement that must know about that has a parameter
 * (tp__pg_request_put_doubt()): 1 when the request is in doubt, else 0. A request is of one thread; there is no
 * lock. */
#ifndef TP__POSTGRES_REQUEST_H
#define TP__POSTGRES_REQUEST_H

#include "stores/postgres/postgres.h"

enum { TP__PG_REQUEST_STATEMENTS_MAX = 8 };

typedef struct tp__pg_asked {
  char *sql; /* the statement with the schema's name; NULL: no memory */
  tp__pg_parameters parameters;
  int doubt; /* the index of the parameter that tells whether the request is in doubt; -1: none */
  int index; /* the index of the answer in the flight */
  PGresult *rows;
} tp__pg_asked;

typedef struct tp__pg_request {
  tp__pg_work work; /* must be the first member */
  tp_postgres *postgres;
  int count;
  tp__pg_asked asked[TP__PG_REQUEST_STATEMENTS_MAX];
} tp__pg_request;

extern const tp__pg_class tp__pg_request_class;

/** @param doing  for faults, such as "insert a job".   @param lane  TP__PG_READS if nothing is written or locked. */
void tp__pg_request_init(tp__pg_request *request, tp_postgres *postgres, tp__pg_lane lane, const char *doing);
/** Adds a statement.   @return its parameters, which the caller puts. */
tp__pg_parameters *tp__pg_request_add(tp__pg_request *request, const char *sql);
/** Puts, as the next parameter of the statement that was added last, whether the request is in doubt. */
void tp__pg_request_put_doubt(tp__pg_request *request);
/** Sends the request, and waits. With TP_OK each statement has its rows. @return the status of the work. */
tp_status tp__pg_request_run(tp__pg_request *request, tp_fault *fault);
/** Sends the request; work.end is called on the pool's thread. @return false: no memory, and nothing was sent. */
bool tp__pg_request_submit(tp__pg_request *request);
/** The answer of a statement, by its number from 0. */
const PGresult *tp__pg_request_rows(const tp__pg_request *request, int statement);
/** For settle, before the request is sent again. */
void tp__pg_request_clear_rows(tp__pg_request *request);
void tp__pg_request_fini(tp__pg_request *request);

/** What build and settle of a class do whose works are requests. */
bool tp__pg_requests_build(const tp__pg_class *class, tp__pg_flight *flight);
void tp__pg_requests_settle(const tp__pg_class *class, tp__pg_flight *flight);

#endif
