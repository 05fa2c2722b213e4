/* SPDX-License-Identifier: Apache-2.0
 *
 * schema: the JSON schemas that tools describe their arguments with. A schema is stored as it was given, for the model.
 * The library checks these keywords (of draft 2020-12, and their older forms from draft 4 on): type, enum, const,
 * bounds, lengths, counts, pattern, properties and items in all forms, contains, uniqueItems, dependencies, allOf,
 * anyOf, oneOf, not, if, $ref within the schema, the formats date, time, date-time, ipv4, ipv6 and uuid. Other keywords
 * are reported and not checked. The functions are pure and may be called from any thread. Only values with large maps,
 * references and patterns need temporary memory. */
#ifndef TP__SCHEMA_H
#define TP__SCHEMA_H

#include "phases/merge/out.h"
#include "turnphase/value.h"

enum { TP__SCHEMA_MESSAGE_SIZE = 512, TP__SCHEMA_STEPS_MAX = 4000000, TP__SCHEMA_DEPTH_MAX = 256 };

/** Whether a tool may be registered with this schema. Each known keyword must have the right form, each $ref must lead
 *  to a schema within this schema, and no schema may contain itself without end. Arguments are always a map, so the
 *  type of the root, if it has one, must be object.
 *  @param schema     a value; empty: any map.
 *  @param allocator  for the check of large maps, references and patterns.
 *  @param unchecked  may be NULL; gets the parts of the schema that will not be checked, each once, separated by
 *                    commas: "unevaluatedProperties, format email, pattern (?=a)".
 *  @param fault      may be NULL; the message names the place ("schema.properties.city.pattern: …").
 *  @return TP_OK; TP_ERR_BAD_SCHEMA; TP_ERR_NO_MEMORY. */
tp_status tp__schema_check(tp_text schema, const tp_allocator *allocator, tp__out *unchecked, tp_fault *fault);
/** The same for a schema of any value. */
tp_status tp__schema_check_any(tp_text schema, const tp_allocator *allocator, tp__out *unchecked, tp_fault *fault);

/** A schema in the form in which calls are checked against it. NULL: any map. */
typedef struct tp__schema tp__schema;

/** @param schema  was checked before, and stays as long as *ret_schema, which is in the arena; empty: any map.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__schema_compile(tp_text schema, tp__arena *arena, const tp__schema **ret_schema);

/** Whether arguments fit the schema. The type integer means an integer of a value: 5.0 is refused, because
 *  tp_value_int() would not read it.
 *  @param arguments  any bytes.
 *  @param message    on failure: the error and its place, for the model, without any content of the arguments
 *                    ("arguments.city: expected string, got integer"); NUL-terminated, cut at a code point.
 *  @return TP_OK; TP_ERR_MALFORMED; TP_ERR_NO_MEMORY. Time: bounded for every schema: arguments that need more than
 *          4,000,000 steps, or more than 256 nested schemas, do not fit. Without alternatives and references, the time
 *          is at most the size of the arguments times that of the schema; if the arguments do not fit, 32 times
 *          that. */
tp_status tp__schema_validate(const tp__schema *schema, tp_text arguments, char *message, size_t size);
/** As tp__schema_validate(), for any value that was checked. Paths in the message begin with name. */
tp_status tp__schema_validate_value(const tp__schema *schema, const char *name, tp_text value, char *message,
                                    size_t size);

#endif
