/* SPDX-License-Identifier: Apache-2.0
 *
 * Public doors of the runtime that only lead on, but in the child of a fork nowhere. */
#include "runtime/exec/runtime.h"

tp_status tp_edit_begin(tp_runtime *runtime, const tp_owner *owner, tp_edit **ret_edit, tp_fault *fault) {
  TP__TRY(tp__runtime_usable(runtime, fault));
  return tp__edit_new(runtime->registry, owner, ret_edit, fault);
}

tp_status tp_inbox_new(tp_runtime *runtime, const tp_inbox_options *options, tp_inbox **ret_inbox, tp_fault *fault) {
  TP__TRY(tp__runtime_usable(runtime, fault));
  return tp__inbox_new(&runtime->allocator, runtime->registry, options, ret_inbox, fault);
}

tp_status tp_hook_add(tp_runtime *runtime, const tp_hook *hook, tp_fault *fault) {
  TP__TRY(tp__runtime_usable(runtime, fault));
  return tp__hook_add(runtime->registry, hook, fault);
}

tp_status tp_subscription_kill(tp_runtime *runtime, const char *subscription, bool killed, tp_fault *fault) {
  TP__TRY(tp__runtime_usable(runtime, fault));
  /* Counted before it is set and after it is unset: an entry that sees no count need not look. */
  if (killed) tp__a32_add_relaxed(&runtime->kills, 1);
  bool was_killed = false;
  tp_status status = tp__registry_kill(runtime->registry, subscription, killed, &was_killed, fault);
  if (killed && (status != TP_OK || was_killed)) tp__a32_sub_acq_rel(&runtime->kills, 1);
  if (!killed && status == TP_OK && was_killed) tp__a32_sub_acq_rel(&runtime->kills, 1);
  return status;
}

/* In a child of a fork the phases are there as well. */
static bool is_freed(const tp_runtime *runtime) {
  return tp__a32_load_acquire(&runtime->life) == TP__LIFE_FREED;
}

uint32_t tp_phase_find(const tp_runtime *runtime, const char *name_or_alias) {
  if (is_freed(runtime)) return TP_PHASE_NONE;
  return tp__registry_phase_find(runtime->registry, name_or_alias);
}

const tp_phase *tp_phase_get(const tp_runtime *runtime, uint32_t phase) {
  if (is_freed(runtime)) return NULL;
  return tp__registry_phase(runtime->registry, phase);
}

tp_status tp_plan_print(tp_runtime *runtime, uint32_t phase, tp_plan_format format, tp_print_fn print, void *ctx) {
  TP__TRY(tp__runtime_usable(runtime, NULL));
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  tp_status result = tp__plan_print(runtime->registry, phase, format, print, ctx);
  tp__inside_leave(&frame);
  return result;
}

tp_status tp_phases_print(tp_runtime *runtime, tp_plan_format format, tp_print_fn print, void *ctx) {
  TP__TRY(tp__runtime_usable(runtime, NULL));
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  tp_status result = tp__phases_print(runtime->registry, format, print, ctx);
  tp__inside_leave(&frame);
  return result;
}

size_t tp_runtime_audit(tp_runtime *runtime, tp_visibility visibility_min, tp_audit_fn each, void *ctx) {
  if (tp__runtime_usable(runtime, NULL) != TP_OK) return 0;
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  size_t result = tp__registry_audit(runtime->registry, visibility_min, each, ctx);
  tp__inside_leave(&frame);
  return result;
}

tp_status tp_runtime_records(tp_runtime *runtime, size_t limit, tp_record_fn each, void *ctx) {
  TP__TRY(tp__runtime_usable(runtime, NULL));
  if (!runtime->store.records) return TP_ERR_STORE;
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  tp_status result = runtime->store.records(runtime->store.self, limit, each, ctx);
  tp__inside_leave(&frame);
  return result;
}

size_t tp_runtime_leaks(tp_runtime *runtime, void (*each)(void *ctx, const tp_leak *leak), void *ctx) {
  if (tp__runtime_usable(runtime, NULL) != TP_OK) return 0;
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  size_t result = tp__pool_leaks(&runtime->pool, each, ctx);
  tp__inside_leave(&frame);
  return result;
}

tp_status tp_jobs_wait(tp_runtime *runtime, const char *order_key, uint32_t limit_ms) {
  TP__TRY(tp__runtime_usable(runtime, NULL));
  TP__TRY(tp__may_block(runtime, NULL, "tp_jobs_wait"));
  return tp__jobs_wait(&runtime->jobs, tp_text_of(order_key), tp__deadline_after_ms(tp__now_ns(), limit_ms));
}

static void count_all(tp_runtime *runtime, tp_runtime_stats *all) {
  all->turns_open = tp__berths_count(&runtime->berths, TP__TURN_DRIVEN);
  all->turns_open += tp__berths_count(&runtime->berths, TP__TURN_HELD);
  all->tokens_open = tp__a32_load_relaxed(&runtime->tokens_open);
  all->attempts_abandoned = tp__pool_leaks(&runtime->pool, NULL, NULL);
  all->handler_threads = tp__pool_thread_count(&runtime->pool);
  all->jobs_run = tp__jobs_run_count(&runtime->jobs);
}

void tp_runtime_stats_get(tp_runtime *runtime, tp_runtime_stats *stats) {
  tp_runtime_stats all = {.struct_size = stats->struct_size};
  if (tp__runtime_usable(runtime, NULL) == TP_OK) count_all(runtime, &all);
  memcpy(stats, &all, all.struct_size < sizeof all ? all.struct_size : sizeof all);
}
