/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange: one request of a client that becomes a turn, from the submit to the last byte. The status line is sent with
 * the first piece of the answer, since a guard may still refuse before that, and the client must then read a status.
 *
 * The thread that owns the turn writes pieces; the front's thread notices that the client has left or reads again. Both
 * hold the turn's lock meanwhile. Bytes for which the stream has no space wait in the exchange, and the model's answer
 * is held back until the stream has taken them. A model that does not pause fills the exchange up to TAIL_MAX: then the
 * turn is cancelled. */
#include <stdio.h>
#include <string.h>

#include "server/metrics.h"
#include "server/server.h"
#include "support/clock.h"

enum { TAIL_MAX = 4 << 20, ID_DIGITS = 24 };

/* ---- life ---- */

void tp__server_turn_unref(tp__server_turn *turn) {
  if (!tp__references_unref(&turn->refs)) return;
  assert(!turn->exchange && !turn->hold && !turn->is_listed && !turn->is_waiting);
  tp__client_calls_fini(turn);
  tp_submission_unref(turn->submission);
  tp__bytes_fini(&turn->text);
  tp__bytes_fini(&turn->thinking);
  tp__heap_string_free(turn->session_id);
  tp__lock_fini(&turn->lock);
  tp__heap_free(turn, sizeof *turn);
}

static tp__server_turn *turn_new(tp_server *server, const tp__ask *ask) {
  tp__server_turn *turn = tp__heap_alloc(sizeof *turn);
  if (!turn) return NULL;
  tp__bytes_put_text(&turn->tools_copy, ask->tools);
  if (turn->tools_copy.failed || !tp__server_random(turn->key, TP__TURN_KEY_DIGITS)) {
    tp__bytes_fini(&turn->tools_copy);
    tp__heap_free(turn, sizeof *turn);
    return NULL;
  }
  tp__references_init(&turn->refs);
  tp__lock_init(&turn->lock, TP__LOCK_server_turn);
  turn->server = server;
  turn->tools = tp__bytes_text(&turn->tools_copy);
  turn->holds_text = ask->schema.size > 0;
  (void)tp__copy_cut(turn->previous_id, sizeof turn->previous_id, ask->previous);
  return turn;
}

void tp__exchange_released(void *ctx, void *data) {
  tp__exchange *exchange = data;
  (void)ctx;
  if (!exchange) return;
  assert(!exchange->request);
  tp__server_turn_unref(exchange->turn);
  tp__bytes_fini(&exchange->tail);
  tp__bytes_fini(&exchange->model);
  tp__bytes_fini(&exchange->previous);
  tp__bytes_fini(&exchange->item_text);
  tp__bytes_fini(&exchange->output);
  tp__heap_free(exchange, sizeof *exchange);
}

static void count_done(tp__metrics *metrics, const tp__http_done *done) {
  char status[16];
  tp_text route = tp_text_of(tp__server_route_path(done->route));
  if (route.size == 0) route = tp_text_of("_other");
  snprintf(status, sizeof status, "%u", done->status);
  tp__metrics_add(metrics, TP__METRIC_http_requests, route, tp_text_of(status), 1);
  tp__metrics_add(metrics, TP__METRIC_http_bytes, route, tp_text_of("in"), done->bytes_in);
  tp__metrics_add(metrics, TP__METRIC_http_bytes, route, tp_text_of("out"), done->bytes_out);
  tp__metrics_observe(metrics, TP__METRIC_http_duration, route, done->ended_ns - done->began_ns);
  if (done->answered_ns > 0)
    tp__metrics_observe(metrics, TP__METRIC_http_answered, route, done->answered_ns - done->began_ns);
}

void tp__exchange_done(void *ctx, const tp__http_done *done, void *data) {
  tp_server *server = ctx;
  count_done(server->metrics, done);
  if (!server->options.on_request) return;
  const tp__exchange *exchange = data && !((tp__client *)data)->watches ? data : NULL;
  const tp__server_turn *turn = exchange ? exchange->turn : NULL;
  int64_t duration_ns = done->ended_ns - done->began_ns;
  tp_server_request request = {.struct_size = sizeof request,
                               .unix_ms = tp__wall_ms() - (tp__monotonic_ns() - done->began_ns) / TP__NS_IN_MS,
                               .answered_ns = done->answered_ns ? done->answered_ns - done->began_ns : -1,
                               .duration_ns = duration_ns,
                               .bytes_in = done->bytes_in,
                               .bytes_out = done->bytes_out,
                               .status = done->status,
                               .left = done->left,
                               .route = tp__server_route_path(done->route),
                               .tenant = done->who ? done->who : ""};
  if (turn) {
    request.streams = exchange->streams;
    request.id = tp_text_of(exchange->id);
    request.turn_id = tp_text_of(turn->turn_id);
    request.session = tp_text_of(turn->session_id);
    request.agent = tp_text_of(turn->agent_id);
    request.model = tp__bytes_text(&exchange->model);
    request.input_tokens = exchange->input_tokens;
    request.output_tokens = exchange->output_tokens;
  }
  server->options.on_request(server->options.on_request_ctx, &request);
}

/* Makes an exchange, as the data of its request, with a reference to the turn. The turn has no other exchange. */
static tp__exchange *exchange_new(tp__server_turn *turn, tp__http_request *request, const tp__form *form,
                                  const char *prefix, const tp__ask *ask) {
  char digits[ID_DIGITS + 1];
  tp__exchange *exchange = tp__heap_alloc(sizeof *exchange);
  if (!exchange) return NULL;
  exchange->turn = turn;
  exchange->form = form;
  exchange->streams = ask->streams;
  exchange->wants_usage = ask->wants_usage;
  exchange->created = tp__wall_ms() / 1000;
  exchange->stores = ask->stores;
  tp__bytes_put_text(&exchange->model, ask->model);
  tp__bytes_put_text(&exchange->previous, ask->previous);
  if (exchange->model.failed || exchange->previous.failed || !tp__server_random(digits, ID_DIGITS)) {
    tp__bytes_fini(&exchange->model);
    tp__bytes_fini(&exchange->previous);
    tp__heap_free(exchange, sizeof *exchange);
    return NULL;
  }
  snprintf(exchange->id, sizeof exchange->id, "%s%s", prefix, digits);
  exchange->request = request;
  tp__references_ref(&turn->refs);
  tp__lock_acquire(&turn->lock);
  bool is_free = !turn->exchange;
  if (is_free) turn->exchange = exchange;
  if (is_free && turn->exchanges++ > 0 && form->numbers_exchanges)
    snprintf(exchange->id, sizeof exchange->id, "%.53s_%u", turn->id, turn->exchanges);
  else if (turn->exchanges == 1) memcpy(turn->id, exchange->id, sizeof turn->id);
  tp__lock_release(&turn->lock);
  if (is_free) {
    tp__http_set_data(request, exchange);
    return exchange;
  }
  exchange->request = NULL; /* the caller answers the request */
  tp__exchange_released(NULL, exchange);
  return NULL;
}

/* ---- what is sent ---- */

static void end_stream_locked(tp__exchange *exchange) {
  TP__LOCKED(&exchange->turn->lock);
  tp__http_request *request = exchange->request;
  exchange->request = NULL;
  exchange->turn->exchange = NULL;
  tp__http_stream_end(request); /* this may free the exchange */
}

static void answer_locked(tp__exchange *exchange, unsigned status, const tp__http_field *fields, tp_text body) {
  TP__LOCKED(&exchange->turn->lock);
  tp__http_request *request = exchange->request;
  exchange->request = NULL;
  exchange->turn->exchange = NULL;
  tp__http_answer(request, status, fields, body); /* this may free the exchange */
}

static void refuse_locked(tp__exchange *exchange, const tp__refusal *refusal) {
  TP__LOCKED(&exchange->turn->lock);
  tp__http_request *request = exchange->request;
  exchange->request = NULL;
  exchange->turn->exchange = NULL;
  tp__refusal_answer(refusal, request);
}

/* @return false: the client is too slow for a model that does not pause, or there is no memory. */
static bool put_locked(tp__exchange *exchange, const tp__bytes *out) {
  static const tp__http_field fields[] = {{"Content-Type", "text/event-stream; charset=utf-8"},
                                          {"Cache-Control", "no-cache"},
                                          {"X-Accel-Buffering", "no"},
                                          {NULL, NULL}};
  TP__LOCKED(&exchange->turn->lock);
  assert(exchange->request && !exchange->tail_ends);
  if (out->failed) return false;
  if (!exchange->began) tp__http_stream_begin(exchange->request, 200, fields);
  exchange->began = true;
  tp_status status = TP_ERR_FULL;
  if (exchange->tail.size == 0) status = tp__http_stream_put(exchange->request, tp__bytes_text(out));
  if (status != TP_ERR_FULL) return status != TP_ERR_NO_MEMORY;
  tp__bytes_put_text(&exchange->tail, tp__bytes_text(out));
  return !exchange->tail.failed && exchange->tail.size <= TAIL_MAX;
}

static void end_put_locked(tp__exchange *exchange) {
  TP__LOCKED(&exchange->turn->lock);
  if (exchange->tail.size > 0) exchange->tail_ends = true;
  else end_stream_locked(exchange);
}

/* Takes the hold, when no bytes wait for the client any more. @return the caller releases it without a lock; NULL:
 * nothing is held. */
static tp_hold *take_hold_locked(tp__server_turn *turn) {
  TP__LOCKED(&turn->lock);
  tp_hold *hold = turn->hold;
  turn->hold = NULL;
  return hold;
}

static void release_hold(tp__server_turn *turn) {
  tp__lock_acquire(&turn->lock);
  tp_hold *hold = take_hold_locked(turn);
  tp__lock_release(&turn->lock);
  tp_hold_release(hold);
}

void tp__server_turn_cancel(tp__server_turn *turn) {
  tp__lock_acquire(&turn->lock);
  turn->cancelled = true;
  tp_submission *submission = turn->submission; /* belongs to the turn until it is freed */
  tp__lock_release(&turn->lock);
  tp_submission_cancel(submission);
}

/* ---- what the runtime notifies ---- */

/* Adds a piece. A text before a tool call and the answer after it become two paragraphs. */
static void add_piece(tp__server_turn *turn, const tp_event *event) {
  tp_text piece = event->text;
  bool fits = true, holds = false, is_thinking = event->kind == TP_EVENT_THINKING;
  if (piece.size == 0) return;
  tp__lock_acquire(&turn->lock);
  tp__exchange *exchange = turn->exchange;
  bool shows = exchange && exchange->streams && (is_thinking || !turn->holds_text);
  bool keeps = exchange && !exchange->streams;
  bool separates = exchange && !is_thinking && turn->separates && exchange->has_text;
  if (!is_thinking) turn->separates = false;
  if (exchange && !is_thinking) exchange->has_text = true;
  if (keeps && separates) tp__bytes_put(&turn->text, "\n\n", 2);
  if (keeps) tp__bytes_put_text(is_thinking ? &turn->thinking : &turn->text, piece);
  if (shows) {
    tp__bytes out = {0};
    if (separates) exchange->form->piece(exchange, &out, tp_text_of("\n\n"), false);
    exchange->form->piece(exchange, &out, piece, is_thinking);
    fits = put_locked(exchange, &out);
    tp__bytes_fini(&out);
    holds = exchange->tail.size > 0 && !turn->hold && (turn->hold = tp_event_hold(event));
  }
  tp__lock_release(&turn->lock);
  if (holds) tp__metrics_add(turn->server->metrics, TP__METRIC_answers_held, (tp_text){0}, (tp_text){0}, 1);
  if (!fits) tp__server_turn_cancel(turn);
}

static void observe_first(tp__server_turn *turn, const tp_event *event) {
  if (turn->asked_ns == 0) return;
  tp__metrics_observe(turn->server->metrics, TP__METRIC_model_first, tp_text_of(turn->model),
                      event->time_ns - turn->asked_ns);
  turn->asked_ns = 0;
}

void tp__exchange_event(void *ctx, const tp_event *event) {
  tp__server_turn *turn = tp_event_data(event, TP_ID_TURN);
  (void)ctx;
  if (!turn) return;
  switch (event->kind) {
    case TP_EVENT_MODEL_BEGIN:
      release_hold(turn); /* the hold of an answer that is complete */
      turn->separates = true;
      turn->asked_ns = event->time_ns;
      (void)tp__copy_cut(turn->model, sizeof turn->model, event->model);
      turn->had_delta = false;
      break;
    case TP_EVENT_MODEL_DELTA:
      turn->had_delta = true;
      observe_first(turn, event);
      add_piece(turn, event);
      break;
    case TP_EVENT_THINKING:
      observe_first(turn, event);
      add_piece(turn, event);
      break;
    case TP_EVENT_MODEL_END: /* a model without deltas has its whole text in this event */
      if (!turn->had_delta && event->status == TP_OK) add_piece(turn, event);
      tp__lock_acquire(&turn->lock);
      turn->input_tokens += event->input_tokens;
      turn->output_tokens += event->output_tokens;
      tp__lock_release(&turn->lock);
      break;
    case TP_EVENT_TOOL_END:
      tp__lock_acquire(&turn->lock);
      turn->over++;
      tp__client_calls_look_locked(turn);
      tp__lock_release(&turn->lock);
      break;
    default:
      break;
  }
}

/* Sends the answer, and ends the exchange. */
static void end_answered_locked(tp__exchange *exchange, const tp__answer *answer, bool has_shown) {
  static const tp__http_field fields[] = {{"Content-Type", "application/json"}, {NULL, NULL}};
  tp__server_turn *turn = exchange->turn;
  TP__LOCKED(&turn->lock);
  tp__bytes out = {0};
  exchange->input_tokens = answer->input_tokens;
  exchange->output_tokens = answer->output_tokens;
  if (exchange->streams && !has_shown && answer->text.size > 0)
    exchange->form->piece(exchange, &out, answer->text, false);
  if (exchange->streams) {
    exchange->form->end(exchange, &out, answer);
    (void)put_locked(exchange, &out);
    end_put_locked(exchange);
  } else {
    exchange->form->whole(exchange, &out, answer);
    bool failed = out.failed || turn->text.failed || turn->thinking.failed;
    answer_locked(exchange, failed ? 503 : 200, failed ? NULL : fields, failed ? (tp_text){0} : tp__bytes_text(&out));
  }
  tp__bytes_fini(&out);
  tp__bytes_clear(&turn->text);
  tp__bytes_clear(&turn->thinking);
}

static void end_completed_locked(tp__exchange *exchange, const tp_turn_result *result) {
  tp__server_turn *turn = exchange->turn;
  TP__LOCKED(&turn->lock);
  bool has_shown = exchange->has_text && !turn->holds_text;
  const tp__answer answer = {.text = has_shown ? tp__bytes_text(&turn->text) : result->text,
                             .thinking = tp__bytes_text(&turn->thinking),
                             .finish = result->finish,
                             .input_tokens = result->input_tokens - turn->reported_input_tokens,
                             .output_tokens = result->output_tokens - turn->reported_output_tokens};
  end_answered_locked(exchange, &answer, has_shown);
}

void tp__exchange_hand_over_locked(tp__server_turn *turn) {
  TP__LOCKED(&turn->lock);
  tp__exchange *exchange = turn->exchange;
  if (!exchange) return; /* the client has left: the calls end at their limit, or another request answers them */
  const tp__answer answer = {.text = tp__bytes_text(&turn->text),
                             .thinking = tp__bytes_text(&turn->thinking),
                             .calls = turn->calls,
                             .call_count = turn->call_count,
                             .finish = TP_FINISH_TOOL_CALLS,
                             .input_tokens = turn->input_tokens - turn->reported_input_tokens,
                             .output_tokens = turn->output_tokens - turn->reported_output_tokens};
  turn->reported_input_tokens = turn->input_tokens;
  turn->reported_output_tokens = turn->output_tokens;
  end_answered_locked(exchange, &answer, !turn->holds_text);
}

static void end_failed_locked(tp__exchange *exchange, const tp_turn_result *result) {
  tp__server_turn *turn = exchange->turn;
  TP__LOCKED(&turn->lock);
  tp__refusal refusal;
  exchange->input_tokens = result->input_tokens - turn->reported_input_tokens;
  exchange->output_tokens = result->output_tokens - turn->reported_output_tokens;
  if (turn->lost_previous)
    (void)tp__refusal_fill(&refusal, 400, "previous_response_not_found", "previous_response_id",
                           "Previous response with id '%s' is not the newest of a conversation that this server has",
                           turn->previous_id);
  else tp__refusal_of_turn(turn->server->runtime, &refusal, result);
  if (!exchange->began) {
    refuse_locked(exchange, &refusal);
    return;
  }
  tp__bytes out = {0};
  exchange->form->fail(exchange, &out, &refusal);
  (void)put_locked(exchange, &out);
  end_put_locked(exchange);
  tp__bytes_fini(&out);
}

/* Takes the turn out of the list, and releases its session. The turn is counted until then, since the server ends when
 * no turn is left. */
static void unlist_and_release(tp__server_turn *turn) {
  tp_server *server = turn->server;
  tp__lock_acquire(&server->lock);
  tp__client_calls_unlist_locked(turn);
  tp__lock_release(&server->lock);
  tp__server_session_release(turn->session);
  tp__lock_acquire(&server->lock);
  tp__server_turn_unlist_locked(turn);
  tp__lock_release(&server->lock);
}

static void on_end(void *ctx, const tp_turn_result *result) {
  tp__server_turn *turn = ctx;
  tp__server_note_end(turn->server, result->outcome == TP_TURN_COMPLETED ? TP_OK : result->code,
                      turn->session->is_kept); /* noted before the answer, so that a client with an answer sees the new
                                                  readiness */
  tp__lock_acquire(&turn->lock);
  turn->ended = true;
  tp_hold *hold = take_hold_locked(turn);
  if (turn->exchange && result->outcome == TP_TURN_COMPLETED) end_completed_locked(turn->exchange, result);
  else if (turn->exchange) end_failed_locked(turn->exchange, result);
  tp__lock_release(&turn->lock);
  tp_hold_release(hold);
  unlist_and_release(turn);
  tp__server_turn_unref(turn);
}

/* ---- what the front notifies ---- */

void tp__exchange_gone(void *ctx, void *data) {
  tp__exchange *exchange = data;
  (void)ctx;
  if (!exchange) return;
  tp__server_turn *turn = exchange->turn;
  tp__references_ref(&turn->refs); /* the exchange may end meanwhile */
  tp__lock_acquire(&turn->lock);
  bool is_open = turn->exchange == exchange;
  tp__bytes_fini(&exchange->tail);
  bool ends = is_open && exchange->tail_ends;
  if (ends) end_stream_locked(exchange);
  bool cancels = is_open && !ends && !turn->server->options.goes_on;
  tp_hold *hold = is_open ? take_hold_locked(turn) : NULL; /* only for a turn that goes on */
  tp__lock_release(&turn->lock);
  tp_hold_release(hold);
  if (cancels) tp__server_turn_cancel(turn);
  tp__server_turn_unref(turn);
}

void tp__exchange_drained(void *ctx, tp__http_request *request, void *data) {
  tp__exchange *exchange = data;
  (void)ctx;
  if (!exchange) return;
  tp__server_turn *turn = exchange->turn;
  tp__references_ref(&turn->refs);
  tp_hold *hold = NULL;
  tp__lock_acquire(&turn->lock);
  if (turn->exchange == exchange && exchange->tail.size > 0 &&
      tp__http_stream_put(request, tp__bytes_text(&exchange->tail)) != TP_ERR_FULL) {
    hold = take_hold_locked(turn);
    tp__bytes_fini(&exchange->tail);
    if (exchange->tail_ends) end_stream_locked(exchange);
  }
  tp__lock_release(&turn->lock);
  tp_hold_release(hold);
  tp__server_turn_unref(turn);
}

void tp__server_turns_cancel(tp_server *server) {
  tp__lock_acquire(&server->lock);
  for (tp__server_turn *next, *turn = server->turns; turn; turn = next) {
    tp__references_ref(&turn->refs);
    tp__lock_release(&server->lock);
    tp__server_turn_cancel(turn);
    tp__lock_acquire(&server->lock);
    next = turn->next; /* NULL also when the turn has ended meanwhile: the caller calls again */
    tp__lock_release(&server->lock);
    tp__server_turn_unref(turn);
    tp__lock_acquire(&server->lock);
  }
  tp__lock_release(&server->lock);
}

/* ---- begin ---- */

static void fill_request(const tp__ask *ask, const tp__server_turn *turn, tp__bytes *schema, tp__bytes *system,
                         const tp_agent *agent, tp_turn_request *request) {
  tp_text standing = tp_value_text(tp_value_get(tp_agent_config_get(agent), "system"));
  *request = (tp_turn_request){.struct_size = sizeof *request,
                               .id = turn->turn_id,
                               .text = tp__bytes_text(&ask->text),
                               .files = ask->files,
                               .parameters = ask->parameters_value,
                               .limit_ms = turn->server->options.turn_limit_ms,
                               .tool_calls_max = ask->tool_calls_max,
                               .data = (void *)(uintptr_t)turn};
  if (ask->schema.size > 0) {
    tp__bytes_put_text(schema, tp__bytes_text(&ask->schema));
    request->answer_schema = tp__bytes_string(schema);
  }
  if (ask->system.size > 0) {
    tp__bytes_put_text(system, standing);
    if (standing.size > 0) tp__bytes_put(system, "\n\n", 2);
    tp__bytes_put_text(system, tp__bytes_text(&ask->system));
    request->system = tp__bytes_text(system);
  }
  if (request->text.size == 0 && ask->results > 0) request->text = tp_text_of("Go on with these results.");
  if (ask->goes_on || ask->message_count == 0) return;
  request->messages = ask->message_list;
  request->message_count = ask->message_count;
}

static tp_status submit_exchange(tp__server_turn *turn, const tp__ask *ask, const tp_agent *agent, tp_fault *fault) {
  tp_server *server = turn->server;
  tp__bytes schema = {0}, system = {0};
  tp_turn_request request;
  tp_submission *submission = NULL;
  fill_request(ask, turn, &schema, &system, agent, &request);
  tp__references_ref(&turn->refs); /* the reference of its run */
  tp__lock_acquire(&server->lock);
  tp__server_turn_list_locked(turn);
  tp__lock_release(&server->lock);
  tp_status status = schema.failed || system.failed ? TP_ERR_NO_MEMORY : TP_OK;
  if (status == TP_OK) status = tp__server_limits_fill(agent, &request, fault);
  if (status == TP_OK) status = tp_turn_submit(turn->session->session, &request, on_end, turn, &submission, fault);
  tp__bytes_fini(&schema);
  tp__bytes_fini(&system);
  tp__lock_acquire(&turn->lock);
  turn->submission = submission;
  bool cancelled = turn->cancelled;
  tp__lock_release(&turn->lock);
  if (cancelled) tp_submission_cancel(submission);
  if (status == TP_OK) return status;
  tp__server_note_end(server, status, turn->session->is_kept);
  unlist_and_release(turn);
  tp__server_turn_unref(turn);
  return status;
}

static void refuse_status(tp__server_turn *turn, tp_status status, const tp_fault *fault) {
  tp__refusal refusal;
  tp__refusal_of_status(&refusal, status, fault);
  tp__lock_acquire(&turn->lock);
  refuse_locked(turn->exchange, &refusal);
  tp__lock_release(&turn->lock);
}

/* @return with a reference; NULL: the refusal has the reason. */
static tp_agent *find_agent(const tp_server *server, tp_text name, tp__refusal *refusal) {
  char id[TP_ID_BYTES_MAX + 1];
  tp_agent *agent = NULL;
  if (name.size > 0 && name.size < sizeof id && !memchr(name.data, 0, name.size)) {
    (void)tp__copy_cut(id, sizeof id, name);
    agent = tp_agent_find(server->runtime, id);
  }
  if (!agent && server->default_agent) agent = tp_agent_find(server->runtime, server->default_agent);
  if (!agent && name.size == 0) (void)tp__refusal_fill(refusal, 400, "invalid_value", "model", "model is missing");
  else if (!agent)
    (void)tp__refusal_fill(refusal, 404, "model_not_found", "model",
                           "The model '%.*s' does not exist; GET /v1/models lists those that do",
                           tp__cut(name, TP_ID_BYTES_MAX), name.data);
  return agent;
}

/* Passes results to the turn that waits for them. @return false: no turn waits for them. */
static bool go_on(tp_server *server, tp__http_request *request, const tp__form *form, const char *prefix,
                  const tp__ask *ask, const char *tenant) {
  tp__refusal refusal;
  tp__server_turn *turn = tp__client_calls_find(server, ask, tenant);
  if (!turn && (ask->previous.size == 0 || ask->goes_on)) return false;
  if (!turn) { /* the calls of these results are in no message */
    (void)tp__refusal_fill(&refusal, 400, "calls_ended", "input", "the calls of these results have ended");
    tp__refusal_answer(&refusal, request);
    return true;
  }
  tp__exchange *exchange = exchange_new(turn, request, form, prefix, ask);
  if (!exchange) {
    (void)tp__refusal_fill(&refusal, 409, "session_busy", NULL, "another request answers these calls");
    tp__refusal_answer(&refusal, request);
  } else if (!tp__client_calls_answer(turn, ask, &refusal)) {
    tp__lock_acquire(&turn->lock);
    if (turn->exchange == exchange) refuse_locked(exchange, &refusal);
    tp__lock_release(&turn->lock);
  }
  tp__server_turn_unref(turn);
  return true;
}

static void announce(const tp__server_turn *turn, const tp__http_request *request) {
  const tp_server_options *o = &turn->server->options;
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TENANT] = tp_text_of(turn->tenant),
                              [TP_ID_AGENT] = tp_text_of(turn->agent_id),
                              [TP_ID_SESSION] = tp_text_of(turn->session_id),
                              [TP_ID_TURN] = tp_text_of(turn->turn_id)};
  const tp_server_begin begin = {.struct_size = sizeof begin,
                                 .ids = ids,
                                 .id_count = TP_ID_COUNT,
                                 .traceparent = tp__http_header(request, "traceparent")};
  if (o->on_begin) o->on_begin(o->on_begin_ctx, &begin);
}

void tp__exchange_begin(tp_server *server, tp__http_request *request, const tp__form *form, const char *prefix,
                        const tp__ask *ask, const char *tenant) {
  tp__refusal refusal;
  tp_fault fault = {0};
  if (go_on(server, request, form, prefix, ask, tenant)) return;
  tp_agent *agent = find_agent(server, ask->model, &refusal);
  if (!agent || !tp__server_tools_check(agent, ask->tools, &refusal)) {
    tp_agent_unref(agent);
    tp__refusal_answer(&refusal, request);
    return;
  }
  tp__server_turn *turn = turn_new(server, ask);
  bool has_exchange = turn && exchange_new(turn, request, form, prefix, ask);
  if (has_exchange) memcpy(turn->turn_id, ask->turn_id[0] ? ask->turn_id : turn->id, sizeof turn->turn_id);
  if (!has_exchange) {
    if (turn) tp__server_turn_unref(turn);
    tp_agent_unref(agent);
    (void)tp__refusal_fill(&refusal, 503, "overloaded", NULL, "no memory for the request");
    tp__refusal_answer(&refusal, request);
    return;
  }
  tp_status status = tp__server_session_take(server, tenant, ask->session, agent, &turn->session, &fault);
  if (status == TP_OK) tp__client_calls_cancel(server, turn->session);
  if (status == TP_OK) {
    (void)tp__copy_cut(turn->tenant, sizeof turn->tenant, tp_text_of(tenant));
    (void)tp__copy_cut(turn->agent_id, sizeof turn->agent_id, tp_text_of(tp_agent_id(agent)));
    turn->session_id = tp__heap_copy(tp_text_of(tp_session_id(turn->session->session)));
  }
  if (status == TP_OK) announce(turn, request);
  if (status == TP_OK) status = submit_exchange(turn, ask, agent, &fault);
  if (status != TP_OK) refuse_status(turn, status, &fault);
  tp_agent_unref(agent);
  tp__server_turn_unref(turn);
}
