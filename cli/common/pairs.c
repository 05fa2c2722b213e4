/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/pairs.h"

#include <assert.h>

static cli_pair *add(cli_pairs *pairs, const char *key) {
  assert(pairs->count < CLI_PAIRS_MAX);
  cli_pair *pair = &pairs->items[pairs->count++];
  *pair = (cli_pair){.key = key};
  return pair;
}

void cli_pairs_add_text(cli_pairs *pairs, const char *key, tp_text text) { add(pairs, key)->text = text; }

void cli_pairs_add_string(cli_pairs *pairs, const char *key, const char *string) {
  cli_pairs_add_text(pairs, key, tp_text_of(string));
}

void cli_pairs_add_int(cli_pairs *pairs, const char *key, int64_t number) {
  cli_pair *pair = add(pairs, key);
  pair->kind = CLI_PAIR_INT;
  pair->number = number;
}

void cli_pairs_add_double(cli_pairs *pairs, const char *key, double number) {
  cli_pair *pair = add(pairs, key);
  pair->kind = CLI_PAIR_DOUBLE;
  pair->real = number;
}

void cli_pairs_add_bool(cli_pairs *pairs, const char *key, bool value) {
  cli_pair *pair = add(pairs, key);
  pair->kind = CLI_PAIR_BOOL;
  pair->number = value;
}

void cli_pairs_add_value(cli_pairs *pairs, const char *key, tp_text value) {
  cli_pair *pair = add(pairs, key);
  pair->kind = CLI_PAIR_VALUE;
  pair->text = value;
}

void cli_pairs_add_part(cli_pairs *pairs, const char *key, void (*part)(tp_writer *writer, const void *source),
                        const void *source) {
  cli_pair *pair = add(pairs, key);
  pair->kind = CLI_PAIR_PART;
  pair->part = part;
  pair->source = source;
}

/* Arguments that a provider could not decode may be any bytes. */
static void write_text(tp_writer *writer, tp_text text) {
  if (tp_utf8_valid(text, NULL)) tp_write_text(writer, text);
  else tp_write_bytes(writer, text);
}

void cli_pairs_write(const cli_pairs *pairs) {
  tp_writer *writer = pairs->writer;
  tp_write_map(writer, pairs->count);
  for (size_t i = 0; i < pairs->count; i++) {
    const cli_pair *pair = &pairs->items[i];
    tp_write_string(writer, pair->key);
    switch (pair->kind) {
      case CLI_PAIR_TEXT:
        write_text(writer, pair->text);
        break;
      case CLI_PAIR_INT:
        tp_write_int(writer, pair->number);
        break;
      case CLI_PAIR_DOUBLE:
        tp_write_double(writer, pair->real);
        break;
      case CLI_PAIR_BOOL:
        tp_write_bool(writer, pair->number != 0);
        break;
      case CLI_PAIR_PART:
        pair->part(writer, pair->source);
        break;
      case CLI_PAIR_VALUE:
        if (pair->text.size) tp_write_value(writer, pair->text);
        else tp_write_null(writer);
        break;
    }
  }
}
