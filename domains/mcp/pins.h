/* SPDX-License-Identifier: Apache-2.0
 *
 * pins: what the tools of a server were when they were first seen: SHA-256 of each name, description, schema and
 * annotations, in one JSON file of the directory tp_mcp_options.pins. A tool that differs, or that was not there, is
 * marked; the gate of the server asks about it, or denies it. A file that cannot be read marks every tool. */
#ifndef TP__MCP_PINS_H
#define TP__MCP_PINS_H

#include "domains/mcp/session.h"

/** Marks the tools that are not as pinned; writes the file where there is none. Does nothing without pins. */
void tp__mcp_pins_apply_locked(tp__mcp_session *session, tp__mcp_tools *tools);

#endif
