/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/admission.h"

#include "runtime/exec/runtime.h"

enum { WAITING_MAX = 1024, MEAN_WEIGHT = 8 };

#ifdef TP_SIM
void (*tp__admission_watch)(const char *tenant, tp__admission_step step);
#define WATCH(tenant, step) \
  if (tp__admission_watch) tp__admission_watch((tenant)->name, TP__ADMISSION_##step)
#else
#define WATCH(tenant, step) (void)(tenant)
#endif

tp_status tp__admission_init(tp__admission *a, tp_runtime *runtime, uint32_t running_max, uint32_t waiting_max) {
  a->runtime = runtime;
  a->running_max = running_max;
  a->waiting_max = waiting_max ? waiting_max : WAITING_MAX;
  tp__list_init(&a->active);
  for (size_t i = 0; i < TP__ADMISSION_BUCKETS; i++) tp__list_init(&a->buckets[i]);
  return tp__mutex_init(&a->mutex, TP__RANK_admission);
}

void tp__admission_fini(tp__admission *a) {
  assert(a->running == 0 && a->waiting == 0);
  tp__mutex_fini(&a->mutex);
}

#ifdef TP_CHECKS
static void admission_check_locked(const tp__admission *a) {
  uint32_t tenants = 0, waiting = 0;
  TP__LOCKED(&a->mutex);
  const tp__link *link = a->active.next;
  for (; tenants < TP__CHECK_ITEMS_MAX && link != &a->active; tenants++, link = link->next) {
    const tp__tenant *tenant = TP__CONTAINER((tp__link *)(uintptr_t)link, tp__tenant, active);
    /* An active tenant has waiting turns, and the sessions of these turns. */
    assert(tenant->waiting_count > 0 && !tp__list_empty(&tenant->waiting) && tenant->sessions > 0);
    waiting += tenant->waiting_count;
  }
  /* What waits is some active tenant's. */
  assert(tenants == TP__CHECK_ITEMS_MAX || (tenants == a->active_count && waiting == a->waiting));
  /* At most running_max turns run, and none waits while quota is free. */
  assert(a->running <= a->running_max && (a->waiting == 0 || a->running == a->running_max));
}
#endif

/* ---- tenants ---- */

static tp__link *tenant_bucket(tp__admission *a, const char *name) {
  uint32_t hash = 2166136261u;
  for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
  return &a->buckets[hash % TP__ADMISSION_BUCKETS];
}

static tp__tenant *find_tenant_locked(tp__link *bucket, const char *name) {
  for (tp__link *link = bucket->next; link != bucket; link = link->next) {
    tp__tenant *tenant = TP__CONTAINER(link, tp__tenant, link);
    if (strcmp(tenant->name, name) == 0) return tenant;
  }
  return NULL;
}

static void free_tenant(const tp_allocator *allocator, tp__tenant *tenant) {
  if (!tenant) return;
  tp__string_free(allocator, tenant->name);
  tp__release(allocator, tenant, sizeof *tenant);
}

static tp__tenant *new_tenant(const tp_allocator *allocator, const char *name) {
  tp__tenant *tenant = tp__alloc_zero(allocator, sizeof *tenant);
  if (!tenant) return NULL;
  if (tp__string_copy(allocator, name, &tenant->name) != TP_OK) {
    free_tenant(allocator, tenant);
    return NULL;
  }
  tp__list_init(&tenant->active);
  tp__list_init(&tenant->waiting);
  return tenant;
}

tp__tenant *tp__admission_join(tp__admission *a, const char *name) {
  if (a->running_max == 0) return NULL;
  name = name ? name : "";
  tp__tenant *fresh = new_tenant(tp__runtime_allocator(a->runtime), name);
  if (!fresh) return NULL;
  tp__mutex_lock(&a->mutex);
  tp__link *bucket = tenant_bucket(a, name);
  tp__tenant *tenant = find_tenant_locked(bucket, name);
  if (!tenant) {
    tenant = fresh;
    fresh = NULL;
    tp__list_push(bucket, &tenant->link);
  }
  tenant->sessions++;
  tp__mutex_unlock(&a->mutex);
  free_tenant(tp__runtime_allocator(a->runtime), fresh);
  return tenant;
}

void tp__admission_part(tp__admission *a, tp__tenant *tenant) {
  if (!tenant) return;
  tp__mutex_lock(&a->mutex);
  TP__ASSERT(tenant->sessions > 0);
  bool last = --tenant->sessions == 0;
  TP__ASSERT(!last || tenant->waiting_count == 0);
  if (last) tp__list_remove(&tenant->link);
  tp__mutex_unlock(&a->mutex);
  if (last) free_tenant(tp__runtime_allocator(a->runtime), tenant);
}

/* ---- refusal ---- */

/* The turns that will be served before this one: of each waiting tenant at most as many as this tenant has, and this
 * tenant's own. */
static int64_t expected_wait_locked(const tp__admission *a, const tp__tenant *tenant) {
  TP__LOCKED(&a->mutex);
  if (a->running < a->running_max) return 0;
  uint64_t tenants = a->active_count + (tenant->waiting_count == 0);
  uint64_t before = (uint64_t)(tenant->waiting_count + 1) * tenants - 1;
  if (before > a->waiting) before = a->waiting;
  return (int64_t)((before + 1) * (uint64_t)(a->turn_ns / a->running_max));
}

static void log_refusal(const tp__admission *a, const char *tenant, const char *why) {
  const tp__log_subject subject = {.status = TP_ERR_FULL};
  tp__log(a->runtime, TP_LOG_WARNING, &subject, "turns of tenant `%s` are refused: %s", tenant, why);
}

tp_status tp__admission_check(tp__admission *a, tp__tenant *tenant, int64_t limit_ns, tp_fault *fault) {
  if (!tenant) return TP_OK;
  tp_fault why = {0};
  tp__mutex_lock(&a->mutex);
  int64_t wait_ns = expected_wait_locked(a, tenant);
  bool full = tenant->waiting_count >= a->waiting_max, late = wait_ns > limit_ns;
  bool first = (full || late) && tenant->refused++ == 0;
  if (full || late) a->refused++;
  tp__mutex_unlock(&a->mutex);
  if (!full && !late) return TP_OK;
  tp_status status =
      full ? tp__fail(&why, TP_ERR_FULL, tenant->name,
                      "%u turns of the tenant wait already (tp_runtime_options.turns_waiting_max): try again later",
                      a->waiting_max)
           : tp__fail(&why, TP_ERR_FULL, tenant->name,
                      "the turn would wait about %lld ms, longer than its limit of %lld ms: try again later, or give "
                      "it a longer limit_ms",
                      (long long)(wait_ns / TP__NS_PER_MS), (long long)(limit_ns / TP__NS_PER_MS));
  if (first) log_refusal(a, tenant->name, why.message);
  if (fault) *fault = why;
  return status;
}

static void log_end_of_refusal(const tp__admission *a, const char *tenant, uint64_t refused) {
  if (refused > 0)
    tp__log(a->runtime, TP_LOG_INFO, NULL, "turns of tenant `%s` wait no more: %llu were refused", tenant,
            (unsigned long long)refused);
}

/* ---- who is next ---- */

static void take_out_locked(tp__admission *a, tp__admission_place *place) {
  TP__LOCKED(&a->mutex);
  tp__tenant *tenant = place->tenant;
  TP__ASSERT(place->waits && a->waiting > 0 && tenant->waiting_count > 0);
  tp__list_remove(&place->link);
  place->waits = false;
  a->waiting--;
  if (--tenant->waiting_count > 0) return;
  tp__list_remove(&tenant->active);
  a->active_count--;
  WATCH(tenant, IDLE);
}

/* Takes the oldest turn of the first tenant; the tenant then goes to the end. */
static tp__admission_place *take_next_locked(tp__admission *a) {
  TP__LOCKED(&a->mutex);
  if (tp__list_empty(&a->active)) return NULL;
  tp__tenant *tenant = TP__CONTAINER(a->active.next, tp__tenant, active);
  tp__admission_place *place = TP__CONTAINER(tenant->waiting.next, tp__admission_place, link);
  take_out_locked(a, place);
  if (tenant->waiting_count > 0) {
    tp__list_remove(&tenant->active);
    tp__list_push(&a->active, &tenant->active);
  }
  return place;
}

static void admit_locked(tp__admission *a, tp__admission_place *place) {
  TP__LOCKED(&a->mutex);
  TP__ASSERT(!place->since_ns && !place->waits); /* a turn is admitted once */
  a->running++;
  place->since_ns = tp__now_ns();
  WATCH(place->tenant, SERVED);
}

bool tp__admission_enter(tp__admission *a, tp__tenant *tenant, tp__admission_place *place) {
  if (!tenant) return true;
  tp__mutex_lock(&a->mutex);
  place->tenant = tenant;
  bool begins = a->running < a->running_max;
  if (begins) {
    admit_locked(a, place);
  } else {
    place->waits = true;
    tp__list_push(&tenant->waiting, &place->link);
    a->waiting++;
    if (tenant->waiting_count++ == 0) {
      tp__list_push(&a->active, &tenant->active);
      a->active_count++;
      WATCH(tenant, WAITS);
    }
  }
  TP__CHECK(admission_check_locked(a));
  tp__mutex_unlock(&a->mutex);
  return begins;
}

bool tp__admission_leave_queue(tp__admission *a, tp__admission_place *place) {
  if (a->running_max == 0) return false;
  tp__mutex_lock(&a->mutex);
  bool waited = place->waits;
  if (waited) take_out_locked(a, place);
  TP__CHECK(admission_check_locked(a));
  tp__mutex_unlock(&a->mutex);
  return waited;
}

static void note_turn_locked(tp__admission *a, int64_t ran_ns) {
  TP__LOCKED(&a->mutex);
  a->turn_ns += a->turn_ns == 0 ? ran_ns : (ran_ns - a->turn_ns) / MEAN_WEIGHT;
}

/* Its session holds the tenant. */
tp__admission_place *tp__admission_leave(tp__admission *a, tp__admission_place *place) {
  TP__ASSERT(!place->waits);
  if (!place->since_ns) return NULL;
  tp__tenant *tenant = place->tenant;
  tp__mutex_lock(&a->mutex);
  TP__ASSERT(a->running > 0);
  a->running--;
  WATCH(tenant, ENDED);
  note_turn_locked(a, tp__now_ns() - place->since_ns);
  place->since_ns = 0;
  tp__admission_place *next = take_next_locked(a);
  if (next) admit_locked(a, next);
  TP__CHECK(admission_check_locked(a));
  uint64_t refused = tenant->waiting_count == 0 ? tenant->refused : 0;
  if (refused) tenant->refused = 0;
  tp__mutex_unlock(&a->mutex);
  log_end_of_refusal(a, tenant->name, refused);
  return next;
}

void tp__admission_count(tp__admission *a, uint64_t *ret_waiting, uint64_t *ret_refused) {
  tp__mutex_lock(&a->mutex);
  *ret_waiting = a->waiting;
  *ret_refused = a->refused;
  tp__mutex_unlock(&a->mutex);
}
