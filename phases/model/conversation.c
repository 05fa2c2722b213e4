/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/model/conversation.h"

#include <stdio.h>

#include "phases/model/parts.h"

enum { MESSAGES_MAX = 100000, CALLS_MAX = 1000, BYTES_MAX = 64 << 20 };

/* The state of the check: the calls of the last assistant message. The messages after it must answer each call. */
typedef struct check {
  const tp_message *const *messages;
  size_t asked_at; /* the assistant message */
  tp_message asked;
  size_t unanswered;
  size_t bytes;
  tp_fault *fault;
} check;

static tp_status read_given_message(const tp_message *theirs, tp_message *message, size_t i, tp_fault *fault) {
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_turn_request.messages[%zu] is NULL", i);
  return tp__options_read(message, sizeof *message, theirs, "tp_message", fault);
}

static tp_status check_message_text(check *c, size_t i, const char *field, tp_text text) {
  c->bytes += text.size;
  if (c->bytes > BYTES_MAX)
    return tp__fail(c->fault, TP_ERR_TOO_LARGE, NULL, "tp_turn_request.messages have more than %d bytes", BYTES_MAX);
  if (tp_utf8_valid(text, NULL)) return TP_OK;
  return tp__fail(c->fault, TP_ERR_UTF8, NULL, "tp_turn_request.messages[%zu].%s is not UTF-8", i, field);
}

static tp_status check_texts(check *c, size_t i, const tp_message *m) {
  TP__TRY(check_message_text(c, i, "text", m->text));
  TP__TRY(check_message_text(c, i, "turn_id", m->turn_id));
  TP__TRY(check_message_text(c, i, "call_id", m->call_id));
  return check_message_text(c, i, "name", m->name);
}

/* A field that a message's role does not have would be lost. */
static tp_status check_role(check *c, size_t i, const tp_message *m) {
  if (m->role < TP_ROLE_USER || m->role > TP_ROLE_SYSTEM || m->role == TP_ROLE_END)
    return tp__fail(c->fault, TP_ERR_USAGE, NULL,
                    "tp_turn_request.messages[%zu].role is %d: it must be user, assistant, tool or system", i,
                    (int)m->role);
  const char *stray = NULL;
  if (m->role != TP_ROLE_ASSISTANT && m->call_count > 0) stray = "calls: only an assistant has some";
  if (m->role != TP_ROLE_TOOL && m->call_id.size > 0) stray = "a call_id: only a tool's result has one";
  if (m->role != TP_ROLE_TOOL && m->name.size > 0) stray = "a name: only a tool's result has one";
  if (m->role != TP_ROLE_TOOL && m->is_error) stray = "is_error: only a tool's result may be one";
  if (m->role != TP_ROLE_TOOL && m->value.size > 0) stray = "a value: only a tool's result has one";
  if (m->role != TP_ROLE_USER && m->role != TP_ROLE_TOOL && m->parts.size > 0)
    stray = "parts: only messages of a user and a tool have some";
  if (m->role != TP_ROLE_ASSISTANT && m->provider_data.size > 0)
    stray = "provider_data: only an assistant's message has some";
  if (!stray) return TP_OK;
  return tp__fail(c->fault, TP_ERR_USAGE, NULL, "tp_turn_request.messages[%zu] has %s", i, stray);
}

static tp_status check_parts(check *c, size_t i, const tp_message *m) {
  char where[64];
  c->bytes += m->parts.size + m->value.size + m->provider_data.size;
  if (c->bytes > BYTES_MAX)
    return tp__fail(c->fault, TP_ERR_TOO_LARGE, NULL, "tp_turn_request.messages have more than %d bytes", BYTES_MAX);
  if (m->value.size > 0 && tp_value_check(m->value, NULL) != TP_OK)
    return tp__fail(c->fault, TP_ERR_MALFORMED, NULL, "tp_turn_request.messages[%zu].value is no well-formed value", i);
  if (m->provider_data.size > 0 &&
      (tp_value_check(m->provider_data, NULL) != TP_OK || tp_value_kind_of(m->provider_data) != TP_VALUE_MAP))
    return tp__fail(c->fault, TP_ERR_MALFORMED, NULL,
                    "tp_turn_request.messages[%zu].provider_data is no well-formed map", i);
  snprintf(where, sizeof where, "tp_turn_request.messages[%zu].parts", i);
  return tp__parts_check(m->parts, where, c->fault);
}

static tp_text call_id_of(const tp_message *m, size_t call) {
  tp_tool_call read;
  return tp__tool_call_read(m->calls[call], &read, NULL) == TP_OK ? read.id : (tp_text){NULL, 0};
}

/* @return the index of the call; call_count: there is none. */
static size_t find_call(const tp_message *m, size_t count, tp_text id) {
  size_t k = 0;
  while (k < count && !tp_text_equal(call_id_of(m, k), id)) k++;
  return k;
}

static tp_status check_call(check *c, size_t i, const tp_message *m, size_t k) {
  tp_tool_call call;
  TP__TRY(tp__tool_call_read(m->calls[k], &call, c->fault));
  TP__TRY(check_message_text(c, i, "calls.id", call.id));
  TP__TRY(check_message_text(c, i, "calls.name", call.name));
  const char *wrong = NULL;
  if (call.id.size == 0) wrong = "has no id, which its result must name";
  else if (find_call(m, k, call.id) < k) wrong = "has the id of another one";
  else if (call.name.size == 0) wrong = "has no name";
  if (wrong) return tp__fail(c->fault, TP_ERR_USAGE, NULL, "tp_turn_request.messages[%zu].calls[%zu] %s", i, k, wrong);
  if (call.malformed) return check_message_text(c, i, "calls.arguments", call.arguments);
  c->bytes += call.arguments.size;
  if (tp_value_check(call.arguments, NULL) == TP_OK) return TP_OK;
  return tp__fail(
      c->fault, TP_ERR_MALFORMED, NULL,
      "tp_turn_request.messages[%zu].calls[%zu].arguments are no well-formed value, and malformed is not set", i, k);
}

static tp_status check_calls(check *c, size_t i, const tp_message *m) {
  if (m->call_count > CALLS_MAX)
    return tp__fail(c->fault, TP_ERR_TOO_LARGE, NULL, "tp_turn_request.messages[%zu] has %zu calls, more than %d", i,
                    m->call_count, CALLS_MAX);
  if (m->call_count > 0 && !m->calls)
    return tp__fail(c->fault, TP_ERR_USAGE, NULL, "tp_turn_request.messages[%zu] has %zu calls, and the list is NULL",
                    i, m->call_count);
  for (size_t k = 0; k < m->call_count; k++) TP__TRY(check_call(c, i, m, k));
  return TP_OK;
}

/* Whether a message between the calls and the message at i has answered this id. These messages were read before. */
static bool is_answered(const check *c, size_t i, tp_text id) {
  tp_message m;
  for (size_t k = c->asked_at + 1; k < i; k++)
    if (read_given_message(c->messages[k], &m, k, NULL) == TP_OK && tp_text_equal(m.call_id, id)) return true;
  return false;
}

static tp_status check_answer(check *c, size_t i, const tp_message *m) {
  const char *wrong = NULL;
  if (find_call(&c->asked, c->asked.call_count, m->call_id) == c->asked.call_count)
    wrong = "of no call in the assistant's message right before the results";
  else if (is_answered(c, i, m->call_id)) wrong = "of a call that has one already";
  if (wrong)
    return tp__fail(c->fault, TP_ERR_USAGE, NULL, "tp_turn_request.messages[%zu] is a result (call_id `%.*s`) %s", i,
                    (int)tp__utf8_cut(m->call_id, TP_ID_BYTES_MAX), m->call_id.size ? m->call_id.data : "", wrong);
  c->unanswered--;
  return TP_OK;
}

/* Called at a message that is no result, and at the end. */
static tp_status check_all_answered(check *c, size_t i) {
  if (c->unanswered == 0) return TP_OK;
  size_t k = 0;
  while (is_answered(c, i, call_id_of(&c->asked, k))) k++;
  tp_text id = call_id_of(&c->asked, k);
  return tp__fail(c->fault, TP_ERR_USAGE, NULL,
                  "tp_turn_request.messages[%zu].calls[%zu] (`%.*s`) has no result: a tool's message with its id must "
                  "follow",
                  c->asked_at, k, (int)tp__utf8_cut(id, TP_ID_BYTES_MAX), id.data);
}

static tp_status check_one(check *c, size_t i) {
  tp_message m;
  TP__TRY(read_given_message(c->messages[i], &m, i, c->fault));
  TP__TRY(check_role(c, i, &m));
  TP__TRY(check_texts(c, i, &m));
  TP__TRY(check_parts(c, i, &m));
  if (m.role == TP_ROLE_TOOL) return check_answer(c, i, &m);
  TP__TRY(check_all_answered(c, i));
  TP__TRY(check_calls(c, i, &m));
  c->asked_at = i;
  c->asked = m;
  c->unanswered = m.call_count;
  return TP_OK;
}

tp_status tp__conversation_check(const tp_message *const *messages, size_t count, tp_fault *fault) {
  if (count > 0 && !messages)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_turn_request: %zu messages are announced, and the list is NULL",
                    count);
  if (count > MESSAGES_MAX)
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "tp_turn_request: %zu messages, more than %d", count, MESSAGES_MAX);
  check c = {.messages = messages, .fault = fault};
  for (size_t i = 0; i < count; i++) TP__TRY(check_one(&c, i));
  return check_all_answered(&c, count);
}

tp_status tp__conversation_copy(const tp_message *const *messages, size_t count, tp__messages *to) {
  tp_message message;
  for (size_t i = 0; i < count; i++) {
    TP__TRY(read_given_message(messages[i], &message, i, NULL));
    message.ending = (tp_text){NULL, 0};
    TP__TRY(tp__messages_add(to, &message));
  }
  return TP_OK;
}
