/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c: converts between objects of JavaScript and values, with texts and numbers. */
#include <math.h>
#include <string.h>

#include "bindings/node/src/core.h"

enum { DEPTH_MAX = 32, SHORT_BYTES = 192 };
static const double safe_max = 9007199254740991.0; /* Number.MAX_SAFE_INTEGER */

/* ---- texts and numbers ---- */

napi_value tpn_string(napi_env env, tp_text text) {
  napi_value string = NULL;
  unsigned char bits = 0;
  const size_t looked_at = text.size <= SHORT_BYTES ? text.size : 0;
  for (size_t i = 0; i < looked_at; i++) bits |= (unsigned char)text.data[i];
  const char *data = text.size ? text.data : "";
  if (looked_at && bits < 0x80)
    (void)napi_create_string_latin1(env, data, text.size, &string); /* creating a Latin-1
                                                                                                   string is faster */
  else (void)napi_create_string_utf8(env, data, text.size, &string);
  return string;
}

napi_value tpn_int(napi_env env, int64_t number) {
  napi_value value = NULL;
  if (number >= -(int64_t)safe_max && number <= (int64_t)safe_max) (void)napi_create_int64(env, number, &value);
  else (void)napi_create_bigint_int64(env, number, &value);
  return value;
}

napi_value tpn_uint(napi_env env, uint64_t number) {
  napi_value value = NULL;
  if (number <= (uint64_t)safe_max) (void)napi_create_int64(env, (int64_t)number, &value);
  else (void)napi_create_bigint_uint64(env, number, &value);
  return value;
}

bool tpn_text(napi_env env, napi_value string, tpn_arena *arena, tp_text *ret_text) {
  char first[SHORT_BYTES];
  size_t size = 0;
  if (napi_get_value_string_utf8(env, string, first, sizeof first, &size) != napi_ok)
    return tpn_type_error(env, "a string is wanted");
  const bool is_short = size + 4 < sizeof first; /* napi copies only whole characters that fit */
  if (!is_short && napi_get_value_string_utf8(env, string, NULL, 0, &size) != napi_ok) return false;
  char *data = tpn_alloc(env, arena, size + 1);
  if (!data) return false;
  if (is_short) memcpy(data, first, size);
  else if (napi_get_value_string_utf8(env, string, data, size + 1, &size) != napi_ok) return false;
  *ret_text = (tp_text){data, size};
  return true;
}

const char *tpn_chars(napi_env env, napi_value string, tpn_arena *arena) {
  tp_text text = {"", 0};
  if (!tpn_text(env, string, arena, &text)) return NULL;
  if (strlen(text.data) == text.size) return text.data;
  tpn_type_error(env, "a NUL is in the text");
  return NULL;
}

bool tpn_key(napi_env env, napi_value number, uint64_t *ret_key) {
  double value = 0;
  bool lossless = true;
  if (napi_get_value_double(env, number, &value) == napi_ok) {
    if (!(value >= 0 && value <= safe_max && value == floor(value)))
      return tpn_range_error(env, "a whole number is wanted, not %g", value);
    *ret_key = (uint64_t)value;
    return true;
  }
  if (napi_get_value_bigint_uint64(env, number, ret_key, &lossless) != napi_ok)
    return tpn_type_error(env, "a number is wanted");
  return lossless || tpn_range_error(env, "the number has more than 64 bits");
}

/* ---- objects to values ---- */

typedef struct to_value {
  napi_env env;
  tpn_arena *arena;
  tp_writer *writer;
} to_value;

static bool write_object(const to_value *to, napi_value object, int depth);

static bool write_number(const to_value *to, napi_value object) {
  double number = 0;
  (void)napi_get_value_double(to->env, object, &number);
  const bool is_whole = fabs(number) <= safe_max && number == trunc(number) && !(number == 0 && signbit(number));
  if (is_whole) tp_write_int(to->writer, (int64_t)number);
  else tp_write_double(to->writer, number);
  return true;
}

static bool write_bigint(const to_value *to, napi_value object) {
  int64_t number = 0;
  bool lossless = false;
  (void)napi_get_value_bigint_int64(to->env, object, &number, &lossless);
  if (!lossless) return tpn_range_error(to->env, "a value holds integers of 64 bits: the BigInt does not fit");
  tp_write_int(to->writer, number);
  return true;
}

static bool write_array(const to_value *to, napi_value array, int depth) {
  uint32_t count = 0;
  (void)napi_get_array_length(to->env, array, &count);
  tp_write_array(to->writer, count);
  for (uint32_t i = 0; i < count; i++) {
    napi_handle_scope scope;
    napi_value item;
    if (napi_open_handle_scope(to->env, &scope) != napi_ok) return false;
    bool is_written = napi_get_element(to->env, array, i, &item) == napi_ok;
    if (is_written && tpn_is_none(to->env, item))
      tp_write_null(to->writer); /* undefined in an array becomes null, as
                                                                                in JSON */
    else is_written = is_written && write_object(to, item, depth);
    (void)napi_close_handle_scope(to->env, scope);
    if (!is_written) return false;
  }
  return true;
}

static bool is_undefined(napi_env env, napi_value value) {
  napi_valuetype type = napi_undefined;
  (void)napi_typeof(env, value, &type);
  return type == napi_undefined;
}

static bool write_map(const to_value *to, napi_value object, int depth) {
  napi_env env = to->env;
  napi_value keys, key, value;
  uint32_t count = 0, used = 0;
  if (napi_get_all_property_names(env, object, napi_key_own_only, napi_key_enumerable | napi_key_skip_symbols,
                                  napi_key_numbers_to_strings, &keys) != napi_ok)
    return false;
  (void)napi_get_array_length(env, keys, &count);
  napi_value *rows = tpn_alloc(env, to->arena, (2 * (size_t)count + 1) * sizeof *rows);
  if (!rows) return false;
  for (uint32_t i = 0; i < count; i++) { /* each element is read only once, since a getter may return another value the
                                            next time */
    if (napi_get_element(env, keys, i, &key) != napi_ok || napi_get_property(env, object, key, &value) != napi_ok)
      return false;
    if (is_undefined(env, value)) continue; /* a member that is undefined is left out, as in JSON */
    rows[2 * used] = key;
    rows[2 * used++ + 1] = value;
  }
  tp_write_map(to->writer, used);
  for (uint32_t i = 0; i < used; i++) {
    tp_text text;
    if (!tpn_text(env, rows[2 * i], to->arena, &text)) return false;
    tp_write_text(to->writer, text);
    if (!write_object(to, rows[2 * i + 1], depth)) return false;
  }
  return true;
}

/* Calls toJSON(). @return 1: *ret is its result; 0: there is no toJSON(); -1 with an exception. */
static int as_json(napi_env env, napi_value object, napi_value *ret) {
  napi_value function;
  napi_valuetype type = napi_undefined;
  if (napi_get_property(env, object, tpn_name(env, "toJSON", false), &function) != napi_ok) return -1;
  (void)napi_typeof(env, function, &type);
  if (type != napi_function) return 0;
  return napi_call_function(env, object, function, 0, NULL, ret) == napi_ok ? 1 : -1;
}

static bool is_iterable(napi_env env, napi_value object) {
  bool has = false;
  return napi_has_property(env, object, tpn_iterator(env), &has) == napi_ok && has;
}

static bool write_container(const to_value *to, napi_value object, int depth) {
  napi_env env = to->env;
  bool is_array = false, is_typed = false;
  if (depth > DEPTH_MAX) return tpn_range_error(env, "a value has at most %d containers inside each other", DEPTH_MAX);
  (void)napi_is_array(env, object, &is_array);
  if (is_array) return write_array(to, object, depth);
  (void)napi_is_typedarray(env, object, &is_typed);
  if (is_typed) {
    napi_typedarray_type type;
    size_t size = 0;
    void *data = NULL;
    (void)napi_get_typedarray_info(env, object, &type, &size, &data, NULL, NULL);
    if (type != napi_uint8_array && type != napi_uint8_clamped_array)
      return tpn_type_error(env, "a value holds bytes of a Uint8Array, and of no other typed array");
    tp_write_bytes(to->writer, (tp_text){data, size});
    return true;
  }
  napi_value made;
  const int has_json = as_json(env, object, &made);
  if (has_json != 0) return has_json > 0 && write_object(to, made, depth);
  if (is_iterable(env, object))
    return tpn_type_error(env, "a Map, a Set or another iterable: make an array or an object");
  return write_map(to, object, depth);
}

static bool write_object(const to_value *to, napi_value object, int depth) {
  napi_valuetype type = napi_undefined;
  bool flag = false;
  tp_text text;
  (void)napi_typeof(to->env, object, &type);
  switch (type) {
    case napi_undefined:
    case napi_null:
      return tp_write_null(to->writer), true;
    case napi_boolean:
      (void)napi_get_value_bool(to->env, object, &flag);
      return tp_write_bool(to->writer, flag), true;
    case napi_number:
      return write_number(to, object);
    case napi_bigint:
      return write_bigint(to, object);
    case napi_string:
      if (!tpn_text(to->env, object, to->arena, &text)) return false;
      return tp_write_text(to->writer, text), true;
    case napi_object:
      return write_container(to, object, depth + 1);
    default:
      return tpn_type_error(to->env,
                            "a value is null, a boolean, a number, a bigint, a string, a Uint8Array, an array "
                            "or an object, and no function or symbol");
  }
}

static bool keep_value(const to_value *to, tp_text *ret_value) {
  tp_fault fault = {0};
  tp_text value = {0};
  tp_status status = tp_writer_finish(to->writer, &value);
  if (status == TP_OK) status = tp_value_check(value, &fault);
  if (status != TP_OK) return tpn_throw(to->env, status, &fault) != NULL;
  char *copy = tpn_alloc(to->env, to->arena, value.size);
  if (!copy) return false;
  memcpy(copy, value.data, value.size);
  *ret_value = (tp_text){copy, value.size};
  return true;
}

bool tpn_value(napi_env env, napi_value object, tpn_arena *arena, tp_text *ret_value) {
  to_value to = {env, arena, NULL};
  const tp_status status = tp_writer_new(NULL, &to.writer);
  if (status != TP_OK) return tpn_throw(env, status, NULL) != NULL;
  const bool is_kept = write_object(&to, object, 0) && keep_value(&to, ret_value);
  tp_writer_free(to.writer);
  return is_kept;
}

/* ---- values to objects ---- */

/* Sets a member whose name a model may have chosen: "__proto__" is a name like any other, as in JSON.parse(). */
static bool set_member(napi_env env, napi_value object, tp_text key, napi_value value) {
  napi_value name = tpn_string(env, key);
  if (!name) return false;
  if (key.size != 9 || memcmp(key.data, "__proto__", 9) != 0)
    return napi_set_property(env, object, name, value) == napi_ok;
  const napi_property_descriptor own = {
      .name = name, .value = value, .attributes = napi_writable | napi_enumerable | napi_configurable};
  return napi_define_properties(env, object, 1, &own) == napi_ok;
}

static napi_value container_object(napi_env env, tp_text value, bool is_map) {
  tp_value_walk walk = {0};
  napi_value made = NULL;
  uint32_t at = 0;
  if ((is_map ? napi_create_object(env, &made) : napi_create_array(env, &made)) != napi_ok) return NULL;
  while (tp_value_next(value, &walk)) {
    napi_value item = tpn_object(env, walk.value);
    if (!item) return NULL;
    if (!(is_map ? set_member(env, made, walk.key, item) : napi_set_element(env, made, at++, item) == napi_ok))
      return NULL;
  }
  return made;
}

static napi_value bytes_object(napi_env env, tp_text bytes) {
  napi_value buffer = NULL;
  void *data;
  (void)napi_create_buffer_copy(env, bytes.size, bytes.size ? bytes.data : "", &data, &buffer);
  return buffer;
}

/* The recursion is bounded, since the library has bounded the depth of a value. */
napi_value tpn_object(napi_env env, tp_text value) {
  napi_value made = NULL;
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_NULL:
      (void)napi_get_null(env, &made);
      return made;
    case TP_VALUE_BOOL:
      return tpn_bool(env, tp_value_bool(value, false));
    case TP_VALUE_INT:
      return tpn_int(env, tp_value_int(value, 0));
    case TP_VALUE_DOUBLE:
      (void)napi_create_double(env, tp_value_double(value, 0), &made);
      return made;
    case TP_VALUE_TEXT:
      return tpn_string(env, tp_value_text(value));
    case TP_VALUE_BYTES:
      return bytes_object(env, tp_value_text(value));
    case TP_VALUE_ARRAY:
    case TP_VALUE_MAP:
      return container_object(env, value, tp_value_kind_of(value) == TP_VALUE_MAP);
    default:
      return tpn_string(env, value);
  }
}
