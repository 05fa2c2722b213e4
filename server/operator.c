/* SPDX-License-Identifier: Apache-2.0 */
#include "server/operator.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/live.h"
#include "server/metrics.h"
#include "support/access.h"
#include "support/clock.h"

enum { WAITING_MAX = 64 };

struct tp__operator {
  /* never change */
  pthread_t thread;
  bool has_thread;
  uint64_t listener;
  tp__lock lock;
  tp__lock_condition changed;
  /* under lock */
  tp__operator_request *first, **end;
  size_t waiting;
  bool stops;
};

/* ---- what is counted of turns ---- */

static void count_tool(tp_server *server, const tp_event *event) {
  const tp_tool_result *result = event->tool_result;
  tp_text name = result->name;
  if (result->kind == TP_TOOL_UNKNOWN_TOOL) name = tp_text_of("_unknown"); /* the model made up this name */
  else if (tp__client_tool_has(server, tp_event_data(event, TP_ID_TURN), name)) name = tp_text_of("_client");
  tp__metrics_add(server->metrics, TP__METRIC_tool_calls, name, tp_text_of(tp_tool_result_name(result->kind)), 1);
  if (result->started) tp__metrics_observe(server->metrics, TP__METRIC_tool_duration, name, result->duration_ns);
}

static void count_model(tp_server *server, const tp_event *event) {
  tp__metrics *metrics = server->metrics;
  bool failed = event->status != TP_OK || event->finish == TP_FINISH_ERROR;
  tp__metrics_add(metrics, TP__METRIC_model_requests, event->model, tp_text_of(failed ? "failed" : "ok"), 1);
  tp__metrics_observe(metrics, TP__METRIC_model_duration, event->model, event->ended_ns - event->started_ns);
  if (event->input_tokens > 0)
    tp__metrics_add(metrics, TP__METRIC_model_tokens, event->model, tp_text_of("input"), (uint64_t)event->input_tokens);
  if (event->output_tokens > 0)
    tp__metrics_add(metrics, TP__METRIC_model_tokens, event->model, tp_text_of("output"),
                    (uint64_t)event->output_tokens);
}

static void count_run(tp_server *server, const tp_run_record *run) {
  tp_text handler = tp_text_of(run->subscription);
  if (strcmp(run->subscription, server->tools_hook) == 0) handler = tp_text_of("server.tools");
  if (strcmp(run->subscription, server->calls_hook) == 0) handler = tp_text_of("server.calls");
  tp__metrics_add(server->metrics, TP__METRIC_handler_runs, handler, tp_text_of(tp_state_name((tp_state)run->state)),
                  1);
  bool answered = run->state != TP_STATE_BACKGROUNDED && run->state != TP_STATE_SKIPPED;
  if (answered && run->started_ns > 0 && run->ended_ns > 0)
    tp__metrics_observe(server->metrics, TP__METRIC_handler_duration, handler, run->ended_ns - run->started_ns);
}

const char *tp__server_status_word(tp_status status) {
  switch (status) {
    case TP_OK:
      return "ok";
    case TP_ERR_DENIED:
      return "denied";
    case TP_ERR_CANCELLED:
      return "cancelled";
    case TP_ERR_TIMEOUT:
      return "timed_out";
    default:
      return "failed";
  }
}

static void count_phase(tp_server *server, const tp_event *event) {
  const tp_phase *phase = tp_phase_get(server->runtime, event->phase);
  tp_text name = tp_text_of(phase ? phase->name : "");
  tp__metrics_add(server->metrics, TP__METRIC_phase_runs, name, tp_text_of(tp__server_status_word(event->status)), 1);
  tp__metrics_observe(server->metrics, TP__METRIC_phase_duration, name, event->ended_ns - event->started_ns);
}

/* Counts a turn. A turn without an agent is not one of a client. */
static void count_turn(tp_server *server, const tp_event *event) {
  tp_text agent = event->id_count > TP_ID_AGENT ? event->ids[TP_ID_AGENT] : (tp_text){0};
  if (event->started_ns > 0)
    tp__metrics_observe(server->metrics, TP__METRIC_turn_duration, (tp_text){0}, event->ended_ns - event->started_ns);
  if (agent.size > 0)
    tp__metrics_add(server->metrics, TP__METRIC_agent_turns, agent, tp_text_of(tp__server_status_word(event->status)),
                    1);
}

static void watch_event(void *ctx, const tp_event *event) {
  tp_server *server = ctx;
  static const tp_text none = {0};
  if (server->live) tp__live_event(server->live, event);
  switch (event->kind) {
    case TP_EVENT_TURN_END:
      count_turn(server, event);
      break;
    case TP_EVENT_PHASE_END:
      count_phase(server, event);
      break;
    case TP_EVENT_RUN:
      count_run(server, event->run);
      break;
    case TP_EVENT_MODEL_END:
      count_model(server, event);
      break;
    case TP_EVENT_TOOL_END:
      count_tool(server, event);
      break;
    case TP_EVENT_QUESTION:
      tp__metrics_add(server->metrics, TP__METRIC_questions, none, none, 1);
      break;
    default:
      break;
  }
}

#define BIT(kind) (UINT64_C(1) << TP_EVENT_##kind)
#define COUNTED (BIT(TURN_END) | BIT(PHASE_END) | BIT(RUN) | BIT(MODEL_END) | BIT(TOOL_END) | BIT(QUESTION))

static void let_go(void *ctx) { tp__server_unref(ctx); }

static tp_status listen_for(tp_server *server, tp_fault *fault) {
  const tp_listener listener = {.struct_size = sizeof listener,
                                .on_event = watch_event,
                                .ctx = server,
                                .destroy = let_go,
                                .kinds = COUNTED | (server->live ? tp__live_kinds() : 0)};
  tp__references_ref(&server->refs);
  tp_status status = tp_runtime_listen(server->runtime, &listener, &server->operators->listener, fault);
  if (status != TP_OK) tp__server_unref(server);
  return status;
}

/* ---- the thread ---- */

static void request_free(tp__operator_request *r) {
  tp__bytes_fini(&r->body);
  tp__heap_free(r, sizeof *r);
}

static void *run(void *ctx) {
  tp_server *server = ctx;
  tp__operator *o = server->operators;
  tp__lock_acquire(&o->lock);
  while (o->first || !o->stops) {
    tp__operator_request *r = o->first;
    if (!r) {
      tp__lock_condition_wait(&o->changed, &o->lock);
      continue;
    }
    o->first = r->next;
    if (!o->first) o->end = &o->first;
    o->waiting--;
    tp__lock_release(&o->lock);
    r->answer(server, r);
    request_free(r);
    tp__lock_acquire(&o->lock);
  }
  tp__lock_release(&o->lock);
  return NULL;
}

void tp__operator_pass(tp_server *server, tp__http_request *request, tp__operator_fn answer) {
  tp__operator *o = server->operators;
  tp__operator_request *r = tp__heap_alloc(sizeof *r);
  if (r) {
    r->request = request;
    r->answer = answer;
    r->open_metrics = tp__metrics_prefers_open(tp__http_header(request, "Accept"));
    tp__bytes_put_text(&r->body, tp__http_body(request));
  }
  tp__lock_acquire(&o->lock);
  bool fits = r && !r->body.failed && o->waiting < WAITING_MAX;
  if (fits) {
    *o->end = r;
    o->end = &r->next;
    o->waiting++;
    tp__lock_condition_signal(&o->changed);
  }
  tp__lock_release(&o->lock);
  if (fits) return;
  tp__refusal refusal;
  if (r) request_free(r);
  (void)tp__refusal_fill(&refusal, 503, "overloaded", NULL, "too many requests of operators wait");
  tp__refusal_answer(&refusal, request);
}

tp_status tp__operator_start(tp_server *server, tp_fault *fault) {
  tp__operator *o = server->operators = tp__heap_alloc(sizeof *o);
  server->metrics = tp__metrics_new();
  if (o) {
    o->end = &o->first;
    tp__lock_init(&o->lock, TP__LOCK_operator);
    tp__lock_condition_init(&o->changed);
  }
  bool has_live = server->operator_keys[0] != NULL;
  if (has_live) server->live = tp__live_new(server->runtime);
  if (has_live) tp__page_make(&server->page, &server->page_policy);
  server->started_ms = tp__wall_ms();
  bool failed =
      !o || !server->metrics || (has_live && !server->live) || server->page.failed || server->page_policy.failed;
  if (failed) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the server");
  tp_status status = listen_for(server, fault);
  if (status != TP_OK) return status;
  int error = tp__thread_spawn(&o->thread, run, server);
  o->has_thread = error == 0;
  return error == 0 ? TP_OK : tp__refuse_errno(fault, TP_ERR_NO_THREAD, NULL, error, "no thread for operators");
}

void tp__operator_unlisten(tp_server *server) {
  if (server->operators && server->operators->listener)
    (void)tp_runtime_unlisten(server->runtime, server->operators->listener, NULL);
}

void tp__operator_stop(tp_server *server) {
  tp__operator *o = server->operators;
  if (!o || !o->has_thread) return;
  tp__lock_acquire(&o->lock);
  o->stops = true;
  tp__lock_condition_signal(&o->changed);
  tp__lock_release(&o->lock);
  pthread_join(o->thread, NULL);
  o->has_thread = false;
}

void tp__operator_free(tp__operator *o) {
  if (!o) return;
  assert(!o->first && !o->has_thread);
  tp__lock_condition_fini(&o->changed);
  tp__lock_fini(&o->lock);
  tp__heap_free(o, sizeof *o);
}

/* ---- who may ---- */

/* Whether a request comes from another site. A browser sends a header with the site; without it the origin decides. */
static bool is_cross_site(const tp__http_request *request) {
  tp_text site = tp__http_header(request, "Sec-Fetch-Site");
  if (site.size > 0) return !tp__is_one_of(site, "same-origin none");
  tp_text origin = tp__http_header(request, "Origin");
  if (origin.size == 0) return false;
  const char *schemes[] = {"http://", "https://"};
  for (size_t i = 0; i < 2; i++) {
    if (!tp__begins(origin, schemes[i])) continue;
    size_t size = strlen(schemes[i]);
    return !tp__same((tp_text){origin.data + size, origin.size - size}, tp__http_header(request, "Host"));
  }
  return true;
}

bool tp__operator_admit(const tp_server *server, const tp__http_request *request, bool reads_only,
                        tp__refusal *refusal) {
  tp_text key = tp__http_header(request, "Authorization");
  char *const *keys = server->operator_keys;
  if (server->is_local && !tp__is_local_host(tp__http_header(request, "Host")))
    return tp__refusal_fill(refusal, 403, "wrong_host", NULL, "this server answers to localhost and 127.0.0.1 only");
  if (is_cross_site(request))
    return tp__refusal_fill(refusal, 403, "cross_site", NULL, "a page of another site has made this request");
  bool clients_need_keys = server->keys[0] || server->options.keys_required;
  if (!keys[0] && reads_only && !clients_need_keys) return true;
  if (!keys[0])
    return tp__refusal_fill(refusal, 403, "no_admin_key", NULL, "this server has no key for operators: set admin_key");
  bool is_bearer = key.size > 7 && strncasecmp(key.data, "Bearer ", 7) == 0;
  if (is_bearer && tp__key_find(keys, (tp_text){key.data + 7, key.size - 7}) == 0) return true;
  return tp__refusal_fill(refusal, 401, "invalid_api_key", NULL,
                          "the operators' key is needed: Authorization: Bearer KEY");
}

/* ---- /metrics ---- */

void tp__operator_metrics(tp_server *server, tp__operator_request *r) {
  const tp__http_field fields[] = {
      {"Content-Type", r->open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                       : "text/plain; version=0.0.4; charset=utf-8"},
      {"Cache-Control", "no-store"},
      {NULL, NULL}};
  tp__metrics_now now = {.runtime.struct_size = sizeof now.runtime};
  tp__bytes out = {0};
  tp_runtime_stats_get(server->runtime, &now.runtime);
  tp__lock_acquire(&server->lock);
  now.http_requests_open = server->turn_count;
  tp__lock_release(&server->lock);
  now.ready = tp__server_unready(server) == NULL;
  tp__metrics_print(server->metrics, &now, r->open_metrics, &out);
  tp__http_answer(r->request, out.failed ? 503 : 200, out.failed ? NULL : fields,
                  out.failed ? (tp_text){0} : tp__bytes_text(&out));
  tp__bytes_fini(&out);
}
