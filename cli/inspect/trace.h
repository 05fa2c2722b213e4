/* SPDX-License-Identifier: Apache-2.0
 *
 * trace: one turn from a data directory: its record, the entries of its phases with their runs, the steps for which it
 * waited, and its audit rows, all on one time scale. It is read at once, and does not change afterwards. */
#ifndef CLI_INSPECT_TRACE_H
#define CLI_INSPECT_TRACE_H

#include "cli/common/data.h"
#include "cli/common/map.h"
#include "cli/common/pool.h"
#include "cli/common/quantity.h"
#include "cli/inspect/running.h"

#define CLI_NO_RUN SIZE_MAX

/** A content that passed through a phase: a field of its payload, or a contribution. */
typedef struct cli_trace_content {
  const char *field; /* its name; of a contribution NULL */
  size_t run;        /* who contributed it; CLI_NO_RUN: a field */
  uint64_t bytes;
  const char *hash; /* in hexadecimal; "" */
} cli_trace_content;

/** A run of a subscription. */
typedef struct cli_trace_run {
  tp_run_record row;  /* its names are in the trace's pool */
  size_t after;       /* by the times, the run of its entry that ended last before it was ready; CLI_NO_RUN */
  const char *detail; /* the audit's text about its failure or denial; "" */
  uint64_t bytes;     /* size of its contributions; 0: none, or not known */
} cli_trace_run;

/** An entry: one run of a phase. */
typedef struct cli_trace_entry {
  uint64_t id;
  int64_t started_ns, ended_ns; /* ended 0: it runs, or its process ended first */
  const char *phase;
  tp_phase_id phase_id;
  tp_status status;
  bool is_detached; /* a handler that the turn did not wait for */
  cli_trace_run *runs;
  size_t run_count;
  cli_trace_content *contents;
  size_t content_count;
} cli_trace_entry;

/** A question to people about a call, and their decision: an audit row. */
typedef struct cli_trace_asked {
  const char *action, *subscription, *detail; /* ask, answer or edit; who asked; "tool: …" */
  int64_t unix_ms;
} cli_trace_asked;

typedef struct cli_trace {
  cli_pool pool;
  const char *turn_id, *session, *tenant;
  uint64_t process_run_id;
  bool has_record; /* the turn has ended, and the members from outcome to tool_calls are from its record */
  tp_state state;  /* RUNNING, INTERRUPTED: from a record of the unended turn, as ended_ns found it; 0: there is none */
  tp_turn_outcome outcome;
  const char *reason, *subscription; /* why and who ended it; "" */
  int64_t began_ns, ended_ns;        /* without a record those of its entries */
  int64_t started_unix_ms;
  int64_t load_ns, model_ns, tools_ns, append_ns;
  uint32_t iterations, tool_calls;
  cli_trace_entry *entries; /* by their begin */
  size_t entry_count;
  /* by their beginning; names in the pool; for a request, place is the number of the retry, 0: it is none */
  tp_turn_step *steps;
  size_t step_count;
  uint64_t steps_dropped;
  cli_trace_asked *asked; /* the newest first */
  size_t asked_count, asked_capacity;
  const char **suspects; /* from the audit: what was running when its process died, the newest first */
  size_t suspect_count, suspect_capacity;
  cli_called_list called; /* its functions that are running, or were running when its process died */
} cli_trace;

/** Reads the turn that COMMAND DIR TURN names (pick.h).
 *  @param ret_trace  to be freed also after a failure.
 *  @return CLI_OK; another exit status after a message; CLI_NEGATIVE: there is no such turn. */
int cli_trace_read(const char *command, const cli_arguments *arguments, cli_trace *ret_trace);
void cli_trace_free(cli_trace *trace);

/** A command on one turn: opens the directory, reads the turn, and prints. */
typedef struct cli_trace_command {
  const char *name;
  void (*print)(const cli_trace *trace, cli_output *output);
  void (*print_json)(const cli_trace *trace, cli_output *output);
} cli_trace_command;
int cli_trace_run_command(const cli_trace_command *command, const cli_arguments *arguments, cli_output *output);

/* ---- what is left of a span ---- */

/** The time of an entry outside of its handlers: the commit of its jobs, its plan, waits. */
int64_t cli_trace_own_ns(const cli_trace_entry *entry);
/** When its last handler ended; without handlers, when it began. */
int64_t cli_trace_own_from_ns(const cli_trace_entry *entry);
/** A description of that time: "outside of its handlers: commit of its jobs". */
const char *cli_trace_own_what(const cli_trace_entry *entry);
bool cli_trace_has_jobs(const cli_trace_entry *entry);
/** The time of the turn in which the function of a tool call, or a gate of one, ran. */
int64_t cli_trace_tools_ns(const cli_trace *trace);

/* ---- what is said of a run ---- */

/** Whether its handler was called. */
bool cli_run_was_called(const tp_run_record *run);
/** How long a run waited for a thread or a permit, from ready to its call; 0: it did not wait. */
int64_t cli_run_queued_ns(const tp_run_record *run);
int64_t cli_run_duration_ns(const tp_run_record *run);
/** When it had to be done; 0: not known. */
int64_t cli_run_deadline_ns(const tp_run_record *run);
/** "succeeded", "deny", "skipped". */
const char *cli_run_outcome(const tp_run_record *run);
/** Why a run ended as it did, as a sentence without its full stop; "" when there is nothing to add. */
const char *cli_run_why(const cli_trace_run *run, char *buffer, size_t size);
cli_paint cli_run_paint(const tp_run_record *run);
enum { CLI_STEP_NAME_SIZE = 128 };
/** The name of a step: "train_times", "model request 2, gpt-4o-mini", "history load". */
const char *cli_step_name(const tp_turn_step *step, char *buffer, size_t size);
const char *cli_step_outcome(const tp_turn_step *step);
bool cli_step_failed(const tp_turn_step *step);
/** How the turn ended: "completed", "running", "interrupted". */
const char *cli_trace_outcome(const cli_trace *trace);
/** Prints "turn rooms-1 completed 144 ms session …", and why. */
void cli_trace_print_head(const cli_trace *trace, cli_output *output);
/** The same for programs: the first pairs of a map. */
void cli_trace_add_head(const cli_trace *trace, cli_map *pairs);

/* ---- cells of a table ---- */

/** A duration, or "-" when it is not known. @param ret_words  holds the text; unused for "-". */
tp_text cli_trace_duration(int64_t ns, bool is_known, char ret_words[CLI_QUANTITY_SIZE + 2]);

#endif
