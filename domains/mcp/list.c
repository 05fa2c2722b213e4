/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/list.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/mcp/pins.h"
#include "support/sha256.h"

enum {
  PAGES_MAX = 100,
  TOOLS_MAX = 4096,
  TOOL_BYTES_MAX = 256 << 10, /* the most bytes of a tool's description and schema: more than a model reads */
  NAME_MAX_OF_MODELS = 64,
  HASH_DIGITS = 8
};

void tp__mcp_tools_ref(tp__mcp_tools *tools) { tp__references_ref(&tools->refs); }

void tp__mcp_tools_unref(tp__mcp_tools *tools) {
  if (!tools || !tp__references_unref(&tools->refs)) return;
  for (size_t i = 0; i < tools->count; i++) {
    tp__heap_string_free(tools->items[i].name);
    tp__heap_string_free(tools->items[i].full_name);
    tp__heap_string_free(tools->items[i].description);
  }
  for (size_t i = 0; i < tools->page_count; i++) tp_writer_free(tools->pages[i]);
  tp__heap_free(tools->items, tools->capacity * sizeof *tools->items);
  tp__heap_free(tools->pages, tools->page_capacity * sizeof(tp_writer *));
  tp__mcp_session_unref(tools->session);
  tp__heap_free(tools, sizeof *tools);
}

tp__mcp_tools *tp__mcp_list_new(tp__mcp_session *session) {
  tp__mcp_tools *tools = tp__heap_alloc(sizeof *tools);
  if (!tools) return NULL;
  tp__references_init(&tools->refs);
  tp__mcp_session_ref(session);
  tools->session = session;
  return tools;
}

/* ---- one tool ---- */

/* A copy without NULs, which a C string cannot have. */
static char *copy_string(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] == '\0') text.size = i;
  return tp__heap_copy(text);
}

static void add_to_hash(tp__sha256 *hash, tp_text value, tp_writer *writer) {
  tp_text canonical = {"", 0};
  tp_writer_reset(writer);
  if (value.size > 0 && tp_value_write_canonical(value, writer, NULL) == TP_OK)
    (void)!tp_writer_finish(writer, &canonical);
  uint64_t size = canonical.size;
  tp__sha256_add(hash, &size, sizeof size);
  tp__sha256_add(hash, canonical.data, canonical.size);
}

static bool hash_tool(tp_text described, char ret_hash[65]) {
  static const char *const members[] = {"name", "description", "inputSchema", "annotations"};
  tp_writer *writer;
  tp__sha256 hash;
  if (tp_writer_new(NULL, &writer) != TP_OK) return false;
  tp__sha256_init(&hash);
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    add_to_hash(&hash, tp_value_get(described, members[i]), writer);
  tp_text output = tp_value_get(described, "outputSchema"); /* added only when there is one, so that older pins stay
                                                               valid */
  if (output.size > 0) add_to_hash(&hash, output, writer);
  tp__sha256_finish(&hash, ret_hash);
  tp_writer_free(writer);
  return true;
}

/* Writes a schema, with type object where it has no type: the arguments of a call are always an object. */
static void write_schema(tp_writer *writer, tp_text schema) {
  bool has_type = tp_value_get(schema, "type").size > 0;
  size_t count = tp_value_count(schema);
  tp_write_map(writer, has_type ? count : count + 1);
  if (!has_type) {
    tp_write_string(writer, "type");
    tp_write_string(writer, "object");
  }
  for (tp_value_walk walk = {0}; tp_value_next(schema, &walk);) {
    tp_write_text(writer, walk.key);
    tp_write_value(writer, walk.value);
  }
}

static bool is_listed(const char *const *patterns, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (tp_pattern_fits(tp_text_of(patterns[i]), tp_text_of(name))) return true;
  return false;
}

static bool is_wanted(const tp_mcp_options *o, const char *name) {
  return (o->allow_count == 0 || is_listed(o->allow, o->allow_count, name)) && !is_listed(o->deny, o->deny_count, name);
}

/* Returns why a tool cannot be used; NULL: it can be used. */
static const char *refuse_tool(const tp__mcp_session *s, const tp__mcp_tools *tools, tp_text described) {
  tp_text name = tp_value_text(tp_value_get(described, "name")), schema = tp_value_get(described, "inputSchema");
  if (tp_value_kind_of(described) != TP_VALUE_MAP || name.size == 0) return "has no name";
  if (name.size > TP_ID_BYTES_MAX) return "has a name of more than 128 bytes";
  for (size_t i = 0; i < name.size; i++)
    if ((unsigned char)name.data[i] <= ' ' || name.data[i] == 0x7F)
      return "has a name with blanks or control characters";
  if (schema.size > 0 && tp_value_kind_of(schema) != TP_VALUE_MAP) return "has an inputSchema that is no object";
  if (tp_value_text(tp_value_get(described, "description")).size + schema.size > TOOL_BYTES_MAX)
    return "has a description and a schema of more than 256 KiB";
  tp_text type = tp_value_get(schema, "type");
  if (type.size > 0 && !tp__is_word(tp_value_text(type), "object"))
    return "has an inputSchema whose type is not object";
  if (s->settings.options.url && tp__mcp_headers_of(schema, (tp_text){"", 0}, NULL, NULL, NULL) != TP_OK)
    return "has an x-mcp-header that HTTP does not take";
  for (size_t i = 0; i < tools->count; i++)
    if (tp__is_word(name, tools->items[i].name)) return "is there twice";
  return NULL;
}

/* Adds a tool. Its values are written to the page as [schema, output_schema, annotations]; its offsets are into that
 * array. */
static bool add_tool(tp__mcp_tools *tools, tp_text described, tp_writer *page) {
  tp_text name = tp_value_text(tp_value_get(described, "name"));
  if (!tp__grow(tp__heap, (void **)&tools->items, &tools->capacity, tools->count + 1, sizeof *tools->items))
    return false;
  tp__mcp_tool tool = {.list = tools};
  tool.name = copy_string(name);
  tool.description = copy_string(tp_value_text(tp_value_get(described, "description")));
  if (!tool.name || !tool.description || !hash_tool(described, tool.hash)) {
    tp__heap_string_free(tool.name);
    tp__heap_string_free(tool.description);
    return false;
  }
  tp_text output = tp_value_get(described, "outputSchema"), annotations = tp_value_get(described, "annotations");
  tp_text schema = tp_value_get(described, "inputSchema");
  tp_write_array(page, 3);
  if (schema.size > 0) write_schema(page, schema);
  else tp_write_null(page);
  if (output.size > 0) tp_write_value(page, output);
  else tp_write_null(page);
  if (annotations.size > 0) tp_write_value(page, annotations);
  else tp_write_null(page);
  tools->items[tools->count++] = tool;
  return true;
}

static tp_text map_or_empty(tp_text value) {
  return tp_value_kind_of(value) == TP_VALUE_MAP ? value : (tp_text){"", 0};
}

/* Lets the tools from index first on point to their values in this page. */
static void point_to_page(tp__mcp_tools *tools, size_t first, tp_text values) {
  tp_value_walk walk = {0};
  for (size_t i = first; i < tools->count; i++) {
    bool has_more = tp_value_next(values, &walk);
    assert(has_more);
    (void)has_more;
    tools->items[i].schema = map_or_empty(tp_value_at(walk.value, 0));
    tools->items[i].output_schema = map_or_empty(tp_value_at(walk.value, 1));
    tools->items[i].annotations = map_or_empty(tp_value_at(walk.value, 2));
  }
}

static bool is_in_page(const tp__bytes *usable, tp_text name) {
  for (size_t at = 0; at + sizeof(tp_text) <= usable->size; at += sizeof(tp_text)) {
    tp_text each;
    memcpy(&each, usable->data + at, sizeof each);
    if (tp__same(tp_value_text(tp_value_get(each, "name")), name)) return true;
  }
  return false;
}

/* @return false without memory. */
static bool add_page(tp__mcp_session *s, tp__mcp_tools *tools, tp_text list) {
  tp_writer *page;
  tp_text values;
  size_t first = tools->count;
  if (!tp__grow(tp__heap, (void **)&tools->pages, &tools->page_capacity, tools->page_count + 1, sizeof(tp_writer *)) ||
      tp_writer_new(NULL, &page) != TP_OK)
    return false;
  tools->pages[tools->page_count++] = page;
  tp__bytes usable = {0}; /* the tools that can be used, each as its text in the list */
  for (tp_value_walk walk = {0}; tp_value_next(list, &walk);) {
    const char *why = refuse_tool(s, tools, walk.value);
    tp_text name = tp_value_text(tp_value_get(walk.value, "name"));
    char shown[TP_ID_BYTES_MAX + 1];
    tp__show(shown, sizeof shown, name);
    if (why) {
      tp__mcp_session_note_locked(s, "the tool \"%s\" of the server %s is left out: it %s", shown,
                                  s->settings.options.name, why);
      continue;
    }
    if (!is_wanted(&s->settings.options, shown)) continue;
    if (is_in_page(&usable, name)) {
      tp__mcp_session_note_locked(s, "the tool \"%s\" of the server %s is there twice: the first counts", shown,
                                  s->settings.options.name);
      continue;
    }
    tp_text each = walk.value;
    tp__bytes_put(&usable, (const char *)&each, sizeof each);
  }
  size_t count = usable.size / sizeof(tp_text);
  tp_write_array(page, count);
  bool is_whole = !usable.failed;
  for (size_t i = 0; is_whole && i < count; i++) {
    tp_text each;
    memcpy(&each, usable.data + i * sizeof each, sizeof each);
    is_whole = add_tool(tools, each, page);
  }
  tp__bytes_fini(&usable);
  if (is_whole && tp_writer_finish(page, &values) == TP_OK) {
    point_to_page(tools, first, values);
    return true;
  }
  while (tools->count > first) { /* drops the tools that have no values */
    tools->count--;
    tp__heap_string_free(tools->items[tools->count].name);
    tp__heap_string_free(tools->items[tools->count].description);
  }
  return false;
}

bool tp__mcp_list_add_locked(tp__mcp_session *s, tp__mcp_tools *tools, tp_text result, tp_text *ret_cursor) {
  TP__LOCKED(&s->lock);
  tp_text list = tp_value_get(result, "tools"), cursor = tp_value_get(result, "nextCursor");
  const char *name = s->settings.options.name;
  s->pages++;
  if (tp_value_kind_of(list) != TP_VALUE_ARRAY) {
    tp__mcp_session_note_locked(s, "the server %s answers tools/list without an array of tools", name);
    return false;
  }
  if (tools->count + tp_value_count(list) > TOOLS_MAX) {
    tp__mcp_session_note_locked(s, "the server %s has more than %d tools: the rest is left out", name, TOOLS_MAX);
    return false;
  }
  if (!add_page(s, tools, list)) {
    tp__mcp_session_note_locked(s, "no memory for the tools of the server %s", name);
    return false;
  }
  if (tp_value_kind_of(cursor) != TP_VALUE_TEXT || tp_value_text(cursor).size == 0) return false;
  if (s->pages >= PAGES_MAX) {
    tp__mcp_session_note_locked(s, "the server %s has more than %d pages of tools: the rest is left out", name,
                                PAGES_MAX);
    return false;
  }
  *ret_cursor = tp_value_text(cursor);
  return true;
}

/* ---- names ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const tp__mcp_tool *)a)->name, ((const tp__mcp_tool *)b)->name);
}

static bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Makes mcp__SERVER__TOOL, with '_' in place of characters that model providers do not accept. */
static char *full_name_of(const char *server, const char *tool, bool with_hash) {
  tp__bytes name = {0};
  tp__bytes_printf(&name, "mcp__%s__%s", server, tool);
  for (size_t i = 0; i < name.size; i++)
    if (!is_name_character(name.data[i])) name.data[i] = '_';
  if (name.size > NAME_MAX_OF_MODELS || with_hash) {
    tp__sha256 hash;
    char digits[65];
    tp__sha256_init(&hash);
    tp__sha256_add(&hash, tool, strlen(tool));
    tp__sha256_finish(&hash, digits);
    if (name.size > NAME_MAX_OF_MODELS - HASH_DIGITS - 1) name.size = NAME_MAX_OF_MODELS - HASH_DIGITS - 1;
    tp__bytes_printf(&name, "_%.*s", HASH_DIGITS, digits);
  }
  char *copy = name.failed ? NULL : tp__heap_copy(tp__bytes_text(&name));
  tp__bytes_fini(&name);
  return copy;
}

/* Whether the name is the server's own, unchanged: then it stays, and other tools that would get the same name get a
 * hash. */
static bool is_as_it_is(const tp__mcp_tool *tool) {
  for (const char *c = tool->name; *c; c++)
    if (!is_name_character(*c)) return false;
  return true;
}

static bool has_namesake(const tp__mcp_tools *tools, size_t index) {
  for (size_t i = 0; i < tools->count; i++)
    if (i != index && tools->items[i].full_name &&
        strcmp(tools->items[i].full_name, tools->items[index].full_name) == 0)
      return true;
  return false;
}

static void name_tools_locked(tp__mcp_session *s, tp__mcp_tools *tools) {
  TP__LOCKED(&s->lock);
  const char *server = s->settings.options.name;
  for (size_t i = 0; i < tools->count; i++) {
    tools->items[i].full_name = full_name_of(server, tools->items[i].name, false);
    if (tools->items[i].full_name) continue;
    tp__mcp_session_note_locked(s, "no memory for the tool %s of the server %s", tools->items[i].name, server);
    size_t index = i--;
    tp__heap_string_free(tools->items[index].name);
    tp__heap_string_free(tools->items[index].full_name);
    tp__heap_string_free(tools->items[index].description);
    memmove(&tools->items[index], &tools->items[index + 1], (tools->count - index - 1) * sizeof *tools->items);
    tools->count--;
  }
  for (size_t i = 0; i < tools->count; i++) {
    tp__mcp_tool *tool = &tools->items[i];
    if (is_as_it_is(tool) || !has_namesake(tools, i)) continue;
    char *longer = full_name_of(server, tool->name, true);
    if (!longer) continue; /* both names stay, and the turn's merge leaves one of the two tools out */
    tp__heap_string_free(tool->full_name);
    tool->full_name = longer;
  }
}

void tp__mcp_list_finish_locked(tp__mcp_session *s, tp__mcp_tools *tools) {
  TP__LOCKED(&s->lock);
  if (tools->count > 0) qsort(tools->items, tools->count, sizeof *tools->items, by_name);
  name_tools_locked(s, tools);
  tp__mcp_pins_apply_locked(s, tools);
}

/* ---- roots ---- */

void tp__mcp_list_write_roots(const tp__mcp_session *s, tp_writer *writer) {
  tp__bytes uri = {0};
  assert(s->settings.options.workspace);
  tp__bytes_put_string(&uri, "file://");
  for (const char *c = s->settings.options.workspace; *c; c++)
    if (is_name_character(*c) || strchr("/.~", *c)) tp__bytes_put(&uri, c, 1);
    else tp__bytes_printf(&uri, "%%%02X", (unsigned char)*c);
  tp_write_map(writer, 1);
  tp_write_string(writer, "roots");
  tp_write_array(writer, 1);
  tp_write_map(writer, 1);
  tp_write_string(writer, "uri");
  tp_write_text(writer, tp__bytes_text(&uri));
  tp__bytes_fini(&uri);
}
