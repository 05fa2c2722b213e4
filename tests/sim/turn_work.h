/* SPDX-License-Identifier: Apache-2.0
 *
 * turn workload: a driven session in the same world as host-driven turns: a model, tools, a gate and a history that
 * answer in time, late, twice, through tokens, or never. Their behaviour is drawn while they run, from the run's own
 * stream. */
#ifndef SIM_TURN_WORK_H
#define SIM_TURN_WORK_H

#include "world.h"

enum { TURN_WORK_TURNS_MAX = 2 };

/** A token, and what its completer does with it. */
typedef struct token_note {
  struct token_note *next;
  struct turn_work *d;
  tp_token token;
  uint32_t turn;   /* the turn of the model's request */
  uint32_t number; /* the number of the request in its turn */
  uint32_t calls;  /* calls in the model's answer */
  uint32_t pieces; /* pieces of the model's answer that were accepted */
  bool fails, retryable, is_model, deferred;
  bool twice; /* two threads complete the token */
  int64_t delay_ns;
  uint32_t cancels, destroys, accepted;
} token_note;

typedef struct turn_work {
  world *w;
  uint32_t index;
  tp_session *session;
  bool closed;
  tp__parker parker;
  token_note *tokens;
  uint32_t requests;     /* requests to the model in this turn */
  uint32_t calls_wanted; /* calls in accepted answers of this turn's model */
  uint32_t tool_ends;    /* TOOL_END events of this turn */
  uint32_t batch;        /* bit per call of the response: it has ended */
  uint64_t last_event;
  bool is_asked;        /* a MODEL_BEGIN came, and its MODEL_END has not */
  uint32_t piece_bytes; /* bytes of pieces since that MODEL_BEGIN */
  uint32_t events_of_end;
  uint32_t turn; /* the turn that runs */
  uint32_t turn_ends, post_turns, errors, session_ends;
  uint32_t stops, stop_denials; /* calls of x.stop in this turn, and how many of them denied */
  uint32_t denied_at;           /* number of requests at the last denial of x.stop */
  bool is_stubborn, overruled;
  int64_t post_queued_ns; /* time at which x.post was skipped because the time of its entry was over; 0: it was not
                             skipped */
  bool post_skipped;      /* x.post was skipped for that reason */
  tp_turn_outcome outcome;
  bool unbegun; /* the turn ended in the queue */
  uint32_t models_taken, model_destroys, history_destroys;
  bool fell_back; /* this turn has asked the fallback */
  bool shares;    /* the session uses the history of the runtime */
  bool model_taken;
  char numbers[10];                       /* the host gives each turn the address of one of these as its own pointer */
  bool has_messages[TURN_WORK_TURNS_MAX]; /* the turn has messages of its own */
} turn_work;

/** Adds the subscriptions of the turn workloads. */
tp_status turn_work_register(world *w, tp_edit *edit);
/** A host: opens, runs the turns, closes. arg: a turn workload whose w and index are set. */
void turn_work_run(void *arg);
/** Called when the run is over. */
void turn_work_ended(turn_work *d);
void turn_work_fini(turn_work *d);

#endif
