/* SPDX-License-Identifier: Apache-2.0
 *
 * From the bytes of an answer to a response: the three forms, in pieces of any size, and errors in them. No network. */
#include <stdio.h>

#include "tests/support/test.h"
#include "tests/support/answers.h"
#include "tests/support/streams.h"
#include "tests/unit/value_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ThreadSanitizer has nothing to find here and is slow, so only some positions are tested with it. */
#if defined(__SANITIZE_THREAD__)
enum { STEP = 13 };
#else
enum { STEP = 1 };
#endif

/* ---- streams ---- */

TEST(a_stream_is_the_same_in_whatever_pieces_it_comes) {
  for (size_t i = 0; i < COUNT(recorded_streams); i++) {
    tp_text bytes = tp_text_of(recorded_streams[i].bytes);
    for (size_t split = 0; split <= bytes.size + 1; split += STEP) {
      tp__openai_stream stream = begin(recorded_streams[i].api, 1 << 20);
      char *seen = come_to(&stream, bytes, split);
      assert_string_equal(seen, recorded_streams[i].comes_to);
      assert_int_equal(deltas.size, strcspn(seen, "|"));
      free(seen);
    }
  }
}

TEST(line_ends_and_comments_may_be_of_any_kind) {
  static const char *const same[] = {
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
      "\xEF\xBB\xBF"
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n",
      "data:{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\r\rdata:[DONE]\r\r",
      ": OPENROUTER PROCESSING\n\nid: 1\nretry: 5\nevent: x\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"},\n"
      "data: \"finish_reason\":\"stop\"}]}\n\n:\ndatabase: no\n\ndata: [DONE]\n\n",
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\r\ndata: \"finish_reason\":\"stop\"}]}\r\n\r\n"
      "data: [DONE]\r\n\r\n",
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\n\xEF\xBB\xBF"
      "data: 1,\ndata: \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
      /* without [DONE] */
      "data:\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n",
  };
  for (size_t i = 0; i < COUNT(same); i++) {
    tp_text bytes = tp_text_of(same[i]);
    for (size_t split = 0; split <= bytes.size + 1; split += STEP) {
      tp__openai_stream stream = begin(TP_OPENAI_CHAT, 1 << 20);
      char *seen = come_to(&stream, bytes, split);
      assert_string_equal(seen, "a|end_turn|0,0");
      free(seen);
    }
  }
}

TEST(what_compatible_servers_do_otherwise_is_taken) {
  assert_comes_to(TP_OPENAI_CHAT, /* no index, and all at once */
                  DELTA("{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
                        "{\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":\"{\\\"n\\\":1}\"}}]}") FINISH("stop")
                      DONE,
                  "|end_turn|0,0|a f {}|b g {\"n\":1}");
  assert_comes_to(TP_OPENAI_CHAT, /* the same index for two */
                  CALL_FRAGMENT("0", "\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}")
                      CALL_FRAGMENT("0", "\"function\":{\"arguments\":\"}\"}")
                          CALL_FRAGMENT("0", "\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":\"\"}")
                              FINISH("tool_calls") DONE,
                  "|tool_use|0,0|a f {}|b g {}");
  assert_comes_to(TP_OPENAI_CHAT, /* arguments as an object, content as parts */
                  DELTA("{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"x\",\"text\":\"no\"}]}")
                      CALL_FRAGMENT("0", "\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":{\"n\":1}}") DONE,
                  "a|tool_use|0,0|a f {\"n\":1}");
  assert_comes_to(TP_OPENAI_CHAT, /* a second choice that was not asked for */
                  CHUNK("\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}}]") DELTA("{\"content\":\"a\"}")
                      FINISH("length") DONE,
                  "a|max_tokens|0,0");
  assert_comes_to(TP_OPENAI_CHAT, DELTA("{\"refusal\":\"I cannot.\"}") FINISH("content_filter") DONE,
                  "I cannot.|content_filter|0,0");
}

TEST(arguments_that_are_no_object_are_raw_and_marked) {
  assert_comes_to(TP_OPENAI_CHAT,
                  CALL_FRAGMENT("0", "\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"n\\\":\"}")
                      CALL_FRAGMENT("1", "\"id\":\"b\",\"function\":{\"name\":\"f\",\"arguments\":\"[1]\"}")
                          CALL_FRAGMENT("2", "\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\" \"}")
                              FINISH("length") DONE,
                  "|max_tokens|0,0|a f malformed {\"n\":|b f malformed [1]|c f {}");
}

TEST(why_a_response_is_incomplete_is_its_stop_reason) {
  assert_comes_to(TP_OPENAI_RESPONSES,
                  EVENT("response.output_text.delta", ",\"delta\":\"a\"")
                      EVENT("response.incomplete",
                            ",\"response\":{\"status\":\"incomplete\",\"incomplete_details\":"
                            "{\"reason\":\"max_output_tokens\"},\"output\":[],"
                            "\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}"),
                  "a|max_tokens|1,2");
  assert_comes_to(TP_OPENAI_RESPONSES, /* no deltas at all: the items stand at the end */
                  EVENT("response.completed",
                        ",\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\"reasoning\",\"summary\":[]},"
                        "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}]}"),
                  "|tool_use|0,0|c f {}");
}

/* ---- whole answers ---- */

TEST(answers_that_do_not_stream_are_read_as_a_whole) {
  assert_comes_to(
      TP_OPENAI_CHAT,
      "{\"id\":\"1\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
      "\"assistant\",\"content\":\"Hi\",\"refusal\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","
      "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"n\\\": 1}\"}}]},\"finish_reason\":\"tool_calls\"}],"
      "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}",
      "Hi|tool_use|3,4|a f {\"n\":1}");
  assert_comes_to(
      TP_OPENAI_RESPONSES,
      "{\"object\":\"response\",\"status\":\"completed\",\"error\":null,\"output\":[{\"type\":\"message\","
      "\"content\":[{\"type\":\"output_text\",\"text\":\"Hi\"}]},{\"type\":\"function_call\",\"call_id\":\"a\","
      "\"name\":\"f\",\"arguments\":\"{\\\"n\\\": 1}\"}],\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}",
      "Hi|tool_use|3,4|a f {\"n\":1}");
  assert_comes_to(TP_OPENAI_MESSAGES,
                  "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"},{\"type\":\"tool_use\","
                  "\"id\":\"a\",\"name\":\"f\",\"input\":{\"n\":1}}],\"stop_reason\":\"tool_use\","
                  "\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}",
                  "Hi|tool_use|3,4|a f {\"n\":1}");
  assert_int_equal(delta_count, 0);
}

/* ---- what is wrong ---- */

TEST(a_stream_that_is_cut_anywhere_fails_and_may_be_tried_again) {
  for (size_t i = 0; i < COUNT(recorded_streams); i++) {
    tp_text bytes = tp_text_of(recorded_streams[i].bytes);
    bool chat = recorded_streams[i].api == TP_OPENAI_CHAT;
    const char *end = chat ? strstr(bytes.data, "\"finish_reason\":\"") : bytes.data + bytes.size;
    size_t whole = chat ? (size_t)(strstr(end, "\n\n") - bytes.data) : bytes.size;
    if (recorded_streams[i].api == TP_OPENAI_MESSAGES) /* the reason of the end is enough */
      whole = (size_t)(strstr(strstr(bytes.data, "\"stop_reason\":\""), "\n\n") - bytes.data);
    if (recorded_streams[i].api == TP_OPENAI_RESPONSES) whole -= 2; /* the blank line may lack */
    for (size_t size = 0; size < whole; size += STEP) {
      tp__openai_stream stream = begin(recorded_streams[i].api, 1 << 20);
      char *seen = come_to(&stream, (tp_text){bytes.data, size}, 0);
      if (strncmp(seen, "TP_ERR_MODEL retryable: the stream ended in the middle", 50) != 0)
        fail_msg("stream %zu cut at %zu: %s", i, size, seen);
      free(seen);
    }
  }
}

TEST(what_is_no_json_names_its_place) {
  assert_comes_to(
      TP_OPENAI_CHAT, DELTA("{\"content\":\"a\"}") "data: {\"choices\": oops}\n\n",
      "TP_ERR_MODEL: event 2 of the endpoint, 1:13: not valid JSON: a value must stand here, not 'o'; it begins with "
      "'{\"choices\": oops}'; check base_url and api, and what stands between");
  assert_comes_to(
      TP_OPENAI_CHAT, "data: [1]\n\n",
      "TP_ERR_MODEL: what the endpoint sent has no answer in it; it begins with '[1]'; check base_url and api, and "
      "what stands between");
  assert_comes_to(TP_OPENAI_CHAT, "",
                  "TP_ERR_MODEL retryable: the stream ended in the middle, after 0 events; try again");
  assert_comes_to(TP_OPENAI_MESSAGES, "{\"ok\": true}",
                  "TP_ERR_MODEL: what the endpoint sent has no answer in it; it begins with '{\"ok\": true}'; check "
                  "base_url and api, and what stands between");
  assert_comes_to(TP_OPENAI_CHAT, DONE,
                  "TP_ERR_MODEL: what the endpoint sent has no answer in it; check base_url and api, and what stands "
                  "between");
}

TEST(errors_in_the_middle_of_a_stream_are_distinguished) {
  assert_comes_to(TP_OPENAI_CHAT,
                  DELTA("{\"content\":\"a\"}") "data: {\"error\":{\"message\":\"Slow down\",\"type\":\"requests\","
                                               "\"code\":\"rate_limit_exceeded\"}}\n\n",
                  "TP_ERR_MODEL retryable: the endpoint broke the answer off: Slow down (rate_limit_exceeded); "
                  "send fewer requests, or ask for a higher limit");
  assert_comes_to(TP_OPENAI_RESPONSES,
                  EVENT("response.failed",
                        ",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\","
                        "\"message\":\"Oh no\"}}"),
                  "TP_ERR_MODEL retryable: the endpoint broke the answer off: Oh no (server_error); try again");
  assert_comes_to(
      TP_OPENAI_RESPONSES,
      EVENT("error", ",\"code\":\"context_length_exceeded\",\"message\":\"Too long\",\"param\":null"),
      "TP_ERR_CONTEXT_LENGTH: the endpoint broke the answer off: Too long (context_length_exceeded); shorten "
      "the history or the tools");
  assert_comes_to(TP_OPENAI_MESSAGES,
                  EVENT("error", ",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}"),
                  "TP_ERR_MODEL retryable: the endpoint broke the answer off: Overloaded (overloaded_error); "
                  "the endpoint is overloaded: try again");
}

TEST(an_answer_has_a_limit_and_so_has_an_event) {
  tp__bytes bytes = {0};
  for (int i = 0; i < 20; i++) tp__bytes_put_string(&bytes, DELTA("{\"content\":\"0123456789\"}"));
  for (size_t split = 0; split < 2; split++) {
    tp__openai_stream stream = begin(TP_OPENAI_CHAT, 195);
    char *seen = come_to(&stream, tp__bytes_text(&bytes), split ? bytes.size + 1 : 0);
    assert_string_equal(seen,
                        "TP_ERR_MODEL: the answer is longer than 195 bytes: raise response_bytes_max, or ask for "
                        "fewer tokens");
    free(seen);
  }
  tp__bytes_clear(&bytes);
  for (int i = 0; i < 300; i++) tp__bytes_put_string(&bytes, "x");
  for (size_t i = 0; i < 2; i++) { /* a line without end, a whole answer */
    tp__openai_stream stream = begin(TP_OPENAI_CHAT, 200);
    char *seen = come_to(&stream, tp__bytes_text(&bytes), 100);
    assert_non_null(strstr(seen, "of more than 200 bytes: raise response_bytes_max"));
    free(seen);
  }
  tp__bytes_fini(&bytes);
}

TEST(a_piece_that_is_not_wanted_ends_the_answer) {
  refuse_delta_at = 2;
  assert_comes_to(TP_OPENAI_CHAT, CHAT_HELLO,
                  "TP_ERR_STALE: a piece of the answer was not taken: the token was completed, timed out or cancelled "
                  "before");
  refuse_delta_at = 0;
}

TEST(a_call_without_a_name_is_refused) {
  assert_comes_to(TP_OPENAI_CHAT, CALL_FRAGMENT("0", "\"id\":\"a\",\"function\":{\"arguments\":\"{}\"}") DONE,
                  "TP_ERR_MODEL: tool call 1 of the answer has no name");
}

TEST(no_memory_is_an_answer_at_every_allocation) {
  const tp_allocator *before = tp__heap;
  for (size_t i = 0; i < COUNT(recorded_streams); i++) {
    bool refused = true;
    for (size_t at = 1; refused; at++) {
      counting counter = {.refuse_at = at};
      tp_allocator allocator = allocator_over(&counter);
      tp__heap = &allocator;
      tp__openai_stream stream = {.form = tp__openai_form_of(recorded_streams[i].api), .bytes_max = 1 << 20};
      tp_model_response response;
      tp_status status = tp__openai_stream_init(&stream);
      if (status == TP_OK) {
        tp__openai_stream_feed(&stream, recorded_streams[i].bytes, strlen(recorded_streams[i].bytes));
        (void)tp__openai_stream_end(&stream);
        status = tp__openai_answer_response(&stream.answer, &response);
      }
      tp__openai_stream_fini(&stream);
      refused = counter.requests >= at;
      assert_int_equal(status, refused ? TP_ERR_NO_MEMORY : TP_OK);
      assert_int_equal(counter.open, 0);
      assert_false(counter.wrong_size);
    }
  }
  tp__heap = before;
}

FOR_ALL_TESTS(NULL, free_deltas);
