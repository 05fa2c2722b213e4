/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern: regular expressions of JSON schemas (ECMA-262, with code points), except those that cannot be matched in
 * linear time: no look-around, no back reference, no \\p{…}. A pattern is a program, and the matcher keeps the set of
 * places in it that are possible. It never goes back, so no pattern can be made slow. Pure functions; any thread. */
#ifndef TP__PATTERN_H
#define TP__PATTERN_H

#include "runtime/base/base.h"

enum { TP__PATTERN_PLACES_MAX = 1000 };

/** A compiled pattern, in the arena of its schema. Its source stays the caller's, and is not needed any more. */
typedef struct tp__pattern tp__pattern;

/** @param ret_pattern  NULL when the source is no pattern, is one of the unsupported patterns, or has more than 1,000
 *                      places after its repetitions were written out.
 *  @return TP_OK, also then; TP_ERR_NO_MEMORY. */
tp_status tp__pattern_compile(tp_text source, tp__arena *arena, const tp__pattern **ret_pattern);

/** How many places the pattern has. The time of a match is proportional to this and to the size of the text. */
size_t tp__pattern_places(const tp__pattern *pattern);

/** Whether the pattern matches anywhere in a UTF-8 text; ^ and $ match only its begin and its end. */
bool tp__pattern_matches(const tp__pattern *pattern, tp_text text);

#endif
