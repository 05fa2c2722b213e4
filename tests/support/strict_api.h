/* SPDX-License-Identifier: Apache-2.0
 *
 * strict_api: the rules of the three APIs for the conversation in a request, checked like their strictest servers. Each
 * rule names its source. It uses nothing of the library: it reads the JSON of a body.
 *
 *   [chat]      platform.openai.com/docs/api-reference/chat/create, and the error texts of that endpoint
 *   [template]  chat templates of open models (Mistral, Gemma, Llama 2): "Conversation roles must alternate
 *               user/assistant/user/assistant/...", "System message must be at the beginning."
 *   [vllm]      vLLM and llama.cpp parse the arguments of calls in the history
 *   [mistral]   api.mistral.ai: "Unexpected role 'user' after role 'tool'", "Expected last role User or Tool"
 *   [deepseek]  api-docs.deepseek.com, thinking mode: reasoning_content goes back with each message
 *   [messages]  docs.anthropic.com/en/api/messages and .../build-with-claude/extended-thinking
 *   [responses] platform.openai.com/docs/api-reference/responses/create */
#ifndef TEST_STRICT_API_H
#define TEST_STRICT_API_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "turnphase/value.h"

enum { STRICT_IDS_MAX = 512 };

typedef struct strict {
  char why[256]; /* "": the API takes it */
  size_t at;     /* the message */
  tp_text ids[STRICT_IDS_MAX];
  size_t id_count;
} strict;

static inline void strict_refuse(strict *s, const char *why) {
  if (!s->why[0]) snprintf(s->why, sizeof s->why, "message %zu: %s", s->at, why);
}

static inline tp_text strict_text(tp_text map, const char *key) { return tp_value_text(tp_value_get(map, key)); }
static inline bool strict_is(tp_text map, const char *key, const char *word) {
  return tp_text_is(strict_text(map, key), word);
}
static inline bool strict_has(tp_text map, const char *key) {
  tp_value_kind kind = tp_value_kind_of(tp_value_get(map, key));
  return kind != TP_VALUE_NONE && kind != TP_VALUE_NULL;
}

static inline bool strict_blank(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (!strchr(" \t\r\n", text.data[i]) || !text.data[i]) return false;
  return true;
}

static inline bool strict_pattern(tp_text text, size_t bytes_max, const char *more) {
  if (text.size == 0 || text.size > bytes_max) return false;
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!word && !(c && strchr(more, c))) return false;
  }
  return true;
}

/* "Invalid 'tools[0].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'", at most 64 [chat, messages] */
static inline void strict_name(strict *s, tp_text name) {
  if (!strict_pattern(name, 64, "")) strict_refuse(s, "a name does not match ^[a-zA-Z0-9_-]{1,64}$");
}

/* "messages.N.content: `tool_use` ids must be unique" [messages]; the others answer calls by them. */
static inline void strict_new_id(strict *s, tp_text id, size_t bytes_max, const char *more) {
  if (!strict_pattern(id, bytes_max, more)) strict_refuse(s, "an id does not match the pattern");
  for (size_t i = 0; i < s->id_count; i++)
    if (tp_text_equal(s->ids[i], id)) strict_refuse(s, "ids must be unique");
  if (s->id_count < STRICT_IDS_MAX) s->ids[s->id_count++] = id;
}

/* "Failed to parse tool call arguments as JSON" [vllm]; "input: Input should be a valid dictionary" [messages] */
static inline void strict_arguments(strict *s, tp_text json) {
  tp_writer *writer;
  tp_text value = {NULL, 0};
  if (tp_writer_new(NULL, &writer) != TP_OK) return;
  if (tp_json_decode(json, writer, NULL) != TP_OK || tp_writer_finish(writer, &value) != TP_OK ||
      tp_value_kind_of(value) != TP_VALUE_MAP)
    strict_refuse(s, "arguments are no JSON object");
  tp_writer_free(writer);
}

/* Text, or a list of which no text is blank: "text content blocks must be non-empty" [messages]. */
static inline void strict_content(strict *s, tp_text content, bool may_be_empty) {
  if (tp_value_kind_of(content) == TP_VALUE_TEXT) {
    if (!may_be_empty && strict_blank(tp_value_text(content))) strict_refuse(s, "content is empty");
    return;
  }
  if (tp_value_kind_of(content) != TP_VALUE_ARRAY || tp_value_count(content) == 0)
    strict_refuse(s, "content is neither a text nor a list");
  for (tp_value_walk walk = {0}; tp_value_next(content, &walk);) {
    bool is_text = strict_is(walk.value, "type", "text") || strict_is(walk.value, "type", "input_text");
    if (is_text && strict_blank(strict_text(walk.value, "text"))) strict_refuse(s, "a text of the content is empty");
  }
}

/* ---- chat completions ---- */

static inline void strict_chat_calls(strict *s, tp_text calls) {
  for (tp_value_walk walk = {0}; tp_value_next(calls, &walk);) {
    tp_text function = tp_value_get(walk.value, "function");
    /* "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40" [chat] */
    strict_new_id(s, strict_text(walk.value, "id"), 40, "!\"#$%&'()*+,./:;<=>?@[\\]^`{|}~");
    if (!strict_is(walk.value, "type", "function")) strict_refuse(s, "a call has no type");
    strict_name(s, strict_text(function, "name"));
    strict_arguments(s, strict_text(function, "arguments"));
  }
}

/** @param thinks  the server requires its reasoning in each message of the assistant [deepseek] */
static inline void strict_chat(strict *s, tp_text body, bool thinks) {
  tp_text calls = {NULL, 0}, last = {NULL, 0}, turn = {NULL, 0};
  size_t call_count = 0, answered = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(body, "messages"), &walk); s->at++) {
    tp_text m = walk.value, role = strict_text(m, "role");
    if (tp_text_is(role, "tool")) {
      /* "An assistant message with 'tool_calls' must be followed by tool messages responding to each" [chat] */
      tp_text id = {NULL, 0};
      size_t i = 0;
      for (tp_value_walk each = {0}; tp_value_next(calls, &each); i++)
        if (i == answered) id = strict_text(each.value, "id");
      if (!tp_text_equal(id, strict_text(m, "tool_call_id")) || id.size == 0)
        strict_refuse(s, "a tool message does not answer the next call");
      answered++;
      strict_content(s, tp_value_get(m, "content"), false);
      last = role;
      continue;
    }
    if (answered != call_count) strict_refuse(s, "calls without their results");
    call_count = answered = 0;
    calls = (tp_text){NULL, 0};
    if (tp_text_is(role, "system")) {
      if (s->at > 0) strict_refuse(s, "System message must be at the beginning. [template]");
      strict_content(s, tp_value_get(m, "content"), false);
      continue;
    }
    if (last.size == 0 && !tp_text_is(role, "user"))
      strict_refuse(s, "the first message must be the user's [template]");
    if (tp_text_is(role, "user") && tp_text_is(last, "tool")) strict_refuse(s, "user after tool [mistral]");
    if (tp_text_equal(role, turn) && tp_text_is(role, "user")) strict_refuse(s, "roles must alternate [template]");
    if (tp_text_equal(role, last)) strict_refuse(s, "roles must alternate [template]");
    if (tp_text_is(role, "user")) {
      strict_content(s, tp_value_get(m, "content"), false);
    } else if (tp_text_is(role, "assistant")) {
      calls = tp_value_get(m, "tool_calls");
      call_count = tp_value_count(calls);
      bool has_text = !strict_blank(strict_text(m, "content"));
      /* "Assistant message must contain either 'content' or 'tool_calls'!" */
      if (!has_text && call_count == 0) strict_refuse(s, "an assistant's message is empty");
      if (strict_has(m, "tool_calls") && call_count == 0) strict_refuse(s, "tool_calls is empty");
      if (thinks && strict_text(m, "reasoning_content").size == 0)
        strict_refuse(s, "The `reasoning_content` in the thinking mode must be passed back to the API.");
      strict_chat_calls(s, calls);
    } else {
      strict_refuse(s, "a role that there is not");
    }
    if (call_count == 0) turn = role;
    last = role;
  }
  if (answered != call_count) strict_refuse(s, "calls without their results");
  if (!tp_text_is(last, "user") && !tp_text_is(last, "tool"))
    strict_refuse(s, "Expected last role User or Tool [mistral]");
}

/* ---- messages ---- */

static inline void strict_messages(strict *s, tp_text body) {
  tp_text last = {NULL, 0}, uses = {NULL, 0};
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(body, "messages"), &walk); s->at++) {
    tp_text m = walk.value, role = strict_text(m, "role"), content = tp_value_get(m, "content");
    if (last.size == 0 && !tp_text_is(role, "user")) strict_refuse(s, "first message must use the \"user\" role");
    /* "messages: roles must alternate between "user" and "assistant"" */
    if (tp_text_equal(role, last)) strict_refuse(s, "roles must alternate");
    if (tp_value_kind_of(content) != TP_VALUE_ARRAY || tp_value_count(content) == 0)
      strict_refuse(s, "content: at least one block is needed");
    bool is_user = tp_text_is(role, "user"), others = false;
    tp_value_walk asked = {0};
    for (tp_value_walk each = {0}; tp_value_next(content, &each);) {
      tp_text block = each.value;
      if (strict_is(block, "type", "text")) {
        if (strict_blank(strict_text(block, "text"))) strict_refuse(s, "text content blocks must be non-empty");
        others = true;
      } else if (is_user && strict_is(block, "type", "tool_result")) {
        /* "tool_result blocks must be at the beginning", each for a tool_use of the message before, in order here */
        if (others) strict_refuse(s, "tool_result after other content");
        bool found = tp_value_next(uses, &asked);
        while (found && !strict_is(asked.value, "type", "tool_use")) found = tp_value_next(uses, &asked);
        if (!found || !tp_text_equal(strict_text(asked.value, "id"), strict_text(block, "tool_use_id")))
          strict_refuse(s, "unexpected `tool_use_id` found in `tool_result` blocks");
      } else if (!is_user && strict_is(block, "type", "tool_use")) {
        strict_new_id(s, strict_text(block, "id"), 64, "");
        strict_name(s, strict_text(block, "name"));
        if (tp_value_kind_of(tp_value_get(block, "input")) != TP_VALUE_MAP)
          strict_refuse(s, "input: Input should be a valid dictionary");
      } else if (!is_user && strict_is(block, "type", "thinking")) {
        /* "thinking blocks must remain as they were in the original response": with their signature, at the start */
        if (others || strict_text(block, "signature").size == 0) strict_refuse(s, "a thinking block out of its place");
      } else if (!(is_user && (strict_is(block, "type", "image") || strict_is(block, "type", "document")))) {
        strict_refuse(s, "a block that the role cannot have");
      }
    }
    if (is_user) { /* "`tool_use` ids were found without `tool_result` blocks immediately after" */
      bool left = tp_value_next(uses, &asked);
      while (left && !strict_is(asked.value, "type", "tool_use")) left = tp_value_next(uses, &asked);
      if (left) strict_refuse(s, "tool_use without tool_result");
    }
    uses = is_user ? (tp_text){NULL, 0} : content;
    last = role;
  }
  if (!tp_text_is(last, "user")) strict_refuse(s, "the conversation must end with a user message");
}

/* ---- responses ---- */

static inline void strict_responses(strict *s, tp_text body) {
  tp_text open[STRICT_IDS_MAX];
  size_t open_count = 0;
  bool after_reasoning = false;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(body, "input"), &walk); s->at++) {
    tp_text item = walk.value, role = strict_text(item, "role");
    bool is_call = strict_is(item, "type", "function_call"), is_reasoning = strict_is(item, "type", "reasoning");
    bool is_answer = tp_text_is(role, "assistant");
    /* "Item 'rs_…' of type 'reasoning' was provided without its required following item." */
    if (after_reasoning && !is_call && !is_answer && !is_reasoning)
      strict_refuse(s, "reasoning without its following item");
    after_reasoning = is_reasoning;
    if (is_call) {
      strict_new_id(s, strict_text(item, "call_id"), 64, "");
      strict_name(s, strict_text(item, "name"));
      strict_arguments(s, strict_text(item, "arguments"));
      if (open_count < STRICT_IDS_MAX) open[open_count++] = strict_text(item, "call_id");
    } else if (strict_is(item, "type", "function_call_output")) {
      /* "No tool call found for function call output with call_id" */
      size_t i = 0;
      while (i < open_count && !tp_text_equal(open[i], strict_text(item, "call_id"))) i++;
      if (i == open_count) strict_refuse(s, "No tool call found for function call output");
      else open[i] = open[--open_count];
      strict_content(s, tp_value_get(item, "output"), false);
    } else if (is_reasoning) {
      /* with store: false an item is known by its content only */
      if (strict_text(item, "encrypted_content").size == 0) strict_refuse(s, "a reasoning item that is not found");
    } else if (is_answer) {
      if (open_count > 0) strict_refuse(s, "No tool output found for function call");
      tp_text content = tp_value_get(item, "content");
      for (tp_value_walk each = {0}; tp_value_next(content, &each);)
        if (!strict_is(each.value, "type", "output_text") || strict_blank(strict_text(each.value, "text")))
          strict_refuse(s, "an answer is empty, or no output_text");
    } else if (tp_text_is(role, "user") || tp_text_is(role, "system")) {
      if (open_count > 0) strict_refuse(s, "No tool output found for function call");
      strict_content(s, tp_value_get(item, "content"), false);
    } else {
      strict_refuse(s, "an item of no known kind");
    }
  }
  if (open_count > 0) strict_refuse(s, "No tool output found for function call");
  if (after_reasoning) strict_refuse(s, "reasoning without its following item");
}

/* "tools.0.custom.name: String should match pattern", and names must be unique. */
static inline void strict_tools(strict *s, tp_text body, const char *inside) {
  tp_text tools = tp_value_get(body, "tools");
  size_t at = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tools, &walk); at++) {
    tp_text name = strict_text(inside ? tp_value_get(walk.value, inside) : walk.value, "name");
    strict_name(s, name);
    size_t i = 0;
    for (tp_value_walk each = {0}; tp_value_next(tools, &each) && i < at; i++)
      if (tp_text_equal(name, strict_text(inside ? tp_value_get(each.value, inside) : each.value, "name")))
        strict_refuse(s, "Tool names must be unique.");
  }
}

#endif
