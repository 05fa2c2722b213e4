/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/recall.h"

#include <math.h>
#include <string.h>

#include "domains/memory/terms.h"
#include "stores/sqlite/database.h"

/* ---- excerpts of long texts ---- */

size_t tp__memory_cut(tp_text text, size_t max) {
  assert(text.data || text.size == 0);
  if (text.size <= max) return text.size;
  while (max > 0 && ((unsigned char)text.data[max] & 0xC0) == 0x80) max--;
  return max;
}

/** A memory that was found: what is wanted of the index, which is released before the texts are read. */
typedef struct found_line {
  int64_t id;
  size_t from; /* where its words are densest, in its text */
} found_line;

/** What a recall works with. */
typedef struct look {
  tp__memory_store *store;
  const tp__memory_question *asked;
  int64_t scope;
  const tp__memory_scored *scored;
  found_line *lines; /* of each */
  size_t count, at;  /* which of them was read last */
  double *parts;     /* NULL: they are not wanted */
  tp__memory_gathering into;
} look;

static bool is_query_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Bytes up to the end of a word, at most max; a longer word is cut at a code point. */
static size_t cut_at_word(tp_text text, size_t max) {
  enum { WORD_MAX = 40 };
  size_t size = tp__memory_cut(text, max), end = size;
  if (size == text.size) return size;
  while (end > 0 && size - end < WORD_MAX && !is_query_space(text.data[end])) end--;
  return end > 0 && is_query_space(text.data[end]) ? end : size;
}

/* The excerpt begins where the words are densest; that of a neighbour, which has none, is its head. An ellipsis stands
 * for what is left out. The excerpt is shorter than the text, whose block is kept. */
static void shorten(size_t from, tp__memory *memory) {
  static const char ellipsis[] = "\xE2\x80\xA6";
  enum { MARK = sizeof ellipsis - 1, EXCERPT = TP__MEMORY_RECALL_TEXT_MAX - 2 * MARK };
  tp_text text = memory->text;
  char *into = (char *)text.data;
  if (text.size <= TP__MEMORY_RECALL_TEXT_MAX) return;
  if (from > text.size - EXCERPT) from = text.size - EXCERPT;
  while (from > 0 && ((unsigned char)text.data[from] & 0xC0) == 0x80) from--;
  if (from <= MARK) from = 0;
  size_t size = cut_at_word((tp_text){text.data + from, text.size - from}, EXCERPT);
  const bool ends = from + size < text.size;
  memmove(into + (from ? MARK : 0), text.data + from, size);
  if (from) memcpy(into, ellipsis, MARK);
  memory->text.size = (from ? MARK : 0) + size + (ends ? MARK : 0);
  if (ends) memcpy(into + memory->text.size - MARK, ellipsis, MARK);
}

/* ---- the search ---- */

static int32_t rank_of(double score) {
  assert(isfinite(score));
  double rank = round(1000 * score);
  return rank < 1 ? 1 : rank > 1000000 ? 1000000 : (int32_t)rank;
}

static void write_parts(const tp__memory_scored *scored, double *into) {
  for (size_t i = 0; i < TP__MEMORY_PART_COUNT; i++)
    into[i] = tp__memory_part_rows[i].weight * (double)scored->parts[i];
}

/* Takes the rows in the order of the scores; memories that another process has deleted are missing. */
static bool take_back(void *ctx, const tp_memory_entry *entry) {
  look *l = ctx;
  tp__memory_list *list = l->into.list;
  while (l->at < l->count && l->lines[l->at].id != entry->id) l->at++;
  assert(l->at < l->count);
  if (!tp__memory_gather_entry(&l->into, entry)) return false;
  const tp__memory_scored *scored = &l->scored[l->at];
  tp__memory *memory = &list->items[list->count - 1];
  memory->rank = rank_of(scored->score);
  if (l->parts) write_parts(scored, l->parts + (list->count - 1 - l->into.before) * TP__MEMORY_PART_COUNT);
  shorten(l->lines[l->at].from, memory);
  return true;
}

static tp_status fetch_back(look *l) {
  const tp_memory_store *rows = &l->store->rows;
  if (l->count == 0) return TP_OK;
  int64_t *ids = sqlite3_malloc64(l->count * sizeof *ids);
  if (!ids) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < l->count; i++) ids[i] = l->lines[i].id;
  tp_status status = rows->get(rows->ctx, l->scope, ids, l->count, take_back, l, NULL);
  sqlite3_free(ids);
  return status;
}

static tp_status note_lines(look *l, const tp__memory_index *index) {
  if (l->count == 0) return TP_OK;
  l->lines = sqlite3_malloc64(l->count * sizeof *l->lines);
  if (!l->lines) return TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < l->count; i++) {
    const tp__memory_line *line = &index->lines[l->scored[i].line];
    assert(l->scored[i].passage < line->passage_count);
    l->lines[i] = (found_line){line->id, index->passages[line->passage + l->scored[i].passage]};
  }
  return TP_OK;
}

static tp_status search(look *l, const tp__memory_scope *scope, size_t max) {
  tp__memory_index *index = NULL;
  tp__memory_scored *scored = NULL;
  tp_status status = tp__memory_index_use(l->store, scope, &index);
  if (status != TP_OK || !index) return status;
  l->scope = index->mark.scope;
  status = tp__sqlite_status(tp__memory_score(l->store, index, l->asked, max, &scored, &l->count));
  l->scored = scored;
  if (status == TP_OK) status = note_lines(l, index);
  tp__memory_index_release(l->store, index);
  if (status == TP_OK) status = fetch_back(l);
  sqlite3_free(l->lines);
  sqlite3_free(scored);
  return status;
}

tp_status tp__memory_recall_explained(tp__memory_store *store, const tp__memory_scope *scope,
                                      const tp__memory_question *asked, size_t max, tp__memory_list *list,
                                      double *ret_parts) {
  look l = {.store = store, .asked = asked, .parts = ret_parts, .into = tp__memory_gather(list)};
  return tp__memory_gathered(&l.into, search(&l, scope, max));
}

tp_status tp__memory_recall(tp__memory_store *store, const tp__memory_scope *scope, tp_text text, size_t max,
                            tp__memory_list *list) {
  return tp__memory_recall_explained(store, scope, &(tp__memory_question){.text = text}, max, list, NULL);
}

/* ---- whether two texts are about the same ---- */

typedef struct stems_seen {
  char bytes[TP__MEMORY_TERMS_MAX][TP__MEMORY_TERM_BYTES_MAX];
  size_t sizes[TP__MEMORY_TERMS_MAX];
  size_t count;
  bool shared;
} stems_seen;

static int note_stem(void *ctx, tp_text stem, tp_text word) {
  stems_seen *seen = ctx;
  (void)word;
  if (seen->count == TP__MEMORY_TERMS_MAX || stem.size > TP__MEMORY_TERM_BYTES_MAX) return SQLITE_OK;
  memcpy(seen->bytes[seen->count], stem.data, stem.size);
  assert(seen->count < sizeof seen->sizes / sizeof *seen->sizes);
  seen->sizes[seen->count++] = stem.size;
  return SQLITE_OK;
}

static int look_for_stem(void *ctx, tp_text stem, tp_text word) {
  stems_seen *seen = ctx;
  (void)word;
  for (size_t i = 0; i < seen->count; i++)
    if (seen->sizes[i] == stem.size && memcmp(seen->bytes[i], stem.data, stem.size) == 0) seen->shared = true;
  return SQLITE_OK;
}

tp_status tp__memory_is_related(tp__memory_store *store, tp_text a, tp_text b, bool *ret_related) {
  tp__memory_terms first, second;
  stems_seen seen = {.count = 0};
  int rc = SQLITE_OK;
  tp__memory_terms_of(a, &first);
  tp__memory_terms_of(b, &second);
  for (size_t i = 0; rc == SQLITE_OK && i < first.count; i++)
    rc = tp__memory_stems(store, first.items[i], note_stem, &seen);
  for (size_t i = 0; rc == SQLITE_OK && i < second.count; i++)
    rc = tp__memory_stems(store, second.items[i], look_for_stem, &seen);
  if (rc == SQLITE_OK) *ret_related = seen.shared || first.count == 0 || second.count == 0;
  return tp__sqlite_status(rc);
}
