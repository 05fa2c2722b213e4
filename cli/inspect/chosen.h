/* SPDX-License-Identifier: Apache-2.0
 *
 * chosen: the selection of forget and export in a data directory: whose data, and which memories. The store selects its
 * own rows. */
#ifndef CLI_INSPECT_CHOSEN_H
#define CLI_INSPECT_CHOSEN_H

#include "cli/common/erasure.h"
#include "cli/common/options.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"

/** The options --tenant, --session, --user, --matching, --age and --before. Texts are borrowed.
 *  @return CLI_OK, or CLI_USAGE after a message that names the wrong one. */
int cli_chosen_read(const cli_arguments *arguments, cli_erasure *choice);
/** The same for the store. */
tp_kept_choice cli_chosen_rows(const cli_erasure *choice);
/** The selected memories, in ascending order of their ids. A turn is selected as a whole, with the facts that a model
 *  made of it.
 *  @param ret_ids  freed by free(), also after a failure. @return as tp_memory_list(). */
tp_status cli_chosen_memories(tp_memory *memory, const cli_erasure *choice, int64_t **ret_ids, size_t *ret_count,
                              tp_fault *fault);

#endif
