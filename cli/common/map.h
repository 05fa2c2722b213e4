/* SPDX-License-Identifier: Apache-2.0
 *
 * items: a map whose size is not known before it is written. Its items are gathered first, for the size of a map stands
 * in front of it. Texts and sources are borrowed till the items are written. */
#ifndef CLI_MAP_H
#define CLI_MAP_H

#include "cli/common/output.h"

enum { CLI_MAP_ITEMS_MAX = 32 };

typedef struct cli_map_item {
  const char *key;
  enum { CLI_MAP_TEXT, CLI_MAP_INT, CLI_MAP_DOUBLE, CLI_MAP_BOOL, CLI_MAP_VALUE, CLI_MAP_LIST, CLI_MAP_PART } kind;
  tp_text text;
  int64_t number;
  double real;
  void (*part)(tp_writer *writer, const void *source);
  const void *source;
} cli_map_item;

/** Zero-filled but for the writer means empty. */
typedef struct cli_map {
  tp_writer *writer;
  size_t count;
  cli_map_item items[CLI_MAP_ITEMS_MAX];
} cli_map;

/** A text that is not UTF-8 is written as bytes. */
void cli_map_add_text(cli_map *map, const char *key, tp_text text);
void cli_map_add_string(cli_map *map, const char *key, const char *string);
void cli_map_add_int(cli_map *map, const char *key, int64_t number);
void cli_map_add_double(cli_map *map, const char *key, double number);
void cli_map_add_bool(cli_map *map, const char *key, bool value);
/** A value of the library's; nothing is null. */
void cli_map_add_value(cli_map *map, const char *key, tp_text value);
/** A list of strings. */
void cli_map_add_list(cli_map *map, const char *key, const char *const *strings, size_t count);
/** What part writes: exactly one value. */
void cli_map_add_part(cli_map *map, const char *key, void (*part)(tp_writer *writer, const void *source),
                      const void *source);
void cli_map_write(const cli_map *map);
/** Prints a map without a writer as one line of JSON.
 *  @return CLI_OK, or an exit status after saying what is wrong. */
int cli_map_print(cli_map *map, cli_output *output);

#endif
