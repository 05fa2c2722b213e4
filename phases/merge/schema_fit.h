/* SPDX-License-Identifier: Apache-2.0
 *
 * schema_fit: the compiled form of a schema (made by schema.c), against which calls are checked (schema_fit.c). It is
 * in an arena and never changes. Its texts are slices of the schema's value; they are empty when the schema does not
 * have the keyword. */
#ifndef TP__SCHEMA_FIT_H
#define TP__SCHEMA_FIT_H

#include "phases/merge/out.h"
#include "phases/merge/pattern.h"
#include "phases/merge/schema.h"

/* ---- the current place in a value: the path from the root, stored backwards ---- */

/** The root's name is in the last step. */
typedef struct tp__schema_step {
  const struct tp__schema_step *from; /* NULL: the root */
  tp_text name;                       /* or */
  size_t index;                       /* when the name is empty */
} tp__schema_step;

void tp__schema_put_path(tp__out *out, const tp__schema_step *at);
tp__schema_step tp__schema_into(const tp__schema_step *from, tp_text name);

/* ---- the rules ---- */

typedef struct tp__schema_property {
  tp_text name;
  const tp__schema *schema; /* NULL: any value fits */
  bool required;
  bool is_only_required; /* it is not among `properties` */
} tp__schema_property;

typedef struct tp__schema_list {
  uint32_t count;
  const tp__schema **of;
} tp__schema_list;

/** Of patternProperties. */
typedef struct tp__schema_named {
  const tp__pattern *names; /* NULL: not checked */
  const tp__schema *schema;
} tp__schema_named;

/** For dependentRequired, dependentSchemas and dependencies. */
typedef struct tp__schema_dependency {
  tp_text name;
  tp_text required; /* an array of names; empty: the schema is used */
  const tp__schema *schema;
} tp__schema_dependency;

typedef enum tp__schema_format {
  TP__FORMAT_NONE = 0, /* or one that is not checked */
  TP__FORMAT_DATE,
  TP__FORMAT_TIME,
  TP__FORMAT_DATE_TIME,
  TP__FORMAT_IPV4,
  TP__FORMAT_IPV6,
  TP__FORMAT_UUID
} tp__schema_format;

/** Bounds of a count: of characters, of items, of members, of items that fit `contains`. */
typedef struct tp__schema_count {
  int64_t least, most; /* most: -1 for any */
} tp__schema_count;

/** The rules that few schemas have. */
typedef struct tp__schema_more {
  tp__schema_list all_of, any_of, one_of;
  const tp__schema *ref; /* NULL: none, or any */
  const tp__schema *condition, *then, *otherwise;
  const tp__schema *not_, *contains, *names, *rest, *additional;
  bool has_not, has_if, has_contains, has_names, has_rest, has_additional, is_unique;
  tp_text constant, above, below, multiple_of;
  tp__schema_count characters, items, members, containing;
  tp__schema_list prefix; /* of the first items; with has_rest, the last one is the schema of the items after them */
  uint32_t named_count, dependency_count;
  tp__schema_named *named;
  tp__schema_dependency *dependencies;
  tp_text pattern_source;
  const tp__pattern *pattern;
  tp__schema_format format;
} tp__schema_more;

struct tp__schema {
  uint32_t kinds; /* the kinds of values that its type allows: bits 1 << TP_VALUE_* */
  uint32_t property_count;
  uint32_t required_count; /* of the properties */
  bool has_limits;         /* enum, minimum or maximum */
  uint8_t mark;            /* of the search for a schema that contains itself */
  tp_text type, values, minimum, maximum, required;
  const tp__schema *items;         /* NULL: any */
  tp__schema_property *properties; /* those of `properties` in its order, followed by those that are only required */
  const tp__schema_more *more;     /* NULL: none */
  struct tp__schema *next;         /* of all that were compiled together */
};

/** The property with this name; NULL when there is none. The search begins at *next, because the members of a map often
 *  come in the order of its schema, and moves *next past the found property. */
tp__schema_property *tp__schema_find(const tp__schema *s, tp_text name, uint32_t *next);

/* ---- values ---- */

/** The value of the key; empty: the map has no such key, or it is no map. */
tp_text tp__schema_member(tp_text map, tp_text key);

/** Not-a-number is none. */
bool tp__schema_is_number(tp_text value);
/** a > b. Two integers are compared without rounding them to doubles. */
bool tp__schema_above(tp_text a, tp_text b);

/* ---- formats ---- */

/** TP__FORMAT_NONE for a format that is not checked. */
tp__schema_format tp__schema_format_of(tp_text name);
/** The words with which a message names the expected format: "a date as in RFC 3339". */
const char *tp__schema_format_words(tp__schema_format format);
bool tp__schema_format_fits(tp__schema_format format, tp_text text);

#endif
