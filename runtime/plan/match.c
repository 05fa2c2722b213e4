/* SPDX-License-Identifier: Apache-2.0
 *
 * match.c: a registered match: its check, its copy, and its description for people. */
#include <stdio.h>

#include "runtime/plan/registry.h"
#include "turnphase/value.h"

enum { DESCRIPTION_BYTES_MAX = 4096 };

/** One list of patterns of a match. */
typedef struct patterns {
  const char *member, *words;
  size_t list, count;         /* offsets in tp_match */
  tp_field_id field, another; /* the phase must carry one of the two fields. NONE: no field is read */
} patterns;

#define PATTERNS(member_, count_) \
  .member = #member_, .list = offsetof(tp_match, member_), .count = offsetof(tp_match, count_)
static const patterns lists[] = {
    {PATTERNS(tools, tool_count), .words = "tool", .field = TP_FIELD_TOOL, .another = TP_FIELD_ABILITY_REF},
    {PATTERNS(agents, agent_count), .words = "agent"},
    {PATTERNS(modes, mode_count), .words = "mode"},
    {PATTERNS(changed_paths, changed_path_count), .words = "changed path", .field = TP_FIELD_CHANGED_FILES}};
enum { LISTS = sizeof lists / sizeof *lists };

static const char *const *items_of(const tp_match *match, const patterns *p) {
  return *(const char *const *const *)(const void *)((const char *)match + p->list);
}
static size_t pattern_count(const tp_match *match, const patterns *p) {
  return *(const size_t *)(const void *)((const char *)match + p->count);
}

static bool has_condition(const tp_match *match) {
  for (size_t i = 0; i < LISTS; i++)
    if (pattern_count(match, &lists[i]) > 0) return true;
  return match->text_prefix || match->duration_ms_min != 0;
}

/* ---- checking ---- */

#define REFUSE(id, code, ...) tp__refuse_desc(fault, (code), "subscription", (id), __VA_ARGS__)

static tp_status pattern_check(const char *id, const char *member, size_t index, const char *pattern, tp_fault *fault) {
  if (!pattern) return REFUSE(id, TP_ERR_USAGE, "match.%s[%zu] is NULL", member, index);
  if (strlen(pattern) > TP_PATTERN_BYTES_MAX)
    return REFUSE(id, TP_ERR_TOO_LARGE, "match.%s[%zu] has %zu bytes: at most %d", member, index, strlen(pattern),
                  TP_PATTERN_BYTES_MAX);
  if (!tp_utf8_valid(tp_text_of(pattern), NULL))
    return REFUSE(id, TP_ERR_UTF8, "match.%s[%zu] is not UTF-8", member, index);
  return TP_OK;
}

static tp_status patterns_check(const char *id, const tp_match *match, const patterns *p, tp_fault *fault) {
  size_t count = pattern_count(match, p);
  if (count > TP_PATTERNS_MAX)
    return REFUSE(id, TP_ERR_TOO_LARGE, "match.%s has %zu patterns: at most %d", p->member, count, TP_PATTERNS_MAX);
  if (count > 0 && !items_of(match, p))
    return REFUSE(id, TP_ERR_USAGE, "match.%s has %zu patterns, but is NULL", p->member, count);
  for (size_t i = 0; i < count; i++) TP__TRY(pattern_check(id, p->member, i, items_of(match, p)[i], fault));
  return TP_OK;
}

static tp_status function_check(const char *id, const tp_match *match, tp_fault *fault) {
  if (!match->matches && !has_condition(match))
    return REFUSE(id, TP_ERR_USAGE, "match has neither a condition nor match.matches: set one, or leave match NULL");
  if (match->matches && !match->description)
    return REFUSE(id, TP_ERR_USAGE, "match.matches needs match.description: say in words what it matches");
  if (match->field_count > TP_FIELD_LIMIT)
    return REFUSE(id, TP_ERR_USAGE, "match.field_count is %zu: at most %d", match->field_count, TP_FIELD_LIMIT);
  if (match->field_count > 0 && !match->fields)
    return REFUSE(id, TP_ERR_USAGE, "match.field_count is %zu, but match.fields is NULL", match->field_count);
  if (!tp_utf8_valid(tp_text_of(match->description), NULL))
    return REFUSE(id, TP_ERR_UTF8, "match.description is not UTF-8");
  return TP_OK;
}

tp_status tp__match_check(const char *id, const tp_match *theirs, tp_fault *fault) {
  tp_match match;
  if (!theirs) return TP_OK;
  TP__TRY(tp__options_read(&match, sizeof match, theirs, "tp_match", fault));
  for (size_t i = 0; i < LISTS; i++) TP__TRY(patterns_check(id, &match, &lists[i], fault));
  if (match.text_prefix) TP__TRY(pattern_check(id, "text_prefix", 0, match.text_prefix, fault));
  if (match.duration_ms_min < 0) return REFUSE(id, TP_ERR_USAGE, "match.duration_ms_min is negative");
  return function_check(id, &match, fault);
}

/* @return a field that a condition reads but the phase does not carry; NONE. */
static tp_field_id missing_field(const tp__registry *registry, tp_phase_id phase, const tp_match *match) {
  for (size_t i = 0; i < LISTS; i++) {
    const patterns *p = &lists[i];
    if (pattern_count(match, p) == 0 || p->field == TP_FIELD_NONE) continue;
    if (tp__phase_carries(registry, phase, p->field)) continue;
    if (p->another == TP_FIELD_NONE || !tp__phase_carries(registry, phase, p->another)) return p->field;
  }
  if (match->text_prefix && !tp__phase_carries(registry, phase, TP_FIELD_TEXT)) return TP_FIELD_TEXT;
  if (match->duration_ms_min && !tp__phase_carries(registry, phase, TP_FIELD_DURATION_MS)) return TP_FIELD_DURATION_MS;
  for (size_t i = 0; i < match->field_count; i++)
    if (!tp__phase_carries(registry, phase, match->fields[i])) return match->fields[i];
  return TP_FIELD_NONE;
}

tp_field_id tp__match_missing_field(const tp__registry *registry, tp_phase_id phase, const tp_match *match) {
  return match->struct_size ? missing_field(registry, phase, match) : TP_FIELD_NONE;
}

/* ---- copying ---- */

/** What is written of a description. */
typedef struct words {
  char text[DESCRIPTION_BYTES_MAX];
  size_t used;
} words;

static void put_words(words *w, const char *separator, const char *name, const char *text) {
  if (w->used >= sizeof w->text) return;
  int size = snprintf(w->text + w->used, sizeof w->text - w->used, "%s%s%s", separator, name, text);
  w->used += size > 0 ? (size_t)size : 0;
}

static void describe(words *w, const tp_match *match) {
  char least[32];
  for (size_t i = 0; i < LISTS; i++)
    for (size_t k = 0; k < pattern_count(match, &lists[i]); k++) {
      if (k > 0) put_words(w, ", ", "", items_of(match, &lists[i])[k]);
      else put_words(w, w->used ? "; " : "", lists[i].words, ": "), put_words(w, "", "", items_of(match, &lists[i])[k]);
    }
  if (match->text_prefix) put_words(w, w->used ? "; " : "", "text begins with: ", match->text_prefix);
  snprintf(least, sizeof least, "%lld ms", (long long)match->duration_ms_min);
  if (match->duration_ms_min) put_words(w, w->used ? "; " : "", "duration at least: ", least);
}

/* Cut where it is too long. */
static bool copy_description(tp__arena *arena, tp_match *match) {
  if (match->description) return tp__arena_string(arena, match->description, &match->description);
  words w = {.used = 0};
  describe(&w, match);
  size_t size = strlen(w.text);
  w.text[tp__utf8_cut((tp_text){w.text, size}, size)] = '\0';
  return tp__arena_string(arena, w.text, &match->description);
}

static bool copy_patterns(tp__arena *arena, tp_match *match, const patterns *p) {
  TP__ASSERT(pattern_count(match, p) <= TP_PATTERNS_MAX);
  size_t count = pattern_count(match, p);
  const char **copy = tp__arena_alloc(arena, (count + 1) * sizeof *copy);
  if (!copy) return false;
  for (size_t i = 0; i < count; i++)
    if (!tp__arena_string(arena, items_of(match, p)[i], &copy[i])) return false;
  *(const char *const **)(void *)((char *)match + p->list) = copy;
  return true;
}

bool tp__match_copy(tp__arena *arena, const tp_match *theirs, tp_match *ret_match) {
  TP__ASSERT(theirs && tp__match_check("", theirs, NULL) == TP_OK);
  tp_match match;
  if (tp__options_read(&match, sizeof match, theirs, "tp_match", NULL) != TP_OK) return false; /* was checked */
  tp_field_id *fields = tp__arena_alloc(arena, (match.field_count + 1) * sizeof *fields);
  if (!fields) return false;
  if (match.field_count > 0) memcpy(fields, match.fields, match.field_count * sizeof *fields);
  match.fields = fields;
  for (size_t i = 0; i < LISTS; i++)
    if (!copy_patterns(arena, &match, &lists[i])) return false;
  if (!tp__arena_string(arena, match.text_prefix, &match.text_prefix) || !copy_description(arena, &match)) return false;
  match.struct_size = sizeof match;
  *ret_match = match;
  return true;
}

void tp__match_each_condition(const tp_match *match, void (*each)(void *ctx, const char *text), void *ctx) {
  for (size_t i = 0; i < LISTS; i++)
    for (size_t k = 0; k < pattern_count(match, &lists[i]); k++) {
      each(ctx, lists[i].member);
      each(ctx, items_of(match, &lists[i])[k]);
    }
  if (match->text_prefix) each(ctx, match->text_prefix);
}
