/* SPDX-License-Identifier: Apache-2.0
 *
 * supervisor: ends the children of a host that has died. It is a shell that reads from the host which process groups
 * run. When the host's end of its socket closes, for whatever reason, it kills the groups that are left. A process that
 * the host forked keeps that end open, too. The supervisor owns the shell and the socket. Threads: one at a time. */
#ifndef TP__SUPERVISOR_H
#define TP__SUPERVISOR_H

#include <sys/types.h>

#include "runtime/base/base.h"

/** Zero-filled: none runs. */
typedef struct tp__supervisor {
  int fd, pidfd; /* set while it runs */
  bool runs;
  bool is_lacking; /* it could not be started, and is not tried again */
} tp__supervisor;

/** Starts the supervisor unless it runs or is lacking (a system without /bin/sh). @return whether it was started. */
bool tp__supervisor_start(tp__supervisor *supervisor);
/** Reports that the group of this leader runs. If the supervisor no longer reads, it is ended. */
void tp__supervisor_add(tp__supervisor *supervisor, pid_t group);
/** Reports that the group is dead. Called before its leader is waited for, because afterwards its number may be used
 *  again. */
void tp__supervisor_remove(tp__supervisor *supervisor, pid_t group);
/** Ends the supervisor; the groups that it knows go on. */
void tp__supervisor_end(tp__supervisor *supervisor);

#endif
