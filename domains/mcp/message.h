/* SPDX-License-Identifier: Apache-2.0
 *
 * message: the messages of the Model Context Protocol, which are JSON-RPC 2.0, as both sides read and write them: the
 * client and the server use these functions, and no others, for what is on the wire. Transports are not here. Names and
 * texts of what was read point into the writer that the JSON was decoded into. No state.
 *
 * Strict where two readers could understand two things: repeated keys, bad UTF-8 and lone surrogates are refused by
 * tp_json_decode(). Tolerant where a peer cannot be misunderstood: unknown members are left out, a missing "jsonrpc" is
 * not asked for, an id may be any text or number. */
#ifndef TP__MCP_MESSAGE_H
#define TP__MCP_MESSAGE_H

#include "support/bytes.h"
#include "support/fault.h"
#include "turnphase/mcp.h"
#include "turnphase/value.h"

/* ---- versions ---- */

/** What a version has. */
enum tp__mcp_has {
  TP__MCP_HAS_INITIALIZE = 1 << 0, /* a session: initialize, notifications/initialized, ping, requests of servers */
  TP__MCP_HAS_META = 1 << 1,    /* no session: _meta in each request, server/discover, subscriptions/listen, headers */
  TP__MCP_HAS_STREAMS = 1 << 2, /* streamable HTTP */
  TP__MCP_HAS_BATCHES = 1 << 3, /* arrays of messages */
  TP__MCP_HAS_HEADER = 1 << 4,  /* MCP-Protocol-Version with each HTTP request */
  TP__MCP_HAS_STRUCTURED = 1 << 5, /* structuredContent, outputSchema, resource links */
  TP__MCP_HAS_ELICITATION = 1 << 6,
  TP__MCP_HAS_URL_ELICITATION = 1 << 7,
  TP__MCP_HAS_RESULT_TYPE = 1 << 8, /* resultType: complete, input_required, task */
};

/** The version that a peer names; TP_MCP_VERSION_NONE for one that is not in the table. */
tp_mcp_version tp__mcp_version_of(tp_text text);
/** @param has  one of tp__mcp_has.   @return false for TP_MCP_VERSION_NONE. */
bool tp__mcp_version_has(tp_mcp_version version, int has);
/** The newest with a handshake, and the newest of all. */
#define TP__MCP_VERSION_HANDSHAKE TP_MCP_VERSION_2025_11_25
#define TP__MCP_VERSION_NEWEST TP_MCP_VERSION_2026_07_28
/** One array with the text of each version that has all of `has`, newest first. */
void tp__mcp_versions_write(tp_writer *writer, int has);

/* ---- errors ---- */

/** Codes of JSON-RPC and of the protocol. */
enum tp__mcp_code {
  TP__MCP_PARSE_ERROR = -32700,
  TP__MCP_INVALID_REQUEST = -32600,
  TP__MCP_METHOD_NOT_FOUND = -32601,
  TP__MCP_INVALID_PARAMS = -32602,
  TP__MCP_INTERNAL_ERROR = -32603,
  TP__MCP_RESOURCE_NOT_FOUND = -32002,  /* until 2025-11-25 */
  TP__MCP_URL_REQUIRED = -32042,        /* 2025-11-25 */
  TP__MCP_HEADER_MISMATCH = -32020,     /* from 2026-07-28 */
  TP__MCP_MISSING_CAPABILITY = -32021,  /* data.requiredCapabilities */
  TP__MCP_UNSUPPORTED_VERSION = -32022, /* data.supported, data.requested */
};

/** Whether a code is one that only servers of 2026-07-28 and later answer with: the peer is of that era. */
bool tp__mcp_code_is_modern(int64_t code);

/* ---- reading ---- */

typedef enum tp__mcp_kind {
  TP__MCP_BROKEN, /* no message: code and fault say why; id, where it could be read */
  TP__MCP_REQUEST,
  TP__MCP_NOTIFICATION,
  TP__MCP_RESULT,
  TP__MCP_ERROR
} tp__mcp_kind;

/** A message that was read. */
typedef struct tp__mcp_message {
  tp__mcp_kind kind;
  tp_text id;     /* value: text or number; of an ERROR also null or empty; of a NOTIFICATION empty */
  tp_text method; /* content; of REQUEST and NOTIFICATION */
  tp_text params; /* value: a map; empty: none */
  tp_text result; /* value: a map; of RESULT */
  int64_t code;   /* of ERROR; of BROKEN what the sender is to be answered */
  tp_text words;  /* content: of ERROR its message */
  tp_text data;   /* value: of ERROR; or empty */
} tp__mcp_message;

/** What one line, body or event holds: a message, or several, where the version has batches. Filled by
 *  tp__mcp_decode(). */
typedef struct tp__mcp_packet {
  tp_text value; /* a map, or an array of at least one */
  bool is_batch;
  bool is_taken; /* the one message was */
  tp_value_walk walk;
} tp__mcp_packet;

/** Decodes the JSON of one line, body or event, of at most bytes_max bytes.
 *  @param version  of the session; before it is known TP_MCP_VERSION_NONE: no batches.
 *  @param writer   reset; what was read points into it.
 *  @return true; false with BROKEN in ret_broken, and words in the fault, which may be NULL. */
bool tp__mcp_decode(tp_text json, size_t bytes_max, tp_mcp_version version, tp_writer *writer,
                    tp__mcp_packet *ret_packet, tp__mcp_message *ret_broken, tp_fault *fault);
/** Takes the next message of a packet, which may be BROKEN; then the fault (may be NULL) has words.
 *  @return false at the end. */
bool tp__mcp_next(tp__mcp_packet *packet, tp__mcp_message *ret_message, tp_fault *fault);

/** What is still seen of a message that tp__mcp_decode() does not read. */
typedef struct tp__mcp_unread {
  int64_t id;     /* a number of this side, or of a peer that counts; more than 0 */
  bool is_answer; /* to the request of that id; else it is a request */
} tp__mcp_unread;
/** Finds the next request or answer in JSON that is no message, or no JSON: too deep, of bad UTF-8, with repeated keys.
 *  What waits for it fails with that reason, and not at its limit.
 *  @param at  0 at first; moved on.   @return false: there is none that has an id, or its ids contradict. */
bool tp__mcp_next_unread(tp_text json, size_t *at, tp__mcp_unread *ret_unread);

/** Whether two ids are the same: texts by their bytes, numbers by their value (1 and 1.0 are). */
bool tp__mcp_id_equal(tp_text a, tp_text b);
/** The number of an id that this side made; a peer may send it back as a text, since this side makes no other texts.
 *  @return -1: it is no such number. */
int64_t tp__mcp_id_number(tp_text id);
/** A number as a value, in the caller's bytes. */
tp_text tp__mcp_number_value(int64_t number, char bytes[9]);

/* ---- writing ---- */

/* Each of the first three begins one message, after which exactly one value is written: the params, or the result.
 * tp__mcp_encode() ends each message. Errors are stored in the writer. */
void tp__mcp_begin_request(tp_writer *writer, int64_t id, const char *method);
void tp__mcp_begin_notification(tp_writer *writer, const char *method);
/** @param id  value, as it was read; it must not be in this writer. */
void tp__mcp_begin_result(tp_writer *writer, tp_text id);
/** A whole message.   @param id  value; empty: null.   @param data  value, or empty. */
void tp__mcp_write_error(tp_writer *writer, tp_text id, int64_t code, tp_text words, tp_text data);
/** The message as JSON on one line, without a line end.
 *  @param ret_json  borrowed until the writer's next use.
 *  @return TP_OK; TP_ERR_NO_MEMORY, TP_ERR_TOO_LARGE, or what tp_json_encode() returns for what was written. */
tp_status tp__mcp_encode(tp_writer *writer, tp_text *ret_json, tp_fault *fault);

/* ---- _meta of 2026-07-28 ---- */

/** What the protocol itself keeps in params._meta. Empty and TP_MCP_VERSION_NONE: not there. */
typedef struct tp__mcp_meta {
  tp_text version_text;                     /* content, also of a version that is not in the table */
  tp_mcp_version version;                   /* of it */
  tp_text client_info;                      /* value: a map */
  tp_text capabilities;                     /* value: a map */
  tp_text progress_token;                   /* value: text or number; of every version */
  tp_text log_level;                        /* content */
  tp_text subscription_id;                  /* value: text or number */
  tp_text traceparent, tracestate, baggage; /* content */
} tp__mcp_meta;

/** Reads params._meta.
 *  @param params  value; or empty.
 *  @return TP_OK, also where there is none; TP_ERR_MALFORMED for a member of another kind, with its name. */
tp_status tp__mcp_meta_read(tp_text params, tp__mcp_meta *ret_meta, tp_fault *fault);
/** Whether the request has what each request of 2026-07-28 must have; if not, the fault says what is missing. */
tp_status tp__mcp_meta_check(const tp__mcp_meta *meta, tp_fault *fault);
/** One map with what is there. version_text is left out of account: version is written. */
void tp__mcp_meta_write(tp_writer *writer, const tp__mcp_meta *meta);
/** The number of pairs that tp__mcp_meta_write() writes; with 0 the caller leaves `_meta` out. */
size_t tp__mcp_meta_count(const tp__mcp_meta *meta);

/* ---- HTTP headers of 2026-07-28 ---- */

/** The value of Mcp-Name for a request: params.name, params.uri or params.taskId; empty for methods that have none. */
tp_text tp__mcp_header_name(tp_text method, tp_text params);
/** Adds text as the value of a header: as it is, or =?base64?…?= where HTTP could change it, or the text looks so. */
void tp__mcp_header_encode(tp_text text, tp__bytes *bytes);
/** Decodes the value of a header.
 *  @return false for characters that no header has, and for base64 that is none, or of what is not UTF-8. */
bool tp__mcp_header_decode(tp_text value, tp__bytes *bytes);

/** A parameter of a tool that also goes into a header. */
typedef struct tp__mcp_header {
  tp_text name;  /* of the header, after Mcp-Param- */
  tp_text value; /* value: text, int or bool, of the call's arguments; empty: none, then there is no header */
} tp__mcp_header;

/** Gets each. @return false to stop. */
typedef bool (*tp__mcp_header_fn)(void *ctx, const tp__mcp_header *header);
/** Finds the parameters with x-mcp-header in a tool's schema, and their values.
 *  @param arguments  value: a map; or empty: only the schema is checked.
 *  @param on_header  may be NULL.
 *  @return TP_OK, also when it stopped; TP_ERR_MALFORMED with the rule that the schema breaks: then the tool must not
 *          be used over HTTP; TP_ERR_TOO_LARGE above 64 of them. */
tp_status tp__mcp_headers_of(tp_text schema, tp_text arguments, tp__mcp_header_fn on_header, void *ctx,
                             tp_fault *fault);
/** Adds the value of such a header. @return false for a value that has no form there. */
bool tp__mcp_header_encode_value(tp_text value, tp__bytes *bytes);
/** Whether what a header says, decoded, is what the body says: numbers by value, all else by bytes. */
bool tp__mcp_header_matches(tp_text decoded, tp_text value);

#endif
