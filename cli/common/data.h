/* SPDX-License-Identifier: Apache-2.0
 *
 * data: the files of a data directory, and its store as it is read with or without a process that works on it. */
#ifndef CLI_DATA_H
#define CLI_DATA_H

#include "cli/common/map.h"
#include "cli/common/options.h"

/** A store that is open, and a runtime that was not started, which knows the names of phases. */
typedef struct cli_data {
  tp_store *store;
  tp_runtime *names;
  char *path; /* of the file; of a database its name as it was given */
  bool is_database;
  struct tp_postgres *database; /* where it is one */
  bool read_only;               /* it cannot be written: a function of the store that would is NULL */
  tp_status status;             /* why it was not opened */
} cli_data;

/** The path of a file in a directory; freed by free(). */
char *cli_data_path(const char *directory, const char *file);
/** Makes a directory, where it is not there, for its owner alone, since what is kept there is private.
 *  @return CLI_OK; CLI_IO after saying why it cannot be used. */
int cli_data_make(const char *directory);
/** A directory that must be there. @return likewise. */
int cli_data_check(const char *directory);
/** A directory of hooks that must be there. @return likewise, with how one is made. */
int cli_data_check_hooks(const char *directory);
/** A directory of --files or --skills that must be there. @param option  its name, for the message. */
int cli_data_check_option(const char *option, const char *directory);
/** A file of a data directory that must be there. @param ret_path  freed by free(). @return likewise. */
int cli_data_find(const char *directory, const char *file, char **ret_path);
/** Opens the store of a directory or a database, which must be there. @return likewise. */
int cli_data_open(const char *directory, cli_data *data);
void cli_data_close(cli_data *data);

/** The phase's name, or "phase 1000" for one of a host's; in buffer where it is made. */
const char *cli_data_phase(const cli_data *data, uint32_t phase, char buffer[32]);
/** "2026-11-22T23:50:34.123Z". */
const char *cli_data_time(int64_t unix_ms, char buffer[40]);
/** Adds what is said of a run wherever it is shown. @param with_limit  also its limit. */
void cli_data_add_run(cli_map *map, const tp_run_record *run, bool with_limit);
/** Adds the ids that are set, as a map "ids". */
void cli_data_add_ids(cli_map *map, const tp_text ids[TP_ID_COUNT]);

/** What a tool answered besides its text: "value", and "parts" without their content, where there are some. */
void cli_data_add_answer(cli_map *map, tp_text value, tp_text parts);
/** One line for each part: its text, or in brackets what it is. */
void cli_data_print_parts(cli_output *output, tp_text parts);

#endif
