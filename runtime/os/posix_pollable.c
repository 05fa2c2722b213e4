/* SPDX-License-Identifier: Apache-2.0
 *
 * posix_pollable.c: a flag as an eventfd. Its counter is 1 while the flag is set and 0 while it is not, so poll() is
 * level-triggered by the kernel's own rule. */
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

/* Neither blocks nor fails: the counter is 0 before it is written and 1 before it is read, unless the host reads the
 * descriptor against the contract; then the flag is not set, and the next change sets it again. */
void tp__pollable_set(tp__pollable *pollable) {
  uint64_t one = 1;
  while (write(pollable->fd, &one, sizeof one) < 0 && errno == EINTR) {}
}

void tp__pollable_clear(tp__pollable *pollable) {
  uint64_t count;
  while (read(pollable->fd, &count, sizeof count) < 0 && errno == EINTR) {}
}

int tp__pollable_fd(const tp__pollable *pollable) { return pollable->fd; }
