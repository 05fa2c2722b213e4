/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/field.h"
#include "cli/common/visible.h"
#include "runtime/base/check.h"

/* Messages contain names and texts of others, so characters that a terminal would obey or hide are shown as their
 * numbers. */
static void show_hidden_bytes(const char *message, char *ret_shown, size_t size) {
  size_t at = 0, used = 0, end = strlen(message);
  while (at < end && used + CLI_ESCAPE_SIZE < size) {
    uint32_t code;
    cli_visibility visibility;
    size_t bytes = cli_visible_step((tp_text){message + at, end - at}, &code, &visibility);
    char mark = cli_locale_is_ascii() && code >= 0x80 ? cli_locale_mark(code) : '\0';
    if (mark) {
      ret_shown[used++] = mark;
    } else if (visibility == CLI_VISIBLE || code == '\n' || code == '\t') {
      memcpy(ret_shown + used, message + at, bytes);
      used += bytes;
    } else {
      used += cli_visible_escape(code, ret_shown + used);
    }
    at += bytes;
  }
  ret_shown[used] = '\0';
}

static _Thread_local char *kept; /* NULL: nothing is kept */
static _Thread_local size_t kept_size;

void cli_message_keep(char *buffer, size_t size) {
  kept = buffer;
  kept_size = size;
  if (buffer) buffer[0] = '\0';
}

/* Uses one call of stdio per line, because the log callback may print from another thread in between. */
static void print_message(const char *place, const char *format, va_list args) {
  char message[2048], shown[4096];
  tp__bytes words = {0};
  vsnprintf(message, sizeof message, format, args);
  cli_field_words(tp_text_of(message), false, &words);
  show_hidden_bytes(tp__bytes_string(&words), shown, sizeof shown);
  tp__bytes_fini(&words);
  if (kept && !kept[0]) snprintf(kept, kept_size, "%s%s", place, shown);
  fprintf(stderr, "turnphase: %s%s\n", place, shown);
}

void cli_error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  print_message("", format, args);
  va_end(args);
}

void cli_error_at(const char *file, uint32_t line, uint32_t column, const char *format, ...) {
  char place[1100];
  if (line && column) snprintf(place, sizeof place, "%.1000s:%u:%u: ", file, line, column);
  else if (line) snprintf(place, sizeof place, "%.1000s:%u: ", file, line);
  else snprintf(place, sizeof place, "%.1000s: ", file);
  va_list args;
  va_start(args, format);
  print_message(place, format, args);
  va_end(args);
}

int cli_fault(const char *what, tp_status status, const tp_fault *fault) {
  assert(status != TP_OK);
  const char *message = fault->message[0] ? fault->message : tp_status_text(status);
  if (!what && fault->subject[0] && !strstr(message, fault->subject)) what = fault->subject;
  bool begins = what && strncmp(message, what, strlen(what)) == 0; /* the library has named it already */
  if (what && !begins) cli_error_at(what, fault->line, fault->column, "%s", message);
  else cli_error("%s", message);
  return cli_exit_of(status);
}
