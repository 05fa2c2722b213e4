/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase-sandbox: gives up its own rights, then becomes a program. Linux: no_new_privs, Landlock for paths and
 * signals, a filter of system calls, no capabilities, no terminal, resource limits. If one of these steps fails, it
 * ends (126), and the program never runs. Each line of the table of threats (docs/hooks.md) has a hostile program in
 * tests/support/hostile.c.
 *
 *   turnphase-sandbox [-r PATH]… [-w PATH]… [-n] [-m MIB] [-c SECONDS] [-p COUNT] [-f MIB] [-s HOW] -- PROGRAM …
 *     -r  it may read and run what is there; without any it may read everything but devices
 *     -w  it may change what is there
 *     -n  no sockets but those that it is given
 *     -m  memory, -c  processor time, -p  processes of its user, -f  size of a file
 *     -s  what keeps its signals to itself: scope (Landlock, Linux 6.12), namespace (of processes), filter (of calls:
 *         not even its children get any); without it the first of these that this machine has */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "domains/declared/sandbox_filter.h"

enum { CANNOT = 126, PATHS_MAX = 64 };

#define READS (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* All bits of the first version, followed by those of later versions: moving between directories, truncating. */
#define ALL_OF_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define REFER (UINT64_C(1) << 13)
#define TRUNCATE (UINT64_C(1) << 14)
#define IOCTL_DEV (UINT64_C(1) << 15)
#define OF_FILES (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE)

static void exit_with_error(const char *what, const char *subject) {
  fprintf(stderr, "turnphase-sandbox: %s%s%s: %s\n", what, subject ? " " : "", subject ? subject : "", strerror(errno));
  exit(CANNOT);
}

/* ---- paths ---- */

typedef struct paths {
  const char *items[PATHS_MAX];
  size_t count;
} paths;

static void add_path(paths *list, const char *path) {
  errno = E2BIG;
  if (list->count == PATHS_MAX) exit_with_error("too many paths at", path);
  list->items[list->count++] = path;
}

static void allow(int ruleset, const char *path, uint64_t access) {
  struct stat found;
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &found) != 0) exit_with_error("cannot allow", path);
  if (!S_ISDIR(found.st_mode)) access &= OF_FILES;
  struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
    exit_with_error("cannot allow", path);
  close(fd);
}

/* This struct is newer than the headers of Debian 12. A kernel accepts a longer struct than its own if the additional
 * bytes are 0. */
typedef struct rules {
  uint64_t paths, network, scopes;
} rules;

enum { SCOPE_ABSTRACT_SOCKETS = 1, SCOPE_SIGNALS = 2 };

static long landlock_version(void) {
  return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static uint64_t handled_by(long version) {
  uint64_t access = ALL_OF_1;
  if (version >= 2) access |= REFER;
  if (version >= 3) access |= TRUNCATE;
  if (version >= 5) access |= IOCTL_DEV;
  return access;
}

static void bound_paths(const paths *reads, const paths *writes, bool scopes) {
  assert(reads->count <= PATHS_MAX && writes->count <= PATHS_MAX);
  long version = landlock_version();
  if (version < 1) exit_with_error("no Landlock in this kernel", NULL);
  rules attributes = {.paths = handled_by(version)};
  if (scopes) attributes.scopes = SCOPE_SIGNALS | SCOPE_ABSTRACT_SOCKETS;
  int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
  if (ruleset < 0) exit_with_error("no set of rules", NULL);
  if (reads->count == 0) {
    /* Not /dev: a program that can read a terminal there gets what its user types. */
    char path[1 + NAME_MAX + 1] = "/";
    DIR *root = opendir("/");
    if (!root) exit_with_error("cannot list", "/");
    allow(ruleset, "/", LANDLOCK_ACCESS_FS_READ_DIR);
    for (struct dirent *entry = readdir(root); entry; entry = readdir(root)) {
      if (strcmp(entry->d_name, "dev") == 0 || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        continue;
      snprintf(path + 1, sizeof path - 1, "%s", entry->d_name);
      if (access(path, F_OK) == 0) allow(ruleset, path, READS);
    }
    closedir(root);
  }
  for (size_t i = 0; i < reads->count; i++) allow(ruleset, reads->items[i], READS);
  for (size_t i = 0; i < writes->count; i++) allow(ruleset, writes->items[i], attributes.paths);
  uint64_t handled = attributes.paths;
  static const char *const sources[] = {"/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
  allow(ruleset, "/dev/null", handled & ~IOCTL_DEV);
  for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
    if (access(sources[i], F_OK) == 0) allow(ruleset, sources[i], LANDLOCK_ACCESS_FS_READ_FILE);
  if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) exit_with_error("Landlock was refused", NULL);
  close(ruleset);
}

/* ---- signals ---- */

enum { BY_SCOPE = 1, BY_NAMESPACE, BY_FILTER };

static bool write_proc_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  close(fd);
  return written;
}

/* Enters a namespace of processes. Without root rights this needs a namespace of users, with the same user and
 * group. */
static bool enter_namespace(void) {
  char users[64], groups[64];
  snprintf(users, sizeof users, "%u %u 1", geteuid(), geteuid());
  snprintf(groups, sizeof groups, "%u %u 1", getegid(), getegid());
  if (unshare(CLONE_NEWPID) == 0) return true;
  return unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0 && write_proc_file("/proc/self/setgroups", "deny") &&
         write_proc_file("/proc/self/uid_map", users) && write_proc_file("/proc/self/gid_map", groups);
}

static _Noreturn void end_like(int ended) {
  if (WIFSIGNALED(ended)) {
    signal(WTERMSIG(ended), SIG_DFL);
    kill(getpid(), WTERMSIG(ended));
  }
  _exit(WIFEXITED(ended) ? WEXITSTATUS(ended) : CANNOT);
}

/* Waits for a child. As the first process of a namespace, also waits for processes that have lost their parent. */
static _Noreturn void wait_for(pid_t child, bool is_first) {
  int ended = 0;
  pid_t found;
  do found = waitpid(is_first ? -1 : child, &ended, 0);
  while (found != child && (found > 0 || errno == EINTR));
  if (!is_first) end_like(ended);
  /* the first process of a namespace cannot send itself the signal, so it passes the number on as a shell's exit
   * code */
  _exit(WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended));
}

/* The child goes on. The parent waits, ends as the child did, and when it is killed, the child is killed, too. */
static void fork_on(bool is_first) {
  pid_t parent = getpid();
  pid_t child = fork();
  if (child < 0) exit_with_error("no process for the namespace", NULL);
  if (child > 0) {
    signal(SIGTERM, SIG_IGN); /* the group gets it, hence the program too */
    wait_for(child, is_first);
  }
  signal(SIGTERM, SIG_DFL);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) exit_with_error("cannot end with its parent", NULL);
  if (!is_first && getppid() != 0) exit_with_error("no namespace of processes", NULL);
  if (is_first && getppid() != parent) exit_with_error("the namespace has ended", NULL);
}

/* @return BY_... as it is done. */
static int bound_signals(int how) {
  assert(how >= 0 && how <= BY_FILTER);
  bool has_scopes = landlock_version() >= 6;
  errno = EOPNOTSUPP;
  if (how == BY_SCOPE && !has_scopes) exit_with_error("no scopes of Landlock in this kernel", NULL);
  if (how == BY_SCOPE || (how == 0 && has_scopes)) return BY_SCOPE;
  if (how != BY_FILTER && enter_namespace()) {
    fork_on(false);
    fork_on(true);
    return BY_NAMESPACE;
  }
  if (how == BY_NAMESPACE) exit_with_error("no namespace of processes", NULL);
  return BY_FILTER;
}

/* ---- capabilities, terminal ---- */

static void drop_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
  for (unsigned long i = 0; i < 64; i++)
    (void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0); /* refused: it has none to begin with */
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (syscall(SYS_capset, &header, none) != 0) exit_with_error("capabilities cannot be given up", NULL);
}

/* A process with a terminal can give it input: TIOCSTI would type into the shell that started the host. */
static void leave_terminal(void) {
  int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return;      /* it has none */
  signal(SIGHUP, SIG_IGN); /* for the leader of a session that gives up its terminal */
  if (ioctl(fd, TIOCNOTTY) != 0) exit_with_error("cannot leave its terminal", NULL);
  signal(SIGHUP, SIG_DFL);
  close(fd);
}

/* ---- limits ---- */

static void bound(int resource, const char *number, uint64_t unit) {
  char *end;
  unsigned long long value = strtoull(number, &end, 10);
  errno = EINVAL;
  if (*end || end == number || value > UINT64_MAX / unit) exit_with_error("no number:", number);
  struct rlimit limit = {.rlim_cur = value * unit, .rlim_max = value * unit};
  if (setrlimit(resource, &limit) != 0) exit_with_error("a limit was refused:", number);
}

static int how_of(const char *name) {
  static const char *const names[] = {"", "scope", "namespace", "filter"};
  for (int i = BY_SCOPE; i <= BY_FILTER; i++)
    if (strcmp(name, names[i]) == 0) return i;
  errno = EINVAL;
  exit_with_error("-s takes scope, namespace or filter, not", name);
  return 0;
}

int main(int argc, char **argv) {
  paths reads = {.count = 0}, writes = {.count = 0};
  tp__filter_options calls = {.network = true};
  int option, how = 0;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) exit_with_error("no_new_privs was refused", NULL);
  while ((option = getopt(argc, argv, "+r:w:nm:c:p:f:s:")) != -1) {
    switch (option) {
      case 'r':
        add_path(&reads, optarg);
        break;
      case 'w':
        add_path(&writes, optarg);
        break;
      case 'n':
        calls.network = false;
        break;
      case 'm':
        bound(RLIMIT_AS, optarg, 1 << 20);
        break;
      case 'c':
        bound(RLIMIT_CPU, optarg, 1);
        break;
      case 'p':
        bound(RLIMIT_NPROC, optarg, 1);
        break;
      case 'f':
        bound(RLIMIT_FSIZE, optarg, 1 << 20);
        break;
      case 's':
        how = how_of(optarg);
        break;
      default:
        return CANNOT;
    }
  }
  errno = EINVAL;
  if (optind >= argc) exit_with_error("no program", NULL);
  bound(RLIMIT_CORE, "0", 1);
  leave_terminal();
  how = bound_signals(how);
  bound_paths(&reads, &writes, how == BY_SCOPE);
  drop_capabilities();
  calls.writes = writes.count > 0;
  calls.own_signals_only = how == BY_FILTER;
  errno = tp__filter_install(&calls);
  if (errno != 0) exit_with_error("the filter of system calls was refused", NULL);
  execv(argv[optind], argv + optind);
  exit_with_error("cannot start", argv[optind]);
  return CANNOT;
}
