/* SPDX-License-Identifier: Apache-2.0
 *
 * What the module `value` costs: the arguments of a tool call, checked, read, written and made canonical. */
#include <msgpack/unpack.h>

#include "bench/modules/module.h"

typedef struct value_bench {
  tp_writer *writer, *other;
  tp_text value; /* a value in another form */
} value_bench;

static void write_arguments(tp_writer *writer) {
  tp_write_map(writer, 4);
  tp_write_string(writer, "path");
  tp_write_string(writer, "src/main.c");
  tp_write_string(writer, "line");
  tp_write_int(writer, 1234);
  tp_write_string(writer, "all");
  tp_write_bool(writer, true);
  tp_write_string(writer, "words");
  tp_write_array(writer, 3);
  tp_write_string(writer, "one");
  tp_write_string(writer, "two");
  tp_write_string(writer, "three");
}

static int64_t check(void *ctx, uint32_t times) {
  value_bench *module = ctx;
  MODULE_TIMED(times, bench_must(tp_value_check(module->value, NULL), NULL));
}

static int64_t get(void *ctx, uint32_t times) {
  value_bench *module = ctx;
  MODULE_TIMED(times, MODULE_KEEP(tp_value_int(tp_value_get(module->value, "line"), 0)));
}

static int64_t walk(void *ctx, uint32_t times) {
  value_bench *module = ctx;
  MODULE_TIMED(times, tp_value_walk w = {0}; while (tp_value_next(module->value, &w)) MODULE_KEEP(w.value.size));
}

/* The same work by msgpack-c: it builds a tree of objects in its own memory. */
static int64_t unpack(void *ctx, uint32_t times) {
  value_bench *module = ctx;
  msgpack_unpacked unpacked;
  size_t at = 0;
  msgpack_unpacked_init(&unpacked);
  MODULE_TIMED(times, at = 0; MODULE_KEEP(msgpack_unpack_next(&unpacked, module->value.data, module->value.size, &at));
               msgpack_unpacked_destroy(&unpacked));
}

static int64_t write(void *ctx, uint32_t times) {
  value_bench *module = ctx;
  tp_text value;
  MODULE_TIMED(times, tp_writer_reset(module->writer); write_arguments(module->writer);
               bench_must(tp_writer_finish(module->writer, &value), NULL));
}

static int64_t canonical(void *ctx, uint32_t times) {
  value_bench *module = ctx;
  MODULE_TIMED(times, tp_writer_reset(module->writer);
               bench_must(tp_value_write_canonical(module->value, module->writer, NULL), NULL));
}

static int64_t utf8(void *ctx, uint32_t times) {
  static const char text[] = "A sentence of the usual length, as handlers write them, with an é in it. ";
  (void)ctx;
  MODULE_TIMED(times, MODULE_KEEP(tp_utf8_valid((tp_text){text, sizeof text - 1}, NULL)));
}

int main(int argc, char **argv) {
  bench_program program;
  value_bench module;
  bench_row row = {.name = "value", .what = "a map of four arguments"};
  bench_open(&program, "value", "What the module value costs.", "value ", argc, argv);
  bench_must(tp_writer_new(NULL, &module.writer), NULL);
  bench_must(tp_writer_new(NULL, &module.other), NULL);
  write_arguments(module.other);
  bench_must(tp_writer_finish(module.other, &module.value), NULL);
  module_add(&row, "check", check, &module);
  module_add(&row, "get, the second of four", get, &module);
  module_add(&row, "walk over all", walk, &module);
  module_add(&row, "msgpack-c: unpack", unpack, &module);
  module_add(&row, "write", write, &module);
  module_add(&row, "canonical form", canonical, &module);
  module_add(&row, "is a sentence UTF-8", utf8, &module);
  bench_row_run(&program, &row, NULL);
  tp_writer_free(module.writer);
  tp_writer_free(module.other);
  return bench_close(&program);
}
