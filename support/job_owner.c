/* SPDX-License-Identifier: Apache-2.0 */
#include "support/job_owner.h"

#include "turnphase/handler.h"
#include "turnphase/value.h"

void tp__job_owner(tp_text payload, tp_text ret_owner[2]) {
  static const int which[] = {TP_ID_TENANT, TP_ID_SESSION};
  tp_text ids = {NULL, 0};
  if (tp_value_check(payload, NULL) == TP_OK && tp_value_kind_of(payload) == TP_VALUE_MAP)
    ids = tp_value_get(payload, "ids");
  int at = 0;
  for (tp_value_walk walk = {0}; ids.size && tp_value_kind_of(ids) == TP_VALUE_ARRAY && tp_value_next(ids, &walk); at++)
    for (int i = 0; i < 2; i++)
      if (at == which[i] && tp_value_kind_of(walk.value) == TP_VALUE_TEXT) ret_owner[i] = tp_value_text(walk.value);
}
