/* SPDX-License-Identifier: Apache-2.0
 *
 * escaped.c: finds processes that have left a child's group. A process with a session of its own does not get the
 * signals of the group. The pipe that it inherited still identifies it. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/process/pidfd.h"
#include "runtime/process/process.h"

static bool same_pipe(const struct stat *one, const struct stat *other) {
  return one->st_ino == other->st_ino && one->st_dev == other->st_dev && S_ISFIFO(one->st_mode);
}

/* fstatat follows the link in /proc to the open pipe, so this is the status of the pipe itself. */
static bool holds(int proc, const char *pid, const struct stat *pipes, size_t count) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    char path[288]; /* a name of a directory and 7 bytes */
    struct stat found;
    snprintf(path, sizeof path, "%s/fd/%d", pid, fd);
    if (fstatat(proc, path, &found, 0) != 0) continue;
    for (size_t i = 0; i < count; i++) {
      if (same_pipe(&found, &pipes[i])) return true;
    }
  }
  return false;
}

/* Since the number was read, it may have become another process's. So the process is checked again through the pidfd
 * before it is killed. */
static bool kill_holder(int proc, const char *name, const struct stat *pipes, size_t count) {
  pid_t pid = (pid_t)strtol(name, NULL, 10);
  if (pid <= 1 || pid == getpid() || !holds(proc, name, pipes, count)) return false;
  int pidfd = tp__pidfd_open(pid);
  if (pidfd < 0) return false;
  bool killed = holds(proc, name, pipes, count) && tp__pidfd_send_signal(pidfd, SIGKILL) == 0;
  close(pidfd);
  return killed;
}

uint32_t tp__kill_escaped(int output, int errors) {
  struct stat pipes[2];
  size_t count = 0;
  if (output >= 0 && fstat(output, &pipes[count]) == 0) count++;
  if (errors >= 0 && fstat(errors, &pipes[count]) == 0) count++;
  DIR *proc = count > 0 ? opendir("/proc") : NULL;
  if (!proc) return 0;
  uint32_t killed = 0;
  for (struct dirent *entry = readdir(proc); entry; entry = readdir(proc)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    if (kill_holder(dirfd(proc), entry->d_name, pipes, count)) killed++;
  }
  closedir(proc);
  return killed;
}
