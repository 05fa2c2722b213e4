/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml.c: reads one YAML document into items. libyaml parses. Its events are used one by one, never its document tree.
 * So nesting is refused when the 33rd level opens, and anchors, aliases and tags at the first one, and the parser never
 * reads ahead more than one scalar or 1,024 characters. libyaml reads YAML 1.1. It differs from 1.2 in characters that
 * break lines: such a character is refused. It also differs in the meaning of plain scalars, which yaml_scalar.c
 * decides. */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "domains/declared/yaml.h"

#include "runtime/base/check.h"

enum { KEY_SHOWN_BYTES_MAX = 64 };

/* A container that is not at its end. */
struct frame {
  uint32_t item;
  bool map;
  bool key_next;
};

struct reader {
  tp__yaml *yaml;
  const char *name;
  tp_fault *fault;
  yaml_parser_t parser;
  struct frame frames[TP__YAML_DEPTH_MAX];
  size_t depth;
  bool has_document;
  bool ended;
};

/* ---- refusing ---- */

static tp_status refuse_yaml(struct reader *reader, tp__place place, const char *what) {
  return tp__refuse_at(reader->fault, TP_ERR_MALFORMED, reader->name, place, "not YAML as it is read here: %s", what);
}

static tp_status refuse_yaml_memory(struct reader *reader) {
  return tp__refuse(reader->fault, TP_ERR_NO_MEMORY, reader->name, "no memory to decode YAML");
}

static tp__place place_of_mark(yaml_mark_t mark) {
  return (tp__place){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

static tp_status refuse_syntax(struct reader *reader) {
  const yaml_parser_t *parser = &reader->parser;
  if (parser->error == YAML_MEMORY_ERROR) return refuse_yaml_memory(reader);
  tp__place place = place_of_mark(parser->problem_mark), begin = place_of_mark(parser->context_mark);
  const char *problem = parser->problem ? parser->problem : "the syntax is wrong";
  if (!parser->context || (begin.line == place.line && begin.column == place.column)) {
    return tp__refuse_at(reader->fault, TP_ERR_MALFORMED, reader->name, place, "not valid YAML: %s", problem);
  }
  return tp__refuse_at(reader->fault, TP_ERR_MALFORMED, reader->name, place,
                       "not valid YAML: %s (%s from line %u, column %u)", problem, parser->context, begin.line,
                       begin.column);
}

#ifdef TP_CHECKS
static void yaml_check(const tp__yaml *yaml) {
  assert(yaml->count <= yaml->items_capacity && yaml->text_size <= yaml->text_capacity);
  for (size_t i = 0; i < yaml->count && i < TP__CHECK_ITEMS_MAX; i++) {
    const tp__yaml_item *item = &yaml->items[i];
    /* An item ends after its beginning, and within its document. */
    assert(item->end > i && item->end <= yaml->count);
    /* Only a container has items in it. */
    assert(item->end == i + 1 || item->kind == TP_VALUE_ARRAY || item->kind == TP_VALUE_MAP);
    assert(item->kind != TP_VALUE_TEXT || (size_t)item->as.text.offset + item->as.text.size <= yaml->text_size);
  }
}
#endif

/* ---- items ---- */

static tp_status add_item(struct reader *reader, tp__yaml_item item) {
  tp__yaml *yaml = reader->yaml;
  if (yaml->count == TP__YAML_ITEMS_MAX) {
    return tp__refuse_at(reader->fault, TP_ERR_TOO_LARGE, reader->name, item.place,
                         "YAML has more than %d keys and values", TP__YAML_ITEMS_MAX);
  }
  void *array = yaml->items;
  if (!tp__grow(yaml->allocator, &array, &yaml->items_capacity, yaml->count + 1, sizeof item)) {
    return refuse_yaml_memory(reader);
  }
  yaml->items = array;
  item.end = (uint32_t)yaml->count + 1;
  yaml->items[yaml->count++] = item;
  return TP_OK;
}

static tp_status add_text(struct reader *reader, tp__yaml_item item, const char *text, size_t size) {
  tp__yaml *yaml = reader->yaml;
  void *array = yaml->text;
  if (!tp__grow(yaml->allocator, &array, &yaml->text_capacity, yaml->text_size + size, 1))
    return refuse_yaml_memory(reader);
  yaml->text = array;
  if (size > 0) memcpy(yaml->text + yaml->text_size, text, size);
  item.kind = TP_VALUE_TEXT;
  item.as.text.offset = (uint32_t)yaml->text_size;
  item.as.text.size = (uint32_t)size;
  yaml->text_size += size;
  return add_item(reader, item);
}

/* Notes in the surrounding container, if there is one, that a key or value begins. */
static bool begin_item(struct reader *reader) {
  if (reader->depth == 0) return false;
  struct frame *top = &reader->frames[reader->depth - 1];
  bool is_key = top->map && top->key_next;
  top->key_next = !is_key;
  if (!is_key) reader->yaml->items[top->item].count++;
  return is_key;
}

/* ---- events ---- */

static tp_status open_container(struct reader *reader, tp_value_kind kind, tp__place place) {
  if (begin_item(reader)) return refuse_yaml(reader, place, "a key must be a scalar, not a list or a map");
  if (reader->depth == TP__YAML_DEPTH_MAX) {
    return tp__refuse_at(reader->fault, TP_ERR_TOO_DEEP, reader->name, place, "YAML is nested deeper than %d levels",
                         TP__YAML_DEPTH_MAX);
  }
  uint32_t index = (uint32_t)reader->yaml->count;
  tp_status status = add_item(reader, (tp__yaml_item){.kind = kind, .place = place});
  if (status != TP_OK) return status;
  reader->frames[reader->depth++] = (struct frame){.item = index, .map = kind == TP_VALUE_MAP, .key_next = true};
  return TP_OK;
}

static void close_container(struct reader *reader) {
  assert(reader->depth > 0);
  struct frame *top = &reader->frames[--reader->depth];
  reader->yaml->items[top->item].end = (uint32_t)reader->yaml->count;
}

static tp_status read_scalar(struct reader *reader, const yaml_event_t *event, tp__place place) {
  tp__yaml_item item = {.place = place};
  const char *text = (const char *)event->data.scalar.value;
  size_t size = event->data.scalar.length;
  bool is_bare = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  if (begin_item(reader)) {
    if (is_bare && size == 0) return refuse_yaml(reader, item.place, "a key is missing before ':'");
    if (is_bare && tp__is_word((tp_text){text, size}, "<<")) {
      return refuse_yaml(reader, item.place, "merge keys are not supported: write out the keys that '<<' would merge");
    }
    return add_text(reader, item, text, size);
  }
  if (!is_bare) return add_text(reader, item, text, size);
  tp_status status = tp__yaml_resolve(text, size, &item);
  if (status == TP_ERR_NO_MEMORY) return refuse_yaml_memory(reader);
  if (status != TP_OK) return refuse_yaml(reader, place, "a number is out of range: in quotes it would be text");
  return item.kind == TP_VALUE_TEXT ? add_text(reader, item, text, size) : add_item(reader, item);
}

static tp_status begin_document(struct reader *reader, const yaml_version_directive_t *version, tp__place place) {
  if (reader->has_document) return refuse_yaml(reader, place, "a second document begins, and only one is read");
  reader->has_document = true;
  if (!version || (version->major == 1 && version->minor == 2)) return TP_OK;
  return refuse_yaml(reader, place, "only YAML 1.2 is read: take the %YAML line away");
}

static tp_status refuse_extras(struct reader *reader, const yaml_char_t *anchor, const yaml_char_t *tag,
                               tp__place place) {
  if (anchor) return refuse_yaml(reader, place, "anchors ('&') are not supported");
  if (tag) return refuse_yaml(reader, place, "tags ('!') are not supported");
  return TP_OK;
}

static tp_status read_event(struct reader *reader, const yaml_event_t *event) {
  tp__place place = place_of_mark(event->start_mark);
  tp_status status;
  switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
      return begin_document(reader, event->data.document_start.version_directive, place);
    case YAML_ALIAS_EVENT:
      return refuse_yaml(reader, place, "aliases ('*') are not supported");
    case YAML_SEQUENCE_START_EVENT:
      status = refuse_extras(reader, event->data.sequence_start.anchor, event->data.sequence_start.tag, place);
      return status != TP_OK ? status : open_container(reader, TP_VALUE_ARRAY, place);
    case YAML_MAPPING_START_EVENT:
      status = refuse_extras(reader, event->data.mapping_start.anchor, event->data.mapping_start.tag, place);
      return status != TP_OK ? status : open_container(reader, TP_VALUE_MAP, place);
    case YAML_SCALAR_EVENT:
      status = refuse_extras(reader, event->data.scalar.anchor, event->data.scalar.tag, place);
      return status != TP_OK ? status : read_scalar(reader, event, place);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
      close_container(reader);
      return TP_OK;
    case YAML_STREAM_END_EVENT:
      reader->ended = true;
      return TP_OK;
    default:
      return TP_OK;
  }
}

static tp_status read_events(struct reader *reader) {
  while (!reader->ended) {
    yaml_event_t event;
    if (!yaml_parser_parse(&reader->parser, &event)) return refuse_syntax(reader);
    tp_status status = read_event(reader, &event);
    yaml_event_delete(&event);
    if (status != TP_OK) return status;
  }
  if (!reader->has_document) return refuse_yaml(reader, (tp__place){1, 1}, "there is no document");
  return TP_OK;
}

/* ---- repeated keys: searched when everything was read, because the text no longer moves then ---- */

struct key {
  tp_text text;
  tp__place place;
};

static int compare_keys(const void *left_key, const void *right_key) {
  const struct key *left = left_key, *right = right_key;
  size_t common = left->text.size < right->text.size ? left->text.size : right->text.size;
  int order = common > 0 ? memcmp(left->text.data, right->text.data, common) : 0;
  if (order != 0) return order;
  if (left->text.size != right->text.size) return left->text.size < right->text.size ? -1 : 1;
  if (left->place.line != right->place.line) return left->place.line < right->place.line ? -1 : 1;
  return (left->place.column > right->place.column) - (left->place.column < right->place.column);
}

static void gather_keys(const tp__yaml *yaml, uint32_t map, struct key *ret_keys) {
  for (uint32_t at = map + 1; at < yaml->items[map].end; at = yaml->items[at + 1].end)
    *ret_keys++ = (struct key){tp__yaml_text(yaml, at), yaml->items[at].place};
}

static tp_status check_map(struct reader *reader, uint32_t map, struct key *keys) {
  uint32_t count = reader->yaml->items[map].count;
  gather_keys(reader->yaml, map, keys);
  qsort(keys, count, sizeof keys[0], compare_keys);
  for (uint32_t i = 1; i < count; i++) {
    if (!tp__same(keys[i - 1].text, keys[i].text)) continue;
    return tp__refuse_at(reader->fault, TP_ERR_MALFORMED, reader->name, keys[i].place,
                         "the key \"%.*s\" is repeated: it stands in line %u already",
                         tp__cut(keys[i].text, KEY_SHOWN_BYTES_MAX), keys[i].text.data, keys[i - 1].place.line);
  }
  return TP_OK;
}

static tp_status check_maps(struct reader *reader) {
  const tp__yaml *yaml = reader->yaml;
  size_t count_max = 0;
  for (size_t i = 0; i < yaml->count; i++) {
    if (yaml->items[i].kind == TP_VALUE_MAP && yaml->items[i].count > count_max) count_max = yaml->items[i].count;
  }
  if (count_max < 2) return TP_OK;
  struct key *keys = yaml->allocator->alloc(yaml->allocator->ctx, count_max * sizeof *keys);
  if (!keys) return refuse_yaml_memory(reader);
  tp_status status = TP_OK;
  for (uint32_t i = 0; i < yaml->count && status == TP_OK; i++) {
    if (yaml->items[i].kind == TP_VALUE_MAP) status = check_map(reader, i, keys);
  }
  yaml->allocator->release(yaml->allocator->ctx, keys, count_max * sizeof *keys);
  return status;
}

/* ---- reading ---- */

/* The characters that YAML 1.2 excludes, and those that break lines in YAML 1.1 but not in 1.2 (U+0085, U+2028,
 * U+2029). The text is UTF-8. */
static bool is_excluded(const unsigned char *at, size_t left) {
  if (at[0] < 0x20) return at[0] != '\t' && at[0] != '\n' && at[0] != '\r';
  if (at[0] == 0x7f) return true;
  if (at[0] == 0xc2) return at[1] < 0xa0;
  if (left < 3) return false;
  return memcmp(at, "\xe2\x80\xa8", 3) == 0 || memcmp(at, "\xe2\x80\xa9", 3) == 0 ||
         memcmp(at, "\xef\xbb\xbf", 3) == 0 || memcmp(at, "\xef\xbf\xbe", 3) == 0 || memcmp(at, "\xef\xbf\xbf", 3) == 0;
}

static tp_status check_text(struct reader *reader, tp_text text) {
  size_t bad;
  if (!tp_utf8_valid(text, &bad)) {
    return tp__refuse_at(reader->fault, TP_ERR_UTF8, reader->name, tp__place_of(text, bad), "YAML is not UTF-8");
  }
  for (size_t i = 0; i < text.size; i++) {
    if (!is_excluded((const unsigned char *)text.data + i, text.size - i)) continue;
    return refuse_yaml(reader, tp__place_of(text, i),
                       "a control character or one that may break lines: write it as an escape in double quotes");
  }
  return TP_OK;
}

static tp_status read_yaml_text(struct reader *reader, tp_text text) {
  tp_status status = check_text(reader, text);
  if (status != TP_OK) return status;
  if (!yaml_parser_initialize(&reader->parser)) return refuse_yaml_memory(reader);
  yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&reader->parser, (const unsigned char *)(text.size > 0 ? text.data : ""), text.size);
  status = read_events(reader);
  yaml_parser_delete(&reader->parser);
  return status == TP_OK ? check_maps(reader) : status;
}

static tp_text without_byte_order_mark(tp_text text) {
  if (text.size < 3 || memcmp(text.data, "\xef\xbb\xbf", 3) != 0) return text;
  return (tp_text){text.data + 3, text.size - 3};
}

tp_status tp__yaml_read(tp_text text, const char *name, const tp_allocator *allocator, tp__yaml *ret_yaml,
                        tp_fault *fault) {
  if (text.size > TP__YAML_BYTES_MAX) {
    return tp__refuse(fault, TP_ERR_TOO_LARGE, name,
                      "YAML of %zu bytes is above the limit of %d: split it, or write it as JSON Lines", text.size,
                      TP__YAML_BYTES_MAX);
  }
  tp__yaml yaml = {.allocator = allocator};
  struct reader reader = {.yaml = &yaml, .name = name, .fault = fault};
  tp_status status = read_yaml_text(&reader, without_byte_order_mark(text));
  if (status == TP_OK) {
    TP__CHECK(yaml_check(&yaml));
    *ret_yaml = yaml;
  } else {
    tp__yaml_fini(&yaml);
  }
  return status;
}

void tp__yaml_fini(tp__yaml *yaml) {
  const tp_allocator *allocator = yaml->allocator;
  if (yaml->items) allocator->release(allocator->ctx, yaml->items, yaml->items_capacity * sizeof yaml->items[0]);
  if (yaml->text) allocator->release(allocator->ctx, yaml->text, yaml->text_capacity);
}

/* ---- using ---- */

tp_text tp__yaml_text(const tp__yaml *yaml, uint32_t index) {
  assert(index < yaml->count && yaml->items[index].kind == TP_VALUE_TEXT);
  const tp__yaml_item *item = &yaml->items[index];
  if (item->as.text.size == 0) return (tp_text){"", 0};
  return (tp_text){yaml->text + item->as.text.offset, item->as.text.size};
}

uint32_t tp__yaml_get(const tp__yaml *yaml, uint32_t map, const char *key) {
  assert(map < yaml->count && yaml->items[map].kind == TP_VALUE_MAP && key);
  for (uint32_t at = map + 1; at < yaml->items[map].end; at = yaml->items[at + 1].end)
    if (tp__is_word(tp__yaml_text(yaml, at), key)) return at + 1;
  return 0;
}

tp_status tp__yaml_check_map(const tp__yaml *yaml, uint32_t map, const char *what, const char *known, const char *name,
                             tp_fault *fault) {
  assert(map < yaml->count && yaml->items[map].kind == TP_VALUE_MAP && known);
  for (uint32_t key = map + 1; key < yaml->items[map].end; key = yaml->items[key + 1].end) {
    tp_text text = tp__yaml_text(yaml, key);
    if (tp__is_one_of(text, known)) continue;
    return tp__refuse_at(fault, TP_ERR_MALFORMED, name, yaml->items[key].place, "%s has no key \"%.*s\", only %s", what,
                         tp__cut(text, KEY_SHOWN_BYTES_MAX), text.data, known);
  }
  return TP_OK;
}

void tp__yaml_write(const tp__yaml *yaml, uint32_t index, tp_writer *writer) {
  assert(index < yaml->count);
  for (uint32_t at = index; at < yaml->items[index].end; at++) {
    const tp__yaml_item *item = &yaml->items[at];
    switch (item->kind) {
      case TP_VALUE_BOOL:
        tp_write_bool(writer, item->as.boolean);
        break;
      case TP_VALUE_INT:
        tp_write_int(writer, item->as.integer);
        break;
      case TP_VALUE_DOUBLE:
        tp_write_double(writer, item->as.real);
        break;
      case TP_VALUE_TEXT:
        tp_write_text(writer, tp__yaml_text(yaml, at));
        break;
      case TP_VALUE_ARRAY:
        tp_write_array(writer, item->count);
        break;
      case TP_VALUE_MAP:
        tp_write_map(writer, item->count);
        break;
      default:
        tp_write_null(writer);
        break;
    }
  }
}

tp_status tp_yaml_decode(tp_text text, const char *name, tp_writer *writer, tp_fault *fault) {
  tp__yaml yaml;
  tp_status status = tp__yaml_read(text, name, &tp__malloc_allocator, &yaml, fault);
  if (status != TP_OK) return status;
  tp__yaml_write(&yaml, 0, writer);
  tp__yaml_fini(&yaml);
  return TP_OK;
}

/* @return 0: the list has no such item. */
static uint32_t item_at(const tp__yaml *yaml, uint32_t list, const char *index) {
  uint32_t at = list + 1, number = 0;
  const char *digit = index;
  for (; *digit >= '0' && *digit <= '9' && number < yaml->count; digit++)
    number = number * 10 + (uint32_t)(*digit - '0');
  if (*digit || digit == index) return 0;
  for (; number > 0 && at < yaml->items[list].end; number--) at = yaml->items[at].end;
  return at < yaml->items[list].end ? at : 0;
}

static tp_status find_place(const tp__yaml *yaml, const char *const *keys, size_t count, tp__place *ret_place,
                            tp_fault *fault) {
  uint32_t at = 0;
  bool is_item = false;
  for (size_t i = 0; i < count; i++) {
    is_item = yaml->items[at].kind == TP_VALUE_ARRAY;
    if (is_item) at = item_at(yaml, at, keys[i]);
    else at = yaml->items[at].kind == TP_VALUE_MAP ? tp__yaml_get(yaml, at, keys[i]) : 0;
    if (at == 0) return tp__refuse(fault, TP_ERR_NOT_FOUND, keys[i], "there is no key %.64s", keys[i]);
  }
  assert(at > 0 && at < yaml->count);
  *ret_place = yaml->items[is_item ? at : at - 1].place; /* a value follows its key */
  return TP_OK;
}

tp_status tp_yaml_place(tp_text text, const char *const *keys, size_t count, uint32_t *ret_line, uint32_t *ret_column,
                        tp_fault *fault) {
  tp__yaml yaml;
  tp__place place = {0};
  if (!keys || count == 0 || !ret_line)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "a place is that of a key: keys or ret_line is NULL");
  for (size_t i = 0; i < count; i++)
    if (!keys[i]) return tp__refuse(fault, TP_ERR_USAGE, NULL, "key %zu of %zu is NULL", i + 1, count);
  tp_status status = tp__yaml_read(text, NULL, &tp__malloc_allocator, &yaml, fault);
  if (status != TP_OK) return status;
  status = find_place(&yaml, keys, count, &place, fault);
  tp__yaml_fini(&yaml);
  if (status != TP_OK) return status;
  *ret_line = place.line;
  if (ret_column) *ret_column = place.column;
  return TP_OK;
}
