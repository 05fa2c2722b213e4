/* SPDX-License-Identifier: Apache-2.0
 *
 * place: where --data keeps what a command without sessions has: a data directory or a database. */
#ifndef CLI_PLACE_H
#define CLI_PLACE_H

#include "cli/common/database.h"

/** Zero-filled: nothing is kept. */
typedef struct cli_place {
  char *store_path, *memory_path; /* of a directory; else NULL */
  tp_postgres *database;          /* else NULL */
} cli_place;

/** Opens the store of --data, and finishes an erasure that was interrupted. Makes a directory that is not there.
 *  @param ret_store  belongs to the caller; NULL without --data. @return CLI_OK, or the exit status after a message. */
int cli_place_open(const cli_arguments *arguments, cli_place *place, tp_store **ret_store);
/** Called after the runtime that has the store was freed. */
void cli_place_close(cli_place *place);

#endif
