/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/runtime_options.h"

#include <string.h>

#include "runtime/plan/registry.h"

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

static void default_to(uint32_t *option, uint32_t value) {
  if (*option == 0) *option = value;
}

static void cap(uint32_t *option, uint32_t most) {
  if (*option > most) *option = most > 0 ? most : 1;
}

/* Options that count threads have no meaning without threads. */
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
  /* one, for detached runs; the submit functions are refused */
  if (options->no_engine_workers) options->engine_workers = 1;
  cap(&options->engine_workers, WORKERS_MAX);
  default_to(&options->handler_threads, HANDLER_THREADS);
  default_to(&options->handler_queue_max, HANDLER_QUEUE);
  default_to(&options->detached_threads, DETACHED_THREADS);
  default_to(&options->tool_threads, LAYER_THREADS);
  default_to(&options->turns_max, TURNS_MAX);
  default_to(&options->deferred_max, DEFERRED_MAX);
  /* At least a quarter of the threads is only for awaited handlers, if there are that many threads. */
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

/** Functions of a store that belong together. */
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

/* Each group must be complete or absent; a required group must be complete. */
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

/* @param ret_store zero-filled when the host has none. */
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

tp_status tp__runtime_options_resolve(const tp_runtime_options *theirs, tp_runtime_options *ret_options,
                                      tp_store *ret_store, tp_fault *fault) {
  TP__TRY(resolve_options(ret_options, theirs, fault));
  TP__TRY(resolve_store(ret_store, ret_options->store, fault));
  return check_durability(ret_options, ret_store, fault);
}
