/* SPDX-License-Identifier: Apache-2.0
 *
 * fold: breaks lines that are wider than the terminal at blanks, and indents the continuation. Widths are in columns
 * (cli_visible_columns()). Escapes that begin and end a paint have no width. A number is not separated from its
 * unit. */
#ifndef CLI_FOLD_H
#define CLI_FOLD_H

#include <stddef.h>

/** How much of a line (without line end) fits on the terminal's line: all of it, or up to a blank.
 *  @param width  > 0. @return bytes, at least one code point that is not blank. */
size_t cli_fold_at(const char *line, size_t size, size_t width);
/** The indentation of continuation lines: four more than the line itself, but at most half the width. */
size_t cli_fold_indent(const char *line, size_t size, size_t width);

#endif
