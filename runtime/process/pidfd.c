/* SPDX-License-Identifier: Apache-2.0
 *
 * pidfd.c: the system calls of a process's descriptor. */
#include "runtime/process/pidfd.h"

#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

int tp__pidfd_open(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

int tp__pidfd_send_signal(int pidfd, int signal) { return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0); }
