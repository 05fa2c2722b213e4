/* SPDX-License-Identifier: Apache-2.0
 *
 * score: how relevant the memories of a scope are to a text: a sum of a few parts, each with a name and a weight
 * (weights.def). The statistics are those of the scope only. The same index and text give the same scores. */
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

/** A candidate: a line that has a word of the text, is near such a line, was said on a day that the text names, or
 *  names that day. */
typedef struct tp__memory_scored {
  uint32_t line;
  uint32_t passage; /* the passage where its words are densest, from 0: in this one and the next */
  float score;
  float parts[TP__MEMORY_PART_COUNT]; /* the parts before their weights */
} tp__memory_scored;

/** Texts that a request has already, by their hashes (tp__memory_hash()). Zero-filled has none. */
typedef struct tp__memory_said_hashes {
  uint64_t *slots; /* open addressing; 0: free; NULL: none */
  size_t mask;
  const struct tp__memory_said_hashes *more; /* a further set; NULL: none */
} tp__memory_said_hashes;

/** The question of a search. */
typedef struct tp__memory_question {
  tp_text text;
  int64_t asked_ms; /* when the question is asked, Unix milliseconds; its words of time are counted from then; 0: they
                       mean nothing */
  int32_t floor;    /* tp_memory_options.recall_floor */
  const tp__memory_said_hashes *present; /* lines whose text is one of these are left out; NULL: none */
} tp__memory_question;

enum { TP__MEMORY_FLOOR = 300 }; /* the default of the floor */

/** @param ret_scored  the best lines, at most max, best first, and newest first among equals; freed with
 *          sqlite3_free().
 *  @return a SQLite code. */
int tp__memory_score(tp__memory_store *store, tp__memory_index *index, const tp__memory_question *asked, size_t max,
                     tp__memory_scored **ret_scored, size_t *ret_count);

#endif
