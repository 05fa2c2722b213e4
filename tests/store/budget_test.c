/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets of a day in a store: a runtime that starts again on the same file knows how much the day's turns have used,
 * for each tenant; those of another day do not count; a runtime with a store that cannot be read does not start. */
#include <sqlite3.h>

#include "tests/support/directory.h"
#include "tests/support/test.h"
#include "tests/support/world.h"
#include "turnphase/inspect.h"
#include "turnphase/sqlite.h"

static tp_store *open_store(void) {
  const tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_store *store = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  return store;
}

static const tp_budget per_tenant = {.struct_size = sizeof per_tenant, .tokens_max = 100},
                       per_day = {.struct_size = sizeof per_day, .cost_micros_max = 1000};

/* Runs turns of one tenant in a runtime of its own, each of 40 tokens and a cost of 5. @return how many completed. */
static int run_turns(const char *tenant, int count, tp_usage *ret_of_tenant, tp_usage *ret_of_all) {
  static const reply costs[] = {{.text = "hi", .input_tokens = 30, .output_tokens = 10, .cost_micros = 5}};
  world_stage w;
  int completed = 0;
  world_open(&w, &(world_options){.runtime = {.store = open_store(),
                                              .durability = TP_DURABILITY_ASYNC,
                                              .tenant_day_budget = &per_tenant,
                                              .day_budget = &per_day},
                                  .replies = costs,
                                  .reply_count = 1,
                                  .session = {.tenant = tenant}});
  for (int i = 0; i < count; i++) {
    const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
    const tp_turn_result *result = NULL;
    assert_int_equal(tp_turn_run(w.session, &request, &result, NULL), TP_OK);
    completed += result->outcome == TP_TURN_COMPLETED;
    assert_int_equal(result->code, result->outcome == TP_TURN_COMPLETED ? TP_OK : TP_ERR_OVER_BUDGET);
    tp_turn_result_free(result);
  }
  *ret_of_tenant = (tp_usage){.struct_size = sizeof *ret_of_tenant};
  *ret_of_all = (tp_usage){.struct_size = sizeof *ret_of_all};
  assert_int_equal(tp_runtime_usage_get(w.runtime, tenant ? tenant : "", ret_of_tenant, NULL), TP_OK);
  assert_int_equal(tp_runtime_usage_get(w.runtime, NULL, ret_of_all, NULL), TP_OK);
  world_close(&w);
  return completed;
}

static void sql(const char *statement) {
  sqlite3 *db;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, statement, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

TEST_WITH(budget_of_the_day_is_not_forgotten_by_a_restart, make_directory, remove_directory) {
  tp_usage tenant, all;
  assert_int_equal(run_turns("acme", 2, &tenant, &all), 2);
  assert_int_equal(tenant.tokens, 80);
  assert_int_equal(run_turns("acme", 2, &tenant, &all), 1); /* 80 before, and 40 */
  assert_int_equal(tenant.requests, 3);
  assert_int_equal(tenant.tokens, 120);
  assert_int_equal(run_turns("acme", 1, &tenant, &all), 0);
  assert_int_equal(tenant.tokens, 120);
  assert_int_equal(run_turns(NULL, 1, &tenant, &all), 1); /* another tenant */
  assert_int_equal(tenant.tokens, 40);
  assert_int_equal(all.tokens, 160);
  assert_int_equal(all.cost_micros, 20);
  sql("UPDATE turn SET cost_micros = 1000 WHERE tenant = ''");
  assert_int_equal(run_turns("other", 1, &tenant, &all), 0); /* the day's budget is that of all tenants */
  assert_int_equal(all.cost_micros, 1015);
  sql("UPDATE turn SET ended_unix_ms = ended_unix_ms - 86400000");
  assert_int_equal(run_turns("acme", 3, &tenant, &all), 3); /* 40, 80, 120 of today */
  assert_int_equal(all.requests, 3);
}

static tp_status fail_to_read(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx,
                              tp_fault *fault) {
  (void)ctx, (void)query, (void)each, (void)each_ctx, (void)fault;
  return TP_ERR_STORE;
}

TEST(runtime_whose_budget_cannot_be_read_does_not_start) {
  tp_store *memory;
  for (int budgeted = 0; budgeted < 2; budgeted++) {
    assert_int_equal(tp_store_memory_new(NULL, NULL, &memory, NULL), TP_OK);
    tp_store store = *memory;
    store.turns = fail_to_read;
    const tp_runtime_options options = {
        .struct_size = sizeof options, .store = &store, .day_budget = budgeted ? &per_day : NULL};
    tp_runtime *runtime;
    assert_int_equal(tp_runtime_new(&options, &runtime, NULL), TP_OK);
    assert_int_equal(tp_runtime_start(runtime, NULL), budgeted ? TP_ERR_STORE : TP_OK);
    tp_runtime_free(runtime);
  }
}
