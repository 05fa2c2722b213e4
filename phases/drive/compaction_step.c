/* SPDX-License-Identifier: Apache-2.0
 *
 * compaction_step.c: the steps of a turn that make its session's history shorter: before the first request when the
 * history is longer than the session allows, and once for each request whose context the provider calls too long. First
 * turn.pre_compaction runs. Then tp_session_options.compaction decides: only the newest turns stay; or the session's
 * own model is asked for a summary of the others; or the host's callback is called, on a handler thread. The old
 * messages stay readable for requests that were made from them. */
#include "phases/model/compaction.h"
#include "phases/drive/steps.h"

static const char system_text[] =
    "You summarize the older part of a conversation, which the summary will replace. Keep what later turns need: "
    "decisions, facts, names, numbers, open questions, what was done with which result. Write plain text.";
static const char summary_head[] = "Summary of the conversation before this point:\n\n";

static tp_session *session_of(const tp__drive *d) { return d->session; }

/* ---- whether ---- */

bool tp__compaction_may(const tp__drive *d) {
  return session_of(d)->compaction != TP_COMPACTION_NONE && !d->own_past && !d->compacted &&
         session_of(d)->past->list.count > 0;
}

/* How many tokens the new history may have. A provider that calls the context too long counts more tokens than the
 * estimate. */
static int64_t allowed_tokens(const tp__drive *d, int64_t tokens) {
  return d->too_long ? tokens / 2 : session_of(d)->history_tokens_max;
}

/* ---- how it ended ---- */

static void log_compaction(const tp__drive *d, tp_log_level level, tp_status status, const char *message) {
  tp__log_subject subject = {.status = status, .phase = TP_PHASE_TURN_PRE_COMPACTION, .ids = d->turn->core.ids};
  tp__log(d->turn->core.runtime, level, &subject, "the history of session `%s`: %s", session_of(d)->id, message);
}

/* A history that is longer than the host's limit is better than no turn. A history that the provider refuses is not. */
static void failed(tp__drive *d, tp_status status, const char *message) {
  if (tp__drive_out_of_time(d)) return;
  tp_text text = tp__arena_printf(&d->arena, "the history was not compacted: %s",
                                  message && message[0] ? message : tp_status_text(status));
  log_compaction(d, TP_LOG_WARNING, status, text.data ? text.data : tp_status_text(status));
  tp__drive_diagnose(d, TP_PHASE_TURN_PRE_COMPACTION, TP_SEVERITY_WARNING, tp_text_of("compaction.failed"), NULL, text);
  if (!d->too_long) tp__drive_go(d, TP__STEP_ADDED);
  else
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_CONTEXT_LENGTH,
                   tp__arena_printf(&d->arena, "the model says that the context is too long; %.*s", (int)text.size,
                                    text.data ? text.data : ""));
}

/* For reading. The list becomes another one when it grows. */
static const tp_message *const *pointers_of(const tp__past *past) {
  return (const tp_message *const *)past->list.items;
}

/* Takes what was made. */
static void replace_past(tp__drive *d, tp__past *made) {
  tp_fault fault = {.code = TP_OK};
  tp__past *old = session_of(d)->past;
  int64_t before = tp__past_tokens(old), after = tp__past_tokens(made);
  tp_status status = tp__compaction_check(pointers_of(made), made->list.count, &fault);
  if (status == TP_OK && after >= before)
    status = tp__fail(&fault, TP_ERR_MALFORMED, NULL, "what is to replace it has %lld tokens, and it has %lld",
                      (long long)after, (long long)before);
  if (status != TP_OK) {
    tp__past_unref(made);
    failed(d, status, fault.message);
    return;
  }
  tp_text message = tp__arena_printf(&d->arena, "%zu messages (%lld tokens) became %zu (%lld)", old->list.count,
                                     (long long)before, made->list.count, (long long)after);
  tp__past_take_turns(made, old);
  session_of(d)->past = made;
  tp__past_unref(old);
  log_compaction(d, TP_LOG_INFO, TP_OK, message.size > 0 ? message.data : "it was compacted");
  d->tokens_before = before;
  if (!tp__drive_out_of_time(d)) tp__drive_go(d, TP__STEP_POST_COMPACTION);
}

/* ---- the host's callback ---- */

static tp_status keep_message(void *ctx, const tp_message *theirs) {
  tp_message message;
  TP__TRY(tp__message_read(theirs, &message, NULL));
  return tp__messages_add(ctx, &message);
}

static tp_status call_host(tp__host_call *call) {
  const tp_session *session = call->session;
  return session->compact(session->compact_ctx, &call->compaction, &call->fault);
}

static void host_ended(tp__host_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  d->host_call = NULL;
  tp__past *made = call->made;
  if (status == TP_OK) {
    call->made = NULL;
    replace_past(d, made);
  } else {
    failed(d, status, call->message);
  }
}

static void ask_host(tp__drive *d, int64_t tokens) {
  tp_session *session = session_of(d);
  tp__host_call *call = tp__host_call_new(d->turn, session, "compaction");
  if (!call || !(call->made = tp__past_new(tp__runtime_allocator(session->runtime)))) {
    if (call) tp__host_call_drop(call);
    failed(d, TP_ERR_NO_MEMORY, NULL);
    return;
  }
  call->past = tp__past_ref(session->past);
  call->compaction = (tp_compaction_request){.struct_size = sizeof call->compaction,
                                             .session = session,
                                             .tokens = tokens,
                                             .tokens_max = allowed_tokens(d, tokens),
                                             .messages = pointers_of(session->past),
                                             .message_count = session->past->list.count,
                                             .each = keep_message,
                                             .each_ctx = &call->made->list};
  call->work = call_host;
  call->on_end = host_ended;
  call->ctx = d;
  d->host_call = call;
  tp__host_call_start(call, d->turn->core.deadline_ns);
}

/* ---- the newest turns ---- */

static tp_status add_kept(const tp__messages *past, size_t from, tp__messages *list) {
  for (size_t i = from; i < past->count; i++) TP__TRY(tp__messages_add(list, past->items[i]));
  return TP_OK;
}

/* Goes on with the past that was made from the session's, or without a new one. */
static void end_with(tp__drive *d, tp__past *made, tp_status status) {
  if (status == TP_OK) {
    replace_past(d, made);
    return;
  }
  tp__past_unref(made);
  failed(d, status, NULL);
}

static void drop_oldest(tp__drive *d, int64_t tokens) {
  const tp__past *past = session_of(d)->past;
  size_t from = tp__compaction_kept_half(pointers_of(past), past->list.count, allowed_tokens(d, tokens));
  tp__past *made = tp__past_new(tp__runtime_allocator(session_of(d)->runtime));
  end_with(d, made, made ? add_kept(&past->list, from, &made->list) : TP_ERR_NO_MEMORY);
}

/* ---- the session's own model ---- */

/* Of everything older than the part that stays, only the summary is kept. */
static tp_status add_summarized(tp__drive *d, tp_text summary, tp__messages *list) {
  const tp__messages *past = &session_of(d)->past->list;
  tp_message first = {.struct_size = sizeof first,
                      /* it contains output of tools, so it gets no more weight than a user's text */
                      .role = TP_ROLE_USER,
                      .text = tp__arena_printf(&d->arena, "%s%.*s", summary_head, (int)summary.size, summary.data)};
  if (!first.text.data) return TP_ERR_NO_MEMORY;
  TP__TRY(tp__messages_add(list, &first));
  return add_kept(past, d->kept_from, list);
}

static void model_ended(tp__model_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  d->model_call = NULL;
  if (status != TP_OK || call->response.text.size == 0) {
    failed(d, status != TP_OK ? status : TP_ERR_MODEL,
           status != TP_OK ? call->failure_message : "the model's summary is empty");
    return;
  }
  tp__drive_count(d, &call->response);
  if (!tp__arena_text(&d->arena, call->response.text, &d->summary)) d->summary = (tp_text){NULL, 0};
  tp__past *made = tp__past_new(tp__runtime_allocator(session_of(d)->runtime));
  end_with(d, made, made ? add_summarized(d, call->response.text, &made->list) : TP_ERR_NO_MEMORY);
}

/* In the drive's memory, which lives as long as the request. @return false without memory. */
static bool make_compaction_request(tp__drive *d, int64_t tokens, tp_model_request *ret_request) {
  const tp__past *past = session_of(d)->past;
  const tp_message *const *all = pointers_of(past);
  tp_message *asked = tp__arena_zero(&d->arena, sizeof *asked);
  const tp_message **list = tp__arena_alloc(&d->arena, sizeof *list);
  if (!asked || !list) return false;
  int64_t allowed = allowed_tokens(d, tokens);
  d->kept_from = tp__compaction_kept_half(all, past->list.count, allowed);
  asked->struct_size = sizeof *asked;
  asked->role = TP_ROLE_USER;
  asked->text = tp__compaction_transcript(&d->arena, all, d->kept_from, (size_t)allowed * 2); /* half of it */
  list[0] = asked;
  *ret_request = (tp_model_request){.struct_size = sizeof *ret_request,
                                    .attempt = 1,
                                    .ids = d->turn->core.ids,
                                    .id_count = TP_ID_COUNT,
                                    .model = tp__drive_model_name(d),
                                    .system = tp_text_of(system_text),
                                    .messages = list,
                                    .message_count = 1,
                                    .turn = &d->turn->core};
  return asked->text.size > 0;
}

static void ask_model(tp__drive *d, int64_t tokens) {
  tp_session *session = session_of(d);
  const tp_model *model = tp__drive_model(d);
  tp_model_request request;
  if (!model->start && !model->inbox) {
    failed(d, TP_ERR_MODEL, "neither the session nor its agent has a model");
    return;
  }
  tp__model_call *call = make_compaction_request(d, tokens, &request)
                             ? tp__model_call_new(&d->turn->core, NULL, session, model, &request)
                             : NULL;
  if (!call) {
    failed(d, TP_ERR_NO_MEMORY, NULL);
    return;
  }
  call->on_end = model_ended;
  call->ctx = d;
  d->model_call = call;
  tp__model_call_start(call);
}

/* ---- the steps ---- */

void tp__step_compact(tp__drive *d) {
  int64_t max = session_of(d)->history_tokens_max;
  int64_t tokens = tp__compaction_may(d) ? tp__past_tokens(session_of(d)->past) : 0;
  bool compacts = tokens > 0 && (d->too_long || (max > 0 && tokens > max));
  if (compacts) d->compacted = true;
  tp__drive_go(d, compacts ? TP__STEP_PRE_COMPACTION : TP__STEP_ADDED);
}

bool tp__fill_compaction(tp__drive *d) {
  int64_t tokens = tp__past_tokens(session_of(d)->past);
  tp__drive_text(d, TP_FIELD_PLAN, tp_text_of(d->too_long ? "context_length" : "history_tokens_max"));
  tp__drive_int(d, TP_FIELD_TOKENS_BEFORE, tokens);
  tp__drive_int(d, TP_FIELD_TOKENS_AFTER, allowed_tokens(d, tokens));
  return true;
}

bool tp__fill_compacted(tp__drive *d) {
  TP__ASSERT(d->tokens_before > 0);
  tp__drive_text(d, TP_FIELD_PLAN, tp_text_of(d->too_long ? "context_length" : "history_tokens_max"));
  tp__drive_int(d, TP_FIELD_TOKENS_BEFORE, d->tokens_before);
  tp__drive_int(d, TP_FIELD_TOKENS_AFTER, tp__past_tokens(session_of(d)->past));
  if (d->summary.size > 0) tp__drive_text(d, TP_FIELD_TEXT, d->summary);
  return true;
}

tp__step tp__denial_of_compaction(tp__drive *d) {
  const tp_phase_result *result = &d->phase.result;
  tp_text why = tp__arena_printf(&d->arena, "hook %s: %.*s", result->subscription ? result->subscription : "",
                                 (int)result->reason.size, result->reason.data ? result->reason.data : "");
  failed(d, TP_ERR_DENIED, why.data);
  return TP__STEP_NONE;
}

void tp__step_shorten(tp__drive *d) {
  int64_t tokens = tp__past_tokens(session_of(d)->past);
  switch (session_of(d)->compaction) {
    case TP_COMPACTION_DROP_OLDEST:
      drop_oldest(d, tokens);
      break;
    case TP_COMPACTION_SUMMARIZE:
      ask_model(d, tokens);
      break;
    default:
      TP__ASSERT(session_of(d)->compaction == TP_COMPACTION_HOST);
      ask_host(d, tokens);
  }
}
