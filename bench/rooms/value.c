/* SPDX-License-Identifier: Apache-2.0
 *
 * What the room `value` costs: the arguments of a tool call, checked, read, written and made canonical. */
#include "bench/rooms/room.h"

typedef struct value_room {
  tp_writer *writer, *other;
  tp_text value; /* in other */
} value_room;

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
  value_room *room = ctx;
  ROOM_TIMED(times, bench_must(tp_value_check(room->value, NULL), NULL));
}

static int64_t get(void *ctx, uint32_t times) {
  value_room *room = ctx;
  ROOM_TIMED(times, ROOM_KEEP(tp_value_int(tp_value_get(room->value, "line"), 0)));
}

static int64_t walk(void *ctx, uint32_t times) {
  value_room *room = ctx;
  ROOM_TIMED(times, tp_value_walk w = {0}; while (tp_value_next(room->value, &w)) ROOM_KEEP(w.value.size));
}

static int64_t write(void *ctx, uint32_t times) {
  value_room *room = ctx;
  tp_text value;
  ROOM_TIMED(times, tp_writer_reset(room->writer); write_arguments(room->writer);
             bench_must(tp_writer_finish(room->writer, &value), NULL));
}

static int64_t canonical(void *ctx, uint32_t times) {
  value_room *room = ctx;
  ROOM_TIMED(times, tp_writer_reset(room->writer);
             bench_must(tp_value_write_canonical(room->value, room->writer, NULL), NULL));
}

static int64_t utf8(void *ctx, uint32_t times) {
  static const char text[] = "A sentence of the usual length, as handlers write them, with an é in it. ";
  (void)ctx;
  ROOM_TIMED(times, ROOM_KEEP(tp_utf8_valid((tp_text){text, sizeof text - 1}, NULL)));
}

int main(int argc, char **argv) {
  bench_program program;
  value_room room;
  bench_row row = {.name = "value", .what = "a map of four arguments"};
  bench_open(&program, "value", "What the room value costs.", "value ", argc, argv);
  bench_must(tp_writer_new(NULL, &room.writer), NULL);
  bench_must(tp_writer_new(NULL, &room.other), NULL);
  write_arguments(room.other);
  bench_must(tp_writer_finish(room.other, &room.value), NULL);
  room_add(&row, "check", check, &room);
  room_add(&row, "get, the second of four", get, &room);
  room_add(&row, "walk over all", walk, &room);
  room_add(&row, "write", write, &room);
  room_add(&row, "canonical form", canonical, &room);
  room_add(&row, "is a sentence UTF-8", utf8, &room);
  bench_row_run(&program, &row, NULL);
  tp_writer_free(room.writer);
  tp_writer_free(room.other);
  return bench_close(&program);
}
