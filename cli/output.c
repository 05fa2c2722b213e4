/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/exit_status.h"
#include "cli/message.h"

static bool is_set(const char *variable) {
  const char *value = getenv(variable);
  return value && value[0];
}

void cli_output_init(cli_output *output, cli_colour colour) {
  const char *term = getenv("TERM");
  bool terminal = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !is_set("NO_COLOR");
  output->colour = colour == CLI_COLOUR_ALWAYS || (colour == CLI_COLOUR_AUTO && terminal);
}

void cli_print(void *ctx, const char *text, size_t size) {
  cli_output *output = ctx;
  if (output->error || size == 0) return;
  if (fwrite(text, 1, size, stdout) != size) output->error = errno ? errno : EIO;
}

void cli_print_string(cli_output *output, const char *string) { cli_print(output, string, strlen(string)); }

void cli_printf(cli_output *output, const char *format, ...) {
  if (output->error) return;
  va_list args;
  va_start(args, format);
  if (vfprintf(stdout, format, args) < 0) output->error = errno ? errno : EIO;
  va_end(args);
}

void cli_paint_on(cli_output *output, cli_paint paint) {
  static const char *const codes[] = {[CLI_PLAIN] = "",      [CLI_BOLD] = "\033[1m",  [CLI_FAINT] = "\033[2m",
                                      [CLI_GOOD] = "\033[32m", [CLI_BAD] = "\033[31m", [CLI_WARN] = "\033[33m",
                                      [CLI_NOTE] = "\033[36m"};
  if (output->colour) cli_print_string(output, codes[paint]);
}

void cli_paint_off(cli_output *output) {
  if (output->colour) cli_print_string(output, "\033[0m");
}

void cli_flush(cli_output *output) {
  if (!output->error && fflush(stdout) != 0) output->error = errno ? errno : EIO;
}

int cli_output_finish(cli_output *output, int exit_status) {
  cli_flush(output);
  if (!output->error && fclose(stdout) != 0) output->error = errno ? errno : EIO;
  if (!output->error) return exit_status;
  if (output->error != EPIPE) cli_error("standard output: %s", strerror(output->error));
  return CLI_IO;
}
