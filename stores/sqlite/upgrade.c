/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/sqlite/upgrade.h"

#include <string.h>

#include "runtime/base/check.h"

typedef struct upgrade {
  sqlite3 *file, *declared; /* declared: in memory, an empty file of this schema */
  const tp__sqlite_schema *schema;
  sqlite3_str *fills; /* statements for the columns that were added */
} upgrade;

/* ---- statements ---- */

/* Runs a statement that is made from a format of sqlite3_mprintf(). */
static int run(sqlite3 *db, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *sql = sqlite3_vmprintf(format, arguments);
  va_end(arguments);
  int rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return rc;
}

/* Prepares a statement whose texts are bound in their order; NULL ends them. */
static int ask(sqlite3 *db, sqlite3_stmt **ret_statement, const char *sql, const char *const *texts) {
  int rc = sqlite3_prepare_v2(db, sql, -1, ret_statement, NULL);
  for (int i = 0; rc == SQLITE_OK && texts && texts[i]; i++)
    rc = sqlite3_bind_text(*ret_statement, i + 1, texts[i], -1, SQLITE_TRANSIENT);
  return rc;
}

static const char *column(sqlite3_stmt *statement, int at) { return (const char *)sqlite3_column_text(statement, at); }

/* Calls act for each row of a list in memory, since act changes what the list was read from.
 * @return the first error. */
static int for_each_name(sqlite3 *db, const char *sql, const char *name, int (*act)(upgrade *u, const char *name),
                         upgrade *u) {
  sqlite3_stmt *statement = NULL;
  sqlite3_str *names = sqlite3_str_new(NULL);
  int rc = ask(db, &statement, sql, (const char *const[]){name, NULL});
  while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    sqlite3_str_append(names, column(statement, 0), sqlite3_column_bytes(statement, 0) + 1); /* with its NUL */
    rc = sqlite3_str_errcode(names);
  }
  if (rc == SQLITE_DONE) rc = SQLITE_OK;
  sqlite3_finalize(statement);
  int size = sqlite3_str_length(names);
  char *all = sqlite3_str_finish(names);
  for (const char *at = all; rc == SQLITE_OK && at && at < all + size; at += strlen(at) + 1) rc = act(u, at);
  sqlite3_free(all);
  return rc;
}

/* @return the first number of the answer; 0: none. */
static int64_t number_of(sqlite3 *db, int *rc, const char *sql, const char *const *texts) {
  sqlite3_stmt *statement = NULL;
  int64_t number = 0;
  if (*rc != SQLITE_OK) return 0;
  *rc = ask(db, &statement, sql, texts);
  if (*rc == SQLITE_OK) *rc = sqlite3_step(statement);
  if (*rc == SQLITE_ROW) number = sqlite3_column_int64(statement, 0);
  if (*rc == SQLITE_ROW || *rc == SQLITE_DONE) *rc = SQLITE_OK;
  sqlite3_finalize(statement);
  return number;
}

/* ---- what is dropped ---- */

#define OWN " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"

static int drop_trigger(upgrade *u, const char *name) { return run(u->file, "DROP TRIGGER \"%w\"", name); }
static int drop_table(upgrade *u, const char *name) { return run(u->file, "DROP TABLE IF EXISTS \"%w\"", name); }

static int drop_other_index(upgrade *u, const char *name) {
  static const char sql_of[] = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?1";
  sqlite3_stmt *theirs = NULL, *ours = NULL;
  int rc = ask(u->file, &theirs, sql_of, (const char *const[]){name, NULL});
  if (rc == SQLITE_OK) rc = ask(u->declared, &ours, sql_of, (const char *const[]){name, NULL});
  bool same = rc == SQLITE_OK && sqlite3_step(theirs) == SQLITE_ROW && sqlite3_step(ours) == SQLITE_ROW &&
              strcmp(column(theirs, 0), column(ours, 0)) == 0;
  sqlite3_finalize(theirs);
  sqlite3_finalize(ours);
  return rc != SQLITE_OK || same ? rc : run(u->file, "DROP INDEX \"%w\"", name);
}

static int drop_other_table(upgrade *u, const char *name) {
  int rc = SQLITE_OK;
  bool is_declared = number_of(u->declared, &rc, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1",
                               (const char *const[]){name, NULL}) != 0;
  return rc != SQLITE_OK || is_declared ? rc : drop_table(u, name);
}

/* A virtual table takes its own tables with it, so the virtual tables come first. */
static int drop_others(upgrade *u) {
  int rc = for_each_name(u->file, "SELECT name FROM sqlite_schema WHERE type = 'trigger'", NULL, drop_trigger, u);
  if (rc == SQLITE_OK)
    rc = for_each_name(u->file, "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL", NULL,
                       drop_other_index, u);
  if (rc == SQLITE_OK)
    rc = for_each_name(
        u->file, "SELECT name FROM sqlite_schema WHERE type = 'table'" OWN " ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC",
        NULL, drop_other_table, u);
  return rc;
}

/* ---- tables ---- */

enum { SAME, LACKS, DIFFERS };

/* What the file's table has in place of this column, a row of pragma_table_info(): name, type, notnull, pk. */
static int compare_column(upgrade *u, const char *table, sqlite3_stmt *wanted, int *rc) {
  static const char sql[] =
      "SELECT 1 + (type = ?3 AND \"notnull\" = CAST(?4 AS INTEGER) AND pk = CAST(?5 AS INTEGER))"
      " FROM pragma_table_info(?1) WHERE name = ?2";
  const char *texts[] = {table, column(wanted, 0), column(wanted, 1), column(wanted, 2), column(wanted, 3), NULL};
  int64_t found = number_of(u->file, rc, sql, texts);
  return found == 0 ? LACKS : found == 2 ? SAME : DIFFERS;
}

/* The value that SQLite writes into a column of rows that are there. */
static const char *value_of_old_rows(sqlite3_stmt *wanted) {
  const char *type = column(wanted, 1);
  if (sqlite3_column_int(wanted, 2) == 0) return "NULL";
  return strcmp(type, "TEXT") == 0 ? "''" : strcmp(type, "BLOB") == 0 ? "x''" : "0";
}

/* @param name  of the column that was added; NULL: the table was made. */
static void plan_fill(upgrade *u, const char *table, const char *name) {
  for (const tp__sqlite_fill *fill = u->schema->fills; fill && fill->table; fill++) {
    bool is_it = name && fill->column ? strcmp(fill->column, name) == 0 : !name && !fill->column;
    if (is_it && strcmp(fill->table, table) == 0) sqlite3_str_appendf(u->fills, "%s;", fill->sql);
  }
}

static int wanted_columns(upgrade *u, const char *table, sqlite3_stmt **ret_statement) {
  return ask(u->declared, ret_statement,
             "SELECT name, type, CAST(\"notnull\" AS TEXT), CAST(pk AS TEXT) FROM pragma_table_info(?1)",
             (const char *const[]){table, NULL});
}

/* Whether the columns are the same or some are missing at most, and the table is otherwise of the same kind. */
static int compare_table(upgrade *u, const char *table, bool *ret_same_kind, bool *ret_lacks) {
  static const char kind_of[] =
      "SELECT 4 * (sql LIKE '%AUTOINCREMENT%') + 2 * (sql LIKE '%WITHOUT ROWID%')"
      " + 8 * (SELECT count(*) FROM pragma_index_list(?1) WHERE origin = 'u') FROM sqlite_schema"
      " WHERE type = 'table' AND name = ?1";
  static const char count_of[] = "SELECT count(*) FROM pragma_table_info(?1)";
  const char *texts[] = {table, NULL};
  sqlite3_stmt *wanted = NULL;
  int rc = wanted_columns(u, table, &wanted);
  int64_t in_both = 0;
  bool can_stay = true;
  *ret_lacks = false;
  while (rc == SQLITE_OK && (rc = sqlite3_step(wanted)) == SQLITE_ROW) {
    rc = SQLITE_OK;
    int how = compare_column(u, table, wanted, &rc);
    if (how == SAME) in_both++;
    else if (how == LACKS) *ret_lacks = true;
    if (how == DIFFERS || (how == LACKS && sqlite3_column_int(wanted, 3) != 0)) can_stay = false;
  }
  if (rc == SQLITE_DONE) rc = SQLITE_OK;
  sqlite3_finalize(wanted);
  bool same_kind = number_of(u->file, &rc, kind_of, texts) == number_of(u->declared, &rc, kind_of, texts);
  *ret_same_kind = can_stay && same_kind && number_of(u->file, &rc, count_of, texts) == in_both;
  return rc;
}

static int add_columns(upgrade *u, const char *table) {
  sqlite3_stmt *wanted = NULL;
  int rc = wanted_columns(u, table, &wanted);
  while (rc == SQLITE_OK && (rc = sqlite3_step(wanted)) == SQLITE_ROW) {
    rc = SQLITE_OK;
    if (compare_column(u, table, wanted, &rc) != LACKS || rc != SQLITE_OK) continue;
    rc = run(u->file, "ALTER TABLE \"%w\" ADD COLUMN \"%w\" %s%s DEFAULT %s", table, column(wanted, 0),
             column(wanted, 1), sqlite3_column_int(wanted, 2) ? " NOT NULL" : "", value_of_old_rows(wanted));
    plan_fill(u, table, column(wanted, 0));
  }
  sqlite3_finalize(wanted);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int make_declared(upgrade *u, const char *sql) { return run(u->file, "%s", sql); }

static int make_table(upgrade *u, const char *table) {
  return for_each_name(u->declared, "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1", table,
                       make_declared, u);
}

#define OLD "turnphase_old"

/* The columns that are copied, and what they are copied from. */
static int list_columns(upgrade *u, const char *table, sqlite3_str *names, sqlite3_str *values) {
  sqlite3_stmt *wanted = NULL;
  int rc = wanted_columns(u, table, &wanted);
  while (rc == SQLITE_OK && (rc = sqlite3_step(wanted)) == SQLITE_ROW) {
    rc = SQLITE_OK;
    const char *comma = sqlite3_str_length(names) ? ", " : "";
    bool lacks = compare_column(u, OLD, wanted, &rc) == LACKS;
    sqlite3_str_appendf(names, "%s\"%w\"", comma, column(wanted, 0));
    if (!lacks) sqlite3_str_appendf(values, "%s\"%w\"", comma, column(wanted, 0));
    else sqlite3_str_appendf(values, "%s%s", comma, value_of_old_rows(wanted));
    if (lacks) plan_fill(u, table, column(wanted, 0));
  }
  sqlite3_finalize(wanted);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Ids that were given are never given again. */
static int keep_sequence(upgrade *u, const char *table) {
  int rc = SQLITE_OK;
  bool rises =
      number_of(u->declared, &rc,
                "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND sql LIKE '%AUTOINCREMENT%'",
                (const char *const[]){table, NULL}) != 0;
  if (rc != SQLITE_OK || !rises) return rc;
  rc = run(u->file,
           "DELETE FROM sqlite_sequence WHERE name = %Q"
           " AND seq < (SELECT seq FROM sqlite_sequence WHERE name = '" OLD "')",
           table);
  if (rc == SQLITE_OK)
    rc = run(u->file,
             "INSERT INTO sqlite_sequence (name, seq) SELECT %Q, seq FROM sqlite_sequence WHERE name = '" OLD
             "' AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = %Q)",
             table, table);
  return rc;
}

static int make_anew(upgrade *u, const char *table) {
  int rc = run(u->file, "ALTER TABLE \"%w\" RENAME TO " OLD, table); /* its indexes go with it, until it is dropped */
  if (rc == SQLITE_OK) rc = make_table(u, table);
  sqlite3_str *names = sqlite3_str_new(NULL), *values = sqlite3_str_new(NULL);
  if (rc == SQLITE_OK) rc = list_columns(u, table, names, values);
  char *to = sqlite3_str_finish(names), *from = sqlite3_str_finish(values);
  if (rc == SQLITE_OK && (!to || !from)) rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK) rc = run(u->file, "INSERT INTO \"%w\" (%s) SELECT %s FROM " OLD, table, to, from);
  sqlite3_free(to);
  sqlite3_free(from);
  if (rc == SQLITE_OK) rc = keep_sequence(u, table);
  return rc == SQLITE_OK ? drop_table(u, OLD) : rc;
}

static int upgrade_table(upgrade *u, const char *table) {
  int rc = SQLITE_OK;
  bool same_kind = true, lacks = false;
  if (!number_of(u->file, &rc, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1",
                 (const char *const[]){table, NULL})) {
    plan_fill(u, table, NULL);
    return rc == SQLITE_OK ? make_table(u, table) : rc;
  }
  rc = compare_table(u, table, &same_kind, &lacks);
  if (rc != SQLITE_OK) return rc;
  if (!same_kind) return make_anew(u, table);
  return lacks ? add_columns(u, table) : SQLITE_OK;
}

/* ---- the order ---- */

static int make_missing(upgrade *u, const char *name) {
  int rc = SQLITE_OK;
  const char *texts[] = {name, NULL};
  if (number_of(u->file, &rc, "SELECT 1 FROM sqlite_schema WHERE name = ?1", texts) || rc != SQLITE_OK) return rc;
  return for_each_name(u->declared, "SELECT sql FROM sqlite_schema WHERE name = ?1", name, make_declared, u);
}

static int fill(upgrade *u) {
  int rc = sqlite3_str_errcode(u->fills);
  const char *sql = sqlite3_str_value(u->fills);
  return rc == SQLITE_OK && sql ? sqlite3_exec(u->file, sql, NULL, NULL, NULL) : rc;
}

static int upgrade_all(upgrade *u) {
  int rc = drop_others(u);
  if (rc == SQLITE_OK)
    rc = for_each_name(u->declared, "SELECT name FROM sqlite_schema WHERE type = 'table'" OWN " ORDER BY rowid", NULL,
                       upgrade_table, u);
  if (rc == SQLITE_OK) rc = fill(u);
  if (rc == SQLITE_OK)
    rc = for_each_name(u->declared,
                       "SELECT name FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL ORDER BY rowid", NULL,
                       make_missing, u);
  return rc;
}

int tp__sqlite_make_tables(sqlite3 *db, const tp__sqlite_schema *schema) {
  int rc = SQLITE_OK;
  for (const char *const *sql = schema->sql; rc == SQLITE_OK && *sql; sql++)
    rc = sqlite3_exec(db, *sql, NULL, NULL, NULL);
  return rc;
}

int tp__sqlite_upgrade(sqlite3 *db, const tp__sqlite_schema *schema) {
  assert(db && schema && !sqlite3_get_autocommit(db));
  upgrade u = {.file = db, .schema = schema, .fills = sqlite3_str_new(NULL)};
  int rc = sqlite3_open(":memory:", &u.declared);
  if (rc == SQLITE_OK) rc = tp__sqlite_make_tables(u.declared, schema);
  if (rc == SQLITE_OK) rc = upgrade_all(&u);
  sqlite3_close(u.declared);
  sqlite3_free(sqlite3_str_finish(u.fills));
  return rc;
}
