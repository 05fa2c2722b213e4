/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern: regular expressions of JSON schemas (ECMA-262, with code points), as far as they can be played in time that
 * grows with the text alone: no look-around, no back reference, no \p{…}. A pattern is played as a set of places in a
 * program, never by going back, so none of them can be made slow. Pure functions; any thread. */
#ifndef TP__PATTERN_H
#define TP__PATTERN_H

#include "runtime/base/base.h"

enum { TP__PATTERN_PLACES_MAX = 1000 };

/** In the arena of its schema. Its source stays the caller's, and is not needed any more. */
typedef struct tp__pattern tp__pattern;

/** @param ret_pattern  NULL for what is no pattern, is one of those that are not played, or has more than 1,000 places
 *                      after its repetitions were written out.
 *  @return TP_OK, also then; TP_ERR_NO_MEMORY. */
tp_status tp__pattern_compile(tp_text source, tp__arena *arena, const tp__pattern **ret_pattern);

/** How many places it has: a match takes time in proportion to them and to the size of the text. */
size_t tp__pattern_places(const tp__pattern *pattern);

/** Whether the pattern is somewhere in a text of UTF-8, which ^ and $ bind to its begin and end. */
bool tp__pattern_matches(const tp__pattern *pattern, tp_text text);

#endif
