/* SPDX-License-Identifier: Apache-2.0
 *
 * schema: the tables and their version. One process at a time makes or upgrades them: it locks the row of the version
 * meanwhile. In the SQL of this library '@' stands for the quoted name of the schema. Takes no lock inside the
 * process. */
#ifndef TP__POSTGRES_SCHEMA_H
#define TP__POSTGRES_SCHEMA_H

#include "stores/postgres/connection.h"

enum { TP__PG_SCHEMA_VERSION = 5 };

/** The statement with the schema's name in the place of each '@'. @return NULL without memory; tp__heap_string_free().
 *  @param quoted  as PQescapeIdentifier() gives it. */
char *tp__pg_expand(const char *sql, const char *quoted);
/** Checks the schema, and makes or upgrades it. Blocks.
 *  @param connection  in no transaction, not in pipeline mode.
 *  @return as tp_postgres_open(). */
tp_status tp__pg_schema_open(const tp__pg_target *target, PGconn *connection, const char *quoted, bool existing_only,
                             tp_fault *fault);

#endif
