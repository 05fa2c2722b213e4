/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox_filter.c: a list of the allowed system calls. A call that is not in these lists is refused, so new calls of
 * later kernels are refused, too. Calls that are left out on purpose: those that look into other processes (ptrace,
 * process_vm_readv, pidfd_getfd, kcmp, perf_event_open), those that reach other programs of the user (System V and
 * POSIX message queues, keys), those that make calls which a filter cannot see (io_uring), those that make new
 * namespaces or mounts, and all for which a program needs a capability. */
#include "domains/declared/sandbox_filter.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef OUR_ARCH

enum {
  INSTRUCTIONS_MAX = 1024,
  X32 = 0x40000000,
  LAST_KNOWN = 453,          /* later calls are not known here; on ENOSYS, libraries try another one */
  NEW_NAMESPACE = 0x7E020000 /* CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET */
};

/* Numbers above 423 are the same on all architectures; some of them are missing in the kernel headers of Debian 12. */
enum { CALL_FCHMODAT2 = 452, CALL_FUTEX_WAITV = 449 };

static const int always[] = {
#ifdef __x86_64__ /* older forms of those below */
    SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_poll, SYS_access, SYS_pipe, SYS_select, SYS_dup2, SYS_getdents,
    SYS_rename, SYS_mkdir, SYS_rmdir, SYS_link, SYS_unlink, SYS_symlink, SYS_readlink, SYS_mknod, SYS_inotify_init,
    SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_fork, SYS_vfork, SYS_getpgrp, SYS_arch_prctl, SYS_pause,
    SYS_alarm, SYS_signalfd, SYS_time,
#endif
    /* files: Landlock says which */
    SYS_read, SYS_write, SYS_openat, SYS_openat2, SYS_close, SYS_close_range, SYS_fstat, SYS_newfstatat, SYS_statx,
    SYS_lseek, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2,
    SYS_faccessat, SYS_faccessat2, SYS_pipe2, SYS_ppoll, SYS_pselect6, SYS_dup, SYS_dup3, SYS_flock, SYS_fsync,
    SYS_fdatasync, SYS_sync_file_range, SYS_truncate, SYS_ftruncate, SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir,
    SYS_renameat, SYS_renameat2, SYS_mkdirat, SYS_linkat, SYS_unlinkat, SYS_symlinkat, SYS_readlinkat, SYS_mknodat,
    SYS_umask, SYS_fadvise64, SYS_readahead, SYS_fallocate, SYS_sendfile, SYS_splice, SYS_tee, SYS_vmsplice,
    SYS_copy_file_range, SYS_statfs, SYS_fstatfs, SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch,
    SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr, SYS_epoll_create1,
    SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2,
    /* memory of its own */
    SYS_mmap, SYS_mprotect, SYS_munmap, SYS_brk, SYS_mremap, SYS_msync, SYS_mincore, SYS_madvise, SYS_mlock, SYS_mlock2,
    SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_memfd_create, SYS_pkey_mprotect, SYS_pkey_alloc, SYS_pkey_free,
    SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy, SYS_membarrier,
    /* itself and its children */
    SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_getpid, SYS_getppid, SYS_gettid,
    SYS_getpgid, SYS_setpgid, SYS_getsid, SYS_setsid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid,
    SYS_getresgid, SYS_getgroups, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid,
    SYS_setfsuid, SYS_setfsgid, SYS_set_tid_address, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_prctl,
    SYS_uname, SYS_sysinfo, SYS_getrlimit, SYS_setrlimit, SYS_getrusage, SYS_times, SYS_getpriority, SYS_ioprio_get,
    SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_sched_getattr,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_rr_get_interval, SYS_getcpu, SYS_restart_syscall,
    SYS_futex, CALL_FUTEX_WAITV, SYS_capget, SYS_capset, SYS_getrandom, SYS_pidfd_open, SYS_seccomp,
    SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
    /* its signals and clocks */
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_rt_sigsuspend,
    SYS_sigaltstack, SYS_signalfd4, SYS_getitimer, SYS_setitimer, SYS_timer_create, SYS_timer_settime,
    SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete, SYS_timerfd_create, SYS_timerfd_settime,
    SYS_timerfd_gettime, SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday,
    /* sockets that it has, such as a pair */
    SYS_getsockname, SYS_getpeername, SYS_setsockopt, SYS_getsockopt, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg,
    SYS_sendmmsg, SYS_recvmmsg, SYS_shutdown};

static const int of_modes[] = {
#ifdef __x86_64__
    SYS_chmod,    SYS_chown,     SYS_lchown,     SYS_utime,       SYS_utimes,       SYS_futimesat,
#endif
    SYS_fchmod,   SYS_fchmodat,  CALL_FCHMODAT2, SYS_fchown,      SYS_fchownat,     SYS_utimensat,
    SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,  SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr};

static const int of_network[] = {SYS_connect, SYS_bind,   SYS_listen,    SYS_accept,
                                 SYS_accept4, SYS_sendto, SYS_socketpair};

static const int of_signals[] = {
    SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_send_signal};

/* Questions of programs about files and pipes, and whether a descriptor is a terminal; none that changes a device. */
static const uint32_t controls[] = {
    FIONREAD,
    FIONBIO,
    FIOASYNC,
    FIOCLEX,
    FIONCLEX,
    TCGETS,
    TIOCGWINSZ,
    TIOCGPGRP,
    0x40049409 /* FICLONE */,
    0x4020940d /* FICLONERANGE */,
    0x80086601 /* FS_IOC_GETFLAGS */,
    0xc020660b /* FS_IOC_FIEMAP */
};

/* Not F_SETOWN and F_SETSIG: with these, input could send any signal to any process. */
static const uint32_t of_descriptors[] = {F_DUPFD,      F_GETFD,    F_SETFD,         F_GETFL,      F_SETFL,
                                          F_GETLK,      F_SETLK,    F_SETLKW,        F_OFD_GETLK,  F_OFD_SETLK,
                                          F_OFD_SETLKW, F_GETOWN,   F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ,
                                          F_ADD_SEALS,  F_GET_SEALS};

typedef struct filter {
  struct sock_filter code[INSTRUCTIONS_MAX];
  size_t count;
} filter;

static void put_instruction(filter *f, uint16_t code, uint32_t value, size_t if_true, size_t if_false) {
  if (f->count < INSTRUCTIONS_MAX)
    f->code[f->count] = (struct sock_filter){code, (uint8_t)if_true, (uint8_t)if_false, value};
  f->count++;
}

static void load(filter *f, size_t offset) { put_instruction(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0); }

static void put_filter_return(filter *f, uint32_t action) { put_instruction(f, BPF_RET | BPF_K, action, 0, 0); }

static void put_refusal(filter *f) { put_filter_return(f, SECCOMP_RET_ERRNO | EPERM); }

/* Both architectures store the lower half first. The kernel itself reads only that half of an argument that is an
 * int. */
static size_t lower(int argument) {
  assert(argument >= 0 && argument < 6);
  return offsetof(struct seccomp_data, args) + (size_t)argument * sizeof(uint64_t);
}

static void allow_all(filter *f, const int *calls, size_t count) {
  for (size_t i = 0; i < count; i++) {
    put_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], 0, 1);
    put_filter_return(f, SECCOMP_RET_ALLOW);
  }
}

/* The rules up to end_call() are for this call, and must all end in answers. @return the place, for end_call(). */
static size_t begin_call(filter *f, int call) {
  put_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 0);
  return f->count - 1;
}

static void end_call(filter *f, size_t at) {
  put_refusal(f);
  size_t skipped = f->count - at - 1;
  assert(skipped <= UINT8_MAX); /* what a jump can skip */
  if (at < INSTRUCTIONS_MAX) f->code[at].jf = (uint8_t)skipped;
}

/* The following rules of the call apply only if the loaded value equals this one. */
static void demand(filter *f, uint32_t value) {
  put_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
  put_refusal(f);
}

static void allow_value(filter *f, uint32_t value) {
  put_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  put_filter_return(f, SECCOMP_RET_ALLOW);
}

static void allow_one_of(filter *f, int call, int argument, const uint32_t *values, size_t count) {
  size_t at = begin_call(f, call);
  load(f, lower(argument));
  for (size_t i = 0; i < count; i++) allow_value(f, values[i]);
  end_call(f, at);
}

static void allow_for_itself(filter *f, int call, uint32_t self) {
  const uint32_t values[] = {0, self};
  allow_one_of(f, call, 0, values, self ? 2 : 1);
}

/* Of the kinds of targets, allows only the program itself: its own priority, not that of all programs of the user. */
static void allow_first_two(filter *f, int call, uint32_t first, uint32_t second) {
  size_t at = begin_call(f, call);
  load(f, lower(0));
  demand(f, first);
  load(f, lower(1));
  allow_value(f, second);
  end_call(f, at);
}

/* Allows threads and processes, but no namespace, because the program would have capabilities in it. */
static void allow_clone(filter *f) {
  size_t at = begin_call(f, SYS_clone);
  load(f, lower(0));
  put_instruction(f, BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACE, 1, 0);
  put_filter_return(f, SECCOMP_RET_ALLOW);
  end_call(f, at);
  at = begin_call(f, SYS_clone3); /* its flags are in memory, which a filter cannot read; libraries then use clone */
  put_filter_return(f, SECCOMP_RET_ERRNO | ENOSYS);
  end_call(f, at);
}

/* Without a network, only pairs whose connection is fixed are allowed, because a datagram of another pair may be sent
 * to any address. */
static void allow_connected_sockets(filter *f) {
  size_t at = begin_call(f, SYS_socketpair);
  load(f, lower(1));
  put_instruction(f, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
  allow_value(f, SOCK_STREAM);
  allow_value(f, SOCK_SEQPACKET);
  end_call(f, at);
  at = begin_call(f, SYS_sendto);
  load(f, lower(4));
  demand(f, 0);
  load(f, lower(4) + sizeof(uint32_t));
  allow_value(f, 0);
  end_call(f, at);
}

static void allow_sockets(filter *f, bool network) {
  static const uint32_t families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK /* names of hosts */};
  if (network) {
    allow_all(f, of_network, sizeof of_network / sizeof of_network[0]);
    allow_one_of(f, SYS_socket, 0, families, sizeof families / sizeof families[0]);
  } else allow_connected_sockets(f);
}

static void allow_signals(filter *f, bool own_only) {
  if (!own_only) {
    allow_all(f, of_signals, sizeof of_signals / sizeof of_signals[0]);
    return;
  }
  uint32_t self = (uint32_t)getpid();
  allow_for_itself(f, SYS_kill, self);
  allow_for_itself(f, SYS_tkill, self);
  allow_for_itself(f, SYS_tgkill, self);
  allow_for_itself(f, SYS_rt_sigqueueinfo, self);
  allow_for_itself(f, SYS_rt_tgsigqueueinfo, self);
}

static void allow_scheduling(filter *f) {
  static const int of_one[] = {SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
                               SYS_prlimit64};
  for (size_t i = 0; i < sizeof of_one / sizeof of_one[0]; i++) allow_for_itself(f, of_one[i], 0);
  allow_first_two(f, SYS_setpriority, 0 /* PRIO_PROCESS */, 0);
  allow_first_two(f, SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, 0);
}

int tp__filter_install(const tp__filter_options *options) {
  assert(options);
  filter f = {.count = 0};
  load(&f, offsetof(struct seccomp_data, arch));
  put_instruction(&f, BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0);
  put_filter_return(&f, SECCOMP_RET_KILL_PROCESS); /* the numbers of another architecture mean other calls */
  load(&f, offsetof(struct seccomp_data, nr));
  put_instruction(&f, BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1);
  put_refusal(&f);
  put_instruction(&f, BPF_JMP | BPF_JGT | BPF_K, LAST_KNOWN, 0, 1);
  put_filter_return(&f, SECCOMP_RET_ERRNO | ENOSYS);
  allow_all(&f, always, sizeof always / sizeof always[0]);
  if (options->writes) allow_all(&f, of_modes, sizeof of_modes / sizeof of_modes[0]);
  allow_one_of(&f, SYS_ioctl, 1, controls, sizeof controls / sizeof controls[0]);
  allow_one_of(&f, SYS_fcntl, 1, of_descriptors, sizeof of_descriptors / sizeof of_descriptors[0]);
  allow_clone(&f);
  allow_sockets(&f, options->network);
  allow_signals(&f, options->own_signals_only);
  allow_scheduling(&f);
  put_refusal(&f);
  if (f.count > INSTRUCTIONS_MAX) return E2BIG;
  struct sock_fprog program = {.len = (unsigned short)f.count, .filter = f.code};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? 0 : errno;
}

#else

int tp__filter_install(const tp__filter_options *options) {
  (void)options;
  return ENOSYS;
}

#endif
