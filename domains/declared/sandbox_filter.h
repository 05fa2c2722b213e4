/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox_filter: the system calls of a program in a sandbox, as a list of those that it may make (sandbox_filter.c).
 * Part of the program turnphase-sandbox. */
#ifndef TP__DECLARED_SANDBOX_FILTER_H
#define TP__DECLARED_SANDBOX_FILTER_H

#include <stdbool.h>

typedef struct tp__filter_options {
  bool network; /* sockets of the internet and of this machine */
  bool writes;  /* modes, owners, times and attributes of files */
  /* Signals go to itself and its group only. False: something else bounds them. */
  bool own_signals_only;
} tp__filter_options;

/** From here on this process and its children make the calls of the list only: the others fail with EPERM, and with
 *  ENOSYS where libraries have another way. Needs no_new_privs, stays over execve().
 *  @return 0, or the error. */
int tp__filter_install(const tp__filter_options *options);

#endif
