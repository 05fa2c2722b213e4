/* SPDX-License-Identifier: Apache-2.0
 *
 * follow: entries as they are written, in their order, until the reader goes away. Waits for a change of the file, not
 * for time to pass. */
#ifndef CLI_INSPECT_FOLLOW_H
#define CLI_INSPECT_FOLLOW_H

#include "cli/common/data.h"

/** Shows an entry; false ends it. One that runs comes again when it has ended. */
typedef bool (*cli_follow_fn)(void *ctx, const tp_entry_record *entry);

/** Shows the newest entries that fit, then each that is written.
 *  @param first  so many of those that are there are shown.
 *  @return CLI_OK when each returned false or the reader went away; else after saying what is wrong. */
int cli_follow(const cli_data *data, const char *directory, const tp_record_query *query, size_t first,
               cli_follow_fn each, void *ctx);

#endif
