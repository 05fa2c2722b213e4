/* SPDX-License-Identifier: Apache-2.0 */
#include "support/json.h"

#include "support/text.h"
#include "turnphase/value.h"

void tp__put_json(tp__bytes *out, tp_text text) {
  static const char digits[] = "0123456789abcdef";
  tp__bytes clean = {0};
  size_t at;
  if (!tp_utf8_valid(text, &at)) {
    (void)tp__bytes_put_utf8(&clean, text);
    text = tp__bytes_text(&clean);
    out->failed |= clean.failed;
  }
  tp__bytes_put(out, "\"", 1);
  for (size_t i = 0, from = 0; i <= text.size; i++) {
    unsigned char c = i < text.size ? (unsigned char)text.data[i] : 0;
    if (i < text.size && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
    if (i > from) tp__bytes_put(out, text.data + from, i - from);
    from = i + 1;
    if (i == text.size) break;
    if (c == '"' || c == '\\') tp__bytes_put(out, (char[]){'\\', (char)c}, 2);
    else if (c == '\n') tp__bytes_put(out, "\\n", 2);
    else tp__bytes_put(out, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
  }
  tp__bytes_put(out, "\"", 1);
  tp__bytes_fini(&clean);
}
