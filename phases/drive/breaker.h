/* SPDX-License-Identifier: Apache-2.0
 *
 * breaker: how often in a row each provider of models has failed, for all sessions of a runtime. A provider that has
 * not failed since its last answer is not in the table. Lock: `breakers`; nothing is called under it. */
#ifndef TP__BREAKER_H
#define TP__BREAKER_H

#include "runtime/base/base.h"
#include "runtime/os/os.h"
#include "turnphase/runtime.h"

/** How many providers are remembered. For a new one, the provider that failed longest ago is removed. */
enum { TP__BREAKERS_MAX = 256 };

typedef struct tp__breaker {
  char *provider;
  uint32_t failures;     /* failures in a row */
  int64_t failed_ns;     /* the newest */
  int64_t open_until_ns; /* 0: it is closed */
} tp__breaker;

typedef struct tp__breakers {
  const tp_allocator *allocator;
  uint32_t failures_max; /* so many in a row open it */
  int64_t open_ns;
  tp__a32 row_count; /* relaxed: 0 saves the lock */
  /* under mutex */
  tp__mutex mutex;
  tp__breaker *rows;
  size_t count, capacity;
} tp__breakers;

/** @param failures_max and open_ms: 0: the default. @return TP_OK; TP_ERR_NO_MEMORY, TP_ERR_SYSTEM. */
tp_status tp__breakers_init(tp__breakers *breakers, const tp_allocator *allocator, uint32_t failures_max,
                            uint32_t open_ms);
void tp__breakers_fini(tp__breakers *breakers);
/** Those of a runtime (agent_layer.c). */
tp__breakers *tp__layer_breakers(const tp_runtime *runtime);

/** Whether a request may go to the provider: not while its breaker is open; after that time, once per interval.
 *  @param provider  NULL: yes. */
bool tp__breaker_admits(tp__breakers *breakers, const char *provider, int64_t now_ns);
/** Whether a request would not be admitted now. It changes nothing. */
bool tp__breaker_is_open(tp__breakers *breakers, const char *provider, int64_t now_ns);
/** A request has failed. Without memory for a row the failure does not count.
 *  @return the number of failures in a row if this one has opened a closed breaker; else 0. */
uint32_t tp__breaker_failed(tp__breakers *breakers, const char *provider, int64_t now_ns);
/** The provider has answered. @return whether its breaker was open. */
bool tp__breaker_answered(tp__breakers *breakers, const char *provider);

#endif
