/* SPDX-License-Identifier: Apache-2.0
 *
 * past: what was said before a turn: the messages of its session, or those of its request. A model is shown
 * them by pointers, which are kept: a request adds its own after them, and only what is new since the request before
 * is looked at. Nothing moves while a request reads it, also one that was given up: it references what it reads.
 *
 * Changed by the owner of the session's running turn alone; references and views by any thread. No lock. */
#ifndef TP__PAST_H
#define TP__PAST_H

#include "phases/model/messages.h"

/** A counted list of pointers. The past has it, and each request that reads it. */
typedef struct tp__pointers tp__pointers;

/** What a model is shown of the past. */
typedef struct tp__shown {
  tp__pointers *pointers; /* referenced; NULL: none yet */
  size_t count;           /* of the pointers: to messages that models see */
  size_t seen;            /* of the messages */
} tp__shown;

typedef struct tp__past {
  tp__a32 refs;
  uint64_t number; /* from 1: no other past of the process has it, or had it */
  const tp_allocator *allocator;
  tp__arena arena;
  tp__messages list; /* in the arena; its count changes after what was shown and measured, or not at all */
  tp__shown unescaped;
  tp__shown escaped; /* beside blocks of ours: nothing that others said may look like one */
  size_t measured;   /* of the messages: */
  size_t bytes;
  int64_t tokens;
  /* Hashes of the ids of turns, of these messages and of what they replaced: open addressing, 0 is a free place. */
  uint64_t *turns;
  size_t turn_count, turn_capacity; /* a power of two, at least twice the count */
  size_t noted;                     /* of the messages: their turns are among them */
} tp__past;

/** @return NULL without memory. */
tp__past *tp__past_new(const tp_allocator *allocator);
tp__past *tp__past_ref(tp__past *past);
/** Accepts NULL. */
void tp__past_unref(tp__past *past);

/** Of the texts of all messages. */
size_t tp__past_bytes(tp__past *past);
/** As tp_message_tokens(), of all messages. */
int64_t tp__past_tokens(tp__past *past);

/** Whether it has, or its messages replaced, one of the turn with this id; a different id with the same hash (64 bits)
 *  may be taken for it. O(1) after a turn's messages were looked at once.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__past_has_turn(tp__past *past, tp_text id, bool *ret_has);
/** Of a past that replaces another: it knows that one's turns from here on. */
void tp__past_take_turns(tp__past *past, tp__past *replaced);

/** What a request reads: messages of the past, then its own. */
typedef struct tp__past_view {
  tp__past *past;         /* referenced */
  tp__pointers *pointers; /* referenced */
} tp__past_view;

/** Makes the list of what a model may see of the past, with own messages behind it.
 *  @param escaped  whether what others said in the past is escaped. Own messages are shown as they are.
 *  @param ret_messages  valid until tp__past_view_fini().
 *  @return TP_OK; TP_ERR_NO_MEMORY; of values that are none, what tp__parts_escaped() says. */
tp_status tp__past_view_init(tp__past *past, bool escaped, const tp_message *const *own, size_t own_count,
                             tp__past_view *ret_view, const tp_message *const **ret_messages, size_t *ret_count);
/** Accepts one that is all zeros. Threads: any. */
void tp__past_view_fini(tp__past_view *view);

#endif
