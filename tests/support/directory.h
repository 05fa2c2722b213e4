/* SPDX-License-Identifier: Apache-2.0
 *
 * directory: one of a test's own, with the path of a file in it that is not there yet. */
#ifndef TEST_DIRECTORY_H
#define TEST_DIRECTORY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char directory[64];
static char path[96];

static int make_directory(void **state) {
  (void)state;
  strcpy(directory, "/tmp/turnphase_XXXXXX");
  if (!mkdtemp(directory)) return -1;
  snprintf(path, sizeof path, "%s/file.db", directory);
  return 0;
}

static int remove_directory(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  return system(command);
}

#endif
