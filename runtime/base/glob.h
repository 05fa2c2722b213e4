/* SPDX-License-Identifier: Apache-2.0
 *
 * glob: patterns of paths and names. "?" is one character but "/", "*" any number of them, "**" any number of all, and
 * "**" with a slash behind it any number of whole folders, none included. Everything else stands for itself, byte by
 * byte. Matching costs pattern times text, whatever the pattern. */
#ifndef TP__GLOB_H
#define TP__GLOB_H

#include "turnphase/handler.h"

/** @param pattern  at most TP_PATTERN_BYTES_MAX bytes; a longer one matches nothing. */
bool tp__glob_matches(tp_text pattern, tp_text text);

#endif
