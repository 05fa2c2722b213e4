/* SPDX-License-Identifier: Apache-2.0
 *
 * follow: shows entries as they are written, in order, until the reader goes away. It waits for changes of the file,
 * not for fixed times. */
#ifndef CLI_INSPECT_FOLLOW_H
#define CLI_INSPECT_FOLLOW_H

#include "cli/common/data.h"

/** Shows an entry; false ends the following. An entry that runs is shown again when it has ended. */
typedef bool (*cli_follow_fn)(void *ctx, const tp_entry_record *entry);

/** Shows the newest entries that fit the query, then each new one.
 *  @param first  how many of the existing entries are shown.
 *  @return CLI_OK when `each` returned false or the reader went away; else an exit status after a message. */
int cli_follow(const cli_data *data, const char *directory, const tp_record_query *query, size_t first,
               cli_follow_fn each, void *ctx);

#endif
