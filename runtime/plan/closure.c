/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/closure.h"

#include "runtime/inbox/destroy.h"

struct tp__closure {
  /* never changes after new */
  tp_allocator allocator;
  const void *inside_of;
  tp_inbox *inbox; /* referenced */
  void *ctx;
  void (*destroy)(void *ctx);
  tp__destroy *through; /* used instead of destroy when there is an inbox; NULL: none */
  /* of the one home that it is in */
  tp__closure *next;
  /* atomic */
  tp__a32 refs; /* acq_rel */
};

tp__closure *tp__closure_new(const tp__closure_home *home, tp_inbox *inbox, void *ctx, void (*destroy)(void *ctx)) {
  tp__closure *closure = tp__alloc_zero(home->allocator, sizeof *closure);
  if (!closure) return NULL;
  if (inbox && destroy) {
    closure->through = tp__destroy_new(home->allocator, home->inside_of, inbox, ctx, destroy);
    if (!closure->through) {
      tp__release(home->allocator, closure, sizeof *closure);
      return NULL;
    }
    destroy = NULL;
  }
  closure->allocator = *home->allocator;
  closure->inside_of = home->inside_of;
  closure->inbox = inbox;
  closure->ctx = ctx;
  closure->destroy = destroy;
  tp__inbox_ref(inbox);
  atomic_init(&closure->refs.v, 1);
  return closure;
}

tp__closure *tp__closure_ref(tp__closure *closure) {
  if (closure) tp__a32_add_relaxed(&closure->refs, 1);
  return closure;
}

void tp__closure_cancel(tp__closure *closure) {
  if (!closure) return;
  tp_allocator allocator = closure->allocator;
  tp__destroy_cancel(closure->through);
  tp__inbox_unref(closure->inbox);
  tp__release(&allocator, closure, sizeof *closure);
}

void tp__closure_unref(tp__closure *closure) {
  if (!closure || tp__a32_sub_acq_rel(&closure->refs, 1) != 1) return;
  if (closure->destroy) {
    tp__inside frame; /* the last reference may go on any thread */
    tp__inside_enter(&frame, closure->inside_of, TP__INSIDE_CALLBACK);
    closure->destroy(closure->ctx);
    tp__inside_leave(&frame);
  }
  tp__destroy_now(closure->through);
  closure->through = NULL;
  tp__closure_cancel(closure);
}

void tp__closure_add(const tp__closure_home *home, tp__closure *closure) {
  void *newest = tp__aptr_load_relaxed(home->closures);
  do closure->next = newest;
  while (!tp__aptr_cas_acq_rel(home->closures, &newest, closure));
}

static void end_home(tp__aptr *closures, void (*end)(tp__closure *closure)) {
  tp__closure *closure = tp__aptr_load_acquire(closures);
  tp__aptr_store_relaxed(closures, NULL);
  while (closure) {
    tp__closure *next = closure->next; /* other holders may keep the closure for longer, but they never read next */
    end(closure);
    closure = next;
  }
}

void tp__closures_unref(tp__aptr *closures) { end_home(closures, tp__closure_unref); }
void tp__closures_cancel(tp__aptr *closures) { end_home(closures, tp__closure_cancel); }
