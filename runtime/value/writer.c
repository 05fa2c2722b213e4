/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.c: builds a value. msgpack-c's packer chooses the shortest spelling of each head; the bytes go into an array
 * of ours, so that the host's allocator gives them and the limit holds. */
#include <msgpack/pack.h>

#include "runtime/value/value.h"

enum { BYTES_FIRST = 256 };

struct tp_writer {
  tp_allocator allocator;
  msgpack_packer packer;
  char *bytes;
  size_t size, capacity;
  size_t missing;   /* values that must still come before there is exactly one; 1 at the start */
  tp_status status; /* the first error; nothing is written after it */
};

void tp__writer_stick(tp_writer *writer, tp_status status) {
  if (writer->status == TP_OK) writer->status = status;
}

/* The packer's callback. It calls again after an error, since not every piece's result is looked at. */
static int append(void *data, const char *bytes, size_t size) {
  tp_writer *writer = data;
  if (writer->status != TP_OK) return -1;
  if (size > TP__VALUE_BYTES_MAX - writer->size) {
    tp__writer_stick(writer, TP_ERR_TOO_LARGE);
    return -1;
  }
  size_t need = writer->size + size;
  void *array = writer->bytes;
  tp_status status =
      tp__array_grow(&writer->allocator, &array, &writer->capacity, need < BYTES_FIRST ? BYTES_FIRST : need, 1);
  if (status != TP_OK) {
    tp__writer_stick(writer, status);
    return -1;
  }
  writer->bytes = array;
  if (size > 0) memcpy(writer->bytes + writer->size, bytes, size);
  writer->size = need;
  return 0;
}

/* Accounts for one value with so many others inside. Each of those has at least one byte, so what the limit could not
 * hold is refused here, before the sum can grow large. */
static bool begin(tp_writer *writer, size_t children) {
  if (writer->missing == 0) tp__writer_stick(writer, TP_ERR_MALFORMED);
  if (children > TP__VALUE_BYTES_MAX - writer->missing) tp__writer_stick(writer, TP_ERR_TOO_LARGE);
  if (writer->status != TP_OK) return false;
  writer->missing += children;
  writer->missing--;
  return true;
}

tp_status tp_writer_new(const tp_allocator *allocator, tp_writer **ret_writer) {
  tp_allocator ours = tp__allocator_of(allocator);
  tp_writer *writer = tp__alloc_zero(&ours, sizeof *writer);
  if (!writer) return TP_ERR_NO_MEMORY;
  writer->allocator = ours;
  writer->missing = 1;
  msgpack_packer_init(&writer->packer, writer, append);
  *ret_writer = writer;
  return TP_OK;
}

void tp_writer_free(tp_writer *writer) {
  if (!writer) return;
  tp_allocator allocator = writer->allocator;
  tp__release(&allocator, writer->bytes, writer->capacity);
  tp__release(&allocator, writer, sizeof *writer);
}

void tp_write_null(tp_writer *writer) {
  if (begin(writer, 0)) msgpack_pack_nil(&writer->packer);
}

void tp_write_bool(tp_writer *writer, bool value) {
  if (!begin(writer, 0)) return;
  if (value) {
    msgpack_pack_true(&writer->packer);
  } else {
    msgpack_pack_false(&writer->packer);
  }
}

void tp_write_int(tp_writer *writer, int64_t value) {
  if (begin(writer, 0)) msgpack_pack_int64(&writer->packer, value);
}

void tp_write_double(tp_writer *writer, double value) {
  if (begin(writer, 0)) msgpack_pack_double(&writer->packer, value);
}

/* Text and bytes: refused before the packer cuts their size to 32 bits. */
static bool begin_content(tp_writer *writer, tp_text content) {
  if (content.size > TP__VALUE_BYTES_MAX) tp__writer_stick(writer, TP_ERR_TOO_LARGE);
  return begin(writer, 0);
}

void tp_write_text(tp_writer *writer, tp_text text) {
  if (!begin_content(writer, text)) return;
  msgpack_pack_str(&writer->packer, text.size);
  append(writer, text.data, text.size);
}

void tp_write_string(tp_writer *writer, const char *string) { tp_write_text(writer, tp_text_of(string)); }

void tp_write_bytes(tp_writer *writer, tp_text bytes) {
  if (!begin_content(writer, bytes)) return;
  msgpack_pack_bin(&writer->packer, bytes.size);
  append(writer, bytes.data, bytes.size);
}

void tp_write_array(tp_writer *writer, size_t count) {
  if (begin(writer, count)) msgpack_pack_array(&writer->packer, count);
}

void tp_write_map(tp_writer *writer, size_t count) {
  if (count > TP__VALUE_BYTES_MAX) tp__writer_stick(writer, TP_ERR_TOO_LARGE); /* twice as many must not overflow */
  if (begin(writer, 2 * count)) msgpack_pack_map(&writer->packer, count);
}

void tp_write_value(tp_writer *writer, tp_text value) {
  if (value.size == 0 || tp__value_size(value, 0) != value.size) tp__writer_stick(writer, TP_ERR_MALFORMED);
  if (begin(writer, 0)) append(writer, value.data, value.size);
}

tp_status tp_writer_finish(tp_writer *writer, tp_text *ret_value) {
  if (writer->status != TP_OK) return writer->status;
  if (writer->missing > 0) return TP_ERR_MALFORMED;
  *ret_value = (tp_text){writer->bytes, writer->size};
  return TP_OK;
}

void tp_writer_reset(tp_writer *writer) {
  writer->size = 0;
  writer->missing = 1;
  writer->status = TP_OK;
}

tp_status tp__writer_status(const tp_writer *writer) { return writer->status; }

const tp_allocator *tp__writer_allocator(const tp_writer *writer) { return &writer->allocator; }
