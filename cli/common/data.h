/* SPDX-License-Identifier: Apache-2.0
 *
 * data: the files of a data directory, and its store for reading, whether a process works on it or not. */
#ifndef CLI_DATA_H
#define CLI_DATA_H

#include "cli/common/map.h"
#include "cli/common/options.h"

/** An open store, and a runtime that was not started, which gives the names of phases. */
typedef struct cli_data {
  tp_store *store;
  tp_runtime *names;
  char *path; /* of the file; for a database, its name as given */
  bool is_database;
  struct tp_postgres *database; /* when it is a database */
  bool read_only;               /* it cannot be written: functions of the store that would write are NULL */
  tp_status status;             /* why it was not opened */
} cli_data;

/** The path of a file in a directory; freed by free(). */
char *cli_data_path(const char *directory, const char *file);
/** Makes a directory if it does not exist. Only its owner may use it, because its content is private.
 *  @return CLI_OK; CLI_IO after a message about the error. */
int cli_data_make(const char *directory);
/** Checks that a directory exists. @return as cli_data_make(). */
int cli_data_check(const char *directory);
/** Checks that a directory of hooks exists; otherwise the message tells how to make one. @return likewise. */
int cli_data_check_hooks(const char *directory);
/** Checks that a directory of --files or --skills exists. @param option  its name, for the message. */
int cli_data_check_option(const char *option, const char *directory);
/** Finds a file of a data directory, which must exist. @param ret_path  freed by free(). @return likewise. */
int cli_data_find(const char *directory, const char *file, char **ret_path);
/** Opens the store of a directory or a database, which must exist. @return likewise. */
int cli_data_open(const char *directory, cli_data *data);
void cli_data_close(cli_data *data);

/** The phase's name, or "phase 1000" for a phase of a host; made in buffer if necessary. */
const char *cli_data_phase(const cli_data *data, uint32_t phase, char buffer[32]);
/** "2026-11-22T23:50:34.123Z". */
const char *cli_data_time(int64_t unix_ms, char buffer[40]);
/** Adds the members of a run that are shown everywhere. @param with_limit  also its limit. */
void cli_data_add_run(cli_map *map, const tp_run_record *run, bool with_limit);
/** Adds the ids that are set, as a map "ids". */
void cli_data_add_ids(cli_map *map, const tp_text ids[TP_ID_COUNT]);

/** Adds the answer of a tool except its text: "value", and "parts" without their content, if there are any. */
void cli_data_add_answer(cli_map *map, tp_text value, tp_text parts);
/** Prints one line for each part: its text, or a description in brackets. */
void cli_data_print_parts(cli_output *output, tp_text parts);

#endif
