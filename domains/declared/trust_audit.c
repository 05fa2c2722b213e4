/* SPDX-License-Identifier: Apache-2.0
 *
 * trust_audit.c: writes decisions about trust as audit rows. The action is "trust"; the detail begins with "given",
 * "lost", "refused" or "refused code". If a store does not take the row, the runtime's log gets a line. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "domains/declared/hook.h"
#include "domains/declared/trust.h"

enum { DETAIL_SIZE = 2048 };

static void add_audit_row(const tp_hooks *hooks, tp_status decision, const char *format, ...) TP__PRINTF(3, 4);
static void add_audit_row(const tp_hooks *hooks, tp_status decision, const char *format, ...) {
  char detail[DETAIL_SIZE];
  const char *owner = hooks->trusted_by ? hooks->trusted_by : hooks->owner;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  tp__make_printable(detail); /* names of files may be no UTF-8 */
  assert(owner[0]);
  (void)!tp_runtime_audit_add(hooks->runtime, owner, "trust", tp_text_of(detail), decision, NULL);
}

static bool count_code(void *ctx, const tp_hook_file *file) {
  size_t *count = ctx;
  *count += file->is_code;
  return true;
}

void tp__trust_audit_given(tp_hooks *hooks, const tp_hooks *before) {
  size_t code_count = 0;
  if (before && strcmp(before->hash, hooks->hash) == 0) return;
  tp_hooks_each_file(hooks, count_code, &code_count);
  add_audit_row(hooks, TP_OK, "given: content %.12s, %zu files of code, %s", hooks->hash, code_count, hooks->directory);
}

void tp__trust_audit_refused(tp_hooks *hooks, tp_hooks *before, const char *what) {
  bool is_known = false;
  if (before) {
    tp__lock_acquire(&before->mutex);
    is_known = strcmp(before->refused, hooks->hash) == 0;
    memcpy(before->refused, hooks->hash, sizeof before->refused);
    tp__lock_release(&before->mutex);
  }
  if (is_known) return;
  add_audit_row(hooks, TP_ERR_USAGE, "%s: %s%scontent %.12s is not trusted, %s", before ? "lost" : "refused", what,
                what[0] ? "; " : "", hooks->hash, hooks->directory);
}

void tp__trust_audit_code(const tp__hook *hook, const char *why) {
  tp__hook *noted = (tp__hook *)(uintptr_t)hook;
  tp__lock_acquire(&hook->hooks->mutex);
  bool is_known = hook->is_refusal_noted;
  noted->is_refusal_noted = true;
  tp__lock_release(&hook->hooks->mutex);
  if (!is_known) add_audit_row(hook->hooks, TP_ERR_USAGE, "refused code: %s does not start: %s", hook->id, why);
}
