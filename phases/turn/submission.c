/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/turn/submission.h"

#include "runtime/exec/runtime.h"

tp_submission *tp__submission_new(const tp_allocator *allocator, tp__turn *turn) {
  tp_submission *s = tp__alloc_zero(allocator, sizeof *s);
  if (!s) return NULL;
  if (tp__mutex_init(&s->mutex, TP__RANK_submission) != TP_OK) {
    tp__release(allocator, s, sizeof *s);
    return NULL;
  }
  if (tp__cond_init(&s->changed) != TP_OK) {
    tp__mutex_fini(&s->mutex);
    tp__release(allocator, s, sizeof *s);
    return NULL;
  }
  s->allocator = *allocator;
  s->process_generation = tp__process_generation();
  s->has_result = turn->kind == TP__TURN_DRIVEN;
  tp__result_init(&s->result, allocator);
  atomic_init(&s->refs.v, 2);
  tp__turn_hold(turn);
  s->turn = turn;
  s->runtime = turn->runtime;
  return s;
}

static void free_submission(tp_submission *s) {
  tp_allocator allocator = s->allocator;
  tp__result_fini(&s->result);
  tp__cond_fini(&s->changed);
  tp__mutex_fini(&s->mutex);
  tp__release(&allocator, s, sizeof *s);
}

void tp__submission_abort(tp_submission *s) {
  tp__turn_unref(s->turn);
  free_submission(s);
}

static void unref_submission(tp_submission *s) {
  if (tp__a32_sub_acq_rel(&s->refs, 1) == 1) free_submission(s);
}

void tp__submission_ended(tp_submission *s) {
  tp__mutex_lock(&s->mutex);
  tp__turn *turn = s->turn;
  s->turn = NULL;
  s->ended = true;
  tp__cond_broadcast(&s->changed);
  tp__mutex_unlock(&s->mutex);
  tp__sched_wake(tp__runtime_sched(s->runtime));
  tp__turn_unref(turn);
  unref_submission(s);
}

tp_status tp_submission_wait(tp_submission *s, uint32_t limit_ms, const tp_turn_result **ret_result, tp_fault *fault) {
  if (!s) return tp__fail_null(fault, "submission");
  if (s->process_generation != tp__process_generation()) return tp__fail_forked(fault);
  if (ret_result && !s->has_result)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the submission of a task has no result of a turn: its on_end has it");
  if (limit_ms > 0) TP__TRY(tp__may_block(s->runtime, fault, "tp_submission_wait"));
  int64_t deadline_ns = limit_ms > 0 ? tp__deadline_after_ms(tp__now_ns(), limit_ms) : 0;
  tp__mutex_lock(&s->mutex);
  while (!s->ended && limit_ms > 0 && tp__now_ns() < deadline_ns)
    (void)tp__sched_wait_until(tp__runtime_sched(s->runtime), &s->changed, &s->mutex, deadline_ns);
  bool ended = s->ended;
  tp__mutex_unlock(&s->mutex);
  if (!ended) return tp__fail(fault, TP_ERR_TIMEOUT, NULL, "the turn has not ended within %u ms", limit_ms);
  if (ret_result) *ret_result = &s->result.shown;
  return TP_OK;
}

tp__turn *tp__submission_turn(tp_submission *s) {
  tp__mutex_lock(&s->mutex);
  tp__turn *turn = s->turn;
  if (turn) tp__turn_hold(turn);
  tp__mutex_unlock(&s->mutex);
  return turn;
}

void tp_submission_cancel(tp_submission *s) {
  if (!s || s->process_generation != tp__process_generation()) return;
  tp__turn *turn = tp__submission_turn(s);
  if (!turn) return;
  tp__turn_cancel(turn);
  tp__turn_unref(turn);
}

void tp_submission_unref(tp_submission *s) {
  if (s && s->process_generation == tp__process_generation()) unref_submission(s);
}
