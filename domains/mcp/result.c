/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/result.h"

#include <assert.h>
#include <stdio.h>

#include "support/base64.h"

enum { PARTS_MAX = 255 };

typedef struct gathered {
  tp__bytes text;
  tp_part parts[PARTS_MAX];
  const tp_part *list[PARTS_MAX];
  size_t count;
  tp__bytes blobs[PARTS_MAX]; /* the decoded bytes to which the parts point */
  size_t blob_count;
} gathered;

static tp_text text_of(tp_text map, const char *member) { return tp_value_text(tp_value_get(map, member)); }

static void add_line(gathered *g, tp_text line) {
  if (g->text.size > 0) tp__bytes_put_string(&g->text, "\n");
  tp__bytes_put_text(&g->text, line);
}

static void note_result(gathered *g, const char *what, tp_text kind) {
  char line[192], shown[64];
  tp__show(shown, sizeof shown, kind);
  snprintf(line, sizeof line, "[%s: %s]", what, shown);
  add_line(g, tp_text_of(line));
}

static void add_part(gathered *g, const tp_part *part) {
  if (g->count == PARTS_MAX) {
    note_result(g, "a part more than there may be is left out", part->media_type);
    return;
  }
  g->parts[g->count] = *part;
  g->list[g->count] = &g->parts[g->count];
  g->count++;
}

/* @return the decoded bytes; without data when the text is not base64. */
static tp_text decode(gathered *g, tp_text data) {
  size_t size = 0;
  if (g->blob_count == PARTS_MAX) return (tp_text){NULL, 0};
  tp__bytes *blob = &g->blobs[g->blob_count];
  if (!tp__bytes_reserve(blob, tp__base64_size_max(data.size) + 1)) return (tp_text){NULL, 0};
  g->blob_count++;
  if (data.size > 0 && !tp__base64_decode(data, blob->data, &size)) return (tp_text){NULL, 0};
  blob->size = size;
  return (tp_text){blob->data, size};
}

static void add_media(gathered *g, tp_text item, tp_part_kind kind) {
  tp_part part = {.struct_size = sizeof part, .kind = kind, .media_type = text_of(item, "mimeType")};
  part.bytes = decode(g, text_of(item, "data"));
  if (part.bytes.size > 0 && part.media_type.size > 0) add_part(g, &part);
  else note_result(g, "an item that is not base64 with a mimeType is left out", text_of(item, "type"));
}

static void add_link(gathered *g, tp_text item) {
  tp_part part = {.struct_size = sizeof part,
                  .kind = TP_PART_LINK,
                  .uri = text_of(item, "uri"),
                  .media_type = text_of(item, "mimeType"),
                  .name = text_of(item, "name"),
                  .description = text_of(item, "description"),
                  .size = tp_value_int(tp_value_get(item, "size"), 0)};
  if (part.size < 0) part.size = 0;
  if (part.uri.size > 0) add_part(g, &part);
  else note_result(g, "a link without a uri is left out", text_of(item, "name"));
}

static void add_resource(gathered *g, tp_text resource) {
  tp_text text = tp_value_get(resource, "text");
  tp_part part = {.struct_size = sizeof part,
                  .kind = TP_PART_FILE,
                  .uri = text_of(resource, "uri"),
                  .media_type = text_of(resource, "mimeType")};
  part.bytes = tp_value_kind_of(text) == TP_VALUE_TEXT ? tp_value_text(text) : decode(g, text_of(resource, "blob"));
  if (part.bytes.data && part.bytes.size > 0) add_part(g, &part);
  else note_result(g, "an empty or unreadable resource is left out", part.uri);
}

static void add_item(gathered *g, tp_text item) {
  tp_text type = text_of(item, "type");
  if (tp__is_word(type, "text")) add_line(g, text_of(item, "text"));
  else if (tp__is_word(type, "image")) add_media(g, item, TP_PART_IMAGE);
  else if (tp__is_word(type, "audio")) add_media(g, item, TP_PART_AUDIO);
  else if (tp__is_word(type, "resource_link")) add_link(g, item);
  else if (tp__is_word(type, "resource")) add_resource(g, tp_value_get(item, "resource"));
  else note_result(g, "an item of an unknown type is left out", type);
}

void tp__mcp_result_complete(tp_token token, tp_text result) {
  gathered *g = tp__heap_alloc(sizeof *g);
  tp_text content = tp_value_get(result, "content");
  tp_fault fault = {0};
  if (!g) {
    (void)!tp_tool_complete(token, true, tp_text_of("There is no memory for the answer."), NULL);
    return;
  }
  for (tp_value_walk walk = {0}; tp_value_kind_of(content) == TP_VALUE_ARRAY && tp_value_next(content, &walk);)
    add_item(g, walk.value);
  tp_tool_answer answer = {.struct_size = sizeof answer,
                           .is_error = tp_value_bool(tp_value_get(result, "isError"), false),
                           .text = tp__bytes_text(&g->text),
                           .value = tp_value_get(result, "structuredContent"),
                           .parts = g->count ? g->list : NULL,
                           .part_count = g->count};
  if (tp_value_kind_of(answer.value) == TP_VALUE_NULL) answer.value.size = 0;
  if (tp_value_kind_of(content) != TP_VALUE_ARRAY && answer.value.size == 0) {
    answer.is_error = true;
    answer.text = tp_text_of("The server answered without content.");
  }
  tp_status status = g->text.failed ? TP_ERR_NO_MEMORY : tp_tool_complete_with(token, &answer, &fault);
  if (status != TP_OK && status != TP_ERR_STALE) /* such as an invalid part: the call must end nevertheless */
    (void)!tp_tool_complete(token, true, tp_text_of(fault.message[0] ? fault.message : "no memory for the answer"),
                            NULL);
  assert(g->count <= PARTS_MAX && g->blob_count <= PARTS_MAX);
  for (size_t i = 0; i < g->blob_count; i++) tp__bytes_fini(&g->blobs[i]);
  tp__bytes_fini(&g->text);
  tp__heap_free(g, sizeof *g);
}
