/* SPDX-License-Identifier: Apache-2.0 */
#include "commit_work.h"

#include <stdio.h>

#include "runtime/exec/entry.h"

static const uint32_t phases[2] = {TP_PHASE_TURN_PRE_PROMPT_CONTEXT, TP_PHASE_SESSION_START};

/* ---- handlers ---- */

static void look_alive(const commit_work_half *half) {
  if (half->destroys) world_fail(half->pair->w, "no call after destroy", "%s was called, or runs", half->pair->ids[0]);
}

static tp_answer half_run(void *ctx, tp_call *call) {
  (void)call;
  const commit_work_half *half = ctx;
  look_alive(half);
  if (!half->is_inline) tp__sim_sleep_ns(world_pause_ns(world_is_fault_free(half->pair->w) ? 500 : 5000));
  look_alive(half);
  return TP_ANSWER_DONE;
}

static void half_destroyed(void *ctx) {
  commit_work_half *half = ctx;
  if (++half->destroys > 1) world_fail(half->pair->w, "destroy exactly once", "of %s", half->pair->ids[0]);
  world_destructor(half->pair->w);
}

/* ---- editors ---- */

static tp_status add_half(tp_edit *edit, commit_work_pair *pair, int i, const commit_work_pair *before) {
  commit_work_half *half = &pair->halves[i];
  *half = (commit_work_half){.pair = pair, .is_inline = world_one_in(2)};
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = pair->ids[i],
                        .run = half_run,
                        .ctx = half,
                        .destroy = half_destroyed,
                        .phases = &phases[i],
                        .phase_count = 1,
                        .placement = half->is_inline ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  TP__TRY(tp_edit_add_handler(edit, &handler, NULL));
  half->taken = true;
  const tp_edge edge = {.struct_size = sizeof edge, .target = before ? before->ids[i] : NULL, .optional = true};
  const tp_edge *const after[] = {&edge};
  tp_subscription subscription = {.struct_size = sizeof subscription,
                                  .id = pair->ids[i],
                                  .handler = pair->ids[i],
                                  .phase = phases[i],
                                  .after = after,
                                  .after_count = before && world_one_in(2),
                                  .failure = TP_FAILURE_BEST_EFFORT,
                                  .limit_ms = world_is_fault_free(pair->w) || world_one_in(2) ? 0 : 2};
  return tp_edit_add_subscription(edit, &subscription, NULL);
}

static tp_status add_pair(tp_edit *edit, commit_work_pair *pair, const commit_work_pair *before) {
  pair->add_asked = ++pair->w->moment;
  TP__TRY(add_half(edit, pair, 0, before));
  return add_half(edit, pair, 1, before);
}

/* Removes the pair, keeps it, or switches it off, alone or with all handlers of its owner: turns see the same
 * effect. */
static tp_status remove_pair(tp_edit *edit, commit_work_pair *pair) {
  pair->remove_asked = ++pair->w->moment;
  uint64_t way = tp__sim_random(4);
  if (way == 3) return tp_edit_enable_owner(edit, pair->ids[0], false, NULL);
  for (int i = 0; i < 2; i++) {
    if (way == 0) TP__TRY(tp_edit_enable(edit, pair->ids[i], false, NULL));
    else TP__TRY(tp_edit_remove_subscription(edit, pair->ids[i], NULL));
    if (way == 1) TP__TRY(tp_edit_remove_handler(edit, pair->ids[i], NULL));
  }
  return TP_OK;
}

static commit_work_pair *one_to_remove(commit_work_editor *editor) {
  commit_work_pair *pair = &editor->pairs[tp__sim_random(COMMIT_WORK_PAIRS)];
  return pair->added && !pair->removed ? pair : NULL;
}

static tp_status commit(tp_edit *edit, commit_work_pair *added, const commit_work_pair *before,
                        commit_work_pair *removed) {
  tp_status status = add_pair(edit, added, before);
  if (status == TP_OK && removed) status = remove_pair(edit, removed);
  if (status == TP_OK && world_one_in(4)) /* never below the rows': what they promise to others holds */
    status = tp_edit_set_limit(edit, phases[tp__sim_random(2)], (uint32_t)tp__sim_random(2) * 60000, NULL);
  if (status == TP_OK) tp__sim_sleep_ns(world_pause_ns(200)); /* time for another's commit in between */
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, NULL);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static void edit_once(commit_work_editor *editor, int number) {
  commit_work_pair *added = &editor->pairs[number], *removed = one_to_remove(editor);
  tp_edit *edit;
  /* Each pair has an owner of its own, who may change those of others. */
  const tp_owner owner = {.struct_size = sizeof owner, .name = added->ids[0], .trust = TP_TRUST_BUILTIN};
  tp_status status = tp_edit_begin(editor->w->runtime, &owner, &edit, NULL);
  if (status == TP_OK) status = commit(edit, added, number ? added - 1 : NULL, removed);
  uint64_t now = ++editor->w->moment;
  if (status == TP_OK) added->added = now;
  else added->add_asked = 0;
  if (removed && status == TP_OK) removed->removed = now;
  else if (removed) removed->remove_asked = 0;
  if (status == TP_ERR_CONFLICT && editor->w->s->editor_count > 1) return;
  world_check_status(editor->w, "a commit beside running turns", status);
}

void commit_work_name(commit_work_editor *editor, uint32_t index) {
  for (uint32_t i = 0; i < COMMIT_WORK_PAIRS; i++) {
    commit_work_pair *pair = &editor->pairs[i];
    pair->w = editor->w;
    for (int k = 0; k < 2; k++) snprintf(pair->ids[k], sizeof pair->ids[k], "e%u.%u.%c", index % 10, i % 10, 'a' + k);
  }
}

void commit_work_edit(void *arg) {
  commit_work_editor *editor = arg;
  for (int i = 0; i < COMMIT_WORK_PAIRS; i++) {
    tp__sim_sleep_ns(world_pause_ns(3000));
    edit_once(editor, i);
  }
}

void commit_work_ended(const commit_work_editor *editor) {
  for (int i = 0; i < COMMIT_WORK_PAIRS; i++)
    for (int k = 0; k < 2; k++) {
      const commit_work_half *half = &editor->pairs[i].halves[k];
      if (half->destroys != half->taken)
        world_fail(editor->w, "destroy exactly once", "of %s: %u times", editor->pairs[i].ids[k], half->destroys);
    }
}

/* ---- readers ---- */

static commit_work_pair *pair_at(const world *w, uint32_t bit) {
  return &w->editors[bit / COMMIT_WORK_PAIRS].pairs[bit % COMMIT_WORK_PAIRS];
}

static uint64_t bit_of(const world *w, int half, const char *id) {
  for (uint32_t bit = 0; bit < w->s->editor_count * COMMIT_WORK_PAIRS; bit++)
    if (strcmp(pair_at(w, bit)->ids[half], id) == 0) return UINT64_C(1) << bit;
  return 0;
}

/* The version is neither older nor newer than the commits around the turn's begin. */
static void check_version(const commit_work_reader *r) {
  for (uint32_t bit = 0; bit < r->w->s->editor_count * COMMIT_WORK_PAIRS; bit++) {
    const commit_work_pair *pair = pair_at(r->w, bit);
    bool seen = r->seen >> bit & 1;
    bool kept = !pair->remove_asked || pair->remove_asked > r->begun;
    bool added = pair->added && pair->added < r->begin_asked;
    bool removed = pair->removed && pair->removed < r->begin_asked;
    bool unknown = !pair->add_asked || pair->add_asked > r->begun;
    if (seen ? unknown || removed : added && kept)
      world_fail(r->w, "a turn sees the version of its begin", "%s is %s", pair->ids[0], seen ? "there" : "not there");
  }
}

static uint64_t seen_in(const commit_work_reader *r, const tp_phase_result *result, int half) {
  uint64_t seen = 0;
  for (uint32_t i = 0; i < result->run_count; i++) {
    const tp_run_record *row = tp_phase_result_run(result, i);
    tp_run_record run = row ? *row : tp__entry_run(result->entry, i);
    uint64_t bit = bit_of(r->w, half, run.subscription);
    if (!bit || seen & bit)
      world_fail(r->w, "every subscription accounted for", "%s has a row too many", run.subscription);
    if (world_is_fault_free(r->w) && run.state != TP_STATE_SUCCEEDED)
      world_fail(r->w, "a handler succeeds in a fault-free world", "%s is %s", run.subscription,
                 tp_state_name(run.state));
    seen |= bit;
  }
  return seen;
}

static void phase_ended(commit_work_reader *r, const tp_phase_result *result) {
  uint32_t number = r->runs++;
  if (result->outcome == TP_ERR_NO_MEMORY) r->known = false;
  if (!r->known) return;
  uint64_t seen = seen_in(r, result, number % 2);
  if (number == 0) {
    r->seen = seen;
    check_version(r);
  }
  if (seen != r->seen)
    world_fail(r->w, "a turn sees one version", "%llx and then %llx", (unsigned long long)r->seen,
               (unsigned long long)seen);
}

static void submitted_ended(void *ctx, const tp_phase_result *result) {
  commit_work_reader *r = ctx;
  phase_ended(r, result);
  if (r->ends_inside && r->runs == 3) tp_turn_end(r->turn);
  tp__parker_unpark(&r->parker);
}

/* @return whether it has been run. */
static bool run_phase(commit_work_reader *r) {
  uint32_t phase = phases[r->runs % 2];
  tp_phase_result result = {.struct_size = sizeof result};
  bool submits = (r->ends_inside && r->runs == 2) || (world_one_in(2) && !r->w->s->options.no_engine_workers);
  tp_status status = submits ? tp_phase_submit(r->turn, phase, NULL, submitted_ended, r, NULL)
                             : tp_phase_run(r->turn, phase, NULL, &result, NULL);
  world_check_status(r->w, "a phase beside commits", status);
  if (status != TP_OK) return false;
  if (submits) tp__parker_park_until(&r->parker, TP__NEVER);
  else phase_ended(r, &result);
  return true;
}

static void end_turn(void *turn) { tp_turn_end(turn); }

static void read_once(commit_work_reader *r) {
  r->known = true;
  r->runs = 0;
  r->ends_inside = world_one_in(3) && !r->w->s->options.no_engine_workers;
  r->begin_asked = ++r->w->moment;
  tp_status status = tp_turn_begin_bare(r->w->runtime, NULL, &r->turn, NULL);
  r->begun = ++r->w->moment;
  world_check_status(r->w, "to begin a turn beside commits", status);
  if (status != TP_OK) return;
  while (r->runs < 3 && run_phase(r)) tp__sim_sleep_ns(world_pause_ns(1000));
  if (r->ends_inside && r->runs == 3) return;
  tp__thread *stranger = world_one_in(2) ? world_start_joined("stranger", end_turn, r->turn) : NULL;
  if (stranger) tp__thread_join(stranger);
  else tp_turn_end(r->turn);
}

void commit_work_read(void *arg) {
  commit_work_reader *r = arg;
  for (int i = 0; i < COMMIT_WORK_TURNS; i++) {
    tp__sim_sleep_ns(world_pause_ns(3000));
    read_once(r);
  }
}
