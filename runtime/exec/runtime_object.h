/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime_object: the parts of a runtime: the threads, the registry, the store and the allocator caches. Three groups
 * of files include it: the files that make, start, drain and free a runtime, the files that write to its store, and the
 * two loops that run entries. All other files use runtime.h. Lock: `runtime`, for the list of turns and for start,
 * drain and stop. */
#ifndef TP__RUNTIME_OBJECT_H
#define TP__RUNTIME_OBJECT_H

#include "runtime/exec/blocks.h"
#include "runtime/exec/breaker.h"
#include "runtime/exec/jobs.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/share.h"
#include "runtime/exec/turn_table.h"

struct tp_runtime {
  tp__runtime_state state;
  /* never changes after new */
  tp__redactor redactor;
  /* resolved; `store` points to the host's store and must not be followed; NULL when the store is the library's */
  tp_runtime_options options;
  tp_allocator allocator;
  tp_store store;
  const tp__layer_ops *layer_ops;
  tp__registry *registry;
  char turn_prefix[22]; /* the prefix of generated turn ids: "turn-", 16 digits, "-" */
  /* parts with a lock of their own */
  tp__thread_caches caches;
  tp__blocks blocks;
  tp__turn_table turn_table;
  tp__sched sched;
  tp__jobs jobs;
  tp__helpers helpers;
  tp__breaker_state breaker_state;
  void *layer;                /* the agent layer: set once by it */
  tp_store_owner owner;       /* set by the start, before the store is opened; never changes afterwards */
  char boot_id[64];           /* the boot id of the owner */
  tp_breadcrumb *breadcrumbs; /* memory of the store, set by the start; NULL: the store has none (breadcrumb.h) */
  /* atomic */
  tp__a64 shed_logged_ns; /* relaxed: when a log line last said that turns are refused */
  tp__counters counters;
  tp__mutex payloads_mutex; /* call_payload.c: held while a payload is added to an entry's list */
  tp__mutex mutex;
  tp__cond changed; /* a turn ended */
  /* under mutex */
  tp__link turns;                       /* the turns that are not in the turn table */
  uint32_t turn_counts[TP__TURN_KINDS]; /* of these */
  bool refuses_detached;                /* a drain has waited for the last of them */
  bool store_opening, store_opened;
  bool audit_gives, audit_again; /* a thread passes audit rows to the store; and another row has come meanwhile */
  bool audit_added;              /* the host has added one */
  tp__audit_cursor audit_cursor; /* used only by that thread */
  tp__thread *drain_thread;      /* the thread of a submitted drain; tp_runtime_free() joins it */
  struct tp__submitted_drain *pumped_drain; /* a submitted drain without a thread; NULL: none, or it has ended */
  bool drain_submitted;                     /* a drain was submitted */
};
_Static_assert(offsetof(struct tp_runtime, state) == 0, "tp__runtime_state_of() finds it there");

#endif
