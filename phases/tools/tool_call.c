/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_call.c: the steps of one call, except its phases. */
#include "phases/tools/tool_call.h"

#include <stdio.h>

#include "phases/merge/render.h"
#include "phases/merge/schema.h"
#include "phases/tools/tool_durable.h"
#include "runtime/exec/exec.h"

static const tp_text no_text = {"", 0};

/* ---- time ---- */

/* Sets the current time, which never goes back, so no earlier stamp is in the future. The wall clock of events has
 * milliseconds, and is read once in each. */
static void set_now(tp__dispatch *d, int64_t now_ns) {
  if (now_ns > d->now_ns) d->now_ns = now_ns;
  if (!d->has_listener || d->now_ns - d->wall_ns < TP__NS_PER_MS) return;
  d->wall_ns = d->now_ns;
  d->begin.unix_ms = d->end.unix_ms = tp__unix_ms();
}

void tp__toolcall_look_at_clock(tp__dispatch *d) {
  set_now(d, tp__now_ns());
  d->stale = false;
}

/* ---- events ---- */

static void emit_tool_event(tp__tool_slot *slot, tp_event *event) {
  tp__dispatch *d = slot->dispatch;
  event->tool_call = tp__toolcall_of(slot);
  event->call_index = slot->index;
  event->sequence = ++d->turn->event_sequence;
  event->time_ns = d->now_ns;
  tp__turn_notify(d->turn, event, TP__LISTENERS_ALL);
}

static void emit_end(tp__tool_slot *slot) {
  tp_event *event = &slot->dispatch->end;
  const tp_tool_result *result = tp__toolcall_result(slot);
  event->tool_result = result;
  event->text = result->text;
  event->started_ns = slot->started_ns;
  event->ended_ns = slot->started_ns ? slot->started_ns + result->duration_ns : 0;
  emit_tool_event(slot, event);
}

/* ---- the end ---- */

void tp__toolcall_done(tp__tool_slot *slot) {
  TP__ASSERT(slot->settled && !slot->done && !slot->run); /* it has its one result */
  slot->done = true;
  if (slot->order) tp__order_over(slot);
  tp__toolcall_unref(slot->dispatch);
}

static bool join_signals(tp__tool_slot *slot, tp_text *text) {
  if (!slot->gate || slot->gate->signals.size == 0) return true;
  tp__render_parts parts = {.is_result = true, .text = *text, .signals = slot->gate->signals};
  return tp__render_message(&slot->dispatch->texts, &parts, text) == TP_OK;
}

void tp__toolcall_settle(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said) {
  tp__dispatch *d = slot->dispatch;
  tp_tool_result *result = tp__toolcall_result(slot);
  tp_text text = said->text;
  assert(!slot->settled);
  slot->settled = true;
  if (d->stale) tp__toolcall_look_at_clock(d);
  if (slot->gate) slot->gate->bare = text;
  bool whole = join_signals(slot, &text);
  result->kind = whole ? kind : TP_TOOL_HANDLER_ERROR;
  result->text = whole ? text : tp_text_of("no memory for the result");
  result->value = said->value;
  result->parts = said->parts;
  result->completion_order = d->completed++;
  if (d->has_listener) emit_end(slot);
  if (d->remind)
    tp__drive_note_call(d->turn->drive, result, slot->index, slot->started_ns, d->now_ns, slot->pre_entry_id);
}

void tp__toolcall_stop(tp__tool_slot *slot, tp_tool_result_kind kind, tp_text text) {
  tp__toolcall_settle(slot, kind, &(tp__tool_content){.text = text});
  tp__toolcall_done(slot);
}

/* Reports a warning about a call's answer, in the log and to the turn's observers. */
static void warn(const tp__tool_slot *slot, const char *key, const char *words) {
  tp_turn *turn = slot->dispatch->turn;
  tp__log(turn->core.runtime, TP_LOG_WARNING, &(tp__log_subject){.ids = turn->core.ids}, "%s", words);
  tp_contribution note = {.struct_size = sizeof(tp_contribution),
                          .kind = TP_CONTRIBUTION_DIAGNOSTIC,
                          .severity = TP_SEVERITY_WARNING,
                          .key = tp_text_of(key),
                          .text = tp_text_of(words)};
  tp__event(turn, &(tp_event){.kind = TP_EVENT_DIAGNOSTIC,
                              .visibility = TP_VISIBILITY_USER_VISIBLE,
                              .contribution = &note,
                              .tool_call = tp__toolcall_of(slot),
                              .call_index = slot->index,
                              .text = note.text});
}

/* When a part or the value is left out, the text does not show it, so observers are told, too. */
void tp__toolcall_note_cut(tp__tool_slot *slot, uint32_t flaws) {
  slot->is_partial = flaws & TP__REPLY_PARTIAL;
  if (!(flaws & TP__REPLY_LEFT_OUT)) return;
  char words[256];
  snprintf(words, sizeof words, "tool `%.128s`: its answer is too large: the value or parts are left out (%s is %zu)",
           slot->tool->name.data, "tp_tool.parts_bytes_max", slot->tool->parts_bytes_max);
  warn(slot, "tool.parts", words);
}

/* The text looks like the tool's answer, but some of its bytes were replaced. */
static void note_replaced(const tp__tool_slot *slot, size_t replaced) {
  char words[256];
  if (replaced == 0) return;
  snprintf(words, sizeof words, "tool `%.128s`: %zu %s not UTF-8 in its answer: U+FFFD stands for each",
           slot->tool->name.data, replaced, replaced == 1 ? "byte is" : "bytes are");
  warn(slot, "tool.not_utf8", words);
}

void tp__toolcall_deny(tp__tool_slot *slot, uint32_t phase, const char *by, tp_text reason, bool reported) {
  tp__dispatch *d = slot->dispatch;
  tp_text text;
  if (tp__render_blocked(&d->texts, by, reason, &text) != TP_OK) text = tp_text_of("the call was denied");
  if (!reported)
    tp__report_add(&d->turn->core, TP_LOG_INFO,
                   &(tp__report){.action = "denial",
                                 .phase = phase,
                                 .subscription = by,
                                 .owner = "",
                                 .subject = tp__toolcall_of(slot)->name,
                                 .detail = reason,
                                 .status = TP_ERR_DENIED,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE});
  if (d->remind) d->remind(d->turn, by, text, true);
  tp__toolcall_settle(slot, TP_TOOL_DENIED, &(tp__tool_content){.text = text});
  if (d->has_denied) tp__toolcall_denied(slot, reason);
  else tp__toolcall_done(slot);
}

/* ---- the run ---- */

/* A cancel counts from the request on, even before its message has come to the owner. */
bool tp__toolcall_stopped(tp__tool_slot *slot) {
  tp__dispatch *d = slot->dispatch;
  TP__OWNED(&d->turn->core.strand);
  if (d->stale) tp__toolcall_look_at_clock(d);
  bool cancelled = slot->is_cancelled || tp__a32_load_relaxed(&d->turn->core.cancel_asked);
  if (!cancelled && d->now_ns < d->turn->core.deadline_ns) return false;
  tp_tool_result_kind kind = cancelled ? TP_TOOL_CANCELLED : TP_TOOL_TIMED_OUT;
  tp__toolcall_stop(slot, kind, tp__toolcall_unanswered(kind));
  return true;
}

void tp__toolcall_settled(tp__tool_slot *slot) {
  TP__ASSERT(slot->settled && !slot->done);
  if (slot->dispatch->has_post) tp__toolcall_post(slot);
  else tp__toolcall_done(slot);
}

void tp__toolcall_ended(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said) {
  if (slot->dispatch->has_result) {
    tp__toolcall_filter(slot, kind, said);
    return;
  }
  tp__toolcall_settle(slot, kind, said);
  tp__toolcall_settled(slot);
}

/* The tool was called and has ended. Its texts are in d->texts, or live as long as the library. */
static void ended(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said, int64_t duration_ns) {
  tp_tool_result *result = tp__toolcall_result(slot);
  result->started = true;
  result->duration_ns = duration_ns;
  if (slot->start_id) tp__toolcall_commit_end(slot, kind, said);
  else tp__toolcall_ended(slot, kind, said);
}

static tp_tool_result_kind result_kind_of(const tp__tool_end *answer) {
  switch (answer->end) {
    case TP__ANSWERED:
      if (answer->is_late) return TP_TOOL_TIMED_OUT;
      return answer->flaws & ~TP__REPLY_PARTIAL ? TP_TOOL_HANDLER_ERROR : TP_TOOL_OK;
    case TP__EXPIRED:
      return TP_TOOL_TIMED_OUT;
    case TP__CANCELLED:
      return TP_TOOL_CANCELLED;
    case TP__REFUSED:
      break;
  }
  return TP_TOOL_SHED;
}

/* @return false without memory. */
static bool keep_said(tp__dispatch *d, const tp__tool_content *said, tp__tool_content *ret_copy) {
  return (said->text.size == 0 || tp__arena_text(&d->texts, said->text, &ret_copy->text)) &&
         (said->value.size == 0 || tp__arena_text(&d->texts, said->value, &ret_copy->value)) &&
         (said->parts.size == 0 || tp__arena_text(&d->texts, said->parts, &ret_copy->parts));
}

/* A call has begun or ended to wait. */
static void changed(const tp__tool_slot *slot) {
  tp__drive *drive = slot->dispatch->turn->drive;
  if (drive) tp__drive_note_start(drive);
}

/* The answer came to the owner by message. The attempt holds the texts, and is freed afterwards. */
static void run_settled(void *ctx, const tp__tool_end *answer) {
  tp__tool_slot *slot = ctx;
  tp__dispatch *d = slot->dispatch;
  changed(slot);
  tp_tool_result_kind kind = result_kind_of(answer);
  slot->run = NULL;
  set_now(d, answer->ended_ns);
  if (!answer->started_ns) { /* it never got a thread, or was not taken from its inbox */
    tp__toolcall_stop(
        slot, kind,
        answer->end == TP__REFUSED ? tp__toolcall_refused(slot->tool, answer->refusal) : tp__toolcall_unanswered(kind));
    return;
  }
  slot->started_ns = answer->started_ns;
  bool counts = answer->end == TP__ANSWERED && !answer->is_late;
  if (slot->order && answer->end != TP__ANSWERED) tp__order_given_up(slot);
  tp__tool_content said = {.text = no_text};
  if (!counts) {
    said.text = tp__toolcall_unanswered(kind);
  } else if (!keep_said(d, &answer->said, &said)) {
    kind = TP_TOOL_HANDLER_ERROR;
    said = (tp__tool_content){.text = tp_text_of("no memory for the result")};
  }
  tp__toolcall_note_cut(slot, counts ? answer->flaws : 0);
  note_replaced(slot, counts ? answer->replaced : 0);
  ended(slot, kind, &said, answer->ended_ns - answer->started_ns);
}

static void run_progressed(void *ctx, const tp_tool_progress *progress) {
  const tp__tool_slot *slot = ctx;
  TP__ASSERT(slot->run && !slot->settled);
  tp__event(slot->dispatch->turn, &(tp_event){.kind = TP_EVENT_TOOL_PROGRESS,
                                              .visibility = TP_VISIBILITY_USER_VISIBLE,
                                              .call_index = slot->index,
                                              .tool_call = tp__toolcall_of(slot),
                                              .text = progress->message,
                                              .done = progress->done,
                                              .total = progress->total});
}

static const tp__tool_waits waits = {.settled = run_settled, .progressed = run_progressed};

/* An inline tool has returned, and has not deferred. */
static void run_returned(tp__tool_slot *slot) {
  tp__dispatch *d = slot->dispatch;
  const tp__tool_reply *reply = &d->run.reply;
  int64_t duration_ns = d->timestamps == TP_TIMESTAMPS_OFF ? 0 : d->now_ns - d->run.started_ns;
  if (d->now_ns > d->run.deadline_ns) {
    const tp__tool_content late = {.text = tp__toolcall_unanswered(TP_TOOL_TIMED_OUT)};
    ended(slot, TP_TOOL_TIMED_OUT, &late, duration_ns);
    return;
  }
  tp__toolcall_note_cut(slot, reply->flaws);
  note_replaced(slot, reply->replaced);
  ended(slot, reply->flaws & ~TP__REPLY_PARTIAL ? TP_TOOL_HANDLER_ERROR : TP_TOOL_OK, &reply->said, duration_ns);
}

/* An inline tool is called here. Only if it defers, the call waits. */
static void run_inline(tp__tool_slot *slot) {
  tp__dispatch *d = slot->dispatch;
  tp_breadcrumb *breadcrumb = tp__breadcrumb_of_function(d->run.turn, d->run.name, d->run.started_ns);
  tp_answer kind = slot->tool->run(slot->tool->ctx, &d->run);
  tp__breadcrumb_leave(breadcrumb);
  bool exceptional = d->run.attempt || kind != TP_ANSWER_DONE;
  slot->run = exceptional ? tp__tool_run_exceptional(&d->run, kind) : NULL;
  /* The end of an inline tool's run. Without time-stamps, deadlines are still checked at every 16th call. */
  if (d->timestamps != TP_TIMESTAMPS_OFF || d->completed % 16 == 0) set_now(d, tp__now_ns());
  if (slot->run) {
    changed(slot);
    tp__tool_run_await(slot->run, d->run.deadline_ns, &waits, slot);
    return;
  }
  run_returned(slot);
}

static void fill_run(const tp__tool_slot *slot) {
  tp__dispatch *d = slot->dispatch;
  const tp__tool_entry *tool = slot->tool;
  int64_t turn_ns = d->turn->core.deadline_ns, end_ns = d->now_ns + tool->timeout_ns;
  tp_tool_run *run = &d->run;
  run->call_id = &tp__toolcall_result(slot)->call_id;
  run->arguments = &tp__toolcall_of(slot)->arguments;
  run->name = tool->name.data;
  run->bytes_max = tool->result_bytes_max;
  run->parts_bytes_max = tool->parts_bytes_max;
  run->closure = tool->closure;
  run->attempt = NULL;
  run->started_ns = d->now_ns;
  run->deadline_ns = end_ns < turn_ns ? end_ns : turn_ns;
  run->reply.flaws = 0;
  run->reply.replaced = 0;
  run->reply.said = (tp__tool_content){.text = no_text};
}

static void begin_run(tp__tool_slot *slot) {
  tp__dispatch *d = slot->dispatch;
  slot->started_ns = d->now_ns;
  if (d->has_listener) emit_tool_event(slot, &d->begin);
  fill_run(slot);
  if (slot->tool->is_inline) {
    run_inline(slot);
    return;
  }
  d->stale = true;
  changed(slot);
  tp_reason refused = tp__tool_run_start(&d->run, slot->tool, &waits, slot, &slot->run);
  if (refused) tp__toolcall_stop(slot, TP_TOOL_SHED, tp__toolcall_refused(slot->tool, refused));
}

/* tool.rewrite has answered instead of the tool. The later phases treat that answer like a tool's. */
static void take_ready(tp__tool_slot *slot) {
  if (slot->dispatch->has_result) {
    tp__toolcall_filter(slot, TP_TOOL_OK, &slot->gate->ready);
    return;
  }
  tp__toolcall_settle(slot, TP_TOOL_OK, &slot->gate->ready);
  tp__toolcall_settled(slot);
}

static void run_tool(tp__tool_slot *slot) {
  if (tp__toolcall_stopped(slot)) return;
  if (tp__toolcall_stage(slot) == TP__TASK_CREATE) {
    tp__toolcall_stop(slot, TP_TOOL_OK, tp_text_of("the call is allowed"));
    return;
  }
  if (slot->gate && slot->gate->is_ready) take_ready(slot);
  else if (!slot->order || tp__order_enter(slot)) tp__toolcall_go(slot);
}

void tp__toolcall_go(tp__tool_slot *slot) {
  if (tp__toolcall_is_durable(slot)) tp__toolcall_commit_start(slot);
  else begin_run(slot);
}

void tp__toolcall_started(tp__tool_slot *slot) {
  if (!tp__toolcall_stopped(slot)) begin_run(slot);
}

/* ---- people ---- */

bool tp__toolcall_ask(tp__tool_slot *slot, const char *by, uint32_t phase, tp_text reason) {
  tp__dispatch *d = slot->dispatch;
  if (slot->ask) return true;
  tp__tool_ask *ask = tp__arena_alloc(&d->texts, sizeof *ask);
  if (!ask || !tp__arena_text(&d->texts, reason, &reason)) {
    tp__toolcall_deny(slot, phase, by, tp_text_of("no memory for the question to a person"), false);
    return false;
  }
  *ask = (tp__tool_ask){.by = by, .phase = phase, .reason = reason};
  slot->ask = ask;
  return true;
}

/* Without memory for more words, the library's own words are used. */
static void deny_asked(tp__tool_slot *slot, tp_text words, tp_text person, tp_text reason) {
  const char *by = person.size > 0 ? " by " : "", *because = reason.size > 0 ? ": " : "";
  tp_text whole =
      tp__arena_printf(&slot->dispatch->texts, "%.*s%s%.*s%s%.*s", (int)words.size, words.data, by, (int)person.size,
                       person.size ? person.data : "", because, (int)reason.size, reason.size ? reason.data : "");
  tp__toolcall_deny(slot, slot->ask->phase, slot->ask->by, whole.data ? whole : words, false);
}

static void answered(void *ctx, const tp__question_end *end) {
  tp__tool_slot *slot = ctx;
  slot->ask->question = NULL;
  slot->dispatch->stale = true;
  changed(slot);
  if (end->cancelled) tp__toolcall_stop(slot, TP_TOOL_CANCELLED, tp__toolcall_unanswered(TP_TOOL_CANCELLED));
  else if (end->allowed && end->edited.size > 0) tp__toolcall_edit(slot, end->edited, end->person);
  else if (end->allowed) run_tool(slot);
  else deny_asked(slot, end->why, end->person, end->reason);
}

static void put_question(tp__tool_slot *slot) {
  tp__tool_ask *ask = slot->ask;
  tp_turn *turn = slot->dispatch->turn;
  const tp_text none = {NULL, 0};
  if (!tp__people_may_be_asked(turn)) {
    deny_asked(slot, tp_text_of("it asks a person, and there is no channel to ask"), none, ask->reason);
    return;
  }
  slot->dispatch->stale = true;
  changed(slot);
  tp__question_spec spec = {
      .phase = ask->phase, .subscription = ask->by, .reason = ask->reason, .call = tp__toolcall_of(slot)};
  tp_status status = tp__question_put(turn, &spec, answered, slot, &ask->question);
  if (status != TP_OK)
    deny_asked(slot, tp_text_of("it asks a person, and the question could not be put"), none,
               tp_text_of(tp_status_text(status)));
}

/* @return whether the call goes on; if not, it was denied. */
static bool permitted(tp__tool_slot *slot) {
  switch (tp__people_permission(slot->dispatch->turn, tp__toolcall_of(slot), slot->tool->tool)) {
    case TP_PERMISSION_AUTO:
      return true;
    case TP_PERMISSION_ASK:
      return tp__toolcall_ask(slot, "permission", TP_PHASE_TOOL_PRE,
                              tp_text_of("the host asks before each call of this tool"));
    default:
      tp__toolcall_deny(slot, TP_PHASE_TOOL_PRE, "permission", tp_text_of("the host does not permit this tool"), false);
      return false;
  }
}

/* No gate has denied the call. If one wants a question, that is asked first. */
void tp__toolcall_allow(tp__tool_slot *slot) {
  if (!slot->ask || slot->ask->is_allowed) run_tool(slot);
  else if (tp__toolcall_stopped(slot)) return;
  else if (slot->dispatch->has_ask && !slot->ask->was_shown) tp__toolcall_ask_hooks(slot);
  else put_question(slot);
}

void tp__toolcall_permit(tp__tool_slot *slot) {
  if (slot->dispatch->has_permission && (tp__toolcall_stopped(slot) || !permitted(slot))) return;
  tp__toolcall_allow(slot);
}

/* ---- before the gates: scope, policy ---- */

/* A policy `tool` with the value deny or ask is applied before the gates, and no verdict lifts it. A version of the
 * sets never changes, so the policy of a tool is looked up once per version. */
static tp__tool_policy policy_of(const tp__dispatch *d, tp__tool_entry *tool) {
  const tp__turn_sets *sets = d->turn->core.sets;
  if (tool->sets == sets) return tool->policy;
  tp_text word = sets ? tp__turn_sets_policy(sets, tp_text_of("tool"), tool->name) : no_text;
  tool->sets = sets;
  tool->policy = tp_text_is(word, "deny") ? TP__TOOL_DENY : tp_text_is(word, "ask") ? TP__TOOL_ASK : TP__TOOL_FREE;
  return tool->policy;
}

static bool is_over(tp__dispatch *d) {
  if (d->stale) tp__toolcall_look_at_clock(d);
  return d->turn->core.is_cancelled || d->now_ns >= d->turn->core.deadline_ns;
}

static void stop_out_of_scope(tp__tool_slot *slot) {
  const char *words = slot->tool->out_of_scope
                          ? "the agent may not use this tool: it is not among the tools of its config"
                          : "this tool was not offered: it is not among the tools of the request";
  tp__report_add(&slot->dispatch->turn->core, TP_LOG_INFO,
                 &(tp__report){.action = "denial",
                               .phase = TP_PHASE_TOOL_PRE,
                               .subscription = slot->tool->out_of_scope ? "scope" : "model.request",
                               .owner = "",
                               .subject = tp__toolcall_of(slot)->name,
                               .detail = tp_text_of(words),
                               .status = TP_ERR_DENIED,
                               .visibility = TP_VISIBILITY_USER_VISIBLE});
  tp__toolcall_stop(slot, TP_TOOL_OUT_OF_SCOPE, tp_text_of(words));
}

/* A cancel that has reached the owner stops every call. A cancel that is still on its way only stops calls that would
 * run. A call that could not run in any case ends with its own reason. */
void tp__toolcall_begin(tp__tool_slot *slot) {
  tp__dispatch *d = slot->dispatch;
  if (is_over(d) && tp__toolcall_stopped(slot)) return;
  tp__tool_policy policy = slot->tool ? policy_of(d, slot->tool) : TP__TOOL_FREE;
  if (!slot->tool) {
    tp__toolcall_stop(slot, TP_TOOL_UNKNOWN_TOOL, tp_text_of("there is no tool of that name"));
  } else if (slot->tool->out_of_scope || slot->tool->left_out) {
    stop_out_of_scope(slot);
  } else if (policy == TP__TOOL_DENY) {
    tp__toolcall_deny(slot, TP_PHASE_TOOL_PRE, "policy", tp_text_of("the turn's policy denies this tool"), false);
  } else if (policy != TP__TOOL_ASK ||
             tp__toolcall_ask(slot, "policy", TP_PHASE_TOOL_PRE, tp_text_of("the turn's policy asks a person"))) {
    tp__toolcall_create(slot);
  }
}
