/* SPDX-License-Identifier: Apache-2.0
 *
 * provider: a session with a model at the test endpoint, and everything that a host gets from it: deltas, events, logs,
 * each stored as text, so that a test can search for texts that must not be there. */
#ifndef TEST_PROVIDER_H
#define TEST_PROVIDER_H

#include "tests/support/endpoint.h"
#include "tests/support/host.h"
#include "tests/support/streams.h"
#include "turnphase/openai.h"

enum { RECEIVED_SIZE = 1 << 20 };

typedef struct provider {
  endpoint *endpoint;
  tp_runtime *runtime;
  tp_session *session;
  tp_submission *submission;
  const tp_turn_result *result;
  latch delta; /* hit by each delta */
  /* under mutex */
  pthread_mutex_t mutex;
  char *deltas, *received; /* all deltas; texts of all events and logs */
  size_t deltas_size, received_size;
  int64_t input_tokens, output_tokens, cost_micros;
  int tool_runs;
  char arguments[256]; /* of the newest run of the tool */
} provider;

static inline void provider_keep(char *to, size_t *size, tp_text text) {
  if (*size + text.size + 2 > RECEIVED_SIZE) return;
  if (text.size > 0) memcpy(to + *size, text.data, text.size);
  *size += text.size;
  to[*size] = '\0';
}

static inline void provider_receive(provider *p, const char *text) {
  pthread_mutex_lock(&p->mutex);
  provider_keep(p->received, &p->received_size, tp_text_of(text));
  provider_keep(p->received, &p->received_size, tp_text_of("\n"));
  pthread_mutex_unlock(&p->mutex);
}

static inline void provider_log(void *ctx, const tp_log_record *record) { provider_receive(ctx, record->message); }

static inline void provider_event(void *ctx, const tp_event *event) {
  provider *p = ctx;
  pthread_mutex_lock(&p->mutex);
  provider_keep(p->received, &p->received_size, event->text);
  if (event->tool_call) provider_keep(p->received, &p->received_size, event->tool_call->arguments);
  if (event->tool_result) provider_keep(p->received, &p->received_size, event->tool_result->text);
  if (event->contribution) provider_keep(p->received, &p->received_size, event->contribution->text);
  provider_keep(p->received, &p->received_size, tp_text_of("\n"));
  if (event->kind == TP_EVENT_MODEL_DELTA) provider_keep(p->deltas, &p->deltas_size, event->text);
  if (event->kind == TP_EVENT_MODEL_END) {
    p->input_tokens = event->input_tokens;
    p->output_tokens = event->output_tokens;
    p->cost_micros = event->cost_micros;
  }
  pthread_mutex_unlock(&p->mutex);
  if (event->kind == TP_EVENT_MODEL_DELTA) latch_hit(&p->delta);
}

static inline tp_answer provider_tool(void *ctx, tp_tool_run *run) {
  provider *p = ctx;
  pthread_mutex_lock(&p->mutex);
  size_t size = 0;
  p->tool_runs++;
  p->arguments[0] = '\0';
  for (tp_value_walk walk = {0}; tp_value_next(tp_tool_run_arguments(run), &walk);) {
    tp_text value = tp_value_text(walk.value);
    size += (size_t)snprintf(p->arguments + size, sizeof p->arguments - size, "%.*s=%.*s;", (int)walk.key.size,
                             walk.key.data, (int)value.size, value.data ? value.data : "");
  }
  pthread_mutex_unlock(&p->mutex);
  return tp_tool_ok(run, tp_text_of("4 degrees"));
}

static inline tp_answer provider_tools(void *ctx, tp_call *call) {
  static const char schema[] =
      "\x82\xa4type\xa6object\xaaproperties\x81\xa4"
      "city\x81\xa4type\xa6string";
  tp_tool tool = {.struct_size = sizeof tool,
                  .name = "weather",
                  .description = "The weather of a city.",
                  .schema = {schema, sizeof schema - 1},
                  .run = provider_tool,
                  .ctx = ctx,
                  .placement = TP_PLACEMENT_INLINE};
  const tp_tool *const tools[] = {&tool};
  tp_contribution bundle = {.struct_size = sizeof bundle,
                            .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                            .key = TEXT("test"),
                            .tools = tools,
                            .tool_count = 1};
  tp_status status = tp_call_emit(call, &bundle, NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, (uint32_t)status, "no bundle");
}

#ifdef CMOCKA_H_
/* @param options  api, limits and similar; base_url is the endpoint's when it is NULL. */
static inline provider *provider_open(const endpoint_reply *replies, size_t count, const tp_openai_options *options,
                                      bool with_tool) {
  provider *p = calloc(1, sizeof *p);
  tp_openai_options own = options ? *options : (tp_openai_options){0};
  tp_fault fault = {0};
  tp_model *model;
  assert_non_null(p);
  p->deltas = calloc(1, RECEIVED_SIZE);
  p->received = calloc(1, RECEIVED_SIZE);
  p->delta = (latch)LATCH;
  pthread_mutex_init(&p->mutex, NULL);
  p->endpoint = endpoint_open(replies, count);
  own.struct_size = sizeof own;
  if (!own.model) own.model = "m";
  if (!own.base_url) own.base_url = p->endpoint->url;
  if (!own.proxy) own.proxy = "";
  tp_status status = tp_openai_model_new(&own, &model, &fault);
  if (status != TP_OK) fail_msg("no model: %s: %s", tp_status_name(status), fault.message);
  tp_runtime_options runtime_options = {.struct_size = sizeof runtime_options, .log = provider_log, .log_ctx = p};
  p->runtime = open_runtime(&runtime_options);
  const hook tools = {.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = provider_tools, .ctx = p};
  if (with_tool) add_hooks(p->runtime, &tools, 1);
  tp_session_options session = {
      .struct_size = sizeof session, .id = "s", .model = model, .on_event = provider_event, .event_ctx = p};
  assert_int_equal(tp_session_open(p->runtime, &session, &p->session, &fault), TP_OK);
  return p;
}

static inline void provider_submit(provider *p, const tp_turn_request *request) {
  tp_turn_request own = request ? *request : (tp_turn_request){0};
  tp_fault fault = {0};
  own.struct_size = sizeof own;
  if (own.text.size == 0) own.text = tp_text_of("Hi");
  if (p->submission) tp_submission_unref(p->submission);
  p->submission = NULL;
  tp_status status = tp_turn_submit(p->session, &own, NULL, NULL, &p->submission, &fault);
  if (status != TP_OK) fail_msg("not submitted: %s: %s", tp_status_name(status), fault.message);
}

static inline const tp_turn_result *provider_wait(provider *p) {
  tp_fault fault = {0};
  tp_status status;
  do status = tp_submission_wait(p->submission, 60000, &p->result, &fault);
  while (status == TP_ERR_TIMEOUT);
  if (status != TP_OK) fail_msg("not run: %s: %s", tp_status_name(status), fault.message);
  return p->result;
}

static inline const tp_turn_result *provider_turn(provider *p, const tp_turn_request *request) {
  provider_submit(p, request);
  return provider_wait(p);
}

/* After it no connection is open and no thread left. */
static inline void provider_close(provider *p) {
  tp_openai_stats stats = {.struct_size = sizeof stats};
  if (p->submission) tp_submission_unref(p->submission);
  tp_session_close(p->session, NULL, NULL);
  close_runtime(p->runtime);
  assert_int_equal(tp_openai_stats_get(&stats), TP_OK);
  for (int i = 0; i < 5000 && stats.threads > 0; i++) { /* it may be the I/O thread that unrefs the model */
    sleep_ms(1);
    assert_int_equal(tp_openai_stats_get(&stats), TP_OK);
  }
  assert_int_equal(stats.threads, 0);
  assert_int_equal(stats.models, 0);
  endpoint_await_closed(p->endpoint);
  endpoint_close(p->endpoint);
  pthread_mutex_destroy(&p->mutex);
  free(p->deltas);
  free(p->received);
  free(p);
}

#define assert_completed(result, want_text)                                                         \
  do {                                                                                              \
    const tp_turn_result *completed_ = (result);                                                    \
    if (completed_->outcome != TP_TURN_COMPLETED)                                                   \
      fail_msg("%s: %.*s", tp_turn_outcome_name(completed_->outcome), (int)completed_->reason.size, \
               completed_->reason.data);                                                            \
    assert_int_equal(completed_->text.size, strlen(want_text));                                     \
    assert_memory_equal(completed_->text.data, want_text, strlen(want_text));                       \
  } while (0)

/* The turn failed with the code, and its reason has the words. */
#define assert_failed(result, want_code, words)                                                 \
  do {                                                                                          \
    const tp_turn_result *failed_ = (result);                                                   \
    char reason_[1024];                                                                         \
    snprintf(reason_, sizeof reason_, "%.*s", (int)failed_->reason.size, failed_->reason.data); \
    assert_string_equal(tp_turn_outcome_name(failed_->outcome), "failed");                      \
    assert_string_equal(tp_status_name(failed_->code), tp_status_name(want_code));              \
    if (!strstr(reason_, words)) fail_msg("\"%s\" is not in \"%s\"", words, reason_);           \
  } while (0)
#endif

#endif
