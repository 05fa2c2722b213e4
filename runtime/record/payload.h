/* SPDX-License-Identifier: Apache-2.0
 *
 * payload: the call of a background job as one value: the ids of its turn, the fields of the payload, and the sets that
 * were merged so far.
 *   {ids: [8 texts], mode: text, caller: int, fields: [[id, number | text | {v: value}] …], sets: value} */
#ifndef TP__PAYLOAD_H
#define TP__PAYLOAD_H

#include "runtime/base/base.h"
#include "turnphase/store.h"

typedef struct tp__payload {
  tp_text ids[TP_ID_COUNT];
  tp_text mode;
  tp_caller caller;
  const tp_field *fields;
  uint32_t field_count;
  tp_text sets; /* one value */
} tp__payload;

void tp__payload_write(const tp__payload *payload, tp_writer *writer);
/** Texts point into the value; the array of fields lies in the arena. @return TP_OK, TP_ERR_MALFORMED,
 *  TP_ERR_NO_MEMORY. */
tp_status tp__payload_read(tp_text value, tp__arena *arena, tp__payload *ret_payload);

#endif
