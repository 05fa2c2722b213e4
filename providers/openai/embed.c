/* SPDX-License-Identifier: Apache-2.0
 *
 * embed.c: an embedder for the memory, using POST BASE/embeddings. The memory calls it on threads that may wait, so
 * each call is a transfer of its own. A pool of handles keeps the connections open. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "providers/openai/config.h"
#include "providers/openai/failure.h"
#include "providers/openai/io.h"
#include "support/lock.h"

enum { HANDLES_KEPT_MAX = 4, MS_PER_S = 1000, DIMENSIONS_MAX = 4096 };

typedef struct embedder {
  tp__openai_config config;
  char *name; /* of tp_memory_embedder */
  tp__lock mutex;
  /* under mutex */
  CURL *handles[HANDLES_KEPT_MAX];
  size_t handle_count;
} embedder;

/* ---- handles ---- */

static CURL *take_handle(embedder *e) {
  tp__lock_acquire(&e->mutex);
  CURL *easy = e->handle_count > 0 ? e->handles[--e->handle_count] : NULL;
  tp__lock_release(&e->mutex);
  return easy ? easy : curl_easy_init();
}

/* ---- the request ---- */

/* Fields of the options' body follow the library's fields, which it may not set. */
static void write_body(tp_writer *writer, const embedder *e, const tp_memory_embed_request *request) {
  tp_text more = {e->config.body, e->config.body_size};
  size_t count = 0;
  for (tp_value_walk walk = {0}; e->config.body && tp_value_next(more, &walk);)
    count += tp_value_kind_of(walk.value) != TP_VALUE_NULL;
  tp_write_map(writer, 2 + count);
  tp_write_string(writer, "model");
  tp_write_string(writer, e->config.model);
  tp_write_string(writer, "input");
  tp_write_array(writer, request->text_count);
  for (size_t i = 0; i < request->text_count; i++) tp_write_text(writer, request->texts[i]);
  for (tp_value_walk walk = {0}; count > 0 && tp_value_next(more, &walk);) {
    if (tp_value_kind_of(walk.value) == TP_VALUE_NULL) continue;
    tp_write_text(writer, walk.key);
    tp_write_value(writer, walk.value);
  }
}

static tp_status make_body(const embedder *e, const tp_memory_embed_request *request, tp__bytes *body) {
  tp_writer *writer;
  tp_text value, json;
  tp_status status = tp_writer_new(tp__heap, &writer);
  if (status != TP_OK) return status;
  write_body(writer, e, request);
  status = tp_writer_finish(writer, &value);
  if (status == TP_OK) status = tp_json_encode(value, writer, &json, NULL);
  if (status == TP_OK) tp__bytes_put_text(body, json);
  tp_writer_free(writer);
  return status == TP_OK && body->failed ? TP_ERR_NO_MEMORY : status;
}

/* ---- the transfer ---- */

typedef struct transfer {
  const embedder *e;
  const tp_memory_embed_request *request;
  tp__bytes answer;
  bool too_large;
} transfer;

static size_t on_bytes(char *bytes, size_t one, size_t count, void *ctx) {
  transfer *t = ctx;
  t->too_large = t->answer.size + one * count > t->e->config.response_bytes_max;
  if (t->too_large) return 0;
  tp__bytes_put(&t->answer, bytes, one * count);
  return t->answer.failed ? 0 : one * count;
}

static int on_progress(void *ctx, curl_off_t to, curl_off_t down, curl_off_t up, curl_off_t sent) {
  const transfer *t = ctx;
  (void)to, (void)down, (void)up, (void)sent;
  return t->request->cancelled(t->request->ctx); /* libcurl asks this once a second, and with every piece */
}

static tp_status send_request(embedder *e, const tp__bytes *body, transfer *t) {
  long http = 0;
  CURL *easy = take_handle(e);
  if (!easy) return TP_ERR_NO_MEMORY;
  tp__openai_set_request(&t->e->config, easy, body);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)t->e->config.total_ms);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, t);
  CURLcode code = curl_easy_perform(easy);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &http);
  assert(easy);
  curl_easy_reset(easy); /* connections stay */
  tp__lock_acquire(&e->mutex);
  assert(e->handle_count <= HANDLES_KEPT_MAX);
  bool kept = e->handle_count < HANDLES_KEPT_MAX;
  if (kept) e->handles[e->handle_count++] = easy;
  tp__lock_release(&e->mutex);
  if (!kept) curl_easy_cleanup(easy);
  /* The memory only shows the status, so the status tells what a host can do. */
  if (code == CURLE_OUT_OF_MEMORY || t->answer.failed) return TP_ERR_NO_MEMORY;
  if (code == CURLE_ABORTED_BY_CALLBACK) return TP_ERR_CANCELLED;
  if (code == CURLE_OPERATION_TIMEDOUT) return TP_ERR_TIMEOUT;
  if (t->too_large) return TP_ERR_TOO_LARGE;
  if (code != CURLE_OK) return TP_ERR_MODEL_UNAVAILABLE;
  if (http == 429 || http >= 500) return TP_ERR_MODEL_UNAVAILABLE;
  return http >= 200 && http <= 299 ? TP_OK : TP_ERR_MODEL;
}

/* ---- the answer ---- */

static bool read_vector(tp_text numbers, uint32_t dimensions, float *ret_vector) {
  if (tp_value_kind_of(numbers) != TP_VALUE_ARRAY || tp_value_count(numbers) != dimensions) return false;
  for (tp_value_walk walk = {0}; tp_value_next(numbers, &walk);) {
    double number = tp_value_double(walk.value, NAN);
    if (!isfinite(number)) return false;
    *ret_vector++ = (float)number;
  }
  return true;
}

/* Each element gives the index of its text; without an index it belongs to the next text. */
static tp_status read_vectors(tp_text data, const tp_memory_embed_request *request, float *ret_vectors) {
  size_t next = 0;
  if (tp_value_kind_of(data) != TP_VALUE_ARRAY || tp_value_count(data) != request->text_count) return TP_ERR_MALFORMED;
  char *seen = tp__heap_alloc(request->text_count + 1);
  if (!seen) return TP_ERR_NO_MEMORY;
  tp_status status = TP_OK;
  for (tp_value_walk walk = {0}; status == TP_OK && tp_value_next(data, &walk); next++) {
    int64_t index = tp_value_int(tp_value_get(walk.value, "index"), (int64_t)next);
    bool sound = index >= 0 && (size_t)index < request->text_count && !seen[index];
    if (sound) seen[index] = 1;
    if (!sound || !read_vector(tp_value_get(walk.value, "embedding"), request->dimensions,
                               ret_vectors + (size_t)index * request->dimensions))
      status = TP_ERR_MALFORMED;
  }
  tp__heap_free(seen, request->text_count + 1);
  return status;
}

static tp_status read_embeddings(const transfer *t, float *ret_vectors) {
  tp_writer *writer;
  tp_text value;
  tp_status status = tp_writer_new(tp__heap, &writer);
  if (status != TP_OK) return status;
  status = tp_json_decode(tp__bytes_text(&t->answer), writer, NULL);
  if (status == TP_OK) status = tp_writer_finish(writer, &value);
  if (status == TP_OK) status = read_vectors(tp_value_get(value, "data"), t->request, ret_vectors);
  else if (status != TP_ERR_NO_MEMORY) status = TP_ERR_MALFORMED;
  tp_writer_free(writer);
  return status;
}

static tp_status embed(void *ctx, const tp_memory_embed_request *request, float *ret_vectors) {
  embedder *e = ctx;
  tp__bytes body = {0};
  transfer t = {.e = e, .request = request};
  tp_status status = make_body(e, request, &body);
  if (status == TP_OK) status = send_request(e, &body, &t);
  if (status == TP_OK) status = read_embeddings(&t, ret_vectors);
  tp__bytes_fini(&body);
  tp__bytes_fini(&t.answer);
  return status;
}

/* ---- its life ---- */

static void destroy_embedder(void *ctx) {
  embedder *e = ctx;
  for (size_t i = 0; i < e->handle_count; i++) curl_easy_cleanup(e->handles[i]);
  tp__lock_fini(&e->mutex);
  tp__openai_config_fini(&e->config);
  tp__heap_string_free(e->name);
  tp__heap_free(e, sizeof *e);
}

/* Vectors depend on the model, the dimensions and the further fields, not on the endpoint. */
static char *make_name(const embedder *e, uint32_t dimensions) {
  char name[129];
  snprintf(name, sizeof name, "%.100s:%u", e->config.model, (unsigned)dimensions);
  return tp__heap_copy(tp_text_of(name));
}

static tp_status check_embedder(const embedder *e, const tp_openai_options *options, uint32_t dimensions,
                                tp_fault *fault) {
  const char *wrong = NULL;
  if (!e->config.model) wrong = "tp_openai_options.model is missing: an embedder needs the name of its model";
  else if (strlen(e->config.model) > 100) wrong = "tp_openai_options.model has more than 100 bytes";
  else if (options->api != TP_OPENAI_CHAT) wrong = "tp_openai_options.api: only the first form has embeddings";
  else if (dimensions == 0 || dimensions > DIMENSIONS_MAX)
    wrong = "dimensions must be 1 to 4,096: how many numbers the model's vectors have";
  else if (e->config.quirks) wrong = "tp_openai_options.quirks are for models";
  else if (e->config.traceparent) wrong = "tp_openai_options.traceparent is for models";
  else if (options->requests_per_minute || options->tokens_per_minute)
    wrong = "tp_openai_options: limits per minute are for models";
  return wrong ? tp__refuse(fault, TP_ERR_USAGE, options->model, "%s", wrong) : TP_OK;
}

static tp_status init(embedder *e, const tp_openai_options *options, uint32_t dimensions, tp_fault *fault) {
  enum { TOTAL_MS = 30 * MS_PER_S };
  tp_status status = tp__openai_config_init(&e->config, options, fault);
  if (status == TP_OK) status = check_embedder(e, options, dimensions, fault);
  if (status == TP_OK) status = tp__openai_embeddings_url(&e->config, fault);
  if (status != TP_OK) return status;
  if (!options->total_ms) e->config.total_ms = TOTAL_MS;
  e->name = make_name(e, dimensions);
  return e->name ? TP_OK : tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for an embedder");
}

tp_status tp_openai_embedder_new(const tp_openai_options *options, uint32_t dimensions,
                                 tp_memory_embedder *ret_embedder, tp_fault *fault) {
  if (!options || !ret_embedder)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_openai_embedder_new: options or ret_embedder is NULL");
  embedder *e = tp__heap_alloc(sizeof *e);
  if (!e) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for an embedder");
  e->config.files_directory = -1;
  tp__lock_init(&e->mutex, TP__LOCK_embedder);
  tp_status status = tp__openai_io_ready();
  if (status == TP_OK) status = init(e, options, dimensions, fault);
  else (void)tp__refuse(fault, status, NULL, "libcurl cannot be used: curl_global_init() failed");
  if (status != TP_OK) {
    destroy_embedder(e);
    return status;
  }
  *ret_embedder = (tp_memory_embedder){.struct_size = sizeof *ret_embedder,
                                       .name = e->name,
                                       .ctx = e,
                                       .embed = embed,
                                       .destroy = destroy_embedder,
                                       .dimensions = dimensions};
  return TP_OK;
}
