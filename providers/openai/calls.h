/* SPDX-License-Identifier: Apache-2.0
 *
 * calls: assembles the tool calls of an answer from fragments. Servers give fragments an index, an id, both or neither,
 * and at some servers the index or the id is wrong. These rules decide to which call a fragment belongs:
 *
 * 1. The candidate is the newest call with the fragment's item id; else with its index, one with its id before others;
 *    else with its id, unless both indexes are given and the fragment has a name; else, where the fragment has no
 *    index, or the newest call has none, or the fragment has neither id nor name and only goes on: the newest call. Of
 *    a list that repeats all calls it is the one with the id, else with the index, else the one at the same place.
 * 2. Without a candidate the fragment begins a call. With one, the first row that fits decides:
 *
 *    name of fragment  id of fragment  arguments of call  of fragment        the fragment
 *    none              other           whole, no index    none or new "{"    begins a call, whose name follows
 *    none              any             any                any                continues
 *    any               any             any                any                continues, when the call has no name yet
 *    any               the same        any                any                continues, when a block starts
 *    any               not the same    any                any                begins, when a block starts
 *    any               not the same    any                any                begins, in the chunk of the call's last
 *    the same          not another     whole              none or the same   continues (it is repeated)
 *    any               any             whole              any                begins
 *    another           any             open               any                begins
 *    the same          another         open               new "{"            begins
 *    the same          any             open               any                continues
 *    the same          another         empty              none               begins
 *    the same          any             empty              any                continues
 *    another           another         empty              any                begins
 *    longer            not another     empty              any                continues, with the longer name
 *    another           not another     empty              any                continues with the next piece of the name
 *                                                                            where index or id are the call's
 *    another           any             empty              any                begins
 *
 * 3. A call that continues keeps its first id. Arguments are appended, with these exceptions: arguments from a block's
 *    start are replaced, and so is "{}" by a new "{"; the same arguments again are a repetition, and so are all
 *    arguments after a part of them.
 *
 * In the response each call has an id, and no two have the same one. */
#ifndef TP__OPENAI_CALLS_H
#define TP__OPENAI_CALLS_H

#include "providers/openai/lenient.h"

enum { TP__OPENAI_CALLS_MAX = 1024, TP__OPENAI_NO_INDEX = -1, TP__OPENAI_LEGACY_INDEX = -2 };

/** A tool call of which fragments have come. */
typedef struct tp__openai_draft {
  int64_t index;  /* the endpoint's; TP__OPENAI_NO_INDEX: none was given */
  uint64_t chunk; /* of the fragment that came last */
  tp__bytes item; /* the id of the item that contains the call; may be empty */
  tp__bytes id, name, arguments;
  tp__openai_tail tail; /* of arguments */
  tp__openai_scan scan; /* of arguments */
  bool is_given;        /* arguments came with the start of the block; arguments of deltas replace them */
} tp__openai_draft;

/** The data of one event about a call. Texts may be empty. */
typedef struct tp__openai_fragment {
  int64_t index;
  tp_text item, id, name, arguments;
  tp_text value;  /* arguments as a map, in place of the text */
  bool starts;    /* a block begins */
  bool is_whole;  /* a snapshot: these are all arguments of the call */
  size_t place;   /* from 1, in a list of all calls; 0: it is in no list */
  bool has_marks; /* in arguments; see tp__openai_join() */
} tp__openai_fragment;

typedef struct tp__openai_calls {
  tp__openai_draft *drafts;
  size_t count, capacity;
  uint64_t chunk; /* the number of the event that is read */
} tp__openai_calls;

/** @param bytes_left  how many bytes the answer may still grow; lowered.
 *  @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_FULL: too many calls; TP_ERR_TOO_LARGE: too many bytes. */
tp_status tp__openai_calls_take(tp__openai_calls *calls, const tp__openai_fragment *fragment, size_t *bytes_left);
/** The newest call of an item or index; NULL: there is none. */
tp__openai_draft *tp__openai_calls_find(tp__openai_calls *calls, int64_t index, tp_text item);
/** The answer is over: each call without an id, or with the id of another call, gets an id of its own.
 *  @return false without memory. */
bool tp__openai_calls_end(tp__openai_calls *calls);
void tp__openai_calls_fini(tp__openai_calls *calls);

#endif
