/* SPDX-License-Identifier: Apache-2.0
 *
 * conversations.h: the place of the real conversations with which recall is measured; they are not part of this
 * tree. */
#ifndef TEST_CONVERSATIONS_H
#define TEST_CONVERSATIONS_H

#include <stdio.h>
#include <stdlib.h>

/** Writes the path of a file below the directory in TURNPHASE_CONVERSATIONS, else ../shared/data next to the source. */
static inline void conversations_path(const char *file, char *path, size_t size) {
  const char *directory = getenv("TURNPHASE_CONVERSATIONS"), *source = getenv("TURNPHASE_SOURCE");
  if (directory) snprintf(path, size, "%s/%s", directory, file);
  else snprintf(path, size, "%s/../shared/data/%s", source ? source : ".", file);
}

#endif
