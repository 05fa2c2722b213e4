/* SPDX-License-Identifier: Apache-2.0
 *
 * root: files below one directory. Every path is resolved by the kernel below it (openat2, RESOLVE_BENEATH). Functions
 * return a descriptor or 0, or a negative errno; -EXDEV means that the path leads out of the directory. */
#ifndef TP__FILES_ROOT_H
#define TP__FILES_ROOT_H

#include <stdbool.h>
#include <stddef.h>

#include "turnphase/value.h"

enum { TP__FILES_PATH_MAX = 1024 };

/** Copies a model's path as a NUL-terminated string: "." for an empty one. @return false: it is too long or holds a
 *  NUL. */
bool tp__files_path(tp_text path, char into[TP__FILES_PATH_MAX]);
/** Opens the directory itself. @return a descriptor; -ENOSYS: the kernel has no openat2. */
int tp__files_open_root(const char *path);
/** Opens a path below the root. flags as for open(2); O_CLOEXEC and O_NONBLOCK are added. */
int tp__files_open(int root, const char *path, int flags);
/** Opens a regular file to read. @return -EISDIR for a directory, -EINVAL for anything else that is not a file. */
int tp__files_open_to_read(int root, const char *path);
/** Writes a whole file: under a temporary name in its directory, synced, then renamed. Missing directories are made.
 *  The mode of a file that is there is kept, else it is 0666 less the umask. @return 0; -EISDIR; -EINVAL. */
int tp__files_write(int root, const char *path, tp_text text);

#endif
