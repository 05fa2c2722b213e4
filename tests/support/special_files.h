/* SPDX-License-Identifier: Apache-2.0
 *
 * special_files: things that may be in the place of a file. A function that opens one of them and waits never returns:
 * the test ends at its limit. */
#ifndef TEST_SPECIAL_FILES_H
#define TEST_SPECIAL_FILES_H

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/support/directory.h"

typedef enum special_file {
  SPECIAL_FIFO,
  SPECIAL_LINK_TO_FIFO,
  SPECIAL_SOCKET,
  SPECIAL_DEVICE, /* a link to /dev/zero, which has no end */
  SPECIAL_TERMINAL,
  SPECIAL_DIRECTORY,
  SPECIAL_LOOP,
  SPECIAL_DANGLING,
  SPECIAL_SPARSE, /* 20 GB, without a block of the disk */
  SPECIAL_EMPTY,
  SPECIAL_UNREADABLE,
  SPECIAL_COUNT
} special_file;

static const char *const special_names[SPECIAL_COUNT] = {"fifo",     "link to fifo", "socket",    "device",
                                                         "terminal", "directory",    "loop",      "dangling link",
                                                         "sparse",   "empty",        "unreadable"};

/* Makes one at a path, replacing what is there. @return false: root can read the unreadable one. */
static inline bool make_special(special_file kind, const char *at) {
  char other[300];
  int made = 0;
  snprintf(other, sizeof other, "%s.target", at);
  unlink(at);
  rmdir(at);
  unlink(other);
  switch (kind) {
    case SPECIAL_FIFO:
      made = mkfifo(at, 0600);
      break;
    case SPECIAL_LINK_TO_FIFO:
      made = mkfifo(other, 0600) == 0 ? symlink(other, at) : -1;
      break;
    case SPECIAL_SOCKET: {
      struct sockaddr_un address = {.sun_family = AF_UNIX};
      int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      snprintf(address.sun_path, sizeof address.sun_path, "%s", at);
      made = bind(fd, (struct sockaddr *)&address, sizeof address);
      close(fd);
      break;
    }
    case SPECIAL_DEVICE:
      made = symlink("/dev/zero", at);
      break;
    case SPECIAL_TERMINAL:
      made = symlink("/dev/ptmx", at);
      break;
    case SPECIAL_DIRECTORY:
      made = mkdir(at, 0700);
      break;
    case SPECIAL_LOOP:
      made = symlink(at, at);
      break;
    case SPECIAL_DANGLING:
      made = symlink("/nonexistent/file", at);
      break;
    case SPECIAL_SPARSE:
    case SPECIAL_EMPTY:
    case SPECIAL_UNREADABLE: {
      int fd = open(at, O_WRONLY | O_CREAT | O_CLOEXEC, kind == SPECIAL_UNREADABLE ? 0000 : 0600);
      made = kind == SPECIAL_SPARSE ? ftruncate(fd, (off_t)20 << 30) : fd < 0 ? -1 : 0;
      close(fd);
      break;
    }
    case SPECIAL_COUNT:
      made = -1;
      break;
  }
  assert_int_equal(made, 0);
  return kind != SPECIAL_UNREADABLE || geteuid() != 0;
}

#endif
