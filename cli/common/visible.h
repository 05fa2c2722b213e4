/* SPDX-License-Identifier: Apache-2.0
 *
 * visible: what a terminal would obey or hide instead of showing: control characters, marks that turn the direction of
 * writing round, and code points without width. Texts that others wrote are printed without them. */
#ifndef CLI_VISIBLE_H
#define CLI_VISIBLE_H

#include "support/bytes.h"
#include "turnphase/turnphase.h"

typedef enum cli_visibility {
  CLI_VISIBLE,
  CLI_CONTROL, /* C0, DEL, C1: shown as a blank where a line is wanted */
  CLI_HIDDEN   /* shown as its number, "<U+202E>" */
} cli_visibility;

enum { CLI_ESCAPE_SIZE = 12 }; /* "<U+10FFFF>" and its end */

/** The bytes of the code point that text begins with. @param ret_code  may be NULL. */
size_t cli_visible_step(tp_text text, uint32_t *ret_code, cli_visibility *ret_visibility);
/** Writes a code point as its number; @return how many bytes. */
size_t cli_visible_escape(uint32_t code, char ret_text[CLI_ESCAPE_SIZE]);
/** How many columns of a terminal a code point takes: 0 for a combining mark, 2 for a wide letter (wcwidth()); one that
 *  is not known takes 1. Needs a locale of UTF-8 (cli_locale_start()). */
size_t cli_visible_columns(uint32_t code);
/** Adds text as one line: a hidden character becomes its number, a control character a blank.
 *  @param numbers  of control characters only line ends and tabs become a blank, and the others their numbers. */
void cli_visible_line(tp_text text, bool numbers, tp__bytes *bytes);

/** Takes the character set of the environment (LC_ALL, LC_CTYPE, LANG), then a locale of UTF-8 for the process: texts
 *  are UTF-8 everywhere. Before the first thread. */
void cli_locale_start(void);
/** Whether the environment names a character set other than UTF-8: marks of ours are written in ASCII then. Without any
 *  of the three variables there is none, and UTF-8 is written. */
bool cli_locale_is_ascii(void);
/** ASCII of one column in place of a mark of ours, such as "~" for "…"; '\0': it is none. */
char cli_locale_mark(uint32_t code);

#endif
