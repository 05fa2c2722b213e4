/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/budget.h"

enum { DAY_MS = 86400000 };

struct tp__account {
  tp__hash_link link;
  /* under the budgets' lock */
  char *tenant;
  uint32_t users; /* sessions */
  bool has_own;
  tp__allowance own; /* in place of that of every tenant */
  tp__usage used;    /* today */
};

static tp__account *account_of(tp__hash_link *link) { return TP__CONTAINER(link, tp__account, link); }

/* ---- allowances ---- */

tp_status tp__allowance_read(const tp_budget *theirs, const char *field, tp__allowance *ret_allowance,
                             tp_fault *fault) {
  tp_budget budget;
  *ret_allowance = (tp__allowance){0};
  if (!theirs) return TP_OK;
  TP__TRY(tp__options_read(&budget, sizeof budget, theirs, "tp_budget", fault));
  if (budget.requests_max < 0 || budget.tokens_max < 0 || budget.cost_micros_max < 0)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "%s has a negative number; 0 is no limit", field);
  *ret_allowance = (tp__allowance){budget.requests_max, budget.tokens_max, budget.cost_micros_max};
  return TP_OK;
}

static int64_t sum(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

void tp__usage_add(tp__usage *usage, const tp__usage *more) {
  TP__ASSERT(more->requests >= 0 && more->tokens >= 0 && more->cost_micros >= 0);
  usage->requests = sum(usage->requests, more->requests);
  usage->tokens = sum(usage->tokens, more->tokens);
  usage->cost_micros = sum(usage->cost_micros, more->cost_micros);
}

bool tp__allowance_left(const tp__allowance *a, const tp__usage *usage, const char *whose, tp__overdraft *ret_over) {
  const struct {
    const char *what;
    int64_t used, max;
  } rows[] = {{"requests", usage->requests, a->requests_max},
              {"tokens", usage->tokens, a->tokens_max},
              {"cost", usage->cost_micros, a->cost_micros_max}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].max == 0 || rows[i].used < rows[i].max) continue;
    *ret_over = (tp__overdraft){whose, rows[i].what, rows[i].used, rows[i].max, i == 2};
    return false;
  }
  return true;
}

/* ---- accounts ---- */

static void free_account_locked(tp__budgets *b, tp__account *account) {
  TP__LOCKED(&b->mutex);
  tp__hash_table_remove(&b->accounts, &account->link);
  tp__string_free(tp__runtime_allocator(b->runtime), account->tenant);
  tp__release(tp__runtime_allocator(b->runtime), account, sizeof *account);
}

static bool is_idle(const tp__account *account) {
  const tp__usage *used = &account->used;
  return account->users == 0 && !account->has_own && !(used->requests | used->tokens | used->cost_micros);
}

/* A new day begins with nothing used. A clock that is set back begins no new day. */
static void see_day_locked(tp__budgets *b) {
  TP__LOCKED(&b->mutex);
  int64_t day = tp__unix_ms() / DAY_MS;
  if (day <= b->day) return;
  b->day = day;
  b->all = (tp__usage){0};
  for (size_t i = 0; i < b->accounts.bucket_count; i++)
    for (tp__hash_link *link = b->accounts.buckets[i], *next; link; link = next) {
      next = link->next;
      account_of(link)->used = (tp__usage){0};
      if (is_idle(account_of(link))) free_account_locked(b, account_of(link));
    }
}

/* @return NULL without memory. */
static tp__account *account_of_locked(tp__budgets *b, tp_text tenant) {
  TP__LOCKED(&b->mutex);
  const tp_allocator *allocator = tp__runtime_allocator(b->runtime);
  uint64_t hash = tp__hash_text(tenant, 0);
  tp__hash_link *link = tp__hash_table_first(&b->accounts, hash);
  while (link && !tp_text_is(tenant, account_of(link)->tenant)) link = tp__hash_table_next(link);
  if (link) return account_of(link);
  tp__account *account = tp__alloc_zero(allocator, sizeof *account);
  if (!account) return NULL;
  account->tenant = tp__alloc_zero(allocator, tenant.size + 1);
  if (!account->tenant || tp__hash_table_reserve(&b->accounts, allocator) != TP_OK) {
    tp__string_free(allocator, account->tenant);
    tp__release(allocator, account, sizeof *account);
    return NULL;
  }
  if (tenant.size > 0) memcpy(account->tenant, tenant.data, tenant.size);
  tp__hash_table_add(&b->accounts, &account->link, hash);
  return account;
}

tp__account *tp__budgets_join(tp__budgets *b, const char *tenant) {
  tp__mutex_lock(&b->mutex);
  see_day_locked(b);
  tp__account *account = account_of_locked(b, tp_text_of(tenant));
  if (account) account->users++;
  tp__mutex_unlock(&b->mutex);
  return account;
}

void tp__budgets_part(tp__budgets *b, tp__account *account) {
  if (!account) return;
  tp__mutex_lock(&b->mutex);
  TP__ASSERT(account->users > 0);
  account->users--;
  if (is_idle(account)) free_account_locked(b, account);
  tp__mutex_unlock(&b->mutex);
}

bool tp__budgets_left(tp__budgets *b, tp__account *account, tp__overdraft *ret_over) {
  tp__mutex_lock(&b->mutex);
  TP__ASSERT(account->users > 0);
  see_day_locked(b);
  bool left = tp__allowance_left(account->has_own ? &account->own : &b->of_tenant, &account->used,
                                 "the tenant's budget of the day", ret_over) &&
              tp__allowance_left(&b->of_all, &b->all, "the budget of the day", ret_over);
  tp__mutex_unlock(&b->mutex);
  return left;
}

void tp__budgets_add(tp__budgets *b, tp__account *account, const tp__usage *more) {
  tp__mutex_lock(&b->mutex);
  TP__ASSERT(account->users > 0);
  see_day_locked(b);
  tp__usage_add(&account->used, more);
  tp__usage_add(&b->all, more);
  tp__mutex_unlock(&b->mutex);
}

/* ---- life ---- */

tp_status tp__budgets_init(tp__budgets *b, tp_runtime *runtime, const tp__allowance *of_tenant,
                           const tp__allowance *of_all) {
  b->runtime = runtime;
  b->of_tenant = *of_tenant;
  b->of_all = *of_all;
  b->any = tp__allowance_any(of_tenant) || tp__allowance_any(of_all);
  b->day = tp__unix_ms() / DAY_MS;
  return tp__mutex_init(&b->mutex, TP__RANK_budgets);
}

void tp__budgets_fini(tp__budgets *b) {
  tp__mutex_lock(&b->mutex);
  for (size_t i = 0; i < b->accounts.bucket_count; i++)
    while (b->accounts.buckets[i]) free_account_locked(b, account_of(b->accounts.buckets[i]));
  tp__mutex_unlock(&b->mutex);
  tp__hash_table_fini(&b->accounts, tp__runtime_allocator(b->runtime));
  tp__mutex_fini(&b->mutex);
}

/* ---- what the store has of today ---- */

typedef struct loading {
  tp__budgets *budgets;
  bool failed; /* no memory */
} loading;

static int64_t at_least_none(int64_t number) { return number > 0 ? number : 0; }

static bool add_record(void *ctx, const tp_turn_record *record) {
  loading *l = ctx;
  tp__budgets *b = l->budgets;
  tp__usage used = {.requests = record->iterations, .tokens = at_least_none(record->input_tokens)};
  used.tokens = sum(used.tokens, at_least_none(record->output_tokens));
  used.cost_micros = at_least_none(record->cost_micros);
  tp__mutex_lock(&b->mutex);
  tp__account *account =
      account_of_locked(b, record->id_count > TP_ID_TENANT ? record->ids[TP_ID_TENANT] : (tp_text){NULL, 0});
  if (account) {
    tp__usage_add(&account->used, &used);
    tp__usage_add(&b->all, &used);
  }
  tp__mutex_unlock(&b->mutex);
  l->failed = !account;
  return account != NULL;
}

tp_status tp__budgets_load(tp__budgets *b, tp_fault *fault) {
  const tp_store *store = tp__runtime_store(b->runtime);
  if (!b->any || !store->turns) return TP_OK;
  loading l = {.budgets = b};
  const tp_turn_query query = {.struct_size = sizeof query, .from_unix_ms = b->day * DAY_MS};
  tp__inside frame;
  TP__TRY(tp__store_left(&frame, store->turns(tp__store_enter(&frame, b->runtime), &query, add_record, &l, fault)));
  return l.failed ? tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for what was used today") : TP_OK;
}

/* ---- the public API ---- */

tp_status tp_runtime_set_tenant_budget(tp_runtime *runtime, const char *tenant, const tp_budget *budget,
                                       tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  tp__allowance own;
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(tp__allowance_read(budget, "budget", &own, fault));
  tp__budgets *b = tp__layer_budgets(runtime);
  if (!b->any)
    return tp__fail(fault, TP_ERR_USAGE, tenant,
                    "the runtime counts nothing by day: set tp_runtime_options.tenant_day_budget or day_budget");
  tp__mutex_lock(&b->mutex);
  tp__account *account = account_of_locked(b, tp_text_of(tenant));
  if (account) {
    account->has_own = budget != NULL;
    account->own = own;
    if (is_idle(account)) free_account_locked(b, account);
  }
  tp__mutex_unlock(&b->mutex);
  return account ? TP_OK : tp__fail(fault, TP_ERR_NO_MEMORY, tenant, "no memory for a budget");
}

tp_status tp_runtime_usage_get(tp_runtime *runtime, const char *tenant, tp_usage *ret_usage, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  TP__TRY(tp__size_check(ret_usage, "tp_usage", fault));
  TP__TRY(tp__runtime_usable(runtime, fault));
  tp__budgets *b = tp__layer_budgets(runtime);
  tp__usage used;
  tp__mutex_lock(&b->mutex);
  see_day_locked(b);
  used = b->all;
  tp_usage usage = {.struct_size = sizeof usage, .day_unix_ms = b->day * DAY_MS};
  if (tenant) {
    tp_text name = tp_text_of(tenant);
    tp__hash_link *link = tp__hash_table_first(&b->accounts, tp__hash_text(name, 0));
    while (link && !tp_text_is(name, account_of(link)->tenant)) link = tp__hash_table_next(link);
    used = link ? account_of(link)->used : (tp__usage){0};
  }
  tp__mutex_unlock(&b->mutex);
  usage.requests = used.requests;
  usage.tokens = used.tokens;
  usage.cost_micros = used.cost_micros;
  (void)tp__shown_fill(ret_usage, &usage, sizeof usage);
  return TP_OK;
}
