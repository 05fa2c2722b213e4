/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/exit_status.h"
#include "cli/message.h"
#include "cli/pool.h"

enum option_id {
#define OPTION(id, letter, name, argument, commands, help) OPTION_##id,
#include "cli/options.def"
#undef OPTION
  OPTION_COUNT
};

static const struct row {
  char letter;
  const char *name, *argument;
  unsigned commands;
  const char *help;
} rows[OPTION_COUNT] = {
#define OPTION(id, letter, name, argument, commands, help) [OPTION_##id] = {letter, name, argument, commands, help},
#include "cli/options.def"
#undef OPTION
};

/* What getopt_long() gives for an option without a letter. */
enum { WITHOUT_LETTER = 256 };

static int value_of(size_t row) { return rows[row].letter ? rows[row].letter : WITHOUT_LETTER + (int)row; }

static enum option_id id_of(int value) {
  size_t row = 0;
  while (row < OPTION_COUNT && value_of(row) != value) row++;
  return (enum option_id)row;
}

static void make_table(unsigned command, struct option table[OPTION_COUNT + 1], char letters[2 * OPTION_COUNT + 2]) {
  *letters++ = ':'; /* a missing argument is told apart from an unknown option */
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (!(rows[i].commands & command)) continue;
    int takes = rows[i].argument ? required_argument : no_argument;
    *table++ = (struct option){.name = rows[i].name, .has_arg = takes, .val = value_of(i)};
    if (!rows[i].letter) continue;
    *letters++ = rows[i].letter;
    if (rows[i].argument) *letters++ = ':';
  }
  *table = (struct option){0};
  *letters = '\0';
}

static bool take_colour(cli_arguments *arguments, const char *when) {
  static const char *const words[] = {"auto", "always", "never"};
  for (int i = 0; i < 3; i++) {
    if (strcmp(when, words[i]) != 0) continue;
    arguments->colour = (cli_colour)i;
    return true;
  }
  cli_error("--color is auto, always or never, not '%s'", when);
  return false;
}

static void take_load(cli_arguments *arguments, const char *path) {
  arguments->loads =
      cli_room(arguments->loads, arguments->load_count, &arguments->load_capacity, sizeof *arguments->loads);
  arguments->loads[arguments->load_count++] = path;
}

static bool take(cli_arguments *arguments, enum option_id id, const char *value) {
  switch (id) {
  case OPTION_LOAD: take_load(arguments, value); break;
  case OPTION_NO_MEMORY: arguments->no_memory = true; break;
  case OPTION_SCRIPT: arguments->script = value; break;
  case OPTION_DATA: arguments->data = value; break;
  case OPTION_TENANT: arguments->tenant = value; break;
  case OPTION_WORKSPACE: arguments->workspace = value; break;
  case OPTION_JSON: arguments->json = true; break;
  case OPTION_DOT: arguments->dot = true; break;
  case OPTION_COLOR: return take_colour(arguments, value);
  case OPTION_VERBOSE: arguments->verbose = true; break;
  case OPTION_HELP: arguments->help = true; break;
  case OPTION_COUNT: return false;
  }
  return true;
}

static int bad_usage(const cli_command *command) {
  cli_error("see: turnphase %s --help", command->name);
  return CLI_USAGE;
}

static int take_operands(const cli_command *command, int argc, char **argv, cli_arguments *arguments) {
  if (optind < argc) arguments->operand = argv[optind++];
  const char *one_too_many = command->operand ? argv[optind] : arguments->operand;
  if (!one_too_many) return CLI_OK;
  cli_error("%s does not take '%s'", command->name, one_too_many);
  return bad_usage(command);
}

int cli_arguments_read(const cli_command *command, int argc, char **argv, cli_arguments *arguments) {
  struct option table[OPTION_COUNT + 1];
  char letters[2 * OPTION_COUNT + 2];
  make_table(command->bit, table, letters);
  opterr = 0;
  optind = 1;
  for (int value; (value = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
    if (value == ':' || value == '?') {
      if (value == ':') cli_error("'%s' needs an argument", argv[optind - 1]);
      else if (optopt && optopt < WITHOUT_LETTER && id_of(optopt) == OPTION_COUNT)
        cli_error("%s has no option '-%c'", command->name, optopt);
      else cli_error("%s does not take '%s'", command->name, argv[optind - 1]);
      return bad_usage(command);
    }
    if (!take(arguments, id_of(value), optarg)) return bad_usage(command);
  }
  return take_operands(command, argc, argv, arguments);
}

void cli_arguments_free(cli_arguments *arguments) { free(arguments->loads); }

static void print_option(const struct row *row, cli_output *output) {
  char words[64], letter[8] = "    ";
  if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
  snprintf(words, sizeof words, "%s--%s%s%s", letter, row->name, row->argument ? " " : "",
           row->argument ? row->argument : "");
  cli_printf(output, "  %-26s %s\n", words, row->help);
}

void cli_help(const cli_command *command, cli_output *output) {
  cli_printf(output, "Examples:\n%s\nUsage: turnphase %s%s%s%s\n\n%s\n\nOptions:\n", command->examples, command->name,
             command->operand ? " [OPTION…] [" : "", command->operand ? command->operand : "",
             command->operand ? "]" : command->bit == CLI_EXIT_STATUS ? "" : " [OPTION…]", command->description);
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (rows[i].commands & command->bit) print_option(&rows[i], output);
}
