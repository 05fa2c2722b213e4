/* SPDX-License-Identifier: Apache-2.0
 *
 * upgrade: gives a file of an earlier version the tables that a schema declares. No version is described by itself:
 * what the file has is compared with what an empty file would get, so every earlier version is upgraded in one step.
 * No state. */
#ifndef TP__SQLITE_UPGRADE_H
#define TP__SQLITE_UPGRADE_H

#include "stores/sqlite/database.h"

/** Makes the tables in an empty file. @return SQLITE_OK or the error. */
int tp__sqlite_make_tables(sqlite3 *db, const tp__sqlite_schema *schema);

/** Runs in the transaction of tp__sqlite_open():
 *   - a table that the file lacks is made, and a table that is not declared is dropped;
 *   - a column that a table lacks is added. Rows that are there get 0, an empty text or no bytes, and then the fill of
 *     that column runs;
 *   - a table that differs in anything else is made anew, and its rows are copied;
 *   - indexes and triggers that differ or are not declared are dropped; after the fills, those that are missing are
 *     made.
 *  @param db  in a transaction that has the write lock; the caller rolls it back on failure.
 *  @return SQLITE_OK or the error, of which sqlite3_errmsg(db) may know more. */
int tp__sqlite_upgrade(sqlite3 *db, const tp__sqlite_schema *schema);

#endif
