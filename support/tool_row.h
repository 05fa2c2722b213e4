/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_row: the tools of a domain as a table, from which their schemas are made. No state. */
#ifndef TP__SUPPORT_TOOL_ROW_H
#define TP__SUPPORT_TOOL_ROW_H

#include "turnphase/tool.h"

/** An argument of a tool. */
typedef struct tp__tool_parameter {
  const char *name, *description; /* name NULL: none */
  int64_t most;                   /* the parameter is an integer from 1 to most; 0: it is a text */
  bool required;
} tp__tool_parameter;

enum { TP__TOOL_PARAMETERS_MAX = 3 };

typedef struct tp__tool_row {
  const char *name, *description;
  tp_tool_fn run;
  bool changes; /* twice is not as good as once */
  tp__tool_parameter parameters[TP__TOOL_PARAMETERS_MAX];
} tp__tool_row;

/** Makes a tool; its schema is in the writer's memory. @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__tool_row_make(const tp__tool_row *row, void *ctx, tp_writer *writer, tp_tool *ret_tool);

#endif
