/* SPDX-License-Identifier: Apache-2.0
 *
 * connection: connects to a database, and makes the messages for failures. A message names the database by host, port
 * and name; where libpq or the server repeats the password, it is replaced. A connection string that libpq cannot parse
 * is not quoted at all. */
#ifndef TP__POSTGRES_CONNECTION_H
#define TP__POSTGRES_CONNECTION_H

#include <libpq-fe.h>

#include "support/bytes.h"

/** Never changes after tp__pg_target_init(). */
typedef struct tp__pg_target {
  char *conninfo;
  char *name;     /* for people: "database `d` at h:5432" */
  char *password; /* the password, which no message may contain; NULL: not known */
} tp__pg_target;

/** @return TP_OK; TP_ERR_USAGE for a string that libpq cannot parse; TP_ERR_NO_MEMORY. */
tp_status tp__pg_target_init(tp__pg_target *target, const char *conninfo, tp_fault *fault);
/** Frees it. Accepts a zero-filled one. */
void tp__pg_target_fini(tp__pg_target *target);

/** Begins to connect; PQconnectPoll() continues. It does not block, except for the look-up of a host's name.
 *  @param timeout_s  the limit for each address.   @return NULL without memory. */
PGconn *tp__pg_connect_start(const tp__pg_target *target, int timeout_s);
/** Connects, and waits until the connection stands. @return TP_OK with a connection; TP_ERR_STORE, TP_ERR_NO_MEMORY. */
tp_status tp__pg_connect(const tp__pg_target *target, int timeout_s, PGconn **ret_connection, tp_fault *fault);

/** The meaning of an SQLSTATE for an operation. */
typedef struct tp__pg_meaning {
  tp_status status;
  bool is_retried; /* the same statement may succeed later */
  bool reconnects; /* a new connection is needed: this server stops, or does not write any more */
} tp__pg_meaning;
/** @param sqlstate  NULL: the connection was lost. */
tp__pg_meaning tp__pg_meaning_of(const char *sqlstate);
/** Fills a fault with a message of libpq or the server, without the password.
 *  @param doing    the failed operation, such as "append to a session".
 *  @param message  its first line is used.   @return status. */
tp_status tp__pg_refuse(const tp__pg_target *target, tp_status status, const char *doing, const char *message,
                        const char *sqlstate, tp_fault *fault);

#endif
