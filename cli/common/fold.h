/* SPDX-License-Identifier: Apache-2.0
 *
 * fold: lines that are wider than the terminal, broken at blanks, with what follows indented below. Columns are counted
 * (cli_visible_columns()); the escapes that begin and end a paint count nothing. A number stays with its unit. */
#ifndef CLI_FOLD_H
#define CLI_FOLD_H

#include <stddef.h>

/** How much of a line, which has no line end, goes on the terminal's line: all of it, or up to a blank.
 *  @param width  > 0. @return bytes, at least one code point of what is not blank. */
size_t cli_fold_at(const char *line, size_t size, size_t width);
/** How far the lines below are indented: by four more than the line itself, but at most half the width. */
size_t cli_fold_indent(const char *line, size_t size, size_t width);

#endif
