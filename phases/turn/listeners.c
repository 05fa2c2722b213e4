/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/turn/listeners.h"

#include "phases/turn/event_inbox.h"
#include "runtime/exec/runtime.h"
#include "runtime/inbox/destroy.h"

enum { EVENT_KINDS_END = TP_EVENT_TOOL_PROGRESS + 1 };
static const uint64_t jobs = UINT64_C(1) << TP_EVENT_JOB; /* of no turn: only for who asks for them */

/* ---- references ---- */

void tp__listener_ref(tp__listener *listener) { tp__a32_add_relaxed(&listener->refs, 1); }

void tp__listener_unref(tp__listener *listener) {
  if (tp__a32_sub_acq_rel(&listener->refs, 1) != 1) return;
  if (listener->destroy) {
    tp__inside frame; /* the last reference may go on any thread */
    tp__inside_enter(&frame, listener->runtime, TP__INSIDE_CALLBACK);
    listener->destroy(listener->ctx);
    tp__inside_leave(&frame);
  }
  tp__destroy_now(listener->destroys);
  tp__event_inbox_free(listener->through);
  tp_allocator allocator = listener->allocator;
  tp__release(&allocator, listener, sizeof *listener);
}

static size_t set_size(uint32_t count) { return sizeof(tp__listener_set) + count * sizeof(tp__listener *); }

void tp__listener_set_unref(tp__listener_set *set) {
  if (!set || tp__a32_sub_acq_rel(&set->refs, 1) != 1) return;
  for (uint32_t i = 0; i < set->count; i++) tp__listener_unref(set->items[i]);
  tp__release(set->allocator, set, set_size(set->count));
}

static tp__listener_set *set_ref(tp__listener_set *set) {
  if (set) tp__a32_add_relaxed(&set->refs, 1);
  return set;
}

tp_status tp__listeners_init(tp__listeners *listeners, tp_runtime *runtime, bool logs_attempts) {
  *listeners = (tp__listeners){.runtime = runtime, .logs_attempts = logs_attempts};
  return tp__mutex_init(&listeners->mutex, TP__RANK_listeners);
}

void tp__listeners_fini(tp__listeners *listeners) { tp__mutex_fini(&listeners->mutex); }

/* ---- sets ---- */

static void set_put(tp__listener_set *set, tp__listener *listener) {
  tp__listener_ref(listener);
  set->kinds |= listener->kinds;
  set->kinds_on_owner |= listener->kinds_on_owner;
  set->items[set->count++] = listener;
}

static void set_put_all(tp__listener_set *set, const tp__listener_set *from, const tp__listener *except) {
  for (uint32_t i = 0; from && i < from->count; i++)
    if (from->items[i] != except) set_put(set, from->items[i]);
}

static tp__listener_set *set_new(const tp_allocator *allocator, uint32_t count) {
  tp__listener_set *set = tp__alloc_zero(allocator, set_size(count));
  if (!set) return NULL;
  set->allocator = allocator;
  atomic_init(&set->refs.v, 1);
  return set;
}

static tp__listener_set *own_of(tp__listener_list *list) { return tp__aptr_load_acquire(&list->own); }

static void publish_locked(tp__listener_list *list, tp__listener_set *set) {
  tp__aptr_store_release(&list->own, set); /* pairs with own_of(): a turn that sees the set takes it under the lock */
}

/* ---- adding and removing ---- */

static tp_status check_phases(const tp_runtime *runtime, const tp_listener *in, uint64_t *ret_bits, tp_fault *fault) {
  if (in->phase_count > 0 && !in->phases)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_listener: phase_count is %zu, and phases is NULL", in->phase_count);
  for (size_t i = 0; i < in->phase_count; i++) {
    uint32_t phase = in->phases[i];
    if (phase >= TP_PHASE_LIMIT || !tp__registry_phase(tp__runtime_registry(runtime), phase))
      return tp__fail(fault, TP_ERR_UNKNOWN_PHASE, NULL, "tp_listener: there is no phase of number %u", phase);
    ret_bits[phase / 64] |= UINT64_C(1) << phase % 64;
  }
  return TP_OK;
}

static tp_status read_listener(const tp_runtime *runtime, tp_inbox *of_session, const tp_listener *theirs,
                               tp__listener *out, tp_inbox **ret_inbox, tp_fault *fault) {
  tp_listener in;
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "a listener needs a tp_listener");
  TP__TRY(tp__options_read(&in, sizeof in, theirs, "tp_listener", fault));
  if (!in.on_event && !in.inbox)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_listener: on_event is missing: a listener needs it, or an inbox");
  if (in.on_event && in.inbox)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_listener: on_event and inbox are set: set one of the two");
  if (tp__inbox_is_of_session(in.inbox) && !of_session)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_listener: its inbox is TP_INBOX_OF_SESSION: that is for a listener of a session with an inbox "
                    "(tp_session_options.inbox)");
  in.inbox = tp__inbox_meant(in.inbox, of_session);
  if (in.inbox && !tp__inbox_is_of(in.inbox, tp__runtime_registry(runtime)))
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_listener: its inbox is of another runtime");
  if (in.on_owner && in.inbox)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_listener: on_owner is set, and an inbox has no callback");
  if (in.held_bytes && !in.inbox)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_listener: held_bytes is for an inbox: with on_event the callback calls tp_event_hold()");
  if (in.reserved_[0] | in.reserved_[1] | in.reserved_[2])
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_listener: reserved_ must be zero");
  if ((in.kinds & (1 | UINT64_C(1) << TP_EVENT_LOST)) || in.kinds >> EVENT_KINDS_END)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_listener: kinds has a bit that is no kind of event");
  if ((unsigned)in.visibility_min > TP_VISIBILITY_USER_VISIBLE)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_listener: visibility_min %d is no visibility",
                    (int)in.visibility_min);
  uint64_t kinds = in.kinds ? in.kinds : ~jobs;
  *ret_inbox = in.inbox;
  *out = (tp__listener){.on_event = in.on_event,
                        .ctx = in.ctx,
                        .destroy = in.destroy,
                        .kinds = kinds,
                        .kinds_on_owner = in.on_owner ? kinds : 0,
                        .visibility_min = in.visibility_min,
                        .held_bytes = in.held_bytes};
  if (in.phase_count == 0) memset(out->phases, 0xff, sizeof out->phases);
  return check_phases(runtime, &in, out->phases, fault);
}

/* Makes the set with one more listener. The caller drops the reference to the replaced set. */
static tp_status add_listener_locked(tp__listeners *listeners, tp__listener_list *list, tp__listener *listener,
                                     tp__listener_set **ret_before) {
  TP__LOCKED(&listeners->mutex);
  tp__listener_set *before = own_of(list);
  uint32_t count = before ? before->count : 0;
  if (count >= TP__LISTENERS_MAX) return TP_ERR_FULL;
  tp__listener_set *set = set_new(tp__runtime_allocator(listeners->runtime), count + 1);
  if (!set) return TP_ERR_NO_MEMORY;
  set_put_all(set, before, NULL);
  listener->id = ++listeners->number;
  set_put(set, listener);
  publish_locked(list, set);
  *ret_before = before;
  return TP_OK;
}

/* Sends events and the destroy through the inbox. @return false without memory. */
static bool goes_through(tp__listener *listener, tp_inbox *inbox) {
  if (listener->destroy) {
    listener->destroys =
        tp__destroy_new(&listener->allocator, listener->runtime, inbox, listener->ctx, listener->destroy);
    if (!listener->destroys) return false;
    listener->destroy = NULL;
  }
  listener->through = tp__event_inbox_new(listener, inbox);
  if (!listener->through) tp__destroy_cancel(listener->destroys);
  return listener->through != NULL;
}

tp_status tp__listeners_add(tp__listeners *listeners, tp__listener_list *list, tp_inbox *of_session,
                            const tp_listener *theirs, uint64_t *ret_id, tp_fault *fault) {
  const tp_allocator *allocator = tp__runtime_allocator(listeners->runtime);
  tp__listener read, *listener;
  tp_inbox *inbox = NULL;
  TP__TRY(read_listener(listeners->runtime, of_session, theirs, &read, &inbox, fault));
  if (tp__runtime_is_forked(listeners->runtime)) return tp__fail_forked(fault);
  if (!(listener = tp__alloc(allocator, sizeof *listener)))
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a listener");
  *listener = read;
  listener->allocator = *allocator;
  listener->runtime = listeners->runtime;
  atomic_init(&listener->refs.v, 1);
  listener->of = inbox ? TP__LISTENERS_THROUGH : TP__LISTENERS_CALLED;
  if (inbox && !goes_through(listener, inbox)) {
    tp__release(allocator, listener, sizeof *listener);
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a listener");
  }
  tp__listener_set *before = NULL;
  tp__mutex_lock(&listeners->mutex);
  tp_status status = add_listener_locked(listeners, list, listener, &before);
  uint64_t id = listener->id;
  tp__mutex_unlock(&listeners->mutex);
  tp__listener_set_unref(before);
  if (status != TP_OK) {
    /* Refused: it stays the host's. */
    listener->destroy = NULL;
    tp__destroy_cancel(listener->destroys);
    listener->destroys = NULL;
  }
  tp__listener_unref(listener); /* the set has it */
  if (status == TP_ERR_FULL)
    return tp__fail(fault, status, NULL, "there are %d listeners already: remove one", TP__LISTENERS_MAX);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "no memory for a listener");
  if (ret_id) *ret_id = id;
  return TP_OK;
}

/* If there is no memory for a set without the listener, the listener stays in this set, and is never called again. */
static tp__listener_set *remove_listener_locked(tp__listeners *listeners, tp__listener_list *list, uint64_t id,
                                                bool *ret_found) {
  TP__LOCKED(&listeners->mutex);
  tp__listener_set *before = own_of(list), *set = NULL;
  tp__listener *listener = NULL;
  for (uint32_t i = 0; before && i < before->count; i++)
    if (before->items[i]->id == id) listener = before->items[i];
  *ret_found = listener && !tp__a32_load_relaxed(&listener->removed);
  if (!*ret_found) return NULL;
  tp__a32_store_release(&listener->removed, 1); /* pairs with wants() */
  if (before->count > 1 && !(set = set_new(tp__runtime_allocator(listeners->runtime), before->count - 1))) return NULL;
  if (set) set_put_all(set, before, listener);
  publish_locked(list, set);
  return before;
}

tp_status tp__listeners_remove(tp__listeners *listeners, tp__listener_list *list, uint64_t id, tp_fault *fault) {
  bool found;
  if (tp__runtime_is_forked(listeners->runtime)) return tp__fail_forked(fault);
  tp__mutex_lock(&listeners->mutex);
  tp__listener_set *before = remove_listener_locked(listeners, list, id, &found);
  tp__mutex_unlock(&listeners->mutex);
  tp__listener_set_unref(before);
  if (found) return TP_OK;
  return tp__fail(fault, TP_ERR_NOT_FOUND, NULL, "there is no listener of number %llu", (unsigned long long)id);
}

void tp__listeners_drop(tp__listeners *listeners, tp__listener_list *list) {
  tp__mutex_lock(&listeners->mutex);
  tp__listener_set *own = own_of(list);
  publish_locked(list, NULL);
  tp__mutex_unlock(&listeners->mutex);
  tp__listener_set_unref(own);
}

/* ---- what a turn takes ---- */

/* The set of a turn that has no listener but whose attempts are logged. A turn with a set takes no fast path. */
static tp__listener_set no_listeners = {.refs = {1}};

void tp__listeners_take(tp__listeners *listeners, tp__listener_list *list, tp__listener_set *ret_sets[2]) {
  ret_sets[0] = listeners->logs_attempts ? set_ref(&no_listeners) : NULL;
  ret_sets[1] = NULL;
  if (!own_of(&listeners->of_runtime) && !(list && own_of(list))) return;
  tp__mutex_lock(&listeners->mutex);
  tp__listener_set *own = own_of(&listeners->of_runtime);
  ret_sets[0] = own && own->kinds != jobs ? set_ref(own) : ret_sets[0];
  ret_sets[ret_sets[0] ? 1 : 0] = set_ref(list ? own_of(list) : NULL);
  tp__mutex_unlock(&listeners->mutex);
}

/* ---- delivery ---- */

static bool wants(const tp__listener *listener, const tp_event *event) {
  if (!(listener->kinds >> event->kind & 1)) return false;
  if (event->phase && !(listener->phases[event->phase / 64] >> event->phase % 64 & 1)) return false;
  if (event->visibility < listener->visibility_min && event->kind != TP_EVENT_PHASE_END) return false;
  return !tp__a32_load_acquire(
      &((tp__listener *)(uintptr_t)listener)->removed); /* pairs with remove_listener_locked() */
}

static void deliver_event(const tp__listener *listener, const tp_event *event) {
  if (listener->through) tp__event_inbox_put(listener->through, event);
  else listener->on_event(listener->ctx, event);
}

void tp__listener_set_notify(const tp__listener_set *set, const tp_event *event, tp__listeners_of which) {
  if (!(set->kinds >> event->kind & 1)) return;
  for (uint32_t i = 0; i < set->count; i++) {
    const tp__listener *listener = set->items[i];
    if (!(listener->of & which)) continue;
    if (!wants(listener, event)) continue;
    if (event->visibility >= listener->visibility_min) {
      deliver_event(listener, event);
    } else { /* the end of a phase is no secret, but which subscription decided it, and why, is */
      tp_event without = *event;
      without.subscription = NULL;
      without.text = (tp_text){NULL, 0};
      deliver_event(listener, &without);
    }
  }
}

void tp__listeners_notify_job(tp_runtime *runtime, const tp_job *job) {
  static const tp_text no_ids[TP_ID_COUNT];
  tp__listeners *listeners = tp__layer_listeners(runtime);
  if (!own_of(&listeners->of_runtime)) return;
  tp__mutex_lock(&listeners->mutex);
  tp__listener_set *set = set_ref(own_of(&listeners->of_runtime));
  tp__mutex_unlock(&listeners->mutex);
  if (!set) return;
  tp_event event = {.struct_size = sizeof event,
                    .kind = TP_EVENT_JOB,
                    .phase = job->phase,
                    .time_ns = tp__now_ns(),
                    .unix_ms = tp__unix_ms(),
                    .ids = no_ids,
                    .id_count = TP_ID_COUNT,
                    .visibility = TP_VISIBILITY_USER_VISIBLE,
                    .job = job};
  tp__listener_set_notify(set, &event, TP__LISTENERS_ALL);
  tp__listener_set_unref(set);
}

/* ---- the public functions ---- */

tp_status tp_runtime_listen(tp_runtime *runtime, const tp_listener *listener, uint64_t *ret_id, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  tp__listeners *listeners = tp__layer_listeners(runtime);
  return tp__listeners_add(listeners, &listeners->of_runtime, NULL, listener, ret_id, fault);
}

tp_status tp_runtime_unlisten(tp_runtime *runtime, uint64_t id, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  tp__listeners *listeners = tp__layer_listeners(runtime);
  return tp__listeners_remove(listeners, &listeners->of_runtime, id, fault);
}
