/* SPDX-License-Identifier: Apache-2.0
 *
 * choice: selects the turns, jobs and tasks of a session that a request erases or exports, by what the rows of the
 * session say. The unit is the turn, because an answer repeats the question and each call needs its result. A job and a
 * task are units of their own, and a job is erased with its turn. Every row that is exported is seen, so all that is
 * exported is also searched. Each library of a store has a copy, so that all stores select the same. A choice belongs
 * to one thread; there is no lock. */
#ifndef TP__STORES_CHOICE_H
#define TP__STORES_CHOICE_H

#include "turnphase/sessions.h"

/** Reads and checks a caller's request. @return TP_OK; TP_ERR_VERSION, TP_ERR_USAGE with the fault filled. */
tp_status tp__choice_read(tp_kept_choice *request, const tp_kept_choice *theirs, tp_fault *fault);
/** Whether a request selects single turns, and not whole sessions. */
bool tp__choice_is_by_turn(const tp_kept_choice *request);
/** Which sessions a request is about. Its texts are borrowed. */
tp_kept_query tp__choice_query(const tp_kept_choice *request);
/** Fills a caller's report as far as it reaches. @return TP_OK; TP_ERR_VERSION for a wrong struct_size. */
tp_status tp__choice_show(tp_kept_erased *theirs, const tp_kept_erased *report);

typedef enum tp__unit_kind { TP__UNIT_TURN, TP__UNIT_JOB, TP__UNIT_TASK } tp__unit_kind;

/** A unit of a session, and what its rows say. */
typedef struct tp__unit {
  tp__unit_kind kind;
  bool matches, is_persons, is_known, is_chosen;
  bool is_near;    /* of a turn: some chosen unit names it */
  tp_text turn;    /* a copy; empty: none */
  tp_text key;     /* of a task, a copy */
  int64_t id;      /* of a job */
  int64_t last_ms; /* 0: not known */
} tp__unit;

/** The units of one session. Zero-filled, with the request set, is empty. */
typedef struct tp__choice {
  const tp_kept_choice *request;
  tp__unit *units;
  size_t count, capacity;
  uint32_t *places; /* a hash table: 1 + the index of a unit; 0: none */
  size_t place_count;
  uint64_t persons_rows, others_rows; /* that name a workspace or a thread */
  uint64_t chosen, turns, unknown;    /* units; chosen turns; turns and tasks that stay, since they are nobody's */
  bool failed;                        /* no memory */
} tp__choice;

/** Empties it, and keeps memory: another session comes. */
void tp__choice_clear(tp__choice *choice);
void tp__choice_fini(tp__choice *choice);
/** Sees a row, as a tp_kept_row_fn gets it. @return false: no memory, and the choice has failed. */
bool tp__choice_see(tp__choice *choice, const char *kind, tp_text row);
/** Selects, once all rows of the session were seen. Sets chosen, turns and unknown. */
void tp__choice_decide(tp__choice *choice);
/** Whether a row belongs to a unit that was selected. */
bool tp__choice_has(const tp__choice *choice, const char *kind, tp_text row);

#endif
