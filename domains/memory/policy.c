/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/policy.h"

#include <string.h>

#include "domains/memory/terms.h"

enum { DENY_READ = 1, DENY_WRITE = 2, DENY_TOOLS = 4 };

/** A rule is tried at the beginning of a clause, after words like "please", or with ~ anywhere in it. Its words are
 *  separated by spaces and their alternatives by bars; ! stands for "do not", "don't" and "never", and * for up to six
 *  words. The first rule that fits a clause decides for it. "I don't remember this" fits no rule, since "I" is not a
 *  word after which a rule is tried. */
typedef struct rule {
  const char *pattern;
  unsigned denies;
} rule;

static const rule rules[] = {
    {"! use|call * memory tool|tools", DENY_TOOLS},
    {"! remember|memorize|memorise this|that|it|these|those|any|anything|my", DENY_WRITE},
    {"! save|store|record|retain|keep|note|log this|that|it|these|those|any|anything", DENY_WRITE},
    {"! save|store|record|keep|add|put|write|commit * your memory|memories", DENY_WRITE},
    {"keep|leave this|that|it|these|those out of your memory|memories", DENY_WRITE},
    {"~ ! want you to remember|memorize|memorise|save|store|record|keep", DENY_WRITE},
    {"~ no need to remember|memorize|memorise|save|store|record|keep this|that|it|any|anything", DENY_WRITE},
    {"~ off the record", DENY_WRITE},
    {"! use|read|check|consult|search|trust|look|rely * your memory|memories", DENY_READ},
    {"! use|rely|look|consider * what you remember|know", DENY_READ},
    {"ignore|disregard * your memory|memories", DENY_READ},
    {"ignore|disregard|forget what|everything|anything|all you remember|know about|of|from", DENY_READ},
    {"~ without using|reading|checking|consulting|searching your memory|memories", DENY_READ},
    {"~ without your memory|memories", DENY_READ},
};

static const char lead_ins[] = "please|and|but|so|also|just|ok|okay|hey|now|then|or|kindly";

/** The words of a clause, up to a bound. */
typedef struct clause {
  tp_text words[64];
  size_t count;
} clause;

static bool word_is(const clause *c, size_t at, const char *alternatives) {
  return at < c->count && tp__memory_is_one_of(c->words[at], alternatives, strlen(alternatives));
}

/* How many words at this place mean "do not"; an apostrophe separates words. */
static size_t negation_at(const clause *c, size_t at) {
  if (word_is(c, at, "never|dont")) return 1;
  if (word_is(c, at, "do") && word_is(c, at + 1, "not")) return 2;
  if (word_is(c, at, "don") && word_is(c, at + 1, "t")) return 2;
  return 0;
}

static bool fits_at(const clause *c, size_t at, const char *pattern) {
  enum { GAP_MAX = 6 };
  while (*pattern) {
    size_t size = strcspn(pattern, " ");
    const char *rest = pattern + size + (pattern[size] == ' ');
    if (*pattern == '*') {
      for (size_t gap = 0; gap <= GAP_MAX && at + gap < c->count; gap++)
        if (fits_at(c, at + gap, rest)) return true;
      return false;
    }
    size_t taken =
        *pattern == '!' ? negation_at(c, at) : at < c->count && tp__memory_is_one_of(c->words[at], pattern, size);
    if (!taken) return false;
    at += taken;
    pattern = rest;
  }
  return true;
}

static bool clause_fits(const clause *c, const char *pattern) {
  if (*pattern != '~') {
    size_t at = 0;
    while (word_is(c, at, lead_ins)) at++;
    return fits_at(c, at, pattern);
  }
  for (size_t at = 0; at < c->count; at++)
    if (fits_at(c, at, pattern + 2)) return true;
  return false;
}

static unsigned denied_by(const clause *c) {
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    if (clause_fits(c, rules[i].pattern)) return rules[i].denies;
  return 0;
}

static unsigned denied_in(tp_text text) {
  tp__memory_words words = {.left = text};
  clause c = {.count = 0};
  unsigned denied = 0;
  while (tp__memory_words_next(&words)) {
    if (words.begins_clause) {
      denied |= denied_by(&c);
      c.count = 0;
    }
    if (c.count < sizeof c.words / sizeof c.words[0]) c.words[c.count++] = words.word;
  }
  return denied | denied_by(&c);
}

tp__memory_policy tp__memory_policy_of(tp_text text) {
  enum { READ_MAX = 4 * 1024 };
  tp_text head = {text.data, text.size <= 2 * READ_MAX ? text.size : READ_MAX};
  unsigned denied = denied_in(head);
  if (head.size < text.size) denied |= denied_in((tp_text){text.data + text.size - READ_MAX, READ_MAX});
  bool read = !(denied & DENY_READ), write = !(denied & DENY_WRITE);
  return (tp__memory_policy){.read = read, .write = write, .tools = !(denied & DENY_TOOLS) && (read || write)};
}
