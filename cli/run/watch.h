/* SPDX-License-Identifier: Apache-2.0
 *
 * watch: models that pass every request to another one each; the watch remembers what was in the newest, so that the
 * timeline shows what the model was really shown. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/common/pool.h"
#include "cli/run/event.h"

typedef struct cli_watch {
  cli_request request; /* the newest; its texts are in the pool */
  const char **results;
  size_t results_capacity;
  const char **tools; /* name and description of each tool that it was shown, in pairs */
  size_t tool_count, tools_capacity;
  cli_pool pool;
} cli_watch;

/** @param watch  zero-filled before the first; stays where it is till the models are destroyed.
 *  @param model  taken: the one that answers, destroyed with the one that watches.
 *  @return the model that watches. */
tp_model *cli_watch_add(cli_watch *watch, tp_model *model);
void cli_watch_fini(cli_watch *watch);

#endif
