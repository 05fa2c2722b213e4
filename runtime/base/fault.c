/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.c: fills a fault, and reads a caller's options. */
#include <stdio.h>

#include "runtime/base/base.h"

/* Copies at most max bytes and a NUL, and never cuts a code point. */
static void copy_cut(char *target, tp_text text, size_t max) {
  size_t size = tp__utf8_cut(text, max);
  if (size > 0) memcpy(target, text.data, size);
  target[size] = '\0';
}

tp_status tp__fail(tp_fault *fault, tp_status code, const char *subject, const char *format, ...) {
  if (!fault) return code;
  /* The fault is built in a local variable, because subject and arguments may point into *fault: a fault may wrap an
   * earlier one. The buffer of the message is a few bytes longer than the message of a fault, so that the cut can see
   * where a code point ends. */
  tp_fault built = {.code = code};
  char message[TP_FAULT_MESSAGE_SIZE + 4] = "";
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  tp_text whole = tp_text_of(message);
  whole.size = tp__utf8_cut_word(whole, sizeof built.message - 1);
  if (whole.size == 0 && message[0]) whole = tp_text_of("(its message is one word of more than 511 bytes)");
  copy_cut(built.message, whole, sizeof built.message - 1);
  copy_cut(built.subject, tp_text_of(subject), sizeof built.subject - 1);
  *fault = built;
  return code;
}

tp_status tp__fail_null(tp_fault *fault, const char *parameter) {
  return tp__fail(fault, TP_ERR_USAGE, NULL, "%s is NULL: the function needs an object", parameter);
}

tp_status tp__options_read(void *ours, size_t our_size, const void *theirs, const char *name, tp_fault *fault) {
  assert(our_size % sizeof(size_t) == 0 && our_size <= TP__STRUCT_SIZE_MAX);
  size_t size = our_size;
  if (theirs) memcpy(&size, theirs, sizeof size);
  if (size < sizeof size || size > TP__STRUCT_SIZE_MAX || size % sizeof size != 0) {
    return tp__fail(fault, TP_ERR_VERSION, NULL, "%s: struct_size is %zu; set it to sizeof(%s)", name, size, name);
  }
  const char *bytes = theirs;
  for (size_t i = our_size; i < size; i++) {
    if (bytes[i] == 0) continue;
    return tp__fail(fault, TP_ERR_VERSION, NULL,
                    "%s: byte %zu is set, but this library is older (%s) and knows the first %zu bytes only; leave the "
                    "newer field zero, or install a newer turnphase",
                    name, i, tp_version(), our_size);
  }
  size_t known = !theirs ? 0 : size < our_size ? size : our_size;
  if (known > 0) memcpy(ours, theirs, known);
  if (known < our_size) memset((char *)ours + known, 0, our_size - known);
  memcpy(ours, &our_size, sizeof our_size); /* from here on it is a struct of ours */
  return TP_OK;
}

tp_status tp__size_check(const void *theirs, const char *name, tp_fault *fault) {
  size_t size;
  memcpy(&size, theirs, sizeof size);
  if (size >= sizeof size && size <= TP__STRUCT_SIZE_MAX && size % sizeof size == 0) return TP_OK;
  return tp__fail(fault, TP_ERR_VERSION, NULL, "%s: struct_size is %zu; set it to sizeof(%s)", name, size, name);
}

bool tp__shown_fill(void *theirs, const void *ours, size_t our_size) {
  size_t size;
  memcpy(&size, theirs, sizeof size);
  if (size < sizeof size || size > TP__STRUCT_SIZE_MAX) return false;
  size_t filled = size < our_size ? size : our_size;
  memcpy(theirs, ours, filled);
  memset((char *)theirs + filled, 0, size - filled);
  memcpy(theirs, &filled, sizeof filled);
  return true;
}
