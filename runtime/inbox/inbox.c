/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/inbox/inbox.h"

#include <errno.h>

#include "runtime/base/bug.h"

enum { CAPACITY = 1024, CAPACITY_MAX = 1 << 20 };

struct tp_inbox {
  /* never changes after new */
  tp_allocator allocator;
  const void *owner;
  uint32_t capacity, event_capacity;
  uint32_t process_generation;
  /* atomic */
  tp__a32 refs;            /* acq_rel */
  tp__a32 descriptor_refs; /* acq_rel; one of the open inbox, and one of each put that is about to set the descriptor */
  tp__pollable pollable;   /* by whom holds a reference of it */
  tp__mutex mutex;
  /* under mutex */
  bool is_signalled;           /* the descriptor is set, or a put that has released the mutex is about to set it */
  tp__link waiting;            /* tp__inbox_item, oldest first */
  tp__link line;               /* work that found the inbox full; it comes in when other work is taken */
  uint32_t count, event_count; /* numbers of items that may be refused */
  uint32_t note_count;         /* number of all other items: ends, cancels, destroys */
  bool is_closed;
};

/* ---- life ---- */

static tp_status options_read(tp_inbox_options *options, const tp_inbox_options *theirs, uint32_t capacity,
                              tp_fault *fault) {
  *options = (tp_inbox_options){0};
  if (theirs) TP__TRY(tp__options_read(options, sizeof *options, theirs, "tp_inbox_options", fault));
  if (options->capacity == 0) options->capacity = capacity < CAPACITY_MAX ? capacity : CAPACITY_MAX;
  if (options->event_capacity == 0) options->event_capacity = CAPACITY;
  if (options->event_capacity > CAPACITY_MAX)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_inbox_options.event_capacity is %u: at most %d",
                    options->event_capacity, CAPACITY_MAX);
  if (options->capacity > CAPACITY_MAX)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_inbox_options.capacity is %u: at most %d", options->capacity,
                    CAPACITY_MAX);
  return TP_OK;
}

static tp_status no_descriptor(tp_fault *fault) {
  int system_error = errno;
  (void)!tp__fail(fault, TP_ERR_SYSTEM, NULL, "no descriptor for the inbox: raise the limit of open files");
  if (fault) fault->system_error = system_error;
  return TP_ERR_SYSTEM;
}

tp_status tp__inbox_new(const tp_allocator *allocator, const void *owner, const tp_inbox_options *theirs,
                        uint32_t capacity, tp_inbox **ret_inbox, tp_fault *fault) {
  tp_inbox_options options;
  TP__TRY(options_read(&options, theirs, capacity, fault));
  tp_inbox *inbox = tp__alloc_zero(allocator, sizeof *inbox);
  if (!inbox) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the inbox");
  inbox->allocator = *allocator;
  inbox->owner = owner;
  inbox->capacity = options.capacity;
  inbox->event_capacity = options.event_capacity;
  inbox->process_generation = tp__process_generation();
  tp__list_init(&inbox->waiting);
  tp__list_init(&inbox->line);
  tp__a32_store_relaxed(&inbox->refs, 1);
  tp__a32_store_relaxed(&inbox->descriptor_refs, 1);
  tp_status status = tp__mutex_init(&inbox->mutex, TP__RANK_inbox);
  if (status != TP_OK) {
    tp__release(allocator, inbox, sizeof *inbox);
    return tp__fail(fault, status, NULL, "no lock for the inbox");
  }
  if (tp__pollable_init(&inbox->pollable) != TP_OK) {
    status = no_descriptor(fault);
    tp__mutex_fini(&inbox->mutex);
    tp__release(allocator, inbox, sizeof *inbox);
    return status;
  }
  *ret_inbox = inbox;
  return TP_OK;
}

void tp__inbox_ref(tp_inbox *inbox) {
  if (inbox && !tp__inbox_is_of_session(inbox)) tp__a32_add_relaxed(&inbox->refs, 1);
}

void tp__inbox_unref(tp_inbox *inbox) {
  if (!inbox || tp__inbox_is_of_session(inbox) || tp__a32_sub_acq_rel(&inbox->refs, 1) > 1) return;
  assert(tp__list_empty(&inbox->waiting) && tp__list_empty(&inbox->line));
  tp_allocator allocator = inbox->allocator;
  tp__mutex_fini(&inbox->mutex);
  tp__release(&allocator, inbox, sizeof *inbox);
}

const tp_allocator *tp__inbox_allocator(const tp_inbox *inbox) { return &inbox->allocator; }

bool tp__inbox_is_of(const tp_inbox *inbox, const void *owner) {
  return tp__inbox_is_of_session(inbox) || inbox->owner == owner;
}

bool tp__inbox_is_forked(const tp_inbox *inbox) { return inbox->process_generation != tp__process_generation(); }

bool tp__inbox_is_closed(tp_inbox *inbox) {
  tp__mutex_lock(&inbox->mutex);
  bool closed = inbox->is_closed;
  tp__mutex_unlock(&inbox->mutex);
  return closed;
}

/* ---- what the queue is ---- */

static uint32_t *counter_of(tp_inbox *inbox, tp__inbox_item *item) {
  if (!tp__inbox_note_of(item)) return &inbox->count;
  return item->work.kind == TP_WORK_EVENT ? &inbox->event_count : &inbox->note_count;
}

#ifdef TP_CHECKS
static void inbox_check_locked(const tp_inbox *inbox) {
  uint32_t count = 0;
  TP__LOCKED(&inbox->mutex);
  const tp__link *link = inbox->waiting.next;
  for (; count < TP__CHECK_ITEMS_MAX && link != &inbox->waiting; count++, link = link->next) {
    const tp__inbox_item *item = TP__CONTAINER((tp__link *)(uintptr_t)link, tp__inbox_item, link);
    /* What lies in it waits, and is its own. */
    assert(item->waits && item->inbox == inbox);
  }
  /* Each item is counted, as work, as an event or as a note. The count of work is at most the capacity. */
  assert(count == TP__CHECK_ITEMS_MAX || count == inbox->count + inbox->event_count + inbox->note_count);
  assert(inbox->count <= inbox->capacity);
  /* Work waits in the line only while the inbox is full. */
  assert(tp__list_empty(&inbox->line) || inbox->count == inbox->capacity);
}
#endif

/* ---- the descriptor: set after the mutex was released, because the thread that it wakes takes the mutex at once
 * ---- */

static void descriptor_unref(tp_inbox *inbox) {
  if (tp__a32_sub_acq_rel(&inbox->descriptor_refs, 1) == 1) tp__pollable_fini(&inbox->pollable);
}

/* Between the put and the setting of the descriptor, the item may be taken and its reference to the inbox released. So
 * a put that will set the descriptor holds a reference of its own to the descriptor. */
static bool to_signal_locked(tp_inbox *inbox) {
  TP__LOCKED(&inbox->mutex);
  if (inbox->is_signalled || tp__list_empty(&inbox->waiting)) return false;
  inbox->is_signalled = true;
  tp__inbox_ref(inbox);
  tp__a32_add_relaxed(&inbox->descriptor_refs, 1);
  return true;
}

static void signal_unlocked(tp_inbox *inbox) {
  tp__pollable_set(&inbox->pollable);
  descriptor_unref(inbox);
  tp__inbox_unref(inbox);
}

/* Clears the signal when nothing waits. If a put has yet to set the descriptor, it does so later; the thread that this
 * wakes finds nothing, and clears it. If no put will set it and it is not set, the host has read the descriptor, which
 * the contract forbids. */
static void clear_signal_locked(tp_inbox *inbox) {
  TP__LOCKED(&inbox->mutex);
  if (!inbox->is_signalled || inbox->is_closed) return;
  bool all_have_set = tp__a32_load_acquire(&inbox->descriptor_refs) == 1;
  if (tp__pollable_clear(&inbox->pollable) || all_have_set) inbox->is_signalled = false;
}

/* ---- the queue ---- */

static void put_locked(tp_inbox *inbox, tp__inbox_item *item) {
  TP__LOCKED(&inbox->mutex);
  tp__inbox_ref(inbox);
  item->inbox = inbox;
  item->waits = true;
  tp__list_push(&inbox->waiting, &item->link);
  *counter_of(inbox, item) += 1;
  TP__CHECK(inbox_check_locked(inbox));
}

static void line_up_locked(tp_inbox *inbox, tp__inbox_item *item) {
  TP__LOCKED(&inbox->mutex);
  tp__inbox_ref(inbox);
  item->inbox = inbox;
  item->waits = item->in_line = true;
  tp__list_push(&inbox->line, &item->link);
  TP__CHECK(inbox_check_locked(inbox));
}

/* Moves waiting work from the line into the queue, after a removal from the queue. The item keeps its reference. */
static void serve_line_locked(tp_inbox *inbox) {
  TP__LOCKED(&inbox->mutex);
  if (TP__BUG(TP__BUG_LEFT_IN_LINE)) return;
  while (!tp__list_empty(&inbox->line) && inbox->count < inbox->capacity) {
    tp__inbox_item *item = TP__CONTAINER(inbox->line.next, tp__inbox_item, link);
    tp__list_remove(&item->link);
    item->in_line = false;
    tp__list_push(&inbox->waiting, &item->link);
    inbox->count++;
  }
}

bool tp__inbox_put(tp_inbox *inbox, tp__inbox_item *item) {
  if (tp__inbox_is_forked(inbox)) return false;
  tp__mutex_lock(&inbox->mutex);
  bool put = !inbox->is_closed;
  if (put && inbox->count < inbox->capacity) put_locked(inbox, item);
  else if (put) line_up_locked(inbox, item);
  bool signals = to_signal_locked(inbox);
  tp__mutex_unlock(&inbox->mutex);
  if (signals) signal_unlocked(inbox);
  return put;
}

bool tp__inbox_put_note(tp_inbox *inbox, tp__inbox_note *note) {
  TP__ASSERT(note->item.work.kind > TP_WORK_EVENT);
  if (tp__inbox_is_forked(inbox)) return false;
  tp__mutex_lock(&inbox->mutex);
  bool put = !inbox->is_closed;
  if (put) put_locked(inbox, &note->item);
  bool signals = to_signal_locked(inbox);
  tp__mutex_unlock(&inbox->mutex);
  if (signals) signal_unlocked(inbox);
  return put;
}

tp__inbox_put_end tp__inbox_put_event(tp_inbox *inbox, tp__inbox_note *event, uint32_t beyond) {
  tp__inbox_put_end end = TP__INBOX_PUT;
  if (tp__inbox_is_forked(inbox)) return TP__INBOX_CLOSED;
  tp__mutex_lock(&inbox->mutex);
  if (inbox->is_closed) end = TP__INBOX_CLOSED;
  else if (inbox->event_count >= (uint64_t)inbox->event_capacity + beyond) end = TP__INBOX_FULL;
  else put_locked(inbox, &event->item);
  bool signals = to_signal_locked(inbox);
  tp__mutex_unlock(&inbox->mutex);
  if (signals) signal_unlocked(inbox);
  return end;
}

static void remove_item_locked(tp_inbox *inbox, tp__inbox_item *item) {
  TP__LOCKED(&inbox->mutex);
  tp__list_remove(&item->link);
  item->waits = false;
  if (item->in_line) {
    item->in_line = false;
    return;
  }
  TP__ASSERT(*counter_of(inbox, item) > 0);
  *counter_of(inbox, item) -= 1;
  serve_line_locked(inbox);
  TP__CHECK(inbox_check_locked(inbox));
  if (tp__list_empty(&inbox->waiting)) clear_signal_locked(inbox);
}

bool tp__inbox_withdraw(tp__inbox_item *item) {
  TP__ASSERT(item->inbox);
  tp_inbox *inbox = item->inbox;
  tp__mutex_lock(&inbox->mutex);
  bool waited = item->waits;
  if (waited) remove_item_locked(inbox, item);
  tp__mutex_unlock(&inbox->mutex);
  return waited;
}

tp__inbox_item *tp__inbox_take(tp_inbox *inbox) {
  tp__inbox_item *item = NULL;
  tp__mutex_lock(&inbox->mutex);
  if (!tp__list_empty(&inbox->waiting)) {
    item = TP__CONTAINER(inbox->waiting.next, tp__inbox_item, link);
    remove_item_locked(inbox, item);
  } else {
    clear_signal_locked(inbox);
  }
  tp__mutex_unlock(&inbox->mutex);
  return item;
}

void tp__inbox_close(tp_inbox *inbox) {
  tp__mutex_lock(&inbox->mutex);
  assert(!inbox->is_closed); /* its descriptor is closed once */
  inbox->is_closed = true;
  tp__mutex_unlock(&inbox->mutex);
  descriptor_unref(inbox);
}

int tp_inbox_fd(const tp_inbox *inbox) {
  return inbox && !tp__inbox_is_of_session(inbox) ? tp__pollable_fd(&inbox->pollable) : -1;
}

#ifdef TP_SIM
bool tp__inbox_wait_until(tp_inbox *inbox, int64_t deadline_ns) {
  return tp__pollable_wait_until(&inbox->pollable, deadline_ns);
}
#endif
