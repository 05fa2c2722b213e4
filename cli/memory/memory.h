/* SPDX-License-Identifier: Apache-2.0
 *
 * memory: the actions of `turnphase memory`. memory.c finds the file and shows its content; memory_move.c exports and
 * imports. */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

#include "cli/common/map.h"
#include "cli/common/options.h"
#include "turnphase/memory.h"

/** What an action works on. */
typedef struct cli_memory {
  const cli_arguments *arguments;
  cli_output *output;
  tp_memory *memory; /* NULL in import, which opens it after it has checked its input */
  const char *path;  /* of the file */
  const char *makes; /* the directory that must be made for it; NULL: none */
  size_t count;      /* entries seen */
} cli_memory;

/** Which memories the options name. */
tp_memory_query cli_memory_query(const cli_memory *m, uint32_t limit);
/** Adds the members of a memory, as export writes and import reads them. */
void cli_memory_add(cli_map *p, const tp_memory_entry *entry);
/** Prints the entry as a line of JSON, which import reads.
 *  @return CLI_OK, or an exit status after saying what is wrong. */
int cli_memory_print_json(const cli_memory *m, const tp_memory_entry *entry);

int cli_memory_export(cli_memory *m);
int cli_memory_import(cli_memory *m);

#endif
