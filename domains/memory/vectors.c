/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "domains/memory/recall.h"
#include "domains/memory/store_internal.h"

/* ---- making vectors ---- */

/* Scales a vector to length 1; a vector of zeros stays. @return false for a number that is not finite. */
static bool normalize(float *vector, size_t dimensions) {
  double squares = 0;
  for (size_t i = 0; i < dimensions; i++) squares += (double)vector[i] * (double)vector[i];
  if (!isfinite(squares)) return false;
  if (squares > 0)
    for (size_t i = 0; i < dimensions; i++) vector[i] = (float)((double)vector[i] / sqrt(squares));
  return true;
}

static tp_status embed(const tp_memory_embedder *embedder, const tp__memory_embed_work *work, const tp_text *texts,
                       size_t count, bool is_query, float *vectors) {
  const size_t dimensions = embedder->dimensions;
  const tp_memory_embed_request request = {.struct_size = sizeof request,
                                           .texts = texts,
                                           .text_count = count,
                                           .dimensions = embedder->dimensions,
                                           .is_query = is_query,
                                           .cancelled = work->cancelled,
                                           .ctx = work->ctx};
  for (size_t i = 0; i < count * dimensions; i++)
    vectors[i] = NAN; /* so that a number that the embedder does not fill
                                                                       is detected */
  tp_status status = embedder->embed(embedder->ctx, &request, vectors);
  for (size_t i = 0; status == TP_OK && i < count; i++)
    if (!normalize(vectors + i * dimensions, dimensions)) status = TP_ERR_MALFORMED;
  return status;
}

tp_status tp__memory_embed_query(const tp_memory_embedder *embedder, const tp__memory_embed_work *work, tp_text text,
                                 float *ret_vector) {
  assert(embedder->embed && embedder->dimensions > 0);
  return embed(embedder, work, &text, 1, true, ret_vector);
}

/* ---- keeping them ---- */

/** Memories that lack vectors. */
typedef struct batch {
  tp_memory_mark mark;
  tp__memory_list list;
} batch;

static tp_status read_batch(tp__memory_store *store, const tp__memory_scope *scope, const tp_memory_embedder *embedder,
                            batch *b) {
  const tp_memory_scope owner = tp__memory_owner_of(scope);
  tp__memory_gathering g = tp__memory_gather(&b->list);
  assert(embedder->batch_max > 0 && embedder->batch_max <= TP__MEMORY_BATCH_MAX);
  return tp__memory_gathered(&g,
                             store->rows.vectors_missing(store->rows.ctx, &owner, embedder->name, embedder->batch_max,
                                                         tp__memory_gather_entry, &g, &b->mark, NULL));
}

/* Packs a vector as numbers of 8 bits. */
static tp_memory_vector pack_vector(const tp__memory *memory, const float *vector, size_t dimensions,
                                    signed char *numbers) {
  float most = 0;
  for (size_t i = 0; i < dimensions; i++) most = fmaxf(most, fabsf(vector[i]));
  const float scale = most / 127;
  for (size_t i = 0; i < dimensions; i++) numbers[i] = (signed char)(scale > 0 ? lroundf(vector[i] / scale) : 0);
  return (tp_memory_vector){sizeof(tp_memory_vector), memory->id, (double)scale, numbers, dimensions, memory->text};
}

static tp_status write_batch(tp__memory_store *store, const tp_memory_embedder *embedder, const batch *b,
                             const float *vectors) {
  const size_t dimensions = embedder->dimensions, count = b->list.count;
  tp_memory_vector packed[TP__MEMORY_BATCH_MAX];
  const tp_memory_vector *list[TP__MEMORY_BATCH_MAX];
  signed char *numbers = sqlite3_malloc64(count * dimensions);
  if (!numbers) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    packed[i] = pack_vector(&b->list.items[i], vectors + i * dimensions, dimensions, numbers + i * dimensions);
    list[i] = &packed[i];
  }
  tp_status status =
      store->rows.vectors_put(store->rows.ctx, &b->mark, embedder->name, list, count, packed[count - 1].id, NULL);
  sqlite3_free(numbers);
  return status;
}

/* Models read some hundred words. An endpoint may refuse a longer text, and then all texts after it would never get a
 * vector. */
static tp_text beginning_of(tp_text text) {
  return (tp_text){text.data, tp__memory_cut(text, TP__MEMORY_EMBED_BYTES_MAX)};
}

static tp_status embed_batch(tp__memory_store *store, const tp_memory_embedder *embedder,
                             const tp__memory_embed_work *work, const batch *b) {
  const size_t count = b->list.count;
  tp_text texts[TP__MEMORY_BATCH_MAX];
  float *vectors = sqlite3_malloc64(count * embedder->dimensions * sizeof *vectors);
  if (!vectors) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < count; i++) texts[i] = beginning_of(b->list.items[i].text);
  tp_status status = embed(embedder, work, texts, count, false, vectors);
  if (status == TP_OK) status = write_batch(store, embedder, b, vectors);
  sqlite3_free(vectors);
  return status;
}

tp_status tp__memory_embed_missing(tp__memory_store *store, const tp__memory_scope *scope,
                                   const tp_memory_embedder *embedder, const tp__memory_embed_work *work) {
  assert(embedder->embed && embedder->dimensions > 0 && embedder->name);
  enum { TEXTS_MAX = 4096 }; /* the most texts of one job */
  tp_status status = TP_OK;
  size_t count = 1;
  for (size_t made = 0; status == TP_OK && count > 0 && made < TEXTS_MAX; made += count) {
    batch b = {0};
    if (work->cancelled(work->ctx)) return TP_ERR_CANCELLED;
    status = read_batch(store, scope, embedder, &b);
    count = b.list.count;
    if (status == TP_OK && count > 0) status = embed_batch(store, embedder, work, &b);
    tp__memory_list_fini(&b.list);
  }
  return status;
}

/* ---- recall ---- */

enum { BY_WORDS_MAX = 256, BY_MEANING_MAX = TP__MEMORY_FUSED_MAX - BY_WORDS_MAX };

/** A memory whose vector is near that of the text. */
typedef struct near_one {
  int64_t id;
  int32_t rank;
} near_one;

typedef struct nearness {
  const float *vector;
  size_t dimensions;
  tp__memory_list *by_words;     /* the results by words, in the order of their ids */
  near_one best[BY_MEANING_MAX]; /* the nearest other memories, best first */
  size_t count;
} nearness;

static int compare_ids(const void *a, const void *b) {
  const tp__memory *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static int compare_ranks(const void *a, const void *b) {
  const tp__memory *x = a, *y = b;
  if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
  return x->id > y->id ? -1 : x->id < y->id;
}

static void take_near(nearness *n, int64_t id, int32_t rank) {
  size_t at = n->count < BY_MEANING_MAX ? n->count++ : BY_MEANING_MAX;
  for (; at > 0 && n->best[at - 1].rank < rank; at--)
    if (at < BY_MEANING_MAX) n->best[at] = n->best[at - 1];
  if (at < BY_MEANING_MAX) n->best[at] = (near_one){id, rank};
}

/* Measures a vector. One that points away from the text counts as a missing vector. */
static bool measure(void *ctx, const tp_memory_vector *vector) {
  nearness *n = ctx;
  if (vector->dimensions != n->dimensions) return true;
  float dot = 0;
  for (size_t i = 0; i < n->dimensions; i++) dot += n->vector[i] * (float)vector->numbers[i];
  int32_t rank = (int32_t)lround(TP__MEMORY_MEANING_WEIGHT * (double)dot * vector->scale);
  if (rank <= 0) return true;
  tp__memory key = {.id = vector->id};
  const tp__memory_list *list = n->by_words;
  tp__memory *found = list->count ? bsearch(&key, list->items, list->count, sizeof key, compare_ids) : NULL;
  if (found) found->rank += rank;
  else take_near(n, key.id, rank);
  return true;
}

static tp_status read_near(tp__memory_store *store, const tp__memory_scope *scope, const nearness *n,
                           tp__memory_list *list) {
  for (size_t i = 0; i < n->count; i++) {
    tp_status status = tp__memory_get(store, scope, n->best[i].id, list);
    if (status == TP_ERR_NOT_FOUND) continue; /* it was deleted meanwhile */
    if (status != TP_OK) return status;
    tp__memory *memory = &list->items[list->count - 1];
    memory->rank = n->best[i].rank;
    memory->text.size = tp__memory_cut(memory->text, TP__MEMORY_RECALL_TEXT_MAX);
  }
  return TP_OK;
}

tp_status tp__memory_recall_fused(tp__memory_store *store, const tp__memory_scope *scope,
                                  const tp__memory_question *asked, const tp_memory_embedder *embedder,
                                  const float *vector, size_t max, tp__memory_list *list) {
  assert(vector && embedder->dimensions > 0);
  const tp_memory_scope owner = tp__memory_owner_of(scope);
  nearness n = {.vector = vector, .dimensions = embedder->dimensions, .by_words = list};
  tp_status status = tp__memory_recall_explained(store, scope, asked, BY_WORDS_MAX, list, NULL);
  if (list->count) qsort(list->items, list->count, sizeof *list->items, compare_ids);
  for (int64_t last = 0; status == TP_OK;) {
    status = store->rows.vectors(store->rows.ctx, &owner, embedder->name, &last, measure, &n, NULL);
    if (last == 0) break;
  }
  if (status == TP_OK) status = read_near(store, scope, &n, list);
  if (list->count) qsort(list->items, list->count, sizeof *list->items, compare_ranks);
  if (status != TP_OK) tp__memory_list_cut(list, 0);
  else if (list->count > max) tp__memory_list_cut(list, max);
  return status;
}
