/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "domains/memory/recall.h"
#include "domains/memory/store_internal.h"
#include "stores/sqlite/database.h"
#include "stores/sqlite/statement.h"

/* ---- making vectors ---- */

/* Gives it length 1; one of zeros stays. @return false for a number that is not finite. */
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
  for (size_t i = 0; i < count * dimensions; i++) vectors[i] = NAN; /* what is not filled is found */
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

/* Up to which memory the scope has vectors of the embedder: 0 when it has none. */
static int read_upto_locked(tp__memory_connection *c, int64_t scope, const char *embedder, int64_t *ret_upto) {
  TP__LOCKED(&c->mutex);
  sqlite3_stmt *s = c->statements[TP__MEMORY_SQL_EMBEDDED];
  int rc = sqlite3_bind_int64(s, 1, scope);
  if (rc == SQLITE_OK) rc = sqlite3_bind_text(s, 2, embedder, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  *ret_upto = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
  tp__sqlite_release(s);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int write_upto_locked(tp__memory_store *store, int64_t scope, const char *embedder, int64_t upto) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = store->writer->statements[TP__MEMORY_SQL_SET_EMBEDDED];
  int rc = sqlite3_bind_int64(s, 1, scope);
  if (rc == SQLITE_OK) rc = sqlite3_bind_text(s, 2, embedder, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 3, upto);
  return tp__sqlite_run(s, rc);
}

/* A memory that was deleted or changed meanwhile gets none. */
static int put_vector_locked(tp__memory_store *store, const tp__memory *memory, const float *vector,
                             size_t dimensions) {
  TP__LOCKED(&store->writer->mutex);
  signed char bytes[TP__MEMORY_DIMENSIONS_MAX];
  float most = 0;
  for (size_t i = 0; i < dimensions; i++) most = fmaxf(most, fabsf(vector[i]));
  const float scale = most / 127;
  for (size_t i = 0; i < dimensions; i++) bytes[i] = (signed char)(scale > 0 ? lroundf(vector[i] / scale) : 0);
  sqlite3_stmt *s = store->writer->statements[TP__MEMORY_SQL_PUT_VECTOR];
  int rc = sqlite3_bind_int64(s, 1, memory->id);
  if (rc == SQLITE_OK) rc = sqlite3_bind_double(s, 2, (double)scale);
  if (rc == SQLITE_OK) rc = sqlite3_bind_blob64(s, 3, bytes, dimensions, SQLITE_STATIC);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 4, memory->text);
  return tp__sqlite_run(s, rc);
}

/** Memories that lack vectors. */
typedef struct batch {
  int64_t scope, upto; /* the memories are those after upto */
  tp__memory_list list;
} batch;

static int read_batch_locked(tp__memory_store *store, const tp__memory_scope *scope, const char *embedder, size_t max,
                             batch *b) {
  TP__LOCKED(&store->reader->mutex);
  assert(max > 0);
  tp__memory_scope_row row = {0};
  int rc = tp__memory_find_scope_locked(store->reader, scope, &row);
  if (rc == SQLITE_OK) rc = read_upto_locked(store->reader, row.id, embedder, &b->upto);
  if (rc != SQLITE_OK) return rc;
  b->scope = row.id;
  sqlite3_stmt *s = store->reader->statements[TP__MEMORY_SQL_WITHOUT_VECTOR];
  rc = tp__sqlite_bind_ints(s, (const int64_t[]){row.id, b->upto, (int64_t)max}, 3);
  return tp__memory_list_rows(&b->list, s, rc);
}

typedef struct vector_writing {
  tp__memory_store *store;
  const batch *batch;
  const tp_memory_embedder *embedder;
  const float *vectors;
} vector_writing;

/* Nothing is kept when another job has been here meanwhile: what it left is what counts. */
static int write_batch(void *ctx) {
  const vector_writing *w = ctx;
  const batch *b = w->batch;
  const size_t dimensions = w->embedder->dimensions;
  int64_t upto = 0;
  int rc = read_upto_locked(w->store->writer, b->scope, w->embedder->name, &upto);
  bool same = upto == b->upto;
  for (size_t i = 0; same && rc == SQLITE_OK && i < b->list.count; i++)
    rc = put_vector_locked(w->store, &b->list.items[i], w->vectors + i * dimensions, dimensions);
  if (!same || rc != SQLITE_OK) return rc;
  return write_upto_locked(w->store, b->scope, w->embedder->name, b->list.items[b->list.count - 1].id);
}

/* Models read some hundred words; an endpoint may refuse what is longer, and each text after it would wait for ever. */
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
  vector_writing w = {store, b, embedder, vectors};
  if (status == TP_OK) status = tp__memory_write(store, write_batch, &w);
  sqlite3_free(vectors);
  return status;
}

tp_status tp__memory_embed_missing(tp__memory_store *store, const tp__memory_scope *scope,
                                   const tp_memory_embedder *embedder, const tp__memory_embed_work *work) {
  assert(embedder->embed && embedder->dimensions > 0 && embedder->name);
  enum { TEXTS_MAX = 4096 }; /* of one job */
  tp_status status = TP_OK;
  size_t count = 1;
  for (size_t made = 0; status == TP_OK && count > 0 && made < TEXTS_MAX; made += count) {
    batch b = {0};
    if (work->cancelled(work->ctx)) return TP_ERR_CANCELLED;
    tp__lock_acquire(&store->reader->mutex);
    status = tp__sqlite_status(read_batch_locked(store, scope, embedder->name, embedder->batch_max, &b));
    tp__lock_release(&store->reader->mutex);
    count = b.list.count;
    if (status == TP_OK && count > 0) status = embed_batch(store, embedder, work, &b);
    tp__memory_list_fini(&b.list);
  }
  return status;
}

/* ---- recall ---- */

enum { BY_WORDS_MAX = 256, BY_MEANING_MAX = TP__MEMORY_FUSED_MAX - BY_WORDS_MAX, VECTORS_AT_ONCE = 2048 };

/** A memory that is near. */
typedef struct near_one {
  int64_t id;
  int32_t rank;
} near_one;

typedef struct nearness {
  const float *vector;
  size_t dimensions;
  tp__memory_list *by_words;     /* in the order of their ids */
  near_one best[BY_MEANING_MAX]; /* of the others, best first */
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

/* What points away from the text is as good as what has no vector. */
static void measure(nearness *n, sqlite3_stmt *row) {
  const signed char *bytes = sqlite3_column_blob(row, 2);
  if ((size_t)sqlite3_column_bytes(row, 2) != n->dimensions) return;
  float dot = 0;
  for (size_t i = 0; i < n->dimensions; i++) dot += n->vector[i] * (float)bytes[i];
  int32_t rank = (int32_t)lround(TP__MEMORY_MEANING_WEIGHT * (double)dot * sqlite3_column_double(row, 1));
  if (rank <= 0) return;
  tp__memory key = {.id = sqlite3_column_int64(row, 0)};
  const tp__memory_list *list = n->by_words;
  tp__memory *found = list->count ? bsearch(&key, list->items, list->count, sizeof key, compare_ids) : NULL;
  if (found) found->rank += rank;
  else take_near(n, key.id, rank);
}

/* @param last  the memory after which to go on; 0 at the end. */
static int measure_some_locked(tp__memory_store *store, const tp__memory_scope *scope, const char *embedder,
                               nearness *n, int64_t *last) {
  TP__LOCKED(&store->reader->mutex);
  tp__memory_scope_row row = {0};
  int64_t upto = 0, behind = *last;
  int rc = tp__memory_find_scope_locked(store->reader, scope, &row);
  if (rc == SQLITE_OK) rc = read_upto_locked(store->reader, row.id, embedder, &upto);
  *last = 0;
  if (rc != SQLITE_OK) return rc;
  sqlite3_stmt *s = store->reader->statements[TP__MEMORY_SQL_VECTORS];
  rc = tp__sqlite_bind_ints(s, (const int64_t[]){row.id, behind, upto, VECTORS_AT_ONCE}, 4);
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    *last = sqlite3_column_int64(s, 0);
    measure(n, s);
    rc = SQLITE_OK;
  }
  tp__sqlite_release(s);
  return rc;
}

static tp_status read_near(tp__memory_store *store, const tp__memory_scope *scope, const nearness *n,
                           tp__memory_list *list) {
  for (size_t i = 0; i < n->count; i++) {
    tp_status status = tp__memory_get(store, scope, n->best[i].id, list);
    if (status == TP_ERR_NOT_FOUND) continue; /* deleted since */
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
  nearness n = {.vector = vector, .dimensions = embedder->dimensions, .by_words = list};
  tp_status status = tp__memory_recall_explained(store, scope, asked, BY_WORDS_MAX, list, NULL);
  if (list->count) qsort(list->items, list->count, sizeof *list->items, compare_ids);
  for (int64_t last = 0; status == TP_OK;) {
    tp__lock_acquire(&store->reader->mutex);
    status = tp__sqlite_status(measure_some_locked(store, scope, embedder->name, &n, &last));
    tp__lock_release(&store->reader->mutex);
    if (last == 0) break;
  }
  if (status == TP_OK) status = read_near(store, scope, &n, list);
  if (list->count) qsort(list->items, list->count, sizeof *list->items, compare_ranks);
  if (status != TP_OK) tp__memory_list_cut(list, 0);
  else if (list->count > max) tp__memory_list_cut(list, max);
  return status;
}
