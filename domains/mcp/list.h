/* SPDX-License-Identifier: Apache-2.0
 *
 * list: the tools of a server as they are read from the pages of tools/list: names, schemas, hashes. Functions whose
 * name ends in _locked are called with the session's lock held. */
#ifndef TP__MCP_LIST_H
#define TP__MCP_LIST_H

#include "domains/mcp/session.h"

/** Makes an empty list with one reference; the list holds a reference to the session. @return NULL without memory. */
tp__mcp_tools *tp__mcp_list_new(tp__mcp_session *session);
/** Adds a page. Tools that cannot be used are left out, with a note.
 *  @param ret_cursor  the cursor of the next page, a part of the result.
 *  @return whether there is a next page that must be read. */
bool tp__mcp_list_add_locked(tp__mcp_session *session, tp__mcp_tools *tools, tp_text result, tp_text *ret_cursor);
/** Sorts the tools, gives each the name that models know, and compares them with the pins. */
void tp__mcp_list_finish_locked(tp__mcp_session *session, tp__mcp_tools *tools);
/** Writes the result of roots/list: the workspace. */
void tp__mcp_list_write_roots(const tp__mcp_session *session, tp_writer *writer);

#endif
