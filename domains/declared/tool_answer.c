/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/tool_answer.h"

#include <assert.h>
#include <string.h>

#include "support/base64.h"

/* ---- whether an output is an answer with parts ---- */

static bool is_item(tp_text value) {
  return tp_value_kind_of(value) == TP_VALUE_MAP && tp_value_kind_of(tp_value_get(value, "type")) == TP_VALUE_TEXT;
}

static bool is_answer(tp_text value) {
  tp_text content = tp_value_get(value, "content");
  if (tp_value_kind_of(value) != TP_VALUE_MAP || tp_value_kind_of(content) != TP_VALUE_ARRAY) return false;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);)
    if (!tp__is_one_of(walk.key, "content structuredContent isError _meta")) return false;
  for (tp_value_walk walk = {0}; tp_value_next(content, &walk);)
    if (!is_item(walk.value)) return false;
  return true;
}

/* Bytes that are not UTF-8 are replaced, as in an answer that is text.
 * @param ret_replaced  how many bytes were replaced. @return the value, in the writer; empty: it is no answer with
 *                      parts. */
static tp_text decode_tool_output(tp__tool_answer *a, tp_text output, size_t *ret_replaced) {
  tp__bytes copy = {0};
  tp_text value = {NULL, 0};
  *ret_replaced = 0;
  if (tp_writer_new(NULL, &a->writer) != TP_OK) return value;
  tp_status status = tp_json_decode(output, a->writer, NULL);
  if (status == TP_ERR_UTF8) {
    *ret_replaced = tp__bytes_put_utf8(&copy, output);
    tp_writer_reset(a->writer);
    status = copy.failed ? TP_ERR_NO_MEMORY : tp_json_decode(tp__bytes_text(&copy), a->writer, NULL);
  }
  if (status != TP_OK || tp_writer_finish(a->writer, &value) != TP_OK) value = (tp_text){NULL, 0};
  tp__bytes_fini(&copy);
  return is_answer(value) ? value : (tp_text){NULL, 0};
}

/* ---- items ---- */

/* The item that is being read, and the place for its errors. */
typedef struct item {
  tp__tool_answer *answer;
  tp__bytes *flaws;
  size_t index;
} item;

static void begin_line(tp__bytes *text) {
  if (text->size > 0 && text->data[text->size - 1] != '\n') tp__bytes_put_string(text, "\n");
}

static bool flawed(const item *i, const char *member, const char *wrong) {
  begin_line(i->flaws);
  tp__bytes_printf(i->flaws, "content[%zu].%s %s", i->index, member, wrong);
  return false;
}

/* @return false when the member is no text; it may be missing. */
static bool read_item_text(const item *i, tp_text map, const char *member, tp_text *ret_text) {
  tp_text value = tp_value_get(map, member);
  if (value.size == 0) return true;
  if (tp_value_kind_of(value) != TP_VALUE_TEXT) return flawed(i, member, "must be text");
  *ret_text = tp_value_text(value);
  return true;
}

/* A data: URL stays one. */
static bool read_base64(const item *i, tp_text map, const char *member, tp_part *part) {
  tp_text encoded = {NULL, 0};
  if (tp_value_get(map, member).size == 0) return flawed(i, member, "is missing: the content in base64");
  if (!read_item_text(i, map, member, &encoded)) return false;
  if (tp__begins(encoded, "data:")) {
    if (part->uri.size == 0) part->uri = encoded;
    return true;
  }
  tp__bytes *decoded = &i->answer->decoded;
  size_t before = decoded->size;
  assert(decoded->capacity - before >= tp__base64_size_max(encoded.size)); /* reserved: what points into it stays */
  if (!tp__base64_decode(encoded, decoded->data + before, &part->bytes.size)) return flawed(i, member, "is not base64");
  part->bytes.data = decoded->data + before;
  decoded->size += part->bytes.size;
  return part->bytes.size > 0 || part->kind == TP_PART_FILE || flawed(i, member, "has no bytes");
}

static bool read_media(const item *i, tp_text map, tp_part *part) {
  if (!read_item_text(i, map, "mimeType", &part->media_type) || !read_base64(i, map, "data", part)) return false;
  return part->media_type.size > 0 || part->bytes.size == 0 ||
         flawed(i, "mimeType", "is missing: what data is, such as \"image/png\"");
}

/* Reads the members that a resource and a link to one share. The title is for people; the name may be any text. */
static bool read_described(const item *i, tp_text map, tp_part *part) {
  tp_text title = {NULL, 0};
  if (!read_item_text(i, map, "uri", &part->uri) || !read_item_text(i, map, "mimeType", &part->media_type) ||
      !read_item_text(i, map, "name", &part->name) || !read_item_text(i, map, "title", &title) ||
      !read_item_text(i, map, "description", &part->description))
    return false;
  if (title.size > 0) part->name = title;
  return true;
}

static bool read_resource(const item *i, tp_text map, tp_part *part) {
  tp_text resource = tp_value_get(map, "resource"), text = tp_value_get(resource, "text");
  if (tp_value_kind_of(resource) != TP_VALUE_MAP) return flawed(i, "resource", "must be a map with text or blob");
  if (!read_described(i, resource, part)) return false;
  if (text.size == 0) return read_base64(i, resource, "blob", part);
  if (!read_item_text(i, resource, "text", &part->bytes)) return false;
  if (part->media_type.size == 0) part->media_type = tp_text_of("text/plain");
  return true;
}

static bool read_link(const item *i, tp_text map, tp_part *part) {
  tp_text size = tp_value_get(map, "size");
  if (!read_described(i, map, part)) return false;
  if (part->uri.size == 0) return flawed(i, "uri", "is missing: what the link names");
  if (size.size > 0) part->size = tp_value_int(size, -1);
  return part->size >= 0 || flawed(i, "size", "must be a number of bytes");
}

static const struct {
  const char *type;
  tp_part_kind kind;
  bool (*read)(const item *i, tp_text map, tp_part *part);
} types[] = {{"image", TP_PART_IMAGE, read_media},
             {"audio", TP_PART_AUDIO, read_media},
             {"resource", TP_PART_FILE, read_resource},
             {"resource_link", TP_PART_LINK, read_link}};

/* An item of a type from a newer protocol is not lost: the model gets the item as JSON. */
static bool unknown_type(const item *i, tp_text map) {
  tp_writer *writer;
  tp_text json;
  flawed(i, "type", "is none of text, image, audio, resource and resource_link:");
  if (tp_writer_new(NULL, &writer) != TP_OK) return false;
  begin_line(i->flaws);
  if (tp_json_encode(map, writer, &json, NULL) == TP_OK) tp__bytes_put_text(i->flaws, json);
  tp_writer_free(writer);
  return false;
}

/* @return false: the item is named among the flaws. */
static bool read_item(const item *i, tp_text map, tp_part *part) {
  tp_text type = tp_value_text(tp_value_get(map, "type"));
  *part = (tp_part){.struct_size = sizeof *part, .kind = TP_PART_TEXT};
  if (tp__is_word(type, "text")) {
    if (tp_value_get(map, "text").size == 0) return flawed(i, "text", "is missing");
    return read_item_text(i, map, "text", &part->text);
  }
  size_t t = 0;
  while (t < sizeof types / sizeof *types && !tp__is_word(type, types[t].type)) t++;
  if (t == sizeof types / sizeof *types) return unknown_type(i, map);
  part->kind = types[t].kind;
  if (!types[t].read(i, map, part)) return false;
  return tp_part_describe(part, NULL, 0) > 0 || flawed(i, "mimeType", "must be such as \"image/png\"");
}

/* ---- the answer ---- */

static void read_items(tp__tool_answer *a, tp_text content, tp__bytes *flaws) {
  item i = {.answer = a, .flaws = flaws};
  for (tp_value_walk walk = {0}; tp_value_next(content, &walk); i.index++) {
    assert(a->count < a->capacity);
    if (!read_item(&i, walk.value, &a->parts[a->count])) continue;
    a->list[a->count] = &a->parts[a->count];
    a->count++;
  }
}

/* Writes the failure, the flaws, then the texts up to the first part of another kind. @return the number of these
 * texts. */
static size_t put_texts(tp__tool_answer *a, tp_text failure, const tp__bytes *flaws, size_t replaced) {
  size_t leading = 0;
  tp__bytes_put_text(&a->text, failure);
  if (flaws->size > 0) begin_line(&a->text);
  tp__bytes_put(&a->text, flaws->data, flaws->size);
  for (; leading < a->count && a->parts[leading].kind == TP_PART_TEXT; leading++) {
    begin_line(&a->text);
    tp__bytes_put_text(&a->text, a->parts[leading].text);
  }
  if (replaced == 0) return leading;
  begin_line(&a->text);
  tp__bytes_printf(&a->text, "[%zu %s not UTF-8 in the answer: U+FFFD stands for each]", replaced,
                   replaced == 1 ? "byte was" : "bytes were");
  return leading;
}

static void read_tool_value(tp__tool_answer *a, tp_text value, tp_text failure, size_t replaced) {
  tp__bytes flaws = {0};
  tp_text is_error = tp_value_get(value, "isError");
  if (is_error.size > 0 && tp_value_kind_of(is_error) != TP_VALUE_BOOL)
    tp__bytes_put_string(&flaws, "isError must be true or false");
  read_items(a, tp_value_get(value, "content"), &flaws);
  size_t leading = put_texts(a, failure, &flaws, replaced);
  a->failed |= flaws.failed || a->text.failed;
  a->answer = (tp_tool_answer){.struct_size = sizeof a->answer,
                               .is_error = failure.size > 0 || flaws.size > 0 || tp_value_bool(is_error, false),
                               .text = tp__bytes_text(&a->text),
                               .value = tp_value_get(value, "structuredContent"),
                               .parts = a->list + leading,
                               .part_count = a->count - leading};
  if (tp_value_kind_of(a->answer.value) == TP_VALUE_NULL) a->answer.value = (tp_text){NULL, 0};
  tp__bytes_fini(&flaws);
}

bool tp__tool_answer_read(tp__tool_answer *ret_answer, tp_text output, tp_text failure) {
  tp__tool_answer *a = ret_answer;
  size_t replaced;
  *a = (tp__tool_answer){.count = 0};
  /* Most programs print no JSON, so their output is not passed to the JSON reader. */
  size_t at = 0;
  while (at < output.size && strchr(" \t\r\n", output.data[at]) && output.data[at]) at++;
  if (!(at < output.size && output.data[at] == '{')) return false;
  tp_text value = decode_tool_output(a, output, &replaced);
  if (value.size == 0) {
    tp__tool_answer_fini(a);
    return false;
  }
  a->capacity = tp_value_count(tp_value_get(value, "content")) + 1;
  a->parts = tp__heap_alloc(a->capacity * sizeof *a->parts);
  a->list = tp__heap_alloc(a->capacity * sizeof *a->list);
  a->failed = !a->parts || !a->list || !tp__bytes_reserve(&a->decoded, value.size);
  if (!a->failed) read_tool_value(a, value, failure, replaced);
  if (a->failed)
    a->answer = (tp_tool_answer){
        .struct_size = sizeof a->answer, .is_error = true, .text = tp_text_of("no memory for what the program said")};
  return true;
}

void tp__tool_answer_fini(tp__tool_answer *answer) {
  tp__heap_free(answer->parts, answer->capacity * sizeof *answer->parts);
  tp__heap_free(answer->list, answer->capacity * sizeof *answer->list);
  tp__bytes_fini(&answer->text);
  tp__bytes_fini(&answer->decoded);
  tp_writer_free(answer->writer);
  *answer = (tp__tool_answer){.count = 0};
}
