/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox_filter: the list of system calls that a program in a sandbox may make (sandbox_filter.c). Part of the program
 * turnphase-sandbox. */
#ifndef TP__DECLARED_SANDBOX_FILTER_H
#define TP__DECLARED_SANDBOX_FILTER_H

#include <stdbool.h>

typedef struct tp__filter_options {
  bool network; /* sockets of the internet and of this machine */
  bool writes;  /* changes of modes, owners, times and attributes of files */
  /* Signals may go only to the program itself and its group. False: another mechanism limits them. */
  bool own_signals_only;
} tp__filter_options;

/** From here on this process and its children can make only the calls of the list. Other calls fail with EPERM, or with
 *  ENOSYS if libraries have an alternative. Needs no_new_privs; stays in force across execve().
 *  @return 0, or the error. */
int tp__filter_install(const tp__filter_options *options);

#endif
