/* SPDX-License-Identifier: Apache-2.0
 *
 * schema: the tables of a data directory's one file (turnphase.db): the history of sessions, entry records, jobs, and
 * the processes that opened it. It owns nothing. */
#ifndef TP__SQLITE_SCHEMA_H
#define TP__SQLITE_SCHEMA_H

#include "stores/sqlite/database.h"

extern const tp__sqlite_schema tp__sqlite_store_schema;

#endif
