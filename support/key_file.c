/* SPDX-License-Identifier: Apache-2.0 */
#include "support/key_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "support/file.h"

/* A key that other users may read protects nothing. */
static int read_key_file(const char *path, unsigned char key[TP__KEY_FILE_BYTES]) {
  unsigned char more;
  struct stat found;
  int fd = tp__file_open(AT_FDCWD, path, &found);
  if (fd == -EISDIR || fd == -ENOTSUP) return EINVAL;
  if (fd < 0) return -fd;
  bool is_open_to_others = (found.st_mode & 077) != 0;
  ssize_t size = is_open_to_others ? 0 : read(fd, key, TP__KEY_FILE_BYTES);
  int error = size == TP__KEY_FILE_BYTES ? 0 : size < 0 ? errno : is_open_to_others ? EPERM : EINVAL;
  if (!error && read(fd, &more, 1) != 0) error = EINVAL;
  close(fd);
  return error;
}

static int write_whole(int fd, const unsigned char key[TP__KEY_FILE_BYTES]) {
  ssize_t size = write(fd, key, TP__KEY_FILE_BYTES);
  if (size < 0) return errno;
  if (size < TP__KEY_FILE_BYTES) return ENOSPC;
  return fsync(fd) == 0 ? 0 : errno;
}

/* The key is written to a file with a name of its own first. So another process sees a whole key or none, and the file
 * that is linked first stays. */
static int make_key(const char *path) {
  unsigned char key[TP__KEY_FILE_BYTES];
  char own[4200];
  if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key) return EIO;
  if ((size_t)snprintf(own, sizeof own, "%s.%ld", path, (long)gettid()) >= sizeof own) return ENAMETOOLONG;
  (void)!unlink(own);
  int fd = open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int error = write_whole(fd, key);
  close(fd);
  if (!error && link(own, path) != 0 && errno != EEXIST) error = errno;
  (void)!unlink(own);
  return error;
}

int tp__key_file_load(const char *path, unsigned char ret_key[TP__KEY_FILE_BYTES]) {
  assert(path && *path);
  int error = read_key_file(path, ret_key);
  if (error != ENOENT) return error;
  error = make_key(path);
  return error ? error : read_key_file(path, ret_key);
}

tp_status tp__key_file_refuse(tp_fault *fault, const char *subject, const char *path, const char *what, int error) {
  return tp__refuse(fault, error == ENOSPC ? TP_ERR_STORE_FULL : TP_ERR_IO, subject,
                    "%s, %s, cannot be %s (error %d)%s", path, what,
                    error == EINVAL || error == EPERM ? "used" : "read or made", error,
                    error == EINVAL  ? ": it is not of 32 bytes; restore it, or remove it"
                    : error == EPERM ? ": others than its owner may use it; chmod 600, or remove it"
                                     : "");
}
