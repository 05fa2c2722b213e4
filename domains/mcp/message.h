/* SPDX-License-Identifier: Apache-2.0
 *
 * message: the messages of the Model Context Protocol, which are JSON-RPC 2.0, as both sides read and write them: the
 * client and the server use these functions, and no others, for what is on the wire. Transports are in other files.
 * Names and texts of a message point into the writer that the JSON was decoded into. No state.
 *
 * Input is refused when two readers could understand it in two ways: repeated keys, bad UTF-8 and lone surrogates are
 * refused by tp_json_decode(). Input is accepted when it has only one meaning: unknown members are ignored, "jsonrpc"
 * may be missing, an id may be any text or number. */
#ifndef TP__MCP_MESSAGE_H
#define TP__MCP_MESSAGE_H

#include "support/bytes.h"
#include "support/fault.h"
#include "turnphase/mcp.h"
#include "turnphase/value.h"

/* ---- versions ---- */

/** The features of a version. */
enum tp__mcp_has {
  TP__MCP_HAS_INITIALIZE = 1 << 0, /* sessions: initialize, notifications/initialized, ping, requests of servers */
  TP__MCP_HAS_META = 1 << 1,    /* no sessions: _meta in each request, server/discover, subscriptions/listen, headers */
  TP__MCP_HAS_STREAMS = 1 << 2, /* streamable HTTP */
  TP__MCP_HAS_BATCHES = 1 << 3, /* arrays of messages */
  TP__MCP_HAS_HEADER = 1 << 4,  /* the header MCP-Protocol-Version in each HTTP request */
  TP__MCP_HAS_STRUCTURED = 1 << 5, /* structuredContent, outputSchema, resource links */
  TP__MCP_HAS_ELICITATION = 1 << 6,
  TP__MCP_HAS_URL_ELICITATION = 1 << 7,
  TP__MCP_HAS_RESULT_TYPE = 1 << 8, /* resultType in results: complete, input_required, task */
};

/** The version that a peer names; TP_MCP_VERSION_NONE for one that is not in the table. */
tp_mcp_version tp__mcp_version_of(tp_text text);
/** Whether a version has all these features. @param has  a sum of tp__mcp_has.   @return false for
 *  TP_MCP_VERSION_NONE. */
bool tp__mcp_version_has(tp_mcp_version version, int has);
/** The newest version with a handshake, and the newest of all. */
#define TP__MCP_VERSION_HANDSHAKE TP_MCP_VERSION_2025_11_25
#define TP__MCP_VERSION_NEWEST TP_MCP_VERSION_2026_07_28
/** Writes one array with the text of each version that has all of `has`, newest first. */
void tp__mcp_versions_write(tp_writer *writer, int has);

/* ---- errors ---- */

/** Codes of JSON-RPC and of the protocol. */
enum tp__mcp_code {
  TP__MCP_PARSE_ERROR = -32700,
  TP__MCP_INVALID_REQUEST = -32600,
  TP__MCP_METHOD_NOT_FOUND = -32601,
  TP__MCP_INVALID_PARAMS = -32602,
  TP__MCP_INTERNAL_ERROR = -32603,
  TP__MCP_RESOURCE_NOT_FOUND = -32002,  /* used until 2025-11-25 */
  TP__MCP_URL_REQUIRED = -32042,        /* used in 2025-11-25 */
  TP__MCP_HEADER_MISMATCH = -32020,     /* used from 2026-07-28 on */
  TP__MCP_MISSING_CAPABILITY = -32021,  /* its data has requiredCapabilities */
  TP__MCP_UNSUPPORTED_VERSION = -32022, /* its data has supported and requested */
};

/** Whether only servers of 2026-07-28 and later answer with this code, so that the peer speaks such a version. */
bool tp__mcp_code_is_modern(int64_t code);

/* ---- reading ---- */

typedef enum tp__mcp_kind {
  TP__MCP_BROKEN, /* not a message: code and fault give the reason; id is set where it could be read */
  TP__MCP_REQUEST,
  TP__MCP_NOTIFICATION,
  TP__MCP_RESULT,
  TP__MCP_ERROR
} tp__mcp_kind;

/** A message that was read. */
typedef struct tp__mcp_message {
  tp__mcp_kind kind;
  tp_text id;     /* value: text or number; of an ERROR it may be null or empty; of a NOTIFICATION it is empty */
  tp_text method; /* content; set in a REQUEST and a NOTIFICATION */
  tp_text params; /* value: a map; empty: none */
  tp_text result; /* value: a map; set in a RESULT */
  int64_t code;   /* set in an ERROR; in a BROKEN message the code with which the sender is answered */
  tp_text words;  /* content: the message of an ERROR */
  tp_text data;   /* value: the data of an ERROR; or empty */
} tp__mcp_message;

/** The content of one line, body or event: a message, or several in versions with batches. Filled by
 *  tp__mcp_decode(). */
typedef struct tp__mcp_packet {
  tp_text value; /* a map, or an array of at least one message */
  bool is_batch;
  bool is_taken; /* the only message was taken */
  tp_value_walk walk;
} tp__mcp_packet;

/** Decodes the JSON of one line, body or event, of at most bytes_max bytes.
 *  @param version  that of the session; TP_MCP_VERSION_NONE before it is known: then there are no batches.
 *  @param writer   it is reset, and the messages point into it.
 *  @return true; false with a BROKEN message in ret_broken, and the reason in the fault, which may be NULL. */
bool tp__mcp_decode(tp_text json, size_t bytes_max, tp_mcp_version version, tp_writer *writer,
                    tp__mcp_packet *ret_packet, tp__mcp_message *ret_broken, tp_fault *fault);
/** Takes the next message of a packet. It may be BROKEN: then the fault (may be NULL) has the reason.
 *  @return false at the end. */
bool tp__mcp_next(tp__mcp_packet *packet, tp__mcp_message *ret_message, tp_fault *fault);

/** The data that can still be found in a message that tp__mcp_decode() cannot read. */
typedef struct tp__mcp_unread {
  int64_t id;     /* a number that this side chose, or that a peer counted; more than 0 */
  bool is_answer; /* set for an answer to the request of that id; else it is a request */
} tp__mcp_unread;
/** Finds the next request or answer in JSON that is no message, or in a text that is no JSON: too deep, of bad UTF-8,
 *  with repeated keys. So the request that waits for it fails at once with that reason, and not at its limit.
 *  @param at  0 at first; moved on.   @return false: there is none with an id, or its ids contradict each other. */
bool tp__mcp_next_unread(tp_text json, size_t *at, tp__mcp_unread *ret_unread);

/** Whether two ids are the same: texts by their bytes, numbers by their value (1 and 1.0 are). */
bool tp__mcp_id_equal(tp_text a, tp_text b);
/** The number of an id that this side made. A peer may send it back as a text, which is accepted since this side makes
 *  no ids that are texts.
 *  @return -1: it is no such number. */
int64_t tp__mcp_id_number(tp_text id);
/** Writes a number as a value into the caller's bytes. */
tp_text tp__mcp_number_value(int64_t number, char bytes[9]);

/* ---- writing ---- */

/* Each of the first three begins one message, after which exactly one value is written: the params, or the result.
 * tp__mcp_encode() ends each message. Errors are stored in the writer. */
void tp__mcp_begin_request(tp_writer *writer, int64_t id, const char *method);
void tp__mcp_begin_notification(tp_writer *writer, const char *method);
/** @param id  the value as it was read; it must not point into this writer. */
void tp__mcp_begin_result(tp_writer *writer, tp_text id);
/** A whole message.   @param id  value; empty: null.   @param data  value, or empty. */
void tp__mcp_write_error(tp_writer *writer, tp_text id, int64_t code, tp_text words, tp_text data);
/** Ends the message, and returns it as JSON on one line, without a line end.
 *  @param ret_json  borrowed until the writer's next use.
 *  @return TP_OK; TP_ERR_NO_MEMORY, TP_ERR_TOO_LARGE, or what tp_json_encode() returns for what was written. */
tp_status tp__mcp_encode(tp_writer *writer, tp_text *ret_json, tp_fault *fault);

/* ---- _meta of 2026-07-28 ---- */

/** The members that the protocol itself defines in params._meta. Empty and TP_MCP_VERSION_NONE: not there. */
typedef struct tp__mcp_meta {
  tp_text version_text;                     /* content, also of a version that is not in the table */
  tp_mcp_version version;                   /* the version of version_text */
  tp_text client_info;                      /* value: a map */
  tp_text capabilities;                     /* value: a map */
  tp_text progress_token;                   /* value: text or number; in every version */
  tp_text log_level;                        /* content */
  tp_text subscription_id;                  /* value: text or number */
  tp_text traceparent, tracestate, baggage; /* content */
} tp__mcp_meta;

/** Reads params._meta.
 *  @param params  value; or empty.
 *  @return TP_OK, also without _meta; TP_ERR_MALFORMED for a member of a wrong kind, with its name in the fault. */
tp_status tp__mcp_meta_read(tp_text params, tp__mcp_meta *ret_meta, tp_fault *fault);
/** Whether the request has the members that each request of 2026-07-28 must have; if not, the fault names the missing
 *  one. */
tp_status tp__mcp_meta_check(const tp__mcp_meta *meta, tp_fault *fault);
/** Writes one map with the members that are there. It writes version, not version_text. */
void tp__mcp_meta_write(tp_writer *writer, const tp__mcp_meta *meta);
/** The number of pairs that tp__mcp_meta_write() writes; with 0 the caller leaves `_meta` out. */
size_t tp__mcp_meta_count(const tp__mcp_meta *meta);

/* ---- HTTP headers of 2026-07-28 ---- */

/** The value of Mcp-Name for a request: params.name, params.uri or params.taskId; empty for methods that have none. */
tp_text tp__mcp_header_name(tp_text method, tp_text params);
/** Adds text as the value of a header: unchanged, or as =?base64?…?= when HTTP could change it, or when the text itself
 *  has this form. */
void tp__mcp_header_encode(tp_text text, tp__bytes *bytes);
/** Decodes the value of a header.
 *  @return false for characters that a header cannot have, for malformed base64, and for bytes that are not UTF-8. */
bool tp__mcp_header_decode(tp_text value, tp__bytes *bytes);

/** A parameter of a tool that also goes into a header. */
typedef struct tp__mcp_header {
  tp_text name;  /* the name of the header, after Mcp-Param- */
  tp_text value; /* value: text, int or bool of the call's arguments; empty: there is none, and no header */
} tp__mcp_header;

/** Receives each header. @return false to stop the walk. */
typedef bool (*tp__mcp_header_fn)(void *ctx, const tp__mcp_header *header);
/** Finds the parameters with x-mcp-header in a tool's schema, and their values.
 *  @param arguments  value: a map; or empty: only the schema is checked.
 *  @param on_header  may be NULL.
 *  @return TP_OK, also when on_header stopped the walk; TP_ERR_MALFORMED with the rule that the schema breaks: then the
 *          tool must not be used over HTTP; TP_ERR_TOO_LARGE above 64 of them. */
tp_status tp__mcp_headers_of(tp_text schema, tp_text arguments, tp__mcp_header_fn on_header, void *ctx,
                             tp_fault *fault);
/** Adds the value of such a header. @return false for a value that a header cannot carry. */
bool tp__mcp_header_encode_value(tp_text value, tp__bytes *bytes);
/** Whether a decoded header has the same value as the body: numbers by value, all else by bytes. */
bool tp__mcp_header_matches(tp_text decoded, tp_text value);

#endif
