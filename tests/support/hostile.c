/* SPDX-License-Identifier: Apache-2.0
 *
 * hostile: attacks of a program against the process that started it, one attack per run.
 *
 *   hostile ATTACK VICTIM DIRECTORY
 *
 * VICTIM is a process of the same user, DIRECTORY one that it may write. Exit: 0 the attack worked, 1 it was refused, 2
 * there is no such attack. A refusal in a sandbox means something only if the attack works without one. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static pid_t victim;
static char file[100], fresh[100], socket_path[100];

/* ---- files ---- */

static bool can_open(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC | O_NOCTTY, 0600);
  return fd >= 0;
}

static bool writes(void) { return can_open(file, O_WRONLY); }
static bool truncates(void) { return truncate(file, 0) == 0; }
static bool creates(void) { return can_open(fresh, O_WRONLY | O_CREAT); }
static bool makes_directory(void) { return mkdir(fresh, 0700) == 0; }
static bool makes_fifo(void) { return mkfifo(fresh, 0600) == 0; }
static bool makes_link(void) { return symlink("/", fresh) == 0; }
static bool makes_hard_link(void) { return link(file, fresh) == 0; }
static bool renames(void) { return rename(file, fresh) == 0; }
static bool removes(void) { return unlink(file) == 0; }
static bool changes_mode(void) { return chmod(file, 0666) == 0; }
static bool changes_mode_of_opened(void) { return fchmod(open(file, O_RDONLY), 0666) == 0; }
static bool changes_owner(void) { return chown(file, geteuid(), getegid()) == 0; }
static bool changes_times(void) { return utimensat(AT_FDCWD, file, NULL, 0) == 0; }
static bool sets_attribute(void) { return setxattr(file, "user.a", "b", 1, 0) == 0; }
static bool reads_file_of_another(void) { return can_open(fresh, O_RDONLY); } /* the test made it */
static bool makes_device(void) { return mknod(fresh, S_IFCHR | 0600, makedev(1, 3)) == 0; }
static bool gives_file_away(void) { return chown(file, 12345, 12345) == 0; }
static bool gets_root_directory(void) { return chroot("/tmp") == 0; }

/* ---- the terminal ---- */

static bool opens_terminal(void) { return can_open("/dev/tty", O_RDWR); }

static bool opens_terminal_by_name(void) { /* its user's typing is read there */
  char name[64];
  ssize_t size = readlink("/proc/self/fd/0", name, sizeof name - 1);
  if (size <= 0) return false;
  name[size] = '\0';
  return can_open(name, O_RDONLY);
}

static bool types_into_terminal(void) { return ioctl(0, TIOCSTI, "x") == 0; }

static bool types_by_wide_number(void) { /* the kernel reads the lower half of the number */
  return syscall(SYS_ioctl, 0L, 0x100000000L | TIOCSTI, "x") == 0;
}

static bool changes_terminal(void) {
  struct termios modes;
  return tcgetattr(0, &modes) == 0 && tcsetattr(0, TCSANOW, &modes) == 0;
}

static bool takes_terminal(void) { return ioctl(0, TIOCSPGRP, &(pid_t){getpgrp()}) == 0; }

/* ---- other processes ---- */

static bool signals(void) { return kill(victim, 0) == 0; }
static bool signals_all(void) { return kill(-victim, 0) == 0; }
static bool signals_thread(void) { return syscall(SYS_tgkill, victim, victim, 0) == 0; }
static bool signals_thread_by_id(void) { return syscall(SYS_tkill, victim, 0) == 0; }

static bool queues_signal(void) {
  return sigqueue(victim, SIGWINCH, (union sigval){.sival_int = 1}) == 0; /* ignored by it */
}

static bool signals_by_descriptor(void) {
  int fd = (int)syscall(SYS_pidfd_open, victim, 0);
  return fd >= 0 && syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0;
}

static bool signals_by_input(void) { /* SIGWINCH when its own pipe has input: any number would do */
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return false;
  return fcntl(pair[0], F_SETOWN, victim) == 0 && fcntl(pair[0], F_SETSIG, SIGWINCH) == 0;
}

static bool reads_of_process(const char *name) {
  char path[64], byte;
  snprintf(path, sizeof path, "/proc/%d/%s", victim, name);
  int fd = open(path, O_RDONLY);
  return fd >= 0 && read(fd, &byte, 1) >= 0;
}

static bool reads_environment(void) { return reads_of_process("environ"); }
static bool reads_maps(void) { return reads_of_process("maps"); }

static bool opens_descriptor(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/0", victim);
  return can_open(path, O_RDONLY);
}

static bool reads_through_root(void) { return reads_of_process("root/etc/passwd"); }

static bool traces(void) {
  if (ptrace(PTRACE_ATTACH, victim, NULL, NULL) != 0) return false;
  waitpid(victim, NULL, __WALL);
  return ptrace(PTRACE_DETACH, victim, NULL, NULL) == 0;
}

static bool reads_memory(void) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)1, 1};
  return process_vm_readv(victim, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT; /* allowed, and not mapped */
}

static bool takes_descriptor(void) {
  int fd = (int)syscall(SYS_pidfd_open, victim, 0);
  return fd >= 0 && syscall(SYS_pidfd_getfd, fd, 0, 0) >= 0;
}

static bool limits(void) {
  struct rlimit limit;
  return prlimit(victim, RLIMIT_CORE, NULL, &limit) == 0 && prlimit(victim, RLIMIT_CORE, &limit, NULL) == 0;
}

static bool lowers_priority(void) { return setpriority(PRIO_PROCESS, (id_t)victim, 1) == 0; }
static bool lowers_priority_of_user(void) { return setpriority(PRIO_USER, geteuid(), 1) == 0; }

static bool moves_to_processor(void) {
  cpu_set_t set;
  return sched_getaffinity(victim, sizeof set, &set) == 0 && sched_setaffinity(victim, sizeof set, &set) == 0;
}

static bool schedules(void) { return sched_setscheduler(victim, SCHED_BATCH, &(struct sched_param){0}) == 0; }

static bool slows_input(void) { return syscall(SYS_ioprio_set, 1, victim, (3 << 13)) == 0; }

/* ---- what processes share ---- */

static bool attaches_memory(void) { return shmget((key_t)victim, 0, 0) >= 0; }
static bool takes_semaphore(void) { return semget((key_t)victim, 0, 0) >= 0; }
static bool takes_queue(void) { return msgget((key_t)victim, 0) >= 0; }
static bool makes_memory(void) {
  int id = shmget(IPC_PRIVATE, 4096, 0600);
  return id >= 0 && shmctl(id, IPC_RMID, NULL) == 0;
}

static bool opens_queue(void) {
  char name[32];
  snprintf(name, sizeof name, "/turnphase-%d", victim);
  return mq_open(name, O_RDONLY) >= 0;
}

static bool adds_key(void) { return syscall(SYS_add_key, "user", "turnphase", "x", 1, KEY_SPEC_PROCESS_KEYRING) >= 0; }

/* ---- sockets ---- */

static bool opens_socket(void) { return socket(AF_INET, SOCK_DGRAM, 0) >= 0; }
static bool opens_local_socket(void) { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }
static bool opens_route_socket(void) { return socket(AF_NETLINK, SOCK_RAW, 0) >= 0; }
static bool opens_packet_socket(void) { return socket(AF_PACKET, SOCK_RAW, 0) >= 0; }
static bool opens_cipher_socket(void) { return socket(AF_ALG, SOCK_SEQPACKET, 0) >= 0; }

static struct sockaddr_un address(void) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  snprintf(to.sun_path, sizeof to.sun_path, "%s", socket_path);
  return to;
}

static bool sends_from_pair(void) { /* a datagram of a pair goes to any address */
  int pair[2];
  struct sockaddr_un to = address();
  return socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 &&
         sendto(pair[0], "x", 1, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to) == 1;
}

static bool sends_message_from_pair(void) {
  int pair[2];
  struct sockaddr_un to = address();
  struct iovec part = {"x", 1};
  struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1};
  return socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && sendmsg(pair[0], &message, MSG_DONTWAIT) == 1;
}

static bool connects_pair(void) {
  int pair[2];
  struct sockaddr_un to = address();
  return socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && connect(pair[0], (struct sockaddr *)&to, sizeof to) == 0;
}

static bool connects_abstract(void) { /* the victim listens there */
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  int size = snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "turnphase-%d", victim);
  int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  return fd >= 0 && connect(fd, (struct sockaddr *)&to, (socklen_t)(sizeof to.sun_family + 1 + (size_t)size)) == 0;
}

static bool makes_ring(void) {
  struct io_uring_params parameters = {0};
  return syscall(SYS_io_uring_setup, 1, &parameters) >= 0;
}

/* ---- the kernel ---- */

static bool leaves_user(void) { return unshare(CLONE_NEWUSER) == 0; }

static bool clones_user(void) {
  long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  return child > 0;
}

static bool clones_user_by_struct(void) {
  struct {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
  } arguments = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
  long child = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) _exit(0);
  return child > 0;
}

static bool joins_namespace(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/uts", victim);
  return setns(open(path, O_RDONLY), 0) == 0;
}

static bool mounts(void) { return mount("none", "/tmp", NULL, MS_PRIVATE, NULL) == 0 || errno == EINVAL; }

static bool sets_clock(void) {
  struct timespec now;
  return clock_gettime(CLOCK_REALTIME, &now) == 0 && clock_settime(CLOCK_REALTIME, &now) == 0;
}

static bool tunes_clock(void) {
  struct timex change = {.modes = ADJ_STATUS};
  return adjtimex(&(struct timex){0}) >= 0 && adjtimex(&change) >= 0;
}

static bool names_machine(void) {
  char name[256];
  return gethostname(name, sizeof name) == 0 && sethostname(name, strlen(name)) == 0;
}

static bool reads_kernel_log(void) { return syscall(SYS_syslog, 3, (char[16]){0}, 16) >= 0; }

static bool watches_machine(void) {
  struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event, .exclude_kernel = 1};
  return syscall(SYS_perf_event_open, &event, 0, -1, -1, 0) >= 0;
}

static bool handles_faults(void) { return syscall(SYS_userfaultfd, 1 /* of its own code only */) >= 0; }
static bool writes_setting(void) { return can_open("/proc/sys/kernel/core_pattern", O_WRONLY); }
static bool writes_own_badness(void) { return can_open("/proc/self/oom_score_adj", O_WRONLY); }
static bool has_capabilities(void) { return geteuid() == 0 && setgid(getegid() + 1) == 0; }

#ifdef __x86_64__
static bool calls_as_32_bit(void) { /* the numbers of another architecture: 20 is getpid */
  long number = 20;
  __asm__ volatile("int $0x80" : "+a"(number) : : "memory");
  return number == getpid();
}
#endif

static bool dumps_core(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max > 0;
}

static const struct {
  const char *name;
  bool (*works)(void);
} attacks[] = {
#define ATTACK(name) \
  { #name, name }
    ATTACK(writes),
    ATTACK(truncates),
    ATTACK(creates),
    ATTACK(makes_directory),
    ATTACK(makes_fifo),
    ATTACK(makes_link),
    ATTACK(makes_hard_link),
    ATTACK(renames),
    ATTACK(removes),
    ATTACK(changes_mode),
    ATTACK(changes_mode_of_opened),
    ATTACK(changes_owner),
    ATTACK(changes_times),
    ATTACK(sets_attribute),
    ATTACK(reads_file_of_another),
    ATTACK(makes_device),
    ATTACK(gives_file_away),
    ATTACK(gets_root_directory),
    ATTACK(opens_terminal),
    ATTACK(opens_terminal_by_name),
    ATTACK(types_into_terminal),
    ATTACK(types_by_wide_number),
    ATTACK(changes_terminal),
    ATTACK(takes_terminal),
    ATTACK(signals),
    ATTACK(signals_all),
    ATTACK(signals_thread),
    ATTACK(signals_thread_by_id),
    ATTACK(queues_signal),
    ATTACK(signals_by_descriptor),
    ATTACK(signals_by_input),
    ATTACK(reads_environment),
    ATTACK(reads_maps),
    ATTACK(opens_descriptor),
    ATTACK(reads_through_root),
    ATTACK(traces),
    ATTACK(reads_memory),
    ATTACK(takes_descriptor),
    ATTACK(limits),
    ATTACK(lowers_priority),
    ATTACK(lowers_priority_of_user),
    ATTACK(moves_to_processor),
    ATTACK(schedules),
    ATTACK(slows_input),
    ATTACK(attaches_memory),
    ATTACK(takes_semaphore),
    ATTACK(takes_queue),
    ATTACK(makes_memory),
    ATTACK(opens_queue),
    ATTACK(adds_key),
    ATTACK(opens_socket),
    ATTACK(opens_local_socket),
    ATTACK(opens_route_socket),
    ATTACK(opens_packet_socket),
    ATTACK(opens_cipher_socket),
    ATTACK(sends_from_pair),
    ATTACK(sends_message_from_pair),
    ATTACK(connects_pair),
    ATTACK(connects_abstract),
    ATTACK(makes_ring),
    ATTACK(leaves_user),
    ATTACK(clones_user),
    ATTACK(clones_user_by_struct),
    ATTACK(joins_namespace),
    ATTACK(mounts),
    ATTACK(sets_clock),
    ATTACK(tunes_clock),
    ATTACK(names_machine),
    ATTACK(reads_kernel_log),
    ATTACK(watches_machine),
    ATTACK(handles_faults),
    ATTACK(writes_setting),
    ATTACK(writes_own_badness),
    ATTACK(has_capabilities),
#ifdef __x86_64__
    ATTACK(calls_as_32_bit),
#endif
    ATTACK(dumps_core),
};

int main(int count, char **arguments) {
  if (count != 4) return 2;
  victim = (pid_t)strtol(arguments[2], NULL, 10);
  snprintf(file, sizeof file, "%s/file", arguments[3]);
  snprintf(fresh, sizeof fresh, "%s/fresh", arguments[3]);
  snprintf(socket_path, sizeof socket_path, "%s/socket", arguments[3]);
  for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++)
    if (strcmp(arguments[1], attacks[i].name) == 0) return attacks[i].works() ? 0 : 1;
  return 2;
}
