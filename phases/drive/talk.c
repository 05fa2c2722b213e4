/* SPDX-License-Identifier: Apache-2.0
 *
 * talk.c: the states of a conversation are in the turn's memory, newest first. Messages never move, and a list that
 * grows becomes a new list. So a state is two lists and two counts. */
#include "phases/drive/talk.h"

#include "phases/drive/drive.h"
#include "phases/turn/turn.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/entry.h"

void tp__drive_show_talk(tp__drive *d) {
  tp__talk *last = tp__aptr_load_relaxed(&d->talk);
  tp__past *past = tp__drive_past(d);
  size_t past_count = past->list.count;
  bool is_past = last && last->past == past;
  bool is_kept = is_past && (last->is_kept || past_count > last->past_count); /* only its own turn adds to it */
  size_t own_count = is_kept ? 0 : d->messages.count;
  TP__ASSERT(!last || last->before != last);
  if (is_past && last->past_count == past_count && last->own_count == own_count) return;
  tp__talk *made = tp__arena_alloc(&d->arena, sizeof *made);
  if (!made) return;
  *made = (tp__talk){.before = last,
                     .past = past,
                     .past_items = past->list.items,
                     .own_items = d->messages.items,
                     .past_count = past_count,
                     .own_count = own_count,
                     .is_kept = is_kept};
  tp__past_ref(past);
  tp__aptr_store_release(&d->talk, made); /* pairs with the load in talk_of() */
}

void tp__talk_fini(tp__drive *d) {
  for (tp__talk *each = tp__aptr_load_relaxed(&d->talk); each; each = each->before) {
    TP__ASSERT(each->past);
    tp__past_unref(each->past);
  }
}

/* A detached run has a turn of its own, which has no drive. */
const tp__drive *tp__drive_of_call(const tp_call *call) {
  tp__turn *core = call->entry->turn;
  if (core->kind == TP__TURN_DETACHED) core = core->origin;
  if (!core || core->kind == TP__TURN_DETACHED) return NULL;
  return tp__turn_of(core)->drive;
}

static const tp__talk *talk_of(const tp_call *call) {
  const tp__drive *d = tp__drive_of_call(call);
  return d ? tp__aptr_load_acquire(&d->talk) : NULL; /* pairs with the store in tp__drive_show_talk() */
}

size_t tp_call_messages(const tp_call *call, tp_call_message_fn each, void *ctx) {
  return tp_call_messages_from(call, 0, each, ctx);
}

size_t tp_call_messages_from(const tp_call *call, size_t first, tp_call_message_fn each, void *ctx) {
  const tp__talk *talk = call ? talk_of(call) : NULL;
  if (!talk) return 0;
  size_t count = talk->past_count + talk->own_count;
  for (size_t i = first; each && i < count; i++) {
    const tp_message *message = i < talk->past_count ? talk->past_items[i] : talk->own_items[i - talk->past_count];
    tp_message shown = *message;
    shown.provider_data = (tp_text){NULL, 0}; /* for its provider only */
    shown.ending = (tp_text){NULL, 0};        /* for histories only */
    if (!each(ctx, &shown)) break;
  }
  return count;
}

uint64_t tp_call_messages_list(const tp_call *call, size_t *ret_settled) {
  const tp__talk *talk = call ? talk_of(call) : NULL;
  if (ret_settled) *ret_settled = talk ? talk->past_count : 0;
  return talk ? talk->past->number : 0;
}
