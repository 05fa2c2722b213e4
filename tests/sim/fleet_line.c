/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fleet.h"

enum { RETRY_MS = 500 };

uint64_t fleet_number_of(tp_text text) {
  uint64_t number = 0;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return 0;
    number = 10 * number + (uint64_t)(text.data[i] - '0');
  }
  return number;
}

fleet_request *fleet_request_new(fleet_line *line, int kind, uint32_t session) {
  fleet_request *r = calloc(1, sizeof *r);
  if (!r) abort();
  r->kind = kind;
  r->refs = 1;
  r->process = line->process;
  r->operation = fleet_new_id(line->w);
  r->session = session;
  return r;
}

void fleet_request_add(fleet_request *r, const tp_message *message) {
  fleet_message **end = &r->messages;
  fleet_message *m = calloc(1, sizeof *m);
  if (!m) abort();
  tp__arena_init(&m->arena, &fleet_allocator, NULL, 0, 0);
  if (!tp__message_copy(&m->arena, message, &m->message)) abort();
  m->id = fleet_number_of(m->message.text);
  while (*end) end = &(*end)->next;
  *end = m;
  r->message_count++;
}

void fleet_request_unref(fleet_request *r) {
  if (--r->refs > 0) return;
  while (r->messages) {
    fleet_message *m = r->messages;
    r->messages = m->next;
    tp__arena_fini(&m->arena);
    free(m);
  }
  if (r->row) {
    tp__arena_fini(&r->row->arena);
    free(r->row);
  }
  free(r);
}

/* ---- what happens on the way ---- */

static int64_t draw_delay_ns(const fleet_world *w) {
  uint64_t dice = tp__sim_random(100);
  if (w->healed || w->trouble == TROUBLE_NONE || dice < 40) return 0;
  if (dice < 95) return fleet_random_ns(20);
  return fleet_random_ns(dice < 99 ? FLEET_LEASE_MS : 2 * FLEET_LEASE_MS);
}

/* @return whether it arrives. */
static bool travel(const fleet_line *line) {
  const fleet_world *w = line->w;
  tp__sim_sleep_ns(draw_delay_ns(w));
  int64_t left_ns = w->healed ? 0 : line->cut_until_ns - tp__now_ns();
  if (left_ns > 0 && !line->holds) return false;
  if (left_ns > 0) tp__sim_sleep_ns(left_ns);
  return w->healed || w->trouble < TROUBLE_LOSS || !fleet_one_in(12);
}

static fleet_answer apply(fleet_line *line, const fleet_request *r) {
  return fleet_database_apply(line->w->db, r, tp__now_ns());
}

typedef struct repetition {
  fleet_line *line;
  fleet_request *request;
} repetition;

static void repeat(void *arg) {
  repetition *again = arg;
  tp__sim_sleep_ns(fleet_random_ns(2 * FLEET_LEASE_MS));
  (void)apply(again->line, again->request);
  fleet_request_unref(again->request);
  free(again);
}

/* The request comes a second time, whenever. A claim does not: then the session would belong to a process that has no
 * turn of it, for as long as that process lives (docs/decisions/session_owner.md). */
static void maybe_repeat(fleet_line *line, fleet_request *r) {
  if (line->w->healed || line->w->trouble < TROUBLE_LOSS || r->kind == FLEET_REQUEST_CLAIM || !fleet_one_in(8)) return;
  repetition *again = calloc(1, sizeof *again);
  if (!again) abort();
  *again = (repetition){line, r};
  r->refs++;
  fleet_start("repeat", repeat, again);
}

/* @return whether the answer has come. */
static bool pass(fleet_line *line, fleet_request *r, fleet_answer *ret_answer) {
  if (!travel(line)) return false;
  maybe_repeat(line, r);
  *ret_answer = apply(line, r);
  return travel(line) && !line->is_dead;
}

bool fleet_line_ask(fleet_line *line, fleet_request *r, uint32_t most_ms, const bool *has_left,
                    fleet_answer *ret_answer) {
  int64_t end_ns = most_ms ? tp__now_ns() + fleet_ns(most_ms) : INT64_MAX;
  line->asking++;
  bool is_answered = false;
  while (!line->is_dead && !(is_answered = pass(line, r, ret_answer))) {
    if ((has_left && *has_left) || tp__now_ns() >= end_ns) break;
    tp__sim_sleep_ns(fleet_random_ns(RETRY_MS));
  }
  line->asking--;
  return is_answered;
}

void fleet_line_enter(fleet_line *line, uint32_t session) {
  while (line->is_busy[session]) tp__sim_sleep_ns(TP__NS_PER_MS);
  line->is_busy[session] = true;
}

void fleet_line_leave(fleet_line *line, uint32_t session) { line->is_busy[session] = false; }
