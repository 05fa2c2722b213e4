/* SPDX-License-Identifier: Apache-2.0
 *
 * turn: a turn as this layer sees it: the engine's turn, the host's request, and the running operation. It is one block
 * of memory with the engine's part first. Only the owner may use the fields, except where a comment says otherwise. */
#ifndef TP__PHASES_TURN_H
#define TP__PHASES_TURN_H

#include "phases/turn/listeners.h"
#include "phases/merge/merge.h"
#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"
#include "turnphase/people.h"
#include "turnphase/turn.h"

typedef struct tp__phase_run tp__phase_run;
typedef struct tp__toolset tp__toolset;
typedef struct tp__drive tp__drive;
typedef struct tp__dispatch tp__dispatch;

/** The part of a call's steps that a dispatch makes. */
typedef enum tp__task_stage {
  TP__TASK_WHOLE = 0,  /* all of it */
  TP__TASK_CREATE = 1, /* scope, policy, tool.create and its question: an allowed call ends after these */
  TP__TASK_RUN = 2     /* all but tool.create */
} tp__task_stage;

/** The task as the gates of a turn's calls see it. Lives as long as the turn. */
typedef struct tp__task_view {
  tp__task_stage stage;
  tp_text key; /* empty: none */
} tp__task_view;

/** Who may be asked, and what needs it. */
typedef struct tp__people {
  tp_question_fn ask;
  void *ask_ctx;
  tp_permission_fn permission;
  void *permission_ctx;
} tp__people;

/** One run of a phase. The caller owns the memory, which must stay until on_end was called. */
struct tp__phase_run {
  tp_turn *turn;
  uint32_t phase;
  bool own_contexts;      /* prompt context belongs only to this run, and does not enter the turn's set (model.pre) */
  bool ignores_cancel;    /* it runs on its own budget, also after a cancel or a passed deadline */
  int64_t budget_ns;      /* 0: the plan's */
  const tp_field *fields; /* stay till on_end */
  uint32_t field_count;
  void (*on_end)(tp__phase_run *run);
  void *ctx;
  /* NULL: none is skipped; a skipped node has no duty (match) */
  bool (*skips)(const tp__phase_run *run, const tp__node *node);
  struct tp__entry *entry; /* the running entry, except in the loop of inline nodes; NULL: none */
  /* filled before on_end */
  tp_phase_result result;
  tp_status status; /* whether it was run */
};

/** Owner: begins a phase; on_end may be called before this returns. A phase without subscriptions ends at once, with a
 *  zero result. */
void tp__phase_begin(tp__phase_run *run);
/** In on_end: the number of the phase's entry, as in records; 0: the phase had no subscriptions. */
uint64_t tp__phase_entry_id(const tp_phase_result *result);
/** Owner: ends the running entry as cancelled, unless it ignores a cancel. on_end is called before this returns, or
 *  later. */
void tp__phase_cancel(tp__phase_run *run);
/** Owner: frees a result. */
void tp__phase_let_go(tp_phase_result *result);

/** The operation of tp_phase_submit() or tp_tools_submit(); one at a time per turn. A submit writes only one cache line
 *  of it. */
typedef struct tp__operation {
  tp__message message;
  void (*deliver)(tp__message *message); /* the function that gets the message, when the turn must get its id first */
  union {
    tp_phase_end_fn on_phase_end;
    tp_tools_end_fn on_tools_end;
  };
  void *ctx;
  const tp_field *fields; /* in the arena */
  int64_t budget_ns;
  uint32_t phase_id, field_count;
  /* owner only, and of a submit with a payload */
  tp__arena arena; /* the copied payload; its allocator is NULL when there is none */
  tp__phase_run phase;
} tp__operation;

struct tp_turn {
  tp__turn core;
  tp__operation operation;
  /* never changes */
  tp_session *session;            /* NULL: bare. A turn that its host drives has no reference to it */
  void *session_data, *data;      /* the host's */
  tp_agent *agent;                /* referenced until the turn's memory is freed; NULL: none */
  tp__listener_set *listeners[2]; /* referenced; the first is NULL: there is none */
  /* owner only */
  uint64_t event_sequence;
  tp__toolset *toolset;   /* NULL: no tools yet */
  tp__dispatch *dispatch; /* the calls under way */
  tp__drive *drive;       /* NULL: the host has a loop of its own */
  tp__message end_message;
  tp__link kept_dispatches; /* dispatches that have ended, with results that the host may read until the turn ends */
  uint32_t questions_open;
  int64_t asked_since_ns, asked_deadline_ns; /* while a question is open: since when, and the deadline at that time */
  tp__people people;                         /* the session's own; NULL: the runtime's */
  const tp__task_view *task;                 /* for a turn that task.c made; NULL: not for a task */
};
_Static_assert(offsetof(tp_turn, operation) % 64 == 0 && offsetof(tp__operation, arena) == 64,
               "what a submit writes is one line");

static inline tp_turn *tp__turn_of(tp__turn *core) { return (tp_turn *)core; }

/** What a nested turn is run for. */
typedef struct tp__nesting {
  tp__turn *parent;     /* the turn whose call runs this one; the caller holds a reference */
  int64_t until_ns;     /* the call's deadline */
  tp__attempt *attempt; /* the attempt of the call, when its thread waits for the turn; NULL: it does not wait */
} tp__nesting;

typedef struct tp__turn_ids {
  const char *tenant, *agent, *workspace, *session, *thread, *environment;
  tp_session *of; /* NULL: bare */
  void *session_data;
  tp__listener_list *listeners; /* the session's; NULL: only the runtime's listeners */
  const tp__people *people;     /* the session's own; NULL: none */
  tp_inbox *inbox;              /* the session's; NULL: none */
  tp_agent *used_agent; /* the agent whose config handlers of the turn read; the turn holds a reference; NULL: none */
  const tp__nesting *nesting; /* NULL: not a nested turn */
} tp__turn_ids;

/** Makes a turn for a request; the caller is the owner. A drain may find and cancel the turn at once.
 *  @return as tp_turn_begin(). */
tp_status tp__turn_new(tp_runtime *runtime, const tp__turn_ids *ids, const tp_turn_request *request, tp__turn_kind kind,
                       tp_turn **ret_turn, tp_fault *fault);
/** As tp__turn_new(), for a turn that its host drives. */
tp_status tp__turn_new_held(tp_runtime *runtime, const tp__turn_ids *ids, const tp_turn_request *request,
                            tp__turn_kind kind, tp_turn **ret_turn, tp_fault *fault);
/** Checks an id of a kind that may be any short text: at most 128 bytes of UTF-8. NULL: there is none. */
tp_status tp__name_check(const char *name, tp_fault *fault);
/** Checks the message of a user: UTF-8, and an array of texts or nothing. @param id the turn's, for the fault; may be
 *  NULL. */
tp_status tp__input_check(const char *id, tp_text text, tp_text files, tp_fault *fault);
/** Reads a request whose struct may be older, and checks its fields. */
tp_status tp__request_read(const tp_turn_request *theirs, tp_turn_request *ours, tp_fault *fault);
/** As tp__request_read(), for a turn that its host drives. */
tp_status tp__request_read_held(const tp_turn_request *theirs, tp_turn_request *ours, tp_fault *fault);
/** The release function of a turn without a drive, and the last step of that of a turn with a drive. */
void tp__turn_release(tp__turn *core);
/** Begins a synchronous operation: the host's thread becomes the owner, and stays the owner.
 *  @return TP_OK; TP_ERR_BUSY when another operation is running; TP_ERR_FORKED. On an error the thread is not the
 *    owner. */
tp_status tp__turn_enter(tp_turn *turn);
/** The synchronous operation has ended. */
static inline void tp__turn_exit(tp_turn *turn) { tp__a32_store_release(&turn->core.busy, 0); }
/** Gives a turn with its first message to the engine workers. Any thread that may begin an operation. */
void tp__turn_submit(tp_turn *turn, tp__message *message);
/** Owner: frees results and ends the turn when the owner leaves. */
void tp__turn_over(tp_turn *turn);

static inline bool tp__turn_has_listener(const tp_turn *turn) { return turn->listeners[0] != NULL; }
/** event.c: whether any listener of the turn takes events of this kind. */
bool tp__turn_wants(const tp_turn *turn, tp_event_kind kind);
/** event.c: whether the thread of a model may deliver its pieces to the listeners itself. Never changes. */
bool tp__turn_takes_pieces_anywhere(const tp_turn *turn);
/** event.c: gives a complete event to every listener of a turn that has listeners. Owner only. */
void tp__turn_notify(const tp_turn *turn, const tp_event *event, tp__listeners_of which);
/** event.c: fills in ids, time and number, and delivers the event to some listeners. A second call for the other
 *  listeners delivers the same event. Owner only. */
void tp__event_to(tp_turn *turn, tp_event *event, tp__listeners_of which);
/** Delivers an event to all listeners. A turn without listeners does not even make the event. Owner only. */
static inline void tp__event(tp_turn *turn, tp_event *event) {
  if (tp__turn_has_listener(turn)) tp__event_to(turn, event, TP__LISTENERS_ALL);
}
void tp__event_contributions(tp_turn *turn, const tp_phase_result *result, uint32_t phase);

/* ---- functions of the modules above, which turns call; each comment names the file ---- */

/** toolset.c: makes the tools of the newest materialization the tools of the turn.
 *  @param ret_needs_inbox  a tool that needs the session's inbox, when there is none; NULL: no such tool. */
tp_status tp__turn_take_tools(tp_turn *turn, const tp_merged *merged, const char **ret_needs_inbox);
/** toolset.c: accepts NULL. */
void tp__toolset_unref(tp__toolset *toolset);
/** tool_cancel.c: ends calls that have no result yet as cancelled. If the function of a call was called, it is given
 *  up, and the end phases of the call still run.
 *  @param call_id  empty: all.
 *  @return how many calls were not settled. */
size_t tp__dispatch_cancel(tp__dispatch *dispatch, tp_text call_id);
/** tools.c: frees the dispatches that the turn has kept. */
void tp__turn_free_dispatches(tp_turn *turn);
/** drive_life.c: cancels a driven turn. */
void tp__drive_cancel(tp__drive *drive);
/** talk.c: shows the messages so far to handlers of a driven turn. Without memory they still see the earlier state. */
void tp__drive_show_talk(tp__drive *drive);

#endif
