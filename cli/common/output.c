/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/fold.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/common/visible.h"
#include "runtime/base/check.h"

static bool is_set(const char *variable) {
  const char *value = getenv(variable);
  return value && value[0];
}

void cli_output_init(cli_output *output, cli_colour colour) {
  const char *term = getenv("TERM");
  bool terminal = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !is_set("NO_COLOR");
  output->colour = colour == CLI_COLOUR_ALWAYS || (colour == CLI_COLOUR_AUTO && terminal);
}

void cli_output_fold(cli_output *output) {
  const char *columns = getenv("COLUMNS");
  struct winsize window;
  long width = columns && columns[0] ? strtol(columns, NULL, 10) : 0;
  if (!(columns && columns[0]) && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0)
    width = window.ws_col;
  output->width = width >= CLI_WIDTH_MIN && width < CLI_WIDTH_MAX ? (size_t)width : 0;
  output->ascii = cli_locale_is_ascii();
}

static void write_bytes(cli_output *output, const char *text, size_t size) {
  if (output->error || size == 0) return;
  if (fwrite(text, 1, size, stdout) != size) output->error = errno ? errno : EIO;
}

/* No text is written out in the middle of a code point. */
static void write_in_ascii(cli_output *output, tp_text text) {
  size_t from = 0, at = 0;
  while (at < text.size) {
    uint32_t code;
    cli_visibility visibility;
    size_t size = cli_visible_step((tp_text){text.data + at, text.size - at}, &code, &visibility);
    char mark = code < 0x80 ? '\0' : cli_locale_mark(code);
    if (mark) {
      write_bytes(output, text.data + from, at - from);
      write_bytes(output, &mark, 1);
      from = at + size;
    }
    at += size;
  }
  write_bytes(output, text.data + from, text.size - from);
}

static void write_out(cli_output *output, const char *text, size_t size) {
  assert(text || size == 0);
  if (output->ascii && size > 0) write_in_ascii(output, (tp_text){text, size});
  else write_bytes(output, text, size);
}

/* Writes the collected line, without its line end, in as many lines as it needs. */
static void write_folded(cli_output *output) {
  const char *line = tp__bytes_string(&output->line);
  size_t size = output->line.size, indent = cli_fold_indent(line, size, output->width);
  size_t at = cli_fold_at(line, size, output->width);
  write_out(output, line, at);
  while (at < size) {
    while (at < size && line[at] == ' ') at++;
    if (at == size) break;
    char blanks[CLI_WIDTH_MAX];
    memset(blanks, ' ', indent);
    write_out(output, "\n", 1);
    write_out(output, blanks, indent);
    size_t bytes = cli_fold_at(line + at, size - at, output->width - indent);
    write_out(output, line + at, bytes);
    at += bytes;
  }
  tp__bytes_clear(&output->line);
}

/* When lines are folded, a line is collected until its end has come. */
static void gather(cli_output *output, const char *text, size_t size) {
  while (size > 0) {
    const char *end = memchr(text, '\n', size);
    size_t piece = end ? (size_t)(end - text) : size;
    cli_buffer_add(&output->line, text, piece);
    if (end) {
      write_folded(output);
      write_out(output, "\n", 1);
      piece++;
    }
    text += piece;
    size -= piece;
  }
}

void cli_print(void *ctx, const char *text, size_t size) {
  cli_output *output = ctx;
  if (output->width && !output->streams) gather(output, text, size);
  else write_out(output, text, size);
}

void cli_output_stream(cli_output *output, bool on) {
  if (output->line.size) write_folded(output);
  output->streams = on;
}

void cli_print_string(cli_output *output, const char *string) { cli_print(output, string, strlen(string)); }

void cli_printf(cli_output *output, const char *format, ...) {
  if (output->error) return;
  char text[4096];
  va_list args;
  va_start(args, format);
  int size = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (size < 0) output->error = EIO;
  else cli_print(output, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

void cli_paint_on(cli_output *output, cli_paint paint) {
  static const char *const codes[] = {
      [CLI_NORMAL] = "",      [CLI_BOLD] = "\033[1m",  [CLI_FAINT] = "\033[2m", [CLI_GOOD] = "\033[32m",
      [CLI_BAD] = "\033[31m", [CLI_WARN] = "\033[33m", [CLI_NOTE] = "\033[36m"};
  if (output->colour) cli_print_string(output, codes[paint]);
}

void cli_paint_off(cli_output *output) {
  if (output->colour) cli_print_string(output, "\033[0m");
}

void cli_flush(cli_output *output) {
  if (!output->error && fflush(stdout) != 0) output->error = errno ? errno : EIO;
}

int cli_output_finish(cli_output *output, int exit_status) {
  if (output->line.size) write_folded(output);
  cli_flush(output);
  tp__bytes_fini(&output->line);
  if (!output->error && fclose(stdout) != 0) output->error = errno ? errno : EIO;
  if (!output->error) return exit_status;
  if (output->error != EPIPE) cli_error("standard output: %s", strerror(output->error));
  return CLI_IO;
}
