/* SPDX-License-Identifier: Apache-2.0
 *
 * openai.h: the library turnphase-openai: models behind an HTTP endpoint that speaks the chat completions, the
 * responses or the Anthropic messages form. It uses libcurl; the core does not.
 *
 * Threads. All requests of all models of the process share one I/O thread. It is started by the first request and ends
 * with the last model. The child of a fork has none, and its first request starts one. Every signal is blocked in it.
 * libcurl may start a short-lived thread of its own to resolve a host name.
 *
 * libcurl. curl_global_init(CURL_GLOBAL_DEFAULT) is called once, by the first model; curl_global_cleanup() never is,
 * since other parts of the host may use libcurl. A host that wants other flags, or whose libcurl is not
 * CURL_VERSION_THREADSAFE, calls it before. Signals are never used (CURLOPT_NOSIGNAL), and no SIGPIPE is raised.
 *
 * Retries. The turn repeats a failed request at once (tp_turn_request.model_attempts), and only before the first delta.
 * This library makes the pause before the retry: a request whose attempt is above 1 is sent after retry_wait_ms,
 * doubled with each further attempt (at most 60 s), and not before the time that the endpoint's newest Retry-After
 * named. A Retry-After above retry_after_ms_max, or a pause beyond the turn's deadline, fails the request with
 * TP_ERR_MODEL_UNAVAILABLE: it is not repeated, but a fallback may be asked (tp_session_options.fallbacks). These are
 * retryable: the statuses 408, 429 (but for an exhausted quota), 500, 502, 503, 504 and 529, connections that cannot be
 * made or break, and time limits. Redirects are never followed: the failure names where to. */
#ifndef TURNPHASE_OPENAI_H
#define TURNPHASE_OPENAI_H

#include "turnphase/memory.h"
#include "turnphase/model.h"

TP_BEGIN_DECLS

/** The form of requests and answers. */
typedef enum tp_openai_api {
  TP_OPENAI_CHAT = 0,      /* POST BASE/chat/completions: OpenAI and what is compatible with it */
  TP_OPENAI_RESPONSES = 1, /* POST BASE/responses: OpenAI */
  TP_OPENAI_MESSAGES = 2,  /* POST BASE/messages: Anthropic */
  TP_OPENAI_API_FORCE_32 = 0x7fffffff
} tp_openai_api;

/** "chat", "responses", "messages"; "unknown" for any other number. Threads: any. */
TP_API const char *tp_openai_api_name(tp_openai_api api);
/** The API of a name, as tp_openai_api_name() returns it.
 *  @return TP_OK; TP_ERR_NOT_FOUND for a name that is none of them, and for NULL. Threads: any. */
TP_API tp_status tp_openai_api_find(const char *name, tp_openai_api *ret_api) TP_MUST_USE;

/** What a model can read: bits. */
typedef enum tp_openai_input {
  TP_OPENAI_INPUT_TEXT = 1, /* always read; with no other bit it changes nothing */
  TP_OPENAI_INPUT_IMAGES = 2,
  TP_OPENAI_INPUT_AUDIO = 4,
  TP_OPENAI_INPUT_FILES = 8, /* PDF documents */
  TP_OPENAI_INPUT_FORCE_32 = 0x7fffffff
} tp_openai_input;

/** How a server deviates from its API in a way that its answers do not show for certain: bits. docs/models.md describes
 *  each. */
typedef enum tp_openai_quirk {
  /** Thinking stands in the text, between tags (`<think>…</think>` and their like): it is separated from the rest. */
  TP_OPENAI_QUIRK_THINK_TAGS = 1,
  /** As THINK_TAGS, but the opening tag of the first block is missing: the answer begins with thinking. */
  TP_OPENAI_QUIRK_THINK_FIRST = 2,
  /** Each piece of a stream contains all of the text so far. */
  TP_OPENAI_QUIRK_CUMULATIVE = 4,
  TP_OPENAI_QUIRK_FORCE_32 = 0x7fffffff
} tp_openai_quirk;

/** What a million tokens cost, in millionths of the host's currency. It is passed by pointer. */
typedef struct tp_openai_price {
  size_t struct_size;
  const char *model; /* a name as it is sent; with * at its end: every name that begins so; NULL: every */
  int64_t input_micros, output_micros;
  int64_t cache_read_micros;  /* of input tokens that the endpoint read from its cache; 0: input_micros */
  int64_t cache_write_micros; /* of input tokens that it wrote to its cache, when it counts them; 0: input_micros */
} tp_openai_price;

/** Writes the header traceparent (W3C Trace Context) of a request, such as tp_traces_parent() of traces.h.
 *  @param ids       of the request, by TP_ID_*.
 *  @param ret_text  55 characters and a NUL.
 *  @return false: the request has none.   Threads: that which starts the request. */
typedef bool (*tp_openai_traceparent_fn)(void *ctx, const tp_text *ids, uint32_t id_count, char ret_text[56]);

/** A model behind an endpoint. Zero means default. Everything is copied. */
typedef struct tp_openai_options {
  size_t struct_size;
  /** The name of the model for a request that names none; NULL: each request must name one. */
  const char *model;
  /** http:// or https://, without the last part of the path; a query stays at its end. NULL: the API's own,
   *  https://api.openai.com/v1 or https://api.anthropic.com/v1. */
  const char *base_url;
  /** The environment variable that holds the key, read once, by tp_openai_model_new(). When both this and key_file are
   *  NULL: OPENAI_API_KEY or ANTHROPIC_API_KEY if base_url is NULL, else no key is sent. */
  const char *key_env;
  /** In place of key_env: a file with the key, which only its owner may read (mode 0600 or 0400). */
  const char *key_file;
  /** The header with the bare key; NULL: "Authorization: Bearer KEY", and "x-api-key" for TP_OPENAI_MESSAGES. */
  const char *key_header;
  /** URL of a proxy; NULL: http_proxy, https_proxy, no_proxy of the environment apply; "": none. */
  const char *proxy;
  /** PEM file of the certificates that are trusted; NULL: the system's. */
  const char *ca_file;
  /** Paths in tp_message.parts are read beneath it; NULL: a path is refused. data: and https: URLs need no
   *  directory. */
  const char *files_directory;
  /** Value: a map of text to text: further headers; or empty. */
  tp_text headers;
  /** Value: a map: further fields of each request; a null leaves out what would be sent.
   *  tp_model_request.parameters overrides it. Not model, messages, input, instructions, system, tools, stream. */
  tp_text body;
  /** price_count pointers; the first one whose model fits counts; when none fits, the cost is 0. */
  const tp_openai_price *const *prices;
  size_t price_count;
  tp_openai_api api;
  /** The limit, in ms, until the connection stands, TLS included; 0: 10,000. */
  uint32_t connect_ms;
  /** The limit from then to the first byte of the answer's body; 0: 120,000. */
  uint32_t first_byte_ms;
  /** The limit between two pieces of the body; 0: 60,000. */
  uint32_t idle_ms;
  /** The limit of the whole request; 0: 600,000. The turn's deadline counts, too. */
  uint32_t total_ms;
  /** The pause before attempt 2; 0: 500. */
  uint32_t retry_wait_ms;
  /** The longest Retry-After that is waited for; 0: 60,000. */
  uint32_t retry_after_ms_max;
  /** The most bytes of one answer, decompressed; 0: 16 MiB; at most 64 MiB. */
  uint32_t response_bytes_max;
  /** Asks for the whole answer at once: no deltas. */
  bool no_stream;
  /** As tp_model.no_tools. */
  bool no_tools;
  /** Speaks HTTP/1.1 also where the endpoint speaks HTTP/2: then an answer that a listener holds back
   *  (tp_event_hold()) is not read from its connection. By HTTP/2, where the streams of a connection would wait for one
   *  another, it is read, and waits in this process, up to response_bytes_max. */
  bool http1;
  /** Must be zero. */
  uint8_t reserved_[1];
  /** TP_OPENAI_INPUT_*: what the model reads; 0: text, images and files. */
  uint32_t inputs;
  /** The most requests of this model per minute, attempts included; 0: no limit. A sixth of them may be sent at once.
   *  Further requests wait in
   *  order, at most retry_after_ms_max and until the turn's deadline; one that would wait longer fails at once with
   *  TP_ERR_MODEL_UNAVAILABLE. */
  uint32_t requests_per_minute;
  /** The most tokens per minute, in the same way: a request counts as a quarter of its bytes until the endpoint reports
   *  its input and
   *  output tokens; 0: no limit. */
  uint32_t tokens_per_minute;
  /** TP_OPENAI_QUIRK_*; 0: none. An embedder takes none. */
  uint64_t quirks;
  /** Called for each request; NULL: none. An embedder takes none. */
  tp_openai_traceparent_fn traceparent;
  /** TP_ERR_USAGE without traceparent. */
  void *traceparent_ctx;
} tp_openai_options;

/** Makes a model for tp_session_options.model or tp_agent_config.model; its name is options->model. No connection is
 *  made.
 *
 *  Files in the parts of a message are images: data: URLs, https: URLs, and, beneath files_directory, paths of PNG,
 *  JPEG, GIF and WebP files of at most 20 MiB. When a file of the user's newest message cannot be sent, the request
 *  fails; a file of an older message is replaced by a text that gives the reason. At most 64 files and 64 MiB.
 *
 *  Parts of tools' results are sent where the API, options->inputs and the media type allow it: PNG, JPEG, GIF and WebP
 *  images, PDF documents, and, to TP_OPENAI_CHAT, WAV and MP3 audio, as bytes, data: or https: URLs; never by path. Any
 *  other part, a link too, is sent as a text that names it and the reason, and a file of text as its text. Results of
 *  TP_OPENAI_CHAT have text only: a message of the user's right after them has their media.
 *
 *  parameters are sent as they are, but for max_tokens and stop, which get the name that the API has for them.
 *  Reasoning text of a model is not part of the answer. A call whose arguments are no JSON object is passed on as
 *  malformed.
 *
 *  Secrets are in no fault and no message: error texts of the endpoint and of libcurl have "[key]" in place of the key,
 *  of the values of headers and of base_url's query (but for api-version), of the password of a proxy, and of users and
 *  passwords in any URL. Of a redirect the query is left out. The text of an answer is not searched for them.
 *
 *  Its provider (tp_model.provider) is the host and port of base_url. A request that fails ends as by tp_model_fail():
 *  TP_ERR_CONTEXT_LENGTH when the endpoint reports that the context is too long, TP_ERR_MODEL_UNAVAILABLE when it would
 *  be sent too late, TP_ERR_NO_MEMORY, TP_ERR_NO_THREAD, else TP_ERR_MODEL, with a message that names the cause and a
 *  remedy. A cancelled request closes its connection at once.
 *  @param ret_model  tp_model_free() when it was not taken. The destroy of the last model ends the I/O thread and waits
 *                    for it. When the I/O thread itself calls that destroy (because it ended the last turn of a closed
 *                    session), the thread ends right after the call; tp_openai_stats.threads is 0 then.
 *  @return TP_OK; TP_ERR_USAGE for an option that is wrong, and for a key file that others may read; TP_ERR_VERSION;
 *          TP_ERR_MALFORMED, TP_ERR_UTF8, TP_ERR_TOO_DEEP, TP_ERR_TOO_LARGE for headers and body that are no such
 *          value; TP_ERR_NOT_FOUND when the variable of the key is not set; TP_ERR_IO with errno for a file that cannot
 *          be read; TP_ERR_SYSTEM when libcurl cannot be used; TP_ERR_NO_MEMORY.
 *  Threads: any, but none may change the environment meanwhile.  Blocks: while the key is read. */
TP_API tp_status tp_openai_model_new(const tp_openai_options *options, tp_model **ret_model,
                                     tp_fault *fault) TP_MUST_USE;

/** Makes an embedder for tp_memory_options.embedder: POST BASE/embeddings, as OpenAI has it and many servers do. Its
 *  name is that of the model and the dimensions, so that the memory makes vectors anew when either changes. Each call
 *  is one request on the memory's own thread, and is not repeated: the memory goes on without the vectors, and a later
 *  job makes the missing ones. The status of a failed call: TP_ERR_TIMEOUT; TP_ERR_MODEL_UNAVAILABLE for no
 *  connection, 429 and 5xx; TP_ERR_MALFORMED for an answer without one vector of the dimensions for each text; else
 *  TP_ERR_MODEL.
 *  @param options     as of a model, with a name; api must be TP_OPENAI_CHAT, limits per minute 0. body has more
 *                     fields, such as {"dimensions": 256} for models that can shorten their vectors. total_ms is 30,000
 *                     by default. first_byte_ms, idle_ms, prices and the options for messages have no effect.
 *  @param dimensions  of the vectors that come back: 1 to 4,096.
 *  @param ret_embedder  ret_embedder->destroy(ret_embedder->ctx) when it was not taken.
 *  @return as tp_openai_model_new().  Threads: any.  Blocks: while the key is read. */
TP_API tp_status tp_openai_embedder_new(const tp_openai_options *options, uint32_t dimensions,
                                        tp_memory_embedder *ret_embedder, tp_fault *fault) TP_MUST_USE;

/** Counters of the I/O thread, over all models of the process. */
typedef struct tp_openai_stats {
  size_t struct_size;
  uint64_t requests_started, requests_ended; /* since the I/O thread was started; with waiting and cancelled ones */
  uint64_t connections_opened;               /* since then */
  uint32_t threads;                          /* 1, or 0 while there is none */
  uint32_t models;                           /* that were made and not yet destroyed */
} tp_openai_stats;
/** Fills the counters.
 *  @param stats  struct_size is set by the caller; fields that its size leaves out are not written. All but models are
 *                zero while there is no I/O thread.
 *  @return TP_OK; TP_ERR_VERSION. Threads: any. */
TP_API tp_status tp_openai_stats_get(tp_openai_stats *stats) TP_MUST_USE;

TP_END_DECLS
#endif
