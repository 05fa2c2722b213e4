/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/files/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/check.h"
#include "support/file.h"

enum { RACES_MAX = 128, NAMES_MAX = 16 };

bool tp__files_path(tp_text path, char into[TP__FILES_PATH_MAX]) {
  if (path.size >= TP__FILES_PATH_MAX || (path.size && memchr(path.data, '\0', path.size))) return false;
  if (path.size) memcpy(into, path.data, path.size);
  else into[0] = '.';
  into[path.size ? path.size : 1] = '\0';
  return true;
}

int tp__files_open(int root, const char *path, int flags) {
  assert(root >= 0 && path && *path);
  struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NONBLOCK),
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  if (flags & O_PATH) how.flags &= ~(uint64_t)O_NONBLOCK;
  /* Repeats on EAGAIN: a directory was renamed while the kernel resolved "..". */
  for (int i = 0; i < RACES_MAX; i++) {
    long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    if (fd >= 0) return (int)fd;
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return -errno;
}

int tp__files_open_root(const char *path) {
  int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return -errno;
  int probe = tp__files_open(root, ".", O_PATH);
  if (probe >= 0) {
    close(probe);
    return root;
  }
  close(root);
  return probe == -EPERM ? -ENOSYS : probe; /* EPERM comes from a seccomp filter */
}

int tp__files_open_to_read(int root, const char *path) {
  int fd = tp__files_open(root, path, O_RDONLY | O_NOCTTY);
  if (fd < 0) return fd == -ENXIO ? -EINVAL : fd;
  int error = tp__file_check_type(fd, NULL);
  if (!error) return fd;
  close(fd);
  return error == -ENOTSUP ? -EINVAL : error;
}

/* ---- writing ---- */

static int write_whole(int fd, tp_text text) {
  assert(fd >= 0);
  while (text.size) {
    ssize_t size = write(fd, text.data, text.size);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return -errno;
    text.data += size;
    text.size -= (size_t)size;
  }
  return fsync(fd) == 0 ? 0 : -errno;
}

/* Makes the directories before the last slash, and opens the last of them. */
static int open_parent(int root, char *path) {
  for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
    if (slash == path) return -EXDEV; /* the path is absolute */
    *slash = '\0';
    int fd = tp__files_open(root, path, O_PATH | O_DIRECTORY);
    if (fd == -ENOENT) {
      char *name = strrchr(path, '/');
      if (name) *name = '\0';
      int parent = tp__files_open(root, name ? path : ".", O_PATH | O_DIRECTORY);
      if (name) *name = '/';
      if (parent < 0) return parent;
      int made = mkdirat(parent, name ? name + 1 : path, 0777);
      fd = made == 0 || errno == EEXIST ? tp__files_open(root, path, O_PATH | O_DIRECTORY) : -errno;
      close(parent);
    }
    if (fd < 0) return fd;
    close(fd);
    *slash = '/';
  }
  char *last = strrchr(path, '/');
  if (last) *last = '\0';
  int fd = tp__files_open(root, last ? path : ".", O_RDONLY | O_DIRECTORY);
  if (last) *last = '/';
  return fd;
}

static int create_temporary(int directory, char name[64]) {
  assert(directory >= 0);
  for (int i = 0; i < NAMES_MAX; i++) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) return -errno;
    snprintf(name, 64, ".turnphase-%016llx", (unsigned long long)random);
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    if (errno != EEXIST) return -errno;
  }
  return -EEXIST;
}

/* Checks that the path to be replaced is a file, and keeps the mode of that file. A symbolic link is replaced itself,
 * never its target. */
static int keep_mode(int directory, const char *name, int fd) {
  assert(directory >= 0 && fd >= 0 && !strchr(name, '/'));
  struct stat found;
  if (fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : -errno;
  if (S_ISDIR(found.st_mode)) return -EISDIR;
  if (S_ISLNK(found.st_mode)) return 0;
  if (!S_ISREG(found.st_mode)) return -EINVAL;
  return fchmod(fd, found.st_mode & 0777) == 0 ? 0 : -errno;
}

static int replace_in(int directory, const char *name, tp_text text) {
  char temporary[64];
  int fd = create_temporary(directory, temporary);
  if (fd < 0) return fd;
  int error = keep_mode(directory, name, fd);
  if (!error) error = write_whole(fd, text);
  if (close(fd) != 0 && !error) error = -errno;
  if (!error && renameat(directory, temporary, directory, name) != 0) error = -errno;
  if (error) unlinkat(directory, temporary, 0);
  else if (fsync(directory) != 0) error = -errno;
  return error;
}

int tp__files_write(int root, const char *path, tp_text text) {
  assert(root >= 0 && path && (text.data || text.size == 0));
  char copy[TP__FILES_PATH_MAX];
  size_t size = strlen(path);
  if (size >= sizeof copy) return -ENAMETOOLONG;
  memcpy(copy, path, size + 1);
  const char *last = strrchr(path, '/');
  const char *name = last ? last + 1 : path;
  if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return -EISDIR;
  int directory = open_parent(root, copy);
  if (directory < 0) return directory;
  int error = replace_in(directory, name, text);
  close(directory);
  return error;
}
