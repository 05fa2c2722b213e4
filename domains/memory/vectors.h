/* SPDX-License-Identifier: Apache-2.0
 *
 * vectors: the vectors that an embedder makes of the memories of a scope, and how near each is to a text. A vector has
 * length 1 and is kept as numbers of 8 bits with a scale. No lock of the store is held while the embedder works. */
#ifndef TP__MEMORY_VECTORS_H
#define TP__MEMORY_VECTORS_H

#include "domains/memory/score.h"
#include "turnphase/memory.h"

enum {
  TP__MEMORY_DIMENSIONS_MAX = 4096,
  TP__MEMORY_EMBEDDER_NAME_MAX = 128,
  TP__MEMORY_BATCH_MAX = 256,
  TP__MEMORY_EMBED_BYTES_MAX = 4096, /* the most bytes of a memory of which its vector is made */
  TP__MEMORY_MEANING_WEIGHT = 1000   /* the amount that a cosine of 1 adds to a rank. It is not fitted, since the bench
                                        has no embedder */
};

enum { TP__MEMORY_FUSED_MAX = 320 }; /* the most memories that words and vectors find together */

/** The condition that cancels the work of an embedder. */
typedef struct tp__memory_embed_work {
  bool (*cancelled)(const void *ctx);
  const void *ctx;
} tp__memory_embed_work;

/** Makes the vector of a searched text, of length 1.
 *  @param ret_vector  space for dimensions.
 *  @return TP_OK; what the embedder returns; TP_ERR_MALFORMED for numbers that are not finite. */
tp_status tp__memory_embed_query(const tp_memory_embedder *embedder, const tp__memory_embed_work *work, tp_text text,
                                 float *ret_vector);

/** Makes the vectors that memories of the scope lack, the oldest first, in batches; each is durable when it is made.
 *  Stops after some thousand texts: the next call goes on.
 *  @return TP_OK; what the embedder or the store returns. */
tp_status tp__memory_embed_missing(tp__memory_store *store, const tp__memory_scope *scope,
                                   const tp_memory_embedder *embedder, const tp__memory_embed_work *work);

/** As tp__memory_recall_explained(), but the nearness of a memory's vector is added to its rank. Near memories without
 *  a word of the text are found, too. Words count only for the 256 memories that are best by words. */
tp_status tp__memory_recall_fused(tp__memory_store *store, const tp__memory_scope *scope,
                                  const tp__memory_question *asked, const tp_memory_embedder *embedder,
                                  const float *vector, size_t max, tp__memory_list *list);

#endif
