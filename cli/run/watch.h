/* SPDX-License-Identifier: Apache-2.0
 *
 * watch: models that pass every request to another model. The watch stores the content of the newest request, so that
 * the timeline can show what the model really saw. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/common/pool.h"
#include "cli/run/event.h"

typedef struct cli_watch {
  cli_request request; /* the newest; its texts are in the pool */
  const char **results;
  size_t results_capacity;
  const char **tools; /* pairs of name and description of each tool that it was shown */
  size_t tool_count, tools_capacity;
  cli_pool pool;
} cli_watch;

/** @param watch  zero-filled before the first; must not move until the models are destroyed.
 *  @param model  taken: the model that answers, destroyed together with the watching one.
 *  @return the model that watches. */
tp_model *cli_watch_add(cli_watch *watch, tp_model *model);
void cli_watch_fini(cli_watch *watch);

#endif
