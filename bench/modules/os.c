/* SPDX-License-Identifier: Apache-2.0
 *
 * What the seam to the machine costs, and the queue that stands on it. No other thread uses these locks and cache
 * lines; the benches of whole turns show what contention costs. */
#include "bench/modules/module.h"
#include "runtime/os/queue.h"

typedef struct os_bench {
  tp_allocator allocator;
  tp__mutex mutex;
  tp__parker parker;
  tp__queue_mpmc *queue;
  tp__a64 word;
} os_bench;

static int64_t now(void *ctx, uint32_t times) {
  (void)ctx;
  MODULE_TIMED(times, MODULE_KEEP(tp__now_ns()));
}

static int64_t unix_ms(void *ctx, uint32_t times) {
  (void)ctx;
  MODULE_TIMED(times, MODULE_KEEP(tp__unix_ms()));
}

static int64_t mutex(void *ctx, uint32_t times) {
  os_bench *module = ctx;
  MODULE_TIMED(times, tp__mutex_lock(&module->mutex); tp__mutex_unlock(&module->mutex));
}

static int64_t parker(void *ctx, uint32_t times) {
  os_bench *module = ctx;
  MODULE_TIMED(times, tp__parker_unpark(&module->parker);
               MODULE_KEEP(tp__parker_park_until(&module->parker, TP__NEVER)));
}

static int64_t add(void *ctx, uint32_t times) {
  os_bench *module = ctx;
  MODULE_TIMED(times, MODULE_KEEP(tp__a64_add_acq_rel(&module->word, 1)));
}

static int64_t queue(void *ctx, uint32_t times) {
  os_bench *module = ctx;
  MODULE_TIMED(times, MODULE_KEEP(tp__queue_mpmc_push(module->queue, module));
               MODULE_KEEP(tp__queue_mpmc_pop(module->queue)));
}

int main(int argc, char **argv) {
  static os_bench module;
  bench_program program;
  bench_row row = {.name = "os", .what = "clock, locks and queue, uncontended"};
  bench_open(&program, "os", "What the seam to the machine costs.", "os ", argc, argv);
  module.allocator = tp__allocator_of(NULL);
  bench_must(tp__mutex_init(&module.mutex, TP__RANK_NONE), NULL);
  bench_must(tp__parker_init(&module.parker), NULL);
  bench_must(tp__queue_mpmc_new(&module.allocator, 64, &module.queue), NULL);
  module_add(&row, "now", now, &module);
  module_add(&row, "unix time", unix_ms, &module);
  module_add(&row, "lock and unlock", mutex, &module);
  module_add(&row, "unpark, then park", parker, &module);
  module_add(&row, "atomic addition", add, &module);
  module_add(&row, "push to and pop from a queue", queue, &module);
  bench_row_run(&program, &row, NULL);
  tp__queue_mpmc_free(module.queue);
  tp__parker_fini(&module.parker);
  tp__mutex_fini(&module.mutex);
  return bench_close(&program);
}
