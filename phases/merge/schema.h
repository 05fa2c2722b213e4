/* SPDX-License-Identifier: Apache-2.0
 *
 * schema: the JSON schemas that tools describe their arguments with. A schema is kept as it was given, for the model,
 * and checked as far as we know it (draft 2020-12, and what the drafts from 4 on wrote otherwise): type, enum, const,
 * bounds, lengths, counts, pattern, properties and items in all forms, contains, uniqueItems, dependencies, allOf,
 * anyOf, oneOf, not, if, $ref within the schema, the formats date, time, date-time, ipv4, ipv6 and uuid. What is not
 * known is named and not checked. The functions are pure and may be called from any thread; only values with large
 * maps, references and patterns need memory, for a moment. */
#ifndef TP__SCHEMA_H
#define TP__SCHEMA_H

#include "phases/merge/out.h"
#include "turnphase/value.h"

enum { TP__SCHEMA_MESSAGE_SIZE = 512, TP__SCHEMA_STEPS_MAX = 4000000, TP__SCHEMA_DEPTH_MAX = 256 };

/** Whether a tool may be registered with this schema: each known keyword has its form, each $ref within the schema
 *  leads to a schema, and none leads to itself without end. Arguments are always a map, so the root's type, where it
 *  has one, is object.
 *  @param schema     a value; empty: any map.
 *  @param allocator  for the check of large maps, references and patterns.
 *  @param unchecked  may be NULL; what the schema has and nobody will check is put here, each once, with commas
 *                    between: "unevaluatedProperties, format email, pattern (?=a)".
 *  @param fault      may be NULL; the message says where ("schema.properties.city.pattern: …").
 *  @return TP_OK; TP_ERR_BAD_SCHEMA; TP_ERR_NO_MEMORY. */
tp_status tp__schema_check(tp_text schema, const tp_allocator *allocator, tp__out *unchecked, tp_fault *fault);
/** The same for a schema of any value. */
tp_status tp__schema_check_any(tp_text schema, const tp_allocator *allocator, tp__out *unchecked, tp_fault *fault);

/** A schema as calls are checked against it. NULL: any map. */
typedef struct tp__schema tp__schema;

/** @param schema  was checked before, and stays as long as *ret_schema, which is in the arena; empty: any map.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__schema_compile(tp_text schema, tp__arena *arena, const tp__schema **ret_schema);

/** Whether arguments fit the schema. integer means an integer as values have them: 5.0 is refused, since tp_value_int()
 *  would not read it.
 *  @param arguments  any bytes.
 *  @param message    on failure: what is wrong and where, for the model, without any content of the arguments
 *                    ("arguments.city: expected string, got integer"); NUL-terminated, cut at a code point.
 *  @return TP_OK; TP_ERR_MALFORMED; TP_ERR_NO_MEMORY. Time: bounded, whatever the schema: what takes more than
 *          4,000,000 steps, or is nested deeper than 256 schemas in each other, does not fit. Without alternatives and
 *          references it is at most the size of the arguments times that of the schema; where they do not fit, times
 *          32. */
tp_status tp__schema_validate(const tp__schema *schema, tp_text arguments, char *message, size_t size);
/** The same for any value that was checked; name is what its path begins with. */
tp_status tp__schema_validate_value(const tp__schema *schema, const char *name, tp_text value, char *message,
                                    size_t size);

#endif
