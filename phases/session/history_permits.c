/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/history_permits.h"

#include "runtime/sched/pool.h"

void tp__history_permits_init(tp__history_permits *permits, uint32_t handler_threads) {
  permits->most = (tp__history_threads(handler_threads) + 1) / 2;
  for (int i = 0; i < TP__HISTORY_PERMITS; i++) tp__permits_init(&permits->by_tenant[i]);
}

tp__permits *tp__history_permits_of(tp__history_permits *permits, const char *tenant) {
  uint32_t hash = 0;
  for (const char *at = tenant; at && *at; at++) hash = hash * 31 + (unsigned char)*at;
  return &permits->by_tenant[hash % TP__HISTORY_PERMITS];
}
