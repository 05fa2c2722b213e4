/* SPDX-License-Identifier: Apache-2.0
 *
 * json_read.c: reads one JSON text (RFC 8259) into a value. A first pass bounds nesting and size, and counts the
 * members of each container, because msgpack writes counts first. The second pass parses and writes. It recurses, but
 * no deeper than the first pass allows. The counts are right for every text that the second pass accepts. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/value/value.h"

enum {
  VALUES_MAX = 1 << 20, /* commas and opening brackets */
  COUNTS_FIRST = 64,    /* containers whose counts need no allocation */
  /* Digits of a number: 767 decide its double, and for the others it only matters whether all are zero. */
  DIGITS_MAX = 800,
  EXPONENT_MAX = 100000000 /* with a greater exponent every number is 0 or out of range, whatever its digits */
};

struct reader {
  tp_text json;
  size_t at;
  tp_writer *writer;
  tp__keys keys;    /* keys of the maps that contain the current place, as offsets into the writer's bytes */
  uint32_t *counts; /* commas in each container, in the order in which they open */
  void *array;      /* counts on the heap, or NULL */
  size_t count, capacity, next;
  size_t stop_at; /* offset in the writer of the key whose place is searched; SIZE_MAX: none is searched */
  tp_fault *fault;
  uint32_t first[COUNTS_FIRST];
};

/* ---- refusals ---- */

static bool is_utf8_tail(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

/* Sets line and column of the character that the byte at offset belongs to. A column is a code point. */
static void set_place(tp_fault *fault, tp_text text, size_t offset) {
  while (offset > 0 && offset < text.size && is_utf8_tail(text.data[offset])) offset--;
  fault->line = fault->column = 1;
  for (size_t i = 0; i < offset; i++) {
    if (text.data[i] == '\n') {
      fault->line++;
      fault->column = 1;
    } else if (!is_utf8_tail(text.data[i])) {
      fault->column++;
    }
  }
}

static tp_status refuse_json(const struct reader *r, size_t at, tp_status code, const char *what) {
  tp__fail(r->fault, code, NULL, code == TP_ERR_MALFORMED ? "not valid JSON: %s" : "%s", what);
  if (r->fault) set_place(r->fault, r->json, at);
  return code;
}

/* "a value must stand here, not 'x'". */
static tp_status refuse_here(const struct reader *r, const char *wanted) {
  char what[128];
  unsigned char byte = r->at < r->json.size ? (unsigned char)r->json.data[r->at] : 0;
  if (r->at >= r->json.size) snprintf(what, sizeof what, "%s, but the text ends", wanted);
  else if (byte == '\'') snprintf(what, sizeof what, "%s, and text is in double quotes, not in single ones", wanted);
  else if (byte == '/') snprintf(what, sizeof what, "%s, and JSON has no comments", wanted);
  else if (byte > 0x20 && byte < 0x7f) snprintf(what, sizeof what, "%s, not '%c'", wanted, byte);
  else snprintf(what, sizeof what, "%s, not the byte 0x%02x", wanted, byte);
  return refuse_json(r, r->at, TP_ERR_MALFORMED, what);
}

static tp_status refuse_json_memory(const struct reader *r) {
  return tp__fail(r->fault, TP_ERR_NO_MEMORY, NULL, "no memory to decode JSON");
}

/* ---- the first pass ---- */

/* The offset of the quote that ends the string, or of the end of the text. */
static size_t string_end(tp_text json, size_t at) {
  for (at++; at < json.size && json.data[at] != '"'; at++) {
    if (json.data[at] == '\\') at++;
  }
  return at;
}

static tp_status add_count(struct reader *r) {
  if (r->count == r->capacity) {
    bool is_first = r->array == NULL;
    size_t capacity = is_first ? 0 : r->capacity;
    const tp_allocator *allocator = tp__writer_allocator(r->writer);
    if (tp__array_grow(allocator, &r->array, &capacity, r->count + 1, sizeof *r->counts) != TP_OK)
      return refuse_json_memory(r);
    if (is_first) memcpy(r->array, r->first, sizeof r->first);
    r->counts = r->array;
    r->capacity = capacity;
  }
  r->counts[r->count++] = 0;
  return TP_OK;
}

static tp_status count_members(struct reader *r) {
  size_t open[TP__VALUE_DEPTH_MAX], depth = 0, values = 0;
  for (size_t at = 0; at < r->json.size; at++) {
    char byte = r->json.data[at];
    if (byte == '"') {
      at = string_end(r->json, at);
    } else if (byte == '[' || byte == '{') {
      if (depth == TP__VALUE_DEPTH_MAX)
        return refuse_json(r, at, TP_ERR_TOO_DEEP, "JSON is nested deeper than 32 levels");
      open[depth++] = r->count;
      TP__TRY(add_count(r));
      values++;
    } else if (byte == ']' || byte == '}') {
      depth -= depth > 0;
    } else if (byte == ',') {
      if (depth > 0) r->counts[open[depth - 1]]++;
      values++;
    }
    if (values >= VALUES_MAX)
      return refuse_json(r, at, TP_ERR_TOO_LARGE, "JSON has more than 1048576 values: split it");
  }
  return TP_OK;
}

/* ---- strings ---- */

int tp__hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* The number that the four hexadecimal digits at the offset form; -1 when they are not digits. */
static int32_t hex4_at(tp_text json, size_t at) {
  int32_t number = 0;
  if (json.size < 4 || at > json.size - 4) return -1;
  for (size_t i = 0; i < 4; i++) {
    int digit = tp__hex_digit(json.data[at + i]);
    if (digit < 0) return -1;
    number = number * 16 + digit;
  }
  return number;
}

static bool is_surrogate(int32_t unit, int32_t first) { return unit >= first && unit <= first + 0x3ff; }

/* Reads the escape whose backslash is at *at, and moves *at to its end. */
static tp_status read_escape(const struct reader *r, size_t *at, uint32_t *ret_point) {
  static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  size_t begin = *at;
  char letter = begin + 1 < r->json.size ? r->json.data[begin + 1] : '\0';
  const char *found = letter ? strchr(letters, letter) : NULL;
  *at = begin + 2;
  if (found) {
    *ret_point = (unsigned char)meanings[found - letters];
    return TP_OK;
  }
  if (letter != 'u') return refuse_json(r, begin, TP_ERR_MALFORMED, "no escape of JSON: write the backslash twice");
  int32_t unit = hex4_at(r->json, begin + 2);
  if (unit < 0) return refuse_json(r, begin, TP_ERR_MALFORMED, "an escape \\u needs four hexadecimal digits");
  *at = begin + 6;
  *ret_point = (uint32_t)unit;
  if (!is_surrogate(unit, 0xd800) && !is_surrogate(unit, 0xdc00)) return TP_OK;
  bool is_pair = is_surrogate(unit, 0xd800) && begin + 8 <= r->json.size && memcmp(r->json.data + *at, "\\u", 2) == 0;
  int32_t low = is_pair ? hex4_at(r->json, begin + 8) : -1;
  if (!is_surrogate(low, 0xdc00)) {
    return refuse_json(r, begin, TP_ERR_MALFORMED, "half of a surrogate pair stands for no character");
  }
  *ret_point = 0x10000 + (uint32_t)(((unit - 0xd800) << 10) + (low - 0xdc00));
  *at = begin + 12;
  return TP_OK;
}

static size_t utf8_size(uint32_t point) { return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4; }

static char *put_utf8(char *to, uint32_t point) {
  static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
  assert(point <= 0x10ffff);
  size_t size = utf8_size(point);
  for (size_t i = size; i-- > 1; point >>= 6) to[i] = (char)(0x80 | (point & 0x3f));
  to[0] = (char)(size == 1 ? point : leads[size] | point);
  return to + size;
}

/* How many bytes from the offset on need no decoding: neither quote nor backslash nor control. */
static size_t plain_size(tp_text json, size_t at) {
  size_t end = at;
  while (end < json.size && json.data[end] != '"' && json.data[end] != '\\' && (unsigned char)json.data[end] >= 0x20)
    end++;
  return end - at;
}

/* Measures the string whose quote is at *at, and moves *at past the closing quote. */
static tp_status measure_string(const struct reader *r, size_t *at, size_t *ret_size) {
  size_t begin = (*at)++, size = 0;
  for (;;) {
    size_t plain = plain_size(r->json, *at);
    size += plain;
    *at += plain;
    if (*at == r->json.size) return refuse_json(r, *at, TP_ERR_MALFORMED, "the text ends within a string");
    if (r->json.data[*at] == '"') break;
    if (r->json.data[*at] != '\\') {
      return refuse_json(r, *at, TP_ERR_MALFORMED,
                         "a control character in a string must be an escape, as \\n and \\t are");
    }
    uint32_t point;
    TP__TRY(read_escape(r, at, &point));
    size += utf8_size(point);
  }
  assert(*at > begin);
  ++*at;
  *ret_size = size;
  return TP_OK;
}

/* Writes the measured string from `at` on; it has escapes. */
static void write_escaped(struct reader *r, size_t at, size_t size) {
  char *to = tp__writer_text(r->writer, size);
  if (!to) return;
  for (char *end = to + size; to < end;) {
    size_t plain = plain_size(r->json, at);
    memcpy(to, r->json.data + at, plain);
    to += plain;
    at += plain;
    if (to == end) break;
    uint32_t point = 0;
    tp_status status = read_escape(r, &at, &point);
    assert(status == TP_OK);
    (void)status;
    to = put_utf8(to, point);
  }
}

static tp_status read_string(struct reader *r) {
  size_t begin = r->at + 1, size = 0;
  TP__TRY(measure_string(r, &r->at, &size));
  if (r->at - 1 - begin == size) tp_write_text(r->writer, (tp_text){r->json.data + begin, size});
  else write_escaped(r, begin, size);
  return TP_OK;
}

/* ---- numbers ---- */

static bool is_digit(const struct reader *r, size_t at) {
  return at < r->json.size && r->json.data[at] >= '0' && r->json.data[at] <= '9';
}

static tp_status skip_digits(struct reader *r) {
  if (!is_digit(r, r->at)) return refuse_here(r, "a digit must follow");
  while (is_digit(r, r->at)) r->at++;
  return TP_OK;
}

static bool is_at(const struct reader *r, char byte) { return r->at < r->json.size && r->json.data[r->at] == byte; }

/* Moves after the number. */
static tp_status scan_number(struct reader *r, bool *ret_is_int) {
  *ret_is_int = true;
  r->at += is_at(r, '-');
  if (is_at(r, '0') && is_digit(r, r->at + 1)) {
    return refuse_json(r, r->at, TP_ERR_MALFORMED, "a number must not begin with 0 when more digits follow");
  }
  TP__TRY(skip_digits(r));
  if (is_at(r, '.')) {
    *ret_is_int = false;
    r->at++;
    TP__TRY(skip_digits(r));
  }
  if (is_at(r, 'e') || is_at(r, 'E')) {
    *ret_is_int = false;
    r->at++;
    r->at += is_at(r, '+') || is_at(r, '-');
    TP__TRY(skip_digits(r));
  }
  return TP_OK;
}

/* False when it is outside int64. */
static bool int_of(tp_text number, int64_t *ret_number) {
  bool is_negative = number.data[0] == '-';
  uint64_t limit = (uint64_t)INT64_MAX + is_negative, sum = 0;
  for (size_t i = is_negative; i < number.size; i++) {
    uint64_t digit = (uint64_t)(number.data[i] - '0');
    if (sum > (limit - digit) / 10) return false;
    sum = 10 * sum + digit;
  }
  *ret_number = is_negative ? (int64_t)(0 - sum) : (int64_t)sum;
  return true;
}

/* A number as an integer of up to 801 digits and a power of ten. No locale changes this form. */
struct decimal {
  char digits[DIGITS_MAX + 2];
  size_t size;
  int64_t exponent;
};

static int64_t exponent_of(tp_text number, size_t at) {
  bool is_negative = number.data[at] == '-';
  int64_t sum = 0;
  for (at += is_negative || number.data[at] == '+'; at < number.size; at++) {
    if (sum < EXPONENT_MAX) sum = 10 * sum + (number.data[at] - '0');
  }
  return is_negative ? -sum : sum;
}

static void decimal_of(tp_text number, struct decimal *ret_decimal) {
  bool behind_point = false, is_inexact = false;
  size_t size = 0, at = number.data[0] == '-';
  int64_t exponent = 0;
  for (; at < number.size && (number.data[at] | 0x20) != 'e'; at++) {
    char digit = number.data[at];
    if (digit == '.') {
      behind_point = true;
    } else if (size == 0 && digit == '0') {
      exponent -= behind_point;
    } else if (size < DIGITS_MAX) {
      ret_decimal->digits[size++] = digit;
      exponent -= behind_point;
    } else {
      is_inexact = is_inexact || digit != '0';
      exponent += !behind_point;
    }
  }
  if (is_inexact) { /* after the digits that decide, one more digit says that the number is above the kept digits */
    ret_decimal->digits[size++] = '1';
    exponent--;
  }
  if (at < number.size) exponent += exponent_of(number, at + 1);
  assert(size < sizeof ret_decimal->digits);
  ret_decimal->digits[size] = '\0';
  ret_decimal->size = size;
  ret_decimal->exponent = exponent;
}

/* Converts when the digits and the power of ten are both exact doubles. Then the one operation rounds once, and its
 * result is correct. */
static bool double_by_one_operation(const struct decimal *decimal, double *ret_real) {
  static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (decimal->size > 15 || decimal->exponent < -22 || decimal->exponent > 22) return false;
  int64_t digits = 0;
  for (size_t i = 0; i < decimal->size; i++) digits = 10 * digits + (decimal->digits[i] - '0');
  *ret_real =
      decimal->exponent < 0 ? (double)digits / powers[-decimal->exponent] : (double)digits * powers[decimal->exponent];
  return true;
}

static double double_of(tp_text number) {
  struct decimal decimal;
  char text[DIGITS_MAX + 32];
  double real = 0;
  decimal_of(number, &decimal);
  if (decimal.size > 0 && !double_by_one_operation(&decimal, &real)) {
    int saved = errno;
    snprintf(text, sizeof text, "%se%lld", decimal.digits, (long long)decimal.exponent);
    real = strtod(text, NULL);
    errno = saved;
  }
  return number.data[0] == '-' ? -real : real;
}

static tp_status read_json_number(struct reader *r) {
  size_t begin = r->at;
  bool is_int;
  TP__TRY(scan_number(r, &is_int));
  tp_text number = {r->json.data + begin, r->at - begin};
  int64_t integer = 0;
  if (is_int) {
    if (!int_of(number, &integer)) {
      return refuse_json(r, begin, TP_ERR_MALFORMED,
                         "an integer outside int64 (-9223372036854775808 to 9223372036854775807)");
    }
    tp_write_int(r->writer, integer);
    return TP_OK;
  }
  double real = double_of(number);
  if (!isfinite(real)) return refuse_json(r, begin, TP_ERR_MALFORMED, "a number that no double holds");
  tp_write_double(r->writer, real);
  return TP_OK;
}

/* ---- the second pass ---- */

static void skip_json_blanks(struct reader *r) {
  while (r->at < r->json.size && (r->json.data[r->at] == ' ' || r->json.data[r->at] == '\n' ||
                                  r->json.data[r->at] == '\r' || r->json.data[r->at] == '\t'))
    r->at++;
}

/* Takes a byte with the blanks around it. */
static tp_status expect(struct reader *r, char byte, const char *wanted) {
  skip_json_blanks(r);
  if (!is_at(r, byte)) return refuse_here(r, wanted);
  r->at++;
  skip_json_blanks(r);
  return TP_OK;
}

/* Takes the opening bracket. */
static size_t open_container(struct reader *r, char close) {
  assert(r->next < r->count); /* the first pass saw each bracket that this pass meets */
  size_t commas = r->counts[r->next++];
  r->at++;
  skip_json_blanks(r);
  return is_at(r, close) ? 0 : commas + 1;
}

static tp_status read_value(struct reader *r);

static tp_status read_array(struct reader *r) {
  static const char wanted[] = "',' or ']' must stand here";
  size_t count = open_container(r, ']');
  tp_write_array(r->writer, count);
  for (size_t i = 0; i < count; i++) {
    if (i > 0) TP__TRY(expect(r, ',', wanted));
    TP__TRY(read_value(r));
  }
  return expect(r, ']', wanted);
}

/* While the place of a repeated key is searched, the search ends where the writer would write that key. */
static tp_status read_member_key(struct reader *r) {
  size_t begin = r->at, offset = r->writer->size;
  if (!is_at(r, '"')) return refuse_here(r, "a key in double quotes must stand here");
  if (offset == r->stop_at) return refuse_json(r, begin, TP_ERR_MALFORMED, "the key is in this object already");
  if (tp__keys_push(&r->keys, offset) != TP_OK) return refuse_json_memory(r);
  return read_string(r);
}

static tp_status read_pair(struct reader *r) {
  TP__TRY(read_member_key(r));
  TP__TRY(expect(r, ':', "':' must follow the key"));
  return read_value(r);
}

/* The keys of the map that ends are those above the index `from`. */
static bool has_repeated_key(struct reader *r, size_t from) {
  if (tp__writer_status(r->writer) != TP_OK) return false; /* not all of them were written */
  assert(from <= r->keys.count);
  r->keys.bytes = (tp_text){r->writer->bytes, r->writer->size};
  if (tp__keys_ascend(&r->keys, from)) return false;
  tp__keys_sort(&r->keys, from);
  return tp__keys_repeated(&r->keys, from, &r->stop_at);
}

static tp_status read_object(struct reader *r) {
  static const char wanted[] = "',' or '}' must stand here";
  size_t count = open_container(r, '}'), from = r->keys.count;
  tp_write_map(r->writer, count);
  for (size_t i = 0; i < count; i++) {
    if (i > 0) TP__TRY(expect(r, ',', wanted));
    TP__TRY(read_pair(r));
  }
  TP__TRY(expect(r, '}', wanted));
  if (has_repeated_key(r, from)) return TP_ERR_DUPLICATE_ID; /* decode() finds its place */
  r->keys.count = from;
  return TP_OK;
}

static bool take_word(struct reader *r, const char *word) {
  size_t size = strlen(word);
  if (r->json.size - r->at < size || memcmp(r->json.data + r->at, word, size) != 0) return false;
  r->at += size;
  return true;
}

static tp_status read_word(struct reader *r) {
  if (take_word(r, "null")) tp_write_null(r->writer);
  else if (take_word(r, "true")) tp_write_bool(r->writer, true);
  else if (take_word(r, "false")) tp_write_bool(r->writer, false);
  else return refuse_here(r, "a value must stand here");
  return TP_OK;
}

static tp_status read_value(struct reader *r) {
  char first = r->at < r->json.size ? r->json.data[r->at] : '\0';
  if (first == '"') return read_string(r);
  if (first == '{') return read_object(r);
  if (first == '[') return read_array(r);
  return first == '-' || is_digit(r, r->at) ? read_json_number(r) : read_word(r);
}

static tp_status read_document(struct reader *r) {
  r->at = r->next = 0;
  skip_json_blanks(r);
  TP__TRY(read_value(r));
  skip_json_blanks(r);
  return r->at == r->json.size ? TP_OK : refuse_here(r, "only blanks may follow the value");
}

static tp_status read_bounded(struct reader *r) {
  TP__TRY(count_members(r));
  tp_writer *writer = r->writer;
  size_t size = writer->size, missing = writer->missing;
  tp_status status = read_document(r);
  if (status == TP_OK) return tp__writer_status(writer);
  if (tp__writer_status(writer) == TP_OK) tp__writer_return(writer, size, missing);
  if (status != TP_ERR_DUPLICATE_ID) return status;
  r->keys.count = 0; /* once more, up to the key */
  status = read_document(r);
  assert(status == TP_ERR_MALFORMED);
  tp__writer_return(writer, size, missing);
  return status;
}

static tp_status check_bytes(const struct reader *r) {
  size_t bad;
  if (r->json.size > TP__VALUE_BYTES_MAX) {
    return tp__fail(r->fault, TP_ERR_TOO_LARGE, NULL, "JSON of %zu bytes is above the limit of %d: split it",
                    r->json.size, TP__VALUE_BYTES_MAX);
  }
  if (r->json.size >= 3 && memcmp(r->json.data, "\xEF\xBB\xBF", 3) == 0) {
    return refuse_json(r, 0, TP_ERR_MALFORMED,
                       "it begins with a byte-order mark (U+FEFF): save it as UTF-8 without one");
  }
  return tp_utf8_valid(r->json, &bad) ? TP_OK : refuse_json(r, bad, TP_ERR_UTF8, "JSON is not UTF-8");
}

tp_status tp_json_decode(tp_text json, tp_writer *writer, tp_fault *fault) {
  if (!writer) return tp__fail_null(fault, "writer");
  struct reader r;
  r.json = json;
  r.writer = writer;
  r.counts = r.first;
  r.array = NULL;
  r.count = 0;
  r.capacity = COUNTS_FIRST;
  r.stop_at = SIZE_MAX;
  r.fault = fault;
  TP__TRY(check_bytes(&r));
  tp__keys_init(&r.keys, (tp_text){NULL, 0}, tp__writer_allocator(writer));
  tp_status status = read_bounded(&r);
  tp__keys_fini(&r.keys);
  tp__release(tp__writer_allocator(writer), r.array, r.capacity * sizeof *r.counts);
  if (status != TP_OK && status == tp__writer_status(writer)) {
    return tp__fail(fault, status, NULL, "the value of the JSON cannot be written: %s", tp_status_text(status));
  }
  return status;
}
