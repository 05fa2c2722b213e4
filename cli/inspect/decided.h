/* SPDX-License-Identifier: Apache-2.0
 *
 * decided: facts about a run that records keep in other tables: the tool of the call that its tool.pre was about, and
 * the reason of its denial (an audit row). The step of a call names the entry of its newest tool.pre. If a person
 * changed the arguments of a call, the call has earlier entries of tool.pre, too. These get the tool's name only when
 * their response has no other call, because no name is better than a wrong one. */
#ifndef CLI_INSPECT_DECIDED_H
#define CLI_INSPECT_DECIDED_H

#include "cli/common/data.h"
#include "cli/common/pool.h"

/** An entry of tool.pre. */
typedef struct cli_gate {
  uint64_t process_run_id, entry_id;
  int64_t started_ns;
  const char *turn;
  const tp_turn_step *call; /* that it was about; NULL: not known */
  const char *tool;         /* in cli_decided: the name of that */
} cli_gate;

/** Whether the entries of the phase are searched for calls. */
bool cli_gate_is(tp_phase_id phase);
/** Finds the calls of the gates of one turn.
 *  @param gates  ordered by their beginning, with call NULL.
 *  @param steps  of the turn.
 *  @param is_whole  whether steps has all of a turn that has ended. */
void cli_gates_name(cli_gate *gates, size_t gate_count, const tp_turn_step *steps, size_t step_count, bool is_whole);

/** A denial. */
typedef struct cli_denial {
  tp_phase_id phase;
  bool is_taken;
  const char *subscription, *turn, *session, *reason;
} cli_denial;

/** Zero-filled means empty. */
typedef struct cli_decided {
  cli_pool pool;
  cli_gate *gates; /* sorted by process and begin */
  size_t gate_count, gate_capacity;
  cli_denial *denials;                           /* the newest first */
  size_t denial_count, denial_capacity, untaken; /* all before untaken are taken */
} cli_decided;

/** Reads these facts from entries, turns and audit rows.
 *  @param rows_max  the most entries, turns, and audit rows to read, the newest; 0: all. */
tp_status cli_decided_read(const cli_data *data, const tp_text ids[TP_ID_COUNT], int64_t from_unix_ms, size_t rows_max,
                           cli_decided *ret_decided, tp_fault *fault);
void cli_decided_free(cli_decided *decided);

/** The tool of the call of a tool.pre; "" when it is not known: the turn has not ended, or its host drives it. */
const char *cli_decided_tool(const cli_decided *decided, const tp_entry_record *entry);
/** The reason of a run that denied, else "". Each reason is given once. So the caller must ask for every run of the
 *  query, the newest first, even for runs that are not shown. */
const char *cli_decided_reason(cli_decided *decided, const tp_entry_record *entry, const tp_run_record *run);

#endif
