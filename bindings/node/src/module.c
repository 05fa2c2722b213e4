/* SPDX-License-Identifier: Apache-2.0
 *
 * module.c: the addon in an environment: its names, its errors, its arenas, and jobs of the pool. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/node/src/core.h"

enum { NAMES = 1024 /* a power of two */, CLASSES = 32, MESSAGE_BYTES = 1200 };

typedef struct kept_name {
  const char *text; /* NULL: the entry is free */
  bool camel;
  uint32_t at; /* its index in the array of strings */
} kept_name;

typedef struct kept_class {
  const tpb_struct *table; /* NULL: the entry is free */
  napi_ref function;       /* NULL: the struct has no class */
} kept_class;

struct tpn_state {
  kept_name names[NAMES];
  uint32_t name_count;
  napi_ref strings; /* an array, since a string cannot have a reference of its own */
  kept_class classes[CLASSES];
  napi_ref error_of, class_of, iterator; /* functions of lib/, and Symbol.iterator */
};

tpn_state *tpn_state_of(napi_env env) {
  void *state = NULL;
  (void)napi_get_instance_data(env, &state);
  return state;
}

static napi_value value_of(napi_env env, napi_ref reference) {
  napi_value value = NULL;
  (void)napi_get_reference_value(env, reference, &value);
  return value;
}

/* ---- names and classes ---- */

static napi_value make_name(napi_env env, const char *text, bool camel) {
  char made[128];
  size_t size = 0;
  for (; *text && size < sizeof made; text++) {
    const bool is_next = camel && *text == '_' && text[1];
    made[size++] = is_next ? (char)toupper((unsigned char)*++text) : *text;
  }
  return tpn_string(env, (tp_text){made, size});
}

napi_value tpn_name(napi_env env, const char *text, bool camel) {
  tpn_state *state = tpn_state_of(env);
  napi_value strings = value_of(env, state->strings), string = NULL;
  size_t at = ((uintptr_t)text >> 2 ^ (uintptr_t)text >> 12) & (NAMES - 1);
  for (; state->names[at].text; at = (at + 1) & (NAMES - 1)) {
    if (state->names[at].text != text || state->names[at].camel != camel) continue;
    (void)napi_get_element(env, strings, state->names[at].at, &string);
    return string;
  }
  string = make_name(env, text, camel);
  const kept_name made = {text, camel, state->name_count};
  if (state->name_count < NAMES / 2 && string && napi_set_element(env, strings, made.at, string) == napi_ok) {
    state->names[at] = made;
    state->name_count++;
  }
  return string;
}

/* An array of the names of a struct's members. */
static napi_value member_names(napi_env env, const tpb_struct *table) {
  napi_value names = NULL;
  uint32_t at = 0;
  if (napi_create_array(env, &names) != napi_ok) return NULL;
  for (const tpb_field *field = table->fields; field->name; field++)
    if (napi_set_element(env, names, at++, tpn_name(env, field->name, true)) != napi_ok) return NULL;
  return names;
}

napi_value tpn_class(napi_env env, const tpb_struct *table) {
  tpn_state *state = tpn_state_of(env);
  napi_value function = NULL, arguments[2];
  napi_valuetype type = napi_undefined;
  size_t at = 0;
  for (; at < CLASSES && state->classes[at].table; at++)
    if (state->classes[at].table == table)
      return state->classes[at].function ? value_of(env, state->classes[at].function) : NULL;
  if (!state->class_of) return NULL;
  arguments[0] = tpn_string(env, tp_text_of(table->name));
  arguments[1] = member_names(env, table);
  if (!arguments[0] || !arguments[1] ||
      napi_call_function(env, tpn_undefined(env), value_of(env, state->class_of), 2, arguments, &function) != napi_ok)
    return NULL;
  (void)napi_typeof(env, function, &type);
  if (at < CLASSES) state->classes[at].table = table;
  if (type != napi_function) return NULL;
  if (at < CLASSES) (void)napi_create_reference(env, function, 1, &state->classes[at].function);
  return function;
}

napi_value tpn_iterator(napi_env env) { return value_of(env, tpn_state_of(env)->iterator); }

/* ---- small values and errors ---- */

napi_value tpn_undefined(napi_env env) {
  napi_value value = NULL;
  (void)napi_get_undefined(env, &value);
  return value;
}

napi_value tpn_bool(napi_env env, bool value) {
  napi_value made = NULL;
  (void)napi_get_boolean(env, value, &made);
  return made;
}

bool tpn_is_pending(napi_env env) {
  bool is_pending = false;
  (void)napi_is_exception_pending(env, &is_pending);
  return is_pending;
}

bool tpn_is_none(napi_env env, napi_value value) {
  napi_valuetype type = napi_undefined;
  (void)napi_typeof(env, value, &type);
  return type == napi_undefined || type == napi_null;
}

napi_value tpn_error(napi_env env, tp_status status, const tp_fault *fault) {
  const bool is_filled = fault && fault->code == status;
  const char *message = is_filled && fault->message[0] ? fault->message : tp_status_text(status);
  napi_value row[8], error = NULL;
  (void)napi_create_int32(env, (int32_t)status, &row[0]);
  row[1] = tpn_string(env, tp_text_of(tp_status_name(status)));
  row[2] = tpn_string(env, tp_text_of(tp_status_category(status)));
  row[3] = tpn_string(env, tp_text_of(message));
  row[4] = tpn_string(env, tp_text_of(is_filled ? fault->subject : ""));
  (void)napi_create_uint32(env, is_filled ? fault->line : 0, &row[5]);
  (void)napi_create_uint32(env, is_filled ? fault->column : 0, &row[6]);
  (void)napi_create_int32(env, is_filled ? (int32_t)fault->system_error : 0, &row[7]);
  (void)napi_call_function(env, tpn_undefined(env), value_of(env, tpn_state_of(env)->error_of), 8, row, &error);
  return error;
}

napi_value tpn_throw(napi_env env, tp_status status, const tp_fault *fault) {
  napi_value error = tpn_error(env, status, fault);
  if (error) (void)napi_throw(env, error);
  return NULL;
}

napi_value tpn_done(napi_env env, tp_status status, const tp_fault *fault) {
  return status == TP_OK ? tpn_undefined(env) : tpn_throw(env, status, fault);
}

bool tpn_type_error(napi_env env, const char *format, ...) {
  char text[MESSAGE_BYTES];
  va_list list;
  va_start(list, format);
  (void)vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (!tpn_is_pending(env)) (void)napi_throw_type_error(env, NULL, text);
  return false;
}

bool tpn_range_error(napi_env env, const char *format, ...) {
  char text[MESSAGE_BYTES];
  va_list list;
  va_start(list, format);
  (void)vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (!tpn_is_pending(env)) (void)napi_throw_range_error(env, NULL, text);
  return false;
}

bool tpn_arguments(napi_env env, napi_callback_info info, size_t count, napi_value *arguments) {
  return napi_get_cb_info(env, info, &count, arguments, NULL, NULL) == napi_ok;
}

/* ---- memory of what is read ---- */

struct tpn_chunk {
  tpn_chunk *next;
  _Alignas(16) char data[];
};

void tpn_arena_begin(tpn_arena *arena) {
  arena->used = 0;
  arena->at = arena->end = NULL;
  arena->chunks = NULL;
}

void tpn_arena_end(tpn_arena *arena) {
  while (arena->chunks) {
    tpn_chunk *next = arena->chunks->next;
    free(arena->chunks);
    arena->chunks = next;
  }
}

void *tpn_alloc(napi_env env, tpn_arena *arena, size_t size) {
  if (size > SIZE_MAX / 4) {
    tpn_throw(env, TP_ERR_NO_MEMORY, NULL);
    return NULL;
  }
  size = (size + 15) & ~(size_t)15;
  if (size <= sizeof arena->first - arena->used) {
    arena->used += size;
    return memset(arena->first + arena->used - size, 0, size);
  }
  if (size > (size_t)(arena->end - arena->at)) {
    const size_t bytes = size > 65536 ? size : 65536;
    tpn_chunk *chunk = malloc(sizeof *chunk + bytes);
    if (!chunk) {
      tpn_throw(env, TP_ERR_NO_MEMORY, NULL);
      return NULL;
    }
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->at = chunk->data;
    arena->end = chunk->data + bytes;
  }
  arena->at += size;
  return memset(arena->at - size, 0, size);
}

/* ---- the module ---- */

static napi_value module_version(napi_env env, napi_callback_info info) {
  (void)info;
  return tpn_string(env, tp_text_of(tp_version()));
}

/* Returns a value after a conversion to the library and back, for tests of the binding. */
static napi_value module_round_trip(napi_env env, napi_callback_info info) {
  napi_value object, shown = NULL;
  tpn_arena arena;
  tp_text value;
  if (!tpn_arguments(env, info, 1, &object)) return NULL;
  tpn_arena_begin(&arena);
  if (tpn_value(env, object, &arena, &value)) shown = tpn_object(env, value);
  tpn_arena_end(&arena);
  return shown;
}

/* statusError(code, message, subject): the error of a status. */
static napi_value module_status_error(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  double code = 0;
  size_t size = 0;
  tp_fault fault = {0};
  if (!tpn_arguments(env, info, 3, arguments)) return NULL;
  (void)napi_get_value_double(env, arguments[0], &code);
  (void)napi_get_value_string_utf8(env, arguments[1], fault.message, sizeof fault.message, &size);
  (void)napi_get_value_string_utf8(env, arguments[2], fault.subject, sizeof fault.subject, &size);
  fault.code = (tp_status)code;
  return tpn_error(env, fault.code, &fault);
}

/* setup(errorOf, classOf): the functions of lib/ that make errors, and find the classes of structs. */
static napi_value module_setup(napi_env env, napi_callback_info info) {
  tpn_state *state = tpn_state_of(env);
  napi_value functions[2];
  if (!tpn_arguments(env, info, 2, functions)) return NULL;
  if (state->error_of) return tpn_undefined(env);
  (void)napi_create_reference(env, functions[0], 1, &state->error_of);
  (void)napi_create_reference(env, functions[1], 1, &state->class_of);
  return tpn_undefined(env);
}

/* eventNames(): the names of events by their numbers, from 1. */
static napi_value module_event_names(napi_env env, napi_callback_info info) {
  napi_value names = NULL;
  (void)info;
  if (napi_create_array(env, &names) != napi_ok) return NULL;
  for (uint32_t kind = 1; strcmp(tp_event_name((tp_event_kind)kind), "unknown") != 0; kind++) {
    napi_value name = tpn_string(env, tp_text_of(tp_event_name((tp_event_kind)kind)));
    if (!name || napi_set_element(env, names, kind - 1, name) != napi_ok) return NULL;
  }
  return names;
}

static const tpn_function module_functions[] = {
    {"setup", module_setup},          {"eventNames", module_event_names},
    {"version", module_version},      {"statusError", module_status_error},
    {"roundTrip", module_round_trip}, {NULL, NULL},
};

static bool add_functions(napi_env env, napi_value exports, const tpn_function *functions) {
  for (; functions->name; functions++) {
    napi_value function;
    if (napi_create_function(env, functions->name, NAPI_AUTO_LENGTH, functions->call, NULL, &function) != napi_ok ||
        napi_set_named_property(env, exports, functions->name, function) != napi_ok)
      return false;
  }
  return true;
}

static bool make_values(napi_env env, tpn_state *state) {
  napi_value global, symbol, iterator, strings;
  return napi_get_global(env, &global) == napi_ok &&
         napi_get_named_property(env, global, "Symbol", &symbol) == napi_ok &&
         napi_get_named_property(env, symbol, "iterator", &iterator) == napi_ok &&
         napi_create_reference(env, iterator, 1, &state->iterator) == napi_ok &&
         napi_create_array(env, &strings) == napi_ok &&
         napi_create_reference(env, strings, 1, &state->strings) == napi_ok;
}

/* Frees the state; its references are freed with the environment. */
static void state_free(napi_env env, void *state, void *unused) {
  (void)env, (void)unused;
  free(state);
}

NAPI_MODULE_INIT() {
  tpn_state *state = calloc(1, sizeof *state);
  if (!state || napi_set_instance_data(env, state, state_free, NULL) != napi_ok) {
    free(state);
    return NULL;
  }
  return make_values(env, state) && add_functions(env, exports, module_functions) &&
                 add_functions(env, exports, tpn_life_functions) &&
                 add_functions(env, exports, tpn_runtime_functions) &&
                 add_functions(env, exports, tpn_work_functions) && add_functions(env, exports, tpn_domain_functions)
             ? exports
             : NULL;
}
