/* SPDX-License-Identifier: Apache-2.0
 *
 * spawn.c: starts programs with posix_spawn (which shares the memory of the host until the program is loaded) and a
 * pidfd. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/process/pidfd.h"
#include "runtime/process/process.h"

/* pipes[i][0] is for reading, pipes[i][1] for writing. The child has one end of each pipe, the host the other. */
enum { INPUT, OUTPUT, ERRORS, PIPES };
static int our_side(int pipe) { return pipe == INPUT ? 1 : 0; }

static void close_one(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

/* If a host has closed its own descriptors 0 to 2, pipes get these numbers. In the child they would collide with its
 * standard descriptors. */
static bool move_up(int *fd) {
  if (*fd > STDERR_FILENO) return true;
  int above = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (above < 0) return false;
  close(*fd);
  *fd = above;
  return true;
}

/* A resident child reads from a socket (process.c, send_locked()). */
static int open_pipe(int pipe[2], bool is_socket) {
  if (is_socket) return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipe);
  return pipe2(pipe, O_CLOEXEC);
}

static int open_pipes(int pipes[PIPES][2], bool is_resident) {
  for (int i = 0; i < PIPES; i++) {
    if (open_pipe(pipes[i], is_resident && i == INPUT) != 0) return errno;
    if (!move_up(&pipes[i][0]) || !move_up(&pipes[i][1])) return errno;
    int ours = pipes[i][our_side(i)];
    if (fcntl(ours, F_SETFL, fcntl(ours, F_GETFL) | O_NONBLOCK) != 0) return errno;
  }
  return 0;
}

#ifdef __GLIBC__
static int close_others(posix_spawn_file_actions_t *actions) {
  return posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}
#else
static bool is_inherited(int fd) {
  int flags = fcntl(fd, F_GETFD);
  return fd > STDERR_FILENO && flags >= 0 && !(flags & FD_CLOEXEC);
}

/* musl has no single action that closes all descriptors, so each open descriptor gets an action. If another thread of
 * the host opens a descriptor without O_CLOEXEC after this, the child inherits it. */
static int close_others(posix_spawn_file_actions_t *actions) {
  DIR *open_now = opendir("/proc/self/fd");
  if (!open_now) return errno;
  int error = 0;
  for (struct dirent *entry = readdir(open_now); entry && error == 0; entry = readdir(open_now)) {
    int fd = (int)strtol(entry->d_name, NULL, 10); /* "." and "..": 0 */
    if (is_inherited(fd)) error = posix_spawn_file_actions_addclose(actions, fd);
  }
  closedir(open_now);
  return error;
}
#endif

static int fill_actions(posix_spawn_file_actions_t *actions, int pipes[PIPES][2], const char *directory) {
  int error = 0;
  if (directory) error = posix_spawn_file_actions_addchdir_np(actions, directory);
  if (error == 0) error = posix_spawn_file_actions_adddup2(actions, pipes[INPUT][0], STDIN_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(actions, pipes[OUTPUT][1], STDOUT_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(actions, pipes[ERRORS][1], STDERR_FILENO);
  if (error == 0) error = close_others(actions);
  return error;
}

/* The child gets a session of its own, and with it a group of its own and no terminal: otherwise a program could type
 * into the host's terminal. */
static int fill_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (error == 0) error = posix_spawnattr_setsigmask(attributes, &none);
  if (error == 0) error = posix_spawnattr_setsigdefault(attributes, &all);
  return error;
}

static int spawn_with(const tp_process_options *options, const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attributes, pid_t *ret_pid) {
  static char *const nothing[] = {NULL};
  /* posix_spawn changes neither list, but its parameters are not const, for historical reasons */
  char *const *arguments = (char *const *)(uintptr_t)options->arguments;
  char *const *environment = options->environment ? (char *const *)(uintptr_t)options->environment : nothing;
  return posix_spawn(ret_pid, arguments[0], actions, attributes, arguments, environment);
}

static int spawn(const tp_process_options *options, int pipes[PIPES][2], pid_t *ret_pid) {
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  posix_spawnattr_t attributes;
  error = posix_spawnattr_init(&attributes);
  if (error == 0) {
    error = fill_attributes(&attributes);
    if (error == 0) error = fill_actions(&actions, pipes, options->directory);
    if (error == 0) error = spawn_with(options, &actions, &attributes, ret_pid);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* The pidfd is opened before the loop waits for the child, so the number still means this child. */
static int watch(pid_t pid, int *ret_pidfd) {
  *ret_pidfd = tp__pidfd_open(pid);
  if (*ret_pidfd >= 0) return 0;
  int error = errno;
  kill(-pid, SIGKILL);
  waitpid(pid, NULL, 0);
  return error;
}

tp_status tp__spawn(const tp_process_options *options, tp__spawned *ret_spawned, tp_fault *fault) {
  int pipes[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
  tp__spawned spawned = {.pid = 0};
  int error = open_pipes(pipes, options->on_output != NULL);
  if (error == 0) error = spawn(options, pipes, &spawned.pid);
  if (error == 0) error = watch(spawned.pid, &spawned.pidfd);
  for (int i = 0; i < PIPES; i++) {
    close_one(&pipes[i][1 - our_side(i)]);
    if (error != 0) close_one(&pipes[i][our_side(i)]);
  }
  if (error != 0) {
    const char *remedy = "";
    if (error == ENOENT) remedy = " (the program, its interpreter or its directory)";
    if (error == EACCES) remedy = ": make it executable (chmod +x)";
    if (error == ENOEXEC) remedy = ": begin a script with #! and its interpreter";
    if (error == EMFILE || error == ENFILE) remedy = ": raise the limit of open files";
    (void)!tp__fail(fault, TP_ERR_SYSTEM, NULL, "cannot start %s: %s%s", options->arguments[0], strerror(error),
                    remedy);
    if (fault) fault->system_error = error;
    return TP_ERR_SYSTEM;
  }
  spawned.input = pipes[INPUT][1];
  spawned.output = pipes[OUTPUT][0];
  spawned.errors = pipes[ERRORS][0];
  *ret_spawned = spawned;
  return TP_OK;
}
