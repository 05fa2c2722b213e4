/* SPDX-License-Identifier: Apache-2.0
 *
 * fallback.c: chooses a model from the session's list (docs/decisions/fallback.md). If the list has one model, no
 * breaker is used. For the turn's owner only. */
#include <stdio.h>

#include "phases/drive/breaker.h"
#include "phases/drive/steps.h"
#include "runtime/plan/registry.h"

static bool has_next(const tp__drive *d) { return tp__a32_load_relaxed(&d->model_index) < d->models->other_count; }
static tp__breakers *breakers_of(const tp__drive *d) { return tp__layer_breakers(d->session->runtime); }
static const char *provider_of(const tp__drive *d) { return tp__model_provider(tp__drive_model(d)); }
static const char *shown_model_name(const tp_model *model) { return model->name ? model->name : "(unnamed)"; }

/* Whether the end shows that the provider does not work. */
static bool is_down(const tp__model_call *call, tp_status status) {
  return (status != TP_OK && call->retryable) || status == TP_ERR_MODEL_UNAVAILABLE;
}

/* A refusal of the request is an answer, too. An end that came from this side, such as a cancel, says nothing about the
 * provider. */
static bool is_answer(tp_status status) {
  return status == TP_OK || status == TP_ERR_MODEL || status == TP_ERR_CONTEXT_LENGTH;
}

/* ---- what is said of it ---- */

static void report_breaker(tp__drive *d, tp_log_level level, const char *action, tp_status status, const char *detail) {
  tp_runtime *runtime = d->session->runtime;
  tp__audit_row row;
  tp__audit_fill(tp__runtime_registry(runtime), &row, provider_of(d), action, tp_text_of(detail), status, 0);
  tp__audit_of_turn(&row, d->turn->core.ids);
  tp__audit_add(tp__runtime_registry(runtime), &row);
  tp__log(runtime, level, &(tp__log_subject){.status = status, .ids = d->turn->core.ids}, "%s: provider %s: %s", action,
          provider_of(d), detail);
}

static void go_to_next(tp__drive *d, const char *why) {
  const char *from = shown_model_name(tp__drive_model(d));
  tp__a32_add_relaxed(&d->model_index, 1);
  d->model_attempt = 0;
  tp_text text = tp__arena_printf(&d->arena, "model %s is asked in place of %s: %s",
                                  shown_model_name(tp__drive_model(d)), from, why);
  if (!text.data) text = tp_text_of("another model is asked");
  tp__drive_diagnose(d, TP_PHASE_MODEL_PRE, TP_SEVERITY_WARNING, tp_text_of("model.fallback"), NULL, text);
  tp__log(d->session->runtime, TP_LOG_WARNING, &(tp__log_subject){.ids = d->turn->core.ids}, "%.*s", (int)text.size,
          text.data);
}

bool tp_agent_is_reachable(const tp_agent *agent) {
  if (!agent || agent->models.other_count == 0) return true;
  for (size_t i = 0; i <= agent->models.other_count; i++)
    if (!tp__breaker_is_open(tp__layer_breakers(agent->runtime), tp__model_provider(tp__models_at(&agent->models, i)),
                             tp__now_ns()))
      return true;
  return false;
}

/* ---- before and after a request ---- */

void tp__drive_choose_model(tp__drive *d) {
  while (has_next(d) && !tp__breaker_admits(breakers_of(d), provider_of(d), tp__now_ns()))
    go_to_next(d, "its provider has failed several times in a row");
}

void tp__drive_note_answer(tp__drive *d, const tp__model_call *call, tp_status status) {
  char detail[96];
  if (d->models->other_count == 0) return;
  if (is_down(call, status)) {
    uint32_t failures = tp__breaker_failed(breakers_of(d), provider_of(d), tp__now_ns());
    if (failures == 0) return;
    snprintf(detail, sizeof detail, "%u requests in a row failed: it is asked again in %lld ms", failures,
             (long long)(breakers_of(d)->open_ns / TP__NS_PER_MS));
    report_breaker(d, TP_LOG_WARNING, "breaker opened", TP_ERR_MODEL_UNAVAILABLE, detail);
  } else if (is_answer(status)) {
    if (tp__breaker_answered(breakers_of(d), provider_of(d)))
      report_breaker(d, TP_LOG_INFO, "breaker closed", TP_OK, "it answers again");
  }
}

bool tp__drive_ask_again(tp__drive *d, const tp__model_call *call, tp_status status, uint32_t attempts_max) {
  if (!is_down(call, status) || call->any_delta) return false;
  if (call->retryable && d->model_attempt < attempts_max) return true;
  if (!has_next(d)) return false;
  go_to_next(d, call->failure_message ? call->failure_message : tp_status_text(status));
  return true;
}
