/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/sse.h"

#include <string.h>

#include "runtime/base/check.h"

static bool event_ended(tp__openai_sse *sse) {
  if (!sse->has_data) return true;
  tp_text data = tp__bytes_text(&sse->data);
  data.size--; /* the LF behind the last line */
  bool goes_on = sse->on_event(sse->ctx, data);
  tp__bytes_clear(&sse->data);
  sse->has_data = false;
  return goes_on;
}

static bool line_ended(tp__openai_sse *sse, tp_text line) {
  if (!sse->past_first_line && tp__begins(line, "\xEF\xBB\xBF")) line = (tp_text){line.data + 3, line.size - 3};
  sse->past_first_line = true;
  if (line.size == 0) return event_ended(sse);
  if (!tp__begins(line, "data")) return true;
  tp_text value = {line.data + 4, line.size - 4};
  if (value.size > 0 && value.data[0] != ':') return true; /* another field */
  if (value.size > 0) value = (tp_text){value.data + 1, value.size - 1};
  if (value.size > 0 && value.data[0] == ' ') value = (tp_text){value.data + 1, value.size - 1};
  sse->has_data = true;
  tp__bytes_put_text(&sse->data, value);
  tp__bytes_put(&sse->data, "\n", 1);
  sse->too_large = sse->data.size > sse->event_bytes_max;
  return !sse->data.failed && !sse->too_large;
}

/* The line may be whole in the bytes that just came: then it is read where it is. */
static bool take_line(tp__openai_sse *sse, tp_text part) {
  if (sse->line.size == 0) return line_ended(sse, part);
  tp__bytes_put_text(&sse->line, part);
  if (sse->line.failed) return false;
  bool goes_on = line_ended(sse, tp__bytes_text(&sse->line));
  tp__bytes_clear(&sse->line);
  return goes_on;
}

static size_t line_size(const char *bytes, size_t size) {
  size_t at = 0;
  while (at < size && bytes[at] != '\n' && bytes[at] != '\r') at++;
  return at;
}

bool tp__openai_sse_feed(tp__openai_sse *sse, const char *bytes, size_t size) {
  assert(sse->on_event && sse->event_bytes_max > 0);
  for (size_t at = 0; at < size;) {
    if (sse->after_cr && bytes[at] == '\n') at++;
    sse->after_cr = false;
    size_t part = line_size(bytes + at, size - at);
    if (at + part == size) {
      tp__bytes_put(&sse->line, bytes + at, part);
      sse->too_large = sse->line.size > sse->event_bytes_max;
      return !sse->line.failed && !sse->too_large;
    }
    sse->after_cr = bytes[at + part] == '\r';
    if (!take_line(sse, (tp_text){bytes + at, part})) return false;
    at += part + 1;
  }
  return true;
}

void tp__openai_sse_fini(tp__openai_sse *sse) {
  tp__bytes_fini(&sse->line);
  tp__bytes_fini(&sse->data);
}
