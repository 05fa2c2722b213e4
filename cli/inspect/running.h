/* SPDX-License-Identifier: Apache-2.0
 *
 * running: shows turns that have not ended: they run, or ran when their process ended. */
#ifndef CLI_INSPECT_RUNNING_H
#define CLI_INSPECT_RUNNING_H

#include "cli/common/data.h"
#include "cli/common/map.h"
#include "cli/common/pool.h"

/** A function that is running, or was running when its process died. */
typedef struct cli_called {
  const char *name, *handler, *phase; /* of a subscription; a tool only has the name, the other texts are "" */
  const char *turn, *session;
  int64_t process_id, started_unix_ms;
  bool is_alive; /* the process */
} cli_called;

typedef struct cli_called_list {
  cli_called *items; /* texts in the pool */
  size_t count, capacity;
} cli_called_list;

/** Reads the running functions of a turn.
 *  @param turn, session  NULL: any.
 *  @return TP_OK; the error of the store. */
tp_status cli_called_read(const cli_data *data, const char *turn, const char *session, cli_pool *pool,
                          cli_called_list *ret_list, tp_fault *fault);
/** Prints a line for each: " called now tool `build` for 3.2 s, in process 4711". */
void cli_called_print(const cli_called_list *list, cli_output *output);
/** The same for programs: a list of maps. */
void cli_called_add(cli_map *pairs, const cli_called_list *list);

/** How long something in a turn that has not ended has taken: up to now, or, for an interrupted turn, up to the last
 *  known time. */
int64_t cli_running_ns(const tp_turn_record *turn, int64_t started_ns);
/** The open steps of a turn's record, the last first: "tool build, 3.2 s". */
void cli_running_print_steps(const tp_turn_record *turn, cli_output *output);
/** Adds a turn that has not ended, for programs: "turn_state" and the known members. */
void cli_running_add(cli_map *pairs, const tp_turn_record *turn);
/** "running" or "interrupted". */
const char *cli_running_word(const tp_turn_record *turn);

#endif
