/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c: JSON to and from values. jansson decodes; what it does not bound is bounded before it sees the text: nesting,
 * and the number of values, of which each takes up to some 300 bytes while it works. Encoding is written out here,
 * since it needs no tree: a value's slices are printed as they are walked. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "domains/declared/text.h"

enum { JSON_BYTES_MAX = 64 << 20, JSON_VALUES_MAX = 1 << 20, JSON_DEPTH_MAX = 32, MEMORY_LEFT = 64 << 10 };

/* ---- decoding ---- */

/* The offset of the quote that ends the string, or the end of the text: jansson will say what is wrong there. */
static size_t string_end(tp_text json, size_t at) {
  for (at++; at < json.size && json.data[at] != '"'; at++) {
    if (json.data[at] == '\\') at++;
  }
  return at;
}

static tp_status check_shape(tp_text json, tp_fault *fault) {
  size_t depth = 0, values = 1;
  for (size_t at = 0; at < json.size; at++) {
    char byte = json.data[at];
    if (byte == '"') at = string_end(json, at);
    if (byte == '\0') /* behind a number or a word jansson would take it for the end of the text */
      return tp__refuse(fault, TP_ERR_MALFORMED, NULL, tp__place_of(json, at), "not valid JSON: a NUL byte");
    if (byte == '[' || byte == '{') {
      if (++depth > JSON_DEPTH_MAX) {
        return tp__refuse(fault, TP_ERR_TOO_DEEP, NULL, tp__place_of(json, at), "JSON is nested deeper than %d levels",
                          JSON_DEPTH_MAX);
      }
    }
    if ((byte == ']' || byte == '}') && depth > 0) depth--;
    if ((byte == '[' || byte == '{' || byte == ',') && ++values > JSON_VALUES_MAX) {
      return tp__refuse(fault, TP_ERR_TOO_LARGE, NULL, tp__place_of(json, at), "JSON has more than %d values",
                        JSON_VALUES_MAX);
    }
  }
  return TP_OK;
}

static tp_status check_text(tp_text json, tp_fault *fault) {
  if (json.size > JSON_BYTES_MAX) {
    return tp__refuse(fault, TP_ERR_TOO_LARGE, NULL, (tp__place){0},
                      "JSON of %zu bytes is above the limit of %d: split it", json.size, JSON_BYTES_MAX);
  }
  if (json.size >= 3 && memcmp(json.data, "\xEF\xBB\xBF", 3) == 0) {
    return tp__refuse(fault, TP_ERR_MALFORMED, NULL, tp__place_of(json, 0),
                      "not valid JSON: it begins with a byte-order mark (U+FEFF): save it as UTF-8 without one");
  }
  size_t bad;
  if (tp_utf8_valid(json, &bad)) return check_shape(json, fault);
  return tp__refuse(fault, TP_ERR_UTF8, NULL, tp__place_of(json, bad), "JSON is not UTF-8");
}

/* jansson 2.14 (its issue 362) loses a character, or ends the process, when the buffer in which it gathers a token is
 * refused its growth. To allocate as much as that buffer can come to, and free it, turns a lack of memory into an
 * answer. */
static bool memory_is_left(tp_text json) {
  json_malloc_t take;
  json_free_t give_back;
  json_get_alloc_funcs(&take, &give_back);
  void *probe = take(3 * json.size + MEMORY_LEFT);
  if (probe) give_back(probe);
  return probe != NULL;
}

static tp_status refuse_memory(tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, (tp__place){0}, "no memory to decode JSON");
}

/* jansson 2.14 says nothing when it gets no memory, or, when a string was to be copied, that it expected a string where
 * one has just ended: nothing but a lack of memory makes a whole string a wrong token there. */
static bool is_lack_of_memory(tp_text json, const json_error_t *error, size_t behind) {
  if (error->text[0] == '\0' || json_error_code(error) == json_error_out_of_memory) return true;
  if (behind == 0 || json.data[behind - 1] != '"') return false;
  return strncmp(error->text, "invalid token", 13) == 0 || strncmp(error->text, "string or '}' expected", 22) == 0;
}

/* jansson's position is behind the token that it could not take; the token's last character is the better place. */
static tp_status refuse_jansson(tp_text json, const json_error_t *error, tp_fault *fault) {
  enum json_error_code code = json_error_code(error);
  size_t behind = error->position > 0 ? (size_t)error->position : 0;
  if (behind > json.size) behind = json.size;
  if (is_lack_of_memory(json, error, behind)) return refuse_memory(fault);
  size_t at = code == json_error_premature_end_of_input || behind == 0 ? behind : behind - 1;
  return tp__refuse(fault, TP_ERR_MALFORMED, NULL, tp__place_of(json, at), "not valid JSON: %s", error->text);
}

static void write_json(const json_t *json, tp_writer *writer);

static void write_object(const json_t *json, tp_writer *writer) {
  json_t *object = (json_t *)json; /* iterating changes nothing, but jansson's signatures do not say so */
  tp_write_map(writer, json_object_size(object));
  for (void *pair = json_object_iter(object); pair; pair = json_object_iter_next(object, pair)) {
    tp_write_text(writer, (tp_text){json_object_iter_key(pair), json_object_iter_key_len(pair)});
    write_json(json_object_iter_value(pair), writer);
  }
}

static void write_json(const json_t *json, tp_writer *writer) {
  switch (json_typeof(json)) {
    case JSON_NULL:
      tp_write_null(writer);
      break;
    case JSON_TRUE:
      tp_write_bool(writer, true);
      break;
    case JSON_FALSE:
      tp_write_bool(writer, false);
      break;
    case JSON_INTEGER:
      tp_write_int(writer, json_integer_value(json));
      break;
    case JSON_REAL:
      tp_write_double(writer, json_real_value(json));
      break;
    case JSON_STRING:
      tp_write_text(writer, (tp_text){json_string_value(json), json_string_length(json)});
      break;
    case JSON_ARRAY:
      tp_write_array(writer, json_array_size(json));
      for (size_t i = 0; i < json_array_size(json); i++) write_json(json_array_get(json, i), writer);
      break;
    case JSON_OBJECT:
      write_object(json, writer);
      break;
  }
}

tp_status tp_json_decode(tp_text json, tp_writer *writer, tp_fault *fault) {
  tp_status status = check_text(json, fault);
  if (status != TP_OK) return status;
  if (!memory_is_left(json)) return refuse_memory(fault);
  json_error_t error = {.text = ""};
  const char *data = json.size > 0 ? json.data : "";
  json_t *tree = json_loadb(data, json.size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
  if (!tree) return refuse_jansson(json, &error, fault);
  write_json(tree, writer);
  json_decref(tree);
  return TP_OK;
}

/* ---- encoding ---- */

/* Gathers small pieces, so that print is not called for every comma. */
struct output {
  tp_print_fn print;
  void *ctx;
  size_t size;
  char bytes[1024];
};

static void flush(struct output *output) {
  if (output->size > 0) output->print(output->ctx, output->bytes, output->size);
  output->size = 0;
}

static void put(struct output *output, const char *text, size_t size) {
  if (size > sizeof output->bytes - output->size) flush(output);
  if (size > sizeof output->bytes) {
    output->print(output->ctx, text, size);
    return;
  }
  if (size > 0) memcpy(output->bytes + output->size, text, size);
  output->size += size;
}

static void put_string(struct output *output, const char *string) { put(output, string, strlen(string)); }

/* The escape of a character that may not stand in a JSON string as it is; NULL when it may. */
static const char *escape_of(unsigned char byte, char buffer[8]) {
  static const char bytes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
  if (byte >= 0x20 && byte != '"' && byte != '\\') return NULL;
  const char *at = memchr(bytes, byte, sizeof bytes - 1);
  if (!at) {
    snprintf(buffer, 8, "\\u%04x", byte);
    return buffer;
  }
  buffer[0] = '\\';
  buffer[1] = letters[at - bytes];
  buffer[2] = '\0';
  return buffer;
}

static void put_text(struct output *output, tp_text text) {
  size_t unescaped_from = 0;
  put(output, "\"", 1);
  for (size_t i = 0; i < text.size; i++) {
    char buffer[8];
    const char *escape = escape_of((unsigned char)text.data[i], buffer);
    if (!escape) continue;
    put(output, text.data + unescaped_from, i - unescaped_from);
    put_string(output, escape);
    unescaped_from = i + 1;
  }
  if (unescaped_from < text.size) put(output, text.data + unescaped_from, text.size - unescaped_from);
  put(output, "\"", 1);
}

static void put_base64(struct output *output, tp_text bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  put(output, "\"", 1);
  for (size_t i = 0; i < bytes.size; i += 3) {
    size_t left = bytes.size - i;
    uint32_t group = (uint32_t)(unsigned char)bytes.data[i] << 16;
    if (left > 1) group |= (uint32_t)(unsigned char)bytes.data[i + 1] << 8;
    if (left > 2) group |= (uint32_t)(unsigned char)bytes.data[i + 2];
    char text[4] = {digits[group >> 18], digits[group >> 12 & 63], left > 1 ? digits[group >> 6 & 63] : '=',
                    left > 2 ? digits[group & 63] : '='};
    put(output, text, sizeof text);
  }
  put(output, "\"", 1);
}

static void put_int(struct output *output, int64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)number);
  put_string(output, text);
}

static void put_double(struct output *output, double number) {
  char text[TP__DOUBLE_TEXT_SIZE] = "null";
  if (isfinite(number)) tp__double_print(number, text);
  put_string(output, text);
}

static void put_value(struct output *output, tp_text value);

static void put_container(struct output *output, tp_text value, bool map) {
  const char *comma = "";
  put(output, map ? "{" : "[", 1);
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk); comma = ",") {
    put_string(output, comma);
    if (map) {
      put_text(output, walk.key);
      put(output, ":", 1);
    }
    put_value(output, walk.value);
  }
  put(output, map ? "}" : "]", 1);
}

static void put_value(struct output *output, tp_text value) {
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_NONE:
    case TP_VALUE_FORCE_32:
    case TP_VALUE_NULL:
      put_string(output, "null");
      break;
    case TP_VALUE_BOOL:
      put_string(output, tp_value_bool(value, false) ? "true" : "false");
      break;
    case TP_VALUE_INT:
      put_int(output, tp_value_int(value, 0));
      break;
    case TP_VALUE_DOUBLE:
      put_double(output, tp_value_double(value, 0));
      break;
    case TP_VALUE_TEXT:
      put_text(output, tp_value_text(value));
      break;
    case TP_VALUE_BYTES:
      put_base64(output, tp_value_text(value));
      break;
    case TP_VALUE_ARRAY:
      put_container(output, value, false);
      break;
    case TP_VALUE_MAP:
      put_container(output, value, true);
      break;
  }
}

tp_status tp_json_encode(tp_text value, tp_print_fn print, void *ctx, tp_fault *fault) {
  tp_status status = tp_value_check(value, fault);
  if (status != TP_OK) return status;
  struct output output = {.print = print, .ctx = ctx};
  put_value(&output, value);
  flush(&output);
  return TP_OK;
}
