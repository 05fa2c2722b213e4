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

/* ASCII is read some bytes at a time: one byte that is none is found wherever it stands in a text of any size. */
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

/* All sequences of up to three bytes: exactly those are valid that some code points encode to. */
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
