/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.c: builds a value. msgpack-c's packer chooses the shortest spelling of each head. The bytes go into an array
 * of the writer, so that they come from the host's allocator and the limit holds. */
#include <msgpack/pack.h>

#include "runtime/value/value.h"

void tp__writer_stick(tp_writer *writer, tp_status status) {
  if (writer->status == TP_OK) writer->status = status;
}

/* Makes room for need bytes. */
static tp_status grow_writer(tp_writer *writer, size_t need) {
  bool is_short = writer->bytes == writer->first;
  void *array = is_short ? NULL : writer->bytes;
  TP__TRY(tp__array_grow(&writer->allocator, &array, &writer->capacity, need, 1));
  if (is_short) memcpy(array, writer->first, writer->size);
  writer->bytes = array;
  return TP_OK;
}

/* Room for that many bytes, which count as written; NULL after an error. */
static char *extend(tp_writer *writer, size_t size) {
  if (writer->status != TP_OK) return NULL;
  tp_status status = size > TP__VALUE_BYTES_MAX - writer->size ? TP_ERR_TOO_LARGE
                     : size > writer->capacity - writer->size  ? grow_writer(writer, writer->size + size)
                                                               : TP_OK;
  tp__writer_stick(writer, status);
  if (status != TP_OK) return NULL;
  writer->size += size;
  return writer->bytes + writer->size - size;
}

/* The packer's callback. The packer goes on calling it after an error, because it does not check the result of every
 * piece. */
static int append_packed(void *data, const char *bytes, size_t size) {
  char *room = extend(data, size);
  if (!room) return -1;
  if (size > 0) memcpy(room, bytes, size);
  return 0;
}

static msgpack_packer packer_of(tp_writer *writer) { return (msgpack_packer){writer, append_packed}; }

/* Accounts for one value that contains `children` others. Each of them has at least one byte. So a number that the
 * limit could not hold is refused here, before the sum can grow large. */
static bool begin_value(tp_writer *writer, size_t children) {
  if (writer->missing == 0) tp__writer_stick(writer, TP_ERR_MALFORMED);
  if (children > TP__VALUE_BYTES_MAX - writer->missing) tp__writer_stick(writer, TP_ERR_TOO_LARGE);
  if (writer->status != TP_OK) return false;
  writer->missing += children;
  writer->missing--;
  return true;
}

void tp__value_writer_init(tp_writer *writer, const tp_allocator *allocator) {
  writer->allocator = *allocator;
  writer->bytes = writer->first;
  writer->capacity = sizeof writer->first;
  writer->json = NULL;
  writer->json_capacity = 0;
  tp_writer_reset(writer);
}

void tp__value_writer_fini(tp_writer *writer) {
  if (writer->bytes != writer->first) tp__release(&writer->allocator, writer->bytes, writer->capacity);
  tp__release(&writer->allocator, writer->json, writer->json_capacity);
}

tp_status tp_writer_new(const tp_allocator *allocator, tp_writer **ret_writer) {
  tp_allocator ours = tp__allocator_of(allocator);
  tp_writer *writer = tp__alloc(&ours, sizeof *writer);
  if (!writer) return TP_ERR_NO_MEMORY;
  tp__value_writer_init(writer, &ours);
  *ret_writer = writer;
  return TP_OK;
}

void tp_writer_free(tp_writer *writer) {
  if (!writer) return;
  tp_allocator allocator = writer->allocator;
  tp__value_writer_fini(writer);
  tp__release(&allocator, writer, sizeof *writer);
}

void tp_write_null(tp_writer *writer) {
  if (!writer) return;
  msgpack_packer packer = packer_of(writer);
  if (begin_value(writer, 0)) msgpack_pack_nil(&packer);
}

void tp_write_bool(tp_writer *writer, bool value) {
  if (!writer) return;
  msgpack_packer packer = packer_of(writer);
  if (!begin_value(writer, 0)) return;
  if (value) {
    msgpack_pack_true(&packer);
  } else {
    msgpack_pack_false(&packer);
  }
}

void tp_write_int(tp_writer *writer, int64_t value) {
  if (!writer) return;
  msgpack_packer packer = packer_of(writer);
  if (begin_value(writer, 0)) msgpack_pack_int64(&packer, value);
}

void tp_write_double(tp_writer *writer, double value) {
  if (!writer) return;
  msgpack_packer packer = packer_of(writer);
  if (begin_value(writer, 0)) msgpack_pack_double(&packer, value);
}

/* Text and bytes: too long ones are refused before the packer cuts their size to 32 bits. */
static bool begin_content(tp_writer *writer, tp_text content) {
  if (content.size > TP__VALUE_BYTES_MAX) tp__writer_stick(writer, TP_ERR_TOO_LARGE);
  return begin_value(writer, 0);
}

void tp_write_text(tp_writer *writer, tp_text text) {
  if (!writer) return;
  msgpack_packer packer = packer_of(writer);
  if (!begin_content(writer, text)) return;
  msgpack_pack_str(&packer, text.size);
  append_packed(writer, text.data, text.size);
}

char *tp__writer_text(tp_writer *writer, size_t size) {
  msgpack_packer packer = packer_of(writer);
  if (!begin_content(writer, (tp_text){NULL, size})) return NULL;
  msgpack_pack_str(&packer, size);
  return extend(writer, size);
}

void tp_write_string(tp_writer *writer, const char *string) {
  if (!writer) return;
  tp_write_text(writer, tp_text_of(string));
}

void tp_write_bytes(tp_writer *writer, tp_text bytes) {
  if (!writer) return;
  msgpack_packer packer = packer_of(writer);
  if (!begin_content(writer, bytes)) return;
  msgpack_pack_bin(&packer, bytes.size);
  append_packed(writer, bytes.data, bytes.size);
}

void tp_write_array(tp_writer *writer, size_t count) {
  if (!writer) return;
  msgpack_packer packer = packer_of(writer);
  if (begin_value(writer, count)) msgpack_pack_array(&packer, count);
}

void tp_write_map(tp_writer *writer, size_t count) {
  if (!writer) return;
  msgpack_packer packer = packer_of(writer);
  if (count > TP__VALUE_BYTES_MAX) tp__writer_stick(writer, TP_ERR_TOO_LARGE); /* twice as many must not overflow */
  if (begin_value(writer, 2 * count)) msgpack_pack_map(&packer, count);
}

void tp_write_value(tp_writer *writer, tp_text value) {
  if (!writer) return;
  if (value.size == 0 || tp__value_size(value, 0) != value.size) tp__writer_stick(writer, TP_ERR_MALFORMED);
  if (begin_value(writer, 0)) append_packed(writer, value.data, value.size);
}

tp_status tp_writer_finish(tp_writer *writer, tp_text *ret_value) {
  if (!writer) return tp__fail_null(NULL, "writer");
  if (writer->status != TP_OK) return writer->status;
  if (writer->missing > 0) return TP_ERR_MALFORMED;
  *ret_value = (tp_text){writer->bytes, writer->size};
  return TP_OK;
}

void tp_writer_reset(tp_writer *writer) {
  if (!writer) return;
  writer->size = 0;
  writer->missing = 1;
  writer->status = TP_OK;
}

void tp__writer_return(tp_writer *writer, size_t size, size_t missing) {
  assert(writer->status == TP_OK && size <= writer->size);
  writer->size = size;
  writer->missing = missing;
}

tp_status tp__writer_status(const tp_writer *writer) { return writer->status; }

const tp_allocator *tp__writer_allocator(const tp_writer *writer) { return &writer->allocator; }
