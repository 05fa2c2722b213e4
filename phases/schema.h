/* SPDX-License-Identifier: Apache-2.0
 *
 * schema: the subset of JSON schema that tools describe their arguments with: type (a name, or an array of names),
 * properties, required, items, enum, minimum, maximum; description and title are allowed and mean nothing here. The
 * functions are pure and may be called from any thread; only values with large maps need memory, for a moment. */
#ifndef TP__SCHEMA_H
#define TP__SCHEMA_H

#include "runtime/base/base.h"
#include "turnphase/value.h"

enum { TP__SCHEMA_MESSAGE_SIZE = 512 };

/** Whether a tool may be registered with this schema. Arguments are always a map, so the root's type, where it has one,
 *  is object.
 *  @param schema     a value; empty: any map.
 *  @param allocator  for the check of large maps.
 *  @param fault      may be NULL; the message says where ("schema.properties.city.pattern: …").
 *  @return TP_OK; TP_ERR_BAD_SCHEMA; TP_ERR_NO_MEMORY. */
tp_status tp__schema_check(tp_text schema, const tp_allocator *allocator, tp_fault *fault);

/** A schema as calls are checked against it. NULL: any map. */
typedef struct tp__schema tp__schema;

/** @param schema  was checked before, and stays as long as *ret_schema, which is in the arena; empty: any map.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__schema_compile(tp_text schema, tp__arena *arena, const tp__schema **ret_schema);

/** Whether arguments fit the schema.
 *  integer means an integer as values have them: 5.0 is refused, since tp_value_int() would not read it.
 *  @param arguments  any bytes.
 *  @param message    on failure: what is wrong and where, for the model, without any content of the arguments
 *                    ("arguments.city: expected string, got integer"); NUL-terminated, cut at a code point.
 *  @return TP_OK; TP_ERR_MALFORMED; TP_ERR_NO_MEMORY.
 *  Time: at most the size of the arguments times that of the schema; where they do not fit, times 32. */
tp_status tp__schema_validate(const tp__schema *schema, tp_text arguments, char *message, size_t size);

#endif
