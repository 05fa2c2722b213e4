/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/lenient.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/check.h"
#include "turnphase/value.h"

#define REPLACEMENT "\xEF\xBF\xBD"

/* Objects with more members are not searched for repeated keys. */
enum { DEPTH_MAX = 64, MEMBERS_MAX = 256 };

static bool is_json_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

tp_text tp__openai_trim(tp_text text) {
  while (text.size > 0 && is_json_blank(text.data[0])) text = (tp_text){text.data + 1, text.size - 1};
  while (text.size > 0 && is_json_blank(text.data[text.size - 1])) text.size--;
  return text;
}

/* ---- where a text ends ---- */

void tp__openai_scan_text(tp__openai_scan *scan, tp_text piece) {
  assert(piece.data || piece.size == 0);
  for (size_t i = 0; i < piece.size; i++) {
    char c = piece.data[i];
    if (scan->in_string) {
      if (scan->escaped) scan->escaped = false;
      else if (c == '\\') scan->escaped = true;
      else if (c == '"') scan->in_string = false;
      continue;
    }
    if (is_json_blank(c)) continue;
    if (scan->depth == 0 && (scan->begun || (c != '{' && c != '['))) scan->beyond = true;
    if (c == '"') scan->in_string = true;
    else if (c == '{' || c == '[') scan->begun = true, scan->depth++;
    else if ((c == '}' || c == ']') && scan->depth > 0) scan->depth--;
  }
}

bool tp__openai_scan_is_whole(const tp__openai_scan *scan) {
  return scan->begun && scan->depth == 0 && !scan->beyond && !scan->in_string;
}

bool tp__openai_is_beginning(tp_text part, tp_text whole) {
  if (part.size == 0) return true;
  return part.size <= whole.size && memcmp(part.data, whole.data, part.size) == 0;
}

bool tp__openai_is_whole(tp_text json) {
  tp__openai_scan scan = {0};
  tp__openai_scan_text(&scan, json);
  return tp__openai_scan_is_whole(&scan);
}

bool tp__openai_same_json(tp_text a, tp_text b) {
  bool in_string = false, escaped = false;
  size_t i = 0, j = 0;
  for (;;) {
    while (!in_string && i < a.size && is_json_blank(a.data[i])) i++;
    while (!in_string && j < b.size && is_json_blank(b.data[j])) j++;
    if (i == a.size || j == b.size) return i == a.size && j == b.size;
    if (a.data[i] != b.data[j]) return false;
    char c = a.data[i];
    if (!escaped && c == '"') in_string = !in_string;
    escaped = in_string && !escaped && c == '\\';
    i++;
    j++;
  }
}

/* ---- characters ---- */

/* The number of bytes of the character that begins with this byte; 0: no character does. Surrogates count: 0xED begins
 * three bytes. */
static size_t character_size(unsigned char first) {
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Whether the second byte may follow the first. */
static bool may_follow(unsigned char first, unsigned char second) {
  if ((second & 0xc0) != 0x80) return false;
  if (first == 0xe0) return second >= 0xa0;
  if (first == 0xf0) return second >= 0x90;
  if (first == 0xf4) return second <= 0x8f;
  return true;
}

static bool is_surrogate(const unsigned char *bytes, bool is_low) {
  return bytes[0] == 0xed && (is_low ? bytes[1] >= 0xb0 : bytes[1] >= 0xa0 && bytes[1] < 0xb0);
}

static uint32_t unit_of(const unsigned char *bytes) {
  return (uint32_t)(bytes[0] & 0xf) << 12 | (uint32_t)(bytes[1] & 0x3f) << 6 | (uint32_t)(bytes[2] & 0x3f);
}

static void put_code_point(tp__bytes *to, uint32_t c) {
  char bytes[4];
  size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = size; i > 1; i--, c >>= 6) bytes[i - 1] = (char)(0x80 | (c & 0x3f));
  bytes[0] = (char)(size == 1 ? c : (0xf00u >> size & 0xff) | c);
  tp__bytes_put(to, bytes, size);
}

static void drop_first(tp__openai_tail *tail, size_t count) {
  assert(count <= tail->size);
  tail->size = (uint8_t)(tail->size - count);
  memmove(tail->bytes, tail->bytes + count, tail->size);
}

/* Takes bytes off the front of the tail that are complete, or that cannot become a character. @param more  bytes may
 * follow. */
static void settle_tail(tp__bytes *to, tp__openai_tail *tail, bool more) {
  assert(tail->size <= sizeof tail->bytes);
  while (tail->size > 0) {
    const unsigned char *b = tail->bytes;
    size_t size = character_size(b[0]), good = 1;
    while (size > 0 && good < size && good < tail->size &&
           (good == 1 ? may_follow(b[0], b[1]) : (b[good] & 0xc0) == 0x80))
      good++;
    if (size > 0 && good < size && good == tail->size && more) return; /* the beginning of a character */
    if (size == 0 || good < size) {
      tp__bytes_put_string(to, REPLACEMENT);
      drop_first(tail, size == 0 ? 1 : good);
      continue;
    }
    if (is_surrogate(b, false)) {
      if (tail->size < 6 && more && (tail->size < 4 || b[3] == 0xed) && (tail->size < 5 || b[4] >= 0xb0)) return;
      bool is_pair = tail->size >= 6 && is_surrogate(b + 3, true) && (b[5] & 0xc0) == 0x80;
      if (is_pair) put_code_point(to, 0x10000 + ((unit_of(b) & 0x3ff) << 10) + (unit_of(b + 3) & 0x3ff));
      else tp__bytes_put_string(to, REPLACEMENT);
      drop_first(tail, is_pair ? 6 : 3);
      continue;
    }
    if (is_surrogate(b, true)) tp__bytes_put_string(to, REPLACEMENT);
    else tp__bytes_put(to, (const char *)b, size);
    drop_first(tail, size);
  }
}

/* The byte for which a mark of four bytes stands; 0: they are no mark. U+10FF80 is F4 8F BE 80. */
static unsigned char mark_of(const char *at, size_t left) {
  const unsigned char *b = (const unsigned char *)at;
  if (left < 4 || b[0] != 0xf4 || b[1] != 0x8f || (b[2] != 0xbe && b[2] != 0xbf)) return 0;
  return (unsigned char)((b[2] == 0xbe ? 0x80 : 0xc0) | (b[3] & 0x3f));
}

static void put_mark(tp__bytes *to, unsigned char byte) { put_code_point(to, 0x10ff00u + byte); }

void tp__openai_join(tp__bytes *to, tp__openai_tail *tail, tp_text piece, bool has_marks) {
  if (piece.size == 0) return;
  if (!has_marks) {
    tp__openai_join_end(to, tail);
    tp__bytes_put_text(to, piece);
    return;
  }
  for (size_t at = 0; at < piece.size;) {
    unsigned char byte = mark_of(piece.data + at, piece.size - at);
    if (byte) {
      assert(tail->size < sizeof tail->bytes);
      tail->bytes[tail->size++] = byte;
      settle_tail(to, tail, true);
      at += 4;
    } else {
      tp__openai_join_end(to, tail);
      tp__bytes_put(to, piece.data + at, 1);
      at++;
    }
  }
}

void tp__openai_join_end(tp__bytes *to, tp__openai_tail *tail) {
  if (tail->size > 0) settle_tail(to, tail, false);
}

/* ---- what JSON forbids ---- */

typedef struct member {
  size_t begin, key_end, end; /* offsets in the output; the key with its quotes begins at begin */
} member;

typedef struct repair {
  tp_text in;
  size_t at;
  tp__bytes *out;
  bool marks;
  bool streams; /* the string that is being read is one of the streaming ones */
  bool failed;  /* too deep, or cut: the rest is copied */
  uint32_t depth;
  member *members; /* of all open objects */
  size_t count, capacity;
} repair;

static int peek(const repair *r, size_t ahead) {
  return r->at + ahead < r->in.size ? (unsigned char)r->in.data[r->at + ahead] : -1;
}

static void skip_repair_blanks(repair *r) {
  while (r->at < r->in.size && is_json_blank(r->in.data[r->at])) r->at++;
}

static void put_repaired(repair *r, const char *string) { tp__bytes_put_string(r->out, string); }

/* Bytes that are no character. */
static void put_bad(repair *r, const unsigned char *bytes, size_t size) {
  if (!r->streams) {
    put_repaired(r, REPLACEMENT);
    return;
  }
  for (size_t i = 0; i < size; i++) put_mark(r->out, bytes[i]);
  r->marks = true;
}

static int hex_of(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The number of four hexadecimal digits at this distance; -1: they are not digits. */
static int32_t read_unit(const repair *r, size_t ahead) {
  int32_t unit = 0;
  for (size_t i = 0; i < 4; i++) {
    int digit = hex_of(peek(r, ahead + i));
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

static void put_char(repair *r, uint32_t c) {
  const unsigned char as_bytes[4] = {0xf4, 0x8f, (unsigned char)(0x80 | (c >> 6 & 0x3f)),
                                     (unsigned char)(0x80 | (c & 0x3f))};
  if (r->streams && c >= 0x10ff80) { /* a character of the text that must not be taken for a mark */
    put_bad(r, as_bytes, sizeof as_bytes);
    return;
  }
  if (c == '"' || c == '\\') tp__bytes_printf(r->out, "\\%c", (char)c);
  else if (c < 0x20 || c == 0x7f) tp__bytes_printf(r->out, "\\u00%02x", (unsigned)c);
  else put_code_point(r->out, c);
}

/* At a backslash. */
static void repair_escape(repair *r) {
  assert(peek(r, 0) == '\\');
  static const char simple[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
  int c = peek(r, 1);
  const char *found = c > 0 ? strchr(simple, c) : NULL;
  int32_t unit = c == 'u' ? read_unit(r, 2) : -1;
  if (found) {
    put_char(r, (unsigned char)means[found - simple]);
    r->at += 2;
  } else if (unit >= 0 && (unit & 0xf800) == 0xd800) {
    int32_t low = peek(r, 6) == '\\' && peek(r, 7) == 'u' ? read_unit(r, 8) : -1;
    bool is_pair = unit < 0xdc00 && low >= 0xdc00 && low < 0xe000;
    unsigned char half[3] = {0xed, (unsigned char)(0x80 | (unit >> 6 & 0x3f)), (unsigned char)(0x80 | (unit & 0x3f))};
    if (is_pair) put_char(r, 0x10000 + (((uint32_t)unit & 0x3ff) << 10) + ((uint32_t)low & 0x3ff));
    else put_bad(r, half, sizeof half);
    r->at += is_pair ? 12 : 6;
  } else if (unit >= 0) {
    put_char(r, (uint32_t)unit);
    r->at += 6;
  } else if (c == '\'') {
    put_repaired(r, "'");
    r->at += 2;
  } else {
    put_repaired(r, "\\\\"); /* it begins no escape */
    r->at++;
  }
}

/* The character or bad byte at the cursor. */
static void repair_character(repair *r) {
  assert(r->at < r->in.size);
  const unsigned char *b = (const unsigned char *)r->in.data + r->at;
  size_t size = b[0] < 0x80 ? 1 : character_size(b[0]), left = r->in.size - r->at;
  if (b[0] < 0x80) {
    put_char(r, b[0]);
  } else if (size == 0 || size > left || !tp_utf8_valid((tp_text){(const char *)b, size}, NULL)) {
    put_bad(r, b, 1);
    size = 1;
  } else if (mark_of((const char *)b, left) && r->streams) {
    put_bad(r, b, size); /* a character of the text that must not be taken for a mark */
  } else {
    tp__bytes_put(r->out, (const char *)b, size);
  }
  r->at += size;
}

static void repair_string(repair *r) {
  char quote = r->in.data[r->at++];
  put_repaired(r, "\"");
  while (r->at < r->in.size && r->in.data[r->at] != quote) {
    if (r->in.data[r->at] == '\\') repair_escape(r);
    else repair_character(r);
  }
  if (r->at == r->in.size) r->failed = true; /* the text was cut: no quote is added, so that it stays invalid */
  else put_repaired(r, "\"");
  r->at++;
}

static bool is_streaming_key(tp_text key) {
  return tp__is_one_of(key,
                       "\"content\", \"text\", \"arguments\", \"partial_json\", \"delta\", \"refusal\", "
                       "\"thinking\", \"reasoning\", \"reasoning_content\"");
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

/* [+-]digits[.digits][e[+-]digits]; each part may be missing. @return whether the token is a number. */
static bool repair_number(repair *r, tp_text token) {
  size_t i = 0, begin = r->out->size;
  if (token.data[0] == '-') put_repaired(r, "-");
  if (token.data[0] == '-' || token.data[0] == '+') i++;
  while (i + 1 < token.size && token.data[i] == '0' && is_digit(token.data[i + 1])) i++;
  size_t digits = 0, whole = i;
  while (i < token.size && is_digit(token.data[i])) i++;
  digits = i - whole;
  if (digits == 0) put_repaired(r, "0");
  tp__bytes_put(r->out, token.data + whole, digits);
  if (i < token.size && token.data[i] == '.') {
    size_t point = i++;
    while (i < token.size && is_digit(token.data[i])) i++;
    digits += i - point - 1;
    tp__bytes_put(r->out, token.data + point, i - point);
    if (i == point + 1) put_repaired(r, "0");
  }
  bool good = digits > 0;
  if (good && i + 1 < token.size && (token.data[i] | 0x20) == 'e') {
    size_t exponent = i++;
    if (token.data[i] == '+' || token.data[i] == '-') i++;
    good = i < token.size;
    while (i < token.size && is_digit(token.data[i])) i++;
    tp__bytes_put(r->out, token.data + exponent, i - exponent);
  }
  if (good && i == token.size) return true;
  r->out->size = begin;
  return false;
}

/* Whether the number at the end of the output is valid JSON; it may be out of range. */
static bool is_in_range(tp_text number) {
  tp_writer *writer = NULL;
  bool good = tp_writer_new(tp__heap, &writer) == TP_OK && tp_json_decode(number, writer, NULL) == TP_OK;
  tp_writer_free(writer);
  return good;
}

/* A number, or a word. */
static void repair_token(repair *r) {
  static const struct {
    const char *words, *json;
  } rows[] = {{"true, True, TRUE", "true"},
              {"false, False, FALSE", "false"},
              {"null, None, NULL, undefined, NaN, nan, NAN, -NaN, -nan, Infinity, -Infinity, +Infinity, inf, -inf, "
               "+inf, Inf, -Inf, -Nan",
               "null"}};
  size_t begin = r->at, before = r->out->size;
  while (r->at < r->in.size && !is_json_blank(r->in.data[r->at]) && !strchr(",:{}[]\"'", r->in.data[r->at])) r->at++;
  tp_text token = {r->in.data + begin, r->at - begin};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!tp__is_one_of(token, rows[i].words)) continue;
    put_repaired(r, rows[i].json);
    return;
  }
  if (token.size > 0 && repair_number(r, token)) {
    tp_text number = {r->out->data + before, r->out->size - before};
    bool is_small = number.size <= 15 && !tp__contains(number, "e");
    if (is_small || is_in_range(number)) return;
    r->out->size = before;
    put_repaired(r, "null");
    return;
  }
  tp__bytes_put_text(r->out, token);
  r->failed = true;
  if (token.size == 0 && r->at < r->in.size) tp__bytes_put(r->out, r->in.data + r->at++, 1);
}

static bool push_member(repair *r, size_t begin, size_t key_end) {
  void *grown = r->members;
  if (!tp__grow(tp__heap, &grown, &r->capacity, r->count + 1, sizeof *r->members)) return false;
  r->members = grown;
  r->members[r->count++] = (member){.begin = begin, .key_end = key_end};
  return true;
}

/* Of two members with the same key the newest stays; the bytes of the other one are removed. */
static void drop_repeated(repair *r, size_t first) {
  assert(first < r->count);
  if (r->count - first > MEMBERS_MAX || r->out->failed) return;
  const member last = r->members[r->count - 1];
  tp_text key = {r->out->data + last.begin, last.key_end - last.begin};
  for (size_t i = first; i + 1 < r->count; i++) {
    const member old = r->members[i];
    if (!tp__same((tp_text){r->out->data + old.begin, old.key_end - old.begin}, key)) continue;
    size_t cut = r->members[i + 1].begin - old.begin; /* with the comma after it */
    memmove(r->out->data + old.begin, r->out->data + old.begin + cut, r->out->size - old.begin - cut);
    r->out->size -= cut;
    memmove(r->members + i, r->members + i + 1, (r->count - i - 1) * sizeof *r->members);
    r->count--;
    for (size_t j = i; j < r->count; j++) {
      r->members[j].begin -= cut;
      r->members[j].key_end -= cut;
    }
    return;
  }
}

static void repair_value(repair *r);

static void repair_object(repair *r) {
  assert(peek(r, 0) == '{');
  size_t first = r->count;
  bool begun = false;
  put_repaired(r, "{");
  r->at++;
  while (!r->failed) {
    skip_repair_blanks(r);
    if (peek(r, 0) == '}' || peek(r, 0) < 0) break;
    if (peek(r, 0) == ',') { /* one too many, or the one that is written below */
      r->at++;
      continue;
    }
    if (begun) put_repaired(r, ",");
    begun = true;
    size_t begin = r->out->size;
    r->streams = false;
    if (peek(r, 0) == '"' || peek(r, 0) == '\'') repair_string(r);
    else r->failed = true;
    if (r->failed || !push_member(r, begin, r->out->size)) break;
    bool streams = is_streaming_key((tp_text){r->out->data + begin, r->out->size - begin});
    skip_repair_blanks(r);
    if (peek(r, 0) != ':') r->failed = true;
    if (r->failed) break;
    r->at++;
    put_repaired(r, ":");
    r->streams = streams;
    repair_value(r);
    if (!r->failed) drop_repeated(r, first);
  }
  if (peek(r, 0) == '}' && !r->failed) {
    put_repaired(r, "}");
    r->at++;
  } else {
    r->failed = true;
  }
  r->count = first;
}

static void repair_array(repair *r) {
  assert(peek(r, 0) == '[');
  bool begun = false, streams = r->streams;
  put_repaired(r, "[");
  r->at++;
  while (!r->failed) {
    skip_repair_blanks(r);
    if (peek(r, 0) == ']' || peek(r, 0) < 0) break;
    if (peek(r, 0) == ',') {
      r->at++;
      continue;
    }
    if (begun) put_repaired(r, ",");
    begun = true;
    r->streams = streams;
    repair_value(r);
  }
  if (peek(r, 0) == ']' && !r->failed) {
    put_repaired(r, "]");
    r->at++;
  } else {
    r->failed = true;
  }
}

static void repair_value(repair *r) {
  skip_repair_blanks(r);
  int c = peek(r, 0);
  if (c < 0 || r->depth == DEPTH_MAX) {
    r->failed = true;
    return;
  }
  r->depth++;
  if (c == '{') repair_object(r);
  else if (c == '[') repair_array(r);
  else if (c == '"' || c == '\'') repair_string(r);
  else repair_token(r);
  r->depth--;
}

void tp__openai_repair(tp_text text, tp__bytes *ret_json, bool *ret_marks) {
  repair r = {.in = text, .out = ret_json};
  if (tp__begins(text, "\xEF\xBB\xBF")) r.at = 3;
  repair_value(&r);
  skip_repair_blanks(&r);
  if (r.at < text.size) tp__bytes_put(ret_json, text.data + r.at, text.size - r.at); /* to be named as wrong */
  tp__heap_free(r.members, r.capacity * sizeof *r.members);
  *ret_marks = r.marks;
}
