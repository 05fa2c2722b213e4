/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/index.h"

#include <string.h>

#include "domains/memory/terms.h"
#include "domains/memory/times.h"
#include "stores/sqlite/database.h"

const float tp__memory_share_before[] = {0.7f, 0.4f, 0.2f}, tp__memory_share_after[] = {0.4f, 0.2f};

/* ---- growing ---- */

/* Doubles an array when it is full. @return false without memory: the array is unchanged. */
static bool grow(void **array, size_t *capacity, size_t needed, size_t size, size_t *bytes) {
  if (needed <= *capacity) return true;
  size_t wanted = *capacity ? 2 * *capacity : 4;
  while (wanted < needed) wanted *= 2;
  void *grown = sqlite3_realloc64(*array, wanted * size);
  if (!grown) return false;
  *bytes += (wanted - *capacity) * size;
  *array = grown;
  *capacity = wanted;
  return true;
}

uint64_t tp__memory_hash(tp_text text) {
  static const uint64_t FACTOR = UINT64_C(0x9E3779B97F4A7C15);
  uint64_t hash = text.size * FACTOR, word;
  for (size_t at = 0; at < text.size; at += sizeof word) {
    const size_t left = text.size - at;
    word = 0;
    memcpy(&word, text.data + at, left < sizeof word ? left : sizeof word);
    hash = (hash ^ word) * FACTOR;
    hash ^= hash >> 29;
  }
  return hash;
}

/* ---- names ---- */

static uint32_t hash_of_term(tp_text text) {
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < text.size; i++) hash = (hash ^ (unsigned char)text.data[i]) * 16777619u;
  return hash ^ hash >> 15;
}

static tp_text name_at(const tp__memory_names *names, int32_t number) {
  uint32_t start = names->starts[number];
  return (tp_text){names->bytes + start, names->starts[number + 1] - start};
}

/* Returns the slot of a name, or the free slot where it belongs. There is always a free slot. */
static size_t slot_of(const tp__memory_names *names, tp_text name) {
  size_t mask = names->slot_count - 1, at = hash_of_term(name) & mask;
  for (; names->slots[at] != TP__MEMORY_NONE; at = (at + 1) & mask) {
    if (tp__same(name_at(names, names->slots[at]), name)) break;
  }
  return at;
}

static int32_t names_find(const tp__memory_names *names, tp_text name) {
  return names->slot_count ? names->slots[slot_of(names, name)] : TP__MEMORY_NONE;
}

static bool grow_slots(tp__memory_names *names, size_t *bytes) {
  if (2 * (names->count + 1) <= names->slot_count) return true;
  size_t count = names->slot_count ? 2 * names->slot_count : 64;
  int32_t *slots = sqlite3_malloc64(count * sizeof *slots);
  if (!slots) return false;
  memset(slots, 0xFF, count * sizeof *slots); /* TP__MEMORY_NONE */
  *bytes += (count - names->slot_count) * sizeof *slots;
  sqlite3_free(names->slots);
  names->slots = slots;
  names->slot_count = count;
  for (size_t i = 0; i < names->count; i++) slots[slot_of(names, name_at(names, (int32_t)i))] = (int32_t)i;
  return true;
}

/* @return its number; TP__MEMORY_NONE without memory. */
static int32_t names_add(tp__memory_names *names, tp_text name, size_t *bytes) {
  int32_t number = names_find(names, name);
  if (number != TP__MEMORY_NONE) return number;
  if (!grow_slots(names, bytes)) return TP__MEMORY_NONE;
  if (!grow((void **)&names->starts, &names->capacity, names->count + 2, sizeof *names->starts, bytes))
    return TP__MEMORY_NONE;
  if (!grow((void **)&names->bytes, &names->bytes_capacity, names->bytes_used + name.size + 1, 1, bytes))
    return TP__MEMORY_NONE;
  if (names->count == 0) names->starts[0] = 0;
  if (name.size) memcpy(names->bytes + names->bytes_used, name.data, name.size);
  names->bytes_used += name.size;
  number = (int32_t)names->count++;
  names->starts[number + 1] = (uint32_t)names->bytes_used;
  names->slots[slot_of(names, name)] = number; /* the name is stored already, so slot_of() returns the free slot for
                                                  it */
  return number;
}

static void names_fini(tp__memory_names *names) {
  sqlite3_free(names->bytes);
  sqlite3_free(names->starts);
  sqlite3_free(names->slots);
}

int32_t tp__memory_term_find(const tp__memory_index *index, tp_text stem) {
  return names_find(&index->terms_names, stem);
}

tp_text tp__memory_term_text(const tp__memory_index *index, int32_t term) {
  assert(term >= 0 && (size_t)term < index->terms_names.count);
  return name_at(&index->terms_names, term);
}

/* ---- stems ---- */

typedef struct stem_walk {
  tp_text text;
  tp__memory_stem_fn on_word;
  void *ctx;
} stem_walk;

/* Returns the letters at the start of a text that are all of scripts without spaces, or all of other scripts. */
static tp_text run_of(tp_text text, bool *ret_unspaced) {
  size_t size = 0;
  tp_text run = {text.data, 0};
  *ret_unspaced = tp__memory_is_unspaced(tp__memory_point(text, &size));
  while (run.size + size <= text.size) {
    run.size += size;
    if (run.size == text.size) break;
    tp_text left = {text.data + run.size, text.size - run.size};
    if (tp__memory_is_unspaced(tp__memory_point(left, &size)) != *ret_unspaced) break;
  }
  return run;
}

/* Passes each pair of adjacent letters; a single letter by itself. */
static int on_pairs(const stem_walk *walk, tp_text run, tp_text word) {
  size_t first = 0, second = 0;
  tp__memory_point(run, &first);
  if (first == run.size) return walk->on_word(walk->ctx, run, word);
  for (int rc = SQLITE_OK;; run.data += first, run.size -= first, first = second) {
    tp__memory_point((tp_text){run.data + first, run.size - first}, &second);
    rc = walk->on_word(walk->ctx, (tp_text){run.data, first + second}, word);
    if (rc != SQLITE_OK || first + second == run.size) return rc;
  }
}

/* Folds a letter further than SQLite's tokenizer does: removes points and accents that people leave out, and unifies
 * the forms of a letter.
 * @return 0: the letter is removed. */
static uint32_t fold_point(uint32_t point) {
  static const uint32_t pairs[][2] = {
      {0x3AC, 0x3B1}, {0x3AD, 0x3B5}, {0x3AE, 0x3B7}, {0x3AF, 0x3B9}, {0x3CC, 0x3BF}, {0x3CD, 0x3C5}, {0x3CE, 0x3C9},
      {0x3CA, 0x3B9}, {0x3CB, 0x3C5}, {0x390, 0x3B9}, {0x3B0, 0x3C5}, {0x3C2, 0x3C3}, {0x451, 0x435}, {0x439, 0x438},
      {0x457, 0x456}, {0x622, 0x627}, {0x623, 0x627}, {0x625, 0x627}, {0x671, 0x627}, {0x629, 0x647}, {0x649, 0x6CC},
      {0x64A, 0x6CC}, {0x643, 0x6A9}, {0x131, 'i'},   {0x142, 'l'},   {0xF8, 'o'},    {0x111, 'd'},   {0x5DA, 0x5DB},
      {0x5DD, 0x5DE}, {0x5DF, 0x5E0}, {0x5E3, 0x5E4}, {0x5E5, 0x5E6}};
  if ((point >= 0x300 && point <= 0x36F) || (point >= 0x591 && point <= 0x5C7) || point == 0x640 ||
      (point >= 0x64B && point <= 0x65F) || point == 0x670 || (point >= 0x6D6 && point <= 0x6ED))
    return 0;
  for (size_t i = 0; point > 0x7F && point < 0x700 && i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i][0] == point) return pairs[i][1];
  return point;
}

/* Folds a token; when it is longer than the buffer, its beginning. No letter becomes longer. */
static tp_text fold(tp_text token, char *buffer, size_t max) {
  size_t used = 0, size = 0;
  for (; token.size > 0 && used + 4 <= max; token.data += size, token.size -= size) {
    uint32_t point = tp__memory_point(token, &size), folded = fold_point(point);
    if (folded == point) memcpy(buffer + used, token.data, size);
    if (folded == point) used += size;
    else if (folded > 0 && folded < 0x80) buffer[used++] = (char)folded;
    else if (folded > 0) {
      buffer[used++] = (char)(0xC0 | folded >> 6); /* all folded letters are below U+0800 */
      buffer[used++] = (char)(0x80 | (folded & 0x3F));
    }
  }
  return (tp_text){buffer, used};
}

static int on_token(void *ctx, int flags, const char *token, int size, int start, int end) {
  const stem_walk *walk = ctx;
  const tp_text word = {walk->text.data + start, (size_t)(end - start)};
  char folded[1024];
  tp_text left = {token, (size_t)size};
  int rc = SQLITE_OK;
  for (int i = 0; i < size && left.data == token; i++)
    if ((unsigned char)token[i] >= 0xC0) left = fold(left, folded, sizeof folded);
  if (flags & FTS5_TOKEN_COLOCATED) return SQLITE_OK;
  const tp_text base = tp__memory_base_stem(word);
  if (base.size > 0) left = base;
  while (rc == SQLITE_OK && left.size > 0) {
    bool unspaced;
    tp_text run = run_of(left, &unspaced);
    rc = unspaced ? on_pairs(walk, run, word) : walk->on_word(walk->ctx, run, word);
    left.data += run.size;
    left.size -= run.size;
  }
  return rc;
}

int tp__memory_stems(tp__memory_store *store, tp_text text, tp__memory_stem_fn on_word, void *ctx) {
  stem_walk walk = {text, on_word, ctx};
  tp__lock_acquire(&store->mutex);
  int rc =
      store->tokenizer.xTokenize(store->stemmer, &walk, FTS5_TOKENIZE_DOCUMENT, text.data, (int)text.size, on_token);
  tp__lock_release(&store->mutex);
  return rc;
}

/* ---- what a line is ---- */

static const char *const month_names[] = {"january", "february", "march",     "april",   "may",      "june",
                                          "july",    "august",   "september", "october", "november", "december"};

int tp__memory_month_of(tp_text word) {
  for (int i = 0; i < 12; i++)
    if (tp__memory_same_word(word, tp_text_of(month_names[i]))) return i + 1;
  return 0;
}

/* ---- taking up a line ---- */

typedef struct line_reader {
  tp__memory_index *index;
  tp_text text;
  tp_text speaker;
  uint32_t line;
} line_reader;

/* Ends the passage at the first word beyond the size of a passage. */
static int cut_passage(line_reader *r, size_t at) {
  tp__memory_index *index = r->index;
  tp__memory_line *line = &index->lines[r->line];
  if (line->passage_count && (line->passage_count > UINT16_MAX ||
                              at < index->passages[index->passage_count - 1] + (size_t)TP__MEMORY_PASSAGE_BYTES))
    return SQLITE_OK;
  if (!grow((void **)&index->passages, &index->passage_capacity, index->passage_count + 1, sizeof *index->passages,
            &index->bytes))
    return SQLITE_NOMEM;
  if (line->passage_count++ == 0) line->passage = (uint32_t)index->passage_count;
  index->passages[index->passage_count++] = line->passage_count > 1 ? (uint32_t)at : 0;
  return SQLITE_OK;
}

static int add_posting(line_reader *r, int32_t number) {
  tp__memory_term *term = &r->index->terms[number];
  tp__memory_posting *last = term->count ? &term->postings[term->count - 1] : NULL;
  const bool again = last && last->line == r->line;
  const uint16_t passage = (uint16_t)(r->index->lines[r->line].passage_count - 1);
  if (again && last->passage == passage) {
    if (last->times < UINT16_MAX) last->times++;
    return SQLITE_OK;
  }
  size_t capacity = term->capacity;
  if (!grow((void **)&term->postings, &capacity, term->count + 1u, sizeof *term->postings, &r->index->bytes))
    return SQLITE_NOMEM;
  term->capacity = (uint32_t)capacity;
  term->postings[term->count++] = (tp__memory_posting){r->line, 1, passage};
  term->lines += !again;
  return SQLITE_OK;
}

static int take_word(void *ctx, tp_text stem, tp_text word) {
  line_reader *r = ctx;
  tp__memory_line *line = &r->index->lines[r->line];
  if (tp__memory_is_stop_word(word)) return SQLITE_OK;
  int32_t number = names_add(&r->index->terms_names, stem, &r->index->bytes);
  size_t before = r->index->term_capacity;
  if (number == TP__MEMORY_NONE || !grow((void **)&r->index->terms, &r->index->term_capacity, (size_t)number + 1,
                                         sizeof *r->index->terms, &r->index->bytes))
    return SQLITE_NOMEM;
  if (before < r->index->term_capacity)
    memset(r->index->terms + before, 0, (r->index->term_capacity - before) * sizeof *r->index->terms);
  if (r->speaker.size > 0 && word.data < r->speaker.data + r->speaker.size) {
    if (line->speaker == TP__MEMORY_NONE) {
      line->speaker = number;
      r->index->terms[number].spoken++;
    }
  } else {
    line->words++;
  }
  int rc = cut_passage(r, (size_t)(word.data - r->text.data));
  return rc == SQLITE_OK ? add_posting(r, number) : rc;
}

static bool ends_asking(tp_text text) {
  while (text.size && memchr(" \t\r\n", text.data[text.size - 1], 4)) text.size--;
  return text.size && text.data[text.size - 1] == '?';
}

/* Whether the text only asks: "I have two drafts, can you read them?" states something, "Can you read my drafts?" does
 * not. */
static bool begins_asking(tp_text text) {
  static const char
      before[] = "and|so|but|ok|okay|wow",
      asking[] =
          "what|who|whom|whose|where|when|why|how|which|do|does|did|is|are|was|were|can|could|will|would|should|shall|"
          "have|has|had|may|any";
  const tp_text name = tp__memory_name_before(text);
  tp__memory_words words = {.left = {text.data + name.size, text.size - name.size}};
  for (int i = 0; i < 2 && tp__memory_words_next(&words); i++) {
    if (tp__memory_is_one_of(words.word, asking, sizeof asking - 1)) return true;
    if (!tp__memory_is_one_of(words.word, before, sizeof before - 1)) return false;
  }
  return false;
}

static bool has_digit(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] >= '0' && text.data[i] <= '9') return true;
  return false;
}

/* @param is_fact  then it has no neighbours, since it was not said in the session. */
static int join_session(tp__memory_index *index, tp_text name, uint32_t at, bool is_fact) {
  int32_t number = names_add(&index->session_names, name, &index->bytes);
  size_t before = index->session_capacity;
  if (number == TP__MEMORY_NONE || !grow((void **)&index->sessions, &index->session_capacity, (size_t)number + 1,
                                         sizeof *index->sessions, &index->bytes))
    return SQLITE_NOMEM;
  for (size_t i = before; i < index->session_capacity; i++)
    index->sessions[i] = (tp__memory_session){TP__MEMORY_NONE, 0};
  tp__memory_session *session = &index->sessions[number];
  tp__memory_line *line = &index->lines[at];
  line->session = number;
  line->place = session->count;
  if (is_fact) return SQLITE_OK;
  session->count++;
  index->links[at].previous = session->last;
  if (session->last != TP__MEMORY_NONE) index->links[session->last].next = (int32_t)at;
  session->last = (int32_t)at;
  return SQLITE_OK;
}

/* Adds the words of the line to the windows of the lines before it, and their words to its own window. */
static void widen_windows(tp__memory_index *index, uint32_t at) {
  static const float NEAR_WORDS = 30; /* for a line with this many words its neighbours count half as much as for a very
                                         short line */
  tp__memory_line *line = &index->lines[at];
  tp__memory_links *links = &index->links[at];
  const float lengths = (float)line->words / NEAR_WORDS;
  links->near = 1 / (1 + lengths * lengths);
  line->window_words = 1 + (float)line->words;
  int32_t previous = index->links[at].previous;
  for (int i = 0; i < TP__MEMORY_LINES_BEFORE && previous != TP__MEMORY_NONE; i++) {
    tp__memory_line *other = &index->lines[previous];
    const tp__memory_links *their = &index->links[previous];
    line->window_words += tp__memory_share_before[i] * links->near * (float)other->words;
    if (i < TP__MEMORY_LINES_AFTER) other->window_words += tp__memory_share_after[i] * their->near * (float)line->words;
    previous = their->previous;
  }
}

static bool add_days(void *ctx, tp__memory_days days) {
  line_reader *r = ctx;
  tp__memory_index *index = r->index;
  if (index->days_count >= UINT32_MAX ||
      !grow((void **)&index->days, &index->days_capacity, index->days_count + 1, sizeof *index->days, &index->bytes))
    return false;
  index->days[index->days_count++] = days;
  return true;
}

static int take_days(line_reader *r) {
  tp__memory_line *line = &r->index->lines[r->line];
  line->said_day = line->said_ms > 0 ? (int32_t)tp__memory_day_of(line->said_ms) : TP__MEMORY_NO_DAY;
  if (line->said_day != TP__MEMORY_NO_DAY) {
    if (line->said_day < r->index->first_said_day) r->index->first_said_day = line->said_day;
    if (line->said_day > r->index->last_said_day) r->index->last_said_day = line->said_day;
  }
  line->days = (uint32_t)r->index->days_count;
  if (!tp__memory_dates_of_line(r->text, line->said_day, add_days, r)) return SQLITE_NOMEM;
  line->days_count = (uint32_t)r->index->days_count - line->days;
  return SQLITE_OK;
}

static int take_index_line(tp__memory_store *store, tp__memory_index *index, const tp_memory_entry *entry) {
  const tp_text text = entry->text;
  if (index->line_count >= INT32_MAX ||
      !grow((void **)&index->lines, &index->line_capacity, index->line_count + 1, sizeof *index->lines,
            &index->bytes) ||
      !grow((void **)&index->links, &index->link_capacity, index->line_count + 1, sizeof *index->links, &index->bytes))
    return SQLITE_NOMEM;
  uint32_t at = (uint32_t)index->line_count;
  tp__memory_line *line = &index->lines[at];
  *line = (tp__memory_line){.id = entry->id, .said_ms = entry->said_unix_ms, .hash = tp__memory_hash(text)};
  line->speaker = TP__MEMORY_NONE;
  index->links[at] = (tp__memory_links){TP__MEMORY_NONE, TP__MEMORY_NONE, 1};
  line->flags = (ends_asking(text) ? TP__MEMORY_LINE_ASKS : 0) | (has_digit(text) ? TP__MEMORY_LINE_NUMBER : 0) |
                (ends_asking(text) && begins_asking(text) ? TP__MEMORY_LINE_ONLY_ASKS : 0) |
                (tp__memory_is_assistant(entry->part) ? TP__MEMORY_LINE_ASSISTANT : 0);
  line_reader reader = {.index = index, .text = text, .speaker = tp__memory_name_before(text), .line = at};
  int rc = join_session(index, entry->session, at, entry->subject.size > 0);
  if (rc == SQLITE_OK) rc = tp__memory_stems(store, text, take_word, &reader);
  if (rc == SQLITE_OK) rc = cut_passage(&reader, 0);
  if (rc == SQLITE_OK) rc = take_days(&reader);
  if (rc == SQLITE_OK) widen_windows(index, at);
  index->words += index->lines[at].words;
  index->line_count++;
  return rc;
}

/* ---- the indexes of a store ---- */

/* Keeps whose it is, and its places among the indexes. */
static void index_empty(tp__memory_index *index) {
  const tp__memory_index had = *index;
  for (size_t i = 0; i < had.term_capacity; i++) sqlite3_free(had.terms[i].postings);
  sqlite3_free(had.terms);
  sqlite3_free(had.sessions);
  sqlite3_free(had.lines);
  sqlite3_free(had.links);
  sqlite3_free(had.passages);
  sqlite3_free(had.days);
  sqlite3_free(had.scratch);
  sqlite3_free(had.passage_scratch);
  sqlite3_free(had.session_scratch);
  names_fini(&index->terms_names);
  names_fini(&index->session_names);
  *index =
      (tp__memory_index){.older = had.older,
                         .newer = had.newer,
                         .in_bucket = had.in_bucket,
                         .is_used = had.is_used,
                         .counted = had.counted,
                         .owner = had.owner,
                         .names = had.names,
                         .mark.struct_size = sizeof had.mark,
                         .bytes = sizeof *index + had.owner.tenant.size + had.owner.kind.size + had.owner.name.size,
                         .first_said_day = INT32_MAX,
                         .last_said_day = INT32_MIN};
}

static void index_free(tp__memory_index *index) {
  index_empty(index);
  sqlite3_free(index->names);
  sqlite3_free(index);
}

void tp__memory_indexes_free(tp__memory_store *store) {
  while (store->indexes) {
    tp__memory_index *index = store->indexes;
    store->indexes = index->older;
    index_free(index);
  }
  store->oldest_index = NULL;
  store->index_bytes = 0;
  memset(store->index_buckets, 0, sizeof store->index_buckets);
}

static tp__memory_index **scope_bucket(tp__memory_store *store, const tp__memory_scope *scope) {
  uint64_t hash = tp__memory_hash(scope->tenant) ^ 3 * tp__memory_hash(scope->kind) ^ 5 * tp__memory_hash(scope->name);
  return &store->index_buckets[(hash ^ hash >> 32) % TP__MEMORY_INDEX_BUCKETS];
}

static bool is_of(const tp__memory_index *index, const tp__memory_scope *scope) {
  return tp__same(index->owner.tenant, scope->tenant) && tp__same(index->owner.kind, scope->kind) &&
         tp__same(index->owner.name, scope->name);
}

static tp__memory_index *find_index(tp__memory_store *store, const tp__memory_scope *scope) {
  tp__memory_index *index = *scope_bucket(store, scope);
  while (index && !is_of(index, scope)) index = index->in_bucket;
  return index;
}

/* What that costs does not depend on how many there are. */
static void take_out(tp__memory_store *store, tp__memory_index *index) {
  tp__memory_index **at = scope_bucket(store, &index->owner);
  while (*at != index) at = &(*at)->in_bucket;
  assert(*at == index);
  *at = index->in_bucket;
  *(index->newer ? &index->newer->older : &store->indexes) = index->older;
  *(index->older ? &index->older->newer : &store->oldest_index) = index->newer;
  index->in_bucket = index->older = index->newer = NULL;
  store->index_bytes -= index->counted;
  index->counted = 0;
}

/* One may have grown while it was used. */
static void count_bytes(tp__memory_store *store, tp__memory_index *index) {
  store->index_bytes += index->bytes - index->counted;
  index->counted = index->bytes;
}

static void put_in(tp__memory_store *store, tp__memory_index *index) {
  tp__memory_index **bucket = scope_bucket(store, &index->owner);
  index->in_bucket = *bucket;
  *bucket = index;
  index->older = store->indexes;
  *(store->indexes ? &store->indexes->newer : &store->oldest_index) = index;
  store->indexes = index;
  count_bytes(store, index);
}

#ifdef TP_CHECKS
static void index_check(const tp__memory_index *index) {
  assert(index->mark.scope > 0);
  assert(index->line_count <= index->line_capacity && index->line_count <= index->link_capacity);
  assert(index->terms_names.count <= index->term_capacity && index->session_names.count <= index->session_capacity);
  for (size_t i = 0; i < index->line_count && i < TP__CHECK_ITEMS_MAX; i++) {
    const tp__memory_line *line = &index->lines[i];
    /* Ids rise; neighbours are lines; the session and the speaker have names. */
    assert(line->id > 0 && (i == 0 || line->id > index->lines[i - 1].id));
    assert(index->links[i].previous < (int32_t)i && index->links[i].next < (int32_t)index->line_count);
    assert(line->session >= 0 && (size_t)line->session < index->session_names.count);
    assert(line->speaker == TP__MEMORY_NONE || (size_t)line->speaker < index->terms_names.count);
  }
}
#endif

static tp__memory_index *index_new(const tp__memory_scope *scope) {
  tp__memory_index *index = sqlite3_malloc64(sizeof *index);
  char *names = sqlite3_malloc64(scope->tenant.size + scope->kind.size + scope->name.size + 1), *next = names;
  if (!index || !names) {
    sqlite3_free(index);
    sqlite3_free(names);
    return NULL;
  }
  *index = (tp__memory_index){.names = names};
  index->owner.tenant = tp__memory_put_text(&next, scope->tenant);
  index->owner.kind = tp__memory_put_text(&next, scope->kind);
  index->owner.name = tp__memory_put_text(&next, scope->name);
  index_empty(index);
  return index;
}

/** An index that is updated from the rows of the table. */
typedef struct taking {
  tp__memory_store *store;
  tp__memory_index *index;
  bool is_anew, was_anew; /* what the index had is void; that was seen to */
  int rc;
} taking;

static void begin_anew(taking *t) {
  assert(t->index->is_used);
  if (!t->is_anew || t->was_anew) return;
  t->was_anew = true;
  if (t->index->line_count > 0) index_empty(t->index);
}

static bool take_entry(void *ctx, const tp_memory_entry *entry) {
  taking *t = ctx;
  begin_anew(t);
  t->rc = take_index_line(t->store, t->index, entry);
  return t->rc == SQLITE_OK;
}

/* @return TP_OK with an index that is up to date, or with one whose mark has no scope: nothing was ever kept. */
static tp_status take_up(taking *t) {
  const tp_memory_store *rows = &t->store->rows;
  const tp_memory_scope owner = tp__memory_owner_of(&t->index->owner);
  const tp_memory_mark had = t->index->mark;
  tp_memory_mark mark = {.struct_size = sizeof mark};
  tp_status status = rows->news(rows->ctx, &owner, &had, &t->is_anew, take_entry, t, &mark, NULL);
  if (status == TP_OK) begin_anew(t); /* also where nothing is left */
  if (t->rc != SQLITE_OK) status = tp__sqlite_status(t->rc);
  if (status == TP_OK) t->index->mark = mark;
  return status;
}

/* Of a scope, made where there is none: it is the caller's until it is released. @return NULL without memory. */
static tp__memory_index *claim_index(tp__memory_store *store, const tp__memory_scope *scope) {
  tp__memory_index *index;
  tp__lock_acquire(&store->mutex);
  while ((index = find_index(store, scope)) && index->is_used) tp__lock_condition_wait(&store->released, &store->mutex);
  if (index) take_out(store, index);
  else index = index_new(scope);
  if (index) {
    index->is_used = true;
    put_in(store, index);
  }
  tp__lock_release(&store->mutex);
  return index;
}

/* The first one was used last, and stays. */
static void keep_bound(tp__memory_store *store) {
  for (tp__memory_index *index = store->oldest_index; index && index != store->indexes;) {
    tp__memory_index *newer = index->newer;
    if (store->index_bytes <= store->index_bytes_max) return;
    if (!index->is_used) {
      take_out(store, index);
      index_free(index);
    }
    index = newer;
  }
}

static void give_up_index(tp__memory_store *store, tp__memory_index *index) {
  assert(index->is_used);
  tp__lock_acquire(&store->mutex);
  take_out(store, index);
  tp__lock_condition_broadcast(&store->released);
  tp__lock_release(&store->mutex);
  index_free(index);
}

tp_status tp__memory_index_use(tp__memory_store *store, const tp__memory_scope *scope, tp__memory_index **ret_index) {
  taking t = {.store = store, .index = claim_index(store, scope)};
  *ret_index = NULL;
  if (!t.index) return TP_ERR_NO_MEMORY;
  tp_status status = take_up(&t);
  if (status != TP_OK || t.index->mark.scope == 0) {
    give_up_index(store, t.index);
    return status;
  }
  TP__CHECK(index_check(t.index));
  *ret_index = t.index;
  return TP_OK;
}

void tp__memory_index_release(tp__memory_store *store, tp__memory_index *index) {
  tp__lock_acquire(&store->mutex);
  assert(index->is_used);
  index->is_used = false;
  count_bytes(store, index);
  keep_bound(store);
  tp__lock_condition_broadcast(&store->released);
  tp__lock_release(&store->mutex);
}
