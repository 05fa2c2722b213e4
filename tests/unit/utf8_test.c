/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"
#include "tests/unit/value_support.h"

static tp_text text_of(const char *bytes, size_t size) { return (tp_text){bytes, size}; }

/* The offset of the first byte that is no UTF-8, or the size. */
static size_t valid_prefix(tp_text text) {
  tp_text copy = exact_copy(text);
  size_t offset = 4711;
  bool valid = tp_utf8_valid(copy, &offset);
  assert_int_equal(valid, tp_utf8_valid(copy, NULL));
  exact_free(copy);
  if (valid) assert_int_equal(offset, 4711); /* untouched */
  return valid ? text.size : offset;
}

TEST(nothing_and_ascii_and_longer_forms_are_valid) {
  assert_true(tp_utf8_valid((tp_text){NULL, 0}, NULL));
  static const char *const texts[] = {"a",
                                      "caf\xc3\xa9",
                                      "\xe2\x82\xac",
                                      "\xf0\x9f\x98\x80",
                                      "\xef\xbb\xbf",
                                      "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
                                      "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    assert_int_equal(valid_prefix(tp_text_of(texts[i])), strlen(texts[i]));
  }
  assert_int_equal(valid_prefix(text_of("a\0b", 3)), 3);
}

TEST(first_bad_byte_is_named) {
  static const struct {
    const char *text;
    size_t offset;
  } rows[] = {
      {"\x80", 0}, /* a continuation alone */
      {"a\xbf", 1},
      {"ab\xc3", 2}, /* cut off */
      {"\xe2\x82", 0},
      {"\xf0\x9f\x98", 0},
      {"\xc3(", 0}, /* not continued */
      {"\xe2(\xa1", 0},
      {"\xe2\x82(", 0},
      {"\xf0\x90\x80(", 0},
      {"\xc0\xaf", 0}, /* overlong */
      {"\xc1\xbf", 0},
      {"\xe0\x9f\xbf", 0},
      {"\xf0\x8f\xbf\xbf", 0},
      {"x\xed\xa0\x80", 1}, /* surrogates */
      {"\xed\xbf\xbf", 0},
      {"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
      {"\xf5\x80\x80\x80", 0},
      {"\xf8\x88\x80\x80\x80", 0}, /* five bytes, as long ago */
      {"\xfe", 0},
      {"\xff", 0},
      {"\xc3\xa9\xc3\xa9\xff", 4},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(valid_prefix(tp_text_of(rows[i].text)), rows[i].offset);
  }
}

TEST(place_does_not_depend_on_what_stands_before) {
  for (size_t before = 0; before < 40; before++) {
    char text[64];
    memset(text, 'a', sizeof text);
    memcpy(text + before, "\xc3\xa9\xff", 3);
    assert_int_equal(valid_prefix(text_of(text, before + 3 + 8)), before + 2);
    text[before + 2] = 'a';
    assert_int_equal(valid_prefix(text_of(text, before + 3 + 8)), before + 3 + 8);
  }
}

/* ASCII is checked several bytes at a time: a single other byte is found at every place in texts of every size. */
TEST(bad_byte_is_found_at_each_place_of_each_size) {
  size_t wrong = 0;
  char text[100];
  memset(text, 'a', sizeof text);
  for (size_t size = 1; size <= sizeof text; size++) {
    wrong += valid_prefix(text_of(text, size)) != size;
    for (size_t bad = 0; bad < size; bad++) {
      text[bad] = '\x80';
      wrong += valid_prefix(text_of(text, size)) != bad;
      text[bad] = 'a';
    }
  }
  assert_int_equal(wrong, 0);
}

static size_t encode(uint32_t point, unsigned char *bytes) {
  if (point < 0x80) return bytes[0] = (unsigned char)point, 1;
  size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = size; i-- > 1; point >>= 6) bytes[i] = (unsigned char)(0x80 | (point & 0x3f));
  bytes[0] = (unsigned char)(first[size] | point);
  return size;
}

TEST(every_code_point_but_surrogates_is_valid) {
  size_t wrong = 0;
  for (uint32_t point = 0; point <= 0x11ffff; point++) {
    unsigned char bytes[4];
    size_t size = encode(point, bytes);
    bool expected = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
    if (tp_utf8_valid(text_of((const char *)bytes, size), NULL) != expected) wrong++;
  }
  assert_int_equal(wrong, 0);
}

/* All sequences of up to three bytes: exactly those are valid that are the encoding of code points. */
TEST(only_what_code_points_encode_to_is_valid) {
  size_t valid[4] = {0};
  for (uint32_t bits = 0; bits < 1u << 24; bits++) {
    unsigned char bytes[3] = {(unsigned char)(bits >> 16), (unsigned char)(bits >> 8), (unsigned char)bits};
    valid[3] += tp_utf8_valid(text_of((const char *)bytes, 3), NULL);
    if (bits < 1u << 16) valid[2] += tp_utf8_valid(text_of((const char *)bytes + 1, 2), NULL);
    if (bits < 1u << 8) valid[1] += tp_utf8_valid(text_of((const char *)bytes + 2, 1), NULL);
  }
  size_t one = 0x80, two = 0x800 - 0x80, three = 0x10000 - 0x800 - 0x800;
  assert_int_equal(valid[1], one);
  assert_int_equal(valid[2], one * one + two);
  assert_int_equal(valid[3], one * one * one + 2 * one * two + three);
}

/* ---- replacement ---- */

#define BAD "\xEF\xBF\xBD"

static const struct {
  const char *text;
  size_t size;
  const char *copy; /* a NUL is 0x01 here */
} replaced[] = {
    {"", 0, ""},
    {"plain", 5, "plain"},
    {"caf\xE9 au lait", 12, "caf" BAD " au lait"}, /* Latin-1 */
    {"\xE9", 1, BAD},
    {"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", 14, "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
    {"\xC0\xAF", 2, BAD BAD}, /* overlong forms of / */
    {"\xE0\x80\xAF", 3, BAD BAD BAD},
    {"\xF0\x80\x80\xAF", 4, BAD BAD BAD BAD},
    {"a\xED\xA0\x80z", 5, "a" BAD BAD BAD "z"}, /* a high surrogate, and a pair (CESU-8) */
    {"\xED\xA0\xBD\xED\xB8\x80", 6, BAD BAD BAD BAD BAD BAD},
    {"\xF4\x90\x80\x80", 4, BAD BAD BAD BAD}, /* above U+10FFFF */
    {"\xF8\x88\x80\x80\x80", 5, BAD BAD BAD BAD BAD},
    {"\xFE\xFF\x01"
     "A",
     4,
     BAD BAD "\x01"
             "A"},                   /* UTF-16 with its mark */
    {"ab\xE2\x82", 4, "ab" BAD BAD}, /* cut at the end of a buffer */
    {"ab\xF0\x9F\x98", 5, "ab" BAD BAD BAD},
    {"\xE2\x82\xE2\x82\xAC", 5, BAD BAD "\xE2\x82\xAC"}, /* cut, and whole */
    {"\xE2\x82"
     "A",
     3, BAD BAD "A"},
    {"\x80\xBF", 2, BAD BAD}, /* continuations of nothing */
    {"a\0\xFF\0"
     "b",
     5,
     "a\x01" BAD "\x01"
     "b"},
    {"\xEF\xBB\xBFx", 4, "\xEF\xBB\xBFx"}, /* a byte-order mark is a code point */
    {"0123456789012345678901234567890123456789\xFF", 41, "0123456789012345678901234567890123456789" BAD},
};

TEST(each_byte_that_is_no_utf8_is_replaced_and_no_other) {
  for (size_t i = 0; i < sizeof replaced / sizeof replaced[0]; i++) {
    tp_text text = exact_copy(text_of(replaced[i].text, replaced[i].size));
    char copy[128];
    size_t size = tp_utf8_replace(text, copy, sizeof copy), bad = 0;
    assert_int_equal(tp_utf8_replace(text, NULL, 0), size);
    for (size_t at = 0; at < size; at++)
      if (copy[at] == '\0') copy[at] = 1;
    copy[size] = '\0';
    if (strcmp(copy, replaced[i].copy) != 0) fail_msg("%zu: %s", i, copy);
    for (const char *at = copy; (at = strstr(at, BAD)); at += 3) bad++;
    assert_int_equal(size, text.size + 2 * bad);
    assert_true(tp_utf8_valid(text_of(copy, size), NULL));
    exact_free(text);
  }
}

TEST(a_buffer_that_is_too_small_gets_whole_code_points) {
  static const tp_text text = {
      "a\xC3\xA9\xFF"
      "b",
      5};
  static const struct {
    size_t size;
    const char *copy;
  } rows[] = {{0, ""},
              {1, "a"},
              {2, "a"},
              {3, "a\xC3\xA9"},
              {4, "a\xC3\xA9"},
              {5, "a\xC3\xA9"},
              {6, "a\xC3\xA9" BAD},
              {7, "a\xC3\xA9" BAD "b"},
              {8, "a\xC3\xA9" BAD "b"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char copy[16] = {0};
    assert_int_equal(tp_utf8_replace(text, copy, rows[i].size), 7);
    assert_string_equal(copy, rows[i].copy);
  }
}
