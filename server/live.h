/* SPDX-License-Identifier: Apache-2.0
 *
 * live: the current state for the operators of a server: the turns of the runtime and what each does, the open
 * questions, the newest denials, and streams of events. It has names, numbers and times. The only contents are those
 * that a question shows to the person who answers it: the arguments of the call, and the reason.
 *
 * At most TURNS_MAX turns and QUESTIONS_MAX questions are listed; how many more there are is counted. A stream that is
 * read too slowly loses events, and gets an event `dropped` with their number.
 *
 * Locks: one, for all of it; under it only streams are written. Threads: any. */
#ifndef TP__SERVER_LIVE_H
#define TP__SERVER_LIVE_H

#include "server/http.h"
#include "support/bytes.h"
#include "turnphase/turn.h"

typedef struct tp__live tp__live;
typedef struct tp__watcher tp__watcher; /* begins with a tp__client */

/** Which events a stream gets. */
typedef struct tp__watch_filter {
  uint64_t kinds;                                                                            /* bits 1 << TP_EVENT_* */
  char tenant[TP_ID_BYTES_MAX + 1], session[TP_ID_BYTES_MAX + 1], turn[TP_ID_BYTES_MAX + 1]; /* empty: any */
} tp__watch_filter;

/** The kinds of events that a listener must receive for it. */
uint64_t tp__live_kinds(void);
/** The kinds in a list of names separated by commas. @return 0: one of the names is no kind that a stream can get. */
uint64_t tp__live_kinds_of(tp_text names);

/** @param runtime  kept.   @return NULL: there is no memory. */
tp__live *tp__live_new(tp_runtime *runtime);
/** Frees it. No stream may be left. */
void tp__live_free(tp__live *live);
void tp__live_event(tp__live *live, const tp_event *event);

/* Each function adds a JSON array. */
void tp__live_put_turns(tp__live *live, tp__bytes *out);
void tp__live_put_questions(tp__live *live, tp__bytes *out);
void tp__live_put_denials(tp__live *live, tp__bytes *out);
/** How many turns run that are not listed, and how many questions were not. */
uint64_t tp__live_unlisted(tp__live *live);

/** The token of an open question. @return false: there is none of this key. */
bool tp__live_question_find(tp__live *live, tp_text key, tp_token *ret_token);
/** Ends a question in the list. */
void tp__live_question_end(tp__live *live, tp_text key);

/** Makes the request a stream of events. It is answered with 503 where too many are open.
 *  @return the data of the request; NULL: it was answered. */
tp__watcher *tp__live_watch(tp__live *live, tp__http_request *request, const tp__watch_filter *filter);
/** As `gone`, `drained` and `released` of the front. */
void tp__live_watcher_gone(tp__watcher *watcher);
void tp__live_watcher_drained(tp__watcher *watcher);
void tp__live_watcher_free(tp__watcher *watcher);

#endif
