/* SPDX-License-Identifier: Apache-2.0
 *
 * listeners: the listeners of a runtime and of its sessions, and the delivery of events to them. A set of listeners
 * never changes: adding or removing a listener publishes another set. A turn takes the sets of its runtime and of its
 * session when it begins, and delivers events to these until it ends. The first of a turn's two sets is NULL only when
 * the turn has no listener at all. In this common case an event costs one load and one branch. Lock: `listeners`, for
 * the publication of sets; no callback is called under it. References: a listener has one for its registration, one for
 * each set that contains it, and one for each event that waits in an inbox or was taken from it. A set has one for the
 * place at which it is published, and one for each turn. The last reference calls the listener's destroy. */
#ifndef TP__LISTENERS_H
#define TP__LISTENERS_H

#include "runtime/os/os.h"
#include "turnphase/turn.h"

enum { TP__LISTENERS_MAX = 64 }; /* most listeners of one runtime, and of one session */

struct tp__event_inbox;

typedef struct tp__listener {
  /* never change */
  /* a copy, because events that were taken may hold the listener longer than the runtime exists */
  tp_allocator allocator;
  const void *runtime; /* compared, never followed */
  uint64_t id;
  tp_event_fn on_event;
  void *ctx;
  void (*destroy)(void *ctx);
  uint64_t kinds;
  uint64_t kinds_on_owner; /* which no thread of a model may deliver */
  uint64_t phases[TP_PHASE_LIMIT / 64];
  tp_visibility visibility_min;
  size_t held_bytes;
  struct tp__event_inbox *through; /* event_inbox.c: used instead of on_event; NULL: on_event is called */
  uint32_t of;                     /* tp__listeners_of: CALLED, or THROUGH */
  struct tp__destroy *destroys;    /* with an inbox, used instead of destroy; NULL: none */
  /* atomic */
  tp__a32 refs;
  tp__a32 removed; /* release by the remove, acquire before each call: a thread that has seen it begins no call */
} tp__listener;

typedef struct tp__listener_set {
  const tp_allocator *allocator;
  tp__a32 refs;
  uint32_t count;
  uint64_t kinds, kinds_on_owner; /* of any of them */
  tp__listener *items[];
} tp__listener_set;

/** The listeners of a runtime or session. Zero-filled: none. */
typedef struct tp__listener_list {
  tp__aptr own; /* tp__listener_set; written under the lock; acquire elsewhere, which only compares it with NULL */
} tp__listener_list;

/** The listeners of a runtime. The lock also guards the lists of its sessions. */
typedef struct tp__listeners {
  /* never change after init */
  tp_runtime *runtime;
  bool logs_attempts; /* turns take no fast path, as if they had a listener */
  /* under mutex */
  tp__mutex mutex;
  tp__listener_list of_runtime;
  uint64_t number; /* ids are never used twice */
} tp__listeners;

tp_status tp__listeners_init(tp__listeners *listeners, tp_runtime *runtime, bool logs_attempts);
/** The list of the runtime must have been dropped before. */
void tp__listeners_fini(tp__listeners *listeners);
/** Those of a runtime (agent_layer.c). */
tp__listeners *tp__layer_listeners(const tp_runtime *runtime);

/** Reads and checks a descriptor, and adds it.
 *  @param of_session  the inbox that TP_INBOX_OF_SESSION means; NULL: there is none. @return as tp_runtime_listen(). */
tp_status tp__listeners_add(tp__listeners *listeners, tp__listener_list *list, tp_inbox *of_session,
                            const tp_listener *listener, uint64_t *ret_id, tp_fault *fault);
tp_status tp__listeners_remove(tp__listeners *listeners, tp__listener_list *list, uint64_t id, tp_fault *fault);
/** The end of the runtime or session. */
void tp__listeners_drop(tp__listeners *listeners, tp__listener_list *list);
/** The sets for a turn, referenced: the runtime's, then the session's. The first is NULL when both are empty.
 *  @param list  the session's; NULL: only the runtime's count. */
void tp__listeners_take(tp__listeners *listeners, tp__listener_list *list, tp__listener_set *ret_sets[2]);
/** Accepts NULL. May call destroy functions of the host, so no lock may be held. */
void tp__listener_set_unref(tp__listener_set *set);

/** For event_inbox.c, whose items hold their listener. */
void tp__listener_ref(tp__listener *listener);
void tp__listener_unref(tp__listener *listener);

/** The listeners to which an event is delivered. */
typedef enum tp__listeners_of {
  TP__LISTENERS_CALLED = 1,  /* listeners with a callback */
  TP__LISTENERS_THROUGH = 2, /* listeners with an inbox */
  TP__LISTENERS_ALL = 3
} tp__listeners_of;
/** Delivers an event to every listener of the set that wants it and belongs to the given group. */
void tp__listener_set_notify(const tp__listener_set *set, const tp_event *event, tp__listeners_of which);
/** tp__layer_ops: reports what happened to a background job. On a thread that is marked as inside the runtime; no
 *  lock. */
void tp__listeners_notify_job(tp_runtime *runtime, const tp_job *job);

#endif
