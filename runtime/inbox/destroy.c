/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/inbox/destroy.h"

struct tp__destroy {
  /* never changes after new */
  tp_allocator allocator;
  const void *inside_of;
  tp_inbox *inbox; /* referenced */
  void (*destroy)(void *ctx);
  /* of the inbox, from the put on */
  tp__inbox_note note;
};

static tp__destroy *destroy_of(tp__inbox_note *note) { return TP__CONTAINER(note, tp__destroy, note); }

static bool taken(tp__inbox_note *note) {
  TP__ASSERT(destroy_of(note)->destroy);
  return true;
}

static void call_destroy(const tp__destroy *d) {
  tp__inside frame;
  tp__inside_enter(&frame, d->inside_of, TP__INSIDE_CALLBACK);
  d->destroy(d->note.item.work.ctx);
  tp__inside_leave(&frame);
}

/* Called when the host releases the work, or frees the inbox. */
static void run_destroy(tp__inbox_note *note) {
  tp__destroy *d = destroy_of(note);
  call_destroy(d);
  tp__inbox_unref(note->item.inbox); /* the put acquired it */
  tp__destroy_cancel(d);
}

tp__destroy *tp__destroy_new(const tp_allocator *allocator, const void *inside_of, tp_inbox *inbox, void *ctx,
                             void (*destroy)(void *ctx)) {
  TP__ASSERT(inbox && destroy);
  tp__destroy *d = tp__alloc_zero(allocator, sizeof *d);
  if (!d) return NULL;
  d->allocator = *allocator;
  d->inside_of = inside_of;
  d->inbox = inbox;
  d->destroy = destroy;
  d->note = (tp__inbox_note){.take = taken, .end = run_destroy};
  d->note.item.work = (tp_work){.struct_size = sizeof(tp_work), .kind = TP_WORK_DESTROY, .ctx = ctx};
  tp__inbox_ref(inbox);
  return d;
}

void tp__destroy_now(tp__destroy *d) {
  if (!d) return;
  if (tp__inbox_put_note(d->inbox, &d->note)) return; /* the thread that took it may have ended it */
  call_destroy(d);
  tp__destroy_cancel(d);
}

void tp__destroy_cancel(tp__destroy *d) {
  if (!d) return;
  tp_allocator allocator = d->allocator;
  tp__inbox_unref(d->inbox);
  tp__release(&allocator, d, sizeof *d);
}
