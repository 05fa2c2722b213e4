/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase run with a model at the test endpoint: how it is named, what is printed while it answers, and where the key
 * must not be. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/support/endpoint.h"
#include "tests/support/streams.h"
#include "tests/support/terminal.h"

#define KEY "sk-planted-0123456789abcdef"
#define TALK "{\"session\": \"s\", \"turn\": \"t\", \"user\": \"Hi\"}\n"

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(a_model_behind_a_url_is_named_in_one_word) {
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

/* What a server needs in addition to the plain request, on the command line and in the agents of a conversation. */
TEST(requests_are_shaped_by_options_and_agents) {
  static const struct {
    const char *model, *options[6], *has, *has_not;
  } rows[] = {
      {"openai:m", {"--temperature", "0.2", "--max-tokens", "99"}, "\"temperature\":0.2,\"max_tokens\":99", "?"},
      {"openai:m", {"--reasoning", "low"}, "\"reasoning_effort\":\"low\"", "?"},
      {"openai-responses:m", {"--reasoning", "high"}, "\"reasoning\":{\"effort\":\"high\"}", "?"},
      {"openai-responses:m", {"--max-tokens", "7"}, "\"max_output_tokens\":7", "\"max_tokens\""},
      {"anthropic:m", {"--reasoning", "low"}, "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}", "?"},
      {"anthropic:m", {"--reasoning", "2000"}, "\"budget_tokens\":2000", "?"},
      {"anthropic:m", {"--max-tokens", "7"}, "\"max_tokens\":7", "4096"},
      {"openai:m", {"--set", "stream_options=null"}, "\"stream\":true", "stream_options"},
      {"openai:m", {"--set", "user=me", "--set", "a={\"b\":[1]}"}, "\"user\":\"me\",\"a\":{\"b\":[1]}", "?"},
      {"openai:m", {"--set", "x=a=b"}, "\"x\":\"a=b\"", "?"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const endpoint_reply reply = {.body = strstr(rows[i].model, "responses")   ? RESPONSES_HELLO
                                          : strstr(rows[i].model, "anthropic") ? MESSAGES_HELLO
                                                                               : CHAT_HELLO};
    endpoint *e = endpoint_open(&reply, 1);
    command c = {.arguments = {"run", "--model", rows[i].model, "--base-url", e->url, "--no-memory", rows[i].options[0],
                               rows[i].options[1], rows[i].options[2], rows[i].options[3]},
                 .input = TALK};
    assert_status(&c, 0);
    const char *body = endpoint_body(e, 0);
    if (!strstr(body, rows[i].has)) fail_msg("%zu: %s is not in %s", i, rows[i].has, body);
    if (strstr(body, rows[i].has_not)) fail_msg("%zu: %s is in %s", i, rows[i].has_not, body);
    command_free(&c);
    endpoint_close(e);
  }
}

TEST(a_query_and_a_header_are_sent_and_agents_shape_requests_too) {
  static const endpoint_reply reply = {.body = CHAT_HELLO};
  char url[128], talk[512];
  endpoint *e = endpoint_open(&reply, 1);
  snprintf(url, sizeof url, "%s/x/?api-version=2024-10-21", e->url);
  setenv("PART_OF_KEY", "sk-1", 1);
  command c = {.arguments = {"run", "--model", "openai:m", "--base-url", url, "--no-memory", "--header", "X-A: b c",
                             "--header", "X-B: a${PART_OF_KEY}b$$ ${", "--header", "X-C:${PART_OF_KEY}"},
               .input = TALK};
  assert_status(&c, 0);
  assert_non_null(strstr(endpoint_request(e, 0), "/x/chat/completions?api-version=2024-10-21 HTTP"));
  assert_non_null(strstr(endpoint_request(e, 0), "X-A: b c\r\n"));
  assert_non_null(strstr(endpoint_request(e, 0), "X-B: ask-1b$$ ${\r\n"));
  assert_non_null(strstr(endpoint_request(e, 0), "X-C: sk-1\r\n"));
  command_free(&c);
  endpoint_close(e);
  e = endpoint_open(&reply, 1);
  snprintf(talk, sizeof talk,
           "agents:\n  - id: a\n    model: openai:m\n    base_url: %s\n    body: {temperature: 0.5, stream_options: "
           "null}\n    headers: {X-A: \"d ${PART_OF_KEY}\"}\nsessions:\n  - {id: s, agent: a, turns: [{user: hi}]}\n",
           e->url);
  command of_agent = {.arguments = {"run", "--no-memory", scratch_string("shaped.yaml", talk)}};
  assert_status(&of_agent, 0);
  assert_non_null(strstr(endpoint_request(e, 0), "X-A: d sk-1\r\n"));
  assert_non_null(strstr(endpoint_body(e, 0), "\"temperature\":0.5"));
  assert_null(strstr(endpoint_body(e, 0), "stream_options"));
  command_free(&of_agent);
  endpoint_close(e);
}

/* 19 tokens in, of which 8 are read from a cache, and 10 out: 57 + 150, 33 + 2.4 + 150, and 10.000019 millionths. */
TEST(prices_give_a_turn_its_cost_on_the_command_line_and_in_agents) {
  static const endpoint_reply reply = {.body = CHAT_HELLO};
  static const struct {
    const char *price, *cost;
  } rows[] = {
      {"3/15", "\"cost_micros\":207,"}, {"3/15/0.3", "\"cost_micros\":186,"}, {"0.000001/1", "\"cost_micros\":11,"}};
  char talk[512];
  for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) {
    const char *price = rows[i / 2].price;
    endpoint *e = endpoint_open(&reply, 1);
    command c = {.arguments = {"run", "--json", "--no-memory"}, .input = TALK};
    const char *const options[] = {"--model", "openai:m", "--base-url", e->url, "--price", price};
    snprintf(talk, sizeof talk,
             "agents:\n  - {id: a, model: \"openai:m\", base_url: \"%s\", price: %s}\n"
             "sessions:\n  - {id: s, agent: a, turns: [{user: hi}]}\n",
             e->url, price);
    if (i % 2) c.arguments[3] = scratch_string("priced.yaml", talk);
    else memcpy(&c.arguments[3], options, sizeof options);
    assert_status(&c, 0);
    const char *result = strstr(c.out.data, "\"event\":\"result\"");
    if (!result || !strstr(result, rows[i / 2].cost)) fail_msg("%s: %s", price, result);
    command_free(&c);
    endpoint_close(e);
  }
  static const char *const wrong[] = {"3", "3/", "/3", "a/b", "3/15/1/2", "-1/2", "3,15"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    command c = {.arguments = {"run", "--no-memory", "--model", "openai:m", "--base-url", "http://localhost:1",
                               "--price", wrong[i]},
                 .input = TALK};
    assert_status(&c, 2);
    assert_holds(&c.err, "--price takes IN/OUT");
    command_free(&c);
  }
  command script = {
      .arguments = {"run", "--script", scratch_string("m.yaml", "responses: [{text: a}]\n"), "--price", "3/15"},
      .input = TALK};
  assert_status(&script, 2);
  assert_holds(&script.err, "--price belongs to models behind an endpoint");
  command_free(&script);
}

TEST(time_of_a_turn_is_a_limit_with_a_word_and_a_status) {
  static const endpoint_reply reply = {.waits_before = true};
  endpoint *e = endpoint_open(&reply, 1);
  command c = {.arguments = {"run", "--no-memory", "--model", "openai:m", "--base-url", e->url, "--max-time", "1"},
               .input = TALK};
  assert_status(&c, 3);
  assert_holds(&c.out, "timed_out (max_time): ");
  assert_holds(&c.out, "1 turn: 1 timed_out");
  command_free(&c);
  endpoint_close(e);
}

static const endpoint_reply down = {.status = 429, .headers = "Retry-After: 3600\r\n", .body = "{}"};
#define SAYS(text) DELTA("{\"content\":\"" text "\"}")

/* Options that say how an answer is read, on the command line and in agents. */
TEST(quirks_of_a_server_are_named_by_option_and_in_agents) {
  static const struct {
    const char *option, *key, *body, *text, *thinking;
  } rows[] = {
      {"--think-tags", "think_tags", SAYS("<think>hm</thi") SAYS("nk>Yes.") FINISH("stop") DONE, "Yes.", "hm"},
      {"--think-first", "think_first", SAYS("hm</thi") SAYS("nk>Yes.") FINISH("stop") DONE, "Yes.", "hm"},
      {"--cumulative-deltas", "cumulative_deltas", SAYS("Ye") SAYS("Yes.") FINISH("stop") DONE, "Yes.", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const endpoint_reply reply = {.body = rows[i].body};
    for (int form = 0; form < 3; form++) { /* as an option, for an agent, and for its fallback */
      endpoint *e = endpoint_open(form == 2 ? &down : &reply, 1), *other = endpoint_open(&reply, 1);
      char talk[700], fallback[200];
      snprintf(fallback, sizeof fallback, "\n    fallbacks: [{model: openai:m, base_url: %s, %s: true}]", other->url,
               rows[i].key);
      snprintf(talk, sizeof talk,
               "agents:\n  - id: a\n    model: openai:m\n    base_url: %s\n    %s: %s%s\nsessions:\n"
               "  - {id: s, agent: a, turns: [{user: hi}]}\n",
               e->url, rows[i].key, form == 1 ? "true" : "false", form == 2 ? fallback : "");
      command c = {.arguments = {"run", "--no-memory", "--json"}, .input = TALK};
      const char *of_command[] = {"--model", "openai:m", "--base-url", e->url, rows[i].option};
      if (form == 0) memcpy(c.arguments + 3, of_command, sizeof of_command);
      else c.arguments[3] = scratch_string("quirk.yaml", talk);
      char wanted[200];
      assert_status(&c, 0);
      snprintf(wanted, sizeof wanted, "\"outcome\":\"completed\",\"code\":\"TP_OK\",\"text\":\"%s\"", rows[i].text);
      assert_holds(&c.out, wanted);
      snprintf(wanted, sizeof wanted, "\"text\":\"%s\"", rows[i].thinking ? rows[i].thinking : rows[i].text);
      assert_holds(&c.out, wanted);
      if (rows[i].thinking) assert_holds(&c.out, "\"event\":\"thinking\"");
      command_free(&c);
      endpoint_close(e);
      endpoint_close(other);
    }
  }
}

TEST(an_agent_has_the_parameters_that_options_have) {
  static const endpoint_reply reply = {.body = CHAT_HELLO};
  char talk[700];
  endpoint *e = endpoint_open(&reply, 1);
  snprintf(talk, sizeof talk,
           "agents:\n  - id: a\n    model: openai:m\n    base_url: %s\n    system: Be brief.\n    temperature: 0.5\n"
           "    max_tokens: 9\n    reasoning: low\nsessions:\n  - {id: s, agent: a, turns: [{user: hi}]}\n",
           e->url);
  command c = {.arguments = {"run", "--no-memory", scratch_string("shaped.yaml", talk)}};
  assert_status(&c, 0);
  assert_non_null(strstr(endpoint_body(e, 0), "\"temperature\":0.5,\"max_tokens\":9,\"reasoning_effort\":\"low\""));
  assert_non_null(strstr(endpoint_body(e, 0), "{\"role\":\"system\",\"content\":\"Be brief.\"}"));
  command_free(&c);
  endpoint_close(e);
}

TEST(a_system_text_is_an_option_of_run_and_chat) {
  static const endpoint_reply reply = {.body = CHAT_HELLO};
  for (int chat = 0; chat < 2; chat++) {
    endpoint *e = endpoint_open(&reply, 1);
    command c = {.arguments = {chat ? "chat" : "run", "--model", "openai:m", "--base-url", e->url, "--no-memory",
                               "--system", "Be brief."},
                 .input = chat ? "Hi\n" : TALK};
    assert_status(&c, 0);
    assert_non_null(strstr(endpoint_body(e, 0), "{\"role\":\"system\",\"content\":\"Be brief.\"}"));
    command_free(&c);
    endpoint_close(e);
  }
  static const char talk[] =
      "agents: [{id: a, model: 'script:x.yaml'}]\n"
      "sessions: [{id: s, agent: a, turns: [{user: hi}]}]\n";
  command none = {.arguments = {"run", "--no-memory", "--system", "Be brief.", scratch_string("of_agents.yaml", talk)}};
  assert_status(&none, 2);
  assert_holds(&none.err, "--system is for the models of the command line");
  command_free(&none);
}

#define PAUSED                                                                                          \
  EVENT("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}")      \
  EVENT("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"I look.\"}") \
  EVENT("content_block_start",                                                                          \
        ",\"index\":1,\"content_block\":{\"type\":\"server_tool_use\",\"id\":\"srv\",\"name\":"         \
        "\"web_search\",\"input\":{\"q\":1}}")                                                          \
  EVENT("message_delta", ",\"delta\":{\"stop_reason\":\"pause_turn\"}") EVENT("message_stop", "")

/* The answer is sent back unchanged as the last message. A server that never goes on is asked nine times. */
TEST(an_endpoint_that_pauses_is_asked_to_go_on) {
  static const endpoint_reply replies[] = {{.body = PAUSED}, {.body = MESSAGES_HELLO}};
  for (int always = 0; always < 2; always++) {
    endpoint *e = endpoint_open(replies, always ? 1 : 2);
    command c = {.arguments = {"run", "--model", "anthropic:m", "--base-url", e->url, "--no-memory"}, .input = TALK};
    assert_status(&c, always);
    assert_holds(&c.out, always ? "the model paused" : "answer   Hello, w\xc3\xb6rld\n");
    assert_int_equal(endpoint_count(e, &e->request_count), always ? 9 : 2);
    assert_non_null(strstr(endpoint_body(e, 1),
                           "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"I look.\"},{\"type\":"
                           "\"server_tool_use\",\"id\":\"srv\",\"name\":\"web_search\",\"input\":{\"q\":1}}]}]"));
    command_free(&c);
    endpoint_close(e);
  }
}

/* A server that repeats its text is named, with what to do. */
TEST(a_stream_that_repeats_its_text_is_named) {
  static const endpoint_reply reply = {.body = SAYS("H") SAYS("Hell") SAYS("Hello, w") SAYS("Hello, world, and more")
                                           FINISH("stop") DONE};
  endpoint *e = endpoint_open(&reply, 1);
  command c = {.arguments = {"run", "--model", "openai:m", "--base-url", e->url, "--no-memory", "--json"},
               .input = TALK};
  assert_status(&c, 0);
  assert_holds(&c.out, "answer.grows");
  assert_holds(&c.out, "--cumulative-deltas");
  command_free(&c);
  endpoint_close(e);
}

TEST(options_that_shape_no_request_are_refused) {
  static const struct {
    const char *options[4], *says;
    int status;
  } rows[] = {{{"--script", "x.yaml", "--set", "a=1"}, "--set belongs to models behind an endpoint", 2},
              {{"--script", "x.yaml", "--temperature", "1"}, "--temperature belongs to models behind an endpoint", 2},
              {{"--script", "x.yaml", "--think-tags"}, "--think-tags belongs to models behind an endpoint", 2},
              {{"--script", "x.yaml", "--think-first"}, "--think-first belongs to models behind an endpoint", 2},
              {{"--script", "x.yaml", "--cumulative-deltas"}, "--cumulative-deltas belongs to models", 2},
              {{"--model", "openai:m", "--set", "a"}, "--set takes KEY=VALUE, not 'a'", 2},
              {{"--model", "openai:m", "--set", "=a"}, "--set takes KEY=VALUE, not '=a'", 2},
              {{"--model", "openai:m", "--header", "a"}, "--header takes NAME:VALUE", 2},
              {{"--model", "openai:m", "--header", "a: ${NO_SUCH_VARIABLE}"}, "variable NO_SUCH_VARIABLE, which is", 2},
              {{"--model", "openai:m", "--set", "model=x"}, "are the request's", 78}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {.arguments = {"run", "--no-memory", rows[i].options[0], rows[i].options[1], rows[i].options[2],
                               rows[i].options[3], "--base-url", "http://127.0.0.1:1"},
                 .input = TALK};
    if (strcmp(rows[i].options[0], "--script") == 0) c.arguments[rows[i].options[3] ? 6 : 5] = NULL;
    assert_status(&c, rows[i].status);
    assert_holds(&c.err, rows[i].says);
    command_free(&c);
  }
}

TEST(text_is_printed_while_it_comes_and_ctrl_c_ends_it) {
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

/* On a terminal, lines are folded. That must not hold back the last line. */
TEST(text_is_printed_while_it_comes_on_a_terminal) {
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

TEST(a_failure_says_what_to_do_and_not_the_key) {
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
    assert_holds(&c.out, "Incorrect key: [key] (invalid_api_key); the key was refused: check ");
    assert_holds(&c.out, i == 0 ? "check key_env or key_file" : "check --key-env; without it no key is sent");
    assert_false(holds(&c.out, KEY));
    assert_false(holds(&c.err, KEY));
    command_free(&c);
    endpoint_close(e);
  }
}

TEST(memory_gets_vectors_of_an_embedder) {
  static const char vector[] = "{\"data\":[{\"embedding\":[1,0]}]}";
  const endpoint_reply reply = {.body = vector, .type = "application/json"};
  endpoint *e = endpoint_open(&reply, 1);
  const char *script = scratch_string("yes.yaml", "responses:\n  - text: Yes.\n");
  command c = {.arguments = {"run", "--script", script, "--embedder", "openai:e", "--dimensions", "2", "--base-url",
                             e->url, "--key-env", "TEST_KEY"},
               .input = TALK};
  setenv("TEST_KEY", KEY, 1);
  assert_status(&c, 0);
  assert_non_null(strstr(endpoint_request(e, 0), "POST /v1/embeddings "));
  assert_non_null(strstr(endpoint_request(e, 0), "Authorization: Bearer " KEY));
  assert_string_equal(endpoint_body(e, 0), "{\"model\":\"e\",\"input\":[\"Hi\"]}");
  assert_int_equal(endpoint_count(e, &e->request_count), 2); /* the requests that were searched and the requests that
                                                                were kept */
  command_free(&c);
  endpoint_close(e);
}

TEST(embedder_that_is_not_whole_is_refused) {
  static const struct {
    const char *words[4], *says;
  } rows[] = {{{"--embedder", "openai:e"}, "--embedder needs --dimensions N"},
              {{"--embedder", "anthropic:e", "--dimensions", "2"}, "--embedder is openai:NAME, not 'anthropic:e'"},
              {{"--dimensions", "2"}, "--dimensions is for --embedder"},
              {{"--embedder", "openai:e", "--think-tags", "--dimensions=2"}, "--think-tags is for models that answer"},
              {{"--dimensions", "5000"}, "from 1 to 4096"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    command c = {.arguments = {"run", "--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"}, .input = TALK};
    for (size_t k = 0; k < 4 && rows[i].words[k]; k++) c.arguments[5 + k] = rows[i].words[k];
    assert_status(&c, 2);
    assert_holds(&c.err, rows[i].says);
    command_free(&c);
  }
}

static const endpoint_reply claude = {.body = MESSAGES_HELLO};

/* Each --base-url and --key-env belongs to the --model before it. */
TEST(the_model_that_is_named_next_is_asked_when_one_is_down) {
  endpoint *first = endpoint_open(&down, 1), *second = endpoint_open(&claude, 1);
  setenv("TEST_KEY", KEY, 1);
  setenv("OTHER_KEY", "sk-other-0123456789", 1);
  command c = {.arguments = {"run", "--model", "openai:gpt-x", "--base-url", first->url, "--key-env", "TEST_KEY",
                             "--requests-per-minute", "60", "--model", "anthropic:claude-x", "--base-url", second->url,
                             "--key-env", "OTHER_KEY", "--json", "--no-memory"},
               .input = TALK};
  assert_status(&c, 0);
  assert_holds(&c.out, "\"event\":\"model_begin\"");
  assert_holds(&c.out, "\"outcome\":\"TP_ERR_MODEL_UNAVAILABLE\",\"model\":\"gpt-x\"");
  assert_holds(&c.out, "\"outcome\":\"TP_OK\",\"model\":\"claude-x\",\"text\":\"Hello");
  assert_holds(&c.out, "\"key\":\"model.fallback\"");
  assert_holds(&c.err, "warning: model claude-x is asked in place of gpt-x: HTTP 429 from 127.0.0.1:");
  assert_non_null(strstr(endpoint_request(first, 0), "Authorization: Bearer " KEY));
  assert_null(strstr(endpoint_request(second, 0), KEY));
  assert_non_null(strstr(endpoint_request(second, 0), "x-api-key: sk-other-0123456789"));
  assert_non_null(strstr(endpoint_body(second, 0), "\"model\":\"claude-x\""));
  command_free(&c);
  endpoint_close(first);
  endpoint_close(second);
}

/* A cut answer is not taken for a complete one: a note tells the person, and the exit status tells a script. */
TEST(an_answer_that_is_cut_is_said) {
  static const struct {
    const char *reason, *finish, *note;
  } rows[] = {
      {"length", "\"finish\":\"length\",\"finish_word\":\"length\"",
       "the answer is cut: it reached the limit of tokens"},
      {"content_filter", "\"finish\":\"filter\"", "the provider filtered the answer"},
      {"refusal", "\"finish\":\"refusal\"", "the model refused to answer"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char body[512];
    snprintf(body, sizeof body, DELTA("{\"content\":\"The first half\"}") FINISH("%s") DONE, rows[i].reason);
    const endpoint_reply half = {.body = body};
    for (int json = 0; json < 2; json++) {
      endpoint *e = endpoint_open(&half, 1);
      command c = {
          .arguments = {"run", "--model", "openai:gpt-x", "--base-url", e->url, "--no-memory", json ? "--json" : NULL},
          .input = TALK};
      assert_status(&c, 1);
      assert_holds(&c.out, "The first half");
      assert_holds(&c.out, json ? rows[i].finish : rows[i].note);
      command_free(&c);
      endpoint_close(e);
    }
  }
}

/* The same for a script (finish:), and for the stored result. */
TEST(a_script_says_how_an_answer_ended_and_show_repeats_it) {
  static const struct {
    const char *finish, *word, *says;
    int status;
  } rows[] = {{"length", "out of breath", "completed: the answer is cut", 1},
              {"filter", "blocked", "completed: the provider filtered the answer", 1},
              {"refusal", "declined", "completed: the model refused to answer", 1},
              {"pause", "waits", "completed: the model paused", 1},
              {"stop", "done", "completed", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[200], shown[200];
    const char *data = scratch_path(rows[i].finish);
    snprintf(text, sizeof text, "repeat: true\nresponses: [{text: Half, finish: %s, stop_reason: %s}]\n",
             rows[i].finish, rows[i].word);
    command run = {.arguments = {"run", "--script", scratch_string("finish.yaml", text), "--data", data, "--no-memory"},
                   .input = TALK};
    assert_status(&run, rows[i].status);
    assert_holds(&run.out, rows[i].says);
    command_free(&run);
    for (int json = 0; json < 2; json++) {
      command show = {.arguments = {"show", data, "t", json ? "--json" : NULL}};
      assert_status(&show, 0);
      snprintf(shown, sizeof shown,
               json ? "\"finish\":\"%s\",\"finish_word\":\"%s\"" : "  finish        %s\n  by its word   %s\n",
               rows[i].finish, rows[i].word);
      if (json || strcmp(rows[i].finish, "stop") != 0) assert_holds(&show.out, shown);
      command_free(&show);
    }
  }
}

TEST(agents_of_a_conversation_name_their_models) {
  char talk[2048];
  static const endpoint_reply gpt = {.body = CHAT_HELLO};
  endpoint *first = endpoint_open(&down, 1), *second = endpoint_open(&claude, 1), *own = endpoint_open(&gpt, 1);
  snprintf(talk, sizeof talk,
           "agents:\n"
           "  - id: writer\n    system: You write.\n    model: openai:gpt-x\n    base_url: %s\n    key_env: TEST_KEY\n"
           "    fallbacks:\n      - {model: 'anthropic:claude-x', base_url: '%s'}\n"
           "  - {id: plain, system: You read.}\n"
           "sessions:\n"
           "  - {id: a, agent: writer, turns: [{user: Hi}]}\n"
           "  - {id: b, agent: plain, turns: [{user: Hi}]}\n"
           "  - {id: c, turns: [{user: Hi}]}\n",
           first->url, second->url);
  setenv("TEST_KEY", KEY, 1);
  command c = {.arguments = {"run", "--model", "openai:own", "--base-url", own->url, "--no-memory",
                             scratch_string("agents.yaml", talk)}};
  assert_status(&c, 0);
  assert_holds(&c.out, "3 sessions, 3 turns: 3 completed");
  assert_non_null(strstr(endpoint_request(first, 0), KEY));
  assert_non_null(strstr(endpoint_body(first, 0), "You write."));
  assert_non_null(strstr(endpoint_body(second, 0), "You write."));
  assert_non_null(strstr(endpoint_body(own, 0), "You read."));
  assert_null(strstr(endpoint_body(own, 1), "You read."));
  command_free(&c);
  endpoint_close(first);
  endpoint_close(second);
  endpoint_close(own);
}

TEST(an_agent_that_is_none_is_refused) {
  static const struct {
    const char *agents, *agent;
    int status;
    const char *says;
  } rows[] = {
      {"{id: a, model: 'other:x'}", "a", 78, "agent 1: model \"other:x\" is openai:NAME, openai-responses:NAME"},
      {"{id: a, model: 'script:x', key_env: K}", "a", 78, "belongs to models behind an endpoint"},
      {"{id: a, model: 'openai:x', temperature: high}", "a", 78, "temperature must be a number"},
      {"{id: a, model: 'openai:x', think_tags: 1}", "a", 78, "think_tags must be true or false"},
      {"{id: a, model: 'openai:x', reasoning: [1]}", "a", 78, "reasoning must be a text or a number"},
      {"{id: a, think_tags: true}", "a", 78, "and their like belong to a model"},
      {"{id: a, base_url: 'http://h'}", "a", 78, "body, headers and their like belong to a model"},
      {"{id: a, fallbacks: [{model: 'script:x'}]}", "a", 78, "fallbacks stand in for a model"},
      {"{id: a, model: 'script:x', fallbacks: [{}]}", "a", 78, "a fallback needs the key model"},
      {"{id: a}, {id: a}", "a", 78, "agent 2: there is an agent of this id already"},
      {"{id: turnphase}", "turnphase", 78, "the command's own agent's"},
      {"{id: a, prompt: x}", "a", 78, "an agent has no key \"prompt\", only id"},
      {"{id: a, model: 'script:x'}", "b", 78, "there is no agent \"b\" under agents"},
      {"{id: a}", "a", 2, "run needs a model"},
      {"{id: a, model: 'script:/no/such'}", "a", 74, "/no/such"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char talk[512];
    snprintf(talk, sizeof talk, "agents: [%s]\nsessions: [{id: s, agent: %s, turns: [{user: Hi}]}]\n", rows[i].agents,
             rows[i].agent);
    command c = {.arguments = {"run", "--no-memory", scratch_string("agents.yaml", talk)}};
    assert_status(&c, rows[i].status);
    assert_holds(&c.err, rows[i].says);
    command_free(&c);
  }
}

TEST(deltas_are_events_of_their_own) {
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

TEST(a_model_that_is_none_is_refused) {
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
      {{"run", "--model", "openai:x", "--key-env", "A", "--key-env", "B"}, 2, "--key-env is given twice for one model"},
      {{"run", "--model", "openai:x", "--requests-per-minute", "0"}, 2, "takes a whole number from 1"},
      {{"run", "--model", "script:x", "--tokens-per-minute", "9"}, 2, "a script has no limits per minute"},
      {{"run", "--key-env", "K"}, 2, "run needs a model"},
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
