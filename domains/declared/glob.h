/* SPDX-License-Identifier: Apache-2.0
 *
 * glob: patterns of paths and names. "?" is one character but "/", "*" any number of them, "**" any number of all, and
 * "**" with a slash behind it any number of whole folders, none included. Everything else stands for itself, byte by
 * byte. Matching costs pattern times text, whatever the pattern. */
#ifndef TP__DECLARED_GLOB_H
#define TP__DECLARED_GLOB_H

#include "turnphase/base.h"

enum { TP__GLOB_BYTES_MAX = 255 };

/** @param pattern  at most TP__GLOB_BYTES_MAX bytes; a longer one matches nothing. */
bool tp__glob_matches(tp_text pattern, tp_text text);

#endif
