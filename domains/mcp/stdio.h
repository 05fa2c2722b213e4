/* SPDX-License-Identifier: Apache-2.0
 *
 * stdio: the transport to a server that is a program: one message a line on its standard input and output. The program
 * is a resident child of io's process loop; the beginning of its standard error is kept, and the end of that is shown
 * when the program ends. The program is looked for in PATH, and gets a few variables of the host's environment and
 * those of the options, no others. */
#ifndef TP__MCP_STDIO_H
#define TP__MCP_STDIO_H

#include "domains/mcp/session.h"

extern const tp__mcp_transport tp__mcp_stdio;

#endif
