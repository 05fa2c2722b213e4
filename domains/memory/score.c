/* SPDX-License-Identifier: Apache-2.0
 *
 * The term counts of neighbouring lines are summed, each with the weight of its distance, before they saturate, since a
 * conversation says one thing over several lines. The words of a text are processed one by one, so the cost is that of
 * their postings. */
#include "domains/memory/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "domains/memory/terms.h"
#include "domains/memory/times.h"

const tp__memory_part_row tp__memory_part_rows[TP__MEMORY_PART_COUNT] = {
#define PART(name, weight, words) {#name, words, weight},
#include "domains/memory/weights.def"
#undef PART
};

/* ---- what the text asks ---- */

/** A searched word of the text. */
typedef struct wanted {
  int32_t term;
  double worth;
} wanted;

enum { DAYS_MAX = 64 }; /* the most days that a question names */

typedef struct question {
  const tp__memory_index *index;
  wanted words[TP__MEMORY_TERMS_MAX];
  int32_t speakers[TP__MEMORY_TERMS_MAX]; /* terms that are names of speakers in the scope */
  size_t count, speaker_count;
  double full;                    /* the sum of the worths of all words */
  tp__memory_days days[DAYS_MAX]; /* the days that the text names */
  size_t day_count;
  bool of_user, of_assistant; /* set when the text asks what this party said */
  bool wants_number;
} question;

/* Whether a term is the name of a party: a speaker of at least every eighth line is not the subject of the
 * conversation. */
static bool is_speaker(const tp__memory_index *index, int32_t term) {
  return index->terms[term].spoken >= 2 && 8 * (size_t)index->terms[term].spoken >= index->line_count;
}

/* The worth of a term: the rarer it is in the scope, the higher. Never negative. */
static double worth_of(const tp__memory_index *index, int32_t term) {
  double with = index->terms[term].lines, all = (double)index->line_count;
  return log(1.0 + (all - with + 0.5) / (with + 0.5));
}

static void want(question *q, int32_t term, double share) {
  for (size_t i = 0; i < q->count; i++)
    if (q->words[i].term == term) return;
  if (q->count == TP__MEMORY_TERMS_MAX) return;
  q->words[q->count++] = (wanted){term, share * worth_of(q->index, term)};
}

static bool begins(tp_text text, tp_text with) {
  return text.size > with.size && memcmp(text.data, with.data, with.size) == 0;
}

static bool ends(tp_text text, tp_text with) {
  return text.size > with.size && memcmp(text.data + text.size - with.size, with.data, with.size) == 0;
}

/* Also searches for longer words: a word that was never said may be the beginning of words that were said, and a single
 * letter of a script without spaces may be in any pair that was said. */
static void want_longer(question *q, tp_text stem) {
  enum { STEM_BYTES_MIN = 5, LONGER_MAX = 4, PAIRS_MAX = 16 };
  size_t found = 0, size = 0;
  const bool is_letter = stem.size > 0 && tp__memory_is_unspaced(tp__memory_point(stem, &size)) && size == stem.size;
  if (stem.size < STEM_BYTES_MIN && !is_letter) return;
  for (size_t i = 0; i < q->index->terms_names.count && found < (is_letter ? PAIRS_MAX : LONGER_MAX); i++) {
    tp_text other = tp__memory_term_text(q->index, (int32_t)i);
    if (!begins(other, stem) && !(is_letter && ends(other, stem))) continue;
    want(q, (int32_t)i, 0.5);
    found++;
  }
}

/* Counts the letters that two words share at their starts, and the letters that follow these. */
static size_t common_letters(tp_text a, tp_text b, size_t *ret_rest) {
  size_t same = 0, letters = 0, rest[2] = {0, 0};
  while (same < a.size && same < b.size && a.data[same] == b.data[same]) same++;
  while (same > 0 && same < a.size && ((unsigned char)a.data[same] & 0xC0) == 0x80) same--;
  for (size_t i = 0; i < same; i++) letters += ((unsigned char)a.data[i] & 0xC0) != 0x80;
  for (size_t i = same; i < a.size; i++) rest[0] += ((unsigned char)a.data[i] & 0xC0) != 0x80;
  for (size_t i = same; i < b.size; i++) rest[1] += ((unsigned char)b.data[i] & 0xC0) != 0x80;
  *ret_rest = rest[0] > rest[1] ? rest[0] : rest[1];
  return letters;
}

/* Also searches for other forms of a word. English words have a stemmer. In other languages, words that share their
 * first letters and differ in a short ending are often forms of one word. */
static void want_forms(question *q, tp_text stem, tp_text word) {
  enum { FORMS_MAX = 8, LETTERS_MIN = 4, ENDING_MAX = 3 };
  size_t found = 0, rest = 0, ascii = 0;
  while (ascii < word.size && (unsigned char)word.data[ascii] < 0x80) ascii++;
  if (ascii == word.size || stem.size < LETTERS_MIN || tp__memory_is_unspaced(tp__memory_point(stem, &rest))) return;
  for (size_t i = 0; i < q->index->terms_names.count && found < FORMS_MAX; i++) {
    tp_text other = tp__memory_term_text(q->index, (int32_t)i);
    if (other.size < LETTERS_MIN || other.data[0] != stem.data[0] || other.data[1] != stem.data[1]) continue;
    size_t letters = common_letters(stem, other, &rest);
    if (rest == 0 || letters < LETTERS_MIN || rest > ENDING_MAX || 2 * rest > letters) continue;
    want(q, (int32_t)i, 0.5);
    found++;
  }
}

static int take_stem(void *ctx, tp_text stem, tp_text word) {
  question *q = ctx;
  int32_t term = tp__memory_term_find(q->index, stem);
  if (term == TP__MEMORY_NONE) want_longer(q, stem);
  else if (!is_speaker(q->index, term)) want(q, term, 1);
  else if (q->speaker_count < TP__MEMORY_TERMS_MAX) q->speakers[q->speaker_count++] = term;
  want_forms(q, stem, word);
  return SQLITE_OK;
}

static bool take_days(void *ctx, tp__memory_days days) {
  question *q = ctx;
  q->days[q->day_count++] = days;
  return q->day_count < DAYS_MAX;
}

/* Reads the days. A date without a year is taken in each year in which something was said, and in the years next to
 * them. */
static void read_dates(question *q, tp_text text, int32_t asked) {
  enum { YEARS_MAX = 16 };
  const int32_t first = q->index->first_said_day, last = q->index->last_said_day;
  int first_year, last_year;
  if (first > last) return;
  if (text.size > TP__MEMORY_TERMS_TEXT_MAX) text.size = TP__MEMORY_TERMS_TEXT_MAX;
  tp__memory_date(first, &first_year, NULL, NULL);
  tp__memory_date(last, &last_year, NULL, NULL);
  if (first_year < last_year - YEARS_MAX) first_year = last_year - YEARS_MAX;
  (void)tp__memory_dates_of_question(text, asked, first_year - 1, last_year + 1, take_days, q);
}

static bool is_one_of(tp_text word, const char *const *words) {
  for (; *words; words++)
    if (tp__memory_same_word(word, tp_text_of(*words))) return true;
  return false;
}

/* Finds out which party the text asks about: the user in "Where did I go" and "my sister", the assistant in "what did
 * you recommend", "you said" and "your plan". Elsewhere "you" means nothing: "can you tell me …". */
static void read_parties(question *q, tp_text text) {
  static const char *const user[] = {"i", "my", "mine", NULL}, *const of_assistant[] = {"your", "yours", NULL};
  static const char *const asking[] = {"did", "do", "have", "had", "are", "were", "would", NULL};
  static const char *const saying[] = {"said",  "told",      "mentioned", "suggested", "recommended", "explained",
                                       "wrote", "described", "advised",   "promised",  "answered",    NULL};
  tp__memory_words words = {.left = text};
  tp_text last = {0}, before_last = {0};
  if (words.left.size > TP__MEMORY_TERMS_TEXT_MAX) words.left.size = TP__MEMORY_TERMS_TEXT_MAX;
  while (tp__memory_words_next(&words)) {
    if (words.begins_clause) last = before_last = (tp_text){0};
    bool you_before = tp__memory_same_word(last, tp_text_of("you"));
    q->of_user = q->of_user || is_one_of(words.word, user);
    q->of_assistant = q->of_assistant || is_one_of(words.word, of_assistant) ||
                      (you_before && (is_one_of(before_last, asking) || is_one_of(words.word, saying)));
    before_last = last;
    last = words.word;
  }
}

/* Whether the text asks for a number: "How many", "what is the average". */
static void read_kind(question *q, tp_text text) {
  static const char *const how[] = {"many", "much", "long", "old", "often", "far", "fast", NULL};
  static const char *const number[] = {"number", "amount", "percent", "percentage", "price", "cost", "rate",
                                       "score",  "salary", "budget",  "average",    "total", "age",  NULL};
  tp__memory_words words = {.left = text};
  tp_text last = {0};
  if (words.left.size > TP__MEMORY_TERMS_TEXT_MAX) words.left.size = TP__MEMORY_TERMS_TEXT_MAX;
  while (tp__memory_words_next(&words)) {
    const tp_text word = words.word;
    q->wants_number = q->wants_number || is_one_of(word, number) ||
                      (tp__memory_same_word(last, tp_text_of("how")) && is_one_of(word, how));
    last = word;
  }
}

static int read_question(tp__memory_store *store, const tp__memory_index *index, const tp__memory_question *asked,
                         question *q) {
  const tp_text text = asked->text;
  tp__memory_terms terms;
  int rc = SQLITE_OK;
  *q = (question){.index = index};
  tp__memory_terms_of(text, &terms);
  for (size_t i = 0; rc == SQLITE_OK && i < terms.count; i++)
    rc = tp__memory_stems(store, terms.items[i], take_stem, q);
  if (q->count == 0) /* the text names a speaker and has no other word */
    for (size_t i = 0; i < q->speaker_count; i++) want(q, q->speakers[i], 1);
  for (size_t i = 0; i < q->count; i++) q->full += q->words[i].worth;
  read_dates(q, text, asked->asked_ms > 0 ? (int32_t)tp__memory_day_of(asked->asked_ms) : TP__MEMORY_NO_DAY);
  read_parties(q, text);
  read_kind(q, text);
  return rc;
}

/* ---- the words, one by one ---- */

/** The sums of a line over the searched words. */
typedef struct cell {
  float window, own, cover, own_cover;
  float times; /* of the present word, in the line's window */
  float own_times;
  bool touched;
} cell;

static const float SCALE = 1 / 17.5f; /* scales the sums over words, so that the parts are about 1 */
static const float SHARE_OF_ALL = 1 + 0.7f + 0.4f + 0.2f + 0.4f + 0.2f;

/** The highest sums of own words among a session's lines. */
enum { SESSION_BEST = 3 };
typedef struct best_own {
  float own[SESSION_BEST + 1]; /* the greatest one first */
} best_own;

typedef struct scorer {
  float weights[TP__MEMORY_PART_COUNT];
  const question *q;
  const tp__memory_index *index;
  cell *cells;
  uint32_t *touched, *present; /* touched: lines with a cell in use; present: lines near the present word */
  best_own *sessions;          /* one for each session */
  float *passages;             /* for each passage the BM25 of it and the next one; only for lines with several
                                  passages */
  size_t touched_count, present_count;
} scorer;

static void touch(scorer *s, uint32_t line) {
  cell *c = &s->cells[line];
  if (c->touched) return;
  c->touched = true;
  s->touched[s->touched_count++] = line;
}

static void add_times(scorer *s, int32_t line, float times) {
  cell *c = &s->cells[line];
  if (c->times == 0) s->present[s->present_count++] = (uint32_t)line;
  c->times += times;
  touch(s, (uint32_t)line);
}

/* Counts a posting for its line, and for the lines whose windows contain its line. */
static void spread(scorer *s, const tp__memory_posting *p) {
  float times = (float)p->times;
  const tp__memory_links *links = s->index->links, *own = &links[p->line];
  add_times(s, (int32_t)p->line, times);
  int32_t line = own->next;
  for (int i = 0; i < TP__MEMORY_LINES_BEFORE && line != TP__MEMORY_NONE; i++, line = links[line].next)
    add_times(s, line, tp__memory_share_before[i] * times * links[line].near);
  line = own->previous;
  for (int i = 0; i < TP__MEMORY_LINES_AFTER && line != TP__MEMORY_NONE; i++, line = links[line].previous)
    add_times(s, line, tp__memory_share_after[i] * times * links[line].near);
}

static void note_own(scorer *s, const tp__memory_posting *p, float worth) {
  cell *c = &s->cells[p->line];
  if (c->own_times == 0) c->own_cover += worth;
  c->own_times += (float)p->times;
}

/* BM25's saturation, k = 1.2: times * (k + 1) / (times + k * (1 - b + b * length)). b is that of a line's own words,
 * and less for a window, whose length is that of several lines. */
static const float K = 1.2f, B = 0.4f, B_OWN = 0.75f;

static float saturated(float times, float norm) { return times * (K + 1) / (times + norm); }

/* Scores a passage together with the next one, so that no boundary separates two words.
 *  @param next  the posting after it; NULL: there is none. */
static void score_passage(scorer *s, const tp__memory_posting *p, const tp__memory_posting *previous,
                          const tp__memory_posting *next, float worth, float norm) {
  const tp__memory_line *line = &s->index->lines[p->line];
  if (line->passage_count == 1) return;
  float *at = &s->passages[line->passage + p->passage], times = (float)p->times;
  bool goes_on = next && next->line == p->line && next->passage == p->passage + 1;
  bool began = previous && previous->line == p->line && previous->passage + 1 == p->passage;
  *at += worth * saturated(times + (goes_on ? (float)next->times : 0), norm);
  if (p->passage > 0 && !began) at[-1] += worth * saturated(times, norm);
}

enum { PASSAGE_WORDS = 50 }; /* about how many words two passages have */

static void score_word(scorer *s, int32_t word) {
  const float worth = (float)s->q->words[word].worth;
  const tp__memory_term *term = &s->index->terms[s->q->words[word].term];
  const tp__memory_line *lines = s->index->lines;
  const float average = s->index->words > 0 ? (float)s->index->words / (float)s->index->line_count : 1;
  const float least = K * (1 - B), by_window = K * B / (SHARE_OF_ALL * average), by_own = K * B_OWN / average;
  const float own_least = K * (1 - B_OWN), in_passage = K * (1 - B + B * (PASSAGE_WORDS / average));
  s->present_count = 0;
  for (uint32_t i = 0; i < term->count; i++) spread(s, &term->postings[i]);
  for (uint32_t i = 0; i < term->count; i++) note_own(s, &term->postings[i], worth);
  for (uint32_t i = 0; i < term->count; i++)
    score_passage(s, &term->postings[i], i ? &term->postings[i - 1] : NULL,
                  i + 1 < term->count ? &term->postings[i + 1] : NULL, worth, in_passage);
  for (size_t i = 0; i < s->present_count; i++) {
    const tp__memory_line *line = &lines[s->present[i]];
    cell *c = &s->cells[s->present[i]];
    c->window += worth * saturated(c->times, least + by_window * line->window_words);
    if (c->own_times > 0) c->own += worth * saturated(c->own_times, own_least + by_own * (float)line->words);
    c->cover += c->own_times > 0 ? worth : worth * s->index->links[s->present[i]].near;
    c->times = c->own_times = 0;
  }
}

/* ---- the sessions ---- */

static void note_best(best_own *best, float own) {
  for (int i = 0; i <= SESSION_BEST; i++)
    if (own > best->own[i]) {
      float other = best->own[i];
      best->own[i] = own;
      own = other;
    }
}

static void score_sessions(scorer *s) {
  for (size_t i = 0; i < s->touched_count; i++) {
    const uint32_t at = s->touched[i];
    if (s->cells[at].own > 0) note_best(&s->sessions[s->index->lines[at].session], s->cells[at].own);
  }
}

/* The part for the rest of a line's session: the mean of its three best other lines. */
static float session_sum(const scorer *s, uint32_t at) {
  const float *own = s->sessions[s->index->lines[at].session].own, mine = s->cells[at].own;
  float sum = 0;
  for (int i = 0; i < SESSION_BEST; i++) sum += own[i];
  if (mine > 0 && mine >= own[SESSION_BEST]) sum += own[SESSION_BEST] - mine;
  return sum / SESSION_BEST;
}

/* ---- the parts ---- */

/* How well the day of a line fits a day that the text names. People speak of something soon afterwards: of a day for
 * two weeks, of a month for one month. A year says little. */
static float said_then(tp__memory_days days, int32_t said) {
  enum { SOON = 1, WHILE = 14, LONG_WHILE = 7, SHORT = 14, YEAR = 365 };
  const int32_t count = days.last - days.first + 1, after = said - days.last;
  if (said == TP__MEMORY_NO_DAY || said < days.first) return 0;
  if (count >= YEAR) return after <= 0 ? 0.3f : 0;
  if (after <= 0 || (count <= 2 && after <= SOON)) return 1;
  if (count <= SHORT) return after <= WHILE ? 0.7f : 0;
  return after <= LONG_WHILE ? 0.5f : 0;
}

static float is_about(tp__memory_days days, tp__memory_days named) {
  enum { WEEK = 7, MONTH = 31, YEAR = 365 };
  const int32_t count = days.last - days.first + 1, theirs = named.last - named.first + 1;
  if (named.last < days.first || named.first > days.last) return 0;
  if (count >= YEAR) return 0.3f;
  return theirs <= count || theirs <= WEEK ? 1 : theirs <= MONTH ? 0.5f : 0;
}

static float date_part(const question *q, const tp__memory_line *line) {
  float best = 0;
  for (size_t i = 0; i < q->day_count; i++) {
    float value = said_then(q->days[i], line->said_day);
    for (uint32_t k = 0; k < line->days_count && value < 1; k++) {
      const float about = is_about(q->days[i], q->index->days[line->days + k]);
      if (about > value) value = about;
    }
    if (value > best) best = value;
  }
  return best;
}

/* Whether the line was said on a day that the text names, or names that day: then it needs no word of the text. */
static bool is_named(const question *q, const tp__memory_line *line) {
  for (size_t i = 0; i < q->day_count; i++) {
    const tp__memory_days days = q->days[i];
    if (line->said_day >= days.first && line->said_day <= days.last) return true;
    for (uint32_t k = 0; k < line->days_count; k++)
      if (is_about(days, q->index->days[line->days + k]) > 0) return true;
  }
  return false;
}

static bool has(const tp__memory_line *line, uint32_t flag) { return (line->flags & flag) != 0; }

/* The part for the speaker. A line that begins with a name was said by that person, whether the user or the assistant
 * wrote it. */
static float speaker_part(const question *q, const tp__memory_line *line) {
  if (has(line, TP__MEMORY_LINE_ASSISTANT) ? q->of_assistant : q->of_user && line->speaker == TP__MEMORY_NONE) return 1;
  for (size_t i = 0; i < q->speaker_count; i++)
    if (line->speaker == q->speakers[i]) return 1;
  return 0;
}

/* @param ret_best  the index of the line's best passage, from 0.
 * @return the score of that passage; of a line with one passage, the score of the line itself. */
static float passage_sum(const scorer *s, uint32_t at, uint32_t *ret_best) {
  const tp__memory_line *line = &s->index->lines[at];
  const float *passages = s->passages + line->passage;
  *ret_best = 0;
  if (line->passage_count == 1) return s->cells[at].own;
  for (uint32_t i = 1; i < line->passage_count; i++)
    if (passages[i] > passages[*ret_best]) *ret_best = i;
  return passages[*ret_best];
}

static void fill_scored(const scorer *s, uint32_t at, tp__memory_scored *scored) {
  const question *q = s->q;
  const tp__memory_line *line = &s->index->lines[at];
  const cell *c = &s->cells[at];
  float *parts = scored->parts;
  const int32_t before = s->index->links[at].previous;
  const tp__memory_line *previous = before != TP__MEMORY_NONE ? &s->index->lines[before] : NULL;
  bool answers = previous && has(previous, TP__MEMORY_LINE_ASKS);
  parts[TP__MEMORY_PART_window] = c->window * SCALE;
  parts[TP__MEMORY_PART_own] = c->own * SCALE;
  parts[TP__MEMORY_PART_passage] = passage_sum(s, at, &scored->passage) * SCALE;
  parts[TP__MEMORY_PART_cover] = c->cover * SCALE;
  parts[TP__MEMORY_PART_own_cover] = c->own_cover * SCALE;
  parts[TP__MEMORY_PART_speaker] = speaker_part(q, line);
  parts[TP__MEMORY_PART_date] = date_part(q, line);
  parts[TP__MEMORY_PART_answers] = answers ? s->cells[before].own_cover * SCALE * s->index->links[at].near : 0;
  parts[TP__MEMORY_PART_asks] = has(line, TP__MEMORY_LINE_ONLY_ASKS);
  parts[TP__MEMORY_PART_number] = q->wants_number && has(line, TP__MEMORY_LINE_NUMBER);
  parts[TP__MEMORY_PART_session] = session_sum(s, at) * SCALE;
  parts[TP__MEMORY_PART_place] = 1.0f / (1.0f + (float)line->place);
  float sum = 0;
  for (int i = 0; i < TP__MEMORY_PART_COUNT; i++) sum += s->weights[i] * parts[i];
  scored->score = sum;
  scored->line = at;
}

/* ---- the best ---- */

static int compare(const void *a, const void *b) {
  const tp__memory_scored *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->line > y->line ? -1 : x->line < y->line;
}

/* Moves the first item of a heap, in which the worst item is first, to its place. */
static void sift(tp__memory_scored *heap, size_t count) {
  for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && compare(&heap[child + 1], &heap[child]) > 0) child++;
    if (compare(&heap[at], &heap[child]) >= 0) return;
    tp__memory_scored other = heap[at];
    heap[at] = heap[child];
    heap[child] = other;
  }
}

/* For sorting with the worst item first, which gives such a heap. */
static int compare_worst_first(const void *a, const void *b) { return compare(b, a); }

static float weighted(const scorer *s, tp__memory_part part, float value) {
  return s->weights[part] > 0 ? s->weights[part] * value : 0;
}

/* The most that a line can have beyond its sums, whatever the weights are. */
static float ceiling_of(const scorer *s) {
  const question *q = s->q;
  const bool speaks = q->speaker_count || q->of_user || q->of_assistant;
  const float all = (float)q->full * SCALE, rounding = 1e-3f;
  return rounding + weighted(s, TP__MEMORY_PART_place, 1) + weighted(s, TP__MEMORY_PART_asks, 1) +
         weighted(s, TP__MEMORY_PART_speaker, speaks) + weighted(s, TP__MEMORY_PART_date, q->day_count > 0) +
         weighted(s, TP__MEMORY_PART_number, q->wants_number) + weighted(s, TP__MEMORY_PART_answers, all);
}

/* Whether a line cannot be among the best: most lines have only a common word or two, so the rest of their parts is not
 * computed. */
static bool is_hopeless(const scorer *s, uint32_t at, float ceiling, float worst) {
  const float *w = s->weights;
  const cell *c = &s->cells[at];
  uint32_t passage;
  float sums = w[TP__MEMORY_PART_window] * c->window + w[TP__MEMORY_PART_own] * c->own +
               w[TP__MEMORY_PART_passage] * passage_sum(s, at, &passage) + w[TP__MEMORY_PART_cover] * c->cover +
               w[TP__MEMORY_PART_own_cover] * c->own_cover + w[TP__MEMORY_PART_session] * session_sum(s, at);
  return sums * SCALE + ceiling < worst;
}

static int choose(const scorer *s, size_t max, tp__memory_scored **ret_scored, size_t *ret_count) {
  size_t capacity = s->touched_count < max ? s->touched_count : max;
  tp__memory_scored *best = sqlite3_malloc64((capacity ? capacity : 1) * sizeof *best), one;
  if (!best) return SQLITE_NOMEM;
  const float ceiling = ceiling_of(s);
  for (size_t i = 0; i < s->touched_count; i++) {
    if (i >= capacity && is_hopeless(s, s->touched[i], ceiling, best[0].score)) continue;
    fill_scored(s, s->touched[i], &one);
    if (i < capacity) best[i] = one;
    if (i + 1 == capacity) qsort(best, capacity, sizeof *best, compare_worst_first);
    if (i < capacity || compare(&one, &best[0]) >= 0) continue;
    best[0] = one;
    sift(best, capacity);
  }
  qsort(best, capacity, sizeof *best, compare);
  *ret_scored = best;
  *ret_count = capacity;
  return SQLITE_OK;
}

/* Makes a block large enough. It is kept between recalls, since a block of megabytes would be mapped, faulted in and
 * unmapped each time.
 * @return false without memory: the block is unchanged. */
static bool find_block(void **block, size_t *held, size_t needed, size_t capacity, size_t size, size_t *bytes) {
  if (*held >= needed) return true;
  assert(capacity >= needed);
  void *bigger = sqlite3_malloc64(capacity * size);
  if (!bigger) return false;
  memset(bigger, 0, capacity * size);
  sqlite3_free(*block);
  *bytes += (capacity - *held) * size;
  *block = bigger;
  *held = capacity;
  return true;
}

static bool find_scratch(tp__memory_index *index, scorer *s) {
  if (!find_block(&index->scratch, &index->scratch_lines, index->line_count, index->line_capacity,
                  sizeof(cell) + 2 * sizeof(uint32_t), &index->bytes) ||
      !find_block(&index->passage_scratch, &index->scratch_passages, index->passage_count, index->passage_capacity,
                  sizeof(float), &index->bytes) ||
      !find_block(&index->session_scratch, &index->scratch_sessions, index->session_names.count,
                  index->session_capacity, sizeof(best_own), &index->bytes))
    return false;
  s->cells = index->scratch;
  s->touched = (uint32_t *)(s->cells + index->scratch_lines);
  s->present = s->touched + index->scratch_lines;
  s->passages = index->passage_scratch;
  s->sessions = index->session_scratch;
  return true;
}

static void clear(scorer *s, uint32_t at) {
  const tp__memory_line *line = &s->index->lines[at];
  s->sessions[line->session] = (best_own){{0}};
  s->cells[at] = (cell){0};
  if (line->passage_count > 1) memset(s->passages + line->passage, 0, line->passage_count * sizeof *s->passages);
}

/* Whether a line is below the floor. A line with a word of the text, or of a day that the text names, is not. A line
 * that only has neighbours with such words is, unless their words are worth enough, in units of a word that was never
 * said. */
static bool is_below(const scorer *s, uint32_t at, float least) {
  const cell *c = &s->cells[at];
  return c->own_cover <= 0 && c->cover < least && !is_named(s->q, &s->index->lines[at]);
}

static bool is_present(const tp__memory_said_hashes *present, uint64_t hash) {
  for (; present; present = present->more) {
    if (!present->slots) continue;
    size_t at = (size_t)hash & present->mask;
    while (present->slots[at] && present->slots[at] != hash) at = (at + 1) & present->mask;
    if (present->slots[at]) return true;
  }
  return false;
}

/* Moves lines below the floor, and lines that the request has, after the others. @return how many others there are. */
static size_t count_above(scorer *s, int32_t floor, const tp__memory_said_hashes *present) {
  const float rarest = logf(1 + ((float)s->index->line_count + 0.5f) / 0.5f), least = 1e-3f * (float)floor * rarest;
  size_t count = s->touched_count;
  for (size_t i = 0; i < count;) {
    const uint32_t at = s->touched[i];
    if (!is_below(s, at, least) && !is_present(present, s->index->lines[at].hash)) {
      i++;
      continue;
    }
    s->touched[i] = s->touched[--count];
    s->touched[count] = at;
  }
  return count;
}

static void touch_named(scorer *s) {
  for (size_t i = 0; s->q->day_count > 0 && i < s->index->line_count; i++)
    if (is_named(s->q, &s->index->lines[i])) touch(s, (uint32_t)i);
}

int tp__memory_score(tp__memory_store *store, tp__memory_index *index, const tp__memory_question *asked, size_t max,
                     tp__memory_scored **ret_scored, size_t *ret_count) {
  assert(index->line_count <= index->line_capacity && ret_scored && ret_count);
  question q;
  *ret_scored = NULL;
  *ret_count = 0;
  int rc = read_question(store, index, asked, &q);
  if (rc != SQLITE_OK || q.count + q.day_count == 0 || max == 0) return rc;
  scorer s = {.q = &q, .index = index};
  for (int i = 0; i < TP__MEMORY_PART_COUNT; i++) s.weights[i] = (float)tp__memory_part_rows[i].weight;
  if (!find_scratch(index, &s)) return SQLITE_NOMEM;
  for (size_t i = 0; i < q.count; i++) score_word(&s, (int32_t)i);
  score_sessions(&s);
  touch_named(&s);
  const size_t touched = s.touched_count;
  s.touched_count = count_above(&s, asked->floor ? asked->floor : TP__MEMORY_FLOOR, asked->present);
  rc = choose(&s, max, ret_scored, ret_count);
  for (size_t i = 0; i < touched; i++) clear(&s, s.touched[i]);
  return rc;
}
