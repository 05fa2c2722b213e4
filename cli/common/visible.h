/* SPDX-License-Identifier: Apache-2.0
 *
 * visible: characters that a terminal would obey or hide instead of showing them: control characters, marks that change
 * the direction of writing, and code points without width. Texts of others are printed without them. */
#ifndef CLI_VISIBLE_H
#define CLI_VISIBLE_H

#include "support/bytes.h"
#include "turnphase/turnphase.h"

typedef enum cli_visibility {
  CLI_VISIBLE,
  CLI_CONTROL, /* C0, DEL, C1: a blank, or its number, in a text that is shown as one line */
  CLI_HIDDEN   /* shown as its number, "<U+202E>" */
} cli_visibility;

enum { CLI_ESCAPE_SIZE = 12 }; /* "<U+10FFFF>" and its end */

/** The size in bytes of the first code point of text. @param ret_code  may be NULL. */
size_t cli_visible_step(tp_text text, uint32_t *ret_code, cli_visibility *ret_visibility);
/** Writes a code point as its number. @return how many bytes. */
size_t cli_visible_escape(uint32_t code, char ret_text[CLI_ESCAPE_SIZE]);
/** The width of a code point on a terminal, in columns: 0 for a combining mark, 2 for a wide letter (wcwidth()), 1 for
 *  an unknown one. Needs a locale of UTF-8 (cli_locale_start()). */
size_t cli_visible_columns(uint32_t code);
/** Adds text as one line: a hidden character becomes its number, a control character a blank.
 *  @param numbers  only line ends and tabs become blanks; other control characters become their numbers. */
void cli_visible_line(tp_text text, bool numbers, tp__bytes *bytes);

/** Sets the character set from the environment (LC_ALL, LC_CTYPE, LANG). Then sets a locale of UTF-8 for the process,
 *  because all texts are UTF-8. Called before the first thread begins. */
void cli_locale_start(void);
/** Whether the environment names a character set other than UTF-8; then the command's marks are written in ASCII.
 *  Without these variables UTF-8 is assumed. */
bool cli_locale_is_ascii(void);
/** The ASCII character of one column that replaces one of the command's marks, such as "~" for "…"; '\\0': it is no
 *  such mark. */
char cli_locale_mark(uint32_t code);

#endif
