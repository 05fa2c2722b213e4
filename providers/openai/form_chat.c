/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat completions: of OpenAI, and of the many servers that are compatible with it. Differences of these servers are
 * accepted: no index in tool calls, content as a list of parts, no [DONE], usage in an event of its own or in the last
 * event. */
#include <string.h>

#include "providers/openai/fit.h"
#include "providers/openai/given.h"
#include "runtime/base/check.h"

/* ---- the request ---- */

static void write_chat_text(tp_writer *writer, tp_text text) { tp__openai_write_typed(writer, "text", "text", text); }

static void write_image(tp_writer *writer, const tp__openai_media *image) {
  tp_write_map(writer, 2);
  tp__openai_write_pair(writer, "type", "image_url");
  tp_write_string(writer, "image_url");
  tp_write_map(writer, 1);
  tp__openai_write_pair_text(writer, "url", tp__bytes_text(&image->url));
}

static void write_audio(tp_writer *writer, const tp__openai_media *audio) {
  bool is_wav = memcmp(audio->media.data, "audio/wav", 9) == 0;
  tp_write_map(writer, 2);
  tp__openai_write_pair(writer, "type", "input_audio");
  tp_write_string(writer, "input_audio");
  tp_write_map(writer, 2);
  tp__openai_write_pair_text(writer, "data", audio->base64);
  tp__openai_write_pair(writer, "format", is_wav ? "wav" : "mp3");
}

static void write_chat_file(tp_writer *writer, const tp__openai_media *file) {
  tp_write_map(writer, 2);
  tp__openai_write_pair(writer, "type", "file");
  tp_write_string(writer, "file");
  tp_write_map(writer, 2);
  tp__openai_write_pair_text(writer, "filename", file->name.size > 0 ? file->name : tp_text_of("document.pdf"));
  tp__openai_write_pair_text(writer, "file_data", tp__bytes_text(&file->url));
}

static const tp__openai_content content_form = {write_chat_text, write_image, write_audio, write_chat_file};

static bool is_user(const tp__openai_draft_request *draft, size_t at) {
  return at < draft->request->message_count && draft->request->messages[at]->role == TP_ROLE_USER;
}

/* The consecutive messages of the user from `from` on are sent as one message, because the templates of many models
 * require alternating roles.
 * @return the index after them. */
static size_t users_end(const tp__openai_draft_request *draft, size_t from) {
  size_t end = from + 1;
  while (is_user(draft, end)) end++;
  return end;
}

static void write_user_text(tp__openai_draft_request *draft, size_t from, size_t end) {
  tp__bytes_clear(&draft->scratch);
  for (size_t i = from; i < end; i++) {
    if (draft->scratch.size > 0) tp__bytes_put_string(&draft->scratch, "\n\n");
    tp__bytes_put_text(&draft->scratch, draft->request->messages[i]->text);
  }
  if (draft->scratch.failed) draft->status = TP_ERR_NO_MEMORY;
  tp_write_text(draft->writer, tp__bytes_text(&draft->scratch));
}

/* Without other parts the content is plain text, because some servers accept nothing else. */
static void write_users(tp__openai_draft_request *draft, size_t from, size_t end) {
  size_t parts = 0, content = 0;
  for (size_t i = from; i < end; i++) {
    parts += tp__openai_part_count(draft, i);
    content += tp__openai_content_count(draft, i);
  }
  tp_write_map(draft->writer, 2);
  tp__openai_write_pair(draft->writer, "role", "user");
  tp_write_string(draft->writer, "content");
  if (parts == 0) {
    write_user_text(draft, from, end);
    return;
  }
  tp_write_array(draft->writer, content);
  for (size_t i = from; i < end; i++) tp__openai_write_content(draft, i, &content_form);
}

/* ---- data that the provider gave with a message: fields of the message, and further content of its calls ---- */

/* The row of a call: by its id, which the call may have got later; else by its index. */
static tp_text given_with_call(tp_text data, const tp_message *message, size_t place) {
  tp_text rows = tp_value_get(data, "calls"), by_place = {NULL, 0};
  size_t count = tp_value_count(rows), i = 0;
  for (tp_value_walk walk = {0}; tp_value_next(rows, &walk); i++) {
    tp_text id = tp__openai_text(walk.value, "id");
    if (id.size > 0 && tp__same(id, message->calls[place]->id)) return tp_value_get(walk.value, "extra");
    if (id.size == 0 && i == place && count == message->call_count) by_place = tp_value_get(walk.value, "extra");
  }
  return by_place;
}

static void write_pairs(tp_writer *writer, tp_text map) {
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    tp_write_text(writer, walk.key);
    tp_write_value(writer, walk.value);
  }
}

/* A model that thinks requires reasoning in each of its messages, also in those that had none. */
static void write_assistant(tp__openai_draft_request *draft, const tp_message *message) {
  tp_text data = tp__openai_own_data(draft->config, message), fields = tp_value_get(data, "fields");
  bool fills = draft->fit->thinks && tp__openai_text(fields, "reasoning_content").size == 0;
  if (tp_value_kind_of(fields) != TP_VALUE_MAP) fields = (tp_text){NULL, 0};
  tp_write_map(draft->writer, (message->call_count > 0 ? 3 : 2) + tp_value_count(fields) + fills);
  tp__openai_write_pair(draft->writer, "role", "assistant");
  tp_write_string(draft->writer, "content");
  if (message->text.size == 0) tp_write_null(draft->writer);
  else tp_write_text(draft->writer, message->text);
  write_pairs(draft->writer, fields);
  if (fills) tp__openai_write_pair(draft->writer, "reasoning_content", " ");
  if (message->call_count == 0) return;
  tp_write_string(draft->writer, "tool_calls");
  tp_write_array(draft->writer, message->call_count);
  for (size_t i = 0; i < message->call_count; i++) {
    const tp_tool_call *call = message->calls[i];
    tp_text extra = given_with_call(data, message, i);
    tp_write_map(draft->writer, 3 + tp_value_count(extra));
    tp__openai_write_pair_text(draft->writer, "id", call->id);
    tp__openai_write_pair(draft->writer, "type", "function");
    tp_write_string(draft->writer, "function");
    tp_write_map(draft->writer, 2);
    tp__openai_write_pair_text(draft->writer, "name", call->name);
    tp_write_string(draft->writer, "arguments");
    tp__openai_write_arguments(draft, call);
    write_pairs(draft->writer, extra);
  }
}

/* ---- results: the API accepts only text in them, so a message of the user directly after them has the media ---- */

static bool is_result(const tp__openai_draft_request *draft, size_t at) {
  return at < draft->request->message_count && draft->request->messages[at]->role == TP_ROLE_TOOL;
}

static size_t media_count(const tp__openai_draft_request *draft, size_t at) {
  size_t count = 0;
  for (size_t i = draft->first_part[at]; i < draft->first_part[at + 1]; i++) count += draft->parts[i].media != NULL;
  return count;
}

/* Writes a result as text; each part gets a line, also a part whose content follows in the next message. */
static void write_result_text(tp__openai_draft_request *draft, size_t at) {
  assert(is_result(draft, at));
  tp__bytes *text = &draft->scratch;
  tp__bytes_clear(text);
  tp__bytes_put_text(text, draft->request->messages[at]->text);
  for (size_t i = draft->first_part[at]; i < draft->first_part[at + 1]; i++) {
    const tp__openai_part *part = &draft->parts[i];
    if (text->size > 0) tp__bytes_put_string(text, "\n");
    if (!part->media) {
      tp__bytes_put_text(text, part->text);
      continue;
    }
    tp__bytes_put_string(text, "[");
    tp__bytes_put_string(text, tp_part_kind_name(part->media->kind));
    if (part->media->name.size > 0) tp__bytes_put_string(text, " ");
    tp__bytes_put_text(text, part->media->name);
    tp__bytes_put_string(text, ": in the message after the results]");
  }
  if (text->failed) draft->status = TP_ERR_NO_MEMORY;
  tp__openai_write_pair_text(draft->writer, "content", tp__bytes_text(text));
}

/* How much content the message after the results up to `end` has; 0: there is no such message. */
static size_t after_results_count(const tp__openai_draft_request *draft, size_t end) {
  size_t count = 0;
  assert(end > 0);
  if (!is_result(draft, end - 1) || is_result(draft, end)) return 0;
  for (size_t i = end; i > 0 && is_result(draft, i - 1); i--) {
    size_t media = media_count(draft, i - 1);
    count += media > 0 ? media + 1 : 0;
  }
  return count;
}

static void write_media_of(tp__openai_draft_request *draft, size_t at) {
  const tp_message *message = draft->request->messages[at];
  tp__bytes_clear(&draft->scratch);
  tp__bytes_put_string(&draft->scratch, "[of the tool's result for call ");
  tp__bytes_put_text(&draft->scratch, message->call_id);
  tp__bytes_put_string(&draft->scratch, ":]");
  if (draft->scratch.failed) draft->status = TP_ERR_NO_MEMORY;
  write_chat_text(draft->writer, tp__bytes_text(&draft->scratch));
  for (size_t i = draft->first_part[at]; i < draft->first_part[at + 1]; i++)
    if (draft->parts[i].media) tp__openai_write_media(draft->writer, draft->parts[i].media, &content_form);
}

static void write_after_results(tp__openai_draft_request *draft, size_t end) {
  size_t count = after_results_count(draft, end), first = end;
  if (count == 0) return;
  while (first > 0 && is_result(draft, first - 1)) first--;
  tp_write_map(draft->writer, 2);
  tp__openai_write_pair(draft->writer, "role", "user");
  tp_write_string(draft->writer, "content");
  tp_write_array(draft->writer, count);
  for (size_t i = first; i < end; i++)
    if (media_count(draft, i) > 0) write_media_of(draft, i);
}

/* The index of the next message that begins a message of the request. */
static size_t next_of(const tp__openai_draft_request *draft, size_t at) {
  return is_user(draft, at) ? users_end(draft, at) : at + 1;
}

/* All system messages become one, at the beginning, because many templates accept no other form. */
static void write_messages(tp__openai_draft_request *draft) {
  const tp_model_request *request = draft->request;
  tp_text system = tp__openai_system(draft);
  size_t count = system.size > 0;
  for (size_t i = 0; i < request->message_count; i = next_of(draft, i))
    count += (request->messages[i]->role != TP_ROLE_SYSTEM) + (after_results_count(draft, i + 1) > 0);
  tp_write_array(draft->writer, count);
  if (system.size > 0) {
    tp_write_map(draft->writer, 2);
    tp__openai_write_pair(draft->writer, "role", "system");
    tp__openai_write_pair_text(draft->writer, "content", system);
  }
  for (size_t i = 0; i < request->message_count; i = next_of(draft, i)) {
    if (is_user(draft, i)) write_users(draft, i, users_end(draft, i));
    else {
      const tp_message *message = draft->request->messages[i];
      if (message->role == TP_ROLE_ASSISTANT) {
        write_assistant(draft, message);
      } else if (message->role == TP_ROLE_TOOL) {
        tp_write_map(draft->writer, 3);
        tp__openai_write_pair(draft->writer, "role", "tool");
        tp__openai_write_pair_text(draft->writer, "tool_call_id", message->call_id);
        write_result_text(draft, i);
      }
    }
    write_after_results(draft, i + 1);
  }
}

static void write_chat_tools(tp__openai_draft_request *draft) {
  tp_write_array(draft->writer, draft->request->tool_count);
  for (size_t i = 0; i < draft->request->tool_count; i++) {
    const tp_tool *tool = draft->request->tools[i];
    tp_write_map(draft->writer, 2);
    tp__openai_write_pair(draft->writer, "type", "function");
    tp_write_string(draft->writer, "function");
    tp_write_map(draft->writer, tp__openai_tool_pairs(tool));
    tp__openai_write_tool_pairs(draft, tool, "parameters");
  }
}

static bool streams(const tp__openai_draft_request *draft) { return draft->streams; }

static void write_stream_options(tp__openai_draft_request *draft) {
  tp_write_map(draft->writer, 1);
  tp_write_string(draft->writer, "include_usage");
  tp_write_bool(draft->writer, true);
}

static void write_response_format(tp__openai_draft_request *draft) {
  tp_write_map(draft->writer, 2);
  tp_write_string(draft->writer, "type");
  tp_write_string(draft->writer, "json_schema");
  tp_write_string(draft->writer, "json_schema");
  tp_write_map(draft->writer, 3);
  tp__openai_write_schema_pairs(draft);
}

static const tp__openai_field fields[] = {
    {"model", true, NULL, tp__openai_write_model},
    {"messages", true, NULL, write_messages},
    {"tools", true, tp__openai_has_tools, write_chat_tools},
    {"stream", true, NULL, tp__openai_write_stream},
    {"stream_options", false, streams, write_stream_options},
    {"response_format", false, tp__openai_has_schema, write_response_format},
    {NULL, false, NULL, NULL},
};

static const tp__openai_rename renames[] = {{NULL, NULL}};

/* ---- the answer ---- */

static void take_usage(tp__openai_answer *answer, tp_text usage) {
  tp__openai_answer_usage(
      answer,
      &(tp__openai_usage){.input = tp__openai_count(usage, "prompt_tokens"),
                          .output = tp__openai_count(usage, "completion_tokens"),
                          .cache_read = tp__openai_count(tp_value_get(usage, "prompt_tokens_details"), "cached_tokens"),
                          .cache_write = -1});
}

static const tp__openai_spot content_spot = {0, 0}, refusal_spot = {0, 1};

static void take_chat_text(tp__openai_answer *answer, tp__openai_spot spot, tp_text text, bool is_whole) {
  if (is_whole) tp__openai_answer_text_whole(answer, spot, text);
  else tp__openai_answer_text(answer, spot, text);
}

static void take_thinking(tp__openai_answer *answer, const char *kind, tp_text thinking, bool is_whole) {
  if (tp_value_kind_of(thinking) == TP_VALUE_ARRAY) { /* parts of text */
    for (tp_value_walk walk = {0}; tp_value_next(thinking, &walk);)
      take_thinking(answer, kind, tp_value_get(walk.value, "text"), is_whole);
    return;
  }
  tp_text text = tp_value_text(thinking);
  tp__openai_block *block = text.size > 0 ? tp__openai_answer_block(answer, 0, kind) : NULL;
  if (block && (!is_whole || block->text.size == 0)) tp__openai_answer_block_text(answer, block, text);
}

/* Text, one part, or a list of parts. */
static void take_content(tp__openai_answer *answer, tp_text content, bool is_whole) {
  tp_value_kind kind = tp_value_kind_of(content);
  if (kind == TP_VALUE_TEXT) take_chat_text(answer, content_spot, tp_value_text(content), is_whole);
  if (kind == TP_VALUE_MAP) {
    tp_text type = tp__openai_text(content, "type");
    if (type.size == 0 || tp__is_one_of(type, "text, output_text"))
      tp__openai_answer_text(answer, content_spot, tp__openai_text(content, "text"));
    else if (tp__is_word(type, "thinking")) take_thinking(answer, "thinking", tp_value_get(content, "thinking"), false);
  }
  if (kind != TP_VALUE_ARRAY || (is_whole && answer->text.size > 0)) return;
  for (tp_value_walk walk = {0}; tp_value_next(content, &walk);)
    if (tp_value_kind_of(walk.value) == TP_VALUE_MAP) take_content(answer, walk.value, false);
}

/* @param place  index from 1 in the list of a whole message; 0: in a delta. */
static void take_call(tp__openai_answer *answer, tp_text call, int64_t index, size_t place) {
  tp_text function = tp_value_get(call, "function");
  if (tp_value_kind_of(function) != TP_VALUE_MAP) function = call;
  tp_text arguments = tp_value_get(function, "arguments");
  tp__openai_answer_call(answer, &(tp__openai_fragment){.index = index,
                                                        .id = tp__openai_text(call, "id"),
                                                        .name = tp__openai_text(function, "name"),
                                                        .arguments = tp_value_text(arguments),
                                                        .value = arguments,
                                                        .is_whole = place > 0,
                                                        .place = place});
  tp__openai_take_extra(answer, call);
}

/* A list, or one call. */
static void take_calls(tp__openai_answer *answer, tp_text calls, bool is_whole) {
  size_t place = 0;
  if (tp_value_kind_of(calls) == TP_VALUE_MAP) take_call(answer, calls, tp__openai_count(calls, "index"), is_whole);
  if (tp_value_kind_of(calls) != TP_VALUE_ARRAY) return;
  for (tp_value_walk walk = {0}; tp_value_next(calls, &walk);) {
    if (tp_value_kind_of(walk.value) != TP_VALUE_MAP) continue;
    place++;
    take_call(answer, walk.value, tp__openai_count(walk.value, "index"), is_whole ? place : 0);
  }
}

/* The API's older form of a single call. Servers that send both forms mean the same call. */
static void take_function_call(tp__openai_answer *answer, tp_text call, bool is_whole) {
  if (tp_value_kind_of(call) != TP_VALUE_MAP) return;
  if (answer->calls.count > 0 && !tp__openai_calls_find(&answer->calls, TP__OPENAI_LEGACY_INDEX, (tp_text){NULL, 0}))
    return;
  take_call(answer, call, TP__OPENAI_LEGACY_INDEX, is_whole);
}

static void take_finish(tp__openai_answer *answer, tp_text reason) {
  static const struct {
    const char *theirs, *ours;
  } reasons[] = {
      {"stop", "end_turn"}, {"length", "max_tokens"}, {"tool_calls", "tool_use"}, {"function_call", "tool_use"}};
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    if (!tp__is_word(reason, reasons[i].theirs)) continue;
    tp__openai_answer_stop(answer, reasons[i].ours, reason);
    return;
  }
  tp__openai_answer_stop(answer, NULL, reason);
}

/** The values of some keys of a map, found in one walk. */
typedef struct pick {
  const char *key;
  tp_text value;
} pick;

static void pick_all(tp_text map, pick *picks, size_t count) {
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);)
    for (size_t i = 0; i < count; i++)
      if (walk.key.size > 0 && walk.key.data[0] == picks[i].key[0] && tp__is_word(walk.key, picks[i].key))
        picks[i].value = walk.value;
}

/* Takes a text: a piece, or the whole. @param ends  it came together with the reason of the end. */
static void take_delta(tp__openai_answer *answer, tp_text delta, bool is_whole, bool ends) {
  enum { CONTENT, REFUSAL, CALLS, FUNCTION, REASONING_CONTENT, REASONING, DETAILS, PICKS };
  pick picks[PICKS] = {[CONTENT] = {.key = "content"},
                       [REFUSAL] = {.key = "refusal"},
                       [CALLS] = {.key = "tool_calls"},
                       [FUNCTION] = {.key = "function_call"},
                       [REASONING_CONTENT] = {.key = "reasoning_content"},
                       [REASONING] = {.key = "reasoning"},
                       [DETAILS] = {.key = "reasoning_details"}};
  pick_all(delta, picks, PICKS);
  take_thinking(answer, "reasoning_content", picks[REASONING_CONTENT].value, is_whole);
  take_thinking(answer, "reasoning", picks[REASONING].value, is_whole);
  tp__openai_take_details(answer, picks[DETAILS].value, is_whole);
  tp__openai_take_message_extra(answer, delta);
  bool repeats = ends && tp__openai_answer_repeats(answer, content_spot, tp_value_text(picks[CONTENT].value));
  take_content(answer, picks[CONTENT].value, is_whole || repeats);
  take_chat_text(answer, refusal_spot, tp_value_text(picks[REFUSAL].value), is_whole);
  tp__openai_answer_refusal(answer, tp_value_text(picks[REFUSAL].value), is_whole);
  take_calls(answer, picks[CALLS].value, is_whole);
  take_function_call(answer, picks[FUNCTION].value, is_whole);
}

static void take_choice(tp__openai_answer *answer, tp_text choice) {
  enum { INDEX, DELTA, MESSAGE, TEXT, FINISH, USAGE, ERROR, PICKS };
  pick picks[PICKS] = {[INDEX] = {.key = "index"}, [DELTA] = {.key = "delta"},          [MESSAGE] = {.key = "message"},
                       [TEXT] = {.key = "text"},   [FINISH] = {.key = "finish_reason"}, [USAGE] = {.key = "usage"},
                       [ERROR] = {.key = "error"}};
  pick_all(choice, picks, PICKS);
  if (tp_value_int(picks[INDEX].value, 0) != 0) return; /* n is 1 */
  if (tp_value_kind_of(picks[ERROR].value) == TP_VALUE_MAP || tp_value_text(picks[ERROR].value).size > 0) {
    tp__openai_take_error(answer, choice);
    return;
  }
  tp_text finish = tp_value_text(picks[FINISH].value);
  if (tp_value_kind_of(picks[DELTA].value) == TP_VALUE_MAP)
    take_delta(answer, picks[DELTA].value, false, finish.size > 0);
  if (tp_value_kind_of(picks[MESSAGE].value) == TP_VALUE_MAP) {
    take_delta(answer, picks[MESSAGE].value, true, false);
    answer->is_whole = true;
  }
  if (picks[DELTA].value.size == 0 && picks[MESSAGE].value.size == 0)
    tp__openai_answer_text(answer, content_spot, tp_value_text(picks[TEXT].value));
  take_finish(answer, finish);
  if (tp_value_kind_of(picks[USAGE].value) == TP_VALUE_MAP) take_usage(answer, picks[USAGE].value);
}

static void take_chunk(tp__openai_answer *answer, tp_text chunk) {
  enum { CHOICES, USAGE, PICKS };
  pick picks[PICKS] = {[CHOICES] = {.key = "choices"}, [USAGE] = {.key = "usage"}};
  pick_all(chunk, picks, PICKS);
  bool has_usage = tp_value_kind_of(picks[USAGE].value) == TP_VALUE_MAP;
  bool has_choices =
      tp_value_kind_of(picks[CHOICES].value) == TP_VALUE_ARRAY && tp_value_count(picks[CHOICES].value) > 0;
  for (tp_value_walk walk = {0}; has_choices && tp_value_next(picks[CHOICES].value, &walk);)
    take_choice(answer, walk.value);
  if (has_usage) take_usage(answer, picks[USAGE].value);
  if (!has_usage && !has_choices) tp__openai_take_unread(answer, chunk);
}

static bool is_whole_chat(tp_text value) {
  tp_text choice = tp_value_at(tp_value_get(value, "choices"), 0);
  return tp_value_kind_of(tp_value_get(choice, "message")) == TP_VALUE_MAP;
}

static const tp__openai_event events[] = {{NULL, take_chunk}, {NULL, NULL}};

const tp__openai_form tp__openai_form_chat = {.name = "chat",
                                              .base_url = "https://api.openai.com/v1",
                                              .path = "/chat/completions",
                                              .key_env = "OPENAI_API_KEY",
                                              .key_header = "Authorization",
                                              .key_prefix = "Bearer ",
                                              .fields = fields,
                                              .renames = renames,
                                              .events = events,
                                              .kinds = 1 << TP_PART_IMAGE | 1 << TP_PART_AUDIO | 1 << TP_PART_FILE,
                                              .is_whole = is_whole_chat,
                                              .take_whole = take_chunk};
