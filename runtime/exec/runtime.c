/* SPDX-License-Identifier: Apache-2.0
 *
 * Birth, start, drain and end of a runtime. The order of stopping: refuse new turns; close what is open above; let
 * turns end, then cancel them; let jobs and detached runs end, then cancel them; stop the job thread, the timer,
 * the engine workers, the handler threads; free. */
#include "runtime/exec/record_commit.h"
#include "runtime/exec/records.h"
#include "runtime/exec/runtime_object.h"

#include "runtime/exec/exec.h"
#include <limits.h>
#include <stdio.h>

#include "runtime/exec/breadcrumb.h"
#include "runtime/exec/share.h"
#include "runtime/plan/registry.h"
#include "runtime/base/bug.h"

enum {
  WORKERS_MAX = 16384,
  HANDLER_THREADS = 64,
  HANDLER_QUEUE = 16384,
  DETACHED_THREADS = 16,
  LAYER_THREADS = 32,
  TURNS_MAX = 65536,
  DEFERRED_MAX = 16384,
  ABANDONED_BYTES = 64 << 20,
  JOB_LEASE_MS = 60000,
  JOB_LEASE_MS_LEAST = 300,
  BACKLOG_WAIT_MS = 30000,
  JOB_POSTPONE_MS = 24 * 3600 * 1000,
  HOST_PHASES_MAX = TP_PHASE_LIMIT - TP_PHASE_HOST
};
static const int64_t SHED_LOG_NS = (int64_t)10000 * TP__NS_PER_MS; /* between two such lines */

static void write_redacted(const tp_runtime *runtime, char message[TP_FAULT_MESSAGE_SIZE], const char *format,
                           va_list arguments) {
  char whole[TP__REDACT_BYTES + 4], buffer[TP__REDACT_SIZE]; /* a longer one is seen as one that was cut */
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

/* ---- the list of turns: detached runs and what closes something, which have bounds of their own ---- */

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

/* A drain looks again by itself; this only makes it sooner. */
void tp__runtime_wake_drain(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  tp__cond_broadcast(&runtime->changed);
  tp__sched_wake(&runtime->sched);
  tp__mutex_unlock(&runtime->mutex);
}

/* ---- birth ---- */

static void default_to(uint32_t *option, uint32_t value) {
  if (*option == 0) *option = value;
}

static void cap(uint32_t *option, uint32_t most) {
  if (*option > most) *option = most > 0 ? most : 1;
}

/* What counts threads has no meaning where there are none. */
static tp_status check_pumped(const tp_runtime_options *options, tp_fault *fault) {
  const char *set = options->engine_workers          ? "engine_workers"
                    : options->no_engine_workers     ? "no_engine_workers"
                    : options->handler_threads       ? "handler_threads"
                    : options->detached_threads      ? "detached_threads"
                    : options->tool_threads          ? "tool_threads"
                    : options->abandoned_threads_max ? "abandoned_threads_max"
                                                     : NULL;
  if (!set) return TP_OK;
  return tp__fail(
      fault, TP_ERR_USAGE, NULL,
      "tp_runtime_options.%s is set, and with tp_runtime_options.pump the runtime has no threads: set one of "
      "the two",
      set);
}

static tp_status resolve_options(tp_runtime_options *options, const tp_runtime_options *theirs, tp_fault *fault) {
  memset(options, 0, sizeof *options);
  if (theirs) TP__TRY(tp__options_read(options, sizeof *options, theirs, "tp_runtime_options", fault));
  if (!options->allocator.alloc != !options->allocator.release)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "allocator: set both alloc and release, or neither");
  if (!options->redact && options->redact_ctx)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "redact_ctx is set, but redact is NULL: set both, or leave both NULL");
  if ((unsigned)options->log_level > TP_LOG_DEBUG)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "log_level: %d is no level of the log", (int)options->log_level);
  if (!options->log_level) options->log_level = TP_LOG_INFO;
  if (options->phase_count > HOST_PHASES_MAX)
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "%zu phases of the host: at most %d", options->phase_count,
                    HOST_PHASES_MAX);
  if (options->hook_failure != TP_FAILURE_DEFAULT && options->hook_failure != TP_FAILURE_BEST_EFFORT &&
      options->hook_failure != TP_FAILURE_REQUIRED)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_runtime_options.hook_failure is %d: use TP_FAILURE_BEST_EFFORT or TP_FAILURE_REQUIRED",
                    (int)options->hook_failure);
  if (options->pump) TP__TRY(check_pumped(options, fault));
  default_to(&options->engine_workers, options->pump ? 1 : tp__cpu_count());
  if (options->no_engine_workers) options->engine_workers = 1; /* for detached runs; submit forms are refused */
  cap(&options->engine_workers, WORKERS_MAX);
  default_to(&options->handler_threads, HANDLER_THREADS);
  default_to(&options->handler_queue_max, HANDLER_QUEUE);
  default_to(&options->detached_threads, DETACHED_THREADS);
  default_to(&options->tool_threads, LAYER_THREADS);
  default_to(&options->turns_max, TURNS_MAX);
  default_to(&options->deferred_max, DEFERRED_MAX);
  /* At least a quarter of the threads is for awaited handlers alone, where there are that many. */
  cap(&options->tool_threads, options->handler_threads / 2);
  cap(&options->detached_threads, options->handler_threads / 4);
  default_to(&options->abandoned_threads_max, options->handler_threads);
  if (options->abandoned_bytes_max == 0) options->abandoned_bytes_max = ABANDONED_BYTES;
  default_to(&options->job_lease_ms, JOB_LEASE_MS);
  if (options->backlog_wait_ms == 0) options->backlog_wait_ms = BACKLOG_WAIT_MS;
  if (options->job_postpone_ms == 0) options->job_postpone_ms = JOB_POSTPONE_MS;
  if (options->job_lease_ms < JOB_LEASE_MS_LEAST)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_runtime_options.job_lease_ms is %u: the least is %d",
                    options->job_lease_ms, JOB_LEASE_MS_LEAST);
  if (options->turns_waiting_max != 0 && options->turns_running_max == 0)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_runtime_options.turns_waiting_max bounds turns that wait to run: set turns_running_max, too");
  return TP_OK;
}

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

static tp_status check_durability(const tp_runtime_options *options, const tp_store *store, tp_fault *fault) {
  if ((uint32_t)options->durability > TP_DURABILITY_SYNC)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_runtime_options.durability is %d: it must be a tp_durability",
                    (int)options->durability);
  if (options->durability > TP_DURABILITY_MEMORY && !(store->durable && store->commit))
    return tp__fail(fault, TP_ERR_USAGE, store->name,
                    "tp_runtime_options.durability: async and sync need a store whose commits survive the process; "
                    "give one as store, such as that of tp_sqlite_store_open(), or leave it 0");
  if (options->record_queue_bytes != 0 && !(store->durable && store->open))
    return tp__fail(fault, TP_ERR_USAGE, store->name,
                    "tp_runtime_options.record_queue_bytes bounds the queue of a durable store, and there is none; "
                    "leave it 0");
  if (options->store && options->jobs_max != 0)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_runtime_options.jobs_max bounds the runtime's own store; a store of the host's has a bound of "
                    "its own: leave it 0");
  return TP_OK;
}

/* @param ret_store  zero-filled where the host has none. */
/* The functions of a store that go together. */
typedef struct store_group {
  const char *what;
  bool is_required;
  struct {
    const char *name;
    size_t offset;
  } members[5];
} store_group;

#define MEMBER(name) \
  { #name, offsetof(tp_store, name) }
static const store_group store_groups[] = {
    {"records", true, {MEMBER(record)}},
    {"jobs", true, {MEMBER(job_insert), MEMBER(job_claim), MEMBER(job_renew), MEMBER(job_finish), MEMBER(job_open)}},
    {"dead letters", false, {MEMBER(job_redrive), MEMBER(job_discard)}},
    {"tool calls", false, {MEMBER(tool_start), MEMBER(tool_end)}},
    {"tasks", false, {MEMBER(task_put), MEMBER(task_take), MEMBER(task_settle)}},
    {"turns that run", false, {MEMBER(turn_running), MEMBER(turns_running)}},
};
#undef MEMBER

static bool has_function(const tp_store *store, size_t offset) {
  void (*function)(void);
  memcpy(&function, (const char *)store + offset, sizeof function);
  return function != NULL;
}

/* Each group is whole or absent; a required one is whole. */
static tp_status check_group(const tp_store *store, const store_group *group, tp_fault *fault) {
  const char *present = NULL, *missing = NULL;
  for (size_t i = 0; i < sizeof group->members / sizeof *group->members && group->members[i].name; i++) {
    const char *name = group->members[i].name;
    if (has_function(store, group->members[i].offset)) present = present ? present : name;
    else missing = missing ? missing : name;
  }
  if (!missing || (!present && !group->is_required)) return TP_OK;
  if (present)
    return tp__fail(fault, TP_ERR_USAGE, store->name,
                    "tp_store.%s is set and tp_store.%s is not: the functions of %s go together; set both", present,
                    missing, group->what);
  return tp__fail(fault, TP_ERR_USAGE, store->name, "tp_store.%s is not set: every store keeps %s", missing,
                  group->what);
}

static tp_status resolve_store(tp_store *ret_store, const tp_store *theirs, tp_fault *fault) {
  *ret_store = (tp_store){0};
  if (!theirs) return TP_OK;
  TP__TRY(tp__options_read(ret_store, sizeof *ret_store, theirs, "tp_store", fault));
  const tp_store *store = ret_store;
  for (size_t i = 0; i < sizeof store_groups / sizeof *store_groups; i++)
    TP__TRY(check_group(store, &store_groups[i], fault));
  if (store->durable > 1)
    return tp__fail(fault, TP_ERR_USAGE, store->name, "tp_store.durable is %u: it must be 0 or 1", store->durable);
  return TP_OK;
}

/* The parts in the order in which they are built; torn down from `built` backwards. */
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

/* Nearly every strand is a turn's, and its first member. */
static void prefetch(const tp__strand *strand) { tp__turn_prefetch_all((const tp__turn *)(const void *)strand); }

static bool step_runtime(const void *runtime, int64_t *ret_next_ns);

/* Every turn may be scheduled at once, closing ones too, and every helper. A host without engine workers has asked for
 * its callbacks on its own threads. */
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
      tp__registry_free(runtime->registry); /* what the store still wrote has names of the registry's */
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

/* The parts below `built`, from the last one back, and the runtime itself. */
static void take_apart(tp_runtime *runtime, enum part built, bool host_store_too) {
  for (int part = (int)built; part-- > 0;) tear_down(runtime, (enum part)part, host_store_too);
  tp_allocator allocator = runtime->allocator;
  tp__release(&allocator, runtime, sizeof *runtime);
}

static void jobs_may_run(void *ctx) { tp__jobs_wake(ctx); }
static void audit_has_a_row(void *ctx) { tp__audit_give(ctx); }

/* The owner is one thread, and the processors are as many as they are. */
static uint32_t helpers_max(const tp_runtime_options *options) {
  uint32_t others = tp__cpu_count() - 1;
  if (options->no_engine_workers || options->pump) return 0;
  return others < options->engine_workers ? others : options->engine_workers;
}

tp_status tp__runtime_new(const tp_runtime_options *theirs, const tp__layer_ops *layer_ops, tp_runtime **ret_runtime,
                          tp_fault *fault) {
  tp_runtime_options options;
  tp_store store;
  TP__TRY(resolve_options(&options, theirs, fault));
  TP__TRY(resolve_store(&store, options.store, fault));
  TP__TRY(check_durability(&options, &store, fault));
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
  /* Different in every process: histories and memories are keyed by it. */
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

static void stop_threads(tp_runtime *runtime) {
  tp__jobs_stop(&runtime->jobs);
  tp__sched_stop(&runtime->sched);
}

static tp_status start_threads_locked(tp_runtime *runtime) {
  TP__LOCKED(&runtime->mutex);
  tp_status status = tp__sched_start(&runtime->sched);
  if (status == TP_OK) status = tp__jobs_start(&runtime->jobs);
  if (status != TP_OK) {
    stop_threads(runtime);
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

/* Without them a crash names no handler; all else works. */
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

/* The first start opens the store, without any lock held; any other waits for it. */
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

/* ---- drain ---- */

static void cancel_one(void *ctx, tp__turn *turn) {
  (void)ctx;
  tp__turn_cancel(turn);
}

void tp__runtime_cancel_all(tp_runtime *runtime) {
  tp__turn_table_each(&runtime->turn_table, cancel_one, NULL);
  tp__mutex_lock(&runtime->mutex);
  for (tp__link *link = runtime->turns.next; link != &runtime->turns; link = link->next)
    tp__turn_cancel(TP__CONTAINER(link, tp__turn, runtime_link));
  tp__mutex_unlock(&runtime->mutex);
}

static uint64_t count_locked(tp_runtime *runtime, tp__turn_kind kind) {
  TP__LOCKED(&runtime->mutex);
  return runtime->turn_counts[kind] + tp__turn_table_count(&runtime->turn_table, kind);
}

/* Nothing signals the end of a turn in the turn table, nor of an operation of a turn that its host drives: a drain is
 * rare, so it looks again every millisecond. */
static void wait_poll_interval_locked(tp_runtime *runtime, int64_t deadline_ns) {
  TP__LOCKED(&runtime->mutex);
  int64_t next_ns = tp__now_ns() + TP__NS_PER_MS;
  tp__sched_wait_until(&runtime->sched, &runtime->changed, &runtime->mutex,
                       next_ns < deadline_ns ? next_ns : deadline_ns);
}

void tp__runtime_poll_interval(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  wait_poll_interval_locked(runtime, TP__NEVER);
  tp__mutex_unlock(&runtime->mutex);
}

/* @return how many of the kind were left when the time was up. */
static uint64_t wait_for_turns(tp_runtime *runtime, tp__turn_kind kind, int64_t deadline_ns) {
  uint64_t left;
  tp__mutex_lock(&runtime->mutex);
  while ((left = count_locked(runtime, kind)) > 0 && tp__now_ns() < deadline_ns)
    wait_poll_interval_locked(runtime, deadline_ns);
  tp__mutex_unlock(&runtime->mutex);
  return left;
}

static bool any_busy_locked(tp_runtime *runtime) {
  TP__LOCKED(&runtime->mutex);
  for (tp__link *link = runtime->turns.next; link != &runtime->turns; link = link->next)
    if (tp__a32_load_seq_cst(&TP__CONTAINER(link, tp__turn, runtime_link)->busy)) return true;
  return tp__turn_table_is_busy(&runtime->turn_table);
}

static bool any_busy(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  bool any = any_busy_locked(runtime);
  tp__mutex_unlock(&runtime->mutex);
  return any;
}

/* A turn that its host drives is the host's to end: only what it has under way is waited for, and then no other is
 * begun. */
static void wait_for_operations(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  while (any_busy_locked(runtime)) wait_poll_interval_locked(runtime, TP__NEVER);
  tp__mutex_unlock(&runtime->mutex);
}

static void drain_turns(tp_runtime *runtime, int64_t deadline_ns, tp_drain_report *report) {
  if (runtime->layer_ops->close_all) runtime->layer_ops->close_all(runtime, deadline_ns);
  report->turns_cancelled = wait_for_turns(runtime, TP__TURN_DRIVEN, deadline_ns);
  report->turns_cancelled += wait_for_turns(runtime, TP__TURN_HELD, deadline_ns);
  if (report->turns_cancelled > 0) {
    /* A turn that was being born when the others were cancelled is cancelled in the next round. */
    do tp__runtime_cancel_all(runtime);
    while (!TP__BUG(TP__BUG_LEFT_QUEUED) && wait_for_turns(runtime, TP__TURN_DRIVEN, tp__now_ns() + TP__NS_PER_MS) > 0);
  }
}

/* A submitting thread marks the turn busy and then reads life; this function writes life and then reads the marks, all
 * of it sequentially consistent. The later of the two sees the other, so nothing is left queued when the workers stop.
 * The cost is on this side: a submit reads a word that no other thread writes meanwhile. */
static void refuse_operations(tp_runtime *runtime) {
  tp__a32_exchange_seq_cst(&runtime->state.life, TP__LIFE_STOPPING); /* pairs with tp__turn_begin_operation */
}

/* @return how many detached and closing turns were left. */
static uint64_t wait_for_the_rest(tp_runtime *runtime, int64_t deadline_ns) {
  uint64_t left = wait_for_turns(runtime, TP__TURN_CLOSING, deadline_ns); /* these may still store jobs */
  return left + wait_for_turns(runtime, TP__TURN_DETACHED, deadline_ns);
}

static void count_jobs(tp_runtime *runtime, tp_drain_report *report) {
  tp__job_counts jobs = tp__jobs_counts(&runtime->jobs);
  report->jobs_dead = jobs.dead;
  if (runtime->store.durable) return;
  report->jobs_lost = jobs.open + jobs.interrupted;
  if (report->jobs_lost > 0)
    tp__log(runtime, TP_LOG_ERROR, &(tp__log_subject){.status = TP_ERR_TIMEOUT},
            "%llu background jobs are lost, %llu of them while they ran: the drain's limit was over, and the store "
            "`%s` does not outlive the process",
            (unsigned long long)report->jobs_lost, (unsigned long long)jobs.interrupted, runtime->store.name);
}

static void commit_records(tp_runtime *runtime) {
  const tp_store *store = &runtime->store;
  tp_fault fault = {0};
  if (tp__store_commit(runtime, &fault) == TP_OK) return;
  tp__log(runtime, TP_LOG_ERROR, &(tp__log_subject){.status = fault.code},
          "the store `%s` did not commit its records: %s", store->name, fault.message);
}

/* A function that was given up may go on for as long as it likes, and ask a model or close a session.
 * @return whether none is left, and from here on none begins. */
static bool refuse_detached(tp_runtime *runtime) {
  tp__mutex_lock(&runtime->mutex);
  bool none = count_locked(runtime, TP__TURN_CLOSING) + count_locked(runtime, TP__TURN_DETACHED) == 0;
  if (none) runtime->refuses_detached = true;
  tp__mutex_unlock(&runtime->mutex);
  return none;
}

static void drain_detached(tp_runtime *runtime, int64_t deadline_ns) {
  tp_store *store = &runtime->store;
  wait_for_the_rest(runtime, deadline_ns);
  if (!store->durable) (void)!tp__jobs_wait(&runtime->jobs, (tp_text){NULL, 0}, deadline_ns);
  if (wait_for_the_rest(runtime, deadline_ns) > 0) tp__runtime_cancel_all(runtime);
  tp__jobs_stop(&runtime->jobs); /* a run that it started meanwhile is cancelled and waited for */
  while (!refuse_detached(runtime)) {
    tp__runtime_cancel_all(runtime);
    if (TP__BUG(TP__BUG_LEFT_QUEUED)) return;
    wait_for_the_rest(runtime, TP__NEVER);
  }
}

static void set_life_locked(tp_runtime *runtime, tp__life life) {
  TP__LOCKED(&runtime->mutex);
  TP__ASSERT(tp__a32_load_relaxed(&runtime->state.life) <= (uint32_t)life); /* a life goes on, and not back */
  tp__a32_store_release(&runtime->state.life, life);
  tp__cond_broadcast(&runtime->changed);
  tp__sched_wake(&runtime->sched);
}

/* @return whether it is the first drain of a runtime that was started; any other finds all of it done, in the end. */
static bool begin_drain_locked(tp_runtime *runtime) {
  TP__LOCKED(&runtime->mutex);
  uint32_t life = tp__a32_load_relaxed(&runtime->state.life);
  if (life == TP__LIFE_NEW) {
    runtime->state.process_generation = tp__process_generation();
    set_life_locked(runtime, TP__LIFE_DRAINED);
  } else if (life == TP__LIFE_STARTED) {
    set_life_locked(runtime, TP__LIFE_DRAINING);
  }
  return life == TP__LIFE_STARTED;
}

/* After the turns above have ended: from here on no operation begins. */
static void close_last(tp_runtime *runtime) {
  if (runtime->layer_ops->close_last) runtime->layer_ops->close_last(runtime);
  refuse_operations(runtime);
}

/* After the last operation has ended. */
static void drain_last(tp_runtime *runtime, int64_t deadline_ns, tp_drain_report *report) {
  drain_detached(runtime, deadline_ns);
  count_jobs(runtime, report);
  commit_records(runtime);
  stop_threads(runtime);
  tp__pool_stop(&runtime->sched.pool);
  tp__mutex_lock(&runtime->mutex);
  set_life_locked(runtime, TP__LIFE_DRAINED);
  tp__mutex_unlock(&runtime->mutex);
}

static void count_leaks(tp_runtime *runtime, tp_drain_report *report) {
  report->leaks = tp__pool_leaks(&runtime->sched.pool, NULL, NULL);
  report->complete = report->leaks == 0;
}

/* After begin_drain_locked(). is_first: what it returned. */
static tp_drain_report drain_runtime(tp_runtime *runtime, bool is_first, int64_t deadline_ns) {
  tp_drain_report report = {.struct_size = sizeof report};
  if (is_first) {
    tp__turn_table_fence(&runtime->turn_table); /* each turn that began is seen from here on */
    drain_turns(runtime, deadline_ns, &report);
    wait_for_turns(runtime, TP__TURN_CLOSING, deadline_ns);
    close_last(runtime);
    if (!TP__BUG(TP__BUG_LEFT_QUEUED)) wait_for_operations(runtime);
    drain_last(runtime, deadline_ns, &report);
  } else {
    tp__mutex_lock(&runtime->mutex);
    while (tp__a32_load_relaxed(&runtime->state.life) != TP__LIFE_DRAINED)
      tp__sched_wait_until(&runtime->sched, &runtime->changed, &runtime->mutex, TP__NEVER);
    tp__mutex_unlock(&runtime->mutex);
  }
  count_leaks(runtime, &report);
  return report;
}

tp_status tp_runtime_drain(tp_runtime *runtime, uint32_t limit_ms, tp_drain_report *ret_report, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(tp__may_block(runtime, fault, "tp_runtime_drain"));
  if (ret_report) TP__TRY(tp__size_check(ret_report, "tp_drain_report", fault));
  tp__mutex_lock(&runtime->mutex);
  bool is_first = begin_drain_locked(runtime);
  tp__mutex_unlock(&runtime->mutex);
  tp_drain_report report = drain_runtime(runtime, is_first, tp__deadline_after_ms(tp__now_ns(), limit_ms));
  if (ret_report) (void)tp__shown_fill(ret_report, &report, sizeof report);
  return TP_OK;
}

/* ---- a drain that was submitted ---- */

/* How far a pumped one is. It waits between steps, so that the host goes on: it may have to answer what the drain waits
 * for, and the thread that pumps may be inside an operation, which then waits for its turn. The last step pumps, and
 * waits for what was cancelled: not above a function that waits, since that may be part of it. */
enum drain_stage { DRAIN_CLOSES, DRAIN_WAITS, DRAIN_CANCELS, DRAIN_REFUSES, DRAIN_ENDS };

typedef struct tp__submitted_drain {
  tp_runtime *runtime;
  int64_t deadline_ns;
  tp_drain_end_fn on_end;
  void *ctx;
  /* under the runtime's lock */
  bool is_begun, is_first;
  /* of the thread that pumps */
  enum drain_stage stage;
  tp_drain_report report;
} submitted_drain;

static void drain_ended(submitted_drain *d, const tp_drain_report *report) {
  tp_runtime *runtime = d->runtime;
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  if (d->on_end) d->on_end(d->ctx, report);
  tp__inside_leave(&frame);
  tp__release(&runtime->allocator, d, sizeof *d);
}

static void drain_thread_run(void *arg) {
  submitted_drain *d = arg;
  tp_runtime *runtime = d->runtime;
  tp__mutex_lock(&runtime->mutex);
  while (!d->is_begun) tp__cond_wait_until(&runtime->changed, &runtime->mutex, TP__NEVER);
  bool is_first = d->is_first;
  tp__mutex_unlock(&runtime->mutex);
  tp_drain_report report = drain_runtime(runtime, is_first, d->deadline_ns);
  drain_ended(d, &report);
}

static uint64_t count(tp_runtime *runtime, tp__turn_kind kind) {
  tp__mutex_lock(&runtime->mutex);
  uint64_t left = count_locked(runtime, kind);
  tp__mutex_unlock(&runtime->mutex);
  return left;
}

/* Whether there is what a drain waits for until its deadline. */
static bool drain_waits(tp_runtime *runtime, uint64_t turns) {
  if (turns > 0 || count(runtime, TP__TURN_CLOSING) > 0 || count(runtime, TP__TURN_DETACHED) > 0) return true;
  return !runtime->store.durable && tp__jobs_counts(&runtime->jobs).open > 0;
}

/* @return whether it is over: the report is complete. */
static bool drain_step(submitted_drain *d) {
  tp_runtime *runtime = d->runtime;
  uint64_t turns;
  switch (d->stage) {
    case DRAIN_CLOSES:
      tp__turn_table_fence(&runtime->turn_table); /* each turn that began is seen from here on */
      if (runtime->layer_ops->close_all) runtime->layer_ops->close_all(runtime, d->deadline_ns);
      d->stage = DRAIN_WAITS;
      return false;
    case DRAIN_WAITS:
      turns = count(runtime, TP__TURN_DRIVEN) + count(runtime, TP__TURN_HELD);
      if (tp__now_ns() < d->deadline_ns && drain_waits(runtime, turns)) return false;
      d->report.turns_cancelled = turns;
      d->stage = turns > 0 ? DRAIN_CANCELS : DRAIN_REFUSES;
      return false;
    case DRAIN_CANCELS:
      tp__runtime_cancel_all(runtime); /* a turn that was being born then is cancelled in the next round */
      if (count(runtime, TP__TURN_DRIVEN) + count(runtime, TP__TURN_CLOSING) == 0) d->stage = DRAIN_REFUSES;
      return false;
    case DRAIN_REFUSES:
      if (tp__pump_is_nested(&runtime->sched.pump)) return false;
      close_last(runtime);
      d->stage = DRAIN_ENDS;
      return false;
    case DRAIN_ENDS:
      if (tp__pump_is_nested(&runtime->sched.pump)) return false;
      if (!TP__BUG(TP__BUG_LEFT_QUEUED) && any_busy(runtime)) return false;
      drain_last(runtime, d->deadline_ns, &d->report);
      return true;
  }
  return true;
}

/* One step of a pumped drain. It pumps in its last one, where this is called again, and finds none. @return whether the
 * pump has something to do at once; else it looks again soon. */
static bool pump_drain(tp_runtime *runtime, int64_t *ret_next_ns) {
  tp__mutex_lock(&runtime->mutex);
  submitted_drain *d = runtime->pumped_drain;
  runtime->pumped_drain = NULL;
  bool drained = tp__a32_load_relaxed(&runtime->state.life) == TP__LIFE_DRAINED;
  tp__mutex_unlock(&runtime->mutex);
  if (!d) return false;
  enum drain_stage stage = d->stage;
  bool ended = d->is_first ? drain_step(d) : drained;
  if (ended) {
    count_leaks(runtime, &d->report);
    drain_ended(d, &d->report);
    return true;
  }
  bool waits = !d->is_first || d->stage == stage;
  tp__mutex_lock(&runtime->mutex);
  runtime->pumped_drain = d;
  tp__mutex_unlock(&runtime->mutex);
  if (waits) *ret_next_ns = tp__now_ns() + TP__NS_PER_MS;
  return !waits;
}

/* What threads of its own do where there are threads. */
static bool step_runtime(const void *owner, int64_t *ret_next_ns) {
  tp_runtime *runtime = (tp_runtime *)(uintptr_t)owner;
  int64_t jobs_ns = TP__NEVER, drain_ns = TP__NEVER;
  bool any = tp__jobs_pump(&runtime->jobs, &jobs_ns);
  if (!any) any = pump_drain(runtime, &drain_ns);
  int64_t next_ns = jobs_ns < drain_ns ? jobs_ns : drain_ns;
  if (next_ns < *ret_next_ns) *ret_next_ns = next_ns;
  return any;
}

/* The thread is there before anything is refused: without one nothing has happened. */
tp_status tp_runtime_drain_submit(tp_runtime *runtime, uint32_t limit_ms, tp_drain_end_fn on_end, void *ctx,
                                  tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__runtime_usable(runtime, fault));
  submitted_drain *d = tp__alloc_zero(&runtime->allocator, sizeof *d);
  if (!d) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a drain");
  *d = (submitted_drain){.runtime = runtime,
                         .deadline_ns = tp__deadline_after_ms(tp__now_ns(), limit_ms),
                         .on_end = on_end,
                         .ctx = ctx,
                         .report = {.struct_size = sizeof(tp_drain_report)}};
  tp__mutex_lock(&runtime->mutex);
  tp_status status = runtime->drain_submitted ? TP_ERR_BUSY : TP_OK;
  if (status == TP_OK && runtime->options.pump) {
    status = tp__pump_open(&runtime->sched.pump); /* it may not have been started */
    if (status == TP_OK) runtime->pumped_drain = d;
  } else if (status == TP_OK)
    status = tp__thread_start(&runtime->allocator, "tp-drain", drain_thread_run, d, &runtime->drain_thread);
  if (status == TP_OK) {
    runtime->drain_submitted = true;
    d->is_first = begin_drain_locked(runtime);
    d->is_begun = true;
    tp__cond_broadcast(&runtime->changed);
    tp__sched_wake(&runtime->sched);
  }
  tp__mutex_unlock(&runtime->mutex);
  if (status == TP_OK) return TP_OK;
  tp__release(&runtime->allocator, d, sizeof *d);
  bool busy = status == TP_ERR_BUSY;
  return tp__fail(fault, status, NULL, busy ? "a drain was submitted before" : "no thread for a drain");
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

/* No handler runs any more. One that was abandoned may have deferred after its runtime was freed, and another thread
 * may complete its token at the same time. */
static void destroy_runtime(void *arg) {
  tp_runtime *runtime = arg;
  tp__inside frame;
  tp__inside_enter(&frame, runtime, TP__INSIDE_CALLBACK);
  tp__attempts_end_abandoned(&runtime->sched);
  if (runtime->layer_ops->free_last) runtime->layer_ops->free_last(runtime);
  take_apart(runtime, PARTS, true);
  tp__inside_leave(&frame);
}

/* From here on only destructors and abandoned handlers can call it, and get an error: it was freed. */
static void free_drained(tp_runtime *runtime) {
  tp__inside frame;
  /* Foreign threads inside tp_token_complete() are about to leave: they hold no lock and wait for nothing. */
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

/* Why it did not start may stand there: the store has it, and nothing is recovered for that. */
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
  /* Its on_end may be under way still. */
  tp__mutex_lock(&runtime->mutex);
  tp__thread *thread = runtime->drain_thread;
  runtime->drain_thread = NULL;
  tp__mutex_unlock(&runtime->mutex);
  if (thread) tp__thread_join(thread);
  int64_t next_ns;
  while (pump_drain(runtime, &next_ns)) {}
  keep_added_rows(runtime);
  free_drained(runtime);
}
