/* SPDX-License-Identifier: Apache-2.0
 *
 * script: what one seed decides before anything runs: the machine, the phases, the graph with its policies, the
 * behaviour of every handler at each attempt, and the actions of the hosts. It is drawn from a stream of its own, so
 * that the same script can be played with other numbers of threads. */
#ifndef SIM_SCRIPT_H
#define SIM_SCRIPT_H

#include "runtime/os/sim.h"
#include "turnphase/turnphase.h"

enum {
  SCRIPT_NODES_MAX = 64,
  SCRIPT_TURNS_MAX = 4,
  SCRIPT_OPS_MAX = 3,
  SCRIPT_EDGES_MAX = 4,
  SCRIPT_MOVES = 3,
  SCRIPT_TURN_WORKS_MAX = 2,
  SCRIPT_TOOL_WORKS_MAX = 2,
  SCRIPT_LOAD_TURNS_MAX = 24,
  SCRIPT_EDITORS_MAX = 2,
  SCRIPT_READERS_MAX = 2,
  SCRIPT_LOOPS_MAX = 2,
  SCRIPT_TAKERS_MAX = 2,
  SCRIPT_FIELD_OP = TP_FIELD_HOST,      /* int: which operation the call belongs to */
  SCRIPT_FIELD_TEXT = TP_FIELD_HOST + 1 /* text: what replacing chains replace */
};

/** The host's phases, one of each way of working together. */
enum { PHASE_GATHER, PHASE_STRICT, PHASE_REPLACE, PHASE_STOP, PHASE_BOTH, PHASE_OBSERVE, SCRIPT_PHASES };

/** The faults that are played. Each level has the faults of the levels before it, and leaves out the oracles that need
 *  the absence of its faults. */
typedef enum script_fault_level {
  FAULTS_NONE = 0,    /* everything answers in time, and only failures of the script occur: outcomes are known */
  FAULTS_HANGS = 1,   /* handlers hang and are late, hosts cancel, but time passes only when all threads wait */
  FAULTS_CLOCK = 2,   /* the clock jumps while work is runnable */
  FAULTS_REFUSALS = 3 /* the same, and memory, threads and the store are refused */
} script_fault_level;

typedef enum script_answer {
  ANSWER_DONE,
  ANSWER_REPLACE,
  ANSWER_ALLOW,
  ANSWER_DENY,
  ANSWER_ASK,
  ANSWER_FAIL,
  ANSWER_FAIL_RETRYABLE,
  ANSWER_BAD_EMIT, /* emits what it may not emit, and answers that it is done */
  ANSWER_NONE,     /* returns 0, like a callback that raised an exception; never together with a deferral */
  SCRIPT_ANSWERS
} script_answer;

typedef enum script_way {
  WAY_RETURN,
  WAY_DEFER,            /* another thread completes the token later_ns after the deferral */
  WAY_DEFER_TWICE,      /* the same, by two other threads */
  WAY_DEFER_INSIDE,     /* completed before the function returns */
  WAY_DEFER_AND_RETURN, /* deferred and also answered at once, which is malformed */
  WAY_DEFER_NEVER,
  WAY_DEFER_ON_CANCEL,  /* completed by the deferral's cancel */
  WAY_DEFER_AFTER_FREE, /* completed when the runtime is gone */
  SCRIPT_WAYS
} script_way;

/** What a handler does in one attempt. */
typedef struct script_move {
  script_answer answer;
  script_way way;
  int64_t before_ns; /* time spent in the function */
  int64_t later_ns;  /* time from the deferral to its completion */
  bool polite;       /* looks at tp_call_cancelled() while it works */
} script_move;

typedef struct script_edge {
  int target; /* a node's index; -1: a subscription that does not exist */
  bool requires_success, optional;
} script_edge;

typedef struct script_node {
  char id[16];
  int phase;
  int32_t priority;
  bool is_inline, inbox, disabled, killed, detached;
  int match; /* the predicate of the node: 0: none; 1: it matches; 2: it does not match; 3: it gives no answer */
  tp_execution execution;
  tp_failure failure;
  uint32_t limit_ms;
  uint32_t attempts;
  tp_backoff backoff;
  uint32_t backoff_ms;
  uint32_t max_concurrent;
  tp_sequential sequential;
  uint32_t fallback_count;
  tp_verdict fallback_verdict;
  bool silent; /* a good answer has no contributions */
  /* how many audits a good answer contributes, in addition to one contribution of the phase's own kind */
  uint32_t emits;
  script_edge edges[SCRIPT_EDGES_MAX];
  uint32_t edge_count;
  script_move moves[SCRIPT_MOVES]; /* by attempt; the last move stands for all later attempts */
} script_node;

typedef struct script_op {
  int phase;
  bool submitted;
  bool release; /* its result is released before the turn ends */
  uint32_t budget_ms;
} script_op;

typedef struct script_turn {
  script_op ops[SCRIPT_OPS_MAX];
  uint32_t op_count;
  bool chained;    /* each operation begins when the one before ends, and the end of the last one ends the turn */
  bool in_session; /* begun in a session with an event callback */
  int64_t begin_ns;
  int64_t cancel_ns; /* time from the begin of the turn; 0: never */
  uint32_t limit_ms;
} script_turn;

typedef struct script {
  uint64_t seed;
  script_fault_level fault_level;
  tp_runtime_options options; /* the options without allocator, phases and store */
  tp__sim_options sim;
  bool refuse_setup; /* refusals begin before the registration */
  uint32_t store_refuse_inverse;
  uint32_t phase_limit_ms;
  script_node nodes[SCRIPT_NODES_MAX];
  uint32_t node_count;
  script_turn turns[SCRIPT_TURNS_MAX];
  uint32_t turn_count;
  uint32_t turn_work_count; /* number of sessions that the library drives */
  bool filters;             /* the text of their models is held and replaced */
  int64_t drain_ns;         /* time of a drain in the middle; 0: only at the end */
  uint32_t drain_limit_ms;
  int64_t kill_ns; /* time at which a subscription is switched off; 0: never */
  int kill_node;
  uint32_t pokes;    /* how often stale tokens are tried */
  bool all_parallel; /* every node that is not on a thread is of placement parallel */
  uint32_t helpers_max;
  int64_t search_ns;         /* how long a worker looks for work before it sleeps */
  bool wall_jumps;           /* a thread sets the wall clock meanwhile */
  uint32_t tool_work_count;  /* number of hosts that dispatch tool calls on turns of their own */
  uint32_t load_turns;       /* number of turns of sessions of several tenants; more than run at once */
  uint64_t tool_work_stream; /* the stream from which the actions of these hosts are drawn */
  uint32_t editor_count;     /* number of hosts that commit edits during the run */
  uint32_t reader_count;     /* number of hosts whose turns check what they see of these edits */
  bool session_work;         /* a session that several hosts use */
  uint32_t jobs_max;         /* most jobs of the store; 0: no job finds it full */
  tp_backlog backlog;        /* what the jobs of the session do when the store is full */
  bool nested;               /* a session whose turns run turns of others */
  bool compaction;           /* a session whose history is made shorter */
  bool tasks;                /* tasks are submitted */
  int history;               /* a history that sessions share: 0: none; 1: it appends at once; 2: later */
  bool history_loads_later;  /* the history loads through a token */
  bool destructors_call;     /* destructors of objects call the runtime that destroys the objects */
  uint32_t idle_sessions;    /* number of sessions that are opened, and that only the drain closes */
  uint32_t looks;            /* how often the observer asks for the state */
  uint32_t taker_count;      /* hosts that take from the inbox; 0: no node has one */
  uint32_t inbox_capacity;
  int64_t inbox_close_ns; /* time at which its one taker frees the inbox; 0: after the drains */
  uint32_t loop_count;    /* number of hosts with one thread; all work of their agents comes through an inbox of the
                             host */
  uint32_t loop_capacity, loop_event_capacity;
  int64_t loop_close_ns; /* time at which such a host frees its inbox; 0: at the end */
} script;

/** Draws the script of a seed. policy: that of the scheduler; -1: it is drawn. */
void script_draw(script *s, uint64_t seed, uint32_t nodes_max, int policy);
/** The rows of the host's phases, SCRIPT_PHASES of them; they live as long as the script. */
void script_rows(const script *s, tp_phase *rows);
const char *script_fault_level_name(script_fault_level fault_level);
bool script_phase_stops(int phase);
bool script_phase_replaces(int phase);
bool script_phase_is_chain(int phase);
static inline const script_move *script_move_of(const script_node *node, uint32_t attempt) {
  return &node->moves[attempt > SCRIPT_MOVES ? SCRIPT_MOVES - 1 : attempt - 1];
}

#endif
