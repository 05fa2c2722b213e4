/* SPDX-License-Identifier: Apache-2.0
 *
 * dying writes: a process that kills itself before, within or after the n-th system call by which SQLite writes. */
#ifndef TEST_DYING_WRITES_H
#define TEST_DYING_WRITES_H

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <unistd.h>

enum { BEFORE, WITHIN, BEHIND, WAYS };
static _Atomic int writes;
static int dies_at, dies_how;

static inline bool dies_now(void) { return ++writes == dies_at; }
static inline void die(void) { kill(getpid(), SIGKILL); }

static inline ssize_t dying_pwrite(int fd, const void *bytes, size_t size, off_t at) {
  bool dies = dies_now();
  if (dies && dies_how == WITHIN) (void)!pwrite(fd, bytes, size / 2, at);
  if (dies && dies_how != BEHIND) die();
  ssize_t written = pwrite(fd, bytes, size, at);
  if (dies) die();
  return written;
}

static inline ssize_t dying_write(int fd, const void *bytes, size_t size) {
  bool dies = dies_now();
  if (dies && dies_how == WITHIN) (void)!write(fd, bytes, size / 2);
  if (dies && dies_how != BEHIND) die();
  ssize_t written = write(fd, bytes, size);
  if (dies) die();
  return written;
}

static inline int dying_truncate(int fd, off_t size) {
  bool dies = dies_now();
  if (dies && dies_how != BEHIND) die();
  int result = ftruncate(fd, size);
  if (dies) die();
  return result;
}

static inline int dying_fallocate(int fd, off_t at, off_t size) {
  bool dies = dies_now();
  if (dies && dies_how != BEHIND) die();
  int result = posix_fallocate(fd, at, size);
  if (dies) die();
  return result;
}

static inline int dying_unlink(const char *name) {
  bool dies = dies_now();
  if (dies && dies_how != BEHIND) die();
  int result = unlink(name);
  if (dies) die();
  return result;
}

static inline bool install_deaths(void) {
  static const struct {
    const char *name;
    sqlite3_syscall_ptr function;
  } calls[] = {{"pwrite", (sqlite3_syscall_ptr)dying_pwrite},       {"pwrite64", (sqlite3_syscall_ptr)dying_pwrite},
               {"write", (sqlite3_syscall_ptr)dying_write},         {"ftruncate", (sqlite3_syscall_ptr)dying_truncate},
               {"fallocate", (sqlite3_syscall_ptr)dying_fallocate}, {"unlink", (sqlite3_syscall_ptr)dying_unlink}};
  if (sqlite3_initialize() != SQLITE_OK) return false;
  sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    int rc = vfs->xSetSystemCall(vfs, calls[i].name, calls[i].function);
    if (rc != SQLITE_OK && rc != SQLITE_NOTFOUND) return false; /* a build of SQLite has one of pwrite and pwrite64 */
  }
  return true;
}

#endif
