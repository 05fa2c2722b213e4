/* SPDX-License-Identifier: Apache-2.0
 *
 * map: builds a map whose size is not known beforehand. Its content is collected first, because the size of a map or
 * list precedes it. */
#ifndef CLI_MAP_H
#define CLI_MAP_H

#include "cli/common/output.h"

enum { CLI_MAP_DEPTH_MAX = 8 };

/** A pair of a map, or an element of a list. The items of a map or list follow it. */
typedef struct cli_map_item {
  const char *key; /* NULL: an element */
  enum { CLI_MAP_TEXT, CLI_MAP_INT, CLI_MAP_DOUBLE, CLI_MAP_BOOL, CLI_MAP_VALUE, CLI_MAP_MAP, CLI_MAP_LIST } kind;
  tp_text text;
  int64_t number; /* for a map or list: the number of its direct items */
  double real;
} cli_map_item;

/** Zero-filled means empty. */
typedef struct cli_map {
  cli_pool pool; /* of texts and values, which are copied; keys are borrowed */
  cli_map_item *items;
  size_t count, capacity;
  size_t size;                    /* number of its own pairs */
  size_t open[CLI_MAP_DEPTH_MAX]; /* the maps and lists that were begun and not ended */
  size_t depth;
} cli_map;

/* Each function adds a pair to the map, or an element to the list (key NULL), that was opened last. */

/** A text that is not UTF-8 is written as bytes. */
void cli_map_add_text(cli_map *map, const char *key, tp_text text);
void cli_map_add_string(cli_map *map, const char *key, const char *string);
void cli_map_add_int(cli_map *map, const char *key, int64_t number);
void cli_map_add_double(cli_map *map, const char *key, double number);
void cli_map_add_bool(cli_map *map, const char *key, bool value);
/** Adds a value of the library; an empty one is null. */
void cli_map_add_value(cli_map *map, const char *key, tp_text value);
/** A list of strings. */
void cli_map_add_list(cli_map *map, const char *key, const char *const *strings, size_t count);
/** A map or a list begins, and ends. */
void cli_map_open(cli_map *map, const char *key);
void cli_map_open_list(cli_map *map, const char *key);
void cli_map_close(cli_map *map);
/** Empties the map, which then holds no memory. */
void cli_map_clear(cli_map *map);
/** Writes the map, and clears it. */
void cli_map_write(cli_map *map, tp_writer *writer);
/** Prints the map as one line of JSON, and clears it.
 *  @return CLI_OK, or an exit status after a message about the error. */
int cli_map_print(cli_map *map, cli_output *output);

#endif
