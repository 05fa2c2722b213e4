/* SPDX-License-Identifier: Apache-2.0
 *
 * What the memory store costs: a record kept while the store is full, and a job that it knows already. */
#include "bench/modules/module.h"

typedef struct store_bench {
  tp_store *store;
  tp_text ids[TP_ID_COUNT];
  uint64_t entries;
  tp_job job;
} store_bench;

static bool run_of(const void *source, size_t index, tp_run_record *record) {
  (void)source;
  (void)index;
  *record = (tp_run_record){.struct_size = sizeof *record,
                            .subscription = "subscription",
                            .handler = "handler",
                            .owner = "owner",
                            .queued_ns = 1000,
                            .started_ns = 1000,
                            .ended_ns = 1010,
                            .attempts = 1,
                            .state = TP_STATE_SUCCEEDED};
  return true;
}

static int64_t record(void *ctx, uint32_t times) {
  store_bench *module = ctx;
  tp_store *store = module->store;
  tp_entry_record record = {.struct_size = sizeof record,
                            .phase = 64,
                            .started_ns = 1000,
                            .ended_ns = 1100,
                            .ids = module->ids,
                            .id_count = TP_ID_COUNT,
                            .run_count = 6,
                            .run = run_of};
  MODULE_TIMED(times, record.entry_id = ++module->entries; bench_must(store->record(store->ctx, &record), NULL));
}

static int64_t known_job(void *ctx, uint32_t times) {
  store_bench *module = ctx;
  tp_store *store = module->store;
  uint64_t id;
  bool existed;
  MODULE_TIMED(times, bench_must(store->job_insert(store->ctx, &module->job, &id, &existed, NULL), NULL));
}

int main(int argc, char **argv) {
  enum { RECORDS = 10000 };
  bench_program program;
  store_bench module = {.job = {.struct_size = sizeof(tp_job),
                                .attempts_max = 3,
                                .phase = 64,
                                .contract_version = 1,
                                .limit_ms = 1000,
                                .handler = tp_text_of("handler"),
                                .subscription = tp_text_of("subscription"),
                                .idempotency_key = tp_text_of("key"),
                                .payload = {"\x80", 1}}};
  bench_row row = {.name = "store", .what = "the memory store, full"};
  bench_open(&program, "store", "What the memory store costs.", "store ", argc, argv);
  module.ids[TP_ID_TURN] = tp_text_of("0123456789abcdef");
  module.ids[TP_ID_SESSION] = tp_text_of("session");
  tp_store_memory_options options = {.struct_size = sizeof options, .records_max = RECORDS};
  bench_must(tp_store_memory_new(NULL, &options, &module.store, NULL), NULL);
  (void)record(&module, RECORDS);
  module_add(&row, "record of an entry with 6 runs", record, &module);
  module_add(&row, "insert a job that is known", known_job, &module);
  bench_row_run(&program, &row, NULL);
  tp_store_free(module.store);
  return bench_close(&program);
}
