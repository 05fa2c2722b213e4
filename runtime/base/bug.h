/* SPDX-License-Identifier: Apache-2.0
 *
 * bug: known bugs that the simulator's own test plants, to see that the checker finds them. They exist only in the
 * simulated library; in other builds TP__BUG() is a constant 0. */
#ifndef TP__BUG_H
#define TP__BUG_H

enum tp__bug {
  TP__BUG_NONE = 0,
  TP__BUG_LOST_WAKEUP = 1,   /* an engine worker goes to sleep without looking at the queue again */
  TP__BUG_RECYCLED_SLOT = 2, /* a closed slot keeps its generation, so a late answer looks like an answer in time */
  /* drain does not wait for the turns that it cancelled: engine workers stop with strands queued */
  TP__BUG_LEFT_QUEUED = 3,
  TP__BUG_TWO_OWNERS = 4,  /* a handler thread runs the turn of its answer even when the turn has an owner */
  TP__BUG_NOT_WOKEN = 5,   /* an owner that leaves does not wake the handler threads for which it has work */
  TP__BUG_EARLY_END = 6,   /* the end of a turn is put before its submission has ended */
  TP__BUG_LOST_CANCEL = 7, /* a cancel of taken work is not put */
  /* a task is given up after its end was reported, so a run started from the report is refused */
  TP__BUG_LOST_DESTROY = 8,
  TP__BUG_TASK_HELD = 9,    /* the work of a session comes to the inbox of a session that was open before */
  TP__BUG_OTHER_INBOX = 10, /* work that found its inbox full does not come in when other work is taken */
  /* when something becomes ready in a runtime without threads, its descriptor does not show it */
  TP__BUG_LEFT_IN_LINE = 11,
  TP__BUG_PUMP_NOT_WOKEN = 12, /* a load of the history has no limit: its turn waits as long as the history does */
  TP__BUG_LOAD_ENDLESS = 13,   /* pieces of an answer that may still be replaced are delivered at once */
  TP__BUG_DELTA_PASSES = 14,   /* a call is sent although a handler of model.request left out its result */
  TP__BUG_PAIR_BROKEN = 15,    /* a call whose result a handler of model.request left out is sent */
  /* a thread that delivered one message does not hand on the messages that arrived meanwhile */
  TP__BUG_MESSAGE_LEFT = 16,
  TP__BUG_REST_LEFT = 17,        /* no thread delivers the messages that came while one was delivered */
  TP__BUG_POSTPONED_COUNTS = 18, /* a job that is postponed uses up an attempt */
  TP__BUG_SPACE_UNNOTICED = 19,  /* when the end of a job makes space, no waiting entry is notified */
  TP__BUG_LINE_SKIPPED = 20,     /* a waiting entry goes on without having stored its job */
  /* Of sessions that several runtimes share (tests/sim/fleet_sim.c): */
  TP__BUG_OLD_PAST = 21,         /* a load asks for what follows a later position than that of the session's copy */
  TP__BUG_UNFENCED_CALL = 22,    /* the start of a call is committed without the fence of its turn */
  TP__BUG_UNFENCED_JOB = 23,     /* so is a job */
  TP__BUG_FENCED_COMPLETES = 24, /* a turn completes although its append was fenced */
  TP__BUG_KEPT_CLAIM = 25,       /* a turn that did not append keeps its claim */
  TP__BUG_KEPT_LATE_CLAIM = 26,  /* a claim that came when the turn had left is kept */
  TP__BUG_UNSTORED_PAST = 27     /* messages whose append failed stay in the session */
};

#ifdef TP_SIM
extern enum tp__bug tp__planted_bug;
#define TP__BUG(bug) (tp__planted_bug == (bug))
#else
#define TP__BUG(bug) 0
#endif

#endif
