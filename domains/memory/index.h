/* SPDX-License-Identifier: Apache-2.0
 *
 * index: the postings of one scope in memory. The table of functions is the durable source. An index is built from it
 * on first use, and later takes the memories that were added. When any process changed or deleted a memory, it is built
 * anew. The indexes of a store hold at most index_bytes_max together; the least recently used one is freed first. One
 * thread at a time uses an index, and holds no lock meanwhile, because a table may wait for a server. */
#ifndef TP__MEMORY_INDEX_H
#define TP__MEMORY_INDEX_H

#include "domains/memory/dates.h"
#include "domains/memory/store_internal.h"

enum {
  TP__MEMORY_INDEX_BYTES_MAX = 256 * 1024 * 1024, /* the default of the bound */
  TP__MEMORY_NONE = -1,                           /* no line, no term or no speaker */
  TP__MEMORY_PASSAGE_BYTES = 320                  /* two passages, cut after a word, fit into an excerpt */
};

/** The properties of a line, one bit each. */
enum {
  TP__MEMORY_LINE_ASKS = 1,      /* the line ends with a question mark */
  TP__MEMORY_LINE_ASSISTANT = 2, /* the assistant said the line */
  TP__MEMORY_LINE_NUMBER = 4,    /* the line contains a digit */
  TP__MEMORY_LINE_ONLY_ASKS = 8  /* the line also begins with a word that asks */
};

/** The window of a line: how many neighbours before and after it count. More lines count before it, since they
 *  introduce it. */
enum { TP__MEMORY_LINES_BEFORE = 3, TP__MEMORY_LINES_AFTER = 2 };
extern const float tp__memory_share_before[TP__MEMORY_LINES_BEFORE], tp__memory_share_after[TP__MEMORY_LINES_AFTER];

/** One memory. Its neighbours are the memories that were kept before and after it in its session. */
typedef struct tp__memory_line {
  int64_t id;
  int64_t said_ms;
  uint64_t hash; /* tp__memory_hash() of its text */
  int32_t session;
  int32_t speaker; /* the term that is the speaker's name; or TP__MEMORY_NONE */
  uint32_t words;
  uint32_t place; /* its position in its session, from 0 */
  uint32_t flags;
  uint32_t passage;          /* the index of its first passage */
  uint32_t passage_count;    /* at least 1 */
  int32_t said_day;          /* TP__MEMORY_NO_DAY: not known */
  uint32_t days, days_count; /* which days of the index its text names: the first one, and how many */
  float window_words;        /* the number of words of its window's lines, each with its share, plus 1 */
} tp__memory_line;

/** The lines that were kept before and after a line in its session, or TP__MEMORY_NONE. They are separate from the
 *  lines, since a recall walks through many of them. */
typedef struct tp__memory_links {
  int32_t previous, next;
  float near; /* the weight of its neighbours for it: the longer the line is, the lower */
} tp__memory_links;

typedef struct tp__memory_posting {
  uint32_t line;
  uint16_t times;   /* at most UINT16_MAX */
  uint16_t passage; /* the passage of the line, from 0; the last passage also has all words after passage UINT16_MAX */
} tp__memory_posting;

/** Strings with numbers from 0, in the order in which they were added. */
typedef struct tp__memory_names {
  char *bytes;
  uint32_t *starts; /* the starts, count + 1 of them */
  int32_t *slots;   /* a hash table with open addressing; TP__MEMORY_NONE: free */
  size_t bytes_used, bytes_capacity, count, capacity, slot_count;
} tp__memory_names;

typedef struct tp__memory_term {
  tp__memory_posting *postings; /* in the order of the lines and their passages */
  uint32_t count, capacity;
  uint32_t lines;  /* how many lines contain it */
  uint32_t spoken; /* how many lines have a speaker of this name */
} tp__memory_term;

typedef struct tp__memory_session {
  int32_t last; /* the last line */
  uint32_t count;
} tp__memory_session;

typedef struct tp__memory_index {
  struct tp__memory_index *older, *newer; /* the indexes that were used before and after it */
  struct tp__memory_index *in_bucket;     /* the next index in the bucket */
  size_t counted;                         /* the bytes of it that are counted in store->index_bytes */
  bool is_used;                           /* a thread uses it; only this thread may read or change the rest */
  tp__memory_scope owner;                 /* its texts are stored in names */
  char *names;
  tp_memory_mark mark; /* up to where it has the rows of the table */
  tp__memory_line *lines;
  tp__memory_links *links; /* one for each line */
  size_t line_count, line_capacity, link_capacity;
  uint32_t *passages; /* where each passage begins in the text of its line, in bytes */
  size_t passage_count, passage_capacity;
  tp__memory_days *days; /* the days that lines name, in the order of the lines */
  size_t days_count, days_capacity;
  tp__memory_names terms_names, session_names;
  tp__memory_term *terms;
  tp__memory_session *sessions;
  size_t term_capacity, session_capacity;
  void *scratch; /* used by score.c, for scratch_lines lines; all zero between two uses */
  size_t scratch_lines;
  void *passage_scratch; /* the same for scratch_passages passages */
  size_t scratch_passages;
  void *session_scratch; /* the same for scratch_sessions sessions */
  size_t scratch_sessions;
  uint64_t words;                        /* how many words all lines have */
  int32_t first_said_day, last_said_day; /* the first and last day of the lines whose day is known; if there is none,
                                            first is above last */
  size_t bytes;                          /* about how many bytes it uses */
} tp__memory_index;

/** Returns the up-to-date index of a scope. Other threads wait for it until it is released.
 *  @param ret_index  NULL: nothing was ever kept in the scope, and nothing is to be released.
 *  @return TP_OK; TP_ERR_NO_MEMORY; what the table of functions returns. */
tp_status tp__memory_index_use(tp__memory_store *store, const tp__memory_scope *scope, tp__memory_index **ret_index);
void tp__memory_index_release(tp__memory_store *store, tp__memory_index *index);
/** Frees all indexes of a store. */
void tp__memory_indexes_free(tp__memory_store *store);

/** The hash of a whole text. Two different texts of a scope and a request have the same hash with a chance of 1 in
 *  2^64. */
uint64_t tp__memory_hash(tp_text text);

/** Calls on_word, under the store's mutex, for each word of a text, with its stem; a result of on_word other than
 *  SQLITE_OK ends the walk. */
typedef int (*tp__memory_stem_fn)(void *ctx, tp_text stem, tp_text word);
int tp__memory_stems(tp__memory_store *store, tp_text text, tp__memory_stem_fn on_word, void *ctx);

/** @return the number of a term; TP__MEMORY_NONE when no line has it. */
int32_t tp__memory_term_find(const tp__memory_index *index, tp_text stem);
tp_text tp__memory_term_text(const tp__memory_index *index, int32_t term);

/** The number of the month that a word names, from 1; 0 when it names none. */
int tp__memory_month_of(tp_text word);

#endif
