/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/merge/out.h"

#include <stdio.h>

#include "runtime/value/value.h"

void tp__out_text(tp__out *out, tp_text text) {
  if (out->size < out->capacity && text.size) {
    size_t space = out->capacity - out->size;
    memcpy(out->data + out->size, text.data, text.size < space ? text.size : space);
  }
  out->size += text.size;
}

void tp__out_string(tp__out *out, const char *string) { tp__out_text(out, tp_text_of(string)); }

void tp__out_char(tp__out *out, char byte) { tp__out_text(out, (tp_text){&byte, 1}); }

void tp__out_int(tp__out *out, int64_t number) {
  char digits[24];
  int size = snprintf(digits, sizeof digits, "%lld", (long long)number);
  tp__out_text(out, (tp_text){digits, (size_t)size});
}

static void put_piece(void *out, const char *text, size_t size) { tp__out_text(out, (tp_text){text, size}); }

void tp__out_json(tp__out *out, tp_text value) {
  const tp__json_out json = {.put = put_piece, .ctx = out, .without_tags = true};
  tp__json_put_value(&json, value);
}

void tp__out_json_string(tp__out *out, tp_text text) {
  const tp__json_out json = {.put = put_piece, .ctx = out, .without_tags = true};
  tp__json_put_string(&json, text);
}

void tp__out_json_summary(tp__out *out, tp_text value, size_t text_bytes) {
  const tp__json_out json = {.put = put_piece, .ctx = out, .text_bytes = text_bytes};
  tp__json_put_value(&json, value);
}

tp_status tp__out_twice(tp__arena *arena, void (*write)(tp__out *out, const void *ctx), const void *ctx,
                        tp_text *ret_text) {
  tp__out count = {0};
  write(&count, ctx);
  char *data = tp__arena_alloc(arena, count.size + 1);
  if (!data) return TP_ERR_NO_MEMORY;
  tp__out out = {data, count.size, 0};
  write(&out, ctx);
  assert(out.size == count.size);
  data[out.size] = '\0';
  *ret_text = (tp_text){data, out.size};
  return TP_OK;
}
