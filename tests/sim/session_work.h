/* SPDX-License-Identifier: Apache-2.0
 *
 * session workload: several hosts on one driven session: turns wait in its queue, are cancelled at any moment, run by
 * the caller or by a worker; a logical phase ends between them, and the session is closed after all of them. Its agent
 * is built before and removed meanwhile. The events are drawn while it runs, from the run's own stream. */
#ifndef SIM_SESSION_WORK_H
#define SIM_SESSION_WORK_H

#include "added_work.h"

enum { SESSION_WORK_HOSTS_MAX = 3, SESSION_WORK_TURNS_MAX = 4 }; /* turns of each host */

typedef struct session_work_turn {
  struct session_work_host *host;
  char id[8];
  bool taken, waited_for, begun, unbegun;
  bool job_done;
  uint32_t ends, posts, jobs;
  uint32_t postponed;             /* number of its jobs that were postponed */
  uint32_t end_place, post_place; /* rank of its end among all ends, and of its post among all posts, from 1 */
  tp_submission *turn;            /* the reference of its host */
} session_work_turn;

typedef struct session_work_host {
  struct session_work *session_work;
  session_work_turn turns[SESSION_WORK_TURNS_MAX];
  uint32_t turn_count;
} session_work_host;

typedef struct session_work {
  world *w;
  tp_agent *agent;
  tp_session *session;
  tp__parker parker;
  session_work_host hosts[SESSION_WORK_HOSTS_MAX];
  uint32_t host_count, queued_max;
  uint32_t ends, posts; /* numbers of turns */
  uint32_t working;     /* jobs that run */
  bool closed, model_taken;
  uint32_t phases_submitted, phases_ended;
  uint32_t session_ends, session_ends_wanted, models_destroyed, unregistered, agents_made;
  uint32_t agents_refused;
  uint32_t registered[2]; /* subscriptions that each of its two registrars has registered and not unregistered */
  bool refuses;           /* the second registrar, the agent that is being added */
  added_work added;
} session_work;

/** Adds the subscriptions of the session workload. */
tp_status session_work_register(world *w, tp_edit *edit);
/** Called before the run. */
void session_work_name(session_work *c, world *w);
/** One host. arg: a session workload that is named. */
void session_work_run(void *arg);
/** Called when the run is over. */
void session_work_ended(const session_work *c);

#endif
