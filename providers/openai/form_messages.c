/* SPDX-License-Identifier: Apache-2.0
 *
 * The Messages API of Anthropic. Roles alternate there: consecutive messages for the user (results of tools, the user's
 * texts) become one message; system messages are added to the system text. */
#include "providers/openai/given.h"

enum { OUTPUT_TOKENS_MAX = 4096 }; /* the API requires a limit; hosts set max_tokens */

/* ---- the request ---- */

static void write_messages_text(tp_writer *writer, tp_text text) {
  tp__openai_write_typed(writer, "text", "text", text);
}

static void write_source(tp_writer *writer, const tp__openai_media *media) {
  bool has_data = media->base64.size > 0;
  tp_write_string(writer, "source");
  tp_write_map(writer, has_data ? 3 : 2);
  tp__openai_write_pair(writer, "type", has_data ? "base64" : "url");
  if (has_data) tp__openai_write_pair_text(writer, "media_type", media->media);
  tp__openai_write_pair_text(writer, has_data ? "data" : "url", has_data ? media->base64 : tp__bytes_text(&media->url));
}

static void write_image(tp_writer *writer, const tp__openai_media *image) {
  tp_write_map(writer, 2);
  tp__openai_write_pair(writer, "type", "image");
  write_source(writer, image);
}

static void write_messages_file(tp_writer *writer, const tp__openai_media *file) {
  tp_write_map(writer, file->name.size > 0 ? 3 : 2);
  tp__openai_write_pair(writer, "type", "document");
  write_source(writer, file);
  if (file->name.size > 0) tp__openai_write_pair_text(writer, "title", file->name);
}

static const tp__openai_content content_form = {write_messages_text, write_image, NULL, write_messages_file};

/* Text, or with parts a list of blocks. */
static void write_result(tp__openai_draft_request *draft, size_t at) {
  const tp_message *message = draft->request->messages[at];
  tp_writer *writer = draft->writer;
  tp_write_map(writer, message->is_error ? 4 : 3);
  tp__openai_write_pair(writer, "type", "tool_result");
  tp__openai_write_pair_text(writer, "tool_use_id", message->call_id);
  tp_write_string(writer, "content");
  if (tp__openai_part_count(draft, at) == 0) {
    tp_write_text(writer, message->text);
  } else {
    tp_write_array(writer, tp__openai_content_count(draft, at));
    tp__openai_write_content(draft, at, &content_form);
  }
  if (!message->is_error) return;
  tp_write_string(writer, "is_error");
  tp_write_bool(writer, true);
}

/* The API refuses empty text. */
static size_t blocks_of(const tp__openai_draft_request *draft, size_t at) {
  const tp_message *message = draft->request->messages[at];
  if (message->role == TP_ROLE_SYSTEM) return 0;
  if (message->role == TP_ROLE_TOOL) return 1;
  if (message->role != TP_ROLE_ASSISTANT) return tp__openai_content_count(draft, at);
  return tp__openai_content_count(draft, at) + message->call_count +
         tp__openai_write_given(draft, message, SIZE_MAX, NULL);
}

static void write_blocks(tp__openai_draft_request *draft, size_t at) {
  const tp_message *message = draft->request->messages[at];
  if (message->role == TP_ROLE_SYSTEM) return;
  if (message->role == TP_ROLE_TOOL) {
    write_result(draft, at);
    return;
  }
  if (message->role != TP_ROLE_ASSISTANT) {
    tp__openai_write_content(draft, at, &content_form);
    return;
  }
  (void)tp__openai_write_given(draft, message, 0, draft->writer);
  tp__openai_write_content(draft, at, &content_form);
  for (size_t i = 0; i <= message->call_count; i++) { /* blocks of thinking stand where they stood */
    (void)tp__openai_write_given(draft, message, 1 + i, draft->writer);
    if (i < message->call_count) {
      const tp_tool_call *call = message->calls[i];
      tp_write_map(draft->writer, 4);
      tp__openai_write_pair(draft->writer, "type", "tool_use");
      tp__openai_write_pair_text(draft->writer, "id", call->id);
      tp__openai_write_pair_text(draft->writer, "name", call->name);
      tp_write_string(draft->writer, "input");
      tp__openai_write_arguments_map(draft, call);
    }
  }
}

static bool is_assistant(const tp__openai_draft_request *draft, size_t at) {
  return draft->request->messages[at]->role == TP_ROLE_ASSISTANT;
}

/* Consecutive messages from `from` on that are sent as one. @return the index after them. */
static size_t group_end(const tp__openai_draft_request *draft, size_t from, size_t *ret_blocks) {
  size_t end = from;
  *ret_blocks = 0;
  for (; end < draft->request->message_count && is_assistant(draft, end) == is_assistant(draft, from); end++)
    *ret_blocks += blocks_of(draft, end);
  return end;
}

static void write_messages(tp__openai_draft_request *draft) {
  size_t total = draft->request->message_count, count = 0, blocks;
  for (size_t at = 0; at < total;) {
    at = group_end(draft, at, &blocks);
    count += blocks > 0;
  }
  tp_write_array(draft->writer, count);
  for (size_t at = 0, end; at < total; at = end) {
    end = group_end(draft, at, &blocks);
    if (blocks == 0) continue;
    tp_write_map(draft->writer, 2);
    tp__openai_write_pair(draft->writer, "role", is_assistant(draft, at) ? "assistant" : "user");
    tp_write_string(draft->writer, "content");
    tp_write_array(draft->writer, blocks);
    for (size_t i = at; i < end; i++) write_blocks(draft, i);
  }
}

static bool has_system(const tp__openai_draft_request *draft) {
  for (size_t i = 0; i < draft->request->message_count; i++)
    if (draft->request->messages[i]->role == TP_ROLE_SYSTEM && draft->request->messages[i]->text.size > 0) return true;
  return tp__openai_has_system(draft);
}

static void write_system(tp__openai_draft_request *draft) { tp_write_text(draft->writer, tp__openai_system(draft)); }

static void write_messages_tools(tp__openai_draft_request *draft) {
  tp_write_array(draft->writer, draft->request->tool_count);
  for (size_t i = 0; i < draft->request->tool_count; i++) {
    const tp_tool *tool = draft->request->tools[i];
    tp_write_map(draft->writer, tp__openai_tool_pairs(tool));
    tp__openai_write_tool_pairs(draft, tool, "input_schema");
  }
}

static void write_max_tokens(tp__openai_draft_request *draft) { tp_write_int(draft->writer, OUTPUT_TOKENS_MAX); }

/* The API refuses a schema that is not closed. Then only the system text describes it. */
static void write_output_config(tp__openai_draft_request *draft) {
  tp_write_map(draft->writer, 1);
  tp_write_string(draft->writer, "format");
  tp_write_map(draft->writer, 2);
  tp_write_string(draft->writer, "type");
  tp_write_string(draft->writer, "json_schema");
  tp_write_string(draft->writer, "schema");
  tp_write_value(draft->writer, draft->request->answer_schema);
}

static const tp__openai_field fields[] = {
    {"model", true, NULL, tp__openai_write_model},
    {"max_tokens", false, NULL, write_max_tokens},
    {"system", true, has_system, write_system},
    {"messages", true, NULL, write_messages},
    {"tools", true, tp__openai_has_tools, write_messages_tools},
    {"stream", true, NULL, tp__openai_write_stream},
    {"output_config", false, tp__openai_has_closed_schema, write_output_config},
    {NULL, false, NULL, NULL},
};

static const tp__openai_rename renames[] = {{"stop", "stop_sequences"}, {NULL, NULL}};

/* ---- the answer ---- */

/* The endpoint counts tokens that it read from its cache, or put there, separately. */
static void take_usage(tp__openai_answer *answer, tp_text usage) {
  int64_t input = tp__openai_count(usage, "input_tokens");
  int64_t read = tp__openai_count(usage, "cache_read_input_tokens");
  int64_t written = tp__openai_count(usage, "cache_creation_input_tokens");
  int64_t cached = (read > 0 && read < INT32_MAX ? read : 0) + (written > 0 && written < INT32_MAX ? written : 0);
  if (input >= 0 && input < INT64_MAX - cached) input += cached;
  tp__openai_answer_usage(answer, &(tp__openai_usage){.input = input,
                                                      .output = tp__openai_count(usage, "output_tokens"),
                                                      .cache_read = read,
                                                      .cache_write = written});
}

/* A block that begins, or is whole. */
static void take_block(tp__openai_answer *answer, int64_t index, tp_text block) {
  tp_text type = tp__openai_text(block, "type"), input = tp_value_get(block, "input");
  if (tp__is_word(type, "text")) {
    tp__openai_answer_text_given(answer, (tp__openai_spot){index, 0}, tp__openai_text(block, "text"));
  } else if (tp__is_word(type, "tool_use")) {
    tp__openai_answer_call(answer,
                           &(tp__openai_fragment){.index = index,
                                                  .id = tp__openai_text(block, "id"),
                                                  .name = tp__openai_text(block, "name"),
                                                  .arguments = tp_value_text(input), /* of servers that encode it */
                                                  .value = tp_value_count(input) > 0 ? input : (tp_text){NULL, 0},
                                                  .starts = true});
  } else if (tp__is_word(type, "thinking")) {
    tp__openai_block *thinking = tp__openai_answer_block(answer, index, "thinking");
    tp__openai_answer_block_text(answer, thinking, tp__openai_text(block, "thinking"));
    tp__openai_answer_block_signature(answer, thinking, tp__openai_text(block, "signature"));
  } else if (tp__is_word(type, "redacted_thinking")) {
    tp__openai_answer_block_value(answer, tp__openai_answer_block(answer, index, "redacted_thinking"), block);
  } else if (type.size > 0) {
    tp__openai_answer_block_value(answer, tp__openai_answer_block(answer, index, TP__OPENAI_OTHER_BLOCK), block);
  }
}

static void take_start(tp__openai_answer *answer, tp_text event) {
  tp_text message = tp_value_get(event, "message");
  int64_t index = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(message, "content"), &walk); index++)
    take_block(answer, index, walk.value);
  take_usage(answer, tp_value_get(message, "usage"));
}

static void take_block_start(tp__openai_answer *answer, tp_text event) {
  take_block(answer, tp__openai_count(event, "index"), tp_value_get(event, "content_block"));
}

/* Chosen by the members that are present, not by the type, which some servers leave out. */
static void take_delta(tp__openai_answer *answer, tp_text event) {
  tp_text delta = tp_value_get(event, "delta"), json = tp_value_get(delta, "partial_json");
  tp_text thinking = tp__openai_text(delta, "thinking"), signature = tp__openai_text(delta, "signature");
  int64_t index = tp__openai_count(event, "index");
  tp__openai_answer_text(answer, (tp__openai_spot){index, 0}, tp__openai_text(delta, "text"));
  tp__openai_block *other = tp__openai_answer_find_block(answer, index, TP__OPENAI_OTHER_BLOCK);
  if (json.size > 0 && other) tp__openai_answer_block_text(answer, other, tp_value_text(json));
  else if (json.size > 0)
    tp__openai_answer_call(answer,
                           &(tp__openai_fragment){.index = index, .arguments = tp_value_text(json), .value = json});
  if (thinking.size > 0)
    tp__openai_answer_block_text(answer, tp__openai_answer_block(answer, index, "thinking"), thinking);
  if (signature.size > 0)
    tp__openai_answer_block_signature(answer, tp__openai_answer_block(answer, index, "thinking"), signature);
}

static void take_message_delta(tp__openai_answer *answer, tp_text event) {
  tp__openai_answer_stop(answer, NULL, tp__openai_text(tp_value_get(event, "delta"), "stop_reason"));
  take_usage(answer, tp_value_get(event, "usage"));
}

static void take_stop(tp__openai_answer *answer, tp_text event) {
  (void)event;
  answer->done = true;
}

static const tp__openai_event events[] = {
    {"message_start", take_start},
    {"content_block_start", take_block_start},
    {"content_block_delta", take_delta},
    {"message_delta", take_message_delta},
    {"message_stop", take_stop},
    {"error", tp__openai_take_error},
    {NULL, NULL},
};

static bool is_whole_message(tp_text value) {
  return tp_value_kind_of(tp_value_get(value, "content")) == TP_VALUE_ARRAY;
}

static void take_whole(tp__openai_answer *answer, tp_text message) {
  int64_t index = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(message, "content"), &walk); index++)
    take_block(answer, index, walk.value);
  tp__openai_answer_stop(answer, NULL, tp__openai_text(message, "stop_reason"));
  take_usage(answer, tp_value_get(message, "usage"));
  answer->is_whole = true;
}

const tp__openai_form tp__openai_form_messages = {.name = "messages",
                                                  .base_url = "https://api.anthropic.com/v1",
                                                  .path = "/messages",
                                                  .key_env = "ANTHROPIC_API_KEY",
                                                  .key_header = "x-api-key",
                                                  .key_prefix = "",
                                                  .header = "anthropic-version: 2023-06-01",
                                                  .fields = fields,
                                                  .renames = renames,
                                                  .events = events,
                                                  .kinds = 1 << TP_PART_IMAGE | 1 << TP_PART_FILE,
                                                  .file_urls = true,
                                                  .errors_are_text = true,
                                                  .is_whole = is_whole_message,
                                                  .take_whole = take_whole};
