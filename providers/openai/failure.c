/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/check.h"
#include "turnphase/value.h"

enum { SAID_SIZE = 300, EXCERPT_SIZE = 160, SECRET_SIZE_MIN = 4 };

tp_status tp__openai_fail(tp__openai_failure *failure, tp_status code, bool retryable, const char *format, ...) {
  assert(code != TP_OK);
  if (failure->code != TP_OK) return failure->code;
  char message[TP_FAULT_MESSAGE_SIZE + 4];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  failure->code = code;
  failure->retryable = retryable;
  tp__show(failure->message, sizeof failure->message, tp_text_of(message));
  return code;
}

void tp__openai_put_without(tp__bytes *bytes, tp_text text, const char *secret) {
  size_t size = secret ? strlen(secret) : 0;
  size_t from = 0;
  for (size_t at = 0; size >= SECRET_SIZE_MIN && at + size <= text.size;) {
    if (memcmp(text.data + at, secret, size) != 0) {
      at++;
      continue;
    }
    tp__bytes_put(bytes, text.data + from, at - from);
    tp__bytes_put_string(bytes, "[key]");
    from = at += size;
  }
  if (from < text.size) tp__bytes_put(bytes, text.data + from, text.size - from);
}

/* ---- what endpoints say ---- */

/* Codes and types that stand beside an error's message. */
static const struct word {
  const char *word;
  tp_status code;
  bool retryable;
} words[] = {
    {"context_length_exceeded", TP_ERR_CONTEXT_LENGTH, false},
    {"string_above_max_length", TP_ERR_CONTEXT_LENGTH, false},
    {"exceed_context_size_error", TP_ERR_CONTEXT_LENGTH, false},
    {"request_too_large", TP_ERR_CONTEXT_LENGTH, false},
    {"model_context_window_exceeded", TP_ERR_CONTEXT_LENGTH, false},
    {"insufficient_quota", TP_ERR_MODEL, false},
    {"billing_hard_limit_reached", TP_ERR_MODEL, false},
    {"rate_limit_exceeded", TP_ERR_MODEL, true},
    {"rate_limit_error", TP_ERR_MODEL, true},
    {"overloaded_error", TP_ERR_MODEL, true},
    {"server_error", TP_ERR_MODEL, true},
    {"api_error", TP_ERR_MODEL, true},
    {"timeout_error", TP_ERR_MODEL, true},
};

/* Where no code says it: phrases of messages. Only a refusal of the request is looked at. */
static const char *const too_long[] = {
    "maximum context length",
    "context length exceeded",
    "prompt is too long",
    "exceed context limit",
    "exceeds the context window",
    "context window exceeded",
    "exceeds the available context size",
    "input is too long",
    "too many input tokens",
    "reduce the length of the messages",
};

static const struct row {
  long status;
  bool retryable;
  const char *remedy;
} rows[] = {
    {400, false, "the endpoint does not take the request: compare parameters and body with its documentation"},
    {401, false, "the key was refused: check key_env or key_file"},
    {403, false, "the key may not do this: check its permissions"},
    {404, false, "check base_url, api and the model's name"},
    {405, false, "check base_url and api"},
    {408, true, "try again"},
    {413, false, "send less"},
    {415, false, "check base_url and api"},
    {422, false, "the endpoint does not take the request: compare parameters and body with its documentation"},
    {429, true, "send fewer requests, or ask for a higher limit"},
    {500, true, "try again"},
    {502, true, "try again"},
    {503, true, "try again"},
    {504, true, "try again"},
    {529, true, "the endpoint is overloaded: try again"},
};

static const struct row *row_of(long status) {
  static const struct row unknown = {0, false, "check base_url and api"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].status == status) return &rows[i];
  return &unknown;
}

static const struct word *word_of(tp_text code, tp_text type) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (tp__is_word(code, words[i].word)) return &words[i];
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (tp__is_word(type, words[i].word)) return &words[i];
  return NULL;
}

static bool says_too_long(tp_text message) {
  for (size_t i = 0; i < sizeof too_long / sizeof *too_long; i++)
    if (tp__contains(message, too_long[i])) return true;
  return false;
}

/* The shapes: {"error": {"message", "type", "code"}}, {"error": "…"}, {"message", "type", "code"}, {"detail": "…"}. */
static void read_error(tp_text value, tp_text *ret_message, tp_text *ret_code, tp_text *ret_type) {
  tp_text error = tp_value_get(value, "error");
  bool is_text = tp_value_kind_of(error) == TP_VALUE_TEXT;
  if (tp_value_kind_of(error) != TP_VALUE_MAP) error = value;
  *ret_message = is_text ? tp_value_text(tp_value_get(value, "error")) : tp_value_text(tp_value_get(error, "message"));
  if (ret_message->size == 0) *ret_message = tp_value_text(tp_value_get(error, "detail"));
  *ret_code = tp_value_text(tp_value_get(error, "code"));
  *ret_type = tp_value_text(tp_value_get(error, "type"));
}

static void fail_with(tp__openai_failure *failure, const char *place, long status, tp_text message, tp_text code,
                      tp_text type, const char *secret) {
  const struct row *row = row_of(status);
  const struct word *word = word_of(code, type);
  tp__bytes said = {0};
  char shown[SAID_SIZE];
  tp_status which = word ? word->code : TP_ERR_MODEL;
  bool retryable = word ? word->retryable : row->retryable;
  if (status >= 500) retryable = row->retryable || (word && word->retryable);
  if ((!word || which == TP_ERR_MODEL) && (status == 0 || (status >= 400 && status < 429)) && says_too_long(message))
    which = TP_ERR_CONTEXT_LENGTH;
  if (which == TP_ERR_CONTEXT_LENGTH) retryable = false;
  const char *remedy = which == TP_ERR_CONTEXT_LENGTH ? "shorten the history or the tools"
                       : word && !word->retryable     ? "check the account that the key belongs to"
                       : status == 0 && retryable     ? "try again"
                       : status == 0                  ? "see the documentation of the endpoint"
                                                      : row->remedy;
  tp__openai_put_without(&said, message, secret);
  if (code.size > 0 || type.size > 0) {
    tp__bytes_put_string(&said, " (");
    tp__openai_put_without(&said, code.size > 0 ? code : type, secret);
    tp__bytes_put_string(&said, ")");
  }
  tp__show(shown, sizeof shown, tp__bytes_text(&said));
  tp__bytes_fini(&said);
  (void)tp__openai_fail(failure, which, retryable, "%s: %s; %s", place, shown[0] ? shown : "no reason was given",
                        remedy);
}

void tp__openai_fail_value(tp__openai_failure *failure, const char *place, long status, tp_text value,
                           const char *secret) {
  tp_text message, code, type;
  read_error(value, &message, &code, &type);
  fail_with(failure, place, status, message, code, type, secret);
}

void tp__openai_fail_said(tp__openai_failure *failure, const char *place, long status, tp_text body,
                          const char *secret) {
  tp_writer *writer;
  tp_text value = {NULL, 0};
  if (tp_writer_new(tp__heap, &writer) != TP_OK) {
    (void)tp__openai_fail(failure, TP_ERR_NO_MEMORY, false, "%s, and no memory to read why", place);
    return;
  }
  if (tp_json_decode(body, writer, NULL) == TP_OK && tp_writer_finish(writer, &value) == TP_OK &&
      tp_value_kind_of(value) == TP_VALUE_MAP) {
    tp__openai_fail_value(failure, place, status, value, secret);
  } else {
    tp__bytes clean = {0};
    tp__openai_put_without(&clean, body, secret);
    if (clean.size > EXCERPT_SIZE) clean.size = EXCERPT_SIZE;
    fail_with(failure, place, status, tp__bytes_text(&clean), (tp_text){NULL, 0}, (tp_text){NULL, 0}, NULL);
    tp__bytes_fini(&clean);
  }
  tp_writer_free(writer);
}
