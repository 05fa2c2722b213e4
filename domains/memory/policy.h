/* SPDX-License-Identifier: Apache-2.0
 *
 * policy: what a user's words demand about remembering. Simple rules over English clauses, listed in policy.c and
 * described in docs/memory.md; no model is asked. Pure functions. */
#ifndef TP__MEMORY_POLICY_H
#define TP__MEMORY_POLICY_H

#include "turnphase/base.h"

typedef struct tp__memory_policy {
  bool read;  /* recall, and the tools that only read */
  bool write; /* extraction, and the tools that change */
  bool tools; /* any tool at all */
} tp__memory_policy;

/** Allows everything except what the text asks not to do. Of a long text the first and last 4 KiB are read. */
tp__memory_policy tp__memory_policy_of(tp_text text);

#endif
