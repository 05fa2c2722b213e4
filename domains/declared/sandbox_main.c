/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase-sandbox: takes rights from itself, then becomes a program. Linux: no_new_privs, Landlock for paths, seccomp
 * for the network, resource limits. What it cannot do ends it (126), and the program never runs.
 *
 *   turnphase-sandbox [-r PATH]… [-w PATH]… [-n] [-m MIB] [-c SECONDS] [-p COUNT] [-f MIB] -- PROGRAM [ARGUMENT]…
 *     -r  it may read and run what is there; without any it may read everything
 *     -w  it may change what is there
 *     -n  no sockets but those that it is given
 *     -m  memory, -c  processor time, -p  processes of its user, -f  size of a file */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

enum { CANNOT = 126, PATHS_MAX = 64 };

#define READS (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* Every bit of the first version, then what later ones added: moving between directories, truncating. */
#define ALL_OF_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define REFER (UINT64_C(1) << 13)
#define TRUNCATE (UINT64_C(1) << 14)
#define OF_FILES (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE)

static void fail(const char *what, const char *subject) {
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
  if (list->count == PATHS_MAX) fail("too many paths at", path);
  list->items[list->count++] = path;
}

static void allow(int ruleset, const char *path, uint64_t access) {
  struct stat found;
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &found) != 0) fail("cannot allow", path);
  if (!S_ISDIR(found.st_mode)) access &= OF_FILES;
  struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) fail("cannot allow", path);
  close(fd);
}

static uint64_t handled_by(long version, bool bounds_reading) {
  uint64_t access = ALL_OF_1;
  if (version >= 2) access |= REFER;
  if (version >= 3) access |= TRUNCATE;
  return bounds_reading ? access : access & ~(uint64_t)READS;
}

static void bound_paths(const paths *reads, const paths *writes) {
  long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) fail("no Landlock in this kernel", NULL);
  uint64_t handled = handled_by(version, reads->count > 0);
  struct landlock_ruleset_attr attributes = {.handled_access_fs = handled};
  int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
  if (ruleset < 0) fail("no set of rules", NULL);
  for (size_t i = 0; i < reads->count; i++) allow(ruleset, reads->items[i], handled & READS);
  for (size_t i = 0; i < writes->count; i++) allow(ruleset, writes->items[i], handled);
  allow(ruleset, "/dev/null", handled);
  if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) fail("Landlock was refused", NULL);
  close(ruleset);
}

/* ---- network ---- */

/* Neither a socket nor a ring through which one could be made. Programs of another architecture are ended: their
 * numbers are others. */
static void bound_network(void) {
#ifdef OUR_ARCH
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 3, 0), /* x32 */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) fail("seccomp was refused", NULL);
#else
  errno = ENOSYS;
  fail("no filter for this architecture", NULL);
#endif
}

/* ---- limits ---- */

static void bound(int resource, const char *number, uint64_t unit) {
  char *end;
  unsigned long long value = strtoull(number, &end, 10);
  errno = EINVAL;
  if (*end || end == number || value > UINT64_MAX / unit) fail("no number:", number);
  struct rlimit limit = {.rlim_cur = value * unit, .rlim_max = value * unit};
  if (setrlimit(resource, &limit) != 0) fail("a limit was refused:", number);
}

int main(int argc, char **argv) {
  paths reads = {.count = 0}, writes = {.count = 0};
  bool no_network = false;
  int option;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs was refused", NULL);
  while ((option = getopt(argc, argv, "+r:w:nm:c:p:f:")) != -1) {
    switch (option) {
      case 'r':
        add_path(&reads, optarg);
        break;
      case 'w':
        add_path(&writes, optarg);
        break;
      case 'n':
        no_network = true;
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
      default:
        return CANNOT;
    }
  }
  errno = EINVAL;
  if (optind >= argc) fail("no program", NULL);
  bound_paths(&reads, &writes);
  if (no_network) bound_network();
  execv(argv[optind], argv + optind);
  fail("cannot start", argv[optind]);
  return CANNOT;
}
