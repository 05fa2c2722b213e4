/* SPDX-License-Identifier: Apache-2.0
 *
 * visible: what a terminal would obey or hide instead of showing: control characters, marks that turn the direction of
 * writing round, and code points without width. Texts that others wrote are printed without them. */
#ifndef CLI_VISIBLE_H
#define CLI_VISIBLE_H

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

#endif
