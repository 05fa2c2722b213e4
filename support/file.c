/* SPDX-License-Identifier: Apache-2.0 */
#include "support/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int tp__file_check_type(int fd, struct stat *ret_stat) {
  struct stat found;
  if (fstat(fd, &found) != 0) return -errno;
  if (!S_ISREG(found.st_mode)) return S_ISDIR(found.st_mode) ? -EISDIR : -ENOTSUP;
  if (ret_stat) *ret_stat = found;
  return 0;
}

int tp__file_open(int directory, const char *path, struct stat *ret_stat) {
  assert(path && (directory >= 0 || directory == AT_FDCWD));
  /* Opened so that a FIFO without a writer does not wait, and a terminal does not become the controlling one. */
  int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return errno == ENXIO || errno == ENODEV ? -ENOTSUP : -errno; /* a socket, a device without driver */
  int error = tp__file_check_type(fd, ret_stat);
  if (!error) return fd;
  close(fd);
  return error;
}

int tp__file_open_stream(const char *path) {
  assert(path);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  return fd < 0 ? -errno : fd;
}

int tp__file_read_open(int fd, size_t bytes_max, tp__bytes *bytes) {
  enum { READ_MIN = 4096, READ_MAX = 1 << 20 };
  struct stat found;
  size_t left = bytes_max, piece = READ_MIN;
  assert(fd >= 0);
  if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0) {
    if ((uint64_t)found.st_size > bytes_max) return -EFBIG;
    piece = (size_t)found.st_size; /* then one read, and one that finds the end */
  }
  for (;;) {
    if (piece > READ_MAX) piece = READ_MAX;
    if (!tp__bytes_reserve(bytes, piece)) return -ENOMEM;
    size_t space = bytes->capacity - 1 - bytes->size;
    ssize_t got = read(fd, bytes->data + bytes->size, space);
    if (got < 0 && errno == EAGAIN) {
      /* The writer of the pipe has not written yet. */
      struct pollfd pipe = {.fd = fd, .events = POLLIN};
      (void)poll(&pipe, 1, -1);
      errno = EAGAIN;
    }
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return -errno;
    if (got == 0) return 0;
    if ((size_t)got > left) return -EFBIG;
    left -= (size_t)got;
    bytes->size += (size_t)got;
    piece = READ_MIN;
  }
}

int tp__file_read(int directory, const char *path, size_t bytes_max, tp__bytes *bytes) {
  struct stat found;
  int fd = tp__file_open(directory, path, &found);
  if (fd < 0) return fd;
  int error = tp__file_read_open(fd, bytes_max, bytes);
  close(fd);
  return error;
}

const char *tp__file_words(int error) {
  assert(error < 0);
  if (error == -EISDIR) return "is a directory";
  if (error == -ENOTSUP) return "it is not a regular file";
  return strerror(-error);
}

tp_status tp__file_refuse(tp_fault *fault, const char *path, int error, size_t bytes_max, const char *format, ...) {
  char message[TP_FAULT_MESSAGE_SIZE];
  va_list args;
  assert(error < 0);
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  if (error == -EFBIG)
    return tp__refuse(fault, TP_ERR_TOO_LARGE, path, "%s: it has more than %zu bytes", message, bytes_max);
  (void)!tp__refuse(fault, error == -ENOMEM ? TP_ERR_NO_MEMORY : TP_ERR_IO, path, "%s: %s", message,
                    tp__file_words(error));
  if (fault) fault->system_error = -error;
  return error == -ENOMEM ? TP_ERR_NO_MEMORY : TP_ERR_IO;
}
