/* SPDX-License-Identifier: Apache-2.0
 *
 * profile: reads the MCP servers of a YAML file: a profile, or the conversation itself. */
#ifndef CLI_MCP_PROFILE_H
#define CLI_MCP_PROFILE_H

#include "cli/common/options.h"
#include "turnphase/mcp.h"

/** Whether a file of --mcp-config is YAML, judged by its name. */
bool cli_mcp_is_profile(const char *path);
/** Adds the servers under `mcp` in the file.
 *  @param config     the settings that the file does not have; path and servers in it are ignored.
 *  @param ret_defer  gets `mcp_defer` if the file has it.
 *  @return CLI_OK, or an exit status after a message with file and line. */
int cli_mcp_profile_add(tp_runtime *runtime, const char *path, const tp_mcp_config *config, uint32_t *ret_defer);

#endif
