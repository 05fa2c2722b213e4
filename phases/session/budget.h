/* SPDX-License-Identifier: Apache-2.0
 *
 * budget: how much the turns of each tenant, and of all tenants, have used on a day (UTC), and whether more is allowed.
 * A runtime without a budget counts nothing here. A start reads from the store how much earlier turns of the day have
 * used. Lock: `budgets`; nothing is called under it. */
#ifndef TP__BUDGET_H
#define TP__BUDGET_H

#include "runtime/base/hash_table.h"
#include "runtime/exec/runtime.h"
#include "runtime/os/os.h"

typedef struct tp__usage {
  int64_t requests, tokens, cost_micros;
} tp__usage;

/** 0 in a member: no limit of it. */
typedef struct tp__allowance {
  int64_t requests_max, tokens_max, cost_micros_max;
} tp__allowance;

/** A tenant that has open sessions or a budget of its own, or has used something today. */
typedef struct tp__account tp__account;

typedef struct tp__budgets {
  /* never change after init */
  tp_runtime *runtime;
  bool any; /* whether anything is counted */
  tp__allowance of_tenant, of_all;
  /* under mutex */
  tp__mutex mutex;
  int64_t day; /* since 1970 */
  tp__usage all;
  tp__hash_table accounts;
} tp__budgets;

/** Which budget is used up. */
typedef struct tp__overdraft {
  const char *whose, *what; /* "the budget of the day", "tokens" */
  int64_t used, max;
  bool is_cost;
} tp__overdraft;

/** @param theirs  NULL: none. @return TP_OK; TP_ERR_VERSION, TP_ERR_USAGE for a negative number. */
tp_status tp__allowance_read(const tp_budget *theirs, const char *field, tp__allowance *ret_allowance, tp_fault *fault);
static inline bool tp__allowance_any(const tp__allowance *a) {
  return a->requests_max || a->tokens_max || a->cost_micros_max;
}
/** Adds without running over. */
void tp__usage_add(tp__usage *usage, const tp__usage *more);
/** @return whether more may be used; if not, *ret_over names the exhausted limit. */
bool tp__allowance_left(const tp__allowance *allowance, const tp__usage *usage, const char *whose,
                        tp__overdraft *ret_over);

tp_status tp__budgets_init(tp__budgets *budgets, tp_runtime *runtime, const tp__allowance *of_tenant,
                           const tp__allowance *of_all);
void tp__budgets_fini(tp__budgets *budgets);
/** Those of a runtime (agent_layer.c). */
tp__budgets *tp__layer_budgets(const tp_runtime *runtime);
/** Called when the store was opened: adds what its turns of today have used. */
tp_status tp__budgets_load(tp__budgets *budgets, tp_fault *fault);

/** Called when a session of the tenant is opened. @param tenant NULL: none. @return NULL without memory. */
tp__account *tp__budgets_join(tp__budgets *budgets, const char *tenant);
/** It is gone. account may be NULL. */
void tp__budgets_part(tp__budgets *budgets, tp__account *account);
/** Any thread that has joined. */
bool tp__budgets_left(tp__budgets *budgets, tp__account *account, tp__overdraft *ret_over);
void tp__budgets_add(tp__budgets *budgets, tp__account *account, const tp__usage *more);

#endif
