/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_store.h: what the memory asks of the store that keeps its memories: a few whole operations. The library has
 * such a store over a SQLite file; another one, over another database, fills a tp_memory_store. Indexes of words,
 * scores, arithmetic of vectors, policies and secrets stay in the library, once for every store.
 *
 * What a store guarantees:
 *  - The ids of one scope rise in the order of the commits: what a reader sees of a scope with an id below the highest
 *    that it has seen, it has seen already. A store with several writers at a time locks the scope before it takes an
 *    id. No id is used again for another memory.
 *  - `changes` of a scope rises with each replaced text, replaced fact and deletion, in the transaction that does it.
 *  - Texts are bytes: also NUL and what is not UTF-8 come back as they were.
 * Structs that are passed to the functions are borrowed till return, and what a callback gets till the callback's
 * return. */
#ifndef TURNPHASE_MEMORY_STORE_H
#define TURNPHASE_MEMORY_STORE_H

#include "turnphase/memory.h"

TP_BEGIN_DECLS

/** What an index has of a scope: what tp_memory_store.news filled the last time. All numbers zero: nothing. */
typedef struct tp_memory_mark {
  size_t struct_size;
  /** The store's number of the scope, which no other scope ever gets; 0: nothing was ever kept there. */
  int64_t scope;
  /** Of the scope. With another value what the reader has is void. */
  int64_t changes;
  /** Memories up to this id were seen. */
  int64_t last;
  /** How many were passed to the callback. */
  int64_t lines;
} tp_memory_mark;

/** The vector of a memory: of length 1, as numbers of 8 bits with a scale. */
typedef struct tp_memory_vector {
  size_t struct_size;
  int64_t id;
  double scale;
  const int8_t *numbers;
  size_t dimensions;
  /** vectors_put: what it was made of. A memory that has another text now, or is gone, gets no vector. */
  tp_text text;
} tp_memory_vector;
/** Receives a vector; false stops. Threads: the calling one. */
typedef bool (*tp_memory_vector_fn)(void *ctx, const tp_memory_vector *vector);
/** What became of put_later: TP_OK after the commit. Threads: any; it holds no lock, and may close what uses the
 *  store. */
typedef void (*tp_memory_put_fn)(void *ctx, tp_status status);

/** A store of memories. All functions are required. They block on the disk or the server, except where they say that
 *  they do not. They return TP_OK; TP_ERR_STORE…, TP_ERR_IO, TP_ERR_NO_MEMORY; and what is named. A fault may be NULL;
 *  where the status says it all, it is left as it is. An owner is a scope: its tenant, scope and name are read.
 *  Threads: every function may be called from any thread, several at once. */
typedef struct tp_memory_store {
  size_t struct_size;
  void *ctx;

  /** Keeps all or none, in their order, durable on return unless the store was made otherwise. (tenant, scope, name,
   *  session, turn, part) is the key: a text that was kept under it is replaced under the same id, with the time at
   *  which it was first said. An entry with a subject is a fact, which replaced_unix_ms says to hold or not.
   *  @param ret_ids  count of them; may be NULL. */
  tp_status (*put)(void *ctx, const tp_memory_entry *const *entries, size_t count, int64_t *ret_ids, tp_fault *fault);
  /** The same without blocking. The entries stay until `end`, which is called exactly once, also where the store is
   *  destroyed before.
   *  @return TP_ERR_NO_MEMORY: nothing is kept, and `end` is not called. */
  tp_status (*put_later)(void *ctx, const tp_memory_entry *const *entries, size_t count, tp_memory_put_fn end,
                         void *end_ctx);
  /** Keeps facts of one scope and one turn, as put does, but leaves out a fact whose text another turn's fact that
   *  holds has already. Of a fact and the one that it replaces the one that was said later holds.
   *  @param replaces  of each fact the id of the one that it replaces; 0: none. An id of another scope, or of no fact,
   *                   replaces nothing.
   *  @param ret_kept  how many were kept. */
  tp_status (*put_facts)(void *ctx, const tp_memory_entry *const *facts, const int64_t *replaces, size_t count,
                         size_t *ret_kept, tp_fault *fault);

  /** Passes what a reader of a scope lacks, in the order of the ids, without replaced facts. Of each: id, said_unix_ms,
   *  session, part, text and subject.
   *  @param mark         what the reader has.
   *  @param ret_is_anew  set before the first callback: what the reader has is void, and all is passed.
   *  @param ret_mark     what it has then. */
  tp_status (*news)(void *ctx, const tp_memory_scope *owner, const tp_memory_mark *mark, bool *ret_is_anew,
                    tp_memory_entry_fn each, void *each_ctx, tp_memory_mark *ret_mark, tp_fault *fault);
  /** Passes memories by their ids, in the order of these; those that are not there are left out.
   *  @param scope  tp_memory_mark.scope: memories of others are left out, too, and entries lack tenant, scope and name;
   *                0: of any. */
  tp_status (*get)(void *ctx, int64_t scope, const int64_t *ids, size_t count, tp_memory_entry_fn each, void *each_ctx,
                   tp_fault *fault);
  /** Passes memories of a query, whose limit is not 0.
   *  @param owner  of this scope: tenant, scope and name of the query are not read, and entries lack them; NULL: of all
   *                that fit the query. */
  tp_status (*list)(void *ctx, const tp_memory_scope *owner, const tp_memory_query *query, tp_memory_entry_fn each,
                    void *each_ctx, tp_fault *fault);
  /** Passes facts of a scope, newest first.
   *  @param id  0: those that hold; else what this fact replaced, and what replaced it. */
  tp_status (*facts)(void *ctx, const tp_memory_scope *owner, int64_t id, size_t limit, tp_memory_entry_fn each,
                     void *each_ctx, tp_fault *fault);
  /** Passes all scopes by tenant, scope and name. */
  tp_status (*scopes)(void *ctx, tp_memory_scope_fn each, void *each_ctx, tp_fault *fault);

  /** Deletes memories for good, in one transaction, with their facts and vectors; durable on return in any case.
   *  @param owner      deletes only memories of this scope, whose name stays; NULL: of any, and the names of scopes
   *                    that are empty then are deleted, too.
   *  @param ret_count  how many were there; set also with TP_ERR_STORE_BUSY.
   *  @return TP_ERR_STORE_BUSY also when they are deleted, but copies of them are left: another call deletes these. */
  tp_status (*erase)(void *ctx, const tp_memory_scope *owner, const int64_t *ids, size_t count, size_t *ret_count,
                     tp_fault *fault);

  /** Passes the oldest memories of a scope that lack a vector of the embedder: id and text.
   *  @param ret_mark  for vectors_put: its scope and its last are set. */
  tp_status (*vectors_missing)(void *ctx, const tp_memory_scope *owner, const char *embedder, size_t limit,
                               tp_memory_entry_fn each, void *each_ctx, tp_memory_mark *ret_mark, tp_fault *fault);
  /** Keeps the vectors of what vectors_missing passed; nothing when another process was faster.
   *  @param upto  the last id that it passed. */
  tp_status (*vectors_put)(void *ctx, const tp_memory_mark *mark, const char *embedder,
                           const tp_memory_vector *const *vectors, size_t count, int64_t upto, tp_fault *fault);
  /** Passes some vectors of a scope, of memories after *after, in the order of the ids, but not of replaced facts.
   *  @param after  becomes the last id that was passed; 0: there are no more. */
  tp_status (*vectors)(void *ctx, const tp_memory_scope *owner, const char *embedder, int64_t *after,
                       tp_memory_vector_fn each, void *each_ctx, tp_fault *fault);

  /** Exactly once, after all that put_later got has ended. In `end` of put_later it returns at once, and the rest
   *  follows. */
  void (*destroy)(void *ctx);
} tp_memory_store;

TP_END_DECLS
#endif
