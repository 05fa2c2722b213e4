/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/drive/structured.h"

#include "phases/drive/steps.h"
#include "runtime/exec/blocks.h"
#include "runtime/value/value.h"

enum { ATTEMPTS = 3 };

/* ---- the schema ---- */

/* @param ret_value  in the turn's memory. */
static tp_status decode_json(tp__drive *d, tp_text json, tp_text *ret_value, tp_fault *fault) {
  tp_writer writer;
  tp_text value;
  tp__value_writer_init(&writer, d->arena.allocator);
  tp_status status = tp_json_decode(json, &writer, fault);
  if (status == TP_OK) status = tp_writer_finish(&writer, &value);
  if (status == TP_OK && !tp__arena_text(&d->arena, value, ret_value)) status = TP_ERR_NO_MEMORY;
  tp__value_writer_fini(&writer);
  return status;
}

tp_status tp__structured_take(tp__drive *d, const char *schema_json, tp_fault *fault) {
  tp__structured *s = &d->structured;
  tp_fault why = {.code = TP_OK};
  TP__ASSERT(!s->schema);
  if (!schema_json) return TP_OK;
  tp_status status = decode_json(d, tp_text_of(schema_json), &s->source, &why);
  if (status == TP_OK) status = tp__schema_check_any(s->source, d->arena.allocator, NULL, &why);
  if (status == TP_OK) status = tp__schema_compile(s->source, &d->arena, &s->schema);
  if (status == TP_OK && !tp__arena_text(&d->arena, tp_text_of(schema_json), &s->source_json))
    status = TP_ERR_NO_MEMORY;
  if (status == TP_OK) return TP_OK;
  return tp__fail(fault, status, NULL, "tp_turn_request.answer_schema: %s",
                  why.message[0] ? why.message : tp_status_text(status));
}

tp_text tp__structured_system(tp__drive *d) {
  tp__structured *s = &d->structured;
  if (!s->schema) return d->system;
  if (s->system.data && s->plain_system.data == d->system.data) return s->system;
  s->plain_system = d->system;
  s->system = tp__arena_printf(&d->arena,
                               "%.*s%sYour final answer is one JSON value that fits this JSON Schema, with nothing "
                               "before or after it:\n%.*s",
                               (int)d->system.size, d->system.size ? d->system.data : "", d->system.size ? "\n\n" : "",
                               (int)s->source_json.size, s->source_json.data);
  return s->system;
}

/* ---- the answer ---- */

static bool is_json_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

static tp_text trim_json(tp_text text) {
  while (text.size > 0 && is_json_space(text.data[0])) text = (tp_text){text.data + 1, text.size - 1};
  while (text.size > 0 && is_json_space(text.data[text.size - 1])) text.size--;
  return text;
}

/* Models often put JSON into a code fence, even when told not to. */
static tp_text without_fence(tp_text text) {
  static const char fence[] = "```";
  enum { FENCE = sizeof fence - 1 };
  text = trim_json(text);
  bool is_fenced = text.size > 2 * (size_t)FENCE && memcmp(text.data, fence, FENCE) == 0 &&
                   memcmp(text.data + text.size - FENCE, fence, FENCE) == 0;
  const char *line_end = is_fenced ? memchr(text.data, '\n', text.size - FENCE) : NULL;
  if (!line_end) return text;
  return trim_json((tp_text){line_end + 1, (size_t)(text.data + text.size - FENCE - line_end - 1)});
}

/* What no further request would change. */
static const char *words_of(tp_finish finish) {
  switch ((int)finish) {
    case TP_FINISH_LENGTH:
      return "the answer is cut: it reached the limit of tokens";
    case TP_FINISH_FILTER:
      return "the provider filtered the answer";
    case TP_FINISH_REFUSAL:
      return "the model refused to answer";
    default:
      return NULL;
  }
}

static tp__step fail_structured(tp__drive *d, tp_text reason) {
  tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_BAD_ANSWER,
                 reason.data ? reason : tp_text_of(tp_status_text(TP_ERR_BAD_ANSWER)));
  return TP__STEP_NONE;
}

/* The model reads the error as a message of the role user, which stays in the history. */
static tp__step ask_again(tp__drive *d, const char *why) {
  uint32_t attempts = d->request.answer_attempts ? d->request.answer_attempts : ATTEMPTS;
  if (++d->structured.misses >= attempts)
    return fail_structured(
        d, tp__arena_printf(&d->arena, "the answer does not fit the schema of the turn: %s (%u of %u answers)", why,
                            d->structured.misses, attempts));
  tp_message message = {.role = TP_ROLE_USER,
                        .turn_id = d->turn->core.ids[TP_ID_TURN],
                        .text = tp__arena_printf(&d->arena,
                                                 "The answer does not fit its JSON Schema: %s. Answer again with one "
                                                 "JSON value that fits, and nothing else.",
                                                 why)};
  if (!message.text.data || tp__messages_add(&d->messages, &message) != TP_OK) {
    (void)tp__drive_no_memory(d);
    return TP__STEP_NONE;
  }
  tp__drive_diagnose(d, TP_PHASE_MODEL_POST, TP_SEVERITY_WARNING, tp_text_of("answer.misfit"), "", message.text);
  return TP__STEP_ADDED;
}

/* @param ret_why the error of an answer that does not fit; NULL: no memory. */
static tp_status read_structured(tp__drive *d, char misfit[TP__SCHEMA_MESSAGE_SIZE], const char **ret_why) {
  tp__structured *s = &d->structured;
  tp_fault fault = {.code = TP_OK};
  tp_text json = without_fence(d->response_text), value = {NULL, 0};
  tp_status status = decode_json(d, json, &value, &fault);
  *ret_why = misfit;
  if (status == TP_OK) status = tp__schema_validate_value(s->schema, "answer", value, misfit, TP__SCHEMA_MESSAGE_SIZE);
  else
    *ret_why = tp__arena_printf(&d->arena, "answer: no JSON: %s", json.size > 0 ? fault.message : "it is empty").data;
  if (status == TP_ERR_NO_MEMORY || !*ret_why) return TP_ERR_NO_MEMORY;
  if (status != TP_OK) return TP_ERR_BAD_ANSWER;
  s->json = json;
  s->value = value;
  return TP_OK;
}

tp_status tp__structured_read(tp__drive *d) {
  char misfit[TP__SCHEMA_MESSAGE_SIZE];
  const char *why;
  return d->structured.schema ? read_structured(d, misfit, &why) : TP_OK;
}

tp__step tp__then_check_answer(tp__drive *d) {
  char misfit[TP__SCHEMA_MESSAGE_SIZE];
  const char *why;
  if (!d->structured.schema) return TP__STEP_TURN_STOP;
  const char *words = words_of(d->finish);
  if (words) return fail_structured(d, tp_text_of(words));
  tp_status status = read_structured(d, misfit, &why);
  if (status == TP_ERR_NO_MEMORY) {
    (void)tp__drive_no_memory(d);
    return TP__STEP_NONE;
  }
  if (status != TP_OK) return ask_again(d, why);
  d->structured.misses = 0;
  return TP__STEP_TURN_STOP;
}
