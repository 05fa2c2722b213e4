/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a model: refusals, and the places of a key, which may be only in its header. */
#include <sys/stat.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/json_value.h"
#include "tests/support/provider.h"

#define OPTIONS(...) (&(const tp_openai_options){.struct_size = sizeof(tp_openai_options), __VA_ARGS__})
#define KEY "sk-planted-0123456789abcdef"
#define URL .base_url = "http://127.0.0.1:1"

static void assert_refused(const tp_openai_options *options, tp_status code, const char *says) {
  tp_fault fault = {0};
  tp_model *model = NULL;
  tp_status status = tp_openai_model_new(options, &model, &fault);
  assert_string_equal(tp_status_name(status), tp_status_name(code));
  assert_int_equal(fault.code, code);
  assert_null(model);
  if (!strstr(fault.message, says)) fail_msg("\"%s\" is not in \"%s\"", says, fault.message);
  assert_null(strstr(fault.message, KEY));
  assert_null(strstr(fault.subject, KEY));
}

static void write_key(const char *key, size_t size, mode_t mode) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(key, 1, size, file), size);
  fclose(file);
  assert_int_equal(chmod(path, mode), 0);
}

FOR_EACH_TEST(make_directory, remove_directory);

TEST(options_that_are_wrong_are_refused) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_refused(NULL, TP_ERR_USAGE, "a pointer to tp_openai_options is NULL");
  tp_openai_options none = {0};
  assert_refused(&none, TP_ERR_VERSION, "set it to sizeof(tp_openai_options)");
  struct {
    tp_openai_options options;
    size_t newer;
  } grown = {.options = {.struct_size = sizeof grown}, .newer = 1};
  assert_refused(&grown.options, TP_ERR_VERSION, "leave the newer field zero");
  assert_refused(OPTIONS(URL, .api = (tp_openai_api)3), TP_ERR_USAGE, "api");
  assert_refused(OPTIONS(URL, .reserved_ = {1}), TP_ERR_USAGE, "reserved_");
  assert_refused(OPTIONS(URL, .traceparent_ctx = &grown), TP_ERR_USAGE, "traceparent_ctx: it is set");
  assert_refused(OPTIONS(URL, .quirks = 8), TP_ERR_USAGE, "quirks: it has a bit that is no TP_OPENAI_QUIRK_*");
  assert_refused(OPTIONS(URL, .model = ""), TP_ERR_USAGE, "model");
  static const char *const urls[] = {"ftp://h", "h", "http://", "http://u:p@h/v1", "http://h/v1#x", "http://h/a b"};
  for (size_t i = 0; i < COUNT(urls); i++)
    assert_refused(OPTIONS(.base_url = urls[i]), TP_ERR_USAGE, "tp_openai_options.base_url: it ");
  static const char *const headers[] = {"[]",       "{'a b': 'x'}", "{'a': 1}", "{'a': 'x\\ny'}", "{'Host': 'x'}",
                                        "{'': 'x'}"};
  for (size_t i = 0; i < COUNT(headers); i++)
    assert_refused(OPTIONS(URL, .headers = json_value(writer, headers[i])), TP_ERR_USAGE,
                   "tp_openai_options.headers: ");
  assert_refused(OPTIONS(URL, .headers = TEXT("\xc1")), TP_ERR_MALFORMED, "tp_openai_options.headers: ");
  assert_refused(OPTIONS(URL, .body = json_value(writer, "[]")), TP_ERR_USAGE, "body: it must be a map");
  assert_refused(OPTIONS(URL, .body = json_value(writer, "{'tools': 1}")), TP_ERR_USAGE, "body: model, messages, ");
  assert_refused(OPTIONS(URL, .key_header = "a:"), TP_ERR_USAGE, "key_header");
  assert_refused(OPTIONS(URL, .price_count = 1), TP_ERR_USAGE, "prices");
  const tp_openai_price negative = {.struct_size = sizeof negative, .input_micros = -1}, *const prices[] = {&negative};
  assert_refused(OPTIONS(URL, .prices = prices, .price_count = 1), TP_ERR_USAGE, "a price must not be negative");
  assert_refused(OPTIONS(URL, .ca_file = "/no/such"), TP_ERR_IO, "tp_openai_options.ca_file: /no/such: No such file");
  assert_refused(OPTIONS(URL, .files_directory = "/no/such"), TP_ERR_IO, "files_directory: /no/such: No such file");
  assert_refused(OPTIONS(URL, .response_bytes_max = 65 << 20), TP_ERR_USAGE, "at most 67,108,864");
  assert_refused(OPTIONS(URL, .key_env = "A", .key_file = "b"), TP_ERR_USAGE, "set one of them");
  assert_int_equal(tp_openai_model_new(OPTIONS(URL), NULL, NULL), TP_ERR_USAGE);
  tp_writer_free(writer);
}

TEST(a_key_is_read_from_the_environment_or_a_private_file) {
  unsetenv("OPENAI_API_KEY");
  unsetenv("ANTHROPIC_API_KEY");
  unsetenv("TEST_KEY");
  assert_refused(OPTIONS(.model = "m"), TP_ERR_NOT_FOUND, "OPENAI_API_KEY is not set in the environment");
  assert_refused(OPTIONS(.api = TP_OPENAI_MESSAGES), TP_ERR_NOT_FOUND, "ANTHROPIC_API_KEY is not set");
  assert_refused(OPTIONS(URL, .key_env = "TEST_KEY"), TP_ERR_NOT_FOUND, "TEST_KEY is not set");
  setenv("TEST_KEY", KEY "\n", 1);
  assert_refused(OPTIONS(URL, .key_env = "TEST_KEY"), TP_ERR_USAGE, "has white space");
  setenv("TEST_KEY", "", 1);
  assert_refused(OPTIONS(URL, .key_env = "TEST_KEY"), TP_ERR_USAGE, "is empty");
  assert_refused(OPTIONS(URL, .key_file = path), TP_ERR_IO, "No such file");
  assert_refused(OPTIONS(URL, .key_file = directory), TP_ERR_USAGE, "is not a regular file");
  write_key(KEY, strlen(KEY), 0644);
  assert_refused(OPTIONS(URL, .key_file = path), TP_ERR_USAGE,
                 "has mode 0644, so others than its owner may use the key");
  write_key(KEY, strlen(KEY), 0620);
  assert_refused(OPTIONS(URL, .key_file = path), TP_ERR_USAGE, "chmod 600 it");
  write_key(KEY "\0x", strlen(KEY) + 2, 0600);
  assert_refused(OPTIONS(URL, .key_file = path), TP_ERR_USAGE, "is empty, or has white space");
  char *large = calloc(1, 9000);
  memset(large, 'k', 9000);
  write_key(large, 9000, 0600);
  assert_refused(OPTIONS(URL, .key_file = path), TP_ERR_TOO_LARGE, "has more than 8192 bytes");
  free(large);
}

TEST(a_key_goes_into_its_header) {
  static const endpoint_reply good = {.body = CHAT_HELLO}, messages = {.body = MESSAGES_HELLO};
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  write_key(KEY " \n", strlen(KEY) + 2, 0600);
  setenv("TEST_KEY", KEY, 1);
  provider *p = provider_open(
      &good, 1, OPTIONS(.key_file = path, .headers = json_value(writer, "{'X-Title': 'a b', 'X-Empty': ''}")), false);
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  const char *request = endpoint_request(p->endpoint, 0);
  assert_non_null(strstr(request, "\r\nAuthorization: Bearer " KEY "\r\n"));
  assert_non_null(strstr(request, "\r\nX-Title: a b\r\n"));
  assert_non_null(strstr(request, "\r\nX-Empty:\r\n"));
  provider_close(p);
  p = provider_open(&messages, 1, OPTIONS(.key_env = "TEST_KEY", .api = TP_OPENAI_MESSAGES), false);
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  request = endpoint_request(p->endpoint, 0);
  assert_non_null(strstr(request, "\r\nx-api-key: " KEY "\r\n"));
  assert_non_null(strstr(request, "\r\nanthropic-version: 2023-06-01\r\n"));
  provider_close(p);
  p = provider_open(&good, 1, OPTIONS(.key_env = "TEST_KEY", .key_header = "api-key"), false);
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  assert_non_null(strstr(endpoint_request(p->endpoint, 0), "\r\napi-key: " KEY "\r\n"));
  assert_null(strstr(endpoint_request(p->endpoint, 0), "Bearer"));
  provider_close(p);
  tp_writer_free(writer);
}

TEST_WITH(an_http_proxy_is_used_when_it_is_named, NULL, NULL) {
  static const endpoint_reply good = {.body = CHAT_HELLO};
  endpoint *proxy = endpoint_open(&good, 1);
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%d", proxy->port);
  provider *p = provider_open(&good, 1, OPTIONS(.proxy = url, .base_url = "http://example.invalid/v1"), false);
  assert_completed(provider_turn(p, NULL), "Hello, w\xc3\xb6rld");
  assert_memory_equal(endpoint_request(proxy, 0), "POST http://example.invalid/v1/chat/completions ", 47);
  provider_close(p);
  endpoint_close(proxy);
}

/* ---- a planted key ---- */

static void must_not_hold(provider *p, const char *what, const char *text) {
  if (strstr(text, KEY)) fail_msg("the key is in %s: %s", what, text);
  provider_receive(p, text);
}

static bool look_at_turn(void *ctx, const tp_turn_record *record) {
  char text[2048];
  snprintf(text, sizeof text, "%.*s", (int)record->reason.size, record->reason.data ? record->reason.data : "");
  must_not_hold(ctx, "a turn record", text);
  return true;
}

static bool look_at_audit(void *ctx, const tp_audit *audit) {
  must_not_hold(ctx, "the audit", audit->detail ? audit->detail : "");
  return true;
}

/* Every way in which an endpoint can repeat the key, except in the model's own text. */
TEST_WITH(a_planted_key_is_found_nowhere, NULL, NULL) {
  static const endpoint_reply replies[] = {
      {.status = 401,
       .type = "application/json",
       .body = "{\"error\":{\"message\":\"Incorrect API key provided: " KEY ".\",\"code\":\"" KEY "\",\"type\":\"" KEY
               "\"}}"},
      {.status = 401, .body = "You sent " KEY " to us: Bearer " KEY, .type = "text/plain"},
      {.status = 400, .headers = "X-Request-Id: " KEY "\r\n", .body = "{}"},
      {.status = 302, .headers = "Location: http://h/?key=" KEY "\r\n"},
      {.body = "data: " KEY "\n\n"},
      {.body = "data: {\"error\":{\"message\":\"" KEY "\"}}\n\n"},
      {.body = "{\"a\": " KEY "}", .type = "application/json"},
      {.body = CHAT_HELLO, .type = KEY},
      {.body = CHAT_HELLO},
      {.body = KEY, .headers = "Content-Encoding: gzip\r\n"},
      {.body = CHAT_HELLO, .stops_at = 30, .then = ENDPOINT_RESETS},
  };
  setenv("TEST_KEY", KEY, 1);
  provider *p = provider_open(replies, COUNT(replies), OPTIONS(.key_env = "TEST_KEY", .retry_wait_ms = 1), false);
  for (size_t i = 0; i < COUNT(replies); i++) {
    char reason[1024];
    const tp_turn_result *result = provider_turn(p, NULL);
    snprintf(reason, sizeof reason, "%.*s", (int)result->reason.size, result->reason.data ? result->reason.data : "");
    must_not_hold(p, "a result", reason);
    if (i < 4) assert_int_equal(result->outcome, TP_TURN_FAILED);
  }
  assert_non_null(strstr(p->received, "Incorrect API key provided: [key]. ([key])"));
  assert_int_equal(tp_runtime_turns(p->runtime, NULL, look_at_turn, p, NULL), TP_OK);
  (void)tp_runtime_audit(p->runtime, 0, look_at_audit, p);
  assert_true(p->received_size > 1000);
  assert_null(strstr(p->received, KEY));
  assert_non_null(strstr(endpoint_request(p->endpoint, 0), KEY)); /* the key was sent */
  provider_close(p);
}

/* The same for other secrets in the options: the endpoint repeats each of them, and libcurl quotes some. */
TEST_WITH(planted_headers_queries_and_passwords_are_found_nowhere, NULL, NULL) {
  static const char *const secrets[] = {
      "hd-planted-1111",  "tok-planted-2222", "sig%2Fplanted=3333",
      "sig/planted=3333", "pw-planted-4444",  "us-planted-5",
  };
  static const char *const shapes[] = {
      "{\"error\":{\"message\":\"wrong: %s.\",\"code\":\"%s\",\"type\":\"%s\"}}",
      "You sent %s to us: %s, not %s",
      "<html><body>what is %s, %s, %s</body></html>",
      "{\"detail\":[{\"loc\":[\"%s\"],\"msg\":\"%s\"}],\"x\":\"%s\"}",
      "data: %s %s %s\n\n",
      "data: {\"error\":{\"message\":\"%s %s %s\"}}\n\n",
      "",
      "",
  };
  enum { REPLIES = COUNT(secrets) * COUNT(shapes) };
  static char bodies[REPLIES][512], headers[REPLIES][256];
  static endpoint_reply replies[REPLIES];
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < REPLIES; i++) {
    size_t shape = i / COUNT(secrets);
    const char *secret = secrets[i % COUNT(secrets)];
    snprintf(bodies[i], sizeof bodies[i], shapes[shape], secret, secret, secret);
    snprintf(headers[i], sizeof headers[i], "Location: http://me:%s@h/%s?x=%s\r\n", secret, secret, secret);
    replies[i] = (endpoint_reply){.status = shape < 2    ? 400
                                            : shape == 6 ? 302
                                            : shape == 7 ? 500
                                                         : 0,
                                  .headers = shape == 6 ? headers[i] : NULL,
                                  .body = bodies[i],
                                  .type = shape == 0 || shape == 3 ? "application/json" : "text/plain"};
  }
  endpoint *proxy = endpoint_open(replies, REPLIES);
  char proxy_url[128];
  snprintf(proxy_url, sizeof proxy_url, "http://us-planted-5:pw-planted-4444@127.0.0.1:%d", proxy->port);
  provider *p = provider_open(
      replies, 1,
      OPTIONS(.proxy = proxy_url, .base_url = "http://example.invalid/v1?api-version=2024&sig=sig%2Fplanted=3333",
              .headers = json_value(writer, "{'X-Team': 'hd-planted-1111', 'X-Auth': 'Token tok-planted-2222'}"),
              .retry_wait_ms = 1),
      false);
  for (size_t i = 0; i < REPLIES; i++) {
    char reason[1024];
    const tp_turn_result *result = provider_turn(p, NULL);
    snprintf(reason, sizeof reason, "%.*s", (int)result->reason.size, result->reason.data ? result->reason.data : "");
    provider_receive(p, reason);
    for (size_t n = 0; n < COUNT(secrets) - 1; n++) /* a user is no secret outside of a URL */
      if (strstr(p->received, secrets[n])) fail_msg("%s, answer %zu: %s", secrets[n], i, reason);
  }
  assert_int_equal(tp_runtime_turns(p->runtime, NULL, look_at_turn, p, NULL), TP_OK);
  (void)tp_runtime_audit(p->runtime, 0, look_at_audit, p);
  for (size_t n = 0; n < COUNT(secrets) - 1; n++) assert_null(strstr(p->received, secrets[n]));
  assert_non_null(strstr(p->received, "wrong: [key]. ([key])"));
  assert_non_null(strstr(p->received, "it leads to http://[key]@h/[key], and"));
  assert_non_null(strstr(endpoint_request(proxy, 0), "hd-planted-1111")); /* the key was sent */
  assert_non_null(strstr(endpoint_request(proxy, 0), "sig=sig%2Fplanted=3333"));
  provider_close(p);
  endpoint_close(proxy);
  tp_writer_free(writer);
}

/* libcurl quotes a proxy that it cannot read, with its password. */
TEST_WITH(passwords_of_proxies_are_in_no_failure, NULL, NULL) {
  static const char *const proxies[] = {
      "http://me:pw-planted-4444@127.0.0.1:1",     "http://me:pw-planted-4444@127.0.0.1:99999",
      "http://me:pw-planted/4444@127.0.0.1:1",     "http://me:pw-planted-4444@h.invalid:1",
      "nonsense://me:pw-planted-4444@127.0.0.1:1", "http://me:pw-planted#4444@127.0.0.1:1",
      "socks5://me:pw-planted-4444@127.0.0.1:1",   "http://pw-planted-4444@127.0.0.1:x",
      "http://me:pw-planted?4444@127.0.0.1:1",     "me:pw-planted-4444@127.0.0.1:99999",
      "http://me:pw-planted%zz4444@127.0.0.1:1",   "http://me:pw-planted-4444@[::1:1",
  };
  for (int env = 0; env < 2; env++)
    for (size_t i = 0; i < COUNT(proxies); i++) {
      if (env) setenv("http_proxy", proxies[i], 1);
      tp_model *model;
      tp_openai_options options = {.struct_size = sizeof options,
                                   .model = "m",
                                   .base_url = "http://example.invalid/v1",
                                   .proxy = env ? NULL : proxies[i],
                                   .retry_wait_ms = 1};
      assert_int_equal(tp_openai_model_new(&options, &model, NULL), TP_OK);
      tp_session *session;
      tp_runtime *runtime = open_runtime(NULL);
      tp_session_options session_options = {.struct_size = sizeof session_options, .id = "s", .model = model};
      assert_int_equal(tp_session_open(runtime, &session_options, &session, NULL), TP_OK);
      tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("Hi"), .model_attempts = 1};
      const tp_turn_result *result;
      assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
      char reason[1024];
      snprintf(reason, sizeof reason, "%.*s", (int)result->reason.size, result->reason.data);
      assert_int_equal(result->outcome, TP_TURN_FAILED);
      if (strstr(reason, "pw-planted") || strstr(reason, "4444")) fail_msg("%s: %s", proxies[i], reason);
      tp_turn_result_free(result);
      tp_session_close(session, NULL, NULL);
      close_runtime(runtime);
    }
  unsetenv("http_proxy");
}
