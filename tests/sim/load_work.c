/* SPDX-License-Identifier: Apache-2.0 */
#include "load_work.h"

#include <stdio.h>
#include <stdlib.h>

#include "phases/session/admission.h"

enum { SESSIONS = 8, TENANTS_MAX = 8, LIMIT_MS = 400 };

typedef struct tenant {
  char name[8];
  bool waits;
  uint32_t behind[TENANTS_MAX]; /* how often each other tenant was served since this one began to wait or was served */
} tenant;

typedef struct load_turn {
  struct load_work *load;
  bool taken;
  uint32_t ends;
} load_turn;

struct load_work {
  world *w;
  tenant tenants[TENANTS_MAX];
  uint32_t tenant_count, running, ended, closed;
  tp_session *sessions[SESSIONS];
  load_turn turns[SCRIPT_LOAD_TURNS_MAX];
  tp__parker parker;
};

/* ---- what the admission does ---- */

static struct load_work *observed;

static uint32_t tenant_at(struct load_work *l, const char *name) {
  uint32_t i = 0;
  while (i < l->tenant_count && strcmp(l->tenants[i].name, name) != 0) i++;
  if (i == TENANTS_MAX) abort();
  if (i == l->tenant_count) {
    snprintf(l->tenants[i].name, sizeof l->tenants[i].name, "%s", name);
    l->tenant_count++;
  }
  return i;
}

static void served(struct load_work *l, uint32_t which) {
  if (++l->running > l->w->s->options.turns_running_max)
    world_fail(l->w, "no more turns run than may", "%u run", l->running);
  for (uint32_t i = 0; i < l->tenant_count; i++)
    if (i != which && l->tenants[i].waits && ++l->tenants[i].behind[which] > 1)
      world_fail(l->w, "a tenant gets its share", "`%s` was served %u times while `%s` waited", l->tenants[which].name,
                 l->tenants[i].behind[which], l->tenants[i].name);
  memset(l->tenants[which].behind, 0, sizeof l->tenants[which].behind);
}

static void watch(const char *name, tp__admission_step step) {
  struct load_work *l = observed;
  uint32_t which = tenant_at(l, name);
  tenant *t = &l->tenants[which];
  switch (step) {
    case TP__ADMISSION_WAITS:
      t->waits = true;
      memset(t->behind, 0, sizeof t->behind);
      break;
    case TP__ADMISSION_IDLE:
      t->waits = false;
      break;
    case TP__ADMISSION_SERVED:
      served(l, which);
      break;
    case TP__ADMISSION_ENDED:
      l->running--;
      break;
  }
}

void load_work_watch(world *w) {
  if (!w->load) tp__admission_watch = NULL;
  if (w->load || !w->s->options.turns_running_max) return;
  w->load = calloc(1, sizeof *w->load);
  if (!w->load) abort();
  w->load->w = w;
  observed = w->load;
  tp__admission_watch = watch;
}

/* ---- the host ---- */

/* Its answer comes at once, later or, seldom, never. */
typedef struct late_answer {
  tp_token token;
  int64_t delay_ns;
} late_answer;

static void answer(tp_token token) {
  const tp_model_response response = {
      .struct_size = sizeof response, .text = tp_text_of("ok"), .stop_reason = tp_text_of("end_turn")};
  (void)!tp_model_complete(token, &response, NULL);
}

static void answer_later(void *arg) {
  late_answer late = *(late_answer *)arg;
  free(arg);
  tp__sim_sleep_ns(late.delay_ns);
  answer(late.token);
}

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx, (void)request;
  if (world_one_in(20)) return;
  late_answer *late = world_one_in(2) ? malloc(sizeof *late) : NULL;
  if (late) *late = (late_answer){token, world_pause_ns(3000)};
  if (late && world_start("loaded model", answer_later, late)) return;
  free(late);
  answer(token);
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  load_turn *turn = ctx;
  (void)result;
  if (++turn->ends > 1) world_fail(turn->load->w, "a turn ends once", "%u ends of a turn under load", turn->ends);
  turn->load->ended++;
  tp__parker_unpark(&turn->load->parker);
}

static void session_closed(void *ctx) {
  struct load_work *l = ctx;
  l->closed++;
  tp__parker_unpark(&l->parker);
}

/* Most sessions are of the first tenant. */
static tp_session *open_session(struct load_work *l, uint32_t index) {
  static const char *const tenants[SESSIONS] = {"l0", "l0", "l0", "l0", "l0", "l1", "l1", "l2"};
  char id[8];
  snprintf(id, sizeof id, "l%u", index);
  const tp_model model = {
      .struct_size = sizeof model, .name = "loaded", .ctx = l, .start = model_start, .placement = TP_PLACEMENT_INLINE};
  const tp_session_options options = {
      .struct_size = sizeof options, .id = id, .tenant = tenants[index], .model = &model};
  tp_session *session = NULL;
  world_check_status(l->w, "a session under load", tp_session_open(l->w->runtime, &options, &session, NULL));
  return session;
}

static uint32_t submit_all(struct load_work *l) {
  uint32_t taken = 0;
  for (uint32_t i = 0; i < l->w->s->load_turns; i++) {
    tp_session *session = l->sessions[tp__sim_random(SESSIONS)];
    const tp_turn_request request = {
        .struct_size = sizeof request, .text = tp_text_of("hi"), .limit_ms = 1 + (uint32_t)tp__sim_random(LIMIT_MS)};
    load_turn *turn = &l->turns[i];
    turn->load = l;
    tp_submission *submission = NULL;
    tp_status status = session ? tp_turn_submit(session, &request, turn_ended, turn, &submission, NULL) : TP_ERR_FULL;
    world_check_status(l->w, "a turn under load", status);
    turn->taken = status == TP_OK;
    taken += turn->taken;
    if (turn->taken && world_one_in(4)) tp_submission_cancel(submission);
    tp_submission_unref(submission);
    if (world_one_in(3)) tp__sim_sleep_ns(world_pause_ns(2000));
  }
  return taken;
}

void load_work_run(void *arg) {
  struct load_work *l = ((world *)arg)->load;
  if (!l || tp__parker_init(&l->parker) != TP_OK) return;
  uint32_t opened = 0;
  for (uint32_t i = 0; i < SESSIONS; i++) opened += (l->sessions[i] = open_session(l, i)) != NULL;
  uint32_t taken = submit_all(l);
  while (l->ended < taken) tp__parker_park_until(&l->parker, TP__NEVER);
  for (uint32_t i = 0; i < SESSIONS; i++) tp_session_close(l->sessions[i], l->sessions[i] ? session_closed : NULL, l);
  while (l->closed < opened) tp__parker_park_until(&l->parker, TP__NEVER);
}

void load_work_ended(world *w) {
  struct load_work *l = w->load;
  if (!l) return;
  for (uint32_t i = 0; i < w->s->load_turns; i++)
    if (l->turns[i].ends != l->turns[i].taken)
      world_fail(w, "a turn ends once", "turn %u under load: %u ends", i, l->turns[i].ends);
  if (l->running > 0) world_fail(w, "turns that ended leave their quota", "%u are missing", l->running);
}
