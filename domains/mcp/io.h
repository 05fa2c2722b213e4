/* SPDX-License-Identifier: Apache-2.0
 *
 * io: what all sessions of the process share: one thread for timers and HTTP, and one process loop for the servers that
 * are programs. Both exist while there is a session. One lock guards the list of sessions and the list of new
 * transfers; no function of the core and none of a session is called under it. */
#ifndef TP__MCP_IO_H
#define TP__MCP_IO_H

#include "domains/mcp/session.h"
#include "turnphase/process.h"

/** Adds a session, with a reference to it: it gets ticks until it leaves. Starts the thread and the loop if they do not
 *  run.
 *  @return TP_OK; TP_ERR_NO_MEMORY, TP_ERR_NO_THREAD, TP_ERR_SYSTEM. */
tp_status tp__mcp_io_join(tp__mcp_session *session, tp_fault *fault);
/** Removes a session and drops its reference. After the last session the thread and the loop end. */
void tp__mcp_io_leave(tp__mcp_session *session);
/** The process loop for servers that are programs; valid while a session has joined. */
tp_process_loop *tp__mcp_io_loop(void);
/** Wakes the I/O thread, because a session's next tick may be earlier than the session reported. */
void tp__mcp_io_wake(void);
/** Notes that this thread is that of the process loop. Each callback of the loop calls it first. */
void tp__mcp_io_note_loop(void);
/** Whether this is one of the two threads. Such a thread must not wait for work of either of them. */
bool tp__mcp_io_is_inside(void);

#endif
