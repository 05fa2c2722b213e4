/* SPDX-License-Identifier: Apache-2.0
 *
 * changed: when tools of the MCP servers that a runtime uses were added, removed or changed, it notifies the MCP
 * servers that offer this runtime's tools (mcp_server.h). There is one list of these for the process. Its lock is held
 * during a notification, so a server that has left the list is not notified any more. */
#ifndef TP__MCP_CHANGED_H
#define TP__MCP_CHANGED_H

#include "turnphase/mcp_server.h"

/** An entry of the list: a server that is notified. Its members do not change while it is in the list. */
typedef struct tp__mcp_watch {
  tp_runtime *runtime;
  void (*on_changed)(void *ctx); /* must return at once, and not enter or leave the list. Threads: any */
  /** Finds the server's call whose turn has this data. @return with a reference; NULL: the server has no such call. The
   *  same limits as for on_changed. */
  tp_mcp_call *(*find)(void *ctx, const void *data);
  void *ctx;
  struct tp__mcp_watch *next; /* the next entry of the list */
} tp__mcp_watch;

void tp__mcp_changed_enter(tp__mcp_watch *watch);
/** Takes a watch out of the list; accepts one that is not in it. After the return it is not notified any more. */
void tp__mcp_changed_leave(tp__mcp_watch *watch);
/** Notifies the servers over this runtime. The caller holds no lock. */
void tp__mcp_changed_notify(const tp_runtime *runtime);
/** Asks all entries for the call whose turn has this data. @return with a reference; NULL: there is none. */
tp_mcp_call *tp__mcp_changed_find(const tp_runtime *runtime, const void *data);

#endif
