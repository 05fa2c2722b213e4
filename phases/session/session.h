/* SPDX-License-Identifier: Apache-2.0
 *
 * session: one conversation: its history, its reminders for the model, and the queue of its turns, which run one at a
 * time. Lock: `session`, for the queue. The history and the reminders belong to the owner of the running turn.
 * References: the host's (until close), one of each turn, one of each call to its history or model. */
#ifndef TP__SESSION_H
#define TP__SESSION_H

#include "phases/session/abilities.h"
#include "phases/session/admission.h"
#include "phases/turn/agent.h"
#include "phases/session/budget.h"
#include "phases/session/history.h"
#include "phases/model/past.h"
#include "phases/model/model.h"
#include "phases/session/reminders.h"
#include "phases/session/task_list.h"
#include "phases/turn/turn.h"

struct tp_session {
  tp__link link; /* under the lock of sessions.h, like the next one */
  tp__hash_link in_table;
  tp_runtime *runtime;
  /* never change after open */
  char *id, *tenant, *workspace, *thread, *environment;
  char *agent_id;                /* NULL: bare */
  tp__models models;             /* the models of the session itself */
  bool owns_models;              /* otherwise its turns use the models of their agent */
  tp_history history;            /* all NULL: in memory, which is `past` */
  tp_shared_history *shared;     /* referenced: the shared history; NULL: the history is the session's own */
  tp__history_user history_user; /* of shared; under its lock */
  tp__people people;             /* its own; NULL: the runtime's */
  int64_t history_tokens_max;    /* 0: none */
  tp_compaction compaction;
  tp_compact_fn compact; /* NULL: none */
  void *compact_ctx;
  uint32_t queued_max;
  tp_busy busy;
  uint32_t busy_wait_ms; /* 0: until the turn's limit */
  tp__admission *admission;
  tp__tenant *tenant_queue; /* NULL: the runtime does not limit the number of running turns */
  tp__budgets *budgets;
  tp__account *account; /* NULL: the runtime counts nothing by day */
  tp__allowance budget;
  bool has_budget; /* the session has a budget of its own, or an account */
  uint64_t number; /* rises in the order of the lists; a walk needs it */
  void *data;      /* the host's */
  int64_t opened_unix_ms;
  tp_inbox *inbox;             /* referenced; NULL: none */
  tp__listener_list listeners; /* under the lock of listeners.h */
  /* atomic */
  tp__a32 refs;
  tp__a32 close_asked; /* the host has asked for the close */
  tp__a32 end_asked;   /* the host or a drain has requested the end: session.end runs once */
  tp__a32 blocking; /* functions of its history that run or may still begin, including those that no turn waits for */
  /* under mutex */
  tp__mutex mutex;
  tp_agent *agent; /* NULL: bare. The agent of later turns, until it is replaced */
  tp__link queue;  /* drives that wait */
  uint32_t queued;
  uint32_t leaving; /* drives that were taken out of the queue, and whose end is being reported */
  bool over_waits;  /* for the last of these */
  tp__drive *running;
  bool ending;  /* the end of the running drive is being reported; its place in the queue is free */
  bool closing; /* nothing is queued any more */
  bool over;    /* the session is closing, and all queued turns have ended */
  bool closed;  /* the host has closed the handle. The later of over and closed frees the session */
  tp__abilities abilities;
  tp__abilities changed; /* files: names that calls with write keys below files/ have given */
  tp__task_list tasks;
  void (*on_end)(void *ctx);
  void *on_end_ctx;
  /* the running turn's owner */
  bool started;                 /* history loaded, session.start fired */
  tp_turn_outcome last_outcome; /* of the last turn that ran; NONE: no turn has run */
  tp_status last_code;
  tp__usage used;         /* what it has used of its budget */
  tp_history_claim claim; /* for a shared history; its position is that of the first message that is not in past */
  bool has_claim;         /* the running turn has a claim, until it appends or ends without that */
  tp__past *past;         /* referenced */
  tp__reminders reminders;
};

/** Whether the session loads and appends. If not, its past is all there is. */
static inline bool tp__session_has_history(const tp_session *session) {
  return session->history.load || session->history.load_start;
}
/** The agent of a turn that begins now: the one that has replaced the session's own, if any. A nested turn has its
 *  parent's agent, if both turns belong to this session.
 *  @return referenced; NULL: bare. */
tp_agent *tp__session_take_agent(tp_session *session, const tp__nesting *nesting);
/** The ids of a turn. @param agent the result of tp__session_take_agent(). */
static inline tp__turn_ids tp__session_ids(tp_session *session, tp_agent *agent, const tp__nesting *nesting) {
  return (tp__turn_ids){.tenant = session->tenant,
                        .agent = agent ? agent->id : NULL,
                        .workspace = session->workspace,
                        .session = session->id,
                        .thread = session->thread,
                        .environment = session->environment,
                        .of = session,
                        .session_data = session->data,
                        .listeners = &session->listeners,
                        .inbox = session->inbox,
                        .people = session->people.ask || session->people.permission ? &session->people : NULL,
                        .used_agent = agent,
                        .nesting = nesting};
}
/** Asserts the invariants of its queue and its end (session_queue.c). */
void tp__session_check_locked(const tp_session *session);
void tp__session_hold(tp_session *session);
void tp__session_unref(tp_session *session);
/** Adds to the lists of session.end: a tool whose function was called, a file that a call may have changed, a task that
 *  was created or run. Any thread that holds the session. */
void tp__session_note_tool(tp_session *session, tp_text name);
void tp__session_note_file(tp_session *session, tp_text path);
void tp__session_note_task(tp_session *session, tp_text key, tp_text ability, tp__task_status status);
/** Whether a turn of the session may begin with this snapshot. TP_ERR_USAGE when the session has no inbox, but a
 *  subscription that every turn calls needs it. */
tp_status tp__session_check_inbox(const tp_session *session, const tp__snapshot *snapshot, tp_fault *fault);
/** A turn that left the queue without having begun has reported its end. */
void tp__session_left(tp_session *session);
/** The work of tp_turn_run() and tp_turn_submit(). For a nested turn, it gets the call for which the turn runs; NULL:
 *  the turn is not nested. */
tp_status tp__session_run(tp_session *session, const tp_turn_request *request, const tp__nesting *nesting,
                          const tp_turn_result **ret_result, tp_fault *fault);
tp_status tp__session_submit(tp_session *session, const tp_turn_request *request, const tp__nesting *nesting,
                             tp_turn_end_fn on_end, void *ctx, tp_submission **ret_submission, tp_fault *fault);
/** Removes the session from the lists, drops the reference of its handle, and notifies the host that has closed it. */
void tp__session_closed(tp_session *session);
/** The running drive has ended: starts the next one. @return whether it was the last: then the caller calls
 *  tp__session_over() when its turn is gone. */
bool tp__session_next(tp_session *session);
/** Called before the end of the running turn is reported, because a host that gets the report may queue another
 *  turn. */
void tp__session_ending(tp_session *session);
/** Frees the session and notifies its host, if the host has closed it; otherwise the close does both. */
void tp__session_over(tp_session *session);
/** tp__layer_ops: closes every session that is open. */
void tp__sessions_close_all(tp_runtime *runtime, int64_t deadline_ns);

#endif
