/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/merge/pattern.h"

#include "runtime/value/value.h"

enum { PLACES_MAX = TP__PATTERN_PLACES_MAX, RANGES_MAX = 1000, DEPTH_MAX = 32, READS_MAX = 20000 };
enum { LAST_CODE_POINT = 0x10FFFF };

typedef enum operation { ONE_OF, SPLIT, JUMP, AT_BEGIN, AT_END, AT_WORD_EDGE, NOT_AT_WORD_EDGE, FOUND } operation;

/* The next place is stored as a distance, so that parts of a program can be moved. */
typedef struct place {
  operation operation;
  bool is_negated;             /* ONE_OF: none of the ranges */
  uint32_t first, range_count; /* ONE_OF: of the ranges */
  int32_t next, other;         /* SPLIT: both; JUMP: next */
} place;

typedef struct range {
  uint32_t from, to;
} range;

struct tp__pattern {
  uint32_t place_count, range_count;
  place *places;
  range *ranges;
};

/* ---- reading a pattern ---- */

/* Counts and ranges grow in arrays of fixed size. A pattern that does not fit is not supported. */
typedef struct reader {
  tp_text source;
  size_t at;
  uint32_t depth, reads;
  uint32_t place_count, range_count;
  place places[PLACES_MAX];
  range ranges[RANGES_MAX];
} reader;

static uint32_t code_point_at(tp_text text, size_t *at) {
  TP__ASSERT(*at < text.size);
  unsigned char first = (unsigned char)text.data[(*at)++];
  if (first < 0x80) return first;
  size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  uint32_t point = first & (0x3FU >> more);
  for (; more > 0 && *at < text.size; more--) point = point << 6 | ((unsigned char)text.data[(*at)++] & 0x3F);
  return point;
}

static bool is_next(const reader *r, char byte) { return r->at < r->source.size && r->source.data[r->at] == byte; }

static bool take_literal(reader *r, const char *words) {
  tp_text wanted = tp_text_of(words);
  if (r->source.size - r->at < wanted.size || memcmp(r->source.data + r->at, words, wanted.size) != 0) return false;
  r->at += wanted.size;
  return true;
}

static bool put_place(reader *r, place one) {
  if (r->place_count == PLACES_MAX) return false;
  r->places[r->place_count++] = one;
  return true;
}

/* Before the places from `at` on. */
static bool insert(reader *r, uint32_t at, place one) {
  TP__ASSERT(at <= r->place_count);
  if (!put_place(r, one)) return false;
  memmove(&r->places[at + 1], &r->places[at], (r->place_count - 1 - at) * sizeof one);
  r->places[at] = one;
  return true;
}

static bool put_range(reader *r, uint32_t from, uint32_t to) {
  if (r->range_count == RANGES_MAX || from > to) return false;
  r->ranges[r->range_count++] = (range){from, to};
  return true;
}

/* The ranges of each class are in rising order, so that the complement can be computed. */
static const range digits[] = {{'0', '9'}}, words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                   spaces[] = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                               {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                               {0x3000, 0x3000}, {0xFEFF, 0xFEFF}},
                   line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static bool put_class(reader *r, const range *ranges, size_t count, bool is_negated) {
  uint32_t from = 0;
  for (size_t i = 0; i < count; i++) {
    TP__ASSERT(ranges[i].from <= ranges[i].to && (i == 0 || ranges[i].from > ranges[i - 1].to));
    if (!is_negated && !put_range(r, ranges[i].from, ranges[i].to)) return false;
    if (is_negated && ranges[i].from > from && !put_range(r, from, ranges[i].from - 1)) return false;
    from = ranges[i].to + 1;
  }
  return !is_negated || put_range(r, from, LAST_CODE_POINT);
}

/* @return whether there was a class; *ret_ok tells whether it fits. */
static bool take_class(reader *r, bool *ret_ok) {
  static const struct {
    char letter;
    const range *ranges;
    size_t count;
  } classes[] = {{'d', digits, sizeof digits / sizeof *digits},
                 {'w', words, sizeof words / sizeof *words},
                 {'s', spaces, sizeof spaces / sizeof *spaces}};
  for (size_t i = 0; r->at < r->source.size && i < sizeof classes / sizeof *classes; i++) {
    char small = classes[i].letter, large = (char)(small - 'a' + 'A');
    if (!is_next(r, small) && !is_next(r, large)) continue;
    *ret_ok = put_class(r, classes[i].ranges, classes[i].count, r->source.data[r->at++] == large);
    return true;
  }
  return false;
}

/* count digits, or those before a brace. */
static bool take_hex(reader *r, int count, uint32_t *ret_point) {
  bool in_braces = count == 4 && take_literal(r, "{");
  uint32_t point = 0;
  int digits_read = 0;
  for (; r->at < r->source.size && digits_read < (in_braces ? 6 : count); digits_read++, r->at++) {
    int digit = tp__hex_digit(r->source.data[r->at]);
    if (digit < 0) break;
    point = point << 4 | (uint32_t)digit;
  }
  *ret_point = point;
  if (in_braces) return digits_read > 0 && point <= LAST_CODE_POINT && take_literal(r, "}");
  return digits_read == count;
}

/* \uD83D\uDE00 is one code point. */
static bool take_unicode(reader *r, uint32_t *ret_point) {
  uint32_t low;
  if (!take_hex(r, 4, ret_point)) return false;
  size_t after = r->at;
  if (*ret_point < 0xD800 || *ret_point > 0xDBFF) return true;
  if (take_literal(r, "\\u") && take_hex(r, 4, &low) && low >= 0xDC00 && low <= 0xDFFF)
    *ret_point = 0x10000 + ((*ret_point - 0xD800) << 10) + (low - 0xDC00);
  else r->at = after;
  return true;
}

/* Reads the rest of an escape that stands for one code point. */
static bool take_escape(reader *r, uint32_t *ret_point) {
  static const char letters[] = "tnvfr0", meant[] = "\t\n\v\f\r";
  if (r->at == r->source.size) return false;
  char letter = r->source.data[r->at];
  const char *found = strchr(letters, letter);
  if (found && letter) {
    r->at++;
    *ret_point = (unsigned char)meant[found - letters];
    return letter != '0' || r->at == r->source.size || tp__hex_digit(r->source.data[r->at]) < 0;
  }
  if (take_literal(r, "x")) return take_hex(r, 2, ret_point);
  if (take_literal(r, "u")) return take_unicode(r, ret_point);
  bool is_letter =
      (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
  if (is_letter) return false; /* a back reference, \p, \c, \k or nothing */
  *ret_point = code_point_at(r->source, &r->at);
  return true;
}

/* Reads one member of a class in brackets. @return false: there is none that is supported. */
static bool take_member(reader *r, uint32_t *ret_point, bool *ret_is_class) {
  bool ok = true;
  *ret_is_class = false;
  if (r->at == r->source.size) return false;
  if (!take_literal(r, "\\")) {
    *ret_point = code_point_at(r->source, &r->at);
    return true;
  }
  if (take_literal(r, "b")) return *ret_point = '\b', true;
  if (take_class(r, &ok)) return *ret_is_class = true, ok;
  return take_escape(r, ret_point);
}

static bool take_brackets(reader *r) {
  place one = {.operation = ONE_OF, .first = r->range_count, .is_negated = take_literal(r, "^")};
  uint32_t from, to;
  bool is_class, is_last_class = false;
  while (!take_literal(r, "]")) {
    if (!take_member(r, &from, &is_class)) return false;
    if (is_class) continue;
    to = from;
    if (is_next(r, '-') && r->at + 1 < r->source.size && r->source.data[r->at + 1] != ']') {
      r->at++;
      if (!take_member(r, &to, &is_last_class) || is_last_class) return false;
    }
    if (!put_range(r, from, to)) return false;
  }
  one.range_count = r->range_count - one.first;
  return put_place(r, one);
}

static bool put_one(reader *r, uint32_t point) {
  place one = {.operation = ONE_OF, .first = r->range_count, .range_count = 1};
  return put_range(r, point, point) && put_place(r, one);
}

static bool take_alternatives(reader *r);

static bool take_behind_backslash(reader *r) {
  place one = {.operation = ONE_OF, .first = r->range_count};
  bool ok = true;
  uint32_t point;
  if (take_literal(r, "b")) return put_place(r, (place){.operation = AT_WORD_EDGE});
  if (take_literal(r, "B")) return put_place(r, (place){.operation = NOT_AT_WORD_EDGE});
  if (!take_class(r, &ok)) return take_escape(r, &point) && put_one(r, point);
  one.range_count = r->range_count - one.first;
  return ok && put_place(r, one);
}

static bool is_repetition(const reader *r) { return is_next(r, '*') || is_next(r, '+') || is_next(r, '?'); }

static bool take_atom(reader *r) {
  if (r->reads++ == READS_MAX) return false;
  if (take_literal(r, "^")) return put_place(r, (place){.operation = AT_BEGIN});
  if (take_literal(r, "$")) return put_place(r, (place){.operation = AT_END});
  if (take_literal(r, "(")) {
    if (take_literal(r, "?") && !take_literal(r, ":")) { /* a name, or what is not played */
      if (!take_literal(r, "<") || is_next(r, '=') || is_next(r, '!')) return false;
      while (r->at < r->source.size && !is_next(r, '>')) r->at++;
      if (!take_literal(r, ">")) return false;
    }
    if (r->depth++ == DEPTH_MAX) return false;
    bool ok = take_alternatives(r) && take_literal(r, ")");
    r->depth--;
    return ok;
  }
  if (take_literal(r, "[")) return take_brackets(r);
  if (take_literal(r, ".")) {
    place one = {.operation = ONE_OF, .first = r->range_count};
    if (!put_class(r, line_ends, sizeof line_ends / sizeof *line_ends, true)) return false;
    one.range_count = r->range_count - one.first;
    return put_place(r, one);
  }
  if (take_literal(r, "\\")) return take_behind_backslash(r);
  if (is_repetition(r) || is_next(r, ')')) return false;
  return put_one(r, code_point_at(r->source, &r->at));
}

static bool take_number(reader *r, uint32_t *ret_number) {
  size_t begin = r->at;
  *ret_number = 0;
  for (; r->at < r->source.size && r->source.data[r->at] >= '0' && r->source.data[r->at] <= '9'; r->at++) {
    if (*ret_number <= PLACES_MAX) *ret_number = 10 * *ret_number + (uint32_t)(r->source.data[r->at] - '0');
  }
  return r->at > begin;
}

/* Reads {n}, {n,} or {n,m}. @return false: there is none, or the brace stands for itself. */
static bool take_braces(reader *r, uint32_t *ret_least, uint32_t *ret_most) {
  size_t begin = r->at;
  uint32_t least, most;
  bool ok = take_literal(r, "{") && take_number(r, &least);
  if (ok) {
    most = least;
    if (take_literal(r, ",") && !take_number(r, &most)) most = UINT32_MAX;
    ok = take_literal(r, "}");
  }
  if (!ok) return r->at = begin, false;
  *ret_least = least;
  *ret_most = most;
  return true;
}

/* Reads the repetition at this place: from `least` to `most` times. @return false: it is malformed. */
static bool take_counts(reader *r, uint32_t *ret_least, uint32_t *ret_most) {
  *ret_least = 1;
  *ret_most = 1;
  if (take_literal(r, "*")) *ret_least = 0, *ret_most = UINT32_MAX;
  else if (take_literal(r, "+")) *ret_most = UINT32_MAX;
  else if (take_literal(r, "?")) *ret_least = 0;
  else if (!take_braces(r, ret_least, ret_most)) return true;
  (void)take_literal(r, "?"); /* lazy or not, the same texts have it */
  return *ret_least <= *ret_most;
}

/* Writes the atom again; its source begins at `source`. */
static bool repeat_atom(reader *r, size_t source) {
  size_t after = r->at;
  TP__ASSERT(source < after);
  r->at = source;
  bool ok = take_atom(r);
  r->at = after;
  return ok;
}

/* An atom and how often it comes. */
static bool take_piece(reader *r) {
  size_t source = r->at;
  uint32_t begin = r->place_count, first_range = r->range_count, least, most;
  if (!take_atom(r) || !take_counts(r, &least, &most)) return false;
  if (is_repetition(r) || take_braces(r, &(uint32_t){0}, &(uint32_t){0})) return false; /* nothing to repeat */
  if (least == 0) {
    r->place_count = begin;
    r->range_count = first_range;
  }
  for (uint32_t i = 1; i < least; i++) {
    begin = r->place_count;
    if (!repeat_atom(r, source)) return false;
  }
  bool for_ever = most == UINT32_MAX;
  int32_t back = (int32_t)begin - (int32_t)r->place_count;
  if (for_ever && least > 0) return put_place(r, (place){.operation = SPLIT, .next = back, .other = 1});
  for (uint32_t i = least; i < most; i = for_ever ? most : i + 1) {
    begin = r->place_count;
    if (!repeat_atom(r, source)) return false;
    int32_t size = (int32_t)(r->place_count - begin);
    if (!insert(r, begin, (place){.operation = SPLIT, .next = 1, .other = size + (for_ever ? 2 : 1)})) return false;
    if (for_ever && !put_place(r, (place){.operation = JUMP, .next = -size - 1})) return false;
  }
  return true;
}

static bool take_sequence(reader *r) {
  while (r->at < r->source.size && !is_next(r, '|') && !is_next(r, ')'))
    if (!take_piece(r)) return false;
  return true;
}

static bool take_alternatives(reader *r) {
  uint32_t begin = r->place_count, last_jump = 0;
  if (!take_sequence(r)) return false;
  while (take_literal(r, "|")) {
    int32_t size = (int32_t)(r->place_count - begin);
    if (!insert(r, begin, (place){.operation = SPLIT, .next = 1, .other = size + 2})) return false;
    begin = r->place_count;
    if (!put_place(r, (place){.operation = JUMP, .other = (int32_t)last_jump}))
      return false; /* other: the one before it */
    last_jump = begin++;
    if (!take_sequence(r)) return false;
  }
  while (last_jump) {
    place *jump = &r->places[last_jump];
    TP__ASSERT(jump->operation == JUMP && last_jump < r->place_count);
    jump->next = (int32_t)(r->place_count - last_jump);
    last_jump = (uint32_t)jump->other;
  }
  return true;
}

tp_status tp__pattern_compile(tp_text source, tp__arena *arena, const tp__pattern **ret_pattern) {
  TP__ASSERT(arena->allocator);
  *ret_pattern = NULL;
  reader *r = tp__alloc(arena->allocator, sizeof *r);
  if (!r) return TP_ERR_NO_MEMORY;
  r->source = source;
  r->at = 0;
  r->depth = r->reads = r->place_count = r->range_count = 0;
  tp_status status = TP_OK;
  if (take_alternatives(r) && r->at == source.size && put_place(r, (place){.operation = FOUND})) {
    tp__pattern *p = tp__arena_alloc(arena, sizeof *p);
    place *places = tp__arena_alloc(arena, r->place_count * sizeof *places);
    range *ranges = tp__arena_alloc(arena, (r->range_count + 1) * sizeof *ranges);
    if (p && places && ranges) {
      memcpy(places, r->places, r->place_count * sizeof *places);
      memcpy(ranges, r->ranges, r->range_count * sizeof *ranges);
      *p = (tp__pattern){r->place_count, r->range_count, places, ranges};
      *ret_pattern = p;
    } else {
      status = TP_ERR_NO_MEMORY;
    }
  }
  tp__release(arena->allocator, r, sizeof *r);
  return status;
}

size_t tp__pattern_places(const tp__pattern *pattern) { return pattern->place_count; }

/* ---- playing it ---- */

/* The places that are possible before a code point, each once. */
typedef struct living {
  uint32_t count;
  uint16_t of[PLACES_MAX];
} living;

typedef struct player {
  const tp__pattern *pattern;
  tp_text text;
  size_t at;
  uint32_t round;
  bool is_found;
  uint32_t seen[PLACES_MAX]; /* the round in which it was added last */
  living now, next;
} player;

static bool is_word(uint32_t point) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (point >= words[i].from && point <= words[i].to) return true;
  return false;
}

static bool at_word_edge(const player *p) {
  bool before = p->at > 0 && is_word((unsigned char)p->text.data[p->at - 1]);
  bool behind = p->at < p->text.size && is_word((unsigned char)p->text.data[p->at]);
  return before != behind;
}

/* Adds a place, and all places that follow from it without a code point. */
static void add_living(player *p, living *to, uint32_t first) {
  uint16_t waiting[PLACES_MAX + 1];
  uint32_t count = 0;
  waiting[count++] = (uint16_t)first;
  while (count > 0) {
    uint32_t index = waiting[--count];
    TP__ASSERT(index < p->pattern->place_count && count < PLACES_MAX);
    const place *here = &p->pattern->places[index];
    if (p->seen[index] == p->round) continue;
    p->seen[index] = p->round;
    bool goes_on = false;
    switch (here->operation) {
      case ONE_OF:
        to->of[to->count++] = (uint16_t)index;
        break;
      case SPLIT:
        waiting[count++] = (uint16_t)(index + (uint32_t)here->other);
        waiting[count++] = (uint16_t)(index + (uint32_t)here->next);
        break;
      case JUMP:
        waiting[count++] = (uint16_t)(index + (uint32_t)here->next);
        break;
      case AT_BEGIN:
        goes_on = p->at == 0;
        break;
      case AT_END:
        goes_on = p->at == p->text.size;
        break;
      case AT_WORD_EDGE:
        goes_on = at_word_edge(p);
        break;
      case NOT_AT_WORD_EDGE:
        goes_on = !at_word_edge(p);
        break;
      case FOUND:
        p->is_found = true;
        break;
    }
    if (goes_on) waiting[count++] = (uint16_t)(index + 1);
  }
}

static bool takes(const tp__pattern *pattern, const place *one, uint32_t point) {
  bool is_in = false;
  for (uint32_t i = 0; i < one->range_count && !is_in; i++) {
    const range *r = &pattern->ranges[one->first + i];
    TP__ASSERT(one->first + i < pattern->range_count);
    is_in = point >= r->from && point <= r->to;
  }
  return is_in != one->is_negated;
}

bool tp__pattern_matches(const tp__pattern *pattern, tp_text text) {
  TP__ASSERT(pattern->place_count > 0 && pattern->places[pattern->place_count - 1].operation == FOUND);
  player p = {.pattern = pattern, .text = text, .round = 1};
  add_living(&p, &p.now, 0);
  while (!p.is_found && p.at < text.size) {
    uint32_t point = code_point_at(text, &p.at);
    p.round++;
    p.next.count = 0;
    for (uint32_t i = 0; i < p.now.count; i++) {
      uint32_t index = p.now.of[i];
      if (takes(pattern, &pattern->places[index], point)) add_living(&p, &p.next, index + 1);
    }
    add_living(&p, &p.next, 0); /* it may begin anywhere */
    memcpy(&p.now, &p.next, offsetof(living, of) + p.next.count * sizeof p.next.of[0]);
  }
  return p.is_found;
}
