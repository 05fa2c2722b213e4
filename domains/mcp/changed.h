/* SPDX-License-Identifier: Apache-2.0
 *
 * changed: notifies the servers of MCP over a runtime that tools of its MCP servers came, went, or are others. One list
 * for the process; its lock is held while they are told, so that one that has left is not told any more. */
#ifndef TP__MCP_CHANGED_H
#define TP__MCP_CHANGED_H

#include "turnphase/mcp_server.h"

/** Whoever wants to know. Its members do not change while it is in the list. */
typedef struct tp__mcp_watch {
  tp_runtime *runtime;
  void (*on_changed)(void *ctx); /* returns at once; enters and leaves nothing. Threads: any */
  /** The call whose turn has this data, referenced; NULL: it is no call of theirs. As on_changed. */
  tp_mcp_call *(*find)(void *ctx, const void *data);
  void *ctx;
  struct tp__mcp_watch *next; /* the list's */
} tp__mcp_watch;

void tp__mcp_changed_enter(tp__mcp_watch *watch);
/** Also of a watch that is not in the list. After the return it is not told. */
void tp__mcp_changed_leave(tp__mcp_watch *watch);
/** No lock is held. */
void tp__mcp_changed_notify(const tp_runtime *runtime);
/** The call, of any of them, whose turn has this data: referenced; NULL: of none. */
tp_mcp_call *tp__mcp_changed_find(const tp_runtime *runtime, const void *data);

#endif
