/* SPDX-License-Identifier: Apache-2.0
 *
 * supervisor: ends the children of a host that has died. It is a shell that reads from the host which process groups
 * run, and kills those that are left when the host's end of its socket closes, whatever ended the host. A process that
 * forks for the host keeps that end open, too. It owns the shell and the socket. Threads: one at a time. */
#ifndef TP__SUPERVISOR_H
#define TP__SUPERVISOR_H

#include <sys/types.h>

#include "runtime/base/base.h"

/** Zero-filled: none runs. */
typedef struct tp__supervisor {
  int fd, pidfd; /* set while it runs */
  bool runs;
  bool is_lacking; /* it could not be started: not tried again */
} tp__supervisor;

/** Starts it unless it runs or is lacking (a system without /bin/sh). @return whether it was started. */
bool tp__supervisor_start(tp__supervisor *supervisor);
/** The group of this leader runs. A supervisor that does not read any more is ended, and runs no longer. */
void tp__supervisor_add(tp__supervisor *supervisor, pid_t group);
/** The group is dead; before its leader is waited for, since its number may be used again then. */
void tp__supervisor_remove(tp__supervisor *supervisor, pid_t group);
/** Ends it; the groups that it knows go on. */
void tp__supervisor_end(tp__supervisor *supervisor);

#endif
