/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/connection.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "support/fault.h"

/* ---- what is reached ---- */

static const char *option(const PQconninfoOption *options, const char *keyword) {
  for (; options->keyword; options++)
    if (strcmp(options->keyword, keyword) == 0) return options->val && options->val[0] ? options->val : NULL;
  return NULL;
}

/* Returns a setting. Values of the environment count as those of the string: they are libpq's defaults. */
static const char *setting(const PQconninfoOption *given, const PQconninfoOption *defaults, const char *keyword) {
  const char *value = option(given, keyword);
  return value || !defaults ? value : option(defaults, keyword);
}

/* Copies a message with "***" in each place of the password. */
static void redact(const char *password, tp__bytes *to, const char *message, size_t size) {
  size_t length = password ? strlen(password) : 0;
  for (size_t i = 0; i < size;) {
    bool is_here = length > 0 && i + length <= size && memcmp(message + i, password, length) == 0;
    if (is_here) tp__bytes_put_string(to, "***");
    else tp__bytes_put(to, message + i, 1);
    i += is_here ? length : 1;
  }
}

static char *target_name_of(const PQconninfoOption *given, const PQconninfoOption *defaults) {
  tp__bytes name = {0};
  const char *host = setting(given, defaults, "host"), *port = setting(given, defaults, "port");
  const char *database = setting(given, defaults, "dbname"), *service = setting(given, defaults, "service");
  if (!host) host = option(given, "hostaddr");
  if (!database) database = setting(given, defaults, "user");
  if (service && !option(given, "dbname")) tp__bytes_printf(&name, "service `%s`", service);
  else
    tp__bytes_printf(&name, "database `%s` at %s:%s", database ? database : "?", host ? host : "the local socket",
                     port ? port : "5432");
  tp__bytes shown = {0};
  redact(setting(given, defaults, "password"), &shown, tp__bytes_string(&name), name.size);
  char *copy = name.failed || shown.failed ? NULL : tp__heap_copy(tp__bytes_text(&shown));
  tp__bytes_fini(&name);
  tp__bytes_fini(&shown);
  return copy;
}

/* Whether the password could end early because of one of its characters: then its rest would be taken for the host's
 * name, which messages show. */
static bool is_ambiguous(const char *conninfo) {
  const char *start = strstr(conninfo, "://");
  if (!start || strchr(conninfo, ' ')) return false;
  size_t authority = strcspn(start + 3, "?"), marks = 0;
  for (size_t i = 0; i < authority; i++) marks += start[3 + i] == '@';
  return marks > 1;
}

static tp_status read_target(tp__pg_target *t, const char *conninfo, tp_fault *fault) {
  char *error = NULL;
  PQconninfoOption *given = PQconninfoParse(conninfo, &error), *defaults = NULL;
  bool has_memory = given || error;
  PQfreemem(error); /* the error may quote a part of the password */
  if (!given) {
    return has_memory
               ? tp__refuse(fault, TP_ERR_USAGE, "conninfo",
                            "the connection string is neither postgres://USER@HOST/DATABASE nor KEYWORD=VALUE pairs "
                            "that libpq knows; it is not shown, since it may have a password")
               : tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a connection string");
  }
  defaults = PQconndefaults();
  const char *password = setting(given, defaults, "password");
  t->conninfo = tp__heap_copy(tp_text_of(conninfo));
  t->name = target_name_of(given, defaults);
  if (password) t->password = tp__heap_copy(tp_text_of(password));
  bool is_whole = t->conninfo && t->name && (!password || t->password);
  PQconninfoFree(given);
  PQconninfoFree(defaults);
  return is_whole ? TP_OK : tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a connection string");
}

tp_status tp__pg_target_init(tp__pg_target *t, const char *conninfo, tp_fault *fault) {
  *t = (tp__pg_target){0};
  if (!conninfo || !conninfo[0])
    return tp__refuse(fault, TP_ERR_USAGE, "conninfo",
                      "a database needs a connection string: postgres://HOST/DATABASE");
  if (is_ambiguous(conninfo))
    return tp__refuse(fault, TP_ERR_USAGE, "conninfo",
                      "the connection string has several '@': in a user or a password write %%40 for it, %%2F for '/' "
                      "and %%3A for ':'");
  return read_target(t, conninfo, fault);
}

void tp__pg_target_fini(tp__pg_target *t) {
  tp__heap_string_free(t->conninfo);
  tp__heap_string_free(t->name);
  tp__heap_string_free(t->password);
  *t = (tp__pg_target){0};
}

/* ---- connections ---- */

/* Begins a connection. The settings of the host's string override our defaults, but not the settings that must have our
 * values. */
static PGconn *start(const tp__pg_target *t, int timeout_s, bool waits) {
  char timeout[16];
  snprintf(timeout, sizeof timeout, "%d", timeout_s);
  const char *const keywords[] = {"keepalives_idle",
                                  "keepalives_interval",
                                  "keepalives_count",
                                  "tcp_user_timeout",
                                  "connect_timeout",
                                  "target_session_attrs",
                                  "dbname",
                                  "client_encoding",
                                  "fallback_application_name",
                                  NULL};
  const char *const values[] = {"10", "5", "3", "20000", timeout, "read-write", t->conninfo, "UTF8", "turnphase", NULL};
  return waits ? PQconnectdbParams(keywords, values, 1) : PQconnectStartParams(keywords, values, 1);
}

/* libpq prints notices to stderr unless it has a function for them. */
static void drop_notice(void *ctx, const PGresult *notice) {
  (void)ctx;
  (void)notice;
}

PGconn *tp__pg_connect_start(const tp__pg_target *t, int timeout_s) {
  PGconn *connection = start(t, timeout_s, false);
  if (connection) PQsetNoticeReceiver(connection, drop_notice, NULL);
  return connection;
}

tp_status tp__pg_connect(const tp__pg_target *t, int timeout_s, PGconn **ret_connection, tp_fault *fault) {
  PGconn *connection = start(t, timeout_s, true);
  if (!connection) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a connection");
  PQsetNoticeReceiver(connection, drop_notice, NULL);
  if (PQstatus(connection) == CONNECTION_OK) {
    *ret_connection = connection;
    return TP_OK;
  }
  tp_status status = tp__pg_refuse(t, TP_ERR_STORE, "connect", PQerrorMessage(connection), NULL, fault);
  PQfinish(connection);
  return status;
}

/* ---- errors ---- */

/* The first row that matches counts. A class of SQLSTATEs is their first two characters. */
static const struct {
  const char *sqlstate;
  tp__pg_meaning meaning;
} meanings[] = {
    {"40", {TP_ERR_STORE_BUSY, true, false}},       /* serialization failure, deadlock */
    {"55P03", {TP_ERR_STORE_BUSY, true, false}},    /* a lock was not available in time */
    {"57014", {TP_ERR_STORE_BUSY, true, false}},    /* statement_timeout */
    {"23505", {TP_ERR_STORE_BUSY, true, false}},    /* two transactions added or claimed the same row at once */
    {"57P", {TP_ERR_STORE, true, true}},            /* the server stops or starts */
    {"08", {TP_ERR_STORE, true, true}},             /* connection errors, those of pgbouncer included */
    {"25006", {TP_ERR_STORE_READONLY, true, true}}, /* the server has become a standby, after a failover */
    {"25P0", {TP_ERR_STORE, true, true}},           /* the connection was idle in a transaction for too long */
    {"53300", {TP_ERR_STORE_BUSY, true, true}},     /* too many connections */
    {"53100", {TP_ERR_STORE_FULL, false, false}},
    {"53", {TP_ERR_STORE, true, false}}, /* out of memory at the server */
    {"42501", {TP_ERR_STORE_READONLY, false, false}},
    {"42", {TP_ERR_STORE_SCHEMA, false, false}}, /* no such table or column */
    {"3F", {TP_ERR_STORE_SCHEMA, false, false}},
    {"22021", {TP_ERR_UTF8, false, false}},
    {"54000", {TP_ERR_TOO_LARGE, false, false}},
    {"XX001", {TP_ERR_STORE_CORRUPT, false, false}},
    {"XX002", {TP_ERR_STORE_CORRUPT, false, false}},
};

tp__pg_meaning tp__pg_meaning_of(const char *sqlstate) {
  if (!sqlstate || !sqlstate[0]) return (tp__pg_meaning){TP_ERR_STORE, true, true};
  for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
    if (strncmp(sqlstate, meanings[i].sqlstate, strlen(meanings[i].sqlstate)) == 0) return meanings[i].meaning;
  return (tp__pg_meaning){TP_ERR_STORE, false, false};
}

static const char *remedy_of(tp_status status, const char *sqlstate) {
  if (sqlstate && strcmp(sqlstate, "42501") == 0)
    return ": give the role the rights of docs/postgres.md, or let the schema's owner open it once";
  if (sqlstate && strcmp(sqlstate, "53300") == 0) return ": raise max_connections, or put pgbouncer before the server";
  if (status == TP_ERR_STORE_FULL) return ": free space on the server's disk";
  if (status == TP_ERR_STORE_SCHEMA) return ": the schema is not of this version of turnphase";
  return "";
}

tp_status tp__pg_refuse(const tp__pg_target *t, tp_status status, const char *doing, const char *message,
                        const char *sqlstate, tp_fault *fault) {
  tp__bytes shown = {0};
  size_t size = strcspn(message, "\n");
  assert(status != TP_OK && doing);
  redact(t->password, &shown, message, size);
  (void)!tp__refuse(fault, status, t->name, "%s: cannot %s: %s%s%s%s%s", t->name, doing, tp__bytes_string(&shown),
                    sqlstate ? " (SQLSTATE " : "", sqlstate ? sqlstate : "", sqlstate ? ")" : "",
                    remedy_of(status, sqlstate));
  tp__bytes_fini(&shown);
  return status;
}
