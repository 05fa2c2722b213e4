/* SPDX-License-Identifier: Apache-2.0
 *
 * process: child processes. process.c has the loop: its one thread reads, writes and waits for all children by epoll.
 * spawn.c starts a child, escaped.c finds processes that left a child's group, and supervisor.c ends the groups of a
 * host that has died. The module owns the children. It has one lock (process_loop), runs no callback under it, and
 * never touches signal dispositions or children of the host. The simulator has no processes, so the module is not part
 * of it. */
#ifndef TP__PROCESS_H
#define TP__PROCESS_H

#include <sys/types.h>

#include "runtime/base/base.h"
#include "turnphase/process.h"

/** A started program: its number, and the descriptors of the host's side. All are close-on-exec; the pipes are
 *  non-blocking. */
typedef struct tp__spawned {
  pid_t pid;
  int pidfd;
  int input, output, errors;
} tp__spawned;

/** Starts a program. Never calls fork(), so the cost does not grow with the host's memory.
 *  @return TP_OK; TP_ERR_SYSTEM with errno in fault->system_error: nothing runs and no descriptor is open. */
tp_status tp__spawn(const tp_process_options *options, tp__spawned *ret_spawned, tp_fault *fault);

/** Kills every process, except the calling one, that has one of the two pipes open as its descriptor 0, 1 or 2.
 *  @param output, errors  the host's ends; -1: none. @return how many were killed. Costs a walk through /proc. */
uint32_t tp__kill_escaped(int output, int errors);

#endif
