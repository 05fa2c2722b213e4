/* SPDX-License-Identifier: Apache-2.0
 *
 * os.c: the parts of the seam that the machine and the simulator share. */
#include "runtime/os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int64_t tp__deadline_after_ms(int64_t now_ns, uint64_t ms) {
  int64_t ns, deadline;
  if (ms > INT64_MAX || __builtin_mul_overflow((int64_t)ms, (int64_t)TP__NS_PER_MS, &ns)) return TP__NEVER;
  return __builtin_add_overflow(now_ns, ns, &deadline) ? TP__NEVER : deadline;
}

/* @return how many bytes of the file's beginning are in the buffer. */
static size_t read_file_begin(const char *path, char *buffer, size_t size) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  size_t count = fread(buffer, 1, size, file);
  fclose(file);
  return count;
}

int64_t tp__process_id(void) { return (int64_t)getpid(); }

/* The 22nd field of the line of the process itself. The second field is in parentheses and may contain anything. */
int64_t tp__process_started(void) {
  enum { FIELDS_BETWEEN = 20 };
  char line[1024];
  size_t size = read_file_begin("/proc/self/stat", line, sizeof line - 1);
  line[size] = '\0';
  char *at = strrchr(line, ')');
  for (int i = 0; at && i < FIELDS_BETWEEN; i++) at = strchr(at + 1, ' ');
  return at ? strtoll(at, NULL, 10) : 0;
}

size_t tp__boot_id(char *buffer, size_t size) {
  size_t count = read_file_begin("/proc/sys/kernel/random/boot_id", buffer, size);
  while (count > 0 && buffer[count - 1] == '\n') count--;
  return count;
}
