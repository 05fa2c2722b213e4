/* SPDX-License-Identifier: Apache-2.0
 *
 * output: standard output, which carries only data. The first error is stored and suppresses later output, so it is
 * checked once, at the end. One thread writes. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli/common/pool.h"
#include "runtime/base/printf.h"
#include "turnphase/turnphase.h"

typedef struct cli_output {
  int error; /* errno of the first write that failed, or 0 */
  bool colour;
  size_t width;   /* lines are folded at it; 0: they are not */
  bool ascii;     /* the command's marks are written in ASCII (cli_locale_mark()) */
  bool streams;   /* the caller breaks lines itself while this is set, so they are not folded */
  tp__bytes line; /* output since the last line end, when lines are folded */
} cli_output;

enum { CLI_WIDTH_MIN = 20, CLI_WIDTH_MAX = 1024 };

typedef enum cli_colour { CLI_COLOUR_AUTO = 0, CLI_COLOUR_ALWAYS = 1, CLI_COLOUR_NEVER = 2 } cli_colour;

/** The kind of a piece of text, which decides its colour. */
typedef enum cli_paint { CLI_NORMAL, CLI_BOLD, CLI_FAINT, CLI_GOOD, CLI_BAD, CLI_WARN, CLI_NOTE } cli_paint;

/** Colour "auto" means: standard output is a terminal, TERM is not "dumb", and NO_COLOR is not set. */
void cli_output_init(cli_output *output, cli_colour colour);
/** From here on lines are folded at the width of the terminal, or at the value of COLUMNS, and marks are written in
 *  ASCII if the locale has no UTF-8. For text, never for data. */
void cli_output_fold(cli_output *output);
/** Writes text that comes in pieces at once, even when lines are folded: then the caller breaks the lines.
 *  @param on  false: lines are folded again, from the next one on. */
void cli_output_stream(cli_output *output, bool on);
/** A tp_print_fn; ctx is the cli_output. */
void cli_print(void *ctx, const char *text, size_t size);
void cli_print_string(cli_output *output, const char *string);
void cli_printf(cli_output *output, const char *format, ...) TP__PRINTF(2, 3);
/** Begins and ends a paint; nothing where there are no colours. */
void cli_paint_on(cli_output *output, cli_paint paint);
void cli_paint_off(cli_output *output);
void cli_flush(cli_output *output);
/** Writes the rest. @return exit_status, or CLI_IO when something could not be written. A full disk is reported on
 *  standard error; a reader that has gone away is not. */
int cli_output_finish(cli_output *output, int exit_status);

#endif
