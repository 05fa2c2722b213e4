/* SPDX-License-Identifier: Apache-2.0
 *
 * postgres_others: what stands beside the server of postgres_server.h: a second server (one of the two is the primary,
 * the other its standby; a fail-over swaps them), and pgbouncer in transaction mode. All run as the server's user, with
 * their sockets in its directory, and postgres_remove() removes their files. */
#ifndef TEST_POSTGRES_OTHERS_H
#define TEST_POSTGRES_OTHERS_H

#include "tests/support/postgres_server.h"

/* ---- two servers ---- */

enum { PAIR_PORT = 5432 }; /* of the first one; of its socket only */

static struct {
  char conninfo[320]; /* names both */
  char sockets[128], data[2][96];
  pid_t ids[2];
  int primary;
} postgres_pair;

static inline char *pair_program(char program[160], const char *name) {
  snprintf(program, 160, "%.*s/%s", (int)(strrchr(postgres_server.initdb, '/') - postgres_server.initdb),
           postgres_server.initdb, name);
  return program;
}

/* @return what the first column of the first row is: 't', a digit …; 0: no answer. */
static inline char pair_ask(int which, const char *sql) {
  char conninfo[192];
  snprintf(conninfo, sizeof conninfo, "%s port=%d application_name=test", postgres_server.conninfo, PAIR_PORT + which);
  PGconn *connection = PQconnectdb(conninfo);
  PGresult *rows = PQexec(connection, sql);
  char answer = PQresultStatus(rows) == PGRES_TUPLES_OK && PQntuples(rows) > 0 ? PQgetvalue(rows, 0, 0)[0] : '\0';
  PQclear(rows);
  PQfinish(connection);
  return answer;
}

/* Waits at most a minute. */
static inline bool pair_await(int which, const char *sql) {
  for (int i = 0; i < 6000; i++) {
    if (pair_ask(which, sql) == 't') return true;
    usleep(10000);
  }
  fprintf(stderr, "server %d never answers t to %s\n", which, sql);
  return false;
}

static inline void pair_start(int which) {
  char port[16], other[160];
  snprintf(port, sizeof port, "%d", PAIR_PORT + which);
  snprintf(other, sizeof other, "primary_conninfo=host=%s port=%d user=postgres", postgres_server.directory,
           PAIR_PORT + !which);
  char *const arguments[] = {postgres_server.postgres,
                             "-D",
                             postgres_pair.data[which],
                             "-p",
                             port,
                             "-c",
                             postgres_pair.sockets,
                             "-c",
                             other,
                             "-c",
                             "listen_addresses=",
                             "-c",
                             "fsync=off",
                             "-c",
                             "full_page_writes=off",
                             "-c",
                             "max_connections=60",
                             "-c",
                             "wal_level=replica",
                             "-c",
                             "hot_standby=on",
                             "-c",
                             "wal_keep_size=256MB",
                             "-c",
                             "shared_buffers=16MB",
                             NULL};
  postgres_pair.ids[which] = postgres_spawn(arguments);
}

/* The standby has all that the primary has acknowledged, and from now on the primary waits for it. */
static inline bool pair_join_standby(int which) {
  char program[160], port[16], from[32], command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", postgres_pair.data[which]);
  if (system(command) != 0) return false;
  snprintf(port, sizeof port, "%d", PAIR_PORT + !which);
  snprintf(from, sizeof from, "-p%s", port);
  char *const backup[] = {pair_program(program, "pg_basebackup"),
                          "-h",
                          postgres_server.directory,
                          from,
                          "-U",
                          "postgres",
                          "-D",
                          postgres_pair.data[which],
                          "-R",
                          "--checkpoint=fast",
                          "--no-sync",
                          NULL};
  int status = -1;
  waitpid(postgres_spawn(backup), &status, 0);
  if (status != 0) return false;
  pair_start(which);
  (void)pair_ask(!which, "ALTER SYSTEM SET synchronous_standby_names = '*'");
  (void)pair_ask(!which, "SELECT pg_reload_conf()");
  return pair_await(!which, "SELECT state = 'streaming' AND sync_state = 'sync' FROM pg_stat_replication") &&
         pair_await(!which, "SELECT flush_lsn >= pg_current_wal_lsn() FROM pg_stat_replication");
}

/* The server of postgres_make() becomes the first of two. */
static inline bool pair_make(void) {
  snprintf(postgres_pair.conninfo, sizeof postgres_pair.conninfo, "host=%s,%s port=%d,%d dbname=postgres user=postgres",
           postgres_server.directory, postgres_server.directory, PAIR_PORT, PAIR_PORT + 1);
  snprintf(postgres_pair.sockets, sizeof postgres_pair.sockets, "unix_socket_directories=%s",
           postgres_server.directory);
  snprintf(postgres_pair.data[0], sizeof postgres_pair.data[0], "%s", postgres_server.data);
  snprintf(postgres_pair.data[1], sizeof postgres_pair.data[1], "%s/data2", postgres_server.directory);
  postgres_stop(SIGINT);
  pair_start(0);
  return pair_await(0, "SELECT true") && pair_join_standby(1);
}

/* The primary is lost, the standby becomes it, and the lost one is made anew as a standby. */
static inline bool pair_fail_over(void) {
  int lost = postgres_pair.primary;
  kill(postgres_pair.ids[lost], SIGQUIT);
  waitpid(postgres_pair.ids[lost], NULL, 0);
  postgres_pair.primary = !lost;
  return pair_ask(!lost, "SELECT pg_promote(true, 60)") == 't' && pair_join_standby(lost);
}

static inline void pair_stop(void) {
  for (int i = 0; i < 2; i++) {
    kill(postgres_pair.ids[i], SIGQUIT);
    waitpid(postgres_pair.ids[i], NULL, 0);
  }
}

/* ---- pgbouncer ---- */

static struct {
  char conninfo[192], directory[96], file[128];
  pid_t id;
} bouncer;

static inline const char *bouncer_lack(void) {
  return access("/usr/sbin/pgbouncer", X_OK) == 0 ? NULL : "pgbouncer is not installed (Debian package pgbouncer)";
}

static inline bool bouncer_start(void) {
  char *const arguments[] = {"/usr/sbin/pgbouncer", "-q", bouncer.file, NULL};
  bouncer.id = postgres_spawn(arguments);
  for (int i = 0; i < 2000; i++) {
    PGconn *connection = PQconnectdb(bouncer.conninfo);
    bool answers = PQstatus(connection) == CONNECTION_OK;
    PQfinish(connection);
    if (answers) return true;
    usleep(5000);
  }
  fprintf(stderr, "pgbouncer does not answer\n");
  return false;
}

static inline void bouncer_stop(int how) {
  kill(bouncer.id, how);
  waitpid(bouncer.id, NULL, 0);
}

static inline bool bouncer_make(void) {
  snprintf(bouncer.directory, sizeof bouncer.directory, "%s/bouncer", postgres_server.directory);
  snprintf(bouncer.file, sizeof bouncer.file, "%s/bouncer.ini", postgres_server.directory);
  snprintf(bouncer.conninfo, sizeof bouncer.conninfo, "host=%s port=5432 dbname=postgres user=postgres",
           bouncer.directory);
  if (mkdir(bouncer.directory, 0700) != 0 ||
      (getuid() == 0 && chown(bouncer.directory, postgres_server.user, postgres_server.group) != 0))
    return false;
  FILE *f = fopen(bouncer.file, "w");
  if (!f) return false;
  fprintf(f,
          "[databases]\npostgres = host=%s port=5432 dbname=postgres user=postgres\n[pgbouncer]\nlisten_addr =\n"
          "listen_port = 5432\nunix_socket_dir = %s\nauth_type = any\npool_mode = transaction\n"
          "default_pool_size = 6\nmax_client_conn = 200\nserver_login_retry = 0.05\n",
          postgres_server.directory, bouncer.directory);
  return fclose(f) == 0 && chmod(bouncer.file, 0644) == 0 && bouncer_start();
}

#endif
