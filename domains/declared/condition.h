/* SPDX-License-Identifier: Apache-2.0
 *
 * condition: what a hook asks of the arguments of a call, without a program: match.arguments. Several conditions are a
 * conjunction. Nothing is allocated but for a long path or line. */
#ifndef TP__DECLARED_CONDITION_H
#define TP__DECLARED_CONDITION_H

#include "turnphase/handler.h"
#include "turnphase/value.h"

enum { TP__CONDITIONS_MAX = 16, TP__CONDITION_PATTERNS_MAX = 32, TP__CONDITION_PARTS_MAX = 16 };

typedef struct tp__condition_patterns {
  const char *items[TP__CONDITION_PATTERNS_MAX];
  size_t count;
} tp__condition_patterns;

/** One argument, and what holds of it: of one of its values, where the path leads to several. */
typedef struct tp__condition {
  tp_text parts[TP__CONDITION_PARTS_MAX]; /* of the path: a name, an index, or * for every one */
  size_t part_count;
  tp__condition_patterns globs; /* one matches; none: any value */
  tp__condition_patterns nots;  /* none matches */
  tp__condition_patterns runs;  /* of a line of a shell: one matches the words of a command in it */
  bool has_min, has_max;
  double min, max; /* of a number, both included */
  bool is_absent;  /* there is no such argument; nothing else is asked */
} tp__condition;

/** How an argument of a call is called in a path; NULL: as it is. Of the names at the top only. */
typedef tp_text (*tp__argument_name_fn)(void *ctx, tp_text ours);

typedef struct tp__conditions {
  tp__condition items[TP__CONDITIONS_MAX];
  size_t count;
  const char *root; /* of relative paths: absolute ones in it are looked at as relative ones, too */
} tp__conditions;

/** Sets the parts of a path such as edits.*.path. @param path  kept. @return what is wrong with it, or NULL. */
const char *tp__condition_set_path(tp__condition *condition, const char *path);

/** Whether all of them hold. @param arguments  a checked map; anything else has no arguments. */
bool tp__conditions_hold(const tp__conditions *conditions, tp_text arguments, tp__argument_name_fn name, void *ctx);

#endif
