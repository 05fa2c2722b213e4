/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits per minute: the bucket with invented times, and requests that wait, are cancelled or come too late. */
#include "tests/support/test.h"
#include "providers/openai/rate.h"
#include "tests/support/provider.h"

#define S INT64_C(1000000000)
#define OPTIONS(...) (&(tp_openai_options){.struct_size = sizeof(tp_openai_options), __VA_ARGS__})

static const endpoint_reply good = {.body = CHAT_HELLO}; /* 19 tokens in, 5 out */

/* Within a nanosecond or two, for the rounding. */
static void assert_near(int64_t at_ns, int64_t wanted_ns) {
  if (at_ns < wanted_ns || at_ns > wanted_ns + 1000) fail_msg("%lld, not %lld", (long long)at_ns, (long long)wanted_ns);
}

TEST(a_sixth_goes_at_once_and_the_rest_in_its_turn) {
  tp__openai_rate rate;
  tp__openai_rate_init(&rate, 12, 0); /* one in 5 s */
  assert_int_equal(tp__openai_rate_take(&rate, 1, 0), 0);
  assert_int_equal(tp__openai_rate_take(&rate, 1, 0), 0);
  assert_near(tp__openai_rate_take(&rate, 1, 0), 5 * S);
  assert_near(tp__openai_rate_take(&rate, 1, 1 * S), 10 * S);
  tp__openai_rate_give(&rate, 1); /* the request was cancelled */
  assert_near(tp__openai_rate_take(&rate, 1, 2 * S), 10 * S);
  assert_int_equal(tp__openai_rate_take(&rate, 1, 600 * S), 600 * S);
  assert_int_equal(tp__openai_rate_take(&rate, 1, 600 * S), 600 * S);
  assert_near(tp__openai_rate_take(&rate, 1, 600 * S), 605 * S); /* no more was saved up */
}

TEST(an_amount_above_the_capacity_waits_for_a_full_bucket) {
  tp__openai_rate rate;
  tp__openai_rate_init(&rate, 600, 0); /* 10 in a second, 100 at once */
  assert_int_equal(tp__openai_rate_take(&rate, 300, 0), 0);
  assert_near(tp__openai_rate_take(&rate, 10, 0), 21 * S);
  tp__openai_rate_init(&rate, 600, 0);
  assert_int_equal(tp__openai_rate_take(&rate, 100, 0), 0);
  tp__openai_rate_give(&rate, -50); /* more was used */
  assert_near(tp__openai_rate_take(&rate, 10, 0), 6 * S);
}

TEST(without_a_limit_nothing_waits) {
  tp__openai_rate rate;
  tp__openai_rate_init(&rate, 0, 0);
  for (int i = 0; i < 100; i++) assert_int_equal(tp__openai_rate_take(&rate, 1e9, 7), 7);
}

TEST(a_request_over_the_limit_waits_and_can_be_cancelled) {
  provider *p = provider_open(&good, 1, OPTIONS(.requests_per_minute = 1), false);
  tp_openai_stats stats = {.struct_size = sizeof stats};
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  provider_submit(p, NULL);
  while (stats.requests_started < 2) { /* the request is with the I/O thread */
    assert_int_equal(tp_openai_stats_get(&stats), TP_OK);
    sleep_ms(1);
  }
  assert_int_equal(tp_submission_wait(p->submission, 0, NULL, NULL), TP_ERR_TIMEOUT);
  tp_submission_cancel(p->submission);
  assert_int_equal(provider_wait(p)->outcome, TP_TURN_CANCELLED);
  tp_turn_request hurried = {.limit_ms = 30000};
  const tp_turn_result *result = provider_turn(p, &hurried);
  const char *in = strstr(result->reason.data, "would be sent in ");
  assert_non_null(in);
  assert_true(atoi(in + strlen("would be sent in ")) <= 60000); /* nothing waits for a cancelled request */
  assert_int_equal(endpoint_count(p->endpoint, &p->endpoint->request_count), 1);
  provider_close(p);
}

TEST(one_that_would_come_too_late_fails_at_once) {
  provider *p = provider_open(&good, 1, OPTIONS(.requests_per_minute = 1), false);
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  int64_t began_ns = now_ns();
  assert_failed(provider_turn(p, &(tp_turn_request){.limit_ms = 30000}), TP_ERR_MODEL_UNAVAILABLE,
                "ms, after the turn's deadline");
  assert_true(now_ns() - began_ns < 20 * S);
  provider_close(p);
  p = provider_open(&good, 1, OPTIONS(.requests_per_minute = 1, .retry_after_ms_max = 100), false);
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  assert_failed(provider_turn(p, NULL), TP_ERR_MODEL_UNAVAILABLE,
                "behind retry_after_ms_max: raise requests_per_minute");
  assert_int_equal(endpoint_count(p->endpoint, &p->endpoint->request_count), 1);
  provider_close(p);
}

/* What the endpoint counts takes the place of the estimate. */
TEST(tokens_are_what_the_endpoint_says) {
  static const endpoint_reply large = {
      .body = DELTA("{\"content\":\"x\"}") FINISH(
          "stop") "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9000,\"completion_tokens\":3000}}\n\n" DONE};
  provider *p = provider_open(&large, 1, OPTIONS(.tokens_per_minute = 6000), false);
  assert_completed(provider_turn(p, NULL), "x");
  assert_failed(provider_turn(p, &(tp_turn_request){.limit_ms = 30000}), TP_ERR_MODEL_UNAVAILABLE,
                "attempt 1 would be sent in 1");
  provider_close(p);
  p = provider_open(&good, 1, OPTIONS(.tokens_per_minute = 600), false); /* 100 at once; a request has about 20 */
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  provider_close(p);
}

TEST(attempts_count) {
  static const endpoint_reply down = {.status = 503, .body = "{}"};
  provider *p = provider_open(&down, 1, OPTIONS(.requests_per_minute = 1, .retry_wait_ms = 1), false);
  assert_failed(provider_turn(p, &(tp_turn_request){.limit_ms = 30000}), TP_ERR_MODEL_UNAVAILABLE,
                "attempt 2 would be");
  assert_int_equal(endpoint_count(p->endpoint, &p->endpoint->request_count), 1);
  provider_close(p);
}
