/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/map.h"

#include <assert.h>
#include <stdlib.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"

static void add_map_item(cli_map *map, cli_map_item item) {
  map->items = cli_reserve(map->items, map->count, &map->capacity, sizeof *map->items);
  if (map->depth > 0) map->items[map->open[map->depth - 1]].number++;
  else map->size++;
  map->items[map->count++] = item;
}

static tp_text copy_map_text(cli_map *map, tp_text text) {
  return (tp_text){cli_pool_copy(&map->pool, text), text.size};
}

void cli_map_add_text(cli_map *map, const char *key, tp_text text) {
  add_map_item(map, (cli_map_item){.key = key, .kind = CLI_MAP_TEXT, .text = copy_map_text(map, text)});
}

void cli_map_add_string(cli_map *map, const char *key, const char *string) {
  cli_map_add_text(map, key, tp_text_of(string));
}

void cli_map_add_int(cli_map *map, const char *key, int64_t number) {
  add_map_item(map, (cli_map_item){.key = key, .kind = CLI_MAP_INT, .number = number});
}

void cli_map_add_double(cli_map *map, const char *key, double number) {
  add_map_item(map, (cli_map_item){.key = key, .kind = CLI_MAP_DOUBLE, .real = number});
}

void cli_map_add_bool(cli_map *map, const char *key, bool value) {
  add_map_item(map, (cli_map_item){.key = key, .kind = CLI_MAP_BOOL, .number = value});
}

void cli_map_add_value(cli_map *map, const char *key, tp_text value) {
  add_map_item(map, (cli_map_item){.key = key, .kind = CLI_MAP_VALUE, .text = copy_map_text(map, value)});
}

static void open_item(cli_map *map, cli_map_item item) {
  assert(map->depth < CLI_MAP_DEPTH_MAX);
  add_map_item(map, item);
  assert(map->depth < sizeof map->open / sizeof *map->open);
  map->open[map->depth++] = map->count - 1;
}

void cli_map_open(cli_map *map, const char *key) { open_item(map, (cli_map_item){.key = key, .kind = CLI_MAP_MAP}); }

void cli_map_open_list(cli_map *map, const char *key) {
  open_item(map, (cli_map_item){.key = key, .kind = CLI_MAP_LIST});
}

void cli_map_close(cli_map *map) {
  assert(map->depth > 0);
  map->depth--;
}

void cli_map_add_list(cli_map *map, const char *key, const char *const *strings, size_t count) {
  cli_map_open_list(map, key);
  for (size_t i = 0; i < count; i++) cli_map_add_string(map, NULL, strings[i]);
  cli_map_close(map);
}

/* Arguments that a provider could not decode may contain any bytes. */
static void write_text(tp_writer *writer, tp_text text) {
  if (tp_utf8_valid(text, NULL)) tp_write_text(writer, text);
  else tp_write_bytes(writer, text);
}

static void write_item(const cli_map_item *item, tp_writer *writer) {
  if (item->key) tp_write_string(writer, item->key);
  switch (item->kind) {
    case CLI_MAP_TEXT:
      write_text(writer, item->text);
      break;
    case CLI_MAP_INT:
      tp_write_int(writer, item->number);
      break;
    case CLI_MAP_DOUBLE:
      tp_write_double(writer, item->real);
      break;
    case CLI_MAP_BOOL:
      tp_write_bool(writer, item->number != 0);
      break;
    case CLI_MAP_MAP:
      tp_write_map(writer, (size_t)item->number);
      break;
    case CLI_MAP_LIST:
      tp_write_array(writer, (size_t)item->number);
      break;
    case CLI_MAP_VALUE:
      if (item->text.size) tp_write_value(writer, item->text);
      else tp_write_null(writer);
      break;
  }
}

void cli_map_clear(cli_map *map) {
  free(map->items);
  cli_pool_free(&map->pool);
  *map = (cli_map){0};
}

void cli_map_write(cli_map *map, tp_writer *writer) {
  assert(map->depth == 0);
  tp_write_map(writer, map->size);
  for (size_t i = 0; i < map->count; i++) write_item(&map->items[i], writer);
  cli_map_clear(map);
}

int cli_map_print(cli_map *map, cli_output *output) {
  tp_writer *writer;
  tp_text value, json;
  tp_fault fault = {0};
  cli_need(tp_writer_new(NULL, &writer));
  cli_map_write(map, writer);
  tp_status status = tp_writer_finish(writer, &value);
  if (status == TP_OK) status = tp_json_encode(value, writer, &json, &fault);
  if (status == TP_OK) cli_print(output, json.data, json.size);
  if (status == TP_OK) cli_print(output, "\n", 1);
  tp_writer_free(writer);
  return status == TP_OK ? CLI_OK : cli_fault("JSON", status, &fault);
}
