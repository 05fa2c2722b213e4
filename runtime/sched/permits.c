/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/permits.h"

void tp__permits_init(tp__permits *permits) {
  permits->used = permits->abandoned = permits->returning = 0;
  tp__list_init(&permits->line);
}

bool tp__permits_try(tp__permits *permits, uint32_t most) {
  if (permits->used + permits->returning >= most) return false;
  permits->used++;
  return true;
}

void tp__permits_abandon(tp__permits *permits) {
  TP__ASSERT(permits->abandoned < permits->used); /* the abandoned function holds one */
  permits->abandoned++;
}

void tp__permits_return(tp__permits *permits, bool abandoned) {
  TP__ASSERT(permits->used > 0 && permits->abandoned >= abandoned);
  permits->used--;
  permits->abandoned -= abandoned;
}

void tp__permits_reserve(tp__permits *permits) { permits->returning++; }

bool tp__permits_resume(tp__permits *permits, uint32_t most) {
  TP__ASSERT(permits->returning > 0);
  if (permits->used >= most) return false;
  permits->returning--;
  permits->used++;
  return true;
}
