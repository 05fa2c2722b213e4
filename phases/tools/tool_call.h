/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_call: one call of a dispatch on its way, between tools.c, which walks it, and tool_gate.c, which runs the phases
 * of tools. A slot is used for call after call as long as these end where they began; one whose call waits is the
 * call's own till the dispatch ends. Owner only. */
#ifndef TP__TOOL_CALL_H
#define TP__TOOL_CALL_H

#include "phases/turn/people.h"
#include "phases/tools/tools.h"

enum { TP__TOOL_FIELDS_MAX = 12 };

/** What a call needs where a phase of tools has subscriptions. */
typedef struct tp__tool_gate {
  tp__phase_run phase; /* the one under way */
  tp_field fields[TP__TOOL_FIELDS_MAX];
  tp_text signals;                /* of tool.create and tool.pre, rendered: joins the result's text */
  const tp_tool_call *summarized; /* whose arguments are in summary; NULL: none were asked for */
  tp_text summary;
  tp_text bare;  /* the result's text without them; empty before there is a result */
  bool is_ready; /* tool.rewrite has answered in the tool's place: */
  tp__tool_content ready;
} tp__tool_gate;

/** A person is to be asked, or is. The first who asks is the one that is shown. */
typedef struct tp__tool_ask {
  const char *by; /* lives as long as the runtime */
  uint32_t phase;
  tp_text reason;
  tp__question *question; /* open */
  bool was_shown;         /* to tool.ask, which is once for a call */
  bool is_allowed;        /* by tool.ask */
  bool is_edited;         /* by tool.ask, just now */
} tp__tool_ask;

/** The keys of a call, and its place among those of the dispatch that have some: tool_conflicts.c. In the dispatch's
 *  scratch, so that it stays where the slot goes on to another call. */
typedef struct tp__tool_order tp__tool_order;

struct tp__tool_slot {
  tp__dispatch *dispatch;
  tp__tool_slot *next; /* in dispatch->waiting */
  tp__tool_entry *tool;
  tp__tool_attempt *run;    /* open */
  tp__tool_gate *gate;      /* NULL: no phase of tools has subscriptions */
  tp__tool_ask *ask;        /* NULL: no gate has asked */
  tp__tool_order *order;    /* NULL: its tool has no keys */
  const tp_tool_call *call; /* what the model asked for, or what tool.rewrite made of it */
  int64_t started_ns;       /* 0: not yet */
  uint64_t start_id;        /* of its start in the store; 0: none is there */
  uint64_t pre_entry_id;    /* of the entry of its newest tool.pre that has ended; 0: none */
  uint32_t index;
  bool is_cancelled; /* it alone, or its response: nothing more begins for it but its end phases */
  bool is_partial;   /* what the tool said was too long, and part of it is left out */
  bool settled;      /* it has its result */
  bool done;         /* nothing more will come */
};

static inline const tp_tool_call *tp__toolcall_of(const tp__tool_slot *slot) { return slot->call; }
static inline tp_tool_result *tp__toolcall_result(const tp__tool_slot *slot) {
  return &slot->dispatch->results[slot->index];
}

/* ---- tools.c ---- */

/** The dispatch ends with the last that is open. */
void tp__toolcall_unref(tp__dispatch *dispatch);

/* ---- tool_call.c ---- */

/** Everything before the run, the run, and what follows it. Where the slot is not done when this returns, the call
 *  waits, and the slot is its own. */
void tp__toolcall_begin(tp__tool_slot *slot);
/** True when nothing may begin: then the call was stopped. */
bool tp__toolcall_stopped(tp__tool_slot *slot);
/** Which part of its way the call goes. */
static inline tp__task_stage tp__toolcall_stage(const tp__tool_slot *slot) {
  const tp__task_view *task = slot->dispatch->turn->task;
  return task ? task->stage : TP__TASK_WHOLE;
}
/** No gate has denied it: the question, then the run or, of a task that is created, its end. */
void tp__toolcall_allow(tp__tool_slot *slot);
/** Remembers that a person is to be asked. @return false without memory: then the call was denied. */
bool tp__toolcall_ask(tp__tool_slot *slot, const char *by, uint32_t phase, tp_text reason);
/** No gate denied it: the permission, the question, then the tool. */
void tp__toolcall_permit(tp__tool_slot *slot);
/** A call that never started ends here: no tool.result, no tool.post. text is not copied. */
void tp__toolcall_stop(tp__tool_slot *slot, tp_tool_result_kind kind, tp_text text);
/** @param by  lives as long as the runtime. @param reported  settle.c has logged why. */
void tp__toolcall_deny(tp__tool_slot *slot, uint32_t phase, const char *by, tp_text reason, bool reported);
/** Gives the call its one result. What was said is in dispatch->texts, or lives as long as the library. */
void tp__toolcall_settle(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said);
/** Notes what was cut of what the call's tool, or a handler in its place, said. */
void tp__toolcall_note_cut(tp__tool_slot *slot, uint32_t flaws);
/** It has its result: tool.post, where that has subscriptions, then done. */
void tp__toolcall_settled(tp__tool_slot *slot);
/** It has its result, and its phases are through. The dispatch may be gone afterwards. */
void tp__toolcall_done(tp__tool_slot *slot);
/** Reads the clock. */
void tp__toolcall_look_at_clock(tp__dispatch *dispatch);

/** No call of a lower index is in its way: the tool. */
void tp__toolcall_go(tp__tool_slot *slot);

/* ---- tool_conflicts.c: calls of one response with conflicting keys run in call order ---- */

static inline bool tp__order_applies(const tp__tool_entry *tool) {
  return tool && (tool->tool->read_key || tool->tool->write_key || tool->tool->keys);
}
/** A call of a tool with keys begins; in call order. @return false without memory. */
bool tp__order_add(tp__tool_slot *slot);
/** The arguments are final, and no gate has denied it.
 *  @return whether it goes on at once; else it waits for calls of lower indexes, or was stopped. */
bool tp__order_enter(tp__tool_slot *slot);
/** A call that waits for others ends as cancelled. @return whether it waited. */
bool tp__order_cancel(tp__tool_slot *slot);
/** The call is through: those that waited for it go on, before this returns. */
void tp__order_over(tp__tool_slot *slot);
/** The call's function was given up, and may still run. */
void tp__order_given_up(tp__tool_slot *slot);

/* ---- tool_names.c ---- */

/** The size of id_room: 0 when each id can be borrowed from its call. */
size_t tp__toolcall_id_bytes(const tp__dispatch *dispatch);
/** The id of a call, or its number where it has none. Once for each call. */
tp_text tp__toolcall_id(tp__dispatch *dispatch, uint32_t index);
/** @param tool  NULL: none has this name. */
tp_text tp__toolcall_name(tp__dispatch *dispatch, uint32_t index, const tp__tool_entry *tool);
/** What the model reads of a call that the tool did not answer. */
tp_text tp__toolcall_unanswered(tp_tool_result_kind kind);
/** The same of one that was shed. */
tp_text tp__toolcall_refused(const tp__tool_entry *tool, tp_reason reason);

/* ---- tool_gate.c: each begins a phase, and goes on from its end ---- */

/** tool.create, tool.rewrite, the schema, tool.pre, then tp__toolcall_permit(). Each of the phases may be without
 *  subscriptions. */
void tp__toolcall_create(tp__tool_slot *slot);
/* Those below are for phases that have subscriptions. */
/** tool.ask: then the call goes on, was denied, or, with other arguments, is checked again; then a person is asked. */
void tp__toolcall_ask_hooks(tp__tool_slot *slot);
/** A person has allowed the call with other arguments: the schema, tool.pre and what follows, or it was denied.
 *  @param arguments  a map; copied. @param person  may be empty. */
void tp__toolcall_edit(tp__tool_slot *slot, tp_text arguments, tp_text person);
/** tool.denied, then done. The call has its result. */
void tp__toolcall_denied(tp__tool_slot *slot, tp_text reason);
/** tool.result over what the tool said, then the result, then tp__toolcall_settled(). */
void tp__toolcall_filter(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said);
/** tool.post, then done. */
void tp__toolcall_post(tp__tool_slot *slot);

#endif
