/* SPDX-License-Identifier: Apache-2.0
 *
 * pick: finds the turn that is meant when a directory has several turns with one id: ID is the newest, ID#1 the oldest,
 * ID#2 the next. A turn whose own id ends like that is found by its id. */
#ifndef CLI_INSPECT_PICK_H
#define CLI_INSPECT_PICK_H

#include "cli/common/data.h"

typedef struct cli_pick {
  char id[TP_ID_BYTES_MAX + 1]; /* without the number */
  size_t number;   /* the number of the turn that is meant, from 1; 0: no turn with this id has ended or runs */
  size_t count;    /* how many turns have this id */
  bool is_chosen;  /* a number was given */
  bool is_running; /* it is one that has not ended */
  uint64_t process_run_id;
  int64_t started_ns; /* of the turn */
  int64_t until_ns;   /* the beginning of the next turn with this id in its process; INT64_MAX: there is none */
} cli_pick;

/** Reads the turns of the id. @param session  NULL: of all sessions.
 *  @param ret_pick  number > count: the directory has no turn with that number. */
tp_status cli_pick_read(const cli_data *data, const char *word, const char *session, cli_pick *ret_pick,
                        tp_fault *fault);
bool cli_pick_is(const cli_pick *pick, const tp_turn_record *turn, bool is_running);
/** Whether an entry with this id belongs to the turn. If there is only one turn, all entries do. */
bool cli_pick_has(const cli_pick *pick, const tp_entry_record *entry);

#endif
