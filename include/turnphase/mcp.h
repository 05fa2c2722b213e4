/* SPDX-License-Identifier: Apache-2.0
 *
 * mcp.h: the library turnphase-mcp: servers of the Model Context Protocol as tools of a runtime. It uses public headers
 * only. */
#ifndef TURNPHASE_MCP_H
#define TURNPHASE_MCP_H

#include "turnphase/runtime.h"

TP_BEGIN_DECLS

/** A version of the protocol. Values above the known ones may come from a newer library. */
typedef enum tp_mcp_version {
  TP_MCP_VERSION_NONE = 0, /* not known yet */
  TP_MCP_VERSION_2024_11_05 = 1,
  TP_MCP_VERSION_2025_03_26 = 2,
  TP_MCP_VERSION_2025_06_18 = 3,
  TP_MCP_VERSION_2025_11_25 = 4,
  TP_MCP_VERSION_2026_07_28 = 5, /* without a session: the era of server/discover */
  TP_MCP_VERSION_FORCE_32 = 0x7fffffff
} tp_mcp_version;

/** "2025-11-25", …; "none"; "unknown" for any other number. Static text. Threads: any. */
TP_API const char *tp_mcp_version_name(tp_mcp_version version);

TP_END_DECLS
#endif
