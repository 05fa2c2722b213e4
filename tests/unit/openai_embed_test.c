/* SPDX-License-Identifier: Apache-2.0
 *
 * The embedder with an endpoint: its requests, the answers that it reads, the status for each failure, and the memory
 * that uses it. */
#include "tests/support/test.h"
#include "tests/support/endpoint.h"
#include "tests/support/host.h"
#include "turnphase/openai.h"

enum { DIMENSIONS = 2, TEXTS = 2 };

static const tp_text texts[TEXTS] = {TEXT("a \"hound\""), TEXT("a sedan")};
static const char good[] = "{\"data\":[{\"index\":1,\"embedding\":[0,2.5]},{\"index\":0,\"embedding\":[1,0]}]}";

static bool never(const void *ctx) {
  (void)ctx;
  return false;
}

static bool at_once(const void *ctx) {
  (void)ctx;
  return true;
}

static tp_openai_options options_for(const endpoint *e) {
  return (tp_openai_options){.struct_size = sizeof(tp_openai_options), .model = "m", .base_url = e->url, .proxy = ""};
}

static tp_status embed_with(const tp_openai_options *options, bool (*cancelled)(const void *), float vectors[4]) {
  tp_memory_embedder embedder;
  tp_fault fault = {0};
  const tp_memory_embed_request request = {.struct_size = sizeof request,
                                           .texts = texts,
                                           .text_count = TEXTS,
                                           .dimensions = DIMENSIONS,
                                           .cancelled = cancelled};
  if (tp_openai_embedder_new(options, DIMENSIONS, &embedder, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_status status = embedder.embed(embedder.ctx, &request, vectors);
  embedder.destroy(embedder.ctx);
  return status;
}

TEST(texts_are_sent_and_vectors_come_in_their_order) {
  const endpoint_reply reply = {.body = good, .type = "application/json"};
  endpoint *e = endpoint_open(&reply, 1);
  tp_openai_options options = options_for(e);
  float vectors[4] = {9, 9, 9, 9};
  setenv("EMBED_KEY", "secret", 1);
  options.key_env = "EMBED_KEY";
  options.body = (tp_text)TEXT(
      "\x82\xaa"
      "dimensions"
      "\x02\xa1x\xc0");
  assert_int_equal(embed_with(&options, never, vectors), TP_OK);
  const float wanted[] = {1, 0, 0, 2.5F};
  assert_memory_equal(vectors, wanted, sizeof wanted);
  const char *sent = endpoint_request(e, 0);
  assert_non_null(strstr(sent, "POST /v1/embeddings "));
  assert_non_null(strstr(sent, "Authorization: Bearer secret"));
  assert_non_null(strstr(sent, "{\"model\":\"m\",\"input\":[\"a \\\"hound\\\"\",\"a sedan\"],\"dimensions\":2}"));
  endpoint_close(e);
}

TEST(each_failure_has_its_status) {
  const struct {
    endpoint_reply reply;
    tp_status status;
  } rows[] = {
      {{.status = 400, .body = "{}"}, TP_ERR_MODEL},
      {{.status = 401, .body = "{}"}, TP_ERR_MODEL},
      {{.status = 302, .headers = "Location: http://127.0.0.1:9/\r\n", .body = "{}"}, TP_ERR_MODEL},
      {{.status = 429, .body = "{}"}, TP_ERR_MODEL_UNAVAILABLE},
      {{.status = 503, .body = "{}"}, TP_ERR_MODEL_UNAVAILABLE},
      {{.body = good, .stops_at = 20, .then = ENDPOINT_CLOSES}, TP_ERR_MODEL_UNAVAILABLE},
      {{.body = good, .stops_at = 20, .then = ENDPOINT_RESETS}, TP_ERR_MODEL_UNAVAILABLE},
      {{.body = "no JSON"}, TP_ERR_MALFORMED},
      {{.body = "{\"data\":{}}"}, TP_ERR_MALFORMED},
      {{.body = "{\"data\":[{\"embedding\":[1,0]}]}"}, TP_ERR_MALFORMED},
      {{.body = "{\"data\":[{\"embedding\":[1,0]},{\"embedding\":[1]}]}"}, TP_ERR_MALFORMED},
      {{.body = "{\"data\":[{\"embedding\":[1,0]},{\"embedding\":[1,0,0]}]}"}, TP_ERR_MALFORMED},
      {{.body = "{\"data\":[{\"embedding\":[1,0]},{\"embedding\":[\"1\",0]}]}"}, TP_ERR_MALFORMED},
      {{.body = "{\"data\":[{\"index\":0,\"embedding\":[1,0]},{\"index\":0,\"embedding\":[1,0]}]}"}, TP_ERR_MALFORMED},
      {{.body = "{\"data\":[{\"index\":-1,\"embedding\":[1,0]},{\"index\":2,\"embedding\":[1,0]}]}"}, TP_ERR_MALFORMED},
      {{.body = "{\"data\":[{\"embedding\":[1,0]},{\"embedding\":[0,1]}]}"}, TP_OK},
      {{.body = good, .gzip = true}, TP_OK},
      {{.body = good, .piece = 1}, TP_OK},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    float vectors[4];
    endpoint *e = endpoint_open(&rows[i].reply, 1);
    tp_openai_options options = options_for(e);
    tp_status status = embed_with(&options, never, vectors);
    if (status != rows[i].status) fail_msg("row %zu: %s", i, tp_status_name(status));
    endpoint_close(e);
  }
}

TEST(endpoint_that_is_silent_endless_or_absent_ends_the_call) {
  float vectors[4];
  const endpoint_reply silent = {.body = good, .waits_before = true},
                       endless = {.body = " ", .then = ENDPOINT_REPEATS, .stops_at = 1};
  endpoint *e = endpoint_open(&silent, 1);
  tp_openai_options options = options_for(e);
  options.total_ms = 50;
  assert_int_equal(embed_with(&options, never, vectors), TP_ERR_TIMEOUT);
  options.total_ms = 60000;
  assert_int_equal(embed_with(&options, at_once, vectors), TP_ERR_CANCELLED);
  endpoint_close(e);
  e = endpoint_open(&endless, 1);
  options = options_for(e);
  options.response_bytes_max = 1000;
  assert_int_equal(embed_with(&options, never, vectors), TP_ERR_TOO_LARGE);
  endpoint_close(e);
  options.base_url = "http://127.0.0.1:9/v1"; /* where nothing listens */
  assert_int_equal(embed_with(&options, never, vectors), TP_ERR_MODEL_UNAVAILABLE);
}

static bool no_traceparent(void *ctx, const tp_text *ids, uint32_t id_count, char ret_text[56]) {
  (void)ctx, (void)ids, (void)id_count;
  ret_text[0] = '\0';
  return false;
}

TEST(wrong_options_are_refused) {
  const struct {
    tp_openai_options options;
    uint32_t dimensions;
    const char *words;
  } rows[] = {
      {{.base_url = "http://h/v1"}, 2, "model is missing"},
      {{.base_url = "http://h/v1", .model = "m"}, 0, "dimensions"},
      {{.base_url = "http://h/v1", .model = "m"}, 4097, "dimensions"},
      {{.base_url = "http://h/v1", .model = "m", .api = TP_OPENAI_MESSAGES}, 2, "api"},
      {{.base_url = "http://h/v1", .model = "m", .requests_per_minute = 1}, 2, "per minute"},
      {{.base_url = "http://h/v1", .model = "m", .quirks = TP_OPENAI_QUIRK_THINK_TAGS}, 2, "quirks"},
      {{.base_url = "http://h/v1", .model = "m", .traceparent = no_traceparent}, 2, "traceparent is for models"},
      {{.base_url = "h", .model = "m"}, 2, "base_url"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_memory_embedder embedder;
    tp_fault fault = {0};
    tp_openai_options options = rows[i].options;
    options.struct_size = sizeof options;
    assert_int_equal(tp_openai_embedder_new(&options, rows[i].dimensions, &embedder, &fault), TP_ERR_USAGE);
    if (!strstr(fault.message, rows[i].words)) fail_msg("row %zu: %s", i, fault.message);
  }
  assert_int_equal(tp_openai_embedder_new(NULL, 2, NULL, NULL), TP_ERR_USAGE);
}

TEST(name_says_what_vectors_depend_on) {
  tp_memory_embedder embedder;
  const tp_openai_options options = {.struct_size = sizeof options, .model = "m", .base_url = "http://h/v1"};
  assert_int_equal(tp_openai_embedder_new(&options, 256, &embedder, NULL), TP_OK);
  assert_string_equal(embedder.name, "m:256");
  assert_int_equal(embedder.dimensions, 256);
  embedder.destroy(embedder.ctx);
}

TEST(connections_are_used_again) {
  const endpoint_reply reply = {.body = good};
  endpoint *e = endpoint_open(&reply, 1);
  tp_openai_options options = options_for(e);
  tp_memory_embedder embedder;
  float vectors[4];
  const tp_memory_embed_request request = {
      .struct_size = sizeof request, .texts = texts, .text_count = TEXTS, .dimensions = DIMENSIONS, .cancelled = never};
  assert_int_equal(tp_openai_embedder_new(&options, DIMENSIONS, &embedder, NULL), TP_OK);
  for (int i = 0; i < 5; i++) assert_int_equal(embedder.embed(embedder.ctx, &request, vectors), TP_OK);
  embedder.destroy(embedder.ctx);
  assert_int_equal(e->accepted, 1);
  endpoint_close(e);
}
