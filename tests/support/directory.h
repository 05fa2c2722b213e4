/* SPDX-License-Identifier: Apache-2.0
 *
 * directory: a directory for one test, with the path of a file in it that does not exist yet. */
#ifndef TEST_DIRECTORY_H
#define TEST_DIRECTORY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[64];
static char path[96];

static inline int make_directory_in(const char *pattern) {
  snprintf(directory, sizeof directory, "%s", pattern);
  if (!mkdtemp(directory)) return -1;
  snprintf(path, sizeof path, "%s/file.db", directory);
  return 0;
}

static inline int make_directory(void **state) {
  (void)state;
  return make_directory_in("/tmp/turnphase_XXXXXX");
}

/* A directory in which a sync costs nothing. That suffices for a kill, which loses nothing that was written. */
static inline int make_directory_in_memory(void **state) {
  (void)state;
  return make_directory_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm/turnphase_XXXXXX" : "/tmp/turnphase_XXXXXX");
}

static inline int remove_directory(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  return system(command);
}

#endif
