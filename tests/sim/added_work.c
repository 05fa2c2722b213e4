/* SPDX-License-Identifier: Apache-2.0 */
#include "added_work.h"

#include <stdio.h>
#include <string.h>

/* The message of a text "+<host>.<index>", or NULL. */
static added_work_message *message_of(added_work *a, tp_text text, uint32_t *ret_host, uint32_t *ret_index) {
  char copy[16];
  unsigned host, index;
  if (text.size < 4 || text.size >= sizeof copy || text.data[0] != '+') return NULL;
  snprintf(copy, sizeof copy, "%.*s", (int)text.size, text.data);
  if (sscanf(copy, "+%u.%u", &host, &index) != 2 || host >= ADDED_WORK_HOSTS_MAX || index >= ADDED_WORK_EACH_MAX)
    return NULL;
  *ret_host = host;
  *ret_index = index;
  return &a->messages[host][index];
}

void added_work_add(added_work *a, uint32_t host, tp_session *session, const char *turn_id, tp_submission *turn) {
  char text[16];
  uint32_t index = a->counts[host];
  if (index == ADDED_WORK_EACH_MAX) return;
  a->counts[host]++;
  added_work_message *message = &a->messages[host][index];
  snprintf(text, sizeof text, "+%u.%u", host, index);
  tp_added_message added = {.struct_size = sizeof added, .text = tp_text_of(text)};
  message->taken = true; /* the message may enter the turn before the call returns */
  tp_status status =
      turn ? tp_submission_add_message(turn, &added, NULL) : tp_turn_add_message(session, turn_id, &added, NULL);
  if (status == TP_OK) return;
  message->taken = false;
  if (message->told)
    world_fail(a->w, "what is refused does not enter", "%s, which gave %s", text, tp_status_name(status));
  if (status != TP_ERR_STALE && status != TP_ERR_FULL)
    world_check_status(a->w, "a message of an added workload", status);
}

void added_work_hear(added_work *a, const tp_event *event) {
  uint32_t host, index;
  if (event->kind != TP_EVENT_MESSAGE) return;
  added_work_message *message = message_of(a, event->text, &host, &index);
  int size = (int)event->text.size;
  if (!message || !message->taken) {
    world_fail(a->w, "only what was added enters", "%.*s", size, event->text.data);
    return;
  }
  if (++message->told > 1) world_fail(a->w, "a message is told of once", "%.*s", size, event->text.data);
  message->entered = event->status == TP_OK;
  message->is_hidden = !message->entered;
}

/* Between the event and the request nothing removes a message, and none enters. */
void added_work_check(added_work *a, const tp_model_request *request) {
  uint32_t seen[ADDED_WORK_HOSTS_MAX][ADDED_WORK_EACH_MAX] = {{0}};
  uint32_t next[ADDED_WORK_HOSTS_MAX] = {0}, host, index; /* the next index of each host in the turn */
  tp_text turn = {"", 0};
  for (size_t i = 0; i < request->message_count; i++) {
    tp_text text = request->messages[i]->text;
    if (!tp_text_equal(request->messages[i]->turn_id, turn)) memset(next, 0, sizeof next);
    turn = request->messages[i]->turn_id;
    const added_work_message *message = message_of(a, text, &host, &index);
    if (!message) continue;
    if (!message->entered) world_fail(a->w, "a model reads what has entered", "%.*s", (int)text.size, text.data);
    if (seen[host][index]++) world_fail(a->w, "a message enters once", "%.*s", (int)text.size, text.data);
    if (index < next[host]) world_fail(a->w, "messages enter in order", "%.*s", (int)text.size, text.data);
    next[host] = index + 1;
  }
  if (!world_is_fault_free(a->w)) return; /* a history that could not be kept has lost its turn's messages */
  for (host = 0; host < ADDED_WORK_HOSTS_MAX; host++)
    for (index = 0; index < ADDED_WORK_EACH_MAX; index++)
      if (a->messages[host][index].entered && !seen[host][index])
        world_fail(a->w, "a message that has entered is in each later request", "+%u.%u", host, index);
}

/* Called when the turn's events have come. Messages of other turns still wait. */
void added_work_turn_ended(added_work *a, tp_turn_outcome outcome) {
  if (outcome != TP_TURN_COMPLETED || !world_is_fault_free(a->w)) return;
  for (uint32_t host = 0; host < ADDED_WORK_HOSTS_MAX; host++)
    for (uint32_t index = 0; index < ADDED_WORK_EACH_MAX; index++)
      if (a->messages[host][index].is_hidden)
        world_fail(a->w, "a turn that completes has answered what was added", "+%u.%u", host, index);
}
