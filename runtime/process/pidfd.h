/* SPDX-License-Identifier: Apache-2.0
 *
 * pidfd: the system calls for a process's descriptor. They are called by number, because glibc has functions for them
 * only from 2.36 on, and musl has none. */
#ifndef TP__PIDFD_H
#define TP__PIDFD_H

#include <sys/types.h>

/** @return a descriptor, close-on-exec, that becomes readable when the process ends; -1 with errno. */
int tp__pidfd_open(pid_t pid);
/** @return 0; -1 with errno. */
int tp__pidfd_send_signal(int pidfd, int signal);

#endif
