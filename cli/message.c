/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/exit_status.h"

/* One call of stdio for a line: the log callback may come in between from another thread. */
static void say(const char *place, const char *format, va_list args) {
  char message[2048];
  vsnprintf(message, sizeof message, format, args);
  fprintf(stderr, "turnphase: %s%s\n", place, message);
}

void cli_error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  say("", format, args);
  va_end(args);
}

void cli_error_at(const char *file, uint32_t line, uint32_t column, const char *format, ...) {
  char place[1100];
  if (line && column) snprintf(place, sizeof place, "%.1000s:%u:%u: ", file, line, column);
  else if (line) snprintf(place, sizeof place, "%.1000s:%u: ", file, line);
  else snprintf(place, sizeof place, "%.1000s: ", file);
  va_list args;
  va_start(args, format);
  say(place, format, args);
  va_end(args);
}

int cli_fault(const char *what, tp_status status, const tp_fault *fault) {
  const char *message = fault->message[0] ? fault->message : tp_status_text(status);
  bool begins = what && strncmp(message, what, strlen(what)) == 0; /* the library has named it already */
  if (what && !begins) cli_error_at(what, fault->line, fault->column, "%s", message);
  else cli_error("%s", message);
  return cli_exit_of(status);
}
