/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_call: one running call of a dispatch, for tools.c, which begins the calls, and tool_gate.c, which runs the
 * phases of tools. One slot is used for call after call as long as each call ends at once. When a call must wait, it
 * keeps its slot until the dispatch ends. Owner only. */
#ifndef TP__TOOL_CALL_H
#define TP__TOOL_CALL_H

#include "phases/turn/people.h"
#include "phases/tools/tools.h"

enum { TP__TOOL_FIELDS_MAX = 12 };

/** The data of a call that is only needed when a phase of tools has subscriptions. */
typedef struct tp__tool_gate {
  tp__phase_run phase; /* the one under way */
  tp_field fields[TP__TOOL_FIELDS_MAX];
  tp_text signals;                /* of tool.create and tool.pre, rendered: added to the text of the result */
  const tp_tool_call *summarized; /* the call whose arguments are in summary; NULL: no summary was made */
  tp_text summary;
  tp_text bare;  /* the text of the result without the signals; empty before there is a result */
  bool is_ready; /* tool.rewrite has answered instead of the tool: */
  tp__tool_content ready;
} tp__tool_gate;

/** A question to a person that is to be asked, or was asked. It shows the first handler that asked. */
typedef struct tp__tool_ask {
  const char *by; /* lives as long as the runtime */
  uint32_t phase;
  tp_text reason;
  tp__question *question; /* open */
  bool was_shown;         /* to tool.ask, which is once for a call */
  bool is_allowed;        /* by tool.ask */
  bool is_edited;         /* by tool.ask, just now */
} tp__tool_ask;

/** The keys of a call, and its place among the calls of the dispatch that have keys: tool_conflicts.c. It is in the
 *  dispatch's scratch, so it stays when the slot is used for another call. */
typedef struct tp__tool_order tp__tool_order;

struct tp__tool_slot {
  tp__dispatch *dispatch;
  tp__tool_slot *next; /* in dispatch->waiting */
  tp__tool_entry *tool;
  tp__tool_attempt *run;    /* open */
  tp__tool_gate *gate;      /* NULL: no phase of tools has subscriptions */
  tp__tool_ask *ask;        /* NULL: no gate has asked */
  tp__tool_order *order;    /* NULL: its tool has no keys */
  const tp_tool_call *call; /* the call as the model made it, or as tool.rewrite changed it */
  int64_t started_ns;       /* 0: not yet */
  uint64_t start_id;        /* number of its start in the store; 0: the store has none */
  uint64_t pre_entry_id;    /* number of the entry of its newest tool.pre that has ended; 0: none */
  uint32_t index;
  bool is_cancelled; /* the call or its whole response was cancelled: only its end phases still begin */
  bool is_partial;   /* the tool's answer was too long, and a part of it was left out */
  bool settled;      /* the call has its result */
  bool done;         /* nothing more will come */
};

static inline const tp_tool_call *tp__toolcall_of(const tp__tool_slot *slot) { return slot->call; }
static inline tp_tool_result *tp__toolcall_result(const tp__tool_slot *slot) {
  return &slot->dispatch->results[slot->index];
}

/* ---- tools.c ---- */

/** Drops an open call. The dispatch ends with the last one. */
void tp__toolcall_unref(tp__dispatch *dispatch);

/* ---- tool_call.c ---- */

/** Does everything from the first gate to the last end phase. If the slot is not done when this returns, the call
 *  waits, and keeps the slot. */
void tp__toolcall_begin(tp__tool_slot *slot);
/** True when no step may begin: then the call was stopped. */
bool tp__toolcall_stopped(tp__tool_slot *slot);
/** Which part of its way the call goes. */
static inline tp__task_stage tp__toolcall_stage(const tp__tool_slot *slot) {
  const tp__task_view *task = slot->dispatch->turn->task;
  return task ? task->stage : TP__TASK_WHOLE;
}
/** No gate has denied the call. Next comes the question, then the run; for a task that is being created, the end. */
void tp__toolcall_allow(tp__tool_slot *slot);
/** Notes that a person must be asked. @return false without memory: then the call was denied. */
bool tp__toolcall_ask(tp__tool_slot *slot, const char *by, uint32_t phase, tp_text reason);
/** No gate has denied the call. Next comes the permission, then the question, then the tool. */
void tp__toolcall_permit(tp__tool_slot *slot);
/** Ends a call that never started, without tool.result and tool.post. text is not copied. */
void tp__toolcall_stop(tp__tool_slot *slot, tp_tool_result_kind kind, tp_text text);
/** @param by lives as long as the runtime. @param reported settle.c has logged the reason already. */
void tp__toolcall_deny(tp__tool_slot *slot, uint32_t phase, const char *by, tp_text reason, bool reported);
/** Gives the call its one result. The texts are in dispatch->texts, or live as long as the library. */
void tp__toolcall_settle(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said);
/** Notes which parts of the answer of the tool, or of a handler in its place, were cut. */
void tp__toolcall_note_cut(tp__tool_slot *slot, uint32_t flaws);
/** The call has its result: runs tool.post, if it has subscriptions; then the call is done. */
void tp__toolcall_settled(tp__tool_slot *slot);
/** The call has its result, and its phases have ended. The dispatch may be gone afterwards. */
void tp__toolcall_done(tp__tool_slot *slot);
/** Reads the clock. */
void tp__toolcall_look_at_clock(tp__dispatch *dispatch);

/** No earlier call conflicts with this one: runs the tool. */
void tp__toolcall_go(tp__tool_slot *slot);

/* ---- tool_conflicts.c: calls of one response with conflicting keys run in the order of the calls ---- */

static inline bool tp__order_applies(const tp__tool_entry *tool) {
  return tool && (tool->tool->read_key || tool->tool->write_key || tool->tool->keys);
}
/** A call of a tool with keys begins. Called in call order. @return false without memory. */
bool tp__order_add(tp__tool_slot *slot);
/** The arguments of the call are final, and no gate has denied it.
 *  @return whether the call goes on at once. If not, it waits for calls of lower indexes, or was stopped. */
bool tp__order_enter(tp__tool_slot *slot);
/** Ends a call that waits for other calls as cancelled. @return whether it waited. */
bool tp__order_cancel(tp__tool_slot *slot);
/** The call is done: calls that waited for it go on before this returns. */
void tp__order_over(tp__tool_slot *slot);
/** The call's function was given up, and may still run. */
void tp__order_given_up(tp__tool_slot *slot);

/* ---- tool_names.c ---- */

/** The size of id_room: 0 when each id can be borrowed from its call. */
size_t tp__toolcall_id_bytes(const tp__dispatch *dispatch);
/** The id of a call, or its number if it has no id. Called once for each call. */
tp_text tp__toolcall_id(tp__dispatch *dispatch, uint32_t index);
/** @param tool  NULL: none has this name. */
tp_text tp__toolcall_name(tp__dispatch *dispatch, uint32_t index, const tp__tool_entry *tool);
/** The text that the model reads as the result of a call that the tool did not answer. */
tp_text tp__toolcall_unanswered(tp_tool_result_kind kind);
/** The same of one that was shed. */
tp_text tp__toolcall_refused(const tp__tool_entry *tool, tp_reason reason);

/* ---- tool_gate.c: each function begins a phase, whose end goes on ---- */

/** Runs tool.create, tool.rewrite, the check of the schema and tool.pre, then tp__toolcall_permit(). Phases without
 *  subscriptions are skipped. */
void tp__toolcall_create(tp__tool_slot *slot);
/* The functions below are called only when their phase has subscriptions. */
/** Runs tool.ask. Then one of four things follows: the call goes on; it was denied; its new arguments are checked
 *  again; a person is asked. */
void tp__toolcall_ask_hooks(tp__tool_slot *slot);
/** A person has allowed the call with other arguments: checks the schema, runs tool.pre and the following steps, or
 *  denies the call.
 *  @param arguments  a map; copied. @param person  may be empty. */
void tp__toolcall_edit(tp__tool_slot *slot, tp_text arguments, tp_text person);
/** Runs tool.denied, then the call is done. The call has its result. */
void tp__toolcall_denied(tp__tool_slot *slot, tp_text reason);
/** Runs tool.result on the tool's answer, then makes the result, then calls tp__toolcall_settled(). */
void tp__toolcall_filter(tp__tool_slot *slot, tp_tool_result_kind kind, const tp__tool_content *said);
/** tool.post, then done. */
void tp__toolcall_post(tp__tool_slot *slot);

#endif
