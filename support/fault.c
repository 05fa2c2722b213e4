/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fault.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fills the fault for the functions below, of which the compiler checks the format and its arguments.
 * @param error  an errno, whose text follows the message; 0: none. */
static tp_status write_refusal(tp_fault *fault, tp_status code, const char *subject, tp__place place, int error,
                               const char *format, va_list args) {
  assert(code != TP_OK);
  if (!fault) return code;
  /* longer than a fault's message, so that the cut sees where a code point ends */
  char message[2 * TP_FAULT_MESSAGE_SIZE];
  int size = vsnprintf(message, sizeof message, format, args);
  assert(size >= 0);
  if (error != 0 && (size_t)size < sizeof message)
    snprintf(message + size, sizeof message - (size_t)size, ": %s", strerror(error));
  /* The subject may be a part of the fault that is being filled. */
  tp_fault made = {.code = code, .line = place.line, .column = place.column, .system_error = error};
  tp_text whole = tp_text_of(message);
  whole.size = (size_t)tp__cut_word(whole, (int)sizeof made.message - 1);
  tp__show(made.message, sizeof made.message,
           whole.size > 0 ? whole : tp_text_of("(its message is one word of more than 511 bytes)"));
  tp__show(made.subject, sizeof made.subject, tp_text_of(subject));
  *fault = made;
  return code;
}

tp_status tp__refuse(tp_fault *fault, tp_status code, const char *subject, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)!write_refusal(fault, code, subject, (tp__place){0, 0}, 0, format, args);
  va_end(args);
  return code;
}

tp_status tp__refuse_at(tp_fault *fault, tp_status code, const char *subject, tp__place place, const char *format,
                        ...) {
  va_list args;
  va_start(args, format);
  (void)!write_refusal(fault, code, subject, place, 0, format, args);
  va_end(args);
  return code;
}

tp_status tp__refuse_errno(tp_fault *fault, tp_status code, const char *subject, int error, const char *format, ...) {
  va_list args;
  assert(error > 0);
  va_start(args, format);
  (void)!write_refusal(fault, code, subject, (tp__place){0, 0}, error, format, args);
  va_end(args);
  return code;
}

tp_status tp__struct_read(void *ours, size_t our_size, const void *theirs, const char *name, tp_fault *fault) {
  enum { STRUCT_SIZE_MAX = 4096 }; /* a larger struct_size is an uninitialised one */
  const char *bytes = theirs;
  size_t size = our_size;
  assert(our_size >= sizeof size && our_size <= STRUCT_SIZE_MAX && name);
  if (theirs) memcpy(&size, theirs, sizeof size);
  if (size < sizeof size || size > STRUCT_SIZE_MAX || size % sizeof size != 0)
    return tp__refuse(fault, TP_ERR_VERSION, NULL, "%s: struct_size is %zu; set it to sizeof(%s)", name, size, name);
  for (size_t i = our_size; i < size; i++)
    if (bytes[i])
      return tp__refuse(fault, TP_ERR_VERSION, NULL,
                        "%s: byte %zu is set, but this library is older (%s) and knows the first %zu bytes only; "
                        "leave the newer field zero, or install a newer turnphase",
                        name, i, tp_version(), our_size);
  memset(ours, 0, our_size);
  if (theirs) memcpy(ours, theirs, size < our_size ? size : our_size);
  memcpy(ours, &our_size, sizeof our_size);
  return TP_OK;
}
