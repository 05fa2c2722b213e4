/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of a merge: the contributions of several handlers of one entry become one result. */
#include <stdio.h>

#include "bench/modules/module.h"
#include "phases/merge/merge.h"

enum { INPUTS_MAX = 16, BUFFER_BYTES = 64 * 1024 };

typedef struct merge_bench {
  tp__merge_input inputs[INPUTS_MAX];
  tp_contribution items[INPUTS_MAX];
  char keys[INPUTS_MAX][16];
  size_t count;
  char buffer[BUFFER_BYTES];
} merge_bench;

static void fill(merge_bench *module, uint32_t kind, size_t count) {
  module->count = count;
  for (size_t i = 0; i < count; i++) {
    snprintf(module->keys[i], sizeof module->keys[i], "key-%zu", i);
    module->items[i] = (tp_contribution){.struct_size = sizeof(tp_contribution),
                                         .kind = kind,
                                         .weight = (int32_t)(i * 7 % count),
                                         .domain = tp_text_of("domain"),
                                         .key = tp_text_of(module->keys[i]),
                                         .text = tp_text_of("a sentence that a handler contributed")};
    module->inputs[i] = (tp__merge_input){.subscription = module->keys[i],
                                          .owner = "owner",
                                          .handler = "handler",
                                          .attempt = 1,
                                          .items = &module->items[i],
                                          .count = 1};
  }
}

static int64_t merge(void *ctx, uint32_t times) {
  merge_bench *module = ctx;
  static const tp__turn_sets none;
  tp_allocator allocator = tp__allocator_of(NULL);
  tp_merged *merged;
  tp__arena arena;
  tp__merge all = {.phase = TP_PHASE_HOST, .inputs = module->inputs, .input_count = module->count, .sets = &none};
  MODULE_TIMED(times, tp__arena_init(&arena, &allocator, module->buffer, sizeof module->buffer, 0);
               bench_must(tp__merge_run(&all, &arena, &merged, NULL), NULL); tp__arena_fini(&arena));
}

int main(int argc, char **argv) {
  static merge_bench one, contexts, policies;
  bench_program program;
  bench_row row = {.name = "merge", .what = "the contributions of one entry"};
  bench_open(&program, "merge", "What the merge costs.", "merge ", argc, argv);
  fill(&one, TP_CONTRIBUTION_PROMPT_CONTEXT, 1);
  fill(&contexts, TP_CONTRIBUTION_PROMPT_CONTEXT, INPUTS_MAX);
  fill(&policies, TP_CONTRIBUTION_POLICY, INPUTS_MAX);
  module_add(&row, "one prompt context", merge, &one);
  module_add(&row, "16 prompt contexts", merge, &contexts);
  module_add(&row, "16 policies", merge, &policies);
  bench_row_run(&program, &row, NULL);
  return bench_close(&program);
}
