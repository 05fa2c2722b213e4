/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_call: one call of a dispatch on its way, between tools.c, which walks it, and tool_gate.c, which runs the phases
 * of tools. A slot is used for call after call as long as these end where they began; one whose call waits is the
 * call's own till the dispatch ends. Owner only. */
#ifndef TP__TOOL_CALL_H
#define TP__TOOL_CALL_H

#include "phases/tools.h"

enum { TP__TOOL_FIELDS_MAX = 8 };

/** What a call needs where a phase of tools has subscriptions. */
typedef struct tp__tool_gate {
  tp__phase phase; /* the one under way */
  tp_field fields[TP__TOOL_FIELDS_MAX];
  tp_text signals; /* of tool.pre, rendered: joins the result's text */
} tp__tool_gate;

struct tp__tool_slot {
  tp__dispatch *dispatch;
  tp__tool_slot *next; /* in dispatch->waiting */
  tp__tool_entry *tool;
  tp__tool_attempt *run; /* open */
  tp__tool_gate *gate;   /* NULL: no phase of tools has subscriptions */
  int64_t started_ns;    /* 0: not yet */
  uint32_t index;
  bool settled; /* it has its result */
  bool done;    /* nothing more will come */
};

static inline const tp_tool_call *tp__call_of(const tp__tool_slot *slot) { return slot->dispatch->calls[slot->index]; }
static inline tp_tool_result *tp__call_result(const tp__tool_slot *slot) {
  return &slot->dispatch->results[slot->index];
}

/* ---- tools.c ---- */

/** The dispatch ends with the last that is open. */
void tp__call_one_less(tp__dispatch *dispatch);

/* ---- tool_call.c ---- */

/** Everything before the run, the run, and what follows it. Where the slot is not done when this returns, the call
 *  waits, and the slot is its own. */
void tp__call_begin(tp__tool_slot *slot);
/** True when nothing may begin: then the call was stopped. */
bool tp__call_stopped(tp__tool_slot *slot);
/** Its gates let it pass: calls the tool. */
void tp__call_run(tp__tool_slot *slot);
/** A call that never started ends here: no tool.result, no tool.post. text is not copied. */
void tp__call_stop(tp__tool_slot *slot, tp_tool_result_kind kind, tp_text text);
/** @param by  lives as long as the runtime. @param reported  settle.c has logged why. */
void tp__call_deny(tp__tool_slot *slot, const char *by, tp_text reason, bool reported);
/** Gives the call its one result. text is in dispatch->texts, or lives as long as the library. */
void tp__call_settle(tp__tool_slot *slot, tp_tool_result_kind kind, tp_text text);
/** It has its result, and its phases are through. The dispatch may be gone afterwards. */
void tp__call_done(tp__tool_slot *slot);
/** A policy `tool` with value deny or ask is applied before the gates, and no verdict lifts it. */
tp__tool_policy tp__call_policy(const tp__dispatch *dispatch, tp__tool_entry *tool);
/** The tool was called here and deferred. */
void tp__call_wait(tp__tool_slot *slot, tp__tool_attempt *attempt);
/** What tp__call_here() came to. */
tp_tool_result_kind tp__call_kind_here(const tp__dispatch *dispatch, tp_text *ret_text);
void tp__call_look_at_clock(tp__dispatch *dispatch);
void tp__call_look_at_wall_clock(tp__dispatch *dispatch);

/* ---- tool_names.c ---- */

enum { TP__NUMBERED = 100 };
extern const char tp__numbered[TP__NUMBERED][8];
/** The id of one of the first calls without one. */
static inline tp_text tp__call_numbered(uint32_t index) {
  return (tp_text){tp__numbered[index], index < 10 ? sizeof "call-0" - 1 : sizeof "call-00" - 1};
}
/** What the ids of the results need in memory of ours; none when each can be borrowed. */
size_t tp__call_id_bytes(const tp__dispatch *dispatch);
/** Once for each call. */
tp_text tp__call_id(tp__dispatch *dispatch, uint32_t index);
/** @param tool  NULL: none has this name. */
tp_text tp__call_name(tp__dispatch *dispatch, uint32_t index, const tp__tool_entry *tool);
/** What the model reads of a call that the tool did not answer. */
tp_text tp__call_unanswered(tp_tool_result_kind kind);
/** The same of one that was shed. */
tp_text tp__call_refused(const tp__tool_entry *tool, tp_reason reason);

/* ---- tool_gate.c: each begins a phase that has subscriptions, and goes on from its end ---- */

/** tool.pre, then the tool. */
void tp__call_pre(tp__tool_slot *slot);
/** tool.result over what the tool said, then the result, then tool.post. */
void tp__call_filter(tp__tool_slot *slot, tp_tool_result_kind kind, tp_text text);
/** tool.post, then done. */
void tp__call_post(tp__tool_slot *slot);

/* ---- what both ways of a call have in common, the whole one and the short one of tools.c ---- */

/** The wall clock is given in milliseconds: it is looked at once in each. */
enum { TP__WALL_NS = TP__NS_PER_MS };

/** Word by word: a processor cannot give one wide load what two stores have just written. */
static inline void tp__call_copy_text(tp_text *to, const tp_text *from) {
  to->data = from->data;
  to->size = from->size;
}

static inline bool tp__call_is_empty_map(tp_text arguments) {
  return arguments.size == 1 && (unsigned char)*arguments.data == 0x80;
}

/* Time goes on; nothing that was stamped before is in the future. */
static inline void tp__call_set_now(tp__dispatch *d, int64_t now_ns) {
  if (now_ns > d->now_ns) d->now_ns = now_ns;
  if (d->tells && d->now_ns - d->wall_ns >= TP__WALL_NS) tp__call_look_at_wall_clock(d);
}

/* The end of a quick tool's run. Without time-stamps the deadlines are looked at all the same, now and then. */
static inline void tp__call_stamp(tp__dispatch *d) {
  if (d->timestamps == TP_TIMESTAMPS_FULL) tp__call_set_now(d, tp__now_ns());
  else if (d->timestamps == TP_TIMESTAMPS_COARSE) tp__call_set_now(d, tp__now_coarse_ns());
  else if (d->completed % 16 == 0) tp__call_set_now(d, tp__now_ns());
}

static inline void tp__call_tell(tp__dispatch *d, tp_event *event, const tp_tool_call *call, uint32_t index) {
  event->tool_call = call;
  event->call_index = index;
  event->sequence = ++d->turn->event_sequence;
  event->time_ns = d->now_ns;
  tp__turn_notify(d->turn, event);
}

static inline void tp__call_tell_end(tp__dispatch *d, const tp_tool_call *call, const tp_tool_result *result,
                                     uint32_t index, int64_t started_ns) {
  tp_event *event = &d->end;
  event->tool_result = result;
  tp__call_copy_text(&event->text, &result->text);
  event->started_ns = started_ns;
  event->ended_ns = started_ns ? started_ns + result->duration_ns : 0;
  tp__call_tell(d, event, call, index);
}

/* What another tool alone changes. */
static inline void tp__call_fill_tool(tp__dispatch *d, const tp__tool_entry *tool) {
  d->run.bytes_max = tool->result_bytes_max;
  d->run.name = tool->name.data;
  d->run.closure = tool->closure;
  d->run.attempt = NULL;
}

static inline void tp__call_fill_run(tp__dispatch *d, const tp_tool_call *call, const tp_tool_result *result,
                                     int64_t limit_ns) {
  int64_t turn_ns = d->turn->core.deadline_ns, end_ns = d->now_ns + limit_ns;
  tp_tool_run *run = &d->run;
  run->call_id = &result->call_id;
  run->arguments = &call->arguments;
  run->started_ns = d->now_ns;
  run->deadline_ns = end_ns < turn_ns ? end_ns : turn_ns;
  run->said.flaws = 0;
  run->said.text.data = "";
  run->said.text.size = 0;
}

/* A quick tool is called here: only when it defers does it wait for anything.
 * @return NULL: it has answered; else the attempt that waits. */
static inline tp__tool_attempt *tp__call_here(tp__dispatch *d, const tp__tool_entry *tool) {
  tp__tool_attempt *attempt = NULL;
  tp_answer kind = tool->run(tool->self, &d->run);
  if (d->run.attempt || kind != TP_ANSWER_DONE) attempt = tp__tool_run_odd(&d->run, kind);
  tp__call_stamp(d);
  return attempt;
}

/* 0 without time-stamps: nobody looked at the clock at both its ends. */
static inline int64_t tp__call_duration_here(const tp__dispatch *d) {
  return d->timestamps == TP_TIMESTAMPS_OFF ? 0 : d->now_ns - d->run.started_ns;
}

/** False when the turn was cancelled, whether or not word of it has come to the owner, or is out of time. */
static inline bool tp__call_may_begin(tp__dispatch *d) {
  const tp__turn *core = &d->turn->core;
  if (d->stale) tp__call_look_at_clock(d);
  return !tp__a32_load_relaxed(&core->cancel_asked) && d->now_ns < core->deadline_ns;
}

#endif
