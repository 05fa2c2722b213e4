/* SPDX-License-Identifier: Apache-2.0
 *
 * input: reads a whole file, or standard input, as text or JSON. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "turnphase/turnphase.h"

enum { CLI_INPUT_BYTES_MAX = 64 * 1024 * 1024 };

/** Reads a file that must be UTF-8 text. @param path  NULL or "-": standard input.
 *  @param ret_text  freed by free() of its data.
 *  @return CLI_OK, or an exit status after a message about the error, with line and column of a byte that is not
 *    UTF-8. */
int cli_input_read(const char *path, tp_text *ret_text);
/** Reads a file that must be JSON. @param path  may be the object itself: "{…".
 *  @param ret_writer  holds the value; freed by tp_writer_free(), also after a failure.
 *  @return likewise. */
int cli_input_decode(const char *path, tp_writer **ret_writer, tp_text *ret_value);
/** Passes the values of JSON Lines to take(), one by one, until it returns another status than CLI_OK. Blank lines are
 *  skipped.
 *  @param name  of the file. @param line  the number of the current line. @return as cli_input_read(). */
int cli_input_lines(const char *name, tp_text text, uint32_t *line, int (*take)(void *ctx, tp_text value), void *ctx);
/** What messages call it. */
const char *cli_input_name(const char *path);
bool cli_is_blank(tp_text text);

#endif
