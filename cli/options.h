/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command table, the command line, and the help that is made of both. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli/output.h"

enum { CLI_PLAN = 1, CLI_PHASES = 2, CLI_RUN = 4, CLI_EXIT_STATUS = 8, CLI_BENCH = 16, CLI_EVERY = 31 };

/** Words of an option that may be given several times; freed by cli_arguments_free(). */
typedef struct cli_words {
  const char **items;
  size_t count, capacity;
} cli_words;

/** Which histograms are shown. */
typedef enum cli_histograms {
  CLI_HISTOGRAMS_NONE = 0,
  CLI_HISTOGRAMS_PHASES = 1,
  CLI_HISTOGRAMS_ALL = 2        /* of each subscription, too */
} cli_histograms;

/** What the command line said. Texts are the command line's own. */
typedef struct cli_arguments {
  cli_words loads, phases;
  const char *script, *data, *tenant, *workspace, *payload;
  const char *operand;          /* the one word that is no option; NULL when there is none */
  cli_colour colour;
  uint32_t turns, warm_up, concurrency;
  uint32_t workers;             /* 0: as many as cores */
  tp_timestamps timestamps;
  cli_histograms histograms;
  bool json, dot, no_memory, verbose, help;
} cli_arguments;

/** A row of the command table. */
typedef struct cli_command {
  unsigned bit;                 /* CLI_PLAN, … */
  const char *name, *operand, *summary;
  const char *examples, *description;
  int (*run)(const cli_arguments *arguments, cli_output *output);
} cli_command;

/** Reads the words behind the command's name; argv[0] is that name.
 *  @return 0, or CLI_USAGE after saying what is wrong. */
int cli_arguments_read(const cli_command *command, int argc, char **argv, cli_arguments *arguments);
void cli_arguments_free(cli_arguments *arguments);
/** Prints a command's help: examples, usage, options. */
void cli_help(const cli_command *command, cli_output *output);

int cli_bench(const cli_arguments *arguments, cli_output *output);
int cli_plan(const cli_arguments *arguments, cli_output *output);
int cli_phases(const cli_arguments *arguments, cli_output *output);
int cli_run(const cli_arguments *arguments, cli_output *output);

#endif
