/* SPDX-License-Identifier: Apache-2.0
 *
 * pins: a record of the tools of a server as they were when they were first seen: a SHA-256 of each tool's name,
 * description, schemas and annotations, in one JSON file of the directory tp_mcp_options.pins. A tool that differs, or
 * that is not in the file, is marked, and the server's gate asks about its calls or denies them. A file that cannot be
 * read marks every tool. */
#ifndef TP__MCP_PINS_H
#define TP__MCP_PINS_H

#include "domains/mcp/session.h"

/** Marks the tools that differ from the pins; writes the file when there is none. Does nothing without pins. */
void tp__mcp_pins_apply_locked(tp__mcp_session *session, tp__mcp_tools *tools);

#endif
