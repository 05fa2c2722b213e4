/* SPDX-License-Identifier: Apache-2.0
 *
 * pidfd: the system calls of a process's descriptor. By their numbers, since glibc has functions for them from 2.36 on
 * only, and musl has none. */
#ifndef TP__PIDFD_H
#define TP__PIDFD_H

#include <sys/types.h>

/** @return a descriptor, close-on-exec, that becomes readable when the process ends; -1 with errno. */
int tp__pidfd_open(pid_t pid);
/** @return 0; -1 with errno. */
int tp__pidfd_send_signal(int pidfd, int signal);

#endif
