/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of threats (docs/hooks.md): each attack of tests/support/hostile.c works without a sandbox and is refused
 * in one, as root and as a user without rights, for each way to confine signals. An attack that does not work on this
 * machine even without a sandbox proves nothing: it is reported as not tried. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <mqueue.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "domains/declared/sandbox.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"

enum { NOBODY = 65534, ANOTHER = 12345 };

/** What an attack needs of the machine, and what its sandbox is allowed. */
enum {
  ROOT = 1,       /* only root can do it without a sandbox */
  MAY_WRITE = 2,  /* -w the directory: the attack is another one */
  MAY_CALL = 4,   /* without -n */
  TERMINAL = 8,   /* standard input is its controlling terminal */
  OF_ANOTHER = 16 /* directory/fresh is a file of another user */
};

typedef struct attack {
  const char *cell, *name;
  int needs;
} attack;

static const attack attacks[] = {
    {"files", "writes", 0},
    {"files", "truncates", 0},
    {"files", "creates", 0},
    {"files", "makes_directory", 0},
    {"files", "makes_fifo", 0},
    {"files", "makes_link", 0},
    {"files", "makes_hard_link", 0},
    {"files", "renames", 0},
    {"files", "removes", 0},
    {"files", "changes_mode", 0},
    {"files", "changes_mode_of_opened", 0},
    {"files", "changes_owner", 0},
    {"files", "changes_times", 0},
    {"files", "sets_attribute", 0},
    {"terminals", "opens_terminal", TERMINAL},
    {"terminals", "opens_terminal_by_name", TERMINAL},
    {"terminals", "types_into_terminal", TERMINAL},
    {"terminals", "types_by_wide_number", TERMINAL},
    {"terminals", "changes_terminal", TERMINAL},
    {"terminals", "takes_terminal", TERMINAL},
    {"signals", "signals", MAY_CALL},
    {"signals", "signals_all", 0},
    {"signals", "signals_thread", 0},
    {"signals", "signals_thread_by_id", 0},
    {"signals", "queues_signal", 0},
    {"signals", "signals_by_descriptor", 0},
    {"signals", "signals_by_input", 0},
    {"processes", "reads_environment", 0},
    {"processes", "reads_maps", 0},
    {"processes", "opens_descriptor", 0},
    {"processes", "reads_through_root", 0},
    {"processes", "traces", MAY_CALL},
    {"processes", "reads_memory", MAY_WRITE},
    {"processes", "takes_descriptor", 0},
    {"scheduling", "limits", 0},
    {"scheduling", "lowers_priority", 0},
    {"scheduling", "lowers_priority_of_user", 0},
    {"scheduling", "moves_to_processor", 0},
    {"scheduling", "schedules", 0},
    {"scheduling", "slows_input", 0},
    {"shared memory, queues, keys", "attaches_memory", MAY_WRITE},
    {"shared memory, queues, keys", "takes_semaphore", 0},
    {"shared memory, queues, keys", "takes_queue", 0},
    {"shared memory, queues, keys", "makes_memory", 0},
    {"shared memory, queues, keys", "opens_queue", 0},
    {"shared memory, queues, keys", "adds_key", 0},
    {"network", "opens_socket", 0},
    {"network", "opens_local_socket", 0},
    {"network", "opens_route_socket", 0},
    {"network", "opens_packet_socket", ROOT | MAY_CALL},
    {"network", "opens_cipher_socket", MAY_CALL},
    {"network", "sends_from_pair", 0},
    {"network", "sends_message_from_pair", 0},
    {"network", "connects_pair", 0},
    {"network", "connects_abstract", 0},
    {"network", "makes_ring", MAY_CALL},
    {"kernel", "leaves_user", MAY_WRITE},
    {"kernel", "clones_user", MAY_CALL},
    {"kernel", "clones_user_by_struct", 0},
    {"kernel", "joins_namespace", ROOT},
    {"kernel", "mounts", ROOT | MAY_WRITE},
    {"kernel", "reads_kernel_log", ROOT},
    {"kernel", "watches_machine", 0},
    {"kernel", "handles_faults", 0},
    {"kernel", "writes_setting", ROOT},
    {"kernel", "writes_own_badness", 0},
    {"kernel", "names_machine", ROOT},
#ifdef __x86_64__
    {"kernel", "calls_as_32_bit", 0},
#endif
    {"time", "sets_clock", ROOT},
    {"time", "tunes_clock", ROOT},
    {"capabilities", "reads_file_of_another", ROOT | MAY_WRITE | OF_ANOTHER},
    {"capabilities", "makes_device", ROOT | MAY_WRITE},
    {"capabilities", "gives_file_away", ROOT | MAY_WRITE},
    {"capabilities", "gets_root_directory", ROOT | MAY_WRITE},
    {"capabilities", "has_capabilities", ROOT},
    {"core dumps", "dumps_core", MAY_WRITE},
};

static char hostile[160], sandbox[160], given[160];

static const char *helper(void) {
  const char *found = getenv("TURNPHASE_SANDBOX"); /* the build sets both */
  return found ? found : "";
}

/* ---- the victim: a process of the same user ---- */

typedef struct victim {
  pid_t id;
  int memory, semaphore, queue, abstract, socket;
  char mailbox[32];
} victim;

static uid_t user; /* of the attack and its victim */

static void become_user(void) {
  if (geteuid() == 0 && user != 0 && (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0)) _exit(120);
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as a program that this user started */
}

static int bind_at(struct sockaddr_un *to, size_t size) {
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)to, (socklen_t)(sizeof to->sun_family + size)), 0);
  return fd;
}

static victim start_victim(void) {
  int ready[2];
  assert_int_equal(pipe(ready), 0);
  pid_t id = fork();
  if (id == 0) {
    become_user();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setpgid(0, 0) != 0 || write(ready[1], "x", 1) != 1) _exit(120);
    for (;;) pause();
  }
  assert_int_equal(read(ready[0], &(char){0}, 1), 1);
  close(ready[0]);
  close(ready[1]);
  victim v = {.id = id};
  v.memory = shmget((key_t)id, 4096, IPC_CREAT | 0666);
  v.semaphore = semget((key_t)id, 1, IPC_CREAT | 0666);
  v.queue = msgget((key_t)id, IPC_CREAT | 0666);
  snprintf(v.mailbox, sizeof v.mailbox, "/turnphase-%d", id);
  mode_t before = umask(0);
  mqd_t mailbox = mq_open(v.mailbox, O_CREAT | O_RDWR, 0666, NULL);
  if (mailbox >= 0) mq_close(mailbox);
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  v.abstract = bind_at(&to, (size_t)snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "turnphase-%d", id) + 1);
  v.socket = bind_at(&to, (size_t)snprintf(to.sun_path, sizeof to.sun_path, "%s/socket", directory) + 1);
  umask(before);
  return v;
}

static void end_victim(victim *v) {
  kill(v->id, SIGKILL);
  waitpid(v->id, NULL, 0);
  if (v->memory >= 0) shmctl(v->memory, IPC_RMID, NULL);
  if (v->semaphore >= 0) semctl(v->semaphore, 0, IPC_RMID);
  if (v->queue >= 0) msgctl(v->queue, IPC_RMID, NULL);
  mq_unlink(v->mailbox);
  close(v->abstract);
  close(v->socket);
  char name[160];
  snprintf(name, sizeof name, "%s/socket", directory);
  unlink(name);
}

/* ---- one run ---- */

static void take_terminal(int slave) {
  if (setsid() < 0 || ioctl(slave, TIOCSCTTY, 0) != 0 || dup2(slave, 0) != 0) _exit(121);
}

/* Files as they were before the attack. */
static void lay_out(const attack *a) {
  char name[160];
  snprintf(name, sizeof name, "%s/fresh", directory);
  unlink(name);
  rmdir(name);
  if (a->needs & OF_ANOTHER) {
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(fchown(fd, ANOTHER, ANOTHER), 0);
    close(fd);
  }
  snprintf(name, sizeof name, "%s/file", directory);
  unlink(name);
  int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(fchown(fd, user, user), 0);
  close(fd);
}

/* @param how  how signals are confined; NULL: no sandbox.
 * @return the status of its end, as of waitpid(). */
static int attack_once(const attack *a, const victim *v, const char *how) {
  const char *words[24];
  char id[16];
  int count = 0, master = -1, slave = -1, status = 0;
  if (how) {
    words[count++] = sandbox;
    words[count++] = "-s";
    words[count++] = how;
    if (a->needs & MAY_WRITE) {
      words[count++] = "-w";
      words[count++] = a->needs & OF_ANOTHER ? given : directory;
    }
    if (!(a->needs & MAY_CALL)) words[count++] = "-n";
    words[count++] = "--";
  }
  snprintf(id, sizeof id, "%d", v->id);
  words[count++] = hostile;
  words[count++] = a->name;
  words[count++] = id;
  words[count++] = directory;
  words[count] = NULL;
  lay_out(a);
  if (a->needs & TERMINAL) {
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    assert_int_equal(fchown(slave, user, user), 0);
  }
  pid_t child = fork();
  if (child == 0) {
    if (slave >= 0) take_terminal(slave);
    else if (setsid() < 0) _exit(121);
    become_user();
    int nowhere = open("/dev/null", O_RDWR);
    if (nowhere < 0 || (slave < 0 && dup2(nowhere, 0) != 0)) _exit(121);
    execv(words[0], (char **)(uintptr_t)words);
    _exit(122);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (master >= 0) close(master);
  if (slave >= 0) close(slave);
  return status;
}

static bool worked(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

/* By an answer of the attack, or since the call ended it. */
static bool was_refused(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGSYS;
  return WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 128 + SIGSYS;
}

static void try_all(const char *how) {
  victim v = start_victim();
  size_t tried = 0, not_tried = 0;
  for (size_t i = 0; i < COUNT(attacks); i++) {
    const attack *a = &attacks[i];
    if ((a->needs & ROOT) && user != 0) continue;
    if (!worked(attack_once(a, &v, NULL))) {
      print_message("# not tried as user %u, since it does not work without a sandbox: %s\n", user, a->name);
      not_tried++;
      continue;
    }
    int status = attack_once(a, &v, how);
    if (!was_refused(status)) fail_msg("%s: %s as user %u with %s: status %#x", a->cell, a->name, user, how, status);
    tried++;
  }
  end_victim(&v);
  print_message("# as user %u, %s: %zu refused, %zu not tried\n", user, how, tried, not_tried);
  assert_true(tried >= 20); /* else nothing was shown here */
}

static void as_each_user(const char *how) {
  user = geteuid();
  try_all(how);
  if (user != 0) return;
  user = NOBODY;
  try_all(how);
}

/* ---- the cases ---- */

static void copy_program(const char *from, char *ret_path, size_t size, const char *name) {
  char command[600];
  snprintf(ret_path, size, "%s/%s", directory, name);
  snprintf(command, sizeof command, "cp '%s' '%s' && chmod 0755 '%s'", from, ret_path, ret_path);
  assert_int_equal(system(command), 0);
}

static int set_up(void **state) {
  if (make_directory(state) != 0) return -1;
  copy_program(getenv("TURNPHASE_HOSTILE"), hostile, sizeof hostile, "hostile");
  copy_program(helper(), sandbox, sizeof sandbox, "sandbox");
  snprintf(given, sizeof given, "%s/given", directory);
  return mkdir(given, 0777) != 0 || chmod(directory, 01777) != 0;
}

FOR_EACH_TEST(set_up, remove_directory);

static long landlock_version(void) {
  return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

TEST(scope_of_landlock) {
  if (landlock_version() < 6) {
    print_message("# skipped: Landlock of this kernel has no scopes (Linux 6.12)\n");
    return;
  }
  as_each_user("scope");
}

TEST(namespace_of_processes) {
  char command[256];
  snprintf(command, sizeof command, "'%s' -s namespace -- /bin/true 2> /dev/null", sandbox);
  if (system(command) != 0) {
    print_message("# skipped: no namespace of processes is to be had here\n");
    return;
  }
  as_each_user("namespace");
}

TEST(filter_of_calls) { as_each_user("filter"); }

TEST_MAIN(count, arguments) {
  const char *lacks = tp__sandbox_lacks(helper());
  if (lacks) {
    printf("1..0 # SKIP %s\n", lacks);
    return 0;
  }
  return test_main(count, arguments);
}
