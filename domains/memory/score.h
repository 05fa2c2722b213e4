/* SPDX-License-Identifier: Apache-2.0
 *
 * score: how well the memories of a scope answer a text: a sum of few parts, each with a name and a weight
 * (weights.def). The statistics are of the scope alone. The same index and text give the same scores. */
#ifndef TP__MEMORY_SCORE_H
#define TP__MEMORY_SCORE_H

#include "domains/memory/index.h"

typedef enum tp__memory_part {
#define PART(name, weight, words) TP__MEMORY_PART_##name,
#include "domains/memory/weights.def"
#undef PART
  TP__MEMORY_PART_COUNT
} tp__memory_part;

typedef struct tp__memory_part_row {
  const char *name, *words;
  double weight;
} tp__memory_part_row;

extern const tp__memory_part_row tp__memory_part_rows[TP__MEMORY_PART_COUNT];

/** A memory that is thought of: a line that holds a word of the text, has one near that does, or was said on a day that
 *  the text names, or about it. */
typedef struct tp__memory_scored {
  uint32_t line;
  uint32_t passage; /* where its words are densest, from 0: there and in the next one */
  float score;
  float parts[TP__MEMORY_PART_COUNT]; /* before their weights */
} tp__memory_scored;

/** Texts that a request has already, by their hashes (tp__memory_hash()). Zero-filled has none. */
typedef struct tp__memory_said_hashes {
  uint64_t *slots; /* open addressing; 0: free; NULL: none */
  size_t mask;
  const struct tp__memory_said_hashes *more; /* further ones; NULL: none */
} tp__memory_said_hashes;

/** What is looked for. */
typedef struct tp__memory_question {
  tp_text text;
  int64_t asked_ms; /* when it is said, Unix milliseconds, from which its words of time are reckoned; 0: they mean
                       nothing */
  int32_t floor;    /* tp_memory_options.recall_floor */
  const tp__memory_said_hashes *present; /* lines whose text is one of these are left out; NULL: none is */
} tp__memory_question;

enum { TP__MEMORY_FLOOR = 300 }; /* where the host gives none */

/** @param ret_scored  the best, at most max, best first, of equals the newest; sqlite3_free() it.
 *  @return a SQLite code. */
int tp__memory_score(tp__memory_store *store, tp__memory_index *index, const tp__memory_question *asked, size_t max,
                     tp__memory_scored **ret_scored, size_t *ret_count);

#endif
