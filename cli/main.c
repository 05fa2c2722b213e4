/* SPDX-License-Identifier: Apache-2.0
 *
 * The command turnphase: shows plans, and plays conversations. It uses only the public headers. Data goes to standard
 * output, everything else to standard error. The exit status tells the result (turnphase exit-status). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/nearest.h"
#include "cli/common/options.h"
#include "cli/common/visible.h"
#include "cli/run/host.h"
#include "cli/run/model.h"

int cli_exit_status(const cli_arguments *arguments, cli_output *output) {
  (void)arguments;
  cli_exit_print(output);
  return CLI_OK;
}

static const cli_command commands[] = {
#define VERB(verb, function, ...) {.id = CLI_##verb, .run = function, __VA_ARGS__},
#include "cli/common/verbs.def"
#undef VERB
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int print_usage(cli_output *output) {
  cli_output_init(output, CLI_COLOUR_AUTO);
  cli_output_fold(output);
  cli_print_string(output,
                   "Examples:\n"
                   "  turnphase run --script model.yaml talk.yaml    play a conversation\n"
                   "  turnphase chat --model openai:NAME             talk with a model\n"
                   "  turnphase plan                                 what would run, and in what order\n"
                   "  turnphase bench                                how long it takes\n"
                   "\n"
                   "Usage: turnphase COMMAND [OPTION…]\n\n");
  for (size_t i = 0; i < COMMANDS; i++) cli_printf(output, "  %-15s %s\n", commands[i].name, commands[i].summary);
  cli_print_string(
      output,
      "\nturnphase help COMMAND says more, help --json the same for programs; turnphase --version says which\n"
      "version this is.\n");
  return CLI_OK;
}

static const cli_command *find_command(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  return NULL;
}

static int run_command(const cli_command *command, int argc, char **argv, cli_output *output) {
  cli_arguments arguments = {0};
  int status = cli_arguments_read(command, argc, argv, &arguments);
  if (status == CLI_OK) {
    cli_output_init(output, arguments.colour);
    if (!arguments.json && !arguments.dot && command->id != CLI_PLOT) cli_output_fold(output);
    if (arguments.help) cli_help(command, output);
    else status = command->run(&arguments, output);
  }
  cli_arguments_free(&arguments);
  return status;
}

static int refuse_command(const char *word) {
  char hint[CLI_HINT_SIZE];
  cli_nearest nearest = cli_nearest_to(word);
  for (size_t i = 0; i < COMMANDS; i++) cli_nearest_try(&nearest, commands[i].name);
  cli_nearest_try(&nearest, "--help");
  cli_nearest_try(&nearest, "--version");
  cli_error("there is no command '%s'%s", word, cli_nearest_hint(&nearest, "", hint));
  cli_error("see: turnphase --help");
  return CLI_USAGE;
}

static int help_of(const char *word, cli_output *output) {
  const cli_command *command = find_command(word);
  if (!command) return refuse_command(word);
  cli_output_init(output, CLI_COLOUR_AUTO);
  cli_output_fold(output);
  cli_help(command, output);
  return CLI_OK;
}

/* Prints every command with its options, and the exit statuses, a line each. */
static int print_help_json(cli_output *output) {
  int status = CLI_OK;
  for (size_t i = 0; i < COMMANDS && status == CLI_OK; i++) status = cli_help_json(&commands[i], output);
  return status == CLI_OK ? cli_exit_print_json(output) : status;
}

static int dispatch(int argc, char **argv, cli_output *output) {
  const char *word = argc > 1 ? argv[1] : NULL;
  if (!word) {
    cli_error("which command? see: turnphase --help");
    return CLI_USAGE;
  }
  bool asks_help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
  bool asks_version = strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0;
  if (argc > 2 + asks_help && (asks_help || asks_version)) {
    cli_error("%s does not take '%s'", word, argv[2 + asks_help]);
    return CLI_USAGE;
  }
  if (asks_help && argc > 2 && strcmp(argv[2], "--json") == 0) return print_help_json(output);
  if (asks_help && argc > 2) return help_of(argv[2], output);
  if (asks_help) return print_usage(output);
  if (asks_version) {
    cli_printf(output, "turnphase %s\n", tp_version());
    return CLI_OK;
  }
  const cli_command *command = find_command(word);
  return command ? run_command(command, argc - 1, argv + 1, output) : refuse_command(word);
}

/* A core file would contain the keys of models and hooks. A limit of one byte also stops the program that a pipe in
 * core_pattern starts from storing one. Programs of hooks inherit the limit. */
static void forbid_core_files(void) {
  struct rlimit limit;
  const char *wanted = getenv("TURNPHASE_CORE_FILES");
  if ((wanted && strcmp(wanted, "1") == 0) || getrlimit(RLIMIT_CORE, &limit) != 0) return;
  if (limit.rlim_cur > 1) limit.rlim_cur = 1;
  (void)setrlimit(RLIMIT_CORE, &limit);
}

/* If a standard descriptor is closed, a file that is opened later could get its number, and would be read or written by
 * mistake. So it is replaced by a descriptor that is at its end and cannot be written: a write to it still fails. */
static void fill_descriptors(void) {
  int ends[2];
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && pipe(ends) == 0) close(ends[1]);
}

int main(int argc, char **argv) {
  cli_output output = {0};
  fill_descriptors();
  forbid_core_files();
  cli_locale_start();
  signal(SIGPIPE, SIG_IGN); /* when a reader goes away, a write fails, and the running turn is ended properly */
  int status = dispatch(argc, argv, &output);
  cli_only_models_free();
  cli_redactor_free();
  return cli_output_finish(&output, status);
}
