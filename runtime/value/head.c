/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c: how msgpack spells its types (with tp__head_read() in value.h). Source: the msgpack specification. */
#include "runtime/value/value.h"

/* The kind that each of the bytes 0xc0 to 0xdf begins, and how many bytes of number follow. NONE: a value that
 * turnphase does not have. */
static const struct {
  uint8_t kind, width;
} formats[32] = {
    {TP_VALUE_NULL, 0},  {TP_VALUE_NONE, 0},  {TP_VALUE_BOOL, 0},   {TP_VALUE_BOOL, 0},   /* c0 c1 c2 c3 */
    {TP_VALUE_BYTES, 1}, {TP_VALUE_BYTES, 2}, {TP_VALUE_BYTES, 4},  {TP_VALUE_NONE, 0},   /* c4 c5 c6 c7 */
    {TP_VALUE_NONE, 0},  {TP_VALUE_NONE, 0},  {TP_VALUE_DOUBLE, 4}, {TP_VALUE_DOUBLE, 8}, /* c8 c9 ca cb */
    {TP_VALUE_INT, 1},   {TP_VALUE_INT, 2},   {TP_VALUE_INT, 4},    {TP_VALUE_INT, 8},    /* cc cd ce cf */
    {TP_VALUE_INT, 1},   {TP_VALUE_INT, 2},   {TP_VALUE_INT, 4},    {TP_VALUE_INT, 8},    /* d0 d1 d2 d3 */
    {TP_VALUE_NONE, 0},  {TP_VALUE_NONE, 0},  {TP_VALUE_NONE, 0},   {TP_VALUE_NONE, 0},   /* d4 d5 d6 d7 */
    {TP_VALUE_NONE, 0},  {TP_VALUE_TEXT, 1},  {TP_VALUE_TEXT, 2},   {TP_VALUE_TEXT, 4},   /* d8 d9 da db */
    {TP_VALUE_ARRAY, 2}, {TP_VALUE_ARRAY, 4}, {TP_VALUE_MAP, 2},    {TP_VALUE_MAP, 4},    /* dc dd de df */
};

static uint64_t big_endian(const unsigned char *bytes, size_t width) {
  uint64_t number = 0;
  for (size_t i = 0; i < width; i++) number = number << 8 | bytes[i];
  return number;
}

/* The two's complement number of `width` bytes. */
static int64_t sign_extended(uint64_t number, size_t width) {
  uint64_t sign = UINT64_C(1) << (8 * width - 1);
  return (int64_t)((number ^ sign) - sign);
}

static double float_of(uint64_t bits, size_t width) {
  if (width == 8) {
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
  }
  uint32_t bits32 = (uint32_t)bits;
  float real;
  memcpy(&real, &bits32, sizeof real);
  return real;
}

/* Gives the number that follows the first byte its meaning. `left` is the number of bytes that follow the head. */
static tp__head_flaw give_meaning(tp__head *head, unsigned char first, size_t width, uint64_t number, size_t left) {
  switch (head->kind) {
    case TP_VALUE_BOOL:
      head->integer = first & 1; /* 0xc3 is true */
      return TP__HEAD_OK;
    case TP_VALUE_INT:
      if (first == 0xcf && number > INT64_MAX) return TP__HEAD_RANGE;
      head->integer = first >= 0xd0 && first <= 0xd3 ? sign_extended(number, width) : (int64_t)number;
      return TP__HEAD_OK;
    case TP_VALUE_DOUBLE:
      head->real = float_of(number, width);
      return TP__HEAD_OK;
    case TP_VALUE_TEXT:
    case TP_VALUE_BYTES:
      if (number > left) return TP__HEAD_CUT;
      head->content = (size_t)number;
      return TP__HEAD_OK;
    case TP_VALUE_ARRAY:
    case TP_VALUE_MAP:
      if (head->kind == TP_VALUE_MAP) number *= 2;
      if (number > left) return TP__HEAD_CUT;
      head->children = (size_t)number;
      return TP__HEAD_OK;
    case TP_VALUE_NULL:
      return TP__HEAD_OK;
    case TP_VALUE_NONE:
    case TP_VALUE_FORCE_32:
      break;
  }
  return first == 0xc1 ? TP__HEAD_RESERVED : TP__HEAD_EXTENSION;
}

/* The table gives the kind of the first byte; the bytes that follow it hold its number. */
tp__head_flaw tp__head_read_long(const unsigned char *at, size_t left, tp__head *ret_head) {
  assert(at[0] >= 0xc0 && at[0] <= 0xdf);
  size_t width = formats[at[0] - 0xc0].width;
  tp__head head = {.kind = (tp_value_kind)formats[at[0] - 0xc0].kind, .size = 1 + width};
  if (width > left) return TP__HEAD_CUT;
  tp__head_flaw flaw = give_meaning(&head, at[0], width, big_endian(at + 1, width), left - width);
  if (flaw == TP__HEAD_OK) *ret_head = head;
  return flaw;
}

size_t tp__value_size(tp_text bytes, size_t offset) {
  size_t at = offset, missing = 1; /* values that must still come */
  while (missing > 0) {
    tp__head head;
    if (tp__head_read(bytes, at, &head) != TP__HEAD_OK) return 0;
    at += head.size + head.content;
    missing += head.children - 1;
    if (missing > bytes.size - at) return 0; /* each missing value has at least one byte, so this also bounds the sum */
  }
  return at - offset;
}
