/* SPDX-License-Identifier: Apache-2.0
 *
 * postgres_server: a PostgreSQL server for one test: made by initdb in a temporary directory, with a Unix socket there,
 * without TCP, and without syncs of the disk, unless its settings say otherwise. It ends with the test, even when the
 * test is killed. As root it runs as the user postgres, or nobody. */
#ifndef TEST_POSTGRES_SERVER_H
#define TEST_POSTGRES_SERVER_H

#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

static struct {
  char directory[64], data[80], conninfo[128];
  char initdb[128], postgres[128];
  uid_t user;
  gid_t group;
  pid_t id;                /* 0: it does not run */
  const char *settings[8]; /* "name=value", ended by NULL: they count in place of those below. Set before the start */
  const char *parent;      /* of the directory; NULL: in memory, where the machine has that */
} postgres_server;

/* The newest that is installed. */
static inline bool postgres_find(void) {
  static const char *const patterns[] = {"/usr/lib/postgresql/*/bin/initdb", "/usr/local/pgsql/bin/initdb",
                                         "/usr/bin/initdb"};
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    glob_t found;
    if (glob(patterns[i], 0, NULL, &found) != 0) continue;
    const char *newest = found.gl_pathv[found.gl_pathc - 1];
    int folder = (int)(strrchr(newest, '/') - newest);
    snprintf(postgres_server.initdb, sizeof postgres_server.initdb, "%s", newest);
    snprintf(postgres_server.postgres, sizeof postgres_server.postgres, "%.*s/postgres", folder, newest);
    globfree(&found);
    return true;
  }
  return false;
}

/* Starts a program as the server's user, with its output in a file of the directory. @return its process. */
static inline pid_t postgres_spawn(char *const *arguments) {
  char output[96];
  snprintf(output, sizeof output, "%s/output", postgres_server.directory);
  pid_t parent = getpid(), id = fork();
  if (id != 0) return id;
  bool is_root = getuid() == 0;
  if (is_root && (setgroups(0, NULL) != 0 || setgid(postgres_server.group) != 0 || setuid(postgres_server.user) != 0))
    _exit(126);
  prctl(PR_SET_PDEATHSIG, SIGQUIT);
  if (getppid() != parent || chdir(postgres_server.directory) != 0) _exit(126);
  if (!freopen("/dev/null", "r", stdin) || !freopen(output, "a", stdout) || !freopen(output, "a", stderr)) _exit(126);
  unsetenv("LD_PRELOAD");
  execv(arguments[0], arguments);
  _exit(127);
}

static inline bool postgres_answers(void) {
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  bool answers = PQstatus(connection) == CONNECTION_OK;
  PQfinish(connection);
  return answers;
}

/* Starts the server, and waits until it answers. After a kill, the first tries may find shared memory of the earlier
 * server. */
static inline bool postgres_start(void) {
  char sockets[96];
  snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", postgres_server.directory);
  const char *const usual[] = {
      sockets,          "listen_addresses=",   "fsync=off",          "full_page_writes=off", "bonjour=off",
      "autovacuum=off", "shared_buffers=16MB", "max_connections=60", "wal_level=minimal",    "max_wal_senders=0"};
  enum { USUAL = sizeof usual / sizeof *usual, SETTINGS = USUAL + 8 };
  const char *arguments[3 + 2 * SETTINGS + 1] = {postgres_server.postgres, "-D", postgres_server.data};
  int count = 3;
  for (int i = 0; i < SETTINGS; i++) {
    const char *setting = i < USUAL ? usual[i] : postgres_server.settings[i - USUAL];
    if (!setting) break;
    arguments[count++] = "-c";
    arguments[count++] = setting;
  }
  for (int tries = 0; tries < 20; tries++) {
    postgres_server.id = postgres_spawn((char *const *)(uintptr_t)arguments);
    for (int i = 0; i < 3000; i++) {
      if (postgres_answers()) return true;
      if (waitpid(postgres_server.id, NULL, WNOHANG) == postgres_server.id) break;
      usleep(5000);
    }
    usleep(50000);
  }
  postgres_server.id = 0;
  return false;
}

/* @param how  SIGINT: it ends its connections; SIGQUIT, SIGKILL: as after a crash. */
static inline void postgres_stop(int how) {
  if (!postgres_server.id) return;
  kill(postgres_server.id, how);
  waitpid(postgres_server.id, NULL, 0);
  postgres_server.id = 0;
}

static inline void postgres_remove(void) {
  char line[128];
  postgres_stop(SIGQUIT);
  if (!postgres_server.directory[0]) return;
  snprintf(line, sizeof line, "rm -rf '%s'", postgres_server.directory);
  if (system(line) != 0) fprintf(stderr, "%s is left\n", postgres_server.directory);
  postgres_server.directory[0] = '\0';
}

/* @return NULL, or what the machine lacks: then the test is skipped. */
static inline const char *postgres_lack(void) {
  if (!postgres_find()) return "PostgreSQL is not installed (Debian package postgresql)";
  if (getuid() == 0 && !getpwnam("postgres") && !getpwnam("nobody"))
    return "root must not run PostgreSQL, and there is neither a user postgres nor nobody";
  return NULL;
}

/* Makes the server, if the machine has what it needs. If there is no server afterwards, the test fails, and the
 * directory stays. */
static inline void postgres_make(void) {
  int status = -1;
  const struct passwd *user = getpwnam("postgres") ? getpwnam("postgres") : getpwnam("nobody");
  bool is_root = getuid() == 0;
  postgres_server.user = is_root ? user->pw_uid : getuid();
  postgres_server.group = is_root ? user->pw_gid : getgid();
  snprintf(postgres_server.directory, sizeof postgres_server.directory, "%.40s/turnphase_pg_XXXXXX",
           postgres_server.parent          ? postgres_server.parent
           : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                           : "/tmp");
  bool made = mkdtemp(postgres_server.directory) != NULL;
  if (made && is_root) made = chown(postgres_server.directory, postgres_server.user, postgres_server.group) == 0;
  snprintf(postgres_server.data, sizeof postgres_server.data, "%s/data", postgres_server.directory);
  snprintf(postgres_server.conninfo, sizeof postgres_server.conninfo, "host=%s dbname=postgres user=postgres",
           postgres_server.directory);
  char *const arguments[] = {
      postgres_server.initdb, "-D",        postgres_server.data, "-A", "trust", "-U", "postgres", "-E", "UTF8",
      "--locale=C",           "--no-sync", "--no-instructions",  NULL};
  if (made) waitpid(postgres_spawn(arguments), &status, 0);
  if (made && WIFEXITED(status) && WEXITSTATUS(status) == 0 && postgres_start()) return;
  fprintf(stderr, "no server of %s runs: see %s/output\n", postgres_server.postgres, postgres_server.directory);
  exit(1);
}

#endif
