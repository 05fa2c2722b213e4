/* SPDX-License-Identifier: Apache-2.0
 *
 * past: the messages before a turn: those of its session, or those of its request. A model gets them as a list of
 * pointers, which is cached: a request adds its own messages at the end, and only reads messages that are new since the
 * last request. Nothing moves while a request reads it, even one that was given up, because a request references what
 * it reads.
 *
 * Only the owner of the session's running turn changes it. Any thread may use references and views. No lock. */
#ifndef TP__PAST_H
#define TP__PAST_H

#include "phases/model/messages.h"

/** A counted list of pointers. The past holds it, and so does each request that reads it. */
typedef struct tp__pointers tp__pointers;

/** What a model is shown of the past. */
typedef struct tp__shown {
  tp__pointers *pointers; /* referenced; NULL: none yet */
  size_t count;           /* the number of pointers, which are to messages that models see */
  size_t seen;            /* of the messages */
} tp__shown;

typedef struct tp__past {
  tp__a32 refs;
  uint64_t number; /* from 1; no other past of the process has, or had, this number */
  const tp_allocator *allocator;
  tp__arena arena;
  tp__messages list; /* in the arena; its count grows only after the messages were shown and measured */
  tp__shown unescaped;
  tp__shown escaped; /* for requests with blocks of the library: no text of others may look like such a block */
  size_t measured;   /* of the messages: */
  size_t bytes;
  int64_t tokens;
  /* Hashes of the ids of turns: those of these messages, and those of the messages that they replaced. Open addressing;
   * 0 is a free place. */
  uint64_t *turns;
  size_t turn_count, turn_capacity; /* a power of two, at least twice the count */
  size_t noted;                     /* how many of the messages were searched for turns */
} tp__past;

/** @return NULL without memory. */
tp__past *tp__past_new(const tp_allocator *allocator);
tp__past *tp__past_ref(tp__past *past);
/** Accepts NULL. */
void tp__past_unref(tp__past *past);

/** Of the texts of all messages. */
size_t tp__past_bytes(tp__past *past);
/** The sum of tp_message_tokens() over all messages. */
int64_t tp__past_tokens(tp__past *past);

/** Whether a message of the turn with this id is, or was before a replacement, in the past. A different id with the
 *  same hash (64 bits) may be taken for it. O(1) after a turn's messages were searched once.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__past_has_turn(tp__past *past, tp_text id, bool *ret_has);
/** For a past that replaces another one: takes over the turns that the other one knew. */
void tp__past_take_turns(tp__past *past, tp__past *replaced);

/** The messages that a request reads: those of the past, then its own. */
typedef struct tp__past_view {
  tp__past *past;         /* referenced */
  tp__pointers *pointers; /* referenced */
} tp__past_view;

/** Makes the list of the messages of the past that a model may see, followed by the request's own messages.
 *  @param escaped  whether texts of others in the past are escaped. The own messages are not changed.
 *  @param ret_messages  valid until tp__past_view_fini().
 *  @return TP_OK; TP_ERR_NO_MEMORY; for malformed values the error of tp__parts_escaped(). */
tp_status tp__past_view_init(tp__past *past, bool escaped, const tp_message *const *own, size_t own_count,
                             tp__past_view *ret_view, const tp_message *const **ret_messages, size_t *ret_count);
/** Accepts a view that is all zeros. Threads: any. */
void tp__past_view_fini(tp__past_view *view);

#endif
