/* SPDX-License-Identifier: Apache-2.0
 *
 * loop: a host with one thread, whose model, tools and listener have an inbox instead of functions. It takes work at
 * once or late, answers it at once, later, twice or never, returns events at any time, lets the inbox become full, and
 * frees it at any moment. There may be two of them; objects that are registered for both name the inbox of the
 * session. */
#ifndef SIM_LOOP_H
#define SIM_LOOP_H

#include "world.h"

enum { LOOP_TURNS_MAX = 3, LOOP_KNOWN_MAX = 8, LOOP_EVENTS_MAX = 8 };

typedef struct loop loop;

/** The ctx of a tool, from its emit to its destroy; kept longer for the checks. */
typedef struct loop_tool {
  loop *l;
  struct loop_tool *next;
  bool single;   /* the tool has one permit */
  uint32_t open; /* calls that were taken and not answered */
  uint32_t destroys;
} loop_tool;

/** The events of one turn, by its id. */
typedef struct loop_heard {
  char turn[48];
  uint64_t sequence;
  bool ended;
} loop_heard;

typedef struct loop_answer loop_answer;

/** A turn that was submitted. */
typedef struct loop_turn {
  struct loop *l;
  struct loop_turn *next;
  tp_submission *submission;
  bool by_inbox; /* its end comes through the inbox */
  bool ended;
} loop_turn;

struct loop {
  world *w;
  const char *id;  /* the id of its session */
  bool by_session; /* its objects name the inbox of the session; else they name the inbox itself */
  tp_inbox *inbox; /* NULL: none, or freed */
  tp_session *session;
  tp__parker parker; /* the host waits on it when the inbox is gone, and for the session's end */
  bool freed_early, closed, session_taken;
  uint32_t turn, requests;
  uint32_t begun, ended; /* turns: submitted, and reported to on_end */
  uint32_t ends_heard;   /* ends that were reported by events */
  loop_turn *turns;      /* newest first */
  uint64_t gaps, lost;   /* sequence numbers that are missing, and what markers say */
  uint32_t tools_taken, tools_destroyed;
  loop_tool *tools; /* newest first */
  uint32_t model_destroys, listener_destroys;
  bool listener_taken;
  uint32_t single_taken; /* calls of the tool with one permit: taken, and not completed */
  loop_heard heard[LOOP_KNOWN_MAX];
  uint32_t heard_count;
  const tp_work *events[LOOP_EVENTS_MAX]; /* events that were taken and not returned */
  uint32_t event_count;
  loop_answer *answers; /* newest first */
};

/** The hooks that contribute their tools, and that look at their requests. */
tp_status loop_register(world *w, tp_edit *edit);
/** arg: the loop. */
void loop_run(void *arg);
/** Completes what is left, after the end of the runtime. */
void loop_after_free(loop *l);
/** Checks the loop at the end of the run. */
void loop_ended(loop *l);
void loop_fini(loop *l);

#endif
