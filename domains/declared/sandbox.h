/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox: the limits of a hook's program. A helper, turnphase-sandbox (sandbox_main.c), gives up the rights, and then
 * becomes the program. sandbox.c writes the helper's arguments, and finds out whether this machine can do it. */
#ifndef TP__DECLARED_SANDBOX_H
#define TP__DECLARED_SANDBOX_H

#include "support/bytes.h"
#include "support/fault.h"
#include "turnphase/declared.h"

enum { TP__SANDBOX_PATHS_MAX = 16, TP__SANDBOX_ARGUMENTS_MAX = 160, TP__SANDBOX_NUMBERS = 4 };

/** Zero-filled: none. */
typedef struct tp__sandbox {
  bool is_on, network;
  const char *reads[TP__SANDBOX_PATHS_MAX], *writes[TP__SANDBOX_PATHS_MAX];
  size_t read_count, write_count;
  const char *numbers[TP__SANDBOX_NUMBERS]; /* as text: MiB, s, count, MiB; NULL: no limit */
} tp__sandbox;

/** @return NULL, or the reason why no program can be limited on this machine. */
const char *tp__sandbox_lacks(const char *helper);

/** @param programs         paths of the program's own files, which stay readable when reading is limited; NULLs are
 *                          skipped.
 *  @param ret_arguments    the helper's command line, ended by NULL; borrows the strings of all other arguments.
 *  @return false: there are more than TP__SANDBOX_ARGUMENTS_MAX. */
bool tp__sandbox_arguments(const tp__sandbox *sandbox, const char *helper, const char *const *programs,
                           size_t program_count, const char *const *arguments,
                           const char *ret_arguments[TP__SANDBOX_ARGUMENTS_MAX]);

#endif
