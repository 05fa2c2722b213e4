/* SPDX-License-Identifier: Apache-2.0
 *
 * profile: the servers of a YAML file: a profile, or the conversation itself. */
#ifndef CLI_MCP_PROFILE_H
#define CLI_MCP_PROFILE_H

#include "cli/common/options.h"
#include "turnphase/mcp.h"

/** Whether a file of --mcp-config is YAML, by its name. */
bool cli_mcp_is_profile(const char *path);
/** Adds the servers under `mcp` in the file.
 *  @param config     what is not the file's own; its path and servers are not read.
 *  @param ret_defer  gets `mcp_defer` where the file has it.
 *  @return CLI_OK, or an exit status after saying what is wrong, with file and line. */
int cli_mcp_profile_add(tp_runtime *runtime, const char *path, const tp_mcp_config *config, uint32_t *ret_defer);

#endif
