/* SPDX-License-Identifier: Apache-2.0
 *
 * leftovers: finds what programs leave behind: processes that carry a marker in their environment, and descriptors. */
#ifndef TEST_LEFTOVERS_H
#define TEST_LEFTOVERS_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static inline size_t open_descriptors(void) {
  size_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

/* Threads close theirs in their own time. */
static inline void await_descriptors(size_t count) {
  for (int round = 0; round < 1000 && open_descriptors() != count; round++) usleep(1000);
  assert_int_equal(open_descriptors(), count);
}

/* Every process of a test has this in its environment, even a distant descendant of the child. */
static char marker[96];

static inline bool has_marker(const char *pid) {
  char file[300], bytes[8192];
  snprintf(file, sizeof file, "/proc/%s/environ", pid);
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t size = read(fd, bytes, sizeof bytes);
  close(fd);
  return size > 0 && memmem(bytes, (size_t)size, marker, strlen(marker)) != NULL;
}

static inline size_t marked_processes(void) {
  size_t count = 0;
  DIR *proc = opendir("/proc");
  assert_non_null(proc);
  for (struct dirent *entry = readdir(proc); entry; entry = readdir(proc)) {
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && has_marker(entry->d_name)) count++;
  }
  closedir(proc);
  return count;
}

/* What was sent SIGKILL is gone when the kernel gets to it. */
static inline size_t processes_left(void) {
  for (int round = 0; round < 200 && marked_processes() > 0; round++) usleep(5000);
  return marked_processes();
}

#endif
