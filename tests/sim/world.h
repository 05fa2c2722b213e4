/* SPDX-License-Identifier: Apache-2.0
 *
 * world: one play of a script: a runtime on the simulated machine, its handlers, the threads that complete their
 * tokens, and the hosts that run turns. Each of them takes notes; the oracle reads them. Only the run's fibers use it.
 * They switch only in functions of the simulated machine, so the notes need no lock. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "runtime/base/printf.h"
#include "script.h"

enum { WORLD_OPS = SCRIPT_TURNS_MAX * SCRIPT_OPS_MAX, WORLD_LISTENERS = 16, WORLD_TURNS = 4096 };

typedef struct world world;
struct session_work;
struct loop;
struct turn_work;
struct tool_work;
struct commit_work_editor;
struct commit_work_reader;
struct history_call;

/** The events of a session with one host-driven turn: the sequence numbers of that turn, and of the session's own
 *  end. */
typedef struct event_order {
  uint64_t turns, ends;
} event_order;

/** A listener of the runtime, added and removed while turns run. */
typedef struct world_listener {
  world *w;
  uint64_t id;
  bool removed; /* the call that removes it has returned */
  uint32_t destroys;
} world_listener;

/** One call of a handler. */
typedef struct call_note {
  world *w;
  struct call_note *next;
  int node;
  uint32_t op, attempt;
  const script_move *move;
  int64_t started_ns;
  int64_t deadline_ns,
      deadline_max_ns;     /* the call ends between these two, according to tp_call_time_left_ms(); INT64_MAX: it never
                              ends */
  int64_t answered_ns;     /* time just before the answer was given; 0: no answer was given */
  int64_t finished_ns;     /* time at which the function returned; 0: it runs */
  uint64_t running_before; /* bit per node: calls of this operation that ran when this one began */
  uint64_t deps_seen, deps_good, deps_fallback; /* bit per node: what the call learned of its dependencies */
  int text_of;                                  /* in a chain that replaces: the node whose text the call found; -1: the
                                                   first text */
  bool in_inbox;                                /* a host took the call from the inbox: it has a token, and no
                                                   deferral */
  bool deferred;
  bool token_over;  /* a completion has come back: from now on the token is stale */
  uint64_t over_at; /* how often takers had looked into the inbox when the token became stale */
  bool in_cancel;
  tp_token token;
  uint32_t accepted; /* completions that were accepted */
  uint32_t cancels, destroys;
} call_note;

/** One run of a phase. */
typedef struct op_note {
  uint32_t ends;
  bool begun; /* the engine accepted it */
  bool empty; /* its phase has no subscription */
  int64_t begun_ns, ended_ns;
  tp_status outcome;
  uint32_t run_count;
  uint64_t entry_id;      /* 0: it had no entry */
  uint64_t bytes_hash;    /* hash of the merged result */
  uint64_t runs_hash;     /* hash of the outcomes of all runs */
  tp_phase_result result; /* valid while the turn is open and the result is not released */
  uint8_t state[SCRIPT_NODES_MAX], reason[SCRIPT_NODES_MAX];
  uint16_t attempts[SCRIPT_NODES_MAX];
} op_note;

typedef struct node_actor {
  world *w;
  int index;
  bool taken, match_taken; /* the handler was accepted; its predicate was accepted */
  uint32_t destroys, match_destroys;
  uint32_t running; /* its functions that run on handler threads */
} node_actor;

typedef struct turn_actor {
  world *w;
  uint32_t index;
  tp_turn *turn;
  tp_session *session;
  uint32_t next_op;
  int64_t limit_end_ns; /* the latest time at which the turn's deadline may be; 0: the turn has no deadline that is
                           checked */
  int64_t cancelled_ns; /* 0: not requested */
  uint32_t inside;      /* inline handlers of the turn that run */
  bool session_closed;
  bool ending;        /* no other thread may use the turn any more */
  uint32_t releasers; /* threads that release a result of the turn */
  event_order heard;
  uint32_t run_events; /* run events of the phase that runs */
  tp__parker parker;   /* the host waits here */
} turn_actor;

struct world {
  const script *s;
  tp_runtime *runtime;
  tp_phase rows[SCRIPT_PHASES];
  node_actor nodes[SCRIPT_NODES_MAX];
  turn_actor turns[SCRIPT_TURNS_MAX];
  op_note ops[WORLD_OPS];
  tp__mutex results;                  /* guards the results while one thread hands them to another */
  struct turn_work *turn_works;       /* s->turn_work_count of them */
  struct load_work *load;             /* the turns that wait for each other; NULL: there is no limit */
  struct nested_work *nested;         /* NULL: none */
  struct task_work *tasks;            /* NULL: none */
  struct compaction_work *compaction; /* NULL: none */
  struct ask_note *asks;              /* what handlers asked models, and the answers */
  struct tool_work *tool_works;       /* s->tool_work_count */
  struct commit_work_editor *editors; /* s->editor_count */
  struct commit_work_reader *readers; /* s->reader_count */
  struct session_work *session_work;  /* NULL: none */
  struct loop *loops;                 /* s->loop_count */
  tp_shared_history *history;         /* the reference of the test, until the runtime was freed; NULL: there is none */
  struct history_call *history_calls; /* newest first */
  uint32_t history_destroys;
  bool history_taken;
  uint32_t destructor_turns;    /* turns of destructors that are open */
  uint32_t destructor_sessions; /* sessions that destructors have opened */
  uint32_t idle_opened, idle_ended;
  tp_inbox *inbox; /* NULL: none, or freed */
  bool takers_stop;
  bool pump_stops;
  uint64_t looks;                            /* how often takers have looked into the inbox */
  uint64_t jobs_seen, turns_seen;            /* what the observer has seen of them */
  uint32_t waits_submitted, waits_ended;     /* waits for jobs */
  world_listener listeners[WORLD_LISTENERS]; /* the listeners that the observer adds to the runtime */
  uint32_t listener_count;
  uint64_t moment;  /* numbers the calls and returns whose order is checked */
  call_note *calls; /* newest first */
  uint32_t call_count;
  tp_store *inner; /* the memory store that the store of the test calls */
  tp_store store;  /* the store of the test, which the runtime uses */
  uint32_t store_opens;
  uint32_t store_destroys;
  uint8_t turn_recorded[WORLD_TURNS]; /* by the number of the turn */
  bool turn_is_over[WORLD_TURNS];     /* by the number that the turn had while it ran */
  uint32_t in_audit;
  bool store_taken;
  uint64_t *records; /* ids of the recorded entries: a hash table in which 0 is a free place */
  size_t record_count, record_capacity;
  uint32_t handlers_running;
  uint32_t single_running; /* functions of TOOL_SINGLE that run */
  bool registered;         /* the commit of the registration succeeded */
  bool draining, freed;
  uint64_t abandoned; /* functions of handlers that the last drain has given up: they return at any time */
  uint64_t jobs_refused, jobs_shed; /* the counters of the runtime after the drain */
  int64_t drain_ns;                 /* time at which the first drain began; 0: not yet */
  size_t bytes_open;
  tp__sim_report report;
  char failure[640]; /* the first property that did not hold; empty: all held */
};

/** Plays the script once with this many engine workers (0: the script's own number). The notes live until
 *  world_fini(). */
void world_play(world *w, const script *s, uint32_t workers);
void world_fini(world *w);
/** Reports that a property did not hold. Only the first report is kept. */
void world_fail(world *w, const char *property, const char *format, ...) TP__PRINTF(3, 4);
/** Fails the world unless the function of the API succeeded, or failed for a reason that exists in this world. */
void world_check_status(world *w, const char *what, tp_status status);
/** Notes an event of a session with one host-driven turn; turn is the id of that turn. @return whether the event
 *  belongs to the turn. */
bool world_heard(world *w, event_order *order, const tp_event *event);
/** Whether the entry's record was written. */
bool world_recorded(const world *w, uint64_t entry_id);
static inline bool world_failed(const world *w) { return w->failure[0] != '\0'; }
static inline const script_op *world_op(const world *w, uint32_t op) {
  return &w->s->turns[op / SCRIPT_OPS_MAX].ops[op % SCRIPT_OPS_MAX];
}

/** A subscription of the play's own hosts. */
typedef struct world_hook {
  const char *id; /* id of the handler and of its subscription; ctx is the world */
  uint32_t phase;
  tp_handler_fn run;
  tp_capability capabilities;
  bool is_inline, background;
  const char *alias; /* subscribed through this name of the phase */
  uint32_t also;     /* a second phase of the handler; 0: none */
  uint32_t attempts;
  tp_failure failure;
  tp_backlog backlog;
} world_hook;
tp_status world_subscribe(world *w, tp_edit *edit, const world_hook *hook);

/* For choices that are drawn during the run. */
static inline bool world_one_in(uint64_t inverse) { return tp__sim_random(inverse) == 0; }
static inline int64_t world_pause_ns(uint64_t us_max) {
  return world_one_in(3) ? 0 : (int64_t)tp__sim_random(us_max * TP__NS_PER_US);
}
/* How long a function hangs. In a runtime without threads everything waits for it, and a drain looks every
 * millisecond. */
static inline int64_t world_hang_ns(const world *w, int64_t ns) {
  const int64_t most_ns = (int64_t)300 * TP__NS_PER_MS;
  return w->s->options.pump && ns > most_ns ? most_ns : ns;
}
static inline bool world_is_fault_free(const world *w) { return w->s->fault_level == FAULTS_NONE; }

/** handler.c: what a node's handler does. */
tp_answer handler_run(void *ctx, tp_call *call);
/** handler.c: completes a note's token as its move says. */
tp_status handler_complete(call_note *note);
/** handler.c: the same later, on a thread of its own. */
void handler_complete_later(call_note *note);
/** handler.c: everything that a host does with an accepted call, except the answer. @return the note of it. */
call_note *handler_take(const tp_work *work);
/** handler.c: the answer to this work is not wanted any more. looks: w->looks before the work was taken. */
void handler_cancel(world *w, const tp_work *work, uint64_t looks);
/** taker.c: the inbox, and a host that takes from it. arg: the world. */
tp_status taker_open(world *w);
void taker_run(void *arg);
/** Called after the drains: each call that waits for its cancel must have got it. */
void taker_look_at_cancels(const world *w);
/** Called when no taker uses the inbox any more. */
void taker_close(world *w);
/** pumper.c: the host that pumps a runtime without threads, from a poll loop, until w->pump_stops. arg: the world. */
void pumper_run(void *arg);
/** Stops the pumping host, which is woken for that. */
void pumper_stop(world *w);
/** destructor.c: what a destructor of the host does: it calls the runtime. */
void world_destructor(world *w);
/** The same for a destructor that a call of the host may run after tp_runtime_free(): of objects that name an inbox,
 *  and of shared objects. There it must not use the runtime, which no longer exists. */
void world_destructor_by_host(world *w);
/** idle.c: a host that opens sessions and leaves them. arg: the world. */
void idle_run(void *arg);
tp_status idle_register(world *w, tp_edit *edit);
void idle_ended(world *w);
/** observer.c: a host. arg: the world. */
void observer_run(void *arg);
/** A thread of the test: its start is never refused, and it frees itself. NULL when there are too many. */
tp__thread *world_start(const char *name, void (*run)(void *arg), void *arg);

/** trace.c: prints the script and the notes, of the calls only the newest 64. */
void trace_print(const world *w);

/** Like world_start(), but the thread is joined. */
tp__thread *world_start_joined(const char *name, void (*run)(void *arg), void *arg);

/** oracle.c: the properties at the end of an operation; called once, by its owner, while the result lives. */
void oracle_op_ended(world *w, uint32_t op, const tp_phase_result *result);
/** Called before the result is released: nothing may have changed it. */
void oracle_op_again(world *w, uint32_t op, const tp_phase_result *result);
/** How long inline functions ran between the two times. They occupy the threads that would end other runs. */
int64_t oracle_inline_between(const world *w, int64_t from_ns, int64_t to_ns);
/** Called when the run is over. */
void oracle_world_ended(world *w);

/** Compares two plays of one script without faults. */
void oracle_same(world *a, const world *b, uint32_t workers_a, uint32_t workers_b);

/* ---- owner.c ---- */

/** Fails the world when a turn has two owners, or has none while something of it is ready. */
void owner_watch(world *w);

#endif
