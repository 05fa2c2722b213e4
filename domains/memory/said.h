/* SPDX-License-Identifier: Apache-2.0
 *
 * said: the hashes of the messages of conversations, kept between turns, so that a turn of a long conversation hashes
 * only the messages that are new. Kept are the hashes of the messages before a turn, which never change in their list
 * (tp_call_messages_list()); the turn's own messages are hashed anew. Lists below TP__MEMORY_SAID_MIN messages are not
 * kept. All together hold at most a number of bytes: the list that was not used for longest is freed first.
 *
 * One mutex, under which nothing is called. A list that a turn uses is taken out meanwhile. Takes its memory from
 * SQLite. */
#ifndef TP__MEMORY_SAID_H
#define TP__MEMORY_SAID_H

#include "domains/memory/score.h"
#include "turnphase/model.h"

enum {
  TP__MEMORY_SAID_BYTES_MAX = 32 * 1024 * 1024, /* the most bytes of all lists: 16 to 32 bytes for each message */
  TP__MEMORY_SAID_MIN = 64                      /* the least messages of a list that is kept */
};

typedef struct tp__memory_said tp__memory_said;

/** The hashes of a call's messages, while the call uses them. */
typedef struct tp__memory_said_view {
  tp__memory_said_hashes settled;    /* those of the messages before the turn; its member more has those of the turn */
  tp__memory_said_hashes own;        /* those of the turn's own messages */
  struct tp__memory_said_list *list; /* NULL: settled is not from the cache */
} tp__memory_said_view;

/** @param bytes_max  the most bytes of all lists that are kept.   @return NULL without memory. */
tp__memory_said *tp__memory_said_new(size_t bytes_max);
/** Frees it. No view may be in use. Accepts NULL. */
void tp__memory_said_free(tp__memory_said *said);

/** Takes the hashes of the texts of all messages of a call.
 *  @param ret_view  valid until tp__memory_said_give(), which must be called also on failure. Its member settled is the
 *          set to search in.
 *  @return TP_OK; TP_ERR_NO_MEMORY.   Threads: that of the call. */
tp_status tp__memory_said_take(tp__memory_said *said, tp_call *call, tp__memory_said_view *ret_view);
/** Ends the use of a view, and keeps its list. */
void tp__memory_said_give(tp__memory_said *said, tp__memory_said_view *view);

/** For tests: the lists and the bytes that are kept, and how many messages were hashed so far. */
typedef struct tp__memory_said_counts {
  size_t lists, bytes;
  uint64_t hashed;
} tp__memory_said_counts;
tp__memory_said_counts tp__memory_said_counted(tp__memory_said *said);

#endif
