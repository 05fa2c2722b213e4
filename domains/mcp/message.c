/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/message.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "support/base64.h"

/* ---- versions ---- */

static const struct version_row {
  const char *text;
  int has;
} versions[] = {
    {"none", 0},
#define X(name, text, has) [TP_MCP_VERSION_##name] = {text, has},
#include "domains/mcp/version.def"
#undef X
};

enum { VERSIONS = sizeof versions / sizeof *versions };

const char *tp_mcp_version_name(tp_mcp_version version) {
  return (unsigned)version < VERSIONS ? versions[version].text : "unknown";
}

tp_mcp_version tp__mcp_version_of(tp_text text) {
  for (int i = 1; i < VERSIONS; i++)
    if (tp__is_word(text, versions[i].text)) return (tp_mcp_version)i;
  return TP_MCP_VERSION_NONE;
}

bool tp__mcp_version_has(tp_mcp_version version, int has) {
  assert(has != 0);
  return (unsigned)version < VERSIONS && (versions[version].has & has) == has;
}

void tp__mcp_versions_write(tp_writer *writer, int has) {
  size_t count = 0;
  for (int i = 1; i < VERSIONS; i++) count += tp__mcp_version_has((tp_mcp_version)i, has);
  tp_write_array(writer, count);
  for (int i = VERSIONS - 1; i > 0; i--)
    if (tp__mcp_version_has((tp_mcp_version)i, has)) tp_write_string(writer, versions[i].text);
}

bool tp__mcp_code_is_modern(int64_t code) {
  return code == TP__MCP_HEADER_MISMATCH || code == TP__MCP_MISSING_CAPABILITY || code == TP__MCP_UNSUPPORTED_VERSION;
}

/* ---- reading ---- */

static bool is_id(tp_text value) {
  tp_value_kind kind = tp_value_kind_of(value);
  return kind == TP_VALUE_TEXT || kind == TP_VALUE_INT || kind == TP_VALUE_DOUBLE;
}

/* Makes the message a BROKEN one. @return always false, so that callers can return the call. */
static bool break_message(tp__mcp_message *message, int64_t code, tp_fault *fault, const char *why) {
  message->kind = TP__MCP_BROKEN;
  message->code = code;
  tp__refuse(fault, TP_ERR_MALFORMED, NULL, "%s", why);
  return false;
}

static bool read_error(tp_text error, tp__mcp_message *message) {
  tp_value_kind kind = tp_value_kind_of(error);
  message->kind = TP__MCP_ERROR;
  message->code = tp_value_int(tp_value_get(error, "code"), TP__MCP_INTERNAL_ERROR);
  message->words = kind == TP_VALUE_TEXT ? tp_value_text(error) : tp_value_text(tp_value_get(error, "message"));
  message->data = tp_value_get(error, "data");
  return kind == TP_VALUE_TEXT || kind == TP_VALUE_MAP;
}

static bool read_call(tp_text value, tp_text params, tp__mcp_message *message, tp_fault *fault) {
  tp_text id = tp_value_get(value, "id"), method = tp_value_get(value, "method");
  if (tp_value_kind_of(method) != TP_VALUE_TEXT)
    return break_message(message, TP__MCP_INVALID_REQUEST, fault, "method is not text");
  if (id.size > 0 && message->id.size == 0)
    return break_message(message, TP__MCP_INVALID_REQUEST, fault, "the id of a request is text or a number");
  if (params.size > 0 && tp_value_kind_of(params) != TP_VALUE_MAP)
    return break_message(message, TP__MCP_INVALID_PARAMS, fault, "params is not an object");
  message->kind = id.size > 0 ? TP__MCP_REQUEST : TP__MCP_NOTIFICATION;
  message->method = tp_value_text(method);
  message->params = params;
  return true;
}

static bool read_answer(tp_text result, tp_text error, tp__mcp_message *message, tp_fault *fault) {
  if (result.size > 0 && error.size > 0)
    return break_message(message, TP__MCP_INVALID_REQUEST, fault, "an answer has a result and an error");
  if (error.size > 0)
    return read_error(error, message) ||
           break_message(message, TP__MCP_INVALID_REQUEST, fault, "the error of an answer is no object");
  if (message->id.size == 0) return break_message(message, TP__MCP_INVALID_REQUEST, fault, "an answer has no id");
  if (tp_value_kind_of(result) != TP_VALUE_MAP)
    return break_message(message, TP__MCP_INVALID_REQUEST, fault, "the result of an answer is no object");
  message->kind = TP__MCP_RESULT;
  message->result = result;
  return true;
}

static bool read_message(tp_text value, tp__mcp_message *message, tp_fault *fault) {
  *message = (tp__mcp_message){0};
  if (tp_value_kind_of(value) != TP_VALUE_MAP)
    return break_message(message, TP__MCP_INVALID_REQUEST, fault, "a message is a JSON object");
  tp_text id = tp_value_get(value, "id"), params = tp_value_get(value, "params");
  tp_text result = tp_value_get(value, "result"), error = tp_value_get(value, "error");
  bool is_call = tp_value_get(value, "method").size > 0;
  if (is_id(id)) message->id = id;
  if (!tp__is_word(tp_value_text(tp_value_get(value, "jsonrpc")), "2.0"))
    return break_message(message, TP__MCP_INVALID_REQUEST, fault, "\"jsonrpc\" is not \"2.0\"");
  if (tp_value_kind_of(params) == TP_VALUE_NULL) params.size = 0;
  if (tp_value_kind_of(error) == TP_VALUE_NULL) error.size = 0;
  if (is_call && (result.size > 0 || error.size > 0))
    return break_message(message, TP__MCP_INVALID_REQUEST, fault, "a message has a method and an answer");
  if (is_call) return read_call(value, params, message, fault);
  if (result.size == 0 && error.size == 0)
    return break_message(message, TP__MCP_INVALID_REQUEST, fault, "a message has no method, no result and no error");
  return read_answer(result, error, message, fault);
}

/* Skips a byte-order mark, with which some programs begin their output. */
static tp_text without_mark(tp_text json) {
  static const char mark[] = "\xEF\xBB\xBF";
  const size_t size = sizeof mark - 1;
  if (json.size >= size && memcmp(json.data, mark, size) == 0) json = (tp_text){json.data + size, json.size - size};
  return json;
}

bool tp__mcp_decode(tp_text json, size_t bytes_max, tp_mcp_version version, tp_writer *writer,
                    tp__mcp_packet *ret_packet, tp__mcp_message *ret_broken, tp_fault *fault) {
  tp__mcp_packet packet = {0};
  assert(writer && ret_packet && ret_broken);
  *ret_broken = (tp__mcp_message){.code = TP__MCP_INVALID_REQUEST};
  if (json.size > bytes_max) {
    tp__refuse(fault, TP_ERR_TOO_LARGE, NULL, "a message of %zu bytes: at most %zu are read", json.size, bytes_max);
    return false;
  }
  tp_writer_reset(writer);
  tp_status status = tp_json_decode(without_mark(json), writer, fault);
  if (status == TP_OK) status = tp_writer_finish(writer, &packet.value);
  if (status != TP_OK) {
    ret_broken->code = status == TP_ERR_NO_MEMORY ? TP__MCP_INTERNAL_ERROR : TP__MCP_PARSE_ERROR;
    if (status == TP_ERR_NO_MEMORY) tp__refuse(fault, status, NULL, "no memory for a message");
    return false;
  }
  packet.is_batch = tp_value_kind_of(packet.value) == TP_VALUE_ARRAY;
  if (packet.is_batch && !tp__mcp_version_has(version, TP__MCP_HAS_BATCHES))
    return break_message(ret_broken, TP__MCP_INVALID_REQUEST, fault,
                         "an array of messages: only version 2025-03-26 has these batches");
  if (packet.is_batch && tp_value_count(packet.value) == 0)
    return break_message(ret_broken, TP__MCP_INVALID_REQUEST, fault, "an array without a message");
  *ret_packet = packet;
  return true;
}

bool tp__mcp_next(tp__mcp_packet *packet, tp__mcp_message *ret_message, tp_fault *fault) {
  tp_text value = packet->value;
  assert(value.size > 0);
  if (packet->is_batch) {
    if (!tp_value_next(packet->value, &packet->walk)) return false;
    value = packet->walk.value;
  } else {
    if (packet->is_taken) return false;
    packet->is_taken = true;
  }
  (void)read_message(value, ret_message, fault);
  return true;
}

/* ---- what is not read ---- */

/* @param at  the index of a quote.   @return the index of the quote that ends the text; the size: there is none. */
static size_t text_end(tp_text json, size_t at) {
  for (at++; at < json.size && json.data[at] != '"'; at++) at += json.data[at] == '\\';
  return at < json.size ? at : json.size;
}

static size_t skip_blanks(tp_text json, size_t at) {
  while (at < json.size && json.data[at] && strchr(" \t\r\n", json.data[at])) at++;
  return at;
}

/* Reads the whole number at a place. @return -1: there is none. */
static int64_t number_at(tp_text json, size_t at) {
  enum { DIGITS_MAX = 15 };
  int64_t number = 0;
  size_t digits = 0;
  for (; at < json.size && json.data[at] >= '0' && json.data[at] <= '9'; at++, digits++) {
    if (digits == DIGITS_MAX) return -1;
    number = number * 10 + (json.data[at] - '0');
  }
  bool is_whole = at < json.size && json.data[at] && strchr("\" \t\r,}", json.data[at]);
  return digits > 0 && is_whole ? number : -1;
}

/* The members of one object that were found. */
typedef struct seen {
  int64_t id; /* 0: no id yet; -1: the id is no number, or there were two */
  bool is_text, answers, calls;
} seen;

static void see_member(seen *s, tp_text key, tp_text json, size_t value) {
  if (tp__is_word(key, "id")) {
    s->is_text = value < json.size && json.data[value] == '"'; /* only an answer may have a number as text */
    int64_t id = number_at(json, value + s->is_text);
    s->id = s->id == 0 || s->id == id ? id : -1;
  }
  s->answers = s->answers || tp__is_word(key, "result") || tp__is_word(key, "error");
  s->calls = s->calls || tp__is_word(key, "method");
}

bool tp__mcp_next_unread(tp_text json, size_t *at, tp__mcp_unread *ret_unread) {
  size_t depth = 0; /* counts from the outermost object; an array around it does not count */
  seen s = {0};
  for (size_t i = *at; i < json.size; i++) {
    char c = json.data[i];
    if (c == '"') {
      size_t end = text_end(json, i), colon = skip_blanks(json, end + 1);
      if (depth == 1 && colon < json.size && json.data[colon] == ':')
        see_member(&s, (tp_text){json.data + i + 1, end - i - 1}, json, skip_blanks(json, colon + 1));
      i = end;
    } else if (c == '{' || (c == '[' && depth > 0)) {
      depth++;
    } else if ((c == '}' || c == ']') && depth > 0 && --depth == 0) {
      *at = i + 1;
      *ret_unread = (tp__mcp_unread){.id = s.id, .is_answer = s.answers};
      if (s.id > 0 && s.answers != s.calls && !(s.is_text && s.calls)) return true;
      s = (seen){0};
    }
  }
  *at = json.size;
  return false;
}

/* ---- ids ---- */

bool tp__mcp_id_equal(tp_text a, tp_text b) {
  tp_value_kind kind_a = tp_value_kind_of(a), kind_b = tp_value_kind_of(b);
  if (!is_id(a) || !is_id(b)) return false;
  if (kind_a == TP_VALUE_TEXT || kind_b == TP_VALUE_TEXT)
    return kind_a == kind_b && tp__same(tp_value_text(a), tp_value_text(b));
  if (kind_a == TP_VALUE_INT && kind_b == TP_VALUE_INT) return tp_value_int(a, 0) == tp_value_int(b, 0);
  return tp_value_double(a, 0) == tp_value_double(b, 0);
}

/* Reads a number's text. Only one text is accepted for each number: no sign, no leading zero. */
static int64_t number_of_text(tp_text text) {
  char shown[24], copy[24];
  if (text.size == 0 || text.size >= sizeof copy - 1) return -1;
  snprintf(copy, sizeof copy, "%.*s,", (int)text.size, text.data);
  int64_t number = number_at((tp_text){copy, text.size + 1}, 0);
  snprintf(shown, sizeof shown, "%lld", (long long)number);
  return number > 0 && tp__is_word(text, shown) ? number : -1;
}

int64_t tp__mcp_id_number(tp_text id) {
  double number = tp_value_double(id, -1);
  if (tp_value_kind_of(id) == TP_VALUE_TEXT) return number_of_text(tp_value_text(id));
  if (tp_value_kind_of(id) == TP_VALUE_INT) return tp_value_int(id, -1);
  if (tp_value_kind_of(id) != TP_VALUE_DOUBLE || !(number >= 0 && number < 9e15)) return -1;
  return (double)(int64_t)number == number ? (int64_t)number : -1;
}

tp_text tp__mcp_number_value(int64_t number, char bytes[9]) {
  bytes[0] = (char)0xD3;
  for (int i = 0; i < 8; i++) bytes[1 + i] = (char)((uint64_t)number >> (56 - 8 * i));
  return (tp_text){bytes, 9};
}

/* ---- writing ---- */

static void begin(tp_writer *writer, size_t pairs) {
  tp_writer_reset(writer);
  tp_write_map(writer, pairs);
  tp_write_string(writer, "jsonrpc");
  tp_write_string(writer, "2.0");
}

void tp__mcp_begin_request(tp_writer *writer, int64_t id, const char *method) {
  assert(id >= 0 && method);
  begin(writer, 4);
  tp_write_string(writer, "id");
  tp_write_int(writer, id);
  tp_write_string(writer, "method");
  tp_write_string(writer, method);
  tp_write_string(writer, "params");
}

void tp__mcp_begin_notification(tp_writer *writer, const char *method) {
  assert(method);
  begin(writer, 3);
  tp_write_string(writer, "method");
  tp_write_string(writer, method);
  tp_write_string(writer, "params");
}

void tp__mcp_begin_result(tp_writer *writer, tp_text id) {
  assert(is_id(id));
  begin(writer, 3);
  tp_write_string(writer, "id");
  tp_write_value(writer, id);
  tp_write_string(writer, "result");
}

void tp__mcp_write_error(tp_writer *writer, tp_text id, int64_t code, tp_text words, tp_text data) {
  assert(id.size == 0 || is_id(id));
  begin(writer, 3);
  tp_write_string(writer, "id");
  if (id.size > 0) tp_write_value(writer, id);
  else tp_write_null(writer);
  tp_write_string(writer, "error");
  tp_write_map(writer, data.size > 0 ? 3 : 2);
  tp_write_string(writer, "code");
  tp_write_int(writer, code);
  tp_write_string(writer, "message");
  tp_write_text(writer, words);
  if (data.size == 0) return;
  tp_write_string(writer, "data");
  tp_write_value(writer, data);
}

tp_status tp__mcp_encode(tp_writer *writer, tp_text *ret_json, tp_fault *fault) {
  tp_text value;
  tp_status status = tp_writer_finish(writer, &value);
  if (status != TP_OK) return tp__refuse(fault, status, NULL, "no message could be made: %s", tp_status_text(status));
  return tp_json_encode(value, writer, ret_json, fault);
}

/* ---- _meta ---- */

typedef enum meta_kind { META_TEXT, META_MAP, META_ID } meta_kind;

/* For each member of _meta where it is kept in tp__mcp_meta. */
static const struct meta_row {
  const char *key;
  meta_kind kind;
  size_t offset;
} meta_rows[] = {
    {"io.modelcontextprotocol/protocolVersion", META_TEXT, offsetof(tp__mcp_meta, version_text)},
    {"io.modelcontextprotocol/clientInfo", META_MAP, offsetof(tp__mcp_meta, client_info)},
    {"io.modelcontextprotocol/clientCapabilities", META_MAP, offsetof(tp__mcp_meta, capabilities)},
    {"progressToken", META_ID, offsetof(tp__mcp_meta, progress_token)},
    {"io.modelcontextprotocol/logLevel", META_TEXT, offsetof(tp__mcp_meta, log_level)},
    {"io.modelcontextprotocol/subscriptionId", META_ID, offsetof(tp__mcp_meta, subscription_id)},
    {"traceparent", META_TEXT, offsetof(tp__mcp_meta, traceparent)},
    {"tracestate", META_TEXT, offsetof(tp__mcp_meta, tracestate)},
    {"baggage", META_TEXT, offsetof(tp__mcp_meta, baggage)},
};

enum { META_ROWS = sizeof meta_rows / sizeof *meta_rows };

static bool has_kind(tp_text value, meta_kind kind) {
  if (kind == META_ID) return is_id(value);
  return tp_value_kind_of(value) == (kind == META_MAP ? TP_VALUE_MAP : TP_VALUE_TEXT);
}

tp_status tp__mcp_meta_read(tp_text params, tp__mcp_meta *ret_meta, tp_fault *fault) {
  static const char *const words[] = {[META_TEXT] = "text", [META_MAP] = "an object", [META_ID] = "text or a number"};
  tp__mcp_meta meta = {0};
  tp_text map = tp_value_get(params, "_meta");
  if (map.size > 0 && tp_value_kind_of(map) != TP_VALUE_MAP)
    return tp__refuse(fault, TP_ERR_MALFORMED, NULL, "params._meta is not an object");
  for (int i = 0; i < META_ROWS; i++) {
    const struct meta_row *row = &meta_rows[i];
    tp_text value = tp_value_get(map, row->key);
    if (value.size == 0) continue;
    if (!has_kind(value, row->kind))
      return tp__refuse(fault, TP_ERR_MALFORMED, NULL, "%s in params._meta is not %s", row->key, words[row->kind]);
    *(tp_text *)(void *)((char *)&meta + row->offset) = row->kind == META_TEXT ? tp_value_text(value) : value;
  }
  meta.version = tp__mcp_version_of(meta.version_text);
  *ret_meta = meta;
  return TP_OK;
}

tp_status tp__mcp_meta_check(const tp__mcp_meta *meta, tp_fault *fault) {
  const char *missing = meta->version_text.size == 0   ? meta_rows[0].key
                        : meta->capabilities.size == 0 ? meta_rows[2].key
                                                       : NULL;
  if (!missing) return TP_OK;
  return tp__refuse(fault, TP_ERR_NOT_FOUND, NULL, "params._meta has no %s, which each request must have", missing);
}

/* Returns the text of a member that is written; empty: nothing is written. */
static tp_text meta_member(const tp__mcp_meta *meta, const struct meta_row *row) {
  if (row->offset == offsetof(tp__mcp_meta, version_text))
    return meta->version == TP_MCP_VERSION_NONE ? (tp_text){"", 0} : tp_text_of(tp_mcp_version_name(meta->version));
  return *(const tp_text *)(const void *)((const char *)meta + row->offset);
}

size_t tp__mcp_meta_count(const tp__mcp_meta *meta) {
  size_t count = 0;
  for (int i = 0; i < META_ROWS; i++) count += meta_member(meta, &meta_rows[i]).size > 0;
  return count;
}

void tp__mcp_meta_write(tp_writer *writer, const tp__mcp_meta *meta) {
  tp_write_map(writer, tp__mcp_meta_count(meta));
  for (int i = 0; i < META_ROWS; i++) {
    tp_text member = meta_member(meta, &meta_rows[i]);
    if (member.size == 0) continue;
    tp_write_string(writer, meta_rows[i].key);
    if (meta_rows[i].kind == META_TEXT) tp_write_text(writer, member);
    else tp_write_value(writer, member);
  }
}

/* ---- headers ---- */

#define SENTINEL "=?base64?"
enum { SENTINEL_SIZE = sizeof SENTINEL - 1, HEADERS_MAX = 64 };

tp_text tp__mcp_header_name(tp_text method, tp_text params) {
  if (tp__is_word(method, "tools/call") || tp__is_word(method, "prompts/get"))
    return tp_value_text(tp_value_get(params, "name"));
  if (tp__is_word(method, "resources/read")) return tp_value_text(tp_value_get(params, "uri"));
  if (tp__is_word(method, "tasks/get") || tp__is_word(method, "tasks/update") || tp__is_word(method, "tasks/cancel"))
    return tp_value_text(tp_value_get(params, "taskId"));
  return (tp_text){"", 0};
}

static bool is_encoded(tp_text text) {
  return text.size >= SENTINEL_SIZE + 2 && tp__begins(text, SENTINEL) && tp__ends(text, "?=");
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Whether a header can carry the text unchanged: printable ASCII, with blanks only inside. */
static bool is_header_text(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (!(text.data[i] >= ' ' && text.data[i] <= '~') && text.data[i] != '\t') return false;
  return text.size == 0 || (!is_blank(text.data[0]) && !is_blank(text.data[text.size - 1]));
}

void tp__mcp_header_encode(tp_text text, tp__bytes *bytes) {
  if (is_header_text(text) && !is_encoded(text)) {
    tp__bytes_put_text(bytes, text);
    return;
  }
  tp__bytes_put_string(bytes, SENTINEL);
  tp__bytes_put_base64(bytes, text);
  tp__bytes_put_string(bytes, "?=");
}

bool tp__mcp_header_decode(tp_text value, tp__bytes *bytes) {
  size_t size = 0, before = bytes->size;
  if (!is_header_text(value)) return false;
  if (!is_encoded(value)) {
    tp__bytes_put_text(bytes, value);
    return !bytes->failed;
  }
  tp_text digits = {value.data + SENTINEL_SIZE, value.size - SENTINEL_SIZE - 2};
  if (digits.size % 4 != 0) return false; /* base64.c would also read it without its padding, which is refused here */
  if (!tp__bytes_reserve(bytes, tp__base64_size_max(digits.size))) return false;
  if (digits.size > 0 && !tp__base64_decode(digits, bytes->data + before, &size)) return false;
  if (!tp_utf8_valid((tp_text){bytes->data + before, size}, NULL)) return false;
  bytes->size += size;
  return true;
}

/* The state of a walk through a schema. */
typedef struct header_walk {
  tp__mcp_header_fn on_header;
  void *ctx;
  tp_fault *fault;
  tp_text names[HEADERS_MAX];
  size_t count;
  bool stopped;
} header_walk;

static tp_text member_of(tp_text map, tp_text key) {
  for (tp_value_walk walk = {0}; tp_value_kind_of(map) == TP_VALUE_MAP && tp_value_next(map, &walk);)
    if (tp__same(walk.key, key)) return walk.value;
  return (tp_text){"", 0};
}

/* Whether the text is a token of RFC 9110. */
static bool is_token(tp_text text) {
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_letter && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c))) return false;
  }
  return text.size > 0;
}

static bool is_primitive(tp_text type) {
  if (tp_value_kind_of(type) == TP_VALUE_TEXT) return tp__is_one_of(tp_value_text(type), "string integer boolean");
  size_t known = 0, count = tp_value_count(type);
  for (size_t i = 0; tp_value_kind_of(type) == TP_VALUE_ARRAY && i < count; i++)
    known += tp__is_one_of(tp_value_text(tp_value_at(type, i)), "string integer boolean null");
  return count > 0 && known == count;
}

static bool is_same_name(tp_text a, tp_text b) { return a.size == b.size && strncasecmp(a.data, b.data, a.size) == 0; }

static tp_status take_header(header_walk *walk, tp_text schema, tp_text name, tp_text value) {
  tp_text text = tp_value_text(name);
  char shown[64];
  tp__show(shown, sizeof shown, text);
  if (tp_value_kind_of(name) != TP_VALUE_TEXT || !is_token(text))
    return tp__refuse(walk->fault, TP_ERR_MALFORMED, NULL, "x-mcp-header \"%s\" is no name of a header", shown);
  if (!is_primitive(tp_value_get(schema, "type")))
    return tp__refuse(walk->fault, TP_ERR_MALFORMED, NULL,
                      "x-mcp-header \"%s\" is on a parameter that is no string, integer or boolean", shown);
  for (size_t i = 0; i < walk->count; i++)
    if (is_same_name(walk->names[i], text))
      return tp__refuse(walk->fault, TP_ERR_MALFORMED, NULL, "x-mcp-header \"%s\" is there twice", shown);
  if (walk->count == HEADERS_MAX)
    return tp__refuse(walk->fault, TP_ERR_TOO_LARGE, NULL, "more than %d parameters with x-mcp-header", HEADERS_MAX);
  walk->names[walk->count++] = text;
  if (tp_value_kind_of(value) == TP_VALUE_NULL) value.size = 0;
  const tp__mcp_header header = {.name = text, .value = value};
  if (walk->on_header && !walk->stopped) walk->stopped = !walk->on_header(walk->ctx, &header);
  return TP_OK;
}

/* Keywords whose keys are names of schemas, and keywords whose values are no schemas. */
#define NAMES_OF_SCHEMAS "properties patternProperties $defs definitions dependentSchemas"
#define NO_SCHEMAS "enum const default examples required"

/* @param value  the value in the arguments at this place.   @param reach  how this place was reached: 0: not only
 *         through properties; 1: it is the root; 2: it is below the root. */
static tp_status walk_schema(header_walk *walk, tp_text schema, tp_text value, int reach) {
  tp_status status = TP_OK;
  bool is_map = tp_value_kind_of(schema) == TP_VALUE_MAP;
  if (!is_map && tp_value_kind_of(schema) != TP_VALUE_ARRAY) return TP_OK;
  for (tp_value_walk each = {0}; status == TP_OK && tp_value_next(schema, &each);) {
    if (is_map && tp__is_one_of(each.key, NO_SCHEMAS)) continue;
    if (is_map && tp__is_word(each.key, "x-mcp-header")) {
      if (reach < 2)
        return tp__refuse(walk->fault, TP_ERR_MALFORMED, NULL,
                          "x-mcp-header where not only \"properties\" lead from the root");
      status = take_header(walk, schema, each.value, value);
    } else if (is_map && tp__is_one_of(each.key, NAMES_OF_SCHEMAS)) {
      bool goes_on = reach > 0 && tp__is_word(each.key, "properties");
      for (tp_value_walk one = {0}; status == TP_OK && tp_value_next(each.value, &one);)
        status = walk_schema(walk, one.value, goes_on ? member_of(value, one.key) : (tp_text){"", 0}, goes_on ? 2 : 0);
    } else {
      status = walk_schema(walk, each.value, (tp_text){"", 0}, 0);
    }
  }
  return status;
}

tp_status tp__mcp_headers_of(tp_text schema, tp_text arguments, tp__mcp_header_fn on_header, void *ctx,
                             tp_fault *fault) {
  header_walk walk = {.on_header = on_header, .ctx = ctx, .fault = fault};
  return walk_schema(&walk, schema, arguments, 1);
}

enum { INTEGER_BYTES = 24 };
#define SAFE_INTEGER_MAX INT64_C(9007199254740991)

/* @return false: the value is no integer that a header can carry. */
static bool integer_of(tp_text value, char ret_digits[INTEGER_BYTES]) {
  double number = tp_value_double(value, SAFE_INTEGER_MAX + 1.0);
  if (!(number >= -(double)SAFE_INTEGER_MAX && number <= (double)SAFE_INTEGER_MAX)) return false;
  if ((double)(int64_t)number != number) return false;
  snprintf(ret_digits, INTEGER_BYTES, "%lld", (long long)number);
  return true;
}

bool tp__mcp_header_encode_value(tp_text value, tp__bytes *bytes) {
  char digits[INTEGER_BYTES];
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_TEXT:
      tp__mcp_header_encode(tp_value_text(value), bytes);
      return true;
    case TP_VALUE_BOOL:
      tp__bytes_put_string(bytes, tp_value_bool(value, false) ? "true" : "false");
      return true;
    case TP_VALUE_INT:
    case TP_VALUE_DOUBLE:
      if (!integer_of(value, digits)) return false;
      tp__bytes_put_string(bytes, digits);
      return true;
    default:
      return false;
  }
}

/* Drops a fraction of zeros: 42.0 and 42 are one number. */
static tp_text without_fraction(tp_text number) {
  const char *point = memchr(number.data, '.', number.size);
  size_t size = point ? (size_t)(point - number.data) : number.size;
  for (size_t i = size + 1; i < number.size; i++)
    if (number.data[i] != '0') return number;
  return (tp_text){number.data, size};
}

bool tp__mcp_header_matches(tp_text decoded, tp_text value) {
  char digits[INTEGER_BYTES];
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_TEXT:
      return tp__same(decoded, tp_value_text(value));
    case TP_VALUE_BOOL:
      return tp__is_word(decoded, tp_value_bool(value, false) ? "true" : "false");
    case TP_VALUE_INT:
    case TP_VALUE_DOUBLE:
      return decoded.size > 0 && integer_of(value, digits) && tp__is_word(without_fraction(decoded), digits);
    default:
      return false;
  }
}
