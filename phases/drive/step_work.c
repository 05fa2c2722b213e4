/* SPDX-License-Identifier: Apache-2.0
 *
 * step_work.c: the steps of a driven turn that are no phase: reading the history, asking the model, running tools,
 * storing the turn. The code that follows each step's end is directly after it. */
#include "phases/drive/added.h"
#include "phases/drive/held_answer.h"
#include "phases/drive/known_turn.h"
#include "phases/drive/limits.h"
#include "phases/model/made_request.h"
#include "phases/tools/tools.h"
#include "runtime/base/bug.h"
#include "runtime/exec/exec.h"

enum { MODEL_ATTEMPTS = 3 };

enum { BUSY_PAUSE_NS_MIN = 5 * TP__NS_PER_MS, BUSY_PAUSE_NS_MAX = 250 * TP__NS_PER_MS };

/* ---- messages that the history has and the session does not ---- */

static tp_status keep_loaded(void *ctx, const tp_message *theirs) {
  tp_message message;
  TP__TRY(tp__message_read(theirs, &message, NULL));
  return tp__messages_add(ctx, &message);
}

static tp_status load_work(tp__host_call *call) {
  const tp_history *history = &call->session->history;
  call->load.each = keep_loaded;
  call->load.ctx = &call->made->list;
  return history->load(history->ctx, &call->load, &call->fault);
}

void tp__drive_loaded(tp__drive *d, tp_status status) {
  TP__ASSERT(d->host_call && d->step == TP__STEP_LOAD);
  d->host_call = NULL;
  int64_t now_ns = tp__now_ns();
  d->load_ns += now_ns - d->waits_since_ns;
  tp__drive_note_step(d, TP_STEP_LOAD, d->waits_since_ns, now_ns, status);
}

void tp__drive_load_failed(tp__drive *d, const tp__host_call *call, tp_status status) {
  if (tp__drive_out_of_time(d)) return;
  tp_text reason = tp__arena_printf(&d->arena, "the history was not loaded: %s",
                                    call->message ? call->message : tp_status_text(status));
  tp__drive_stop(d, d->turn->core.is_cancelled ? TP_TURN_CANCELLED : TP_TURN_FAILED, status, reason);
}

static void begin_drive(tp__drive *d) {
  d->left_until_ns = 0;
  if (tp__known_turn_answer(d)) return;
  tp__drive_go(d, d->session->started ? TP__STEP_INTAKE : TP__STEP_SESSION_START);
}

/* ---- a session that is busy ---- */

static void look_again(tp__drive *d, int64_t now_ns, int64_t until_ns) {
  int64_t left_ns = until_ns - now_ns;
  tp__strand_timer_add(&d->turn->core.strand, &d->busy_timer,
                       now_ns + (d->busy_pause_ns < left_ns ? d->busy_pause_ns : left_ns));
  d->busy_pause_ns = d->busy_pause_ns < BUSY_PAUSE_NS_MAX / 2 ? 2 * d->busy_pause_ns : BUSY_PAUSE_NS_MAX;
}

static const char left_call[] = "a call to the history that a turn has left still runs";

/* A session has one call to its history at a time. A turn that was cancelled or timed out may have left a call that
 * still runs. If that call claimed the session after the next turn's claim, the next turn could not append.
 * @return whether the turn waits; it looks again later. */
static bool wait_for_left_call(tp__drive *d) {
  if (!tp__session_history_is_called(d->session)) return false;
  int64_t now_ns = tp__now_ns();
  if (!d->left_until_ns) {
    d->left_until_ns = tp__deadline_after_ms(now_ns, TP__HOST_CALL_LIMIT_MS);
    d->busy_pause_ns = BUSY_PAUSE_NS_MIN;
    d->waits_since_ns = now_ns;
  }
  if (now_ns >= d->left_until_ns) return false;
  look_again(d, now_ns, d->left_until_ns);
  return true;
}

/* @return whether the turn must wait for the session; it asks again later. */
static bool wait_for_session(tp__drive *d) {
  const tp_session *session = d->session;
  const tp__turn *core = &d->turn->core;
  int64_t now_ns = tp__now_ns();
  if (session->busy != TP_BUSY_WAIT || core->is_cancelled) return false;
  if (!d->busy_until_ns) {
    int64_t limit_ns = session->busy_wait_ms ? tp__deadline_after_ms(now_ns, session->busy_wait_ms) : TP__NEVER;
    d->busy_until_ns = limit_ns < core->deadline_ns ? limit_ns : core->deadline_ns;
    d->busy_pause_ns = BUSY_PAUSE_NS_MIN;
  }
  if (now_ns >= d->busy_until_ns) return false;
  look_again(d, now_ns, d->busy_until_ns);
  return true;
}

static void busy_fired(tp__timer_entry *timer, int64_t now_ns) {
  (void)now_ns;
  tp__drive *d = TP__CONTAINER(timer, tp__drive, busy_timer);
  TP__ASSERT((d->step == TP__STEP_LOAD || d->step == TP__STEP_COMMIT) && !d->host_call);
  if (d->step == TP__STEP_COMMIT) tp__step_commit(d);
  else if (!tp__drive_out_of_time(d)) tp__step_load(d);
}

void tp__drive_init_busy(tp__drive *d) {
  d->busy_timer.fire = busy_fired;
  tp__list_init(&d->busy_timer.link);
}

void tp__drive_cancel_busy(tp__drive *d) {
  if (d->step != TP__STEP_LOAD || tp__list_empty(&d->busy_timer.link)) return;
  tp__strand_timer_remove(&d->busy_timer);
  (void)tp__drive_out_of_time(d);
}

/* ---- the begin of a turn ---- */

/* A claim from a host's history is accepted if it agrees with the request. */
static tp_status check_claim(const tp__host_call *call, const char **ret_why) {
  const tp_history_claim *claim = &call->claim;
  *ret_why = NULL;
  if (!claim->fence || !claim->number) *ret_why = "load has claimed nothing, and tp_history.shared is 1";
  else if (claim->first != 0 && (claim->first != call->load.after || claim->number != call->load.number))
    *ret_why = "load gave messages from a position that was not asked for";
  else if (claim->first > claim->position) *ret_why = "load gave messages from after the end";
  return *ret_why ? TP_ERR_STORE : TP_OK;
}

/* Takes the whole past, or the messages that other processes have added to it. */
static tp_status take_loaded(tp__drive *d, tp__host_call *call) {
  tp_session *session = d->session;
  const tp__messages *list = &call->made->list;
  if (call->claim.first > 0) {
    size_t before = session->past->list.count;
    for (size_t i = 0; i < list->count; i++) {
      if (tp__messages_add(&session->past->list, list->items[i]) == TP_OK) continue;
      session->past->list.count = before;
      return TP_ERR_NO_MEMORY;
    }
  } else {
    tp__past_unref(session->past);
    session->past = call->made;
    call->made = NULL;
  }
  if (call->load.owner) tp__host_call_take_claim(call);
  return TP_OK;
}

static void load_ended(tp__host_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  const char *why = NULL;
  d->retry_ms = status == TP_ERR_BUSY && call->load.owner ? call->claim.retry_ms : 0;
  if (status == TP_ERR_BUSY && call->load.owner && wait_for_session(d)) {
    d->host_call = NULL;
    return;
  }
  if (status == TP_OK && call->load.owner && (status = check_claim(call, &why)) != TP_OK) call->message = why;
  tp__drive_loaded(d, status);
  d->busy_until_ns = 0;
  if (status == TP_OK) status = take_loaded(d, call);
  if (status == TP_OK) begin_drive(d);
  else tp__drive_load_failed(d, call, status);
}

void tp__drive_load(tp__drive *d, bool claims, void (*on_end)(tp__host_call *call, tp_status status)) {
  tp__host_call *call = tp__host_call_new_load(d->turn, d->session, "history.load", claims);
  if (!call) {
    tp__drive_no_memory(d);
    return;
  }
  call->work = d->session->history.load_start ? NULL : load_work;
  call->on_end = on_end;
  call->ctx = d;
  d->host_call = call;
  if (!d->busy_until_ns && !d->left_until_ns) d->waits_since_ns = tp__now_ns(); /* else it has waited since then */
  tp__host_call_start(call, d->turn->core.deadline_ns);
}

void tp__step_load(tp__drive *d) {
  bool shared = d->session->history.shared;
  if (wait_for_left_call(d)) return;
  if (tp__session_history_is_called(d->session)) {
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_TIMEOUT,
                   tp__arena_printf(&d->arena, "the history was not loaded: %s", left_call));
    return;
  }
  if (!tp__session_has_history(d->session) || (d->session->started && !shared)) begin_drive(d);
  else tp__drive_load(d, shared, load_ended);
}

/* ---- the model ---- */

static bool keep_response(tp__drive *d, const tp_model_response *response) {
  d->call_count = 0; /* the calls of the earlier response are over, even if there is no memory for the next ones */
  d->results = NULL;
  if (!tp__arena_text(&d->arena, response->text, &d->response_text) ||
      !tp__calls_copy(&d->arena, response->calls, response->call_count, &d->calls))
    return false;
  d->call_count = response->call_count;
  for (size_t i = 0; i < d->call_count; i++) {                   /* results answer calls by id */
    tp_tool_call *call = (tp_tool_call *)(uintptr_t)d->calls[i]; /* the copy is ours */
    if (call->id.size == 0) call->id = tp__arena_printf(&d->arena, "call-%u-%zu", d->iterations, i);
    if (!call->id.data) return false;
  }
  return tp__arena_text(&d->arena, response->stop_reason, &d->stop_reason) &&
         tp__arena_text(&d->arena, response->provider_data, &d->provider_data) &&
         tp__arena_text(&d->arena, response->finish_word, &d->finish_word);
}

/* A provider's numbers come from outside: negative ones count as 0, and no sum overflows. */
static int64_t at_least_none(int64_t number) { return number > 0 ? number : 0; }
static int64_t sum(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

void tp__drive_count(tp__drive *d, const tp_model_response *response) {
  d->last_input_tokens = at_least_none(response->input_tokens);
  d->last_output_tokens = at_least_none(response->output_tokens);
  d->last_cost_micros = at_least_none(response->cost_micros);
  d->input_tokens = sum(d->input_tokens, d->last_input_tokens);
  d->output_tokens = sum(d->output_tokens, d->last_output_tokens);
  d->cost_micros = sum(d->cost_micros, d->last_cost_micros);
  tp__limits_count(d);
}

static void model_succeeded(tp__drive *d, const tp_model_response *response) {
  d->iterations++;
  d->model_attempt = 0;
  d->requested = true;
  d->added.signals = (tp_text){NULL, 0};
  d->structured.value = (tp_text){NULL, 0}; /* of the answer before */
  d->compacted = false;
  tp__reminders_delivered(&d->session->reminders);
  if (keep_response(d, response)) tp__drive_go(d, TP__STEP_MODEL_RESPONSE);
  else tp__drive_no_memory(d);
}

static void model_failed(tp__drive *d, tp__model_call *call, tp_status status) {
  uint32_t attempts_max = d->request.model_attempts ? d->request.model_attempts : MODEL_ATTEMPTS;
  if (d->turn->core.is_cancelled) {
    tp__drive_stop(d, TP_TURN_CANCELLED, TP_ERR_CANCELLED, tp_text_of("the turn was cancelled"));
  } else if (status == TP_ERR_TIMEOUT) {
    tp__drive_stop(d, TP_TURN_TIMED_OUT, status, tp_text_of("the model did not answer in time"));
  } else if (status == TP_ERR_CONTEXT_LENGTH && !call->any_delta && tp__compaction_may(d)) {
    d->too_long = true;
    tp__drive_go(d, TP__STEP_COMPACT);
  } else if (tp__drive_ask_again(d, call, status, attempts_max)) {
    tp__drive_go(d, TP__STEP_ADDED);
  } else {
    tp_text reason = tp__arena_printf(&d->arena, "the model failed: %s",
                                      call->failure_message ? call->failure_message : tp_status_text(status));
    tp__drive_stop(d, TP_TURN_FAILED, status, reason);
  }
}

static void model_note(tp__model_call *call, tp_text key, tp_text text) {
  tp__drive_diagnose(call->ctx, 0, TP_SEVERITY_INFO, key, "", text);
}

static void model_ended(tp__model_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  d->model_call = NULL;
  call->on_delta = NULL;
  call->on_note = NULL;
  const tp_model_response *response = status == TP_OK ? &call->response : NULL;
  int64_t started_ns = (int64_t)tp__a64_load_acquire(&call->base.started_ns), ended_ns = tp__now_ns();
  if (started_ns) {
    d->model_ns += ended_ns - started_ns;
    tp__drive_note_request(d, tp__drive_shown_model(d), started_ns, ended_ns, status);
  }
  tp__drive_note_answer(d, call, status);
  d->finish = response ? response->finish : status == TP_ERR_CANCELLED ? TP_FINISH_UNKNOWN : TP_FINISH_ERROR;
  d->finish_word = (tp_text){NULL, 0};
  tp_text word = d->finish == TP_FINISH_UNKNOWN ? d->finish_word : call->response.finish_word;
  if (!response && !tp__arena_text(&d->arena, word, &d->finish_word)) d->finish_word = (tp_text){NULL, 0};
  if (response) tp__drive_count(d, response);
  tp__held_end(d, status, response, word, started_ns, ended_ns);
  /* set by model.request; a held answer still needs it when it ends */
  if (!d->held) d->asked_name = (tp_text){NULL, 0};
  if (response) model_succeeded(d, response);
  else model_failed(d, call, status);
}

/* A handler of model.request has answered: no request is made, and the turn goes on as after a request. */
static void answer_in_place(tp__drive *d, tp__made_request *made) {
  const tp_model_response *response = &made->response;
  tp__drive_note(d, TP_PHASE_MODEL_REQUEST, TP_SEVERITY_INFO, "model_request.answered", "",
                 tp_text_of("a handler of model.request has answered in the model's place: no request was made"));
  tp__report_add(&d->turn->core, 0,
                 &(tp__report){.action = "replacement",
                               .phase = TP_PHASE_MODEL_REQUEST,
                               .subscription = "model.request",
                               .owner = "",
                               .subject = tp__drive_shown_model(d),
                               .detail = tp_text_of("a handler answered in the model's place"),
                               .visibility = TP_VISIBILITY_USER_VISIBLE});
  if (d->held) d->held->any_text = true;
  else if (response->text.size > 0)
    tp__event(
        d->turn,
        &(tp_event){.kind = TP_EVENT_MODEL_DELTA, .visibility = TP_VISIBILITY_USER_VISIBLE, .text = response->text});
  d->finish = response->finish;
  tp__drive_count(d, response);
  tp__held_end(d, TP_OK, response, response->finish_word, 0, 0);
  if (!d->held) d->asked_name = (tp_text){NULL, 0};
  model_succeeded(d, response); /* copies it */
  tp__made_request_free(made);
}

static void begin_answer(tp__drive *d) {
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_MODEL_BEGIN,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .model = tp__drive_shown_model(d)});
}

/* The owner delivers the event at this moment, so the running model call stays until on_event returns. */
tp_hold *tp_event_hold(const tp_event *event) {
  bool is_piece = event && (event->kind == TP_EVENT_MODEL_DELTA || event->kind == TP_EVENT_THINKING);
  if (!is_piece || !event->turn) return NULL; /* a copy has no turn */
  const tp__drive *d = tp__turn_of((tp__turn *)(uintptr_t)event->turn)->drive;
  return d && d->model_call ? tp__model_call_hold(d->model_call) : NULL;
}

void tp__step_model(tp__drive *d) {
  const tp_model *model = tp__drive_model(d);
  tp__made_request *made = d->made; /* the request as model.request left it; the call takes it */
  bool is_answered = made && made->response.struct_size > 0;
  if (!is_answered && !model->start && !model->inbox) {
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_MODEL, tp_text_of("neither the session nor its agent has a model"));
    return;
  }
  if (!tp__held_begin(d)) {
    tp__drive_no_memory(d);
    return;
  }
  if (is_answered) {
    d->made = NULL;
    begin_answer(d);
    answer_in_place(d, made);
    return;
  }
  tp_model_request request;
  tp__past_view view = {NULL, NULL};
  tp_status status = TP_OK;
  if (made) request = made->request;
  else status = tp__request_make(d, &request, &view);
  tp__model_call *call =
      status == TP_OK ? tp__model_call_new(&d->turn->core, d->turn->toolset, d->session, model, &request) : NULL;
  if (!call) {
    tp__past_view_fini(&view);
    d->held = NULL; /* what did not begin does not end */
    tp__drive_no_memory(d);
    return;
  }
  d->made = NULL;
  call->made = made;
  call->view = view;
  call->on_delta = tp__held_delta;
  call->on_note = model_note;
  call->each_delta = d->request.each_delta;
  call->delivers = model->delivers && tp__turn_takes_pieces_anywhere(d->turn);
  call->on_end = model_ended;
  call->ctx = d;
  d->model_call = call;
  begin_answer(d);
  tp__model_call_start(call);
}

/* ---- tools ---- */

static void remind(tp_turn *turn, const char *subscription, tp_text text, bool block) {
  tp__drive_remind(turn->drive, subscription, text, block);
}

/* Results enter the turn in call order, whatever order they came in. Their texts are freed with the dispatch; the
 * copies for tool.batch are in the turn's own memory. */
static bool take_results(tp__drive *d) {
  for (size_t i = 0; i < d->call_count; i++) {
    tp_tool_result *result = &d->results[i];
    tp_message message = {.role = TP_ROLE_TOOL,
                          .is_error = result->kind != TP_TOOL_OK,
                          .turn_id = d->turn->core.ids[TP_ID_TURN],
                          .text = result->text,
                          .parts = result->parts,
                          .value = result->value,
                          .call_id = d->calls[i]->id,
                          .name = d->calls[i]->name};
    if (tp__messages_add(&d->messages, &message) != TP_OK) return false;
    const tp_message *kept = d->messages.items[d->messages.count - 1];
    result->text = kept->text;
    result->value = kept->value;
    result->parts = kept->parts;
    if (!tp__arena_text(&d->arena, result->waited_key, &result->waited_key)) return false;
    d->tool_event_count++;
    if (result->started) tp__session_note_tool(d->session, d->calls[i]->name);
  }
  return true;
}

static void tools_ended(tp__dispatch *dispatch) {
  tp__drive *d = dispatch->ctx;
  d->tools_ns += tp__now_ns() - d->waits_since_ns;
  bool ok = take_results(d);
  d->tool_calls += (uint32_t)d->call_count;
  tp__dispatch_free(dispatch);
  if (!ok) tp__drive_no_memory(d);
  else if (d->turn->core.is_fenced)
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_FENCED, tp_text_of(tp_status_text(TP_ERR_FENCED)));
  else tp__drive_go(d, TP__STEP_TOOL_BATCH);
}

void tp__step_tools(tp__drive *d) {
  tp__dispatch *dispatch;
  d->waits_since_ns = tp__now_ns();
  d->results = tp__arena_zero(&d->arena, d->call_count * sizeof *d->results);
  if (!d->results ||
      tp__dispatch_begin(d->turn, d->calls, d->call_count, d->results, remind, tools_ended, d, &dispatch) != TP_OK)
    tp__drive_no_memory(d);
}

/* ---- the end ---- */

/* Takes the messages after the first `count`. They stay the past's, even when the past gets others in their place.
 * @return false without memory. */
static bool make_append(tp__host_call *call, tp__past *past, size_t count) {
  const tp_message **batch = tp__arena_alloc(&call->arena, (count + 1) * sizeof *batch);
  tp_history_claim *claim = call->session->has_claim ? tp__arena_alloc(&call->arena, sizeof *claim) : NULL;
  if (!batch || (call->session->has_claim && !claim)) return false;
  if (claim) *claim = call->session->claim;
  if (count > 0) memcpy(batch, past->list.items + past->list.count, count * sizeof *batch);
  call->past = tp__past_ref(past);
  call->request = (tp_history_append){.struct_size = sizeof call->request,
                                      .tenant = tp_text_of(call->session->tenant),
                                      .session = tp_text_of(call->session->id),
                                      .messages = batch,
                                      .message_count = count,
                                      .claim = claim};
  return true;
}

static tp_status append_work(tp__host_call *call) {
  const tp_history *history = &call->session->history;
  return history->append(history->ctx, &call->request, &call->fault);
}

static void start_append(tp__drive *d, tp__host_call *call, void (*on_end)(tp__host_call *call, tp_status status)) {
  call->work = d->session->history.append_start ? NULL : append_work;
  call->on_end = on_end;
  call->ctx = d;
  d->host_call = call;
  if (!d->left_until_ns) d->waits_since_ns = tp__now_ns();
  tp__host_call_start(call, TP__NEVER); /* even after the turn's deadline, because completed work must be stored */
}

bool tp__drive_end_claim(tp__drive *d, void (*on_end)(tp__host_call *call, tp_status status)) {
  tp_session *session = d->session;
  if (!session->has_claim || d->has_appended) return false;
  tp__host_call *call = tp__host_call_new(d->turn, session, "history.append");
  if (!call || !make_append(call, session->past, 0)) {
    if (call) tp__host_call_drop(call);
    return false;
  }
  start_append(d, call, on_end);
  return true;
}

/* For a turn that ended between an answer and the last result of its calls. Results come in the order of the calls. So
 * no call is ever stored without its result. */
static tp_status add_missing_results(const tp__drive *d, tp__messages *batch) {
  size_t at = d->messages.count, results = 0;
  while (at > 0 && d->messages.items[at - 1]->call_count == 0) results += d->messages.items[--at]->role == TP_ROLE_TOOL;
  const tp_message *last = at > 0 ? d->messages.items[at - 1] : NULL;
  for (size_t i = results; last && i < last->call_count; i++) {
    tp_message result = {.role = TP_ROLE_TOOL,
                         .is_error = true,
                         .turn_id = d->turn->core.ids[TP_ID_TURN],
                         .text = tp_text_of("the call was not run: the turn ended before it"),
                         .call_id = last->calls[i]->id,
                         .name = last->calls[i]->name};
    TP__TRY(tp__messages_add(batch, &result));
  }
  return TP_OK;
}

/* The last message of a turn stores how it ended, in case the turn is submitted again. */
static tp_status mark_ending(tp__drive *d, tp__messages *batch, size_t before) {
  tp_text ending;
  if (batch->count == before) return TP_OK;
  if (!tp__known_turn_ending(d, &ending)) return TP_ERR_NO_MEMORY;
  tp_message *last = batch->items[batch->count - 1];
  return tp__arena_text(batch->arena, ending, &last->ending) ? TP_OK : TP_ERR_NO_MEMORY;
}

/* The batch of a completed turn has all its messages. The batch of any other turn has the messages so far and a typed
 * end mark. Side effects are done, and a model that did not know of them would repeat them. */
static tp_status fill_batch(tp__drive *d, tp__messages *batch) {
  if (d->messages.count == 0 && !tp__drive_add_user_message(d)) return TP_ERR_NO_MEMORY;
  if (d->outcome == TP_TURN_COMPLETED) {
    for (size_t i = 0; i < d->messages.count; i++) TP__TRY(tp__messages_add(batch, d->messages.items[i]));
    return tp__added_keep_unanswered(d, batch);
  }
  for (size_t i = 0; i < d->messages.count; i++) {
    /* Files are left out: they may have caused the failure, and would make every later turn fail. */
    const tp_message *message = d->messages.items[i];
    tp_message copy = *message; /* a request that was given up may still read the original */
    if (message->role == TP_ROLE_USER || d->outcome == TP_TURN_FAILED) copy.parts = (tp_text){NULL, 0};
    TP__TRY(tp__messages_add(batch, &copy));
  }
  TP__TRY(add_missing_results(d, batch));
  TP__TRY(tp__added_keep_unanswered(d, batch));
  tp_message mark = {.role = TP_ROLE_END,
                     .turn_id = d->turn->core.ids[TP_ID_TURN],
                     .text = d->reason,
                     .name = tp_text_of(tp_turn_outcome_name(d->outcome))};
  return tp__messages_add(batch, &mark);
}

static void after_commit(tp__drive *d, tp_status status, const char *message) {
  if (status != TP_OK && (d->outcome == TP_TURN_COMPLETED || d->outcome == TP_TURN_CANCELLED)) {
    d->outcome = TP_TURN_FAILED;
    d->code = status;
    d->reason = tp__arena_printf(&d->arena, "the turn was not stored: %s",
                                 message && message[0] ? message : tp_status_text(status));
  }
  tp__drive_go(d,
               d->outcome == TP_TURN_FAILED || d->outcome == TP_TURN_TIMED_OUT ? TP__STEP_ERROR : TP__STEP_POST_TURN);
}

/* The history is written first, so the session never has messages that the history lacks. The memory for the session
 * was allocated before, so nothing can fail between the two steps. */
static void append_ended(tp__host_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  d->host_call = NULL;
  int64_t now_ns = tp__now_ns();
  d->append_ns = now_ns - d->waits_since_ns;
  tp__drive_note_step(d, TP_STEP_APPEND, d->waits_since_ns, now_ns, status);
  if (status == TP_ERR_FENCED && TP__BUG(TP__BUG_FENCED_COMPLETES)) status = TP_OK;
  if (status == TP_OK || TP__BUG(TP__BUG_UNSTORED_PAST)) d->session->past->list.count += call->request.message_count;
  if (status == TP_OK && d->session->has_claim) {
    d->session->claim.position += call->request.message_count;
    d->session->has_claim = false; /* it ended with the append */
    d->turn->core.fence = 0;
  }
  after_commit(d, status, call->message);
}

void tp__step_commit(tp__drive *d) {
  /* a load of its own may still run; without a claim that holds for an append, too */
  if (!d->session->history.shared && wait_for_left_call(d)) return;
  tp__phase_let_go(&d->request_context);
  tp__made_request_free(d->made);
  d->made = NULL;
  if (d->held) tp__held_drop(d, d->code);
  tp__added_close(d);
  tp__past *past = d->session->past;
  size_t before = past->list.count;
  tp_status status = fill_batch(d, &past->list);
  if (status == TP_OK) status = mark_ending(d, &past->list, before);
  size_t added = past->list.count - before;
  bool kept = tp__session_has_history(d->session);
  if (status != TP_OK || kept) past->list.count = before; /* they count when the history has them */
  if (status != TP_OK || !kept || (d->session->history.shared && !d->session->has_claim)) {
    TP__ASSERT(!kept || status != TP_OK || d->outcome != TP_TURN_COMPLETED); /* it had no session to run in */
    after_commit(d, status, NULL);
    return;
  }
  if (tp__session_history_is_called(d->session)) {
    after_commit(d, TP_ERR_TIMEOUT, left_call);
    return;
  }
  tp__host_call *call = tp__host_call_new(d->turn, d->session, "history.append");
  if (!call || !make_append(call, past, added)) {
    if (call) tp__host_call_drop(call);
    after_commit(d, TP_ERR_NO_MEMORY, NULL);
    return;
  }
  d->has_appended = true;
  start_append(d, call, append_ended);
}
