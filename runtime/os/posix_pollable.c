/* SPDX-License-Identifier: Apache-2.0
 *
 * posix_pollable.c: a flag as an eventfd. Its counter is 0 while the flag is not set, so poll() is level-triggered
 * without any code of ours. */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/os/os.h"

tp_status tp__pollable_init(tp__pollable *pollable) {
  pollable->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return pollable->fd >= 0 ? TP_OK : TP_ERR_SYSTEM;
}

void tp__pollable_fini(tp__pollable *pollable) {
  if (pollable->fd >= 0) close(pollable->fd);
  pollable->fd = -1;
}

/* Cannot block or fail: the descriptor is non-blocking, and the counter is far from its greatest value. */
void tp__pollable_set(tp__pollable *pollable) {
  uint64_t one = 1;
  while (write(pollable->fd, &one, sizeof one) < 0 && errno == EINTR) {}
}

bool tp__pollable_clear(tp__pollable *pollable) {
  uint64_t count;
  ssize_t length;
  do length = read(pollable->fd, &count, sizeof count);
  while (length < 0 && errno == EINTR);
  return length > 0;
}

int tp__pollable_fd(const tp__pollable *pollable) { return pollable->fd; }
