/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that an endpoint can do wrong, and how the turn ends: at once or after another attempt; with which
 * message. */
#include "tests/support/test.h"
#include "tests/support/provider.h"

#define OPTIONS(...) (&(const tp_openai_options){__VA_ARGS__})
#define GOOD \
  { .body = CHAT_HELLO }
#define HELLO "Hello, w\xc3\xb6rld"
#define ERROR(message, type, code) \
  "{\"error\":{\"message\":\"" message "\",\"type\":\"" type "\",\"param\":null,\"code\":" code "}}"

/* The bytes of CHAT_HELLO up to the end of its first delta with text. */
static size_t first_delta_end(void) {
  const char *delta = strstr(CHAT_HELLO, "\"Hello\"");
  return (size_t)(strstr(delta, "\n\n") + 2 - CHAT_HELLO);
}

static int requests(provider *p) { return endpoint_count(p->endpoint, &p->endpoint->request_count); }

/* ---- statuses ---- */

TEST(statuses_are_retryable_or_not) {
  static const struct {
    int status;
    int requests;
    const char *says;
  } rows[] = {
      {400, 1, "compare parameters and body"},
      {401, 1, "the key was refused: check key_env or key_file"},
      {403, 1, "may not do this"},
      {404, 1, "check base_url, api and the model's name"},
      {408, 3, "try again"},
      {413, 1, "send less"},
      {418, 1, "check base_url and api"},
      {422, 1, "compare parameters and body"},
      {429, 3, "send fewer requests"},
      {500, 3, "try again"},
      {501, 1, "check base_url and api"},
      {502, 3, "try again"},
      {503, 3, "try again"},
      {504, 3, "try again"},
      {529, 3, "overloaded"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char place[64];
    const endpoint_reply reply = {
        .status = rows[i].status, .type = "application/json", .body = ERROR("It broke", "some_error", "null")};
    provider *p = provider_open(&reply, 1, OPTIONS(.retry_wait_ms = 1), false);
    const tp_turn_result *result = provider_turn(p, NULL);
    snprintf(place, sizeof place, "HTTP %d from 127.0.0.1:%d: It broke (some_error); ", rows[i].status,
             p->endpoint->port);
    assert_failed(result, TP_ERR_MODEL, place);
    assert_failed(result, TP_ERR_MODEL, rows[i].says);
    if (requests(p) != rows[i].requests) fail_msg("%d: %d requests", rows[i].status, requests(p));
    provider_close(p);
  }
}

TEST(a_refusal_that_passes_is_tried_again) {
  const endpoint_reply replies[] = {{.status = 429, .headers = "retry-after-ms: 60\r\n", .body = "slow down"},
                                    {.status = 503, .body = "<html>busy</html>", .type = "text/html"},
                                    GOOD};
  provider *p = provider_open(replies, 3, OPTIONS(.retry_wait_ms = 1), false);
  int64_t began_ns = now_ns();
  assert_completed(provider_turn(p, NULL), HELLO);
  assert_true(now_ns() - began_ns >= 60 * 1000000);
  assert_int_equal(requests(p), 3);
  provider_close(p);
}

TEST(retry_after_is_waited_for_up_to_its_limit) {
  const endpoint_reply replies[] = {{.status = 429, .headers = "Retry-After: 1\r\n", .body = "{}"}, GOOD};
  provider *p = provider_open(replies, 2, OPTIONS(.retry_wait_ms = 1), false);
  int64_t began_ns = now_ns();
  assert_completed(provider_turn(p, NULL), HELLO);
  assert_true(now_ns() - began_ns >= 1000 * 1000000);
  provider_close(p);
  p = provider_open(replies, 2, OPTIONS(.retry_after_ms_max = 999), false);
  assert_failed(provider_turn(p, NULL), TP_ERR_MODEL_UNAVAILABLE,
                "it asks for a pause of 1 s, above retry_after_ms_max");
  assert_int_equal(requests(p), 1);
  provider_close(p);
}

TEST(a_pause_beyond_the_deadline_is_not_begun) {
  const endpoint_reply replies[] = {{.status = 503, .body = "{}"}, GOOD};
  provider *p = provider_open(replies, 2, OPTIONS(.retry_wait_ms = 60000), false);
  assert_failed(provider_turn(p, &(tp_turn_request){.limit_ms = 30000}), TP_ERR_MODEL_UNAVAILABLE,
                "attempt 2 would be sent in 60000 ms, after the turn's deadline; give turns more time (limit_ms)");
  assert_int_equal(requests(p), 1);
  provider_close(p);
}

TEST(codes_say_more_than_statuses) {
  static const struct {
    tp_openai_api api;
    int status;
    const char *body;
    tp_status code;
    int requests;
  } rows[] = {
      {TP_OPENAI_CHAT, 429, ERROR("You exceeded your quota", "insufficient_quota", "\"insufficient_quota\""),
       TP_ERR_MODEL, 1},
      {TP_OPENAI_CHAT, 400, ERROR("Too many tokens", "invalid_request_error", "\"context_length_exceeded\""),
       TP_ERR_CONTEXT_LENGTH, 1},
      {TP_OPENAI_CHAT, 400,
       "{\"object\":\"error\",\"message\":\"This model's maximum context length is 4096 tokens.\",\"code\":400}",
       TP_ERR_CONTEXT_LENGTH, 1},
      {TP_OPENAI_CHAT, 400,
       "{\"error\":{\"code\":400,\"message\":\"the request exceeds the available context size\",\"type\":"
       "\"exceed_context_size_error\",\"n_ctx\":4096}}",
       TP_ERR_CONTEXT_LENGTH, 1},
      {TP_OPENAI_RESPONSES, 400,
       ERROR("Your input exceeds the context window of this model.", "invalid_request_error", "null"),
       TP_ERR_CONTEXT_LENGTH, 1},
      {TP_OPENAI_MESSAGES, 400,
       "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 201 tokens "
       "> "
       "200 maximum\"}}",
       TP_ERR_CONTEXT_LENGTH, 1},
      {TP_OPENAI_MESSAGES, 413,
       "{\"type\":\"error\",\"error\":{\"type\":\"request_too_large\",\"message\":\"Request exceeds the maximum "
       "size\"}}",
       TP_ERR_CONTEXT_LENGTH, 1},
      {TP_OPENAI_CHAT, 500, "the maximum context length is not known", TP_ERR_MODEL, 3},
      {TP_OPENAI_CHAT, 404, "{\"error\":\"model 'm' not found\"}", TP_ERR_MODEL, 1},
      {TP_OPENAI_CHAT, 400, "{\"detail\":\"Not like this\"}", TP_ERR_MODEL, 1},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    const endpoint_reply reply = {.status = rows[i].status, .type = "application/json", .body = rows[i].body};
    provider *p = provider_open(&reply, 1, OPTIONS(.api = rows[i].api, .retry_wait_ms = 1), false);
    const tp_turn_result *result = provider_turn(p, NULL);
    if (result->code != rows[i].code) fail_msg("row %zu: %.*s", i, (int)result->reason.size, result->reason.data);
    if (rows[i].code == TP_ERR_CONTEXT_LENGTH) assert_failed(result, rows[i].code, "shorten the history or the tools");
    assert_int_equal(requests(p), rows[i].requests);
    provider_close(p);
  }
}

TEST(a_redirect_is_named_and_not_followed) {
  const endpoint_reply replies[] = {{.status = 307, .headers = "Location: http://127.0.0.1:1/x\r\n"}, GOOD};
  provider *p = provider_open(replies, 2, NULL, false);
  assert_failed(
      provider_turn(p, NULL), TP_ERR_MODEL,
      "it leads to http://127.0.0.1:1/x, and redirects are not followed; if you trust it, make it the base_url");
  assert_int_equal(requests(p), 1);
  provider_close(p);
}

TEST(a_request_id_is_named) {
  const endpoint_reply reply = {.status = 400, .headers = "X-Request-Id: req_7\r\n", .body = "{}"};
  provider *p = provider_open(&reply, 1, NULL, false);
  assert_failed(provider_turn(p, NULL), TP_ERR_MODEL, "(request req_7): no reason was given; ");
  provider_close(p);
}

/* ---- broken answers ---- */

TEST(a_connection_that_breaks_is_made_anew) {
  const endpoint_reply replies[] = {{.body = CHAT_HELLO, .stops_at = 20, .then = ENDPOINT_RESETS},
                                    {.body = CHAT_HELLO, .stops_at = 40, .then = ENDPOINT_CLOSES},
                                    GOOD};
  provider *p = provider_open(replies, 3, OPTIONS(.retry_wait_ms = 1), false);
  assert_completed(provider_turn(p, NULL), HELLO);
  assert_int_equal(requests(p), 3);
  provider_close(p);
}

TEST(behind_a_delta_nothing_is_tried_again) {
  const endpoint_then ends[] = {ENDPOINT_RESETS, ENDPOINT_CLOSES};
  for (size_t i = 0; i < COUNT(ends); i++) {
    const endpoint_reply reply = {.body = CHAT_HELLO, .stops_at = first_delta_end(), .then = ends[i], .pause_ms = 1};
    provider *p = provider_open(&reply, 1, NULL, false);
    assert_failed(provider_turn(p, NULL), TP_ERR_MODEL, ", in the middle of the answer: ");
    assert_string_equal(p->deltas, "Hello");
    assert_int_equal(requests(p), 1);
    provider_close(p);
  }
}

TEST(a_body_that_ends_too_soon_is_said) {
  char half[4096];
  snprintf(half, sizeof half, "%.*s", (int)first_delta_end() - 9, CHAT_HELLO);
  const endpoint_reply replies[] = {{.body = half}, {.body = ""}, {.body = half}};
  provider *p = provider_open(replies, 3, OPTIONS(.retry_wait_ms = 1), false);
  assert_failed(provider_turn(p, NULL), TP_ERR_MODEL, "the stream ended in the middle, after 1 events; try again");
  assert_int_equal(requests(p), 3);
  provider_close(p);
  const endpoint_reply empty = {.body = ""};
  p = provider_open(&empty, 1, OPTIONS(.retry_wait_ms = 1), false);
  assert_failed(provider_turn(p, NULL), TP_ERR_MODEL, ": the answer is empty; try again");
  provider_close(p);
}

TEST(what_is_no_answer_is_not_asked_for_again) {
  const struct {
    endpoint_reply reply;
    const char *says;
  } rows[] = {
      {{.body = "data: {oops\n\n"}, "event 1 of the endpoint, 1:2: not valid JSON: a key in double quotes "},
      {{.body = "Bad gateway", .type = "application/json"},
       "has no answer in it; it begins with 'Bad gateway'; check base_url and api"},
      {{.body = "{\"choices\": oops}", .type = "application/json"}, "event 1 of the endpoint, 1:13: not valid JSON: "},
      {{.body = "[]", .type = "application/json"}, "has no answer in it; it begins with '[]'"},
      {{.body = "{\"ok\": 1}", .type = "application/json"}, "has no answer in it"},
      {{.body = "<html>Log in</html>", .type = "text/html"}, "but a page for people: 'Log in'; check base_url"},
      {{.body = "this is no gzip", .headers = "Content-Encoding: gzip\r\n"}, "not compressed as it says"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    provider *p = provider_open(&rows[i].reply, 1, OPTIONS(.retry_wait_ms = 1), false);
    assert_failed(provider_turn(p, NULL), TP_ERR_MODEL, rows[i].says);
    assert_int_equal(requests(p), 1);
    provider_close(p);
  }
}

TEST(an_endless_answer_ends_at_its_limit) {
  const endpoint_reply reply = {.body = DELTA("{\"content\":\"more and more\"}"), .then = ENDPOINT_REPEATS};
  provider *p = provider_open(&reply, 1, OPTIONS(.response_bytes_max = 10000), false);
  assert_failed(provider_turn(p, NULL), TP_ERR_MODEL,
                "the answer is longer than 10000 bytes: raise response_bytes_max");
  endpoint_await(p->endpoint, &p->endpoint->left, 1);
  provider_close(p);
}

TEST(nothing_listens_there) {
  char url[64];
  const endpoint_reply good = GOOD;
  endpoint *gone = endpoint_open(&good, 1);
  snprintf(url, sizeof url, "%s", gone->url);
  endpoint_close(gone);
  provider *p = provider_open(&good, 1, OPTIONS(.base_url = url, .retry_wait_ms = 1), false);
  assert_failed(provider_turn(p, NULL), TP_ERR_MODEL, "check base_url, and that a server listens there");
  provider_close(p);
  p = provider_open(&good, 1, OPTIONS(.base_url = "http://no.such.host.invalid/v1", .retry_wait_ms = 1), false);
  assert_failed(provider_turn(p, NULL), TP_ERR_MODEL, "no.such.host.invalid: ");
  provider_close(p);
}

/* ---- time ---- */

TEST(each_limit_ends_what_takes_longer) {
  const struct {
    endpoint_reply reply;
    tp_openai_options options;
    const char *says;
  } rows[] = {
      {{.waits_before = true}, {.first_byte_ms = 40}, "nothing of an answer came within 40 ms (first_byte_ms)"},
      {{.body = CHAT_HELLO, .stops_at = first_delta_end(), .then = ENDPOINT_WAITS},
       {.idle_ms = 40},
       "the answer stood still within 40 ms (idle_ms)"},
      {{.body = ": ping\n\n", .pause_ms = 5, .then = ENDPOINT_REPEATS},
       {.total_ms = 60, .idle_ms = 50000},
       "the answer was not whole within 60 ms (total_ms)"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    provider *p = provider_open(&rows[i].reply, 1, &rows[i].options, false);
    int64_t began_ns = now_ns();
    assert_failed(provider_turn(p, &(tp_turn_request){.model_attempts = 1}), TP_ERR_MODEL, rows[i].says);
    assert_true(now_ns() - began_ns >= 40 * 1000000);
    endpoint_await(p->endpoint, &p->endpoint->left, 1); /* the connection was closed */
    provider_close(p);
  }
}

/* A server that never answers to TLS. */
TEST(a_connection_has_its_limit_too) {
  char url[64];
  const endpoint_reply good = GOOD;
  endpoint *silent = endpoint_open(&good, 1);
  snprintf(url, sizeof url, "https://127.0.0.1:%d/v1", silent->port);
  provider *p = provider_open(&good, 1, OPTIONS(.base_url = url, .connect_ms = 50), false);
  assert_failed(provider_turn(p, &(tp_turn_request){.model_attempts = 1}), TP_ERR_MODEL, "or raise connect_ms");
  provider_close(p);
  endpoint_close(silent);
}

/* ---- cancel ---- */

TEST(a_turn_cancelled_in_mid_stream_closes_its_connection) {
  const endpoint_reply reply = {.body = CHAT_HELLO, .stops_at = first_delta_end(), .then = ENDPOINT_WAITS};
  provider *p = provider_open(&reply, 1, NULL, false);
  provider_submit(p, NULL);
  latch_wait(&p->delta, 1);
  int64_t began_ns = now_ns();
  tp_submission_cancel(p->submission);
  const tp_turn_result *result = provider_wait(p);
  int64_t ended_ns = now_ns();
  endpoint_await(p->endpoint, &p->endpoint->left, 1);
  int64_t closed_ns = now_ns();
  assert_string_equal(tp_turn_outcome_name(result->outcome), "cancelled");
  print_message("# cancelled in mid-stream: the turn ended after %.2f ms, its connection was closed after %.2f ms\n",
                (double)(ended_ns - began_ns) / 1e6, (double)(closed_ns - began_ns) / 1e6);
  if (!HAS_THREAD_SANITIZER) assert_true(closed_ns - began_ns < 50 * 1000000);
  provider_close(p);
}

TEST(a_turn_may_be_cancelled_before_the_first_byte_and_in_a_pause) {
  const endpoint_reply waits = {.waits_before = true};
  provider *p = provider_open(&waits, 1, NULL, false);
  provider_submit(p, NULL);
  endpoint_await(p->endpoint, &p->endpoint->request_count, 1);
  tp_submission_cancel(p->submission);
  assert_string_equal(tp_turn_outcome_name(provider_wait(p)->outcome), "cancelled");
  endpoint_await(p->endpoint, &p->endpoint->left, 1);
  provider_close(p);
  const endpoint_reply busy = {.status = 503, .body = "{}"};
  p = provider_open(&busy, 1, OPTIONS(.retry_wait_ms = 30000), false);
  tp_openai_stats stats = {.struct_size = sizeof stats};
  provider_submit(p, NULL);
  while (stats.requests_started < 2) assert_int_equal(tp_openai_stats_get(&stats), TP_OK);
  tp_submission_cancel(p->submission);
  assert_string_equal(tp_turn_outcome_name(provider_wait(p)->outcome), "cancelled");
  while (stats.requests_ended < 2) assert_int_equal(tp_openai_stats_get(&stats), TP_OK);
  assert_int_equal(requests(p), 1);
  provider_close(p);
}

TEST(the_turns_deadline_closes_the_connection) {
  const endpoint_reply reply = {.body = CHAT_HELLO, .stops_at = first_delta_end(), .then = ENDPOINT_WAITS};
  provider *p = provider_open(&reply, 1, NULL, false);
  const tp_turn_result *result = provider_turn(p, &(tp_turn_request){.limit_ms = 100});
  assert_string_equal(tp_turn_outcome_name(result->outcome), "timed_out");
  endpoint_await(p->endpoint, &p->endpoint->left, 1);
  provider_close(p);
}

TEST(a_session_that_closes_in_mid_stream_leaves_nothing) {
  const endpoint_reply reply = {.body = CHAT_HELLO, .stops_at = first_delta_end(), .then = ENDPOINT_WAITS};
  provider *p = provider_open(&reply, 1, NULL, false);
  provider_submit(p, NULL);
  latch_wait(&p->delta, 1);
  tp_submission_cancel(p->submission);
  provider_close(p); /* without waiting for the turn */
}
