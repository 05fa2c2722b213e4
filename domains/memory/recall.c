/* SPDX-License-Identifier: Apache-2.0
 *
 * FTS5's own bm25() counts in how many of ALL rows a word occurs. Here that would be the rows of every tenant: a name
 * that stands in each message of one would pass for a rare word, and one tenant's ranks would tell of another's texts.
 * So the index only finds: an auxiliary function gives for each match how often each word occurs in it, the MATCH names
 * the scope, and the ranking is done here over the matches of the scope. */
#include "domains/memory/recall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "domains/memory/store_internal.h"
#include "domains/memory/terms.h"
#include "stores/sqlite/database.h"

/* ---- evidence: what the index knows of a match ---- */

/** How often each term occurs in the text of a match (255: at least so often), and how many words it has. */
typedef struct evidence {
  uint32_t words;
  uint8_t counts[TP__MEMORY_TERMS_MAX];
} evidence;

/* evidence(recall): phrase 0 of the MATCH is the scope, phrase 1 + i is term i. */
static void evidence_function(const Fts5ExtensionApi *api, Fts5Context *match, sqlite3_context *context, int count,
                              sqlite3_value **arguments) {
  (void)count;
  (void)arguments;
  evidence found = {0};
  int words = 0, instances = 0, phrase, column, offset;
  int rc = api->xColumnSize(match, 0, &words);
  if (rc == SQLITE_OK) rc = api->xInstCount(match, &instances);
  for (int i = 0; rc == SQLITE_OK && i < instances; i++) {
    rc = api->xInst(match, i, &phrase, &column, &offset);
    if (rc != SQLITE_OK || phrase < 1 || phrase > TP__MEMORY_TERMS_MAX) continue;
    if (found.counts[phrase - 1] < UINT8_MAX) found.counts[phrase - 1]++;
  }
  found.words = (uint32_t)words;
  if (rc == SQLITE_OK) sqlite3_result_blob(context, &found, (int)sizeof found, SQLITE_TRANSIENT);
  else sqlite3_result_error_code(context, rc);
}

int tp__memory_evidence_register(sqlite3 *db) {
  fts5_api *api = NULL;
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_bind_pointer(statement, 1, &api, "fts5_api_ptr", NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  int end = sqlite3_finalize(statement);
  if (rc != SQLITE_ROW) return end != SQLITE_OK ? end : rc;
  return api ? api->xCreateFunction(api, "evidence", NULL, evidence_function, NULL) : SQLITE_ERROR;
}

/* ---- one look into the index ---- */

/** A memory that is thought of. */
typedef struct hit {
  int64_t id;
  double score;
  bool asks;
  bool matches; /* found by its own words, not by its neighbour's */
  evidence found;
} hit;

/** What a look works with; freed by look_fini(). */
typedef struct look {
  tp__memory_store *store;
  tp__memory_scope_row scope;
  tp__memory_terms terms;
  char *query; /* the MATCH expression */
  hit *hits;
  size_t count, capacity;
  double full; /* the score of a text of average length that holds every term once */
} look;

static void look_fini(look *l) {
  sqlite3_free(l->query);
  sqlite3_free(l->hits);
}

static int hits_add(look *l, const hit *added) {
  if (l->count == l->capacity) {
    size_t capacity = l->capacity ? 2 * l->capacity : 64;
    hit *hits = sqlite3_realloc64(l->hits, capacity * sizeof *hits);
    if (!hits) return SQLITE_NOMEM;
    l->hits = hits;
    l->capacity = capacity;
  }
  l->hits[l->count++] = *added;
  return SQLITE_OK;
}

/* Every term stands in quotes, and no term holds a quote, so no word of a text means anything to the index. With
 * prefixes, words of five bytes and more may also be beginnings. */
static int write_query(look *l, bool prefixes) {
  enum { PREFIX_BYTES_MIN = 5 };
  sqlite3_str *s = sqlite3_str_new(l->store->db);
  sqlite3_str_appendf(s, "scope : \"%lld\" AND text : (", (long long)l->scope.id);
  for (size_t i = 0; i < l->terms.count; i++) {
    tp_text term = l->terms.items[i];
    bool prefix = prefixes && term.size >= PREFIX_BYTES_MIN;
    sqlite3_str_appendf(s, "%s\"%.*s\"%s", i ? " OR " : "", (int)term.size, term.data, prefix ? "*" : "");
  }
  sqlite3_str_appendchar(s, 1, ')');
  l->query = sqlite3_str_finish(s);
  return l->query ? SQLITE_OK : SQLITE_NOMEM;
}

static int read_match(look *l, sqlite3_stmt *row) {
  const void *blob = sqlite3_column_blob(row, 1);
  hit found = {.id = sqlite3_column_int64(row, 0), .asks = sqlite3_column_int(row, 2) != 0, .matches = true};
  if (!blob || sqlite3_column_bytes(row, 1) != (int)sizeof found.found) return SQLITE_NOMEM;
  memcpy(&found.found, blob, sizeof found.found);
  return hits_add(l, &found);
}

static int find_matches(look *l) {
  sqlite3_stmt *s = l->store->statements[TP__MEMORY_SQL_MATCH];
  int rc = sqlite3_bind_text(s, 1, l->query, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int(s, 2, TP__MEMORY_RECALL_MATCHES_MAX);
  while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) rc = read_match(l, s);
  tp__memory_release(s);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- ranking ---- */

/* What a term is worth: the rarer in the scope, the more. Never negative. */
static double worth(const look *l, size_t term) {
  double with = 0, all = (double)l->scope.memories;
  for (size_t i = 0; i < l->count; i++) with += l->hits[i].found.counts[term] > 0;
  if (all < with) all = with;
  return log(1.0 + (all - with + 0.5) / (with + 0.5));
}

static double average_words(const look *l) {
  double sum = 0;
  for (size_t i = 0; i < l->count; i++) sum += l->hits[i].found.words;
  return sum > 0 ? sum / (double)l->count : 1;
}

/* BM25. b is lower than usual: what people say in a turn is short, and its length tells little of its worth. */
static void score_matches(look *l) {
  const double k = 1.2, b = 0.4, average = average_words(l);
  for (size_t term = 0; term < l->terms.count; term++) {
    double idf = worth(l, term);
    l->full += idf;
    for (size_t i = 0; i < l->count; i++) {
      double times = l->hits[i].found.counts[term], words = l->hits[i].found.words;
      l->hits[i].score += idf * times * (k + 1) / (times + k * (1 - b + b * words / average));
    }
  }
}

/* Best first; of equals the newest. */
static int compare_hits(const void *a, const void *b) {
  const hit *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->id > y->id ? -1 : x->id < y->id;
}

static void sort_hits(look *l) {
  if (l->count > 1) qsort(l->hits, l->count, sizeof *l->hits, compare_hits);
}

/* Who only asked the same question before does not know the answer. */
static void discount_questions(look *l) {
  for (size_t i = 0; i < l->count; i++)
    if (l->hits[i].asks) l->hits[i].score *= 0.5;
}

/* ---- neighbours ---- */

static int add_score(look *l, int64_t id, double score) {
  for (size_t i = 0; i < l->count; i++)
    if (l->hits[i].id == id) {
      l->hits[i].score += score;
      return SQLITE_OK;
    }
  return hits_add(l, &(hit){.id = id, .score = score});
}

/* The two memories on one side of a hit gain from its score, the nearer one more. */
static int spread_to(look *l, tp__memory_sql side, int64_t id, double nearest, double second) {
  sqlite3_stmt *s = l->store->statements[side];
  double shares[] = {nearest, second};
  int rc = sqlite3_bind_int64(s, 1, l->scope.id);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 2, id);
  for (int i = 0; rc == SQLITE_OK && i < 2 && (rc = sqlite3_step(s)) == SQLITE_ROW; i++)
    rc = add_score(l, sqlite3_column_int64(s, 0), shares[i]);
  tp__memory_release(s);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* An answer comes after its question, so what follows gains more than what went before. Every share is of the score
 * that the hit had by its own words. */
static int spread(look *l) {
  enum { SPREADING_MAX = 64 };
  double own[SPREADING_MAX];
  int64_t ids[SPREADING_MAX];
  if (l->count > SPREADING_MAX) l->count = SPREADING_MAX;
  size_t count = l->count;
  for (size_t i = 0; i < count; i++) {
    own[i] = l->hits[i].score;
    ids[i] = l->hits[i].id;
  }
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < count; i++) {
    rc = spread_to(l, TP__MEMORY_SQL_NEXT, ids[i], 1.0 * own[i], 0.3 * own[i]);
    if (rc == SQLITE_OK) rc = spread_to(l, TP__MEMORY_SQL_PREVIOUS, ids[i], 0.6 * own[i], 0.3 * own[i]);
  }
  return rc;
}

/* ---- what is brought back ---- */

/* Bytes of a text that do not cut a code point. */
static size_t cut(tp_text text, size_t max) {
  if (text.size <= max) return text.size;
  while (max > 0 && ((unsigned char)text.data[max] & 0xC0) == 0x80) max--;
  return max;
}

/* Shortens a long text in its place. The excerpt of a match is where its words are densest; a neighbour's is its head.
 * Both are shorter than the text, whose block is kept. */
static int shorten(look *l, const hit *h, tp__memory *memory) {
  if (memory->text.size <= TP__MEMORY_RECALL_TEXT_MAX) return SQLITE_OK;
  sqlite3_stmt *s = l->store->statements[TP__MEMORY_SQL_EXCERPT];
  char *text = (char *)memory->text.data;
  int rc = SQLITE_DONE;
  if (h->matches) {
    rc = sqlite3_bind_text(s, 1, l->query, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK) rc = sqlite3_bind_int64(s, 2, h->id);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
  }
  const char *excerpt = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
  if (excerpt && (size_t)sqlite3_column_bytes(s, 0) <= memory->text.size) {
    memory->text.size = (size_t)sqlite3_column_bytes(s, 0);
    memcpy(text, excerpt, memory->text.size);
  }
  tp__memory_release(s);
  memory->text.size = cut(memory->text, TP__MEMORY_RECALL_TEXT_MAX);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int32_t rank_of(const look *l, const hit *h) {
  double rank = l->full > 0 ? round(1000 * h->score / l->full) : 0;
  return rank < 1 ? 1 : rank > 1000000 ? 1000000 : (int32_t)rank;
}

static bool contains(const int64_t *ids, size_t count, int64_t id) {
  for (size_t i = 0; i < count; i++)
    if (ids[i] == id) return true;
  return false;
}

static int bring_back(look *l, const int64_t *known, size_t known_count, size_t max, tp__memory_list *list) {
  size_t end = list->count + max;
  for (size_t i = 0; i < l->count && list->count < end; i++) {
    if (contains(known, known_count, l->hits[i].id)) continue;
    int rc = tp__memory_read_locked(l->store, l->scope.id, l->hits[i].id, list);
    if (rc == SQLITE_DONE) continue; /* forgotten by another process since */
    if (rc != SQLITE_OK) return rc;
    tp__memory *memory = &list->items[list->count - 1];
    memory->rank = rank_of(l, &l->hits[i]);
    rc = shorten(l, &l->hits[i], memory);
    if (rc != SQLITE_OK) return rc;
  }
  return SQLITE_OK;
}

/* ---- the two looks ---- */

static int look_for(look *l, const tp__memory_scope *scope, bool broad) {
  int rc = tp__memory_find_scope_locked(l->store, scope, &l->scope);
  if (rc == SQLITE_OK) rc = write_query(l, broad);
  if (rc == SQLITE_OK) rc = find_matches(l);
  if (rc != SQLITE_OK) return rc;
  score_matches(l);
  sort_hits(l);
  if (broad) rc = spread(l);
  discount_questions(l);
  sort_hits(l);
  return rc;
}

static tp_status look_once(tp__memory_store *store, const tp__memory_scope *scope, tp_text text, bool broad,
                           const int64_t *known, size_t known_count, size_t max, tp__memory_list *list) {
  look l = {.store = store};
  size_t count = list->count;
  tp__memory_terms_of(text, &l.terms);
  if (l.terms.count == 0) return TP_OK;
  pthread_mutex_lock(&store->mutex);
  int rc = look_for(&l, scope, broad);
  if (rc == SQLITE_OK) rc = bring_back(&l, known, known_count, max, list);
  pthread_mutex_unlock(&store->mutex);
  look_fini(&l);
  tp_status status = tp__sqlite_status(rc);
  if (status != TP_OK) tp__memory_list_cut(list, count);
  return status;
}

tp_status tp__memory_recall(tp__memory_store *store, const tp__memory_scope *scope, tp_text text, size_t max,
                            tp__memory_list *list) {
  return look_once(store, scope, text, false, NULL, 0, max, list);
}

tp_status tp__memory_recall_more(tp__memory_store *store, const tp__memory_scope *scope, tp_text text,
                                 const int64_t *known, size_t known_count, size_t max, tp__memory_list *list) {
  return look_once(store, scope, text, true, known, known_count, max, list);
}

bool tp__memory_recall_sufficient(const int32_t *ranks, size_t count, size_t max) {
  size_t good = 0;
  for (size_t i = 0; i < count; i++) good += ranks[i] >= TP__MEMORY_RECALL_GOOD;
  return good > 0 && 2 * good >= max;
}
