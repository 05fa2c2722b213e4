/* SPDX-License-Identifier: Apache-2.0
 *
 * condition: conditions of a hook on the arguments of a call, checked without a program: match.arguments. All of
 * several conditions must hold. Memory is only allocated for a long path or line. */
#ifndef TP__DECLARED_CONDITION_H
#define TP__DECLARED_CONDITION_H

#include "turnphase/handler.h"
#include "turnphase/value.h"

enum { TP__CONDITIONS_MAX = 16, TP__CONDITION_PATTERNS_MAX = 32, TP__CONDITION_PARTS_MAX = 16 };

typedef struct tp__condition_patterns {
  const char *items[TP__CONDITION_PATTERNS_MAX];
  size_t count;
} tp__condition_patterns;

/** A condition on one argument. If the path leads to several values, one of them must fit. */
typedef struct tp__condition {
  tp_text parts[TP__CONDITION_PARTS_MAX]; /* of the path: a name, an index, or * for every item */
  size_t part_count;
  tp__condition_patterns globs; /* one matches; none: any value */
  tp__condition_patterns nots;  /* none matches */
  tp__condition_patterns runs;  /* for a shell line: a pattern must match the words of one of its commands */
  bool has_min, has_max;
  double min, max; /* of a number, both included */
  bool is_absent;  /* the argument must not exist; nothing else is checked */
} tp__condition;

/** Translates the name of an argument for a path; NULL: the name is not changed. Only for names at the top level. */
typedef tp_text (*tp__argument_name_fn)(void *ctx, tp_text ours);

typedef struct tp__conditions {
  tp__condition items[TP__CONDITIONS_MAX];
  size_t count;
  const char *root; /* the root of relative paths: absolute paths below it are also compared as relative paths */
} tp__conditions;

/** Sets the parts of a path such as edits.*.path. @param path  kept. @return the error, or NULL. */
const char *tp__condition_set_path(tp__condition *condition, const char *path);

/** Whether all conditions hold. @param arguments  a checked map; any other value has no arguments. */
bool tp__conditions_hold(const tp__conditions *conditions, tp_text arguments, tp__argument_name_fn name, void *ctx);

#endif
