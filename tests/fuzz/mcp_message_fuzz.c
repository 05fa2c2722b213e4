/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a message of a peer: the first byte chooses the version, the second what else is tested with the rest.
 * Each message that is read has the members of its kind, is valid when it is written again, and reads as itself. A
 * malformed message has an error text and a code. Headers decode to the encoded text. */
#include "domains/mcp/message.h"
#include "tests/fuzz/must.h"

enum { BYTES_MAX = 1 << 16 };

static tp_writer *reader, *writer, *again;

static bool is_id(tp_text id) {
  tp_value_kind kind = tp_value_kind_of(id);
  return kind == TP_VALUE_TEXT || kind == TP_VALUE_INT || kind == TP_VALUE_DOUBLE;
}

static void must_have_its_members(const tp__mcp_message *message, const tp_fault *fault) {
  MUST(message->id.size == 0 || is_id(message->id));
  switch (message->kind) {
    case TP__MCP_REQUEST:
      MUST(message->id.size > 0);
      MUST(message->params.size == 0 || tp_value_kind_of(message->params) == TP_VALUE_MAP);
      return;
    case TP__MCP_NOTIFICATION:
      MUST(message->id.size == 0);
      MUST(message->params.size == 0 || tp_value_kind_of(message->params) == TP_VALUE_MAP);
      return;
    case TP__MCP_RESULT:
      MUST(message->id.size > 0 && tp_value_kind_of(message->result) == TP_VALUE_MAP);
      return;
    case TP__MCP_ERROR:
      MUST(tp_utf8_valid(message->words, NULL));
      return;
    case TP__MCP_BROKEN:
      MUST(message->code < 0 && fault->code != TP_OK && fault->message[0]);
      return;
  }
  MUST(false);
}

/* Writes the message that was read, and reads it again. */
static void must_read_again(const tp__mcp_message *message) {
  tp__mcp_packet packet;
  tp__mcp_message copy;
  tp_text json;
  tp_fault fault = {0};
  if (message->kind == TP__MCP_RESULT) {
    tp__mcp_begin_result(writer, message->id);
    tp_write_value(writer, message->result);
  } else if (message->kind == TP__MCP_ERROR && message->id.size > 0) {
    tp__mcp_write_error(writer, message->id, message->code, message->words, message->data);
  } else {
    return;
  }
  MUST(tp__mcp_encode(writer, &json, &fault) == TP_OK);
  MUST(!memchr(json.data, '\n', json.size));
  MUST(tp__mcp_decode(json, SIZE_MAX, TP_MCP_VERSION_2025_11_25, again, &packet, &copy, &fault));
  MUST(tp__mcp_next(&packet, &copy, &fault));
  MUST(copy.kind == message->kind && tp__mcp_id_equal(copy.id, message->id));
  MUST(copy.code == message->code && same_bytes(copy.words, message->words));
  MUST(!tp__mcp_next(&packet, &copy, &fault));
}

static void read_meta(const tp__mcp_message *message) {
  tp__mcp_meta meta;
  tp_fault fault = {0};
  if (tp__mcp_meta_read(message->params, &meta, &fault) != TP_OK) {
    MUST(fault.message[0]);
    return;
  }
  tp_writer_reset(writer);
  tp__mcp_meta_write(writer, &meta);
  tp_text value;
  MUST(tp_writer_finish(writer, &value) == TP_OK && tp_value_count(value) == tp__mcp_meta_count(&meta));
}

static bool has_form(void *ctx, const tp__mcp_header *header) {
  tp__bytes value = {0}, decoded = {0};
  (void)ctx;
  MUST(header->name.size > 0);
  if (header->value.size > 0 && tp__mcp_header_encode_value(header->value, &value)) {
    MUST(tp__mcp_header_decode(tp__bytes_text(&value), &decoded));
    MUST(tp__mcp_header_matches(tp__bytes_text(&decoded), header->value));
  }
  tp__bytes_fini(&value);
  tp__bytes_fini(&decoded);
  return true;
}

/* Each request that is found has an id, and the search makes progress. */
static void look_through(tp_text bytes) {
  tp__mcp_unread unread;
  size_t before = 0;
  for (size_t at = 0; tp__mcp_next_unread(bytes, &at, &unread); before = at)
    MUST(unread.id > 0 && at > before && at <= bytes.size);
}

static void read_messages(tp_text bytes, tp_mcp_version version) {
  tp__mcp_packet packet;
  tp__mcp_message message;
  tp_fault fault = {0};
  look_through(bytes);
  if (!tp__mcp_decode(bytes, BYTES_MAX, version, reader, &packet, &message, &fault)) {
    must_have_its_members(&message, &fault);
    MUST(message.kind == TP__MCP_BROKEN);
    return;
  }
  while (tp__mcp_next(&packet, &message, &fault)) {
    must_have_its_members(&message, &fault);
    must_read_again(&message);
    read_meta(&message);
    (void)tp__mcp_header_name(message.method, message.params);
    (void)tp__mcp_headers_of(tp_value_get(message.params, "schema"), tp_value_get(message.params, "arguments"),
                             has_form, NULL, NULL);
  }
}

static void encode_header(tp_text text) {
  tp__bytes value = {0}, decoded = {0};
  tp__mcp_header_encode(text, &value);
  tp_text header = tp__bytes_text(&value);
  for (size_t i = 0; i < header.size; i++)
    MUST((header.data[i] >= ' ' && header.data[i] <= '~') || header.data[i] == '\t');
  MUST(tp__mcp_header_decode(header, &decoded) == tp_utf8_valid(text, NULL));
  if (tp_utf8_valid(text, NULL)) MUST(same_bytes(tp__bytes_text(&decoded), text));
  tp__bytes_clear(&decoded);
  (void)tp__mcp_header_decode(text, &decoded);
  tp__bytes_fini(&value);
  tp__bytes_fini(&decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  tp_text bytes = {(const char *)data + 2, size - 2};
  if (!reader) MUST(tp_writer_new(NULL, &reader) == TP_OK && tp_writer_new(NULL, &writer) == TP_OK);
  if (!again) MUST(tp_writer_new(NULL, &again) == TP_OK);
  if (data[1] == 'h') encode_header(bytes);
  else read_messages(bytes, (tp_mcp_version)(data[0] % 6));
  return 0;
}
