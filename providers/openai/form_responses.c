/* SPDX-License-Identifier: Apache-2.0
 *
 * The Responses API of OpenAI. Nothing is stored at the endpoint (store: false), because the history belongs to the
 * session. */
#include "providers/openai/fit.h"

/* ---- the request ---- */

static void write_responses_text(tp_writer *writer, tp_text text) {
  tp__openai_write_typed(writer, "input_text", "text", text);
}

static void write_image(tp_writer *writer, const tp__openai_media *image) {
  tp__openai_write_typed(writer, "input_image", "image_url", tp__bytes_text(&image->url));
}

static void write_responses_file(tp_writer *writer, const tp__openai_media *file) {
  bool has_data = file->base64.size > 0;
  tp_write_map(writer, has_data ? 3 : 2);
  tp__openai_write_pair(writer, "type", "input_file");
  if (has_data)
    tp__openai_write_pair_text(writer, "filename", file->name.size > 0 ? file->name : tp_text_of("document.pdf"));
  tp__openai_write_pair_text(writer, has_data ? "file_data" : "file_url", tp__bytes_text(&file->url));
}

static const tp__openai_content content_form = {write_responses_text, write_image, NULL, write_responses_file};

static void write_user(tp__openai_draft_request *draft, size_t at) {
  bool is_system = draft->request->messages[at]->role == TP_ROLE_SYSTEM;
  tp_write_map(draft->writer, 2);
  tp__openai_write_pair(draft->writer, "role", is_system ? "system" : "user");
  tp_write_string(draft->writer, "content");
  size_t count = tp__openai_content_count(draft, at);
  tp_write_array(draft->writer, count > 0 ? count : 1);
  tp__openai_write_content(draft, at, &content_form);
  if (count == 0) write_responses_text(draft->writer, (tp_text){"", 0});
}

/* Text and calls are items of their own. */
static size_t items_of(const tp__openai_draft_request *draft, const tp_message *message) {
  if (message->role != TP_ROLE_ASSISTANT) return 1;
  return (message->text.size > 0) + message->call_count + tp__openai_write_given(draft, message, SIZE_MAX, NULL);
}

static void write_assistant(tp__openai_draft_request *draft, const tp_message *message) {
  (void)tp__openai_write_given(draft, message, 0, draft->writer);
  if (message->text.size > 0) {
    tp_write_map(draft->writer, 2);
    tp__openai_write_pair(draft->writer, "role", "assistant");
    tp_write_string(draft->writer, "content");
    tp_write_array(draft->writer, 1);
    tp__openai_write_typed(draft->writer, "output_text", "text", message->text);
  }
  for (size_t i = 0; i <= message->call_count; i++) {
    (void)tp__openai_write_given(draft, message, 1 + i, draft->writer);
    if (i == message->call_count) break;
    tp_write_map(draft->writer, 4);
    tp__openai_write_pair(draft->writer, "type", "function_call");
    tp__openai_write_pair_text(draft->writer, "call_id", message->calls[i]->id);
    tp__openai_write_pair_text(draft->writer, "name", message->calls[i]->name);
    tp_write_string(draft->writer, "arguments");
    tp__openai_write_arguments(draft, message->calls[i]);
  }
}

/* Text, or with parts a list of content. */
static void write_result(tp__openai_draft_request *draft, size_t at) {
  const tp_message *message = draft->request->messages[at];
  tp_write_map(draft->writer, 3);
  tp__openai_write_pair(draft->writer, "type", "function_call_output");
  tp__openai_write_pair_text(draft->writer, "call_id", message->call_id);
  tp_write_string(draft->writer, "output");
  if (tp__openai_part_count(draft, at) == 0) {
    tp_write_text(draft->writer, message->text);
    return;
  }
  tp_write_array(draft->writer, tp__openai_content_count(draft, at));
  tp__openai_write_content(draft, at, &content_form);
}

static void write_input(tp__openai_draft_request *draft) {
  const tp_model_request *request = draft->request;
  size_t count = 0;
  for (size_t i = 0; i < request->message_count; i++) count += items_of(draft, request->messages[i]);
  tp_write_array(draft->writer, count);
  for (size_t i = 0; i < request->message_count; i++) {
    const tp_message *message = request->messages[i];
    if (message->role == TP_ROLE_ASSISTANT) {
      write_assistant(draft, message);
    } else if (message->role == TP_ROLE_TOOL) {
      write_result(draft, i);
    } else {
      write_user(draft, i);
    }
  }
}

static void write_instructions(tp__openai_draft_request *draft) {
  tp_write_text(draft->writer, draft->request->system);
}
static void write_store(tp__openai_draft_request *draft) { tp_write_bool(draft->writer, false); }

/* Models that do not reason refuse requests for their reasoning. */
static bool reasons(const tp__openai_draft_request *draft) {
  static const char *const beginnings[] = {"gpt-5", "o1", "o3", "o4", "codex"};
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
    if (tp__begins(draft->model, beginnings[i])) return true;
  tp_text body = {draft->config->body, draft->config->body_size};
  return tp_value_kind_of(tp_value_get(draft->request->parameters, "reasoning")) == TP_VALUE_MAP ||
         tp_value_kind_of(tp_value_get(body, "reasoning")) == TP_VALUE_MAP;
}

/* Nothing is stored at the endpoint, so the reasoning must come with the answer, and goes back with the message. */
static void write_include(tp__openai_draft_request *draft) {
  tp_write_array(draft->writer, 1);
  tp_write_string(draft->writer, "reasoning.encrypted_content");
}

/* The API makes schemas strict unless it is told not to, and refuses schemas that do not allow that. */
static void write_responses_tools(tp__openai_draft_request *draft) {
  tp_write_array(draft->writer, draft->request->tool_count);
  for (size_t i = 0; i < draft->request->tool_count; i++) {
    const tp_tool *tool = draft->request->tools[i];
    tp_write_map(draft->writer, tp__openai_tool_pairs(tool) + 2);
    tp__openai_write_pair(draft->writer, "type", "function");
    tp__openai_write_tool_pairs(draft, tool, "parameters");
    tp_write_string(draft->writer, "strict");
    tp_write_bool(draft->writer, false);
  }
}

static void write_text_format(tp__openai_draft_request *draft) {
  tp_write_map(draft->writer, 1);
  tp_write_string(draft->writer, "format");
  tp_write_map(draft->writer, 4);
  tp_write_string(draft->writer, "type");
  tp_write_string(draft->writer, "json_schema");
  tp__openai_write_schema_pairs(draft);
}

static const tp__openai_field fields[] = {
    {"model", true, NULL, tp__openai_write_model},
    {"instructions", true, tp__openai_has_system, write_instructions},
    {"input", true, NULL, write_input},
    {"tools", true, tp__openai_has_tools, write_responses_tools},
    {"stream", true, NULL, tp__openai_write_stream},
    {"store", false, NULL, write_store},
    {"include", false, reasons, write_include},
    {"text", false, tp__openai_has_schema, write_text_format},
    {NULL, false, NULL, NULL},
};

static const tp__openai_rename renames[] = {{"max_tokens", "max_output_tokens"}, {"stop", NULL}, {NULL, NULL}};

/* ---- the answer ---- */

static tp__openai_spot spot_of(tp_text event) {
  return (tp__openai_spot){tp__openai_count(event, "output_index"), tp__openai_count(event, "content_index")};
}

static void take_responses_text(tp__openai_answer *answer, tp_text event) {
  tp__openai_answer_text(answer, spot_of(event), tp__openai_text(event, "delta"));
}

/* The text of a part, which may be an answer or a refusal. */
static tp_text part_text(tp_text part) {
  tp_text text = tp__openai_text(part, "text");
  return text.size > 0 ? text : tp__openai_text(part, "refusal");
}

static void take_refusal(tp__openai_answer *answer, tp_text event) {
  tp__openai_answer_refusal(answer, tp__openai_text(event, "delta"), false);
  take_responses_text(answer, event);
}

static void take_text_done(tp__openai_answer *answer, tp_text event) {
  tp__openai_answer_refusal(answer, tp__openai_text(event, "refusal"), true);
  tp__openai_answer_text_whole(answer, spot_of(event), part_text(event));
}

static void take_part_added(tp__openai_answer *answer, tp_text event) {
  tp__openai_answer_text_given(answer, spot_of(event), part_text(tp_value_get(event, "part")));
}

static bool is_text_part(tp_text part) {
  return tp__is_one_of(tp__openai_text(part, "type"), "output_text, refusal, text");
}

static void take_part_done(tp__openai_answer *answer, tp_text event) {
  tp_text part = tp_value_get(event, "part");
  if (is_text_part(part)) tp__openai_answer_text_whole(answer, spot_of(event), part_text(part));
}

typedef void take_text_fn(tp__openai_answer *answer, tp__openai_spot spot, tp_text text);

static void take_message(tp__openai_answer *answer, int64_t index, tp_text item, take_text_fn *take) {
  tp__openai_spot spot = {index, 0};
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(item, "content"), &walk); spot.part++)
    if (is_text_part(walk.value)) {
      tp__openai_answer_refusal(answer, tp__openai_text(walk.value, "refusal"), true);
      take(answer, spot, part_text(walk.value));
    }
}

/* Takes an item that begins, or is complete; in the list of a response, at its index. */
static void take_call(tp__openai_answer *answer, int64_t index, tp_text item, bool is_whole, size_t place) {
  tp_text arguments = tp_value_get(item, "arguments"), id = tp__openai_text(item, "call_id");
  tp__openai_answer_call(answer, &(tp__openai_fragment){.index = index,
                                                        .item = tp__openai_text(item, "id"),
                                                        .id = id,
                                                        .name = tp__openai_text(item, "name"),
                                                        .arguments = tp_value_text(arguments),
                                                        .value = arguments,
                                                        .starts = !is_whole,
                                                        .is_whole = is_whole,
                                                        .place = place});
}

static bool is_call(tp_text item) { return tp__is_word(tp__openai_text(item, "type"), "function_call"); }
static bool is_message(tp_text item) { return tp__is_word(tp__openai_text(item, "type"), "message"); }
static bool is_reasoning(tp_text item) { return tp__is_word(tp__openai_text(item, "type"), "reasoning"); }

static void take_reasoning(tp__openai_answer *answer, int64_t index, tp_text item) {
  tp__openai_answer_block_value(answer, tp__openai_answer_block(answer, index, "reasoning"), item);
}

/* Takes a piece of a summary, or of the reasoning itself, for people. */
static void take_reasoning_text(tp__openai_answer *answer, tp_text event) {
  tp__openai_block *block = tp__openai_answer_block(answer, tp__openai_count(event, "output_index"), "reasoning");
  tp__openai_answer_block_text(answer, block, tp__openai_text(event, "delta"));
}

static void take_item_added(tp__openai_answer *answer, tp_text event) {
  tp_text item = tp_value_get(event, "item");
  int64_t index = tp__openai_count(event, "output_index");
  if (is_call(item)) take_call(answer, index, item, false, 0);
  if (is_message(item)) take_message(answer, index, item, tp__openai_answer_text_given);
}

static void take_item_done(tp__openai_answer *answer, tp_text event) {
  tp_text item = tp_value_get(event, "item");
  int64_t index = tp__openai_count(event, "output_index");
  if (is_call(item)) take_call(answer, index, item, true, 0);
  if (is_message(item)) take_message(answer, index, item, tp__openai_answer_text_whole);
  if (is_reasoning(item)) take_reasoning(answer, index, item);
}

static void take_arguments_of(tp__openai_answer *answer, tp_text event, const char *key, bool is_whole) {
  tp_text arguments = tp_value_get(event, key);
  tp__openai_answer_call(answer, &(tp__openai_fragment){.index = tp__openai_count(event, "output_index"),
                                                        .item = tp__openai_text(event, "item_id"),
                                                        .arguments = tp_value_text(arguments),
                                                        .value = arguments,
                                                        .is_whole = is_whole});
}

static void take_arguments(tp__openai_answer *answer, tp_text event) {
  take_arguments_of(answer, event, "delta", false);
}

static void take_arguments_done(tp__openai_answer *answer, tp_text event) {
  take_arguments_of(answer, event, "arguments", true);
}

/* Takes the items of a response; content that came in events is not added again. */
static void take_output(tp__openai_answer *answer, tp_text output) {
  int64_t index = 0;
  size_t place = 0;
  bool had_reasoning = answer->block_count > 0;
  for (tp_value_walk walk = {0}; tp_value_next(output, &walk); index++) {
    if (is_message(walk.value)) take_message(answer, index, walk.value, tp__openai_answer_text_listed);
    if (is_call(walk.value)) take_call(answer, TP__OPENAI_NO_INDEX, walk.value, true, ++place);
    if (is_reasoning(walk.value) && !had_reasoning) take_reasoning(answer, index, walk.value);
  }
}

static void take_reason(tp__openai_answer *answer, tp_text response) {
  tp_text reason = tp__openai_text(tp_value_get(response, "incomplete_details"), "reason");
  tp_text status = tp__openai_text(response, "status");
  if (tp__is_word(reason, "max_output_tokens")) tp__openai_answer_stop(answer, "max_tokens", reason);
  else if (reason.size > 0) tp__openai_answer_stop(answer, NULL, reason);
  else if (tp__is_word(status, "incomplete")) tp__openai_answer_stop(answer, "max_tokens", status);
  else
    tp__openai_answer_stop(answer, answer->calls.count > 0 ? "tool_use" : "end_turn",
                           status.size > 0 ? status : tp_text_of("completed"));
}

static void take_response(tp__openai_answer *answer, tp_text response) {
  tp_text usage = tp_value_get(response, "usage");
  if (tp_value_kind_of(tp_value_get(response, "error")) == TP_VALUE_MAP ||
      tp__is_word(tp__openai_text(response, "status"), "failed")) {
    tp__openai_take_error(answer, response);
    return;
  }
  if (tp_value_kind_of(tp_value_get(response, "output")) != TP_VALUE_ARRAY && usage.size == 0) return;
  take_output(answer, tp_value_get(response, "output"));
  tp__openai_answer_usage(answer, &(tp__openai_usage){.input = tp__openai_count(usage, "input_tokens"),
                                                      .output = tp__openai_count(usage, "output_tokens"),
                                                      .cache_read = tp__openai_count(
                                                          tp_value_get(usage, "input_tokens_details"), "cached_tokens"),
                                                      .cache_write = -1});
  take_reason(answer, response);
}

static void take_end(tp__openai_answer *answer, tp_text event) {
  take_response(answer, tp_value_get(event, "response"));
  if (answer->failure.code == TP_OK && answer->stop.size == 0) take_reason(answer, (tp_text){NULL, 0});
  answer->done = true;
}

static bool is_whole_response(tp_text value) {
  return tp_value_kind_of(tp_value_get(value, "output")) == TP_VALUE_ARRAY;
}

static void take_whole(tp__openai_answer *answer, tp_text response) {
  take_response(answer, response);
  answer->is_whole = true;
}

static const tp__openai_event events[] = {
    {"response.output_text.delta", take_responses_text},
    {"response.output_text.done", take_text_done},
    {"response.refusal.delta", take_refusal},
    {"response.refusal.done", take_text_done},
    {"response.content_part.added", take_part_added},
    {"response.content_part.done", take_part_done},
    {"response.output_item.added", take_item_added},
    {"response.function_call_arguments.delta", take_arguments},
    {"response.function_call_arguments.done", take_arguments_done},
    {"response.output_item.done", take_item_done},
    {"response.reasoning_summary_text.delta", take_reasoning_text},
    {"response.reasoning_text.delta", take_reasoning_text},
    {"response.completed", take_end},
    {"response.incomplete", take_end},
    {"response.failed", take_end},
    {"response.done", take_end},
    {"error", tp__openai_take_error},
    {NULL, NULL},
};

const tp__openai_form tp__openai_form_responses = {.name = "responses",
                                                   .base_url = "https://api.openai.com/v1",
                                                   .path = "/responses",
                                                   .key_env = "OPENAI_API_KEY",
                                                   .key_header = "Authorization",
                                                   .key_prefix = "Bearer ",
                                                   .fields = fields,
                                                   .renames = renames,
                                                   .events = events,
                                                   .kinds = 1 << TP_PART_IMAGE | 1 << TP_PART_FILE,
                                                   .file_urls = true,
                                                   .is_whole = is_whole_response,
                                                   .take_whole = take_whole};
