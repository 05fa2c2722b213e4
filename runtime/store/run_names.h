/* SPDX-License-Identifier: Apache-2.0
 *
 * run_names: gives the subscription of a record's row a number. So a row has four words instead of eleven, which makes
 * recording fast. The table only grows, by each different subscription that was ever registered. It has no lock: its
 * owner adds names under a lock of its own, and any thread that has a number may look it up at any time. */
#ifndef TP__RUN_NAMES_H
#define TP__RUN_NAMES_H

#include "runtime/base/base.h"

enum { TP__RUN_NAMES_FIRST = 64, TP__RUN_NAMES_CHUNKS = 24 };

/** What all rows of a subscription share, interned: the strings live as long as the table. */
typedef struct tp__run_name {
  const char *subscription, *handler, *owner;
  uint8_t visibility; /* tp_visibility */
} tp__run_name;

/** Chunk i holds TP__RUN_NAMES_FIRST << i names, so no name ever moves. */
typedef struct tp__run_names {
  tp__run_name *chunks[TP__RUN_NAMES_CHUNKS];
  uint32_t count;
} tp__run_names;

void tp__run_names_fini(tp__run_names *names, const tp_allocator *allocator);
/** @return TP_OK; TP_ERR_NO_MEMORY; TP_ERR_TOO_LARGE when there is no number left. */
tp_status tp__run_names_add(tp__run_names *names, const tp_allocator *allocator, tp__run_name name, uint32_t *ret_id);
const tp__run_name *tp__run_name_of(const tp__run_names *names, uint32_t id);

#endif
