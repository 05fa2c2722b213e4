/* SPDX-License-Identifier: Apache-2.0
 *
 * store_internal: what store.c offers to index.c, recall.c, facts.c and vectors.c. Functions whose name ends in _locked
 * are called under the store's mutex. */
#ifndef TP__MEMORY_STORE_INTERNAL_H
#define TP__MEMORY_STORE_INTERNAL_H

#include <sqlite3.h>

#include "domains/memory/store.h"
#include "runtime/base/check.h"
#include "support/lock.h"
#include "support/text.h"

enum { TP__MEMORY_INDEX_BUCKETS = 1024 };

struct tp__memory_store {
  /* never changes after open */
  tp_memory_store rows; /* the table of functions that stores the memories */
  size_t index_bytes_max;
  tp__lock mutex;
  tp__lock_condition released; /* of an index */
  /* ---- under mutex */
  sqlite3 *db;              /* in memory, without tables: for its stemmer and its JSON functions */
  fts5_tokenizer tokenizer; /* FTS5's tokenizer, with English stems */
  Fts5Tokenizer *stemmer;
  struct tp__memory_index *indexes, *oldest_index;                  /* the indexes of scopes, the most recently used one
                                                                       first */
  struct tp__memory_index *index_buckets[TP__MEMORY_INDEX_BUCKETS]; /* the same indexes, by their scopes */
  size_t index_bytes;                                               /* the bytes of all indexes */
};

/** Collects entries that a store passes as memories of a list. */
typedef struct tp__memory_gathering {
  tp__memory_list *list;
  size_t before;    /* how many memories the list had before */
  tp_status status; /* TP_ERR_NO_MEMORY: not all were added */
} tp__memory_gathering;

tp__memory_gathering tp__memory_gather(tp__memory_list *list);
/** tp_memory_entry_fn, with a tp__memory_gathering. */
bool tp__memory_gather_entry(void *gathering, const tp_memory_entry *entry);
/** Removes the added memories unless all could be added. @return status, or why not all were added. */
tp_status tp__memory_gathered(tp__memory_gathering *gathering, tp_status status);

/** Makes the entry of a memory, with its scope. Texts are borrowed. */
tp_memory_entry tp__memory_entry_of(const tp__memory *memory);
tp_memory_scope tp__memory_owner_of(const tp__memory_scope *scope);

/** Copies a text to *next, which it moves on. @return the copy. */
tp_text tp__memory_put_text(char **next, tp_text text);

#endif
