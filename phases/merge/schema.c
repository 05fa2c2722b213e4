/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/merge/schema_fit.h"

#include "runtime/value/value.h"

typedef tp__schema_step step;

/* ---- where we are in a value ---- */

static void put_name(tp__out *out, tp_text name) {
  for (size_t i = 0; i < name.size; i++) {
    bool control = (unsigned char)name.data[i] < 0x20 || name.data[i] == 0x7F;
    tp__out_char(out, control ? '?' : name.data[i]);
  }
}

void tp__schema_put_path(tp__out *out, const tp__schema_step *at) {
  if (at->from) tp__schema_put_path(out, at->from);
  if (at->name.data) {
    if (at->from) tp__out_char(out, '.');
    put_name(out, at->name);
  } else {
    tp__out_char(out, '[');
    tp__out_int(out, (int64_t)at->index);
    tp__out_char(out, ']');
  }
}

tp__schema_step tp__schema_into(const tp__schema_step *from, tp_text name) {
  return (tp__schema_step){from, {name.data ? name.data : "", name.size}, 0};
}

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

/* The kinds that the name of a type allows; 0 when it is no name of a type. */
static uint32_t kinds_of(tp_text type) {
  if (tp_value_kind_of(type) != TP_VALUE_TEXT) return 0;
  tp_text name = tp_value_text(type);
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    if (tp_text_equal(name, types[i].name)) return types[i].kinds;
  }
  return 0;
}

bool tp__schema_is_number(tp_text value) {
  tp_value_kind kind = tp_value_kind_of(value);
  if (kind == TP_VALUE_DOUBLE) return tp_value_double(value, 0) == tp_value_double(value, 0); /* NaN is none */
  return kind == TP_VALUE_INT;
}

bool tp__schema_above(tp_text a, tp_text b) {
  bool integers = tp_value_kind_of(a) == TP_VALUE_INT && tp_value_kind_of(b) == TP_VALUE_INT;
  if (integers) return tp_value_int(a, 0) > tp_value_int(b, 0);
  return tp_value_double(a, 0) > tp_value_double(b, 0);
}

/* ---- a schema at its registration: the form of its keywords ---- */

/* The state of the check of a schema's form. */
typedef struct checker {
  /* gets the names of everything that will not be checked, each once, separated by commas; NULL: not wanted */
  tp__out *unchecked;
  tp_fault *fault;
  bool has_links; /* there is a $ref or a pattern, which is checked when it is compiled */
} checker;

static tp_status refuse_schema(checker *c, const step *at, const char *what) {
  char path[TP_FAULT_MESSAGE_SIZE / 2];
  tp__out out = {path, sizeof path, 0};
  tp__schema_put_path(&out, at);
  tp_text shown = {path, out.size < sizeof path ? out.size : sizeof path};
  return tp__fail(c->fault, TP_ERR_BAD_SCHEMA, NULL, "%.*s: %s", (int)tp__utf8_cut(shown, sizeof path - 4), path, what);
}

static bool was_noted(const tp__out *list, tp_text name) {
  size_t size = list->size < list->capacity ? list->size : list->capacity;
  for (size_t i = 0; i + name.size <= size; i++) {
    bool begins = i == 0 || list->data[i - 1] == ' ', ends = i + name.size == size || list->data[i + name.size] == ',';
    if (begins && ends && memcmp(list->data + i, name.data, name.size) == 0) return true;
  }
  return false;
}

/* `kind` and a blank precede a name that belongs to a kind: "format email". */
static void note_unchecked(checker *c, const char *kind, tp_text name) {
  char whole[96];
  if (!c->unchecked) return;
  tp__out out = {whole, sizeof whole, 0};
  tp__out_string(&out, kind);
  for (size_t i = 0; i < name.size; i++)
    tp__out_char(&out, name.data[i] == ',' || name.data[i] == ' ' ? '?' : name.data[i]);
  tp_text shown = {whole,
                   tp__utf8_cut((tp_text){whole, out.size < sizeof whole ? out.size : sizeof whole}, sizeof whole - 4)};
  if (was_noted(c->unchecked, shown)) return;
  if (c->unchecked->size > 0) tp__out_string(c->unchecked, ", ");
  tp__out_text(c->unchecked, shown);
}

static tp_status check_schema(checker *c, const step *at, tp_text schema);

static tp_status check_type(checker *c, const step *at, tp_text type) {
  static const char wanted[] = "must be null, boolean, integer, number, string, array or object, or an array of these";
  if (tp_value_kind_of(type) != TP_VALUE_ARRAY) return kinds_of(type) ? TP_OK : refuse_schema(c, at, wanted);
  if (tp_value_count(type) == 0) return refuse_schema(c, at, "must name a type");
  for (tp_value_walk walk = {0}; tp_value_next(type, &walk);) {
    if (!kinds_of(walk.value)) return refuse_schema(c, at, wanted);
  }
  return TP_OK;
}

static tp_status check_properties(checker *c, const step *at, tp_text properties) {
  if (tp_value_kind_of(properties) != TP_VALUE_MAP) return refuse_schema(c, at, "must be a map of schemas");
  for (tp_value_walk walk = {0}; tp_value_next(properties, &walk);) {
    step property = tp__schema_into(at, walk.key);
    TP__TRY(check_schema(c, &property, walk.value));
  }
  return TP_OK;
}

static tp_status check_list(checker *c, const step *at, tp_text list) {
  step item = {.from = at};
  if (tp_value_kind_of(list) != TP_VALUE_ARRAY || tp_value_count(list) == 0)
    return refuse_schema(c, at, "must be an array of at least one schema");
  for (tp_value_walk walk = {0}; tp_value_next(list, &walk); item.index++) TP__TRY(check_schema(c, &item, walk.value));
  return TP_OK;
}

/* Up to draft 2019-09 `items` could be an array with a schema for each item. */
static tp_status check_items(checker *c, const step *at, tp_text items) {
  return tp_value_kind_of(items) == TP_VALUE_ARRAY && tp_value_count(items) > 0 ? check_list(c, at, items)
                                                                                : check_schema(c, at, items);
}

static bool is_list_of_names(tp_text list) {
  bool texts = tp_value_kind_of(list) == TP_VALUE_ARRAY;
  for (tp_value_walk walk = {0}; texts && tp_value_next(list, &walk);) {
    texts = tp_value_kind_of(walk.value) == TP_VALUE_TEXT;
  }
  return texts;
}

static tp_status check_required(checker *c, const step *at, tp_text required) {
  return is_list_of_names(required) ? TP_OK : refuse_schema(c, at, "must be an array of property names");
}

static tp_status check_dependencies(checker *c, const step *at, tp_text dependencies) {
  if (tp_value_kind_of(dependencies) != TP_VALUE_MAP)
    return refuse_schema(c, at, "must be a map of arrays of property names, or of schemas");
  for (tp_value_walk walk = {0}; tp_value_next(dependencies, &walk);) {
    step dependency = tp__schema_into(at, walk.key);
    if (!is_list_of_names(walk.value)) TP__TRY(check_schema(c, &dependency, walk.value));
  }
  return TP_OK;
}

static tp_status check_named(checker *c, const step *at, tp_text named) {
  TP__TRY(check_properties(c, at, named));
  c->has_links = true;
  return TP_OK;
}

static tp_status check_enum(checker *c, const step *at, tp_text values) {
  if (tp_value_kind_of(values) == TP_VALUE_ARRAY && tp_value_count(values) > 0) return TP_OK;
  return refuse_schema(c, at, "must be an array of at least one value");
}

static tp_status check_bound(checker *c, const step *at, tp_text bound) {
  return tp__schema_is_number(bound) ? TP_OK : refuse_schema(c, at, "must be a number");
}

/* In draft 4 this keyword is true or false, next to minimum or maximum. */
static tp_status check_edge(checker *c, const step *at, tp_text bound) {
  return tp_value_kind_of(bound) == TP_VALUE_BOOL ? TP_OK : check_bound(c, at, bound);
}

static tp_status check_multiple(checker *c, const step *at, tp_text number) {
  bool is_positive = tp__schema_is_number(number) && tp_value_double(number, 0) > 0;
  return is_positive ? TP_OK : refuse_schema(c, at, "must be a number above 0");
}

/* 2.0 is an integer of JSON, too. */
static int64_t schema_count(tp_text value) {
  if (tp_value_kind_of(value) == TP_VALUE_INT) return tp_value_int(value, -1);
  double number = tp_value_kind_of(value) == TP_VALUE_DOUBLE ? tp_value_double(value, -1) : -1;
  return number >= 0 && number < 9e15 && (double)(int64_t)number == number ? (int64_t)number : -1;
}

static tp_status check_count(checker *c, const step *at, tp_text count) {
  return schema_count(count) >= 0 ? TP_OK : refuse_schema(c, at, "must be an integer of at least 0");
}

static tp_status check_bool(checker *c, const step *at, tp_text value) {
  return tp_value_kind_of(value) == TP_VALUE_BOOL ? TP_OK : refuse_schema(c, at, "must be true or false");
}

static tp_status check_words(checker *c, const step *at, tp_text words) {
  return tp_value_kind_of(words) == TP_VALUE_TEXT ? TP_OK : refuse_schema(c, at, "must be a text");
}

/* Whether the pattern is supported is known only when it is compiled. */
static tp_status check_pattern(checker *c, const step *at, tp_text pattern) {
  c->has_links = true;
  return check_words(c, at, pattern);
}

/* So is where it leads. */
static tp_status check_ref(checker *c, const step *at, tp_text ref) {
  c->has_links = true;
  return check_words(c, at, ref);
}

static tp_status check_format(checker *c, const step *at, tp_text format) {
  TP__TRY(check_words(c, at, format));
  tp_text name = tp_value_text(format);
  if (tp__schema_format_of(name) == TP__FORMAT_NONE) note_unchecked(c, "format ", name);
  return TP_OK;
}

static tp_status check_nothing(checker *c, const step *at, tp_text value) {
  (void)c, (void)at, (void)value;
  return TP_OK;
}

enum {
  TYPE,
  ENUM,
  ITEMS,
  MINIMUM,
  MAXIMUM,
  REQUIRED,
  PROPERTIES,
  OTHERS, /* from here on in tp__schema_more */
  REF = OTHERS,
  ALL_OF,
  ANY_OF,
  ONE_OF,
  NOT,
  IF,
  THEN,
  ELSE,
  CONST,
  ABOVE,
  BELOW,
  MULTIPLE_OF,
  MIN_LENGTH,
  MAX_LENGTH,
  PATTERN,
  FORMAT,
  PREFIX_ITEMS,
  ADDITIONAL_ITEMS,
  MIN_ITEMS,
  MAX_ITEMS,
  UNIQUE_ITEMS,
  CONTAINS,
  MIN_CONTAINS,
  MAX_CONTAINS,
  MIN_PROPERTIES,
  MAX_PROPERTIES,
  ADDITIONAL_PROPERTIES,
  PATTERN_PROPERTIES,
  PROPERTY_NAMES,
  DEPENDENT_REQUIRED,
  DEPENDENT_SCHEMAS,
  DEPENDENCIES,
  RULES,
  ANNOTATION = RULES /* a keyword that by itself demands nothing of a value */
};

/* In the order of their sizes, because a name is compared only with keywords of its own size. */
static const struct keyword {
  tp_text name;
  tp_status (*check)(checker *c, const step *at, tp_text value);
  uint8_t rule;
} keywords[] = {
    {NAME("if"), check_schema, IF},
    {NAME("id"), check_nothing, ANNOTATION},
    {NAME("not"), check_schema, NOT},
    {NAME("$id"), check_nothing, ANNOTATION},
    {NAME("type"), check_type, TYPE},
    {NAME("enum"), check_enum, ENUM},
    {NAME("then"), check_schema, THEN},
    {NAME("else"), check_schema, ELSE},
    {NAME("$ref"), check_ref, REF},
    {NAME("items"), check_items, ITEMS},
    {NAME("title"), check_words, ANNOTATION},
    {NAME("const"), check_nothing, CONST},
    {NAME("allOf"), check_list, ALL_OF},
    {NAME("anyOf"), check_list, ANY_OF},
    {NAME("oneOf"), check_list, ONE_OF},
    {NAME("$defs"), check_properties, ANNOTATION},
    {NAME("format"), check_format, FORMAT},
    {NAME("minimum"), check_bound, MINIMUM},
    {NAME("maximum"), check_bound, MAXIMUM},
    {NAME("pattern"), check_pattern, PATTERN},
    {NAME("$schema"), check_nothing, ANNOTATION},
    {NAME("$anchor"), check_nothing, ANNOTATION},
    {NAME("default"), check_nothing, ANNOTATION},
    {NAME("example"), check_nothing, ANNOTATION},
    {NAME("required"), check_required, REQUIRED},
    {NAME("minItems"), check_count, MIN_ITEMS},
    {NAME("maxItems"), check_count, MAX_ITEMS},
    {NAME("contains"), check_schema, CONTAINS},
    {NAME("$comment"), check_nothing, ANNOTATION},
    {NAME("examples"), check_nothing, ANNOTATION},
    {NAME("readOnly"), check_nothing, ANNOTATION},
    {NAME("minLength"), check_count, MIN_LENGTH},
    {NAME("maxLength"), check_count, MAX_LENGTH},
    {NAME("writeOnly"), check_nothing, ANNOTATION},
    {NAME("properties"), check_properties, PROPERTIES},
    {NAME("multipleOf"), check_multiple, MULTIPLE_OF},
    {NAME("deprecated"), check_nothing, ANNOTATION},
    {NAME("description"), check_words, ANNOTATION},
    {NAME("prefixItems"), check_list, PREFIX_ITEMS},
    {NAME("uniqueItems"), check_bool, UNIQUE_ITEMS},
    {NAME("minContains"), check_count, MIN_CONTAINS},
    {NAME("maxContains"), check_count, MAX_CONTAINS},
    {NAME("definitions"), check_properties, ANNOTATION},
    {NAME("$vocabulary"), check_nothing, ANNOTATION},
    {NAME("dependencies"), check_dependencies, DEPENDENCIES},
    {NAME("minProperties"), check_count, MIN_PROPERTIES},
    {NAME("maxProperties"), check_count, MAX_PROPERTIES},
    {NAME("propertyNames"), check_schema, PROPERTY_NAMES},
    {NAME("additionalItems"), check_schema, ADDITIONAL_ITEMS},
    {NAME("exclusiveMinimum"), check_edge, ABOVE},
    {NAME("exclusiveMaximum"), check_edge, BELOW},
    {NAME("dependentSchemas"), check_dependencies, DEPENDENT_SCHEMAS},
    {NAME("patternProperties"), check_named, PATTERN_PROPERTIES},
    {NAME("dependentRequired"), check_dependencies, DEPENDENT_REQUIRED},
    {NAME("additionalProperties"), check_schema, ADDITIONAL_PROPERTIES},
};

/* For each size, the index of the first keyword of that size. */
static const uint8_t first_of_size[] = {0,  0,  0,  2,  4,  9,  16, 17, 24, 31, 34,
                                        37, 44, 45, 48, 48, 49, 52, 54, 54, 54, 55};
enum { KEYWORD_SIZE_MAX = sizeof first_of_size - 2 };

static const struct keyword *find_keyword(tp_text name) {
  if (name.size > KEYWORD_SIZE_MAX) return NULL;
  for (size_t i = first_of_size[name.size]; i < first_of_size[name.size + 1]; i++) {
    TP__ASSERT(keywords[i].name.size == name.size);
    if (memcmp(keywords[i].name.data, name.data, name.size) == 0) return &keywords[i];
  }
  return NULL;
}

/* A keyword that begins with x- is a private note, and is allowed. */
static tp_status check_keyword(checker *c, const step *at, tp_text value) {
  const struct keyword *known = find_keyword(at->name);
  if (known) return known->check(c, at, value);
  if (at->name.size < 2 || memcmp(at->name.data, "x-", 2) != 0) note_unchecked(c, "", at->name);
  return TP_OK;
}

/* The recursion ends, because tp_value_check() lets no value pass that is nested deeper than 32. */
static tp_status check_schema(checker *c, const step *at, tp_text schema) {
  if (tp_value_kind_of(schema) == TP_VALUE_BOOL && at->from) return TP_OK;
  if (tp_value_kind_of(schema) != TP_VALUE_MAP)
    return refuse_schema(
        c, at, at->from ? "must be a schema, which is a map, true or false" : "must be a schema, which is a map");
  for (tp_value_walk walk = {0}; tp_value_next(schema, &walk);) {
    step keyword = tp__schema_into(at, walk.key);
    TP__TRY(check_keyword(c, &keyword, walk.value));
  }
  tp_text minimum = tp_value_get(schema, "minimum"), maximum = tp_value_get(schema, "maximum");
  if (minimum.size && maximum.size && tp__schema_above(minimum, maximum))
    return refuse_schema(c, at, "minimum is above maximum");
  return TP_OK;
}

/* ---- where a $ref leads ---- */

/* A schema to which a $ref leads. It is compiled once. */
typedef struct target {
  const char *place; /* of its value */
  const tp__schema *schema;
  struct target *next;
} target;

typedef struct compiler {
  tp__arena *arena;
  tp_text root;
  target *targets;
  tp__schema *all; /* that were compiled */
  checker *checks; /* NULL: the schema was checked before */
} compiler;

/* Whether a map begins a resource of its own, with its own anchors. */
static bool is_resource(tp_text map) {
  tp_text id = tp_value_text(tp_value_get(map, "$id"));
  return id.size > 0 && id.data[0] != '#';
}

/* Finds the schema in `value` whose keyword has this text: an id, or an anchor, which is searched in one resource
 * only. */
static tp_text find_by(tp_text value, const char *keyword, tp_text text, bool in_all) {
  tp_value_kind kind = tp_value_kind_of(value);
  if (kind != TP_VALUE_MAP && kind != TP_VALUE_ARRAY) return (tp_text){NULL, 0};
  tp_text own = kind == TP_VALUE_MAP ? tp_value_get(value, keyword) : (tp_text){NULL, 0};
  if (tp_value_kind_of(own) == TP_VALUE_TEXT && tp_text_equal(tp_value_text(own), text)) return value;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);) {
    if (!in_all && tp_value_kind_of(walk.value) == TP_VALUE_MAP && is_resource(walk.value)) continue;
    tp_text found = find_by(walk.value, keyword, text, in_all);
    if (found.size) return found;
  }
  return (tp_text){NULL, 0};
}

/* The drafts have had three words for it. */
static tp_text find_anchor(tp_text resource, tp_text name, tp_text with_hash) {
  tp_text found = find_by(resource, "$anchor", name, false);
  if (!found.size) found = find_by(resource, "$dynamicAnchor", name, false);
  if (!found.size) found = find_by(resource, "$id", with_hash, false);
  return found.size ? found : find_by(resource, "id", with_hash, false);
}

/* Decodes one name of a JSON pointer in a fragment (RFC 6901, section 6): %XX, then ~1 and ~0. @return its size;
 * SIZE_MAX: it does not fit, or is malformed. */
static size_t decode_name(tp_text coded, char *name, size_t room) {
  TP__ASSERT(room > 0);
  size_t size = 0;
  for (size_t i = 0; i < coded.size; i++) {
    char c = coded.data[i];
    if (c == '%') {
      int high = i + 2 < coded.size ? tp__hex_digit(coded.data[i + 1]) : -1,
          low = high < 0 ? -1 : tp__hex_digit(coded.data[i + 2]);
      if (low < 0) return SIZE_MAX;
      c = (char)(high << 4 | low);
      i += 2;
    }
    bool is_second = size > 0 && name[size - 1] == '~' && (c == '0' || c == '1');
    if (is_second) name[size - 1] = c == '0' ? '\x01' : '/'; /* not to be taken for a ~ again */
    else if (size == room) return SIZE_MAX;
    else name[size++] = c;
  }
  for (size_t i = 0; i < size; i++)
    if (name[i] == '\x01') name[i] = '~';
  return size;
}

static tp_text item_at(tp_text array, tp_text digits) {
  size_t index = 0;
  for (size_t i = 0; i < digits.size; i++) {
    if (digits.data[i] < '0' || digits.data[i] > '9' || index > UINT32_MAX) return (tp_text){NULL, 0};
    index = 10 * index + (size_t)(digits.data[i] - '0');
  }
  return digits.size && index < tp_value_count(array) ? tp_value_at(array, index) : (tp_text){NULL, 0};
}

tp_text tp__schema_member(tp_text map, tp_text key) {
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    if (tp_text_equal(walk.key, key)) return walk.value;
  }
  return (tp_text){NULL, 0};
}

static tp_text follow(tp_text from, tp_text pointer) {
  char name[256];
  while (pointer.size > 0 && from.size > 0) {
    const char *begin = pointer.data + 1, *end = memchr(begin, '/', pointer.size - 1);
    size_t size = end ? (size_t)(end - begin) : pointer.size - 1;
    size_t decoded = decode_name((tp_text){begin, size}, name, sizeof name);
    if (decoded == SIZE_MAX) return (tp_text){NULL, 0};
    tp_text key = {name, decoded};
    from = tp_value_kind_of(from) == TP_VALUE_ARRAY ? item_at(from, key) : tp__schema_member(from, key);
    pointer = (tp_text){begin + size, pointer.size - 1 - size};
  }
  return from;
}

/* Resolves a reference of the resource `base` to a schema; empty: it leads to nothing. *ret_resource is the resource in
 * which a pointer of that schema begins.
 * @return whether the reference leads into this schema. */
static bool resolve(const compiler *c, tp_text base, tp_text ref, tp_text *ret_schema, tp_text *ret_resource) {
  const char *hash = memchr(ref.data, '#', ref.size);
  tp_text uri = {ref.data, hash ? (size_t)(hash - ref.data) : ref.size};
  tp_text fragment = {hash ? hash + 1 : ref.data, hash ? ref.size - uri.size - 1 : 0};
  *ret_resource = base;
  if (uri.size > 0) *ret_resource = find_by(c->root, "$id", uri, true);
  if (ret_resource->size == 0) return false;
  if (fragment.size == 0) {
    *ret_schema = *ret_resource;
  } else if (fragment.data[0] == '/') {
    *ret_schema = follow(*ret_resource, fragment);
  } else {
    *ret_schema = find_anchor(*ret_resource, fragment, (tp_text){hash, fragment.size + 1});
  }
  return true;
}

/* ---- a schema when its tool is called for the first time ---- */

typedef struct rule_set {
  tp_text of[RULES];
  bool has_others;
} rule_set;

static uint32_t kinds_of_type(tp_text type) {
  if (type.size == 0) return UINT32_MAX;
  if (tp_value_kind_of(type) != TP_VALUE_ARRAY) return kinds_of(type);
  uint32_t kinds = 0;
  for (tp_value_walk walk = {0}; tp_value_next(type, &walk);) kinds |= kinds_of(walk.value);
  return kinds;
}

tp__schema_property *tp__schema_find(const tp__schema *s, tp_text name, uint32_t *next) {
  for (uint32_t i = 0; i < s->property_count; i++) {
    tp__schema_property *at = &s->properties[*next];
    TP__ASSERT(*next < s->property_count);
    *next = *next + 1 < s->property_count ? *next + 1 : 0;
    if (tp_text_equal(at->name, name)) return at;
  }
  return NULL;
}

/* @param base the resource that contains the schema; the schema itself when it has an $id. */
static tp_status compile(compiler *c, tp_text base, tp_text schema, const tp__schema **ret_schema);

static tp_status compile_properties(compiler *c, tp_text base, tp__schema *s, const rule_set *rules) {
  size_t count = tp_value_count(rules->of[PROPERTIES]) + tp_value_count(rules->of[REQUIRED]);
  uint32_t next = 0;
  s->properties = tp__arena_alloc(c->arena, count * sizeof *s->properties);
  if (!s->properties) return TP_ERR_NO_MEMORY;
  for (tp_value_walk walk = {0}; tp_value_next(rules->of[PROPERTIES], &walk);) {
    tp__schema_property *at = &s->properties[s->property_count++];
    *at = (tp__schema_property){.name = walk.key};
    TP__TRY(compile(c, base, walk.value, &at->schema));
  }
  for (tp_value_walk walk = {0}; tp_value_next(rules->of[REQUIRED], &walk);) {
    tp_text name = tp_value_text(walk.value);
    tp__schema_property *at = tp__schema_find(s, name, &next);
    if (!at)
      *(at = &s->properties[s->property_count++]) = (tp__schema_property){.name = name, .is_only_required = true};
    s->required_count += !at->required;
    at->required = true;
  }
  return TP_OK;
}

static tp_status compile_list(compiler *c, tp_text base, tp_text list, tp__schema_list *ret_list) {
  ret_list->of = tp__arena_alloc(c->arena, tp_value_count(list) * sizeof *ret_list->of);
  if (!ret_list->of) return TP_ERR_NO_MEMORY;
  for (tp_value_walk walk = {0}; tp_value_next(list, &walk);)
    TP__TRY(compile(c, base, walk.value, &ret_list->of[ret_list->count++]));
  return TP_OK;
}

/* Only where the keyword is there. */
static tp_status compile_one(compiler *c, tp_text base, tp_text schema, const tp__schema **ret_schema, bool *ret_has) {
  *ret_has = schema.size > 0;
  return *ret_has ? compile(c, base, schema, ret_schema) : TP_OK;
}

static tp_status compile_pattern(const compiler *c, tp_text source, const tp__pattern **ret_pattern) {
  TP__TRY(tp__pattern_compile(source, c->arena, ret_pattern));
  if (!*ret_pattern && c->checks) note_unchecked(c->checks, "pattern ", source);
  return TP_OK;
}

static tp_status compile_dependencies(compiler *c, tp_text base, const rule_set *rules, tp__schema_more *m) {
  size_t count = 0;
  for (size_t i = DEPENDENT_REQUIRED; i <= DEPENDENCIES; i++) count += tp_value_count(rules->of[i]);
  m->dependencies = tp__arena_alloc(c->arena, count * sizeof *m->dependencies);
  if (!m->dependencies) return TP_ERR_NO_MEMORY;
  for (size_t i = DEPENDENT_REQUIRED; i <= DEPENDENCIES; i++) {
    for (tp_value_walk walk = {0}; tp_value_next(rules->of[i], &walk);) {
      tp__schema_dependency *one = &m->dependencies[m->dependency_count++];
      *one = (tp__schema_dependency){.name = walk.key};
      if (tp_value_kind_of(walk.value) == TP_VALUE_ARRAY) one->required = walk.value;
      else TP__TRY(compile(c, base, walk.value, &one->schema));
    }
  }
  return TP_OK;
}

/* Each target is entered in the list before it is complete, and compiled once, because a schema may be a part of
 * itself. */
static tp_status compile_target(compiler *c, tp_text resource, tp_text schema, const tp__schema **ret_schema);

static tp_status compile_ref(compiler *c, tp_text base, tp_text ref, const tp__schema **ret_schema) {
  tp_text schema, resource;
  if (!resolve(c, base, ref, &schema, &resource)) {
    if (c->checks) note_unchecked(c->checks, "$ref ", ref);
    return TP_OK;
  }
  if (c->checks) {
    step place = {.name = tp_text_of("schema")}, at = tp__schema_into(&place, tp_text_of("$ref"));
    if (!schema.size) return refuse_schema(c->checks, &at, "leads to nothing");
    TP__TRY(check_schema(c->checks, &at, schema));
  }
  return compile_target(c, resource, schema, ret_schema);
}

static tp_text number_or_none(tp_text value) {
  return tp_value_kind_of(value) == TP_VALUE_BOOL ? (tp_text){NULL, 0} : value;
}

static tp__schema_count count_between(tp_text least, tp_text most) {
  return (tp__schema_count){least.size ? schema_count(least) : 0, most.size ? schema_count(most) : -1};
}

/* In draft 4, exclusiveMinimum: true excludes the minimum itself. */
static tp_text edge_of(tp_text edge, tp_text bound) {
  return tp_value_kind_of(edge) == TP_VALUE_BOOL && tp_value_bool(edge, false) ? bound : number_or_none(edge);
}

/* Compiles prefixItems and items, or items and additionalItems of earlier drafts. */
static tp_status compile_items(compiler *c, tp_text base, const rule_set *rules, tp__schema_more *m) {
  bool is_old = tp_value_kind_of(rules->of[ITEMS]) == TP_VALUE_ARRAY;
  tp_text prefix = is_old ? rules->of[ITEMS] : rules->of[PREFIX_ITEMS];
  tp_text rest = is_old ? rules->of[ADDITIONAL_ITEMS] : prefix.size ? rules->of[ITEMS] : (tp_text){NULL, 0};
  TP__TRY(compile_list(c, base, prefix, &m->prefix));
  return compile_one(c, base, rest, &m->rest, &m->has_rest);
}

static tp_status compile_more(compiler *c, tp_text base, tp__schema *s, const rule_set *rules) {
  tp__schema_more *m = tp__arena_zero(c->arena, sizeof *m);
  if (!m) return TP_ERR_NO_MEMORY;
  s->more = m;
  m->constant = rules->of[CONST];
  m->above = edge_of(rules->of[ABOVE], rules->of[MINIMUM]);
  m->below = edge_of(rules->of[BELOW], rules->of[MAXIMUM]);
  m->multiple_of = rules->of[MULTIPLE_OF];
  m->is_unique = tp_value_bool(rules->of[UNIQUE_ITEMS], false);
  m->format = rules->of[FORMAT].size ? tp__schema_format_of(tp_value_text(rules->of[FORMAT])) : TP__FORMAT_NONE;
  m->characters = count_between(rules->of[MIN_LENGTH], rules->of[MAX_LENGTH]);
  m->items = count_between(rules->of[MIN_ITEMS], rules->of[MAX_ITEMS]);
  m->members = count_between(rules->of[MIN_PROPERTIES], rules->of[MAX_PROPERTIES]);
  m->containing = count_between(rules->of[MIN_CONTAINS], rules->of[MAX_CONTAINS]);
  if (!rules->of[MIN_CONTAINS].size) m->containing.least = 1;
  if (rules->of[REF].size) TP__TRY(compile_ref(c, base, tp_value_text(rules->of[REF]), &m->ref));
  bool ignored;
  TP__TRY(compile_list(c, base, rules->of[ALL_OF], &m->all_of));
  TP__TRY(compile_list(c, base, rules->of[ANY_OF], &m->any_of));
  TP__TRY(compile_list(c, base, rules->of[ONE_OF], &m->one_of));
  TP__TRY(compile_one(c, base, rules->of[NOT], &m->not_, &m->has_not));
  TP__TRY(compile_one(c, base, rules->of[IF], &m->condition, &m->has_if));
  TP__TRY(compile_one(c, base, rules->of[THEN], &m->then, &ignored));
  TP__TRY(compile_one(c, base, rules->of[ELSE], &m->otherwise, &ignored));
  TP__TRY(compile_items(c, base, rules, m));
  TP__TRY(compile_one(c, base, rules->of[CONTAINS], &m->contains, &m->has_contains));
  TP__TRY(compile_one(c, base, rules->of[ADDITIONAL_PROPERTIES], &m->additional, &m->has_additional));
  TP__TRY(compile_one(c, base, rules->of[PROPERTY_NAMES], &m->names, &m->has_names));
  tp_text named = rules->of[PATTERN_PROPERTIES];
  m->named = tp__arena_alloc(c->arena, tp_value_count(named) * sizeof *m->named);
  if (!m->named) return TP_ERR_NO_MEMORY;
  for (tp_value_walk walk = {0}; tp_value_next(named, &walk);) {
    tp__schema_named *one = &m->named[m->named_count++];
    *one = (tp__schema_named){0};
    TP__TRY(compile_pattern(c, walk.key, &one->names));
    TP__TRY(compile(c, base, walk.value, &one->schema));
  }
  m->pattern_source = tp_value_text(rules->of[PATTERN]);
  if (rules->of[PATTERN].size) TP__TRY(compile_pattern(c, m->pattern_source, &m->pattern));
  return compile_dependencies(c, base, rules, m);
}

/* The recursion ends: a checked value is nested at most 32 deep, and each target of a $ref is compiled once. */
static tp_status compile_into(compiler *c, tp_text base, tp_text schema, tp__schema *s) {
  TP__ASSERT(base.size > 0 && schema.size > 0);
  rule_set rules;
  *s = (tp__schema){.next = c->all};
  c->all = s;
  if (tp_value_kind_of(schema) == TP_VALUE_BOOL) { /* false: kinds are none */
    if (tp_value_bool(schema, false)) s->kinds = UINT32_MAX;
    return TP_OK;
  }
  *&rules = (rule_set){0};
  for (tp_value_walk walk = {0}; tp_value_next(schema, &walk);) {
    const struct keyword *known = find_keyword(walk.key);
    if (!known || known->rule == ANNOTATION) continue;
    rules.of[known->rule] = walk.value;
    rules.has_others |= known->rule >= OTHERS;
  }
  rules.has_others |= tp_value_kind_of(rules.of[ITEMS]) == TP_VALUE_ARRAY;
  if (is_resource(schema)) base = schema;
  s->kinds = kinds_of_type(rules.of[TYPE]);
  s->type = rules.of[TYPE];
  s->values = rules.of[ENUM];
  s->minimum = rules.of[MINIMUM];
  s->maximum = rules.of[MAXIMUM];
  s->required = rules.of[REQUIRED];
  s->has_limits = s->values.size || s->minimum.size || s->maximum.size;
  bool has_prefix = rules.of[PREFIX_ITEMS].size || tp_value_kind_of(rules.of[ITEMS]) == TP_VALUE_ARRAY;
  if (rules.of[ITEMS].size && !has_prefix) TP__TRY(compile(c, base, rules.of[ITEMS], &s->items));
  TP__TRY(compile_properties(c, base, s, &rules));
  return rules.has_others ? compile_more(c, base, s, &rules) : TP_OK;
}

static tp_status compile(compiler *c, tp_text base, tp_text schema, const tp__schema **ret_schema) {
  *ret_schema = NULL;
  if (tp_value_kind_of(schema) == TP_VALUE_BOOL && tp_value_bool(schema, false)) return TP_OK;
  tp__schema *s = tp__arena_alloc(c->arena, sizeof *s);
  if (!s) return TP_ERR_NO_MEMORY;
  *ret_schema = s;
  return compile_into(c, base, schema, s);
}

static tp_status compile_target(compiler *c, tp_text resource, tp_text schema, const tp__schema **ret_schema) {
  TP__ASSERT(schema.data && resource.data);
  for (const target *known = c->targets; known; known = known->next) {
    if (known->place != schema.data) continue;
    *ret_schema = known->schema;
    return TP_OK;
  }
  target *new_one = tp__arena_alloc(c->arena, sizeof *new_one);
  tp__schema *s = tp__arena_alloc(c->arena, sizeof *s);
  if (!new_one || !s) return TP_ERR_NO_MEMORY;
  *new_one = (target){schema.data, s, c->targets};
  c->targets = new_one;
  *ret_schema = s;
  return compile_into(c, resource, schema, s);
}

static tp_status compile_root(compiler *c, const tp__schema **ret_schema) {
  *ret_schema = NULL;
  if (c->root.size == 0) return TP_OK;
  return compile_target(c, c->root, c->root, ret_schema);
}

tp_status tp__schema_compile(tp_text schema, tp__arena *arena, const tp__schema **ret_schema) {
  compiler c = {.arena = arena, .root = schema};
  return compile_root(&c, ret_schema);
}

/* ---- a schema that contains itself without end ---- */

enum { UNSEEN, OPEN, SEEN };

/* Whether a schema leads back to itself without a step into the value. Only this check uses the marks, because no other
 * code has the schema yet. */
static bool is_endless(const tp__schema *s);

static bool is_list_endless(tp__schema_list list) {
  for (uint32_t i = 0; i < list.count; i++)
    if (is_endless(list.of[i])) return true;
  return false;
}

static bool is_endless(const tp__schema *s) {
  if (!s || !s->more || s->mark == SEEN) return false;
  if (s->mark == OPEN) return true;
  const tp__schema_more *m = s->more;
  ((tp__schema *)s)->mark = OPEN;
  bool endless = is_endless(m->ref) || is_list_endless(m->all_of) || is_list_endless(m->any_of) ||
                 is_list_endless(m->one_of) || is_endless(m->not_) || is_endless(m->condition) || is_endless(m->then) ||
                 is_endless(m->otherwise);
  for (uint32_t i = 0; i < m->dependency_count && !endless; i++) endless = is_endless(m->dependencies[i].schema);
  ((tp__schema *)s)->mark = SEEN;
  return endless;
}

static tp_status check_parts(checker *checks, const step *root, tp_text schema, const tp_allocator *allocator) {
  const tp__schema *whole;
  tp__arena arena;
  tp__arena_init(&arena, allocator, NULL, 0, 0);
  compiler c = {.arena = &arena, .root = schema, .checks = checks};
  tp_status status = compile_root(&c, &whole);
  for (const tp__schema *s = c.all; status == TP_OK && s; s = s->next)
    if (is_endless(s)) status = refuse_schema(checks, root, "a $ref leads to itself without end");
  tp__arena_fini(&arena);
  return status == TP_ERR_NO_MEMORY ? tp__fail(checks->fault, status, NULL, "no memory") : status;
}

tp_status tp__schema_check_any(tp_text schema, const tp_allocator *allocator, tp__out *unchecked, tp_fault *fault) {
  checker c = {.unchecked = unchecked, .fault = fault};
  step root = {.name = tp_text_of("schema")};
  tp_status status = tp__value_check(schema, allocator, NULL);
  if (status == TP_ERR_NO_MEMORY) return tp__fail(fault, status, NULL, "no memory");
  if (status != TP_OK) return refuse_schema(&c, &root, "is not one well-formed value");
  TP__TRY(check_schema(&c, &root, schema));
  return c.has_links ? check_parts(&c, &root, schema, allocator) : TP_OK;
}

tp_status tp__schema_check(tp_text schema, const tp_allocator *allocator, tp__out *unchecked, tp_fault *fault) {
  if (schema.size == 0) return TP_OK;
  checker c = {.unchecked = unchecked, .fault = fault};
  step root = {.name = tp_text_of("schema")};
  TP__TRY(tp__schema_check_any(schema, allocator, unchecked, fault));
  tp_text type = tp_value_get(schema, "type");
  if (type.size == 0 || tp_text_is(tp_value_text(type), "object")) return TP_OK;
  return refuse_schema(&c, &root, "type must be object, as arguments are a map");
}
