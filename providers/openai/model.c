/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c: the library's public functions, and the functions of the models that it makes. A request is written on the
 * thread on which the library calls start. Everything else happens on the I/O thread (io.h). */
#include <stdio.h>
#include <string.h>

#include "providers/openai/call.h"
#include "support/clock.h"

static void fail_token(tp_token token, tp_status status, const char *message) {
  tp_status code = status == TP_ERR_NO_MEMORY || status == TP_ERR_NO_THREAD ? status : TP_ERR_MODEL;
  (void)tp_model_fail(token, code, message, false, NULL);
}

/* Reports the repairs that the API needed in the conversation. The stored history is not changed. */
static void note_repairs(tp_token token, const char *repairs) {
  char text[320];
  snprintf(text, sizeof text, "the request was made fit for its API: %s", repairs);
  (void)!tp_model_note(token, tp_text_of("request.repaired"), tp_text_of(text), NULL); /* a stale token hears nothing */
}

static void start_request(void *ctx, const tp_model_request *request, tp_token token) {
  tp__openai_core *core = ctx;
  tp__bytes body = {0};
  tp__openai_sent sent = {.repairs = ""};
  tp_fault fault = {.code = TP_OK};
  tp_status status = tp__openai_request_write(&core->config, request, &body, &sent, &fault);
  if (status != TP_OK) {
    tp__bytes_fini(&body);
    fail_token(token, status, fault.message);
    return;
  }
  if (sent.repairs[0]) note_repairs(token, sent.repairs);
  status = tp__openai_io_submit(core, request, token, &body, &sent.names);
  if (status != TP_OK) fail_token(token, status, "the request could not be sent: no memory, or no thread");
  else if (!tp_token_open(token)) tp__openai_io_cancel(token); /* it was cancelled before the request was submitted */
}

static void cancel_request(void *ctx, tp_token token) {
  (void)ctx;
  tp__openai_io_cancel(token);
}

static void resume_request(void *ctx, tp_token token) {
  (void)ctx, (void)token;
  tp__openai_io_wake(); /* it asks for each answer that is paused */
}

static void destroy_model(void *ctx) { tp__openai_io_leave(ctx); }

tp_status tp_openai_model_new(const tp_openai_options *options, tp_model **ret_model, tp_fault *fault) {
  if (!ret_model) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_openai_model_new: ret_model is NULL");
  tp__openai_core *core = tp__heap_alloc(sizeof *core);
  if (!core) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a model");
  tp_status status = tp__openai_io_join();
  if (status != TP_OK) {
    tp__heap_free(core, sizeof *core);
    return tp__refuse(fault, status, NULL, "libcurl cannot be used: curl_global_init() failed");
  }
  core->refs = 1;
  status = tp__openai_config_init(&core->config, options, fault);
  if (status != TP_OK) {
    tp__openai_io_leave(core);
    return status;
  }
  core->face = (tp_model){.struct_size = sizeof core->face,
                          .name = core->config.model ? core->config.model : core->config.form->name,
                          .ctx = core,
                          .start = start_request,
                          .cancel = cancel_request,
                          .destroy = destroy_model,
                          .placement = TP_PLACEMENT_THREAD,
                          .no_tools = core->config.no_tools,
                          .delivers = true,
                          .provider = core->config.place,
                          .resume = resume_request};
  tp__openai_rate_init(&core->requests, core->config.requests_per_minute, tp__monotonic_ns());
  tp__openai_rate_init(&core->tokens, core->config.tokens_per_minute, tp__monotonic_ns());
  *ret_model = &core->face;
  return TP_OK;
}

tp_status tp_openai_stats_get(tp_openai_stats *stats) {
  tp_openai_stats ours;
  size_t size;
  if (!stats) return TP_ERR_VERSION;
  memcpy(&size, stats, sizeof size);
  if (size < sizeof size || size > 4096 || size % sizeof size != 0) return TP_ERR_VERSION;
  tp__openai_io_stats(&ours);
  memcpy((char *)stats + sizeof size, (const char *)&ours + sizeof size,
         (size < sizeof ours ? size : sizeof ours) - sizeof size);
  return TP_OK;
}
