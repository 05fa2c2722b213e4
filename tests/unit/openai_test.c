/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns with a model at the test endpoint: streams, tools, usage and cost, in all three forms. */
#include "tests/support/test.h"
#include "tests/support/provider.h"

#define OPTIONS(...) (&(const tp_openai_options){__VA_ARGS__})
#define REPLIES(...) ((const endpoint_reply[]){__VA_ARGS__})

static provider *open_one(const char *stream, const tp_openai_options *options) {
  static endpoint_reply reply; /* one test at a time */
  reply = (endpoint_reply){.body = stream};
  return provider_open(&reply, 1, options, false);
}

TEST(a_stream_becomes_deltas_and_a_result) {
  provider *p = open_one(CHAT_HELLO, NULL);
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  assert_string_equal(p->deltas, "Hello, w\xc3\xb6rld");
  assert_int_equal(p->input_tokens, 19);
  assert_int_equal(p->output_tokens, 10);
  assert_int_equal(p->cost_micros, 0);
  const char *request = endpoint_request(p->endpoint, 0);
  assert_memory_equal(request, "POST /v1/chat/completions HTTP/1.1\r\n", 35);
  assert_null(endpoint_header(request, "Authorization"));
  assert_null(endpoint_header(request, "Expect"));
  assert_string_equal(endpoint_body(p->endpoint, 0),
                      "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"stream\":true,"
                      "\"stream_options\":{\"include_usage\":true}}");
  provider_close(p);
}

TEST(the_three_forms_give_the_same_turn) {
  for (size_t i = 0; i < COUNT(recorded_streams); i += 2) {
    const endpoint_reply replies[] = {{.body = recorded_streams[i + 1].bytes}, {.body = recorded_streams[i].bytes}};
    provider *p = provider_open(replies, 2, OPTIONS(.api = recorded_streams[i].api), true);
    assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
    assert_int_equal(p->tool_runs, 1); /* the other tool is not there */
    assert_string_equal(p->arguments, "city=Oslo;");
    assert_string_equal(p->deltas, "Hello, w\xc3\xb6rld");
    assert_int_equal(p->input_tokens, 19);
    assert_int_equal(p->output_tokens, 10);
    assert_non_null(
        strstr(endpoint_body(p->endpoint, 0), "\"name\":\"weather\",\"description\":\"The weather of a city.\""));
    assert_non_null(strstr(endpoint_body(p->endpoint, 0), "{\"city\":{\"type\":\"string\"}}"));
    const char *second = endpoint_body(p->endpoint, 1), *result = strstr(second, "4 degrees");
    assert_non_null(strstr(second, "Oslo"));
    assert_non_null(result);
    assert_true(strstr(second, "Oslo") < result);
    assert_int_equal(endpoint_count(p->endpoint, &p->endpoint->accepted), 1); /* the connection was used again */
    provider_close(p);
  }
}

TEST(one_byte_at_a_time_and_compressed_are_the_same) {
  const endpoint_reply replies[] = {{.body = CHAT_HELLO, .piece = 1},
                                    {.body = CHAT_HELLO, .gzip = true},
                                    {.body = CHAT_HELLO, .gzip = true, .piece = 3}};
  provider *p = provider_open(replies, 3, NULL, false);
  for (int i = 0; i < 3; i++) assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  assert_non_null(strstr(endpoint_header(endpoint_request(p->endpoint, 0), "Accept-Encoding"), "gzip"));
  provider_close(p);
}

TEST(a_slow_stream_delivers_its_deltas_as_they_come) {
  const char *half = strstr(CHAT_HELLO,
                            "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
                            "\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\", w");
  const endpoint_reply reply = {.body = CHAT_HELLO, .stops_at = (size_t)(half - CHAT_HELLO), .then = ENDPOINT_WAITS};
  provider *p = provider_open(&reply, 1, NULL, false);
  provider_submit(p, NULL);
  latch_wait(&p->delta, 1);
  pthread_mutex_lock(&p->mutex);
  assert_string_equal(p->deltas, "Hello");
  pthread_mutex_unlock(&p->mutex);
  endpoint_go(p->endpoint);
  assert_completed(provider_wait(p), "Hello, w\xc3\xb6rld");
  provider_close(p);
}

TEST(an_answer_need_not_stream) {
  static const char whole[] =
      "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],"
      "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}";
  const endpoint_reply reply = {.body = whole, .type = "application/json"};
  for (int i = 0; i < 2; i++) { /* asked for, and by a server that does not stream */
    provider *p = provider_open(&reply, 1, OPTIONS(.no_stream = i == 0), false);
    assert_completed(provider_turn(p, NULL), "Hi");
    assert_string_equal(p->deltas, "");
    assert_int_equal(p->input_tokens, 3);
    assert_non_null(strstr(endpoint_body(p->endpoint, 0), i == 0 ? "\"stream\":false}" : "\"stream\":true"));
    provider_close(p);
  }
}

TEST(the_first_price_that_fits_is_the_cost) {
  const tp_openai_price other = {.struct_size = sizeof other, .model = "n*", .input_micros = 1000000000};
  const tp_openai_price mine = {.struct_size = sizeof mine,
                                .model = "m*",
                                .input_micros = 2000000,
                                .output_micros = 8000000,
                                .cache_read_micros = 500000};
  const tp_openai_price all = {.struct_size = sizeof all, .input_micros = 1000000};
  const tp_openai_price *const prices[] = {&other, &mine, &all};
  provider *p = open_one(CHAT_HELLO, OPTIONS(.prices = prices, .price_count = 3));
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  assert_int_equal(p->cost_micros, 11 * 2 + 8 / 2 + 10 * 8); /* 19 tokens, of which 8 were in the cache */
  tp_turn_request request = {.model_name = "other"};
  assert_completed(provider_turn(p, &request), "Hello, w\xc3\xb6rld");
  assert_int_equal(p->cost_micros, 19);
  assert_non_null(strstr(endpoint_body(p->endpoint, 1), "\"model\":\"other\""));
  provider_close(p);
}

TEST(models_come_and_go_while_others_work) {
  const endpoint_reply reply = {.body = CHAT_HELLO, .stops_at = 200, .then = ENDPOINT_WAITS};
  provider *p = provider_open(&reply, 1, NULL, false);
  tp_openai_options options = {.struct_size = sizeof options, .base_url = "http://127.0.0.1:1"};
  tp_openai_stats stats = {.struct_size = sizeof stats};
  tp_model *model;
  provider_submit(p, NULL);
  endpoint_await(p->endpoint, &p->endpoint->parts, 1);
  for (int i = 0; i < 100; i++) {
    assert_int_equal(tp_openai_model_new(&options, &model, NULL), TP_OK);
    tp_model_free(model);
  }
  assert_int_equal(tp_openai_stats_get(&stats), TP_OK);
  assert_int_equal(stats.threads, 1);
  assert_int_equal(stats.requests_started, 1);
  assert_int_equal(stats.requests_ended, 0);
  endpoint_go(p->endpoint);
  assert_completed(provider_wait(p), "Hello, w\xc3\xb6rld");
  provider_close(p);
}
