/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase run with a model behind the test endpoint: how it is named, what is printed while it answers, and where the
 * key is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/integration/support/command.h"
#include "tests/support/endpoint.h"
#include "tests/support/streams.h"
#include "tests/support/terminal.h"

#define KEY "sk-planted-0123456789abcdef"
#define TALK "{\"session\": \"s\", \"turn\": \"t\", \"user\": \"Hi\"}\n"

static void a_model_behind_a_url_is_named_in_one_word(void **state) {
  (void)state;
  static const struct {
    const char *model, *key_header;
    endpoint_reply reply;
  } rows[] = {{"openai:gpt-x", "Authorization: Bearer " KEY, {.body = CHAT_HELLO}},
              {"openai-responses:gpt-y", "Authorization: Bearer " KEY, {.body = RESPONSES_HELLO}},
              {"anthropic:claude-x", "x-api-key: " KEY, {.body = MESSAGES_HELLO}}};
  setenv("TEST_KEY", KEY, 1);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    endpoint *e = endpoint_open(&rows[i].reply, 1);
    command c = {
        .arguments = {"run", "--model", rows[i].model, "--base-url", e->url, "--key-env", "TEST_KEY", "--no-memory"},
        .input = TALK};
    assert_status(&c, 0);
    assert_holds(&c.out, "answer   Hello, w\xc3\xb6rld\n");
    assert_holds(&c.out, "shown 1 message");
    assert_holds(&c.out, "completed");
    const char *twice = strstr(c.out.data, "Hello");
    assert_null(strstr(twice + 1, "Hello"));
    assert_non_null(strstr(endpoint_request(e, 0), rows[i].key_header));
    assert_non_null(strstr(endpoint_body(e, 0), strchr(rows[i].model, ':') + 1));
    command_free(&c);
    endpoint_close(e);
  }
}

static void text_is_printed_while_it_comes_and_ctrl_c_ends_it(void **state) {
  (void)state;
  static const char words[] = DELTA("{\"content\":\"One two\\nthr\"}");
  static const char all[] = DELTA("{\"content\":\"One two\\nthr\"}") CHAT_HELLO;
  const endpoint_reply flowing = {.body = all, .stops_at = sizeof words - 1, .then = ENDPOINT_WAITS};
  endpoint *e = endpoint_open(&flowing, 1);
  command c = {.arguments = {"run", "--model", "openai:m", "--base-url", e->url, "--no-memory"},
               .input = TALK,
               .interrupt_at = "answer   One two\n"};
  assert_status(&c, 130);
  assert_holds(&c.out, "answer   One two\n                    thr\n");
  assert_holds(&c.out, "cancelled");
  endpoint_await(e, &e->left, 1);
  command_free(&c);
  endpoint_close(e);
}

/* There lines are folded, which must not hold back what stands on the last one. */
static void text_is_printed_while_it_comes_on_a_terminal(void **state) {
  (void)state;
  static const char words[] = DELTA("{\"content\":\"One two thr\"}");
  static const char all[] = DELTA("{\"content\":\"One two thr\"}") DELTA("{\"content\":\"ee\"}") FINISH("stop") DONE;
  const endpoint_reply flowing = {.body = all, .stops_at = sizeof words - 1, .then = ENDPOINT_WAITS};
  char name[64] = "/tmp/turnphase-talk-XXXXXX";
  int fd = mkstemp(name);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, TALK, strlen(TALK)), strlen(TALK));
  close(fd);
  setenv("TERM", "xterm", 1);
  unsetenv("COLUMNS");
  endpoint *e = endpoint_open(&flowing, 1);
  const char *arguments[] = {getenv("TURNPHASE"), "run", "--model", "openai:m", "--base-url", e->url,
                             "--no-memory",       name,  NULL};
  terminal *t = terminal_open(arguments, 60);
  terminal_await(t, "answer   One two ");
  endpoint_go(e);
  assert_int_equal(terminal_wait(t), 0);
  assert_non_null(strstr(terminal_text(t), "answer   One two three\n"));
  terminal_close(t);
  endpoint_close(e);
  unlink(name);
}

static void a_failure_says_what_to_do_and_not_the_key(void **state) {
  (void)state;
  static const endpoint_reply reply = {
      .status = 401,
      .type = "application/json",
      .body = "{\"error\":{\"message\":\"Incorrect key: " KEY "\",\"code\":\"invalid_api_key\"}}"};
  static const char *const forms[] = {"--json", "--verbose"};
  setenv("TEST_KEY", KEY, 1);
  for (int i = 0; i < 2; i++) {
    endpoint *e = endpoint_open(&reply, 1);
    command c = {.arguments = {"run", "--model", "openai:m", "--base-url", e->url, "--key-env", "TEST_KEY", forms[i]},
                 .input = TALK};
    assert_status(&c, 1);
    assert_holds(&c.out, "Incorrect key: [key] (invalid_api_key); the key was refused: check key_env or key_file");
    assert_false(holds(&c.out, KEY));
    assert_false(holds(&c.err, KEY));
    command_free(&c);
    endpoint_close(e);
  }
}

static void deltas_are_events_of_their_own(void **state) {
  (void)state;
  static const endpoint_reply reply = {.body = CHAT_HELLO};
  endpoint *e = endpoint_open(&reply, 1);
  command c = {.arguments = {"run", "--model", "openai:m", "--base-url", e->url, "--json", "--no-memory"},
               .input = TALK};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"event\":\"model_delta\"");
  assert_holds(&c.out, "\"input_tokens\":19");
  command_free(&c);
  endpoint_close(e);
}

static void a_model_that_is_none_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *arguments[8];
    int status;
    const char *says;
  } rows[] = {
      {{"run"}, 2, "run needs a model: --model openai:NAME"},
      {{"run", "--model", "gpt"}, 2, "not 'gpt'"},
      {{"run", "--model", "openai:"}, 2, "not 'openai:'"},
      {{"run", "--model", "other:x"}, 2, "not 'other:x'"},
      {{"run", "--model", "openai:x", "--script", "y"}, 2, "give one of them"},
      {{"run", "--model", "script:x", "--key-env", "K"}, 2, "--key-env belongs to models behind an endpoint"},
      {{"run", "--script", "x", "--base-url", "http://h"}, 2, "--base-url belongs to models behind an endpoint"},
      {{"run", "--model", "openai:x"}, 78, "OPENAI_API_KEY is not set in the environment"},
      {{"run", "--model", "openai:x", "--base-url", "h"}, 78, "must begin with https:// or http://"},
      {{"run", "--model", "script:/no/such/file"}, 74, "/no/such/file"},
  };
  unsetenv("OPENAI_API_KEY");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {.input = TALK};
    memcpy(c.arguments, rows[i].arguments, sizeof rows[i].arguments);
    assert_status(&c, rows[i].status);
    assert_holds(&c.err, rows[i].says);
    command_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_model_behind_a_url_is_named_in_one_word),
      cmocka_unit_test(text_is_printed_while_it_comes_and_ctrl_c_ends_it),
      cmocka_unit_test(text_is_printed_while_it_comes_on_a_terminal),
      cmocka_unit_test(a_failure_says_what_to_do_and_not_the_key),
      cmocka_unit_test(deltas_are_events_of_their_own),
      cmocka_unit_test(a_model_that_is_none_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
