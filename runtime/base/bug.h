/* SPDX-License-Identifier: Apache-2.0
 *
 * bug: known bugs that the simulator's own test plants, to see that the checker finds them. They exist in the
 * simulated library only; elsewhere TP__BUG() is a constant 0. */
#ifndef TP__BUG_H
#define TP__BUG_H

enum tp__bug {
  TP__BUG_NONE = 0,
  TP__BUG_LOST_WAKEUP = 1,     /* an engine worker goes to sleep without looking at the queue again */
  TP__BUG_RECYCLED_SLOT = 2,   /* a closed slot keeps its generation: a late answer looks like one in time */
  TP__BUG_LEFT_QUEUED = 3,     /* drain does not wait for what it cancelled: engine workers stop with strands queued */
  TP__BUG_TWO_OWNERS = 4,      /* a handler thread runs the turn of its answer on, whether that has an owner or not */
  TP__BUG_NOT_WOKEN = 5,       /* an owner that leaves does not wake the handler threads that it was to wake */
  TP__BUG_EARLY_END = 6,       /* the end of a turn is put before its submission has ended */
  TP__BUG_LOST_CANCEL = 7,     /* a cancel of taken work is not put */
  TP__BUG_LOST_DESTROY = 8,    /* the release of a destroy does not call it */
  TP__BUG_TASK_HELD = 9,       /* a task is given up after its end was reported: its run from there is refused */
  TP__BUG_OTHER_INBOX = 10,    /* the work of a session comes to the inbox of one that was open before */
  TP__BUG_LEFT_IN_LINE = 11,   /* work that found its inbox full does not come in when other work is taken */
  TP__BUG_PUMP_NOT_WOKEN = 12, /* what becomes ready in a runtime without threads does not show at its descriptor */
  TP__BUG_LOAD_ENDLESS = 13,   /* a load that was begun has no limit: its turn waits as long as its history does */
  TP__BUG_DELTA_PASSES = 14,   /* pieces of an answer that may be replaced are delivered at once */
  TP__BUG_PAIR_BROKEN = 15,    /* a call whose result a handler of model.request left out is sent */
  TP__BUG_MESSAGE_LEFT = 16,   /* a turn ends although a message was added to it while its answer came */
  TP__BUG_REST_LEFT = 17,      /* who delivered one message leaves what has come meanwhile to nobody */
  TP__BUG_POSTPONED_COUNTS = 18, /* a job that is postponed uses up an attempt */
  TP__BUG_SPACE_UNNOTICED = 19,  /* a job that ends makes space of which no entry in line is notified */
  TP__BUG_LINE_SKIPPED = 20      /* an entry in line goes on without having stored its job */
};

#ifdef TP_SIM
extern enum tp__bug tp__planted_bug;
#define TP__BUG(bug) (tp__planted_bug == (bug))
#else
#define TP__BUG(bug) 0
#endif

#endif
