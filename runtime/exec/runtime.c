/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.c: making, starting and freeing a runtime, and its log. */
#include "runtime/exec/runtime.h"

#include <limits.h>
#include <stdio.h>

#include "runtime/exec/breadcrumb.h"
#include "runtime/exec/drain.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/record_commit.h"
#include "runtime/exec/records.h"
#include "runtime/exec/runtime_object.h"
#include "runtime/exec/runtime_options.h"
#include "runtime/exec/share.h"
#include "runtime/plan/registry.h"

static const int64_t SHED_LOG_NS = (int64_t)10000 * TP__NS_PER_MS; /* between two such lines */

static void write_redacted(const tp_runtime *runtime, char message[TP_FAULT_MESSAGE_SIZE], const char *format,
                           va_list arguments) {
  char whole[TP__REDACT_BYTES + 4], buffer[TP__REDACT_SIZE]; /* a longer text counts as a text that was cut */
  if (!runtime->redactor.redact) {
    vsnprintf(message, TP_FAULT_MESSAGE_SIZE, format, arguments);
    return;
  }
  vsnprintf(whole, sizeof whole, format, arguments);
  tp_text text = tp__redact(&runtime->redactor, TP_REDACT_LOG, tp_text_of(whole), buffer, sizeof buffer);
  tp__audit_copy(message, TP_FAULT_MESSAGE_SIZE, text);
}

void tp__log(const tp_runtime *runtime, tp_log_level level, const tp__log_subject *subject, const char *format, ...) {
  if (!runtime->options.log || level > runtime->options.log_level) return;
  char message[TP_FAULT_MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  write_redacted(runtime, message, format, arguments);
  va_end(arguments);
  tp_log_record record = {.struct_size = sizeof record, .level = level, .unix_ms = tp__unix_ms(), .message = message};
  if (subject) {
    record.status = subject->status;
    record.phase = subject->phase;
    record.subscription = subject->subscription;
  }
  if (subject && subject->ids) {
    record.turn_id = subject->ids[TP_ID_TURN];
    record.session_id = subject->ids[TP_ID_SESSION];
  }
  runtime->options.log(runtime->options.log_ctx, &record);
}

static tp_status must_not_wait(tp_fault *fault, const char *what) {
  return tp__fail(fault, TP_ERR_USAGE, NULL, "%s waits, so it cannot be called from inside a handler or a callback",
                  what);
}

tp_status tp__may_block(const tp_runtime *runtime, tp_fault *fault, const char *what) {
  return tp__inside_is_of(runtime) ? must_not_wait(fault, what) : TP_OK;
}

tp_status tp__become_owner(const tp_runtime *runtime, tp__inside *frame, tp_fault *fault, const char *what) {
  if (tp__inside_is_of(runtime)) return must_not_wait(fault, what);
  tp__inside_enter(frame, runtime, TP__THREAD_OWNER);
  return TP_OK;
}

/* ---- its parts ---- */

const tp_runtime_options *tp__runtime_options(const tp_runtime *runtime) { return &runtime->options; }
const tp_allocator *tp__runtime_allocator(const tp_runtime *runtime) { return &runtime->allocator; }
tp_redact_fn tp_runtime_redact(const tp_runtime *runtime, void **ret_ctx) {
  if (ret_ctx) *ret_ctx = runtime ? runtime->redactor.ctx : NULL;
  return runtime ? runtime->redactor.redact : NULL;
}
const tp__redactor *tp__runtime_redactor(const tp_runtime *runtime) { return &runtime->redactor; }
const tp_store *tp__runtime_store(const tp_runtime *runtime) { return &runtime->store; }
tp__registry *tp__runtime_registry(const tp_runtime *runtime) { return runtime->registry; }
const tp__layer_ops *tp__runtime_layer_ops(const tp_runtime *runtime) { return runtime->layer_ops; }
void *tp__runtime_layer(const tp_runtime *runtime) { return runtime->layer; }
void tp__runtime_layer_set(tp_runtime *runtime, void *layer) {
  TP__ASSERT(!runtime->layer);
  runtime->layer = layer;
}
uint64_t tp__runtime_run_id(const tp_runtime *runtime) { return runtime->jobs.mark; }
const tp_store_owner *tp__runtime_owner(const tp_runtime *runtime) { return &runtime->owner; }
tp_text tp__runtime_turn_prefix(const tp_runtime *runtime) {
  return (tp_text){runtime->turn_prefix, sizeof runtime->turn_prefix};
}
tp__blocks *tp__runtime_blocks(tp_runtime *runtime) { return &runtime->blocks; }
const tp__thread_caches *tp__runtime_caches(const tp_runtime *runtime) { return &runtime->caches; }
tp__turn_table *tp__runtime_turn_table(tp_runtime *runtime) { return &runtime->turn_table; }
void tp__runtime_each_turn(tp_runtime *runtime, void (*each)(void *ctx, tp__turn *turn), void *ctx) {
  tp__turn_table_each(&runtime->turn_table, each, ctx);
}
void tp__runtime_count(const tp_runtime *runtime, uint32_t index, uint64_t by) {
  tp__thread_caches_count(&runtime->caches, index, by);
}
uint64_t tp__runtime_counted(const tp_runtime *runtime, uint32_t index) {
  return tp__thread_caches_sum(&runtime->caches, index);
}
tp__sched *tp__runtime_sched(tp_runtime *runtime) { return &runtime->sched; }
tp__jobs *tp__runtime_jobs(tp_runtime *runtime) { return &runtime->jobs; }
tp__helpers *tp__runtime_helpers(tp_runtime *runtime) { return &runtime->helpers; }
tp__breaker_state *tp__runtime_breaker_state(tp_runtime *runtime) { return &runtime->breaker_state; }
tp_breadcrumb *tp__runtime_breadcrumbs(const tp_runtime *runtime) { return runtime->breadcrumbs; }
tp__counters *tp__runtime_counters(tp_runtime *runtime) { return &runtime->counters; }
tp__mutex *tp__runtime_payloads_mutex(tp_runtime *runtime) { return &runtime->payloads_mutex; }

uint32_t tp__detached_max(const tp_runtime *runtime) {
  return runtime->options.turns_max > 1024 ? runtime->options.turns_max : 1024;
}

void *tp__store_enter(tp__inside *frame, const tp_runtime *runtime) {
  tp__inside_enter(frame, runtime, TP__INSIDE_CALLBACK);
  return runtime->store.ctx;
}

/* ---- the list of turns: detached runs and turns that close something, which have bounds of their own ---- */

tp_status tp__runtime_enlist(tp_runtime *runtime, tp__turn *turn, uint32_t kind) {
  TP__ASSERT(kind < TP__TURN_KINDS);
  tp__mutex_lock(&runtime->mutex);
  tp_status status = runtime->refuses_detached                                 ? TP_ERR_SHUTDOWN
                     : runtime->turn_counts[kind] >= tp__detached_max(runtime) ? TP_ERR_FULL
                                                                               : TP_OK;
  if (status == TP_OK) {
    tp__list_push(&runtime->turns, &turn->runtime_link);
    runtime->turn_counts[kind]++;
  }
  tp__mutex_unlock(&runtime->mutex);
  return status;
}

void tp__runtime_delist(tp__turn *turn) {
  tp_runtime *runtime = turn->runtime;
  tp__mutex_lock(&runtime->mutex);
  TP__ASSERT(runtime->turn_counts[turn->kind] > 0);
  tp__list_remove(&turn->runtime_link);
  if (--runtime->turn_counts[turn->kind] == 0) {
    tp__cond_broadcast(&runtime->changed);
    tp__sched_wake(&runtime->sched);
  }
  tp__mutex_unlock(&runtime->mutex);
}

uint32_t tp__runtime_listed_count(tp_runtime *runtime, uint32_t kind) {
  TP__ASSERT(kind < TP__TURN_KINDS);
  tp__mutex_lock(&runtime->mutex);
  uint32_t count = runtime->turn_counts[kind];
  tp__mutex_unlock(&runtime->mutex);
  return count;
}

/* A drain looks again by itself; this only makes it look sooner. */
void tp__runtime_wake_drain(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  tp__cond_broadcast(&runtime->changed);
  tp__sched_wake(&runtime->sched);
  tp__mutex_unlock(&runtime->mutex);
}

/* ---- birth ---- */

static void threads_exhausted(const void *runtime, uint32_t abandoned) {
  tp__log(runtime, TP_LOG_ERROR, &(tp__log_subject){.status = TP_ERR_NO_THREAD},
          "%u functions have not returned and hold every thread that there may be: handlers fail (no_worker). "
          "tp_runtime_leaks() names them; tp_runtime_set_abandoned_max() grants more threads",
          abandoned);
}

tp_status tp_runtime_set_abandoned_max(tp_runtime *runtime, uint32_t threads, uint64_t bytes, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (threads > 0 && runtime->options.pump)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "the runtime has no threads (tp_runtime_options.pump): threads must be 0");
  if (threads > 0) tp__pool_set_abandoned_max(&runtime->sched.pool, threads);
  if (bytes > 0) tp__a64_store_relaxed(&runtime->counters.abandoned_bytes_max, bytes);
  return TP_OK;
}

/* The parts in the order in which they are built. They are torn down from `built` backwards. */
enum part {
  PART_MUTEX,
  PART_COND,
  PART_PAYLOADS,
  PART_STORE,
  PART_REGISTRY,
  PART_CACHES,
  PART_BLOCKS,
  PART_TURN_TABLE,
  PART_SCHED,
  PART_JOBS,
  PARTS
};

static tp_status own_store(tp_runtime *runtime, tp_fault *fault) {
  tp_store_memory_options options = {.struct_size = sizeof options, .jobs_max = runtime->options.jobs_max};
  tp_store *store;
  TP__TRY(tp_store_memory_new(&runtime->allocator, &options, &store, fault));
  runtime->store = *store;
  return TP_OK;
}

static tp_status make_registry(tp_runtime *runtime, tp_fault *fault) {
  const tp_runtime_options *options = &runtime->options;
  const tp__layer_ops *layer_ops = runtime->layer_ops;
  TP__TRY(tp__registry_new(&runtime->allocator, layer_ops->rows, layer_ops->row_count, layer_ops->aliases,
                           layer_ops->alias_count, options->phases, options->phase_count, layer_ops->contributions,
                           &runtime->registry, fault));
  tp__registry_hook_defaults(runtime->registry, options->hook_limit_ms, options->hook_failure);
  runtime->redactor = (tp__redactor){options->redact, options->redact_ctx};
  tp__registry_redact(runtime->registry, &runtime->redactor);
  return TP_OK;
}

static void *worker_home(const void *runtime, uint32_t index) {
  const tp_runtime *r = runtime;
  return tp__thread_cache_of_worker(&r->caches, index);
}

/* Nearly every strand is the first member of a turn. */
static void prefetch(const tp__strand *strand) { tp__turn_prefetch_all((const tp__turn *)(const void *)strand); }

/* Takes steps that threads of the runtime take when there are threads. */
static bool step_runtime(const void *owner, int64_t *ret_next_ns) {
  tp_runtime *runtime = (tp_runtime *)(uintptr_t)owner;
  int64_t jobs_ns = TP__NEVER, drain_ns = TP__NEVER;
  bool any = tp__jobs_pump(&runtime->jobs, &jobs_ns);
  if (!any) any = tp__drain_pump(runtime, &drain_ns);
  int64_t next_ns = jobs_ns < drain_ns ? jobs_ns : drain_ns;
  if (next_ns < *ret_next_ns) *ret_next_ns = next_ns;
  return any;
}

/* The capacity suffices if every turn is scheduled at once, including closing turns, and every helper. A host without
 * engine workers wants its callbacks on its own threads. */
static tp_status make_sched(tp_runtime *runtime) {
  const tp_runtime_options *options = &runtime->options;
  tp__sched_options sched = {
      .owner = runtime,
      .allocator = &runtime->allocator,
      .workers = options->engine_workers,
      .strands_max = (size_t)options->turns_max + 2 * (size_t)tp__detached_max(runtime) + runtime->helpers.max,
      .handler_threads = options->handler_threads,
      .layer_threads = options->tool_threads,
      .detached_threads = options->detached_threads,
      .abandoned_max = options->abandoned_threads_max,
      .tokens_max = options->deferred_max,
      .answers_to_workers = options->no_engine_workers,
      .pumped = options->pump,
      .step = step_runtime,
      .on_exhausted = threads_exhausted,
      .worker_home = worker_home,
      .prefetch = prefetch,
  };
  return tp__sched_init(&runtime->sched, &sched);
}

static tp_status build_part(tp_runtime *runtime, enum part part, tp_fault *fault) {
  const tp_runtime_options *options = &runtime->options;
  const tp__layer_ops *layer_ops = runtime->layer_ops;
  switch (part) {
    case PART_MUTEX:
      return tp__mutex_init(&runtime->mutex, TP__RANK_runtime);
    case PART_COND:
      return tp__cond_init(&runtime->changed);
    case PART_PAYLOADS:
      return tp__mutex_init(&runtime->payloads_mutex, TP__RANK_payloads);
    case PART_STORE:
      return options->store ? TP_OK : own_store(runtime, fault);
    case PART_REGISTRY:
      return make_registry(runtime, fault);
    case PART_CACHES:
      TP__TRY(tp__thread_caches_init(&runtime->caches, &runtime->allocator, options->engine_workers));
      tp__registry_on_publish(runtime->registry, tp__thread_caches_renew_pins, &runtime->caches);
      return TP_OK;
    case PART_BLOCKS:
      return tp__blocks_init(&runtime->blocks, &runtime->allocator, &runtime->caches);
    case PART_TURN_TABLE:
      return tp__turn_table_init(&runtime->turn_table, &runtime->allocator, &runtime->caches, layer_ops->turn_size,
                                 options->turns_max);
    case PART_SCHED:
      return make_sched(runtime);
    case PART_JOBS:
      return tp__jobs_init(&runtime->jobs, runtime, options);
    case PARTS:
      break;
  }
  return TP_ERR_INTERNAL;
}

static void tear_down(tp_runtime *runtime, enum part part, bool host_store_too) {
  switch (part) {
    case PART_MUTEX:
      tp__mutex_fini(&runtime->mutex);
      break;
    case PART_COND:
      tp__cond_fini(&runtime->changed);
      break;
    case PART_PAYLOADS:
      tp__mutex_fini(&runtime->payloads_mutex);
      break;
    case PART_STORE:
      if ((host_store_too || !runtime->options.store) && runtime->store.destroy)
        runtime->store.destroy(runtime->store.ctx);
      tp__registry_free(runtime->registry); /* after the store's last write, which uses names of the registry */
      break;
    case PART_REGISTRY:
      tp__registry_retire(runtime->registry); /* destructors may lead to the store */
      break;
    case PART_CACHES:
      tp__thread_caches_renew_pins(&runtime->caches, NULL);
      tp__thread_caches_fini(&runtime->caches);
      break;
    case PART_BLOCKS:
      tp__blocks_fini(&runtime->blocks);
      break;
    case PART_TURN_TABLE:
      tp__turn_table_fini(&runtime->turn_table);
      break;
    case PART_SCHED:
      tp__sched_fini(&runtime->sched);
      break;
    case PART_JOBS:
      tp__jobs_fini(&runtime->jobs);
      break;
    case PARTS:
      break;
  }
}

/* Frees the parts below `built`, from the last one back, and the runtime itself. */
static void take_apart(tp_runtime *runtime, enum part built, bool host_store_too) {
  for (int part = (int)built; part-- > 0;) tear_down(runtime, (enum part)part, host_store_too);
  tp_allocator allocator = runtime->allocator;
  tp__release(&allocator, runtime, sizeof *runtime);
}

static void jobs_may_run(void *ctx) { tp__jobs_wake(ctx); }
static void audit_has_a_row(void *ctx) { tp__audit_give(ctx); }

/* The owner uses one processor, so at most the others can help. */
static uint32_t helpers_max(const tp_runtime_options *options) {
  uint32_t others = tp__cpu_count() - 1;
  if (options->no_engine_workers || options->pump) return 0;
  return others < options->engine_workers ? others : options->engine_workers;
}

tp_status tp__runtime_new(const tp_runtime_options *theirs, const tp__layer_ops *layer_ops, tp_runtime **ret_runtime,
                          tp_fault *fault) {
  tp_runtime_options options;
  tp_store store;
  TP__TRY(tp__runtime_options_resolve(theirs, &options, &store, fault));
  tp_allocator allocator = tp__allocator_of(&options.allocator);
  tp_runtime *runtime = tp__alloc_zero(&allocator, sizeof *runtime);
  if (!runtime) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the runtime");
  runtime->options = options;
  runtime->allocator = allocator;
  runtime->store = store;
  runtime->layer_ops = layer_ops;
  runtime->helpers.max = helpers_max(&options);
  runtime->helpers.search_ns = TP__SHARE_SEARCH_NS;
  tp__a64_store_relaxed(&runtime->counters.abandoned_bytes_max, options.abandoned_bytes_max);
  tp__list_init(&runtime->turns);
  for (int part = 0; part < PARTS; part++) {
    tp_status status = build_part(runtime, (enum part)part, fault);
    if (status == TP_OK) continue;
    if (fault && fault->code != status)
      (void)!tp__fail(fault, status, NULL, "the runtime was not made: %s", tp_status_text(status));
    take_apart(runtime, (enum part)part, false);
    return status;
  }
  /* The prefix is different in every process, because histories and memories use it in their keys. */
  char prefix[sizeof runtime->turn_prefix + 1];
  snprintf(prefix, sizeof prefix, "turn-%016llx-", (unsigned long long)runtime->jobs.mark);
  memcpy(runtime->turn_prefix, prefix, sizeof runtime->turn_prefix);
  tp__registry_belongs_to(runtime->registry, runtime);
  tp__registry_on_commit(runtime->registry, jobs_may_run, &runtime->jobs); /* now, since commits may come at any time */
  if (runtime->store.audit) tp__registry_on_audit(runtime->registry, audit_has_a_row, runtime);
  *ret_runtime = runtime;
  return TP_OK;
}

void tp__runtime_free_unstarted(tp_runtime *runtime) { take_apart(runtime, PARTS, false); }

/* ---- start ---- */

static tp_status start_threads_locked(tp_runtime *runtime) {
  TP__LOCKED(&runtime->mutex);
  tp_status status = tp__sched_start(&runtime->sched);
  if (status == TP_OK) status = tp__jobs_start(&runtime->jobs);
  if (status != TP_OK) {
    tp__jobs_stop(&runtime->jobs);
    tp__sched_stop(&runtime->sched);
    return status;
  }
  runtime->state.process_generation = tp__process_generation();
  tp__a32_store_release(&runtime->state.life, TP__LIFE_STARTED);
  return TP_OK;
}

bool tp__runtime_is_forked(const tp_runtime *runtime) {
  return tp__a32_load_acquire(&runtime->state.life) != TP__LIFE_NEW &&
         runtime->state.process_generation != tp__process_generation();
}

tp_status tp__fail_forked(tp_fault *fault) {
  return tp__fail(fault, TP_ERR_FORKED, NULL, "the runtime was started before a fork: make a new one in the child");
}

tp_status tp__runtime_usable(const tp_runtime *runtime, tp_fault *fault) {
  if (tp__runtime_is_forked(runtime)) return tp__fail_forked(fault);
  if (tp__a32_load_acquire(&runtime->state.life) != TP__LIFE_FREED) return TP_OK;
  return tp__fail(fault, TP_ERR_SHUTDOWN, NULL, "the runtime was freed");
}

/* Without breadcrumbs a crash names no handler; everything else works. */
static void take_breadcrumbs(tp_runtime *runtime) {
  const tp_store *store = &runtime->store;
  tp_fault fault = {0};
  tp__inside frame;
  tp_status status = tp__store_left(
      &frame, store->breadcrumbs(tp__store_enter(&frame, runtime), TP__BREADCRUMBS, &runtime->breadcrumbs, &fault));
  if (status == TP_OK) return;
  runtime->breadcrumbs = NULL;
  tp__log(runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status},
          "no crash will name the handler that it happened in: %s",
          fault.message[0] ? fault.message : tp_status_text(status));
}

static tp_status name_owner(tp_runtime *runtime, tp_fault *fault) {
  tp__inside frame;
  runtime->owner =
      (tp_store_owner){.struct_size = sizeof runtime->owner,
                       .process_run_id = runtime->jobs.mark,
                       .process_id = tp__process_id(),
                       .process_started = tp__process_started(),
                       .opened_unix_ms = tp__unix_ms(),
                       .boot_id = {runtime->boot_id, tp__boot_id(runtime->boot_id, sizeof runtime->boot_id)},
                       .durability = runtime->options.durability,
                       .record_queue_bytes = runtime->options.record_queue_bytes};
  if (!runtime->store.open) return TP_OK;
  return tp__store_left(&frame, runtime->store.open(tp__store_enter(&frame, runtime), &runtime->owner, fault));
}

tp_status tp__runtime_recover(tp_runtime *runtime, tp_fault *fault) {
  const tp_store *store = &runtime->store;
  tp_store_recovery found = {.struct_size = sizeof found};
  tp__inside frame;
  if (!store->recover) return TP_OK;
  tp_status status = tp__store_left(&frame, store->recover(tp__store_enter(&frame, runtime), &found, fault));
  if (status == TP_OK && found.owners > 0)
    tp__log(
        runtime, TP_LOG_WARNING, NULL,
        "the store `%s` was left by %llu processes that are gone: %llu jobs were requeued, %llu are dead letters, "
        "%llu turns and %llu entries were interrupted, and %llu functions were called when they died (crash_suspect)",
        store->name, (unsigned long long)found.owners, (unsigned long long)found.jobs_requeued,
        (unsigned long long)found.jobs_dead, (unsigned long long)found.turns_interrupted,
        (unsigned long long)found.entries_interrupted, (unsigned long long)found.crash_suspects);
  return status;
}

static tp_status open_store(tp_runtime *runtime, tp_fault *fault) {
  const tp_store *store = &runtime->store;
  tp__inside opens;
  tp__inside_enter(&opens, runtime, TP__THREAD_OPENS_STORE);
  tp_status status = name_owner(runtime, fault);
  if (status == TP_OK) status = tp__runtime_recover(runtime, fault);
  if (status == TP_OK && runtime->layer_ops->store_opened) status = runtime->layer_ops->store_opened(runtime, fault);
  if (status == TP_OK && store->breadcrumbs && runtime->options.durability > TP_DURABILITY_MEMORY)
    take_breadcrumbs(runtime);
  tp__inside_leave(&opens);
  return status;
}

/* The first start opens the store, without any lock held. Other starts wait for it. */
static tp_status open_store_once(tp_runtime *runtime, tp_fault *fault) {
  const tp_store *store = &runtime->store;
  if (!store->open && !store->recover && !store->audit && !store->turns) return TP_OK;
  if (tp__inside_does(runtime, TP__THREAD_OPENS_STORE)) return must_not_wait(fault, "tp_runtime_start");
  tp__mutex_lock(&runtime->mutex);
  while (runtime->store_opening) tp__cond_wait_until(&runtime->changed, &runtime->mutex, TP__NEVER);
  bool is_first = !runtime->store_opened && tp__a32_load_relaxed(&runtime->state.life) == TP__LIFE_NEW;
  runtime->store_opening = is_first;
  tp__mutex_unlock(&runtime->mutex);
  if (!is_first) return TP_OK;
  tp_fault own = {0};
  tp_status status = open_store(runtime, &own);
  tp__mutex_lock(&runtime->mutex);
  runtime->store_opening = false;
  runtime->store_opened = status == TP_OK;
  tp__cond_broadcast(&runtime->changed);
  tp__mutex_unlock(&runtime->mutex);
  if (status == TP_OK && runtime->store.audit) tp__audit_give(runtime);
  if (status == TP_OK) return TP_OK;
  return tp__fail(fault, status, runtime->store.name, "the store was not opened: %s",
                  own.message[0] ? own.message : tp_status_text(status));
}

tp_status tp_runtime_start(tp_runtime *runtime, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  tp_status status = TP_OK;
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(open_store_once(runtime, fault));
  tp__mutex_lock(&runtime->mutex);
  switch (tp__a32_load_relaxed(&runtime->state.life)) { /* written under this lock */
    case TP__LIFE_NEW:
      status = start_threads_locked(runtime);
      break;
    case TP__LIFE_STARTED:
      break;
    default:
      status = TP_ERR_SHUTDOWN;
      break;
  }
  tp__mutex_unlock(&runtime->mutex);
  return status == TP_OK ? TP_OK
                         : tp__fail(fault, status, NULL, "the runtime does not run: %s", tp_status_text(status));
}

tp_status tp__runtime_ready(tp_runtime *runtime, tp_fault *fault) {
  if (tp__a32_load_acquire(&runtime->state.life) != TP__LIFE_STARTED) return tp_runtime_start(runtime, fault);
  return runtime->state.process_generation == tp__process_generation() ? TP_OK : tp__fail_forked(fault);
}

/* ---- load ---- */

bool tp__runtime_is_overloaded(const tp_runtime *runtime) {
  return tp__pool_queued_count(&runtime->sched.pool) >= runtime->options.handler_queue_max;
}

tp_status tp__runtime_refuse_turn(tp_runtime *runtime, tp_fault *fault) {
  tp_fault why = {0};
  int64_t now_ns = tp__now_ns();
  uint64_t logged_ns = tp__a64_load_relaxed(&runtime->shed_logged_ns);
  tp__a64_add_relaxed(&runtime->counters.turns_shed, 1);
  tp_status status = tp__fail(&why, TP_ERR_FULL, NULL,
                              "%u calls or more wait for a handler thread (tp_runtime_options.handler_queue_max): try "
                              "again later, or give the runtime more handler_threads",
                              runtime->options.handler_queue_max);
  bool is_first = logged_ns == 0 || now_ns - (int64_t)logged_ns > SHED_LOG_NS;
  if (is_first && tp__a64_cas_acq_rel(&runtime->shed_logged_ns, &logged_ns, (uint64_t)now_ns))
    tp__log(runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status}, "new turns are refused: %s", why.message);
  if (fault) *fault = why;
  return status;
}

/* ---- the end ---- */

/* No handler runs any more. A handler that was abandoned may have deferred after its runtime was freed, and another
 * thread may complete its token at this moment. */
static void destroy_runtime(void *arg) {
  tp_runtime *runtime = arg;
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  tp__attempts_end_abandoned(&runtime->sched);
  if (runtime->layer_ops->free_last) runtime->layer_ops->free_last(runtime);
  take_apart(runtime, PARTS, true);
  tp__inside_leave(&frame);
}

/* From here on only destructors and abandoned handlers can call the runtime. They get an error, because it was
 * freed. */
static void free_drained(tp_runtime *runtime) {
  tp__inside frame;
  /* Threads of the host that are inside tp_token_complete() are about to leave: they hold no lock and wait for
   * nothing. */
  tp__mutex_lock(&runtime->mutex);
  while (tp__a32_load_acquire(&runtime->sched.completers) > 0)
    tp__cond_wait_until(&runtime->changed, &runtime->mutex, tp__now_ns() + 50 * TP__NS_PER_US);
  tp__mutex_unlock(&runtime->mutex);
  tp__a32_store_release(&runtime->state.life, TP__LIFE_FREED);
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  if (runtime->layer_ops->free_layer) runtime->layer_ops->free_layer(runtime);
  tp__attempts_end_abandoned(&runtime->sched);
  tp__inside_leave(&frame);
  if (!tp__pool_orphan(&runtime->sched.pool, destroy_runtime, runtime)) destroy_runtime(runtime);
}

/* ---- without threads ---- */

int tp_runtime_fd(const tp_runtime *runtime) {
  if (!runtime || !runtime->options.pump || tp__runtime_is_forked(runtime)) return -1;
  return tp__pump_is_open(&runtime->sched.pump) ? tp__pollable_fd(&runtime->sched.pump.pollable) : -1;
}

/* In ms, for poll(): rounded up. */
static int wait_ms_of(int64_t next_ns) {
  if (next_ns == TP__NEVER) return -1;
  int64_t left_ns = next_ns > 0 ? next_ns - tp__now_ns() : 0;
  int64_t left_ms = left_ns > 0 ? (left_ns - 1) / TP__NS_PER_MS + 1 : 0;
  return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

tp_status tp_runtime_pump(tp_runtime *runtime, uint32_t items_max, int *ret_wait_ms, tp_fault *fault) {
  int64_t next_ns = TP__NEVER;
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!runtime->options.pump)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the runtime has threads of its own: set tp_runtime_options.pump");
  if (tp__inside_is_of(runtime))
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_runtime_pump() was called from inside a handler or a callback");
  tp_status status =
      tp__runtime_life(runtime) == TP__LIFE_NEW ? TP_OK : tp__pump_run(&runtime->sched, items_max, &next_ns);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "another thread pumps this runtime");
  if (ret_wait_ms) *ret_wait_ms = wait_ms_of(next_ns);
  return TP_OK;
}

/* The rows may say why the start failed. They are passed to the store, but nothing is recovered for that. */
static void keep_added_rows(tp_runtime *runtime) {
  tp_fault fault = {0};
  tp__mutex_lock(&runtime->mutex);
  bool is_early = runtime->audit_added && runtime->store.audit && !runtime->store_opened;
  tp__mutex_unlock(&runtime->mutex);
  if (!is_early) return;
  tp_status status = name_owner(runtime, &fault);
  if (status != TP_OK) {
    tp__log(runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status}, "audit rows were not kept: %s",
            fault.message[0] ? fault.message : tp_status_text(status));
    return;
  }
  tp__mutex_lock(&runtime->mutex);
  runtime->store_opened = true;
  tp__mutex_unlock(&runtime->mutex);
  tp__audit_give(runtime);
}

void tp_runtime_free(tp_runtime *runtime) {
  if (!runtime || tp__runtime_is_forked(runtime)) return;
  bool freed = tp__a32_load_acquire(&runtime->state.life) == TP__LIFE_FREED;
  if (freed || tp_runtime_drain(runtime, 0, NULL, NULL) != TP_OK) {
    tp__log(runtime, TP_LOG_ERROR, &(tp__log_subject){.status = freed ? TP_ERR_BUSY : TP_ERR_USAGE},
            "tp_runtime_free() from inside a handler or a callback frees nothing: %s",
            freed ? "it is being freed" : "call it from another thread, or later");
    return;
  }
  tp__drain_join(runtime);
  keep_added_rows(runtime);
  free_drained(runtime);
}
