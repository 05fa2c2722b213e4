/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void *malloc_alloc(void *ctx, size_t size) {
  (void)ctx;
  return malloc(size);
}

static void malloc_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

static const tp_allocator of_malloc = {.alloc = malloc_alloc, .release = malloc_release};
const tp_allocator *tp__openai_memory = &of_malloc;

void *tp__openai_alloc(size_t size) {
  void *memory = tp__openai_memory->alloc(tp__openai_memory->ctx, size);
  if (memory) memset(memory, 0, size);
  return memory;
}

void tp__openai_free(void *memory, size_t size) {
  if (memory) tp__openai_memory->release(tp__openai_memory->ctx, memory, size);
}

char *tp__openai_copy(tp_text text) {
  char *copy = tp__openai_alloc(text.size + 1);
  if (copy && text.size > 0) memcpy(copy, text.data, text.size);
  return copy;
}

void tp__openai_string_free(char *string) {
  if (string) tp__openai_free(string, strlen(string) + 1);
}

/* ---- bytes ---- */

static bool reserve(tp__openai_bytes *bytes, size_t size) {
  if (bytes->failed) return false;
  size_t need = bytes->size + size + 1;
  if (need <= bytes->capacity) return true;
  size_t capacity = bytes->capacity ? bytes->capacity : 256;
  while (capacity < need) capacity *= 2; /* ends: what is gathered is limited to some MiB */
  char *data = tp__openai_memory->alloc(tp__openai_memory->ctx, capacity);
  if (!data) {
    bytes->failed = true;
    return false;
  }
  if (bytes->size > 0) memcpy(data, bytes->data, bytes->size);
  tp__openai_free(bytes->data, bytes->capacity);
  bytes->data = data;
  bytes->capacity = capacity;
  return true;
}

void tp__openai_put(tp__openai_bytes *bytes, const char *data, size_t size) {
  if (!reserve(bytes, size)) return;
  if (size > 0) memcpy(bytes->data + bytes->size, data, size);
  bytes->size += size;
}

void tp__openai_put_text(tp__openai_bytes *bytes, tp_text text) { tp__openai_put(bytes, text.data, text.size); }
void tp__openai_put_string(tp__openai_bytes *bytes, const char *string) {
  tp__openai_put(bytes, string, strlen(string));
}
tp_text tp__openai_bytes_text(const tp__openai_bytes *bytes) { return (tp_text){bytes->data, bytes->size}; }

const char *tp__openai_bytes_string(tp__openai_bytes *bytes) {
  if (!reserve(bytes, 0)) return "";
  bytes->data[bytes->size] = '\0';
  return bytes->data;
}

void tp__openai_bytes_clear(tp__openai_bytes *bytes) {
  bytes->size = 0;
  bytes->failed = false;
}

void tp__openai_bytes_fini(tp__openai_bytes *bytes) {
  tp__openai_free(bytes->data, bytes->capacity);
  *bytes = (tp__openai_bytes){NULL, 0, 0, false};
}

/* ---- comparing ---- */

bool tp__openai_same(tp_text a, tp_text b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool tp__openai_is(tp_text text, const char *string) { return tp__openai_same(text, tp_text_of(string)); }

bool tp__openai_begins(tp_text text, const char *prefix) {
  size_t size = strlen(prefix);
  return text.size >= size && (size == 0 || memcmp(text.data, prefix, size) == 0);
}

bool tp__openai_has(tp_text text, const char *string) {
  size_t size = strlen(string);
  for (size_t at = 0; at + size <= text.size; at++)
    if (strncasecmp(text.data + at, string, size) == 0) return true;
  return false;
}

/* ---- showing ---- */

static bool continues(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

void tp__openai_show(char *buffer, size_t size, tp_text text) {
  size_t end = text.size;
  if (end >= size) {
    end = size - 1;
    while (end > 0 && continues(text.data[end])) end--;
  }
  if (end > 0) memcpy(buffer, text.data, end);
  for (size_t i = 0; i < end; i++)
    if ((unsigned char)buffer[i] < 0x20 || buffer[i] == 0x7f) buffer[i] = buffer[i] == '\n' ? ' ' : '?';
  for (size_t bad; !tp_utf8_valid((tp_text){buffer, end}, &bad);) buffer[bad] = '?';
  buffer[end] = '\0';
}

tp_status tp__openai_refuse(tp_fault *fault, tp_status code, const char *subject, const char *format, ...) {
  if (!fault) return code;
  char message[TP_FAULT_MESSAGE_SIZE + 4]; /* longer than what is kept, so that the cut sees where a code point ends */
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  *fault = (tp_fault){.code = code};
  tp__openai_show(fault->message, sizeof fault->message, tp_text_of(message));
  if (subject) tp__openai_show(fault->subject, sizeof fault->subject, tp_text_of(subject));
  return code;
}
