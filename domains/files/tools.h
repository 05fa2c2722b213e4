/* SPDX-License-Identifier: Apache-2.0
 *
 * tools: the four tools over a directory. */
#ifndef TP__FILES_TOOLS_H
#define TP__FILES_TOOLS_H

#include "turnphase/runtime.h"

enum { TP__FILES_TOOL_COUNT = 4, TP__FILES_LOOKING_TOOLS = 3 }; /* tools that only read come first */

/** The state that the tools share; it never changes once it is made. */
typedef struct tp__files {
  int root;
  uint32_t read_bytes_max;
  tp_writer *schema_writers[TP__FILES_TOOL_COUNT]; /* the writers that own the schemas */
  tp_tool tools[TP__FILES_TOOL_COUNT];
  const tp_tool *tool_list[TP__FILES_TOOL_COUNT]; /* the addresses of the tools */
} tp__files;

/** Fills the tools. @return TP_OK; TP_ERR_NO_MEMORY: the caller must still call tp__files_tools_fini(). */
tp_status tp__files_tools_init(tp__files *files);
void tp__files_tools_fini(tp__files *files);

#endif
