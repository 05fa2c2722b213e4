/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c: converts between structs and objects, by the tables of bindings/fields.py. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bindings/node/src/core.h"

enum { NAME_BYTES = 64, WORDS_BYTES = 1024, MEMBERS_MAX = 48 };

/* Whether a name is a member's name in camelCase. */
static bool is_camel_of(const char *camel, const char *name) {
  for (; *name; name++, camel++) {
    if (*name == '_' && name[1]) {
      name++;
      if (*camel != (char)toupper((unsigned char)*name)) return false;
    } else if (*camel != *name) {
      return false;
    }
  }
  return !*camel;
}

static const tpb_field *find_field(const tpb_struct *table, const char *name) {
  const tpb_field *field = table->fields;
  while (field->name && !is_camel_of(name, field->name)) field++;
  return field->name ? field : NULL;
}

bool tpn_number(napi_env env, const tpb_enum *table, const char *name, int32_t *ret_number) {
  char words[WORDS_BYTES];
  size_t used = 0;
  words[0] = '\0';
  for (const tpb_enum_value *value = table->values; value->name; value++) {
    if (strcmp(value->name, name) == 0) {
      *ret_number = value->number;
      return true;
    }
    const int added = snprintf(words + used, sizeof words - used, "%s%s", used ? ", " : "", value->name);
    if (added > 0 && used + (size_t)added < sizeof words) used += (size_t)added;
  }
  return tpn_range_error(env, "%s is not '%.100s': one of %s", table->name + 3, name, words);
}

napi_value tpn_word(napi_env env, const tpb_enum *table, int32_t number) {
  const tpb_enum_value *value = table->values;
  while (value->name && value->number != number) value++;
  return value->name ? tpn_name(env, value->name, false) : tpn_int(env, number);
}

/* ---- reading ---- */

static bool number_of(napi_env env, napi_value object, const tpb_field *field, int64_t *ret_signed,
                      uint64_t *ret_unsigned) {
  napi_valuetype type = napi_undefined;
  double number = 0;
  bool lossless = false;
  (void)napi_typeof(env, object, &type);
  if (type == napi_bigint) {
    if (field->kind == TPB_UINT) (void)napi_get_value_bigint_uint64(env, object, ret_unsigned, &lossless);
    else (void)napi_get_value_bigint_int64(env, object, ret_signed, &lossless);
    return lossless || tpn_range_error(env, "it has %d bits: the BigInt does not fit", 8 * (int)field->size);
  }
  if (type != napi_number) return tpn_type_error(env, "a number is wanted");
  (void)napi_get_value_double(env, object, &number);
  if (!(fabs(number) <= 9007199254740991.0 && number == trunc(number)) || (field->kind == TPB_UINT && number < 0))
    return tpn_range_error(env, "%s number is wanted, not %g", field->kind == TPB_UINT ? "a whole positive" : "a whole",
                           number);
  *ret_signed = (int64_t)number;
  *ret_unsigned = (uint64_t)*ret_signed;
  return true;
}

static bool read_number(napi_env env, napi_value object, const tpb_field *field, char *member) {
  int64_t number = 0;
  uint64_t size = 0;
  if (!number_of(env, object, field, &number, &size)) return false;
  const bool is_signed = field->kind != TPB_UINT;
  const int bits = 8 * (int)field->size;
  const bool fits = field->size == 8 || (is_signed ? number >= -(1LL << (bits - 1)) && number < (1LL << (bits - 1))
                                                   : size < (1ULL << bits));
  if (!fits) return tpn_range_error(env, "it has %d bits: the number does not fit", bits);
  memcpy(member, is_signed ? (const void *)&number : (const void *)&size, field->size); /* numbers are little-endian */
  return true;
}

static bool read_enum(napi_env env, napi_value object, const tpb_field *field, char *member, tpn_arena *arena) {
  napi_valuetype type = napi_undefined;
  int32_t number = 0;
  (void)napi_typeof(env, object, &type);
  if (type != napi_string) return read_number(env, object, field, member);
  const char *name = tpn_chars(env, object, arena);
  if (!name || !tpn_number(env, field->table, name, &number)) return false;
  memcpy(member, &number, sizeof number);
  return true;
}

bool tpn_read_list(napi_env env, napi_value list, const tpb_struct *table, tpn_arena *arena,
                   const void *const **ret_items, size_t *ret_count) {
  bool is_array = false;
  uint32_t count = 0;
  (void)napi_is_array(env, list, &is_array);
  if (!is_array) return tpn_type_error(env, "an array is wanted");
  (void)napi_get_array_length(env, list, &count);
  const void **items = tpn_alloc(env, arena, ((size_t)count + 1) * sizeof *items);
  for (uint32_t i = 0; items && i < count; i++) {
    napi_value item;
    void *memory = table ? tpn_alloc(env, arena, table->size) : NULL;
    if (napi_get_element(env, list, i, &item) != napi_ok || (table && !memory)) return false;
    if (table && tpn_is_none(env, item)) return tpn_type_error(env, "an item is undefined or null");
    if (table && !tpn_read(env, item, table, memory, arena)) return false;
    items[i] = table ? memory : tpn_chars(env, item, arena);
    if (!items[i]) return false;
  }
  *ret_items = items;
  *ret_count = count;
  return items != NULL;
}

static bool read_list(napi_env env, napi_value list, const tpb_field *field, char *target, tpn_arena *arena) {
  const void *const *items;
  size_t count; /* every counted list of STRUCTS has a count of 64 bits */
  if (!tpn_read_list(env, list, field->table, arena, &items, &count)) return false;
  memcpy(target + field->offset, &items, sizeof items);
  if (field->count_offset >= 0) memcpy(target + field->count_offset, &count, sizeof count);
  return true;
}

static bool read_bytes(napi_env env, napi_value object, tp_text *member, tpn_arena *arena) {
  napi_typedarray_type type = napi_int8_array;
  size_t size = 0;
  void *data = NULL;
  bool is_typed = false;
  (void)napi_is_typedarray(env, object, &is_typed);
  if (is_typed) (void)napi_get_typedarray_info(env, object, &type, &size, &data, NULL, NULL);
  if (type != napi_uint8_array) return tpn_type_error(env, "a Uint8Array or a Buffer is wanted");
  char *copy = tpn_alloc(env, arena, size);
  if (!copy) return false;
  if (size) memcpy(copy, data, size);
  *member = (tp_text){copy, size};
  return true;
}

static bool read_member(napi_env env, napi_value object, const tpb_field *field, char *target, tpn_arena *arena) {
  char *member = target + field->offset;
  const void *data = NULL;
  switch (field->kind) {
    case TPB_STRING:
      data = tpn_chars(env, object, arena);
      if (!data) return false;
      memcpy(member, &data, sizeof data);
      return true;
    case TPB_UINT:
    case TPB_INT:
      return read_number(env, object, field, member);
    case TPB_BOOL:
      return napi_get_value_bool(env, object, (bool *)member) == napi_ok || tpn_type_error(env, "a boolean is wanted");
    case TPB_ENUM:
      return read_enum(env, object, field, member, arena);
    case TPB_TEXT:
      return tpn_text(env, object, arena, (tp_text *)member);
    case TPB_BYTES:
      return read_bytes(env, object, (tp_text *)member, arena);
    case TPB_VALUE:
    case TPB_LATER:
      return tpn_value(env, object, arena, (tp_text *)member);
    case TPB_STRUCT: {
      const tpb_struct *table = field->table;
      void *memory = tpn_alloc(env, arena, table->size);
      if (!memory || !tpn_read(env, object, table, memory, arena)) return false;
      memcpy(member, &memory, sizeof memory);
      return true;
    }
    case TPB_STRINGS:
    case TPB_STRUCTS:
      return read_list(env, object, field, target, arena);
  }
  return false;
}

/* Adds the name of the member to an error, which otherwise stays the same. */
static void name_member(napi_env env, const tpb_struct *table, const char *name) {
  napi_value error, message, words;
  tpn_arena arena;
  tp_text text;
  char longer[WORDS_BYTES];
  if (napi_get_and_clear_last_exception(env, &error) != napi_ok) return;
  tpn_arena_begin(&arena);
  if (napi_get_property(env, error, tpn_name(env, "message", false), &message) == napi_ok &&
      tpn_text(env, message, &arena, &text)) {
    const int size = snprintf(longer, sizeof longer, "%s.%s: %.900s", table->name + 3, name, text.data);
    words = size > 0 ? tpn_string(env, tp_text_of(longer)) : NULL;
    if (words) (void)napi_set_property(env, error, tpn_name(env, "message", false), words);
  }
  tpn_arena_end(&arena);
  if (!tpn_is_pending(env)) (void)napi_throw(env, error);
}

/* Whether a value is text: in a call whose arguments could not be decoded. */
static bool is_raw(napi_env env, napi_value object, const tpb_struct *table, const tpb_field *field) {
  napi_value value;
  bool flag = false;
  if (field->kind != TPB_VALUE || field->count_offset < 0) return false;
  const tpb_field *said = table->fields;
  while (said->offset != (size_t)field->count_offset) said++;
  return napi_get_property(env, object, tpn_name(env, said->name, true), &value) == napi_ok &&
         napi_get_value_bool(env, value, &flag) == napi_ok && flag;
}

static bool read_property(napi_env env, napi_value object, napi_value key, const tpb_struct *table, char *target,
                          tpn_arena *arena) {
  char name[NAME_BYTES];
  napi_value value;
  size_t size = 0;
  if (napi_get_value_string_utf8(env, key, name, sizeof name, &size) != napi_ok ||
      napi_get_property(env, object, key, &value) != napi_ok)
    return false;
  const tpb_field *field = find_field(table, name);
  if (!field) {
    for (field = table->fields; field->name && strcmp(field->name, name) != 0; field++) {}
    return tpn_type_error(env, "%s has no option '%s'%s", table->name + 3, name,
                          field->name ? ": its name is in camelCase" : "");
  }
  if (tpn_is_none(env, value)) return true;
  const bool is_read = is_raw(env, object, table, field)
                           ? tpn_text(env, value, arena, (tp_text *)(target + field->offset))
                           : read_member(env, value, field, target, arena);
  if (!is_read && tpn_is_pending(env)) name_member(env, table, name);
  return is_read;
}

bool tpn_read(napi_env env, napi_value object, const tpb_struct *table, void *target, tpn_arena *arena) {
  napi_valuetype type = napi_undefined;
  napi_value keys;
  uint32_t count = 0;
  memset(target, 0, table->size);
  memcpy(target, &table->size, sizeof table->size); /* sets struct_size */
  if (!object || tpn_is_none(env, object)) return true;
  (void)napi_typeof(env, object, &type);
  if (type != napi_object) return tpn_type_error(env, "%s is an object", table->name + 3);
  if (napi_get_all_property_names(env, object, napi_key_own_only, napi_key_enumerable | napi_key_skip_symbols,
                                  napi_key_numbers_to_strings, &keys) != napi_ok)
    return false;
  (void)napi_get_array_length(env, keys, &count);
  for (uint32_t i = 0; i < count; i++) {
    napi_value key;
    if (napi_get_element(env, keys, i, &key) != napi_ok || !read_property(env, object, key, table, target, arena))
      return false;
  }
  return true;
}

/* ---- showing ---- */

napi_value tpn_show_list(napi_env env, const void *const *items, size_t count, const tpb_struct *table) {
  napi_value list = NULL;
  if (napi_create_array_with_length(env, count, &list) != napi_ok) return NULL;
  for (size_t i = 0; i < count; i++) {
    napi_value item = tpn_show(env, items[i], table);
    if (!item || napi_set_element(env, list, (uint32_t)i, item) != napi_ok) return NULL;
  }
  return list;
}

static bool is_nanoseconds(const char *name) {
  const size_t size = strlen(name);
  return size > 3 && strcmp(name + size - 3, "_ns") == 0;
}

static napi_value show_number(napi_env env, const tpb_field *field, const char *member) {
  int64_t number = 0;
  napi_value big = NULL;
  memcpy(&number, member, field->size);
  if (!number) return NULL;
  if (field->kind == TPB_UINT) return tpn_uint(env, (uint64_t)number);
  if (field->size == 4) number = (int32_t)number;
  if (!is_nanoseconds(field->name)) return tpn_int(env, number);
  (void)napi_create_bigint_int64(env, number, &big);
  return big;
}

/* NULL without an exception means that the member is zero, and is left out. */
static napi_value shown_member(napi_env env, const char *source, const tpb_field *field) {
  const char *member = source + field->offset;
  const void *data = NULL;
  int64_t number = 0;
  tp_text text;
  napi_value made = NULL;
  switch (field->kind) {
    case TPB_STRING:
      memcpy(&data, member, sizeof data);
      return data ? tpn_string(env, tp_text_of(data)) : NULL;
    case TPB_UINT:
    case TPB_INT:
      return show_number(env, field, member);
    case TPB_BOOL:
      return *(const bool *)member ? tpn_bool(env, true) : NULL;
    case TPB_ENUM:
      memcpy(&number, member, field->size);
      return number ? tpn_word(env, field->table, (int32_t)number) : NULL;
    case TPB_TEXT:
    case TPB_BYTES:
    case TPB_VALUE:
    case TPB_LATER:
      memcpy(&text, member, sizeof text);
      if (!text.size) return NULL;
      if (field->kind == TPB_BYTES) {
        void *copy;
        (void)napi_create_buffer_copy(env, text.size, text.data, &copy, &made);
        return made;
      }
      if (field->kind == TPB_TEXT || (field->count_offset >= 0 && source[field->count_offset]))
        return tpn_string(env, text);
      return tpn_object(env, text);
    case TPB_STRUCT:
      memcpy(&data, member, sizeof data);
      return data ? tpn_show(env, data, field->table) : NULL;
    case TPB_STRUCTS: {
      size_t count = 0;
      memcpy(&data, member, sizeof data);
      memcpy(&count, source + field->count_offset, sizeof count);
      return data && count ? tpn_show_list(env, data, count, field->table) : NULL;
    }
    default:
      return NULL;
  }
}

napi_value tpn_show_member(napi_env env, const void *source, const tpb_field *field) {
  size_t size;
  memcpy(&size, source, sizeof size);
  napi_value shown = field->offset + field->size > size ? NULL : shown_member(env, source, field);
  return shown || tpn_is_pending(env) ? shown : tpn_undefined(env);
}

/* Calls the constructor, since one call costs less than setting three properties. */
static napi_value construct(napi_env env, napi_value class, const void *source, size_t size, const tpb_struct *table) {
  napi_value members[MEMBERS_MAX], absent = tpn_undefined(env), object = NULL;
  size_t count = 0;
  for (const tpb_field *field = table->fields; field->name && count < MEMBERS_MAX; field++) {
    napi_value shown = field->offset + field->size > size ? NULL : shown_member(env, source, field);
    members[count++] = shown ? shown : absent;
  }
  if (!tpn_is_pending(env)) (void)napi_new_instance(env, class, count, members, &object);
  return object;
}

napi_value tpn_show(napi_env env, const void *source, const tpb_struct *table) {
  napi_value class = tpn_class(env, table), object = NULL;
  size_t size;
  memcpy(&size, source, sizeof size); /* struct_size: an older library has fewer members */
  if (class) return construct(env, class, source, size, table);
  if (tpn_is_pending(env) || napi_create_object(env, &object) != napi_ok) return NULL;
  for (const tpb_field *field = table->fields; field->name; field++) {
    if (field->offset + field->size > size) continue;
    napi_value shown = shown_member(env, source, field);
    if (shown && napi_set_property(env, object, tpn_name(env, field->name, true), shown) != napi_ok) return NULL;
  }
  return tpn_is_pending(env) ? NULL : object;
}
