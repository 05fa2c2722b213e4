/* SPDX-License-Identifier: Apache-2.0
 *
 * streams: answers of the three APIs, written after their public documentation, each with its result. */
#ifndef TEST_STREAMS_H
#define TEST_STREAMS_H

#include "turnphase/openai.h"

/* Macros that call macros, which clang-format 14 would write in another way each time. */
/* clang-format off */
#define CHUNK(fields) \
  "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\"," fields "}\n\n"
#define DELTA(delta) CHUNK("\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":null}]")
#define FINISH(reason) CHUNK("\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" reason "\"}]")
#define DONE "data: [DONE]\n\n"

#define CHAT_HELLO                                                                                   \
  DELTA("{\"role\":\"assistant\",\"content\":\"\"}")                                                 \
  DELTA("{\"content\":\"Hello\"}") DELTA("{\"content\":\", w\\u00f6rld\"}") FINISH("stop") CHUNK(    \
      "\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29," \
      "\"prompt_tokens_details\":{\"cached_tokens\":8}}") DONE

#define CALL_FRAGMENT(index, rest) DELTA("{\"tool_calls\":[{\"index\":" index "," rest "}]}")
/* Two calls, whose fragments come in turns. */
#define CHAT_CALLS                                                                                                 \
  DELTA("{\"role\":\"assistant\",\"content\":null}")                                                               \
  CALL_FRAGMENT("0", "\"id\":\"c0\",\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"\"}") \
  CALL_FRAGMENT("0", "\"function\":{\"arguments\":\"{\\\"city\\\":\"}")                                            \
  CALL_FRAGMENT("1", "\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"time\",\"arguments\":\"{\"}")   \
  CALL_FRAGMENT("0", "\"function\":{\"arguments\":\"\\\"Oslo\\\"}\"}")                                             \
  CALL_FRAGMENT("1", "\"function\":{\"arguments\":\"\\\"zone\\\":1}\"}")                                           \
  FINISH("tool_calls") DONE

#define EVENT(name, data) "event: " name "\ndata: {\"type\":\"" name "\"" data "}\n\n"

#define RESPONSES_HELLO                                                                                         \
  EVENT("response.created",                                                                                     \
        ",\"sequence_number\":0,\"response\":{\"id\":\"r1\",\"status\":\"in_progress\","                        \
        "\"output\":[],\"usage\":null,\"error\":null}")                                                         \
  EVENT("response.output_item.added",                                                                           \
        ",\"output_index\":0,\"item\":{\"id\":\"m1\",\"type\":\"message\","                                     \
        "\"status\":\"in_progress\",\"role\":\"assistant\",\"content\":[]}")                                    \
  EVENT("response.content_part.added",                                                                          \
        ",\"output_index\":0,\"content_index\":0,\"part\":{\"type\":"                                           \
        "\"output_text\",\"text\":\"\",\"annotations\":[]}")                                                    \
  EVENT("response.output_text.delta", ",\"output_index\":0,\"content_index\":0,\"delta\":\"Hello\"")            \
  EVENT("response.output_text.delta", ",\"output_index\":0,\"content_index\":0,\"delta\":\", w\\u00f6rld\"")    \
  EVENT("response.output_text.done", ",\"output_index\":0,\"content_index\":0,\"text\":\"Hello, w\\u00f6rld\"") \
  EVENT("response.completed",                                                                                   \
        ",\"response\":{\"id\":\"r1\",\"status\":\"completed\",\"error\":null,"                                 \
        "\"incomplete_details\":null,\"output\":[{\"type\":\"message\",\"role\":"                               \
        "\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hello, "                               \
        "w\\u00f6rld\"}]}],\"usage\":{\"input_tokens\":19,\"input_tokens_details\":"                            \
        "{\"cached_tokens\":8},\"output_tokens\":10,\"output_tokens_details\":"                                 \
        "{\"reasoning_tokens\":0},\"total_tokens\":29}}")

#define RESPONSES_CALLS                                                                                             \
  EVENT("response.created", ",\"response\":{\"id\":\"r1\",\"status\":\"in_progress\",\"output\":[]}")               \
  EVENT("response.output_item.added",                                                                               \
        ",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"id\":\"f0\","                                   \
        "\"call_id\":\"c0\",\"name\":\"weather\",\"arguments\":\"\"}")                                              \
  EVENT("response.function_call_arguments.delta", ",\"item_id\":\"f0\",\"output_index\":0,\"delta\":\"{\\\"city\"") \
  EVENT("response.output_item.added",                                                                               \
        ",\"output_index\":1,\"item\":{\"type\":\"function_call\",\"id\":\"f1\","                                   \
        "\"call_id\":\"c1\",\"name\":\"time\",\"arguments\":\"\"}")                                                 \
  EVENT("response.function_call_arguments.delta", ",\"item_id\":\"f1\",\"output_index\":1,\"delta\":\"{\\\"zon\"")  \
  EVENT("response.function_call_arguments.delta",                                                                   \
        ",\"item_id\":\"f0\",\"output_index\":0,\"delta\":\"\\\":\\\"Oslo\\\"}\"")                                  \
  EVENT("response.function_call_arguments.delta", ",\"item_id\":\"f1\",\"output_index\":1,\"delta\":\"e\\\":1}\"")  \
  EVENT("response.function_call_arguments.done",                                                                    \
        ",\"item_id\":\"f0\",\"output_index\":0,\"arguments\":\"{\\\"city\\\":\\\"Oslo\\\"}\"")                     \
  EVENT("response.output_item.done",                                                                                \
        ",\"output_index\":1,\"item\":{\"type\":\"function_call\",\"id\":\"f1\","                                   \
        "\"call_id\":\"c1\",\"name\":\"time\",\"arguments\":\"{\\\"zone\\\":1}\"}")                                 \
  EVENT("response.completed",                                                                                       \
        ",\"response\":{\"id\":\"r1\",\"status\":\"completed\",\"output\":[],"                                      \
        "\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}")

#define MESSAGES_HELLO                                                                                        \
  EVENT("message_start",                                                                                      \
        ",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\","                         \
        "\"content\":[],\"model\":\"m\",\"stop_reason\":null,\"stop_sequence\":null,"                         \
        "\"usage\":{\"input_tokens\":9,\"cache_creation_input_tokens\":2,"                                    \
        "\"cache_read_input_tokens\":8,\"output_tokens\":1}}")                                                \
  EVENT("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}")            \
  EVENT("ping", "")                                                                                           \
  EVENT("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}")         \
  EVENT("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\", w\\u00f6rld\"}") \
  EVENT("content_block_stop", ",\"index\":0")                                                                 \
  EVENT("message_delta",                                                                                      \
        ",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"                                   \
        "\"usage\":{\"output_tokens\":10}")                                                                   \
  EVENT("message_stop", "")

#define USE(index, id, name)                                                                                \
  EVENT("content_block_start", ",\"index\":" index ",\"content_block\":{\"type\":\"tool_use\",\"id\":\"" id \
                               "\","                                                                        \
                               "\"name\":\"" name "\",\"input\":{}}")
#define INPUT(index, json)     \
  EVENT("content_block_delta", \
        ",\"index\":" index ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"" json "\"}")
#define MESSAGES_CALLS                                                                                            \
  EVENT("message_start",                                                                                          \
        ",\"message\":{\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":[],"                                   \
        "\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}")                                                    \
  EVENT("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}")        \
  EVENT("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"Hmm.\"}")      \
  EVENT("content_block_stop", ",\"index\":0")                                                                     \
  USE("1", "c0", "weather")                                                                                       \
  INPUT("1", "") INPUT("1", "{\\\"city\\\": ") USE("2", "c1", "time") INPUT("2", "{") INPUT("1", "\\\"Oslo\\\"}") \
      INPUT("2", "\\\"zone\\\": 1}") EVENT("content_block_stop", ",\"index\":1")                                  \
          EVENT("content_block_stop", ",\"index\":2")                                                             \
              EVENT("message_delta",                                                                              \
                    ",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},"                           \
                    "\"usage\":{\"output_tokens\":7}") EVENT("message_stop", "")
/* clang-format on */

typedef struct recorded_stream {
  tp_openai_api api;
  const char *bytes;
  const char *comes_to; /* as describe() of the tests has it */
} recorded_stream;

static const recorded_stream recorded_streams[] = {
    {TP_OPENAI_CHAT, CHAT_HELLO, "Hello, w\xc3\xb6rld|end_turn|19,10"},
    {TP_OPENAI_CHAT, CHAT_CALLS, "|tool_use|0,0|c0 weather {\"city\":\"Oslo\"}|c1 time {\"zone\":1}"},
    {TP_OPENAI_RESPONSES, RESPONSES_HELLO, "Hello, w\xc3\xb6rld|end_turn|19,10"},
    {TP_OPENAI_RESPONSES, RESPONSES_CALLS, "|tool_use|5,7|c0 weather {\"city\":\"Oslo\"}|c1 time {\"zone\":1}"},
    {TP_OPENAI_MESSAGES, MESSAGES_HELLO, "Hello, w\xc3\xb6rld|end_turn|19,10"},
    {TP_OPENAI_MESSAGES, MESSAGES_CALLS, "|tool_use|5,7|c0 weather {\"city\":\"Oslo\"}|c1 time {\"zone\":1}"},
};

#endif
