/* SPDX-License-Identifier: Apache-2.0
 *
 * input: a file, or standard input, read whole. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "turnphase/turnphase.h"

enum { CLI_INPUT_BYTES_MAX = 64 * 1024 * 1024 };

/** Reads a file that must be UTF-8 text. @param path  NULL or "-": standard input.
 *  @param ret_text  freed by free() of its data.
 *  @return CLI_OK, or an exit status after saying what is wrong, with line and column of a byte that is not UTF-8. */
int cli_input_read(const char *path, tp_text *ret_text);
/** What messages call it. */
const char *cli_input_name(const char *path);

#endif
