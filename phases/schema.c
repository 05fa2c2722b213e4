/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/schema.h"

#include "phases/out.h"
#include "runtime/value/value.h"

/* Where we are in a value: the way from the root, printed backwards. The root's name is in the last step. */
typedef struct step {
  const struct step *from; /* NULL: the root */
  tp_text name;            /* or */
  size_t index;            /* when the name is empty */
} step;

static void put_name(tp__out *out, tp_text name) {
  for (size_t i = 0; i < name.size; i++) {
    bool control = (unsigned char)name.data[i] < 0x20 || name.data[i] == 0x7F;
    tp__out_char(out, control ? '?' : name.data[i]);
  }
}

static void put_path(tp__out *out, const step *at) {
  if (at->from) put_path(out, at->from);
  if (at->name.data) {
    if (at->from) tp__out_char(out, '.');
    put_name(out, at->name);
  } else {
    tp__out_char(out, '[');
    tp__out_int(out, (int64_t)at->index);
    tp__out_char(out, ']');
  }
}

static step into(const step *from, tp_text name) { return (step){from, {name.data ? name.data : "", name.size}, 0}; }

#define NAME(string) \
  { string, sizeof(string) - 1 }
static const struct {
  tp_text name;
  uint32_t kinds; /* of values: bits 1 << TP_VALUE_* */
} types[] = {
    {NAME("null"), 1 << TP_VALUE_NULL},   {NAME("boolean"), 1 << TP_VALUE_BOOL},
    {NAME("integer"), 1 << TP_VALUE_INT}, {NAME("number"), 1 << TP_VALUE_INT | 1 << TP_VALUE_DOUBLE},
    {NAME("string"), 1 << TP_VALUE_TEXT}, {NAME("array"), 1 << TP_VALUE_ARRAY},
    {NAME("object"), 1 << TP_VALUE_MAP},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

/* The kinds that a type's name allows, or 0 for what is no type's name. */
static uint32_t kinds_of(tp_text type) {
  if (tp_value_kind_of(type) != TP_VALUE_TEXT) return 0;
  tp_text name = tp_value_text(type);
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    if (tp_text_equal(name, types[i].name)) return types[i].kinds;
  }
  return 0;
}

static bool is_number(tp_text value) {
  tp_value_kind kind = tp_value_kind_of(value);
  if (kind == TP_VALUE_DOUBLE) return tp_value_double(value, 0) == tp_value_double(value, 0); /* NaN is none */
  return kind == TP_VALUE_INT;
}

/* a > b: two integers are not rounded to doubles first. */
static bool above(tp_text a, tp_text b) {
  bool integers = tp_value_kind_of(a) == TP_VALUE_INT && tp_value_kind_of(b) == TP_VALUE_INT;
  if (integers) return tp_value_int(a, 0) > tp_value_int(b, 0);
  return tp_value_double(a, 0) > tp_value_double(b, 0);
}

/* ---- a schema when it is registered ---- */

static tp_status refuse(tp_fault *fault, const step *at, const char *what) {
  char path[TP_FAULT_MESSAGE_SIZE / 2];
  tp__out out = {path, sizeof path, 0};
  put_path(&out, at);
  tp_text shown = {path, out.size < sizeof path ? out.size : sizeof path};
  return tp__fail(fault, TP_ERR_BAD_SCHEMA, NULL, "%.*s: %s", (int)tp__utf8_cut(shown, sizeof path - 4), path, what);
}

static tp_status check_schema(const step *at, tp_text schema, tp_fault *fault);

static tp_status check_type(const step *at, tp_text type, tp_fault *fault) {
  static const char wanted[] = "must be null, boolean, integer, number, string, array or object, or an array of these";
  if (tp_value_kind_of(type) != TP_VALUE_ARRAY) return kinds_of(type) ? TP_OK : refuse(fault, at, wanted);
  if (tp_value_count(type) == 0) return refuse(fault, at, "must name a type");
  for (tp_value_walk walk = {0}; tp_value_next(type, &walk);) {
    if (!kinds_of(walk.value)) return refuse(fault, at, wanted);
  }
  return TP_OK;
}

static tp_status check_properties(const step *at, tp_text properties, tp_fault *fault) {
  if (tp_value_kind_of(properties) != TP_VALUE_MAP) return refuse(fault, at, "must be a map of schemas");
  for (tp_value_walk walk = {0}; tp_value_next(properties, &walk);) {
    step property = into(at, walk.key);
    TP__TRY(check_schema(&property, walk.value, fault));
  }
  return TP_OK;
}

static tp_status check_required(const step *at, tp_text required, tp_fault *fault) {
  bool texts = tp_value_kind_of(required) == TP_VALUE_ARRAY;
  for (tp_value_walk walk = {0}; texts && tp_value_next(required, &walk);) {
    texts = tp_value_kind_of(walk.value) == TP_VALUE_TEXT;
  }
  return texts ? TP_OK : refuse(fault, at, "must be an array of property names");
}

static tp_status check_enum(const step *at, tp_text values, tp_fault *fault) {
  if (tp_value_kind_of(values) == TP_VALUE_ARRAY && tp_value_count(values) > 0) return TP_OK;
  return refuse(fault, at, "must be an array of at least one value");
}

static tp_status check_bound(const step *at, tp_text bound, tp_fault *fault) {
  return is_number(bound) ? TP_OK : refuse(fault, at, "must be a number");
}

static tp_status check_words(const step *at, tp_text words, tp_fault *fault) {
  return tp_value_kind_of(words) == TP_VALUE_TEXT ? TP_OK : refuse(fault, at, "must be a text");
}

static const struct {
  const char *name;
  tp_status (*check)(const step *at, tp_text value, tp_fault *fault);
} keywords[] = {
    {"type", check_type},         {"properties", check_properties},
    {"required", check_required}, {"items", check_schema},
    {"enum", check_enum},         {"minimum", check_bound},
    {"maximum", check_bound},     {"description", check_words},
    {"title", check_words},
};
enum { KEYWORD_COUNT = sizeof keywords / sizeof *keywords };

static tp_status check_keyword(const step *at, tp_text value, tp_fault *fault) {
  for (size_t i = 0; i < KEYWORD_COUNT; i++) {
    if (tp_text_is(at->name, keywords[i].name)) return keywords[i].check(at, value, fault);
  }
  return refuse(fault, at, "is not in the subset: type, properties, required, items, enum, minimum, maximum");
}

/* Ends: tp_value_check() let no value pass that is nested deeper than 32. */
static tp_status check_schema(const step *at, tp_text schema, tp_fault *fault) {
  if (tp_value_kind_of(schema) != TP_VALUE_MAP) return refuse(fault, at, "must be a schema, which is a map");
  for (tp_value_walk walk = {0}; tp_value_next(schema, &walk);) {
    step keyword = into(at, walk.key);
    TP__TRY(check_keyword(&keyword, walk.value, fault));
  }
  tp_text minimum = tp_value_get(schema, "minimum"), maximum = tp_value_get(schema, "maximum");
  if (minimum.size && maximum.size && above(minimum, maximum)) return refuse(fault, at, "minimum is above maximum");
  return TP_OK;
}

tp_status tp__schema_check(tp_text schema, const tp_allocator *allocator, tp_fault *fault) {
  if (schema.size == 0) return TP_OK;
  step root = {.name = tp_text_of("schema")};
  tp_status status = tp__value_check(schema, allocator, NULL);
  if (status == TP_ERR_NO_MEMORY) return tp__fail(fault, status, NULL, "no memory");
  if (status != TP_OK) return refuse(fault, &root, "is not one well-formed value");
  TP__TRY(check_schema(&root, schema, fault));
  tp_text type = tp_value_get(schema, "type");
  if (type.size == 0 || tp_text_is(tp_value_text(type), "object")) return TP_OK;
  return refuse(fault, &root, "type must be object, as arguments are a map");
}

/* ---- a schema when its tool is first called ---- */

typedef struct property {
  tp_text name;
  const tp__schema *schema; /* NULL: any value fits */
  bool required;
} property;

/* The texts are slices of the schema's value; empty where it does not have the keyword. */
struct tp__schema {
  uint32_t kinds; /* of values that its type allows: bits 1 << TP_VALUE_* */
  uint32_t property_count;
  uint32_t required_count; /* of the properties */
  bool has_limits;         /* enum, minimum or maximum */
  tp_text type, values, minimum, maximum, required;
  const tp__schema *items; /* NULL: any */
  property *properties;    /* those of `properties` in its order, then those that are only required */
};

enum { TYPE, ENUM, ITEMS, MINIMUM, MAXIMUM, REQUIRED, PROPERTIES, RULES };
typedef struct rule_set {
  tp_text of[RULES];
} rule_set;

static void read_rules(tp_text schema, rule_set *ret_rules) {
  static const tp_text names[RULES] = {[TYPE] = NAME("type"),
                                       [ENUM] = NAME("enum"),
                                       [ITEMS] = NAME("items"),
                                       [MINIMUM] = NAME("minimum"),
                                       [MAXIMUM] = NAME("maximum"),
                                       [REQUIRED] = NAME("required"),
                                       [PROPERTIES] = NAME("properties")};
  *ret_rules = (rule_set){0};
  for (tp_value_walk walk = {0}; tp_value_next(schema, &walk);) {
    for (size_t i = 0; i < RULES; i++)
      if (tp_text_equal(walk.key, names[i])) ret_rules->of[i] = walk.value;
  }
}

static uint32_t kinds_of_type(tp_text type) {
  if (type.size == 0) return UINT32_MAX;
  if (tp_value_kind_of(type) != TP_VALUE_ARRAY) return kinds_of(type);
  uint32_t kinds = 0;
  for (tp_value_walk walk = {0}; tp_value_next(type, &walk);) kinds |= kinds_of(walk.value);
  return kinds;
}

/* The property of this name, NULL when there is none. The search begins at *next, since the members of a map often come
 * in the order of its schema, and leaves *next behind what it found. */
static property *find_property(const tp__schema *s, tp_text name, uint32_t *next) {
  for (uint32_t i = 0; i < s->property_count; i++) {
    property *at = &s->properties[*next];
    *next = *next + 1 < s->property_count ? *next + 1 : 0;
    if (tp_text_equal(at->name, name)) return at;
  }
  return NULL;
}

static tp_status compile_properties(tp__schema *s, const rule_set *rules, tp__arena *arena) {
  size_t count = tp_value_count(rules->of[PROPERTIES]) + tp_value_count(rules->of[REQUIRED]);
  uint32_t next = 0;
  s->properties = tp__arena_alloc(arena, count * sizeof *s->properties);
  if (!s->properties) return TP_ERR_NO_MEMORY;
  for (tp_value_walk walk = {0}; tp_value_next(rules->of[PROPERTIES], &walk);) {
    property *at = &s->properties[s->property_count++];
    *at = (property){.name = walk.key};
    TP__TRY(tp__schema_compile(walk.value, arena, &at->schema));
  }
  for (tp_value_walk walk = {0}; tp_value_next(rules->of[REQUIRED], &walk);) {
    tp_text name = tp_value_text(walk.value);
    property *at = find_property(s, name, &next);
    if (!at) *(at = &s->properties[s->property_count++]) = (property){.name = name};
    s->required_count += !at->required;
    at->required = true;
  }
  return TP_OK;
}

/* Ends: a checked value is nested at most 32 deep. */
tp_status tp__schema_compile(tp_text schema, tp__arena *arena, const tp__schema **ret_schema) {
  rule_set rules;
  *ret_schema = NULL;
  if (schema.size == 0) return TP_OK;
  tp__schema *s = tp__arena_alloc(arena, sizeof *s);
  if (!s) return TP_ERR_NO_MEMORY;
  read_rules(schema, &rules);
  *s = (tp__schema){.kinds = kinds_of_type(rules.of[TYPE]),
                    .type = rules.of[TYPE],
                    .values = rules.of[ENUM],
                    .minimum = rules.of[MINIMUM],
                    .maximum = rules.of[MAXIMUM],
                    .required = rules.of[REQUIRED]};
  s->has_limits = s->values.size || s->minimum.size || s->maximum.size;
  if (rules.of[ITEMS].size) TP__TRY(tp__schema_compile(rules.of[ITEMS], arena, &s->items));
  TP__TRY(compile_properties(s, &rules, arena));
  *ret_schema = s;
  return TP_OK;
}

/* ---- whether arguments fit ---- */

static tp_text member(tp_text map, tp_text key) {
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    if (tp_text_equal(walk.key, key)) return walk.value;
  }
  return (tp_text){NULL, 0};
}

/* Equal as JSON has it: 1 is 1.0, and the order of a map means nothing. a is the schema's, so the walk through b for
 * each key of a map costs no more than the schema is long. */
static bool equal(tp_text a, tp_text b) {
  tp_value_kind kind = tp_value_kind_of(a);
  if (is_number(a) && is_number(b)) return !above(a, b) && !above(b, a);
  if (kind != tp_value_kind_of(b)) return false;
  if (kind == TP_VALUE_TEXT || kind == TP_VALUE_BYTES) return tp_text_equal(tp_value_text(a), tp_value_text(b));
  if (kind == TP_VALUE_BOOL) return tp_value_bool(a, false) == tp_value_bool(b, false);
  if (kind != TP_VALUE_ARRAY && kind != TP_VALUE_MAP) return kind == TP_VALUE_NULL;
  if (tp_value_count(a) != tp_value_count(b)) return false;
  tp_value_walk walk_a = {0}, walk_b = {0};
  while (tp_value_next(a, &walk_a)) {
    if (kind == TP_VALUE_ARRAY && !tp_value_next(b, &walk_b)) return false;
    tp_text other = kind == TP_VALUE_ARRAY ? walk_b.value : member(b, walk_a.key);
    if (!equal(walk_a.value, other)) return false;
  }
  return true;
}

static bool in_enum(tp_text values, tp_text value) {
  for (tp_value_walk walk = {0}; tp_value_next(values, &walk);) {
    if (equal(walk.value, value)) return true;
  }
  return false;
}

/* A bound says nothing of what is no number, and not-a-number is outside of any. */
static bool is_outside(tp_text bound, tp_text greater, tp_text smaller, tp_text value) {
  tp_value_kind kind = tp_value_kind_of(value);
  if (!bound.size || (kind != TP_VALUE_INT && kind != TP_VALUE_DOUBLE)) return false;
  return !is_number(value) || above(greater, smaller);
}

static bool is_below(const tp__schema *s, tp_text value) { return is_outside(s->minimum, s->minimum, value, value); }
static bool is_above(const tp__schema *s, tp_text value) { return is_outside(s->maximum, value, s->maximum, value); }

static bool limits_fit(const tp__schema *s, tp_text value) {
  return (!s->values.size || in_enum(s->values, value)) && !is_below(s, value) && !is_above(s, value);
}

static bool fits(const tp__schema *s, tp_text bytes, size_t *at);

static bool items_fit(const tp__schema *s, tp_text bytes, size_t count, size_t *at) {
  for (size_t i = 0; i < count; i++)
    if (!fits(s->items, bytes, at)) return false;
  return true;
}

/* The keys of a checked map are unique, so counting the required ones is enough. */
static bool members_fit(const tp__schema *s, tp_text bytes, size_t count, size_t *at) {
  uint32_t required = 0, next = 0;
  for (size_t i = 0; i < count; i++) {
    tp__head key = {0};
    if (tp__head_read(bytes, *at, &key) != TP__HEAD_OK) return false;
    const property *found = find_property(s, (tp_text){bytes.data + *at + key.size, key.content}, &next);
    *at += key.size + key.content;
    if (!fits(found ? found->schema : NULL, bytes, at)) return false;
    if (found) required += found->required;
  }
  return required == s->required_count;
}

/* Whether the value at *at fits; then *at is behind it. bytes were checked. */
static bool fits(const tp__schema *s, tp_text bytes, size_t *at) {
  tp__head head = {0};
  if (!s) {
    *at += tp__value_size(bytes, *at);
    return true;
  }
  if (tp__head_read(bytes, *at, &head) != TP__HEAD_OK || !(s->kinds >> head.kind & 1)) return false;
  if (s->has_limits && !limits_fit(s, (tp_text){bytes.data + *at, tp__value_size(bytes, *at)})) return false;
  *at += head.size + head.content;
  if (head.kind == TP_VALUE_ARRAY) return items_fit(s, bytes, head.children, at);
  return head.kind != TP_VALUE_MAP || members_fit(s, bytes, head.children / 2, at);
}

static bool value_fits(const tp__schema *s, tp_text value) {
  size_t at = 0;
  return fits(s, value, &at);
}

/* ---- why arguments do not fit: the first reason in the order of the schema ---- */

static const char *name_of_kind(tp_value_kind kind) {
  static const char *const names[] = {
      [TP_VALUE_NULL] = "null",   [TP_VALUE_BOOL] = "boolean", [TP_VALUE_INT] = "integer", [TP_VALUE_DOUBLE] = "number",
      [TP_VALUE_TEXT] = "string", [TP_VALUE_BYTES] = "bytes",  [TP_VALUE_ARRAY] = "array", [TP_VALUE_MAP] = "object"};
  return TP__NAME_AT(names, kind, "nothing");
}

static void explain_type(tp__out *why, tp_text type, tp_value_kind kind) {
  bool several = tp_value_kind_of(type) == TP_VALUE_ARRAY;
  tp__out_string(why, ": expected ");
  if (!several) tp__out_text(why, tp_value_text(type));
  for (size_t i = 0; several && i < tp_value_count(type); i++) {
    if (i > 0) tp__out_string(why, " or ");
    tp__out_text(why, tp_value_text(tp_value_at(type, i)));
  }
  tp__out_string(why, ", got ");
  tp__out_string(why, name_of_kind(kind));
}

static void explain_enum(tp__out *why, tp_text values) {
  bool first = true;
  tp__out_string(why, ": must be one of ");
  for (tp_value_walk walk = {0}; tp_value_next(values, &walk); first = false) {
    if (!first) tp__out_string(why, ", ");
    tp__out_json(why, walk.value);
  }
}

static void explain_bound(tp__out *why, const char *words, tp_text bound) {
  tp__out_string(why, words);
  tp__out_json(why, bound);
}

static void explain(tp__out *why, const step *at, const tp__schema *s, tp_text value);

static void explain_items(tp__out *why, const step *at, const tp__schema *s, tp_text array) {
  step item = {.from = at};
  for (tp_value_walk walk = {0}; tp_value_next(array, &walk); item.index++) {
    if (value_fits(s->items, walk.value)) continue;
    explain(why, &item, s->items, walk.value);
    return;
  }
}

static void explain_members(tp__out *why, const step *at, const tp__schema *s, tp_text map) {
  for (tp_value_walk walk = {0}; tp_value_next(s->required, &walk);) {
    if (member(map, tp_value_text(walk.value)).size) continue;
    step missing = into(at, tp_value_text(walk.value));
    put_path(why, &missing);
    tp__out_string(why, ": is required and missing");
    return;
  }
  for (uint32_t i = 0; i < s->property_count; i++) {
    tp_text value = member(map, s->properties[i].name);
    if (!value.size || value_fits(s->properties[i].schema, value)) continue;
    step wrong = into(at, s->properties[i].name);
    explain(why, &wrong, s->properties[i].schema, value);
    return;
  }
}

static void explain(tp__out *why, const step *at, const tp__schema *s, tp_text value) {
  tp_value_kind kind = tp_value_kind_of(value);
  bool allowed = s->kinds >> kind & 1;
  if (allowed && limits_fit(s, value)) {
    if (kind == TP_VALUE_ARRAY) explain_items(why, at, s, value);
    else explain_members(why, at, s, value);
    return;
  }
  put_path(why, at);
  if (!allowed) explain_type(why, s->type, kind);
  else if (s->values.size && !in_enum(s->values, value)) explain_enum(why, s->values);
  else if (is_below(s, value)) explain_bound(why, ": is below the minimum ", s->minimum);
  else explain_bound(why, ": is above the maximum ", s->maximum);
}

/* ---- arguments ---- */

static bool arguments_fit(tp__out *why, const tp__schema *schema, tp_text arguments) {
  static const step root = {.name = {"arguments", 9}};
  tp_value_kind kind = tp_value_kind_of(arguments);
  if (kind != TP_VALUE_MAP) {
    tp__out_string(why, "arguments: expected object, got ");
    tp__out_string(why, name_of_kind(kind));
    return false;
  }
  if (!schema || value_fits(schema, arguments)) return true;
  explain(why, &root, schema, arguments);
  return false;
}

tp_status tp__schema_validate(const tp__schema *schema, tp_text arguments, char *message, size_t size) {
  char text[TP__SCHEMA_MESSAGE_SIZE];
  tp__out why = {text, sizeof text, 0};
  tp_status status = tp_value_check(arguments, NULL);
  if (status == TP_OK) {
    if (arguments_fit(&why, schema, arguments)) return TP_OK;
    status = TP_ERR_MALFORMED;
  } else if (status == TP_ERR_NO_MEMORY) {
    tp__out_string(&why, "arguments: no memory to check them");
  } else {
    status = TP_ERR_MALFORMED;
    tp__out_string(&why, "arguments: not one well-formed value");
  }
  if (size == 0) return status;
  size_t kept = tp__utf8_cut((tp_text){text, why.size < sizeof text ? why.size : sizeof text}, sizeof text - 4);
  kept = tp__utf8_cut((tp_text){text, kept}, size - 1);
  memcpy(message, text, kept);
  message[kept] = '\0';
  return status;
}
