/* SPDX-License-Identifier: Apache-2.0
 *
 * script_json.c: a script model from JSON text. The texts and arguments of its responses are slices of one value, which
 * tp_script_model_new() copies. */
#include <stdio.h>

#include "runtime/base/base.h"
#include "turnphase/model.h"
#include "turnphase/value.h"

enum { PLACE_SIZE = 80 };

/* A script that is read. */
typedef struct reader {
  tp_fault *fault;
  tp__arena arena;
  tp_model_response *responses;
  const tp_model_response **list; /* their addresses */
  size_t count;
  bool repeat;
} reader;

static tp_status refuse_script(const reader *r, const char *place, const char *what) {
  return tp__fail(r->fault, TP_ERR_MALFORMED, "script", "%s %s", place, what);
}

static tp_status no_script_memory(const reader *r) {
  return tp__fail(r->fault, TP_ERR_NO_MEMORY, "script", "no memory for the script");
}

/* Whether the value is a map with only known keys. NULL ends the list of keys. */
static tp_status expect_map(const reader *r, tp_text value, const char *place, const char *const *known) {
  if (tp_value_kind_of(value) != TP_VALUE_MAP) return refuse_script(r, place, "must be a map");
  tp_value_walk walk = {0};
  while (tp_value_next(value, &walk)) {
    size_t i = 0;
    while (known[i] && !tp_text_is(walk.key, known[i])) i++;
    if (!known[i])
      return tp__fail(r->fault, TP_ERR_MALFORMED, "script", "%s has the unknown key %.*s", place, (int)walk.key.size,
                      walk.key.data);
  }
  return TP_OK;
}

/* A member of this kind, or an empty text when there is none. */
static tp_status find_member(const reader *r, tp_text map, const char *place, const char *key, tp_value_kind kind,
                             const char *kind_word, tp_text *ret_value) {
  TP__ASSERT(tp_value_kind_of(map) == TP_VALUE_MAP);
  *ret_value = tp_value_get(map, key);
  if (ret_value->size == 0 || tp_value_kind_of(*ret_value) == kind) return TP_OK;
  return tp__fail(r->fault, TP_ERR_MALFORMED, "script", "%s: %s must be %s", place, key, kind_word);
}

/* Reads a text; a missing one leaves *text unchanged. */
static tp_status read_script_text(const reader *r, tp_text map, const char *place, const char *key, tp_text *text) {
  tp_text value;
  TP__TRY(find_member(r, map, place, key, TP_VALUE_TEXT, "text", &value));
  if (value.size > 0) *text = tp_value_text(value);
  return TP_OK;
}

static tp_status read_number(const reader *r, tp_text map, const char *place, const char *key, int64_t *number) {
  tp_text value;
  TP__TRY(find_member(r, map, place, key, TP_VALUE_INT, "an integer", &value));
  if (value.size > 0) *number = tp_value_int(value, 0);
  return *number < 0 ? tp__fail(r->fault, TP_ERR_MALFORMED, "script", "%s: %s must not be negative", place, key)
                     : TP_OK;
}

static tp_status read_script_call(const reader *r, tp_text map, const char *place, tp_tool_call *call) {
  static const char *const known[] = {"id", "name", "arguments", NULL};
  *call = (tp_tool_call){.struct_size = sizeof *call};
  TP__TRY(expect_map(r, map, place, known));
  TP__TRY(read_script_text(r, map, place, "id", &call->id));
  TP__TRY(read_script_text(r, map, place, "name", &call->name));
  if (call->name.size == 0) return refuse_script(r, place, "needs a name");
  return find_member(r, map, place, "arguments", TP_VALUE_MAP, "a map", &call->arguments);
}

static tp_status read_script_calls(reader *r, tp_text map, size_t index, const char *response_place,
                                   tp_model_response *response) {
  tp_text list;
  TP__TRY(find_member(r, map, response_place, "tool_calls", TP_VALUE_ARRAY, "a list", &list));
  size_t count = tp_value_count(list);
  if (count == 0) return TP_OK;
  tp_tool_call *calls = tp__arena_alloc(&r->arena, count * sizeof *calls);
  const tp_tool_call **addresses = tp__arena_alloc(&r->arena, count * sizeof *addresses);
  if (!calls || !addresses) return no_script_memory(r);
  tp_value_walk walk = {0};
  for (size_t i = 0; tp_value_next(list, &walk); i++) {
    TP__ASSERT(i < count);
    char place[PLACE_SIZE];
    snprintf(place, sizeof place, "responses[%zu].tool_calls[%zu]", index, i);
    TP__TRY(read_script_call(r, walk.value, place, &calls[i]));
    addresses[i] = &calls[i];
  }
  response->calls = addresses;
  response->call_count = count;
  return TP_OK;
}

static tp_status read_usage(const reader *r, tp_text map, size_t index, tp_model_response *response) {
  static const char *const known[] = {"input_tokens", "output_tokens", "cost_micros", NULL};
  tp_text usage = tp_value_get(map, "usage");
  if (usage.size == 0) return TP_OK;
  char place[PLACE_SIZE];
  snprintf(place, sizeof place, "responses[%zu].usage", index);
  TP__TRY(expect_map(r, usage, place, known));
  TP__TRY(read_number(r, usage, place, "input_tokens", &response->input_tokens));
  TP__TRY(read_number(r, usage, place, "output_tokens", &response->output_tokens));
  return read_number(r, usage, place, "cost_micros", &response->cost_micros);
}

static tp_status read_finish_name(const reader *r, tp_text map, const char *place, tp_finish *finish) {
  tp_text name = {NULL, 0};
  TP__TRY(read_script_text(r, map, place, "finish", &name));
  for (tp_finish i = TP_FINISH_STOP; i <= TP_FINISH_PAUSE; i++)
    if (tp_text_is(name, tp_finish_name(i))) *finish = i;
  if (!name.data || *finish != TP_FINISH_UNKNOWN) return TP_OK;
  return tp__fail(r->fault, TP_ERR_MALFORMED, "script",
                  "%s: finish must be stop, length, filter, refusal, tool_calls, error or pause, not %.*s", place,
                  (int)(name.size < 40 ? name.size : 40), name.data);
}

/* The keys of a response. One of the first is required. */
enum { ANSWER_KEYS = 3 };
static const char *const response_keys[] = {"text", "tool_calls", "finish", "stop_reason", "usage", NULL};

static tp_status expect_answer(const reader *r, tp_text map, const char *place) {
  char keys[PLACE_SIZE] = "";
  for (size_t i = 0, size = 0; i < ANSWER_KEYS; i++) {
    tp_text value = tp_value_get(map, response_keys[i]);
    if (value.size > 0 && (tp_value_kind_of(value) != TP_VALUE_ARRAY || tp_value_count(value) > 0)) return TP_OK;
    size += (size_t)snprintf(keys + size, sizeof keys - size, "%s%s", i > 0 ? ", " : "", response_keys[i]);
    TP__ASSERT(size < sizeof keys);
  }
  return tp__fail(r->fault, TP_ERR_MALFORMED, "script", "%s needs one of %s", place, keys);
}

static tp_status read_response(reader *r, tp_text map, size_t index) {
  TP__ASSERT(index < r->count);
  char place[PLACE_SIZE];
  snprintf(place, sizeof place, "responses[%zu]", index);
  tp_model_response *response = &r->responses[index];
  *response = (tp_model_response){.struct_size = sizeof *response};
  r->list[index] = response;
  TP__TRY(expect_map(r, map, place, response_keys));
  TP__TRY(read_script_text(r, map, place, "text", &response->text));
  TP__TRY(read_script_text(r, map, place, "stop_reason", &response->stop_reason));
  TP__TRY(read_finish_name(r, map, place, &response->finish));
  TP__TRY(read_script_calls(r, map, index, place, response));
  TP__TRY(read_usage(r, map, index, response));
  return expect_answer(r, map, place);
}

static tp_status read_script(reader *r, tp_text script) {
  static const char *const known[] = {"responses", "repeat", NULL};
  tp_text list, repeat;
  TP__TRY(expect_map(r, script, "the script", known));
  TP__TRY(find_member(r, script, "the script", "repeat", TP_VALUE_BOOL, "true or false", &repeat));
  r->repeat = tp_value_bool(repeat, false);
  TP__TRY(find_member(r, script, "the script", "responses", TP_VALUE_ARRAY, "a list", &list));
  if (list.size == 0) return refuse_script(r, "the script", "needs the key responses");
  r->count = tp_value_count(list);
  r->responses = tp__arena_alloc(&r->arena, r->count * sizeof *r->responses);
  r->list = tp__arena_alloc(&r->arena, r->count * sizeof *r->list);
  if (!r->responses || !r->list) return no_script_memory(r);
  tp_value_walk walk = {0};
  for (size_t i = 0; tp_value_next(list, &walk); i++) TP__TRY(read_response(r, walk.value, i));
  return TP_OK;
}

static tp_status decode_script(reader *r, const char *json, tp_writer *writer, tp_model **ret_model) {
  tp_text script;
  TP__TRY(tp_json_decode(tp_text_of(json), writer, r->fault));
  if (tp_writer_finish(writer, &script) != TP_OK) return no_script_memory(r);
  TP__TRY(read_script(r, script));
  return tp_script_model_new(r->list, r->count, r->repeat, ret_model, r->fault);
}

tp_status tp_script_model_decode(const char *json, tp_model **ret_model, tp_fault *fault) {
  if (!json) return tp__fail_null(fault, "json");
  tp_allocator allocator = tp__allocator_of(NULL);
  reader r = {.fault = fault};
  tp_writer *writer;
  if (tp_writer_new(NULL, &writer) != TP_OK) return no_script_memory(&r);
  tp__arena_init(&r.arena, &allocator, NULL, 0, 0);
  tp_status status = decode_script(&r, json, writer, ret_model);
  tp__arena_fini(&r.arena);
  tp_writer_free(writer);
  return status;
}
