/* SPDX-License-Identifier: Apache-2.0
 *
 * watch: a model that hands every request on to another one and remembers what was in it, so that the timeline tells
 * what the model was really shown. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/common/pool.h"
#include "cli/run/event.h"

typedef struct cli_watch {
  tp_model watching;          /* this one */
  tp_model *model;            /* the one that answers */
  cli_request request;        /* the newest; its texts are in the pool */
  const char **results;
  size_t results_capacity;
  const char **tools;         /* name and description of each tool that it was shown, in pairs */
  size_t tool_count, tools_capacity;
  cli_pool pool;
} cli_watch;

/** @param watch  stays where it is till the model is destroyed, which destroys the other one too.
 *  @param model  taken.
 *  @return the model that watches. */
tp_model *cli_watch_init(cli_watch *watch, tp_model *model);
void cli_watch_fini(cli_watch *watch);

#endif
