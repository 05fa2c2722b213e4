/* SPDX-License-Identifier: Apache-2.0
 *
 * One part: the struct and the value of each kind, refusals, and the line that describes a part. */
#include "tests/support/test.h"
#include "tests/unit/value_support.h"
#include "turnphase/part.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define T(string) \
  { (string), sizeof(string) - 1 }
#define PART(...) \
  (tp_part) { .struct_size = sizeof(tp_part), __VA_ARGS__ }

/* In the writer's memory. */
static tp_text written(tp_writer *writer, const tp_part *part) {
  tp_fault fault = {0};
  tp_text value;
  tp_writer_reset(writer);
  if (tp_part_write(part, writer, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  assert_int_equal(tp_value_check(value, NULL), TP_OK);
  return value;
}

static void assert_json(tp_writer *writer, const tp_part *part, const char *expected) {
  tp_text json;
  tp_text value = written(writer, part);
  assert_int_equal(tp_json_encode(value, writer, &json, NULL), TP_OK);
  assert_string_equal(json.data, expected);
}

static const tp_part examples[] = {
    {.kind = TP_PART_TEXT, .text = T("more")},
    {.kind = TP_PART_TEXT},
    {.kind = TP_PART_IMAGE, .bytes = T("\x89PNG"), .media_type = T("image/png")},
    {.kind = TP_PART_IMAGE, .uri = T("https://example.org/a.png")},
    {.kind = TP_PART_AUDIO, .bytes = T("RIFF"), .media_type = T("audio/wav"), .name = T("bell"), .uri = T("file:///b")},
    {.kind = TP_PART_FILE, .bytes = T("\0\1")},
    {.kind = TP_PART_FILE, .uri = T("a.png")},
    {.kind = TP_PART_FILE},
    {.kind = TP_PART_FILE, .bytes = T("x"), .media_type = T("text/plain; charset=utf-8"), .description = T("y")},
    {.kind = TP_PART_LINK, .uri = T("file:///r.txt"), .name = T("r"), .media_type = T("text/plain"), .size = 20317},
    {.kind = TP_PART_LINK, .uri = T("db://table")},
};
static const char *const as_json[] = {
    "{\"text\":\"more\"}",
    "{\"text\":\"\"}",
    "{\"image\":\"iVBORw==\",\"media_type\":\"image/png\"}",
    "{\"image\":\"https://example.org/a.png\"}",
    "{\"audio\":\"UklGRg==\",\"uri\":\"file:///b\",\"media_type\":\"audio/wav\",\"name\":\"bell\"}",
    "{\"file\":\"AAE=\"}",
    "{\"file\":\"a.png\"}",
    "{\"file\":\"\"}",
    "{\"file\":\"eA==\",\"media_type\":\"text/plain; charset=utf-8\",\"description\":\"y\"}",
    "{\"link\":\"file:///r.txt\",\"media_type\":\"text/plain\",\"name\":\"r\",\"size\":20317}",
    "{\"link\":\"db://table\"}",
};
static const char *const described[] = {
    "text (4 bytes)",
    "text",
    "image (image/png, 4 bytes)",
    "image <https://example.org/a.png>",
    "audio bell <file:///b> (audio/wav, 4 bytes)",
    "file (2 bytes)",
    "file <a.png>",
    "file",
    "file (text/plain; charset=utf-8, 1 byte): y",
    "link r <file:///r.txt> (text/plain, 20,317 bytes)",
    "link <db://table>",
};

TEST(each_kind_is_written_as_a_map_and_read_back) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(examples); i++) {
    tp_part part = examples[i], back = {.struct_size = sizeof back};
    part.struct_size = sizeof part;
    assert_json(writer, &part, as_json[i]);
    assert_int_equal(tp_part_read(written(writer, &part), &back, NULL), TP_OK);
    assert_int_equal(back.kind, part.kind);
    assert_true(same_bytes(back.text, part.text));
    assert_true(same_bytes(back.bytes, part.bytes));
    assert_true(same_bytes(back.uri, part.uri));
    assert_true(same_bytes(back.media_type, part.media_type));
    assert_true(same_bytes(back.name, part.name));
    assert_true(same_bytes(back.description, part.description));
    assert_int_equal(back.size, part.size);
  }
  tp_writer_free(writer);
}

TEST(a_part_has_a_line_that_names_it) {
  for (size_t i = 0; i < COUNT(examples); i++) {
    char line[128];
    tp_part part = examples[i];
    part.struct_size = sizeof part;
    assert_int_equal(tp_part_describe(&part, line, sizeof line), strlen(described[i]));
    assert_string_equal(line, described[i]);
    assert_int_equal(tp_part_describe(&part, NULL, 0), strlen(described[i]));
  }
  tp_part url = PART(.kind = TP_PART_IMAGE, .uri = T("data:image/png;base64,iVBORw=="), .name = T("a\nb"));
  char line[128], cut[10] = "xxxxxxxxx";
  tp_part_describe(&url, line, sizeof line);
  assert_string_equal(line, "image a b (6 bytes)");
  url.name = (tp_text)T("\xc3\xa4\xc3\xa4");
  assert_int_equal(tp_part_describe(&url, cut, sizeof cut), strlen("image \xc3\xa4\xc3\xa4 (6 bytes)"));
  assert_string_equal(cut, "image \xc3\xa4"); /* the cut leaves no half of a character */
  assert_int_equal(tp_part_describe(&PART(.kind = TP_PART_IMAGE), line, sizeof line), 0);
  assert_string_equal(line, "");
}

TEST(a_summary_has_all_but_the_content) {
  static const struct {
    tp_part part;
    const char *json;
  } cases[] = {
      {{.kind = TP_PART_TEXT, .text = T("more")}, "{\"kind\":\"text\",\"text\":\"more\"}"},
      {{.kind = TP_PART_IMAGE, .bytes = T("PNG"), .media_type = T("image/png"), .name = T("a")},
       "{\"kind\":\"image\",\"media_type\":\"image/png\",\"name\":\"a\",\"size\":3}"},
      {{.kind = TP_PART_IMAGE, .uri = T("data:image/png;base64,iVBORw==")}, "{\"kind\":\"image\",\"size\":6}"},
      {{.kind = TP_PART_LINK, .uri = T("file:///r"), .size = 7, .description = T("d")},
       "{\"kind\":\"link\",\"uri\":\"file:///r\",\"description\":\"d\",\"size\":7}"},
  };
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_part part = cases[i].part;
    tp_text value, json;
    part.struct_size = sizeof part;
    tp_writer_reset(writer);
    assert_int_equal(tp_part_write_summary(&part, writer, NULL), TP_OK);
    assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
    assert_int_equal(tp_json_encode(value, writer, &json, NULL), TP_OK);
    assert_string_equal(json.data, cases[i].json);
  }
  assert_int_equal(tp_part_write_summary(&PART(.kind = TP_PART_IMAGE), writer, NULL), TP_ERR_USAGE);
  tp_writer_free(writer);
}

/* A URI can be as long as a host likes. */
TEST(a_line_is_bounded) {
  static char uri[100000];
  memset(uri, 'u', sizeof uri);
  tp_part part = PART(.kind = TP_PART_LINK, .uri = {uri, sizeof uri}, .name = {uri, sizeof uri});
  assert_true(tp_part_describe(&part, NULL, 0) < 2700);
}

TEST(the_media_type_of_a_data_url_is_read) {
  static const struct {
    const char *json, *media;
  } cases[] = {{"{\"image\":\"data:image/png;base64,iVBORw==\"}", "image/png"},
               {"{\"image\":\"data:image/png;base64,iVBORw==\",\"media_type\":\"image/x\"}", "image/x"},
               {"{\"file\":\"data:text/plain,hello\"}", "text/plain"},
               {"{\"file\":\"data:,hello\"}", ""},
               {"{\"file\":\"data:\"}", ""},
               {"{\"file\":\"data:image\"}", ""}};
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_part part = {.struct_size = sizeof part};
    tp_text value;
    tp_writer_reset(writer);
    assert_int_equal(tp_json_decode(tp_text_of(cases[i].json), writer, NULL), TP_OK);
    assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
    tp_text exact = exact_copy(value);
    assert_int_equal(tp_part_read(exact, &part, NULL), TP_OK);
    assert_true(tp_text_is(part.media_type, cases[i].media));
    exact_free(exact);
  }
  tp_writer_free(writer);
}

TEST(a_struct_that_is_no_part_is_refused_by_its_member) {
  static const struct {
    tp_part part;
    tp_status code;
    const char *words;
  } cases[] = {
      {{.kind = TP_PART_NONE}, TP_ERR_USAGE, "kind is none of the known ones"},
      {{.kind = (tp_part_kind)6}, TP_ERR_USAGE, "kind is none of the known ones"},
      {{.kind = TP_PART_TEXT, .text = T("x"), .reserved_ = 1}, TP_ERR_USAGE, "reserved_"},
      {{.kind = TP_PART_TEXT, .uri = T("x")}, TP_ERR_USAGE, "a text, and nothing else"},
      {{.kind = TP_PART_TEXT, .size = 1}, TP_ERR_USAGE, "a text, and nothing else"},
      {{.kind = TP_PART_TEXT, .description = T("x")}, TP_ERR_USAGE, "a text, and nothing else"},
      {{.kind = TP_PART_IMAGE, .text = T("x"), .uri = T("y")}, TP_ERR_USAGE, "text belongs to kind text"},
      {{.kind = TP_PART_IMAGE}, TP_ERR_USAGE, "bytes or uri is missing"},
      {{.kind = TP_PART_IMAGE, .bytes = T("x")}, TP_ERR_USAGE, "media_type is missing"},
      {{.kind = TP_PART_AUDIO, .bytes = T("x")}, TP_ERR_USAGE, "media_type is missing"},
      {{.kind = TP_PART_IMAGE, .bytes = T("x"), .media_type = T("png")}, TP_ERR_USAGE, "media_type must be such as"},
      {{.kind = TP_PART_IMAGE, .bytes = T("x"), .media_type = T("/png")}, TP_ERR_USAGE, "media_type must be such as"},
      {{.kind = TP_PART_IMAGE, .bytes = T("x"), .media_type = T("image/")}, TP_ERR_USAGE, "media_type must be such as"},
      {{.kind = TP_PART_IMAGE, .bytes = T("x"), .media_type = T("a/\n")}, TP_ERR_USAGE, "media_type must be such as"},
      {{.kind = TP_PART_LINK, .name = T("x")}, TP_ERR_USAGE, "uri is missing"},
      {{.kind = TP_PART_LINK, .uri = T("x"), .bytes = T("y")}, TP_ERR_USAGE, "bytes: a link"},
      {{.kind = TP_PART_FILE, .uri = T("x"), .size = -1}, TP_ERR_USAGE, "size must not be negative"},
      {{.kind = TP_PART_TEXT, .text = T("\xff")}, TP_ERR_UTF8, "text is not UTF-8"},
      {{.kind = TP_PART_FILE, .uri = T("\xff")}, TP_ERR_UTF8, "uri is not UTF-8"},
      {{.kind = TP_PART_FILE, .uri = T("x"), .description = T("\xff")}, TP_ERR_UTF8, "description is not UTF-8"},
  };
  tp_writer *writer;
  tp_text value;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_part part = cases[i].part;
    tp_fault fault = {0};
    part.struct_size = sizeof part;
    assert_int_equal(tp_part_write(&part, writer, &fault), cases[i].code);
    if (!strstr(fault.message, cases[i].words)) fail_msg("\"%s\" is not in \"%s\"", cases[i].words, fault.message);
    assert_int_equal(tp_part_describe(&part, NULL, 0), 0);
  }
  assert_int_equal(tp_writer_finish(writer, &value), TP_ERR_MALFORMED); /* nothing was written */
  assert_int_equal(tp_part_write(&(tp_part){.kind = TP_PART_TEXT}, writer, NULL), TP_ERR_VERSION);
  tp_writer_free(writer);
}

TEST(a_value_that_is_no_part_is_refused_with_the_reason) {
  static const struct {
    const char *json, *words;
  } cases[] = {
      {"[]", "it must be a map"},
      {"null", "it must be a map"},
      {"{}", "none of text, file, image, audio and link"},
      {"{\"name\":\"x\"}", "none of text, file, image, audio and link"},
      {"{\"text\":\"x\",\"file\":\"y\"}", "two of text"},
      {"{\"text\":1}", "its content is of a wrong kind"},
      {"{\"image\":{}}", "its content is of a wrong kind"},
      {"{\"page\":\"x\"}", "a key is none of"},
      {"{\"text\":\"x\",\"name\":\"y\"}", "a text, and nothing else"},
      {"{\"image\":\"\"}", "bytes or uri is missing"},
      {"{\"image\":\"https://x/y\",\"uri\":\"https://x/z\"}", "beside a content that is a URI"},
      {"{\"image\":\"https://x/y\",\"media_type\":1}", "must be texts"},
      {"{\"image\":\"https://x/y\",\"media_type\":\"png\"}", "media_type must be such as"},
      {"{\"file\":\"x\",\"size\":-1}", "size must be a number"},
      {"{\"file\":\"x\",\"size\":\"1\"}", "size must be a number"},
  };
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_part part = {.struct_size = sizeof part};
    tp_fault fault = {0};
    tp_text value;
    tp_writer_reset(writer);
    assert_int_equal(tp_json_decode(tp_text_of(cases[i].json), writer, NULL), TP_OK);
    assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
    assert_int_equal(tp_part_read(value, &part, &fault), TP_ERR_USAGE);
    if (!strstr(fault.message, cases[i].words)) fail_msg("\"%s\" is not in \"%s\"", cases[i].words, fault.message);
    assert_int_equal(part.kind, TP_PART_NONE);
  }
  tp_part unset = {0};
  assert_int_equal(tp_part_read((tp_text){"\x80", 1}, &unset, NULL), TP_ERR_VERSION);
  static const char text_bytes[] = "\x81\xa4text\xc4\x01x";
  assert_int_equal(
      tp_part_read((tp_text){text_bytes, sizeof text_bytes - 1}, &(tp_part){.struct_size = sizeof(tp_part)}, NULL),
      TP_ERR_USAGE);
  tp_writer_free(writer);
}

/* A host that was built before the members after name. */
TEST(a_shorter_struct_is_filled_as_far_as_it_reaches) {
  static const char value[] =
      "\x82\xa4"
      "file\xa1x\xa4name\xa1n";
  tp_part part = {.struct_size = offsetof(tp_part, name), .name = T("mine")};
  assert_int_equal(tp_part_read((tp_text){value, sizeof value - 1}, &part, NULL), TP_OK);
  assert_true(tp_text_is(part.uri, "x"));
  assert_true(tp_text_is(part.name, "mine"));
  assert_int_equal(part.struct_size, offsetof(tp_part, name));
}

TEST(kinds_have_names) {
  assert_string_equal(tp_part_kind_name(TP_PART_IMAGE), "image");
  assert_string_equal(tp_part_kind_name(TP_PART_NONE), "unknown");
  assert_string_equal(tp_part_kind_name((tp_part_kind)6), "unknown");
}
