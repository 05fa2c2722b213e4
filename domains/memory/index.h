/* SPDX-License-Identifier: Apache-2.0
 *
 * index: the postings of one scope in memory. The table of functions is the durable source: an index is built from it
 * on first use, takes up what was added since, and is built anew when a memory was changed or deleted, by whichever
 * process. The
 * indexes of a store hold at most index_bytes_max together; the least recently used goes first. All of it is
 * used under the store's mutex. */
#ifndef TP__MEMORY_INDEX_H
#define TP__MEMORY_INDEX_H

#include "domains/memory/dates.h"
#include "domains/memory/store_internal.h"

enum {
  TP__MEMORY_INDEX_BYTES_MAX = 256 * 1024 * 1024, /* where the host gives no bound */
  TP__MEMORY_NONE = -1,                           /* no line, term or speaker */
  TP__MEMORY_PASSAGE_BYTES = 320                  /* two of them, cut after a word, fit an excerpt */
};

/** What a line is, one bit each. */
enum {
  TP__MEMORY_LINE_ASKS = 1,      /* it ends with a question mark */
  TP__MEMORY_LINE_ASSISTANT = 2, /* the assistant said it */
  TP__MEMORY_LINE_NUMBER = 4,    /* a digit stands in it */
  TP__MEMORY_LINE_ONLY_ASKS = 8  /* it begins with a word that asks, too */
};

/** The window of a line: what its neighbours count, by their distance. Those said before it introduce it. */
enum { TP__MEMORY_LINES_BEFORE = 3, TP__MEMORY_LINES_AFTER = 2 };
extern const float tp__memory_share_before[TP__MEMORY_LINES_BEFORE], tp__memory_share_after[TP__MEMORY_LINES_AFTER];

/** One memory. Neighbours are those kept before and after it in its session. */
typedef struct tp__memory_line {
  int64_t id;
  int64_t said_ms;
  uint64_t hash; /* tp__memory_hash() of its text */
  int32_t session;
  int32_t speaker; /* the term that is its speaker's name; TP__MEMORY_NONE */
  uint32_t words;
  uint32_t place; /* in its session, from 0 */
  uint32_t flags;
  uint32_t passage;          /* its first one */
  uint32_t passage_count;    /* at least 1 */
  int32_t said_day;          /* TP__MEMORY_NO_DAY: not known */
  uint32_t days, days_count; /* of the index, that its text names; the first one, and how many */
  float window_words;        /* the words of its window's lines, each with its share, and 1 */
} tp__memory_line;

/** The lines kept before and after a line in its session; TP__MEMORY_NONE. Apart from the lines, since a recall walks
 *  along many of them. */
typedef struct tp__memory_links {
  int32_t previous, next;
  float near; /* what its neighbours count for it: the less, the longer it is itself */
} tp__memory_links;

typedef struct tp__memory_posting {
  uint32_t line;
  uint16_t times;   /* at most UINT16_MAX */
  uint16_t passage; /* of the line, from 0; the last one has what stands after UINT16_MAX */
} tp__memory_posting;

/** Strings with numbers from 0, in the order they came. */
typedef struct tp__memory_names {
  char *bytes;
  uint32_t *starts; /* count + 1 of them */
  int32_t *slots;   /* open addressing; TP__MEMORY_NONE: free */
  size_t bytes_used, bytes_capacity, count, capacity, slot_count;
} tp__memory_names;

typedef struct tp__memory_term {
  tp__memory_posting *postings; /* in the order of the lines and their passages */
  uint32_t count, capacity;
  uint32_t lines;  /* that hold it */
  uint32_t spoken; /* lines whose speaker has this name */
} tp__memory_term;

typedef struct tp__memory_session {
  int32_t last; /* line */
  uint32_t count;
} tp__memory_session;

typedef struct tp__memory_index {
  struct tp__memory_index *older, *newer; /* the ones that were used before and after it */
  struct tp__memory_index *in_bucket;     /* the next one there */
  size_t counted;                         /* of its bytes, in store->index_bytes */
  tp__memory_scope owner;                 /* its texts are in names */
  char *names;
  tp_memory_mark mark; /* what it has */
  tp__memory_line *lines;
  tp__memory_links *links; /* of each line */
  size_t line_count, line_capacity, link_capacity;
  uint32_t *passages; /* where each begins in the text of its line, in bytes */
  size_t passage_count, passage_capacity;
  tp__memory_days *days; /* that lines name, in the order of the lines */
  size_t days_count, days_capacity;
  tp__memory_names terms_names, session_names;
  tp__memory_term *terms;
  tp__memory_session *sessions;
  size_t term_capacity, session_capacity;
  void *scratch; /* score.c's, for scratch_lines lines; all zero between two uses */
  size_t scratch_lines;
  void *passage_scratch; /* the same, for scratch_passages passages */
  size_t scratch_passages;
  void *session_scratch; /* the same, for scratch_sessions sessions */
  size_t scratch_sessions;
  uint64_t words;                        /* of all lines */
  int32_t first_said_day, last_said_day; /* of the lines of which it is known; the first one above the last: of none */
  size_t bytes;                          /* that it holds, about */
} tp__memory_index;

/** The index of a scope as it is now. It stays until the next call.
 *  @param ret_index  NULL: nothing was ever kept in the scope.
 *  @return TP_OK; TP_ERR_NO_MEMORY; what the table says. */
tp_status tp__memory_index_get(tp__memory_store *store, const tp__memory_scope *scope, tp__memory_index **ret_index);
/** Frees all indexes of a store. */
void tp__memory_indexes_free(tp__memory_store *store);

/** Of a whole text. Two texts of a scope and a request have one hash by chance once in 2^64. */
uint64_t tp__memory_hash(tp_text text);

/** Calls on_word for each word of a text, with its stem; what on_word returns other than SQLITE_OK ends it. */
typedef int (*tp__memory_stem_fn)(void *ctx, tp_text stem, tp_text word);
int tp__memory_stems(tp__memory_store *store, tp_text text, tp__memory_stem_fn on_word, void *ctx);

/** @return the number of a term; TP__MEMORY_NONE when no line has it. */
int32_t tp__memory_term_find(const tp__memory_index *index, tp_text stem);
tp_text tp__memory_term_text(const tp__memory_index *index, int32_t term);

/** The number of the month that a word names, from 1; 0 when it names none. */
int tp__memory_month_of(tp_text word);

#endif
