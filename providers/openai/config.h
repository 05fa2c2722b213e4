/* SPDX-License-Identifier: Apache-2.0
 *
 * config: the options of a model, checked and copied, and its key. It never changes after init, so any thread may read
 * it. The key is overwritten when it is freed. */
#ifndef TP__OPENAI_CONFIG_H
#define TP__OPENAI_CONFIG_H

#include <curl/curl.h>

#include "providers/openai/form.h"

typedef struct tp__openai_price_row {
  char *model; /* NULL: every */
  int64_t input, output, cache_read, cache_write;
} tp__openai_price_row;

typedef struct tp__openai_config {
  const tp__openai_form *form;
  char *model;                /* may be NULL */
  char *url;                  /* the URL of the requests */
  char *place;                /* host and port of the URL, for faults */
  char *key;                  /* NULL: none is sent */
  char *proxy, *ca_file;      /* may be NULL */
  tp__secrets secrets;        /* the key, the values of headers and of the URL's query, the proxy's password */
  struct curl_slist *headers; /* all that are sent; the key's among them */
  char *body;                 /* value: a map; NULL: none */
  size_t body_size;
  tp__openai_price_row *prices;
  size_t price_count;
  int files_directory; /* -1: none */
  uint32_t connect_ms, first_byte_ms, idle_ms, total_ms, retry_wait_ms, retry_after_ms_max;
  uint32_t response_bytes_max;
  uint32_t requests_per_minute, tokens_per_minute; /* 0: no limit */
  bool no_stream, no_tools, http1;
  uint32_t kinds;                       /* of parts that the model accepts: bits 1 << tp_part_kind */
  uint64_t quirks;                      /* TP_OPENAI_QUIRK_* */
  tp_openai_traceparent_fn traceparent; /* NULL: none */
  void *traceparent_ctx;
} tp__openai_config;

/** @param config  zero-filled; call fini in either case.
 *  @return as tp_openai_model_new(). */
tp_status tp__openai_config_init(tp__openai_config *config, const tp_openai_options *options, tp_fault *fault);
void tp__openai_config_fini(tp__openai_config *config);

/** Makes url the one of embeddings. @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__openai_embeddings_url(tp__openai_config *config, tp_fault *fault);

/** Tells libcurl where and how a request is posted. @param body  borrowed while it is sent. */
void tp__openai_set_request(const tp__openai_config *config, CURL *easy, const tp__bytes *body);

/** Whether hosts may not set a field of requests. */
bool tp__openai_is_fixed(tp_text field);

/** The cost of an answer, by the first row that fits, rounded up; 0 without such a row. */
int64_t tp__openai_cost(const tp__openai_config *config, tp_text model, const tp__openai_usage *usage);

#endif
