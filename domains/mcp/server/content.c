/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/server/server.h"
#include "turnphase/part.h"

static void write_pair(tp_writer *writer, const char *key, tp_text text) {
  tp_write_string(writer, key);
  tp_write_text(writer, text);
}

static void write_text(tp_writer *writer, tp_text text) {
  tp_write_map(writer, 2);
  write_pair(writer, "type", tp_text_of("text"));
  write_pair(writer, "text", text);
}

static bool is_text_type(tp_text type) {
  return tp__begins(type, "text/") || tp__begins(type, "application/json") || tp__begins(type, "application/xml");
}

/* Writes a resource that is included: as text if it is text. */
static void write_resource(tp_writer *writer, const tp_part *part) {
  bool is_text = is_text_type(part->media_type) && tp_utf8_valid(part->bytes, NULL);
  tp_write_map(writer, 2);
  write_pair(writer, "type", tp_text_of("resource"));
  tp_write_string(writer, "resource");
  tp_write_map(writer, 2 + (part->media_type.size > 0));
  write_pair(writer, "uri", part->uri.size > 0 ? part->uri : tp_text_of("file:///"));
  if (part->media_type.size > 0) write_pair(writer, "mimeType", part->media_type);
  tp_write_string(writer, is_text ? "text" : "blob");
  if (is_text) tp_write_text(writer, part->bytes);
  else tp_write_bytes(writer, part->bytes); /* in JSON these bytes become base64 */
}

static void write_media(tp_writer *writer, const char *type, const tp_part *part) {
  tp_write_map(writer, 3);
  write_pair(writer, "type", tp_text_of(type));
  tp_write_string(writer, "data");
  tp_write_bytes(writer, part->bytes);
  write_pair(writer, "mimeType", part->media_type);
}

static void write_link(tp_writer *writer, const tp_part *part) {
  tp_write_map(writer, 3 + (part->media_type.size > 0) + (part->description.size > 0) + (part->size > 0));
  write_pair(writer, "type", tp_text_of("resource_link"));
  write_pair(writer, "uri", part->uri);
  write_pair(writer, "name", part->name.size > 0 ? part->name : part->uri);
  if (part->media_type.size > 0) write_pair(writer, "mimeType", part->media_type);
  if (part->description.size > 0) write_pair(writer, "description", part->description);
  if (part->size == 0) return;
  tp_write_string(writer, "size");
  tp_write_int(writer, part->size);
}

/* Writes a part. A part for which the version has no form is named in a text. */
static void write_part(tp_writer *writer, tp_mcp_version version, tp_text value) {
  tp_part part = {.struct_size = sizeof part};
  char words[512];
  bool has_links = tp__mcp_version_has(version, TP__MCP_HAS_STRUCTURED);
  bool has_audio = tp__mcp_version_has(version, TP__MCP_HAS_STREAMS);
  if (tp_part_read(value, &part, NULL) != TP_OK) part.kind = TP_PART_NONE;
  if (part.kind == TP_PART_TEXT) write_text(writer, part.text);
  else if (part.kind == TP_PART_IMAGE && part.bytes.size > 0) write_media(writer, "image", &part);
  else if (part.kind == TP_PART_AUDIO && part.bytes.size > 0 && has_audio) write_media(writer, "audio", &part);
  else if (part.kind == TP_PART_FILE && part.bytes.size > 0) write_resource(writer, &part);
  else if (part.kind != TP_PART_NONE && part.uri.size > 0 && has_links) write_link(writer, &part);
  else {
    size_t size = tp_part_describe(&part, words, sizeof words);
    write_text(writer, (tp_text){words, size < sizeof words ? size : sizeof words - 1});
  }
}

bool tp__mcp_content_lacks_value(tp_mcp_version version, bool is_error, tp_text value) {
  return !is_error && tp__mcp_version_has(version, TP__MCP_HAS_STRUCTURED) && tp_value_kind_of(value) != TP_VALUE_MAP;
}

size_t tp__mcp_content_write(tp_writer *writer, tp_mcp_version version, bool is_error, tp_text text, tp_text value,
                             tp_text parts) {
  bool has_value = tp__mcp_version_has(version, TP__MCP_HAS_STRUCTURED) && value.size > 0 &&
                   (tp_value_kind_of(value) == TP_VALUE_MAP || tp__mcp_version_has(version, TP__MCP_HAS_META));
  size_t pairs = 1 + is_error + has_value, part_count = tp_value_count(parts);
  bool has_text = text.size > 0 || part_count == 0;
  tp_value_walk walk = {0};
  if (!writer) return pairs;
  assert(part_count == 0 || tp_value_kind_of(parts) == TP_VALUE_ARRAY);
  tp_write_string(writer, "content");
  tp_write_array(writer, has_text + part_count);
  if (has_text) write_text(writer, text);
  while (tp_value_next(parts, &walk)) write_part(writer, version, walk.value);
  if (has_value) {
    tp_write_string(writer, "structuredContent");
    tp_write_value(writer, value);
  }
  if (is_error) {
    tp_write_string(writer, "isError");
    tp_write_bool(writer, true);
  }
  return pairs;
}

void tp__mcp_content_reply_error(tp__mcp_exchange *exchange, const char *words) {
  tp_writer *writer = NULL;
  tp_text map = {0}, text = tp_text_of(words), none = {0};
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    tp_write_map(writer, tp__mcp_content_write(NULL, exchange->version, true, text, none, none));
    tp__mcp_content_write(writer, exchange->version, true, text, none, none);
    (void)!tp_writer_finish(writer, &map);
  }
  tp__mcp_reply_map(exchange, "complete", map);
  tp_writer_free(writer);
}
