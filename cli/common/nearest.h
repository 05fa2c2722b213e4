/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest: which name a word that is none of them was meant to be. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

#include <stddef.h>

typedef struct cli_nearest {
  const char *word;
  const char *name; /* the nearest so far, and the first of equals; NULL: none is near */
  size_t distance;  /* of name; else one more than is near */
} cli_nearest;

/** @param word  borrowed as long as the nearest is used. */
cli_nearest cli_nearest_to(const char *word);
/** Near is a name of which the word is the begin (three characters or more), and one that takes few typing errors: a
 *  character too many, too few or another, or two neighbours swapped; one error in words of up to four characters, two
 *  up to eight, three above. @param name  borrowed likewise. */
void cli_nearest_try(cli_nearest *nearest, const char *name);

enum { CLI_HINT_SIZE = 96 };
/** "; did you mean 'NAME'?" with what stands before the name, or an empty text where none is near. */
const char *cli_nearest_hint(const cli_nearest *nearest, const char *before, char buffer[CLI_HINT_SIZE]);

#endif
