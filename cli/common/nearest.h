/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest: finds the known name that an unknown word probably meant. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

#include <stddef.h>

typedef struct cli_nearest {
  const char *word;
  const char *name; /* the nearest so far; of equally near ones the first; NULL: none is near */
  size_t distance;  /* of name; else one more than is near */
} cli_nearest;

/** @param word  borrowed as long as the nearest is used. */
cli_nearest cli_nearest_to(const char *word);
/** A name is near when the word is its beginning (three characters or more), or when it differs from the word by few
 *  typing errors. An error is a character too many, too few or another one, or two neighbours swapped. Allowed are one
 *  error in words of up to four characters, two in words of up to eight, else three. @param name  borrowed as long as
 *  the nearest is used. */
void cli_nearest_try(cli_nearest *nearest, const char *name);

enum { CLI_HINT_SIZE = 96 };
/** "; did you mean 'NAME'?", with the text before the name; an empty text when no name is near. */
const char *cli_nearest_hint(const cli_nearest *nearest, const char *before, char buffer[CLI_HINT_SIZE]);

#endif
