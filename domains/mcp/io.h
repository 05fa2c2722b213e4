/* SPDX-License-Identifier: Apache-2.0
 *
 * io: what all sessions of the process share: one thread for timers and HTTP, and one process loop for the servers that
 * are programs. Both are there while there is a session. One lock guards the list of sessions and the list of new
 * transfers; no function of the core and none of a session is called under it. */
#ifndef TP__MCP_IO_H
#define TP__MCP_IO_H

#include "domains/mcp/session.h"
#include "turnphase/process.h"

/** Counts a session, which gets its ticks until it leaves; takes a reference to it. Starts what is not there yet.
 *  @return TP_OK; TP_ERR_NO_MEMORY, TP_ERR_NO_THREAD, TP_ERR_SYSTEM. */
tp_status tp__mcp_io_join(tp__mcp_session *session, tp_fault *fault);
/** Gives up the session's place and its reference. The last one ends the thread and the loop. */
void tp__mcp_io_leave(tp__mcp_session *session);
/** For programs; there while a session has joined. */
tp_process_loop *tp__mcp_io_loop(void);
/** A session's next tick may be earlier than it said. */
void tp__mcp_io_wake(void);
/** Notes that this is the thread of the process loop: first in each of its callbacks. */
void tp__mcp_io_note_loop(void);
/** Whether this is one of the two threads: it must not wait for what they do. */
bool tp__mcp_io_is_inside(void);

#endif
