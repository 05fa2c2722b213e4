/* SPDX-License-Identifier: Apache-2.0
 *
 * pairs: a map whose size is not known before it is written. Its pairs are gathered first, for the size of a map stands
 * in front of it. Texts and sources are borrowed till the pairs are written. */
#ifndef CLI_PAIRS_H
#define CLI_PAIRS_H

#include "turnphase/turnphase.h"

enum { CLI_PAIRS_MAX = 32 };

typedef struct cli_pair {
  const char *key;
  enum { CLI_PAIR_TEXT, CLI_PAIR_INT, CLI_PAIR_DOUBLE, CLI_PAIR_BOOL, CLI_PAIR_VALUE, CLI_PAIR_PART } kind;
  tp_text text;
  int64_t number;
  double real;
  void (*part)(tp_writer *writer, const void *source);
  const void *source;
} cli_pair;

/** Zero-filled but for the writer means empty. */
typedef struct cli_pairs {
  tp_writer *writer;
  size_t count;
  cli_pair items[CLI_PAIRS_MAX];
} cli_pairs;

/** A text that is not UTF-8 is written as bytes. */
void cli_pairs_add_text(cli_pairs *pairs, const char *key, tp_text text);
void cli_pairs_add_string(cli_pairs *pairs, const char *key, const char *string);
void cli_pairs_add_int(cli_pairs *pairs, const char *key, int64_t number);
void cli_pairs_add_double(cli_pairs *pairs, const char *key, double number);
void cli_pairs_add_bool(cli_pairs *pairs, const char *key, bool value);
/** A value of the library's; nothing is null. */
void cli_pairs_add_value(cli_pairs *pairs, const char *key, tp_text value);
/** What part writes: exactly one value. */
void cli_pairs_add_part(cli_pairs *pairs, const char *key, void (*part)(tp_writer *writer, const void *source),
                        const void *source);
void cli_pairs_write(const cli_pairs *pairs);

#endif
