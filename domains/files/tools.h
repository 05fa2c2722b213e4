/* SPDX-License-Identifier: Apache-2.0
 *
 * tools: the four tools over a directory. */
#ifndef TP__FILES_TOOLS_H
#define TP__FILES_TOOLS_H

#include "turnphase/runtime.h"

enum { TP__FILES_TOOL_COUNT = 4, TP__FILES_LOOKING_TOOLS = 3 }; /* those that only look stand first */

/** What the tools share; never changes once they are made. */
typedef struct tp__files {
  int root;
  uint32_t read_bytes_max;
  tp_writer *schema_writers[TP__FILES_TOOL_COUNT]; /* own the schemas */
  tp_tool tools[TP__FILES_TOOL_COUNT];
  const tp_tool *tool_list[TP__FILES_TOOL_COUNT]; /* their addresses */
} tp__files;

/** Fills the tools. @return TP_OK; TP_ERR_NO_MEMORY: tp__files_tools_fini() still cleans up. */
tp_status tp__files_tools_init(tp__files *files);
void tp__files_tools_fini(tp__files *files);

#endif
