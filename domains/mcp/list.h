/* SPDX-License-Identifier: Apache-2.0
 *
 * list: the tools of a server as they are read from the pages of tools/list: names, schemas, hashes. The functions that
 * end in _locked are called with the session's lock. */
#ifndef TP__MCP_LIST_H
#define TP__MCP_LIST_H

#include "domains/mcp/session.h"

/** With one reference, empty; it has a reference to the session. @return NULL without memory. */
tp__mcp_tools *tp__mcp_list_new(tp__mcp_session *session);
/** Adds a page. What cannot be used is left out, with a note.
 *  @param ret_cursor  of the next page, in the result.
 *  @return whether there is a next page, and it is to be read. */
bool tp__mcp_list_add_locked(tp__mcp_session *session, tp__mcp_tools *tools, tp_text result, tp_text *ret_cursor);
/** Sorts the tools, gives each the name that models know, and compares them with the pins. */
void tp__mcp_list_finish_locked(tp__mcp_session *session, tp__mcp_tools *tools);
/** The result of roots/list: the workspace. */
void tp__mcp_list_write_roots(const tp__mcp_session *session, tp_writer *writer);

#endif
