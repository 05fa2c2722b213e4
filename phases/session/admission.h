/* SPDX-License-Identifier: Apache-2.0
 *
 * admission: how many driven turns run at once, and which turn is next. Turns for which no quota is free wait in queues
 * by tenant. The tenants with waiting turns are served in rotation, one turn each (deficit round robin whose quantum
 * and cost are one turn). A turn that would wait longer than its limit is refused before any part of it is made. Lock:
 * `admission`; nothing is called under it. */
#ifndef TP__ADMISSION_H
#define TP__ADMISSION_H

#include "runtime/base/base.h"
#include "runtime/os/os.h"

enum { TP__ADMISSION_BUCKETS = 64 };

/** A tenant that has open sessions. */
typedef struct tp__tenant {
  tp__link link;    /* in its bucket */
  tp__link active;  /* in admission->active while the tenant has waiting turns */
  tp__link waiting; /* drives, the oldest first */
  char *name;
  uint32_t sessions, waiting_count;
  uint64_t refused; /* turns refused in a row; 0: its turns are not refused */
} tp__tenant;

typedef struct tp__admission {
  /* never change after init */
  struct tp_runtime *runtime;
  uint32_t running_max; /* 0: no limit, and nothing here is used */
  uint32_t waiting_max; /* most turns of one tenant that may wait */
  /* under mutex */
  tp__mutex mutex;
  tp__link buckets[TP__ADMISSION_BUCKETS];
  tp__link active; /* tenants, the next first */
  uint32_t running, waiting, active_count;
  int64_t turn_ns; /* how long a turn runs: a mean that weighs newer turns more */
  uint64_t refused;
} tp__admission;

/** The place of a drive in the admission. Under the admission's lock. */
typedef struct tp__admission_place {
  tp__link link;
  tp__tenant *tenant;
  int64_t since_ns; /* when it was admitted; 0: it was not */
  bool waits;
} tp__admission_place;

#ifdef TP_SIM
/** The steps that the simulator checks; under the admission's lock. */
typedef enum tp__admission_step {
  TP__ADMISSION_WAITS = 1,  /* the tenant had nothing that waited */
  TP__ADMISSION_SERVED = 2, /* one of its turns begins, whether it has waited or not */
  TP__ADMISSION_IDLE = 3,   /* nothing of it waits any more */
  TP__ADMISSION_ENDED = 4   /* one of its turns has ended */
} tp__admission_step;
extern void (*tp__admission_watch)(const char *tenant, tp__admission_step step);
#endif

tp_status tp__admission_init(tp__admission *admission, struct tp_runtime *runtime, uint32_t running_max,
                             uint32_t waiting_max);
void tp__admission_fini(tp__admission *admission);
/** That of a runtime (agent_layer.c). */
tp__admission *tp__layer_admission(const struct tp_runtime *runtime);

/** Called when a session of the tenant is opened. @param name may be NULL. @return NULL without memory, and when there
 *  is no limit. */
tp__tenant *tp__admission_join(tp__admission *admission, const char *name);
/** It is gone. tenant may be NULL. */
void tp__admission_part(tp__admission *admission, tp__tenant *tenant);

/** Whether a turn with this limit is accepted. @return TP_OK; TP_ERR_FULL. */
tp_status tp__admission_check(tp__admission *admission, tp__tenant *tenant, int64_t limit_ns, tp_fault *fault);
/** A turn is ready to begin. @return whether it begins now. If not, it waits; it may have begun already when this
 *  returns. */
bool tp__admission_enter(tp__admission *admission, tp__tenant *tenant, tp__admission_place *place);
/** A waiting turn ends. @return false: it does not wait. */
bool tp__admission_leave_queue(tp__admission *admission, tp__admission_place *place);
/** A turn that was admitted has ended. @return the turn that begins in its place; NULL: none waits. */
tp__admission_place *tp__admission_leave(tp__admission *admission, tp__admission_place *place);

/** How many turns wait now, and how many were refused. */
void tp__admission_count(tp__admission *admission, uint64_t *ret_waiting, uint64_t *ret_refused);

#endif
