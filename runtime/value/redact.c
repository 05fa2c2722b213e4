/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/value/redact.h"

static const char replacement[] = "[redacted]";

tp_text tp__redact(const tp__redactor *by, tp_redact_place place, tp_text text, char *buffer, size_t size) {
  TP__ASSERT(by && (buffer || size == 0) && (text.data || text.size == 0));
  if (!by->redact || text.size == 0) return text;
  tp_redaction redaction = {.struct_size = sizeof redaction, .place = place, .text = buffer, .capacity = size};
  size_t max = size < TP__REDACT_BYTES ? size : TP__REDACT_BYTES;
  redaction.size = tp__utf8_cut_word(text, max);
  redaction.is_cut = redaction.size < text.size;
  TP__ASSERT(redaction.size <= max && max <= size);
  if (redaction.size > 0) memcpy(buffer, text.data, redaction.size);
  if (redaction.size == 0 || !by->redact(by->ctx, &redaction) || redaction.size > size) return tp_text_of(replacement);
  tp_text left = {buffer, redaction.size};
  if (!tp_utf8_valid(left, NULL)) return tp_text_of(replacement);
  if (!redaction.is_cut) return left;
  /* When a secret crosses the cut, its first part fits no pattern. So the end of the text, which may hold such a part,
   * is removed. */
  left.size = left.size > TP__REDACT_TAIL ? tp__utf8_cut(left, left.size - TP__REDACT_TAIL) : 0;
  return left.size > 0 ? left : tp_text_of(replacement);
}

size_t tp__redact_before(const tp__redactor *by, tp_text text, size_t max) {
  return tp__utf8_cut(text, by->redact ? TP__REDACT_BYTES + sizeof(uint32_t) : max);
}
