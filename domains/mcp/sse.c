/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/sse.h"

#include <assert.h>
#include <string.h>

#include "support/text.h"

enum { RETRY_MS_MAX = 60000, ID_BYTES_MAX = 1024 };

static void event_ended(tp__mcp_sse *sse) {
  if (sse->has_data) {
    tp_text data = tp__bytes_text(&sse->data);
    assert(data.size > 0);
    data.size--; /* drops the LF after the last line */
    sse->on_event(sse->ctx, data);
  }
  tp__bytes_clear(&sse->data);
  sse->has_data = false;
}

static int64_t number_of(tp_text text) {
  int64_t number = 0;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] < '0' || text.data[i] > '9' || number > RETRY_MS_MAX)
      return number > RETRY_MS_MAX ? RETRY_MS_MAX : 0;
    number = number * 10 + (text.data[i] - '0');
  }
  return number < RETRY_MS_MAX ? number : RETRY_MS_MAX;
}

static void line_ended(tp__mcp_sse *sse, tp_text line) {
  if (line.size == 0) {
    event_ended(sse);
    return;
  }
  const char *colon = memchr(line.data, ':', line.size);
  tp_text name = {line.data, colon ? (size_t)(colon - line.data) : line.size}, value = {"", 0};
  if (colon) value = (tp_text){colon + 1, line.size - name.size - 1};
  if (value.size > 0 && value.data[0] == ' ') value = (tp_text){value.data + 1, value.size - 1};
  if (tp__is_word(name, "data")) {
    tp__bytes_put_text(&sse->data, value);
    tp__bytes_put_string(&sse->data, "\n");
    sse->has_data = true;
  } else if (tp__is_word(name, "id") && value.size <= ID_BYTES_MAX && !memchr(value.data, '\0', value.size)) {
    tp__bytes_clear(&sse->id);
    tp__bytes_put_text(&sse->id, value);
  } else if (tp__is_word(name, "retry")) {
    sse->retry_ms = number_of(value);
  }
}

bool tp__mcp_sse_feed(tp__mcp_sse *sse, const char *bytes, size_t size) {
  assert(sse->on_event && sse->bytes_max > 0);
  for (size_t i = 0; i < size && !sse->is_broken; i++) {
    char c = bytes[i];
    bool is_second = sse->after_cr && c == '\n';
    sse->after_cr = c == '\r';
    if (is_second) continue;
    if (c == '\n' || c == '\r') {
      line_ended(sse, tp__bytes_text(&sse->line));
      tp__bytes_clear(&sse->line);
    } else {
      size_t end = i; /* takes the rest of the line at once */
      while (end < size && bytes[end] != '\n' && bytes[end] != '\r') end++;
      tp__bytes_put(&sse->line, bytes + i, end - i);
      i = end - 1;
    }
    sse->is_broken =
        sse->line.failed || sse->data.failed || sse->id.failed || sse->line.size + sse->data.size > sse->bytes_max;
  }
  return !sse->is_broken;
}

void tp__mcp_sse_fini(tp__mcp_sse *sse) {
  tp__bytes_fini(&sse->line);
  tp__bytes_fini(&sse->data);
  tp__bytes_fini(&sse->id);
}
