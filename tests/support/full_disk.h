/* SPDX-License-Identifier: Apache-2.0
 *
 * full_disk: a disk without space while a test says so, simulated by the system calls of SQLite's VFS. */
#ifndef TEST_FULL_DISK_H
#define TEST_FULL_DISK_H

#include <errno.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic bool disk_full;
static const char *full_only; /* how the name of the file ends that alone finds no space; NULL: any */

static bool is_meant(int fd) {
  char link[64], name[512];
  if (!full_only) return true;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, name, sizeof name);
  size_t end = strlen(full_only);
  return size > (ssize_t)end && memcmp(name + size - end, full_only, end) == 0;
}

static ssize_t full_pwrite(int fd, const void *bytes, size_t size, off_t at) {
  if (!disk_full || !is_meant(fd)) return pwrite(fd, bytes, size, at);
  errno = ENOSPC;
  return -1;
}

/* Before any file is opened. */
static bool install_full_disk(void) {
  if (sqlite3_initialize() != SQLITE_OK) return false;
  sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
  return vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)full_pwrite) == SQLITE_OK &&
         vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)full_pwrite) == SQLITE_OK;
}

#endif
