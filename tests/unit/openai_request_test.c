/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a request in the three forms: messages, tools, images, and fields that hosts add. No network. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "providers/openai/request.h"
#include "tests/support/directory.h"
#include "tests/support/json_value.h"
#include "tests/unit/value_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define T(string) \
  { (string), sizeof(string) - 1 }

static const char *const api_names[] = {"chat", "responses", "messages"};

static tp__openai_config configure(tp_openai_api api, const tp_openai_options *more) {
  tp__openai_config config = {0};
  tp_openai_options options = more ? *more : (tp_openai_options){0};
  tp_fault fault = {0};
  options.struct_size = sizeof options;
  options.api = api;
  if (!options.model) options.model = "m";
  options.base_url = "http://127.0.0.1:1/v1/";
  if (tp__openai_config_init(&config, &options, &fault) != TP_OK) fail_msg("%s", fault.message);
  return config;
}

static void assert_body(tp_openai_api api, const tp_openai_options *options, const tp_model_request *request,
                        const char *expected) {
  tp__openai_config config = configure(api, options);
  tp__bytes json = {0};
  tp_fault fault = {0};
  if (tp__openai_request_write(&config, request, &json, NULL, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_string_equal(tp__bytes_string(&json), expected);
  tp__bytes_fini(&json);
  tp__openai_config_fini(&config);
}

static void assert_refused(tp_openai_api api, const tp_openai_options *options, const tp_model_request *request,
                           const char *expected) {
  tp__openai_config config = configure(api, options);
  tp__bytes json = {0};
  tp_fault fault = {0};
  assert_int_not_equal(tp__openai_request_write(&config, request, &json, NULL, &fault), TP_OK);
  if (!strstr(fault.message, expected)) fail_msg("\"%s\" is not in \"%s\"", expected, fault.message);
  tp__bytes_fini(&json);
  tp__openai_config_fini(&config);
}

/* ---- a conversation with tools ---- */

static const tp_tool_call weather = {.struct_size = sizeof(tp_tool_call),
                                     .id = T("c0"),
                                     .name = T("weather"),
                                     .arguments = T("\x81\xa4"
                                                    "city\xa4Oslo")};
static const tp_tool_call none = {.struct_size = sizeof(tp_tool_call), .id = T("c1"), .name = T("now")};
static const tp_tool_call broken = {
    .struct_size = sizeof(tp_tool_call), .id = T("c2"), .name = T("now"), .arguments = T("{\"x"), .malformed = true};
static const tp_tool_call *const calls[] = {&weather, &none, &broken};
static const tp_message said[] = {
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_SYSTEM, .text = T("Be nice.")},
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_USER, .text = T("Weather?")},
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_ASSISTANT, .text = T("Look:"), .calls = calls, .call_count = 3},
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_TOOL, .call_id = T("c0"), .name = T("weather"), .text = T("4")},
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_TOOL, .call_id = T("c1"), .text = T("noon")},
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_TOOL, .call_id = T("c2"), .text = T("no"), .is_error = true},
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_ASSISTANT, .calls = calls, .call_count = 1},
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_TOOL, .call_id = T("c0"), .text = T("5")},
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_USER, .text = T("So?")},
};
static const tp_message *const talk[] = {&said[0], &said[1], &said[2], &said[3], &said[4],
                                         &said[5], &said[6], &said[7], &said[8]};
static const tp_tool tool_with = {.struct_size = sizeof(tp_tool),
                                  .name = "weather",
                                  .description = "Of a city",
                                  .schema = T("\x81\xa4type\xa6object")};
static const tp_tool tool_without = {.struct_size = sizeof(tp_tool), .name = "now"};
static const tp_tool *const both[] = {&tool_with, &tool_without};

static const tp_model_request with_tools = {.struct_size = sizeof with_tools,
                                            .system = T("Standing."),
                                            .messages = talk,
                                            .message_count = COUNT(talk),
                                            .tools = both,
                                            .tool_count = 2};

TEST(a_conversation_with_tools_has_the_form_of_the_api) {
  assert_body(TP_OPENAI_CHAT, NULL, &with_tools,
              "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"Standing.\\n\\nBe nice.\"},"
              "{\"role\":\"user\",\"content\":\"Weather?\"},"
              "{\"role\":\"assistant\",\"content\":\"Look:\",\"tool_calls\":["
              "{\"id\":\"c0\",\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":"
              "\\\"Oslo\\\"}\"}},"
              "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"now\",\"arguments\":\"{}\"}},"
              "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"now\","
              "\"arguments\":\"{\\\"malformed_arguments\\\":"
              "\\\"{\\\\\\\"x\\\"}\"}}]},"
              "{\"role\":\"tool\",\"tool_call_id\":\"c0\",\"content\":\"4\"},"
              "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"noon\"},"
              "{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"no\"},"
              "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
              "{\"id\":\"call_08a27e07b54a66a6\",\"type\":\"function\","
              "\"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":"
              "\\\"Oslo\\\"}\"}}]},"
              "{\"role\":\"tool\",\"tool_call_id\":\"call_08a27e07b54a66a6\",\"content\":\"5\"},"
              "{\"role\":\"assistant\",\"content\":\"[no answer]\"},{\"role\":\"user\",\"content\":\"So?\"}],"
              "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"Of a city\","
              "\"parameters\":{\"type\":\"object\"}}},{\"type\":\"function\",\"function\":{\"name\":\"now\","
              "\"parameters\":{\"type\":\"object\",\"properties\":{}}}}],\"stream\":true,"
              "\"stream_options\":{\"include_usage\":true}}");
  assert_body(
      TP_OPENAI_RESPONSES, NULL, &with_tools,
      "{\"model\":\"m\",\"instructions\":\"Standing.\",\"input\":["
      "{\"role\":\"system\",\"content\":[{\"type\":\"input_text\",\"text\":\"Be nice.\"}]},"
      "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Weather?\"}]},"
      "{\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Look:\"}]},"
      "{\"type\":\"function_call\",\"call_id\":\"c0\",\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":\\\"Oslo\\\"}"
      "\"},"
      "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"now\",\"arguments\":\"{}\"},"
      "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"now\",\"arguments\":\"{\\\"malformed_arguments\\\":"
      "\\\"{\\\\\\\"x\\\"}\"},"
      "{\"type\":\"function_call_output\",\"call_id\":\"c0\",\"output\":\"4\"},"
      "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"noon\"},"
      "{\"type\":\"function_call_output\",\"call_id\":\"c2\",\"output\":\"no\"},"
      "{\"type\":\"function_call\",\"call_id\":\"call_08a27e07b54a66a6\","
      "\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":\\\"Oslo\\\"}"
      "\"},"
      "{\"type\":\"function_call_output\",\"call_id\":\"call_08a27e07b54a66a6\",\"output\":\"5\"},"
      "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"So?\"}]}],"
      "\"tools\":[{\"type\":\"function\",\"name\":\"weather\",\"description\":\"Of a city\","
      "\"parameters\":{\"type\":\"object\"},\"strict\":false},{\"type\":\"function\",\"name\":\"now\","
      "\"parameters\":{\"type\":\"object\",\"properties\":{}},\"strict\":false}],\"stream\":true,\"store\":false}");
  assert_body(TP_OPENAI_MESSAGES, NULL, &with_tools,
              "{\"model\":\"m\",\"max_tokens\":4096,\"system\":\"Standing.\\n\\nBe nice.\",\"messages\":["
              "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Weather?\"}]},"
              "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Look:\"},"
              "{\"type\":\"tool_use\",\"id\":\"c0\",\"name\":\"weather\",\"input\":{\"city\":\"Oslo\"}},"
              "{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"now\",\"input\":{}},"
              "{\"type\":\"tool_use\",\"id\":\"c2\",\"name\":\"now\",\"input\":{\"malformed_arguments\":\"{\\\"x\"}}]},"
              "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c0\",\"content\":\"4\"},"
              "{\"type\":\"tool_result\",\"tool_use_id\":\"c1\",\"content\":\"noon\"},"
              "{\"type\":\"tool_result\",\"tool_use_id\":\"c2\",\"content\":\"no\",\"is_error\":true}]},"
              "{\"role\":\"assistant\",\"content\":["
              "{\"type\":\"tool_use\",\"id\":\"call_08a27e07b54a66a6\",\"name\":\"weather\","
              "\"input\":{\"city\":\"Oslo\"}}]},"
              "{\"role\":\"user\",\"content\":["
              "{\"type\":\"tool_result\",\"tool_use_id\":\"call_08a27e07b54a66a6\",\"content\":\"5\"},"
              "{\"type\":\"text\",\"text\":\"So?\"}]}],"
              "\"tools\":[{\"name\":\"weather\",\"description\":\"Of a city\",\"input_schema\":{\"type\":\"object\"}},"
              "{\"name\":\"now\",\"input_schema\":{\"type\":\"object\",\"properties\":{}}}],\"stream\":true}");
}

/* ---- what hosts add ---- */

static tp_message with_file(tp_writer *writer, const char *file) {
  tp_message user = said[1];
  char parts[256];
  snprintf(parts, sizeof parts, "[{'file': '%s'}]", file);
  user.parts = json_value(writer, parts);
  return user;
}

static tp_model_request short_request(void) {
  static const tp_message *const hi[] = {&said[1]};
  return (tp_model_request){.struct_size = sizeof(tp_model_request), .messages = hi, .message_count = 1};
}

TEST(parameters_and_body_are_merged_in) {
  tp_writer *first, *second;
  assert_int_equal(tp_writer_new(NULL, &first), TP_OK);
  assert_int_equal(tp_writer_new(NULL, &second), TP_OK);
  tp_openai_options options = {
      .body = json_value(first, "{'seed': 1, 'temperature': 0, 'stream_options': null, 'user': 'u', 'top_p': 0.5}")};
  tp_model_request request = short_request();
  request.parameters = json_value(second, "{'temperature': 0.7, 'max_tokens': 9, 'user': null}");
  assert_body(TP_OPENAI_CHAT, &options, &request,
              "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Weather?\"}],\"stream\":true,"
              "\"temperature\":0.7,\"max_tokens\":9,\"seed\":1,\"top_p\":0.5}");
  options.body = json_value(first, "{'store': true}");
  assert_body(
      TP_OPENAI_RESPONSES, &options, &request,
      "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Weather?\"}]}],"
      "\"stream\":true,\"store\":true,\"temperature\":0.7,\"max_output_tokens\":9}");
  options.body = json_value(first, "{'max_tokens': 5}");
  request.parameters = json_value(second, "{'stop': ['a']}");
  request.model = (tp_text)T("other");
  assert_body(TP_OPENAI_MESSAGES, &options, &request,
              "{\"model\":\"other\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":["
              "{\"type\":\"text\",\"text\":\"Weather?\"}]}],\"stream\":true,\"stop_sequences\":[\"a\"]}");
  assert_refused(TP_OPENAI_RESPONSES, NULL, &request, "parameters.stop: the API responses has nothing like it");
  request.parameters = json_value(second, "{'messages': []}");
  assert_refused(TP_OPENAI_CHAT, NULL, &request, "parameters.messages: it is the request's own");
  tp_writer_free(first);
  tp_writer_free(second);
}

/* The schema is strict if each object has all of its properties and no others; otherwise only the system text has
 * it. */
TEST(schema_of_an_answer_has_the_form_of_the_api) {
  static const struct {
    const char *schema; /* with single quotes */
    bool sent, closed;
  } rows[] = {
      {"{'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'], 'additionalProperties': false}",
       true, true},
      {"{'type': 'object', 'properties': {}, 'additionalProperties': false}", true, true},
      {"{'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'additionalProperties': false}", true, false},
      {"{'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}", true, false},
      {"{'type': 'object', 'additionalProperties': true}", true, false},
      {"{'type': 'object', 'properties': {'n': {'type': 'integer', 'minimum': 1}}, 'required': ['n'], "
       "'additionalProperties': false}",
       true, false},
      {"{'type': 'object', 'properties': {'n': {'type': 'object'}}, 'required': ['n'], 'additionalProperties': false}",
       true, false},
      {"{'type': 'object', 'properties': {'n': {'type': 'array', 'items': {'type': 'object'}}}, 'required': ['n'], "
       "'additionalProperties': false}",
       true, false},
      {"{'type': 'object', 'properties': {'n': {'anyOf': [{'type': 'null'}, {'type': 'integer'}]}}, 'required': ['n'], "
       "'additionalProperties': false}",
       true, true},
      {"{'type': 'object', 'properties': {'n': true}, 'required': ['n'], 'additionalProperties': false}", true, false},
      {"{'type': 'array', 'items': {'type': 'integer'}}", false, false},
      {"{'enum': ['a', 'b']}", false, false},
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    for (int api = 0; api < 3; api++) {
      static const char *const begins[] = {
          "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"schema\":{",
          "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"answer\",\"schema\":{",
          "\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{"};
      tp_writer *writer;
      assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
      tp_model_request request = {.struct_size = sizeof request,
                                  .messages = talk,
                                  .message_count = 2,
                                  .answer_schema = json_value(writer, rows[i].schema)};
      tp__openai_config config = configure((tp_openai_api)api, NULL);
      tp__bytes json = {0};
      assert_int_equal(tp__openai_request_write(&config, &request, &json, NULL, NULL), TP_OK);
      const char *body = tp__bytes_string(&json);
      bool sent = api == 2 ? rows[i].closed : rows[i].sent;
      assert_int_equal(strstr(body, begins[api]) != NULL, sent);
      if (sent && api < 2) assert_non_null(strstr(body, rows[i].closed ? "\"strict\":true" : "\"strict\":false"));
      if (!sent) assert_null(strstr(body, "json_schema"));
      tp__bytes_fini(&json);
      tp__openai_config_fini(&config);
      tp_writer_free(writer);
    }
}

TEST(a_request_needs_the_name_of_a_model) {
  tp__openai_config config = {0};
  tp_openai_options options = {.struct_size = sizeof options, .base_url = "http://h"};
  tp_model_request request = short_request();
  tp__bytes json = {0};
  tp_fault fault;
  assert_int_equal(tp__openai_config_init(&config, &options, &fault), TP_OK);
  assert_int_equal(tp__openai_request_write(&config, &request, &json, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "set tp_openai_options.model, or the turn's or agent's model_name"));
  tp__openai_config_fini(&config);
}

/* ---- images ---- */

static void write_image(const char *name, const char *bytes, size_t size) {
  char image[128];
  snprintf(image, sizeof image, "%s/%s", directory, name);
  FILE *file = fopen(image, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

TEST(images_go_with_the_turns_message) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(make_directory(NULL), 0);
  write_image("a.png", "\x89PNG\r\n\x1a\n!", 9);
  tp_message user = said[1];
  const tp_message *const messages[] = {&user, &said[2], &said[3], &said[4], &said[5]};
  tp_openai_options options = {.files_directory = directory};
  tp_model_request request = {.struct_size = sizeof request, .messages = messages, .message_count = 1};
  user.parts = json_value(writer, "[{'file': 'a.png'}, {'file': 'https://h/b.jpg'}]");
  assert_body(
      TP_OPENAI_CHAT, &options, &request,
      "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Weather?\"},"
      "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw0KGgoh\"}},"
      "{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/b.jpg\"}}]}],\"stream\":true,"
      "\"stream_options\":{\"include_usage\":true}}");
  assert_body(
      TP_OPENAI_RESPONSES, &options, &request,
      "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Weather?\"},"
      "{\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,iVBORw0KGgoh\"},"
      "{\"type\":\"input_image\",\"image_url\":\"https://h/b.jpg\"}]}],\"stream\":true,\"store\":false}");
  user.parts = json_value(writer, "[{'file': 'data:image/gif;base64,R0lGOA=='}, {'file': 'https://h/b.jpg'}]");
  assert_body(
      TP_OPENAI_MESSAGES, &options, &request,
      "{\"model\":\"m\",\"max_tokens\":4096,\"messages\":[{\"role\":\"user\",\"content\":["
      "{\"type\":\"text\",\"text\":\"Weather?\"},"
      "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/gif\",\"data\":\"R0lGOA==\"}},"
      "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://h/b.jpg\"}}]}],\"stream\":true}");
  request.message_count = 5; /* later in the turn the image still stands with the user's words */
  tp__openai_config config = configure(TP_OPENAI_CHAT, &options);
  tp__bytes json = {0};
  assert_int_equal(tp__openai_request_write(&config, &request, &json, NULL, NULL), TP_OK);
  assert_non_null(strstr(tp__bytes_string(&json), "{\"role\":\"user\",\"content\":[{\"type\":\"text\""));
  tp__bytes_fini(&json);
  tp__openai_config_fini(&config);
  remove_directory(NULL);
  tp_writer_free(writer);
}

TEST(what_is_no_image_is_refused) {
  tp_writer *writer;
  char link[128];
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(make_directory(NULL), 0);
  write_image("a.txt", "text", 4);
  write_image("empty", "", 0);
  snprintf(link, sizeof link, "%s/link", directory);
  assert_int_equal(symlink("/etc/passwd", link), 0);
  static const char *const rows[][2] = {
      {"a.txt", "file \"a.txt\": neither PNG, JPEG, GIF nor WebP"},
      {"empty", "neither PNG"},
      {"nothing.png", "No such file"},
      {"../x.png", "leads out of files_directory"},
      {"/etc/passwd", "leads out of files_directory"},
      {"link", "leads out of files_directory"},
      {".", "not a regular file"},
      {"", "cannot be opened"},
      {"data:text/plain,hello", "not of the form data:image/KIND;base64,DATA"},
      {"data:image/png;base64,no base64", "is not base64"},
      {"http://h/a.png", "cannot be opened beneath files_directory"},
  };
  tp_openai_options options = {.files_directory = directory};
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_message user = with_file(writer, rows[i][0]);
    const tp_message *const messages[] = {&user};
    tp_model_request request = {.struct_size = sizeof request, .messages = messages, .message_count = 1};
    assert_refused(TP_OPENAI_CHAT, &options, &request, rows[i][1]);
  }
  tp_message user = with_file(writer, "a.png");
  const tp_message *const messages[] = {&user};
  tp_model_request request = {.struct_size = sizeof request, .messages = messages, .message_count = 1};
  assert_refused(TP_OPENAI_CHAT, NULL, &request, "a path is read only beneath files_directory, which is not set");
  remove_directory(NULL);
  tp_writer_free(writer);
}

/* Text and images in the order in which they stand. */
TEST(parts_are_written_in_their_order) {
  static const char *const wanted[] = {
      "\"content\":[{\"type\":\"text\",\"text\":\"Weather?\"},{\"type\":\"text\",\"text\":\"before\"},"
      "{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/b.jpg\"}},"
      "{\"type\":\"text\",\"text\":\"behind\"}]",
      "\"content\":[{\"type\":\"input_text\",\"text\":\"Weather?\"},{\"type\":\"input_text\",\"text\":\"before\"},"
      "{\"type\":\"input_image\",\"image_url\":\"https://h/b.jpg\"},"
      "{\"type\":\"input_text\",\"text\":\"behind\"}]",
      "\"content\":[{\"type\":\"text\",\"text\":\"Weather?\"},{\"type\":\"text\",\"text\":\"before\"},"
      "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://h/b.jpg\"}},"
      "{\"type\":\"text\",\"text\":\"behind\"}]"};
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_message user = said[1];
  user.parts = json_value(writer, "[{'text': 'before'}, {'file': 'https://h/b.jpg'}, {'text': 'behind'}]");
  const tp_message *const messages[] = {&user};
  tp_model_request request = {.struct_size = sizeof request, .messages = messages, .message_count = 1};
  for (int api = 0; api < 3; api++) {
    tp__openai_config config = configure((tp_openai_api)api, NULL);
    tp__bytes json = {0};
    assert_int_equal(tp__openai_request_write(&config, &request, &json, NULL, NULL), TP_OK);
    if (!strstr(tp__bytes_string(&json), wanted[api])) fail_msg("%s", tp__bytes_string(&json));
    tp__bytes_fini(&json);
    tp__openai_config_fini(&config);
  }
  tp_writer_free(writer);
}

/* A session must not end because a file of long ago has gone. */
TEST(an_older_image_that_cannot_be_read_is_left_out_with_a_word) {
  tp_writer *first, *second;
  assert_int_equal(tp_writer_new(NULL, &first), TP_OK);
  assert_int_equal(tp_writer_new(NULL, &second), TP_OK);
  assert_int_equal(make_directory(NULL), 0);
  write_image("new.png", "\x89PNG\r\n\x1a\n!", 9);
  tp_openai_options options = {.files_directory = directory};
  tp_message older = with_file(first, "gone.png"), newest = with_file(second, "new.png");
  const tp_message *const messages[] = {&older, &newest};
  tp_model_request request = {.struct_size = sizeof request, .messages = messages, .message_count = 2};
  assert_body(
      TP_OPENAI_CHAT, &options, &request,
      "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Weather?\"},"
      "{\"type\":\"text\",\"text\":\"[an image that is not sent any more]\"},"
      "{\"type\":\"text\",\"text\":\"Weather?\"},"
      "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw0KGgoh\"}}]}],\"stream\":true,"
      "\"stream_options\":{\"include_usage\":true}}");
  remove_directory(NULL);
  tp_writer_free(first);
  tp_writer_free(second);
}

/* @param count  images. */
static tp_message with_many(tp_writer *writer, int count) {
  tp_message user = said[1];
  static char parts[8192];
  size_t used = (size_t)snprintf(parts, sizeof parts, "[");
  for (int i = 0; i < count; i++)
    used += (size_t)snprintf(parts + used, sizeof parts - used, "%s{'file': 'https://h/%d'}", i ? ", " : "", i);
  snprintf(parts + used, sizeof parts - used, "]");
  user.parts = json_value(writer, parts);
  return user;
}

TEST(the_newest_64_images_are_sent) {
  tp_writer *first, *second;
  assert_int_equal(tp_writer_new(NULL, &first), TP_OK);
  assert_int_equal(tp_writer_new(NULL, &second), TP_OK);
  tp_message older = with_many(first, 3), newest = with_many(second, 62);
  const tp_message *const messages[] = {&older, &newest};
  tp_model_request request = {.struct_size = sizeof request, .messages = messages, .message_count = 2};
  tp__openai_config config = configure(TP_OPENAI_CHAT, NULL);
  tp__bytes json = {0};
  assert_int_equal(tp__openai_request_write(&config, &request, &json, NULL, NULL), TP_OK);
  int images = 0, words = 0;
  for (const char *at = tp__bytes_string(&json); (at = strstr(at, "\"image_url\":{")); at++) images++;
  for (const char *at = tp__bytes_string(&json); (at = strstr(at, "not sent any more")); at++) words++;
  assert_int_equal(images, 64);
  assert_int_equal(words, 1);
  tp__bytes_fini(&json);
  tp__openai_config_fini(&config);
  newest = with_many(second, 65);
  assert_refused(TP_OPENAI_CHAT, NULL, &request, "a message takes at most 64 images");
  tp_writer_free(first);
  tp_writer_free(second);
}

/* ---- parts of tools' results ---- */

#define PNG "\x89PNG\r\n\x1a\n"
#define PART(...) \
  (tp_part) { .struct_size = sizeof(tp_part), __VA_ARGS__ }

static tp_text parts_value(tp_writer *writer, const tp_part *parts, size_t count) {
  tp_text value;
  tp_writer_reset(writer);
  tp_write_array(writer, count);
  for (size_t i = 0; i < count; i++) assert_int_equal(tp_part_write(&parts[i], writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  return value;
}

/* A question, two calls, their results, of which the first has the parts, and the next message. */
typedef struct exchange {
  tp_message messages[5];
  const tp_message *list[5];
  tp_model_request request;
} exchange;

static const tp_tool_call *const two_calls[] = {&weather, &none};

static void make_exchange(exchange *x, tp_text parts, bool is_error) {
  const tp_message messages[] = {
      said[1],
      {.struct_size = sizeof(tp_message), .role = TP_ROLE_ASSISTANT, .calls = two_calls, .call_count = 2},
      {.struct_size = sizeof(tp_message),
       .role = TP_ROLE_TOOL,
       .call_id = T("c0"),
       .text = T("seen"),
       .parts = parts,
       .is_error = is_error},
      {.struct_size = sizeof(tp_message), .role = TP_ROLE_TOOL, .call_id = T("c1"), .text = T("noon")},
      said[8]};
  memcpy(x->messages, messages, sizeof messages);
  for (size_t i = 0; i < COUNT(messages); i++) x->list[i] = &x->messages[i];
  x->request =
      (tp_model_request){.struct_size = sizeof x->request, .messages = x->list, .message_count = COUNT(messages)};
}

/* What the body has from the results on. */
static void assert_results(tp_openai_api api, const tp_openai_options *options, const exchange *x,
                           const char *expected) {
  static const char *const begins[] = {"{\"role\":\"tool\"", "{\"type\":\"function_call_output\"",
                                       "{\"type\":\"tool_result\""};
  tp__openai_config config = configure(api, options);
  tp__bytes json = {0};
  tp_fault fault = {0};
  if (tp__openai_request_write(&config, &x->request, &json, NULL, &fault) != TP_OK) fail_msg("%s", fault.message);
  const char *from = strstr(tp__bytes_string(&json), begins[api]);
  assert_non_null(from);
  if (strncmp(from, expected, strlen(expected)) != 0) fail_msg("%s\nis not\n%s", from, expected);
  tp__bytes_fini(&json);
  tp__openai_config_fini(&config);
}

static const tp_part of_each_kind[] = {
    {.struct_size = sizeof(tp_part), .kind = TP_PART_TEXT, .text = T("more")},
    {.struct_size = sizeof(tp_part),
     .kind = TP_PART_IMAGE,
     .bytes = T(PNG),
     .media_type = T("image/png"),
     .name = T("a")},
    {.struct_size = sizeof(tp_part), .kind = TP_PART_IMAGE, .uri = T("https://h/b.jpg")},
    {.struct_size = sizeof(tp_part), .kind = TP_PART_AUDIO, .bytes = T("RIFF"), .media_type = T("audio/wav")},
    {.struct_size = sizeof(tp_part),
     .kind = TP_PART_FILE,
     .bytes = T("%PDF"),
     .media_type = T("application/pdf"),
     .name = T("d.pdf")},
    {.struct_size = sizeof(tp_part),
     .kind = TP_PART_FILE,
     .bytes = T("x: 1"),
     .media_type = T("text/x"),
     .name = T("n")},
    {.struct_size = sizeof(tp_part), .kind = TP_PART_LINK, .uri = T("file:///r"), .size = 1234},
};

TEST(parts_of_a_result_have_the_form_of_the_api) {
  tp_writer *writer;
  exchange x;
  const tp_openai_options all = {.inputs = TP_OPENAI_INPUT_IMAGES | TP_OPENAI_INPUT_AUDIO | TP_OPENAI_INPUT_FILES};
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  make_exchange(&x, parts_value(writer, of_each_kind, COUNT(of_each_kind)), false);
  assert_results(
      TP_OPENAI_CHAT, &all, &x,
      "{\"role\":\"tool\",\"tool_call_id\":\"c0\",\"content\":\"seen\\nmore\\n[image a: in the message after the "
      "results]\\n[image: in the message after the results]\\n[audio: in the message after the results]\\n[file d.pdf: "
      "in the message after the results]\\n[file n (text/x, 4 bytes)]\\nx: 1\\n[link <file:///r> (1,234 bytes)]\"},"
      "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"noon\"},"
      "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"[of the tool's result for call c0:]\"},"
      "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw0KGgo=\"}},"
      "{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/b.jpg\"}},"
      "{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"UklGRg==\",\"format\":\"wav\"}},"
      "{\"type\":\"file\",\"file\":{\"filename\":\"d.pdf\",\"file_data\":\"data:application/pdf;base64,JVBERg==\"}}]},"
      "{\"role\":\"assistant\",\"content\":\"[no answer]\"},{\"role\":\"user\",\"content\":\"So?\"}]");
  assert_results(
      TP_OPENAI_RESPONSES, &all, &x,
      "{\"type\":\"function_call_output\",\"call_id\":\"c0\",\"output\":["
      "{\"type\":\"input_text\",\"text\":\"seen\"},{\"type\":\"input_text\",\"text\":\"more\"},"
      "{\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,iVBORw0KGgo=\"},"
      "{\"type\":\"input_image\",\"image_url\":\"https://h/b.jpg\"},"
      "{\"type\":\"input_text\",\"text\":\"[audio (audio/wav, 4 bytes) is not sent: the API takes none]\"},"
      "{\"type\":\"input_file\",\"filename\":\"d.pdf\",\"file_data\":\"data:application/pdf;base64,JVBERg==\"},"
      "{\"type\":\"input_text\",\"text\":\"[file n (text/x, 4 bytes)]\\nx: 1\"},"
      "{\"type\":\"input_text\",\"text\":\"[link <file:///r> (1,234 bytes)]\"}]},"
      "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"noon\"},");
  assert_results(
      TP_OPENAI_MESSAGES, &all, &x,
      "{\"type\":\"tool_result\",\"tool_use_id\":\"c0\",\"content\":["
      "{\"type\":\"text\",\"text\":\"seen\"},{\"type\":\"text\",\"text\":\"more\"},"
      "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}},"
      "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://h/b.jpg\"}},"
      "{\"type\":\"text\",\"text\":\"[audio (audio/wav, 4 bytes) is not sent: the API takes none]\"},"
      "{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"media_type\":\"application/"
      "pdf\",\"data\":\"JVBERg==\"},"
      "\"title\":\"d.pdf\"},{\"type\":\"text\",\"text\":\"[file n (text/x, 4 bytes)]\\nx: 1\"},"
      "{\"type\":\"text\",\"text\":\"[link <file:///r> (1,234 bytes)]\"}]},"
      "{\"type\":\"tool_result\",\"tool_use_id\":\"c1\",\"content\":\"noon\"},"
      "{\"type\":\"text\",\"text\":\"So?\"}]}]");
  tp_writer_free(writer);
}

/* Never in silence: each has a text in its place, and the request is sent. */
TEST(a_part_that_cannot_be_sent_is_named_with_the_reason) {
  static const struct {
    tp_openai_api api;
    uint32_t inputs;
    bool is_error;
    tp_part part;
    const char *words;
  } cases[] = {
      {TP_OPENAI_CHAT,
       0,
       false,
       {.kind = TP_PART_AUDIO, .bytes = T("x"), .media_type = T("audio/wav")},
       "[audio (audio/wav, 1 byte) is not sent: the model reads none]"},
      {TP_OPENAI_CHAT,
       TP_OPENAI_INPUT_TEXT,
       false,
       {.kind = TP_PART_IMAGE, .bytes = T("x"), .media_type = T("image/png")},
       "[image (image/png, 1 byte) is not sent: the model reads none]"},
      {TP_OPENAI_MESSAGES,
       TP_OPENAI_INPUT_IMAGES,
       false,
       {.kind = TP_PART_FILE, .bytes = T("x"), .media_type = T("application/pdf")},
       "[file (application/pdf, 1 byte) is not sent: the model reads none]"},
      {TP_OPENAI_RESPONSES,
       TP_OPENAI_INPUT_AUDIO,
       false,
       {.kind = TP_PART_AUDIO, .bytes = T("x"), .media_type = T("audio/wav")},
       "is not sent: the API takes none]"},
      {TP_OPENAI_CHAT,
       0,
       false,
       {.kind = TP_PART_IMAGE, .bytes = T("BM"), .media_type = T("image/bmp")},
       "[image (image/bmp, 2 bytes) is not sent: the API does not take its media type]"},
      {TP_OPENAI_CHAT,
       0,
       false,
       {.kind = TP_PART_FILE, .bytes = T("\xff"), .media_type = T("text/x")},
       "[file (text/x, 1 byte) is not sent: the API does not take its media type]"},
      {TP_OPENAI_CHAT,
       0,
       false,
       {.kind = TP_PART_FILE, .bytes = T("\1")},
       "[file (1 byte) is not sent: the API does not take"},
      {TP_OPENAI_CHAT,
       0,
       false,
       {.kind = TP_PART_FILE, .uri = T("https://h/d.pdf"), .media_type = T("application/pdf")},
       "[file <https://h/d.pdf> (application/pdf) is not sent: the API takes no URL of it]"},
      {TP_OPENAI_MESSAGES,
       0,
       false,
       {.kind = TP_PART_IMAGE, .uri = T("file:///etc/passwd")},
       "[image <file:///etc/passwd> is not sent: only data: and https: URLs are]"},
      {TP_OPENAI_CHAT,
       0,
       false,
       {.kind = TP_PART_IMAGE, .uri = T("a.png")},
       "is not sent: only data: and https: URLs are]"},
      {TP_OPENAI_CHAT,
       0,
       false,
       {.kind = TP_PART_IMAGE, .uri = T("data:image/png,x")},
       "is not sent: its data: URL has no base64]"},
      {TP_OPENAI_CHAT, 0, false, {.kind = TP_PART_IMAGE, .uri = T("data:image/png;base64,?")}, "has no base64]"},
      {TP_OPENAI_MESSAGES,
       0,
       true,
       {.kind = TP_PART_IMAGE, .bytes = T("x"), .media_type = T("image/png")},
       "[image (image/png, 1 byte) is not sent: the API takes text of a tool that failed]"},
  };
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    exchange x;
    tp_part part = cases[i].part;
    part.struct_size = sizeof part;
    make_exchange(&x, parts_value(writer, &part, 1), cases[i].is_error);
    tp__openai_config config =
        configure(cases[i].api, &(tp_openai_options){.inputs = cases[i].inputs, .files_directory = "/"});
    tp__bytes json = {0};
    tp_fault fault = {0};
    if (tp__openai_request_write(&config, &x.request, &json, NULL, &fault) != TP_OK)
      fail_msg("%zu: %s", i, fault.message);
    if (!strstr(tp__bytes_string(&json), cases[i].words)) fail_msg("%zu: %s", i, tp__bytes_string(&json));
    assert_null(strstr(tp__bytes_string(&json), "image_url"));
    assert_null(strstr(tp__bytes_string(&json), "base64,"));
    tp__bytes_fini(&json);
    tp__openai_config_fini(&config);
  }
  tp_writer_free(writer);
}

/* The user's message must be sent, whatever tools answered since. */
TEST(images_of_results_leave_room_for_the_users) {
  tp_writer *first, *second;
  exchange x;
  assert_int_equal(tp_writer_new(NULL, &first), TP_OK);
  assert_int_equal(tp_writer_new(NULL, &second), TP_OK);
  make_exchange(&x, (tp_text){0}, false);
  x.messages[0] = with_file(second, "https://h/user.png");
  x.request.message_count = 4;
  static tp_part parts[65];
  for (size_t i = 0; i < COUNT(parts); i++) parts[i] = PART(.kind = TP_PART_IMAGE, .uri = T("https://h/r.png"));
  x.messages[2].parts = parts_value(first, parts, COUNT(parts));
  tp__openai_config config = configure(TP_OPENAI_MESSAGES, NULL);
  tp__bytes json = {0};
  assert_int_equal(tp__openai_request_write(&config, &x.request, &json, NULL, NULL), TP_OK);
  int of_results = 0, words = 0;
  for (const char *at = tp__bytes_string(&json); (at = strstr(at, "\"url\":\"https://h/r.png")); at++) of_results++;
  for (const char *at = tp__bytes_string(&json); (at = strstr(at, "is not sent any more]")); at++) words++;
  assert_non_null(strstr(tp__bytes_string(&json), "\"url\":\"https://h/user.png"));
  assert_int_equal(of_results, 63);
  assert_int_equal(words, 2);
  tp__bytes_fini(&json);
  tp__openai_config_fini(&config);
  tp_writer_free(first);
  tp_writer_free(second);
}

TEST(a_model_without_images_refuses_a_users_and_wrong_inputs_are_refused) {
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_message user = with_file(writer, "https://h/a.png");
  const tp_message *const messages[] = {&user};
  tp_model_request request = {.struct_size = sizeof request, .messages = messages, .message_count = 1};
  assert_refused(TP_OPENAI_CHAT, &(tp_openai_options){.inputs = TP_OPENAI_INPUT_TEXT}, &request,
                 "the model reads no images: see tp_openai_options.inputs");
  user.parts = parts_value(writer, &PART(.kind = TP_PART_AUDIO, .bytes = T("x"), .media_type = T("audio/wav")), 1);
  assert_refused(TP_OPENAI_RESPONSES, NULL, &request, "audio (audio/wav, 1 byte) is not sent: the API takes none");
  tp__openai_config config = {0};
  tp_fault fault = {0};
  const tp_openai_options wrong = {.struct_size = sizeof wrong, .model = "m", .base_url = "http://h/v1", .inputs = 16};
  assert_int_equal(tp__openai_config_init(&config, &wrong, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "inputs"));
  tp__openai_config_fini(&config);
  tp_writer_free(writer);
}

/* ---- memory ---- */

TEST(no_memory_is_refused_at_every_allocation) {
  const tp_allocator *before = tp__heap;
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_model_request request = with_tools;
  tp_message user = with_file(writer, "data:image/gif;base64,R0lGOA==");
  const tp_message *messages[COUNT(talk)];
  memcpy(messages, talk, sizeof talk);
  messages[1] = &user;
  tp_writer *of_result;
  assert_int_equal(tp_writer_new(NULL, &of_result), TP_OK);
  tp_message result = said[3];
  result.parts = parts_value(of_result, of_each_kind, COUNT(of_each_kind));
  messages[3] = &result;
  request.messages = messages;
  for (int api = 0; api < 3; api++) {
    bool refused = true;
    for (size_t at = 1; refused; at++) {
      tp__openai_config config = configure((tp_openai_api)api, NULL);
      counting counter = {.refuse_at = at};
      tp_allocator allocator = allocator_over(&counter);
      tp__bytes json = {0};
      tp__heap = &allocator;
      tp_status status = tp__openai_request_write(&config, &request, &json, NULL, NULL);
      tp__bytes_fini(&json);
      tp__heap = before;
      refused = counter.requests >= at;
      assert_int_equal(status, refused ? TP_ERR_NO_MEMORY : TP_OK);
      assert_int_equal(counter.open, 0);
      tp__openai_config_fini(&config);
    }
  }
  tp_writer_free(of_result);
  tp_writer_free(writer);
}

TEST(apis_have_names) {
  tp_openai_api api;
  for (int i = 0; i < 3; i++) {
    assert_string_equal(tp_openai_api_name((tp_openai_api)i), api_names[i]);
    assert_int_equal(tp_openai_api_find(api_names[i], &api), TP_OK);
    assert_int_equal(api, i);
  }
  assert_string_equal(tp_openai_api_name((tp_openai_api)3), "unknown");
  assert_int_equal(tp_openai_api_find("completions", &api), TP_ERR_NOT_FOUND);
  assert_int_equal(tp_openai_api_find(NULL, &api), TP_ERR_NOT_FOUND);
}
