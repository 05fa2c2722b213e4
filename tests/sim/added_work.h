/* SPDX-License-Identifier: Apache-2.0
 *
 * added workload: hosts of a session workload add messages to its turns at any moment. Each accepted message is
 * reported once, enters the turn in the order of its host, is in each later request of the session once, and is
 * answered in a turn that completes. */
#ifndef SIM_ADDED_WORK_H
#define SIM_ADDED_WORK_H

#include "world.h"

enum { ADDED_WORK_HOSTS_MAX = 3, ADDED_WORK_EACH_MAX = 12 };

typedef struct added_work_message {
  bool taken;     /* a turn has taken it */
  bool entered;   /* an event has reported that it entered */
  bool is_hidden; /* an event has reported that its turn ended before: no model reads it */
  uint32_t told;
} added_work_message;

typedef struct added_work {
  world *w;
  added_work_message messages[ADDED_WORK_HOSTS_MAX][ADDED_WORK_EACH_MAX];
  uint32_t counts[ADDED_WORK_HOSTS_MAX];
} added_work;

/** A host adds a message to a turn, or to the one that runs. @param turn  NULL: by the session. */
void added_work_add(added_work *a, uint32_t host, tp_session *session, const char *turn_id, tp_submission *turn);
/** Checks the events that a listener of the session receives. */
void added_work_hear(added_work *a, const tp_event *event);
/** Checks the requests to its model. */
void added_work_check(added_work *a, const tp_model_request *request);
/** A turn has ended. */
void added_work_turn_ended(added_work *a, tp_turn_outcome outcome);

#endif
