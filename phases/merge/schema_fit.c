/* SPDX-License-Identifier: Apache-2.0
 *
 * schema_fit.c: whether a value fits a schema, and if not, the first reason. */
#include <float.h>

#include "phases/merge/schema_fit.h"
#include "runtime/value/value.h"

typedef tp__schema_step step;
typedef tp__schema schema_;
typedef tp__schema_more more;

/* The steps that are left for a check. When none are left, nothing fits. */
typedef struct budget {
  uint32_t steps, depth;
  bool is_spent;
} budget;

static bool spend(budget *b, size_t steps) {
  if (steps > b->steps) b->is_spent = true;
  else b->steps -= (uint32_t)steps;
  return !b->is_spent;
}

/* ---- equality and bounds ---- */

/* Equality as in JSON: 1 equals 1.0, and the order of a map does not matter. */
static bool equal(budget *b, tp_text one, tp_text other) {
  tp_value_kind kind = tp_value_kind_of(one);
  TP__ASSERT(one.size > 0);
  if (!spend(b, 1)) return false;
  if (tp__schema_is_number(one) && tp__schema_is_number(other))
    return !tp__schema_above(one, other) && !tp__schema_above(other, one);
  if (kind != tp_value_kind_of(other)) return false;
  if (kind == TP_VALUE_TEXT || kind == TP_VALUE_BYTES) return tp_text_equal(tp_value_text(one), tp_value_text(other));
  if (kind == TP_VALUE_BOOL) return tp_value_bool(one, false) == tp_value_bool(other, false);
  if (kind != TP_VALUE_ARRAY && kind != TP_VALUE_MAP) return kind == TP_VALUE_NULL;
  size_t count = tp_value_count(one);
  if (count != tp_value_count(other)) return false;
  tp_value_walk walk = {0}, walk_other = {0};
  while (tp_value_next(one, &walk)) {
    if (kind == TP_VALUE_ARRAY && !tp_value_next(other, &walk_other)) return false;
    if (kind == TP_VALUE_MAP && !spend(b, count)) return false;
    if (!equal(b, walk.value, kind == TP_VALUE_ARRAY ? walk_other.value : tp__schema_member(other, walk.key)))
      return false;
  }
  return true;
}

static bool in_enum(budget *b, tp_text values, tp_text value) {
  for (tp_value_walk walk = {0}; tp_value_next(values, &walk);) {
    if (equal(b, walk.value, value)) return true;
  }
  return false;
}

static bool is_of_number_kind(tp_text value) {
  tp_value_kind kind = tp_value_kind_of(value);
  return kind == TP_VALUE_INT || kind == TP_VALUE_DOUBLE;
}

/* A bound does not concern values that are no numbers. Not-a-number is outside of every bound. */
static bool is_outside(tp_text bound, tp_text greater, tp_text smaller, tp_text value) {
  if (!bound.size || !is_of_number_kind(value)) return false;
  return !tp__schema_is_number(value) || tp__schema_above(greater, smaller);
}

static bool is_below(const schema_ *s, tp_text value) { return is_outside(s->minimum, s->minimum, value, value); }
static bool is_above(const schema_ *s, tp_text value) { return is_outside(s->maximum, value, s->maximum, value); }

static bool limits_fit(budget *b, const schema_ *s, tp_text value) {
  return (!s->values.size || in_enum(b, s->values, value)) && !is_below(s, value) && !is_above(s, value);
}

/* Whether a double is a multiple, as exactly as the digits of doubles allow: 0.0075 is a multiple of 0.0001. */
static bool is_multiple(tp_text value, tp_text of) {
  TP__ASSERT(tp_value_double(of, 0) > 0);
  if (tp_value_kind_of(value) == TP_VALUE_INT && tp_value_kind_of(of) == TP_VALUE_INT)
    return tp_value_int(value, 0) % tp_value_int(of, 1) == 0;
  double quotient = tp_value_double(value, 0) / tp_value_double(of, 1);
  if (quotient < 0) quotient = -quotient;
  if (!(quotient <= DBL_MAX)) return false;
  if (quotient >= 9e15) return true; /* it has no digits after the point */
  double distance = quotient - (double)(int64_t)(quotient + 0.5);
  return (distance < 0 ? -distance : distance) <= 8 * DBL_EPSILON * (quotient > 1 ? quotient : 1);
}

/* ---- the rules that most schemas have ---- */

static bool fits_schema(budget *b, const schema_ *s, tp_text bytes, size_t *at);
static bool more_fit(budget *b, const schema_ *s, tp_text value);

static bool items_fit(budget *b, const schema_ *s, tp_text bytes, size_t count, size_t *at) {
  for (size_t i = 0; i < count; i++)
    if (!fits_schema(b, s->items, bytes, at)) return false;
  return true;
}

/* The keys of a checked map are unique, so it suffices to count the required ones. */
static bool members_fit(budget *b, const schema_ *s, tp_text bytes, size_t count, size_t *at) {
  uint32_t required = 0, next = 0;
  for (size_t i = 0; i < count; i++) {
    tp__head key = {0};
    if (tp__head_read(bytes, *at, &key) != TP__HEAD_OK) return false;
    tp_text name = {bytes.data + *at + key.size, key.content};
    const tp__schema_property *found = tp__schema_find(s, name, &next);
    *at += key.size + key.content;
    if (!fits_schema(b, found ? found->schema : NULL, bytes, at)) return false;
    if (found) required += found->required;
  }
  return required == s->required_count;
}

static bool children_fit(budget *b, const schema_ *s, tp_text bytes, const tp__head *head, size_t *at) {
  if (!spend(b, head->children)) return false;
  if (head->kind == TP_VALUE_ARRAY) return items_fit(b, s, bytes, head->children, at);
  return members_fit(b, s, bytes, head->children / 2, at);
}

/* Whether the value at *at fits; moves *at past it. The bytes were checked before. */
static bool fits_schema(budget *b, const schema_ *s, tp_text bytes, size_t *at) {
  size_t from = *at;
  tp__head head = {0};
  if (!s) {
    *at += tp__value_size(bytes, from);
    return true;
  }
  if (tp__head_read(bytes, from, &head) != TP__HEAD_OK || !(s->kinds >> head.kind & 1)) return false;
  if (s->has_limits && !limits_fit(b, s, (tp_text){bytes.data + from, tp__value_size(bytes, from)})) return false;
  *at += head.size + head.content;
  bool has_children = head.kind == TP_VALUE_ARRAY || head.kind == TP_VALUE_MAP;
  if (has_children && !children_fit(b, s, bytes, &head, at)) return false;
  return !s->more || more_fit(b, s, (tp_text){bytes.data + from, *at - from});
}

static bool value_fits(budget *b, const schema_ *s, tp_text value) {
  size_t at = 0;
  return fits_schema(b, s, value, &at);
}

/* ---- the rules that few schemas have: each gives its reason on request ---- */

/* The buffer for the reason. why is NULL when only the answer is needed. */
typedef struct reason {
  tp__out *why;
  const step *at;
} reason;

static void explain(budget *b, tp__out *why, const step *at, const schema_ *s, tp_text value);

static bool say_why(const reason *r, const char *words) {
  if (!r->why) return false;
  tp__schema_put_path(r->why, r->at);
  tp__out_string(r->why, words);
  return false;
}

static bool say_number(const reason *r, const char *before, int64_t number, const char *after) {
  if (!r->why) return false;
  say_why(r, before);
  tp__out_int(r->why, number);
  tp__out_string(r->why, after);
  return false;
}

static bool say_value(const reason *r, const char *words, tp_text value) {
  if (!r->why) return false;
  say_why(r, words);
  tp__out_json(r->why, value);
  return false;
}

/* Whether a part fits. If not, the reason of the part is the reason. */
static bool part_fits(budget *b, const reason *r, const schema_ *s, tp_text value) {
  if (value_fits(b, s, value)) return true;
  if (r->why && s) explain(b, r->why, r->at, s, value);
  return false;
}

static bool count_fits(const reason *r, tp__schema_count wanted, int64_t count, const char *of) {
  TP__ASSERT(wanted.least >= 0 && wanted.most >= -1 && count >= 0);
  if (count < wanted.least) return say_number(r, ": must have at least ", wanted.least, of);
  if (wanted.most >= 0 && count > wanted.most) return say_number(r, ": must have at most ", wanted.most, of);
  return true;
}

static int64_t code_points(tp_text text) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size; i++) count += ((unsigned char)text.data[i] & 0xC0) != 0x80;
  return count;
}

static bool pattern_fits(budget *b, const tp__pattern *pattern, tp_text text) {
  return spend(b, (text.size + 1) * tp__pattern_places(pattern) / 16) && tp__pattern_matches(pattern, text);
}

static bool text_fits(budget *b, const reason *r, const more *m, tp_text value) {
  tp_text text = tp_value_text(value);
  if (!count_fits(r, m->characters, code_points(text), " characters")) return false;
  if (m->pattern && !pattern_fits(b, m->pattern, text)) {
    if (!r->why) return false;
    say_why(r, ": must match the pattern ");
    tp__out_json_string(r->why, m->pattern_source);
    return false;
  }
  if (!m->format || tp__schema_format_fits(m->format, text)) return true;
  say_why(r, ": must be ");
  if (r->why) tp__out_string(r->why, tp__schema_format_words(m->format));
  return false;
}

static bool number_fits(const reason *r, const more *m, tp_text value) {
  bool is_number = tp__schema_is_number(value);
  if (m->above.size && !(is_number && tp__schema_above(value, m->above)))
    return say_value(r, ": must be above ", m->above);
  if (m->below.size && !(is_number && tp__schema_above(m->below, value)))
    return say_value(r, ": must be below ", m->below);
  if (m->multiple_of.size && !(is_number && is_multiple(value, m->multiple_of)))
    return say_value(r, ": must be a multiple of ", m->multiple_of);
  return true;
}

static bool items_differ(budget *b, tp_text array) {
  for (tp_value_walk walk = {0}; tp_value_next(array, &walk);) {
    tp_value_walk later = walk;
    while (tp_value_next(array, &later))
      if (equal(b, walk.value, later.value) || b->is_spent) return false;
  }
  return true;
}

static bool prefix_fits(budget *b, const reason *r, const more *m, tp_text array) {
  step item = {.from = r->at};
  for (tp_value_walk walk = {0}; tp_value_next(array, &walk); item.index++) {
    bool is_prefix = item.index < m->prefix.count;
    if (!is_prefix && !m->has_rest) return true;
    const schema_ *s = is_prefix ? m->prefix.of[item.index] : m->rest;
    if (!part_fits(b, &(reason){r->why, &item}, s, walk.value)) return false;
  }
  return true;
}

static bool containing_fits(budget *b, const reason *r, const more *m, tp_text array) {
  int64_t count = 0;
  for (tp_value_walk walk = {0}; tp_value_next(array, &walk);) count += value_fits(b, m->contains, walk.value);
  return count_fits(r, m->containing, count, " items as `contains` has them");
}

static bool array_fits(budget *b, const reason *r, const more *m, tp_text array) {
  if (!count_fits(r, m->items, (int64_t)tp_value_count(array), " items") || !prefix_fits(b, r, m, array)) return false;
  if (m->has_contains && !containing_fits(b, r, m, array)) return false;
  return !m->is_unique || items_differ(b, array) || say_why(r, ": its items must differ");
}

static bool say_unknown_property(const reason *r, const schema_ *s) {
  const char *before = "";
  if (!r->why) return false;
  say_why(r, ": has a property that the schema does not have; it has ");
  for (uint32_t i = 0; i < s->property_count; i++) {
    if (s->properties[i].is_only_required) continue;
    tp__out_string(r->why, before);
    tp__out_text(r->why, s->properties[i].name);
    before = ", ";
  }
  if (!*before) tp__out_string(r->why, "none");
  return false;
}

/* Checks one member by its name: against the schemas of the patterns that match it, or else against the schema of all
 * other members. The message does not name the member, because its name is content of the arguments. */
static bool member_fits(budget *b, const reason *r, const schema_ *s, tp_text name, tp_text value, uint32_t *next) {
  const more *m = s->more;
  step any = tp__schema_into(r->at, tp_text_of("*"));
  reason below = {r->why, &any};
  const tp__schema_property *property = tp__schema_find(s, name, next);
  bool is_named = property && !property->is_only_required;
  for (uint32_t i = 0; i < m->named_count; i++) {
    if (!m->named[i].names) return true; /* nobody knows whether it is one of those */
    if (!pattern_fits(b, m->named[i].names, name)) continue;
    is_named = true;
    if (!part_fits(b, &below, m->named[i].schema, value)) return false;
  }
  if (is_named || !m->has_additional || value_fits(b, m->additional, value)) return true;
  if (m->additional && m->additional->kinds == 0) return say_unknown_property(r, s);
  return part_fits(b, &below, m->additional, value);
}

/* Checks each key of a map against the schema of names. In the map's bytes a key is a text value, so it is passed as it
 * is. */
static bool names_fit(budget *b, const reason *r, const more *m, tp_text map) {
  tp__head head = {0};
  if (tp__head_read(map, 0, &head) != TP__HEAD_OK) return false;
  step any = tp__schema_into(r->at, tp_text_of("*"));
  for (size_t i = 0, at = head.size; i < head.children / 2; i++) {
    tp_text name = {map.data + at, tp__value_size(map, at)};
    if (!part_fits(b, &(reason){r->why, &any}, m->names, name)) return false;
    at += name.size;
    at += tp__value_size(map, at);
  }
  return true;
}

static bool dependencies_fit(budget *b, const reason *r, const more *m, tp_text map) {
  for (uint32_t i = 0; i < m->dependency_count; i++) {
    const tp__schema_dependency *one = &m->dependencies[i];
    if (!tp__schema_member(map, one->name).size) continue;
    if (!part_fits(b, r, one->schema, map)) return false;
    for (tp_value_walk walk = {0}; tp_value_next(one->required, &walk);) {
      if (tp__schema_member(map, tp_value_text(walk.value)).size) continue;
      step missing = tp__schema_into(r->at, tp_value_text(walk.value));
      say_why(&(reason){r->why, &missing}, ": is required next to ");
      if (r->why) tp__out_text(r->why, one->name);
      return false;
    }
  }
  return true;
}

static bool map_fits(budget *b, const reason *r, const schema_ *s, tp_text map) {
  const more *m = s->more;
  uint32_t next = 0;
  if (!count_fits(r, m->members, (int64_t)tp_value_count(map), " properties")) return false;
  if (m->has_names && !names_fit(b, r, m, map)) return false;
  if (!dependencies_fit(b, r, m, map)) return false;
  if (!m->has_additional && m->named_count == 0) return true;
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);)
    if (!member_fits(b, r, s, walk.key, walk.value, &next)) return false;
  return true;
}

/* If none fits, the reason of the first one is reported for all. */
static bool any_fits(budget *b, const reason *r, tp__schema_list list, const char *name, tp_text value) {
  TP__ASSERT(list.count > 0);
  for (uint32_t i = 0; i < list.count; i++)
    if (value_fits(b, list.of[i], value)) return true;
  if (!r->why || b->is_spent) return false;
  say_number(r, ": fits none of the ", list.count, " schemas of ");
  tp__out_string(r->why, name);
  tp__out_string(r->why, "; of the first: ");
  explain(b, r->why, r->at, list.of[0], value);
  return false;
}

static bool one_fits(budget *b, const reason *r, tp__schema_list list, tp_text value) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < list.count; i++) count += value_fits(b, list.of[i], value);
  if (count == 1) return true;
  return count == 0 ? any_fits(b, r, list, "oneOf", value) : say_why(r, ": fits more than one of the schemas of oneOf");
}

static bool schemas_fit(budget *b, const reason *r, const more *m, tp_text value) {
  if (!part_fits(b, r, m->ref, value)) return false;
  for (uint32_t i = 0; i < m->all_of.count; i++)
    if (!part_fits(b, r, m->all_of.of[i], value)) return false;
  if (m->any_of.count > 0 && !any_fits(b, r, m->any_of, "anyOf", value)) return false;
  if (m->one_of.count > 0 && !one_fits(b, r, m->one_of, value)) return false;
  if (m->has_not && value_fits(b, m->not_, value)) return say_why(r, ": must not fit the schema of `not`");
  if (!m->has_if) return true;
  return part_fits(b, r, value_fits(b, m->condition, value) ? m->then : m->otherwise, value);
}

static bool kind_fits(budget *b, const reason *r, const schema_ *s, tp_text value) {
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_TEXT:
      return text_fits(b, r, s->more, value);
    case TP_VALUE_INT:
    case TP_VALUE_DOUBLE:
      return number_fits(r, s->more, value);
    case TP_VALUE_ARRAY:
      return array_fits(b, r, s->more, value);
    case TP_VALUE_MAP:
      return map_fits(b, r, s, value);
    default:
      return true;
  }
}

static bool more_fit_or_say(budget *b, const reason *r, const schema_ *s, tp_text value) {
  const more *m = s->more;
  if (m->constant.size && !equal(b, m->constant, value)) return say_value(r, ": must be ", m->constant);
  return kind_fits(b, r, s, value) && schemas_fit(b, r, m, value);
}

/* Only in this function schemas lead to schemas without a step into the value. */
static bool more_fit(budget *b, const schema_ *s, tp_text value) {
  if (!spend(b, 1) || b->depth == 0) return b->is_spent = true, false;
  b->depth--;
  bool fit = more_fit_or_say(b, &(reason){NULL, NULL}, s, value);
  b->depth++;
  return fit;
}

/* ---- why a value does not fit: the first reason in the order of the schema ---- */

static const char *name_of_kind(tp_value_kind kind) {
  static const char *const names[] = {
      [TP_VALUE_NULL] = "null",   [TP_VALUE_BOOL] = "boolean", [TP_VALUE_INT] = "integer", [TP_VALUE_DOUBLE] = "number",
      [TP_VALUE_TEXT] = "string", [TP_VALUE_BYTES] = "bytes",  [TP_VALUE_ARRAY] = "array", [TP_VALUE_MAP] = "object"};
  return TP__NAME_AT(names, kind, "nothing");
}

static void explain_type(tp__out *why, const schema_ *s, tp_value_kind kind) {
  bool several = tp_value_kind_of(s->type) == TP_VALUE_ARRAY;
  if (s->kinds == 0) {
    tp__out_string(why, ": must not be there");
    return;
  }
  tp__out_string(why, ": expected ");
  if (!several) tp__out_text(why, tp_value_text(s->type));
  for (size_t i = 0; several && i < tp_value_count(s->type); i++) {
    if (i > 0) tp__out_string(why, " or ");
    tp__out_text(why, tp_value_text(tp_value_at(s->type, i)));
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

/* @return whether there was one. */
static bool explain_items(budget *b, tp__out *why, const step *at, const schema_ *s, tp_text array) {
  step item = {.from = at};
  for (tp_value_walk walk = {0}; tp_value_next(array, &walk); item.index++) {
    if (value_fits(b, s->items, walk.value)) continue;
    explain(b, why, &item, s->items, walk.value);
    return true;
  }
  return false;
}

static bool explain_members(budget *b, tp__out *why, const step *at, const schema_ *s, tp_text map) {
  for (tp_value_walk walk = {0}; tp_value_next(s->required, &walk);) {
    if (tp__schema_member(map, tp_value_text(walk.value)).size) continue;
    step missing = tp__schema_into(at, tp_value_text(walk.value));
    tp__schema_put_path(why, &missing);
    tp__out_string(why, ": is required and missing");
    return true;
  }
  for (uint32_t i = 0; i < s->property_count; i++) {
    tp_text value = tp__schema_member(map, s->properties[i].name);
    if (!value.size || value_fits(b, s->properties[i].schema, value)) continue;
    step wrong = tp__schema_into(at, s->properties[i].name);
    explain(b, why, &wrong, s->properties[i].schema, value);
    return true;
  }
  return false;
}

static void explain(budget *b, tp__out *why, const step *at, const schema_ *s, tp_text value) {
  tp_value_kind kind = tp_value_kind_of(value);
  TP__ASSERT(s && value.size > 0);
  bool allowed = s->kinds >> kind & 1;
  if (b->depth == 0 || !spend(b, 1)) return;
  if (allowed && limits_fit(b, s, value)) {
    b->depth--;
    bool is_said = kind == TP_VALUE_ARRAY ? s->items && explain_items(b, why, at, s, value)
                   : kind == TP_VALUE_MAP ? explain_members(b, why, at, s, value)
                                          : false;
    if (!is_said && s->more) more_fit_or_say(b, &(reason){why, at}, s, value);
    b->depth++;
    return;
  }
  tp__schema_put_path(why, at);
  if (!allowed) explain_type(why, s, kind);
  else if (s->values.size && !in_enum(b, s->values, value)) explain_enum(why, s->values);
  else if (is_below(s, value)) explain_bound(why, ": is below the minimum ", s->minimum);
  else explain_bound(why, ": is above the maximum ", s->maximum);
}

/* ---- arguments ---- */

static budget new_budget(void) { return (budget){TP__SCHEMA_STEPS_MAX, TP__SCHEMA_DEPTH_MAX, false}; }

static bool fits_or_say(tp__out *why, const schema_ *schema, const char *name, tp_text value) {
  budget b = new_budget();
  bool fit = !schema || value_fits(&b, schema, value);
  if (fit && !b.is_spent) return true;
  if (!b.is_spent) {
    step root = {.name = tp_text_of(name)};
    b = new_budget();
    explain(&b, why, &root, schema, value);
  }
  if (b.is_spent) {
    *why = (tp__out){why->data, why->capacity, 0};
    tp__out_string(why, name);
    tp__out_string(why, ": too much to check: nested too deeply, or with too many alternatives");
  }
  return false;
}

static void hand_out(const tp__out *why, char *message, size_t size) {
  TP__ASSERT(why->capacity > 4);
  if (size == 0) return;
  tp_text text = {why->data, why->size < why->capacity ? why->size : why->capacity};
  size_t kept = tp__utf8_cut(text, why->capacity - 4);
  kept = tp__utf8_cut((tp_text){text.data, kept}, size - 1);
  memcpy(message, text.data, kept);
  message[kept] = '\0';
}

tp_status tp__schema_validate_value(const tp__schema *schema, const char *name, tp_text value, char *message,
                                    size_t size) {
  char text[TP__SCHEMA_MESSAGE_SIZE];
  tp__out why = {text, sizeof text, 0};
  if (fits_or_say(&why, schema, name, value)) return TP_OK;
  hand_out(&why, message, size);
  return TP_ERR_MALFORMED;
}

tp_status tp__schema_validate(const tp__schema *schema, tp_text arguments, char *message, size_t size) {
  char text[TP__SCHEMA_MESSAGE_SIZE];
  tp__out why = {text, sizeof text, 0};
  tp_status status = tp_value_check(arguments, NULL);
  tp_value_kind kind = tp_value_kind_of(arguments);
  if (status == TP_OK && kind == TP_VALUE_MAP)
    return tp__schema_validate_value(schema, "arguments", arguments, message, size);
  if (status == TP_ERR_NO_MEMORY) {
    tp__out_string(&why, "arguments: no memory to check them");
  } else if (status == TP_OK) {
    status = TP_ERR_MALFORMED;
    tp__out_string(&why, "arguments: expected object, got ");
    tp__out_string(&why, name_of_kind(kind));
  } else {
    status = TP_ERR_MALFORMED;
    tp__out_string(&why, "arguments: not one well-formed value");
  }
  hand_out(&why, message, size);
  return status;
}
