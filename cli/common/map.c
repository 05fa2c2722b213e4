/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/map.h"

#include <assert.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "turnphase/declared.h"

static void add(cli_map *map, cli_map_item item) {
  assert(map->count < CLI_MAP_ITEMS_MAX);
  map->items[map->count++] = item;
}

void cli_map_add_text(cli_map *map, const char *key, tp_text text) {
  add(map, (cli_map_item){.key = key, .kind = CLI_MAP_TEXT, .text = text});
}

void cli_map_add_string(cli_map *map, const char *key, const char *string) {
  cli_map_add_text(map, key, tp_text_of(string));
}

void cli_map_add_int(cli_map *map, const char *key, int64_t number) {
  add(map, (cli_map_item){.key = key, .kind = CLI_MAP_INT, .number = number});
}

void cli_map_add_double(cli_map *map, const char *key, double number) {
  add(map, (cli_map_item){.key = key, .kind = CLI_MAP_DOUBLE, .real = number});
}

void cli_map_add_bool(cli_map *map, const char *key, bool value) {
  add(map, (cli_map_item){.key = key, .kind = CLI_MAP_BOOL, .number = value});
}

void cli_map_add_value(cli_map *map, const char *key, tp_text value) {
  add(map, (cli_map_item){.key = key, .kind = CLI_MAP_VALUE, .text = value});
}

void cli_map_add_list(cli_map *map, const char *key, const char *const *strings, size_t count) {
  add(map, (cli_map_item){.key = key, .kind = CLI_MAP_LIST, .source = strings, .number = (int64_t)count});
}

void cli_map_add_part(cli_map *map, const char *key, void (*part)(tp_writer *writer, const void *source),
                      const void *source) {
  add(map, (cli_map_item){.key = key, .kind = CLI_MAP_PART, .part = part, .source = source});
}

/* Arguments that a provider could not decode may be any bytes. */
static void write_text(tp_writer *writer, tp_text text) {
  if (tp_utf8_valid(text, NULL)) tp_write_text(writer, text);
  else tp_write_bytes(writer, text);
}

void cli_map_write(const cli_map *map) {
  tp_writer *writer = map->writer;
  tp_write_map(writer, map->count);
  for (size_t i = 0; i < map->count; i++) {
    const cli_map_item *item = &map->items[i];
    tp_write_string(writer, item->key);
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
      case CLI_MAP_PART:
        item->part(writer, item->source);
        break;
      case CLI_MAP_LIST:
        tp_write_array(writer, (size_t)item->number);
        for (int64_t j = 0; j < item->number; j++) tp_write_string(writer, ((const char *const *)item->source)[j]);
        break;
      case CLI_MAP_VALUE:
        if (item->text.size) tp_write_value(writer, item->text);
        else tp_write_null(writer);
        break;
    }
  }
}

int cli_map_print(cli_map *map, cli_output *output) {
  tp_text value;
  tp_fault fault = {0};
  cli_need(tp_writer_new(NULL, &map->writer));
  cli_map_write(map);
  tp_status status = tp_writer_finish(map->writer, &value);
  if (status == TP_OK) status = tp_json_encode(value, cli_print, output, &fault);
  if (status == TP_OK) cli_print(output, "\n", 1);
  tp_writer_free(map->writer);
  return status == TP_OK ? CLI_OK : cli_fault("JSON", status, &fault);
}
