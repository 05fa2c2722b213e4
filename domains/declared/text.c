/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/text.h"

static bool continues(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

tp__place tp__place_of(tp_text text, size_t offset) {
  tp__place place = {1, 1};
  while (offset > 0 && offset < text.size && continues(text.data[offset])) offset--;
  for (size_t i = 0; i < offset; i++) {
    if (text.data[i] == '\n') {
      place.line++;
      place.column = 1;
    } else if (!continues(text.data[i])) {
      place.column++;
    }
  }
  return place;
}

bool tp__is_word(tp_text text, const char *word) {
  return text.size == strlen(word) && (text.size == 0 || memcmp(text.data, word, text.size) == 0);
}

bool tp__is_one_of(tp_text text, const char *words) {
  for (size_t size; *words; words += size + strspn(words + size, ", ")) {
    size = strcspn(words, ", ");
    if (size == text.size && memcmp(words, text.data, size) == 0) return true;
  }
  return false;
}

int tp__cut(tp_text text, int max) {
  if (text.size <= (size_t)max) return (int)text.size;
  while (max > 0 && continues(text.data[max])) max--;
  return max;
}

static void copy_cut(char *target, size_t target_size, const char *source) {
  size_t size = (size_t)tp__cut(tp_text_of(source), (int)target_size - 1);
  memcpy(target, source, size);
  target[size] = '\0';
}

/* What a library says of a text may quote it, half a code point or the codes of a terminal included. */
static void make_printable(char *message) {
  for (char *at = message; *at; at++) {
    if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
  }
  for (size_t bad; !tp_utf8_valid(tp_text_of(message), &bad);) message[bad] = '?';
}

tp_status tp__refuse(tp_fault *fault, tp_status code, const char *name, tp__place place, const char *format, ...) {
  if (!fault) return code;
  tp_fault found = {.code = code, .line = place.line, .column = place.column};
  char message[TP_FAULT_MESSAGE_SIZE + 4]; /* longer than what is kept, so that the cut sees where a code point ends */
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  make_printable(message);
  copy_cut(found.message, sizeof found.message, message);
  if (name) copy_cut(found.subject, sizeof found.subject, name);
  *fault = found;
  return code;
}

static void *malloc_alloc(void *ctx, size_t size) {
  (void)ctx;
  return malloc(size);
}

static void malloc_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

const tp_allocator tp__malloc_allocator = {.alloc = malloc_alloc, .release = malloc_release};

bool tp__grow(const tp_allocator *allocator, void **array, size_t *capacity, size_t need, size_t item_size) {
  if (need <= *capacity) return true;
  size_t items = *capacity > 0 ? *capacity : 64;
  while (items < need) items *= 2; /* ends: what is read is limited to some MiB */
  void *grown = allocator->alloc(allocator->ctx, items * item_size);
  if (!grown) return false;
  if (*array) {
    memcpy(grown, *array, *capacity * item_size);
    allocator->release(allocator->ctx, *array, *capacity * item_size);
  }
  *array = grown;
  *capacity = items;
  return true;
}
