/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd: several hosts on one session that the library drives: turns wait in its queue, are cancelled at any moment,
 * run by whoever asked or by a worker; a logical phase ends between them, and the session is closed behind all of them.
 * Its agent is built before and taken away meanwhile. What happens is drawn while it runs,
 * from the run's own stream. */
#ifndef SIM_CROWD_H
#define SIM_CROWD_H

#include "world.h"

enum { CROWD_HOSTS_MAX = 3, CROWD_TURNS_MAX = 4 }; /* turns of each host */

typedef struct crowd_turn {
  struct crowd_host *host;
  char id[8];
  bool taken, waited_for, begun, unbegun;
  bool job_done;
  uint32_t ends, posts, jobs;
  uint32_t end_place, post_place; /* the how-manieth of the crowd it was */
  tp_submission *turn;            /* held by its host */
} crowd_turn;

typedef struct crowd_host {
  struct crowd *crowd;
  crowd_turn turns[CROWD_TURNS_MAX];
  uint32_t turn_count;
} crowd_host;

typedef struct crowd {
  world *w;
  tp_agent *agent;
  tp_session *session;
  tp__parker parker;
  crowd_host hosts[CROWD_HOSTS_MAX];
  uint32_t host_count, queued_max;
  uint32_t ends, posts; /* of turns */
  uint32_t working;     /* jobs */
  bool closed, model_taken;
  uint32_t phases_submitted, phases_ended;
  uint32_t session_ends, session_ends_wanted, models_destroyed, unregistered, agents_made;
  uint32_t agents_refused;
  uint32_t registered[2]; /* by its two registrars, and not unregistered */
  bool refuses;           /* the second registrar, the agent that is being added */
} crowd;

/** What a crowd subscribes. */
tp_status crowd_register(world *w, tp_edit *edit);
/** Before the run. */
void crowd_name(crowd *c, world *w);
/** A host. arg: a crowd that is named. */
void crowd_run(void *arg);
/** When the run is over. */
void crowd_ended(const crowd *c);

#endif
