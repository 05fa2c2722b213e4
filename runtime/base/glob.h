/* SPDX-License-Identifier: Apache-2.0
 *
 * glob: patterns of paths and names. "?" matches one character other than "/". "*" matches any number of such
 * characters. "**" matches any number of any characters. "**" followed by a slash matches any number of whole folders,
 * also none. Every other byte matches itself. A match takes time proportional to pattern times text, for every
 * pattern. */
#ifndef TP__GLOB_H
#define TP__GLOB_H

#include "turnphase/handler.h"

/** @param pattern  at most TP_PATTERN_BYTES_MAX bytes; a longer one matches nothing. */
bool tp__glob_matches(tp_text pattern, tp_text text);

#endif
