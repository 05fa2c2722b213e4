/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/server.h"

static const char *type_of(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

bool tp__refusal_fill(tp__refusal *refusal, unsigned status, const char *code, const char *param, const char *format,
                      ...) {
  va_list arguments;
  assert(status >= 400 && status < 600);
  *refusal = (tp__refusal){.status = status, .type = type_of(status), .code = code, .param = param};
  va_start(arguments, format);
  (void)vsnprintf(refusal->message, sizeof refusal->message, format, arguments);
  va_end(arguments);
  tp__make_printable(refusal->message);
  return false;
}

/* ---- what the runtime returns ---- */

/** The answer for each status of the runtime. */
static const struct row {
  tp_status status;
  unsigned http;
  const char *code;
} rows[] = {
    {TP_ERR_FULL, 429, "rate_limit_exceeded"},
    {TP_ERR_OVER_BUDGET, 429, "insufficient_quota"},
    {TP_ERR_SHUTDOWN, 503, "shutting_down"},
    {TP_ERR_NO_MEMORY, 503, "overloaded"},
    {TP_ERR_BUSY, 409, "session_busy"},
    {TP_ERR_FENCED, 409, "session_taken_over"},
    {TP_ERR_EXISTS, 409, "idempotency_conflict"},
    {TP_ERR_TOO_LARGE, 413, "request_too_large"},
    {TP_ERR_TIMEOUT, 504, "timeout"},
    {TP_ERR_CANCELLED, 499, "cancelled"},
    {TP_ERR_CONTEXT_LENGTH, 400, "context_length_exceeded"},
    {TP_ERR_MAX_REQUESTS, 400, "max_requests"},
    {TP_ERR_MAX_TOOL_CALLS, 400, "max_tool_calls"},
    {TP_ERR_MAX_TOKENS, 400, "max_tokens"},
    {TP_ERR_MAX_COST, 400, "max_cost"},
    {TP_ERR_REPEATED_CALL, 400, "repeated_call"},
    {TP_ERR_MODEL, 502, "model_error"},
    {TP_ERR_MODEL_UNAVAILABLE, 503, "model_unavailable"},
    {TP_ERR_BAD_ANSWER, 502, "bad_answer"},
    {TP_ERR_BAD_ID, 400, "invalid_value"},
    {TP_ERR_USAGE, 400, "invalid_value"},
    {TP_ERR_UTF8, 400, "invalid_value"},
    {TP_ERR_MALFORMED, 400, "invalid_value"},
    {TP_ERR_TOOL_CONFLICT, 400, "tool_conflict"},
    {TP_ERR_BAD_SCHEMA, 400, "invalid_schema"},
};

static void fill_of(tp__refusal *refusal, tp_status status, tp_text words) {
  bool of_store = strcmp(tp_status_category(status), "store") == 0;
  unsigned http = of_store ? 503 : 500;
  const char *code = of_store ? "store_error" : "internal_error";
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].status == status) http = rows[i].http, code = rows[i].code;
  (void)tp__refusal_fill(refusal, http, code, NULL, "%.*s", tp__cut(words, TP_FAULT_MESSAGE_SIZE - 1),
                         words.size > 0 ? words.data : "");
}

void tp__refusal_of_status(tp__refusal *refusal, tp_status status, const tp_fault *fault) {
  const char *words = fault && fault->message[0] ? fault->message : tp_status_text(status);
  assert(status != TP_OK);
  fill_of(refusal, status, tp_text_of(words));
}

/* Fills the refusal for a guard. A required guard that did not answer is no denial, since it is not known whether it
 * would have denied. */
static void fill_of_guard(const tp_runtime *runtime, tp__refusal *refusal, const tp_turn_result *result) {
  const tp_phase *row = tp_phase_get(runtime, result->phase);
  bool denied = result->state == TP_STATE_SUCCEEDED;
  tp_text words = result->bare_reason.size > 0 ? result->bare_reason : result->reason;
  (void)tp__refusal_fill(refusal, denied ? 403 : 503, denied ? "denied" : "guard_failed", NULL, "%.*s",
                         tp__cut(words, TP_FAULT_MESSAGE_SIZE - 1), words.size > 0 ? words.data : "");
  refusal->phase = row ? row->name : NULL;
  (void)tp__copy_cut(refusal->hook, sizeof refusal->hook, result->subscription);
}

void tp__refusal_of_turn(const tp_runtime *runtime, tp__refusal *refusal, const tp_turn_result *result) {
  assert(result->outcome != TP_TURN_COMPLETED);
  tp_status code = result->code != TP_OK ? result->code : TP_ERR_INTERNAL;
  if (result->outcome == TP_TURN_CANCELLED && code != TP_ERR_SHUTDOWN) code = TP_ERR_CANCELLED;
  if (result->outcome == TP_TURN_TIMED_OUT) code = TP_ERR_TIMEOUT;
  if (result->phase && result->outcome != TP_TURN_TIMED_OUT) fill_of_guard(runtime, refusal, result);
  else fill_of(refusal, code, result->reason);
  refusal->ran = result->started_ns != 0 && result->code != TP_ERR_BUSY; /* with TP_ERR_BUSY the turn never had its
                                                                            session */
  refusal->retry_ms = result->retry_ms;
}

/* ---- what is sent ---- */

static void put_member(tp__bytes *out, const char *key, const char *value) {
  tp__bytes_printf(out, ",\"%s\":", key);
  if (value) tp__put_json(out, tp_text_of(value));
  else tp__bytes_put_string(out, "null");
}

void tp__refusal_put(const tp__refusal *refusal, tp__bytes *out) {
  tp__bytes_put_string(out, "{\"error\":{\"message\":");
  tp__put_json(out, tp_text_of(refusal->message));
  put_member(out, "type", refusal->type);
  put_member(out, "param", refusal->param);
  put_member(out, "code", refusal->code);
  if (refusal->hook[0]) put_member(out, "hook", refusal->hook);
  if (refusal->phase) put_member(out, "phase", refusal->phase);
  tp__bytes_put_string(out, "}}");
}

void tp__refusal_answer(const tp__refusal *refusal, tp__http_request *request) {
  tp__http_field fields[5] = {{"Content-Type", "application/json"}};
  size_t count = 1;
  tp__bytes body = {0};
  bool may_repeat = !refusal->ran && (refusal->status == 429 || refusal->status == 503 || refusal->status == 409);
  char seconds[24];
  snprintf(seconds, sizeof seconds, "%llu",
           (unsigned long long)(refusal->retry_ms > 0 ? (refusal->retry_ms - 1) / 1000 + 1 : 1));
  if (may_repeat) fields[count++] = (tp__http_field){"Retry-After", seconds};
  else fields[count++] = (tp__http_field){"x-should-retry", "false"};
  if (refusal->status == 401) fields[count++] = (tp__http_field){"WWW-Authenticate", "Bearer"};
  if (refusal->allow) fields[count++] = (tp__http_field){"Allow", refusal->allow};
  assert(count < sizeof fields / sizeof *fields);
  tp__refusal_put(refusal, &body);
  tp__bytes_put_string(&body, "\n");
  tp__http_answer(request, refusal->status, fields, body.failed ? (tp_text){0} : tp__bytes_text(&body));
  tp__bytes_fini(&body);
}
