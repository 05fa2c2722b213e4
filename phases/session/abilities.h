/* SPDX-License-Identifier: Apache-2.0
 *
 * abilities: names that a session lists in session.end: the tools that it has used, and the files that they have
 * changed. Each name is listed once, in the order of first use, since the session began or since its last session.end.
 * No lock: the session's. */
#ifndef TP__ABILITIES_H
#define TP__ABILITIES_H

#include "runtime/base/base.h"

enum { TP__ABILITIES_MAX = 1000 };

typedef struct tp__abilities {
  const tp_allocator *allocator;
  tp__arena arena; /* of the names */
  tp_text *items;
  size_t count, capacity;
  uint64_t dropped; /* uses of tools that were not listed because there was no space or no memory */
} tp__abilities;

void tp__abilities_init(tp__abilities *abilities, const tp_allocator *allocator);
void tp__abilities_fini(tp__abilities *abilities);
void tp__abilities_add(tp__abilities *abilities, tp_text name);
/** Writes the names as an array of texts, in the arena; empty when there are none. @return false without memory. */
bool tp__abilities_write(const tp__abilities *abilities, tp__arena *arena, tp_text *ret_value);

#endif
