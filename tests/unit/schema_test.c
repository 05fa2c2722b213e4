/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tests/support/test.h"
#include "phases/merge/pattern.h"
#include "phases/merge/schema.h"
#include "runtime/base/base.h"
#include "tests/support/json_value.h"

static tp_writer *schema_writer, *arguments_writer;
static tp_allocator libc;

static int setup(void **state) {
  (void)state;
  libc = tp__allocator_of(NULL);
  return tp_writer_new(NULL, &schema_writer) == TP_OK && tp_writer_new(NULL, &arguments_writer) == TP_OK ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  tp_writer_free(schema_writer);
  tp_writer_free(arguments_writer);
  return 0;
}

FOR_EACH_TEST(setup, teardown);

/* Appends, as far as the buffer of SCHEMA_SIZE bytes goes. */
enum { SCHEMA_SIZE = 8192 };
static void append(char *schema, const char *piece, int times) {
  for (int i = 0; i < times; i++) {
    size_t used = strlen(schema);
    snprintf(schema + used, SCHEMA_SIZE - used, "%s", piece);
  }
}

/* ---- registration ---- */

static void accepted(const char *schema) {
  tp_fault fault = {0};
  tp_status status = tp__schema_check(json_value(schema_writer, schema), &libc, NULL, &fault);
  assert_string_equal(fault.message, "");
  assert_int_equal(status, TP_OK);
}

static void refused(const char *schema, const char *message) {
  tp_fault fault = {0};
  assert_int_equal(tp__schema_check(json_value(schema_writer, schema), &libc, NULL, &fault), TP_ERR_BAD_SCHEMA);
  assert_int_equal(fault.code, TP_ERR_BAD_SCHEMA);
  assert_string_equal(fault.message, message);
  assert_int_equal(tp__schema_check(json_value(schema_writer, schema), &libc, NULL, NULL), TP_ERR_BAD_SCHEMA);
}

TEST(schemas_are_accepted) {
  assert_int_equal(tp__schema_check((tp_text){NULL, 0}, &libc, NULL, NULL), TP_OK);
  accepted("{}");
  accepted(
      "{'type': 'object', 'title': 'Weather', 'description': 'Where and when', 'properties': {"
      "'city': {'type': 'string', 'description': 'A place'},"
      "'unit': {'enum': ['c', 'f', null, 1, 2.5, true, ['x'], {'y': 1}]},"
      "'days': {'type': 'integer', 'minimum': 1, 'maximum': 14},"
      "'hours': {'type': ['array', 'null'], 'items': {'type': 'number', 'minimum': -0.5}},"
      "'type': {'type': 'boolean'}, 'nested': {'properties': {}}}, 'required': ['city', 'elsewhere']}");
  accepted("{'minimum': 3, 'maximum': 3}");
}

static void unchecked(const char *schema, const char *names) {
  char found[256] = "";
  tp__out list = {found, sizeof found - 1, 0};
  tp_fault fault = {0};
  assert_int_equal(tp__schema_check(json_value(schema_writer, schema), &libc, &list, &fault), TP_OK);
  found[list.size] = '\0';
  assert_string_equal(found, names);
}

TEST(what_is_not_checked_is_named_once) {
  unchecked("{'type': 'object', '$schema': 'x', 'title': 't', 'default': 1, 'examples': [], '$comment': 'c'}", "");
  unchecked("{'x-order': 1, 'readOnly': true, 'writeOnly': 1, 'deprecated': 2, '$id': 'y', '$anchor': 'z'}", "");
  unchecked("{'properties': {'a': {'format': 'email'}, 'b': {'format': 'email'}, 'c': {'format': 'date'}}}",
            "format email");
  unchecked("{'Type': 1, 'unevaluatedProperties': false, 'items': {'Type': 2, 'nullable': true}}",
            "Type, unevaluatedProperties, nullable");
  unchecked("{'properties': {'a': {'$ref': 'https://example.org/x.json#/y'}}}", "$ref https://example.org/x.json#/y");
  unchecked("{'properties': {'a': {'pattern': '(?=a)b'}, 'c': {'pattern': 'a, b'}, 'd': {'pattern': '(a)\\\\1'}}}",
            "pattern (?=a)b, pattern (a)\\1");
  unchecked("{'patternProperties': {'(?<!x)': {}}}", "pattern (?<!x)");
  unchecked("{'a, b': 1, 'a': 2}", "a??b, a");
}

TEST(a_ref_that_leads_nowhere_or_to_itself_is_refused) {
  static const char nothing[] = "schema.$ref: leads to nothing",
                    endless[] = "schema: a $ref leads to itself without end";
  refused("{'properties': {'a': {'$ref': '#/$defs/b'}}}", nothing);
  refused("{'$defs': {'a': {}}, 'properties': {'a': {'$ref': '#/$defs/a/b'}}}", nothing);
  refused("{'properties': {'a': {'$ref': '#b'}}}", nothing);
  refused("{'properties': {'a': {'$ref': '#/allOf/1'}}, 'allOf': [{}]}", nothing);
  refused("{'properties': {'a': {'$ref': '#/%zz'}}}", nothing);
  refused("{'properties': {'a': {'$ref': 1}}}", "schema.properties.a.$ref: must be a text");
  refused("{'x': 7, 'properties': {'a': {'$ref': '#/x'}}}",
          "schema.$ref: must be a schema, which is a map, true or false");
  refused("{'x': {'type': 'no'}, 'properties': {'a': {'$ref': '#/x'}}}",
          "schema.$ref.type: must be null, boolean, integer, number, string, array or object, or an array of these");
  refused("{'$ref': '#'}", endless);
  refused("{'allOf': [{'$ref': '#'}]}", endless);
  refused(
      "{'$defs': {'a': {'anyOf': [{}, {'$ref': '#/$defs/b'}]}, 'b': {'not': {'$ref': '#/$defs/a'}}},"
      " 'properties': {'x': {'$ref': '#/$defs/a'}}}",
      endless);
  refused("{'$defs': {'a': {'if': {'then': {'$ref': '#/$defs/a'}}}}, 'items': {'$ref': '#/$defs/a'}}", endless);
  refused("{'dependentSchemas': {'a': {'$ref': '#'}}}", endless);
  accepted("{'properties': {'child': {'$ref': '#'}}, 'items': {'$ref': '#'}}");
}

TEST(keywords_of_the_wrong_form_are_refused) {
  static const char types[] = "must be null, boolean, integer, number, string, array or object, or an array of these";
  char message[256];
  snprintf(message, sizeof message, "schema.type: %s", types);
  refused("{'type': 'text'}", message);
  refused("{'type': 3}", message);
  refused("{'type': ['object', 'int']}", message);
  refused("{'type': []}", "schema.type: must name a type");
  refused("{'properties': ['city']}", "schema.properties: must be a map of schemas");
  refused("{'properties': {'city': 'string'}}",
          "schema.properties.city: must be a schema, which is a map, true or false");
  refused("{'properties': {'city': null}}", "schema.properties.city: must be a schema, which is a map, true or false");
  refused("{'additionalProperties': 'no'}",
          "schema.additionalProperties: must be a schema, which is a map, true or false");
  refused("{'anyOf': []}", "schema.anyOf: must be an array of at least one schema");
  refused("{'oneOf': {}}", "schema.oneOf: must be an array of at least one schema");
  refused(
      "{'allOf': [{'type': 1}]}",
      "schema.allOf[0].type: must be null, boolean, integer, number, string, array or object, or an array of these");
  refused("{'minLength': -1}", "schema.minLength: must be an integer of at least 0");
  refused("{'maxItems': 1.5}", "schema.maxItems: must be an integer of at least 0");
  refused("{'uniqueItems': 1}", "schema.uniqueItems: must be true or false");
  refused("{'multipleOf': 0}", "schema.multipleOf: must be a number above 0");
  refused("{'exclusiveMinimum': '1'}", "schema.exclusiveMinimum: must be a number");
  refused("{'pattern': 1}", "schema.pattern: must be a text");
  refused("{'format': 1}", "schema.format: must be a text");
  refused("{'patternProperties': {'a': 1}}",
          "schema.patternProperties.a: must be a schema, which is a map, true or false");
  refused("{'dependencies': {'a': 1}}", "schema.dependencies.a: must be a schema, which is a map, true or false");
  refused("{'dependentRequired': []}",
          "schema.dependentRequired: must be a map of arrays of property names, or of schemas");
  refused("{'required': 'city'}", "schema.required: must be an array of property names");
  refused("{'required': ['city', 1]}", "schema.required: must be an array of property names");
  refused("{'properties': {'l': {'items': [1]}}}",
          "schema.properties.l.items[0]: must be a schema, which is a map, true or false");
  refused("{'properties': {'l': {'items': {'items': {'enum': 1}}}}}",
          "schema.properties.l.items.items.enum: must be an array of at least one value");
  refused("{'enum': []}", "schema.enum: must be an array of at least one value");
  refused("{'minimum': '3'}", "schema.minimum: must be a number");
  refused("{'maximum': null}", "schema.maximum: must be a number");
  refused("{'properties': {'n': {'minimum': 4, 'maximum': 3.5}}}", "schema.properties.n: minimum is above maximum");
  refused("{'title': 1}", "schema.title: must be a text");
  refused("[]", "schema: must be a schema, which is a map");
  refused("null", "schema: must be a schema, which is a map");
}

TEST(a_root_that_is_no_object_is_refused) {
  refused("{'type': 'array'}", "schema: type must be object, as arguments are a map");
  refused("{'type': ['object', 'null']}", "schema: type must be object, as arguments are a map");
}

TEST(not_a_number_is_no_bound) {
  tp_text nan = {"\x81\xa7minimum\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", 18};
  assert_int_equal(tp__schema_check(nan, &libc, NULL, NULL), TP_ERR_BAD_SCHEMA);
}

TEST(broken_bytes_are_no_schema) {
  static const tp_text broken[] = {
      {"\xc1", 1}, {"\x80\x80", 2}, {"\x82\xa4type\xa6object", 13}, {"\xdf\xff\xff\xff\xff", 5}};
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    tp_fault fault = {0};
    assert_int_equal(tp__schema_check(broken[i], &libc, NULL, &fault), TP_ERR_BAD_SCHEMA);
    assert_string_equal(fault.message, "schema: is not one well-formed value");
  }
}

TEST(a_long_path_is_cut_at_a_code_point) {
  char schema[SCHEMA_SIZE] = "", message[TP_FAULT_MESSAGE_SIZE];
  append(schema, "{'properties': {'\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac': ", 14);
  append(schema, "1", 1);
  append(schema, "}}", 14);
  tp_fault fault = {0};
  assert_int_equal(tp__schema_check(json_value(schema_writer, schema), &libc, NULL, &fault), TP_ERR_BAD_SCHEMA);
  snprintf(message, sizeof message, "%s", fault.message);
  assert_true(tp_utf8_valid(tp_text_of(message), NULL));
  assert_non_null(strstr(message, "must be a schema"));
}

/* ---- arguments ---- */

/* Of a schema that is compiled for this one call. */
static tp_status validate(tp_text schema, tp_text arguments, char *message, size_t size) {
  const tp__schema *compiled;
  tp__arena arena;
  tp__arena_init(&arena, &libc, NULL, 0, 0);
  tp_status status = tp__schema_compile(schema, &arena, &compiled);
  if (status == TP_OK) status = tp__schema_validate(compiled, arguments, message, size);
  tp__arena_fini(&arena);
  return status;
}

static void fits(const char *schema, const char *arguments) {
  char message[TP__SCHEMA_MESSAGE_SIZE] = "";
  accepted(schema);
  tp_status status =
      validate(json_value(schema_writer, schema), json_value(arguments_writer, arguments), message, sizeof message);
  assert_string_equal(message, "");
  assert_int_equal(status, TP_OK);
}

static void fails(const char *schema, const char *arguments, const char *expected) {
  char message[TP__SCHEMA_MESSAGE_SIZE] = "";
  accepted(schema);
  tp_status status =
      validate(json_value(schema_writer, schema), json_value(arguments_writer, arguments), message, sizeof message);
  assert_int_equal(status, TP_ERR_MALFORMED);
  assert_string_equal(message, expected);
}

TEST(each_type_takes_its_own) {
  static const char *const types[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  static const char *const values[] = {"null", "true", "7", "7.5", "'x'", "[1]", "{'a': 1}"};
  static const char *const got[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  for (size_t t = 0; t < 7; t++) {
    for (size_t v = 0; v < 7; v++) {
      char schema[96], arguments[64], message[96];
      snprintf(schema, sizeof schema, "{'properties': {'p': {'type': '%s'}}}", types[t]);
      snprintf(arguments, sizeof arguments, "{'p': %s}", values[v]);
      snprintf(message, sizeof message, "arguments.p: expected %s, got %s", types[t], got[v]);
      bool integer_as_number = t == 3 && v == 2;
      if (t == v || integer_as_number) fits(schema, arguments);
      else fails(schema, arguments, message);
    }
  }
}

TEST(several_types_take_any_of_them) {
  static const char schema[] = "{'properties': {'p': {'type': ['string', 'null']}}}";
  fits(schema, "{'p': null}");
  fits(schema, "{'p': ''}");
  fails(schema, "{'p': 3}", "arguments.p: expected string or null, got integer");
}

TEST(the_path_leads_through_maps_and_arrays) {
  static const char schema[] =
      "{'properties': {'a': {'items': {'properties': {'b': {'items': {'type': 'integer'}}}}}}}";
  fits(schema, "{'a': [{'b': [1, 2]}, {'b': []}, {}]}");
  fails(schema, "{'a': [{'b': [1, 2]}, {}, {'b': [1, 2, 3, 'x']}]}",
        "arguments.a[2].b[3]: expected integer, got string");
}

TEST(a_missing_property_is_named) {
  static const char schema[] = "{'required': ['city'], 'properties': {'at': {'required': ['lat', 'lon']}}}";
  fits(schema, "{'city': null, 'more': 1}");
  fails(schema, "{'City': 'Oslo'}", "arguments.city: is required and missing");
  fails(schema, "{'city': 1, 'at': {'lat': 1}}", "arguments.at.lon: is required and missing");
}

TEST(a_property_is_required_once_however_often_it_is_named) {
  static const char schema[] = "{'required': ['b', 'a', 'b'], 'properties': {'a': {'type': 'integer'}}}";
  fits(schema, "{'a': 1, 'b': 2, 'c': 3}");
  fits(schema, "{'b': 2, 'a': 1}");
  fails(schema, "{'a': 1}", "arguments.b: is required and missing");
  fails(schema, "{'b': 1, 'c': 2}", "arguments.a: is required and missing");
}

TEST(of_several_reasons_the_first_in_the_order_of_the_schema_is_given) {
  static const char schema[] =
      "{'properties': {'a': {'type': 'string', 'enum': ['x']}, 'b': {'items': {'minimum': 2}}}, 'required': ['c']}";
  fails(schema, "{'b': [1], 'a': 1}", "arguments.c: is required and missing");
  fails(schema, "{'b': [1], 'c': 0, 'a': 1}", "arguments.a: expected string, got integer");
  fails(schema, "{'b': [1], 'c': 0, 'a': 'y'}", "arguments.a: must be one of \"x\"");
  fails(schema, "{'b': [2, 1, 0], 'c': 0, 'a': 'x'}", "arguments.b[1]: is below the minimum 2");
}

TEST(enum_compares_as_json_does) {
  static const char schema[] =
      "{'properties': {'p': {'enum': ['c', 1, 2.5, null, true, [1, 'x'], {'a': 1, 'b': [2]}]}}}";
  static const char *const good[] = {
      "'c'", "1", "1.0", "2.5", "null", "true", "[1, 'x']", "[1.0, 'x']", "{'b': [2], 'a': 1}"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    char arguments[64];
    snprintf(arguments, sizeof arguments, "{'p': %s}", good[i]);
    fits(schema, arguments);
  }
  static const char *const bad[] = {
      "'C'", "2", "false", "[1]", "[1, 'x', 1]", "{'a': 1}", "{'a': 1, 'c': [2]}", "{'a': 1, 'b': 2}", "''"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char arguments[64];
    snprintf(arguments, sizeof arguments, "{'p': %s}", bad[i]);
    fails(schema, arguments, "arguments.p: must be one of \"c\", 1, 2.5, null, true, [1,\"x\"], {\"a\":1,\"b\":[2]}");
  }
}

TEST(zero_is_nothing_but_zero) {
  static const char *const others[] = {"null", "false", "''", "[]", "{}"};
  fits("{'properties': {'p': {'enum': [0]}}}", "{'p': 0.0}");
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    char arguments[64], schema[64];
    snprintf(arguments, sizeof arguments, "{'p': %s}", others[i]);
    fails("{'properties': {'p': {'enum': [0]}}}", arguments, "arguments.p: must be one of 0");
    snprintf(schema, sizeof schema, "{'properties': {'p': {'enum': [%s]}}}", others[i]);
    fits(schema, arguments);
    assert_int_equal(validate(json_value(schema_writer, schema), json_value(arguments_writer, "{'p': 0}"), arguments,
                              sizeof arguments),
                     TP_ERR_MALFORMED);
  }
}

TEST(bounds_are_inclusive_and_exact) {
  static const char schema[] = "{'properties': {'n': {'minimum': 1, 'maximum': 9007199254740993}}}";
  fits(schema, "{'n': 1}");
  fits(schema, "{'n': 1.0}");
  fits(schema, "{'n': 9007199254740993}");
  fits(schema, "{'n': 'not a number: bounds say nothing'}");
  fails(schema, "{'n': 0}", "arguments.n: is below the minimum 1");
  fails(schema, "{'n': 0.999}", "arguments.n: is below the minimum 1");
  fails(schema, "{'n': 9007199254740994}", "arguments.n: is above the maximum 9007199254740993");
  fails("{'properties': {'n': {'maximum': 0.5}}}", "{'n': 1}", "arguments.n: is above the maximum 0.5");
}

TEST(not_a_number_is_outside_any_bound) {
  tp_text schema = json_value(schema_writer, "{'properties': {'n': {'maximum': 5}}}");
  tp_text nan = {"\x81\xa1n\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", 12};
  char message[64];
  assert_int_equal(validate(schema, nan, message, sizeof message), TP_ERR_MALFORMED);
  assert_string_equal(message, "arguments.n: is above the maximum 5");
}

TEST(arguments_that_are_no_map_are_refused_by_any_schema) {
  char message[64];
  tp_text none = {NULL, 0}, list = json_value(arguments_writer, "[1]");
  assert_int_equal(validate(none, list, message, sizeof message), TP_ERR_MALFORMED);
  assert_string_equal(message, "arguments: expected object, got array");
  assert_int_equal(validate(none, none, message, sizeof message), TP_ERR_MALFORMED);
  assert_string_equal(message, "arguments: not one well-formed value");
  assert_int_equal(validate(none, json_value(arguments_writer, "{'any': [1]}"), message, sizeof message), TP_OK);
}

TEST(arguments_that_are_cut_off_are_refused) {
  tp_text whole = json_value(arguments_writer, "{'city': 'Oslo', 'days': [1, 2, 3]}");
  tp_text schema = json_value(schema_writer, "{'type': 'object'}");
  char message[64];
  assert_int_equal(validate(schema, whole, message, sizeof message), TP_OK);
  for (size_t size = 0; size < whole.size; size++) {
    assert_int_equal(validate(schema, (tp_text){whole.data, size}, message, sizeof message), TP_ERR_MALFORMED);
  }
}

TEST(the_message_holds_nothing_of_the_arguments) {
  fails("{'properties': {'p': {'type': 'integer'}}}", "{'p': 'secret', 'secret': 1}",
        "arguments.p: expected integer, got string");
  fails("{'properties': {'p': {'maximum': 3}}}", "{'p': 4711}", "arguments.p: is above the maximum 3");
}

TEST(controls_in_a_property_name_do_not_reach_the_message) {
  fails("{'required': ['a\\nb\x7f']}", "{}", "arguments.a?b?: is required and missing");
  fails("{'required': ['a\\u0000b']}", "{}", "arguments.a?b: is required and missing");
}

TEST(a_message_is_cut_to_the_callers_size_at_a_code_point) {
  tp_text schema = json_value(schema_writer, "{'required': ['\xe2\x82\xac\xe2\x82\xac']}");
  tp_text arguments = json_value(arguments_writer, "{}");
  char message[40];
  memset(message, 'x', sizeof message);
  assert_int_equal(validate(schema, arguments, message, 15), TP_ERR_MALFORMED);
  assert_string_equal(message, "arguments.\xe2\x82\xac");
  assert_int_equal(message[15], 'x');
  assert_int_equal(validate(schema, arguments, message, 1), TP_ERR_MALFORMED);
  assert_string_equal(message, "");
  assert_int_equal(validate(schema, arguments, NULL, 0), TP_ERR_MALFORMED);
}

TEST(a_long_enum_does_not_overrun_the_message) {
  char schema[SCHEMA_SIZE] = "{'properties': {'p': {'enum': ['first'", message[TP__SCHEMA_MESSAGE_SIZE];
  append(schema, ", '\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9'", 300);
  append(schema, "]}}}", 1);
  assert_int_equal(
      validate(json_value(schema_writer, schema), json_value(arguments_writer, "{'p': 1}"), message, sizeof message),
      TP_ERR_MALFORMED);
  assert_in_range(strlen(message), TP__SCHEMA_MESSAGE_SIZE - 8, TP__SCHEMA_MESSAGE_SIZE - 1);
  assert_true(tp_utf8_valid(tp_text_of(message), NULL));
}

/* 31 nested containers are the deepest that a checked value may have around a leaf. */
TEST(the_deepest_schema_and_arguments_are_walked) {
  char schema[SCHEMA_SIZE] = "{'properties': {'a': ", arguments[SCHEMA_SIZE] = "{'a': ";
  char message[TP__SCHEMA_MESSAGE_SIZE];
  append(schema, "{'items': ", 29);
  append(schema, "{'type': 'integer'}", 1);
  append(schema, "}", 31);
  append(arguments, "[", 29);
  append(arguments, "'x'", 1);
  append(arguments, "]", 29);
  append(arguments, "}", 1);
  accepted(schema);
  assert_int_equal(
      validate(json_value(schema_writer, schema), json_value(arguments_writer, arguments), message, sizeof message),
      TP_ERR_MALFORMED);
  assert_non_null(strstr(message, "[0][0][0]: expected integer, got string"));
}

/* ---- the other keywords: what the model reads ---- */

TEST(each_keyword_says_what_it_wants) {
  static const struct {
    const char *schema, *fits, *fails, *message;
  } rows[] = {
      {"{'properties': {'a': {'const': 1}}}", "{'a': 1.0}", "{'a': 2}", "arguments.a: must be 1"},
      {"{'properties': {'a': {'exclusiveMinimum': 1}}}", "{'a': 2}", "{'a': 1}", "arguments.a: must be above 1"},
      {"{'properties': {'a': {'exclusiveMaximum': 1}}}", "{'a': 0.5}", "{'a': 1}", "arguments.a: must be below 1"},
      {"{'properties': {'a': {'minimum': 1, 'exclusiveMinimum': true}}}", "{'a': 2}", "{'a': 1}",
       "arguments.a: must be above 1"},
      {"{'properties': {'a': {'multipleOf': 0.01}}}", "{'a': 4.35}", "{'a': 4.355}",
       "arguments.a: must be a multiple of 0.01"},
      {"{'properties': {'a': {'minLength': 2}}}", "{'a': '\xc3\xa4\xc3\xa4'}", "{'a': '\xc3\xa4'}",
       "arguments.a: must have at least 2 characters"},
      {"{'properties': {'a': {'maxLength': 2.0}}}", "{'a': 'ab'}", "{'a': 'abc'}",
       "arguments.a: must have at most 2 characters"},
      {"{'properties': {'a': {'pattern': '^[a-z]+$'}}}", "{'a': 'ab'}", "{'a': 'a1'}",
       "arguments.a: must match the pattern \"^[a-z]+$\""},
      {"{'properties': {'a': {'format': 'date'}}}", "{'a': '2024-02-29'}", "{'a': '2023-02-29'}",
       "arguments.a: must be a date as in RFC 3339: 2026-02-28"},
      {"{'properties': {'a': {'minItems': 1}}}", "{'a': [1]}", "{'a': []}", "arguments.a: must have at least 1 items"},
      {"{'properties': {'a': {'maxItems': 1}}}", "{'a': []}", "{'a': [1, 2]}",
       "arguments.a: must have at most 1 items"},
      {"{'properties': {'a': {'uniqueItems': true}}}", "{'a': [1, '1', true]}", "{'a': [1, 2, 1.0]}",
       "arguments.a: its items must differ"},
      {"{'properties': {'a': {'prefixItems': [{'type': 'string'}], 'items': false}}}", "{'a': ['x']}",
       "{'a': ['x', 1]}", "arguments.a[1]: must not be there"},
      {"{'properties': {'a': {'items': [{'type': 'string'}], 'additionalItems': {'type': 'null'}}}}",
       "{'a': ['x', null]}", "{'a': ['x', 1]}", "arguments.a[1]: expected null, got integer"},
      {"{'properties': {'a': {'contains': {'const': 1}, 'maxContains': 1}}}", "{'a': [1, 2]}", "{'a': [1, 1]}",
       "arguments.a: must have at most 1 items as `contains` has them"},
      {"{'properties': {'a': {}, 'b': {}}, 'additionalProperties': false}", "{'a': 1}", "{'secret': 1}",
       "arguments: has a property that the schema does not have; it has a, b"},
      {"{'additionalProperties': {'type': 'integer'}}", "{'x': 1}", "{'secret': 'y'}",
       "arguments.*: expected integer, got string"},
      {"{'properties': {'a': {}}, 'required': ['a'], 'additionalProperties': false}", "{'a': 1}", "{}",
       "arguments.a: is required and missing"},
      {"{'patternProperties': {'^n_': {'type': 'integer'}}, 'additionalProperties': false}", "{'n_secret': 1}",
       "{'n_secret': 'x'}", "arguments.*: expected integer, got string"},
      {"{'propertyNames': {'maxLength': 3}}", "{'abc': 1}", "{'secret': 1}",
       "arguments.*: must have at most 3 characters"},
      {"{'minProperties': 1}", "{'a': 1}", "{}", "arguments: must have at least 1 properties"},
      {"{'dependentRequired': {'a': ['b']}}", "{'a': 1, 'b': 2}", "{'a': 1}", "arguments.b: is required next to a"},
      {"{'dependencies': {'a': ['b'], 'c': {'required': ['d']}}}", "{'c': 1, 'd': 2}", "{'c': 1}",
       "arguments.d: is required and missing"},
      {"{'properties': {'a': {'allOf': [{'type': 'integer'}, {'minimum': 3}]}}}", "{'a': 3}", "{'a': 2}",
       "arguments.a: is below the minimum 3"},
      {"{'properties': {'a': {'anyOf': [{'type': 'integer'}, {'type': 'null'}]}}}", "{'a': null}", "{'a': 'secret'}",
       "arguments.a: fits none of the 2 schemas of anyOf; of the first: arguments.a: expected integer, got string"},
      {"{'properties': {'a': {'oneOf': [{'minimum': 1}, {'maximum': 3}]}}}", "{'a': 5}", "{'a': 2}",
       "arguments.a: fits more than one of the schemas of oneOf"},
      {"{'properties': {'a': {'not': {'type': 'string'}}}}", "{'a': 1}", "{'a': 'secret'}",
       "arguments.a: must not fit the schema of `not`"},
      {"{'if': {'required': ['a']}, 'then': {'required': ['b']}, 'else': {'required': ['c']}}", "{'a': 1, 'b': 1}",
       "{'a': 1}", "arguments.b: is required and missing"},
      {"{'$defs': {'n': {'type': 'integer'}}, 'properties': {'a': {'$ref': '#/$defs/n'}}}", "{'a': 1}", "{'a': 'x'}",
       "arguments.a: expected integer, got string"},
      {"{'definitions': {'a/b ~c': {'type': 'integer'}}, 'properties': {'a': {'$ref': '#/definitions/a~1b%20~0c'}}}",
       "{'a': 1}", "{'a': 'x'}", "arguments.a: expected integer, got string"},
      {"{'properties': {'v': {'type': 'integer'}, 'next': {'$ref': '#'}}, 'required': ['v']}",
       "{'v': 1, 'next': {'v': 2, 'next': {'v': 3}}}", "{'v': 1, 'next': {'v': 2, 'next': {}}}",
       "arguments.next.next.v: is required and missing"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fits(rows[i].schema, rows[i].fits);
    fails(rows[i].schema, rows[i].fails, rows[i].message);
  }
}

TEST(property_that_is_only_required_is_none_that_the_schema_has) {
  fails("{'properties': {'a': {}}, 'required': ['b'], 'additionalProperties': false}", "{'b': 1}",
        "arguments: has a property that the schema does not have; it has a");
}

TEST(ref_is_read_as_a_pointer_in_its_own_resource) {
  static const char wrong[] = "arguments.a: expected integer, got string";
  fails("{'$defs': {'~1': {'type': 'integer'}}, 'properties': {'a': {'$ref': '#/$defs/~01'}}}", "{'a': 'x'}", wrong);
  fails(
      "{'$defs': {'x': {'type': 'null'}}, 'properties': {'a': {'$id': 'inner', '$defs': {'x': {'type': 'integer'}},"
      " '$ref': '#/$defs/x'}}}",
      "{'a': 'x'}", wrong);
  fails("{'$defs': {'x': {'$id': 'far', 'type': 'integer'}}, 'properties': {'a': {'$ref': 'far'}}}", "{'a': 'x'}",
        wrong);
}

TEST(dates_and_times_are_those_of_the_calendar) {
  static const struct {
    const char *format, *text;
    bool fits;
  } rows[] = {{"date", "2000-02-29", true},
              {"date", "1900-02-29", false},
              {"date", "2026-04-31", false},
              {"date", "2026-13-01", false},
              {"date", "2026-1-01", false},
              {"time", "23:59:60Z", true},
              {"time", "12:00:60Z", false},
              {"time", "01:29:60+01:30", true},
              {"time", "24:00:00Z", false},
              {"time", "12:00:00", false},
              {"time", "12:00:00.5-23:59", true},
              {"time", "12:00:00.Z", false},
              {"date-time", "2026-01-01t00:00:00z", true},
              {"date-time", "2026-01-01 00:00:00Z", false},
              {"ipv4", "127.0.0.1", true},
              {"ipv4", "127.0.0.256", false},
              {"ipv6", "::1", true},
              {"ipv6", "1::2::3", false},
              {"uuid", "2EB8AA08-aa98-11ea-b4aa-73b441d16380", true},
              {"uuid", "2eb8aa08aa98-11ea-b4aa-73b441d163800", false}};
  char schema[256], arguments[256], message[TP__SCHEMA_MESSAGE_SIZE];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(schema, sizeof schema, "{'properties': {'a': {'format': '%s'}}}", rows[i].format);
    snprintf(arguments, sizeof arguments, "{'a': '%s', 'z': 0}", rows[i].text); /* its bytes have an end */
    bool fit = validate(json_value(schema_writer, schema), json_value(arguments_writer, arguments), message,
                        sizeof message) == TP_OK;
    if (fit != rows[i].fits) fail_msg("%s", arguments);
  }
}

TEST(an_anchor_is_found_by_the_word_of_each_draft) {
  static const char *const words[] = {"'$anchor': 'b'", "'$dynamicAnchor': 'b'", "'$id': '#b'", "'id': '#b'"};
  char schema[256], message[TP__SCHEMA_MESSAGE_SIZE];
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    snprintf(schema, sizeof schema, "{'$defs': {'x': {%s, 'type': 'integer'}}, 'properties': {'a': {'$ref': '#b'}}}",
             words[i]);
    for (int fits = 0; fits < 2; fits++) {
      const char *arguments = fits ? "{'a': 1}" : "{'a': 't'}";
      bool fit = validate(json_value(schema_writer, schema), json_value(arguments_writer, arguments), message,
                          sizeof message) == TP_OK;
      if (fit != fits) fail_msg("%s", words[i]);
    }
  }
}

/* Each level asks both schemas of the next: two to the power of thirty. */
TEST(a_check_ends_whatever_the_schema) {
  static const char message[] = "arguments: too much to check: nested too deeply, or with too many alternatives";
  char arguments[SCHEMA_SIZE] = "";
  append(arguments, "{'a': ", 30);
  append(arguments, "1", 1);
  append(arguments, "}", 30);
  fails("{'properties': {'a': {'oneOf': [{'$ref': '#'}, {'$ref': '#', 'title': 't'}, {'const': 2}]}}}", arguments,
        message);
}

/* ---- patterns ---- */

TEST(patterns_match_as_ecma_has_them) {
  static const struct {
    const char *pattern, *text;
    bool matches;
  } rows[] = {
      {"", "", true},
      {"^$", "", true},
      {"^$", "a", false},
      {"b", "abc", true},
      {"^b", "abc", false},
      {"b$", "abc", false},
      {"^a.c$",
       "a\xc3\xa4"
       "c",
       true},
      {"^a.c$", "a\nc", false},
      {"^(ab|cd)*$", "abcdab", true},
      {"^(ab|cd)*$", "abcda", false},
      {"^(a|b|c|)d$", "d", true},
      {"^a{2,3}$", "aaa", true},
      {"^a{2,3}$", "aaaa", false},
      {"^a{2}$", "aaa", false},
      {"^a{2,}$", "aaaaa", true},
      {"^a{0,1}b$", "b", true},
      {"^(a{2}){2}$", "aaaa", true},
      {"^(a*)*b$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
      {"^a+?$", "aaa", true},
      {"^[^a-c]$", "d", true},
      {"^[^a-c]$", "b", false},
      {"^[a\\-c]+$", "a-c", true},
      {"^[]a]$", "a]", false},
      {"^[\\w.]+@x$", "a_1.b@x", true},
      {"^\\d+$", "\xd9\xa1", false},
      {"^\\D$", "\xd9\xa1", true},
      {"^\\s$", "\xc2\xa0", true},
      {"^\\S$", "\xc2\xa0", false},
      {"\\bcat\\b", "a cat!", true},
      {"\\bcat\\b", "concat", false},
      {"\\Bcat", "concat", true},
      {"^\\u00e4\\x41\\t$",
       "\xc3\xa4"
       "A\t",
       true},
      {"^\\ud83d\\ude00$", "\xf0\x9f\x98\x80", true},
      {"^\\u{1F600}$", "\xf0\x9f\x98\x80", true},
      {"^(?:a|(?<n>b))$", "b", true},
      {"^a{,2}$", "a{,2}", true},
      {"^{a}]$", "{a}]", true},
      {"^\\/\\.\\$$", "/.$", true},
      {"^(a|b", "a", false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const tp__pattern *pattern;
    tp__arena arena;
    tp__arena_init(&arena, &libc, NULL, 0, 0);
    assert_int_equal(tp__pattern_compile(tp_text_of(rows[i].pattern), &arena, &pattern), TP_OK);
    bool matches = pattern && tp__pattern_matches(pattern, tp_text_of(rows[i].text));
    if (matches != rows[i].matches) fail_msg("%s: %s", rows[i].pattern, rows[i].text);
    tp__arena_fini(&arena);
  }
}

TEST(patterns_that_are_not_played_are_none) {
  static const char *const sources[] = {"(?=a)",
                                        "(?!a)",
                                        "(?<=a)",
                                        "(?<!a)",
                                        "(a)\\1",
                                        "\\p{L}",
                                        "\\k<a>",
                                        "\\cA",
                                        "(",
                                        ")",
                                        "[a",
                                        "a**",
                                        "*a",
                                        "a{3,2}",
                                        "[z-a]",
                                        "\\",
                                        "(?P<a>b)",
                                        "\\u12",
                                        "(?<a",
                                        "a|*",
                                        "a{1001}",
                                        "(a{40}){40}",
                                        "(((a{9}){9}){9}){9}",
                                        "(){999}{999}"};
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    const tp__pattern *pattern;
    tp__arena arena;
    tp__arena_init(&arena, &libc, NULL, 0, 0);
    assert_int_equal(tp__pattern_compile(tp_text_of(sources[i]), &arena, &pattern), TP_OK);
    if (pattern) fail_msg("%s", sources[i]);
    tp__arena_fini(&arena);
  }
}
