/* SPDX-License-Identifier: Apache-2.0
 *
 * declared.h: the library turnphase-declared: JSON and YAML to and from values, and what is declared in YAML files.
 * Uses jansson and libyaml; the core does not. Threads: any. */
#ifndef TURNPHASE_DECLARED_H
#define TURNPHASE_DECLARED_H

#include "turnphase/inspect.h"

TP_BEGIN_DECLS

/** Decodes one JSON text (RFC 8259) into a value. Refused with line and column (in code points; of the last character
 *  of what could not be taken): bad UTF-8, escapes of lone surrogates, duplicate keys, keys with a NUL in them, numbers
 *  out of range (integers outside int64, floats outside double), trailing text, depth over 32, more than 1,048,576
 *  commas and opening brackets; and more than 64 MiB. Numbers without point and exponent become ints, all others
 *  floats.
 *  @param writer  gets the value, keys in the order of the text; untouched when the JSON is refused. No memory and the
 *                 writer's limit stick in it, as with every tp_write_…
 *  @return TP_OK; TP_ERR_MALFORMED, TP_ERR_UTF8, TP_ERR_TOO_DEEP, TP_ERR_TOO_LARGE, TP_ERR_NO_MEMORY. */
TP_API tp_status tp_json_decode(tp_text json, tp_writer *writer, tp_fault *fault) TP_MUST_USE;
/** Writes a value as compact JSON, map order kept. Bytes become base64 text (RFC 4648); NaN and infinities become null;
 *  every other float reads back as the same float.
 *  @param value  checked before anything is printed, as by tp_value_check(), whose errors are returned. */
TP_API tp_status tp_json_encode(tp_text value, tp_print_fn print, void *ctx, tp_fault *fault) TP_MUST_USE;

/** Decodes one YAML 1.2 document (core schema) into a value. Refused with line and column (in code points): syntax
 *  errors, duplicate keys, anchors and aliases, merge keys, tags, keys that are missing or not scalars, no document or
 *  more than one, a %YAML line of another version, numbers out of range, bad UTF-8, control characters and others that
 *  must be written as escapes (U+0085, U+2028, U+2029 among them), depth over 32, more than 1,048,576 keys and values;
 *  and more than 16 MiB. Plain scalars are null, bool, int or float when the core schema says so; all others are text,
 *  and so is every key.
 *  @param name    of the file, for fault->subject; may be NULL.
 *  @param writer  as of tp_json_decode().
 *  @return TP_OK; TP_ERR_MALFORMED, TP_ERR_UTF8, TP_ERR_TOO_DEEP, TP_ERR_TOO_LARGE, TP_ERR_NO_MEMORY. */
TP_API tp_status tp_yaml_decode(tp_text yaml, const char *name, tp_writer *writer, tp_fault *fault) TP_MUST_USE;

/** Makes a script model from its YAML form:
 *    repeat: true                      # optional: after the last response from the start again
 *    responses:
 *      - text: Hello.
 *      - text: Let me look.            # optional beside tool_calls
 *        tool_calls:
 *          - {id: c1, name: weather, arguments: {city: Oslo}}
 *        stop_reason: tool_use         # optional: that with tool_calls, else end_turn
 *        usage: {input_tokens: 10, output_tokens: 5, cost_micros: 0}   # optional
 *  A call needs a name; arguments are a map, empty when left out. Unknown keys, wrong types and a response with neither
 *  text nor tool_calls are refused with line and column.
 *  @param ret_model  as of tp_script_model_new(): tp_model_free() when it was not taken.
 *  @return as tp_yaml_decode() and tp_script_model_new(). */
TP_API tp_status tp_script_model_load(tp_text yaml, const char *name, tp_model **ret_model,
                                      tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
